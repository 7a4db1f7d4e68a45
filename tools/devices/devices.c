/* SPDX-License-Identifier: MIT */
/* copse devices: devices found, devices rejected and why, limits, the same device under two APIs,
   blocked kernels, what `auto` takes and why. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/device/choice.h"
#include "copse/device/conformance_results.h"
#include "copse/device/open.h"

#include "tools/common/json.h"
#include "tools/common/plural.h"

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

/* Everything about a device, as JSON; free it. NULL if that fails. */
static char *device_text(copse_context *ctx, const char *id)
{
    size_t needed = 0;
    char *text = copse_device_json(ctx, id, NULL, 0, &needed) == COPSE_OK ? malloc(needed) : NULL;
    if (text && copse_device_json(ctx, id, text, needed, &needed) == COPSE_OK)
        return text;
    free(text);
    return NULL;
}

/* A count of the device as JSON. */
static unsigned device_count(copse_context *ctx, const char *id, const char *name)
{
    char *text = device_text(ctx, id);
    cJSON *o = text ? cJSON_Parse(text) : NULL;
    const cJSON *sizes = cJSON_GetObjectItem(o, name);
    const unsigned count = cJSON_IsNumber(sizes) ? (unsigned)sizes->valuedouble : 0;
    cJSON_Delete(o);
    free(text);
    return count;
}

static void print_blocked(copse_context *ctx, const char *id)
{
    const struct copse_blocked_kernel *list;
    size_t count;
    if (copse_device_blocked(ctx, id, &list, &count) != COPSE_OK)
        return;
    for (size_t i = 0; i < count; i++)
        if (list[i].passes > 0)
            printf("           blocked: %s (%s; passed since in %u of 3 runs)\n", list[i].kernel,
                   list[i].reason, (unsigned)list[i].passes);
        else
            printf("           blocked: %s (%s)\n", list[i].kernel, list[i].reason);
}

/* What conformance knows of the device. */
static void print_state(copse_context *ctx, const struct copse_device_info *d)
{
    struct copse_device_state state;
    const bool is_reference = d->kind == COPSE_DEVICE_REFERENCE;
    if (copse_device_state(ctx, d->id, &state) != COPSE_OK)
        return;
    if (state.is_unreliable && !is_reference)
        printf("           unreliable: %s; not used for training: copse devices --unblock %s, or "
               "--trust-device\n",
               state.reason, d->id);
    if (state.modes[0])
        printf("           tested: %s\n", state.modes);
    else if (!is_reference)
        printf("           not tested with this driver: copse conformance --device %s\n", d->id);
}

static void print_matrix_units(const struct copse_limits *l)
{
    const bool has_f16 = l->matrix_units & COPSE_MATRIX_F16,
               has_bf16 = l->matrix_units & COPSE_MATRIX_BF16;
    if (!l->cooperative_shape[0])
        return;
    printf(
        "           matrix units: %u x %u x %u%s%s: %s\n", l->cooperative_shape[0],
        l->cooperative_shape[1], l->cooperative_shape[2], has_f16 ? " of f16" : "",
        has_bf16 ? " and bf16" : "",
        !l->matrix_units ? "not used, since the driver cannot set the size of their subgroups"
        : l->matrix_units & COPSE_MATRIX_PREFERRED
            ? "used by products of 16 bits"
            : "not known to be fast here; used where `copse tune` measures them as faster, or by "
              "--kernel matmul=cooperative");
}

static void print_limits(const struct copse_device_info *d)
{
    const struct copse_limits *l = &d->limits;
    char a[32], b[32], c[32];
    printf("           %s, %s%s%s%s%s\n", copse_device_kind_name(d->kind), d->driver,
           d->api_version[0] ? ", " : "", d->api_version, d->memory_bytes ? ", memory " : "",
           d->memory_bytes ? bytes_text(d->memory_bytes, a, sizeof a) : "");
    printf("           limits: buffer %s, binding %s, group %u with %s, %u compute units%s%s%s\n",
           bytes_text(l->max_buffer_bytes, a, sizeof a),
           bytes_text(l->max_binding_bytes, b, sizeof b), l->max_group_size,
           bytes_text(l->group_memory_bytes, c, sizeof c), l->compute_units,
           l->has_unified_memory ? ", shares the host's memory" : "",
           l->has_library_gemm ? ", CLBlast" : "", l->is_gpu ? ", kernels for GPUs" : "");
    print_matrix_units(l);
    if (l->has_library_gemm)
        printf(
            "           CLBlast: %s\n",
            l->is_gpu && d->kind == COPSE_DEVICE_DISCRETE
                ? "large f32 products (512 x 512 x 512 and more), once its tests have passed"
                : "not preferred, since this is no discrete GPU; used where `copse tune` measures "
                  "it as faster, or by --kernel matmul=clblast");
}

