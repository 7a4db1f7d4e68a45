/* SPDX-License-Identifier: MIT */
/* The functions that ops call while lowering: checks, then one call of the recorder or
   evaluator. */
#include "core/graph/lowering.h"

copse_status copse__scratch(struct copse_lowering *l, uint64_t words, struct copse_operand *out)
{
    if (words >= (uint64_t)1 << 31)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "lowering: %llu words of scratch",
                          (unsigned long long)words);
    if (!l->round.is_on)
        return l->scratch(l, words, out);
    const uint32_t i = l->round.used++;
    if (i >= COPSE_ROUND_SCRATCH)
        return copse_fail(COPSE_ERR_INTERNAL, "lowering: more than %d blocks of scratch in a round",
                          COPSE_ROUND_SCRATCH);
    if (i >= l->round.count || l->round.words[i] < words) {
        COPSE_TRY(l->scratch(l, words, &l->round.at[i]));
        l->round.words[i] = words;
        l->round.count = COPSE_MAX(l->round.count, i + 1);
    }
    *out = l->round.at[i];
    return COPSE_OK;
}

void copse__scratch_round(struct copse_lowering *l)
{
    l->round.is_on = true;
    l->round.used = 0;
}

void copse__scratch_rounds_end(struct copse_lowering *l)
{
    l->round.is_on = false;
    l->round.count = 0;
}

copse_status copse__launch(struct copse_lowering *l, enum copse_kernel_id id, const int32_t *spec,
                           const void *params, uint64_t groups, const struct copse_operand *args,
                           uint32_t arg_count)
{
    const struct copse_kernel_row *row = copse__row(id);
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

copse_status copse__gemm_scratch(struct copse_lowering *l, struct copse_gemm *g,
                                 struct copse_operand *out)
{
    uint64_t bytes = 0;
    if (l->dev)
        bytes = copse__library_product_scratch(l->dev, g);
    g->has_scratch = bytes > 0;
    return copse__scratch(l, COPSE_MAX(bytes / COPSE_WORD_BYTES, 1), out);
}

copse_status copse__launch_gemm(struct copse_lowering *l, const struct copse_gemm *g,
                                const struct copse_operand args[COPSE_GEMM_BINDINGS])
{
    if (!l->gemm || !l->dev || !copse__library_product_fits(l->dev))
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "matmul: this device has no library matrix product (CLBlast: Debian "
                          "package libclblast1)");
    const struct copse_command c = { .kind = COPSE_COMMAND_GEMM, .gemm = *g };
    return l->gemm(l, &c, args);
}

const copse_tensor *copse__reader(const struct copse_lowering *l, const copse_tensor *t, uint32_t i)
{
    return l->reader(l, t, i);
}

const struct copse_limits *copse__limits(const struct copse_lowering *l)
{
    return l->limits;
}

bool copse__can_launch(const struct copse_lowering *l, enum copse_kernel_id id)
{
    return l->dev ? copse__kernel_fits(l->dev, id) : !copse__row(id)->is_variant;
}

uint32_t copse__group_size(const struct copse_lowering *l, enum copse_kernel_id id)
{
    uint32_t x, y;
    copse__kernel_group(l->limits, id, &x, &y);
    return x * y;
}
