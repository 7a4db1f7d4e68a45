/* SPDX-License-Identifier: MIT */
/* The matrix product of a vendor's library. It is not a kernel of ours, but it can also be wrong on
   a device. Before its first use it must compute a small product of whole numbers exactly and write
   nothing else; otherwise it is blocked under its name, like a kernel. Each of the four layouts is
   tested when it is first requested, because drivers compile a kernel for each.

   CLBlast computes products with m n k below a bound with one kernel, and larger ones with another
   kernel, together with kernels that pad and transpose the matrices. If sizes are multiples of its
   tiles, those copy or are omitted. The bound is the cube of its parameter XGEMM_MIN_INDIRECT_SIZE,
   which depends on the device. Before a product that may be above it, two products above it are
   tested, one of odd sizes and one of multiples of 128. */
#include <math.h>
#include <stdio.h>

#include "core/device/device.h"
#include "core/device/kernel/exact_product.h"

/* Not multiples of any tile. Every sum is far below 2^24. */
#define ROWS  33u
#define COLS  37u
#define TERMS 19u

/* Classes of large products: for every device whose bound is at least `from`, the products here are
   above the bound, or the bound belongs to the next class. Bounds of CLBlast's table of devices:
   Intel's CPUs 320 and 384, Intel's and ARM's GPUs 128 and 192, NVIDIA's 768 and 1472 to 1984, all
   others 704. */
static const struct large {
    uint64_t from;
    uint32_t odd[3], whole[3];
} of_cpus[] = { { 320, { 385, 387, 389 }, { 384, 384, 384 } },
                { 704, { 705, 707, 709 }, { 640, 768, 768 } } },
  of_others[] = { { 128, { 193, 195, 197 }, { 256, 128, 256 } },
                  { 704, { 769, 771, 773 }, { 768, 768, 768 } },
                  { 1472, { 1985, 1987, 1989 }, { 2048, 1920, 2048 } } };

#define UNTOUCHED -12345.0f /* between the matrices */

enum { A, B, C, PLACES };

/* One product: operands and result one after the other in one block; each begins at a binding
   alignment and is followed by a band. */
struct trial {
    uint32_t m, n, k;
    bool a_transposed, b_transposed;
    size_t counts[PLACES];
    size_t at[PLACES + 1]; /* in floats; the last one is the total */
};

static void lay_out(struct trial *t)
{
    const size_t unit = COPSE_UNIT;
    t->counts[A] = (size_t)t->m * t->k;
    t->counts[B] = (size_t)t->k * t->n;
    t->counts[C] = (size_t)t->m * t->n;
    t->at[0] = 0;
    for (size_t i = 0; i < PLACES; i++)
        t->at[i + 1] = t->at[i] + (size_t)copse__round_up(t->counts[i] + unit, unit);
}

/* -4 to 4, without a pattern that repeats along rows or columns. */
static float library_product_whole(size_t place, size_t i)
{
    uint32_t x = (uint32_t)(i + 1) * 2654435761u ^ (uint32_t)(place + 1) * 2246822519u;
    x ^= x >> 15;
    x *= 3266489917u;
    return (float)((x >> 16) % 9) - 4.0f;
}

/* The result is filled with NaN before, so that a read of it is detected. */
static void library_product_fill(const struct trial *t, float *image)
{
    for (size_t i = 0; i < t->at[PLACES]; i++)
        image[i] = UNTOUCHED;
    for (size_t place = 0; place < PLACES; place++)
        for (size_t i = 0; i < t->counts[place]; i++)
            image[t->at[place] + i] = place == C ? NAN : library_product_whole(place, i);
}

