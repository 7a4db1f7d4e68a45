/* SPDX-License-Identifier: MIT */
/* The modes of conformance that are not tables of graphs: they pass on every device found, and each
   of them fails on a device that does what the mode is there to find. */
#include "tests/rig/rig.h"

#include "prover/conformance/args/args.h"
#include "tests/rig/fake/fake_backend.h"

/* ---- what a run came to ---- */

struct seen {
    unsigned counts[COPSE_VERDICT_COUNT];
    unsigned wrong;              /* neither PASS nor SKIP nor UNSUPPORTED */
    char first[1024], text[512]; /* of these: the case and its text */
    const char *only;            /* count these cases only: part of "mode/op/name/variant/" */
    bool is_quiet;
};

static void take(void *user, const struct copse_case_result *c)
{
    struct seen *s = user;
    char name[512];
    snprintf(name, sizeof name, "%s/%s/%s/%s/", c->mode, c->op, c->name, c->variant);
    assert_non_null(c->text);
    assert_true(c->seconds >= 0.0 && strlen(c->text) < 512);
    if (s->only && !strstr(name, s->only))
        return;
    s->counts[c->verdict]++;
    if (c->verdict == COPSE_VERDICT_PASS || c->verdict == COPSE_VERDICT_SKIP ||
        c->verdict == COPSE_VERDICT_UNSUPPORTED)
        return;
    if (!s->is_quiet)
        print_message("%s on %s: %s: %s\n", name, c->device, copse_verdict_name(c->verdict),
                      c->text);
    if (s->wrong++ == 0) {
        snprintf(s->first, sizeof s->first, "%s", name);
        snprintf(s->text, sizeof s->text, "%s", c->text);
    }
}

static void run(copse_context *ctx, const char *device, unsigned modes, const char *ops,
                struct seen *s)
{
    struct copse_conformance_summary summary;
    const struct copse_conformance_params params = {
        .device = device,
        .modes = modes,
        .ops = ops,
        .result = take,
        .user = s,
    };
    OK(copse_conformance_run(ctx, &params, &summary));
}

/* ---- on devices that work ---- */

#define EVERY                                                                              \
    (COPSE_CONFORM_OPT | COPSE_CONFORM_REDUCE | COPSE_CONFORM_TRAIN | COPSE_CONFORM_ARGS | \
     COPSE_CONFORM_STRESS | COPSE_CONFORM_API)

static const struct {
    unsigned modes;
    const char *ops;
} parts[] = {
    { COPSE_CONFORM_OPT, NULL },
    { COPSE_CONFORM_REDUCE, NULL },
    { COPSE_CONFORM_TRAIN, NULL },
    { COPSE_CONFORM_ARGS, NULL },
    { COPSE_CONFORM_STRESS, NULL },
    { COPSE_CONFORM_API, NULL },
    { COPSE_CONFORM_LIMITS, "neg,softmax,sum" },
    { COPSE_CONFORM_IMPORT, "neg,softmax,matmul,mlp" },
};

/* Without COPSE_TEST_ALL each device has a part of the modes, one of two neighbours the other part. */
static void devices_found_pass(void **unused)
{
    copse_context *ctx;
    const struct copse_device_info *list;
    size_t count;
    (void)unused;
    OK(copse_context_create(NULL, &ctx));
    copse_context_devices(ctx, &list, &count);
    for (size_t i = 0; i < count; i++) {
        struct seen s = { .wrong = 0 };
        if (!list[i].is_usable)
            continue;
        for (size_t k = 0; k < COPSE_COUNT(parts); k++)
            if (rig_takes(i + k, 2))
                run(ctx, list[i].id, parts[k].modes, parts[k].ops, &s);
        print_message("%s: %u pass, %u skipped, %u unsupported\n", list[i].id,
                      s.counts[COPSE_VERDICT_PASS], s.counts[COPSE_VERDICT_SKIP],
                      s.counts[COPSE_VERDICT_UNSUPPORTED]);
        assert_int_equal(s.wrong, 0);
        assert_true(s.counts[COPSE_VERDICT_PASS] > (rig_takes(1, 2) ? 150 : 30));
    }
    copse_context_release(&ctx);
}

