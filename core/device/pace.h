/* SPDX-License-Identifier: MIT */
/* Limits in time. Drivers of GPUs reset a device whose submission takes longer than seconds, so
   segments are cut into submissions of about 100 ms and launches into pieces of about 50 ms. CPUs
   have no such watchdog and no limit, unless COPSE_SUBMIT_MS forces one. */
#ifndef COPSE_PACE_H
#define COPSE_PACE_H

#include "core/device/backend.h"

#define COPSE_PACE_USUAL UINT32_MAX /* ctx->submit_ms: by the kind of the device */

/* The setting of a context, of COPSE_SUBMIT_MS; NULL: there is none. */
void copse__pace_setting(struct copse_context *ctx, const char *text);
/* Set the limits of a device that is being opened, and log them. */
void copse__pace_open(copse_device *dev);
/* The device is lost: when it is opened again in its context, its limits are half as long. */
void copse__pace_note_loss(copse_device *dev);

static inline bool copse__pace_is_on(const copse_device *dev)
{
    return dev->pace.submission_ns > 0;
}

/* What a command does: roughly multiplications and additions, and its words, which count more. */
uint64_t copse__pace_units(const struct copse_command *c);
/* By the newest measurements of the device [ns]. */
uint64_t copse__pace_estimate(const copse_device *dev, uint64_t units);
/* `units` were computed in this time. Short times are mostly latency: they never raise the
   estimate. */
void copse__pace_note(copse_device *dev, uint64_t units, uint64_t ns);

/* ---- launches in pieces (pace_pieces.c): commands of some groups each, which do not overlap ---- */

/* The groups of each piece of a command of so much work; all of them: it is not cut. */
uint64_t copse__pace_piece(const copse_device *dev, const struct copse_command *c, uint64_t units);
/* The piece of a whole launch from group `from` on. */
struct copse_command copse__pace_cut(const struct copse_command *c, uint64_t from, uint64_t groups);
/* Whether the command is a piece, but not the first one. Who looks at launches passes over it. */
bool copse__pace_continues(const struct copse_command *c);
/* The whole launch of a first piece, or the command itself. */
struct copse_command copse__pace_whole(const struct copse_command *c);
/* copse__queue_encode of this launch, each of its pieces in a submission of its own. */
copse_status copse__pace_encode(copse_queue *q, const struct copse_command *c);

#endif
