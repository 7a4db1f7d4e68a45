/* SPDX-License-Identifier: MIT */
/* Datasets of texts: windows of an array of tokens, and the tokens after them. */
#include "copse/data/source.h"
#include "core/data/dataset/dataset.h"
#include "core/data/text/tokens.h"
#include "core/graph/type.h"

/* ---- rows ---- */

/* Row i is the `length` tokens from `offset` + i * stride on, or those before ends[i]. Where fewer
   precede ends[i], it is all of them, then zeros. */
struct text_rows {
    struct copse_row_source rows; /* first */
    copse_array *tokens;
    size_t *ends;                  /* owned; NULL: every `stride` */
    size_t *line_ends, line_count; /* owned: the tokens that end a line; of "x" */
    size_t stride, offset, length;
    bool is_widened; /* u8 tokens as i32 */
};

static size_t end_of(const struct text_rows *r, size_t row)
{
    return r->ends != NULL ? r->ends[row] : r->offset + row * r->stride + r->length;
}

static copse_status read_rows(struct copse_row_source *self, const uint32_t *rows, size_t count,
                              void *out)
{
    const struct text_rows *r = (const struct text_rows *)self;
    const size_t size = copse_type_size(r->tokens->view.type);

    for (size_t i = 0; i < count; i++) {
        const size_t end = end_of(r, rows != NULL ? rows[i] : i), used = COPSE_MIN(end, r->length);
        const uint8_t *from = (const uint8_t *)r->tokens->data + (end - used) * size;
        if (!r->is_widened) {
            char *row = (char *)out + i * r->length * size;
            memcpy(row, from, used * size);
            memset(row + used * size, 0, (r->length - used) * size);
            continue;
        }
        int32_t *to = (int32_t *)out + i * r->length;
        for (size_t k = 0; k < r->length; k++)
            to[k] = k < used ? from[k] : 0;
    }
    return COPSE_OK;
}

static void release_rows(struct copse_row_source *self)
{
    struct text_rows *r = (struct text_rows *)self;
    copse_context *ctx = copse_context_retain(r->tokens->ctx);

    copse_array_release(&r->tokens);
    copse__free(&copse__base(ctx)->mem, r->ends);
    copse__free(&copse__base(ctx)->mem, r->line_ends);
    copse__free(&copse__base(ctx)->mem, r);
    copse_context_release(&ctx);
}

static const struct copse_row_table table = { .read = read_rows, .release = release_rows };

/* Add the column `name`, and move what `from` owns to it. */
static copse_status add_column(copse_dataset *ds, const char *name, copse_type type,
                               struct text_rows *from)
{
    struct text_rows *r = copse__alloc(&copse__base(ds->ctx)->mem, 1, sizeof *r);

    if (r == NULL)
        return copse_no_memory("dataset");
    *r = *from;
    r->tokens = copse_array_retain(from->tokens);
    from->ends = from->line_ends = NULL;
    r->is_widened = type == COPSE_I32 && from->tokens->view.type == COPSE_U8;
    copse__row_source_init(&r->rows, &table);
    return copse__dataset_add_rows(ds, name, type, COPSE_SHAPE((uint32_t)from->length), &r->rows);
}

/* ---- parameters ---- */

static copse_status dataset_text_check(const struct copse_dataset_params *p,
                                       const struct copse_text_params *text)
{
    const struct copse_csv_params *csv = &p->csv;

    if ((unsigned)text->tokens >= COPSE_TOKEN_KINDS || (unsigned)text->rows > COPSE_TEXT_END)
        return copse_fail(COPSE_ERR_ARGUMENT, "text: tokens or rows out of range");
    if (text->context > INT32_MAX || text->stride > INT32_MAX)
        return copse_fail(COPSE_ERR_ARGUMENT, "text: context or stride is above 2^31-1");
    if ((text->vocabulary != 0 &&
         (text->vocabulary < 256 || text->vocabulary > COPSE_NAMED_CLASSES_MAX)) ||
        !(text->train_fraction >= 0 && text->train_fraction <= 1))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "text: a vocabulary has 256 to %u tokens, and train_fraction is 0 to 1",
                          COPSE_NAMED_CLASSES_MAX);
    if (p->schema == NULL && !copse__token_kinds[text->tokens].is_learned &&
        (text->vocabulary != 0 || text->train_fraction != 0))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "text: vocabulary and train_fraction belong to the tokens \"bpe\"");
    if (text->takes_short && text->rows == COPSE_TEXT_WINDOWS)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "text: takes_short belongs to the ends of a text or of its lines");
    if (p->labels != NULL || p->classes != 0 || p->scale != COPSE_SCALE_AUTO ||
        p->missing > COPSE_MISSING_REFUSE || p->unknown != COPSE_UNKNOWN_IGNORE ||
        p->ignore != NULL || csv->label_name != NULL || csv->label_column != 0 ||
        csv->header != COPSE_CSV_HEADER_AUTO)
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "text: labels, classes, scale, missing, ignore and csv belong to other data");
    return p->task == COPSE_TASK_AUTO || p->task == COPSE_TASK_SEQUENCE
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT, "text: the task is a sequence");
}

