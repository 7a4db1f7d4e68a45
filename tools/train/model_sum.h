/* SPDX-License-Identifier: MIT */
/* Whether a language model is the one that a checkpoint was made with. */
#ifndef MODEL_SUM_H
#define MODEL_SUM_H

#include "tools/tool.h"

/* FNV-1a of bytes, which goes on from another sum. */
#define MODEL_SUM_START 0xcbf29ce484222325u
uint64_t model_sum_bytes(uint64_t sum, const void *bytes, size_t size);
/* A sum of the files of a model: of its GGUF file; or of the weights, config.json and
   tokenizer.json of a folder. Of each file these count: the size, the first 16 MiB, and 4,096 samples of 4 KiB in
   the rest; of a file that has at most 32 MiB all bytes. */
copse_status model_sum(const char *path, uint64_t *sum);

#endif
