/* SPDX-License-Identifier: MIT */
/* Attention and its derivatives have the same bits on repetition and for every group size. One tensor with all heads gives the bits
   of three, and a window as long as the sequence those of none. Masks of the definition, by softmax, give the same numbers. */
#include <math.h>
#include <stdlib.h>

#include "copse/ops/attention.h"
#include "core/base/random.h"
#include "tests/rig/op_harness.h"

struct sizes {
    uint32_t items, length, heads, kv_heads, width;
    struct copse_attention_params params;
};

static size_t words_of(const struct sizes *s)
{
    return (size_t)s->items * s->length * (s->heads + 2 * s->kv_heads) * s->width;
}

static size_t results_of(const struct sizes *s)
{
    return (size_t)s->items * s->length * s->heads * s->width;
}

static double *numbers(size_t n, uint64_t seed)
{
    struct copse_stream random;
    double *x = calloc(n, sizeof *x);
    assert_non_null(x);
    copse__stream_init(&random, seed, 0);
    for (size_t i = 0; i < n; i++)
        x[i] = (double)copse__stream_normal(&random);
    return x;
}

/* q, k and v of a tensor with all heads. */
static copse_status parts_of(copse_graph *g, copse_tensor *qkv, const struct sizes *s, copse_tensor **part)
{
    const uint32_t q = s->heads * s->width, k = s->kv_heads * s->width, columns[] = { q, k, k };
    COPSE_TRY(copse_split(g, qkv, 2, columns, 3, part));
    for (int i = 0; i < 3; i++)
        COPSE_TRY(copse_reshape(g, part[i], COPSE_SHAPE(s->items, s->length, i ? s->kv_heads : s->heads, s->width), &part[i]));
    return COPSE_OK;
}

/* y and the derivative of qkv, one behind the other. */
static double *attended(copse_device *dev, const struct sizes *s, bool is_split)
{
    const size_t n = words_of(s), m = results_of(s);
    double *x = numbers(n, 5), *dy = numbers(m, 6), *in_values[] = { x, dy }, *got = calloc(n + m, sizeof *got);
    copse_graph *g;
    copse_tensor *in[2], *out[2], *part[3];
    const copse_shape shape = COPSE_SHAPE(s->items, s->length, s->heads * s->width);
    assert_non_null(got);
    OK(copse_graph_create(harness_context(), &g));
    OK(copse_graph_input(g, "qkv", COPSE_F32, COPSE_SHAPE(s->items, s->length, (s->heads + 2 * s->kv_heads) * s->width), &in[0]));
    OK(copse_graph_input(g, "dy", COPSE_F32, shape, &in[1]));
    if (is_split) {
        OK(parts_of(g, in[0], s, part));
        OK(copse_attention(g, part[0], part[1], part[2], &s->params, &out[0]));
        OK(copse_reshape(g, out[0], shape, &out[0]));
    } else
        OK(copse_self_attention(g, in[0], s->heads, s->kv_heads, &s->params, &out[0]));
    OK(copse_gradients(g, out[0], in[1], in, 1, &out[1]));
    harness_on_device(dev, g, in, in_values, 2, out, 2, NULL, (double *[]){ got, got + m });
    copse_graph_release(&g);
    free(x);
    free(dy);
    return got;
}

