/* SPDX-License-Identifier: MIT */
/* Datasets of pictures: their size, their schema, and whether they are decoded at once. */
#include "copse/data/pictures.h"

#include <stdlib.h>

#include "core/data/dataset/dataset.h"
#include "core/data/picture/picture_loader.h"
#include "core/data/reader/byte_stream.h"
#include "core/pictures/augment.h"

#define KEPT_BYTES ((uint64_t)1 << 30)

/* A dataset while it is made. */
struct pictures {
    const struct copse_dataset_params *params;
    struct copse_picture_list *list;
    struct copse_picture_shape shape;
};

bool copse_pictures_are_read(void)
{
#if defined(COPSE_HAVE_PICTURES)
    return true;
#else
    return false;
#endif
}

copse_status copse_augment_check(const char *augment)
{
    struct copse_augment is;

    COPSE_TRY(copse_need("augment", augment));
    return copse__augment_parse(augment, &is);
}

const char *copse_dataset_file(const copse_dataset *data, size_t row)
{
    if (data == NULL || data->pictures == NULL || row >= data->info.rows)
        return NULL;
    return data->pictures->files.at[data->rows != NULL ? data->rows[row] : row].path;
}

/* ---- size and channels ---- */

/* "WIDTHxHEIGHT" */
static copse_status parse_resize(const char *text, struct copse_picture_shape *out)
{
    unsigned long sides[2];
    const char *at = text;

    for (int i = 0; i < 2; i++) {
        char *end = NULL;
        sides[i] = at[0] >= '0' && at[0] <= '9' ? strtoul(at, &end, 10) : 0;
        if (sides[i] == 0 || sides[i] > COPSE_PICTURE_SIDE_MAX || end[0] != (i == 0 ? 'x' : '\0'))
            return copse_fail(
                COPSE_ERR_ARGUMENT,
                "pictures: resize is '%.40s', not WIDTHxHEIGHT with sides from 1 to %u, such "
                "as 32x32",
                text, COPSE_PICTURE_SIDE_MAX);
        at = end + 1;
    }
    *out = (struct copse_picture_shape){ (uint32_t)sides[0], (uint32_t)sides[1], 1, true };
    return COPSE_OK;
}

static bool has_size(const struct copse_picture *p, const struct copse_picture_shape *shape)
{
    return p->width == shape->width && p->height == shape->height;
}

/* Of data without a schema. */
static copse_status find_shape(struct pictures *p)
{
    const struct copse_picture_file *files = p->list->files.at;
    const char *resize = p->params->source != NULL ? p->params->source->resize : NULL;

    p->shape =
        (struct copse_picture_shape){ files[0].header.width, files[0].header.height, 1, false };
    if (resize != NULL)
        COPSE_TRY(parse_resize(resize, &p->shape));
    for (size_t i = 0; i < p->list->files.count; i++) {
        if (!files[i].header.is_grey)
            p->shape.channels = 3;
        if (resize == NULL && !has_size(&files[i].header, &p->shape))
            return copse_fail(
                COPSE_ERR_SHAPE,
                "pictures: %s has %u x %u pixels, %s has %u x %u; give all one size with "
                "resize (--resize %ux%u)",
                files[i].path, files[i].header.width, files[i].header.height, files[0].path,
                p->shape.width, p->shape.height, p->shape.width, p->shape.height);
    }
    return COPSE_OK;
}

/* Of the schema of other pictures. */
static copse_status take_shape(struct pictures *p, const copse_schema *schema)
{
    const struct copse_schema_parts *s = &schema->is;
    const copse_shape shape = s->shape;
    const uint32_t channels = shape.rank == 3 ? shape.dims[2] : 1;

    if (s->kind != COPSE_DATA_PICTURES || s->type != COPSE_U8 || shape.rank < 2 || shape.rank > 3 ||
        (channels != 1 && channels != 3))
        return copse_fail(COPSE_ERR_SHAPE,
                          "pictures: %s: the model was not trained on 8-bit pictures",
                          p->list->files.at[0].path);
    p->shape =
        (struct copse_picture_shape){ shape.dims[1], shape.dims[0], channels, s->is_resized };
    for (size_t i = 0; !s->is_resized && i < p->list->files.count; i++) {
        const struct copse_picture_file *f = &p->list->files.at[i];
        if (!has_size(&f->header, &p->shape))
            return copse_fail(
                COPSE_ERR_SHAPE,
                "pictures: %s has %u x %u pixels, training had %u x %u; a model that is "
                "trained with --resize takes every size",
                f->path, f->header.width, f->header.height, p->shape.width, p->shape.height);
    }
    return COPSE_OK;
}

