/* SPDX-License-Identifier: MIT */
/* Whole numbers with scales in ONNX files, pictures that a grid samples, and what the operator sets 27
   and 28 have changed. */
#include "tests/onnx/onnx_rig.h"

#include "copse/ops.h"

static int begin(void **state)
{
    (void)state;
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

static void put_bytes(struct model_rig *r, const char *name, int32_t type, const int64_t *dims,
                      size_t rank, const int8_t *values)
{
    CopseOnnx__Tensor *t = rig_tensor(r, name, type, dims, rank);
    size_t count = 1;
    for (size_t i = 0; i < rank; i++)
        count *= (size_t)dims[i];
    t->has_raw_data = true;
    t->raw_data = (ProtobufCBinaryData){ count, memcpy(rig_block(r, count + 1), values, count) };
}

static void put_text(struct model_rig *r, CopseOnnx__Node *n, const char *name, const char *text)
{
    CopseOnnx__Attribute *at = rig_attribute(r, n, name);
    at->has_s = true;
    at->s = (ProtobufCBinaryData){ strlen(text), (uint8_t *)rig_text(r, text) };
}

/* The output "y" of x, of `count` numbers. */
static void expect(struct model_rig *r, copse_shape shape, const float *x, const float *want,
                   size_t count)
{
    copse_onnx *m = NULL;
    copse_shape got = { .rank = 0 };
    float y[64];
    assert_true(count <= COPSE_COUNT(y));
    rig_output(r, "y");
    OK(rig_open(r, &m));
    OK(rig_run(m, (struct given[]){ { "x", COPSE_F32, shape, x } }, 1, NULL, y, &got));
    assert_int_equal(copse__elements(got), count);
    for (size_t i = 0; i < count; i++)
        if (y[i] != want[i] &&
            !(isfinite(want[i]) && fabsf(y[i] - want[i]) <= 1e-6f * fabsf(want[i]) + 1e-7f))
            fail_msg("number %zu is %.9g, not %.9g", i, (double)y[i], (double)want[i]);
    copse_onnx_release(&m);
    rig_free(r);
}

static void refuses(struct model_rig *r, copse_shape shape, const char *why)
{
    copse_onnx *m = NULL;
    static const float x[64];
    rig_output(r, "y");
    OK(rig_open(r, &m));
    FAILS(COPSE_ERR_UNSUPPORTED,
          rig_run(m, (struct given[]){ { "x", COPSE_F32, shape, x } }, 1, NULL, NULL, NULL), why);
    copse_onnx_release(&m);
    rig_free(r);
}

/* ---- scales ---- */

static const int8_t weights[] = { 1, -2, 127, -128, 5, 0 }; /* [2, 3] */

/* x [1, 2] times the matrix, one scale for each column; a quantised matrix is no weight to be
   trained, and neither are its scales. */
static void test_weights(void **state)
{
    (void)state;
    struct model_rig r;
    copse_onnx *m = NULL;
    copse_strategy *st = NULL;
    size_t count;
    const float x[] = { 2, -1 }, scales[] = { 0.5f, 0.25f, 2 },
                want[] = { 2 * 0.5f * 0 + 0.5f * (2 * (1 - 1) - (-128 - 1)),
                           0.25f * (2 * (-2 + 2) - (5 + 2)), 2 * (2 * (127 - 3) - (0 - 3)) };
    for (int axis = -1; axis <= 1; axis += 2) {
        rig_begin(&r, 21);
        rig_input(&r, "x", ONNX_FLOAT, DIMS(-1, 2));
        put_bytes(&r, "q", ONNX_INT8, DIMS(2, 3), weights);
        rig_reals(&r, "s", DIMS(3), scales, true);
        put_bytes(&r, "z", ONNX_INT8, DIMS(3), (const int8_t[]){ 1, -2, 3 });
        rig_int(&r, rig_node(&r, "DequantizeLinear", "q s z", "w"), "axis", axis);
        rig_node(&r, "MatMul", "x w", "y");
        if (axis < 0) {
            expect(&r, COPSE_SHAPE(1, 2), x, want, 3);
            continue;
        }
        rig_output(&r, "y");
        OK(rig_open(&r, &m));
        OK(copse_strategy_open(ctx, "host:0", NULL, &st));
        OK(copse_onnx_make(m, st, NULL));
        (void)copse_onnx_variables(m, &count);
        assert_int_equal(count, 0);
        copse_onnx_release(&m);
        copse_strategy_release(&st);
        rig_free(&r);
    }
}

/* Blocks of two of a row of five. */
static void test_blocks(void **state)
{
    (void)state;
    struct model_rig r;
    const float x[10] = { 0 }, scales[] = { 1, 10, 100, 2, 20, 200 },
                want[] = { 1, -2, 1270, -1280, 500, 0, 2, 60, -80, 1000 };
    rig_begin(&r, 21);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(2, 5));
    put_bytes(&r, "q", ONNX_INT8, DIMS(2, 5),
              (const int8_t[]){ 1, -2, 127, -128, 5, 0, 1, 3, -4, 5 });
    rig_reals(&r, "s", DIMS(2, 3), scales, true);
    rig_int(&r, rig_node(&r, "DequantizeLinear", "q s", "w"), "block_size", 2);
    rig_node(&r, "Add", "x w", "y");
    expect(&r, COPSE_SHAPE(2, 5), x, want, 10);
    rig_begin(&r, 21);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(2, 5));
    put_bytes(&r, "q", ONNX_INT8, DIMS(2, 5),
              (const int8_t[]){ 1, -2, 127, -128, 5, 0, 1, 3, -4, 5 });
    rig_reals(&r, "s", DIMS(2, 3), scales, true);
    rig_int(&r, rig_node(&r, "DequantizeLinear", "q s", "w"), "block_size", 3);
    rig_node(&r, "Add", "x w", "y");
    refuses(&r, COPSE_SHAPE(2, 5), "blocks of 3 on axis 1");
}

