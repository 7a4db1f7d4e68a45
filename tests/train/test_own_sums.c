/* SPDX-License-Identifier: MIT */
/* Cross-device operations of the application in the steps of a trainer, on replicas of one process:
   they see the gradients and the all-reduces, their result is what every replica gets, and what they
   fail with comes back before anything has changed. */
#include "copse/distribute/accelerator.h"
#include "copse/distribute/parameter_server.h"
#include "copse/loop/feed.h"
#include "copse/train/audit.h"
#include "copse/train/update.h"
#include "tests/rig/train/own_sums.h"
#include "tests/rig/train/step_rig.h"

static const struct copse_optimizer_params sgd = { .kind = COPSE_SGD, .learning_rate = 1 };

static copse_status accumulate(void *user, copse_value *const *values, size_t count,
                               copse_value **out)
{
    return own_accumulate(ctx, user, values, count, out);
}

/* Replicas on these devices of the rig's list: the host alone; OpenCL with Vulkan; with the host. */
static const struct {
    uint32_t count, at[3];
} mixtures[] = { { 2, { 0, 3 } }, { 2, { 1, 2 } }, { 3, { 0, 1, 2 } } };

/* `at`: mirrored over a mixture, or parameter servers, or an accelerator. */
enum { SERVERS = COPSE_COUNT(mixtures), CORES, ALL };

static copse_strategy *strategy_at(uint32_t at)
{
    static const struct copse_accelerator_params runs = { .cores = 2, .steps_per_run = 2 };
    copse_strategy *st = NULL;
    const char *ids[3];
    for (uint32_t i = 0; i < 3; i++)
        ids[i] = rig_devices[at < SERVERS ? mixtures[at].at[i] : 0];
    if (at == SERVERS)
        OK(copse_parameter_server_create(ctx, NULL, &rig_devices[1], 2, NULL, &st));
    else if (at == CORES)
        OK(copse_accelerator_create(ctx, ids, 2, &runs, &st));
    else
        OK(copse_mirrored_create(ctx, ids, mixtures[at].count, NULL, &st));
    return st;
}

struct fixture {
    copse_strategy *st;
    struct own_model m;
    struct own_sums own;
    copse_trainer *t;
};

static void open_fixture(struct fixture *f, uint32_t at, int kind,
                         const struct copse_optimizer_params *rule, uint32_t every)
{
    *f = (struct fixture){ .st = strategy_at(at), .own = { .kind = kind } };
    OK(own_set(ctx, f->st, accumulate, &f->own, at % 2));
    OK(own_model(f->st, &f->m));
    const struct copse_trainer_params p = { .loss = own_loss,
                                            .user = &f->m,
                                            .optimizer = *rule,
                                            .reduction = COPSE_LOSS_SUM,
                                            .accumulate = every };
    OK(copse_trainer_create(f->st, &p, &f->t));
}

static void close_fixture(struct fixture *f)
{
    copse_trainer_release(&f->t);
    copse_strategy_release(&f->st);
}

/* An accelerator takes batches ahead, and runs them. */
static copse_status take_step(struct fixture *f, const struct copse_host_batch *batch)
{
    if (copse_accelerator_steps_per_run(f->st) == 1)
        return copse_trainer_step(f->t, batch);
    COPSE_TRY(copse_trainer_feed(f->t, batch));
    return copse_trainer_run(f->t);
}

/* Row r of a batch is n - r and goes to replica r; the sum would be larger. */
static struct copse_host_batch rows_of(uint32_t n)
{
    static float x[4];
    for (uint32_t i = 0; i < n; i++)
        x[i] = (float)(n - i);
    return rig_kept((struct copse_host_batch){ RIG_X(1, x), .count = n });
}

static void a_step_takes_what_the_operations_give(void **unused)
{
    (void)unused;
    for (uint32_t at = 0; at < ALL; at++) {
        struct fixture f;
        open_fixture(&f, at, OWN_MAXIMUM, &sgd, 1);
        const uint32_t n = copse_strategy_replicas(f.st);
        const struct copse_host_batch batch = rows_of(n);
        for (uint32_t i = 1; i <= 3; i++) {
            OK(take_step(&f, &batch));
            OK(own_holds(f.st, &f.m, -(float)(i * n)));
            assert_int_equal(f.own.calls, 2 * i);
        }
        close_fixture(&f);
    }
}

