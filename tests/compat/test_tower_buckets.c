/* SPDX-License-Identifier: MIT */
/* Variables of a tower optimizer share buckets while they are updated together. Updates of some of
   them have the bits of variables that have buckets of their own from the beginning. */
#include "tests/rig/train/tower_buckets.h"
#include "tests/rig/value/replica_rig.h"

static const struct copse_optimizer_params rules[] = {
    { .kind = COPSE_SGD, .learning_rate = 0.1f },
    { .kind = COPSE_MOMENTUM, .learning_rate = 0.1f, .momentum = 0.9f },
    { .kind = COPSE_ADAM, .learning_rate = 0.1f, .clip_norm = 0.5f, .average = 0.9f },
    { .kind = COPSE_ADAM8, .learning_rate = 0.1f },
    { .kind = COPSE_LAMB, .learning_rate = 0.1f, .weight_decay = 0.01f },
    { .kind = COPSE_ADAMW, .learning_rate = 0.1f, .clip_global_norm = 0.5f },
};

static float together[PARTS_NUMBERS], apart[PARTS_NUMBERS];

static void updates_of_some_variables_split_buckets(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    for (size_t k = 0; k < COPSE_COUNT(rules); k++) {
        struct parts one, own;
        memset(together, 0, sizeof together);
        memset(apart, 0, sizeof apart);
        OK(parts_create(st, &rules[k], fresh("together"), false, &one));
        OK(parts_create(st, &rules[k], fresh("apart"), true, &own));
        OK(parts_train(&own, apart));
        assert_int_equal(own.t->optimizer->buckets.count, PARTS);
        OK(parts_train(&one, together));
        assert_memory_equal(together, apart, sizeof apart);
        copse_tower_release(&one.t);
        copse_tower_release(&own.t);
    }
}

/* One update at a time, and the buckets after it. */
static void variables_updated_together_share_a_bucket(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        struct parts p;
        OK(parts_create(st, &rules[2], fresh("counted"), false, &p));
        for (p.update = 0; p.update < COPSE_COUNT(part_updates); p.update++) {
            OK(copse_strategy_run(st, parts_give, NULL, 0, &p, NULL));
            assert_int_equal(p.t->optimizer->buckets.count, part_buckets[p.update]);
        }
        copse_tower_release(&p.t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_of_some_variables_split_buckets),
        cmocka_unit_test(variables_updated_together_share_a_bucket),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