/* ---- schema and labels ---- */

/* The names are the numbers from 0. */
static bool are_counted(const struct copse_picture_list *list)
{
    char digits[24];

    for (size_t i = 0; i < list->classes.count; i++) {
        snprintf(digits, sizeof digits, "%zu", i);
        if (strcmp(list->classes.at[i], digits) != 0)
            return false;
    }
    return true;
}

static bool are_numbers(const struct copse_picture_list *list)
{
    for (size_t i = 0; i < list->classes.count; i++) {
        const char *name = list->classes.at[i];
        if (name[strspn(name, "0123456789")] != '\0' || (name[0] == '0' && name[1] != '\0') ||
            strlen(name) > 9)
            return false;
    }
    return true;
}

static copse_status check_params(const struct pictures *p)
{
    const struct copse_dataset_params *is = p->params;
    const size_t classes = p->list->classes.count;

    if (is->scale != COPSE_SCALE_AUTO)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "pictures: they stay 8-bit until a device scales them; leave out scale");
    if (is->task == COPSE_TASK_REGRESSION || is->task == COPSE_TASK_SEQUENCE)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "pictures: their labels are classes; the task is classification");
    if (is->labels != NULL)
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "pictures: a file of labels, %s, does not fit pictures; give each class a folder",
            is->labels);
    if (classes > COPSE_NAMED_CLASSES_MAX)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "pictures: there are %zu class folders, at most %u are possible", classes,
                          COPSE_NAMED_CLASSES_MAX);
    for (size_t i = 0; i < classes; i++) {
        const char *name = p->list->classes.at[i];
        if (copse__utf8_valid(name, strlen(name)) < strlen(name))
            return copse_fail(COPSE_ERR_FORMAT,
                              "pictures: the name of the class folder '%s' is not UTF-8", name);
    }
    if (classes > 0 && is->classes != 0 && is->classes != classes)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "pictures: there are %zu class folders, but classes is %u", classes,
                          is->classes);
    return COPSE_OK;
}

static copse_status make_schema(const struct pictures *p, copse_schema **out)
{
    const struct copse_picture_shape *shape = &p->shape;
    struct copse_schema_parts parts = { .kind = COPSE_DATA_PICTURES,
                                        .type = COPSE_U8,
                                        .input_scale = 1.0f / 255.0f };

    parts.shape = shape->channels == 1 ? COPSE_SHAPE(shape->height, shape->width)
                                       : COPSE_SHAPE(shape->height, shape->width, shape->channels);
    parts.is_resized = shape->is_resized;
    if (p->list->classes.count > 0 && !p->params->no_labels) {
        parts.task = COPSE_TASK_CLASSIFICATION;
        parts.outputs = (uint32_t)p->list->classes.count;
        parts.classes = are_counted(p->list) ? NULL : p->list->classes.at;
        parts.is_numbered = are_numbers(p->list);
    }
    return copse__schema_create(p->list->ctx, &parts, out);
}

/* The class of the schema with the name of each class folder. */
static copse_status map_classes(const struct copse_picture_list *list, const copse_schema *schema,
                                int32_t *to)
{
    const uint32_t count = COPSE_MIN(schema->is.outputs, COPSE_NAMED_CLASSES_MAX);

    for (size_t i = 0; i < list->classes.count; i++) {
        uint32_t k = 0;
        while (k < count && strcmp(schema->is.classes[k], list->classes.at[i]) != 0)
            k++;
        if (k == count)
            return copse_fail(
                COPSE_ERR_FORMAT,
                "pictures: the folder '%s' is not one of the classes that training had",
                list->classes.at[i]);
        to[i] = (int32_t)k;
    }
    return COPSE_OK;
}

