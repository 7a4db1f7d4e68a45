/* SPDX-License-Identifier: MIT */
/* The devices that tests run on. */
#ifndef COPSE_FOUND_H
#define COPSE_FOUND_H

#include "tests/rig/rig.h"

/* The first usable device of each backend. */
static const char *found[3];
static uint32_t found_count;

static inline void find_devices(copse_context *from)
{
    static char ids[3][32];
    const struct copse_device_info *list;
    size_t count;
    copse_context_devices(from, &list, &count);
    found_count = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_new = list[i].is_usable && found_count < 3;
        for (uint32_t f = 0; f < found_count; f++)
            is_new = is_new && strncmp(found[f], list[i].backend, strlen(list[i].backend)) != 0;
        if (is_new) {
            memcpy(ids[found_count], list[i].id, sizeof ids[0]);
            found[found_count] = ids[found_count];
            printf("device: %s\n", found[found_count++]);
        }
    }
}

#endif
