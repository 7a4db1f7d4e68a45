/* SPDX-License-Identifier: MIT */
/* Helper processes on POSIX systems, by posix_spawn: no code of this process runs in the child. */
#if defined(__linux__)
#    define _GNU_SOURCE /* pipe2 */
#endif

#include "prover/isolation/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#if defined(__linux__)
#    include <sys/prctl.h>
#endif
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/platform.h"

enum { EVENT_FD = 3, MAX_ENVIRONMENT = 4096 };

#define MARK "COPSE_CONFORMANCE_HELPER"

const char copse_path_separator = ':';
const char *const copse_command_name = "copse";

extern char **environ;

/* ---- start ---- */

static bool open_pipe(int ends[2])
{
#if defined(__linux__)
    return pipe2(ends, O_CLOEXEC) == 0;
#else
    if (pipe(ends) != 0)
        return false;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    return true;
#endif
}

/* The pipe becomes descriptor 3 before standard streams are replaced: it may have the number of a
   closed one. */
static int set_files(posix_spawn_file_actions_t *files, int fd)
{
    int e = posix_spawn_file_actions_adddup2(files, fd, EVENT_FD);
    if (!e)
        e = posix_spawn_file_actions_addopen(files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!e && fcntl(STDERR_FILENO, F_GETFD) < 0)
        e = posix_spawn_file_actions_addopen(files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (!e)
        e = posix_spawn_file_actions_adddup2(files, STDERR_FILENO, STDOUT_FILENO);
    return e;
}

/* The thread that starts it may block signals, and the application may ignore some: not so the
   child. A terminal and `timeout` send a signal to the whole group. Its meaning is for the parent to
   decide, with which the child ends: a child that died of it would look like a driver's crash. */
static int set_signals(posix_spawnattr_t *how)
{
    sigset_t parents, standard;
    sigemptyset(&parents);
    sigaddset(&parents, SIGINT);
    sigaddset(&parents, SIGTERM);
    sigaddset(&parents, SIGHUP);
    sigemptyset(&standard);
    sigaddset(&standard, SIGCHLD);
    sigaddset(&standard, SIGPIPE);
    int e = posix_spawnattr_setsigmask(how, &parents);
    if (!e)
        e = posix_spawnattr_setsigdefault(how, &standard);
    if (!e)
        e = posix_spawnattr_setflags(how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    return e;
}

static int process_posix_spawn(const char *program, const char *const *arguments,
                               char **environment, int fd, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    int e = posix_spawn_file_actions_init(&files);
    if (e)
        return e;
    e = posix_spawnattr_init(&how);
    if (!e) {
        e = set_files(&files, fd);
        if (!e)
            e = set_signals(&how);
        if (!e)
            e = posix_spawn(pid, program, &files, &how, (char *const *)(uintptr_t)arguments,
                            environment);
        posix_spawnattr_destroy(&how);
    }
    posix_spawn_file_actions_destroy(&files);
    return e;
}

copse_status copse__process_start(const char *program, const char *const *arguments,
                                  struct copse_process *out)
{
    char *environment[MAX_ENVIRONMENT + 2], mark[] = MARK "=1";
    size_t count = 0;
    int ends[2];
    pid_t pid = -1;
    for (char **at = environ; at && *at && count < MAX_ENVIRONMENT; at++)
        if (strncmp(*at, MARK "=", sizeof MARK) != 0)
            environment[count++] = *at;
    environment[count++] = mark;
    environment[count] = NULL;
    if (!open_pipe(ends))
        return copse_fail(COPSE_ERR_IO, "helper process: cannot make a pipe: %s", strerror(errno));
    const int e = process_posix_spawn(program, arguments, environment, ends[1], &pid);
    close(ends[1]);
    if (e) {
        close(ends[0]);
        return copse_fail(COPSE_ERR_IO, "helper process: cannot start '%s': %s", program,
                          strerror(e));
    }
    *out = (struct copse_process){ .id = (long)pid, .fd = ends[0] };
    return COPSE_OK;
}

/* ---- the parent ---- */

int copse__process_read(const struct copse_process *p, void *bytes, size_t room,
                        uint64_t deadline_ns)
{
    for (;;) {
        const uint64_t now = copse__now_ns(),
                       left = deadline_ns > now ? (deadline_ns - now) / 1000000u : 0;
        struct pollfd poller = { .fd = p->fd, .events = POLLIN };
        const int n = poll(&poller, 1, (int)COPSE_MIN(left, 1000000u));
        if (n > 0) {
            const ssize_t got = read(p->fd, bytes, room);
            if (got >= 0)
                return (int)got;
            if (errno != EINTR && errno != EAGAIN)
                return 0;
        } else if (left == 0) {
            return -1;
        }
    }
}

void copse__process_kill(const struct copse_process *p)
{
    kill((pid_t)p->id, SIGKILL);
}

bool copse__process_reap(const struct copse_process *p, uint64_t wait_ns,
                         struct copse_process_end *out)
{
    const uint64_t until = copse__now_ns() + wait_ns;
    int status = 0;
    pid_t n;
    *out = (struct copse_process_end){ 0 };
    while ((n = waitpid((pid_t)p->id, &status, WNOHANG)) == 0 || (n < 0 && errno == EINTR)) {
        if (copse__now_ns() >= until)
            return false;
        copse__sleep_ns(2000000);
    }
    if (n < 0)
        return true; /* not our child any more */
    out->is_known = true;
    out->is_signal = WIFSIGNALED(status);
    out->code = out->is_signal ? WTERMSIG(status) : WEXITSTATUS(status);
    if (out->is_signal)
        snprintf(out->name, sizeof out->name, "signal %d (%s)", out->code, strsignal(out->code));
    return true;
}

void copse__process_close(struct copse_process *p)
{
    close(p->fd);
}

void copse__process_forget(struct copse_process *p)
{
    (void)p;
}

bool copse__program_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

/* ---- the child ---- */

bool copse__process_is_child(void)
{
    return getenv(MARK) != NULL;
}

#if !defined(__linux__)
static void watch_parent(void *parent)
{
    while (getppid() == (pid_t)(intptr_t)parent)
        copse__sleep_ns(200000000);
    kill(getpid(), SIGKILL);
}
#endif

bool copse__child_begin(long parent)
{
    /* Programs that this one starts do not get the pipe. */
    if (fcntl(EVENT_FD, F_SETFD, FD_CLOEXEC) != 0)
        return false;
#if defined(__linux__)
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return false;
#else
    copse_thread thread; /* it ends with the process */
    if (copse__thread_start(&thread, watch_parent, (void *)(intptr_t)parent) != COPSE_OK)
        return false;
#endif
    return getppid() == (pid_t)parent;
}

bool copse__child_write(const char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t n = write(EVENT_FD, bytes, size);
        if (n < 0 && errno != EINTR)
            return false;
        bytes += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return true;
}
