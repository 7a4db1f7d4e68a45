/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/copse.h"
#include "copse/data/readers.h"

#include "examples/apps/common/app_files.h"
#include "texts.h"

enum {
    MOST_BYTES = 64 << 20,   /* of all texts */
    MOST_HELD_OUT = 64 << 10 /* bytes */
};

/* A file. */
struct text {
    char *bytes; /* NULL: it is no text */
    size_t size;
};

/* `why`: what is wrong with the first file that is no text. */
static bool read_file(copse_context *ctx, const char *path, struct text *out, struct texts *all,
                      char *why, size_t room)
{
    const struct copse_read_params params = { .max_bytes = MOST_BYTES };
    copse_array *bytes = NULL;
    if (copse_read_text(ctx, path, &params, &bytes)) {
        if (all->left_out++ == 0)
            snprintf(why, room, "%s", copse_last_error());
        return true;
    }
    const struct copse_array_view *v = copse_array_view(bytes);
    out->size = v->shape[0];
    out->bytes = malloc(out->size + 1);
    if (out->bytes)
        memcpy(out->bytes, v->data, out->size);
    copse_array_release(&bytes);
    all->files++;
    return out->bytes || files_no_memory();
}

/* Where the held-out lines begin; at the end of a text of one line. */
static size_t cut_text(const struct text *t, double part)
{
    size_t end = t->size, line = 0;
    const size_t cut = t->size - (size_t)((double)t->size * part);
    while (end > 0 && strchr(" \t\r\n", t->bytes[end - 1]))
        end--;
    for (size_t i = 0; i < end && (line == 0 || line < cut); i++)
        if (t->bytes[i] == '\n')
            line = i + 1;
    return line > 0 ? line : t->size;
}

static void append_text(char *to, size_t *size, const char *bytes, size_t count)
{
    if (count == 0)
        return;
    memcpy(to + *size, bytes, count);
    *size += count;
    if (to[*size - 1] != '\n')
        to[(*size)++] = '\n';
    to[(*size)++] = '\n';
}

static bool join_texts(const char *folder, const struct text *all, size_t count, double part,
                       struct texts *out)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += all[i].size;
    if (total > MOST_BYTES)
        return files_refuse(folder, "its texts have more than 64 MiB; name a folder in it");
    if ((double)total * part > MOST_HELD_OUT)
        part = MOST_HELD_OUT / (double)total;
    out->training = malloc(total + 2 * count + 1);
    out->held_out = malloc(total + 2 * count + 1);
    if (!out->training || !out->held_out)
        return files_no_memory();
    for (size_t i = 0; i < count; i++) {
        const size_t cut = all[i].bytes ? cut_text(&all[i], part) : 0;
        append_text(out->training, &out->training_size, all[i].bytes, cut);
        append_text(out->held_out, &out->held_out_size, all[i].bytes + cut, all[i].size - cut);
    }
    return out->held_out_size > 0 ||
           files_refuse(folder, "no line can be held out: its texts are empty or one line long");
}

static bool read_files(copse_context *ctx, const char *folder, const struct files *f, double part,
                       struct texts *out)
{
    struct text *all = calloc(f->count + 1, sizeof *all);
    char why[512] = "";
    bool is_done = all || files_no_memory();
    for (size_t i = 0; is_done && i < f->count; i++)
        is_done = read_file(ctx, f->at[i], &all[i], out, why, sizeof why);
    if (is_done && out->files == 0) {
        fprintf(stderr, "%s: %s: has no text%s%s\n", program_name, folder, *why ? ": " : "", why);
        is_done = false;
    } else if (is_done && out->left_out + f->left_out > 0) {
        fprintf(stderr, "%s: %s: %zu of %zu files are left out: %s\n", program_name, folder,
                out->left_out + f->left_out, f->count + f->left_out,
                *why ? why : "links are not followed");
    }
    is_done = is_done && join_texts(folder, all, f->count, part, out);
    for (size_t i = 0; all && i < f->count; i++)
        free(all[i].bytes);
    free(all);
    return is_done;
}

bool texts_read(copse_context *ctx, const char *folder, double part, struct texts *out)
{
    struct files f;
    *out = (struct texts){ .files = 0 };
    const bool is_done = files_list(folder, &f) && read_files(ctx, folder, &f, part, out);
    files_free(&f);
    return is_done;
}

void texts_free(struct texts *t)
{
    free(t->training);
    free(t->held_out);
}