/* Blocks of one place: a scale for each number, of constants and of numbers that depend on an
   input. */
static void test_single_blocks(void **state)
{
    (void)state;
    static const float zeros[6];
    const float x[] = { 1, 2, 3, 4, 5, 6 }, scales[] = { 1, 1, 1, 10, 10, 10 },
                one[] = { 1, 2, 3, 40, 50, 60 }, two[] = { 1, 2, 3, 4, 5, 6 };
    for (int is_known = 0; is_known < 2; is_known++)
        for (int axis = 1; axis <= 2; axis++) {
            struct model_rig r;
            rig_begin(&r, 21);
            rig_input(&r, "x", ONNX_FLOAT, DIMS(1, 2, 3));
            rig_reals(&r, "one", DIMS(1), (const float[]){ 1 }, true);
            put_bytes(&r, "none", ONNX_INT8, DIMS(1), (const int8_t[]){ 0 });
            put_bytes(&r, "c", ONNX_INT8, DIMS(1, 2, 3), (const int8_t[]){ 1, 2, 3, 4, 5, 6 });
            rig_reals(&r, "s", DIMS(1, 2, 3), scales, true);
            rig_node(&r, "QuantizeLinear", "x one none", "q");
            CopseOnnx__Node *n =
                rig_node(&r, "DequantizeLinear", is_known ? "c s" : "q s", is_known ? "d" : "y");
            rig_int(&r, n, "axis", axis);
            rig_int(&r, n, "block_size", 1);
            if (is_known)
                rig_node(&r, "Add", "x d", "y");
            expect(&r, COPSE_SHAPE(1, 2, 3), is_known ? zeros : x, one, 6);
            rig_begin(&r, 21);
            rig_input(&r, "x", ONNX_FLOAT, DIMS(1, 2, 3));
            rig_reals(&r, "c", DIMS(1, 2, 3), one, true);
            rig_reals(&r, "s", DIMS(1, 2, 3), scales, true);
            n = rig_node(&r, "QuantizeLinear", is_known ? "c s" : "x s", "q");
            rig_int(&r, n, "axis", axis);
            rig_int(&r, n, "block_size", 1);
            rig_int(&r, rig_node(&r, "Cast", "q", is_known ? "d" : "y"), "to", ONNX_FLOAT);
            if (is_known)
                rig_node(&r, "Add", "x d", "y");
            expect(&r, COPSE_SHAPE(1, 2, 3), is_known ? zeros : one, two, 6);
        }
}

