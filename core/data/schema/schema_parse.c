/* SPDX-License-Identifier: MIT */
/* Reads the text of a schema. Every field is checked; a field that this version does not know is
   refused. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/data/array.h"
#include "core/data/reader/byte_stream.h"
#include "core/data/schema/schema.h"
#include "core/data/schema/schema_names.h"
#include "core/data/text/tokens.h"
#include "core/graph/type.h"

#define COUNT_MAX 4294967295.0 /* of a number that counts */

struct parser {
    struct copse_arena arena; /* of the arrays in `parts`; texts belong to the JSON tree */
    struct copse_schema_parts parts;
};

struct field {
    const char *name;
    const cJSON **to; /* set to NULL before; stays NULL if the field is missing */
};

static copse_status no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "schema: no memory");
}

static copse_status schema_parse_wrong(const char *where, const char *name, const char *wanted)
{
    return copse_fail(COPSE_ERR_FORMAT, "schema: the field \"%s\" of %s is not %s", name, where,
                      wanted);
}

static copse_status take_fields(const cJSON *object, const char *where, const struct field *fields,
                                size_t count)
{
    if (!cJSON_IsObject(object))
        return copse_fail(COPSE_ERR_FORMAT, "schema: %s is not an object", where);
    for (const cJSON *item = object->child; item != NULL; item = item->next) {
        size_t i = 0;
        while (i < count && strcmp(fields[i].name, item->string) != 0)
            i++;
        if (i == count)
            return copse_fail(COPSE_ERR_UNSUPPORTED,
                              "schema: %s has the unknown field \"%.100s\": a newer version of "
                              "Copse may have written it",
                              where, item->string);
        if (*fields[i].to != NULL)
            return copse_fail(COPSE_ERR_FORMAT, "schema: the field \"%s\" of %s is there twice",
                              fields[i].name, where);
        *fields[i].to = item;
    }
    return COPSE_OK;
}

/* One of `words`, as its index. */
static copse_status take_word(const cJSON *item, const char *where, const char *name,
                              const char *const *words, int count, int *out)
{
    char list[200];
    size_t used = 0;

    for (*out = 0; cJSON_IsString(item) && *out < count; ++*out)
        if (strcmp(words[*out], item->valuestring) == 0)
            return COPSE_OK;
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "one of ",
                                 words[i]);
    return schema_parse_wrong(where, name, list);
}

static copse_status take_number(const cJSON *item, const char *where, const char *name, double *out)
{
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble))
        return schema_parse_wrong(where, name, "a number");
    *out = item->valuedouble;
    return COPSE_OK;
}

/* A divisor. */
static copse_status take_scale(const cJSON *item, const char *where, const char *name, double *out)
{
    COPSE_TRY(take_number(item, where, name, out));
    return *out > 0 ? COPSE_OK : schema_parse_wrong(where, name, "greater than 0");
}

static copse_status take_count(const cJSON *item, const char *where, const char *name,
                               uint32_t *out)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 1 && item->valuedouble <= COUNT_MAX) ||
        item->valuedouble != floor(item->valuedouble))
        return schema_parse_wrong(where, name, "a whole number from 1");
    *out = (uint32_t)item->valuedouble;
    return COPSE_OK;
}

static copse_status take_bool(const cJSON *item, const char *where, const char *name, bool *out)
{
    if (!cJSON_IsBool(item))
        return schema_parse_wrong(where, name, "true or false");
    *out = cJSON_IsTrue(item);
    return COPSE_OK;
}

