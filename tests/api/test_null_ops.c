/* SPDX-License-Identifier: MIT */
/* Calls of the ops of copse/ops/ with NULL for each required pointer: see tests/rig/null_rig.h. */
#include "copse/copse.h"
#include "copse/distribute/sync.h"
#include "copse/ops/attention.h"
#include "copse/ops/blocks.h"
#include "copse/ops/conv.h"
#include "copse/ops/functions.h"
#include "copse/ops/gated.h"
#include "copse/ops/logic.h"
#include "copse/ops/losses.h"
#include "copse/ops/norm.h"
#include "copse/ops/pool.h"
#include "copse/ops/precision.h"
#include "copse/ops/recompute.h"
#include "copse/ops/recurrent.h"
#include "copse/ops/resize.h"
#include "copse/ops/rotary.h"
#include "copse/ops/scan.h"
#include "copse/ops/user_op.h"
#include "tests/rig/null_rig.h"

static copse_context *ctx;
static copse_graph *g;
static copse_tensor *x, *labels, *y;

static void functions(struct probe *p)
{
    NODE_ROW(copse_neg, NEED(g), NEED(x));
    NODE_ROW(copse_abs, NEED(g), NEED(x));
    NODE_ROW(copse_square, NEED(g), NEED(x));
    NODE_ROW(copse_sqrt, NEED(g), NEED(x));
    NODE_ROW(copse_rsqrt, NEED(g), NEED(x));
    NODE_ROW(copse_exp, NEED(g), NEED(x));
    NODE_ROW(copse_log, NEED(g), NEED(x));
    NODE_ROW(copse_relu, NEED(g), NEED(x));
    NODE_ROW(copse_sigmoid, NEED(g), NEED(x));
    NODE_ROW(copse_tanh, NEED(g), NEED(x));
    NODE_ROW(copse_softplus, NEED(g), NEED(x));
    NODE_ROW(copse_silu, NEED(g), NEED(x));
    NODE_ROW(copse_gelu, NEED(g), NEED(x));
    NODE_ROW(copse_erf, NEED(g), NEED(x));
    NODE_ROW(copse_sin, NEED(g), NEED(x));
    NODE_ROW(copse_cos, NEED(g), NEED(x));
    NODE_ROW(copse_tan, NEED(g), NEED(x));
    NODE_ROW(copse_asin, NEED(g), NEED(x));
    NODE_ROW(copse_acos, NEED(g), NEED(x));
    NODE_ROW(copse_atan, NEED(g), NEED(x));
    NODE_ROW(copse_sinh, NEED(g), NEED(x));
    NODE_ROW(copse_cosh, NEED(g), NEED(x));
    NODE_ROW(copse_asinh, NEED(g), NEED(x));
    NODE_ROW(copse_acosh, NEED(g), NEED(x));
    NODE_ROW(copse_atanh, NEED(g), NEED(x));
    NODE_ROW(copse_gelu_tanh, NEED(g), NEED(x));
    NODE_ROW(copse_mish, NEED(g), NEED(x));
    NODE_ROW(copse_hard_sigmoid, NEED(g), NEED(x));
    NODE_ROW(copse_hard_swish, NEED(g), NEED(x));
    NODE_ROW(copse_selu, NEED(g), NEED(x));
}

