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
    unsigned modes;    /* bit i: mode i takes it */
    const char **text; /* or a number: */
    double *to, low, high;
    bool is_whole;
};

/* One use of an application. */
struct command_mode {
    const char *name;   /* "--listen"; of mode 0, which no word chooses, how messages name it */
    size_t least, most; /* files */
};

struct command {
    const char *usage;
    const struct command_mode *modes;
    size_t mode_count;
    const struct command_option *options;
    size_t option_count;
};

struct command_line {
    size_t mode;
    char **files; /* of argv, whose order changes */
    size_t count;
};

enum { COMMAND_GOES_ON = -1 };

/* Read the arguments and set the options. COMMAND_GOES_ON, or the exit code of the application
   where the usage was asked for, or where a line or the usage on stderr says what is wrong. */
int command_read(const struct command *c, int argc, char **argv, struct command_line *out);

#endif
