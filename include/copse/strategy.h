/* SPDX-License-Identifier: MIT */
/** @file
 * Strategies and variables: where replicas run, how their gradients become one, and the mirrored
 * variables that they train.
 */
#ifndef COPSE_STRATEGY_H
#define COPSE_STRATEGY_H

#include "copse/device.h"
#include "copse/tensor.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct copse_strategy copse_strategy;
typedef struct copse_variable copse_variable;

/** Most replicas of one process. */
#define COPSE_MAX_REPLICAS 64

/** Schedule that evaluates the canonical reduction tree. All give the same bits. */
typedef enum copse_reduce_algorithm {
    COPSE_REDUCE_AUTO,    /**< chosen by the library */
    COPSE_REDUCE_SHARDED, /**< every replica reduces and updates its share of each bucket */
    COPSE_REDUCE_TREE,    /**< pairwise up to replica 0, which updates, then handed on */
    COPSE_REDUCE_TO_ONE,  /**< everything to replica 0, which reduces and updates, then broadcast */
} copse_reduce_algorithm;

/** How bytes travel between the devices of one process. */
typedef enum copse_transfer {
    COPSE_TRANSFER_AUTO,   /**< shared where every device can import host memory, else staged */
    COPSE_TRANSFER_SHARED, /**< gradients and values stand in host memory that all devices import */
    COPSE_TRANSFER_STAGED, /**< read to host memory and written again, in pieces */
} copse_transfer;

/** Settings of a strategy. A zeroed struct, or NULL, means the defaults in brackets. */
struct copse_strategy_params {
    copse_reduce_algorithm reduction;
    copse_transfer transfer;
    size_t bucket_bytes;  /**< gradients reduced together, cut at variables  [0 = 4 MiB] */
    size_t message_bytes; /**< longest staged piece                          [0 = 1 MiB] */
    const char *matmul;   /**< force this matrix-product variant             [NULL = choose] */
};

/**
 * One replica on one device.
 * @param device  Device id, such as "vulkan:0".
 * @retval COPSE_ERR_NO_DEVICE  No such usable device.
 * Lifetime: retains the context. Thread-safety: one thread at a time per strategy and all that is
 * made from it. Blocking: while the driver starts.
 */
COPSE_API COPSE_CHECKED copse_status copse_one_device_create(
    copse_context *ctx, const char *device, const struct copse_strategy_params *params,
    copse_strategy **out);

/**
 * One replica on each of the named devices; an id may stand several times. The order of the list
 * is the rank order, which defines the reduction tree.
 */
COPSE_API COPSE_CHECKED copse_status copse_mirrored_create(
    copse_context *ctx, const char *const *devices, size_t count,
    const struct copse_strategy_params *params, copse_strategy **out);

COPSE_API copse_strategy *copse_strategy_retain(copse_strategy *st);
COPSE_API void copse_strategy_release(copse_strategy **st);

/** Number of replicas, >= 1. */
COPSE_API uint32_t copse_strategy_replicas(const copse_strategy *st);
/** Description of a replica's device. Lifetime: that of the strategy. */
COPSE_API const struct copse_device_info *copse_strategy_device(const copse_strategy *st,
                                                                uint32_t replica);
/** How bytes travel between the replicas, in words for people. Lifetime: static. */
COPSE_API const char *copse_strategy_transfer(const copse_strategy *st);

/** How a variable starts. fan_in, fan_out: first and last dimension. */
typedef enum copse_initializer {
    COPSE_INIT_ZEROS,
    COPSE_INIT_ONES,
    COPSE_INIT_GLOROT_UNIFORM, /**< U(+-sqrt(6 / (fan_in + fan_out))); Glorot and Bengio, 2010 */
    COPSE_INIT_HE_NORMAL,      /**< N(0, 2 / fan_in); He et al., 2015 */
    COPSE_INIT_NORMAL,         /**< N(0, 1) times `scale` */
} copse_initializer;

/** How to make a variable. */
struct copse_variable_params {
    const char *name;  /**< unique within the strategy, not empty; names the checkpoint entry */
    copse_shape shape; /**< at least one element */
    copse_initializer initializer;
    float scale;        /**< factor on the initial values                   [0 = 1] */
    uint64_t seed;      /**< of the initial values; mixed with the name */
    const float *values; /**< initial values instead, row-major             [NULL] */
};

/**
 * Make a trainable f32 variable, mirrored on every replica. All variables of a strategy must be
 * made before its first trainer.
 * @retval COPSE_ERR_ARGUMENT  Name missing or taken, empty shape, or the store is already built.
 * Lifetime: that of the strategy.
 */
COPSE_API COPSE_CHECKED copse_status copse_variable_create(
    copse_strategy *st, const struct copse_variable_params *params, copse_variable **out);

/** The variable as an operand, legal in every graph. Lifetime: that of the strategy. */
COPSE_API copse_tensor *copse_variable_tensor(copse_variable *v);
COPSE_API const char *copse_variable_name(const copse_variable *v);
COPSE_API copse_shape copse_variable_shape(const copse_variable *v);

/** Variables in order of creation. Lifetime: until the next variable is made. */
COPSE_API void copse_strategy_variables(copse_strategy *st, copse_variable *const **list,
                                        size_t *count);

/**
 * Copy a replica's values to host memory.
 * @param values  Room for every element; after COPSE_ERR_TIMEOUT still in use by the device.
 * Blocking: until queued work has run.
 */
COPSE_API COPSE_CHECKED copse_status copse_variable_read(copse_variable *v, uint32_t replica,
                                                         float *values);
/** Set the values of every replica. */
COPSE_API COPSE_CHECKED copse_status copse_variable_assign(copse_variable *v, const float *values);

#if defined(__cplusplus)
}
#endif
#endif
