/* SPDX-License-Identifier: MIT */
/* copse launch: start the tasks of a job on this machine or on several, and restart it after a
   loss. */
#include "tools/launch/launch_job.h"

#include <stdlib.h>
#include <string.h>

#include "copse/distribute/cluster.h"

#include "tools/common/help.h"

/* ---- the command line ---- */

/* "-n4" as "--workers=4". Static. */
static char *joined_count(const char *count)
{
    static char text[64];
    snprintf(text, sizeof text, "--workers=%s", count);
    return text;
}

/* The words after "--" are the command's. */
static int launch_words(int argc, char **argv, struct launch *l)
{
    int at = 1;
    while (at < argc && strcmp(argv[at], "--") != 0) {
        if (strcmp(argv[at], "-n") == 0)
            argv[at] = (char *)(uintptr_t) "--workers";
        else if (strncmp(argv[at], "-n", 2) == 0 && argv[at][2] >= '0' && argv[at][2] <= '9')
            argv[at] = joined_count(argv[at] + 2);
        at++;
    }
    l->words = at < argc ? argv + at + 1 : NULL;
    l->word_count = at < argc ? argc - at - 1 : 0;
    return at;
}

/* mpirun takes the command without "--". */
static bool lacks_dashes(int argc, char **argv)
{
    bool lacks = false;
    for (int i = 1; i < argc; i++)
        for (const struct command *c = commands; c->name; c++)
            lacks |= strcmp(argv[i], c->name) == 0;
    return lacks;
}

static bool has_word(const struct launch *l, const char *word)
{
    const size_t length = strlen(word);
    bool has = false;
    for (int i = 1; i < l->word_count && !has; i++)
        has = strncmp(l->words[i], word, length) == 0 &&
              (l->words[i][length] == '\0' || l->words[i][length] == '=');
    return has;
}

/* The value of an option of the command, or NULL. */
static const char *value_of(const struct launch *l, const char *option)
{
    const size_t length = strlen(option);
    const char *value = NULL;
    for (int i = 1; i < l->word_count; i++)
        if (strncmp(l->words[i], option, length) == 0 && l->words[i][length] == '=')
            value = l->words[i] + length + 1;
        else if (strcmp(l->words[i], option) == 0 && i + 1 < l->word_count)
            value = l->words[i + 1];
    return value;
}

static int launch_complain(const char *text)
{
    fprintf(stderr, "copse launch: %s\n", text);
    return EXIT_BAD_INPUT;
}

/* "trian": no program of this machine, and like a command of copse. */
static const char *meant_command(const struct launch *l)
{
    static const char *const names[] = { "train", "worker" };
    const char *name = l->words[0];
    return l->hosts || strpbrk(name, "/\\") || system_has_program(name)
               ? NULL
               : similar_word(name, names, sizeof names / sizeof *names);
}

static int launch_check(struct launch *l)
{
    if (l->word_count == 0)
        return launch_complain("there is no command: copse launch -n 4 -- train --data FILE ...");
    const char *name = l->words[0];
    l->is_copse = strcmp(name, "train") == 0 || strcmp(name, "worker") == 0;
    for (const struct command *c = commands; c->name && !l->is_copse; c++)
        if (strcmp(name, c->name) == 0)
            return launch_complain("of the commands of copse, train alone has several workers");
    const char *meant = l->is_copse ? NULL : meant_command(l);
    if (meant) {
        fprintf(stderr, "copse launch: there is no program '%s'; did you mean '%s'?\n", name,
                meant);
        return EXIT_BAD_INPUT;
    }
    if (l->workers == 0)
        return launch_complain("-n N: the number of workers, at least 1, is missing");
    if (l->workers > COPSE_MAX_WORKERS || l->servers > COPSE_MAX_WORKERS - l->workers)
        return launch_complain("a job has at most 64 workers and servers");
    if (!l->hosts && (l->port || l->ssh))
        return launch_complain("--port and --ssh belong to --hosts; on this machine free ports are "
                               "used");
    if (l->port > 65535 - COPSE_MAX_WORKERS)
        return launch_complain("--port must be 1 to 65471: the tasks of a host use the next ones");
    l->port = l->port ? l->port : 7000;
    l->ssh = l->ssh ? l->ssh : "ssh";
    if (l->is_copse && l->restarts > 0 && !has_word(l, "--checkpoint"))
        return launch_complain(
            "--restarts needs --checkpoint in the command, from which the job goes on");
    const char *strategy = l->is_copse ? value_of(l, "--strategy") : NULL;
    if (strategy && strcmp(strategy, "collective") != 0 &&
        strcmp(strategy, "parameter_server") != 0)
        return launch_complain("with this --strategy each worker would train alone: leave it out, "
                               "or give collective or parameter_server");
    if (l->is_copse && l->has_evaluator && !has_word(l, "--checkpoint"))
        return launch_complain("--evaluator needs --checkpoint in the command: it evaluates them");
    if (l->is_copse && has_word(l, "--cluster"))
        return launch_complain("the command has --cluster, which describes another job; leave it "
                               "out");
    l->trace = l->is_copse ? value_of(l, "--trace") : NULL;
    system_program(l->program, sizeof l->program);
    if (l->is_copse && !l->program[0])
        return launch_complain("cannot find its own program file");
    return -1;
}

