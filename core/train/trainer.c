/* SPDX-License-Identifier: MIT */
/* The train step: split the batch, replay forward and backward, exchange each bucket while later
   ones are still being computed. After warm-up a step allocates nothing. */
#include "core/train/trainer.h"

static copse_status update(void *user, copse_device *dev, const struct copse_update *u,
                           struct copse_command *out)
{
    return copse__rule_command(user, dev, &u->values, &u->gradients, &u->slots, &u->step, u->count,
                               out);
}

static void free_slot(copse_trainer *t, struct copse_step_slot *slot)
{
    copse__free(&t->strategy->ctx->base.mem, slot->bytes);
}

static copse_status make_slot(copse_trainer *t, struct copse_step_slot *slot)
{
    slot->bytes = copse__alloc(&t->strategy->ctx->base.mem, t->strategy->replica_count,
                               COPSE_REPORT_BYTES);
    return slot->bytes ? COPSE_OK : copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory");
}

static copse_status init(copse_trainer *t)
{
    copse_strategy *st = t->strategy;
    COPSE_TRY(copse__rule_init(&t->params.optimizer, &t->rule));
    for (size_t i = 0; i < COPSE_COUNT(t->slots); i++)
        COPSE_TRY(make_slot(t, &t->slots[i]));
    COPSE_TRY(make_slot(t, &t->evaluation));
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const struct copse_buffer_params params = { .size = COPSE_REPORT_BYTES };
        COPSE_TRY(copse_buffer_create(st->replicas[r].dev, &params, &t->reports[r]));
        COPSE_TRY(copse_queue_fill(st->replicas[r].queue, t->reports[r], 0, COPSE_REPORT_BYTES, 0));
        COPSE_TRY(copse_queue_finish(st->replicas[r].queue));
    }
    COPSE_TRY(copse__store_build(st,
                                 &(struct copse_store_rule){ t->rule.slots, update, &t->rule }));
    t->ready = copse__alloc(&st->ctx->base.mem, st->replica_count,
                            st->store.bucket_count * sizeof *t->ready);
    return t->ready ? COPSE_OK : copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory");
}

static copse_status check(const copse_strategy *st, const struct copse_trainer_params *p)
{
    if (!p->loss)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: needs a loss function");
    if (p->example.rank >= COPSE_MAX_RANK || p->target.rank >= COPSE_MAX_RANK)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: examples have at most %d dimensions",
                          COPSE_MAX_RANK - 1);
    if (p->target_type != COPSE_F32 && p->target_type != COPSE_I32)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: unknown target type %d",
                          (int)p->target_type);
    if (st->has_trainer)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: the strategy already has a trainer; "
                                              "release it first");
    return COPSE_OK;
}

copse_status copse_trainer_create(copse_strategy *st, const struct copse_trainer_params *params,
                                  copse_trainer **out)
{
    if (!st || !params || !out)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: strategy, params or result is NULL");
    *out = NULL;
    COPSE_TRY(check(st, params));
    copse_trainer *t = copse__alloc(&st->ctx->base.mem, 1, sizeof *t);
    if (!t)
        return copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory");
    t->strategy = copse_strategy_retain(st);
    st->has_trainer = true;
    t->params = *params;
    const copse_status s = init(t);
    if (s != COPSE_OK)
        copse_trainer_release(&t);
    else
        *out = t;
    return copse_note(s, "while making a trainer");
}

void copse_trainer_release(copse_trainer **trainer)
{
    if (!trainer || !*trainer)
        return;
    copse_trainer *t = *trainer;
    copse_strategy *st = t->strategy;
    struct copse_mem *mem = &st->ctx->base.mem;
    bool is_idle = true;
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const copse_status s = copse_queue_finish(st->replicas[r].queue);
        is_idle &= s != COPSE_ERR_TIMEOUT;
        if (s != COPSE_OK)
            copse__log(&st->ctx->base.log, COPSE_LOG_WARN, "trainer: %s did not finish: %s",
                       st->replicas[r].dev->info.id, copse_last_error());
    }
    copse__recordings_fini(t);
    for (size_t i = 0; is_idle && i < COPSE_COUNT(t->slots); i++) /* a read may still land there */
        free_slot(t, &t->slots[i]);
    if (is_idle)
        free_slot(t, &t->evaluation);
    for (uint32_t r = 0; r < st->replica_count; r++)
        copse_buffer_release(&t->reports[r]);
    for (uint32_t i = 0; i < t->report_count; i++)
        copse__free(mem, t->report_names[i]);
    copse__free(mem, t->ready);
    st->has_trainer = false;
    copse_context *ctx = copse_context_retain(st->ctx); /* mem lives in it */
    copse__free(mem, t);
    copse_strategy_release(&st);
    copse_context_release(&ctx);
    *trainer = NULL;
}

