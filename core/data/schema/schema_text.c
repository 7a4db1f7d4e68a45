/* SPDX-License-Identifier: MIT */
/* The text of a schema: JSON, version 1. docs/model-file.md describes the fields. Writes it;
   schema_parse.c reads it. */
#include <cjson/cJSON.h>

#include "core/data/reader/json_walk.h"
#include "core/data/schema/schema.h"
#include "core/data/schema/schema_names.h"
#include "core/data/text/tokens.h"
#include "core/graph/type.h"

#define VALUES_MAX  ((size_t)1 << 18) /* 112 bytes of memory each with a name */
#define VALUE_BYTES 16u /* of text, for each further value: a number of a scaling has about 18 */

const char *const copse__schema_kinds[COPSE_SCHEMA_KINDS] = { "array", "table", "pictures",
                                                              "text" };
const char *const copse__schema_tasks[COPSE_SCHEMA_TASKS] = { "none", "classification",
                                                              "regression", "sequence" };
const char *const copse__schema_roles[COPSE_SCHEMA_ROLES] = { "number", "category", "label",
                                                              "ignored", "date" };
const char *const copse__schema_orders[COPSE_SCHEMA_ORDERS] = { "ymd", "dmy", "mdy" };
const char *const copse__schema_missing[COPSE_SCHEMA_MISSING] = { "refuse", "mean" };

/* The functions return false without memory. */

static bool add_text(cJSON *o, const char *name, const char *text)
{
    return cJSON_AddStringToObject(o, name, text) != NULL;
}

static bool add_number(cJSON *o, const char *name, double v)
{
    return cJSON_AddNumberToObject(o, name, v) != NULL; /* enough digits to read the same double */
}

static bool schema_text_push(cJSON *array, cJSON *item)
{
    return item != NULL && cJSON_AddItemToArray(array, item);
}

static bool add_texts(cJSON *o, const char *name, const char *const *texts, uint32_t count)
{
    cJSON *list = cJSON_AddArrayToObject(o, name);
    bool ok = list != NULL;

    for (uint32_t i = 0; ok && i < count; i++)
        ok = schema_text_push(list, cJSON_CreateString(texts[i]));
    return ok;
}

static bool add_doubles(cJSON *o, const char *name, const double *v, size_t count)
{
    cJSON *list = cJSON_AddArrayToObject(o, name);
    bool ok = list != NULL;

    for (size_t i = 0; ok && i < count; i++)
        ok = schema_text_push(list, cJSON_CreateNumber(v[i]));
    return ok;
}

static bool add_input(cJSON *root, const struct copse_schema_parts *p)
{
    cJSON *o = cJSON_AddObjectToObject(root, "input");
    bool ok = o != NULL && add_text(o, "type", copse_type_name(p->type));
    cJSON *shape = ok ? cJSON_AddArrayToObject(o, "shape") : NULL;

    ok = shape != NULL;
    for (uint32_t i = 0; ok && i < p->shape.rank; i++)
        ok = schema_text_push(shape, cJSON_CreateNumber(p->shape.dims[i]));
    return ok && add_number(o, "offset", (double)p->input_offset) &&
           add_number(o, "scale", (double)p->input_scale);
}

static bool add_outputs(cJSON *root, const struct copse_schema_parts *p)
{
    if (p->task == COPSE_TASK_AUTO)
        return true;
    if (p->task != COPSE_TASK_REGRESSION)
        return (p->classes == NULL ? add_number(root, "classes", p->outputs)
                                   : add_texts(root, "classes", p->classes, p->outputs)) &&
               cJSON_AddBoolToObject(root, "numbered", p->is_numbered) != NULL;
    cJSON *list = cJSON_AddArrayToObject(root, "targets");
    bool ok = list != NULL;
    for (uint32_t i = 0; ok && i < p->outputs; i++) {
        cJSON *o = cJSON_CreateObject();
        ok = schema_text_push(list, o) && add_text(o, "name", p->targets[i].name) &&
             add_number(o, "mean", p->targets[i].mean) &&
             add_number(o, "scale", p->targets[i].scale);
    }
    return ok;
}

