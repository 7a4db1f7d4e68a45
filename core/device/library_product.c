/* SPDX-License-Identifier: MIT */
/* The matrix product of a vendor's library. It is not a kernel of ours, but it can also be wrong on
   a device. Before its first use it must compute small products of whole numbers exactly and write
   nothing else, and give the same bits for the same numbers; otherwise it is blocked under its name,
   like a kernel. Drivers compile a kernel for each layout, and for batches, so each kind of product
   is tested when it is first requested: each of the four layouts, in one command or in parts that
   add to the result, alone or as a batch. That the bits are the same is tested once for each device
   and driver, and kept with the programs that passed their cross-check (core/trust/checked.h).

   CLBlast computes products with m n k below a bound with one kernel, and larger ones with another
   kernel, together with kernels that pad and transpose the matrices into scratch memory. If sizes are
   multiples of its tiles, those copy or are omitted. The bound is the cube of its parameter
   XGEMM_MIN_INDIRECT_SIZE, which depends on the device; products above it are those that need scratch
   memory. Before the first one, two products above the bound are tested, one of odd sizes and one of
   multiples of 128. */
#include <math.h>
#include <stdio.h>

#include "core/base/trace.h"
#include "core/device/device.h"
#include "core/device/kernel/exact_product.h"

/* Not multiples of any tile. Every sum is far below 2^24. */
#define ROWS    33u
#define COLS    37u
#define TERMS   19u
#define BATCH   3u
#define REPEATS 4u /* of a product of the same numbers, at most */

#define UNTOUCHED -12345.0f /* between the matrices */

enum {
    A = COPSE_GEMM_A,
    B = COPSE_GEMM_B,
    SCRATCH = COPSE_GEMM_SCRATCH,
    C = COPSE_GEMM_C,
    PLACES = COPSE_GEMM_BINDINGS
};

/* A product: the matrices one after the other in one block, each at a binding alignment and followed
   by a band; then the scratch memory, which has no content. */
struct trial {
    struct copse_gemm g;               /* of all terms */
    bool is_in_parts;                  /* two commands */
    uint32_t repeats;                  /* of the same numbers; 0: none */
    size_t counts[PLACES], at[PLACES]; /* in floats */
    size_t size, total;                /* without and with the scratch memory */
};

static size_t with_band(size_t count)
{
    return (size_t)copse__round_up(count + COPSE_UNIT, COPSE_UNIT);
}

static void lay_out(const copse_device *dev, struct trial *t, size_t shift)
{
    const struct copse_gemm *g = &t->g;
    const size_t scratch = copse__library_product_scratch(dev, g) / sizeof(float);
    t->g.has_scratch = scratch > 0;
    t->counts[A] = (size_t)(g->a_is_shared ? 1 : g->batch) * g->m * g->k;
    t->counts[B] = (size_t)(g->b_is_shared ? 1 : g->batch) * g->k * g->n;
    t->counts[C] = (size_t)g->batch * g->m * g->n;
    t->counts[SCRATCH] = COPSE_MAX(scratch, 1u);
    t->at[A] = shift * COPSE_UNIT;
    t->at[B] = t->at[A] + with_band(t->counts[A]);
    t->at[C] = t->at[B] + with_band(t->counts[B]);
    t->at[SCRATCH] = t->size = t->at[C] + with_band(t->counts[C]);
    t->total = t->size + t->counts[SCRATCH];
}

static uint32_t library_product_bits(size_t place, size_t i)
{
    uint32_t x = (uint32_t)(i + 1) * 2654435761u ^ (uint32_t)(place + 1) * 2246822519u;
    x ^= x >> 15;
    return x * 3266489917u;
}

/* -4 to 4, without a pattern that repeats along rows or columns. */
static float library_product_whole(size_t place, size_t i)
{
    return (float)((library_product_bits(place, i) >> 16) % 9) - 4.0f;
}

/* Of magnitudes from 2^-6 to 2^2 and with 24 bits, so that another order of the sum has other bits. */
static float library_product_real(size_t place, size_t i)
{
    const uint32_t x = library_product_bits(place, i);
    const float f = ldexpf(1.0f + (float)(x >> 9) * 0x1p-23f, (int)(x >> 1 & 7u) - 6);
    return x & 1u ? -f : f;
}

