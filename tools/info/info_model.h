/* SPDX-License-Identifier: MIT */
/* What `copse info` says about a model file: layers, data, training. */
#ifndef INFO_MODEL_H
#define INFO_MODEL_H

#include <cjson/cJSON.h>

#include "copse/data/checkpoint.h"
#include "copse/model.h"

#include "tools/tool.h"

struct info_model {
    const copse_checkpoint *file;
    copse_schema *schema; /* NULL: the file describes no model, or `why` it cannot be read */
    copse_layer *layer;   /* as `schema` */
    const char *training; /* "--name=value" lines, or NULL */
    /* [epoch_count, epoch_columns]: step, loss, accuracy; or step, loss, R2, mean absolute error */
    const double *epochs;
    size_t epoch_count, epoch_columns;
    char why[900]; /* "": nothing is wrong */
};

/* Read what the file's header says, and the history of its epochs. A description that cannot be
   read is no failure. */
copse_status info_model_open(copse_context *ctx, copse_checkpoint *file, struct info_model *out);
void info_model_close(struct info_model *m);
/* Print it; nothing of a file that describes no model. */
copse_status info_model_print(const struct info_model *m);
/* Add "model", "schema", "training" and "history" to `o`. */
copse_status info_model_add(const struct info_model *m, cJSON *o);

#endif