/* The vocabulary is learned from this beginning of the text; for other kinds of tokens it is the
   whole text. */
static struct copse_text learned_part(const struct copse_text *t,
                                      const struct copse_text_params *text)
{
    const double fraction = text->train_fraction != 0 ? (double)text->train_fraction : 0.8;
    struct copse_text part = *t;

    if (copse__token_kinds[text->tokens].is_learned && fraction < 1)
        part.size = (size_t)((double)t->size * fraction);
    return part;
}

/* The schema of a text. */
static copse_status make_schema(copse_context *ctx, const struct copse_text *t,
                                const struct copse_text_params *text, copse_schema **out)
{
    struct copse_arena arena = { .mem = &copse__base(ctx)->mem };
    struct copse_schema_parts p = { .kind = COPSE_DATA_TEXT,
                                    .task = COPSE_TASK_SEQUENCE,
                                    .input_scale = 1 };
    const struct copse_text part = learned_part(t, text);

    p.tokens = text->tokens;
    p.outputs = text->vocabulary != 0 ? text->vocabulary : COPSE_TEXT_VOCABULARY;
    p.shape = COPSE_SHAPE(text->context != 0 ? text->context : COPSE_TEXT_CONTEXT);
    p.stride = text->stride != 0 ? text->stride : p.shape.dims[0];
    copse_status s = copse__token_kinds[text->tokens].learn(&part, &arena, &p);
    p.type = copse__token_type(p.outputs);
    if (s == COPSE_OK)
        s = copse__schema_create(ctx, &p, out);
    copse__arena_fini(&arena);
    return s;
}

/* ---- datasets ---- */

static copse_status find_line_ends(struct text_rows *r, int64_t line_end)
{
    const struct copse_array_view *v = &r->tokens->view;
    struct {
        size_t *at;
        size_t count, room;
    } ends = { NULL, 0, 0 };
    bool ok = true;

    for (size_t i = 0; ok && line_end >= 0 && i < r->tokens->count; i++)
        if ((v->type == COPSE_U8 ? ((const uint8_t *)v->data)[i] : ((const int32_t *)v->data)[i]) ==
            line_end)
            ok = COPSE_PUSH(&copse__base(r->tokens->ctx)->mem, &ends, i);
    r->line_ends = ends.at;
    r->line_count = ends.count;
    return ok ? COPSE_OK : copse_no_memory("text");
}

/* The ends of windows that have `least` tokens: of each line, where the text ends the last one, or
   of the text alone. */
static copse_status find_ends(struct text_rows *r, copse_text_rows which, size_t least,
                              size_t *count)
{
    const size_t all = r->tokens->count, lines = which == COPSE_TEXT_LINES ? r->line_count : 0;
    const bool is_open = lines == 0 || r->line_ends[lines - 1] + 1 < all;

    r->ends = copse__alloc(&copse__base(r->tokens->ctx)->mem, lines + 1, sizeof *r->ends);
    if (r->ends == NULL)
        return copse_no_memory("text");
    *count = 0;
    for (size_t i = 0; i < lines; i++)
        if (r->line_ends[i] >= least)
            r->ends[(*count)++] = r->line_ends[i];
    if (is_open)
        r->ends[(*count)++] = all;
    return COPSE_OK;
}

/* Column "length": the tokens that each row has of the text. */
static copse_status add_lengths(copse_dataset *ds)
{
    const struct text_rows *r = (const struct text_rows *)ds->columns[0].values;
    struct copse_row_source *rows;
    copse_array *lengths;

    COPSE_TRY(copse__array_create(ds->ctx, COPSE_I32, 1, &ds->info.rows, NULL, &lengths));
    for (size_t i = 0; i < ds->info.rows; i++)
        ((int32_t *)lengths->data)[i] = (int32_t)COPSE_MIN(end_of(r, i), r->length);
    COPSE_TRY(copse__row_source_of_array(lengths, &rows));
    return copse__dataset_add_rows(ds, "length", COPSE_I32, COPSE_SCALAR, rows);
}