/* The result is filled with NaN before, so that a read of it is detected. */
static void library_product_fill(const struct trial *t, float around,
                                 float (*value)(size_t place, size_t i), float *image)
{
    for (size_t i = 0; i < t->size; i++)
        image[i] = around;
    for (size_t i = 0; i < t->counts[A]; i++)
        image[t->at[A] + i] = value(A, i);
    for (size_t i = 0; i < t->counts[B]; i++)
        image[t->at[B] + i] = value(B, i);
    for (size_t i = 0; i < t->counts[C]; i++)
        image[t->at[C] + i] = NAN;
}

static copse_status run_on(copse_queue *q, copse_buffer *buf, const struct trial *t,
                           const float *image, float *got)
{
    struct copse_command c = { .kind = COPSE_COMMAND_GEMM, .binding_count = PLACES, .gemm = t->g };
    for (size_t i = 0; i < PLACES; i++)
        c.bindings[i] = (struct copse_binding){ buf, 4 * t->at[i], 4 * t->counts[i] };
    c.gemm.k_end = t->is_in_parts ? t->g.k / 2 : t->g.k;
    COPSE_TRY(copse_queue_write(q, buf, 0, image, 4 * t->size));
    COPSE_TRY(copse__queue_encode(q, &c));
    c.gemm.k_begin = c.gemm.k_end;
    c.gemm.k_end = t->g.k;
    if (t->is_in_parts)
        COPSE_TRY(copse__queue_encode(q, &c));
    COPSE_TRY(copse_queue_read(q, buf, 0, got, 4 * t->size));
    return copse_queue_finish(q);
}

