/* SPDX-License-Identifier: MIT */
/* The transport over MPI: nonblocking point-to-point messages with deadlines of the library,
 * because MPI's waits never end when a peer is lost. The first open initialises MPI and an orderly
 * close finalises it; MPI cannot be started again in the same process.
 */
#include <string.h>
#include <time.h>

#include "mpi_internal.h"

uint64_t mpi_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

copse_status mpi_check(struct copse_transport *t, int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (code == MPI_SUCCESS)
        return COPSE_OK;
    MPI_Error_string(code, text, &length);
    return copse_transport_fail(t, COPSE_ERR_COMM, "MPI: %s: %.200s", what, text);
}

#define TRY(t, call, what) COPSE_TRY(mpi_check(t, call, what))

/* ---- open and close ---- */

static copse_status mpi_start(struct copse_transport *t, struct mpi_state *s)
{
    int is_initialized = 0, is_finalized = 0, provided = MPI_THREAD_SINGLE;
    MPI_Initialized(&is_initialized);
    MPI_Finalized(&is_finalized);
    if (is_finalized)
        return copse_transport_fail(t, COPSE_ERR_UNSUPPORTED,
                                    "MPI has been finalised in this process and cannot be started "
                                    "again: open one cluster per process");
    if (is_initialized) {
        MPI_Query_thread(&provided);
    } else {
        mpi_window_prepare();
        TRY(t, MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided), "starting");
        s->is_ours = true;
    }
    s->threads = provided;
    if (provided < MPI_THREAD_FUNNELED)
        return copse_transport_fail(t, COPSE_ERR_UNSUPPORTED, "MPI: it supports no threads");
    t->is_one_thread = provided < MPI_THREAD_SERIALIZED;
    return COPSE_OK;
}

static copse_status mpi_open(struct copse_transport *t)
{
    int rank, size;
    struct mpi_state *s = t->resize(t->resize_user, NULL, sizeof *s);
    if (!s)
        return copse_transport_fail(t, COPSE_ERR_NO_MEMORY, "MPI: no memory");
    memset(s, 0, sizeof *s);
    t->priv = s;
    COPSE_TRY(mpi_start(t, s));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    TRY(t, MPI_Comm_rank(MPI_COMM_WORLD, &rank), "rank");
    TRY(t, MPI_Comm_size(MPI_COMM_WORLD, &size), "size");
    if ((uint32_t)rank != t->rank || (uint32_t)size != t->size)
        return copse_transport_fail(
            t, COPSE_ERR_ARGUMENT,
            "MPI: the launcher started this process as rank %d of %d, but the "
            "cluster's description says %u of %u",
            rank, size, t->rank, t->size);
    TRY(t, MPI_Comm_dup(MPI_COMM_WORLD, &s->comm), "making a communicator");
    s->has_comm = true;
    MPI_Comm_set_errhandler(s->comm, MPI_ERRORS_RETURN);
    return COPSE_OK;
}

/* Finalising waits for every rank: only when all of them are closing. Otherwise the process leaves
   MPI as it is, and the launcher ends the job when the process ends. */
static void mpi_close(struct copse_transport *t, bool is_orderly)
{
    struct mpi_state *s = t->priv;
    if (!s)
        return;
    is_orderly &= !s->is_stuck;
    if (is_orderly)
        mpi_window_close(s);
    if (is_orderly && s->has_comm)
        MPI_Comm_free(&s->comm);
    if (is_orderly && s->is_ours)
        MPI_Finalize();
    if (is_orderly) /* else MPI may still write to requests */
        for (uint32_t i = 0; i < s->block_count; i++)
            t->resize(t->resize_user, s->blocks[i], 0);
    t->resize(t->resize_user, s, 0);
    t->priv = NULL;
}

static void mpi_end_job(struct copse_transport *t, int code)
{
    (void)t;
    MPI_Abort(MPI_COMM_WORLD, code);
}

/* ---- messages ---- */

