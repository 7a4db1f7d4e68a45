/* SPDX-License-Identifier: MIT */
/* What `copse predict` writes for a text. */
#ifndef PREDICT_TEXT_H
#define PREDICT_TEXT_H

#include "tools/common/use.h"

/* `values`: [rows, tokens], probabilities. */
copse_status predict_text_write(FILE *to, const struct use *u, bool is_json, const float *values);

#endif
