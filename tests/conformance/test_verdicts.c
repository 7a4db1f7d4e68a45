/* SPDX-License-Identifier: MIT */
/* Verdicts of conformance on kernels: a wrong kernel is blocked by name, whichever op uses it, and
   its neighbours are not; it is used again after three clean runs; a device whose faults come and
   go is refused. */
#include "core/trust/block_entries.h"
#include "tests/rig/conformance/conform_rig.h"
#include "tests/rig/train/train_model.h"

#define WRONG (1u << 22) /* bits of each result of a wrong kernel that are changed */

static void judge(const char *ops, const char *case_name, unsigned modes)
{
    struct copse_conformance_summary out;
    const struct copse_conformance_params p = {
        .device = "fake:0", .ops = ops, .case_name = case_name, .modes = modes
    };
    OK(copse_conformance_run(ctx, &p, &out));
}

/* "softmax" or "adam, sgd": the blocked kernels of fake:0. */
static const char *blocked(void)
{
    static char text[2048];
    const struct copse_blocked_kernel *list;
    size_t count, at = 0;
    OK(copse_device_blocked(ctx, "fake:0", &list, &count));
    *text = '\0';
    for (size_t i = 0; i < count && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? ", " : "", list[i].kernel);
    return text;
}

static void make_wrong(const char *kernel)
{
    copse_fake.devices[0].perturb = kernel;
    copse_fake.devices[0].perturb_bits = WRONG;
}

/* ---- one kernel ---- */

static void a_wrong_kernel_is_blocked_and_its_neighbours_are_not(void **state)
{
    static const struct {
        const char *kernel, *ops;
        unsigned modes;
    } table[] = {
        { "softmax", "softmax", COPSE_CONFORM_RUN },
        { "row_stats", "softmax", COPSE_CONFORM_RUN },
        { "cross_entropy", "sparse_cross_entropy", COPSE_CONFORM_RUN },
        { "cross_entropy_grad", "sparse_cross_entropy", COPSE_CONFORM_GRAD },
        { "unary_grad", "tanh", COPSE_CONFORM_GRAD },
        { "dropout", "dropout", COPSE_CONFORM_RUN },
        { "gather_grad", "gather", COPSE_CONFORM_GRAD },
        { "adam", "adam", COPSE_CONFORM_OPT },
        { "momentum", "nesterov", COPSE_CONFORM_OPT },
        { "sgd", "sgd", COPSE_CONFORM_OPT },
        { "tree_sum", "sharded", COPSE_CONFORM_REDUCE },
    };
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(table); i++) {
        make_wrong(table[i].kernel);
        judge(table[i].ops, NULL, table[i].modes);
        if (strcmp(blocked(), table[i].kernel) != 0)
            fail_msg("%s is wrong, and blocked is: %s", table[i].kernel, blocked());
        copse_fake.devices[0].perturb = NULL;
        for (int k = 0; k < 3; k++) {
            assert_string_equal(blocked(), table[i].kernel);
            judge(table[i].ops, NULL, table[i].modes);
        }
        assert_string_equal(blocked(), "");
    }
}

/* Training does not use the blocked kernel: it is refused and names the kernel, and does not end
   with NaN. */
static void training_is_refused_with_the_reason(void **state)
{
    const struct run r = { .devices = { "fake:0" }, .device_count = 1, .steps = 3 };
    const struct copse_blocked_kernel *list;
    size_t count;
    (void)state;
    make_wrong("cross_entropy_grad");
    judge("sparse_cross_entropy", NULL, COPSE_CONFORM_GRAD);
    OK(copse_device_blocked(ctx, "fake:0", &list, &count));
    assert_int_equal(count, 1);
    assert_false(list[0].is_lasting);
    assert_null(run_model(ctx, &r, &count));
    assert_non_null(
        strstr(copse_last_error(),
               "kernel: cross_entropy_grad is blocked on fake:0: grad/sparse_cross_entropy/"));
    assert_non_null(strstr(copse_last_error(), " [quick, 2"));
    OK(copse_context_allow(ctx, COPSE_ALLOW_HOST));
    float *with = run_model(ctx, &r, &count);
    copse_fake.devices[0].perturb = NULL;
    OK(copse_device_unblock(ctx, "fake:0", NULL));
    float *without = run_model(ctx, &r, &count);
    assert_memory_equal(with, without, count * sizeof *with);
    free(with);
    free(without);
}

