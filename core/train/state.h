/* SPDX-License-Identifier: MIT */
/* A trainer's arrays as a checkpoint has them: one per variable, and one per variable and optimizer
   slot, whole, wherever their parts stand. */
#ifndef COPSE_STATE_H
#define COPSE_STATE_H

#include "core/train/tower_state.h"
#include "core/train/trainer.h"

#define COPSE_ENTRY_VALUE UINT32_MAX

struct copse_entry {
    const char *name;      /* in a file; of a part that is joined that of the whole */
    const char *part_name; /* joined: what the part alone was called once, else NULL */
    copse_variable *variable;
    uint32_t slot;             /* number of the optimizer slot, or COPSE_ENTRY_VALUE */
    struct copse_array_view view; /* `data`: 4 bytes an element; filled by copse__state_read */
};

struct copse_state {
    copse_trainer *trainer;
    struct copse_arena arena;
    struct copse_entry *entries;
    size_t count;
    bool has_slots;
    void *words;   /* of all entries; NULL before copse__state_read */
    bool is_stuck; /* a device hangs and may still write there */
    struct copse_tower_state towers; /* of the strategy's tower optimizers, in whole states */
};

/* The entries without their data, parts that are joined one behind another: every variable of the strategy and, if
   asked for, the trainer's slots. */
copse_status copse__state_list(copse_trainer *t, bool has_slots, struct copse_state *out);
/* Entry i and those that are joined with it, of which it is the first, as one array; how many they are. */
size_t copse__state_join(const struct copse_state *s, size_t i, struct copse_array_view *out);
void copse__state_fini(struct copse_state *s);
/* From the devices. Blocking: until queued steps have run. */
copse_status copse__state_read(struct copse_state *s);
/* To the devices, from every entry's `view.data`. */
copse_status copse__state_write(const struct copse_state *s);

/* What the checkpoint's checksum covers: all metadata but itself, names and elements of all arrays. */
#define COPSE_CHECKSUM_KEY "checksum"
copse_status copse__checksum(struct copse_mem *mem, const struct copse_checkpoint_params *p,
                             char text[16]);

/* Of a file: the text of a line of metadata, or NULL; a number that must be there, COPSE_ERR_FORMAT else; the
   elements of an array that must be there with this name, type and shape. `path` is for texts. */
const char *copse__state_text(const copse_checkpoint *file, const char *key);
copse_status copse__state_number(const char *path, const copse_checkpoint *file, const char *key, uint64_t most,
                                 uint64_t *out);
copse_status copse__state_find(const char *path, const copse_checkpoint *file, struct copse_named_array *as);

/* What stands in the metadata of a checkpoint besides numbers that change from step to step. */
struct copse_setting {
    const char *key;
    char value[COPSE_CHOICES_TEXT];
};
#define COPSE_UPDATES_KEY "server_updates" /* where servers have the variables: their count */
#define COPSE_GLOBAL_KEY  "global_step"    /* the same: their counter of the job, where it counts */
#define COPSE_SHARES_KEY  "share_weights" /* bits of an f32 for each replica, where not even */
#define COPSE_SHARES_TEXT (16 * COPSE_MAX_REPLICAS)
#define COPSE_SETTINGS    12
size_t copse__settings(const copse_trainer *t, struct copse_setting list[COPSE_SETTINGS]);

#define COPSE_CHECKPOINT_FORMAT "copse-checkpoint-1"
#define COPSE_APPLICATION_ARRAY "application/"
#define COPSE_APPLICATION_KEY   "application."

#endif
