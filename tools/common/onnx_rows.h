/* SPDX-License-Identifier: MIT */
/* Rows of data for a network in an ONNX file. */
#ifndef ONNX_ROWS_H
#define ONNX_ROWS_H

#include "copse/nn/onnx.h"

#include "tools/tool.h"

/* Open data for a network: numbers stay as they are, and columns of tables that --ignore does not
   name go by their order. `how`: `labels`, `no_labels`, `csv` and `ignore` are used. Refused are
   columns that are no numbers, and a table with another number of columns than the network takes.
   */
copse_status onnx_rows_open(copse_context *ctx, const char *path, const copse_onnx *network,
                            const struct copse_dataset_params *how, copse_dataset **out);
/* Elements of a tensor without its first axis; 0: the file does not say. */
uint64_t onnx_rows_elements(const struct copse_onnx_tensor *t);

#endif
