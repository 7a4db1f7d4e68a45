/* SPDX-License-Identifier: MIT */
/* A batch over the replicas of all workers, as one collective:
 *
 *  1. Each worker sums the values of its own replicas, on its devices, into host memory: a partial sum of the
 *     canonical tree, because its ranks are an aligned block.
 *  2. A barrier. A worker that has failed votes so, and all workers return its status. Later steps fail only with the
 *     cluster, or after all data has been sent.
 *  3. Partial sums become sums of all workers. Slices of sparse values are gathered by all workers; the values of an
 *     accumulation are gathered by the first worker, which calls the application's function.
 *  4. MEAN divides, and each worker copies the results to its own destinations.
 */
#include <stdio.h>

#include "core/reduce/group_sum.h"
#include "core/reduce/tree.h"
#include "core/value/cross_batch.h"

struct workers_batch {
    struct copse_cross_batch *b;
    copse_strategy *st;
    struct copse_group *g;
    struct copse_mem *mem;
    size_t floats, whole;  /* words of the dense leaves: f32 ones first, in the order of the batch */
    uint32_t *words;       /* [floats + whole], of an accumulation [rank_total][floats + whole] */
    uint32_t *room;
    size_t sparse;         /* leaves */
    copse_value **slices;  /* [sparse][replica_count], on the host */
    uint32_t *slice_counts; /* [workers][sparse] */
    int32_t *rows;         /* of one leaf, of all workers */
    float *values;
};

static copse_status no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "reduce: no memory for what other workers have");
}

static bool is_accumulated(const struct workers_batch *a)
{
    return a->b->params->accumulate && a->floats + a->whole > 0;
}

static uint32_t divisor_of(const struct workers_batch *a)
{
    return a->b->op == COPSE_REDUCE_MEAN ? a->st->group.ranks : 0;
}

static copse_shape shape_of(const struct copse_leaf *leaf)
{
    return leaf->value->items[0]->shape;
}

/* The next dense leaf behind *i, f32 ones first, and where its words begin. */
struct walk {
    enum copse_need need;
    size_t i, at, words;
};

static const struct walk first_dense = { .need = COPSE_NEED_F32 };

static struct copse_leaf *next_dense(const struct workers_batch *a, struct walk *w)
{
    for (; w->need <= COPSE_NEED_I32; w->need++, w->i = 0)
        while (w->i < a->b->leaves.count) {
            struct copse_leaf *leaf = &a->b->leaves.at[w->i++];
            if (leaf->need != w->need)
                continue;
            w->at += w->words;
            w->words = (size_t)copse__elements(shape_of(leaf));
            return leaf;
        }
    return NULL;
}

static struct copse_leaf *next_sparse(const struct workers_batch *a, size_t *i)
{
    while (*i < a->b->leaves.count)
        if (a->b->leaves.at[(*i)++].need == COPSE_NEED_SPARSE)
            return &a->b->leaves.at[*i - 1];
    return NULL;
}

static void count_leaves(struct workers_batch *a)
{
    struct walk w = first_dense;
    while (next_dense(a, &w))
        *(w.need == COPSE_NEED_F32 ? &a->floats : &a->whole) += w.words;
    a->sparse = copse__batch_count(a->b, COPSE_NEED_SPARSE);
}

/* ---- what this worker has ---- */

/* Dense leaves have their sum over this worker's replicas as their result, on the host. */
static copse_status sum_here(struct workers_batch *a)
{
    struct copse_cross_batch here = *a->b;
    struct walk w = first_dense;
    struct copse_leaf *leaf;
    here.op = COPSE_REDUCE_SUM;
    here.destinations = (struct copse_ranks){ .at = { COPSE_HOST }, .count = 1 };
    if (a->st->replica_count > 1) {
        COPSE_TRY(copse__dense_reduce(&here, COPSE_NEED_F32));
        return copse__dense_reduce(&here, COPSE_NEED_I32);
    }
    while ((leaf = next_dense(a, &w)))
        COPSE_TRY(copse__value_at(a->st, leaf->value->items[0], COPSE_HOST, &leaf->result));
    return COPSE_OK;
}

static copse_status prepare_sums(struct workers_batch *a)
{
    struct walk w = first_dense;
    struct copse_leaf *leaf;
    COPSE_TRY(sum_here(a));
    while ((leaf = next_dense(a, &w))) {
        COPSE_TRY(copse__array_read(leaf->result, a->words + w.at));
        copse_value_release(&leaf->result);
    }
    return COPSE_OK;
}

