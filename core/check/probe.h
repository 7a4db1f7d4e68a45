/* SPDX-License-Identifier: MIT */
/* A probe: one launch whose buffers are read before and after it, computed again on the host, and
   compared. */
#ifndef COPSE_PROBE_H
#define COPSE_PROBE_H

#include "core/device/device.h"

/* Copies of the buffers of a launch. BEFORE has all buffers as they were before it, AFTER its
   results after it. KEPT has what the probe overwrites and copse__probe_restore writes back. */
enum copse_probe_when { COPSE_PROBE_BEFORE, COPSE_PROBE_AFTER, COPSE_PROBE_KEPT, COPSE_PROBE_WHEN };
struct copse_probe_area {
    unsigned char *memory;
    size_t at[COPSE_MAX_BINDINGS]; /* of each buffer; SIZE_MAX: it is not copied */
    size_t room;                   /* of `memory` */
};

struct copse_probe {
    copse_device *dev;            /* not a reference; NULL: nothing was read */
    struct copse_command command; /* without references to its buffers */
    struct copse_probe_area areas[COPSE_PROBE_WHEN];
    /* set before copse__probe_queue: the host computes some of the results (sample.h, part.h) */
    bool is_sampled;
    /* the buffers have the content that copse__probe_fill or copse__probe_disturb wrote */
    bool is_written;
};

/* An element of a result that is outside of its tolerance. */
struct copse_probe_fault {
    bool is_found;
    struct copse_binding result;     /* the buffer is not a reference */
    size_t element;                  /* of the result, 32-bit words */
    double got, expected, tolerance; /* tolerance 0: the same bits are expected */
};

/* Frees the memory; no read may be under way. A zeroed struct is fine. */
void copse__probe_free(struct copse_probe *p);

/* Whether the host can compute the command: a copy, a fill, or a kernel with a host function that
   is not on the host already. */
bool copse__probe_can(const struct copse_command *c);
/* Whether the command writes buffer `i`. */
bool copse__probe_is_result(const struct copse_command *c, uint32_t i);
/* Bytes of its buffers. */
size_t copse__probe_bytes(const struct copse_command *c);

/* Allocate the copies BEFORE and AFTER for a command. No read may be under way. The
   functions below do so, too. */
copse_status copse__probe_reserve(struct copse_probe *p, const copse_queue *q,
                                  const struct copse_command *c);
/* Then allocate KEPT: for the results, and with `has_operands` also for the operands. */
copse_status copse__probe_reserve_kept(struct copse_probe *p, bool has_operands);
/* The copy of buffer `i`, which has one. */
unsigned char *copse__probe_copy(const struct copse_probe *p, enum copse_probe_when when,
                                 uint32_t i);
/* Queue reads of the buffers, the command, and reads of its results. Allocates if the memory is too
   small; no earlier read may be under way. Of the first piece of a launch (core/device/pace.h), all
   pieces are queued; so in all functions here. */
copse_status copse__probe_queue(struct copse_probe *p, copse_queue *q,
                                const struct copse_command *c);
/* Before copse__probe_queue: keep the content of the buffers; then fill those of floats with
   numbers from 2^-6 to 2^2, of both signs where the command only reads. Both wait. */
copse_status copse__probe_keep(struct copse_probe *p, copse_queue *q,
                               const struct copse_command *c);
copse_status copse__probe_fill(struct copse_probe *p, copse_queue *q);
/* The reads have completed: whether the command left all of its results as they were. Then keep
   them, and write other floats to them. Waits. */
bool copse__probe_is_unchanged(const struct copse_probe *p);
copse_status copse__probe_disturb(struct copse_probe *p, copse_queue *q);
/* Queue writes of what was kept. */
copse_status copse__probe_restore(const struct copse_probe *p, copse_queue *q);
/* The reads have completed: compare. */
copse_status copse__probe_judge(const struct copse_probe *p, struct copse_probe_fault *out);

/* The reads have completed: a hash of the results. */
uint64_t copse__probe_results(const struct copse_probe *p);

/* ---- segments ---- */

/* The command number `which` of a segment, its parts counted through; NULL: it has fewer. A launch
   in pieces counts as one command, its first piece. */
const struct copse_command *copse__probe_command(const struct copse_segment *seg, size_t which);
/* Queue the commands of a segment one by one, the one with number `which` with the probe. */
copse_status copse__probe_replay(struct copse_probe *p, const struct copse_segment *seg,
                                 size_t which);
/* Before copse__probe_hashes: queue zeros for all that the commands write, as rows end with words
   that nothing writes. */
copse_status copse__probe_clear(const struct copse_segment *seg);
/* Execute the commands of a segment one by one, and call `fn` with a hash of what each one wrote.
   Its number is *count, which is increased. Waits for each command. */
typedef void copse_probe_hash_fn(void *user, size_t number, const char *kernel, uint64_t hash);
copse_status copse__probe_hashes(struct copse_probe *p, const struct copse_segment *seg,
                                 size_t *count, copse_probe_hash_fn *fn, void *user);
/* Digest of what a command does: its kernel, sizes and parameters; no addresses, no cuts. */
uint64_t copse__probe_hash(uint64_t hash, const struct copse_command *command);

#endif
