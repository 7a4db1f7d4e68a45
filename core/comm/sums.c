/* SPDX-License-Identifier: MIT */
/* What moves inside a collective of values that all workers have met at. Numbers are added up by their owners:
 * in every round each worker owns a part of the words, gets it from all others, adds the rows by the tree and
 * hands the sums to all. So each number is added up once, and all have the same bits.
 */
#include "core/comm/cluster.h"
#include "core/reduce/packing.h"

#define ROUND_WORDS ((size_t)1 << 22)
#define LEAST_WORDS ((size_t)1 << 10) /* of an owner, so that few numbers are summed by the first alone */

struct moves {
    struct copse_pending out[COPSE_MAX_WORKERS], in[COPSE_MAX_WORKERS];
};

/* Words that an owner has in a round of so many. */
static size_t owned_words(const copse_cluster *c, size_t words)
{
    const size_t even = (words + c->t.size - 1) / c->t.size;
    return COPSE_MAX(even, LEAST_WORDS);
}

struct range {
    size_t first, count;
};

static struct range range_of(const copse_cluster *c, uint32_t rank, size_t words)
{
    const size_t each = owned_words(c, words), first = COPSE_MIN(words, rank * each);
    return (struct range){ first, COPSE_MIN(each, words - first) };
}

size_t copse__cluster_sum_room(const copse_cluster *c, size_t words)
{
    return c->t.size * range_of(c, 0, COPSE_MIN(words, ROUND_WORDS)).count;
}

static copse_status wait_all(copse_cluster *c, struct copse_pending *list)
{
    return copse__cluster_wait(c, list, c->t.size, c->header.what, NULL, NULL);
}

/* Everybody's part of what this worker owns to `room`, a row each. */
static copse_status collect_parts(copse_cluster *c, struct moves *m, uint32_t *words, size_t count,
                                  uint32_t *room)
{
    const uint32_t me = c->t.rank, tag = copse__collective_tag(c, COPSE_KIND_ROWS);
    const struct range own = range_of(c, me, count);
    for (uint32_t r = 0; r < c->t.size; r++) {
        const struct range theirs = range_of(c, r, count);
        if (r != me && own.count)
            COPSE_TRY(copse__cluster_recv(c, r, tag, room + r * own.count, 4 * own.count, &m->in[r]));
        if (r != me && theirs.count)
            COPSE_TRY(copse__cluster_send(c, r, tag, words + theirs.first, 4 * theirs.count,
                                          &m->out[r]));
    }
    if (own.count)
        memcpy(room + me * own.count, words + own.first, 4 * own.count);
    COPSE_TRY(wait_all(c, m->in));
    return wait_all(c, m->out); /* their places in `words` receive the sums */
}

/* The rows become one; words before `floats` are f32. */
static void add_rows(const copse_cluster *c, uint32_t *room, size_t count, size_t floats)
{
    void *rows[COPSE_MAX_WORKERS];
    for (uint32_t r = 0; r < c->t.size; r++)
        rows[r] = room + r * count;
    copse__tree_rows(rows, c->t.size, floats, false);
    for (uint32_t r = 0; r < c->t.size; r++)
        rows[r] = room + r * count + floats;
    copse__tree_rows(rows, c->t.size, count - floats, true);
}

static copse_status hand_sums(copse_cluster *c, struct moves *m, uint32_t *words, size_t count,
                              const uint32_t *sums)
{
    const uint32_t me = c->t.rank, tag = copse__collective_tag(c, COPSE_KIND_SUMS);
    const struct range own = range_of(c, me, count);
    for (uint32_t r = 0; r < c->t.size; r++) {
        const struct range theirs = range_of(c, r, count);
        if (r != me && theirs.count)
            COPSE_TRY(copse__cluster_recv(c, r, tag, words + theirs.first, 4 * theirs.count,
                                          &m->in[r]));
        if (r != me && own.count)
            COPSE_TRY(copse__cluster_send(c, r, tag, sums, 4 * own.count, &m->out[r]));
    }
    if (own.count)
        memcpy(words + own.first, sums, 4 * own.count);
    COPSE_TRY(wait_all(c, m->in));
    return wait_all(c, m->out);
}

copse_status copse__cluster_sum(copse_cluster *c, uint32_t *words, size_t floats, size_t whole,
                                uint32_t *room)
{
    struct moves m = { .out = { { NULL, 0 } } };
    const size_t total = floats + whole;
    copse_status s = COPSE_OK;
    for (size_t at = 0; at < total && !s; at += ROUND_WORDS) {
        const size_t count = COPSE_MIN(total - at, ROUND_WORDS);
        const struct range own = range_of(c, c->t.rank, count);
        const size_t first = at + own.first;
        s = collect_parts(c, &m, words + at, count, room);
        if (s)
            break;
        add_rows(c, room, own.count, floats > first ? COPSE_MIN(floats - first, own.count) : 0);
        s = hand_sums(c, &m, words + at, count, room);
    }
    copse__cluster_drop(c, m.in, c->t.size);
    copse__cluster_drop(c, m.out, c->t.size);
    return s;
}

copse_status copse__cluster_allgatherv(copse_cluster *c, void *all, const size_t *sizes)
{
    struct moves m = { .out = { { NULL, 0 } } };
    const uint32_t me = c->t.rank, tag = copse__collective_tag(c, COPSE_KIND_BYTES);
    size_t most = 0, starts[COPSE_MAX_WORKERS], end = 0;
    copse_status s = COPSE_OK;
    for (uint32_t r = 0; r < c->t.size; r++) {
        most = COPSE_MAX(most, sizes[r]);
        starts[r] = end;
        end += sizes[r];
    }
    for (size_t at = 0; at < most && !s; at += COPSE_TRANSPORT_BYTES) {
        for (uint32_t r = 0; r < c->t.size && !s; r++) {
            if (r != me && sizes[r] > at)
                s = copse__cluster_recv(c, r, tag, (char *)all + starts[r] + at,
                                        COPSE_MIN(sizes[r] - at, COPSE_TRANSPORT_BYTES), &m.in[r]);
            if (!s && r != me && sizes[me] > at)
                s = copse__cluster_send(c, r, tag, (char *)all + starts[me] + at,
                                        COPSE_MIN(sizes[me] - at, COPSE_TRANSPORT_BYTES), &m.out[r]);
        }
        if (!s)
            s = wait_all(c, m.in);
        if (!s)
            s = wait_all(c, m.out);
    }
    copse__cluster_drop(c, m.in, c->t.size);
    copse__cluster_drop(c, m.out, c->t.size);
    return s;
}
