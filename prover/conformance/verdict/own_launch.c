/* SPDX-License-Identifier: MIT */
/* The description of a user's launch: lines of words, a keyword first. */
#include "prover/conformance/verdict/own_launch.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/base/files.h"
#include "core/data/reader/number.h"
#include "core/graph/op.h"

#define MOST_WORDS 16
#define MOST_TEXT  ((size_t)64 << 10)
#define MOST_BYTES ((uint64_t)1 << 30)

struct line {
    const char *file;
    uint32_t number;
    char *words[MOST_WORDS]; /* the keyword first */
    uint32_t count;
};

static copse_status own_launch_fail(const struct line *l, const char *fmt, ...) COPSE_PRINTF(2, 3);
static copse_status own_launch_fail(const struct line *l, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return copse_fail(COPSE_ERR_FORMAT, "%s, line %u: %s", l->file, (unsigned)l->number, text);
}

/* ---- numbers ---- */

static copse_status take_whole(const struct line *l, uint32_t i, double least, double most,
                               double *out)
{
    if (i < l->count && copse__number_parse(l->words[i], strlen(l->words[i]), out) &&
        *out == floor(*out) && *out >= least && *out <= most)
        return COPSE_OK;
    return own_launch_fail(l, "%s: '%s' is no whole number from %.0f to %.0f", l->words[0],
                           i < l->count ? l->words[i] : "", least, most);
}

static copse_status take_u32(const struct line *l, uint32_t i, uint32_t least, uint32_t most,
                             uint32_t *out)
{
    double x;
    COPSE_TRY(take_whole(l, i, (double)least, (double)most, &x));
    *out = (uint32_t)x;
    return COPSE_OK;
}

static copse_status take_real(const struct line *l, uint32_t i, double *out)
{
    return copse__number_parse(l->words[i], strlen(l->words[i]), out)
               ? COPSE_OK
               : own_launch_fail(l, "%s: '%s' is no number", l->words[0], l->words[i]);
}

/* ---- lines ---- */

static copse_status take_kernel(const struct line *l, struct copse_own_launch *out)
{
    if (strlen(l->words[1]) >= sizeof out->kernel)
        return own_launch_fail(l, "the name of the kernel has more than 47 bytes");
    strcpy(out->kernel, l->words[1]);
    return COPSE_OK;
}

static copse_status take_pair(const struct line *l, uint32_t most, uint32_t pair[2])
{
    pair[1] = 1;
    for (uint32_t i = 1; i < l->count; i++)
        COPSE_TRY(take_u32(l, i, 1, most, &pair[i - 1]));
    return COPSE_OK;
}

static copse_status take_group(const struct line *l, struct copse_own_launch *out)
{
    COPSE_TRY(take_pair(l, 1024, out->group));
    const uint32_t size = out->group[0] * out->group[1];
    return (out->group[0] & (out->group[0] - 1)) == 0 &&
                   (out->group[1] & (out->group[1] - 1)) == 0 && size <= 1024
               ? COPSE_OK
               : own_launch_fail(
                     l,
                     "group: a group of %ux%u: both are powers of two, up to 1024 invocations "
                     "together",
                     (unsigned)out->group[0], (unsigned)out->group[1]);
}

static copse_status take_grid(const struct line *l, struct copse_own_launch *out)
{
    return take_pair(l, INT32_MAX, out->grid);
}

/* buffer in|out|inout f32|i32 WORDS [below N] */
static copse_status take_buffer(const struct line *l, struct copse_own_launch *out)
{
    struct copse_own_buffer b = { .words = 0 };
    const char *how = l->words[1], *type = l->words[2];
    if (out->buffer_count == COPSE_MAX_BINDINGS)
        return own_launch_fail(l, "a kernel has up to %d buffers", COPSE_MAX_BINDINGS);
    b.is_read = strcmp(how, "in") == 0 || strcmp(how, "inout") == 0;
    b.is_written = strcmp(how, "out") == 0 || strcmp(how, "inout") == 0;
    if (!b.is_read && !b.is_written)
        return own_launch_fail(l, "buffer: '%s' is not in, out or inout", how);
    b.is_whole = strcmp(type, "i32") == 0;
    if (!b.is_whole && strcmp(type, "f32") != 0)
        return own_launch_fail(l, "buffer: '%s' is not f32 or i32", type);
    COPSE_TRY(take_u32(l, 3, 1, (uint32_t)(MOST_BYTES / COPSE_WORD_BYTES), &b.words));
    if (l->count > 4) {
        if (l->count != 6 || strcmp(l->words[4], "below") != 0 || !b.is_whole || !b.is_read)
            return own_launch_fail(l,
                                   "buffer: after the size of an i32 buffer that is read: below N");
        COPSE_TRY(take_u32(l, 5, 1, INT32_MAX, &b.below));
    }
    out->buffers[out->buffer_count++] = b;
    return COPSE_OK;
}

