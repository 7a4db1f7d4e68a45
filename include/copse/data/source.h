/* SPDX-License-Identifier: MIT */
/** @file
 * Settings of copse_dataset_open that few sources need.
 */
#ifndef COPSE_PUBLIC_DATA_SOURCE_H
#define COPSE_PUBLIC_DATA_SOURCE_H

#include "copse/data.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** How to read pictures (data/pictures.h) and texts (data/text.h), and what to say of a table. */
struct copse_source_params {
    /** size that pictures get, "WIDTHxHEIGHT" [NULL = all must have one size] */
    const char *resize;
    uint64_t picture_bytes; /**< most memory for decoded pictures        [0 = 1 GiB] */
    const struct copse_text_params *text; /**< the file is a text, data/text.h [NULL] */
    /** the loss gives classes weights: a warning of unequal classes does not advise it [false] */
    bool is_weighted;
    uint64_t reserved[12]; /**< 0 */
};

#if defined(__cplusplus)
}
#endif
#endif
