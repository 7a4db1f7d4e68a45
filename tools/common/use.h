/* SPDX-License-Identifier: MIT */
/* A trained model with data to use it on. */
#ifndef USE_H
#define USE_H

#include "copse/data/schema.h"
#include "copse/model.h"

#include "tools/tool.h"

struct use {
    const char *model_path, *data_path, *labels, *devices; /* the first of `devices` is used */
    struct session_how how;
    copse_context *ctx;
    copse_strategy *strategy;
    copse_model *model;
    copse_dataset *data;
    const copse_schema *schema;
    struct copse_schema_info info;
    struct copse_dataset_info rows;
};

/* Load the model and read the data by its schema. */
copse_status use_open(struct use *u);
/* Allowed after a failure of use_open. */
void use_close(struct use *u);

/* Name of output `i`: a class, or a target ("value" without a name). */
const char *use_name(const struct use *u, uint32_t i);
/* A cell of a CSV file, quoted where necessary. */
void use_cell(FILE *to, const char *text);

#endif
