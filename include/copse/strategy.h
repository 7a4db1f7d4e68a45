/* SPDX-License-Identifier: MIT */
/** @file
 * Strategies and variables: where replicas run, how their gradients become one, and the variables that
 * they train, mirror, or keep for themselves.
 *
 * **Handles.** Objects that a `_release` function takes live until their last reference is released. Trainers, train
 * steps, tower optimizers, partitioned variables, steps and values hold a reference to their strategy. A variable has
 * no reference of its own: it dies with its strategy. Its handle may be kept until the context is released; every call
 * with it returns COPSE_ERR_ARGUMENT and names the variable, and what it tells about itself (name, of which 47 bytes
 * are kept, shape, type, ...) stays. It may become the handle of a new variable when 63 others were released after
 * it. Replica contexts are numbers, refused when their call has ended (copse/distribute/replica.h). Borrowed handles
 * (copse_trainer_strategy, copse_train_step_trainer, copse_step_trainer, ...) live as long as their owner.
 *
 * **Functions of the application** that the library calls, and what they may call, themselves or on threads of replicas
 * that they start. Everything else is COPSE_ERR_CONTEXT, has no effect, and names the call and the function; the call
 * in progress goes on.
 *
 * | function                                                | may call                                         |
 * |---------------------------------------------------------|--------------------------------------------------|
 * | loss, losses and total loss function; gradient          | functions on graphs, values and copse_function;  |
 * | transform; schedule; factory of a tower optimizer;      | getters; copse_variable_read, copse_read;        |
 * | accumulate function of cross-device operations          | copse_trainer_cancel                             |
 * | update hook of a train step                             | all; on this train step and its trainer only     |
 * |                                                         | getters and copse_trainer_cancel                 |
 * | run function of a step                                  | all, but not copse_step_run or copse_monitor_run |
 * |                                                         | of this step                                     |
 * | function of a step that a monitor calls                 | all, but no call that changes this monitor       |
 * | function of a replica, a merge, an update; model        | all that its context allows (copse/distribute/replica.h)          |
 *
 * In a loss function and a transform, copse_merge_call, copse_replica_all_reduce, copse_assign and the like are
 * COPSE_ERR_UNSUPPORTED. A call that returns nothing (copse_trainer_unfeed, copse_global_step_set, the release of a
 * trainer, train step, tower optimizer, graph or monitor that the call in progress works on) and is refused logs an
 * error, leaves the caller's pointer as it is and the object alive; when the function returns, the call in progress
 * fails with COPSE_ERR_CONTEXT. Objects with references (strategies, steps, cross-device operations, values) may be
 * released anywhere: the call in progress holds a reference.
 * Callbacks of the context (memory, log, kernel cache) call nothing of the library.
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

/** What kind of strategy one is. */
typedef enum copse_strategy_kind {
    COPSE_STRATEGY_DEFAULT,    /**< what a thread is in outside of every strategy: one replica, on the host */
    COPSE_STRATEGY_ONE_DEVICE, /**< one replica on one device */
    COPSE_STRATEGY_MIRRORED,   /**< one replica per device of this process */
    COPSE_STRATEGY_COLLECTIVE, /**< mirrored, and in step with other workers */
    COPSE_STRATEGY_PARAMETER_SERVER, /**< variables with servers; see copse/distribute/parameter_server.h */
    COPSE_STRATEGY_ACCELERATOR, /**< mirrored over cores, several steps to a host call: copse/distribute/accelerator.h */
} copse_strategy_kind;

/** Settings of a strategy. A zeroed struct, or NULL, means the defaults in brackets. */
struct copse_strategy_params {
    copse_reduce_algorithm reduction;
    copse_transfer transfer;
    size_t bucket_bytes;  /**< gradients reduced together, cut at variables  [0 = 4 MiB] */
    size_t message_bytes; /**< longest staged piece                          [0 = 1 MiB] */
    const char *kernels;  /**< forced kernel variants: "matmul=wide,column_sum=reduce", see copse/device/tuning.h
                               [NULL = none] */
    const char *parameter_device; /**< see copse_parameter_server_create; else without effect [NULL] */
};

