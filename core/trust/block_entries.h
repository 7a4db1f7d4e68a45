/* SPDX-License-Identifier: MIT */
/* The entries of a block list in memory, without locks: blocked kernels, the cases that they
   failed, faults that came and went, and the modes that were run. Shared by the files of the list
   only. */
#ifndef COPSE_BLOCK_ENTRIES_H
#define COPSE_BLOCK_ENTRIES_H

#include "core/trust/block_list.h"
#include "core/trust/stored.h"

/* A further case is not listed; the block becomes lasting. */
#define COPSE_MOST_FAILED 1024u
#define COPSE_MOST_MODES  16u

/* How a kernel failed a case. */
enum copse_failure {
    COPSE_FAILED_LATE,  /* once; it blocks the kernel when it is late again */
    COPSE_FAILED,       /* wrong, crashed, lost the device, or late twice */
    COPSE_FAILED_SHAKY, /* wrong, and right when the case was repeated */
};

/* A case that a kernel failed. */
struct copse_failed_case {
    char kernel[48];
    uint64_t id;     /* digest of mode, op and name */
    uint32_t tier;   /* the highest in which it failed */
    uint32_t passes; /* runs in a row that it has passed since */
    enum copse_failure how;
};

/* A mode of conformance that was run. */
struct copse_run_mode {
    char name[16], date[COPSE_DATE];
    char ops[64]; /* the ops that were asked for, "matmul,softmax", cut to the room; "" = all */
    uint32_t tier;
    bool is_whole; /* no case was left out for lack of time */
};

struct copse_block_list {
    struct copse_block_list *next;
    struct copse_stored_id id;
    struct {
        struct copse_blocked_kernel *at;
        size_t count, room;
    } blocked;
    struct {
        struct copse_failed_case *at;
        size_t count, room;
    } failed;
    uint32_t flips;        /* faults that came and went */
    char flip_reason[160]; /* of the newest one */
    struct copse_run_mode modes[COPSE_MOST_MODES];
    size_t mode_count;
    /* the cache held exactly this when it was last read: a difference now is a change by others */
    bool is_kept;
};

/* NULL = none. */
struct copse_blocked_kernel *copse__blocked_find(struct copse_block_list *v, const char *kernel);
struct copse_failed_case *copse__failed_find(struct copse_block_list *v, const char *kernel,
                                             uint64_t id);
/* Whether a failed case keeps the kernel blocked. */
bool copse__failed_has(const struct copse_block_list *v, const char *kernel);

/* Block a kernel. The newest reason replaces the old one of a block that is not stronger: cases are
   weaker than a self-test, which is weaker than a lasting block. A lasting block removes the
   kernel's cases. */
copse_status copse__blocked_add(struct copse_mem *mem, struct copse_block_list *v,
                                const struct copse_blocked_kernel *b);
copse_status copse__failed_add(struct copse_mem *mem, struct copse_block_list *v,
                               const struct copse_failed_case *c);
/* Remove a kernel with its cases. `kernel` NULL: all kernels, and the faults that came and went. */
void copse__blocked_remove(struct copse_block_list *v, const char *kernel);
/* Set the number of passes of each block: the smallest of its cases. */
void copse__blocked_count(struct copse_block_list *v);
/* Add the mode, or replace the run of it with the same ops. A run of all ops at this tier or above
   replaces runs of some ops, and is not followed by them. Of runs of some ops the oldest goes where
   there is no room. */
void copse__mode_add(struct copse_block_list *v, const struct copse_run_mode *m);
void copse__entries_free(struct copse_mem *mem, struct copse_block_list *v);

/* ---- the stored form (block_lines.c): a line for each entry ---- */

/* The stored list replaces the list in memory, so that removals by other contexts and processes
   take effect. If the cache did not keep the list, the stored entries are added to it instead. */
copse_status copse__block_list_load(struct copse_trust *t, struct copse_block_list *v);
copse_status copse__block_list_store(struct copse_trust *t, struct copse_block_list *v);

#endif
