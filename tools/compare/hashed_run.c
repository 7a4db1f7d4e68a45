/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/compare/hashed_run.h"
#include "tools/train/hash_file.h"

/* Room for one more element. */
static bool run_grow(void **at, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return true;
    const size_t more = *room ? 2 * *room : 64;
    void *larger = realloc(*at, more * size);
    if (!larger)
        return false;
    *at = larger;
    *room = more;
    return true;
}

static copse_status run_no_memory(const struct hashed_run *r)
{
    return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the hashes of '%s'", r->path);
}

static copse_status run_wrong(const struct hashed_run *r, size_t line, const char *why)
{
    return session_set_error(COPSE_ERR_FORMAT, "'%s', line %zu: %s", r->path, line, why);
}

static copse_status take_variable(struct hashed_run *r, const char *name)
{
    if (!run_grow((void **)&r->variables, r->variable_count, &r->variable_room,
                  sizeof *r->variables))
        return run_no_memory(r);
    char *copy = malloc(strlen(name) + 1);
    if (!copy)
        return run_no_memory(r);
    r->variables[r->variable_count++] = strcpy(copy, name);
    return COPSE_OK;
}

/* 16 hexadecimal digits, and a space or the end. */
static bool take_hash(const char **text, uint64_t *out)
{
    *out = 0;
    for (int i = 0; i < 16; i++, ++*text) {
        const char c = **text;
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0)
            return false;
        *out = *out << 4 | (uint64_t)digit;
    }
    if (**text == ' ')
        return *++*text != '\0';
    return **text == '\0';
}

static copse_status take_step(struct hashed_run *r, size_t line, const char *text)
{
    char *end;
    if (*text < '0' || *text > '9')
        return run_wrong(r, line, "a step has a number");
    errno = 0;
    const uint64_t step = strtoull(text, &end, 10);
    if (errno != 0 || *end != ' ')
        return run_wrong(r, line, "a number of a step and hashes are expected");
    if (!run_grow((void **)&r->steps, r->step_count, &r->step_room, sizeof *r->steps))
        return run_no_memory(r);
    uint64_t *hashes = calloc(r->variable_count + 1, sizeof *hashes);
    if (!hashes)
        return run_no_memory(r);
    r->steps[r->step_count] = (struct hashed_step){ step, r->step_count, hashes };
    r->step_count++;
    text = end + 1;
    for (size_t i = 0; i <= r->variable_count; i++)
        if (!take_hash(&text, &hashes[i]) || (*text == '\0') != (i == r->variable_count))
            return run_wrong(r, line,
                             "a hash for all variables is expected, and after it as many "
                             "as there are lines `variable`: 16 digits each");
    return COPSE_OK;
}

static copse_status take_launch(struct hashed_run *r, size_t line, const char *text)
{
    struct hashed_launch l = { .step = 0 };
    unsigned long long step;
    int used = 0;
    if (!run_grow((void **)&r->launches, r->launch_count, &r->launch_room, sizeof *r->launches))
        return run_no_memory(r);
    if (sscanf(text, "%llu %" SCNu32 " %" SCNu32 " %47s %n", &step, &l.replica, &l.number, l.kernel,
               &used) != 4 ||
        !take_hash(&(const char *){ text + used }, &l.hash))
        return run_wrong(r, line, "a launch has a step, a replica, a number, a kernel and a hash");
    l.step = step;
    l.order = r->launch_count;
    r->launches[r->launch_count++] = l;
    return COPSE_OK;
}

static copse_status take_line(struct hashed_run *r, size_t line, const char *text)
{
    if (line == 1)
        return strcmp(text, HASH_FILE_HEAD) == 0
                   ? COPSE_OK
                   : session_set_error(COPSE_ERR_FORMAT,
                                       "'%s' is no file of `copse train --hash`: it does not begin "
                                       "with '" HASH_FILE_HEAD "'",
                                       r->path);
    if (strncmp(text, "variable ", 9) == 0)
        return r->step_count == 0
                   ? take_variable(r, text + 9)
                   : run_wrong(r, line,
                               "a line `variable` is after a line `step`; all are before the first "
                               "step: were two files joined?");
    if (strncmp(text, "step ", 5) == 0)
        return take_step(r, line, text + 5);
    if (strncmp(text, "launch ", 7) == 0)
        return take_launch(r, line, text + 7);
    return run_wrong(r, line, "a line `step`, `launch` or `variable` is expected");
}

