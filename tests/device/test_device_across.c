/* SPDX-License-Identifier: MIT */
/* A device that fails in one of several workers, at each of its calls: its worker says so and
   stops, the others name both at once, and go on without it. And a call for which there is no
   memory, once: all hear of it at once, too. */
#include "copse/distribute/collective.h"

#include "core/variable/flat_store.h"
#include "tests/rig/fake/fake_backend.h"
#include "tests/rig/workers/hub_rig.h"

#define SIZE   3
#define STEPS  10 /* an evaluation comes last: nobody is done before all are */
#define VICTIM 1

static copse_context *ctx;

struct worker {
    copse_thread thread;
    struct copse_local_hub *hub;
    copse_cluster *cluster;
    uint32_t rank;
    uint32_t deadline_ms;
    copse_status status;  /* of the training with all */
    copse_status flushed; /* the first time */
    char text[600];
    uint32_t left; /* workers that trained on, 0: this one did not */
    char after[600];
};

static uint32_t accumulate; /* of trainers, 0 = 1 */

/* Calls of the victim's device that have been made when training begins. */
static atomic_uint calls_before[FAKE_FN_COUNT];

/* loss = a * b * c * mean of x: buckets are exchanged while others are still computed. */
#define VARIABLES 3

static copse_tensor *scaled_loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_variable *const *v = user;
    copse_tensor *loss = copse_mean(g, rig_x(in), NULL, 0, false);
    for (int i = 0; i < VARIABLES; i++)
        loss = copse_mul(g, loss, copse_variable_tensor(v[i]));
    return loss;
}

static copse_status make(struct worker *w, copse_variable **v, copse_strategy **st,
                         copse_trainer **t)
{
    static const char *const names[VARIABLES] = { "a", "b", "c" };
    static const float one = 1;
    const struct copse_strategy_params params = { .bucket_bytes = 4 };
    char id[16];
    const char *ids[] = { id };
    snprintf(id, sizeof id, "fake:%u", w->rank);
    COPSE_TRY(copse_collective_create(ctx, w->cluster, ids, 1, &params, st));
    for (int i = 0; i < VARIABLES; i++)
        COPSE_TRY(copse_variable_create(
            *st, &(struct copse_variable_params){ .name = names[i], .values = &one }, &v[i]));
    return copse_trainer_create(*st,
                                &(struct copse_trainer_params){
                                    .loss = scaled_loss,
                                    .user = v,
                                    .accumulate = accumulate,
                                    .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.01f } },
                                t);
}

/* Steps, results now and then, and evaluations. */
static copse_status train(copse_trainer *t)
{
    static const float x[] = { 1, 2, 3, 4, 5, 6 };
    const struct copse_host_batch batch = { RIG_X(1, x), .count = 6 };
    struct copse_step_result r;
    copse_status s = COPSE_OK;
    for (uint32_t i = 0; s == COPSE_OK && i < STEPS; i++) {
        s = copse_trainer_step(t, &batch);
        if (s == COPSE_OK && i % 4 == 2)
            s = copse_trainer_result(t, true, &r);
        if (s == COPSE_OK && i % 5 == 4)
            s = copse_trainer_evaluate(t, &batch, &r);
    }
    return s;
}

/* What is gathered is updated from, once all can. */
static copse_status train_and_flush(struct worker *w, copse_trainer *t)
{
    static const float x[] = { 1, 2, 3, 4, 5, 6 };
    const struct copse_host_batch batch = { RIG_X(1, x), .count = 6 };
    struct copse_step_result r;
    for (uint32_t i = 0; i + 1 < accumulate; i++)
        COPSE_TRY(copse_trainer_step(t, &batch));
    if (w->rank == VICTIM)
        fake_fail(VICTIM, FAKE_WRITE, 1, COPSE_ERR_NO_MEMORY, false);
    w->flushed = copse_trainer_flush(t);
    COPSE_TRY(copse_trainer_flush(t));
    COPSE_TRY(copse_trainer_result(t, true, &r));
    return r.step == 1 ? COPSE_OK
                       : copse_fail(COPSE_ERR_INTERNAL, "step %llu", (unsigned long long)r.step);
}

static copse_status train_once(struct worker *w, bool is_first)
{
    copse_variable *v[VARIABLES];
    copse_strategy *st = NULL;
    copse_trainer *t = NULL;
    copse_status s = make(w, v, &st, &t);
    for (int f = 0; is_first && w->rank == VICTIM && f < FAKE_FN_COUNT; f++)
        atomic_store(&calls_before[f], fake_calls(VICTIM, (enum fake_fn)f));
    if (s == COPSE_OK)
        s = accumulate ? train_and_flush(w, t) : train(t);
    char *text = is_first ? w->text : w->after;
    snprintf(text, sizeof w->text, "%s", s ? copse_last_error() : "");
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    return s;
}

static void worker_main(void *p)
{
    struct worker *w = p;
    copse_cluster_spec *spec;
    if (worker_spec(ctx, w->rank, SIZE, &spec))
        return;
    const struct copse_cluster_params params = { .deadline_ms = w->deadline_ms };
    w->status =
        copse__cluster_open_with(ctx, spec, &params, &copse__transport_local, w->hub, &w->cluster);
    if (w->status == COPSE_OK)
        w->status = train_once(w, true);
    if (w->status == COPSE_ERR_COMM && copse_cluster_regroup(w->cluster) == COPSE_OK &&
        train_once(w, false) == COPSE_OK)
        w->left = copse_cluster_size(w->cluster);
    copse_cluster_release(&w->cluster);
    copse_cluster_spec_release(&spec);
}

