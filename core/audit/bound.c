/* SPDX-License-Identifier: MIT */
#include "core/audit/bound.h"

#include "core/audit/sum_bound.h"

/* ---- limits ---- */

/* A kernel without a row promises the bits of its host function. */
struct limit {
    uint32_t kernel;
    double ulp, floor, ratio;
    copse_host_fn *size;
    bool has_activation, is_single;
    bool has_halves; /* operands are 16 bits in words: the host function takes their magnitudes with spec[5] */
    bool has_terms;  /* the host function adds the magnitudes of its terms with spec[5] */
};

#define SUM(kernel_, ...) { .kernel = COPSE_KERNEL_##kernel_, .ulp = 1, .ratio = __VA_ARGS__ }
#define ULP(kernel_, ...) { .kernel = COPSE_KERNEL_##kernel_, .ulp = __VA_ARGS__ }

static const struct limit limits[] = {
    SUM(matmul, 16, .has_activation = true), SUM(matmul_texel, 16, .has_activation = true),
    SUM(matmul_wide, 16, .has_activation = true), SUM(matmul_half, 16, .has_activation = true, .has_halves = true),
    /* Matrix units may cut off sums of 32 bits instead of rounding them. */
    SUM(matmul_cooperative, 64, .has_activation = true, .has_halves = true),
    SUM(conv, 16, .has_activation = true), SUM(conv_wide, 16, .has_activation = true), SUM(conv_weight, 16),
    SUM(conv_weight_wide, 16), SUM(conv_texel, 16, .has_activation = true), SUM(conv_weight_texel, 16),
    ULP(pool, 4, .ratio = 4), ULP(pool_wide, 4, .ratio = 4), ULP(pool_grad, 6, .ratio = 4),
    ULP(pool_grad_wide, 6, .ratio = 4),
    ULP(resize, 3, .ratio = 4), ULP(resize_grad, 3, .ratio = 4),
    SUM(column_sum_wide, 4), SUM(gather_grad, 4), SUM(reduce, 4), SUM(scan, 4), SUM(scan_sums, 4),
    SUM(layer_norm, 16, .size = copse__size_norm), SUM(layer_norm_wide, 16, .size = copse__size_norm_wide),
    SUM(channel_sums, 16, .size = copse__size_channel_sums), ULP(channel_merge, 4, .ratio = 4),
    SUM(channel_norm, 16, .size = copse__size_channel_norm),
    SUM(channel_sums_wide, 16, .size = copse__size_channel_sums),
    SUM(channel_norm_wide, 16, .size = copse__size_channel_norm_wide),
    SUM(attention, 16, .size = copse__size_attention), SUM(attention_grad_query, 16, .size = copse__size_attention_grad_query),
    SUM(attention_grad_key, 16, .size = copse__size_attention_grad_key),
    SUM(attention_wide, 16, .size = copse__size_attention_wide),
    SUM(attention_grad_query_wide, 16, .size = copse__size_attention_grad_query_wide),
    SUM(attention_grad_key_wide, 16, .size = copse__size_attention_grad_key_wide),
    SUM(attention_texel, 16, .size = copse__size_attention_texel),
    SUM(attention_grad_query_texel, 16, .size = copse__size_attention_grad_query_texel),
    SUM(attention_grad_key_texel, 16, .size = copse__size_attention_grad_key_texel),
    SUM(recurrent, 16, .size = copse__size_recurrent), SUM(recurrent_grad, 16, .size = copse__size_recurrent_grad),
    SUM(rotary, 4, .has_terms = true), SUM(rotary_wide, 4, .has_terms = true),
    ULP(glu, 2), ULP(glu_wide, 2), ULP(glu_grad, 2, .has_terms = true), ULP(glu_grad_wide, 2, .has_terms = true),
    SUM(adam, 8, .size = copse__size_adam, .is_single = true),
    SUM(adaptive, 16, .size = copse__size_adaptive, .is_single = true),
    SUM(adam8, 8, .size = copse__size_adam8, .is_single = true),
    SUM(trust, 16, .size = copse__size_trust, .is_single = true),
    SUM(lamb_sum, 32, .size = copse__size_lamb_sum, .is_single = true),
    ULP(binary, 3), ULP(binary_grad, 7), ULP(bias_activation, 5), ULP(dense_grad, 4), ULP(dropout, 1),
    ULP(dropout_wide, 1),
    ULP(row_stats, 16), ULP(row_stats_wide, 16), ULP(softmax, 16), ULP(softmax_wide, 16),
    SUM(softmax_grad, 16, .size = copse__size_softmax_grad), SUM(softmax_grad_wide, 16, .size = copse__size_softmax_grad),
    ULP(cross_entropy, 4, .floor = 8),
    ULP(cross_entropy_grad, 16, .ratio = 16, .size = copse__size_cross_entropy_grad),
    ULP(logits_grad, 16, .ratio = 16, .size = copse__size_logits_grad),
    SUM(class_loss, 16, .size = copse__size_class_loss), SUM(class_loss_grad, 16, .size = copse__size_class_loss_grad),
    SUM(pair_loss, 16, .size = copse__size_pair_loss), SUM(pair_loss_grad, 16, .size = copse__size_pair_loss_grad),
    ULP(cross_entropy_grad_wide, 16, .ratio = 16, .size = copse__size_cross_entropy_grad_wide),
    ULP(unary, 1), ULP(unary_wide, 1), ULP(unary_grad, 1, .size = copse__size_unary_grad),
    ULP(unary_grad_wide, 1, .size = copse__size_unary_grad),
};