static copse_status make_labels(const struct pictures *p, const copse_schema *schema,
                                copse_array **out)
{
    struct copse_mem *mem = &copse__base(p->list->ctx)->mem;
    int32_t *classes = copse__alloc(mem, p->list->classes.count, sizeof *classes);

    *out = NULL;
    copse_status s = classes != NULL ? map_classes(p->list, schema, classes)
                                     : copse_fail(COPSE_ERR_NO_MEMORY, "pictures: no memory");
    if (s == COPSE_OK)
        s = copse__array_create(p->list->ctx, COPSE_I32, 1, &p->list->files.count, NULL, out);
    for (size_t i = 0; s == COPSE_OK && i < p->list->files.count; i++)
        ((int32_t *)(*out)->data)[i] = classes[p->list->files.at[i].class];
    copse__free(mem, classes);
    return s;
}

/* ---- the dataset ---- */

static copse_status add_pixels(copse_dataset *ds, const struct pictures *p)
{
    const struct copse_source_params *source = p->params->source;
    const uint64_t kept =
        source != NULL && source->picture_bytes != 0 ? source->picture_bytes : KEPT_BYTES;
    const uint64_t row = (uint64_t)p->shape.width * p->shape.height * p->shape.channels;
    const struct copse_schema_parts *schema = &ds->schema->is;
    struct copse_row_source *rows;
    copse_array *pixels;

    if (p->list->files.count <= kept / row) {
        COPSE_TRY(copse__pictures_decode(p->list, &p->shape, &pixels));
        return copse__dataset_add(ds, "x", COPSE_U8, schema->shape, pixels);
    }
    COPSE_TRY(copse__picture_loader_create(p->list, &p->shape, copse__picture_threads(),
                                           (size_t)COPSE_MIN(kept, (uint64_t)SIZE_MAX), &rows));
    return copse__dataset_add_rows(ds, "x", COPSE_U8, schema->shape, rows);
}

static copse_status dataset_pictures_fill(copse_dataset *ds, struct pictures *p)
{
    const copse_schema *by = p->params->schema;
    copse_array *labels;

    COPSE_TRY(by != NULL ? take_shape(p, by) : find_shape(p));
    if (by != NULL)
        ds->schema = copse_schema_retain((copse_schema *)(uintptr_t)by);
    else
        COPSE_TRY(make_schema(p, &ds->schema));
    ds->pictures = copse__picture_list_retain(p->list);
    COPSE_TRY(add_pixels(ds, p));
    copse__dataset_describe_row(ds);
    if (p->list->classes.count == 0 || p->params->no_labels ||
        ds->schema->is.task != COPSE_TASK_CLASSIFICATION)
        return COPSE_OK;
    COPSE_TRY(make_labels(p, ds->schema, &labels));
    return copse__dataset_add_labels(ds, labels);
}

static copse_status dataset_pictures_make(struct pictures *p, copse_dataset **out)
{
    if (p->params->schema == NULL)
        COPSE_TRY(check_params(p));
    COPSE_TRY(copse__dataset_new(p->list->ctx, p->list->files.count, out));
    const copse_status s = dataset_pictures_fill(*out, p);
    if (s != COPSE_OK)
        copse_dataset_release(out);
    return s;
}

copse_status copse__dataset_pictures(copse_context *ctx, const char *const *paths, size_t count,
                                     const struct copse_dataset_params *params, copse_dataset **out)
{
    struct pictures p = { .params = params };

    *out = NULL;
    COPSE_TRY(copse__dataset_check(params));
    COPSE_TRY(copse__picture_list_create(ctx, paths, count, &p.list));
    const copse_status s = dataset_pictures_make(&p, out);
    copse__picture_list_release(&p.list);
    return s;
}
