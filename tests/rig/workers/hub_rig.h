/* SPDX-License-Identifier: MIT */
/* Workers of a job as threads of this process, connected by a hub. */
#ifndef COPSE_HUB_RIG_H
#define COPSE_HUB_RIG_H

#include "core/comm/local.h"
#include "tests/rig/rig.h"

/* The parameters of worker `rank` of `size`, at the addresses h0:1, h1:1, ... */
static inline copse_status worker_spec(copse_context *from, uint32_t rank, uint32_t size,
                                       copse_cluster_spec **out)
{
    char json[1024];
    int used = snprintf(json, sizeof json, "{\"cluster\":{\"worker\":[");
    for (uint32_t r = 0; r < size; r++)
        used += snprintf(json + used, sizeof json - (size_t)used, "%s\"h%u:1\"", r ? "," : "", r);
    snprintf(json + used, sizeof json - (size_t)used,
             "]},\"task\":{\"type\":\"worker\",\"index\":%u}}", rank);
    return copse_cluster_spec_parse(from, json, out);
}

#endif
