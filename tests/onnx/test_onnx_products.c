/* SPDX-License-Identifier: MIT */
/* Einsum, Attention and RotaryEmbedding: what they compute beside sums in double precision, and what is refused. */
#include "tests/onnx/onnx_rig.h"

#include "copse/ops.h"

static float a_values[24], b_values[24], c_values[24];

static int begin(void **state)
{
    (void)state;
    for (int i = 0; i < 24; i++) {
        a_values[i] = (float)(i * 7 % 11) / 4 - 1;
        b_values[i] = (float)(i * 5 % 13) / 4 - 1.5f;
        c_values[i] = (float)(i * 3 % 7) / 4 - 0.5f;
    }
    temp_begin();
    return copse_context_create(NULL, &ctx) != COPSE_OK;
}

static int end(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    temp_end();
    return 0;
}

static void put_text(struct model_rig *r, CopseOnnx__Node *n, const char *name, const char *text)
{
    CopseOnnx__Attribute *at = rig_attribute(r, n, name);
    at->has_s = true;
    at->s = (ProtobufCBinaryData){ strlen(text), (uint8_t *)rig_text(r, text) };
}

/* ---- Einsum of x [2, 3] and constants ---- */

static void put_einsum(struct model_rig *r, const char *equation, const char *in)
{
    rig_begin(r, 17);
    rig_input(r, "x", ONNX_FLOAT, DIMS(2, 3));
    rig_reals(r, "b", DIMS(3, 4), b_values, true);
    rig_reals(r, "c", DIMS(4, 2), c_values, true);
    rig_reals(r, "d", DIMS(2, 3, 4), b_values, true);
    rig_reals(r, "v", DIMS(3), c_values, true);
    put_text(r, rig_node(r, "Einsum", in, "y"), "equation", equation);
    rig_output(r, "y");
}

static copse_status run_einsum(const char *equation, const char *in, float *y, copse_shape *shape)
{
    struct model_rig r;
    copse_onnx *m = NULL;
    put_einsum(&r, equation, in);
    OK(rig_open(&r, &m));
    const copse_status s = rig_run(
        m, (struct given[]){ { "x", COPSE_F32, COPSE_SHAPE(2, 3), a_values } }, 1, NULL, y, shape);
    copse_onnx_release(&m);
    rig_free(&r);
    return s;
}

#define X(i, k)    (double)a_values[3 * (i) + (k)]
#define B(i, k)    (double)b_values[4 * (i) + (k)]
#define C(i, k)    (double)c_values[2 * (i) + (k)]
#define D(n, i, k) (double)b_values[12 * (n) + 4 * (i) + (k)]

static void expect(const char *equation, const char *in, copse_shape want, const double *values)
{
    float y[64];
    copse_shape shape = { .rank = 0 };
    OK(run_einsum(equation, in, y, &shape));
    assert_int_equal(shape.rank, want.rank);
    size_t count = 1;
    for (uint32_t i = 0; i < want.rank; i++) {
        assert_int_equal(shape.dims[i], want.dims[i]);
        count *= want.dims[i];
    }
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)y[i] - values[i]) < 1e-5))
            fail_msg("%s: element %zu is %g, not %g", equation, i, (double)y[i], values[i]);
}

