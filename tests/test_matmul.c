/* SPDX-License-Identifier: MIT */
/* Matrix products: every variant on every device, with integers that must come out exactly, and the
   growth of errors with k. Derivatives and dense layers are in test_dense.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "copse/matmul.h"
#include "copse/ops.h"
#include "core/graph/graph.h"

#define MAX_DEVICES 16
#define MAX_TENSORS 4

static copse_context *ctx;
static copse_device *devices[MAX_DEVICES];
static copse_queue *queues[MAX_DEVICES];
static size_t device_count;

static const char *const variants[] = { NULL, "matmul", "matmul_wide", "matmul_texel" };

static void ok(copse_status s)
{
    if (s)
        fail_msg("%s: %s", copse_status_name(s), copse_last_error());
}

static int setup(void **state)
{
    (void)state;
    char ids[MAX_DEVICES][32];
    size_t count;
    ok(copse_context_create(NULL, &ctx));
    if (copse_select_devices(ctx, "all", ids, MAX_DEVICES - 1, &count))
        count = 0;
    strcpy(ids[count++], "host:0");
    for (size_t i = 0; i < count; i++) {
        ok(copse_device_open(ctx, ids[i], NULL, &devices[i]));
        ok(copse_queue_create(devices[i], &queues[i]));
    }
    device_count = count;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < device_count; i++) {
        copse_queue_release(&queues[i]);
        copse_device_release(&devices[i]);
    }
    copse_context_release(&ctx);
    return 0;
}

/* ---- a graph with values ---- */

struct job {
    copse_graph *g;
    copse_tensor *in[MAX_TENSORS];
    float *values[MAX_TENSORS]; /* of the inputs */
    size_t in_count;
    copse_tensor *wanted[MAX_TENSORS];
    float *results[MAX_TENSORS];
    double *truth[MAX_TENSORS];
    size_t wanted_count;
};

static uint32_t dice = 1;
static uint32_t next_random(void)
{
    dice = dice * 1664525u + 1013904223u;
    return dice >> 8;
}
static float whole(void) /* products of two of these add up exactly */
{
    return (float)(int)(next_random() % 7) - 3.0f;
}
static float positive(void)
{
    return (float)(next_random() + 1) * (1.0f / 16777216.0f);
}
static void job_init(struct job *j)
{
    *j = (struct job){ 0 };
    ok(copse_graph_create(ctx, &j->g));
}

static void job_fini(struct job *j)
{
    for (size_t i = 0; i < MAX_TENSORS; i++) {
        free(j->values[i]);
        free(j->results[i]);
        free(j->truth[i]);
    }
    copse_graph_release(&j->g);
}

static copse_tensor *add_input(struct job *j, copse_shape shape, float (*value)(void))
{
    const size_t i = j->in_count++, n = (size_t)copse__elements(shape);
    ok(copse_input(j->g, "x", COPSE_F32, shape, &j->in[i]));
    j->values[i] = malloc(n * sizeof(float) + 1);
    for (size_t e = 0; e < n; e++)
        j->values[i][e] = value();
    return j->in[i];
}

static void want(struct job *j, copse_tensor *t)
{
    const size_t i = j->wanted_count++, n = (size_t)copse__elements(t->shape);
    j->wanted[i] = t;
    j->results[i] = malloc(n * sizeof(float) + 1);
    j->truth[i] = malloc(n * sizeof(double) + 1);
}

