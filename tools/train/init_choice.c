/* SPDX-License-Identifier: MIT */
/* What `copse train --init` takes of a file. The head of a network, its last layer with weights, is
   for the classes or targets that it was trained with; the first layer with weights is for the
   columns of a table, or for the tokens of a text. Where the file's schema has others, the layer
   keeps its initial values. */
#include "tools/train/init_choice.h"

#include <string.h>

#include "copse/data/schema.h"
#include "copse/data/text.h"

/* ---- two schemas ---- */

struct pair {
    const copse_schema *file, *data;
    struct copse_schema_info file_is, data_is;
};

static bool init_choice_differ(char *why, size_t room, const char *what, uint32_t i,
                               const char *in_file, const char *in_data)
{
    char first[200], second[200];
    snprintf(why, room, "%s %u is '%.80s' in the file, '%.80s' in the data", what, i + 1,
             session_plain(first, sizeof first, in_file),
             session_plain(second, sizeof second, in_data));
    return true;
}

static bool count_differs(char *why, size_t room, const char *what, uint32_t in_file,
                          uint32_t in_data)
{
    if (in_file != in_data)
        snprintf(why, room, "the file has %u %s, the data %u", in_file, what, in_data);
    return in_file != in_data;
}

static const char *task_name(copse_task task)
{
    return task == COPSE_TASK_REGRESSION ? "a regression"
           : task == COPSE_TASK_SEQUENCE ? "a text"
                                         : "a classification";
}

static bool classes_differ(const struct pair *p, char *why, size_t room)
{
    if (count_differs(why, room, "classes", p->file_is.outputs, p->data_is.outputs))
        return true;
    for (uint32_t i = 0; i < p->data_is.outputs; i++) {
        const char *a = copse_schema_class(p->file, i), *b = copse_schema_class(p->data, i);
        if (a && b && strcmp(a, b) != 0)
            return init_choice_differ(why, room, "class", i, a, b);
    }
    return false;
}

static bool targets_differ(const struct pair *p, char *why, size_t room)
{
    if (count_differs(why, room, "targets", p->file_is.outputs, p->data_is.outputs))
        return true;
    for (uint32_t i = 0; i < p->data_is.outputs; i++) {
        const char *a = "", *b = "";
        double mean, scale;
        if (copse_schema_target(p->file, i, &a, &mean, &scale) == COPSE_OK &&
            copse_schema_target(p->data, i, &b, &mean, &scale) == COPSE_OK && *a && *b &&
            strcmp(a, b) != 0)
            return init_choice_differ(why, room, "target", i, a, b);
    }
    return false;
}

static bool tokens_differ(const struct pair *p, char *why, size_t room)
{
    struct copse_text_info a, b;
    static const char *const kinds[] = { "characters", "bytes", "byte pairs" };
    if (copse_text_describe(p->file, &a) != COPSE_OK ||
        copse_text_describe(p->data, &b) != COPSE_OK)
        return false;
    if (a.tokens != b.tokens) {
        snprintf(why, room, "the tokens of the file are %s, of the data %s", kinds[a.tokens],
                 kinds[b.tokens]);
        return true;
    }
    if (count_differs(why, room, "tokens", a.vocabulary, b.vocabulary))
        return true;
    for (uint32_t i = 0; i < a.vocabulary; i++) {
        char x[COPSE_TOKEN_BYTES + 1], y[COPSE_TOKEN_BYTES + 1];
        const size_t n = copse_text_token(p->file, i, x), m = copse_text_token(p->data, i, y);
        x[n] = y[m] = '\0';
        if (n != m || memcmp(x, y, n) != 0)
            return init_choice_differ(why, room, "token", i, x, y);
    }
    return false;
}

static bool outputs_differ(const struct pair *p, char *why, size_t room)
{
    if (p->file_is.task != p->data_is.task) {
        snprintf(why, room, "the file is of %s, the data of %s", task_name(p->file_is.task),
                 task_name(p->data_is.task));
        return true;
    }
    return p->data_is.task == COPSE_TASK_SEQUENCE     ? tokens_differ(p, why, room)
           : p->data_is.task == COPSE_TASK_REGRESSION ? targets_differ(p, why, room)
                                                      : classes_differ(p, why, room);
}

/* The next column that is an input, from *i on; *i is then the place after it. */
static bool next_input(const copse_schema *s, uint32_t columns, uint32_t *i,
                       struct copse_schema_column *out)
{
    while (*i < columns)
        if (copse_schema_column(s, (*i)++, out) == COPSE_OK &&
            (out->role == COPSE_COLUMN_NUMBER || out->role == COPSE_COLUMN_CATEGORY))
            return true;
    return false;
}

