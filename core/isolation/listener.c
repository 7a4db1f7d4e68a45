/* SPDX-License-Identifier: MIT */
/* A job in a child process: this command started again, events as lines on a pipe, a deadline between events. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/conformance/conform.h"

enum { EVENT_FD = 3, MAX_ARGS = 40, MAX_LINE = 1 << 20 };

/* Time limit for a driver's exit handlers, which may hang. The time before the first case (process start, opening
   drivers) is not part of a case and has at least this limit. */
static const double EXIT_SECONDS = 5.0, OPEN_SECONDS = 60.0;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the child ---- */

static void write_event(void *user, cJSON *event)
{
    (void)user;
    char *text = cJSON_PrintUnformatted(event);
    size_t size = text ? strlen(text) : 0, at = 0;
    if (text)
        text[size++] = '\n'; /* replaces the NUL, which cJSON_free does not need */
    while (at < size) {
        const ssize_t n = write(EVENT_FD, text + at, size - at);
        if (n < 0 && errno != EINTR)
            _exit(EXIT_FAILED); /* the reader is gone */
        at += n > 0 ? (size_t)n : 0;
    }
    cJSON_free(text);
    cJSON_Delete(event);
}

int conform_child(int argc, char **argv)
{
    struct conform_job j = { .device = "auto" };
    uint32_t kind = 0, modes = 0, tier = 0, verdict = 0;
    float seconds = 0.0f;
    const struct option_row rows[] = {
        { "kind", OPTION_COUNT, &kind, "N", "" },
        { "device", OPTION_TEXT, &j.device, "ID", "" },
        { "modes", OPTION_COUNT, &modes, "N", "" },
        { "tier", OPTION_COUNT, &tier, "N", "" },
        { "ops", OPTION_TEXT, &j.ops, "LIST", "" },
        { "case", OPTION_TEXT, &j.case_name, "NAME", "" },
        { "variant", OPTION_TEXT, &j.variant, "NAME", "" },
        { "after", OPTION_TEXT, &j.after, "CASE", "" },
        { "seconds", OPTION_FLOAT, &seconds, "N", "" },
        { "kernel", OPTION_TEXT, &j.kernel, "NAME", "" },
        { "reason", OPTION_TEXT, &j.reason, "TEXT", "" },
        { "verdict", OPTION_COUNT, &verdict, "N", "" },
        { "own", OPTION_TEXT, &j.own_path, "FILE", "" },
        { "verbose", OPTION_FLAG, &j.is_verbose, NULL, "" },
        { 0 },
    };
    const int code = options_parse(argc, argv, rows, "Used by `copse conformance` itself.");
    if (code >= 0)
        return code;
    if (fcntl(EVENT_FD, F_SETFD, FD_CLOEXEC) != 0) {
        fprintf(stderr, "copse conformance: --child is for the command itself\n");
        return EXIT_BAD_INPUT;
    }
    j.kind = (enum conform_job_kind)kind;
    j.modes = modes;
    j.tier = (copse_conformance_tier)tier;
    j.verdict = (copse_verdict)verdict;
    j.seconds = (double)seconds;
    conform_job_do(&j, write_event, NULL);
    return EXIT_DONE;
}

/* ---- the parent: start ---- */

struct arguments {
    const char *at[MAX_ARGS];
    char numbers[5][32];
    size_t count;
};

static void add(struct arguments *a, const char *option, const char *value)
{
    if (!value)
        return;
    a->at[a->count++] = option;
    a->at[a->count++] = value;
}

static void set_arguments(const struct conform_job *j, const char *self, struct arguments *a)
{
    a->count = 0;
    a->at[a->count++] = self;
    a->at[a->count++] = "conformance";
    a->at[a->count++] = "--child";
    snprintf(a->numbers[0], sizeof *a->numbers, "%u", (unsigned)j->kind);
    snprintf(a->numbers[1], sizeof *a->numbers, "%u", j->modes);
    snprintf(a->numbers[2], sizeof *a->numbers, "%u", (unsigned)j->tier);
    snprintf(a->numbers[3], sizeof *a->numbers, "%.3f", j->seconds);
    snprintf(a->numbers[4], sizeof *a->numbers, "%u", (unsigned)j->verdict);
    add(a, "--kind", a->numbers[0]);
    add(a, "--modes", a->numbers[1]);
    add(a, "--tier", a->numbers[2]);
    add(a, "--seconds", a->numbers[3]);
    add(a, "--verdict", a->numbers[4]);
    add(a, "--device", j->device);
    add(a, "--ops", j->ops);
    add(a, "--case", j->case_name);
    add(a, "--variant", j->variant);
    add(a, "--after", j->after);
    add(a, "--kernel", j->kernel);
    add(a, "--reason", j->reason);
    add(a, "--own", j->own_path);
    if (j->is_verbose)
        a->at[a->count++] = "--verbose";
    a->at[a->count] = NULL;
}

/* Output of a driver goes to standard error, because standard output is for the report. A hanging child is killed
   when the parent ends for any reason. */
static void become_child(const struct conform_job *j, int pipe_end, pid_t parent)
{
    struct arguments a;
    char self[4096];
#ifdef __linux__
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() != parent)
        _exit(EXIT_FAILED);
