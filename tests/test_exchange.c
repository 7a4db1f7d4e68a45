/* SPDX-License-Identifier: MIT */
/* The exchange on every mixture of devices found: all ranks hold the bits that a scalar evaluation
   of the canonical tree gives, whatever the algorithm, the way of the bytes and the sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the above */
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/random.h"
#include "core/optim/rule.h"
#include "core/reduce/exchange.h"
#include "tests/fake_backend.h"

#define MAX_RANKS 8
#define ELEMENTS  10000u /* not a multiple of 64 */
#define PADDED    10048u
#define STEPS     3
#define RATE      0.125f
#define BUSY      ((size_t)4 << 20)

#define OK(expr)                                                                                   \
    do {                                                                                           \
        const copse_status ok_ = (expr);                                                           \
        if (ok_)                                                                                   \
            fail_msg("%s: %s: %s", #expr, copse_status_name(ok_), copse_last_error());             \
    } while (0)
#define FAILS(code, expr, word)                                                                    \
    do {                                                                                           \
        const copse_status fails_ = (expr);                                                        \
        if (fails_ != (code) || !strstr(copse_last_error(), word))                                 \
            fail_msg("%s: %s, not %s about '%s': %s", #expr, copse_status_name(fails_), #code,     \
                     word, copse_last_error());                                                    \
    } while (0)

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
};

static void open_rig(struct rig *g, copse_context *ctx, const char *const *ids, uint32_t ranks,
                     const struct copse_optimizer_params *params)
{
    *g = (struct rig){ .ctx = ctx, .ranks = ranks };
    OK(copse__rule_init(params, &g->rule));
    for (uint32_t r = 0; r < ranks; r++) {
        struct copse_device_params how = { .shares = 0 };
        for (uint32_t i = 0; i < ranks; i++)
            if (strcmp(ids[i], ids[r]) == 0) {
                how.share += i < r;
                how.shares++;
            }
        OK(copse_device_open(ctx, ids[r], &how, &g->dev[r]));
        OK(copse_queue_create(g->dev[r], &g->queue[r]));
        const struct copse_buffer_params words = { .size = 4 * COPSE_STEP_WORDS };
        OK(copse_buffer_create(g->dev[r], &words, &g->step[r]));
        OK(copse_buffer_create(g->dev[r], &(struct copse_buffer_params){ .size = BUSY },
                               &g->busy[r]));
    }
}

static void close_rig(struct rig *g)
{
    for (uint32_t r = 0; r < g->ranks; r++) {
        copse_buffer_release(&g->step[r]);
        copse_buffer_release(&g->busy[r]);
        copse_queue_release(&g->queue[r]);
        copse_device_release(&g->dev[r]);
    }
}

static copse_status update(void *user, copse_device *dev, const struct copse_update *u,
                           struct copse_command *out)
{
    const struct rig *g = user;
    return copse__rule_command(&g->rule, dev, &u->values, &u->gradients, &u->slots, &u->step,
                               u->count, out);
}

static void hold(void *user, const struct copse_move *m)
{
    struct rig *g = user;
    if (g->is_paused)
        copse__sleep_ns(100000u * ((7 * ++g->pauses + m->src + 3 * m->dst) % 11));
}

