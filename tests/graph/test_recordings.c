/* SPDX-License-Identifier: MIT */
/* Recordings are kept up to a limit, least recently used ones go: memory does not grow with the
   number of sizes, no bit depends on the limit, what a step or a batch that is fed needs stays, and
   what is computed is waited for. */
#include "copse/loop/feed.h"

#include "tests/rig/train/step_rig.h"
#include "tests/rig/train/train_model.h"

#include "copse/distribute/accelerator.h"
#include "copse/distribute/parameter_server.h"
#include "copse/distribute/sync.h"
#include "core/train/execution.h"
#include "tests/rig/fake/fake_backend.h"

enum { STEPS = 18, LARGEST = 40, VALUES = 2048, ENOUGH = 100 };

static float data_x[MODEL_ROWS * MODEL_IN];
static int32_t data_y[MODEL_ROWS];

/* ---- a job ---- */

struct job_params {
    const char *const *ids;
    size_t count;
    uint32_t recordings, accumulate, prefetch;
    uint32_t steps_per_run; /* 0 = no accelerator */
    bool is_served;
};

struct job {
    copse_strategy *st;
    copse_trainer *t;
    struct model m;
    uint32_t calls; /* of the loss function */
};

static copse_tensor *counted_loss(copse_graph *g, const copse_batch *in, void *user)
{
    struct job *j = user;
    j->calls++;
    return model_loss(g, in, &j->m);
}

static copse_status make_strategy(const struct job_params *p, copse_context *in,
                                  copse_strategy **out)
{
    const struct copse_strategy_params how = { .bucket_bytes = 2048 };
    if (p->steps_per_run > 0)
        return copse_accelerator_create(in, p->ids, p->count,
                                        &(struct copse_accelerator_params){
                                            .strategy = how, .steps_per_run = p->steps_per_run },
                                        out);
    if (p->is_served)
        return copse_parameter_server_create(in, NULL, p->ids, p->count, &how, out);
    return p->count == 1 ? copse_one_device_create(in, p->ids[0], &how, out)
                         : copse_mirrored_create(in, p->ids, p->count, &how, out);
}

static void job_open_in(struct job *j, const struct job_params *p, copse_context *in)
{
    *j = (struct job){ .m = { .dropout = 0.25f } };
    model_data(data_x, data_y);
    OK(make_strategy(p, in, &j->st));
    OK(model_create(&j->m, j->st));
    OK(copse_trainer_create(j->st,
                            &(struct copse_trainer_params){ .loss = counted_loss,
                                                            .user = j,
                                                            .accumulate = p->accumulate,
                                                            .prefetch = p->prefetch,
                                                            .recordings = p->recordings,
                                                            .seed = 3 },
                            &j->t));
}

static void job_open(struct job *j, const struct job_params *p)
{
    job_open_in(j, p, ctx);
}

static void job_close(struct job *j)
{
    copse_trainer_release(&j->t);
    copse_strategy_release(&j->st);
}

static struct copse_host_batch batch_of(size_t count, uint64_t at)
{
    const size_t first = (size_t)at * 7 % (MODEL_ROWS - LARGEST);
    return rig_kept(
        (struct copse_host_batch){ RIG_XY(MODEL_IN, data_x + first * MODEL_IN, data_y + first),
                                   .count = count, .first = first });
}

/* Sizes that come once, some that come again soon, and one that comes again late. */
static size_t size_at(uint32_t i)
{
    return i % 3 == 2 ? 12 : i + 2 == STEPS ? 1 : 1 + i * 11 % LARGEST;
}

static size_t read_all(const struct job *j, uint32_t replica, float *out)
{
    size_t at = 0;
    for (int v = 0; v < MODEL_VARIABLES; v++) {
        OK(copse_variable_read(j->m.variables[v], replica, out + at));
        const copse_shape s = copse_variable_shape(j->m.variables[v]);
        at += s.rank == 2 ? s.dims[0] * s.dims[1] : s.dims[0];
    }
    return at;
}

static size_t kept(const struct job *j)
{
    size_t most = 0;
    for (uint32_t r = 0; r < j->t->strategy->replica_count; r++)
        most = COPSE_MAX(most, j->t->recordings.of[r].count);
    return most;
}

static void step(struct job *j, size_t count)
{
    const struct copse_host_batch b = batch_of(count, count);
    OK(copse_trainer_step(j->t, &b));
}

static double evaluate(struct job *j, size_t count)
{
    const struct copse_host_batch b = batch_of(count, count);
    struct copse_step_result got;
    OK(copse_trainer_evaluate(j->t, &b, &got));
    return got.loss;
}

/* ---- bits, and how many are kept ---- */

struct record {
    double losses[STEPS], evaluations[STEPS];
    uint32_t results, calls;
    size_t most, count;
    float values[VALUES];
};