static void print_device(copse_context *ctx, const struct copse_device_info *list,
                         const struct copse_device_info *d)
{
    printf("%-10s %s\n", d->id, d->name);
    if (!d->is_usable) {
        printf("           rejected: %s\n", d->reason);
        return;
    }
    if (d->kind == COPSE_DEVICE_REFERENCE)
        printf("           slow and exact, in double precision: for checks, and for training if "
               "nothing else is found\n");
    else
        print_limits(d);
    if (d->same_as >= 0)
        printf("           the same device as %s, through another API\n", list[d->same_as].id);
    print_blocked(ctx, d->id);
    print_state(ctx, d);
    const unsigned tuned = device_count(ctx, d->id, "tuned_sizes");
    const unsigned shipped = device_count(ctx, d->id, "shipped_measurements");
    if (tuned)
        printf("           tuned: kernels chosen by `copse tune` for %u size%s\n", tuned,
               plural_end(tuned));
    if (shipped)
        printf("           %s: %u measurement%s of this device and driver in the library%s\n",
               tuned ? "others" : "tuned", shipped, plural_end(shipped),
               tuned ? ", for other sizes" : "; `copse tune` measures this machine");
}

/* A line for each usable device: what `auto` makes of it. */
static void print_choices(copse_context *ctx, const struct copse_device_info *list, size_t count)
{
    struct copse_device_choice choice;
    printf("\n`copse train` uses by default, as --devices auto:\n");
    for (int taken = 1; taken >= 0; taken--)
        for (size_t i = 0; i < count; i++)
            if (list[i].is_usable && copse_device_choice(ctx, list[i].id, &choice) == COPSE_OK &&
                choice.is_taken == taken)
                printf("%-10s %s: %s\n", list[i].id, taken ? "taken" : "left out", choice.reason);
}

static void print_all(copse_context *ctx)
{
    const struct copse_backend_info *backends;
    const struct copse_device_info *devices;
    size_t backend_count, count;
    copse_context_backends(ctx, &backends, &backend_count);
    copse_context_devices(ctx, &devices, &count);
    for (size_t i = 0; i < count; i++)
        print_device(ctx, devices, &devices[i]);
    for (size_t i = 0; i < backend_count; i++) {
        size_t found = 0;
        for (size_t k = 0; k < count; k++)
            found += strcmp(devices[k].backend, backends[i].name) == 0;
        if (found == 0)
            printf("%-10s no device: %s\n", backends[i].name, backends[i].detail);
    }
    print_choices(ctx, devices, count);
}

static copse_status add_choices(copse_context *ctx, cJSON *list)
{
    const struct copse_device_info *devices;
    size_t count;
    copse_context_devices(ctx, &devices, &count);
    for (size_t i = 0; i < count; i++) {
        struct copse_device_choice choice;
        cJSON *o = cJSON_CreateObject();
        cJSON_AddItemToArray(list, o);
        COPSE_TRY(copse_device_choice(ctx, devices[i].id, &choice));
        json_add_text(o, "id", devices[i].id);
        cJSON_AddBoolToObject(o, "taken", choice.is_taken);
        json_add_text(o, "reason", choice.reason);
    }
    return COPSE_OK;
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
        json_add_text(o, "name", backends[i].name);
        cJSON_AddBoolToObject(o, "loaded", backends[i].is_loaded);
        json_add_text(o, "detail", backends[i].detail);
        cJSON_AddItemToArray(list, o);
    }
    copse_context_devices(ctx, &devices, &count);
    list = cJSON_AddArrayToObject(root, "devices");
    for (size_t i = 0; i < count; i++) {
        char *text = device_text(ctx, devices[i].id);
        const bool is_added = text && cJSON_AddItemToArray(list, cJSON_CreateRaw(text));
        free(text);
        if (!is_added) {
            cJSON_Delete(root);
            return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the list of devices");
        }
    }
    const copse_status s = add_choices(ctx, cJSON_AddArrayToObject(root, "auto"));
    if (s == COPSE_OK)
        return json_print(root);
    cJSON_Delete(root);
    return s;
}

int cmd_devices(int argc, char **argv)
{
    bool is_json = false, is_verbose = false;
    const char *unblock = NULL;
    const struct option_row rows[] = {
        { "unblock", OPTION_TEXT, &unblock, "ID",
          "use the blocked kernels of this device again, and trust it" },
        { "json", OPTION_FLAG, &is_json, NULL, "one JSON object" },
        { "verbose", OPTION_FLAG, &is_verbose, NULL, "log what the library does" },
        { 0 },
    };
    int code = options_parse(argc, argv, rows,
                             "Lists the devices found, their limits, their blocked kernels, what "
                             "`copse conformance` has tested,\n"
                             "the number of problem sizes that `copse tune` measured, the reason "
                             "why any device was rejected,\n"
                             "and which devices `auto` takes and why.");
    if (code >= 0)
        return code;
    copse_context *ctx = NULL;
    copse_status s = session_open(&(struct session_how){ .is_verbose = is_verbose }, &ctx);
    if (s == COPSE_OK && unblock)
        s = copse_device_unblock(ctx, unblock, NULL);
    if (s == COPSE_OK && is_json)
        s = print_json(ctx);
    else if (s == COPSE_OK)
        print_all(ctx);
    code = s == COPSE_OK ? EXIT_DONE : session_fail(s);
    copse_context_release(&ctx);
    return code;
}
