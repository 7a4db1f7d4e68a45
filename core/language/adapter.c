/* SPDX-License-Identifier: MIT */
/* Adapters: which weights they are for, and their variables. */
#include "core/language/adapter.h"
#include "core/language/model_source.h"

#include <math.h>
#include <stdio.h>

#include "copse/ops.h"
#include "core/variable/variable.h"

static const char usual[] = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj";

bool copse__adapter_takes(enum copse_part part)
{
    static const bool takes[COPSE_PARTS] = {
        [COPSE_PART_QUERY] = true, [COPSE_PART_KEY] = true,  [COPSE_PART_VALUE] = true,
        [COPSE_PART_OUT] = true,   [COPSE_PART_GATE] = true, [COPSE_PART_UP] = true,
        [COPSE_PART_DOWN] = true,
    };
    return takes[part];
}

const char *copse__adapter_module(char name[COPSE_ADAPTER_NAME], uint32_t layer,
                                  enum copse_part part)
{
    snprintf(name, COPSE_ADAPTER_NAME, copse__parts[part].name, layer);
    name[strlen(name) - strlen(".weight")] = '\0';
    return strrchr(name, '.') + 1;
}

void copse__adapter_name(char name[COPSE_ADAPTER_NAME], uint32_t layer, enum copse_part part,
                         int matrix)
{
    char module[COPSE_ADAPTER_NAME];
    copse__adapter_module(module, layer, part);
    static const char *const endings[COPSE_ADAPTER_MATRICES] = { "lora_A.weight", "lora_B.weight",
                                                                 "lora_magnitude_vector",
                                                                 "squares" };
    snprintf(name, COPSE_ADAPTER_NAME, "base_model.model.%.100s.%s", module, endings[matrix]);
}

bool copse__adapter_alpha_fits(double alpha)
{
    return alpha > 0.0 && alpha < 1e31 && (float)alpha >= COPSE_ADAPTER_LEAST &&
           (float)alpha <= COPSE_ADAPTER_MOST;
}

float copse__adapter_scale(const struct copse_adapter *is)
{
    const double rank = is->rank;
    return (float)((double)is->alpha / (is->is_rank_stabilised ? sqrt(rank) : rank));
}

/* ---- which weights ---- */

/* Whether a pattern of a list fits the weight; `fits` notes which ones did. */
static bool adapter_fits(const char *pattern, uint32_t layer, enum copse_part part)
{
    char name[COPSE_ADAPTER_NAME];
    const char *last = copse__adapter_module(name, layer, part);
    return copse__pattern_fits(pattern, last) || copse__pattern_fits(pattern, name);
}

/* Note the weights of one pattern. */
static copse_status want_pattern(const copse_language *l, const char *pattern, bool *is_wanted)
{
    uint32_t count = 0;
    for (uint32_t layer = 0; layer < l->is.layers; layer++)
        for (int part = 0; part < COPSE_PARTS; part++)
            if (copse__adapter_takes((enum copse_part)part) &&
                adapter_fits(pattern, layer, (enum copse_part)part)) {
                is_wanted[(size_t)layer * COPSE_PARTS + (size_t)part] = true;
                count++;
            }
    return count > 0 ? COPSE_OK
                     : copse_fail(COPSE_ERR_ARGUMENT,
                                  "adapter: the target \"%.60s\" fits no weight of %s that can be "
                                  "adapted: these are %s of model.layers.0 to %u",
                                  pattern, l->path, usual, l->is.layers - 1);
}

/* The patterns of a list; spaces around them do not count. */
static copse_status want_all(const copse_language *l, const char *targets, bool *is_wanted)
{
    char pattern[COPSE_ADAPTER_NAME];
    for (const char *at = targets, *end; at; at = *end ? end + 1 : NULL) {
        end = at + strcspn(at, ",");
        at += strspn(at, " ");
        size_t size = end > at ? (size_t)(end - at) : 0;
        while (size > 0 && at[size - 1] == ' ')
            size--;
        if (size == 0 || size >= sizeof pattern)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "adapter: the targets \"%.100s\" have a pattern of %zu bytes; 1 to "
                              "%zu are allowed, and a comma between two",
                              targets, size, sizeof pattern - 1);
        memcpy(pattern, at, size);
        pattern[size] = '\0';
        COPSE_TRY(want_pattern(l, pattern, is_wanted));
    }
    return COPSE_OK;
}

/* ---- variables ---- */

