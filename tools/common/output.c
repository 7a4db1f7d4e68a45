/* SPDX-License-Identifier: MIT */
/* Files that a command writes. They are written under a temporary name and renamed, so that they
   are complete or absent. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"

static copse_status output_fail(struct output *o, const char *path, const char *reason)
{
    const copse_status s = session_set_error(COPSE_ERR_IO, "cannot write '%s': %s", path, reason);
    output_abort(o);
    return s;
}

static char *output_copy(const char *text, size_t length)
{
    char *copy = calloc(1, length + 1);
    return copy ? memcpy(copy, text, length) : NULL;
}

copse_status output_open(struct output *o, const char *path)
{
    struct system_file info;
    const char *target = path;
    *o = (struct output){ 0 };
    signals_hold();
    if (!*path)
        return output_fail(o, path, "the path is empty");
    if (system_is_link(path)) { /* keep the link */
        target = o->path = system_real_path(path);
        if (!o->path)
            return output_fail(o, path, "it is a symbolic link that leads nowhere");
    }
    const bool is_new = !system_look(target, &info);
    if (!is_new && info.kind != SYSTEM_FILE)
        return output_fail(o, path, "it is not a regular file");
    const size_t room = strlen(target) + 48;
    if (!o->path)
        o->path = output_copy(target, strlen(target));
    o->temp = malloc(room);
    if (!o->path || !o->temp) {
        output_abort(o);
        return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the name '%s'", path);
    }
    /* A killed process with the same process id may have left a file with this name. */
    for (int attempt = 0; attempt < 100 && !o->stream; attempt++) {
        snprintf(o->temp, room, "%s.tmp%lx-%x", o->path, system_process(), (unsigned)attempt);
        o->stream = system_create(o->temp, is_new ? NULL : o->path);
        if (!o->stream && errno != EEXIST)
            break;
    }
    o->is_made = o->stream != NULL;
    return o->stream ? COPSE_OK : output_fail(o, path, strerror(errno));
}

copse_status output_commit(struct output *o)
{
    FILE *stream = o->stream;
    o->stream = NULL;
    bool is_good = fflush(stream) == 0 && !ferror(stream) && system_sync(stream);
    int reason = errno;
    if (fclose(stream) != 0 && is_good) {
        is_good = false;
        reason = errno;
    }
    if (is_good && !system_rename(o->temp, o->path)) {
        is_good = false;
        reason = errno;
    }
    if (!is_good)
        return output_fail(o, o->path, strerror(reason));
    o->is_made = false;
    output_abort(o);
    return COPSE_OK;
}

copse_status output_end(struct output *o, copse_status status)
{
    if (status == COPSE_OK)
        return output_commit(o);
    output_abort(o);
    return status;
}

void output_abort(struct output *o)
{
    if (o->stream)
        fclose(o->stream);
    if (o->is_made)
        system_remove(o->temp);
    free(o->path);
    free(o->temp);
    *o = (struct output){ 0 };
    signals_release();
}

copse_status output_check(const char *path)
{
    struct output o;
    COPSE_TRY(output_open(&o, path));
    output_abort(&o);
    return COPSE_OK;
}

/* The identity of a file: device and number, or before it exists its folder's and its
   name. */
struct place {
    struct system_file at;
    const char *name;
};

static bool find_place(const char *path, struct place *out)
{
    out->name = "";
    if (system_look(path, &out->at))
        return true;
    out->name = system_name(path);
    const size_t length = (size_t)(out->name - path);
    char *folder = length ? output_copy(path, length) : output_copy(".", 1);
    const bool is_found = folder && system_look(folder, &out->at);
    free(folder);
    return is_found;
}

bool output_is_same(const char *path, const char *other)
{
    struct place a, b;
    return strcmp(path, other) == 0 ||
           (find_place(path, &a) && find_place(other, &b) && a.at.device == b.at.device &&
            a.at.number == b.at.number && strcmp(a.name, b.name) == 0);
}

/* Whether a file holds what is read of a folder of data: a picture, IDX, or one of them compressed.
   Others may lie there, too. */
static bool is_data(const char *path)
{
    static const unsigned char png[] = { 0x89, 'P', 'N', 'G' };
    unsigned char b[4] = { 0 };
    FILE *f = system_open(path, "rb");
    const bool is =
        f && fread(b, 1, sizeof b, f) == sizeof b &&
        (memcmp(b, png, sizeof png) == 0 || (b[0] == 0xff && b[1] == 0xd8) ||
         (b[0] == 0x1f && b[1] == 0x8b) || (b[0] == 0 && b[1] == 0 && b[2] >= 8 && b[2] <= 14));
    if (f)
        fclose(f);
    return is;
}

/* Whether a file of data is below a folder, in it or in one of its folders. */
static bool is_below(const char *path, const char *folder)
{
    struct system_file info;
    char *file = system_real_path(path), *top = system_real_path(folder);
    const size_t n = top ? strlen(top) : 0;
    const bool is = file && top && system_look(top, &info) && info.kind == SYSTEM_FOLDER &&
                    strncmp(file, top, n) == 0 && (file[n] == '/' || top[n - 1] == '/') &&
                    is_data(file);
    free(file);
    free(top);
    return is;
}

/* Whether the file has the labels that are found beside images: of the same name but for
   "images". */
static bool has_labels_of(const char *path, const char *images)
{
    const char *last = system_name(images), *word = strstr(last, "images"),
               *name = system_name(path);
    const size_t before = word ? (size_t)(word - last) : 0;
    if (!word || strncmp(name, word - before, before) != 0 ||
        strncmp(name + before, "labels", 6) != 0)
        return false;
    char *beside = malloc(strlen(images) + strlen(path) + 1);
    if (beside)
        sprintf(beside, "%.*s%s", (int)(last - images), images, name);
    struct system_file info;
    const bool is = beside && system_look(path, &info) && output_is_same(path, beside);
    free(beside);
    return is;
}

const char *output_overwrites(const char *path, const char *input)
{
    return output_is_same(path, input)  ? "is the file of"
           : is_below(path, input)      ? "is in the folder of"
           : has_labels_of(path, input) ? "has the labels of"
                                        : NULL;
}

void output_escape(FILE *f, const char *text)
{
    for (; *text; text++) {
        const char *as = *text == '&'    ? "&amp;"
                         : *text == '<'  ? "&lt;"
                         : *text == '>'  ? "&gt;"
                         : *text == '"'  ? "&quot;"
                         : *text == '\'' ? "&#39;"
                                         : NULL;
        if (as)
            fputs(as, f);
        else
            fputc((unsigned char)*text < ' ' ? ' ' : *text, f);
    }
}
