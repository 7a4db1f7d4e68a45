/* SPDX-License-Identifier: MIT */
/* Reductions of blocks, round by round:
 *
 * 1. Parts on other devices than the owner's are read to host memory, from all devices at once. 2. They are
 * written to the owner's inbox, a row for each contributor, and the owner sums the rows. Parts on the owner's
 * device are copied there; an owner on the host sums in host memory. 3. Sums are read to host memory and
 * written to their destinations; the owner's own copy stays on its device.
 *
 * Queues are in order, so all rounds use the same inbox. A read of the next round overwrites host memory only
 * after the writes of this round have copied it.
 */
#include "core/reduce/value_reduce.h"
#include "core/reduce/link.h"
#include "core/reduce/tree.h"

#define PLANS 16 /* that are kept */

struct copse_reducer {
    copse_context *ctx; /* retained */
    struct copse_mem *mem;
    copse_queue *queues[COPSE_MAX_REPLICAS]; /* retained */
    uint32_t ranks;
    copse_buffer *inbox[COPSE_MAX_REPLICAS]; /* contributors' rows, then the row of the sum */
    unsigned char *stage[COPSE_MAX_REPLICAS]; /* parts of contributors, in host memory */
    unsigned char *total;                     /* sums of a round, in host memory */
    size_t stage_room[COPSE_MAX_REPLICAS], total_room; /* bytes */
    bool is_open[COPSE_MAX_REPLICAS];         /* has work that is not submitted */
    uint64_t ticket[COPSE_MAX_REPLICAS];
    struct copse_plan plans[PLANS]; /* the newest first */
    unsigned plans_made;
    bool has_links;
    struct copse_link links[COPSE_MAX_REPLICAS + 1];
};

/* ---- life ---- */

copse_status copse__reducer_create(copse_context *ctx, copse_queue *const *queues, uint32_t count,
                                   copse_reducer **out)
{
    copse_reducer *x = copse__alloc(&ctx->base.mem, 1, sizeof *x);
    *out = x;
    if (!x)
        return copse_fail(COPSE_ERR_NO_MEMORY, "reduction: no memory");
    x->ctx = copse_context_retain(ctx);
    x->mem = &ctx->base.mem;
    x->ranks = count;
    for (uint32_t r = 0; r < count; r++)
        x->queues[r] = copse_queue_retain(queues[r]);
    return COPSE_OK;
}

/* Nothing that a device may still write to is freed or used again. */
static void drain(copse_reducer *x)
{
    bool is_stuck = false;
    for (uint32_t r = 0; r < x->ranks; r++) {
        is_stuck = copse_queue_finish(x->queues[r]) == COPSE_ERR_TIMEOUT || is_stuck;
        x->is_open[r] = false;
    }
    if (!is_stuck)
        return;
    copse__log(&x->ctx->base.log, COPSE_LOG_ERROR,
               "reduction: a device hangs, the host memory it writes to is not freed");
    memset(x->stage, 0, sizeof x->stage);
    memset(x->stage_room, 0, sizeof x->stage_room);
    x->total = NULL;
    x->total_room = 0;
}

void copse__reducer_release(copse_reducer **at)
{
    copse_reducer *x = *at;
    if (!x)
        return;
    *at = NULL;
    drain(x);
    for (size_t i = 0; i < PLANS; i++)
        copse__plan_fini(x->mem, &x->plans[i]);
    for (uint32_t r = 0; r < COPSE_MAX_REPLICAS; r++) {
        copse_buffer_release(&x->inbox[r]);
        copse__free_aligned(x->mem, x->stage[r]);
        copse_queue_release(&x->queues[r]);
    }
    copse__free_aligned(x->mem, x->total);
    copse_context *ctx = x->ctx;
    copse__free(x->mem, x);
    copse_context_release(&ctx);
}

static copse_status grow(copse_reducer *x, unsigned char **memory, size_t *room, uint64_t elements)
{
    return copse__host_grow(x->mem, memory, room, (size_t)(4 * elements))
               ? COPSE_OK
               : copse_fail(COPSE_ERR_NO_MEMORY, "reduction: no memory for %llu staged elements",
                            (unsigned long long)elements);
}

