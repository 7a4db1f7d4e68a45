/* SPDX-License-Identifier: MIT */
/* The operating system through POSIX. system_windows.c has the same functions. */
#define _XOPEN_SOURCE   700 /* realpath */
#define _DEFAULT_SOURCE     /* TIOCGWINSZ, _SC_NPROCESSORS_ONLN */

#include "tools/common/system.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void system_begin(int *argc, char ***argv)
{
    int fd;
    (void)argc, (void)argv;
    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* ---- time, threads, the machine ---- */

double system_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void system_sleep_ns(long ns)
{
    nanosleep(&(struct timespec){ 0, ns }, NULL);
}

struct thread {
    pthread_t of_system;
    void (*run)(void *);
    void *arg;
};

static void *system_thread_main(void *p)
{
    const struct thread *t = p;
    t->run(t->arg);
    return NULL;
}

void *system_thread_start(void (*run)(void *), void *arg)
{
    struct thread *t = malloc(sizeof *t);
    if (!t)
        return NULL;
    t->run = run;
    t->arg = arg;
    if (pthread_create(&t->of_system, NULL, system_thread_main, t) == 0)
        return t;
    free(t);
    return NULL;
}

void system_thread_join(void *thread)
{
    struct thread *t = thread;
    pthread_join(t->of_system, NULL);
    free(t);
}

unsigned system_processors(void)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : (unsigned)online;
}

void system_processor_name(char *to, size_t room)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    snprintf(to, room, "processor");
    while (f && fgets(line, sizeof line, f)) {
        const char *name = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
        if (name) {
            snprintf(to, room, "%.*s", (int)strcspn(name + 2, "\n"), name + 2);
            break;
        }
    }
    if (f)
        fclose(f);
}

void system_names(char *host, size_t host_room, char *user, size_t user_room)
{
    const struct passwd *entry = getpwuid(getuid());
    const char *name = entry ? entry->pw_name : getenv("USER");
    if (gethostname(host, host_room) != 0)
        *host = '\0';
    host[host_room - 1] = '\0';
    snprintf(user, user_room, "%s", name ? name : "");
}

long system_process(void)
{
    return (long)getpid();
}

void *system_library(const char *name)
{
    char file[80];
    const char *dot = strchr(name, '.');
    const int n = dot ? (int)(dot - name) : (int)strlen(name);
    snprintf(file, sizeof file, "lib%.*s.so%s", n, name, dot ? dot : "");
    return dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

void *system_symbol(void *library, const char *symbol)
{
    return dlsym(library, symbol);
}

bool system_set_environment(const char *name, const char *value)
{
    return setenv(name, value, 1) == 0;
}

/* ---- the terminal, programs ---- */

bool system_is_terminal(unsigned *columns)
{
    struct winsize size;
    *columns = 0;
    if (!isatty(STDOUT_FILENO))
        return false;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        *columns = size.ws_col;
    return true;
}

void system_program(char *path, size_t room)
{
    const ssize_t n = readlink("/proc/self/exe", path, room);
    path[n > 0 && (size_t)n < room ? n : 0] = '\0';
}

const char *system_itself(void)
{
    return "/proc/self/exe"; /* the same program, even if its file was replaced */
}

int system_run(const char *const *words, const char *log)
{
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0) {
        const int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0 && dup2(fd, STDERR_FILENO) >= 0)
            execvp(words[0], (char *const *)(uintptr_t)words);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (pid < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 127))
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- files ---- */

bool system_has_program(const char *name)
{
    char path[4096];
    const char *at = getenv("PATH");
    for (; at && *at; at += *at == ':') {
        const int length = (int)strcspn(at, ":");
        snprintf(path, sizeof path, "%.*s/%s", length, at, name);
        if (access(path, X_OK) == 0)
            return true;
        at += length;
    }
    return false;
}

bool system_look(const char *path, struct system_file *out)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return false;
    *out = (struct system_file){
        .kind = S_ISREG(info.st_mode)   ? SYSTEM_FILE
                : S_ISDIR(info.st_mode) ? SYSTEM_FOLDER
                                        : SYSTEM_OTHER,
        .device = (uint64_t)info.st_dev,
        .number = (uint64_t)info.st_ino,
        .size = (uint64_t)info.st_size,
        .changed = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec,
    };
    return true;
}

bool system_is_link(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

bool system_can_read(const char *path)
{
    return access(path, R_OK) == 0;
}

char *system_real_path(const char *path)
{
    return realpath(path, NULL);
}

const char *system_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

FILE *system_open(const char *path, const char *mode)
{
    return fopen(path, mode);
}

/* As the library does when it replaces a file. */
static bool keep_mode(int fd, const struct stat *old)
{
    const bool has_group =
        fchown(fd, old->st_uid, old->st_gid) == 0 || fchown(fd, (uid_t)-1, old->st_gid) == 0;
    return fchmod(fd, old->st_mode & (has_group ? 0777u : 0707u)) == 0;
}

FILE *system_create(const char *path, const char *like)
{
    struct stat old;
    const bool is_new = !like || stat(like, &old) != 0;
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, is_new ? 0666 : 0600);
    FILE *f = fd >= 0 && (is_new || keep_mode(fd, &old)) ? fdopen(fd, "w") : NULL;
    if (f || fd < 0)
        return f;
    const int reason = errno;
    close(fd);
    unlink(path);
    errno = reason;
    return NULL;
}

bool system_sync(FILE *f)
{
    return fsync(fileno(f)) == 0;
}

bool system_rename(const char *from, const char *to)
{
    return rename(from, to) == 0;
}

bool system_remove(const char *path)
{
    return unlink(path) == 0;
}

bool system_make_folder(const char *path)
{
    return mkdir(path, 0777) == 0;
}

bool system_remove_folder(const char *path)
{
    return rmdir(path) == 0;
}

bool system_remove_name(FILE *f, char *path, size_t room)
{
#ifdef __linux__
    char open_path[64];
    snprintf(open_path, sizeof open_path, "/proc/self/fd/%d", fileno(f));
    if (access(open_path, R_OK) == 0 && strlen(open_path) < room && unlink(path) == 0) {
        snprintf(path, room, "%s", open_path);
        return true;
    }
#else
    (void)f, (void)path, (void)room;
#endif
    return false;
}

bool system_make_temporary(char *path, size_t room)
{
    const int n = snprintf(path, room, "/tmp/copse-XXXXXX");
    return n > 0 && (size_t)n < room && mkdtemp(path);
}
