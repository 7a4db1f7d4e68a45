/* SPDX-License-Identifier: MIT */
/* Rules and policies by name; plans of input as numbers, as text and as JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/rig/data/input_rig.h"

static void test_rules_and_policies_have_names(void **state)
{
    copse_shard_rule rule;
    copse_input_policy policy;

    (void)state;
    for (int i = COPSE_SHARD_BALANCED; i <= COPSE_SHARD_FIXED; i++) {
        assert_ok(copse_shard_rule_parse(copse_shard_rule_name((copse_shard_rule)i), &rule));
        assert_int_equal(rule, i);
    }
    for (int i = COPSE_INPUT_AUTO; i <= COPSE_INPUT_OFF; i++) {
        assert_ok(
            copse_input_policy_parse(copse_input_policy_name((copse_input_policy)i), &policy));
        assert_int_equal(policy, i);
    }
    assert_ok(copse_shard_rule_parse("CEIL", &rule));
    assert_int_equal(rule, COPSE_SHARD_CEIL);
    assert_ok(copse_input_policy_parse("Off", &policy));
    assert_int_equal(policy, COPSE_INPUT_OFF);
    assert_error(COPSE_ERR_ARGUMENT, copse_shard_rule_parse("ceiling", &rule), "'ceiling'");
    assert_error(COPSE_ERR_ARGUMENT, copse_shard_rule_parse("", &rule), "''");
    assert_error(COPSE_ERR_ARGUMENT, copse_input_policy_parse("hint", &policy), "'hint'");
    assert_error(COPSE_ERR_ARGUMENT, copse_input_policy_parse(NULL, &policy), "'text' is NULL");
    assert_string_equal(copse_shard_rule_name((copse_shard_rule)9), "?");
    assert_string_equal(copse_input_policy_name((copse_input_policy)9), "?");
}

static void assert_written(const copse_input_plan *plan, copse_input_plan_form form, uint64_t steps,
                           const char *expected)
{
    char text[2000], cut[2000];

    size_t length = copse_input_plan_write(plan, form, steps, text, sizeof text);
    assert_string_equal(text, expected);
    assert_int_equal(length, strlen(expected));
    for (size_t room = 1; room <= length; room++) {
        memset(cut, '#', sizeof cut);
        assert_int_equal(copse_input_plan_write(plan, form, steps, cut, room), length);
        assert_int_equal(strlen(cut), room - 1);
        assert_memory_equal(cut, expected, room - 1);
        for (size_t i = room; i < sizeof cut; i++)
            if (cut[i] != '#')
                fail_msg("byte %zu of %zu was written", i, room);
    }
    assert_int_equal(copse_input_plan_write(plan, form, steps, NULL, 0), length);
}

static void test_plan_can_be_read(void **state)
{
    const char *const files[] = { "a\"\\.npy", "b.npy", "c.npy" };
    const uint64_t rows[] = { 3, 1, 2 };
    struct copse_input_plan_params p = {
        .pipelines = 2, .batch = 4, .files = files, .file_count = 3, .file_rows = rows
    };
    struct copse_input_reading reading;
    struct copse_input_shard shard;
    copse_input_plan *plan;
    size_t index;

    (void)state;
    assert_ok(copse_input_plan_create(ctx, &p, &plan));
    assert_written(plan, COPSE_INPUT_PLAN_TEXT, 3,
                   "2 pipelines, 2 replicas, policy file, rule balanced, batch 4, drop last false\n"
                   "pipeline 0: 5 rows, 4 steps of 1 minibatch\n"
                   "  file 0: a\"\\.npy\n"
                   "  file 2: c.npy\n"
                   "  step 0: 0-1\n"
                   "  step 1: 2-3\n"
                   "  step 2: 4\n"
                   "  ...\n"
                   "pipeline 1: 1 row, 2 steps of 1 minibatch\n"
                   "  file 1: b.npy\n"
                   "  step 0: 0\n"
                   "  step 1: none\n");
    assert_written(plan, COPSE_INPUT_PLAN_JSON, UINT64_MAX,
                   "{\"pipelines\":2,\"replicas\":2,\"policy\":\"file\",\"rule\":\"balanced\","
                   "\"batch\":4,\"drop_last\":false,\"reads\":["
                   "{\"pipeline\":0,\"files\":[{\"index\":0,\"path\":\"a\\\"\\\\.npy\"},"
                   "{\"index\":2,\"path\":\"c.npy\"}],\"rows\":5,"
                   "\"minibatches\":{\"first\":0,\"every\":1},\"steps\":4,"
                   "\"shards\":[[[0,2]],[[2,2]],[[4,1]],[[5,0]]]},"
                   "{\"pipeline\":1,\"files\":[{\"index\":1,\"path\":\"b.npy\"}],\"rows\":1,"
                   "\"minibatches\":{\"first\":0,\"every\":1},\"steps\":2,"
                   "\"shards\":[[[0,1]],[[1,0]]]}]}");
    assert_ok(copse_input_plan_describe(plan, 0, &reading));
    assert_int_equal(reading.policy, COPSE_INPUT_FILE);
    assert_int_equal(reading.files, 2);
    assert_int_equal(reading.steps, 4);
    assert_string_equal(copse_input_plan_file(plan, 0, 1, &index), "c.npy");
    assert_int_equal(index, 2);
    assert_null(copse_input_plan_file(plan, 0, 2, NULL));
    assert_null(copse_input_plan_file(plan, 1, 1, NULL));
    assert_null(copse_input_plan_file(plan, 2, 0, NULL));
    copse_input_plan_release(&plan);

    /* Rows that nobody has counted. */
    p.file_rows = NULL;
    assert_ok(copse_input_plan_create(ctx, &p, &plan));
    copse_input_plan *same = copse_input_plan_retain(plan);
    copse_input_plan_release(&same);
    assert_error(COPSE_ERR_ARGUMENT, copse_input_plan_shard(plan, 0, 0, 0, &shard), "not known");
    assert_written(plan, COPSE_INPUT_PLAN_TEXT, UINT64_MAX,
                   "2 pipelines, 2 replicas, policy file, rule balanced, batch 4, drop last false\n"
                   "pipeline 0: rows not known, steps of 1 minibatch\n"
                   "  file 0: a\"\\.npy\n"
                   "  file 2: c.npy\n"
                   "pipeline 1: rows not known, steps of 1 minibatch\n"
                   "  file 1: b.npy\n");
    copse_input_plan_release(&plan);

    /* AUTO without files is DATA. */
    p = (struct copse_input_plan_params){ .pipelines = 2, .replicas = 4, .batch = 8, .rows = 12 };
    assert_ok(copse_input_plan_create(ctx, &p, &plan));
    assert_written(plan, COPSE_INPUT_PLAN_TEXT, UINT64_MAX,
                   "2 pipelines, 4 replicas, policy data, rule balanced, batch 8, drop last false\n"
                   "pipeline 0: 12 rows, 2 steps of 2 minibatches\n"
                   "  minibatches 0, 2, 4, ...\n"
                   "  step 0: 0-1 4-5\n"
                   "  step 1: 8 10\n"
                   "pipeline 1: 12 rows, 2 steps of 2 minibatches\n"
                   "  minibatches 1, 3, 5, ...\n"
                   "  step 0: 2-3 6-7\n"
                   "  step 1: 9 11\n");
    copse_input_plan_release(&plan);
    p.rows = (uint64_t)UINT32_MAX + 1;
    assert_error(COPSE_ERR_ARGUMENT, copse_input_plan_create(ctx, &p, &plan), "2^32");
    p.rows = 0;
    p.file_count = 1;
    assert_error(COPSE_ERR_ARGUMENT, copse_input_plan_create(ctx, &p, &plan), "a list");
    const char *const holes[] = { "a", NULL };
    p.files = holes;
    p.file_count = 2;
    assert_error(COPSE_ERR_ARGUMENT, copse_input_plan_create(ctx, &p, &plan), "file 1 of 2");
    assert_error(COPSE_ERR_ARGUMENT, copse_input_plan_create(ctx, NULL, &plan), "params");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_and_policies_have_names),
        cmocka_unit_test(test_plan_can_be_read),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
