/* SPDX-License-Identifier: MIT */
/* Texts in the form NFC of Unicode. */
#ifndef COPSE_LANGUAGE_NORMALISE_H
#define COPSE_LANGUAGE_NORMALISE_H

#include "core/base/base.h"

/* The text in the form NFC; bytes that are no characters stay. *out NULL: it has that form; else
   the caller frees it. False: no memory. */
bool copse__normalise(struct copse_mem *mem, const char *text, size_t size, char **out,
                      size_t *out_size);

#endif