/**
 * One replica on one device.
 * @param device  Device id, such as "vulkan:0".
 * @retval COPSE_ERR_ARGUMENT   A setting out of its range, or no such kernel variant.
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
 * @param count  1 to COPSE_MAX_REPLICAS.
 * @retval COPSE_ERR_ARGUMENT   As above; or too many devices, or none.
 * @retval COPSE_ERR_NO_DEVICE  One of them is not there, or not usable; the text names it.
 * Lifetime, threads, blocking: as above.
 */
COPSE_API COPSE_CHECKED copse_status copse_mirrored_create(
    copse_context *ctx, const char *const *devices, size_t count,
    const struct copse_strategy_params *params, copse_strategy **out);

COPSE_API copse_strategy *copse_strategy_retain(copse_strategy *st);
COPSE_API void copse_strategy_release(copse_strategy **st);

COPSE_API copse_strategy_kind copse_strategy_kind_of(const copse_strategy *st);
/** "default", "one device", "mirrored", "collective", "parameter server" or "accelerator". Lifetime: static. */
COPSE_API const char *copse_strategy_name(const copse_strategy *st);

/** Number of this worker's replicas, >= 1. */
COPSE_API uint32_t copse_strategy_replicas(const copse_strategy *st);
/** Number of replicas of all workers, and the rank of this worker's first one among them. */
COPSE_API uint32_t copse_strategy_replicas_in_sync(const copse_strategy *st);
COPSE_API uint32_t copse_strategy_first_rank(const copse_strategy *st);
/** Description of a replica's device; NULL for the default strategy's. Lifetime: that of the strategy. */
COPSE_API const struct copse_device_info *copse_strategy_device(const copse_strategy *st,
                                                                uint32_t replica);
/**
 * Settings of a context as this strategy wants them: a copy, which strategies of one process leave as it
 * is; `config` is not touched. (tf.distribute: update_config_proto.)
 */
COPSE_API COPSE_CHECKED copse_status copse_strategy_update_config(
    const copse_strategy *st, const struct copse_context_params *config,
    struct copse_context_params *out);
/** Submissions to the queues of this worker's replicas since they were made, see copse_queue_submissions. Those of
    batches that are uploaded ahead of their steps, on other queues, are not counted. */
COPSE_API uint64_t copse_strategy_submissions(const copse_strategy *st);
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

/** When the components of a variable, one on each replica, become equal. */
typedef enum copse_synchronization {
    COPSE_SYNC_AUTO,     /**< ON_WRITE */
    COPSE_SYNC_NONE,     /**< accepted where there is one device, and ON_WRITE there */
    COPSE_SYNC_ON_WRITE, /**< mirrored: they are equal at all times, every change goes to all */
    COPSE_SYNC_ON_READ,  /**< replica-local: each replica reads and changes its own, without the others;
                              they are aggregated when read in a cross-replica context. Never trained */
} copse_synchronization;

/** How the components or values of replicas become one value of a variable. */
typedef enum copse_aggregation {
    COPSE_AGGREGATION_NONE, /**< they do not: replicas cannot write a mirrored variable, nor can a
                                 replica-local one be read as one */
    COPSE_AGGREGATION_SUM,
    COPSE_AGGREGATION_MEAN, /**< integers that differ have none */
    COPSE_AGGREGATION_ONLY_FIRST_REPLICA, /**< replica 0's, of the first worker; those of the others are dropped */
} copse_aggregation;

