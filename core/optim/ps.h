/* SPDX-License-Identifier: MIT */
/* The optimizer whose variables parameter stores have, from the inside. */
#ifndef COPSE_OPTIM_PS_H
#define COPSE_OPTIM_PS_H

#include "core/optim/optimizer.h"
#include "core/variable/servers.h"

/* A part of a variable's sum of gradients, at one owner. */
struct copse_ps_read {
    copse_queue *queue;
    copse_buffer *buffer;
    size_t offset, size; /* bytes */
    float *to;
};

/* Variables that one store updates together, by one push. */
struct copse_ps_group {
    struct copse_server *server;
    uint32_t id;   /* the server's */
    uint32_t rate; /* the step word of its learning rate */
    copse_variable **list;
    uint32_t count;
    float *gradients; /* one variable behind another */
    uint64_t elements;
    struct {
        struct copse_ps_read *at;
        size_t count, room;
    } reads;
    uint64_t updates; /* as seen last */
    float *words;     /* the snapshot: [variable][values, slot, ...]; NULL: there is none */
    struct copse_server_state state; /* the same */
};

struct copse_ps {
    struct copse_optimizer base;
    struct {
        struct copse_ps_group *at;
        size_t count, room;
    } groups;
    bool is_stuck; /* a device hangs and may still write gradients */
};

static inline struct copse_ps *copse__ps(const struct copse_optimizer *o)
{
    return (struct copse_ps *)(uintptr_t)o;
}

/* ps_pull.c */
copse_status copse__ps_pull(struct copse_optimizer *o, enum copse_pull when, uint32_t replica);

/* ps_state.c */
copse_status copse__ps_read_slot(struct copse_optimizer *o, const copse_variable *v, uint32_t slot,
                                 void *values);
copse_status copse__ps_write_slot(struct copse_optimizer *o, const copse_variable *v, uint32_t slot,
                                  const void *values);
copse_status copse__ps_counts(struct copse_optimizer *o, const copse_variable *v, bool is_set,
                              uint64_t *count);
copse_status copse__ps_snapshot(struct copse_optimizer *o);
void copse__ps_forget(struct copse_optimizer *o);
copse_status copse__ps_progress(struct copse_optimizer *o, enum copse_progress_op op,
                                struct copse_server_progress *all);
struct copse_worker_progress copse__ps_seen(const struct copse_optimizer *o, uint32_t worker);

#endif
