/* SPDX-License-Identifier: MIT */
/* Single elements of the results of products, beside the host functions of their kernels (core/ops). */
#ifndef COPSE_HOST_AT_H
#define COPSE_HOST_AT_H

#include "core/device/kernel.h"

copse_host_at_fn copse_at_matmul, copse_at_matmul_wide, copse_at_matmul_texel, copse_at_conv, copse_at_conv_wide,
    copse_at_conv_weight, copse_at_conv_weight_wide, copse_at_conv_texel, copse_at_conv_weight_texel;

#endif
