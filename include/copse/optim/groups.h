/* SPDX-License-Identifier: MIT */
/** @file
 * Parameter groups: settings of an optimizer for the variables whose names match a pattern.
 *
 * A description is a sequence of groups, separated by `;`. A group is a list of patterns, a colon
 * and a list of settings, both separated by commas: `*.bias, *.scale: decay=0; conv1.*: frozen;
 * *.weight: rate=0.1, decay=0.01`. In a pattern `*` is any text and `?` is one character. A
 * variable belongs to the first group with a pattern that matches its name; variables of no group
 * have the settings of the optimizer.
 *
 * | setting | meaning | |---|---| | `rate=F` | the learning rate of each step times F, finite and >
 * 0. 8 different values of F at most | | `decay=D` | weight decay D, finite and >= 0, instead of
 * `weight_decay` | | `frozen` | the variable is not updated and has no slots. Its gradient is
 * computed only if another one needs it. A batch norm whose scale and offset are frozen normalises by
 * its averages, and keeps them |
 *
 * At most 32 patterns of at most 63 bytes. A pattern that matches no trained variable is refused
 * when the trainer is created; the error lists close names.
 */
#ifndef COPSE_PUBLIC_OPTIM_GROUPS_H
#define COPSE_PUBLIC_OPTIM_GROUPS_H

#include <stdbool.h>

#include "copse/optimizer.h"

#if defined(__cplusplus)
extern "C" {
#endif

/**
 * Check a description, as `groups` of copse_optimizer_params; "" is no groups. Any thread.
 * @retval COPSE_ERR_ARGUMENT  The text breaks the rules above; the error quotes the part, and says
 *                             what is expected.
 */
COPSE_API COPSE_CHECKED copse_status copse_parameter_groups_check(const char *text);

/** Whether a description freezes a variable of this name. NULL, or a text that breaks the rules:
    false. Any thread. */
COPSE_API bool copse_parameter_groups_freezes(const char *text, const char *name);

#if defined(__cplusplus)
}
#endif
#endif
