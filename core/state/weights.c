/* SPDX-License-Identifier: MIT */
/* Weights from a file: see weights.h. */
#include "core/state/weights.h"

#include <math.h>
#include <stdio.h>

#include "core/data/array.h"

/* ---- one array ---- */

/* What an array becomes: an array of this type and shape. */
struct target {
    const char *name;
    struct copse_array_view like;
    bool is_trained, is_transposed;
};

static bool is_float(copse_type type)
{
    return type == COPSE_F32 || type == COPSE_F64 || type == COPSE_F16 || type == COPSE_BF16;
}

static copse_status check_type(const char *path, const struct target *t,
                               const struct copse_array_view *a, bool is_exact)
{
    if (a->type == t->like.type || (!is_exact && is_float(a->type) && is_float(t->like.type)))
        return COPSE_OK;
    return copse_fail(COPSE_ERR_SHAPE, "weights: %s: '%s' is %s, the variable is %s; %s", path,
                      t->name, copse_type_name(a->type), copse_type_name(t->like.type),
                      is_float(a->type) && is_float(t->like.type)
                          ? "only the same type is accepted"
                          : "only f64, f16 and bf16 are converted, to f32");
}

static bool has_shape(const struct copse_array_view *a, const struct copse_array_view *like,
                      bool is_transposed)
{
    bool is_same = a->rank == like->rank;
    for (uint32_t i = 0; is_same && i < a->rank; i++)
        is_same = a->shape[i] == like->shape[is_transposed ? a->rank - 1 - i : i];
    return is_same;
}

static copse_status check_shape(const char *path, const struct target *t,
                                const struct copse_array_view *a)
{
    char theirs[160], ours[160];
    if (has_shape(a, &t->like, t->is_transposed))
        return COPSE_OK;
    copse__array_describe(a, theirs);
    copse__array_describe(&t->like, ours);
    return copse_fail(COPSE_ERR_SHAPE, "weights: %s: '%s' is %s, the variable is %s%s%s", path,
                      t->name, theirs, ours,
                      t->is_transposed ? ", and its matrices are to be transposed" : "",
                      a->rank == 2 && has_shape(a, &t->like, !t->is_transposed)
                          ? t->is_transposed ? "; without that it would fit"
                                             : "; transposed it would fit: is it PyTorch's layout?"
                          : "");
}

/* `to`: 4 bytes per element. */
static copse_status weights_convert(const char *path, const struct target *t,
                                    const struct copse_array_view *a, void *to)
{
    const size_t rows = t->is_transposed ? t->like.shape[0] : 1;
    size_t count, bytes;
    copse__shape_size(a->rank, a->shape, 4, &count, &bytes);
    if (t->like.type != COPSE_F32) {
        memcpy(to, a->data, bytes);
        return COPSE_OK;
    }
    const size_t columns = count / rows;
    /* element [row, column] of the variable is [column, row] of the file */
    for (size_t i = 0; i < count; i++) {
        const size_t from = t->is_transposed ? i % columns * rows + i / columns : i;
        const float value = (float)copse__type_load(a->type, a->data, from);
        if (!isfinite(value) && t->is_trained)
            return copse_fail(COPSE_ERR_NONFINITE, "weights: %s: '%s' is %s at element %zu%s", path,
                              t->name, isnan(value) ? "NaN" : "infinite", from,
                              isfinite(copse__type_load(a->type, a->data, from)) ? " as an f32"
                                                                                 : "");
        memcpy((char *)to + 4 * i, &value, 4);
    }
    return COPSE_OK;
}

/* ---- the layout ---- */

/* A part of the name begins with "embedding": PyTorch has such a matrix in the same layout. */
static bool is_embedding(const char *name)
{
    static const char word[] = "embedding";
    for (const char *c = name; *c; c++)
        if ((c == name || c[-1] == '/' || c[-1] == '.') && strncmp(c, word, sizeof word - 1) == 0)
            return true;
    return false;
}

static copse_status check_layout(const struct copse_state *s, const struct target *t,
                                 const struct copse_load_params *p)
{
    const char *format = copse__state_line(s, "format");
    if (p->layout != COPSE_LAYOUT_AUTO || t->like.rank != 2 || is_embedding(t->name) || !format ||
        strcmp(format, "pt") != 0)
        return COPSE_OK;
    return copse_fail(COPSE_ERR_ARGUMENT,
                      "weights: %s: its metadata has \"format\": \"pt\", so '%s' may be [outputs, "
                      "inputs] as in PyTorch; say which layout it has",
                      s->path, t->name);
}