struct copse_transport_op *mpi_take(struct copse_transport *t)
{
    struct mpi_state *s = t->priv;
    if (!s->free && s->block_count < 20) {
        const size_t count = (size_t)16 << s->block_count;
        struct copse_transport_op *more = t->resize(t->resize_user, NULL, count * sizeof *more);
        for (size_t i = 0; more && i < count; i++) {
            more[i].next = s->free;
            s->free = &more[i];
        }
        if (more)
            s->blocks[s->block_count++] = more;
    }
    struct copse_transport_op *op = s->free;
    if (op) {
        s->free = op->next;
        op->is_get = false;
    }
    return op;
}

void mpi_give(struct copse_transport *t, struct copse_transport_op *op)
{
    struct mpi_state *s = t->priv;
    op->next = s->free;
    s->free = op;
}

static copse_status mpi_stuck(struct copse_transport *t)
{
    return copse_transport_fail(t, COPSE_ERR_COMM, "MPI: an earlier call did not return");
}

static copse_status mpi_begin(struct copse_transport *t, bool is_send, uint32_t peer, uint32_t tag,
                              void *bytes, size_t size, copse_transport_op **out)
{
    struct mpi_state *s = t->priv;
    struct copse_transport_op *op;
    if (s->is_stuck)
        return mpi_stuck(t);
    op = mpi_take(t);
    if (!op)
        return copse_transport_fail(t, COPSE_ERR_NO_MEMORY, "MPI: no memory for a message");
    op->peer = peer;
    const int code =
        is_send ? MPI_Isend(bytes, (int)size, MPI_BYTE, (int)peer, (int)tag, s->comm, &op->request)
                : MPI_Irecv(bytes, (int)size, MPI_BYTE, (int)peer, (int)tag, s->comm, &op->request);
    if (code != MPI_SUCCESS) {
        mpi_give(t, op);
        return mpi_check(t, code, is_send ? "sending" : "receiving");
    }
    *out = op;
    return COPSE_OK;
}

static copse_status mpi_send(struct copse_transport *t, uint32_t peer, uint32_t tag,
                             const void *bytes, size_t size, copse_transport_op **op)
{
    return mpi_begin(t, true, peer, tag, (void *)(uintptr_t)bytes, size, op);
}

static copse_status mpi_recv(struct copse_transport *t, uint32_t peer, uint32_t tag, void *bytes,
                             size_t size, copse_transport_op **op)
{
    return mpi_begin(t, false, peer, tag, bytes, size, op);
}

/* Polls often at first, then every 50 us, so that devices of a CPU have the cores. */
static copse_status mpi_wait(struct copse_transport *t, copse_transport_op *op, uint64_t timeout_ns)
{
    const struct mpi_state *s = t->priv;
    const uint64_t end = mpi_now_ns() + timeout_ns;
    if (s->is_stuck)
        return mpi_stuck(t);
    for (uint32_t asked = 0;; asked++) {
        int is_done = 0;
        const int code = MPI_Test(&op->request, &is_done, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS) {
            mpi_give(t, op);
            return mpi_check(t, code, "a message");
        }
        if (is_done) {
            mpi_give(t, op);
            return COPSE_OK;
        }
        if (mpi_now_ns() >= end)
            return COPSE_ERR_TIMEOUT;
        if (asked > 200) {
            const struct timespec pause = { 0, 50000 };
            nanosleep(&pause, NULL);
        }
    }
}

/* A receive that has matched a message cannot be cancelled: later parts are still written to its
   memory. */
static bool mpi_drop(struct copse_transport *t, copse_transport_op *op)
{
    const struct mpi_state *s = t->priv;
    int is_done = 0;
    if (s->is_stuck)
        return true;
    if (!op->is_get)
        MPI_Cancel(&op->request);
    MPI_Test(&op->request, &is_done, MPI_STATUS_IGNORE);
    if (is_done) /* else MPI still uses the request */
        mpi_give(t, op);
    return !is_done;
}

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
extern const struct copse_transport_table copse_transport_module;
const struct copse_transport_table copse_transport_module = {
    .version = COPSE_TRANSPORT_VERSION,
    .name = "mpi",
    .ends_together = true,
    .open = mpi_open,
    .close = mpi_close,
    .end_job = mpi_end_job,
    .send = mpi_send,
    .recv = mpi_recv,
    .wait = mpi_wait,
    .drop = mpi_drop,
    .window_open = mpi_window_open,
    .window_put = mpi_window_put,
    .window_get = mpi_window_get,
};
