/* SPDX-License-Identifier: MIT */
/* The exchange of a gradient of rows: of one variable, whose ranks have lists of rows with a sum
 * for each (row_find.cl).
 *
 *   lists of all ranks --copy--> owner: the lists joined, each row once
 *       --tree--> sums --update rule, on these rows of values and slots--> new rows --copy-->
 *       values of all ranks
 *
 * Work, memory and copies depend on the length of the lists, not on the number of rows of the
 * variable. A list is as long as the longest one that a rank may have
 * (copse__row_exchange_reserve); shorter ones end with places that name no row. A sum is the
 * canonical tree over all ranks, in which a rank without the row adds 0: the bits of the dense
 * exchange where that evaluates the same tree (sum_schedule.h).
 */
#ifndef COPSE_ROW_EXCHANGE_H
#define COPSE_ROW_EXCHANGE_H

#include "core/reduce/exchange/exchange.h"

typedef struct copse_row_exchange copse_row_exchange;

struct copse_row_exchange_params {
    copse_context *ctx;
    /* of the variable, for texts; lives as long as the exchange */
    const char *name;
    const struct copse_exchange_rank *ranks; /* of this worker */
    const struct copse_binding *values;      /* of the variable, on each of them */
    uint32_t rank_count;
    uint32_t rows, width;            /* of the variable */
    struct copse_exchange_rule rule; /* for the rows of a list */
    size_t message_bytes;
    struct copse_group *group; /* outlives the exchange */
};

/* Slots, at their first values, at the owner: rank 0 of all. */
copse_status copse__row_exchange_create(const struct copse_row_exchange_params *params,
                                        copse_row_exchange **out);
/* Waits for queued work. NULL is fine. */
void copse__row_exchange_release(copse_row_exchange **x);

/* Lists of this worker's ranks have up to `count` places from now on. Records commands; later runs
   allocate nothing. Call it between runs. */
copse_status copse__row_exchange_reserve(copse_row_exchange *x, uint32_t count);
/* Queue a rank's list for the next run: `count` sorted rows, where the first of equal rows has the
   sum, and the sums [count, width]. Copied; 0 places: no row. Every rank gives one before each
   run. */
copse_status copse__row_exchange_give(copse_row_exchange *x, uint32_t rank,
                                      const struct copse_binding *rows,
                                      const struct copse_binding *sums, uint32_t count);

/* What copse__exchange_run does: join, update, and copy the new rows to all ranks; where the rule
   measures: join and measure. A wait for complete lists returns COPSE_ERR_CANCELLED after *stop
   became true (NULL: never), and nothing has changed. */
copse_status copse__row_exchange_run(copse_row_exchange *x, const uint64_t *ready,
                                     copse_busy_fn *busy, void *user, const atomic_bool *stop);
/* If the rule measures: update from the newest run, and copy the new rows. All workers finish the
   same exchanges in the same order. */
copse_status copse__row_exchange_finish(copse_row_exchange *x);
/* If the rule measures: queue the read of the owner's measures; then, behind a wait for its queue,
   they are parts of *count blocks (COPSE_MEASURE_WORDS f32 each); a worker without the owner has
   none. Or queue the write of one factor for all blocks. */
copse_status copse__row_exchange_read_measures(copse_row_exchange *x);
const float *copse__row_exchange_measures(const copse_row_exchange *x, size_t *count);
copse_status copse__row_exchange_write_factor(copse_row_exchange *x, float factor);
/* Only if all ranks have the same queue: queue a run without submitting it or waiting. */
copse_status copse__row_exchange_queue(copse_row_exchange *x);

/* copse__exchange_visit and copse__exchange_replay_by. Before the first run of a job of several
   workers nothing is visited. */
copse_status copse__row_exchange_visit(const copse_row_exchange *x, copse_replay_fn *visit,
                                       void *user);
void copse__row_exchange_replay_by(copse_row_exchange *x, const struct copse_segment *segment,
                                   copse_replay_fn *replay, void *user);
/* Between runs: queue a copy of the rows of the newest update, as a rank's table has them, to
   memory that *out binds. It binds none if no update of all ranks is known. */
copse_status copse__row_exchange_newest(copse_row_exchange *x, uint32_t rank,
                                        struct copse_binding *out);
/* For cross-checks, between runs: visit copies of the commands that a rank replays, with made-up
   lists in its memory. The copies bind the ends of the table and of its slots, with as many rows as
   the lists name. The function restores what `visit` changes, so the next run is not affected. */
copse_status copse__row_exchange_rehearse(copse_row_exchange *x, uint32_t rank,
                                          copse_replay_fn *visit, void *user);
/* Whether commands were recorded since the last call of copse__row_exchange_checked. */
bool copse__row_exchange_is_new(const copse_row_exchange *x);
void copse__row_exchange_checked(copse_row_exchange *x);
/* Whether it has this memory: lists, their sums, new rows, slots. */
bool copse__row_exchange_has(const copse_row_exchange *x, const copse_buffer *buffer);

/* The slots: slot k begins at byte k * *stride of memory->buffer. False: this worker has none. */
bool copse__row_exchange_slots(const copse_row_exchange *x, struct copse_slice_memory *memory,
                               size_t *stride);

/* Of a run of this worker: places of all lists, invocations of its longest launch, bytes between
   its queues and to and from other workers. */
struct copse_row_exchange_size {
    uint64_t places, invocations, bytes;
};
struct copse_row_exchange_size copse__row_exchange_size(const copse_row_exchange *x);

#endif