/* COPSE_ERR_UNSUPPORTED where the device does not have the variant. */
static copse_status run(struct job *j, size_t d, const char *variant)
{
    const struct copse_choice choice = { "matmul", variant };
    struct copse_placement at[MAX_TENSORS];
    copse_buffer *buffers[MAX_TENSORS], *step;
    copse_program *p;
    ok(copse_buffer_create(devices[d], &(struct copse_buffer_params){ .size = 256 }, &step));
    for (size_t i = 0; i < j->wanted_count; i++) {
        const size_t bytes = 4 * (size_t)copse__elements(j->wanted[i]->shape);
        const struct copse_buffer_params size = { .size = COPSE_MAX(bytes, 16) };
        ok(copse_buffer_create(devices[d], &size, &buffers[i]));
        ok(copse_queue_fill(queues[d], buffers[i], 0, size.size, 0x7fc00000u));
        at[i] = (struct copse_placement){ j->wanted[i], { buffers[i], 0, size.size }, 0 };
    }
    const copse_status s =
        copse__program_create(&(struct copse_program_params){ .graph = j->g,
                                                              .queue = queues[d],
                                                              .placements = at,
                                                              .placement_count = j->wanted_count,
                                                              .step = { step, 0, 256 },
                                                              .choices = &choice,
                                                              .choice_count = variant != NULL },
                              &p);
    for (size_t i = 0; s == COPSE_OK && i < j->in_count; i++) {
        struct copse_binding b;
        if (copse__program_input(p, j->in[i], &b))
            ok(copse_queue_write(queues[d], b.buffer, b.offset, j->values[i],
                                 4 * (size_t)copse__elements(j->in[i]->shape)));
    }
    if (s == COPSE_OK) {
        ok(copse__program_replay(p, 0));
        for (size_t i = 0; i < j->wanted_count; i++)
            ok(copse_queue_read(queues[d], buffers[i], 0, j->results[i],
                                4 * (size_t)copse__elements(j->wanted[i]->shape)));
        ok(copse_queue_finish(queues[d]));
        copse__program_release(&p);
    }
    for (size_t i = 0; i < j->wanted_count; i++)
        copse_buffer_release(&buffers[i]);
    copse_buffer_release(&step);
    return s;
}

static copse_status feed(void *user, const copse_tensor *leaf, void *values, size_t count)
{
    const struct job *j = user;
    for (size_t i = 0; i < j->in_count; i++)
        for (size_t e = 0; j->in[i] == leaf && e < count; e++)
            ((double *)values)[e] = j->values[i][e];
    return COPSE_OK;
}

static void find_truth(struct job *j)
{
    const struct copse_reference_params p = { .graph = j->g, .feed = feed, .user = j };
    ok(copse__reference_run(&p, j->wanted, j->wanted_count, j->truth));
}

/* Call `check` with the results of every device and variant. */
static void everywhere(struct job *j, void (*check)(struct job *j, const char *where))
{
    for (size_t d = 0; d < device_count; d++)
        for (size_t v = 0; v < COPSE_COUNT(variants); v++) {
            char where[80];
            const copse_status s = run(j, d, variants[v]);
            snprintf(where, sizeof where, "%s, %s", copse_device_describe(devices[d])->id,
                     variants[v] ? variants[v] : "default");
            if (s == COPSE_ERR_UNSUPPORTED && v > 1)
                continue;
            ok(s);
            check(j, where);
        }
}

/* ---- products ---- */

static void check_equal(struct job *j, const char *where)
{
    for (size_t w = 0; w < j->wanted_count; w++) {
        char text[96];
        const size_t n = (size_t)copse__elements(j->wanted[w]->shape);
        for (size_t i = 0; i < n; i++)
            if (j->results[w][i] != (float)j->truth[w][i])
                fail_msg("%s: %s [%zu] is %g, expected %g", where,
                         copse__shape_text(j->wanted[w]->shape, text), i, j->results[w][i],
                         j->truth[w][i]);
    }
}

static copse_shape matrix(uint32_t batch, uint32_t rows, uint32_t cols, bool is_transposed)
{
    copse_shape s = is_transposed ? COPSE_SHAPE(batch, cols, rows) : COPSE_SHAPE(batch, rows, cols);
    if (batch)
        return s;
    return COPSE_SHAPE(s.dims[1], s.dims[2]);
}

/* The truth by its definition, independent of the library's reference. */
static void multiply(const struct job *j, uint32_t batch, uint32_t m, uint32_t n, uint32_t k,
                     bool ta, bool tb)
{
    for (uint32_t t = 0; t < COPSE_MAX(batch, 1); t++)
        for (uint32_t r = 0; r < m; r++)
            for (uint32_t c = 0; c < n; c++) {
                double sum = 0;
                for (uint32_t i = 0; i < k; i++)
                    sum += (double)j->values[0][t * m * k + (ta ? i * m + r : r * k + i)] *
                           j->values[1][t * k * n + (tb ? c * k + i : i * n + c)];
                j->truth[0][(t * m + r) * n + c] = sum;
            }
}

