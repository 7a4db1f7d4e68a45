/* SPDX-License-Identifier: MIT */
/* Internals of the MPI engine. */
#ifndef COPSE_MPI_INTERNAL_H
#define COPSE_MPI_INTERNAL_H

#include <mpi.h>

#include "core/comm/transport.h"

struct copse_transport_op {
    MPI_Request request;
    struct copse_transport_op *next; /* of the free list */
    uint32_t peer;
    bool is_get; /* a read of a window: MPI cannot cancel it */
};

struct mpi_state {
    MPI_Comm comm;
    bool has_comm, is_ours; /* ours: this engine initialised MPI and finalises it */
    int threads;            /* MPI_THREAD_... that it provides */
    bool is_stuck;          /* a call of MPI did not return: make no other */
    MPI_Win window;
    bool has_window;
    unsigned char *memory; /* this rank's part of the window */
    size_t memory_bytes;
    struct copse_transport_op *free;
    struct copse_transport_op *blocks[64]; /* arrays of 16, 32, 64, ... ops */
    uint32_t block_count;
};

uint64_t mpi_now_ns(void);
/* COPSE_OK, or COPSE_ERR_COMM with MPI's text. */
copse_status mpi_check(struct copse_transport *t, int code, const char *what);
/* Allocate an op, NULL: no memory; and free it. */
struct copse_transport_op *mpi_take(struct copse_transport *t);
void mpi_give(struct copse_transport *t, struct copse_transport_op *op);

/* window.c */
/* Before MPI is initialised: exclude windows whose calls wait for the other side. */
void mpi_window_prepare(void);
copse_status mpi_window_open(struct copse_transport *t, size_t size, uint64_t timeout_ns);
void mpi_window_put(struct copse_transport *t, size_t offset, const void *bytes, size_t size);
copse_status mpi_window_get(struct copse_transport *t, uint32_t peer, size_t offset, void *bytes,
                            size_t size, copse_transport_op **op);
/* Collective. */
void mpi_window_close(struct mpi_state *s);

#endif
