/* SPDX-License-Identifier: MIT */
/* Audits: in which steps, that they change no bits, and that they find values of a replica that
   have changed. Faults of drivers are in tests/tool/lying_layers.sh. */
#include <unistd.h>

#include "copse/distribute/sync.h"
#include "copse/train/audit.h"
#include "core/train/trainer.h"
#include "tests/rig/train/step_rig.h"
#include "tests/rig/train/train_model.h"

struct job {
    copse_strategy *st;
    copse_trainer *t;
    struct model m;
};

static float data_x[MODEL_ROWS * MODEL_IN];
static int32_t data_y[MODEL_ROWS];

static void open_job(struct job *j, size_t replicas, const struct copse_trainer_params *more,
                     const struct copse_audit_params *audit)
{
    model_data(data_x, data_y);
    *j = (struct job){ .st = rig_strategy(
                           replicas, &(struct copse_strategy_params){ .bucket_bytes = 1024 }) };
    OK(model_create(&j->m, j->st));
    j->m.dropout = 0.2f;
    struct copse_trainer_params p = *more;
    p.loss = p.loss ? p.loss : model_loss;
    p.user = &j->m;
    p.optimizer = (struct copse_optimizer_params){ .kind = COPSE_MOMENTUM, .learning_rate = 1e-3f };
    OK(copse_trainer_create(j->st, &p, &j->t));
    OK(copse_trainer_audit(j->t, audit));
}

static void close_job(struct job *j)
{
    copse_trainer_release(&j->t);
    copse_strategy_release(&j->st);
}

static copse_status step(struct job *j, uint64_t i)
{
    struct copse_step_result r;
    const size_t first = (size_t)i % 5 * 32;
    const struct copse_host_batch b = rig_kept((struct copse_host_batch){
        RIG_XY(MODEL_IN, data_x + first * MODEL_IN, data_y + first), .count = 32, .first = first });
    COPSE_TRY(copse_trainer_step(j->t, &b));
    const copse_status s = copse_trainer_result(j->t, true, &r);
    return s == COPSE_ERR_END ? COPSE_OK : s; /* it accumulates */
}

/* Values after `steps` steps; returns the audits. */
static uint64_t run(size_t replicas, uint64_t steps, const struct copse_trainer_params *more,
                    const struct copse_audit_params *audit, float *values)
{
    struct job j;
    open_job(&j, replicas, more, audit);
    for (uint64_t i = 0; i < steps; i++)
        OK(step(&j, i));
    for (int i = 0; i < MODEL_VARIABLES; i++) {
        const copse_shape s = copse_variable_shape(j.m.variables[i]);
        OK(copse_variable_read(j.m.variables[i], copse_strategy_replicas(j.st) - 1, values));
        values += s.rank == 2 ? s.dims[0] * s.dims[1] : s.dims[0];
    }
    const uint64_t audits = copse_trainer_audits(j.t);
    close_job(&j);
    return audits;
}

static void audits_change_no_bits(void **state)
{
    (void)state;
    static const struct copse_trainer_params plain = { 0 }, parts = { .accumulate = 3 };
    static const struct copse_audit_params off = { .is_off = true }, each = { .every = 1 };
    static float base[2048], other[2048];
    assert_true(model_parameters() <= 2048);
    for (size_t n = 1; n <= 3; n += 2)
        for (int kind = 0; kind < 2; kind++) {
            const struct copse_trainer_params *p = kind ? &parts : &plain;
            assert_int_equal(run(n, 12, p, &off, base), 0);
            assert_int_equal(run(n, 12, p, &each, other), kind ? 4 : 12); /* one in an update */
            assert_memory_equal(base, other, model_parameters() * sizeof *base);
        }
}

static void audits_come_in_these_steps(void **state)
{
    (void)state;
    static const struct copse_trainer_params plain = { 0 };
    static const struct {
        uint32_t every;
        uint64_t steps, audits;
    } rows[] = {
        { 0, 1, 0 },    { 0, 2, 1 }, { 0, 8, 7 }, { 0, 15, 7 }, { 0, 16, 8 },
        { 0, 128, 11 }, { 5, 4, 3 }, { 5, 5, 4 }, { 5, 9, 4 },  { 5, 10, 5 },
    };
    static float values[2048];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(run(1, rows[i].steps, &plain,
                             &(struct copse_audit_params){ .every = rows[i].every }, values),
                         rows[i].audits);
}

