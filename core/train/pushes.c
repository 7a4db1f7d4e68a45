/* SPDX-License-Identifier: MIT */
/* What a push reads stands in the slots of the exchange's buckets, at the owners of the sums; where each
   part goes is decided once. */
#include "core/replica/servers.h"
#include "core/train/pushes.h"
#include "core/train/state.h"

/* A part of a variable's gradient, at one owner. */
struct copse_push_read {
    copse_queue *queue;
    copse_buffer *buffer;
    size_t offset, size; /* bytes */
    float *to;
};

/* What one server updates. */
struct copse_push_target {
    struct copse_server *server; /* NULL: nothing */
    uint32_t group;
    copse_variable **list;
    uint32_t count;
    float *gradients;
    uint64_t elements; /* of all of them */
    uint64_t updates; /* as seen last */
    float *looked; /* [variable][values, slot, ...]; NULL: nobody has */
    struct copse_server_state state; /* the same */
};

struct copse_pushes {
    uint32_t target_count;
    struct copse_push_target *targets; /* one per server */
    struct { struct copse_push_read *at; size_t count, room; } reads;
    bool is_stuck; /* a device hangs and may still write gradients */
};

static copse_status no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory");
}

/* ---- what goes where ---- */

static copse_status keep(void *user, copse_device *dev, const struct copse_update *u,
                         struct copse_command *out)
{
    (void)user;
    (void)dev;
    *out = (struct copse_command){ .kind = COPSE_COMMAND_COPY,
                                   .bindings = { u->gradients, u->slots },
                                   .binding_count = 2 };
    return COPSE_OK;
}

struct copse_exchange_rule copse__push_rule(void)
{
    return (struct copse_exchange_rule){ .slots = 1, .update = keep, .stays = true };
}

/* The slot ranges of the variable's bucket that hold parts of it. */
static copse_status plan_reads(copse_trainer *t, const copse_variable *v, float *to)
{
    copse_strategy *st = t->strategy;
    const struct copse_slot_range *list;
    size_t count;
    copse__exchange_slots(st->store.exchange, t->buckets.ids[copse__bucket_of(&t->buckets, v)], &list,
                          &count);
    for (size_t i = 0; i < count; i++) {
        const uint64_t first = COPSE_MAX(list[i].first, v->first);
        const uint64_t end = COPSE_MIN(list[i].first + list[i].count, v->first + v->count);
        if (first >= end)
            continue;
        const struct copse_push_read read = {
            .queue = st->replicas[list[i].rank].queue,
            .buffer = list[i].buffer,
            .offset = (size_t)(4 * (first - list[i].first)),
            .size = (size_t)(4 * (end - first)),
            .to = to + (first - v->first),
        };
        if (!COPSE_PUSH(&st->ctx->base.mem, &t->pushes->reads, read))
            return no_memory();
    }
    return COPSE_OK;
}

static copse_status make_target(copse_trainer *t, uint32_t k)
{
    copse_strategy *st = t->strategy;
    struct copse_mem *mem = &st->ctx->base.mem;
    struct copse_push_target *target = &t->pushes->targets[k];
    target->list = copse__alloc(mem, t->trained_count, sizeof(copse_variable *));
    uint32_t *ids = copse__alloc(mem, t->trained_count, sizeof *ids);
    for (size_t i = 0; ids && target->list && i < t->trained_count; i++)
        if (t->trained[i]->server == k) {
            ids[target->count] = st->servers->at[k].ids.at[t->trained[i]->shelf_place];
            target->list[target->count++] = t->trained[i];
            target->elements += t->trained[i]->count;
        }
    target->gradients = copse__alloc(mem, (size_t)target->elements + 1, sizeof *target->gradients);
    copse_status s = ids && target->list && target->gradients ? COPSE_OK : no_memory();
    struct copse_server *server = st->servers->at[k].server;
    if (!s && target->count > 0)
        s = server->table->group(server, 0, ids, target->count, &t->rule.params, &target->group);
    if (!s && target->count > 0) {
        target->server = server;
        s = server->table->updates(server, target->group, false, &target->updates);
    }
    copse__free(mem, ids);
    float *to = target->gradients;
    for (uint32_t i = 0; i < target->count && !s; i++) {
        s = plan_reads(t, target->list[i], to);
        to += target->list[i]->count;
    }
    return s;
}

copse_status copse__pushes_make(copse_trainer *t)
{
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    const uint32_t count = t->strategy->servers->count;
    t->pushes = copse__alloc(mem, 1, sizeof *t->pushes);
    if (!t->pushes)
        return no_memory();
    t->pushes->targets = copse__alloc(mem, count, sizeof *t->pushes->targets);
    if (!t->pushes->targets)
        return no_memory();
    t->pushes->target_count = count;
    for (uint32_t k = 0; k < count; k++)
        COPSE_TRY(make_target(t, k));
    return COPSE_OK;
}

void copse__pushes_forget(copse_trainer *t)
{
    for (uint32_t k = 0; t->pushes && t->pushes->targets && k < t->pushes->target_count; k++) {
        copse__free(&t->strategy->ctx->base.mem, t->pushes->targets[k].looked);
        t->pushes->targets[k].looked = NULL;
    }
}

void copse__pushes_free(copse_trainer *t)
{
    copse__pushes_forget(t);
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    struct copse_pushes *p = t->pushes;
    for (uint32_t k = 0; p && k < p->target_count; k++) {
        struct copse_push_target *target = &p->targets[k];
        if (target->server)
            target->server->table->drop(target->server, target->group);
        copse__free(mem, target->list);
        if (!p->is_stuck)
            copse__free(mem, target->gradients);
    }
    if (p) {
        copse__free(mem, p->targets);
        copse__free(mem, p->reads.at);
    }
    copse__free(mem, p);
    t->pushes = NULL;
}

