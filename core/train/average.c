/* SPDX-License-Identifier: MIT */
/* Variables take the values of their moving averages, and get their own back. Both are kept in host memory, so that the
   bits are the same. */
#include "copse/train/average.h"
#include "core/train/trainer.h"
#include "core/variable/storage.h"

static size_t elements_of(const copse_trainer *t)
{
    size_t sum = 0;
    for (size_t i = 0; i < t->trained.count; i++)
        sum += (size_t)t->trained.at[i]->count;
    return sum;
}

/* What the rule updates has been updated: the slots hold averages. */
static bool has_updated(const copse_trainer *t)
{
    return t->optimizer->table->next(t->optimizer, t->step + 1) > 1;
}

static copse_status check(const copse_trainer *t, uint32_t *slot)
{
    if (t->average.values)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: its variables have their averages already");
    if (!copse__slot_find(t->optimizer, "average", slot))
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: the optimizer keeps no averages: set `average` of its settings");
    return t->optimizer->table->is_sharing
               ? copse_fail(COPSE_ERR_UNSUPPORTED, "trainer: parameter servers have the variables, and other workers would read "
                                                   "the averages: read the slots \"average\" instead")
               : COPSE_OK;
}

/* Values, then averages. */
static copse_status read_all(copse_trainer *t, uint32_t slot, float *values)
{
    float *averages = values + elements_of(t);
    for (size_t i = 0; i < t->trained.count; i++) {
        copse_variable *v = t->trained.at[i];
        struct copse_block *block;
        COPSE_TRY(copse__storage(v)->read(v, 0, values));
        COPSE_TRY(copse_note(copse__slot_read(t->optimizer, v, slot, &block), "while reading the average of '%s'", v->name));
        memcpy(averages, block->host, (size_t)v->count * sizeof *averages);
        copse__block_release(&block);
        values += v->count;
        averages += v->count;
    }
    return COPSE_OK;
}

/* The trainer is not usable until all of it is written. */
static copse_status write_all(copse_trainer *t, const float *values)
{
    t->is_failed = true;
    for (size_t i = 0; i < t->trained.count; i++) {
        copse_variable *v = t->trained.at[i];
        COPSE_TRY(copse_note(copse__storage(v)->assign(v, values), "while writing '%s'; the trainer is not usable any more",
                             v->name));
        values += v->count;
    }
    t->is_failed = false;
    return COPSE_OK;
}

static copse_status begin(copse_trainer *t)
{
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    const size_t count = elements_of(t);
    uint32_t slot;
    COPSE_TRY(check(t, &slot));
    float *values = copse__alloc(mem, count, 2 * sizeof *values);
    copse_status s = values ? read_all(t, slot, values) : copse_no_memory("trainer");
    if (!s && has_updated(t))
        s = write_all(t, values + count);
    if (s == COPSE_OK)
        t->average.values = values;
    else if (s != COPSE_ERR_TIMEOUT) /* else a device may still write there */
        copse__free(mem, values);
    return s;
}

copse_status copse_trainer_average_begin(copse_trainer *t)
{
    COPSE_TRY(copse_need("trainer", t));
    COPSE_TRY(copse__callback_check("copse_trainer_average_begin", t));
    COPSE_TRY(copse__trainer_check(t));
    COPSE_TRY(copse__audit_settle(t));
    return copse__workers_report(t, begin(t));
}

copse_status copse_trainer_average_end(copse_trainer *t)
{
    COPSE_TRY(copse_need("trainer", t));
    COPSE_TRY(copse__callback_check("copse_trainer_average_end", t));
    if (!t->average.values)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: its variables have their own values: call "
                                              "copse_trainer_average_begin before");
    COPSE_TRY(copse__trainer_check(t));
    const copse_status s = write_all(t, t->average.values);
    copse__average_free(t);
    return copse__workers_report(t, s);
}

copse_status copse__average_refuse(const copse_trainer *t)
{
    return t->average.values ? copse_fail(COPSE_ERR_ARGUMENT, "trainer: its variables have their averages: call "
                                                              "copse_trainer_average_end first")
                             : COPSE_OK;
}

void copse__average_free(copse_trainer *t)
{
    copse__free(&t->strategy->ctx->base.mem, t->average.values);
    t->average.values = NULL;
}

COPSE_PROPERTY(bool, copse_trainer_is_averaged, copse_trainer, x->average.values != NULL, false)
