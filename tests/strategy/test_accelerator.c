/* SPDX-License-Identifier: MIT */
/* The accelerator strategy: runs of several steps with the bits of single ones, submissions
   counted, static shapes, and what may happen on the way. */
#include "copse/distribute/accelerator.h"
#include "copse/distribute/sync.h"
#include "copse/loop/feed.h"
#include "copse/train/audit.h"

#include "tests/rig/train/train_model.h"
#include "tests/rig/value/accelerator_rig.h"

#include "core/variable/flat_store.h"

#define TOTAL 32 /* steps of a comparison */
#define BATCH 24

/* ---- a job: strategy, model, trainer ---- */

struct job {
    copse_strategy *st;
    copse_trainer *t;
    struct model m;
};

struct job_params {
    const char *ids[8];
    size_t count;
    uint32_t steps_per_run; /* 0: mirrored */
    uint32_t accumulate;
    copse_transfer transfer;
    copse_reduce_algorithm reduction;
    bool checks;
};

static void job_open(struct job *j, const struct job_params *p)
{
    const struct copse_strategy_params how = { .transfer = p->transfer,
                                               .reduction = p->reduction,
                                               .bucket_bytes = 2048 };
    *j = (struct job){ .m = { .dropout = 0.25f } };
    if (p->steps_per_run == 0)
        OK(copse_mirrored_create(ctx, p->ids, p->count, &how, &j->st));
    else
        OK(copse_accelerator_create(ctx, p->ids, p->count,
                                    &(struct copse_accelerator_params){
                                        .strategy = how, .steps_per_run = p->steps_per_run },
                                    &j->st));
    OK(model_create(&j->m, j->st));
    OK(copse_trainer_create(j->st,
                            &(struct copse_trainer_params){ .loss = model_loss,
                                                            .user = &j->m,
                                                            .accumulate = p->accumulate,
                                                            .check_numerics = p->checks,
                                                            .seed = 3 },
                            &j->t));
    /* submissions are counted: those of the first run are those of the others */
    OK(copse_trainer_audit(j->t, &(struct copse_audit_params){ .is_cross_check_off = true }));
}

static void job_close(struct job *j)
{
    copse_trainer_release(&j->t);
    copse_strategy_release(&j->st);
}

static struct copse_host_batch batch_at(uint32_t i, size_t count)
{
    static float x[MODEL_ROWS * MODEL_IN];
    static int32_t y[MODEL_ROWS];
    static bool is_made;
    const uint32_t first = i * 7 % (MODEL_ROWS - BATCH + 1);
    if (!is_made)
        model_data(x, y);
    is_made = true;
    return rig_kept((struct copse_host_batch){ RIG_XY(MODEL_IN, x + first * MODEL_IN, y + first),
                                               .count = count, .first = first, .epoch = i / 8 });
}

static void feed(struct job *j, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        const struct copse_host_batch b = batch_at(i, BATCH);
        OK(copse_trainer_feed(j->t, &b));
    }
}

/* Variables of a replica, one behind another. */
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

/* What single steps give. */
struct record {
    struct copse_step_result results[TOTAL];
    float values[2048];
    size_t count;
};

static void take(struct job *j, struct record *r, uint32_t from, uint32_t count)
{
    for (uint32_t i = from; i < from + count; i++)
        OK(copse_trainer_result(j->t, true, &r->results[i]));
}

static void single_steps(const struct job_params *p, struct record *r)
{
    struct job j;
    job_open(&j, p);
    for (uint32_t i = 0; i < TOTAL; i++) {
        const struct copse_host_batch b = batch_at(i, BATCH);
        OK(copse_trainer_step(j.t, &b));
        if ((i + 1) % (p->accumulate ? p->accumulate : 1) == 0)
            take(&j, r, i / (p->accumulate ? p->accumulate : 1), 1);
    }
    r->count = read_all(&j, 0, r->values);
    job_close(&j);
}

static void check_same(const struct record *want, const struct record *got, uint32_t results)
{
    assert_int_equal(want->count, got->count);
    assert_memory_equal(want->values, got->values, want->count * sizeof *want->values);
    for (uint32_t i = 0; i < results; i++) {
        assert_int_equal(got->results[i].step, i + 1);
        assert_true(want->results[i].loss == got->results[i].loss);
        assert_int_equal(got->results[i].report_count, 1);
        assert_true(want->results[i].reports[0] == got->results[i].reports[0]);
    }
}

