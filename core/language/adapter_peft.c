/* SPDX-License-Identifier: MIT */
/* Adapters in the form of PEFT: safetensors, and settings as JSON, which are a file beside it, or
   in its metadata, or both. */
#include <math.h>
#include <stdio.h>

#include "copse/data/checkpoint.h"
#include "core/base/files.h"
#include "core/base/half.h"
#include "core/base/platform.h"
#include "core/data/reader/json_walk.h"
#include "core/language/adapter_file.h"
#include "core/language/tensor_files.h"

#define IN_METADATA "adapter_config"
#define CONFIG_MAX  ((uint64_t)1 << 20) /* bytes */
#define CONFIG      "adapter_config.json"
#define MODEL       "adapter_model.safetensors"

/* ---- settings ---- */

/* "q_proj" where all layers have it, else whole names. */
static bool config_targets(cJSON *list, const struct copse_adapter_values *v)
{
    const struct copse_language *l = v->l;
    char name[COPSE_ADAPTER_NAME];
    bool ok = list != NULL;
    for (int part = 0; part < COPSE_PARTS; part++) {
        uint32_t count = 0;
        for (uint32_t layer = 0; layer < l->is.layers; layer++)
            count += v->at[(size_t)layer * COPSE_PARTS + (size_t)part] != NULL;
        for (uint32_t layer = 0; count > 0 && layer < l->is.layers; layer++) {
            const bool is_whole = count < l->is.layers;
            if (!v->at[(size_t)layer * COPSE_PARTS + (size_t)part] || (!is_whole && layer > 0))
                continue;
            const char *last = copse__adapter_module(name, layer, (enum copse_part)part);
            ok = ok && cJSON_AddItemToArray(list, cJSON_CreateString(is_whole ? name : last));
        }
    }
    return ok;
}

/* The text, to be freed with cJSON_free; NULL: no memory. */
static char *config_print(const struct copse_adapter_values *v)
{
    cJSON *o = cJSON_CreateObject();
    bool ok = cJSON_AddStringToObject(o, "peft_type", "LORA") &&
              cJSON_AddStringToObject(o, "task_type", "CAUSAL_LM") &&
              cJSON_AddStringToObject(o, "base_model_name_or_path", copse__path_name(v->l->path)) &&
              cJSON_AddNumberToObject(o, "r", v->is.rank) &&
              cJSON_AddNumberToObject(o, "lora_alpha", (double)v->is.alpha) &&
              cJSON_AddNumberToObject(o, "lora_dropout", (double)v->is.dropout) &&
              cJSON_AddBoolToObject(o, "use_rslora", v->is.is_rank_stabilised) &&
              cJSON_AddBoolToObject(o, "use_dora", v->is.is_dora) &&
              cJSON_AddBoolToObject(o, "fan_in_fan_out", false) &&
              cJSON_AddStringToObject(o, "bias", "none") &&
              cJSON_AddBoolToObject(o, "inference_mode", true) &&
              config_targets(cJSON_AddArrayToObject(o, "target_modules"), v);
    char *text = ok ? cJSON_Print(o) : NULL;
    cJSON_Delete(o);
    return text;
}

static copse_status config_number(const cJSON *o, const char *path, const char *name, double least,
                                  double most, bool may_lack, double *out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);
    if (!item && may_lack)
        return COPSE_OK;
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= least && item->valuedouble <= most))
        return copse_fail(COPSE_ERR_FORMAT, "%s: \"%s\" is no number from %g to %g", path, name,
                          least, most);
    *out = item->valuedouble;
    return COPSE_OK;
}

static copse_status config_alpha(const cJSON *o, const char *path, double *out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, "lora_alpha");
    if (!cJSON_IsNumber(item) || !copse__adapter_alpha_fits(item->valuedouble))
        return copse_fail(COPSE_ERR_FORMAT,
                          "%s: \"lora_alpha\" is no number from " COPSE_ADAPTER_ALPHAS, path);
    *out = item->valuedouble;
    return COPSE_OK;
}

/* How A and B began. Some ways (PiSSA, OLoRA, CorDA, LoftQ) change the weights of the model too:
   with the weights of the file such an adapter computes something else. */
