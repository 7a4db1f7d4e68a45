/* SPDX-License-Identifier: MIT */
/* Groups of a parameter store: the variables of one optimizer, its slots and its count of
   updates. */
#include "core/ps/parameter_store.h"

static struct copse_pstore *pstore_of(struct copse_server *s)
{
    return (struct copse_pstore *)(void *)s;
}

copse_status copse__pstore_group(struct copse_pstore *s, uint32_t group,
                                 struct copse_pstore_group **out)
{
    *out = NULL;
    if (group >= s->groups.count || !s->groups.at[group].is_used)
        return copse_fail(COPSE_ERR_ARGUMENT, "parameter server: there is no optimizer %u", group);
    *out = &s->groups.at[group];
    return COPSE_OK;
}

bool copse__pstore_group_is(const struct copse_pstore_group *g, const uint32_t *ids, uint32_t count,
                            const struct copse_optimizer_params *rule)
{
    const struct copse_optimizer_params *p = &g->rule.params;
    struct copse_rule as;
    if (copse__rule_init(rule, &as) || g->count != count ||
        memcmp(g->ids, ids, count * sizeof *ids) != 0)
        return false;
    return p->kind == as.params.kind && p->momentum == as.params.momentum &&
           p->beta1 == as.params.beta1 && p->beta2 == as.params.beta2 &&
           p->epsilon == as.params.epsilon && p->weight_decay == as.params.weight_decay &&
           p->average == as.params.average && p->initial == as.params.initial &&
           p->l1 == as.params.l1 && p->l2 == as.params.l2 &&
           p->momentum_decay == as.params.momentum_decay && p->is_centred == as.params.is_centred &&
           p->trust == as.params.trust && p->epsilon_in_root == as.params.epsilon_in_root &&
           p->plain_average == as.params.plain_average;
}

static void free_group(struct copse_pstore *s, struct copse_pstore_group *g)
{
    copse__segment_release(&g->update);
    copse__pstore_trust_end(g);
    for (uint32_t i = 0; g->slots && i < g->count; i++)
        copse_buffer_release(&g->slots[i]);
    copse__free(&s->ctx->base.mem, g->slots);
    copse__free(&s->ctx->base.mem, g->ids);
    *g = (struct copse_pstore_group){ .is_used = false };
}

static bool has_average(const struct copse_rule *rule)
{
    return rule->params.average > 0.0f;
}

/* Slot `k` of variable `i`, which has `count` elements. */
static struct copse_binding slot_of(const struct copse_pstore_group *g, uint32_t i, uint32_t k,
                                    uint64_t count)
{
    return (struct copse_binding){
        g->slots[i], COPSE_WORD_BYTES * (size_t)copse__rule_slot_at(&g->rule, k, count),
        COPSE_WORD_BYTES * (size_t)copse__rule_slot_words(&g->rule, k, count)
    };
}

static copse_status start_slots(struct copse_pstore *s, const struct copse_pstore_group *g,
                                uint32_t i, uint64_t count)
{
    for (uint32_t k = 0; k < g->rule.slots; k++) {
        uint32_t word;
        memcpy(&word, &g->rule.slot_starts[k], sizeof word);
        const struct copse_binding at = slot_of(g, i, k, count);
        COPSE_TRY(copse_queue_fill(s->queue, at.buffer, at.offset, at.size, word));
    }
    return COPSE_OK;
}

