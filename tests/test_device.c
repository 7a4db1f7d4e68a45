/* SPDX-License-Identifier: MIT */
/* The backend contract. The same tests run on every device found and on the fake backend:
 *
 *     device              all devices found, one line each, and the fake backend
 *     device --list       the ids of the usable devices
 *     device opencl:0     that device only; "fake:0" for the fake backend
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "core/base/random.h"
#include "tests/fake_backend.h"

#define KIB     ((size_t)1024)
#define MIB     (1024 * KIB)
#define LONG_NS 60000000000ull

/* ---- what every test has ---- */

static const char *device_id;
static bool is_fake;

struct rig {
    copse_context *ctx;
    copse_device *dev;
    copse_queue *queue;
    size_t blocks; /* live before the device was opened */
};

#define OK(expr)                                                                                   \
    do {                                                                                           \
        const copse_status ok_ = (expr);                                                           \
        if (ok_)                                                                                   \
            fail_msg("%s: %s: %s", #expr, copse_status_name(ok_), copse_last_error());             \
    } while (0)
#define FAILS(code, expr, word)                                                                    \
    do {                                                                                           \
        const copse_status fails_ = (expr);                                                        \
        if (fails_ != (code) || !strstr(copse_last_error(), word))                                 \
            fail_msg("%s: %s, not %s about '%s': %s", #expr, copse_status_name(fails_), #code,     \
                     word, copse_last_error());                                                    \
    } while (0)
#define SKIP(why)                                                                                  \
    do {                                                                                           \
        print_message("skipped on %s: %s\n", device_id, why);                                      \
        skip();                                                                                    \
    } while (0)

static copse_context *context(void)
{
    copse_context *ctx = NULL;
    OK(is_fake ? copse__context_create_with(NULL, fake_backends, &ctx)
               : copse_context_create(NULL, &ctx));
    return ctx;
}

static int set_up(void **state)
{
    struct copse_memory_stats stats;
    struct rig *r = calloc(1, sizeof *r);
    *state = r;
    if (is_fake) {
        fake_reset();
        copse_fake.devices[0].delay_polls = 2; /* nothing is ready when it is first asked for */
    }
    r->ctx = context();
    copse_context_memory(r->ctx, &stats);
    r->blocks = stats.live_blocks;
    OK(copse_device_open(r->ctx, device_id, NULL, &r->dev));
    OK(copse_queue_create(r->dev, &r->queue));
    return 0;
}

/* Whatever a test made and released is gone; nothing was freed under queued work. */
static int tear_down(void **state)
{
    struct rig *r = *state;
    struct copse_memory_stats stats;
    copse_queue_release(&r->queue);
    copse_device_release(&r->dev);
    copse_context_memory(r->ctx, &stats);
    const bool is_clean = stats.live_blocks <= r->blocks + 64; /* the kernel cache may grow */
    copse_context_release(&r->ctx);
    free(r);
    return is_clean && copse_fake.early_fini == 0 ? 0 : -1;
}

static copse_buffer *buffer(struct rig *r, size_t size)
{
    copse_buffer *buf = NULL;
    OK(copse_buffer_create(r->dev, &(struct copse_buffer_params){ .size = size }, &buf));
    return buf;
}

static void read_now(copse_queue *q, copse_buffer *src, size_t offset, void *dst, size_t size)
{
    OK(copse_queue_read(q, src, offset, dst, size));
    OK(copse_queue_finish(q));
}

static uint32_t *words(size_t count, uint32_t seed)
{
    uint32_t *w = malloc(count * sizeof *w);
    for (size_t i = 0; i < count; i++)
        w[i] = (uint32_t)i * 2654435761u + seed;
    return w;
}

static void expect_words(const uint32_t *got, const uint32_t *want, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (got[i] != want[i])
            fail_msg("word %zu of %zu is %08x, not %08x", i, count, got[i], want[i]);
}

/* ---- the kernel of these tests: y = -x, exact on every device ---- */

enum {
#define UNARY(name, number, ...)  OP_##name = number,
#define SCALED(name, number, ...) OP_##name = number,
#include "kernels/unary.def"
};

static struct copse_kernel *negate(struct rig *r)
{
    struct copse_kernel *k = NULL;
    OK(copse__kernel_get(r->dev, COPSE_KERNEL_unary, (int32_t[]){ OP_neg }, &k));
    return k;
}

static uint64_t negate_groups(const struct copse_kernel *k, size_t count)
{
    const uint32_t size = k->group_x * k->group_y;
    return (count + size - 1) / size;
}

/* Groups `from` to `to` of the dispatch that negates `count` floats. */
static struct copse_command negate_part(struct rig *r, copse_buffer *src, size_t src_offset,
                                        copse_buffer *dst, size_t dst_offset, size_t count,
                                        uint64_t from, uint64_t to)
{
    struct copse_command c;
    const struct copse_params_unary params = { .n = (uint32_t)count };
    const struct copse_binding bindings[] = { { src, src_offset, count * 4 },
                                              { dst, dst_offset, count * 4 } };
    OK(copse__dispatch_init(&c, negate(r), bindings, 2, &params, to - from, (uint32_t)from));
    return c;
}

static struct copse_command negate_all(struct rig *r, copse_buffer *src, copse_buffer *dst,
                                       size_t count)
{
    return negate_part(r, src, 0, dst, 0, count, 0, negate_groups(negate(r), count));
}

static struct copse_command copy_all(copse_buffer *src, copse_buffer *dst, size_t size)
{
    return (struct copse_command){ .kind = COPSE_COMMAND_COPY,
                                   .bindings = { { src, 0, size }, { dst, 0, size } },
                                   .binding_count = 2 };
}

static float *floats(size_t count)
{
    float *f = malloc(count * sizeof *f);
    for (size_t i = 0; i < count; i++)
        f[i] = (float)(i % 100003) - 50001.5f;
    return f;
}

/* ---- memory ---- */

static void write_and_read_keep_neighbours(void **state)
{
    struct rig *r = *state;
    enum { N = 1024 };
    static const struct {
        size_t at, count;
    } ranges[] = { { 0, 1 }, { 1, 1 }, { 3, 5 }, { 17, 63 }, { 100, 257 }, { N - 1, 1 }, { 0, N } };
    copse_buffer *buf = buffer(r, N * 4);
    uint32_t *want = words(N, 1), *got = words(N, 2), *part = words(N, 3);

    OK(copse_queue_write(r->queue, buf, 0, want, N * 4));
    for (size_t i = 0; i < COPSE_COUNT(ranges); i++) {
        const size_t at = ranges[i].at, count = ranges[i].count;
        for (size_t j = 0; j < count; j++)
            want[at + j] = part[j] ^ (uint32_t)i;
        OK(copse_queue_write(r->queue, buf, at * 4, want + at, count * 4));
        read_now(r->queue, buf, 0, got, N * 4);
        expect_words(got, want, N);
        memset(got, 0xee, N * 4);
        read_now(r->queue, buf, at * 4, got, count * 4);
        expect_words(got, want + at, count);
        if (count < N)
            assert_int_equal(got[count], 0xeeeeeeee);
    }
    free(want);
    free(got);
    free(part);
    copse_buffer_release(&buf);
}

static void sizes_are_rounded_up_to_words(void **state)
{
    struct rig *r = *state;
    for (size_t size = 1; size <= 9; size++) {
        copse_buffer *buf = buffer(r, size);
        assert_int_equal(copse_buffer_size(buf), (size + 3) / 4 * 4);
        copse_buffer_release(&buf);
    }
}

static void large_transfers_arrive_whole(void **state)
{
    struct rig *r = *state;
    const size_t n = 10 * MIB + 3; /* more than a staging block */
    copse_buffer *buf = buffer(r, n * 4);
    uint32_t *want = words(n, 7), *got = words(n, 0);
    OK(copse_queue_write(r->queue, buf, 0, want, n * 4));
    read_now(r->queue, buf, 0, got, n * 4);
    expect_words(got, want, n);
    free(want);
    free(got);
    copse_buffer_release(&buf);
}

static void many_transfers_fit_into_one_submission(void **state)
{
    struct rig *r = *state;
    enum { N = 64 * 1024, PARTS = 1500, PART = N / 32 };
    copse_buffer *buf = buffer(r, N * 4);
    uint32_t *want = words(N, 0), *got = words(N, 1), *part = words(PART, 2);

    OK(copse_queue_write(r->queue, buf, 0, want, N * 4));
    for (uint32_t i = 0; i < PARTS; i++) {
        const size_t at = (i * 7919u) % (N - PART);
        for (size_t j = 0; j < PART; j++)
            want[at + j] = part[j] = i * 65536u + (uint32_t)j;
        OK(copse_queue_write(r->queue, buf, at * 4, part, PART * 4));
        OK(copse_queue_read(r->queue, buf, at * 4, got + at, PART * 4));
    }
    OK(copse_queue_read(r->queue, buf, 0, got, N * 4));
    OK(copse_queue_finish(r->queue));
    expect_words(got, want, N);
    free(want);
    free(got);
    free(part);
    copse_buffer_release(&buf);
}

static void written_bytes_are_taken_and_reads_are_in_order(void **state)
{
    struct rig *r = *state;
    enum { N = 777 };
    copse_buffer *buf = buffer(r, N * 4);
    uint32_t *src = words(N, 1), *want[3], *got[3];
    for (int i = 0; i < 3; i++) {
        want[i] = words(N, 10u + (uint32_t)i);
        got[i] = words(N, 0);
        memcpy(src, want[i], N * 4);
        OK(copse_queue_write(r->queue, buf, 0, src, N * 4));
        memset(src, 0, N * 4);
        OK(copse_queue_read(r->queue, buf, 0, got[i], N * 4));
    }
    OK(copse_queue_finish(r->queue));
    for (int i = 0; i < 3; i++) {
        expect_words(got[i], want[i], N);
        free(want[i]);
        free(got[i]);
    }
    free(src);
    copse_buffer_release(&buf);
}

static void fill_repeats_a_word_and_keeps_neighbours(void **state)
{
    struct rig *r = *state;
    enum { N = 500 };
    copse_buffer *buf = buffer(r, N * 4);
    uint32_t *want = words(N, 0), *got = words(N, 1);
    static const uint32_t fills[] = { 0, 0x01020304, 0x7f800000, 0xffffffff };

    OK(copse_queue_write(r->queue, buf, 0, want, N * 4));
    for (size_t i = 0; i < COPSE_COUNT(fills); i++) {
        const size_t at = 1 + 100 * i, count = 3 + 30 * i;
        OK(copse_queue_fill(r->queue, buf, at * 4, count * 4, fills[i]));
        for (size_t j = 0; j < count; j++)
            want[at + j] = fills[i];
    }
    read_now(r->queue, buf, 0, got, N * 4);
    expect_words(got, want, N);
    free(want);
    free(got);
    copse_buffer_release(&buf);
}

static void copy_moves_ranges_and_keeps_neighbours(void **state)
{
    struct rig *r = *state;
    enum { N = 600 };
    copse_buffer *a = buffer(r, N * 4), *b = buffer(r, N * 4);
    uint32_t *wa = words(N, 1), *wb = words(N, 2), *got = words(N, 3);

    OK(copse_queue_write(r->queue, a, 0, wa, N * 4));
    OK(copse_queue_write(r->queue, b, 0, wb, N * 4));
    OK(copse_queue_copy(r->queue, a, 12, b, 404, 133 * 4));
    memcpy(wb + 101, wa + 3, 133 * 4);
    OK(copse_queue_copy(r->queue, b, 4, b, 300 * 4, 299 * 4)); /* inside one buffer, just apart */
    memcpy(wb + 300, wb + 1, 299 * 4);
    read_now(r->queue, b, 0, got, N * 4);
    expect_words(got, wb, N);
    read_now(r->queue, a, 0, got, N * 4);
    expect_words(got, wa, N);
    free(wa);
    free(wb);
    free(got);
    copse_buffer_release(&a);
    copse_buffer_release(&b);
}

static void zero_sizes_are_legal(void **state)
{
    struct rig *r = *state;
    copse_buffer *buf = buffer(r, 64);
    uint32_t want[16] = { 1, 2, 3 }, got[16];
    struct copse_segment *seg = NULL;
    const struct copse_command nothing = negate_part(r, buf, 0, buf, 0, 0, 0, 0);
    const struct copse_command mixed[] = { nothing, copy_all(buf, buf, 0), nothing };

    OK(copse_queue_write(r->queue, buf, 0, want, 64));
    OK(copse_queue_write(r->queue, buf, 64, NULL, 0));
    OK(copse_queue_read(r->queue, buf, 0, NULL, 0));
    OK(copse_queue_copy(r->queue, buf, 0, buf, 0, 0));
    OK(copse_queue_fill(r->queue, buf, 8, 0, 9));
    OK(copse__queue_encode(r->queue, &nothing));
    OK(copse__segment_create(r->queue, mixed, COPSE_COUNT(mixed), &seg));
    OK(copse__segment_replay(seg));
    read_now(r->queue, buf, 0, got, 64);
    expect_words(got, want, 16);
    OK(copse_queue_finish(r->queue)); /* nothing queued */
    OK(copse_queue_finish(r->queue));
    copse__segment_release(&seg);
    copse_buffer_release(&buf);
}

static void host_memory_can_be_used_itself(void **state)
{
    struct rig *r = *state;
    const size_t alignment = r->dev->limits->host_import_alignment;
    copse_buffer *buf = NULL, *other = NULL;
    if (alignment == 0) {
        uint32_t word;
        FAILS(COPSE_ERR_UNSUPPORTED,
              copse_buffer_create(r->dev, &(struct copse_buffer_params){ 4, &word }, &buf),
              "host memory");
        SKIP("no import of host memory");
    }

    const size_t size = 4 * COPSE_MAX(alignment, KIB), n = size / 4;
    unsigned char *block = malloc(size + alignment);
    uint32_t *host = (uint32_t *)(block + (alignment - (uintptr_t)block % alignment) % alignment);
    uint32_t *want = words(n, 1), *got = words(n, 0);
    memcpy(host, want, size);
    OK(copse_buffer_create(r->dev, &(struct copse_buffer_params){ size, host }, &buf));
    other = buffer(r, size);
    OK(copse_queue_copy(r->queue, buf, 0, other, 0, size));
    read_now(r->queue, other, 0, got, size);
    expect_words(got, want, n);

    free(want);
    want = words(n, 2);
    OK(copse_queue_write(r->queue, other, 0, want, size));
    OK(copse_queue_copy(r->queue, other, 0, buf, 0, size));
    OK(copse_queue_finish(r->queue));
    read_now(r->queue, buf, 0, got, size);
    expect_words(got, want, n);
    if (r->dev->limits->has_unified_memory)
        expect_words(host, want, n);

    copse_buffer_release(&buf);
    FAILS(COPSE_ERR_ARGUMENT,
          copse_buffer_create(r->dev, &(struct copse_buffer_params){ size, (char *)host + 4 }, &buf),
          "multiples");
    copse_buffer_release(&other);
    free(block);
    free(want);
    free(got);
}

/* ---- order ---- */

/* A reproducible mixture of dependent commands on a few buffers, beside a model of them. */
static void run_mixture(copse_queue *q, struct rig *r, uint32_t seed, int steps)
{
    enum { BUFFERS = 4, N = 1000 };
    copse_buffer *buf[BUFFERS];
    float *model[BUFFERS], *got[BUFFERS];
    struct copse_stream s;

    copse__stream_init(&s, seed, 0);
    for (int i = 0; i < BUFFERS; i++) {
        buf[i] = buffer(r, N * 4);
        model[i] = floats(N);
        got[i] = floats(N);
        OK(copse_queue_write(q, buf[i], 0, model[i], N * 4));
    }
    for (int step = 0; step < steps; step++) {
        const uint32_t a = copse__stream_below(&s, BUFFERS);
        const uint32_t b = (a + 1 + copse__stream_below(&s, BUFFERS - 1)) % BUFFERS;
        const size_t at = copse__stream_below(&s, N), n = 1 + copse__stream_below(&s, N - (uint32_t)at);
        switch (copse__stream_below(&s, 5)) {
        case 0:
            for (size_t i = 0; i < n; i++)
                model[a][at + i] = (float)(step * 1000 + (int)i);
            OK(copse_queue_write(q, buf[a], at * 4, model[a] + at, n * 4));
            break;
        case 1:
            for (size_t i = 0; i < n; i++)
                model[a][at + i] = 1.5f;
            OK(copse_queue_fill(q, buf[a], at * 4, n * 4, 0x3fc00000));
            break;
        case 2:
            memcpy(model[b], model[a] + at, n * 4);
            OK(copse_queue_copy(q, buf[a], at * 4, buf[b], 0, n * 4));
            break;
        case 3: {
            const struct copse_command c = negate_all(r, buf[a], buf[b], n);
            for (size_t i = 0; i < n; i++)
                model[b][i] = -model[a][i];
            OK(copse__queue_encode(q, &c));
            break;
        }
        case 4:
            if (copse__stream_below(&s, 4) == 0)
                OK(copse_queue_submit(q, NULL));
            break;
        }
    }
    for (int i = 0; i < BUFFERS; i++)
        OK(copse_queue_read(q, buf[i], 0, got[i], N * 4));
    OK(copse_queue_finish(q));
    for (int i = 0; i < BUFFERS; i++) {
        expect_words((uint32_t *)got[i], (uint32_t *)model[i], N);
        free(model[i]);
        free(got[i]);
        copse_buffer_release(&buf[i]);
    }
}

static void dependent_commands_run_in_order(void **state)
{
    struct rig *r = *state;
    for (uint32_t seed = 0; seed < 4; seed++)
        run_mixture(r->queue, r, seed, 150);
}

static void tickets_grow_and_are_reached_in_order(void **state)
{
    struct rig *r = *state;
    copse_buffer *buf = buffer(r, MIB);
    uint64_t tickets[5];

    for (uint32_t i = 0; i < 5; i++) {
        OK(copse_queue_fill(r->queue, buf, 0, MIB, i));
        OK(copse_queue_submit(r->queue, &tickets[i]));
        assert_true(i == 0 || tickets[i] > tickets[i - 1]);
    }
    const copse_status asked = copse_queue_wait(r->queue, tickets[4], 0);
    assert_true(asked == COPSE_OK || asked == COPSE_ERR_TIMEOUT);
    OK(copse_queue_wait(r->queue, tickets[4], LONG_NS));
    for (int i = 0; i < 5; i++)
        OK(copse_queue_wait(r->queue, tickets[i], 0));
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_wait(r->queue, tickets[4] + 1, 0), "not given out");
    copse_buffer_release(&buf);
}

