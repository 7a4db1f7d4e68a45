/* SPDX-License-Identifier: MIT */
/* Kernels of applications: their rows, with ids behind those of the library's kernels. */
#ifndef COPSE_USER_KERNELS_H
#define COPSE_USER_KERNELS_H

#include "core/base/base.h"
#include "core/device/kernel/kernel.h"
#include "kernel_ids.h"

#define COPSE_MAX_USER_KERNELS 64
/* Ids of kernels: the library's, then COPSE_KERNEL_COUNT for the product of a vendor's library,
   then the application's. */
#define COPSE_FIRST_USER_KERNEL (COPSE_KERNEL_COUNT + 1)
#define COPSE_KERNEL_IDS        (COPSE_FIRST_USER_KERNEL + COPSE_MAX_USER_KERNELS)
static inline uint32_t copse__id_count(void)
{
    return COPSE_KERNEL_IDS;
}
/* Kernels by id; and by name, each once, where they are of another process. */
struct copse_kernel_set {
    bool has[COPSE_KERNEL_IDS];
};
struct copse_kernel_names {
    char at[COPSE_KERNEL_IDS][48];
    size_t count;
};

struct copse_user_kernel {
    struct copse_kernel_row row; /* its name is "NAME@HASH"; the function in the text is NAME */
    /* without a host function: nothing that is computed again, as in a run of conformance */
    struct copse_law law;
    char name[48];
    const copse_context *ctx;
};

/* Give the kernel an id; it stays in its place until it is removed. COPSE_ERR_ARGUMENT if there are
   too many. */
COPSE_PRIVATE copse_status copse__user_kernel_add(const struct copse_user_kernel *k, uint32_t *id);
COPSE_PRIVATE void copse__user_kernel_remove(uint32_t id);
/* NULL: no kernel of an application has this id. */
const struct copse_user_kernel *copse__user_kernel(uint32_t id);

/* The row of an id, NULL if there is none. Devices may have other rows: copse__kernel_row. */
COPSE_PRIVATE const struct copse_kernel_row *copse__row(uint32_t id);
/* The kernel of the library or of the context with a name, with or without the hash. ctx NULL: of
   any context. */
COPSE_PRIVATE bool copse__row_find(const copse_context *ctx, const char *name, size_t length,
                                   uint32_t *id);

#define COPSE_SPIRV_MAGIC 0x07230203u
/* Code of kernels that applications give (kernel_code.c). `owner` begins the texts of errors:
   "conformance". */
/* The completed text in memory of `mem`. COPSE_ERR_FORMAT: it has no kernel `entry`, or is no
   text. */
COPSE_PRIVATE copse_status copse__code_text(const char *owner, struct copse_mem *mem,
                                            const char *entry, const void *code, size_t size,
                                            char **text, size_t *length);
/* A copy of SPIR-V in memory of `mem`. COPSE_ERR_FORMAT: it is damaged, or violates the row's
   contract. */
COPSE_PRIVATE copse_status copse__code_spirv(const char *owner, struct copse_mem *mem,
                                             const struct copse_kernel_row *row, const void *code,
                                             size_t size, uint32_t **words);

#endif
