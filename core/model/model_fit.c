/* SPDX-License-Identifier: MIT */
/* copse_model_fit and copse_model_find_lr: a trainer of the model's variables and loaders, for one
   call. */
#include "copse/loop/find_lr.h"
#include "copse/train/model_loss.h"
#include "core/model/model.h"

static copse_status make_loader(copse_dataset *data, const struct copse_model_fit_params *p,
                                copse_loader **out)
{
    struct copse_dataset_info info;
    copse_dataset_describe(data, &info);
    const struct copse_loader_params how = { .batch =
                                                 p->batch ? p->batch : COPSE_MIN(64, info.rows),
                                             .seed = p->seed };
    return copse_loader_create(data, &how, out);
}

static copse_status make_trainer(copse_model *m, const struct copse_model_fit_params *p,
                                 copse_trainer **out)
{
    struct copse_mem *mem = &m->strategy->ctx->base.mem;
    copse_variable **trained = copse__alloc(mem, m->variable_count, sizeof *trained);
    struct copse_trainer_params how = { .loss = copse_model_loss,
                                        .user = m,
                                        .optimizer = p->optimizer,
                                        .seed = p->seed,
                                        .variables = trained };
    COPSE_TRY(copse_need_memory(trained, "model"));
    for (size_t i = 0; i < m->variable_count; i++)
        if (copse_variable_is_trained(m->variables[i]))
            trained[how.variable_count++] = m->variables[i];
    const copse_status s = copse_trainer_create(m->strategy, &how, out);
    copse__free(mem, trained);
    return s;
}

copse_status copse_model_fit(copse_model *m, copse_dataset *data,
                             const struct copse_model_fit_params *params)
{
    copse_trainer *t = NULL;
    copse_loader *batches = NULL, *held_out = NULL;
    COPSE_TRY(copse_need("model", m, data, params));
    COPSE_TRY(copse_no_reserved(copse_model_fit_params, params));
    COPSE_TRY(copse_model_balance_loss(m, data));
    copse_status s = make_loader(data, params, &batches);
    if (s == COPSE_OK && params->held_out)
        s = make_loader(params->held_out, params, &held_out);
    if (s == COPSE_OK)
        s = make_trainer(m, params, &t);
    const struct copse_fit_params fit = { .epochs = params->epochs,
                                          .held_out = held_out,
                                          .on_epoch = params->on_epoch,
                                          .user = params->user,
                                          .patience = params->patience,
                                          .min_delta = params->min_delta,
                                          .keep_last = params->keep_last };
    if (s == COPSE_OK)
        s = copse_trainer_fit(t, batches, &fit);
    copse_trainer_release(&t);
    copse_loader_release(&held_out);
    copse_loader_release(&batches);
    return s;
}

copse_status copse_model_find_lr(copse_model *m, copse_dataset *data,
                                 const struct copse_model_fit_params *how,
                                 const struct copse_find_lr_params *params,
                                 struct copse_lr_range *out)
{
    copse_trainer *t = NULL;
    copse_loader *batches = NULL;
    copse_schedule *schedule = NULL;
    COPSE_TRY(copse_need("model", m, data, how, out));
    COPSE_TRY(copse_no_reserved(copse_model_fit_params, how));
    COPSE_TRY(copse_model_balance_loss(m, data));
    COPSE_TRY(copse_find_lr_schedule(m->strategy->ctx, params, &schedule));
    struct copse_model_fit_params p = *how;
    p.optimizer.schedule = copse_schedule_rate;
    p.optimizer.schedule_user = schedule;
    copse_status s = make_loader(data, &p, &batches);
    if (s == COPSE_OK)
        s = make_trainer(m, &p, &t);
    if (s == COPSE_OK)
        s = copse_trainer_find_lr(t, batches, params, out);
    copse_trainer_release(&t);
    copse_loader_release(&batches);
    copse_schedule_release(&schedule);
    return s;
}
