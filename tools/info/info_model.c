/* SPDX-License-Identifier: MIT */
/* The model in a safetensors file: its layers, the data it was trained with, and the course of the
   training. */
#include "tools/info/info_model.h"
#include "tools/common/plural.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "copse/data/schema.h"
#include "copse/data/text.h"
#include "copse/train/model_file.h"

#include "tools/common/characters.h"
#include "tools/common/json.h"
#include "tools/common/use.h"

#define NAMES_SHOWN   20 /* classes, categories */
#define TOKENS_SHOWN  80
#define PAIRS_SHOWN   12
#define COLUMNS_SHOWN 40
#define EPOCHS_SHOWN  10

/* ---- reading ---- */

/* A line of a model file, or the same of a checkpoint; NULL: absent. */
static const char *line_of(const copse_checkpoint *file, const char *key)
{
    size_t count;
    const struct copse_metadata *list = copse_checkpoint_metadata(file, &count);
    for (size_t i = 0; i < count; i++) {
        const bool has_prefix = strncmp(list[i].key, "application.", 12) == 0;
        if (strcmp(list[i].key + (has_prefix ? 12 : 0), key) == 0)
            return list[i].value;
    }
    return NULL;
}

copse_status info_model_open(copse_context *ctx, copse_checkpoint *file, struct info_model *m)
{
    const struct copse_array_view *epochs = copse_checkpoint_find(file, "application/epochs");
    *m = (struct info_model){ .file = file, .training = line_of(file, "training") };
    if (!m->training)
        m->training = line_of(file, "settings");
    if (epochs && epochs->type == COPSE_F64 && epochs->rank == 2 &&
        (epochs->shape[1] == 3 || epochs->shape[1] == 4)) {
        COPSE_TRY(copse_checkpoint_fetch(file, "application/epochs"));
        m->epochs = epochs->data;
        m->epoch_count = epochs->shape[0];
        m->epoch_columns = epochs->shape[1];
    }
    if (!line_of(file, "network") || !line_of(file, "schema"))
        return COPSE_OK;
    const copse_status s = copse_model_describe(ctx, file, &m->schema, &m->layer);
    if (s == COPSE_ERR_NO_MEMORY)
        return s;
    if (s != COPSE_OK)
        session_plain(m->why, sizeof m->why, session_error());
    return COPSE_OK;
}

void info_model_close(struct info_model *m)
{
    copse_layer_release(&m->layer);
    copse_schema_release(&m->schema);
}

/* ---- the data ---- */

static void print_names(const char *const *names, uint32_t count)
{
    char plain[200];
    for (uint32_t i = 0; i < count && i < NAMES_SHOWN; i++)
        printf("%s %s", i > 0 ? "," : "",
               names[i][0] ? session_plain(plain, sizeof plain, names[i]) : "(missing)");
    printf("%s\n", count > NAMES_SHOWN ? ", ..." : "");
}

static void print_column(const struct copse_schema_column *c, uint32_t i, size_t width)
{
    static const char *const roles[] = { "number", "category", "label", "left out", "date" };
    char plain[200], position[24];
    snprintf(position, sizeof position, "column %u", i + 1);
    printf("  ");
    characters_put(c->name[0] ? session_plain(plain, sizeof plain, c->name) : position, width,
                   false);
    printf(" %-9s", roles[c->role]);
    if (c->role == COPSE_COLUMN_NUMBER)
        printf(" (x - %.6g) / %.6g", c->mean, c->scale);
    if (c->role == COPSE_COLUMN_DATE) {
        const bool has_time = c->width > 11;
        printf(" %s%s: year, month, day, day of the year, weekday%s",
               c->order == COPSE_DATE_YMD   ? "2024-12-31"
               : c->order == COPSE_DATE_DMY ? "31.12.2024"
                                            : "12/31/2024",
               !has_time                    ? ""
               : c->order == COPSE_DATE_YMD ? "T23:59"
                                            : " 23:59",
               has_time ? ", hour, minute" : "");
    }
    if (c->role == COPSE_COLUMN_CATEGORY)
        print_names(c->categories, c->width);
    else
        printf("\n");
}

static void print_table(const copse_schema *schema, const struct copse_schema_info *info)
{
    struct copse_schema_column c;
    size_t width = 24;
    char plain[200];
    for (uint32_t i = 0;
         i < info->columns && i < COLUMNS_SHOWN && copse_schema_column(schema, i, &c) == COPSE_OK;
         i++) {
        const size_t n = characters_count(session_plain(plain, sizeof plain, c.name));
        width = n > width ? n : width;
    }
    printf("\n  ");
    characters_put("column", width, false);
    printf(" use\n");
    for (uint32_t i = 0;
         i < info->columns && i < COLUMNS_SHOWN && copse_schema_column(schema, i, &c) == COPSE_OK;
         i++)
        print_column(&c, i, width);
    if (info->columns > COLUMNS_SHOWN)
        printf("  ... (%u columns)\n", info->columns);
}

