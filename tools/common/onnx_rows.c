/* SPDX-License-Identifier: MIT */
/* Rows of data for a network in an ONNX file. */
#include "tools/common/onnx_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "copse/data/schema.h"

#include "tools/common/plural.h"

uint64_t onnx_rows_elements(const struct copse_onnx_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 1; i < t->rank; i++) {
        if (t->shape[i] < 0 || (t->shape[i] > 0 && n > INT64_MAX / (uint64_t)t->shape[i]))
            return 0;
        n *= (uint64_t)t->shape[i];
    }
    return t->has_rank && t->rank > 0 ? n : 0;
}

/* The network knows no categories: they would be encoded by the file at hand alone. */
static copse_status check_column(const char *path, uint32_t i, const struct copse_schema_column *c)
{
    char name[220];
    if (c->role != COPSE_COLUMN_CATEGORY && c->role != COPSE_COLUMN_DATE)
        return COPSE_OK;
    snprintf(name, sizeof name, *c->name ? "'%.200s'" : "%.0s%u", c->name, i + 1);
    return session_set_error(COPSE_ERR_ARGUMENT,
                             "'%s': column %s has %s; the network of an ONNX file takes numbers: "
                             "write them as numbers, or leave the column out with --ignore",
                             path, name, c->role == COPSE_COLUMN_DATE ? "dates" : "texts");
}

static copse_status check_table(const char *path, const copse_onnx *network,
                                const copse_schema *schema, uint32_t columns)
{
    size_t inputs;
    uint64_t numbers = 0;
    struct copse_schema_column c;
    const struct copse_onnx_tensor *x = copse_onnx_inputs(network, &inputs);
    for (uint32_t i = 0; i < columns; i++) {
        COPSE_TRY(copse_schema_column(schema, i, &c));
        COPSE_TRY(check_column(path, i, &c));
        numbers += c.role == COPSE_COLUMN_NUMBER;
    }
    const uint64_t taken = inputs == 1 ? onnx_rows_elements(x) : 0;
    if (taken == 0 || taken == numbers)
        return COPSE_OK;
    return session_set_error(
        COPSE_ERR_SHAPE,
        "'%s': the table has %" PRIu64 " column%s of numbers, and input '%s' takes %" PRIu64
        ": columns go by their order; leave out others, such as labels, with --ignore",
        path, numbers, plural_end(numbers), x->name, taken);
}

copse_status onnx_rows_open(copse_context *ctx, const char *path, const copse_onnx *network,
                            const struct copse_dataset_params *how, copse_dataset **out)
{
    struct copse_schema_info is;
    struct copse_dataset_params params = *how;
    char ignore[4096];
    /* "none": columns that number the rows stay, too */
    const int n = snprintf(ignore, sizeof ignore, "none%s%s", how->ignore ? "," : "",
                           how->ignore ? how->ignore : "");
    if (n >= (int)sizeof ignore)
        return session_set_error(COPSE_ERR_ARGUMENT, "--ignore: the list is too long");
    params.scale = COPSE_SCALE_NONE;
    params.ignore = ignore;
    COPSE_TRY(copse_dataset_open(ctx, path, &params, out));
    const copse_schema *schema = copse_dataset_schema(*out);
    COPSE_TRY(copse_schema_describe(schema, &is));
    if (is.kind == COPSE_DATA_TABLE)
        return check_table(path, network, schema, is.columns);
    if (how->ignore || how->csv.label_name || how->csv.label_column > 0)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "--label and --ignore belong to tables; '%s' is none", path);
    return COPSE_OK;
}