/* ---- a push ---- */

uint64_t copse__pushes_next(const copse_trainer *t)
{
    uint64_t most = 0;
    for (uint32_t k = 0; k < t->pushes->target_count; k++)
        most = COPSE_MAX(most, t->pushes->targets[k].updates);
    return most + 1;
}

static copse_status read_sums(copse_trainer *t)
{
    const copse_strategy *st = t->strategy;
    struct copse_pushes *p = t->pushes;
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < p->reads.count && !s; i++) {
        const struct copse_push_read *r = &p->reads.at[i];
        s = copse_queue_read(r->queue, r->buffer, r->offset, r->to, r->size);
    }
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const copse_status done = copse_queue_finish(st->replicas[r].queue);
        p->is_stuck |= done == COPSE_ERR_TIMEOUT;
        if (!s)
            s = copse_note(done, "while waiting for the gradients of replica %u", r);
    }
    return s;
}

copse_status copse__pushes_send(copse_trainer *t)
{
    COPSE_TRY(read_sums(t));
    struct copse_server_push push = {
        .place = { .steps = t->step + 1, .batch = t->next.batch, .epoch = t->next.epoch },
    };
    memcpy(&push.rate, &t->words[COPSE_STEP_RATE], sizeof push.rate);
    memcpy(&push.scale, &t->words[COPSE_STEP_SCALE], sizeof push.scale);
    for (uint32_t k = 0; k < t->pushes->target_count; k++) {
        struct copse_push_target *target = &t->pushes->targets[k];
        push.gradients = target->gradients;
        push.elements = target->elements;
        if (target->server)
            COPSE_TRY(target->server->table->push(target->server, target->group, &push,
                                                  &target->updates));
    }
    return COPSE_OK;
}

/* ---- for checkpoints ---- */

copse_status copse__pushes_look(copse_trainer *t)
{
    copse__pushes_forget(t);
    for (uint32_t k = 0; k < t->pushes->target_count; k++) {
        struct copse_push_target *target = &t->pushes->targets[k];
        size_t count;
        if (!target->server)
            continue;
        if (!copse__mul((size_t)target->elements, 1 + t->rule.slots, &count))
            return no_memory();
        target->looked = copse__alloc(&t->strategy->ctx->base.mem, count, sizeof *target->looked);
        if (!target->looked)
            return no_memory();
        COPSE_TRY(target->server->table->look(target->server, target->group, count, target->looked,
                                              &target->state));
        target->updates = target->state.updates;
    }
    return COPSE_OK;
}

const float *copse__pushes_seen(const copse_trainer *t, const copse_variable *v, uint32_t slot)
{
    const struct copse_push_target *target = &t->pushes->targets[v->server];
    const uint64_t each = 1 + t->rule.slots;
    const float *at = target->looked;
    for (uint32_t i = 0; i < target->count && target->list[i] != v; i++)
        at += each * target->list[i]->count;
    return slot == COPSE_ENTRY_VALUE ? at : at + (1 + slot) * v->count;
}

uint64_t copse__pushes_seen_updates(const copse_trainer *t)
{
    uint64_t most = 0;
    for (uint32_t k = 0; k < t->pushes->target_count; k++)
        if (t->pushes->targets[k].server)
            most = COPSE_MAX(most, t->pushes->targets[k].state.updates);
    return most;
}

struct copse_server_place copse__pushes_seen_place(const copse_trainer *t, uint32_t worker)
{
    struct copse_server_place least = { .steps = UINT64_MAX };
    for (uint32_t k = 0; k < t->pushes->target_count; k++) {
        const struct copse_server_place *at = &t->pushes->targets[k].state.places.at[worker];
        if (t->pushes->targets[k].server && at->steps < least.steps)
            least = *at;
    }
    return least;
}

copse_status copse__pushes_set_slot(const copse_trainer *t, const copse_variable *v, uint32_t slot,
                                    const void *values)
{
    struct copse_push_target *target = &t->pushes->targets[v->server];
    uint32_t member = 0;
    while (member < target->count && target->list[member] != v)
        member++;
    return member < target->count
               ? target->server->table->slot(target->server, target->group, member, slot, true,
                                             v->count, (void *)(uintptr_t)values)
               : copse_fail(COPSE_ERR_INTERNAL, "trainer: '%s' has no slots", v->name);
}

copse_status copse__pushes_places(const copse_trainer *t, enum copse_server_say say,
                                  struct copse_server_places *places)
{
    for (uint32_t k = 0; k < t->pushes->target_count; k++) {
        struct copse_push_target *target = &t->pushes->targets[k];
        if (!target->server)
            continue;
        COPSE_TRY(target->server->table->places(target->server, target->group, say, places));
        if (say == COPSE_PLACES_READ && !places->is_open)
            break;
    }
    return COPSE_OK;
}

copse_status copse__pushes_updates(const copse_trainer *t, bool is_set, uint64_t *count)
{
    const uint64_t wanted = *count;
    for (uint32_t k = 0; k < t->pushes->target_count; k++) {
        struct copse_push_target *target = &t->pushes->targets[k];
        uint64_t one = wanted;
        if (!target->server)
            continue;
        COPSE_TRY(target->server->table->updates(target->server, target->group, is_set, &one));
        target->updates = one;
        *count = one;
    }
    return COPSE_OK;
}