static void print_tokens(const copse_schema *schema, uint32_t count)
{
    char token[TOKEN_TEXT];
    printf("tokens   %u: \"", count);
    for (uint32_t i = 0; i < count && i < TOKENS_SHOWN; i++) {
        token_text(schema, i, token);
        printf("%s", token);
    }
    printf("%s\n", count > TOKENS_SHOWN ? "..." : "\"");
}

/* The first 256 tokens are the bytes; print those after them. */
static void print_byte_pairs(const copse_schema *schema, uint32_t count)
{
    char token[TOKEN_TEXT];
    printf("tokens   %u: 256 bytes", count);
    for (uint32_t i = 256; i < count && i < 256 + PAIRS_SHOWN; i++) {
        token_text(schema, i, token);
        printf(", \"%s\"", token);
    }
    printf("%s\n", count > 256 + PAIRS_SHOWN ? ", ..." : "");
}

static void print_outputs(const copse_schema *schema, const struct copse_schema_info *info)
{
    const char *name;
    double mean, scale;
    char plain[200];
    if (info->kind == COPSE_DATA_TEXT) {
        struct copse_text_info text;
        const bool has_pairs =
            copse_text_describe(schema, &text) == COPSE_OK && text.tokens == COPSE_TOKENS_BPE;
        (has_pairs ? print_byte_pairs : print_tokens)(schema, info->outputs);
        if (text.unseen > 0)
            printf("         %u of them not in the training text\n", text.unseen);
        return;
    }
    if (info->task != COPSE_TASK_REGRESSION) {
        printf("classes ");
        for (uint32_t i = 0; i < info->outputs && i < NAMES_SHOWN && copse_schema_class(schema, i);
             i++)
            printf("%s %s", i > 0 ? "," : "",
                   session_plain(plain, sizeof plain, copse_schema_class(schema, i)));
        printf("%s (%u)\n", info->outputs > NAMES_SHOWN ? ", ..." : "", info->outputs);
        return;
    }
    for (uint32_t i = 0; i < info->outputs && i < NAMES_SHOWN &&
                         copse_schema_target(schema, i, &name, &mean, &scale) == COPSE_OK;
         i++)
        printf("target   %s = output * %.6g + %.6g\n",
               name[0] ? session_plain(plain, sizeof plain, name) : "value", scale, mean);
}

static void print_data(const copse_schema *schema)
{
    static const char *const kinds[] = { "array", "table", "pictures", "text" };
    static const char *const tokens[] = { "characters", "bytes", "byte pairs" };
    static const char *const tasks[] = { "none", "classification", "regression", "sequence" };
    struct copse_schema_info info;
    struct copse_text_info text;
    if (copse_schema_describe(schema, &info) != COPSE_OK)
        return;
    printf("task     %s of %s data\n", tasks[info.task], kinds[info.kind]);
    printf("input    ");
    for (uint32_t i = 0; i < info.shape.rank; i++)
        printf("%s%u", i > 0 ? " x " : "", info.shape.dims[i]);
    printf("%s %s", info.shape.rank > 0 ? "" : "1",
           info.type == COPSE_F32  ? "numbers"
           : info.type == COPSE_U8 ? "bytes"
                                   : "whole numbers");
    if (info.input_offset != 0.0f || info.input_scale != 1.0f)
        printf(", (x - %.6g) * %.6g", (double)info.input_offset, (double)info.input_scale);
    if (copse_text_describe(schema, &text) == COPSE_OK)
        printf(": windows of %s, one every %u", tokens[text.tokens], text.stride);
    printf("\n");
    print_outputs(schema, &info);
    if (info.kind == COPSE_DATA_TABLE)
        print_table(schema, &info);
}

/* ---- the training ---- */

