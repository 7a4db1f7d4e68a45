/* SPDX-License-Identifier: MIT */
/* Tower optimizers where servers have the variables: sums of gradients go there, each variable's as a request of
   its own, and slots and counts of updates stay there. */
#include "core/replica/servers.h"
#include "core/train/tower.h"

static struct copse_server *server_of(const copse_variable *v)
{
    return v->strategy->servers->at[v->server].server;
}

copse_status copse__tower_pull(copse_strategy *st, uint32_t replica, bool is_new)
{
    return st->servers && (is_new || (replica == 0 && copse__tower_is_idle(st))) ? copse__servers_pull(st)
                                                                                 : COPSE_OK;
}

/* The replica that the thread is in, where others come after it or came before; else COPSE_HOST. */
static uint32_t one_of_several(const copse_strategy *st)
{
    const struct copse_frame *f = copse__context_top();
    return f && f->handle && f->strategy == st && st->replica_count > 1 ? f->rank : COPSE_HOST;
}

/* Which of several replicas have handed gradients over and wait for the others. */
static copse_status check_kept(const copse_strategy *st)
{
    for (const copse_tower_optimizer *t = st->towers; t; t = t->next) {
        uint32_t has = COPSE_HOST, misses = 0;
        for (uint32_t r = 0; r < st->replica_count; r++)
            if (t->kept[r].count == 0)
                misses = r;
            else
                has = r;
        if (has != COPSE_HOST)
            return copse_fail(COPSE_ERR_CONTEXT, "trainer: tower optimizer '%s' has gradients of replica %u and none of "
                                                 "replica %u, which computes them from the same values: take the step "
                                                 "when all have handed over, or drop them by copse_tower_finish",
                              t->name, has, misses);
    }
    return COPSE_OK;
}

copse_status copse__tower_pull_step(copse_strategy *st)
{
    if (!st->servers)
        return COPSE_OK;
    const uint32_t replica = one_of_several(st);
    if (replica != COPSE_HOST)
        return copse_fail(COPSE_ERR_CONTEXT, "trainer: a step in replica %u of the parameter server strategy brings "
                                             "other values to all of its replicas, of which some have computed and "
                                             "others have not: take it outside, or in a merge function", replica);
    COPSE_TRY(check_kept(st));
    return copse__servers_pull(st);
}

copse_status copse__tower_pull_evaluation(copse_strategy *st)
{
    return one_of_several(st) == COPSE_HOST && copse__tower_is_idle(st) ? copse__servers_pull(st) : COPSE_OK;
}

copse_status copse__tower_join_group(copse_tower_optimizer *t, struct copse_tower_bucket *b)
{
    const copse_variable *v = b->variable;
    const uint32_t id = t->strategy->servers->at[v->server].ids.at[v->shelf_place];
    uint64_t key = copse__hash(COPSE_HASH_START, t->name, strlen(t->name) + 1);
    key = copse__hash(key, v->name, strlen(v->name)) | 1; /* 0 is none */
    struct copse_server *server = server_of(v);
    COPSE_TRY(server->table->group(server, key, &id, 1, &t->rule.params, &b->group));
    return server->table->updates(server, b->group, false, &b->updates);
}

void copse__tower_leave_group(const copse_tower_optimizer *t, const struct copse_tower_bucket *b)
{
    struct copse_server *server = server_of(b->variable);
    (void)t;
    server->table->drop(server, b->group);
}

/* The sums stand in the bucket's slots, at the owners of its ranges. */
static copse_status read_sum(const copse_tower_optimizer *t, const struct copse_tower_bucket *b, float *to)
{
    const copse_variable *v = b->variable;
    const struct copse_slot_range *list;
    size_t count;
    copse__exchange_slots(t->strategy->store.exchange, b->id, &list, &count);
    for (size_t i = 0; i < count; i++) {
        const uint64_t first = COPSE_MAX(list[i].first, v->first);
        const uint64_t end = COPSE_MIN(list[i].first + list[i].count, v->first + v->count);
        if (first < end)
            COPSE_TRY(copse_queue_read(t->strategy->replicas[list[i].rank].queue, list[i].buffer,
                                       (size_t)(4 * (first - list[i].first)), to + (first - v->first),
                                       (size_t)(4 * (end - first))));
    }
    return COPSE_OK;
}

static copse_status finish(const copse_strategy *st)
{
    copse_status s = COPSE_OK;
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const copse_status done = copse_queue_finish(st->replicas[r].queue);
        s = s ? s : copse_note(done, "while waiting for the gradients of replica %u", r);
    }
    return s;
}

static copse_status push(copse_tower_optimizer *t, struct copse_tower_bucket *b, const float *sum)
{
    uint32_t words[COPSE_STEP_WORDS] = { 0 };
    struct copse_server *server = server_of(b->variable);
    struct copse_server_push p = { .scale = 1.0f, .gradients = sum, .elements = b->variable->count };
    COPSE_TRY(copse__rule_step_of(&t->rule, t, b->updates + 1, words));
    memcpy(&p.rate, &words[COPSE_STEP_RATE], sizeof p.rate);
    return copse_note(server->table->push(server, b->group, &p, &b->updates),
                      "while pushing the gradient of '%s'", b->variable->name);
}

copse_status copse__tower_push(copse_tower_optimizer *t, copse_variable *const *list, size_t count)
{
    copse_strategy *st = t->strategy;
    struct copse_mem *mem = &st->ctx->base.mem;
    struct copse_tower_bucket *b = NULL;
    size_t elements = 0;
    for (size_t i = 0; i < count; i++)
        if (!copse__add(elements, (size_t)list[i]->count, &elements))
            elements = SIZE_MAX;
    float *sums = copse__alloc(mem, elements, sizeof *sums), *at = sums;
    copse_status s = sums ? COPSE_OK : copse_fail(COPSE_ERR_NO_MEMORY, "tower optimizer: no memory");
    for (size_t i = 0; i < count && !s; at += list[i++]->count) {
        s = copse__tower_bucket(t, list[i], &b);
        s = s ? s : read_sum(t, b, at);
    }
    const copse_status landed = finish(st); /* what is queued lands first, whatever failed */
    s = s ? s : landed;
    at = sums;
    for (size_t i = 0; i < count && !s; at += list[i++]->count) {
        s = copse__tower_bucket(t, list[i], &b);
        s = s ? s : push(t, b, at);
    }
    if (landed != COPSE_ERR_TIMEOUT) /* else the device may still write there */
        copse__free(mem, sums);
    return s;
}

copse_status copse__tower_count(copse_strategy *st)
{
    struct copse_server *server = st->servers->at[0].server;
    uint64_t value = 1;
    COPSE_TRY(server->table->counter(server, false, &value));
    st->global_step = value;
    return COPSE_OK;
}
