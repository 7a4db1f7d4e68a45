/* SPDX-License-Identifier: MIT */
/* Settings of layers as text. */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "core/data/reader/number.h"
#include "core/nn/layer.h"

const char *const copse__activation_names[] = {
    [COPSE_LINEAR] = "linear", [COPSE_RELU] = "relu", [COPSE_SIGMOID] = "sigmoid",
    [COPSE_TANH] = "tanh",     [COPSE_GELU] = "gelu", [COPSE_SILU] = "silu",
    [COPSE_SILU + 1] = NULL,
};

static const struct {
    const char *name;
    copse_initializer initializer;
} initializers[] = {
    [COPSE_LAYER_INIT_AUTO] = { "auto", COPSE_INIT_DEFAULT },
    [COPSE_LAYER_INIT_GLOROT] = { "glorot", COPSE_INIT_GLOROT_UNIFORM },
    [COPSE_LAYER_INIT_HE] = { "he", COPSE_INIT_HE_NORMAL },
    [COPSE_LAYER_INIT_NORMAL] = { "normal", COPSE_INIT_NORMAL },
    [COPSE_LAYER_INIT_TRUNCATED_NORMAL] = { "truncated_normal", COPSE_INIT_TRUNCATED_NORMAL },
    [COPSE_LAYER_INIT_ORTHOGONAL] = { "orthogonal", COPSE_INIT_ORTHOGONAL },
    [COPSE_LAYER_INIT_ZEROS] = { "zeros", COPSE_INIT_ZEROS },
    [COPSE_LAYER_INIT_ONES] = { "ones", COPSE_INIT_ONES },
};

static bool is_text(const char *text, size_t size, const char *other)
{
    return strlen(other) == size && memcmp(text, other, size) == 0;
}

/* Digits without a leading zero, 1 to 2^31-1. */
static bool parse_count(const char *text, size_t size, uint32_t *out)
{
    uint64_t n = 0;
    if (size == 0 || text[0] == '0')
        return false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        n = 10 * n + (uint64_t)(text[i] - '0');
        if (n > INT32_MAX)
            return false;
    }
    *out = (uint32_t)n;
    return true;
}

static bool parse_number(const char *text, size_t size, double low, double high, float *out)
{
    double n;
    if (!copse__number_parse(text, size, &n) || !(fabs(n) <= (double)FLT_MAX))
        return false;
    *out = (float)n;
    return (double)*out >= low && (double)*out < high;
}

static bool parse_initializer(const char *text, size_t size, struct copse_setting_value *out)
{
    for (uint32_t i = 0; i < COPSE_COUNT(initializers); i++)
        if (is_text(text, size, initializers[i].name)) {
            out->count = i;
            return true;
        }
    out->count = COPSE_LAYER_INIT_CONSTANT;
    return parse_number(text, size, -INFINITY, INFINITY, &out->number);
}

/* "3" or "3x5" */
static bool parse_sides(const char *text, size_t size, uint32_t *out)
{
    const char *x = memchr(text, 'x', size);
    uint32_t first = 0, last;
    if (x && (!parse_count(text, (size_t)(x - text), &first) || first > 32767))
        return false;
    if (x) {
        size -= (size_t)(x + 1 - text);
        text = x + 1;
    }
    if (!parse_count(text, size, &last) || last > 32767)
        return false;
    *out = first << 16 | last;
    return true;
}

bool copse__setting_parse(const struct copse_setting *s, const char *text, size_t size,
                          struct copse_setting_value *out)
{
    *out = (struct copse_setting_value){ 0 };
    switch (s->form) {
    case COPSE_SETTING_UNITS:
        if (is_text(text, size, "out"))
            return true;
        return parse_count(text, size, &out->count);
    case COPSE_SETTING_TOKENS:
        if (is_text(text, size, "in"))
            return true;
        return parse_count(text, size, &out->count);
    case COPSE_SETTING_COUNT:
        return parse_count(text, size, &out->count);
    case COPSE_SETTING_SIDES:
        return parse_sides(text, size, &out->count);
    case COPSE_SETTING_NUMBER:
        return parse_number(text, size, s->low, s->high, &out->number);
    case COPSE_SETTING_FLAG:
        out->count = is_text(text, size, "yes");
        return out->count || is_text(text, size, "no");
    case COPSE_SETTING_CHOICE:
        while (s->names[out->count] && !is_text(text, size, s->names[out->count]))
            out->count++;
        return s->names[out->count] != NULL;
    case COPSE_SETTING_INITIALIZER:
        return parse_initializer(text, size, out);
    }
    return false;
}

static uint32_t count_of(const char *const *names)
{
    uint32_t n = 0;
    while (names[n])
        n++;
    return n;
}

/* "a, b or c" */
static void list_names(const char *const *names, size_t count, char *text, size_t room)
{
    size_t at = 0;
    for (size_t i = 0; i < count && at < room; i++)
        at += (size_t)snprintf(text + at, room - at, "%s%s",
                               i == 0          ? ""
                               : i + 1 < count ? ", "
                                               : " or ",
                               names[i]);
}

