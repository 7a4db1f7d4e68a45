/* SPDX-License-Identifier: MIT */
/** @file
 * Distributed input: who reads which rows. A *pipeline* is one reader of data, such as a worker of
 * a cluster; it feeds the replicas of its own. A *minibatch* is what one replica gets in one step.
 *
 * A global batch is split into one minibatch for every replica of all pipelines. A policy says
 * which files or minibatches are whose; a plan shows it without reading anything; a distributed
 * walk reads the part of one pipeline and gives a minibatch per replica and step.
 */
#ifndef COPSE_PUBLIC_DISTRIBUTE_INPUT_H
#define COPSE_PUBLIC_DISTRIBUTE_INPUT_H

#include "copse/data.h"
#include "copse/distribute/value.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* ---- the place of a pipeline among all ---- */

/** One pipeline among all. A zeroed struct means the defaults in brackets. */
struct copse_input_context {
    uint32_t pipelines;   /**< how many there are                                     [0 = 1] */
    uint32_t pipeline;    /**< which one this is, 0 to pipelines-1                    [0] */
    uint32_t replicas;    /**< in step with each other, of all pipelines together; a multiple of
                             `pipelines`                              [0 = one for each pipeline] */
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Examples of one replica in a global batch: global / replicas.
 *
 * @param in      NULL for defaults.
 * @param global  Examples of all replicas together, at least 1.
 *
 * @retval COPSE_ERR_ARGUMENT  Not divisible, or `in` breaks a rule.
 *
 * Thread-safety: any.
 */
COPSE_API COPSE_CHECKED copse_status
copse_input_per_replica_batch(const struct copse_input_context *in, size_t global, size_t *out);

/* ---- rules and policies, by name ---- */

/** Which part of the data a pipeline reads. With one pipeline all are the same. */
typedef enum copse_input_policy {
    COPSE_INPUT_AUTO, /**< "auto": FILE where there are files, else DATA */
    COPSE_INPUT_FILE, /**< "file": files in turn: i belongs to pipeline i % pipelines. Each pipeline
                           makes batches of its files' rows, and they are split as all are */
    /** "data": all read everything; each batch is split, then minibatch i belongs to pipeline i %
       pipelines */
    COPSE_INPUT_DATA,
    COPSE_INPUT_OFF, /**< "off": all read everything and get every minibatch */
} copse_input_policy;

/** Name of a rule; "?" outside the enum. Lifetime: static. Thread-safety: any. */
COPSE_API const char *copse_shard_rule_name(copse_shard_rule rule);
/** Name of a policy; "?" outside the enum. Lifetime: static. Thread-safety: any. */
COPSE_API const char *copse_input_policy_name(copse_input_policy policy);

/** The rule of a name, whatever the case. @retval COPSE_ERR_ARGUMENT Another word. */
COPSE_API COPSE_CHECKED copse_status copse_shard_rule_parse(const char *text,
                                                            copse_shard_rule *out);
/** The policy of a name, whatever the case. @retval COPSE_ERR_ARGUMENT Another word. */
COPSE_API COPSE_CHECKED copse_status copse_input_policy_parse(const char *text,
                                                              copse_input_policy *out);

/* ---- plans ---- */

/** Who reads what. Never changes. Thread-safety of all calls: any. */
typedef struct copse_input_plan copse_input_plan;

/** What to plan. Fields in brackets are defaults for zero. */
struct copse_input_plan_params {
    uint32_t pipelines;        /**<                                                 [0 = 1] */
    uint32_t replicas;         /**< of all pipelines     [0 = one for each]; else a multiple */
    size_t batch;              /**< examples of all replicas together; required */
    bool drop_last;            /**< leave out a last batch that is not full         [false] */
    copse_shard_rule rule;     /**< [COPSE_SHARD_BALANCED] */
    copse_input_policy policy; /**< [COPSE_INPUT_AUTO] */
    const char *const *files;  /**< paths, copied; they are not opened   [NULL: one dataset] */
    size_t file_count;         /**< */
    const uint64_t *file_rows; /**< rows of each file                      [NULL = not known] */
    uint64_t rows;             /**< rows of the dataset, where there are no files; below 2^32
                                                                             [0 = not known] */
    uint64_t reserved[4];      /**< 0 */
};

/**
 * Make a plan. Pure arithmetic: nothing is opened.
 *
 * @retval COPSE_ERR_ARGUMENT   A rule of the params is broken: such as fewer files than pipelines
 *                              under FILE (under AUTO too), FILE without files for several
 *                              pipelines, a batch that FIXED cannot split evenly.
 * @retval COPSE_ERR_NO_MEMORY
 *
 * Lifetime: retains the context. Thread-safety: any.
 */
COPSE_API COPSE_CHECKED copse_status copse_input_plan_create(
    copse_context *ctx, const struct copse_input_plan_params *params, copse_input_plan **out);
COPSE_API copse_input_plan *copse_input_plan_retain(copse_input_plan *plan);
/** Drop a reference and set `*plan` to NULL; NULL is fine. */
COPSE_API void copse_input_plan_release(copse_input_plan **plan);

/** What one pipeline reads in an epoch. */
struct copse_input_reading {
    copse_input_policy policy; /**< as decided: never AUTO */
    size_t files;              /**< that it opens; 0 without files */
    uint64_t rows;             /**< that it reads, its own minibatches or not; 0 = not known */
    uint32_t first, every;     /**< it gets minibatches first, first + every, ... of these rows */
    uint32_t replicas;         /**< minibatches of a step: replicas of one pipeline */
    uint64_t steps;            /**< of an epoch; 0 where `rows` is not known */
    uint64_t reserved[4];      /**< 0 */
};

/** @retval COPSE_ERR_ARGUMENT  No such pipeline. */
COPSE_API COPSE_CHECKED copse_status copse_input_plan_describe(const copse_input_plan *plan,
                                                               uint32_t pipeline,
                                                               struct copse_input_reading *out);
/**
 * The i-th file that a pipeline opens.
 * @param index  Receives its place in the list of all files; NULL to skip.
 * @return Its path, NULL when there is no such pipeline or file. Lifetime: that of the plan.
 */
COPSE_API const char *copse_input_plan_file(const copse_input_plan *plan, uint32_t pipeline,
                                            size_t i, size_t *index);

/** Rows of a minibatch, as places in the order of the epoch over what the pipeline reads. */
struct copse_input_shard {
    uint64_t first;
    size_t count; /**< may be 0; then `first` says nothing */
};

/**
 * What a replica of a pipeline gets in a step.
 * @param replica  Among those of the pipeline.
 * @retval COPSE_ERR_ARGUMENT  There is no such pipeline, step or replica, or the rows are not
 *                             known.
 */
COPSE_API COPSE_CHECKED copse_status copse_input_plan_shard(const copse_input_plan *plan,
                                                            uint32_t pipeline, uint64_t step,
                                                            uint32_t replica,
                                                            struct copse_input_shard *out);

/** How a plan is written. */
typedef enum copse_input_plan_form {
    COPSE_INPUT_PLAN_TEXT, /**< lines for people, each with its line feed */
    COPSE_INPUT_PLAN_JSON, /**< one object; what is not known is null */
} copse_input_plan_form;

/**
 * Write a plan.
 * @param steps  The minibatches of so many steps of each pipeline are listed; UINT64_MAX for all.
 * @param text   Receives at most `room` bytes, a 0 at the end included; NULL when `room` is 0.
 * @return Length of the whole text without the 0: it was cut when this is not below `room`.
 */
COPSE_API size_t copse_input_plan_write(const copse_input_plan *plan, copse_input_plan_form form,
                                        uint64_t steps, char *text, size_t room);

/* ---- a distributed walk ---- */

/** Walks over the part of one pipeline, a step after the other. One thread at a time. */
typedef struct copse_distributed copse_distributed;

/** What to walk over. Fields in brackets are defaults for zero. */
struct copse_distributed_params {
    /** retained; in the same order in every pipeline [NULL: files] */
    copse_dataset *data;
    /** each as for `copse_dataset_open`; those of this pipeline are read and joined [NULL:
       data] */
    const char *const *files;
    size_t file_count; /**< */
    /** how files are read. Not `labels` with several files. When pipelines read different files,
       `scale` must be COPSE_SCALE_NONE, and `classes` given if there are labels, because a part of
       the data may lack some */
    struct copse_dataset_params read;
    struct copse_input_context input; /**< which pipeline this is */
    copse_input_policy policy;        /**< [COPSE_INPUT_AUTO] */
    copse_shard_rule rule;            /**< [COPSE_SHARD_BALANCED] */
    /** `batch`: examples of all replicas together, required; it may be larger than the data. All
       pipelines need the same values. `prefetch` counts batches */
    struct copse_loader_params batches;
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Make a walk over global batches, ready at the first step of epoch 0.
 *
 * @retval COPSE_ERR_ARGUMENT   As for `copse_input_plan_create`; or data and files are both given,
 *                              or none; or a rule of `read` or `batches` is broken.
 * @retval COPSE_ERR_SHAPE      Files have rows of different shapes, or labels in some files alone.
 * @retval COPSE_ERR_NO_MEMORY
 * Errors of reading are those of `copse_dataset_open`.
 *
 * Lifetime: retains the context. Thread-safety: any. Blocking: while files are read.
 */
COPSE_API COPSE_CHECKED copse_status copse_distributed_create(
    copse_context *ctx, const struct copse_distributed_params *params, copse_distributed **out);

/** Stop the thread that prepares batches, if any; sets `*walk` to NULL; NULL is fine. */
COPSE_API void copse_distributed_release(copse_distributed **walk);

/**
 * Take the next step: one minibatch for each replica of the pipeline.
 *
 * @param shards  Receives `copse_distributed_replicas` of them; zeroed unless the result is
 *                COPSE_OK. A replica without rows has count 0 and no pointers. `rows` are rows of
 *                `copse_distributed_data`, `first` is the place in the order of its epoch, `index`
 *                is the step.
 *
 * @retval COPSE_ERR_END      The epoch is over; stays so until `copse_distributed_start`. Leaves
 *                            the text of the last error as it was.
 * @retval COPSE_ERR_TIMEOUT  The thread did not deliver within 120 s; the same step can be tried
 *                            again.
 * Errors of a function of the application are returned as they are, and the same step can be tried
 * again.
 *
 * Lifetime: what `shards` point to is valid until the next call on `walk`. Blocking: while a batch
 * is prepared.
 */
COPSE_API COPSE_CHECKED copse_status copse_distributed_next(copse_distributed *walk,
                                                            struct copse_host_batch *shards);

/**
 * Take the next step as a value that copse_strategy_run takes as an argument:
 *
 *     while ((s = copse_distributed_next_value(walk, st, &batch)) == COPSE_OK) {
 *         s = copse_strategy_run(st, fn, &batch, 1, user, &result); ...
 *
 * The function finds its minibatch by the names of the columns: copse_value_find(args[0], "x").
 *
 * @param st   A strategy with as many replicas in this process as the walk has minibatches in a
 *             step.
 * @param out  Receives a reference: a dictionary with a per-replica value for each column, whose
 *             components are arrays [rows of the minibatch, shape...] of the column's type on the
 *             replicas' devices. Numbers of rows may differ; a replica without rows has [0,
 *             shape...]. With one replica the values are plain arrays.
 *
 * @retval COPSE_ERR_END          As `copse_distributed_next`, as its other errors are.
 * @retval COPSE_ERR_ARGUMENT     The strategy has another number of replicas, or a column has no
 *                                data.
 * @retval COPSE_ERR_SHAPE        Minibatches that a function gave have different columns.
 * @retval COPSE_ERR_UNSUPPORTED  The default strategy.
 * After a failure of a walk over data the same step can be tried again; what a function gave is
 * dropped.
 *
 * Lifetime: the value retains strategy and context, and is independent of the walk. Thread-safety:
 * one thread at a time per walk and per strategy. Blocking: while a batch is prepared and copied to
 * staging memory.
 */
COPSE_API COPSE_CHECKED copse_status copse_distributed_next_value(copse_distributed *walk,
                                                                  copse_strategy *st,
                                                                  copse_value **out);

/** Minibatches of a step: the replicas of one pipeline, >= 1. */
COPSE_API uint32_t copse_distributed_replicas(const copse_distributed *walk);
/** Steps of an epoch, those that were padded included; UINT64_MAX when a function gives batches. */
COPSE_API uint64_t copse_distributed_steps(const copse_distributed *walk);
/** What the pipeline reads. Lifetime: that of the walk. NULL when a function gives batches. */
COPSE_API const copse_dataset *copse_distributed_data(const copse_distributed *walk);
/** Who reads what, with the rows of this pipeline known. Lifetime: that of the walk. NULL for walks
    made from a function. */
COPSE_API copse_input_plan *copse_distributed_plan(const copse_distributed *walk);

/**
 * Go to a step of an epoch.
 * @param step  0 to `copse_distributed_steps`.
 * @retval COPSE_ERR_ARGUMENT     There is no such epoch or step.
 * @retval COPSE_ERR_UNSUPPORTED  A function gives the batches.
 * @retval COPSE_ERR_TIMEOUT      The thread did not stop within 120 s.
 */
COPSE_API COPSE_CHECKED copse_status copse_distributed_start(copse_distributed *walk,
                                                             uint32_t epoch, uint64_t step);
/** Which step comes next: what `copse_distributed_start` takes to come back here. */
COPSE_API void copse_distributed_position(const copse_distributed *walk, uint32_t *epoch,
                                          uint64_t *step);

/**
 * Make epochs longer, so that pipelines with unequal data take equally many steps: in those behind
 * its own, all minibatches are empty. How many are needed is for the pipelines to agree on: the
 * most that `copse_distributed_steps` gives anywhere.
 * @param steps  At least the steps that the data makes.
 * @retval COPSE_ERR_ARGUMENT     Fewer than these.
 * @retval COPSE_ERR_UNSUPPORTED  A function gives the batches.
 */
COPSE_API COPSE_CHECKED copse_status copse_distributed_pad(copse_distributed *walk, uint64_t steps);

/* ---- from a function: batches of one replica ---- */

/** Gives a batch for one replica; called once per replica and step. COPSE_ERR_END: there are no
    more; then it is not called again. What it points to stays valid until the step after is asked
    for. */
typedef copse_status copse_replica_batch_fn(void *user, struct copse_host_batch *out);

/** Where the batches of a pipeline come from: `data` or `next`. */
struct copse_pipeline_source {
    copse_dataset *data; /**< with a reference that becomes the walk's */
    /** with `data`. `batch`: examples of *one* replica; `drop_last` leaves out a minibatch that
       is not full */
    struct copse_loader_params batches;
    copse_replica_batch_fn *next;
    void *user;                  /**< for `next` and `release` */
    void (*release)(void *user); /**< the walk goes away, or could not be made     [NULL] */
    uint64_t reserved[4];        /**< 0 */
};

/** Fills a zeroed `out`; called once for each pipeline, when its walk is made. */
typedef copse_status copse_pipeline_fn(void *user, const struct copse_input_context *in,
                                       struct copse_pipeline_source *out);

/** What becomes of the last minibatches when there is not one for every replica. */
typedef enum copse_last_step {
    COPSE_LAST_STEP_DROP,  /**< they are left out */
    COPSE_LAST_STEP_EMPTY, /**< they make a step, and later replicas get none */
} copse_last_step;

/** What to walk over. Fields in brackets are defaults for zero. */
struct copse_distributed_fn_params {
    copse_pipeline_fn *pipeline;
    void *user;
    struct copse_input_context input; /**< with the defaults filled in, what `pipeline` gets */
    copse_last_step last;             /**< [COPSE_LAST_STEP_DROP] */
    uint64_t reserved[4];             /**< 0 */
};

/**
 * Make a walk over batches of one replica each, which are not split: replica r of R gets batch
 * step * R + r. Which part of the data this pipeline reads is the function's choice.
 *
 * @retval COPSE_ERR_ARGUMENT   The function gave neither `data` nor `next`, or both; or a rule of
 *                              the params is broken.
 * @retval COPSE_ERR_NO_MEMORY Errors of the function are returned as they are; then `release` is
 * not called, and what it put into `data` is not released.
 *
 * Lifetime: retains the context. Thread-safety: any. Blocking: while the function runs.
 */
COPSE_API COPSE_CHECKED copse_status copse_distributed_from_function(
    copse_context *ctx, const struct copse_distributed_fn_params *params, copse_distributed **out);

#if defined(__cplusplus)
}
#endif
#endif
