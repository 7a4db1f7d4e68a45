/* SPDX-License-Identifier: MIT */
#include "core/check/chain.h"

#include <stdio.h>

#include "core/check/bound.h"
#include "core/check/part.h"
#include "core/device/host_launch.h"
#include "core/device/pace.h"

#define MOST_BYTES ((size_t)1 << 30)   /* of the buffers of a launch */
#define MOST_WORK  ((uint64_t)1 << 26) /* of a launch that cannot be compared in part */
/* The same, of a kernel that an earlier chain compared. */
#define COVERED_WORK ((uint64_t)1 << 19)

enum scope { NOT, IN_PART, WHOLE };

static bool is_transfer(const struct copse_command *c)
{
    return c->kind == COPSE_COMMAND_COPY || c->kind == COPSE_COMMAND_FILL;
}

static bool is_divisible(const struct copse_command *c)
{
    struct copse_sample sample;
    struct copse_line_sample lines;
    struct copse_part part;
    return !is_transfer(c) && (copse__sample_of(c, &sample) || copse__line_sample_of(c, &lines) ||
                               copse__part_of(c, &part));
}

static enum scope scope_of(const struct copse_command *c, uint64_t most)
{
    if (!copse__probe_can(c) || copse__probe_bytes(c) > MOST_BYTES)
        return NOT;
    if (is_transfer(c) || copse__bound_work(c) <= most)
        return WHOLE;
    if (is_divisible(c))
        return IN_PART;
    return copse__bound_work(c) <= MOST_WORK ? WHOLE : NOT;
}

/* ---- kernels that an earlier chain compared ---- */

static atomic_uint *compared_by(const struct copse_command *c)
{
    return c->kind == COPSE_COMMAND_DISPATCH ? &((struct copse_kernel *)c->kernel)->compared_by
                                             : NULL;
}

/* Launches of other sizes, such as in a smaller last batch. */
static bool is_covered(const struct copse_chain *c, const struct copse_command *command)
{
    const atomic_uint *by = compared_by(command);
    const unsigned number = by ? atomic_load(by) : 0;
    return number != 0 && number != c->number;
}

/* A kernel that an earlier chain compared is compared in part; where it cannot be, only if that
   takes little. */
static enum scope scope_in(const struct copse_chain *c, const struct copse_command *command)
{
    if (!is_covered(c, command))
        return scope_of(command, c->most);
    if (scope_of(command, 0) == IN_PART)
        return IN_PART;
    return copse__bound_work(command) <= COVERED_WORK ? scope_of(command, c->most) : NOT;
}

static void note_compared(struct copse_chain *c, const struct copse_command *command)
{
    atomic_uint *by = compared_by(command);
    if (by && atomic_load(by) == 0)
        atomic_store(by, c->number);
}

static void log_skipped(const struct copse_chain *c, copse_queue *q,
                        const struct copse_command *command, bool has_memory)
{
    const char *why = !has_memory                  ? "the host has no memory for its buffers"
                      : !copse__probe_can(command) ? "it has no function for the host"
                      : is_covered(c, command)
                          ? "an earlier program compared it, and it has no parts"
                          : "its buffers, or the work on the host, are too large";
    copse__log(&q->dev->base->log, COPSE_LOG_DEBUG,
               "cross-check: %s: kernel %s is not compared: %s", q->dev->info.id,
               copse__command_name(command), why);
}

/* Only what may be compared in part is limited by the budget. */
static uint64_t work_of(const struct copse_command *c, uint64_t most)
{
    const uint64_t work = copse__bound_work(c);
    return work <= most && scope_of(c, most) == WHOLE && scope_of(c, 0) == IN_PART ? work : 0;
}

static uint64_t work_within(struct copse_segment *const *segments, uint32_t count, uint64_t most)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        for (const struct copse_segment *part = segments[i]; part; part = part->rest)
            for (size_t k = 0; k < part->count; k++)
                if (!copse__pace_continues(&part->commands[k]))
                    sum += work_of(&part->commands[k], most);
    return sum;
}

