/* SPDX-License-Identifier: MIT */
/* Helper processes: process_posix.c and process_windows.c. A child process writes to a pipe, which
   this process reads. */
#ifndef COPSE_PROCESS_H
#define COPSE_PROCESS_H

#include "core/base/base.h"

struct copse_process {
    long id;
    int fd; /* read end of the pipe; -1 on Windows, which has handles */
    void *handle, *pipe, *job;
};

struct copse_process_end {
    bool is_known;  /* false: the application took its exit status, or ignores SIGCHLD */
    bool is_signal; /* it died of a signal, or of an exception of Windows */
    int code;
    char name[96]; /* of the signal: "signal 11 (Segmentation fault)" */
};

/* Start a program. Its standard output goes to this process's standard error, its standard input is
   empty. The calling thread outlives the child: the child ends with it. COPSE_ERR_IO: it could not
   be started; COPSE_ERR_UNSUPPORTED: no implementation for this system. */
copse_status copse__process_start(const char *program, const char *const *arguments,
                                  struct copse_process *out);
/* Bytes of the pipe: their number, 0 at the end, -1 if there are none until `deadline_ns`. */
int copse__process_read(const struct copse_process *p, void *bytes, size_t room,
                        uint64_t deadline_ns);
void copse__process_kill(const struct copse_process *p);
/* Wait for its end at most `wait_ns`; false: it has not ended. Other children of this process are
   left alone. */
bool copse__process_reap(const struct copse_process *p, uint64_t wait_ns,
                         struct copse_process_end *out);
/* Close the pipe. */
void copse__process_close(struct copse_process *p);
/* Free the rest, after the last copse__process_reap. */
void copse__process_forget(struct copse_process *p);

/* Whether a file can be executed. */
bool copse__program_exists(const char *path);
/* A separator of the folders in PATH. */
extern const char copse_path_separator;
/* Name of the command in a folder: "copse". */
extern const char *const copse_command_name;

/* ---- in the child ---- */

/* Whether this process was started by copse__process_start. */
bool copse__process_is_child(void);
/* End with the process that started this one; false: that process has ended, or there is no
   pipe. */
bool copse__child_begin(long parent);
/* Write to the pipe; false: its reader is gone. */
bool copse__child_write(const char *bytes, size_t size);

#endif
