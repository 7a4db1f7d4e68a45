/* SPDX-License-Identifier: MIT */
/* The bases of tolerances of attention: see struct copse_limit. */
#ifndef COPSE_ATTENTION_SIZES_H
#define COPSE_ATTENTION_SIZES_H

#include "core/device/kernel/law.h"

copse_host_fn copse__attention_size, copse__attention_grad_query_size,
    copse__attention_grad_key_size, copse__attention_wide_size,
    copse__attention_grad_query_wide_size, copse__attention_grad_key_wide_size,
    copse__attention_texel_size, copse__attention_grad_query_texel_size,
    copse__attention_grad_key_texel_size, copse__attention_tile_size,
    copse__attention_grad_query_tile_size, copse__attention_grad_key_tile_size;
/* Of one query or key: the law of lines. */
copse_host_line_fn copse__attention_line_size, copse__attention_grad_query_line_size,
    copse__attention_grad_key_line_size;

#endif
