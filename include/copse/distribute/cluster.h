/* SPDX-License-Identifier: MIT */
/** @file
 * Clusters: which processes make up a job, which of them this one is, and how they talk.
 *
 * A job's processes are its *tasks*, each with a role and an index. Chief and workers train; worker
 * 0 is the chief where none is named. The description is JSON:
 *
 *     {"cluster": {"chief": ["a:7000"], "worker": ["b:7000", "c:7000"]},
 *      "task": {"type": "worker", "index": 0}}
 *
 * Under an MPI launcher nothing needs to be described: rank r is worker r.
 */
#ifndef COPSE_PUBLIC_DISTRIBUTE_CLUSTER_H
#define COPSE_PUBLIC_DISTRIBUTE_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "copse/context.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Most chiefs, workers and parameter servers of a job, together. */
#define COPSE_MAX_WORKERS 64

/** What a task is there for. */
typedef enum copse_role {
    COPSE_ROLE_CHIEF,     /**< a worker that also writes checkpoints; at most one */
    COPSE_ROLE_WORKER,    /**< trains */
    COPSE_ROLE_PS,        /**< parameter server: keeps variables, trains nothing */
    COPSE_ROLE_EVALUATOR, /**< evaluates checkpoints beside the job; at most one */
} copse_role;

/** Name of a role, as in the description: "chief", "worker", "ps", "evaluator". Lifetime:
    static. */
COPSE_API const char *copse_role_name(copse_role role);

/** A description, and the place of this process in it. Constant once made. */
typedef struct copse_cluster_spec copse_cluster_spec;

/**
 * Read a description. `cluster` lists the addresses ("host:port", "[::1]:port") of each role,
 * `task` says who this process is; `task.index` is 0 where it is missing. Other members are left
 * alone, so that a TF_CONFIG is a description too.
 *
 * @retval COPSE_ERR_FORMAT    Not JSON, or a member has the wrong type.
 * @retval COPSE_ERR_ARGUMENT  `cluster`, `task` or `task.type` is missing; an unknown role; a task
 *                             that the cluster does not have; two chiefs or evaluators; neither
 *                             chief nor worker; an address without a port, or the same address
 *                             twice.
 * Lifetime: until released; retains the context. Thread-safety: any.
 */
COPSE_API COPSE_CHECKED copse_status copse_cluster_spec_parse(copse_context *ctx, const char *json,
                                                              copse_cluster_spec **out);

/**
 * The description from the environment: COPSE_CONFIG, else TF_CONFIG, else an MPI launcher's
 * variables (Open MPI, MPICH and what shares its process manager), else the variables of a step of SLURM
 * (srun), whose tasks listen on ports from COPSE_PORT on [chosen by the number of the step].
 * @param out  NULL when there is none: the process trains alone.
 * @retval As `copse_cluster_spec_parse`.
 */
COPSE_API COPSE_CHECKED copse_status copse_cluster_spec_find(copse_context *ctx,
                                                             copse_cluster_spec **out);
/**
 * Of a job that a launcher described: the last `count` ranks are parameter servers. All tasks say
 * the same, before anything else is asked of the description.
 * @retval COPSE_ERR_ARGUMENT  Tasks are described by name, or no worker would be left.
 */
COPSE_API COPSE_CHECKED copse_status copse_cluster_spec_set_servers(copse_cluster_spec *spec,
                                                                    uint32_t count);
COPSE_API void copse_cluster_spec_release(copse_cluster_spec **spec);

/** Role and index of this process. */
COPSE_API copse_role copse_cluster_spec_role(const copse_cluster_spec *spec);
COPSE_API uint32_t copse_cluster_spec_index(const copse_cluster_spec *spec);
/** Whether an MPI launcher described the job: there are no addresses then. */
COPSE_API bool copse_cluster_spec_is_launched(const copse_cluster_spec *spec);
/** Tasks of a role, and the address of one: NULL where there is none. Lifetime: that of the
    spec. */
COPSE_API uint32_t copse_cluster_spec_tasks(const copse_cluster_spec *spec, copse_role role);
COPSE_API const char *copse_cluster_spec_address(const copse_cluster_spec *spec, copse_role role,
                                                 uint32_t index);

