/* SPDX-License-Identifier: MIT */
/* Attention and its derivatives have the same bits on repetition and for every group size. One
   tensor with all heads gives the bits of three, and a window as long as the sequence those of
   none. Masks of the definition, by softmax, give the same numbers. Operands of 16 bits give the
   bits of the same numbers in f32. The memory of result and derivative grows linearly. */
#include <math.h>
#include <stdlib.h>

#include "copse/ops/attention.h"
#include "core/base/random.h"
#include "core/graph/type.h"
#include "core/graph/variant.h"
#include "tests/rig/conformance/op_harness.h"
#include "tests/rig/graph_rig.h"

struct sizes {
    uint32_t items, length, heads, kv_heads, width;
    struct copse_attention_params params;
    const int32_t *lengths; /* NULL: none */
    bool is_masked;         /* mask_at is added to the scores */
    copse_type type;        /* qkv is rounded to it */
};

/* A tenth of the keys are hidden, and all keys of each ninth query. */
static float mask_at(uint32_t i, uint32_t j)
{
    return i % 9 == 4 || (7 * i + 3 * j) % 10 == 0 ? -INFINITY
                                                   : 0.25f * (float)((5 * i + 11 * j) % 13) - 1.5f;
}

static bool sees(const struct sizes *s, uint32_t item, uint32_t i, uint32_t j)
{
    const uint32_t window = s->params.window ? s->params.window : UINT32_MAX;
    const uint32_t length = s->lengths ? (uint32_t)s->lengths[item] : s->length;
    return !(s->params.is_causal && j > i) && (i > j ? i - j : j - i) < window && i < length &&
           j < length;
}

/* The parameters with their tensors. */
static struct copse_attention_params params_of(copse_graph *g, const struct sizes *s)
{
    struct copse_attention_params p = s->params;
    float *mask = calloc((size_t)s->length * s->length, sizeof *mask);
    assert_non_null(mask);
    for (uint32_t i = 0; i < s->length * s->length; i++)
        mask[i] = mask_at(i / s->length, i % s->length);
    if (s->is_masked)
        p.mask = copse_constant(g, COPSE_F32, COPSE_SHAPE(s->length, s->length), mask);
    if (s->lengths)
        p.lengths = copse_constant(g, COPSE_I32, COPSE_SHAPE(s->items), s->lengths);
    free(mask);
    return p;
}

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
static void parts_of(copse_graph *g, copse_tensor *qkv, const struct sizes *s, copse_tensor **part)
{
    const uint32_t q = s->heads * s->width, k = s->kv_heads * s->width, columns[] = { q, k, k };
    copse_split(g, qkv, 2, columns, 3, part);
    for (int i = 0; i < 3; i++)
        part[i] = copse_reshape(
            g, part[i], COPSE_SHAPE(s->items, s->length, i ? s->kv_heads : s->heads, s->width));
}

/* y and the derivative of qkv, one behind the other. */
static double *attended(copse_device *dev, const struct sizes *s, bool is_split)
{
    const size_t n = words_of(s), m = results_of(s);
    double *x = numbers(n, 5), *dy = numbers(m, 6), *in_values[] = { x, dy },
           *got = calloc(n + m, sizeof *got);
    copse_graph *g;
    copse_tensor *in[2], *out[2], *part[3], *qkv;
    const copse_shape shape = COPSE_SHAPE(s->items, s->length, s->heads * s->width);
    assert_non_null(got);
    OK(copse_graph_create(harness_context(), &g));
    const struct copse_attention_params params = params_of(g, s);
    in[0] = copse_graph_input(
        g, "qkv", COPSE_F32,
        COPSE_SHAPE(s->items, s->length, (s->heads + 2 * s->kv_heads) * s->width));
    in[1] = copse_graph_input(g, "dy", COPSE_F32, shape);
    qkv = copse_cast(g, in[0], s->type);
    if (is_split) {
        qkv = copse_cast(g, qkv, COPSE_F32);
        parts_of(g, qkv, s, part);
        out[0] = copse_attention(g, part[0], part[1], part[2], &params);
        out[0] = copse_reshape(g, out[0], shape);
    } else
        out[0] = copse_self_attention(g, qkv, s->heads, s->kv_heads, &params);
    copse_gradients(g, out[0], in[1], in, 1, &out[1]);
    harness_on_device(dev, g, in, in_values, 2, out, 2, NULL, (double *[]){ got, got + m });
    copse_graph_release(&g);
    free(x);
    free(dy);
    return got;
}

