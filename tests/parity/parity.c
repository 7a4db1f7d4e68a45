/* SPDX-License-Identifier: MIT */
/* Runs what parity.py asks for through the public API: a request per line on stdin, an answer per
   line on stdout. A request is a command, its words and its arrays, parted by blanks; an array is
   <f|i>:<dims,...>:<values,...>, floats in hexadecimal. An answer is "ok" and arrays, or "error",
   the name of the status and its text. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/parity/parity.h"

/* ---- text that grows ---- */

struct text {
    char *bytes;
    size_t length, room;
};

static bool make_room(struct text *t, size_t more)
{
    while (t->room - t->length < more) {
        const size_t room = t->room ? 2 * t->room : 4096;
        char *bytes = realloc(t->bytes, room);
        if (!bytes)
            return false;
        t->bytes = bytes;
        t->room = room;
    }
    return true;
}

/* A line without its line feed; false at the end of the input. */
static bool read_line(struct text *t)
{
    int c;
    t->length = 0;
    while ((c = getchar()) != EOF && c != '\n') {
        if (!make_room(t, 2))
            return false;
        t->bytes[t->length++] = (char)c;
    }
    if ((c == EOF && t->length == 0) || !make_room(t, 1))
        return false;
    t->bytes[t->length] = 0;
    return true;
}

static struct text answer;

static copse_status say(const char *format, ...)
{
    va_list list;
    if (!make_room(&answer, 64))
        return COPSE_ERR_NO_MEMORY;
    va_start(list, format);
    answer.length += (size_t)vsnprintf(answer.bytes + answer.length, 64, format, list);
    va_end(list);
    return COPSE_OK;
}

static size_t elements(copse_shape shape)
{
    size_t n = 1;
    for (uint32_t i = 0; i < shape.rank; i++)
        n *= shape.dims[i];
    return n;
}

copse_status say_array(copse_type type, copse_shape shape, const void *values)
{
    const float *f = values;
    const int32_t *i32 = values;
    COPSE_TRY(say(" %c:", type == COPSE_F32 ? 'f' : 'i'));
    for (uint32_t i = 0; i < shape.rank; i++)
        COPSE_TRY(say(i ? ",%u" : "%u", shape.dims[i]));
    COPSE_TRY(say(":"));
    for (size_t i = 0; i < elements(shape); i++) {
        COPSE_TRY(i ? say(",") : COPSE_OK);
        COPSE_TRY(type == COPSE_F32 ? say("%a", (double)f[i]) : say("%ld", (long)i32[i]));
    }
    return COPSE_OK;
}

copse_status say_number(double x)
{
    return say(" f::%a", x);
}

copse_status say_value(copse_value *v)
{
    copse_value *list[MAX_RANKS];
    size_t count;
    copse_local_results(v, list, MAX_RANKS, &count);
    for (size_t i = 0; i < count; i++) {
        const copse_shape shape = copse_value_shape(list[i]);
        void *values = malloc(4 * elements(shape) + 4);
        copse_status s = values ? copse_value_read(list[i], values) : COPSE_ERR_NO_MEMORY;
        if (s == COPSE_OK)
            s = say_array(copse_value_type(list[i]), shape, values);
        free(values);
        COPSE_TRY(s);
    }
    return COPSE_OK;
}

/* ---- requests ---- */

copse_status malformed(const char *what)
{
    fprintf(stderr, "parity: malformed request: %s\n", what);
    exit(2);
}

size_t place_of(const char *word, const char *const *list)
{
    size_t i = 0;
    while (list[i] && strcmp(list[i], word) != 0)
        i++;
    return i;
}

static void take_array(char *word, struct array *out)
{
    char *at = word + 2;
    out->type = word[0] == 'f' ? COPSE_F32 : COPSE_I32;
    out->shape = COPSE_SCALAR;
    while (*at != ':') {
        if (out->shape.rank == COPSE_MAX_RANK)
            malformed("too many axes");
        out->shape.dims[out->shape.rank++] = (uint32_t)strtoul(at, &at, 10);
        at += *at == ',';
    }
    at++;
    out->count = elements(out->shape);
    out->values = malloc(4 * out->count + 4);
    if (!out->values)
        malformed("no memory");
    for (size_t i = 0; i < out->count; i++) {
        char *end;
        if (out->type == COPSE_F32)
            ((float *)out->values)[i] = strtof(at, &end);
        else
            ((int32_t *)out->values)[i] = (int32_t)strtol(at, &end, 10);
        if (end == at)
            malformed("too few values");
        at = end + (*end == ',');
    }
    if (*at)
        malformed("too many values");
}

