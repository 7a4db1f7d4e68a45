/* SPDX-License-Identifier: MIT */
/* Reducing along an axis inside each replica's value first, then across the replicas of this
   worker, then across workers, on the host. */
#include <stdio.h>

#include "core/graph/type.h"
#include "core/reduce/host_sum.h"
#include "core/reduce/tree.h"
#include "core/value/cross_device.h"
#include "core/value/replica_run.h"

struct parts {
    copse_context *ctx;
    /* arrays or variables of one type, of equal shape apart from the axis */
    copse_value *const *at;
    copse_value *same[COPSE_MAX_REPLICAS]; /* what `at` points to where all replicas give one */
    size_t count;
    struct copse_group *g; /* of the workers that give something */
    copse_type type;
    uint32_t axis;
    size_t outer, inner;       /* elements before and behind the axis */
    uint64_t length;           /* of the axis, all parts together */
    copse_shape shape;         /* of the result */
    copse_type summed;         /* f32; i64 for i32 */
    size_t row;                /* bytes of outer * inner sums */
    unsigned char *sums;       /* [count][row] */
    unsigned char *of_workers; /* [workers][row + 8]: their sums, and then their length */
};

/* An array is what each replica of this worker gives; what is mirrored is the same on all
   workers. */
static copse_status find_parts(copse_strategy *st, copse_reduce_op op, copse_value *const *value,
                               struct parts *p)
{
    const copse_value *v = *value;
    const bool is_given = v->kind == COPSE_VALUE_PER_REPLICA || v->kind == COPSE_VALUE_ARRAY;
    p->g = is_given ? &st->group : &copse__group_of_one;
    p->at = v->kind == COPSE_VALUE_PER_REPLICA ? v->items : value;
    p->count = v->kind == COPSE_VALUE_PER_REPLICA ? v->count : 1;
    const uint32_t copies = p->g->workers > 1 ? st->replica_count : st->group.ranks;
    if (v->kind != COPSE_VALUE_PER_REPLICA && copies > 1 && op == COPSE_REDUCE_SUM)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "reduce: SUM of one value that is the same on all %u replicas; "
                          "give a per-replica value, or use MEAN",
                          copies);
    if (p->g->workers > 1 && v->kind == COPSE_VALUE_ARRAY) {
        p->at = p->same;
        for (p->count = 0; p->count < st->replica_count; p->count++)
            p->same[p->count] = *value;
    }
    for (size_t i = 0; i < p->count; i++)
        if (p->at[i]->kind != COPSE_VALUE_ARRAY && p->at[i]->kind != COPSE_VALUE_VARIABLE &&
            p->at[i]->kind != COPSE_VALUE_MIRRORED)
            return copse_fail(COPSE_ERR_ARGUMENT, "reduce: only arrays have an axis");
    return COPSE_OK;
}

static copse_status find_axis(int axis, struct parts *p)
{
    const copse_shape first = copse_value_shape(p->at[0]);
    const int rank = (int)first.rank;
    if (axis < -rank || axis >= rank)
        return copse_fail(COPSE_ERR_ARGUMENT, "reduce: axis %d of a value with %d axes", axis,
                          rank);
    p->axis = (uint32_t)(axis < 0 ? axis + rank : axis);
    p->type = copse_value_type(p->at[0]);
    p->summed = p->type == COPSE_I32 ? COPSE_I64 : COPSE_F32;
    p->outer = p->inner = 1;
    for (uint32_t d = 0; d < first.rank; d++) {
        if (d == p->axis)
            continue;
        p->shape.dims[p->shape.rank++] = first.dims[d];
        *(d < p->axis ? &p->outer : &p->inner) *= first.dims[d];
    }
    return COPSE_OK;
}

static copse_status check_parts(struct parts *p)
{
    const copse_shape first = copse_value_shape(p->at[0]);
    for (size_t i = 0; i < p->count; i++) {
        const copse_shape own = copse_value_shape(p->at[i]);
        copse_shape like = first;
        like.dims[p->axis] = own.rank == first.rank ? own.dims[p->axis] : 0;
        if (!copse__shape_equal(own, like) || copse_value_type(p->at[i]) != p->type)
            return copse_fail(COPSE_ERR_SHAPE,
                              "reduce: replica 0 has %s, replica %zu %s; they may only "
                              "differ along axis %u",
                              COPSE_SHAPE_TEXT(first), i, COPSE_SHAPE_TEXT(own), p->axis);
        p->length += own.dims[p->axis];
    }
    return COPSE_OK;
}

