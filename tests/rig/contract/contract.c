/* SPDX-License-Identifier: MIT */
/* Shared by the tests of the backend contract. */
#include "tests/rig/contract/contract.h"
#include "copse/device/conformance.h"

#include <stdlib.h>

#include "copse/device/conformance.h"
#include "core/base/random.h"

const char *contract_device;
copse_status (*contract_lend)(copse_context *ctx, copse_device **out);

static bool is_fake(void)
{
    return strncmp(contract_device, "fake:", 5) == 0;
}

/* Stores nothing, so that a test's blocks can be counted. */
static void cache_get(void *user, const char *key,
                      void (*take)(void *to, const void *bytes, size_t size), void *to)
{
    (void)user;
    (void)key;
    (void)take;
    (void)to;
}

static void cache_put(void *user, const char *key, const void *bytes, size_t size)
{
    (void)user;
    (void)key;
    (void)bytes;
    (void)size;
}

copse_context *rig_context(void)
{
    const struct copse_context_params params = { .cache = { .get = cache_get, .put = cache_put } };
    copse_context *ctx = NULL;
    OK(is_fake() ? copse__context_create_with(&params, fake_backends, &ctx)
                 : copse_context_create(&params, &ctx));
    return ctx;
}

copse_status rig_open(copse_context *ctx, copse_device **out)
{
    return contract_lend ? contract_lend(ctx, out)
                         : copse_device_open(ctx, contract_device, NULL, out);
}

int contract_set_up(void **state)
{
    const struct copse_blocked_kernel *blocked;
    const struct copse_tuning_entry *tuned;
    size_t blocked_count, tuned_count;
    struct copse_memory_stats stats;
    struct rig *r = calloc(1, sizeof *r);
    *state = r;
    if (is_fake()) {
        fake_reset();
        copse_fake.devices[0].delay_polls = 2; /* the first poll never finds a result */
        copse_fake.devices[0].has_clock = true;
        copse_fake.devices[0].launch_ns = 1000;
    }
    r->ctx = rig_context();
    /* A context keeps the records of a device's kernels after the first open. */
    OK(rig_open(r->ctx, &r->dev));
    OK(copse_device_blocked(r->ctx, r->dev->info.id, &blocked, &blocked_count));
    OK(copse_device_tuning(r->ctx, r->dev->info.id, &tuned, &tuned_count));
    copse_device_release(&r->dev);
    copse_context_memory(r->ctx, &stats);
    r->blocks = stats.live_blocks;
    OK(rig_open(r->ctx, &r->dev));
    OK(copse_queue_create(r->dev, &r->queue));
    return 0;
}

int contract_tear_down(void **state)
{
    struct rig *r = *state;
    const size_t blocks = r->blocks;
    struct copse_memory_stats stats;
    copse_queue_release(&r->queue);
    copse_device_release(&r->dev);
    copse_context_memory(r->ctx, &stats);
    const bool is_clean = stats.live_blocks == blocks;
    copse_context_release(&r->ctx);
    free(r);
    if (!is_clean)
        print_error("%zu blocks before, %zu after\n", blocks, stats.live_blocks);
    return is_clean && copse_fake.early_fini == 0 ? 0 : -1;
}

copse_buffer *rig_buffer(struct rig *r, size_t size)
{
    copse_buffer *buf = NULL;
    OK(copse_buffer_create(r->dev, &(struct copse_buffer_params){ .size = size }, &buf));
    return buf;
}

void read_now(copse_queue *q, copse_buffer *src, size_t offset, void *dst, size_t size)
{
    OK(copse_queue_read(q, src, offset, dst, size));
    OK(copse_queue_finish(q));
}

uint32_t *words(size_t count, uint32_t seed)
{
    uint32_t *w = malloc(count * sizeof *w);
    for (size_t i = 0; i < count; i++)
        w[i] = (uint32_t)i * 2654435761u + seed;
    return w;
}

void expect_words(const uint32_t *got, const uint32_t *want, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (got[i] != want[i])
            fail_msg("word %zu of %zu is %08x, not %08x", i, count, got[i], want[i]);
}

enum {
#define UNARY(name, number, ...)  OP_##name = number,
#define SCALED(name, number, ...) OP_##name = number,
#include "kernels/elementwise/unary.def"
};

struct copse_kernel *negate(struct rig *r)
{
    struct copse_kernel *k = NULL;
    OK(copse__kernel_get(r->dev, COPSE_KERNEL_unary, (int32_t[]){ OP_neg }, &k));
    return k;
}

struct copse_kernel *absolute(struct rig *r)
{
    struct copse_kernel *k = NULL;
    OK(copse__kernel_get(r->dev, COPSE_KERNEL_unary, (int32_t[]){ OP_abs }, &k));
    return k;
}

uint64_t negate_groups(const struct copse_kernel *k, size_t count)
{
    const uint32_t size = k->group_x * k->group_y;
    return (count + size - 1) / size;
}

struct copse_command negate_part(struct rig *r, copse_buffer *src, size_t src_offset,
                                 copse_buffer *dst, size_t dst_offset, size_t count, uint64_t from,
                                 uint64_t to)
{
    struct copse_command c;
    const struct copse_params_unary params = { .n = (uint32_t)count };
    const struct copse_binding bindings[] = { { src, src_offset, count * 4 },
                                              { dst, dst_offset, count * 4 } };
    OK(copse__dispatch_init(&c, negate(r), bindings, 2, &params, to - from, (uint32_t)from));
    return c;
}

struct copse_command negate_all(struct rig *r, copse_buffer *src, copse_buffer *dst, size_t count)
{
    return negate_part(r, src, 0, dst, 0, count, 0, negate_groups(negate(r), count));
}

struct copse_command copy_all(copse_buffer *src, copse_buffer *dst, size_t size)
{
    return (struct copse_command){ .kind = COPSE_COMMAND_COPY,
                                   .bindings = { { src, 0, size }, { dst, 0, size } },
                                   .binding_count = 2 };
}

float *floats(size_t count)
{
    float *f = malloc(count * sizeof *f);
    for (size_t i = 0; i < count; i++)
        f[i] = (float)(i % 100003) - 50001.5f;
    return f;
}

void expect_negated(struct rig *r, copse_buffer *buf, const float *x, size_t n)
{
    float *got = floats(n);
    read_now(r->queue, buf, 0, got, n * 4);
    for (size_t i = 0; i < n; i++)
        if (got[i] != -x[i])
            fail_msg("element %zu of %zu is %g, not %g", i, n, got[i], -x[i]);
    free(got);
}

void run_mixture(copse_queue *q, struct rig *r, uint32_t seed, int steps)
{
    enum { BUFFERS = 4, N = 1000 };
    copse_buffer *buf[BUFFERS];
    float *model[BUFFERS], *got[BUFFERS];
    struct copse_stream s;

    copse__stream_init(&s, seed, 0);
    for (int i = 0; i < BUFFERS; i++) {
        buf[i] = rig_buffer(r, N * 4);
        model[i] = floats(N);
        got[i] = floats(N);
        OK(copse_queue_write(q, buf[i], 0, model[i], N * 4));
    }
    for (int step = 0; step < steps; step++) {
        const uint32_t a = copse__stream_below(&s, BUFFERS);
        const uint32_t b = (a + 1 + copse__stream_below(&s, BUFFERS - 1)) % BUFFERS;
        const uint32_t at = copse__stream_below(&s, N);
        const size_t n = 1 + copse__stream_below(&s, N - at);
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
