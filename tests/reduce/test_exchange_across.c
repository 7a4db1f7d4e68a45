/* SPDX-License-Identifier: MIT */
/* The exchange across workers, as threads of this process: with a power of two of ranks each, all
   hold the bits of one process with the same ranks in the same order; with any number, all hold the
   same. */
#include "core/comm/group.h"
#include "tests/rig/found.h"
#include "tests/rig/value/exchange_rig.h"
#include "tests/rig/workers/hub_rig.h"

#define WORKERS 4

static copse_context *ctx;

struct worker {
    copse_thread thread;
    struct copse_local_hub *hub;
    uint32_t rank, size, ranks, first; /* its place, its ranks, the first of them among all */
    const char *ids[MAX_RANKS];
    const struct setup *setup;
    const struct copse_optimizer_params *optimizer;
    uint32_t elements, fail_at; /* step in which worker 1 dies, 0 = none */
    float *values[MAX_RANKS];
    size_t slot_bytes, allocations;
    copse_status status;
    char text[1024];
};

static copse_status write_ranks(struct worker *w, struct rig *g, copse_exchange *x, uint32_t step,
                                uint64_t *ready, float *mine)
{
    for (uint32_t r = 0; r < w->ranks; r++) {
        const struct copse_binding to =
            step ? copse__exchange_gradients(x, 0, r) : copse__exchange_values(x, 0, r);
        for (uint32_t i = 0; i < w->elements; i++)
            mine[i] = step ? gradient(w->first + r, i, step) : first_value(i);
        if (step)
            write_step(g, r, step);
        for (uint32_t n = 0; n < 2 * ((r + step + w->rank) % 3); n++)
            COPSE_TRY(copse_queue_fill(g->queue[r], g->busy[r], 0, BUSY, n));
        COPSE_TRY(copse_queue_write(g->queue[r], to.buffer, to.offset, mine, 4 * w->elements));
        COPSE_TRY(copse_queue_submit(g->queue[r], &ready[r]));
    }
    return COPSE_OK;
}

static copse_status train_across(struct worker *w, struct rig *g, copse_exchange *x, float *mine)
{
    const uint32_t n = w->elements;
    const uint64_t cuts[] = { 0, w->setup->is_cut ? 4096 : n, 4224, 4224, n };
    const struct copse_exchange_rule rule = { .slots = g->rule.slots, .update = update, .user = g };
    uint32_t piece, buckets[4], count = w->setup->is_cut ? 4 : 1;
    uint64_t ready[MAX_RANKS];
    COPSE_TRY(copse__exchange_piece(x, copse__round_up(n, COPSE_UNIT), &piece));
    for (uint32_t b = 0; b < count; b++)
        COPSE_TRY(copse__exchange_bucket(x, 0, cuts[b], cuts[b + 1] - cuts[b], &rule, &buckets[b]));
    COPSE_TRY(write_ranks(w, g, x, 0, ready, mine));
    for (uint32_t step = 1; step <= STEPS; step++) {
        COPSE_TRY(write_ranks(w, g, x, step, ready, mine));
        if (step == w->fail_at && w->rank == 1) {
            copse__local_hub_kill(w->hub, 1);
            return copse_fail(COPSE_ERR_COMM, "killed");
        }
        for (uint32_t b = 0; b < count; b++)
            COPSE_TRY(copse__exchange_run(x, buckets[b], ready, NULL, NULL));
    }
    for (uint32_t r = 0; r < w->ranks; r++) {
        const struct copse_binding at = copse__exchange_values(x, 0, r);
        w->slot_bytes += copse__exchange_slot_bytes(x, r);
        COPSE_TRY(copse_queue_read(g->queue[r], at.buffer, at.offset, w->values[r], 4 * n));
        COPSE_TRY(copse_queue_finish(g->queue[r]));
    }
    return COPSE_OK;
}

