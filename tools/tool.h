/* SPDX-License-Identifier: MIT */
/* Code shared by the subcommands: options, the context, error lines, exit codes. Uses public
   headers only. */
#ifndef TOOL_H
#define TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "copse/copse.h"
#include "copse/device/open.h"

#include "tools/common/system.h"

/* Exit codes of every subcommand. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_BAD_INPUT = 2, EXIT_INCOMPLETE = 3 };

int cmd_devices(int argc, char **argv);
int cmd_train(int argc, char **argv);
int cmd_worker(int argc, char **argv);
int cmd_launch(int argc, char **argv);
int cmd_find_lr(int argc, char **argv);
int cmd_evaluate(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_conformance(int argc, char **argv);
int cmd_tune(int argc, char **argv);
int cmd_gpucheck(int argc, char **argv);
int cmd_predict(int argc, char **argv);
int cmd_generate(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_compare_runs(int argc, char **argv);

/* ---- options (options.c) ---- */

enum option_kind {
    OPTION_FLAG,
    OPTION_TEXT,
    OPTION_TEXTS, /* into a struct option_texts: the option may be given several times */
    OPTION_COUNT,
    OPTION_SECONDS, /* into a uint32_t, from 1 */
    OPTION_U64,
    OPTION_BYTES, /* into a uint64_t: 1000000, 512MiB, 1.5GB */
    OPTION_FLOAT,
    OPTION_CHOICE,
    OPTION_WORDS, /* words without "--"; the row's name is "" */
    /* No options; the row's name is "", but of a hint. `arg` is NULL, or a topic: the row is shown only by `copse
       help TOPIC`. */
    /* `help` is the heading of the rows that follow; its topic applies to them too */
    OPTION_GROUP,
    OPTION_NOTE,    /* `help` is a text at the end of the list */
    OPTION_EXAMPLE, /* `help` is a command line */
    /* `name` is an option of other programs, `help` what is meant here: "did you mean ...?" */
    OPTION_HINT,
};

/* Valid until the next options_parse. */
#define OPTION_TEXTS_MOST 16
struct option_texts {
    const char *at[OPTION_TEXTS_MOST];
    size_t count;
};
struct option_words {
    const char **at;
    size_t count;
};

/* The values of an OPTION_CHOICE: rows up to one whose name is NULL; `at` is the chosen one. */
struct option_name {
    const char *name;
    int value;
};
struct option_choice {
    const struct option_name *names, *at;
    const char *numbered; /* the name that may have a number, "name:N"; NULL: none */
    uint32_t number;      /* N, or 0 */
};
/* Take a value; false if it is not one of the names. */
bool option_choose(struct option_choice *choice, const char *value);

struct option_row {
    const char *name; /* "epochs": the option --epochs */
    enum option_kind kind;
    void *to; /* bool, const char *, uint32_t, uint64_t, float, option_choice, option_texts or
                              option_words */
    const char *arg;  /* "N" */
    const char *help; /* NULL: the option is parsed, and offered nowhere */
};

/* Parse argv[1..] into the rows' targets. Returns -1 to continue, otherwise the exit code: after
   --help, or after printing an error in one line. The last row has name NULL. Help, man pages and
   shell completion are made from the rows (help.h). */
int options_parse(int argc, char **argv, const struct option_row *rows, const char *summary);

/* ---- context and errors (session.c) ---- */

/* Settings of a context. */
struct session_how {
    bool is_verbose, no_cache;
    bool allows_host;        /* --allow-host */
    bool trusts_unreliable;  /* --trust-device */
    copse_priority priority; /* --priority */
};
/* A context with the kernel cache in the user's cache folder and warnings on stderr. */
copse_status session_open(const struct session_how *how, copse_context **out);
/* A context that reads and writes files: it loads no driver. */
copse_status session_open_files(copse_context **out);
/* Print a line of the library's log on stderr; a copse_log_fn. */
void session_log(void *user, copse_log_level level, const char *line);
/* Store a text for session_fail, for failures outside the library; returns `status`. */
copse_status session_set_error(copse_status status, const char *fmt, ...);
/* --debug: error lines contain the place in the source code. */
void session_debug(void);
/* Messages write `shown` in place of this path. Both live until the next call; NULL: no path. */
void session_rename(const char *path, const char *shown);
/* The text of the last error on one line, with --debug and its place in the source. Lifetime: until
   the next call. */
const char *session_error(void);
/* A text of the library on one line, without control characters, in `out`. */
const char *session_plain(char *out, size_t room, const char *text);
/* The same in memory of its own, for text of files that a printf prints. Lifetime: until SHOWN
   further calls. */
