/* SPDX-License-Identifier: MIT */
/* Shared by the tests of the exchange: replicas on given devices, a store, a few steps of SGD, and
   the expected results. */
#ifndef COPSE_EXCHANGE_RIG_H
#define COPSE_EXCHANGE_RIG_H

#include <math.h>

#include "core/base/random.h"
#include "core/reduce/exchange/exchange.h"
#include "core/rule/rule.h"
#include "tests/rig/rig.h"

#define MAX_RANKS 8
#define ELEMENTS  10000u /* not a multiple of COPSE_UNIT */
#define PADDED    10112u /* ELEMENTS rounded up to a multiple of COPSE_UNIT */
#define MOST      400000u
#define STEPS     3
#define RATE      0.125f
#define BUSY      ((size_t)1 << 20)

/* ---- what every test has ---- */

struct rig {
    copse_context *ctx;
    uint32_t ranks;
    copse_device *dev[MAX_RANKS];
    copse_queue *queue[MAX_RANKS];
    copse_buffer *step[MAX_RANKS], *busy[MAX_RANKS];
    struct copse_rule rule;
    bool is_paused;
    unsigned pauses;
    bool is_measured; /* the sums wait at their owners, and are updated in a second half */
};

static inline void open_rig(struct rig *g, copse_context *ctx, const char *const *ids,
                            uint32_t ranks, const struct copse_optimizer_params *params)
{
    *g = (struct rig){ .ctx = ctx, .ranks = ranks };
    OK(copse__rule_init(params, &g->rule));
    for (uint32_t r = 0; r < ranks; r++) {
        struct copse_device_params how = { .parts = 0 };
        for (uint32_t i = 0; i < ranks; i++)
            if (strcmp(ids[i], ids[r]) == 0) {
                how.part += i < r;
                how.parts++;
            }
        OK(copse_device_open(ctx, ids[r], &how, &g->dev[r]));
        OK(copse_queue_create(g->dev[r], &g->queue[r]));
        const struct copse_buffer_params words = { .size = 4 * COPSE_STEP_WORDS };
        OK(copse_buffer_create(g->dev[r], &words, &g->step[r]));
        OK(copse_buffer_create(g->dev[r], &(struct copse_buffer_params){ .size = BUSY },
                               &g->busy[r]));
    }
}

/* Ranks that name the same device share it and its queue. */
static inline void open_logical_rig(struct rig *g, copse_context *ctx, const char *const *ids,
                                    uint32_t ranks, const struct copse_optimizer_params *params)
{
    *g = (struct rig){ .ctx = ctx, .ranks = ranks };
    OK(copse__rule_init(params, &g->rule));
    for (uint32_t r = 0; r < ranks; r++) {
        uint32_t twin = 0;
        while (strcmp(ids[twin], ids[r]) != 0)
            twin++;
        if (twin < r) {
            g->dev[r] = copse_device_retain(g->dev[twin]);
            g->queue[r] = copse_queue_retain(g->queue[twin]);
        } else {
            OK(copse_device_open(ctx, ids[r], NULL, &g->dev[r]));
            OK(copse_queue_create(g->dev[r], &g->queue[r]));
        }
        const struct copse_buffer_params words = { .size = 4 * COPSE_STEP_WORDS };
        OK(copse_buffer_create(g->dev[r], &words, &g->step[r]));
        OK(copse_buffer_create(g->dev[r], &(struct copse_buffer_params){ .size = BUSY },
                               &g->busy[r]));
    }
}

static inline void close_rig(struct rig *g)
{
    for (uint32_t r = 0; r < g->ranks; r++) {
        copse_buffer_release(&g->step[r]);
        copse_buffer_release(&g->busy[r]);
        copse_queue_release(&g->queue[r]);
        copse_device_release(&g->dev[r]);
    }
}

static inline copse_status update(void *user, copse_device *dev, const struct copse_update *u,
                                  struct copse_command *out)
{
    const struct rig *g = user;
    return copse__rule_command(&g->rule, dev, &u->values, &u->gradients, &u->slots, &u->step, NULL,
                               u->count, out);
}

static inline copse_status measure(void *user, copse_device *dev, const struct copse_update *u,
                                   struct copse_command out[])
{
    (void)user;
    return copse__rule_measure(dev, &u->gradients, &u->measures[0], u->count, out);
}

