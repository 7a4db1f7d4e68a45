/* SPDX-License-Identifier: MIT */
/* Files and folders of an application. Functions that return a truth value print a line on stderr
   that says what is wrong, and return false; questions print nothing. */
#ifndef APPS_FILES_H
#define APPS_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Lines on stderr begin with it; the application defines it. */
extern const char program_name[];

/* Print "program: path: what"; false. */
bool files_refuse(const char *path, const char *what);
/* Print that there is no memory; false. */
bool files_no_memory(void);

/* Files of a folder and of its folders, in the order of their paths; free with files_free. */
struct files {
    char **at;
    size_t count, room;
    size_t left_out; /* links, and what is no regular file and no folder */
};

/* List them. Names that begin with a dot are not counted. */
bool files_list(const char *folder, struct files *out);
void files_free(struct files *f);

/* Whether `path`, which may be new, is `place`, or in it if that is a folder. A question. */
bool files_has(const char *place, const char *path);

/* Whether two paths, which may be new, are one file. A question. */
bool files_is_same(const char *a, const char *b);

/* Questions. A link to a file is there, also if the file is not. */
bool files_exist(const char *path);
bool files_is_folder(const char *path);
bool files_has_ending(const char *path, const char *ending);

/* Whether a file can be made at `path`, or, with `takes_folder`, in it if that is a folder. */
bool files_is_writable(const char *path, bool takes_folder);

/* Make a new file beside `path`, to be renamed; no file that is there is opened. `name`: its name,
   to be freed. NULL: a line on stderr. */
FILE *files_make_part(const char *path, char **name);
/* Rename a file of files_make_part to `path`, or remove it. Prints nothing. */
bool files_replace(const char *part, const char *path);

#endif
