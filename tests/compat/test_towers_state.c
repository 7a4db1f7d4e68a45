/* SPDX-License-Identifier: MIT */
/* Checkpoints of tower optimizers: a run that is cut and goes on has the bits of one that is not,
   with replicas that hold their variables, with servers, with other workers, under a monitor and
   beside a trainer; what does not fit is named, and changes nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
/* after the above */
#include <cmocka.h>

#include "copse/compat/replicated.h"
#include "copse/compat/train_step.h"
#include "copse/distribute/parameter_server.h"
#include "copse/loop/monitor.h"
#include "copse/ops.h"
#include "core/state/state.h"
#include "tests/rig/data/temp_files.h"
#include "tests/rig/workers/worker_rig.h"

#define WIDTH 5u
#define ROWS  12u /* of all replicas */
#define STEPS 6u
#define CUT   3u

/* Two optimizers; the second one's variable has no gradient before step 4. */
struct towers {
    copse_strategy *st;
    copse_variable *weights, *offset, *idle;
    copse_tower_optimizer *adam, *slow;
    uint32_t step;
};

static copse_status make_towers(copse_strategy *st, copse_optimizer_kind kind, struct towers *m)
{
    const float start[WIDTH] = { 1, -1, 0.5f, 2, 0 };
    const struct copse_tower_params adam = { .optimizer = { .kind = kind, .learning_rate = 0.05f },
                                             .seed = 3 };
    const struct copse_tower_params slow = {
        .optimizer = { .kind = COPSE_MOMENTUM, .learning_rate = 0.02f }, .name = "slow"
    };
    struct copse_variable_params p = { .name = "weights",
                                       .shape = COPSE_SHAPE(WIDTH),
                                       .values = start };
    *m = (struct towers){ .st = st };
    COPSE_TRY(copse_variable_create(st, &p, &m->weights));
    p.name = "offset";
    COPSE_TRY(copse_variable_create(st, &p, &m->offset));
    p.name = "idle";
    COPSE_TRY(copse_variable_create(st, &p, &m->idle));
    COPSE_TRY(copse_tower_create(st, &adam, &m->adam));
    return copse_tower_create(st, &slow, &m->slow);
}

static void free_towers(struct towers *m)
{
    copse_tower_release(&m->adam);
    copse_tower_release(&m->slow);
}

static copse_tensor *distance(copse_graph *g, const copse_batch *in, void *user)
{
    const struct towers *m = user;
    copse_tensor *d = copse_dropout(g, rig_x(in), 0.25f, in->is_training);
    d = copse_mul(g, d, copse_variable_tensor(m->weights));
    d = copse_square(g, d);
    return copse_mean(g, d, NULL, 0, false);
}

/* Of the other variable alone: whether it comes before or behind the first one's update makes no
   difference. */
static copse_tensor *difference(copse_graph *g, const copse_batch *in, void *user)
{
    const struct towers *m = user;
    copse_tensor *d = copse_add(g, rig_x(in), copse_variable_tensor(m->offset));
    d = copse_square(g, d);
    return copse_mean(g, d, NULL, 0, false);
}

static copse_status model(copse_replica_context *rc, const struct copse_model_call *call,
                          struct copse_model_spec *spec)
{
    struct towers *m = call->user;
    const struct copse_tower_loss of = { .loss = distance, .user = m, .x = call->features };
    const struct copse_tower_loss other = { .loss = difference, .user = m, .x = call->features };
    (void)rc;
    COPSE_TRY(copse_tower_minimize(m->adam, &of, &m->weights, 1, true, &spec->loss));
    return m->step < 4 ? COPSE_OK
                       : copse_tower_minimize(m->slow, &other, &m->offset, 1, false, NULL);
}

static copse_status step(void *user)
{
    struct towers *m = user;
    const struct copse_replicated_params p = { model, m, COPSE_LOSS_MEAN };
    const uint32_t all = copse_strategy_replicas_in_sync(m->st),
                   own = copse_strategy_replicas(m->st);
    const uint32_t rows = ROWS / all * own, first = ROWS / all * copse_strategy_first_rank(m->st);
    struct copse_replicated_result result;
    float x[ROWS * WIDTH];
    copse_value *features;
    for (uint32_t i = 0; i < rows * WIDTH; i++)
        x[i] = sinf(0.7f * (float)(first * WIDTH + i) + (float)m->step);
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(rows, WIDTH), x, &features));
    const copse_status s =
        copse_replicated_run(m->st, &p, COPSE_MODEL_TRAIN, features, NULL, &result);
    copse_value_release(&features);
    m->step += s == COPSE_OK;
    return s;
}

