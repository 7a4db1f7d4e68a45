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

static const struct command_option *find_option(const struct command *c, const char *name)
{
    for (size_t i = 0; i < c->option_count; i++)
        if (strcmp(name, c->options[i].name) == 0)
            return &c->options[i];
    return NULL;
}

/* `value` may be NULL. NULL: a line on stderr. */
static const struct command_option *set_option(const struct command *c, const char *name,
                                               const char *value)
{
    const struct command_option *k = value ? find_option(c, name) : NULL;
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

/* Values of options do not ask. */
static bool asks_help(const struct command *c, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
        i += find_option(c, argv[i]) != NULL;
    }
    return false;
}

/* The mode that a word chooses; 0: none. */
static size_t find_mode(const struct command *c, const char *word)
{
    size_t i = c->mode_count - 1;
    while (i > 0 && strcmp(word, c->modes[i].name) != 0)
        i--;
    return i;
}

static bool set_mode(const struct command *c, size_t mode, struct command_line *line)
{
    if (line->mode > 0) {
        fprintf(stderr, "%s: %s after %s: give one of them, once\n", program_name,
                c->modes[mode].name, c->modes[line->mode].name);
        return false;
    }
    line->mode = mode;
    return true;
}

int command_read(const struct command *c, int argc, char **argv, struct command_line *out)
{
    /* of each mode an option that it does not take */
    const char *foreign[sizeof(unsigned) * 8] = { NULL };
    *out = (struct command_line){ .files = argv };
    if (asks_help(c, argc, argv))
        return fputs(c->usage, stdout) < 0;
    for (int i = 1; i < argc; i++) {
        const size_t mode = find_mode(c, argv[i]);
        if (mode > 0) {
            if (!set_mode(c, mode, out))
                return 2;
        } else if (strncmp(argv[i], "--", 2) == 0) {
            const struct command_option *k =
                set_option(c, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
            if (!k)
                return 2;
            for (size_t m = 0; m < c->mode_count; m++)
                if (!(k->modes >> m & 1))
                    foreign[m] = k->name;
            i++;
        } else {
            argv[out->count++] = argv[i]; /* to the front: count is at most i - 1 */
        }
    }
    const struct command_mode *mode = &c->modes[out->mode];
    if (out->count < mode->least || out->count > mode->most) {
        fputs(c->usage, stderr);
        return 2;
    }
    if (foreign[out->mode]) {
        fprintf(stderr, "%s: %s does not take %s\n", program_name, mode->name, foreign[out->mode]);
        return 2;
    }
    return COMMAND_GOES_ON;
}
