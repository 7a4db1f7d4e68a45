/* SPDX-License-Identifier: MIT */
/* The bases of tolerances of recurrent layers: see struct copse_limit. */
#ifndef COPSE_RECURRENT_SIZES_H
#define COPSE_RECURRENT_SIZES_H

#include "core/device/kernel/law.h"

copse_host_fn copse__recurrent_size, copse__recurrent_grad_size;

#endif