static void same(const char *id, const struct sizes *s, const double *a, const double *b, const char *what)
{
    for (size_t i = 0; i < words_of(s) + results_of(s); i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("%s, %u x %u x %u / %u x %u, %s: number %zu is %.9g and %.9g", id, s->items, s->length, s->heads, s->kv_heads,
                     s->width, what, i, a[i], b[i]);
}

static const struct sizes all[] = {
    { 2, 70, 4, 2, 8, { .is_causal = true, .window = 67, .scale = 0.3f } },
    { 1, 130, 3, 3, 8, { .window = 9 } },
};

static void results_have_the_same_bits(void **state)
{
    (void)state;
    for (size_t d = 0; d < harness_device_count(); d++)
        for (size_t i = 0; i < COPSE_COUNT(all); i++) {
            const char *id = copse_device_describe(harness_device(d))->id;
            double *first = attended(harness_device(d), &all[i], false), *again = attended(harness_device(d), &all[i], false);
            double *split = attended(harness_device(d), &all[i], true);
            same(id, &all[i], first, again, "repeated");
            same(id, &all[i], first, split, "in three tensors");
            free(first);
            free(again);
            free(split);
        }
}

static void groups_do_not_matter(void **state)
{
    (void)state;
    for (size_t d = 0; d < harness_device_count(); d++) {
        const char *id = copse_device_describe(harness_device(d))->id;
        copse_device *dev;
        OK(copse_device_open(harness_context(), id, NULL, &dev));
        struct copse_limits smaller = *dev->limits;
        smaller.max_group_size = 8;
        if (copse__device_limit(dev, &smaller) != COPSE_OK)
            print_message("%s has no groups of 8: %s\n", id, copse_last_error());
        else {
            double *first = attended(harness_device(d), &all[0], false), *again = attended(dev, &all[0], false);
            same(id, &all[0], first, again, "in groups of 8");
            free(first);
            free(again);
        }
        copse_device_release(&dev);
    }
}

static void a_window_of_all_is_none(void **state)
{
    (void)state;
    for (size_t d = 0; d < harness_device_count(); d++) {
        struct sizes none = { 1, 70, 2, 1, 8, { .is_causal = true } }, window = none;
        window.params.window = 70;
        double *first = attended(harness_device(d), &none, false), *again = attended(harness_device(d), &window, false);
        same(copse_device_describe(harness_device(d))->id, &none, first, again, "with a window of 70");
        free(first);
        free(again);
    }
}

/* softmax(scale q k^T + mask) v by other ops, and its derivative. */
static double *by_definition(copse_device *dev, const struct sizes *s)
{
    static const uint32_t order[] = { 0, 2, 1, 3 };
    const size_t n = words_of(s), m = results_of(s);
    double *x = numbers(n, 5), *dy = numbers(m, 6), *in_values[] = { x, dy }, *got = calloc(n + m, sizeof *got);
    float *hidden = calloc((size_t)s->length * s->length, sizeof *hidden);
    const copse_shape shape = COPSE_SHAPE(s->items, s->length, s->heads * s->width);
    const uint32_t window = s->params.window ? s->params.window : UINT32_MAX;
    copse_graph *g;
    copse_tensor *in[2], *out[2], *part[3], *score, *mask;
    assert_true(got && hidden);
    assert_int_equal(s->heads, s->kv_heads);
    for (uint32_t i = 0; i < s->length; i++)
        for (uint32_t j = 0; j < s->length; j++)
            hidden[i * s->length + j] = (s->params.is_causal && j > i) || (i > j ? i - j : j - i) >= window ? -INFINITY : 0;
    OK(copse_graph_create(harness_context(), &g));
    OK(copse_graph_input(g, "qkv", COPSE_F32, COPSE_SHAPE(s->items, s->length, 3 * s->heads * s->width), &in[0]));
    OK(copse_graph_input(g, "dy", COPSE_F32, shape, &in[1]));
    OK(copse_constant(g, COPSE_F32, COPSE_SHAPE(s->length, s->length), hidden, &mask));
    OK(parts_of(g, in[0], s, part));
    for (int i = 0; i < 3; i++)
        OK(copse_transpose(g, part[i], order, &part[i]));
    OK(copse_matmul(g, part[0], part[1], false, true, &score));
    OK(copse_multiply_by(g, score, (float)(1 / sqrt((double)s->width)), &score));
    OK(copse_add(g, score, mask, &score));
    OK(copse_softmax(g, score, &score));
    OK(copse_matmul(g, score, part[2], false, false, &out[0]));
    OK(copse_transpose(g, out[0], order, &out[0]));
    OK(copse_reshape(g, out[0], shape, &out[0]));
    OK(copse_gradients(g, out[0], in[1], in, 1, &out[1]));
    harness_on_device(dev, g, in, in_values, 2, out, 2, NULL, (double *[]){ got, got + m });
    copse_graph_release(&g);
    free(x);
    free(dy);
    free(hidden);
    return got;
}

static void it_equals_its_definition(void **state)
{
    static const struct sizes sizes[] = {
        { 2, 70, 2, 2, 8, { .is_causal = true } }, { 1, 66, 3, 3, 8, { .window = 9 } },
    };
    (void)state;
    for (size_t d = 0; d < harness_device_count(); d++)
        for (size_t i = 0; i < COPSE_COUNT(sizes); i++) {
            double *got = attended(harness_device(d), &sizes[i], false), *want = by_definition(harness_device(d), &sizes[i]);
            for (size_t k = 0; k < words_of(&sizes[i]) + results_of(&sizes[i]); k++)
                if (!(fabs(got[k] - want[k]) <= 1e-5 * (1 + fabs(want[k]))))
                    fail_msg("%s, case %zu: number %zu is %.9g, by definition %.9g",
                             copse_device_describe(harness_device(d))->id, i, k, got[k], want[k]);
            free(got);
            free(want);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_have_the_same_bits),
        cmocka_unit_test(groups_do_not_matter),
        cmocka_unit_test(a_window_of_all_is_none),
        cmocka_unit_test(it_equals_its_definition),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