/* ---- how the job ended ---- */

static void print_ends(const struct launch *l, const struct launch_end *ends)
{
    for (uint32_t i = 0; i < l->task_count; i++) {
        const struct launch_task *t = &l->tasks[i];
        if (ends[i].is_ended)
            fprintf(stderr,
                    "copse launch: %s %u was ended, because another task was used wrongly\n",
                    t->role, t->index);
        else if (ends[i].signal)
            fprintf(stderr, "copse launch: %s %u was killed by signal %d\n", t->role, t->index,
                    ends[i].signal);
        else if (ends[i].code)
            fprintf(stderr, "copse launch: %s %u ended with code %d\n", t->role, t->index,
                    ends[i].code);
    }
}

/* Wrong use counts before a failure, and a failure before a loss. The tasks of copse end with
   EXIT_INCOMPLETE if they need a task that was killed. Of other programs a killed task is a loss. */
static int launch_code(const struct launch *l, const struct launch_end *ends)
{
    bool has[4] = { false }, is_other = false;
    int other = 0;
    for (uint32_t i = 0; i < l->task_count; i++) {
        has[EXIT_INCOMPLETE] |= ends[i].signal && !l->is_copse;
        if (ends[i].signal)
            continue;
        is_other |= ends[i].code > EXIT_INCOMPLETE;
        if (ends[i].code >= 0 && ends[i].code <= EXIT_INCOMPLETE)
            has[ends[i].code] = true;
        else if (!other)
            other = ends[i].code;
    }
    return has[EXIT_BAD_INPUT]    ? EXIT_BAD_INPUT
           : has[EXIT_FAILED]     ? EXIT_FAILED
           : is_other             ? other
           : has[EXIT_INCOMPLETE] ? EXIT_INCOMPLETE
           : has[EXIT_DONE]       ? EXIT_DONE
                                  : EXIT_INCOMPLETE;
}

static int launch_job(struct launch *l, struct launch_end *ends)
{
    const char *more = NULL;
    for (uint32_t attempt = 0;; attempt++) {
        int code = launch_plan(l);
        if (code >= 0)
            return code;
        const uint64_t since = launch_trace_now(l);
        const int signal = launch_run(l, more, attempt, ends);
        launch_trace_join(l, since);
        if (signal < 0)
            return EXIT_FAILED;
        if (signal > 0)
            return 128 + signal;
        print_ends(l, ends);
        code = launch_code(l, ends);
        if (code != EXIT_INCOMPLETE || attempt == l->restarts)
            return code;
        if (l->is_copse && !has_word(l, "--resume"))
            more = "--resume";
        fprintf(stderr, "copse launch: restart %u of %u%s\n", attempt + 1, l->restarts,
                l->is_copse ? ", with --resume" : "");
    }
}

int cmd_launch(int argc, char **argv)
{
    struct launch l = { .workers = 0 };
    const struct option_row rows[] = {
        { "workers", OPTION_COUNT, &l.workers, "N", "workers of the job; also -n N" },
        { "servers", OPTION_COUNT, &l.servers, "N", "parameter servers beside them [0]" },
        { "evaluator", OPTION_FLAG, &l.has_evaluator, NULL, "a task that evaluates checkpoints" },
        { "hosts", OPTION_TEXT, &l.hosts, "FILE",
          "start them by ssh: a host and its tasks in a line, \"a 4\" [this machine]" },
        { "port", OPTION_COUNT, &l.port, "N", "first port of each host [7000]" },
        { "ssh", OPTION_TEXT, &l.ssh, "PROGRAM", "called with a host and a command of sh [ssh]" },
        { "restarts", OPTION_COUNT, &l.restarts, "N",
          "after a lost task start again with --resume, at most N times [0]" },
        { "no-prefix", OPTION_FLAG, &l.no_prefix, NULL,
          "lines do not begin with the number of their worker" },
        { "", OPTION_EXAMPLE, NULL, NULL, "copse launch -n 4 -- train --data table.csv" },
        { "", OPTION_EXAMPLE, NULL, NULL,
          "copse launch -n 4 --restarts 3 -- train --checkpoint run --checkpoint-every 500" },
        { "", OPTION_EXAMPLE, NULL, NULL,
          "copse launch -n 8 --hosts hosts.txt -- ./program    (it has COPSE_CONFIG)" },
        { 0 },
    };
    const int own = launch_words(argc, argv, &l);
    if (own == argc && lacks_dashes(argc, argv))
        return launch_complain("write -- before the command: copse launch -n 4 -- train ...");
    int code = options_parse(own, argv, rows,
                             "Starts the tasks of a job, tells each of the others, prints their "
                             "lines, and ends as they do.");
    if (code < 0)
        code = launch_check(&l);
    if (code >= 0)
        return code;
    const uint32_t count = l.workers + l.servers + l.has_evaluator;
    struct launch_end *ends = calloc(count, sizeof *ends);
    if (!ends)
        return session_fail(session_set_error(COPSE_ERR_NO_MEMORY, "no memory"));
    signals_catch();
    code = launch_job(&l, ends);
    for (uint32_t i = 0; i < l.task_count; i++)
        free((char *)(uintptr_t)l.tasks[i].host);
    free(l.tasks);
    free(ends);
    return code;
}
