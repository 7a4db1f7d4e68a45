/* SPDX-License-Identifier: MIT */
/* The command line of an application, its errors and its signals. */
#ifndef APPS_COMMAND_H
#define APPS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "copse/status.h"

/* Whether a call succeeded; if not, print "program: its error" on stderr. */
bool command_is_good(copse_status s);

/* Let SIGINT and SIGTERM be noted; a second signal ends the process. Signals that are ignored, as
   under nohup, stay so. */
void command_catch_signals(void);
/* The signal that was noted; 0: none. */
int command_signal(void);

/* An option with a value. */
struct command_option {
    const char *name;
    unsigned modes;    /* bits of the uses that take it; the application's */
    const char **text; /* or a number: */
    double *to, low, high;
    bool is_whole;
};

/* Set the option `name` of `known`; `value` may be NULL. NULL: a line on stderr. */
const struct command_option *command_set(const struct command_option *known, size_t count,
                                         const char *name, const char *value);

/* Whether the arguments ask for --help or -h; values of options do not. */
bool command_asks_help(int argc, char **argv, const struct command_option *known, size_t count);

#endif