static void asking_becomes_true_without_waiting(void **state)
{
    struct rig *r = *state;
    copse_buffer *buf = buffer(r, 64);
    uint64_t ticket;
    OK(copse_queue_fill(r->queue, buf, 0, 64, 5));
    OK(copse_queue_submit(r->queue, &ticket));
    const uint64_t deadline = copse__now_ns() + LONG_NS;
    copse_status s;
    while ((s = copse_queue_wait(r->queue, ticket, 0)) == COPSE_ERR_TIMEOUT) {
        assert_true(copse__now_ns() < deadline);
        copse__sleep_ns(100000);
    }
    OK(s);
    copse_buffer_release(&buf);
}

static void two_queues_work_and_wait_for_each_other(void **state)
{
    struct rig *r = *state;
    enum { N = 100000 };
    copse_queue *second = NULL;
    copse_buffer *a = buffer(r, N * 4), *b = buffer(r, N * 4);
    float *x = floats(N), *got = floats(N);
    uint64_t ticket;

    OK(copse_queue_create(r->dev, &second));
    for (int round = 0; round < 5; round++) {
        x[7] = (float)round;
        const struct copse_command c = negate_all(r, a, b, N);
        OK(copse_queue_write(r->queue, a, 0, x, N * 4));
        OK(copse__queue_encode(r->queue, &c));
        OK(copse_queue_submit(r->queue, &ticket));
        OK(copse__queue_wait_for(second, r->queue, ticket));
        OK(copse_queue_read(second, b, 0, got, N * 4));
        OK(copse_queue_submit(second, &ticket));
        OK(copse__queue_wait_for(r->queue, second, ticket)); /* a may be written again */
        OK(copse_queue_wait(second, ticket, LONG_NS));
        for (size_t i = 0; i < N; i++)
            if (got[i] != -x[i])
                fail_msg("round %d: element %zu is %g, not %g", round, i, got[i], -x[i]);
    }
    free(x);
    free(got);
    copse_buffer_release(&a);
    copse_buffer_release(&b);
    copse_queue_release(&second);
}

