/* SPDX-License-Identifier: MIT */
/* Gradient scaling as torch.cuda.amp.GradScaler: the scale shrinks after an update that is skipped,
   and grows after a number of others in a row. As in LossScaleOptimizer of TensorFlow it is never
   below 1. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/optim/optimizer.h"

float copse__scaling_of(const struct copse_optimizer *o)
{
    return o->scaling.scale > 0.0f ? o->scaling.scale : 1.0f;
}

static void scaling_advance(struct copse_optimizer *o, bool is_finite)
{
    const struct copse_optimizer_params *p = &o->rule.params;
    struct copse_scaling *s = &o->scaling;
    if (p->loss_scale_interval == 0)
        return;
    if (!is_finite) {
        s->scale = fmaxf(s->scale * p->loss_scale_backoff, 1.0f);
        s->good = 0;
    } else if (++s->good >= p->loss_scale_interval) {
        if (s->scale * p->loss_scale_growth <= 0x1p126f)
            s->scale *= p->loss_scale_growth;
        s->good = 0;
    }
}

void copse__scaling_note(struct copse_optimizer *o, bool is_finite)
{
    struct copse_scaling *s = &o->scaling;
    s->is_skipped = !is_finite;
    s->skipped += !is_finite;
    s->has_updated = true;
    s->has_skipped |= !is_finite;
    if (!o->name[0])
        copse__scaling_end(o);
}

void copse__scaling_end(struct copse_optimizer *o)
{
    struct copse_scaling *s = &o->scaling;
    if (s->has_updated && s->scale > 0.0f)
        scaling_advance(o, !s->has_skipped);
    s->has_updated = s->has_skipped = false;
}

void copse__scaling_write(const struct copse_optimizer *o, char text[COPSE_SCALING_TEXT])
{
    snprintf(text, COPSE_SCALING_TEXT, "%.9g %u %llu", (double)o->scaling.scale, o->scaling.good,
             (unsigned long long)o->scaling.skipped);
}

copse_status copse__scaling_read(const char *path, const char *text, struct copse_scaling *out)
{
    unsigned long long skipped;
    int end = 0;
    *out = (struct copse_scaling){ .scale = 0.0f };
    if (!text)
        return COPSE_OK;
    if (sscanf(text, "%f %u %llu%n", &out->scale, &out->good, &skipped, &end) != 3 ||
        text[end] != '\0' ||
        !(out->scale == 0.0f || (out->scale >= 1.0f && out->scale <= 0x1p126f)))
        return copse_fail(COPSE_ERR_FORMAT,
                          "checkpoint: %s: \"%s\" is no state of gradient scaling", path, text);
    out->skipped = skipped;
    return COPSE_OK;
}

void copse__scaling_set(struct copse_optimizer *o, const struct copse_scaling *from)
{
    const float scale =
        from->scale > 0.0f && o->scaling.scale > 0.0f && o->rule.params.loss_scale_interval > 0
            ? from->scale
            : o->rule.params.loss_scale;
    o->scaling =
        (struct copse_scaling){ .scale = scale, .good = from->good, .skipped = from->skipped };
}
