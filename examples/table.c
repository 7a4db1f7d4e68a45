/* SPDX-License-Identifier: MIT */
/* A table of numbers and text becomes a model in a file; an application loads it and predicts row
   after row from memory. usage: table flowers.csv */
#include <stdio.h>

#include "copse/copse.h"
#include "copse/train/predict_cells.h"

int main(int argc, char **argv)
{
    static const char path[] = "table-example.safetensors";
    static const char *const names[] = { "colour", "length", "width" };
    const struct copse_model_params params = { .network = "dense 16 relu; dense out", .seed = 1 };
    const struct copse_model_fit_params how = { .epochs = 60, .batch = 16 };
    char length[16];
    const char *row[] = { "red", length, "4.8" };
    const struct copse_cells cells = { .names = names, .columns = 3, .rows = 1, .cells = row };
    float p[2]; /* of crocus and tulip */
    copse_context *ctx = NULL;
    copse_strategy *st = NULL;
    copse_dataset *data = NULL;
    copse_model *m = NULL;
    copse_status s = copse_context_create(NULL, &ctx);
    s = s ? s : copse_one_device_create(ctx, "host:0", NULL, &st);
    s = s ? s : copse_dataset_open(ctx, argc > 1 ? argv[1] : "flowers.csv", NULL, &data);
    s = s ? s : copse_model_create(st, copse_dataset_schema(data), &params, &m);
    s = s ? s : copse_model_fit(m, data, &how);
    s = s ? s : copse_model_save(m, path, NULL);
    copse_model_release(&m);
    s = s ? s : copse_model_load(st, path, NULL, &m);
    for (int i = 0; i < 6 && !s; i++) {
        snprintf(length, sizeof length, "%.1f", 0.5 * i);
        s = copse_model_predict_cells(m, &cells, NULL, p);
        if (!s)
            printf("red, length %s: %.0f %% tulip\n", length, 100.0 * (double)p[1]);
    }
    if (s)
        fprintf(stderr, "table: %s\n", copse_last_error());
    remove(path);
    copse_model_release(&m);
    copse_dataset_release(&data);
    copse_strategy_release(&st);
    copse_context_release(&ctx);
    return s != COPSE_OK;
}
