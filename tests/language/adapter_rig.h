/* SPDX-License-Identifier: MIT */
/* What tests of adapters share. */
#ifndef ADAPTER_RIG_H
#define ADAPTER_RIG_H

#include "copse/train/adapt.h"
#include "tests/language/language_rig.h"
#include "tests/rig/found.h"

enum { RANK = 3, WINDOW = 12 };
static const char text[] = "the hen sings and the owl sleeps, hello fox; the cat waits ???";

static inline int begin(void **state)
{
    (void)state;
    temp_begin();
    if (copse_context_create(&(struct copse_context_params){ .disable = NULL }, &ctx) != COPSE_OK)
        return 1;
    find_devices(ctx);
    return 0;
}

static inline int end(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    temp_end();
    return 0;
}

static inline const char *path_of(const char *name)
{
    static char paths[4][300];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", temp_folder, name);
    return path;
}

static inline copse_variable *variable_of(const char *name)
{
    copse_variable *const *list;
    size_t count;
    copse_strategy_variables(st, &list, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(copse_variable_name(list[i]), name) == 0)
            return list[i];
    return NULL;
}

static inline size_t elements_of(copse_variable *v)
{
    const copse_shape s = copse_variable_shape(v);
    return (size_t)s.dims[0] * (s.rank > 1 ? s.dims[1] : 1);
}

/* All values of the strategy's variables that are adapters or are not; the caller frees them. */
static inline float *values_of(bool is_adapter, size_t *total)
{
    copse_variable *const *list;
    size_t count;
    float *all = malloc(sizeof *all * 200000);
    assert_non_null(all);
    *total = 0;
    copse_strategy_variables(st, &list, &count);
    for (size_t i = 0; i < count; i++)
        if ((strstr(copse_variable_name(list[i]), ".lora_") != NULL) == is_adapter) {
            assert_true(*total + elements_of(list[i]) < 200000);
            OK(copse_variable_read(list[i], 0, all + *total));
            *total += elements_of(list[i]);
        }
    return all;
}

static inline double evaluate(void)
{
    struct copse_language_evaluation e;
    OK(copse_language_evaluate(language, text, sizeof text - 1, WINDOW, &e));
    return e.loss;
}

/* Random values for all matrices, those with zeros too. */
static inline void fill_matrices(void)
{
    copse_variable *const *list;
    static float numbers[HIDDEN * WIDTH];
    size_t count;
    random_state = 31;
    copse_strategy_variables(st, &list, &count);
    for (size_t i = 0; i < count; i++)
        if (strstr(copse_variable_name(list[i]), ".lora_")) {
            fill(numbers, elements_of(list[i]), 0, 0.6f);
            OK(copse_variable_assign(list[i], numbers));
        }
}

static inline void open_adapted(const struct copse_adapter_params *how)
{
    open_kind(&llama);
    OK(copse_language_adapt(language, how));
}

static inline float loaded_alpha(const char *path)
{
    struct copse_adapter_info info;
    open_kind(&llama);
    OK(copse_language_load_adapter(language, path));
    OK(copse_language_describe_adapter(language, &info));
    close_file();
    return info.alpha;
}

#endif
