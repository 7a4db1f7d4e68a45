/* SPDX-License-Identifier: MIT */
/* The interface of the device layer to the layers above: context internals, kernels, dispatches,
   recorded segments, pooled buffers. It is independent of the API. */
#ifndef COPSE_CORE_DEVICE_H
#define COPSE_CORE_DEVICE_H

#include "copse/device/compile.h"
#include "core/base/handles.h"
#include "core/device/backend.h"
#include "core/device/kernel/user_kernels.h"
#include "core/trust/block_list.h"
#include "kernel_ids.h" /* generated: enum copse_kernel_id, struct copse_params_<kernel> */

struct copse_context {
    copse_refs refs;
    struct copse_base base;
    struct copse_device_info *devices;
    size_t device_count;
    struct copse_backend_info *backends;
    size_t backend_count;
    atomic_uint *losses; /* of each of `devices`: how often it was lost (pace.h) */
    uint32_t submit_ms;  /* of COPSE_SUBMIT_MS (pace.h) */
    const struct copse_backend *const *tables; /* one for each of `backends` */
    copse_mutex lock;                          /* guards the cache and the imports */
    atomic_uint self_tests_off; /* > 0: kernels are used without self-test, or tested elsewhere */
    struct copse_cache_entry *cache; /* in-memory kernel cache, if the application provides none */
    struct copse_import *imports;    /* open devices of applications */
    uint32_t import_count;           /* imports so far */
    copse_progress_fn *progress;     /* of the application, or NULL */
    void *progress_user;
    copse_compile_fn *compile; /* in other processes, or NULL (compile_apart.c) */
    void *compile_user;
    bool has_kept_cache; /* the kernel cache outlives the context */
    /* a helper process: conformance places buffers against pages without access */
    bool has_fences;
    /* two bits for each of the first 32 devices: its warning of f16, of bf16 was logged */
    atomic_ullong warned_precisions;
    atomic_uint allowed; /* of enum copse_allowed: what the application allows */
    /* notes the kernels that are used, during conformance; or NULL */
    struct copse_kernel_uses *_Atomic uses;
    /* blocked kernels and speeds of variants, by device and driver */
    struct copse_trust trust;
    struct copse_user_op *user_ops; /* registered ops, newest first; guarded by `lock` */
    void (*free_user_ops)(struct copse_context *ctx); /* set with the first one */
    atomic_int priority;     /* of type copse_priority: of devices that are opened from now on */
    struct copse_told *told; /* devices without a priority, which the log has named; `lock` */
    /* live variables and those of released strategies; guarded by `lock` */
    struct copse_handles variables;
};

/* Free an object that retains the context, and release this reference. */
void copse__context_free(copse_context *ctx, void *object);

/* Order of device ids: by name, then by number, so that opencl:2 comes before opencl:10
   (device_id.c). */
int copse__device_id_compare(const char *a, const char *b);

/* registry.c: the only file that names backends. NULL-terminated. The names include backends that
   are not in this build. */
extern COPSE_PRIVATE const struct copse_backend *const copse_backends[];
extern const char *const copse_backend_names[];

/* copse_context_create with other backends than the registry's, for tests: `backends` is
   NULL-terminated and outlives the context. */
copse_status copse__context_create_with(const struct copse_context_params *params,
                                        const struct copse_backend *const *backends,
                                        copse_context **out);

/* A kernel for this device, compiled on first use and kept until the device closes. `spec` has
   row->spec_count entries, NULL = all zero. COPSE_ERR_UNSUPPORTED names the limit, or the reason
   for which the kernel is blocked. If the application allows it, the host computes a blocked
   kernel. */
COPSE_PRIVATE copse_status copse__kernel_get(copse_device *dev, enum copse_kernel_id id,
                                             const int32_t *spec, struct copse_kernel **out);
/* The same without reports of progress. */
copse_status copse__kernel_make(copse_device *dev, enum copse_kernel_id id, const int32_t *spec,
                                struct copse_kernel **out);
/* Whether copse__kernel_get would compile it for a long time: it is neither compiled nor stored in
   the kernel cache. False on backends that compile nothing. */