static copse_status config_begin(const cJSON *o, const char *path)
{
    static const char *const known[] = { "gaussian", "eva", "orthogonal" };
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, "init_lora_weights");
    if (!item || cJSON_IsBool(item) || cJSON_IsNull(item))
        return COPSE_OK;
    for (size_t i = 0; i < COPSE_COUNT(known); i++)
        if (cJSON_IsString(item) && strcmp(item->valuestring, known[i]) == 0)
            return COPSE_OK;
    return copse_fail(COPSE_ERR_UNSUPPORTED,
                      "%s: \"init_lora_weights\" is \"%.40s\"; adapters that began as true, false, "
                      "\"gaussian\", \"eva\" or \"orthogonal\" are read: others may need changed "
                      "weights of the model",
                      path, cJSON_IsString(item) ? item->valuestring : "no text");
}

/* Settings with which an adapter computes something else: false, null, none, or empty. */
static copse_status config_refuse(const cJSON *o, const char *path)
{
    static const char *const flags[] = { "use_rslora", "use_dora" };
    static const char *const others[] = {
        "fan_in_fan_out",
        "modules_to_save",
        "rank_pattern",
        "alpha_pattern",
        "trainable_token_indices",
        "lora_bias",
        "use_qalora",
        "exclude_modules",
        "target_parameters",
        "alora_invocation_tokens",
        "layer_replication",
    };
    const cJSON *bias = cJSON_GetObjectItemCaseSensitive(o, "bias"),
                *kind = cJSON_GetObjectItemCaseSensitive(o, "peft_type");
    if (!cJSON_IsString(kind) || strcmp(kind->valuestring, "LORA") != 0)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "%s: \"peft_type\" is not \"LORA\"", path);
    if (bias && !cJSON_IsString(bias) && !cJSON_IsNull(bias))
        return copse_fail(COPSE_ERR_FORMAT, "%s: \"bias\" is neither a text nor null", path);
    for (size_t i = 0; i < COPSE_COUNT(flags); i++) {
        const cJSON *flag = cJSON_GetObjectItemCaseSensitive(o, flags[i]);
        if (flag && !cJSON_IsBool(flag) && !cJSON_IsNull(flag))
            return copse_fail(COPSE_ERR_FORMAT, "%s: \"%s\" is neither true, false nor null", path,
                              flags[i]);
    }
    if (cJSON_IsString(bias) && strcmp(bias->valuestring, "none") != 0)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "%s: \"bias\" is \"%.40s\": adapters with biases are not read", path,
                          bias->valuestring);
    for (size_t i = 0; i < COPSE_COUNT(others); i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, others[i]);
        if (item && !cJSON_IsFalse(item) && !cJSON_IsNull(item) &&
            !((cJSON_IsArray(item) || cJSON_IsObject(item)) && !item->child))
            return copse_fail(COPSE_ERR_UNSUPPORTED,
                              "%s: the adapter has \"%s\", which this version does not compute",
                              path, others[i]);
    }
    return config_begin(o, path);
}

static copse_status config_parse(struct copse_adapter *is, const char *path, const char *text,
                                 size_t size)
{
    double rank = 0, alpha = 0, dropout = 0;
    cJSON *o = copse__json_parse(text, size);
    copse_status s =
        cJSON_IsObject(o)
            ? config_refuse(o, path)
            : copse_fail(COPSE_ERR_FORMAT,
                         "%s: the settings of the adapter are not one JSON object of at most "
                         "%d values",
                         path, COPSE_JSON_VALUES);
    if (s == COPSE_OK)
        s = config_number(o, path, "r", 1, COPSE_ADAPTER_RANK, false, &rank);
    if (s == COPSE_OK)
        s = config_alpha(o, path, &alpha);
    if (s == COPSE_OK)
        s = config_number(o, path, "lora_dropout", 0, 1, true, &dropout);
    if (s == COPSE_OK && !((float)dropout < 1.0f))
        s = copse_fail(COPSE_ERR_FORMAT, "%s: \"lora_dropout\" is %g; it must be below 1", path,
                       dropout);
    if (s == COPSE_OK && rank != floor(rank))
        s = copse_fail(COPSE_ERR_FORMAT, "%s: the rank is %g, which is not whole", path, rank);
    is->rank = (uint32_t)rank;
    is->alpha = (float)alpha;
    is->dropout = (float)dropout;
    is->is_rank_stabilised = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "use_rslora"));
    is->is_dora = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "use_dora"));
    cJSON_Delete(o);
    return s;
}

/* ---- saving ---- */

