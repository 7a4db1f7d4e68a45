/* SPDX-License-Identifier: MIT */
/* Saving a trainer's variables as safetensors. */
#include <stdio.h>

#include "copse/checkpoint.h"
#include "core/train/trainer.h"

static copse_status collect(copse_strategy *st, struct copse_named_array *arrays, float *values)
{
    size_t next = 0;
    for (size_t i = 0; i < st->variables.count; i++) {
        copse_variable *v = st->variables.at[i];
        COPSE_TRY(copse_variable_read(v, 0, values + next));
        arrays[i].name = v->name;
        arrays[i].array.type = COPSE_ELEMENT_F32;
        arrays[i].array.rank = v->tensor.shape.rank;
        for (uint32_t d = 0; d < v->tensor.shape.rank; d++)
            arrays[i].array.shape[d] = v->tensor.shape.dims[d];
        arrays[i].array.data = values + next;
        next += (size_t)v->count;
    }
    return COPSE_OK;
}

copse_status copse_trainer_save(copse_trainer *t, const char *path)
{
    if (!t || !path || !*path)
        return copse_fail(COPSE_ERR_ARGUMENT, "save: needs a trainer and a path");
    if (t->is_failed)
        return copse_fail(COPSE_ERR_DEVICE_LOST, "save: the last update was cut short; the "
                                                 "parameters are not a whole step's");
    copse_strategy *st = t->strategy;
    struct copse_mem *mem = &st->ctx->base.mem;
    size_t elements = 0;
    for (size_t i = 0; i < st->variables.count; i++)
        elements += (size_t)st->variables.at[i]->count;
    char step[24];
    snprintf(step, sizeof step, "%llu", (unsigned long long)t->step);
    const struct copse_metadata metadata[] = { { "producer", "copse" }, { "step", step } };
    struct copse_named_array *arrays = copse__alloc(mem, st->variables.count, sizeof *arrays);
    float *values = copse__alloc(mem, elements, sizeof *values);
    copse_status s = arrays && values ? collect(st, arrays, values)
                                      : copse_fail(COPSE_ERR_NO_MEMORY, "save: no memory");
    if (s == COPSE_OK)
        s = copse_checkpoint_write(st->ctx, path,
                                   &(struct copse_checkpoint_params){
                                       .arrays = arrays,
                                       .array_count = st->variables.count,
                                       .metadata = metadata,
                                       .metadata_count = COPSE_COUNT(metadata),
                                   });
    if (s != COPSE_ERR_TIMEOUT) /* a read may still land there */
        copse__free(mem, values);
    copse__free(mem, arrays);
    return s;
}
