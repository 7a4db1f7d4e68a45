/* SPDX-License-Identifier: MIT */
/* The operators that are read, a row each: since which operator set, how many operands and results,
   which operands must be known numbers, and how it is built. docs/onnx.md has the list. */
#include <math.h>

#include "copse/ops.h"
#include "copse/ops/functions.h"
#include "copse/ops/logic.h"
#include "core/onnx/onnx.h"

/* ---- known numbers ---- */

static double number_neg(double x)
{
    return -x;
}
static double number_one_over(double x)
{
    return 1 / x;
}
static double number_not(double x)
{
    return x == 0;
}
static double number_sign(double x)
{
    return (x > 0) - (x < 0);
}
static double number_relu(double x)
{
    return x < 0 ? 0 : x;
}
static double number_is_nan(double x)
{
    return isnan(x);
}
static double numbers_add(double a, double b)
{
    return a + b;
}
static double numbers_sub(double a, double b)
{
    return a - b;
}
static double numbers_mul(double a, double b)
{
    return a * b;
}
static double numbers_div(double a, double b)
{
    return a / b;
}
static double numbers_max(double a, double b)
{
    return isnan(a) || a > b ? a : b;
}
static double numbers_min(double a, double b)
{
    return isnan(a) || a < b ? a : b;
}
static double numbers_equal(double a, double b)
{
    return a == b;
}
static double numbers_less(double a, double b)
{
    return a < b;
}
static double numbers_less_equal(double a, double b)
{
    return a <= b;
}
static double numbers_greater(double a, double b)
{
    return a > b;
}
static double numbers_greater_equal(double a, double b)
{
    return a >= b;
}
static double numbers_and(double a, double b)
{
    return a != 0 && b != 0;
}
static double numbers_or(double a, double b)
{
    return a != 0 || b != 0;
}
static double numbers_xor(double a, double b)
{
    return (a != 0) != (b != 0);
}

/* ---- the rows ---- */

#define ONE(op, function, folded)                                                               \
    {                                                                                           \
        .name = op, .since = 6, .fewest = 1, .most = 1, .outputs = 1, .build = copse__onnx_one, \
        .one = function, .number = folded                                                       \
    }
#define WITH(op, from, function, folded)                                                           \
    {                                                                                              \
        .name = op, .since = from, .fewest = 1, .most = 1, .outputs = 1, .build = copse__onnx_one, \
        .with = function, .number = folded                                                         \
    }
#define TEST(op, from, function, folded)                                                           \
    {                                                                                              \
        .name = op, .since = from, .fewest = 1, .most = 1, .outputs = 1, .build = copse__onnx_one, \
        .with = function, .number = folded, .type = ONNX_BOOL                                      \
    }
#define TWO(op, how, function, folded)                                              \
    {                                                                               \
        .name = op, .since = 7, .fewest = 2, .most = 2, .outputs = 1, .build = how, \
        .two = function, .numbers = folded                                          \
    }
#define COMPARE(op, from, function, folded)                                                 \
    {                                                                                       \
        .name = op, .since = from, .fewest = 2, .most = 2, .outputs = 1,                    \
        .build = copse__onnx_compare, .two = function, .numbers = folded, .type = ONNX_BOOL \
    }
#define MANY(op, from, function, folded)                                         \
    {                                                                            \
        .name = op, .since = from, .fewest = 1, .most = ONNX_MANY, .outputs = 1, \
        .build = copse__onnx_many, .two = function, .numbers = folded            \
    }
/* operands from `low` to `high`, `known` ones as bits */
#define ROW(op, from, low, high, results, bits, how)                                               \
    {                                                                                              \
        .name = op, .since = from, .fewest = low, .most = high, .outputs = results, .known = bits, \
        .build = how                                                                               \
    }
#define REDUCE(op) ROW(op, 1, 1, 2, 1, 2, copse__onnx_reduce)

