/* SPDX-License-Identifier: MIT */
/* What tests of adapters share. */
#ifndef ADAPTER_RIG_H
#define ADAPTER_RIG_H

#include "copse/train/adapt.h"
#include "tests/language/language_rig.h"
#include "tests/rig/found.h"

enum { RANK = 3, MOST_RANK = 16, WINDOW = 12 };
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

/* ---- the reference ---- */

/* Memory that ends after `left` allocations; below 0: never. */
static struct {
    long left;
} hunger = { -1 };

static inline void *hungry(void *user, void *block, size_t size)
{
    (void)user;
    if (size == 0) {
        free(block);
        return NULL;
    }
    if (hunger.left == 0)
        return NULL;
    if (hunger.left > 0)
        hunger.left--;
    return realloc(block, size);
}

/* Lengths of the rows of DoRA in the order of the weights: computed, or the older ones. */
static double lengths[LAYERS * 7 * HIDDEN];
static size_t length_count;
static bool keeps_lengths;

/* Rows of v get the magnitudes of a weight, if it has any. */
static inline void measure(const char *module, const double *v, uint32_t rows, uint32_t columns,
                           float *to)
{
    char full[200];
    float magnitudes[HIDDEN];
    snprintf(full, sizeof full, "%s.lora_magnitude_vector", module);
    copse_variable *m = variable_of(full);
    if (m)
        OK(copse_variable_read(m, 0, magnitudes));
    for (uint32_t r = 0; r < rows; r++, v += columns, to += columns) {
        double factor = 1, squares = 0;
        for (uint32_t c = 0; c < columns; c++)
            squares += v[c] * v[c];
        if (m && !keeps_lengths)
            lengths[length_count] = sqrt(squares);
        if (m)
            factor = (double)magnitudes[r] / lengths[length_count++];
        for (uint32_t c = 0; c < columns; c++)
            to[c] = (float)(factor * v[c]);
    }
}

/* W + s B A in the reference. */
static inline void merge_into(float *w, uint32_t rows, uint32_t columns, uint32_t layer,
                              const char *name, double scale)
{
    char full[200], module[120];
    static double sums[HIDDEN * WIDTH];
    static float a[MOST_RANK * HIDDEN], b[HIDDEN * MOST_RANK];
    snprintf(module, sizeof module, "base_model.model.model.layers.%u.%s", layer, name);
    snprintf(full, sizeof full, "%s.lora_A.weight", module);
    copse_variable *v = variable_of(full);
    if (!v)
        return;
    const uint32_t rank = copse_variable_shape(v).dims[0];
    assert_true(rank <= MOST_RANK);
    assert_int_equal(copse_variable_shape(v).dims[1], columns);
    OK(copse_variable_read(v, 0, a));
    full[strlen(full) - strlen("A.weight")] = 'B';
    OK(copse_variable_read(variable_of(full), 0, b));
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < columns; c++) {
            double sum = 0;
            for (uint32_t k = 0; k < rank; k++)
                sum += (double)b[r * rank + k] * (double)a[k * columns + c];
            sums[r * columns + c] = (double)w[r * columns + c] + scale * sum;
        }
    measure(module, sums, rows, columns, w);
}

static inline void merge_all(double scale)
{
    length_count = 0;
    for (uint32_t i = 0; i < LAYERS; i++) {
        struct layer *l = &net.layer[i];
        merge_into(l->q, HEADS * HEAD, WIDTH, i, "self_attn.q_proj", scale);
        merge_into(l->k, KV * HEAD, WIDTH, i, "self_attn.k_proj", scale);
        merge_into(l->v, KV * HEAD, WIDTH, i, "self_attn.v_proj", scale);
        merge_into(l->o, WIDTH, HEADS * HEAD, i, "self_attn.o_proj", scale);
        merge_into(l->gate, HIDDEN, WIDTH, i, "mlp.gate_proj", scale);
        merge_into(l->up, HIDDEN, WIDTH, i, "mlp.up_proj", scale);
        merge_into(l->down, WIDTH, HIDDEN, i, "mlp.down_proj", scale);
    }
}

static inline double reference_loss(const struct kind *k)
{
    int32_t tokens[MOST];
    double outputs[TOKENS], sum = 0;
    size_t count, predicted = 0;
    OK(copse_language_encode(language, text, sizeof text - 1, tokens, MOST, &count));
    for (size_t t = 0; t < count; t++) {
        if (t % WINDOW > 0) {
            sum += loss_of(outputs, tokens[t]);
            predicted++;
        }
        predict(k, tokens[t], (int)(t % WINDOW), outputs);
    }
    return sum / (double)predicted;
}

#endif