static copse_status add_columns(copse_dataset *ds, struct text_rows *r,
                                const struct copse_text_params *text)
{
    struct text_rows next = *r;

    COPSE_TRY(add_column(ds, "x", ds->schema->is.type, r));
    if (text->rows != COPSE_TEXT_WINDOWS)
        return text->takes_short ? add_lengths(ds) : COPSE_OK;
    next.offset = 1;
    next.ends = next.line_ends = NULL;
    ds->info.has_labels = true;
    ds->info.classes = ds->schema->is.outputs;
    ds->is_ordered = true;
    ds->gap = (r->length + r->stride) / r->stride - 1; /* ceil((length + 1) / stride) - 1 */
    return add_column(ds, "y", COPSE_I32, &next);
}

/* The windows of `r`, and their number. */
static copse_status place_windows(struct text_rows *r, const struct copse_text *t,
                                  const struct copse_schema_parts *p,
                                  const struct copse_text_params *text, size_t *rows)
{
    const char *noun = copse__token_kinds[p->tokens].noun;
    const size_t least = text->takes_short ? 1 : r->length, count = r->tokens->count;
    const size_t needed = least + (text->rows == COPSE_TEXT_WINDOWS);

    if (count < needed)
        return copse_fail(COPSE_ERR_SHAPE, "text: %s has %zu %s; a window of %zu%s needs %zu",
                          t->name, count, noun, r->length,
                          text->rows == COPSE_TEXT_WINDOWS ? " and the one after it" : "", needed);
    COPSE_TRY(find_line_ends(r, copse__token_kinds[p->tokens].line_end(p)));
    if (text->rows == COPSE_TEXT_WINDOWS)
        *rows = (count - needed) / r->stride + 1;
    else
        COPSE_TRY(find_ends(r, text->rows, least, rows));
    if (*rows == 0)
        return least == 1 ? copse_fail(COPSE_ERR_SHAPE, "text: %s: all lines are empty", t->name)
                          : copse_fail(COPSE_ERR_SHAPE, "text: %s: no line ends after %zu %s",
                                       t->name, least, noun);
    return *rows <= UINT32_MAX
               ? COPSE_OK
               : copse_fail(COPSE_ERR_SHAPE,
                            "text: %s has %zu windows, more than 2^32-1: take a larger stride",
                            t->name, *rows);
}

/* Count the windows with tokens that begin before byte `bytes` of the text. */
static copse_status find_learned(copse_dataset *ds, const struct text_rows *r, size_t bytes)
{
    const struct copse_array_view *v = &r->tokens->view;
    const struct copse_schema_parts *p = &ds->schema->is;
    struct copse_mem *mem = &copse__base(ds->ctx)->mem;
    uint8_t *sizes = copse__alloc(mem, p->outputs, sizeof *sizes);
    size_t token = 0;

    if (sizes == NULL)
        return copse_no_memory("text");
    for (uint32_t i = 0; i < p->outputs; i++)
        sizes[i] = (uint8_t)copse_text_token(ds->schema, i, NULL);
    for (size_t at = 0; at < bytes && token < r->tokens->count; token++)
        at += sizes[v->type == COPSE_U8 ? ((const uint8_t *)v->data)[token]
                                        : ((const int32_t *)v->data)[token]];
    copse__free(mem, sizes);
    ds->learned = (token + r->stride - 1) / r->stride;
    return COPSE_OK;
}

/* `learned`: the schema was learned from so many first bytes; 0: from the whole text. */
static copse_status dataset_text_make(const struct copse_text *t, size_t learned,
                                      copse_array *tokens, copse_schema *schema,
                                      const struct copse_text_params *text, copse_dataset **out)
{
    const struct copse_schema_parts *p = &schema->is;
    struct copse_mem *mem = &copse__base(tokens->ctx)->mem;
    struct text_rows r = { .tokens = tokens,
                           .stride = text->stride != 0 ? text->stride : p->stride,
                           .length = p->shape.dims[0] };
    size_t rows = 0;

    copse_status s = place_windows(&r, t, p, text, &rows);
    if (s == COPSE_OK)
        s = copse__dataset_new(tokens->ctx, rows, out);
    if (s == COPSE_OK) {
        (*out)->schema = copse_schema_retain(schema);
        (*out)->info.rank = 1;
        (*out)->info.shape[0] = (*out)->info.row_size = r.length;
        s = learned > 0 ? find_learned(*out, &r, learned) : COPSE_OK;
        s = s == COPSE_OK ? add_columns(*out, &r, text) : s;
    }
    copse__free(mem, r.ends); /* where no column has taken them over */
    copse__free(mem, r.line_ends);
    return s;
}