/* u32|i32|f32 VALUE */
static copse_status take_word(const struct line *l, uint32_t *words, uint32_t *count)
{
    double x;
    float f;
    if (*count == COPSE_MAX_PARAM_WORDS - 1)
        return own_launch_fail(l, "a kernel has up to %d words of parameters",
                               COPSE_MAX_PARAM_WORDS - 1);
    if (strcmp(l->words[1], "u32") == 0) {
        COPSE_TRY(take_whole(l, 2, 0, UINT32_MAX, &x));
        words[(*count)++] = (uint32_t)x;
    } else if (strcmp(l->words[1], "i32") == 0) {
        COPSE_TRY(take_whole(l, 2, INT32_MIN, INT32_MAX, &x));
        words[(*count)++] = (uint32_t)(int32_t)x;
    } else if (strcmp(l->words[1], "f32") == 0) {
        COPSE_TRY(take_real(l, 2, &x));
        f = (float)x;
        memcpy(&words[(*count)++], &f, sizeof f);
    } else {
        return own_launch_fail(l, "%s: '%s' is not u32, i32 or f32", l->words[0], l->words[1]);
    }
    return COPSE_OK;
}

static copse_status take_param(const struct line *l, struct copse_own_launch *out)
{
    return take_word(l, out->params, &out->param_count);
}

static copse_status take_reference_param(const struct line *l, struct copse_own_launch *out)
{
    return take_word(l, out->reference_params, &out->reference_param_count);
}

static copse_status take_constants(const struct line *l, int32_t *to, uint32_t *count)
{
    if (l->count - 1 > COPSE_MAX_SPECS)
        return own_launch_fail(l, "%s: up to %d constants", l->words[0], COPSE_MAX_SPECS);
    for (*count = 0; *count + 1 < l->count; ++*count) {
        double x;
        COPSE_TRY(take_whole(l, *count + 1, INT32_MIN, INT32_MAX, &x));
        to[*count] = (int32_t)x;
    }
    return COPSE_OK;
}

static copse_status take_spec(const struct line *l, struct copse_own_launch *out)
{
    return take_constants(l, out->spec, &out->spec_count);
}

static copse_status take_reference_spec(const struct line *l, struct copse_own_launch *out)
{
    return take_constants(l, out->reference_spec, &out->reference_spec_count);
}

static copse_status take_values(const struct line *l, struct copse_own_launch *out)
{
    out->values = 0;
    for (uint32_t i = 1; i < l->count; i++) {
        unsigned v = 0;
        while (v < COPSE_VALUES_COUNT && strcmp(l->words[i], copse_values_names[v]) != 0)
            v++;
        if (v == COPSE_VALUES_COUNT)
            return own_launch_fail(
                l,
                "values: '%s' is not usual, zeros, NaN, infinities, subnormals, extremes or edges",
                l->words[i]);
        out->values |= COPSE_BIT(v);
    }
    return COPSE_OK;
}

/* reference KERNEL BUFFER... */
static copse_status take_reference(const struct line *l, struct copse_own_launch *out)
{
    if (!copse__row_find(NULL, l->words[1], strlen(l->words[1]), &out->reference) ||
        out->reference >= copse_kernel_count)
        return own_launch_fail(
            l,
            "reference: the library has no kernel '%s': copse conformance list --coverage "
            "lists them",
            l->words[1]);
    if (copse_kernel_table[out->reference].is_variant)
        return own_launch_fail(l, "reference: '%s' is a variant and has no reference of its own",
                               l->words[1]);
    out->has_reference = true;
    for (uint32_t i = 2; i < l->count; i++) {
        uint32_t at = 0;
        if (strcmp(l->words[i], "-") != 0)
            COPSE_TRY(take_u32(l, i, 0, COPSE_MAX_BINDINGS - 1, &at));
        if (out->mapped_count == COPSE_MAX_BINDINGS)
            return own_launch_fail(l, "reference: a kernel has up to %d buffers",
                                   COPSE_MAX_BINDINGS);
        out->buffer_of[out->mapped_count++] = strcmp(l->words[i], "-") == 0 ? -1 : (int32_t)at;
    }
    return COPSE_OK;
}