static copse_status steps_until(struct towers *m, uint32_t end)
{
    while (m->step < end)
        COPSE_TRY(step(m));
    return COPSE_OK;
}

#define NUMBERS (5 * WIDTH + 3)

static copse_status slot_of(copse_tower_optimizer *t, copse_variable *v, const char *name,
                            float *to)
{
    copse_value *slot;
    COPSE_TRY(copse_tower_slot(t, v, name, &slot));
    memset(to, 0, WIDTH * sizeof *to);
    const copse_status s = slot ? copse_value_read(slot, to) : COPSE_OK;
    copse_value_release(&slot);
    return s;
}

static copse_status numbers_of(struct towers *m, float *to)
{
    COPSE_TRY(copse_variable_read(m->weights, copse_strategy_replicas(m->st) - 1, to));
    COPSE_TRY(copse_variable_read(m->offset, 0, to + WIDTH));
    COPSE_TRY(slot_of(m->adam, m->weights, "m", to + 2 * WIDTH));
    COPSE_TRY(slot_of(m->adam, m->weights, "v", to + 3 * WIDTH));
    COPSE_TRY(slot_of(m->slow, m->offset, "v", to + 4 * WIDTH));
    to[5 * WIDTH] = (float)copse_tower_steps(m->adam);
    to[5 * WIDTH + 1] = (float)copse_tower_steps(m->slow);
    to[5 * WIDTH + 2] = (float)copse_global_step(m->st);
    return COPSE_OK;
}

/* Cut behind step CUT, whose checkpoint is a parameter; without a path the run is not cut. */
static copse_status train(copse_strategy *st, const char *from, const char *to, float *numbers)
{
    struct towers m;
    copse_status s = make_towers(st, COPSE_ADAM, &m);
    if (!s && from) {
        struct copse_position at;
        s = copse_replicated_restore(st, from, &at, NULL);
        m.step = (uint32_t)at.batch;
        if (!s && copse_tower_steps(m.adam) != CUT)
            s = copse_fail(COPSE_ERR_INTERNAL, "another count of updates");
    }
    if (!s && to) {
        s = steps_until(&m, CUT);
        s = s ? s
              : copse_replicated_checkpoint(st, to,
                                            &(struct copse_state_params){ .position = { 0, CUT } });
    }
    s = s ? s : steps_until(&m, STEPS);
    s = s ? s : numbers_of(&m, numbers);
    free_towers(&m);
    return s;
}

/* Replicas on all devices in turn, mirrored or served. */
static copse_strategy *open(uint32_t replicas, bool is_served)
{
    const char *ids[4];
    copse_strategy *st;
    for (uint32_t r = 0; r < replicas; r++)
        ids[r] = found[r % found_count];
    assert_int_equal(is_served ? copse_parameter_server_create(ctx, NULL, ids, replicas, NULL, &st)
                               : copse_mirrored_create(ctx, ids, replicas, NULL, &st),
                     COPSE_OK);
    return st;
}

static void a_run_that_goes_on_has_the_same_bits(void **state)
{
    (void)state;
    for (int is_served = 0; is_served < 2; is_served++)
        for (uint32_t n = 1; n <= 4; n++) {
            float whole[NUMBERS], first[NUMBERS], again[NUMBERS];
            const char *path = temp_path("towers.safetensors");
            copse_strategy *st = open(n, is_served);
            OK(train(st, NULL, NULL, whole));
            copse_strategy_release(&st);
            st = open(n, is_served);
            OK(train(st, NULL, path, first));
            copse_strategy_release(&st);
            st = open(n, is_served);
            OK(train(st, path, NULL, again));
            copse_strategy_release(&st);
            assert_true(whole[4 * WIDTH] != 0 && whole[2 * WIDTH] != 0);
            assert_memory_equal(first, whole, sizeof whole);
            assert_memory_equal(again, whole, sizeof whole);
        }
}

