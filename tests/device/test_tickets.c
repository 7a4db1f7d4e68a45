/* SPDX-License-Identifier: MIT */
/* What core/device decides by tickets: when released memory goes, how long waits last, what the
   pool gives again. */
#include "copse/device/trace.h"
#include "tests/rig/fake/fault_rig.h"

/* ---- tickets, garbage, pool ---- */

static void released_buffers_outlive_queued_work(void **state)
{
    (void)state;
    copse_context *ctx = context(NULL);
    copse_fake.devices[0].delay_polls = 2;
    copse_device *dev = device(ctx);
    copse_queue *queue = NULL, *other = NULL;
    copse_buffer *buf = NULL;
    uint64_t ticket;

    assert_int_equal(copse_queue_create(dev, &queue), COPSE_OK);
    assert_int_equal(copse_queue_create(dev, &other), COPSE_OK);
    assert_int_equal(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = 64 }, &buf),
                     COPSE_OK);
    assert_int_equal(copse_queue_fill(queue, buf, 0, 64, 1), COPSE_OK);
    copse_buffer_release(&buf);
    assert_int_equal(fake_calls(0, FAKE_BUFFER_FINI), 0);
    assert_int_equal(copse_queue_submit(queue, &ticket), COPSE_OK);
    assert_int_equal(copse_queue_finish(other), COPSE_OK);
    assert_int_equal(fake_calls(0, FAKE_BUFFER_FINI), 0);
    assert_int_equal(copse_queue_wait(queue, ticket, 0), COPSE_ERR_TIMEOUT);
    assert_int_equal(copse_queue_wait(queue, ticket, 0), COPSE_ERR_TIMEOUT);
    assert_int_equal(fake_calls(0, FAKE_BUFFER_FINI), 0);
    assert_int_equal(copse_queue_wait(queue, ticket, 0), COPSE_OK);
    assert_int_equal(fake_calls(0, FAKE_BUFFER_FINI), 1);

    /* A caller that only ever submits gets its memory back too. */
    for (int i = 0; i < 20; i++) {
        assert_int_equal(
            copse_buffer_create(dev, &(struct copse_buffer_params){ .size = 64 }, &buf), COPSE_OK);
        assert_int_equal(copse_queue_fill(queue, buf, 0, 64, 1), COPSE_OK);
        copse_buffer_release(&buf);
        assert_int_equal(copse_queue_submit(queue, NULL), COPSE_OK);
    }
    assert_true(fake_calls(0, FAKE_BUFFER_FINI) >= 5);
    copse_queue_release(&other);
    copse_queue_release(&queue);
    copse_device_release(&dev);
    expect_balance();
    copse_context_release(&ctx);
}

static void a_new_queue_in_an_old_place_holds_nothing_up(void **state)
{
    (void)state;
    copse_context *ctx = context(NULL);
    copse_fake.devices[0].delay_polls = 1;
    copse_device *dev = device(ctx);
    copse_queue *first = NULL, *second = NULL;
    copse_buffer *buf = NULL;

    assert_int_equal(copse_queue_create(dev, &first), COPSE_OK);
    assert_int_equal(copse_queue_create(dev, &second), COPSE_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(copse_queue_finish(first), COPSE_OK);
    assert_int_equal(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = 64 }, &buf),
                     COPSE_OK);
    assert_int_equal(copse_queue_fill(second, buf, 0, 64, 1), COPSE_OK);
    copse_buffer_release(&buf); /* remembers ticket 5 of the first queue */
    copse_queue_release(&first);
    assert_int_equal(copse_queue_create(dev, &first), COPSE_OK);
    assert_int_equal(copse_queue_finish(second), COPSE_OK);
    assert_int_equal(fake_calls(0, FAKE_BUFFER_FINI), 1);
    copse_queue_release(&first);
    copse_queue_release(&second);
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