struct worker {
    struct rig *r;
    copse_queue *queue;
    uint32_t seed;
};

static void work(void *arg)
{
    struct worker *w = arg;
    run_mixture(w->queue, w->r, w->seed, 60);
}

static void two_threads_have_a_queue_each(void **state)
{
    struct rig *r = *state;
    struct worker w[2] = { { r, r->queue, 11 }, { r, NULL, 12 } };
    copse_thread thread;

    OK(copse_queue_create(r->dev, &w[1].queue));
    OK(copse__thread_start(&thread, work, &w[1]));
    work(&w[0]);
    copse__thread_join(&thread);
    copse_queue_release(&w[1].queue);
}

/* ---- kernels ---- */

static void kernels_are_compiled_once_per_specialisation(void **state)
{
    struct rig *r = *state;
    struct copse_kernel *a = negate(r), *b = NULL;
    assert_ptr_equal(a, negate(r));
    assert_true(copse__kernel_fits(r->dev, COPSE_KERNEL_unary));
    assert_true(a->group_x * a->group_y <= r->dev->limits->max_group_size);
    OK(copse__kernel_get(r->dev, COPSE_KERNEL_unary, (int32_t[]){ OP_abs }, &b));
    assert_ptr_not_equal(a, b);

    copse_buffer *x = buffer(r, 64), *y = buffer(r, 64);
    const float want[16] = { -3, 4, -0.0f };
    float got[16];
    struct copse_command c;
    OK(copse__dispatch_init(&c, b, (struct copse_binding[]){ { x, 0, 64 }, { y, 0, 64 } }, 2,
                            &(struct copse_params_unary){ .n = 16 }, 1, 0));
    OK(copse_queue_write(r->queue, x, 0, want, 64));
    OK(copse__queue_encode(r->queue, &c));
    read_now(r->queue, y, 0, got, 64);
    assert_true(got[0] == 3.0f && got[1] == 4.0f && got[2] == 0.0f);
    copse_buffer_release(&x);
    copse_buffer_release(&y);
}