/* One entry per slot; other replicas, and servers or none, take the same file. */
static void replicas_leave_no_trace(void **state)
{
    static const char *const names[] = { "weights", "offset", "idle", "weights/tower/m",
                                         "weights/tower/v" };
    const char *path = temp_path("three.safetensors");
    float first[NUMBERS], numbers[NUMBERS];
    copse_checkpoint *file;
    size_t count;
    (void)state;
    copse_strategy *st = open(3, false);
    OK(train(st, NULL, path, first));
    copse_strategy_release(&st);
    OK(copse_checkpoint_read(ctx, path, &file));
    const struct copse_named_array *list = copse_checkpoint_arrays(file, &count);
    assert_int_equal(count, COPSE_COUNT(names));
    for (size_t i = 0; i < count; i++)
        assert_string_equal(list[i].name, names[i]);
    copse_checkpoint_release(&file);
    for (uint32_t n = 1; n <= 4; n++)
        for (int is_served = 0; is_served < 2; is_served++) {
            st = open(n, is_served);
            OK(train(st, path, NULL, numbers));
            copse_strategy_release(&st);
            for (uint32_t i = 0; i < NUMBERS; i++)
                if (fabsf(numbers[i] - first[i]) > 1e-5f * (1 + fabsf(first[i])))
                    fail_msg("%u replicas: number %u is %g, not %g", n, i, (double)numbers[i],
                             (double)first[i]);
        }
}

/* A variable that was updated after the checkpoint is as it was: without a velocity. */
static void going_back_takes_slots_back(void **state)
{
    const char *path = temp_path("back.safetensors");
    (void)state;
    for (int is_served = 0; is_served < 2; is_served++) {
        float whole[NUMBERS], again[NUMBERS];
        struct towers m;
        copse_strategy *st = open(2, is_served);
        OK(make_towers(st, COPSE_ADAM, &m));
        OK(steps_until(&m, CUT));
        OK(copse_replicated_checkpoint(st, path, NULL));
        OK(steps_until(&m, STEPS));
        OK(numbers_of(&m, whole));
        OK(copse_replicated_restore(st, path, NULL, NULL));
        OK(numbers_of(&m, again));
        for (uint32_t i = 0; i < WIDTH; i++)
            assert_true(again[4 * WIDTH + i] == 0);
        m.step = CUT;
        OK(steps_until(&m, STEPS));
        OK(numbers_of(&m, again));
        assert_memory_equal(again, whole, sizeof whole);
        free_towers(&m);
        copse_strategy_release(&st);
    }
}

/* ---- what does not fit ---- */

/* The file without an array, or with it in another shape, or with a line of metadata under another
   key. */
static void rewrite(const char *from, const char *to, const char *drop, const char *reshape,
                    const char *key)
{
    struct copse_named_array arrays[16];
    struct copse_metadata metadata[40];
    struct copse_checkpoint_params p = { .arrays = arrays, .metadata = metadata };
    const float number = 1;
    char sum[16];
    copse_checkpoint *file;
    size_t count;
    OK(copse_checkpoint_read(ctx, from, &file));
    const struct copse_named_array *list = copse_checkpoint_arrays(file, &count);
    for (size_t i = 0; i < count; i++) {
        if (drop && strcmp(list[i].name, drop) == 0)
            continue;
        arrays[p.array_count] = list[i];
        if (reshape && strcmp(list[i].name, reshape) == 0) {
            arrays[p.array_count].array.shape[0] = 1;
            arrays[p.array_count].array.data = &number;
        }
        p.array_count++;
    }
    const struct copse_metadata *lines = copse_checkpoint_metadata(file, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(lines[i].key, COPSE_CHECKSUM_KEY) != 0) {
            metadata[p.metadata_count] = lines[i];
            if (key && strcmp(lines[i].key, key) == 0)
                metadata[p.metadata_count].key = "tower.other.updates";
            p.metadata_count++;
        }
    OK(copse__checksum(&ctx->base.mem, &p, sum));
    metadata[p.metadata_count++] = (struct copse_metadata){ COPSE_CHECKSUM_KEY, sum };
    OK(copse_checkpoint_write(ctx, to, &p));
    copse_checkpoint_release(&file);
}

