/* SPDX-License-Identifier: MIT */
/* The tokenizer of a GGUF file. */
#ifndef COPSE_LANGUAGE_TOKENIZER_GGUF_H
#define COPSE_LANGUAGE_TOKENIZER_GGUF_H

#include "copse/data/gguf.h"
#include "core/language/tokenizer.h"

/* Read it; `mem` and `arena.mem` of `t` are set, all else is 0. `path` is for error texts. */
copse_status copse__tokenizer_read_gguf(struct copse_tokenizer *t, const copse_gguf *f,
                                        const char *path);

#endif