static void same(const char *id, const struct sizes *s, const double *a, const double *b,
                 const char *what)
{
    for (size_t i = 0; i < words_of(s) + results_of(s); i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("%s, %u x %u x %u / %u x %u, %s: number %zu is %.9g and %.9g", id, s->items,
                     s->length, s->heads, s->kv_heads, s->width, what, i, a[i], b[i]);
}

static const struct sizes all[] = {
    { 2, 70, 4, 2, 8, .params = { .is_causal = true, .window = 67, .scale = 0.3f } },
    { 1, 130, 3, 3, 8, .params = { .window = 9 } },
    { 1, 130, 2, 1, 8, .params = { .is_causal = true }, .is_masked = true },
};
static const int32_t short_items[] = { 55, 0 };

static void results_have_the_same_bits(void **state)
{
    (void)state;
    for (size_t d = 0; d < harness_device_count(); d++)
        for (size_t i = 0; i < COPSE_COUNT(all); i++) {
            const char *id = copse_device_describe(harness_device(d))->id;
            if (!rig_takes_on(i, id))
                continue;
            double *first = attended(harness_device(d), &all[i], false),
                   *again = attended(harness_device(d), &all[i], false);
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
            double *first = attended(harness_device(d), &all[0], false),
                   *again = attended(dev, &all[0], false);
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
        struct sizes none = { 1, 70, 2, 1, 8, .params = { .is_causal = true } }, window = none;
        window.params.window = 70;
        double *first = attended(harness_device(d), &none, false),
               *again = attended(harness_device(d), &window, false);
        same(copse_device_describe(harness_device(d))->id, &none, first, again,
             "with a window of 70");
        free(first);
        free(again);
    }
}

/* softmax(scale q k^T + mask) v by other ops, perhaps with a cap, and its derivative, in double. */
static double *by_definition(const struct sizes *s)
{
    static const uint32_t order[] = { 0, 2, 1, 3 };
    const size_t n = words_of(s), m = results_of(s);
    double *x = numbers(n, 5), *dy = numbers(m, 6), *in_values[] = { x, dy },
           *got = calloc(n + m, sizeof *got);
    float *hidden = calloc((size_t)s->items * s->length * s->length, sizeof *hidden),
          *some = calloc((size_t)s->items * s->length, sizeof *some);
    const copse_shape shape = COPSE_SHAPE(s->items, s->length, s->heads * s->width);
    copse_graph *g;
    copse_tensor *in[2], *out[2], *part[3], *score, *mask, *any;
    assert_true(got && hidden && some);
    assert_int_equal(s->heads, s->kv_heads);
    for (uint32_t row = 0; row < s->items * s->length; row++)
        for (uint32_t j = 0, i = row % s->length; j < s->length; j++) {
            const float bias = s->is_masked ? mask_at(i, j) : 0;
            hidden[row * s->length + j] =
                sees(s, row / s->length, i, j) && bias > -INFINITY ? bias : -1e30f;
            some[row] = some[row] > 0 || hidden[row * s->length + j] > -1e30f;
        }
    OK(copse_graph_create(harness_context(), &g));
    in[0] = copse_graph_input(g, "qkv", COPSE_F32,
                              COPSE_SHAPE(s->items, s->length, 3 * s->heads * s->width));
    in[1] = copse_graph_input(g, "dy", COPSE_F32, shape);
    mask = copse_constant(g, COPSE_F32, COPSE_SHAPE(s->items, 1, s->length, s->length), hidden);
    any = copse_constant(g, COPSE_F32, COPSE_SHAPE(s->items, 1, s->length, 1), some);
    parts_of(g, in[0], s, part);
    for (int i = 0; i < 3; i++)
        part[i] = copse_transpose(g, part[i], order);
    score = copse_matmul(g, part[0], part[1], false, true);
    score = copse_multiply_by(g, score, (float)(1 / sqrt((double)s->width)));
    const float cap = s->params.cap;
    if (cap > 0)
        score = copse_multiply_by(g, copse_tanh(g, copse_multiply_by(g, score, 1 / cap)), cap);
    score = copse_add(g, score, mask);
    score = copse_softmax(g, score);
    score = copse_mul(g, score, any);
    out[0] = copse_matmul(g, score, part[2], false, false);
    out[0] = copse_transpose(g, out[0], order);
    out[0] = copse_reshape(g, out[0], shape);
    copse_gradients(g, out[0], in[1], in, 1, &out[1]);
    OK(copse_graph_status(g));
    harness_in_double(g, in, in_values, 2, out, 2, NULL, (double *[]){ got, got + m });
    copse_graph_release(&g);
    free(x);
    free(dy);
    free(hidden);
    free(some);
    return got;
}

static void it_equals_its_definition(void **state)
{
    static const struct sizes sizes[] = {
        { 2, 70, 2, 2, 8, .params = { .is_causal = true } },
        { 1, 66, 3, 3, 8, .params = { .window = 9 } },
        { 1, 70, 2, 2, 8, .params = { .is_causal = true }, .is_masked = true },
        { 1, 66, 1, 1, 8, .params = { .window = 9 }, .is_masked = true },
        { 2, 70, 2, 2, 8, .params = { .is_causal = true }, .lengths = short_items },
        { 2, 70, 2, 2, 8, .params = { .window = 20 }, .lengths = short_items },
        { 2, 70, 2, 2, 8, .params = { .window = 20 }, .lengths = short_items, .is_masked = true },
        { 2, 70, 2, 2, 8, .params = { .is_causal = true, .cap = 0.5f } },
        { 2, 70, 2, 2, 32, .params = { .window = 20, .cap = 1 }, .lengths = short_items,
          .is_masked = true },
    };
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(sizes); i++) {
        double *want = by_definition(&sizes[i]);
        for (size_t d = 0; d < harness_device_count(); d++) {
            const char *id = copse_device_describe(harness_device(d))->id;
            if (!rig_takes_on(i, id))
                continue;
            double *got = attended(harness_device(d), &sizes[i], false);
            for (size_t k = 0; k < words_of(&sizes[i]) + results_of(&sizes[i]); k++)
                if (!(fabs(got[k] - want[k]) <= 1e-5 * (1 + fabs(want[k]))))
                    fail_msg("%s, case %zu: number %zu is %.9g, by definition %.9g", id, i, k,
                             got[k], want[k]);
            free(got);
        }
        free(want);
    }
}

