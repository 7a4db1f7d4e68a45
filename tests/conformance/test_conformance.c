/* SPDX-License-Identifier: MIT */
/* The engine of the conformance room over small tables of its own: on a fake device that lies, on
   host:0 and on the devices found. */
#include "tests/rig/conformance/conform_rig.h"

/* ---- what must be found ---- */

static void right_results_pass(void **state)
{
    (void)state;
    OK(run((struct copse_conformance_params){ .modes = ALL, .tier = STANDARD }, good_tables,
           no_known));
    for (size_t i = 0; i < lines.count; i++)
        if (lines.at[i].verdict != COPSE_VERDICT_PASS &&
            lines.at[i].verdict != COPSE_VERDICT_UNSUPPORTED) /* variants that are not for it */
            fail_msg("%s: %s %s", lines.at[i].id, copse_verdict_name(lines.at[i].verdict),
                     lines.at[i].text);
    expect("run/matmul/whole numbers/matmul", COPSE_VERDICT_PASS, "");
    expect("run/matmul/whole numbers/matmul_wide", COPSE_VERDICT_UNSUPPORTED, "matmul_wide");
    assert_string_equal(find("run/matmul/cancelling/")->metric, "R");
    assert_true(find("run/square/many/")->worst > 0);
    assert_int_equal(strlen(find("bitwise/neg/numbers/")->hash), 16);
}

static void a_wrong_result_fails_with_its_place_and_the_kernel_is_blocked(void **state)
{
    (void)state;
    const struct copse_blocked_kernel *blocked;
    size_t count;
    copse_fake.devices[0].perturb = "matmul";
    OK(run((struct copse_conformance_params){ .ops = "matmul,square" }, good_tables, no_known));
    expect("run/matmul/whole numbers/", COPSE_VERDICT_FAIL, "the result is outside the tolerance");
    assert_true(find("run/matmul/whole numbers/")->worst == 1);
    /* Not asked for in this tier, but this way the one to blame is known. */
    expect("run/matmul/whole numbers/matmul", COPSE_VERDICT_FAIL, "");
    expect("grad/matmul/whole numbers/", COPSE_VERDICT_FAIL,
           "the gradient of input 0 is outside the tolerance");
    expect("run/square/numbers/", COPSE_VERDICT_PASS, "");
    OK(copse_device_blocked(ctx, "fake:0", &blocked, &count));
    assert_int_equal(count, 1);
    assert_string_equal(blocked[0].kernel, "matmul");
    assert_non_null(strstr(blocked[0].reason, "matmul/"));
    /* A kernel that is blocked is checked again all the same. */
    copse_fake.devices[0].perturb = NULL;
    OK(run((struct copse_conformance_params){ .ops = "matmul" }, good_tables, no_known));
    expect("run/matmul/whole numbers/", COPSE_VERDICT_PASS, "");
}

/* ---- blocks that runs take back ---- */

/* Blocked on fake:0: 0 = nothing, 1 = matmul until its cases pass, 2 = matmul until it is
   unblocked. */
static int matmul_block(void)
{
    const struct copse_blocked_kernel *blocked;
    size_t count;
    OK(copse_device_blocked(ctx, "fake:0", &blocked, &count));
    if (count == 0)
        return 0;
    assert_int_equal(count, 1);
    assert_string_equal(blocked[0].kernel, "matmul");
    return blocked[0].is_lasting ? 2 : 1;
}

static void run_matmul(unsigned modes, copse_conformance_tier tier, const char *case_name);

/* A failed case is forgotten when it has passed in three runs in a row. */
static void run_matmul_thrice(unsigned modes, copse_conformance_tier tier, const char *case_name)
{
    for (int i = 0; i < 3; i++)
        run_matmul(modes, tier, case_name);
}

static void run_matmul(unsigned modes, copse_conformance_tier tier, const char *case_name)
{
    OK(run((struct copse_conformance_params){ .ops = "matmul",
                                              .variant = "matmul",
                                              .modes = modes,
                                              .tier = tier,
                                              .case_name = case_name },
           good_tables, no_known));
}

