/* SPDX-License-Identifier: MIT */
/* Batches that are uploaded ahead of their steps: the same bits as without, on every device and
   mixture, with micro-batches, smaller batches and evaluations in between; what is fed and kept;
   steps and checkpoints. */
#include "copse/loop/feed.h"

#include "tests/rig/data/temp_files.h"
#include "tests/rig/train/step_rig.h"
#include "tests/rig/train/train_model.h"

#include "copse/compat/single_loss.h"
#include "copse/distribute/accelerator.h"
#include "copse/distribute/parameter_server.h"
#include "copse/loop/monitor.h"
#include "copse/loop/step.h"

enum { TOTAL = 12, BATCH = 24, SMALL = 7, VALUES = 2048 };

static float data_x[MODEL_ROWS * MODEL_IN];
static int32_t data_y[MODEL_ROWS];

/* ---- a job: strategy, model, trainer ---- */

enum how {
    PLAIN,  /* no prefetch */
    GIVEN,  /* each step is given its batch */
    AHEAD,  /* batches are fed as far ahead as there is room */
    IN_RUN, /* as many as there is room for, then all of them */
};

struct job_params {
    size_t count; /* replicas */
    const char *const *ids;
    uint32_t accumulate, prefetch;
    enum how how;
    bool is_served, checks;
};

struct job {
    copse_strategy *st;
    copse_trainer *t;
    struct model m;
    uint32_t fed; /* batches, ever */
};

static copse_status make_trainer(const struct job_params *p, struct job *j)
{
    return copse_trainer_create(
        j->st,
        &(struct copse_trainer_params){ .loss = model_loss,
                                        .user = &j->m,
                                        .accumulate = p->accumulate,
                                        .check_numerics = p->checks,
                                        .prefetch = p->how == PLAIN ? 0 : p->prefetch,
                                        .seed = 3 },
        &j->t);
}

static void job_open(struct job *j, const struct job_params *p)
{
    const struct copse_strategy_params how = { .bucket_bytes = 2048 };
    *j = (struct job){ .m = { .dropout = 0.25f } };
    model_data(data_x, data_y);
    if (p->is_served)
        OK(copse_parameter_server_create(ctx, NULL, p->ids, p->count, &how, &j->st));
    else if (p->count == 1)
        OK(copse_one_device_create(ctx, p->ids[0], &how, &j->st));
    else
        OK(copse_mirrored_create(ctx, p->ids, p->count, &how, &j->st));
    OK(model_create(&j->m, j->st));
    OK(make_trainer(p, j));
}

static void job_close(struct job *j)
{
    copse_trainer_release(&j->t);
    copse_strategy_release(&j->st);
}

/* Every fifth is small, as if an epoch ended there. */
static struct copse_host_batch batch_at(uint32_t i)
{
    const uint32_t first = i * 7 % (MODEL_ROWS - BATCH + 1);
    return rig_kept((struct copse_host_batch){
        RIG_XY(MODEL_IN, data_x + first * MODEL_IN, data_y + first),
        .count = i % 5 == 4 ? SMALL : BATCH, .first = first, .epoch = i / 5 });
}

static void feed_one(struct job *j)
{
    /* From memory that is somebody else's when the call returns. */
    static float x[BATCH * MODEL_IN];
    static int32_t y[BATCH];
    struct copse_host_batch b = batch_at(j->fed++);
    char names[2][2] = { "x", "y" };
    struct copse_column columns[2] = { b.columns[0], b.columns[1] };
    memcpy(x, b.columns[0].data, b.count * MODEL_IN * sizeof *x);
    memcpy(y, b.columns[1].data, b.count * sizeof *y);
    columns[0].data = x;
    columns[1].data = y;
    columns[0].name = names[0];
    columns[1].name = names[1];
    b.columns = columns;
    OK(copse_trainer_feed(j->t, &b));
    memset(x, 0x7f, sizeof x);
    memset(y, 0, sizeof y);
    memset(names, '?', sizeof names);
    memset(columns, 0, sizeof columns);
}

static size_t read_all(const struct job *j, uint32_t replica, float *out)
{
    size_t at = 0;
    for (int v = 0; v < MODEL_VARIABLES; v++) {
        OK(copse_variable_read(j->m.variables[v], replica, out + at));
        const copse_shape s = copse_variable_shape(j->m.variables[v]);
        at += s.rank == 2 ? s.dims[0] * s.dims[1] : s.dims[0];
    }
    assert_true(at <= VALUES);
    return at;
}

