/* SPDX-License-Identifier: MIT */
/* Launches in pieces: commands of some groups each, each short enough for the
   watchdog of a driver. */
#include "core/device/device.h"
#include "core/device/pace.h"

static uint64_t groups_of(const struct copse_command *c)
{
    return (uint64_t)c->groups_x * c->groups_y;
}

static uint32_t base_of(const struct copse_command *c)
{
    return c->params[c->kernel->row->param_words];
}

/* Kernels of applications may number their groups in another way. */
static bool can_cut(const copse_device *dev, const struct copse_command *c)
{
    return c->kind == COPSE_COMMAND_DISPATCH && dev->limits->has_group_base && base_of(c) == 0 &&
           c->kernel->row >= copse_kernel_table &&
           c->kernel->row < copse_kernel_table + copse_kernel_count;
}

/* A piece is not folded: surplus groups would belong to the next piece. */
uint64_t copse__pace_piece(const copse_device *dev, const struct copse_command *c, uint64_t units)
{
    const uint64_t groups = groups_of(c), most = dev->limits->max_group_count;
    if (!can_cut(dev, c))
        return groups;
    const uint64_t ns = copse__pace_estimate(dev, units);
    const uint64_t pieces = ns / COPSE_MAX(dev->pace.submission_ns / 2, 1) + 1;
    const uint64_t each = (groups + pieces - 1) / pieces;
    return each < groups ? COPSE_MIN(each, most) : groups;
}

struct copse_command copse__pace_cut(const struct copse_command *c, uint64_t from, uint64_t groups)
{
    struct copse_command piece = *c;
    piece.params[c->kernel->row->param_words] = (uint32_t)from;
    piece.groups_x = (uint32_t)groups;
    piece.groups_y = 1;
    piece.whole_x = c->groups_x;
    piece.whole_y = c->groups_y;
    return piece;
}

bool copse__pace_continues(const struct copse_command *c)
{
    return c->whole_x > 0 && base_of(c) > 0;
}

struct copse_command copse__pace_whole(const struct copse_command *c)
{
    struct copse_command whole = *c;
    if (c->whole_x > 0) {
        whole.groups_x = c->whole_x;
        whole.groups_y = c->whole_y;
        whole.whole_x = whole.whole_y = 0;
    }
    return whole;
}

copse_status copse__pace_encode(copse_queue *q, const struct copse_command *c)
{
    const struct copse_command whole = copse__pace_whole(c);
    const uint64_t groups = groups_of(&whole), each = groups_of(c);
    if (each == groups)
        return copse__queue_encode(q, &whole);
    for (uint64_t from = 0; from < groups; from += each) {
        const struct copse_command piece =
            copse__pace_cut(&whole, from, COPSE_MIN(each, groups - from));
        COPSE_TRY(copse__queue_encode(q, &piece));
        COPSE_TRY(copse_queue_submit(q, NULL));
    }
    return COPSE_OK;
}