static void run(struct worker *w, uint32_t deadline_ms)
{
    struct copse_local_hub *hub;
    OK(copse__local_hub_create(ctx, &hub));
    memset(w, 0, SIZE * sizeof *w);
    for (uint32_t r = 0; r < SIZE; r++) {
        w[r].hub = hub;
        w[r].rank = r;
        w[r].deadline_ms = deadline_ms;
        OK(copse__thread_start(&w[r].thread, worker_main, &w[r]));
    }
    for (uint32_t r = 0; r < SIZE; r++)
        copse__thread_join(&w[r].thread);
    copse__local_hub_free(&hub);
}

static void open_fakes(void)
{
    fake_reset();
    copse_fake.device_count = SIZE;
    OK(copse__context_create_with(NULL, fake_backends, &ctx));
}

static void the_others_name_worker_and_device(void **state)
{
    static const enum fake_fn calls[] = { FAKE_SUBMIT, FAKE_WAIT, FAKE_WRITE, FAKE_READ };
    struct worker w[SIZE];
    (void)state;
    for (size_t k = 0; k < COPSE_COUNT(calls); k++) {
        open_fakes();
        run(w, 60000); /* how many there are */
        const uint32_t first = atomic_load(&calls_before[calls[k]]) + 1,
                       last = fake_calls(VICTIM, calls[k]);
        copse_context_release(&ctx);
        for (uint32_t r = 0; r < SIZE; r++)
            if (w[r].status)
                fail_msg("worker %u: %s", r, w[r].text);
        const uint32_t stride = 1 + (last - first) / 40;
        uint32_t hits = 0;
        for (uint32_t n = first; n <= last; n += stride) {
            open_fakes();
            fake_fail(VICTIM, calls[k], n, COPSE_ERR_DEVICE_LOST, true);
            run(w, 60000);
            copse_context_release(&ctx);
            /* it would have been a call of the end; or there were fewer */
            if (w[VICTIM].status == COPSE_OK)
                continue;
            hits++;
            if (w[VICTIM].status != COPSE_ERR_DEVICE_LOST)
                fail_msg("call %u of %u: the victim: %s", n, last, w[VICTIM].text);
            for (uint32_t r = 0; r < SIZE; r++) {
                if (r == VICTIM)
                    continue;
                if (w[r].status != COPSE_ERR_COMM || !strstr(w[r].text, "lost worker 1 (h1:1) (") ||
                    !strstr(w[r].text, "): its device fake:1 failed"))
                    fail_msg("call %u of %u: worker %u: %s: %s", n, last, r,
                             copse_status_name(w[r].status), w[r].text);
                if (w[r].left != SIZE - 1)
                    fail_msg("call %u of %u: worker %u did not go on: %s", n, last, r, w[r].after);
            }
        }
        printf("  kind %d: %u failures in calls %u to %u\n", (int)calls[k], hits, first, last);
        assert_true(hits > 0);
    }
}

/* Once, and the device is as before. Who cannot take a step says so before it has begun, or gives
   up. */
static void the_others_hear_of_missing_memory(void **state)
{
    static const enum fake_fn calls[] = { FAKE_SEGMENT_INIT, FAKE_SUBMIT, FAKE_WRITE, FAKE_READ,
                                          FAKE_REPLAY };
    struct worker w[SIZE];
    (void)state;
    for (size_t k = 0; k < COPSE_COUNT(calls); k++) {
        uint32_t refused = 0, given_up = 0;
        open_fakes();
        run(w, 60000);
        const uint32_t first = atomic_load(&calls_before[calls[k]]) + 1,
                       last = fake_calls(VICTIM, calls[k]);
        copse_context_release(&ctx);
        const uint32_t stride = 1 + (last - first) / 40;
        for (uint32_t n = first; n <= last; n += stride) {
            open_fakes();
            fake_fail(VICTIM, calls[k], n, COPSE_ERR_NO_MEMORY, false);
            run(w, 20000);
            copse_context_release(&ctx);
            if (w[VICTIM].status == COPSE_OK)
                continue;
            if (w[VICTIM].status != COPSE_ERR_NO_MEMORY)
                fail_msg("call %u of %u: the victim: %s", n, last, w[VICTIM].text);
            const bool is_refused = w[0].status == COPSE_ERR_NO_MEMORY;
            refused += is_refused;
            given_up += !is_refused;
            for (uint32_t r = 0; r < SIZE; r += 2)
                if (w[r].status != (is_refused ? COPSE_ERR_NO_MEMORY : COPSE_ERR_COMM) ||
                    !strstr(w[r].text, is_refused ? "worker 1 (h1:1) could not take part"
                                                  : "): it failed in the middle of a step"))
                    fail_msg("call %u of %u: worker %u: %s: %s", n, last, r,
                             copse_status_name(w[r].status), w[r].text);
        }
        printf("  kind %d: %u refused and %u given up in calls %u to %u\n", (int)calls[k], refused,
               given_up, first, last);
        assert_true(refused + given_up > 0);
    }
}

static void a_flush_is_refused_by_all(void **state)
{
    struct worker w[SIZE];
    (void)state;
    accumulate = 4;
    open_fakes();
    run(w, 20000);
    copse_context_release(&ctx);
    accumulate = 0;
    for (uint32_t r = 0; r < SIZE; r++) {
        assert_int_equal(w[r].flushed, COPSE_ERR_NO_MEMORY);
        if (w[r].status)
            fail_msg("worker %u: %s", r, w[r].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_others_name_worker_and_device),
        cmocka_unit_test(the_others_hear_of_missing_memory),
        cmocka_unit_test(a_flush_is_refused_by_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