COPSE_PRIVATE bool copse__kernel_is_cold(copse_device *dev, enum copse_kernel_id id,
                                         const int32_t *spec);

/* Call the application's progress function, if there is one. */
void copse__kernel_report(const copse_device *dev, const char *kernel, size_t done, size_t total);

/* ---- several kernels at once (compile.c) ---- */

struct copse_kernel_want {
    enum copse_kernel_id id;
    int32_t spec[COPSE_MAX_SPECS];
};
struct copse_kernel_wants {
    struct copse_kernel_want *at;
    size_t count, room;
};
/* Compile those of `list` (without repetition) that no cache has, with several threads, and report
   progress. Each is then ready or stored for copse__kernel_get, which returns the error of a kernel
   that failed. */
COPSE_PRIVATE void copse__kernels_compile(copse_device *dev, const struct copse_kernel_want *list,
                                          size_t count);

/* Whether the kernel can run on the device (embedded form, bindings, group memory) and is not
   blocked. */
COPSE_PRIVATE bool copse__kernel_fits(const copse_device *dev, enum copse_kernel_id id);
/* COPSE_ERR_UNSUPPORTED, with the reason, if the device cannot run the kernel; it may be
   blocked. */
copse_status copse__kernel_check(const copse_device *dev, enum copse_kernel_id id);

/* The row of a kernel id on this device: the library's row, or an override for tests. An override
   has the arguments, parameters and specialisations of the row it replaces, must outlive the
   device, and is set before the device is used. */
const struct copse_kernel_row *copse__kernel_row(const copse_device *dev, enum copse_kernel_id id);
COPSE_PRIVATE copse_status copse__kernel_override(copse_device *dev, enum copse_kernel_id id,
                                                  const struct copse_kernel_row *row);
/* Whether a kernel was compiled from this row. */
COPSE_PRIVATE bool copse__kernel_is_compiled(copse_device *dev, const struct copse_kernel_row *row);

/* ---- kernels that are not used because their results were wrong (blocked.c) ---- */

/* Whether it is blocked there, with the reason. Never true on a device that tries blocked kernels,
   or whose kernels are noted. */
bool copse__kernel_is_blocked(const copse_device *dev, const char *kernel, char *reason,
                              size_t room);
/* COPSE_ERR_UNSUPPORTED: the device, its driver, the kernel, the reason, and what the user can
   do. */
copse_status copse__kernel_refuse(const copse_device *dev, const char *kernel, const char *reason);

/* The kernels of one device that are used, by id. */
struct copse_kernel_uses {
    const struct copse_block_list *device; /* devices with this list are noted */
    atomic_bool used[COPSE_KERNEL_IDS];
    int32_t spec[COPSE_KERNEL_IDS][COPSE_MAX_SPECS]; /* of the first use */
    /* at the first use of a kernel, from any thread; or NULL */
    void (*first)(void *user, uint32_t id);
    void *user;
};
/* Note that a command uses a kernel. `spec` NULL: the library's product. */
void copse__kernel_note_use(const copse_device *dev, uint32_t id,
                            const int32_t spec[COPSE_MAX_SPECS]);

/* Block a kernel that failed its self-test, until runs of conformance pass, in this context and,
   through the kernel cache, in later contexts. Kernels that are already recorded are unchanged. */
copse_status copse__device_fail_test(copse_device *dev, const char *kernel, const char *reason);

/* copse__block_list_fail_case and so on, for the device's list. */
COPSE_PRIVATE copse_status copse__device_pass_run(copse_device *dev, const char *kernel,
                                                  bool is_good);
COPSE_PRIVATE copse_status copse__device_note_mode(copse_device *dev, const char *mode,
                                                   const char *ops, uint32_t tier, bool is_whole);
COPSE_PRIVATE copse_status copse__device_fail_case(copse_device *dev,
                                                   const struct copse_kernel_case *c, bool is_late,
                                                   const char *text);
COPSE_PRIVATE bool copse__device_is_failed(const copse_device *dev,
                                           const struct copse_kernel_case *c);
