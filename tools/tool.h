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
int cmd_worker(int argc, char **argv);
int cmd_evaluate(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_conformance(int argc, char **argv);
int cmd_tune(int argc, char **argv);

/* ---- options (options.c) ---- */

enum option_kind {
    OPTION_FLAG,
    OPTION_TEXT,
    OPTION_COUNT,
    OPTION_SECONDS, /* into a uint32_t, from 1 */
    OPTION_U64,
    OPTION_FLOAT,
    OPTION_CHOICE,
    OPTION_WORDS, /* what stands without "--"; the row's name is "" */
    OPTION_NOTE,  /* no option: `help` is a text for the end of the list; the row's name is "" */
};

#define OPTION_MAX_WORDS 16
struct option_words {
    const char *at[OPTION_MAX_WORDS];
    size_t count;
};

/* What an OPTION_CHOICE may be: the rows up to one whose name is NULL; `at` is the one chosen. */
struct option_name {
    const char *name;
    int value;
};
struct option_choice {
    const struct option_name *names, *at;
};

struct option_row {
    const char *name;      /* "epochs": stands for --epochs */
    enum option_kind kind;
    void *to;              /* bool, const char *, uint32_t, uint64_t, float, option_choice or
                              option_words */
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

/* ---- signals (signals.c) ---- */

/* Note SIGINT and SIGTERM from now on. The next signal of the kind that comes more than a second after the first ends
   the process at once. `timeout` and supervisors send a signal twice, to the child and to its group: within a second
   both are one request. */
void signals_catch(void);
/* The noted signal that came last, 0: none. */
int signals_caught(void);
enum { SIGNALS_ONE_NS = 1000000000 };
/* Whether two signals of a kind are one request. `first`, `next`: when they came [ns of one clock, first <= next]. */
bool signals_are_one(int64_t first, int64_t next);
/* Where SIGINT, SIGTERM or SIGHUP would end the process at once, it does so only behind signals_release: no half of
   a file stays. In pairs, which may be nested. */
void signals_hold(void);
void signals_release(void);

/* ---- files that are written (output.c) ---- */

/* Written beside its place under a temporary name. Failure texts name the path. */
struct output {
    FILE *stream;
    char *path, *temp; /* owned; `path` is behind symbolic links */
    bool is_made;      /* the temporary file is there */
};
/* COPSE_ERR_IO when the place is not a regular file or none can be made there. */
copse_status output_open(struct output *o, const char *path);
/* Make it durable and rename it to its place. Closes and frees all, on failure too. */
copse_status output_commit(struct output *o);
/* Commit, or abort and hand on a status that is not COPSE_OK. */
copse_status output_end(struct output *o, copse_status status);
/* Remove the temporary file; fine on a zeroed struct and after commit. */
void output_abort(struct output *o);
/* Whether `output_open` would do, before long work; leaves nothing. */
copse_status output_check(const char *path);
/* Whether two paths, of files that need not be there, lead to the same place. */
bool output_is_same(const char *path, const char *other);

/* ---- kernel cache (cache.c) ---- */

/* Fill in callbacks that keep entries as files in the user's cache folder; false when there is
   none. The strings it needs live as long as the process. */
bool cache_open(struct copse_cache_params *out);

#endif
