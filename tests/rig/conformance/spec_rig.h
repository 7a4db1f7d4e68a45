/* SPDX-License-Identifier: MIT */
/* Specialisations of each kernel of the table that its op or rule makes. */
#ifndef COPSE_SPEC_RIG_H
#define COPSE_SPEC_RIG_H

#include "core/device/device.h"
#include "core/ops/product/product_end.h"

/* Ends of products: functions of sums that are kept or not, and slopes. */
static inline bool end_of(uint32_t turn, int32_t *spec)
{
    static const int32_t ends[] = {
        COPSE_END_VALUE + 11,     COPSE_END_KEEPS + 12,     COPSE_END_VALUE + 31,
        COPSE_END_SLOPE + 11,     COPSE_END_SLOPE + 12,     COPSE_END_SLOPE + 31,
        COPSE_END_KEEPS + 11,     COPSE_END_SLOPE_BY_Y + 1, COPSE_END_SLOPE_BY_Y + 2,
        COPSE_END_SLOPE_BY_Y + 3,
    };
    if (turn >= COPSE_COUNT(ends))
        return false;
    spec[0] = ends[turn] < COPSE_END_SLOPE;
    spec[1] = ends[turn];
    return true;
}

/* All switches of attention without a cap, which is constant `cap`; and all of them at once. */
static inline bool without_cap(uint32_t turn, uint32_t count, uint32_t cap, int32_t *spec)
{
    const uint32_t all = 1u << (count - 1);
    for (uint32_t i = 0; i < count; i++)
        spec[i] = turn == all || (i != cap && (turn >> (i < cap ? i : i - 1) & 1u));
    return turn <= all;
}