/* ---- a step ---- */

struct shares {
    struct copse_shard at[COPSE_MAX_REPLICAS];
    struct copse_recording *recordings[COPSE_MAX_REPLICAS];
};

static size_t row_bytes(copse_shape s)
{
    return (size_t)copse__elements(s) * 4;
}

/* Recordings may move while new ones are made: first make all, then look them up. */
static copse_status split(copse_trainer *t, const struct copse_host_batch *batch, bool is_training,
                          struct shares *s)
{
    const uint32_t replicas = t->strategy->replica_count;
    if (!batch || batch->count == 0 || batch->count > UINT32_MAX || !batch->x)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: a batch holds 1 to 2^32-1 examples");
    COPSE_TRY(copse__shard(COPSE_SHARD_BALANCED, batch->count, batch->count, replicas, s->at));
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t r = 0; r < replicas; r++)
            COPSE_TRY(copse__recording_get(t, r, s->at[r].count, is_training, &s->recordings[r]));
    return COPSE_OK;
}

static copse_status write_inputs(copse_trainer *t, uint32_t r, const struct copse_host_batch *batch,
                                 const struct shares *s)
{
    const struct copse_recording *rec = s->recordings[r];
    const size_t first = s->at[r].first, n = s->at[r].count;
    const size_t x = row_bytes(t->params.example), y = row_bytes(t->params.target);
    copse_queue *q = t->strategy->replicas[r].queue;
    if (n > 0 && rec->x.buffer)
        COPSE_TRY(copse_queue_write(q, rec->x.buffer, rec->x.offset,
                                    (const char *)batch->x + first * x, n * x));
    if (n > 0 && rec->y.buffer) {
        if (!batch->y)
            return copse_fail(COPSE_ERR_ARGUMENT, "trainer: the loss needs targets, the batch "
                                                  "has none");
        COPSE_TRY(copse_queue_write(q, rec->y.buffer, rec->y.offset,
                                    (const char *)batch->y + first * y, n * y));
    }
    return COPSE_OK;
}

static uint32_t float_bits(double value)
{
    const float f = (float)value;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* `words` has what is the same for all replicas. */
static copse_status write_step(copse_trainer *t, uint32_t r, uint32_t *words,
                               const struct copse_host_batch *batch, const struct shares *s)
{
    const double share = (double)s->at[r].count / (double)batch->count;
    words[COPSE_STEP_FIRST_EXAMPLE] = (uint32_t)(batch->first + s->at[r].first);
    words[COPSE_STEP_SHARE] = float_bits(t->params.reduction == COPSE_LOSS_SUM ? 1.0 : share);
    const struct copse_replica *rep = &t->strategy->replicas[r];
    return copse_queue_write(rep->queue, rep->step, 0, words, 4 * COPSE_STEP_WORDS);
}

static copse_status begin(copse_trainer *t, uint64_t step, bool is_training,
                          const struct copse_host_batch *batch, const struct shares *s)
{
    uint32_t words[COPSE_STEP_WORDS] = { 0 };
    words[COPSE_STEP_NUMBER] = (uint32_t)step;
    words[COPSE_STEP_SEED_LO] = (uint32_t)t->params.seed;
    words[COPSE_STEP_SEED_HI] = (uint32_t)(t->params.seed >> 32);
    words[COPSE_STEP_EPOCH] = batch->epoch;
    words[COPSE_STEP_SCALE] = float_bits(1.0);
    if (is_training) /* asks the schedule, once */
        copse__rule_step(&t->rule, step, words);
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        COPSE_TRY(write_inputs(t, r, batch, s));
        COPSE_TRY(write_step(t, r, words, batch, s));
    }
    return COPSE_OK;
}

/* Queue segment `b` of every replica; the last one also reads the reports back. */
static copse_status replay(copse_trainer *t, const struct shares *s, uint32_t b, bool is_last,
                           struct copse_step_slot *slot, uint64_t *tickets)
{
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        const struct copse_recording *rec = s->recordings[r];
        copse_queue *q = t->strategy->replicas[r].queue;
        if (rec->program)
            COPSE_TRY(copse__program_replay(rec->program, b));
        else if (rec->zeros)
            COPSE_TRY(copse__segment_replay(rec->zeros[b]));
        if (is_last && rec->program)
            COPSE_TRY(copse_queue_read(q, t->reports[r], 0,
                                       slot->bytes + (size_t)r * COPSE_REPORT_BYTES,
                                       COPSE_REPORT_BYTES));
        COPSE_TRY(copse_queue_submit(q, &tickets[r]));
    }
    return COPSE_OK;
}

