/* SPDX-License-Identifier: MIT */
/* What a language model of a folder is: config.json has the sizes, generation_config.json the
   tokens that end a text, tokenizer_config.json or chat_template.jinja the form of conversations.
   A setting that changes what the model computes is known, or refused by its name. */
#include <math.h>
#include <stdio.h>

#include "core/base/platform.h"
#include "core/data/reader/json_walk.h"
#include "core/language/model_source.h"
#include "core/language/tokenizer_json.h"

#define CONFIG_MAX    ((uint64_t)1 << 20)  /* bytes */
#define TOKENIZER_MAX ((uint64_t)16 << 20) /* bytes of tokenizer_config.json */

struct folder {
    copse_language *l;
    const char *path; /* of config.json */
    const cJSON *o;
};

static const cJSON *folder_item(const struct folder *f, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(f->o, name);
    return cJSON_IsNull(item) ? NULL : item;
}

/* ---- settings ---- */

static copse_status whole_of(const struct folder *f, const char *name, uint32_t normal,
                             uint32_t *out)
{
    const cJSON *item = folder_item(f, name);
    *out = normal;
    if (!item && normal > 0)
        return COPSE_OK;
    if (!item)
        return copse_fail(COPSE_ERR_FORMAT, "%s has no \"%s\"", f->path, name);
    const double v = cJSON_IsNumber(item) ? item->valuedouble : 0;
    if (!(v >= 1 && v <= INT32_MAX && v == floor(v)))
        return copse_fail(COPSE_ERR_FORMAT, "%s: \"%s\" is no number from 1 to %d", f->path, name,
                          INT32_MAX);
    *out = (uint32_t)v;
    return COPSE_OK;
}

/* A positive number of an object; `normal` 0: it must be there. */
static copse_status real_of(const struct folder *f, const cJSON *o, const char *name, double normal,
                            double *out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);
    const bool is_there = item && !cJSON_IsNull(item);
    *out = !is_there ? normal : cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!is_there && normal <= 0)
        return copse_fail(COPSE_ERR_FORMAT, "%s has no \"%s\"", f->path, name);
    return (float)*out > 0.0f && *out < 1e30
               ? COPSE_OK
               : copse_fail(COPSE_ERR_FORMAT, "%s: \"%s\" is no positive number", f->path, name);
}

/* `normal`: the value of a flag that is absent. */
static copse_status flag_of(const struct folder *f, const char *name, int normal, int *value)
{
    const cJSON *item = folder_item(f, name);
    *value = item ? cJSON_IsTrue(item) : normal;
    return !item || cJSON_IsBool(item)
               ? COPSE_OK
               : copse_fail(COPSE_ERR_FORMAT, "%s: \"%s\" is neither true nor false", f->path,
                            name);
}

static copse_status refuse_value(const struct folder *f, const char *name, const char *value)
{
    return copse_fail(COPSE_ERR_UNSUPPORTED, "%s: \"%s\" is \"%.60s\", which is not computed",
                      f->path, name, value);
}

static copse_status check_settings(const struct folder *f)
{
    static const char *const flags[] = { "attention_bias", "mlp_bias" };
    const bool is_gelu = f->l->architecture->is_gelu_tanh;
    /* the newer name counts more. Older files of gemma call the function "gelu" */
    const cJSON *newer = is_gelu ? folder_item(f, "hidden_activation") : NULL,
                *gate = newer ? newer : folder_item(f, "hidden_act"),
                *part = folder_item(f, "partial_rotary_factor");
    int is_set;
    if (folder_item(f, "quantization_config"))
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "%s has \"quantization_config\": weights of f32, f16 and bf16 are read; "
                          "GGUF files may be quantised",
                          f->path);
    const char *function = cJSON_IsString(gate) ? gate->valuestring : "";
    if (is_gelu
            ? strcmp(function, "gelu_pytorch_tanh") != 0 && (newer || strcmp(function, "gelu") != 0)
            : strcmp(function, "silu") != 0)
        return refuse_value(f, newer ? "hidden_activation" : "hidden_act",
                            cJSON_IsString(gate) ? gate->valuestring : "no text");
    if (part && !(cJSON_IsNumber(part) && part->valuedouble == 1.0))
        return refuse_value(f, "partial_rotary_factor", "not 1");
    for (size_t i = 0; i < COPSE_COUNT(flags); i++) {
        COPSE_TRY(flag_of(f, flags[i], 0, &is_set));
        if (is_set && !f->l->architecture->has_biases)
            return refuse_value(f, flags[i], "true");
    }
    return COPSE_OK;
}

