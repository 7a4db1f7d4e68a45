/* SPDX-License-Identifier: MIT */
/* Whether a device rounds as portable bits need it. */
#ifndef COPSE_PORTABLE_PROBE_H
#define COPSE_PORTABLE_PROBE_H

#include "core/device/device.h"

/* Compute some operations on a device that was opened with portable bits, and compare each result
   with the bits of IEEE 754. COPSE_ERR_UNSUPPORTED names the first operation that differs, its
   operands and both results. Compiles a few kernels. */
copse_status copse__portable_probe(copse_device *dev);

#endif
