/* SPDX-License-Identifier: MIT */
/* See trace.h. Lanes are found by the address of their queue or of a variable of their thread. */
#include <stdio.h>

#include "core/base/trace.h"

enum { USUAL_EVENTS = 200000, MOST_EVENTS = 100000000 };

static COPSE_THREAD_LOCAL char this_thread; /* its address names the thread */

/* ---- life ---- */

copse_status copse__trace_create(struct copse_mem *m, struct copse_trace **out)
{
    struct copse_trace *t = copse__alloc(m, 1, sizeof *t);
    if (!t)
        return copse_no_memory("context: a trace");
    t->mem = m;
    const copse_status s = copse__mutex_init(&t->lock);
    if (s)
        copse__free(m, t);
    else
        *out = t;
    return s;
}

/* Whether the file can be made: an error at the end would cost the recording. */
static copse_status try_path(struct copse_mem *m, const char *path)
{
    struct copse_atomic_file f;
    COPSE_TRY(copse_note(copse__atomic_open(&f, m, path), "for a trace"));
    copse__atomic_abort(&f);
    return COPSE_OK;
}

static void forget_events(struct copse_trace *t)
{
    copse__free(t->mem, t->events);
    copse__free(t->mem, t->path);
    t->events = NULL;
    t->path = NULL;
}

void copse__trace_release(struct copse_trace **at)
{
    struct copse_trace *t = *at;
    *at = NULL;
    if (!t)
        return;
    forget_events(t);
    copse__mutex_fini(&t->lock);
    copse__free(t->mem, t);
}

static copse_status begin_events(struct copse_trace *t, const struct copse_trace_params *p)
{
    if (t->events)
        return copse_fail(COPSE_ERR_ARGUMENT, "trace: the context is traced already, to %s",
                          t->path ? t->path : "no file");
    COPSE_TRY(p->path ? try_path(t->mem, p->path) : COPSE_OK);
    t->room = p->events ? p->events : USUAL_EVENTS;
    t->events = copse__alloc(t->mem, t->room, sizeof *t->events);
    t->path = p->path ? copse__strdup(t->mem, p->path) : NULL;
    if (!t->events || !t->path != !p->path) {
        forget_events(t);
        return copse_no_memory("trace: %zu spans", t->room);
    }
    t->count = t->lane_count = 0;
    t->dropped = 0;
    t->worker = p->worker;
    t->began_unix = copse__seconds_since_1970();
    t->began = copse__now_ns();
    atomic_store(&t->step, 0);
    atomic_store(&t->is_on, true);
    return COPSE_OK;
}

copse_status copse__trace_start(struct copse_trace *t, const struct copse_trace_params *p)
{
    if (p->path && !*p->path)
        return copse_fail(COPSE_ERR_ARGUMENT, "trace: the path is empty");
    if (p->events > MOST_EVENTS)
        return copse_fail(COPSE_ERR_ARGUMENT, "trace: %zu events, at most %d are possible",
                          p->events, MOST_EVENTS);
    copse__mutex_lock(&t->lock);
    const copse_status s = begin_events(t, p);
    copse__mutex_unlock(&t->lock);
    return s;
}

copse_status copse__trace_stop(struct copse_trace *t, struct copse_trace_summary *out)
{
    struct copse_trace_summary summary;
    copse_status s = COPSE_OK;
    copse__mutex_lock(&t->lock);
    atomic_store(&t->is_on, false);
    if (!t->events) {
        s = copse_fail(COPSE_ERR_ARGUMENT, "trace: nothing is recorded: call copse_trace_start");
    } else {
        copse__trace_summarize(t, &summary);
        s = t->path ? copse__trace_write(t, &summary) : COPSE_OK;
        forget_events(t);
    }
    copse__mutex_unlock(&t->lock);
    if (!s && out)
        *out = summary;
    return s;
}

/* ---- recording ---- */

/* The lane of a thread or queue: one of a queue with this name that has ended, or a new one;
   COPSE_TRACE_LANES: there is no room. */
static uint32_t find_lane(struct copse_trace *t, const void *of, const char *name)
{
    for (uint32_t i = 0; i < t->lane_count; i++)
        if (t->lanes[i].of == of)
            return i;
    for (uint32_t i = 0; name && i < t->lane_count; i++)
        if (!t->lanes[i].of && strcmp(t->lanes[i].name, name) == 0) {
            t->lanes[i].of = of;
            return i;
        }
    if (t->lane_count == COPSE_TRACE_LANES)
        return COPSE_TRACE_LANES;
    struct copse_trace_lane *lane = &t->lanes[t->lane_count];
    lane->of = of;
    if (name)
        snprintf(lane->name, sizeof lane->name, "%s", name);
    else
        snprintf(lane->name, sizeof lane->name, "thread %u", (unsigned)t->lane_count + 1);
    return t->lane_count++;
}

/* `t->lock` is held. Spans that began before the recording are not part of it. */
static void store_event(struct copse_trace *t, const void *lane_of, const char *lane_name,
                        const struct copse_trace_event *event, const char *name)
{
    if (!t->events || event->begin < t->began)
        return;
    const uint32_t lane = find_lane(t, lane_of, lane_name);
    if (lane == COPSE_TRACE_LANES || t->count == t->room) {
        t->dropped++;
        return;
    }
    struct copse_trace_event *e = &t->events[t->count++];
    *e = *event;
    e->lane = lane;
    snprintf(e->name, sizeof e->name, "%s", name);
}

void copse__span_store(const struct copse_span *s, enum copse_span_kind kind, const char *name)
{
    struct copse_trace *t = s->trace;
    const struct copse_trace_event e = {
        .begin = s->begin, .end = copse__now_ns(), .step = atomic_load(&t->step), .kind = kind
    };
    copse__mutex_lock(&t->lock);
    store_event(t, &this_thread, NULL, &e, name);
    copse__mutex_unlock(&t->lock);
}

void copse__trace_queue(struct copse_trace *t, const void *queue, const char *lane,
                        const struct copse_trace_event *event, const char *name)
{
    struct copse_trace_event e = *event;
    e.step = atomic_load(&t->step);
    copse__mutex_lock(&t->lock);
    store_event(t, queue, lane, &e, name);
    copse__mutex_unlock(&t->lock);
}

void copse__trace_forget(struct copse_trace *t, const void *queue)
{
    if (!copse__trace_is_on(t))
        return;
    copse__mutex_lock(&t->lock);
    for (uint32_t i = 0; i < t->lane_count; i++)
        if (t->lanes[i].of == queue)
            t->lanes[i].of = NULL;
    copse__mutex_unlock(&t->lock);
}
