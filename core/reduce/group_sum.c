/* SPDX-License-Identifier: MIT */
/* A reduce-scatter and an all-gather of host memory. In each chunk each worker owns a slice of the
 * words: it receives the words of every other worker, sums the rows by the canonical tree and sends
 * the sums to all. Each word is summed once, so all workers have the same bits.
 */
#include "core/reduce/group_sum.h"
#include "core/reduce/tree.h"
#include "core/reduce/worker_messages.h"

#define CHUNK_WORDS ((size_t)1 << 22)
#define LEAST_WORDS ((size_t)1 << 10) /* of an owner: worker 0 alone sums a few words */

static struct copse_worker_slice slice_of(const struct copse_group *g, uint32_t worker,
                                          size_t words)
{
    const size_t each = COPSE_MAX((words + g->workers - 1) / g->workers, LEAST_WORDS);
    const size_t first = COPSE_MIN(words, worker * each);
    return (struct copse_worker_slice){ COPSE_WORD_BYTES * first,
                                        COPSE_WORD_BYTES * COPSE_MIN(each, words - first) };
}

size_t copse__group_sum_room(const struct copse_group *g, size_t words)
{
    return g->cluster
               ? g->workers * slice_of(g, 0, COPSE_MIN(words, CHUNK_WORDS)).size / COPSE_WORD_BYTES
               : 0;
}

/* `row_count` rows of `count` words become one; words before `floats` are f32. */
static void add_rows(uint32_t *room, uint32_t row_count, size_t count, size_t floats)
{
    void *rows[COPSE_MAX_WORKERS];
    for (uint32_t v = 0; v < row_count; v++)
        rows[v] = room + v * count;
    copse__tree_rows(rows, row_count, floats, COPSE_F32);
    for (uint32_t v = 0; v < row_count; v++)
        rows[v] = room + v * count + floats;
    copse__tree_rows(rows, row_count, count - floats, COPSE_I32);
}

/* `words` of a chunk; the first `floats` are f32. The results are received into `words`: the sends
   of the partial sums there must have ended. */
static copse_status sum_chunk(struct copse_worker_messages *m, unsigned char *words, size_t count,
                              size_t floats, uint32_t *room)
{
    const uint32_t workers = m->group->workers, me = m->group->worker;
    struct copse_worker_slice slices[COPSE_MAX_WORKERS];
    for (uint32_t v = 0; v < workers; v++)
        slices[v] = slice_of(m->group, v, count);
    const struct copse_worker_slice own = slices[me];
    const size_t first = own.offset / COPSE_WORD_BYTES, own_count = own.size / COPSE_WORD_BYTES;
    COPSE_TRY(copse__worker_recv_sums(m, slices, (unsigned char *)room));
    COPSE_TRY(copse__worker_send(m, COPSE_KIND_SUMS, slices, words));
    memcpy(room + me * own_count, words + own.offset, own.size);
    COPSE_TRY(copse__worker_wait_recvs(m, COPSE_KIND_SUMS, 0, workers, NULL, NULL));
    COPSE_TRY(copse__worker_wait_sends(m, NULL, NULL));
    add_rows(room, workers, own_count, floats > first ? COPSE_MIN(floats - first, own_count) : 0);
    memcpy(words + own.offset, room, own.size);
    COPSE_TRY(copse__worker_recv_results(m, slices, words));
    COPSE_TRY(copse__worker_send(m, COPSE_KIND_RESULTS, slices, words));
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
    for (size_t at = 0; at < total && !s; at += CHUNK_WORDS)
        s = sum_chunk(&m, (unsigned char *)(words + at), COPSE_MIN(total - at, CHUNK_WORDS),
                      floats > at ? floats - at : 0, room);
    copse__worker_drop(&m);
    return s;
}
