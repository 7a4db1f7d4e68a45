/* SPDX-License-Identifier: MIT */
/* The lines of a table as they are, for output with predictions after them. */
#include "tools/predict/keep_columns.h"

#include <stdio.h>
#include <string.h>

#include "copse/data/readers.h"

struct line {
    const char *at;
    size_t size;
};

/* The next line that is not blank, as the reader of tables counts them; false: there is none. */
static bool next_line(struct kept_columns *k, struct line *out)
{
    const struct copse_array_view *v = copse_array_view(k->text);
    const char *bytes = v->data;
    const size_t all = v->shape[0];
    while (k->at < all) {
        const char *const start = bytes + k->at, *end = memchr(start, '\n', all - k->at);
        size_t size = end ? (size_t)(end - start) : all - k->at, blanks = 0;
        k->at += size + (end != NULL);
        while (size > 0 && start[size - 1] == '\r')
            size--;
        while (blanks < size && start[blanks] != k->delimiter &&
               (start[blanks] == ' ' || start[blanks] == '\t'))
            blanks++;
        *out = (struct line){ start, size };
        if (blanks < size)
            return true;
    }
    return false;
}

/* The first of these that is outside of quotes, as the reader finds it. */
static char delimiter_of(const struct line *line)
{
    static const char all[] = ",;\t|";
    bool is_found[sizeof all] = { false }, is_quoted = false, is_start = true;
    for (size_t i = 0; i < line->size; i++) {
        const char *d = strchr(all, line->at[i]);
        if (line->at[i] == '"' && (is_quoted || is_start)) {
            is_quoted = !is_quoted;
        } else if (!is_quoted) {
            if (d)
                is_found[d - all] = true;
            is_start = d || (is_start && line->at[i] == ' ');
        }
    }
    for (size_t i = 0; all[i]; i++)
        if (is_found[i])
            return all[i];
    return ',';
}

copse_status keep_columns_open(struct kept_columns *k, const struct use *u)
{
    struct line line;
    size_t lines = 1;
    *k = (struct kept_columns){ .text = NULL };
    if (u->info.kind != COPSE_DATA_TABLE)
        return session_set_error(COPSE_ERR_ARGUMENT, "--keep-columns is for tables");
    COPSE_TRY(copse_read_text(u->ctx, u->data_path, NULL, &k->text));
    if (next_line(k, &line))
        k->delimiter = delimiter_of(&line);
    while (next_line(k, &line))
        lines++;
    k->at = 0;
    k->has_header = lines == u->rows.rows + 1;
    return lines == u->rows.rows || k->has_header
               ? COPSE_OK
               : session_set_error(COPSE_ERR_IO, "%s changed while it was read", u->data_path);
}

void keep_columns_write(FILE *to, struct kept_columns *k)
{
    struct line line;
    if (!next_line(k, &line))
        return;
    fwrite(line.at, 1, line.size, to);
    fputc(k->delimiter, to);
}

static bool line_contains(const struct line *line, const char *text)
{
    const size_t n = strlen(text);
    for (size_t i = 0; i + n <= line->size; i++)
        if (memcmp(line->at + i, text, n) == 0)
            return true;
    return false;
}

const char *keep_columns_prefix(const struct kept_columns *k)
{
    static char prefix[32];
    struct kept_columns first = { .text = k->text, .delimiter = k->delimiter };
    struct line line;
    snprintf(prefix, sizeof prefix, "predicted_");
    if (k->has_header && next_line(&first, &line))
        for (unsigned n = 2; line_contains(&line, prefix); n++)
            snprintf(prefix, sizeof prefix, "predicted_%u_", n);
    return prefix;
}

void keep_columns_end(struct kept_columns *k)
{
    copse_array_release(&k->text);
}
