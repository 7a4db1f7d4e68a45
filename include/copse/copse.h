/* SPDX-License-Identifier: MIT */
/** @file Copse: trains neural networks through OpenCL and Vulkan compute, on several devices at
 * once. This header includes the everyday headers, which lie beside it. Headers in the folders
 * (compat/, data/, device/, distribute/, loop/, nn/, ops/, optim/, train/) are included one by one.
 */
#ifndef COPSE_PUBLIC_COPSE_H
#define COPSE_PUBLIC_COPSE_H

#include "copse/batch.h"
#include "copse/context.h"
#include "copse/data.h"
#include "copse/device.h"
#include "copse/matmul.h"
#include "copse/model.h"
#include "copse/nn.h"
#include "copse/ops.h"
#include "copse/optimizer.h"
#include "copse/predict.h"
#include "copse/state.h"
#include "copse/status.h"
#include "copse/strategy.h"
#include "copse/tensor.h"
#include "copse/trainer.h"

/** Version of these headers. */
#define COPSE_VERSION_MAJOR 0
#define COPSE_VERSION_MINOR 2
#define COPSE_VERSION_PATCH 0

#if defined(__cplusplus)
extern "C" {
#endif

/** Version of the library: "0.1.0". Static. */
COPSE_API const char *copse_version(void);

#if defined(__cplusplus)
}
#endif
#endif
