/* SPDX-License-Identifier: MIT */
/* Datasets of arrays: checks, scaling of features, and their schema. Reads no files. */
#include "copse/data/source.h"

#include <math.h>

#include "core/data/dataset/dataset.h"
#include "core/data/dataset/label_array.h"
#include "core/graph/op.h"

/* Features while a dataset is made of them. */
struct source {
    const struct copse_array_view *from;
    copse_array *owner; /* see copse__dataset_make */
    const char *name;
    size_t rows, row_size;
    struct copse_arena arena;
};

/* Of one row; surplus axes are merged into one. */
static copse_status row_shape(uint32_t rank, const size_t *axes, copse_shape *out)
{
    size_t all = 1;
    *out = (copse_shape){ rank, { 0 } };
    for (uint32_t i = 0; i < rank; i++) {
        all *= axes[i];
        if (rank < COPSE_MAX_RANK)
            out->dims[i] = (uint32_t)axes[i];
    }
    if (rank >= COPSE_MAX_RANK)
        *out = COPSE_SHAPE((uint32_t)all);
    return all <= UINT32_MAX
               ? COPSE_OK
               : copse_fail(COPSE_ERR_SHAPE,
                            "dataset: a row has %zu numbers, at most 2^32-1 are possible", all);
}

static copse_status refuse_value(const struct source *f, size_t i, const char *why)
{
    return copse_fail(COPSE_ERR_FORMAT, "dataset: %s: row %zu, value %zu is %s", f->name,
                      i / f->row_size + 1, i % f->row_size + 1, why);
}

/* ---- scaling ---- */

static double dataset_arrays_load(const struct source *f, size_t i)
{
    return (double)(float)copse__type_load(f->from->type, f->from->data, i);
}

/* Mean and deviation of each number of a row. */
static copse_status dataset_arrays_measure(const struct source *f, double *means, double *scales)
{
    for (size_t i = 0; i < f->rows * f->row_size; i++) {
        const double v = dataset_arrays_load(f, i), before = v - means[i % f->row_size];
        if (!isfinite(v))
            return refuse_value(f, i, "not finite");
        means[i % f->row_size] += before / (double)(i / f->row_size + 1);
        scales[i % f->row_size] += before * (v - means[i % f->row_size]);
    }
    for (size_t k = 0; k < f->row_size; k++) {
        scales[k] = sqrt(scales[k] / (double)f->rows);
        if (!(scales[k] > 0))
            scales[k] = 1; /* a constant */
    }
    return COPSE_OK;
}

static copse_status find_largest(const struct source *f, double *out)
{
    for (size_t i = 0; i < f->rows * f->row_size; i++) {
        const double v = dataset_arrays_load(f, i);
        if (!isfinite(v))
            return refuse_value(f, i, "not finite");
        *out = fmax(*out, fabs(v));
    }
    return COPSE_OK;
}

static copse_status set_scaling(struct source *f, copse_feature_scale scale,
                                struct copse_schema_parts *p)
{
    const size_t count = scale == COPSE_SCALE_MAX        ? 1
                         : scale == COPSE_SCALE_STANDARD ? f->row_size
                                                         : 0;
    double *means = copse__arena_alloc(&f->arena, count, sizeof *means);
    double *scales = copse__arena_alloc(&f->arena, count, sizeof *scales);

    if (means == NULL || scales == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "dataset: no memory");
    p->means = means;
    p->scales = scales;
    p->scaling_count = count;
    if (scale == COPSE_SCALE_STANDARD)
        return dataset_arrays_measure(f, means, scales);
    if (scale != COPSE_SCALE_MAX)
        return COPSE_OK;
    COPSE_TRY(find_largest(f, scales));
    p->scaling_count = scales[0] > 0;
    return COPSE_OK;
}

/* ---- the schema ---- */

static copse_status make_schema(copse_context *ctx, struct source *f,
                                const struct copse_array_view *labels,
                                const struct copse_dataset_params *params, const char *label_name,
                                copse_schema **out)
{
    struct copse_schema_parts p = { .kind = COPSE_DATA_ARRAY, .type = COPSE_F32, .input_scale = 1 };
    const bool is_picture = f->from->type == COPSE_U8 && f->from->rank >= 3;
    const bool is_scaled =
        params->scale == COPSE_SCALE_STANDARD || params->scale == COPSE_SCALE_MAX;

    COPSE_TRY(row_shape(f->from->rank - 1, f->from->shape + 1, &p.shape));
    if (is_picture)
        p.kind = COPSE_DATA_PICTURES;
    if (is_picture && params->scale == COPSE_SCALE_AUTO) {
        p.type = COPSE_U8;
        p.input_scale = 1.0f / 255.0f;
    }
    if (labels != NULL)
        COPSE_TRY(copse__label_array_parts(ctx, labels, f->rows, params, is_scaled, label_name,
                                           &f->arena, &p));
    COPSE_TRY(set_scaling(f, params->scale, &p));
    return copse__schema_create(ctx, &p, out);
}

