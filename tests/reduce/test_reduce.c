/* SPDX-License-Identifier: MIT */
/* The reduction kernels on every device found: the bits of the canonical tree, for any number of
   ranks. */
#include <math.h>

#include "tests/rig/rig.h"

#include "core/base/random.h"
#include "core/device/device.h"
#include "core/device/kernel/mean.h"
#include "core/reduce/sum_schedule.h"

#define COUNT  301u /* elements of a sum */
#define BASE   5u   /* before them */
#define STRIDE 320u

static float parts[COPSE_MAX_REPLICAS][STRIDE], got[STRIDE];

/* Exponents far apart, so that any other order shows; zeros of both signs. */
static void make_numbers(void)
{
    struct copse_stream s;
    copse__stream_init(&s, 3, 1);
    for (uint32_t r = 0; r < COPSE_MAX_REPLICAS; r++)
        for (uint32_t i = 0; i < STRIDE; i++)
            parts[r][i] = i % 50 == 0 ? (i == 50 && r == 7 ? 0.0f : -0.0f)
                                      : ldexpf(copse__stream_normal(&s),
                                               (int)copse__stream_below(&s, 41) - 20);
}

/* The definition of the tree, top down. */
static float canonical(uint32_t first, uint32_t count, uint32_t i)
{
    uint32_t half = 1;
    if (count == 1)
        return parts[first][i];
    while (half * 2 < count)
        half *= 2;
    return canonical(first, half, i) + canonical(first + half, count - half, i);
}

struct rig {
    copse_device *dev;
    copse_queue *queue;
    copse_buffer *parts, *sums;
};

static void launch(struct rig *g, enum copse_kernel_id id, const int32_t *spec, const void *params,
                   const struct copse_binding *bindings)
{
    struct copse_kernel *k;
    struct copse_command c;
    OK(copse__kernel_get(g->dev, id, spec, &k));
    const uint64_t each = (uint64_t)k->group_x * k->group_y * (uint32_t)spec[0];
    OK(copse__dispatch_init(&c, k, bindings, 2, params, (COUNT + each - 1) / each, 0));
    OK(copse__queue_encode(g->queue, &c));
    OK(copse_queue_read(g->queue, g->sums, 0, got, sizeof got));
    OK(copse_queue_finish(g->queue));
}

static void check_sum(struct rig *g, uint32_t ranks, bool has_runs)
{
    const struct copse_params_tree_sum p = { .n = COUNT, .base = BASE, .stride = STRIDE };
    const int32_t spec[] = { has_runs ? 16 : 3, has_runs, (int32_t)ranks };
    const char *id = copse_device_describe(g->dev)->id;
    OK(copse_queue_fill(g->queue, g->sums, 0, sizeof got, 0x7fc00001));
    launch(g, COPSE_KERNEL_tree_sum, spec, &p,
           (struct copse_binding[]){ { g->parts, 0, 4 * STRIDE * ranks },
                                     { g->sums, 0, sizeof got } });
    for (uint32_t i = 0; i < STRIDE; i++) {
        uint32_t want = 0x7fc00001, bits;
        const float sum = canonical(0, ranks, i < COUNT ? BASE + i : 0);
        if (i < COUNT)
            memcpy(&want, &sum, sizeof want);
        memcpy(&bits, &got[i], sizeof bits);
        if (bits != want)
            fail_msg("%u ranks on %s, runs %d, element %u: %a, not %a", ranks, id, has_runs, i,
                     (double)got[i], (double)sum);
    }
}

static void check_pair(struct rig *g, bool has_runs)
{
    const struct copse_params_accumulate p = { .n = COUNT };
    OK(copse_queue_write(g->queue, g->sums, 0, parts[1], sizeof parts[1]));
    launch(g, COPSE_KERNEL_accumulate, (const int32_t[]){ has_runs ? 16 : 3, has_runs }, &p,
           (struct copse_binding[]){ { g->parts, 0, sizeof got }, { g->sums, 0, sizeof got } });
    for (uint32_t i = 0; i < STRIDE; i++) {
        const float want = i < COUNT ? parts[1][i] + parts[0][i] : parts[1][i];
        assert_memory_equal(&got[i], &want, sizeof want);
    }
}

/* ---- integers, and quotients ---- */

static uint32_t words[STRIDE];

/* Ends of the range, middles between floats, denormals, infinities, NaN; then anything. */
static void make_words(struct copse_stream *s)
{
    static const uint32_t special[] = {
        0,          0x80000000, 1,          0x80000001, 0x7fffff,   0x800000,   0x800001,
        0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0x7fffffff,
        0xffffffff, 0x3f800000, 0x4b800000, 0x1000001,  0x1000003,  0x40000041, 0x80000041,
    };
    for (uint32_t i = 0; i < STRIDE; i++)
        words[i] = i < COPSE_COUNT(special) ? special[i]
                   : i < 2 * COPSE_COUNT(special)
                       ? special[i - COPSE_COUNT(special)] + copse__stream_below(s, 64)
                       : copse__stream_below(s, UINT32_MAX) >> copse__stream_below(s, 25);
}

