/* SPDX-License-Identifier: MIT */
/* Commands: dispatches with folded group counts, and the check of a command against its device. */
#include "core/device/device.h"

/* ---- dispatch ---- */

copse_status copse__dispatch_init(struct copse_command *c, struct copse_kernel *k,
                                  const struct copse_binding *bindings, size_t binding_count,
                                  const void *params, uint64_t groups, uint32_t group_base)
{
    const struct copse_kernel_row *row = k->row;
    const uint64_t most = k->dev->limits->max_group_count;

    memset(c, 0, sizeof *c);
    c->kind = COPSE_COMMAND_DISPATCH;
    c->kernel = k;
    copse__kernel_note_use(k->dev, k->id, k->spec);
    if (binding_count != row->arg_count)
        return copse_fail(COPSE_ERR_ARGUMENT, "dispatch: %s sees %u buffers, %zu are given",
                          row->name, row->arg_count, binding_count);
    c->binding_count = (uint32_t)binding_count;
    for (size_t i = 0; i < binding_count; i++)
        c->bindings[i] = bindings[i];
    if (row->param_words)
        memcpy(c->params, params, row->param_words * sizeof *c->params);
    c->params[row->param_words] = group_base;

    if (group_base && !k->dev->limits->has_group_base)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "dispatch: %s cannot be cut on %s", row->name,
                          k->dev->info.id);
    /* Whole multiples of the limit fold without a remainder, so that cut dispatches do not overlap;
       otherwise there may be a few surplus groups, which the kernels ignore. */
    if (groups > most * most || groups > UINT32_MAX) {
        c->groups_x = c->groups_y = UINT32_MAX; /* refused below */
    } else if (groups) {
        c->groups_y = (uint32_t)((groups + most - 1) / most);
        c->groups_x = (uint32_t)((groups + c->groups_y - 1) / c->groups_y);
    }
    /* Kernels number their groups in 32 bits. */
    if ((uint64_t)c->groups_x * c->groups_y > UINT32_MAX - group_base)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "dispatch: %s with %llu groups from %u on %s",
                          row->name, (unsigned long long)groups, group_base, k->dev->info.id);
    return COPSE_OK;
}

/* ---- check ---- */

const char *copse__command_name(const struct copse_command *c)
{
    switch (c->kind) {
    case COPSE_COMMAND_DISPATCH:
        return c->kernel ? c->kernel->row->name : "dispatch";
    case COPSE_COMMAND_COPY:
        return "copy";
    case COPSE_COMMAND_FILL:
        return "fill";
    case COPSE_COMMAND_GEMM:
        return "matrix product";
    }
    return "command";
}

static copse_status check_binding(const copse_device *dev, const struct copse_command *c,
                                  uint32_t index)
{
    const struct copse_binding *b = &c->bindings[index];
    const char *name = copse__command_name(c);

    if (!b->buffer)
        return copse_fail(COPSE_ERR_ARGUMENT, "queue: %s: buffer %u is missing", name, index);
    if (b->buffer->dev != dev)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "queue: %s: buffer %u belongs to another opened device (%s, not %s)",
                          name, index, b->buffer->dev->info.id, dev->info.id);
    if (b->offset % 4 || b->size % 4)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "queue: %s: %zu bytes at %zu of buffer %u: both must be multiples of 4",
                          name, b->size, b->offset, index);
    if (b->offset > b->buffer->size || b->size > b->buffer->size - b->offset)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "queue: %s: %zu bytes at %zu end behind the %zu of buffer %u", name,
                          b->size, b->offset, b->buffer->size, index);
    return COPSE_OK;
}

/* The ranges of a kernel must be bindable, and written ranges must not overlap other ranges. */
static copse_status check_kernel_binding(const copse_device *dev, const struct copse_command *c,
                                         uint32_t index)
{
    const struct copse_binding *b = &c->bindings[index];
    const struct copse_kernel_arg *args = c->kernel->row->args;
    const char *name = c->kernel->row->name;

    if (b->size == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "queue: %s: buffer %u has no bytes", name, index);
    if (b->offset % dev->limits->offset_alignment)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "queue: %s: buffer %u starts at %zu, %s needs multiples of %u", name,
                          index, b->offset, dev->info.id, dev->limits->offset_alignment);
    if (b->size > dev->limits->max_binding_bytes)
        return copse_fail(
            COPSE_ERR_ARGUMENT, "queue: %s: %zu bytes of buffer %u, %s shows a kernel at most %llu",
            name, b->size, index, dev->info.id, (unsigned long long)dev->limits->max_binding_bytes);
    if (args[index].kind == COPSE_ARG_TEXEL &&
        (b->size % 16 || b->size / 16 > dev->limits->max_texel_elements))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "queue: %s: %zu bytes of buffer %u are not up to %llu texels of 16 bytes",
                          name, b->size, index,
                          (unsigned long long)dev->limits->max_texel_elements);

    for (uint32_t i = 0; i < index; i++) {
        const struct copse_binding *a = &c->bindings[i];
        if (a->buffer == b->buffer && (args[i].is_written || args[index].is_written) &&
            a->offset < b->offset + b->size && b->offset < a->offset + a->size)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "queue: %s: buffers %u and %u overlap and one is written", name, i,
                              index);
    }
    return COPSE_OK;
}

