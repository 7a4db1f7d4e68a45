/* SPDX-License-Identifier: MIT */
/* The operating system, as far as the command needs more of it than the library offers:
   system_posix.c and system_windows.c. Paths and texts are UTF-8. Functions that fail set errno. */
#ifndef SYSTEM_H
#define SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The first call of all. Standard streams that are closed are opened, since the next file would
   get their number; all streams take bytes unchanged. The arguments become UTF-8. */
void system_begin(int *argc, char ***argv);

/* ---- time, threads, the machine ---- */

double system_now(void); /* [s] of a clock that is never set */
/* A signal may end it early. */
void system_sleep_ns(long ns);
/* NULL: it cannot be started. */
void *system_thread_start(void (*run)(void *), void *arg);
void system_thread_join(void *thread);
unsigned system_processors(void);
void system_processor_name(char *to, size_t room);
long system_process(void);
/* Names of this machine and of the user; "" where they are unknown. */
void system_names(char *host, size_t host_room, char *user, size_t user_room);
/* A library of the system by the middle of its name: "openblas.0" is libopenblas.so.0. NULL: there
   is none. */
void *system_library(const char *name);
void *system_symbol(void *library, const char *symbol);
bool system_set_environment(const char *name, const char *value);

/* ---- the terminal, programs ---- */

/* Whether standard output is a terminal, and its width if it is known, else 0. */
bool system_is_terminal(unsigned *columns);
/* The file of this program; "" if it is unknown. */
void system_program(char *path, size_t room);
/* A path by which this program can be started again, as long as it runs. */
const char *system_itself(void);
/* Run a program of PATH until it ends, with its output in the file `log`; words[0] is its name, and
   the last word is followed by NULL. Its exit code, or -1: it cannot be run. */
int system_run(const char *const *words, const char *log);
/* Whether PATH has a program of this name. */
bool system_has_program(const char *name);

/* ---- files ---- */

enum system_kind { SYSTEM_FILE, SYSTEM_FOLDER, SYSTEM_OTHER };
struct system_file {
    enum system_kind kind;
    uint64_t device, number; /* the same for all names of a file */
    uint64_t size;
    int64_t changed; /* time of the last change, in units of the system */
};
/* What is at a path, where symbolic links lead to. False: nothing, or it cannot be looked at. */
bool system_look(const char *path, struct system_file *out);
bool system_is_link(const char *path);
bool system_can_read(const char *path);
/* Absolute, without links, with '/' between folders; to be freed. NULL: there is nothing. */
char *system_real_path(const char *path);
/* The part of a path after its folder. */
const char *system_name(const char *path);

FILE *system_open(const char *path, const char *mode);
/* A new file for writing; if there is a file `like`, the new one gets its owner, group and
   mode. errno is EEXIST if the path exists. */
FILE *system_create(const char *path, const char *like);
/* Write to the disk what is in the buffers of a stream. */
bool system_sync(FILE *f);
/* `to` is replaced. */
bool system_rename(const char *from, const char *to);
bool system_remove(const char *path);
bool system_make_folder(const char *path);
bool system_remove_folder(const char *path); /* an empty one */
/* Where the system can: an open file loses its name, so that it ends with the process, however that
   ends; `path` becomes another way to open it while it is open. False: nothing changed. */
bool system_remove_name(FILE *f, char *path, size_t room);
/* A new folder for files that are soon removed. */
bool system_make_temporary(char *path, size_t room);

#endif
