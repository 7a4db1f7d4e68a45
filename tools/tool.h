/* SPDX-License-Identifier: MIT */
/* What the subcommands share: options, the context, error lines, exit codes. Public headers only. */
#ifndef TOOL_H
#define TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "copse/copse.h"

/* Exit codes of every subcommand. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_BAD_INPUT = 2 };

int cmd_devices(int argc, char **argv);
int cmd_train(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_conformance(int argc, char **argv);

/* ---- options (options.c) ---- */

enum option_kind {
    OPTION_FLAG,
    OPTION_TEXT,
    OPTION_COUNT,
    OPTION_U64,
    OPTION_FLOAT,
    OPTION_WORDS, /* what stands without "--"; the row's name is "" */
};

#define OPTION_MAX_WORDS 16
struct option_words {
    const char *at[OPTION_MAX_WORDS];
    size_t count;
};

struct option_row {
    const char *name;      /* "epochs": stands for --epochs */
    enum option_kind kind;
    void *to;              /* bool, const char *, uint32_t, uint64_t, float or struct option_words */
    const char *arg;       /* "N" */
    const char *help;
};

/* Parse argv[1..] into the rows' targets. Returns -1 to go on, else the exit code: after --help,
   or after one line about what is wrong. Ends with a row whose name is NULL. */
int options_parse(int argc, char **argv, const struct option_row *rows, const char *summary);

/* ---- context and errors (session.c) ---- */

/* A context with the kernel cache under the user's cache folder and warnings on stderr. */
copse_status session_open(bool is_verbose, bool no_cache, copse_context **out);
/* Keep a text for session_fail, for failures that the library did not see; returns `status`. */
copse_status session_set_error(copse_status status, const char *fmt, ...);
/* The text of the last error without places in the source. Lifetime: until the next call. */
const char *session_error(void);
/* A text of the library without places in the source, in `out`. */
const char *session_plain(char *out, size_t room, const char *text);
/* Print "copse: <what went wrong>" from copse_last_error and give the exit code for the status. */
int session_fail(copse_status status);

/* Whether standard output is a terminal, and its width. */
bool terminal_is(unsigned *columns);

/* ---- files that are whole or not there (output.c) ---- */

struct output {
    FILE *stream;
    char temp[4096];
};
/* Write beside `path`; nothing stands there until commit. `option` names the option in errors. */
copse_status output_open(struct output *o, const char *option, const char *path);
/* Close and put in its place, unless writing ended with a status other than COPSE_OK: then, and on
   failure, only the temporary file is removed. */
copse_status output_end(struct output *o, const char *path, copse_status status);
/* Whether a file can be written there; leaves nothing behind. NULL is fine. */
copse_status output_check(const char *option, const char *path);

/* ---- kernel cache (cache.c) ---- */

/* Fill in callbacks that keep entries as files in the user's cache folder; false when there is
   none. The strings it needs live as long as the process. */
bool cache_open(struct copse_cache_params *out);

#endif
