/* SPDX-License-Identifier: MIT */
/* Checkpoints of a trainer: what it adds to those of every job (core/state/job_state.h). */
#include <stdio.h>
#include <stdlib.h>

#include "copse/train/slots.h"
#include "core/base/half.h"
#include "core/state/job_state.h"
#include "core/train/trainer.h"

#define WEIGHTS_KEY  "share_weights" /* bits of an f32 for each replica, where not even */
#define GROUPS_KEY   "parameter_groups"
#define WEIGHTS_TEXT (16 * COPSE_MAX_REPLICAS)

/* A trainer in a checkpoint. */
struct trainer_job {
    struct copse_state_job base;
    copse_trainer *t;
    float weights[COPSE_MAX_REPLICAS]; /* of the file, when has_weights */
    bool has_weights;
};

/* Measured shards are part of the job: a resumed run does not measure again. */
static copse_status put_weights(void *user, struct copse_state *s)
{
    const copse_trainer *t = ((struct trainer_job *)user)->t;
    char text[WEIGHTS_TEXT];
    size_t at = 0;
    for (uint32_t r = 0; t->split.is_known && r < t->strategy->group.ranks; r++)
        at += (size_t)snprintf(text + at, WEIGHTS_TEXT - at, r ? " %08x" : "%08x",
                               copse__bits_of((float)t->split.weights[r]));
    return at > 0 ? copse__state_put(s, WEIGHTS_KEY, COPSE_STATE_TEXT(s, text)) : COPSE_OK;
}

static copse_status put_groups(const copse_trainer *t, struct copse_state *s)
{
    char text[COPSE_GROUPS_TEXT];
    copse__groups_text(&t->optimizer->rule.groups, text);
    return text[0] ? copse__state_put(s, GROUPS_KEY, COPSE_STATE_TEXT(s, text)) : COPSE_OK;
}

/* Frozen variables have no slots, so a run goes on with the groups that it began with. */
static copse_status match_groups(const copse_trainer *t, const struct copse_state *s)
{
    char text[COPSE_GROUPS_TEXT];
    const char *stored = copse__state_line(s, GROUPS_KEY);
    copse__groups_text(&t->optimizer->rule.groups, text);
    return strcmp(stored ? stored : "", text) == 0
               ? COPSE_OK
               : copse_fail(
                     COPSE_ERR_ARGUMENT,
                     "checkpoint: %s was made with the parameter groups \"%.200s\", the trainer "
                     "has \"%.200s\": give the trainer the same, or load the variables alone "
                     "with copse_trainer_load",
                     s->path, stored ? stored : "", text);
}

static copse_status trainer_state_put(void *user, struct copse_state *s)
{
    COPSE_TRY(put_groups(((struct trainer_job *)user)->t, s));
    return put_weights(user, s);
}

/* They are restored if the job has as many replicas as before, and else measured anew. */
static copse_status match_weights(void *user, const struct copse_state *s)
{
    struct trainer_job *job = user;
    const char *text = copse__state_line(s, WEIGHTS_KEY);
    uint32_t count = 0;
    char *end;
    if (!text || job->t->params.sharding != COPSE_SHARD_MEASURED)
        return COPSE_OK;
    for (const char *c = text; *c && count < COPSE_MAX_REPLICAS; c = end) {
        const uint32_t bits = (uint32_t)strtoul(c, &end, 16);
        memcpy(&job->weights[count++], &bits, sizeof bits);
        if (end == c)
            return copse_fail(COPSE_ERR_FORMAT,
                              "checkpoint: %s: \"" WEIGHTS_KEY "\" is no list of weights", s->path);
    }
    job->has_weights = count == job->t->strategy->group.ranks;
    const copse_status can =
        job->has_weights ? copse__split_check(&job->t->split, job->weights) : COPSE_OK;
    return copse_note(can, "while restoring %s", s->path);
}

static copse_status trainer_state_match(void *user, const struct copse_state *s)
{
    COPSE_TRY(match_groups(((struct trainer_job *)user)->t, s));
    return match_weights(user, s);
}

static copse_status check_accumulated(void *user)
{
    const uint32_t parts = ((struct trainer_job *)user)->t->accumulation.parts;
    return parts == 0
               ? COPSE_OK
               : copse_fail(
                     COPSE_ERR_ARGUMENT,
                     "checkpoint: micro-batches are accumulated since the last update (%u): finish "
                     "it, or call copse_trainer_flush",
                     parts);
}