/** Whether this process writes checkpoints: the chief, worker 0 where there is no chief, and an
    evaluator, in a cluster of its own. */
COPSE_API bool copse_cluster_spec_is_chief(const copse_cluster_spec *spec);
/**
 * How many tasks train together (an evaluator: 1), and the rank of this one among them: the chief
 * first, then the workers.
 * @retval COPSE_ERR_ARGUMENT  A parameter server is none of them.
 */
COPSE_API COPSE_CHECKED copse_status copse_cluster_spec_workers(const copse_cluster_spec *spec,
                                                                uint32_t *count);
COPSE_API COPSE_CHECKED copse_status copse_cluster_spec_rank(const copse_cluster_spec *spec,
                                                             uint32_t *rank);

/* ---- the workers of a job, connected ---- */

/** Connected workers. */
typedef struct copse_cluster copse_cluster;

/** What carries bytes between workers. No bit of a result depends on it. */
typedef enum copse_engine {
    COPSE_ENGINE_AUTO, /**< MPI where an MPI launcher started the process, else Gloo */
    /** only for processes that an MPI launcher started; a lost worker ends the job */
    COPSE_ENGINE_MPI,
    /** TCP; any process may join by its address; a lost worker is noticed and named */
    COPSE_ENGINE_GLOO,
} copse_engine;

/** Whether parameter servers and their workers read each other's memory, by windows of the engine,
    or send messages. No bit of what a worker reads depends on it. */
typedef enum copse_one_sided {
    /** windows where they work between all tasks of the job: over MPI, see docs/cluster.md;
       messages elsewhere, and for large variables, see one_sided_bytes */
    COPSE_ONE_SIDED_AUTO,
    COPSE_ONE_SIDED_ON,  /**< windows for all; the cluster does not open where they do not work */
    COPSE_ONE_SIDED_OFF, /**< messages */
} copse_one_sided;