static void what_does_not_fit_is_named(void **state)
{
    const char *path = temp_path("whole.safetensors"), *other = temp_path("other.safetensors");
    (void)state;
    for (int is_served = 0; is_served < 2; is_served++) {
        float before[NUMBERS], after[NUMBERS];
        struct towers m, another;
        copse_strategy *st = open(2, is_served);
        OK(make_towers(st, COPSE_ADAM, &m));
        OK(steps_until(&m, STEPS));
        OK(numbers_of(&m, before));
        OK(copse_replicated_checkpoint(st, path, NULL));
        rewrite(path, other, "weights/tower/v", NULL, NULL);
        FAILS(COPSE_ERR_ARGUMENT, copse_replicated_restore(st, other, NULL, NULL),
              "has no 'weights/tower/v'");
        rewrite(path, other, "offset/slow/v", NULL, NULL);
        FAILS(COPSE_ERR_ARGUMENT, copse_replicated_restore(st, other, NULL, NULL),
              "optimizer 'slow', of 1");
        rewrite(path, other, NULL, "weights/tower/m", NULL);
        FAILS(COPSE_ERR_SHAPE, copse_replicated_restore(st, other, NULL, NULL),
              "'weights/tower/m' is f32 [1]");
        rewrite(path, other, NULL, NULL, "tower.slow.updates");
        FAILS(COPSE_ERR_ARGUMENT, copse_replicated_restore(st, other, NULL, NULL),
              "tower.other.updates");
        FAILS(COPSE_ERR_IO, copse_replicated_restore(st, temp_path("none"), NULL, NULL), "none");
        OK(numbers_of(&m, after));
        assert_memory_equal(after, before, sizeof after);
        copse_tower_release(&m.slow);
        FAILS(COPSE_ERR_ARGUMENT, copse_replicated_restore(st, path, NULL, NULL), "'tower.slow.");
        OK(copse_replicated_checkpoint(st, other, NULL));
        free_towers(&m);
        copse_strategy_release(&st);

        st = open(1, is_served);
        OK(make_towers(st, COPSE_SGD, &another));
        FAILS(COPSE_ERR_ARGUMENT, copse_replicated_restore(st, other, NULL, NULL),
              "no tower optimizer 'slow'");
        FAILS(COPSE_ERR_ARGUMENT, copse_replicated_restore(st, path, NULL, NULL),
              "'tower' as adam, here it is sgd");
        free_towers(&another);
        copse_strategy_release(&st);
    }
    FAILS(COPSE_ERR_ARGUMENT, copse_replicated_checkpoint(NULL, path, NULL), "'st' is NULL");
}

/* ---- beside a trainer, and under a monitor ---- */

static copse_status make_trainer(struct towers *m, copse_trainer **out)
{
    const struct copse_trainer_params p = { .loss = distance,
                                            .user = m,
                                            .variables = &m->idle,
                                            .variable_count = 1,
                                            .optimizer = { .kind = COPSE_SGD,
                                                           .learning_rate = 0.1f } };
    return copse_trainer_create(m->st, &p, out);
}

static void trainers_take_them_along(void **state)
{
    const char *path = temp_path("beside.safetensors");
    float whole[NUMBERS], again[NUMBERS];
    struct towers m;
    copse_trainer *t;
    (void)state;
    copse_strategy *st = open(2, false);
    OK(make_towers(st, COPSE_ADAM, &m));
    OK(make_trainer(&m, &t));
    OK(steps_until(&m, CUT));
    OK(copse_trainer_checkpoint(t, path, NULL));
    OK(steps_until(&m, STEPS));
    OK(numbers_of(&m, whole));
    OK(copse_trainer_restore(t, path, NULL, NULL));
    m.step = CUT;
    OK(steps_until(&m, STEPS));
    OK(numbers_of(&m, again));
    assert_memory_equal(again, whole, sizeof whole);
    copse_tower_release(&m.slow);
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_restore(t, path, NULL, NULL), "'tower.slow.");
    copse_trainer_release(&t);
    free_towers(&m);
    copse_strategy_release(&st);
}

static copse_status save(void *user, const char *path)
{
    struct towers *m = user;
    return copse_replicated_checkpoint(m->st, path,
                                       &(struct copse_state_params){ .position = { 0, m->step } });
}

static copse_status bring_back(void *user, const char *path)
{
    struct towers *m = user;
    struct copse_position at;
    COPSE_TRY(copse_replicated_restore(m->st, path, &at, NULL));
    m->step = (uint32_t)at.batch;
    return COPSE_OK;
}

static uint64_t progress(void *user)
{
    return ((const struct towers *)user)->step;
}