/* The value of "--name=" in the settings, in `text`; false: absent. */
static bool info_model_setting(const struct info_model *m, const char *name, char *text,
                               size_t room)
{
    const size_t length = strlen(name);
    for (const char *at = m->training; at && *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (strncmp(at, "--", 2) == 0 && strncmp(at + 2, name, length) == 0 &&
            at[2 + length] == '=') {
            char value[200];
            snprintf(value, sizeof value, "%.*s", (int)strcspn(at + 3 + length, "\n"),
                     at + 3 + length);
            char *end;
            const double number = strtod(value, &end);
            if (*value && !*end) /* 0.00200000009 */
                snprintf(value, sizeof value, "%.6g", number);
            session_plain(text, room, value);
            return true;
        }
    return false;
}

static void print_settings(const struct info_model *m)
{
    static const char *const names[] = { "data",         "optimizer", "optimizer-settings",
                                         "lr",           "schedule",  "momentum",
                                         "weight-decay", "dropout",   "batch",
                                         "epochs",       "seed" };
    char text[200];
    int count = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (info_model_setting(m, names[i], text, sizeof text))
            printf("%s%s %s", count++ == 0 ? "trained  " : ", ", names[i], text);
    if (count > 0)
        printf("\n");
}

static void print_history(const struct info_model *m)
{
    const size_t every = (m->epoch_count + EPOCHS_SHOWN - 1) / EPOCHS_SHOWN,
                 columns = m->epoch_columns;
    if (m->epoch_count == 0)
        return;
    if (isnan(m->epochs[1])) {
        printf("\n  %zu epoch%s; no example was held out\n", m->epoch_count,
               plural_end(m->epoch_count));
        return;
    }
    printf("\n  epoch %10s %15s %12s%s\n", "step", "held-out loss", columns > 3 ? "R2" : "accuracy",
           columns > 3 ? "   mean error" : "");
    for (size_t i = 0; i < m->epoch_count; i++) {
        const double *row = m->epochs + i * columns;
        if ((i + 1) % every != 0 && i + 1 != m->epoch_count && i > 0)
            continue;
        printf("  %5zu %10.0f %15.4f ", i + 1, row[0], row[1]);
        if (columns > 3)
            printf("%12.4f %12.6g\n", row[2], row[3]);
        else
            printf("%10.2f %%\n", 100.0 * row[2]);
    }
}

/* The table of the layers, to be freed. */
static copse_status info_model_summary(const struct info_model *m, char **out)
{
    size_t needed;
    *out = NULL;
    COPSE_TRY(copse_layer_summary(m->layer, NULL, 0, &needed));
    *out = malloc(needed);
    return *out ? copse_layer_summary(m->layer, *out, needed, &needed)
                : session_set_error(COPSE_ERR_NO_MEMORY, "no memory for a table");
}

copse_status info_model_print(const struct info_model *m)
{
    char *table;
    if (m->why[0])
        printf("\nits model cannot be described: %s\n", m->why);
    if (m->layer) {
        COPSE_TRY(info_model_summary(m, &table));
        printf("\n%s\n", table);
        free(table);
        print_data(m->schema);
    }
    if (m->layer || m->why[0])
        print_settings(m);
    print_history(m);
    return COPSE_OK;
}

/* ---- JSON ---- */

static bool add_training(const struct info_model *m, cJSON *o)
{
    cJSON *list = m->training ? cJSON_AddObjectToObject(o, "training") : NULL;
    for (const char *at = m->training; list && *at; at += strcspn(at, "\n"), at += *at == '\n') {
        const size_t name = strcspn(at, "=\n"), line = strcspn(at, "\n");
        char key[100], value[9300];
        if (strncmp(at, "--", 2) != 0 || name >= line)
            continue;
        snprintf(key, sizeof key, "%.*s", (int)name - 2, at + 2);
        snprintf(value, sizeof value, "%.*s", (int)(line - name - 1), at + name + 1);
        json_add_text(list, key, value);
    }
    return list || !m->training;
}

static bool add_history(const struct info_model *m, cJSON *o)
{
    cJSON *list = m->epochs ? cJSON_AddArrayToObject(o, "history") : NULL;
    for (size_t i = 0; list && i < m->epoch_count; i++) {
        const double *row = m->epochs + i * m->epoch_columns;
        cJSON *one = cJSON_CreateObject();
        if (!cJSON_AddItemToArray(list, one))
            return false;
        json_add_count(one, "epoch", i + 1);
        json_add_number(one, "step", row[0]);
        json_add_number(one, "loss", row[1]);
        json_add_number(one, m->epoch_columns > 3 ? "r2" : "accuracy", row[2]);
        if (m->epoch_columns > 3)
            json_add_number(one, "mae", row[3]);
    }
    return list || !m->epochs;
}

copse_status info_model_add(const struct info_model *m, cJSON *o)
{
    char *table = NULL, *network = NULL;
    size_t needed;
    bool ok = true;
    if (m->why[0])
        json_add_text(o, "model_error", m->why);
    if (m->layer) {
        COPSE_TRY(info_model_summary(m, &table));
        copse_status s = copse_layer_text(m->layer, NULL, 0, &needed);
        network = s == COPSE_OK ? malloc(needed) : NULL;
        ok = network && copse_layer_text(m->layer, network, needed, &needed) == COPSE_OK;
        if (ok) {
            json_add_text(o, "network", network);
            json_add_text(o, "layers", table);
            cJSON *schema = cJSON_Parse(copse_schema_text(m->schema));
            ok = schema && cJSON_AddItemToObject(o, "schema", schema);
        }
    }
    ok = ok && add_training(m, o) && add_history(m, o);
    free(table);
    free(network);
    return ok ? COPSE_OK
              : session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the model as JSON");
}
