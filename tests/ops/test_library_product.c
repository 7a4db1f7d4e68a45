/* SPDX-License-Identifier: MIT */
/* Products of CLBlast on an OpenCL device: within the bound of the library's own kernels, with the
   same bits twice, and nothing but the result written. */
#include <math.h>

#include "copse/device/function.h"
#include "copse/matmul.h"
#include "core/base/random.h"
#include "core/device/device.h"
#include "core/device/kernel/sum_bound.h"
#include "core/ops/product/product.h"
#include "tests/rig/rig.h"

enum { MOST = 6 * 1024 * 1024 };

/* Of all tests; NULL: there is none. */
static copse_context *ctx;
static copse_device *dev;

static int open_library(void **state)
{
    (void)state;
    OK(copse_context_create(NULL, &ctx));
    for (size_t i = 0; !dev && i < ctx->device_count; i++)
        if (ctx->devices[i].is_usable && ctx->devices[i].limits.has_library_gemm)
            OK(copse_device_open(ctx, ctx->devices[i].id, NULL, &dev));
    return 0;
}

static int close_library(void **state)
{
    (void)state;
    copse_device_release(&dev);
    copse_context_release(&ctx);
    return 0;
}

static void need_library(void)
{
    if (dev)
        return;
    print_message("skipped: no OpenCL device, or no CLBlast (Debian package libclblast1)\n");
    skip();
}

/* c = op(a) op(b); a batch of `heads` x `batch` products. */
struct product {
    uint32_t m, n, k, batch, heads;
    bool a_transposed, b_transposed;
    bool a_is_shared, b_is_shared; /* by all products */
    bool b_is_of_group;            /* by the products of a head: not what the library can do */
    copse_type type;               /* of the operands in the product */
    bool has_equal_terms;          /* so that all roundings go the same way */
    bool is_large;                 /* two layouts are enough */
};

static uint32_t items_of_b(const struct product *p)
{
    return p->b_is_shared ? 1 : p->b_is_of_group ? p->heads : p->heads * p->batch;
}

/* [heads, batch, rows, cols], where an axis that is repeated is 1. */
static copse_shape shape_of(const struct product *p, bool is_shared, bool is_of_group,
                            uint32_t rows, uint32_t cols)
{
    return is_shared ? COPSE_SHAPE(rows, cols)
                     : COPSE_SHAPE(p->heads, is_of_group ? 1 : p->batch, rows, cols);
}

static void multiply(const struct product *p, const char *kernels, const float *a, const float *b,
                     float *c)
{
    copse_graph *g;
    copse_function *f;
    OK(copse_graph_create(dev->ctx, &g));
    copse_tensor *x =
        copse_graph_input(g, "a", COPSE_F32,
                          p->a_transposed ? shape_of(p, p->a_is_shared, false, p->k, p->m)
                                          : shape_of(p, p->a_is_shared, false, p->m, p->k));
    copse_tensor *y = copse_graph_input(
        g, "b", COPSE_F32,
        p->b_transposed ? shape_of(p, p->b_is_shared, p->b_is_of_group, p->n, p->k)
                        : shape_of(p, p->b_is_shared, p->b_is_of_group, p->k, p->n));
    copse_tensor *to = p->type
                           ? copse_matmul(g, copse_cast(g, x, p->type), copse_cast(g, y, p->type),
                                          p->a_transposed, p->b_transposed)
                           : copse_matmul(g, x, y, p->a_transposed, p->b_transposed);
    OK(copse_function_create(
        dev,
        &(struct copse_function_params){
            .graph = g, .outputs = &to, .output_count = 1, .kernels = kernels },
        &f));
    OK(copse_function_write(f, x, a));
    OK(copse_function_write(f, y, b));
    OK(copse_function_run(f));
    OK(copse_function_wait(f));
    OK(copse_function_read(f, 0, c));
    copse_function_release(&f);
    copse_graph_release(&g);
}

/* Positive numbers: the rounding errors of their sums do not cancel. Of 8 bits, so that they are
   f16 as well. */
static void draw(float *x, size_t count, uint64_t seed)
{
    struct copse_stream s;
    copse__stream_init(&s, seed, 0);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)(1 + copse__stream_below(&s, 255)) / 128.0f;
}

/* Every `step`th element of c, in double. */
static void check(const struct product *p, const float *a, const float *b, const float *c)
{
    const size_t m = p->m, n = p->n, k = p->k, count = (size_t)p->heads * p->batch * m * n;
    const double bound = copse__sum_bound(&copse__law_product, k, dev->limits);
    assert_true(bound < 2.0 * (double)(COPSE_SUM_CHAIN + k / COPSE_SUM_CHAIN + 2));
    for (size_t i = 0; i < count; i += 1 + count / 4999) {
        const size_t item = i / (m * n), row = i / n % m, col = i % n;
        const float *of_a = a + (p->a_is_shared ? 0 : item * m * k),
                    *of_b = b + (p->b_is_shared     ? 0
                                 : p->b_is_of_group ? item / p->batch * k * n
                                                    : item * k * n);
        double sum = 0;
        for (size_t l = 0; l < k; l++)
            sum += (double)of_a[p->a_transposed ? l * m + row : row * k + l] *
                   (double)of_b[p->b_transposed ? col * k + l : l * n + col];
        if (!(fabs((double)c[i] - sum) <= bound * 0x1p-24 * sum))
            fail_msg("element %zu of %u x %u x %u x %u%s%s is %.9g, not %.9g", i,
                     (unsigned)(p->heads * p->batch), (unsigned)m, (unsigned)n, (unsigned)k,
                     p->a_transposed ? ", a transposed" : "",
                     p->b_transposed ? ", b transposed" : "", (double)c[i], sum);
    }
}