static bool is_cancelled(copse_trainer *t)
{
    return atomic_exchange(&t->is_cancelled, false);
}

/* A step under way: segments queued, buckets exchanged. */
struct flight {
    copse_trainer *t;
    const struct shares *shares;
    struct copse_step_slot *slot;
    uint32_t queued, exchanged;
};

static uint64_t *ready_of(const copse_trainer *t, uint32_t bucket)
{
    return t->ready + (size_t)bucket * t->strategy->replica_count;
}

static copse_status queue_segment(struct flight *f)
{
    const uint32_t b = f->queued;
    const bool is_last = b + 1 == f->t->strategy->store.bucket_count;
    COPSE_TRY(replay(f->t, f->shares, b, is_last, f->slot, ready_of(f->t, b)));
    f->queued++;
    return COPSE_OK;
}

/* While the host waits for a bucket, the devices have up to two later segments to compute: what
   reads a weight of the bucket stands in none of them. */
static copse_status keep_busy(void *user)
{
    struct flight *f = user;
    const uint32_t buckets = f->t->strategy->store.bucket_count;
    return f->queued < buckets && f->queued < f->exchanged + 3 ? queue_segment(f) : COPSE_OK;
}

/* Up to the first exchange nothing has changed that counts. */
static copse_status run(copse_trainer *t, const struct shares *s, struct copse_step_slot *slot)
{
    const uint32_t buckets = t->strategy->store.bucket_count;
    struct flight f = { .t = t, .shares = s, .slot = slot };
    COPSE_TRY(queue_segment(&f));
    if (is_cancelled(t))
        return copse_fail(COPSE_ERR_CANCELLED, "trainer: cancelled");
    t->is_failed = true; /* until the whole update is queued */
    for (; f.exchanged < buckets; f.exchanged++) {
        if (f.queued == f.exchanged)
            COPSE_TRY(queue_segment(&f));
        COPSE_TRY(copse__exchange_run(t->strategy->store.exchange, f.exchanged,
                                      ready_of(t, f.exchanged), keep_busy, &f));
    }
    t->is_failed = false;
    memcpy(slot->tickets, ready_of(t, buckets - 1),
           t->strategy->replica_count * sizeof *slot->tickets);
    return COPSE_OK;
}

static void weigh(copse_trainer *t, const struct copse_host_batch *batch, const struct shares *s,
                  struct copse_step_slot *slot)
{
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        slot->weight[r] = (double)s->at[r].count / (double)batch->count;
}

static copse_status check_usable(copse_trainer *t)
{
    if (!t)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: it is NULL");
    if (t->is_failed)
        return copse_fail(COPSE_ERR_DEVICE_LOST, "trainer: an update was cut short by a failed "
                                                 "device; make a new trainer and load the last "
                                                 "checkpoint");
    return COPSE_OK;
}

copse_status copse_trainer_step(copse_trainer *t, const struct copse_host_batch *batch)
{
    COPSE_TRY(check_usable(t));
    if (is_cancelled(t))
        return copse_fail(COPSE_ERR_CANCELLED, "trainer: cancelled");
    if (t->step - t->taken == COPSE_STEPS_UNDER_WAY) { /* nobody took the oldest: let it go */
        struct copse_step_result oldest;
        COPSE_TRY(copse_trainer_result(t, true, &oldest));
    }
    struct shares s;
    COPSE_TRY(split(t, batch, true, &s));
    struct copse_step_slot *slot = &t->slots[t->step % COPSE_STEPS_UNDER_WAY];
    slot->step = t->step + 1;
    weigh(t, batch, &s, slot);
    copse_status status = begin(t, slot->step, true, batch, &s);
    if (status == COPSE_OK)
        status = run(t, &s, slot);
    if (status != COPSE_OK)
        return copse_note(status, "in step %llu", (unsigned long long)slot->step);
    t->step++;
    return COPSE_OK;
}

copse_status copse_trainer_evaluate(copse_trainer *t, const struct copse_host_batch *batch,
                                    struct copse_step_result *out)
{
    COPSE_TRY(check_usable(t));
    if (!out)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: no place for the result");
    struct shares s;
    COPSE_TRY(split(t, batch, false, &s));
    t->evaluation.step = t->step;
    weigh(t, batch, &s, &t->evaluation);
    COPSE_TRY(begin(t, t->step + 1, false, batch, &s));
    COPSE_TRY(replay(t, &s, 0, true, &t->evaluation, t->evaluation.tickets));
    COPSE_TRY(copse__slot_wait(t, &t->evaluation, COPSE_WAIT_NS));
    copse__slot_result(t, &t->evaluation, out);
    return COPSE_OK;
}

void copse_trainer_cancel(copse_trainer *t)
{
    atomic_store(&t->is_cancelled, true);
}