/* One line without its end; false: the file has no further complete line. */
static bool read_line(FILE *f, char **text, size_t *room, bool *has_failed)
{
    size_t used = 0;
    for (int c = getc(f); c != EOF; c = getc(f)) {
        if (!run_grow((void **)text, used, room, 1)) {
            *has_failed = true;
            return false;
        }
        (*text)[used++] = c == '\n' ? '\0' : (char)c;
        if (c == '\n')
            return true;
    }
    return false;
}

/* ---- steps that occur twice ---- */

static int compare_orders(uint64_t a, size_t a_order, uint64_t b, size_t b_order)
{
    return a != b ? (a < b ? -1 : 1) : a_order < b_order ? -1 : a_order > b_order;
}

static int compare_steps(const void *x, const void *y)
{
    const struct hashed_step *a = x, *b = y;
    return compare_orders(a->step, a->order, b->step, b->order);
}

static int compare_launches(const void *x, const void *y)
{
    const struct hashed_launch *a = x, *b = y;
    return compare_orders(a->step, a->order, b->step, b->order);
}

/* Sort by number; of equal ones the last line remains. */
static void settle_steps(struct hashed_run *r)
{
    size_t kept = 0;
    if (r->step_count > 0)
        qsort(r->steps, r->step_count, sizeof *r->steps, compare_steps);
    for (size_t i = 0; i < r->step_count; i++) {
        if (i + 1 < r->step_count && r->steps[i + 1].step == r->steps[i].step)
            free(r->steps[i].hashes);
        else
            r->steps[kept++] = r->steps[i];
    }
    r->step_count = kept;
}

/* Whether the launches of a step begin again: they are in the order of replicas and numbers. */
static bool is_restart(const struct hashed_launch *before, const struct hashed_launch *l)
{
    return l->replica != before->replica ? l->replica < before->replica
                                         : l->number <= before->number;
}

/* Sort by step; of a step that was executed twice the last launches remain. */
static void settle_launches(struct hashed_run *r)
{
    size_t kept = 0, first = 0; /* of the step */
    if (r->launch_count > 0)
        qsort(r->launches, r->launch_count, sizeof *r->launches, compare_launches);
    for (size_t i = 0; i < r->launch_count; i++) {
        const struct hashed_launch l = r->launches[i];
        if (kept > 0 && r->launches[kept - 1].step != l.step)
            first = kept;
        else if (kept > first && is_restart(&r->launches[kept - 1], &l))
            kept = first;
        r->launches[kept++] = l;
    }
    r->launch_count = kept;
}

bool hashed_run_has(const struct hashed_run *r, uint64_t step)
{
    size_t first = 0, end = r->step_count;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (r->steps[middle].step < step)
            first = middle + 1;
        else
            end = middle;
    }
    return first < r->step_count && r->steps[first].step == step;
}

copse_status hashed_run_read(const char *path, struct hashed_run *out)
{
    char *text = NULL;
    size_t room = 0, line = 0;
    bool has_failed = false;
    copse_status s = COPSE_OK;
    *out = (struct hashed_run){ .path = path };
    FILE *f = system_open(path, "rb");
    if (!f)
        return session_set_error(COPSE_ERR_IO, "cannot open '%s': %s", path, strerror(errno));
    while (s == COPSE_OK && read_line(f, &text, &room, &has_failed))
        s = take_line(out, ++line, text);
    if (s == COPSE_OK && has_failed)
        s = run_no_memory(out);
    if (s == COPSE_OK && ferror(f))
        s = session_set_error(COPSE_ERR_IO, "cannot read '%s': %s", path, strerror(errno));
    if (s == COPSE_OK && out->step_count == 0)
        s = session_set_error(COPSE_ERR_FORMAT, "'%s' has no step", path);
    fclose(f);
    free(text);
    settle_steps(out);
    settle_launches(out);
    return s;
}

void hashed_run_free(struct hashed_run *r)
{
    for (size_t i = 0; i < r->variable_count; i++)
        free(r->variables[i]);
    for (size_t i = 0; i < r->step_count; i++)
        free(r->steps[i].hashes);
    free(r->launches);
    free(r->variables);
    free(r->steps);
    *r = (struct hashed_run){ .path = NULL };
}
