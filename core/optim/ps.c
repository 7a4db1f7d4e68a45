/* SPDX-License-Identifier: MIT */
/* The optimizer whose variables parameter stores have, here or with a ps task. The exchange sums
   the gradients of this worker's replicas and keeps the sums at their owners; a commit reads them
   and pushes them, one message for each group. What goes where is decided when the group is
   made. */
#include "core/optim/ps.h"

/* ---- groups ---- */

static void free_group(struct copse_ps *ps, struct copse_ps_group *g)
{
    struct copse_mem *mem = &ps->base.strategy->ctx->base.mem;
    if (g->server)
        g->server->table->drop(g->server, g->id);
    copse__free(mem, g->list);
    copse__free(mem, g->reads.at);
    copse__free(mem, g->words);
    if (!ps->is_stuck)
        copse__free(mem, g->gradients);
}

static copse_status plan_reads(struct copse_ps *ps, struct copse_ps_group *g)
{
    float *to = g->gradients;
    struct copse_slot_part p;
    for (uint32_t m = 0; m < g->count; to += g->list[m++]->count)
        for (size_t i = 0; copse__slot_part(&ps->base, g->list[m], i, &p); i++) {
            const struct copse_ps_read read = { p.queue, p.buffer,
                                                COPSE_WORD_BYTES * (size_t)p.first,
                                                COPSE_WORD_BYTES * (size_t)p.count, to + p.at };
            if (p.count > 0 && !COPSE_PUSH(&ps->base.strategy->ctx->base.mem, &g->reads, read))
                return copse_no_memory("optimizer");
        }
    return COPSE_OK;
}

/* All workers' optimizers of one name share the groups of their variables. */
static uint64_t key_of(const struct copse_optimizer *o, const copse_variable *v)
{
    if (!o->name[0])
        return 0;
    const uint64_t key = copse__hash(COPSE_HASH_START, o->name, strlen(o->name) + 1);
    return copse__hash(key, v->name, strlen(v->name)) | 1; /* 0 is none */
}

/* `g` has its list. */
static copse_status fill_group(struct copse_ps *ps, struct copse_ps_group *g,
                               const struct copse_server_store *on)
{
    struct copse_optimizer *o = &ps->base;
    const struct copse_rule *rule = &o->of_group[copse__optimizer_group(o, g->list[0])];
    struct copse_mem *mem = &o->strategy->ctx->base.mem;
    uint32_t *ids = copse__alloc(mem, g->count, sizeof *ids);
    g->rate = COPSE_STEP_RATE + rule->group;
    for (uint32_t i = 0; i < g->count && ids; i++) {
        ids[i] = on->ids.at[g->list[i]->server_index];
        g->elements += g->list[i]->count;
    }
    g->gradients = copse__alloc(mem, (size_t)g->elements + 1, sizeof *g->gradients);
    copse_status s = ids && g->gradients ? COPSE_OK : copse_no_memory("optimizer");
    if (!s)
        s = on->server->table->group(on->server, key_of(o, g->list[0]), ids, g->count,
                                     &rule->params, &g->id);
    if (!s) {
        g->server = on->server;
        s = g->server->table->updates(g->server, g->id, false, &g->updates);
    }
    copse__free(mem, ids);
    return s ? s : plan_reads(ps, g);
}

/* The variables of the list that server `k` has, of one parameter group: one rule updates them. */
static copse_status make_group(struct copse_ps *ps, copse_variable *const *list, size_t count,
                               uint32_t k, uint32_t group)
{
    const copse_strategy *st = ps->base.strategy;
    struct copse_mem *mem = &st->ctx->base.mem;
    struct copse_ps_group g = { .list = copse__alloc(mem, count, sizeof(copse_variable *)) };
    copse_status s = g.list ? COPSE_OK : copse_no_memory("optimizer");
    for (size_t i = 0; i < count && !s; i++)
        if (list[i]->server == k && copse__optimizer_group(&ps->base, list[i]) == group)
            g.list[g.count++] = list[i];
    if (!s && g.count > 0)
        s = fill_group(ps, &g, &copse__servers_of(st)->at[k]);
    if (!s && g.count > 0 && !COPSE_PUSH(mem, &ps->groups, g))
        s = copse_no_memory("optimizer");
    if (s || g.count == 0)
        free_group(ps, &g);
    return s;
}