/* A kernel under whose name nothing is wrong but which fails together with others: all that have
   not passed a case of their own are blocked. */
static void a_failure_without_a_culprit_blocks_what_is_unproven(void **state)
{
    (void)state;
    make_wrong("row_stats");
    /* too little for the self-test of row_stats, too much for the case */
    copse_fake.devices[0].perturb_bits = 1u << 14;
    judge("softmax", NULL, COPSE_CONFORM_RUN);
    assert_non_null(strstr(blocked(), "row_stats"));
}

/* ---- every kernel of the table ---- */

struct seen {
    const char *op, *name;
    unsigned mode;
};
static struct seen seen[COPSE_KERNEL_COUNT], running;

static bool note_case(void *user, const char *mode, const char *op, const char *name,
                      const char *variant)
{
    static char op_text[64], name_text[192];
    (void)user, (void)variant;
    snprintf(op_text, sizeof op_text, "%s", op);
    snprintf(name_text, sizeof name_text, "%s", name);
    running = (struct seen){ op_text, name_text, 0 };
    for (const struct copse_conform_mode *m = copse_conform_modes; m->name; m++)
        if (strcmp(m->name, mode) == 0)
            running.mode = m->bit;
    return true;
}

static void note_use(void *user, const char *kernel)
{
    (void)user;
    for (unsigned id = 0; id < copse_kernel_count; id++)
        if (strcmp(copse_kernel_table[id].name, kernel) == 0 && !seen[id].op)
            seen[id] = (struct seen){ strdup(running.op), strdup(running.name), running.mode };
}

static void note_uses(const char *ops, unsigned modes)
{
    const struct copse_conformance_params p = {
        .device = "fake:0", .ops = ops, .begin = note_case, .uses = note_use, .modes = modes
    };
    struct copse_conformance_summary out;
    OK(copse_conformance_run(ctx, &p, &out));
    assert_int_equal(out.counts[COPSE_VERDICT_FAIL], 0);
}

/* Each kernel that some case of `quick` uses, made wrong, is blocked by that case. */
static void every_kernel_is_blocked_by_its_case(void **state)
{
    unsigned count = 0, alone = 0;
    (void)state;
    note_uses(NULL,
              COPSE_CONFORM_RUN | COPSE_CONFORM_GRAD | COPSE_CONFORM_OPT | COPSE_CONFORM_REDUCE);
    for (unsigned id = 0; id < copse_kernel_count; id++) {
        const char *kernel = copse_kernel_table[id].name;
        bool writes_floats = false;
        if (!seen[id].op && (!copse_kernel_table[id].is_variant || rig_takes(id, 4)))
            note_uses(kernel, COPSE_CONFORM_LAUNCH);
        for (uint32_t a = 0; a < copse_kernel_table[id].arg_count; a++)
            writes_floats |= copse_kernel_table[id].args[a].is_written &&
                             copse_kernel_table[id].args[a].kind == COPSE_ARG_F32;
        if (!seen[id].op && !copse_kernel_table[id].is_variant)
            fail_msg("no case of quick uses %s", kernel);
        if (!seen[id].op || !rig_takes(id, 4))
            continue;
        if (writes_floats)
            make_wrong(kernel);
        else
            copse_fake.devices[0].dropped = kernel;
        judge(seen[id].op, seen[id].name, seen[id].mode);
        copse_fake.devices[0].perturb = copse_fake.devices[0].dropped = NULL;
        if (!strstr(blocked(), kernel))
            fail_msg("%s is wrong in %s: %s, and blocked is: %s", kernel, seen[id].op,
                     seen[id].name, blocked());
        alone += strcmp(blocked(), kernel) == 0;
        count++;
        OK(copse_device_unblock(ctx, "fake:0", NULL));
    }
    for (unsigned id = 0; id < copse_kernel_count; id++) {
        free((void *)seen[id].op);
        free((void *)seen[id].name);
    }
    print_message("%u kernels wrong in turn; %u blocked without a neighbour\n", count, alone);
    assert_true(count >= (rig_takes(1, 2) ? 44 : 11) && alone == count);
}

