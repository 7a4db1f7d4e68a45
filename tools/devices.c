/* SPDX-License-Identifier: MIT */
/* copse devices: what was found, what was rejected and why, limits, the same device met twice. */
#include <stdio.h>
#include <string.h>

#include "tools/json.h"

static const char *kind_text(copse_device_kind kind)
{
    static const char *const texts[] = {
        [COPSE_DEVICE_REFERENCE] = "reference",
        [COPSE_DEVICE_CPU] = "CPU",
        [COPSE_DEVICE_INTEGRATED] = "integrated GPU",
        [COPSE_DEVICE_DISCRETE] = "discrete GPU",
        [COPSE_DEVICE_OTHER] = "accelerator",
    };
    return (size_t)kind < sizeof texts / sizeof *texts ? texts[kind] : "unknown";
}

static const char *bytes_text(uint64_t bytes, char *text, size_t room)
{
    if (bytes == UINT64_MAX)
        snprintf(text, room, "unlimited");
    else if (bytes >= (uint64_t)10 << 30)
        snprintf(text, room, "%.0f GiB", (double)bytes / (1 << 30));
    else if (bytes >= (uint64_t)1 << 20)
        snprintf(text, room, "%.0f MiB", (double)bytes / (1 << 20));
    else
        snprintf(text, room, "%.0f KiB", (double)bytes / 1024);
    return text;
}

static void print_device(const struct copse_device_info *list, const struct copse_device_info *d)
{
    char a[32], b[32], c[32];
    printf("%-10s %s\n", d->id, d->name);
    if (!d->is_usable) {
        printf("           rejected: %s\n", d->reason);
        return;
    }
    const struct copse_limits *l = &d->limits;
    printf("           %s, %s, %s%s%s\n", kind_text(d->kind), d->driver, d->api_version,
           d->memory_bytes ? ", memory " : "",
           d->memory_bytes ? bytes_text(d->memory_bytes, a, sizeof a) : "");
    if (d->kind != COPSE_DEVICE_REFERENCE)
        printf("           limits: buffer %s, binding %s, group %u with %s, %u compute units%s%s\n",
               bytes_text(l->max_buffer_bytes, a, sizeof a),
               bytes_text(l->max_binding_bytes, b, sizeof b), l->max_group_size,
               bytes_text(l->group_memory_bytes, c, sizeof c), l->compute_units,
               l->has_unified_memory ? ", shares the host's memory" : "",
               l->has_library_gemm ? ", CLBlast" : "");
    if (d->same_as >= 0)
        printf("           the same device as %s, through another API\n", list[d->same_as].id);
}

static void print_all(copse_context *ctx)
{
    const struct copse_backend_info *backends;
    const struct copse_device_info *devices;
    size_t backend_count, count;
    copse_context_backends(ctx, &backends, &backend_count);
    copse_context_devices(ctx, &devices, &count);
    for (size_t i = 0; i < count; i++)
        print_device(devices, &devices[i]);
    for (size_t i = 0; i < backend_count; i++) {
        size_t found = 0;
        for (size_t k = 0; k < count; k++)
            found += strcmp(devices[k].backend, backends[i].name) == 0;
        if (found == 0)
            printf("%-10s no device: %s\n", backends[i].name, backends[i].detail);
    }
    char ids[COPSE_MAX_REPLICAS][32];
    size_t taken = 0;
    if (copse_select_devices(ctx, "auto", ids, COPSE_MAX_REPLICAS, &taken) == COPSE_OK) {
        printf("\n`copse train` would use");
        for (size_t i = 0; i < taken; i++)
            printf("%s %s", i ? "," : "", ids[i]);
        printf("\n");
    }
}

static cJSON *limits_json(const struct copse_limits *l)
{
    cJSON *o = cJSON_CreateObject();
    json_count(o, "max_buffer_bytes", l->max_buffer_bytes);
    json_count(o, "max_binding_bytes", l->max_binding_bytes);
    json_count(o, "offset_alignment", l->offset_alignment);
    json_count(o, "max_group_size", l->max_group_size);
    json_count(o, "max_group_count", l->max_group_count);
    json_count(o, "group_memory_bytes", l->group_memory_bytes);
    json_count(o, "max_bindings", l->max_bindings);
    json_count(o, "max_param_bytes", l->max_param_bytes);
    json_count(o, "subgroup_size", l->subgroup_size);
    json_count(o, "compute_units", l->compute_units);
    json_count(o, "host_import_alignment", l->host_import_alignment);
    json_count(o, "max_texel_elements", l->max_texel_elements);
    cJSON_AddBoolToObject(o, "unified_memory", l->has_unified_memory);
    cJSON_AddBoolToObject(o, "library_gemm", l->has_library_gemm);
    cJSON_AddBoolToObject(o, "f64", l->has_f64);
    cJSON_AddBoolToObject(o, "f16_storage", l->has_f16_storage);
    cJSON_AddBoolToObject(o, "rounds_to_nearest", l->rounds_to_nearest);
    cJSON_AddBoolToObject(o, "keeps_denormals", l->keeps_denormals);
    return o;
}

static copse_status print_json(copse_context *ctx)
{
    const struct copse_backend_info *backends;
    const struct copse_device_info *devices;
    size_t count;
    copse_context_backends(ctx, &backends, &count);
    cJSON *root = cJSON_CreateObject();
    cJSON *list = cJSON_AddArrayToObject(root, "backends");
    for (size_t i = 0; i < count; i++) {
        cJSON *o = cJSON_CreateObject();
        json_text(o, "name", backends[i].name);
        cJSON_AddBoolToObject(o, "loaded", backends[i].is_loaded);
        json_text(o, "detail", backends[i].detail);
        cJSON_AddItemToArray(list, o);
    }
    copse_context_devices(ctx, &devices, &count);
    list = cJSON_AddArrayToObject(root, "devices");
    for (size_t i = 0; i < count; i++) {
        const struct copse_device_info *d = &devices[i];
        cJSON *o = cJSON_CreateObject();
        json_text(o, "id", d->id);
        json_text(o, "backend", d->backend);
        json_text(o, "name", d->name);
        json_text(o, "driver", d->driver);
        json_text(o, "api_version", d->api_version);
        json_text(o, "kind", kind_text(d->kind));
        json_count(o, "memory_bytes", d->memory_bytes);
        cJSON_AddBoolToObject(o, "usable", d->is_usable);
        if (!d->is_usable)
            json_text(o, "reason", d->reason);
        if (d->same_as >= 0)
            json_text(o, "same_as", devices[d->same_as].id);
        if (d->is_usable)
            cJSON_AddItemToObject(o, "limits", limits_json(&d->limits));
        cJSON_AddItemToArray(list, o);
    }
    return json_print(root);
}

int cmd_devices(int argc, char **argv)
{
    bool is_json = false, is_verbose = false;
    const struct option_row rows[] = {
        { "json", OPTION_FLAG, &is_json, NULL, "one JSON object" },
        { "verbose", OPTION_FLAG, &is_verbose, NULL, "log what the library does" },
        { 0 },
    };
    int code = options_parse(argc, argv, rows,
                                   "Lists the devices found, their limits, and why any were "
                                   "rejected.");
    if (code >= 0)
        return code;
    copse_context *ctx = NULL;
    copse_status s = session_open(is_verbose, true, &ctx);
    if (s == COPSE_OK && is_json)
        s = print_json(ctx);
    else if (s == COPSE_OK)
        print_all(ctx);
    code = s == COPSE_OK ? EXIT_DONE : session_fail(s);
    copse_context_release(&ctx);
    return code;
}