/* ---- TPU-1: the bits of single steps; submissions ---- */

/* Runs of K steps; the submissions of each. */
static uint64_t runs(const struct job_params *p, struct record *r)
{
    const uint32_t k = p->steps_per_run, updates = k / (p->accumulate ? p->accumulate : 1);
    struct job j;
    uint64_t each = 0;
    job_open(&j, p);
    for (uint32_t i = 0; i < TOTAL; i += k) {
        feed(&j, i, k);
        assert_int_equal(copse_trainer_fed(j.t), k);
        const uint64_t before = copse_strategy_submissions(j.st);
        OK(copse_trainer_run(j.t));
        const uint64_t submissions = copse_strategy_submissions(j.st) - before;
        assert_true(i == 0 || submissions == each);
        each = submissions;
        assert_int_equal(copse_trainer_fed(j.t), 0);
        take(&j, r, i / k * updates, updates);
    }
    r->count = read_all(&j, 0, r->values);
    for (uint32_t n = 1; n < copse_strategy_replicas(j.st); n++) {
        float other[2048];
        assert_int_equal(read_all(&j, n, other), r->count);
        assert_memory_equal(other, r->values, r->count * sizeof *other);
    }
    job_close(&j);
    return each;
}

static void tpu_1(void **state)
{
    static const uint32_t lengths[] = { 1, 8, 32 };
    static struct record want, got;
    (void)state;
    for (size_t b = 0; b < sizeof backends / sizeof *backends; b++) {
        const char *id = backends[b];
        for (size_t cores = 1; is_found(id) && cores <= 3; cores += 2) {
            struct job_params p = { .ids = { id, id, id }, .count = cores };
            single_steps(&p, &want);
            for (size_t k = 0; k < 3; k++) {
                p.steps_per_run = lengths[k];
                assert_int_equal(runs(&p, &got), 1);
                check_same(&want, &got, TOTAL);
            }
            printf("%s, %zu cores: 1 submission to a run of 1, 8 and 32\n", id, cores);
        }
    }
}

/* Copies instead of reading in place, every algorithm, micro-batches: still one submission. */
static void tpu_1_every_way_on_one_queue(void **state)
{
    static struct record want, got;
    (void)state;
    for (size_t b = 0; b < sizeof backends / sizeof *backends; b++) {
        const char *id = backends[b];
        struct job_params p = { .ids = { id, id, id }, .count = 3 };
        if (!is_found(id))
            continue;
        for (uint32_t accumulate = 1; accumulate <= 2; accumulate++) {
            p.accumulate = accumulate;
            p.steps_per_run = 0;
            p.transfer = COPSE_TRANSFER_AUTO;
            p.reduction = COPSE_REDUCE_AUTO;
            single_steps(&p, &want);
            p.steps_per_run = 16;
            for (int how = 0; how < 4; how++) {
                p.transfer = how % 2 ? COPSE_TRANSFER_STAGED : COPSE_TRANSFER_SHARED;
                p.reduction = how / 2 ? COPSE_REDUCE_TREE : COPSE_REDUCE_SHARDED;
                assert_int_equal(runs(&p, &got), 1);
                check_same(&want, &got, TOTAL / accumulate);
            }
        }
    }
}

/* Between devices a sum needs the host: the same bits, and submissions that grow with the steps. */
static void tpu_1_on_several_devices(void **state)
{
    static struct record want, got;
    struct job_params p = { 0 };
    (void)state;
    for (size_t b = 0; b < sizeof backends / sizeof *backends; b++)
        for (size_t n = 0; is_found(backends[b]) && n < (b == 1 ? 3u : 2u); n++)
            p.ids[p.count++] = backends[b]; /* in the order of ids */
    const bool is_mixed = p.count > 2;
    single_steps(&p, &want);
    for (int how = 0; how < 4; how++) {
        uint64_t submissions[2];
        p.transfer = how % 2 ? COPSE_TRANSFER_STAGED : COPSE_TRANSFER_AUTO;
        p.reduction = how / 2 ? COPSE_REDUCE_TREE : COPSE_REDUCE_AUTO;
        for (uint32_t k = 0; k < 2; k++) {
            p.steps_per_run = k ? 8 : 1;
            submissions[k] = runs(&p, &got);
            check_same(&want, &got, TOTAL);
        }
        printf("%zu cores, way %d: %llu submissions to a run of 1, %llu to one of 8\n", p.count,
               how, (unsigned long long)submissions[0], (unsigned long long)submissions[1]);
        assert_true(is_mixed ? submissions[1] > submissions[0] : submissions[1] == 1);
    }
}

