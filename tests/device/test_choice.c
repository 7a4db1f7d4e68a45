/* SPDX-License-Identifier: MIT */
/* What `auto` makes of lists of devices, and why; selectors that take a physical device once. */
#include "copse/device/choice.h"
#include "copse/device/tuning.h"

#include "tests/rig/fake/fault_rig.h"

/* The devices of a list, in the order in which a machine might have them. */
enum kind {
    NONE,
    CL_CARD,
    VK_CARD,
    VK_UNITS,
    VK_SLOW_UNITS,
    CL_CHIP,
    VK_CHIP,
    CARD_B,
    BROKEN,
    VIRTUAL,
    CL_CPU,
    VK_CPU
};

static void describe_as(struct copse_device_info *d, enum kind kind)
{
    static const copse_device_kind kinds[] = {
        [CL_CARD] = COPSE_DEVICE_DISCRETE,   [VK_CARD] = COPSE_DEVICE_DISCRETE,
        [VK_UNITS] = COPSE_DEVICE_DISCRETE,  [VK_SLOW_UNITS] = COPSE_DEVICE_DISCRETE,
        [CL_CHIP] = COPSE_DEVICE_INTEGRATED, [VK_CHIP] = COPSE_DEVICE_INTEGRATED,
        [CARD_B] = COPSE_DEVICE_DISCRETE,    [BROKEN] = COPSE_DEVICE_DISCRETE,
        [VIRTUAL] = COPSE_DEVICE_OTHER,      [CL_CPU] = COPSE_DEVICE_CPU,
        [VK_CPU] = COPSE_DEVICE_CPU,
    };
    const bool is_card =
        kind == CL_CARD || kind == VK_CARD || kind == VK_UNITS || kind == VK_SLOW_UNITS;
    d->kind = kinds[kind];
    if (kind == CL_CARD) { /* the UUID alone, as drivers of OpenCL report it */
        d->has_uuid = true;
        d->uuid[0] = 1;
    } else if (is_card) {
        d->has_uuid = d->has_pci = true;
        d->uuid[0] = d->pci[1] = 1;
    } else if (kind == CL_CHIP || kind == VK_CHIP) {
        d->has_pci = true;
        d->pci[1] = 5;
    }
    d->limits.matrix_units = kind == VK_UNITS        ? COPSE_MATRIX_F16 | COPSE_MATRIX_PREFERRED
                             : kind == VK_SLOW_UNITS ? COPSE_MATRIX_F16
                                                     : 0;
    d->limits.has_wide_vectors = kind == CL_CPU;
    if (kind == BROKEN) {
        d->is_usable = false;
        snprintf(d->reason, sizeof d->reason, "no shaders");
    }
}

static enum kind list[6];
#define DESCRIBE(n)                                       \
    static void describe_##n(struct copse_device_info *d) \
    {                                                     \
        describe_as(d, list[n]);                          \
    }
DESCRIBE(0)
DESCRIBE(1)
DESCRIBE(2)
DESCRIBE(3)
DESCRIBE(4)
DESCRIBE(5)

static copse_context *machine(const enum kind *kinds)
{
    static void (*const describe[])(struct copse_device_info *) = { describe_0, describe_1,
                                                                    describe_2, describe_3,
                                                                    describe_4, describe_5 };
    fake_reset();
    copse_fake.device_count = 0;
    for (size_t i = 0; i < COPSE_COUNT(list) && kinds[i] != NONE; i++) {
        list[i] = kinds[i];
        copse_fake.devices[copse_fake.device_count++].describe = describe[i];
    }
    return context(NULL);
}

/* The devices as the selector takes them, "fake:0 fake:2". */
static const char *chosen(copse_context *ctx, const char *selector)
{
    static char text[300];
    char ids[8][32];
    size_t count, at = 0;
    OK(copse_select_devices(ctx, selector, ids, 8, &count));
    for (size_t i = 0; i < count; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? " " : "", ids[i]);
    return text;
}

/* A device that finds no room is counted, and its other drivers are not. */
static void small_room_counts_the_same_devices(void **state)
{
    (void)state;
    char ids[8][32];
    size_t count;
    copse_context *ctx = machine((const enum kind[6]){ CL_CARD, VK_CARD, CL_CPU });
    for (size_t room = 0; room < 2; room++)
        FAILS(COPSE_ERR_ARGUMENT, copse_select_devices(ctx, "fake:2,fake:0,all", ids, room, &count),
              "means 2 devices");
    copse_context_release(&ctx);
}

static struct copse_device_choice choice_at(copse_context *ctx, size_t index)
{
    const struct copse_device_info *d;
    struct copse_device_choice choice;
    size_t count;
    copse_context_devices(ctx, &d, &count);
    assert_true(index < count);
    OK(copse_device_choice(ctx, d[index].id, &choice));
    return choice;
}