static copse_status check_dispatch(const copse_device *dev, const struct copse_command *c)
{
    if (!c->kernel || c->kernel->dev != dev)
        return copse_fail(COPSE_ERR_ARGUMENT, "queue: %s is not a kernel of this device",
                          copse__command_name(c));
    if (c->binding_count != c->kernel->row->arg_count)
        return copse_fail(COPSE_ERR_ARGUMENT, "queue: %s sees %u buffers, %u are given",
                          c->kernel->row->name, c->kernel->row->arg_count, c->binding_count);
    const uint32_t most = dev->limits->max_group_count;
    if (c->groups_x > most || c->groups_y > most)
        return copse_fail(COPSE_ERR_ARGUMENT, "queue: %s: %u x %u groups, %s allows %u",
                          c->kernel->row->name, c->groups_x, c->groups_y, dev->info.id, most);
    for (uint32_t i = 0; i < c->binding_count; i++)
        COPSE_TRY(check_kernel_binding(dev, c, i));
    return COPSE_OK;
}

static copse_status check_copy(const struct copse_command *c)
{
    const struct copse_binding *a = &c->bindings[0], *b = &c->bindings[1];
    if (c->binding_count != 2 || a->size != b->size)
        return copse_fail(COPSE_ERR_ARGUMENT, "queue: copy needs two ranges of the same size");
    if (a->buffer == b->buffer && a->offset < b->offset + b->size &&
        b->offset < a->offset + a->size)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "queue: copy of %zu bytes from %zu to %zu of one buffer overlaps itself",
                          a->size, a->offset, b->offset);
    return COPSE_OK;
}

static copse_status check_gemm(const copse_device *dev, const struct copse_command *c)
{
    if (!dev->limits->has_library_gemm)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "queue: %s has no library matrix product",
                          dev->info.id);
    const struct copse_gemm *g = &c->gemm;
    const struct copse_binding *b = c->bindings;
    const uint64_t as = g->a_is_shared ? 1 : g->batch, bs = g->b_is_shared ? 1 : g->batch;
    if (c->binding_count != COPSE_GEMM_BINDINGS || g->k_begin >= g->k_end || g->k_end > g->k ||
        b[COPSE_GEMM_A].size / 4 / g->k < as * g->m ||
        b[COPSE_GEMM_B].size / 4 / g->k < bs * g->n ||
        b[COPSE_GEMM_C].size / 4 / g->n < (uint64_t)g->batch * g->m)
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "queue: terms %u to %u of %u matrix products of %u x %u x %u do not fit their buffers",
            g->k_begin, g->k_end, g->batch, g->m, g->n, g->k);
    for (uint32_t i = 0; i < c->binding_count; i++)
        if (b[i].offset % dev->limits->offset_alignment)
            return copse_fail(
                COPSE_ERR_ARGUMENT,
                "queue: matrix product: buffer %u starts at %zu, %s needs multiples of "
                "%u",
                i, b[i].offset, dev->info.id, dev->limits->offset_alignment);
    return COPSE_OK;
}

static bool does_nothing(const struct copse_command *c)
{
    switch (c->kind) {
    case COPSE_COMMAND_DISPATCH:
        return c->groups_x == 0 || c->groups_y == 0;
    case COPSE_COMMAND_COPY:
    case COPSE_COMMAND_FILL:
        return c->bindings[0].size == 0;
    case COPSE_COMMAND_GEMM:
        return c->gemm.m == 0 || c->gemm.n == 0 || c->gemm.batch == 0;
    }
    return false;
}

copse_status copse__command_check(const copse_device *dev, const struct copse_command *c,
                                  bool *is_empty)
{
    *is_empty = does_nothing(c);
    if (c->kind == COPSE_COMMAND_DISPATCH && *is_empty)
        return COPSE_OK; /* its buffers may be missing */
    for (uint32_t i = 0; i < c->binding_count; i++)
        COPSE_TRY(check_binding(dev, c, i));
    if (*is_empty)
        return COPSE_OK;

    switch (c->kind) {
    case COPSE_COMMAND_DISPATCH:
        return check_dispatch(dev, c);
    case COPSE_COMMAND_COPY:
        return check_copy(c);
    case COPSE_COMMAND_FILL:
        return c->binding_count == 1
                   ? COPSE_OK
                   : copse_fail(COPSE_ERR_ARGUMENT, "queue: fill takes one range");
    case COPSE_COMMAND_GEMM:
        return check_gemm(dev, c);
    }
    return copse_fail(COPSE_ERR_ARGUMENT, "queue: there is no command %u", (unsigned)c->kind);
}
