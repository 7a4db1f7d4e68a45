/* SPDX-License-Identifier: MIT */
/* Training loops of the application: gradients from calls, applied by tower optimizers. They give
   the bits of a trainer. */
#include "copse/compat/replicated.h"
#include "copse/distribute/call.h"
#include "copse/matmul.h"
#include "copse/ops.h"
#include "tests/rig/value/replica_rig.h"

enum { ROWS = 12, COLUMNS = 5, HIDDEN = 7, CLASSES = 3, STEPS = 5 };

struct net {
    copse_variable *v[4];
    float part; /* 1 / replicas */
};

static const char *const names[] = { "w1", "b1", "w2", "b2" };

static void make_net(copse_strategy *st, struct net *n)
{
    const copse_shape shapes[] = { COPSE_SHAPE(COLUMNS, HIDDEN), COPSE_SHAPE(HIDDEN),
                                   COPSE_SHAPE(HIDDEN, CLASSES), COPSE_SHAPE(CLASSES) };
    for (int i = 0; i < 4; i++)
        OK(copse_variable_create(
            st,
            &(struct copse_variable_params){ .name = names[i],
                                             .shape = shapes[i],
                                             .initializer = COPSE_INIT_GLOROT_UNIFORM,
                                             .seed = 3 },
            &n->v[i]));
    n->part = 1.0f / (float)copse_strategy_replicas(st);
}

static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct net *n = user;
    copse_tensor *w[4];
    for (int i = 0; i < 4; i++)
        w[i] = copse_variable_tensor(n->v[i]);
    copse_tensor *h = copse_dense(g, copse_input(in, "x"), w[0], w[1], COPSE_TANH);
    copse_tensor *logits = copse_dense(g, h, w[2], w[3], COPSE_LINEAR);
    return copse_sparse_cross_entropy(g, logits, copse_input(in, "y"), COPSE_MEAN);
}

/* The derivatives of the mean over all replicas. */
static copse_tensor *gradients(copse_graph *g, const copse_batch *in, void *user)
{
    const struct net *n = user;
    copse_tensor *x[4], *dx[4], *mean = loss(g, in, user);
    for (int i = 0; i < 4; i++)
        x[i] = copse_variable_tensor(n->v[i]);
    copse_gradients(g, mean, copse_scalar(g, n->part), x, 4, dx);
    copse_output(g, "loss", mean);
    for (int i = 0; i < 4; i++)
        copse_output(g, names[i], dx[i]);
    return NULL;
}

static void fill_batch(float *x, int32_t *y, int step)
{
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = (float)((i * 37 + step * 11) % 23) / 11.0f - 1;
    for (int i = 0; i < ROWS; i++)
        y[i] = (i + step) % CLASSES;
}

static void read_net(const struct net *n, float *weights)
{
    for (int i = 0; i < 4; i++) {
        OK(copse_variable_read(n->v[i], copse_strategy_replicas(n->v[0]->strategy) - 1, weights));
        weights += n->v[i]->count;
    }
}

enum { WEIGHTS = COLUMNS * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES };

/* Clipping is by the norm of each variable, so optimizers over parts do what one does over all. */
static const struct copse_optimizer_params rule = { .kind = COPSE_ADAM,
                                                    .learning_rate = 0.1f,
                                                    .clip_norm = 0.05f };

static void train_by_trainer(copse_strategy *st, float *weights)
{
    struct net n;
    copse_trainer *t;
    make_net(st, &n);
    OK(copse_trainer_create(
        st, &(struct copse_trainer_params){ .loss = loss, .user = &n, .optimizer = rule }, &t));
    for (int step = 0; step < STEPS; step++) {
        float x[ROWS * COLUMNS];
        int32_t y[ROWS];
        fill_batch(x, y, step);
        const struct copse_host_batch b = { COPSE_COLUMNS(
                                                { "x", COPSE_F32, COPSE_SHAPE(COLUMNS), x },
                                                { "y", COPSE_I32, COPSE_SCALAR, y }),
                                            .count = ROWS };
        OK(copse_trainer_step(t, &b));
    }
    read_net(&n, weights);
    copse_trainer_release(&t);
}

/* Each replica's rows of x and y. */
static copse_value *split_batch(copse_strategy *st, int step)
{
    const uint32_t n = copse_strategy_replicas(st), rows = ROWS / n;
    float x[ROWS * COLUMNS];
    int32_t y[ROWS];
    copse_value *xs[MAX_RANKS], *ys[MAX_RANKS], *both[2], *batch;
    fill_batch(x, y, step);
    for (uint32_t r = 0; r < n; r++) {
        OK(copse_value_create_on(st, r, COPSE_F32, COPSE_SHAPE(rows, COLUMNS),
                                 x + (size_t)r * rows * COLUMNS, &xs[r]));
        OK(copse_value_create_on(st, r, COPSE_I32, COPSE_SHAPE(rows), y + (size_t)r * rows,
                                 &ys[r]));
    }
    both[0] = per_replica(st, xs);
    both[1] = per_replica(st, ys);
    OK(copse_value_dict(ctx, (const char *const[]){ "x", "y" }, both, 2, &batch));
    copse_value_release(&both[0]);
    copse_value_release(&both[1]);
    return batch;
}