/* ---- rotary positions ---- */

/* Long waves are longer by the factor, short ones as they are, with a transition (Llama 3.1). */
static copse_status turns_of_llama3(const struct folder *f, const cJSON *o)
{
    copse_language *l = f->l;
    double factor, low, high, old;
    COPSE_TRY(real_of(f, o, "factor", 0, &factor));
    COPSE_TRY(real_of(f, o, "low_freq_factor", 0, &low));
    COPSE_TRY(real_of(f, o, "high_freq_factor", 0, &high));
    COPSE_TRY(real_of(f, o, "original_max_position_embeddings", 0, &old));
    if (!(high > low))
        return copse_fail(COPSE_ERR_FORMAT, "%s: \"high_freq_factor\" is not above the low one",
                          f->path);
    l->turns = copse__arena_alloc(&l->arena, l->is.head / 2, sizeof *l->turns);
    if (!l->turns)
        return copse_no_memory("language");
    for (uint32_t i = 0; i < l->is.head / 2; i++) {
        const double length =
            6.283185307179586476925 * pow((double)l->is.base, 2.0 * i / l->is.head);
        const double smooth = fmin(fmax((old / length - low) / (high - low), 0), 1);
        l->turns[i] = (float)(1 / ((1 - smooth) / factor + smooth));
    }
    return COPSE_OK;
}

/* The base of layers with a window, which are not scaled: in newer files with the settings of this
   kind of layers. */
static copse_status read_near(const struct folder *f, const cJSON *o)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(o, "rope_type");
    double base;
    if (cJSON_IsString(type) && strcmp(type->valuestring, "default") != 0)
        return refuse_value(f, "rope_type", type->valuestring);
    COPSE_TRY(
        o ? real_of(f, o, "rope_theta", (double)f->l->architecture->near_base, &base)
          : real_of(f, f->o, "rope_local_base_freq", (double)f->l->architecture->near_base, &base));
    f->l->is.near_base = (float)base;
    return COPSE_OK;
}

static copse_status read_turns(const struct folder *f)
{
    copse_language *l = f->l;
    const float normal = l->architecture->base > 0.0f ? l->architecture->base : 10000.0f;
    const cJSON *all = folder_item(f, "rope_parameters"),
                *far = cJSON_GetObjectItemCaseSensitive(all, "full_attention"),
                *near = cJSON_GetObjectItemCaseSensitive(all, "sliding_attention");
    const bool is_apart = l->architecture->near_base > 0.0f;
    if (is_apart)
        COPSE_TRY(read_near(f, near));
    const cJSON *newer = is_apart && far ? far : all,
                *o = newer ? newer : folder_item(f, "rope_scaling"),
                *type = cJSON_GetObjectItemCaseSensitive(o, "rope_type"),
                *part = cJSON_GetObjectItemCaseSensitive(o, "partial_rotary_factor");
    double base, factor;
    const bool has_base = newer && cJSON_GetObjectItemCaseSensitive(newer, "rope_theta");
    if (newer && !has_base && !type && !cJSON_GetObjectItemCaseSensitive(newer, "type"))
        return copse_fail(COPSE_ERR_FORMAT,
                          "%s: \"rope_parameters\" has neither \"rope_theta\" nor \"rope_type\"",
                          f->path);
    COPSE_TRY(real_of(f, has_base ? newer : f->o, "rope_theta", (double)normal, &base));
    l->is.base = (float)base;
    l->is.stretch = 1.0f;
    if (!o)
        return COPSE_OK;
    type = type ? type : cJSON_GetObjectItemCaseSensitive(o, "type");
    if (part && !cJSON_IsNull(part) && !(cJSON_IsNumber(part) && part->valuedouble == 1.0))
        return refuse_value(f, "partial_rotary_factor", "not 1");
    const char *kind = cJSON_IsString(type) ? type->valuestring : newer && !type ? "default" : "";
    if (strcmp(kind, "default") == 0)
        return COPSE_OK;
    if (strcmp(kind, "llama3") == 0)
        return turns_of_llama3(f, o);
    if (strcmp(kind, "linear") != 0)
        return copse_fail(
            COPSE_ERR_UNSUPPORTED,
            "%s scales its rotary positions (\"%.60s\"): unscaled ones, \"linear\" and "
            "\"llama3\" are computed",
            f->path, kind);
    COPSE_TRY(real_of(f, o, "factor", 0, &factor));
    l->is.stretch = (float)factor;
    return COPSE_OK;
}

