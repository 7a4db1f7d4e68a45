/* SPDX-License-Identifier: MIT */
/* Functions of the application that the library is calling: a stack per thread; each entry is on
   the stack frame of the caller. Only this file decides which library calls such a function may
   make; docs/callbacks.md states the rule for applications. */
#ifndef COPSE_CALLBACK_H
#define COPSE_CALLBACK_H

#include "core/base/base.h"

#define COPSE_CALLBACK_OBJECTS 3
#define COPSE_CALLBACK_HELD    3

struct copse_callback {
    const char *name; /* "the loss function of a trainer" */
    /* it only builds or computes: it may not call functions that run, change or wait for
       anything */
    bool is_passive;
    const void *used[COPSE_CALLBACK_OBJECTS]; /* objects of the call in progress; or NULL */
    /* objects that the call in progress needs afterwards, and that the function may use, but not
       release; or NULL */
    const void *held[COPSE_CALLBACK_HELD];
    struct copse_callback *outer;
    const char *refused; /* a refused call inside that returns no status; or NULL */
};

/* Called before and after the application's function. Leave returns `s`, or COPSE_ERR_CONTEXT if a
   call without a status was refused inside. */
void copse__callback_enter(struct copse_callback *c);
copse_status copse__callback_leave(struct copse_callback *c, copse_status s);
/* The status of `call`, which is evaluated between both. */
#define copse_callback_call(c, call) (copse__callback_enter(c), copse__callback_leave(c, call))

/* The innermost entry of this thread; on a thread that works for a waiting thread, the entry of
   that thread. */
struct copse_callback *copse__callback_top(void);
void copse__callback_inherit(struct copse_callback *top);

/* COPSE_ERR_CONTEXT if the thread is in a passive function, or in a function called during a call
   on `object`; the text names the public function `call` and the function of the application.
   `object` may be NULL. */
copse_status copse__callback_check(const char *call, const void *object);
/* The same for a call without a status: true if it is legal. Otherwise the refusal is logged, and
   the copse__callback_leave of the function fails. */
bool copse__callback_allows(const struct copse_logger *log, const char *call, const void *object);
/* The same for the release of `object`, which only a call in progress that uses or holds it
   forbids. */
bool copse__callback_may_release(const struct copse_logger *log, const char *call,
                                 const void *object);

#endif