#else
    (void)parent;
#endif
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0 &&
        (pipe_end == EVENT_FD ? fcntl(EVENT_FD, F_SETFD, 0) : dup2(pipe_end, EVENT_FD)) >= 0) {
        self[n] = '\0';
        set_arguments(j, self, &a);
        execv(self, (char *const *)a.at);
    }
    _exit(127);
}

/* The read end of the pipe, -1 if the process could not be started. */
static int start(const struct conform_job *j, pid_t *pid)
{
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    fflush(stdout);
    const pid_t self = getpid();
    *pid = fork();
    if (*pid == 0)
        become_child(j, ends[1], self);
    close(ends[1]);
    if (*pid < 0) {
        close(ends[0]);
        return -1;
    }
    return ends[0];
}

/* ---- the parent: listen ---- */

struct listener {
    conform_event_fn *emit;
    void *user;
    struct conform_ended *ended;
    bool has_begun, has_end; /* a case; the job */
    double deadline;
    char *bytes;
    size_t size, room;
};

static void hear(void *user, cJSON *event)
{
    struct listener *l = user;
    l->has_begun = l->has_begun || strcmp(json_text(event, "event"), "begin") == 0;
    if (strcmp(json_text(event, "event"), "end") != 0) {
        l->emit(l->user, event);
        return;
    }
    l->has_end = true;
    l->ended->status = (copse_status)json_number(event, "status");
    snprintf(l->ended->text, sizeof l->ended->text, "%s", json_text(event, "text"));
    cJSON_Delete(event);
}

static void hear_lines(struct listener *l)
{
    char *line = l->bytes, *end;
    while ((end = memchr(line, '\n', l->size - (size_t)(line - l->bytes))) != NULL) {
        *end = '\0';
        cJSON *event = cJSON_Parse(line);
        if (event)
            hear(l, event);
        line = end + 1;
    }
    l->size -= (size_t)(line - l->bytes);
    memmove(l->bytes, line, l->size);
}

/* False at the end of the pipe. */
static bool hear_some(struct listener *l, int fd)
{
    if (l->size == l->room) {
        char *more = l->room < MAX_LINE ? realloc(l->bytes, l->room + 65536) : NULL;
        if (!more)
            return false;
        l->bytes = more;
        l->room += 65536;
    }
    const ssize_t n = read(fd, l->bytes + l->size, l->room - l->size);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    l->size += (size_t)n;
    hear_lines(l);
    return n > 0;
}

static double deadline_of(const struct listener *l)
{
    return l->has_begun ? l->deadline : fmax(l->deadline, OPEN_SECONDS);
}

/* True if the deadline passed. */
static bool listen_to(struct listener *l, int fd)
{
    double last = now();
    for (;;) {
        const double left = last + deadline_of(l) - now();
        if (left <= 0)
            return true;
        struct pollfd p = { .fd = fd, .events = POLLIN };
        const int n = poll(&p, 1, (int)fmin(1000.0 * left + 1.0, 1e6));
        if (n > 0) {
            if (!hear_some(l, fd))
                return false;
            last = now();
        }
    }
}

/* ---- the parent: how it ended ---- */

static bool reap(pid_t pid, double seconds, int *status)
{
    const double until = now() + seconds;
    pid_t n;
    while ((n = waitpid(pid, status, WNOHANG)) == 0 && now() < until)
        nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
    return n == pid;
}

static void tell_crash(struct conform_ended *e, int status)
{
    e->how = END_CRASHED;
    if (WIFSIGNALED(status))
        snprintf(e->text, sizeof e->text, "the process died of signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(e->text, sizeof e->text, "the process ended by itself with code %d",
                 WEXITSTATUS(status));
}

static void run_isolated(const struct conform_job *j, struct listener *l)
{
    struct conform_ended *e = l->ended;
    int status = 0;
    pid_t pid;
    const int fd = start(j, &pid);
    if (fd < 0) {
        e->status = session_set_error(COPSE_ERR_INTERNAL, "cannot start a process: %s",
                                      strerror(errno));
        snprintf(e->text, sizeof e->text, "%s", session_error());
        return;
    }
    const bool is_late = listen_to(l, fd);
    close(fd);
    if (is_late && !l->has_end) {
        e->how = END_TIMED_OUT;
        snprintf(e->text, sizeof e->text, "no end after %g s; the process was killed",
                 deadline_of(l));
        kill(pid, SIGKILL);
    }
    /* A failure after the last event belongs to no case. */
    if (!reap(pid, EXIT_SECONDS, &status)) {
        kill(pid, SIGKILL);
        (void)reap(pid, EXIT_SECONDS, &status);
    }
    if (!l->has_end && !is_late)
        tell_crash(e, status);
    free(l->bytes);
}

void conform_job_run(const struct conform_job *j, bool is_isolated, double deadline,
                     conform_event_fn *emit, void *user, struct conform_ended *ended)
{
    struct listener l = { .emit = emit, .user = user, .ended = ended, .deadline = deadline };
    *ended = (struct conform_ended){ .how = END_DONE };
    if (is_isolated)
        run_isolated(j, &l);
    else
        conform_job_do(j, hear, &l);
}