static copse_status run_worker(struct worker *w, copse_cluster *c)
{
    struct copse_group group;
    struct copse_exchange_rank ranks[MAX_RANKS];
    struct rig g;
    copse_exchange *x;
    COPSE_TRY(copse__group_join(&group, c, w->ranks, 128 << 20));
    w->first = group.first;
    open_rig(&g, ctx, w->ids, w->ranks, w->optimizer);
    for (uint32_t r = 0; r < w->ranks; r++)
        ranks[r] =
            (struct copse_exchange_rank){ g.queue[r], { g.step[r], 0, 4 * COPSE_STEP_WORDS } };
    const struct copse_exchange_params params = {
        .ctx = ctx,
        .ranks = ranks,
        .rank_count = w->ranks,
        .reduction = w->setup->reduction,
        .transfer = w->setup->transfer,
        .message_bytes = w->setup->message_bytes,
        .group = &group,
    };
    float *mine = malloc(4 * w->elements);
    copse_status s = copse__exchange_create(&params, &x);
    if (!s) {
        s = train_across(w, &g, x, mine);
        copse__exchange_release(&x);
    }
    free(mine);
    close_rig(&g);
    copse__group_leave(&group);
    return s;
}

static void worker_main(void *p)
{
    struct worker *w = p;
    copse_cluster_spec *spec = NULL;
    copse_cluster *c = NULL;
    const struct copse_cluster_params params = { .deadline_ms = 60000 };
    w->status = worker_spec(ctx, w->rank, w->size, &spec);
    if (!w->status)
        w->status =
            copse__cluster_open_with(ctx, spec, &params, &copse__transport_local, w->hub, &c);
    if (!w->status)
        w->status = run_worker(w, c);
    if (w->status)
        snprintf(w->text, sizeof w->text, "%s", copse_last_error());
    copse_cluster_release(&c);
    copse_cluster_spec_release(&spec);
}

/* `counts[v]` ranks on each of `size` workers, devices in turn. */
static void run_workers(struct worker *w, uint32_t size, const uint32_t *counts,
                        const struct setup *setup, const struct copse_optimizer_params *optimizer,
                        uint32_t elements, uint32_t fail_at)
{
    struct copse_local_hub *hub;
    uint32_t all = 0;
    memset(w, 0, size * sizeof *w);
    OK(copse__local_hub_create(ctx, &hub));
    for (uint32_t v = 0; v < size; v++) {
        w[v].hub = hub;
        w[v].rank = v;
        w[v].size = size;
        w[v].ranks = counts[v];
        w[v].setup = setup;
        w[v].optimizer = optimizer;
        w[v].elements = elements;
        w[v].fail_at = fail_at;
        for (uint32_t r = 0; r < counts[v]; r++) {
            w[v].ids[r] = found[all++ % found_count];
            w[v].values[r] = malloc(4 * elements);
        }
    }
    for (uint32_t v = 0; v < size; v++)
        OK(copse__thread_start(&w[v].thread, worker_main, &w[v]));
    for (uint32_t v = 0; v < size; v++)
        copse__thread_join(&w[v].thread);
    copse__local_hub_free(&hub);
}

static void free_values(struct worker *w, uint32_t size)
{
    for (uint32_t v = 0; v < size; v++)
        for (uint32_t r = 0; r < w[v].ranks; r++)
            free(w[v].values[r]);
}

static void assert_values(struct worker *w, uint32_t size, const float *want, size_t setup)
{
    for (uint32_t v = 0; v < size; v++) {
        if (w[v].status)
            fail_msg("setup %zu, worker %u: %s", setup, v, w[v].text);
        for (uint32_t r = 0; r < w[v].ranks; r++)
            for (uint32_t i = 0; i < w[v].elements; i++)
                if (memcmp(&w[v].values[r][i], &want[i], 4) != 0)
                    fail_msg("setup %zu, worker %u of %u, rank %u on %s, element %u: %a, not %a",
                             setup, v, size, r, w[v].ids[r], i, (double)w[v].values[r][i],
                             (double)want[i]);
    }
}

/* ---- bits ---- */

static void workers_hold_the_bits_of_one_process(void **unused)
{
    static const uint32_t shapes[][WORKERS + 1] = {
        { 2, 1, 1 },    { 2, 2, 2 }, { 4, 1, 1, 1, 1 }, { 3, 1, 1, 1 },
        { 3, 2, 2, 2 }, { 2, 4, 4 }, { 4, 2, 2, 2, 2 },
    };
    struct worker w[WORKERS];
    float *want = malloc(4 * ELEMENTS);
    (void)unused;
    for (size_t k = 0; k < COPSE_COUNT(shapes); k++) {
        expect_sgd(want, ELEMENTS, shapes[k][0] * shapes[k][1]);
        for (size_t s = 0; s < COPSE_COUNT(setups); s += k < 2 ? 1 : 4) {
            run_workers(w, shapes[k][0], &shapes[k][1], &setups[s], &plain, ELEMENTS, 0);
            assert_values(w, shapes[k][0], want, s);
            free_values(w, shapes[k][0]);
        }
        print_message("%u workers with %u ranks each\n", shapes[k][0], shapes[k][1]);
    }
    free(want);
}