/* ---- the table ---- */

/* A rule of the exchange that keeps the sums, as a slot, and changes no value. */
static copse_status ps_keep(void *user, copse_device *dev, const struct copse_update *u,
                            struct copse_command *out)
{
    (void)user;
    (void)dev;
    *out = (struct copse_command){ .kind = COPSE_COMMAND_COPY,
                                   .bindings = { u->gradients, u->slots },
                                   .binding_count = 2 };
    return COPSE_OK;
}

/* What is made after these counts is dropped. */
static void drop_from(struct copse_ps *ps, size_t buckets, size_t groups)
{
    while (ps->groups.count > groups)
        free_group(ps, &ps->groups.at[--ps->groups.count]);
    copse__optimizer_drop(&ps->base, buckets);
}

static copse_status prepare_together(struct copse_optimizer *o, copse_variable *const *list,
                                     size_t count)
{
    const struct copse_exchange_rule rule = { .slots = 1,
                                              .update = ps_keep,
                                              .stays = true,
                                              .is_summed =
                                                  copse__strategy_has_own_sums(o->strategy) };
    COPSE_TRY(copse__optimizer_cut(o, list, count, &rule));
    for (uint32_t k = 0; k < copse__servers_of(o->strategy)->count; k++)
        for (uint32_t group = 0; group <= o->rule.groups.count; group++)
            COPSE_TRY(make_group(copse__ps(o), list, count, k, group));
    return o->rule.clips ? copse__norms_room(o) : COPSE_OK;
}

/* A server counts the updates of each variable of a named optimizer. */
static copse_status ps_prepare(struct copse_optimizer *o, copse_variable *const *list, size_t count)
{
    struct copse_ps *ps = copse__ps(o);
    const size_t buckets = o->buckets.count, groups = ps->groups.count;
    copse_status s = o->name[0] ? COPSE_OK : prepare_together(o, list, count);
    for (size_t i = 0; o->name[0] && i < count && !s; i++)
        s = prepare_together(o, &list[i], 1);
    if (s)
        drop_from(ps, buckets, groups);
    return s;
}

static copse_status ps_apply(struct copse_optimizer *o, uint32_t bucket,
                             const struct copse_optimizer_ready *ready)
{
    o->buckets.at[bucket].is_kept = true;
    return copse__optimizer_exchange(o, bucket, ready);
}

static copse_status ps_queue(struct copse_optimizer *o, uint32_t bucket)
{
    o->buckets.at[bucket].is_kept = true;
    return copse__optimizer_local.queue(o, bucket);
}

static bool is_kept(const struct copse_optimizer *o, const struct copse_ps_group *g)
{
    return o->buckets.at[copse__optimizer_bucket(o, g->list[0])].is_kept;
}

static copse_status read_sums(struct copse_ps *ps)
{
    const copse_strategy *st = ps->base.strategy;
    copse_status s = COPSE_OK;
    for (size_t k = 0; k < ps->groups.count; k++) {
        const struct copse_ps_group *g = &ps->groups.at[k];
        for (size_t i = 0; is_kept(&ps->base, g) && i < g->reads.count && !s; i++) {
            const struct copse_ps_read *r = &g->reads.at[i];
            s = copse_queue_read(r->queue, r->buffer, r->offset, r->to, r->size);
        }
    }
    /* what is queued lands first, whatever failed */
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const copse_status done = copse_queue_finish(st->replicas[r].queue);
        ps->is_stuck |= done == COPSE_ERR_TIMEOUT;
        if (!s)
            s = copse_note(done, "while waiting for the gradients of replica %u", r);
    }
    return s;
}

/* The sums as the store gets them: it knows the update alone. */
static void ps_clip(const struct copse_optimizer *o, struct copse_ps_group *g, float scale)
{
    const float most = o->rule.params.clip_value / scale;
    for (uint64_t i = 0; most > 0.0f && i < g->elements; i++)
        g->gradients[i] = g->gradients[i] > most    ? most
                          : g->gradients[i] < -most ? -most
                                                    : g->gradients[i];
}

