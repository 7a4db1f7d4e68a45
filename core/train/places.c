/* SPDX-License-Identifier: MIT */
/* Every push says where its worker is, so that what a server has and how far it has come belong together. */
#include "core/train/places.h"

#include <stdio.h>

#include "core/cluster/cluster.h"

#define LOOK_NS 20000000ull

static uint32_t workers_of(const copse_trainer *t)
{
    return t->strategy->cluster ? copse_cluster_size(t->strategy->cluster) : 1;
}

bool copse__places_is_guest(const copse_trainer *t)
{
    return t->pushes && t->strategy->cluster && !copse_cluster_is_chief(t->strategy->cluster);
}

/* ---- as text ---- */

void copse__places_text(const copse_trainer *t, const struct copse_position *mine,
                        char text[COPSE_PLACES_TEXT])
{
    const uint32_t count = workers_of(t);
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t w = 0; count > 1 && w < count; w++) {
        struct copse_server_place at = copse__pushes_seen_place(t, w);
        if (w == copse_cluster_rank(t->strategy->cluster))
            at = (struct copse_server_place){ t->step, mine->batch, mine->epoch, 0 };
        used += (size_t)snprintf(text + used, COPSE_PLACES_TEXT - used, "%s%llu:%u:%llu",
                                 w > 0 ? " " : "", (unsigned long long)at.steps, at.epoch,
                                 (unsigned long long)at.batch);
    }
}

/* Digits up to `end`, which is stepped over. */
static bool parse_number(const char **text, char end, uint64_t most, uint64_t *out)
{
    const char *c = *text;
    uint64_t v = 0;
    bool ok = *c != end;
    for (; ok && *c != end; c++) {
        const uint64_t digit = (uint64_t)(*c - '0');
        ok = *c >= '0' && *c <= '9' && v <= (most - digit) / 10;
        v = 10 * v + digit;
    }
    *text = c + (ok && end);
    *out = v;
    return ok;
}

/* How many there are; 0: it is no such text. */
static uint32_t parse(const char *text, struct copse_server_place list[COPSE_MAX_WORKERS])
{
    uint32_t count = 0;
    uint64_t steps, epoch, batch;
    for (bool is_last = false; !is_last; count++) {
        const char *end = strchr(text, ' ');
        is_last = !end;
        if (count == COPSE_MAX_WORKERS || !parse_number(&text, ':', UINT64_MAX, &steps) ||
            !parse_number(&text, ':', UINT32_MAX, &epoch) ||
            !parse_number(&text, is_last ? '\0' : ' ', UINT64_MAX, &batch))
            return 0;
        list[count] = (struct copse_server_place){ steps, batch, (uint32_t)epoch, 0 };
    }
    return count;
}

static bool is_before(const struct copse_server_place *a, const struct copse_server_place *b)
{
    return a->epoch != b->epoch ? a->epoch < b->epoch : a->batch < b->batch;
}

copse_status copse__places_read(const copse_trainer *t, const char *path, const char *text, uint64_t steps,
                                struct copse_position *mine, struct copse_server_places *out)
{
    const uint32_t wanted = workers_of(t);
    *out = (struct copse_server_places){ .seed = t->params.seed };
    out->at[0] = (struct copse_server_place){ steps, mine->batch, mine->epoch, 0 };
    const uint32_t count = text ? parse(text, out->at) : 1;
    if (count == 0)
        return copse_fail(COPSE_ERR_FORMAT, "checkpoint: %s: \"" COPSE_PLACES_KEY "\" is no list of places",
                          path);
    if (count == wanted)
        return COPSE_OK;
    struct copse_server_place slowest = out->at[0];
    for (uint32_t w = 1; w < count; w++)
        if (is_before(&out->at[w], &slowest))
            slowest = out->at[w];
    for (uint32_t w = 0; w < wanted; w++)
        out->at[w] = slowest;
    *mine = (struct copse_position){ slowest.epoch, slowest.batch };
    return COPSE_OK;
}

/* ---- with the servers ---- */

copse_status copse__places_open(copse_trainer *t)
{
    struct copse_server_places none;
    return copse__pushes_places(t, COPSE_PLACES_OPEN, &none);
}

copse_status copse__places_await(copse_trainer *t, struct copse_position *out)
{
    const uint64_t most = t->strategy->cluster->deadline_ns, end = copse__now_ns() + most;
    struct copse_server_places places = { .is_open = 0 };
    uint64_t updates = 0;
    for (;;) {
        COPSE_TRY(copse__pushes_places(t, COPSE_PLACES_READ, &places));
        if (places.is_open)
            break;
        if (copse__now_ns() >= end)
            return copse_fail(COPSE_ERR_TIMEOUT, "checkpoint: the chief has restored or written none within "
                                                 "%.3g s: do all workers have the same settings?",
                              (double)most / 1e9);
        copse__sleep_ns(LOOK_NS);
    }
    COPSE_TRY(copse__pushes_updates(t, false, &updates));
    const struct copse_server_place *at = &places.at[copse_cluster_rank(t->strategy->cluster)];
    t->step = t->taken = at->steps;
    if (places.seed)
        t->params.seed = places.seed;
    *out = (struct copse_position){ at->epoch, at->batch };
    return COPSE_OK;
}
