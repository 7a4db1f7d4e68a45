/* SPDX-License-Identifier: MIT */
/* Reductions of blocks, chunk by chunk: contributions are copied into rows of the owner's inbox,
 * the owner sums the rows, and the result is copied to its destinations (reducer.h). An owner may
 * be the host: its inbox is host memory.
 *
 * Queues are in order, so all chunks use the same inbox. Host memory of the inbox is written again
 * only after the result of the chunk before was copied.
 */
#include "core/reduce/value/value_reduce.h"
#include "core/reduce/tree.h"
#include "core/reduce/value/link.h"

#define PLANS         16 /* that are kept */
#define MESSAGE_BYTES ((size_t)1 << 22)

struct copse_value_reducer {
    copse_reducer *r;
    struct copse_mem *mem;
    struct copse_host_memory host;  /* the inbox of the host */
    struct copse_plan plans[PLANS]; /* the newest first */
    unsigned plans_made;
    bool has_links;
    struct copse_link links[COPSE_MAX_REPLICAS + 1];
};

/* ---- life ---- */

copse_status copse__value_reducer_create(copse_context *ctx, copse_queue *const *queues,
                                         uint32_t count, copse_value_reducer **out)
{
    copse_value_reducer *x = copse__alloc(&ctx->base.mem, 1, sizeof *x);
    *out = NULL;
    if (!x)
        return copse_no_memory("reduction");
    x->mem = &ctx->base.mem;
    const copse_status s = copse__reducer_create(ctx, queues, count, MESSAGE_BYTES, &x->r);
    if (s)
        copse__free(x->mem, x);
    else
        *out = x;
    return s;
}

/* Nothing that a device may still write to is freed or used again. */
static void value_reduce_drain(copse_value_reducer *x)
{
    if (!copse__reducer_drain(x->r))
        x->host = (struct copse_host_memory){ NULL, 0 };
}

void copse__value_reducer_release(copse_value_reducer **at)
{
    copse_value_reducer *x = *at;
    if (!x)
        return;
    *at = NULL;
    value_reduce_drain(x);
    for (size_t i = 0; i < PLANS; i++)
        copse__plan_fini(x->mem, &x->plans[i]);
    copse__free_aligned(x->mem, x->host.at);
    copse_reducer *r = x->r;
    copse__free(x->mem, x);
    copse__reducer_release(&r);
}

/* ---- plans ---- */

/* A cached plan, or a new one, which replaces the least recently used. */
static copse_status find_plan(copse_value_reducer *x, const struct copse_plan_params *params,
                              const struct copse_plan **out)
{
    struct copse_plan plan;
    size_t i = 0;
    while (i < PLANS && !copse__plan_is_for(&x->plans[i], params))
        i++;
    if (i == PLANS) {
        COPSE_TRY(copse__plan_make(x->mem, params, &plan));
        x->plans_made++;
        i = PLANS - 1;
        copse__plan_fini(x->mem, &x->plans[i]);
    } else {
        plan = x->plans[i];
    }
    memmove(&x->plans[1], &x->plans[0], i * sizeof plan);
    x->plans[0] = plan;
    *out = &x->plans[0];
    return COPSE_OK;
}

unsigned copse__value_plans(const copse_value_reducer *x)
{
    return x->plans_made;
}

/* ---- a run ---- */

struct run {
    copse_value_reducer *x;
    const struct copse_reduction *r;
    const struct copse_plan *plan;
    const struct copse_chunk *chunk;
    struct copse_block **out;
};

/* The rank of a block's queue, COPSE_HOST, or the number of ranks: none. */
static uint32_t rank_of(const copse_reducer *x, const struct copse_block *b)
{
    uint32_t r = 0;
    if (!b->queue)
        return COPSE_HOST;
    while (r < x->ranks && x->queues[r] != b->queue)
        r++;
    return r;
}

static struct copse_view block_view(uint32_t rank, const struct copse_block *b, uint64_t first,
                                    uint64_t count)
{
    return (struct copse_view){
        rank,
        { b->buffer, COPSE_WORD_BYTES * (size_t)first, COPSE_WORD_BYTES * (size_t)count },
        b->queue ? NULL : (unsigned char *)b->host + COPSE_WORD_BYTES * first
    };
}

