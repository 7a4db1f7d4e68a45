/* SPDX-License-Identifier: MIT */
/* Measurement of links and estimates of reductions. The best of a few trials counts: other load can
   only make a trial slower. Sums are timed by the device's clock, if it has one; reads and writes by the
   host's, because the host copies a part of the way. */
#include <math.h>

#include "core/reduce/tree.h"
#include "core/reduce/value/link.h"

#define TRIALS 3
#define BYTES  ((size_t)1 << 20)
#define ROWS   4 /* of the trial sum */

struct trial {
    copse_queue *queue;
    copse_buffer *buffer; /* ROWS + 1 rows of BYTES */
    unsigned char *host;  /* the same */
    size_t size;          /* of a read or write */
};

typedef copse_status trial_fn(struct trial *t);

static copse_status read_bytes(struct trial *t)
{
    return copse_queue_read(t->queue, t->buffer, 0, t->host, t->size);
}

static copse_status write_bytes(struct trial *t)
{
    return copse_queue_write(t->queue, t->buffer, 0, t->host, t->size);
}

static copse_status sum_rows(struct trial *t)
{
    const struct copse_tree_sum sum = {
        .terms = { t->buffer, 0, ROWS * BYTES },
        .sum = { t->buffer, ROWS * BYTES, BYTES },
        .rows = ROWS,
        .stride = BYTES / COPSE_WORD_BYTES,
        .count = BYTES / COPSE_WORD_BYTES,
    };
    struct copse_command c;
    COPSE_TRY(copse__tree_command(t->queue->dev, &sum, &c));
    return copse__queue_encode(t->queue, &c);
}

/* Seconds of the best trial, all that it takes on the host included; the first one only warms
   up. */
static copse_status time_of(struct trial *t, trial_fn *run, double *seconds)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i <= TRIALS; i++) {
        const uint64_t start = copse__now_ns();
        COPSE_TRY(run(t));
        COPSE_TRY(copse_queue_finish(t->queue));
        if (i > 0)
            best = COPSE_MIN(best, copse__now_ns() - start);
    }
    *seconds = (double)COPSE_MAX(best, 1) * 1e-9;
    return COPSE_OK;
}

/* Seconds of the best trial by the device's clock; 0: the clock is too coarse.
   COPSE_ERR_UNSUPPORTED: the device has none. */
static copse_status time_by_stamps(struct trial *t, trial_fn *run, double *seconds)
{
    double best = HUGE_VAL;
    for (int i = 0; i <= TRIALS; i++) {
        uint64_t from, to;
        double spent;
        COPSE_TRY(copse_queue_stamp(t->queue, &from));
        COPSE_TRY(run(t));
        COPSE_TRY(copse_queue_stamp(t->queue, &to));
        COPSE_TRY(copse_queue_finish(t->queue));
        COPSE_TRY(copse_queue_elapsed(t->queue, from, to, &spent));
        best = i > 0 ? COPSE_MIN(best, spent) : best;
    }
    *seconds = best;
    return COPSE_OK;
}

/* Seconds of the device alone; without a clock, of the host less the latency. The queue is a
   temporary one, because some drivers keep times of all later commands of a queue with a stamp. */
static copse_status time_on_device(struct trial *t, trial_fn *run, double latency, double *seconds)
{
    char text[COPSE_ERROR_BYTES];
    struct trial own = *t;
    copse_status s = copse_queue_create(t->queue->dev, &own.queue);
    if (!s)
        s = time_by_stamps(&own, run, seconds);
    memcpy(text, copse_last_error(), sizeof text); /* the release may fail, too */
    copse_queue_release(&own.queue);
    if (s)
        copse__fail_again(text);
    if (s != COPSE_ERR_UNSUPPORTED && (s || *seconds > 0))
        return s;
    COPSE_TRY(time_of(t, run, seconds));
    *seconds -= latency;
    return COPSE_OK;
}

static double link_rate(double bytes, double seconds, double latency)
{
    return bytes / COPSE_MAX(seconds - latency, 1e-9);
}

static copse_status measure_device(struct trial *t, struct copse_link *out)
{
    double read, write, sum;
    COPSE_TRY(copse_queue_fill(t->queue, t->buffer, 0, (ROWS + 1) * BYTES, 0));
    t->size = COPSE_WORD_BYTES;
    COPSE_TRY(time_of(t, read_bytes, &out->latency));
    t->size = BYTES;
    COPSE_TRY(time_of(t, read_bytes, &read));
    COPSE_TRY(time_of(t, write_bytes, &write));
    COPSE_TRY(time_on_device(t, sum_rows, out->latency, &sum));
    out->read_rate = link_rate(BYTES, read, out->latency);
    out->write_rate = link_rate(BYTES, write, out->latency);
    out->sum_rate = link_rate(ROWS * BYTES, sum, 0);
    return COPSE_OK;
}

static void measure_host(struct trial *t, struct copse_link *out)
{
    void *rows[ROWS];
    uint64_t copy = UINT64_MAX, sum = UINT64_MAX;
    for (size_t r = 0; r < ROWS; r++)
        rows[r] = t->host + r * BYTES;
    for (int i = 0; i < TRIALS; i++) {
        const uint64_t start = copse__now_ns();
        memcpy(t->host + ROWS * BYTES, t->host, BYTES);
        const uint64_t middle = copse__now_ns();
        copse__tree_rows(rows, ROWS, BYTES / COPSE_WORD_BYTES, COPSE_F32);
        copy = COPSE_MIN(copy, middle - start);
        sum = COPSE_MIN(sum, copse__now_ns() - middle);
    }
    out->latency = 0;
    out->read_rate = out->write_rate = link_rate(BYTES, (double)copy * 1e-9, 0);
    out->sum_rate = link_rate(ROWS * BYTES, (double)sum * 1e-9, 0);
}

