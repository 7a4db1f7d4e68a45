/* SPDX-License-Identifier: MIT */
/* Kernel block list of a device and driver: kernels that are not used because their results were
   wrong, and the conformance cases that they failed. All functions lock. Texts name the device by
   `device`, its id. */
#ifndef COPSE_BLOCK_LIST_H
#define COPSE_BLOCK_LIST_H

#include "copse/device/conformance.h"
#include "core/trust/trust.h"

struct copse_block_list;

/* The list of a device; read from the kernel cache when it is first asked for. It lives as long as
   `t`. */
copse_status copse__block_list_open(struct copse_trust *t, const struct copse_device_info *info,
                                    struct copse_block_list **out);
void copse__block_lists_free(struct copse_trust *t);

/* Block a kernel until it is unblocked, here and, through the kernel cache, in later contexts.
   COPSE_ERR_ARGUMENT when the library has no such kernel. */
copse_status copse__block_list_block(struct copse_trust *t, struct copse_block_list *v,
                                     const char *device, const char *kernel, const char *reason);
/* The same for a kernel that failed its self-test: runs of conformance can unblock it. */
copse_status copse__block_list_fail_test(struct copse_trust *t, struct copse_block_list *v,
                                         const char *device, const char *kernel,
                                         const char *reason);
/* Read the stored list again. */
copse_status copse__block_list_refresh(struct copse_trust *t, struct copse_block_list *v);
/* Unblock a kernel, or all of them where `kernel` is NULL. */
copse_status copse__block_list_unblock(struct copse_trust *t, struct copse_block_list *v,
                                       const char *kernel);
/* Whether it is blocked; the reason, too. */
COPSE_PRIVATE bool copse__block_list_has(struct copse_trust *t, struct copse_block_list *v,
                                         const char *kernel, char *reason, size_t room);
/* All blocked kernels; the array is valid until the list changes. */
void copse__block_list_get(struct copse_trust *t, const struct copse_block_list *v,
                           const struct copse_blocked_kernel **list, size_t *count);

/* A case of conformance in which a kernel took part. */
struct copse_kernel_case {
    const char *kernel, *mode, *op, *name;
    uint32_t tier;
    bool is_shaky; /* it failed, and passed when it was repeated */
};
/* The kernel failed the case: block the kernel until all such cases have passed in three runs in a
   row. A kernel that was late is noted; it is blocked when it is late again. */
copse_status copse__block_list_fail_case(struct copse_trust *t, struct copse_block_list *v,
                                         const char *device, const struct copse_kernel_case *c,
                                         bool is_late, const char *text);
/* Whether the kernel failed the case before, in no higher tier; *id names the case. */
bool copse__block_list_has_failed(struct copse_trust *t, struct copse_block_list *v,
                                  const struct copse_kernel_case *c, uint64_t *id);
/* Whether a pass of the case would count: a kernel failed it, in no higher tier; or c->kernel,
   which it is about, failed its self-test. */
bool copse__block_list_is_failed(struct copse_trust *t, struct copse_block_list *v,
                                 const struct copse_kernel_case *c);
/* The case passed in a run of this tier. After three runs in a row the case is forgotten; a kernel
   without other failed cases is then unblocked, which is logged, unless it was blocked by
   copse__block_list_block. */
copse_status copse__block_list_pass_case(struct copse_trust *t, struct copse_block_list *v,
                                         const char *device, const char *kernel, uint64_t id,
                                         uint32_t tier);
/* A run in which the kernel took part and all of its cases passed, or one of them failed. Three
   good runs in a row unblock a kernel that had failed its self-test. */
copse_status copse__block_list_pass_run(struct copse_trust *t, struct copse_block_list *v,
                                        const char *device, const char *kernel, bool is_good);
/* A mode was run with all its cases, or with all cases of `ops` ("matmul,softmax", NULL = all);
   `is_whole` false: only with the cases that the time allowed. */
copse_status copse__block_list_note_mode(struct copse_trust *t, struct copse_block_list *v,
                                         const char *mode, const char *ops, uint32_t tier,
                                         bool is_whole);
void copse__block_list_state(struct copse_trust *t, const struct copse_block_list *v,
                             struct copse_device_state *out);

#endif
