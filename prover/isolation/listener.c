/* SPDX-License-Identifier: MIT */
/* Waits for a request: starts a helper process, reads its events under a deadline, and finds how it
   ended. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "copse/copse.h"
#include "core/base/deadline.h"
#include "prover/isolation/isolation.h"
#include "prover/isolation/process.h"

enum { MAX_LINE = 1 << 20, PAGE = 1 << 16 };

/* Time limit for a driver's exit handlers, which may hang. The time before the first case (process
   start, opening drivers) is not part of a case and has at least this limit. */
static const double EXIT_SECONDS = 5.0, OPEN_SECONDS = 60.0;

/* Longest time between two looks at the request to cancel. */
static const uint64_t LOOK_NS = 100000000u;

static uint64_t listener_nanoseconds(double seconds)
{
    return (uint64_t)(fmin(seconds, 1e9) * 1e9);
}

struct listener {
    const struct copse_isolation *how;
    copse_request_emit *emit;
    void *user;
    struct copse_ended *ended;
    bool has_begun, has_end; /* a case; the request */
    bool is_broken;          /* what it writes cannot be read */
    double limit;            /* of the request, 0 = none */
    bool is_over;            /* the limit has passed */
    char *bytes;
    size_t size, room;
};

/* ---- events ---- */

/* The first event of a helper process; false: it is no helper program of this version. */
static bool hear_first(struct listener *l, const cJSON *event)
{
    const char *version = copse__json_text(event, "version");
    l->ended->is_helper = strcmp(copse__json_text(event, "event"), "helper") == 0 &&
                          strcmp(version, copse_version()) == 0;
    if (!l->ended->is_helper && *version)
        snprintf(l->ended->text, sizeof l->ended->text,
                 "'%s' has version %.32s of the library, this program has %s", l->how->helper,
                 version, copse_version());
    return l->ended->is_helper;
}

static bool listener_hear(void *user, cJSON *event)
{
    struct listener *l = user;
    l->has_begun = l->has_begun || strcmp(copse__json_text(event, "event"), "begin") == 0;
    if (strcmp(copse__json_text(event, "event"), "end") == 0) {
        l->has_end = true;
        l->ended->status = (copse_status)copse__json_number(event, "status");
        snprintf(l->ended->text, sizeof l->ended->text, "%s", copse__json_text(event, "text"));
        cJSON_Delete(event);
        return true;
    }
    return l->emit(l->user, event) && !atomic_load(l->how->is_cancelled);
}

/* True if an event arrived. Lines that are no events are ignored: drivers print, too. */
static bool hear_line(struct listener *l, const char *line)
{
    cJSON *event = cJSON_Parse(line);
    if (!l->ended->is_helper) {
        l->is_broken = !event || !hear_first(l, event);
        cJSON_Delete(event);
        return !l->is_broken;
    }
    if (!event || !*copse__json_text(event, "event")) {
        cJSON_Delete(event);
        return false;
    }
    (void)listener_hear(l, event); /* the caller looks whether the job is cancelled */
    return true;
}

static bool hear_lines(struct listener *l)
{
    char *line = l->bytes, *end;
    bool has_event = false;
    while (!l->is_broken &&
           (end = memchr(line, '\n', l->size - (size_t)(line - l->bytes))) != NULL) {
        *end = '\0';
        has_event = hear_line(l, line) || has_event;
        line = end + 1;
    }
    l->size -= (size_t)(line - l->bytes);
    memmove(l->bytes, line, l->size);
    return has_event;
}

/* Room for more of a line; false if it is too long. */
static bool make_room(struct listener *l)
{
    if (l->size < l->room)
        return true;
    char *more = l->room < MAX_LINE ? realloc(l->bytes, l->room + PAGE) : NULL;
    l->bytes = more ? more : l->bytes;
    l->room += more ? PAGE : 0;
    return more != NULL;
}

/* ---- waiting ---- */

static double deadline_of(const struct listener *l)
{
    return l->has_begun ? l->how->deadline : fmax(l->how->deadline, OPEN_SECONDS);
}

/* From the newest line on. */
static struct copse_deadline begin_wait(const struct listener *l)
{
    return copse__deadline(listener_nanoseconds(deadline_of(l)));
}