static void a_kernel_is_used_again_when_what_it_failed_passes(void **state)
{
    struct fake_device *d = &copse_fake.devices[0];
    (void)state;
    d->perturb = "matmul";
    run_matmul(COPSE_CONFORM_RUN | COPSE_CONFORM_GRAD, STANDARD, NULL);
    assert_int_equal(matmul_block(), 1);
    run_matmul(COPSE_CONFORM_RUN, QUICK, NULL); /* forgets nothing of the higher tier */

    d->perturb = NULL;
    run_matmul_thrice(COPSE_CONFORM_RUN | COPSE_CONFORM_GRAD, QUICK, NULL);
    assert_int_equal(matmul_block(), 1); /* a lower tier */
    run_matmul_thrice(COPSE_CONFORM_RUN, STANDARD, NULL);
    assert_int_equal(matmul_block(), 1); /* gradients had failed, too */
    OK(run((struct copse_conformance_params){ .ops = "square", .tier = STANDARD }, good_tables,
           no_known));
    assert_int_equal(matmul_block(), 1);
    run_matmul(COPSE_CONFORM_GRAD, COPSE_CONFORM_FULL, NULL);
    run_matmul(COPSE_CONFORM_GRAD, COPSE_CONFORM_FULL, NULL);
    assert_int_equal(matmul_block(), 1);
    run_matmul(COPSE_CONFORM_GRAD, COPSE_CONFORM_FULL, NULL);
    assert_int_equal(matmul_block(), 0);
}

static void a_case_that_fails_beside_those_that_pass_keeps_the_block(void **state)
{
    struct fake_device *d = &copse_fake.devices[0];
    (void)state;
    d->perturb = "matmul";
    d->perturb_bits = 1u << 22;
    run_matmul(COPSE_CONFORM_RUN, QUICK, "whole numbers");
    assert_int_equal(matmul_block(), 1);
    d->perturb_period = 2; /* from the next launch on: right, wrong, ... */
    atomic_store(&d->perturb_runs, 0u);
    run_matmul(COPSE_CONFORM_RUN, QUICK, NULL);
    expect("run/matmul/whole numbers/matmul", COPSE_VERDICT_PASS, "");
    assert_true(summary.counts[COPSE_VERDICT_FAIL] > 0);
    assert_int_equal(matmul_block(), 1);
    d->perturb = NULL;
    run_matmul_thrice(COPSE_CONFORM_RUN, QUICK, "whole numbers");
    assert_int_equal(matmul_block(), 1); /* the other one has failed, too */
    run_matmul_thrice(COPSE_CONFORM_RUN, QUICK, NULL);
    assert_int_equal(matmul_block(), 0);
}

static void what_an_application_blocks_stays_blocked(void **state)
{
    struct fake_device *d = &copse_fake.devices[0];
    (void)state;
    OK(copse_device_block(ctx, "fake:0", "matmul", "by the test"));
    run_matmul(COPSE_CONFORM_RUN, STANDARD, NULL);
    assert_int_equal(matmul_block(), 2);
    d->perturb = "matmul";
    run_matmul(COPSE_CONFORM_RUN, STANDARD, NULL);
    d->perturb = NULL;
    run_matmul(COPSE_CONFORM_RUN, STANDARD, NULL);
    assert_int_equal(matmul_block(), 2);
    OK(copse_device_unblock(ctx, "fake:0", NULL));
    assert_int_equal(matmul_block(), 0);
}

static void be_late(void)
{
    fake_fail(0, FAKE_WAIT, 1, COPSE_ERR_TIMEOUT, false);
    run_matmul(COPSE_CONFORM_RUN, QUICK, "whole numbers");
    expect("run/matmul/whole numbers/matmul", COPSE_VERDICT_TIMEOUT, "");
}