void copse__setting_rule(const struct copse_setting *s, char *text, size_t room)
{
    const char *names[COPSE_COUNT(initializers) + 1];
    switch (s->form) {
    case COPSE_SETTING_UNITS:
    case COPSE_SETTING_TOKENS:
    case COPSE_SETTING_COUNT:
        snprintf(text, room, "a whole number from 1 to %d%s", INT32_MAX,
                 s->form == COPSE_SETTING_UNITS    ? ", or out"
                 : s->form == COPSE_SETTING_TOKENS ? ", or in"
                                                   : "");
        return;
    case COPSE_SETTING_SIDES:
        snprintf(text, room, "a whole number from 1 to 32767, or two, as 3x5,");
        return;
    case COPSE_SETTING_NUMBER:
        snprintf(text, room, "a number from %g to below %g", s->low, s->high);
        return;
    case COPSE_SETTING_FLAG:
        snprintf(text, room, "yes or no");
        return;
    case COPSE_SETTING_CHOICE:
        list_names(s->names, count_of(s->names), text, room);
        return;
    case COPSE_SETTING_INITIALIZER:
        for (size_t i = 0; i < COPSE_COUNT(initializers); i++)
            names[i] = initializers[i].name;
        names[COPSE_COUNT(initializers)] = "a number";
        list_names(names, COPSE_COUNT(names), text, room);
        return;
    }
}

/* The locale's decimal point may be other characters than '.'. */
static void print_digits(float x, int digits, char *text, size_t room)
{
    size_t to = 0;
    snprintf(text, room, "%.*g", digits, (double)x);
    for (size_t i = 0; text[i]; i++) {
        const bool is_plain = strchr("0123456789+-e", text[i]) != NULL;
        if (is_plain || to == 0 || text[to - 1] != '.')
            text[to++] = is_plain ? text[i] : '.';
    }
    text[to] = '\0';
}

/* As few digits as give the same float again. */
static void print_number(float x, char *text, size_t room)
{
    float again;
    for (int digits = 6; digits <= 9; digits++) {
        print_digits(x, digits, text, room);
        if (parse_number(text, strlen(text), -INFINITY, INFINITY, &again) && again == x)
            return;
    }
}

void copse__setting_print(const struct copse_setting *s, struct copse_setting_value v, char *text,
                          size_t room)
{
    switch (s->form) {
    case COPSE_SETTING_UNITS:
    case COPSE_SETTING_TOKENS:
    case COPSE_SETTING_COUNT:
        snprintf(text, room,
                 v.count > 0                       ? "%u"
                 : s->form == COPSE_SETTING_TOKENS ? "in"
                                                   : "out",
                 (unsigned)v.count);
        return;
    case COPSE_SETTING_SIDES:
        snprintf(text, room, v.count >> 16 ? "%ux%u" : "%.0u%u", (unsigned)v.count >> 16,
                 (unsigned)v.count & 0xffff);
        return;
    case COPSE_SETTING_NUMBER:
        print_number(v.number, text, room);
        return;
    case COPSE_SETTING_FLAG:
        snprintf(text, room, "%s", v.count ? "yes" : "no");
        return;
    case COPSE_SETTING_CHOICE:
        snprintf(text, room, "%s", s->names[v.count]);
        return;
    case COPSE_SETTING_INITIALIZER:
        if (v.count < COPSE_LAYER_INIT_CONSTANT)
            snprintf(text, room, "%s", initializers[v.count].name);
        else
            print_number(v.number, text, room);
        return;
    }
}

copse_status copse__setting_check(const struct copse_setting *s, struct copse_setting_value v,
                                  const char *layer)
{
    char rule[160], value[40];
    const bool is_right =
        s->form == COPSE_SETTING_NUMBER ? (double)v.number >= s->low && (double)v.number < s->high
        : s->form == COPSE_SETTING_CHOICE
            ? v.count < count_of(s->names)
            : v.count <= INT32_MAX && (v.count > 0 || s->form == COPSE_SETTING_UNITS ||
                                       s->form == COPSE_SETTING_TOKENS);
    if (is_right)
        return COPSE_OK;
    copse__setting_rule(s, rule, sizeof rule);
    if (s->form == COPSE_SETTING_NUMBER)
        snprintf(value, sizeof value, "%g", (double)v.number);
    else
        snprintf(value, sizeof value, "%u", (unsigned)v.count);
    return copse_fail(COPSE_ERR_ARGUMENT, "%s: %s is %s: %s is needed", layer, s->name, value,
                      rule);
}

bool copse__setting_is_normal(const struct copse_setting *s, struct copse_setting_value v)
{
    return v.count == s->normal.count && v.number == s->normal.number;
}

copse_initializer copse__layer_initializer(copse_activation a)
{
    return a == COPSE_RELU || a == COPSE_GELU || a == COPSE_SILU ? COPSE_INIT_HE_NORMAL
                                                                 : COPSE_INIT_GLOROT_UNIFORM;
}

void copse__setting_initialize(struct copse_setting_value v, copse_initializer automatic,
                               float scale, struct copse_variable_params *p)
{
    p->scale = scale;
    if (v.count == COPSE_LAYER_INIT_AUTO) {
        p->initializer = automatic;
    } else if (v.count < COPSE_LAYER_INIT_CONSTANT) {
        p->initializer = initializers[v.count].initializer;
        if (v.count == COPSE_LAYER_INIT_TRUNCATED_NORMAL && scale == 0.0f)
            p->scale = 0.02f;
    } else {
        p->initializer = v.number == 0.0f ? COPSE_INIT_ZEROS : COPSE_INIT_ONES;
        p->scale = v.number * (scale == 0.0f ? 1.0f : scale);
    }
}