/* Until the pipe ends, the deadline or the limit passes or the job is cancelled. */
static enum copse_ended_how listen_to(struct listener *l, const struct copse_process *p)
{
    struct copse_deadline d = begin_wait(l);
    struct copse_deadline whole =
        copse__deadline(l->limit > 0.0 ? listener_nanoseconds(l->limit) : UINT64_MAX);
    while (!atomic_load(l->how->is_cancelled)) {
        l->is_over = copse__deadline_left(&whole) == 0;
        if (l->is_over || copse__deadline_left(&d) == 0)
            return COPSE_ENDED_LATE;
        if (!make_room(l)) {
            l->is_broken = true;
            return COPSE_ENDED_CRASHED;
        }
        const uint64_t tick = COPSE_MIN(copse__deadline_tick(&d), copse__deadline_tick(&whole));
        const uint64_t until = copse__now_ns() + COPSE_MIN(LOOK_NS, tick);
        const int n = copse__process_read(p, l->bytes + l->size, l->room - l->size, until);
        if (n == 0)
            return COPSE_ENDED_DONE;
        if (n > 0) {
            l->size += (size_t)n;
            if (hear_lines(l))
                d = begin_wait(l);
            if (l->is_broken)
                return COPSE_ENDED_CRASHED;
        }
    }
    return COPSE_ENDED_CANCELLED;
}

/* ---- how it ended ---- */

static void tell_crash(struct copse_ended *e, const struct copse_process_end *end)
{
    e->how = COPSE_ENDED_CRASHED;
    if (!end->is_known)
        snprintf(e->text, sizeof e->text,
                 "the process ended; the application took its exit status");
    else if (end->is_signal)
        snprintf(e->text, sizeof e->text, "the process died of %s", end->name);
    else
        snprintf(e->text, sizeof e->text, "the process ended by itself with code %d", end->code);
}

static void tell_stranger(const struct listener *l)
{
    struct copse_ended *e = l->ended;
    e->how = COPSE_ENDED_DONE;
    e->status = COPSE_ERR_INTERNAL;
    char what[400];
    snprintf(what, sizeof what, "%.399s", e->text);
    snprintf(
        e->text, sizeof e->text, "helper process: '%s' is no helper program: %s", l->how->helper,
        *what ? what
              : "it ended or wrote other text first; its main must call copse_conformance_helper");
}

static void listener_finish(struct listener *l, const struct copse_process *p,
                            enum copse_ended_how how)
{
    struct copse_ended *e = l->ended;
    struct copse_process_end end;
    const bool is_killed = how != COPSE_ENDED_DONE && !l->has_end;
    if (is_killed)
        copse__process_kill(p);
    /* A failure after the last event belongs to no case. */
    if (!copse__process_reap(p, listener_nanoseconds(EXIT_SECONDS), &end)) {
        copse__process_kill(p);
        (void)copse__process_reap(p, listener_nanoseconds(EXIT_SECONDS), &end);
    }
    if (how == COPSE_ENDED_CANCELLED) {
        e->how = how;
    } else if (l->has_end) {
        e->how = COPSE_ENDED_DONE;
    } else if (how == COPSE_ENDED_LATE) {
        e->how = how;
        snprintf(e->text, sizeof e->text, "no end after %g s; the process was killed",
                 l->is_over ? l->limit : deadline_of(l));
    } else if (!e->is_helper) {
        tell_stranger(l);
    } else if (l->is_broken) {
        e->how = COPSE_ENDED_CRASHED;
        snprintf(e->text, sizeof e->text,
                 "the process wrote a line of more than %d bytes and was killed", MAX_LINE);
    } else {
        tell_crash(e, &end);
    }
}

static void wait_isolated(const struct copse_request *q, struct listener *l)
{
    struct copse_request request = *q;
    struct copse_request_text arguments;
    struct copse_process p;
    request.parent = (long)copse__process_id();
    copse__request_write(&request, l->how->helper, &arguments);
    l->ended->status = copse__process_start(l->how->helper, arguments.at, &p);
    if (l->ended->status != COPSE_OK) {
        snprintf(l->ended->text, sizeof l->ended->text, "%s", copse_last_error());
        return;
    }
    const enum copse_ended_how how = listen_to(l, &p);
    copse__process_close(&p);
    listener_finish(l, &p, how);
    copse__process_forget(&p);
    free(l->bytes);
}

void copse__request_wait(const struct copse_isolation *how, const struct copse_request *q,
                         copse_request_emit *emit, void *user, struct copse_ended *out)
{
    struct listener l = { .how = how, .emit = emit, .user = user, .ended = out, .limit = q->limit };
    *out = (struct copse_ended){ .how = COPSE_ENDED_DONE };
    if (!how->in_process) {
        wait_isolated(q, &l);
        return;
    }
    out->is_helper = true;
    copse__request_do(q, how->in_process, listener_hear, &l);
    if (atomic_load(how->is_cancelled))
        out->how = COPSE_ENDED_CANCELLED;
}
