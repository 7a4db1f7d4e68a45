/* SPDX-License-Identifier: MIT */
/* Stamps wait in a ring until their work is complete. The device's clock is aligned with the host's by
   what must be true: a stamp is taken after it was appended, and before the host knows that its work is
   complete. */
#include "core/device/clock.h"

#include "core/base/trace.h"
#include "core/device/device.h"

struct copse_stamp {
    enum copse_stamp_kind kind;
    uint64_t ticket;
    uint64_t appended; /* of copse__now_ns */
    uint64_t ns;       /* of the device's clock, when it was read */
};

struct copse_clock {
    struct copse_stamp stamps[COPSE_STAMPS]; /* stamp n is in slot n % COPSE_STAMPS */
    uint64_t next, unread; /* numbers: of the next stamp, of the oldest unread one */
    bool is_missing;       /* the device has none */
    bool has_gap;          /* a stamp is missing: spans begin again at the next BEGIN */
    /* host time = device time + offset */
    bool is_aligned;
    int64_t offset;
    uint64_t span_begin; /* of the device's clock: where the next span begins; 0: not known */
    uint64_t span_end;   /* of copse__now_ns: where the newest span ended */
};

/* ---- life ---- */

/* COPSE_ERR_UNSUPPORTED: the device has none. */
static copse_status open_clock(copse_queue *q)
{
    copse_device *dev = q->dev;
    if (!q->clock) {
        q->clock = copse__alloc(&dev->base->mem, 1, sizeof *q->clock);
        if (!q->clock)
            return copse_no_memory("queue: stamps");
        q->clock->is_missing = !dev->backend->stamp;
    }
    if (q->clock->is_missing)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "queue: %s has no clock that its queues can read; use the host's",
                          dev->info.id);
    return COPSE_OK;
}

void copse__clock_release(copse_queue *q)
{
    copse__free(&q->dev->base->mem, q->clock);
    q->clock = NULL;
}

bool copse__clock_works(const copse_queue *q)
{
    return q->clock && !q->clock->is_missing;
}

/* ---- stamps ---- */

static copse_status append_stamp(copse_queue *q, enum copse_stamp_kind kind)
{
    struct copse_clock *c = q->clock;
    const copse_status s = q->dev->backend->stamp(q, (uint32_t)(c->next % COPSE_STAMPS));
    c->is_missing = s == COPSE_ERR_UNSUPPORTED; /* another failure may pass */
    if (s)
        return copse__device_result(q->dev, s);
    c->stamps[c->next++ % COPSE_STAMPS] = (struct copse_stamp){ .kind = kind,
                                                                .ticket = copse__queue_next(q),
                                                                .appended = copse__now_ns() };
    return COPSE_OK;
}

copse_status copse__clock_open(copse_queue *q)
{
    COPSE_TRY(open_clock(q));
    return q->clock->next - q->clock->unread < COPSE_STAMPS
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT,
                            "queue: %d stamps of %s are not known to be complete; wait for a "
                            "ticket before the next stamp",
                            COPSE_STAMPS, q->dev->info.id);
}

copse_status copse__clock_stamp(copse_queue *q, uint64_t *stamp)
{
    COPSE_TRY(append_stamp(q, COPSE_STAMP_USER));
    *stamp = q->clock->next - 1;
    return COPSE_OK;
}

void copse__clock_note(copse_queue *q, enum copse_stamp_kind kind)
{
    copse_device *dev = q->dev;
    struct copse_clock *c = q->clock;
    copse_status s = COPSE_OK;
    if (c && c->is_missing)
        return;
    if (!c)
        s = open_clock(q);
    c = q->clock;
    if (!s) {
        c->has_gap = c->has_gap && kind != COPSE_STAMP_BEGIN;
        c->has_gap = c->has_gap || c->next - c->unread == COPSE_STAMPS;
        if (c->has_gap)
            return;
        s = append_stamp(q, kind);
        c->has_gap = s != COPSE_OK;
    }
    if (s && !atomic_exchange(&dev->is_clock_reported, true))
        copse__log(&dev->base->log, COPSE_LOG_WARN,
                   s == COPSE_ERR_UNSUPPORTED
                       ? "trace: the spans of %s are of the host's clock: %s"
                       : "trace: spans of %s are missing, because a stamp failed: %s",
                   dev->info.id, copse_last_error());
}