/* Gradients of some variables. */
static copse_status apply(copse_tower_optimizer *t, const struct net *n, int first, int count,
                          const copse_value *result)
{
    struct copse_tower_gradient pairs[4];
    for (int i = 0; i < count; i++)
        pairs[i] = (struct copse_tower_gradient){ copse_value_find(result, names[first + i]),
                                                  n->v[first + i] };
    return copse_tower_apply(t, pairs, (size_t)count, true);
}

struct replica_step {
    copse_tower_optimizer *t;
    struct net *n;
};

/* The same in a replica: a call and its gradients. */
static copse_status step_in_replica(copse_replica_context *rc, copse_value *const *args,
                                    size_t count, void *user, copse_value **out)
{
    const struct replica_step *s = user;
    copse_value *result;
    (void)rc, (void)count, (void)out;
    COPSE_TRY(copse_call(gradients, s->n, args[0], &result));
    const copse_status status = apply(s->t, s->n, 0, 4, result);
    copse_value_release(&result);
    return status;
}

enum way { BY_TRAINER, BY_MAP, BY_RUN, BY_PARTS, WAYS };

/* BY_PARTS: one optimizer for each layer. */
static void train_by_calls(copse_strategy *st, enum way how, float *weights)
{
    struct net n;
    copse_tower_optimizer *t[2];
    const int optimizers = how == BY_PARTS ? 2 : 1, each = 4 / optimizers;
    make_net(st, &n);
    for (int i = 0; i < optimizers; i++)
        OK(copse_tower_create(st, &(struct copse_tower_params){ .optimizer = rule }, &t[i]));
    for (int step = 0; step < STEPS; step++) {
        copse_value *batch = split_batch(st, step), *result = NULL;
        if (how == BY_RUN)
            OK(copse_strategy_run(st, step_in_replica, &batch, 1,
                                  &(struct replica_step){ t[0], &n }, NULL));
        else
            OK(copse_strategy_map(st, gradients, &n, batch, &result));
        for (int i = 0; i < optimizers; i++) {
            if (how != BY_RUN)
                OK(apply(t[i], &n, i * each, each, result));
            OK(copse_tower_finish(t[i]));
        }
        copse_value_release(&result);
        copse_value_release(&batch);
    }
    assert_int_equal(copse_call_recorded(st), copse_strategy_replicas(st));
    read_net(&n, weights);
    for (int i = 0; i < optimizers; i++) {
        assert_int_equal(copse_tower_steps(t[i]), STEPS);
        copse_tower_release(&t[i]);
    }
}

static void a_loop_of_calls_gives_the_trainers_bits(void **unused)
{
    (void)unused;
    for (uint32_t mix = 1; mix < 1u << found_count; mix++)
        for (uint32_t ranks = 1; ranks <= 4; ranks++) {
            float weights[WAYS][WEIGHTS];
            for (enum way how = BY_TRAINER; how < WAYS; how++) {
                copse_strategy *st = open_mixture(ctx, mix, ranks);
                if (!st)
                    continue;
                set_links(st);
                if (how == BY_TRAINER)
                    train_by_trainer(st, weights[how]);
                else
                    train_by_calls(st, how, weights[how]);
                copse_strategy_release(&st);
                assert_memory_equal(weights[how], weights[BY_TRAINER], sizeof weights[how]);
            }
        }
}

static void wrong_gradients_are_refused_and_none_is_kept(void **unused)
{
    struct net n;
    copse_tower_optimizer *t;
    copse_strategy *st = strategy_of(2, true);
    (void)unused;
    make_net(st, &n);
    OK(copse_tower_create(st, &(struct copse_tower_params){ .optimizer = { .kind = COPSE_SGD } },
                          &t));
    copse_value *at[] = { scalar_on(st, 0, 1), scalar_on(st, 1, 1) }, *each = per_replica(st, at);
    const struct copse_tower_gradient wrong = { each, n.v[1] };
    FAILS(COPSE_ERR_SHAPE, copse_tower_apply(t, &wrong, 1, true), "'b1'");
    FAILS(COPSE_ERR_ARGUMENT, copse_tower_apply(t, NULL, 0, true), "no replica has a gradient");
    copse_value_release(&each);
    /* replica 0's gradient is right, and is taken back when replica 1's is refused */
    const float ones[HIDDEN] = { 1, 1, 1, 1, 1, 1, 1 };
    copse_value *half[] = { floats_on(st, 0, HIDDEN, ones), scalar_on(st, 1, 1) };
    each = per_replica(st, half);
    FAILS(COPSE_ERR_SHAPE,
          copse_tower_apply(t, &(struct copse_tower_gradient){ each, n.v[1] }, 1, true),
          "replica 1");
    OK(copse_tower_finish(t));
    assert_int_equal(copse_tower_steps(t), 0);
    copse_value_release(&each);
    copse_tower_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_of_calls_gives_the_trainers_bits),
        cmocka_unit_test(wrong_gradients_are_refused_and_none_is_kept),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
