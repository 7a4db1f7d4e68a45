/* SPDX-License-Identifier: MIT */
/* The exchange's messages over a cluster: a collective per round, and two kinds of messages in it. */
#include "core/cluster/remote.h"

#include <stdio.h>

static const char *const what[] = { "sums of gradients", "new values" };

static copse_status begin(void *user, uint32_t bucket, uint64_t elements)
{
    struct copse_remote *r = user;
    char name[32], form[40];
    snprintf(name, sizeof name, "bucket %u", bucket);
    snprintf(form, sizeof form, "f32 [%llu]", (unsigned long long)elements);
    return copse__collective_begin_on(r->cluster, name, form, 4 * elements, COPSE_OK);
}

static copse_status meet(void *user, copse_exchange_busy_fn *busy, void *busy_user)
{
    struct copse_remote *r = user;
    const copse_status s = copse__collective_meet(r->cluster, busy, busy_user);
    if (s) /* nothing will come */
        for (int kind = 0; kind < 2; kind++)
            copse__cluster_drop(r->cluster, r->in[kind], COPSE_MAX_WORKERS);
    return s;
}

static copse_status remote_recv(void *user, uint32_t worker, uint32_t kind, void *bytes,
                                size_t size)
{
    struct copse_remote *r = user;
    return copse__cluster_recv(r->cluster, worker, copse__collective_tag(r->cluster, kind), bytes,
                               size, &r->in[kind][worker]);
}

static copse_status remote_send(void *user, uint32_t worker, uint32_t kind, const void *bytes,
                                size_t size)
{
    struct copse_remote *r = user;
    return copse__cluster_send(r->cluster, worker, copse__collective_tag(r->cluster, kind), bytes,
                               size, &r->out[kind][worker]);
}

static copse_status wait_recv(void *user, uint32_t worker, uint32_t kind,
                              copse_exchange_busy_fn *busy, void *busy_user)
{
    struct copse_remote *r = user;
    return copse__cluster_wait(r->cluster, &r->in[kind][worker], 1, what[kind], busy, busy_user);
}

static copse_status wait_sends(void *user, copse_exchange_busy_fn *busy, void *busy_user)
{
    struct copse_remote *r = user;
    for (int kind = 0; kind < 2; kind++)
        COPSE_TRY(copse__cluster_wait(r->cluster, r->out[kind], COPSE_MAX_WORKERS, what[kind],
                                      busy, busy_user));
    return COPSE_OK;
}

void copse__remote_give_up(struct copse_remote *r)
{
    char text[1024], why[COPSE_NOTICE_WHY];
    const char *device = r->failed_device ? r->failed_device(r->user) : NULL;
    if (r->cluster->is_failed)
        return;
    snprintf(text, sizeof text, "%s", copse_last_error());
    if (device)
        snprintf(why, sizeof why, "its device %s failed", device);
    else
        snprintf(why, sizeof why, "it failed in the middle of a step");
    copse__cluster_give_up(r->cluster, why);
    copse__fail_again(text); /* the first failure is the one to tell */
}

static void cut_short(void *user)
{
    copse__remote_give_up(user);
}

/* What was sent is meant to arrive, where the job is still whole. */
static void give_up(void *user)
{
    struct copse_remote *r = user;
    if (!r->cluster->is_failed)
        (void)wait_sends(r, NULL, NULL);
    for (int kind = 0; kind < 2; kind++) {
        copse__cluster_drop(r->cluster, r->out[kind], COPSE_MAX_WORKERS);
        copse__cluster_drop(r->cluster, r->in[kind], COPSE_MAX_WORKERS);
    }
}

uint32_t copse__remote_first(const struct copse_remote *r)
{
    uint32_t first = 0;
    for (uint32_t v = 0; v < r->hook.workers.worker; v++)
        first += r->rank_counts[v];
    return first;
}

uint32_t copse__remote_total(const struct copse_remote *r)
{
    uint32_t total = 0;
    for (uint32_t v = 0; v < r->hook.workers.count; v++)
        total += r->rank_counts[v];
    return total;
}

copse_status copse__remote_init(struct copse_remote *r, copse_cluster *c, uint32_t ranks,
                                uint64_t binding_bytes)
{
    struct about {
        uint64_t ranks, bytes;
    } mine = { ranks, binding_bytes }, all[COPSE_MAX_WORKERS];
    COPSE_TRY(copse__cluster_gather(c, &mine, all, sizeof mine, "replicas and limits"));
    memset(r, 0, sizeof *r);
    r->cluster = c;
    r->hook = (struct copse_exchange_remote){
        .workers = { c->t.rank, c->t.size, r->rank_counts },
        .binding_bytes = UINT64_MAX,
        .begin = begin,
        .meet = meet,
        .recv = remote_recv,
        .send = remote_send,
        .wait_recv = wait_recv,
        .wait_sends = wait_sends,
        .cut_short = cut_short,
        .give_up = give_up,
        .user = r,
    };
    uint64_t total = 0;
    for (uint32_t v = 0; v < c->t.size; v++) {
        if (all[v].ranks == 0 || all[v].ranks > COPSE_MAX_REPLICAS)
            return copse_fail(COPSE_ERR_COMM, "cluster: worker %u says that it has %llu replicas",
                              v, (unsigned long long)all[v].ranks);
        r->rank_counts[v] = (uint32_t)all[v].ranks;
        total += all[v].ranks;
        r->hook.binding_bytes = COPSE_MIN(r->hook.binding_bytes, all[v].bytes);
    }
    if (total > COPSE_MAX_REPLICAS)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "cluster: the workers have %llu replicas together: at most %d",
                          (unsigned long long)total, COPSE_MAX_REPLICAS);
    return COPSE_OK;
}
