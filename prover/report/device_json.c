/* SPDX-License-Identifier: MIT */
/* A device as JSON: identity, limits, blocked kernels. */
#include <stdlib.h>

#include "copse/device/choice.h"
#include "copse/device/tuning.h"
#include "prover/conformance/verdict/library.h"
#include "prover/report/report.h"

static bool add_limits(cJSON *to, const struct copse_limits *l)
{
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {
        { "max_buffer_bytes", l->max_buffer_bytes },
        { "max_binding_bytes", l->max_binding_bytes },
        { "offset_alignment", l->offset_alignment },
        { "max_group_size", l->max_group_size },
        { "max_group_count", l->max_group_count },
        { "group_memory_bytes", l->group_memory_bytes },
        { "max_bindings", l->max_bindings },
        { "max_param_bytes", l->max_param_bytes },
        { "subgroup_size", l->subgroup_size },
        { "compute_units", l->compute_units },
        { "host_import_alignment", l->host_import_alignment },
        { "max_texel_elements", l->max_texel_elements },
        { "cooperative_m", l->cooperative_shape[0] },
        { "cooperative_n", l->cooperative_shape[1] },
        { "cooperative_k", l->cooperative_shape[2] },
    };
    const struct {
        const char *name;
        bool value;
    } flags[] = {
        { "gpu", l->is_gpu },
        { "matrix_units_f16", (l->matrix_units & COPSE_MATRIX_F16) != 0 },
        { "matrix_units_bf16", (l->matrix_units & COPSE_MATRIX_BF16) != 0 },
        { "matrix_units_preferred", (l->matrix_units & COPSE_MATRIX_PREFERRED) != 0 },
        { "unified_memory", l->has_unified_memory },
        { "library_gemm", l->has_library_gemm },
        { "f64", l->has_f64 },
        { "f16_storage", l->has_f16_storage },
        { "rounds_to_nearest", l->rounds_to_nearest },
        { "keeps_denormals", l->keeps_denormals },
    };
    cJSON *o = cJSON_AddObjectToObject(to, "limits");
    bool is_good = o != NULL;
    for (size_t i = 0; i < COPSE_COUNT(counts) && is_good; i++)
        is_good = copse__json_add_count(o, counts[i].name, counts[i].value);
    for (size_t i = 0; i < COPSE_COUNT(flags) && is_good; i++)
        is_good = cJSON_AddBoolToObject(o, flags[i].name, flags[i].value) != NULL;
    return is_good;
}

static bool add_blocked(cJSON *to, copse_context *ctx, const char *id)
{
    const struct copse_blocked_kernel *list;
    size_t count = 0;
    cJSON *array = cJSON_AddArrayToObject(to, "blocked");
    bool is_good = array != NULL;
    if (copse_device_blocked(ctx, id, &list, &count) != COPSE_OK)
        return is_good;
    for (size_t i = 0; i < count && is_good; i++) {
        cJSON *o = cJSON_CreateObject();
        is_good = o && copse__json_add_text(o, "kernel", list[i].kernel) &&
                  copse__json_add_text(o, "reason", list[i].reason) &&
                  copse__json_add_text(o, "until",
                                       list[i].is_lasting ? "unblocked" : "three runs pass") &&
                  copse__json_add_count(o, "passes", list[i].passes) &&
                  cJSON_AddItemToArray(array, o);
        if (!is_good)
            cJSON_Delete(o);
    }
    return is_good;
}

static bool add_state(cJSON *o, copse_context *ctx, const char *id)
{
    struct copse_device_state state;
    return copse_device_state(ctx, id, &state) != COPSE_OK ||
           (copse__json_add_text(o, "tested", state.modes) &&
            cJSON_AddBoolToObject(o, "unreliable", state.is_unreliable) &&
            copse__json_add_count(o, "flips", state.flips) &&
            (!state.is_unreliable || copse__json_add_text(o, "unreliable_reason", state.reason)));
}