static void a_dispatch_keeps_to_its_binding(void **state)
{
    struct rig *r = *state;
    const size_t n = 1001, step = 2048 * 4; /* a multiple of every alignment */
    copse_buffer *a = buffer(r, 3 * step), *b = buffer(r, 3 * step);
    float *x = floats(3 * step / 4), *got = floats(3 * step / 4);

    OK(copse_queue_write(r->queue, a, 0, x, 3 * step));
    OK(copse_queue_fill(r->queue, b, 0, 3 * step, 0x40e00000)); /* 7.0 */
    const struct copse_command c =
        negate_part(r, a, 2 * step, b, step, n, 0, negate_groups(negate(r), n));
    OK(copse__queue_encode(r->queue, &c));
    read_now(r->queue, b, 0, got, 3 * step);
    for (size_t i = 0; i < 3 * step / 4; i++) {
        const size_t at = i - step / 4;
        const float want = i >= step / 4 && at < n ? -x[2 * step / 4 + at] : 7.0f;
        if (got[i] != want)
            fail_msg("element %zu is %g, not %g", i, got[i], want);
    }
    free(x);
    free(got);
    copse_buffer_release(&a);
    copse_buffer_release(&b);
}

static void expect_negated(struct rig *r, copse_buffer *buf, const float *x, size_t n)
{
    float *got = floats(n);
    read_now(r->queue, buf, 0, got, n * 4);
    for (size_t i = 0; i < n; i++)
        if (got[i] != -x[i])
            fail_msg("element %zu of %zu is %g, not %g", i, n, got[i], -x[i]);
    free(got);
}

