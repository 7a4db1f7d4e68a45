/* SPDX-License-Identifier: MIT */
/* Segments of the host backend: they use core's list of commands and need no other data. */
#include "backends/host/host_internal.h"

copse_status copse_host_segment_init(struct copse_segment *seg)
{
    (void)seg;
    return COPSE_OK;
}

void copse_host_segment_fini(struct copse_segment *seg)
{
    (void)seg;
}

copse_status copse_host_replay(struct copse_segment *seg)
{
    for (size_t i = 0; i < seg->count; i++)
        COPSE_TRY(copse_host_encode(seg->queue, &seg->commands[i]));
    return COPSE_OK;
}