/* ---- times ---- */

/* Stamp `n` was read now. The bounds of one stamp do not exclude each other. */
static void align_clock(struct copse_clock *c, const struct copse_stamp *s, uint64_t now)
{
    const int64_t least = (int64_t)(s->appended - s->ns), most = (int64_t)(now - s->ns);
    if (!c->is_aligned || c->offset > most)
        c->offset = most;
    c->offset = COPSE_MAX(c->offset, least);
    c->is_aligned = true;
}

static void store_span(copse_queue *q, const struct copse_stamp *s, uint64_t now)
{
    struct copse_clock *c = q->clock;
    char lane[COPSE_TRACE_NAME];
    const uint64_t begin = COPSE_MAX(c->span_begin + (uint64_t)c->offset, c->span_end);
    const uint64_t end = COPSE_MIN(COPSE_MAX(s->ns + (uint64_t)c->offset, begin), now);
    c->span_end = end;
    if (begin >= end)
        return;
    snprintf(lane, sizeof lane, "%s%s", q->owner, q->dev->info.id);
    copse__trace_queue(q->dev->base->trace, q, lane,
                       &(struct copse_trace_event){ .begin = begin,
                                                    .end = end,
                                                    .first = s->ticket,
                                                    .last = s->ticket,
                                                    .kind = COPSE_SPAN_DEVICE },
                       s->kind == COPSE_STAMP_SEGMENT ? "segment" : "work");
}

void copse__clock_collect(copse_queue *q, uint64_t ticket)
{
    struct copse_clock *c = q->clock;
    const struct copse_backend *backend = q->dev->backend;
    const uint64_t first = c->unread, now = copse__now_ns();
    for (; c->unread < c->next; c->unread++) {
        const uint32_t slot = (uint32_t)(c->unread % COPSE_STAMPS);
        struct copse_stamp *s = &c->stamps[slot];
        if (s->ticket > ticket)
            break;
        if (backend->stamp_read(q, slot, &s->ns) || s->ns == 0) {
            s->ns = 0; /* not known: no span has it as its end */
            continue;
        }
        align_clock(c, s, now);
    }
    for (uint64_t n = first; n < c->unread; n++) {
        const struct copse_stamp *s = &c->stamps[n % COPSE_STAMPS];
        if (s->kind == COPSE_STAMP_USER)
            continue;
        if (s->kind != COPSE_STAMP_BEGIN && s->ns && c->span_begin)
            store_span(q, s, now);
        c->span_begin = s->kind == COPSE_STAMP_END ? 0 : s->ns;
    }
}

/* ---- between stamps ---- */

/* NULL: the stamp is not kept. */
static const struct copse_stamp *find_stamp(const struct copse_clock *c, uint64_t n)
{
    const bool is_kept = n < c->unread && c->next - n <= COPSE_STAMPS;
    return is_kept ? &c->stamps[n % COPSE_STAMPS] : NULL;
}

copse_status copse__clock_elapsed(copse_queue *q, uint64_t from, uint64_t to, double *seconds)
{
    COPSE_TRY(open_clock(q));
    const struct copse_stamp *a = find_stamp(q->clock, from);
    const struct copse_stamp *b = find_stamp(q->clock, to);
    if (!a || !b)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "queue: stamp %llu of %s is not complete, or more than %d stamps came "
                          "after it",
                          (unsigned long long)(a ? to : from), q->dev->info.id, COPSE_STAMPS - 1);
    if (a->ns == 0 || b->ns == 0 || b->ns < a->ns)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "queue: %s reports no times for its stamps; use the host's clock",
                          q->dev->info.id);
    *seconds = (double)(b->ns - a->ns) * 1e-9;
    return COPSE_OK;
}
