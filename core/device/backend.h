/* SPDX-License-Identifier: MIT */
/* The backend interface: one table of functions per API and the structs behind the public handles.
 *
 * Rules:
 *  - Core validates, once, in device.c, buffer.c, queue.c and segment.c. A backend may assume valid
 *    input: ranges inside buffers, sizes > 0 and multiples of 4, alignment kept, group counts > 0
 *    and within limits.
 *  - Core allocates every handle, with the private tail the backend declares (zeroed), and keeps
 *    the reference counts. A backend never allocates a handle.
 *  - `*_fini` is called exactly once for each `*_init` that was called, failed ones included: it
 *    must accept a half-built object. Core calls it only when no ticket needs the object any more.
 *  - A queue is in order, including memory effects: the backend inserts barriers between dependent
 *    commands (args[].is_written of the kernel row marks written buffers), and none elsewhere.
 *  - A backend includes only this file, core/base and its own folder.
 *  - Errors are returned with text from copse_fail; a lost device is COPSE_ERR_DEVICE_LOST (core
 *    keeps the sticky flag and refuses later calls). Never abort, print, or wait without a
 *    deadline.
 *  - Threads: list/open/close/memory/buffer_* /kernel_* may be called from any thread, also
 *    while another thread uses a queue of the same device. One thread at a time per queue; a
 *    segment belongs to the queue it was made for.
 */
#ifndef COPSE_BACKEND_H
#define COPSE_BACKEND_H

#include "copse/device.h"
#include "copse/device/queue.h"
#include "core/base/base.h"
#include "core/base/platform.h"
#include "core/device/facts.h"
#include "core/device/kernel/command.h"
#include "core/trust/tuning.h"

/* Locks and unlocks a driver's queue that other code also uses, around each use. */
struct copse_queue_guard {
    void (*lock)(void *user), (*unlock)(void *user);
    void *user;
};

/* An application's own device, as the backend's public import function describes it to core. If
   open gets `foreign`, the backend uses these handles, destroys none of them, and guards its
   submissions. */
struct copse_foreign_device {
    /* a struct of the backend, without pointers into the application's memory */
    const void *handles;
    size_t handles_size;
    struct copse_queue_guard guard; /* both functions or none; if none, core uses its own lock */
    uint64_t memory_limit;          /* bytes of buffers, 0 = no limit; enforced by core */
};

struct copse_device {
    copse_refs refs;
    struct copse_context *ctx;
    struct copse_base *base; /* of the context */
    const struct copse_backend *backend;
    struct copse_device_info info;
    const struct copse_limits *limits;          /* = &info.limits, after core's caps */
    uint32_t index;                             /* of the device within its backend, as in the id */
    uint32_t part, parts;                       /* which part of the device; parts >= 1 */
    const struct copse_foreign_device *foreign; /* NULL = the library's own */
    struct copse_import *import;                /* the owner of `foreign`; core's */
    copse_priority priority;                    /* that its work should have */
    bool has_priority;   /* set by `open`: it will have it; not for COPSE_PRIORITY_NORMAL */
    char why_not[160];   /* set by `open`: why it has none ["it has no priorities"] */
    atomic_bool is_lost; /* sticky */
    atomic_uint chains;  /* so many have compared launches (core/check/chain.h) */
    void (*close)(struct copse_device *dev);   /* core's, called at the last release */
    copse_mutex lock;                          /* guards the lists below */
    struct copse_kernel *kernels;              /* compiled, by row and specialisation */
    _Atomic uint64_t kernel_made_ns;           /* when the newest was compiled, 0: none yet */
    const struct copse_kernel_row **overrides; /* by kernel id, for kernels under test; or NULL */
    struct copse_block_list *block_list; /* blocked kernels of the device, owned by the context */
    atomic_bool is_told_short;           /* the log has said that buffers pass its budget */
    bool compiles_serially;              /* the driver compiles one kernel at a time in a process */
    /* results have the same bits on all such devices: the limits that choose kernels and orders of
       sums are the same (device.c), backends compile kernels without contraction and fused
       products, and launches keep the order of the nodes (schedule.c) */
    bool is_portable;
    bool tries_blocked; /* under test: blocked kernels are used */
    /* by kind, the self-tests of the library product that passed here (library_product.c) */
    atomic_uint products_passed[16];
    /* submissions near this time [ns, 0: no limit], and the newest estimate of a unit of work
       (pace.h) [ps] */
    struct {
        uint64_t submission_ns;
        _Atomic uint64_t ps;
    } pace;
    struct copse_tuning tuning;    /* the measurements of variants, read when it was opened */
    struct copse_buffer *garbage;  /* released, waiting for tickets */
    struct copse_buffer *pool;     /* released and idle, for reuse */
    atomic_size_t bytes;           /* of all buffers, with the pool */
    atomic_uint imports;           /* buffers of imported host memory */
    atomic_bool is_clock_reported; /* the log says that it has no clock, or that a stamp failed */
    struct copse_queue *queues;    /* all queues of the device */
    void *priv;
};

