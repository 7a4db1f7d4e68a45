/* SPDX-License-Identifier: MIT */
/* The stack of the application's functions that the thread is executing. */
#include "core/base/callback.h"

#include "core/base/platform.h"

static COPSE_THREAD_LOCAL struct copse_callback *top;

void copse__callback_enter(struct copse_callback *c)
{
    c->outer = top;
    c->refused = NULL;
    top = c;
}

copse_status copse__callback_leave(struct copse_callback *c, copse_status s)
{
    top = c->outer;
    if (s == COPSE_OK && c->refused)
        return copse_fail(COPSE_ERR_CONTEXT,
                          "%s: called in %s, on an object that is in use; the call had no effect",
                          c->refused, c->name);
    return s;
}

struct copse_callback *copse__callback_top(void)
{
    return top;
}

void copse__callback_inherit(struct copse_callback *outer)
{
    top = outer;
}

static copse_status check_use(const char *call, const void *object)
{
    for (const struct copse_callback *c = top; c && object; c = c->outer)
        for (size_t i = 0; i < COPSE_CALLBACK_OBJECTS; i++)
            if (c->used[i] == object)
                return copse_fail(COPSE_ERR_CONTEXT,
                                  "%s: called in %s, while a call on the same object is in "
                                  "progress; call it when that has returned",
                                  call, top->name);
    return COPSE_OK;
}

copse_status copse__callback_check(const char *call, const void *object)
{
    COPSE_TRY(check_use(call, object));
    for (const struct copse_callback *c = top; c; c = c->outer)
        if (c->is_passive)
            return copse_fail(COPSE_ERR_CONTEXT,
                              "%s: called in %s, which only builds or computes; call it when the "
                              "call that runs this function has returned",
                              call, top->name);
    return COPSE_OK;
}

static bool callback_report(const struct copse_logger *log, const char *call, copse_status s)
{
    if (s == COPSE_OK)
        return true;
    copse__log(log, COPSE_LOG_ERROR, "%s; it had no effect", copse_last_error());
    top->refused = call;
    return false;
}

bool copse__callback_allows(const struct copse_logger *log, const char *call, const void *object)
{
    return callback_report(log, call, copse__callback_check(call, object));
}

static copse_status check_release(const char *call, const void *object)
{
    COPSE_TRY(check_use(call, object));
    for (const struct copse_callback *c = top; c && object; c = c->outer)
        for (size_t i = 0; i < COPSE_CALLBACK_HELD; i++)
            if (c->held[i] == object)
                return copse_fail(
                    COPSE_ERR_CONTEXT,
                    "%s: called in %s, and the call in progress needs the object; release it "
                    "when that has returned",
                    call, c->name);
    return COPSE_OK;
}

bool copse__callback_may_release(const struct copse_logger *log, const char *call,
                                 const void *object)
{
    return callback_report(log, call, check_release(call, object));
}
