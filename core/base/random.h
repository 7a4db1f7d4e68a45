/* SPDX-License-Identifier: MIT */
/* Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random
   numbers: as easy as 1, 2, 3", SC 2011). kernels/random/philox.clh has the same algorithm. */
#ifndef COPSE_RANDOM_H
#define COPSE_RANDOM_H

#include <stdint.h>

#include "core/base/private.h"

struct copse_philox {
    uint32_t counter[4], key[2];
};
COPSE_PRIVATE void copse__philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* A stream of numbers from one key. Start with `used` and `counter` zero. */
struct copse_stream {
    uint32_t counter[4], key[2], block[4];
    unsigned left; /* unused numbers of `block` */
};
COPSE_PRIVATE void copse__stream_init(struct copse_stream *s, uint64_t seed, uint32_t stream);
uint32_t copse__stream_u32(struct copse_stream *s);
COPSE_PRIVATE uint32_t copse__stream_below(struct copse_stream *s,
                                           uint32_t bound);       /* unbiased; bound > 0 */
COPSE_PRIVATE float copse__stream_unit(struct copse_stream *s);   /* [0, 1) in steps of 2^-24 */
COPSE_PRIVATE float copse__stream_normal(struct copse_stream *s); /* N(0,1), Box-Muller in double */

#endif
