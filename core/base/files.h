/* SPDX-License-Identifier: MIT */
/* Opening files for reading, removing them, listing and making folders. Paths are UTF-8. */
#ifndef COPSE_FILES_H
#define COPSE_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "copse/status.h"

/* Open a regular file for reading bytes and tell its size. Anything else (a folder, a pipe, a
   device) is refused without waiting. Failure text names the path and the system's reason. */
copse_status copse__file_open(const char *path, FILE **out, uint64_t *size);

/* Call `take` with the name of every entry, in the system's order, until it returns false. */
copse_status copse__folder_list(const char *path, bool (*take)(void *user, const char *name),
                                void *user);

/* Make a folder; fine when it is there. Its parent must be. */
copse_status copse__folder_make(const char *path);

/* Remove a file; fine when there is none. */
copse_status copse__file_remove(const char *path);

#endif
