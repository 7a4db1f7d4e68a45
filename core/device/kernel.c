/* SPDX-License-Identifier: MIT */
/* Kernels of a device: limits, the group size, one compilation per row and specialisation. */
#include "copse/device/conformance.h"
#include "core/base/trace.h"
#include "core/device/device.h"

void copse__kernel_group(const struct copse_limits *limits, enum copse_kernel_id id, uint32_t *x,
                         uint32_t *y)
{
    *x = copse__row(id)->group_x;
    *y = copse__row(id)->group_y;
    while (*x * *y > limits->max_group_size)
        *(*x >= *y ? x : y) /= 2;
}

const struct copse_kernel_row *copse__kernel_row(const copse_device *dev, enum copse_kernel_id id)
{
    return dev->overrides && dev->overrides[id] ? dev->overrides[id] : copse__row(id);
}

copse_status copse__kernel_override(copse_device *dev, enum copse_kernel_id id,
                                    const struct copse_kernel_row *row)
{
    if (!dev->overrides)
        dev->overrides = copse__alloc(&dev->base->mem, COPSE_KERNEL_IDS, sizeof *dev->overrides);
    if (!dev->overrides)
        return copse_no_memory("kernel");
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

#define MATRIX_GROUP 128u /* whole subgroups of any size */

static copse_status check_matrices(const copse_device *dev, enum copse_kernel_id id)
{
    const struct copse_limits *l = dev->limits;
    const char *name = copse__kernel_row(dev, id)->name;
    uint32_t x, y;
    if (!l->cooperative_shape[0])
        return copse_fail(
            COPSE_ERR_UNSUPPORTED,
            "kernel: %s multiplies cooperative matrices of 16 bits with f32 sums, %s reports "
            "no shape of them (VK_KHR_cooperative_matrix)",
            name, dev->info.id);
    if (!l->matrix_units)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "kernel: %s needs subgroups of the size that the matrix units of %s work "
                          "with; their size is another one, and the driver cannot set it "
                          "(VK_EXT_subgroup_size_control)",
                          name, dev->info.id);
    copse__kernel_group(l, id, &x, &y);
    if (x * y < MATRIX_GROUP)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "kernel: %s needs groups of %u, %s allows %u",
                          name, MATRIX_GROUP, dev->info.id, x * y);
    return COPSE_OK;
}

static copse_status check_limits(const copse_device *dev, enum copse_kernel_id id)
{
    if (!copse__row(id))
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
    if (row->is_cooperative)
        COPSE_TRY(check_matrices(dev, id));
    if (dev->backend->has_kernel && !dev->backend->has_kernel(dev, row))
        return copse_fail(COPSE_ERR_UNSUPPORTED, "kernel: %s has no form for %s", row->name,
                          dev->info.id);
    return COPSE_OK;
}

static bool is_blocked(const copse_device *dev, enum copse_kernel_id id, char reason[192])
{
    return copse__kernel_is_blocked(dev, copse__kernel_row(dev, id)->name, reason, 192);
}

copse_status copse__kernel_check(const copse_device *dev, enum copse_kernel_id id)
{
    return check_limits(dev, id);
}

bool copse__kernel_fits(const copse_device *dev, enum copse_kernel_id id)
{
    char reason[192];
    return check_limits(dev, id) == COPSE_OK && !is_blocked(dev, id, reason);
}

static struct copse_kernel *kernel_lookup(copse_device *dev, const struct copse_kernel_row *row,
                                          const int32_t spec[COPSE_MAX_SPECS], bool on_host)
{
    struct copse_kernel *k = dev->kernels;
    while (k &&
           (k->row != row || k->on_host != on_host || memcmp(k->spec, spec, sizeof k->spec) != 0))
        k = k->next;
    return k;
}

static void kernel_destroy(struct copse_kernel *k)
{
    if (!k->on_host)
        k->dev->backend->kernel_fini(k);
    copse__free(&k->dev->base->mem, k);
}

static void kernel_describe(copse_device *dev, enum copse_kernel_id id,
                            const int32_t spec[COPSE_MAX_SPECS], struct copse_kernel *k)
{
    k->dev = dev;
    k->row = copse__kernel_row(dev, id);
    k->id = id;
    memcpy(k->spec, spec, sizeof k->spec);
    copse__kernel_group(dev->limits, id, &k->group_x, &k->group_y);
}

static copse_status kernel_compile(struct copse_kernel *k)
{
    copse_device *dev = k->dev;
    const uint64_t start = copse__now_ns();
    const struct copse_span span = copse__span_begin(dev->base);
    const copse_status s = copse__span_end(span, COPSE_SPAN_COMPILE, k->row->name,
                                           copse__device_result(dev, dev->backend->kernel_init(k)));
    if (s)
        return copse_note(s, "while compiling %s for %s", k->row->name, dev->info.id);
    copse__log(&dev->base->log, COPSE_LOG_DEBUG, "kernel: %s for %s, groups of %ux%u, %.1f ms",
               k->row->name, dev->info.id, k->group_x, k->group_y,
               (double)(copse__now_ns() - start) * 1e-6);
    atomic_store(&dev->kernel_made_ns, copse__now_ns());
    return COPSE_OK;
}

