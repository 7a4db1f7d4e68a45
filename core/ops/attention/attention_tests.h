/* SPDX-License-Identifier: MIT */
/* The self-tests of the kernels of attention: see struct copse_self_test. */
#ifndef COPSE_ATTENTION_TESTS_H
#define COPSE_ATTENTION_TESTS_H

#include "core/device/kernel/law.h"

copse_self_test_fn copse__attention_test, copse__attention_grad_query_test,
    copse__attention_grad_key_test, copse__attention_wide_test,
    copse__attention_grad_query_wide_test, copse__attention_grad_key_wide_test,
    copse__attention_texel_test, copse__attention_grad_query_texel_test,
    copse__attention_grad_key_texel_test, copse__attention_tile_test,
    copse__attention_grad_query_tile_test, copse__attention_grad_key_tile_test;

#endif