static copse_status sum_parts(struct parts *p)
{
    for (size_t i = 0; i < p->count; i++) {
        const size_t length = copse_value_shape(p->at[i]).dims[p->axis];
        void *values;
        COPSE_TRY(copse__value_to_host(p->at[i], &values));
        copse__axis_sum(values, p->type, p->outer, length, p->inner, p->sums + i * p->row);
        copse__free(&p->ctx->base.mem, values);
    }
    return COPSE_OK;
}

static void add_rows(const struct parts *p, unsigned char *rows, size_t count, size_t stride)
{
    void *at[COPSE_MAX_REPLICAS];
    for (size_t r = 0; r < count; r++)
        at[r] = rows + r * stride;
    copse__tree_rows(at, (uint32_t)count, p->outer * p->inner, p->summed);
}

static copse_status make_result(const struct parts *p, copse_reduce_op op, copse_value **out)
{
    const size_t elements = p->outer * p->inner;
    const bool is_int = p->type == COPSE_I32 && op == COPSE_REDUCE_SUM;
    struct copse_block *block;
    COPSE_TRY(copse__block_create(p->ctx, NULL, is_int ? COPSE_I32 : COPSE_F32, elements, &block));
    for (size_t i = 0; i < elements; i++) {
        const double sum = copse__type(p->summed)->get(p->sums, i);
        if (is_int) /* wraps around */
            ((uint32_t *)block->host)[i] = (uint32_t)((const uint64_t *)(const void *)p->sums)[i];
        else
            ((float *)block->host)[i] =
                (float)(op == COPSE_REDUCE_MEAN ? sum / (double)p->length : sum);
    }
    return copse__value_from_block(p->ctx, NULL, COPSE_HOST, p->shape, block, out);
}

static copse_status reduce_here(struct parts *p, copse_strategy *st, copse_reduce_op op,
                                copse_value *const *value, int axis)
{
    struct copse_mem *mem = &p->ctx->base.mem;
    COPSE_TRY(find_parts(st, op, value, p));
    COPSE_TRY(find_axis(axis, p));
    COPSE_TRY(check_parts(p));
    p->row = p->outer * p->inner * copse__type_bytes(p->summed);
    p->sums = copse__alloc(mem, p->count, p->row);
    p->of_workers = copse__alloc(mem, p->g->workers, p->row + sizeof p->length);
    COPSE_TRY(copse_need_memory(p->sums && p->of_workers, "reduce"));
    COPSE_TRY(sum_parts(p));
    add_rows(p, p->sums, p->count, p->row);
    return COPSE_OK;
}

/* This worker's sums become those of all, its length that of all. */
static copse_status add_workers(struct parts *p, copse_reduce_op op, copse_status mine)
{
    char what[sizeof((struct copse_header *)0)->what], form[COPSE_FORM_BYTES];
    const size_t row = p->row + sizeof p->length;
    unsigned char *own = mine ? NULL : p->of_workers + p->g->worker * row;
    snprintf(what, sizeof what, "%s along axis %u", op == COPSE_REDUCE_MEAN ? "mean" : "sum",
             p->axis);
    copse__form_text(copse_type_name(p->type), p->shape, form);
    COPSE_TRY(copse__group_barrier_on(p->g, what, form, row, mine));
    memcpy(own, p->sums, p->row);
    memcpy(own + p->row, &p->length, sizeof p->length);
    COPSE_TRY(copse__group_allgather_each(p->g, p->of_workers, row));
    p->length = 0;
    for (uint32_t v = 0; v < p->g->workers; v++) {
        uint64_t length;
        memcpy(&length, p->of_workers + v * row + p->row, sizeof length);
        p->length += length;
    }
    add_rows(p, p->of_workers, p->g->workers, row);
    memcpy(p->sums, p->of_workers, p->row);
    return COPSE_OK;
}

copse_status copse__reduce_axis(copse_strategy *st, copse_reduce_op op, copse_value *value,
                                int axis, copse_value **out)
{
    struct parts p = { .ctx = value->ctx, .g = &copse__group_of_one };
    copse_status s = reduce_here(&p, st, op, &value, axis);
    s = add_workers(&p, op, s);
    if (s == COPSE_OK && p.length == 0)
        s = copse_fail(COPSE_ERR_ARGUMENT, "reduce: no replica has an element along axis %u",
                       p.axis);
    if (s == COPSE_OK)
        s = make_result(&p, op, out);
    copse__free(&p.ctx->base.mem, p.sums);
    copse__free(&p.ctx->base.mem, p.of_workers);
    return s;
}
