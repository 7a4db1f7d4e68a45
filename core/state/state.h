/* SPDX-License-Identifier: MIT */
/* The state of a training job in a checkpoint: a list of entries, each a named array, and lines of
   metadata. The owners add their entries: variables of a strategy, slots and counts of optimizers,
   counters, seed and position in the data, arrays of the application. The state reads its entries
   from devices and parameter stores, combines the parts of all workers, and writes a file; or it
   finds its entries in a file and writes them back. */
#ifndef COPSE_STATE_H
#define COPSE_STATE_H

#include "copse/data/checkpoint.h"
#include "copse/state.h"
#include "copse/trainer.h"
#include "core/optim/optimizer.h"

struct copse_state_entry {
    const char *name;         /* in a file; for a joined part the name of the whole variable */
    const char *part_name;    /* joined: the name of the single part in older files, else NULL */
    copse_variable *variable; /* NULL: an array of the application */
    struct copse_optimizer *optimizer; /* NULL: the variable's values */
    uint32_t slot;                     /* of the optimizer */
    /* of a replica-local variable: 1 + the rank of all; 0: the aggregate */
    uint32_t component;
    struct copse_array_view view; /* `data` is NULL before the state is read or matched */
};

/* An optimizer whose slots are in the state, and the count of its updates in a file. */
struct copse_state_optimizer {
    struct copse_optimizer *optimizer;
    uint64_t updates;
    struct copse_scaling scaling;
};

/* A setting stored in a checkpoint: the log reports it if a resumed run uses another value. */
struct copse_setting {
    const char *key;
    char value[COPSE_CHOICES_TEXT];
};
#define COPSE_SETTINGS 24

struct copse_state {
    copse_strategy *strategy; /* NULL: an empty state */
    uint64_t step;            /* for texts */
    struct copse_arena arena; /* of names and texts */
    struct {
        struct copse_state_entry *at;
        size_t count, room;
    } entries;
    struct {
        struct copse_state_optimizer *at;
        size_t count, room;
    } optimizers;
    struct {
        struct copse_metadata *at;
        size_t count, room;
    } lines;
    struct copse_setting settings[COPSE_SETTINGS];
    size_t setting_count;
    void *words;   /* data of all entries except the application's; NULL before copse__state_read */
    bool is_stuck; /* a device hangs and may still write to `words` */
    const char *path; /* of the matched file, for texts; the caller owns both */
    const copse_checkpoint *file;
    uint64_t global; /* the file's global step, if there are named optimizers */
};

/* ---- the list (state.c) ---- */

void copse__state_begin(struct copse_state *s, copse_strategy *st, uint64_t step);
void copse__state_end(struct copse_state *s);

/* Add every variable of the strategy; parts of a variable are joined, one after the other. Those
   that another file has are left out. */
copse_status copse__state_add_variables(struct copse_state *s);
/* The same for these variables, in order of creation; all parts of a variable or none. */
copse_status copse__state_add_list(struct copse_state *s, copse_variable *const *list,
                                   size_t count);
/* Add the slots "<variable>/<slot>" of a trainer's optimizer. */
copse_status copse__state_add_optimizer(struct copse_state *s, struct copse_optimizer *o);
/* Data of the application: check its names, add its arrays, add its lines of metadata. */
copse_status copse__state_check_application(const struct copse_state_params *p);
copse_status copse__state_add_application(struct copse_state *s,
                                          const struct copse_state_params *p);
copse_status copse__state_put_application(struct copse_state *s,
                                          const struct copse_state_params *p);
/* Add a line of metadata; `key` and `value` live as long as the state, NULL:
   COPSE_ERR_NO_MEMORY. */
copse_status copse__state_put(struct copse_state *s, const char *key, const char *value);
copse_status copse__state_put_number(struct copse_state *s, const char *key, uint64_t value);
/* Add the writer and the format of the file; then the counters. */
copse_status copse__state_put_head(struct copse_state *s);
copse_status copse__state_put_counters(struct copse_state *s, uint64_t seed,
                                       const struct copse_position *position);
/* Concatenated texts, which live as long as the state; NULL: no memory. */
char *copse__state_text(struct copse_state *s, const char *const *parts, size_t count);
#define COPSE_STATE_TEXT(s, ...)                               \
    copse__state_text(s, (const char *const[]){ __VA_ARGS__ }, \
                      sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *))
/* An entry, without data. */
copse_status copse__state_add(struct copse_state *s, const struct copse_state_entry *e);
/* Words of its data on devices and stores, which may be some bytes more than those of the array. */
uint64_t copse__state_words(const struct copse_state_entry *e);

/* Settings of the strategy, and of a rule. */
void copse__state_set_text(struct copse_state *s, const char *key, const char *value);
void copse__state_set_kernels(struct copse_state *s);
void copse__state_set_replicas(struct copse_state *s);
void copse__state_set_rule(struct copse_state *s, const struct copse_rule *rule);
/* A line of metadata for each of them. */
copse_status copse__state_put_settings(struct copse_state *s);

/* Entry i is the first of entries that are joined: all of them as one array. Returns their
   number. */
size_t copse__state_whole(const struct copse_state *s, size_t i, struct copse_array_view *out);

/* ---- named optimizers (named.c): those of the strategy's list that join a state by their names
   ---- */

/* COPSE_ERR_DEVICE_LOST or COPSE_ERR_ARGUMENT if one is not between two complete steps. */
copse_status copse__state_check_named(const copse_strategy *st);
/* Add the slots "<variable>/<optimizer>/<slot>" of every updated variable. */
copse_status copse__state_add_named(struct copse_state *s);
/* Add their lines of metadata, after the state was read. */
copse_status copse__state_put_named(struct copse_state *s);
/* The same from the file of the state: adds the slots that the file has; checks everything. */
copse_status copse__state_match_named(struct copse_state *s);
/* Called before the slots are written: accumulated gradients are dropped, slots that are not in the
   file become zero. */
