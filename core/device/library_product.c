/* SPDX-License-Identifier: MIT */
/* The matrix product of a vendor's library: no kernel of ours, and yet something that can be wrong on a
   device. Before its first use there it has to get a small product of whole numbers exactly right, and
   touch nothing else; else it is blocked under its name, as kernels are. Each of the four layouts is
   tested when it is first asked for, since drivers compile a kernel for each. */
#include <math.h>
#include <stdio.h>

#include "core/device/device.h"

/* No multiples of any tile, and every sum is far below 2^24. */
#define ROWS    33u
#define COLS    37u
#define TERMS   19u

#define UNTOUCHED -12345.0f /* between the matrices */

enum { A, B, C, PLACES };

static const size_t counts[PLACES] = { ROWS * TERMS, TERMS * COLS, ROWS * COLS };

/* One product: operands and result one behind the other in one block; each begins where bindings may,
   with a band behind it. */
struct trial {
    bool a_transposed, b_transposed;
    size_t at[PLACES + 1]; /* floats; the last: all of them */
};

static void lay_out(struct trial *t)
{
    const size_t unit = COPSE_UNIT;
    t->at[0] = 0;
    for (size_t i = 0; i < PLACES; i++)
        t->at[i + 1] = t->at[i] + (size_t)copse__round_up(counts[i] + unit, unit);
}

/* What the result holds before is not a number: who reads it leaves a trace. */
static void fill(const struct trial *t, float *image)
{
    for (size_t i = 0; i < t->at[PLACES]; i++)
        image[i] = UNTOUCHED;
    for (size_t place = 0; place < PLACES; place++)
        for (size_t i = 0; i < counts[place]; i++)
            image[t->at[place] + i] =
                place == C ? NAN : (float)((7 * i + 3 * place + i / 9) % 9) - 4.0f;
}

static void run_truth(const struct trial *t, float *image)
{
    const float *a = image + t->at[A], *b = image + t->at[B];
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < COLS; j++) {
            float sum = 0.0f;
            for (size_t k = 0; k < TERMS; k++)
                sum += a[t->a_transposed ? k * ROWS + i : i * TERMS + k] *
                       b[t->b_transposed ? j * TERMS + k : k * COLS + j];
            image[t->at[C] + i * COLS + j] = sum;
        }
}

static copse_status run_on(copse_queue *q, copse_buffer *buf, const struct trial *t,
                           const float *image, float *got)
{
    struct copse_command c = {
        .kind = COPSE_COMMAND_GEMM,
        .binding_count = PLACES,
        .gemm = { ROWS, COLS, TERMS, t->a_transposed, t->b_transposed },
    };
    for (size_t i = 0; i < PLACES; i++)
        c.bindings[i] = (struct copse_binding){ buf, 4 * t->at[i], 4 * counts[i] };
    COPSE_TRY(copse_queue_write(q, buf, 0, image, 4 * t->at[PLACES]));
    COPSE_TRY(copse__queue_encode(q, &c));
    COPSE_TRY(copse_queue_read(q, buf, 0, got, 4 * t->at[PLACES]));
    return copse_queue_finish(q);
}

/* *was_run is false when all queues that a device can have are taken. */
static copse_status run_on_device(copse_device *dev, const struct trial *t, const float *image,
                                  float *got, bool *was_run)
{
    copse_queue *q;
    copse_buffer *buf;
    copse_status s = copse_queue_create(dev, &q);
    *was_run = s != COPSE_ERR_UNSUPPORTED;
    if (s != COPSE_OK)
        return *was_run ? s : COPSE_OK;
    s = copse__buffer_acquire(dev, 4 * t->at[PLACES], &buf);
    if (s == COPSE_OK) {
        s = run_on(q, buf, t, image, got);
        copse_buffer_release(&buf);
    }
    copse_queue_release(&q);
    return s;
}

/* Say in `reason` what is wrong, if anything is. */
static void compare(const struct trial *t, const float *expected, const float *got, char *reason,
                    size_t room)
{
    size_t i = 0;
    while (i < t->at[PLACES] && got[i] == expected[i])
        i++;
    if (i == t->at[PLACES])
        return;
    const size_t element = i - t->at[C];
    if (i < t->at[C] || element >= counts[C])
        snprintf(reason, room, "self-test: wrote outside of the result");
    else
        snprintf(reason, room, "self-test: element %zu of a product%s%s is %.9g, not %.9g", element,
                 t->a_transposed ? ", a transposed" : "", t->b_transposed ? ", b transposed" : "",
                 (double)got[i], (double)expected[i]);
}

/* The library refuses, or cannot be used at all: as good as wrong. What the device or the memory is
   to blame for is not. */
static bool is_its_fault(copse_status s)
{
    return s == COPSE_ERR_INTERNAL || s == COPSE_ERR_UNSUPPORTED || s == COPSE_ERR_ARGUMENT;
}

static copse_status test(copse_device *dev, struct trial *t)
{
    char reason[128] = "";
    lay_out(t);
    const size_t size = t->at[PLACES];
    float *images = copse__alloc(&dev->base->mem, 3 * size, sizeof *images);
    if (!images)
        return copse_fail(COPSE_ERR_NO_MEMORY, "self-test: no memory");
    float *const expected = images + size, *const got = expected + size;
    fill(t, images);
    memcpy(expected, images, size * sizeof *images);
    run_truth(t, expected);
    bool was_run;
    const copse_status s = run_on_device(dev, t, images, got, &was_run);
    if (is_its_fault(s))
        snprintf(reason, sizeof reason, "self-test: %.100s", copse_last_error());
    else if (s == COPSE_OK && was_run)
        compare(t, expected, got, reason, sizeof reason);
    copse__free(&dev->base->mem, images);
    if (!*reason)
        return copse_note(s, "in the self-test of " COPSE_LIBRARY_PRODUCT);
    COPSE_TRY(copse__device_block_kernel(dev, COPSE_LIBRARY_PRODUCT, reason));
    return copse_fail(COPSE_ERR_UNSUPPORTED, COPSE_LIBRARY_PRODUCT " is blocked on %s: %s",
                      dev->info.id, reason);
}

bool copse__library_product_fits(const copse_device *dev)
{
    char reason[192];
    return dev->limits->has_library_gemm &&
           !copse__kernel_is_blocked(dev, COPSE_LIBRARY_PRODUCT, reason, sizeof reason);
}

copse_status copse__library_product_test(copse_device *dev, bool a_transposed, bool b_transposed)
{
    const uint64_t start = copse__now_ns();
    const unsigned layout = 1u << ((a_transposed ? 1u : 0u) + (b_transposed ? 2u : 0u));
    if (dev->tries_blocked || (atomic_load(&dev->products_passed) & layout) ||
        atomic_load_explicit(&dev->ctx->self_tests_off, memory_order_relaxed) > 0)
        return COPSE_OK;
    struct trial t = { .a_transposed = a_transposed, .b_transposed = b_transposed };
    COPSE_TRY(test(dev, &t));
    atomic_fetch_or(&dev->products_passed, layout);
    copse__log(&dev->base->log, COPSE_LOG_DEBUG, "self-test: " COPSE_LIBRARY_PRODUCT " on %s, %.0f us",
               dev->info.id, (double)(copse__now_ns() - start) * 1e-3);
    return COPSE_OK;
}
