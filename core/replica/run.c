/* SPDX-License-Identifier: MIT */
/* Running a function on every replica: one thread each, strictly one after the other up to the next
   meeting. A thread waits only for its turn, which the caller gives to each one in every round; the
   caller waits only for a function of the application, as if it had called it. */
#include "core/replica/run.h"

#define CALLER UINT32_MAX

struct member {
    struct copse_frame frame;
    struct copse_run *run;
    struct copse_meeting *meeting; /* what it waits for, NULL while it runs */
    copse_value *result;
    copse_thread thread;
    copse_cond turn_cond;
    uint32_t meetings;
    bool has_cond, is_started, is_done;
};

struct copse_run {
    copse_strategy *strategy;
    copse_replica_fn *fn;
    copse_value *const *args;
    size_t count;
    void *user;
    struct copse_frame *caller;
    struct copse_callback *callbacks; /* of the caller's thread */
    struct { copse_variable **at; size_t count, room; } created;
    copse_mutex lock;
    copse_cond caller_cond;
    uint32_t turn; /* who runs: a rank, or CALLER */
    copse_status status; /* the first error, which ends all replicas, and its text */
    char text[COPSE_ERROR_BYTES];
    struct member members[COPSE_MAX_REPLICAS];
};

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

const struct copse_frame *copse__run_frame(const struct copse_run *run, uintptr_t handle)
{
    for (uint32_t r = 0; r < run->strategy->replica_count; r++)
        if (run->members[r].frame.handle == handle)
            return &run->members[r].frame;
    return NULL;
}

/* ---- variables made by replicas ---- */

copse_status copse__run_variable(struct copse_frame *f, const char *name, copse_variable **out)
{
    *out = NULL;
    if (f->rank == 0)
        return COPSE_OK;
    const struct copse_run *run = f->run;
    const uint32_t at = f->created;
    if (at >= run->created.count)
        return copse_fail(COPSE_ERR_CONTEXT, "variable '%s': replica %u asks for its variable number %u, "
                                             "but replica 0 has made %zu",
                          name, f->rank, at + 1, run->created.count);
    if (strcmp(run->created.at[at]->name, name) != 0)
        return copse_fail(COPSE_ERR_CONTEXT, "variable '%s': replica %u asks for this name where replica "
                                             "0 made '%s'; all replicas make the same ones in one order",
                          name, f->rank, run->created.at[at]->name);
    f->created++;
    *out = run->created.at[at];
    return COPSE_OK;
}

copse_status copse__run_created(struct copse_frame *f, copse_variable *v)
{
    if (!COPSE_PUSH(&f->strategy->ctx->base.mem, &f->run->created, v))
        return copse_fail(COPSE_ERR_NO_MEMORY, "variable '%s': no memory", v->name);
    return COPSE_OK;
}

/* ---- a replica ---- */

/* The function's arguments as this replica sees them. */
static copse_status call(struct copse_run *run, struct member *m)
{
    copse_value *args[COPSE_MAX_ARGUMENTS] = { 0 };
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < run->count && s == COPSE_OK; i++)
        if (run->args[i])
            s = copse_note(copse__select_replica(run->args[i], m->frame.rank, &args[i]),
                           "in argument %zu of a run", i);
    if (s == COPSE_OK)
        s = run->fn((copse_replica_context *)m->frame.handle, args, run->count, run->user,
                    &m->result);
    for (size_t i = 0; i < run->count; i++)
        copse_value_release(&args[i]);
    return s;
}

/* With the lock: hand the turn over and wait until it comes back. */
static void pass(struct copse_run *run, struct member *m)
{
    run->turn = CALLER;
    copse__cond_signal_all(&run->caller_cond);
    while (run->turn != m->frame.rank)
        copse__cond_wait(&m->turn_cond, &run->lock, UINT64_MAX);
}

static void replica_main(void *arg)
{
    struct member *m = arg;
    struct copse_run *run = m->run;
    copse__context_start_replica(&m->frame, run->strategy, m->frame.rank, run->caller);
    copse__callback_inherit(run->callbacks);
    m->frame.run = run;
    copse_status s = call(run, m);
    s = copse_note(copse__context_pop(&m->frame, s), "in replica %u", m->frame.rank);

    copse__mutex_lock(&run->lock);
    end(run, s);
    m->is_done = true;
    run->turn = CALLER;
    copse__cond_signal_all(&run->caller_cond);
    copse__mutex_unlock(&run->lock);
}

/* ---- the caller ---- */

/* Let a replica run up to its next meeting or its end. */
static void give_turn(struct copse_run *run, struct member *m)
{
    copse__mutex_lock(&run->lock);
    run->turn = m->frame.rank;
    if (!m->is_started) {
        const copse_status s = copse__thread_start(&m->thread, replica_main, m);
        if (s != COPSE_OK) {
            end(run, s);
            m->is_done = true;
            run->turn = CALLER;
        }
        m->is_started = s == COPSE_OK;
    } else {
        copse__cond_signal_all(&m->turn_cond);
    }
    while (run->turn != CALLER)
        copse__cond_wait(&run->caller_cond, &run->lock, UINT64_MAX);
    copse__mutex_unlock(&run->lock);
}

