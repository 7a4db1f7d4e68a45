/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/apps/common/app_command.h"
#include "examples/apps/common/app_files.h"
#include "recordings.h"
#include "spectrum.h"

/* ---- words ---- */

char *words_path(const char *network)
{
    const size_t room = strlen(network) + 5;
    char *path = malloc(room);
    if (path)
        snprintf(path, room, "%s.txt", network);
    else
        files_no_memory();
    return path;
}

static int find_word(const struct words *w, const char *name, size_t length)
{
    for (size_t i = 0; i < w->count; i++)
        if (strlen(w->at[i]) == length && memcmp(w->at[i], name, length) == 0)
            return (int)i;
    return -1;
}

static bool add_word(const char *path, const char *name, size_t length, struct words *w)
{
    if (length > LONGEST_WORD)
        return files_refuse(path, "a word has more than 63 bytes");
    if (w->count == MOST_WORDS)
        return files_refuse(path, "there are more than 64 words");
    memcpy(w->at[w->count], name, length);
    w->at[w->count++][length] = '\0';
    return true;
}

static bool read_lines(const char *path, FILE *f, struct words *out)
{
    char line[LONGEST_WORD + 4];
    bool is_done = true;
    while (is_done && fgets(line, sizeof line, f)) {
        const size_t length = strcspn(line, "\r\n");
        if (length == 0 || find_word(out, line, length) >= 0)
            return files_refuse(path, "an empty line, or a word that is there twice");
        is_done = add_word(path, line, length, out);
    }
    if (is_done && ferror(f))
        return files_refuse(path, "cannot be read");
    return is_done && (out->count > 0 || files_refuse(path, "has no word"));
}

bool words_read(const char *network, struct words *out)
{
    char *path = words_path(network);
    out->count = 0;
    if (!path)
        return false;
    FILE *f = fopen(path, "r");
    bool is_done = f || errno == ENOENT || files_refuse(path, strerror(errno));
    if (f) {
        is_done = read_lines(path, f, out);
        fclose(f);
    }
    free(path);
    return is_done;
}

bool words_is_writable(const char *network)
{
    char *path = words_path(network);
    const bool is_done =
        path && files_is_writable(network, false) && files_is_writable(path, false);
    free(path);
    return is_done;
}

/* Write the list to a new file beside `path`. */
static char *write_part(const char *path, const struct words *w)
{
    char *part;
    FILE *f = files_make_part(path, &part);
    if (!f)
        return NULL;
    bool is_done = true;
    for (size_t i = 0; i < w->count; i++)
        is_done = fprintf(f, "%s\n", w->at[i]) > 0 && is_done;
    if (fclose(f) == 0 && is_done)
        return part;
    files_refuse(path, "cannot be written");
    remove(part);
    free(part);
    return NULL;
}

bool words_save(const char *network, const struct words *w, words_save_fn *save, void *user)
{
    char *path = words_path(network), *part = path ? write_part(path, w) : NULL;
    bool is_done = part && command_is_good(save(user, network));
    if (part && !is_done) {
        remove(part);
    } else if (part && !files_replace(part, path)) {
        fprintf(stderr, "%s: %s: cannot be written: %s is new, its list of words is not\n",
                program_name, path, network);
        is_done = false;
    }
    free(path);
    free(part);
    return is_done;
}

/* ---- recordings ---- */

/* The name of the folder in `folder` that has the file, which is in no other one. */
static const char *word_of(const char *folder, const char *path, size_t *length)
{
    const char *name = path + strlen(folder);
    name += *name == '/';
    *length = strcspn(name, "/");
    return name[*length] && !strchr(name + *length + 1, '/') ? name : NULL;
}

static bool is_recording(const char *path)
{
    const size_t length = strlen(path);
    return length > 4 &&
           (strcmp(path + length - 4, ".wav") == 0 || strcmp(path + length - 4, ".WAV") == 0);
}

static bool read_recording(const char *path, float *spectrum)
{
    struct wav w;
    const bool is_done = wav_read(path, &w) && spectrum_make(path, &w, spectrum);
    free(w.samples);
    return is_done;
}

/* Read one file, or leave it out. */
static bool take_file(const char *folder, const char *path, bool is_new, struct words *words,
                      struct recordings *out)
{
    size_t length;
    const char *name = is_recording(path) ? word_of(folder, path, &length) : NULL;
    if (!name)
        return true;
    if (out->count == MOST_RECORDINGS)
        return files_refuse(folder, "has more than 100000 recordings");
    int word = find_word(words, name, length);
    if (word < 0 && !is_new)
        return files_refuse(path, "the network does not know this word");
    if (word < 0) {
        if (!add_word(path, name, length, words))
            return false;
        word = (int)words->count - 1;
    }
    out->classes[out->count] = word;
    return read_recording(path, out->spectra + out->count++ * SPECTRUM);
}

bool recordings_read(const char *folder, struct words *words, struct recordings *out)
{
    struct files f;
    const bool is_new = words->count == 0;
    *out = (struct recordings){ .count = 0 };
    bool is_done = files_list(folder, &f);
    if (is_done) {
        out->spectra = malloc((f.count + 1) * SPECTRUM * sizeof *out->spectra);
        out->classes = malloc((f.count + 1) * sizeof *out->classes);
        is_done = (out->spectra && out->classes) || files_no_memory();
    }
    for (size_t i = 0; is_done && i < f.count; i++)
        is_done = take_file(folder, f.at[i], is_new, words, out);
    if (is_done && out->count == 0)
        is_done = files_refuse(folder, "has no file WORD/NAME.wav");
    if (is_done && out->count < f.count + f.left_out)
        fprintf(stderr, "%s: %s: %zu of %zu files are left out: they are %sno WORD/NAME.wav\n",
                program_name, folder, f.count + f.left_out - out->count, f.count + f.left_out,
                f.left_out > 0 ? "links, or " : "");
    files_free(&f);
    return is_done;
}

void recordings_free(struct recordings *r)
{
    free(r->spectra);
    free(r->classes);
}
