/* SPDX-License-Identifier: MIT */
/* Kernels of a device: limits, the group size, one compilation per row and specialisation. */
#include "core/device/device.h"

void copse__kernel_group(const struct copse_limits *limits, enum copse_kernel_id id, uint32_t *x,
                         uint32_t *y)
{
    *x = copse_kernel_table[id].group_x;
    *y = copse_kernel_table[id].group_y;
    while (*x * *y > limits->max_group_size)
        *(*x >= *y ? x : y) /= 2;
}

const struct copse_kernel_row *copse__kernel_row(const copse_device *dev, enum copse_kernel_id id)
{
    return dev->overrides && dev->overrides[id] ? dev->overrides[id] : &copse_kernel_table[id];
}

copse_status copse__kernel_override(copse_device *dev, enum copse_kernel_id id,
                                    const struct copse_kernel_row *row)
{
    if (!dev->overrides)
        dev->overrides = copse__alloc(&dev->base->mem, copse_kernel_count, sizeof *dev->overrides);
    if (!dev->overrides)
        return copse_fail(COPSE_ERR_NO_MEMORY, "kernel: no memory");
    dev->overrides[id] = row;
    return COPSE_OK;
}

bool copse__kernel_is_compiled(copse_device *dev, const struct copse_kernel_row *row)
{
    copse__mutex_lock(&dev->lock);
    const struct copse_kernel *k = dev->kernels;
    while (k && k->row != row)
        k = k->next;
    copse__mutex_unlock(&dev->lock);
    return k != NULL;
}

static copse_status check_fit(const copse_device *dev, enum copse_kernel_id id)
{
    if ((size_t)id >= copse_kernel_count)
        return copse_fail(COPSE_ERR_ARGUMENT, "kernel: there is no kernel %u", (unsigned)id);

    const struct copse_kernel_row *row = copse__kernel_row(dev, id);
    const struct copse_limits *l = dev->limits;
    if (row->arg_count > l->max_bindings)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "kernel: %s sees %u buffers, %s allows %u",
                          row->name, row->arg_count, dev->info.id, l->max_bindings);
    if (4u * (row->param_words + 1u) > l->max_param_bytes)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "kernel: %s has %u parameter bytes, %s allows %u",
                          row->name, 4u * (row->param_words + 1u), dev->info.id,
                          l->max_param_bytes);
    if (row->group_memory_bytes > l->group_memory_bytes)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "kernel: %s needs %u bytes of group memory, %s allows %u", row->name,
                          row->group_memory_bytes, dev->info.id, l->group_memory_bytes);
    for (uint32_t i = 0; i < row->arg_count; i++)
        if (row->args[i].kind == COPSE_ARG_TEXEL && l->max_texel_elements == 0)
            return copse_fail(COPSE_ERR_UNSUPPORTED, "kernel: %s reads texels, %s has none",
                              row->name, dev->info.id);
    if (dev->backend->has_kernel && !dev->backend->has_kernel(dev, row))
        return copse_fail(COPSE_ERR_UNSUPPORTED, "kernel: %s has no form for %s", row->name,
                          dev->info.id);
    char reason[192];
    if (copse__kernel_is_blocked(dev, row->name, reason, sizeof reason))
        return copse_fail(COPSE_ERR_UNSUPPORTED, "kernel: %s is blocked on %s: %s", row->name,
                          dev->info.id, reason);
    return COPSE_OK;
}

bool copse__kernel_fits(const copse_device *dev, enum copse_kernel_id id)
{
    return check_fit(dev, id) == COPSE_OK;
}

static struct copse_kernel *lookup(copse_device *dev, const struct copse_kernel_row *row,
                                   const int32_t spec[COPSE_MAX_SPECS])
{
    struct copse_kernel *k = dev->kernels;
    while (k && (k->row != row || memcmp(k->spec, spec, sizeof k->spec) != 0))
        k = k->next;
    return k;
}

static void destroy(struct copse_kernel *k)
{
    k->dev->backend->kernel_fini(k);
    copse__free(&k->dev->base->mem, k);
}

static void describe(copse_device *dev, enum copse_kernel_id id, const int32_t spec[COPSE_MAX_SPECS],
                     struct copse_kernel *k)
{
    k->dev = dev;
    k->row = copse__kernel_row(dev, id);
    memcpy(k->spec, spec, sizeof k->spec);
    copse__kernel_group(dev->limits, id, &k->group_x, &k->group_y);
}

