/* SPDX-License-Identifier: MIT */
/* Small texts about a device in the kernel cache: a line with size and digest of the rest, lines
   that identify the device, one line per entry. */
#ifndef COPSE_CORE_STORED_H
#define COPSE_CORE_STORED_H

#include "copse/device.h"
#include "core/base/base.h"

/* Identity of a text: device, driver and library version, in lines. */
struct copse_stored_id {
    const char *kind; /* "blocked" */
    char lines[704];  /* the first lines of the text */
    char key[32];     /* in the cache: the kind and a digest of the lines */
};

/* `more` is one more line without its end, or NULL. */
void copse__stored_id(const char *kind, const struct copse_device_info *info, const char *more,
                      struct copse_stored_id *out);
/* Control characters become spaces, so that the name of a driver cannot look like a line of the
   text. */
void copse__stored_flatten(char *text);

/* Reads all lines after the identity; returns false when one of them is wrong. Called twice, first
   with is_dry: the whole text is checked before any line takes effect. */
typedef bool copse_stored_fn(void *user, const char *lines, bool is_dry);

/* Read a text of `size` bytes. *is_ours is false when it is damaged or another's. */
copse_status copse__stored_read(struct copse_base *base, const struct copse_stored_id *id,
                                const void *bytes, size_t size, copse_stored_fn *read, void *user,
                                bool *is_ours);
/* The same with the text in the cache, if there is one; logs a warning for a damaged or foreign
   text. */
copse_status copse__stored_get(struct copse_base *base, const struct copse_stored_id *id,
                               copse_stored_fn *read, void *user);

/* A whole text of these lines; the caller frees it. */
copse_status copse__stored_text(struct copse_base *base, const struct copse_stored_id *id,
                                const char *lines, char **text, size_t *size);
/* *is_kept: the text was read back from the cache; NULL = do not read it back. */
copse_status copse__stored_put(struct copse_base *base, const struct copse_stored_id *id,
                               const char *lines, bool *is_kept);

/* Around getting, changing and putting, where the cache is shared. */
void *copse__stored_lock(struct copse_base *base, const struct copse_stored_id *id);
void copse__stored_unlock(struct copse_base *base, void *locked);

#endif