/* `out`: the update, then the moving average. */
static copse_status make_member(struct copse_pstore *s, struct copse_pstore_group *g, uint32_t i,
                                struct copse_command out[2])
{
    struct copse_pstore_variable *v;
    COPSE_TRY(copse__pstore_find(s, g->ids[i], &v));
    const size_t bytes = (size_t)v->count * COPSE_WORD_BYTES;
    const size_t slots = COPSE_WORD_BYTES * (size_t)copse__rule_words_of(&g->rule, v->count);
    const struct copse_limits *l = s->dev->limits;
    if (v->type != COPSE_F32)
        return copse_fail(COPSE_ERR_ARGUMENT, "variable '%s': i32 variables are not trained",
                          v->name);
    if (COPSE_MAX(bytes, slots) > COPSE_MIN(l->max_binding_bytes, l->max_buffer_bytes))
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "variable '%s': %zu MiB of values and %zu of slots; "
                          "%s binds %llu at a time: make it of several shards",
                          v->name, bytes >> 20, slots >> 20, s->dev->info.id,
                          (unsigned long long)l->max_binding_bytes >> 20);
    if (!v->gradient)
        COPSE_TRY(copse_buffer_create(s->dev, &(struct copse_buffer_params){ .size = bytes },
                                      &v->gradient));
    struct copse_binding slot = { 0 };
    if (slots > 0) {
        COPSE_TRY(copse_buffer_create(s->dev, &(struct copse_buffer_params){ .size = slots },
                                      &g->slots[i]));
        COPSE_TRY(start_slots(s, g, i, v->count));
        slot = (struct copse_binding){ g->slots[i], 0, slots };
    }
    const struct copse_binding values = { v->values, 0, bytes },
                               gradient = { v->gradient, 0, bytes };
    const struct copse_binding step = { s->step, 0, COPSE_WORD_BYTES * COPSE_STEP_WORDS };
    const struct copse_binding factors = copse__pstore_trust_factors(s, g, i);
    g->elements += v->count;
    COPSE_TRY(copse__rule_command(&g->rule, s->dev, &values, &gradient, &slot, &step, &factors,
                                  v->count, out));
    return has_average(&g->rule)
               ? copse__rule_average(&g->rule, s->dev, &values, &slot, &step, v->count, out + 1)
               : COPSE_OK;
}

static copse_status make_group(struct copse_pstore *s, struct copse_pstore_group *g,
                               const uint32_t *ids, const struct copse_optimizer_params *rule)
{
    COPSE_TRY(copse__rule_init(rule, &g->rule));
    g->rule.params.schedule = NULL; /* workers evaluate the schedule */
    g->ids = copse__alloc(&s->ctx->base.mem, g->count, sizeof *g->ids);
    g->slots = copse__alloc(&s->ctx->base.mem, g->count, sizeof(copse_buffer *));
    const uint32_t each = has_average(&g->rule) ? 2 : 1;
    struct copse_command *commands =
        copse__alloc(&s->ctx->base.mem, g->count + 1, 2 * sizeof *commands);
    copse_status status =
        g->ids && g->slots && commands ? COPSE_OK : copse_no_memory("parameter server");
    if (!status) {
        memcpy(g->ids, ids, g->count * sizeof *ids);
        status = copse__pstore_trust_begin(s, g);
    }
    for (uint32_t i = 0; i < g->count && !status; i++)
        status = make_member(s, g, i, &commands[each * i]);
    if (!status)
        status = copse__segment_create(s->queue, commands, each * g->count, &g->update);
    if (!status)
        status = copse__pstore_trust_record(s, g);
    copse__free(&s->ctx->base.mem, commands);
    return status;
}

copse_status copse__pstore_do_group(struct copse_server *server, uint64_t key, const uint32_t *ids,
                                    uint32_t count, const struct copse_optimizer_params *rule,
                                    uint32_t *group)
{
    struct copse_pstore *s = pstore_of(server);
    struct copse_pstore_group g = { .is_used = true, .count = count };
    size_t at = 0;
    (void)key; /* ps_server.c finds groups by key */
    copse_status status = make_group(s, &g, ids, rule);
    while (at < s->groups.count && s->groups.at[at].is_used)
        at++;
    if (!status && at == s->groups.count && !COPSE_PUSH(&s->ctx->base.mem, &s->groups, g))
        status = copse_no_memory("parameter server");
    if (status) {
        free_group(s, &g);
        return copse_note(status, "while making an optimizer on the parameter server");
    }
    s->groups.at[at] = g;
    *group = (uint32_t)at;
    return COPSE_OK;
}

