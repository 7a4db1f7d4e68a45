/* SPDX-License-Identifier: MIT */
/* Records what a context does and when: spans of threads and of queues, in memory of a fixed size
   (trace.c), and writes them as a file (trace_file.c). While nothing is recorded a span costs one
   load. */
#ifndef COPSE_TRACE_H
#define COPSE_TRACE_H

#include "copse/device/trace.h"
#include "core/base/base.h"
#include "core/base/platform.h"

enum copse_span_kind {
    COPSE_SPAN_STEP,
    COPSE_SPAN_DATA,     /* the next batch */
    COPSE_SPAN_UPLOAD,   /* inputs are queued */
    COPSE_SPAN_EXCHANGE, /* of sums, between replicas and workers */
    COPSE_SPAN_UPDATE,
    COPSE_SPAN_WAIT, /* the host waits for a queue */
    COPSE_SPAN_COMPILE,
    COPSE_SPAN_HOST,
    COPSE_SPAN_DEVICE, /* a queue computes; without a clock, it has work as far as the host knows */
    COPSE_SPAN_KINDS
};

enum { COPSE_TRACE_LANES = 256, COPSE_TRACE_NAME = 64 };

struct copse_trace_event {
    uint64_t begin, end;         /* of copse__now_ns */
    uint64_t step;               /* 0: before the first one */
    uint64_t first, last;        /* of a queue: submissions */
    char name[COPSE_TRACE_NAME]; /* of a kernel or a device: both may end before the recording */
    enum copse_span_kind kind;
    uint32_t lane;
};

/* A thread, or a queue. No two spans of a lane overlap, but one may be within another. */
struct copse_trace_lane {
    const void *of; /* NULL: it has ended */
    char name[COPSE_TRACE_NAME];
};

struct copse_trace {
    struct copse_mem *mem;
    atomic_bool is_on;
    _Atomic uint64_t step;            /* of the newest step */
    copse_mutex lock;                 /* guards the rest */
    struct copse_trace_event *events; /* NULL: not recording */
    size_t count, room;
    uint64_t dropped;
    struct copse_trace_lane lanes[COPSE_TRACE_LANES];
    uint32_t lane_count;
    uint64_t began;    /* of copse__now_ns */
    double began_unix; /* seconds since 1970 */
    uint32_t worker;
    char *path; /* NULL: the summary alone */
};

copse_status copse__trace_create(struct copse_mem *m, struct copse_trace **out);
/* Without a file. */
void copse__trace_release(struct copse_trace **t);

copse_status copse__trace_start(struct copse_trace *t, const struct copse_trace_params *params);
copse_status copse__trace_stop(struct copse_trace *t, struct copse_trace_summary *out);

/* ---- recording ---- */

struct copse_span {
    struct copse_trace *trace; /* NULL: not recorded */
    uint64_t begin;
};

static inline bool copse__trace_is_on(const struct copse_trace *t)
{
    return t && atomic_load_explicit(&t->is_on, memory_order_relaxed);
}

/* Whether a recording is on, and spans of it belong to a step. */
static inline bool copse__trace_has_step(struct copse_trace *t)
{
    return copse__trace_is_on(t) && atomic_load(&t->step) > 0;
}

static inline struct copse_span copse__span_begin(const struct copse_base *base)
{
    struct copse_trace *t = base->trace;
    return copse__trace_is_on(t) ? (struct copse_span){ t, copse__now_ns() }
                                 : (struct copse_span){ NULL, 0 };
}
void copse__span_store(const struct copse_span *s, enum copse_span_kind kind, const char *name);
/* End a span of this thread. Returns `status`. */
static inline copse_status copse__span_end(struct copse_span s, enum copse_span_kind kind,
                                           const char *name, copse_status status)
{
    if (s.trace)
        copse__span_store(&s, kind, name);
    return status;
}

/* Spans from now on belong to this step. */
static inline void copse__trace_step(const struct copse_base *base, uint64_t step)
{
    if (copse__trace_is_on(base->trace))
        atomic_store_explicit(&base->trace->step, step, memory_order_relaxed);
}

/* A queue had work: all of the event but its step and lane. `lane`: the name of its lane. */
void copse__trace_queue(struct copse_trace *t, const void *queue, const char *lane,
                        const struct copse_trace_event *event, const char *name);
/* The queue ends; another one at its address is another lane. */
void copse__trace_forget(struct copse_trace *t, const void *queue);

/* ---- for the file ---- */

/* What the events say; `t->lock` is held. */
void copse__trace_summarize(const struct copse_trace *t, struct copse_trace_summary *out);
copse_status copse__trace_write(const struct copse_trace *t,
                                const struct copse_trace_summary *summary);

#endif
