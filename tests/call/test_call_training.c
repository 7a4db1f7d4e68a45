/* SPDX-License-Identifier: MIT */
/* Training loops of the application: gradients from calls, applied by tower optimizers. They give
   the bits of a trainer. */
#include "tests/rig/train/loop_rig.h"
#include "tests/rig/value/replica_rig.h"

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
    COPSE_TRY(copse_call(net_gradients, s->n, args[0], &result));
    const copse_status status = net_apply(s->t, s->n, 0, 4, result);
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
    OK(net_create(st, &n));
    for (int i = 0; i < optimizers; i++)
        OK(copse_tower_create(st, &(struct copse_tower_params){ .optimizer = net_rule }, &t[i]));
    for (int step = 0; step < STEPS; step++) {
        copse_value *batch, *result = NULL;
        OK(net_batch(ctx, st, step, &batch));
        if (how == BY_RUN)
            OK(copse_strategy_run(st, step_in_replica, &batch, 1,
                                  &(struct replica_step){ t[0], &n }, NULL));
        else
            OK(copse_strategy_map(st, net_gradients, &n, batch, &result));
        for (int i = 0; i < optimizers; i++) {
            if (how != BY_RUN)
                OK(net_apply(t[i], &n, i * each, each, result));
            OK(copse_tower_finish(t[i]));
        }
        copse_value_release(&result);
        copse_value_release(&batch);
    }
    assert_int_equal(copse_call_recorded(st), copse_strategy_replicas(st));
    OK(net_read(st, &n, weights));
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
                    OK(net_train(st, weights[how]));
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
    OK(net_create(st, &n));
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
