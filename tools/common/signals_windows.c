/* SPDX-License-Identifier: MIT */
/* Events of the console that ask a command to stop: Ctrl-C as SIGINT, Ctrl-Break as SIGTERM, and
   the window that is closed, or the end of the session, as SIGHUP. The system calls the handler on
   a thread of its own. */
#include <signal.h>
#include <stdatomic.h>
#include <windows.h>

#include "tools/tool.h"

static atomic_int number;
static atomic_int held; /* number of open nested pairs of hold and release */
/* An event that arrived during a file write and ends the process after it. */
static atomic_bool is_put_off;
static atomic_bool is_caught;
static atomic_llong first_of[2]; /* times of the first noted events: Ctrl-C, Ctrl-Break; 0: none */

/* As the system ends a process after Ctrl-C, but without the exit functions of drivers, whose
   threads are still at work. */
static void end_process(void)
{
    TerminateProcess(GetCurrentProcess(), 0xC000013Au); /* STATUS_CONTROL_C_EXIT */
}

static void end_unheld(void)
{
    is_put_off = true;
    while (held > 0)
        Sleep(1);
    end_process();
}

static BOOL WINAPI on_event(DWORD event)
{
    const bool is_noted = is_caught && (event == CTRL_C_EVENT || event == CTRL_BREAK_EVENT);
    const long long at = (long long)(system_now() * 1e9) + 1;
    long long first = 0;
    if (is_noted &&
        (atomic_compare_exchange_strong(&first_of[event == CTRL_BREAK_EVENT], &first, at) ||
         signals_are_one(first, at)))
        number = event == CTRL_C_EVENT ? SIGINT : SIGTERM;
    else
        end_unheld();
    return TRUE;
}

/* The newest handler is the first to be called: before the handlers of drivers. */
static void take_events(void)
{
    SetConsoleCtrlHandler(on_event, FALSE);
    SetConsoleCtrlHandler(on_event, TRUE);
}

/* A process whose parent ignores Ctrl-C gets none. */
void signals_begin(void)
{
    take_events();
}

void signals_catch(void)
{
    is_caught = true;
    take_events();
}

int signals_caught(void)
{
    return number;
}

void signals_hold(void)
{
    if (held++ == 0)
        take_events();
}

void signals_release(void)
{
    if (held > 0 && --held == 0 && is_put_off)
        end_process();
}