/* Two micro-batches and an update; one, and a flush. The operations are called once for each. */
static void accumulated_gradients_are_given_once(void **unused)
{
    (void)unused;
    for (uint32_t at = 0; at < SERVERS; at++) {
        struct fixture f;
        open_fixture(&f, at, OWN_MAXIMUM, &sgd, 2);
        const uint32_t n = copse_strategy_replicas(f.st);
        const struct copse_host_batch batch = rows_of(n);
        OK(copse_trainer_step(f.t, &batch));
        assert_int_equal(f.own.calls, 0);
        OK(copse_trainer_step(f.t, &batch));
        assert_int_equal(f.own.calls, 2);
        OK(own_holds(f.st, &f.m, -2.0f * (float)n));
        OK(copse_trainer_step(f.t, &batch));
        OK(copse_trainer_flush(f.t));
        OK(own_holds(f.st, &f.m, -3.0f * (float)n));
        assert_int_equal(copse_trainer_steps(f.t), 2);
        OK(copse_trainer_step(f.t, &batch));
        f.own = (struct own_sums){ .kind = OWN_FAILS, .fails_at = 1 };
        FAILS(COPSE_ERR_IO, copse_trainer_flush(f.t), "link of the application");
        OK(own_holds(f.st, &f.m, -3.0f * (float)n));
        assert_int_equal(copse_trainer_accumulated(f.t), 0);
        close_fixture(&f);
    }
}

static const struct {
    int kind;
    copse_status status;
    const char *text;
} failures[] = {
    { OWN_FAILS, COPSE_ERR_IO, "the link of the application is down" },
    { OWN_GIVES_NOTHING, COPSE_ERR_ARGUMENT, "returned nothing" },
    { OWN_GIVES_OTHER_SHAPE, COPSE_ERR_SHAPE, "another shape or type" },
    { OWN_GIVES_OTHER_TYPE, COPSE_ERR_SHAPE, "another shape or type" },
    { OWN_CANCELS, COPSE_ERR_CANCELLED, "cancelled" },
};

/* In the sum of the first variable, or of the second, which the first would be updated before. */
static void nothing_has_changed_where_they_fail(void **unused)
{
    static const struct copse_optimizer_params adam = { .kind = COPSE_ADAM, .learning_rate = 1 };
    (void)unused;
    for (uint32_t at = 0; at < CORES; at++)
        for (uint32_t i = 0; i < 2 * COPSE_COUNT(failures); i++) {
            struct fixture f, other;
            open_fixture(&f, at, failures[i / 2].kind, &adam, 1);
            open_fixture(&other, at, OWN_TREE, &adam, 1);
            const struct copse_host_batch batch = rows_of(copse_strategy_replicas(f.st));
            float got[OWN_B], want[OWN_B];
            f.own.fails_at = i % 2;
            f.own.trainer = f.t;
            FAILS(failures[i / 2].status, copse_trainer_step(f.t, &batch), failures[i / 2].text);
            OK(own_holds(f.st, &f.m, 0));
            assert_int_equal(copse_trainer_steps(f.t), 0);
            f.own.fails_at = UINT32_MAX;
            other.own.fails_at = UINT32_MAX;
            for (int k = 0; k < 2; k++) {
                OK(copse_trainer_step(f.t, &batch));
                OK(copse_trainer_step(other.t, &batch));
            }
            OK(copse_variable_read(f.m.b, 0, got));
            OK(copse_variable_read(other.m.b, 0, want));
            assert_memory_equal(got, want, sizeof got);
            close_fixture(&f);
            close_fixture(&other);
        }
}

/* With scaled gradients a step whose sums are not finite is skipped; without, all replicas get the
   NaN. */
static void sums_that_are_not_finite_skip_the_step(void **unused)
{
    const struct copse_optimizer_params scaled = { .kind = COPSE_SGD,
                                                   .learning_rate = 1,
                                                   .loss_scale = 8 };
    (void)unused;
    for (uint32_t at = 0; at < SERVERS; at++) {
        struct fixture f;
        struct copse_step_result result;
        open_fixture(&f, at, OWN_GIVES_NAN, &scaled, 1);
        const uint32_t n = copse_strategy_replicas(f.st);
        const struct copse_host_batch batch = rows_of(n);
        f.own.fails_at = 1;
        OK(copse_trainer_step(f.t, &batch));
        OK(copse_trainer_result(f.t, true, &result));
        assert_true(result.is_skipped);
        OK(own_holds(f.st, &f.m, 0));
        f.own = (struct own_sums){ .kind = OWN_MAXIMUM };
        OK(copse_trainer_step(f.t, &batch));
        OK(own_holds(f.st, &f.m, -(float)n));
        close_fixture(&f);
    }
}

