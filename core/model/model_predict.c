/* SPDX-License-Identifier: MIT */
/* Predictions of a model for a dataset. */
#include <math.h>

#include "core/data/schema/schema.h"
#include "core/model/model.h"

/* ---- the data ---- */

static bool is_like(const struct copse_column *c, copse_type type, copse_shape shape)
{
    return c && c->type == type && copse__shape_equal(c->shape, shape);
}

/* Whether rows of numbers without a schema can be inputs of the network in one way only: there is
   nothing to scale, or a row that is not encoded would have texts. */
static bool takes_encoded(const struct copse_schema_parts *s)
{
    bool is_scaled = s->scaling_count > 0, has_categories = false;
    for (uint32_t i = 0; i < s->column_count; i++) {
        const struct copse_schema_column *c = &s->columns[i];
        has_categories |= c->role == COPSE_COLUMN_CATEGORY;
        is_scaled |= c->role == COPSE_COLUMN_NUMBER && (c->mean != 0.0 || c->scale != 1.0);
    }
    return s->kind != COPSE_DATA_TEXT && (has_categories || !is_scaled);
}

/* Whether data with a schema of its own has rows as the network takes them. */
static bool is_encoded(const copse_model *m, const struct copse_schema_parts *own)
{
    return (own->kind == COPSE_DATA_ARRAY || own->kind == COPSE_DATA_PICTURES) &&
           own->scaling_count == 0 && own->type == m->is.type &&
           copse__shape_equal(own->shape, m->is.shape) && takes_encoded(&m->schema->is);
}

static copse_status check_data(const copse_model *m, const copse_dataset *data, bool needs_labels)
{
    const copse_schema *schema = copse_dataset_schema(data);
    struct copse_dataset_info info;
    if (schema && schema != m->schema &&
        strcmp(copse_schema_text(schema), copse_schema_text(m->schema)) != 0 &&
        (needs_labels || !is_encoded(m, &schema->is)))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "model: the data has a schema of its own; read it by the model's "
                          "(copse_dataset_params.schema), or give rows that are encoded by it as "
                          "column \"x\" (copse_dataset_columns)");
    copse_dataset_describe(data, &info);
    if (needs_labels && schema && !info.has_labels)
        return copse_fail(COPSE_ERR_ARGUMENT, "model: the data has no labels to compare with");
    return COPSE_OK;
}

/* A dataset without a schema, of columns: they must be as the schema says. */
static copse_status check_columns(const copse_model *m, const struct copse_host_batch *batch,
                                  bool needs_labels)
{
    const struct copse_column *y = copse_batch_column(batch, "y");
    const bool is_right = is_like(y, m->label_type, m->label_shape);
    if (!is_like(copse_batch_column(batch, "x"), m->is.type, m->is.shape))
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "model: the data has no column \"x\" of the type and shape that the model's "
            "schema has");
    return !needs_labels || is_right
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT,
                            "model: the data has no column \"y\" of the model's task");
}

copse_status copse__model_batches(const copse_model *m, const copse_dataset *data,
                                  bool needs_labels, copse_loader **out)
{
    struct copse_dataset_info info;
    struct copse_host_batch first;
    COPSE_TRY(check_data(m, data, needs_labels));
    copse_dataset_describe(data, &info);
    COPSE_TRY(copse_loader_create(
        (copse_dataset *)(uintptr_t)data,
        &(struct copse_loader_params){ .batch = COPSE_MIN(info.rows, copse__model_rows(m)),
                                       .no_shuffle = true },
        out));
    copse_status s = copse_loader_next(*out, &first);
    if (s == COPSE_OK)
        s = check_columns(m, &first, needs_labels);
    if (s == COPSE_OK)
        s = copse_loader_start(*out, 0, 0);
    if (s != COPSE_OK)
        copse_loader_release(out);
    return s;
}

/* ---- values ---- */

void copse__model_softmax(const float *outputs, uint32_t count, double *probabilities)
{
    double largest = -INFINITY, sum = 0.0;
    for (uint32_t i = 0; i < count; i++)
        largest = fmax(largest, (double)outputs[i]);
    for (uint32_t i = 0; i < count; i++)
        sum += probabilities[i] = exp((double)outputs[i] - largest);
    for (uint32_t i = 0; i < count; i++)
        probabilities[i] /= sum;
}

void copse__model_convert(const copse_model *m, float *values, size_t rows, double *row)
{
    const uint32_t outputs = m->is.outputs;
    for (size_t r = 0; r < rows; r++, values += outputs) {
        if (m->targets)
            for (uint32_t i = 0; i < outputs; i++)
                row[i] = (double)values[i] * m->targets[i].scale + m->targets[i].mean;
        else
            copse__model_softmax(values, outputs, row);
        for (uint32_t i = 0; i < outputs; i++)
            values[i] = (float)row[i];
    }
}

static copse_status predict_rows(copse_model *m, copse_loader *batches, float *values, double *row)
{
    struct copse_host_batch batch;
    int32_t checked = 0;
    copse_status s;
    while ((s = copse_loader_next(batches, &batch)) == COPSE_OK) {
        COPSE_TRY(copse__short_window_check(m, &batch, &checked));
        COPSE_TRY(copse__model_outputs(m, &batch, true, values));
        copse__model_convert(m, values, batch.count, row);
        values += batch.count * m->is.outputs;
    }
    return s == COPSE_ERR_END ? COPSE_OK : s;
}

copse_status copse_model_predict(copse_model *m, const copse_dataset *data, float *values)
{
    copse_loader *batches;
    COPSE_TRY(copse_need("model", m, data, values));
    COPSE_TRY(copse__require_no_replica("copse_model_predict", m));
    struct copse_mem *mem = &m->strategy->ctx->base.mem;
    COPSE_TRY(copse__model_batches(m, data, false, &batches));
    double *row = copse__alloc(mem, m->is.outputs, sizeof *row);
    const copse_status s = row ? predict_rows(m, batches, values, row) : copse_no_memory("model");
    copse__free(mem, row);
    copse_loader_release(&batches);
    return s;
}
