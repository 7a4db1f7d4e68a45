/* SPDX-License-Identifier: MIT */
#include "copse/distribute/portable.h"

#include "tools/train/bits.h"

const struct option_name bits_names[] = {
    { "fast", BITS_FAST },
    { "portable", BITS_PORTABLE },
    { NULL, 0 },
};

const char *bits_check(const struct bits_options *o)
{
    const bool is_given = o->shards != SHARDS_NOT_GIVEN;
    return !is_given               ? NULL
           : !bits_are_portable(o) ? "--shards: belongs to --bits portable"
           : o->shards == 0 || o->shards > COPSE_MAX_REPLICAS ? "--shards: 1 to 64"
                                                              : NULL;
}

static uint32_t bits_shards(const struct bits_options *o)
{
    return o->shards != SHARDS_NOT_GIVEN ? o->shards : COPSE_PORTABLE_SHARDS;
}

const char *bits_text(const struct bits_options *o)
{
    static char text[32];
    snprintf(text, sizeof text, "portable %u", (unsigned)bits_shards(o));
    return bits_are_portable(o) ? text : bits_names[BITS_FAST].name;
}

void bits_fill(const struct bits_options *o, struct copse_strategy_params *to)
{
    if (bits_are_portable(o))
        to->portable_shards = bits_shards(o);
}