/** How to make a variable. */
struct copse_variable_params {
    const char *name;  /**< unique within the strategy, not empty; names the checkpoint entry */
    copse_shape shape; /**< at least one element */
    copse_type type;   /**< i32 ones are never trained                      [COPSE_F32] */
    copse_initializer initializer; /**< i32: zeros or ones */
    float scale;        /**< factor on the initial values, finite; i32: none [0 = 1] */
    uint64_t seed;      /**< of the initial values; mixed with the name */
    const void *values; /**< initial values instead, of `type`, row-major   [NULL] */
    copse_synchronization synchronization;
    copse_aggregation aggregation;
    bool is_frozen;     /**< not trained: loss functions read it, trainers let it be */
    copse_variable *colocate_with; /**< of the same strategy; keep it where that one is kept [NULL] */
};

/**
 * Make a variable with a component on every replica, all of which start from the same values; also
 * those of a replica-local SUM, which reads as N times them at first. A trained one is f32 and mirrored.
 * One-device strategies accept every synchronization and aggregation; they have no effect there.
 *
 * Inside copse_strategy_run all replicas make the same variables in the same order: replica 0 makes
 * each, the others receive it.
 *
 * On a collective strategy of several workers all of them make it, and one that is not trained waits for that.
 *
 * @retval COPSE_ERR_ARGUMENT  Name missing or taken, empty shape, an initializer that i32 has not, an
 *                             unknown synchronization or aggregation, NONE on several devices, or
 *                             a variable to colocate with that is another strategy's.
 * @retval COPSE_ERR_CONTEXT   The thread is in another strategy's context, in a loss function, or in a
 *                             replica that asks for another variable than replica 0 did.
 * @retval COPSE_ERR_SHAPE     A replica asks for another shape or type than replica 0 did.
 * @retval COPSE_ERR_UNSUPPORTED  The default strategy has no variables.
 * @retval COPSE_ERR_COMM      A worker was lost, or makes another variable; or with the status of a worker that cannot
 *                             make it, which the text names.
 * Lifetime: that of the strategy; a value of the variable (copse_variable_value) keeps that alive. The handle: see
 * above.
 */
COPSE_API COPSE_CHECKED copse_status copse_variable_create(
    copse_strategy *st, const struct copse_variable_params *params, copse_variable **out);

/** The variable as an operand, legal in every graph. Lifetime: that of the strategy. */
COPSE_API copse_tensor *copse_variable_tensor(copse_variable *v);
COPSE_API const char *copse_variable_name(const copse_variable *v);
COPSE_API copse_shape copse_variable_shape(const copse_variable *v);
COPSE_API copse_type copse_variable_type(const copse_variable *v);
/** As given; AUTO has become ON_WRITE. */
COPSE_API copse_synchronization copse_variable_synchronization(const copse_variable *v);
COPSE_API copse_aggregation copse_variable_aggregation(const copse_variable *v);
/** Whether trainers change it: f32, mirrored and not frozen. */
COPSE_API bool copse_variable_is_trained(const copse_variable *v);
/** Name of a component: the variable's on replica 0, with "/replica_<r>" behind it on replica r.
 * @param text  Room for `room` bytes; cut and terminated. */
COPSE_API void copse_variable_component_name(const copse_variable *v, uint32_t replica, char *text,
                                             size_t room);

/** Variables in order of creation. Lifetime: until the next variable is made. */
COPSE_API void copse_strategy_variables(copse_strategy *st, copse_variable *const **list,
                                        size_t *count);

/**
 * Copy a replica's component to host memory, whatever the context; see copse_read in copse/distribute/replica.h.
 * @param values  Room for every element, 4 bytes each; after COPSE_ERR_TIMEOUT still in use by the device.
 * Blocking: until queued work has run.
 */
COPSE_API COPSE_CHECKED copse_status copse_variable_read(copse_variable *v, uint32_t replica,
                                                         void *values);
/** Set the component of every replica of this worker to the same values, of the variable's type, whatever the
    context; see copse_assign in copse/distribute/replica.h. With several workers all give the same. */
COPSE_API COPSE_CHECKED copse_status copse_variable_assign(copse_variable *v, const void *values);

#if defined(__cplusplus)
}
#endif
#endif
