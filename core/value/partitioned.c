/* SPDX-License-Identifier: MIT */
/* Partitioned variables: a list of ordinary ones, cut and joined on the host. */
#include <stdio.h>

#include "copse/distribute/partition.h"
#include "core/value/replica_run.h"

struct copse_partitioned {
    copse_strategy *strategy; /* retained */
    copse_shape shape;
    copse_type type;
    copse_variable **parts;
    size_t count;
};

typedef copse_status change_fn(copse_variable *v, copse_value *value);

static struct copse_mem *mem_of(const copse_partitioned *p)
{
    return &p->strategy->ctx->base.mem;
}

/* ---- making ---- */

static copse_status make_part(copse_partitioned *p, const struct copse_variable_params *whole,
                              const uint32_t *values, uint32_t shards)
{
    struct copse_variable_params params = *whole;
    uint32_t first;
    const size_t room = strlen(whole->name) + 24;
    const uint32_t i = (uint32_t)p->count, all = whole->shape.rank > 0 ? whole->shape.dims[0] : 1;
    const uint32_t rows = copse_partition_rows(all, shards, i, &first);
    char *name = copse__alloc(mem_of(p), room, 1);
    COPSE_TRY(copse_need_memory(name, "variable '%s'", whole->name));
    snprintf(name, room, "%s/part_%u", whole->name, i);
    params.name = name;
    params.values = values + first * copse__row_elements(whole->shape);
    if (params.shape.rank > 0)
        params.shape.dims[0] = rows;
    const copse_status s = copse_variable_create(p->strategy, &params, &p->parts[i]);
    copse__free(mem_of(p), name);
    p->count += s == COPSE_OK;
    return s;
}

/* Of replicas that make them together the first one does it. */
static bool is_made_before(void)
{
    const struct copse_frame *f = copse__context_top();
    return f && f->handle && f->rank > 0;
}

/* Once all are there. */
static copse_status bind_parts(copse_partitioned *p, const struct copse_variable_params *params)
{
    const size_t length = strlen(params->name) + 1;
    uint64_t first = 0;
    if (is_made_before() || p->parts[0]->whole)
        return COPSE_OK;
    struct copse_whole *whole = copse__alloc(mem_of(p), 1, sizeof *whole + length);
    COPSE_TRY(copse_need_memory(whole, "variable '%s'", params->name));
    whole->shape = params->shape;
    whole->parts = (uint32_t)p->count;
    memcpy(whole->name, params->name, length);
    for (uint32_t i = 0; i < p->count; i++) {
        p->parts[i]->part = i;
        p->parts[i]->part_first = first;
        p->parts[i]->whole = whole;
        first += p->parts[i]->count;
    }
    return COPSE_OK;
}

static copse_status make_parts(copse_partitioned *p, const struct copse_variable_params *whole,
                               uint32_t shards)
{
    uint32_t *values = NULL;
    COPSE_TRY(copse__variable_first_values(p->strategy, whole, (void **)&values));
    p->parts = copse__alloc(mem_of(p), shards, sizeof(copse_variable *));
    copse_status s = copse_need_memory(p->parts, "variable '%s'", whole->name);
    while (!s && p->count < shards)
        s = make_part(p, whole, values, shards);
    if (!s)
        s = bind_parts(p, whole);
    copse__free(mem_of(p), values);
    return s;
}

copse_status copse_partitioned_create(copse_strategy *st,
                                      const struct copse_variable_params *params, uint32_t shards,
                                      copse_partitioned **out)
{
    COPSE_TRY(copse_need("partitioned variable", st, params, out));
    *out = NULL;
    COPSE_TRY(copse__name_check(params->name, "partitioned variable"));
    COPSE_TRY(copse_no_reserved(copse_variable_params, params));
    if (params->is_sparse)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "partitioned variable '%s': its parts are not sparse: make one sparse "
                          "variable, or set is_sparse to false",
                          params->name);
    if (shards == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "partitioned variable '%s': 0 parts", params->name);
    COPSE_TRY(copse__require_device(st, "partitioned variable"));
    if (!is_made_before())
        COPSE_TRY(copse__name_is_free(st, params->name));
    copse_partitioned *p = copse__alloc(&st->ctx->base.mem, 1, sizeof *p);
    COPSE_TRY(copse_need_memory(p, "variable '%s'", params->name));
    p->strategy = copse_strategy_retain(st);
    p->shape = params->shape;
    p->type = params->type;
    const copse_status s =
        make_parts(p, params, copse_partition_fixed_shards(params->shape, shards));
    if (s) {
        copse_partitioned_release(&p);
        return copse_note(s, "while making the parts of variable '%s'", params->name);
    }
    *out = p;
    return COPSE_OK;
}