void copse__pstore_do_drop(struct copse_server *server, uint32_t group)
{
    struct copse_pstore *s = pstore_of(server);
    if (group < s->groups.count && s->groups.at[group].is_used)
        free_group(s, &s->groups.at[group]);
}

static copse_status write_step(struct copse_pstore *s, const struct copse_pstore_group *g,
                               const struct copse_server_push *p)
{
    uint32_t words[COPSE_STEP_WORDS] = { 0 };
    copse__rule_words(&g->rule, g->updates + 1, p->rate, words);
    words[COPSE_STEP_NUMBER] = (uint32_t)(g->updates + 1);
    memcpy(&words[COPSE_STEP_SCALE], &p->scale, sizeof p->scale);
    return copse_queue_write(s->queue, s->step, 0, words, sizeof words);
}

copse_status copse__pstore_do_push(struct copse_server *server, uint32_t group,
                                   const struct copse_server_push *p, uint64_t *count)
{
    struct copse_pstore *s = pstore_of(server);
    struct copse_pstore_group *g;
    const float *gradient = p->gradients;
    COPSE_TRY(copse__pstore_group(s, group, &g));
    COPSE_TRY(write_step(s, g, p));
    if (!p->is_unchecked)
        COPSE_TRY(copse__pstore_check(s, g));
    for (uint32_t i = 0; i < g->count; i++) {
        const struct copse_pstore_variable *v = &s->variables.at[g->ids[i]];
        COPSE_TRY(copse_queue_write(s->queue, v->gradient, 0, gradient,
                                    (size_t)v->count * COPSE_WORD_BYTES));
        gradient += v->count;
    }
    if (g->rule.trusts)
        COPSE_TRY(copse__pstore_trust(s, g, p->scale));
    COPSE_TRY(copse__segment_replay(g->update));
    COPSE_TRY(copse_queue_submit(s->queue, &(uint64_t){ 0 }));
    for (uint32_t i = 0; i < g->count; i++)
        s->variables.at[g->ids[i]].version++;
    if (p->worker < COPSE_MAX_WORKERS)
        g->progress.at[p->worker] = p->progress;
    *count = ++g->updates;
    return COPSE_OK;
}

copse_status copse__pstore_do_updates(struct copse_server *server, uint32_t group, bool is_set,
                                      uint64_t *count)
{
    struct copse_pstore_group *g;
    COPSE_TRY(copse__pstore_group(pstore_of(server), group, &g));
    if (is_set)
        g->updates = *count;
    *count = g->updates;
    return COPSE_OK;
}

static copse_status find_slot(struct copse_pstore *s, uint32_t group, uint32_t member,
                              uint32_t slot, struct copse_binding *out)
{
    struct copse_pstore_group *g;
    COPSE_TRY(copse__pstore_group(s, group, &g));
    if (member >= g->count || slot >= g->rule.slots)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "parameter server: there is no slot %u of variable %u", slot, member);
    *out = slot_of(g, member, slot, s->variables.at[g->ids[member]].count);
    return COPSE_OK;
}

copse_status copse__pstore_snapshot_slot(struct copse_pstore *s, uint32_t group, uint32_t member,
                                         uint32_t slot, const void **values, uint64_t *bytes)
{
    struct copse_binding at = { 0 };
    COPSE_TRY(find_slot(s, group, member, slot, &at));
    COPSE_TRY(copse__pstore_reserve_staging(s, at.size));
    COPSE_TRY(copse_queue_read(s->queue, at.buffer, at.offset, s->staging, at.size));
    COPSE_TRY(copse__pstore_wait_reads(s));
    *values = s->staging;
    *bytes = at.size;
    return COPSE_OK;
}

