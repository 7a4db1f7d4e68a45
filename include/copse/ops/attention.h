/* SPDX-License-Identifier: MIT */
/** @file
 * Attention. The rules of copse/ops.h hold here too.
 */
#ifndef COPSE_PUBLIC_OPS_ATTENTION_H
#define COPSE_PUBLIC_OPS_ATTENTION_H

#include "copse/ops.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Which keys a query sees, and what changes scores. All conditions hold together. */
struct copse_attention_params {
    bool is_causal;  /**< query i sees keys 0 to i only */
    uint32_t window; /**< query i sees key j only if |i - j| < window    [0: every key] */
    float scale;     /**< finite                                         [0: 1 / sqrt(width)] */
    /** 1e-6 to 1e30: a score s becomes cap tanh(s / cap), before the mask is added (Gemma 2)
        [0: none] */
    float cap;
    /** i32 [n]: a query of item i sees key j only if j < lengths[i]; lengths below 0 count as 0,
        those above the number of keys as that number. In copse_self_attention queries from
        lengths[i] on see no key. [NULL: all keys] */
    copse_tensor *lengths;
    /** f32 [n or 1, heads or 1, queries or 1, keys], which may lack the first axes: added to the
        scores. -infinity hides a key whose numbers are finite. It has no derivative and must not
        depend on variables. [NULL: nothing is added] */
    copse_tensor *mask;
    uint64_t reserved[2]; /**< 0 */
};

/**
 * Scaled dot-product attention (Vaswani et al., 2017) of each head: y = softmax(scale q k^T + mask)
 * v over the keys that a query sees. A query that sees none, or only keys with a mask of -infinity,
 * has y = 0 and adds nothing to derivatives. Each key and value head serves heads / kv_heads
 * adjacent query heads. Memory for the derivative grows linearly with the length: it stores four
 * numbers for each query and computes the scores again. No result depends on the order in which
 * groups run.
 *
 * Operands are f32, f16 or bf16; sums, results and derivatives are f32. copse_set_precision applies
 * to f32 operands.
 *
 * @param q       [n, queries, heads, width].
 * @param k, v    [n, keys, kv_heads, width]; kv_heads divides heads.
 * @param params  NULL for defaults.
 * @param y       The shape of q.
 * @retval COPSE_ERR_SHAPE  Also: width is not 1 to 256, or there are more than 16,384 keys, or
 *                          queries times heads / kv_heads.
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_attention(copse_graph *g, copse_tensor *q,
                                                      copse_tensor *k, copse_tensor *v,
                                                      const struct copse_attention_params *params);

/**
 * The same of one tensor, the result of one product: each row has the query heads, the key heads
 * and the value heads.
 *
 * @param qkv  [n, length, (heads + 2 kv_heads) width].
 * @param y    f32 [n, length, heads width].
 */
COPSE_API COPSE_CHECKED copse_tensor *
copse_self_attention(copse_graph *g, copse_tensor *qkv, uint32_t heads, uint32_t kv_heads,
                     const struct copse_attention_params *params);

#if defined(__cplusplus)
}
#endif
#endif