/* Each reason is a part of the text of the device at the same place; host:0 is the last one. */
static const struct row {
    enum kind list[6];
    const char *taken, *all;
    const char *reasons[7];
} rows[] = {
    { { NONE }, "host:0", NULL, { "nothing else can be used" } },
    { { CL_CPU, VK_CPU },
      "fake:0",
      "fake:0",
      { "the processor, and no GPU can be used; of its drivers this one has wide vectors",
        "the same processor as fake:0, which has wide vectors", "slow and exact" } },
    { { VK_CPU, CL_CPU },
      "fake:1",
      "fake:1",
      { "the same processor as fake:1, which has wide vectors", "the processor" } },
    { { VK_CPU, VK_CPU },
      "fake:0",
      "fake:0",
      { "is listed first", "fake:0, which is listed first" } },
    /* one card through two drivers, in both orders */
    { { CL_CARD, VK_CARD },
      "fake:0",
      "fake:0",
      { "a discrete GPU; of its drivers this one is listed first: `copse tune` has not measured "
        "both",
        "the same device as fake:0, which is listed first" } },
    { { CL_CARD, VK_UNITS },
      "fake:1",
      "fake:1",
      { "the same device as fake:1, which has matrix units",
        "a discrete GPU; of its drivers this one has matrix units" } },
    { { CL_CARD, VK_SLOW_UNITS },
      "fake:0",
      "fake:0",
      { "has not measured both", "the same device as fake:0, which is listed first" } },
    { { VK_UNITS, CL_CARD, CL_CPU },
      "fake:0",
      "fake:0 fake:2",
      { "has matrix units", "the same device as fake:0, which has matrix units",
        "the processor, and there is a GPU: fake:0" } },
    /* a card beside the chip of the processor, each through two drivers */
    { { CL_CHIP, CL_CARD, VK_CHIP, VK_UNITS, CL_CPU },
      "fake:3",
      "fake:0 fake:3 fake:4",
      { "an integrated GPU beside the discrete GPU fake:3", "the same device as fake:3",
        "the same device as fake:0, which is listed first", "has matrix units",
        "the processor, and there is a GPU: fake:3", "slow and exact" } },
    { { CARD_B, CL_CARD, BROKEN },
      "fake:0 fake:1",
      "fake:0 fake:1",
      { "a discrete GPU", "a discrete GPU", "not usable: no shaders" } },
    { { BROKEN, VK_CHIP, CL_CPU },
      "fake:1",
      "fake:1 fake:2",
      { "not usable", "an integrated GPU, and no discrete one can be used",
        "the processor, and there is a GPU: fake:1" } },
    { { VIRTUAL, CARD_B },
      "fake:1",
      "fake:0 fake:1",
      { "an accelerator beside the discrete GPU fake:1", "a discrete GPU" } },
    { { VIRTUAL, VK_CPU }, "fake:0", "fake:0 fake:1", { "no GPU can be used", "the processor" } },
};

static void lists_of_devices_have_one_choice(void **state)
{
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
        copse_context *ctx = machine(rows[i].list);
        printf("  row %zu: %s\n", i, rows[i].taken);
        assert_string_equal(chosen(ctx, "auto"), rows[i].taken);
        assert_string_equal(chosen(ctx, NULL), rows[i].taken);
        if (rows[i].all) {
            assert_string_equal(chosen(ctx, "all"), rows[i].all);
            assert_string_equal(chosen(ctx, "fake"), rows[i].all);
            assert_string_equal(chosen(ctx, "fake, all,auto,fake"), rows[i].all);
        }
        for (size_t k = 0; k < COPSE_COUNT(rows[i].reasons) && rows[i].reasons[k]; k++) {
            const struct copse_device_choice c = choice_at(ctx, k);
            if (!strstr(c.reason, rows[i].reasons[k]))
                fail_msg("row %zu, device %zu: %s", i, k, c.reason);
            assert_int_equal(c.can_join, strstr(c.reason, " beside the ") != NULL);
            assert_false(c.is_taken && c.can_join);
        }
        copse_context_release(&ctx);
    }
}

/* Two drivers of one device. `copse tune` has measured these rates. */
static void measured_drivers(const uint64_t (*rates)[2], size_t count, const char *taken,
                             const char *reason)
{
    static const enum kind both[] = { CL_CARD, VK_CARD, NONE };
    copse_context *ctx = machine(both);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < 2; k++) {
            struct copse_tuning_entry e = { "matmul", "", "matmul", rates[i][k] };
            char id[16];
            snprintf(id, sizeof id, "fake:%zu", k);
            snprintf(e.size_class, sizeof e.size_class, "nn-%zu", i);
            OK(copse_device_tuning_set(ctx, id, &e, 1));
            /* a slower variant of the same work, and shares, change nothing */
            snprintf(e.variant, sizeof e.variant, "matmul_wide");
            e.rate = e.rate > 0;
            OK(copse_device_tuning_set(ctx, id, &e, 1));
            snprintf(e.family, sizeof e.family, COPSE_TUNED_SHARES);
            e.rate = k ? 1 : 1000000;
            OK(copse_device_tuning_set(ctx, id, &e, 1));
        }
    }
    assert_string_equal(chosen(ctx, "auto"), taken);
    const struct copse_device_choice c = choice_at(ctx, 0);
    if (!strstr(c.reason, reason))
        fail_msg("%s", c.reason);
    copse_context_release(&ctx);
}