/* A word of variable `v` on a replica changes. */
static void disturb(struct job *j, uint32_t replica, int v)
{
    const struct copse_binding at = copse__variable_values(j->m.variables[v], replica);
    copse_queue *q = j->st->replicas[replica].queue;
    const float wrong = 1e-6f;
    OK(copse_queue_write(q, at.buffer, at.offset + at.size - sizeof wrong, &wrong, sizeof wrong));
    OK(copse_queue_finish(q));
}

static void replicas_that_differ_are_found(void **state)
{
    (void)state;
    static const struct copse_trainer_params plain = { 0 };
    const struct copse_host_batch b =
        rig_kept((struct copse_host_batch){ RIG_XY(MODEL_IN, data_x, data_y), .count = 32 });
    char path[64];
    struct job j;
    snprintf(path, sizeof path, "/tmp/copse-audit-%ld.safetensors", (long)getpid());
    for (int v = 0; v < MODEL_VARIABLES; v++) {
        open_job(&j, 3, &plain, &(struct copse_audit_params){ .every = 4 });
        for (uint64_t i = 0; i < 7; i++)
            OK(step(&j, i));
        disturb(&j, 2, v);
        assert_int_equal(step(&j, 7), COPSE_ERR_UNRELIABLE);
        const char *text = copse_last_error();
        assert_non_null(strstr(text, copse_variable_name(j.m.variables[v])));
        assert_non_null(strstr(text, "replica 2"));
        assert_non_null(strstr(text, "step 8"));
        /* the trainer is not used any more, and nothing is written */
        assert_int_equal(copse_trainer_step(j.t, &b), COPSE_ERR_UNRELIABLE);
        assert_int_not_equal(copse_trainer_checkpoint(j.t, path, NULL), COPSE_OK);
        assert_int_not_equal(access(path, F_OK), 0);
        close_job(&j);
    }
}

/* The result was not asked for yet: a checkpoint waits for the audit. */
static void checkpoints_wait_for_the_audit(void **state)
{
    (void)state;
    static const struct copse_trainer_params plain = { 0 };
    char path[64];
    struct job j;
    snprintf(path, sizeof path, "/tmp/copse-audit-%ld.safetensors", (long)getpid());
    open_job(&j, 2, &plain, &(struct copse_audit_params){ .every = 2 });
    const struct copse_host_batch b =
        rig_kept((struct copse_host_batch){ RIG_XY(MODEL_IN, data_x, data_y), .count = 32 });
    OK(step(&j, 0));
    disturb(&j, 1, 0);
    OK(copse_trainer_step(j.t, &b));
    assert_int_equal(copse_trainer_checkpoint(j.t, path, NULL), COPSE_ERR_UNRELIABLE);
    assert_int_not_equal(access(path, F_OK), 0);
    close_job(&j);
}

static copse_tensor *reducing_loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *loss = model_loss(g, in, user);
    return copse_all_reduce(g, loss, COPSE_MEAN);
}

static void steps_that_reduce_are_not_audited(void **state)
{
    (void)state;
    static float values[2048];
    assert_int_equal(
        run(2, 8, &(struct copse_trainer_params){ .loss = reducing_loss }, NULL, values), 0);
}

static void settings_are_checked(void **state)
{
    (void)state;
    static const struct copse_trainer_params plain = { 0 };
    struct copse_audit_params p = { .every = 3 };
    struct job j;
    open_job(&j, 1, &plain, NULL);
    p.reserved[1] = 1;
    assert_int_equal(copse_trainer_audit(j.t, &p), COPSE_ERR_UNSUPPORTED);
    assert_int_equal(copse_trainer_audit(NULL, NULL), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_trainer_audits(NULL), 0);
    close_job(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(audits_come_in_these_steps),
        cmocka_unit_test(audits_change_no_bits),
        cmocka_unit_test(replicas_that_differ_are_found),
        cmocka_unit_test(checkpoints_wait_for_the_audit),
        cmocka_unit_test(steps_that_reduce_are_not_audited),
        cmocka_unit_test(settings_are_checked),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