static void product_is_exact(uint32_t batch, uint32_t m, uint32_t n, uint32_t k, int transposed)
{
    const bool ta = transposed & 1, tb = transposed & 2;
    struct job j;
    copse_tensor *y;
    job_init(&j);
    copse_tensor *a = add_input(&j, matrix(batch, m, k, ta), whole);
    copse_tensor *b = add_input(&j, matrix(batch, k, n, tb), whole);
    ok(copse_matmul(j.g, a, b, ta, tb, &y));
    want(&j, y);
    multiply(&j, batch, m, n, k, ta, tb);
    everywhere(&j, check_equal);
    job_fini(&j);
}

static void integers_come_out_exactly(void **state)
{
    (void)state;
    static const uint32_t sizes[][3] = {
        { 0, 3, 4 },    { 3, 0, 4 },     { 3, 4, 0 },     { 1, 1, 1 },      { 2, 3, 1 },
        { 3, 2, 5 },    { 5, 7, 3 },     { 6, 16, 16 },   { 7, 17, 15 },    { 8, 32, 4 },
        { 9, 33, 12 },  { 12, 64, 255 }, { 13, 63, 256 }, { 11, 65, 257 },  { 63, 64, 16 },
        { 64, 63, 17 }, { 65, 65, 31 },  { 64, 10, 128 }, { 129, 127, 36 },
    };
    for (size_t i = 0; i < COPSE_COUNT(sizes); i++)
        for (int t = 0; t < 4; t++)
            product_is_exact(0, sizes[i][0], sizes[i][1], sizes[i][2], t);
}

static void batches_come_out_exactly(void **state)
{
    (void)state;
    for (int t = 0; t < 4; t++) {
        product_is_exact(3, 7, 5, 6, t);
        product_is_exact(2, 16, 68, 64, t);
        product_is_exact(5, 1, 1, 3, t);
    }
    product_is_exact(0, 7, 5, 6, 0);
}

/* Large enough for the copies that variants make of large operands. */
static void large_products_come_out_exactly(void **state)
{
    (void)state;
    for (int t = 0; t < 4; t++)
        product_is_exact(0, 330, 640, 700, t);
    product_is_exact(0, 24, 1024, 1024, 0);
    product_is_exact(0, 1024, 8, 1024, 1);
}

/* More than the 65535 rounds after which some drivers leave a loop. */
static void long_sums_come_out_exactly(void **state)
{
    (void)state;
    for (int t = 0; t < 4; t++)
        product_is_exact(0, 2, 3, 66001, t);
    product_is_exact(0, 1, 4, 140000, 0);
}

static double largest_ratio; /* Netlib's: error / (u sum |a| |b|) */

static void check_ratio(struct job *j, const char *where)
{
    const uint32_t n = j->wanted[0]->shape.dims[1], m = j->wanted[0]->shape.dims[0];
    double worst = 0;
    for (size_t i = 0; i < (size_t)m * n; i++) {
        const double t = j->truth[0][i], r = fabs(j->results[0][i] - t) / (ldexp(1, -24) * t);
        worst = r <= worst ? worst : r;
    }
    largest_ratio = COPSE_MAX(largest_ratio, worst);
    if (!(worst <= 16))
        fail_msg("%s: error ratio %g", where, worst);
}

static void errors_do_not_grow_with_k(void **state)
{
    (void)state;
    static const uint32_t depths[] = { 16, 300, 1024, 4096, 20000 };
    for (size_t i = 0; i < COPSE_COUNT(depths); i++)
        for (int t = 0; t < 4; t++) {
            struct job j;
            copse_tensor *y;
            job_init(&j);
            copse_tensor *a = add_input(&j, matrix(0, 20, depths[i], t & 1), positive);
            copse_tensor *b = add_input(&j, matrix(0, depths[i], 40, t & 2), positive);
            ok(copse_matmul(j.g, a, b, t & 1, t & 2, &y));
            want(&j, y);
            find_truth(&j);
            everywhere(&j, check_ratio);
            job_fini(&j);
        }
    print_message("largest error ratio: %.2f\n", largest_ratio);
}