void copse__adapter_drop(copse_language *l)
{
    const size_t most = COPSE_ADAPTER_MATRICES * (size_t)l->is.layers * COPSE_PARTS;
    size_t count = 0;
    for (size_t i = 0; l->matrices && i < most; i++)
        if (l->matrices[i])
            l->matrices[count++] = l->matrices[i];
    if (count > 0 && !copse__variables_release(l->strategy, l->matrices, count))
        copse__log(&l->strategy->ctx->base.log, COPSE_LOG_INFO,
                   "adapter: its %zu variables stay with the strategy, which has trainers, calls, "
                   "values or workers that may use them",
                   count);
    copse__free(l->arena.mem, (void *)l->matrices);
    l->matrices = NULL;
    l->adapter = (struct copse_adapter){ .rank = 0 };
}

/* A variable of a weight, from `p`, which lacks its name and place. */
static copse_status create_matrix(copse_language *l, const struct copse_adapter_plan *plan,
                                  uint32_t layer, enum copse_part part, int matrix,
                                  struct copse_variable_params *p)
{
    char name[COPSE_ADAPTER_NAME];
    copse__adapter_name(name, layer, part, matrix);
    p->name = name;
    p->seed = plan->seed;
    if (plan->values && matrix < COPSE_ADAPTER_IN_FILES)
        p->values = plan->values(plan->user, layer, part, matrix);
    uint64_t elements = 1;
    for (uint32_t i = 0; i < p->shape.rank; i++)
        elements *= p->shape.dims[i];
    l->adapter.parameters += p->is_frozen ? 0 : elements;
    return copse_variable_create(l->strategy, p,
                                 &l->matrices[copse__adapter_place(l, layer, part, matrix)]);
}

static copse_status create_ab(copse_language *l, const struct copse_adapter_plan *plan,
                              uint32_t layer, enum copse_part part, const uint32_t shape[2])
{
    const uint32_t rank = plan->is.rank;
    struct copse_variable_params a = {
        .shape = COPSE_SHAPE(rank, shape[1]),
        /* U(+-1 / sqrt(inputs)): Glorot has sqrt(6 / (rank + inputs)) */
        .initializer = COPSE_INIT_GLOROT_UNIFORM,
        .scale = (float)sqrt((double)(rank + shape[1]) / (6.0 * shape[1])),
    };
    struct copse_variable_params b = { .shape = COPSE_SHAPE(shape[0], rank),
                                       .initializer = COPSE_INIT_ZEROS };
    COPSE_TRY(create_matrix(l, plan, layer, part, COPSE_ADAPTER_A, &a));
    return create_matrix(l, plan, layer, part, COPSE_ADAPTER_B, &b);
}

/* Squared lengths of the rows of a weight. */
static copse_status read_squares(const copse_language *l, struct copse_model_source *source,
                                 uint32_t layer, enum copse_part part, const uint32_t shape[2],
                                 float *values, float *squares)
{
    size_t index;
    COPSE_TRY(copse__model_source_matrix(source, l, layer, part, &index));
    COPSE_TRY(copse__model_source_read(source, copse__model_source_tensor(source, index).name,
                                       values, (size_t)shape[0] * shape[1]));
    for (uint32_t row = 0; row < shape[0]; row++) {
        double sum = 0;
        for (uint32_t i = 0; i < shape[1]; i++, values++)
            sum += (double)*values * (double)*values;
        squares[copse__model_source_row(source, l, part, row)] = (float)sum;
    }
    return COPSE_OK;
}

/* The magnitudes of a weight, which begin as the lengths of its rows, and the
   squares of these lengths, which are fixed. */
static copse_status create_dora(copse_language *l, const struct copse_adapter_plan *plan,
                                struct copse_model_source *source, uint32_t layer,
                                enum copse_part part, const uint32_t shape[2])
{
    float *values = copse__alloc(l->arena.mem, (size_t)shape[0] * shape[1], sizeof *values),
          *squares = copse__alloc(l->arena.mem, shape[0], sizeof *squares);
    struct copse_variable_params p = { .shape = COPSE_SHAPE(shape[0]),
                                       .values = squares,
                                       .is_frozen = true };
    copse_status s = copse_need_memory(values && squares, "adapter");
    if (s == COPSE_OK)
        s = read_squares(l, source, layer, part, shape, values, squares);
    if (s == COPSE_OK)
        s = create_matrix(l, plan, layer, part, COPSE_ADAPTER_SQUARES, &p);
    if (s == COPSE_OK) {
        copse__adapter_matrix(l, layer, part, COPSE_ADAPTER_SQUARES)->is_of_file = true;
        for (uint32_t row = 0; row < shape[0]; row++)
            squares[row] = sqrtf(squares[row]);
        p.is_frozen = false;
        s = create_matrix(l, plan, layer, part, COPSE_ADAPTER_MAGNITUDES, &p);
    }
    copse__free(l->arena.mem, values);
    copse__free(l->arena.mem, squares);
    return s;
}

