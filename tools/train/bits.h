/* SPDX-License-Identifier: MIT */
/* The options --bits and --shards. */
#ifndef BITS_TOOL_H
#define BITS_TOOL_H

#include "tools/tool.h"

#define SHARDS_NOT_GIVEN UINT32_MAX

struct bits_options {
    struct option_choice bits; /* of bits_names */
    uint32_t shards;           /* SHARDS_NOT_GIVEN: the default */
};

enum { BITS_FAST, BITS_PORTABLE };
extern const struct option_name bits_names[];

/* clang-format off */
#define BITS_OPTION_ROWS(options) \
    { "bits", OPTION_CHOICE, &(options)->bits, "NAME", \
      "fast, or portable: equal on all devices, slower: certificate.md [fast]" }, \
    { "shards", OPTION_COUNT, &(options)->shards, "N", \
      "of portable bits: parts of a batch, a multiple of the devices [12]" }
/* clang-format on */

static inline bool bits_are_portable(const struct bits_options *o)
{
    return o->bits.at && o->bits.at->value == BITS_PORTABLE;
}
/* NULL, or what is wrong. */
const char *bits_check(const struct bits_options *o);
/* "fast", or "portable 12". Lifetime: until the next call. */
const char *bits_text(const struct bits_options *o);
/* Into the settings of a strategy. */
void bits_fill(const struct bits_options *o, struct copse_strategy_params *to);

#endif