/* ---- faults that come and go ---- */

static struct copse_device_state now(void)
{
    struct copse_device_state s;
    OK(copse_device_state(ctx, "fake:0", &s));
    return s;
}

static void every_second_launch_makes_the_device_unreliable(void **state)
{
    const char *const ids[] = { "fake:0" };
    copse_strategy *st = NULL;
    char found[4][32];
    size_t count;
    (void)state;
    assert_false(now().is_unreliable);
    make_wrong("unary");
    copse_fake.devices[0].perturb_period = 2;
    judge("tanh,exp,relu,neg", NULL, COPSE_CONFORM_RUN);
    assert_true(now().is_unreliable);
    assert_true(now().flips >= 3);
    assert_non_null(strstr(now().reason, "it passes when it is repeated"));
    assert_string_equal(blocked(), "unary");

    assert_int_equal(copse_one_device_create(ctx, ids[0], NULL, &st), COPSE_ERR_UNSUPPORTED);
    assert_non_null(strstr(copse_last_error(), "device: fake:0 is unreliable: "));
    assert_non_null(strstr(copse_last_error(), "--trust-device"));
    OK(copse_select_devices(ctx, "auto", found, 4, &count));
    assert_string_equal(found[0], "host:0");
    OK(copse_context_allow(ctx, COPSE_ALLOW_UNRELIABLE));
    OK(copse_one_device_create(ctx, ids[0], NULL, &st));
    copse_strategy_release(&st);
    OK(copse_select_devices(ctx, "auto", found, 4, &count));
    assert_string_equal(found[0], "fake:0");
    OK(copse_context_allow(ctx, 0));

    /* Clean runs unblock the kernel, but so many faults are not forgotten. */
    copse_fake.devices[0].perturb = NULL;
    for (int i = 0; i < 3; i++)
        judge("tanh,exp,relu,neg", NULL, COPSE_CONFORM_RUN);
    assert_string_equal(blocked(), "");
    assert_true(now().is_unreliable);
    OK(copse_device_unblock(ctx, "fake:0", NULL));
    assert_false(now().is_unreliable);
    OK(copse_one_device_create(ctx, ids[0], NULL, &st));
    copse_strategy_release(&st);
}

/* Wrong in one run, right in the next: unreliable until three runs in a row are right. */
static void a_fault_that_goes_away_is_waited_for(void **state)
{
    (void)state;
    make_wrong("unary");
    judge("tanh", "usual range", COPSE_CONFORM_RUN);
    assert_false(now().is_unreliable); /* steady: the kernel is blocked */
    assert_string_equal(blocked(), "unary");
    copse_fake.devices[0].perturb = NULL;
    judge("tanh", "usual range", COPSE_CONFORM_RUN);
    assert_true(now().is_unreliable);
    assert_non_null(strstr(now().reason, "1 case failed and passed since, in 1 of 3 runs"));
    judge("tanh", "usual range", COPSE_CONFORM_RUN);
    assert_true(now().is_unreliable);
    judge("tanh", "usual range", COPSE_CONFORM_RUN);
    assert_false(now().is_unreliable);
    assert_string_equal(blocked(), "");
    assert_int_equal(now().flips, 0);

    /* It comes back after it has passed: that is counted. */
    for (int i = 0; i < 3; i++) {
        make_wrong("unary");
        judge("tanh", "usual range", COPSE_CONFORM_RUN);
        copse_fake.devices[0].perturb = NULL;
        judge("tanh", "usual range", COPSE_CONFORM_RUN);
    }
    assert_int_equal(now().flips, 2);
    assert_true(now().is_unreliable);
}

/* ---- self-tests ---- */

