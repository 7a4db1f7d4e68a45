/* SPDX-License-Identifier: MIT */
/* Shared by the files of mode stress. */
#ifndef COPSE_CORE_CONFORMANCE_STRESS_H
#define COPSE_CORE_CONFORMANCE_STRESS_H

#include "prover/conformance/verdict/mode.h"

/* y = -x in one dispatch over `count` elements: writes x from a pattern, then compares y word by
   word, including the words around it. Exact on every device. On a mismatch the verdict is FAIL
   with its text. Ranges start at `offset` bytes (a multiple of COPSE_ALIGNMENT). */
copse_status copse__stress_negate(struct copse_conform_run *r, copse_queue *q, copse_buffer *x,
                                  copse_buffer *y, size_t offset, size_t count,
                                  struct copse_conform_outcome *out);

/* The cases about memory and queues (stress_memory.c). */
void copse__stress_memory(struct copse_conform_run *r);

/* The mode. */
copse_status copse__conform_stress(struct copse_conform_run *r);

#endif