/* Fed as far ahead as there is room; in an accelerator's runs as many of one size. */
static void train_one(struct job *j, const struct job_params *p, uint32_t i, uint32_t *fed)
{
    const uint32_t ahead = COPSE_MAX(p->prefetch, p->steps_per_run);
    if (p->steps_per_run > 0) {
        const struct copse_host_batch b = batch_of(size_at(i), i);
        for (uint32_t k = 0; k < ahead; k++) {
            OK(copse_trainer_feed(j->t, &b));
            if (k == 1) /* between what is fed and its run */
                evaluate(j, 3 + i % 5);
        }
        OK(copse_trainer_run(j->t));
        return;
    }
    for (; copse_trainer_fed(j->t) < ahead && *fed < STEPS; (*fed)++) {
        const struct copse_host_batch b = batch_of(size_at(*fed), *fed);
        OK(copse_trainer_feed(j->t, &b));
    }
    const struct copse_host_batch b = batch_of(size_at(i), i);
    OK(copse_trainer_step(j->t, ahead ? NULL : &b));
}

static void take(struct job *j, struct record *r)
{
    struct copse_step_result got;
    copse_status s;
    while ((s = copse_trainer_result(j->t, true, &got)) == COPSE_OK)
        r->losses[r->results++ % STEPS] = got.loss;
    assert_int_equal(s, COPSE_ERR_END);
}

static void train(const struct job_params *p, struct record *r)
{
    struct job j;
    uint32_t fed = 0;
    memset(r, 0, sizeof *r);
    job_open(&j, p);
    for (uint32_t i = 0; i < STEPS; i++) {
        train_one(&j, p, i, &fed);
        r->most = COPSE_MAX(r->most, kept(&j));
        if (i % 4 == 3)
            r->evaluations[i] = evaluate(&j, size_at(i + 1));
        if (i % 6 == 5 || p->steps_per_run > 0) /* several steps are under way before */
            take(&j, r);
    }
    OK(copse_trainer_flush(j.t));
    take(&j, r);
    r->calls = j.calls;
    r->count = read_all(&j, 0, r->values);
    for (uint32_t n = 1; !p->is_served && n < p->count; n++) {
        float other[VALUES];
        assert_int_equal(read_all(&j, n, other), r->count);
        assert_memory_equal(other, r->values, r->count * sizeof *other);
    }
    job_close(&j);
}

static void check_same(const struct record *got, const struct record *want)
{
    assert_int_equal(got->results, want->results);
    assert_memory_equal(got->values, want->values, want->count * sizeof *want->values);
    assert_memory_equal(got->losses, want->losses, sizeof want->losses);
    assert_memory_equal(got->evaluations, want->evaluations, sizeof want->evaluations);
}

/* `needed`: what a replica needs at once, at most. */
static void compare(struct job_params p, uint32_t limit, size_t needed)
{
    static struct record want, got;
    p.recordings = ENOUGH;
    train(&p, &want);
    assert_true(want.most > 8);
    p.recordings = limit;
    train(&p, &got);
    if (got.most > COPSE_MAX(limit, needed))
        fail_msg("%zu recordings are kept, %u are allowed and %zu needed at once", got.most, limit,
                 needed);
    assert_true(got.calls > want.calls);
    check_same(&got, &want);
}

static void every_device_keeps_its_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const struct job_params p = { .ids = &rig_devices[i], .count = 1 };
        compare(p, 1, 1);
    }
    compare((struct job_params){ .ids = rig_devices, .count = 1, .accumulate = 3 }, 2, 1);
}

/* Shards of three replicas are empty in some steps. */
static void mixtures_keep_their_bits(void **state)
{
    (void)state;
    compare((struct job_params){ .ids = rig_devices, .count = 3, .accumulate = 2 }, 2, 1);
    compare((struct job_params){ .ids = rig_devices, .count = 2, .is_served = true }, 1, 1);
}

static void batches_ahead_keep_their_bits(void **state)
{
    (void)state;
    compare((struct job_params){ .ids = rig_devices + 1, .count = 2, .prefetch = 3 }, 1, 3 + 1);
    compare((struct job_params){ .ids = rig_devices, .count = 1, .prefetch = 3, .accumulate = 2 },
            2, 3 + 1);
}

static void runs_keep_their_bits(void **state)
{
    static const char *const cores[] = { "host:0", "host:0" };
    (void)state;
    compare((struct job_params){ .ids = cores, .count = 2, .steps_per_run = 3, .accumulate = 2 }, 1,
            2 + 1);
    compare((struct job_params){ .ids = rig_devices, .count = 3, .steps_per_run = 2 }, 4, 1 + 1);
}

/* ---- which are kept ---- */