/* Other numbers of ranks give other trees, but the same on all. Buckets that are smaller than a
   slice. */
static void any_number_of_ranks_agrees(void **unused)
{
    static const uint32_t shapes[][WORKERS + 1] = { { 2, 3, 3 }, { 2, 1, 3 }, { 3, 2, 1, 4 } };
    static const uint32_t sizes[] = { ELEMENTS, 1000, 7 };
    struct worker w[WORKERS];
    (void)unused;
    for (size_t k = 0; k < COPSE_COUNT(shapes); k++)
        for (size_t n = 0; n < COPSE_COUNT(sizes); n++)
            for (size_t s = 0; s < 2; s++) {
                struct setup setup = setups[s];
                setup.is_cut = setup.is_cut && sizes[n] == ELEMENTS;
                run_workers(w, shapes[k][0], &shapes[k][1], &setup, &plain, sizes[n], 0);
                if (w[0].status)
                    fail_msg("worker 0: %s", w[0].text);
                assert_values(w, shapes[k][0], w[0].values[0], s);
                float sum = 0, exact = 0;
                for (uint32_t i = 0; i < sizes[n]; i++) {
                    sum += fabsf(w[0].values[0][i] - first_value(i));
                    exact += w[0].values[0][i];
                }
                assert_true(sum > 0 && isfinite(exact));
                free_values(w, shapes[k][0]);
            }
}

/* Slots stand at their owners, across workers too. */
static void slots_are_spread_over_all_workers(void **unused)
{
    static const uint32_t counts[] = { 2, 2 };
    static const struct copse_optimizer_params adam = { .kind = COPSE_ADAM, .learning_rate = 0.01 };
    struct worker w[2];
    (void)unused;
    run_workers(w, 2, counts, &setups[0], &adam, ELEMENTS, 0);
    if (w[0].status)
        fail_msg("%s", w[0].text);
    assert_values(w, 2, w[0].values[0], 0);
    /* the padding of the largest share aside, two words per element */
    assert_true(w[0].slot_bytes + w[1].slot_bytes >= 8 * ELEMENTS);
    assert_true(w[0].slot_bytes + w[1].slot_bytes < 8 * ELEMENTS + 8192);
    assert_true(w[0].slot_bytes < 6 * ELEMENTS && w[1].slot_bytes < 6 * ELEMENTS);
    free_values(w, 2);
}

static void a_lost_worker_is_named(void **unused)
{
    static const uint32_t counts[] = { 1, 1, 1 };
    struct worker w[3];
    (void)unused;
    run_workers(w, 3, counts, &setups[1], &plain, ELEMENTS, 2);
    for (uint32_t v = 0; v < 3; v += 2) {
        assert_int_equal(w[v].status, COPSE_ERR_COMM);
        if (!strstr(w[v].text, "lost worker 1 (h1:1)") || !strstr(w[v].text, "in bucket 0"))
            fail_msg("worker %u: %s", v, w[v].text);
    }
    free_values(w, 3);
}

/* ---- */

static size_t live_blocks(void)
{
    struct copse_memory_stats stats;
    copse_context_memory(ctx, &stats);
    return stats.live_blocks;
}

/* A second time compiles nothing, and leaves nothing behind. */
static void nothing_is_left_behind(void **unused)
{
    static const uint32_t counts[] = { 2, 2 };
    size_t before = 0;
    struct worker w[2];
    (void)unused;
    for (int time = 0; time < 4; time++) {
        run_workers(w, 2, counts, &setups[1], &plain, ELEMENTS, time % 2 ? 2 : 0);
        free_values(w, 2);
        if (time == 1)
            before = live_blocks();
    }
    assert_int_equal(live_blocks(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_hold_the_bits_of_one_process),
        cmocka_unit_test(any_number_of_ranks_agrees),
        cmocka_unit_test(slots_are_spread_over_all_workers),
        cmocka_unit_test(a_lost_worker_is_named),
        cmocka_unit_test(nothing_is_left_behind),
    };
    if (copse_context_create(NULL, &ctx))
        return 1;
    find_devices(ctx);
    const int result = cmocka_run_group_tests(tests, NULL, NULL);
    copse_context_release(&ctx);
    return result;
}