static void a_self_test_block_heals_by_passing_runs(void **state)
{
    const struct copse_blocked_kernel *list;
    struct copse_kernel *k;
    copse_device *dev;
    size_t count;
    (void)state;
    OK(copse_device_open(ctx, "fake:0", NULL, &dev));
    make_wrong("softmax");
    assert_int_equal(copse__kernel_get(dev, COPSE_KERNEL_softmax, NULL, &k), COPSE_ERR_UNSUPPORTED);
    copse_fake.devices[0].perturb = NULL;
    for (uint32_t i = 0; i < 3; i++) {
        OK(copse_device_blocked(ctx, "fake:0", &list, &count));
        assert_int_equal(count, 1);
        assert_true(list[0].by_self_test && !list[0].is_lasting && list[0].passes == i);
        judge("relu", NULL, COPSE_CONFORM_RUN); /* says nothing about it */
        judge("softmax", NULL, COPSE_CONFORM_RUN);
    }
    assert_string_equal(blocked(), "");
    OK(copse__kernel_get(dev, COPSE_KERNEL_softmax, NULL, &k));
    copse_device_release(&dev);
}

/* ---- healing ---- */

static uint64_t heal(copse_conformance_tier tier)
{
    struct copse_conformance_summary out;
    uint64_t cases = 0;
    const struct copse_conformance_params p = {
        .device = "fake:0",
        .tier = tier,
        .modes = COPSE_CONFORM_RUN | COPSE_CONFORM_GRAD | COPSE_CONFORM_OPT | COPSE_CONFORM_LAUNCH |
                 COPSE_CONFORM_FAILED,
    };
    OK(copse_conformance_run(ctx, &p, &out));
    for (size_t v = 0; v < COPSE_VERDICT_COUNT; v++)
        cases += out.counts[v];
    assert_int_equal(cases, out.counts[COPSE_VERDICT_PASS] + out.counts[COPSE_VERDICT_FAIL]);
    return cases;
}

static void only_what_failed_is_run_to_heal(void **state)
{
    struct copse_conformance_summary out;
    const struct copse_conformance_params standard = { .device = "fake:0",
                                                       .ops = "tanh",
                                                       .tier = COPSE_CONFORM_STANDARD,
                                                       .case_name = "near zero",
                                                       .modes = COPSE_CONFORM_RUN };
    (void)state;
    assert_int_equal(heal(COPSE_CONFORM_FULL), 0);
    make_wrong("unary");
    OK(copse_conformance_run(ctx, &standard, &out));
    make_wrong("adam");
    judge("adam", "defaults, 1 step", COPSE_CONFORM_OPT);
    assert_non_null(strstr(blocked(), "unary"));
    assert_non_null(strstr(blocked(), "adam"));
    assert_int_equal(heal(COPSE_CONFORM_QUICK), 1); /* unary failed in a higher tier */
    copse_fake.devices[0].perturb = NULL;
    for (int i = 0; i < 3; i++) {
        assert_non_null(strstr(blocked(), "unary"));
        assert_int_equal(heal(COPSE_CONFORM_FULL), 2);
    }
    assert_string_equal(blocked(), "");
    assert_string_equal(now().modes, ""); /* no mode was run as a whole */
}

static void a_failed_self_test_heals_by_launches_of_the_kernel(void **state)
{
    struct copse_kernel *k;
    copse_device *dev;
    (void)state;
    OK(copse_device_open(ctx, "fake:0", NULL, &dev));
    make_wrong("softmax");
    assert_int_equal(copse__kernel_get(dev, COPSE_KERNEL_softmax, NULL, &k), COPSE_ERR_UNSUPPORTED);
    assert_true(heal(COPSE_CONFORM_QUICK) > 3);
    assert_string_equal(blocked(), "softmax");
    copse_fake.devices[0].perturb = NULL;
    for (int i = 0; i < 3; i++) {
        assert_string_equal(blocked(), "softmax");
        assert_true(heal(COPSE_CONFORM_QUICK) > 3);
    }
    assert_string_equal(blocked(), "");
    copse_device_release(&dev);
}

