/* SPDX-License-Identifier: MIT */
/* Descriptions of devices: limits capped to those of the library, and entries that are the same
   device. */
#include <stdio.h>

#include "core/device/device.h"

#define MAX_GROUP_SIZE   256u
#define MAX_GROUP_MEMORY (32u * 1024u)
#define MIN_BUFFER_BYTES (1024u * 1024u)
#define MIN_BINDINGS     4u

const char *copse_device_kind_name(copse_device_kind kind)
{
    static const char *const names[] = {
        [COPSE_DEVICE_REFERENCE] = "reference",       [COPSE_DEVICE_CPU] = "CPU",
        [COPSE_DEVICE_INTEGRATED] = "integrated GPU", [COPSE_DEVICE_DISCRETE] = "discrete GPU",
        [COPSE_DEVICE_OTHER] = "accelerator",
    };
    return (size_t)kind < COPSE_COUNT(names) ? names[kind] : "unknown";
}

bool copse__limits_cap(struct copse_limits *l, char *reason, size_t room)
{
    if (l->offset_alignment > COPSE_ALIGNMENT) {
        snprintf(reason, room,
                 "binding offsets must be multiples of %u bytes, the library keeps %u",
                 l->offset_alignment, COPSE_ALIGNMENT);
        return false;
    }
    if (l->max_buffer_bytes < MIN_BUFFER_BYTES || l->max_binding_bytes < MIN_BUFFER_BYTES) {
        snprintf(reason, room, "buffers of %llu bytes and bindings of %llu, %u are needed",
                 (unsigned long long)l->max_buffer_bytes, (unsigned long long)l->max_binding_bytes,
                 MIN_BUFFER_BYTES);
        return false;
    }
    if (l->max_bindings < MIN_BINDINGS || l->max_group_size == 0 || l->max_group_count == 0 ||
        l->max_param_bytes < 4 * COPSE_MAX_PARAM_WORDS) {
        snprintf(reason, room,
                 "%u bindings (%u needed), groups of %u, %u groups, %u parameter bytes (%u needed)",
                 l->max_bindings, MIN_BINDINGS, l->max_group_size, l->max_group_count,
                 l->max_param_bytes, 4 * COPSE_MAX_PARAM_WORDS);
        return false;
    }
    l->max_buffer_bytes = COPSE_MIN(l->max_buffer_bytes, (uint64_t)SIZE_MAX) & ~UINT64_C(3);
    l->max_binding_bytes = COPSE_MIN(l->max_binding_bytes, l->max_buffer_bytes) & ~UINT64_C(3);
    l->offset_alignment = COPSE_MAX(l->offset_alignment, 4);
    l->max_group_size = COPSE_MIN(l->max_group_size, MAX_GROUP_SIZE);
    l->group_memory_bytes = COPSE_MIN(l->group_memory_bytes, MAX_GROUP_MEMORY);
    l->max_bindings = COPSE_MIN(l->max_bindings, COPSE_MAX_BINDINGS);
    return true;
}

bool copse__device_is_same(const struct copse_device_info *a, const struct copse_device_info *b)
{
    if (a->has_uuid && b->has_uuid && memcmp(a->uuid, b->uuid, sizeof a->uuid) == 0)
        return true;
    return a->has_pci && b->has_pci && a->kind != COPSE_DEVICE_CPU && b->kind != COPSE_DEVICE_CPU &&
           memcmp(a->pci, b->pci, sizeof a->pci) == 0;
}

int copse__device_same(const struct copse_device_info *list, size_t count,
                       const struct copse_device_info *dev)
{
    for (size_t i = 0; i < count; i++)
        if (copse__device_is_same(dev, &list[i]))
            return list[i].same_as >= 0 ? list[i].same_as : (int)i;
    return -1;
}
