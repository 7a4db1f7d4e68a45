/* SPDX-License-Identifier: MIT */
/* Texts about a wrong result of a launch. */
#include <stdio.h>

#include "core/train/trainer.h"

static bool is_in(const struct copse_binding *range, const copse_buffer *buffer, size_t byte)
{
    return range->buffer == buffer && byte >= range->offset && byte - range->offset < range->size;
}

const char *copse__fault_name(const copse_trainer *t, uint32_t replica, const struct copse_probe_fault *f,
                              char text[COPSE_FAULT_NAME])
{
    const struct copse_audit *a = &t->watches.audit;
    const size_t byte = f->result.offset + f->element * COPSE_WORD_BYTES;
    for (size_t i = 0; i < a->count; i++) {
        const struct copse_audit_range *range = &a->ranges[replica * a->count + i];
        const bool is_gradient = is_in(&range->gradient, f->result.buffer, byte);
        const struct copse_binding *in = is_gradient ? &range->gradient : &range->values;
        if (!is_in(in, f->result.buffer, byte))
            continue;
        snprintf(text, COPSE_FAULT_NAME, "%s of '%.128s', element %zu", is_gradient ? "the gradient" : "the new values",
                 a->variables[i].name, (byte - in->offset) / COPSE_WORD_BYTES);
        return text;
    }
    if (f->result.buffer == t->reports.buffers[replica])
        snprintf(text, COPSE_FAULT_NAME, "%s", byte < COPSE_REPORT_STRIDE ? "the loss" : "a report of the loss function");
    else
        snprintf(text, COPSE_FAULT_NAME, "element %zu of an intermediate result", f->element);
    return text;
}