const struct copse_onnx_row copse__onnx_rows[] = {
    /* functions of each element */
    ONE("Abs", copse_abs, fabs),
    ONE("Neg", copse_neg, number_neg),
    ONE("Relu", copse_relu, number_relu),
    ONE("Sqrt", copse_sqrt, sqrt),
    ONE("Exp", copse_exp, exp),
    ONE("Log", copse_log, log),
    ONE("Tanh", copse_tanh, NULL),
    ONE("Sigmoid", copse_sigmoid, NULL),
    ONE("Softplus", copse_softplus, NULL),
    ONE("Erf", copse_erf, NULL),
    ONE("Sin", copse_sin, sin),
    ONE("Cos", copse_cos, cos),
    ONE("Tan", copse_tan, NULL),
    ONE("Asin", copse_asin, NULL),
    ONE("Acos", copse_acos, NULL),
    ONE("Atan", copse_atan, NULL),
    ONE("Sinh", copse_sinh, NULL),
    ONE("Cosh", copse_cosh, NULL),
    ONE("Asinh", copse_asinh, NULL),
    ONE("Acosh", copse_acosh, NULL),
    ONE("Atanh", copse_atanh, NULL),
    ONE("Mish", copse_mish, NULL),
    ONE("HardSwish", copse_hard_swish, NULL),
    { .name = "Not",
      .since = 1,
      .fewest = 1,
      .most = 1,
      .outputs = 1,
      .build = copse__onnx_one,
      .one = copse_logical_not,
      .number = number_not,
      .type = ONNX_BOOL },
    WITH("Reciprocal", 6, copse__onnx_reciprocal, number_one_over),
    WITH("Softsign", 1, copse__onnx_softsign, NULL),
    WITH("Sign", 9, copse__onnx_sign, number_sign),
    WITH("Floor", 6, copse__onnx_floor, floor),
    WITH("Ceil", 6, copse__onnx_ceil, ceil),
    WITH("Round", 11, copse__onnx_round, nearbyint),
    WITH("LeakyRelu", 6, copse__onnx_leaky_relu, NULL),
    WITH("Elu", 6, copse__onnx_elu, NULL),
    WITH("Celu", 12, copse__onnx_celu, NULL),
    WITH("Selu", 6, copse__onnx_selu, NULL),
    WITH("HardSigmoid", 6, copse__onnx_hard_sigmoid, NULL),
    WITH("ThresholdedRelu", 10, copse__onnx_thresholded_relu, NULL),
    WITH("Shrink", 9, copse__onnx_shrink, NULL),
    WITH("Swish", 24, copse__onnx_swish, NULL),
    WITH("Gelu", 20, copse__onnx_gelu, NULL),
    WITH("Binarizer", 1, copse__onnx_binarizer, NULL),
    TEST("IsNaN", 9, copse__onnx_is_nan, number_is_nan),
    TEST("IsInf", 10, copse__onnx_is_inf, NULL),
    TWO("Add", copse__onnx_two, copse_add, numbers_add),
    TWO("Sub", copse__onnx_two, copse_sub, numbers_sub),
    TWO("Mul", copse__onnx_two, copse_mul, numbers_mul),
    TWO("Div", copse__onnx_div, copse_div, numbers_div),
    TWO("PRelu", copse__onnx_two, copse_prelu, NULL),
    COMPARE("Equal", 7, copse_equal, numbers_equal),
    COMPARE("Less", 7, copse_less, numbers_less),
    COMPARE("LessOrEqual", 12, copse_less_equal, numbers_less_equal),
    COMPARE("Greater", 7, copse_greater, numbers_greater),
    COMPARE("GreaterOrEqual", 12, copse_greater_equal, numbers_greater_equal),
    COMPARE("And", 7, copse_logical_and, numbers_and),
    COMPARE("Or", 7, copse_logical_or, numbers_or),
    COMPARE("Xor", 7, copse_logical_xor, numbers_xor),
    MANY("Max", 6, copse_maximum, numbers_max),
    MANY("Min", 6, copse_minimum, numbers_min),
    MANY("Sum", 6, copse_add, numbers_add),
    MANY("Mean", 6, copse_add, NULL),
    ROW("SwiGLU", 28, 2, 2, 1, 0, copse__onnx_swiglu),
    ROW("Mod", 10, 2, 2, 1, 3, copse__onnx_mod),
    ROW("Pow", 7, 2, 2, 1, 2, copse__onnx_pow),
    ROW("Clip", 6, 1, 3, 1, 6, copse__onnx_clip),
    ROW("Where", 9, 3, 3, 1, 0, copse__onnx_where),
    ROW("Cast", 6, 1, 1, 1, 0, copse__onnx_cast),
    ROW("CastLike", 15, 2, 2, 1, 0, copse__onnx_cast),
    ROW("Dropout", 7, 1, 3, 2, 6, copse__onnx_dropout),
    /* shapes and constants */
    ROW("Identity", 1, 1, 1, 1, 0, copse__onnx_same),
    ROW("Reshape", 5, 2, 2, 1, 2, copse__onnx_reshape),
    ROW("Flatten", 1, 1, 1, 1, 0, copse__onnx_flatten),
    ROW("Squeeze", 1, 1, 2, 1, 2, copse__onnx_squeeze),
    ROW("Unsqueeze", 1, 1, 2, 1, 2, copse__onnx_unsqueeze),
    ROW("Transpose", 1, 1, 1, 1, 0, copse__onnx_transpose),
    ROW("Expand", 8, 2, 2, 1, 2, copse__onnx_expand),
    ROW("Tile", 6, 2, 2, 1, 2, copse__onnx_tile),
    ROW("Concat", 1, 1, ONNX_MANY, 1, 0, copse__onnx_concat),
    ROW("Split", 2, 1, 2, ONNX_MANY, 2, copse__onnx_split),
    ROW("Slice", 1, 1, 5, 1, 30, copse__onnx_slice),
    ROW("Pad", 2, 1, 4, 1, 14, copse__onnx_pad),
    ROW("CenterCropPad", 18, 2, 2, 1, 2, copse__onnx_crop),
    ROW("DepthToSpace", 1, 1, 1, 1, 0, copse__onnx_space),
    ROW("SpaceToDepth", 1, 1, 1, 1, 0, copse__onnx_space),
    ROW("Shape", 1, 1, 1, 1, 0, copse__onnx_shape_of),
    ROW("Size", 1, 1, 1, 1, 0, copse__onnx_size_of),
    ROW("Constant", 1, 0, 0, 1, 0, copse__onnx_constant),
    ROW("ConstantOfShape", 9, 1, 1, 1, 1, copse__onnx_constant_of_shape),
    ROW("Range", 11, 3, 3, 1, 7, copse__onnx_range),
    ROW("EyeLike", 9, 1, 1, 1, 0, copse__onnx_eye),
    /* indices and orders */
    ROW("Gather", 1, 2, 2, 1, 0, copse__onnx_gather),
    ROW("GatherElements", 11, 2, 2, 1, 0, copse__onnx_gather_elements),
    ROW("GatherND", 11, 2, 2, 1, 2, copse__onnx_gather_nd),
    ROW("Scatter", 9, 3, 3, 1, 2, copse__onnx_scatter),
    ROW("ScatterElements", 11, 3, 3, 1, 2, copse__onnx_scatter),
    ROW("ScatterND", 11, 3, 3, 1, 2, copse__onnx_scatter),
    ROW("OneHot", 9, 3, 3, 1, 6, copse__onnx_one_hot),
    ROW("Trilu", 14, 1, 2, 1, 2, copse__onnx_trilu),
    ROW("Compress", 9, 2, 2, 1, 2, copse__onnx_compress),
    ROW("ReverseSequence", 10, 2, 2, 1, 2, copse__onnx_reverse),
    ROW("NonZero", 9, 1, 1, 1, 1, copse__onnx_non_zero),
    ROW("TopK", 1, 1, 2, 2, 2, copse__onnx_top_k),
    ROW("CumSum", 11, 2, 2, 1, 2, copse__onnx_cumsum),
    /* products, sums, norms */
    ROW("MatMul", 1, 2, 2, 1, 0, copse__onnx_matmul),
    ROW("Gemm", 7, 2, 3, 1, 0, copse__onnx_gemm),
    ROW("Einsum", 12, 1, ONNX_MANY, 1, 0, copse__onnx_einsum),
    ROW("Attention", 23, 3, 7, 4, 0, copse__onnx_attention),
    { .name = "RotaryEmbedding",
      .since = 23,
      .fewest = 3,
      .most = 4,
      .outputs = 1,
      .statistics = 6,
      .build = copse__onnx_rotary },
    /* whole numbers with scales */
    ROW("QuantizeLinear", 10, 2, 3, 1, 6, copse__onnx_quantize),
    ROW("DequantizeLinear", 10, 2, 3, 1, 6, copse__onnx_dequantize),
    ROW("DynamicQuantizeLinear", 11, 1, 1, 3, 0, copse__onnx_quantize_dynamic),
    ROW("MatMulInteger", 10, 2, 4, 1, 0, copse__onnx_matmul_integer),
    REDUCE("ReduceSum"),
    REDUCE("ReduceMean"),
    REDUCE("ReduceMax"),
    REDUCE("ReduceMin"),
    REDUCE("ReduceProd"),
    REDUCE("ReduceL1"),
    REDUCE("ReduceL2"),
    REDUCE("ReduceSumSquare"),
    REDUCE("ReduceLogSum"),
    REDUCE("ReduceLogSumExp"),
    ROW("ArgMax", 1, 1, 1, 1, 0, copse__onnx_arg),
    ROW("ArgMin", 1, 1, 1, 1, 0, copse__onnx_arg),
    ROW("Softmax", 1, 1, 1, 1, 0, copse__onnx_softmax),
    ROW("LogSoftmax", 1, 1, 1, 1, 0, copse__onnx_softmax),
    ROW("Hardmax", 1, 1, 1, 1, 0, copse__onnx_softmax),
    ROW("LayerNormalization", 17, 2, 3, 3, 0, copse__onnx_layer_norm),
    ROW("RMSNormalization", 23, 2, 2, 1, 0, copse__onnx_rms_norm),
    ROW("InstanceNormalization", 6, 3, 3, 1, 0, copse__onnx_group_norm),
    ROW("GroupNormalization", 21, 3, 3, 1, 0, copse__onnx_group_norm),
    { .name = "BatchNormalization",
      .since = 7,
      .fewest = 5,
      .most = 5,
      .outputs = 3,
      .statistics = 24,
      .build = copse__onnx_batch_norm },
    ROW("LpNormalization", 1, 1, 1, 1, 0, copse__onnx_other_norm),
    ROW("MeanVarianceNormalization", 9, 1, 1, 1, 0, copse__onnx_other_norm),
    /* losses */
    ROW("NegativeLogLikelihoodLoss", 12, 2, 3, 1, 0, copse__onnx_loss_of),
    ROW("SoftmaxCrossEntropyLoss", 12, 2, 3, 2, 0, copse__onnx_loss_of),
    /* windows */
    ROW("Conv", 1, 2, 3, 1, 0, copse__onnx_conv),
    ROW("ConvTranspose", 1, 2, 3, 1, 0, copse__onnx_conv_transposed),
    ROW("MaxPool", 1, 1, 1, 1, 0, copse__onnx_pool),
    ROW("AveragePool", 7, 1, 1, 1, 0, copse__onnx_pool),
    ROW("LpPool", 2, 1, 1, 1, 0, copse__onnx_pool),
    ROW("GlobalAveragePool", 1, 1, 1, 1, 0, copse__onnx_global_pool),
    ROW("GlobalMaxPool", 1, 1, 1, 1, 0, copse__onnx_global_pool),
    ROW("LRN", 1, 1, 1, 1, 0, copse__onnx_lrn),
    ROW("Resize", 10, 1, 4, 1, 14, copse__onnx_resize),
    ROW("GridSample", 16, 2, 2, 1, 0, copse__onnx_grid_sample),
    ROW("Upsample", 7, 1, 2, 1, 2, copse__onnx_resize),
    /* recurrent layers */
    ROW("GRU", 7, 3, 6, 2, 0, copse__onnx_recurrent),
    ROW("LSTM", 7, 3, 8, 3, 0, copse__onnx_recurrent),
    ROW("RNN", 7, 3, 6, 2, 0, copse__onnx_recurrent),
};
const size_t copse__onnx_row_count = COPSE_COUNT(copse__onnx_rows);
