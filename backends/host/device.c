/* SPDX-License-Identifier: MIT */
/* The table of the host backend and its one device. */
#include <stdio.h>

#include "backends/host/host_internal.h"

copse_status copse_host_list(struct copse_device_sink *sink)
{
    const uint64_t largest = SIZE_MAX / 4;
    const struct copse_device_info info = {
        .name = "reference (double precision)",
        .driver = "part of the library",
        .kind = COPSE_DEVICE_REFERENCE,
        .is_usable = true,
        .limits = {
            .max_buffer_bytes = largest,
            .max_binding_bytes = largest,
            .offset_alignment = 4,
            .max_group_size = 256,
            .max_group_count = UINT32_MAX,
            .group_memory_bytes = 32 * 1024,
            .max_bindings = COPSE_MAX_BINDINGS,
            .max_param_bytes = 4 * COPSE_MAX_PARAM_WORDS,
            .subgroup_size = 1,
            .compute_units = 1,
            .host_import_alignment = 64,
            .has_unified_memory = true,
            .has_f64 = true,
            .rounds_to_nearest = true,
            .keeps_denormals = true,
        },
    };
    sink->is_loaded = true;
    snprintf(sink->detail, sizeof sink->detail, "part of the library");
    return sink->add(sink, &info);
}

copse_status copse_host_open(copse_device *dev)
{
    (void)dev;
    return COPSE_OK;
}

void copse_host_close(copse_device *dev)
{
    (void)dev;
}

copse_status copse_host_check(copse_device *dev)
{
    return atomic_load(&dev->is_lost)
               ? copse_fail(COPSE_ERR_DEVICE_LOST, "host: %s was lost", dev->info.id)
               : COPSE_OK;
}

extern const struct copse_backend copse_backend_host;
const struct copse_backend copse_backend_host = {
    .name = "host",
    .buffer_priv = sizeof(struct host_buffer),
    .queue_priv = sizeof(struct host_queue),
    .list = copse_host_list,
    .open = copse_host_open,
    .close = copse_host_close,
    .memory = copse_host_memory,
    .buffer_init = copse_host_buffer_init,
    .buffer_fini = copse_host_buffer_fini,
    .has_kernel = copse_host_has_kernel,
    .kernel_init = copse_host_kernel_init,
    .kernel_fini = copse_host_kernel_fini,
    .queue_init = copse_host_queue_init,
    .queue_fini = copse_host_queue_fini,
    .write = copse_host_write,
    .read = copse_host_read,
    .encode = copse_host_encode,
    .segment_init = copse_host_segment_init,
    .segment_fini = copse_host_segment_fini,
    .replay = copse_host_replay,
    .submit = copse_host_submit,
    .wait = copse_host_wait,
    .wait_queue = copse_host_wait_queue,
    .stamp = copse_host_stamp,
    .stamp_read = copse_host_stamp_read,
};
