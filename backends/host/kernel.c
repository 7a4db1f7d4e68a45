/* SPDX-License-Identifier: MIT */
/* Kernels of the host backend: the host function of the kernel's law runs a whole dispatch. */
#include "backends/host/host_internal.h"

bool copse_host_has_kernel(const copse_device *dev, const struct copse_kernel_row *row)
{
    (void)dev;
    return !row->is_variant;
}

copse_status copse_host_kernel_init(struct copse_kernel *k)
{
    return k->row->is_variant
               ? copse_fail(COPSE_ERR_UNSUPPORTED, "host: %s is a variant", k->row->name)
               : COPSE_OK;
}

void copse_host_kernel_fini(struct copse_kernel *k)
{
    (void)k;
}

void copse_host_dispatch(const struct copse_command *c)
{
    struct copse_host_arg args[COPSE_MAX_BINDINGS];
    for (uint32_t i = 0; i < c->binding_count; i++)
        args[i] = (struct copse_host_arg){ .data = copse_host_at(&c->bindings[i]),
                                           .count = c->bindings[i].size / 4 };
    c->kernel->row->law->host(c->params, c->kernel->spec, args);
}
