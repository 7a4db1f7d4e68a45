/* SPDX-License-Identifier: MIT */
/* A model in a few lines: make_model and the call of copse_layer_apply. The rest is data and
   trainer. */
#include <stdio.h>

#include "copse/copse.h"

static const char network[] =
    "dense 64 relu; residual { layer_norm; dense 64 gelu; dense 64 }; dense out";

static copse_status make_model(copse_context *ctx, copse_strategy *st, copse_layer **net)
{
    const struct copse_build_params digits = { .shape = COPSE_SHAPE(64), .outputs = 10 };
    COPSE_TRY(copse_nn_parse(ctx, network, net));
    return copse_layer_build(*net, st, &digits);
}

static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_input(in, "y");
    copse_tensor *logits = copse_layer_apply(user, g, in, x);
    return copse_sparse_cross_entropy(g, logits, y, COPSE_MEAN);
}

static copse_status print_epoch(void *user, const struct copse_epoch *e, bool *stop)
{
    (void)user, (void)stop;
    printf("epoch %u  loss %.4f  held-out loss %.4f\n", e->epoch, e->training.loss,
           e->held_out.loss);
    return COPSE_OK;
}

static copse_status run(const char *path, const char *devices)
{
    const struct copse_loader_params batch = { .batch = 64 };
    copse_context *ctx = NULL;
    copse_dataset *all = NULL, *train_part = NULL, *test_part = NULL;
    copse_loader *batches = NULL, *held_out = NULL;
    copse_strategy *st = NULL;
    copse_layer *net = NULL;
    copse_trainer *t = NULL;
    char table[1024] = "";
    size_t needed;
    copse_status s = copse_context_create(NULL, &ctx);
    s = s ? s : copse_dataset_open(ctx, path, NULL, &all);
    s = s ? s : copse_dataset_split(all, NULL, &train_part, &test_part);
    s = s ? s : copse_loader_create(train_part, &batch, &batches);
    s = s ? s : copse_loader_create(test_part, &batch, &held_out);
    s = s ? s : copse_strategy_open(ctx, devices, NULL, &st);
    s = s ? s : make_model(ctx, st, &net);
    s = s ? s : copse_layer_summary(net, table, sizeof table, &needed);
    printf("%s", table);
    const struct copse_trainer_params params = { .loss = loss, .user = net };
    const struct copse_fit_params how = { .epochs = 8,
                                          .held_out = held_out,
                                          .on_epoch = print_epoch };
    s = s ? s : copse_trainer_create(st, &params, &t);
    s = s ? s : copse_trainer_fit(t, batches, &how);
    copse_trainer_release(&t);
    copse_layer_release(&net);
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
    const char *path = argc > 1 ? argv[1] : "examples/data/digits/digits.csv.gz";
    if (run(path, argc > 2 ? argv[2] : "host:0") == COPSE_OK)
        return 0;
    fprintf(stderr, "layers: %s\n", copse_last_error());
    return 1;
}