static void late_twice_is_blocked_and_once_is_not(void **state)
{
    (void)state;
    be_late();
    assert_int_equal(matmul_block(), 0);
    run_matmul(COPSE_CONFORM_RUN, QUICK, "whole numbers");
    expect("run/matmul/whole numbers/matmul", COPSE_VERDICT_PASS, "");
    be_late(); /* the first time since it passed */
    assert_int_equal(matmul_block(), 0);
    be_late();
    assert_int_equal(matmul_block(), 1);
    run_matmul_thrice(COPSE_CONFORM_RUN, QUICK, "whole numbers");
    assert_int_equal(matmul_block(), 0);
}

static void writes_out_of_range_and_missing_ones_fail(void **state)
{
    (void)state;
    struct fake_device *d = &copse_fake.devices[0];
    const struct copse_conformance_params p = { .ops = "square", .modes = COPSE_CONFORM_RUN };
    d->stray = "unary";
    d->stray_at = 4 * 1001;
    OK(run(p, good_tables, no_known));
    expect("run/square/numbers/", COPSE_VERDICT_FAIL, "1 element past the end of the result");
    d->stray_at = 4 * (1001 + 9);
    OK(run(p, good_tables, no_known));
    expect("run/square/numbers/", COPSE_VERDICT_FAIL, "10 elements past the end of the result");
    d->stray_at = -4;
    OK(run(p, good_tables, no_known));
    expect("run/square/numbers/", COPSE_VERDICT_FAIL, "1 element before the result");
    d->stray = NULL;
    d->dropped = "unary";
    OK(run(p, good_tables, no_known));
    expect("run/square/numbers/", COPSE_VERDICT_FAIL, "element 0 of the result was not written");
    d->dropped = NULL;
    d->stray = "unary_grad";
    d->stray_at = 4 * 1001;
    OK(run((struct copse_conformance_params){ .ops = "square" }, good_tables, no_known));
    expect("run/square/numbers/", COPSE_VERDICT_PASS, "");
    expect("grad/square/numbers/", COPSE_VERDICT_FAIL, "past the end of the gradient of input 0");
}

/* ---- devices that flush ---- */

static const double subnormals[] = { 0x1p-148, 0x1p-149 };
#define TINY(k)                                                                                    \
    {                                                                                              \
        .type = COPSE_F32, .shape = SHAPE(4), .fill = COPSE_FILL_VALUES, .values = &subnormals[k], \
        .value_count = 1                                                                           \
    }
static const struct copse_case tiny_cases[] = {
    { .op = "neg", .name = "tiny", .build = negative, .in = { TINY(1) }, .in_count = 1 },
    { .op = "div",
      .name = "tiny",
      .build = quotient,
      .in = { TINY(0), TINY(1) },
      .in_count = 2,
      .forward = { .ulp = 3 } },
};
static const struct copse_case_table tiny = {
    .family = "tiny", .is_sampled = true, .cases = tiny_cases, .count = COPSE_COUNT(tiny_cases)
};
static const struct copse_case_table *const tiny_tables[] = { &tiny, NULL };

static void describe_flushing(struct copse_device_info *info)
{
    info->limits.keeps_denormals = false;
}

