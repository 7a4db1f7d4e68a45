/* SPDX-License-Identifier: MIT */
/* Single elements of the results of kernels, beside the host functions of these kernels (core/ops). */
#ifndef COPSE_HOST_AT_H
#define COPSE_HOST_AT_H

#include "core/device/kernel.h"

copse_host_at_fn copse_at_matmul, copse_at_matmul_wide, copse_at_matmul_texel, copse_at_matmul_pad, copse_at_matmul_half,
    copse_at_matmul_wide_pack, copse_at_matmul_wide_turn, copse_at_conv, copse_at_conv_wide, copse_at_conv_weight,
    copse_at_conv_weight_wide, copse_at_conv_texel, copse_at_conv_weight_texel, copse_at_pool, copse_at_pool_grad,
    copse_at_resize, copse_at_resize_grad, copse_at_binary, copse_at_binary_grad, copse_at_compare_i32, copse_at_where,
    copse_at_where_i32, copse_at_copy, copse_at_copy_i32, copse_at_gather, copse_at_dropout, copse_at_dropout_wide,
    copse_at_reduce, copse_at_column_sum_wide, copse_at_rotary, copse_at_glu, copse_at_glu_grad;

/* Where element `i` of an `at` function is stored, for kernels whose elements are counted in another order than they are
   stored; of a copy that does not scatter: from where it is loaded. */
typedef size_t copse_host_place_fn(const void *params, const int32_t *spec, size_t i);
copse_host_place_fn copse_place_copy, copse_place_copy_i32, copse_place_matmul_wide_pack, copse_place_matmul_wide_turn;

#endif
