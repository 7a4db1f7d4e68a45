/* SPDX-License-Identifier: MIT */
/* A run of `copse conformance` over devices and modes. */
#ifndef CONFORM_RUN_H
#define CONFORM_RUN_H

#include "tools/conformance/conform.h"

/* `action`: "" to run the modes, or "list", "info", "support". Returns the exit code. `argv` is the command line, for
   the card. */
int conform_run(const struct conform_settings *s, const char *action, int argc, char **argv);

#endif
