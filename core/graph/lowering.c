/* SPDX-License-Identifier: MIT */
/* The calls that ops make while lowering: checks, then one call of the recorder or evaluator. */
#include "core/graph/lowering.h"

copse_status copse__scratch(struct copse_lowering *l, uint64_t words, struct copse_operand *out)
{
    if (words >= (uint64_t)1 << 31)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "lowering: %llu words of scratch",
                          (unsigned long long)words);
    return l->scratch(l, words, out);
}

copse_status copse__launch(struct copse_lowering *l, enum copse_kernel_id id, const int32_t *spec,
                           const void *params, uint64_t groups, const struct copse_operand *args,
                           uint32_t arg_count)
{
    const struct copse_kernel_row *row = &copse_kernel_table[id];
    if (arg_count != row->arg_count)
        return copse_fail(COPSE_ERR_INTERNAL, "kernel %s takes %u buffers, launched with %u",
                          row->name, row->arg_count, arg_count);
    return groups == 0 ? COPSE_OK : l->launch(l, id, spec, params, groups, args, arg_count);
}

copse_status copse__launch_copy(struct copse_lowering *l, struct copse_operand from,
                                struct copse_operand to, uint64_t count)
{
    return count == 0 ? COPSE_OK : l->copy(l, from, to, count);
}

bool copse__can_launch_gemm(const struct copse_lowering *l)
{
    return l->gemm && l->dev && copse__library_product_fits(l->dev);
}

copse_status copse__launch_gemm(struct copse_lowering *l, uint32_t m, uint32_t n, uint32_t k,
                                bool a_transposed, bool b_transposed, struct copse_operand a,
                                struct copse_operand b, struct copse_operand c)
{
    if (!copse__can_launch_gemm(l))
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "matmul: this device has no library matrix product (CLBlast: Debian "
                          "package libclblast1)");
    const struct copse_command shape = {
        .kind = COPSE_COMMAND_GEMM,
        .gemm = { m, n, k, a_transposed, b_transposed },
    };
    return l->gemm(l, &shape, (const struct copse_operand[]){ a, b, c });
}

const struct copse_limits *copse__limits(const struct copse_lowering *l)
{
    return l->limits;
}

bool copse__can_launch(const struct copse_lowering *l, enum copse_kernel_id id)
{
    return l->dev ? copse__kernel_fits(l->dev, id) : copse_kernel_table[id].host != NULL;
}

uint32_t copse__group_size(const struct copse_lowering *l, enum copse_kernel_id id)
{
    uint32_t x, y;
    copse__kernel_group(l->limits, id, &x, &y);
    return x * y;
}

const char *copse__choice(const struct copse_lowering *l, const char *family)
{
    for (size_t i = 0; i < l->choice_count; i++)
        if (strcmp(l->choices[i].family, family) == 0)
            return l->choices[i].variant;
    return NULL;
}

copse_status copse__refuse_variant(const struct copse_lowering *l, const char *family,
                                   const char *variant)
{
    char reason[192];
    if (l->dev && copse__kernel_is_blocked(l->dev, variant, reason, sizeof reason))
        return copse_fail(COPSE_ERR_UNSUPPORTED, "%s: the variant %s is blocked on %s: %s", family,
                          variant, l->dev->info.id, reason);
    return copse_fail(COPSE_ERR_UNSUPPORTED, "%s: this device cannot run the variant %s", family,
                      variant);
}

uint32_t copse__size_class(const uint32_t *sizes, size_t count, uint32_t n)
{
    size_t i = 0;
    while (i + 1 < count && n > 2 * sizes[i])
        i++;
    return sizes[i];
}

/* What hardly differs stays as it is. */
size_t copse__fastest(const struct copse_lowering *l, const char *family, const char *size_class,
                      const char *const *names, const bool *can, size_t count, size_t by_limits)
{
    size_t best = by_limits;
    uint64_t most = copse__rate(l, family, size_class, names[by_limits]);
    if (most == 0)
        return by_limits;
    most += most / 32;
    for (size_t i = 0; i < count; i++) {
        const uint64_t rate = can[i] ? copse__rate(l, family, size_class, names[i]) : 0;
        if (rate > most) {
            most = rate;
            best = i;
        }
    }
    return best;
}

uint64_t copse__rate(const struct copse_lowering *l, const char *family, const char *size_class,
                     const char *variant)
{
    return l->dev ? copse__tuning_rate(l->dev, family, size_class, variant) : 0;
}
