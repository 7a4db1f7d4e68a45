/* SPDX-License-Identifier: MIT */
/* Mode train: a small network on fixed data. Compares its losses with the same training in double
   precision, compares one replica with several, and checks that all replicas hold the same bits, and so
   does the same training again, with audits. */
#include <math.h>
#include <stdio.h>

#include "copse/matmul.h"
#include "copse/ops.h"
#include "copse/train/audit.h"
#include "copse/trainer.h"
#include "core/base/random.h"
#include "core/rule/rule.h"
#include "core/variable/flat_store.h"
#include "prover/conformance/modes/modes.h"

enum { IN = 20, CLASSES = 5, LAYERS = 3, VARIABLES = 2 * LAYERS, ROWS = 200, BATCH = 32 };
#define MAX_REPLICAS 3
#define LONG_RUN     100u
#define SHORT_RUN    20u

static const uint32_t widths[LAYERS + 1] = { IN, 32, 16, CLASSES };

static uint32_t mode_train_elements(int variable)
{
    const int layer = variable / 2;
    return widths[layer + 1] * (variable % 2 ? 1 : widths[layer]);
}

static uint32_t mode_train_parameters(void)
{
    uint32_t n = 0;
    for (int v = 0; v < VARIABLES; v++)
        n += mode_train_elements(v);
    return n;
}

struct data {
    float x[ROWS * IN];
    int32_t y[ROWS];
};

static void make_data(struct data *d)
{
    float directions[CLASSES][IN];
    struct copse_stream s;
    copse__stream_init(&s, 42, 0);
    for (int c = 0; c < CLASSES; c++)
        for (int i = 0; i < IN; i++)
            directions[c][i] = copse__stream_normal(&s);
    for (int row = 0; row < ROWS; row++) {
        d->y[row] = (int32_t)copse__stream_below(&s, CLASSES);
        for (int i = 0; i < IN; i++)
            d->x[row * IN + i] = directions[d->y[row]][i] + 0.7f * copse__stream_normal(&s);
    }
}

static uint32_t first_row(uint32_t step)
{
    return (step - 1) * BATCH % (ROWS - BATCH + 1);
}

static copse_tensor *mode_train_network(copse_graph *g, copse_tensor *x, copse_tensor *y,
                                        copse_tensor *const *p)
{
    for (int i = 0; i < LAYERS; i++)
        x = copse_dense(g, x, p[2 * i], p[2 * i + 1], i + 1 < LAYERS ? COPSE_RELU : COPSE_LINEAR);
    return copse_sparse_cross_entropy(g, x, y, COPSE_MEAN);
}

/* ---- on devices ---- */

/* The training job and its results. */
struct job {
    const char *ids[MAX_REPLICAS];
    uint32_t replicas, steps;
    bool is_audited; /* with cross-check and audits, as applications train */
    struct copse_optimizer_params optimizer;
    struct data data;
    copse_variable *variables[VARIABLES];
    copse_tensor *tensors[VARIABLES];
    float *start, *values;       /* [parameters], [replicas][parameters] */
    double losses[LONG_RUN + 1]; /* by step */
};

static copse_tensor *mode_train_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct job *j = user;
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_input(in, "y");
    return mode_train_network(g, x, y, j->tensors);
}

static copse_status make_variables(copse_strategy *st, struct job *j)
{
    for (int v = 0; v < VARIABLES; v++) {
        char name[8];
        const uint32_t layer = (uint32_t)v / 2;
        snprintf(name, sizeof name, "%c%u", v % 2 ? 'b' : 'w', layer);
        struct copse_variable_params p = { .name = name, .shape = COPSE_SHAPE(widths[layer + 1]) };
        if (v % 2 == 0) {
            p.shape = COPSE_SHAPE(widths[layer], widths[layer + 1]);
            p.initializer = COPSE_INIT_HE_NORMAL;
            p.seed = 7;
        }
        COPSE_TRY(copse_variable_create(st, &p, &j->variables[v]));
        j->tensors[v] = copse_variable_tensor(j->variables[v]);
    }
    return COPSE_OK;
}

static copse_status read_all(const struct job *j, uint32_t replica, float *to)
{
    for (int v = 0; v < VARIABLES; v++) {
        COPSE_TRY(copse_variable_read(j->variables[v], replica, to));
        to += mode_train_elements(v);
    }
    return COPSE_OK;
}

