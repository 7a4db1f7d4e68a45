/* SPDX-License-Identifier: MIT */
/* The train step: split the batch, write what the devices need of it, and let it fly (flight.c). After warm-up a step
   allocates nothing. */
#include "core/train/flight.h"

static copse_status check_batch(const struct copse_host_batch *batch)
{
    COPSE_TRY(copse_need("trainer", batch));
    if (batch->count == 0 || batch->count > UINT32_MAX)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: a batch holds 1 to 2^32-1 examples");
    return COPSE_OK;
}

static copse_status split(copse_trainer *t, const struct copse_host_batch *batch, bool may_measure,
                          struct copse_shares *s)
{
    s->at = s->of_all + t->strategy->rank_first;
    return copse__split(t, batch, may_measure, s->of_all);
}

/* Those of empty shares follow the layout of the others. */
copse_status copse__recordings_find(copse_trainer *t, const struct copse_host_batch *batch,
                                    enum copse_pass pass, struct copse_shares *s)
{
    const uint32_t replicas = t->strategy->replica_count;
    bool is_any = copse__layout_of(t, pass)->is_known;
    for (uint32_t r = 0; r < replicas; r++)
        is_any |= s->at[r].count > 0;
    if (!is_any) { /* the examples are with other workers, whose reports and crossings are ours, too */
        struct copse_step_recording *unused;
        COPSE_TRY(copse__recording_get(t, 0, batch, 1, pass, &unused));
    }
    for (int turn = 0; turn < 2; turn++)
        for (uint32_t r = 0; r < replicas; r++)
            if ((turn == 0) == (s->at[r].count > 0))
                COPSE_TRY(copse__recording_get(t, r, batch, s->at[r].count, pass, &s->recordings[r]));
    return COPSE_OK;
}

static uint32_t float_bits(double value)
{
    const float f = (float)value;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* Gradients are weighted by what is known while they are computed, the examples of the first
   micro-batch; this makes the weights those of all of them. */
static double scale_of(const copse_trainer *t, size_t first_examples, size_t examples)
{
    return t->params.reduction == COPSE_LOSS_SUM ? 1.0
                                                 : (double)first_examples / (double)examples;
}

copse_status copse__words_begin(copse_trainer *t, bool is_training, const struct copse_gathered *g,
                                uint32_t epoch, uint32_t *words)
{
    if (!is_training || g->part == 0) { /* the schedule is asked once a step */
        memset(words, 0, sizeof t->words);
        if (is_training)
            COPSE_TRY(copse__optimizer_words(t->optimizer, t, g->step, words));
    }
    words[COPSE_STEP_NUMBER] = (uint32_t)g->step;
    words[COPSE_STEP_SEED_LO] = (uint32_t)t->params.seed;
    words[COPSE_STEP_SEED_HI] = (uint32_t)(t->params.seed >> 32);
    words[COPSE_STEP_EPOCH] = epoch;
    words[COPSE_STEP_SCALE] =
        float_bits(is_training ? scale_of(t, g->first_examples, g->examples) : 1.0);
    return COPSE_OK;
}

void copse__words_share(const copse_trainer *t, const struct copse_batch_place *batch,
                        const struct copse_shard *share, size_t first_examples, uint32_t *words)
{
    const double n = (double)share->count;
    words[COPSE_STEP_FIRST_EXAMPLE] = (uint32_t)(batch->first + share->first);
    words[COPSE_STEP_SHARE] =
        float_bits(t->params.reduction == COPSE_LOSS_SUM ? 1.0 : n / (double)first_examples);
    words[COPSE_STEP_IS_FIRST] = float_bits(share->count > 0 && share->first == 0 ? 1.0 : 0.0);
    words[COPSE_STEP_PART] = float_bits(n / (double)batch->count);
}

/* Inputs and step words go to the replicas; inputs from `ahead`, if they stand there. */
static copse_status begin(copse_trainer *t, bool is_training, const struct copse_host_batch *batch,
                          struct copse_ahead *ahead, const struct copse_shares *s,
                          const struct copse_gathered *g)
{
    const struct copse_batch_place place = { batch->epoch, batch->first, batch->count };
    COPSE_TRY(copse__words_begin(t, is_training, g, batch->epoch, t->words));
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        const struct copse_replica *rep = &t->strategy->replicas[r];
        copse__words_share(t, &place, &s->at[r], g->first_examples, t->words);
        COPSE_TRY(ahead ? copse__ahead_take(t, ahead, s->recordings[r])
                        : copse__feed_write(rep->queue, s->recordings[r], batch, &s->at[r], NULL, 0));
        COPSE_TRY(copse_queue_write(rep->queue, rep->step, 0, t->words, 4 * COPSE_STEP_WORDS));
    }
    return COPSE_OK;
}