struct record {
    double losses[TOTAL], reports[TOTAL], evaluations[TOTAL];
    uint32_t results;
    float values[VALUES];
    size_t count;
};

static void take(struct job *j, struct record *r)
{
    struct copse_step_result got;
    copse_status s;
    while ((s = copse_trainer_result(j->t, true, &got)) == COPSE_OK) {
        r->losses[r->results] = got.loss;
        r->reports[r->results++] = got.reports[0];
    }
    assert_int_equal(s, COPSE_ERR_END);
}

static void train_one(struct job *j, const struct job_params *p, uint32_t i)
{
    if (p->how == PLAIN || p->how == GIVEN) {
        const struct copse_host_batch b = batch_at(i);
        OK(copse_trainer_step(j->t, &b));
        return;
    }
    if (p->how == AHEAD || copse_trainer_fed(j->t) == 0)
        while (copse_trainer_fed(j->t) < p->prefetch && j->fed < TOTAL)
            feed_one(j);
    if (p->how == AHEAD)
        OK(copse_trainer_step(j->t, NULL));
    else if (i + 1 == j->fed)
        OK(copse_trainer_run(j->t));
}

static void train(const struct job_params *p, struct record *r)
{
    struct job j;
    memset(r, 0, sizeof *r);
    job_open(&j, p);
    for (uint32_t i = 0; i < TOTAL; i++) {
        train_one(&j, p, i);
        /* between what is fed and its step, and within one of three parts */
        if (i % 6 == 4 && p->how != IN_RUN) {
            const struct copse_host_batch b = batch_at(0);
            struct copse_step_result got;
            OK(copse_trainer_evaluate(j.t, &b, &got));
            r->evaluations[i] = got.loss;
        }
        if (i % 4 == 3)
            take(&j, r); /* several steps are under way before */
    }
    OK(copse_trainer_flush(j.t));
    take(&j, r);
    assert_int_equal(copse_trainer_fed(j.t), 0);
    r->count = read_all(&j, 0, r->values);
    for (uint32_t n = 1; !p->is_served && n < p->count; n++) {
        float other[VALUES];
        assert_int_equal(read_all(&j, n, other), r->count);
        assert_memory_equal(other, r->values, r->count * sizeof *other);
    }
    job_close(&j);
}

static void check_same(const struct record *want, const struct record *got, bool has_evaluations)
{
    assert_int_equal(want->results, got->results);
    assert_memory_equal(want->values, got->values, want->count * sizeof *want->values);
    assert_memory_equal(want->losses, got->losses, sizeof want->losses);
    assert_memory_equal(want->reports, got->reports, sizeof want->reports);
    if (has_evaluations)
        assert_memory_equal(want->evaluations, got->evaluations, sizeof want->evaluations);
    assert_true(want->results > 1 && want->losses[1] != want->losses[0]);
}

static void compare(struct job_params p)
{
    static struct record want, got;
    static const struct {
        enum how how;
        uint32_t prefetch;
    } ways[] = {
        { GIVEN, 2 },
        { AHEAD, 1 },
        { AHEAD, 3 },
        { IN_RUN, 5 },
    };
    p.how = PLAIN;
    train(&p, &want);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        p.how = ways[i].how;
        p.prefetch = ways[i].prefetch;
        train(&p, &got);
        check_same(&want, &got, p.how != IN_RUN);
    }
}

static void every_device_keeps_its_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++)
        for (uint32_t accumulate = 1; accumulate <= 3; accumulate += 2)
            compare((struct job_params){
                .ids = &rig_devices[i], .count = 1, .accumulate = accumulate });
}

/* Of host, opencl, vulkan, host, opencl: the last two share a device with an earlier one. */
static void mixtures_keep_their_bits(void **state)
{
    (void)state;
    for (size_t count = 2; count <= 5; count += count == 3 ? 2 : 1)
        compare((struct job_params){
            .ids = rig_devices, .count = count, .accumulate = count == 3 ? 3 : 1 });
    compare((struct job_params){ .ids = rig_devices + 1, .count = 2, .checks = true });
}