static copse_status not_together(const struct member *a, const struct member *b)
{
    const struct member *waits = a->meeting ? a : b, *returned = a->meeting ? b : a;
    return copse_fail(COPSE_ERR_CONTEXT, "run: replica %u returned after %u merge calls, where replica %u "
                                         "waits in %s, its number %u; all must make the same ones",
                      returned->frame.rank, returned->meetings, waits->frame.rank,
                      waits->meeting->what, waits->meetings);
}

static copse_status not_the_same(const struct member *a, const struct member *b)
{
    const struct copse_meeting *m = a->meeting, *n = b->meeting;
    if (m->count != n->count)
        return copse_fail(COPSE_ERR_SHAPE, "run: %s of %zu arguments in replica 0, of %zu in replica %u",
                          m->what, m->count, n->count, b->frame.rank);
    return copse_fail(COPSE_ERR_CONTEXT, "run: replica 0 waits in %s, replica %u in %s%s; all must make "
                                         "the same calls",
                      m->what, b->frame.rank, n->what,
                      strcmp(m->what, n->what) == 0 ? " of something else" : "");
}

/* Whether all replicas have returned, once each had its turn. */
static copse_status compare(const struct copse_run *run, bool *all_done)
{
    const struct member *first = &run->members[0];
    *all_done = first->is_done;
    for (uint32_t r = 1; r < run->strategy->replica_count; r++) {
        const struct member *m = &run->members[r];
        if (m->is_done != first->is_done)
            return not_together(first, m);
        if (!m->is_done && (m->meeting->count != first->meeting->count ||
                            m->meeting->subject != first->meeting->subject ||
                            strcmp(m->meeting->what, first->meeting->what) != 0))
            return not_the_same(first, m);
    }
    return COPSE_OK;
}

static void release_all(copse_value **values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        copse_value_release(&values[i]);
}

/* Replica 0's merge function runs, its result is split. */
static copse_status merge(struct copse_run *run)
{
    copse_strategy *st = run->strategy;
    const struct copse_meeting *first = run->members[0].meeting;
    copse_value *args[COPSE_MAX_ARGUMENTS] = { 0 }, *result = NULL;
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < first->count && s == COPSE_OK; i++) {
        copse_value *values[COPSE_MAX_REPLICAS];
        for (uint32_t r = 0; r < st->replica_count; r++)
            values[r] = run->members[r].meeting->args[i];
        s = copse_note(copse__regroup(st, COPSE_VALUE_PER_REPLICA, values, NULL, st->replica_count,
                                      &args[i]),
                       "in argument %zu of %s", i, first->what);
    }
    if (s == COPSE_OK) {
        struct copse_frame frame;
        copse__context_push_cross(&frame, st, COPSE_HOST);
        frame.run = run;
        s = first->fn(st, args, first->count, first->user, &result);
        s = copse_note(copse__context_pop(&frame, s), "in %s", first->what);
    }
    for (uint32_t r = 0; r < st->replica_count && s == COPSE_OK && result; r++)
        s = copse__select_replica(result, r, &run->members[r].meeting->result);
    release_all(args, first->count);
    copse_value_release(&result);
    return s;
}

/* Rounds until all have returned. After an error those that wait get it, and so return too. */
static void run_rounds(struct copse_run *run)
{
    const uint32_t count = run->strategy->replica_count;
    bool all_done = false;
    while (!all_done && run->status == COPSE_OK) {
        for (uint32_t r = 0; r < count && run->status == COPSE_OK; r++)
            give_turn(run, &run->members[r]);
        if (run->status == COPSE_OK)
            end(run, compare(run, &all_done));
        if (run->status == COPSE_OK && !all_done)
            end(run, merge(run));
    }
    for (uint32_t r = 0; r < count; r++)
        if (run->members[r].is_started) {
            if (!run->members[r].is_done)
                give_turn(run, &run->members[r]);
            copse__thread_join(&run->members[r].thread);
        }
}

static copse_status run_threads(struct copse_run *run)
{
    const uint32_t count = run->strategy->replica_count;
    copse_status s = copse__mutex_init(&run->lock);
    if (s != COPSE_OK)
        return s;
    const copse_status has_cond = s = copse__cond_init(&run->caller_cond);
    for (uint32_t r = 0; r < count && s == COPSE_OK; r++) {
        s = copse__cond_init(&run->members[r].turn_cond);
        run->members[r].has_cond = s == COPSE_OK;
    }
    if (s == COPSE_OK) {
        run->turn = CALLER;
        run_rounds(run);
        s = first_error(run);
    }
    for (uint32_t r = 0; r < count; r++)
        if (run->members[r].has_cond)
            copse__cond_fini(&run->members[r].turn_cond);
    if (has_cond == COPSE_OK)
        copse__cond_fini(&run->caller_cond);
    copse__mutex_fini(&run->lock);
    return s;
}