/* Halves go to the even number; numbers out of range to the last one. */
static void test_activations(void **state)
{
    (void)state;
    const float x[] = { 0.25f, 0.75f, 1.25f, -0.25f, -70, 1000 };
    static const float zeros[6];
    for (int is_unsigned = 0; is_unsigned < 2; is_unsigned++) {
        /* as constants, and as numbers that depend on an input */
        for (int is_known = 0; is_known < 2; is_known++) {
            struct model_rig r;
            float y[6];
            const float scale = 0.5f;
            const int8_t zero = 1;
            for (int i = 0; i < 6; i++) {
                const double q = nearbyint((double)(x[i] / scale)) + zero;
                y[i] = (float)((fmin(fmax(q, is_unsigned ? 0 : -128), is_unsigned ? 255 : 127) -
                                zero) /
                               2);
            }
            rig_begin(&r, 13);
            rig_input(&r, "x", ONNX_FLOAT, DIMS(2, 3));
            rig_reals(&r, "c", DIMS(2, 3), x, true);
            rig_reals(&r, "s", DIMS(1), &scale, true);
            put_bytes(&r, "z", is_unsigned ? ONNX_UINT8 : ONNX_INT8, DIMS(1), &zero);
            rig_node(&r, "QuantizeLinear", is_known ? "c s z" : "x s z", "q");
            rig_node(&r, "DequantizeLinear", "q s z", "d");
            rig_node(&r, is_known ? "Add" : "Identity", is_known ? "x d" : "d", "y");
            expect(&r, COPSE_SHAPE(2, 3), is_known ? zeros : x, y, 6);
        }
    }
}

/* Of -2 to 8.2: the scale 0.04, the zero point 50. */
static void test_dynamic(void **state)
{
    (void)state;
    struct model_rig r;
    const float x[] = { -2, 8.2f, 0, 0.05f, 1, 2 }, want[] = { 0, 255, 50, 51, 75, 100 };
    rig_begin(&r, 13);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(2, 3));
    rig_node(&r, "DynamicQuantizeLinear", "x", "q s z");
    rig_int(&r, rig_node(&r, "Cast", "q", "y"), "to", ONNX_FLOAT);
    expect(&r, COPSE_SHAPE(2, 3), x, want, 6);
    rig_begin(&r, 13);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(2, 3));
    rig_node(&r, "DynamicQuantizeLinear", "x", "q s y");
    expect(&r, COPSE_SHAPE(2, 3), (const float[6]){ 0 }, (const float[]){ 0 }, 1);
}