/* ---- gradients that are gathered over several micro-batches ---- */

copse_status copse__holders_check(const copse_trainer *t)
{
    for (size_t i = 0; t->strategy->store.holders > 0 && i < t->trained_count; i++)
        if (t->trained[i]->holder && t->trained[i]->holder != t)
            return copse_fail(COPSE_ERR_ARGUMENT, "trainer: another trainer gathers gradients of '%s'; "
                                                  "let it finish, or flush it", t->trained[i]->name);
    return COPSE_OK;
}

static void hold(copse_trainer *t)
{
    t->strategy->store.holders++;
    for (size_t i = 0; i < t->trained_count; i++)
        t->trained[i]->holder = t;
}

void copse__gathered_drop(copse_trainer *t)
{
    if (t->gathered > 0) {
        t->strategy->store.holders--;
        for (size_t i = 0; i < t->trained_count; i++)
            t->trained[i]->holder = NULL;
    }
    t->gathered = 0;
    t->gathered_examples = 0;
}

/* ---- public ---- */

copse_status copse__trainer_check(copse_trainer *t)
{
    if (!t)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: it is NULL");
    if (t->is_failed)
        return copse_fail(COPSE_ERR_DEVICE_LOST, "trainer: an update was cut short by a failed "
                                                 "device or worker; make a new trainer and load the last "
                                                 "checkpoint");
    return COPSE_OK;
}

void copse__slot_note(const copse_trainer *t, struct copse_step_slot *slot, uint32_t part,
                      const struct copse_shares *s)
{
    for (uint32_t r = 0; r < t->strategy->rank_total; r++)
        slot->examples[(size_t)part * t->strategy->rank_total + r] = s->of_all[r].count;
    slot->parts = part + 1;
}

struct copse_gathered copse__gathered_add(copse_trainer *t, size_t count)
{
    if (t->gathered == 0)
        t->first_examples = count;
    t->gathered_examples += count;
    return (struct copse_gathered){ t->step + 1, t->gathered, t->gathered_examples,
                                    t->first_examples };
}

void copse__gathered_next(copse_trainer *t)
{
    if (t->gathered + 1 == t->params.accumulate) {
        copse__gathered_drop(t);
        t->step++;
    } else if (t->gathered++ == 0) {
        hold(t);
    }
}

copse_status copse__trainer_commit(copse_trainer *t)
{
    const struct copse_optimizer_commit c = {
        .words = t->words,
        .progress = { .steps = t->step + 1, .batch = t->next.batch, .epoch = t->next.epoch },
    };
    return t->optimizer->table->commit(t->optimizer, &c);
}

copse_status copse__trainer_pull(copse_trainer *t, enum copse_pull when)
{
    return t->optimizer->table->pull(t->optimizer, when, 0);
}

/* The gradients of one micro-batch, and the update behind the last of a step. */
static copse_status gather(copse_trainer *t, const struct copse_host_batch *batch,
                           struct copse_ahead *ahead, const struct copse_shares *s, bool is_updating)
{
    struct copse_step_slot *slot = copse__slot_of(t, t->step);
    struct copse_flight f = { .t = t, .layout = &t->layouts[1], .shares = s, .slot = slot,
                        .part = t->gathered, .is_training = true, .is_updating = is_updating,
                        .since = copse__across_now(t) };
    slot->step = t->step + 1;
    t->next = (struct copse_position){ batch->epoch, batch->index + 1 };
    copse__slot_note(t, slot, t->gathered, s);
    const struct copse_gathered g = copse__gathered_add(t, batch->count);
    COPSE_TRY(begin(t, true, batch, ahead, s, &g));
    copse__across_note(t, slot->step, batch);
    return copse__fly(&f);
}

copse_status copse__flight_plan(copse_trainer *t, const struct copse_host_batch *batch,
                                enum copse_pass pass, struct copse_shares *s)
{
    COPSE_TRY(check_batch(batch));
    copse__recordings_begin(t);
    COPSE_TRY(split(t, batch, true, s));
    COPSE_TRY(copse__recordings_find(t, batch, pass, s));
    return copse__feed_check(t, s, batch);
}