/* More cores than examples; a core without one takes part in every sum. */
static void tpu_1_with_empty_shards(void **state)
{
    (void)state;
    float want[2048], got[2048];
    const struct copse_host_batch two = batch_at(0, 2);
    struct copse_step_result a, b;
    struct job single, run;
    struct job_params p = { .ids = { "host:0", "host:0", "host:0" }, .count = 3 };
    job_open(&single, &p);
    p.steps_per_run = 4;
    job_open(&run, &p);
    for (int i = 0; i < 4; i++) {
        OK(copse_trainer_step(single.t, &two));
        OK(copse_trainer_feed(run.t, &two));
    }
    OK(copse_trainer_run(run.t));
    for (int i = 0; i < 4; i++) {
        OK(copse_trainer_result(single.t, true, &a));
        OK(copse_trainer_result(run.t, true, &b));
        assert_true(a.loss == b.loss && a.step == b.step);
    }
    assert_int_equal(read_all(&single, 0, want), read_all(&run, 2, got));
    assert_memory_equal(want, got, sizeof(float) * model_parameters());
    job_close(&single);
    job_close(&run);
}

/* (x w - s)^2 and then some, where s is the sum of x w over all replicas: a loss in two halves. */
static copse_tensor *crossing_loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *y = copse_mul(g, rig_x(in), copse_variable_tensor(*(copse_variable **)user));
    copse_tensor *sum = copse_sum(g, y, NULL, 0, false);
    sum = copse_all_reduce(g, sum, COPSE_SUM);
    y = copse_sub(g, y, sum);
    y = copse_square(g, y);
    return copse_mean(g, y, NULL, 0, false);
}

/* Sums inside the loss are part of the loop, too. */
static void tpu_1_with_sums_in_the_loss(void **state)
{
    (void)state;
    for (size_t b = 0; b < sizeof backends / sizeof *backends; b++) {
        const char *const ids[3] = { backends[b], backends[b], backends[b] };
        float values[2][2];
        double losses[2][4];
        if (!is_found(ids[0]))
            continue;
        for (int is_run = 0; is_run < 2; is_run++) {
            const struct copse_host_batch rows = rig_rows(7);
            struct copse_step_result r;
            copse_strategy *st;
            copse_trainer *t;
            if (is_run)
                OK(copse_accelerator_create(
                    ctx, ids, 3, &(struct copse_accelerator_params){ .steps_per_run = 4 }, &st));
            else
                OK(copse_mirrored_create(ctx, ids, 3, NULL, &st));
            copse_variable *w = rig_scalar(st, "w", 0.75f);
            OK(copse_trainer_create(
                st,
                &(struct copse_trainer_params){
                    .loss = crossing_loss,
                    .user = &w,
                    .optimizer = { .kind = COPSE_SGD, .learning_rate = 1e-4f } },
                &t));
            for (int i = 0; i < 4; i++)
                OK(is_run ? copse_trainer_feed(t, &rows) : copse_trainer_step(t, &rows));
            const uint64_t before = copse_strategy_submissions(st);
            OK(is_run ? copse_trainer_run(t) : COPSE_OK);
            assert_int_equal(copse_strategy_submissions(st) - before, is_run);
            for (int i = 0; i < 4; i++) {
                OK(copse_trainer_result(t, true, &r));
                losses[is_run][i] = r.loss;
            }
            values[is_run][0] = rig_value(w, 0);
            values[is_run][1] = rig_value(w, 2);
            copse_trainer_release(&t);
            copse_strategy_release(&st);
        }
        assert_memory_equal(values[0], values[1], sizeof values[0]);
        assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
        assert_true(values[0][0] != 0.75f && losses[0][3] < losses[0][0]);
    }
}