/* Rows of the schema have other numbers than these; the axes of one row may differ. */
static copse_status check_schema(const struct source *f, const copse_schema *schema)
{
    const uint64_t wanted = copse__elements(schema->is.shape);

    for (uint32_t i = 0; i < schema->is.column_count; i++)
        if (schema->is.columns[i].role == COPSE_COLUMN_CATEGORY)
            return copse_fail(
                COPSE_ERR_SHAPE,
                "dataset: %s: training had columns of categories; give cells "
                "(copse_dataset_cells, copse_model_predict_cells), or rows that are encoded by the "
                "schema, without it",
                f->name);
    return f->row_size == wanted
               ? COPSE_OK
               : copse_fail(COPSE_ERR_SHAPE,
                            "dataset: %s: a row has %zu numbers, training had %llu", f->name,
                            f->row_size, (unsigned long long)wanted);
}

/* ---- features ---- */

/* The scaling of each number of a row. */
struct factors {
    double mean, scale;
};

/* Columns of a table have theirs. */
static copse_status find_factors(struct source *f, const struct copse_schema_parts *p,
                                 const struct factors **out)
{
    struct factors *to = copse__arena_alloc(&f->arena, f->row_size, sizeof *to);

    *out = to;
    if (to == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "dataset: no memory");
    for (size_t i = 0; i < f->row_size; i++) {
        const size_t k = p->scaling_count == 1 ? 0 : i;
        to[i] = (struct factors){ p->scaling_count > 0 ? p->means[k] : 0,
                                  p->scaling_count > 0 ? p->scales[k] : 1 };
    }
    for (uint32_t i = 0; i < p->column_count; i++)
        if (p->columns[i].role == COPSE_COLUMN_NUMBER)
            to[p->columns[i].first] = (struct factors){ p->columns[i].mean, p->columns[i].scale };
    return COPSE_OK;
}

static copse_status fill_f32(struct source *f, const struct copse_schema_parts *p, float *to)
{
    const struct factors *of;

    COPSE_TRY(find_factors(f, p, &of));
    for (size_t row = 0, i = 0; row < f->rows; row++)
        for (size_t k = 0; k < f->row_size; k++, i++) {
            to[i] = (float)((dataset_arrays_load(f, i) - of[k].mean) / of[k].scale);
            if (!isfinite(to[i]))
                return refuse_value(f, i, "not finite");
        }
    return COPSE_OK;
}

static copse_status fill_u8(const struct source *f, uint8_t *to)
{
    for (size_t i = 0; i < f->rows * f->row_size; i++) {
        const double v = copse__type_load(f->from->type, f->from->data, i);
        if (!(v >= 0 && v <= 255) || v != floor(v))
            return refuse_value(f, i,
                                "not a byte (a whole number from 0 to 255), as the schema has it");
        to[i] = (uint8_t)v;
    }
    return COPSE_OK;
}

/* Column "x". The array of the source becomes it if it has the type and no other user. */
static copse_status set_features(copse_dataset *ds, struct source *f)
{
    const struct copse_schema_parts *p = &ds->schema->is;
    const copse_type type = p->type == COPSE_U8 ? COPSE_U8 : COPSE_F32;
    copse_array *x;

    if (f->owner != NULL && f->from->type == type)
        x = copse_array_retain(f->owner);
    else
        COPSE_TRY(copse__array_create(ds->ctx, type, f->from->rank, f->from->shape, NULL, &x));
    COPSE_TRY(copse__dataset_add(ds, "x", p->type, p->shape, x));
    if (type == COPSE_F32)
        return fill_f32(f, p, x->data);
    if (f->from->type != COPSE_U8)
        return fill_u8(f, x->data);
    if (x != f->owner)
        memcpy(x->data, f->from->data, x->bytes);
    return COPSE_OK;
}

/* ---- datasets ---- */

