/* SPDX-License-Identifier: MIT */
#include "app_command.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app_files.h"

bool command_is_good(copse_status s)
{
    if (s)
        fprintf(stderr, "%s: %s\n", program_name, copse_last_error());
    return s == COPSE_OK;
}

/* ---- signals ---- */

static volatile sig_atomic_t signalled; /* 0: no signal */

static void note_signal(int which)
{
    signalled = which;
    signal(which, SIG_DFL);
}

void command_catch_signals(void)
{
    static const int kinds[] = { SIGINT, SIGTERM };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (signal(kinds[i], note_signal) == SIG_IGN)
            signal(kinds[i], SIG_IGN);
}

int command_signal(void)
{
    return (int)signalled;
}

/* ---- options ---- */

static bool set_number(const struct command_option *k, const char *value)
{
    char *end;
    const double x = *k->to = strtod(value, &end);
    if (end != value && !*end && x >= k->low && x <= k->high && (!k->is_whole || x == floor(x)))
        return true;
    fprintf(stderr, "%s: %s %s: a %snumber from %g to %g is needed\n", program_name, k->name, value,
            k->is_whole ? "whole " : "", k->low, k->high);
    return false;
}

static const struct command_option *find_option(const struct command_option *known, size_t count,
                                                const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, known[i].name) == 0)
            return &known[i];
    return NULL;
}

const struct command_option *command_set(const struct command_option *known, size_t count,
                                         const char *name, const char *value)
{
    const struct command_option *k = value ? find_option(known, count, name) : NULL;
    if (!k) {
        fprintf(stderr, "%s: %s is unknown or has no value; --help lists the options\n",
                program_name, name);
        return NULL;
    }
    if (!k->text)
        return set_number(k, value) ? k : NULL;
    *k->text = value;
    return k;
}

bool command_asks_help(int argc, char **argv, const struct command_option *known, size_t count)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
        i += find_option(known, count, argv[i]) != NULL;
    }
    return false;
}