static uint32_t schema_parse_length(const cJSON *array)
{
    uint32_t n = 0;

    for (const cJSON *item = array->child; item != NULL; item = item->next)
        n++;
    return n;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* An array of at least one text, all different. */
static copse_status take_texts(struct parser *p, const cJSON *item, const char *where,
                               const char *name, const char *const **out, uint32_t *count)
{
    if (!cJSON_IsArray(item) || item->child == NULL)
        return schema_parse_wrong(where, name, "an array of texts");
    *count = schema_parse_length(item);
    const char **to = copse__arena_alloc(&p->arena, *count, sizeof *to);
    const char **sorted = copse__arena_alloc(&p->arena, *count, sizeof *sorted);
    if (to == NULL || sorted == NULL)
        return no_memory();
    uint32_t n = 0;
    for (const cJSON *each = item->child; each != NULL; each = each->next) {
        if (!cJSON_IsString(each))
            return schema_parse_wrong(where, name, "an array of texts");
        to[n++] = each->valuestring;
    }
    memcpy(sorted, to, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_text);
    for (uint32_t i = 1; i < n; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            return copse_fail(COPSE_ERR_FORMAT,
                              "schema: \"%.100s\" is in the field \"%s\" of %s twice", sorted[i],
                              name, where);
    *out = to;
    return COPSE_OK;
}

static copse_status take_doubles(struct parser *p, const cJSON *item, const char *where,
                                 const char *name, bool is_scale, const double **out, size_t *count)
{
    if (!cJSON_IsArray(item) || item->child == NULL)
        return schema_parse_wrong(where, name, "an array of numbers");
    *count = schema_parse_length(item);
    double *to = copse__arena_alloc(&p->arena, *count, sizeof *to);
    if (to == NULL)
        return no_memory();
    *out = to;
    for (const cJSON *each = item->child; each != NULL; each = each->next, to++)
        COPSE_TRY(is_scale ? take_scale(each, where, name, to)
                           : take_number(each, where, name, to));
    return COPSE_OK;
}

static copse_status take_input(struct parser *p, const cJSON *object)
{
    const cJSON *type = NULL, *shape = NULL, *offset = NULL, *scale = NULL;
    const struct field fields[] = {
        { "type", &type }, { "shape", &shape }, { "offset", &offset }, { "scale", &scale }
    };
    double v;

    COPSE_TRY(take_fields(object, "input", fields, COPSE_COUNT(fields)));
    static const char *const types[] = { "f32", "u8", "i32" };
    static const copse_type type_of[] = { COPSE_F32, COPSE_U8, COPSE_I32 };
    int at;
    COPSE_TRY(take_word(type, "input", "type", types, COPSE_COUNT(types), &at));
    p->parts.type = type_of[at];
    if (!cJSON_IsArray(shape) || schema_parse_length(shape) >= COPSE_MAX_RANK)
        return schema_parse_wrong("input", "shape", "an array of at most 5 numbers");
    double elements = 1;
    for (const cJSON *each = shape->child; each != NULL; each = each->next) {
        uint32_t *dim = &p->parts.shape.dims[p->parts.shape.rank++];
        COPSE_TRY(take_count(each, "input", "shape", dim));
        elements *= *dim;
    }
    if (elements > COUNT_MAX)
        return schema_parse_wrong("input", "shape", "the shape of at most 2^32-1 numbers");
    COPSE_TRY(take_number(offset, "input", "offset", &v));
    p->parts.input_offset = (float)v;
    COPSE_TRY(take_scale(scale, "input", "scale", &v));
    p->parts.input_scale = (float)v;
    return isfinite(p->parts.input_offset) && isfinite(p->parts.input_scale) &&
                   p->parts.input_scale > 0
               ? COPSE_OK
               : schema_parse_wrong("input", "scale", "a number of 32 bits");
}

static copse_status take_targets(struct parser *p, const cJSON *list)
{
    if (!cJSON_IsArray(list) || list->child == NULL)
        return schema_parse_wrong("the schema", "targets", "an array of targets");
    p->parts.outputs = schema_parse_length(list);
    struct copse_schema_target *to = copse__arena_alloc(&p->arena, p->parts.outputs, sizeof *to);
    if (to == NULL)
        return no_memory();
    p->parts.targets = to;
    for (const cJSON *each = list->child; each != NULL; each = each->next, to++) {
        const cJSON *name = NULL, *mean = NULL, *scale = NULL;
        const struct field fields[] = { { "name", &name }, { "mean", &mean }, { "scale", &scale } };
        COPSE_TRY(take_fields(each, "a target", fields, COPSE_COUNT(fields)));
        if (!cJSON_IsString(name))
            return schema_parse_wrong("a target", "name", "a text");
        to->name = name->valuestring;
        COPSE_TRY(take_number(mean, "a target", "mean", &to->mean));
        COPSE_TRY(take_scale(scale, "a target", "scale", &to->scale));
    }
    return COPSE_OK;
}

static copse_status take_outputs(struct parser *p, const cJSON *classes, const cJSON *numbered,
                                 const cJSON *targets)
{
    const copse_task task = p->parts.task;
    const bool has_classes = task == COPSE_TASK_CLASSIFICATION || task == COPSE_TASK_SEQUENCE;

    if ((targets != NULL) != (task == COPSE_TASK_REGRESSION) || (classes != NULL) != has_classes ||
        (numbered != NULL) != has_classes)
        return copse_fail(COPSE_ERR_FORMAT,
                          "schema: the task is %s: a classification has the fields \"classes\" and "
                          "\"numbered\", a "
                          "regression \"targets\", and no other task one of them",
                          copse__schema_tasks[task]);
    if (targets != NULL)
        return take_targets(p, targets);
    if (classes == NULL)
        return COPSE_OK;
    COPSE_TRY(take_bool(numbered, "the schema", "numbered", &p->parts.is_numbered));
    return cJSON_IsNumber(classes) ? take_count(classes, "the schema", "classes", &p->parts.outputs)
                                   : take_texts(p, classes, "the schema", "classes",
                                                &p->parts.classes, &p->parts.outputs);
}

/* Sorted, and no empty text but the last one. */
static copse_status check_categories(const struct copse_schema_column *c, const char *where)
{
    for (uint32_t i = 0; i + 1 < c->width; i++)
        if (c->categories[i][0] == 0 ||
            (c->categories[i + 1][0] != 0 && strcmp(c->categories[i], c->categories[i + 1]) > 0))
            return schema_parse_wrong(where, "categories", "sorted by bytes, with \"\" at the end");
    return COPSE_OK;
}

/* As many means as scales: with or without times. */
static copse_status take_date(struct parser *p, const char *where, const cJSON *order,
                              const cJSON *means, const cJSON *scales,
                              struct copse_schema_column *to)
{
    size_t width = 0, scale_count = 0;
    int at;

    COPSE_TRY(take_word(order, where, "order", copse__schema_orders, COPSE_SCHEMA_ORDERS, &at));
    to->order = (copse_date_order)at;
    COPSE_TRY(take_doubles(p, means, where, "means", false, &to->means, &width));
    COPSE_TRY(take_doubles(p, scales, where, "scales", true, &to->scales, &scale_count));
    if ((width != COPSE_DATE_WIDTH && width != COPSE_DATE_TIME_WIDTH) || scale_count != width)
        return schema_parse_wrong(where, "means",
                                  "an array of 11 numbers, or 13 with times, as \"scales\" is");
    to->width = (uint32_t)width;
    return COPSE_OK;
}

static copse_status take_column(struct parser *p, const cJSON *object, uint32_t i,
                                struct copse_schema_column *to)
{
    const cJSON *name = NULL, *role = NULL, *mean = NULL, *scale = NULL, *fill = NULL,
                *categories = NULL, *order = NULL, *means = NULL, *scales = NULL;
    const struct field fields[] = { { "name", &name },    { "role", &role },
                                    { "mean", &mean },    { "scale", &scale },
                                    { "fill", &fill },    { "categories", &categories },
                                    { "order", &order },  { "means", &means },
                                    { "scales", &scales } };
    char where[32];
    int at;

    snprintf(where, sizeof where, "column %u", i + 1);
    COPSE_TRY(take_fields(object, where, fields, COPSE_COUNT(fields)));
    if (!cJSON_IsString(name))
        return schema_parse_wrong(where, "name", "a text");
    to->name = name->valuestring;
    to->scale = 1;
    COPSE_TRY(take_word(role, where, "role", copse__schema_roles, COPSE_SCHEMA_ROLES, &at));
    to->role = (copse_column_role)at;
    const bool is_number = to->role == COPSE_COLUMN_NUMBER,
               is_category = to->role == COPSE_COLUMN_CATEGORY,
               is_date = to->role == COPSE_COLUMN_DATE;
    if ((mean != NULL) != is_number || (scale != NULL) != is_number ||
        (fill != NULL) != is_number || (categories != NULL) != is_category ||
        (order != NULL) != is_date || (means != NULL) != is_date || (scales != NULL) != is_date)
        return copse_fail(
            COPSE_ERR_FORMAT,
            "schema: %s: the role \"number\" has the fields \"mean\", \"scale\" and \"fill\", "
            "\"category\" has \"categories\", \"date\" has \"order\", \"means\" and \"scales\", "
            "and no "
            "other role has them",
            where);
    if (is_number) {
        COPSE_TRY(take_number(mean, where, "mean", &to->mean));
        COPSE_TRY(take_scale(scale, where, "scale", &to->scale));
        COPSE_TRY(take_number(fill, where, "fill", &to->fill));
    }
    if (is_date)
        COPSE_TRY(take_date(p, where, order, means, scales, to));
    if (is_category) {
        COPSE_TRY(take_texts(p, categories, where, "categories", &to->categories, &to->width));
        COPSE_TRY(check_categories(to, where));
        to->has_missing = to->categories[to->width - 1][0] == 0;
    }
    return COPSE_OK;
}

static copse_status check_columns(const struct copse_schema_parts *s)
{
    uint64_t width = 0;
    uint32_t labels = 0;

    for (uint32_t i = 0; i < s->column_count; i++) {
        width += s->columns[i].role == COPSE_COLUMN_NUMBER ? 1 : s->columns[i].width;
        labels += s->columns[i].role == COPSE_COLUMN_LABEL;
    }
    if (s->type != COPSE_F32 || s->shape.rank != 1 || s->shape.dims[0] != width)
        return copse_fail(
            COPSE_ERR_FORMAT,
            "schema: the columns make f32 [%llu], but \"input\" has another type or shape",
            (unsigned long long)width);
    const uint32_t needed = s->task == COPSE_TASK_AUTO ? 0 : s->targets != NULL ? s->outputs : 1;
    return labels == 0 || labels == needed
               ? COPSE_OK
               : copse_fail(COPSE_ERR_FORMAT,
                            "schema: a table has a label column for its classes, or one for each "
                            "target of a regression");
}

static copse_status take_table(struct parser *p, const cJSON *header, const cJSON *missing,
                               const cJSON *columns)
{
    uint32_t n = 0;
    int at;

    if ((header != NULL || missing != NULL || columns != NULL) && p->parts.kind != COPSE_DATA_TABLE)
        return copse_fail(COPSE_ERR_FORMAT,
                          "schema: \"header\", \"missing\" and \"columns\" are fields of a table");
    if (p->parts.kind != COPSE_DATA_TABLE)
        return COPSE_OK;
    COPSE_TRY(take_bool(header, "the schema", "header", &p->parts.has_header));
    COPSE_TRY(take_word(missing, "the schema", "missing", copse__schema_missing,
                        COPSE_SCHEMA_MISSING, &at));
    p->parts.missing = at == 0 ? COPSE_MISSING_REFUSE : COPSE_MISSING_MEAN;
    if (!cJSON_IsArray(columns) || columns->child == NULL)
        return schema_parse_wrong("the schema", "columns", "an array of columns");
    p->parts.column_count = schema_parse_length(columns);
    struct copse_schema_column *to =
        copse__arena_alloc(&p->arena, p->parts.column_count, sizeof *to);
    if (to == NULL)
        return no_memory();
    p->parts.columns = to;
    for (const cJSON *each = columns->child; each != NULL; each = each->next, n++)
        COPSE_TRY(take_column(p, each, n, &to[n]));
    return check_columns(&p->parts);
}

static bool take_token(const cJSON *item, uint16_t *out)
{
    const double v = item->valuedouble;

    if (!cJSON_IsNumber(item) || !(v >= 0 && v <= UINT16_MAX) || v != floor(v))
        return false;
    *out = (uint16_t)v;
    return true;
}

/* Two token numbers for each merge. The kind of tokens checks their values. */
static copse_status take_merges(struct parser *p, const cJSON *list)
{
    static const char wanted[] = "an array of token numbers, two for each merge";

    if ((list != NULL) != (p->parts.tokens == COPSE_TOKENS_BPE))
        return copse_fail(
            COPSE_ERR_FORMAT,
            "schema: \"merges\" is a field of a text of byte pairs, and no other has it");
    if (list == NULL)
        return COPSE_OK;
    const uint32_t count = cJSON_IsArray(list) ? schema_parse_length(list) : 1;
    if (count % 2 != 0)
        return schema_parse_wrong("the schema", "merges", wanted);
    struct copse_merge *to = copse__arena_alloc(&p->arena, count / 2, sizeof *to);
    if (to == NULL)
        return no_memory();
    p->parts.merges = to;
    p->parts.merge_count = count / 2;
    for (const cJSON *each = list->child; each != NULL; each = each->next->next, to++)
        if (!take_token(each, &to->first) || !take_token(each->next, &to->second))
            return schema_parse_wrong("the schema", "merges", wanted);
    return COPSE_OK;
}

static copse_status check_window(struct copse_mem *mem, const struct copse_schema_parts *s)
{
    if (s->task != COPSE_TASK_SEQUENCE || s->shape.rank != 1 || s->input_offset != 0 ||
        s->input_scale != 1)
        return copse_fail(
            COPSE_ERR_FORMAT,
            "schema: a text has the task \"sequence\" and an \"input\" of one axis, without "
            "offset and scale");
    COPSE_TRY(copse__token_kinds[s->tokens].check(mem, s));
    return s->type == copse__token_type(s->outputs)
               ? COPSE_OK
               : copse_fail(COPSE_ERR_FORMAT,
                            "schema: the \"input\" of a text is u8, with more than 256 tokens i32");
}

/* Optional: older versions did not write it. */
static copse_status take_unseen(struct parser *p, const cJSON *list)
{
    static const char wanted[] =
        "an array of token numbers, each larger than the one before, and not of all tokens";
    const uint32_t count = cJSON_IsArray(list) ? schema_parse_length(list) : 0;

    p->parts.knows_unseen = list != NULL || p->parts.tokens == COPSE_TOKENS_CHARACTERS;
    if (list == NULL)
        return COPSE_OK;
    if (!cJSON_IsArray(list) || count >= p->parts.outputs ||
        p->parts.tokens == COPSE_TOKENS_CHARACTERS)
        return schema_parse_wrong(
            "the schema", "unseen",
            p->parts.tokens == COPSE_TOKENS_CHARACTERS ? "one of a text of characters" : wanted);
    uint32_t *to = copse__arena_alloc(&p->arena, count, sizeof *to);
    if (to == NULL)
        return no_memory();
    p->parts.unseen = to;
    for (const cJSON *each = list->child; each != NULL; each = each->next) {
        const double v = each->valuedouble,
                     least = p->parts.unseen_count > 0 ? to[p->parts.unseen_count - 1] + 1.0 : 0.0;
        if (!cJSON_IsNumber(each) || !(v >= least && v < p->parts.outputs) || v != floor(v))
            return schema_parse_wrong("the schema", "unseen", wanted);
        to[p->parts.unseen_count++] = (uint32_t)v;
    }
    return COPSE_OK;
}

static copse_status take_text(struct parser *p, const cJSON *tokens, const cJSON *stride,
                              const cJSON *merges, const cJSON *unseen)
{
    const bool is_text = p->parts.kind == COPSE_DATA_TEXT;
    int at;

    if ((tokens != NULL) != is_text || (stride != NULL) != is_text ||
        ((merges != NULL || unseen != NULL) && !is_text))
        return copse_fail(
            COPSE_ERR_FORMAT,
            "schema: a text has the fields \"tokens\" and \"stride\", and no other kind has them, "
            "\"merges\" or \"unseen\"");
    if (!is_text)
        return p->parts.type != COPSE_I32 && p->parts.task != COPSE_TASK_SEQUENCE
                   ? COPSE_OK
                   : copse_fail(
                         COPSE_ERR_FORMAT,
                         "schema: the input type i32 and the task \"sequence\" belong to a text");
    COPSE_TRY(
        take_word(tokens, "the schema", "tokens", copse__token_names, COPSE_TOKEN_KINDS, &at));
    p->parts.tokens = (copse_tokens)at;
    COPSE_TRY(take_merges(p, merges));
    COPSE_TRY(take_unseen(p, unseen));
    COPSE_TRY(take_count(stride, "the schema", "stride", &p->parts.stride));
    return check_window(p->arena.mem, &p->parts);
}

static copse_status take_scaling(struct parser *p, const cJSON *object)
{
    const cJSON *mean = NULL, *scale = NULL;
    const struct field fields[] = { { "mean", &mean }, { "scale", &scale } };
    size_t means, scales, elements = 1;

    if (object == NULL)
        return COPSE_OK;
    COPSE_TRY(take_fields(object, "scaling", fields, COPSE_COUNT(fields)));
    COPSE_TRY(take_doubles(p, mean, "scaling", "mean", false, &p->parts.means, &means));
    COPSE_TRY(take_doubles(p, scale, "scaling", "scale", true, &p->parts.scales, &scales));
    for (uint32_t i = 0; i < p->parts.shape.rank; i++)
        elements *= p->parts.shape.dims[i];
    p->parts.scaling_count = means;
    if (means != scales || (means != 1 && means != elements) || p->parts.kind == COPSE_DATA_TABLE ||
        p->parts.type != COPSE_F32)
        return copse_fail(COPSE_ERR_FORMAT, "schema: \"scaling\" has one mean and one scale, or "
                                            "one of each for every number of an f32 "
                                            "input that is not a table");
    return COPSE_OK;
}

static copse_status take_resize(struct parser *p, const cJSON *word)
{
    static const char *const words[] = { COPSE_SCHEMA_RESIZE };
    int at;

    if (word == NULL)
        return COPSE_OK;
    if (p->parts.kind != COPSE_DATA_PICTURES)
        return copse_fail(COPSE_ERR_FORMAT, "schema: \"resize\" is a field of pictures");
    p->parts.is_resized = true;
    return take_word(word, "the schema", "resize", words, COPSE_COUNT(words), &at);
}

static copse_status take_schema(struct parser *p, const cJSON *root)
{
    const cJSON *version = NULL, *kind = NULL, *task = NULL, *input = NULL, *classes = NULL,
                *numbered = NULL;
    const cJSON *targets = NULL, *header = NULL, *missing = NULL, *columns = NULL, *scaling = NULL,
                *resize = NULL;
    const cJSON *tokens = NULL, *stride = NULL, *merges = NULL, *unseen = NULL;
    const struct field fields[] = {
        { "version", &version }, { "kind", &kind },       { "task", &task },
        { "input", &input },     { "classes", &classes }, { "numbered", &numbered },
        { "targets", &targets }, { "header", &header },   { "missing", &missing },
        { "columns", &columns }, { "scaling", &scaling }, { "resize", &resize },
        { "tokens", &tokens },   { "stride", &stride },   { "merges", &merges },
        { "unseen", &unseen },
    };
    uint32_t number;
    int at;

    /* first: a newer version may have other fields */
    version = cJSON_GetObjectItemCaseSensitive(root, "version");
    if (version != NULL) {
        COPSE_TRY(take_count(version, "the schema", "version", &number));
        if (number > COPSE_SCHEMA_VERSION)
            return copse_fail(COPSE_ERR_UNSUPPORTED,
                              "schema: it has version %u, this version of Copse reads 1 to %d",
                              number, COPSE_SCHEMA_VERSION);
    }
    version = NULL;
    COPSE_TRY(take_fields(root, "the schema", fields, COPSE_COUNT(fields)));
    COPSE_TRY(take_count(version, "the schema", "version", &number));
    COPSE_TRY(take_word(kind, "the schema", "kind", copse__schema_kinds, COPSE_SCHEMA_KINDS, &at));
    p->parts.kind = (copse_data_kind)at;
    COPSE_TRY(take_word(task, "the schema", "task", copse__schema_tasks, COPSE_SCHEMA_TASKS, &at));
    p->parts.task = (copse_task)at;
    COPSE_TRY(take_input(p, input));
    COPSE_TRY(take_outputs(p, classes, numbered, targets));
    COPSE_TRY(take_table(p, header, missing, columns));
    COPSE_TRY(take_text(p, tokens, stride, merges, unseen));
    COPSE_TRY(take_resize(p, resize));
    return take_scaling(p, scaling);
}

copse_status copse_schema_parse(copse_context *ctx, const char *json, copse_schema **out)
{
    COPSE_TRY(copse_need("schema", ctx, json, out));
    struct parser p = { .arena = { .mem = &copse__base(ctx)->mem } };
    const size_t size = strlen(json);
    const char *end = NULL;

    *out = NULL;
    if (copse__utf8_valid(json, size) < size)
        return copse_fail(COPSE_ERR_FORMAT, "schema: invalid UTF-8 at byte %zu",
                          copse__utf8_valid(json, size));
    COPSE_TRY(copse__schema_check_size(json, size));
    cJSON *root = cJSON_ParseWithLengthOpts(json, size + 1, &end, true);
    if (root == NULL)
        return copse_fail(COPSE_ERR_FORMAT, "schema: it is not JSON: an error at byte %zu",
                          end != NULL ? (size_t)(end - json) : 0);
    copse_status s = take_schema(&p, root);
    if (s == COPSE_OK)
        s = copse__schema_create(ctx, &p.parts, out);
    copse__arena_fini(&p.arena);
    cJSON_Delete(root);
    return s;
}
