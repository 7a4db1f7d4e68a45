/* SPDX-License-Identifier: MIT */
/* Synchronous workers compare their options. The library compares the options that it knows.
   Differences in the others (a schedule, a split, which worker saves) would stay undetected, or
   appear only as a different order of calls. */
#include <stdio.h>
#include <string.h>

#include "copse/distribute/replica.h"

#include "tools/train/train_run.h"

#define LINES_MAX 64

/* The digest of a line as whole numbers that f32 represents exactly. */
static float train_across_digest(const char *line, size_t length)
{
    uint32_t sum = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        sum = (sum ^ (unsigned char)line[i]) * 16777619u;
    return (float)((sum ^ sum >> 24) & 0xffffffu);
}

/* The digests of all workers: each adds its own at its index and zeros elsewhere. */
static copse_status train_across_gather(const struct run *r, float *all, uint32_t lines,
                                        const float *mine)
{
    const copse_shape shape = COPSE_SHAPE(copse_cluster_size(r->cluster), lines);
    const uint32_t replicas = copse_strategy_replicas(r->strategy);
    copse_value *parts[COPSE_MAX_REPLICAS] = { NULL }, *each = NULL, *sum = NULL;
    copse_status s = COPSE_OK;
    for (uint32_t i = 0; s == COPSE_OK && i < replicas; i++) {
        memset(all, 0, sizeof *all * shape.dims[0] * lines);
        if (i == 0)
            memcpy(all + copse_cluster_rank(r->cluster) * lines, mine, sizeof *mine * lines);
        s = copse_value_create(r->ctx, COPSE_F32, shape, all, &parts[i]);
    }
    if (s == COPSE_OK)
        s = copse_value_per_replica(r->strategy, parts, replicas, &each);
    if (s == COPSE_OK)
        s = copse_strategy_reduce(r->strategy, COPSE_REDUCE_SUM, each, NULL, &sum);
    if (s == COPSE_OK)
        s = copse_value_read(sum, all);
    for (uint32_t i = 0; i < replicas; i++)
        copse_value_release(&parts[i]);
    copse_value_release(&each);
    copse_value_release(&sum);
    return s;
}

/* "worker 1 (b:7000)", as the library writes it. */
static void name_worker(const struct run *r, uint32_t rank, char *text, size_t room)
{
    const bool has_chief = copse_cluster_spec_tasks(r->job, COPSE_ROLE_CHIEF) > 0;
    const copse_role role = has_chief && rank == 0 ? COPSE_ROLE_CHIEF : COPSE_ROLE_WORKER;
    const uint32_t index = has_chief && rank > 0 ? rank - 1 : rank;
    const char *address = copse_cluster_spec_address(r->job, role, index);
    snprintf(text, room, "%s %u%s%s%s", copse_role_name(role), index, address ? " (" : "",
             address ? address : "", address ? ")" : "");
}

copse_status run_compare(const struct run *r)
{
    static float all[COPSE_MAX_WORKERS * LINES_MAX];
    float mine[LINES_MAX] = { 0 };
    char text[SETTINGS_BYTES + 512], who[300];
    const char *line[LINES_MAX];
    uint32_t lines = 0;
    if (!r->cluster || run_is_served(r) || copse_cluster_size(r->cluster) == 1)
        return COPSE_OK;
    COPSE_TRY(run_describe(r, text, sizeof text));
    for (const char *at = text; *at && lines < LINES_MAX;
         at += at[strcspn(at, "\n")] ? strcspn(at, "\n") + 1 : 0) {
        line[lines] = at;
        mine[lines++] = train_across_digest(at, strcspn(at, "\n"));
    }
    COPSE_TRY(train_across_gather(r, all, lines, mine));
    for (uint32_t i = 0; i < lines; i++)
        for (uint32_t v = 1; v < copse_cluster_size(r->cluster); v++)
            if (all[v * lines + i] != all[i]) {
                name_worker(r, v, who, sizeof who);
                return session_set_error(
                    COPSE_ERR_ARGUMENT,
                    "%s has another %.*s than the first worker (here it is '%.*s'): give all "
                    "tasks of a job the same options",
                    who, (int)strcspn(line[i], "="), line[i], (int)strcspn(line[i], "\n"), line[i]);
            }
    return COPSE_OK;
}
