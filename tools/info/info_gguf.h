/* SPDX-License-Identifier: MIT */
/* What `copse info` says about a GGUF file: its keys and tensors. */
#ifndef INFO_GGUF_H
#define INFO_GGUF_H

#include <stdbool.h>

#include "tools/tool.h"

/* Print the file; returns the exit status. */
int info_gguf_run(const char *path, bool is_json);

#endif
