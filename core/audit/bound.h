/* SPDX-License-Identifier: MIT */
/* What a launch must compute: the host function of its kernel, and how far the results of a device may be from it.
   The limits are those of mode launch of conformance, times COPSE_BOUND_MARGIN, because a training step has any numbers
   and conformance has chosen ones. Sums may err by what is proven for any numbers (sum_bound.h), where that is more. */
#ifndef COPSE_BOUND_H
#define COPSE_BOUND_H

#include "core/device/device.h"

#define COPSE_BOUND_MARGIN 8.0

/* A result y of a kernel that rounds may be wrong by COPSE_BOUND_MARGIN u (ulp max(|y|, floor, r) + ratio S): u is
   2^-24, r the root mean square of the results of the launch, S the basis that `size` computes. All zero: the same
   bits. */
struct copse_bound {
    copse_host_fn *truth;
    copse_host_fn *size;      /* writes S to the results; NULL: S is the truth of the magnitudes */
    double ulp, floor, ratio;
    int32_t spec[COPSE_MAX_SPECS]; /* of the truth of the magnitudes: without activation */
    bool is_single; /* the truth takes float, not double */
};

static inline bool copse__bound_is_exact(const struct copse_bound *b)
{
    return !(b->ulp > 0) && !(b->ratio > 0);
}

/* The limits of a kernel, without its truth. */
void copse__bound_limits(uint32_t kernel, const int32_t spec[COPSE_MAX_SPECS], struct copse_bound *out);
/* Allow an error of `proven` u S. */
void copse__bound_allow(struct copse_bound *b, double proven);
/* The bound of a dispatch; *out has no truth where the kernel has no host function. */
copse_status copse__bound_of(const struct copse_command *c, struct copse_bound *out);
/* Multiplications and additions of the host function, or words that it reads and writes, roughly. */
uint64_t copse__bound_work(const struct copse_command *c);

/* Bases S (sizes.c, sizes_attention.c, sizes_channels.c, sizes_recurrent.c, sizes_rules.c); conformance uses them, too. */
copse_host_fn copse__size_norm, copse__size_norm_wide, copse__size_adam, copse__size_adaptive, copse__size_trust,
    copse__size_lamb_sum, copse__size_adam8, copse__size_unary_grad,
    copse__size_cross_entropy_grad, copse__size_class_loss, copse__size_class_loss_grad, copse__size_pair_loss,
    copse__size_pair_loss_grad, copse__size_cross_entropy_grad_wide, copse__size_logits_grad, copse__size_softmax_grad,
    copse__size_channel_sums, copse__size_channel_norm, copse__size_channel_norm_wide, copse__size_attention,
    copse__size_attention_grad_query, copse__size_attention_grad_key, copse__size_attention_wide,
    copse__size_attention_grad_query_wide, copse__size_attention_grad_key_wide, copse__size_attention_texel,
    copse__size_attention_grad_query_texel, copse__size_attention_grad_key_texel, copse__size_recurrent,
    copse__size_recurrent_grad;

#endif