COPSE_PRIVATE bool copse__device_has_failed(const copse_device *dev,
                                            const struct copse_kernel_case *c, uint64_t *id);
COPSE_PRIVATE copse_status copse__device_pass_case(copse_device *dev, const char *kernel,
                                                   uint64_t id, uint32_t tier);
/* Read the device's list from the kernel cache again. */
COPSE_PRIVATE void copse__device_refresh(copse_context *ctx, const struct copse_device_info *info);
/* Block a kernel that another list has blocked, unless it is blocked here. */
COPSE_PRIVATE void copse__device_adopt_block(copse_context *ctx,
                                             const struct copse_device_info *info,
                                             const char *kernel, const char *reason);
/* Whether the faults of a device come and go, and why; never those of the reference. */
bool copse__is_unreliable(copse_context *ctx, const struct copse_device_info *info, char *reason,
                          size_t room);
/* COPSE_ERR_UNSUPPORTED with the reason if they do, unless the application allows it or during
   conformance. */
copse_status copse__device_refuse_unreliable(copse_device *dev);
/* Whether the library has a kernel of this name, or it is the name of an application's kernel. */
bool copse__kernel_is_name(const char *name, size_t length);

/* ---- how fast variants were measured to be (device_tuning.c) ---- */

/* Million operations per second, as measured when the device was opened; 0 = not measured. */
uint64_t copse__tuning_rate(const copse_device *dev, const char *family, const char *size_class,
                            const char *variant);

/* The measurements of a listed device that ship with the library; 0 = none. */
COPSE_PRIVATE size_t copse__tuning_shipped(const copse_context *ctx,
                                           const struct copse_device_info *info);

/* ---- what a kernel must get right before it is used (self_test.c) ---- */

/* Run the kernel's self-test. A wrong result blocks the kernel, and the status is
   COPSE_ERR_UNSUPPORTED. The reference device, a device under test and a context without self-tests
   skip it. */
copse_status copse__self_test(copse_device *dev, struct copse_kernel *k);
/* Run it, and only write the fault to `reason`; "" = the result is right. */
COPSE_PRIVATE copse_status copse__self_test_ask(struct copse_kernel *k, char *reason, size_t room);

/* ---- the matrix product of a vendor's library (library_product.c) ---- */

/* Its name among variants and blocked kernels; it has no row. */
#define COPSE_LIBRARY_PRODUCT "matmul_clblast"
/* Whether the device has one that is not blocked. */
bool copse__library_product_fits(const copse_device *dev);
/* Whether it is preferred for large products: on a discrete GPU whose kernels are tested. */
bool copse__library_product_leads(const copse_device *dev);
/* Bytes of scratch memory of a product; 0: none, or the library cannot be used, which its self-test
   says. */
size_t copse__library_product_scratch(const copse_device *dev, const struct copse_gemm *g);
/* Run its self-test for the kind and the size of a product, unless it has already passed on the
   device; otherwise like copse__self_test. A library that cannot be used at all is also blocked.
   The first self-test compiles the library's kernels. For devices that have one. */
copse_status copse__library_product_test(copse_device *dev, const struct copse_command *gemm);

/* The group size of its launches: the row's, halved until within the limits. */
COPSE_PRIVATE void copse__kernel_group(const struct copse_limits *limits, enum copse_kernel_id id,
                                       uint32_t *x, uint32_t *y);

/* Make a dispatch command: fold `groups` (flat count) into x and y, append group_base. groups 0
   makes a command with groups_x 0, which is dropped everywhere. */
COPSE_PRIVATE copse_status copse__dispatch_init(struct copse_command *c, struct copse_kernel *k,
                                                const struct copse_binding *bindings,
                                                size_t binding_count, const void *params,
                                                uint64_t groups, uint32_t group_base);

/* "softmax", "copy", ... Static. */
const char *copse__command_name(const struct copse_command *c);
/* Append a command to a queue now. Zero-sized commands are dropped. */
COPSE_PRIVATE copse_status copse__queue_encode(copse_queue *q, const struct copse_command *c);