static void parameter_servers_keep_their_bits(void **state)
{
    (void)state;
    for (size_t count = 1; count <= 3; count += 2)
        compare((struct job_params){ .ids = rig_devices, .count = count, .is_served = true });
}

/* More replicas than examples. */
static void empty_shares_have_nothing_to_upload(void **state)
{
    static struct record want, got;
    float x[MODEL_IN] = { 1 };
    int32_t y = 2;
    const struct copse_host_batch one = { RIG_XY(MODEL_IN, x, &y), .count = 1 };
    (void)state;
    for (int is_ahead = 0; is_ahead < 2; is_ahead++) {
        const struct job_params p = {
            .ids = rig_devices, .count = 3, .prefetch = 2, .how = is_ahead ? AHEAD : PLAIN
        };
        struct record *r = is_ahead ? &got : &want;
        struct job j;
        memset(r, 0, sizeof *r);
        job_open(&j, &p);
        for (int i = 0; i < 4; i++) {
            if (is_ahead)
                OK(copse_trainer_feed(j.t, &one));
            OK(copse_trainer_step(j.t, is_ahead ? NULL : &one));
        }
        take(&j, r);
        r->count = read_all(&j, 2, r->values);
        job_close(&j);
    }
    check_same(&want, &got, false);
}

static void step_allocates_nothing_after_warm_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const struct job_params p = { .ids = i == 3 ? rig_devices : &rig_devices[i],
                                      .count = i == 3 ? 3 : 1,
                                      .prefetch = 2,
                                      .how = AHEAD };
        struct copse_memory_stats before, after;
        static struct record unused;
        struct job j;
        job_open(&j, &p);
        for (uint32_t turn = 0; turn < 40; turn++) {
            if (turn == 25)
                copse_context_memory(ctx, &before);
            while (copse_trainer_fed(j.t) < 2)
                feed_one(&j);
            OK(copse_trainer_step(j.t, NULL));
            unused.results = 0;
            if (turn % 5 == 4)
                take(&j, &unused);
        }
        copse_context_memory(ctx, &after);
        assert_int_equal(after.calls, before.calls);
        assert_int_equal(after.device_allocations, before.device_allocations);
        job_close(&j);
    }
}

/* ---- what is fed ---- */

static void feeding_has_rules(void **state)
{
    struct job_params p = { .ids = rig_devices, .count = 2, .prefetch = 2, .how = AHEAD };
    const struct copse_host_batch b = batch_at(0), nothing = { RIG_X(MODEL_IN, data_x) },
                                  unlabelled = { RIG_X(MODEL_IN, data_x), .count = BATCH };
    struct job j;
    copse_trainer *other = NULL;
    copse_strategy *st;
    (void)state;
    job_open(&j, &p);
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_step(j.t, NULL), "'batch' is NULL");
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_feed(j.t, NULL), "'batch' is NULL");
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_feed(j.t, &nothing), "1 to 2^32-1 examples");
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_feed(j.t, &unlabelled),
          "the batch has no 'y', it has x f32[12, 20]");
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_step(j.t, &unlabelled), "the batch has no 'y'");
    OK(copse_trainer_run(j.t)); /* of nothing */
    OK(copse_trainer_feed(j.t, &b));
    OK(copse_trainer_feed(j.t, &b));
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_feed(j.t, &b), "prefetch is 2");
    assert_int_equal(copse_trainer_fed(j.t), 2);
    copse_trainer_unfeed(j.t);
    assert_int_equal(copse_trainer_fed(j.t), 0);
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_step(j.t, NULL), "'batch' is NULL");
    assert_int_equal(copse_trainer_steps(j.t), 0);
    p.prefetch = 65;
    copse_trainer_release(&j.t);
    FAILS(COPSE_ERR_ARGUMENT, make_trainer(&p, &j), "at most 64");
    job_close(&j);
    OK(copse_accelerator_create(ctx, rig_devices, 1, NULL, &st));
    OK(model_create(&j.m, st));
    FAILS(COPSE_ERR_ARGUMENT,
          copse_trainer_create(
              st, &(struct copse_trainer_params){ .loss = model_loss, .user = &j.m, .prefetch = 2 },
              &other),
          "leave it 0");
    assert_null(other);
    copse_strategy_release(&st);
}

/* A batch that is given goes before those that are fed; a step that does not begin leaves them;
   what is forgotten leaves its place to others, while steps that read there are under way. */