/* Rows of the first operand and columns of the second one have zero points. */
static void test_product(void **state)
{
    (void)state;
    struct model_rig r;
    const float x[] = { 1, 2, 3, 4 };
    float want[6];
    const int a_zero[] = { 10, -20 }, b_zero[] = { 1, 2, -3 };
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++) {
            want[3 * i + k] = 0;
            for (int j = 0; j < 2; j++)
                want[3 * i + k] += ((float)(2 * i + j + 1) - (float)a_zero[i]) *
                                   (float)(weights[3 * j + k] - b_zero[k]);
        }
    rig_begin(&r, 13);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(2, 2));
    rig_reals(&r, "one", DIMS(1), (const float[]){ 1 }, true);
    put_bytes(&r, "none", ONNX_INT8, DIMS(1), (const int8_t[]){ 0 });
    put_bytes(&r, "w", ONNX_INT8, DIMS(2, 3), weights);
    put_bytes(&r, "az", ONNX_INT8, DIMS(2), (const int8_t[]){ 10, -20 });
    put_bytes(&r, "bz", ONNX_INT8, DIMS(3), (const int8_t[]){ 1, 2, -3 });
    rig_node(&r, "QuantizeLinear", "x one none", "q");
    rig_node(&r, "MatMulInteger", "q w az bz", "i");
    rig_int(&r, rig_node(&r, "Cast", "i", "y"), "to", ONNX_FLOAT);
    expect(&r, COPSE_SHAPE(2, 2), x, want, 6);
}

static void test_quantised_refused(void **state)
{
    (void)state;
    struct model_rig r;
    rig_begin(&r, 13);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(2, 3));
    rig_node(&r, "QuantizeLinear", "x x", "y");
    refuses(&r, COPSE_SHAPE(2, 3), "its scale must be known");
    rig_begin(&r, 13);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(2, 3));
    rig_reals(&r, "s", DIMS(2), (const float[]){ 1, 2 }, true);
    rig_node(&r, "QuantizeLinear", "x s", "y");
    refuses(&r, COPSE_SHAPE(2, 3), "scales [2] with blocks of 0 on axis 1 of [2, 3]");
    rig_begin(&r, 21);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(2, 3));
    rig_reals(&r, "s", DIMS(1), (const float[]){ 1 }, true);
    rig_int(&r, rig_node(&r, "QuantizeLinear", "x s", "y"), "output_dtype", 17);
    refuses(&r, COPSE_SHAPE(2, 3), "it makes the type");
}

/* A node of "x" [2, 3], with a scale and a zero point, and an attribute. */
static void refuses_setting(const char *op, float scale, int32_t zero_type, const char *attribute,
                            int64_t value, const char *why)
{
    struct model_rig r;
    rig_begin(&r, 25);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(2, 3));
    put_bytes(&r, "c", ONNX_INT8, DIMS(2, 3), weights);
    rig_reals(&r, "s", DIMS(1), &scale, true);
    put_bytes(&r, "z", zero_type, DIMS(1), (const int8_t[]){ 0 });
    const bool is_back = strcmp(op, "DequantizeLinear") == 0, has_zero = zero_type != 0;
    CopseOnnx__Node *n = rig_node(
        &r, op, is_back ? (has_zero ? "c s z" : "c s") : (has_zero ? "x s z" : "x s"), "q");
    if (attribute)
        rig_int(&r, n, attribute, value);
    if (is_back)
        rig_node(&r, "Add", "x q", "y");
    else
        rig_int(&r, rig_node(&r, "Cast", "q", "y"), "to", ONNX_FLOAT);
    if (!has_zero)
        r.graph.n_initializer--;
    refuses(&r, COPSE_SHAPE(2, 3), why);
}

static void test_settings_refused(void **state)
{
    (void)state;
    const char *quantize = "QuantizeLinear", *back = "DequantizeLinear";
    const int64_t wide = ((int64_t)1 << 32) + ONNX_INT8; /* int8 in its low 32 bits */
    refuses_setting(back, 1, ONNX_UINT8, NULL, 0, "zero points of type uint8 with numbers of type");
    refuses_setting(quantize, 1, ONNX_UINT8, "output_dtype", ONNX_INT8,
                    "zero points of type uint8 with numbers of type int8");
    refuses_setting(quantize, 1, 0, "output_dtype", wide, "output_dtype 4294967299 is no type");
    refuses_setting(back, 1, 0, "output_dtype", ((int64_t)1 << 32) + ONNX_FLOAT,
                    "output_dtype 4294967297 is no type");
    refuses_setting(quantize, 1, 0, "precision", ONNX_FLOAT16, "precision float16");
    refuses_setting(quantize, 1, 0, "precision", ((int64_t)1 << 32), "precision 4294967296");
    refuses_setting(quantize, 1, 0, "saturate", 0, "saturate 0");
    const float scales[] = { 0, -1, INFINITY, NAN };
    for (size_t i = 0; i < COPSE_COUNT(scales); i++) {
        refuses_setting(quantize, scales[i], 0, NULL, 0, "scales are above 0 and finite");
        refuses_setting(back, scales[i], 0, NULL, 0, "scales are above 0 and finite");
    }
    struct model_rig r;
    rig_begin(&r, 13);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(2, 3));
    rig_int(&r, rig_node(&r, "Cast", "x", "y"), "to", ((int64_t)1 << 32) + ONNX_FLOAT);
    refuses(&r, COPSE_SHAPE(2, 3), "to 4294967297 is no type");
}