/* ---- what a token sees ---- */

/* "layer_types" says which layers have a sliding window. */
static copse_status read_types(const struct folder *f, const cJSON *types)
{
    const cJSON *type;
    uint32_t count = 0;
    cJSON_ArrayForEach(type, types)
    {
        const char *name = cJSON_IsString(type) ? type->valuestring : "no text";
        const bool slides = strcmp(name, "sliding_attention") == 0;
        if (!slides && strcmp(name, "full_attention") != 0)
            return refuse_value(f, "layer_types", name);
        if (count < f->l->is.layers)
            f->l->slides[count] = slides && f->l->is.window > 0;
        count++;
    }
    return count == f->l->is.layers
               ? COPSE_OK
               : copse_fail(COPSE_ERR_FORMAT, "%s: \"layer_types\" has %u layers, the model %u",
                            f->path, count, f->l->is.layers);
}

/* Layers from "max_window_layers" on. */
static copse_status read_last_layers(const struct folder *f)
{
    const cJSON *least = folder_item(f, "max_window_layers");
    uint32_t first = 0;
    if (!cJSON_IsNumber(least) || least->valuedouble != 0)
        COPSE_TRY(whole_of(f, "max_window_layers", 28, &first));
    for (uint32_t i = 0; i < f->l->is.layers; i++)
        f->l->slides[i] = i >= first;
    return COPSE_OK;
}

/* Which layers have a sliding window, if there is one; the others see all earlier tokens. */
static copse_status read_window(const struct folder *f)
{
    const struct copse_architecture *a = f->l->architecture;
    const cJSON *types = folder_item(f, "layer_types");
    uint32_t period = a->period;
    int is_used = a->has_window || period > 0;
    if (a->asks_window)
        COPSE_TRY(flag_of(f, "use_sliding_window", 0, &is_used));
    if (is_used && !cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(f->o, "sliding_window")))
        COPSE_TRY(whole_of(f, "sliding_window", 4096, &f->l->is.window));
    if (period > 0)
        COPSE_TRY(whole_of(f, "sliding_window_pattern", period, &period));
    COPSE_TRY(copse__language_slide(f->l, period));
    if (types && (period > 0 || a->asks_window))
        return read_types(f, types);
    return a->asks_window && f->l->is.window > 0 ? read_last_layers(f) : COPSE_OK;
}

/* ---- scores ---- */

/* A cap; null: there is none. */
static copse_status cap_of(const struct folder *f, const char *name, float normal, float *out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(f->o, name);
    double v = 0;
    *out = item ? 0 : normal;
    if (!item || cJSON_IsNull(item))
        return COPSE_OK;
    COPSE_TRY(real_of(f, f->o, name, 0, &v));
    *out = (float)v;
    return v > 1e-6 ? COPSE_OK : refuse_value(f, name, "below 1e-6");
}

static copse_status read_scores(const struct folder *f)
{
    const struct copse_architecture *a = f->l->architecture;
    struct copse_language_sizes *is = &f->l->is;
    double scalar;
    int is_set = 0;
    if (a->scalar <= 0.0f)
        return COPSE_OK;
    COPSE_TRY(real_of(f, f->o, "query_pre_attn_scalar", (double)a->scalar, &scalar));
    is->scale = (float)(1 / sqrt(scalar));
    COPSE_TRY(flag_of(f, "use_bidirectional_attention", 0, &is_set));
    if (is_set)
        return refuse_value(f, "use_bidirectional_attention", "true");
    COPSE_TRY(cap_of(f, "attn_logit_softcapping", a->cap, &is->cap));
    return cap_of(f, "final_logit_softcapping", a->last_cap, &is->last_cap);
}