copse_status copse__link_measure(struct copse_mem *mem, copse_queue *queue, struct copse_link *out)
{
    struct trial t = { .queue = queue, .host = copse__alloc(mem, ROWS + 1, BYTES) };
    copse_status s = COPSE_OK;
    if (!t.host)
        return copse_fail(COPSE_ERR_NO_MEMORY, "link: no memory to measure with");
    if (queue) {
        s = copse_queue_finish(queue); /* earlier work is not measured */
        if (!s)
            s = copse__buffer_acquire(queue->dev, (ROWS + 1) * BYTES, &t.buffer);
        if (!s)
            s = copse__queue_settle(queue, measure_device(&t, out));
        copse_buffer_release(&t.buffer);
    } else {
        measure_host(&t, out);
    }
    if (s != COPSE_ERR_TIMEOUT) /* a device that hangs may still write to it */
        copse__free(mem, t.host);
    return s;
}

/* ---- estimates ---- */

static const struct copse_link *link_at(const struct copse_link *links, uint32_t ranks,
                                        uint32_t rank)
{
    return &links[rank == COPSE_HOST ? ranks : rank];
}

/* Reads of several devices run in parallel. */
static double read_from_all(const struct copse_link *links, uint32_t ranks, double bytes)
{
    double longest = 0;
    for (uint32_t r = 0; r < ranks; r++)
        longest = COPSE_MAX(longest, links[r].latency + bytes / links[r].read_rate);
    return longest;
}

/* The host writes to one device after another. */
static double write_to_all(const struct copse_link *links, uint32_t ranks, double bytes,
                           const uint32_t *to, uint32_t to_count)
{
    double sum = 0;
    for (uint32_t i = 0; i < to_count; i++)
        sum += bytes / link_at(links, ranks, to[i])->write_rate;
    return sum;
}

static bool has_other(const uint32_t *to, uint32_t to_count, uint32_t rank)
{
    for (uint32_t i = 0; i < to_count; i++)
        if (to[i] != rank)
            return true;
    return false;
}

static double to_one(const struct copse_link *links, uint32_t ranks, uint32_t root, double bytes,
                     const uint32_t *to, uint32_t to_count)
{
    const struct copse_link *l = link_at(links, ranks, root);
    double cost = read_from_all(links, ranks, bytes) + ranks * bytes / l->sum_rate;
    if (root != COPSE_HOST)
        cost += (ranks - 1) * bytes / l->write_rate;
    if (root != COPSE_HOST && has_other(to, to_count, root))
        cost += l->latency + bytes / l->read_rate;
    return cost + write_to_all(links, ranks, bytes, to, to_count);
}

static double link_sharded(const struct copse_link *links, uint32_t ranks, double bytes,
                           const uint32_t *to, uint32_t to_count)
{
    const double slice = bytes / ranks;
    double sum = 0, cost = read_from_all(links, ranks, bytes - slice);
    for (uint32_t r = 0; r < ranks; r++) {
        cost += (ranks - 1) * slice / links[r].write_rate;
        sum = COPSE_MAX(sum,
                        links[r].latency + bytes / links[r].sum_rate + slice / links[r].read_rate);
    }
    return cost + sum + write_to_all(links, ranks, bytes, to, to_count);
}

static double link_hierarchical(const struct copse_link *links, uint32_t ranks, double bytes,
                                const uint32_t *to, uint32_t to_count)
{
    uint32_t half = 1;
    while (half * 2 < ranks)
        half *= 2;
    const struct copse_link *left = &links[0], *right = &links[ranks > 1 ? half : 0];
    return read_from_all(links, ranks, bytes) + (half - 1) * bytes / left->write_rate +
           (ranks - half - 1) * bytes / right->write_rate +
           COPSE_MAX(half / left->sum_rate, (ranks - half) / right->sum_rate) * bytes +
           right->latency + bytes / right->read_rate + bytes / left->write_rate +
           2 * bytes / left->sum_rate + left->latency + bytes / left->read_rate +
           write_to_all(links, ranks, bytes, to, to_count);
}

/* Seconds; the steps are those of value_reduce.c. */
static double cost_of(const struct copse_link *links, uint32_t ranks, struct copse_way way,
                      double bytes, const uint32_t *to, uint32_t to_count)
{
    return way.algorithm == COPSE_COLLECTIVE_TO_ONE
               ? to_one(links, ranks, way.root, bytes, to, to_count)
           : way.algorithm == COPSE_COLLECTIVE_SHARDED
               ? link_sharded(links, ranks, bytes, to, to_count)
               : link_hierarchical(links, ranks, bytes, to, to_count);
}

struct copse_way copse__link_choose(const struct copse_link *links, uint32_t ranks, double bytes,
                                    const uint32_t *to, uint32_t to_count)
{
    const struct copse_way ways[] = {
        { COPSE_COLLECTIVE_SHARDED, 0 },
        { COPSE_COLLECTIVE_TO_ONE, to[0] },
        { COPSE_COLLECTIVE_TO_ONE, COPSE_HOST },
        { COPSE_COLLECTIVE_HIERARCHICAL, 0 },
    };
    size_t best = 0;
    double least = 0;
    for (size_t i = 0; i < COPSE_COUNT(ways); i++) {
        const double cost = cost_of(links, ranks, ways[i], bytes, to, to_count);
        if (i == 0 || cost < least) {
            best = i;
            least = cost;
        }
    }
    return ways[best];
}
