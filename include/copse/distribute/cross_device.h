/* SPDX-License-Identifier: MIT */
/** @file Cross-device operations: how values of several replicas become one, and one value comes to
 * several replicas. A strategy has one set of them, chosen from measured link costs unless the
 * application gives its own.
 *
 * Dense sums are evaluated by the canonical tree over the rank order (docs/architecture.md), so
 * that every algorithm, packing and path gives the same bits. MEAN is that sum divided by `count`
 * afterwards; `count` counts values, not devices. One value alone is returned without arithmetic.
 *
 * Whole numbers (i32) follow one rule in every reduction of values: with or without an axis, by
 * replicas, over workers, and where a replica-local variable is aggregated. SUM wraps modulo 2^32,
 * as in NCCL and TensorFlow. MEAN is f32, and divides the exact sum, which does not wrap; after an
 * accumulation of the application it divides what that returned. Sums inside of a graph
 * (copse_all_reduce) are f32.
 *
 * Operations that the application gives a strategy (copse_strategy_set_cross_device) also do the
 * sums of training, in place of the library's exchange:
 *  - gradients of a trainer or train step: one batch for each update, with a value for each dense
 *    variable in order of creation. All of the loss function is computed by then, so nothing
 *    overlaps. With micro-batches this is once, after the last one. A scaled loss gives scaled
 *    gradients (optimizer.h);
 *  - gradients of tower optimizers, a call for each variable. A replica without one gives zeros;
 *  - copse_all_reduce in loss functions and calls, its derivatives, and values that several
 *    replicas assign (copse_update), but for COPSE_AGGREGATION_ONLY_FIRST_REPLICA.
 * The operation is SUM: shares of the batch are in the values, and nothing is divided after it.
 * Gradients of rows (docs/sparse.md) and sparse values are added by the library, as everywhere. The
 * result is one value, which all replicas of all workers get. Where operations fail, the step
 * returns their status and text: no variable, slot or count has changed, gradients that were
 * accumulated are dropped, and the next step can be taken. A job of one replica sums nothing.
 */
#ifndef COPSE_PUBLIC_DISTRIBUTE_CROSS_DEVICE_H
#define COPSE_PUBLIC_DISTRIBUTE_CROSS_DEVICE_H

#include "copse/distribute/value.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** How values are reduced. */
typedef enum copse_reduce_op {
    COPSE_REDUCE_SUM,
    COPSE_REDUCE_MEAN, /**< integers give an f32 result: their exact sum, divided */
} copse_reduce_op;

/** "sum" or "mean", whatever the case. @retval COPSE_ERR_ARGUMENT Another word. */
COPSE_API COPSE_CHECKED copse_status copse_reduce_op_parse(const char *text, copse_reduce_op *out);

typedef struct copse_cross_device copse_cross_device;

/** Algorithms. */
typedef enum copse_cross_device_kind {
    COPSE_CROSS_AUTO,       /**< the cheapest by measured link costs */
    COPSE_CROSS_TO_ONE,     /**< one by one: reduce on one device, copy to the destinations */
    COPSE_CROSS_ALL_REDUCE, /**< sharded over the devices, with packing */
    /** two groups with rotating roots; includes every device, odd counts too */
    COPSE_CROSS_HIERARCHICAL,
} copse_cross_device_kind;

/**
 * An application's own accumulation: all values, in rank order and on one device, become one of the
 * same shape and type. MEAN's division follows it. docs/callbacks.md says what it may call. With
 * several workers the first worker's function gets the values of the replicas of all, on the device
 * where it reduces, and the others receive what it gives; theirs is not called.
 * @param out  Receives one reference. If it stays NULL, COPSE_ERR_ARGUMENT follows; if it is no
 *             array, or one of another shape or type, COPSE_ERR_SHAPE.
 */
typedef copse_status copse_accumulate_fn(void *user, copse_value *const *values, size_t count,
                                         copse_value **out);

/**
 * Settings. A zeroed struct, or NULL, means the defaults in brackets. Packing, which the settings
 * from `packs` on describe, is for ALL_REDUCE, HIERARCHICAL, and AUTO where it chooses one of
 * these.
 */
struct copse_cross_device_params {
    copse_cross_device_kind kind;
    bool has_root; /**< TO_ONE: reduce at `root` instead of the first destination [false] */
    uint32_t root; /**< a rank, or COPSE_HOST */
    /** TO_ONE: instead of the sum; not for sparse values [NULL] */
    copse_accumulate_fn *accumulate;
    void *user;
    /** concatenate a batch and cut it into this many pieces of floor(total/packs) elements, the
       last takes the rest [0 = no] */
    uint32_t packs;
    /** packs 0: runs of consecutive tensors of at most so many bytes ... [0 = no] */
    size_t small_bytes;
    /** ... are joined, at most so many together; strictly [0 = 10] */
    uint32_t small_group;
    /** packs 0, small_bytes 0: join from the last tensor on, a new pack when one holds more than
       so many bytes [0 = one pack] */
    size_t pack_bytes;
    uint64_t reserved[4]; /**< 0 */
};

/** @retval COPSE_ERR_ARGUMENT  A setting is out of range, or does not belong to `kind`. */
COPSE_API COPSE_CHECKED copse_status copse_cross_device_create(
    copse_context *ctx, const struct copse_cross_device_params *params, copse_cross_device **out);
