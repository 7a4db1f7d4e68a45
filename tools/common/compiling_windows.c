/* SPDX-License-Identifier: MIT */
/* No driver for Windows that compiles one kernel at a time in a process is known: the command
   compiles in its own process. */
#include "copse/device/compile.h"

#include "tools/tool.h"

bool compiling_gains(void)
{
    return false;
}

void compiling_apart(void *user, const struct copse_compile_work *work)
{
    (void)user, (void)work;
}

int compiling_process(int argc, char **argv)
{
    (void)argc, (void)argv;
    return EXIT_BAD_INPUT;
}