static void test_einsum(void **state)
{
    (void)state;
    double want[64] = { 0 }, all = 0;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 4; k++)
            for (int j = 0; j < 3; j++)
                want[4 * i + k] += X(i, j) * B(j, k);
    expect("ij,jk->ik", "x b", COPSE_SHAPE(2, 4), want);
    expect("ij, jk", "x b", COPSE_SHAPE(2, 4), want);
    expect("i j,jk - > ik", "x b", COPSE_SHAPE(2, 4), want);
    double turned[64];
    for (int i = 0; i < 8; i++)
        turned[i] = want[4 * (i % 2) + i / 2];
    expect("ij,jk->ki", "x b", COPSE_SHAPE(4, 2), turned);
    /* three operands, the first letter stays, the last one is summed */
    double three[2] = { 0 };
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 4; k++)
            for (int l = 0; l < 2; l++)
                three[i] += want[4 * i + k] * C(k, l);
    expect("ij,jk,kl->i", "x b c", COPSE_SHAPE(2), three);
    for (int i = 0; i < 6; i++)
        all += X(i / 3, i % 3);
    expect("ij->", "x", COPSE_SCALAR, &all);
    /* letters of both that stay: products of elements, and of matrices */
    for (int i = 0; i < 6; i++)
        turned[i] = X(i / 3, i % 3) * (double)c_values[i % 3];
    expect("ij,j->ij", "x v", COPSE_SHAPE(2, 3), turned);
    memset(want, 0, sizeof want);
    for (int n = 0; n < 2; n++)
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < 4; k++)
                want[4 * n + k] += X(n, i) * D(n, i, k);
    expect("bi,bik->bk", "x d", COPSE_SHAPE(2, 4), want);
    expect("...i,...ik->...k", "x d", COPSE_SHAPE(2, 4), want);
    for (int i = 0; i < 6; i++)
        turned[i] = X(i % 2, i / 2);
    expect("ba", "x", COPSE_SHAPE(3, 2), turned);
    /* the outer product */
    for (int i = 0; i < 18; i++)
        turned[i] = X(i / 9, i / 3 % 3) * (double)c_values[i % 3];
    expect("ij,k->ijk", "x v", COPSE_SHAPE(2, 3, 3), turned);
}

static void test_einsum_refused(void **state)
{
    (void)state;
    static const struct {
        const char *equation, *in, *word;
    } rows[] = {
        { "ii->i", "x", "letter i twice" },
        { "ij,jk->iz", "x b", "letter z of the result" },
        { "ij,ik->jk", "x b", "letter i is 2 and 3" },
        { "ijk->i", "x", "3 letters for 2 axes" },
        { "ij,jk->ik", "x", "1 operands" },
        { "ij->ik", "x b", "operands for equation" },
        { "i j%->i", "x", "'%'" },
        { "ij,jk-ik", "x b", "operands for equation" },
        { "ij,jk->ik,", "x b", "',' after the result" },
        { "ij->ij-", "x", "'-' after the result" },
        { "...i,...k->...ik", "x b", "axes of '...' of 2 and 3" },
        { "ij,jk,kl->il", "x - c", "an operand is left out" },
        { "ij,kl,mn,opq->ijklmnopq", "x b c d", "more than 6" },
    };
    for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
        float y[64];
        copse_shape shape;
        const copse_status s = run_einsum(rows[i].equation, rows[i].in, y, &shape);
        if (s != COPSE_ERR_UNSUPPORTED || !strstr(copse_last_error(), rows[i].word))
            fail_msg("%s: %s, not about '%s': %s", rows[i].equation, copse_status_name(s),
                     rows[i].word, copse_last_error());
    }
}

/* ---- Attention ---- */

/* q [1, 4 heads, 2, 3] of x, keys and values [1, 2 heads, 2, 3] from the same numbers. */
static copse_status run_attention(const char *in, const char *out, const char *result,
                                  void (*put)(struct model_rig *, CopseOnnx__Node *), float *y)
{
    struct model_rig r;
    copse_onnx *m = NULL;
    copse_shape shape;
    rig_begin(&r, 23);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(1, 4, 2, 3));
    rig_reals(&r, "k", DIMS(1, 2, 2, 3), b_values, true);
    rig_reals(&r, "v", DIMS(1, 2, 2, 3), c_values, true);
    rig_reals(&r, "mask", DIMS(2, 2), (const float[]){ 0.5f, -1, 2, -INFINITY }, true);
    rig_reals(&r, "short", DIMS(2, 1), (const float[]){ 0.5f, 0 }, true);
    rig_reals(&r, "hidden", DIMS(2, 2), (const float[]){ -INFINITY, -INFINITY, 0, 0 }, true);
    rig_wholes(&r, "one", (const int64_t[]){ 1 }, 1);
    CopseOnnx__Node *n = rig_node(&r, "Attention", in, out);
    if (put)
        put(&r, n);
    rig_output(&r, result);
    OK(rig_open(&r, &m));
    const copse_status s =
        rig_run(m, (struct given[]){ { "x", COPSE_F32, COPSE_SHAPE(1, 4, 2, 3), a_values } }, 1,
                NULL, y, &shape);
    copse_onnx_release(&m);
    rig_free(&r);
    return s;
}

static void put_causal(struct model_rig *r, CopseOnnx__Node *n)
{
    rig_int(r, n, "is_causal", 1);
}