/* Values after a length change nothing, not even NaN. */
static void padding_is_not_read(void **state)
{
    enum {
        ITEMS = 2,
        LENGTH = 40,
        WIDTH = 8,
        N = ITEMS * LENGTH * 3 * WIDTH,
        M = ITEMS * LENGTH * WIDTH
    };
    static const int32_t lengths[] = { 21, 40 };
    (void)state;
    for (size_t d = 0; d < harness_device_count(); d++) {
        double *x = numbers(N, 5), *dy = numbers(M, 6), *got[2], *in_values[] = { x, dy };
        for (int has_nan = 0; has_nan < 2; has_nan++) {
            copse_graph *g;
            copse_tensor *in[2], *out[2];
            struct copse_attention_params params = { .is_causal = true };
            got[has_nan] = calloc(N + M, sizeof *got[0]);
            assert_non_null(got[has_nan]);
            for (size_t i = 0; has_nan && i < N; i++)
                x[i] = i < LENGTH * 3 * WIDTH && i >= 21 * 3 * WIDTH ? NAN : x[i];
            OK(copse_graph_create(harness_context(), &g));
            in[0] = copse_graph_input(g, "qkv", COPSE_F32, COPSE_SHAPE(ITEMS, LENGTH, 3 * WIDTH));
            in[1] = copse_graph_input(g, "dy", COPSE_F32, COPSE_SHAPE(ITEMS, LENGTH, WIDTH));
            params.lengths = copse_constant(g, COPSE_I32, COPSE_SHAPE(ITEMS), lengths);
            out[0] = copse_self_attention(g, in[0], 1, 1, &params);
            copse_gradients(g, out[0], in[1], in, 1, &out[1]);
            harness_on_device(harness_device(d), g, in, in_values, 2, out, 2, NULL,
                              (double *[]){ got[has_nan], got[has_nan] + M });
            copse_graph_release(&g);
        }
        for (size_t i = 0; i < N + M; i++)
            if (memcmp(&got[0][i], &got[1][i], sizeof *got[0]) != 0)
                fail_msg("%s: number %zu is %.9g, with NaN after the length %.9g",
                         copse_device_describe(harness_device(d))->id, i, got[0][i], got[1][i]);
        for (size_t i = 21 * WIDTH; i < LENGTH * WIDTH; i++)
            assert_true(got[0][i] == 0.0);
        for (size_t i = M + 21 * 3 * WIDTH; i < M + LENGTH * 3 * WIDTH; i++)
            assert_true(got[0][i] == 0.0);
        free(x);
        free(dy);
        free(got[0]);
        free(got[1]);
    }
}