static uint64_t row_elements(const struct copse_partial_sum *sum)
{
    return copse__round_up((size_t)sum->count, COPSE_UNIT);
}

/* Elements [first, first + count) of a row of the owner's inbox. */
static struct copse_view row_view(const struct run *run, const struct copse_partial_sum *sum,
                                  uint32_t row, uint64_t first, uint64_t count)
{
    const size_t offset = COPSE_WORD_BYTES * (size_t)(row_elements(sum) * row + first);
    const size_t size = COPSE_WORD_BYTES * (size_t)count;
    return sum->owner == COPSE_HOST
               ? (struct copse_view){ COPSE_HOST, { NULL, 0, size }, run->x->host.at + offset }
               : (struct copse_view){ sum->owner,
                                      { run->x->r->inbox[sum->owner], offset, size },
                                      NULL };
}

static struct copse_binding row_of(const struct run *run, const struct copse_partial_sum *sum,
                                   uint32_t row)
{
    return row_view(run, sum, row, 0, sum->count).at;
}

/* A contribution to a row of the owner's inbox. */
static copse_status value_reduce_gather(const struct run *run, const struct copse_partial_sum *sum,
                                        uint32_t contributor)
{
    copse_reducer *x = run->x->r;
    const struct copse_array_buckets *b = &run->plan->buckets;
    const uint64_t first = run->chunk->first + sum->first;
    size_t cursor = copse__views_start(b, run->chunk->bucket, first);
    struct copse_bucket_view v;
    while (copse__view_next(b, run->chunk->bucket, first, sum->count, &cursor, &v)) {
        const struct copse_block *block = run->r->from[contributor * run->r->arrays + v.array];
        const uint32_t rank = rank_of(x, block);
        const struct copse_view from = block_view(rank, block, v.first, v.count),
                                to = row_view(run, sum, contributor - sum->lo, v.at, v.count);
        if (sum->owner == COPSE_HOST && rank != COPSE_HOST)
            COPSE_TRY(copse__reducer_read(x, rank, &from.at, to.host));
        else
            COPSE_TRY(copse__reducer_copy(x, &from, &to, 1));
    }
    return COPSE_OK;
}

/* A command on the owner of a sum. */
static copse_status value_reduce_encode(const struct run *run, const struct copse_partial_sum *sum,
                                        const struct copse_command *c)
{
    copse_reducer *x = run->x->r;
    x->is_open[sum->owner] = true;
    return copse__queue_encode(x->queues[sum->owner], c);
}

/* The first rows become the row of the sum: on the host row 0, else the row behind those of all
   contributors. */
static copse_status add_rows(const struct run *run, const struct copse_partial_sum *sum,
                             uint32_t rows)
{
    const bool is_whole = run->r->type == COPSE_I32;
    const uint32_t stride = (uint32_t)row_elements(sum);
    if (sum->owner == COPSE_HOST) {
        void *at[COPSE_MAX_REPLICAS];
        for (uint32_t row = 0; row < rows; row++)
            at[row] = row_view(run, sum, row, 0, sum->count).host;
        copse__tree_rows(at, rows, (size_t)sum->count, run->r->type);
        return COPSE_OK;
    }
    const struct copse_tree_sum t = {
        .terms = { run->x->r->inbox[sum->owner], 0, (size_t)stride * COPSE_WORD_BYTES * rows },
        .sum = row_of(run, sum, run->r->contributors),
        .rows = rows,
        .stride = stride,
        .count = sum->count,
        .is_whole = is_whole,
    };
    struct copse_command c;
    COPSE_TRY(copse__tree_command(run->x->r->queues[sum->owner]->dev, &t, &c));
    return value_reduce_encode(run, sum, &c);
}