/* All variables of a weight. */
static copse_status adapter_create(copse_language *l, const struct copse_adapter_plan *plan,
                                   struct copse_model_source *source, uint32_t layer,
                                   enum copse_part part)
{
    uint32_t shape[2];
    copse__part_shape(l->architecture, &l->is, part, shape);
    l->adapter.weights++;
    COPSE_TRY(create_ab(l, plan, layer, part, shape));
    return plan->is.is_dora ? create_dora(l, plan, source, layer, part, shape) : COPSE_OK;
}

/* What was recorded lacks the adapter. */
static void forget_recordings(copse_language *l)
{
    for (uint32_t r = 0; r < l->strategy->replica_count; r++)
        while (copse__recordings_drop(&l->predictor.of[r], false))
            ;
}

copse_status copse__adapter_make(copse_language *l, const struct copse_adapter_plan *plan,
                                 const bool *is_wanted)
{
    struct copse_model_source source = { .gguf = NULL };
    l->matrices =
        copse__alloc(l->arena.mem, COPSE_ADAPTER_MATRICES * (size_t)l->is.layers * COPSE_PARTS,
                     sizeof(copse_variable *));
    COPSE_TRY(copse_need_memory(l->matrices, "adapter"));
    l->adapter = plan->is;
    l->adapter.weights = 0;
    l->adapter.parameters = 0;
    copse_status s =
        plan->is.is_dora ? copse__model_source_open(&source, l->strategy->ctx, l->path) : COPSE_OK;
    for (uint32_t layer = 0; layer < l->is.layers; layer++)
        for (int part = 0; s == COPSE_OK && part < COPSE_PARTS; part++)
            if (is_wanted[(size_t)layer * COPSE_PARTS + (size_t)part])
                s = adapter_create(l, plan, &source, layer, (enum copse_part)part);
    copse__model_source_close(&source);
    if (s == COPSE_OK)
        forget_recordings(l);
    else
        copse__adapter_drop(l);
    return s;
}

/* ---- the functions ---- */

static copse_status check_params(const copse_language *l, const struct copse_adapter_params *p)
{
    if (l->adapter.rank > 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "adapter: %s has an adapter of rank %u", l->path,
                          l->adapter.rank);
    if (p->rank < 1 || p->rank > COPSE_ADAPTER_RANK)
        return copse_fail(COPSE_ERR_ARGUMENT, "adapter: a rank of %u; 1 to %u are allowed", p->rank,
                          COPSE_ADAPTER_RANK);
    if (p->alpha != 0.0f && !copse__adapter_alpha_fits((double)p->alpha))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "adapter: alpha is %g; " COPSE_ADAPTER_ALPHAS " are allowed",
                          (double)p->alpha);
    if (!(p->dropout >= 0.0f && p->dropout < 1.0f))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "adapter: a dropout of %g; it must be at least 0 and below 1",
                          (double)p->dropout);
    return COPSE_OK;
}

copse_status copse_language_adapt(copse_language *language,
                                  const struct copse_adapter_params *params)
{
    COPSE_TRY(copse_need("adapter", language, params));
    COPSE_TRY(copse_no_reserved(copse_adapter_params, params));
    COPSE_TRY(copse__require_no_replica("copse_language_adapt", language->strategy));
    COPSE_TRY(check_params(language, params));
    struct copse_mem *mem = language->arena.mem;
    struct copse_adapter_plan plan = {
        .is = { .rank = params->rank,
                .alpha = params->alpha > 0.0f ? params->alpha : 2.0f * (float)params->rank,
                .dropout = params->dropout,
                .is_rank_stabilised = params->is_rank_stabilised,
                .is_dora = params->is_dora },
        .seed = params->seed,
    };
    plan.is.scale = copse__adapter_scale(&plan.is);
    bool *is_wanted =
        copse__alloc(mem, (size_t)language->is.layers * COPSE_PARTS, sizeof *is_wanted);
    COPSE_TRY(copse_need_memory(is_wanted, "adapter"));
    copse_status s = want_all(language, params->targets ? params->targets : usual, is_wanted);
    if (s == COPSE_OK)
        s = copse__adapter_make(language, &plan, is_wanted);
    copse__free(mem, is_wanted);
    return s;
}

copse_status copse_language_describe_adapter(const copse_language *language,
                                             struct copse_adapter_info *out)
{
    COPSE_TRY(copse_need("adapter", language, out));
    const struct copse_adapter *a = &language->adapter;
    *out = (struct copse_adapter_info){ .rank = a->rank,
                                        .alpha = a->alpha,
                                        .dropout = a->dropout,
                                        .scale = a->scale,
                                        .is_rank_stabilised = a->is_rank_stabilised,
                                        .is_dora = a->is_dora,
                                        .weights = a->weights,
                                        .parameters = a->parameters };
    return COPSE_OK;
}