/* Norms are those of this worker's sums over all servers. */
static void ps_measure(struct copse_ps *ps)
{
    struct copse_optimizer *o = &ps->base;
    if (!o->rule.clips)
        return;
    copse__norms_clear(o);
    for (size_t k = 0; k < ps->groups.count; k++) {
        const struct copse_ps_group *g = &ps->groups.at[k];
        const float *at = g->gradients;
        for (uint32_t m = 0; is_kept(o, g) && m < g->count; at += g->list[m++]->count)
            copse__norms_add(o, g->list[m]->index, at, g->list[m]->count);
    }
}

static void clip_norm(const struct copse_optimizer *o, struct copse_ps_group *g, float scale)
{
    float *at = g->gradients;
    for (uint32_t m = 0; o->rule.params.clip_norm > 0.0f && m < g->count;
         at += g->list[m++]->count) {
        const float factor = copse__norms_factor(o, g->list[m]->index, scale);
        for (uint64_t i = 0; i < g->list[m]->count; i++)
            at[i] *= factor;
    }
}

/* The variables of a named optimizer have counts of their own, and so rates. */
static copse_status ps_push(struct copse_ps *ps, struct copse_ps_group *g,
                            const struct copse_optimizer_commit *c)
{
    struct copse_server_push p = { .progress = c->progress,
                                   .gradients = g->gradients,
                                   .elements = g->elements,
                                   .is_unchecked = c->is_unchecked };
    uint32_t words[COPSE_STEP_WORDS] = { 0 };
    const bool is_named = ps->base.name[0] != '\0';
    if (is_named)
        COPSE_TRY(copse__rule_step_of(&ps->base.rule, ps->base.owner.user, g->updates + 1, words));
    memcpy(&p.rate, is_named ? &words[g->rate] : &c->words[g->rate], sizeof p.rate);
    memcpy(&p.scale, &c->words[COPSE_STEP_SCALE], sizeof p.scale);
    ps_clip(&ps->base, g, p.scale);
    clip_norm(&ps->base, g, p.scale);
    p.scale = copse__norms_scale(&ps->base, p.scale);
    const copse_status s = g->server->table->push(g->server, g->id, &p, &g->updates);
    return is_named ? copse_note(s, "while pushing the gradient of '%s'", g->list[0]->name) : s;
}

static copse_status ps_commit(struct copse_optimizer *o, const struct copse_optimizer_commit *c)
{
    struct copse_ps *ps = copse__ps(o);
    copse_status s = read_sums(ps);
    if (!s)
        ps_measure(ps);
    const bool is_due = o->scaling.scale == 0.0f || (!s && copse__norms_are_finite(o));
    for (size_t k = 0; k < ps->groups.count && !s && is_due; k++)
        if (is_kept(o, &ps->groups.at[k]))
            s = ps_push(ps, &ps->groups.at[k], c);
    if (!s && o->rule.clips)
        copse__scaling_note(o, is_due);
    for (size_t b = 0; b < o->buckets.count; b++)
        o->buckets.at[b].is_kept = false;
    return s;
}

static uint64_t ps_next(const struct copse_optimizer *o, uint64_t step)
{
    const struct copse_ps *ps = copse__ps(o);
    uint64_t most = 0;
    (void)step;
    for (size_t k = 0; k < ps->groups.count; k++)
        most = COPSE_MAX(most, ps->groups.at[k].updates);
    return most + 1;
}

static void ps_release(struct copse_optimizer *o)
{
    struct copse_ps *ps = copse__ps(o);
    for (size_t k = 0; k < ps->groups.count; k++)
        free_group(ps, &ps->groups.at[k]);
    copse__free(&o->strategy->ctx->base.mem, ps->groups.at);
}

size_t copse__optimizer_ps_bytes(void)
{
    return sizeof(struct copse_ps);
}

const struct copse_optimizer_table copse__optimizer_ps = {
    .name = "ps",
    .is_sharing = true,
    .prepare = ps_prepare,
    .apply = ps_apply,
    .queue = ps_queue,
    .commit = ps_commit,
    .pull = copse__ps_pull,
    .next = ps_next,
    .read_slot = copse__ps_read_slot,
    .write_slot = copse__ps_write_slot,
    .counts = copse__ps_counts,
    .snapshot = copse__ps_snapshot,
    .forget = copse__ps_forget,
    .progress = copse__ps_progress,
    .seen = copse__ps_seen,
    .release = ps_release,
};