/* ---- what was tested ---- */

static void the_modes_that_were_run_are_kept(void **state)
{
    (void)state;
    assert_string_equal(now().modes, "");
    judge("relu", "near zero", COPSE_CONFORM_RUN);
    assert_string_equal(now().modes, ""); /* one case only */
    judge("adam", NULL, COPSE_CONFORM_OPT);
    assert_memory_equal(now().modes, "opt of adam (quick, 2", 21);
    judge("relu", NULL, COPSE_CONFORM_RUN);
    judge("relu,softmax", NULL, COPSE_CONFORM_RUN);
    assert_non_null(strstr(now().modes, "); run of relu (quick, 2"));
    assert_non_null(strstr(now().modes, "); run of relu,softmax (quick, 2"));
    judge(NULL, NULL, COPSE_CONFORM_OPT); /* has adam, too */
    assert_null(strstr(now().modes, "adam"));
    judge("adam", NULL, COPSE_CONFORM_OPT);
    assert_null(strstr(now().modes, "adam"));
    assert_non_null(strstr(now().modes, "; opt (quick, 2"));
    judge(NULL, NULL, COPSE_CONFORM_REDUCE | COPSE_CONFORM_OPT);
    assert_non_null(strstr(now().modes, "; opt reduce (quick, 2"));
}

/* Runs of single ops give way: to each other, and to a run of all ops. */
static void many_runs_of_some_ops_are_bounded(void **state)
{
    static const char *const ops[] = { "relu", "gelu", "tanh",    "sigmoid", "exp",  "log",
                                       "sqrt", "sum",  "softmax", "add",     "mul",  "sub",
                                       "div",  "mean", "abs",     "matmul",  "dense" };
    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        judge(ops[i], NULL, COPSE_CONFORM_RUN);
        assert_memory_equal(now().modes, "run of ", 7);
    }
    /* a run that is done again is the newest: "tanh" is the oldest, and gives way */
    judge("gelu", NULL, COPSE_CONFORM_RUN);
    judge("adam", NULL, COPSE_CONFORM_OPT);
    assert_memory_equal(now().modes, "run of sigmoid (", 16);
    judge(NULL, NULL, COPSE_CONFORM_RUN);
    assert_null(strstr(now().modes, "run of "));
    assert_memory_equal(now().modes, "opt of adam (quick, 2", 21);
}

/* What the time did not allow may be the ops of the other run. */
static void a_run_in_part_does_not_replace_a_run_of_some_ops(void **state)
{
    const struct copse_run_mode some = { .name = "run", .ops = "relu", .is_whole = true },
                                part = { .name = "run" },
                                whole = { .name = "run", .is_whole = true };
    struct copse_block_list list = { .mode_count = 0 };
    (void)state;
    copse__mode_add(&list, &some);
    copse__mode_add(&list, &part);
    assert_int_equal(list.mode_count, 2);
    copse__mode_add(&list, &some);
    assert_int_equal(list.mode_count, 2);
    assert_string_equal(list.modes[1].ops, "relu"); /* the newest is the last */
    copse__mode_add(&list, &whole);
    assert_int_equal(list.mode_count, 1);
    copse__mode_add(&list, &some);
    assert_int_equal(list.mode_count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_run_in_part_does_not_replace_a_run_of_some_ops),
        TEST(a_wrong_kernel_is_blocked_and_its_neighbours_are_not),
        TEST(training_is_refused_with_the_reason),
        TEST(a_failure_without_a_culprit_blocks_what_is_unproven),
        TEST(every_kernel_is_blocked_by_its_case),
        TEST(every_second_launch_makes_the_device_unreliable),
        TEST(a_fault_that_goes_away_is_waited_for),
        TEST(a_self_test_block_heals_by_passing_runs),
        TEST(only_what_failed_is_run_to_heal),
        TEST(a_failed_self_test_heals_by_launches_of_the_kernel),
        TEST(the_modes_that_were_run_are_kept),
        TEST(many_runs_of_some_ops_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
