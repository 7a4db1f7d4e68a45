/* SPDX-License-Identifier: MIT */
/* Signals that ask a command to end: it looks for them between two steps. */
#include <signal.h>

#include "tools/tool.h"

static volatile sig_atomic_t number;

static void on_signal(int which)
{
    number = which;
}

void signals_catch(void)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int signals_caught(void)
{
    return number;
}