static void fed_batches_wait_for_their_turn(void **state)
{
    static struct record want, got;
    const struct copse_host_batch b[3] = { batch_at(0), batch_at(1), batch_at(2) };
    static const int order[] = { 2, 0, 1, 1, 0, 2 };
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct job_params p = { .ids = &rig_devices[i], .count = 1, .prefetch = 2, .how = PLAIN };
        struct job j;
        job_open(&j, &p);
        for (size_t k = 0; k < sizeof order / sizeof *order; k++)
            OK(copse_trainer_step(j.t, &b[order[k]]));
        memset(&want, 0, sizeof want);
        take(&j, &want);
        want.count = read_all(&j, 0, want.values);
        job_close(&j);

        p.how = AHEAD;
        memset(&got, 0, sizeof got);
        job_open(&j, &p);
        OK(copse_trainer_feed(j.t, &b[0]));
        OK(copse_trainer_feed(j.t, &b[1]));
        OK(copse_trainer_step(j.t, &b[2]));
        copse_trainer_cancel(j.t);
        FAILS(COPSE_ERR_CANCELLED, copse_trainer_step(j.t, NULL), "cancelled");
        assert_int_equal(copse_trainer_fed(j.t), 2);
        OK(copse_trainer_run(j.t));
        OK(copse_trainer_feed(j.t, &b[2]));
        OK(copse_trainer_feed(j.t, &b[2]));
        copse_trainer_unfeed(j.t);
        OK(copse_trainer_feed(j.t, &b[1]));
        OK(copse_trainer_feed(j.t, &b[0]));
        OK(copse_trainer_step(j.t, NULL));
        OK(copse_trainer_step(j.t, NULL));
        OK(copse_trainer_step(j.t, &b[2]));
        take(&j, &got);
        got.count = read_all(&j, 0, got.values);
        job_close(&j);
        assert_int_equal(want.results, got.results);
        assert_memory_equal(want.values, got.values, want.count * sizeof *want.values);
        assert_memory_equal(want.losses, got.losses, sizeof want.losses);
    }
}

/* ---- steps and checkpoints ---- */

static struct job step_job;
static struct job_params step_params;

static copse_status step_make(void *user, copse_trainer **out)
{
    struct job *j = &step_job;
    (void)user;
    *j = (struct job){ .m = { .dropout = 0.25f } };
    COPSE_TRY(copse_mirrored_create(ctx, step_params.ids, step_params.count, NULL, &j->st));
    copse_status s = model_create(&j->m, j->st);
    if (s == COPSE_OK)
        s = make_trainer(&step_params, j);
    *out = j->t;
    copse_strategy_release(&j->st); /* the trainer has it */
    return s;
}

static copse_status step_data(void *user, copse_strategy *st, copse_dataset **out)
{
    const struct copse_array_view x = { COPSE_F32, 2, { 100, MODEL_IN }, data_x };
    const struct copse_array_view y = { COPSE_I32, 1, { 100 }, data_y };
    (void)user, (void)st;
    return copse_dataset_create(ctx, &x, &y,
                                &(struct copse_dataset_params){ .scale = COPSE_SCALE_NONE }, out);
}

/* 100 examples in batches of 24, the last of 4, twice. */
static copse_step *step_open(enum how how, uint32_t accumulate)
{
    copse_step *step;
    model_data(data_x, data_y);
    step_params = (struct job_params){
        .ids = rig_devices, .count = 2, .prefetch = 2, .how = how, .accumulate = accumulate
    };
    OK(copse_single_loss_step_create(
        ctx,
        &(struct copse_single_loss_params){
            .input = { .dataset = step_data,
                       .batches = { .batch = BATCH, .seed = 5, .prefetch = 2 },
                       .epochs = 2 },
            .make = step_make,
            .iterations_per_step = 1 },
        &step));
    return step;
}

/* Run under a monitor that is made anew every so many steps, with a checkpoint each time. */
static uint64_t run_in_parts(enum how how, uint32_t accumulate, uint64_t each, const char *name)
{
    char path[300];
    uint64_t all = 0, done = 1;
    snprintf(path, sizeof path, "%s/%s", temp_folder, name);
    while (done > 0) {
        copse_step *step = step_open(how, accumulate);
        copse_monitor *m;
        OK(copse_monitor_create(step, &(struct copse_monitor_params){ .file = path }, &m));
        OK(copse_monitor_run(m, each, &done));
        OK(copse_monitor_checkpoint(m));
        copse_monitor_release(&m);
        copse_step_release(&step);
        all += done;
    }
    return all;
}

