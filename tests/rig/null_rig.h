/* SPDX-License-Identifier: MIT */
/* Calls with NULL, as rows: ROW(function, arguments). Arguments are legal; NEED(x) marks a pointer
   that the function requires. Each row is called with NULL for all of them, then for each one
   alone. Rows run in a child process: if a row crashes, it is reported and another child continues
   with the next. */
#ifndef COPSE_NULL_RIG_H
#define COPSE_NULL_RIG_H

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/graph/op.h"
#include "tests/rig/rig.h"

#define ALL (-1)

struct probe {
    int row, null_at;          /* the current call: NULL for this argument, or for ALL */
    int first_row, first_null; /* first call of this child */
    int taken;                 /* NEEDs of the call so far */
    int count;                 /* NEEDs of the row */
    bool is_begun;
    const char *function, *argument; /* the argument that is NULL, "all" */
    FILE *out;                       /* to the parent */
};

/* Arguments are evaluated in any order. */
static inline bool take_null(struct probe *p, const char *argument)
{
    const int at = p->taken++;
    if (at == p->null_at) {
        p->argument = argument;
        fprintf(p->out, "null %s\n", argument);
        fflush(p->out);
    }
    return p->null_at == ALL || at == p->null_at;
}

/* Returns whether there is another call of this row. */
static inline bool next_call(struct probe *p, const char *function, const char *arguments)
{
    if (!p->is_begun) {
        p->is_begun = true;
        p->row++;
        p->function = function;
        p->count = 0;
        for (const char *at = arguments; (at = strstr(at, "NEED(")); at++)
            p->count++;
        p->null_at = p->row == p->first_row ? p->first_null : ALL;
    } else {
        p->null_at++;
    }
    p->taken = 0;
    /* with one NEED, this equals "all" */
    if (p->row < p->first_row || p->null_at >= (p->count > 1 ? p->count : 0)) {
        p->is_begun = false;
        return false;
    }
    p->argument = "all";
    fprintf(p->out, "at %d %d %s\n", p->row, p->null_at, function);
    fflush(p->out);
    return true;
}

static inline void complain(const struct probe *p, const char *what, const char *more)
{
    fprintf(p->out, "bad %s: NULL for %s: %s%s\n", p->function, p->argument, what, more);
    fflush(p->out);
}

#define NEED(...) (take_null(p, #__VA_ARGS__) ? NULL : (__VA_ARGS__))

/* Runs `rows` in children; prints each wrong call and returns their number. `calls` receives the
   number of calls. */
static inline int run_rows(void (*rows)(struct probe *p), int *calls)
{
    int first_row = 1, first_null = ALL, wrong = 0, status = 1;
    *calls = 0;
    while (status) {
        char line[1400], at[200] = "the fixture", argument[200] = "";
        int name = 0;
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        fflush(NULL);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL); /* cmocka's handlers would continue the parent's work */
            signal(SIGABRT, SIG_DFL);
            struct probe p = { .first_row = first_row,
                               .first_null = first_null,
                               .out = fdopen(ends[1], "w") };
            close(ends[0]);
            rows(&p);
            fclose(p.out);
            _exit(0);
        }
        close(ends[1]);
        FILE *in = fdopen(ends[0], "r");
        while (fgets(line, sizeof line, in)) {
            line[strcspn(line, "\n")] = '\0';
            if (strncmp(line, "bad ", 4) == 0) {
                wrong++;
                fprintf(stderr, "%s\n", line + 4);
            } else if (sscanf(line, "at %d %d %n", &first_row, &first_null, &name) == 2) {
                ++*calls;
                snprintf(at, sizeof at, "%.190s", line + name);
                snprintf(argument, sizeof argument, "all");
            } else if (strncmp(line, "null ", 5) == 0) {
                snprintf(argument, sizeof argument, "%.190s", line + 5);
            }
        }
        fclose(in);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status) {
            wrong++;
            fprintf(stderr, "%s: NULL for %s: the process ended with %s %d\n", at, argument,
                    WIFSIGNALED(status) ? "signal" : "code",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
            assert_true(strcmp(at, "the fixture") != 0);
        }
        first_null++;
    }
    return wrong;
}

/* ---- rows of functions with a status ---- */

static inline void check_refused(const struct probe *p, copse_status s)
{
    if (s != COPSE_ERR_ARGUMENT)
        complain(p, copse_status_name(s), s ? copse_last_error() : "");
    else if (!strstr(copse_last_error(), "NULL"))
        complain(p, "the text does not say NULL: ", copse_last_error());
}

#define ROW(fn, ...)                        \
    while (next_call(p, #fn, #__VA_ARGS__)) \
    check_refused(p, fn(__VA_ARGS__))

/* ---- rows of functions that add to the graph `g`: it keeps the failure, if it is not NULL ---- */

static inline void check_graph_refused(const struct probe *p, copse_graph *g)
{
    const copse_status s = copse__graph_take_failure(g);
    /* the graph was NULL */
    check_refused(p, s || !*copse_last_error() ? s : COPSE_ERR_ARGUMENT);
}

static inline void check_node_refused(const struct probe *p, copse_graph *g, const copse_tensor *t)
{
    if (!copse__is_failed(t))
        complain(p, "the result is no failed tensor", "");
    check_graph_refused(p, g);
}

#define NODE_ROW(fn, ...)                                          \
    while (copse__fail_again(""), next_call(p, #fn, #__VA_ARGS__)) \
    check_node_refused(p, g, fn(__VA_ARGS__))
#define VOID_ROW(fn, ...)                     \
    while (next_call(p, #fn, #__VA_ARGS__)) { \
        copse__fail_again("");                \
        fn(__VA_ARGS__);                      \
        check_graph_refused(p, g);            \
    }

#endif