/* ---- all arrays ---- */

/* A list of names in the arena of the state, with room for `most`. */
static copse_status add_name(struct copse_state *s, const char *const **list, size_t *count,
                             size_t most, const char *name)
{
    if (!*list)
        *list = copse__arena_alloc(&s->arena, most, sizeof **list);
    char *copy = copse__arena_strdup(&s->arena, name);
    if (!*list || !copy)
        return copse_no_memory("weights");
    ((const char **)(uintptr_t)*list)[(*count)++] = copy;
    return COPSE_OK;
}

static copse_status weights_take(struct copse_weights *w, const struct copse_array_view *a,
                                 const struct target *t, const struct copse_load_params *p,
                                 void *to)
{
    struct copse_state *s = &w->state;
    COPSE_TRY(check_layout(s, t, p));
    COPSE_TRY(check_type(s->path, t, a, p->is_exact));
    COPSE_TRY(check_shape(s->path, t, a));
    COPSE_TRY(weights_convert(s->path, t, a, to));
    w->report.converted += a->type != t->like.type;
    return add_name(s, &w->report.matched, &w->report.matched_count, s->entries.count, t->name);
}

/* Entry i: a variable; or parts of one that follow in the list, or, as in older files, a single
   part. `to`: memory for their values. *count: entries that are done. */
static copse_status match_entry(struct copse_weights *w, size_t i,
                                const struct copse_load_params *p, char *to, size_t *count)
{
    struct copse_state *s = &w->state;
    struct copse_state_entry *e = &s->entries.at[i];
    struct target t = { .name = e->name, .is_trained = e->variable->is_trained };
    *count = copse__state_whole(s, i, &t.like);
    const struct copse_array_view *a = copse_checkpoint_find(s->file, e->name);
    if (!a && e->part_name) {
        t.name = e->part_name;
        t.like = e->view;
        *count = 1;
        a = copse_checkpoint_find(s->file, e->part_name);
    }
    t.is_transposed = p->layout == COPSE_LAYOUT_TORCH && t.like.rank == 2 && !is_embedding(t.name);
    if (!a)
        return add_name(s, &w->report.missing, &w->report.missing_count, s->entries.count, t.name);
    if (p->choose && !p->choose(p->user, s->file, t.name))
        return add_name(s, &w->report.skipped, &w->report.skipped_count, s->entries.count, t.name);
    COPSE_TRY(weights_take(w, a, &t, p, to));
    for (size_t k = 0; k < *count; k++) {
        e[k].view.data = to;
        to += 4 * e[k].variable->count;
    }
    return COPSE_OK;
}

/* Of a checkpoint, and no weights: data of the application, slots. */
static bool is_other_state(const struct copse_state *s, const char *name)
{
    if (strncmp(name, COPSE_APPLICATION_ARRAY, strlen(COPSE_APPLICATION_ARRAY)) == 0)
        return true;
    for (size_t i = 0; i < s->entries.count; i++) {
        const size_t n = strlen(s->entries.at[i].name);
        if (strncmp(name, s->entries.at[i].name, n) == 0 && name[n] == '/')
            return true;
    }
    return false;
}

static bool is_variable(const struct copse_state *s, const char *name)
{
    for (size_t i = 0; i < s->entries.count; i++) {
        const struct copse_state_entry *e = &s->entries.at[i];
        if (strcmp(e->name, name) == 0 || (e->part_name && strcmp(e->part_name, name) == 0))
            return true;
    }
    return false;
}

static copse_status list_unused(struct copse_weights *w)
{
    struct copse_state *s = &w->state;
    size_t count;
    const struct copse_named_array *list = copse_checkpoint_arrays(s->file, &count);
    for (size_t i = 0; i < count; i++)
        if (!is_variable(s, list[i].name) && !is_other_state(s, list[i].name))
            COPSE_TRY(add_name(s, &w->report.unused, &w->report.unused_count, count, list[i].name));
    return COPSE_OK;
}