copse_status copse__flight_prepare(copse_trainer *t, const struct copse_host_batch *batch,
                                   enum copse_pass pass, struct copse_shares *s)
{
    COPSE_TRY(check_batch(batch));
    COPSE_TRY(copse__holders_check(t));
    copse__recordings_begin(t);
    COPSE_TRY(split(t, batch, true, s));
    if (t->gathered == 0)
        COPSE_TRY(copse__trainer_pull(t, COPSE_PULL_STEP));
    COPSE_TRY(copse__recordings_find(t, batch, pass, s));
    return copse__feed_check(t, s, batch);
}

/* Before anything is queued; what was gathered goes, as on the other workers. */
static copse_status refuse(copse_trainer *t, copse_status why)
{
    why = copse__across_refuse(t, why);
    copse__gathered_drop(t);
    return why;
}

static copse_status step(copse_trainer *t, const struct copse_host_batch *batch)
{
    COPSE_TRY(copse__trainer_check(t));
    if (t->strategy->cluster && t->strategy->cluster->spec->role == COPSE_ROLE_EVALUATOR)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: an evaluator trains nothing");
    if (copse__is_cancelled(t))
        return refuse(t, copse_fail(COPSE_ERR_CANCELLED, "trainer: cancelled"));
    const copse_status room = copse__trainer_make_room(t, t->step + 1);
    if (room != COPSE_OK) /* a loss that is not finite shows here where nobody took it, perhaps on one worker alone */
        return refuse(t, room);
    struct copse_shares s;
    struct copse_ahead *ahead;
    const bool is_last = t->gathered + 1 == t->params.accumulate;
    struct copse_step_slot *slot = copse__slot_of(t, t->step);
    const copse_status can = copse__ahead_prepare(
        t, batch, t->gathered == 0 ? COPSE_PASS_TRAIN : COPSE_PASS_ADD, &s, &ahead);
    if (can != COPSE_OK)
        return refuse(t, can);
    const uint64_t since = copse__across_now(t);
    copse_status status = gather(t, ahead ? &ahead->kind.batch : batch, ahead, &s, is_last);
    if (status != COPSE_OK) {
        status = copse__across_tell(t, since, status);
        copse__gathered_drop(t); /* the gradients are mixed with what failed */
        return copse_note(status, "in step %llu", (unsigned long long)t->step + 1);
    }
    copse__gathered_next(t);
    return is_last ? copse__across_tell(t, since, copse__across_share(t, slot)) : COPSE_OK;
}

copse_status copse_trainer_step(copse_trainer *t, const struct copse_host_batch *batch)
{
    COPSE_TRY(copse__callback_check("copse_trainer_step", t));
    return copse__across_give_up(t, step(t, batch));
}

static copse_status flush(copse_trainer *t)
{
    const struct copse_layout *l = &t->layouts[1];
    const uint32_t replicas = t->strategy->replica_count, last = (uint32_t)l->events.count - 1;
    struct copse_step_slot *slot = copse__slot_of(t, t->step);
    t->words[COPSE_STEP_SCALE] = float_bits(scale_of(t, t->first_examples, t->gathered_examples));
    for (uint32_t r = 0; r < replicas; r++) {
        const struct copse_replica *rep = &t->strategy->replicas[r];
        COPSE_TRY(copse_queue_write(rep->queue, rep->step, 0, t->words, 4 * COPSE_STEP_WORDS));
        COPSE_TRY(copse_queue_submit(rep->queue, &copse__ready_of(t, last)[r]));
    }
    const uint64_t since = copse__across_now(t);
    t->is_failed = true;
    for (uint32_t b = 0; b < t->optimizer->buckets.count; b++) {
        const struct copse_optimizer_ready ready = { .tickets = copse__ready_of(t, last) };
        const copse_status s = t->optimizer->table->apply(t->optimizer, b, &ready);
        if (s && b == 0 && copse__across_is_whole(t, since))
            t->is_failed = false; /* a worker could not take part: nothing was changed */
        COPSE_TRY(copse_note(s, "in step %llu", (unsigned long long)t->step + 1));
    }
    COPSE_TRY(copse__trainer_commit(t));
    t->is_failed = false;
    copse__gathered_drop(t);
    t->step++;
    return copse__across_share(t, slot);
}