static void more_groups_than_an_axis_holds_are_folded(void **state)
{
    struct rig *r = *state;
    const struct copse_kernel *k = negate(r);
    const size_t n = (size_t)65541 * k->group_x * k->group_y + 5;
    copse_buffer *a = buffer(r, n * 4), *b = buffer(r, n * 4);
    float *x = floats(n);

    const struct copse_command c = negate_all(r, a, b, n);
    assert_true((uint64_t)c.groups_x * c.groups_y >= negate_groups(k, n));
    assert_true(c.groups_x <= r->dev->limits->max_group_count);
    OK(copse_queue_write(r->queue, a, 0, x, n * 4));
    OK(copse__queue_encode(r->queue, &c));
    expect_negated(r, b, x, n);
    free(x);
    copse_buffer_release(&a);
    copse_buffer_release(&b);
}

static void a_cut_dispatch_gives_the_same(void **state)
{
    struct rig *r = *state;
    const struct copse_kernel *k = negate(r);
    const size_t n = (size_t)100 * k->group_x * k->group_y + 3;
    const uint64_t groups = negate_groups(k, n);
    copse_buffer *a = buffer(r, n * 4), *b = buffer(r, n * 4);

    if (!r->dev->limits->has_group_base) {
        struct copse_command c;
        const struct copse_binding bindings[] = { { a, 0, n * 4 }, { b, 0, n * 4 } };
        FAILS(COPSE_ERR_UNSUPPORTED,
              copse__dispatch_init(&c, negate(r), bindings, 2,
                                   &(struct copse_params_unary){ .n = (uint32_t)n }, 50, 50),
              "cut");
        copse_buffer_release(&a);
        copse_buffer_release(&b);
        SKIP("dispatches are never cut");
    }
    float *x = floats(n);
    OK(copse_queue_write(r->queue, a, 0, x, n * 4));
    OK(copse_queue_fill(r->queue, b, 0, n * 4, 0));
    for (uint64_t from = 0, to; from < groups; from = to) {
        to = COPSE_MIN(from + 33, groups);
        const struct copse_command c = negate_part(r, a, 0, b, 0, n, from, to);
        OK(copse__queue_encode(r->queue, &c));
    }
    expect_negated(r, b, x, n);
    free(x);
    copse_buffer_release(&a);
    copse_buffer_release(&b);
}

/* ---- segments ---- */