/* limit ulp X | limit ratio X | limit exact */
static copse_status take_limit(const struct line *l, struct copse_own_launch *out)
{
    double x = 0;
    const bool is_exact = strcmp(l->words[1], "exact") == 0;
    if (l->count != (is_exact ? 2u : 3u))
        return own_launch_fail(l, "limit: one of: ulp X, ratio X, exact");
    if (!is_exact)
        COPSE_TRY(take_real(l, 2, &x));
    if (!is_exact && !(x > 0 && x <= 1e9))
        return own_launch_fail(l, "limit: '%s' is not above 0", l->words[2]);
    out->has_limit = true;
    if (strcmp(l->words[1], "ulp") == 0)
        out->limit.ulp = x;
    else if (strcmp(l->words[1], "ratio") == 0)
        out->limit.ratio = x;
    else if (!is_exact)
        return own_launch_fail(l, "limit: '%s' is not ulp, ratio or exact", l->words[1]);
    return COPSE_OK;
}

static copse_status take_runs(const struct line *l, struct copse_own_launch *out)
{
    return take_u32(l, 1, 2, 100000, &out->runs);
}

static const struct keyword {
    const char *name, *usage;
    uint32_t least, most; /* words behind it */
    copse_status (*take)(const struct line *l, struct copse_own_launch *out);
} keywords[] = {
    { "kernel", "kernel NAME", 1, 1, take_kernel },
    { "group", "group X [Y]", 1, 2, take_group },
    { "groups", "groups X [Y]", 1, 2, take_grid },
    { "buffer", "buffer in|out|inout f32|i32 WORDS [below N]", 3, 5, take_buffer },
    { "param", "param u32|i32|f32 VALUE", 2, 2, take_param },
    { "spec", "spec VALUE...", 1, COPSE_MAX_SPECS, take_spec },
    { "values", "values CLASS...", 1, COPSE_VALUES_COUNT, take_values },
    { "reference", "reference KERNEL BUFFER...", 2, 1 + COPSE_MAX_BINDINGS, take_reference },
    { "reference_param", "reference_param u32|i32|f32 VALUE", 2, 2, take_reference_param },
    { "reference_spec", "reference_spec VALUE...", 1, COPSE_MAX_SPECS, take_reference_spec },
    { "limit", "limit ulp X | limit ratio X | limit exact", 1, 2, take_limit },
    { "runs", "runs N", 1, 1, take_runs },
};

static copse_status take_line(const struct line *l, struct copse_own_launch *out)
{
    for (size_t i = 0; i < COPSE_COUNT(keywords); i++) {
        const struct keyword *k = &keywords[i];
        if (strcmp(l->words[0], k->name) != 0)
            continue;
        if (l->count - 1 < k->least || l->count - 1 > k->most)
            return own_launch_fail(l, "expected: %s", k->usage);
        return k->take(l, out);
    }
    return own_launch_fail(
        l,
        "'%.40s' is no keyword; there are kernel, group, groups, buffer, param, spec, "
        "values, reference, "
        "reference_param, reference_spec, limit, runs",
        l->words[0]);
}

/* ---- the whole ---- */

static copse_status check_buffers(const struct line *l, const struct copse_own_launch *o)
{
    uint64_t bytes = 0;
    bool has_result = false;
    for (uint32_t i = 0; i < o->buffer_count; i++) {
        bytes += (uint64_t)o->buffers[i].words * COPSE_WORD_BYTES;
        has_result |= o->buffers[i].is_written;
    }
    if (!has_result)
        return own_launch_fail(l, "no buffer is out or inout");
    return bytes <= MOST_BYTES ? COPSE_OK : own_launch_fail(l, "the buffers have more than 1 GiB");
}

