/* SPDX-License-Identifier: MIT */
/* The parts of `copse find-lr`. */
#ifndef FIND_LR_TOOL_H
#define FIND_LR_TOOL_H

#include "copse/loop/find_lr.h"

#include "tools/tool.h"

/* The losses over the rates, as an SVG file. */
copse_status find_lr_plot(const char *path, const struct copse_lr_range *r);

#endif