/* A run, a single step and an evaluation go on where the other has stopped. */
static void runs_and_single_steps_mix(void **state)
{
    static struct record want, got;
    struct job_params p = { .ids = { "host:0", "host:0" }, .count = 2 };
    struct copse_step_result r;
    struct job j;
    (void)state;
    single_steps(&p, &want);
    p.steps_per_run = 5;
    job_open(&j, &p);
    for (uint32_t i = 0; i < TOTAL; i += 4) { /* fed before, run behind a single step */
        const struct copse_host_batch b = batch_at(i, BATCH);
        feed(&j, i + 1, 3);
        OK(copse_trainer_step(j.t, &b));
        OK(copse_trainer_evaluate(j.t, &b, &r));
        OK(copse_trainer_run(j.t));
        OK(copse_trainer_run(j.t)); /* nothing is fed */
        if (i >= 4)
            take(&j, &got, i - 4, 4); /* those of the run before: they are kept */
    }
    take(&j, &got, TOTAL - 4, 4);
    assert_int_equal(copse_trainer_result(j.t, true, &r), COPSE_ERR_END);
    got.count = read_all(&j, 1, got.values);
    check_same(&want, &got, TOTAL);
    job_close(&j);
}

/* Results that nobody takes: those of the last runs are there, the step numbers say which. */
static void old_results_are_dropped(void **state)
{
    const struct job_params p = { .ids = { "host:0" }, .count = 1, .steps_per_run = 6 };
    struct copse_step_result r;
    struct job j;
    (void)state;
    job_open(&j, &p);
    for (uint32_t i = 0; i < 24; i += 6) {
        feed(&j, i, 6);
        OK(copse_trainer_run(j.t));
    }
    for (uint64_t step = 13; step <= 24; step++) {
        OK(copse_trainer_result(j.t, true, &r));
        assert_int_equal(r.step, step);
    }
    assert_int_equal(copse_trainer_result(j.t, true, &r), COPSE_ERR_END);
    job_close(&j);
}

static void run_allocates_nothing_after_warm_up(void **state)
{
    (void)state;
    for (size_t b = 0; b < sizeof backends / sizeof *backends; b++) {
        const char *id = backends[b];
        const struct job_params p = { .ids = { id, id }, .count = 2, .steps_per_run = 6 };
        struct copse_memory_stats before, after;
        static struct record unused;
        struct job j;
        if (!is_found(id))
            continue;
        job_open(&j, &p);
        for (int turn = 0; turn < 6; turn++) {
            if (turn == 3)
                copse_context_memory(ctx, &before);
            feed(&j, 0, 6);
            OK(copse_trainer_run(j.t));
            take(&j, &unused, 0, 6);
        }
        copse_context_memory(ctx, &after);
        assert_int_equal(after.calls, before.calls);
        assert_int_equal(after.device_allocations, before.device_allocations);
        job_close(&j);
    }
}

/* ---- TPU-4: another shape is refused before anything happens ---- */

static void tpu_4(void **state)
{
    const struct job_params p = { .ids = { "host:0", "host:0" }, .count = 2, .steps_per_run = 4 };
    const struct copse_host_batch last = batch_at(3, BATCH - 5), nothing = { .count = BATCH };
    float before[2048], after[2048];
    struct copse_step_result r;
    struct job j;
    (void)state;
    job_open(&j, &p);
    const size_t count = read_all(&j, 0, before);
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_feed(j.t, &nothing), "1 to 64 inputs");
    feed(&j, 0, 3);
    const uint64_t submissions = copse_strategy_submissions(j.st);
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_feed(j.t, &last), "static");
    assert_int_equal(copse_strategy_submissions(j.st), submissions);
    assert_int_equal(copse_trainer_steps(j.t), 0);
    assert_int_equal(copse_trainer_fed(j.t), 3);
    read_all(&j, 0, after);
    assert_memory_equal(before, after, count * sizeof *before);
    feed(&j, 3, 1);
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_feed(j.t, &last), "no room");
    OK(copse_trainer_run(j.t));
    /* It is a run of its own. */
    OK(copse_trainer_feed(j.t, &last));
    copse_trainer_unfeed(j.t);
    OK(copse_trainer_feed(j.t, &last));
    OK(copse_trainer_run(j.t));
    assert_int_equal(copse_trainer_steps(j.t), 5);
    for (uint64_t i = 1; i <= 5; i++)
        OK(copse_trainer_result(j.t, true, &r));
    job_close(&j);
}

/* ---- what else may happen in a run ---- */

