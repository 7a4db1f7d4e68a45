/* SPDX-License-Identifier: MIT */
/* Fine-tuning: what a model takes of a file. The head of a network is for the classes or targets
   that it was trained with; the first layer with weights is for the columns of a table, or for the
   tokens of a text. Where the file's schema has others, the layer keeps its values. */
#include <stdio.h>

#include "copse/data/text.h"
#include "copse/train/fine_tune.h"
#include "core/model/model.h"
#include "core/state/weights.h"
#include "core/train/trainer.h"

/* ---- two schemas ---- */

struct pair {
    const copse_schema *file, *data;
    struct copse_schema_info file_is, data_is;
};

static bool name_differs(char *why, size_t room, const char *what, uint32_t i, const char *in_file,
                         const char *in_data)
{
    snprintf(why, room, "%s %u is '%.80s' in the file, '%.80s' in the data", what, i + 1, in_file,
             in_data);
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
            return name_differs(why, room, "class", i, a, b);
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
            return name_differs(why, room, "target", i, a, b);
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
            return name_differs(why, room, "token", i, x, y);
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
            return name_differs(why, room, "column", count, a.name, b.name);
        if (a.role != b.role || a.width != b.width) {
            snprintf(why, room, "column %u, '%.80s', has %u numbers in the file, %u in the data",
                     count + 1, b.name, a.width, b.width);
            return true;
        }
        for (uint32_t c = 0; b.role == COPSE_COLUMN_CATEGORY && c < b.width; c++)
            if (strcmp(a.categories[c], b.categories[c]) != 0)
                return name_differs(why, room, "a category of column", count, a.categories[c],
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

static size_t layer_of(const copse_variable *v)
{
    const char *name = copse_variable_name(v), *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

static bool is_same_layer(const copse_variable *a, const copse_variable *b)
{
    const size_t n = layer_of(a);
    return n == layer_of(b) && strncmp(copse_variable_name(a), copse_variable_name(b), n) == 0;
}

/* The variables from one end up to the first layer with a matrix, all of it: norms before or after
   it depend on the same. The first `count` are of the first layer, or the last of the head. */
static size_t count_layer(const copse_model *m, bool is_head)
{
    const size_t all = m->variable_count;
    size_t count = 0;
    bool has_matrix = false;
    while (count < all) {
        copse_variable *v = m->variables[is_head ? all - 1 - count : count];
        if (has_matrix && !is_same_layer(v, m->variables[is_head ? all - count : count - 1]))
            break;
        has_matrix |= copse_variable_shape(v).rank > 1;
        count++;
    }
    return count;
}

copse_variable *const *copse_model_variables(const copse_model *m, size_t *count)
{
    if (count)
        *count = m ? m->variable_count : 0;
    return m ? m->variables : NULL;
}

copse_variable *const *copse_model_head(const copse_model *m, size_t *count)
{
    const size_t head = m ? count_layer(m, true) : 0;
    if (count)
        *count = head;
    return m ? m->variables + m->variable_count - head : NULL;
}

/* ---- the choice ---- */

struct choice {
    const copse_model *m;
    const struct copse_load_params *given;
    size_t input, head; /* variables of the first layer, of the head */
    bool is_decided;    /* the next are set: the file was seen */
    bool has_schema;
    char *why_input, *why_head; /* "": it is taken */
};

static bool has_shape(const struct copse_array_view *a, copse_variable *v, bool is_transposed)
{
    const copse_shape shape = copse_variable_shape(v);
    bool is_same = a->rank == shape.rank;
    for (uint32_t i = 0; is_same && i < a->rank; i++)
        is_same = a->shape[i] == shape.dims[is_transposed && shape.rank == 2 ? 1 - i : i];
    return is_same;
}

/* Without a schema: whether an array of the head has another shape. */
static bool head_has_other_shape(const struct choice *c, const copse_checkpoint *file)
{
    for (size_t i = c->m->variable_count - c->head; i < c->m->variable_count; i++) {
        copse_variable *v = c->m->variables[i];
        const struct copse_array_view *a = copse_checkpoint_find(file, copse_variable_name(v));
        if (a && !has_shape(a, v, false) && !has_shape(a, v, true))
            return true;
    }
    return false;
}

static const char *find_schema(const copse_checkpoint *file)
{
    size_t count;
    const struct copse_metadata *list = copse_checkpoint_metadata(file, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].key, "schema") == 0 || strcmp(list[i].key, "application.schema") == 0)
            return list[i].value;
    return NULL;
}

static void model_weights_decide(struct choice *c, const copse_checkpoint *file)
{
    const char *text = find_schema(file);
    copse_schema *schema = NULL;
    c->is_decided = true;
    c->has_schema = text && copse_schema_parse(c->m->strategy->ctx, text, &schema) == COPSE_OK;
    struct pair p = { .file = schema, .data = c->m->schema, .data_is = c->m->is };
    if (!c->has_schema || copse_schema_describe(p.file, &p.file_is) != COPSE_OK) {
        if (head_has_other_shape(c, file))
            snprintf(c->why_head, COPSE_MODEL_WHY, "it has another shape in the file");
    } else {
        (void)outputs_differ(&p, c->why_head, COPSE_MODEL_WHY);
        (void)inputs_differ(&p, c->why_input, COPSE_MODEL_WHY);
    }
    copse_schema_release(&schema);
}

/* A copse_load_choice_fn. Another variable of the strategy is none of the model's. */
static bool model_weights_choose(void *user, const copse_checkpoint *file, const char *name)
{
    struct choice *c = user;
    const size_t count = c->m->variable_count;
    size_t i = 0;
    if (!c->is_decided)
        model_weights_decide(c, file);
    while (i < count && strcmp(copse_variable_name(c->m->variables[i]), name) != 0)
        i++;
    return i < count && !(c->why_head[0] && i >= count - c->head) &&
           !(c->why_input[0] && i < c->input) &&
           (!c->given->choose || c->given->choose(c->given->user, file, name));
}

/* ---- loading ---- */

static copse_status load_alone(copse_model *m, const char *path,
                               const struct copse_load_params *params,
                               struct copse_load_report *report)
{
    copse_strategy *st = m->strategy;
    copse_checkpoint *file = NULL;
    COPSE_TRY(copse_no_reserved(copse_load_params, params));
    COPSE_TRY(copse__require_no_replica("copse_model_load_weights", st));
    if (copse_strategy_kind_of(st) == COPSE_STRATEGY_PARAMETER_SERVER)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "weights: parameter servers have the variables: a trainer is needed");
    path = path && *path ? path : NULL;
    copse_status s = copse__state_load(st, path, copse__weights_want, &file);
    if (s == COPSE_OK)
        s = copse__state_settle(st, false,
                                copse__weights_match(&m->weights, st, m->variables,
                                                     m->variable_count, path, file, params),
                                "weights of a model");
    if (s == COPSE_OK)
        s = copse__state_settle(st, false, copse__weights_write(&m->weights), "writing weights");
    m->weights.state.path = NULL; /* the caller's */
    m->weights.state.file = NULL;
    copse_checkpoint_release(&file);
    copse__free(&st->ctx->base.mem, m->weights.state.words);
    m->weights.state.words = NULL;
    *report = m->weights.report;
    return s;
}