struct setup {
    copse_reduce_algorithm reduction;
    copse_transfer transfer;
    size_t message_bytes;
    bool is_cut;    /* into four buckets */
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

static copse_status make_exchange(struct rig *g, const struct setup *s, copse_exchange **x)
{
    struct copse_exchange_rank ranks[MAX_RANKS];
    for (uint32_t r = 0; r < g->ranks; r++)
        ranks[r] = (struct copse_exchange_rank){
            g->queue[r], { g->step[r], 0, 4 * COPSE_STEP_WORDS }
        };
    g->is_paused = s->is_paused;
    const struct copse_exchange_params params = {
        .ctx = g->ctx,
        .ranks = ranks,
        .rank_count = g->ranks,
        .reduction = s->reduction,
        .transfer = s->transfer,
        .message_bytes = s->message_bytes,
        .slots = g->rule.slots,
        .update = update,
        .pause = hold,
        .user = g,
    };
    return copse__exchange_create(&params, x);
}

static void open_store(struct rig *g, const struct setup *s, uint64_t elements, struct store *st)
{
    const uint64_t cuts[] = { 0, s->is_cut ? 4160 : elements, 4224, 4224, elements };
    uint32_t piece;
    *st = (struct store){ .bucket_count = s->is_cut ? 4 : 1 };
    OK(make_exchange(g, s, &st->x));
    OK(copse__exchange_piece(st->x, copse__round_up(elements, 64), &piece));
    for (uint32_t b = 0; b < st->bucket_count; b++) /* the third one is empty */
        OK(copse__exchange_bucket(st->x, 0, cuts[b], cuts[b + 1] - cuts[b], &st->buckets[b]));
}

/* ---- numbers ---- */

static float gradient(uint32_t rank, uint32_t i, uint32_t step)
{
    const uint32_t counter[4] = { i, rank, step, 7 }, key[2] = { 1, 2 };
    uint32_t word[4];
    copse__philox(counter, key, word);
    if (word[3] % 17 == 0)
        return word[2] % 2 ? -0.0f : 0.0f;
    return ldexpf((float)(int32_t)word[0], (int)(word[1] % 41) - 51); /* exponents -20 to 20 */
}

static float first_value(uint32_t i)
{
    return sinf((float)i);
}

/* The definition of the tree, top down. */
static float canonical(uint32_t first, uint32_t count, uint32_t i, uint32_t step)
{
    uint32_t half = 1;
    if (count == 1)
        return gradient(first, i, step);
    while (half * 2 < count)
        half *= 2;
    return canonical(first, half, i, step) + canonical(first + half, count - half, i, step);
}

static void expect_sgd(float *out, uint32_t elements, uint32_t ranks)
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

static float *room;      /* gradients to write */
static float *read_back; /* values of a rank */

static void write_step(struct rig *g, uint32_t rank, uint32_t step)
{
    uint32_t words[COPSE_STEP_WORDS] = { 0 };
    const float one = 1.0f;
    memcpy(&words[COPSE_STEP_SCALE], &one, 4);
    copse__rule_step(&g->rule, step, words);
    OK(copse_queue_write(g->queue[rank], g->step[rank], 0, words, sizeof words));
}

/* Gradients are written at once after the last step's run, behind work that takes its time: a wait
   that is missing anywhere shows. */
static void backward(struct rig *g, struct store *st, uint32_t elements, uint32_t step,
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

static void train(struct rig *g, struct store *st, uint32_t elements, uint32_t steps)
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
            OK(copse__exchange_run(st->x, st->buckets[b], ready));
    }
}

static const float *values_of(struct rig *g, struct store *st, uint32_t rank, uint32_t elements)
{
    const struct copse_binding at = copse__exchange_values(st->x, 0, rank);
    OK(copse_queue_read(g->queue[rank], at.buffer, at.offset, read_back, 4 * elements));
    OK(copse_queue_finish(g->queue[rank]));
    return read_back;
}

