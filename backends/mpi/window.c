/* SPDX-License-Identifier: MIT */
/* Windows over MPI. Each rank writes into its own part by plain stores, others read by MPI_Rget;
 * there are no puts, accumulates or exclusive locks.
 *
 * Calls that could wait for another rank, and why they do not here:
 *  - MPI_Win_allocate, MPI_Win_lock_all and MPI_Allreduce, once, at the start: a thread makes these
 *    calls while the caller waits for it until its deadline. After the deadline, MPI is not called
 *    again.
 *  - MPI_Rget returns at once over shared memory and over hardware with remote memory access; its
 *    request is polled by MPI_Test, under the deadline of `wait`. Open MPI's component pt2pt
 *    implements windows by messages, and its MPI_Rget waits until the other side calls MPI: it is
 *    excluded.
 *  - MPI_Win_sync may run MPI's progress, and give the processor away in the middle of a write. In
 *    the unified memory model, without which there are no windows here, it orders stores and loads
 *    as fences of C do.
 *  - MPI_Win_flush and MPI_Win_unlock would wait for the other side; without puts there is nothing
 *    to flush.
 *  - MPI_Win_unlock_all waits for this rank's own reads. It, MPI_Win_free and MPI_Finalize are only
 *    called at an orderly end, which requires that all reads of all ranks have ended.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mpi_internal.h"

#define OSC "OMPI_MCA_osc" /* the components that Open MPI may use for windows */

/* Calls that a thread makes for a caller with a deadline. Outlives the caller's wait after a
   timeout. */
struct call {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_done;
    MPI_Comm comm;
    size_t size;
    MPI_Win window;
    void *memory;
    int code;         /* result of this rank's calls */
    const char *what; /* the call that failed */
    bool has_window, is_everywhere;
};

void mpi_window_prepare(void)
{
#if defined(OPEN_MPI)
    setenv(OSC, "^pt2pt", 0);
#endif
}

/* Whether pt2pt is excluded. */
static bool is_usable(void)
{
#if defined(OPEN_MPI)
    const char *which = getenv(OSC);
    return which && (which[0] == '^') == (strstr(which, "pt2pt") != NULL);
#else
    return true;
#endif
}

static void window_allocate(struct call *c)
{
    int *model = NULL, has_model = 0;
    c->what = "allocating a window";
    c->code =
        MPI_Win_allocate((MPI_Aint)c->size, 1, MPI_INFO_NULL, c->comm, &c->memory, &c->window);
    if (c->code != MPI_SUCCESS)
        return;
    c->has_window = true;
    MPI_Win_set_errhandler(c->window, MPI_ERRORS_RETURN);
    c->what = "querying the memory model of the window";
    c->code = MPI_Win_get_attr(c->window, MPI_WIN_MODEL, &model, &has_model);
    if (c->code == MPI_SUCCESS && !(has_model && *model == MPI_WIN_UNIFIED))
        c->code = MPI_ERR_UNSUPPORTED_OPERATION;
    if (c->code != MPI_SUCCESS)
        return;
    c->what = "locking the window for reads"; /* there are no exclusive locks */
    c->code = MPI_Win_lock_all(MPI_MODE_NOCHECK, c->window);
}

static void *window_run(void *p)
{
    struct call *c = p;
    window_allocate(c);
    int is_everywhere = c->code == MPI_SUCCESS;
    if (MPI_Allreduce(MPI_IN_PLACE, &is_everywhere, 1, MPI_INT, MPI_MIN, c->comm) != MPI_SUCCESS)
        is_everywhere = 0;
    pthread_mutex_lock(&c->lock);
    c->is_everywhere = is_everywhere != 0;
    c->is_done = true;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static bool init_call(struct call *c)
{
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic))
        return false;
    bool is_ok = !pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) &&
                 !pthread_mutex_init(&c->lock, NULL);
    if (is_ok && pthread_cond_init(&c->changed, &monotonic)) {
        pthread_mutex_destroy(&c->lock);
        is_ok = false;
    }
    pthread_condattr_destroy(&monotonic);
    return is_ok;
}

