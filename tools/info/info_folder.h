/* SPDX-License-Identifier: MIT */
/* What `copse info` says about a folder of a language model: its settings and tensors. */
#ifndef INFO_FOLDER_H
#define INFO_FOLDER_H

#include <stdbool.h>

#include "tools/tool.h"

/* Print the folder; returns the exit status. */
int info_folder_run(const char *path, bool is_json);

#endif
