/* SPDX-License-Identifier: MIT */
#include "core/device/facts.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/machine.h"
#include "core/device/device.h"

char *copse__fact_bytes(char *out, const uint8_t *bytes, size_t size)
{
    out[0] = '\0';
    for (size_t i = 0; i < size; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return out;
}

void copse__fact_number(struct copse_fact_sink *to, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    to->add(to, COPSE_FACT_LIMIT, name, text);
}

static void add_layer(void *user, const char *path)
{
    struct copse_fact_sink *to = user;
    to->add(to, COPSE_FACT_LAYER, "", path);
}

static void add_library(void *user, const char *path)
{
    struct copse_fact_sink *to = user;
    to->add(to, COPSE_FACT_LIBRARY, "", path);
}

void copse__fact_libraries(struct copse_fact_sink *to, const char *layer, const char *driver)
{
    copse__libraries_with(layer, add_layer, to);
    copse__libraries_with(driver, add_library, to);
}

copse_status copse__device_facts(copse_context *ctx, const char *id, struct copse_fact_sink *to)
{
    struct copse_place place;
    COPSE_TRY(copse__place_find(ctx, id, &place));
    to->base = &ctx->base;
    const copse_status s =
        !place.import && place.backend->facts ? place.backend->facts(place.index, to) : COPSE_OK;
    copse__import_release(ctx, &place.import);
    return s;
}