/** Settings of a cluster. A zeroed struct, or NULL, means the defaults in brackets. */
struct copse_cluster_params {
    copse_engine engine;
    uint32_t warn_ms; /**< waits longer than this are logged                     [5000] */
    /** waits longer than this fail and name the missing task [60000]; a parameter server treats a
       worker as lost when its process sends no heartbeat for this time, however long its steps
       take */
    uint32_t deadline_ms;
    /** absolute path of the folder with the engines, which only the user and root may change
       [COPSE_MODULES of the environment, else beside the library] */
    const char *modules;
    /** of a job with parameter servers; others have no windows [auto] */
    copse_one_sided one_sided;
    /** size of the window of each parameter server [bytes], 4096 to 2^30; variables that do not
       fit are sent in messages [16 MiB] */
    uint64_t window_bytes;
    /** with auto: larger variables [bytes] are sent in messages, which are faster for them
       (docs/performance.md) [512 KiB] */
    uint64_t one_sided_bytes;
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Connect with the other workers and the parameter servers of the job; all of them call this. The
 * engine is loaded now, and not before. Evaluators open no connection.
 *
 * Trust: any process that reaches the workers' addresses can take part. Use trusted networks only.
 *
 * @retval COPSE_ERR_ARGUMENT     A setting out of its range, or a worker has another version or
 *                                other settings; the text names it.
 * @retval COPSE_ERR_UNSUPPORTED  The engine is not installed; the text names the package. Or
 *                                windows are asked for and do not work; the text says why.
 * @retval COPSE_ERR_TIMEOUT      Somebody did not come; the text names them.
 * @retval COPSE_ERR_COMM         A worker was lost on the way; the text names it.
 * Lifetime: until released; retains context and spec. Thread-safety: one thread at a time.
 * Blocking: until all have come, at most deadline_ms.
 */
COPSE_API COPSE_CHECKED copse_status copse_cluster_open(copse_context *ctx,
                                                        copse_cluster_spec *spec,
                                                        const struct copse_cluster_params *params,
                                                        copse_cluster **out);
COPSE_API copse_cluster *copse_cluster_retain(copse_cluster *c);
/** Leave; the others are told. Over MPI all leave together. Blocking: 10 s at most. */
COPSE_API void copse_cluster_release(copse_cluster **c);

/** Rank of this worker and how many there are; they change when the cluster regroups. Parameter
    servers have the ranks behind those of the workers. */
COPSE_API uint32_t copse_cluster_rank(const copse_cluster *c);
COPSE_API uint32_t copse_cluster_size(const copse_cluster *c);
/** How many parameter servers there are. */
COPSE_API uint32_t copse_cluster_servers(const copse_cluster *c);
/** Name of the engine: "mpi", "gloo", "local". Lifetime: static. */
COPSE_API const char *copse_cluster_engine(const copse_cluster *c);
/** How this task and those on the other side, parameter servers and workers, reach each other. */
struct copse_one_sided_info {
    bool is_used;     /**< by windows, else by messages */
    const char *why;  /**< where it is not: why not, else "". Lifetime: that of the cluster */
    uint64_t pulls;   /**< times that this worker read its variables from a server's window, */
    uint64_t retries; /**< began such a read again, because the values changed under it, */
    uint64_t asked;   /**< and asked the server for them by a message */
    uint64_t pushes;  /**< gradients (of at most 64 KiB) that this worker left in its window for a
                           server, or that this server took there */
    uint64_t reserved[4]; /**< 0 */
};
/** Decided once, when the cluster is opened; the counts are as of now. Thread: as the cluster. */
COPSE_API void copse_cluster_one_sided(const copse_cluster *c, struct copse_one_sided_info *out);
/** Whether this worker writes checkpoints. */
COPSE_API bool copse_cluster_is_chief(const copse_cluster *c);
/** Whether a rank is known to be gone. Once one is, every call that needs the others fails; with
    parameter servers only what waits for that one does. */
COPSE_API bool copse_cluster_is_lost(const copse_cluster *c, uint32_t rank);

/** How many ranks are known to be gone, this one included where the others have given it up. */
COPSE_API uint32_t copse_cluster_lost(const copse_cluster *c);
/** Whether survivors can connect anew: not over MPI, where a lost worker ends the job. */
COPSE_API bool copse_cluster_can_regroup(const copse_cluster *c);

/**
 * After workers were lost: the survivors agree on who they are, and connect anew, in their old
 * order. All of them call this, and release first what was made on the cluster: trainers and
 * strategies. More may be lost meanwhile.
 *
 * So that two parts of a job that cannot see each other never both go on, the survivors must be
 * more than half of the workers that were connected last, or half of them with the first.
 *
 * @retval COPSE_ERR_UNSUPPORTED  The engine cannot, as MPI.
 * @retval COPSE_ERR_ARGUMENT     Nobody is lost.
 * @retval COPSE_ERR_COMM         Too few are left, or the others have given this worker up.
 * @retval COPSE_ERR_TIMEOUT      A survivor did not come: it counts as lost now, and the rest may
 *                                call this again.
 * Blocking: at most deadline_ms to agree, anew for each worker that is lost meanwhile, and once
 * more and 4 s to connect.
 */
COPSE_API COPSE_CHECKED copse_status copse_cluster_regroup(copse_cluster *c);

/**
 * This process has failed, and ends. Over MPI every process of the job ends at once, this one
 * included, and the launcher with `code`. Over other engines this returns once the others have been
 * told: what they wait for fails with `status`, and their text has `why` and this task's name; with
 * parameter servers only what waits for this one does. Release the cluster then. Nothing is told
 * where the cluster has failed before, nor a COPSE_ERR_COMM where a task is lost: the others see
 * that for themselves. For programs that are nothing but a worker, after a failure.
 *
 * @param status  What this process failed with, not COPSE_OK.
 * @param why     What is wrong, in one line; up to 300 bytes of it are told. Lifetime: until the
 *                call returns.
 * @param code    Exit code of this process, 1 to 255; others count as 1.
 * Thread-safety: as the cluster. Blocking: 200 ms at most.
 */
COPSE_API void copse_cluster_end_job(copse_cluster *c, copse_status status, const char *why,
                                     int code);

#if defined(__cplusplus)
}
#endif
#endif
