/* SPDX-License-Identifier: MIT */
/* A program of copse/copse.h alone: data in memory becomes a model, which is trained, predicts, is
   saved and loaded; layers are trained by a loss function of the program, and predict. Built and
   run by install.sh. usage: everyday_program MODEL-FILE */
#include <stdio.h>

#include <copse/copse.h>

#define ROWS 60

static float points[ROWS][2];
static int32_t labels[ROWS];

static copse_tensor *logits(copse_graph *g, const copse_batch *in, void *layer)
{
    copse_tensor *x = copse_input(in, "x");
    return copse_layer_apply(layer, g, in, x);
}

static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *layer)
{
    copse_tensor *y = logits(g, in, layer);
    copse_tensor *wanted = copse_input(in, "y");
    return copse_sparse_cross_entropy(g, y, wanted, COPSE_MEAN);
}

static copse_status train(copse_trainer *t, copse_loader *batches, uint32_t epochs)
{
    struct copse_host_batch batch;
    copse_status s = COPSE_ERR_END;
    for (uint32_t e = 0; e < epochs && s == COPSE_ERR_END; e++) {
        COPSE_TRY(copse_loader_start(batches, e, 0));
        while ((s = copse_loader_next(batches, &batch)) == COPSE_OK)
            COPSE_TRY(copse_trainer_step(t, &batch));
    }
    return s == COPSE_ERR_END ? COPSE_OK : s;
}

static int right(const float *values)
{
    int n = 0;
    for (int i = 0; i < ROWS; i++)
        n += (values[2 * i + 1] > values[2 * i]) == labels[i];
    return n;
}

static copse_status check(const char *what, const float *values)
{
    printf("%s: %d of %d points are right\n", what, right(values), ROWS);
    return right(values) > ROWS * 9 / 10 ? COPSE_OK : COPSE_ERR_INTERNAL;
}

static copse_status of_a_model(copse_context *ctx, copse_dataset *data, copse_loader *batches,
                               const char *path)
{
    static float values[2 * ROWS];
    copse_strategy *st, *other;
    copse_model *m;
    copse_trainer *t;
    COPSE_TRY(copse_one_device_create(ctx, "host:0", NULL, &st));
    const struct copse_model_params params = { .network = "dense 8 relu; dense out", .seed = 1 };
    COPSE_TRY(copse_model_create(st, copse_dataset_schema(data), &params, &m));
    COPSE_TRY(copse_trainer_create(
        st,
        &(struct copse_trainer_params){
            .loss = copse_model_loss, .user = m, .optimizer = { .learning_rate = 0.05f } },
        &t));
    COPSE_TRY(train(t, batches, 20));
    COPSE_TRY(copse_model_save(m, path, NULL));
    copse_trainer_release(&t);
    copse_model_release(&m);
    copse_strategy_release(&st);
    COPSE_TRY(copse_one_device_create(ctx, "host:0", NULL, &other));
    COPSE_TRY(copse_model_load(other, path, NULL, &m));
    COPSE_TRY(copse_model_predict(m, data, values));
    copse_model_release(&m);
    copse_strategy_release(&other);
    return check("a model", values);
}

static copse_status of_layers(copse_context *ctx, copse_loader *batches)
{
    static float values[2 * ROWS];
    copse_strategy *st;
    copse_layer *layer;
    copse_trainer *t;
    const struct copse_host_batch all = { COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(2), points }),
                                          .count = ROWS };
    COPSE_TRY(copse_one_device_create(ctx, "host:0", NULL, &st));
    COPSE_TRY(copse_nn_parse(ctx, "dense 8 relu; dense 2", &layer));
    COPSE_TRY(copse_layer_build(
        layer, st, &(struct copse_build_params){ .shape = COPSE_SHAPE(2), .seed = 1 }));
    COPSE_TRY(copse_trainer_create(
        st,
        &(struct copse_trainer_params){
            .loss = loss, .user = layer, .optimizer = { .learning_rate = 0.05f } },
        &t));
    COPSE_TRY(train(t, batches, 20));
    COPSE_TRY(copse_trainer_predict(t, logits, layer, &all, values, sizeof values));
    copse_trainer_release(&t);
    copse_layer_release(&layer);
    copse_strategy_release(&st);
    return check("layers", values);
}

int main(int argc, char **argv)
{
    const struct copse_array_view x = { COPSE_F32, 2, { ROWS, 2 }, points },
                                  y = { COPSE_I32, 1, { ROWS }, labels };
    copse_context *ctx = NULL;
    copse_dataset *data = NULL;
    copse_loader *batches = NULL;
    for (int i = 0; i < ROWS; i++) {
        points[i][0] = (float)(i * 37 % ROWS) / ROWS;
        points[i][1] = (float)(i * 23 % ROWS) / ROWS;
        labels[i] = points[i][0] > points[i][1];
    }
    copse_status s = argc == 2 ? copse_context_create(NULL, &ctx) : COPSE_ERR_ARGUMENT;
    if (s == COPSE_OK)
        s = copse_dataset_create(ctx, &x, &y, NULL, &data);
    if (s == COPSE_OK)
        s = copse_loader_create(data, &(struct copse_loader_params){ .batch = 20, .seed = 1 },
                                &batches);
    if (s == COPSE_OK)
        s = of_a_model(ctx, data, batches, argv[1]);
    if (s == COPSE_OK)
        s = of_layers(ctx, batches);
    if (s != COPSE_OK)
        fprintf(stderr, "%s: %s\n", copse_status_name(s), copse_last_error());
    copse_loader_release(&batches);
    copse_dataset_release(&data);
    copse_context_release(&ctx);
    return s != COPSE_OK;
}
