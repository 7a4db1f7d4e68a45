/* SPDX-License-Identifier: MIT */
/** @file Strategies and variables: where replicas run, how their gradients become one, and the
 * variables that they train, mirror, or keep for themselves.
 *
 * **Handles of variables.** A variable dies with its strategy. Its handle may be kept until the
 * context is released: calls with it return COPSE_ERR_ARGUMENT and name the variable; name (47
 * bytes), shape and type remain. A new variable may reuse it after 63 others were released.
 *
 * **Functions of the application** that the library calls (losses, transforms, schedules, hooks,
 * steps) may make the calls that docs/callbacks.md lists. Any other call returns COPSE_ERR_CONTEXT
 * and has no effect.
 */
#ifndef COPSE_PUBLIC_STRATEGY_H
#define COPSE_PUBLIC_STRATEGY_H

#include "copse/device.h"
#include "copse/tensor.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct copse_strategy copse_strategy;
typedef struct copse_variable copse_variable;

/** Most replicas of a job. */
#define COPSE_MAX_REPLICAS 64

/** Schedule of the canonical reduction tree. All give the same bits. */
typedef enum copse_reduce_algorithm {
    COPSE_REDUCE_AUTO,    /**< the library's choice */
    COPSE_REDUCE_SHARDED, /**< every replica reduces and updates a slice of each bucket */
    COPSE_REDUCE_TREE,    /**< pairwise up to replica 0, which updates, then broadcast */
    COPSE_REDUCE_TO_ONE,  /**< replica 0 reduces and updates, then broadcast */
} copse_reduce_algorithm;

/** How data moves between the devices of one process. */
typedef enum copse_transfer {
    COPSE_TRANSFER_AUTO,   /**< shared where every device can import host memory, else staged */
    COPSE_TRANSFER_SHARED, /**< in host memory that all devices import */
    COPSE_TRANSFER_STAGED, /**< through host memory, in chunks */
} copse_transfer;

/** Kind of a strategy. */
typedef enum copse_strategy_kind {
    COPSE_STRATEGY_DEFAULT,    /**< of threads outside every strategy: one replica, on the host */
    COPSE_STRATEGY_ONE_DEVICE, /**< one replica on one device */
    COPSE_STRATEGY_MIRRORED,   /**< one replica per device of this process */
    COPSE_STRATEGY_COLLECTIVE, /**< in step with other workers: distribute/collective.h */
    COPSE_STRATEGY_PARAMETER_SERVER, /**< variables on servers: distribute/parameter_server.h */
    COPSE_STRATEGY_ACCELERATOR, /**< several steps in one host call: distribute/accelerator.h */
} copse_strategy_kind;

/** Settings of a strategy. */
struct copse_strategy_params {
    copse_reduce_algorithm reduction;
    copse_transfer transfer;
    size_t bucket_bytes;  /**< gradients reduced together, whole variables   [4 MiB] */
    size_t message_bytes; /**< longest staged chunk                          [1 MiB] */
    /** forced kernel variants: "matmul=wide", device/tuning.h [NULL] */
    const char *kernels;
    const char *parameter_device; /**< for copse_parameter_server_create              [NULL] */
    uint32_t portable_shards;     /**< distribute/portable.h [0] */
    uint64_t reserved[7];
};

/**
 * One replica on one device.
 * @param device  Device id: "vulkan:0".
 * @param params  NULL for defaults.
 * @retval COPSE_ERR_ARGUMENT   A setting is out of its range, or no such kernel variant.
 * @retval COPSE_ERR_NO_DEVICE  No such usable device.
 * Blocks while the driver starts.
 */
COPSE_API COPSE_CHECKED copse_status
copse_one_device_create(copse_context *ctx, const char *device,
                        const struct copse_strategy_params *params, copse_strategy **out);

/**
 * One replica on each of the named devices; an id may occur several times. The order of the list is
 * the rank order, which defines the reduction tree.
 * @param count  1 to COPSE_MAX_REPLICAS.
 * Otherwise as copse_one_device_create.
 */
