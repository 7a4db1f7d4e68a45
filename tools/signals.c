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

/* Calls that a signal interrupts go on: what is being printed is printed whole. */
void signals_catch(void)
{
    const struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND | SA_RESTART };
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int signals_caught(void)
{
    return number;
}

/* ---- while a file is written ---- */

static struct {
    const int which;
    struct sigaction before;
    bool is_held;
    volatile sig_atomic_t is_noted; /* the one that signals_catch wants came meanwhile */
} kinds[] = { { .which = SIGINT }, { .which = SIGTERM }, { .which = SIGHUP } };
enum { KINDS = sizeof kinds / sizeof *kinds };

static unsigned held;
/* The one that came while files are written and would have ended the process; one that was noted earlier is not it
   and is left to the command. */
static volatile sig_atomic_t put_off;

static void on_held_signal(int which)
{
    int i = 0;
    while (kinds[i].which != which)
        i++;
    if (kinds[i].before.sa_handler == on_signal && !kinds[i].is_noted) {
        kinds[i].is_noted = true;
        number = which;
    } else {
        put_off = which;
    }
}

/* One that is ignored stays so. A driver's own handler would end the process, too. */
void signals_hold(void)
{
    const struct sigaction action = { .sa_handler = on_held_signal, .sa_flags = SA_RESTART };
    if (held++ > 0)
        return;
    put_off = 0;
    for (int i = 0; i < KINDS; i++) {
        kinds[i].is_noted = false;
        kinds[i].is_held = sigaction(kinds[i].which, NULL, &kinds[i].before) == 0 &&
                           kinds[i].before.sa_handler != SIG_IGN;
        if (kinds[i].is_held)
            sigaction(kinds[i].which, &action, NULL);
    }
}

void signals_release(void)
{
    if (held == 0 || --held > 0)
        return;
    for (int i = 0; i < KINDS; i++) {
        const struct sigaction standard = { .sa_handler = SIG_DFL };
        /* one that was noted is not noted again; of flags that stand beside no handler nothing is kept */
        const bool is_standard = kinds[i].is_noted || kinds[i].before.sa_handler == SIG_DFL;
        if (kinds[i].is_held)
            sigaction(kinds[i].which, is_standard ? &standard : &kinds[i].before, NULL);
    }
    if (put_off)
        raise(put_off);
}
