/* SPDX-License-Identifier: MIT */
/* The tokenizer of a tokenizer.json. */
#ifndef COPSE_LANGUAGE_TOKENIZER_JSON_H
#define COPSE_LANGUAGE_TOKENIZER_JSON_H

#include "core/language/tokenizer.h"

/* Read it; `mem`, `arena.mem` and `count` of `t` are set, all else is 0. Numbers without a token
   have one without bytes. */
copse_status copse__tokenizer_read_json(struct copse_tokenizer *t, const char *path);

#endif