static void check_bits(struct rig *g, struct store *st, const float *want, uint32_t elements,
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

static void check_setups(copse_context *ctx, const char *const *ids, uint32_t ranks,
                         const float *want)
{
    struct rig g;
    open_rig(&g, ctx, ids, ranks, &plain);
    for (size_t s = 0; s < COPSE_COUNT(setups); s++) {
        struct store st;
        open_store(&g, &setups[s], ELEMENTS, &st);
        train(&g, &st, ELEMENTS, STEPS);
        check_bits(&g, &st, want, ELEMENTS, s);
        copse__exchange_release(&st.x);
    }
    close_rig(&g);
}

/* ---- devices ---- */

static const char *found[3]; /* the first usable device of each backend */
static uint32_t found_count;

static void find_devices(copse_context *ctx)
{
    static char ids[3][32];
    const struct copse_device_info *list;
    size_t count;
    copse_context_devices(ctx, &list, &count);
    found_count = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_new = list[i].is_usable && found_count < 3;
        for (uint32_t f = 0; f < found_count; f++)
            is_new = is_new && strncmp(found[f], list[i].backend, strlen(list[i].backend)) != 0;
        if (is_new) {
            memcpy(ids[found_count], list[i].id, sizeof ids[0]);
            found[found_count] = ids[found_count];
            found_count++;
        }
    }
}

static void all_ranks_hold_the_bits_of_the_tree(void **unused)
{
    static const uint32_t counts[] = { 1, 2, 3, 4, 5, 8 };
    copse_context *ctx;
    float *want = malloc(4 * ELEMENTS);
    (void)unused;
    assert_non_null(want);
    OK(copse_context_create(NULL, &ctx));
    find_devices(ctx);
    for (size_t c = 0; c < COPSE_COUNT(counts); c++) {
        expect_sgd(want, ELEMENTS, counts[c]);
        for (uint32_t mix = 1; mix < 1u << found_count; mix++) {
            const char *chosen[3], *ids[MAX_RANKS];
            uint32_t n = 0;
            for (uint32_t f = 0; f < found_count; f++)
                if (mix >> f & 1u)
                    chosen[n++] = found[f];
            if (n > counts[c])
                continue;
            for (uint32_t r = 0; r < counts[c]; r++)
                ids[r] = chosen[r % n];
            print_message("%u ranks on %s%s%s%s%s\n", counts[c], chosen[0], n > 1 ? ", " : "",
                          n > 1 ? chosen[1] : "", n > 2 ? ", " : "", n > 2 ? chosen[2] : "");
            check_setups(ctx, ids, counts[c], want);
        }
    }
    free(want);
    copse_context_release(&ctx);
}

static void a_run_allocates_nothing(void **unused)
{
    copse_context *ctx;
    (void)unused;
    OK(copse_context_create(NULL, &ctx));
    find_devices(ctx);
    const char *ids[MAX_RANKS];
    for (uint32_t r = 0; r < 4; r++)
        ids[r] = found[r % found_count];
    struct rig g;
    open_rig(&g, ctx, ids, 4, &plain);
    for (size_t s = 0; s < COPSE_COUNT(setups); s++) {
        struct copse_memory_stats before, after;
        uint64_t ready[MAX_RANKS];
        struct store st;
        open_store(&g, &setups[s], ELEMENTS, &st);
        train(&g, &st, ELEMENTS, STEPS);
        backward(&g, &st, ELEMENTS, STEPS + 1, ready);
        copse_context_memory(ctx, &before);
        for (uint32_t b = 0; b < st.bucket_count; b++)
            OK(copse__exchange_run(st.x, st.buckets[b], ready));
        copse_context_memory(ctx, &after);
        if (after.calls != before.calls || after.device_allocations != before.device_allocations)
            fail_msg("setup %zu: %llu host and %llu device allocations", s,
                     after.calls - before.calls,
                     after.device_allocations - before.device_allocations);
        copse__exchange_release(&st.x);
    }
    close_rig(&g);
    copse_context_release(&ctx);
}

/* ---- with the fake backend ---- */

static const char *const fakes[] = { "fake:0", "fake:1", "fake:2", "fake:3" };

static copse_context *fake_context(uint32_t devices)
{
    copse_context *ctx;
    copse_fake.device_count = devices;
    OK(copse__context_create_with(NULL, fake_backends, &ctx));
    return ctx;
}

static int reset(void **unused)
{
    (void)unused;
    fake_reset();
    return 0;
}