static copse_status compile(copse_device *dev, enum copse_kernel_id id,
                            const int32_t spec[COPSE_MAX_SPECS], struct copse_kernel **out)
{
    void *priv = NULL;
    struct copse_kernel *k = copse__handle_alloc(&dev->base->mem, sizeof *k,
                                                 dev->backend->kernel_priv, &priv);
    if (!k)
        return copse_fail(COPSE_ERR_NO_MEMORY, "kernel: no memory for the handle");
    describe(dev, id, spec, k);
    k->priv = priv;

    const uint64_t start = copse__now_ns();
    const copse_status s = copse__device_result(dev, dev->backend->kernel_init(k));
    if (s) {
        copse_note(s, "while compiling %s for %s", k->row->name, dev->info.id);
        destroy(k);
        return s;
    }
    copse__log(&dev->base->log, COPSE_LOG_DEBUG, "kernel: %s for %s, groups of %ux%u, %.1f ms",
               k->row->name, dev->info.id, k->group_x, k->group_y,
               (double)(copse__now_ns() - start) * 1e-6);
    atomic_store(&dev->kernel_made_ns, copse__now_ns());
    *out = k;
    return COPSE_OK;
}

/* The compiled kernel, or NULL. *spec becomes the whole specialisation, in `full`. */
static struct copse_kernel *find(copse_device *dev, enum copse_kernel_id id, const int32_t **spec,
                                 int32_t full[COPSE_MAX_SPECS])
{
    const struct copse_kernel_row *row = copse__kernel_row(dev, id);
    memset(full, 0, COPSE_MAX_SPECS * sizeof *full);
    if (*spec)
        memcpy(full, *spec, row->spec_count * sizeof *full);
    *spec = full;
    copse__mutex_lock(&dev->lock);
    struct copse_kernel *k = lookup(dev, row, full);
    copse__mutex_unlock(&dev->lock);
    return k;
}

bool copse__kernel_is_cold(copse_device *dev, enum copse_kernel_id id, const int32_t *spec)
{
    int32_t full[COPSE_MAX_SPECS];
    struct copse_kernel k = { 0 };
    if (!dev->backend->is_stored || check_fit(dev, id) != COPSE_OK || find(dev, id, &spec, full))
        return false;
    describe(dev, id, full, &k);
    return !dev->backend->is_stored(&k);
}

/* The lock is not held while the driver compiles. If two threads compile the same kernel at the same time, the second
   discards its result. */
copse_status copse__kernel_make(copse_device *dev, enum copse_kernel_id id, const int32_t *spec,
                                struct copse_kernel **out)
{
    int32_t full[COPSE_MAX_SPECS];
    struct copse_kernel *k, *mine = NULL;

    *out = NULL;
    COPSE_TRY(copse__device_check(dev));
    COPSE_TRY(check_fit(dev, id));
    *out = find(dev, id, &spec, full);
    if (*out)
        return COPSE_OK;

    COPSE_TRY(compile(dev, id, full, &mine));
    const copse_status s = copse__self_test(dev, mine);
    if (s) {
        destroy(mine);
        return s;
    }
    copse__mutex_lock(&dev->lock);
    k = lookup(dev, mine->row, full);
    if (!k) {
        mine->next = dev->kernels;
        dev->kernels = mine;
    }
    copse__mutex_unlock(&dev->lock);
    if (k)
        destroy(mine);
    *out = k ? k : mine;
    return COPSE_OK;
}

void copse__kernel_report(const copse_device *dev, const char *kernel, size_t done, size_t total)
{
    const struct copse_context *ctx = dev->ctx;
    if (ctx->progress)
        ctx->progress(ctx->progress_user,
                      &(struct copse_progress){ .device = dev->info.id, .kernel = kernel, .done = (uint32_t)done,
                                                .total = (uint32_t)total });
}

copse_status copse__kernel_get(copse_device *dev, enum copse_kernel_id id, const int32_t *spec,
                               struct copse_kernel **out)
{
    const bool is_reported = dev->ctx->progress && (size_t)id < copse_kernel_count &&
                             copse__kernel_is_cold(dev, id, spec);
    const char *name = is_reported ? copse__kernel_row(dev, id)->name : "";
    if (is_reported)
        copse__kernel_report(dev, name, 0, 1);
    const copse_status s = copse__kernel_make(dev, id, spec, out);
    if (is_reported)
        copse__kernel_report(dev, name, 1, 1);
    return s;
}
