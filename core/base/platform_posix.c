/* SPDX-License-Identifier: MIT */
/* The operating system through POSIX. platform_windows.c has the same functions. */
#define _XOPEN_SOURCE   700 /* POSIX 2008 and realpath */
#define _DEFAULT_SOURCE     /* dladdr (POSIX 2024) */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64

#include "core/base/platform.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/base.h"

#define SECOND 1000000000ull

copse_status copse__mutex_init(copse_mutex *m)
{
    const int e = pthread_mutex_init(m, NULL);
    return e ? copse_fail(COPSE_ERR_NO_MEMORY, "platform: mutex: %s", strerror(e)) : COPSE_OK;
}

void copse__mutex_fini(copse_mutex *m)
{
    pthread_mutex_destroy(m);
}

void copse__mutex_lock(copse_mutex *m)
{
    pthread_mutex_lock(m);
}

void copse__mutex_unlock(copse_mutex *m)
{
    pthread_mutex_unlock(m);
}

copse_status copse__cond_init(copse_cond *c)
{
    pthread_condattr_t attr;
    int e = pthread_condattr_init(&attr);
    if (!e) {
        e = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        if (!e)
            e = pthread_cond_init(c, &attr);
        pthread_condattr_destroy(&attr);
    }
    return e ? copse_fail(COPSE_ERR_NO_MEMORY, "platform: condition: %s", strerror(e)) : COPSE_OK;
}

void copse__cond_fini(copse_cond *c)
{
    pthread_cond_destroy(c);
}

void copse__cond_signal_all(copse_cond *c)
{
    pthread_cond_broadcast(c);
}

bool copse__cond_wait(copse_cond *c, copse_mutex *m, uint64_t deadline_ns)
{
    if (deadline_ns == UINT64_MAX)
        return pthread_cond_wait(c, m) == 0;

    const struct timespec at = { .tv_sec = (time_t)(deadline_ns / SECOND),
                                 .tv_nsec = (long)(deadline_ns % SECOND) };
    return pthread_cond_timedwait(c, m, &at) != ETIMEDOUT;
}

/* On the creator's stack until the new thread has read it, so no allocation is needed. */
struct start {
    void (*run)(void *);
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t taken_cond;
    bool is_taken;
};

static void *thread_main(void *p)
{
    struct start *start = p;
    pthread_mutex_lock(&start->lock);
    void (*const run)(void *) = start->run;
    void *const arg = start->arg;
    start->is_taken = true;
    pthread_cond_signal(&start->taken_cond);
    pthread_mutex_unlock(&start->lock);
    run(arg);
    return NULL;
}