/* What a result may be where the device flushes: it of any of the operands, of either sign. */
static void subnormals_may_be_flushed_where_they_are(void **state)
{
    static const struct {
        const char *op, *kernel;
        uint32_t bits; /* of the honest result that are changed: -2^-149, and 2 */
        bool flushes, is_right;
    } table[] = {
        { "neg", "unary", 0x00000000, true, true }, /* as it is */
        { "neg", "unary", 0x00000001, true, true }, /* -0 */
        { "neg", "unary", 0x00000001, false, false },
        { "neg", "unary", 0x00000100, true, false }, /* a wrong one */
        { "div", "binary", 0x3f800000, true, true }, /* divisor flushed: infinity */
        { "div", "binary", 0x3f800000, false, false },
        { "div", "binary", 0xbf800000, true, true }, /* and of the other sign */
        { "div", "binary", 0x40000000, true, true }, /* dividend flushed: 0 */
        { "div", "binary", 0x40000000, false, false },
        { "div", "binary", 0x3fc00000, true, true }, /* both flushed: NaN */
        { "div", "binary", 0x3fc00000, false, false },
        { "div", "binary", 0x00400000, true, false }, /* 3 */
    };
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(table); i++) {
        close_context(NULL);
        copse_fake.devices[0].describe = table[i].flushes ? describe_flushing : NULL;
        OK(copse__context_create_with(NULL, fake_backends, &ctx));
        copse_fake.devices[0].perturb = table[i].bits ? table[i].kernel : NULL;
        copse_fake.devices[0].perturb_bits = table[i].bits;
        OK(run((struct copse_conformance_params){ .ops = table[i].op, .modes = COPSE_CONFORM_RUN },
               tiny_tables, no_known));
        if ((lines.at[0].verdict == COPSE_VERDICT_PASS) != table[i].is_right)
            fail_msg("%s, bits %08x, %s: %s", table[i].op, (unsigned)table[i].bits,
                     table[i].flushes ? "flushes" : "keeps", lines.at[0].text);
    }
}

static void results_that_change_are_found(void **state)
{
    (void)state;
    copse_fake.devices[0].perturb = "unary";
    copse_fake.devices[0].perturb_period = 3;
    OK(run((struct copse_conformance_params){ .ops = "neg",
                                              .modes = COPSE_CONFORM_BITWISE,
                                              .case_name = "numbers" },
           good_tables, no_known));
    expect("bitwise/neg/numbers/", COPSE_VERDICT_FAIL, "");
    assert_true(find("bitwise/neg/numbers/")->worst > 0);
}

/* One run in fifty: tier full finds it, and says nothing of a device without it. */
static void a_rare_fault_is_found(void **state)
{
    (void)state;
    struct copse_conformance_params p = { .ops = "neg",
                                          .modes = COPSE_CONFORM_BITWISE,
                                          .tier = COPSE_CONFORM_FULL,
                                          .case_name = "numbers" };
    OK(run(p, good_tables, no_known));
    expect("bitwise/neg/numbers/", COPSE_VERDICT_PASS, "");
    copse_fake.devices[0].perturb = "unary";
    copse_fake.devices[0].perturb_period = 50;
    p.tier = STANDARD; /* a few runs do not meet it */
    OK(run(p, good_tables, no_known));
    expect("bitwise/neg/numbers/", COPSE_VERDICT_PASS, "");
    p.tier = COPSE_CONFORM_FULL;
    OK(run(p, good_tables, no_known));
    expect("bitwise/neg/numbers/", COPSE_VERDICT_FAIL, "");
    assert_true(find("bitwise/neg/numbers/")->worst > 0);
}

/* ---- what a case states ---- */

static copse_tensor *a_thousandth(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    copse_tensor *y = copse_square(g, in[0]);
    return copse_multiply_by(g, y, 1e-3f);
}

static copse_tensor *a_scalar(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_sum(g, in[0], NULL, 0, false);
}

static copse_tensor *slope(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_mul(g, in[0], in[1]); /* of dy = in[1] */
}

static const double two_three[] = { 2, 3, 5, 7 }, squares[] = { 4, 9, 25, 49 },
                    wrong[] = { 4, 9, 26, 49 };
#define STATED(label, ...)                                             \
    {                                                                  \
        .op = "stated", .name = label, .build = square, .in_count = 1, \
        .in = { { .type = COPSE_F32,                                   \
                  .shape = SHAPE(4),                                   \
                  .fill = COPSE_FILL_VALUES,                           \
                  .values = two_three,                                 \
                  .value_count = 4 } },                                \
        __VA_ARGS__                                                    \
    }
