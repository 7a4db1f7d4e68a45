/* SPDX-License-Identifier: MIT */
/* See app.h. */
#include "tests/rig/app/app.h"

#include <stdio.h>
#include <stdlib.h>

static COPSE_THREAD_LOCAL char thread;         /* its address identifies the thread */
static COPSE_THREAD_LOCAL bool is_application; /* this thread is the worker */

void app_lock_init(struct app_lock *l)
{
    memset(l, 0, sizeof *l);
    if (copse__mutex_init(&l->mutex))
        abort();
}

void app_lock_fini(struct app_lock *l)
{
    copse__mutex_fini(&l->mutex);
}

void app_lock_take(void *lock)
{
    struct app_lock *l = lock;
    if (atomic_load(&l->holder) == &thread) {
        atomic_fetch_add(&l->nested, 1u);
        return;
    }
    copse__mutex_lock(&l->mutex);
    atomic_store(&l->holder, &thread);
    if (!is_application)
        atomic_fetch_add(&l->taken, 1u);
}

void app_lock_give(void *lock)
{
    struct app_lock *l = lock;
    if (atomic_load(&l->holder) != &thread) {
        atomic_fetch_add(&l->unbalanced, 1u);
        return;
    }
    atomic_store(&l->holder, NULL);
    copse__mutex_unlock(&l->mutex);
}

void app_lock_check(struct app_lock *l)
{
    atomic_fetch_add(&l->submitted, 1u);
    if (atomic_load(&l->holder) != &thread)
        atomic_fetch_add(&l->unlocked, 1u);
}

bool app_lock_is_fine(const struct app_lock *l)
{
    if (!l->nested && !l->unbalanced && !l->unlocked && !l->holder)
        return true;
    fprintf(stderr,
            "the lock was taken twice %u times, given back without %u times, left out %u times%s\n",
            l->nested, l->unbalanced, l->unlocked, l->holder ? ", and is still held" : "");
    return false;
}

static void run(void *user)
{
    struct app_worker *w = user;
    is_application = true;
    for (uint32_t round = 1; !atomic_load(&w->is_over); round++) {
        if (!w->work(w->app, round)) {
            atomic_store(&w->has_failed, true);
            return;
        }
        atomic_fetch_add(&w->rounds, 1u);
        copse__sleep_ns(200000);
    }
}

void app_worker_start(struct app_worker *w)
{
    if (copse__thread_start(&w->thread, run, w))
        abort();
    while (!atomic_load(&w->rounds) && !atomic_load(&w->has_failed))
        copse__sleep_ns(100000);
}

bool app_worker_stop(struct app_worker *w)
{
    atomic_store(&w->is_over, true);
    copse__thread_join(&w->thread);
    return !atomic_load(&w->has_failed);
}
