/* SPDX-License-Identifier: MIT */
/* Segments: commands recorded once and replayed. A launch that the host computes divides a segment
   into parts: the commands before it, the launch, and the rest. So do the most commands that a part
   may have, and the time that a submission may take (pace.h). */
#include "core/base/trace.h"
#include "core/device/clock.h"
#include "core/device/host_launch.h"
#include "core/device/pace.h"

enum { MEASUREMENTS = 2 }; /* of a part, where submissions have a limit */

static void segment_destroy(struct copse_segment *seg)
{
    struct copse_mem *mem = &seg->queue->dev->base->mem;
    for (size_t i = 0; i < seg->count; i++)
        for (uint32_t j = 0; j < seg->commands[i].binding_count; j++)
            copse_buffer_release(&seg->commands[i].bindings[j].buffer);
    copse__host_launch_release(seg->queue->dev, &seg->host);
    copse__free(mem, seg->commands);
    copse__free(mem, seg);
}

static bool is_long(const copse_device *dev, uint64_t units)
{
    return copse__pace_estimate(dev, units) > dev->pace.submission_ns;
}

/* Take commands up to and including the first one that the host computes, at most `most` others;
   *taken is their number. */
static copse_status take_commands(struct copse_segment *seg, const struct copse_command *commands,
                                  const uint64_t *units, size_t count, size_t most, size_t *taken)
{
    copse_device *dev = seg->queue->dev;
    size_t i = 0;
    for (; i < count && !seg->host && seg->count < most; i++) {
        bool is_empty = false;
        if (units && seg->count > 0 && is_long(dev, seg->units + units[i]))
            break;
        COPSE_TRY(copse_note(copse__command_check(dev, &commands[i], &is_empty),
                             "while recording command %zu of %zu", i, count));
        if (is_empty)
            continue;
        if (copse__is_on_host(&commands[i])) {
            COPSE_TRY(copse__host_launch_create(dev, &commands[i], &seg->host));
            continue;
        }
        seg->units += units ? units[i] : 0;
        seg->commands[seg->count++] = commands[i];
        for (uint32_t j = 0; j < commands[i].binding_count; j++)
            copse_buffer_retain(commands[i].bindings[j].buffer);
    }
    *taken = i;
    return COPSE_OK;
}

/* One part, without its rest. */
static copse_status create_part(copse_queue *q, const struct copse_command *commands,
                                const uint64_t *units, size_t count, size_t most, size_t *taken,
                                struct copse_segment **out)
{
    copse_device *dev = q->dev;
    struct copse_mem *mem = &dev->base->mem;
    copse_status s = COPSE_OK;
    const size_t room = COPSE_MIN(count, most);
    void *priv = NULL;

    struct copse_segment *seg =
        copse__handle_alloc(mem, sizeof *seg, dev->backend->segment_priv, &priv);
    if (!seg)
        return copse_fail(COPSE_ERR_NO_MEMORY, "segment: no memory for the handle");
    seg->queue = q;
    seg->priv = priv;
    seg->commands = copse__alloc(mem, room, sizeof *commands);
    if (!seg->commands) {
        s = copse_fail(COPSE_ERR_NO_MEMORY, "segment: no memory for %zu commands", room);
        goto fail;
    }
    COPSE_TRY_OR(fail, s, take_commands(seg, commands, units, count, most, taken));
    if (seg->count) {
        s = copse__device_result(dev, dev->backend->segment_init(seg));
        if (s) {
            copse_note(s, "while recording %zu commands for %s", seg->count, dev->info.id);
            dev->backend->segment_fini(seg);
            goto fail;
        }
    }
    *out = seg;
    return COPSE_OK;

fail:
    segment_destroy(seg);
    return s;
}

/* `units` NULL: without limits in time. */
static copse_status divide_commands(copse_queue *q, const struct copse_command *commands,
                                    const uint64_t *units, size_t count, size_t most,
                                    struct copse_segment **out)
{
    struct copse_segment *first = NULL, **at = &first;
    size_t taken = 0;
    *out = NULL;
    COPSE_TRY(copse__device_check(q->dev));
    if (q->is_for_transfers)
        return copse_fail(COPSE_ERR_ARGUMENT, "segment: a queue for transfers takes no segments");
    do {
        size_t more = 0;
        const copse_status s = create_part(q, commands + taken, units ? units + taken : NULL,
                                           count - taken, most, &more, at);
        if (s) {
            copse__segment_release(&first);
            return s;
        }
        taken += more;
        at = &(*at)->rest;
        first->parts++;
    } while (taken < count);
    *out = first;
    return COPSE_OK;
}

/* The commands with their long launches in pieces, and the work of each. */
struct pieces {
    struct {
        struct copse_command *at;
        size_t count, room;
    } commands;
    struct {
        uint64_t *at;
        size_t count, room;
    } units;
};

static void pieces_free(struct pieces *p, struct copse_mem *mem)
{
    copse__free(mem, p->commands.at);
    copse__free(mem, p->units.at);
}

static copse_status push_piece(struct pieces *p, struct copse_mem *mem,
                               const struct copse_command *c, uint64_t units)
{
    return COPSE_PUSH(mem, &p->commands, *c) && COPSE_PUSH(mem, &p->units, units)
               ? COPSE_OK
               : copse_fail(COPSE_ERR_NO_MEMORY, "segment: no memory for %zu commands",
                            p->commands.count);
}