static void put_causal_shares(struct model_rig *r, CopseOnnx__Node *n)
{
    rig_int(r, n, "is_causal", 1);
    rig_int(r, n, "qk_matmul_output_mode", 3);
}

static void put_window(struct model_rig *r, CopseOnnx__Node *n)
{
    rig_int(r, n, "left_window_size", 0);
    rig_int(r, n, "right_window_size", 0);
}

#define PUT_FLOAT(function, name_, value)                         \
    static void function(struct model_rig *r, CopseOnnx__Node *n) \
    {                                                             \
        CopseOnnx__Attribute *at = rig_attribute(r, n, name_);    \
        at->has_f = true;                                         \
        at->f = value;                                            \
    }
PUT_FLOAT(put_no_scale, "scale", 0)
PUT_FLOAT(put_scale_nan, "scale", NAN)
PUT_FLOAT(put_wide_cap, "softcap", 1e6f)
PUT_FLOAT(put_wrong_cap, "softcap", -1)

#define PUT_INT(function, name, value)                            \
    static void function(struct model_rig *r, CopseOnnx__Node *n) \
    {                                                             \
        rig_int(r, n, name, value);                               \
    }
PUT_INT(put_double, "softmax_precision", ONNX_DOUBLE)
PUT_INT(put_wrong_window, "left_window_size", -2)
PUT_INT(put_wrong_heads, "q_num_heads", 3)

static void put_wrong_mode(struct model_rig *r, CopseOnnx__Node *n)
{
    rig_int(r, n, "qk_matmul_output_mode", 4);
}

/* What attention is, with `added` to the scores. */
static void attention_of(const double added[2][2], double *y, double *shares)
{
    for (int h = 0; h < 4; h++)
        for (int i = 0; i < 2; i++) {
            double e[2], sum = 0;
            for (int j = 0; j < 2; j++) {
                double s = added[i][j];
                for (int d = 0; d < 3; d++)
                    s += (double)a_values[6 * h + 3 * i + d] *
                         (double)b_values[6 * (h / 2) + 3 * j + d] / sqrt(3.0);
                sum += e[j] = exp(s);
            }
            for (int j = 0; j < 2; j++)
                shares[4 * h + 2 * i + j] = sum > 0 ? e[j] / sum : 0;
            for (int d = 0; d < 3; d++) {
                y[6 * h + 3 * i + d] = 0;
                for (int j = 0; j < 2; j++)
                    y[6 * h + 3 * i + d] +=
                        shares[4 * h + 2 * i + j] * (double)c_values[6 * (h / 2) + 3 * j + d];
            }
        }
}

static void expect_values(const char *what, const float *y, const double *want, int count)
{
    for (int i = 0; i < count; i++)
        if (!(fabs((double)y[i] - want[i]) < 1e-5))
            fail_msg("%s: element %d is %g, not %g", what, i, (double)y[i], want[i]);
}

/* The fused op and the composition agree with the definition; what is hidden, and a row that sees nothing. */
static void test_attention(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        void (*put)(struct model_rig *, CopseOnnx__Node *);
        double added[2][2];
    } rows[] = {
        { "x k v", NULL, { { 0, 0 }, { 0, 0 } } },
        { "x k v", put_causal, { { 0, -INFINITY }, { 0, 0 } } },
        { "x k v", put_window, { { 0, -INFINITY }, { -INFINITY, 0 } } },
        { "x k v mask", NULL, { { 0.5, -1 }, { 2, -INFINITY } } },
        { "x k v mask", put_causal, { { 0.5, -INFINITY }, { 2, -INFINITY } } },
        { "x k v - - - one", NULL, { { 0, -INFINITY }, { 0, -INFINITY } } },
        /* the last query is at the last key that counts */
        { "x k v - - - one", put_causal, { { -INFINITY, -INFINITY }, { 0, -INFINITY } } },
        { "x k v short", NULL, { { 0.5, -INFINITY }, { 0, -INFINITY } } },
        { "x k v hidden", put_wide_cap, { { -INFINITY, -INFINITY }, { 0, 0 } } },
        { "x k v hidden", NULL, { { -INFINITY, -INFINITY }, { 0, 0 } } },
    };
    double want[24], shares[16];
    float y[24];
    for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
        attention_of(rows[i].added, want, shares);
        OK(run_attention(rows[i].in, "y", "y", rows[i].put, y));
        expect_values(rows[i].in, y, want, 24);
        OK(run_attention(rows[i].in, "y pk pv s", "y", rows[i].put,
                         y)); /* with scores: from single ops */
        expect_values("with scores", y, want, 24);
    }
    for (int i = 0; i < 24; i++) /* all scores are 0 */
        want[i] =
            ((double)c_values[6 * (i / 12) + i % 3] + (double)c_values[6 * (i / 12) + 3 + i % 3]) /
            2;
    OK(run_attention("x k v", "y", "y", put_no_scale, y));
    expect_values("a scale of 0", y, want, 24);
    attention_of(rows[1].added, want, shares);
    OK(run_attention("x k v", "y pk pv s", "s", put_causal_shares, y));
    expect_values("shares", y, shares, 16);
}

