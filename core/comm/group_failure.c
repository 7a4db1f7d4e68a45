/* SPDX-License-Identifier: MIT */
/* Abort, refusal and their consequences for a group. */
#include <stdio.h>

#include "core/comm/group.h"

bool copse__group_has_failed_device(const struct copse_group *g)
{
    return g->failed_device && g->failed_device(g->user);
}

void copse__group_abort(struct copse_group *g)
{
    char text[COPSE_ERROR_BYTES], why[COPSE_NOTICE_WHY];
    const char *device = g->failed_device ? g->failed_device(g->user) : NULL;
    if (!g->cluster || g->cluster->is_failed)
        return;
    snprintf(text, sizeof text, "%s", copse_last_error());
    if (device)
        snprintf(why, sizeof why, "its device %s failed", device);
    else
        snprintf(why, sizeof why, "it failed in the middle of a step");
    copse__cluster_abort(g->cluster, why);
    copse__fail_again(text); /* keep the text of the first failure */
}

uint64_t copse__group_sequence(const struct copse_group *g)
{
    return g->cluster ? g->cluster->sequence : 0;
}

bool copse__group_was_refused(const struct copse_group *g, uint64_t since)
{
    return g->cluster && g->cluster->refused > since;
}

bool copse__group_is_whole(const struct copse_group *g, uint64_t since)
{
    return g->cluster && !g->cluster->is_failed &&
           (copse__group_was_refused(g, since) || g->cluster->sequence == since);
}

copse_status copse__group_refuse(struct copse_group *g, const char *what, copse_status why)
{
    char text[COPSE_ERROR_BYTES];
    if (!g->cluster || g->cluster->is_failed)
        return why;
    snprintf(text, sizeof text, "%s", copse_last_error());
    if (copse__collective_begin(g->cluster, what, 0, why) == COPSE_OK)
        (void)copse__collective_barrier(g->cluster, NULL, NULL);
    copse__fail_again(text);
    return why;
}

void copse__group_note(struct copse_group *g, uint32_t detail)
{
    if (g->cluster)
        g->cluster->detail = detail;
}