static const struct copse_case stated_cases[] = {
    STATED("right", .want = squares, .has_no_gradient = true),
    STATED("wrong", .want = wrong, .has_no_gradient = true),
    STATED("wrong, within", .want = wrong, .forward = { .of_max = 0.1 }, .has_no_gradient = true),
    STATED("magnitude", .forward = { .ratio = 4 }, .backward = { .ratio = 4 }, .magnitude = square,
           .slope_magnitude = { slope }, .skips_differences = true),
    STATED("small magnitude", .forward = { .ratio = 4 }, .magnitude = a_thousandth,
           .has_no_gradient = true),
    STATED("other shape", .forward = { .ratio = 4 }, .magnitude = a_scalar,
           .has_no_gradient = true),
    STATED("no slope", .backward = { .ratio = 4 }, .magnitude = square, .skips_differences = true),
};
static const struct copse_case_table stated = { .family = "stated",
                                                .is_sampled = true,
                                                .cases = stated_cases,
                                                .count = COPSE_COUNT(stated_cases) };
static const struct copse_case_table *const stated_tables[] = { &stated, NULL };

static void stated_results_and_magnitudes_count(void **state)
{
    (void)state;
    const struct copse_conformance_params both = { .modes =
                                                       COPSE_CONFORM_RUN | COPSE_CONFORM_GRAD };
    OK(run(both, stated_tables, no_known));
    expect("run/stated/right/", COPSE_VERDICT_PASS, "");
    expect("run/stated/wrong/", COPSE_VERDICT_FAIL,
           "element 2 of the reference's own result is 25, the case states 26");
    expect("run/stated/wrong, within/", COPSE_VERDICT_PASS, "");
    expect("run/stated/magnitude/", COPSE_VERDICT_PASS, "");
    expect("grad/stated/magnitude/", COPSE_VERDICT_PASS, "");
    expect("run/stated/other shape/", COPSE_VERDICT_FAIL,
           "the magnitude of result 0 has another shape");
    expect("grad/stated/no slope/", COPSE_VERDICT_FAIL, "no magnitude of result 1");

    copse_fake.devices[0].perturb = "unary"; /* by 1 ULP: at most 2 units of its size */
    OK(run(both, stated_tables, no_known));
    expect("run/stated/right/", COPSE_VERDICT_FAIL, "outside the tolerance");
    expect("run/stated/magnitude/", COPSE_VERDICT_PASS, "");
    assert_true(find("run/stated/magnitude/")->worst >= 1);
    expect("run/stated/small magnitude/", COPSE_VERDICT_FAIL, "outside the tolerance");
}

static void a_wrong_derivative_in_the_reference_is_found(void **state)
{
    (void)state;
    OK(run((struct copse_conformance_params){ .case_name = "bent" }, odd_tables, no_known));
    expect("run/odd/bent/", COPSE_VERDICT_PASS, "");
    expect("grad/odd/bent/", COPSE_VERDICT_FAIL, "the reference's own gradient of input 0");
}

/* ---- contracts ---- */

static void contracts_name_parameters(void **state)
{
    char text[4096];
    (void)state;
    OK(copse_kernel_contract("unary", text, sizeof text));
    assert_non_null(strstr(text, "  parameters: 3 words of 4 bytes, then group_base\n    uint n; "
                                 "float alpha; float beta;\n"));
    assert_non_null(strstr(text, "  specialisation constants: 1\n    0: OP\n  group: 256 x 1\n"));
    for (size_t i = 0; i < copse_kernel_count; i++) {
        const struct copse_kernel_row *row = &copse_kernel_table[i];
        size_t fields = 0, specs = 0;
        OK(copse_kernel_contract(row->name, text, sizeof text));
        for (const char *p = text; (p = strchr(p, ';')) != NULL; p++)
            fields++;
        for (const char *p = text; (p = strstr(p, "\n    ")) != NULL; p += 5)
            specs += p[6] == ':';
        if (row->cl_text && (fields != row->param_words || specs != row->spec_count))
            fail_msg("%s: %zu parameters and %zu constants are named, not %u and %u", row->name,
                     fields, specs, row->param_words, row->spec_count);
    }
    assert_int_equal(copse_kernel_contract("unary", text, 60), COPSE_ERR_ARGUMENT);
}