static void least_recently_used_goes(void **state)
{
    const struct job_params p = { .ids = rig_devices, .count = 1, .recordings = 3 };
    static const struct {
        size_t size;
        bool is_evaluated, is_new;
    } turns[] = {
        { 5, false, true },  { 6, false, true }, { 5, false, false }, { 5, true, true },
        { 6, false, false }, { 7, false, true }, { 6, false, false }, { 5, true, false },
        { 5, false, true }, /* 7 came before 6 and 5's evaluation: it went */
        { 7, false, true },  { 5, true, false }, { 5, false, false }, { 6, false, true },
    };
    struct job j;
    (void)state;
    job_open(&j, &p);
    for (size_t i = 0; i < COPSE_COUNT(turns); i++) {
        const uint32_t before = j.calls;
        if (turns[i].is_evaluated)
            evaluate(&j, turns[i].size);
        else
            step(&j, turns[i].size);
        if (j.calls != before + turns[i].is_new)
            fail_msg("turn %zu: the loss function was called %u times", i, j.calls - before);
        assert_true(kept(&j) <= 3);
    }
    job_close(&j);
}

static void default_is_32(void **state)
{
    const struct job_params p = { .ids = rig_devices, .count = 1 };
    struct job j;
    (void)state;
    job_open(&j, &p);
    for (size_t n = 1; n <= LARGEST; n++)
        step(&j, n);
    assert_int_equal(kept(&j), 32);
    assert_int_equal(j.calls, LARGEST);
    step(&j, LARGEST - 31);
    assert_int_equal(j.calls, LARGEST);
    step(&j, LARGEST - 32);
    assert_int_equal(j.calls, LARGEST + 1);
    job_close(&j);
}

static void kept_size_allocates_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const struct job_params p = { .ids = i == 3 ? rig_devices : &rig_devices[i],
                                      .count = i == 3 ? 3 : 1,
                                      .recordings = 2 };
        struct copse_memory_stats before, after;
        struct copse_step_result unused;
        struct job j;
        job_open(&j, &p);
        for (size_t n = 1; n <= 12; n++)
            step(&j, n);
        for (int turn = 0; turn < 2; turn++) {
            for (int k = 0; k < 6; k++) {
                step(&j, 11);
                step(&j, 12);
                OK(copse_trainer_result(j.t, true, &unused));
            }
            if (turn == 0) /* drivers and lists of what is to be freed have grown by now */
                copse_context_memory(ctx, &before);
        }
        copse_context_memory(ctx, &after);
        assert_int_equal(after.calls, before.calls);
        assert_int_equal(after.device_allocations, before.device_allocations);
        job_close(&j);
    }
}

/* All sizes again and again: the blocks of the third round are those of the second. */
static void memory_does_not_grow(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const struct job_params p = { .ids = &rig_devices[i], .count = 1, .recordings = 3 };
        struct copse_memory_stats round[3];
        float unused[VALUES];
        struct job j;
        job_open(&j, &p);
        for (int k = 0; k < 3; k++) {
            for (size_t n = 1; n <= LARGEST; n++) {
                step(&j, n);
                /* nothing is under way: released memory is there again at once */
                read_all(&j, 0, unused);
            }
            copse_context_memory(ctx, &round[k]);
        }
        assert_int_equal(round[2].live_blocks, round[1].live_blocks);
        assert_int_equal(round[2].device_allocations, round[1].device_allocations);
        job_close(&j);
    }
}

/* Evaluations of other sizes come between feeding and the steps. */
static void fed_batches_keep_theirs(void **state)
{
    const struct job_params p = { .ids = rig_devices, .count = 2, .recordings = 1, .prefetch = 3 };
    struct job j;
    (void)state;
    job_open(&j, &p);
    for (size_t n = 20; n < 23; n++) {
        const struct copse_host_batch b = batch_of(n, n);
        OK(copse_trainer_feed(j.t, &b));
    }
    for (size_t n = 30; n < 34; n++)
        evaluate(&j, n);
    const uint32_t before = j.calls;
    for (int k = 0; k < 3; k++)
        OK(copse_trainer_step(j.t, NULL));
    assert_int_equal(j.calls, before);
    step(&j, 34);
    assert_int_equal(kept(&j), 1);
    job_close(&j);
}

/* ---- the layout ---- */

struct crossing {
    copse_variable *w;
    uint32_t sums;
};

static copse_tensor *crossing_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct crossing *m = user;
    copse_tensor *y = copse_sum(g, rig_x(in), NULL, 0, false);
    y = copse_reshape(g, y, COPSE_SHAPE(1));
    for (uint32_t i = 0; i < m->sums; i++)
        y = copse_all_reduce(g, y, COPSE_SUM);
    return copse_mul(g, y, copse_variable_tensor(m->w));
}