/* ---- all sizes ---- */

static copse_status read_sizes(const struct folder *f, const struct copse_model_source *s)
{
    struct copse_language_sizes *is = &f->l->is;
    struct copse_model_tensor table;
    double epsilon;
    int is_tied;
    COPSE_TRY(whole_of(f, "num_hidden_layers", 0, &is->layers));
    COPSE_TRY(whole_of(f, "hidden_size", 0, &is->width));
    COPSE_TRY(whole_of(f, "intermediate_size", 0, &is->hidden));
    COPSE_TRY(whole_of(f, "num_attention_heads", 0, &is->heads));
    COPSE_TRY(whole_of(f, "num_key_value_heads", is->heads, &is->kv_heads));
    COPSE_TRY(whole_of(f, "head_dim",
                       f->l->architecture->head ? f->l->architecture->head
                                                : COPSE_MAX(is->width / is->heads, 1u),
                       &is->head));
    COPSE_TRY(whole_of(f, "max_position_embeddings", 0, &is->context));
    COPSE_TRY(whole_of(f, "vocab_size", 0, &is->vocabulary));
    COPSE_TRY(real_of(f, f->o, "rms_norm_eps", 0, &epsilon));
    COPSE_TRY(flag_of(f, "tie_word_embeddings", f->l->architecture->is_tied, &is_tied));
    is->epsilon = (float)epsilon;
    is->is_tied = is_tied;
    if (is->vocabulary > COPSE_TOKENS_MOST ||
        !copse__model_source_find(s, copse__parts[COPSE_PART_EMBEDDING].name, &table) ||
        table.rank != 2 || table.shape[0] != is->vocabulary)
        return copse_fail(COPSE_ERR_FORMAT,
                          "%s: \"%s\" is not [%u, %u], as \"vocab_size\" and \"hidden_size\" of "
                          "config.json say",
                          f->l->path, copse__parts[COPSE_PART_EMBEDDING].name, is->vocabulary,
                          is->width);
    COPSE_TRY(copse__sizes_check(is, f->l->path));
    COPSE_TRY(check_settings(f));
    COPSE_TRY(read_window(f));
    COPSE_TRY(read_scores(f));
    return read_turns(f);
}

/* ---- tokens ---- */

static copse_status token_of(const struct folder *f, const char *name, const cJSON *number,
                             uint32_t *out)
{
    const double v = cJSON_IsNumber(number) ? number->valuedouble : -1;
    if (!(v >= 0 && v < f->l->tokenizer.count && v == floor(v)))
        return copse_fail(COPSE_ERR_FORMAT, "%s: \"%s\" is no token of the model", f->path, name);
    *out = (uint32_t)v;
    return COPSE_OK;
}

static copse_status add_end(const struct folder *f, const cJSON *number)
{
    uint32_t token;
    COPSE_TRY(token_of(f, "eos_token_id", number, &token));
    f->l->tokenizer.tokens[token].is_end = true;
    return COPSE_OK;
}

static copse_status read_ends(const struct folder *f)
{
    const cJSON *item = folder_item(f, "eos_token_id"), *one;
    if (!cJSON_IsArray(item))
        return item ? add_end(f, item) : COPSE_OK;
    cJSON_ArrayForEach(one, item) COPSE_TRY(add_end(f, one));
    return COPSE_OK;
}

/* What a prompt without tokens begins with. */
static copse_status read_begin(const struct folder *f)
{
    const cJSON *item = folder_item(f, "bos_token_id");
    uint32_t token = COPSE_NO_TOKEN;
    if (item)
        COPSE_TRY(token_of(f, "bos_token_id", item, &token));
    if (f->l->tokenizer.begin == COPSE_NO_TOKEN)
        f->l->tokenizer.begin = token;
    return COPSE_OK;
}

