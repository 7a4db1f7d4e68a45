/* SPDX-License-Identifier: MIT */
/* Calls of one function by several threads: each takes the next index. */
#include "core/data/picture/parallel.h"

#include "core/base/base.h"
#include "core/base/platform.h"

struct work {
    copse_status (*fn)(void *user, size_t i);
    void *user;
    size_t count;
    copse_mutex lock; /* guards the fields below */
    size_t next;
    copse_status status; /* of call `failed` */
    size_t failed;
    char text[COPSE_ERROR_BYTES];
};

static void parallel_run(void *arg)
{
    struct work *w = arg;

    copse__mutex_lock(&w->lock);
    while (w->status == COPSE_OK && w->next < w->count) {
        const size_t i = w->next++;
        copse__mutex_unlock(&w->lock);
        const copse_status s = w->fn(w->user, i);
        copse__mutex_lock(&w->lock);
        if (s != COPSE_OK && (w->status == COPSE_OK || i < w->failed)) {
            w->status = s;
            w->failed = i;
            strcpy(w->text, copse_last_error());
        }
    }
    copse__mutex_unlock(&w->lock);
}

copse_status copse__parallel_for(uint32_t threads, size_t count,
                                 copse_status (*fn)(void *user, size_t i), void *user)
{
    struct work w = { .fn = fn, .user = user, .count = count };
    copse_thread others[COPSE_PARALLEL_MAX];
    uint32_t started = 0;

    COPSE_TRY(copse__mutex_init(&w.lock));
    threads = (uint32_t)COPSE_MIN((size_t)COPSE_MIN(threads, COPSE_PARALLEL_MAX), count);
    while (started + 1 < threads &&
           copse__thread_start(&others[started], parallel_run, &w) == COPSE_OK)
        started++;
    parallel_run(&w); /* also where no thread could be started */
    for (uint32_t i = 0; i < started; i++)
        copse__thread_join(&others[i]);
    copse__mutex_fini(&w.lock);
    if (w.status != COPSE_OK)
        copse__fail_again(w.text);
    return w.status;
}