struct copse_buffer {
    copse_refs refs;
    copse_device *dev;
    size_t size;               /* bytes, multiple of 4 */
    void *host;                /* imported host memory, or NULL */
    bool is_pooled;            /* returned to the pool */
    struct copse_buffer *next; /* in garbage or pool */
    uint64_t after[8];         /* garbage: tickets of the device's queues to wait for */
    void *priv;
};

struct copse_queue {
    copse_refs refs;
    copse_device *dev;
    uint64_t submitted;    /* newest ticket given out */
    uint64_t reached;      /* newest ticket known to have completed */
    bool has_open_work;    /* commands since the last submit */
    bool is_for_transfers; /* takes no kernels: may run beside the other queues */
    uint64_t paced_ns;     /* estimate of its segments (pace.h) */
    uint64_t read_ticket;  /* the ticket of the newest read into host memory; 0: none */
    bool is_unsettled;     /* a call has failed, and work may use host memory for good */
    uint32_t slot;         /* index into copse_buffer.after */
    /* for traces: when the work that is not known to have completed began, 0: not recorded; and
       the replica, as "replica 3: " */
    uint64_t work_began;
    char owner[24];
    struct copse_clock *clock; /* of its stamps (clock.h); NULL: it has made none */
    struct copse_queue *next;
    void *priv;
};

/* What the driver says of the memory for buffers [bytes]. */
struct copse_device_memory {
    uint64_t total;       /* 0 = unknown */
    bool is_free_known;   /* else the next two are 0 */
    uint64_t free;        /* that the process may still allocate */
    uint64_t over_budget; /* that the process should give back */
};

/* A recorded list of commands, replayed many times. */
struct copse_segment {
    copse_queue *queue;             /* not a reference; the owner of the segment keeps it */
    struct copse_command *commands; /* owned by core, constant after segment_init */
    size_t count;
    uint64_t last;      /* ticket of its last replay; core's */
    uint64_t units, ns; /* core's: its work (pace.h); the best measured time, 0: none */
    uint32_t measured;  /* core's: how often */
    /* Core's: a launch that the host computes after these commands, and the next part. */
    struct copse_host_launch *host;
    struct copse_segment *rest;
    /* Core's, of the first part: how many there are, and the newest one that was replayed alone */
    uint32_t parts, newest_at;
    struct copse_segment *newest;
    void *priv;
};

/* `list` reports the devices here. */
struct copse_device_sink {
    struct copse_base *base;
    /* Add a device; `info` is copied. Core fills id, backend, same_as and applies its caps.
       Unusable devices are reported too, with is_usable false and the reason. */
    copse_status (*add)(struct copse_device_sink *sink, const struct copse_device_info *info);
    char detail[192]; /* the backend's loader line: where it was found, or what to install */
    bool is_loaded;
};

struct copse_backend {
    const char *name; /* "opencl" */
    /* Beginnings of the names of environment variables that change its loader, layers or drivers;
       ends with NULL. NULL = none. For reports. */
    const char *const *variables;
    size_t device_priv, buffer_priv, kernel_priv, queue_priv, segment_priv;

    /* Commands between two barriers may run at the same time: programs place those that do not
       depend on each other next to each other. */
    bool overlaps;

    /* Report every device, in the driver's order. Called once per context. A missing loader or
       driver is not an error: set sink->detail to the missing package. A driver that fails for one
       device must not hide the others. */
    copse_status (*list)(struct copse_device_sink *sink);

    /* Optional (NULL = none): what the driver says of the n-th device that `list` reported. A
       driver that answers nothing is no error. */
    copse_status (*facts)(uint32_t index, struct copse_fact_sink *to);

    /* Optional (NULL = the backend cannot import devices): check the handles and describe the
       device, as `list` would, restricted to the features that the application enabled. */
    copse_status (*import)(struct copse_base *base, const struct copse_foreign_device *foreign,
                           struct copse_device_info *info);
    /* Optional, for tests: import the driver's objects of an open device and queue, as if an
       application lent them; from then on that device also guards its submissions by `guard`.
       Called before other threads use the queue. The imported device is released before it. */
    copse_status (*lend)(copse_queue *q, const struct copse_queue_guard *guard, copse_device **out);

    /* Open dev->index (the n-th device that `list` reported), or dev->foreign; dev->info is filled
       in. dev->part of dev->parts: OpenCL CPUs split their compute units, others may ignore it;
       so may all with dev->foreign. A priority that the driver does not have or refuses is no
       error. Own driver context per call (OpenCL: cl_context; Vulkan:
       VkInstance and VkDevice) but for dev->foreign. */
    copse_status (*open)(copse_device *dev);
    void (*close)(copse_device *dev);