copse_status copse__dataset_text(copse_context *ctx, struct copse_text *t,
                                 const struct copse_dataset_params *p, copse_dataset **out)
{
    static const struct copse_text_params defaults = { .context = 0 };
    const struct copse_text_params *text =
        p->source != NULL && p->source->text != NULL ? p->source->text : &defaults;
    copse_schema *schema = copse_schema_retain((copse_schema *)(uintptr_t)p->schema);
    copse_array *tokens = NULL;
    copse_status s = dataset_text_check(p, text);
    size_t learned = 0;

    *out = NULL;
    if (s == COPSE_OK && schema != NULL && schema->is.kind != COPSE_DATA_TEXT)
        s = copse_fail(COPSE_ERR_SHAPE,
                       "text: %s is read as a text, and the model was not trained on one", t->name);
    if (s == COPSE_OK && schema == NULL) {
        learned = learned_part(t, text).size;
        learned = learned < t->size ? learned : 0;
        s = make_schema(ctx, t, text, &schema);
    }
    if (s == COPSE_OK)
        s = copse__token_kinds[schema->is.tokens].encode(ctx, t, &schema->is, &tokens);
    if (s == COPSE_OK)
        s = dataset_text_make(t, learned, tokens, schema, text, out);
    if (s != COPSE_OK)
        copse_dataset_release(out);
    copse_array_release(&tokens);
    copse_schema_release(&schema);
    return s;
}

copse_status copse_text_create(copse_context *ctx, const char *text, size_t size,
                               const struct copse_dataset_params *params, copse_dataset **out)
{
    static const struct copse_dataset_params defaults = { .labels = NULL };
    struct copse_text t = { .name = "the text", .size = size };

    COPSE_TRY(copse_need("text", ctx, text, out));
    *out = NULL;
    COPSE_TRY(copse__dataset_no_reserved(params));
    t.bytes = copse__alloc(&copse__base(ctx)->mem, COPSE_MAX(size, (size_t)1), 1);
    if (t.bytes == NULL)
        return copse_no_memory("text");
    memcpy(t.bytes, text, size);
    copse_status s = copse__dataset_text(ctx, &t, params != NULL ? params : &defaults, out);
    copse__text_fini(ctx, &t);
    return s;
}

/* ---- questions ---- */

copse_status copse_text_describe(const copse_schema *schema, struct copse_text_info *out)
{
    COPSE_TRY(copse_need("text", schema, out));
    *out = (struct copse_text_info){ .context = 0 };
    if (schema->is.kind != COPSE_DATA_TEXT)
        return copse_fail(COPSE_ERR_ARGUMENT, "text: the schema is not of a text");
    *out = (struct copse_text_info){ .tokens = schema->is.tokens,
                                     .context = schema->is.shape.dims[0],
                                     .stride = schema->is.stride,
                                     .vocabulary = schema->is.outputs,
                                     .unseen = schema->is.unseen_count,
                                     .knows_unseen = schema->is.knows_unseen };
    return COPSE_OK;
}

size_t copse_text_token(const copse_schema *schema, uint32_t token, char *bytes)
{
    char text[COPSE_TOKEN_BYTES];

    if (schema == NULL || schema->is.kind != COPSE_DATA_TEXT || token >= schema->is.outputs)
        return 0;
    return copse__token_kinds[schema->is.tokens].text(&schema->is, token,
                                                      bytes != NULL ? bytes : text);
}

copse_status copse_text_place(const copse_dataset *data, size_t row, uint64_t *line,
                              uint64_t *column)
{
    COPSE_TRY(copse_need("text", data));
    if (data->schema == NULL || data->schema->is.kind != COPSE_DATA_TEXT || row >= data->info.rows)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "text: the dataset is not of a text, or has no row %zu", row);
    const struct text_rows *r = (const struct text_rows *)data->columns[0].values;
    const size_t at = end_of(r, data->rows != NULL ? data->rows[row] : row);
    size_t before = 0, end = r->line_count; /* lines that end before `at` */
    while (before < end) {
        const size_t middle = before + (end - before) / 2;
        if (r->line_ends[middle] < at)
            before = middle + 1;
        else
            end = middle;
    }
    if (line != NULL)
        *line = before + 1;
    if (column != NULL)
        *column = before > 0 ? at - r->line_ends[before - 1] : at + 1;
    return COPSE_OK;
}
