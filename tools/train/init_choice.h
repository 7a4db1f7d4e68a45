/* SPDX-License-Identifier: MIT */
/* What `copse train --init` takes of a file. */
#ifndef INIT_CHOICE_H
#define INIT_CHOICE_H

#include "tools/train/train_run.h"

struct init_choice {
    copse_context *ctx;
    const copse_schema *schema; /* of the data */
    copse_variable *const *variables;
    size_t variable_count;
    /* the first and the last of them: of the first layer, of the head */
    size_t input_count, head_count;
    bool is_decided; /* the next are set: the file was seen */
    bool has_schema;
    bool skips_input, skips_head;
    char why_input[400], why_head[400];
};

void init_choice_begin(struct init_choice *c, copse_context *ctx, copse_strategy *st,
                       const copse_schema *schema);
/* A copse_load_choice_fn; `user` is the choice. */
bool init_choice(void *user, const copse_checkpoint *file, const char *name);
/* Why a variable is not taken; NULL: it is. */
const char *init_choice_why(const struct init_choice *c, const char *name);

#endif