static copse_status run_on(copse_queue *q, copse_buffer *buf, const struct trial *t,
                           const float *image, float *got)
{
    struct copse_command c = {
        .kind = COPSE_COMMAND_GEMM,
        .binding_count = PLACES,
        .gemm = { t->m, t->n, t->k, t->a_transposed, t->b_transposed },
    };
    for (size_t i = 0; i < PLACES; i++)
        c.bindings[i] = (struct copse_binding){ buf, 4 * t->at[i], 4 * t->counts[i] };
    COPSE_TRY(copse_queue_write(q, buf, 0, image, 4 * t->at[PLACES]));
    COPSE_TRY(copse__queue_encode(q, &c));
    COPSE_TRY(copse_queue_read(q, buf, 0, got, 4 * t->at[PLACES]));
    return copse_queue_finish(q);
}

/* *was_run is false if all queues of the device are in use. */
static copse_status run_on_device(copse_device *dev, const struct trial *t, const float *image,
                                  float *got, bool *was_run)
{
    const struct copse_buffer_params params = { .size = 4 * t->at[PLACES] };
    copse_queue *q;
    copse_buffer *buf;
    *was_run = true;
    if (params.size > dev->limits->max_buffer_bytes) /* not the library's fault */
        return copse_fail(COPSE_ERR_NO_DEVICE_MEMORY,
                          "self-test: %zu bytes are more than a buffer on %s can have", params.size,
                          dev->info.id);
    copse_status s = copse_queue_create(dev, &q);
    *was_run = s != COPSE_ERR_UNSUPPORTED;
    if (s != COPSE_OK)
        return *was_run ? s : COPSE_OK;
    s = copse_buffer_create(dev, &params, &buf); /* not from the pool, which would keep it */
    if (s == COPSE_OK) {
        s = run_on(q, buf, t, image, got);
        copse_buffer_release(&buf);
    }
    copse_queue_release(&q);
    return s;
}

/* Write the error to `reason`, if there is one. `image` is the written data. */
static void library_product_compare(const struct trial *t, const float *image, const float *got,
                                    double *scratch, char *reason, size_t room)
{
    const size_t end = t->at[C] + t->counts[C];
    const struct copse_exact_product p = { t->m,
                                           t->n,
                                           t->k,
                                           t->a_transposed,
                                           t->b_transposed,
                                           image + t->at[A],
                                           image + t->at[B],
                                           got + t->at[C] };
    double expected = 0.0;
    if (memcmp(got, image, t->at[C] * sizeof *got) != 0 ||
        memcmp(got + end, image + end, (t->at[PLACES] - end) * sizeof *got) != 0) {
        snprintf(reason, room, "self-test: wrote outside of the result");
        return;
    }
    const size_t wrong = copse__exact_product_wrong(&p, scratch, &expected);
    if (wrong < t->counts[C])
        snprintf(reason, room,
                 "self-test: element %zu of a product of %u x %u x %u%s%s is %.9g, not %.9g", wrong,
                 t->m, t->n, t->k, t->a_transposed ? ", a transposed" : "",
                 t->b_transposed ? ", b transposed" : "", (double)p.c[wrong], expected);
}

/* The library refuses, or cannot be used at all: treated like a wrong result. Failures of the
   device or for lack of memory are not. */
static bool is_its_fault(copse_status s)
{
    return s == COPSE_ERR_INTERNAL || s == COPSE_ERR_UNSUPPORTED || s == COPSE_ERR_ARGUMENT;
}

static copse_status run_trial(copse_device *dev, struct trial *t, char *reason, size_t room)
{
    const size_t size = t->at[PLACES];
    float *image = copse__alloc(&dev->base->mem, 2 * size, sizeof *image);
    double *scratch = copse__alloc(&dev->base->mem, 2 * (size_t)t->k, sizeof *scratch);
    copse_status s;
    bool was_run;
    if (!image || !scratch) {
        s = copse_no_memory("self-test");
        goto done;
    }
    library_product_fill(t, image);
    s = run_on_device(dev, t, image, image + size, &was_run);
    if (is_its_fault(s))
        snprintf(reason, room, "self-test: %.100s", copse_last_error());
    else if (s == COPSE_OK && was_run)
        library_product_compare(t, image, image + size, scratch, reason, room);
done:
    copse__free(&dev->base->mem, scratch);
    copse__free_read(&dev->base->mem, image, s);
    return s;
}