copse_status copse_trainer_flush(copse_trainer *t)
{
    COPSE_TRY(copse__callback_check("copse_trainer_flush", t));
    COPSE_TRY(copse__trainer_check(t));
    const uint64_t since = copse__across_now(t);
    return t->gathered > 0 ? copse__across_give_up(t, copse__across_tell(t, since, flush(t))) : COPSE_OK;
}

uint32_t copse_trainer_gathered(const copse_trainer *t)
{
    return t ? t->gathered : 0;
}

static copse_status evaluate(copse_trainer *t, const struct copse_host_batch *batch,
                             struct copse_step_result *out)
{
    COPSE_TRY(copse__trainer_check(t));
    COPSE_TRY(copse_need("trainer", out));
    COPSE_TRY(check_batch(batch));
    struct copse_shares s;
    uint32_t words[COPSE_STEP_WORDS]; /* of the step that gathers */
    copse__recordings_begin(t);
    COPSE_TRY(split(t, batch, false, &s));
    if (t->strategy->store.holders == 0) /* else the step that gathers keeps the values it began with */
        COPSE_TRY(copse__trainer_pull(t, COPSE_PULL_EVALUATE));
    const uint64_t since = copse__across_now(t);
    copse_status status = copse__recordings_find(t, batch, COPSE_PASS_EVALUATE, &s);
    if (status == COPSE_OK)
        status = copse__feed_check(t, &s, batch);
    if (status == COPSE_ERR_NO_MEMORY || status == COPSE_ERR_TIMEOUT) /* this worker's alone, and the others wait */
        return copse__across_stop(t, since, status);
    COPSE_TRY(status);
    struct copse_flight f = { .t = t, .layout = &t->layouts[0], .shares = &s, .slot = &t->evaluation };
    t->evaluation.step = t->step;
    copse__slot_note(t, &t->evaluation, 0, &s);
    memcpy(words, t->words, sizeof words);
    status = begin(t, false, batch, NULL, &s,
                   &(struct copse_gathered){ .step = t->step + 1,
                                             .examples = batch->count,
                                             .first_examples = batch->count });
    memcpy(t->words, words, sizeof words);
    if (status == COPSE_ERR_ARGUMENT) /* the same on all workers; else they wait for this one's results */
        return status;
    if (!status)
        status = copse__fly(&f);
    if (!status)
        status = copse__slot_wait(t, &t->evaluation, true);
    if (!status)
        status = copse__across_share(t, &t->evaluation);
    if (!status)
        status = copse__across_collect(t, &t->evaluation, true);
    if (!status)
        copse__slot_result(t, &t->evaluation, out);
    return copse__across_stop(t, since, status);
}

copse_status copse_trainer_evaluate(copse_trainer *t, const struct copse_host_batch *batch,
                                    struct copse_step_result *out)
{
    COPSE_TRY(copse__callback_check("copse_trainer_evaluate", t));
    return copse__across_give_up(t, evaluate(t, batch, out));
}

copse_status copse_trainer_gradient(const copse_trainer *t, const copse_variable *v,
                                    uint32_t replica, struct copse_gradient_summary *out)
{
    size_t i = 0;
    if (!t || !v || !out || replica >= t->strategy->replica_count)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: it, the variable or the place is NULL, or "
                                              "there is no replica %u", replica);
    COPSE_TRY(copse__variable_check(v, "copse_trainer_gradient"));
    while (i < t->trained_count && t->trained[i] != v)
        i++;
    if (!t->params.summarize_gradients || i == t->trained_count)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: gradients of '%s' are not summarized here",
                          v->name);
    *out = (struct copse_gradient_summary){ .is_known = t->has_watched[replica] };
    if (!out->is_known)
        return COPSE_OK;
    out->norm = copse__watched(t, replica, i, COPSE_WATCH_NORM);
    uint64_t above = v->count; /* of a magnitude of at least the bin's lower end */
    for (int k = 0; k <= COPSE_GRADIENT_BINS; k++) {
        const uint64_t next = k == COPSE_GRADIENT_BINS
                                  ? 0
                                  : (uint64_t)copse__watched(t, replica, i, COPSE_WATCH_BINS + (uint32_t)k);
        out->bins[k] = above - next;
        above = next;
    }
    return COPSE_OK;
}

void copse_trainer_cancel(copse_trainer *t)
{
    if (t)
        atomic_store(&t->is_cancelled, true);
}
