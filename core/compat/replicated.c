/* SPDX-License-Identifier: MIT */
/* Replicated models: the model function is called once per replica, and the results are
   combined. */
#include "core/compat/tower.h"
#include "core/reduce/tree.h"
#include "core/value/cross_device.h"
#include "core/variable/storage.h"

struct model_run {
    copse_strategy *strategy;
    const struct copse_replicated_params *params;
    copse_model_mode mode;
    copse_value *features[COPSE_MAX_REPLICAS], *labels[COPSE_MAX_REPLICAS];
    struct copse_model_spec specs[COPSE_MAX_REPLICAS];
};

/* ---- calling the model ---- */

static copse_status call_model(copse_replica_context *rc, copse_value *const *args, size_t count,
                               void *user, copse_value **result)
{
    struct model_run *m = user;
    const uint32_t r = copse_replica_id(rc) - m->strategy->group.first; /* of this worker */
    const struct copse_model_call call = {
        .mode = m->mode, .features = m->features[r], .labels = m->labels[r], .user = m->params->user
    };
    (void)args, (void)count;
    *result = NULL;
    copse_status s = m->params->model(rc, &call, &m->specs[r]);
    if (!s)
        s = copse_no_reserved(copse_model_spec, &m->specs[r]);
    return copse_note(s, "in the model function on replica %u", m->strategy->group.first + r);
}

static copse_status finish_optimizers(copse_strategy *st)
{
    copse_status s = COPSE_OK;
    for (copse_tower_optimizer *t = NULL; s == COPSE_OK && (t = copse__tower_next(st, t));)
        s = copse_tower_finish(t);
    return s;
}

static void set_reduction(copse_strategy *st, const copse_loss_reduction *reduction)
{
    for (copse_tower_optimizer *t = NULL; (t = copse__tower_next(st, t));)
        t->reduction = reduction ? *reduction : t->params.reduction;
}

static bool has_optimized(const copse_strategy *st)
{
    for (const copse_tower_optimizer *t = NULL; (t = copse__tower_next(st, t));)
        for (uint32_t r = 0; r < st->replica_count; r++)
            if (t->calls[r] > 0)
                return true;
    return false;
}

static copse_status call_models(struct model_run *m)
{
    copse_strategy *st = m->strategy;
    COPSE_TRY(finish_optimizers(st)); /* calls that were made outside of a model */
    set_reduction(st, &m->params->reduction);
    st->has_mean_losses = m->params->reduction == COPSE_LOSS_MEAN;
    const copse_status s = copse_strategy_run(st, call_model, NULL, 0, m, NULL);
    st->has_mean_losses = false;
    set_reduction(st, NULL);
    COPSE_TRY(s);
    if (m->mode == COPSE_MODEL_TRAIN && st->group.ranks > 1 && !has_optimized(st))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "replicated model: %u replicas were trained, and none handed "
                          "gradients to a tower optimizer",
                          st->group.ranks);
    return finish_optimizers(st);
}

/* ---- its results ---- */

static copse_status read_loss(const struct model_run *m, uint32_t r, float *out)
{
    const copse_value *loss = m->specs[r].loss;
    struct copse_block *copy;
    if (!loss)
        return copse_fail(COPSE_ERR_ARGUMENT, "replicated model: replica %u gave no loss", r);
    if (loss->kind != COPSE_VALUE_ARRAY || loss->type != COPSE_F32 ||
        copse__elements(loss->shape) != 1)
        return copse_fail(COPSE_ERR_SHAPE,
                          "replicated model: the loss of replica %u is no f32 scalar", r);
    COPSE_TRY(copse__block_copy(loss->block, NULL, &copy));
    memcpy(out, copy->host, sizeof *out);
    copse__block_release(&copy);
    if (m->params->reduction == COPSE_LOSS_MEAN && m->strategy->group.ranks > 1)
        *out /= (float)m->strategy->group.ranks;
    return COPSE_OK;
}