/* ---- host memory ---- */

static struct {
    unsigned long long calls, at; /* call number `at` fails, and all behind it when persistent */
    bool is_persistent;
    size_t live;
} memory;

static void *resize(void *user, void *block, size_t size)
{
    (void)user;
    if (size == 0) {
        memory.live -= block != NULL;
        free(block);
        return NULL;
    }
    memory.calls++;
    if (memory.at &&
        (memory.calls == memory.at || (memory.is_persistent && memory.calls > memory.at)))
        return NULL;
    memory.live += block == NULL;
    return realloc(block, size);
}

static void host_memory_may_end_anywhere(void **state)
{
    (void)state;
    const struct copse_context_params how = { .resize = resize };
    const struct copse_conformance_params p = { .ops = "square,matmul", .modes = ALL };
    copse_context_release(&ctx);
    for (int k = 0; k < 2; k++) {
        memset(&memory, 0, sizeof memory);
        OK(copse__context_create_with(&how, fake_backends, &ctx));
        unsigned long long at = memory.calls + 1;
        for (;; at += 1 + at / 50) { /* every site of the first cases, some of the others */
            copse_context_release(&ctx);
            memory.at = 0;
            OK(copse__context_create_with(&how, fake_backends, &ctx));
            memory.is_persistent = k;
            const unsigned long long before = memory.calls;
            memory.at = before + at;
            const copse_status s = run(p, good_tables, no_known);
            assert_true(s == COPSE_OK || s == COPSE_ERR_NO_MEMORY);
            if (memory.calls < memory.at)
                break;
            assert_true(s == COPSE_ERR_NO_MEMORY || summary.counts[COPSE_VERDICT_OOM] > 0 ||
                        summary.counts[COPSE_VERDICT_PASS] == lines.count);
            assert_int_equal(summary.counts[COPSE_VERDICT_FAIL], 0);
        }
        assert_true(at > 100);
        memory.at = 0;
        copse_context_release(&ctx);
        assert_int_equal(memory.live, 0);
    }
    OK(copse__context_create_with(NULL, fake_backends, &ctx));
}

/* ---- verdicts ---- */

static void each_end_has_its_verdict(void **state)
{
    (void)state;
    const struct copse_conformance_params only_run = { .modes = COPSE_CONFORM_RUN };
    OK(run(only_run, odd_tables, no_known));
    expect("run/odd/declared/", COPSE_VERDICT_UNSUPPORTED, "not on any device");
    expect("run/odd/poor/", COPSE_VERDICT_MISTRUSTED, "proves little");
    expect("run/odd/not poor/", COPSE_VERDICT_PASS, "");
    assert_int_equal(summary.counts[COPSE_VERDICT_PASS], 2);

    bent_is_refused = true;
    OK(run(only_run, odd_tables, no_known));
    expect("run/odd/bent/", COPSE_VERDICT_FAIL, "though the device claims it");
    bent_is_refused = false;

    fake_fail(0, FAKE_WAIT, 1, COPSE_ERR_TIMEOUT, false);
    OK(run(only_run, good_tables, no_known));
    expect("run/neg/numbers/", COPSE_VERDICT_TIMEOUT, "");
    expect("run/square/numbers/", COPSE_VERDICT_PASS, "");

    fake_fail(0, FAKE_BUFFER_INIT, 1, COPSE_ERR_NO_DEVICE_MEMORY, true);
    OK(run(only_run, good_tables, no_known));
    expect("run/square/numbers/", COPSE_VERDICT_OOM, "");
    assert_string_equal(copse_verdict_name(COPSE_VERDICT_MISTRUSTED), "MISTRUSTED");
}