/* Record commands (copied; zero-sized ones dropped) for replay on `q`. Retains their buffers. */
COPSE_PRIVATE copse_status copse__segment_create(copse_queue *q,
                                                 const struct copse_command *commands, size_t count,
                                                 struct copse_segment **out);
/* The same, in parts of at most `most` commands each, which can be replayed one by one: all of them,
   in order, are a replay. A launch that the host computes ends a part, too. */
copse_status copse__segment_divide(copse_queue *q, const struct copse_command *commands,
                                   size_t count, size_t most, struct copse_segment **out);
uint32_t copse__segment_parts(const struct copse_segment *seg); /* at least 1 */
copse_status copse__segment_replay_part(struct copse_segment *seg, uint32_t i);
COPSE_PRIVATE void copse__segment_release(struct copse_segment **seg); /* waits for its replays */
/* Wait until its last replay is done; submits it if necessary. */
copse_status copse__segment_settle(const struct copse_segment *seg);
COPSE_PRIVATE copse_status copse__segment_replay(struct copse_segment *seg);

/* A buffer of at least `size` bytes from the pool; released with copse_buffer_release. */
COPSE_PRIVATE copse_status copse__buffer_acquire(copse_device *dev, size_t size,
                                                 copse_buffer **out);
/* The bytes that it allocates for `size`. */
size_t copse__buffer_room(const copse_device *dev, size_t size);
/* A buffer on host memory at any multiple of 4, for devices that share the memory of the host. The
   memory must live until the buffer is destroyed: after its last command and
   copse__garbage_collect. */
COPSE_PRIVATE copse_status copse__buffer_on(copse_device *dev, void *host, size_t size,
                                            copse_buffer **out);

/* copse_queue_create; `is_for_transfers`: the queue takes writes, reads, copies and fills only, and
   runs beside the kernels of other queues where the device can do that. */
copse_status copse__queue_create(copse_device *dev, bool is_for_transfers, copse_queue **out);
/* copse_queue_write of any number of bytes; the word with the last bytes is written completely. */
copse_status copse__queue_write_bytes(copse_queue *queue, copse_buffer *dst, size_t offset,
                                      const void *src, size_t size);
/* Later work of q starts after the other queue's ticket; both queues belong to the same device. If
   the backend cannot do this, the host waits. */
COPSE_PRIVATE copse_status copse__queue_wait_for(copse_queue *q, copse_queue *other,
                                                 uint64_t ticket);
/* copse_queue_wait with the deadline copse__device_wait_ns. */
COPSE_PRIVATE copse_status copse__queue_await(copse_queue *q, uint64_t ticket);
/* The same; returns COPSE_ERR_CANCELLED within COPSE_STOP_NS after *stop became true, unless the
   ticket is reached. `stop` may be NULL. */
copse_status copse__queue_wait_unless(copse_queue *q, uint64_t ticket, const atomic_bool *stop);
/* Lower each limit of the device to that in `smaller`; no limit is raised. For a device that has
   compiled nothing yet and is not yet visible to other threads. Rounding and memory properties stay
   unchanged. COPSE_ERR_ARGUMENT if the limits would be too small. */
COPSE_PRIVATE copse_status copse__device_limit(copse_device *dev,
                                               const struct copse_limits *smaller);

/* Programs, by their digests, that passed their cross-check on the device and driver
   (device_checked.c). */
copse_status copse__device_has_checked(const copse_device *dev, uint64_t program, bool *has);
copse_status copse__device_note_checked(const copse_device *dev, uint64_t program);
copse_status copse__device_forget_checked(const copse_device *dev);

/* ---- priority (priority.c) ---- */

/* Say once in a context that a device does not have the priority it should have. */
void copse__device_tell_priority(copse_device *dev);
void copse__told_free(struct copse_context *ctx);

/* copse_device_memory, with what only the library asks for. */
copse_status copse__device_memory(copse_device *dev, struct copse_device_memory *out);

/* Sticky error of a lost device. */
COPSE_PRIVATE copse_status copse__device_check(copse_device *dev);

/* What the driver says of a listed device (facts.c); nothing for an application's device, or if the
   backend has no facts. */
