/* SPDX-License-Identifier: MIT */
/* One training script, unchanged, under all five strategies: after 50 steps of Adam on the digits
   the weights are those of one device; with gradients of one batch, and of two gathered to a step.
   (Parameter servers of a job, which are not in step: cluster_ps.sh.) */
#include <math.h>

#include "copse/compat/single_loss.h"
#include "copse/distribute/accelerator.h"
#include "copse/distribute/parameter_server.h"

#include "tests/rig/workers/worker_rig.h"

#define DIGITS    "examples/data/digits/digits.csv.gz"
#define HIDDEN    32
#define VARIABLES 4
#define STEPS     50

/* ---- the script: public API only; it knows nothing of the strategy that it is given ---- */

static const copse_shape shapes[VARIABLES] = {
    { 2, { 64, HIDDEN } }, { 1, { HIDDEN } }, { 2, { HIDDEN, 10 } }, { 1, { 10 } }
};
static const size_t sizes[VARIABLES] = { 64 * HIDDEN, HIDDEN, HIDDEN * 10, 10 };

struct weights {
    float at[VARIABLES][64 * HIDDEN];
};

struct script {
    copse_strategy *st;
    uint32_t accumulate;
    copse_variable *variables[VARIABLES];
};

static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct script *s = user;
    copse_tensor *w[VARIABLES], *h, *logits;
    for (int i = 0; i < VARIABLES; i++)
        w[i] = copse_variable_tensor(s->variables[i]);
    h = copse_dense(g, rig_x(in), w[0], w[1], COPSE_RELU);
    logits = copse_dense(g, h, w[2], w[3], COPSE_LINEAR);
    return copse_sparse_cross_entropy(g, logits, rig_y(in), COPSE_MEAN);
}

static copse_status make_trainer(void *user, copse_trainer **out)
{
    struct script *s = user;
    static const char *const names[VARIABLES] = { "w1", "b1", "w2", "b2" };
    for (int i = 0; i < VARIABLES; i++)
        COPSE_TRY(copse_variable_create(
            s->st,
            &(struct copse_variable_params){
                .name = names[i],
                .shape = shapes[i],
                .initializer = shapes[i].rank == 2 ? COPSE_INIT_HE_NORMAL : COPSE_INIT_ZEROS,
                .seed = 7 },
            &s->variables[i]));
    return copse_trainer_create(s->st,
                                &(struct copse_trainer_params){ .loss = loss,
                                                                .user = s,
                                                                .optimizer = { .kind = COPSE_ADAM },
                                                                .accumulate = s->accumulate },
                                out);
}

static copse_status open_digits(void *user, copse_strategy *st, copse_dataset **out)
{
    (void)user;
    (void)st;
    return copse_dataset_open(ctx, DIGITS,
                              &(struct copse_dataset_params){ .scale = COPSE_SCALE_MAX }, out);
}

static copse_status train(copse_strategy *st, uint32_t accumulate, struct weights *out)
{
    struct script s = { .st = st, .accumulate = accumulate };
    copse_step *step;
    copse_outputs *unused;
    COPSE_TRY(copse_single_loss_step_create(
        ctx,
        &(struct copse_single_loss_params){
            .input = { .dataset = open_digits,
                       .batches = { .batch = 60, .seed = 3, .drop_last = true },
                       .epochs = 4 },
            .make = make_trainer,
            .make_user = &s,
            .iterations_per_step = STEPS / 5 },
        &step));
    copse_status status = COPSE_OK;
    for (int i = 0; i < 5 && !status; i++)
        status = copse_step_run(step);
    if (!status)
        status = copse_step_outputs(step, &unused);
    if (!status && copse_trainer_steps(copse_step_trainer(step)) != STEPS)
        status = copse_fail(COPSE_ERR_INTERNAL, "%llu steps",
                            (unsigned long long)copse_trainer_steps(copse_step_trainer(step)));
    for (int i = 0; i < VARIABLES && !status; i++)
        status = copse_variable_read(s.variables[i], 0, out->at[i]);
    copse_step_release(&step);
    return status;
}

/* ---- the strategies ---- */

static struct weights alone[2], weights[4]; /* [accumulate - 1]; of a worker */

/* The devices of replica 0, 1, ...: those found, in turn. */
static size_t list(const char *ids[8], uint32_t count)
{
    for (uint32_t r = 0; r < count; r++)
        ids[r] = found[r % found_count];
    return count;
}