/* What has been released leaves its layout behind: what comes later is still compared with it. */
static void layout_outlives_recordings(void **state)
{
    copse_strategy *st = rig_strategy(2, NULL);
    struct crossing m = { rig_scalar(st, "w", 2.0f), 1 };
    struct copse_step_result got;
    copse_trainer *t;
    copse_status s;
    (void)state;
    OK(copse_trainer_create(
        st, &(struct copse_trainer_params){ .loss = crossing_loss, .user = &m, .recordings = 1 },
        &t));
    for (size_t n = 3; n < 7; n++) {
        const struct copse_host_batch rows = rig_rows(n);
        OK(copse_trainer_step(t, &rows));
    }
    const struct copse_host_batch rows = rig_rows(3), one = rig_rows(1);
    const float before = rig_value(m.w, 0);
    m.sums = 2;
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_step(t, &rows), "more sums over replicas");
    m.sums = 0;
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_step(t, &rows), "other sums over replicas");
    assert_true(rig_value(m.w, 0) == before);
    m.sums = 1;
    OK(copse_trainer_step(t, &rows));
    OK(copse_trainer_step(t, &one)); /* one replica has nothing */
    OK(copse_trainer_step(t, &rows));
    OK(copse_trainer_step(t, &one));
    while ((s = copse_trainer_result(t, true, &got)) == COPSE_OK)
        assert_true(isfinite(got.loss));
    assert_int_equal(s, COPSE_ERR_END);
    assert_true(rig_value(m.w, 0) == rig_value(m.w, 1));
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

/* ---- what is still being computed ---- */

static const char *const fakes[2] = { "fake:0", "fake:1" };

/* Devices that are slow: nothing is freed that they need. */
static void slow_devices_are_waited_for(void **state)
{
    static struct record want, got;
    (void)state;
    for (uint32_t devices = 1; devices <= 2; devices++)
        for (uint32_t limit = ENOUGH; limit > 0; limit = limit == ENOUGH ? 1 : 0) {
            const struct job_params p = { .ids = fakes, .count = devices, .recordings = limit };
            struct record *r = limit == 1 ? &got : &want;
            copse_context *own, *shared = ctx;
            fake_reset();
            copse_fake.device_count = devices;
            for (uint32_t d = 0; limit == 1 && d < devices; d++)
                copse_fake.devices[d].delay_polls = 5;
            OK(copse__context_create_with(NULL, fake_backends, &own));
            ctx = own;
            train(&p, r);
            ctx = shared;
            copse_context_release(&own);
            assert_int_equal(atomic_load(&copse_fake.early_fini), 0);
        }
    check_same(&got, &want);
}

/* Waiting for the device fails: so does the step, before anything has changed, and the recording
   stays. */
static void wait_that_fails_is_named(void **state)
{
    const struct job_params p = { .ids = fakes, .count = 1, .recordings = 1 };
    copse_context *own;
    struct job j;
    (void)state;
    fake_reset();
    OK(copse__context_create_with(NULL, fake_backends, &own));
    job_open_in(&j, &p, own);
    step(&j, 5);
    const struct copse_host_batch b = batch_of(6, 6);
    fake_fail(0, FAKE_WAIT, 1, COPSE_ERR_TIMEOUT, true);
    step(&j, 5);
    FAILS(COPSE_ERR_TIMEOUT, copse_trainer_step(j.t, &b),
          "the last run of x f32[5, 20], y i32[5] on replica 0");
    memset(copse_fake.devices[0].faults, 0, sizeof copse_fake.devices[0].faults);
    assert_int_equal(kept(&j), 1);
    assert_int_equal(copse_trainer_steps(j.t), 2);
    step(&j, 5);
    assert_int_equal(j.calls, 1);
    step(&j, 6);
    assert_int_equal(j.calls, 2);
    job_close(&j);
    copse_context_release(&own);
    assert_int_equal(atomic_load(&copse_fake.early_fini), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_device_keeps_its_bits),
        cmocka_unit_test(mixtures_keep_their_bits),
        cmocka_unit_test(batches_ahead_keep_their_bits),
        cmocka_unit_test(runs_keep_their_bits),
        cmocka_unit_test(least_recently_used_goes),
        cmocka_unit_test(default_is_32),
        cmocka_unit_test(kept_size_allocates_nothing),
        cmocka_unit_test(memory_does_not_grow),
        cmocka_unit_test(fed_batches_keep_theirs),
        cmocka_unit_test(layout_outlives_recordings),
        cmocka_unit_test(slow_devices_are_waited_for),
        cmocka_unit_test(wait_that_fails_is_named),
    };
    return cmocka_run_group_tests_name("recordings", tests, open_context, close_context);
}
