/* SPDX-License-Identifier: MIT */
/* The file of --hash: a line for each step, with a hash of what the step left. */
#ifndef HASH_FILE_H
#define HASH_FILE_H

#include "copse/train/hash.h"

#include "tools/tool.h"

#define HASH_FILE_HEAD "copse-hash 1"

#define HASH_NOT_GIVEN UINT64_MAX /* no --hash-launches */

struct hash_file {
    FILE *to;             /* NULL: not open */
    const char *path;     /* NULL: none is written */
    bool has_variables;   /* a hash for each variable, too */
    uint64_t launches_of; /* a step whose launches are hashed; 0: none */
    bool is_older;        /* the file of the earlier part of the run, whose head is not checked */
    bool is_headed;       /* it has the lines `variable` */
    bool is_asked;        /* the trainer knows of `launches_of` */
    bool has_launches;
    uint64_t first, last; /* steps that were hashed; 0: none */
};

/* The options of it. */
struct hash_options {
    const char *path; /* NULL: no file */
    bool has_variables;
    uint64_t launches_of; /* HASH_NOT_GIVEN: none */
};
/* clang-format off */
#define HASH_OPTION_ROWS(options, what) \
    { "hash", OPTION_TEXT, &(options)->path, "FILE", \
      "write a hash of " what " after each step, for `copse compare-runs`" }, \
    { "hash-variables", OPTION_FLAG, &(options)->has_variables, NULL, \
      "and a hash of each variable" }, \
    { "hash-launches", OPTION_U64, &(options)->launches_of, "STEP", \
      "and a hash of the result of each launch in this step" }
/* clang-format on */

/* NULL, or what is wrong with the options. */
const char *hash_file_check(const struct hash_options *options);
/* Without a path nothing is written. No file is opened: a run that is refused leaves an older one.
 */
void hash_file_plan(struct hash_file *f, const struct hash_options *options);
/* Before a step. Before the first one an older file is replaced; where `t` has done steps, in a run
   that is resumed, lines are added to it. Each line is there when its step is done. */
copse_status hash_file_begin(struct hash_file *f, copse_trainer *t);
/* The trainer ends, and another one continues the run. */
void hash_file_forget(struct hash_file *f);
/* Hash what the newest step left: waits for it. */
copse_status hash_file_step(struct hash_file *f, copse_trainer *t);
/* After all steps: says on stderr what was asked for and did not come; then hash_file_close. */
copse_status hash_file_end(struct hash_file *f);
/* Allowed on a zeroed struct. COPSE_ERR_IO if the file is not complete. */
copse_status hash_file_close(struct hash_file *f);

#endif
