/* SPDX-License-Identifier: MIT */
/* Adapts a language model to a text, writes the adapter, and lets the model continue a prompt.
   docs/language-models.md
   usage: adapt MODEL.gguf TEXT ADAPTER PROMPT [DEVICES] */
#include <stdio.h>
#include <string.h>

#include "copse/copse.h"
#include "copse/data/readers.h"
#include "copse/train/adapt.h"

static copse_status print_token(void *user, uint32_t token, const char *text, size_t size)
{
    (void)user, (void)token;
    return fwrite(text, 1, size, stdout) == size ? COPSE_OK : COPSE_ERR_IO;
}

int main(int argc, char **argv)
{
    const struct copse_adapter_params how = { .rank = 8 };
    const struct copse_loader_params order = { .batch = 1 };
    const struct copse_fit_params fit = { .epochs = 2 };
    const struct copse_generate_params writing = { .length = 20 };
    struct copse_trainer_params training = { .loss = copse_language_loss,
                                             .optimizer.learning_rate = 1e-3f };
    copse_context *ctx = NULL;
    copse_strategy *st = NULL;
    copse_language *model = NULL;
    copse_array *text = NULL;
    copse_dataset *windows = NULL;
    copse_loader *batches = NULL;
    copse_trainer *trainer = NULL;

    if (argc < 5 || argc > 6) {
        fprintf(stderr, "usage: adapt MODEL.gguf TEXT ADAPTER PROMPT [DEVICES]\n");
        return 2;
    }
    copse_status s = copse_context_create(NULL, &ctx);
    s = s ? s : copse_strategy_open(ctx, argc > 5 ? argv[5] : NULL, NULL, &st);
    s = s ? s : copse_language_open(st, argv[1], NULL, &model);
    s = s ? s : copse_language_adapt(model, &how);
    s = s ? s : copse_read_text(ctx, argv[2], NULL, &text);
    const struct copse_array_view *view = text ? copse_array_view(text) : NULL;
    s = s ? s : copse_language_windows(model, view->data, view->shape[0], 64, &windows);
    s = s ? s : copse_loader_create(windows, &order, &batches);
    training.user = model;
    s = s ? s : copse_trainer_create(st, &training, &trainer);
    s = s ? s : copse_trainer_fit(trainer, batches, &fit);
    s = s ? s : copse_language_save_adapter(model, argv[3]);
    s = s ? s
          : copse_language_generate(model, argv[4], strlen(argv[4]), &writing, print_token, NULL);
    if (s)
        fprintf(stderr, "adapt: %s\n", copse_last_error());
    else
        printf("\n");
    copse_trainer_release(&trainer);
    copse_loader_release(&batches);
    copse_dataset_release(&windows);
    copse_array_release(&text);
    copse_language_release(&model);
    copse_strategy_release(&st);
    copse_context_release(&ctx);
    return s != COPSE_OK;
}