static void segments_are_replayed_many_times(void **state)
{
    struct rig *r = *state;
    enum { N = 5000 };
    copse_buffer *a = buffer(r, N * 4), *b = buffer(r, N * 4);
    float *x = floats(N);
    struct copse_segment *seg = NULL;
    struct copse_memory_stats before, after;

    struct copse_command commands[] = { negate_all(r, a, b, N), negate_all(r, a, b, 0),
                                        copy_all(b, a, N * 4) };
    OK(copse__segment_create(r->queue, commands, COPSE_COUNT(commands), &seg));
    memset(commands, 0xff, sizeof commands); /* they were copied */
    OK(copse_queue_write(r->queue, a, 0, x, N * 4));
    for (int i = 0; i < 11; i++) { /* without waiting */
        OK(copse__segment_replay(seg));
        if (i % 3 == 0)
            OK(copse_queue_submit(r->queue, NULL));
    }
    expect_negated(r, a, x, N);

    copse_context_memory(r->ctx, &before);
    for (int i = 0; i < 20; i++) { /* waiting each time, without host allocation */
        OK(copse__segment_replay(seg));
        OK(copse_queue_finish(r->queue));
    }
    copse_context_memory(r->ctx, &after);
    assert_int_equal(after.calls, before.calls);
    expect_negated(r, a, x, N);
    copse__segment_release(&seg);
    free(x);
    copse_buffer_release(&a);
    copse_buffer_release(&b);
}

static void replays_are_ordered_with_what_surrounds_them(void **state)
{
    struct rig *r = *state;
    enum { N = 3000, ROUNDS = 6 };
    copse_buffer *a = buffer(r, N * 4), *b = buffer(r, N * 4);
    float *x[ROUNDS], *got[ROUNDS];
    struct copse_segment *first = NULL, *second = NULL;

    const struct copse_command there = negate_all(r, a, b, N), back = negate_all(r, b, a, N);
    OK(copse__segment_create(r->queue, &there, 1, &first));
    OK(copse__segment_create(r->queue, &back, 1, &second));
    for (int i = 0; i < ROUNDS; i++) {
        x[i] = floats(N);
        got[i] = floats(N);
        x[i][i] = 0.25f;
        OK(copse_queue_write(r->queue, a, 0, x[i], N * 4));
        OK(copse__segment_replay(first));
        OK(copse__segment_replay(second));
        OK(copse__segment_replay(first));
        OK(copse_queue_read(r->queue, b, 0, got[i], N * 4));
        OK(copse_queue_fill(r->queue, b, 0, N * 4, 0));
    }
    OK(copse_queue_finish(r->queue));
    for (int i = 0; i < ROUNDS; i++) {
        for (size_t j = 0; j < N; j++)
            if (got[i][j] != -x[i][j])
                fail_msg("round %d: element %zu is %g, not %g", i, j, got[i][j], -x[i][j]);
        free(x[i]);
        free(got[i]);
    }
    copse__segment_release(&first);
    copse__segment_release(&second);
    copse_buffer_release(&a);
    copse_buffer_release(&b);
}

static void a_long_segment_keeps_its_order(void **state)
{
    struct rig *r = *state;
    enum { N = 300, COMMANDS = 401 }; /* an odd number of negations */
    copse_buffer *a = buffer(r, N * 4), *b = buffer(r, N * 4);
    float *x = floats(N);
    struct copse_command *commands = malloc(COMMANDS * sizeof *commands);
    struct copse_segment *seg = NULL;

    for (int i = 0; i < COMMANDS; i++)
        commands[i] = i % 2 ? negate_all(r, b, a, N) : negate_all(r, a, b, N);
    OK(copse__segment_create(r->queue, commands, COMMANDS, &seg));
    OK(copse_queue_write(r->queue, a, 0, x, N * 4));
    OK(copse__segment_replay(seg));
    expect_negated(r, b, x, N);
    copse__segment_release(&seg);
    free(commands);
    free(x);
    copse_buffer_release(&a);
    copse_buffer_release(&b);
}

static void a_segment_holds_its_buffers_and_waits_on_release(void **state)
{
    struct rig *r = *state;
    enum { N = 4000 };
    copse_buffer *a = buffer(r, N * 4), *b = buffer(r, N * 4), *hold = b;
    float *x = floats(N);
    struct copse_segment *seg = NULL;

    const struct copse_command c = negate_all(r, a, b, N);
    OK(copse__segment_create(r->queue, &c, 1, &seg));
    OK(copse_queue_write(r->queue, a, 0, x, N * 4));
    copse_buffer_release(&a);
    copse_buffer_retain(hold);
    copse_buffer_release(&b);
    OK(copse__segment_replay(seg));
    OK(copse__segment_replay(seg));
    copse__segment_release(&seg); /* not submitted yet */
    expect_negated(r, hold, x, N);
    free(x);
    copse_buffer_release(&hold);
}

/* ---- release ---- */

static void buffers_may_be_released_while_work_is_queued(void **state)
{
    struct rig *r = *state;
    enum { N = 20000, ROUNDS = 20 };
    float *x[ROUNDS], *got[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        x[i] = floats(N);
        got[i] = floats(N);
        x[i][1] = (float)i;
        copse_buffer *a = buffer(r, N * 4), *b = NULL;
        OK(copse__buffer_acquire(r->dev, N * 4, &b));
        const struct copse_command c = negate_all(r, a, b, N);
        OK(copse_queue_write(r->queue, a, 0, x[i], N * 4));
        OK(copse__queue_encode(r->queue, &c));
        copse_buffer_release(&a);
        OK(copse_queue_read(r->queue, b, 0, got[i], N * 4));
        copse_buffer_release(&b);
        if (i % 4 == 3)
            OK(copse_queue_submit(r->queue, NULL));
    }
    OK(copse_queue_finish(r->queue));
    assert_null(r->dev->garbage);
    for (int i = 0; i < ROUNDS; i++) {
        for (size_t j = 0; j < N; j++)
            if (got[i][j] != -x[i][j])
                fail_msg("round %d: element %zu is %g, not %g", i, j, got[i][j], -x[i][j]);
        free(x[i]);
        free(got[i]);
    }
}

