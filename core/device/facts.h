/* SPDX-License-Identifier: MIT */
/* What drivers say of a device, in their own names: raw limits, extensions, identifiers, and the
   layers and drivers that were loaded for the API. For reports; the library itself uses
   copse_limits. */
#ifndef COPSE_CORE_FACTS_H
#define COPSE_CORE_FACTS_H

#include "core/base/base.h"

enum copse_fact {
    COPSE_FACT_ID,        /* name and value, such as "driver_uuid" */
    COPSE_FACT_LIMIT,     /* name and value, such as "maxPushConstantsSize" */
    COPSE_FACT_EXTENSION, /* value: a name */
    COPSE_FACT_LAYER,     /* value: the path of a layer between loader and driver */
    COPSE_FACT_LIBRARY,   /* value: the path of a driver of this API, or of its loader */
};

struct copse_fact_sink {
    struct copse_base *base;
    void (*add)(struct copse_fact_sink *to, enum copse_fact kind, const char *name,
                const char *value);
    void *user;
};

/* "001f..." of bytes. Returns `out`, which has 2 * size + 1 bytes. */
char *copse__fact_bytes(char *out, const uint8_t *bytes, size_t size);
/* Add a limit: a number. */
void copse__fact_number(struct copse_fact_sink *to, const char *name, uint64_t value);
/* Add the loaded libraries that define `layer` or `driver`. */
void copse__fact_libraries(struct copse_fact_sink *to, const char *layer, const char *driver);

#endif