/* The right half of the tree is added to the left one, at the left one's owner. */
static copse_status value_reduce_join(const struct run *run, const struct copse_partial_sum *left,
                                      const struct copse_partial_sum *right)
{
    copse_reducer *x = run->x->r;
    const uint32_t last = run->r->contributors;
    const struct copse_partial_sum *const sums[] = { left, right };
    for (uint32_t row = 0; row < 2; row++) {
        const struct copse_view from = row_view(run, sums[row], last, 0, left->count),
                                to = row_view(run, left, row, 0, left->count);
        COPSE_TRY(copse__reducer_copy(x, &from, &to, 1));
    }
    COPSE_TRY(copse__reducer_send(x));
    return add_rows(run, left, 2);
}

/* Into row 0, which is free now. */
static copse_status value_reduce_divide(const struct run *run, const struct copse_partial_sum *sum)
{
    const bool is_whole = run->r->type == COPSE_I32;
    if (run->r->divisor == 0)
        return COPSE_OK;
    if (sum->owner == COPSE_HOST) {
        unsigned char *sums = row_view(run, sum, 0, 0, sum->count).host;
        copse__mean_values(sums, sums, (size_t)sum->count, run->r->divisor, is_whole);
        return COPSE_OK;
    }
    struct copse_command c;
    COPSE_TRY(copse__mean_command(run->x->r->queues[sum->owner]->dev,
                                  row_of(run, sum, run->r->contributors), row_of(run, sum, 0),
                                  sum->count, run->r->divisor, is_whole, &c));
    return value_reduce_encode(run, sum, &c);
}

static copse_status value_reduce_broadcast(const struct run *run,
                                           const struct copse_partial_sum *sum)
{
    const uint32_t row = sum->owner == COPSE_HOST || run->r->divisor ? 0 : run->r->contributors;
    const struct copse_array_buckets *b = &run->plan->buckets;
    const uint64_t first = run->chunk->first + sum->first;
    size_t cursor = copse__views_start(b, run->chunk->bucket, first);
    struct copse_bucket_view v;
    while (copse__view_next(b, run->chunk->bucket, first, sum->count, &cursor, &v)) {
        const struct copse_view from = row_view(run, sum, row, v.at, v.count);
        struct copse_view to[COPSE_MAX_REPLICAS + 1];
        for (uint32_t i = 0; i < run->r->to_count; i++)
            to[i] = block_view(run->r->to[i], run->out[v.array * run->r->to_count + i], v.first,
                               v.count);
        COPSE_TRY(copse__reducer_copy(run->x->r, &from, to, run->r->to_count));
    }
    return COPSE_OK;
}

static copse_status run_chunk(const struct run *run)
{
    copse_reducer *x = run->x->r;
    const struct copse_partial_sum *sums = &run->plan->sums.at[run->chunk->first_sum];
    const size_t sum_count = run->chunk->sum_count,
                 result_count = run->chunk->is_joined ? 1 : sum_count;
    for (uint32_t c = 0; c < run->r->contributors; c++)
        for (size_t i = 0; i < sum_count; i++)
            if (c >= sums[i].lo && c < sums[i].hi)
                COPSE_TRY(value_reduce_gather(run, &sums[i], c));
    COPSE_TRY(copse__reducer_send(x));
    COPSE_TRY(copse__reducer_wait_reads(x, "reading its contribution"));
    for (size_t i = 0; i < sum_count; i++)
        COPSE_TRY(add_rows(run, &sums[i], sums[i].hi - sums[i].lo));
    if (run->chunk->is_joined)
        COPSE_TRY(value_reduce_join(run, &sums[0], &sums[1]));
    for (size_t i = 0; i < result_count; i++) {
        COPSE_TRY(value_reduce_divide(run, &sums[i]));
        COPSE_TRY(value_reduce_broadcast(run, &sums[i]));
    }
    COPSE_TRY(copse__reducer_send(x));
    return copse__reducer_submit(x);
}

/* ---- from start to end ---- */

static copse_status make_room(const struct run *run)
{
    copse_value_reducer *x = run->x;
    for (size_t i = 0; i < run->plan->sums.count; i++) {
        const struct copse_partial_sum *sum = &run->plan->sums.at[i];
        const size_t bytes =
            COPSE_WORD_BYTES * (size_t)row_elements(sum) * (run->r->contributors + 1);
        COPSE_TRY(sum->owner == COPSE_HOST ? copse__reducer_host(x->r, &x->host, bytes)
                                           : copse__reducer_inbox(x->r, sum->owner, bytes));
    }
    return COPSE_OK;
}

