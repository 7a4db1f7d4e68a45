/* SPDX-License-Identifier: MIT */
/* Gradients of sparse variables: a recording leaves its list of rows and their sums in memory of
   its own. They are copied to the row exchange of the variable, whose lists are as long as the
   longest one of all recordings. */
#include "core/ops/sort/row_gradient.h"
#include "core/train/recording/loss_recording.h"
#include "core/train/recording/step_recording.h"

static const copse_variable *first_sparse(const struct copse_trained *trained)
{
    for (size_t i = 0; i < trained->count; i++)
        if (trained->at[i]->is_sparse)
            return trained->at[i];
    return NULL;
}

copse_status copse__rows_check(const struct copse_trained *trained,
                               const struct copse_trainer_params *p)
{
    const copse_variable *v = first_sparse(trained);
    const char *what = p->accumulate > 1 ? "accumulate" : p->transform ? "transform" : NULL;
    return v && what
               ? copse_fail(
                     COPSE_ERR_UNSUPPORTED,
                     "trainer: `%s` is for dense gradients, and variable '%s' is sparse: train "
                     "without it, or use a variable that is not sparse",
                     what, v->name)
               : COPSE_OK;
}

/* Room for all sparse variables. */
static copse_status make_list(struct copse_step_recording *r)
{
    if (r->rows.at)
        return COPSE_OK;
    r->rows.at =
        copse__arena_alloc(&r->base.graph->arena, r->all->trained->count, sizeof *r->rows.at);
    return copse_need_memory(r->rows.at, "trainer");
}

copse_status copse__rows_place(struct copse_step_recording *r, const copse_variable *v,
                               copse_tensor *gradient)
{
    if (!gradient)
        return COPSE_OK;
    const struct copse_optimizer *o = r->all->optimizer;
    COPSE_TRY(make_list(r));
    struct copse_row_place *p = &r->rows.at[r->rows.count++];
    *p = (struct copse_row_place){ .bucket = copse__optimizer_bucket(o, v),
                                   .count = gradient->shape.dims[0] };
    COPSE_TRY(copse__loss_place(&r->base, gradient, p->bucket, &p->sums));
    COPSE_TRY(copse__loss_place(&r->base, copse__row_list(gradient), p->bucket, &p->list));
    return copse__row_exchange_reserve(o->buckets.at[p->bucket].rows, p->count);
}

void copse__rows_free(struct copse_step_recording *r)
{
    for (size_t i = 0; i < r->rows.count; i++) {
        copse__block_release(&r->rows.at[i].list);
        copse__block_release(&r->rows.at[i].sums);
    }
}

copse_status copse__rows_give(const struct copse_step_recording *r, uint32_t bucket)
{
    copse_row_exchange *x = r->all->optimizer->buckets.at[bucket].rows;
    const struct copse_row_place *p = r->rows.at, *end = r->rows.at + r->rows.count;
    while (p < end && p->bucket != bucket)
        p++;
    if (p == end)
        return copse__row_exchange_give(x, r->replica, NULL, NULL, 0);
    const struct copse_binding list = copse__row_place_list(p), sums = copse__row_place_sums(p);
    return copse__row_exchange_give(x, r->replica, &list, &sums, p->count);
}