/* The file has its name only after copse__atomic_commit. */
static copse_status write_config(struct copse_atomic_file *file, struct copse_mem *mem,
                                 const char *path, const char *text)
{
    COPSE_TRY(copse__atomic_open(file, mem, path));
    if (fputs(text, file->stream) >= 0 && fputc('\n', file->stream) != EOF &&
        fflush(file->stream) == 0)
        return COPSE_OK;
    copse__atomic_abort(file);
    return copse_fail(COPSE_ERR_IO, "adapter: cannot write %s: is the disk full?", path);
}

/* Arrays of all matrices; names are after them in memory. NULL: no memory. */
static struct copse_named_array *list_arrays(const struct copse_adapter_values *v, size_t *count)
{
    const copse_language *l = v->l;
    const size_t most = COPSE_ADAPTER_IN_FILES * (size_t)v->is.weights;
    struct copse_named_array *list = copse__alloc(v->mem, most, sizeof *list + COPSE_ADAPTER_NAME);
    char *name = (char *)(list + most);
    *count = 0;
    for (uint32_t layer = 0; list && layer < l->is.layers; layer++)
        for (int part = 0; part < COPSE_PARTS; part++)
            for (int matrix = 0; matrix < COPSE_ADAPTER_IN_FILES; matrix++) {
                const float *at =
                    v->at[copse__adapter_place(l, layer, (enum copse_part)part, matrix)];
                const uint32_t axes = matrix == COPSE_ADAPTER_MAGNITUDES ? 1 : 2;
                uint32_t shape[2];
                if (!at)
                    continue;
                copse__adapter_shape(l, (enum copse_part)part, matrix, v->is.rank, shape);
                copse__adapter_name(name, layer, (enum copse_part)part, matrix);
                list[(*count)++] =
                    (struct copse_named_array){ name,
                                                { COPSE_F32, axes, { shape[0], shape[1] }, at } };
                name += COPSE_ADAPTER_NAME;
            }
    return list;
}

static copse_status write_arrays(const struct copse_adapter_values *v, const char *path,
                                 const char *config)
{
    const struct copse_metadata metadata[] = { { "format", "pt" }, { IN_METADATA, config } };
    struct copse_checkpoint_params params = { .metadata = metadata, .metadata_count = 2 };
    struct copse_named_array *list = list_arrays(v, &params.array_count);
    COPSE_TRY(copse_need_memory(list, "adapter"));
    params.arrays = list;
    const copse_status s = copse_checkpoint_write(v->l->strategy->ctx, path, &params);
    copse__free(v->mem, list);
    return s;
}

/* The arrays have the settings too: they are an adapter without the file of settings. So the folder
   has the older or the newer adapter at any time; a new one is removed after an error. */
static copse_status save_folder(const struct copse_adapter_values *v, const char *path,
                                const char *config, const char *config_path, const char *model_path)
{
    struct copse_atomic_file file = { 0 };
    bool is_new;
    COPSE_TRY(copse__folder_make(path, &is_new));
    copse_status s = write_config(&file, v->mem, config_path, config);
    if (s == COPSE_OK)
        s = write_arrays(v, model_path, config);
    if (s == COPSE_OK)
        s = copse__atomic_commit(&file);
    copse__atomic_abort(&file);
    if (s != COPSE_OK && is_new) {
        (void)copse__file_remove(model_path);
        (void)copse__file_remove(config_path);
        copse__folder_remove(path);
    }
    return s;
}

copse_status copse__adapter_save_peft(const struct copse_adapter_values *v, const char *path,
                                      bool is_folder)
{
    char *config = config_print(v),
         *config_path = copse__path_beside(v->mem, path, is_folder, CONFIG),
         *model_path = is_folder ? copse__path_beside(v->mem, path, true, MODEL) : NULL;
    copse_status s =
        copse_need_memory(config && config_path && (model_path || !is_folder), "adapter");
    if (s == COPSE_OK)
        s = is_folder ? save_folder(v, path, config, config_path, model_path)
                      : write_arrays(v, path, config);
    cJSON_free(config);
    copse__free(v->mem, config_path);
    copse__free(v->mem, model_path);
    return s;
}

/* ---- loading ---- */

static copse_status read_config(struct copse_mem *mem, const char *path, struct copse_adapter *is)
{
    char *text;
    size_t size;
    COPSE_TRY(copse_note(copse__json_load(mem, path, CONFIG_MAX, &text, &size),
                         "while reading the settings of an adapter"));
    const copse_status s = config_parse(is, path, text, size);
    copse__free(mem, text);
    return s;
}

