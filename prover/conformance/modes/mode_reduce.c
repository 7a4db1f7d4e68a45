/* SPDX-License-Identifier: MIT */
/* Mode reduce: every schedule and every transfer over sets of devices. All ranks must hold the bits
   of the canonical tree evaluated here: of whole numbers, where any order is exact, and of numbers
   for which the order matters, twice, with delays injected and ranks ready in another order. */
#include <math.h>
#include <stdio.h>

#include "core/base/random.h"
#include "core/reduce/exchange/exchange.h"
#include "core/rule/rule.h"
#include "prover/conformance/modes/modes.h"

#define MAX_RANKS 17     /* three blocks of 8, the last one with one rank */
#define ELEMENTS  10000u /* not a multiple of COPSE_UNIT */
#define STEPS     2
#define RATE      0.125f
#define BUSY      ((size_t)1 << 20) /* bytes that a rank fills to cause a delay */
#define MESSAGE   ((size_t)4096)    /* so that a staged range needs several */

struct set {
    const char *ids[MAX_RANKS];
    uint32_t ranks;
    bool is_shared; /* with another device */
    char name[64];
};

struct rig {
    const struct set *set;
    copse_reduce_algorithm reduction;
    copse_transfer transfer;
    bool is_open;
    copse_device *dev[MAX_RANKS];
    copse_queue *queue[MAX_RANKS];
    copse_buffer *step[MAX_RANKS], *busy[MAX_RANKS];
    struct copse_rule rule;
    uint32_t pauses, order; /* order 0: no delays, ranks are ready in turn */
    float *want, *room;     /* ELEMENTS each */
    copse_exchange *x;
    uint32_t buckets[3];
};

/* ---- numbers ---- */

/* Exponents from -20 to 20 and zeros of both signs, or small whole numbers. */
static float mode_reduce_gradient(uint32_t rank, uint32_t i, uint32_t step, bool is_whole)
{
    const uint32_t counter[4] = { i, rank, step, 7 }, key[2] = { 1, 2 };
    uint32_t word[4];
    copse__philox(counter, key, word);
    if (is_whole)
        return (float)(word[0] % 63) - 31.0f;
    if (word[3] % 17 == 0)
        return word[2] % 2 ? -0.0f : 0.0f;
    return ldexpf((float)(int32_t)word[0], (int)(word[1] % 41) - 51);
}

static float first_value(uint32_t i)
{
    return (float)(i % 97) - 48.0f;
}

/* The definition of the tree, top down. */
static float mode_reduce_canonical(uint32_t first, uint32_t count, uint32_t i, uint32_t step,
                                   bool is_whole)
{
    uint32_t half = 1;
    if (count == 1)
        return mode_reduce_gradient(first, i, step, is_whole);
    while (half * 2 < count)
        half *= 2;
    return mode_reduce_canonical(first, half, i, step, is_whole) +
           mode_reduce_canonical(first + half, count - half, i, step, is_whole);
}

static void mode_reduce_expect(struct rig *g, bool is_whole)
{
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        g->want[i] = first_value(i);
        for (uint32_t step = 1; step <= STEPS; step++) {
            const float change = RATE * mode_reduce_canonical(0, g->set->ranks, i, step, is_whole);
            g->want[i] = g->want[i] - change;
        }
    }
}

/* ---- the ranks ---- */

static copse_status open_rank(struct copse_conform_run *r, struct rig *g, uint32_t rank)
{
    struct copse_device_params how = { .parts = 0 };
    for (uint32_t i = 0; i < g->set->ranks; i++)
        if (strcmp(g->set->ids[i], g->set->ids[rank]) == 0) {
            how.part += i < rank;
            how.parts++;
        }
    COPSE_TRY(copse_device_open(r->ctx, g->set->ids[rank], &how, &g->dev[rank]));
    COPSE_TRY(copse_queue_create(g->dev[rank], &g->queue[rank]));
    const struct copse_buffer_params words = { .size = COPSE_WORD_BYTES * COPSE_STEP_WORDS };
    COPSE_TRY(copse_buffer_create(g->dev[rank], &words, &g->step[rank]));
    return copse_buffer_create(g->dev[rank], &(struct copse_buffer_params){ .size = BUSY },
                               &g->busy[rank]);
}