/* Every replica's values in its own row. */
static copse_status prepare_parts(struct workers_batch *a)
{
    const size_t words = a->floats + a->whole;
    for (uint32_t r = 0; r < a->st->replica_count; r++) {
        struct walk w = first_dense;
        struct copse_leaf *leaf;
        while ((leaf = next_dense(a, &w))) {
            copse_value *part;
            COPSE_TRY(copse__value_at(a->st, leaf->value->items[r], COPSE_HOST, &part));
            const copse_status s =
                copse__array_read(part, a->words + (a->st->group.first + r) * words + w.at);
            copse_value_release(&part);
            COPSE_TRY(s);
        }
    }
    return COPSE_OK;
}

static copse_status prepare_slices(struct workers_batch *a)
{
    const uint32_t me = a->g->worker, replicas = a->st->replica_count;
    struct copse_leaf *leaf;
    size_t i = 0;
    for (size_t n = 0; (leaf = next_sparse(a, &i)); n++)
        for (uint32_t r = 0; r < replicas; r++) {
            copse_value **to = &a->slices[n * replicas + r];
            COPSE_TRY(copse__value_at(a->st, leaf->value->items[r], COPSE_HOST, to));
            a->slice_counts[me * a->sparse + n] += (*to)->slices;
        }
    return COPSE_OK;
}

static copse_status prepare(struct workers_batch *a)
{
    const size_t words = a->floats + a->whole;
    a->words = copse__alloc(a->mem, words * (is_accumulated(a) ? a->st->group.ranks : 1), 4);
    a->room = copse__alloc(a->mem, copse__group_sum_room(a->g, words), 4);
    a->slices = copse__alloc(a->mem, a->sparse * a->st->replica_count, sizeof(copse_value *));
    a->slice_counts = copse__alloc(a->mem, a->g->workers * a->sparse, 4);
    if (!a->words || !a->room || !a->slices || !a->slice_counts)
        return no_memory();
    COPSE_TRY(prepare_slices(a));
    return is_accumulated(a) ? prepare_parts(a) : prepare_sums(a);
}

/* Operation and subject: workers that differ in them are at different calls. */
static void describe_call(const struct workers_batch *a, char *what, size_t room)
{
    snprintf(what, room, "%s%s", is_accumulated(a) ? "accumulated " : "",
             a->b->op == COPSE_REDUCE_MEAN ? "mean" : "sum");
    if (a->b->subject) {
        const uint64_t hash = copse__hash(COPSE_HASH_START, a->b->subject, strlen(a->b->subject));
        snprintf(what + strlen(what), room - strlen(what), ", %08x, for '%.24s'", (unsigned)hash,
                 a->b->subject);
    }
}

/* Types and shapes of the leaves: the first in words, all others as a hash. */
static void describe_form(const struct workers_batch *a, char form[COPSE_FORM_BYTES])
{
    const struct copse_leaf *first = NULL;
    size_t count = 0;
    uint64_t hash = COPSE_HASH_START;
    for (size_t i = 0; i < a->b->leaves.count; i++) {
        const struct copse_leaf *leaf = &a->b->leaves.at[i];
        hash = copse__hash(hash, &leaf->need, sizeof leaf->need);
        if (leaf->need == COPSE_NEED_NOTHING)
            continue;
        const copse_shape s = shape_of(leaf);
        hash = copse__hash(hash, s.dims, s.rank * sizeof *s.dims);
        hash = copse__hash(hash, &s.rank, sizeof s.rank);
        first = count++ ? first : leaf;
    }
    if (!first) {
        snprintf(form, COPSE_FORM_BYTES, "nothing");
        return;
    }
    copse__form_text(first->need == COPSE_NEED_SPARSE ? "sparse"
                     : first->need == COPSE_NEED_I32  ? "i32"
                                                      : "f32",
                     shape_of(first), form);
    const size_t used = strlen(form);
    if (count > 1)
        snprintf(form + used, COPSE_FORM_BYTES - used, " and %zu more, %08x", count - 1, (unsigned)hash);
}

/* ---- dense ---- */