static void take_speed(void *user, const struct copse_case_result *c)
{
    unsigned *measured = user;
    if (c->verdict == COPSE_VERDICT_UNSUPPORTED)
        return;
    assert_int_equal(c->verdict, COPSE_VERDICT_PASS);
    assert_true(c->gflops > 0.0 || c->gbytes > 0.0);
    assert_true(strcmp(c->op, "matmul") == 0 || strcmp(c->op, "copy") == 0 ||
                strstr(c->text, "% of a copy"));
    ++*measured;
}

static void speeds_are_measured(void **unused)
{
    copse_context *ctx;
    struct copse_conformance_summary summary;
    unsigned measured = 0;
    (void)unused;
    const struct copse_conformance_params params = {
        .modes = COPSE_CONFORM_PERF,
        .ops = "adam,neg,matmul",
        .result = take_speed,
        .user = &measured,
    };
    OK(copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" }, &ctx));
    OK(copse_conformance_run(ctx, &params, &summary));
    assert_true(measured >= 3);
    copse_context_release(&ctx);
}

/* ---- on devices that do not ---- */

static void perturb_adam(struct fake_device *d)
{
    d->perturb = "adam";
}

static void stray_sgd(struct fake_device *d)
{
    d->stray = "sgd";
    d->stray_at = -4;
}

static void perturb_sum(struct fake_device *d)
{
    d->perturb = "tree_sum";
}

static void perturb_pair(struct fake_device *d)
{
    d->perturb = "accumulate";
}

static void late_messages(struct fake_device *d)
{
    d->late_bytes = 4096;
}

static void perturb_matmul(struct fake_device *d)
{
    d->perturb = "matmul";
    d->perturb_bits = 1u << 15;
}

static void perturb_unary(struct fake_device *d)
{
    d->perturb = "unary";
}

static void wrong_sum(struct fake_device *d)
{
    d->perturb = "tree_sum";
    d->perturb_bits = 1u << 15;
}

static void cannot_import(struct copse_device_info *info)
{
    info->limits.host_import_alignment = 0;
}

static void late_replicas(struct fake_device *d)
{
    d->describe = cannot_import;
    d->late_bytes = 1u << 20;
}

static void stray_unary(struct fake_device *d)
{
    d->stray = "unary";
    d->stray_at = -4;
}

static void perturb_reduce(struct fake_device *d)
{
    d->perturb = "reduce";
}

static void perturb_sgd(struct fake_device *d)
{
    d->perturb = "sgd";
}

static void drop_accumulate(struct fake_device *d)
{
    d->dropped = "accumulate";
}

static void wrong_error(struct fake_device *d)
{
    d->faults[FAKE_BUFFER_INIT].at = 1;
    d->faults[FAKE_BUFFER_INIT].status = COPSE_ERR_IO;
    d->faults[FAKE_BUFFER_INIT].is_persistent = true;
}

static void drop_folded(struct fake_device *d)
{
    d->drops_folded = true;
}

static void perturb_lent(struct fake_device *d)
{
    d[FAKE_LENT].perturb = "matmul";
}

static void perturb_lent_adam(struct fake_device *d)
{
    d[FAKE_LENT].perturb = "adam";
}

static void forget_lock(struct fake_device *d)
{
    d[FAKE_LENT].forgets_lock = true;
}

static void take_lock_twice(struct fake_device *d)
{
    d[FAKE_LENT].takes_lock_twice = true;
}

static void give_lock_twice(struct fake_device *d)
{
    d[FAKE_LENT].gives_lock_twice = true;
}

static void lose_words(struct fake_device *d)
{
    d->late_bytes = 4096; /* of the application's own device, and of the library's */
}

static void change_nothing(struct fake_device *d)
{
    (void)d;
}

static const struct {
    unsigned mode;
    const char *ops;
    void (*break_it)(struct fake_device *d);
    const char *only; /* cases that fail, all of them */
    const char *text; /* of the first one */
} broken[] = {
    { COPSE_CONFORM_OPT, "adam", perturb_adam, "1 step", "expected" },
    { COPSE_CONFORM_OPT, "adam", perturb_adam, "10 steps", "expected" },
    { COPSE_CONFORM_OPT, "sgd", stray_sgd, NULL, "out of range" },
    { COPSE_CONFORM_REDUCE, "sharded", perturb_sum, NULL, "the tree gives" },
    { COPSE_CONFORM_REDUCE, "tree", perturb_pair, NULL, "the tree gives" },
    { COPSE_CONFORM_REDUCE, "sharded,tree,to_one", late_messages, "staged", "the tree gives" },
    { COPSE_CONFORM_TRAIN, "mlp", perturb_matmul, "100 steps", "in double precision" },
    { COPSE_CONFORM_TRAIN, "audit", perturb_matmul, NULL, "cross-check" },
    { COPSE_CONFORM_TRAIN, "mlp", wrong_sum, " replicas", "from one replica's" },
    { COPSE_CONFORM_TRAIN, "mlp", late_replicas, " replicas", "the bits of replica 0" },
    { COPSE_CONFORM_ARGS, "function", perturb_unary, NULL, "after refused calls" },
    { COPSE_CONFORM_STRESS, "elementwise", perturb_unary, NULL, "has the bits" },
    { COPSE_CONFORM_STRESS, "elementwise", stray_unary, NULL, "out of range" },
    { COPSE_CONFORM_STRESS, "elementwise", drop_folded, NULL, NULL },
    { COPSE_CONFORM_STRESS, "sum", perturb_reduce, NULL, "" },
    { COPSE_CONFORM_STRESS, "matmul", perturb_matmul, "k of 70,001//", "outside the tolerance" },
    { COPSE_CONFORM_STRESS, "store", perturb_sgd, "2 MiB", "variable 0" },
    { COPSE_CONFORM_STRESS, "memory", wrong_error, NULL, "fake: fault" },
    { COPSE_CONFORM_STRESS, "memory", perturb_unary, NULL, "has the bits" },
    { COPSE_CONFORM_STRESS, "queue", drop_accumulate, NULL, "submissions" },
    { COPSE_CONFORM_LIMITS, "neg", drop_folded, "as few groups: usual", "" },
    { COPSE_CONFORM_LIMITS, "neg", drop_folded, "as NVIDIA", NULL },
    { COPSE_CONFORM_RUN, "neg", drop_folded, NULL, NULL },
    { COPSE_CONFORM_IMPORT, "neg,mlp", change_nothing, NULL, NULL },
    { COPSE_CONFORM_IMPORT, "matmul", perturb_lent, "a layer of 10, nn//", "on the lent device" },
    { COPSE_CONFORM_IMPORT, "mlp", perturb_lent_adam, "1 replica", "other bits" },
    { COPSE_CONFORM_IMPORT, "neg,mlp", forget_lock, NULL, "without the application's lock" },
    { COPSE_CONFORM_IMPORT, "neg,mlp", take_lock_twice, NULL, "by a thread that had it" },
    { COPSE_CONFORM_IMPORT, "neg,mlp", give_lock_twice, NULL, "by one that had it not" },
    { COPSE_CONFORM_IMPORT, "mlp", lose_words, "lent", "own work fails" },
};

/* No text: all of them pass. */
static void broken_devices_fail(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < COPSE_COUNT(broken); i++) {
        copse_context *ctx;
        struct seen s = { .only = broken[i].only, .is_quiet = true };
        fake_reset();
        broken[i].break_it(&copse_fake.devices[0]);
        OK(copse__context_create_with(NULL, fake_backends, &ctx));
        run(ctx, "fake:0", broken[i].mode, broken[i].ops, &s);
        copse_context_release(&ctx);
        if (!broken[i].text && (s.wrong || s.counts[COPSE_VERDICT_PASS] == 0))
            fail_msg("row %zu: %s: %s", i, s.first, s.text);
        if (broken[i].text && (s.counts[COPSE_VERDICT_FAIL] == 0 ||
                               s.counts[COPSE_VERDICT_PASS] > 0 || !strstr(s.text, broken[i].text)))
            fail_msg("row %zu: %u fail, %u pass, %u skipped; first %s: '%s', not '%s'", i,
                     s.counts[COPSE_VERDICT_FAIL], s.counts[COPSE_VERDICT_PASS],
                     s.counts[COPSE_VERDICT_SKIP], s.first, s.text, broken[i].text);
    }
    fake_reset();
}

