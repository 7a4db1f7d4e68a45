/* SPDX-License-Identifier: MIT */
/* Self-tests of the update kernels: see struct copse_self_test. */
#ifndef COPSE_RULE_SELF_TESTS_H
#define COPSE_RULE_SELF_TESTS_H

#include "core/device/kernel/law.h"

#define COPSE_UPDATE_TEST_N 100u /* elements */
/* The launch of an update. The step buffer is the last one; parameters and slots are small positive
   numbers. */
void copse__update_test(const struct copse_kernel *k, struct copse_self_test *t, const void *params,
                        uint32_t slots);
void copse__test_float(struct copse_self_test *t, uint32_t buffer, uint32_t word, float value);

copse_self_test_fn copse__adam_test, copse__adam8_test, copse__adaptive_test, copse__average_test,
    copse__block_scale_test, copse__clip_test, copse__lamb_sum_test, copse__momentum_test,
    copse__sgd_test, copse__square_sum_test, copse__trust_test;

#endif