/* Drop the results, accumulated gradients and fed batches from before the restore. */
static void trainer_state_restored(void *user, const struct copse_state_counters *c)
{
    const struct trainer_job *job = user;
    copse_trainer *t = job->t;
    t->feed.slots.count = 0;
    t->verifier.audit.step = 0;
    copse__accumulation_drop(&t->accumulation);
    copse__average_free(&t->uses.average, &t->strategy->ctx->base.mem);
    for (size_t i = 0; i < t->ring.count; i++)
        t->ring.at[i].step = 0;
    t->step = t->ring.taken = c->step;
    t->params.seed = c->seed;
    if (job->has_weights)
        copse__split_set(&t->split, job->weights);
}

static struct copse_state_job *trainer_state_init(struct trainer_job *job, copse_trainer *t)
{
    *job = (struct trainer_job){
        .t = t,
        .base = { .strategy = t->strategy,
                  .optimizer = t->optimizer,
                  .step = t->step,
                  .seed = t->params.seed,
                  .reduction = t->params.reduction == COPSE_LOSS_SUM ? "sum" : "mean",
                  .sharding = copse_shard_rule_name(t->params.sharding),
                  .is_torn = t->is_failed || t->verifier.audit.has_failed,
                  .consequence = "; the trainer is not usable any more",
                  .user = job,
                  .check = check_accumulated,
                  .put = trainer_state_put,
                  .match = trainer_state_match,
                  .restored = trainer_state_restored },
    };
    return &job->base;
}

copse_status copse_trainer_checkpoint(copse_trainer *t, const char *path,
                                      const struct copse_state_params *params)
{
    struct trainer_job job;
    COPSE_TRY(copse__require_no_replica("copse_trainer_checkpoint", t));
    COPSE_TRY(copse_need("checkpoint", t));
    COPSE_TRY(copse__strategy_settle(t->strategy));
    COPSE_TRY(copse__average_refuse(t));
    COPSE_TRY(copse__audit_settle(t));
    return copse__job_checkpoint(trainer_state_init(&job, t), path, params);
}

copse_status copse_trainer_save(copse_trainer *t, const char *path)
{
    struct trainer_job job;
    COPSE_TRY(copse__require_no_replica("copse_trainer_save", t));
    COPSE_TRY(copse_need("checkpoint", t));
    COPSE_TRY(copse__strategy_settle(t->strategy));
    COPSE_TRY(copse__audit_settle(t));
    return copse__job_export(trainer_state_init(&job, t), path);
}

copse_status copse_trainer_restore(copse_trainer *t, const char *path,
                                   struct copse_position *position, copse_checkpoint **file)
{
    struct trainer_job job;
    if (file)
        *file = NULL;
    COPSE_TRY(copse__require_no_replica("copse_trainer_restore", t));
    COPSE_TRY(copse_need("checkpoint", t));
    COPSE_TRY(copse__strategy_settle(t->strategy));
    const copse_status s = copse__job_restore(trainer_state_init(&job, t), path, position, file);
    t->is_failed = job.base.is_torn;
    return s;
}

copse_status copse_trainer_slot(copse_trainer *t, const copse_variable *v, const char *name,
                                float *values)
{
    struct copse_block *block;
    uint32_t slot;
    COPSE_TRY(copse_need("trainer", t, v, name, values));
    COPSE_TRY(copse__require_no_replica("copse_trainer_slot", t));
    COPSE_TRY(copse__variable_check(v, "copse_trainer_slot"));
    if (v->strategy != t->strategy || copse__optimizer_bucket(t->optimizer, v) == COPSE_NO_BUCKET)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: it does not train variable '%s'", v->name);
    if (!copse__slot_find(t->optimizer, name, &slot))
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: the rule '%s' has no slot '%s'",
                          copse__rule_name(&t->optimizer->rule), name);
    COPSE_TRY(copse_note(copse__slot_read(t->optimizer, v, slot, &block),
                         "while reading slot '%s' of '%s'", name, v->name));
    memcpy(values, block->host, (size_t)v->count * sizeof *values);
    copse__block_release(&block);
    return COPSE_OK;
}
