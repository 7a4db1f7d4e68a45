/* SPDX-License-Identifier: MIT */
/* Shared by the tests of layers: texts of layers, built layers in a function. */
#ifndef LAYER_RIG_H
#define LAYER_RIG_H

#include "copse/device/function.h"
#include "tests/rig/one_context.h"

static inline copse_layer *parsed(const char *text)
{
    copse_layer *l = NULL;
    OK(copse_nn_parse(ctx, text, &l));
    return l;
}

/* The description in static memory, until 4 others. */
static inline const char *text_of(const copse_layer *l)
{
    static char *texts[4];
    static unsigned next;
    char **to = &texts[next++ % 4];
    size_t needed;
    OK(copse_layer_text(l, NULL, 0, &needed));
    *to = realloc(*to, needed);
    OK(copse_layer_text(l, *to, needed, &needed));
    assert_int_equal(strlen(*to) + 1, needed);
    return *to;
}

static inline copse_strategy *on_host(void)
{
    copse_strategy *st = NULL;
    OK(copse_one_device_create(ctx, "host:0", NULL, &st));
    return st;
}

static inline copse_variable *variable_of(copse_strategy *st, const char *name)
{
    copse_variable *const *list;
    size_t count;
    copse_strategy_variables(st, &list, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(copse_variable_name(list[i]), name) == 0)
            return list[i];
    fail_msg("no variable '%s'", name);
    return NULL;
}

#endif
