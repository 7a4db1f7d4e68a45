/* SPDX-License-Identifier: MIT */
/* copse export --merged: a language model with its adapters as a model of its own. */
#include <stdio.h>
#include <string.h>

#include "copse/train/adapt.h"

#include "tools/common/plural.h"
#include "tools/common/use.h"
#include "tools/export/export_merged.h"

enum { TYPE_OF_FILE };
const struct option_name export_types[] = {
    { "file", TYPE_OF_FILE },
    { "f32", 1 + COPSE_F32 },
    { "f16", 1 + COPSE_F16 },
    { "bf16", 1 + COPSE_BF16 },
    { NULL, 0 },
};

/* No file of an adapter may be replaced. */
static copse_status merged_check_adapter(const struct export_merged *e, const char *given)
{
    static const char *const files[] = { "adapter_model.safetensors", "adapter_config.json" };
    char name[USE_PATH], path[USE_PATH];
    float factor;
    COPSE_TRY(use_adapter(given, name, &factor));
    bool is_same = output_is_same(e->to, name);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        is_same = is_same || (use_beside(path, name, files[i]) && output_is_same(e->to, path));
    return is_same ? session_set_error(COPSE_ERR_ARGUMENT,
                                       "--merged would replace '%s', of the adapter that this "
                                       "command reads; name another file",
                                       e->to)
                   : COPSE_OK;
}

/* The folder that is to have the new file or folder. */
static copse_status merged_check_parent(const char *to)
{
    char parent[USE_PATH];
    struct system_file info;
    size_t n = strlen(to);
    while (n > 1 && (to[n - 1] == '/' || to[n - 1] == '\\'))
        n--;
    if (snprintf(parent, sizeof parent, "%.*s", (int)n, to) >= (int)sizeof parent)
        return session_set_error(COPSE_ERR_ARGUMENT, "--merged: the path is too long");
    const size_t folder = (size_t)(system_name(parent) - parent);
    parent[folder] = '\0';
    if (folder == 0 || (system_look(parent, &info) && info.kind == SYSTEM_FOLDER))
        return COPSE_OK;
    return session_set_error(COPSE_ERR_IO, "--merged: cannot make '%s': there is no folder '%s'",
                             to, parent);
}

/* Whether the file or folder can be written. */
static copse_status merged_check(const struct export_merged *e)
{
    struct system_file info;
    if (!use_is_language(e->model))
        return session_set_error(COPSE_ERR_FORMAT,
                                 "'%s' is no language model: a GGUF file, or a folder with "
                                 "config.json",
                                 e->model);
    if (output_is_same(e->to, e->model))
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "--merged would replace '%s', which this command reads", e->to);
    for (size_t i = 0; i < e->lora->count; i++)
        COPSE_TRY(merged_check_adapter(e, e->lora->at[i]));
    const bool is_folder = use_is_model_folder(e->model);
    if (is_folder && use_has_ending(e->to, ".gguf"))
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "--merged: '%s' is a folder, and gives a folder: leave the ending "
                                 ".gguf of '%s' out",
                                 e->model, e->to);
    if (!is_folder && !use_has_ending(e->to, ".gguf"))
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "--merged: '%s' is a GGUF file, and gives one: let '%s' end in "
                                 ".gguf",
                                 e->model, e->to);
    COPSE_TRY(merged_check_parent(e->to));
    if (!system_look(e->to, &info))
        return is_folder ? COPSE_OK : output_check(e->to);
    if (is_folder)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "'%s' exists; name a new folder for the merged model", e->to);
    return e->is_forced
               ? output_check(e->to)
               : session_set_error(COPSE_ERR_ARGUMENT, "'%s' exists; --force replaces it", e->to);
}

static copse_status merged_write(const struct export_merged *e, copse_context *ctx,
                                 struct copse_merge_info *info)
{
    const struct copse_merge_params how = {
        .has_type = e->type != TYPE_OF_FILE,
        .type = (copse_type)(e->type != TYPE_OF_FILE ? e->type - 1 : COPSE_F32),
    };
    copse_strategy *st = NULL;
    copse_language *language = NULL;
    copse_status s = copse_one_device_create(ctx, "host:0", NULL, &st);
    if (s == COPSE_OK)
        s = copse_language_open(st, e->model, NULL, &language);
    if (s == COPSE_OK)
        s = use_load_adapters(language, e->lora);
    if (s == COPSE_OK) {
        signals_hold();
        s = copse_language_save_merged(language, e->to, &how, info);
        signals_release();
    }
    copse_language_release(&language);
    copse_strategy_release(&st);
    return s;
}

int export_merged(const struct export_merged *e)
{
    copse_context *ctx = NULL;
    struct copse_merge_info info = { .weights = 0 };
    copse_status s = session_open_files(&ctx);
    if (s == COPSE_OK)
        s = merged_check(e);
    if (s == COPSE_OK)
        s = merged_write(e, ctx, &info);
    if (s == COPSE_OK) {
        printf("saved    '%s': %u merged weight%s", session_shown(e->to), info.weights,
               plural_end(info.weights));
        if (info.quantised > 0 && e->type == TYPE_OF_FILE)
            printf(", %u of them f32 where the model is quantised", info.quantised);
        printf("\n");
    }
    copse_context_release(&ctx);
    return s == COPSE_OK ? EXIT_DONE : session_fail(s);
}
