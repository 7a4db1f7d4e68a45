/* SPDX-License-Identifier: MIT */
/* A trainer across workers: what must be the same everywhere, a step that one worker cannot take, and the
   results of all replicas on every worker. A step's results are sent before the step returns, so that nobody
   who waits for them waits for what another worker does later. */
#include <stdio.h>

#include "core/data/array.h"
#include "core/train/safetensors.h"
#include "core/train/state.h"
#include "core/train/trainer.h"

#define TAG_RESULTS 2u
#define VALUES      (1 + COPSE_MAX_REPORTS)

/* What a worker sends of a step: this, then VALUES floats per replica, for every micro-batch. */
struct head {
    uint64_t step;
};

static uint32_t workers(const copse_trainer *t)
{
    return t->strategy->remote ? t->strategy->remote->hook.workers.count : 1;
}

static uint32_t this_worker(const copse_trainer *t)
{
    return t->strategy->remote->hook.workers.worker;
}

static size_t message_bytes(const copse_trainer *t, const struct copse_step_slot *slot,
                            uint32_t worker)
{
    return sizeof(struct head) + (size_t)slot->room * t->strategy->remote->rank_counts[worker] *
                                     VALUES * sizeof(float);
}

static unsigned char *message_of(const copse_trainer *t, const struct copse_step_slot *slot,
                                 uint32_t worker)
{
    unsigned char *at = slot->all;
    for (uint32_t v = 0; v < worker; v++)
        at += message_bytes(t, slot, v);
    return at;
}

copse_status copse__across_init(copse_trainer *t)
{
    const struct copse_trainer_params *p = &t->params;
    const struct copse_optimizer_params *o = &p->optimizer;
    char text[512];
    if (!t->strategy->remote)
        return COPSE_OK;
    snprintf(text, sizeof text,
             "loss %d\nexample %llu numbers\ntarget %llu numbers of type %d\noptimizer %d\n"
             "learning rate %.9g\nmomentum %.9g\nbetas %.9g %.9g\nepsilon %.9g\nweight decay %.9g\n"
             "schedule %d\nseed %llu\nmicro-batches %u\nsharing %d\nbatch size %llu\ngating %d\nchecks %d %d\n",
             (int)p->reduction, (unsigned long long)copse__elements(p->example),
             (unsigned long long)copse__elements(p->target), (int)p->target_type, (int)o->kind,
             (double)o->learning_rate, (double)o->momentum, (double)o->beta1, (double)o->beta2,
             (double)o->epsilon, (double)o->weight_decay, o->schedule != NULL,
             (unsigned long long)p->seed, p->accumulate, (int)p->sharing,
             (unsigned long long)p->batch_size, (int)p->gating, p->check_numerics,
             p->check_gradients);
    return copse__cluster_agree(t->strategy->cluster, "the settings of the trainer", text);
}

copse_status copse__across_make_slot(copse_trainer *t, struct copse_step_slot *slot)
{
    size_t bytes = 0;
    if (!t->strategy->remote)
        return COPSE_OK;
    for (uint32_t v = 0; v < workers(t); v++)
        bytes += message_bytes(t, slot, v);
    slot->all = copse__alloc(&t->strategy->ctx->base.mem, bytes, 1);
    return slot->all ? COPSE_OK : copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory");
}

void copse__across_free_slot(copse_trainer *t, struct copse_step_slot *slot)
{
    if (!slot->all)
        return;
    copse_cluster *c = t->strategy->cluster;
    /* The others may not have taken them yet; and what they send must find somebody who takes it. */
    if (!c->is_failed)
        (void)copse__cluster_wait(c, slot->sends, workers(t), "results", NULL, NULL);
    if (!c->is_failed)
        (void)copse__cluster_wait(c, slot->recvs, workers(t), "results", NULL, NULL);
    copse__cluster_drop(c, slot->sends, workers(t));
    copse__cluster_drop(c, slot->recvs, workers(t));
    copse__free(&t->strategy->ctx->base.mem, slot->all);
    slot->all = NULL;
}

