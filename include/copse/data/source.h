/* SPDX-License-Identifier: MIT */
/** @file
 * Settings of copse_dataset_open for sources that are no tables or arrays.
 */
#ifndef COPSE_PUBLIC_DATA_SOURCE_H
#define COPSE_PUBLIC_DATA_SOURCE_H

#include "copse/data.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** How to read pictures (data/pictures.h) and texts (data/text.h). */
struct copse_source_params {
    /** size that pictures get, "WIDTHxHEIGHT" [NULL = all must have one size] */
    const char *resize;
    uint64_t picture_bytes; /**< most memory for decoded pictures        [0 = 1 GiB] */
    const struct copse_text_params *text; /**< the file is a text, data/text.h [NULL] */
    uint64_t reserved[13];                /**< 0 */
};

#if defined(__cplusplus)
}
#endif
#endif