static copse_status take_steps(copse_trainer *t, struct job *j)
{
    for (uint32_t step = 1; step <= j->steps; step++) {
        const uint32_t first = first_row(step);
        struct copse_step_result result;
        const struct copse_host_batch batch = {
            COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(IN), j->data.x + first * IN },
                          { "y", COPSE_I32, COPSE_SCALAR, j->data.y + first }),
            .count = BATCH, .first = first
        };
        COPSE_TRY(copse_trainer_step(t, &batch));
        COPSE_TRY(copse_trainer_result(t, true, &result));
        j->losses[step] = result.loss;
    }
    return COPSE_OK;
}

static copse_status train_model(struct copse_conform_run *r, struct job *j)
{
    copse_strategy *st = NULL;
    copse_trainer *t = NULL;
    copse_status s;
    const struct copse_trainer_params params = { .loss = mode_train_loss,
                                                 .user = j,
                                                 .optimizer = j->optimizer };
    COPSE_TRY_OR(done, s, copse_mirrored_create(r->ctx, j->ids, j->replicas, NULL, &st));
    COPSE_TRY_OR(done, s, make_variables(st, j));
    COPSE_TRY_OR(done, s, read_all(j, 0, j->start));
    COPSE_TRY_OR(done, s, copse_trainer_create(st, &params, &t));
    static const struct copse_audit_params none = { .is_off = true, .is_cross_check_off = true };
    if (!j->is_audited) /* the comparisons are this mode's own */
        COPSE_TRY_OR(done, s, copse_trainer_audit(t, &none));
    COPSE_TRY_OR(done, s, take_steps(t, j));
    for (uint32_t k = 0; k < j->replicas; k++)
        COPSE_TRY_OR(done, s, read_all(j, k, j->values + k * mode_train_parameters()));
done:
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    return s;
}

static copse_status make_job(struct copse_conform_run *r, const struct job *how, struct job **out)
{
    struct job *j;
    COPSE_TRY(copse__conform_memory(r, 1, sizeof *j, &j));
    *out = j;
    *j = *how;
    make_data(&j->data);
    COPSE_TRY(copse__conform_memory(r, mode_train_parameters(), COPSE_WORD_BYTES, &j->start));
    return copse__conform_memory(r, MAX_REPLICAS * mode_train_parameters(), COPSE_WORD_BYTES,
                                 &j->values);
}

static void free_job(struct copse_conform_run *r, struct job *j)
{
    if (j) {
        copse__free(&r->ctx->base.mem, j->start);
        copse__free(&r->ctx->base.mem, j->values);
    }
    copse__free(&r->ctx->base.mem, j);
}

/* ---- in double precision ---- */

struct reference {
    const struct job *job;
    copse_tensor *x, *y, *inputs[VARIABLES], *out[1 + VARIABLES];
    struct copse_conform_variable variables[VARIABLES];
    double *results[1 + VARIABLES]; /* the loss, then the gradients */
    double *room;
    uint32_t step;
};

static copse_status mode_train_feed(void *user, const copse_tensor *leaf, void *values,
                                    size_t count)
{
    const struct reference *f = user;
    const size_t row = first_row(f->step);
    if (leaf == f->y)
        memcpy(values, f->job->data.y + row, count * COPSE_WORD_BYTES);
    for (size_t i = 0; leaf == f->x && i < count; i++)
        ((double *)values)[i] = (double)f->job->data.x[row * IN + i];
    for (int v = 0; v < VARIABLES; v++)
        if (leaf == f->inputs[v])
            memcpy(values, f->variables[v].value, count * sizeof(double));
    return COPSE_OK;
}

static copse_status mode_train_build(copse_graph *g, struct reference *f)
{
    f->x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(BATCH, IN));
    f->y = copse_graph_input(g, "y", COPSE_I32, COPSE_SHAPE(BATCH));
    for (int v = 0; v < VARIABLES; v++) {
        const uint32_t layer = (uint32_t)v / 2;
        f->inputs[v] = copse_graph_input(g, "p", COPSE_F32,
                                         v % 2 ? COPSE_SHAPE(widths[layer + 1])
                                               : COPSE_SHAPE(widths[layer], widths[layer + 1]));
    }
    f->out[0] = mode_train_network(g, f->x, f->y, f->inputs);
    copse_gradients(g, f->out[0], NULL, f->inputs, VARIABLES, f->out + 1);
    return copse_graph_status(g);
}

static copse_status mode_train_descend(copse_graph *g, struct reference *f, uint32_t steps,
                                       double *losses)
{
    const struct copse_reference_params params = { .graph = g, .feed = mode_train_feed, .user = f };
    struct copse_rule rule;
    COPSE_TRY(copse__rule_init(&f->job->optimizer, &rule));
    for (f->step = 1; f->step <= steps; f->step++) {
        COPSE_TRY(copse__reference_run(&params, f->out, 1 + VARIABLES, f->results));
        losses[f->step] = f->results[0][0];
        for (int v = 0; v < VARIABLES; v++)
            copse__conform_update(&rule, f->step, f->results[1 + v], &f->variables[v]);
    }
    return COPSE_OK;
}