static void a_lost_device_is_opened_again(void **state)
{
    (void)state;
    const struct copse_conformance_params p = { .modes = COPSE_CONFORM_RUN };
    fake_fail(0, FAKE_REPLAY, 2, COPSE_ERR_DEVICE_LOST, false);
    OK(run(p, good_tables, no_known));
    expect("run/neg/numbers/", COPSE_VERDICT_PASS, "");
    assert_int_equal(summary.counts[COPSE_VERDICT_DEVICE_LOST], 1);
    expect("run/matmul/whole numbers/", COPSE_VERDICT_PASS, "");
    assert_int_equal(fake_calls(0, FAKE_OPEN), 2);
    assert_int_equal(fake_calls(0, FAKE_CLOSE), 2);

    fake_fail(0, FAKE_REPLAY, 2, COPSE_ERR_DEVICE_LOST, false);
    fake_fail(0, FAKE_OPEN, 2, COPSE_ERR_NO_DEVICE, true);
    OK(run(p, good_tables, no_known));
    expect("run/matmul/whole numbers/", COPSE_VERDICT_SKIP, "cannot be opened");
}

static void known_failures_are_told_apart(void **state)
{
    (void)state;
    static const struct copse_known fits[] = {
        { "square", "num*", "*fake*", "", "", "squares are hard", NULL },
        { "neg", "numbers", "fake device 0", "", "", "was wrong once", "run" },
        { .op = NULL },
    };
    const struct copse_conformance_params p = { .modes = COPSE_CONFORM_RUN };
    copse_fake.devices[0].perturb = "unary";
    OK(run(p, good_tables, fits));
    expect("run/square/numbers/", COPSE_VERDICT_XFAIL, "squares are hard");
    copse_fake.devices[0].perturb = NULL;
    OK(run(p, good_tables, fits));
    expect("run/square/numbers/", COPSE_VERDICT_XPASS, "passes now");
    expect("run/neg/numbers/", COPSE_VERDICT_XPASS, "was wrong once");
    expect("run/neg/special/", COPSE_VERDICT_PASS, "");
}

/* ---- real devices ---- */

static void the_devices_found_pass(void **state)
{
    (void)state;
    const struct copse_device_info *list;
    size_t count;
    char hash[20] = "";
    copse_context_release(&ctx);
    OK(copse_context_create(NULL, &ctx));
    copse_context_devices(ctx, &list, &count);
    for (size_t d = 0; d < count; d++) {
        if (!list[d].is_usable)
            continue;
        print_message("device %s: %s\n", list[d].id, list[d].name);
        OK(run((struct copse_conformance_params){ .device = list[d].id, .modes = ALL }, good_tables,
               no_known));
        for (size_t i = 0; i < lines.count; i++)
            if (lines.at[i].verdict != COPSE_VERDICT_PASS)
                fail_msg("%s on %s: %s %s, %g of %g %s", lines.at[i].id, list[d].id,
                         copse_verdict_name(lines.at[i].verdict), lines.at[i].text,
                         lines.at[i].worst, lines.at[i].limit, lines.at[i].metric);
        /* What is exact has the same bits everywhere. */
        if (*hash)
            assert_string_equal(hash, find("bitwise/matmul/whole numbers/")->hash);
        snprintf(hash, sizeof hash, "%s", find("bitwise/matmul/whole numbers/")->hash);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(right_results_pass),
        TEST(a_wrong_result_fails_with_its_place_and_the_kernel_is_blocked),
        TEST(a_kernel_is_used_again_when_what_it_failed_passes),
        TEST(a_case_that_fails_beside_those_that_pass_keeps_the_block),
        TEST(what_an_application_blocks_stays_blocked),
        TEST(late_twice_is_blocked_and_once_is_not),
        TEST(writes_out_of_range_and_missing_ones_fail),
        TEST(subnormals_may_be_flushed_where_they_are),
        TEST(results_that_change_are_found),
        TEST(a_rare_fault_is_found),
        TEST(stated_results_and_magnitudes_count),
        TEST(a_wrong_derivative_in_the_reference_is_found),
        TEST(host_memory_may_end_anywhere),
        TEST(each_end_has_its_verdict),
        TEST(a_lost_device_is_opened_again),
        TEST(known_failures_are_told_apart),
        TEST(contracts_name_parameters),
        TEST(the_devices_found_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
