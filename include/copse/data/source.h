/* SPDX-License-Identifier: MIT */
/** @file
 * Settings of copse_dataset_open for pictures.
 */
#ifndef COPSE_PUBLIC_DATA_SOURCE_H
#define COPSE_PUBLIC_DATA_SOURCE_H

#include "copse/data.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** How to read sources that are not tables or arrays. */
struct copse_source_params {
    const char *resize; /**< pictures get this size, "WIDTHxHEIGHT"  [NULL = all have one size] */
    uint64_t reserved[15]; /**< 0 */
};

#if defined(__cplusplus)
}
#endif
#endif
