/* SPDX-License-Identifier: MIT */
/* Trains on a text and continues it with the most likely character, again and again.
   docs/text.md */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/copse.h"
#include "copse/data/schema.h"
#include "copse/data/source.h"
#include "copse/data/text.h"

enum { WINDOW = 12, WRITTEN = 70, EPOCHS = 40 };

static const char rhyme[] = "Jack and Jill went up the hill to fetch a pail of water.\n"
                            "Jack fell down and broke his crown, and Jill came tumbling after.\n";

static copse_status make_windows(copse_context *ctx, const char *text, copse_text_rows rows,
                                 const copse_schema *schema, copse_dataset **out)
{
    const struct copse_text_params how = {
        .tokens = COPSE_TOKENS_CHARACTERS, .context = WINDOW, .stride = 1, .rows = rows
    };
    const struct copse_source_params source = { .text = &how };
    const struct copse_dataset_params params = { .schema = schema, .source = &source };
    return copse_text_create(ctx, text, strlen(text), &params, out);
}

static copse_status print_last(void *user, const struct copse_epoch *e, bool *stop)
{
    double accuracy;
    (void)user, (void)stop;
    COPSE_TRY(copse_step_report(&e->training, "accuracy", &accuracy));
    if (e->epoch == EPOCHS)
        printf("loss %.4f, accuracy %.2f\n", e->training.loss, accuracy);
    return COPSE_OK;
}

/* Append the most likely character; `text` has room for it. */
static copse_status append(copse_context *ctx, copse_model *m, uint32_t characters, float *p,
                           char *text)
{
    copse_dataset *end = NULL;
    uint32_t best = 0;
    COPSE_TRY(make_windows(ctx, text, COPSE_TEXT_END, copse_model_schema(m), &end));
    const copse_status s = copse_model_predict(m, end, p);
    copse_dataset_release(&end);
    COPSE_TRY(s);
    for (uint32_t i = 0; i < characters; i++)
        best = p[i] > p[best] ? i : best;
    strcat(text, copse_schema_class(copse_model_schema(m), best));
    return COPSE_OK;
}

static copse_status write_on(copse_context *ctx, copse_model *m, uint32_t characters)
{
    char text[WINDOW + 4 * WRITTEN + 1] = "Jack and Jil"; /* WINDOW characters to begin with */
    float *p = malloc(characters * sizeof *p);
    copse_status s = p ? COPSE_OK : COPSE_ERR_NO_MEMORY;
    for (int i = 0; i < WRITTEN; i++)
        s = s ? s : append(ctx, m, characters, p, text);
    free(p);
    if (!s)
        printf("%s\n", text);
    return s;
}

int main(void)
{
    const struct copse_model_params params = {
        .network = "embedding in 8; flatten; dense 32 relu; dense out", .seed = 1
    };
    const struct copse_optimizer_params adam = { .learning_rate = 0.005f };
    const struct copse_model_fit_params how = {
        .epochs = EPOCHS, .batch = 16, .seed = 1, .optimizer = adam, .on_epoch = print_last
    };
    copse_context *ctx = NULL;
    copse_strategy *st = NULL;
    copse_dataset *data = NULL;
    copse_model *m = NULL;
    struct copse_dataset_info info;
    copse_status s = copse_context_create(NULL, &ctx);
    s = s ? s : make_windows(ctx, rhyme, COPSE_TEXT_WINDOWS, NULL, &data);
    s = s ? s : copse_one_device_create(ctx, "host:0", NULL, &st);
    s = s ? s : copse_model_create(st, copse_dataset_schema(data), &params, &m);
    s = s ? s : copse_model_fit(m, data, &how);
    copse_dataset_describe(data, &info);
    s = s ? s : write_on(ctx, m, info.classes);
    if (s)
        fprintf(stderr, "text: %s\n", copse_last_error());
    copse_model_release(&m);
    copse_strategy_release(&st);
    copse_dataset_release(&data);
    copse_context_release(&ctx);
    return s != COPSE_OK;
}
