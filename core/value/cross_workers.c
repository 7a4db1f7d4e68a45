/* SPDX-License-Identifier: MIT */
/* A batch over the replicas of all workers, as one collective:
 *
 *  1. Each worker sums the dense values of its own replicas, on its devices, into host memory: a
 *     partial sum of the canonical tree, because its ranks are an aligned block.
 *  2. A barrier. A worker that has failed votes so, and all workers return its status.
 *  3. Partial sums become sums of all workers. Sparse values, and the values of an accumulation,
 *     are gathered by all workers; the first worker calls the application's function.
 *  4. MEAN divides, and each worker copies the results to its own destinations.
 */
#include <stdio.h>

#include "core/reduce/group_sum.h"
#include "core/reduce/tree.h"
#include "core/value/cross_batch.h"

struct workers_batch {
    struct copse_cross_batch *b;
    struct copse_group *g;
    /* words of the dense leaves: f32 ones first, then i32 ones, then means of i32, in the order of
       the batch */
    size_t floats, whole;
    uint32_t *words; /* [floats + whole] */
    uint32_t *room;
};

/* The next dense leaf behind w->leaf, in the order of the words, and where its words begin. */
struct walk {
    enum copse_need need;
    struct copse_leaf *leaf;
    size_t at, words;
};

static const struct walk first_dense = { .need = COPSE_NEED_F32 };

static bool next_dense(const struct workers_batch *a, struct walk *w)
{
    w->leaf = copse__leaf_next(a->b, w->need, w->leaf);
    while (!w->leaf && w->need != COPSE_NEED_WHOLE_MEAN) {
        w->need = w->need == COPSE_NEED_F32 ? COPSE_NEED_I32 : COPSE_NEED_WHOLE_MEAN;
        w->leaf = copse__leaf_next(a->b, w->need, NULL);
    }
    w->at += w->words;
    w->words = w->leaf ? (size_t)copse__elements(copse__leaf_first(w->leaf)->shape) : 0;
    w->words *= w->need == COPSE_NEED_WHOLE_MEAN ? 2 : 1;
    return w->leaf;
}

static void count_words(struct workers_batch *a)
{
    struct walk w = first_dense;
    while (next_dense(a, &w))
        *(w.need == COPSE_NEED_F32 ? &a->floats : &a->whole) += w.words;
}

/* ---- what this worker has ---- */

/* Dense leaves have their sum over this worker's replicas as their result, on the host. */
static copse_status sum_here(struct workers_batch *a)
{
    struct copse_cross_batch here = *a->b;
    struct copse_leaf *leaf = NULL;
    here.divisor = 0;
    here.to = (struct copse_ranks){ .at = { COPSE_HOST }, .count = 1 };
    if (here.st->replica_count > 1) {
        COPSE_TRY(copse__dense_reduce(&here, COPSE_NEED_F32));
        return copse__dense_reduce(&here, COPSE_NEED_I32);
    }
    while ((leaf = copse__leaf_next(&here, COPSE_NEED_DENSE, leaf)))
        COPSE_TRY(copse__value_at(here.st, leaf->value->items[0], COPSE_HOST, &leaf->result));
    return COPSE_OK;
}

static copse_status cross_workers_prepare(struct workers_batch *a)
{
    struct walk w = first_dense;
    const size_t words = a->floats + a->whole;
    a->words = copse__alloc(a->b->mem, words, 4);
    a->room = copse__alloc(a->b->mem, copse__group_sum_room(a->g, words), 4);
    COPSE_TRY(copse_need_memory(a->words && a->room, "reduce: what other workers have"));
    if (a->b->params->accumulate)
        return COPSE_OK;
    COPSE_TRY(sum_here(a));
    while (next_dense(a, &w)) {
        if (w.need == COPSE_NEED_WHOLE_MEAN) {
            COPSE_TRY(copse__whole_mean_put(a->b, w.leaf, a->words + w.at));
            continue;
        }
        COPSE_TRY(copse__array_read(w.leaf->result, a->words + w.at));
        copse_value_release(&w.leaf->result);
    }
    return COPSE_OK;
}

/* Types and shapes of the leaves: the first in words, all others as a hash. */
static void describe_form(const struct copse_cross_batch *b, char form[COPSE_FORM_BYTES])
{
    const struct copse_leaf *first = NULL;
    size_t count = 0;
    uint64_t hash = COPSE_HASH_START;
    for (size_t i = 0; i < b->leaves.count; i++) {
        const struct copse_leaf *leaf = &b->leaves.at[i];
        hash = copse__hash(hash, &leaf->need, sizeof leaf->need);
        if (leaf->need == COPSE_NEED_NOTHING)
            continue;
        const copse_shape s = copse__leaf_first(leaf)->shape;
        hash = copse__hash(hash, s.dims, s.rank * sizeof *s.dims);
        hash = copse__hash(hash, &s.rank, sizeof s.rank);
        first = count++ ? first : leaf;
    }
    if (!first) {
        snprintf(form, COPSE_FORM_BYTES, "nothing");
        return;
    }
    copse__form_text(first->need == COPSE_NEED_SPARSE
                         ? "sparse"
                         : copse_type_name(copse__leaf_first(first)->type),
                     copse__leaf_first(first)->shape, form);
    const size_t used = strlen(form);
    if (count > 1)
        snprintf(form + used, COPSE_FORM_BYTES - used, " and %zu more, %08x", count - 1,
                 (unsigned)hash);
}