/* ---- bits ---- */

/* Numbers whose sums depend on the order. */
static copse_tensor *curved(copse_graph *g, const copse_batch *in, void *user)
{
    const struct own_model *m = user;
    copse_tensor *x =
        copse_reshape(g, rig_x(in), COPSE_SHAPE(copse_tensor_shape(rig_x(in)).dims[0], 1));
    copse_tensor *y =
        copse_mul(g, copse_reshape(g, copse_variable_tensor(m->b), COPSE_SHAPE(1, OWN_B)), x);
    y = copse_tanh(g, y);
    y = copse_mul(g, y,
                  copse_reshape(g, copse_sum(g, copse_variable_tensor(m->a), NULL, 0, false),
                                COPSE_SHAPE(1, 1)));
    y = copse_add(g, y, copse_exp(g, copse_mul(g, x, copse_scalar(g, -0.37f))));
    return copse_mean(g, copse_square(g, y), NULL, 0, false);
}

static const struct copse_optimizer_params rules[] = {
    { .kind = COPSE_MOMENTUM, .learning_rate = 0.05f, .momentum = 0.9f },
    { .kind = COPSE_ADAM, .learning_rate = 0.05f, .clip_global_norm = 0.01f },
    { .kind = COPSE_LAMB, .learning_rate = 0.05f },
    { .kind = COPSE_SGD, .learning_rate = 0.05f, .clip_norm = 0.01f, .average = 0.9f },
};

static const struct copse_cross_device_params ops[] = {
    { .kind = COPSE_CROSS_TO_ONE, .accumulate = accumulate },
    { .kind = COPSE_CROSS_ALL_REDUCE, .packs = 3 },
    { .kind = COPSE_CROSS_HIERARCHICAL },
};

/* Parameters of three steps, with operations or with the library's exchange (NULL). */
static void train_bits(const struct copse_strategy_params *how, uint32_t replicas,
                       const struct copse_cross_device_params *of,
                       const struct copse_trainer_params *settings, float *got)
{
    struct own_sums own = { .kind = OWN_TREE, .fails_at = UINT32_MAX };
    float start[OWN_B];
    struct own_model m;
    copse_cross_device *x = NULL;
    copse_trainer *t;
    copse_strategy *st = rig_strategy(replicas, how);
    for (uint32_t i = 0; i < OWN_B; i++)
        start[i] = sinf((float)i) * 0.3f;
    m.a = rig_variable(st, "a", COPSE_SHAPE(OWN_A), start + 1);
    m.b = rig_variable(st, "b", COPSE_SHAPE(OWN_B), start);
    if (of) {
        struct copse_cross_device_params p = *of;
        p.user = &own;
        OK(copse_cross_device_create(ctx, &p, &x));
        OK(copse_strategy_set_cross_device(st, x));
        copse_cross_device_release(&x);
    }
    struct copse_trainer_params p = *settings;
    p.loss = curved;
    p.user = &m;
    OK(copse_trainer_create(st, &p, &t));
    OK(copse_trainer_audit(t, &(struct copse_audit_params){ .every = 1 }));
    for (uint32_t i = 0; i < 6; i++) {
        const struct copse_host_batch batch = rig_rows(7 + i % 2 * replicas);
        struct copse_step_result result;
        OK(copse_trainer_step(t, &batch));
        if (copse_trainer_accumulated(t) == 0)
            OK(copse_trainer_result(t, true, &result));
    }
    assert_true(copse_trainer_audits(t) > 0);
    for (uint32_t r = 0; r < replicas; r++) {
        OK(copse_variable_read(m.a, r, got + OWN_B));
        OK(copse_variable_read(m.b, r, got));
        if (r > 0)
            assert_memory_equal(got, got + OWN_A + OWN_B, (OWN_A + OWN_B) * sizeof *got);
        memcpy(got + OWN_A + OWN_B, got, (OWN_A + OWN_B) * sizeof *got);
    }
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

static void sums_in_the_canonical_order_give_the_bits_of_the_exchange(void **unused)
{
    static const struct copse_strategy_params hows[] = {
        { .reduction = COPSE_REDUCE_SHARDED, .transfer = COPSE_TRANSFER_STAGED },
        { .reduction = COPSE_REDUCE_TREE },
        { .reduction = COPSE_REDUCE_TO_ONE, .bucket_bytes = 512 },
        { .reduction = COPSE_REDUCE_SHARDED },
    };
    (void)unused;
    for (uint32_t i = 0; i < COPSE_COUNT(rules); i++) {
        float want[2 * (OWN_A + OWN_B)], got[2 * (OWN_A + OWN_B)];
        const struct copse_strategy_params *how = &hows[i];
        const uint32_t replicas = 2 + i;
        const struct copse_trainer_params p = { .optimizer = rules[i],
                                                .accumulate = 1 + i % 2,
                                                .precision = i == 3 ? COPSE_F16 : COPSE_F32,
                                                .check_gradients = i == 0 };
        train_bits(how, replicas, NULL, &p, want);
        for (uint32_t k = 0; k < COPSE_COUNT(ops); k++) {
            train_bits(how, replicas, &ops[k], &p, got);
            assert_memory_equal(got, want, sizeof got);
        }
    }
}

/* ---- all-reduces ---- */

struct shared {
    copse_variable *w, *sum, *first;
};

/* The sum over replicas is reported, stands before w, and is assigned. */
static copse_tensor *shared_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct shared *m = user;
    copse_tensor *x = copse_reshape(g, copse_sum(g, rig_x(in), NULL, 0, false), COPSE_SHAPE(1));
    copse_tensor *all = copse_all_reduce(g, x, COPSE_SUM);
    copse_update(g, m->sum, x);
    copse_update(g, m->first, x);
    copse_report(g, "sum", all);
    return copse_mul(g, all, copse_variable_tensor(m->w));
}