static void layers(struct probe *p)
{
    static const uint32_t places[2] = { 0, 1 };
    static const struct copse_pool_params pool = { .window = { 1, 1 } };
    const struct copse_blocks blocks = { x, x, x, 4 };
    NODE_ROW(copse_add, NEED(g), NEED(x), NEED(x));
    NODE_ROW(copse_sub, NEED(g), NEED(x), NEED(x));
    NODE_ROW(copse_mul, NEED(g), NEED(x), NEED(x));
    NODE_ROW(copse_div, NEED(g), NEED(x), NEED(x));
    NODE_ROW(copse_maximum, NEED(g), NEED(x), NEED(x));
    NODE_ROW(copse_minimum, NEED(g), NEED(x), NEED(x));
    NODE_ROW(copse_gather, NEED(g), NEED(x), NEED(x));
    NODE_ROW(copse_where, NEED(g), NEED(x), NEED(x), NEED(x));
    NODE_ROW(copse_one_hot, NEED(g), NEED(x), 3);
    NODE_ROW(copse_constant, NEED(g), COPSE_F32, COPSE_SCALAR, NEED("1234"));
    VOID_ROW(copse_split, NEED(g), NEED(x), 0, NULL, 1, NEED(&y));
    NODE_ROW(copse_stack, NEED(g), NEED(&x), 1, 0);
    NODE_ROW(copse_pad, NEED(g), NEED(x), NEED(places), NEED(places), 0.0);
    NODE_ROW(copse_rms_norm, NEED(g), NEED(x), NEED(x), 1e-5f);
    NODE_ROW(copse_layer_norm, NEED(g), NEED(x), NEED(x), NEED(x), 1e-5f);
    NODE_ROW(copse_matmul, NEED(g), NEED(x), NEED(x), false, false);
    NODE_ROW(copse_matmul_blocks, NEED(g), NEED(x), NEED(&blocks), true);
    NODE_ROW(copse_gather_blocks, NEED(g), NEED(&blocks), NEED(x));
    NODE_ROW(copse_dense, NEED(g), NEED(x), NEED(x), NULL, COPSE_LINEAR);
    NODE_ROW(copse_conv, NEED(g), NEED(x), NEED(x), NULL, NULL);
    NODE_ROW(copse_conv_transposed, NEED(g), NEED(x), NEED(x), NULL, NULL);
    NODE_ROW(copse_max_pool, NEED(g), NEED(x), NEED(&pool));
    NODE_ROW(copse_average_pool, NEED(g), NEED(x), NEED(&pool));
    NODE_ROW(copse_leaky_relu, NEED(g), NEED(x), 0.1f);
    NODE_ROW(copse_elu, NEED(g), NEED(x), 0.1f);
    NODE_ROW(copse_pow, NEED(g), NEED(x), 2.0f);
    NODE_ROW(copse_clip, NEED(g), NEED(x), 0.0f, 1.0f);
    NODE_ROW(copse_multiply_by, NEED(g), NEED(x), 2.0f);
    NODE_ROW(copse_equal, NEED(g), NEED(x), NEED(x));
    NODE_ROW(copse_greater_equal, NEED(g), NEED(x), NEED(x));
    NODE_ROW(copse_less, NEED(g), NEED(x), NEED(x));
    NODE_ROW(copse_sum, NEED(g), NEED(x), NEED(places), 1, false);
    NODE_ROW(copse_mean, NEED(g), NEED(x), NEED(places), 1, false);
    NODE_ROW(copse_max, NEED(g), NEED(x), NEED(places), 1, false);
    NODE_ROW(copse_argmax, NEED(g), NEED(x), 0);
    NODE_ROW(copse_softmax, NEED(g), NEED(x));
    NODE_ROW(copse_log_softmax, NEED(g), NEED(x));
    NODE_ROW(copse_softmax_groups, NEED(g), NEED(x), 1, 1.0f);
    NODE_ROW(copse_sparse_cross_entropy, NEED(g), NEED(x), NEED(x), COPSE_MEAN);
    NODE_ROW(copse_mean_squared_error, NEED(g), NEED(x), NEED(x));
    NODE_ROW(copse_reshape, NEED(g), NEED(x), COPSE_SHAPE(4));
    NODE_ROW(copse_transpose, NEED(g), NEED(x), NEED(places));
    NODE_ROW(copse_slice, NEED(g), NEED(x), NEED(places), NEED(places));
    NODE_ROW(copse_concat, NEED(g), NEED(&x), 1, 0);
    NODE_ROW(copse_broadcast_to, NEED(g), NEED(x), COPSE_SHAPE(2, 2));
    NODE_ROW(copse_cast, NEED(g), NEED(x), COPSE_I32);
    NODE_ROW(copse_fill, NEED(g), COPSE_F32, COPSE_SCALAR, 1.0);
    NODE_ROW(copse_scalar, NEED(g), 1.0);
    NODE_ROW(copse_dropout, NEED(g), NEED(x), 0.5f, true);
    NODE_ROW(copse_all_reduce, NEED(g), NEED(x), COPSE_MEAN);
    NODE_ROW(copse_all_gather, NEED(g), NEED(x), 0);
    NODE_ROW(copse_sync_moments, NEED(g), NEED(x), NEED(places), 1, NULL);
    NODE_ROW(copse_sync_batch_norm, NEED(g), NEED(x), NEED(places), 1, NULL);
}

