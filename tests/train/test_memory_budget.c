/* SPDX-License-Identifier: MIT */
/* Memory follows the budget of a device: between steps a trainer gives back what it can do without,
   and a buffer that passes the budget is made after released ones have gone. */
#include "core/replica/strategy.h"
#include "tests/rig/fake/faulty_job.h"

enum { STEPS = 200 };

static char line[400];
static int lines;

static void keep(void *user, copse_log_level level, const char *text)
{
    (void)user;
    if (level > COPSE_LOG_WARN || !strstr(text, "budget"))
        return;
    snprintf(line, sizeof line, "%s", text);
    lines++;
}

static void begin(uint32_t devices)
{
    lines = 0;
    line[0] = '\0';
    job_begin(devices, &(struct copse_context_params){ .log = keep });
    job_mirror(devices);
    job_learn();
}

static void step(size_t rows)
{
    const struct copse_host_batch b = { RIG_XY(MODEL_IN, job.x, job.y), .count = rows };
    OK(copse_trainer_step(job.t, &b));
}

static size_t bytes_of(uint32_t replica)
{
    return atomic_load(&job.st->replicas[replica].dev->bytes);
}

/* A batch of another size now and then. */
static void train(size_t *values, float *to)
{
    for (uint32_t i = 0; i < STEPS; i++)
        step(i < 3 ? 10 + i : BATCH);
    *values = 0;
    for (int v = 0; v < MODEL_VARIABLES; v++) {
        const copse_shape s = copse_variable_shape(job.m.variables[v]);
        OK(copse_variable_read(job.m.variables[v], 0, to + *values));
        *values += s.rank == 2 ? s.dims[0] * s.dims[1] : s.dims[0];
    }
}

static void what_is_not_needed_is_given_back_with_the_same_bits(void **state)
{
    static float want[VALUES], got[VALUES];
    size_t count;
    (void)state;
    begin(2);
    train(&count, want);
    const size_t full = bytes_of(0);
    assert_int_equal(lines, 0);
    job_end();

    begin(2);
    copse_fake.devices[0].memory_budget = full - 4096; /* the other device reports none */
    train(&count, got);
    assert_memory_equal(got, want, count * sizeof *want);
    assert_true(bytes_of(0) <= full - 4096);
    assert_int_equal(lines, 1);
    assert_non_null(strstr(line, "trainer: fake:0 uses "));
    assert_non_null(strstr(line, " KiB are given back, with "));
    job_end();
}

/* The driver is asked in few steps, and a budget that cannot be kept costs no recording that steps
   use: they would be made again and again. */
static void a_budget_that_is_too_small_costs_no_step(void **state)
{
    static float got[VALUES];
    size_t count;
    (void)state;
    begin(1);
    step(BATCH);
    copse_fake.devices[0].memory_budget = 4096;
    step(BATCH);
    const uint32_t asked = fake_calls(0, FAKE_MEMORY), made = fake_calls(0, FAKE_SEGMENT_INIT);
    for (uint32_t i = 0; i < STEPS; i++)
        step(BATCH);
    assert_int_equal(fake_calls(0, FAKE_SEGMENT_INIT), made);
    assert_in_range(fake_calls(0, FAKE_MEMORY) - asked, 1, 6);
    assert_int_equal(lines, 1);
    train(&count, got);
    job_end();
}

static void a_large_buffer_takes_the_place_of_released_ones(void **state)
{
    enum { SIZE = 2 << 20 };
    copse_buffer *a = NULL, *b = NULL;
    (void)state;
    lines = 0;
    job_begin(1, &(struct copse_context_params){ .log = keep });
    copse_device *dev = NULL;
    OK(copse_device_open(job.ctx, "fake:0", NULL, &dev));
    OK(copse__buffer_acquire(dev, SIZE, &a));
    copse_buffer_release(&a); /* into the pool */
    copse_fake.devices[0].memory_budget = 5 << 20;
    OK(copse__buffer_acquire(dev, 2 * SIZE, &b));
    assert_true(atomic_load(&dev->bytes) < 3 * SIZE);
    assert_int_equal(lines, 0);
    /* more than the budget: it is made, with one line */
    for (int i = 0; i < 2; i++) {
        OK(copse__buffer_acquire(dev, SIZE + (size_t)i * SIZE, &a));
        copse_buffer_release(&a);
    }
    assert_int_equal(lines, 1);
    assert_non_null(strstr(line, "device: fake:0 has "));
    copse_buffer_release(&b);
    copse_device_release(&dev);
    job_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_needed_is_given_back_with_the_same_bits),
        cmocka_unit_test(a_budget_that_is_too_small_costs_no_step),
        cmocka_unit_test(a_large_buffer_takes_the_place_of_released_ones),
    };
    return cmocka_run_group_tests_name("memory_budget", tests, NULL, NULL);
}
