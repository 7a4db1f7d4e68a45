/* SPDX-License-Identifier: MIT */
/* Opens files for reading, makes and removes files, lists and creates folders. Paths are UTF-8. */
#ifndef COPSE_FILES_H
#define COPSE_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/private.h"

/* Open a regular file for reading bytes and return its size. Anything else (a folder, a pipe, a
   device) is refused without blocking. Error texts name the path and the system's reason. */
COPSE_PRIVATE copse_status copse__file_open(const char *path, FILE **out, uint64_t *size);

/* The part of a path after its folder: "b.csv" of "a/b.csv". */
COPSE_PRIVATE const char *copse__path_name(const char *path);

/* Whether a path has this ending, in lower case, whatever the case in the path. */
bool copse__path_ends(const char *path, const char *ending);

/* Go to a byte of a file, which may be beyond 4 GB; false on failure. */
bool copse__file_seek(FILE *stream, uint64_t at);

/* Make a file for writing bytes. If one of this name exists, *out is NULL and the result
   COPSE_OK. */
copse_status copse__file_create(const char *path, FILE **out);

/* Call `take` with the name of every entry, in the system's order, until it returns false. */
copse_status copse__folder_list(const char *path, bool (*take)(void *user, const char *name),
                                void *user);

/* Create a folder; succeeds if it exists. Its parent must exist. `is_new`: whether it did not
   exist; may be NULL. */
copse_status copse__folder_make(const char *path, bool *is_new);

/* Give a folder another name, which nothing has. */
copse_status copse__folder_rename(const char *from, const char *to);

/* Whether two paths lead to one file or folder, which exists. */
bool copse__file_is_same(const char *a, const char *b);

/* Whether a folder has this name, also one that cannot be read or leads nowhere. */
bool copse__path_exists(const char *path);

/* Remove a folder if it is empty. */
void copse__folder_remove(const char *path);

/* Remove a file; succeeds if it does not exist. */
copse_status copse__file_remove(const char *path);

#endif