copse_status copse__pstore_do_slot(struct copse_server *server, uint32_t group, uint32_t member,
                                   uint32_t slot, bool is_set, uint64_t count, void *values)
{
    struct copse_pstore *s = pstore_of(server);
    struct copse_binding at = { 0 };
    const void *staged;
    uint64_t bytes;
    (void)count;
    if (!is_set) {
        COPSE_TRY(copse__pstore_snapshot_slot(s, group, member, slot, &staged, &bytes));
        memcpy(values, staged, (size_t)bytes);
        return COPSE_OK;
    }
    COPSE_TRY(find_slot(s, group, member, slot, &at));
    COPSE_TRY(copse_queue_write(s->queue, at.buffer, at.offset, values, at.size));
    return copse_queue_submit(s->queue, &(uint64_t){ 0 });
}

/* ---- all of a group ---- */

static copse_status read_group(struct copse_pstore *s, const struct copse_pstore_group *g)
{
    char *at = s->staging;
    for (uint32_t i = 0; i < g->count; i++) {
        const struct copse_pstore_variable *v = &s->variables.at[g->ids[i]];
        const size_t bytes = (size_t)v->count * COPSE_WORD_BYTES;
        const size_t slots = COPSE_WORD_BYTES * (size_t)copse__rule_words_of(&g->rule, v->count);
        COPSE_TRY(copse_queue_read(s->queue, v->values, 0, at, bytes));
        if (slots > 0)
            COPSE_TRY(copse_queue_read(s->queue, g->slots[i], 0, at + bytes, slots));
        at += bytes + slots;
    }
    return COPSE_OK;
}

copse_status copse__pstore_snapshot_group(struct copse_pstore *s, uint32_t group,
                                          const void **words, uint64_t *bytes)
{
    struct copse_pstore_group *g;
    size_t size;
    COPSE_TRY(copse__pstore_group(s, group, &g));
    size = (size_t)g->elements * COPSE_WORD_BYTES; /* fewer than the bytes of its buffers */
    for (uint32_t i = 0; i < g->count; i++)
        size += COPSE_WORD_BYTES *
                (size_t)copse__rule_words_of(&g->rule, s->variables.at[g->ids[i]].count);
    COPSE_TRY(copse__pstore_reserve_staging(s, size));
    const copse_status status = read_group(s, g);
    /* after a failure, too: queued reads use the memory */
    const copse_status staged = copse__pstore_wait_reads(s);
    *words = s->staging;
    *bytes = size;
    return status ? status : staged;
}

copse_status copse__pstore_do_snapshot(struct copse_server *server, uint32_t group, uint64_t count,
                                       void *words, struct copse_server_state *out)
{
    struct copse_pstore_group *g;
    const void *staged;
    uint64_t bytes;
    COPSE_TRY(copse__pstore_group(pstore_of(server), group, &g));
    COPSE_TRY(copse__pstore_snapshot_group(pstore_of(server), group, &staged, &bytes));
    if (bytes != count * COPSE_WORD_BYTES)
        return copse_fail(COPSE_ERR_INTERNAL, "parameter server: an optimizer of another size");
    memcpy(words, staged, (size_t)bytes);
    *out = (struct copse_server_state){ g->updates, g->progress };
    return COPSE_OK;
}

copse_status copse__pstore_do_progress(struct copse_server *server, uint32_t group,
                                       enum copse_progress_op op,
                                       struct copse_server_progress *progress)
{
    struct copse_pstore_group *g;
    COPSE_TRY(copse__pstore_group(pstore_of(server), group, &g));
    const uint32_t is_open = g->progress.is_open | (op == COPSE_PROGRESS_OPEN);
    if (op == COPSE_PROGRESS_SET)
        g->progress = *progress;
    g->progress.is_open = is_open;
    if (op == COPSE_PROGRESS_READ)
        *progress = g->progress;
    return COPSE_OK;
}
