/* SPDX-License-Identifier: MIT */
/* The file of --hash. Lines:
     copse-hash 1
     variable NAME              with --hash-variables: the order of the hashes below
     step NUMBER HASH [HASH...] of all variables; of each variable
     launch STEP REPLICA NUMBER KERNEL HASH
                                with --hash-launches, before the line of its step
   docs/certificate.md describes them, and `copse compare-runs` reads them. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tools/train/hash_file.h"

const char *hash_file_check(const struct hash_options *o)
{
    const bool has_launches = o->launches_of != HASH_NOT_GIVEN;
    return o->path && !*o->path ? "--hash: the path is empty"
           : has_launches && o->launches_of == 0
               ? "--hash-launches: steps are counted from 1; give the number of a step"
           : (o->has_variables || has_launches) && !o->path
               ? "--hash-variables and --hash-launches: add to the file of --hash; give --hash FILE"
               : NULL;
}

static copse_status hash_file_fail(const struct hash_file *f)
{
    return session_set_error(COPSE_ERR_IO, "--hash: cannot write '%s': %s", f->path,
                             strerror(errno));
}

void hash_file_plan(struct hash_file *f, const struct hash_options *o)
{
    *f = (struct hash_file){ .path = o->path,
                             .has_variables = o->has_variables,
                             .launches_of = o->launches_of == HASH_NOT_GIVEN ? 0 : o->launches_of };
}

/* ---- the file of the earlier part of a run ---- */

/* Whether the file goes on with this text and the end of the line. */
static bool is_next_line(FILE *from, const char *text)
{
    for (; *text; text++)
        if (getc(from) != (unsigned char)*text)
            return false;
    return getc(from) == '\n';
}

/* Whether the file has lines `variable`, before its first step, for the hashes that are added now;
   *has_step: it has a step. */
static bool is_same_list(FILE *from, size_t count, const struct copse_trainer_hashes *h,
                         bool *has_step)
{
    char word[10] = "";
    size_t i = 0;
    while (fscanf(from, "%9s", word) == 1 && strcmp(word, "step") != 0) {
        const bool is_variable = strcmp(word, "variable") == 0;
        if (is_variable &&
            (i >= count || getc(from) != ' ' || !is_next_line(from, h->variables[i++].name)))
            return false;
        for (int c = 0; !is_variable && c != '\n' && c != EOF;)
            c = getc(from);
    }
    *has_step = strcmp(word, "step") == 0;
    return *has_step ? i == count : i == 0;
}

/* Where the last complete line ends, or -1. What is after it has no end of a line: lines are
   written over it, and readers ignore a rest. */
static long whole_lines(FILE *from)
{
    long end = -1;
    if (fseek(from, 0, SEEK_SET) != 0)
        return -1;
    for (int c = getc(from); c != EOF; c = getc(from))
        if (c == '\n')
            end = ftell(from);
    return ferror(from) ? -1 : end;
}

/* Add lines to the file of the earlier part, if there is one. */
static copse_status hash_file_continue(struct hash_file *f)
{
    f->to = system_open(f->path, "r+b");
    if (!f->to)
        return errno == ENOENT ? COPSE_OK : hash_file_fail(f);
    if (!is_next_line(f->to, HASH_FILE_HEAD))
        return session_set_error(COPSE_ERR_FORMAT,
                                 "--hash: a resumed run adds lines to '%s', which is no file of "
                                 "--hash; name another file, or remove it",
                                 f->path);
    const long end = whole_lines(f->to);
    f->is_older = true;
    return end >= 0 && fseek(f->to, end, SEEK_SET) == 0 ? COPSE_OK : hash_file_fail(f);
}

/* The first step of this run tells which variables there are. */
static copse_status hash_file_match(struct hash_file *f, const struct copse_trainer_hashes *h)
{
    const long end = ftell(f->to);
    const size_t count = f->has_variables ? h->count : 0;
    if (end < 0 || fseek(f->to, 0, SEEK_SET) != 0)
        return hash_file_fail(f);
    if (!is_next_line(f->to, HASH_FILE_HEAD) || !is_same_list(f->to, count, h, &f->is_headed))
        return session_set_error(COPSE_ERR_FORMAT,
                                 "--hash: a resumed run adds lines to '%s', which has hashes of "
                                 "other variables; give --hash-variables as in the earlier part, "
                                 "or name another file",
                                 f->path);
    f->is_older = false;
    return fseek(f->to, end, SEEK_SET) == 0 ? COPSE_OK : hash_file_fail(f);
}

static copse_status hash_file_open(struct hash_file *f, copse_trainer *t)
{
    if (copse_trainer_steps(t) > 0)
        COPSE_TRY(hash_file_continue(f));
    if (f->to)
        return COPSE_OK;
    f->to = system_open(f->path, "wb");
    if (!f->to)
        return hash_file_fail(f);
    fprintf(f->to, HASH_FILE_HEAD "\n");
    return fflush(f->to) == 0 ? COPSE_OK : hash_file_fail(f);
}

/* ---- lines ---- */

static void put_launch(void *user, uint32_t replica, size_t launch, const char *kernel,
                       uint64_t hash)
{
    struct hash_file *f = user;
    f->has_launches = true;
    fprintf(f->to, "launch %" PRIu64 " %" PRIu32 " %zu %s %016" PRIx64 "\n", f->launches_of,
            replica, launch, kernel, hash);
}

copse_status hash_file_begin(struct hash_file *f, copse_trainer *t)
{
    if (!f->path)
        return COPSE_OK;
    if (!f->to)
        COPSE_TRY(hash_file_open(f, t));
    if (f->launches_of == 0 || f->is_asked)
        return COPSE_OK;
    f->is_asked = true;
    return copse_trainer_hash_launches(t, f->launches_of, put_launch, f);
}

void hash_file_forget(struct hash_file *f)
{
    f->is_asked = false;
}

copse_status hash_file_step(struct hash_file *f, copse_trainer *t)
{
    struct copse_trainer_hashes h;
    if (!f->to)
        return COPSE_OK;
    COPSE_TRY(copse_trainer_hash(t, &h));
    if (f->is_older)
        COPSE_TRY(hash_file_match(f, &h));
    for (size_t i = 0; f->has_variables && !f->is_headed && i < h.count; i++)
        fprintf(f->to, "variable %s\n", h.variables[i].name);
    f->is_headed = true;
    f->first = f->first > 0 ? f->first : h.step;
    f->last = h.step;
    fprintf(f->to, "step %" PRIu64 " %016" PRIx64, h.step, h.all);
    for (size_t i = 0; f->has_variables && i < h.count; i++)
        fprintf(f->to, " %016" PRIx64, h.variables[i].hash);
    fputc('\n', f->to);
    return fflush(f->to) == 0 && !ferror(f->to) ? COPSE_OK : hash_file_fail(f);
}

copse_status hash_file_end(struct hash_file *f)
{
    if (f->path && f->last == 0)
        fprintf(stderr, "copse train: --hash: no step was trained, so '%s' got no line\n", f->path);
    else if (f->path && f->launches_of > 0 && !f->has_launches)
        fprintf(stderr,
                "copse train: --hash-launches %" PRIu64 ": '%s' has no launch of it, as this run "
                "trained the steps %" PRIu64 " to %" PRIu64 "\n",
                f->launches_of, f->path, f->first, f->last);
    return hash_file_close(f);
}

copse_status hash_file_close(struct hash_file *f)
{
    FILE *to = f->to;
    f->to = NULL;
    return !to || fclose(to) == 0 ? COPSE_OK : hash_file_fail(f);
}