static copse_status open_rig(struct copse_conform_run *r, struct rig *g)
{
    const struct copse_optimizer_params sgd = { .kind = COPSE_SGD, .learning_rate = RATE };
    if (g->is_open)
        return COPSE_OK;
    COPSE_TRY(copse__rule_init(&sgd, &g->rule));
    COPSE_TRY(copse__conform_memory(r, ELEMENTS, COPSE_WORD_BYTES, &g->want));
    COPSE_TRY(copse__conform_memory(r, ELEMENTS, COPSE_WORD_BYTES, &g->room));
    for (uint32_t rank = 0; rank < g->set->ranks; rank++)
        COPSE_TRY(copse_note(open_rank(r, g, rank), "while opening rank %u", rank));
    g->is_open = true;
    return COPSE_OK;
}

static void close_rig(struct copse_conform_run *r, struct rig *g)
{
    for (uint32_t rank = 0; rank < g->set->ranks; rank++) {
        copse_buffer_release(&g->step[rank]);
        copse_buffer_release(&g->busy[rank]);
        copse_queue_release(&g->queue[rank]);
        copse_device_release(&g->dev[rank]);
    }
    copse__free(&r->ctx->base.mem, g->want);
    copse__free(&r->ctx->base.mem, g->room);
    g->want = g->room = NULL;
    g->is_open = false;
}

static copse_status mode_reduce_update(void *user, copse_device *dev, const struct copse_update *u,
                                       struct copse_command *out)
{
    const struct rig *g = user;
    return copse__rule_command(&g->rule, dev, &u->values, &u->gradients, &u->slots, &u->step, NULL,
                               u->count, out);
}

static void mode_reduce_hold(void *user, const struct copse_move *m)
{
    struct rig *g = user;
    if (g->order)
        copse__sleep_ns(50000u * ((7 * ++g->pauses + m->src + (2 + g->order) * m->dst) % 11));
}

static copse_status make_exchange(struct copse_conform_run *r, struct rig *g)
{
    static const uint64_t cuts[] = { 0, 4096, 4224, ELEMENTS };
    struct copse_exchange_rank ranks[MAX_RANKS];
    uint32_t piece;
    for (uint32_t i = 0; i < g->set->ranks; i++)
        ranks[i] =
            (struct copse_exchange_rank){ g->queue[i],
                                          { g->step[i], 0, COPSE_WORD_BYTES * COPSE_STEP_WORDS } };
    const struct copse_exchange_params params = {
        .ctx = r->ctx,
        .ranks = ranks,
        .rank_count = g->set->ranks,
        .reduction = g->reduction,
        .transfer = g->transfer,
        .message_bytes = MESSAGE,
        .pause = mode_reduce_hold,
        .user = g,
    };
    COPSE_TRY(copse__exchange_create(&params, &g->x));
    COPSE_TRY(copse__exchange_piece(g->x, copse__round_up(ELEMENTS, COPSE_UNIT), &piece));
    const struct copse_exchange_rule rule = { .update = mode_reduce_update, .user = g };
    for (size_t b = 0; b < COPSE_COUNT(g->buckets); b++)
        COPSE_TRY(copse__exchange_bucket(g->x, piece, cuts[b], cuts[b + 1] - cuts[b], &rule,
                                         &g->buckets[b]));
    return COPSE_OK;
}

/* ---- steps of training ---- */