/* The first worker's function, on all parts of one leaf, at its root; into row 0. */
static copse_status accumulate_leaf(struct workers_batch *a, const struct copse_leaf *leaf,
                                    const struct walk *w, uint32_t root)
{
    const uint32_t count = a->st->group.ranks;
    copse_value *parts[COPSE_MAX_REPLICAS] = { NULL }, *sum = NULL, *host = NULL;
    copse_status s = COPSE_OK;
    for (uint32_t k = 0; k < count && !s; k++)
        s = copse_value_create_on(a->st, root,
                                  leaf->need == COPSE_NEED_I32 ? COPSE_I32 : COPSE_F32, shape_of(leaf),
                                  a->words + k * (a->floats + a->whole) + w->at, &parts[k]);
    if (!s)
        s = copse__dense_accumulate(a->b, parts, count, &sum);
    if (!s)
        s = copse__value_at(a->st, sum, COPSE_HOST, &host);
    if (!s)
        s = copse__array_read(host, a->words + w->at);
    for (uint32_t k = 0; k < count; k++)
        copse_value_release(&parts[k]);
    copse_value_release(&sum);
    copse_value_release(&host);
    return s;
}

static copse_status accumulate_first(struct workers_batch *a)
{
    struct walk w = first_dense;
    struct copse_leaf *leaf;
    struct copse_ranks to;
    uint32_t root;
    if (a->g->worker > 0)
        return COPSE_OK;
    copse__batch_destinations(a->b, &to);
    COPSE_TRY(copse__dense_root(a->b, &to, &root));
    while ((leaf = next_dense(a, &w)))
        COPSE_TRY(accumulate_leaf(a, leaf, &w, root));
    return COPSE_OK;
}

static copse_status accumulate(struct workers_batch *a)
{
    const size_t bytes = 4 * (a->floats + a->whole);
    size_t sizes[COPSE_MAX_WORKERS];
    for (uint32_t v = 0; v < a->g->workers; v++)
        sizes[v] = bytes * a->g->rank_counts[v];
    COPSE_TRY(copse__group_allgatherv(a->g, a->words, sizes));
    return copse__group_broadcast(a->g, "what was accumulated", a->words, bytes, accumulate_first(a));
}

static copse_status give_dense(struct workers_batch *a)
{
    struct walk w = first_dense;
    struct copse_leaf *leaf;
    struct copse_ranks to;
    const uint32_t divisor = divisor_of(a);
    copse__batch_destinations(a->b, &to);
    if (divisor) {
        copse__mean_values(a->words, a->words, a->floats, divisor, false);
        copse__mean_values(a->words + a->floats, a->words + a->floats, a->whole, divisor, true);
    }
    while ((leaf = next_dense(a, &w))) {
        const copse_type type =
            leaf->need == COPSE_NEED_I32 && !divisor ? COPSE_I32 : COPSE_F32;
        copse_value *host;
        COPSE_TRY(copse_value_create_on(a->st, COPSE_HOST, type, shape_of(leaf), a->words + w.at,
                                        &host));
        const copse_status s = copse__value_spread(a->st, host, &to, &leaf->result);
        copse_value_release(&host);
        COPSE_TRY(s);
    }
    return COPSE_OK;
}

/* ---- sparse ---- */

static uint64_t width_of(const struct copse_leaf *leaf)
{
    copse_shape slice = shape_of(leaf);
    slice.dims[0] = 1;
    return copse__elements(slice);
}

static size_t slices_of_all(const struct workers_batch *a, size_t n)
{
    size_t count = 0;
    for (uint32_t v = 0; v < a->g->workers; v++)
        count += a->slice_counts[v * a->sparse + n];
    return count;
}

static copse_status make_room(struct workers_batch *a)
{
    size_t rows = 0, values = 0, i = 0, each;
    struct copse_leaf *leaf;
    for (size_t n = 0; (leaf = next_sparse(a, &i)); n++) {
        if (!copse__mul(slices_of_all(a, n), (size_t)width_of(leaf), &each))
            return no_memory();
        rows = COPSE_MAX(rows, slices_of_all(a, n));
        values = COPSE_MAX(values, each);
    }
    a->rows = copse__alloc(a->mem, rows, sizeof *a->rows);
    a->values = copse__alloc(a->mem, values, sizeof *a->values);
    return a->rows && a->values ? COPSE_OK : no_memory();
}

/* Gather the slices of a leaf from all workers; this worker's are in place. */
static copse_status gather_leaf(struct workers_batch *a, const struct copse_leaf *leaf, size_t n)
{
    size_t sizes[COPSE_MAX_WORKERS], wide[COPSE_MAX_WORKERS];
    for (uint32_t v = 0; v < a->g->workers; v++) {
        sizes[v] = 4 * (size_t)a->slice_counts[v * a->sparse + n];
        wide[v] = sizes[v] * (size_t)width_of(leaf);
    }
    COPSE_TRY(copse__group_allgatherv(a->g, a->rows, sizes));
    return copse__group_allgatherv(a->g, a->values, wide);
}