static bool add_hardware(cJSON *o, const struct copse_device_info *d)
{
    char text[64];
    bool is_good = true;
    if (d->vendor_id) {
        snprintf(text, sizeof text, "0x%04x", (unsigned)d->vendor_id);
        is_good = is_good && copse__json_add_text(o, "vendor_id", text);
    }
    if (d->has_pci) {
        snprintf(text, sizeof text, "%04x:%02x:%02x.%x", (unsigned)d->pci[0], (unsigned)d->pci[1],
                 (unsigned)d->pci[2], (unsigned)d->pci[3]);
        is_good = is_good && copse__json_add_text(o, "pci", text);
    }
    if (d->has_uuid) {
        for (size_t i = 0; i < sizeof d->uuid; i++)
            snprintf(text + 2 * i, 3, "%02x", d->uuid[i]);
        is_good = is_good && copse__json_add_text(o, "uuid", text);
    }
    return is_good;
}

/* Number of size classes with a measurement. */
static size_t count_tuned(copse_context *ctx, const char *id)
{
    const struct copse_tuning_entry *list;
    size_t count, classes = 0;
    if (copse_device_tuning(ctx, id, &list, &count) != COPSE_OK)
        return 0;
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (strcmp(list[k].size_class, list[i].size_class) != 0 ||
               strcmp(list[k].family, list[i].family) != 0)
            k++;
        classes += k == i && strcmp(list[i].family, COPSE_TUNED_SHARES) != 0;
    }
    return classes;
}

static bool add_all(cJSON *o, copse_context *ctx, const struct copse_device_info *d)
{
    return copse__json_add_text(o, "id", d->id) && copse__json_add_text(o, "backend", d->backend) &&
           copse__json_add_text(o, "name", d->name) &&
           copse__json_add_text(o, "driver", d->driver) &&
           copse__json_add_text(o, "api_version", d->api_version) &&
           copse__json_add_text(o, "kind", copse_device_kind_name(d->kind)) && add_hardware(o, d) &&
           copse__json_add_count(o, "memory_bytes", d->memory_bytes) &&
           cJSON_AddBoolToObject(o, "usable", d->is_usable) &&
           (d->is_usable || copse__json_add_text(o, "reason", d->reason)) &&
           (d->same_as < 0 || copse__json_add_text(o, "same_as", ctx->devices[d->same_as].id)) &&
           (!d->is_usable ||
            (add_limits(o, &d->limits) && add_blocked(o, ctx, d->id) && add_state(o, ctx, d->id) &&
             copse__json_add_count(o, "tuned_sizes", count_tuned(ctx, d->id)) &&
             copse__json_add_count(o, "shipped_measurements", copse__tuning_shipped(ctx, d))));
}

cJSON *copse__device_json(copse_context *ctx, const struct copse_device_info *d)
{
    cJSON *o = cJSON_CreateObject();
    if (o && add_all(o, ctx, d))
        return o;
    cJSON_Delete(o);
    return NULL;
}

copse_status copse_device_json(copse_context *ctx, const char *device, char *text, size_t room,
                               size_t *needed)
{
    COPSE_TRY(copse__conform_library());
    COPSE_TRY(copse_need("device as JSON", ctx, device, needed));
    const struct copse_device_info *d = ctx->devices, *end = d + ctx->device_count;
    while (d < end && strcmp(d->id, device) != 0)
        d++;
    if (d == end)
        return copse_fail(COPSE_ERR_NO_DEVICE, "device as JSON: no device '%s'", device);
    cJSON *o = copse__device_json(ctx, d);
    char *all = o ? cJSON_PrintUnformatted(o) : NULL;
    cJSON_Delete(o);
    if (!all)
        return copse_no_memory("device as JSON: %s", device);
    *needed = strlen(all) + 1;
    const bool fits = text && *needed <= room;
    if (fits)
        memcpy(text, all, *needed);
    cJSON_free(all);
    return fits || !text
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT, "device as JSON: %zu bytes are needed", *needed);
}