copse_status copse__across_give_up(copse_trainer *t, copse_status why)
{
    struct copse_remote *remote = t ? t->strategy->remote : NULL;
    if (why != COPSE_OK && remote && (t->is_failed || remote->failed_device(remote->user)))
        copse__remote_give_up(remote);
    return why;
}

copse_status copse__across_refuse(copse_trainer *t, copse_status why)
{
    char text[512];
    copse_strategy *st = t->strategy;
    why = copse__across_give_up(t, why);
    if (!st->remote || st->cluster->is_failed)
        return why;
    snprintf(text, sizeof text, "%s", copse_last_error());
    if (copse__collective_begin(st->cluster, "a step", 0, why) == COPSE_OK)
        (void)copse__collective_meet(st->cluster, NULL, NULL);
    return copse_fail(why, "%s", text);
}

uint64_t copse__across_now(const copse_trainer *t)
{
    return t->strategy->remote ? t->strategy->cluster->sequence : 0;
}

bool copse__across_is_whole(const copse_trainer *t, uint64_t since)
{
    const copse_cluster *c = t->strategy->cluster;
    return t->strategy->remote && !c->is_failed && (c->refused > since || c->sequence == since);
}

copse_status copse__across_stop(copse_trainer *t, uint64_t since, copse_status why)
{
    struct copse_remote *remote = t->strategy->remote;
    if (why && remote && t->strategy->cluster->refused <= since)
        copse__remote_give_up(remote);
    return why;
}

copse_status copse__across_tell(copse_trainer *t, uint64_t since, copse_status why)
{
    const bool is_early = copse__across_is_whole(t, since) && t->strategy->cluster->refused <= since;
    return why && is_early && !t->is_failed ? copse__across_refuse(t, why) : copse__across_stop(t, since, why);
}

void copse__across_note(copse_trainer *t, uint64_t step, const struct copse_host_batch *batch)
{
    const uint64_t words[] = { step, batch->count, batch->first, batch->epoch };
    if (t->strategy->remote)
        t->strategy->cluster->detail =
            (uint32_t)copse__hash(COPSE_HASH_START, words, sizeof words);
}

copse_status copse__across_share(copse_trainer *t, struct copse_step_slot *slot)
{
    copse_strategy *st = t->strategy;
    if (!st->remote)
        return COPSE_OK;
    COPSE_TRY(copse__slot_wait(t, slot, true));
    COPSE_TRY(copse__cluster_wait(st->cluster, slot->sends, workers(t), "results", NULL, NULL));
    unsigned char *own = message_of(t, slot, this_worker(t));
    memcpy(own, &(struct head){ slot->step }, sizeof(struct head));
    for (size_t row = 0; row < (size_t)slot->parts * st->replica_count; row++)
        for (uint32_t i = 0; i < VALUES; i++) {
            const float value = copse__slot_value(slot, row, i);
            memcpy(own + sizeof(struct head) + (row * VALUES + i) * sizeof value, &value,
                   sizeof value);
        }
    for (uint32_t v = 0; v < workers(t); v++) {
        if (v == this_worker(t))
            continue;
        COPSE_TRY(copse__cluster_recv(st->cluster, v, TAG_RESULTS, message_of(t, slot, v),
                                      message_bytes(t, slot, v), &slot->recvs[v]));
        COPSE_TRY(copse__cluster_send(st->cluster, v, TAG_RESULTS, own,
                                      message_bytes(t, slot, this_worker(t)), &slot->sends[v]));
    }
    return COPSE_OK;
}