/* *was_run is false if all queues of the device are in use. */
static copse_status run_on_device(copse_device *dev, const struct trial *t, const float *image,
                                  float *got, bool *was_run)
{
    const struct copse_buffer_params params = { .size = 4 * t->total };
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

/* The two words after "a product of 33 x 37 x 19". */
static const char *layout_of(const struct copse_gemm *g)
{
    return g->a_transposed   ? g->b_transposed ? ", a transposed, b transposed" : ", a transposed"
           : g->b_transposed ? ", b transposed"
                             : "";
}

/* In what is only read, or in a band. */
static bool wrote_outside(const struct trial *t, const float *image, const float *got)
{
    const size_t end = t->at[C] + t->counts[C];
    return memcmp(got, image, t->at[C] * sizeof *got) != 0 ||
           memcmp(got + end, image + end, (t->size - end) * sizeof *got) != 0;
}

/* Write the error to `reason`, if there is one. `image` is the written data. */
static void library_product_compare(const struct trial *t, const float *image, const float *got,
                                    double *scratch, char *reason, size_t room)
{
    const struct copse_gemm *g = &t->g;
    const size_t a = (size_t)g->m * g->k, b = (size_t)g->k * g->n, c = (size_t)g->m * g->n;
    if (wrote_outside(t, image, got)) {
        snprintf(reason, room, "self-test: wrote outside of the result");
        return;
    }
    for (size_t item = 0; item < g->batch && !*reason; item++) {
        const struct copse_exact_product p = {
            g->m,
            g->n,
            g->k,
            g->a_transposed,
            g->b_transposed,
            image + t->at[A] + (g->a_is_shared ? 0 : item * a),
            image + t->at[B] + (g->b_is_shared ? 0 : item * b),
            got + t->at[C] + item * c,
        };
        double expected = 0.0;
        const size_t wrong = copse__exact_product_wrong(&p, scratch, &expected);
        if (wrong < c)
            snprintf(reason, room,
                     "self-test: element %zu of a product of %u x %u x %u%s is %.9g, not %.9g",
                     item * c + wrong, g->m, g->n, g->k, layout_of(g), (double)p.c[wrong],
                     expected);
    }
}

/* The library refuses, or cannot be used at all: treated like a wrong result. Failures of the
   device or for lack of memory are not. */
static bool is_its_fault(copse_status s)
{
    return s == COPSE_ERR_INTERNAL || s == COPSE_ERR_UNSUPPORTED || s == COPSE_ERR_ARGUMENT;
}

static copse_status run_trial(copse_device *dev, struct trial *t, char *reason, size_t room)
{
    lay_out(dev, t, 0);
    const size_t size = t->size;
    float *image = copse__alloc(&dev->base->mem, 2 * size, sizeof *image);
    double *scratch = copse__alloc(&dev->base->mem, 2 * (size_t)t->g.k, sizeof *scratch);
    copse_status s;
    bool was_run;
    if (!image || !scratch) {
        s = copse_no_memory("self-test");
        goto done;
    }
    library_product_fill(t, UNTOUCHED, library_product_whole, image);
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

/* ---- the same bits ---- */

/* Each time elsewhere in memory, and among other numbers. *is_kept is false if not all could be
   run. */
static copse_status repeat_trial(copse_device *dev, struct trial *t, bool *is_kept, char *reason,
                                 size_t room)
{
    static const float around[REPEATS] = { 0.0f, NAN, 3.4e38f, UNTOUCHED };
    lay_out(dev, t, t->repeats);
    const size_t size = t->size;
    float *image = copse__alloc(&dev->base->mem, 2 * size + t->counts[C], sizeof *image);
    copse_status s = image ? COPSE_OK : copse_no_memory("self-test");
    *is_kept = true;
    for (size_t i = 0; s == COPSE_OK && i < t->repeats && !*reason; i++) {
        float *got = image + size, *first = got + size;
        bool was_run;
        lay_out(dev, t, i);
        library_product_fill(t, around[i], library_product_real, image);
        s = run_on_device(dev, t, image, got, &was_run);
        *is_kept &= s == COPSE_OK && was_run;
        if (*is_kept && i == 0)
            memcpy(first, got + t->at[C], t->counts[C] * sizeof *got);
        else if (*is_kept && memcmp(first, got + t->at[C], t->counts[C] * sizeof *got) != 0)
            snprintf(reason, room,
                     "self-test: a product of %u x %u x %u%s had other bits when it was repeated",
                     t->g.m, t->g.n, t->g.k, layout_of(&t->g));
    }
    copse__free_read(&dev->base->mem, image, s);
    return s;
}

/* Among the digests of programs. */
static uint64_t digest_of(const struct trial *t)
{
    static const char name[] = COPSE_LIBRARY_PRODUCT " has the same bits";
    const struct copse_gemm *g = &t->g;
    const uint32_t words[] = {
        g->m,           g->n,           g->k,          g->batch, g->a_transposed, g->b_transposed,
        g->a_is_shared, g->b_is_shared, t->is_in_parts
    };
    return copse__hash(copse__hash(COPSE_HASH_START, name, sizeof name), words, sizeof words);
}

static copse_status test_bits(copse_device *dev, struct trial *t, char *reason, size_t room)
{
    bool is_kept;
    COPSE_TRY(copse__device_has_checked(dev, digest_of(t), &is_kept));
    if (is_kept)
        return COPSE_OK;
    COPSE_TRY(repeat_trial(dev, t, &is_kept, reason, room));
    if (*reason || !is_kept)
        return COPSE_OK;
    copse__log(&dev->base->log, COPSE_LOG_DEBUG,
               "repeated: " COPSE_LIBRARY_PRODUCT " of %u x %u x %u%s on %s has the same bits %u "
               "times",
               t->g.m, t->g.n, t->g.k, layout_of(&t->g), dev->info.id, t->repeats);
    return copse__device_note_checked(dev, digest_of(t));
}

/* ---- a kind of product ---- */

static bool is_in_parts(const struct copse_gemm *g)
{
    return g->k_begin > 0 || g->k_end < g->k;
}

static copse_status library_product_test(copse_device *dev, const struct copse_command *c,
                                         uint32_t m, uint32_t n, uint32_t k, uint32_t batch,
                                         uint32_t repeats)
{
    const uint64_t start = copse__now_ns();
    struct trial t = { .g = c->gemm, .is_in_parts = is_in_parts(&c->gemm), .repeats = repeats };
    char reason[160] = "";
    t.g.m = m;
    t.g.n = n;
    t.g.k = t.g.k_end = t.is_in_parts ? 2 * k : k;
    t.g.k_begin = 0;
    t.g.batch = batch;
    copse_status s = run_trial(dev, &t, reason, sizeof reason);
    if (s == COPSE_OK && !*reason && repeats > 0)
        s = test_bits(dev, &t, reason, sizeof reason);
    if (*reason) {
        COPSE_TRY(copse__device_fail_test(dev, COPSE_LIBRARY_PRODUCT, reason));
        return copse__kernel_refuse(dev, COPSE_LIBRARY_PRODUCT, reason);
    }
    if (s == COPSE_OK)
        copse__log(&dev->base->log, COPSE_LOG_DEBUG,
                   "self-test: " COPSE_LIBRARY_PRODUCT " of %u x %u x %u%s%s%s on %s, %.0f us", m,
                   n, t.g.k, layout_of(&t.g), t.is_in_parts ? ", in parts" : "",
                   batch > 1 ? ", a batch" : "", dev->info.id,
                   (double)(copse__now_ns() - start) * 1e-3);
    return copse_note(s, "in the self-test of " COPSE_LIBRARY_PRODUCT);
}

/* ---- large products ---- */

#define WHOLE 128u /* a multiple of all tiles */
#define MOST  8192u

/* The smallest multiple of WHOLE whose cube is above the bound; 0: none is. */
static uint32_t large_size(const copse_device *dev, const struct copse_command *c)
{
    struct copse_gemm g = c->gemm;
    g.batch = 1;
    g.k_begin = 0;
    for (uint32_t size = WHOLE; size <= MOST; size += WHOLE) {
        g.m = g.n = g.k = g.k_end = size;
        if (copse__library_product_scratch(dev, &g) > 0)
            return size;
    }
    return 0;
}

/* Without memory the test is skipped: the product itself then needs the memory. */
static copse_status test_large(copse_device *dev, const struct copse_command *c)
{
    const uint32_t size = large_size(dev, c);
    copse_status s = COPSE_OK;
    if (size > 0)
        s = library_product_test(dev, c, size + 1, size + 3, size + 5, 1, 2);
    if (size > 0 && s == COPSE_OK)
        s = library_product_test(dev, c, size, size, size, 1, 0);
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

bool copse__library_product_leads(const copse_device *dev)
{
    return dev->info.kind == COPSE_DEVICE_DISCRETE && !dev->tries_blocked &&
           atomic_load_explicit(&dev->ctx->self_tests_off, memory_order_relaxed) == 0;
}

size_t copse__library_product_scratch(const copse_device *dev, const struct copse_gemm *g)
{
    size_t bytes = 0;
    const bool is_known =
        dev->backend->gemm_scratch && dev->backend->gemm_scratch(dev, g, &bytes) == COPSE_OK;
    return is_known ? copse__round_up(bytes, COPSE_WORD_BYTES) : 0;
}

enum { NOT_TESTED, TESTED, TESTED_LARGE };

static copse_status test_kind(copse_device *dev, const struct copse_command *gemm,
                              atomic_uint *passed, unsigned wanted)
{
    atomic_store(&dev->kernel_made_ns, copse__now_ns()); /* the driver compiles: waits are longer */
    if (atomic_load(passed) == NOT_TESTED)
        COPSE_TRY(library_product_test(dev, gemm, ROWS, COLS, TERMS,
                                       gemm->gemm.batch > 1 ? BATCH : 1, REPEATS));
    if (wanted == TESTED_LARGE)
        COPSE_TRY(test_large(dev, gemm));
    atomic_store(passed, wanted);
    return COPSE_OK;
}

copse_status copse__library_product_test(copse_device *dev, const struct copse_command *gemm)
{
    const struct copse_gemm *g = &gemm->gemm;
    atomic_uint *passed =
        &dev->products_passed[(g->a_transposed ? 1u : 0u) + (g->b_transposed ? 2u : 0u) +
                              (is_in_parts(g) ? 4u : 0u) + (g->batch > 1 ? 8u : 0u)];
    const unsigned wanted = g->has_scratch ? TESTED_LARGE : TESTED;
    if (dev->tries_blocked || atomic_load(passed) >= wanted ||
        atomic_load_explicit(&dev->ctx->self_tests_off, memory_order_relaxed) > 0)
        return COPSE_OK;
    copse__kernel_report(dev, COPSE_LIBRARY_PRODUCT, 0, 1);
    const struct copse_span span = copse__span_begin(dev->base);
    const copse_status s = copse__span_end(span, COPSE_SPAN_COMPILE, COPSE_LIBRARY_PRODUCT,
                                           test_kind(dev, gemm, passed, wanted));
    copse__kernel_report(dev, COPSE_LIBRARY_PRODUCT, 1, 1);
    return s;
}