COPSE_PRIVATE copse_status copse__device_facts(copse_context *ctx, const char *id,
                                               struct copse_fact_sink *to);

/* ---- shared by the files of core/device only ---- */

/* The usable device with this id, listed or imported, or COPSE_ERR_NO_DEVICE. */
COPSE_PRIVATE copse_status copse__device_find(copse_context *ctx, const char *id,
                                              struct copse_device_info *out);
/* By UUID, or by PCI address. Two drivers of a CPU may share an address without being the same
   device. */
bool copse__device_is_same(const struct copse_device_info *a, const struct copse_device_info *b);
/* Same for the list: the index of the earlier entry of the same device, -1 = none. */
int copse__device_same(const struct copse_device_info *list, size_t count,
                       const struct copse_device_info *dev);
/* A device to be opened; `import` holds a reference, which the open device takes over. */
struct copse_place {
    struct copse_device_info info;
    const struct copse_backend *backend;
    uint32_t index;
    struct copse_import *import; /* NULL: a device of the list */
};
/* Find a usable device by its id (device_find.c). */
copse_status copse__place_find(copse_context *ctx, const char *id, struct copse_place *place);
copse_status copse__device_open_at(copse_context *ctx, struct copse_place *place,
                                   const struct copse_device_params *params, copse_device **out);
/* import_list.c. Whether there is such an import; sets *place. */
bool copse__import_find(copse_context *ctx, const char *id, struct copse_place *place);
void copse__import_release(copse_context *ctx, struct copse_import **import);
const struct copse_foreign_device *copse__import_foreign(const struct copse_import *import);
/* Count bytes of buffers against the application's limit: COPSE_ERR_NO_DEVICE_MEMORY above it. NULL
   is allowed. */
copse_status copse__import_take(struct copse_import *import, size_t bytes);
void copse__import_give(struct copse_import *import, size_t bytes);
/* Lower free and total to the rest of the limit. */
void copse__import_memory(const struct copse_import *import, struct copse_device_memory *m);
/* One zeroed block with the handle and the backend's private tail, at *priv. */
void *copse__handle_alloc(struct copse_mem *m, size_t size, size_t tail, void **priv);
/* Cap limits to those that the library uses; false and a reason if they are too small. */
bool copse__limits_cap(struct copse_limits *l, char *reason, size_t room);
/* Return `s`, and record the loss if it is COPSE_ERR_DEVICE_LOST. */
copse_status copse__device_result(copse_device *dev, copse_status s);
/* Start of every queue operation: check that the device works, and note that the queue has work. */
copse_status copse__queue_begin(copse_queue *q);
/* The result of a call of the backend on the queue. After a failure other than COPSE_ERR_TIMEOUT no
   work of the queue uses host memory any more: not the destinations of reads, not imported memory.
   Where that cannot be known the result is COPSE_ERR_TIMEOUT, after which such memory is never
   freed (copse__free_read). */
copse_status copse__queue_result(copse_queue *q, copse_status s);
/* Ticket that the next submit will return. */
static inline uint64_t copse__queue_next(const copse_queue *q)
{
    return q->submitted + 1;
}
/* Check a command against its device, once; *is_empty if it does nothing. */
copse_status copse__command_check(const copse_device *dev, const struct copse_command *c,
                                  bool *is_empty);
/* Free or pool the released buffers whose tickets have been reached. */
COPSE_PRIVATE void copse__garbage_collect(copse_device *dev);
/* Oldest ticket of the queue that a released buffer waits for, 0 = none. Locked. */
uint64_t copse__garbage_ticket(const copse_device *dev, const copse_queue *q);
/* All tickets of this queue slot are reached, and another queue may use the slot. Locked. */
void copse__garbage_forget_slot(copse_device *dev, uint32_t slot);
/* Free a buffer that no work needs. */
void copse__buffer_destroy(copse_device *dev, copse_buffer *buf);
/* Free released buffers: the pool, and also the garbage if no queue is left. */
void copse__buffers_purge(copse_device *dev);

#define COPSE_STOP_NS (50ull * 1000000ull)

#endif
