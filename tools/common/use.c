/* SPDX-License-Identifier: MIT */
/* A trained model with data: loaded by `copse predict` and `copse evaluate`. */
#include "tools/common/use.h"

#include <string.h>

copse_status use_open(struct use *u)
{
    char id[1][32];
    size_t count;
    COPSE_TRY(session_open(&u->how, &u->ctx));
    const copse_status s = copse_select_devices(u->ctx, u->devices, id, 1, &count);
    if (s != COPSE_OK) /* more devices than one are fine: the first is used */
        return s;
    COPSE_TRY(copse_one_device_create(u->ctx, id[0], NULL, &u->strategy));
    COPSE_TRY(copse_model_load(u->strategy, u->model_path, &u->model));
    u->schema = copse_model_schema(u->model);
    COPSE_TRY(copse_schema_describe(u->schema, &u->info));
    COPSE_TRY(copse_dataset_open(u->ctx, u->data_path,
                                 &(struct copse_dataset_params){ .schema = u->schema, .labels = u->labels }, &u->data));
    copse_dataset_describe(u->data, &u->rows);
    return COPSE_OK;
}

void use_close(struct use *u)
{
    copse_dataset_release(&u->data);
    copse_model_release(&u->model);
    copse_strategy_release(&u->strategy);
    copse_context_release(&u->ctx);
}

const char *use_name(const struct use *u, uint32_t i)
{
    const char *name = NULL;
    double mean, scale;
    if (u->info.task != COPSE_TASK_REGRESSION)
        name = copse_schema_class(u->schema, i);
    else if (copse_schema_target(u->schema, i, &name, &mean, &scale) != COPSE_OK)
        name = NULL;
    return name && *name ? name : "value";
}

void use_cell(FILE *to, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, to);
        return;
    }
    fputc('"', to);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', to);
        fputc(*text, to);
    }
    fputc('"', to);
}
