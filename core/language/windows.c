/* SPDX-License-Identifier: MIT */
/* Windows of texts: datasets of tokens and the tokens after them, and how well a language model
   predicts these. */
#include <math.h>

#include "core/language/adapter.h"

/* ---- datasets ---- */

/* Windows of `count` tokens that begin at each `stride`-th one. */
static copse_status windows_make(const copse_language *l, const struct copse_tokens *tokens,
                                 uint32_t count, uint32_t stride, copse_dataset **out)
{
    struct copse_mem *mem = l->arena.mem;
    const size_t rows = (tokens->count - 2) / stride + 1;
    int32_t *x = copse__alloc(mem, rows * count, 2 * sizeof *x), *y = x ? x + rows * count : NULL;
    COPSE_TRY(copse_need_memory(x, "language"));
    for (size_t row = 0; row < rows; row++)
        for (uint32_t i = 0; i < count; i++) {
            const size_t at = row * stride + i;
            const bool is_there = at + 1 < tokens->count;
            x[row * count + i] = is_there ? tokens->at[at] : 0;
            y[row * count + i] = is_there ? tokens->at[at + 1] : COPSE_LANGUAGE_NO_TOKEN;
        }
    const struct copse_column columns[] = { { "x", COPSE_I32, COPSE_SHAPE(count), x },
                                            { "y", COPSE_I32, COPSE_SHAPE(count), y } };
    const copse_status s = copse_dataset_columns(l->strategy->ctx, columns, 2, rows, out);
    copse__free(mem, x);
    return s;
}

static copse_status windows_of_text(copse_language *l, const char *text, size_t size,
                                    uint32_t count, uint32_t stride, copse_dataset **out)
{
    struct copse_tokens tokens = { .count = 0 };
    copse_status s = copse__language_encode(l, text, size, &tokens);
    if (s == COPSE_OK && tokens.count < 2)
        s = copse_fail(COPSE_ERR_ARGUMENT,
                       "language: the text has %zu tokens; the first that can be predicted is the "
                       "second",
                       tokens.count);
    if (s == COPSE_OK)
        s = windows_make(l, &tokens, count, stride, out);
    copse__free(l->arena.mem, tokens.at);
    return s;
}

copse_status copse_language_windows(copse_language *language, const char *text, size_t size,
                                    uint32_t window, copse_dataset **out)
{
    COPSE_TRY(copse_need("language", out));
    *out = NULL;
    COPSE_TRY(copse_need("language", language, text));
    COPSE_TRY(copse__require_no_replica("copse_language_windows", language->strategy));
    if (window == 0)
        window = COPSE_MIN(copse__language_most(language), 512u);
    COPSE_TRY(copse__language_check_window(language, window));
    return windows_of_text(language, text, size, window, window, out);
}

/* ---- measuring ---- */

struct measuring {
    copse_language *l;
    const copse_dataset *data;
    uint32_t window, at_once; /* tokens of a window; windows */
    int32_t *x, *y;
    float *losses;
    double loss;
    uint64_t count, bytes;
};

/* So many windows from this row on. */
static copse_status measure_rows(struct measuring *m, uint32_t first, uint32_t count)
{
    copse_language *l = m->l;
    uint32_t rows[COPSE_MAX_REPLICAS];
    struct copse_shard shards[COPSE_MAX_REPLICAS];
    const copse_shape shape = COPSE_SHAPE(m->window);
    const struct copse_host_batch batch = { COPSE_COLUMNS({ "x", COPSE_I32, shape, m->x },
                                                          { "y", COPSE_I32, shape, m->y }),
                                            .count = count };
    const size_t tokens = (size_t)count * m->window;
    for (uint32_t i = 0; i < count; i++)
        rows[i] = first + i;
    COPSE_TRY(copse_dataset_gather(m->data, "x", rows, count, m->x));
    COPSE_TRY(copse_dataset_gather(m->data, "y", rows, count, m->y));
    COPSE_TRY(copse__shard(COPSE_SHARD_BALANCED, count, count, l->strategy->replica_count, shards));
    l->predictor.fn = copse__language_losses;
    l->predictor.user = l;
    COPSE_TRY(copse__predict(&l->predictor, &batch, shards, m->losses, tokens * sizeof *m->losses));
    for (size_t i = 0; i < tokens; i++) {
        if (m->y[i] == COPSE_LANGUAGE_NO_TOKEN)
            continue;
        m->loss += (double)m->losses[i];
        m->count++;
        if (m->y[i] >= 0 && (uint32_t)m->y[i] < l->tokenizer.count)
            m->bytes += l->tokenizer.tokens[m->y[i]].size;
    }
    return COPSE_OK;
}

