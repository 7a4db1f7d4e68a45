/* SPDX-License-Identifier: MIT */
/* The backend contract: tests that every device must pass, and their shared code. They run on the
   device that contract_device names; test_device.c is the program. */
#ifndef COPSE_CONTRACT_H
#define COPSE_CONTRACT_H

#include "tests/rig/rig.h"
/* checks of statuses, and then the backend that fails on demand */
#include "tests/rig/fake/fake_backend.h"

/* In the order in which they run: contract_memory.c, contract_order.c, contract_segment.c,
   contract_stamp.c, contract_limits.c. */
#define CONTRACT(X)                                     \
    X(write_and_read_keep_neighbours)                   \
    X(sizes_are_rounded_up_to_words)                    \
    X(large_transfers_arrive_whole)                     \
    X(many_transfers_fit_into_one_submission)           \
    X(written_bytes_are_taken_and_reads_are_in_order)   \
    X(fill_repeats_a_word_and_keeps_neighbours)         \
    X(copy_moves_ranges_and_keeps_neighbours)           \
    X(zero_sizes_are_legal)                             \
    X(host_memory_can_be_used_itself)                   \
    X(dependent_commands_run_in_order)                  \
    X(tickets_grow_and_are_reached_in_order)            \
    X(asking_becomes_true_without_waiting)              \
    X(two_queues_work_and_wait_for_each_other)          \
    X(one_queue_uploads_ahead_of_another)               \
    X(two_threads_have_a_queue_each)                    \
    X(kernels_are_compiled_once_per_specialisation)     \
    X(a_dispatch_keeps_to_its_binding)                  \
    X(more_groups_than_an_axis_holds_are_folded)        \
    X(a_cut_dispatch_gives_the_same)                    \
    X(segments_are_replayed_many_times)                 \
    X(replays_are_ordered_with_what_surrounds_them)     \
    X(a_long_segment_keeps_its_order)                   \
    X(long_launches_are_cut_and_compared_whole)         \
    X(a_segment_holds_its_buffers_and_waits_on_release) \
    X(buffers_may_be_released_while_work_is_queued)     \
    X(any_release_order_is_legal)                       \
    X(a_device_opens_several_times_and_in_parts)        \
    X(unknown_ids_are_no_devices)                       \
    X(the_description_makes_sense)                      \
    X(stamps_are_ordered_and_fit_the_hosts_time)        \
    X(stamps_that_are_not_known_are_refused)            \
    X(a_trace_of_the_devices_clock_changes_no_bit)      \
    X(broken_rules_are_named_and_queue_nothing)         \
    X(queues_are_limited_and_their_places_return)
#define CONTRACT_DECLARE(test) void test(void **state);
CONTRACT(CONTRACT_DECLARE)

#define KIB     ((size_t)1024)
#define MIB     (1024 * KIB)
#define LONG_NS 60000000000ull

struct rig {
    copse_context *ctx;
    copse_device *dev;
    copse_queue *queue;
    size_t blocks; /* live blocks before the device was opened */
};

extern const char *contract_device;
/* If an application lends the device: imports it into a context. The id is "import:1" in the
   context of a test. NULL: contract_device is a listed device. */
extern copse_status (*contract_lend)(copse_context *ctx, copse_device **out);
int contract_set_up(void **state);
/* Check that everything that a test made and released is freed, and that nothing was freed under
   queued work. */
int contract_tear_down(void **state);

#define SKIP(why)                                                   \
    do {                                                            \
        print_message("skipped on %s: %s\n", contract_device, why); \
        skip();                                                     \
    } while (0)

/* A context with the device. */
copse_context *rig_context(void);
copse_status rig_open(copse_context *ctx, copse_device **out);
copse_buffer *rig_buffer(struct rig *r, size_t size);
void read_now(copse_queue *q, copse_buffer *src, size_t offset, void *dst, size_t size);

/* New arrays of different values; freed with free. */
uint32_t *words(size_t count, uint32_t seed);
float *floats(size_t count);
void expect_words(const uint32_t *got, const uint32_t *want, size_t count);
/* The buffer holds -x. */
void expect_negated(struct rig *r, copse_buffer *buf, const float *x, size_t n);

/* The kernel of these tests: y = -x, exact on every device. */
struct copse_kernel *negate(struct rig *r);
/* Another specialisation of it: y = |x|. */
struct copse_kernel *absolute(struct rig *r);
uint64_t negate_groups(const struct copse_kernel *k, size_t count);
/* Groups `from` to `to` of the dispatch that negates `count` floats. */
struct copse_command negate_part(struct rig *r, copse_buffer *src, size_t src_offset,
                                 copse_buffer *dst, size_t dst_offset, size_t count, uint64_t from,
                                 uint64_t to);
struct copse_command negate_all(struct rig *r, copse_buffer *src, copse_buffer *dst, size_t count);
struct copse_command copy_all(copse_buffer *src, copse_buffer *dst, size_t size);

/* Run a reproducible mixture of dependent commands on a few buffers and on a model of them, and
   compare at the end. */
void run_mixture(copse_queue *q, struct rig *r, uint32_t seed, int steps);

#endif