/* A file beside the weights; NULL: no memory. */
static char *path_beside(const copse_language *l, const char *name)
{
    return copse__path_beside(l->arena.mem, l->path, copse__is_directory(l->path), name);
}

/* An object of a small file; *o NULL: there is no such file, and it may lack. */
static copse_status parse_file(const copse_language *l, const char *path, bool may_lack, cJSON **o)
{
    char *text;
    size_t size;
    uint64_t bytes;
    *o = NULL;
    if (may_lack && copse__file_size(path, &bytes) != COPSE_OK)
        return COPSE_OK;
    COPSE_TRY(copse__json_load(l->arena.mem, path, CONFIG_MAX, &text, &size));
    *o = copse__json_parse(text, size);
    copse__free(l->arena.mem, text);
    return cJSON_IsObject(*o)
               ? COPSE_OK
               : copse_fail(COPSE_ERR_FORMAT, "%s is not one JSON object of at most %d values",
                            path, COPSE_JSON_VALUES);
}

/* ---- the form of conversations ---- */

static copse_status keep_template(copse_language *l, const char *text)
{
    const char *kept = copse__arena_strdup(&l->arena, text);
    if (!kept)
        return copse_no_memory("language");
    copse__chat_find(l, kept, strlen(kept));
    return COPSE_OK;
}

/* The value is a template, or a list of named templates. The template "default" is taken. */
static copse_status take_template(copse_language *l, const cJSON *value)
{
    const cJSON *one, *found = NULL, *list = cJSON_IsArray(value) ? value : NULL;
    cJSON_ArrayForEach(one, list)
    {
        const cJSON *name = cJSON_GetObjectItemCaseSensitive(one, "name");
        if (cJSON_IsString(name) && strcmp(name->valuestring, "default") == 0)
            found = cJSON_GetObjectItemCaseSensitive(one, "template");
    }
    found = found ? found : value;
    return cJSON_IsString(found) ? keep_template(l, found->valuestring) : COPSE_OK;
}

/* ---- tokenizer_config.json ---- */

enum { TEMPLATE, ADDS_BEGIN, ADDS_END, SETTINGS };
static const char *const setting_names[SETTINGS] = { "chat_template", "add_bos_token",
                                                     "add_eos_token" };

static copse_status pick_template(copse_language *l, const char *path,
                                  const struct copse_json_item *item)
{
    cJSON *value = item->size <= CONFIG_MAX ? copse__json_parse(item->value, item->size) : NULL;
    const copse_status s =
        value ? take_template(l, value)
              : copse_fail(COPSE_ERR_FORMAT,
                           "%s: \"chat_template\" is damaged, or has more than %u bytes", path,
                           (unsigned)CONFIG_MAX);
    cJSON_Delete(value);
    return s;
}

static bool is_word(const struct copse_json_item *item, const char *word)
{
    return item->value && item->size == strlen(word) && memcmp(item->value, word, item->size) == 0;
}

/* What a text begins and ends with: it counts more than tokenizer.json. */
static copse_status apply_additions(copse_language *l, const char *path,
                                    const struct copse_json_item *items)
{
    struct copse_tokenizer *t = &l->tokenizer;
    for (int i = ADDS_BEGIN; i <= ADDS_END; i++)
        if (items[i].value && !is_word(&items[i], "true") && !is_word(&items[i], "false"))
            return copse_fail(COPSE_ERR_FORMAT, "%s: \"%s\" is neither true nor false", path,
                              setting_names[i]);
    if (is_word(&items[ADDS_END], "true"))
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "%s: \"add_eos_token\" is true; no token is added to the end of a text",
                          path);
    if (items[ADDS_BEGIN].value)
        t->adds_begin = is_word(&items[ADDS_BEGIN], "true");
    return !t->adds_begin || t->begin != COPSE_NO_TOKEN
               ? COPSE_OK
               : copse_fail(COPSE_ERR_FORMAT,
                            "%s: \"add_bos_token\" is true, and the model has no "
                            "\"bos_token_id\"",
                            path);
}

