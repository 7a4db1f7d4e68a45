/* SPDX-License-Identifier: MIT */
/* `copse predict` of a network in an ONNX file. */
#ifndef PREDICT_ONNX_H
#define PREDICT_ONNX_H

#include "tools/common/use.h"

/* Print, or write to `path`, the first output for each row of the data: as CSV, as JSON, or as an
   array where the name ends in .npy. `ignore`: columns that are left out, or NULL. */
copse_status predict_onnx(struct use *u, bool is_json, const char *ignore, const char *path);
bool predict_onnx_is_array(const char *path);

#endif