static inline void hold(void *user, const struct copse_move *m)
{
    struct rig *g = user;
    if (g->is_paused)
        copse__sleep_ns(100000u * ((7 * ++g->pauses + m->src + 3 * m->dst) % 11));
}

struct setup {
    copse_reduce_algorithm reduction;
    copse_transfer transfer;
    size_t message_bytes;
    bool is_cut;    /* split into four buckets */
    bool is_paused; /* injected delays */
};

static const struct setup setups[] = {
    { COPSE_REDUCE_AUTO, COPSE_TRANSFER_AUTO, 0, false, false },
    { COPSE_REDUCE_SHARDED, COPSE_TRANSFER_STAGED, 0, true, false },
    { COPSE_REDUCE_SHARDED, COPSE_TRANSFER_STAGED, 1000, false, true },
    { COPSE_REDUCE_SHARDED, COPSE_TRANSFER_AUTO, 0, true, true },
    { COPSE_REDUCE_TREE, COPSE_TRANSFER_AUTO, 0, true, false },
    { COPSE_REDUCE_TREE, COPSE_TRANSFER_AUTO, 0, false, true },
    { COPSE_REDUCE_TREE, COPSE_TRANSFER_STAGED, 4096, true, true },
    { COPSE_REDUCE_TO_ONE, COPSE_TRANSFER_AUTO, 0, false, false },
    { COPSE_REDUCE_TO_ONE, COPSE_TRANSFER_STAGED, 256, true, false },
};

struct store {
    copse_exchange *x;
    uint32_t buckets[4], bucket_count;
};

static inline copse_status make_exchange(struct rig *g, const struct setup *s, copse_exchange **x)
{
    struct copse_exchange_rank ranks[MAX_RANKS];
    for (uint32_t r = 0; r < g->ranks; r++)
        ranks[r] =
            (struct copse_exchange_rank){ g->queue[r], { g->step[r], 0, 4 * COPSE_STEP_WORDS } };
    g->is_paused = s->is_paused;
    const struct copse_exchange_params params = {
        .ctx = g->ctx,
        .ranks = ranks,
        .rank_count = g->ranks,
        .reduction = s->reduction,
        .transfer = s->transfer,
        .message_bytes = s->message_bytes,
        .pause = hold,
        .user = g,
    };
    return copse__exchange_create(&params, x);
}

static inline copse_status add_bucket(struct rig *g, copse_exchange *x, uint32_t piece,
                                      uint64_t first, uint64_t count, uint32_t *bucket)
{
    const struct copse_exchange_rule rule = { .slots = g->rule.slots,
                                              .update = update,
                                              .measures = g->is_measured,
                                              .measure = measure,
                                              .user = g };
    return copse__exchange_bucket(x, piece, first, count, &rule, bucket);
}

static inline void open_store(struct rig *g, const struct setup *s, uint64_t elements,
                              struct store *st)
{
    const uint64_t cuts[] = { 0, s->is_cut ? 4096 : elements, 4224, 4224, elements };
    uint32_t piece;
    *st = (struct store){ .bucket_count = s->is_cut ? 4 : 1 };
    OK(make_exchange(g, s, &st->x));
    OK(copse__exchange_piece(st->x, copse__round_up(elements, COPSE_UNIT), &piece));
    for (uint32_t b = 0; b < st->bucket_count; b++) /* the third one is empty */
        OK(add_bucket(g, st->x, 0, cuts[b], cuts[b + 1] - cuts[b], &st->buckets[b]));
}

/* ---- numbers ---- */

static inline float gradient(uint32_t rank, uint32_t i, uint32_t step)
{
    const uint32_t counter[4] = { i, rank, step, 7 }, key[2] = { 1, 2 };
    uint32_t word[4];
    copse__philox(counter, key, word);
    if (word[3] % 17 == 0)
        return word[2] % 2 ? -0.0f : 0.0f;
    return ldexpf((float)(int32_t)word[0], (int)(word[1] % 41) - 51); /* exponents -20 to 20 */
}

static inline float first_value(uint32_t i)
{
    return sinf((float)i);
}