static copse_status grow_inbox(copse_reducer *x, uint32_t rank, uint64_t elements)
{
    copse_buffer *larger;
    if (copse_buffer_size(x->inbox[rank]) >= 4 * elements)
        return COPSE_OK;
    COPSE_TRY(copse_note(
        copse__buffer_acquire(x->queues[rank]->dev, (size_t)(4 * elements), &larger),
        "while making the inbox of replica %u", rank));
    copse_buffer_release(&x->inbox[rank]);
    x->inbox[rank] = larger;
    return COPSE_OK;
}

/* ---- plans ---- */

/* Longest row of which `rows` fit every device's memory and bindings. */
static uint64_t longest_row(const copse_reducer *x, uint32_t rows)
{
    uint64_t bytes = (uint64_t)1 << 28;
    for (uint32_t r = 0; r < x->ranks; r++) {
        const struct copse_limits *l = x->queues[r]->dev->limits;
        bytes = COPSE_MIN(bytes, COPSE_MIN(l->max_binding_bytes, l->max_buffer_bytes));
    }
    return bytes / 4 / rows / COPSE_UNIT * COPSE_UNIT;
}

/* A cached plan, or a new one, which replaces the least recently used. */
static copse_status find_plan(copse_reducer *x, const struct copse_plan_params *params,
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

unsigned copse__reducer_plans(const copse_reducer *x)
{
    return x->plans_made;
}

/* ---- a run ---- */

struct run {
    copse_reducer *x;
    const struct copse_reduction *r;
    const struct copse_plan *plan;
    struct copse_block **out;
};

/* The rank of a block's queue, or COPSE_HOST. */
static uint32_t place_of(const copse_reducer *x, const struct copse_block *b)
{
    uint32_t r = 0;
    if (!b->queue)
        return COPSE_HOST;
    while (r < x->ranks && x->queues[r] != b->queue)
        r++;
    return r;
}

static const struct copse_block *part_of(const struct run *run, uint32_t contributor, size_t array)
{
    return run->r->from[contributor * run->r->arrays + array];
}

static unsigned char *host_at(const struct copse_block *b, uint64_t element)
{
    return (unsigned char *)b->host + 4 * element;
}

static copse_status submit_open(copse_reducer *x)
{
    for (uint32_t r = 0; r < x->ranks; r++)
        if (x->is_open[r]) {
            COPSE_TRY(copse_queue_submit(x->queues[r], &x->ticket[r]));
            x->is_open[r] = false;
        }
    return COPSE_OK;
}

/* Submit everything and wait for the ranks with open work. */
static copse_status finish_open(copse_reducer *x, const char *what)
{
    bool is_waited[COPSE_MAX_REPLICAS];
    memcpy(is_waited, x->is_open, sizeof is_waited);
    COPSE_TRY(submit_open(x));
    for (uint32_t r = 0; r < x->ranks; r++)
        if (is_waited[r])
            COPSE_TRY(copse_note(copse__queue_await(x->queues[r], x->ticket[r]),
                                 "while waiting for replica %u on %s (%s)", r,
                                 x->queues[r]->dev->info.id, what));
    return COPSE_OK;
}

/* Every contribution of a job that is elsewhere on a device, to host memory. */
static copse_status read_parts(const struct run *run, const struct copse_round *round,
                               const struct copse_job *job)
{
    copse_reducer *x = run->x;
    const uint64_t first = round->first + job->first;
    for (uint32_t c = job->lo; c < job->hi; c++) {
        size_t cursor = copse__piece_start(run->plan, round->pack, first);
        struct copse_part p;
        while (copse__piece_next(run->plan, round->pack, first, job->count, &cursor, &p)) {
            const struct copse_block *b = part_of(run, c, p.array);
            const uint32_t place = place_of(x, b);
            unsigned char *to = x->stage[c] + 4 * (job->first + p.at);
            if (place == COPSE_HOST && job->owner == COPSE_HOST)
                memcpy(to, host_at(b, p.first), (size_t)(4 * p.count));
            if (place == COPSE_HOST || place == job->owner)
                continue;
            COPSE_TRY(copse_queue_read(b->queue, b->buffer, (size_t)(4 * p.first), to,
                                       (size_t)(4 * p.count)));
            x->is_open[place] = true;
        }
    }
    return COPSE_OK;
}

static uint64_t row_elements(const struct copse_job *job)
{
    return copse__round_up((size_t)job->count, COPSE_UNIT);
}

static struct copse_binding inbox_row(const copse_reducer *x, const struct copse_job *job, uint32_t row)
{
    return (struct copse_binding){ x->inbox[job->owner], (size_t)(4 * row_elements(job) * row),
                                   (size_t)(4 * job->count) };
}

/* Contributions into the owner's inbox. */
static copse_status fill_inbox(const struct run *run, const struct copse_round *round,
                               const struct copse_job *job)
{
    copse_reducer *x = run->x;
    copse_queue *queue = x->queues[job->owner];
    const uint64_t first = round->first + job->first;
    for (uint32_t c = job->lo; c < job->hi; c++) {
        const struct copse_binding row = inbox_row(x, job, c - job->lo);
        size_t cursor = copse__piece_start(run->plan, round->pack, first);
        struct copse_part p;
        while (copse__piece_next(run->plan, round->pack, first, job->count, &cursor, &p)) {
            const struct copse_block *b = part_of(run, c, p.array);
            const uint32_t place = place_of(x, b);
            const size_t at = row.offset + (size_t)(4 * p.at), size = (size_t)(4 * p.count);
            if (place == job->owner)
                COPSE_TRY(copse_queue_copy(queue, b->buffer, (size_t)(4 * p.first), row.buffer, at,
                                           size));
            else
                COPSE_TRY(copse_queue_write(queue, row.buffer, at,
                                            place == COPSE_HOST
                                                ? host_at(b, p.first)
                                                : x->stage[c] + 4 * (job->first + p.at),
                                            size));
        }
    }
    x->is_open[job->owner] = true;
    return COPSE_OK;
}

/* The first `rows` rows of the inbox become the row of the sum. */
static copse_status sum_rows(const struct run *run, const struct copse_job *job, uint32_t rows)
{
    copse_reducer *x = run->x;
    copse_queue *queue = x->queues[job->owner];
    const uint32_t row = (uint32_t)row_elements(job);
    const struct copse_tree_sum t = {
        .parts = { x->inbox[job->owner], 0, (size_t)row * 4 * rows },
        .sum = inbox_row(x, job, run->r->contributors),
        .rows = rows,
        .stride = row,
        .count = job->count,
        .is_whole = run->r->type == COPSE_I32,
    };
    struct copse_command c;
    COPSE_TRY(copse__tree_command(queue->dev, &t, &c));
    x->is_open[job->owner] = true;
    return copse__queue_encode(queue, &c);
}

/* The sum is in x->stage[job->lo] if the owner is the host, else in the row of the sum. */
static copse_status sum(const struct run *run, const struct copse_round *round,
                        const struct copse_job *job)
{
    copse_reducer *x = run->x;
    void *rows[COPSE_MAX_REPLICAS];
    if (job->owner != COPSE_HOST) {
        COPSE_TRY(fill_inbox(run, round, job));
        return sum_rows(run, job, job->hi - job->lo);
    }
    for (uint32_t c = job->lo; c < job->hi; c++)
        rows[c - job->lo] = x->stage[c] + 4 * job->first;
    copse__tree_rows(rows, job->hi - job->lo, (size_t)job->count, run->r->type == COPSE_I32);
    return COPSE_OK;
}

/* The right half of the tree is added to the left one, at the left one's owner. */
static copse_status join(const struct run *run, const struct copse_job *left,
                         const struct copse_job *right)
{
    copse_reducer *x = run->x;
    copse_queue *queue = x->queues[left->owner];
    const uint32_t last = run->r->contributors;
    const struct copse_binding from = inbox_row(x, right, last), sum = inbox_row(x, left, last),
                               first = inbox_row(x, left, 0), second = inbox_row(x, left, 1);
    COPSE_TRY(copse_queue_read(x->queues[right->owner], from.buffer, from.offset, x->total,
                               from.size));
    x->is_open[right->owner] = true;
    COPSE_TRY(finish_open(x, "reading half of a sum"));
    COPSE_TRY(copse_queue_copy(queue, sum.buffer, sum.offset, first.buffer, first.offset,
                               first.size));
    COPSE_TRY(copse_queue_write(queue, second.buffer, second.offset, x->total, second.size));
    return sum_rows(run, left, 2);
}

/* On the host in place; on devices into row 0 of the inbox, which is free now. */
static copse_status divide(const struct run *run, const struct copse_job *job)
{
    copse_reducer *x = run->x;
    const bool is_whole = run->r->type == COPSE_I32;
    if (job->owner == COPSE_HOST) {
        unsigned char *sums = x->stage[job->lo] + 4 * job->first;
        copse__mean_values(sums, sums, (size_t)job->count, run->r->divisor, is_whole);
        return COPSE_OK;
    }
    copse_queue *queue = x->queues[job->owner];
    struct copse_command c;
    COPSE_TRY(copse__mean_command(queue->dev, inbox_row(x, job, run->r->contributors), inbox_row(x, job, 0), job->count,
                                  run->r->divisor, is_whole, &c));
    x->is_open[job->owner] = true;
    return copse__queue_encode(queue, &c);
}

static struct copse_binding result_row(const struct run *run, const struct copse_job *job)
{
    return inbox_row(run->x, job, run->r->divisor ? 0 : run->r->contributors);
}

/* Read the result of a job to host memory, if it has destinations other than its owner. */
static copse_status read_result(const struct run *run, const struct copse_job *job)
{
    copse_reducer *x = run->x;
    bool is_wanted = false;
    for (uint32_t i = 0; i < run->r->to_count; i++)
        is_wanted = is_wanted || run->r->to[i] != job->owner;
    if (job->owner == COPSE_HOST || !is_wanted)
        return COPSE_OK;
    const struct copse_binding row = result_row(run, job);
    x->is_open[job->owner] = true;
    return copse_queue_read(x->queues[job->owner], row.buffer, row.offset, x->total + 4 * job->first,
                            row.size);
}

static copse_status hand_piece(const struct run *run, const struct copse_job *job,
                               const struct copse_part *p, uint32_t to, struct copse_block *b)
{
    copse_reducer *x = run->x;
    const size_t at = (size_t)(4 * p->first), size = (size_t)(4 * p->count);
    const unsigned char *from =
        (job->owner == COPSE_HOST ? x->stage[job->lo] : x->total) + 4 * (job->first + p->at);
    if (to == COPSE_HOST) {
        memcpy(host_at(b, p->first), from, size);
        return COPSE_OK;
    }
    x->is_open[to] = true;
    if (to != job->owner)
        return copse_queue_write(b->queue, b->buffer, at, from, size);
    const struct copse_binding row = result_row(run, job);
    return copse_queue_copy(b->queue, row.buffer, row.offset + (size_t)(4 * p->at), b->buffer, at,
                            size);
}

static copse_status hand(const struct run *run, const struct copse_round *round,
                         const struct copse_job *job)
{
    const uint64_t first = round->first + job->first;
    for (uint32_t i = 0; i < run->r->to_count; i++) {
        size_t cursor = copse__piece_start(run->plan, round->pack, first);
        struct copse_part p;
        while (copse__piece_next(run->plan, round->pack, first, job->count, &cursor, &p))
            COPSE_TRY(hand_piece(run, job, &p, run->r->to[i],
                                 run->out[p.array * run->r->to_count + i]));
    }
    return COPSE_OK;
}

static copse_status run_round(const struct run *run, const struct copse_round *round)
{
    const struct copse_job *jobs = &run->plan->jobs.at[round->first_job];
    const size_t finished = round->is_joined ? 1 : round->job_count;
    for (size_t j = 0; j < round->job_count; j++)
        COPSE_TRY(read_parts(run, round, &jobs[j]));
    COPSE_TRY(finish_open(run->x, "reading its part"));
    for (size_t j = 0; j < round->job_count; j++)
        COPSE_TRY(sum(run, round, &jobs[j]));
    if (round->is_joined)
        COPSE_TRY(join(run, &jobs[0], &jobs[1]));
    for (size_t j = 0; j < finished; j++) {
        if (run->r->divisor)
            COPSE_TRY(divide(run, &jobs[j]));
        COPSE_TRY(read_result(run, &jobs[j]));
    }
    COPSE_TRY(finish_open(run->x, "reading a sum"));
    for (size_t j = 0; j < finished; j++)
        COPSE_TRY(hand(run, round, &jobs[j]));
    return submit_open(run->x);
}

/* ---- from start to end ---- */

static copse_status make_room(const struct run *run)
{
    copse_reducer *x = run->x;
    for (uint32_t c = 0; c < run->r->contributors; c++)
        COPSE_TRY(grow(x, &x->stage[c], &x->stage_room[c], run->plan->longest));
    COPSE_TRY(grow(x, &x->total, &x->total_room, run->plan->longest));
    for (size_t j = 0; j < run->plan->jobs.count; j++) {
        const struct copse_job *job = &run->plan->jobs.at[j];
        if (job->owner != COPSE_HOST)
            COPSE_TRY(grow_inbox(x, job->owner,
                                 row_elements(job) * (run->r->contributors + 1)));
    }
    return COPSE_OK;
}

static copse_status make_results(const struct run *run)
{
    const struct copse_reduction *r = run->r;
    const copse_type type = r->divisor ? COPSE_F32 : r->type;
    for (size_t a = 0; a < r->arrays; a++)
        for (uint32_t i = 0; i < r->to_count; i++)
            COPSE_TRY(copse__block_create(run->x->ctx,
                                          r->to[i] == COPSE_HOST ? NULL : run->x->queues[r->to[i]],
                                          type, r->from[a]->count,
                                          &run->out[a * r->to_count + i]));
    return COPSE_OK;
}

static copse_status reduce(struct run *run, uint64_t *elements)
{
    const struct copse_reduction *r = run->r;
    for (size_t a = 0; a < r->arrays; a++)
        elements[a] = r->from[a]->count;
    const struct copse_plan_params params = {
        .algorithm = r->algorithm,
        .root = r->root,
        .ranks = run->x->ranks,
        .contributors = r->contributors,
        .max_row = longest_row(run->x, r->contributors + 1),
        .packing = *r->packing,
        .elements = elements,
        .arrays = r->arrays,
    };
    COPSE_TRY(find_plan(run->x, &params, &run->plan));
    COPSE_TRY(make_room(run));
    COPSE_TRY(make_results(run));
    for (size_t i = 0; i < run->plan->rounds.count; i++)
        COPSE_TRY(run_round(run, &run->plan->rounds.at[i]));
    return COPSE_OK;
}

static copse_status check(const copse_reducer *x, const struct copse_reduction *r)
{
    for (size_t i = 0; i < r->contributors * r->arrays; i++)
        if (r->from[i]->count != r->from[i % r->arrays]->count || r->from[i]->type != r->type ||
            (r->from[i]->queue && place_of(x, r->from[i]) == x->ranks))
            return copse_fail(COPSE_ERR_INTERNAL, "reduction: array %zu of contributor %zu does not "
                                                  "belong to the others",
                              i % r->arrays, i / r->arrays);
    return COPSE_OK;
}

copse_status copse__blocks_reduce(copse_reducer *x, const struct copse_reduction *r,
                                  struct copse_block **out)
{
    struct run run = { x, r, NULL, out };
    char text[COPSE_ERROR_BYTES];
    COPSE_TRY(check(x, r));
    for (size_t i = 0; i < r->arrays * r->to_count; i++)
        out[i] = NULL;
    uint64_t *elements = copse__alloc(x->mem, r->arrays, sizeof *elements);
    if (!elements)
        return copse_fail(COPSE_ERR_NO_MEMORY, "reduction: no memory");
    copse_status s = reduce(&run, elements);
    copse__free(x->mem, elements);
    if (!s)
        return COPSE_OK;
    memcpy(text, copse_last_error(), sizeof text); /* draining may fail, too */
    drain(x);
    for (size_t i = 0; i < r->arrays * r->to_count; i++)
        copse__block_release(&out[i]);
    copse__fail_again(text);
    return s;
}

/* ---- links ---- */

copse_status copse__reducer_links(copse_reducer *x, const struct copse_link **links)
{
    *links = x->links;
    if (x->has_links)
        return COPSE_OK;
    for (uint32_t r = 0; r < x->ranks; r++)
        COPSE_TRY(copse_note(copse__link_measure(x->mem, x->queues[r], &x->links[r]),
                             "while measuring the link to replica %u on %s", r,
                             x->queues[r]->dev->info.id));
    COPSE_TRY(copse__link_measure(x->mem, NULL, &x->links[x->ranks]));
    x->has_links = true;
    return COPSE_OK;
}

void copse__reducer_set_links(copse_reducer *x, const struct copse_link *links)
{
    memcpy(x->links, links, (x->ranks + 1) * sizeof *links);
    x->has_links = true;
}