/* Limits of the functions of one tensor. */
static const struct function {
    int32_t number;
    double ulp, ulp_grad;
} functions[] = {
#define UNARY(name, number, f, g, ref, ref_g, low, high, ulp, ulp_g, class) { number, ulp, ulp_g },
#define SCALED UNARY
#include "kernels/elementwise/unary.def"
#undef UNARY
#undef SCALED
};

static bool is_unary(uint32_t kernel)
{
    return kernel == COPSE_KERNEL_unary || kernel == COPSE_KERNEL_unary_wide;
}

static bool is_unary_grad(uint32_t kernel)
{
    return kernel == COPSE_KERNEL_unary_grad || kernel == COPSE_KERNEL_unary_grad_wide;
}

static bool is_gated(uint32_t kernel)
{
    return kernel == COPSE_KERNEL_glu || kernel == COPSE_KERNEL_glu_wide || kernel == COPSE_KERNEL_glu_grad ||
           kernel == COPSE_KERNEL_glu_grad_wide;
}

/* Add the ULPs of a gate's function to those of the products. */
static void add_function(uint32_t kernel, int32_t number, struct copse_bound *out)
{
    for (size_t i = 0; i < COPSE_COUNT(functions); i++)
        if (functions[i].number == number)
            out->ulp += COPSE_MAX(functions[i].ulp, functions[i].ulp_grad);
    if (kernel == COPSE_KERNEL_glu_grad || kernel == COPSE_KERNEL_glu_grad_wide)
        out->ratio = out->ulp;
}

static void take_function(uint32_t kernel, int32_t number, struct copse_bound *out)
{
    const bool is_grad = is_unary_grad(kernel);
    for (size_t i = 0; i < COPSE_COUNT(functions); i++)
        if (functions[i].number == number)
            out->ulp = is_grad ? functions[i].ulp_grad : functions[i].ulp;
    if (is_grad)
        out->ratio = out->ulp;
}

/* The host function of a kernel, or that of its self-test, which a variant shares with other kernels. */
static copse_status find_truth(const struct copse_kernel *k, struct copse_bound *out)
{
    const struct copse_kernel_row *row = copse__row(k->id);
    out->truth = row->host;
    if (out->truth || !row->self_test)
        return COPSE_OK;
    struct copse_self_test *t = copse__alloc(&k->dev->base->mem, 1, sizeof *t);
    COPSE_TRY(copse_need_memory(t, "audit"));
    row->self_test(k, t);
    out->truth = t->truth;
    copse__free(&k->dev->base->mem, t);
    return COPSE_OK;
}

void copse__bound_limits(uint32_t kernel, const int32_t spec[COPSE_MAX_SPECS], struct copse_bound *out)
{
    *out = (struct copse_bound){ .is_single = true }; /* moves and integers: no double would be exact */
    memcpy(out->spec, spec, sizeof out->spec);
    for (size_t i = 0; i < COPSE_COUNT(limits); i++) {
        const struct limit *l = &limits[i];
        if (l->kernel != kernel)
            continue;
        out->ulp = l->ulp;
        out->floor = l->floor;
        out->ratio = l->ratio;
        out->size = l->size;
        out->is_single = l->is_single;
        if (l->has_activation)
            out->spec[1] = 0;
        if (l->has_halves || l->has_terms)
            out->spec[5] = 1;
    }
    const struct copse_user_kernel *own = copse__user_kernel(kernel);
    if (own) {
        out->ulp = own->ulp;
        out->ratio = own->ratio;
        out->is_single = false;
    }
    if (is_unary(kernel) || is_unary_grad(kernel))
        take_function(kernel, spec[0], out);
    if (is_gated(kernel))
        add_function(kernel, spec[0], out);
    if (copse__bound_is_exact(out)) /* words are compared, as those of abs, whose kernel has other functions that round */
        out->is_single = true;
    if ((kernel == COPSE_KERNEL_softmax || kernel == COPSE_KERNEL_softmax_wide) && spec[0]) /* of the logarithm */
        out->floor = 8;
}

void copse__bound_allow(struct copse_bound *b, double proven)
{
    b->ratio = COPSE_MAX(b->ratio, proven / COPSE_BOUND_MARGIN);
}

