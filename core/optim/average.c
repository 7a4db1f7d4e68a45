/* SPDX-License-Identifier: MIT */
#include "core/optim/average.h"

#include "core/variable/storage.h"

/* Values, then averages. */
static copse_status read_all(struct copse_optimizer *o, copse_variable *const *list, size_t count,
                             uint32_t slot, float *values, float *averages)
{
    for (size_t i = 0; i < count; i++) {
        copse_variable *v = list[i];
        struct copse_block *block;
        COPSE_TRY(copse__storage(v)->read(v, 0, values));
        COPSE_TRY(copse_note(copse__slot_read(o, v, slot, &block),
                             "while reading the average of '%s'", v->name));
        memcpy(averages, block->host, (size_t)v->count * sizeof *averages);
        copse__block_release(&block);
        values += v->count;
        averages += v->count;
    }
    return COPSE_OK;
}

static copse_status write_all(copse_variable *const *list, size_t count, const float *values,
                              bool *is_torn)
{
    *is_torn = true;
    for (size_t i = 0; i < count; i++) {
        COPSE_TRY(copse_note(copse__storage(list[i])->assign(list[i], values),
                             "while writing '%s'; the trainer is not usable any more",
                             list[i]->name));
        values += list[i]->count;
    }
    *is_torn = false;
    return COPSE_OK;
}

copse_status copse__average_begin(struct copse_average *a, struct copse_optimizer *o,
                                  copse_variable *const *list, size_t count, uint32_t slot,
                                  uint64_t step, bool *is_torn)
{
    struct copse_mem *mem = &o->strategy->ctx->base.mem;
    size_t elements = 0;
    for (size_t i = 0; i < count; i++)
        elements += (size_t)list[i]->count;
    float *values = copse__alloc(mem, elements, 2 * sizeof *values);
    copse_status s = values ? read_all(o, list, count, slot, values, values + elements)
                            : copse_no_memory("trainer");
    if (!s && o->table->next(o, step + 1) > 1) /* it has updated: the slots hold averages */
        s = write_all(list, count, values + elements, is_torn);
    if (s == COPSE_OK)
        a->values = values;
    else if (s != COPSE_ERR_TIMEOUT) /* else a device may still write there */
        copse__free(mem, values);
    return s;
}

copse_status copse__average_end(struct copse_average *a, struct copse_optimizer *o,
                                copse_variable *const *list, size_t count, bool *is_torn)
{
    const copse_status s = write_all(list, count, a->values, is_torn);
    copse__average_free(a, &o->strategy->ctx->base.mem);
    return s;
}

void copse__average_free(struct copse_average *a, struct copse_mem *mem)
{
    copse__free(mem, a->values);
    a->values = NULL;
}
