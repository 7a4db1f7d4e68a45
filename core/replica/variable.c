/* SPDX-License-Identifier: MIT */
/* Mirrored variables: making them, their initial values, reading and assigning. */
#include <math.h>

#include "core/base/random.h"
#include "core/replica/replica.h"

static void initialize(copse_variable *v, const struct copse_variable_params *p)
{
    const copse_shape s = v->tensor.shape;
    const double fan_in = s.rank ? s.dims[0] : 1, fan_out = s.rank ? s.dims[s.rank - 1] : 1;
    const float scale = p->scale == 0.0f ? 1.0f : p->scale;
    const uint64_t name = copse__hash(COPSE_HASH_START, v->name, strlen(v->name));
    struct copse_stream stream;
    copse__stream_init(&stream, p->seed ^ name, 0);
    const float glorot = (float)sqrt(6.0 / (fan_in + fan_out)), he = (float)sqrt(2.0 / fan_in);
    for (uint64_t i = 0; i < v->count; i++) {
        float x = 0.0f;
        if (p->values)
            x = p->values[i];
        else if (p->initializer == COPSE_INIT_ONES)
            x = scale;
        else if (p->initializer == COPSE_INIT_GLOROT_UNIFORM)
            x = scale * glorot * (2.0f * copse__stream_unit(&stream) - 1.0f);
        else if (p->initializer == COPSE_INIT_HE_NORMAL)
            x = scale * he * copse__stream_normal(&stream);
        else if (p->initializer == COPSE_INIT_NORMAL)
            x = scale * copse__stream_normal(&stream);
        v->initial[i] = x;
    }
}

static copse_status check(const copse_strategy *st, const struct copse_variable_params *p)
{
    if (!p->name || !*p->name)
        return copse_fail(COPSE_ERR_ARGUMENT, "variable: needs a name");
    if (p->shape.rank > COPSE_MAX_RANK || copse__elements(p->shape) == 0 ||
        copse__elements(p->shape) >= (uint64_t)1 << 31)
        return copse_fail(COPSE_ERR_ARGUMENT, "variable '%s': needs 1 to 2^31-1 elements", p->name);
    if ((int)p->initializer < 0 || p->initializer > COPSE_INIT_NORMAL)
        return copse_fail(COPSE_ERR_ARGUMENT, "variable '%s': unknown initializer %d", p->name,
                          (int)p->initializer);
    if (st->store.exchange)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "variable '%s': make all variables before the first trainer", p->name);
    for (size_t i = 0; i < st->variables.count; i++)
        if (strcmp(st->variables.at[i]->name, p->name) == 0)
            return copse_fail(COPSE_ERR_ARGUMENT, "variable '%s': the name is taken", p->name);
    return COPSE_OK;
}

copse_status copse_variable_create(copse_strategy *st, const struct copse_variable_params *p,
                                   copse_variable **out)
{
    if (!st || !p || !out)
        return copse_fail(COPSE_ERR_ARGUMENT, "variable: strategy, params or result is NULL");
    *out = NULL;
    COPSE_TRY(check(st, p));
    struct copse_mem *mem = &st->ctx->base.mem;
    copse_variable *v = copse__alloc(mem, 1, sizeof *v);
    if (v) {
        v->count = copse__elements(p->shape);
        v->name = copse__strdup(mem, p->name);
        v->initial = copse__alloc(mem, (size_t)v->count, sizeof *v->initial);
    }
    if (!v || !v->name || !v->initial || !COPSE_PUSH(mem, &st->variables, v)) {
        if (v) {
            copse__free(mem, v->name);
            copse__free(mem, v->initial);
        }
        copse__free(mem, v);
        return copse_fail(COPSE_ERR_NO_MEMORY, "variable '%s': no memory", p->name);
    }
    v->strategy = st;
    v->tensor.op = &copse_op_variable;
    v->tensor.type = COPSE_F32;
    v->tensor.shape = p->shape;
    v->tensor.name = v->name;
    v->tensor.needs_gradient = true;
    v->tensor.variable = v;
    initialize(v, p);
    *out = v;
    return COPSE_OK;
}

copse_tensor *copse_variable_tensor(copse_variable *v)
{
    return &v->tensor;
}

const char *copse_variable_name(const copse_variable *v)
{
    return v->name;
}

copse_shape copse_variable_shape(const copse_variable *v)
{
    return v->tensor.shape;
}

copse_status copse_variable_read(copse_variable *v, uint32_t replica, float *values)
{
    if (!v || !values || replica >= v->strategy->replica_count)
        return copse_fail(COPSE_ERR_ARGUMENT, "variable: no such replica, or nowhere to read to");
    const size_t bytes = (size_t)v->count * sizeof(float);
    if (v->initial) {
        memcpy(values, v->initial, bytes);
        return COPSE_OK;
    }
    const struct copse_binding at = copse__variable_values(v, replica);
    copse_queue *q = v->strategy->replicas[replica].queue;
    COPSE_TRY(copse_queue_read(q, at.buffer, at.offset, values, bytes));
    return copse_note(copse_queue_finish(q), "while reading variable '%s'", v->name);
}

copse_status copse_variable_assign(copse_variable *v, const float *values)
{
    if (!v || !values)
        return copse_fail(COPSE_ERR_ARGUMENT, "variable: nothing to assign");
    const size_t bytes = (size_t)v->count * sizeof(float);
    if (v->initial) {
        memcpy(v->initial, values, bytes);
        return COPSE_OK;
    }
    for (uint32_t r = 0; r < v->strategy->replica_count; r++) {
        const struct copse_binding at = copse__variable_values(v, r);
        copse_queue *q = v->strategy->replicas[r].queue;
        COPSE_TRY(copse_queue_write(q, at.buffer, at.offset, values, bytes));
        COPSE_TRY(copse_queue_finish(q));
    }
    return COPSE_OK;
}