static void all_reduces_use_the_operations(void **unused)
{
    (void)unused;
    for (uint32_t at = 0; at < SERVERS; at++) {
        struct own_sums own = { .kind = OWN_MAXIMUM };
        copse_strategy *st = strategy_at(at);
        const uint32_t n = copse_strategy_replicas(st);
        struct copse_variable_params p = { .name = "w", .shape = COPSE_SHAPE(1) };
        struct copse_step_result result;
        struct shared m;
        copse_trainer *t;
        OK(own_set(ctx, st, accumulate, &own, false));
        OK(copse_variable_create(st, &p, &m.w));
        p = (struct copse_variable_params){ .name = "sum",
                                            .shape = COPSE_SHAPE(1),
                                            .is_frozen = true,
                                            .aggregation = COPSE_AGGREGATION_SUM };
        OK(copse_variable_create(st, &p, &m.sum));
        p.name = "first";
        p.aggregation = COPSE_AGGREGATION_ONLY_FIRST_REPLICA;
        OK(copse_variable_create(st, &p, &m.first));
        OK(copse_trainer_create(
            st,
            &(struct copse_trainer_params){
                .loss = shared_loss, .user = &m, .optimizer = sgd, .reduction = COPSE_LOSS_SUM },
            &t));
        /* rows -1, -2, ...: the maximum is -1, and that of the first replica and zeros would be 0 */
        float x[4] = { -1, -2, -3, -4 };
        const struct copse_host_batch batch =
            rig_kept((struct copse_host_batch){ RIG_X(1, x), .count = n });
        OK(copse_trainer_step(t, &batch));
        OK(copse_trainer_result(t, true, &result));
        for (uint32_t r = 0; r < n; r++) {
            assert_true(rig_value(m.w, r) == 1);
            assert_true(rig_value(m.sum, r) == -1);
            assert_true(rig_value(m.first, r) == -1);
        }
        OK(copse_trainer_evaluate(t, &batch, &result));
        assert_true(result.reports[0] == -1);
        for (uint32_t k = 0; k < 2; k++) { /* the sum of a step's loss fails; of an evaluation's */
            own = (struct own_sums){ .kind = OWN_FAILS };
            FAILS(COPSE_ERR_IO,
                  k ? copse_trainer_evaluate(t, &batch, &result) : copse_trainer_step(t, &batch),
                  "in all_reduce 0");
            assert_true(rig_value(m.w, 0) == 1);
            assert_true(rig_value(m.sum, 0) == -1);
        }
        own = (struct own_sums){ .kind = OWN_MAXIMUM };
        OK(copse_trainer_step(t, &batch));
        assert_true(rig_value(m.w, 0) == 2);
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
}

/* ---- gradients of rows ---- */

struct looked_up {
    copse_variable *table, *w; /* w: NULL or dense */
};

/* The sum of the rows, and w sum(x). */
static copse_tensor *rows_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct looked_up *m = user;
    copse_tensor *rows = copse_gather(g, copse_variable_tensor(m->table), copse_input(in, "row"));
    copse_tensor *y = copse_sum(g, rows, NULL, 0, false);
    if (m->w)
        y = copse_add(g, y,
                      copse_mul(g, copse_sum(g, rig_x(in), NULL, 0, false),
                                copse_sum(g, copse_variable_tensor(m->w), NULL, 0, false)));
    return y;
}