copse_status copse__bound_of(const struct copse_command *c, struct copse_bound *out)
{
    copse__bound_limits(c->kernel->id, c->kernel->spec, out);
    copse__bound_allow(out, copse__launch_bound(c->kernel->id, c->params, c->kernel->spec, c->kernel->dev->limits));
    return find_truth(c->kernel, out);
}

/* ---- work ---- */

static uint64_t product(uint32_t m, uint32_t n, uint32_t k, uint32_t batch)
{
    return (uint64_t)m * n * COPSE_MAX(k, 1u) * batch;
}

uint64_t copse__bound_work(const struct copse_command *c)
{
    uint64_t words = 0;
    for (uint32_t i = 0; i < c->binding_count; i++)
        words += c->bindings[i].size / COPSE_WORD_BYTES;
    if (c->kind == COPSE_COMMAND_GEMM)
        return words + product(c->gemm.m, c->gemm.n, c->gemm.k, 1);
    if (c->kind != COPSE_COMMAND_DISPATCH)
        return words;
    const void *params = c->params;
    switch (c->kernel->id) {
    case COPSE_KERNEL_matmul: {
        const struct copse_params_matmul *p = params;
        return words + product(p->m, p->n, p->k, p->batch);
    }
    case COPSE_KERNEL_matmul_texel: {
        const struct copse_params_matmul_texel *p = params;
        return words + product(p->m, p->n, p->k, p->batch);
    }
    case COPSE_KERNEL_matmul_half: {
        const struct copse_params_matmul_half *p = params;
        return words + product(p->m, p->n, p->k, p->batch);
    }
    case COPSE_KERNEL_matmul_cooperative: {
        const struct copse_params_matmul_cooperative *p = params;
        return words + product(p->m, p->n, p->k, p->batch);
    }
    case COPSE_KERNEL_matmul_wide: {
        const struct copse_params_matmul_wide *p = params;
        return words + product(p->m, p->n, p->k, p->batch);
    }
    case COPSE_KERNEL_conv: {
        const struct copse_params_conv *p = params;
        return words + product(p->count, p->taps_h * p->taps_w, p->c_end - p->c_begin, 1);
    }
    case COPSE_KERNEL_conv_weight: {
        const struct copse_params_conv_weight *p = params;
        return words + product(p->weights, 1, p->pixels, 1);
    }
    case COPSE_KERNEL_conv_wide: {
        const struct copse_params_conv_wide *p = params;
        return words + product(p->pixels, p->taps_h * p->taps_w, p->group_in, p->out_c);
    }
    case COPSE_KERNEL_conv_weight_wide: {
        const struct copse_params_conv_weight_wide *p = params;
        return words + product(p->pixels, p->rows, p->out_c, 1);
    }
    case COPSE_KERNEL_attention: {
        const struct copse_params_attention *p = params;
        return words + product(p->rows, COPSE_MIN(p->count, p->keys), p->width, 3);
    }
    case COPSE_KERNEL_attention_grad_query: {
        const struct copse_params_attention_grad_query *p = params;
        return words + product(p->rows, COPSE_MIN(p->count, p->keys), p->width, 3);
    }
    case COPSE_KERNEL_attention_grad_key: {
        const struct copse_params_attention_grad_key *p = params;
        return words + product(p->rows, COPSE_MIN(p->count, p->queries), p->width, 4);
    }
    case COPSE_KERNEL_conv_texel: {
        const struct copse_params_conv_texel *p = params;
        return words + product(p->pixels, p->taps_h * p->taps_w, 4 * p->in_t, p->out_c);
    }
    case COPSE_KERNEL_conv_weight_texel: {
        const struct copse_params_conv_weight_texel *p = params;
        return words + product(p->lines * p->out_w, p->taps_h * p->taps_w, p->in_c, p->out_c);
    }
    case COPSE_KERNEL_attention_wide: {
        const struct copse_params_attention_wide *p = params;
        return words + product(p->blocks * 16, p->keys, p->width, 3);
    }
    case COPSE_KERNEL_attention_grad_query_wide: {
        const struct copse_params_attention_grad_query_wide *p = params;
        return words + product(p->blocks * 16, p->keys, p->width, 3);
    }
    case COPSE_KERNEL_attention_grad_key_wide: {
        const struct copse_params_attention_grad_key_wide *p = params;
        return words + product(p->blocks * 16, p->queries * p->share, p->width, 4);
    }
    case COPSE_KERNEL_attention_texel: {
        const struct copse_params_attention_texel *p = params;
        return words + product(p->lines * p->queries, COPSE_MIN(p->count, p->keys), p->width, 3);
    }
    case COPSE_KERNEL_attention_grad_query_texel: {
        const struct copse_params_attention_grad_query_texel *p = params;
        return words + product(p->lines * p->queries, COPSE_MIN(p->count, p->keys), p->width, 3);
    }
    case COPSE_KERNEL_attention_grad_key_texel: {
        const struct copse_params_attention_grad_key_texel *p = params;
        return words + product(p->lines * p->keys, COPSE_MIN(p->count, p->queries), p->width, 4);
    }
    default:
        return words;
    }
}
