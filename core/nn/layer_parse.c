/* SPDX-License-Identifier: MIT */
/* The description of layers in text: layers end at ';' or at the end of the line, '#' begins a
   comment, braces nest. */
#include <stdio.h>

#include "core/data/reader/byte_stream.h"
#include "core/nn/layer.h"

#define EXCERPT 40 /* bytes of a layer in messages */

struct parser {
    copse_context *ctx;
    const char *at;
    uint32_t line;  /* of `at`, from 1 */
    size_t count;   /* layers so far */
    uint32_t depth; /* open braces */
    struct {
        const char *at;
        uint32_t line;
    } layer; /* the current one */
};

struct word {
    const char *at;
    size_t size;
};

/* ---- messages ---- */

/* Bytes up to the end of the layer or its '{', without blanks at the end. */
static size_t layer_size(const char *text)
{
    size_t size = strcspn(text, ";\n#{}");
    while (size > 0 && strchr(" \t\r", text[size - 1]))
        size--;
    return size;
}

/* The start of a text for a message: whole UTF-8 characters, without control characters. */
static void layer_parse_excerpt(const char *from, size_t size, char text[EXCERPT + 4])
{
    const size_t most = COPSE_MIN(size, EXCERPT), valid = copse__utf8_valid(from, most);
    for (size_t i = 0; i < valid; i++)
        text[i] = (unsigned char)from[i] < ' ' || from[i] == 0x7f ? '?' : from[i];
    strcpy(text + valid, valid < size ? "..." : "");
}

static copse_status layer_parse_fail(const struct parser *p, int line, const char *fmt, ...)
    COPSE_PRINTF(3, 4);
static copse_status layer_parse_fail(const struct parser *p, int line, const char *fmt, ...)
{
    char layer[EXCERPT + 4], text[512];
    va_list args;
    layer_parse_excerpt(p->layer.at, layer_size(p->layer.at), layer);
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return copse__fail(COPSE_ERR_ARGUMENT, __FILE__, line, "line %u, layer %zu '%s': %s",
                       (unsigned)p->layer.line, p->count, layer, text);
}
#define parse_fail(p, ...) layer_parse_fail(p, __LINE__, __VA_ARGS__)

/* "dense UNITS [ACTIVATION] [bias=yes|no]" */
static void layer_parse_usage(const struct copse_layer_kind *k, char *text, size_t room)
{
    struct copse_layer_writer w = { text, room, 0 };
    copse__layer_write(&w, "%s", k->name);
    for (uint32_t i = 0; i < COPSE_LAYER_SETTINGS && k->setting[i].name; i++) {
        const struct copse_setting *s = &k->setting[i];
        copse__layer_write(&w,
                           s->is_required ? " %s"
                           : s->is_word   ? " [%s]"
                                          : " [%s=...]",
                           s->name);
    }
    if (k->has_inner)
        copse__layer_write(&w, " { LAYERS }");
}

/* ---- did you mean ---- */

/* Changes of a letter, and swaps of two, that make a name of a word (at most `most` long each). */
static uint32_t layer_parse_distance(struct word a, const char *b)
{
    enum { MOST = 24 };
    uint32_t row[3][MOST + 1];
    const size_t n = strlen(b);
    if (a.size > MOST || n > MOST)
        return MOST;
    for (size_t i = 0; i <= a.size; i++)
        for (size_t k = 0; k <= n; k++) {
            uint32_t *now = row[i % 3];
            if (i == 0 || k == 0) {
                now[k] = (uint32_t)(i + k);
                continue;
            }
            const uint32_t *last = row[(i + 2) % 3];
            now[k] = COPSE_MIN(COPSE_MIN(last[k], now[k - 1]) + 1,
                               last[k - 1] + (a.at[i - 1] != b[k - 1]));
            if (i > 1 && k > 1 && a.at[i - 1] == b[k - 2] && a.at[i - 2] == b[k - 1])
                now[k] = COPSE_MIN(now[k], row[(i + 1) % 3][k - 2] + 1);
        }
    return row[a.size % 3][n];
}

static copse_status fail_name(const struct parser *p, struct word name)
{
    char list[512];
    struct copse_layer_writer w = { list, sizeof list, 0 };
    uint32_t best = 3;
    const char *meant = NULL;
    for (size_t i = 0; copse__layer_kinds[i]; i++) {
        const uint32_t d = layer_parse_distance(name, copse__layer_kinds[i]->name);
        copse__layer_write(&w, "%s, ", copse__layer_kinds[i]->name);
        if (d < best && d < name.size) {
            best = d;
            meant = copse__layer_kinds[i]->name;
        }
    }
    return meant ? parse_fail(p, "no layer has this name; did you mean %s?", meant)
                 : parse_fail(p, "no layer has this name; the layers are %smlp:WIDTH,...", list);
}

/* ---- words ---- */

