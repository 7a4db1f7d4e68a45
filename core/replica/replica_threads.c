/* SPDX-License-Identifier: MIT */
/* The threads of a run. A thread waits only for its turn, which the caller gives to each one in
   every round; the caller waits only for a function of the application, as if it had called it. */
#include "core/replica/replica_threads.h"

#define CALLER UINT32_MAX

/* ---- threads of a strategy: a list of idle ones ---- */

struct copse_replica_thread {
    copse_thread thread;
    copse_mutex lock;
    copse_cond changed; /* `job` or `is_ended` */
    struct copse_run_replica *job;
    bool is_ended;
    struct copse_replica_thread *next;
};

static void replica_main(struct copse_run_replica *self);

static void thread_main(void *arg)
{
    struct copse_replica_thread *t = arg;
    copse__mutex_lock(&t->lock);
    while (!t->is_ended) {
        if (t->job) {
            copse__mutex_unlock(&t->lock);
            replica_main(t->job);
            copse__mutex_lock(&t->lock);
            t->job = NULL;
            copse__cond_signal_all(&t->changed);
        } else {
            copse__cond_wait(&t->changed, &t->lock, UINT64_MAX);
        }
    }
    copse__mutex_unlock(&t->lock);
}

static copse_status thread_make(struct copse_mem *mem, struct copse_replica_thread **out)
{
    struct copse_replica_thread *t = copse__alloc(mem, 1, sizeof *t);
    COPSE_TRY(copse_need_memory(t, "run"));
    copse_status s = copse__mutex_init(&t->lock);
    if (s == COPSE_OK && (s = copse__cond_init(&t->changed)) != COPSE_OK)
        copse__mutex_fini(&t->lock);
    if (s == COPSE_OK && (s = copse__thread_start(&t->thread, thread_main, t)) != COPSE_OK) {
        copse__cond_fini(&t->changed);
        copse__mutex_fini(&t->lock);
    }
    if (s != COPSE_OK) {
        copse__free(mem, t);
        return s;
    }
    *out = t;
    return COPSE_OK;
}

/* An idle thread, or a new one, begins the job. */
static copse_status thread_begin(copse_strategy *st, struct copse_run_replica *job)
{
    struct copse_replica_thread *t = st->idle_threads;
    if (t)
        st->idle_threads = t->next;
    else
        COPSE_TRY(thread_make(&st->ctx->base.mem, &t));
    job->thread = t;
    copse__mutex_lock(&t->lock);
    t->job = job;
    copse__cond_signal_all(&t->changed);
    copse__mutex_unlock(&t->lock);
    return COPSE_OK;
}

/* The job has returned: the thread is idle. */
static void thread_finish(copse_strategy *st, struct copse_run_replica *job)
{
    struct copse_replica_thread *t = job->thread;
    copse__mutex_lock(&t->lock);
    while (t->job)
        copse__cond_wait(&t->changed, &t->lock, UINT64_MAX);
    copse__mutex_unlock(&t->lock);
    t->next = st->idle_threads;
    st->idle_threads = t;
}

void copse__replica_threads_end(copse_strategy *st)
{
    struct copse_replica_thread *t;
    while ((t = st->idle_threads)) {
        st->idle_threads = t->next;
        copse__mutex_lock(&t->lock);
        t->is_ended = true;
        copse__cond_signal_all(&t->changed);
        copse__mutex_unlock(&t->lock);
        copse__thread_join(&t->thread);
        copse__cond_fini(&t->changed);
        copse__mutex_fini(&t->lock);
        copse__free(&st->ctx->base.mem, t);
    }
}

/* ---- a run ---- */

/* Keep the first error with the text of the thread that it happened in. */
static void replica_threads_end(struct copse_run *run, copse_status s)
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
static void replica_threads_pass(struct copse_run *run, uint32_t next, uint32_t self)
{
    run->turn = next;
    copse__cond_signal_all(&run->turn_cond);
    while (run->turn != self)
        copse__cond_wait(&run->turn_cond, &run->lock, UINT64_MAX);
}

/* ---- a replica ---- */

static copse_status call_replica(struct copse_run_replica *self)
{
    struct copse_run *run = self->run;
    self->frame.run = run;
    const copse_status s = run->call(run, self->frame.rank);
    const copse_status left = copse__context_pop(&self->frame, s);
    const struct copse_group *g = &run->strategy->group;
    return g->ranks > 1 ? copse_note(left, "in replica %u", g->first + self->frame.rank) : left;
}