/* The losses of all replicas by rank, added up. `mine`: why this worker has no results. */
static copse_status add_losses(const struct model_run *m, copse_status mine, double *out)
{
    const struct copse_group *group = &m->strategy->group;
    const bool has_any = m->mode != COPSE_MODEL_PREDICT || m->specs[0].loss;
    float losses[COPSE_MAX_REPLICAS] = { 0 };
    void *rows[COPSE_MAX_REPLICAS];
    for (uint32_t r = 0; !mine && has_any && r < m->strategy->replica_count; r++)
        mine = read_loss(m, r, &losses[group->first + r]);
    COPSE_TRY(copse__group_gather_ranks(&m->strategy->group, "losses of a replicated model", losses,
                                        has_any ? sizeof *losses : 0, mine));
    for (uint32_t r = 0; r < group->ranks; r++)
        rows[r] = &losses[r];
    copse__tree_rows(rows, group->ranks, 1, COPSE_F32);
    *out = (double)losses[0];
    return COPSE_OK;
}

static copse_status join_outputs(const struct model_run *m, copse_value **out)
{
    const uint32_t n = m->strategy->replica_count;
    copse_value *parts[COPSE_MAX_REPLICAS];
    uint32_t count = 0;
    for (uint32_t r = 0; r < n; r++) {
        parts[r] = m->specs[r].outputs;
        count += parts[r] != NULL;
    }
    if (count == 0 && m->mode != COPSE_MODEL_PREDICT)
        return COPSE_OK;
    if (count < n)
        return copse_fail(COPSE_ERR_ARGUMENT, "replicated model: %u of %u replicas gave outputs",
                          count, n);
    return copse_note(copse__value_join(m->strategy, parts, out),
                      "in the outputs of a replicated model");
}

static copse_status check_metrics(const struct model_run *m)
{
    const uint32_t n = m->strategy->replica_count;
    const struct copse_model_spec *first = &m->specs[0];
    size_t all = 0;
    for (uint32_t r = 0; r < n; r++) {
        if (m->specs[r].metric_count > COPSE_MAX_METRICS)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "replicated model: %zu metrics on replica %u; at most %d",
                              m->specs[r].metric_count, r, COPSE_MAX_METRICS);
        all += m->specs[r].metric_count;
    }
    for (uint32_t r = 1; r < n; r++) {
        const size_t count = m->specs[r].metric_count;
        if (count != first->metric_count)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "replicated model: %zu metric states over %u replicas: "
                              "replica %u has %zu, replica 0 %zu",
                              all, n, r, count, first->metric_count);
        for (size_t i = 0; i < count; i++)
            if (m->specs[r].metrics[i] != first->metrics[i])
                return copse_fail(COPSE_ERR_ARGUMENT,
                                  "replicated model: metric %zu of replica %u is "
                                  "another variable than replica 0's",
                                  i, r);
    }
    return COPSE_OK;
}

static copse_status replicated_combine(struct model_run *m, struct copse_replicated_result *out)
{
    const bool is_eval = m->mode == COPSE_MODEL_EVAL;
    copse_status s = is_eval ? check_metrics(m) : COPSE_OK;
    if (s == COPSE_OK)
        s = join_outputs(m, &out->outputs);
    s = add_losses(m, s, &out->loss);
    if (s == COPSE_OK && is_eval)
        s = copse_metrics_reduce(m->strategy, m->specs[0].metrics, m->specs[0].metric_count);
    if (s != COPSE_OK)
        copse_value_release(&out->outputs);
    return s;
}

/* ---- public ---- */

static copse_status replicated_split(const struct model_run *m, copse_value *from, const char *what,
                                     copse_value **parts)
{
    const copse_status s = from ? copse__value_split(m->strategy, from, parts) : COPSE_OK;
    return copse_note(s, "while splitting %s", what);
}

static void replicated_release(struct copse_mem *mem, struct model_run *m)
{
    for (uint32_t r = 0; r < m->strategy->replica_count; r++) {
        copse_value_release(&m->features[r]);
        copse_value_release(&m->labels[r]);
        copse_value_release(&m->specs[r].loss);
        copse_value_release(&m->specs[r].outputs);
    }
    copse__free(mem, m);
}

static copse_status replicated_check(copse_strategy *st, const struct copse_replicated_params *p,
                                     copse_model_mode mode,
                                     const struct copse_replicated_result *out)
{
    COPSE_TRY(copse_need("replicated model", p->model, out));
    COPSE_TRY(
        copse_need_known("replicated model", "reduction of losses", p->reduction, COPSE_LOSS_SUM));
    COPSE_TRY(copse_need_known("replicated model", "mode", mode, COPSE_MODEL_PREDICT));
    COPSE_TRY(copse__require_device(st, "replicated model"));
    return copse__require_cross(st, "replicated model: a run");
}