copse_status copse__across_collect(copse_trainer *t, struct copse_step_slot *slot, bool wait)
{
    copse_cluster *c = t->strategy->cluster;
    if (!t->strategy->remote)
        return COPSE_OK;
    COPSE_TRY(wait ? copse__cluster_wait(c, slot->recvs, workers(t), "results", NULL, NULL)
                   : copse__cluster_test(c, slot->recvs, workers(t)));
    for (uint32_t v = 0; v < workers(t); v++) {
        struct head h;
        memcpy(&h, message_of(t, slot, v), sizeof h);
        if (h.step != slot->step)
            return copse_fail(COPSE_ERR_COMM,
                              "trainer: worker %u is at step %llu, this one at step %llu", v,
                              (unsigned long long)h.step, (unsigned long long)slot->step);
    }
    return COPSE_OK;
}

float copse__across_value(const copse_trainer *t, const struct copse_step_slot *slot,
                          size_t row, uint32_t index)
{
    float value;
    if (!t->strategy->remote)
        return copse__slot_value(slot, row, index);
    const uint32_t *counts = t->strategy->remote->rank_counts;
    const size_t part = row / t->strategy->rank_total;
    uint32_t v = 0, rank = (uint32_t)(row % t->strategy->rank_total);
    for (; rank >= counts[v]; v++)
        rank -= counts[v];
    memcpy(&value,
           message_of(t, slot, v) + sizeof(struct head) +
               ((part * counts[v] + rank) * VALUES + index) * sizeof value,
           sizeof value);
    return value;
}

/* Whoever does not own an element of a slot has zeros there. */
static copse_status merge_entry(const copse_trainer *t, uint32_t *words, uint32_t *theirs,
                                uint64_t count, const char *name)
{
    copse_cluster *c = t->strategy->cluster;
    struct copse_parcel parcel = { NULL, 0 };
    const size_t most = COPSE_TRANSPORT_BYTES / 4;
    for (uint32_t v = 1; v < workers(t); v++)
        for (uint64_t at = 0; at < count; at += most) {
            const size_t n = (size_t)COPSE_MIN(count - at, most);
            copse_status s = copse__collective_begin(c, name, 4 * n, COPSE_OK);
            if (!s)
                s = copse__collective_meet(c, NULL, NULL);
            const uint32_t tag = copse__collective_tag(c, 0);
            if (!s && this_worker(t) == 0)
                s = copse__cluster_recv(c, v, tag, theirs, 4 * n, &parcel);
            if (!s && this_worker(t) == v)
                s = copse__cluster_send(c, 0, tag, words + at, 4 * n, &parcel);
            if (!s)
                s = copse__cluster_wait(c, &parcel, 1, "optimizer slots", NULL, NULL);
            copse__cluster_drop(c, &parcel, 1);
            COPSE_TRY(s);
            for (size_t i = 0; this_worker(t) == 0 && i < n; i++)
                words[at + i] |= theirs[i];
        }
    return COPSE_OK;
}

copse_status copse__across_merge(struct copse_state *s)
{
    const copse_trainer *t = s->trainer;
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    uint64_t most = 0;
    if (!t->strategy->remote)
        return COPSE_OK;
    for (size_t i = 0; i < s->count; i++)
        most = COPSE_MAX(most, s->entries[i].variable->count);
    uint32_t *theirs = copse__alloc(mem, (size_t)most, sizeof *theirs);
    copse_status status = copse__across_settle(
        t->strategy->cluster, theirs ? COPSE_OK : copse_fail(COPSE_ERR_NO_MEMORY, "checkpoint: no memory"),
        "room for the slots of others");
    char *words = s->words;
    for (size_t i = 0; i < s->count && !status; i++) {
        const struct copse_entry *e = &s->entries[i];
        if (e->slot != COPSE_ENTRY_VALUE)
            status = merge_entry(t, (uint32_t *)(void *)words, theirs, e->variable->count, e->name);
        words += 4 * e->variable->count;
    }
    copse__free(mem, theirs);
    return status;
}

