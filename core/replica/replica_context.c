/* SPDX-License-Identifier: MIT */
/* The stack of contexts of a thread, scopes, and the properties of replica contexts. */
#include <stdio.h>

#include "core/replica/replica_threads.h"

/* A handle is no address: one that is kept too long matches nothing, and is never followed. Its
   upper bits differ between strategies, so that messages can describe a wrong one. */
#define NUMBER_BITS    (sizeof(uintptr_t) * 5) /* of 8 */
#define DEFAULT_HANDLE ((uintptr_t)1)

static atomic_ullong next_number = 2;

static COPSE_THREAD_LOCAL struct copse_frame *top;
static COPSE_THREAD_LOCAL struct copse_frame scope; /* scopes only open where nothing is */
static COPSE_THREAD_LOCAL bool in_default_scope;

static uintptr_t make_handle(const copse_strategy *st)
{
    const unsigned long long mask = ((unsigned long long)1 << NUMBER_BITS) - 1;
    const unsigned long long number =
        atomic_fetch_add_explicit(&next_number, 1, memory_order_relaxed) & mask;
    return (uintptr_t)st->serial << NUMBER_BITS | (uintptr_t)COPSE_MAX(number, 2);
}

/* ---- the stack ---- */

struct copse_frame *copse__context_top(void)
{
    return top;
}

void copse__context_push_replica(struct copse_frame *f, copse_strategy *st, uint32_t rank)
{
    *f = (struct copse_frame){ .outer = top,
                               .strategy = st,
                               .rank = rank,
                               .update_rank = COPSE_HOST,
                               .handle = make_handle(st),
                               .failures = copse__failures() };
    top = f;
}

void copse__context_push_cross(struct copse_frame *f, copse_strategy *st, uint32_t update_rank)
{
    *f = (struct copse_frame){
        .outer = top, .strategy = st, .update_rank = update_rank, .failures = copse__failures()
    };
    top = f;
}

copse_status copse__context_pop(struct copse_frame *f, copse_status s)
{
    top = f->outer;
    if (s == COPSE_OK && f->scopes > 0)
        return copse_fail(COPSE_ERR_CONTEXT,
                          "context: the function returned without leaving %u "
                          "scope%s that it entered",
                          f->scopes, f->scopes > 1 ? "s" : "");
    return copse__returned(s, f->failures);
}

const char *copse__context_place(void)
{
    static COPSE_THREAD_LOCAL char text[128];
    if (!top)
        return "outside of every strategy";
    const char *name = top->strategy->table->name;
    if (top->handle)
        snprintf(text, sizeof text, "in replica %u of the %s strategy", top->rank, name);
    else if (top->update_rank != COPSE_HOST)
        snprintf(text, sizeof text, "in an update function of the %s strategy", name);
    else
        snprintf(text, sizeof text, "in the cross-replica context of the %s strategy", name);
    return text;
}

copse_status copse__require_cross(copse_strategy *st, const char *what)
{
    if (!st)
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: the strategy is NULL", what);
    COPSE_TRY(copse__callback_check(what, st));
    if (!top || (!top->handle && top->strategy == st))
        return copse__strategy_settle(st);
    if (top->handle)
        return copse_fail(COPSE_ERR_CONTEXT,
                          "%s: called %s; it sees all replicas, and belongs into a merge "
                          "function (copse_merge_call)",
                          what, copse__context_place());
    return copse_fail(COPSE_ERR_CONTEXT,
                      "%s: called %s for another strategy; leave that scope first", what,
                      copse__context_place());
}

copse_status copse__require_no_replica(const char *call, const void *object)
{
    COPSE_TRY(copse__callback_check(call, object));
    return top && top->handle
               ? copse_fail(COPSE_ERR_CONTEXT,
                            "%s: called %s; it works on all replicas: call it when the function of "
                            "the replicas has returned, or in a merge function (copse_merge_call)",
                            call, copse__context_place())
               : COPSE_OK;
}

copse_status copse__require_device(const copse_strategy *st, const char *what)
{
    return st->ctx
               ? COPSE_OK
               : copse_fail(COPSE_ERR_UNSUPPORTED, "%s: the default strategy has no device", what);
}

/* ---- where am I? ---- */

copse_strategy *copse_current_strategy(void)
{
    return top ? top->strategy : &copse__default_strategy;
}

bool copse_has_strategy(void)
{
    return copse_current_strategy() != &copse__default_strategy;
}

copse_replica_context *copse_current_replica(void)
{
    return (copse_replica_context *)(top ? top->handle : DEFAULT_HANDLE);
}

copse_strategy *copse_current_cross_replica(void)
{
    return top && !top->handle ? top->strategy : NULL;
}