copse_status copse__state_reset_named(const struct copse_state *s);
/* Called after the slots are written: sets counts and the global step. */
copse_status copse__state_finish_named(struct copse_state *s);
/* Drop accumulated gradients: another worker has restored the stores. */
void copse__state_forget_named(const copse_strategy *st);

/* ---- values of a variable, 4 bytes an element (entry_values.c) ---- */

/* The aggregate of a replica-local variable; of one without aggregation the first replica's
   component. */
copse_status copse__state_read_variable(copse_variable *v, void *values);
/* A replica-local sum is divided among the replicas. */
copse_status copse__state_write_variable(copse_variable *v, const void *values);

/* ---- components of replica-local variables (components.c) ---- */

#define COPSE_STATE_COMPONENT "/replica_"

/* Add an entry for each component, in rank order, if the strategy has several replicas. */
copse_status copse__state_add_components(struct copse_state *s);
/* The same if the file has them for as many replicas; else the log says that there are none. */
copse_status copse__state_match_components(struct copse_state *s);
/* Whether a replica-local variable of the strategy may have such an array in a file. */
bool copse__state_is_component(const copse_strategy *st, const char *name);
/* Components of all replicas of all workers, one after the other. All workers call it. */
copse_status copse__state_read_components(copse_variable *v, void *values);
/* Nothing on a worker that has not this replica. */
copse_status copse__state_write_component(copse_variable *v, uint32_t rank, const void *values);

/* ---- devices (transfer.c) ---- */

/* Read from devices and stores, from a single moment of each store: this worker's ranges of slots,
   zeros elsewhere. Blocks until queued steps have run. COPSE_ERR_NONFINITE names a trained entry
   that is not finite. */
copse_status copse__state_read(struct copse_state *s);
/* Add the other workers' ranges of the slots. All workers call it. */
copse_status copse__state_join(struct copse_state *s);
/* Write every entry's data to devices and stores. All workers call it. */
copse_status copse__state_write(struct copse_state *s);
/* Barrier of all workers; fails on all if one has failed. `is_torn`: this worker cannot
   continue. */
copse_status copse__state_settle(copse_strategy *st, bool is_torn, copse_status mine,
                                 const char *what);

/* ---- files (checkpoint.c, load.c, restore.c, state_file.c) ---- */

/* Write arrays and metadata; only the chief calls it. `has_checksum` adds a line. */
copse_status copse__state_save(struct copse_state *s, const char *path, bool has_checksum);
/* Whether this worker writes. */
bool copse__state_is_writer(const copse_strategy *st);

/* The state of a job in a checkpoint. */
struct copse_state_counters {
    uint64_t step, seed;
    uint64_t updates, global; /* of servers: their count of updates, the global step (0: absent) */
    struct copse_position position;
};

/* The first worker reads the file and sends it to all. `path` may be NULL on the others. The caller
   releases it. `wants` says of which arrays the elements are read, on every worker the same; NULL:
   of all. */
typedef bool copse_wants_fn(const copse_strategy *st, const struct copse_named_array *array);
copse_status copse__state_load(copse_strategy *st, const char *path, copse_wants_fn *wants,
                               copse_checkpoint **file);
/* Use a file, which together with its path outlives the state; check its format and checksum, and
   read its counters. */
copse_status copse__state_open(struct copse_state *s, const char *path,
                               const copse_checkpoint *file, struct copse_state_counters *out);
/* The file of the state holds what was written. */
copse_status copse__state_check_checksum(const struct copse_state *s);
/* Find every entry of the list in the file, and add those of named optimizers. All errors are found
   before anything is changed. */
copse_status copse__state_match(struct copse_state *s);
/* COPSE_ERR_ARGUMENT if the rule differs; other differences are logged if `is_loud`. */
copse_status copse__state_check_settings(const struct copse_state *s, bool is_loud);
/* The value of a line of the file's metadata, or NULL; a number that must be present. */
const char *copse__state_line(const struct copse_state *s, const char *key);
copse_status copse__state_number(const struct copse_state *s, const char *key, uint64_t most,
                                 uint64_t *out);
/* Fails if the array was not found (NULL) or has another type or shape than `like`. */
copse_status copse__state_check_array(const struct copse_state *s, const char *name,
                                      const struct copse_array_view *found,
                                      const struct copse_array_view *like);
/* The data of an array that must be in the file with this name, type and shape. */
copse_status copse__state_find(const struct copse_state *s, const char *name,
                               const struct copse_array_view *like, const void **data);

/* The data covered by the checkpoint's checksum: all metadata but itself, names and elements of all
   arrays. */
#define COPSE_CHECKSUM_KEY "checksum"
copse_status copse__checksum(struct copse_mem *mem, const struct copse_checkpoint_params *p,
                             char text[16]);

#define COPSE_UPDATES_KEY "server_updates" /* with parameter servers: their count of updates */
/* with parameter servers: the global step, if it is used */
#define COPSE_GLOBAL_KEY        "global_step"
#define COPSE_NAMED_KEY         "tower." /* "tower.<optimizer>....": of a named optimizer */
#define COPSE_NAMED_GLOBAL_KEY  "towers.global_step"
#define COPSE_CHECKPOINT_FORMAT "copse-checkpoint-1"
#define COPSE_APPLICATION_ARRAY "application/"
#define COPSE_APPLICATION_KEY   "application."

#endif
