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

enum { WINDOW = 12, WRITTEN = 70 };

static const char rhyme[] = "Jack and Jill went up the hill to fetch a pail of water.\n"
                            "Jack fell down and broke his crown, and Jill came tumbling after.\n";

static copse_status make_windows(copse_context *ctx, const char *text, copse_text_rows rows,
                                 const copse_schema *schema, copse_dataset **out)
{
    const struct copse_text_params how = {
        .tokens = COPSE_TOKENS_CHARACTERS, .context = WINDOW, .stride = 1, .rows = rows
    };
    const struct copse_source_params source = { .text = &how };
    return copse_text_create(ctx, text, strlen(text),
                             &(struct copse_dataset_params){ .schema = schema, .source = &source },
                             out);
}

static copse_status print_last(void *user, const struct copse_epoch *e, bool *stop)
{
    (void)user, (void)stop;
    if (e->epoch == 40)
        printf("loss %.4f, accuracy %.2f\n", e->training.loss, e->training.reports[0]);
    return COPSE_OK;
}

static copse_status train(copse_model *m, copse_strategy *st, copse_dataset *data)
{
    copse_trainer *t = NULL;
    copse_loader *batches = NULL;
    copse_status s;
    COPSE_TRY_OR(
        end, s,
        copse_trainer_create(st,
                             &(struct copse_trainer_params){
                                 .loss = copse_model_loss,
                                 .user = m,
                                 .optimizer = { .kind = COPSE_ADAM, .learning_rate = 0.005f } },
                             &t));
    COPSE_TRY_OR(end, s,
                 copse_loader_create(data, &(struct copse_loader_params){ .batch = 16, .seed = 1 },
                                     &batches));
    COPSE_TRY_OR(
        end, s,
        copse_trainer_fit(t, batches,
                          &(struct copse_fit_params){ .epochs = 40, .on_epoch = print_last }));
end:
    copse_loader_release(&batches);
    copse_trainer_release(&t);
    return s;
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

static copse_status run(copse_context *ctx)
{
    copse_strategy *st = NULL;
    copse_dataset *data = NULL;
    copse_model *m = NULL;
    struct copse_dataset_info info;
    copse_status s;
    float *p = NULL;
    char text[WINDOW + 4 * WRITTEN + 1] = "Jack and Jil"; /* WINDOW characters to begin with */
    COPSE_TRY_OR(end, s, make_windows(ctx, rhyme, COPSE_TEXT_WINDOWS, NULL, &data));
    copse_dataset_describe(data, &info);
    COPSE_TRY_OR(end, s, copse_one_device_create(ctx, "host:0", NULL, &st));
    COPSE_TRY_OR(
        end, s,
        copse_model_create(
            st, copse_dataset_schema(data),
            &(struct copse_model_params){
                .network = "embedding in 8; flatten; dense 32 relu; dense out", .seed = 1 },
            &m));
    COPSE_TRY_OR(end, s, train(m, st, data));
    p = malloc(info.classes * sizeof *p);
    s = p ? COPSE_OK : COPSE_ERR_NO_MEMORY;
    for (int i = 0; s == COPSE_OK && i < WRITTEN; i++)
        s = append(ctx, m, info.classes, p, text);
    if (s == COPSE_OK)
        printf("%s\n", text);
end:
    free(p);
    copse_model_release(&m);
    copse_dataset_release(&data);
    copse_strategy_release(&st);
    return s;
}

int main(void)
{
    copse_context *ctx = NULL;
    copse_status s = copse_context_create(NULL, &ctx);
    if (s == COPSE_OK)
        s = run(ctx);
    if (s != COPSE_OK)
        fprintf(stderr, "text: %s\n", copse_last_error());
    copse_context_release(&ctx);
    return s == COPSE_OK ? 0 : 1;
}