static copse_status measure_all(struct measuring *m, uint32_t rows)
{
    struct copse_mem *mem = m->l->arena.mem;
    const size_t tokens = (size_t)m->at_once * m->window;
    m->x = copse__alloc(mem, tokens, sizeof *m->x);
    m->y = copse__alloc(mem, tokens, sizeof *m->y);
    m->losses = copse__alloc(mem, tokens, sizeof *m->losses);
    COPSE_TRY(copse_need_memory(m->x && m->y && m->losses, "language"));
    for (uint32_t at = 0; at < rows; at += m->at_once)
        COPSE_TRY(measure_rows(m, at, COPSE_MIN(rows - at, m->at_once)));
    return m->count > 0
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT, "language: no token of the windows is predicted");
}

/* The columns, which must have windows of one size. */
static copse_status measure_columns(struct measuring *m)
{
    struct copse_dataset_info info;
    struct copse_column column;
    bool has[2] = { false, false };
    copse_dataset_describe(m->data, &info);
    for (size_t i = 0; i < info.columns; i++) {
        COPSE_TRY(copse_dataset_column(m->data, i, &column));
        const bool is_x = strcmp(column.name, "x") == 0, is_y = strcmp(column.name, "y") == 0;
        if ((!is_x && !is_y) || column.type != COPSE_I32 || column.shape.rank != 1)
            continue;
        if (m->window > 0 && m->window != column.shape.dims[0])
            return copse_fail(COPSE_ERR_SHAPE,
                              "language: columns \"x\" and \"y\" have windows of %u and %u tokens",
                              m->window, column.shape.dims[0]);
        m->window = column.shape.dims[0];
        has[is_y] = true;
    }
    return has[0] && has[1] ? copse__language_check_window(m->l, m->window)
                            : copse_fail(COPSE_ERR_ARGUMENT,
                                         "language: the dataset lacks a column \"x\" or \"y\" of "
                                         "i32 windows: make it with copse_language_windows");
}

copse_status copse_language_evaluate_windows(copse_language *language, const copse_dataset *windows,
                                             struct copse_language_evaluation *out)
{
    struct measuring m = { .l = language, .data = windows };
    struct copse_dataset_info info;
    COPSE_TRY(copse_need("language", language, windows, out));
    COPSE_TRY(copse__require_no_replica("copse_language_evaluate_windows", language->strategy));
    *out = (struct copse_language_evaluation){ .tokens = 0 };
    m.at_once = language->strategy->replica_count;
    copse_dataset_describe(windows, &info);
    COPSE_TRY(measure_columns(&m));
    const copse_status s = measure_all(&m, (uint32_t)info.rows);
    if (s == COPSE_OK) {
        out->tokens = m.count;
        out->loss = m.loss / (double)m.count;
        out->bits_per_byte = m.bytes > 0 ? m.loss / log(2.0) / (double)m.bytes : 0.0;
    }
    copse__free(language->arena.mem, m.x);
    copse__free(language->arena.mem, m.y);
    copse__free_read(language->arena.mem, m.losses, s);
    return s;
}

copse_status copse_language_evaluate(copse_language *language, const char *text, size_t size,
                                     uint32_t window, struct copse_language_evaluation *out)
{
    copse_dataset *windows = NULL;
    COPSE_TRY(copse_need("language", language, text, out));
    COPSE_TRY(copse__require_no_replica("copse_language_evaluate", language->strategy));
    *out = (struct copse_language_evaluation){ .tokens = 0 };
    /* the last token of a window is predicted only, and no query */
    const uint32_t most = COPSE_MIN(language->is.context, copse__language_most(language) + 1);
    if (window == 0)
        window = COPSE_MIN(most, 512u);
    if (window < 2 || window > most)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "language: a window of %u tokens; 2 to %u are allowed", window, most);
    COPSE_TRY(windows_of_text(language, text, size, window - 1, window, &windows));
    const copse_status s = copse_language_evaluate_windows(language, windows, out);
    copse_dataset_release(&windows);
    return s;
}