enum { SHOWN = 16 };
const char *session_shown(const char *text);
/* Print "copse: <error>" from copse_last_error and return the exit code for the status. */
int session_fail(copse_status status);

/* ---- installed files (places.c) ---- */

/* Which of the three can be read: beside the command (a path relative to its folder), in the source
   tree it was built from, in the install prefix; the last one if none can. `room`: memory of `size`
   bytes for the first. */
const char *installed_place(char *room, size_t size, const char *beside, const char *source,
                            const char *installed);

/* ---- drivers that compile kernels (compiling.c) ---- */

enum compiling_output {
    COMPILING_SILENT,
    COMPILING_TEXT, /* a line that is redrawn on a terminal; elsewhere one line for each device */
    COMPILING_JSON, /* an event "compiling" */
};
/* Silent until this is called. */
void compiling_show(enum compiling_output how);
/* What this process compiled because no cache had it. */
struct compiling_totals {
    uint64_t kernels;
    double seconds;
};
struct compiling_totals compiling_so_far(void);
/* The copse_progress_fn of the context. */
void compiling_progress(void *user, const struct copse_progress *p);

/* ---- processes that compile kernels (compiling_posix.c, compiling_windows.c) ---- */

#define COMPILING_PROCESS "compile-kernels" /* argv[1] of such a process */
#define COMPILING_VERBOSE "verbose"
struct copse_compile_work;
/* Whether the machine has several processors, and this system such processes. */
bool compiling_gains(void);
/* The copse_compile_fn of the context: one process for each processor. `user` is COMPILING_VERBOSE,
   or NULL. */
void compiling_apart(void *user, const struct copse_compile_work *work);
/* argv[1] is a device, argv[2] the id of the process that waits, argv[3] COMPILING_VERBOSE if there is
   one. Compiles the kernels whose texts it reads, with the log on stderr; returns an exit code. */
int compiling_process(int argc, char **argv);

/* Whether standard output is a terminal, and its width. */
bool terminal_is(unsigned *columns);

/* ---- signals (signals_posix.c, signals_windows.c) ---- */

/* SIGINT, SIGTERM and SIGHUP that are ignored now stay ignored. Called before a driver is loaded. On
   Windows these are Ctrl-C, Ctrl-Break and the window that is closed. */
void signals_begin(void);
/* Note SIGINT and SIGTERM from now on, unless they are ignored. A later signal of the same kind,
   more than a second after the first, ends the process at once. `timeout` and supervisors send a
   signal twice, to the child and to its group: within a second both count as one request. */
void signals_catch(void);
/* The last noted signal, 0: none. */
int signals_caught(void);
enum { SIGNALS_ONE_NS = 1000000000 };
/* Whether two signals of a kind are one request. `first`, `next`: their times [ns of one clock,
   first <= next]. */
static inline bool signals_are_one(int64_t first, int64_t next)
{
    return next - first <= SIGNALS_ONE_NS;
}
/* SIGINT, SIGTERM or SIGHUP that would end the process at once take effect only after
   signals_release, so that no partial file remains. In pairs, which may be nested. */
void signals_hold(void);
void signals_release(void);

/* ---- files that are written (output.c) ---- */

/* A file written under a temporary name in the same folder. Error texts name the path. */
struct output {
    FILE *stream;
    char *path, *temp; /* owned; `path` has symbolic links resolved */
    bool is_made;      /* the temporary file exists */
};
/* COPSE_ERR_IO if the path is not a regular file or no file can be created there. */
copse_status output_open(struct output *o, const char *path);
/* Sync it and rename it to its final name. Closes and frees all, also on failure. */
copse_status output_commit(struct output *o);
/* Commit; if `status` is not COPSE_OK, abort and return it. */
copse_status output_end(struct output *o, copse_status status);
/* Remove the temporary file. Allowed on a zeroed struct and after commit. */
void output_abort(struct output *o);
/* Text of HTML or SVG, also in quotation marks; control characters become spaces. */
void output_escape(FILE *f, const char *text);
/* Whether `output_open` would succeed, to check before long work. Leaves no file. */
copse_status output_check(const char *path);
/* Whether two paths refer to the same file; the files need not exist. */
bool output_is_same(const char *path, const char *other);
/* Whether a file that is written to `path` replaces what is read from `input`, a file or a folder:
   NULL, or what `path` is, such as "is in the folder of". */
const char *output_overwrites(const char *path, const char *input);

#endif