static copse_status check_report(const struct copse_weights *w, const struct copse_load_params *p)
{
    const struct copse_load_report *r = &w->report;
    if (r->matched_count == 0 && r->skipped_count > 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "weights: %s has nothing to take: '%.100s'%s left out", w->state.path,
                          r->skipped[0], r->skipped_count > 1 ? " and others are" : " is");
    if (r->matched_count == 0)
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "weights: %s has no array with the name of a variable: it has %s%.100s%s, the "
            "variables are '%.100s'%s",
            w->state.path, r->unused_count ? "'" : "", r->unused_count ? r->unused[0] : "none",
            r->unused_count > 1 ? "', ..."
            : r->unused_count   ? "'"
                                : "",
            r->missing_count ? r->missing[0] : "", r->missing_count > 1 ? ", ..." : "");
    if (p->needs_all && r->missing_count > 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "weights: %s lacks '%.100s'%s", w->state.path,
                          r->missing[0], r->missing_count > 1 ? " and others" : "");
    return COPSE_OK;
}

bool copse__weights_want(const copse_strategy *st, const struct copse_named_array *array)
{
    uint64_t elements = 1;
    for (uint32_t i = 0; i < array->array.rank; i++)
        elements *= array->array.shape[i];
    for (size_t i = 0; i < st->variables.count; i++) {
        const copse_variable *v = st->variables.at[i];
        if ((strcmp(v->name, array->name) == 0 && elements == v->count) ||
            (v->whole && strcmp(v->whole->name, array->name) == 0))
            return true;
    }
    return false;
}

/* The names of the file in place of the variables'. */
static copse_status rename_entries(struct copse_weights *w)
{
    struct copse_state *s = &w->state;
    const size_t here = strlen(w->scope), there = strlen(w->scope_in_file);
    for (size_t i = 0; i < s->entries.count; i++) {
        const char *rest = s->entries.at[i].name + (here > 0 ? here + 1 : 0);
        const size_t room = there + 1 + strlen(rest) + 1;
        char *name = copse__arena_alloc(&s->arena, room, 1);
        if (!name)
            return copse_no_memory("weights");
        snprintf(name, room, "%s%s%s", w->scope_in_file, there > 0 ? "/" : "", rest);
        s->entries.at[i].name = name;
    }
    return COPSE_OK;
}

copse_status copse__weights_match(struct copse_weights *w, copse_strategy *st,
                                  copse_variable *const *list, size_t count, const char *path,
                                  const copse_checkpoint *file,
                                  const struct copse_load_params *params)
{
    static const struct copse_load_params defaults;
    const struct copse_load_params *p = params ? params : &defaults;
    struct copse_state *s = &w->state;
    size_t elements = 0;
    if ((int)p->layout < 0 || p->layout > COPSE_LAYOUT_TORCH)
        return copse_fail(COPSE_ERR_ARGUMENT, "weights: there is no layout %d", (int)p->layout);
    copse__state_begin(s, st, 0);
    s->path = path ? path : "of the first worker";
    s->file = file;
    COPSE_TRY(list ? copse__state_add_list(s, list, count) : copse__state_add_variables(s));
    if (w->scope && strcmp(w->scope, w->scope_in_file) != 0)
        COPSE_TRY(rename_entries(w));
    for (size_t i = 0; i < s->entries.count; i++)
        if (!copse__add(elements, (size_t)s->entries.at[i].variable->count, &elements))
            return copse_no_memory("weights");
    s->words = copse__alloc(&st->ctx->base.mem, elements, 4);
    if (!s->words)
        return copse_no_memory("weights");
    char *to = s->words;
    for (size_t i = 0; i < s->entries.count; i += count) {
        COPSE_TRY(match_entry(w, i, p, to, &count));
        for (size_t k = 0; k < count; k++)
            to += 4 * s->entries.at[i + k].variable->count;
    }
    COPSE_TRY(list_unused(w));
    return check_report(w, p);
}

copse_status copse__weights_write(struct copse_weights *w)
{
    const struct copse_state *s = &w->state;
    /* running work reads the old values */
    for (uint32_t r = 0; r < s->strategy->replica_count; r++)
        COPSE_TRY(copse_queue_finish(s->strategy->replicas[r].queue));
    for (size_t i = 0; i < s->entries.count; i++) {
        const struct copse_state_entry *e = &s->entries.at[i];
        if (e->view.data)
            COPSE_TRY(copse_note(copse__state_write_variable(e->variable, e->view.data),
                                 "while writing '%s'", e->name));
    }
    return COPSE_OK;
}

void copse__weights_end(struct copse_weights *w)
{
    copse__state_end(&w->state);
    *w = (struct copse_weights){ .state.words = NULL };
}