/* One replica needs no thread. */
static copse_status run_alone(struct copse_run *run)
{
    struct member *m = &run->members[0];
    copse__context_push_replica(&m->frame, run->strategy, 0);
    m->frame.run = run;
    return copse__context_pop(&m->frame, call(run, m));
}

static copse_status take_result(struct copse_run *run, copse_value **result)
{
    copse_strategy *st = run->strategy;
    copse_value *values[COPSE_MAX_REPLICAS];
    if (st->replica_count == 1) {
        *result = run->members[0].result;
        run->members[0].result = NULL;
        return COPSE_OK;
    }
    for (uint32_t r = 0; r < st->replica_count; r++)
        values[r] = run->members[r].result;
    return copse__regroup(st, COPSE_VALUE_PER_REPLICA, values, NULL, st->replica_count, result);
}

copse_status copse__check_arguments(const char *what, copse_value *const *args, size_t count)
{
    if (count > 0)
        COPSE_TRY(copse_need(what, args));
    return count <= COPSE_MAX_ARGUMENTS ? COPSE_OK
                                        : copse_fail(COPSE_ERR_ARGUMENT, "%s: %zu arguments; at most %d are possible",
                                                     what, count, COPSE_MAX_ARGUMENTS);
}

copse_status copse_strategy_run(copse_strategy *st, copse_replica_fn *fn, copse_value *const *args,
                                size_t count, void *user, copse_value **result)
{
    if (result)
        *result = NULL;
    COPSE_TRY(copse_need("run", st, fn));
    COPSE_TRY(copse__check_arguments("run", args, count));
    COPSE_TRY(copse__require_cross(st, "run"));
    for (size_t i = 0; i < count; i++) /* before the first replica runs */
        if (args[i])
            COPSE_TRY(copse_note(copse__check_components(args[i], st->replica_count), "in argument %zu of a run", i));
    struct copse_run run = { .strategy = copse_strategy_retain(st), .fn = fn, .args = args,
                             .count = count, .user = user, .caller = copse__context_top(),
                             .callbacks = copse__callback_top() };
    for (uint32_t r = 0; r < st->replica_count; r++) {
        run.members[r].run = &run;
        run.members[r].frame.rank = r;
    }
    copse_status s = st->replica_count == 1 ? run_alone(&run) : run_threads(&run);
    copse_value *all = NULL;
    if (s == COPSE_OK)
        s = take_result(&run, &all);
    for (uint32_t r = 0; r < st->replica_count; r++)
        copse_value_release(&run.members[r].result);
    if (result)
        *result = all;
    else
        copse_value_release(&all);
    if (run.created.at)
        copse__free(&st->ctx->base.mem, run.created.at);
    copse_strategy_release(&st);
    return s;
}

/* ---- meetings ---- */

/* With one replica there is nobody to wait for, and nothing to regroup. */
static copse_status meet_alone(copse_strategy *st, struct copse_run *run, struct copse_meeting *m)
{
    copse_value *result = NULL;
    struct copse_frame frame;
    copse__context_push_cross(&frame, st, COPSE_HOST);
    frame.run = run;
    copse_status s = m->fn(st, m->args, m->count, m->user, &result);
    s = copse__context_pop(&frame, s);
    if (s == COPSE_OK && result)
        s = copse__select_replica(result, 0, &m->result);
    copse_value_release(&result);
    return s;
}

copse_status copse__meet(copse_replica_context *rc, struct copse_meeting *m)
{
    COPSE_TRY(copse_require_replica(rc));
    const struct copse_frame *f = copse__context_top();
    if (f && f->is_graph)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "replica %u on %s: %s inside a loss function, which builds a graph and runs "
                          "once for all steps; use copse_all_reduce there",
                          f->rank, copse_replica_device(rc), m->what);
    COPSE_TRY(copse__callback_check(m->what, NULL));
    if (!f || f->strategy->replica_count == 1)
        return meet_alone(copse_current_strategy(), f ? f->run : NULL, m);

    struct copse_run *run = f->run;
    struct member *self = &run->members[f->rank];
    if (run->status != COPSE_OK)
        return first_error(run);
    self->meetings++;
    copse__mutex_lock(&run->lock);
    self->meeting = m;
    pass(run, self);
    self->meeting = NULL;
    copse__mutex_unlock(&run->lock);
    if (run->status != COPSE_OK) {
        copse_value_release(&m->result);
        return first_error(run);
    }
    return COPSE_OK;
}

copse_status copse_merge_call(copse_replica_context *rc, copse_merge_fn *fn,
                              copse_value *const *args, size_t count, void *user,
                              copse_value **result)
{
    if (result)
        *result = NULL;
    COPSE_TRY(copse_need("merge call", fn));
    COPSE_TRY(copse__check_arguments("merge call", args, count));
    struct copse_meeting m = { .what = "a merge call", .fn = fn, .user = user, .args = args,
                               .count = count };
    COPSE_TRY(copse__meet(rc, &m));
    if (result)
        *result = m.result;
    else
        copse_value_release(&m.result);
    return COPSE_OK;
}
