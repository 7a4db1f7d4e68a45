/* SPDX-License-Identifier: MIT */
/* Layers as text: the description, and the table for people. */
#include <stdio.h>

#include "core/graph/graph.h"
#include "core/nn/layer.h"

void copse__layer_write(struct copse_layer_writer *w, const char *fmt, ...)
{
    const bool has_room = w->text && w->at < w->room;
    va_list args;
    va_start(args, fmt);
    const int n =
        vsnprintf(has_room ? w->text + w->at : NULL, has_room ? w->room - w->at : 0, fmt, args);
    va_end(args);
    w->at += n > 0 ? (size_t)n : 0;
}

void copse__layer_write_settings(struct copse_layer_writer *w, const copse_layer *l)
{
    char text[40];
    for (uint32_t i = 0; i < COPSE_LAYER_SETTINGS && l->kind->setting[i].name; i++) {
        const struct copse_setting *s = &l->kind->setting[i];
        if (!s->is_required && copse__setting_is_normal(s, l->value[i]))
            continue;
        copse__setting_print(s, l->value[i], text, sizeof text);
        copse__layer_write(w, s->is_word ? " %.0s%s" : " %s=%s", s->name, text);
    }
}

copse_status copse__layer_written(const struct copse_layer_writer *w, const char *what,
                                  size_t *needed)
{
    *needed = w->at + 1;
    return !w->text || w->at < w->room
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT, "%s: %zu bytes are needed, there are %zu", what,
                            w->at + 1, w->room);
}

/* ---- the description ---- */

static void write_layers(struct copse_layer_writer *w, const copse_layer *l);

static void write_layer(struct copse_layer_writer *w, const copse_layer *l)
{
    copse__layer_write(w, "%s", l->kind->name);
    copse__layer_write_settings(w, l);
    if (!l->kind->has_inner)
        return;
    copse__layer_write(w, " { ");
    write_layers(w, l);
    copse__layer_write(w, " }");
}

static void write_layers(struct copse_layer_writer *w, const copse_layer *l)
{
    for (size_t i = 0; i < l->inner.count; i++) {
        if (i > 0)
            copse__layer_write(w, "; ");
        write_layer(w, l->inner.at[i]);
    }
}

static copse_status layer_print_begin(const char *what, const copse_layer *l, char *text,
                                      size_t room, const size_t *needed,
                                      struct copse_layer_writer *w)
{
    COPSE_TRY(copse_need(what, l, needed));
    if (room > 0)
        COPSE_TRY(copse_need(what, text));
    *w = (struct copse_layer_writer){ room > 0 ? text : NULL, room, 0 };
    return COPSE_OK;
}

copse_status copse_layer_text(const copse_layer *l, char *text, size_t room, size_t *needed)
{
    struct copse_layer_writer w;
    COPSE_TRY(layer_print_begin("layer text", l, text, room, needed, &w));
    if (l->kind->name)
        write_layer(&w, l);
    else
        write_layers(&w, l);
    return copse__layer_written(&w, "layer text", needed);
}

/* ---- the table ---- */

static uint64_t own_elements(const copse_layer *l, bool are_trained)
{
    return l->elements[!are_trained];
}

static uint64_t all_elements(const copse_layer *l, bool are_trained)
{
    uint64_t n = own_elements(l, are_trained);
    for (size_t i = 0; i < l->inner.count; i++)
        n += all_elements(l->inner.at[i], are_trained);
    return n;
}

uint64_t copse_layer_parameters(const copse_layer *l)
{
    return l && (l->strategy || l->is_planned) ? all_elements(l, true) : 0;
}

/* 1234567 as "1,234,567" */
static const char *layer_print_grouped(uint64_t n, char text[32])
{
    char digits[24];
    const size_t count = (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

static void write_row(struct copse_layer_writer *w, const char *name, const char *output,
                      uint64_t parameters)
{
    char number[32];
    copse__layer_write(w, "%-34s %-20s %15s\n", name, output,
                       layer_print_grouped(parameters, number));
}

static void layer_print_summarize(struct copse_layer_writer *w, const copse_layer *l, int depth)
{
    char name[COPSE_LAYER_NAME], shape[96];
    if (l->kind->name) {
        struct copse_layer_writer row = { name, sizeof name, 0 };
        copse__layer_write(&row, "%*s%s%u", 2 * depth, "", l->kind->name, (unsigned)l->ordinal);
        copse__layer_write_settings(&row, l);
        write_row(w, name, copse__shape_text(l->out.shape, shape), own_elements(l, true));
    }
    for (size_t i = 0; i < l->inner.count; i++)
        layer_print_summarize(w, l->inner.at[i], depth + (l->kind->name != NULL));
}

copse_status copse_layer_summary(const copse_layer *l, char *text, size_t room, size_t *needed)
{
    struct copse_layer_writer w;
    char number[32];
    COPSE_TRY(layer_print_begin("layer summary", l, text, room, needed, &w));
    if (!l->strategy && !l->is_planned)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "layer summary: the layers are not built: see copse_layer_build");
    copse__layer_write(&w, "%-34s %-20s %15s\n", "layer", "output", "parameters");
    layer_print_summarize(&w, l, 0);
    write_row(&w, "total", "", all_elements(l, true));
    if (all_elements(l, false) > 0)
        copse__layer_write(&w, "%s more numbers are not trained\n",
                           layer_print_grouped(all_elements(l, false), number));
    return copse__layer_written(&w, "layer summary", needed);
}
