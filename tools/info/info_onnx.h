/* SPDX-License-Identifier: MIT */
/* What `copse info` says about an ONNX file: inputs, outputs, operators, weights, refused nodes. */
#ifndef INFO_ONNX_H
#define INFO_ONNX_H

#include <stdbool.h>

#include "tools/tool.h"

/* Print the file; returns the exit status. */
int info_onnx_run(const char *path, bool is_json);

#endif
