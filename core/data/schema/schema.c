/* SPDX-License-Identifier: MIT */
/* The schema object: copies its parts and answers questions about them. */
#include "core/data/schema/schema.h"

#include <cjson/cJSON.h>
#include <stdio.h>

#include "core/data/array.h"

static copse_status no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "schema: no memory");
}

/* False without memory. */
static bool copy_texts(struct copse_arena *arena, const char *const *from, uint32_t count,
                       const char *const **out)
{
    const char **to = copse__arena_alloc(arena, count, sizeof *to);

    *out = to;
    for (uint32_t i = 0; to != NULL && i < count; i++) {
        to[i] = copse__arena_strdup(arena, from[i]);
        if (to[i] == NULL)
            return false;
    }
    return to != NULL;
}

/* The numbers from 0. */
static bool name_classes(copse_schema *s)
{
    const uint32_t count = COPSE_MIN(s->is.outputs, COPSE_NAMED_CLASSES_MAX);
    const char **to = copse__arena_alloc(&s->arena, count, sizeof *to);
    char digits[16];

    s->is.classes = to;
    for (uint32_t i = 0; to != NULL && i < count; i++) {
        snprintf(digits, sizeof digits, "%u", i);
        to[i] = copse__arena_strdup(&s->arena, digits);
        if (to[i] == NULL)
            return false;
    }
    return to != NULL;
}

static bool copy_doubles(struct copse_arena *arena, const double *from, size_t count,
                         const double **out)
{
    double *to = copse__arena_alloc(arena, count, sizeof *to);

    *out = to;
    if (to != NULL && count > 0)
        memcpy(to, from, count * sizeof *to);
    return to != NULL;
}

static bool copy_merges(copse_schema *s, const struct copse_schema_parts *from)
{
    struct copse_merge *to = copse__arena_alloc(&s->arena, from->merge_count, sizeof *to);

    s->is.merges = to;
    if (to != NULL && from->merge_count > 0)
        memcpy(to, from->merges, from->merge_count * sizeof *to);
    return to != NULL;
}

static bool copy_unseen(copse_schema *s, const struct copse_schema_parts *from)
{
    uint32_t *to = copse__arena_alloc(&s->arena, from->unseen_count, sizeof *to);

    s->is.unseen = to;
    if (to != NULL && from->unseen_count > 0)
        memcpy(to, from->unseen, from->unseen_count * sizeof *to);
    return to != NULL;
}

/* Copies the columns and gives them their places in "x". */
static bool copy_columns(copse_schema *s, const struct copse_schema_parts *from)
{
    struct copse_schema_column *to = copse__arena_alloc(&s->arena, from->column_count, sizeof *to);
    uint32_t place = 0;

    s->is.columns = to;
    for (uint32_t i = 0; to != NULL && i < from->column_count; i++) {
        const bool is_category = from->columns[i].role == COPSE_COLUMN_CATEGORY,
                   is_date = from->columns[i].role == COPSE_COLUMN_DATE;
        to[i] = from->columns[i];
        to[i].name = copse__arena_strdup(&s->arena, from->columns[i].name);
        if (to[i].role == COPSE_COLUMN_NUMBER)
            to[i].width = 1;
        else if (!is_category && !is_date)
            to[i].width = 0;
        to[i].first = to[i].width > 0 ? place : 0;
        place += to[i].width;
        if (to[i].name == NULL ||
            (is_date &&
             (!copy_doubles(&s->arena, from->columns[i].means, to[i].width, &to[i].means) ||
              !copy_doubles(&s->arena, from->columns[i].scales, to[i].width, &to[i].scales))) ||
            (is_category &&
             !copy_texts(&s->arena, from->columns[i].categories, to[i].width, &to[i].categories)))
            return false;
    }
    s->is.shape = COPSE_SHAPE(place);
    return to != NULL;
}

static bool copy_targets(copse_schema *s, const struct copse_schema_parts *from)
{
    struct copse_schema_target *to = copse__arena_alloc(&s->arena, from->outputs, sizeof *to);

    s->is.targets = to;
    for (uint32_t i = 0; to != NULL && i < from->outputs; i++) {
        to[i] = from->targets[i];
        to[i].name = copse__arena_strdup(&s->arena, from->targets[i].name);
        if (to[i].name == NULL)
            return false;
    }
    return to != NULL;
}