static void test_attention_refused(void **state)
{
    (void)state;
    float y[24];
    FAILS(COPSE_ERR_UNSUPPORTED, run_attention("x k v", "y pk pv s", "y", put_wrong_mode, y),
          "qk_matmul_output_mode is 4");
    FAILS(COPSE_ERR_UNSUPPORTED, run_attention("x mask v", "y", "y", NULL, y),
          "differ in their axes");
    FAILS(COPSE_ERR_UNSUPPORTED, run_attention("x k v - k", "y", "y", NULL, y),
          "earlier keys without values");
    FAILS(COPSE_ERR_UNSUPPORTED, run_attention("x k v k", "y", "y", NULL, y), "a mask of shape");
    FAILS(COPSE_ERR_UNSUPPORTED, run_attention("x k v", "y", "y", put_scale_nan, y), "scale nan");
    FAILS(COPSE_ERR_UNSUPPORTED, run_attention("x k v", "y", "y", put_wrong_cap, y), "softcap -1");
    FAILS(COPSE_ERR_UNSUPPORTED, run_attention("x k v", "y", "y", put_double, y),
          "softmax_precision");
    FAILS(COPSE_ERR_UNSUPPORTED, run_attention("x k v", "y", "y", put_wrong_window, y),
          "a window of -2");
    FAILS(COPSE_ERR_UNSUPPORTED, run_attention("x k v", "y", "y", put_wrong_heads, y),
          "does not have 3 heads");
    FAILS(COPSE_ERR_UNSUPPORTED, run_attention("x k v - k v one", "y", "y", NULL, y),
          "earlier keys and nonpad");
}

/* The derivative by queries of which some see no key: 0 there, and finite elsewhere. */
static void test_attention_gradient(void **state)
{
    (void)state;
    struct model_rig r;
    copse_onnx *m = NULL;
    copse_graph *g = NULL;
    copse_device *dev = NULL;
    copse_function *f = NULL;
    float dx[24];
    rig_begin(&r, 23);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(1, 4, 2, 3));
    rig_reals(&r, "k", DIMS(1, 2, 2, 3), b_values, true);
    rig_reals(&r, "v", DIMS(1, 2, 2, 3), c_values, true);
    rig_reals(&r, "hidden", DIMS(2, 2), (const float[]){ -INFINITY, -INFINITY, 0, 0 }, true);
    put_wide_cap(&r, rig_node(&r, "Attention", "x k v hidden", "y"));
    rig_output(&r, "y");
    OK(rig_open(&r, &m));
    OK(copse_graph_create(ctx, &g));
    copse_tensor *x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(1, 4, 2, 3)), *y, *slope;
    const struct copse_onnx_feed feed = { "x", x };
    copse_onnx_apply(m, g, &(struct copse_onnx_apply_params){ .inputs = &feed, .input_count = 1 },
                     &y);
    copse_gradients(g, copse_sum(g, copse_mul(g, y, y), NULL, 0, false), NULL, &x, 1, &slope);
    OK(copse_graph_status(g));
    OK(copse_device_open(ctx, "host:0", NULL, &dev));
    const struct copse_function_params params = { .graph = g,
                                                  .outputs = &slope,
                                                  .output_count = 1 };
    OK(copse_function_create(dev, &params, &f));
    OK(copse_function_write(f, x, a_values));
    OK(copse_function_run(f));
    OK(copse_function_wait(f));
    OK(copse_function_read(f, 0, dx));
    for (int i = 0; i < 24; i++)
        if (!isfinite(dx[i]) || (dx[i] == 0) != (i / 3 % 2 == 0))
            fail_msg("element %d of the derivative is %g", i, (double)dx[i]);
    copse_function_release(&f);
    copse_device_release(&dev);
    copse_graph_release(&g);
    copse_onnx_release(&m);
    rig_free(&r);
}

