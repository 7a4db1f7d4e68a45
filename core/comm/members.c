/* SPDX-License-Identifier: MIT */
/* Public getters of a cluster. */
#include "core/comm/cluster.h"

uint32_t copse_cluster_rank(const copse_cluster *c)
{
    return c ? c->t.rank : 0;
}

uint32_t copse_cluster_size(const copse_cluster *c)
{
    uint32_t count = 0;
    for (uint32_t r = 0; c && r < c->t.size; r++)
        count += c->original[r] < copse__cluster_spec_trainers(c->spec);
    return count;
}

uint32_t copse_cluster_servers(const copse_cluster *c)
{
    return c ? c->t.size - copse_cluster_size(c) : 0;
}

const char *copse_cluster_engine(const copse_cluster *c)
{
    return !c ? "" : c->table ? c->table->name : "local";
}

/* After a loss the first survivor is the chief. */
bool copse_cluster_is_chief(const copse_cluster *c)
{
    return c && c->t.rank == 0;
}

bool copse_cluster_is_lost(const copse_cluster *c, uint32_t rank)
{
    return c && rank < c->t.size && (((c->t.lost & ~c->notified) | c->reported) >> rank & 1) != 0;
}

uint32_t copse_cluster_lost(const copse_cluster *c)
{
    uint32_t count = 0;
    for (uint32_t r = 0; c && r < c->t.size; r++)
        count += copse_cluster_is_lost(c, r);
    return count;
}

bool copse_cluster_can_regroup(const copse_cluster *c)
{
    return c && (!c->table || !c->table->ends_together);
}
