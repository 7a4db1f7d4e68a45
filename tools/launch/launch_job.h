/* SPDX-License-Identifier: MIT */
/* `copse launch`: the tasks of a job, and their processes. */
#ifndef LAUNCH_H
#define LAUNCH_H

#include "tools/tool.h"

struct launch_task {
    const char *role; /* "worker", "ps", "evaluator" */
    uint32_t index;
    const char *host; /* NULL: this machine, without ssh */
    char address[288];
    char prefix[24]; /* of its lines; "" = none */
};

struct launch {
    uint32_t workers, servers, restarts, port;
    bool has_evaluator, no_prefix;
    const char *hosts, *ssh;
    char **words; /* the command, and after it NULL */
    int word_count;
    const char *trace; /* --trace of the command; NULL: none */
    bool is_copse;     /* the command is one of this program: words[0] is its name */
    char program[4096];
    struct launch_task *tasks;
    uint32_t task_count;
};

/* ---- who runs where (launch_plan.c) ---- */

/* Make the list of tasks, with free ports on this machine, or with the ports of the hosts. -1, or the
   exit code after an error line. */
int launch_plan(struct launch *l);
/* The description of the job for task `i` (copse_cluster_spec_parse); to be freed. NULL: no
   memory. */
char *launch_config(const struct launch *l, uint32_t i);

/* ---- traces (launch_trace.c) ---- */

/* The earliest time, in microseconds since 1970, that a trace of a job which begins now can have. */
uint64_t launch_trace_now(const struct launch *l);
/* Join the traces that the workers of a job have written since a time. */
void launch_trace_join(const struct launch *l, uint64_t since);

/* ---- processes (launch_run_posix.c, launch_run_windows.c) ---- */

/* Find `count` free ports of this machine. False: there are fewer. */
bool launch_ports(uint32_t count, uint16_t *ports);
/* How a task ended. */
struct launch_end {
    int code;      /* of its exit */
    int signal;    /* that killed it, or 0 */
    bool is_ended; /* by the launcher, because another task ended with EXIT_BAD_INPUT */
};
/* Start all tasks, print their lines, and wait until all have ended. A signal to this process goes
   to the tasks. A task that ends with EXIT_BAD_INPUT ends the others. `more`: words after the
   words of the command, or NULL. `attempt`: 0, and one more after each restart. Returns the signal that ended
   the job or 0; -1 after an error line: the tasks were not started. */
int launch_run(const struct launch *l, const char *more, uint32_t attempt, struct launch_end *ends);

#endif
