/* SPDX-License-Identifier: MIT */
/* Adapters of files: which form a path has. */
#include "core/language/adapter_file.h"

#include <math.h>

#include "core/base/files.h"

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
        s = copse__path_ends(path, ".gguf")
                ? copse__adapter_save_gguf(&v, path)
                : copse__adapter_save_peft(&v, path, !copse__path_ends(path, ".safetensors"));
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

/* ---- the adapters of files, and their sum ---- */

struct adapters {
    copse_language *l;
    const char *const *paths;
    const float *factors; /* NULL: all are 1 */
    size_t count;
};

static float factor_of(const struct adapters *a, size_t i)
{
    return a->factors ? a->factors[i] : 1.0f;
}

static copse_status check_adapters(const struct adapters *a)
{
    if (a->l->adapter.rank > 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "adapter: %s has an adapter of rank %u", a->l->path,
                          a->l->adapter.rank);
    if (a->count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "adapter: there is no path");
    for (size_t i = 0; i < a->count; i++) {
        const double factor = (double)factor_of(a, i);
        COPSE_TRY(copse_need("adapter", a->paths[i]));
        if (!copse__adapter_alpha_fits(fabs(factor)))
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "adapter: the factor of %s is %g; " COPSE_ADAPTER_ALPHAS
                              " and their negatives are allowed",
                              a->paths[i], factor);
    }
    return COPSE_OK;
}

/* The values of all, and then their sum. */
static copse_status load_all(const struct adapters *a, struct copse_adapter_values *all,
                             struct copse_adapter_values *sum)
{
    copse_status s = COPSE_OK;
    uint32_t rank = 0;
    for (size_t i = 0; s == COPSE_OK && i < a->count; i++) {
        s = copse__adapter_values_begin(&all[i], a->l);
        if (s == COPSE_OK)
            s = load_form(&all[i], a->paths[i]);
        rank += all[i].is.rank;
        if (s == COPSE_OK && all[i].is.is_dora)
            s = copse_fail(
                COPSE_ERR_UNSUPPORTED,
                "adapter: %s has magnitudes (DoRA), which cannot be added to others: load it "
                "alone, with the factor 1, or merge it with the model first",
                a->paths[i]);
        if (s == COPSE_OK && rank > COPSE_ADAPTER_RANK)
            s = copse_fail(COPSE_ERR_ARGUMENT,
                           "adapter: with %s the ranks are %u together; %u are allowed",
                           a->paths[i], rank, COPSE_ADAPTER_RANK);
    }
    for (size_t i = 0; s == COPSE_OK && i < a->count; i++)
        s = copse__adapter_sum_add(sum, rank, &all[i], (double)factor_of(a, i));
    return s;
}

static copse_status load_sum(const struct adapters *a, struct copse_adapter_values *sum)
{
    struct copse_adapter_values *all = copse__alloc(sum->mem, a->count, sizeof *all);
    COPSE_TRY(copse_need_memory(all, "adapter"));
    const copse_status s = load_all(a, all, sum);
    for (size_t i = 0; i < a->count; i++)
        copse__adapter_values_end(&all[i]);
    copse__free(sum->mem, all);
    return s;
}

copse_status copse_language_load_adapters(copse_language *language, const char *const *paths,
                                          const float *factors, size_t count)
{
    struct copse_adapter_values v;
    COPSE_TRY(copse_need("adapter", language, paths));
    COPSE_TRY(copse__require_no_replica("copse_language_load_adapters", language->strategy));
    const struct adapters a = { language, paths, factors, count };
    COPSE_TRY(check_adapters(&a));
    copse_status s = copse__adapter_values_begin(&v, language);
    if (s == COPSE_OK)
        s = count == 1 && factor_of(&a, 0) == 1.0f ? load_form(&v, paths[0]) : load_sum(&a, &v);
    if (s == COPSE_OK)
        s = copse__adapter_values_give(&v);
    copse__adapter_values_end(&v);
    return s;
}

copse_status copse_language_load_adapter(copse_language *language, const char *path)
{
    COPSE_TRY(copse_need("adapter", language, path));
    return copse_language_load_adapters(language, &path, NULL, 1);
}
