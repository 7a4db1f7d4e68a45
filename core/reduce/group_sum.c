/* SPDX-License-Identifier: MIT */
/* A reduce-scatter and an all-gather of host memory. In each round each worker owns a range of the words: it
 * receives the range of every other worker, sums the rows by the canonical tree and sends the sums to all.
 * Each word is summed once, so all workers have the same bits.
 */
#include "core/reduce/group_sum.h"
#include "core/reduce/tree.h"
#include "core/reduce/worker_messages.h"

#define ROUND_WORDS ((size_t)1 << 22)
#define LEAST_WORDS ((size_t)1 << 10) /* of an owner: worker 0 alone sums a few words */

struct range {
    size_t first, count;
};

static struct range range_of(const struct copse_group *g, uint32_t worker, size_t words)
{
    const size_t each = COPSE_MAX((words + g->workers - 1) / g->workers, LEAST_WORDS);
    const size_t first = COPSE_MIN(words, worker * each);
    return (struct range){ first, COPSE_MIN(each, words - first) };
}

size_t copse__group_sum_room(const struct copse_group *g, size_t words)
{
    return g->cluster ? g->workers * range_of(g, 0, COPSE_MIN(words, ROUND_WORDS)).count : 0;
}

/* Every worker's words of the range that this worker owns, a row of `room` each. */
static copse_status collect_rows(struct copse_worker_messages *m, uint32_t *words, size_t count, uint32_t *room)
{
    const uint32_t me = m->group->worker, workers = m->group->workers;
    const struct range own = range_of(m->group, me, count);
    for (uint32_t v = 0; v < workers; v++) {
        const struct range theirs = range_of(m->group, v, count);
        if (v != me && own.count)
            COPSE_TRY(copse__worker_recv(m, v, COPSE_KIND_PARTS, room + v * own.count, 4 * own.count));
        if (v != me && theirs.count)
            COPSE_TRY(copse__worker_send(m, v, COPSE_KIND_PARTS, words + theirs.first, 4 * theirs.count));
    }
    if (own.count)
        memcpy(room + me * own.count, words + own.first, 4 * own.count);
    COPSE_TRY(copse__worker_wait_recvs(m, COPSE_KIND_PARTS, 0, workers, NULL, NULL));
    return copse__worker_wait_sends(m, NULL, NULL); /* the sums are received into `words` */
}

/* The rows become one; words before `floats` are f32. */
static void add_rows(uint32_t *room, uint32_t row_count, size_t count, size_t floats)
{
    void *rows[COPSE_MAX_WORKERS];
    for (uint32_t v = 0; v < row_count; v++)
        rows[v] = room + v * count;
    copse__tree_rows(rows, row_count, floats, false);
    for (uint32_t v = 0; v < row_count; v++)
        rows[v] = room + v * count + floats;
    copse__tree_rows(rows, row_count, count - floats, true);
}

static copse_status broadcast_sums(struct copse_worker_messages *m, uint32_t *words, size_t count,
                                   const uint32_t *sums)
{
    const uint32_t me = m->group->worker, workers = m->group->workers;
    const struct range own = range_of(m->group, me, count);
    for (uint32_t v = 0; v < workers; v++) {
        const struct range theirs = range_of(m->group, v, count);
        if (v != me && theirs.count)
            COPSE_TRY(copse__worker_recv(m, v, COPSE_KIND_RESULTS, words + theirs.first, 4 * theirs.count));
        if (v != me && own.count)
            COPSE_TRY(copse__worker_send(m, v, COPSE_KIND_RESULTS, sums, 4 * own.count));
    }
    if (own.count)
        memcpy(words + own.first, sums, 4 * own.count);
    COPSE_TRY(copse__worker_wait_recvs(m, COPSE_KIND_RESULTS, 0, workers, NULL, NULL));
    return copse__worker_wait_sends(m, NULL, NULL);
}

copse_status copse__group_sum(struct copse_group *g, uint32_t *words, size_t floats, size_t whole,
                              uint32_t *room)
{
    const size_t total = floats + whole;
    copse_status s = COPSE_OK;
    if (!g->cluster)
        return COPSE_OK;
    const char *what = g->cluster->header.what;
    struct copse_worker_messages m = { .group = g, .what = { what, what } };
    for (size_t at = 0; at < total && !s; at += ROUND_WORDS) {
        const size_t count = COPSE_MIN(total - at, ROUND_WORDS);
        const struct range own = range_of(g, g->worker, count);
        const size_t first = at + own.first;
        s = collect_rows(&m, words + at, count, room);
        if (s)
            break;
        add_rows(room, g->workers, own.count, floats > first ? COPSE_MIN(floats - first, own.count) : 0);
        s = broadcast_sums(&m, words + at, count, room);
    }
    copse__worker_drop(&m);
    return s;
}