static bool columns_differ(const struct pair *p, char *why, size_t room)
{
    struct copse_schema_column a, b;
    uint32_t i = 0, k = 0, count = 0;
    for (;; count++) {
        const bool is_a = next_input(p->file, p->file_is.columns, &i, &a),
                   is_b = next_input(p->data, p->data_is.columns, &k, &b);
        if (!is_a && !is_b)
            return false;
        if (is_a != is_b) {
            snprintf(why, room, "the %s has more columns", is_a ? "file" : "data");
            return true;
        }
        if (*a.name && *b.name && strcmp(a.name, b.name) != 0)
            return init_choice_differ(why, room, "column", count, a.name, b.name);
        if (a.role != b.role || a.width != b.width) {
            snprintf(why, room, "column %u, '%.80s', has %u numbers in the file, %u in the data",
                     count + 1, b.name, a.width, b.width);
            return true;
        }
        for (uint32_t c = 0; b.role == COPSE_COLUMN_CATEGORY && c < b.width; c++)
            if (strcmp(a.categories[c], b.categories[c]) != 0)
                return init_choice_differ(why, room, "a category of column", count, a.categories[c],
                                          b.categories[c]);
    }
}

static bool inputs_differ(const struct pair *p, char *why, size_t room)
{
    if (p->file_is.kind != p->data_is.kind)
        return false;
    return p->data_is.kind == COPSE_DATA_TEXT    ? tokens_differ(p, why, room)
           : p->data_is.kind == COPSE_DATA_TABLE ? columns_differ(p, why, room)
                                                 : false;
}

/* ---- the layers ---- */

static size_t layer_of(copse_variable *v)
{
    const char *name = copse_variable_name(v), *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

static bool is_same_layer(copse_variable *a, copse_variable *b)
{
    const size_t n = layer_of(a);
    return n == layer_of(b) && strncmp(copse_variable_name(a), copse_variable_name(b), n) == 0;
}

/* The variables from one end up to the first layer with a matrix, all of it: norms before or after
   it depend on the same. The first `count` are of the first layer, or the last of the head. */
static size_t count_layer(copse_variable *const *list, size_t all, bool is_head)
{
    size_t count = 0;
    bool has_matrix = false;
    while (count < all) {
        copse_variable *v = list[is_head ? all - 1 - count : count];
        if (has_matrix && !is_same_layer(v, list[is_head ? all - count : count - 1]))
            break;
        has_matrix |= copse_variable_shape(v).rank > 1;
        count++;
    }
    return count;
}

static copse_variable *init_choice_find(const struct init_choice *c, const char *name,
                                        size_t *index)
{
    for (*index = 0; *index < c->variable_count; ++*index)
        if (strcmp(copse_variable_name(c->variables[*index]), name) == 0)
            return c->variables[*index];
    return NULL;
}

/* ---- the choice ---- */

static bool has_shape(const struct copse_array_view *a, copse_variable *v, bool is_transposed)
{
    const copse_shape shape = copse_variable_shape(v);
    bool is_same = a->rank == shape.rank;
    for (uint32_t i = 0; is_same && i < a->rank; i++)
        is_same = a->shape[i] == shape.dims[is_transposed && shape.rank == 2 ? 1 - i : i];
    return is_same;
}

/* Without a schema: whether an array of the head has another shape. */
static bool head_has_other_shape(const struct init_choice *c, const copse_checkpoint *file)
{
    for (size_t i = c->variable_count - c->head_count; i < c->variable_count; i++) {
        const struct copse_array_view *a =
            copse_checkpoint_find(file, copse_variable_name(c->variables[i]));
        if (a && !has_shape(a, c->variables[i], false) && !has_shape(a, c->variables[i], true))
            return true;
    }
    return false;
}

static void init_choice_decide(struct init_choice *c, const copse_checkpoint *file)
{
    const char *text = run_find(file, "schema");
    copse_schema *schema = NULL;
    text = text ? text : run_find(file, "application.schema");
    c->is_decided = true;
    c->has_schema = text && copse_schema_parse(c->ctx, text, &schema) == COPSE_OK;
    struct pair p = { .file = schema, .data = c->schema };
    if (!c->has_schema || copse_schema_describe(p.file, &p.file_is) ||
        copse_schema_describe(p.data, &p.data_is)) {
        c->skips_head = head_has_other_shape(c, file);
        if (c->skips_head)
            snprintf(c->why_head, sizeof c->why_head, "they have another shape in the file");
    } else {
        c->skips_head = outputs_differ(&p, c->why_head, sizeof c->why_head);
        c->skips_input = inputs_differ(&p, c->why_input, sizeof c->why_input);
    }
    copse_schema_release(&schema);
}

void init_choice_begin(struct init_choice *c, copse_context *ctx, copse_strategy *st,
                       const copse_schema *schema)
{
    *c = (struct init_choice){ .ctx = ctx, .schema = schema };
    copse_strategy_variables(st, &c->variables, &c->variable_count);
    c->input_count = count_layer(c->variables, c->variable_count, false);
    c->head_count = count_layer(c->variables, c->variable_count, true);
}

const char *init_choice_why(const struct init_choice *c, const char *name)
{
    size_t i;
    if (init_choice_find(c, name, &i) && c->skips_head && i >= c->variable_count - c->head_count)
        return c->why_head;
    return i < c->variable_count && c->skips_input && i < c->input_count ? c->why_input : NULL;
}

bool init_choice(void *user, const copse_checkpoint *file, const char *name)
{
    struct init_choice *c = user;
    if (!c->is_decided)
        init_choice_decide(c, file);
    return !init_choice_why(c, name);
}
