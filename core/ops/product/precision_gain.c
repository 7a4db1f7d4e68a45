/* SPDX-License-Identifier: MIT */
/* Whether operands of 16 bits can make products faster on a device: by the variants that would be
   taken and their measurements, not by timing. */
#include "core/graph/lowering.h"
#include "core/graph/variant.h"
#include "core/ops/product/precision.h"
#include "core/ops/product/product.h"

/* Reads 16 bits: it fits the product of such operands, and not the product of f32 ones, which every
   other variant takes after the operands were widened. */
static bool reads_halves(const struct copse_lowering *l, const struct copse_variant *v,
                         const struct copse_product *half, const struct copse_product *whole)
{
    return v->fits && v->fits(l->limits, half) && !v->fits(l->limits, whole);
}

static uint64_t precision_rate(const struct copse_lowering *l, const struct copse_family *f,
                               const struct copse_variant *v, const struct copse_product *p)
{
    char size_class[COPSE_SIZE_CLASS];
    return copse__size_class_of(f, p, size_class)
               ? copse__tuning_rate(l->dev, f->name, size_class, copse__variant_kernel(v))
               : 0;
}

/* A variant that was measured to be slower than the variant of f32 operands gains nothing. */
static bool gains_in(const struct copse_lowering *l, const struct copse_family *f,
                     const struct copse_product *whole, copse_type type)
{
    const struct copse_variant *of_half, *of_whole;
    struct copse_product half = *whole;
    half.type = type;
    if (copse__choose(l, f, &half, &of_half) != COPSE_OK || !reads_halves(l, of_half, &half, whole))
        return false;
    if (copse__choose(l, f, whole, &of_whole) != COPSE_OK)
        return true;
    const uint64_t now = precision_rate(l, f, of_half, &half),
                   before = precision_rate(l, f, of_whole, whole);
    return now == 0 || before == 0 || now >= before;
}

copse_status copse__precision_gains(const copse_device *dev, const struct copse_choices *forced,
                                    copse_type type, bool *gains)
{
    const struct copse_family *f = copse__family("matmul");
    const struct copse_lowering l = {
        .limits = dev->limits, .choices = forced->at, .choice_count = forced->count, .dev = dev
    };
    struct copse_tune_job j = { .work = copse__alloc(&dev->base->mem, 1, COPSE_TUNE_WORK) };
    COPSE_TRY(copse_need_memory(j.work, "precision"));
    *gains = false;
    for (size_t i = 0; i < copse__tune_jobs(f) && !*gains; i++) {
        j = (struct copse_tune_job){ .work = j.work };
        copse__tune_job(f, i, &j);
        const struct copse_product *p = j.work;
        *gains = p->type == COPSE_F32 && gains_in(&l, f, p, type);
    }
    copse__free(&dev->base->mem, j.work);
    return COPSE_OK;
}
