/* SPDX-License-Identifier: MIT */
/* Forms of the kernels that copy an operand of a product: padded, in panels, transposed. */
#include "prover/forms/lines.h"

enum { RESULT = COPSE_CONTENT_RESULT, VALUES = COPSE_CONTENT_VALUES };

static uint32_t divide_up(uint64_t n, uint64_t by)
{
    return (uint32_t)((n + by - 1) / by);
}

static void pack_panels(struct copse_launch *l, uint32_t width)
{
    const struct copse_params_matmul_wide_pack p = { .k = l->regime == COPSE_REGIME_FEW ? 64 : 3,
                                                     .n = width * (uint32_t)l->want - 3,
                                                     .width = width,
                                                     .batch = 1 };
    COPSE_LAUNCH_PLAN(l, p, l->want, (size_t)p.k * p.n, (size_t)p.k * width * l->want);
}

static void plan_pack(struct copse_launch *l)
{
    pack_panels(l, 16);
}

/* Panels of four vectors; they would take 100 MiB with more groups than an axis. */
static void plan_pack_wide(struct copse_launch *l)
{
    pack_panels(l, 64);
}

/* Items of one panel; with few groups, of two blocks of rows. */
static void plan_pack_batch(struct copse_launch *l)
{
    const bool is_few = l->regime == COPSE_REGIME_FEW;
    const struct copse_params_matmul_wide_pack p = {
        .k = is_few ? 70 : 3, .n = 13, .width = 16, .batch = (uint32_t)l->want
    };
    COPSE_LAUNCH_PLAN(l, p, l->want * (is_few ? 2 : 1), (size_t)p.batch * p.k * p.n,
                      (size_t)p.batch * p.k * p.width);
}

static void plan_turn(struct copse_launch *l)
{
    const uint32_t padded = 16 * (uint32_t)l->want, cols = l->regime == COPSE_REGIME_AXIS ? 3 : 19;
    const struct copse_params_matmul_wide_turn p = { .rows = padded - 3,
                                                     .cols = cols,
                                                     .width = 16,
                                                     .panel = cols * 16,
                                                     .step = 16,
                                                     .padded = padded,
                                                     .to_batch = padded * cols,
                                                     .batch = 1 };
    COPSE_LAUNCH_PLAN(l, p, l->want, (size_t)p.rows * cols, (size_t)padded * cols);
}

/* Items of one panel of two vectors, and two blocks of columns. */
static void plan_turn_batch(struct copse_launch *l)
{
    const uint32_t cols = 67, batch = divide_up(l->want, 4);
    const struct copse_params_matmul_wide_turn p = { .rows = 29,
                                                     .cols = cols,
                                                     .width = 32,
                                                     .panel = cols * 32,
                                                     .step = 32,
                                                     .padded = 32,
                                                     .to_batch = 32 * cols,
                                                     .batch = batch };
    COPSE_LAUNCH_PLAN(l, p, 4 * (uint64_t)batch, (size_t)batch * p.rows * cols,
                      (size_t)batch * p.to_batch);
}

static void plan_pad(struct copse_launch *l)
{
    const uint32_t items = l->want > 2 ? 3 : 1, strips = divide_up(l->want, items);
    const struct copse_params_matmul_pad p = { l->group_y * strips - 1 + (l->group_y == 1), 6,
                                               l->group_y * strips, 8, items };
    COPSE_LAUNCH_PLAN(l, p, (uint64_t)items * strips, (size_t)items * p.rows * p.cols,
                      (size_t)items * p.rows_to * p.cols_to);
}

/* ---- the forms ---- */

#define MOVE(kernel_, label, plan_, ...)                                                 \
    {                                                                                    \
        .kernel = COPSE_KERNEL_##kernel_, .name = label, .contents = { VALUES, RESULT }, \
        .plan = plan_, .is_single = true, .no_regimes = __VA_ARGS__                      \
    }

static const struct copse_launch_form forms[] = {
    MOVE(matmul_pad, "", plan_pad, 0),
    MOVE(matmul_wide_pack, "16 columns", plan_pack, 0),
    MOVE(matmul_wide_pack, "64 columns", plan_pack_wide, COPSE_BIT(COPSE_REGIME_AXIS),
         .why = "panels of 16 columns have as many groups"),
    MOVE(matmul_wide_pack, "batch", plan_pack_batch, 0),
    MOVE(matmul_wide_turn, "", plan_turn, 0),
    MOVE(matmul_wide_turn, "batch", plan_turn_batch,
         COPSE_BIT(COPSE_REGIME_ONE) | COPSE_BIT(COPSE_REGIME_AXIS),
         .why = "an item has four groups; one item has as many"),
};

static const struct copse_launch_line lines[] = {
    COPSE_NO_LINE(matmul_pad, COPSE_WALKS_NONE),
    COPSE_NO_LINE(matmul_wide_pack, COPSE_WALKS_NONE),
    COPSE_NO_LINE(matmul_wide_turn, COPSE_WALKS_NONE),
};

const struct copse_launch_list copse_launch_panels = { forms, COPSE_COUNT(forms), lines,
                                                       COPSE_COUNT(lines) };