COPSE_API copse_cross_device *copse_cross_device_retain(copse_cross_device *x);
COPSE_API void copse_cross_device_release(copse_cross_device **x);
/** Name of the algorithm in use, such as "all_reduce". Lifetime: static. */
COPSE_API const char *copse_cross_device_name(const copse_cross_device *x);

/**
 * What it costs to bring bytes to a replica and back, and to sum there. COPSE_CROSS_AUTO chooses by
 * it; it never changes a bit of a result.
 */
struct copse_link {
    double latency;    /**< of an empty trip to the device and back [s] */
    double read_rate;  /**< device to host memory                   [bytes/s] */
    double write_rate; /**< host memory to device                   [bytes/s] */
    double sum_rate;   /**< bytes read by a sum                     [bytes/s] */
};
/**
 * What the links of a strategy cost. Measured by the first call, or by the first reduction that has
 * to choose; later calls give the same numbers.
 * @param links  Receives one entry per replica, then that of the host itself.
 * Blocking: while 1 MiB travels to every device and back a few times.
 */
COPSE_API COPSE_CHECKED copse_status copse_strategy_links(copse_strategy *st,
                                                          struct copse_link *links);
/** Give the costs instead, one entry per replica and one for the host.
    @retval COPSE_ERR_ARGUMENT  A rate is not positive, or a latency is negative. */
COPSE_API COPSE_CHECKED copse_status copse_strategy_set_links(copse_strategy *st,
                                                              const struct copse_link *links);

/**
 * Where results go. NULL or zeroed: to the replicas whose components are reduced, on their devices;
 * a plain or mirrored value stays where it is.
 */
struct copse_destinations {
    const copse_value *like; /**< the devices of this value or variable            [NULL] */
    /** else: these ranks of the strategy, or COPSE_HOST; none twice [NULL] */
    const uint32_t *ranks;
    size_t count; /**< of `ranks`; an empty list is refused */
};

/**
 * Reduce a per-replica value (of a structure: all leaves, as one batch) to a mirrored one at the
 * destinations. With one replica nothing is computed, and without destinations the result is plain.
 *
 * Dense components: f32 and i32. Division is rounded correctly on every device. The host computes
 * the MEAN of i32.
 *
 * Sparse components stay sparse: the slices of all replicas are joined in rank order, and those of
 * one row are added in that order; each row occurs once, and rows ascend. MEAN divides by the
 * number of replicas.
 *
 * A plain value with MEAN is that value everywhere, whatever its type; with SUM it is refused where
 * the strategy has more than one replica (one identical object is not N of them; literal zeros are
 * no exception), and the value itself with one replica. A mirrored value counts as plain, and so
 * does a variable whose components are kept equal.
 *
 * On a collective strategy the sum is that of the replicas of all workers, in the rank order of
 * all, with the bits of one process that has them; `count` is their number. All workers make the
 * same call with values of the same types and shapes, and each names its own destinations among its
 * replicas: nothing can be sent to another worker's device. A plain array or sparse value is there
 * what each of this worker's replicas gives: with one replica its value; with several, MEAN only.
 * What is mirrored is the same on all workers, and sends nothing. A worker that cannot take part
 * makes all fail with its status and its name, and all can go on.
 *
 * @param x  NULL: the defaults.
 * @retval COPSE_ERR_COMM      A worker was lost; the text names it.
 * @retval COPSE_ERR_TIMEOUT   A worker did not come within the cluster's deadline; the text names
 *                             it.
 * @retval COPSE_ERR_ARGUMENT  Unknown operation, empty destinations, an object of the application,
 *                             SUM of one identical value, or a value of another strategy. Or a
 *                             worker is at another call, such as MEAN: all get this, the text
 *                             names both calls, nothing is sent, and the job goes on.
 * @retval COPSE_ERR_SHAPE     Components differ in shape or type; the text names the replicas.
 *                             Where workers differ, every worker gets this, nothing is sent, and
 *                             the job goes on.
 * Blocking: may wait for devices, with a deadline. Thread-safety: one thread at a time per
 * strategy.
 */
COPSE_API COPSE_CHECKED copse_status copse_cross_reduce(copse_cross_device *x, copse_strategy *st,
                                                        copse_reduce_op op, copse_value *value,
                                                        const struct copse_destinations *to,
                                                        copse_value **out);
/** Several at once, which may be packed: f32 arrays, i32 arrays and sparse values each among
    themselves. `out` receives `count` references in the order of `values`.
    @retval COPSE_ERR_ARGUMENT  `count` is 0. On failure no entry of `out` is set. */
COPSE_API COPSE_CHECKED copse_status copse_cross_batch_reduce(
    copse_cross_device *x, copse_strategy *st, copse_reduce_op op, copse_value *const *values,
    const struct copse_destinations *to, size_t count, copse_value **out);
/** Copy one plain or mirrored value, or a structure of them, to the destinations, NULL = all
    replicas of this worker; the result is mirrored. Objects of the application stay as they are.
    Each worker copies its own value.
    @retval COPSE_ERR_ARGUMENT  Empty destinations, or a per-replica value. */
COPSE_API COPSE_CHECKED copse_status copse_cross_broadcast(copse_cross_device *x,
                                                           copse_strategy *st, copse_value *value,
                                                           const struct copse_destinations *to,
                                                           copse_value **out);

#if defined(__cplusplus)
}
#endif
#endif