static void logic(struct probe *p)
{
    NODE_ROW(copse_prelu, NEED(g), NEED(x), NEED(x));
    NODE_ROW(copse_not_equal, NEED(g), NEED(x), NEED(x));
    NODE_ROW(copse_greater, NEED(g), NEED(x), NEED(x));
    NODE_ROW(copse_less_equal, NEED(g), NEED(x), NEED(x));
    NODE_ROW(copse_logical_and, NEED(g), NEED(x), NEED(x));
    NODE_ROW(copse_logical_or, NEED(g), NEED(x), NEED(x));
    NODE_ROW(copse_logical_xor, NEED(g), NEED(x), NEED(x));
    NODE_ROW(copse_logical_not, NEED(g), NEED(x));
}

static void losses(struct probe *p)
{
    NODE_ROW(copse_cross_entropy, NEED(g), NEED(x), NEED(labels), NULL);
    NODE_ROW(copse_dense_cross_entropy, NEED(g), NEED(x), NEED(x), NULL, NEED(labels), NULL, NULL);
    NODE_ROW(copse_binary_cross_entropy, NEED(g), NEED(x), NEED(x), NULL, COPSE_MEAN);
    NODE_ROW(copse_huber_loss, NEED(g), NEED(x), NEED(x), 1.0f, COPSE_MEAN);
    NODE_ROW(copse_smooth_l1_loss, NEED(g), NEED(x), NEED(x), 1.0f, COPSE_MEAN);
    NODE_ROW(copse_kl_divergence, NEED(g), NEED(x), NEED(x), COPSE_MEAN);
    NODE_ROW(copse_cosine_similarity, NEED(g), NEED(x), NEED(x));
    NODE_ROW(copse_cosine_embedding_loss, NEED(g), NEED(x), NEED(x), NEED(labels), 0.0f,
             COPSE_MEAN);
}

static void sizes(struct probe *p)
{
    static const uint32_t size[] = { 2, 2 };
    NODE_ROW(copse_resize, NEED(g), NEED(x), NEED(size), COPSE_RESIZE_LINEAR);
    NODE_ROW(copse_pixel_shuffle, NEED(g), NEED(x), 1);
    NODE_ROW(copse_pixel_unshuffle, NEED(g), NEED(x), 1);
    VOID_ROW(copse_set_precision, NEED(g), COPSE_F32);
    VOID_ROW(copse_recompute_begin, NEED(g));
    VOID_ROW(copse_recompute_end, NEED(g));
}

static void norms(struct probe *p)
{
    NODE_ROW(copse_group_norm, NEED(g), NEED(x), 1, NEED(x), NEED(x), 1e-5f);
    NODE_ROW(copse_instance_norm, NEED(g), NEED(x), NEED(x), NEED(x), 1e-5f);
}

static void scans(struct probe *p)
{
    NODE_ROW(copse_cumsum, NEED(g), NEED(x), 0, false, false);
    NODE_ROW(copse_top_k, NEED(g), NEED(x), 1, NULL);
}

