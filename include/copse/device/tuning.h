/* SPDX-License-Identifier: MIT */
/** @file Kernel variants, and tuning: how fast the variants of a device were measured to be, by
 * size of the work. For each piece of work the library uses the variant that is forced; else the
 * fastest one that the device can run and that is not blocked there; else, without measurements,
 * the one that its limits suggest.
 *
 * Variants are forced by a text: "matmul=wide" or "matmul=wide,column_sum=reduce". Each part is a
 * family and the name of one of its variants or of that variant's kernel. copse_strategy_params and
 * copse_function_params have such a text in `kernels`. Work that a forced variant cannot do at all
 * is done by the first variant of the family.
 */
#ifndef COPSE_PUBLIC_DEVICE_TUNING_H
#define COPSE_PUBLIC_DEVICE_TUNING_H

#include "copse/device/open.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** One of several ways to compute the same. Lifetime of the names: static. */
struct copse_kernel_variant {
    const char *family; /**< "matmul" */
    const char *name;   /**< "wide": unique in the family */
    /** "matmul_wide": unique; as in blocked kernels, measurements and conformance */
    const char *kernel;
    uint64_t reserved[4]; /**< 0 */
};

/**
 * The variants of all families, family by family. The first one of a family does all of its work.
 * @param index  From 0 on.
 * @return false when there are fewer.
 */
COPSE_API bool copse_kernel_variant_at(size_t index, struct copse_kernel_variant *out);

/**
 * The variant that a device would use for work of a size class.
 *
 * @param kernels     Forced variants; NULL = none.
 * @param size_class  As in copse_tuning_entry.
 *
 * @retval COPSE_ERR_ARGUMENT     No such family, variant or size class; the text names those that
 *                                exist.
 * @retval COPSE_ERR_UNSUPPORTED  The variant is forced, and the device cannot run it.
 */
COPSE_API COPSE_CHECKED copse_status copse_kernel_choice(const copse_device *dev,
                                                         const char *kernels, const char *family,
                                                         const char *size_class,
                                                         struct copse_kernel_variant *out);

/** One measurement. Names are made of a-z, 0-9, '_' and '-'. */
struct copse_tuning_entry {
    char family[16];     /**< what has several variants: "matmul", "column_sum" */
    char size_class[24]; /**< transposes and sizes: "nn-32-128-512"; rows and columns: "256-32" */
    char variant[32];    /**< kernel of the variant: "matmul_wide" */
    uint64_t rate;       /**< million operations per second, up to 10^15; 0 = take the entry out */
};

/** The family of entries that are no variants: shares of a mixture of devices, as `copse train`
    measured them. Class: a digest of the job and its devices; variant: "replica-0" and so on; rate:
    1 + sixteenths of the share of the replica that has most. A device keeps the newest 256. */
#define COPSE_TUNED_SHARES "shares"

/**
 * What is known about a device's variants. Entries come from mode COPSE_CONFORM_TUNE of
 * `copse_conformance_run`, which measures only variants whose results were right, from
 * `copse_device_tuning_set` and `copse_device_tuning_load`, here or, through the kernel cache, in
 * another process. They belong to the device's name, number of compute units, driver version and
 * the library's version.
 *
 * A device uses what was known when it was opened, for as long as it is open. Of the variants
 * measured for a size class the fastest that can run is used, where the one that would be used
 * otherwise was measured too; so no entry can make a result wrong, but the last bits of results are
 * those of the variant.
 *
 * @param device  Id: "opencl:0".
 * @param list    Receives the entries. Lifetime: until the next change of this device's tuning.
 *
 * @retval COPSE_ERR_NO_DEVICE  No such device.
 *
 * Thread-safety: any, but for the lifetime of `list`. Blocking: while the cache is read.
 */
COPSE_API COPSE_CHECKED copse_status copse_device_tuning(copse_context *ctx, const char *device,
                                                         const struct copse_tuning_entry **list,
                                                         size_t *count);

/**
 * Add entries, or put them in the place of those with the same names; kept through the kernel
 * cache.
 *
 * @retval COPSE_ERR_ARGUMENT   A name or a rate is none, or there are more than 4096 entries;
 *                              nothing was changed.
 * @retval COPSE_ERR_NO_DEVICE, COPSE_ERR_NO_MEMORY
 */
COPSE_API COPSE_CHECKED copse_status copse_device_tuning_set(copse_context *ctx, const char *device,
                                                             const struct copse_tuning_entry *list,
                                                             size_t count);

/** Forget all entries of a device, in the kernel cache too. */
COPSE_API COPSE_CHECKED copse_status copse_device_tuning_clear(copse_context *ctx,
                                                               const char *device);

/**
 * The entries, but no shares, as a text with length and digest, for machines with the same driver.
 *
 * @param text    Receives at most `room` bytes with the final NUL; NULL to ask for the size.
 * @param needed  Receives the bytes needed with the final NUL.
 *
 * @retval COPSE_ERR_ARGUMENT  `room` is too small.
 */
COPSE_API COPSE_CHECKED copse_status copse_device_tuning_save(copse_context *ctx,
                                                              const char *device, char *text,
                                                              size_t room, size_t *needed);

/**
 * Read such a text in addition to what is known; kept through the kernel cache.
 *
 * @param size  Bytes of `text`, without a final NUL.
 *
 * @retval COPSE_ERR_FORMAT  Damaged, or of another device, driver or library version; nothing was
 *                           changed.
 */
COPSE_API COPSE_CHECKED copse_status copse_device_tuning_load(copse_context *ctx,
                                                              const char *device, const char *text,
                                                              size_t size);

#if defined(__cplusplus)
}
#endif
#endif