/* ---- dense ---- */

/* The first worker's function gets the values of all replicas. */
static copse_status accumulate_leaf(struct workers_batch *a, const struct walk *w)
{
    copse_strategy *st = a->b->st;
    copse_value *all, *sum = NULL, *host = NULL;
    COPSE_TRY(copse__value_gather(st, w->leaf->value, "values of all replicas", COPSE_OK, &all));
    copse_status mine = COPSE_OK;
    if (a->g->worker == 0) {
        mine = copse__dense_accumulate(a->b, all->items, all->count, &sum);
        if (!mine)
            mine = copse__value_at(st, sum, COPSE_HOST, &host);
        if (!mine)
            mine = copse__array_read(host, a->words + w->at);
    }
    copse_value_release(&all);
    copse_value_release(&sum);
    copse_value_release(&host);
    return copse__group_broadcast(a->g, "what was accumulated", a->words + w->at, 4 * w->words,
                                  mine);
}

static copse_status sum_dense(struct workers_batch *a)
{
    struct walk w = first_dense;
    if (!a->b->params->accumulate)
        return copse__group_sum(a->g, a->words, a->floats, a->whole, a->room);
    while (next_dense(a, &w))
        COPSE_TRY(accumulate_leaf(a, &w));
    return COPSE_OK;
}

static copse_status give_dense(struct workers_batch *a)
{
    struct walk w = first_dense;
    const uint32_t divisor = a->b->divisor;
    if (divisor) {
        copse__mean_values(a->words, a->words, a->floats, divisor, false);
        if (a->b->params->accumulate)
            copse__mean_values(a->words + a->floats, a->words + a->floats, a->whole, divisor, true);
    }
    while (next_dense(a, &w)) {
        copse_value *host;
        if (w.need == COPSE_NEED_WHOLE_MEAN) {
            COPSE_TRY(copse__whole_mean_give(a->b, w.leaf, a->words + w.at));
            continue;
        }
        COPSE_TRY(copse_value_create_on(a->b->st, COPSE_HOST,
                                        divisor ? COPSE_F32 : copse__leaf_first(w.leaf)->type,
                                        copse__leaf_first(w.leaf)->shape, a->words + w.at, &host));
        const copse_status s = copse__value_spread(a->b->st, host, &a->b->to, &w.leaf->result);
        copse_value_release(&host);
        COPSE_TRY(s);
    }
    return COPSE_OK;
}

/* ---- sparse ---- */

/* A worker that fails at a leaf votes so at the next one. */
static copse_status sum_sparse(struct copse_cross_batch *b)
{
    struct copse_leaf *leaf = NULL;
    copse_status s = COPSE_OK;
    while ((leaf = copse__leaf_next(b, COPSE_NEED_SPARSE, leaf))) {
        copse_value *all;
        COPSE_TRY(copse__value_gather(b->st, leaf->value, "slices of all replicas", s, &all));
        s = copse__sparse_reduce(b->st, all->items, all->count, b->divisor, &b->to, &leaf->result);
        copse_value_release(&all);
    }
    return s;
}

/* ---- all of it ---- */

copse_status copse__batch_workers(struct copse_cross_batch *b, copse_status mine)
{
    struct workers_batch a = { .b = b, .g = &b->st->group };
    char op[32], what[COPSE_WHAT_BYTES], form[COPSE_FORM_BYTES];
    if (!mine &&
        !copse__leaf_next(b, COPSE_NEED_DENSE | COPSE_NEED_SPARSE | COPSE_NEED_WHOLE_MEAN, NULL))
        return COPSE_OK;
    count_words(&a);
    const size_t words = a.floats + a.whole;
    if (!mine)
        mine = cross_workers_prepare(&a);
    snprintf(op, sizeof op, "%s%s", b->params->accumulate && words > 0 ? "accumulated " : "",
             b->op == COPSE_REDUCE_MEAN ? "mean" : "sum");
    copse__call_text(op, b->subject, what);
    describe_form(b, form);
    copse_status s = copse__group_barrier_on(a.g, what, form, 4 * (uint64_t)words, mine);
    if (!s)
        s = sum_dense(&a);
    if (!s)
        s = sum_sparse(b);
    if (!s)
        s = give_dense(&a);
    copse__free(b->mem, a.words);
    copse__free(b->mem, a.room);
    return s;
}
