/* SPDX-License-Identifier: MIT */
/* A loss function with three named inputs of three types: images of bytes, tokens and a mask. The
   data is made here: the label of an example is the mean brightness of its image, plus a tenth of
   the sum of the tokens that its mask keeps. A batch is a list of columns; the loss function asks
   for each by name. */
#include <stdio.h>

#include "copse/copse.h"

enum { EXAMPLES = 512, BATCH = 64, PIXELS = 28 * 28, TOKENS = 16 };

static unsigned char images[EXAMPLES][28][28];
static int32_t tokens[EXAMPLES][TOKENS];
static float masks[EXAMPLES][TOKENS], labels[EXAMPLES][1];

static unsigned random_bits(unsigned count)
{
    static uint32_t x = 1;
    x = x * 1664525u + 1013904223u;
    return x >> (32 - count);
}

static void make_data(void)
{
    for (int i = 0; i < EXAMPLES; i++) {
        const unsigned brightness = random_bits(8);
        for (int k = 0; k < PIXELS; k++) {
            images[i][k / 28][k % 28] = (unsigned char)(brightness * (192 + random_bits(6)) / 256);
            labels[i][0] += (float)images[i][k / 28][k % 28] / 255 / PIXELS;
        }
        for (int k = 0; k < TOKENS; k++) {
            tokens[i][k] = (int32_t)random_bits(3) - 4;
            masks[i][k] = (float)random_bits(1);
            labels[i][0] += 0.1f * (float)tokens[i][k] * masks[i][k];
        }
    }
}

struct model {
    copse_tensor *image_weights, *token_weights, *bias;
};

static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct model *m = user;
    copse_tensor *image = copse_input(in, "image");  /* u8  [n, 28, 28] */
    copse_tensor *token = copse_input(in, "tokens"); /* i32 [n, 16] */
    copse_tensor *mask = copse_input(in, "mask");    /* f32 [n, 16] */
    copse_tensor *label = copse_input(in, "label");  /* f32 [n, 1] */
    const uint32_t n = copse_tensor_shape(label).dims[0];
    image = copse_cast(g, image, COPSE_F32); /* the upload was one byte a pixel */
    image = copse_multiply_by(g, image, 1.0f / 255.0f);
    image = copse_reshape(g, image, COPSE_SHAPE(n, PIXELS));
    copse_tensor *guess = copse_dense(g, image, m->image_weights, m->bias, COPSE_LINEAR);
    token = copse_cast(g, token, COPSE_F32);
    token = copse_mul(g, token, mask);
    token = copse_matmul(g, token, m->token_weights, false, false);
    guess = copse_add(g, guess, token);
    return copse_mean_squared_error(g, guess, label);
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

/* A loop of its own, for programs that do more in a step; otherwise copse_trainer_fit has it. */
static copse_status train(copse_trainer *trainer, copse_loader *batches)
{
    for (uint32_t epoch = 0; epoch < 10; epoch++) {
        struct copse_host_batch batch;
        struct copse_step_result result = { 0 };
        copse_status s;
        COPSE_TRY(copse_loader_start(batches, epoch, 0));
        while ((s = copse_loader_next(batches, &batch)) == COPSE_OK)
            COPSE_TRY(copse_trainer_step(trainer, &batch));
        if (s != COPSE_ERR_END) /* a batch could not be read */
            return s;
        while ((s = copse_trainer_result(trainer, true, &result)) == COPSE_OK)
            continue;
        if (s != COPSE_ERR_END)
            return s;
        printf("epoch %2u  loss %.5f\n", epoch + 1, result.loss);
    }
    return COPSE_OK;
}

int main(void)
{
    const struct copse_column columns[] = {
        { "image", COPSE_U8, COPSE_SHAPE(28, 28), images },
        { "tokens", COPSE_I32, COPSE_SHAPE(TOKENS), tokens },
        { "mask", COPSE_F32, COPSE_SHAPE(TOKENS), masks },
        { "label", COPSE_F32, COPSE_SHAPE(1), labels },
    };
    const struct copse_loader_params batch = { .batch = BATCH, .prefetch = 2 };
    const struct copse_optimizer_params adam = { .kind = COPSE_ADAM, .learning_rate = 0.01f };
    struct model m;
    const struct copse_trainer_params params = {
        .loss = loss, .user = &m, .optimizer = adam, .prefetch = 2
    };
    copse_context *ctx = NULL;
    copse_dataset *data = NULL;
    copse_loader *batches = NULL;
    copse_strategy *st = NULL;
    copse_trainer *trainer = NULL;
    make_data();
    copse_status s = copse_context_create(NULL, &ctx);
    s = s ? s : copse_dataset_columns(ctx, columns, 4, EXAMPLES, &data);
    s = s ? s : copse_loader_create(data, &batch, &batches);
    s = s ? s : copse_strategy_open(ctx, "auto", NULL, &st);
    s = s ? s : make_variable(st, "image_weights", COPSE_SHAPE(PIXELS, 1), &m.image_weights);
    s = s ? s : make_variable(st, "token_weights", COPSE_SHAPE(TOKENS, 1), &m.token_weights);
    s = s ? s : make_variable(st, "bias", COPSE_SHAPE(1), &m.bias);
    s = s ? s : copse_trainer_create(st, &params, &trainer);
    s = s ? s : train(trainer, batches);
    if (s)
        fprintf(stderr, "named_inputs: %s\n", copse_last_error());
    copse_trainer_release(&trainer);
    copse_strategy_release(&st);
    copse_loader_release(&batches);
    copse_dataset_release(&data);
    copse_context_release(&ctx);
    return s != COPSE_OK;
}
