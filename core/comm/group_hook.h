/* SPDX-License-Identifier: MIT */
/* How a group carries the messages of the exchange of gradients. */
#ifndef COPSE_CLUSTER_GROUP_HOOK_H
#define COPSE_CLUSTER_GROUP_HOOK_H

#include "core/comm/group.h"

/* Fill g->hook, but for the binding limit, once the workers and their replicas are known. */
void copse__group_hook_init(struct copse_group *g);

#endif
