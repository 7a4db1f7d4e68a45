/* SPDX-License-Identifier: MIT */
/* A parameter store: values of variables on one device, with optimizer slots and counts of updates.
   It is a server of this process; a ps task has one, too. One thread at a time. */
#ifndef COPSE_PARAMETER_STORE_H
#define COPSE_PARAMETER_STORE_H

#include "core/ps/server.h"
#include "core/rule/rule.h"

struct copse_pstore_variable {
    char *name;
    copse_type type;
    copse_shape shape;
    uint64_t count, version;         /* elements; changes, from 1 */
    copse_buffer *values, *gradient; /* the latter when an optimizer has it */
};

struct copse_pstore_group {
    bool is_used;
    uint32_t *ids, count;
    uint64_t elements; /* of all its variables */
    struct copse_rule rule;
    copse_buffer **slots; /* one per variable: [slot][element]; NULL without slots */
    struct copse_segment *update;
    struct { /* of a rule that trusts */
        /* of each variable: what the gradient or update and the values measure */
        copse_buffer *parts;
        struct copse_segment *measure;
    } trust;
    uint64_t updates;
    bool is_checked; /* its launches were compared with the host, or need not be */
    bool is_torn;    /* memory could not be restored behind that */
    struct copse_server_progress progress;
};

struct copse_pstore {
    struct copse_server server; /* its table has the functions of this store */
    copse_context *ctx;         /* retained */
    copse_device *dev;
    copse_queue *queue;
    copse_buffer *step;
    struct {
        struct copse_pstore_variable *at;
        size_t count, room;
    } variables;
    struct {
        struct copse_pstore_group *at;
        size_t count, room;
    } groups;
    uint64_t counter;
    void *staging; /* host memory of reads */
    size_t staging_bytes;
    bool is_stuck; /* the device hangs and may still write to `staging` */
};

copse_status copse__pstore_create(copse_context *ctx, const char *device,
                                  struct copse_pstore **out);
void copse__pstore_release(struct copse_pstore **at);

/* parameter_store_values.c. COPSE_ERR_ARGUMENT when there is none. */
copse_status copse__pstore_find(struct copse_pstore *s, uint32_t id,
                                struct copse_pstore_variable **out);
copse_status copse__pstore_group(struct copse_pstore *s, uint32_t group,
                                 struct copse_pstore_group **out);
/* Whether a group has these variables and this rule. */
bool copse__pstore_group_is(const struct copse_pstore_group *g, const uint32_t *ids, uint32_t count,
                            const struct copse_optimizer_params *rule);
/* Id of a variable by name, or UINT32_MAX. */
uint32_t copse__pstore_named(const struct copse_pstore *s, const char *name);
/* Values of several variables, concatenated, in memory of the store until its next call. */
copse_status copse__pstore_snapshot(struct copse_pstore *s, const uint32_t *ids, uint32_t count,
                                    const void **values);
/* The same of a slot. */
copse_status copse__pstore_snapshot_slot(struct copse_pstore *s, uint32_t group, uint32_t member,
                                         uint32_t slot, const void **values, uint64_t *bytes);

/* All of a group, in the order of `snapshot` of the table. */
copse_status copse__pstore_snapshot_group(struct copse_pstore *s, uint32_t group,
                                          const void **words, uint64_t *bytes);

/* Reserve memory that reads are queued into; wait for these reads. */
copse_status copse__pstore_reserve_staging(struct copse_pstore *s, size_t bytes);
copse_status copse__pstore_wait_reads(struct copse_pstore *s);

/* parameter_store_groups.c: entries of the table */
copse_status copse__pstore_do_group(struct copse_server *server, uint64_t key, const uint32_t *ids,
                                    uint32_t count, const struct copse_optimizer_params *rule,
                                    uint32_t *group);
void copse__pstore_do_drop(struct copse_server *server, uint32_t group);
copse_status copse__pstore_do_push(struct copse_server *server, uint32_t group,
                                   const struct copse_server_push *p, uint64_t *count);
copse_status copse__pstore_do_updates(struct copse_server *server, uint32_t group, bool is_set,
                                      uint64_t *count);
copse_status copse__pstore_do_slot(struct copse_server *server, uint32_t group, uint32_t member,
                                   uint32_t slot, bool is_set, uint64_t count, void *values);
copse_status copse__pstore_do_snapshot(struct copse_server *server, uint32_t group, uint64_t count,
                                       void *words, struct copse_server_state *out);
copse_status copse__pstore_do_progress(struct copse_server *server, uint32_t group,
                                       enum copse_progress_op op,
                                       struct copse_server_progress *progress);

/* parameter_store_trust.c: of a rule that trusts. Memory for the factors of all variables; the
   factors of variable `member`, which the update reads; record the measures behind that. */
copse_status copse__pstore_trust_begin(struct copse_pstore *s, struct copse_pstore_group *g);
struct copse_binding copse__pstore_trust_factors(const struct copse_pstore *s,
                                                 const struct copse_pstore_group *g,
                                                 uint32_t member);
copse_status copse__pstore_trust_record(struct copse_pstore *s, struct copse_pstore_group *g);
void copse__pstore_trust_end(struct copse_pstore_group *g);
/* Measure the gradients that were written, and write the factors. Waits for the device. */
copse_status copse__pstore_trust(struct copse_pstore *s, struct copse_pstore_group *g, float scale);

/* parameter_store_check.c: before a push. The step words are written. COPSE_ERR_UNRELIABLE: a
   launch of the group's update is wrong; no variable has changed. */
copse_status copse__pstore_check(struct copse_pstore *s, struct copse_pstore_group *g);

extern const struct copse_server_table copse__pstore_table;

#endif