/* A checkpoint behind every step, at the end of an epoch too, has the bytes that it has without, so
   that what was uploaded and not trained comes again. */
static void checkpoints_have_the_same_bytes(void **state)
{
    (void)state;
    temp_begin();
    for (uint32_t accumulate = 1; accumulate <= 3; accumulate += 2) {
        const uint64_t steps = accumulate == 1 ? 10 : 3; /* and a flush of the last batch */
        for (uint64_t k = 1; k <= steps; k++)
            for (enum how how = PLAIN; how <= AHEAD; how += AHEAD) {
                char path[300];
                uint64_t done;
                snprintf(path, sizeof path, "%s/%s", temp_folder, how == PLAIN ? "plain" : "ahead");
                copse_step *step = step_open(how, accumulate);
                copse_monitor *m;
                OK(copse_monitor_create(step, &(struct copse_monitor_params){ .file = path }, &m));
                OK(copse_monitor_run(m, 1, &done)); /* each time from the file of the one before */
                OK(copse_monitor_checkpoint(m));
                assert_int_equal(done, 1);
                copse_monitor_release(&m);
                copse_step_release(&step);
                if (how == AHEAD)
                    temp_check_same(temp_path("plain"), temp_path("ahead"));
            }
        assert_int_equal(run_in_parts(PLAIN, accumulate, 1000, "whole"), steps);
        assert_int_equal(run_in_parts(AHEAD, accumulate, 2, "parts"), steps);
        temp_check_same(temp_path("whole"), temp_path("parts"));
        temp_end();
        temp_begin();
    }
    temp_end();
}

/* A step that fails is run again with its own batch; so is one behind a restored checkpoint, a
   position that somebody sought, and batches that somebody else forgot. */
static void batches_come_again(void **state)
{
    static float want[VALUES], got[VALUES];
    char path[300];
    size_t count = 0;
    (void)state;
    temp_begin();
    snprintf(path, sizeof path, "%s/kept", temp_folder);
    for (enum how how = PLAIN; how <= AHEAD; how += AHEAD) {
        struct copse_position at = { 0 };
        bool is_back = false;
        copse_step *step = step_open(how, 1);
        for (int i = 0; i < 9; i++) {
            if (i == 2) {
                copse_trainer_cancel(step_job.t);
                FAILS(COPSE_ERR_CANCELLED, copse_step_run(step), "at batch 2 of epoch 0");
            }
            if (i == 3) {
                OK(copse_step_position(step, &at));
                assert_true(at.epoch == 0 && at.batch == 3);
                OK(copse_trainer_checkpoint(step_job.t, path,
                                            &(struct copse_state_params){ .position = at }));
            }
            OK(copse_step_run(step));
            if (i == 4 && !is_back) { /* to batch 3 */
                OK(copse_trainer_restore(step_job.t, path, &at, NULL));
                OK(copse_step_seek(step, &at));
                is_back = true;
                i = 2;
            }
            if (i == 5)
                copse_trainer_unfeed(step_job.t);
        }
        struct copse_host_batch next;
        OK(copse_step_next(step, &next)); /* the one that no step has had */
        assert_true(next.epoch == 1 && next.index == 4 && next.count == 4);
        assert_int_equal(copse_step_run(step), COPSE_ERR_END);
        count = read_all(&step_job, 1, how == PLAIN ? want : got);
        copse_step_release(&step);
    }
    assert_memory_equal(want, got, count * sizeof *want);
    temp_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_device_keeps_its_bits),
        cmocka_unit_test(mixtures_keep_their_bits),
        cmocka_unit_test(parameter_servers_keep_their_bits),
        cmocka_unit_test(empty_shares_have_nothing_to_upload),
        cmocka_unit_test(step_allocates_nothing_after_warm_up),
        cmocka_unit_test(feeding_has_rules),
        cmocka_unit_test(fed_batches_wait_for_their_turn),
        cmocka_unit_test(checkpoints_have_the_same_bytes),
        cmocka_unit_test(batches_come_again),
    };
    return cmocka_run_group_tests_name("prefetch", tests, open_context, close_context);
}