static void skip_blanks(struct parser *p)
{
    p->at += strspn(p->at, " \t\r");
}

/* Blanks, comments, ends of lines and of layers. */
static void skip_to_layer(struct parser *p)
{
    for (;; p->at++) {
        skip_blanks(p);
        if (*p->at == '#')
            p->at += strcspn(p->at, "\n");
        if (*p->at == '\n')
            p->line++;
        else if (*p->at != ';')
            return;
    }
}

/* The next word of the layer; false at its end. */
static bool next_word(struct parser *p, struct word *out)
{
    skip_blanks(p);
    *out = (struct word){ p->at, strcspn(p->at, " \t\r\n;#{}") };
    p->at += out->size;
    return out->size > 0;
}

static bool is_word(struct word w, const char *text)
{
    return strlen(text) == w.size && memcmp(w.at, text, w.size) == 0;
}

/* ---- settings ---- */

static copse_status layer_parse_set(struct parser *p, copse_layer *l, uint32_t i, struct word value,
                                    bool *is_set)
{
    const struct copse_setting *s = &l->kind->setting[i];
    char rule[200], text[EXCERPT + 4];
    if (is_set[i])
        return parse_fail(p, "%s is given twice", s->name);
    is_set[i] = true;
    if (copse__setting_parse(s, value.at, value.size, &l->value[i]))
        return COPSE_OK;
    copse__setting_rule(s, rule, sizeof rule);
    layer_parse_excerpt(value.at, value.size, text);
    return parse_fail(p, "%s is '%s': %s is needed", s->name, text, rule);
}

/* The setting that a word is for: by its name, or the next one that is given by position. */
static copse_status find_setting(struct parser *p, const copse_layer *l, struct word *word,
                                 const bool *is_set, uint32_t *out)
{
    const struct copse_setting *s = l->kind->setting;
    const char *equals = memchr(word->at, '=', word->size);
    const struct word name = { word->at, equals ? (size_t)(equals - word->at) : 0 };
    char text[EXCERPT + 4], use[160];
    for (*out = 0; *out < COPSE_LAYER_SETTINGS && s[*out].name; ++*out) {
        if (equals ? !s[*out].is_word && is_word(name, s[*out].name)
                   : s[*out].is_word && !is_set[*out]) {
            if (equals)
                *word = (struct word){ equals + 1, word->size - name.size - 1 };
            return COPSE_OK;
        }
    }
    layer_parse_excerpt(word->at, word->size, text);
    layer_parse_usage(l->kind, use, sizeof use);
    return parse_fail(p, "'%s' does not belong to this layer: write %s", text, use);
}

static copse_status parse_settings(struct parser *p, copse_layer *l)
{
    bool is_set[COPSE_LAYER_SETTINGS] = { false };
    struct word word;
    char use[160];
    uint32_t i;
    while (next_word(p, &word)) {
        COPSE_TRY(find_setting(p, l, &word, is_set, &i));
        COPSE_TRY(layer_parse_set(p, l, i, word, is_set));
    }
    for (i = 0; i < COPSE_LAYER_SETTINGS && l->kind->setting[i].name; i++)
        if (l->kind->setting[i].is_required && !is_set[i]) {
            layer_parse_usage(l->kind, use, sizeof use);
            return parse_fail(p, "%s is missing: write %s", l->kind->setting[i].name, use);
        }
    return COPSE_OK;
}

/* ---- layers ---- */

/* Behind a layer: an end of it. */
static copse_status check_end(struct parser *p)
{
    skip_blanks(p);
    if (*p->at == '{')
        return parse_fail(p, "only residual and shortcut have layers in braces");
    if (*p->at == '}' && p->depth == 0)
        return parse_fail(p, "'}' has no '{'");
    return *p->at && !strchr(";\n#}", *p->at)
               ? parse_fail(p, "a ';' or an end of line is missing behind '}'")
               : COPSE_OK;
}

static copse_status layer_parse_add(struct parser *p, copse_layer *to,
                                    const struct copse_layer_kind *kind, copse_layer **out)
{
    copse_layer *l;
    COPSE_TRY(copse__layer_new(p->ctx, kind, &l));
    l->line = p->layer.line;
    COPSE_TRY(copse__layer_append(to, l));
    *out = l;
    return COPSE_OK;
}

/* mlp:512,512 [ACTIVATION] [dropout=RATE]: flatten, dense layers of these widths, a last one of the
   outputs. */