static bool add_column(cJSON *list, const struct copse_schema_column *c)
{
    cJSON *o = cJSON_CreateObject();
    bool ok = schema_text_push(list, o) && add_text(o, "name", c->name) &&
              add_text(o, "role", copse__schema_roles[c->role]);

    if (c->role == COPSE_COLUMN_NUMBER)
        ok = ok && add_number(o, "mean", c->mean) && add_number(o, "scale", c->scale) &&
             add_number(o, "fill", c->fill);
    if (c->role == COPSE_COLUMN_CATEGORY)
        ok = ok && add_texts(o, "categories", c->categories, c->width);
    if (c->role == COPSE_COLUMN_DATE)
        ok = ok && add_text(o, "order", copse__schema_orders[c->order]) &&
             add_doubles(o, "means", c->means, c->width) &&
             add_doubles(o, "scales", c->scales, c->width);
    return ok;
}

static bool add_table(cJSON *root, const struct copse_schema_parts *p)
{
    bool ok = cJSON_AddBoolToObject(root, "header", p->has_header) != NULL &&
              add_text(root, "missing", copse__schema_missing[p->missing == COPSE_MISSING_MEAN]);
    cJSON *list = ok ? cJSON_AddArrayToObject(root, "columns") : NULL;

    ok = list != NULL;
    for (uint32_t i = 0; ok && i < p->column_count; i++)
        ok = add_column(list, &p->columns[i]);
    return ok;
}

/* [first, second, first, second, ...] */
static bool add_merges(cJSON *root, const struct copse_schema_parts *p)
{
    cJSON *list = cJSON_AddArrayToObject(root, "merges");
    bool ok = list != NULL;

    for (uint32_t i = 0; ok && i < p->merge_count; i++)
        ok = schema_text_push(list, cJSON_CreateNumber(p->merges[i].first)) &&
             schema_text_push(list, cJSON_CreateNumber(p->merges[i].second));
    return ok;
}

/* A text of characters has all of its tokens. */
static bool add_unseen(cJSON *root, const struct copse_schema_parts *p)
{
    cJSON *list = cJSON_AddArrayToObject(root, "unseen");
    bool ok = list != NULL;

    for (uint32_t i = 0; ok && i < p->unseen_count; i++)
        ok = schema_text_push(list, cJSON_CreateNumber(p->unseen[i]));
    return ok;
}

static bool add_window(cJSON *root, const struct copse_schema_parts *p)
{
    return add_text(root, "tokens", copse__token_names[p->tokens]) &&
           add_number(root, "stride", p->stride) &&
           (p->tokens != COPSE_TOKENS_BPE || add_merges(root, p)) &&
           (p->tokens == COPSE_TOKENS_CHARACTERS || !p->knows_unseen || add_unseen(root, p));
}

static bool add_scaling(cJSON *root, const struct copse_schema_parts *p)
{
    cJSON *o = cJSON_AddObjectToObject(root, "scaling");

    return o != NULL && add_doubles(o, "mean", p->means, p->scaling_count) &&
           add_doubles(o, "scale", p->scales, p->scaling_count);
}

/* The oldest version that has all of it. */
static int schema_text_version(const struct copse_schema_parts *p)
{
    uint32_t labels = 0, dates = 0;

    for (uint32_t i = 0; i < p->column_count; i++) {
        labels += p->columns[i].role == COPSE_COLUMN_LABEL;
        dates += p->columns[i].role == COPSE_COLUMN_DATE;
    }
    return labels > 1 ? COPSE_SCHEMA_TARGETS : dates > 0 ? COPSE_SCHEMA_DATES : COPSE_SCHEMA_FIRST;
}

char *copse__schema_print(const struct copse_schema_parts *p)
{
    cJSON *root = cJSON_CreateObject();
    char *text = NULL;

    if (root != NULL && add_number(root, "version", schema_text_version(p)) &&
        add_text(root, "kind", copse__schema_kinds[p->kind]) &&
        add_text(root, "task", copse__schema_tasks[p->task]) && add_input(root, p) &&
        add_outputs(root, p) && (p->kind != COPSE_DATA_TABLE || add_table(root, p)) &&
        (p->kind != COPSE_DATA_TEXT || add_window(root, p)) &&
        (p->scaling_count == 0 || add_scaling(root, p)) &&
        (!p->is_resized || add_text(root, "resize", COPSE_SCHEMA_RESIZE)))
        text = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    return text;
}

copse_status copse__schema_check_size(const char *json, size_t size)
{
    const size_t values = copse__json_count(json, size), most = VALUES_MAX + size / VALUE_BYTES;
    return values <= most ? COPSE_OK
                          : copse_fail(COPSE_ERR_UNSUPPORTED,
                                       "schema: %zu values in %zu bytes, at most %zu are read: "
                                       "take fewer columns, categories or inputs",
                                       values, size, most);
}
