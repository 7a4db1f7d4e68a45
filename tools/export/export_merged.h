/* SPDX-License-Identifier: MIT */
/* copse export --merged. */
#ifndef EXPORT_MERGED_H
#define EXPORT_MERGED_H

#include <stdint.h>

#include "tools/tool.h"

struct export_merged {
    const char *model, *to;
    const struct option_texts *lora;
    uint32_t type; /* a value of export_types */
    bool is_forced;
};
extern const struct option_name export_types[];
/* The exit code. */
int export_merged(const struct export_merged *e);

#endif
