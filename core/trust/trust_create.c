/* SPDX-License-Identifier: MIT */
/* Creation and release of what a context knows of kernels. */
#include "core/trust/block_list.h"
#include "core/trust/checked.h"
#include "core/trust/records.h"
#include "core/trust/tuning.h"

copse_status copse__trust_init(struct copse_trust *t, struct copse_base *base,
                               bool (*is_kernel)(const char *name, size_t length))
{
    *t = (struct copse_trust){ .base = base,
                               .is_kernel = is_kernel,
                               .records = copse_shipped_records };
    return copse__mutex_init(&t->lock);
}

void copse__trust_fini(struct copse_trust *t)
{
    copse__block_lists_free(t);
    copse__tunings_free(t);
    copse__checked_free(t);
    copse__mutex_fini(&t->lock);
}