static copse_status dataset_arrays_check(const struct copse_array_view *features,
                                         const struct copse_dataset_params *p, const char *name,
                                         size_t *count)
{
    size_t bytes;

    if (p->classes > INT32_MAX || p->scale > COPSE_SCALE_MAX || p->task > COPSE_TASK_SEQUENCE)
        return copse_fail(COPSE_ERR_ARGUMENT, "dataset: classes, scale or task out of range");
    if (p->task == COPSE_TASK_REGRESSION && p->classes != 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "dataset: a regression has no classes: leave out classes or task");
    if (features == NULL)
        return COPSE_OK;
    if (copse_type_size(features->type) == 0 || features->data == NULL)
        return copse_fail(COPSE_ERR_ARGUMENT, "dataset: %s: features without type or data", name);
    if (features->rank < 1 || features->rank > COPSE_ARRAY_MAX_RANK ||
        !copse__shape_size(features->rank, features->shape, sizeof(double), count, &bytes))
        return copse_fail(COPSE_ERR_SHAPE,
                          "dataset: %s: features need 1 to %d axes, the rows first", name,
                          COPSE_ARRAY_MAX_RANK);
    if (*count == 0 || features->shape[0] > UINT32_MAX)
        return copse_fail(COPSE_ERR_SHAPE, "dataset: %s: there must be 1 to 2^32-1 rows, not empty",
                          name);
    return COPSE_OK;
}

copse_status copse__dataset_no_reserved(const struct copse_dataset_params *params)
{
    if (params == NULL)
        return COPSE_OK;
    COPSE_TRY(copse_no_reserved(copse_csv_params, &params->csv));
    COPSE_TRY(copse_no_reserved(copse_source_params, params->source));
    return params->source != NULL ? copse_no_reserved(copse_text_params, params->source->text)
                                  : COPSE_OK;
}

copse_status copse__dataset_check(const struct copse_dataset_params *params)
{
    return dataset_arrays_check(NULL, params, "", NULL);
}

static copse_status dataset_arrays_fill(copse_dataset *ds, struct source *f,
                                        const struct copse_array_view *labels,
                                        const struct copse_dataset_params *params)
{
    const char *label_name = f->owner != NULL && params->labels != NULL ? params->labels : f->name;
    const copse_schema *by = params->schema;
    copse_array *y;

    ds->info.rank = f->from->rank - 1;
    memcpy(ds->info.shape, f->from->shape + 1, ds->info.rank * sizeof *ds->info.shape);
    ds->info.row_size = f->row_size;
    if (by != NULL)
        COPSE_TRY(check_schema(f, by));
    if (by != NULL)
        ds->schema = copse_schema_retain((copse_schema *)(uintptr_t)by);
    else
        COPSE_TRY(make_schema(ds->ctx, f, labels, params, label_name, &ds->schema));
    COPSE_TRY(set_features(ds, f));
    if (by == NULL && ds->schema->is.scaling_count == 1)
        ds->info.scale = (float)ds->schema->is.scales[0];
    if (labels == NULL || ds->schema->is.task == COPSE_TASK_AUTO)
        return COPSE_OK;
    COPSE_TRY(copse__label_array_read(ds->ctx, labels, f->rows, ds->schema, label_name, &y));
    return copse__dataset_add_labels(ds, y);
}

copse_status copse__dataset_make(copse_context *ctx, const struct copse_array_view *features,
                                 copse_array *owner, const struct copse_array_view *labels,
                                 const struct copse_dataset_params *params, const char *name,
                                 copse_dataset **out)
{
    size_t count = 0;
    copse_dataset *ds;

    *out = NULL;
    COPSE_TRY(dataset_arrays_check(features, params, name, &count));
    struct source f = { features,
                        owner,
                        name,
                        features->shape[0],
                        count / features->shape[0],
                        { .mem = &copse__base(ctx)->mem } };
    COPSE_TRY(copse__dataset_new(ctx, f.rows, &ds));
    copse_status s = dataset_arrays_fill(ds, &f, labels, params);
    copse__arena_fini(&f.arena);
    if (s != COPSE_OK)
        copse_dataset_release(&ds);
    *out = ds;
    return s;
}

copse_status copse_dataset_create(copse_context *ctx, const struct copse_array_view *features,
                                  const struct copse_array_view *labels,
                                  const struct copse_dataset_params *params, copse_dataset **out)
{
    static const struct copse_dataset_params defaults = { 0 };

    COPSE_TRY(copse_need("dataset", ctx, features, out));
    COPSE_TRY(copse__dataset_no_reserved(params));
    return copse__dataset_make(ctx, features, NULL, labels, params != NULL ? params : &defaults,
                               "arrays", out);
}