void copse_partitioned_release(copse_partitioned **at)
{
    copse_partitioned *p = at ? *at : NULL;
    if (!p)
        return;
    *at = NULL;
    copse_strategy *st = p->strategy;
    copse__free(mem_of(p), p->parts);
    copse__free(mem_of(p), p);
    copse_strategy_release(&st);
}

void copse_partitioned_parts(const copse_partitioned *p, copse_variable *const **list,
                             size_t *count)
{
    if (list)
        *list = p ? p->parts : NULL;
    if (count)
        *count = p ? p->count : 0;
}

COPSE_PROPERTY(copse_shape, copse_partitioned_shape, copse_partitioned, x->shape, COPSE_SCALAR)

/* ---- reading and changing ---- */

static copse_status read_parts(copse_partitioned *p, uint32_t *to)
{
    for (size_t i = 0; i < p->count; i++) {
        copse_value *part;
        COPSE_TRY(copse_read(p->parts[i], &part));
        const copse_status s = copse_value_read(part, to);
        if (s != COPSE_ERR_TIMEOUT) /* else the device may still write there */
            copse_value_release(&part);
        COPSE_TRY(s);
        to += p->parts[i]->count;
    }
    return COPSE_OK;
}

copse_status copse_partitioned_read(copse_partitioned *p, copse_value **out)
{
    COPSE_TRY(copse_need("partitioned variable", p, out));
    *out = NULL;
    uint32_t *values = copse__alloc(mem_of(p), (size_t)copse__elements(p->shape), sizeof *values);
    COPSE_TRY(copse_need_memory(values, "partitioned variable"));
    copse_status s = read_parts(p, values);
    if (!s)
        s = copse_value_create(p->strategy->ctx, p->type, p->shape, values, out);
    copse__free_read(mem_of(p), values, s);
    return s;
}

static copse_status change_parts(copse_partitioned *p, change_fn *fn, const uint32_t *values)
{
    for (size_t i = 0; i < p->count; i++) {
        const copse_shape shape = copse_variable_shape(p->parts[i]);
        copse_value *part;
        COPSE_TRY(copse_value_create(p->strategy->ctx, p->type, shape, values, &part));
        const copse_status s = fn(p->parts[i], part);
        copse_value_release(&part);
        COPSE_TRY(s);
        values += p->parts[i]->count;
    }
    return COPSE_OK;
}

static copse_status partitioned_change(copse_partitioned *p, change_fn *fn, copse_value *value)
{
    void *values;
    COPSE_TRY(copse_need("partitioned variable", p, value));
    if (copse_value_type(value) != p->type ||
        !copse__shape_equal(copse_value_shape(value), p->shape))
        return copse_fail(COPSE_ERR_SHAPE, "partitioned variable: is %s %s, the value is %s %s",
                          copse_type_name(p->type), COPSE_SHAPE_TEXT(p->shape),
                          copse_type_name(copse_value_type(value)),
                          COPSE_SHAPE_TEXT(copse_value_shape(value)));
    COPSE_TRY(copse__value_to_host(value, &values));
    const copse_status s = change_parts(p, fn, values);
    copse__free(&value->ctx->base.mem, values);
    return s;
}

copse_status copse_partitioned_assign(copse_partitioned *p, copse_value *value)
{
    return partitioned_change(p, copse_assign, value);
}

copse_status copse_partitioned_assign_add(copse_partitioned *p, copse_value *value)
{
    return partitioned_change(p, copse_assign_add, value);
}

copse_status copse_partitioned_assign_sub(copse_partitioned *p, copse_value *value)
{
    return partitioned_change(p, copse_assign_sub, value);
}