COPSE_API COPSE_CHECKED copse_status
copse_mirrored_create(copse_context *ctx, const char *const *devices, size_t count,
                      const struct copse_strategy_params *params, copse_strategy **out);

/**
 * Replicas on the devices that a selector names: one device makes a one-device strategy, several a
 * mirrored one.
 * @param selector  As for copse_select_devices; NULL: "auto".
 * @retval COPSE_ERR_ARGUMENT   The selector cannot be read, or names more than COPSE_MAX_REPLICAS
 *                              devices.
 * @retval COPSE_ERR_NO_DEVICE  Nothing matches; the text says what was found and what to install.
 * Otherwise as copse_one_device_create.
 */
COPSE_API COPSE_CHECKED copse_status copse_strategy_open(copse_context *ctx, const char *selector,
                                                         const struct copse_strategy_params *params,
                                                         copse_strategy **out);

COPSE_API copse_strategy *copse_strategy_retain(copse_strategy *st);
COPSE_API void copse_strategy_release(copse_strategy **st);

COPSE_API copse_strategy_kind copse_strategy_kind_of(const copse_strategy *st);
/** "default", "one device", "mirrored", "collective", "parameter server" or "accelerator".
    Static. */
COPSE_API const char *copse_strategy_name(const copse_strategy *st);

/** This worker's replicas, >= 1. */
COPSE_API uint32_t copse_strategy_replicas(const copse_strategy *st);
/** Replicas of all workers, and the rank of this worker's first one. */
COPSE_API uint32_t copse_strategy_replicas_in_sync(const copse_strategy *st);
COPSE_API uint32_t copse_strategy_first_rank(const copse_strategy *st);
/** A replica's device, borrowed; NULL for the default strategy. */
COPSE_API const struct copse_device_info *copse_strategy_device(const copse_strategy *st,
                                                                uint32_t replica);
/** How data moves between the replicas, for people. Static. */
COPSE_API const char *copse_strategy_transfer(const copse_strategy *st);

/** Initial values of a variable. fan_in, fan_out: the last two dimensions, times all others. */
typedef enum copse_initializer {
    /** of a trained variable of two or more dimensions GLOROT_UNIFORM, of others ZEROS */
    COPSE_INIT_DEFAULT,
    COPSE_INIT_ZEROS,
    COPSE_INIT_ONES,           /**< with `scale`: a constant */
    COPSE_INIT_GLOROT_UNIFORM, /**< U(+-sqrt(6 / (fan_in + fan_out))); Glorot and Bengio, 2010 */
    COPSE_INIT_HE_NORMAL,      /**< N(0, 2 / fan_in); He et al., 2015 */
    COPSE_INIT_NORMAL,         /**< N(0, 1) times `scale` */
    /** orthonormal columns or, if fewer, rows of [all axes but the last, last], times `scale`;
       Saxe et al., 2013 */
    COPSE_INIT_ORTHOGONAL,
    COPSE_INIT_TRUNCATED_NORMAL, /**< N(0, 1) within +-2, times `scale` */
} copse_initializer;

/** When the components of a variable, one on each replica, become equal. */
typedef enum copse_synchronization {
    COPSE_SYNC_AUTO,     /**< ON_WRITE */
    COPSE_SYNC_NONE,     /**< ON_WRITE; only with one device */
    COPSE_SYNC_ON_WRITE, /**< mirrored: always equal, every change goes to all replicas */
    /** replica-local: each replica reads and changes its own; a read outside of replicas
       aggregates. Never trained */
    COPSE_SYNC_ON_READ,
} copse_synchronization;

