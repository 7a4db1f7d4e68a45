/* SPDX-License-Identifier: MIT */
/* A minimal interface to the operating system: platform_posix.c and platform_windows.c. */
#ifndef COPSE_PLATFORM_H
#define COPSE_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/private.h"

#if defined(_WIN32)
typedef struct {
    void *srw;
} copse_mutex;
typedef struct {
    void *cond;
} copse_cond;
typedef struct {
    void *handle;
    void *start;
} copse_thread;
#else
#    include <pthread.h>
typedef pthread_mutex_t copse_mutex;
typedef pthread_cond_t copse_cond;
typedef pthread_t copse_thread;
#endif

#if defined(_MSC_VER)
#    define COPSE_THREAD_LOCAL __declspec(thread)
#else
#    define COPSE_THREAD_LOCAL _Thread_local
#endif

COPSE_PRIVATE copse_status copse__mutex_init(copse_mutex *m);
COPSE_PRIVATE void copse__mutex_fini(copse_mutex *m);
COPSE_PRIVATE void copse__mutex_lock(copse_mutex *m);
COPSE_PRIVATE void copse__mutex_unlock(copse_mutex *m);

COPSE_PRIVATE copse_status copse__cond_init(copse_cond *c); /* waits on the monotonic clock */
COPSE_PRIVATE void copse__cond_fini(copse_cond *c);
COPSE_PRIVATE void copse__cond_signal_all(copse_cond *c);
/* Wait until signalled or `deadline_ns` (copse__now_ns; UINT64_MAX = none); false on timeout. */
COPSE_PRIVATE bool copse__cond_wait(copse_cond *c, copse_mutex *m, uint64_t deadline_ns);

COPSE_PRIVATE copse_status copse__thread_start(copse_thread *t, void (*run)(void *), void *arg);
COPSE_PRIVATE void copse__thread_join(copse_thread *t);

COPSE_PRIVATE uint64_t copse__now_ns(void); /* monotonic */
double copse__seconds_since_1970(void);     /* 0.0 if unknown */
COPSE_PRIVATE void copse__sleep_ns(uint64_t ns);
/* "2026-11-23 14:05 UTC"; "" if the time is unknown. Returns `out`. */
COPSE_PRIVATE char *copse__time_text(char *out, size_t room);
COPSE_PRIVATE uint32_t copse__cpu_count(void); /* >= 1 */
COPSE_PRIVATE uint32_t copse__process_id(void);
/* Whether another process of this machine has this process id; false for our own. */
bool copse__process_lives(uint32_t id);

/* Memory that ends at a page without access and begins behind another one: an access past the end
   ends the process. The `size` bytes begin at a multiple of 4 if `size` is one. *block is what to
   free. NULL: there is no memory. */
COPSE_PRIVATE void *copse__fenced_alloc(size_t size, void **block, size_t *block_size);
COPSE_PRIVATE void copse__fenced_free(void *block, size_t block_size); /* NULL is allowed */

/* Shared libraries. `names` is NULL-terminated; the first that opens is used. NULL if none
   opens. */
void *copse__library_open(const char *const *names);
void *copse__library_symbol(void *library, const char *name);
void copse__library_close(void *library); /* NULL is allowed */
/* Folder of the library or program that contains this code, without a trailing slash; false if
   unknown. */
COPSE_PRIVATE bool copse__library_folder(char *path, size_t room);

/* Value of an environment variable; NULL if unset, empty, or if the process is privileged. */
COPSE_PRIVATE const char *copse__env(const char *name);

/* Ask the system to map a block of memory that is not yet written with large pages, if it can: the
   first write to 47 MB then takes 23 page faults in place of 11,500. */
void copse__use_large_pages(void *block, size_t size);

/* Files. All paths are UTF-8. Error texts name the path and the system's reason. */
copse_status copse__file_size(const char *path, uint64_t *size);
bool copse__is_directory(const char *path);
/* The path of a file without links, in `real` of `room` bytes, if only this user and the superuser
   can change the file and the folders above it. Otherwise "", and why in `why`, such as "/tmp/x
   belongs to another user"; of a file that is not there "". Windows does not check it. */
void copse__path_trusted(const char *path, char *real, char *why, size_t room);
/* Write a temporary file in the folder of `path`; `path` is unchanged until commit. Symbolic links
   are followed and kept; COPSE_ERR_IO if `path` is something other than a regular file. An old
   file's mode is kept. */
struct copse_mem;
struct copse_atomic_file {
    FILE *stream;
    char *path, *temp; /* owned */
    struct copse_mem *mem;
};
COPSE_PRIVATE copse_status copse__atomic_open(struct copse_atomic_file *f, struct copse_mem *mem,
                                              const char *path);
/* Flush, sync, rename, sync the directory. Closes the file and frees all, also on failure. */
COPSE_PRIVATE copse_status copse__atomic_commit(struct copse_atomic_file *f);
/* Remove the temporary file; allowed on a zeroed struct and after commit. */
COPSE_PRIVATE void copse__atomic_abort(struct copse_atomic_file *f);

#endif