/* After a failure no gradients are kept. */
static copse_status replicated_begin(struct model_run *m, copse_value *features,
                                     copse_value *labels, struct copse_replicated_result *out)
{
    copse_strategy *st = m->strategy;
    copse_status s = replicated_split(m, features, "features", m->features);
    if (s == COPSE_OK)
        s = replicated_split(m, labels, "labels", m->labels);
    if (s == COPSE_OK)
        s = call_models(m);
    if (s == COPSE_OK)
        return replicated_combine(m, out);
    for (copse_tower_optimizer *t = NULL; (t = copse__tower_next(st, t));)
        copse__tower_drop_all(t);
    return s;
}

static copse_status replicated_here(copse_strategy *st,
                                    const struct copse_replicated_params *params,
                                    copse_model_mode mode, copse_value *features,
                                    copse_value *labels, struct copse_replicated_result *out)
{
    COPSE_TRY(replicated_check(st, params, mode, out));
    *out = (struct copse_replicated_result){ .loss = 0 };
    struct copse_mem *mem = &st->ctx->base.mem;
    struct model_run *m = copse__alloc(mem, 1, sizeof *m);
    COPSE_TRY(copse_need_memory(m, "replicated model"));
    m->strategy = st;
    m->params = params;
    m->mode = mode;
    const copse_status s = replicated_begin(m, features, labels, out);
    replicated_release(mem, m);
    return s;
}

copse_status copse_replicated_run(copse_strategy *st, const struct copse_replicated_params *params,
                                  copse_model_mode mode, copse_value *features, copse_value *labels,
                                  struct copse_replicated_result *out)
{
    COPSE_TRY(copse_need("replicated model", st, params));
    copse_strategy_retain(st); /* the model function may release the application's reference */
    copse__group_begin(&st->group,
                       params->reduction == COPSE_LOSS_MEAN ? "model by mean" : "model by sum");
    const copse_status s =
        copse__group_end(&st->group, replicated_here(st, params, mode, features, labels, out));
    copse_strategy_release(&st);
    return s;
}

/* ---- metrics ---- */

static copse_status check_states(copse_strategy *st, copse_variable *const *states, size_t count)
{
    if (!st || (!states && count > 0))
        return copse_fail(COPSE_ERR_ARGUMENT, "metrics: strategy or list is NULL");
    COPSE_TRY(copse__require_cross(st, "metrics: reducing"));
    for (size_t i = 0; i < count; i++) {
        COPSE_TRY(copse_note(copse__variable_of(states[i], st, "metrics"), "in state %zu", i));
        if (!st->table->has_one_copy && st->group.ranks > 1 && !copse__variable_is_local(states[i]))
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "metrics: variable '%s' is mirrored; states of metrics "
                              "are replica-local (COPSE_SYNC_ON_READ)",
                              states[i]->name);
        for (size_t k = 0; k < i; k++)
            if (states[k] == states[i])
                return copse_fail(COPSE_ERR_ARGUMENT, "metrics: variable '%s' is twice in the list",
                                  states[i]->name);
    }
    return COPSE_OK;
}

/* The first replica of all gets the sum, the others zeros. */
static copse_status reduce_state(copse_variable *v)
{
    copse_strategy *st = v->strategy;
    copse_value *all, *sum;
    void *words;
    COPSE_TRY(copse__components_read(v, &all));
    copse_status s = copse__strategy_reduce_to_host(st, COPSE_REDUCE_SUM, all, &sum);
    copse_value_release(&all);
    COPSE_TRY(s);
    s = copse__value_to_host(sum, &words);
    copse_value_release(&sum);
    COPSE_TRY(s);
    for (uint32_t r = 0; s == COPSE_OK && r < st->replica_count; r++) {
        if (st->group.first + r > 0)
            memset(words, 0, 4 * (size_t)v->count);
        s = copse__storage(v)->change(v, r, COPSE_CHANGE_SET, words);
    }
    copse__free(&st->ctx->base.mem, words);
    return s;
}

copse_status copse_metrics_reduce(copse_strategy *st, copse_variable *const *states, size_t count)
{
    COPSE_TRY(check_states(st, states, count));
    for (size_t i = 0; st->group.ranks > 1 && !st->table->has_one_copy && i < count; i++)
        COPSE_TRY(
            copse_note(reduce_state(states[i]), "while reducing metric '%s'", states[i]->name));
    return COPSE_OK;
}