static void any_release_order_is_legal(void **state)
{
    struct rig *r = *state;
    enum { N = 2000 };
    copse_context *ctx = context();
    copse_device *dev = NULL;
    copse_queue *queue = NULL;
    copse_buffer *buf = NULL;
    uint32_t *want = words(N, 4), *got = words(N, 0);

    (void)r;
    OK(copse_device_open(ctx, device_id, NULL, &dev));
    copse_context_release(&ctx);
    OK(copse_queue_create(dev, &queue));
    OK(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = N * 4 }, &buf));
    copse_device_release(&dev);
    OK(copse_queue_write(queue, buf, 0, want, N * 4));
    OK(copse_queue_read(queue, buf, 0, got, N * 4));
    copse_buffer_release(&buf);
    copse_queue_release(&queue); /* waits */
    expect_words(got, want, N);
    copse_queue_release(&queue); /* NULL is fine */
    free(want);
    free(got);
}

/* ---- devices and limits ---- */

static void a_device_opens_several_times_and_in_parts(void **state)
{
    struct rig *r = *state;
    for (uint32_t share = 0; share < 2; share++) {
        struct rig part = { .ctx = r->ctx };
        OK(copse_device_open(r->ctx, device_id, &(struct copse_device_params){ share, 2 },
                             &part.dev));
        OK(copse_queue_create(part.dev, &part.queue));
        run_mixture(part.queue, &part, share, 40);
        run_mixture(r->queue, r, share, 40);
        copse_queue_release(&part.queue);
        copse_device_release(&part.dev);
    }
    copse_device *dev = NULL;
    FAILS(COPSE_ERR_ARGUMENT,
          copse_device_open(r->ctx, device_id, &(struct copse_device_params){ 2, 2 }, &dev),
          "share 2 of 2");
}

static void unknown_ids_are_no_devices(void **state)
{
    struct rig *r = *state;
    static const char *const ids[] = { "", "opencl", "opencl:999", "none:0", "host:00", "host:0 " };
    copse_device *dev = NULL;
    for (size_t i = 0; i < COPSE_COUNT(ids); i++) {
        FAILS(COPSE_ERR_NO_DEVICE, copse_device_open(r->ctx, ids[i], NULL, &dev), ids[i]);
        assert_null(dev);
    }
}

static void the_description_makes_sense(void **state)
{
    struct rig *r = *state;
    const struct copse_device_info *d = copse_device_describe(r->dev);
    const struct copse_limits *l = &d->limits;
    uint64_t free_bytes = 1, total = 1;

    assert_string_equal(d->id, device_id);
    assert_true(strncmp(d->id, d->backend, strlen(d->backend)) == 0);
    assert_true(d->is_usable && d->name[0]);
    assert_true(l->max_buffer_bytes >= MIB && l->max_binding_bytes <= l->max_buffer_bytes);
    assert_in_range(l->offset_alignment, 4, 256);
    assert_in_range(l->max_group_size, 1, 256);
    assert_in_range(l->max_bindings, 4, COPSE_MAX_BINDINGS);
    assert_true(l->group_memory_bytes <= 32 * KIB && l->max_param_bytes >= 128);
    assert_true(l->max_group_count >= 1 && l->compute_units >= 1 && l->subgroup_size >= 1);
    OK(copse_device_memory(r->dev, &free_bytes, &total));
    assert_true(total == 0 || free_bytes <= total);
}