static void waits_end_at_their_deadline_and_reads_land_with_their_ticket(void **state)
{
    (void)state;
    copse_context *ctx = context(NULL);
    copse_fake.devices[0].delay_ns = 50000000;
    struct life l = { 0 };
    uint64_t ticket;

    assert_int_equal(begin(&l, ctx), COPSE_OK);
    assert_int_equal(copse_queue_fill(l.queue, l.a, 0, sizeof l.x, 7), COPSE_OK);
    assert_int_equal(copse_queue_read(l.queue, l.a, 0, l.y, sizeof l.y), COPSE_OK);
    assert_int_equal(copse_queue_submit(l.queue, &ticket), COPSE_OK);
    const uint64_t start = copse__now_ns();
    assert_int_equal(copse_queue_wait(l.queue, ticket, 5000000), COPSE_ERR_TIMEOUT);
    assert_true(copse__now_ns() - start < 40000000);
    assert_true(l.y[0] == 0.0f);
    assert_int_equal(copse_queue_wait(l.queue, ticket, 5000000000ull), COPSE_OK);
    uint32_t word;
    memcpy(&word, l.y, sizeof word);
    assert_int_equal(word, 7);
    end(&l);
    copse_context_release(&ctx);
}

static void the_pool_gives_the_same_memory_again(void **state)
{
    (void)state;
    copse_context *ctx = context(NULL);
    copse_device *dev = device(ctx);
    copse_buffer *buf = NULL, *first;
    struct copse_memory_stats stats;

    for (size_t size = 4; size < 5000000; size += 1 + size / 3) {
        assert_int_equal(copse__buffer_acquire(dev, size, &buf), COPSE_OK);
        assert_true(copse_buffer_size(buf) >= size && copse_buffer_size(buf) % 4 == 0);
        assert_true(copse_buffer_size(buf) <= size + size / 4 + 256);
        first = buf;
        copse_buffer_release(&buf);
        assert_int_equal(copse__buffer_acquire(dev, size, &buf), COPSE_OK);
        assert_ptr_equal(buf, first);
        copse_buffer_release(&buf);
    }
    copse_context_memory(ctx, &stats);
    assert_true(stats.device_allocations == fake_calls(0, FAKE_BUFFER_INIT));

    /* Buffers made by hand are freed at once. */
    assert_int_equal(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = 256 }, &buf),
                     COPSE_OK);
    copse_buffer_release(&buf);
    assert_int_equal(fake_calls(0, FAKE_BUFFER_FINI), 1);

    /* A full device gets the pool back first. */
    assert_non_null(dev->pool);
    fake_fail(0, FAKE_BUFFER_INIT, 1, COPSE_ERR_NO_DEVICE_MEMORY, false);
    assert_int_equal(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = 256 }, &buf),
                     COPSE_OK);
    assert_null(dev->pool);
    copse_buffer_release(&buf);
    fake_fail(0, FAKE_BUFFER_INIT, 1, COPSE_ERR_NO_DEVICE_MEMORY, true);
    assert_int_equal(copse__buffer_acquire(dev, 256, &buf), COPSE_ERR_NO_DEVICE_MEMORY);
    assert_non_null(strstr(copse_last_error(), "256 bytes on fake:0"));
    copse_device_release(&dev);
    expect_balance();
    copse_context_release(&ctx);
}

/* ---- traces ---- */

/* Two submissions end together, as far as the host can know; a third one by itself. */
static void a_trace_has_the_submissions_of_each_span(void **state)
{
    static const char path[] = "test_tickets_trace.json";
    char text[8192] = "";
    struct copse_trace_summary s;
    copse_context *ctx = context(NULL);
    copse_device *dev = device(ctx);
    copse_queue *queue = NULL;
    copse_buffer *buf = NULL;
    uint64_t ticket;
    (void)state;
    OK(copse_queue_create(dev, &queue));
    OK(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = 64 }, &buf));
    OK(copse_trace_start(ctx, &(struct copse_trace_params){ .path = path }));
    copse_fake.devices[0].delay_polls = 3; /* asked for before the second and third command */
    for (int i = 0; i < 2; i++) {
        OK(copse_queue_fill(queue, buf, 0, 64, 1));
        OK(copse_queue_submit(queue, &ticket));
    }
    OK(copse_queue_wait(queue, ticket, UINT64_MAX));
    copse_fake.devices[0].delay_polls = 0;
    OK(copse_queue_fill(queue, buf, 0, 64, 1));
    OK(copse_queue_finish(queue));
    OK(copse_trace_stop(ctx, &s));
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_non_null(strstr(text, "\"submissions\":[1,2]"));
    assert_non_null(strstr(text, "\"submissions\":[3,3]"));
    assert_null(strstr(text, "\"submissions\":[2,"));
    assert_int_equal(s.steps, 0);
    remove(path);
    copse_buffer_release(&buf);
    copse_queue_release(&queue);
    copse_device_release(&dev);
    expect_balance();
    copse_context_release(&ctx);
}