static void replica_main(struct copse_run_replica *self)
{
    struct copse_run *run = self->run;
    copse__context_push_replica(&self->frame, run->strategy, self->frame.rank);
    self->frame.outer = run->caller;
    copse__callback_inherit(run->callbacks);
    const copse_status s = call_replica(self);

    copse__mutex_lock(&run->lock);
    replica_threads_end(run, s);
    self->is_done = true;
    run->turn = CALLER;
    copse__cond_signal_all(&run->turn_cond);
    copse__mutex_unlock(&run->lock);
}

/* ---- the caller ---- */

/* A replica on the caller's thread, to its end. */
static void run_here(struct copse_run *run, struct copse_run_replica *self)
{
    run->here = self->frame.rank;
    copse__context_push_replica(&self->frame, run->strategy, self->frame.rank);
    replica_threads_end(run, call_replica(self));
    self->is_done = true;
    run->here = CALLER;
}

static copse_status make_lock(struct copse_run *run)
{
    if (run->has_lock)
        return COPSE_OK;
    COPSE_TRY(copse__mutex_init(&run->lock));
    const copse_status s = copse__cond_init(&run->turn_cond);
    if (s != COPSE_OK)
        copse__mutex_fini(&run->lock);
    run->has_lock = s == COPSE_OK;
    return s;
}

/* Let a replica run on its thread up to its next merge call or its end. */
static void give_turn(struct copse_run *run, struct copse_run_replica *self)
{
    copse_status s = make_lock(run);
    if (s == COPSE_OK) {
        copse__mutex_lock(&run->lock);
        if (!self->thread)
            s = thread_begin(run->strategy, self);
        if (s == COPSE_OK)
            replica_threads_pass(run, self->frame.rank, CALLER);
        copse__mutex_unlock(&run->lock);
    }
    replica_threads_end(run, s);
    self->is_done |= s != COPSE_OK;
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
static copse_status replica_threads_compare(const struct copse_run *run, bool *all_done)
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

/* A replica waits on the caller's thread: the others come to the same merge call on theirs, and the
   merge is made. Those before it have returned, so that only replica 0 can go on. */
static void meet_here(struct copse_run *run)
{
    bool all_done;
    for (uint32_t r = run->here + 1; r < run->strategy->replica_count && run->status == COPSE_OK;
         r++)
        give_turn(run, &run->replicas[r]);
    if (run->status == COPSE_OK)
        replica_threads_end(run, replica_threads_compare(run, &all_done));
    if (run->status == COPSE_OK)
        replica_threads_end(run, run->merge(run));
}

/* Those on threads that wait in a merge call where others have returned, or after an error, get the
   error there, and so return too. */
static void run_all(struct copse_run *run)
{
    const uint32_t count = run->strategy->replica_count;
    bool all_done;
    for (uint32_t r = 0; r < count && run->status == COPSE_OK; r++)
        if (run->replicas[r].thread)
            give_turn(run, &run->replicas[r]);
        else
            run_here(run, &run->replicas[r]);
    if (run->status == COPSE_OK)
        replica_threads_end(run, replica_threads_compare(run, &all_done));
    for (uint32_t r = 0; r < count; r++)
        if (run->replicas[r].thread) {
            if (!run->replicas[r].is_done)
                give_turn(run, &run->replicas[r]);
            thread_finish(run->strategy, &run->replicas[r]);
        }
}

copse_status copse__run_replicas(struct copse_run *run)
{
    for (uint32_t r = 0; r < run->strategy->replica_count; r++) {
        run->replicas[r].run = run;
        run->replicas[r].frame.rank = r;
    }
    run->turn = CALLER;
    run_all(run);
    if (run->has_lock) {
        copse__cond_fini(&run->turn_cond);
        copse__mutex_fini(&run->lock);
    }
    if (run->created.at)
        copse__free(&run->strategy->ctx->base.mem, run->created.at);
    return first_error(run);
}

copse_status copse__run_wait(struct copse_run *run, uint32_t rank, struct copse_merge *m)
{
    struct copse_run_replica *self = &run->replicas[rank];
    if (run->status != COPSE_OK)
        return first_error(run);
    self->merges++;
    self->merge = m;
    if (run->here == rank) {
        meet_here(run);
    } else {
        copse__mutex_lock(&run->lock);
        replica_threads_pass(run, CALLER, rank);
        copse__mutex_unlock(&run->lock);
    }
    self->merge = NULL;
    return first_error(run);
}