static void wrong_codes_are_told(void **unused)
{
    struct copse_conform_outcome out = { .text = "" };
    int place = 0;
    const int *at = NULL;
    (void)unused;
    REFUSED_PLAIN(&out, COPSE_ERR_SHAPE, COPSE_ERR_SHAPE);
    REFUSED(&out, COPSE_ERR_SHAPE, at, COPSE_ERR_SHAPE);
    assert_int_equal(out.result.verdict, COPSE_VERDICT_PASS);
    REFUSED(&out, COPSE_ERR_SHAPE, at, (at = &place, COPSE_ERR_SHAPE));
    assert_int_equal(out.result.verdict, COPSE_VERDICT_FAIL);
    assert_non_null(strstr(out.text, "left a result"));
    out = (struct copse_conform_outcome){ .text = "" };
    REFUSED_PLAIN(&out, COPSE_ERR_SHAPE, COPSE_OK);
    assert_int_equal(out.result.verdict, COPSE_VERDICT_FAIL);
    assert_non_null(strstr(out.text, "expected ERR_SHAPE"));
}

/* ---- names, limits ---- */

struct names {
    char (*at)[256];
    size_t count;
};

static void take_name(void *user, const struct copse_case_result *c)
{
    struct names *n = user;
    assert_true(n->count < 20000);
    const int length = snprintf(n->at[n->count++], sizeof n->at[0], "%s/%s/%s/%s", c->mode, c->op,
                                c->name, c->variant);
    assert_in_range(length, 5, sizeof n->at[0] - 1);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void names_are_unique(void **unused)
{
    copse_context *ctx;
    struct names n = { malloc(20000 * sizeof n.at[0]), 0 };
    (void)unused;
    assert_non_null(n.at);
    OK(copse_context_create(NULL, &ctx));
    const struct copse_conformance_params params = {
        .modes = EVERY | COPSE_CONFORM_LIMITS | COPSE_CONFORM_IMPORT | COPSE_CONFORM_PERF,
        .tier = COPSE_CONFORM_STANDARD,
        .result = take_name,
        .user = &n,
    };
    OK(copse_conformance_list(ctx, &params));
    copse_context_release(&ctx);
    qsort(n.at, n.count, sizeof n.at[0], compare_names);
    for (size_t i = 1; i < n.count; i++)
        if (strcmp(n.at[i - 1], n.at[i]) == 0)
            fail_msg("two cases are called %s", n.at[i]);
    print_message("%zu cases\n", n.count);
    free(n.at);
}

static void limits_are_only_lowered(void **unused)
{
    copse_context *ctx;
    copse_device *dev;
    struct copse_kernel *k;
    (void)unused;
    OK(copse_context_create(NULL, &ctx));
    OK(copse_device_open(ctx, "host:0", NULL, &dev));
    const struct copse_limits before = *dev->limits;
    struct copse_limits l = before;
    l.max_group_size = 4096;
    l.max_binding_bytes = UINT64_MAX;
    l.offset_alignment = 1;
    l.has_wide_vectors = true;
    OK(copse__device_limit(dev, &l));
    assert_memory_equal(dev->limits, &before, sizeof before);

    l.is_gpu = true; /* no limit */
    OK(copse__device_limit(dev, &l));
    assert_true(dev->limits->is_gpu);

    l.max_group_size = 32;
    l.offset_alignment = 256;
    l.max_binding_bytes = 1u << 20;
    l.host_import_alignment = 0;
    l.rounds_to_nearest = l.keeps_denormals = false; /* what is, is */
    OK(copse__device_limit(dev, &l));
    assert_int_equal(dev->limits->max_group_size, 32);
    assert_int_equal(dev->limits->offset_alignment, 256);
    assert_int_equal(dev->limits->max_binding_bytes, 1u << 20);
    assert_int_equal(dev->limits->host_import_alignment, 0);
    assert_true(dev->limits->rounds_to_nearest && dev->limits->keeps_denormals);

    const struct copse_limits now = *dev->limits;
    l.max_binding_bytes = 4096; /* less than the library can do with */
    assert_int_equal(copse__device_limit(dev, &l), COPSE_ERR_ARGUMENT);
    OK(copse__kernel_get(dev, COPSE_KERNEL_fill, NULL, &k));
    assert_int_equal(k->group_x * k->group_y, 32);
    l.max_group_size = 16; /* the kernel has its groups */
    l.max_binding_bytes = 1u << 20;
    assert_int_equal(copse__device_limit(dev, &l), COPSE_ERR_ARGUMENT);
    assert_memory_equal(dev->limits, &now, sizeof now);
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_only_lowered), cmocka_unit_test(wrong_codes_are_told),
        cmocka_unit_test(names_are_unique),        cmocka_unit_test(broken_devices_fail),
        cmocka_unit_test(speeds_are_measured),     cmocka_unit_test(devices_found_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
