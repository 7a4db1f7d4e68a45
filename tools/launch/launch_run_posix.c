/* SPDX-License-Identifier: MIT */
/* The processes of a job: started here or by ssh, with pipes for their lines. */
#define _DEFAULT_SOURCE /* environ of fork'd programs */

#include "tools/launch/launch_job.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#    include <sys/prctl.h>
#endif

#include "copse/distribute/cluster.h"

enum { LINE_BYTES = 8192, POLL_MS = 100, NO_PROGRAM = 127 };
/* After the first task that was used wrongly [s]. */
#define OTHERS_END_AFTER 2.0

/* What a task writes to one of its streams. */
struct stream {
    int from; /* -1: ended */
    FILE *to;
    char line[LINE_BYTES];
    size_t used;
    bool is_open; /* the newest line has no end yet */
};

struct process {
    pid_t pid; /* 0: ended, and waited for */
    int input; /* of ssh: when it is closed, the task on the host is ended; else -1 */
    struct stream streams[2];
};

struct job {
    const struct launch *launch;
    const char *more;
    uint32_t attempt;
    struct process *at;
    uint32_t started;
};

/* ---- ports ---- */

static int port_listener(uint16_t *port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&at, size) == 0 &&
        getsockname(fd, (struct sockaddr *)&at, &size) == 0) {
        *port = ntohs(at.sin_port);
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

/* All are held until the last is found, so that they differ. */
bool launch_ports(uint32_t count, uint16_t *ports)
{
    int held[COPSE_MAX_WORKERS + 1];
    uint32_t n = 0;
    while (n < count && (held[n] = port_listener(&ports[n])) >= 0)
        n++;
    for (uint32_t i = 0; i < n; i++)
        close(held[i]);
    return n == count;
}

/* ---- the command of a task ---- */

static void put_quoted(FILE *to, const char *word)
{
    fputc('\'', to);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", to);
        else
            fputc(*word, to);
    fputc('\'', to);
}

/* For sh on the host. The task ends when ssh's input is closed, also where this process was killed:
   ssh itself ends nothing there. */
static char *remote_command(const struct job *j, const char *config)
{
    const struct launch *l = j->launch;
    char *text = NULL, folder[4096];
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    if (!to)
        return NULL;
    fputs("exec 3<&0; ", to);
    if (getcwd(folder, sizeof folder)) {
        fputs("cd ", to);
        put_quoted(to, folder);
        fputs(" && ", to);
    }
    fputs("{ COPSE_CONFIG=", to);
    put_quoted(to, config);
    fprintf(to, " COPSE_RESTARTS=%u", j->attempt);
    if (l->is_copse) {
        fputc(' ', to);
        put_quoted(to, l->program);
    }
    for (int i = 0; i < l->word_count; i++) {
        fputc(' ', to);
        put_quoted(to, l->words[i]);
    }
    if (j->more)
        fprintf(to, " %s", j->more);
    fputs(" </dev/null 3<&- & task=$!; { cat <&3 >/dev/null; kill -TERM $task; } 2>/dev/null & "
          "watch=$!; wait $task; code=$?; kill $watch 2>/dev/null; exit $code; }",
          to);
    return fclose(to) == 0 ? text : NULL;
}

static void exec_task(const struct job *j, const struct launch_task *t, const char *config)
{
    const struct launch *l = j->launch;
    char **words = calloc((size_t)l->word_count + 3, sizeof *words), number[16];
    size_t n = 0;
    if (!words)
        _exit(EXIT_FAILED);
    if (t->host) {
        char *const remote[] = { (char *)(uintptr_t)l->ssh, (char *)(uintptr_t)t->host,
                                 remote_command(j, config), NULL };
        execvp(remote[0], remote);
        fprintf(stderr, "copse launch: cannot run %s: %s\n", l->ssh, strerror(errno));
        _exit(NO_PROGRAM);
    }
    snprintf(number, sizeof number, "%u", j->attempt);
    setenv("COPSE_CONFIG", config, 1);
    setenv("COPSE_RESTARTS", number, 1);
    if (l->is_copse)
        words[n++] = (char *)(uintptr_t)l->program;
    for (int i = 0; i < l->word_count; i++)
        words[n++] = l->words[i];
    if (j->more)
        words[n++] = (char *)(uintptr_t)j->more;
    execvp(words[0], words);
    fprintf(stderr, "copse launch: cannot run %s: %s\n", words[0], strerror(errno));
    _exit(NO_PROGRAM);
}

/* In the new process: the streams, and an end with the launcher's. */
static void begin_task(const int in[2], const int out[2], const int err[2])
{
    const int input = in[0] >= 0 ? in[0] : open("/dev/null", O_RDONLY);
    dup2(input, STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    /* of other tasks, too: one that holds another's end would keep it open */
    const long most = sysconf(_SC_OPEN_MAX);
    for (int fd = STDERR_FILENO + 1; fd < (most > 0 && most < 65536 ? most : 65536); fd++)
        close(fd);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
}

/* ---- starting ---- */

static void close_pair(int fds[2])
{
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static bool start_task(struct job *j, uint32_t i)
{
    const struct launch_task *t = &j->launch->tasks[i];
    struct process *p = &j->at[i];
    int in[2] = { -1, -1 }, out[2] = { -1, -1 }, err[2] = { -1, -1 };
    char *config = launch_config(j->launch, i);
    const bool is_ready = config && pipe(out) == 0 && pipe(err) == 0 && (!t->host || pipe(in) == 0);
    fflush(NULL);
    p->pid = is_ready ? fork() : -1;
    if (p->pid == 0) {
        begin_task(in, out, err);
        exec_task(j, t, config);
    }
    free(config);
    if (p->pid < 0) {
        fprintf(stderr, "copse launch: cannot start %s %u: %s\n", t->role, t->index,
                strerror(errno));
        p->pid = 0;
        close_pair(in);
        close_pair(out);
        close_pair(err);
        return false;
    }
    if (in[0] >= 0)
        close(in[0]);
    close(out[1]);
    close(err[1]);
    p->input = in[1];
    p->streams[0] = (struct stream){ .from = out[0], .to = stdout };
    p->streams[1] = (struct stream){ .from = err[0], .to = stderr };
    j->started++;
    return true;
}

/* ---- lines ---- */

/* A longer line comes in parts, between which lines of other tasks may come. */
static void put_line(struct stream *s, const char *prefix)
{
    if (!s->is_open)
        fputs(prefix, s->to);
    fwrite(s->line, 1, s->used, s->to);
    s->is_open = s->line[s->used - 1] != '\n';
    fflush(s->to);
    s->used = 0;
}

static void take_bytes(struct stream *s, const char *prefix)
{
    char bytes[LINE_BYTES];
    const ssize_t n = read(s->from, bytes, sizeof bytes);
    for (ssize_t i = 0; i < n; i++) {
        s->line[s->used++] = bytes[i];
        if (bytes[i] == '\n' || s->used == sizeof s->line)
            put_line(s, prefix);
    }
    if (n > 0 || (n < 0 && errno == EINTR))
        return;
    if (s->used > 0)
        put_line(s, prefix);
    if (s->is_open)
        fputc('\n', s->to);
    close(s->from);
    s->from = -1;
}

/* Wait a while for bytes of any task. */
static void pump_lines(struct job *j)
{
    struct pollfd fds[2 * (COPSE_MAX_WORKERS + 1)];
    struct stream *of[2 * (COPSE_MAX_WORKERS + 1)];
    const char *prefixes[2 * (COPSE_MAX_WORKERS + 1)];
    nfds_t count = 0;
    for (uint32_t i = 0; i < j->started; i++)
        for (int k = 0; k < 2; k++)
            if (j->at[i].streams[k].from >= 0) {
                of[count] = &j->at[i].streams[k];
                prefixes[count] = j->launch->tasks[i].prefix;
                fds[count] = (struct pollfd){ of[count]->from, POLLIN, 0 };
                count++;
            }
    if (poll(fds, count, POLL_MS) <= 0)
        return;
    for (nfds_t i = 0; i < count; i++)
        if (fds[i].revents)
            take_bytes(of[i], prefixes[i]);
}

/* ---- the end ---- */

static void signal_all(struct job *j, int which)
{
    for (uint32_t i = 0; i < j->started; i++) {
        struct process *p = &j->at[i];
        if (p->input >= 0) {
            close(p->input);
            p->input = -1;
        } else if (p->pid > 0) {
            kill(p->pid, which);
        }
    }
}

/* Tasks that have ended; how many are left. */
static uint32_t reap_tasks(struct job *j, struct launch_end *ends)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < j->started; i++) {
        struct process *p = &j->at[i];
        int status;
        if (p->pid > 0 && waitpid(p->pid, &status, WNOHANG) == p->pid) {
            p->pid = 0;
            ends[i].signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
            ends[i].code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
        }
        left += p->pid > 0;
    }
    return left;
}

static bool has_wrong_use(const struct job *j, const struct launch_end *ends)
{
    bool has = false;
    for (uint32_t i = 0; i < j->started; i++)
        has |= j->at[i].pid == 0 && (ends[i].code == EXIT_BAD_INPUT || ends[i].code == NO_PROGRAM);
    return has;
}

static bool has_open_stream(const struct job *j)
{
    bool has = false;
    for (uint32_t i = 0; i < j->started; i++)
        has |= j->at[i].streams[0].from >= 0 || j->at[i].streams[1].from >= 0;
    return has;
}

static int watch_tasks(struct job *j, struct launch_end *ends)
{
    int passed_on = 0;
    bool is_ended = false;
    double wrong_since = 0, all_since = 0;
    for (;;) {
        pump_lines(j);
        const uint32_t left = reap_tasks(j, ends);
        const int caught = signals_caught();
        if (caught && !passed_on)
            signal_all(j, passed_on = caught);
        if (left > 0 && !wrong_since && has_wrong_use(j, ends))
            wrong_since = system_now();
        if (left > 0 && wrong_since && !is_ended && system_now() > wrong_since + OTHERS_END_AFTER) {
            for (uint32_t i = 0; i < j->started; i++)
                ends[i].is_ended = j->at[i].pid > 0;
            signal_all(j, SIGTERM);
            is_ended = true;
        }
        /* a child of a task may hold its streams */
        if (left == 0 && !all_since)
            all_since = system_now();
        if (left == 0 && (!has_open_stream(j) || system_now() > all_since + 1))
            return passed_on;
    }
}

int launch_run(const struct launch *l, const char *more, uint32_t attempt, struct launch_end *ends)
{
    struct job j = { .launch = l, .more = more, .attempt = attempt };
    j.at = calloc(l->task_count, sizeof *j.at);
    if (!j.at) {
        fprintf(stderr, "copse launch: no memory\n");
        return -1;
    }
    memset(ends, 0, l->task_count * sizeof *ends);
    bool is_started = true;
    for (uint32_t i = 0; i < l->task_count && is_started; i++)
        is_started = start_task(&j, i);
    if (!is_started)
        signal_all(&j, SIGTERM);
    const int signal = watch_tasks(&j, ends);
    signal_all(&j, SIGTERM); /* closes what is open */
    for (uint32_t i = 0; i < j.started; i++)
        for (int k = 0; k < 2; k++)
            if (j.at[i].streams[k].from >= 0)
                close(j.at[i].streams[k].from);
    free(j.at);
    return is_started ? signal : -1;
}