static void attentions(struct probe *p)
{
    copse_tensor *q = copse_graph_input(g, "q", COPSE_F32, COPSE_SHAPE(2, 3, 2, 4));
    copse_tensor *qkv = copse_graph_input(g, "qkv", COPSE_F32, COPSE_SHAPE(2, 3, 16));
    NODE_ROW(copse_attention, NEED(g), NEED(q), NEED(q), NEED(q), NULL);
    NODE_ROW(copse_self_attention, NEED(g), NEED(qkv), 2, 1, NULL);
    copse_tensor *turns = copse_graph_input(g, "turns", COPSE_F32, COPSE_SHAPE(3, 4));
    NODE_ROW(copse_glu, NEED(g), NEED(q), q, COPSE_SILU);
    NODE_ROW(copse_rotary, NEED(g), NEED(q), NULL);
    NODE_ROW(copse_rotary_by, NEED(g), NEED(q), NEED(turns), NULL);
}

static void recurrent_layers(struct probe *p)
{
    copse_tensor *last, *cell;
    copse_tensor *steps = copse_graph_input(g, "steps", COPSE_F32, COPSE_SHAPE(2, 3, 4));
    copse_tensor *w = copse_graph_input(g, "w", COPSE_F32, COPSE_SHAPE(4, 6));
    copse_tensor *r = copse_graph_input(g, "r", COPSE_F32, COPSE_SHAPE(2, 6));
    copse_tensor *w4 = copse_graph_input(g, "w4", COPSE_F32, COPSE_SHAPE(4, 8));
    copse_tensor *r4 = copse_graph_input(g, "r4", COPSE_F32, COPSE_SHAPE(2, 8));
    NODE_ROW(copse_gru, NEED(g), NEED(steps), NEED(w), NEED(r), NULL, &last);
    NODE_ROW(copse_gru, NEED(g), NEED(steps), NEED(w), NEED(r), NULL, NULL);
    NODE_ROW(copse_lstm, NEED(g), NEED(steps), NEED(w4), NEED(r4), NULL, &last, &cell);
    NODE_ROW(copse_lstm, NEED(g), NEED(steps), NEED(w4), NEED(r4), NULL, NULL, NULL);
    w = copse_graph_input(g, "u", COPSE_F32, COPSE_SHAPE(4, 2));
    r = copse_graph_input(g, "v", COPSE_F32, COPSE_SHAPE(2, 2));
    NODE_ROW(copse_rnn, NEED(g), NEED(steps), NEED(w), NEED(r), NULL, &last);
}

static void reference(const void *params, const int32_t *spec, const struct copse_host_arg *buffers)
{
    (void)params, (void)spec, (void)buffers;
}

static void user_ops(struct probe *p)
{
    static const struct copse_user_sample sample = { .name = "x" };
    static const struct copse_user_op_params params = { .name = "other",
                                                        .operands = 1,
                                                        .params = 1,
                                                        .text = "other",
                                                        .reference = reference,
                                                        .samples = &sample,
                                                        .sample_count = 1 };
    struct copse_user_op_params mine = params;
    copse_user_op *op, *made;
    mine.name = mine.text = "mine";
    OK(copse_user_op_register(ctx, &mine, &op));
    ROW(copse_user_op_register, NEED(ctx), NEED(&params), NEED(&made));
    NODE_ROW(copse_user_op_add, NEED(g), NEED(op), NEED(&x), 1, NULL);
}

static void all_rows(struct probe *p)
{
    OK(copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" }, &ctx));
    OK(copse_graph_create(ctx, &g));
    x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(2, 3));
    labels = copse_graph_input(g, "labels", COPSE_I32, COPSE_SHAPE(2));
    functions(p);
    layers(p);
    logic(p);
    losses(p);
    sizes(p);
    norms(p);
    scans(p);
    attentions(p);
    recurrent_layers(p);
    user_ops(p);
    copse_graph_release(&g);
    copse_context_release(&ctx);
}

static void required_pointers_are_checked(void **state)
{
    int calls;
    (void)state;
    const int wrong = run_rows(all_rows, &calls);
    printf("%d calls\n", calls);
    if (wrong)
        fail_msg("%d of %d calls with NULL are not refused as they should be", wrong, calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(required_pointers_are_checked) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
