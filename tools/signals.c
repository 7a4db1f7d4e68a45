/* SPDX-License-Identifier: MIT */
/* Signals that ask a command to end: it looks for them between two steps, or they end it, but not while it
   writes a file. */
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

/* ---- while a file is written ---- */

static unsigned held;
static struct sigaction before[2]; /* of SIGINT and SIGTERM */
/* The one that came while files are written; one that was caught earlier is not it and is left to the command. */
static volatile sig_atomic_t put_off;

static void on_held_signal(int which)
{
    number = put_off = which;
}

static void put_back(int which, const struct sigaction *old)
{
    if (old->sa_handler == SIG_DFL)
        sigaction(which, old, NULL);
}

static void hold(int which, struct sigaction *old)
{
    const struct sigaction action = { .sa_handler = on_held_signal };
    if (sigaction(which, NULL, old) == 0 && old->sa_handler == SIG_DFL)
        sigaction(which, &action, NULL);
}

void signals_hold(void)
{
    if (held++ > 0)
        return;
    put_off = 0;
    hold(SIGINT, &before[0]);
    hold(SIGTERM, &before[1]);
}

void signals_release(void)
{
    if (held == 0 || --held > 0)
        return;
    put_back(SIGINT, &before[0]);
    put_back(SIGTERM, &before[1]);
    if (put_off)
        raise(put_off);
}