uint64_t copse__chain_most(struct copse_segment *const *segments, uint32_t count, uint64_t budget)
{
    uint64_t most = budget;
    while (most > 0 && work_within(segments, count, most) > budget)
        most /= 2;
    return most;
}

static copse_status chain_compare(struct copse_chain *c, copse_queue *q,
                                  const struct copse_command *command)
{
    COPSE_TRY(copse__probe_queue(&c->probe, q, command));
    COPSE_TRY(copse_queue_finish(q));
    const copse_status s = copse__probe_judge(&c->probe, &c->fault);
    c->lacks_memory |= s == COPSE_ERR_NO_MEMORY;
    return s == COPSE_ERR_NO_MEMORY ? COPSE_OK : s;
}

static copse_status chain_restore(struct copse_chain *c, copse_queue *q)
{
    COPSE_TRY(copse__probe_restore(&c->probe, q));
    return copse_queue_finish(q);
}

/* With made-up numbers. */
static copse_status run_restored(struct copse_chain *c, copse_queue *q,
                                 const struct copse_command *command)
{
    char text[COPSE_ERROR_BYTES];
    COPSE_TRY(copse__probe_keep(&c->probe, q, command));
    copse_status s = copse__probe_fill(&c->probe, q);
    if (s == COPSE_OK)
        s = chain_compare(c, q, command);
    if (s == COPSE_OK)
        s = chain_restore(c, q);
    if (s == COPSE_OK)
        return s;
    snprintf(text, sizeof text, "%s", copse_last_error());
    c->is_torn = chain_restore(c, q) != COPSE_OK;
    copse__fail_again(text);
    return s;
}

/* On the numbers of the step. Where nothing changes, memory may hold the results of an earlier
   run. */
static copse_status run_in_place(struct copse_chain *c, copse_queue *q,
                                 const struct copse_command *command)
{
    COPSE_TRY(chain_compare(c, q, command));
    if (c->fault.is_found || !copse__probe_is_unchanged(&c->probe))
        return COPSE_OK;
    if (copse__probe_reserve_kept(&c->probe, false) != COPSE_OK) {
        c->lacks_memory = true;
        return COPSE_OK;
    }
    COPSE_TRY(copse__probe_disturb(&c->probe, q));
    COPSE_TRY(chain_compare(c, q, command));
    return chain_restore(c, q);
}

static copse_status run_one(struct copse_chain *c, copse_queue *q,
                            const struct copse_command *command)
{
    const enum scope scope = scope_in(c, command);
    const bool has_memory =
        scope == NOT || (copse__probe_reserve(&c->probe, q, command) == COPSE_OK &&
                         (!c->restores || copse__probe_reserve_kept(&c->probe, true) == COPSE_OK));
    if (scope == NOT || !has_memory) {
        c->skipped++;
        log_skipped(c, q, command, has_memory);
        return c->restores ? COPSE_OK : copse__pace_encode(q, command);
    }
    c->probe.is_sampled = scope == IN_PART;
    c->lacks_memory = false;
    COPSE_TRY(c->restores ? run_restored(c, q, command) : run_in_place(c, q, command));
    if (c->lacks_memory && !c->fault.is_found) {
        c->skipped++;
        log_skipped(c, q, command, false);
        return COPSE_OK;
    }
    c->compared++;
    c->sampled += scope == IN_PART;
    c->work += scope == WHOLE ? work_of(command, c->most) : 0;
    if (!c->fault.is_found)
        note_compared(c, command);
    return COPSE_OK;
}

copse_status copse__chain_run(struct copse_chain *c, const struct copse_segment *segment)
{
    if (c->number == 0)
        c->number = atomic_fetch_add(&segment->queue->dev->chains, 1) + 1;
    for (const struct copse_segment *part = segment; part; part = part->rest) {
        for (size_t i = 0; i < part->count && !c->fault.is_found; i++)
            if (!copse__pace_continues(&part->commands[i]))
                COPSE_TRY(run_one(c, part->queue, &part->commands[i]));
        if (part->host && !c->restores && !c->fault.is_found)
            COPSE_TRY(copse__host_launch_run(part->queue, part->host));
    }
    return COPSE_OK;
}