copse_status copse__schema_create(copse_context *ctx, const struct copse_schema_parts *parts,
                                  copse_schema **out)
{
    copse_schema *s = copse__alloc(&copse__base(ctx)->mem, 1, sizeof *s);
    bool ok = true;

    *out = NULL;
    if (s == NULL)
        return no_memory();
    atomic_init(&s->refs, 1);
    s->ctx = copse_context_retain(ctx);
    s->arena.mem = &copse__base(ctx)->mem;
    s->is = *parts;
    if (parts->task == COPSE_TASK_REGRESSION)
        ok = copy_targets(s, parts);
    else if (parts->classes != NULL)
        ok = copy_texts(&s->arena, parts->classes, parts->outputs, &s->is.classes);
    ok = ok && (parts->kind != COPSE_DATA_TABLE || copy_columns(s, parts));
    ok = ok && (parts->kind != COPSE_DATA_TEXT || (copy_merges(s, parts) && copy_unseen(s, parts)));
    ok = ok && copy_doubles(&s->arena, parts->means, parts->scaling_count, &s->is.means);
    ok = ok && copy_doubles(&s->arena, parts->scales, parts->scaling_count, &s->is.scales);
    if (ok)
        s->text = copse__schema_print(&s->is); /* before names are added */
    const copse_status status =
        s->text == NULL ? COPSE_OK : copse__schema_check_size(s->text, strlen(s->text));
    s->is_counted = parts->task != COPSE_TASK_REGRESSION && parts->classes == NULL;
    if (ok && s->is_counted)
        ok = name_classes(s);
    if (!ok || s->text == NULL) {
        copse_schema_release(&s);
        return no_memory();
    }
    if (status != COPSE_OK)
        copse_schema_release(&s);
    *out = s;
    return status;
}

copse_schema *copse_schema_retain(copse_schema *schema)
{
    if (schema != NULL)
        copse__ref(&schema->refs);
    return schema;
}

void copse_schema_release(copse_schema **schema)
{
    if (schema == NULL || *schema == NULL)
        return;
    copse_schema *s = *schema;
    *schema = NULL;
    if (!copse__unref(&s->refs))
        return;
    copse_context *ctx = s->ctx;
    copse__arena_fini(&s->arena);
    cJSON_free(s->text);
    copse__free(&copse__base(ctx)->mem, s);
    copse_context_release(&ctx);
}

copse_status copse_schema_describe(const copse_schema *schema, struct copse_schema_info *out)
{
    COPSE_TRY(copse_need("schema", schema, out));
    *out = (struct copse_schema_info){
        .kind = schema->is.kind,
        .task = schema->is.task,
        .type = schema->is.type,
        .shape = schema->is.shape,
        .input_offset = schema->is.input_offset,
        .input_scale = schema->is.input_scale,
        .outputs = schema->is.outputs,
        .columns = schema->is.column_count,
    };
    return COPSE_OK;
}

const char *copse_schema_class(const copse_schema *schema, uint32_t i)
{
    return schema != NULL && schema->is.classes != NULL && i < schema->is.outputs &&
                   i < COPSE_NAMED_CLASSES_MAX
               ? schema->is.classes[i]
               : NULL;
}

copse_status copse_schema_column(const copse_schema *schema, uint32_t i,
                                 struct copse_schema_column *out)
{
    COPSE_TRY(copse_need("schema", schema, out));
    if (i >= schema->is.column_count)
        return copse_fail(COPSE_ERR_ARGUMENT, "schema: there is no column %u of %u", i,
                          schema->is.column_count);
    *out = schema->is.columns[i];
    return COPSE_OK;
}

copse_status copse_schema_target(const copse_schema *schema, uint32_t i, const char **name,
                                 double *mean, double *scale)
{
    COPSE_TRY(copse_need("schema", schema, name, mean, scale));
    const uint32_t targets = schema->is.task == COPSE_TASK_REGRESSION ? schema->is.outputs : 0;
    if (i >= targets)
        return copse_fail(COPSE_ERR_ARGUMENT, "schema: there is no target %u of %u", i, targets);
    *name = schema->is.targets[i].name;
    *mean = schema->is.targets[i].mean;
    *scale = schema->is.targets[i].scale;
    return COPSE_OK;
}

const char *copse_schema_text(const copse_schema *schema)
{
    return schema != NULL ? schema->text : NULL;
}