static void test_product_refused(void **state)
{
    (void)state;
    struct model_rig r;
    for (int i = 0; i < 3; i++) {
        rig_begin(&r, 13);
        rig_input(&r, "x", ONNX_FLOAT, DIMS(2, 2));
        rig_reals(&r, "one", DIMS(1), (const float[]){ 1 }, true);
        put_bytes(&r, "none", ONNX_INT8, DIMS(1), (const int8_t[]){ 0 });
        put_bytes(&r, "w", ONNX_INT8, DIMS(2, 3), weights);
        put_bytes(&r, "z", ONNX_UINT8, DIMS(1), (const int8_t[]){ 0 });
        rig_node(&r, "QuantizeLinear", "x one none", "q");
        rig_int(&r, rig_node(&r, "Cast", "q", "wide"), "to", ONNX_INT32);
        rig_node(&r, "MatMulInteger", i == 0 ? "x w" : i == 1 ? "wide w" : "q w none z", "i");
        rig_int(&r, rig_node(&r, "Cast", "i", "y"), "to", ONNX_FLOAT);
        refuses(&r, COPSE_SHAPE(2, 2),
                i == 0   ? "operand 1 of type float: it takes uint8 and int8"
                : i == 1 ? "operand 1 of type int32"
                         : "zero points of type uint8 with numbers of type int8");
    }
}

/* ---- grids ---- */

/* A picture [1, 1, 2, 3] at six places; `mode`, `padding`: NULL: as ONNX has them. */
static void put_grid(struct model_rig *r, const char *mode, const char *padding, int is_aligned,
                     const float *places)
{
    rig_begin(r, 20);
    rig_input(r, "x", ONNX_FLOAT, DIMS(1, 1, 2, 3));
    rig_reals(r, "grid", DIMS(1, 2, 3, 2), places, true);
    CopseOnnx__Node *n = rig_node(r, "GridSample", "x grid", "y");
    rig_int(r, n, "align_corners", is_aligned);
    if (mode)
        put_text(r, n, "mode", mode);
    if (padding)
        put_text(r, n, "padding_mode", padding);
}

static const float picture[] = { 1, 2, 3, 10, 20, 30 };

static void test_grid(void **state)
{
    (void)state;
    struct model_rig r;
    /* the pixels themselves, and places between and outside of them */
    const float pixels[] = { -1, -1, 0, -1, 1, -1, -1, 1, 0, 1, 1, 1 },
                centres[] = { -2.0f / 3, -0.5f, 0, -0.5f, 2.0f / 3, -0.5f,
                              -2.0f / 3, 0.5f,  0, 0.5f,  2.0f / 3, 0.5f },
                between[] = { -0.5f, -1, 0, 0, 2, -1, 1.5f, 0, NAN, 0, 1e30f, -INFINITY };
    put_grid(&r, NULL, NULL, 1, pixels);
    expect(&r, COPSE_SHAPE(1, 1, 2, 3), picture, picture, 6);
    put_grid(&r, "nearest", NULL, 0, centres);
    expect(&r, COPSE_SHAPE(1, 1, 2, 3), picture, picture, 6);
    put_grid(&r, "bilinear", "zeros", 1, between);
    expect(&r, COPSE_SHAPE(1, 1, 2, 3), picture, (const float[]){ 1.5f, 11, 0, 0.5f * 16.5f, 0, 0 },
           6);
    put_grid(&r, "linear", "border", 1, between);
    expect(&r, COPSE_SHAPE(1, 1, 2, 3), picture, (const float[]){ 1.5f, 11, 3, 16.5f, 5.5f, 3 }, 6);
    put_grid(&r, "nearest", "zeros", 1, between);
    expect(&r, COPSE_SHAPE(1, 1, 2, 3), picture, (const float[]){ 1, 2, 0, 3, 0, 0 }, 6);
}

