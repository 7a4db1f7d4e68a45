/* SPDX-License-Identifier: MIT */
/* The largest error of the sums of products, in the order in which each kernel adds. It holds for
   all numbers, so it is larger than the limits of conformance, which are for drawn numbers, whose
   roundings go both ways.

   The bound is n u / (1 - n u) S. u is 2^-24. S is the sum of the magnitudes of the terms, of the
   bias, and of earlier content to which a launch adds. n is the largest number of roundings that a
   term takes part in. Proof: an operation returns its exact result times 1 + d with |d| <= u. So a
   sum returns each of its terms times a product of at most n such factors, which differs from 1 by
   at most (1 + u)^n - 1 <= n u / (1 - n u) (Higham, Accuracy and Stability of Numerical Algorithms,
   lemma 3.1). n counts as follows.
   - The first term of a chain of c terms is rounded when it is multiplied and by c - 1 additions;
     where products are fused with additions, by c fused operations. Additions to zero are exact.
     The other terms are rounded fewer times. A chain has at most 256 terms.
   - The first of t sums that are added one by one is rounded t - 1 times. These are the sums of
     chains, of parts of several chains, and of launches.
   - The bias is added last: 1.
   A vendor's library may add all terms of a command in one chain, so a command has at most 256. A
   matrix unit may cut off what it adds instead of rounding it: 2 for a term of its chain, which is a
   strip of 32 (matmul_cooperative.c has the proof).
   A device that does not round to nearest has 2 u for u. Overflow and underflow are left out. The
   laws of the kernels count n; docs/internals/conformance.md, "Sums of products", has it for each
   kernel, copse/matmul.h and copse/ops/conv.h one for all. */
#ifndef COPSE_SUM_BOUND_H
#define COPSE_SUM_BOUND_H

#include "copse/device.h"
#include "core/base/base.h"
#include "core/device/kernel/law.h"

#define COPSE_SUM_CHAIN 256u /* terms of a chain, in all kernels */
#define COPSE_SUM_SLOPE 1.13 /* 1.129 of GELU, 1.1 of SiLU, at most 1 of the other activations */

/* n of a sum in chains, in parts of `chains` of these, and in launches of `most` terms. */
uint64_t copse__sum_levels(uint64_t terms, uint64_t chains, uint64_t most);
/* A launch that adds to the sums of an earlier one or not, with a bias (spec[0]) and an activation
   (spec[1]). */
struct copse_sum copse__sum_of(uint64_t roundings, bool adds, const int32_t *spec);

/* The bound in u S of a sum of `terms` products and a bias; 0: the law counts none. */
COPSE_PRIVATE double copse__sum_bound(const struct copse_law *law, uint64_t terms,
                                      const struct copse_limits *limits);
/* The bound in u S of the elements of one launch, with its bias and activation; 0: none is
   proven. */
COPSE_PRIVATE double copse__launch_bound(const struct copse_law *law, const void *params,
                                         const int32_t *spec, const struct copse_limits *limits);

#endif