/* The library adds them; the operations get the dense variable alone. */
static void gradients_of_rows_are_added(void **unused)
{
    static const float x[] = { 3, 2, 1 }, zeros[16] = { 0 };
    static const int32_t row[] = { 5, 5, 5 };
    (void)unused;
    for (uint32_t at = 0; at < SERVERS; at++)
        for (int has_dense = 0; has_dense < 2; has_dense++) {
            struct own_sums own = { .kind = OWN_MAXIMUM };
            copse_strategy *st = strategy_at(at);
            const uint32_t n = copse_strategy_replicas(st);
            struct looked_up m = { .w = NULL };
            copse_trainer *t;
            OK(own_set(ctx, st, accumulate, &own, false));
            const struct copse_variable_params p = {
                .name = "table", .shape = COPSE_SHAPE(8, 2), .values = zeros, .is_sparse = true
            };
            OK(copse_variable_create(st, &p, &m.table));
            if (has_dense)
                m.w = rig_variable(st, "w", COPSE_SHAPE(1), zeros);
            OK(copse_trainer_create(
                st,
                &(struct copse_trainer_params){
                    .loss = rows_loss, .user = &m, .optimizer = sgd, .reduction = COPSE_LOSS_SUM },
                &t));
            const struct copse_host_batch batch = { COPSE_COLUMNS(
                                                        { "x", COPSE_F32, COPSE_SHAPE(1), x },
                                                        { "row", COPSE_I32, COPSE_SCALAR, row }),
                                                    .count = n };
            OK(copse_trainer_step(t, &batch));
            assert_int_equal(own.calls, has_dense);
            for (uint32_t r = 0; r < n; r++) {
                float got[16];
                OK(copse_variable_read(m.table, r, got));
                for (uint32_t i = 0; i < 16; i++)
                    assert_true(got[i] == (i / 2 == 5 ? -(float)n : 0));
                assert_true(!has_dense || rig_value(m.w, r) == -3);
            }
            copse_trainer_release(&t);
            copse_strategy_release(&st);
        }
}

/* ---- settings ---- */

static void operations_do_not_change_under_a_trainer(void **unused)
{
    struct fixture f;
    (void)unused;
    open_fixture(&f, 0, OWN_MAXIMUM, &sgd, 1);
    FAILS(COPSE_ERR_UNSUPPORTED, copse_strategy_set_cross_device(f.st, NULL), "release it first");
    FAILS(COPSE_ERR_UNSUPPORTED, own_set(ctx, f.st, accumulate, &f.own, true), "release it first");
    copse_trainer_release(&f.t);
    OK(copse_strategy_set_cross_device(f.st, NULL));
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_takes_what_the_operations_give),
        cmocka_unit_test(accumulated_gradients_are_given_once),
        cmocka_unit_test(nothing_has_changed_where_they_fail),
        cmocka_unit_test(sums_that_are_not_finite_skip_the_step),
        cmocka_unit_test(sums_in_the_canonical_order_give_the_bits_of_the_exchange),
        cmocka_unit_test(all_reduces_use_the_operations),
        cmocka_unit_test(gradients_of_rows_are_added),
        cmocka_unit_test(operations_do_not_change_under_a_trainer),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
