/* SPDX-License-Identifier: MIT */
/* See train_model.h. Errors are printed and end the run with NULL. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/distribute/parameter_server.h"
#include "copse/train/audit.h"

#include "core/base/random.h"
#include "tests/rig/train/train_model.h"

static const uint32_t widths[4] = { MODEL_IN, 32, 16, MODEL_CLASSES };

size_t model_parameters(void)
{
    size_t n = 0;
    for (int i = 0; i < 3; i++)
        n += (size_t)(widths[i] + 1) * widths[i + 1];
    return n;
}

copse_status model_create(struct model *m, copse_strategy *st)
{
    for (uint32_t i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "w%u", i);
        COPSE_TRY(copse_variable_create(
            st,
            &(struct copse_variable_params){ .name = name,
                                             .shape = COPSE_SHAPE(widths[i], widths[i + 1]),
                                             .initializer = COPSE_INIT_HE_NORMAL,
                                             .seed = 7 },
            &m->variables[2 * i]));
        snprintf(name, sizeof name, "b%u", i);
        COPSE_TRY(copse_variable_create(
            st,
            &(struct copse_variable_params){ .name = name, .shape = COPSE_SHAPE(widths[i + 1]) },
            &m->variables[2 * i + 1]));
        m->w[i] = copse_variable_tensor(m->variables[2 * i]);
        m->b[i] = copse_variable_tensor(m->variables[2 * i + 1]);
    }
    return COPSE_OK;
}

copse_tensor *model_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct model *m = user;
    copse_tensor *h = copse_input(in, "x");
    copse_tensor *y = copse_input(in, "y");
    for (int i = 0; i < 3; i++) {
        h = copse_dense(g, h, m->w[i], m->b[i], i < 2 ? COPSE_RELU : COPSE_LINEAR);
        if (i < 2 && m->dropout > 0.0f)
            h = copse_dropout(g, h, m->dropout, in->is_training);
    }
    copse_tensor *guess = copse_argmax(g, h, 1);
    copse_tensor *right = copse_equal(g, guess, y);
    copse_tensor *accuracy = copse_mean(g, right, NULL, 0, false);
    copse_report(g, "accuracy", accuracy);
    return copse_sparse_cross_entropy(g, h, y, m->is_sum ? COPSE_SUM : COPSE_MEAN);
}

void model_data(float *x, int32_t *y)
{
    float directions[MODEL_CLASSES][MODEL_IN];
    struct copse_stream s;
    copse__stream_init(&s, 42, 0);
    for (int c = 0; c < MODEL_CLASSES; c++)
        for (int i = 0; i < MODEL_IN; i++)
            directions[c][i] = copse__stream_normal(&s);
    for (int r = 0; r < MODEL_ROWS; r++) {
        y[r] = (int32_t)copse__stream_below(&s, MODEL_CLASSES);
        for (int i = 0; i < MODEL_IN; i++)
            x[r * MODEL_IN + i] = directions[y[r]][i] + 0.7f * copse__stream_normal(&s);
    }
}

double model_distance(const float *a, const float *b)
{
    double worst = 0.0;
    for (int v = 0, at = 0; v < MODEL_VARIABLES; v++) {
        const int n = (int)(v % 2 ? widths[v / 2 + 1] : widths[v / 2] * widths[v / 2 + 1]);
        double difference = 0.0, norm = 0.0;
        for (int i = 0; i < n; i++, at++) {
            const double d = (double)a[at] - (double)b[at];
            difference += d * d;
            norm += (double)a[at] * (double)a[at];
        }
        worst = fmax(worst, sqrt(difference) / (norm > 0.0 ? sqrt(norm) : 1.0));
    }
    return worst;
}

static copse_status train(const struct run *r, copse_strategy *st, struct model *m,
                          copse_trainer *t)
{
    static float x[MODEL_ROWS * MODEL_IN];
    static int32_t y[MODEL_ROWS];
    const uint32_t batch = r->batch ? r->batch : 32, steps = r->steps ? r->steps : 20;
    model_data(x, y);
    for (uint32_t i = 0; i < steps; i++) {
        struct copse_step_result result;
        const uint32_t first = i * batch % (MODEL_ROWS - batch + 1);
        COPSE_TRY(copse_trainer_step(
            t, &(struct copse_host_batch){ RIG_XY(MODEL_IN, x + first * MODEL_IN, y + first),
                                           .count = batch, .first = first }));
        if (r->after_step) {
            COPSE_TRY(copse_trainer_result(t, true, &result));
            r->after_step(st, m, result.step);
        }
    }
    return COPSE_OK;
}

float *run_model(copse_context *ctx, const struct run *r, size_t *count)
{
    static const char *const host[] = { "host:0" };
    copse_strategy *st = NULL;
    copse_trainer *t = NULL;
    struct model m = { .dropout = r->dropout, .is_sum = r->is_sum };
    float *values = malloc(model_parameters() * sizeof *values);
    copse_status s;
    COPSE_TRY_OR(done, s,
                 r->is_served ? copse_parameter_server_create(
                                    ctx, NULL, r->device_count ? r->devices : host,
                                    r->device_count ? r->device_count : 1, &r->strategy, &st)
                              : copse_mirrored_create(ctx, r->device_count ? r->devices : host,
                                                      r->device_count ? r->device_count : 1,
                                                      &r->strategy, &st));
    COPSE_TRY_OR(done, s, model_create(&m, st));
    COPSE_TRY_OR(done, s,
                 copse_trainer_create(st,
                                      &(struct copse_trainer_params){
                                          .loss = model_loss,
                                          .user = &m,
                                          .reduction = r->is_sum ? COPSE_LOSS_SUM : COPSE_LOSS_MEAN,
                                          .optimizer = r->optimizer,
                                          .seed = 3 },
                                      &t));
    COPSE_TRY_OR(done, s,
                 copse_trainer_audit(
                     t, &(struct copse_audit_params){ .is_off = r->is_unwatched,
                                                      .is_cross_check_off = r->is_unwatched }));
    COPSE_TRY_OR(done, s, train(r, st, &m, t));
    size_t at = 0;
    for (int v = 0; v < MODEL_VARIABLES; v++) {
        COPSE_TRY_OR(done, s, copse_variable_read(m.variables[v], 0, values + at));
        at += (size_t)(v % 2 ? widths[v / 2 + 1] : widths[v / 2] * widths[v / 2 + 1]);
    }
    *count = at;
done:
    if (s != COPSE_OK) {
        fprintf(stderr, "run_model: %s\n", copse_last_error());
        free(values);
        values = NULL;
    }
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    return values;
}
