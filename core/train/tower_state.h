/* SPDX-License-Identifier: MIT */
/* What a strategy's tower optimizers have in checkpoints: an array "<variable>/<name>/<slot>" per slot of a variable
   that was updated, and metadata "tower.<name>....". */
#ifndef COPSE_TOWER_STATE_H
#define COPSE_TOWER_STATE_H

#include "copse/checkpoint.h"
#include "core/train/tower.h"

#define COPSE_TOWER_KEY        "tower."
#define COPSE_TOWER_GLOBAL_KEY "towers.global_step"

struct copse_tower_array {
    copse_tower_optimizer *tower;
    copse_variable *variable;
    uint32_t slot;
    struct copse_named_array named; /* its data: the state's, or the file's */
};

/* How far an optimizer has come. */
struct copse_tower_progress {
    copse_tower_optimizer *tower;
    uint64_t updates;
};

struct copse_tower_state {
    copse_strategy *strategy; /* NULL: there is nothing */
    struct copse_arena arena;
    struct copse_tower_array *arrays;
    size_t count;
    struct copse_metadata *metadata;
    size_t metadata_count;
    const copse_checkpoint *file; /* after a match; the caller's */
    struct copse_tower_progress *progress; /* the same; of every optimizer */
    size_t tower_count;
    uint64_t global_step;
    float *values; /* of all arrays, as read */
    bool is_stuck; /* a device hangs and may still write there */
};

/* COPSE_ERR_DEVICE_LOST or COPSE_ERR_ARGUMENT where an optimizer is not between two whole steps. */
copse_status copse__towers_whole(const copse_strategy *st);
/* Whether an optimizer has updated the variable. */
bool copse__towers_train(const copse_variable *v);

/* The arrays without their data. */
copse_status copse__towers_list(copse_strategy *st, struct copse_tower_state *out);
void copse__towers_fini(struct copse_tower_state *s);
/* From the devices, and from the servers; with all workers of a collective strategy, each of which gets all.
   COPSE_ERR_NONFINITE names what is not finite. Fills the metadata, too. */
copse_status copse__towers_read(struct copse_tower_state *s);
/* What the file has: everything is checked, nothing changed. */
copse_status copse__towers_match(copse_strategy *st, struct copse_tower_state *s, const char *path,
                                 const copse_checkpoint *file);
bool copse__towers_know(const struct copse_tower_state *s, const char *name);
/* What belongs to another past, where servers have been set to what counts by another worker. */
void copse__towers_forget(const copse_strategy *st);
/* Take that over. Gradients that are kept are dropped. With all workers of a collective strategy. */
copse_status copse__towers_write(const struct copse_tower_state *s);

#endif
