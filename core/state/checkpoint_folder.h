/* SPDX-License-Identifier: MIT */
/* Where a job keeps its checkpoints: one file, or numbered files in a folder. */
#ifndef COPSE_CHECKPOINT_FOLDER_H
#define COPSE_CHECKPOINT_FOLDER_H

#include "core/base/base.h"

struct copse_checkpoint_folder {
    struct copse_mem *mem;
    char *folder, *file; /* one of them, or neither */
    uint32_t keep;
    /* progress of the files in the folder, ascending */
    struct {
        uint64_t *at;
        size_t count, room;
    } found;
};

copse_status copse__checkpoint_folder_init(struct copse_checkpoint_folder *f, struct copse_mem *mem,
                                           const char *folder, const char *file, uint32_t keep);
void copse__checkpoint_folder_fini(struct copse_checkpoint_folder *f);

/* Make the folder if need be, remove what killed processes left, and find the checkpoints. */
copse_status copse__checkpoint_folder_scan(struct copse_checkpoint_folder *f);
/* Path of the i-th newest that was found, NULL behind the last; freed by the caller.
   COPSE_ERR_NO_MEMORY. */
copse_status copse__checkpoint_folder_path(const struct copse_checkpoint_folder *f, size_t i,
                                           char **out);
/* Path for a checkpoint of that progress; freed by the caller. */
copse_status copse__checkpoint_folder_new(const struct copse_checkpoint_folder *f,
                                          uint64_t progress, char **out);
/* A checkpoint was written: remove the oldest beyond `keep`. */
copse_status copse__checkpoint_folder_written(struct copse_checkpoint_folder *f, uint64_t progress);

#endif