static uint32_t quotient(uint32_t bits, uint32_t count, bool is_whole)
{
    int32_t whole;
    float sum, mean;
    memcpy(&whole, &bits, sizeof whole);
    memcpy(&sum, &bits, sizeof sum);
    mean = is_whole ? (float)((double)whole / count) : sum / (float)count;
    memcpy(&bits, &mean, sizeof bits);
    return bits;
}

static void check_mean(struct rig *g, uint32_t count, bool is_whole, bool has_runs)
{
    const struct copse_params_mean p = copse__mean_params(COUNT, count);
    const int32_t spec[] = { has_runs ? 16 : 3, has_runs, is_whole,
                             copse__mean_is_power(count, is_whole) };
    OK(copse_queue_write(g->queue, g->parts, 0, words, sizeof words));
    launch(g, COPSE_KERNEL_mean, spec, &p,
           (struct copse_binding[]){ { g->parts, 0, sizeof words }, { g->sums, 0, sizeof got } });
    for (uint32_t i = 0; i < COUNT; i++) {
        const uint32_t want = quotient(words[i], count, is_whole);
        uint32_t bits;
        memcpy(&bits, &got[i], sizeof bits);
        if (bits != want)
            fail_msg("%s: %s %08x / %u: %08x, not %08x", copse_device_describe(g->dev)->id,
                     is_whole ? "i32" : "f32", words[i], count, bits, want);
    }
}

static void check_sum_i32(struct rig *g, uint32_t ranks, bool has_runs)
{
    const struct copse_params_sum_i32 p = { .n = COUNT, .stride = STRIDE };
    const int32_t spec[] = { has_runs ? 16 : 3, has_runs, (int32_t)ranks };
    OK(copse_queue_write(g->queue, g->parts, 0, parts, sizeof parts));
    launch(g, COPSE_KERNEL_sum_i32, spec, &p,
           (struct copse_binding[]){ { g->parts, 0, 4 * STRIDE * ranks },
                                     { g->sums, 0, sizeof got } });
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t want = 0, word;
        for (uint32_t r = 0; r < ranks; r++) {
            memcpy(&word, &parts[r][i], sizeof word);
            want += word;
        }
        memcpy(&word, &got[i], sizeof word);
        if (word != want)
            fail_msg("%u ranks on %s, element %u: %u, not %u", ranks,
                     copse_device_describe(g->dev)->id, i, word, want);
    }
}

static void check_numbers(struct rig *g)
{
    static const uint32_t counts[] = { 1,  2,    3,    4,     5,     7,     10,    48,   49,
                                       64, 1000, 1024, 32767, 32768, 32769, 65534, 65535 };
    struct copse_stream s;
    copse__stream_init(&s, 5, 2);
    for (size_t c = 0; c < COPSE_COUNT(counts); c++)
        for (int round = 0; round < 4; round++) {
            make_words(&s);
            check_mean(g, counts[c], round & 1, round & 2);
        }
    check_sum_i32(g, 1, false);
    check_sum_i32(g, 5, true);
    check_sum_i32(g, 64, false);
}

static void kernels_evaluate_the_canonical_tree(void **unused)
{
    static const uint32_t counts[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 17, 25, 33, 46, 57, 64 };
    copse_context *ctx;
    const struct copse_device_info *list;
    size_t count;
    (void)unused;
    make_numbers();
    OK(copse_context_create(NULL, &ctx));
    copse_context_devices(ctx, &list, &count);
    for (size_t d = 0; d < count; d++) {
        struct rig g = { NULL, NULL, NULL, NULL };
        if (!list[d].is_usable)
            continue;
        print_message("%s\n", list[d].id);
        OK(copse_device_open(ctx, list[d].id, NULL, &g.dev));
        OK(copse_queue_create(g.dev, &g.queue));
        OK(copse_buffer_create(g.dev, &(struct copse_buffer_params){ .size = sizeof parts },
                               &g.parts));
        OK(copse_buffer_create(g.dev, &(struct copse_buffer_params){ .size = sizeof got },
                               &g.sums));
        OK(copse_queue_write(g.queue, g.parts, 0, parts, sizeof parts));
        for (size_t c = 0; c < COPSE_COUNT(counts); c++)
            check_sum(&g, counts[c], c % 2 == 0);
        check_sum(&g, 9, false);
        check_pair(&g, false);
        check_pair(&g, true);
        check_numbers(&g);
        copse_buffer_release(&g.parts);
        copse_buffer_release(&g.sums);
        copse_queue_release(&g.queue);
        copse_device_release(&g.dev);
    }
    copse_context_release(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_evaluate_the_canonical_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