static void a_monitored_run_goes_on(void **state)
{
    static const struct copse_step_functions functions = {
        .run = step, .save = save, .restore = bring_back, .progress = progress
    };
    const struct copse_monitor_params p = { .folder = temp_path("run"), .every_steps = 2 };
    float whole[NUMBERS], again[NUMBERS];
    (void)state;
    copse_strategy *st = open(3, false);
    OK(train(st, NULL, NULL, whole));
    copse_strategy_release(&st);
    for (int life = 0; life < 2; life++) { /* the first ends after step 5, with 4 steps saved */
        struct towers m;
        copse_monitor *monitor;
        copse_step *s;
        uint64_t done;
        st = open(3, false);
        OK(make_towers(st, COPSE_ADAM, &m));
        OK(copse_step_create(ctx, st, &functions, &m, &s));
        OK(copse_monitor_create(s, &p, &monitor));
        assert_int_equal(m.step, life ? 4 : 0);
        OK(copse_monitor_run(monitor, life ? STEPS - 4 : 5, &done));
        OK(numbers_of(&m, again));
        copse_monitor_release(&monitor);
        copse_step_release(&s);
        free_towers(&m);
        copse_strategy_release(&st);
    }
    assert_memory_equal(again, whole, sizeof whole);
}

/* ---- with other workers ---- */

struct job {
    const char *from, *to;
};

static copse_status train_worker(struct worker *w, copse_strategy *st)
{
    const struct job *job = w->job;
    return train(st, job->from, job->to, w->values);
}

static void workers_go_on_together(void **state)
{
    static const uint32_t layouts[][2] = { { 2, 1 }, { 4, 1 }, { 2, 2 } };
    (void)state;
    for (size_t l = 0; l < COPSE_COUNT(layouts); l++) {
        const uint32_t size = layouts[l][0], replicas = layouts[l][1];
        const char *path = temp_path("workers.safetensors"),
                   *alone = temp_path("alone.safetensors");
        const struct job jobs[] = {
            { NULL, path }, { path, NULL }, { alone, NULL }, { NULL, alone }
        };
        struct worker one[1], w[4];
        run_workers_over(&copse__transport_local, one, 1, size * replicas, &jobs[3], train_worker);
        assert_all_ok(one, 1);
        for (uint32_t k = 0; k < 3; k++) {
            run_workers_over(&copse__transport_local, w, size, replicas, &jobs[k], train_worker);
            assert_all_ok(w, size);
            for (uint32_t v = 0; v < size; v++)
                assert_memory_equal(w[v].values, one[0].values, NUMBERS * sizeof(float));
        }
    }
}

/* The file is damaged: no worker is changed, and all go on together. */
static copse_status refuse_worker(struct worker *w, copse_strategy *st)
{
    const struct job *job = w->job;
    struct towers m;
    COPSE_TRY(make_towers(st, COPSE_ADAM, &m));
    copse_status s = steps_until(&m, STEPS);
    if (!s)
        w->seen[0] = (uint32_t)copse_replicated_restore(st, job->from, NULL, NULL);
    s = s ? s : numbers_of(&m, w->values);
    free_towers(&m);
    return s;
}

static void no_worker_takes_what_does_not_fit(void **state)
{
    const char *path = temp_path("workers2.safetensors"), *other = temp_path("damaged.safetensors");
    const struct job jobs[] = { { NULL, path }, { other, NULL } };
    struct worker w[2], like[2];
    (void)state;
    run_workers_over(&copse__transport_local, like, 2, 1, &jobs[0], train_worker);
    assert_all_ok(like, 2);
    rewrite(path, other, "weights/tower/m", NULL, NULL);
    run_workers_over(&copse__transport_local, w, 2, 1, &jobs[1], refuse_worker);
    assert_all_ok(w, 2);
    for (uint32_t v = 0; v < 2; v++) {
        assert_int_equal(w[v].seen[0], COPSE_ERR_ARGUMENT);
        assert_memory_equal(w[v].values, like[v].values, NUMBERS * sizeof(float));
    }
}

static int begin(void **state)
{
    temp_begin();
    return open_workers(state);
}

static int end(void **state)
{
    temp_end();
    return close_workers(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_that_goes_on_has_the_same_bits),
        cmocka_unit_test(replicas_leave_no_trace),
        cmocka_unit_test(going_back_takes_slots_back),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(trainers_take_them_along),
        cmocka_unit_test(a_monitored_run_goes_on),
        cmocka_unit_test(workers_go_on_together),
        cmocka_unit_test(no_worker_takes_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
