/* SPDX-License-Identifier: MIT */
/* Trains a perceptron on the hand-written digits with one replica on every device that
   `copse devices` would choose: the whole program, from the file to the accuracy. */
#include <stdio.h>

#include "copse/copse.h"

struct model {
    copse_tensor *w1, *b1, *w2, *b2;
};

static copse_status loss(copse_graph *g, const copse_batch *in, void *user, copse_tensor **out)
{
    const struct model *m = user;
    copse_tensor *x, *y, *h, *logits, *guess, *is_right, *accuracy;
    COPSE_TRY(copse_input(in, "x", &x));
    COPSE_TRY(copse_input(in, "y", &y));
    COPSE_TRY(copse_dense(g, x, m->w1, m->b1, COPSE_RELU, &h));
    COPSE_TRY(copse_dense(g, h, m->w2, m->b2, COPSE_LINEAR, &logits));
    COPSE_TRY(copse_argmax(g, logits, 1, &guess));
    COPSE_TRY(copse_equal(g, guess, y, &is_right));
    COPSE_TRY(copse_mean(g, is_right, NULL, 0, false, &accuracy));
    COPSE_TRY(copse_report(g, "accuracy", accuracy));
    return copse_sparse_cross_entropy(g, logits, y, COPSE_MEAN, out);
}

static copse_status make_variable(copse_strategy *st, const char *name, copse_shape shape,
                                  copse_tensor **out)
{
    copse_variable *v;
    COPSE_TRY(copse_variable_create(
        st,
        &(struct copse_variable_params){
            .name = name,
            .shape = shape,
            .initializer = shape.rank == 2 ? COPSE_INIT_HE_NORMAL : COPSE_INIT_ZEROS },
        &v));
    *out = copse_variable_tensor(v);
    return COPSE_OK;
}

static copse_status train(copse_trainer *trainer, copse_batches *batches)
{
    for (uint32_t epoch = 0; epoch < 20; epoch++) {
        struct copse_host_batch batch;
        struct copse_step_result result = { 0 };
        copse_status s;
        COPSE_TRY(copse_batches_start(batches, epoch, 0));
        while ((s = copse_batches_next(batches, &batch)) == COPSE_OK)
            COPSE_TRY(copse_trainer_step(trainer, &batch));
        if (s != COPSE_ERR_END) /* a batch could not be read */
            return s;
        while ((s = copse_trainer_result(trainer, true, &result)) == COPSE_OK)
            continue;
        if (s != COPSE_ERR_END)
            return s;
        printf("epoch %2u  loss %.4f\n", epoch + 1, result.loss);
    }
    return COPSE_OK;
}

static copse_status test(copse_trainer *trainer, copse_dataset *data)
{
    static float x[400 * 64];
    static int32_t y[400];
    struct copse_dataset_info info;
    struct copse_step_result result;
    copse_dataset_describe(data, &info);
    COPSE_TRY(copse_dataset_gather(data, "x", NULL, info.rows, x));
    COPSE_TRY(copse_dataset_gather(data, "y", NULL, info.rows, y));
    const struct copse_host_batch batch = { COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(64), x },
                                                          { "y", COPSE_I32, COPSE_SCALAR, y }),
                                            .count = info.rows };
    COPSE_TRY(copse_trainer_evaluate(trainer, &batch, &result));
    printf("held-out accuracy %.1f %%\n", 100.0 * result.reports[0]);
    return COPSE_OK;
}

static copse_status run(const char *path)
{
    char ids[COPSE_MAX_REPLICAS][32];
    const char *devices[COPSE_MAX_REPLICAS];
    size_t count;
    copse_context *ctx = NULL;
    copse_dataset *all = NULL, *train_part = NULL, *test_part = NULL;
    copse_batches *batches = NULL;
    copse_strategy *st = NULL;
    copse_trainer *trainer = NULL;
    copse_status s;
    struct model m;

    COPSE_TRY_OR(end, s, copse_context_create(NULL, &ctx));
    COPSE_TRY_OR(end, s, copse_dataset_open(ctx, path, NULL, &all));
    COPSE_TRY_OR(end, s, copse_dataset_split(all, NULL, &train_part, &test_part));
    COPSE_TRY_OR(end, s, copse_batches_create(train_part, &(struct copse_batches_params){ .batch = 64 },
                                              &batches));
    COPSE_TRY_OR(end, s, copse_select_devices(ctx, "auto", ids, COPSE_MAX_REPLICAS, &count));
    for (size_t i = 0; i < count; i++) {
        devices[i] = ids[i];
        printf("replica %zu on %s\n", i, ids[i]);
    }
    COPSE_TRY_OR(end, s, copse_mirrored_create(ctx, devices, count, NULL, &st));
    COPSE_TRY_OR(end, s, make_variable(st, "w1", COPSE_SHAPE(64, 128), &m.w1));
    COPSE_TRY_OR(end, s, make_variable(st, "b1", COPSE_SHAPE(128), &m.b1));
    COPSE_TRY_OR(end, s, make_variable(st, "w2", COPSE_SHAPE(128, 10), &m.w2));
    COPSE_TRY_OR(end, s, make_variable(st, "b2", COPSE_SHAPE(10), &m.b2));
    COPSE_TRY_OR(end, s, copse_trainer_create(st,
                                              &(struct copse_trainer_params){ .loss = loss,
                                                                              .user = &m },
                                              &trainer));
    COPSE_TRY_OR(end, s, train(trainer, batches));
    COPSE_TRY_OR(end, s, test(trainer, test_part));
end:
    copse_trainer_release(&trainer);
    copse_strategy_release(&st);
    copse_batches_release(&batches);
    copse_dataset_release(&test_part);
    copse_dataset_release(&train_part);
    copse_dataset_release(&all);
    copse_context_release(&ctx);
    return s;
}

int main(int argc, char **argv)
{
    if (run(argc > 1 ? argv[1] : "examples/data/digits/digits.csv.gz") == COPSE_OK)
        return 0;
    fprintf(stderr, "digits: %s\n", copse_last_error());
    return 1;
}