/* Whether the calls returned in time. */
static bool window_await(struct call *c, uint64_t timeout_ns)
{
    const uint64_t end = mpi_now_ns() + timeout_ns;
    const struct timespec at = { (time_t)(end / 1000000000ull), (long)(end % 1000000000ull) };
    int code = 0;
    pthread_mutex_lock(&c->lock);
    while (!c->is_done && code == 0)
        code = pthread_cond_timedwait(&c->changed, &c->lock, &at);
    const bool is_done = c->is_done;
    pthread_mutex_unlock(&c->lock);
    return is_done;
}

static copse_status take_result(struct copse_transport *t, struct call *c)
{
    struct mpi_state *s = t->priv;
    if (c->code != MPI_SUCCESS) {
        (void)mpi_check(t, c->code, c->what);
        return COPSE_ERR_UNSUPPORTED;
    }
    if (!c->is_everywhere) /* freeing is collective: the window stays */
        return copse_transport_fail(t, COPSE_ERR_UNSUPPORTED,
                                    "MPI: another rank could not allocate a window");
    s->window = c->window;
    s->memory = c->memory;
    s->memory_bytes = c->size;
    s->has_window = true;
    return COPSE_OK;
}

copse_status mpi_window_open(struct copse_transport *t, size_t size, uint64_t timeout_ns)
{
    struct mpi_state *s = t->priv;
    pthread_t thread;
    if (s->threads < MPI_THREAD_SERIALIZED)
        return copse_transport_fail(
            t, COPSE_ERR_UNSUPPORTED,
            "MPI: it supports calls of one thread only, and allocating a window "
            "may wait forever");
    if (!is_usable())
        return copse_transport_fail(
            t, COPSE_ERR_UNSUPPORTED,
            "MPI: windows implemented by messages are not excluded: set " OSC " to ^pt2pt");
    struct call *c = t->resize(t->resize_user, NULL, sizeof *c);
    if (!c)
        return copse_transport_fail(t, COPSE_ERR_NO_MEMORY, "MPI: no memory");
    memset(c, 0, sizeof *c);
    c->comm = s->comm;
    c->size = size;
    if (!init_call(c) || pthread_create(&thread, NULL, window_run, c)) {
        t->resize(t->resize_user, c, 0);
        return copse_transport_fail(t, COPSE_ERR_NO_MEMORY, "MPI: no thread to allocate a window");
    }
    if (!window_await(c, timeout_ns)) {
        pthread_detach(thread);
        s->is_stuck = true;
        return copse_transport_fail(t, COPSE_ERR_TIMEOUT,
                                    "MPI: allocating a window did not end; disable windows");
    }
    pthread_join(thread, NULL);
    const copse_status status = take_result(t, c);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    t->resize(t->resize_user, c, 0);
    return status;
}

/* Whole words, so that no reader sees a partial word. */
void mpi_window_put(struct copse_transport *t, size_t offset, const void *bytes, size_t size)
{
    struct mpi_state *s = t->priv;
    uint64_t word;
    atomic_thread_fence(memory_order_seq_cst); /* after earlier puts */
    if (size == sizeof word && offset % sizeof word == 0) {
        memcpy(&word, bytes, sizeof word);
        *(volatile uint64_t *)(void *)(s->memory + offset) = word;
    } else {
        memcpy(s->memory + offset, bytes, size);
    }
    atomic_thread_fence(memory_order_seq_cst);
}

copse_status mpi_window_get(struct copse_transport *t, uint32_t peer, size_t offset, void *bytes,
                            size_t size, copse_transport_op **out)
{
    struct mpi_state *s = t->priv;
    struct copse_transport_op *op = mpi_take(t);
    if (!op)
        return copse_transport_fail(t, COPSE_ERR_NO_MEMORY, "MPI: no memory for a read");
    op->peer = peer;
    op->is_get = true;
    atomic_thread_fence(memory_order_seq_cst); /* after earlier reads */
    const int code = MPI_Rget(bytes, (int)size, MPI_BYTE, (int)peer, (MPI_Aint)offset, (int)size,
                              MPI_BYTE, s->window, &op->request);
    if (code != MPI_SUCCESS) {
        mpi_give(t, op);
        return mpi_check(t, code, "reading a window");
    }
    *out = op;
    return COPSE_OK;
}

void mpi_window_close(struct mpi_state *s)
{
    if (!s->has_window)
        return;
    MPI_Win_unlock_all(s->window);
    MPI_Win_free(&s->window);
    s->has_window = false;
}