static bool uses_own_kernel(void)
{
    return copse__kernel_is_compiled(dev, &copse_kernel_table[COPSE_KERNEL_matmul]);
}

static void check_product(const struct product *p)
{
    static float a[MOST / 4], b[MOST / 4], c[MOST], again[MOST];
    const size_t items = (size_t)p->heads * p->batch,
                 in_a = (p->a_is_shared ? 1 : items) * p->m * p->k,
                 in_b = (size_t)items_of_b(p) * p->k * p->n, out = items * p->m * p->n;
    assert_true(in_a <= MOST / 4 && in_b <= MOST / 4 && out <= MOST);
    draw(a, in_a, 1);
    draw(b, in_b, 2);
    for (size_t i = 0; p->has_equal_terms && i < COPSE_MAX(in_a, in_b); i++) {
        a[i] = 1.0f / 3;
        b[i] = 1.7f;
    }
    multiply(p, "matmul=clblast", a, b, c);
    check(p, a, b, c);
    multiply(p, "matmul=clblast", a, b, again);
    assert_memory_equal(c, again, out * sizeof *c);
}

/* Each in all four layouts, but for large ones. */
static void check_all(const struct product *list, size_t count, bool is_own)
{
    need_library();
    for (size_t i = 0; i < count; i++)
        for (unsigned layout = 0; layout < 4; layout += list[i].is_large ? 3 : 1) {
            struct product p = list[i];
            p.batch = COPSE_MAX(p.batch, 1u);
            p.heads = COPSE_MAX(p.heads, 1u);
            p.a_transposed = layout & 1u;
            p.b_transposed = layout & 2u;
            check_product(&p);
        }
    assert_int_equal(uses_own_kernel(), is_own);
}
#define CHECK_ALL(list, is_own) check_all(list, COPSE_COUNT(list), is_own)

static void small_products(void **state)
{
    static const struct product list[] = { { .m = 1, .n = 1, .k = 1 },
                                           { .m = 7, .n = 5, .k = 3 },
                                           { .m = 1, .n = 33, .k = 256 },
                                           { .m = 64, .n = 64, .k = 64 },
                                           { .m = 100, .n = 10, .k = 48 } };
    (void)state;
    CHECK_ALL(list, false);
}

/* Of whole tiles, and of sizes that the library pads: more than 896^3 multiplications, from which on
   CLBlast has another kernel on CPUs. */
static void large_products(void **state)
{
    static const struct product list[] = { { .m = 1792, .n = 1664, .k = 256, .is_large = true },
                                           { .m = 1793, .n = 1665, .k = 255, .is_large = true } };
    (void)state;
    CHECK_ALL(list, false);
}

/* More terms than a chain has: parts that add to the result. */
static void sums_into_the_result(void **state)
{
    static const struct product list[] = { { .m = 3, .n = 4, .k = 257 },
                                           { .m = 20, .n = 33, .k = 1000 },
                                           { .m = 2, .n = 2, .k = 20011 },
                                           { .m = 3, .n = 4, .k = 8201, .has_equal_terms = true },
                                           { .m = 1793, .n = 1665, .k = 512, .is_large = true } };
    (void)state;
    CHECK_ALL(list, false);
}

static void batches(void **state)
{
    static const struct product list[] = {
        { .m = 7, .n = 9, .k = 20, .batch = 5 },
        { .m = 16, .n = 33, .k = 300, .batch = 2, .heads = 3 },
        { .m = 12, .n = 8, .k = 40, .batch = 4, .a_is_shared = true },
        { .m = 12, .n = 8, .k = 40, .batch = 4, .b_is_shared = true },
        { .m = 1793, .n = 1665, .k = 256, .batch = 2, .is_large = true }, /* large ones */
    };
    (void)state;
    CHECK_ALL(list, false);
}

/* A matrix for the products of a head has no regular distance: the library's own kernel. */
static void groups_of_a_batch_are_refused(void **state)
{
    static const struct product list[] = {
        { .m = 7, .n = 9, .k = 20, .batch = 2, .heads = 3, .b_is_of_group = true }
    };
    (void)state;
    CHECK_ALL(list, true);
}

/* Operands of 16 bits become f32: sums of f16 would leave the bound. */
static void products_of_f16_have_sums_of_f32(void **state)
{
    static const struct product list[] = { { .m = 17, .n = 9, .k = 4000, .type = COPSE_F16 } };
    (void)state;
    CHECK_ALL(list, false);
}

/* The library's scratch memory belongs to the plan of a program, so that it allocates none itself. */
static void scratch_memory_is_known_before(void **state)
{
    need_library();
    struct copse_gemm g = { .m = 20, .n = 30, .k = 40, .k_end = 40, .batch = 1 };
    (void)state;
    assert_int_equal(copse__library_product_scratch(dev, &g), 0);
    g.m = g.n = 2000;
    const size_t least = 4 * ((size_t)g.m * g.n + (g.m + g.n) * g.k); /* padded copies */
    g.k = g.k_end = 256;
    assert_true(copse__library_product_scratch(dev, &g) >= least);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_products),
        cmocka_unit_test(large_products),
        cmocka_unit_test(sums_into_the_result),
        cmocka_unit_test(batches),
        cmocka_unit_test(products_of_f16_have_sums_of_f32),
        cmocka_unit_test(scratch_memory_is_known_before),
        cmocka_unit_test(groups_of_a_batch_are_refused), /* compiles the own kernel: the last one */
    };
    return cmocka_run_group_tests(tests, open_library, close_library);
}