static copse_status place_slices(struct workers_batch *a, const struct copse_leaf *leaf, size_t n)
{
    const uint32_t replicas = a->st->replica_count;
    size_t at = 0;
    for (uint32_t v = 0; v < a->g->worker; v++)
        at += a->slice_counts[v * a->sparse + n];
    for (uint32_t r = 0; r < replicas; r++) {
        const copse_value *own = a->slices[n * replicas + r];
        COPSE_TRY(copse_value_read_sparse(own, a->rows + at, a->values + at * width_of(leaf)));
        at += own->slices;
    }
    return COPSE_OK;
}

/* One sparse value for each worker, added up in the order of the workers as those of replicas are. */
static copse_status give_leaf(struct workers_batch *a, struct copse_leaf *leaf, size_t n)
{
    copse_value *of[COPSE_MAX_WORKERS] = { NULL };
    struct copse_ranks to;
    copse_status s = COPSE_OK;
    size_t at = 0;
    copse__batch_destinations(a->b, &to);
    for (uint32_t v = 0; v < a->g->workers && !s; v++) {
        const struct copse_sparse_params p = {
            .dense_shape = shape_of(leaf),
            .count = a->slice_counts[v * a->sparse + n],
            .indices = a->rows + at,
            .values = a->values + at * width_of(leaf),
        };
        s = copse__value_sparse(a->st->ctx, a->st, COPSE_HOST, &p, &of[v]);
        at += p.count;
    }
    if (!s)
        s = copse__sparse_reduce(a->st, of, a->g->workers, divisor_of(a), &to, &leaf->result);
    for (uint32_t v = 0; v < a->g->workers; v++)
        copse_value_release(&of[v]);
    return s;
}

/* A worker that fails still sends its slices to the others. */
static copse_status reduce_slices(struct workers_batch *a)
{
    char text[COPSE_ERROR_BYTES];
    size_t sizes[COPSE_MAX_WORKERS], i = 0;
    struct copse_leaf *leaf;
    copse_status mine = COPSE_OK;
    for (uint32_t v = 0; v < a->g->workers; v++)
        sizes[v] = 4 * a->sparse;
    COPSE_TRY(copse__group_allgatherv(a->g, a->slice_counts, sizes));
    COPSE_TRY(copse__group_barrier(a->g, "slices", 0, make_room(a)));
    for (size_t n = 0; (leaf = next_sparse(a, &i)); n++) {
        copse_status s = place_slices(a, leaf, n);
        COPSE_TRY(gather_leaf(a, leaf, n));
        if (!s)
            s = give_leaf(a, leaf, n);
        if (s && !mine) {
            mine = s;
            memcpy(text, copse_last_error(), sizeof text);
        }
    }
    if (mine)
        copse__fail_again(text);
    return mine;
}

/* ---- all of it ---- */

static copse_status exchange(struct workers_batch *a)
{
    if (is_accumulated(a))
        COPSE_TRY(accumulate(a));
    else
        COPSE_TRY(copse__group_sum(a->g, a->words, a->floats, a->whole, a->room));
    if (a->sparse > 0)
        COPSE_TRY(reduce_slices(a));
    return give_dense(a);
}

copse_status copse__batch_workers(struct copse_cross_batch *b, copse_status mine)
{
    struct workers_batch a = { .b = b, .st = b->st, .g = &b->st->group, .mem = b->mem };
    char what[sizeof ((struct copse_header *)0)->what], form[COPSE_FORM_BYTES];
    if (!mine && copse__batch_count(b, COPSE_NEED_NOTHING) == b->leaves.count)
        return COPSE_OK;
    count_leaves(&a);
    if (!mine)
        mine = prepare(&a);
    describe_call(&a, what, sizeof what);
    describe_form(&a, form);
    copse_status s = copse__group_barrier_on(a.g, what, form, 4 * (uint64_t)(a.floats + a.whole), mine);
    if (!s)
        s = exchange(&a);
    for (size_t i = 0; a.slices && i < a.sparse * a.st->replica_count; i++)
        copse_value_release(&a.slices[i]);
    copse__free(a.mem, a.words);
    copse__free(a.mem, a.room);
    copse__free(a.mem, a.slices);
    copse__free(a.mem, a.slice_counts);
    copse__free(a.mem, a.rows);
    copse__free(a.mem, a.values);
    return s;
}
