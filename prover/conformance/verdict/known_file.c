/* SPDX-License-Identifier: MIT */
/* A file of known failures: one in each line, three fields separated by '|': the device or driver,
   the case as MODE/OP/CASE, the reason. Patterns may contain '*'. Empty lines and lines that begin
   with '#' are skipped. */
#include "core/base/files.h"
#include "prover/conformance/verdict/conformance.h"

enum { MOST = 1 << 20 }; /* bytes */

/* Without blanks at both ends. */
static char *known_file_trim(char *text)
{
    text += strspn(text, " \t");
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t\r", text[n - 1]))
        text[--n] = '\0';
    return text;
}

/* Cut `text` at a character; the rest, or NULL. */
static char *known_file_cut(char *text, char at)
{
    char *rest = strchr(text, at);
    if (rest)
        *rest++ = '\0';
    return rest;
}

static copse_status read_line(char *line, const char *path, size_t number, struct copse_known *out)
{
    char *device = line, *mode = known_file_cut(device, '|'),
         *reason = mode ? known_file_cut(mode, '|') : NULL;
    if (!reason || strchr(reason, '|'))
        return copse_fail(COPSE_ERR_FORMAT,
                          "known failures '%s', line %zu: three fields are needed: "
                          "DEVICE | MODE/OP/CASE | REASON",
                          path, number);
    device = known_file_trim(device);
    mode = known_file_trim(mode);
    reason = known_file_trim(reason);
    char *op = known_file_cut(mode, '/'), *name = op ? known_file_cut(op, '/') : NULL;
    if (!name || !*mode || !*op || !*name)
        return copse_fail(COPSE_ERR_FORMAT,
                          "known failures '%s', line %zu: '%.80s' is no case: MODE/OP/CASE, each a "
                          "pattern such as '*'",
                          path, number, mode);
    if (!*device || !*reason)
        return copse_fail(COPSE_ERR_FORMAT, "known failures '%s', line %zu: the %s is empty", path,
                          number, *device ? "reason" : "device");
    *out = (struct copse_known){ .op = op,
                                 .name = name,
                                 .device = device,
                                 .from = "",
                                 .to = "",
                                 .reason = reason,
                                 .mode = mode };
    return COPSE_OK;
}

static copse_status read_lines(const char *path, size_t size, struct copse_known_file *f)
{
    size_t number = 0, count = 0;
    if (memchr(f->text, '\0', size))
        return copse_fail(COPSE_ERR_FORMAT, "known failures '%s': not a text", path);
    for (char *line = f->text, *next; line; line = next) {
        next = known_file_cut(line, '\n');
        number++;
        line = known_file_trim(line);
        if (*line && *line != '#')
            COPSE_TRY(read_line(line, path, number, &f->rows[count++]));
    }
    return COPSE_OK;
}

copse_status copse__known_file_read(struct copse_mem *mem, const char *path,
                                    struct copse_known_file *out)
{
    FILE *file = NULL;
    uint64_t size = 0;
    size_t lines = 1;
    *out = (struct copse_known_file){ 0 };
    COPSE_TRY(copse__file_open(path, &file, &size));
    copse_status s = COPSE_OK;
    if (size > MOST)
        s = copse_fail(COPSE_ERR_FORMAT, "known failures '%s': more than %d bytes", path, MOST);
    else if (!(out->text = copse__alloc(mem, (size_t)size + 1, 1)))
        s = copse_no_memory("known failures '%s'", path);
    else if (fread(out->text, 1, (size_t)size, file) != (size_t)size)
        s = copse_fail(COPSE_ERR_IO, "known failures: cannot read '%s'", path);
    fclose(file);
    for (size_t i = 0; s == COPSE_OK && i < size; i++)
        lines += out->text[i] == '\n';
    if (s == COPSE_OK && !(out->rows = copse__alloc(mem, lines + 1, sizeof *out->rows)))
        s = copse_no_memory("known failures '%s'", path);
    if (s == COPSE_OK)
        s = read_lines(path, (size_t)size, out);
    if (s != COPSE_OK)
        copse__known_file_free(mem, out);
    return s;
}

void copse__known_file_free(struct copse_mem *mem, struct copse_known_file *f)
{
    copse__free(mem, f->rows);
    copse__free(mem, f->text);
    *f = (struct copse_known_file){ 0 };
}