/* The result of 16-bit operands has the bits of those numbers in f32. Derivatives use a result that
   was rounded. */
static void operands_may_have_16_bits(void **state)
{
    static const copse_type types[] = { COPSE_F16, COPSE_BF16 };
    (void)state;
    for (size_t d = 0; d < harness_device_count(); d++)
        for (size_t t = 0; t < COPSE_COUNT(types); t++) {
            const struct sizes s = {
                2, 70, 4, 2, 8, .params = { .is_causal = true }, .type = types[t]
            };
            const char *id = copse_device_describe(harness_device(d))->id;
            const double close = types[t] == COPSE_F16 ? 1e-3 : 1e-2;
            double *narrow = attended(harness_device(d), &s, false),
                   *wide = attended(harness_device(d), &s, true);
            for (size_t i = 0; i < results_of(&s); i++)
                if (memcmp(&narrow[i], &wide[i], sizeof *narrow) != 0)
                    fail_msg("%s, %s: result %zu is %.9g and %.9g", id, copse_type_name(s.type), i,
                             narrow[i], wide[i]);
            for (size_t i = results_of(&s); i < results_of(&s) + words_of(&s); i++)
                if (!(fabs(narrow[i] - wide[i]) <= close * (1 + fabs(wide[i]))))
                    fail_msg("%s, %s: derivative %zu is %.9g and %.9g", id, copse_type_name(s.type),
                             i, narrow[i], wide[i]);
            free(narrow);
            free(wide);
        }
}

static void a_mask_has_no_derivative(void **state)
{
    copse_graph *g;
    copse_tensor *in[2], *y, *dx[2];
    (void)state;
    OK(copse_graph_create(harness_context(), &g));
    in[0] = copse_graph_input(g, "qkv", COPSE_F32, COPSE_SHAPE(1, 5, 12));
    in[1] = copse_graph_input(g, "mask", COPSE_F32, COPSE_SHAPE(5, 5));
    y = copse_self_attention(g, in[0], 1, 1, &(struct copse_attention_params){ .mask = in[1] });
    y = copse_sum(g, y, NULL, 0, false);
    copse_gradients(g, y, NULL, in, 2, dx);
    harness_fails(copse__graph_take_failure(g), COPSE_ERR_UNSUPPORTED,
                  "self_attention: the mask has no derivative: it must not depend on variables");
    copse_graph_release(&g);
}