static copse_status parse_mlp(struct parser *p, struct word name, copse_layer *to)
{
    struct copse_setting_value rate;
    copse_layer *mlp, *made;
    copse_status s;
    COPSE_TRY(copse__layer_new(p->ctx, &copse__layer_mlp, &mlp));
    s = parse_settings(p, mlp);
    const char *text = name.at + (name.size > 3 ? 4 : 3), *end = name.at + name.size;
    if (!s)
        s = layer_parse_add(p, to, &copse__layer_flatten, &made);
    rate = mlp->value[COPSE_MLP_DROPOUT];
    while (!s && text < end) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        const struct word width = { text, (size_t)((comma ? comma : end) - text) };
        bool is_set[COPSE_LAYER_SETTINGS] = { false };
        s = layer_parse_add(p, to, &copse__layer_dense, &made);
        if (!s)
            s = layer_parse_set(p, made, COPSE_DENSE_UNITS, width, is_set);
        if (!s && (made->value[COPSE_DENSE_UNITS].count == 0 || (comma && comma + 1 == end)))
            s = parse_fail(p, "write mlp:WIDTH,WIDTH,... with the widths of the hidden layers, "
                              "such as mlp:128,64");
        if (!s)
            made->value[COPSE_DENSE_ACTIVATION] = mlp->value[COPSE_MLP_ACTIVATION];
        if (!s && rate.number > 0.0f)
            s = layer_parse_add(p, to, &copse__layer_dropout, &made);
        if (!s && rate.number > 0.0f)
            made->value[COPSE_DROPOUT_RATE] = rate;
        text = comma ? comma + 1 : end;
    }
    if (!s)
        s = layer_parse_add(p, to, &copse__layer_dense, &made); /* its units are `out` */
    copse_layer_release(&mlp);
    return s;
}

static copse_status parse_layers(struct parser *p, copse_layer *to);

static copse_status parse_inner(struct parser *p, copse_layer *l)
{
    const struct parser outer = *p;
    if (*p->at != '{')
        return parse_fail(p, "'{' is missing: write %s { LAYERS }", l->kind->name);
    if (p->depth == COPSE_LAYER_DEPTH)
        return parse_fail(p, "layers are nested more than %d deep", COPSE_LAYER_DEPTH);
    p->at++;
    p->depth++;
    COPSE_TRY(parse_layers(p, l));
    p->depth--;
    if (*p->at != '}')
        return parse_fail(&outer, "its '{' has no '}'");
    p->at++;
    return l->inner.count > 0 ? COPSE_OK : parse_fail(&outer, "has no layer in its braces");
}

static copse_status parse_layer(struct parser *p, copse_layer *to)
{
    struct word name;
    copse_layer *l;
    p->layer.at = p->at;
    p->layer.line = p->line;
    if (++p->count > COPSE_LAYER_MOST)
        return parse_fail(p, "a description has at most %d layers", COPSE_LAYER_MOST);
    if (!next_word(p, &name))
        return parse_fail(p, "'%c' without a layer in front", *p->at);
    if (name.size >= 3 && memcmp(name.at, "mlp", 3) == 0 && (name.size == 3 || name.at[3] == ':')) {
        COPSE_TRY(parse_mlp(p, name, to));
        return check_end(p);
    }
    size_t i = 0;
    while (copse__layer_kinds[i] && !is_word(name, copse__layer_kinds[i]->name))
        i++;
    if (!copse__layer_kinds[i])
        return fail_name(p, name);
    COPSE_TRY(layer_parse_add(p, to, copse__layer_kinds[i], &l));
    COPSE_TRY(parse_settings(p, l));
    if (l->kind->has_inner)
        COPSE_TRY(parse_inner(p, l));
    return check_end(p);
}

/* Up to the end of the text, or to a '}' that has a '{'. */
static copse_status parse_layers(struct parser *p, copse_layer *to)
{
    for (;;) {
        skip_to_layer(p);
        if (!*p->at || (*p->at == '}' && p->depth > 0))
            return COPSE_OK;
        COPSE_TRY(parse_layer(p, to));
    }
}

static copse_status check_utf8(const char *text)
{
    const size_t size = strlen(text), valid = copse__utf8_valid(text, size);
    uint32_t line = 1;
    for (size_t i = 0; i < valid; i++)
        line += text[i] == '\n';
    return valid == size ? COPSE_OK
                         : copse_fail(COPSE_ERR_ARGUMENT, "line %u: byte 0x%02x is not UTF-8",
                                      (unsigned)line, (unsigned char)text[valid]);
}

copse_status copse_nn_parse(copse_context *ctx, const char *text, copse_layer **out)
{
    struct parser p = { .ctx = ctx, .at = text, .line = 1 };
    copse_layer *l;
    COPSE_TRY(copse_need("layers", out));
    *out = NULL;
    COPSE_TRY(copse_need("layers", ctx, text));
    COPSE_TRY(check_utf8(text));
    COPSE_TRY(copse__layer_new(ctx, &copse__layer_row, &l));
    copse_status s = parse_layers(&p, l);
    if (!s && l->inner.count == 0)
        s = copse_fail(COPSE_ERR_ARGUMENT, "layers: the description has no layer");
    if (!s)
        s = copse__layer_check(l);
    if (s)
        copse_layer_release(&l);
    *out = l;
    return s;
}
