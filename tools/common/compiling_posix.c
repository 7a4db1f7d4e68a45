/* SPDX-License-Identifier: MIT */
/* Processes that compile kernels: this command, started again with COMPILING_PROCESS, a device and
   the id of the command's process. Each reads the text of a kernel from its standard input and writes
   ANSWER when it is done. */
#define _DEFAULT_SOURCE /* MSG_NOSIGNAL */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#    include <sys/prctl.h>
#endif
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "copse/device/compile.h"

#include "tools/tool.h"

extern char **environ;

enum { MOST_PROCESSES = 8, KERNELS_EACH = 2, POLL_MS = 1000 };
/* For a kernel [s]: the deadline of a wait for a device whose kernels are new. */
#define LONGEST 600.0
/* ACK of ASCII: drivers may write lines of their own. */
static const char ANSWER = 6;

/* ---- the command that waits ---- */

struct compiler {
    pid_t pid;
    int stream; /* to and from it; -1: ended */
    bool is_busy;
    double since; /* [s] */
};

static bool compiler_start(struct compiler *c, const char *device, char *verbose)
{
    char parent[32];
    char *const words[] = { "copse", COMPILING_PROCESS, (char *)(uintptr_t)device,
                            parent,  verbose,           NULL };
    posix_spawn_file_actions_t actions;
    int both[2];
    snprintf(parent, sizeof parent, "%ld", (long)getpid());
    c->stream = -1;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, both) != 0)
        return false;
    for (int i = 0; i < 2; i++)
        (void)fcntl(both[i], F_SETFD, FD_CLOEXEC);
    bool is_started = posix_spawn_file_actions_init(&actions) == 0;
    if (is_started) {
        is_started = posix_spawn_file_actions_adddup2(&actions, both[1], STDIN_FILENO) == 0 &&
                     posix_spawn_file_actions_adddup2(&actions, both[1], STDOUT_FILENO) == 0 &&
                     posix_spawn(&c->pid, system_itself(), &actions, NULL, words, environ) == 0;
        posix_spawn_file_actions_destroy(&actions);
    }
    close(both[1]);
    if (is_started)
        c->stream = both[0];
    else
        close(both[0]);
    return is_started;
}

static void compiler_end(struct compiler *c)
{
    if (c->stream < 0)
        return;
    if (c->is_busy) /* it would compile to the end first */
        kill(c->pid, SIGKILL);
    close(c->stream);
    c->stream = -1;
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* False: it has ended. */
static bool compiler_give(struct compiler *c, const char *kernel)
{
    char line[256];
    const int n = snprintf(line, sizeof line, "%s\n", kernel);
    c->since = system_now();
    c->is_busy = n > 0 && n < (int)sizeof line &&
                 send(c->stream, line, (size_t)n, MSG_NOSIGNAL) == (ssize_t)n;
    return c->is_busy;
}

/* Take what it writes. False: it has ended. */
static bool compiler_hear(struct compiler *c)
{
    char text[512];
    const ssize_t n = recv(c->stream, text, sizeof text, 0);
    if (n <= 0)
        return n < 0 && errno == EINTR;
    c->is_busy = !memchr(text, ANSWER, (size_t)n);
    return true;
}

/* One that is free gets the next kernel, or is ended after the last. Returns how many still run. */
static size_t compilers_feed(struct compiler *all, size_t count,
                             const struct copse_compile_work *work, size_t *next)
{
    size_t running = 0;
    for (size_t i = 0; i < count; i++) {
        struct compiler *c = &all[i];
        if (c->stream >= 0 && !c->is_busy &&
            (*next == work->count || !compiler_give(c, work->kernels[(*next)++])))
            compiler_end(c);
        running += c->stream >= 0;
    }
    return running;
}

static void compilers_hear(struct compiler *all, size_t count,
                           const struct copse_compile_work *work)
{
    struct pollfd polls[MOST_PROCESSES];
    for (size_t i = 0; i < count; i++)
        polls[i] = (struct pollfd){ .fd = all[i].stream, .events = POLLIN };
    const bool has_news = poll(polls, count, POLL_MS) > 0;
    for (size_t i = 0; i < count; i++) {
        const bool has_ended =
            signals_caught() != 0 || system_now() - all[i].since > LONGEST ||
            (has_news && all[i].stream >= 0 && polls[i].revents && !compiler_hear(&all[i]));
        if (all[i].stream < 0 || (!has_ended && !(has_news && polls[i].revents)))
            continue;
        if (has_ended)
            compiler_end(&all[i]); /* its kernel is compiled by this process */
        else if (!all[i].is_busy)
            work->done(work);
    }
}

bool compiling_gains(void)
{
    return system_processors() > 1;
}

void compiling_apart(void *user, const struct copse_compile_work *work)
{
    struct compiler all[MOST_PROCESSES];
    const size_t useful = (work->count + KERNELS_EACH - 1) / KERNELS_EACH;
    size_t most = system_processors(), count = 0, next = 0;
    most = most < MOST_PROCESSES ? most : MOST_PROCESSES;
    most = most < useful ? most : useful;
    while (count < most && compiler_start(&all[count], work->device, user))
        all[count++].is_busy = false;
    while (compilers_feed(all, count, work, &next) > 0)
        compilers_hear(all, count, work);
}

/* ---- the process that compiles ---- */

static copse_status open_device(const char *id, bool is_verbose, copse_context **ctx,
                                copse_device **dev)
{
    struct copse_context_params params = {
        .log = session_log,
        .log_level = is_verbose ? COPSE_LOG_DEBUG : COPSE_LOG_WARN,
        .cache_folder = "",
        .disable = strncmp(id, "opencl", 6) == 0 ? "vulkan" : "opencl",
    };
    copse_status s = copse_context_create(&params, ctx);
    if (s == COPSE_ERR_ARGUMENT) { /* this build does not have the other backend */
        params.disable = NULL;
        s = copse_context_create(&params, ctx);
    }
    return s == COPSE_OK ? copse_device_open(*ctx, id, NULL, dev) : s;
}

int compiling_process(int argc, char **argv)
{
    copse_context *ctx = NULL;
    copse_device *dev = NULL;
    char line[256];
    if (argc < 3)
        return EXIT_FAILED;
#if defined(__linux__)
    /* A driver that hangs would stay. On other systems it does: there the process ends at the end of
       its input, after the kernel that it compiles. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return EXIT_FAILED;
#endif
    /* the command may have ended before */
    if (getppid() != (pid_t)strtol(argv[2], NULL, 10) ||
        open_device(argv[1], argc > 3, &ctx, &dev) != COPSE_OK)
        return EXIT_FAILED;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        /* a kernel that fails is compiled again where it is used, and fails there */
        const copse_status s = copse_device_compile(dev, line);
        if (putchar(ANSWER) == EOF || fflush(stdout) != 0 || s == COPSE_ERR_DEVICE_LOST)
            break;
    }
    /* To close the device would store the kernels once more; the command that waits does it. */
    _exit(EXIT_DONE);
}