/* The definition of the tree, top down. */
static inline float canonical(uint32_t first, uint32_t count, uint32_t i, uint32_t step)
{
    uint32_t half = 1;
    if (count == 1)
        return gradient(first, i, step);
    while (half * 2 < count)
        half *= 2;
    return canonical(first, half, i, step) + canonical(first + half, count - half, i, step);
}

static inline void expect_sgd(float *out, uint32_t elements, uint32_t ranks)
{
    for (uint32_t i = 0; i < elements; i++) {
        out[i] = first_value(i);
        for (uint32_t step = 1; step <= STEPS; step++) {
            const float change = RATE * canonical(0, ranks, i, step);
            out[i] = out[i] - change;
        }
    }
}

/* ---- a few steps of training ---- */

static float room[MOST];      /* gradients to write */
static float read_back[MOST]; /* values of a rank */

static inline void write_step(struct rig *g, uint32_t rank, uint32_t step)
{
    uint32_t words[COPSE_STEP_WORDS] = { 0 };
    const float one = 1.0f;
    memcpy(&words[COPSE_STEP_SCALE], &one, 4);
    copse__rule_step(&g->rule, step, words);
    OK(copse_queue_write(g->queue[rank], g->step[rank], 0, words, sizeof words));
}

/* Gradients are written directly after the last step's run, after slow work: a missing wait causes
   a wrong result. */
static inline void backward(struct rig *g, struct store *st, uint32_t elements, uint32_t step,
                            uint64_t *ready)
{
    for (uint32_t r = 0; r < g->ranks; r++) {
        const struct copse_binding to = copse__exchange_gradients(st->x, 0, r);
        for (uint32_t i = 0; i < elements; i++)
            room[i] = gradient(r, i, step);
        write_step(g, r, step);
        for (uint32_t n = 0; n < 2 * ((r + step) % 3); n++)
            OK(copse_queue_fill(g->queue[r], g->busy[r], 0, BUSY, n));
        OK(copse_queue_write(g->queue[r], to.buffer, to.offset, room, 4 * elements));
        OK(copse_queue_submit(g->queue[r], &ready[r]));
    }
}

static inline void train(struct rig *g, struct store *st, uint32_t elements, uint32_t steps)
{
    uint64_t ready[MAX_RANKS];
    for (uint32_t i = 0; i < elements; i++)
        room[i] = first_value(i);
    for (uint32_t r = 0; r < g->ranks; r++) {
        const struct copse_binding to = copse__exchange_values(st->x, 0, r);
        OK(copse_queue_write(g->queue[r], to.buffer, to.offset, room, 4 * elements));
    }
    for (uint32_t step = 1; step <= steps; step++) {
        backward(g, st, elements, step, ready);
        for (uint32_t b = 0; b < st->bucket_count; b++)
            OK(copse__exchange_run(st->x, st->buckets[b], ready, NULL, NULL));
        for (uint32_t r = 0; r < g->ranks && g->is_measured; r++)
            OK(copse_queue_finish(g->queue[r]));
        for (uint32_t b = 0; b < st->bucket_count && g->is_measured; b++)
            OK(copse__exchange_finish(st->x, st->buckets[b]));
    }
}

static inline const float *values_of(struct rig *g, struct store *st, uint32_t rank,
                                     uint32_t elements)
{
    const struct copse_binding at = copse__exchange_values(st->x, 0, rank);
    OK(copse_queue_read(g->queue[rank], at.buffer, at.offset, read_back, 4 * elements));
    OK(copse_queue_finish(g->queue[rank]));
    return read_back;
}

static inline void check_bits(struct rig *g, struct store *st, const float *want, uint32_t elements,
                              size_t setup)
{
    for (uint32_t r = 0; r < g->ranks; r++) {
        const float *got = values_of(g, st, r, elements);
        for (uint32_t i = 0; i < elements; i++)
            if (memcmp(&got[i], &want[i], 4) != 0)
                fail_msg("%u ranks, setup %zu: rank %u on %s, element %u: %a, not %a", g->ranks,
                         setup, r, copse_device_describe(g->dev[r])->id, i, (double)got[i],
                         (double)want[i]);
    }
}

static const struct copse_optimizer_params plain = { .kind = COPSE_SGD, .learning_rate = RATE };

#endif