static void check(const struct weights *w, uint32_t accumulate, const char *strategy,
                  uint32_t replicas)
{
    const struct weights *one = &alone[accumulate - 1];
    for (int i = 0; i < VARIABLES; i++) {
        double difference = 0.0, norm = 0.0;
        for (size_t k = 0; k < sizes[i]; k++) {
            const double a = (double)w->at[i][k], b = (double)one->at[i][k];
            difference += (a - b) * (a - b);
            norm += b * b;
        }
        if (!(sqrt(difference) <= 1e-5 * sqrt(norm)))
            fail_msg("%s, %u replicas, %u batches to a step: tensor %d differs by %.3g of its norm "
                     "from one "
                     "device's",
                     strategy, replicas, accumulate, i, sqrt(difference / norm));
    }
}

static void run_one(copse_strategy *st, uint32_t accumulate)
{
    OK(train(st, accumulate, &weights[0]));
    check(&weights[0], accumulate, copse_strategy_name(st), copse_strategy_replicas(st));
    copse_strategy_release(&st);
}

static void one_device(void **state)
{
    copse_strategy *st;
    (void)state;
    for (uint32_t accumulate = 1; accumulate <= 2; accumulate++) {
        OK(copse_one_device_create(ctx, "host:0", NULL, &st));
        OK(train(st, accumulate, &alone[accumulate - 1]));
        copse_strategy_release(&st);
        for (uint32_t i = 0; i < found_count; i++) {
            OK(copse_one_device_create(ctx, found[i], NULL, &st));
            run_one(st, accumulate);
        }
    }
    assert_memory_not_equal(&alone[0], &alone[1], sizeof alone[0]);
}

static const struct {
    uint32_t replicas, accumulate;
} cases[] = { { 1, 1 }, { 2, 1 }, { 3, 1 }, { 5, 1 }, { 8, 1 }, { 2, 2 }, { 3, 2 } };

static void mirrored(void **state)
{
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        const char *ids[8];
        copse_strategy *st;
        OK(copse_mirrored_create(ctx, ids, list(ids, cases[i].replicas), NULL, &st));
        run_one(st, cases[i].accumulate);
    }
}

static void parameter_server(void **state)
{
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        const char *ids[8];
        copse_strategy *st;
        OK(copse_parameter_server_create(ctx, NULL, ids, list(ids, cases[i].replicas), NULL, &st));
        run_one(st, cases[i].accumulate);
    }
}

static void accelerator(void **state)
{
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        const struct copse_accelerator_params p = { .steps_per_run = 1 + 4 * (uint32_t)(i % 2) };
        const char *ids[8];
        copse_strategy *st;
        OK(copse_accelerator_create(ctx, ids, list(ids, cases[i].replicas), &p, &st));
        run_one(st, cases[i].accumulate);
    }
    for (uint32_t i = 0; i < found_count; i++) { /* three cores of one device */
        const char *ids[3] = { found[i], found[i], found[i] };
        copse_strategy *st;
        OK(copse_accelerator_create(
            ctx, ids, 3, &(struct copse_accelerator_params){ .steps_per_run = 10 }, &st));
        run_one(st, 1);
    }
}

static copse_status work(struct worker *w, copse_strategy *st)
{
    return train(st, *(const uint32_t *)w->job, &weights[w->rank]);
}

static void collective(void **state)
{
    static const struct {
        uint32_t workers, replicas, accumulate;
    } jobs[] = { { 2, 1, 1 }, { 2, 2, 1 }, { 4, 1, 1 }, { 4, 2, 1 }, { 2, 1, 2 }, { 2, 2, 2 } };
    struct worker w[4];
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(jobs); i++) {
        run_workers_over(&copse__transport_local, w, jobs[i].workers, jobs[i].replicas,
                         &jobs[i].accumulate, work);
        assert_all_ok(w, jobs[i].workers);
        for (uint32_t v = 0; v < jobs[i].workers; v++)
            check(&weights[v], jobs[i].accumulate, "collective",
                  jobs[i].workers * jobs[i].replicas);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_device), /* first: the others compare with it */
        cmocka_unit_test(mirrored),         cmocka_unit_test(collective),
        cmocka_unit_test(parameter_server), cmocka_unit_test(accelerator),
    };
    return cmocka_run_group_tests(tests, open_workers, close_workers);
}
