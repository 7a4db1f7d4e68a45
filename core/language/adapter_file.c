/* SPDX-License-Identifier: MIT */
/* Adapters of files: which form a path has. */
#include "core/language/adapter_file.h"

#include "core/base/files.h"

static bool ends_with(const char *path, const char *ending)
{
    const size_t size = strlen(path), n = strlen(ending);
    return size > n && strcmp(path + size - n, ending) == 0;
}

copse_status copse_language_save_adapter(copse_language *language, const char *path)
{
    struct copse_adapter_values v;
    COPSE_TRY(copse_need("adapter", language, path));
    COPSE_TRY(copse__require_no_replica("copse_language_save_adapter", language->strategy));
    if (*path == '\0')
        return copse_fail(COPSE_ERR_ARGUMENT, "adapter: there is no path");
    copse_status s = copse__adapter_values_begin(&v, language);
    if (s == COPSE_OK)
        s = copse__adapter_values_read(&v);
    if (s == COPSE_OK)
        s = ends_with(path, ".gguf")
                ? copse__adapter_save_gguf(&v, path)
                : copse__adapter_save_peft(&v, path, !ends_with(path, ".safetensors"));
    copse__adapter_values_end(&v);
    return s;
}

static bool ignore_entry(void *user, const char *name)
{
    (void)user, (void)name;
    return false;
}

static copse_status load_form(struct copse_adapter_values *v, const char *path)
{
    char begin[4];
    FILE *stream;
    uint64_t size;
    if (copse__folder_list(path, ignore_entry, NULL) == COPSE_OK)
        return copse__adapter_load_peft(v, path, true);
    COPSE_TRY(copse__file_open(path, &stream, &size));
    const bool is_gguf = fread(begin, 1, 4, stream) == 4 && memcmp(begin, "GGUF", 4) == 0;
    fclose(stream);
    return is_gguf ? copse__adapter_load_gguf(v, path) : copse__adapter_load_peft(v, path, false);
}

copse_status copse_language_load_adapter(copse_language *language, const char *path)
{
    struct copse_adapter_values v;
    COPSE_TRY(copse_need("adapter", language, path));
    COPSE_TRY(copse__require_no_replica("copse_language_load_adapter", language->strategy));
    if (language->adapter.rank > 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "adapter: %s has an adapter of rank %u",
                          language->path, language->adapter.rank);
    copse_status s = copse__adapter_values_begin(&v, language);
    if (s == COPSE_OK)
        s = load_form(&v, path);
    copse__adapter_values_end(&v);
    return s;
}
