/* SPDX-License-Identifier: MIT */
/* Results of public functions, for one process with N replicas and for W workers with N / W
   replicas each: they are compared bit by bit, on every worker. A number of one replica is compared
   with that of the same rank. */
#ifndef COPSE_NUMBERS_RIG_H
#define COPSE_NUMBERS_RIG_H

#include <math.h>

#include "copse/data.h"
#include "copse/distribute/value.h"
#include "tests/rig/workers/worker_rig.h"

#define RANKS   8u
#define NUMBERS 512u
#define WIDTH   3u
#define ROWS    20u

/* The results of one worker. */
struct numbers {
    double all[NUMBERS];         /* the same on all workers */
    double each[RANKS][NUMBERS]; /* by global rank; only this worker's ranks */
    size_t count, each_count[RANKS];
};

static inline void put(struct numbers *n, double x)
{
    if (n->count < NUMBERS)
        n->all[n->count++] = x;
}

static inline void put_each(struct numbers *n, uint32_t rank, double x)
{
    if (n->each_count[rank] < NUMBERS)
        n->each[rank][n->each_count[rank]++] = x;
}

typedef copse_status numbers_fn(copse_strategy *st, struct numbers *n);

/* Add the numbers of an array, for all or for a rank. */
static inline copse_status put_value(struct numbers *n, const uint32_t *rank, const copse_value *v)
{
    uint32_t words[64];
    const copse_shape shape = copse_value_shape(v);
    size_t count = 1;
    for (uint32_t d = 0; d < shape.rank; d++)
        count *= shape.dims[d];
    CHECK(count <= COPSE_COUNT(words));
    COPSE_TRY(copse_value_read(v, words));
    for (size_t i = 0; i < count; i++) {
        float x;
        memcpy(&x, &words[i], sizeof x);
        const double number =
            copse_value_type(v) == COPSE_I32 ? (double)(int32_t)words[i] : (double)x;
        if (rank)
            put_each(n, *rank, number);
        else
            put(n, number);
    }
    return COPSE_OK;
}

/* ---- data ---- */

static inline float row_value(size_t i)
{
    return sinf(0.7f * (float)i) * (float)(1 + i % 5) / 3.0f;
}

static inline const float *features(void)
{
    static float x[ROWS * WIDTH];
    for (size_t i = 0; i < ROWS * WIDTH; i++)
        x[i] = row_value(i);
    return x;
}

static inline const float *targets(void)
{
    static float y[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        y[i] = row_value(1000 + i);
    return y;
}

static inline struct copse_host_batch rows(size_t first, size_t count)
{
    return rig_kept((struct copse_host_batch){
        RIG_PAIR(WIDTH, features() + first * WIDTH, 1, targets() + first), .count = count,
        .first = first });
}

/* 19 rows with targets: the last batch of eight has three. */
static inline copse_status labelled_rows(copse_dataset **out)
{
    const struct copse_host_batch all = rows(0, 19);
    return copse_dataset_columns(ctx, all.columns, all.column_count, all.count, out);
}

/* ---- comparing ---- */

/* Functions, and their callers. */
struct group {
    const char *functions;
    numbers_fn *fn;
};

struct job {
    const struct group *group;
    struct numbers of[RANKS]; /* by worker */
};

static inline copse_status run_group(struct worker *w, copse_strategy *st)
{
    struct job *job = (struct job *)w->job;
    return job->group->fn(st, &job->of[w->rank]);
}

/* One process without a cluster. */
static inline void run_alone(const struct group *group, uint32_t ranks, struct numbers *n)
{
    const char *ids[RANKS];
    copse_strategy *st;
    for (uint32_t r = 0; r < ranks; r++)
        ids[r] = found[r % found_count];
    OK(copse_mirrored_create(ctx, ids, ranks, NULL, &st));
    OK(group->fn(st, n));
    copse_strategy_release(&st);
}

static inline void compare(const char *what, const double *got, size_t got_count, const double *one,
                           size_t count)
{
    if (got_count != count)
        fail_msg("%s: %zu numbers, not %zu", what, got_count, count);
    for (size_t i = 0; i < count; i++)
        if (memcmp(&got[i], &one[i], sizeof *got) != 0)
            fail_msg("%s: number %zu is %.17g, in one process %.17g", what, i, got[i], one[i]);
}

/* Run every group in one process, and in workers of several layouts. */
static inline void compare_groups(const struct group *groups, size_t group_count)
{
    static const uint32_t layouts[][2] = { { 2, 1 }, { 3, 1 }, { 2, 2 }, { 4, 1 } };
    static struct numbers one;
    static struct job job;
    struct worker w[4];
    char what[512];
    for (size_t g = 0; g < group_count; g++)
        for (size_t l = 0; l < COPSE_COUNT(layouts); l++) {
            const uint32_t size = layouts[l][0], replicas = layouts[l][1];
            memset(&one, 0, sizeof one);
            memset(&job, 0, sizeof job);
            job.group = &groups[g];
            run_alone(&groups[g], size * replicas, &one);
            assert_in_range(one.count, 1, NUMBERS - 1);
            run_workers_over(&copse__transport_local, w, size, replicas, &job, run_group);
            assert_all_ok(w, size);
            uint32_t own = 0; /* ranks whose numbers were compared */
            for (uint32_t v = 0; v < size; v++) {
                snprintf(what, sizeof what, "%s: worker %u of %u with %u replicas",
                         groups[g].functions, v, size, replicas);
                compare(what, job.of[v].all, job.of[v].count, one.all, one.count);
                for (uint32_t r = 0; r < size * replicas; r++) {
                    if (job.of[v].each_count[r] == 0)
                        continue;
                    own++;
                    snprintf(what, sizeof what, "%s: rank %u of worker %u of %u",
                             groups[g].functions, r, v, size);
                    assert_in_range(one.each_count[r], 0, NUMBERS - 1);
                    compare(what, job.of[v].each[r], job.of[v].each_count[r], one.each[r],
                            one.each_count[r]);
                }
            }
            assert_true(own == size * replicas || one.each_count[0] == 0);
        }
}

#endif
