/* SPDX-License-Identifier: MIT */
/* Fine-tuning: a network learns the digits 0 to 4 at any place of a picture. A second one takes its
   body and learns 5 to 9 from eight pictures of each; a third one learns the same from scratch.
   usage: fine_tune digits.csv.gz */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/copse.h"
#include "copse/train/evaluate.h"
#include "copse/train/fine_tune.h"

enum { SIDE = 12, DIGITS = 1797, COPIES = 15, FEW = 8, MOST = 500 };

static const char network[] =
    "flatten; dense 256 relu; dropout 0.5; dense 128 relu; dropout 0.5; dense out";
static const char path[] = "fine-tune-example.safetensors";

static float x[DIGITS][64]; /* the table: numbers from 0 to 16 */
static int32_t y[DIGITS];

/* Pictures with labels. */
struct set {
    uint8_t x[DIGITS * COPIES][SIDE][SIDE];
    int32_t y[DIGITS * COPIES];
    size_t count;
};

/* A digit of 8 x 8 numbers, at a place that follows from its number. */
static void add_picture(struct set *s, const float *digit, int32_t label, uint32_t number)
{
    const uint32_t place = number * 2654435761u >> 8, top = place % 5, left = place / 5 % 5;
    memset(s->x[s->count], 0, sizeof s->x[0]);
    for (uint32_t i = 0; i < 64; i++)
        s->x[s->count][top + i / 8][left + i % 8] = (uint8_t)(15.0f * digit[i]);
    s->y[s->count++] = label;
}

/* 0 to 4, COPIES times; FEW of each other digit; and MOST others of these to judge. */
static void fill(struct set sets[3])
{
    uint32_t seen[10] = { 0 };
    for (uint32_t i = 0; i < DIGITS; i++) {
        const float *digit = x[i];
        for (uint32_t c = 0; y[i] < 5 && c < COPIES; c++)
            add_picture(&sets[0], digit, y[i], i * COPIES + c);
        if (y[i] >= 5 && seen[y[i]]++ < FEW)
            add_picture(&sets[1], digit, y[i], i);
        else if (y[i] >= 5 && sets[2].count < MOST)
            add_picture(&sets[2], digit, y[i], i);
    }
}

static copse_status make_data(copse_context *ctx, const struct set *s, copse_dataset **out)
{
    const struct copse_array_view pictures = { COPSE_U8, 3, { s->count, SIDE, SIDE }, s->x },
                                  labels = { COPSE_I32, 1, { s->count }, s->y };
    return copse_dataset_create(ctx, &pictures, &labels, NULL, out);
}

/* Train a model of its own, from the file of an earlier one or from scratch, and judge it. */
static copse_status learn(copse_strategy *st, copse_dataset *data, copse_dataset *judge,
                          const char *from, struct copse_model_fit_params how)
{
    const struct copse_model_params params = { .network = network, .seed = 1 };
    struct copse_model_weights taken;
    struct copse_evaluation e;
    copse_model *m = NULL;
    copse_status s = copse_model_create(st, copse_dataset_schema(data), &params, &m);
    s = s || !from ? s : copse_model_load_weights(m, NULL, from, NULL, &taken);
    if (from && !s)
        printf("%zu variables are taken; the head is new, because %s\n", taken.load.matched_count,
               taken.head);
    s = s ? s : copse_model_fit(m, data, &how);
    s = s || judge ? s : copse_model_save(m, path, NULL);
    s = s || !judge ? s : copse_model_evaluate(m, judge, NULL, &e);
    if (judge && !s)
        printf("%s: %.1f %% are right\n", from ? "fine-tuned  " : "from scratch", 100 * e.accuracy);
    copse_model_release(&m);
    return s;
}

static copse_status run(copse_context *ctx, const char *table, struct set sets[3])
{
    copse_strategy *st = NULL;
    copse_dataset *digits = NULL, *data[3] = { NULL, NULL, NULL };
    const struct copse_dataset_params raw = { .scale = COPSE_SCALE_NONE };
    const struct copse_model_fit_params first = { .epochs = 12 };
    /* all layers of the body learn at a fifth of the rate */
    const struct copse_model_fit_params
        tuned = { .epochs = 40,
                  .batch = 5,
                  .optimizer = { .learning_rate = 0.003f,
                                 .groups = "dense1.*, dense2.*: rate=0.2" } },
        scratch = { .epochs = 40, .batch = 5, .optimizer.learning_rate = 0.003f };
    copse_status s = copse_strategy_open(ctx, "auto", NULL, &st);
    s = s ? s : copse_dataset_open(ctx, table, &raw, &digits);
    s = s ? s : copse_dataset_gather(digits, "x", NULL, DIGITS, x);
    s = s ? s : copse_dataset_gather(digits, "y", NULL, DIGITS, y);
    if (!s)
        fill(sets);
    for (int i = 0; i < 3; i++)
        s = s ? s : make_data(ctx, &sets[i], &data[i]);
    s = s ? s : learn(st, data[0], NULL, NULL, first);
    s = s ? s : learn(st, data[1], data[2], path, tuned);
    s = s ? s : learn(st, data[1], data[2], NULL, scratch);
    for (int i = 0; i < 3; i++)
        copse_dataset_release(&data[i]);
    copse_dataset_release(&digits);
    copse_strategy_release(&st);
    return s;
}

int main(int argc, char **argv)
{
    struct set *sets = calloc(3, sizeof *sets);
    copse_context *ctx = NULL;
    copse_status s = sets ? copse_context_create(NULL, &ctx) : COPSE_ERR_NO_MEMORY;
    s = s ? s : run(ctx, argc > 1 ? argv[1] : "examples/data/digits/digits.csv.gz", sets);
    if (s)
        fprintf(stderr, "fine_tune: %s\n", copse_last_error());
    remove(path);
    copse_context_release(&ctx);
    free(sets);
    return s != COPSE_OK;
}