/* The losses of training from the job's initial values. */
static copse_status train_in_double(struct copse_conform_run *r, const struct job *j,
                                    double *losses)
{
    struct reference f = { .job = j };
    copse_graph *g = NULL;
    const float *start = j->start;
    double loss_of_step;
    COPSE_TRY(copse__conform_memory(r, 6 * mode_train_parameters(), sizeof(double), &f.room));
    double *at = f.room;
    f.results[0] = &loss_of_step;
    for (int v = 0; v < VARIABLES; v++) {
        const uint32_t n = mode_train_elements(v);
        f.variables[v] = (struct copse_conform_variable){
            n, at, { at + n, at + 2 * n, at + 3 * n }, at + 4 * n
        };
        f.results[1 + v] = at + 5 * n;
        for (uint32_t i = 0; i < n; i++)
            at[i] = (double)*start++;
        at += 6 * n;
    }
    copse_status s = copse_graph_create(r->ctx, &g);
    if (!s)
        s = mode_train_build(g, &f);
    if (!s)
        s = mode_train_descend(g, &f, j->steps, losses);
    copse_graph_release(&g);
    copse__free(&r->ctx->base.mem, f.room);
    return s;
}

/* ---- cases ---- */

static copse_status compare_losses(struct copse_conform_run *r, const struct job *j,
                                   struct copse_conform_outcome *out)
{
    double want[LONG_RUN + 1];
    const uint32_t last = j->steps;
    COPSE_TRY(train_in_double(r, j, want));
    const double first_off = fabs(j->losses[1] - want[1]) / want[1];
    const double last_off = fabs(j->losses[last] - want[last]) / want[last];
    out->result.metric = "norm";
    out->result.limit = 1e-3;
    if (!copse__conform_measure(out, last_off, last, j->losses[last], want[last]))
        copse__conform_set(out, COPSE_VERDICT_FAIL,
                           "the loss of step %u is %.9g, %.9g in double precision", last,
                           j->losses[last], want[last]);
    if (!(first_off <= 1e-6))
        copse__conform_set(out, COPSE_VERDICT_FAIL,
                           "the loss of step 1 is %.9g, %.9g in double precision: %.2g off, 1e-06 "
                           "is allowed",
                           j->losses[1], want[1], first_off);
    if (!(want[last] < 0.5 * want[1]))
        copse__conform_set(out, COPSE_VERDICT_MISTRUSTED, "nothing was learned: %.3g after %.3g",
                           want[last], want[1]);
    return COPSE_OK;
}

static copse_status check_losses(struct copse_conform_run *r, void *user,
                                 struct copse_conform_outcome *out)
{
    struct job *j = NULL;
    copse_status s = make_job(r, user, &j);
    if (!s)
        s = train_model(r, j);
    if (!s) {
        copse__conform_digest(out, j->values, mode_train_parameters() * COPSE_WORD_BYTES);
        s = compare_losses(r, j, out);
    }
    free_job(r, j);
    return s;
}

/* Twice the same training gives the same bits, and no audit finds a difference. */
static copse_status check_twice(struct copse_conform_run *r, void *user,
                                struct copse_conform_outcome *out)
{
    const size_t bytes = mode_train_parameters() * COPSE_WORD_BYTES;
    struct job *first = NULL, *second = NULL;
    copse_status s = make_job(r, user, &first);
    if (!s)
        s = make_job(r, user, &second);
    if (!s)
        s = train_model(r, first);
    if (!s)
        s = train_model(r, second);
    if (!s) {
        copse__conform_digest(out, first->values, bytes);
        if (memcmp(first->values, second->values, bytes) != 0 ||
            memcmp(first->losses, second->losses, sizeof first->losses) != 0)
            copse__conform_set(out, COPSE_VERDICT_FAIL,
                               "a second training from the same values has other bits");
    }
    free_job(r, first);
    free_job(r, second);
    return s;
}

