/* SPDX-License-Identifier: MIT */
/* What --precision costs on each device: kernels that do not read 16 bits get operands that were
   converted and widened again. */
#include <stdio.h>
#include <string.h>

#include "copse/device/tuning.h"

#include "tools/train/train_run.h"

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Whether a variant reads operands of the type. */
static bool train_precision_reads(const char *variant, copse_type type)
{
    return ends_with(variant, "half") || (type == COPSE_F16 && ends_with(variant, "cooperative"));
}

/* --kernel matmul=half */
static bool is_forced(const char *kernels, copse_type type)
{
    const char *at = kernels ? strstr(kernels, "matmul=") : NULL;
    char variant[40];
    snprintf(variant, sizeof variant, "%.*s", at ? (int)strcspn(at, ",") : 0, at ? at : "");
    return train_precision_reads(variant, type);
}

/* Whether such a variant was measured as the fastest for some size. bf16 has no sizes of its
   own. */
static bool is_measured(const struct copse_tuning_entry *list, size_t count, copse_type type)
{
    for (size_t i = 0; type == COPSE_F16 && i < count; i++) {
        const struct copse_tuning_entry *e = &list[i];
        bool is_fastest = false; /* there is another one to compare with */
        if (strcmp(e->family, "matmul") != 0 || !ends_with(e->size_class, "_f16") ||
            !train_precision_reads(e->variant, type))
            continue;
        for (size_t k = 0; k < count; k++) {
            if (k == i || strcmp(list[k].family, "matmul") != 0 ||
                strcmp(list[k].size_class, e->size_class) != 0)
                continue;
            is_fastest = list[k].rate <= e->rate || train_precision_reads(list[k].variant, type);
            if (!is_fastest)
                break;
        }
        if (is_fastest)
            return true;
    }
    return false;
}

static bool was_shown(const struct run *r, uint32_t replica)
{
    for (uint32_t i = 0; i < replica; i++)
        if (strcmp(copse_strategy_device(r->strategy, i)->id,
                   copse_strategy_device(r->strategy, replica)->id) == 0)
            return true;
    return false;
}

copse_status run_show_precision(const struct run *r)
{
    const copse_type type = (copse_type)r->settings.precision.at->value;
    if (type == COPSE_F32 || !is_talking(r) || is_forced(r->settings.kernels, type))
        return COPSE_OK;
    for (uint32_t i = 0; i < copse_strategy_replicas(r->strategy); i++) {
        const char *id = copse_strategy_device(r->strategy, i)->id;
        const struct copse_tuning_entry *list;
        size_t count;
        if (was_shown(r, i))
            continue;
        COPSE_TRY(copse_device_tuning(r->ctx, id, &list, &count));
        if (!is_measured(list, count, type))
            printf("         %s on %s: no chosen kernel reads 16 bits, so products widen their "
                   "operands again: slower than f32; %s\n",
                   r->settings.precision.at->name, id,
                   type == COPSE_F16 ? "on a GPU `copse tune` may find one"
                                     : "--kernel matmul=half forces one");
    }
    return COPSE_OK;
}
