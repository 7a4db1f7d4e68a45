/* SPDX-License-Identifier: MIT */
/* A model with three named inputs of three types, and its data in several forms with equal
   values. */
#ifndef NAMED_MODEL_H
#define NAMED_MODEL_H

#include "core/base/half.h"
#include "tests/rig/data/batch_rig.h"

enum {
    NAMED_ROWS = 40,
    NAMED_BATCH = 10,
    NAMED_STEPS = 8,
    NAMED_SIDE = 3,
    NAMED_TOKENS = 6,
    NAMED_PIXELS = NAMED_SIDE * NAMED_SIDE,
    NAMED_WEIGHTS = NAMED_PIXELS + NAMED_TOKENS
};

/* The types of image, tokens and mask. */
enum named_form {
    NAMED_F32,
    NAMED_TYPED /* u8, i32, f32 */,
    NAMED_F16 /* u8, i64, f16 */,
    NAMED_BF16 /* bf16, i64, bf16 */,
    NAMED_FORMS
};

struct named_model {
    copse_variable *w;
};

struct named_data {
    uint8_t image[NAMED_ROWS][NAMED_PIXELS]; /* an odd number of bytes */
    int32_t tokens[NAMED_ROWS][NAMED_TOKENS];
    float mask[NAMED_ROWS][NAMED_TOKENS];
    float image_f32[NAMED_ROWS][NAMED_PIXELS], tokens_f32[NAMED_ROWS][NAMED_TOKENS];
    uint16_t image_bf16[NAMED_ROWS][NAMED_PIXELS], mask_f16[NAMED_ROWS][NAMED_TOKENS],
        mask_bf16[NAMED_ROWS][NAMED_TOKENS];
    int64_t tokens_i64[NAMED_ROWS][NAMED_TOKENS];
};

static inline void named_fill(struct named_data *d)
{
    uint32_t x = 12345;
    for (int row = 0; row < NAMED_ROWS; row++) {
        for (int i = 0; i < NAMED_PIXELS; i++) {
            x = x * 1664525u + 1013904223u;
            d->image[row][i] = (uint8_t)(x >> 24);
            d->image_f32[row][i] = d->image[row][i];
            d->image_bf16[row][i] = copse__f32_to_bf16(d->image_f32[row][i]); /* exact: 8 bits */
        }
        for (int i = 0; i < NAMED_TOKENS; i++) {
            x = x * 1664525u + 1013904223u;
            d->tokens[row][i] = (int32_t)(x >> 28) - 8;
            d->tokens_f32[row][i] = (float)d->tokens[row][i];
            d->tokens_i64[row][i] = d->tokens[row][i];
            d->mask[row][i] = x >> 20 & 1 ? 1.0f : 0.0f;
            d->mask_f16[row][i] = copse__f32_to_f16(d->mask[row][i]);
            d->mask_bf16[row][i] = copse__f32_to_bf16(d->mask[row][i]);
        }
    }
}

static inline copse_status named_dataset(copse_context *in, const struct named_data *d,
                                         enum named_form form, copse_dataset **out)
{
    const struct {
        copse_type image, tokens, mask;
        const void *images, *words, *masks;
    } forms[NAMED_FORMS] = {
        [NAMED_F32] = { COPSE_F32, COPSE_F32, COPSE_F32, d->image_f32, d->tokens_f32, d->mask },
        [NAMED_TYPED] = { COPSE_U8, COPSE_I32, COPSE_F32, d->image, d->tokens, d->mask },
        [NAMED_F16] = { COPSE_U8, COPSE_I64, COPSE_F16, d->image, d->tokens_i64, d->mask_f16 },
        [NAMED_BF16] = { COPSE_BF16, COPSE_I64, COPSE_BF16, d->image_bf16, d->tokens_i64,
                         d->mask_bf16 },
    };
    const struct copse_column columns[] = {
        { "image", forms[form].image, COPSE_SHAPE(NAMED_SIDE, NAMED_SIDE), forms[form].images },
        { "tokens", forms[form].tokens, COPSE_SHAPE(NAMED_TOKENS), forms[form].words },
        { "mask", forms[form].mask, COPSE_SHAPE(NAMED_TOKENS), forms[form].masks },
    };
    return copse_dataset_columns(in, columns, 3, NAMED_ROWS, out);
}

/* (image / 255, tokens mask) w, compared with the mean of the mask. */
static inline copse_tensor *named_loss(copse_graph *g, const copse_batch *in, void *user)
{
    static const uint32_t axis = 1;
    const struct named_model *m = user;
    copse_tensor *image, *tokens, *mask, *x, *y;
    mask = copse_input(in, "mask"); /* in another order than in the batch */
    image = copse_input(in, "image");
    tokens = copse_input(in, "tokens");
    const uint32_t n = copse_tensor_shape(mask).dims[0];
    image = copse_reshape(g, image, COPSE_SHAPE(n, NAMED_PIXELS));
    image = copse_cast(g, image, COPSE_F32);
    image = copse_multiply_by(g, image, 1.0f / 255.0f);
    tokens = copse_cast(g, tokens, COPSE_F32);
    mask = copse_cast(g, mask, COPSE_F32);
    tokens = copse_mul(g, tokens, mask);
    x = copse_concat(g, (copse_tensor *[]){ image, tokens }, 2, 1);
    x = copse_matmul(g, x, copse_variable_tensor(m->w), false, false);
    y = copse_mean(g, mask, &axis, 1, true);
    return copse_mean_squared_error(g, x, y);
}

static inline copse_status named_create(copse_strategy *st, struct named_model *m,
                                        uint32_t prefetch, copse_trainer **t)
{
    COPSE_TRY(copse_variable_create(
        st,
        &(struct copse_variable_params){ .name = "w",
                                         .shape = COPSE_SHAPE(NAMED_WEIGHTS, 1),
                                         .seed = 3,
                                         .initializer = COPSE_INIT_HE_NORMAL },
        &m->w));
    return copse_trainer_create(st,
                                &(struct copse_trainer_params){
                                    .loss = named_loss,
                                    .user = m,
                                    .prefetch = prefetch,
                                    .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.01f } },
                                t);
}

#endif
