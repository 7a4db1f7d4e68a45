/* SPDX-License-Identifier: MIT */
/* Priorities: who gets the one that the context has, and the line about who does not. */
#include "tests/rig/fake/fault_rig.h"

static char line[400];
static int lines;

static void keep(void *user, copse_log_level level, const char *text)
{
    (void)user;
    if (level > COPSE_LOG_WARN)
        return;
    snprintf(line, sizeof line, "%s", text);
    lines++;
}

static copse_context *listening(void)
{
    lines = 0;
    return context(&(struct copse_context_params){ .log = keep });
}

static void devices_have_the_priority_of_when_they_were_opened(void **state)
{
    (void)state;
    copse_fake.devices[0].has_priorities = true;
    copse_context *ctx = listening();
    copse_device *dev[3];
    static const copse_priority wanted[3] = { COPSE_PRIORITY_NORMAL, COPSE_PRIORITY_LOW,
                                              COPSE_PRIORITY_HIGH };
    for (int i = 0; i < 3; i++) {
        OK(copse_context_prioritize(ctx, wanted[i]));
        dev[i] = device(ctx);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(copse_device_priority(dev[i]), wanted[i]);
        copse_device_release(&dev[i]);
    }
    assert_int_equal(lines, 0);
    copse_context_release(&ctx);
}

static void a_device_without_priorities_says_so_once(void **state)
{
    (void)state;
    copse_context *ctx = listening();
    OK(copse_context_prioritize(ctx, COPSE_PRIORITY_LOW));
    for (int i = 0; i < 3; i++) {
        copse_device *dev = device(ctx);
        assert_int_equal(copse_device_priority(dev), COPSE_PRIORITY_NORMAL);
        copse_device_release(&dev);
    }
    assert_int_equal(lines, 1);
    assert_string_equal(line, "device: the work of fake:0 does not get low priority: it has no "
                              "priorities");
    copse_device *dev = NULL; /* each device says it */
    OK(copse_device_open(ctx, "host:0", NULL, &dev));
    assert_int_equal(lines, 2);
    assert_non_null(strstr(line, "host:0"));
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

static void normal_priority_needs_no_word(void **state)
{
    (void)state;
    copse_context *ctx = listening();
    copse_device *dev = device(ctx);
    assert_int_equal(copse_device_priority(dev), COPSE_PRIORITY_NORMAL);
    assert_int_equal(copse_device_priority(NULL), COPSE_PRIORITY_NORMAL);
    assert_int_equal(lines, 0);
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

static void other_numbers_are_refused(void **state)
{
    (void)state;
    copse_context *ctx = listening();
    OK(copse_context_prioritize(ctx, COPSE_PRIORITY_HIGH));
    assert_int_equal(copse_context_prioritize(ctx, (copse_priority)3), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_context_prioritize(ctx, (copse_priority)-1), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_context_prioritize(NULL, COPSE_PRIORITY_LOW), COPSE_ERR_ARGUMENT);
    copse_fake.devices[0].has_priorities = true;
    copse_device *dev = device(ctx);
    assert_int_equal(copse_device_priority(dev), COPSE_PRIORITY_HIGH);
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(devices_have_the_priority_of_when_they_were_opened, fresh),
        cmocka_unit_test_setup(a_device_without_priorities_says_so_once, fresh),
        cmocka_unit_test_setup(normal_priority_needs_no_word, fresh),
        cmocka_unit_test_setup(other_numbers_are_refused, fresh),
    };
    return cmocka_run_group_tests_name("priority", tests, NULL, NULL);
}