static copse_status write_values(struct rig *g)
{
    for (uint32_t i = 0; i < ELEMENTS; i++)
        g->room[i] = first_value(i);
    for (uint32_t rank = 0; rank < g->set->ranks; rank++) {
        const struct copse_binding to = copse__exchange_values(g->x, 0, rank);
        COPSE_TRY(copse_queue_write(g->queue[rank], to.buffer, to.offset, g->room,
                                    COPSE_WORD_BYTES * ELEMENTS));
    }
    return COPSE_OK;
}

/* Gradients of a rank, queued after work that takes some time. */
static copse_status mode_reduce_backward(struct rig *g, uint32_t rank, uint32_t step, bool is_whole,
                                         uint64_t *ready)
{
    const struct copse_binding to = copse__exchange_gradients(g->x, 0, rank);
    uint32_t words[COPSE_STEP_WORDS] = { 0 };
    const float one = 1.0f;
    memcpy(&words[COPSE_STEP_SCALE], &one, sizeof one);
    copse__rule_step(&g->rule, step, words);
    for (uint32_t i = 0; i < ELEMENTS; i++)
        g->room[i] = mode_reduce_gradient(rank, i, step, is_whole);
    COPSE_TRY(copse_queue_write(g->queue[rank], g->step[rank], 0, words, sizeof words));
    for (uint32_t n = 0; g->order && n < 2 * ((rank * g->order + step) % 3); n++)
        COPSE_TRY(copse_queue_fill(g->queue[rank], g->busy[rank], 0, BUSY, n));
    COPSE_TRY(copse_queue_write(g->queue[rank], to.buffer, to.offset, g->room,
                                COPSE_WORD_BYTES * ELEMENTS));
    return copse_queue_submit(g->queue[rank], &ready[rank]);
}

static copse_status mode_reduce_train(struct rig *g, bool is_whole)
{
    uint64_t ready[MAX_RANKS];
    const uint32_t ranks = g->set->ranks;
    COPSE_TRY(write_values(g));
    for (uint32_t step = 1; step <= STEPS; step++) {
        for (uint32_t i = 0; i < ranks; i++) /* order 2: backwards */
            COPSE_TRY(mode_reduce_backward(
                g, g->order == 2 ? ranks - 1 - i : (i + g->order) % ranks, step, is_whole, ready));
        for (size_t b = 0; b < COPSE_COUNT(g->buckets); b++)
            COPSE_TRY(copse__exchange_run(g->x, g->buckets[b], ready, NULL, NULL));
    }
    return COPSE_OK;
}

static copse_status mode_reduce_compare(struct rig *g, const char *what,
                                        struct copse_conform_outcome *out)
{
    struct copse_case_result *c = &out->result;
    for (uint32_t rank = 0; rank < g->set->ranks; rank++) {
        const struct copse_binding at = copse__exchange_values(g->x, 0, rank);
        COPSE_TRY(copse_queue_read(g->queue[rank], at.buffer, at.offset, g->room,
                                   COPSE_WORD_BYTES * ELEMENTS));
        COPSE_TRY(copse_queue_finish(g->queue[rank]));
        for (uint32_t i = 0; i < ELEMENTS; i++) {
            if (memcmp(&g->room[i], &g->want[i], sizeof g->want[i]) == 0)
                continue;
            if (c->worst++ == 0.0) {
                c->index = i;
                c->got = (double)g->room[i];
                c->expected = (double)g->want[i];
                copse__conform_set(
                    out, COPSE_VERDICT_FAIL, "%s: rank %u on %s, element %u: %a, the tree gives %a",
                    what, rank, g->set->ids[rank], i, (double)g->room[i], (double)g->want[i]);
            }
        }
        copse__conform_digest(out, g->room, COPSE_WORD_BYTES * ELEMENTS);
    }
    return COPSE_OK;
}

static copse_status run_all(struct rig *g, struct copse_conform_outcome *out)
{
    g->order = 0;
    mode_reduce_expect(g, true);
    COPSE_TRY(mode_reduce_train(g, true));
    COPSE_TRY(mode_reduce_compare(g, "whole numbers", out));
    mode_reduce_expect(g, false);
    for (g->order = 1; g->order <= 2; g->order++) {
        COPSE_TRY(mode_reduce_train(g, false));
        COPSE_TRY(mode_reduce_compare(g, g->order == 1 ? "with delays" : "with delays again", out));
    }
    return COPSE_OK;
}