/* A command that is refused when it is recorded is not looked at. */
static copse_status cut_launch(copse_device *dev, const struct copse_command *c, struct pieces *p)
{
    struct copse_mem *mem = &dev->base->mem;
    const uint64_t groups = (uint64_t)c->groups_x * c->groups_y;
    bool is_empty = true;
    if (copse__command_check(dev, c, &is_empty) || is_empty || copse__is_on_host(c))
        return push_piece(p, mem, c, 0);
    const uint64_t units = copse__pace_units(c), each = copse__pace_piece(dev, c, units);
    if (each >= groups)
        return push_piece(p, mem, c, units);
    for (uint64_t from = 0; from < groups; from += each) {
        const uint64_t some = COPSE_MIN(each, groups - from);
        const struct copse_command piece = copse__pace_cut(c, from, some);
        const double share = (double)some / (double)groups;
        COPSE_TRY(push_piece(p, mem, &piece, (uint64_t)((double)units * share)));
    }
    return COPSE_OK;
}

copse_status copse__segment_divide(copse_queue *q, const struct copse_command *commands,
                                   size_t count, size_t most, struct copse_segment **out)
{
    struct copse_mem *mem = &q->dev->base->mem;
    struct pieces p = { .units = { .count = 0 } };
    copse_status s = COPSE_OK;
    *out = NULL;
    if (!copse__pace_is_on(q->dev))
        return divide_commands(q, commands, NULL, count, most, out);
    for (size_t i = 0; i < count && !s; i++)
        s = cut_launch(q->dev, &commands[i], &p);
    if (!s)
        s = divide_commands(q, p.commands.at, p.units.at, p.commands.count, most, out);
    pieces_free(&p, mem);
    return s;
}

copse_status copse__segment_create(copse_queue *q, const struct copse_command *commands,
                                   size_t count, struct copse_segment **out)
{
    return copse__segment_divide(q, commands, count, SIZE_MAX, out);
}

static copse_status append_part(struct copse_segment *seg)
{
    copse_queue *q = seg->queue;
    COPSE_TRY(copse__queue_begin(q));
    seg->last = copse__queue_next(q);
    COPSE_TRY(copse__queue_result(q, q->dev->backend->replay(seg)));
    if (copse__trace_is_on(q->dev->base->trace))
        copse__clock_note(q, COPSE_STAMP_SEGMENT);
    return COPSE_OK;
}

/* Alone on its queue, on the host's clock. The first replay may compile, so two are measured. */
static copse_status measure_part(struct copse_segment *seg)
{
    copse_queue *q = seg->queue;
    COPSE_TRY(copse_queue_finish(q));
    const uint64_t start = copse__now_ns();
    COPSE_TRY(append_part(seg));
    COPSE_TRY(copse_queue_finish(q));
    const uint64_t ns = COPSE_MAX(copse__now_ns() - start, 1);
    seg->ns = seg->measured++ > 0 ? COPSE_MIN(seg->ns, ns) : ns;
    if (seg->measured == MEASUREMENTS)
        copse__pace_note(q->dev, seg->units, seg->ns);
    return COPSE_OK;
}

/* A submission ends before the part with which it would be too long. */
static copse_status pace_part(struct copse_segment *seg)
{
    copse_queue *q = seg->queue;
    if (seg->measured < MEASUREMENTS)
        return measure_part(seg);
    if (q->paced_ns > 0 && q->paced_ns + seg->ns > q->dev->pace.submission_ns)
        COPSE_TRY(copse_queue_submit(q, NULL));
    q->paced_ns += seg->ns;
    return append_part(seg);
}

static copse_status replay_part(struct copse_segment *seg)
{
    copse_queue *q = seg->queue;
    if (seg->count > 0)
        COPSE_TRY(copse__pace_is_on(q->dev) ? pace_part(seg) : append_part(seg));
    return seg->host ? copse__host_launch_run(q, seg->host) : COPSE_OK;
}

copse_status copse__segment_replay(struct copse_segment *seg)
{
    copse_queue *q = seg->queue;
    COPSE_TRY(copse__device_check(q->dev));
    for (struct copse_segment *part = seg; part; part = part->rest)
        COPSE_TRY(replay_part(part));
    if (seg->host || seg->rest) /* the first part is settled when all of them are */
        seg->last = copse__queue_next(q);
    return COPSE_OK;
}

uint32_t copse__segment_parts(const struct copse_segment *seg)
{
    return seg->parts;
}

copse_status copse__segment_replay_part(struct copse_segment *seg, uint32_t i)
{
    COPSE_TRY(copse__device_check(seg->queue->dev));
    if (!seg->newest || i < seg->newest_at) {
        seg->newest = seg;
        seg->newest_at = 0;
    }
    for (; seg->newest_at < i; seg->newest_at++) /* one step: parts are replayed in order */
        seg->newest = seg->newest->rest;
    COPSE_TRY(replay_part(seg->newest));
    seg->last = copse__queue_next(seg->queue); /* see copse__segment_replay */
    return COPSE_OK;
}

copse_status copse__segment_settle(const struct copse_segment *seg)
{
    copse_queue *q = seg->queue;
    if (seg->last > q->submitted)
        COPSE_TRY(copse_queue_submit(q, NULL));
    return copse__queue_await(q, seg->last);
}

static void release_part(struct copse_segment *seg)
{
    copse_device *dev = seg->queue->dev;
    if (seg->last > seg->queue->reached && !atomic_load(&dev->is_lost) &&
        copse__segment_settle(seg))
        copse__log(&dev->base->log, COPSE_LOG_ERROR, "segment: released while in use: %s",
                   copse_last_error());
    if (seg->count)
        dev->backend->segment_fini(seg);
    segment_destroy(seg);
}

void copse__segment_release(struct copse_segment **at)
{
    struct copse_segment *next = at ? *at : NULL;
    while (next) {
        struct copse_segment *seg = next;
        next = seg->rest;
        release_part(seg);
    }
    if (at)
        *at = NULL;
}