static copse_status make_results(const struct run *run)
{
    const struct copse_reduction *r = run->r;
    const copse_type type = r->divisor ? COPSE_F32 : r->type;
    for (size_t a = 0; a < r->arrays; a++)
        for (uint32_t i = 0; i < r->to_count; i++)
            COPSE_TRY(copse__block_create(
                run->x->r->ctx, r->to[i] == COPSE_HOST ? NULL : run->x->r->queues[r->to[i]], type,
                r->from[a]->count, &run->out[a * r->to_count + i]));
    return COPSE_OK;
}

static copse_status reduce_arrays(struct run *run, uint64_t *elements)
{
    const struct copse_reduction *r = run->r;
    for (size_t a = 0; a < r->arrays; a++)
        elements[a] = r->from[a]->count;
    const struct copse_plan_params params = {
        .algorithm = r->algorithm,
        .root = r->root,
        .ranks = run->x->r->ranks,
        .contributors = r->contributors,
        .max_row = copse__reducer_binding_bytes(run->x->r) / COPSE_WORD_BYTES /
                   (r->contributors + 1) / COPSE_UNIT * COPSE_UNIT,
        .bucketing = *r->bucketing,
        .elements = elements,
        .arrays = r->arrays,
    };
    COPSE_TRY(find_plan(run->x, &params, &run->plan));
    COPSE_TRY(make_room(run));
    COPSE_TRY(make_results(run));
    for (size_t i = 0; i < run->plan->chunks.count; i++) {
        run->chunk = &run->plan->chunks.at[i];
        COPSE_TRY(run_chunk(run));
    }
    return COPSE_OK;
}

static copse_status value_reduce_check(const copse_reducer *x, const struct copse_reduction *r)
{
    for (size_t i = 0; i < r->contributors * r->arrays; i++)
        if (r->from[i]->count != r->from[i % r->arrays]->count || r->from[i]->type != r->type ||
            (r->from[i]->queue && rank_of(x, r->from[i]) == x->ranks))
            return copse_fail(COPSE_ERR_INTERNAL,
                              "reduction: array %zu of contributor %zu does not "
                              "belong to the others",
                              i % r->arrays, i / r->arrays);
    return COPSE_OK;
}

copse_status copse__blocks_reduce(copse_value_reducer *x, const struct copse_reduction *r,
                                  struct copse_block **out)
{
    struct run run = { .x = x, .r = r, .out = out };
    char text[COPSE_ERROR_BYTES];
    COPSE_TRY(value_reduce_check(x->r, r));
    for (size_t i = 0; i < r->arrays * r->to_count; i++)
        out[i] = NULL;
    uint64_t *elements = copse__alloc(x->mem, r->arrays, sizeof *elements);
    if (!elements)
        return copse_no_memory("reduction");
    copse_status s = reduce_arrays(&run, elements);
    copse__free(x->mem, elements);
    if (!s)
        return COPSE_OK;
    memcpy(text, copse_last_error(), sizeof text); /* draining may fail, too */
    value_reduce_drain(x);
    for (size_t i = 0; i < r->arrays * r->to_count; i++)
        copse__block_release(&out[i]);
    copse__fail_again(text);
    return s;
}

/* ---- links ---- */

copse_status copse__value_links(copse_value_reducer *x, const struct copse_link **links)
{
    *links = x->links;
    if (x->has_links)
        return COPSE_OK;
    for (uint32_t r = 0; r < x->r->ranks; r++)
        COPSE_TRY(copse_note(copse__link_measure(x->mem, x->r->queues[r], &x->links[r]),
                             "while measuring the link to replica %u on %s", r,
                             x->r->queues[r]->dev->info.id));
    COPSE_TRY(copse__link_measure(x->mem, NULL, &x->links[x->r->ranks]));
    x->has_links = true;
    return COPSE_OK;
}

void copse__value_set_links(copse_value_reducer *x, const struct copse_link *links)
{
    memcpy(x->links, links, (x->r->ranks + 1) * sizeof *links);
    x->has_links = true;
}