/* Each element is computed once and copied, so that the mirrored copies cannot drift apart. */
static void replicas_agree_though_a_device_divides_differently(void **unused)
{
    static const copse_optimizer_kind kinds[] = { COPSE_ADAM, COPSE_ADAMW, COPSE_NESTEROV };
    float *first = malloc(4 * ELEMENTS), *honest = malloc(4 * ELEMENTS);
    (void)unused;
    assert_non_null(first);
    assert_non_null(honest);
    for (size_t k = 0; k < COPSE_COUNT(kinds); k++) {
        const struct copse_optimizer_params params = { .kind = kinds[k], .weight_decay = 0.01f };
        uint32_t changed = 0;
        for (int is_off = 0; is_off < 2; is_off++) {
            fake_reset();
            copse_context *ctx = fake_context(3);
            copse_fake.devices[1].perturb = !is_off                    ? NULL
                                            : kinds[k] == COPSE_NESTEROV ? "momentum"
                                                                         : "adam";
            struct rig g;
            open_rig(&g, ctx, fakes, 3, &params);
            for (size_t s = 0; s < COPSE_COUNT(setups); s++) {
                struct store st;
                open_store(&g, &setups[s], ELEMENTS, &st);
                train(&g, &st, ELEMENTS, STEPS);
                memcpy(first, values_of(&g, &st, 0, ELEMENTS), 4 * ELEMENTS);
                check_bits(&g, &st, first, ELEMENTS, s);
                for (uint32_t i = 0; is_off && s == 0 && i < ELEMENTS; i++)
                    changed += memcmp(&first[i], &honest[i], 4) != 0;
                if (s == 0)
                    memcpy(honest, first, 4 * ELEMENTS);
                copse__exchange_release(&st.x);
            }
            close_rig(&g);
            copse_context_release(&ctx);
        }
        assert_true(changed > ELEMENTS / 4 && changed < ELEMENTS / 2); /* rank 1's share */
    }
    free(first);
    free(honest);
}

static void slot_memory_falls_with_the_ranks(void **unused)
{
    const struct copse_optimizer_params adam = { .kind = COPSE_ADAM };
    (void)unused;
    copse_context *ctx = fake_context(4);
    for (uint32_t ranks = 1; ranks <= 4; ranks++) {
        struct rig g;
        struct store st;
        open_rig(&g, ctx, fakes, ranks, &adam);
        open_store(&g, &setups[0], ELEMENTS, &st);
        size_t sum = 0;
        for (uint32_t r = 0; r < ranks; r++) {
            assert_true(copse__exchange_slot_bytes(st.x, r) <= 8 * (ELEMENTS / ranks + 64));
            sum += copse__exchange_slot_bytes(st.x, r);
        }
        assert_int_equal(sum, 8 * ELEMENTS);
        copse__exchange_release(&st.x);
        close_rig(&g);
    }
    copse_context_release(&ctx);
}

static void one_rank_waits_for_nobody(void **unused)
{
    (void)unused;
    copse_context *ctx = fake_context(1);
    struct rig g;
    struct store st;
    uint64_t ready[MAX_RANKS];
    open_rig(&g, ctx, fakes, 1, &plain);
    open_store(&g, &setups[0], ELEMENTS, &st);
    backward(&g, &st, ELEMENTS, 1, ready);
    const uint32_t waits = fake_calls(0, FAKE_WAIT);
    OK(copse__exchange_run(st.x, st.buckets[0], ready));
    assert_int_equal(fake_calls(0, FAKE_WAIT), waits);
    copse__exchange_release(&st.x);
    close_rig(&g);
    copse_context_release(&ctx);
}

static void no_import(struct copse_device_info *info)
{
    info->limits.host_import_alignment = 0;
}