/* A few specialisations of a kernel: numbers that its SPECs may have. */
static inline bool spec_of(enum copse_kernel_id id, uint32_t turn, int32_t *spec)
{
    const uint32_t count = copse_kernel_table[id].spec_count;
    memset(spec, 0, COPSE_MAX_SPECS * sizeof *spec);
    switch (id) {
    case COPSE_KERNEL_unary_wide:
    case COPSE_KERNEL_unary_grad_wide:
        spec[0] = (int32_t)turn * 12 % 36;
        return turn < 3;
    case COPSE_KERNEL_unary:
    case COPSE_KERNEL_unary_grad:
        spec[0] = (int32_t)turn * 5 % 37;
        return turn < 8;
    case COPSE_KERNEL_binary:
    case COPSE_KERNEL_compare_i32:
        spec[0] = id == COPSE_KERNEL_compare_i32 ? (int32_t[]){ 6, 8, 10, 12, 14, 9, 13 }[turn % 7]
                                                 : (int32_t[]){ 0, 1, 20, 3, 4, 5, 14 }[turn % 7];
        spec[1] = (int32_t)turn % 3;
        spec[2] = (int32_t)(turn + 2) % 3;
        spec[3] = 1 + (int32_t)turn % 6;
        return turn < 7;
    case COPSE_KERNEL_binary_grad:
        spec[0] = (int32_t[]){ 2, 3, 4, 5, 20, 20 }[turn % 6];
        spec[1] = (int32_t)turn % 3;
        spec[2] = (int32_t)(turn + 1) % 3;
        spec[3] = 1 + (int32_t)turn % 6;
        spec[4] = (int32_t)turn % 2;
        return turn < 6;
    case COPSE_KERNEL_pool:
    case COPSE_KERNEL_pool_wide:
    case COPSE_KERNEL_pool_grad:
    case COPSE_KERNEL_pool_grad_wide:
        spec[0] = (int32_t)turn % 2;
        spec[1] = 2 + (int32_t)turn % 3;
        spec[2] = 3;
        return turn < 3;
    case COPSE_KERNEL_layer_norm: /* the four results, of sums or added to others */
    case COPSE_KERNEL_layer_norm_wide:
    case COPSE_KERNEL_layer_norm_held:
        spec[0] = (int32_t)turn % 4;
        spec[1] = (int32_t)(turn / 2 + turn) % 2;
        spec[2] = turn % 4 != 2 && turn / 4 % 2;
        for (uint32_t i = 3; i < count; i++)
            spec[i] = (int32_t)(turn + i) % 2;
        return turn < 8;
    case COPSE_KERNEL_gather_grad: /* alone, shared, in quads */
        spec[0] = turn == 1;
        spec[1] = turn == 2;
        return turn < 3;
    case COPSE_KERNEL_column_sums:
        spec[0] = 1 + (int32_t)turn;
        return turn < 4;
    case COPSE_KERNEL_channel_sums:
    case COPSE_KERNEL_channel_sums_wide:
    case COPSE_KERNEL_channel_merge:
    case COPSE_KERNEL_channel_finish:
    case COPSE_KERNEL_resize:
    case COPSE_KERNEL_resize_grad:
        spec[0] = (int32_t)turn;
        return turn < 3;
    case COPSE_KERNEL_copy:
    case COPSE_KERNEL_copy_i32:
        spec[0] = 1 + (int32_t)turn;
        spec[1] = (int32_t)turn % 2;
        return turn < 6;
    case COPSE_KERNEL_matmul_wide:
        spec[0] = (int32_t)turn % 2;
        spec[1] = (int32_t)turn;
        spec[2] = (int32_t)turn % 3;
        return turn < 4;
    case COPSE_KERNEL_conv_texel:
        spec[0] = (int32_t)turn % 2;
        spec[1] = (int32_t)turn;
        spec[2] = (int32_t)turn / 2;
        spec[3] = (int32_t)turn;
        return turn < 4;
    case COPSE_KERNEL_conv_tile:
        spec[0] = (int32_t)turn % 2;
        spec[1] = (int32_t)turn % 2;
        spec[2] = (int32_t)turn / 4;
        spec[3] = (int32_t)turn / 2 % 2;
        spec[4] = (int32_t)turn % 4;
        spec[5] = (int32_t)(turn + turn / 4) % 4;
        return turn < 8;
    case COPSE_KERNEL_conv_weight_tile:
        spec[0] = (int32_t)turn / 4;
        spec[1] = (int32_t)turn % 4;
        spec[2] = (int32_t)(turn + turn / 4) % 4;
        return turn < 8;
    case COPSE_KERNEL_conv_weight_texel:
        spec[0] = (int32_t)turn;
        return turn < 4;
    case COPSE_KERNEL_attention_tile: /* each width with and without each of the others */
    case COPSE_KERNEL_attention_grad_query_tile:
    case COPSE_KERNEL_attention_grad_key_tile:
        for (uint32_t i = 0; i < count; i++)
            spec[i] = (int32_t)(turn >> i & 1u);
        spec[count - 2] = turn >= 3;
        spec[count - 1] = (int32_t)turn % 3;
        return turn < 6;
    case COPSE_KERNEL_attention:
    case COPSE_KERNEL_attention_wide:
    case COPSE_KERNEL_attention_grad_query:
    case COPSE_KERNEL_attention_grad_query_wide:
    case COPSE_KERNEL_attention_grad_key:
    case COPSE_KERNEL_attention_grad_key_wide:
        return without_cap(turn, count, count - 1, spec);
    case COPSE_KERNEL_attention_texel:
    case COPSE_KERNEL_attention_grad_query_texel:
    case COPSE_KERNEL_attention_grad_key_texel:
        return without_cap(turn, count, count - 2, spec);
    case COPSE_KERNEL_matmul_tile:
        spec[0] = (int32_t)turn % 2;
        spec[1] = (int32_t)turn % 2;
        spec[2] = (int32_t)turn / 2 % 2;
        spec[3] = (int32_t)turn % 2;
        spec[4] = (int32_t)turn % 4;
        spec[5] = (int32_t)turn / 4 * 3;
        return turn < 8 || end_of(turn - 8, spec);
    case COPSE_KERNEL_matmul_join:
        spec[0] = (int32_t)turn % 2;
        spec[1] = (int32_t)turn;
        return turn < 4 || end_of(turn - 4, spec);
    case COPSE_KERNEL_matmul_texel:
        spec[0] = (int32_t)(turn + 1) % 2;
        spec[1] = (int32_t)turn;
        spec[2] = (int32_t)turn / 2 % 2;
        spec[3] = (int32_t)turn % 2;
        return turn < 4 || end_of(turn - 4, spec);
    case COPSE_KERNEL_matmul_blocks: /* 4 or 8 bits, groups of 16 or 32 */
    case COPSE_KERNEL_blocks_wide:
    case COPSE_KERNEL_blocks_one:
    case COPSE_KERNEL_blocks_one_wide:
    case COPSE_KERNEL_blocks_rows:
        spec[0] = (int32_t)turn % 2;
        spec[1] = turn / 2 % 2 ? 8 : 4;
        spec[2] = 4 + (int32_t)turn % 2;
        spec[3] = (int32_t)turn / 4;
        return turn < 8;
    case COPSE_KERNEL_blocks_tile: /* each tile, with whole quads and without where B is not
                                      transposed; groups of 256, too */
        spec[0] = (int32_t)turn % 2;
        spec[1] = turn / 2 % 2 ? 8 : 4;
        spec[2] = turn % 3 == 2 ? 8 : 4 + (int32_t)turn % 2;
        spec[3] = (int32_t)turn / 4 % 2;
        spec[4] = (int32_t)((turn + turn / 4) % 4 + (turn % 2 || turn >= 8 ? 4 : 0));
        return turn < 16;
    case COPSE_KERNEL_matmul_cooperative: /* small and large tiles; rows in eights or not */
        spec[0] = (int32_t)turn % 2;
        spec[1] = (int32_t)turn % 2;
        spec[2] = (int32_t)turn / 2 % 2;
        spec[3] = (int32_t)turn % 2;
        spec[5] = (int32_t)turn / 2 * 3 % 6 + (int32_t)turn / 4 * 4;
        return turn < 8 || end_of(turn - 8, spec);
    case COPSE_KERNEL_matmul:
    case COPSE_KERNEL_matmul_chunk:
    case COPSE_KERNEL_matmul_half:
        spec[0] = (int32_t)(turn + 1) % 2;
        spec[1] = (int32_t)turn;
        spec[2] = (int32_t)turn / 2;
        spec[3] = (int32_t)turn % 2;
        return turn < 4;
    case COPSE_KERNEL_sgd:
    case COPSE_KERNEL_momentum:
    case COPSE_KERNEL_adam:
    case COPSE_KERNEL_adopt:
    case COPSE_KERNEL_average:
    case COPSE_KERNEL_clip:
    case COPSE_KERNEL_block_scale:
    case COPSE_KERNEL_trust:
    case COPSE_KERNEL_dense_grad:
    case COPSE_KERNEL_accumulate:
    case COPSE_KERNEL_tree_sum:
    case COPSE_KERNEL_sum_i32:
        spec[0] = turn ? 32 : 7;
        spec[1] = (int32_t)turn % 2;
        spec[2] = id == COPSE_KERNEL_tree_sum || id == COPSE_KERNEL_sum_i32
                      ? (int32_t[]){ 2, 11, 64 }[turn % 3]
                  : id == COPSE_KERNEL_trust ? (int32_t)turn % 2
                                             : (int32_t)turn;
        spec[3] = (int32_t)turn % 2;
        for (uint32_t i = count; i < COPSE_MAX_SPECS; i++)
            spec[i] = 0;
        return turn < 3;
    case COPSE_KERNEL_adaptive: /* each rule, and the centred one */
        spec[0] = turn % 2 ? 32 : 7;
        spec[1] = (int32_t)turn % 2;
        spec[2] = turn < 9 ? (int32_t)turn : 2;
        spec[3] = (int32_t)turn % 3;
        spec[4] = turn == 9;
        spec[5] = turn == 9;
        return turn < 10;
    case COPSE_KERNEL_recurrent:
    case COPSE_KERNEL_recurrent_wide:
    case COPSE_KERNEL_recurrent_grad:
    case COPSE_KERNEL_recurrent_grad_wide:
        spec[0] = (int32_t)turn % 3;
        spec[1] = (int32_t)turn / 3;
        spec[2] = turn != 4 && id != COPSE_KERNEL_recurrent && id != COPSE_KERNEL_recurrent_wide;
        return turn < 6;
    case COPSE_KERNEL_mean: /* f32, i32, f32 by a power of two */
        spec[0] = turn ? 32 : 7;
        spec[1] = (int32_t)turn % 2;
        spec[2] = turn == 1;
        spec[3] = turn == 2;
        return turn < 3;
    default: /* switches */
        for (uint32_t i = 0; i < count; i++)
            spec[i] = (int32_t)(turn >> i & 1u);
        return turn < (1u << count);
    }
}

#endif