/* Say that the file of a folder has not the settings of the arrays, which are used. */
static void compare_config(const struct copse_adapter_values *v, const char *path)
{
    struct copse_adapter other = { .rank = 0 };
    const struct copse_adapter *is = &v->is;
    if (read_config(v->mem, path, &other) != COPSE_OK || other.rank != is->rank ||
        other.alpha != is->alpha || other.dropout != is->dropout ||
        other.is_rank_stabilised != is->is_rank_stabilised || other.is_dora != is->is_dora)
        copse__log(
            &v->l->strategy->ctx->base.log, COPSE_LOG_WARN,
            "adapter: %s is missing or has other settings than the metadata of %s, which are "
            "used: rank %u, alpha %g, dropout %g%s%s; saving it again makes them equal",
            path, MODEL, is->rank, (double)is->alpha, (double)is->dropout,
            is->is_rank_stabilised ? ", rank-stabilised" : "", is->is_dora ? ", DoRA" : "");
}

static copse_status take_array(struct copse_adapter_values *v, const char *path,
                               copse_checkpoint *c, const struct copse_named_array *named)
{
    const struct copse_array_view *a = &named->array;
    float *to = NULL;
    const bool is_vector = a->rank == 1;
    if ((a->rank != 2 && !is_vector) ||
        (a->type != COPSE_F32 && a->type != COPSE_F16 && a->type != COPSE_BF16))
        return copse_fail(COPSE_ERR_UNSUPPORTED, "%s: \"%.200s\" is no matrix of f32, f16 or bf16",
                          path, named->name);
    if (a->rank == 2 && a->shape[1] == 0)
        return copse_fail(COPSE_ERR_SHAPE, "%s: \"%.200s\" is [%llu, 0]", path, named->name,
                          (unsigned long long)a->shape[0]);
    COPSE_TRY(copse__adapter_values_take(v, path, named->name, a->shape[0],
                                         is_vector ? 0 : a->shape[1], false, &to));
    COPSE_TRY(copse_checkpoint_fetch(c, named->name));
    const struct copse_array_view *full = copse_checkpoint_find(c, named->name);
    const size_t count = a->shape[0] * (is_vector ? 1 : a->shape[1]);
    const uint16_t *half = full->data;
    if (full->type == COPSE_F32)
        memcpy(to, full->data, count * sizeof *to);
    for (size_t i = 0; full->type != COPSE_F32 && i < count; i++)
        to[i] = full->type == COPSE_F16 ? copse__f16_to_f32(half[i]) : copse__bf16_to_f32(half[i]);
    for (size_t i = 0; i < count; i++)
        if (!isfinite(to[i]))
            return copse_fail(COPSE_ERR_FORMAT, "%s: element %zu of \"%.200s\" is %g", path, i,
                              named->name, (double)to[i]);
    return COPSE_OK;
}

static const char *metadata_config(const copse_checkpoint *c)
{
    size_t count;
    const struct copse_metadata *lines = copse_checkpoint_metadata(c, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(lines[i].key, IN_METADATA) == 0)
            return lines[i].value;
    return NULL;
}

copse_status copse__adapter_load_peft(struct copse_adapter_values *v, const char *path,
                                      bool is_folder)
{
    copse_checkpoint *c = NULL;
    size_t count = 0;
    char *config_path = copse__path_beside(v->mem, path, is_folder, CONFIG),
         *model_path = copse__path_beside(v->mem, path, is_folder,
                                          is_folder ? MODEL : copse__path_name(path));
    copse_status s = copse_need_memory(config_path && model_path, "adapter");
    if (s == COPSE_OK)
        s = copse_checkpoint_open(v->l->strategy->ctx, model_path, &c);
    const char *config = s == COPSE_OK ? metadata_config(c) : NULL;
    if (s == COPSE_OK)
        s = config ? config_parse(&v->is, model_path, config, strlen(config))
                   : read_config(v->mem, config_path, &v->is);
    if (s == COPSE_OK && config && is_folder)
        compare_config(v, config_path);
    const struct copse_named_array *list = c ? copse_checkpoint_arrays(c, &count) : NULL;
    for (size_t i = 0; s == COPSE_OK && i < count; i++)
        s = take_array(v, model_path, c, &list[i]);
    if (s == COPSE_OK)
        s = copse__adapter_values_check(v, model_path);
    copse_checkpoint_release(&c);
    copse__free(v->mem, config_path);
    copse__free(v->mem, model_path);
    return s;
}