static void test_grid_refused(void **state)
{
    (void)state;
    struct model_rig r;
    static const float places[12];
    put_grid(&r, "cubic", NULL, 0, places);
    refuses(&r, COPSE_SHAPE(1, 1, 2, 3), "mode 'cubic' is not read");
    put_grid(&r, "", NULL, 0, places);
    refuses(&r, COPSE_SHAPE(1, 1, 2, 3), "mode '' is not read");
    put_grid(&r, NULL, "reflection", 0, places);
    refuses(&r, COPSE_SHAPE(1, 1, 2, 3), "padding_mode 'reflection' is not read");
    put_grid(&r, NULL, "wrap", 0, places);
    refuses(&r, COPSE_SHAPE(1, 1, 2, 3), "padding_mode 'wrap' is not read");
}

/* ---- newer operator sets ---- */

static void test_opset_28(void **state)
{
    (void)state;
    struct model_rig r;
    const float x[] = { -3, 0.5f, 2, 4 }, b[] = { 2, -1, 0.5f, 3 };
    float want[4];
    for (int i = 0; i < 4; i++)
        want[i] = x[i] / (1 + expf(-1.5f * x[i])) * b[i];
    rig_begin(&r, 28);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(2, 2));
    rig_reals(&r, "b", DIMS(2, 2), b, true);
    CopseOnnx__Attribute *a = rig_attribute(&r, rig_node(&r, "SwiGLU", "x b", "y"), "alpha");
    a->has_f = true;
    a->f = 1.5f;
    expect(&r, COPSE_SHAPE(2, 2), x, want, 4);
    /* the remainder of floating-point numbers has the sign of the divisor */
    rig_begin(&r, 28);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(4));
    rig_reals(&r, "a", DIMS(4), (const float[]){ -3.5f, 3.5f, 5, -4 }, true);
    rig_reals(&r, "b", DIMS(4), (const float[]){ 2, -2, INFINITY, 2 }, true);
    rig_reals(&r, "one", DIMS(1), (const float[]){ 1 }, true);
    rig_node(&r, "Mod", "a b", "m");
    rig_node(&r, "Div", "one m", "d"); /* tells the zeros apart */
    rig_node(&r, "Add", "x d", "y");
    expect(&r, COPSE_SHAPE(4), (const float[4]){ 0 }, (const float[]){ 2, -2, 0.2f, INFINITY }, 4);
    /* operators that these sets have added are refused by name */
    rig_begin(&r, 28);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(1, 2, 3));
    rig_node(&r, "LinearAttention", "x x x", "y");
    refuses(&r, COPSE_SHAPE(1, 2, 3), "(LinearAttention)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights),           cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_single_blocks),     cmocka_unit_test(test_settings_refused),
        cmocka_unit_test(test_product_refused),   cmocka_unit_test(test_activations),
        cmocka_unit_test(test_dynamic),           cmocka_unit_test(test_product),
        cmocka_unit_test(test_quantised_refused), cmocka_unit_test(test_grid),
        cmocka_unit_test(test_grid_refused),      cmocka_unit_test(test_opset_28),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
