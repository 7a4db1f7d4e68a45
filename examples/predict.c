/* SPDX-License-Identifier: MIT */
/* Trains a model, saves it, loads it as another process would, and predicts from data without
   labels. */
#include <stdio.h>

#include "copse/copse.h"
#include "copse/data/schema.h"
#include "copse/train/evaluate.h"

enum { ROWS = 300, COLUMNS = 2 };

/* Points inside and outside of a circle. */
static void make_points(float *x, int32_t *y)
{
    for (int i = 0; i < ROWS; i++) {
        const float a = (float)(i * 37 % 101) / 50.0f - 1.0f,
                    b = (float)(i * 53 % 97) / 48.0f - 1.0f;
        x[2 * i] = a;
        x[2 * i + 1] = b;
        y[i] = a * a + b * b < 0.5f;
    }
}

static copse_status train(copse_strategy *st, copse_dataset *data, const char *path)
{
    copse_model *m = NULL;
    copse_trainer *t = NULL;
    copse_loader *batches = NULL;
    copse_status s;
    COPSE_TRY_OR(
        end, s,
        copse_model_create(st, copse_dataset_schema(data),
                           &(struct copse_model_params){
                               .network = "dense 32 relu; dense 32 relu; dense out", .seed = 1 },
                           &m));
    COPSE_TRY_OR(
        end, s,
        copse_trainer_create(st,
                             &(struct copse_trainer_params){
                                 .loss = copse_model_loss,
                                 .user = m,
                                 .optimizer = { .kind = COPSE_ADAM, .learning_rate = 0.01f } },
                             &t));
    COPSE_TRY_OR(end, s,
                 copse_loader_create(data, &(struct copse_loader_params){ .batch = 50, .seed = 1 },
                                     &batches));
    COPSE_TRY_OR(end, s, copse_trainer_fit(t, batches, &(struct copse_fit_params){ .epochs = 60 }));
    COPSE_TRY_OR(end, s, copse_model_save(m, path, NULL));
end:
    copse_loader_release(&batches);
    copse_trainer_release(&t);
    copse_model_release(&m);
    return s;
}

/* On a strategy of its own: the names of the variables are taken on the first. */
static copse_status use(copse_context *ctx, const char *path, const struct copse_array_view *points,
                        copse_dataset *labelled)
{
    copse_strategy *st = NULL;
    copse_model *m = NULL;
    copse_dataset *data = NULL;
    struct copse_evaluation e;
    copse_status s;
    static float p[ROWS * 2]; /* probabilities */
    int inside = 0;
    COPSE_TRY_OR(end, s, copse_one_device_create(ctx, "host:0", NULL, &st));
    COPSE_TRY_OR(end, s, copse_model_load(st, path, &m));
    COPSE_TRY_OR(end, s,
                 copse_dataset_create(
                     ctx, points, NULL,
                     &(struct copse_dataset_params){ .schema = copse_model_schema(m) }, &data));
    COPSE_TRY_OR(end, s, copse_model_predict(m, data, p));
    for (int i = 0; i < ROWS; i++)
        inside += p[2 * i + 1] > 0.5f;
    COPSE_TRY_OR(end, s, copse_model_evaluate(m, labelled, NULL, &e));
    printf("%d of %d points are inside; %.1f %% of the labels are right\n", inside, ROWS,
           100.0 * e.accuracy);
end:
    copse_dataset_release(&data);
    copse_model_release(&m);
    copse_strategy_release(&st);
    return s;
}

static copse_status run(copse_context *ctx)
{
    static float x[ROWS * COLUMNS];
    static int32_t y[ROWS];
    const char *const path = "predict-example.safetensors";
    const struct copse_array_view points = {
        .type = COPSE_F32, .rank = 2, .shape = { ROWS, COLUMNS }, .data = x
    };
    const struct copse_array_view labels = {
        .type = COPSE_I32, .rank = 1, .shape = { ROWS }, .data = y
    };
    copse_strategy *st = NULL;
    copse_dataset *data = NULL;
    copse_status s;
    make_points(x, y);
    COPSE_TRY_OR(end, s, copse_dataset_create(ctx, &points, &labels, NULL, &data));
    COPSE_TRY_OR(end, s, copse_one_device_create(ctx, "host:0", NULL, &st));
    COPSE_TRY_OR(end, s, train(st, data, path));
    copse_strategy_release(&st);
    COPSE_TRY_OR(end, s, use(ctx, path, &points, data));
end:
    copse_strategy_release(&st);
    copse_dataset_release(&data);
    remove(path);
    return s;
}

int main(void)
{
    copse_context *ctx = NULL;
    copse_status s = copse_context_create(NULL, &ctx);
    if (s == COPSE_OK)
        s = run(ctx);
    if (s != COPSE_OK)
        fprintf(stderr, "predict: %s\n", copse_last_error());
    copse_context_release(&ctx);
    return s == COPSE_OK ? 0 : 1;
}