/* The device's clock is far from the host's, and its launches take 7 us each. */
static void a_trace_has_the_times_of_the_device(void **state)
{
    static const char path[] = "test_tickets_clock.json";
    char text[8192] = "";
    copse_context *ctx = context(NULL);
    copse_device *dev = device(ctx);
    copse_queue *queue = NULL;
    copse_buffer *buf = NULL;
    struct copse_command c;
    (void)state;
    copse_fake.devices[0].has_clock = true;
    copse_fake.devices[0].launch_ns = 7000;
    OK(copse_queue_create(dev, &queue));
    OK(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = 2048 }, &buf));
    const struct copse_params_unary params = { .n = N };
    const struct copse_binding bindings[] = { { buf, 0, 4 * N }, { buf, 4 * N, 4 * N } };
    OK(copse__dispatch_init(&c, unary(dev), bindings, 2, &params, 1, 0));
    OK(copse_trace_start(ctx, &(struct copse_trace_params){ .path = path }));
    for (int i = 0; i < 3; i++)
        OK(copse__queue_encode(queue, &c));
    copse__sleep_ns(1000000); /* the spans have time to be in */
    OK(copse_queue_finish(queue));
    OK(copse_trace_stop(ctx, NULL));
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_non_null(strstr(text, "\"dur\":21.000,\"args\":{\"step\":0,\"submissions\":[1,1]}"));
    assert_null(strstr(strstr(text, "submissions") + 1, "submissions"));
    remove(path);
    copse_buffer_release(&buf);
    copse_queue_release(&queue);
    copse_device_release(&dev);
    expect_balance();
    copse_context_release(&ctx);
}

static void a_stamp_that_fails_once_leaves_the_clock(void **state)
{
    uint64_t from, to;
    double seconds;
    copse_context *ctx = context(NULL);
    copse_device *dev = device(ctx);
    copse_queue *queue = NULL;
    (void)state;
    copse_fake.devices[0].has_clock = true;
    OK(copse_queue_create(dev, &queue));
    fake_fail(0, FAKE_STAMP, 1, COPSE_ERR_NO_MEMORY, false);
    assert_int_equal(copse_queue_stamp(queue, &from), COPSE_ERR_NO_MEMORY);
    OK(copse_queue_stamp(queue, &from));
    OK(copse_queue_stamp(queue, &to));
    OK(copse_queue_finish(queue));
    OK(copse_queue_elapsed(queue, from, to, &seconds));
    copse_fake.devices[0].has_clock = false;
    assert_int_equal(copse_queue_stamp(queue, &from), COPSE_ERR_UNSUPPORTED);
    copse_fake.devices[0].has_clock = true;
    assert_int_equal(copse_queue_stamp(queue, &from), COPSE_ERR_UNSUPPORTED);
    copse_queue_release(&queue);
    copse_device_release(&dev);
    expect_balance();
    copse_context_release(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(released_buffers_outlive_queued_work),
        TEST(a_new_queue_in_an_old_place_holds_nothing_up),
        TEST(waits_end_at_their_deadline_and_reads_land_with_their_ticket),
        TEST(the_pool_gives_the_same_memory_again),
        TEST(a_trace_has_the_submissions_of_each_span),
        TEST(a_trace_has_the_times_of_the_device),
        TEST(a_stamp_that_fails_once_leaves_the_clock),
    };
    return cmocka_run_group_tests_name("tickets", tests, NULL, NULL);
}