static copse_status library_product_test(copse_device *dev, const struct copse_command *c,
                                         uint32_t m, uint32_t n, uint32_t k)
{
    const uint64_t start = copse__now_ns();
    struct trial t = { .m = m,
                       .n = n,
                       .k = k,
                       .a_transposed = c->gemm.a_transposed,
                       .b_transposed = c->gemm.b_transposed };
    char reason[160] = "";
    lay_out(&t);
    const copse_status s = run_trial(dev, &t, reason, sizeof reason);
    if (*reason) {
        COPSE_TRY(copse__device_fail_test(dev, COPSE_LIBRARY_PRODUCT, reason));
        return copse__kernel_refuse(dev, COPSE_LIBRARY_PRODUCT, reason);
    }
    if (s == COPSE_OK)
        copse__log(&dev->base->log, COPSE_LOG_DEBUG,
                   "self-test: " COPSE_LIBRARY_PRODUCT " of %u x %u x %u on %s, %.0f us", m, n, k,
                   dev->info.id, (double)(copse__now_ns() - start) * 1e-3);
    return copse_note(s, "in the self-test of " COPSE_LIBRARY_PRODUCT);
}

/* ---- large products ---- */

/* The classes of the device, and the number of them that apply to a product of this size. */
static const struct large *classes_of(const copse_device *dev, const struct copse_command *c,
                                      unsigned *count)
{
    const bool is_cpu = dev->info.kind == COPSE_DEVICE_CPU;
    const struct large *list = is_cpu ? of_cpus : of_others;
    const unsigned most = is_cpu ? COPSE_COUNT(of_cpus) : COPSE_COUNT(of_others);
    const uint64_t mn = (uint64_t)c->gemm.m * c->gemm.n, k = COPSE_MAX(c->gemm.k, 1u);
    *count = 0;
    while (*count < most &&
           mn >= (list[*count].from * list[*count].from * list[*count].from + k - 1) / k)
        ++*count;
    return list;
}

/* Without memory the test is skipped: the product itself then needs the memory. */
static copse_status test_large(copse_device *dev, const struct copse_command *c,
                               const struct large *x)
{
    copse_status s = library_product_test(dev, c, x->odd[0], x->odd[1], x->odd[2]);
    if (s == COPSE_OK)
        s = library_product_test(dev, c, x->whole[0], x->whole[1], x->whole[2]);
    if (s != COPSE_ERR_NO_MEMORY && s != COPSE_ERR_NO_DEVICE_MEMORY)
        return s;
    copse__log(&dev->base->log, COPSE_LOG_INFO,
               "self-test: no memory for large products by " COPSE_LIBRARY_PRODUCT " on %s",
               dev->info.id);
    return COPSE_OK;
}

bool copse__library_product_fits(const copse_device *dev)
{
    char reason[192];
    return dev->limits->has_library_gemm &&
           !copse__kernel_is_blocked(dev, COPSE_LIBRARY_PRODUCT, reason, sizeof reason);
}

copse_status copse__library_product_test(copse_device *dev, const struct copse_command *gemm)
{
    atomic_uint *passed = &dev->products_passed[(gemm->gemm.a_transposed ? 1u : 0u) +
                                                (gemm->gemm.b_transposed ? 2u : 0u)];
    const unsigned before = atomic_load(passed);
    unsigned large;
    const struct large *list = classes_of(dev, gemm, &large);
    if (dev->tries_blocked || before > large ||
        atomic_load_explicit(&dev->ctx->self_tests_off, memory_order_relaxed) > 0)
        return COPSE_OK;
    if (before == 0)
        COPSE_TRY(library_product_test(dev, gemm, ROWS, COLS, TERMS));
    if (large > 0)
        COPSE_TRY(test_large(dev, gemm, &list[large - 1]));
    atomic_store(passed, large + 1);
    return COPSE_OK;
}