static void compare_replicas(const struct job *one, const struct job *several,
                             struct copse_conform_outcome *out)
{
    const float *a = one->values, *b = several->values;
    uint32_t at = 0;
    out->result.metric = "norm";
    out->result.limit = 1e-5;
    for (uint32_t k = 1; k < several->replicas; k++)
        if (memcmp(b, b + k * mode_train_parameters(),
                   mode_train_parameters() * COPSE_WORD_BYTES) != 0)
            copse__conform_set(out, COPSE_VERDICT_FAIL,
                               "replica %u on %s does not hold the bits of replica 0", k,
                               several->ids[k]);
    for (int v = 0; v < VARIABLES; v++) {
        double difference = 0.0, norm = 0.0;
        for (uint32_t i = 0; i < mode_train_elements(v); i++, at++) {
            const double d = (double)a[at] - (double)b[at];
            difference += d * d;
            norm += (double)a[at] * (double)a[at];
        }
        const double off = sqrt(difference) / sqrt(norm);
        if (!copse__conform_measure(out, off, (uint64_t)v, sqrt(norm), sqrt(norm)))
            copse__conform_set(out, COPSE_VERDICT_FAIL,
                               "variable %d differs by %.2g of its norm from one replica's", v,
                               off);
    }
}

static copse_status check_replicas(struct copse_conform_run *r, void *user,
                                   struct copse_conform_outcome *out)
{
    struct job *one = NULL, *several = NULL;
    copse_status s = make_job(r, user, &several);
    if (!s)
        s = make_job(r, user, &one);
    if (!s) {
        one->replicas = 1;
        s = train_model(r, one);
    }
    if (!s)
        s = train_model(r, several);
    if (!s) {
        copse__conform_digest(out, several->values, mode_train_parameters() * COPSE_WORD_BYTES);
        compare_replicas(one, several, out);
    }
    free_job(r, one);
    free_job(r, several);
    return s;
}

copse_status copse__conform_train_hash(struct copse_conform_run *r, const char *const *ids,
                                       uint32_t replicas, uint64_t *hash)
{
    struct job *j = NULL, how = { .replicas = replicas, .steps = SHORT_RUN };
    for (uint32_t k = 0; k < replicas && k < MAX_REPLICAS; k++)
        how.ids[k] = ids[k];
    copse_status s = make_job(r, &how, &j);
    if (!s)
        s = train_model(r, j);
    for (uint32_t k = 1; !s && k < replicas; k++)
        if (memcmp(j->values, j->values + k * mode_train_parameters(),
                   mode_train_parameters() * COPSE_WORD_BYTES) != 0)
            s = copse_fail(COPSE_ERR_INTERNAL,
                           "replica %u on %s does not hold the bits of replica 0", k, ids[k]);
    if (!s) {
        *hash = copse__hash(COPSE_HASH_START, j->losses, sizeof j->losses);
        *hash = copse__hash(*hash, j->values, mode_train_parameters() * COPSE_WORD_BYTES);
    }
    free_job(r, j);
    return s;
}

copse_status copse__conform_train(struct copse_conform_run *r)
{
    char own[32], name[64]; /* r->dev may change */
    memcpy(own, r->dev->info.id, sizeof own);
    struct job adam = { .ids = { own }, .replicas = 1, .steps = LONG_RUN };
    struct job momentum = adam;
    momentum.optimizer.kind = COPSE_MOMENTUM;
    copse__conform_one(r, &(struct copse_conform_case){ "train", "mlp", "adam, 100 steps", NULL },
                       check_losses, &adam);
    copse__conform_one(r,
                       &(struct copse_conform_case){ "train", "mlp", "momentum, 100 steps", NULL },
                       check_losses, &momentum);
    struct job twice = adam;
    twice.is_audited = true;
    copse__conform_one(
        r, &(struct copse_conform_case){ "train", "audit", "mlp, 100 steps, twice", NULL },
        check_twice, &twice);
    for (uint32_t replicas = 2; replicas <= MAX_REPLICAS; replicas++) {
        struct job j = { .ids = { own, own, own }, .replicas = replicas, .steps = SHORT_RUN };
        snprintf(name, sizeof name, "%u replicas", replicas);
        copse__conform_one(r, &(struct copse_conform_case){ "train", "mlp", name, NULL },
                           check_replicas, &j);
    }
    const bool is_quick = r->params->tier == COPSE_CONFORM_QUICK && !r->params->case_name;
    for (size_t d = 0; !is_quick && d < r->ctx->device_count; d++) {
        const struct copse_device_info *other = &r->ctx->devices[d];
        struct job j = { .ids = { own, other->id, own }, .replicas = 3, .steps = SHORT_RUN };
        if (!other->is_usable || strcmp(other->id, own) == 0)
            continue;
        snprintf(name, sizeof name, "3 replicas with %s", other->id);
        r->is_shared = true;
        copse__conform_one(r, &(struct copse_conform_case){ "train", "mlp", name, NULL },
                           check_replicas, &j);
        r->is_shared = false;
    }
    return COPSE_OK;
}