static copse_status check_reference(const struct line *l, struct copse_own_launch *o)
{
    const struct copse_kernel_row *row = &copse_kernel_table[o->reference];
    if (o->mapped_count != row->arg_count)
        return own_launch_fail(
            l,
            "reference: %s has %u buffers, %u are named (copse conformance contract --kernel %s)",
            row->name, row->arg_count, (unsigned)o->mapped_count, row->name);
    if (o->reference_param_count == 0) {
        memcpy(o->reference_params, o->params, sizeof o->params);
        o->reference_param_count = o->param_count;
    }
    if (o->reference_param_count != row->param_words)
        return own_launch_fail(
            l, "reference: %s has %u words of parameters, %u are given: use reference_param",
            row->name, row->param_words, (unsigned)o->reference_param_count);
    if (o->reference_spec_count == 0) {
        memcpy(o->reference_spec, o->spec, sizeof o->spec);
        o->reference_spec_count = o->spec_count;
    }
    if (o->reference_spec_count != row->spec_count)
        return own_launch_fail(l,
                               "reference: %s has %u constants, %u are given: use reference_spec",
                               row->name, row->spec_count, (unsigned)o->reference_spec_count);
    for (uint32_t a = 0; a < row->arg_count; a++) {
        const int32_t at = o->buffer_of[a];
        if (at < 0 && row->args[a].is_written)
            return own_launch_fail(l, "reference: buffer %u of %s is a result and cannot be '-'",
                                   (unsigned)a, row->name);
        if (at < 0)
            continue;
        if ((uint32_t)at >= o->buffer_count)
            return own_launch_fail(l, "reference: there is no buffer %d", (int)at);
        if ((row->args[a].kind == COPSE_ARG_I32) != o->buffers[at].is_whole)
            return own_launch_fail(l, "reference: buffer %u of %s is %s, buffer %d is not",
                                   (unsigned)a, row->name,
                                   row->args[a].kind == COPSE_ARG_I32 ? "i32" : "f32", (int)at);
        if (row->args[a].is_written != o->buffers[at].is_written)
            return own_launch_fail(l, "reference: buffer %u of %s is %s, buffer %d is not",
                                   (unsigned)a, row->name,
                                   row->args[a].is_written ? "written" : "only read", (int)at);
    }
    return COPSE_OK;
}

static copse_status own_launch_complete(const struct line *l, struct copse_own_launch *o)
{
    if (!o->kernel[0] || o->grid[0] == 0 || o->group[0] == 0)
        return own_launch_fail(l, "the line '%s' is missing",
                               !o->kernel[0]     ? "kernel NAME"
                               : o->grid[0] == 0 ? "groups X [Y]"
                                                 : "group X [Y]");
    COPSE_TRY(check_buffers(l, o));
    if (!o->has_reference)
        return o->has_limit ? own_launch_fail(
                                  l, "limit without a reference: name one, or leave the limit out")
                            : COPSE_OK;
    COPSE_TRY(check_reference(l, o));
    if (!o->has_limit) {
        struct copse_limit limit;
        copse__law_limit(copse_kernel_table[o->reference].law, NULL, o->reference_spec, &limit);
        o->limit.ulp = limit.ulp;
        o->limit.ratio = limit.ratio;
    }
    return COPSE_OK;
}

static copse_status own_launch_split(struct line *l, char *text)
{
    static const char blank[] = " \t\r";
    l->count = 0;
    text[strcspn(text, "#")] = '\0';
    for (char *at = text + strspn(text, blank); *at; at += strspn(at, blank)) {
        if (l->count == MOST_WORDS)
            return own_launch_fail(l, "more than %d words", MOST_WORDS);
        l->words[l->count++] = at;
        at += strcspn(at, blank);
        if (*at)
            *at++ = '\0';
    }
    return COPSE_OK;
}

copse_status copse__own_launch_parse(const char *name, const char *text,
                                     struct copse_own_launch *out)
{
    struct line l = { .file = name };
    char copy[512];
    *out = (struct copse_own_launch){ .runs = 20, .values = COPSE_BIT(COPSE_VALUES_USUAL) };
    while (*text) {
        const size_t length = strcspn(text, "\n");
        l.number++;
        if (length >= sizeof copy)
            return own_launch_fail(&l, "the line has more than %zu bytes", sizeof copy - 1);
        memcpy(copy, text, length);
        copy[length] = '\0';
        COPSE_TRY(own_launch_split(&l, copy));
        if (l.count > 0)
            COPSE_TRY(take_line(&l, out));
        text += length + (text[length] == '\n');
    }
    return own_launch_complete(&l, out);
}

bool copse__own_launch_is(const struct copse_own_kernel *own)
{
    return own && own->kernel && own->kernel[0] == '@';
}

copse_status copse__own_launch_read(struct copse_mem *mem, const struct copse_own_kernel *own,
                                    struct copse_own_launch *out)
{
    const char *path = own->kernel + 1;
    FILE *f;
    uint64_t bytes;
    COPSE_TRY(
        copse_note(copse__file_open(path, &f, &bytes), "it describes the launch of a kernel"));
    char *text = copse__alloc(mem, MOST_TEXT + 1, 1);
    const size_t size = text ? fread(text, 1, MOST_TEXT + 1, f) : 0;
    copse_status s = copse_need_memory(text, "conformance");
    fclose(f);
    if (s == COPSE_OK && (size > MOST_TEXT || strlen(text) != size))
        s = copse_fail(COPSE_ERR_FORMAT,
                       "'%s' is no description of a launch: a text of up to 64 KiB", path);
    if (s == COPSE_OK)
        s = copse__own_launch_parse(path, text, out);
    copse__free(mem, text);
    return s;
}