/* ---- memory ---- */

/* The most bytes in use for operands, result and state; the derivative is outside. 0 if the device
   cannot run the variant. */
static size_t bytes_of(copse_device *dev, uint32_t length, const char *variant, float cap)
{
    enum { HEADS = 4, WIDTH = 32 };
    const struct copse_attention_params params = { .is_causal = true, .cap = cap };
    const struct copse_choice choice = { "attention", variant };
    struct copse_program_memory memory = { .peak = 0 };
    copse_graph *g;
    copse_queue *queue;
    copse_buffer *buffer;
    copse_tensor *in[2], *y, *dx;
    OK(copse_queue_create(dev, &queue));
    OK(copse_graph_create(harness_context(), &g));
    in[0] = copse_graph_input(g, "qkv", COPSE_F32, COPSE_SHAPE(2, length, 3 * HEADS * WIDTH));
    in[1] = copse_graph_input(g, "dy", COPSE_F32, COPSE_SHAPE(2, length, HEADS * WIDTH));
    y = copse_self_attention(g, in[0], HEADS, HEADS, &params);
    copse_gradients(g, y, in[1], in, 1, &dx);
    const size_t room = sizeof(float) * (size_t)copse__elements(dx->shape);
    OK(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = room }, &buffer));
    const struct copse_placement at = { .tensor = dx, .at = { buffer, 0, room } };
    const struct copse_program_params program = { .graph = g,
                                                  .queue = queue,
                                                  .placements = &at,
                                                  .placement_count = 1,
                                                  .choices = &choice,
                                                  .choice_count = 1,
                                                  .is_plain = true };
    const copse_status status = copse__program_measure(&program, SIZE_MAX, &memory);
    if (status != COPSE_ERR_UNSUPPORTED)
        OK(status);
    copse_buffer_release(&buffer);
    copse_graph_release(&g);
    copse_queue_release(&queue);
    return memory.peak;
}

/* Each position has the bytes of its shapes; what does not depend on the length is at most a
   kilobyte. */
static void memory_grows_linearly(void **state)
{
    static const char *const variants[] = { "plain", "wide", "texel" };
    /* qkv, y and dy, and four words of state for each head: [bytes] for a position of two items */
    const size_t each = 2 * 4 * (3 * 128 + 128 + 128 + 4 * 4);
    (void)state;
    for (size_t d = 0; d < harness_device_count(); d++)
        for (size_t v = 0; v < 2 * COPSE_COUNT(variants); v++) {
            const char *variant = variants[v / 2];
            const float cap = v % 2 ? 50 : 0;
            copse_device *dev = harness_device(d);
            const size_t first = bytes_of(dev, 512, variant, cap);
            for (uint32_t length = 512; length <= 4096 && first > 0; length *= 2) {
                const size_t bytes = bytes_of(dev, length, variant, cap);
                print_message("%s, %s, %u positions%s: %zu bytes\n", copse_device_describe(dev)->id,
                              variant, length, cap > 0 ? ", a cap" : "", bytes);
                assert_int_equal(bytes - first, each * (length - 512));
                assert_true(bytes >= each * length && bytes <= each * length + 1024);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_have_the_same_bits), cmocka_unit_test(groups_do_not_matter),
        cmocka_unit_test(a_window_of_all_is_none),    cmocka_unit_test(it_equals_its_definition),
        cmocka_unit_test(padding_is_not_read),        cmocka_unit_test(operands_may_have_16_bits),
        cmocka_unit_test(a_mask_has_no_derivative),   cmocka_unit_test(memory_grows_linearly),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