/* The report is borrowed from the model: the trainer may be released before it. */
static copse_status load_by_trainer(copse_model *m, copse_trainer *t, const char *path,
                                    const struct copse_load_params *params,
                                    struct copse_load_report *report)
{
    COPSE_TRY(copse_trainer_load(t, path, params, report));
    m->weights = t->uses.weights;
    t->uses.weights = (struct copse_weights){ .state.words = NULL };
    return COPSE_OK;
}

copse_status copse_model_load_weights(copse_model *m, copse_trainer *t, const char *path,
                                      const struct copse_load_params *params,
                                      struct copse_model_weights *report)
{
    static const struct copse_load_params defaults;
    struct copse_load_report load = { 0 };
    if (report)
        *report = (struct copse_model_weights){ .head = "", .input = "" };
    COPSE_TRY(copse_need("model", m));
    copse__weights_end(&m->weights);
    struct choice c = { .m = m,
                        .given = params ? params : &defaults,
                        .input = count_layer(m, false),
                        .head = count_layer(m, true),
                        .why_input = m->why_input,
                        .why_head = m->why_head };
    m->why_input[0] = m->why_head[0] = '\0';
    struct copse_load_params how = *c.given;
    how.choose = model_weights_choose;
    how.user = &c;
    copse_status s =
        t ? load_by_trainer(m, t, path, &how, &load) : load_alone(m, path, &how, &load);
    if (s == COPSE_ERR_ARGUMENT && m->why_head[0] && c.head == m->variable_count)
        return copse_fail(s, "weights: nothing of '%s' fits: %s", path ? path : "the file",
                          m->why_head);
    if (s == COPSE_OK && report)
        *report = (struct copse_model_weights){
            .load = load, .head = m->why_head, .input = m->why_input, .has_schema = c.has_schema
        };
    return s;
}