copse_status copse__thread_start(copse_thread *t, void (*run)(void *), void *arg)
{
    struct start start = { .run = run,
                           .arg = arg,
                           .lock = PTHREAD_MUTEX_INITIALIZER,
                           .taken_cond = PTHREAD_COND_INITIALIZER };
    sigset_t all, old;

    /* The application's signal handlers must run in the application's threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const int e = pthread_create(t, NULL, thread_main, &start);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (e)
        return copse_fail(COPSE_ERR_NO_MEMORY, "platform: thread: %s", strerror(e));

    pthread_mutex_lock(&start.lock);
    while (!start.is_taken)
        pthread_cond_wait(&start.taken_cond, &start.lock);
    pthread_mutex_unlock(&start.lock);
    pthread_cond_destroy(&start.taken_cond);
    pthread_mutex_destroy(&start.lock);
    return COPSE_OK;
}

void copse__thread_join(copse_thread *t)
{
    pthread_join(*t, NULL);
}

uint64_t copse__now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

double copse__seconds_since_1970(void)
{
    struct timespec now;
    return clock_gettime(CLOCK_REALTIME, &now) == 0
               ? (double)now.tv_sec + 1e-9 * (double)now.tv_nsec
               : 0.0;
}

void copse__sleep_ns(uint64_t ns)
{
    struct timespec left = { .tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND) };
    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}

char *copse__time_text(char *out, size_t room)
{
    const time_t now = time(NULL);
    struct tm utc;
    if (!gmtime_r(&now, &utc) || strftime(out, room, "%Y-%m-%d %H:%M UTC", &utc) == 0)
        out[0] = '\0';
    return out;
}

uint32_t copse__cpu_count(void)
{
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (uint32_t)count : 1;
}

uint32_t copse__process_id(void)
{
    return (uint32_t)getpid();
}

bool copse__process_lives(uint32_t id)
{
    if (id == 0 || id > INT32_MAX || id == copse__process_id())
        return false;
    return kill((pid_t)id, 0) == 0 || errno == EPERM;
}

void *copse__library_open(const char *const *names)
{
    void *library = NULL;
    for (; *names && !library; names++)
        library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    return library;
}

void *copse__library_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}

void copse__library_close(void *library)
{
    if (library)
        dlclose(library);
}

bool copse__library_folder(char *path, size_t room)
{
    static const char here;
    Dl_info info;
    if (!dladdr(&here, &info) || !info.dli_fname)
        return false;
    const char *slash = strrchr(info.dli_fname, '/');
    const size_t length = slash ? (size_t)(slash - info.dli_fname) : 1;
    if (length >= room)
        return false;
    memcpy(path, slash ? info.dli_fname : ".", length);
    path[length] = '\0';
    return true;
}

const char *copse__env(const char *name)
{
    if (getuid() != geteuid() || getgid() != getegid())
        return NULL;
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

copse_status copse__file_size(const char *path, uint64_t *size)
{
    struct stat info;
    if (stat(path, &info))
        return copse_fail(COPSE_ERR_IO, "file: '%s': %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return copse_fail(COPSE_ERR_IO, "file: '%s' is not a regular file", path);
    *size = (uint64_t)info.st_size;
    return COPSE_OK;
}

/* A group that is not the user's own counts as others. In a folder above with the sticky bit others
   cannot replace files. */
static const char *distrust_of(const struct stat *s, bool is_above)
{
    const mode_t others = s->st_gid == getegid() ? S_IWOTH : S_IWOTH | S_IWGRP;
    if (s->st_uid != 0 && s->st_uid != geteuid())
        return "belongs to another user";
    if ((s->st_mode & others) && !(is_above && (s->st_mode & S_ISVTX)))
        return "can be written by other users";
    return NULL;
}

/* `path` is absolute. */
static bool is_trusted(char *path, char *why, size_t room)
{
    for (bool is_above = false;; is_above = true) {
        struct stat s;
        const char *at = path[0] ? path : "/",
                   *wrong = lstat(at, &s) == 0 ? distrust_of(&s, is_above) : "cannot be looked at";
        if (wrong)
            snprintf(why, room, "%s %s", at, wrong);
        if (wrong || !path[0])
            return !wrong;
        *strrchr(path, '/') = '\0';
    }
}

void copse__path_trusted(const char *path, char *real, char *why, size_t room)
{
    char *found = realpath(path, NULL);
    *real = *why = '\0';
    if (!found)
        return;
    const size_t length = strlen(found);
    if (length < room)
        memcpy(real, found, length + 1);
    if (!is_trusted(found, why, room))
        *real = '\0';
    free(found);
}

void copse__use_large_pages(void *block, size_t size)
{
#if defined(MADV_HUGEPAGE)
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = copse__round_up((uintptr_t)block, page),
                    end = ((uintptr_t)block + size) / page * page;
    if (end > first)
        /* advice: without it memory is only slower */
        (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
#else
    (void)block;
    (void)size;
#endif
}

bool copse__is_directory(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

void *copse__fenced_alloc(size_t size, void **block, size_t *block_size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *block = NULL;
    if (size > SIZE_MAX - 4 * page)
        return NULL;
    const size_t inside = (size + page - 1) / page * page;
    *block_size = inside + 2 * page;
    char *all = mmap(NULL, *block_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    if (mprotect(all + page, inside, PROT_READ | PROT_WRITE)) {
        munmap(all, *block_size);
        return NULL;
    }
    *block = all;
    return all + page + inside - size;
}

void copse__fenced_free(void *block, size_t block_size)
{
    if (block)
        munmap(block, block_size);
}

/* Resolve symbolic links in the target path of a file, so that they are kept. Pipes and devices are
   refused, because a rename would replace them. */
static copse_status find_target(const char **path, char real[PATH_MAX])
{
    struct stat info;
    if (lstat(*path, &info))
        return COPSE_OK; /* creating the file reports other errors */
    if (S_ISLNK(info.st_mode)) {
        if (!realpath(*path, real) || stat(real, &info))
            return copse_fail(COPSE_ERR_IO, "file: cannot follow the symbolic link '%s': %s", *path,
                              strerror(errno));
        *path = real;
    }
    if (!S_ISREG(info.st_mode))
        return copse_fail(COPSE_ERR_IO, "file: '%s' is not a regular file", *path);
    return COPSE_OK;
}

/* The new file gets owner, group and mode of the one that it replaces. Where the group cannot be
   set, the mode of the group is not kept, because the new one may have other members. False on
   failure. */
static bool keep_mode(int fd, const char *path)
{
    struct stat old;
    if (stat(path, &old))
        return true;
    const bool has_group =
        fchown(fd, old.st_uid, old.st_gid) == 0 || fchown(fd, (uid_t)-1, old.st_gid) == 0;
    return fchmod(fd, old.st_mode & (has_group ? 0777u : 0707u)) == 0;
}

copse_status copse__atomic_open(struct copse_atomic_file *f, struct copse_mem *mem,
                                const char *path)
{
    static atomic_uint counter;
    char real[PATH_MAX];
    copse_status s;
    int fd = -1;

    *f = (struct copse_atomic_file){ 0 };
    COPSE_TRY(find_target(&path, real));
    const bool is_new = access(path, F_OK) != 0;
    const size_t room = strlen(path) + 32;
    f->mem = mem;
    f->path = copse__strdup(mem, path);
    f->temp = copse__alloc(mem, room, 1);
    if (!f->path || !f->temp) {
        s = copse_fail(COPSE_ERR_NO_MEMORY, "file: no memory for the name '%s'", path);
        goto fail;
    }

    /* A killed process with the same process id may have left a file with this name. */
    for (int attempt = 0; attempt < 100 && fd < 0; attempt++) {
        snprintf(f->temp, room, "%s.tmp%x-%x", path, copse__process_id(),
                 atomic_fetch_add(&counter, 1u));
        fd = open(f->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, is_new ? 0666 : 0600);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd >= 0 && (is_new || keep_mode(fd, path)))
        f->stream = fdopen(fd, "wb");
    if (!f->stream) {
        s = copse_fail(COPSE_ERR_IO, "file: cannot create '%s': %s", f->temp, strerror(errno));
        if (fd >= 0) {
            close(fd);
            unlink(f->temp);
        }
        goto fail;
    }
    return COPSE_OK;

fail:
    copse__free(mem, f->path);
    copse__free(mem, f->temp);
    *f = (struct copse_atomic_file){ 0 };
    return s;
}

/* Make the rename durable. Some file systems do not support this and return EINVAL. */
static int sync_directory_of(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        *(slash == path ? slash + 1 : slash) = '\0';
    const int fd = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    const int e = fsync(fd) && errno != EINVAL ? errno : 0;
    close(fd);
    return e;
}

copse_status copse__atomic_commit(struct copse_atomic_file *f)
{
    bool is_written = fflush(f->stream) == 0 && !ferror(f->stream) && fsync(fileno(f->stream)) == 0;
    int e = is_written ? 0 : errno;
    if (fclose(f->stream) && is_written) {
        is_written = false;
        e = errno;
    }
    f->stream = NULL;

    copse_status s = COPSE_OK;
    if (!is_written) {
        s = copse_fail(COPSE_ERR_IO, "file: cannot write '%s': %s", f->temp, strerror(e));
    } else if (rename(f->temp, f->path)) {
        s = copse_fail(COPSE_ERR_IO, "file: cannot rename '%s' to '%s': %s", f->temp, f->path,
                       strerror(errno));
    } else {
        f->temp[0] = '\0'; /* renamed to the target */
        e = sync_directory_of(f->path);
        if (e)
            s = copse_fail(COPSE_ERR_IO, "file: cannot sync the directory of '%s': %s", f->path,
                           strerror(e));
    }
    copse__atomic_abort(f);
    return s;
}

void copse__atomic_abort(struct copse_atomic_file *f)
{
    if (f->stream)
        fclose(f->stream);
    if (f->temp && f->temp[0])
        unlink(f->temp);
    if (f->mem) {
        copse__free(f->mem, f->path);
        copse__free(f->mem, f->temp);
    }
    *f = (struct copse_atomic_file){ 0 };
}