static void the_faster_driver_is_taken(void **state)
{
    (void)state;
    static const uint64_t faster[][2] = { { 100, 150 }, { 200, 300 } },
                          slower[][2] = { { 150, 100 }, { 300, 200 } },
                          mixed[][2] = { { 100, 400 }, { 300, 100 }, { 50, 0 } },
                          equal[][2] = { { 100, 102 }, { 100, 100 } }, apart[][2] = { { 0, 9 } };
    measured_drivers(faster, 2, "fake:1",
                     "the same device as fake:1, which was measured 1.5 times");
    measured_drivers(slower, 2, "fake:0", "this one was measured 1.5 times as fast");
    measured_drivers(mixed, 3, "fake:1", "which was measured 1.15 times as fast");
    measured_drivers(equal, 2, "fake:0", "both were measured equally fast");
    measured_drivers(apart, 1, "fake:0", "`copse tune` has not measured both");
}

static void cl_card(struct copse_device_info *d)
{
    describe_as(d, CL_CARD);
}

/* At the place of the UUID's owner: no UUID. */
static void only_pci(struct copse_device_info *d)
{
    d->has_pci = true;
    d->pci[1] = 1;
}

static void both_names(struct copse_device_info *d)
{
    describe_as(d, VK_CARD);
}

/* One driver may compute another UUID for the place. */
static void other_uuid(struct copse_device_info *d)
{
    d->has_uuid = true;
    d->uuid[0] = 2;
}

static void other_uuid_and_pci(struct copse_device_info *d)
{
    other_uuid(d);
    only_pci(d);
}

/* A later entry says that others are one device. */
static void any_order_finds_the_same_device(void **state)
{
    (void)state;
    static void (*const orders[][4])(struct copse_device_info *) = {
        { cl_card, only_pci, both_names },
        { both_names, cl_card, only_pci },
        { only_pci, both_names, cl_card },
        { cl_card, both_names, only_pci },
        { cl_card, other_uuid_and_pci, other_uuid, both_names },
    };
    for (size_t i = 0; i < COPSE_COUNT(orders); i++) {
        fake_reset();
        copse_fake.device_count = 0;
        for (size_t k = 0; k < 4 && orders[i][k]; k++)
            copse_fake.devices[copse_fake.device_count++].describe = orders[i][k];
        copse_context *ctx = context(NULL);
        assert_string_equal(chosen(ctx, "auto"), "fake:0");
        assert_string_equal(chosen(ctx, "all"), "fake:0");
        copse_context_release(&ctx);
    }
}

static char warning[300];
static int warnings;

static void keep_warning(void *user, copse_log_level level, const char *line)
{
    (void)user;
    if (level == COPSE_LOG_WARN) {
        snprintf(warning, sizeof warning, "%s", line);
        warnings++;
    }
}

static void what_is_named_is_taken_with_a_warning(void **state)
{
    (void)state;
    fake_reset();
    copse_fake.device_count = 3;
    copse_fake.devices[0].describe = cl_card;
    copse_fake.devices[1].describe = both_names;
    copse_context *ctx = context(&(struct copse_context_params){ .log = keep_warning });
    warnings = 0;
    assert_string_equal(chosen(ctx, "fake:0,fake:2,fake:0"), "fake:0 fake:2 fake:0");
    assert_string_equal(chosen(ctx, "all"), "fake:0 fake:2");
    assert_int_equal(warnings, 0);
    assert_string_equal(chosen(ctx, "fake:1,fake:0"), "fake:1 fake:0");
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(warning, "fake:1 and fake:0 are one physical device"));
    FAILS(COPSE_ERR_NO_DEVICE,
          copse_device_choice(ctx, "fake:7", &(struct copse_device_choice){ 0 }),
          "no device 'fake:7'");
    copse_context_release(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(lists_of_devices_have_one_choice, fresh),
        cmocka_unit_test_setup(the_faster_driver_is_taken, fresh),
        cmocka_unit_test_setup(any_order_finds_the_same_device, fresh),
        cmocka_unit_test_setup(what_is_named_is_taken_with_a_warning, fresh),
        cmocka_unit_test_setup(small_room_counts_the_same_devices, fresh),
    };
    return cmocka_run_group_tests_name("choice", tests, NULL, NULL);
}