copse_status copse__across_settle(copse_cluster *c, copse_status mine, const char *what)
{
    uint32_t code = (uint32_t)mine, all[COPSE_MAX_WORKERS];
    char text[1024];
    if (!c || copse_cluster_size(c) == 1)
        return mine;
    snprintf(text, sizeof text, "%s", mine ? copse_last_error() : "");
    const copse_status s = copse__cluster_gather(c, &code, all, sizeof code, what);
    if (mine) {
        copse__fail_again(text);
        return mine;
    }
    COPSE_TRY(s);
    for (uint32_t v = 0; v < copse_cluster_size(c); v++)
        if (all[v])
            return copse_fail(COPSE_ERR_COMM, "%s: worker %u failed: %s", what, v,
                              copse_status_text((copse_status)all[v]));
    return COPSE_OK;
}

copse_status copse__across_finish(copse_trainer *t, copse_status mine, const char *what)
{
    mine = copse__across_give_up(t, mine);
    return copse__across_settle(t->strategy->remote ? t->strategy->cluster : NULL, mine, what);
}

/* ---- a checkpoint that the first worker has read, for all ---- */

struct verdict {
    uint64_t header; /* bytes of its text */
    uint32_t status, pad;
    char text[512]; /* why not */
};

static copse_status share_verdict(copse_cluster *c, copse_status mine, uint64_t *header)
{
    struct verdict v = { .header = *header, .status = (uint32_t)mine };
    if (mine)
        snprintf(v.text, sizeof v.text, "%s", copse_last_error());
    COPSE_TRY(copse__cluster_broadcast(c, &v, sizeof v, "whether there is a checkpoint"));
    v.text[sizeof v.text - 1] = '\0';
    if (v.header > COPSE_ST_HEADER_MAX)
        return copse_fail(COPSE_ERR_COMM, "checkpoint: a header of %llu bytes from the first worker; it has at most %u",
                          (unsigned long long)v.header, COPSE_ST_HEADER_MAX);
    *header = v.header;
    if (v.status)
        copse__fail_again(v.text);
    return (copse_status)v.status;
}

static copse_status share_arrays(copse_cluster *c, copse_checkpoint *file)
{
    copse_array *const *list = copse__checkpoint_storage(file);
    size_t count;
    const struct copse_named_array *names = copse_checkpoint_arrays(file, &count);
    for (size_t i = 0; i < count; i++)
        COPSE_TRY(copse__cluster_broadcast(c, list[i]->data, list[i]->bytes, names[i].name));
    return COPSE_OK;
}

copse_status copse__across_checkpoint(copse_trainer *t, copse_status mine, const char *path,
                                      copse_checkpoint **file)
{
    copse_context *ctx = t->strategy->ctx;
    copse_cluster *c = t->strategy->cluster;
    char *text = NULL;
    if (!t->strategy->remote)
        return mine;
    const bool is_reader = this_worker(t) == 0;
    if (is_reader && mine == COPSE_OK)
        mine = copse__checkpoint_header(*file, &text);
    uint64_t size = text ? strlen(text) : 0;
    copse_status s = share_verdict(c, mine, &size);
    if (s == COPSE_OK && !is_reader)
        text = copse__alloc(&ctx->base.mem, (size_t)size, 1);
    if (s == COPSE_OK)
        s = copse__across_settle(
            c, text ? COPSE_OK : copse_fail(COPSE_ERR_NO_MEMORY, "checkpoint: no memory"),
            "room for a checkpoint");
    if (s == COPSE_OK)
        s = copse__cluster_broadcast(c, text, (size_t)size, "the header of a checkpoint");
    if (s == COPSE_OK) {
        if (!is_reader)
            s = copse__checkpoint_parse(ctx, path, text, (size_t)size, NULL, file);
        s = copse__across_settle(c, s, "the header of a checkpoint");
    }
    if (s == COPSE_OK)
        s = share_arrays(c, *file);
    copse__free(&ctx->base.mem, text);
    return s;
}
