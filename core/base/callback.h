/* SPDX-License-Identifier: MIT */
/* Functions of the application that the library is calling: a stack per thread, each entry in the block of the call
   that entered it. The one place that decides which calls such a function may make; docs/callbacks.md has the
   rule for the application. */
#ifndef COPSE_CALLBACK_H
#define COPSE_CALLBACK_H

#include "core/base/base.h"

#define COPSE_CALLBACK_OBJECTS 2

struct copse_callback {
    const char *name;  /* "the loss function of a trainer" */
    bool is_passive;   /* it only builds or computes: it makes no call that runs, changes or waits for something */
    const void *used[COPSE_CALLBACK_OBJECTS]; /* what the call in progress works on; or NULL */
    struct copse_callback *outer;
    const char *refused; /* a call without a status that was refused inside; or NULL */
};

/* Around the call of the application's function. Leaving returns `s`, or COPSE_ERR_CONTEXT where a call that returns
   nothing was refused inside. */
void copse__callback_enter(struct copse_callback *c);
copse_status copse__callback_leave(struct copse_callback *c, copse_status s);

/* The innermost entry of this thread, and on a thread that runs for a waiting one, what that one is in. */
struct copse_callback *copse__callback_top(void);
void copse__callback_inherit(struct copse_callback *top);

/* COPSE_ERR_CONTEXT where the thread is in a passive function, or in a function of a call in progress on `object`;
   the text names the public function `call` and where the thread is. `object` may be NULL. */
copse_status copse__callback_check(const char *call, const void *object);
/* The same for a call that returns nothing: true when it is legal; else the refusal is logged, and the function's
   caller fails (copse__callback_leave). */
bool copse__callback_allows(const struct copse_logger *log, const char *call, const void *object);
/* The same for the release of `object`, which only a call in progress on it forbids. */
bool copse__callback_may_release(const struct copse_logger *log, const char *call, const void *object);

#endif