static void broken_rules_are_named_and_queue_nothing(void **state)
{
    struct rig *r = *state;
    const size_t step = 256;
    copse_buffer *a = buffer(r, 1024), *b = buffer(r, 1024), *foreign = NULL, *none = NULL;
    copse_device *dev = NULL;
    copse_queue *q = r->queue;
    uint32_t *want = words(256, 1), got[256];
    const struct copse_limits *l = r->dev->limits;

    OK(copse_device_open(r->ctx, device_id, NULL, &dev));
    OK(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = 1024 }, &foreign));
    OK(copse_queue_write(q, a, 0, want, 1024));

    FAILS(COPSE_ERR_ARGUMENT, copse_queue_write(q, a, 2, got, 4), "multiples of 4");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_write(q, a, 0, got, 6), "multiples of 4");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_write(q, a, 1024, got, 4), "ends behind");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_write(q, a, 8, got, SIZE_MAX - 3), "ends behind");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_write(q, foreign, 0, got, 4), "another opened device");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_write(q, NULL, 0, got, 4), "write without");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_write(q, a, 0, NULL, 4), "from nowhere");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_read(q, a, 4, got, 1024), "ends behind");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_read(q, a, 0, NULL, 4), "to nowhere");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_fill(q, a, 0, 1028, 0), "end behind");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_copy(q, a, 0, a, 4, 8), "overlaps");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_copy(q, a, 0, foreign, 0, 8), "another opened device");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_copy(q, a, 0, b, 1020, 8), "end behind");

    struct copse_command c = negate_part(r, a, 0, a, 0, 8, 0, 1);
    FAILS(COPSE_ERR_ARGUMENT, copse__queue_encode(q, &c), "overlap");
    c = negate_part(r, a, 0, foreign, 0, 8, 0, 1);
    FAILS(COPSE_ERR_ARGUMENT, copse__queue_encode(q, &c), "another opened device");
    c = negate_part(r, a, step * 3, b, 0, 256, 0, 1);
    FAILS(COPSE_ERR_ARGUMENT, copse__queue_encode(q, &c), "end behind");
    if (l->offset_alignment > 4) {
        c = negate_part(r, a, l->offset_alignment / 2, b, 0, 8, 0, 1);
        FAILS(COPSE_ERR_ARGUMENT, copse__queue_encode(q, &c), "multiples of");
    }
    struct copse_segment *seg = NULL;
    FAILS(COPSE_ERR_ARGUMENT, copse__segment_create(q, &c, 1, &seg), "command 0 of 1");
    FAILS(COPSE_ERR_ARGUMENT, copse__kernel_get(r->dev, COPSE_KERNEL_COUNT, NULL, &c.kernel),
          "no kernel");

    FAILS(COPSE_ERR_ARGUMENT,
          copse_buffer_create(r->dev, &(struct copse_buffer_params){ .size = 0 }, &none), "one byte");
    FAILS(COPSE_ERR_ARGUMENT,
          copse_buffer_create(r->dev, &(struct copse_buffer_params){ .size = SIZE_MAX }, &none),
          "largest buffer");
    FAILS(COPSE_ERR_ARGUMENT,
          copse_buffer_create(
              r->dev, &(struct copse_buffer_params){ .size = l->max_buffer_bytes + 1 }, &none),
          "largest buffer");
    assert_null(none);

    read_now(q, a, 0, got, 1024);
    expect_words(got, want, 256);
    free(want);
    copse_buffer_release(&a);
    copse_buffer_release(&b);
    copse_buffer_release(&foreign);
    copse_device_release(&dev);
}

static void queues_are_limited_and_their_places_return(void **state)
{
    struct rig *r = *state;
    copse_queue *queues[8] = { NULL };
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 7; i++)
            OK(copse_queue_create(r->dev, &queues[i]));
        FAILS(COPSE_ERR_UNSUPPORTED, copse_queue_create(r->dev, &queues[7]), "queues already");
        run_mixture(queues[3 + round], r, 5, 20);
        for (int i = 0; i < 7; i++)
            copse_queue_release(&queues[i]);
    }
}

/* ---- main ---- */

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
static const struct CMUnitTest contract[] = {
    TEST(write_and_read_keep_neighbours),
    TEST(sizes_are_rounded_up_to_words),
    TEST(large_transfers_arrive_whole),
    TEST(many_transfers_fit_into_one_submission),
    TEST(written_bytes_are_taken_and_reads_are_in_order),
    TEST(fill_repeats_a_word_and_keeps_neighbours),
    TEST(copy_moves_ranges_and_keeps_neighbours),
    TEST(zero_sizes_are_legal),
    TEST(host_memory_can_be_used_itself),
    TEST(dependent_commands_run_in_order),
    TEST(tickets_grow_and_are_reached_in_order),
    TEST(asking_becomes_true_without_waiting),
    TEST(two_queues_work_and_wait_for_each_other),
    TEST(two_threads_have_a_queue_each),
    TEST(kernels_are_compiled_once_per_specialisation),
    TEST(a_dispatch_keeps_to_its_binding),
    TEST(more_groups_than_an_axis_holds_are_folded),
    TEST(a_cut_dispatch_gives_the_same),
    TEST(segments_are_replayed_many_times),
    TEST(replays_are_ordered_with_what_surrounds_them),
    TEST(a_long_segment_keeps_its_order),
    TEST(a_segment_holds_its_buffers_and_waits_on_release),
    TEST(buffers_may_be_released_while_work_is_queued),
    TEST(any_release_order_is_legal),
    TEST(a_device_opens_several_times_and_in_parts),
    TEST(unknown_ids_are_no_devices),
    TEST(the_description_makes_sense),
    TEST(broken_rules_are_named_and_queue_nothing),
    TEST(queues_are_limited_and_their_places_return),
};

static int run(const char *id)
{
    device_id = id;
    is_fake = strncmp(id, "fake:", 5) == 0;
    return cmocka_run_group_tests_name(id, contract, NULL, NULL);
}

int main(int argc, char **argv)
{
    copse_context *ctx = NULL;
    const struct copse_device_info *devices;
    size_t count;
    int failed = 0;

    if (argc > 1 && strcmp(argv[1], "--list") != 0)
        return run(argv[1]) != 0;
    if (copse_context_create(NULL, &ctx)) {
        fprintf(stderr, "%s\n", copse_last_error());
        return 1;
    }
    copse_context_devices(ctx, &devices, &count);
    for (size_t i = 0; i < count; i++) {
        if (argc > 1) {
            if (devices[i].is_usable)
                puts(devices[i].id);
        } else if (devices[i].is_usable) {
            printf("%s: %s, %s\n", devices[i].id, devices[i].name, devices[i].driver);
            failed += run(devices[i].id);
        } else {
            printf("%s: %s is not used: %s\n", devices[i].id, devices[i].name, devices[i].reason);
        }
    }
    copse_context_release(&ctx);
    if (argc == 1)
        failed += run("fake:0");
    return failed != 0;
}