static void clblast_comes_out_exactly(void **state)
{
    (void)state;
    size_t tried = 0;
    for (size_t d = 0; d < device_count; d++) {
        if (!copse_device_describe(devices[d])->limits.has_library_gemm)
            continue;
        tried++;
        for (int t = 0; t < 4; t++) {
            struct job j;
            copse_tensor *y;
            job_init(&j);
            copse_tensor *a = add_input(&j, matrix(0, 33, 17, t & 1), whole);
            copse_tensor *b = add_input(&j, matrix(0, 17, 9, t & 2), whole);
            ok(copse_matmul(j.g, a, b, t & 1, t & 2, &y));
            want(&j, y);
            if (t == 0) {
                copse_tensor *bias = add_input(&j, COPSE_SHAPE(9), whole);
                ok(copse_dense(j.g, a, b, bias, COPSE_RELU, &y));
                want(&j, y);
            }
            find_truth(&j);
            ok(run(&j, d, "matmul_clblast"));
            check_equal(&j, copse_device_describe(devices[d])->id);
            job_fini(&j);
        }
    }
    if (!tried) {
        print_message("no device has CLBlast\n");
        skip();
    }
}

/* ---- edges ---- */

/* What is not a number does not hide behind an activation or an edge. */
static float nan_at_the_end(void)
{
    static int count;
    return ++count % 6 == 0 ? NAN : 1.0f;
}
static void check_nan(struct job *j, const char *where)
{
    for (size_t i = 0; i < 10; i++)
        if (isnan(j->results[0][i]) != (i >= 5))
            fail_msg("%s: [%zu] is %g", where, i, j->results[0][i]);
}
static void nan_stays_in_its_row(void **state)
{
    (void)state;
    for (int activation = COPSE_LINEAR; activation <= COPSE_TANH; activation++) {
        struct job j;
        copse_tensor *y;
        job_init(&j);
        copse_tensor *x = add_input(&j, COPSE_SHAPE(2, 3), nan_at_the_end);
        copse_tensor *w = add_input(&j, COPSE_SHAPE(3, 5), positive);
        ok(copse_dense(j.g, x, w, NULL, (copse_activation)activation, &y));
        want(&j, y);
        everywhere(&j, check_nan);
        job_fini(&j);
    }
}

/* ---- misuse ---- */

static void refused(copse_status s, copse_status expected, const char *text)
{
    assert_int_equal(s, expected);
    if (!strstr(copse_last_error(), text))
        fail_msg("'%s' does not say '%s'", copse_last_error(), text);
}

static void misfits_are_named(void **state)
{
    (void)state;
    struct job j;
    copse_tensor *y, *a, *b, *i, *v;
    job_init(&j);
    ok(copse_input(j.g, "a", COPSE_F32, COPSE_SHAPE(4, 5), &a));
    ok(copse_input(j.g, "b", COPSE_F32, COPSE_SHAPE(6, 3), &b));
    ok(copse_input(j.g, "i", COPSE_I32, COPSE_SHAPE(5, 3), &i));
    ok(copse_input(j.g, "v", COPSE_F32, COPSE_SHAPE(5), &v));
    refused(copse_matmul(j.g, a, b, false, false, &y), COPSE_ERR_SHAPE,
            "matmul: operands f32[4, 5] and f32[6, 3]: expected equal inner sizes");
    assert_null(y);
    refused(copse_matmul(j.g, a, i, false, false, &y), COPSE_ERR_SHAPE, "expected f32");
    refused(copse_matmul(j.g, a, v, false, false, &y), COPSE_ERR_SHAPE, "expected equal ranks");
    refused(copse_matmul(j.g, a, NULL, false, false, &y), COPSE_ERR_ARGUMENT, "matmul: operand 1");
    ok(copse_input(j.g, "w", COPSE_F32, COPSE_SHAPE(5, 4), &b));
    ok(copse_matmul(j.g, a, b, false, false, &y));
    want(&j, y);
    refused(run(&j, device_count - 1, "matmul_cubic"), COPSE_ERR_ARGUMENT,
            "no variant 'matmul_cubic'");
    refused(run(&j, device_count - 1, "matmul_wide"), COPSE_ERR_UNSUPPORTED, "matmul_wide");
    job_fini(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(misfits_are_named),
        cmocka_unit_test(integers_come_out_exactly),
        cmocka_unit_test(batches_come_out_exactly),
        cmocka_unit_test(large_products_come_out_exactly),
        cmocka_unit_test(long_sums_come_out_exactly),
        cmocka_unit_test(errors_do_not_grow_with_k),
        cmocka_unit_test(nan_stays_in_its_row),
        cmocka_unit_test(clblast_comes_out_exactly),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