static copse_status kernel_make(copse_device *dev, enum copse_kernel_id id,
                                const int32_t spec[COPSE_MAX_SPECS], bool on_host,
                                struct copse_kernel **out)
{
    void *priv = NULL;
    struct copse_kernel *k =
        copse__handle_alloc(&dev->base->mem, sizeof *k, dev->backend->kernel_priv, &priv);
    if (!k)
        return copse_fail(COPSE_ERR_NO_MEMORY, "kernel: no memory for the handle");
    kernel_describe(dev, id, spec, k);
    k->priv = priv;
    k->on_host = on_host;
    copse_status s = on_host ? COPSE_OK : kernel_compile(k);
    if (s == COPSE_OK && !on_host)
        s = copse__self_test(dev, k);
    if (s)
        kernel_destroy(k);
    else
        *out = k;
    return s;
}

/* The whole specialisation; `spec` NULL = all zero. */
static void kernel_complete(const copse_device *dev, enum copse_kernel_id id, const int32_t *spec,
                            int32_t full[COPSE_MAX_SPECS])
{
    memset(full, 0, COPSE_MAX_SPECS * sizeof *full);
    if (spec)
        memcpy(full, spec, copse__kernel_row(dev, id)->spec_count * sizeof *full);
}

/* The kernel if it was made before, or NULL. */
static struct copse_kernel *kernel_find(copse_device *dev, enum copse_kernel_id id,
                                        const int32_t full[COPSE_MAX_SPECS], bool on_host)
{
    const struct copse_kernel_row *row = copse__kernel_row(dev, id);
    copse__mutex_lock(&dev->lock);
    struct copse_kernel *k = kernel_lookup(dev, row, full, on_host);
    copse__mutex_unlock(&dev->lock);
    return k;
}

bool copse__kernel_is_cold(copse_device *dev, enum copse_kernel_id id, const int32_t *spec)
{
    int32_t full[COPSE_MAX_SPECS];
    struct copse_kernel k = { 0 };
    if (!dev->backend->is_stored || !copse__kernel_fits(dev, id))
        return false;
    kernel_complete(dev, id, spec, full);
    if (kernel_find(dev, id, full, false))
        return false;
    kernel_describe(dev, id, full, &k);
    return !dev->backend->is_stored(&k);
}

/* Whether the host computes the kernel. An error: it is blocked. */
static copse_status kernel_place(const copse_device *dev, enum copse_kernel_id id, bool *on_host)
{
    char reason[192];
    *on_host = false;
    if (!is_blocked(dev, id, reason))
        return COPSE_OK;
    const struct copse_kernel_row *row = copse__kernel_row(dev, id);
    *on_host = !row->is_variant && (atomic_load(&dev->ctx->allowed) & COPSE_ALLOW_HOST);
    return *on_host ? COPSE_OK : copse__kernel_refuse(dev, row->name, reason);
}

/* Add a new kernel to the device's list, unless another thread has made the same one in the
   meantime. */
static struct copse_kernel *kernel_adopt(copse_device *dev, struct copse_kernel *mine)
{
    copse__mutex_lock(&dev->lock);
    struct copse_kernel *k = kernel_lookup(dev, mine->row, mine->spec, mine->on_host);
    if (!k) {
        mine->next = dev->kernels;
        dev->kernels = mine;
    }
    copse__mutex_unlock(&dev->lock);
    if (k)
        kernel_destroy(mine);
    else if (mine->on_host)
        copse__log(&dev->base->log, COPSE_LOG_WARN,
                   "kernel: the host computes %s for %s, where it is blocked", mine->row->name,
                   dev->info.id);
    return k ? k : mine;
}

/* The lock is not held while the driver compiles. A kernel that fails its self-test is blocked, so
   that the second attempt ends. */
copse_status copse__kernel_make(copse_device *dev, enum copse_kernel_id id, const int32_t *spec,
                                struct copse_kernel **out)
{
    int32_t full[COPSE_MAX_SPECS];
    bool on_host;
    *out = NULL;
    COPSE_TRY(copse__device_check(dev));
    COPSE_TRY(check_limits(dev, id));
    kernel_complete(dev, id, spec, full);
    for (;;) {
        struct copse_kernel *mine = NULL;
        COPSE_TRY(kernel_place(dev, id, &on_host));
        *out = kernel_find(dev, id, full, on_host);
        if (*out)
            return COPSE_OK;
        const copse_status s = kernel_make(dev, id, full, on_host, &mine);
        if (s == COPSE_OK)
            *out = kernel_adopt(dev, mine);
        if (s != COPSE_ERR_UNSUPPORTED || copse__kernel_fits(dev, id) ||
            !(atomic_load(&dev->ctx->allowed) & COPSE_ALLOW_HOST))
            return s;
    }
}

void copse__kernel_report(const copse_device *dev, const char *kernel, size_t done, size_t total)
{
    const struct copse_context *ctx = dev->ctx;
    if (ctx->progress)
        ctx->progress(ctx->progress_user, &(struct copse_progress){ .device = dev->info.id,
                                                                    .kernel = kernel,
                                                                    .done = (uint32_t)done,
                                                                    .total = (uint32_t)total });
}

copse_status copse__kernel_get(copse_device *dev, enum copse_kernel_id id, const int32_t *spec,
                               struct copse_kernel **out)
{
    const bool is_reported =
        dev->ctx->progress && copse__row(id) && copse__kernel_is_cold(dev, id, spec);
    const char *name = is_reported ? copse__kernel_row(dev, id)->name : "";
    if (is_reported)
        copse__kernel_report(dev, name, 0, 1);
    const copse_status s = copse__kernel_make(dev, id, spec, out);
    if (is_reported)
        copse__kernel_report(dev, name, 1, 1);
    return s;
}