static copse_status read_settings(copse_language *l, const char *path, bool has_template)
{
    struct copse_json whole = { "", path, " is not one JSON object", NULL, 0, 0 };
    struct copse_json_item items[SETTINGS];
    uint64_t bytes;
    char *text;
    if (copse__file_size(path, &bytes) != COPSE_OK)
        return COPSE_OK;
    COPSE_TRY(copse__json_load(l->arena.mem, path, TOKENIZER_MAX, &text, &whole.size));
    whole.text = text;
    copse_status s = copse__json_pick(whole, setting_names, SETTINGS, items);
    if (s == COPSE_OK)
        s = apply_additions(l, path, items);
    if (s == COPSE_OK && !has_template && items[TEMPLATE].value)
        s = pick_template(l, path, &items[TEMPLATE]);
    copse__free(l->arena.mem, text);
    return s;
}

static copse_status read_chat(copse_language *l)
{
    char *settings = path_beside(l, "tokenizer_config.json"),
         *template = path_beside(l, "chat_template.jinja"), *text = NULL;
    size_t size;
    uint64_t bytes;
    copse_status s = copse_need_memory(settings && template, "language: %s", l->path);
    const bool has_template = s == COPSE_OK && copse__file_size(template, &bytes) == COPSE_OK;
    if (has_template) {
        s = copse__json_load(l->arena.mem, template, CONFIG_MAX, &text, &size);
        if (s == COPSE_OK)
            s = keep_template(l, text);
        copse__free(l->arena.mem, text);
    }
    if (s == COPSE_OK)
        s = read_settings(l, settings, has_template);
    copse__free(l->arena.mem, settings);
    copse__free(l->arena.mem, template);
    return s;
}

/* ---- all ---- */

static copse_status read_config(const struct folder *f, const struct copse_model_source *s,
                                const char *tokenizer)
{
    copse_language *l = f->l;
    const cJSON *type = folder_item(f, "model_type");
    if (!cJSON_IsString(type))
        return copse_fail(COPSE_ERR_FORMAT, "%s has no \"model_type\"", f->path);
    l->architecture = copse__architecture_of_config(type->valuestring);
    if (!l->architecture)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "%s has the model type \"%.60s\"; llama, mistral, qwen2, qwen3, gemma, "
                          "gemma2 and gemma3_text are known",
                          f->path, type->valuestring);
    COPSE_TRY(read_sizes(f, s));
    l->tokenizer.count = l->is.vocabulary;
    COPSE_TRY(copse__tokenizer_read_json(&l->tokenizer, tokenizer));
    COPSE_TRY(read_begin(f));
    return read_ends(f);
}

/* generation_config.json decides about the end of texts, where it says something. */
static copse_status read_generation(copse_language *l, const char *path, const cJSON *o)
{
    const struct folder f = { l, path, o };
    if (!o || !folder_item(&f, "eos_token_id"))
        return COPSE_OK;
    for (uint32_t i = 0; i < l->tokenizer.count; i++)
        l->tokenizer.tokens[i].is_end = false;
    return read_ends(&f);
}

copse_status copse__language_describe_folder(copse_language *l, const struct copse_model_source *s)
{
    char *path[] = { path_beside(l, "config.json"), path_beside(l, "tokenizer.json"),
                     path_beside(l, "generation_config.json") };
    cJSON *config = NULL, *generation = NULL;
    copse_status status = copse_need_memory(path[0] && path[1] && path[2], "language: %s", l->path);
    if (status == COPSE_OK)
        status = parse_file(l, path[0], false, &config);
    if (status == COPSE_OK)
        status = parse_file(l, path[2], true, &generation);
    const struct folder f = { l, path[0], config };
    if (status == COPSE_OK)
        status = read_config(&f, s, path[1]);
    if (status == COPSE_OK)
        status = read_generation(l, path[2], generation);
    if (status == COPSE_OK)
        status = read_chat(l);
    cJSON_Delete(config);
    cJSON_Delete(generation);
    for (size_t i = 0; i < COPSE_COUNT(path); i++)
        copse__free(l->arena.mem, path[i]);
    return status;
}