static void take_request(char *line, struct request *r)
{
    memset(r, 0, sizeof *r);
    for (char *word = strtok(line, " "); word; word = strtok(NULL, " ")) {
        if ((word[0] == 'f' || word[0] == 'i') && word[1] == ':') {
            if (r->array_count == MAX_ARRAYS)
                malformed("too many arrays");
            take_array(word, &r->arrays[r->array_count++]);
        } else {
            if (r->word_count == sizeof r->words / sizeof *r->words)
                malformed("too many words");
            r->words[r->word_count++] = word;
        }
    }
}

copse_status value_of(const struct parity *p, const struct array *a, copse_value **out)
{
    return copse_value_create(p->ctx, a->type, a->shape, a->values, out);
}

copse_status per_replica_of(const struct parity *p, const struct array *list, size_t count,
                            copse_value **out)
{
    copse_value *at[MAX_ARRAYS] = { NULL };
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < count && s == COPSE_OK; i++)
        s = copse_value_create_on(p->st, (uint32_t)i, list[i].type, list[i].shape, list[i].values,
                                  &at[i]);
    if (s == COPSE_OK)
        s = copse_value_per_replica(p->st, at, count, out);
    for (size_t i = 0; i < count; i++)
        copse_value_release(&at[i]);
    return s;
}

/* ---- strategies ---- */

static void close_strategy(struct parity *p)
{
    copse_tower_release(&p->tower);
    copse_trainer_release(&p->trainer);
    copse_strategy_release(&p->st);
}

/* strategy mirrored|one DEVICE... */
static copse_status strategy_command(struct parity *p, const struct request *r)
{
    const char *const *devices = (const char *const *)r->words + 2;
    close_strategy(p);
    if (r->word_count < 3)
        return malformed("strategy");
    if (strcmp(r->words[1], "one") == 0)
        return copse_one_device_create(p->ctx, devices[0], NULL, &p->st);
    return copse_mirrored_create(p->ctx, devices, r->word_count - 2, NULL, &p->st);
}

/* devices: their ids, as words. */
static copse_status devices_command(struct parity *p, const struct request *r)
{
    const struct copse_device_info *list;
    size_t count;
    (void)r;
    copse_context_devices(p->ctx, &list, &count);
    for (size_t i = 0; i < count; i++)
        if (list[i].is_usable)
            COPSE_TRY(say(" %.40s", list[i].id));
    return COPSE_OK;
}

static copse_status version_command(struct parity *p, const struct request *r)
{
    (void)p, (void)r;
    return say(" %.40s", copse_version());
}

static const struct {
    const char *name;
    command_fn *run;
} commands[] = {
    { "strategy", strategy_command },
    { "devices", devices_command },
    { "version", version_command },
    { "reduce", reduce_command },
    { "run", run_command },
    { "merge", merge_command },
    { "all_reduce", all_reduce_command },
    { "variable", variable_command },
    { "replica", replica_command },
    { "cross", cross_command },
    { "update", update_command },
    { "read", read_command },
    { "components", components_command },
    { "optimizer", optimizer_command },
    { "apply", apply_command },
    { "network", network_command },
    { "step", step_command },
    { "save", save_command },
    { "restore", restore_command },
    { "split", split_command },
    { "clip", clip_command },
    { "scatter", scatter_command },
};

static copse_status run_request(struct parity *p, const struct request *r)
{
    for (size_t i = 0; r->word_count > 0 && i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].name, r->words[0]) == 0)
            return commands[i].run(p, r);
    return malformed("no such command");
}

int main(void)
{
    struct parity p = { 0 };
    struct text line = { 0 };
    struct request r;
    if (copse_context_create(NULL, &p.ctx) != COPSE_OK) {
        fprintf(stderr, "parity: %s\n", copse_last_error());
        return 1;
    }
    while (read_line(&line)) {
        answer.length = 0;
        take_request(line.bytes, &r);
        const copse_status s = run_request(&p, &r);
        if (s == COPSE_OK)
            printf("ok%.*s\n", (int)answer.length, answer.bytes ? answer.bytes : "");
        else
            printf("error %s %s\n", copse_status_name(s), copse_last_error());
        fflush(stdout);
        for (size_t i = 0; i < r.array_count; i++)
            free(r.arrays[i].values);
    }
    close_strategy(&p);
    copse_context_release(&p.ctx);
    free(line.bytes);
    free(answer.bytes);
    return 0;
}