    /* Best effort; *out is zeroed. */
    copse_status (*memory)(copse_device *dev, struct copse_device_memory *out);

    /* buf->size and buf->host are set. Device memory exhausted: COPSE_ERR_NO_DEVICE_MEMORY. */
    copse_status (*buffer_init)(copse_buffer *buf);
    void (*buffer_fini)(copse_buffer *buf);

    /* Optional (NULL = every row): whether the row carries the form that kernel_init takes, such as
       cl_text, and whether the device meets its other needs. Core checks the limits that it
       knows. */
    bool (*has_kernel)(const copse_device *dev, const struct copse_kernel_row *row);
    /* row, spec and group size are set. The failure text holds the driver's log (at most 1 KB of
       it; all of it is logged). Uses base->cache where the driver can export binaries. */
    copse_status (*kernel_init)(struct copse_kernel *k);
    void (*kernel_fini)(struct copse_kernel *k);
    /* Optional (NULL = compiling takes no time): whether base->cache has the driver's compiled form
       of the kernel, of which row, spec and group size are set, and nothing else. */
    bool (*is_stored)(const struct copse_kernel *k);

    /* q->is_for_transfers is set. */
    copse_status (*queue_init)(copse_queue *q);
    void (*queue_fini)(copse_queue *q); /* drains, with a deadline */

    /* `src` has been taken on return. May block while the staging ring is full. */
    copse_status (*write)(copse_queue *q, const struct copse_binding *dst, const void *src);
    /* `dst` is complete when a wait for the ticket of the next submit has succeeded. */
    copse_status (*read)(copse_queue *q, const struct copse_binding *src, void *dst);
    /* Append one command now. */
    copse_status (*encode)(copse_queue *q, const struct copse_command *c);
    /* Optional (NULL = none): the scratch memory of a product of the vendor's library, wherever its
       matrices begin. Fewer terms need no more. */
    copse_status (*gemm_scratch)(const copse_device *dev, const struct copse_gemm *g,
                                 size_t *bytes);

    /* Record seg->commands once; after this a replay does no host allocation and no compilation. */
    copse_status (*segment_init)(struct copse_segment *seg);
    void (*segment_fini)(struct copse_segment *seg);
    /* Append the whole segment to its queue, ordered after all earlier commands. The same segment
       may be replayed again before its earlier replay has finished, or has been submitted: one
       submission may hold hundreds of replays, with other commands between them. */
    copse_status (*replay)(struct copse_segment *seg);

    /* Start everything appended; *ticket = q->submitted + 1 (core stores it). */
    copse_status (*submit)(copse_queue *q, uint64_t *ticket);
    /* COPSE_OK when `ticket` is reached (reads are complete), COPSE_ERR_TIMEOUT if not within
       `timeout_ns` (0 = only ask). */
    copse_status (*wait)(copse_queue *q, uint64_t ticket, uint64_t timeout_ns);

    /* Optional (NULL = a call that fails leaves nothing under way): called after a failed call, of
       a lost device too. COPSE_OK when no work of the queue uses host memory any more or will:
       neither destinations of reads nor buffers with `host`. COPSE_ERR_TIMEOUT when that is not
       known after `timeout_ns`. */
    copse_status (*settle)(copse_queue *q, uint64_t timeout_ns);

    /* Optional (NULL = the device has no clock): append a stamp, the time at which all earlier
       commands of the queue are complete. What stamps need is made by the first one. An earlier
       stamp of `slot` has been read, or never will be. COPSE_ERR_UNSUPPORTED: this queue has
       none. */
    copse_status (*stamp)(copse_queue *q, uint32_t slot);
    /* The time of the newest stamp of `slot`, whose ticket is reached [ns since some time]; 0: the
       driver does not tell. Stamps are read in their order. */
    copse_status (*stamp_read)(copse_queue *q, uint32_t slot, uint64_t *ns);

    /* Optional (NULL = core waits on the host): later work of q starts after the other queue's
       ticket. Both queues belong to the same device. */
    copse_status (*wait_queue)(copse_queue *q, copse_queue *other, uint64_t ticket);
};

#define COPSE_STAMPS 256 /* slots of a queue */

/* Deadline of a wait for a device when the caller gives none [ns]: 120 s; 600 s if its newest
   kernel was made less than 600 s ago, because drivers compile when kernels first run, for minutes
   on a busy machine. */
uint64_t copse__device_wait_ns(const copse_device *dev);

/* A backend's public import function calls this after it has copied the application's handles into
   its own struct: asks `import`, assigns the id, opens the device. `foreign` is copied. */
copse_status copse__device_import(copse_context *ctx, const struct copse_backend *backend,
                                  const struct copse_foreign_device *foreign, copse_device **out);

#endif