/* ---- RotaryEmbedding ---- */

/* x [1, 2, 2 heads x 6]: the first 4 numbers of each head turn; positions 3 and 1 of a table. */
static void test_rotary(void **state)
{
    (void)state;
    for (int64_t interleaved = 0; interleaved < 2; interleaved++) {
        struct model_rig r;
        copse_onnx *m = NULL;
        copse_shape shape;
        float y[24], cosines[8], sines[8];
        for (int i = 0; i < 8; i++) {
            cosines[i] = cosf((float)i);
            sines[i] = sinf((float)i);
        }
        rig_begin(&r, 23);
        rig_input(&r, "x", ONNX_FLOAT, DIMS(1, 2, 12));
        rig_reals(&r, "cos", DIMS(4, 2), cosines, true);
        rig_reals(&r, "sin", DIMS(4, 2), sines, true);
        CopseOnnx__Tensor *t = rig_wholes(&r, "at", (const int64_t[]){ 3, 1 }, 2);
        t->n_dims = 2;
        t->dims = memcpy(rig_block(&r, 2 * sizeof *t->dims), (const int64_t[]){ 1, 2 },
                         2 * sizeof *t->dims);
        CopseOnnx__Node *n = rig_node(&r, "RotaryEmbedding", "x cos sin at", "y");
        rig_int(&r, n, "num_heads", 2);
        rig_int(&r, n, "rotary_embedding_dim", 4);
        rig_int(&r, n, "interleaved", interleaved);
        rig_output(&r, "y");
        OK(rig_open(&r, &m));
        OK(rig_run(m, (struct given[]){ { "x", COPSE_F32, COPSE_SHAPE(1, 2, 12), a_values } }, 1,
                   NULL, y, &shape));
        for (int at = 0; at < 4; at++) { /* a position and a head */
            const float *x = a_values + 6 * at;
            const int row = at < 2 ? 3 : 1;
            double want[6] = { 0, 0, 0, 0, (double)x[4], (double)x[5] };
            for (int k = 0; k < 2; k++) {
                const int i = interleaved ? 2 * k : k, j = interleaved ? i + 1 : i + 2;
                const double c = (double)cosines[2 * row + k], s = (double)sines[2 * row + k];
                want[i] = (double)x[i] * c - (double)x[j] * s;
                want[j] = (double)x[j] * c + (double)x[i] * s;
            }
            expect_values(interleaved ? "pairs side by side" : "pairs of halves", y + 6 * at, want,
                          6);
        }
        copse_onnx_release(&m);
        rig_free(&r);
    }
}

/* Cosines for fewer numbers than a head has, where all are to turn. */
static void test_rotary_refused(void **state)
{
    (void)state;
    struct model_rig r;
    copse_onnx *m = NULL;
    float y[24];
    copse_shape shape;
    rig_begin(&r, 23);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(1, 2, 12));
    rig_reals(&r, "cos", DIMS(1, 2, 2), b_values, true);
    rig_reals(&r, "sin", DIMS(1, 2, 2), c_values, true);
    rig_int(&r, rig_node(&r, "RotaryEmbedding", "x cos sin", "y"), "num_heads", 2);
    rig_output(&r, "y");
    OK(rig_open(&r, &m));
    const struct given given = { "x", COPSE_F32, COPSE_SHAPE(1, 2, 12), a_values };
    FAILS(COPSE_ERR_UNSUPPORTED, rig_run(m, &given, 1, NULL, y, &shape),
          "do not turn 6 of 6 numbers");
    copse_onnx_release(&m);
    rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_einsum),
        cmocka_unit_test(test_einsum_refused),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_attention_refused),
        cmocka_unit_test(test_attention_gradient),
        cmocka_unit_test(test_rotary),
        cmocka_unit_test(test_rotary_refused),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