static void shares_only_what_every_device_can_import(void **unused)
{
    (void)unused;
    const struct setup forced = { COPSE_REDUCE_AUTO, COPSE_TRANSFER_SHARED, 0, false, false };
    copse_exchange *x = NULL;
    struct rig g;
    copse_fake.devices[1].describe = no_import;
    copse_context *ctx = fake_context(2);
    open_rig(&g, ctx, fakes, 2, &plain);
    FAILS(COPSE_ERR_UNSUPPORTED, make_exchange(&g, &forced, &x), "fake:1");
    assert_null(x);
    OK(make_exchange(&g, &setups[0], &x));
    assert_false(copse__exchange_is_shared(x));
    copse__exchange_release(&x);
    close_rig(&g);
    open_rig(&g, ctx, (const char *[]){ "fake:0", "host:0" }, 2, &plain);
    OK(make_exchange(&g, &forced, &x));
    assert_true(copse__exchange_is_shared(x));
    copse__exchange_release(&x);
    close_rig(&g);
    copse_context_release(&ctx);
}

#define MANY 400000u

static void small_bindings(struct copse_device_info *info)
{
    info->limits.max_binding_bytes = 1 << 20;
    info->limits.max_buffer_bytes = 4 << 20;
}

/* A bucket larger than a device's bindings is done in rounds, and its piece is staged. */
static void large_buckets_go_in_rounds(void **unused)
{
    float *want = malloc(4 * MANY);
    struct rig g;
    (void)unused;
    assert_non_null(want);
    expect_sgd(want, MANY, 3);
    copse_fake.devices[2].describe = small_bindings;
    copse_context *ctx = fake_context(3);
    open_rig(&g, ctx, fakes, 3, &plain);
    for (size_t s = 0; s < COPSE_COUNT(setups); s++) {
        struct store st;
        if (setups[s].is_paused)
            continue;
        open_store(&g, &setups[s], MANY, &st);
        assert_false(copse__exchange_is_shared(st.x));
        train(&g, &st, MANY, STEPS);
        check_bits(&g, &st, want, MANY, s);
        copse__exchange_release(&st.x);
    }
    const struct setup forced = { COPSE_REDUCE_AUTO, COPSE_TRANSFER_SHARED, 0, false, false };
    copse_exchange *x;
    uint32_t piece;
    OK(make_exchange(&g, &forced, &x));
    FAILS(COPSE_ERR_UNSUPPORTED, copse__exchange_piece(x, 400000, &piece), "fake:2");
    copse__exchange_release(&x);
    close_rig(&g);
    copse_context_release(&ctx);
    free(want);
}

static void a_rank_that_does_not_answer_is_named(void **unused)
{
    (void)unused;
    copse_context *ctx = fake_context(2);
    for (int transfer = COPSE_TRANSFER_SHARED; transfer <= COPSE_TRANSFER_STAGED; transfer++) {
        const struct setup s = { .transfer = (copse_transfer)transfer };
        struct rig g;
        struct store st;
        uint64_t ready[MAX_RANKS];
        open_rig(&g, ctx, fakes, 2, &plain);
        open_store(&g, &s, ELEMENTS, &st);
        backward(&g, &st, ELEMENTS, 1, ready);
        fake_fail(1, FAKE_WAIT, 1, COPSE_ERR_TIMEOUT, false);
        FAILS(COPSE_ERR_TIMEOUT, copse__exchange_run(st.x, st.buckets[0], ready),
              "rank 1 on fake:1 did not answer");
        copse__exchange_release(&st.x);
        close_rig(&g);
    }
    copse_context_release(&ctx);
}

