/* SPDX-License-Identifier: MIT */
/* What the two files of mode stress share. */
#ifndef COPSE_CORE_CONFORMANCE_STRESS_H
#define COPSE_CORE_CONFORMANCE_STRESS_H

#include "core/conformance/mode.h"

/* y = -x by one dispatch over `count` elements: x is written first, from a pattern, then y is
   compared word by word and so are the words around it. Exact on every device. Verdict FAIL and
   its text where it is not so. Ranges start at `offset` bytes (a multiple of COPSE_ALIGNMENT). */
copse_status copse__stress_negate(struct copse_conform_run *r, copse_queue *q, copse_buffer *x,
                                  copse_buffer *y, size_t offset, size_t count,
                                  struct copse_conform_outcome *out);

/* The cases about memory and queues (stress_memory.c). */
void copse__stress_memory(struct copse_conform_run *r);

#endif
