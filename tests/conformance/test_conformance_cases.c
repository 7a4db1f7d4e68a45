/* SPDX-License-Identifier: MIT */
/* Which cases a run of the conformance engine takes: lists, filters, what is behind a case, a time
   box, an end. */
#include "tests/rig/conformance/conform_rig.h"

static void listing_runs_nothing(void **state)
{
    (void)state;
    struct copse_conformance_params p = {
        .device = "fake:0", .result = take, .begin = begin, .modes = COPSE_CONFORM_RUN
    };
    OK(copse__conformance_list_with(ctx, &p, good_tables));
    assert_int_equal(lines.count, 6); /* one is of a higher tier */
    p.tier = STANDARD;
    OK(copse__conformance_list_with(ctx, &p, good_tables));
    assert_int_equal(lines.count, 6 + 7 + 2 * 6); /* six variants of matmul */
    for (size_t i = 0; i < lines.count; i++)
        assert_int_equal(lines.at[i].verdict, COPSE_VERDICT_SKIP);
    assert_int_equal(lines.begun, 0);
    assert_int_equal(fake_calls(0, FAKE_REPLAY), 0);
}

static void filters(void **state)
{
    (void)state;
    OK(run((struct copse_conformance_params){ .ops = "square,neg", .case_name = "numbers" },
           good_tables, no_known));
    assert_int_equal(lines.count, 4);
    OK(run((struct copse_conformance_params){ .case_name = "many" }, good_tables, no_known));
    assert_int_equal(lines.count, 2); /* by name, whatever the tier */
    OK(run((struct copse_conformance_params){ .variant = "matmul" }, good_tables, no_known));
    assert_int_equal(lines.count, 4);
    expect("grad/matmul/cancelling/matmul", COPSE_VERDICT_PASS, "");
    OK(run((struct copse_conformance_params){ .variant = "", .tier = STANDARD }, good_tables,
           no_known));
    for (size_t i = 0; i < lines.count; i++)
        assert_true(lines.at[i].id[strlen(lines.at[i].id) - 1] == '/');

    static const struct copse_conformance_params wrong[] = {
        { .ops = "squares" },
        { .ops = "square,nothing" },
        { .ops = "" },
        { .case_name = "number" },
        { .variant = "mat" },
        { .after = "run/neg/x/" },
        { .ops = "neg", .variant = "matmul" },
        { .modes = 1u << 30 },
        { .seconds = -1 },
        { .tier = (copse_conformance_tier)9 },
    };
    for (size_t i = 0; i < COPSE_COUNT(wrong); i++) {
        assert_int_equal(run(wrong[i], good_tables, no_known), COPSE_ERR_ARGUMENT);
        assert_int_equal(lines.count, 0);
    }
    assert_int_equal(
        run((struct copse_conformance_params){ .device = "fake:9" }, good_tables, no_known),
        COPSE_ERR_NO_DEVICE);
}

static void a_run_goes_on_behind_a_case(void **state)
{
    (void)state;
    static struct line all[200];
    struct copse_conformance_params p = { .tier = STANDARD };
    OK(run(p, good_tables, no_known));
    const size_t count = lines.count;
    memcpy(all, lines.at, sizeof all);
    for (size_t i = 0; i < count; i++) {
        p.after = all[i].id;
        OK(run(p, good_tables, no_known));
        assert_int_equal(lines.count, count - i - 1);
        for (size_t k = 0; k < lines.count; k++)
            assert_string_equal(lines.at[k].id, all[i + 1 + k].id);
    }
    /* A variant that was tried because the choice had failed. */
    p = (struct copse_conformance_params){ .after = "run/matmul/cancelling/matmul" };
    OK(run(p, good_tables, no_known));
    assert_string_equal(lines.at[0].id, "grad/neg/numbers/");
}

static void the_time_box_says_what_was_not_reached(void **state)
{
    (void)state;
    OK(run((struct copse_conformance_params){ .seconds = 1e-9 }, good_tables, no_known));
    assert_int_equal(summary.counts[COPSE_VERDICT_SKIP], lines.count);
    assert_int_equal(lines.begun, 0);
    expect("run/neg/numbers/", COPSE_VERDICT_SKIP, "not reached in 1e-09 s");
}

static void begin_ends_the_run(void **state)
{
    (void)state;
    lines.stop_at = 3;
    assert_int_equal(run((struct copse_conformance_params){ .tier = QUICK }, good_tables, no_known),
                     COPSE_ERR_CANCELLED);
    assert_int_equal(lines.count, 2);
    assert_int_equal(lines.begun, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(listing_runs_nothing),        TEST(filters),
        TEST(a_run_goes_on_behind_a_case), TEST(the_time_box_says_what_was_not_reached),
        TEST(begin_ends_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