/* A fault in any call of the backend comes out as its status, and everything can be released. */
static void faults_are_returned(void **unused)
{
    static const enum fake_fn calls[] = { FAKE_BUFFER_INIT, FAKE_KERNEL_INIT, FAKE_SEGMENT_INIT,
                                          FAKE_REPLAY, FAKE_SUBMIT, FAKE_READ, FAKE_WRITE,
                                          FAKE_WAIT };
    (void)unused;
    for (size_t f = 0; f < COPSE_COUNT(calls); f++)
        for (uint32_t n = 1; n < 40; n++) {
            const struct setup setup = setups[n % 2 ? 1 : 0];
            fake_reset();
            copse_context *ctx = fake_context(2);
            struct copse_memory_stats memory;
            copse_exchange *x = NULL;
            struct rig g;
            uint32_t piece, bucket = 0;
            open_rig(&g, ctx, fakes, 2, &plain);
            fake_fail(1, calls[f], n / 2 + 1, COPSE_ERR_INTERNAL, false);
            copse_status s = make_exchange(&g, &setup, &x);
            if (!s)
                s = copse__exchange_piece(x, PADDED, &piece);
            if (!s)
                s = copse__exchange_bucket(x, 0, 0, ELEMENTS, &bucket);
            if (!s)
                s = copse__exchange_run(x, bucket, (const uint64_t[]){ 0, 0 });
            assert_true(s == COPSE_OK || s == COPSE_ERR_INTERNAL);
            copse__exchange_release(&x);
            close_rig(&g);
            copse_context_memory(ctx, &memory);
            copse_context *last = copse_context_retain(ctx);
            copse_context_release(&ctx);
            copse_context_release(&last);
        }
    assert_int_equal(atomic_load(&copse_fake.early_fini), 0);
}

static void bad_arguments_are_refused(void **unused)
{
    (void)unused;
    copse_context *ctx = fake_context(2);
    struct rig g;
    copse_exchange *x;
    uint32_t n;
    open_rig(&g, ctx, fakes, 2, &plain);
    FAILS(COPSE_ERR_ARGUMENT, make_exchange(&g, &(struct setup){ (copse_reduce_algorithm)9, 0, 0, 0, 0 }, &x),
          "reduction");
    FAILS(COPSE_ERR_ARGUMENT, make_exchange(&g, &(struct setup){ 0, (copse_transfer)9, 0, 0, 0 }, &x),
          "transfer");
    OK(make_exchange(&g, &setups[0], &x));
    FAILS(COPSE_ERR_ARGUMENT, copse__exchange_piece(x, 0, &n), "multiple of 64");
    FAILS(COPSE_ERR_ARGUMENT, copse__exchange_piece(x, 100, &n), "multiple of 64");
    OK(copse__exchange_piece(x, 128, &n));
    FAILS(COPSE_ERR_ARGUMENT, copse__exchange_bucket(x, 1, 0, 64, &n), "piece 1");
    FAILS(COPSE_ERR_ARGUMENT, copse__exchange_bucket(x, 0, 64, 65, &n), "piece 0");
    FAILS(COPSE_ERR_ARGUMENT, copse__exchange_bucket(x, 0, 10, 64, &n), "multiples of 64");
    FAILS(COPSE_ERR_ARGUMENT, copse__exchange_run(x, 0, NULL), "bucket 0");
    copse__exchange_release(&x);
    close_rig(&g);
    copse_context_release(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_hold_the_bits_of_the_tree),
        cmocka_unit_test(a_run_allocates_nothing),
        cmocka_unit_test_setup(replicas_agree_though_a_device_divides_differently, reset),
        cmocka_unit_test_setup(slot_memory_falls_with_the_ranks, reset),
        cmocka_unit_test_setup(one_rank_waits_for_nobody, reset),
        cmocka_unit_test_setup(shares_only_what_every_device_can_import, reset),
        cmocka_unit_test_setup(large_buckets_go_in_rounds, reset),
        cmocka_unit_test_setup(a_rank_that_does_not_answer_is_named, reset),
        cmocka_unit_test_setup(faults_are_returned, reset),
        cmocka_unit_test_setup(bad_arguments_are_refused, reset),
    };
    room = malloc(4 * MANY);
    read_back = malloc(4 * MANY);
    if (!room || !read_back)
        return 1;
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    free(room);
    free(read_back);
    return failures;
}
