/* SPDX-License-Identifier: MIT */
/* Signals that ask a command to stop. The command checks for a noted signal between two steps. Any
   other signal ends the process, but not while it writes a file. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "tools/tool.h"

static atomic_int number;
static atomic_uint held; /* number of open nested pairs of hold and release */
/* A signal that arrived during a file write and ends the process after it. */
static atomic_int put_off;

static struct kind {
    const int which;
    atomic_llong first; /* time of the first noted signal [ns, NONE: no signal was noted] */
    bool is_held;       /* on_held_signal is its handler */
    struct sigaction before;
} kinds[] = { { .which = SIGINT }, { .which = SIGTERM }, { .which = SIGHUP } };
enum { KINDS = sizeof kinds / sizeof *kinds, NONE = 0 };

_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2,
               "signal handlers must not take locks");

/* clock_gettime is legal in signal handlers. Not NONE. */
static int64_t signals_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec + 1;
}

/* Takes effect after the calling handler returns. */
static void end_by(int which)
{
    const struct sigaction standard = { .sa_handler = SIG_DFL };
    sigaction(which, &standard, NULL);
    raise(which);
}

/* Handlers may run on several threads at once. */
static void on_signal(int which)
{
    const int error = errno;
    const int64_t at = signals_now();
    long long first = NONE;
    int i = 0;
    while (kinds[i].which != which)
        i++;
    if (atomic_compare_exchange_strong(&kinds[i].first, &first, at) || signals_are_one(first, at)) {
        number = which;
    } else {
        put_off = which;
        if (held == 0)
            end_by(which);
    }
    errno = error;
}

static bool is_ignored[KINDS];

/* As `nohup` and background jobs of a shell need it. Compilers inside of drivers install handlers
   whatever was set before (LLVM does), so an ignored signal is blocked too, in all threads and
   child processes.

   Writing beyond `ulimit -f` fails like any other write, and the file is removed. The parent process
   may have set SIGCHLD to be ignored; the exit codes of child processes would then be lost. */
void signals_begin(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < KINDS; i++) {
        struct sigaction before;
        is_ignored[i] =
            sigaction(kinds[i].which, NULL, &before) == 0 && before.sa_handler == SIG_IGN;
        if (is_ignored[i])
            sigaddset(&set, kinds[i].which);
    }
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
}

/* Interrupted calls are restarted, so that output is complete. */
void signals_catch(void)
{
    const struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    for (int i = 0; i < KINDS; i++)
        if (kinds[i].which != SIGHUP && !is_ignored[i])
            sigaction(kinds[i].which, &action, NULL);
}

int signals_caught(void)
{
    return number;
}

/* ---- while a file is written ---- */

static void on_held_signal(int which)
{
    put_off = which;
    if (held == 0) /* another thread has just released */
        end_by(which);
}

/* An ignored signal stays ignored. A handler of a driver would also end the process. */
void signals_hold(void)
{
    const struct sigaction action = { .sa_handler = on_held_signal, .sa_flags = SA_RESTART };
    if (held++ > 0)
        return;
    for (int i = 0; i < KINDS; i++) {
        struct kind *k = &kinds[i];
        k->is_held = sigaction(k->which, NULL, &k->before) == 0 &&
                     k->before.sa_handler != SIG_IGN && k->before.sa_handler != on_signal;
        if (k->is_held)
            sigaction(k->which, &action, NULL);
    }
}

void signals_release(void)
{
    if (held == 0 || --held > 0)
        return;
    for (int i = 0; i < KINDS; i++)
        if (kinds[i].is_held)
            sigaction(kinds[i].which, &kinds[i].before, NULL);
    const int which = atomic_exchange(&put_off, 0);
    if (which)
        raise(which);
}
