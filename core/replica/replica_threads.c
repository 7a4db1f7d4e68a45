/* SPDX-License-Identifier: MIT */
/* The threads of a run. A thread waits only for its turn, which the caller gives to each one in
   every round; the caller waits only for a function of the application, as if it had called it. */
#include "core/replica/replica_threads.h"

#define CALLER UINT32_MAX

/* Keep the first error with the text of the thread that it happened in. */
static void end(struct copse_run *run, copse_status s)
{
    if (run->status != COPSE_OK || s == COPSE_OK)
        return;
    run->status = s;
    strncpy(run->text, copse_last_error(), sizeof run->text - 1);
}

static copse_status first_error(const struct copse_run *run)
{
    if (run->status != COPSE_OK)
        copse__fail_again(run->text);
    return run->status;
}

/* With the lock: `next` runs, and this thread waits until it is the turn of `self`. */
static void pass(struct copse_run *run, uint32_t next, uint32_t self)
{
    run->turn = next;
    copse__cond_signal_all(&run->turn_cond);
    while (run->turn != self)
        copse__cond_wait(&run->turn_cond, &run->lock, UINT64_MAX);
}

/* ---- a replica ---- */

static void replica_main(void *arg)
{
    struct copse_run_replica *self = arg;
    struct copse_run *run = self->run;
    copse__context_push_replica(&self->frame, run->strategy, self->frame.rank);
    self->frame.outer = run->caller;
    copse__callback_inherit(run->callbacks);
    self->frame.run = run;
    copse_status s = run->call(run, self->frame.rank);
    s = copse_note(copse__context_pop(&self->frame, s), "in replica %u", self->frame.rank);

    copse__mutex_lock(&run->lock);
    end(run, s);
    self->is_done = true;
    run->turn = CALLER;
    copse__cond_signal_all(&run->turn_cond);
    copse__mutex_unlock(&run->lock);
}

/* ---- the caller ---- */

/* Let a replica run up to its next merge call or its end. */
static void give_turn(struct copse_run *run, struct copse_run_replica *self)
{
    copse__mutex_lock(&run->lock);
    if (!self->is_started) {
        const copse_status s = copse__thread_start(&self->thread, replica_main, self);
        end(run, s);
        self->is_started = s == COPSE_OK;
        self->is_done = !self->is_started;
    }
    if (self->is_started)
        pass(run, self->frame.rank, CALLER);
    copse__mutex_unlock(&run->lock);
}

static copse_status not_together(const struct copse_run_replica *a,
                                 const struct copse_run_replica *b)
{
    const struct copse_run_replica *waits = a->merge ? a : b, *returned = a->merge ? b : a;
    return copse_fail(COPSE_ERR_CONTEXT,
                      "run: replica %u returned after %u merge calls, where replica %u "
                      "waits in %s, its number %u; all must make the same ones",
                      returned->frame.rank, returned->merges, waits->frame.rank, waits->merge->what,
                      waits->merges);
}

static copse_status not_the_same(const struct copse_run_replica *a,
                                 const struct copse_run_replica *b)
{
    const struct copse_merge *m = a->merge, *n = b->merge;
    if (m->count != n->count)
        return copse_fail(COPSE_ERR_SHAPE,
                          "run: %s of %zu arguments in replica 0, of %zu in replica %u", m->what,
                          m->count, n->count, b->frame.rank);
    return copse_fail(
        COPSE_ERR_CONTEXT,
        "run: replica 0 waits in %s, replica %u in %s%s; all must make the same calls", m->what,
        b->frame.rank, n->what, strcmp(m->what, n->what) == 0 ? " of something else" : "");
}

/* Whether all replicas have returned, once each had its turn. */
static copse_status compare(const struct copse_run *run, bool *all_done)
{
    const struct copse_run_replica *first = &run->replicas[0];
    *all_done = first->is_done;
    for (uint32_t r = 1; r < run->strategy->replica_count; r++) {
        const struct copse_run_replica *m = &run->replicas[r];
        if (m->is_done != first->is_done)
            return not_together(first, m);
        if (!m->is_done &&
            (m->merge->count != first->merge->count || m->merge->subject != first->merge->subject ||
             strcmp(m->merge->what, first->merge->what) != 0))
            return not_the_same(first, m);
    }
    return COPSE_OK;
}

/* Rounds until all have returned. After an error those that wait get it, and so return too. */
static void run_rounds(struct copse_run *run)
{
    const uint32_t count = run->strategy->replica_count;
    bool all_done = false;
    while (!all_done && run->status == COPSE_OK) {
        for (uint32_t r = 0; r < count && run->status == COPSE_OK; r++)
            give_turn(run, &run->replicas[r]);
        if (run->status == COPSE_OK)
            end(run, compare(run, &all_done));
        if (run->status == COPSE_OK && !all_done)
            end(run, run->merge(run));
    }
    for (uint32_t r = 0; r < count; r++)
        if (run->replicas[r].is_started) {
            if (!run->replicas[r].is_done)
                give_turn(run, &run->replicas[r]);
            copse__thread_join(&run->replicas[r].thread);
        }
}

static copse_status run_threads(struct copse_run *run)
{
    COPSE_TRY(copse__mutex_init(&run->lock));
    copse_status s = copse__cond_init(&run->turn_cond);
    if (s == COPSE_OK) {
        run->turn = CALLER;
        run_rounds(run);
        s = first_error(run);
        copse__cond_fini(&run->turn_cond);
    }
    copse__mutex_fini(&run->lock);
    return s;
}

/* One replica needs no thread. */
static copse_status run_alone(struct copse_run *run)
{
    struct copse_frame *frame = &run->replicas[0].frame;
    copse__context_push_replica(frame, run->strategy, 0);
    frame->run = run;
    return copse__context_pop(frame, run->call(run, 0));
}

copse_status copse__run_replicas(struct copse_run *run)
{
    const uint32_t count = run->strategy->replica_count;
    for (uint32_t r = 0; r < count; r++) {
        run->replicas[r].run = run;
        run->replicas[r].frame.rank = r;
    }
    const copse_status s = count == 1 ? run_alone(run) : run_threads(run);
    if (run->created.at)
        copse__free(&run->strategy->ctx->base.mem, run->created.at);
    return s;
}

copse_status copse__run_wait(struct copse_run *run, uint32_t rank, struct copse_merge *m)
{
    struct copse_run_replica *self = &run->replicas[rank];
    if (run->status != COPSE_OK)
        return first_error(run);
    self->merges++;
    copse__mutex_lock(&run->lock);
    self->merge = m;
    pass(run, CALLER, rank);
    self->merge = NULL;
    copse__mutex_unlock(&run->lock);
    return first_error(run);
}
