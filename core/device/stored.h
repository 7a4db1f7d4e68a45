/* SPDX-License-Identifier: MIT */
/* Small texts about a device that are kept through the kernel cache: a line with size and digest of
   what follows, lines that say whose text it is, one line per entry. */
#ifndef COPSE_CORE_STORED_H
#define COPSE_CORE_STORED_H

#include "core/device/device.h"

/* Whose a text is: device, driver and library version, in lines. */
struct copse_stored_id {
    const char *kind;    /* "verdict" */
    char lines[704];     /* the head of what is stored */
    char key[32];        /* in the cache: the kind and a digest of the lines */
};

/* `more` is one more line without its end, or NULL. */
void copse__stored_id(const char *kind, const struct copse_device_info *info, const char *more,
                      struct copse_stored_id *out);
/* Control characters become spaces: what a driver calls itself must not look like a line of ours. */
void copse__stored_flatten(char *text);

/* Reads the lines behind the head, all of them; false when one of them is wrong. Called twice, first
   with is_dry: all of a text is looked at before any of it counts. */
typedef bool copse_stored_fn(void *user, const char *lines, bool is_dry);

/* Read a text of `size` bytes. *is_ours is false when it is damaged or another's. */
copse_status copse__stored_read(struct copse_context *ctx, const struct copse_stored_id *id,
                                const void *bytes, size_t size, copse_stored_fn *read, void *user,
                                bool *is_ours);
/* The same with what the cache has, if anything; a text that is not ours is warned about. */
copse_status copse__stored_get(struct copse_context *ctx, const struct copse_stored_id *id,
                               copse_stored_fn *read, void *user);

/* A whole text of these lines; the caller frees it. */
copse_status copse__stored_text(struct copse_context *ctx, const struct copse_stored_id *id,
                                const char *lines, char **text, size_t *size);
/* *is_kept: the cache has it now, as a look shows; NULL = nobody looks. */
copse_status copse__stored_put(struct copse_context *ctx, const struct copse_stored_id *id,
                               const char *lines, bool *is_kept);

/* Around getting, changing and putting, where the cache is shared. */
void *copse__stored_lock(struct copse_context *ctx, const struct copse_stored_id *id);
void copse__stored_unlock(struct copse_context *ctx, void *locked);

#endif