uint32_t copse_current_update_rank(void)
{
    return top ? top->update_rank : COPSE_HOST;
}

copse_status copse_require_replica(const copse_replica_context *rc)
{
    const copse_replica_context *now = copse_current_replica();
    if (rc == now && rc)
        return COPSE_OK;
    if (!now)
        return copse_fail(COPSE_ERR_CONTEXT, "context: the thread is in no replica context, but %s",
                          copse__context_place());
    if ((uintptr_t)rc >> NUMBER_BITS == (uintptr_t)now >> NUMBER_BITS)
        return copse_fail(COPSE_ERR_CONTEXT,
                          "context: this is another replica context of the same "
                          "strategy, or one whose call has ended; the thread is %s",
                          copse__context_place());
    return copse_fail(COPSE_ERR_CONTEXT,
                      "context: this is a replica context of another strategy; the "
                      "thread is %s",
                      copse__context_place());
}

/* ---- scope ---- */

copse_status copse_scope_enter(copse_strategy *st)
{
    if (!st)
        return copse_fail(COPSE_ERR_ARGUMENT, "scope: the strategy is NULL");
    if (top && top->handle)
        return copse_fail(COPSE_ERR_CONTEXT,
                          "scope: a scope is not entered in a replica; the thread "
                          "is %s",
                          copse__context_place());
    if (in_default_scope || (st == &copse__default_strategy && top))
        return copse_fail(COPSE_ERR_CONTEXT, "scope: the default strategy's scope does not nest");
    if (st == &copse__default_strategy) {
        in_default_scope = true;
        return COPSE_OK;
    }
    if (top && top->strategy != st)
        return copse_fail(COPSE_ERR_CONTEXT,
                          "scope: strategies do not mix; the thread is %s, which is "
                          "another one",
                          copse__context_place());
    if (!top) {
        copse__context_push_cross(&scope, st, COPSE_HOST);
        copse_strategy_retain(st);
    }
    top->scopes++;
    return COPSE_OK;
}

copse_status copse_scope_leave(copse_strategy *st)
{
    if (!st)
        return copse_fail(COPSE_ERR_ARGUMENT, "scope: the strategy is NULL");
    if (st == &copse__default_strategy && in_default_scope && !top) {
        in_default_scope = false;
        return COPSE_OK;
    }
    if (!top || top->handle || top->strategy != st || top->scopes == 0)
        return copse_fail(COPSE_ERR_CONTEXT,
                          "scope: this is not the innermost scope; the thread is %s",
                          copse__context_place());
    if (--top->scopes == 0 && top == &scope) {
        copse_strategy *held = scope.strategy;
        top = NULL;
        copse_strategy_release(&held);
    }
    return COPSE_OK;
}

/* ---- a replica ---- */

/* The frame of a replica that waits in a merge call of the run. */
static const struct copse_frame *find_waiting(const struct copse_run *run, uintptr_t handle)
{
    for (uint32_t r = 0; run && r < run->strategy->replica_count; r++)
        if (run->replicas[r].frame.handle == handle)
            return &run->replicas[r].frame;
    return NULL;
}

/* The frame of a context that this thread is in or, through merge functions and the threads that
   wait for it, was called from, or of the default context; NULL when its call has ended. */
static const struct copse_frame *replica_context_find(const copse_replica_context *rc)
{
    static const struct copse_frame default_frame = { .strategy = &copse__default_strategy };
    const uintptr_t handle = (uintptr_t)rc;
    if (handle == DEFAULT_HANDLE)
        return &default_frame;
    for (const struct copse_frame *f = top; f && handle; f = f->outer) {
        const struct copse_frame *found = f->handle == handle ? f : find_waiting(f->run, handle);
        if (found)
            return found;
    }
    return NULL;
}

uint32_t copse_replica_id(const copse_replica_context *rc)
{
    const struct copse_frame *f = replica_context_find(rc);
    return f ? f->strategy->group.first + f->rank : UINT32_MAX;
}

uint32_t copse_replica_count(const copse_replica_context *rc)
{
    const struct copse_frame *f = replica_context_find(rc);
    return f ? f->strategy->group.ranks : 0;
}

copse_strategy *copse_replica_strategy(const copse_replica_context *rc)
{
    const struct copse_frame *f = replica_context_find(rc);
    return f ? f->strategy : NULL;
}

const char *copse_replica_device(const copse_replica_context *rc)
{
    const struct copse_frame *f = replica_context_find(rc);
    if (!f)
        return "";
    return f->strategy == &copse__default_strategy ? "host"
                                                   : f->strategy->replicas[f->rank].dev->info.id;
}
