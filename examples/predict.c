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
    const struct copse_model_params params = { .network = "dense 32 relu; dense 32 relu; dense out",
                                               .seed = 1 };
    const struct copse_model_fit_params how = { .epochs = 60, .batch = 50, .seed = 1 };
    copse_model *m;
    COPSE_TRY(copse_model_create(st, copse_dataset_schema(data), &params, &m));
    copse_status s = copse_model_fit(m, data, &how);
    s = s ? s : copse_model_save(m, path, NULL);
    copse_model_release(&m);
    return s;
}

/* On a strategy of its own: the names of the variables are taken on the first. */
static copse_status use(copse_context *ctx, const char *path, const struct copse_array_view *points,
                        copse_dataset *labelled)
{
    static float p[ROWS * 2]; /* probabilities */
    copse_strategy *st = NULL;
    copse_model *m = NULL;
    copse_dataset *data = NULL;
    struct copse_evaluation e;
    int inside = 0;
    copse_status s = copse_one_device_create(ctx, "host:0", NULL, &st);
    s = s ? s : copse_model_load(st, path, NULL, &m);
    const struct copse_dataset_params as = { .schema = copse_model_schema(m) };
    s = s ? s : copse_dataset_create(ctx, points, NULL, &as, &data);
    s = s ? s : copse_model_predict(m, data, p);
    for (int i = 0; i < ROWS; i++)
        inside += p[2 * i + 1] > 0.5f;
    s = s ? s : copse_model_evaluate(m, labelled, NULL, &e);
    if (!s)
        printf("%d of %d points are inside; %.1f %% of the labels are right\n", inside, ROWS,
               100.0 * e.accuracy);
    copse_dataset_release(&data);
    copse_model_release(&m);
    copse_strategy_release(&st);
    return s;
}

int main(void)
{
    static float x[ROWS * COLUMNS];
    static int32_t y[ROWS];
    const char *const path = "predict-example.safetensors";
    const struct copse_array_view points = { COPSE_F32, 2, { ROWS, COLUMNS }, x },
                                  labels = { COPSE_I32, 1, { ROWS }, y };
    copse_context *ctx = NULL;
    copse_strategy *st = NULL;
    copse_dataset *data = NULL;
    make_points(x, y);
    copse_status s = copse_context_create(NULL, &ctx);
    s = s ? s : copse_dataset_create(ctx, &points, &labels, NULL, &data);
    s = s ? s : copse_one_device_create(ctx, "host:0", NULL, &st);
    s = s ? s : train(st, data, path);
    s = s ? s : use(ctx, path, &points, data);
    if (s)
        fprintf(stderr, "predict: %s\n", copse_last_error());
    remove(path);
    copse_strategy_release(&st);
    copse_dataset_release(&data);
    copse_context_release(&ctx);
    return s != COPSE_OK;
}
