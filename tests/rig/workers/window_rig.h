/* SPDX-License-Identifier: MIT */
/* Shared by the tests of windows: a network that one worker trains with a server, and a check that
   nothing is left. Include after cmocka.h. */
#ifndef COPSE_WINDOW_RIG_H
#define COPSE_WINDOW_RIG_H

#include "core/graph/op.h"
#include "tests/rig/workers/server_rig.h"

#define STEPS 25
static uint64_t late_ns; /* duration of the one step that timed out and was repeated */
static float trained[MODEL_IN * 32 + 32 + 32 * 16 + 16 + 16 * MODEL_CLASSES + MODEL_CLASSES];

static inline copse_status learn(struct job *job, uint32_t worker, copse_strategy *st)
{
    struct data *d = malloc(sizeof *d);
    struct model m = { .dropout = 0.0f };
    copse_trainer *t = NULL;
    double loss;
    size_t at = 0;
    (void)job;
    model_data(d->x, d->y);
    copse_status s = make_trainer(st, &m, COPSE_ADAM, &t);
    for (uint32_t i = 0; i < STEPS && !s; i++) {
        const uint64_t begin = copse__now_ns();
        s = one_step(t, d, i, &loss);
        if (s == COPSE_ERR_TIMEOUT && late_ns == 0) {
            late_ns = copse__now_ns() - begin;
            s = one_step(t, d, i, &loss);
        }
    }
    for (uint32_t i = 0; i < MODEL_VARIABLES && !s && worker == 0; i++) {
        s = copse_variable_read(m.variables[i], 0, &trained[at]);
        at += (size_t)copse__elements(copse_variable_tensor(m.variables[i])->shape);
    }
    copse_trainer_release(&t);
    free(d);
    return s;
}

/* Trains with one worker. Returns how the worker reached its server. */
static inline struct copse_one_sided_info train(struct job *job, float *values)
{
    job->workers = 1;
    job->servers = job->replicas = 1;
    job->work = learn;
    memset(trained, 0, sizeof trained);
    late_ns = 0;
    run_job(job);
    assert_all_done(job);
    assert_int_equal(job->tasks[1].summary.updates, STEPS);
    memcpy(values, trained, sizeof trained);
    return job->tasks[0].access;
}

static float by_messages[COPSE_COUNT(trained)], otherwise[COPSE_COUNT(trained)];

#define TEST(f) cmocka_unit_test_setup_teardown(f, note_blocks, check_blocks)
static size_t live_before;

static inline int note_blocks(void **state)
{
    struct copse_memory_stats stats;
    (void)state;
    copse_context_memory(ctx, &stats);
    live_before = stats.live_blocks;
    return 0;
}

static inline int check_blocks(void **state)
{
    struct copse_memory_stats stats;
    (void)state;
    copse_context_memory(ctx, &stats);
    if (stats.live_blocks != live_before)
        print_error("%zu blocks before, %zu after\n", live_before, stats.live_blocks);
    return stats.live_blocks != live_before;
}

#endif