static void others_have_no_runs(void **state)
{
    const struct job_params p = { .ids = { "host:0" }, .count = 1 };
    const struct copse_host_batch b = batch_at(0, BATCH);
    struct job j;
    (void)state;
    job_open(&j, &p);
    FAILS(COPSE_ERR_UNSUPPORTED, copse_trainer_feed(j.t, &b), "mirrored");
    FAILS(COPSE_ERR_UNSUPPORTED, copse_trainer_run(j.t), "accelerator");
    assert_int_equal(copse_accelerator_steps_per_run(j.st), 1);
    assert_true(copse_accelerator_core(j.st, 0) == UINT32_MAX);
    assert_false(copse_accelerator_is_resident(j.st));
    job_close(&j);
}

static void cancelled_run_changes_nothing(void **state)
{
    const struct job_params p = { .ids = { "host:0", "host:0" }, .count = 2, .steps_per_run = 4 };
    float before[2048], after[2048];
    struct job j;
    (void)state;
    job_open(&j, &p);
    const size_t count = read_all(&j, 1, before);
    feed(&j, 0, 4);
    copse_trainer_cancel(j.t);
    FAILS(COPSE_ERR_CANCELLED, copse_trainer_run(j.t), "number 0 of a run");
    read_all(&j, 1, after);
    assert_memory_equal(before, after, count * sizeof *before);
    assert_int_equal(copse_trainer_steps(j.t), 0);
    assert_int_equal(copse_trainer_fed(j.t), 4); /* they can be run now */
    OK(copse_trainer_run(j.t));
    assert_int_equal(copse_trainer_steps(j.t), 4);
    job_close(&j);
}

/* With checks the host looks at every step: those before the one that fails stay done. */
static void checks_stop_a_run_at_the_step(void **state)
{
    static float poison[BATCH * MODEL_IN];
    const struct job_params p = {
        .ids = { "host:0", "host:0" }, .count = 2, .steps_per_run = 4, .checks = true
    };
    struct job_params single = p;
    float want[2048], got[2048];
    struct copse_host_batch bad = batch_at(2, BATCH);
    struct copse_step_result r;
    struct job j;
    (void)state;
    single.steps_per_run = 0;
    job_open(&j, &single);
    for (uint32_t i = 0; i < 2; i++) {
        const struct copse_host_batch b = batch_at(i, BATCH);
        OK(copse_trainer_step(j.t, &b));
    }
    const size_t count = read_all(&j, 0, want);
    job_close(&j);

    for (int i = 0; i < BATCH * MODEL_IN; i++)
        poison[i] = NAN;
    const struct copse_column bad_columns[] = { { "x", COPSE_F32, COPSE_SHAPE(MODEL_IN), poison },
                                                bad.columns[1] };
    bad.columns = bad_columns;
    job_open(&j, &p);
    feed(&j, 0, 2);
    OK(copse_trainer_feed(j.t, &bad));
    feed(&j, 3, 1);
    FAILS(COPSE_ERR_NONFINITE, copse_trainer_run(j.t), "in step 3, number 2 of a run");
    assert_int_equal(copse_trainer_steps(j.t), 2);
    assert_int_equal(copse_trainer_fed(j.t), 0);
    read_all(&j, 1, got);
    assert_memory_equal(want, got, count * sizeof *want);
    for (uint64_t i = 1; i <= 2; i++) {
        OK(copse_trainer_result(j.t, true, &r));
        assert_true(r.step == i && isfinite(r.loss));
    }
    feed(&j, 3, 1);
    OK(copse_trainer_run(j.t));
    OK(copse_trainer_result(j.t, true, &r));
    assert_int_equal(r.step, 3);
    job_close(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tpu_1),
        cmocka_unit_test(tpu_1_every_way_on_one_queue),
        cmocka_unit_test(tpu_1_on_several_devices),
        cmocka_unit_test(tpu_1_with_empty_shards),
        cmocka_unit_test(tpu_1_with_sums_in_the_loss),
        cmocka_unit_test(runs_and_single_steps_mix),
        cmocka_unit_test(old_results_are_dropped),
        cmocka_unit_test(run_allocates_nothing_after_warm_up),
        cmocka_unit_test(tpu_4),
        cmocka_unit_test(others_have_no_runs),
        cmocka_unit_test(cancelled_run_changes_nothing),
        cmocka_unit_test(checks_stop_a_run_at_the_step),
    };
    return cmocka_run_group_tests_name("accelerator", tests, open_context, close_context);
}