/* Whether every device can bind host memory. */
static bool can_share(const struct rig *g)
{
    bool can = g->is_open;
    for (uint32_t rank = 0; can && rank < g->set->ranks; rank++)
        can = g->dev[rank]->limits->host_import_alignment != 0;
    return can;
}

static copse_status mode_reduce_check(struct copse_conform_run *r, void *user,
                                      struct copse_conform_outcome *out)
{
    struct rig *g = user;
    out->result.metric = "bits";
    copse_status s = open_rig(r, g);
    if (!s)
        s = make_exchange(r, g);
    if (!s)
        s = run_all(g, out);
    if (s == COPSE_ERR_UNSUPPORTED && can_share(g))
        s = copse_fail(COPSE_ERR_INTERNAL, "all devices can bind host memory, and yet: %.300s",
                       copse_last_error());
    copse__exchange_release(&g->x);
    if (!g->is_open) /* partly open */
        close_rig(r, g);
    return s;
}

/* ---- sets of devices ---- */

static void check_set(struct copse_conform_run *r, const struct set *set)
{
    static const struct {
        const char *name;
        copse_reduce_algorithm reduction;
    } schedules[] = { { "sharded", COPSE_REDUCE_SHARDED },
                      { "tree", COPSE_REDUCE_TREE },
                      { "to_one", COPSE_REDUCE_TO_ONE } };
    static const struct {
        const char *name;
        copse_transfer transfer;
    } ways[] = { { "shared", COPSE_TRANSFER_SHARED }, { "staged", COPSE_TRANSFER_STAGED } };
    struct rig g = { .set = set };
    r->is_shared = set->is_shared;
    for (size_t i = 0; i < COPSE_COUNT(schedules); i++)
        for (size_t k = 0; k < COPSE_COUNT(ways); k++) {
            char name[96];
            g.reduction = schedules[i].reduction;
            g.transfer = ways[k].transfer;
            snprintf(name, sizeof name, "%s, %s", set->name, ways[k].name);
            copse__conform_one(
                r, &(struct copse_conform_case){ "reduce", schedules[i].name, name, NULL },
                mode_reduce_check, &g);
        }
    r->is_shared = false;
    close_rig(r, &g);
}

/* The device alone, several times; then in turn with each other usable device. */
copse_status copse__conform_reduce(struct copse_conform_run *r)
{
    static const uint32_t counts[] = { 2, 3, 5, 4, 8, 9, 17 };
    const bool is_quick = r->params->tier == COPSE_CONFORM_QUICK && !r->params->case_name;
    char own[32]; /* r->dev may change */
    memcpy(own, r->dev->info.id, sizeof own);
    for (size_t i = 0; i < (is_quick ? 3 : COPSE_COUNT(counts)); i++) {
        struct set set = { .ranks = counts[i] };
        for (uint32_t rank = 0; rank < set.ranks; rank++)
            set.ids[rank] = own;
        snprintf(set.name, sizeof set.name, "x%u", set.ranks);
        check_set(r, &set);
    }
    for (size_t d = 0; d < r->ctx->device_count; d++) {
        const struct copse_device_info *other = &r->ctx->devices[d];
        if (!other->is_usable || strcmp(other->id, own) == 0)
            continue;
        for (uint32_t ranks = 2; ranks <= (is_quick ? 2u : 5u); ranks++) {
            struct set set = { .ranks = ranks, .is_shared = true };
            for (uint32_t rank = 0; rank < ranks; rank++)
                set.ids[rank] = rank % 2 ? other->id : own;
            snprintf(set.name, sizeof set.name, "x%u with %s", ranks, other->id);
            check_set(r, &set);
        }
    }
    return COPSE_OK;
}
