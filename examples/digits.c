/* SPDX-License-Identifier: MIT */
/* Trains a perceptron on the hand-written digits with one replica on every device that
   `copse devices` would choose: the whole program, from the file to the accuracy. */
#include <stdio.h>

#include "copse/copse.h"

struct model {
    copse_tensor *w1, *b1, *w2, *b2;
};

static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct model *m = user;
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_input(in, "y");
    copse_tensor *h = copse_dense(g, x, m->w1, m->b1, COPSE_RELU);
    copse_tensor *logits = copse_dense(g, h, m->w2, m->b2, COPSE_LINEAR);
    copse_tensor *guess = copse_argmax(g, logits, 1);
    copse_tensor *is_right = copse_equal(g, guess, y);
    copse_tensor *accuracy = copse_mean(g, is_right, NULL, 0, false);
    copse_report(g, "accuracy", accuracy);
    return copse_sparse_cross_entropy(g, logits, y, COPSE_MEAN);
}

static copse_status make_variable(copse_strategy *st, const char *name, copse_shape shape,
                                  copse_tensor **out)
{
    const struct copse_variable_params params = { .name = name, .shape = shape };
    copse_variable *v;
    COPSE_TRY(copse_variable_create(st, &params, &v));
    *out = copse_variable_tensor(v);
    return COPSE_OK;
}

static copse_status print_epoch(void *user, const struct copse_epoch *e, bool *stop)
{
    double accuracy;
    (void)user, (void)stop;
    COPSE_TRY(copse_step_report(&e->held_out, "accuracy", &accuracy));
    printf("epoch %2u  loss %.4f  held-out accuracy %.1f %%\n", e->epoch, e->training.loss,
           100.0 * accuracy);
    return COPSE_OK;
}

/* Each call is made only if those before it have succeeded. */
static copse_status run(const char *path)
{
    struct model m;
    const struct copse_loader_params batch = { .batch = 64 };
    const struct copse_trainer_params params = { .loss = loss, .user = &m };
    copse_context *ctx = NULL;
    copse_dataset *all = NULL, *train_part = NULL, *test_part = NULL;
    copse_loader *batches = NULL, *held_out = NULL;
    copse_strategy *st = NULL;
    copse_trainer *trainer = NULL;
    copse_status s = copse_context_create(NULL, &ctx);
    s = s ? s : copse_dataset_open(ctx, path, NULL, &all);
    s = s ? s : copse_dataset_split(all, NULL, &train_part, &test_part);
    s = s ? s : copse_loader_create(train_part, &batch, &batches);
    s = s ? s : copse_loader_create(test_part, &batch, &held_out);
    s = s ? s : copse_strategy_open(ctx, "auto", NULL, &st);
    for (uint32_t i = 0; i < copse_strategy_replicas(st); i++)
        printf("replica %u on %s\n", i, copse_strategy_device(st, i)->id);
    s = s ? s : make_variable(st, "w1", COPSE_SHAPE(64, 128), &m.w1);
    s = s ? s : make_variable(st, "b1", COPSE_SHAPE(128), &m.b1);
    s = s ? s : make_variable(st, "w2", COPSE_SHAPE(128, 10), &m.w2);
    s = s ? s : make_variable(st, "b2", COPSE_SHAPE(10), &m.b2);
    s = s ? s : copse_trainer_create(st, &params, &trainer);
    const struct copse_fit_params how = { .epochs = 20,
                                          .held_out = held_out,
                                          .on_epoch = print_epoch };
    s = s ? s : copse_trainer_fit(trainer, batches, &how);
    copse_trainer_release(&trainer);
    copse_strategy_release(&st);
    copse_loader_release(&held_out);
    copse_loader_release(&batches);
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