/** How the components or values of replicas become one value of a variable. */
typedef enum copse_aggregation {
    /** not: replicas cannot write a mirrored variable, and a replica-local one has no
       aggregate */
    COPSE_AGGREGATION_NONE,
    COPSE_AGGREGATION_SUM,
    COPSE_AGGREGATION_MEAN,               /**< of f32, and of equal integers */
    COPSE_AGGREGATION_ONLY_FIRST_REPLICA, /**< the value of the first worker's replica 0 */
} copse_aggregation;

/** How to make a variable. */
struct copse_variable_params {
    const char *name;  /**< unique within the strategy; name of the checkpoint entry,
                            UTF-8 */
    copse_shape shape; /**< at least one element */
    copse_type type;   /**< i32 is never trained                            [COPSE_F32] */
    copse_initializer initializer; /**< i32: zeros or ones                  [COPSE_INIT_DEFAULT] */
    float scale;                   /**< factor on the initial values, finite; not for i32 [0 = 1] */
    uint64_t seed;                 /**< of the initial values; mixed with the name */
    const void *values;            /**< initial values instead, of `type`, row-major   [NULL] */
    copse_synchronization synchronization;
    copse_aggregation aggregation;
    bool is_frozen; /**< not trained */
    bool is_sparse; /**< docs/sparse.md */
    /** store it where this variable of the strategy is stored [NULL] */
    copse_variable *colocate_with;
    uint64_t reserved[8];
};

/**
 * Make a variable with a component on every replica, all with the same initial values. A trained
 * one is f32 and mirrored. One-device strategies accept every synchronization and aggregation. All
 * replicas in copse_strategy_run and all workers of a collective strategy make the same variables
 * in the same order.
 * @retval COPSE_ERR_ARGUMENT     The name is missing, taken, impossible, the shape is empty, the
 *                                initializer is not for the type, synchronization or aggregation is
 *                                unknown, NONE on several devices, or `colocate_with` is another
 *                                strategy's.
 * @retval COPSE_ERR_CONTEXT      The thread is in another strategy's context, in a loss function,
 *                                or in a replica that makes another variable than replica 0.
 * @retval COPSE_ERR_SHAPE        A replica gives another shape or type than replica 0.
 * @retval COPSE_ERR_UNSUPPORTED  The default strategy has no variables.
 * @retval COPSE_ERR_COMM         A worker was lost. Where a worker cannot make it, all return its
 *                                status; where it makes another one, COPSE_ERR_ARGUMENT.
 * Blocks, with a collective strategy, until all workers are here.
 */
COPSE_API COPSE_CHECKED copse_status copse_variable_create(
    copse_strategy *st, const struct copse_variable_params *params, copse_variable **out);

/** The variable as an operand of any graph, borrowed. */
COPSE_API copse_tensor *copse_variable_tensor(copse_variable *v);
COPSE_API const char *copse_variable_name(const copse_variable *v);
COPSE_API copse_shape copse_variable_shape(const copse_variable *v);
COPSE_API copse_type copse_variable_type(const copse_variable *v);
/** AUTO has become ON_WRITE. */
COPSE_API copse_synchronization copse_variable_synchronization(const copse_variable *v);
COPSE_API copse_aggregation copse_variable_aggregation(const copse_variable *v);
/** Whether trainers change it: f32, mirrored and not frozen. */
COPSE_API bool copse_variable_is_trained(const copse_variable *v);
/** Variables in order of creation; borrowed, until the next variable is made. */
COPSE_API void copse_strategy_variables(copse_strategy *st, copse_variable *const **list,
                                        size_t *count);

/**
 * Copy a replica's component to host memory, in every context.
 * @param values  Every element, 4 bytes each; after COPSE_ERR_TIMEOUT the device still uses it.
 * Blocks until queued work has run.
 */
COPSE_API COPSE_CHECKED copse_status copse_variable_read(copse_variable *v, uint32_t replica,
                                                         void *values);
/** Set the component of every replica of this worker, in every context. All workers give the same
    values. */
COPSE_API COPSE_CHECKED copse_status copse_variable_assign(copse_variable *v, const void *values);

#if defined(__cplusplus)
}
#endif
#endif
