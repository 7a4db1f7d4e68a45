/* SPDX-License-Identifier: MIT */
/* What a network in an ONNX file says about each row of data. */
#include "tools/predict/predict_onnx.h"

#include <stdio.h>
#include <string.h>

#include "copse/data/readers.h"
#include "copse/nn/onnx.h"

#include "tools/common/json.h"
#include "tools/common/onnx_rows.h"
#include "tools/common/plural.h"

/* Number i of a result, f32 or i32. */
static double result_number(const struct copse_array_view *a, size_t i)
{
    return a->type == COPSE_F32 ? (double)((const float *)a->data)[i]
                                : (double)((const int32_t *)a->data)[i];
}

static copse_status print_rows(FILE *to, const struct copse_array_view *a, const char *name,
                               bool is_json)
{
    size_t each = 1;
    for (uint32_t i = 1; i < a->rank; i++)
        each *= a->shape[i];
    for (size_t k = 0; k < each && !is_json; k++)
        fprintf(to, "%s%zu%c", name, k, k + 1 < each ? ',' : '\n');
    for (size_t r = 0; r < a->shape[0]; r++) {
        if (!is_json) {
            for (size_t k = 0; k < each; k++)
                fprintf(to, "%.9g%c", result_number(a, r * each + k), k + 1 < each ? ',' : '\n');
            continue;
        }
        cJSON *o = cJSON_CreateObject(), *list;
        json_add_count(o, "row", r + 1);
        list = cJSON_AddArrayToObject(o, "values");
        for (size_t k = 0; list && k < each; k++)
            cJSON_AddItemToArray(list, cJSON_CreateNumber(result_number(a, r * each + k)));
        COPSE_TRY(json_write(to, o));
    }
    return COPSE_OK;
}

bool predict_onnx_is_array(const char *path)
{
    const size_t n = path ? strlen(path) : 0;
    return n > 4 && strcmp(path + n - 4, ".npy") == 0;
}

static copse_status put_rows(const struct use *u, const struct copse_array_view *a, bool is_json,
                             const char *path)
{
    struct output o;
    if (!path)
        return print_rows(stdout, a, "y", is_json);
    if (predict_onnx_is_array(path)) {
        COPSE_TRY(copse_write_npy(u->ctx, path, a));
    } else {
        COPSE_TRY(output_open(&o, path));
        COPSE_TRY(output_end(&o, print_rows(o.stream, a, "y", is_json)));
    }
    printf("%zu row%s: %s\n", a->shape[0], plural_end(a->shape[0]), path);
    return COPSE_OK;
}

copse_status predict_onnx(struct use *u, bool is_json, const char *ignore, const char *path)
{
    copse_onnx *m = NULL;
    copse_array *rows = NULL;
    char ids[COPSE_MAX_REPLICAS][32];
    size_t count;
    if (strcmp(u->data_path, "-") == 0)
        return session_set_error(COPSE_ERR_ARGUMENT, "rows for an ONNX file come from a file");
    COPSE_TRY(session_open(&u->how, &u->ctx));
    COPSE_TRY(copse_select_devices(u->ctx, u->devices, ids, COPSE_MAX_REPLICAS, &count));
    COPSE_TRY(copse_one_device_create(u->ctx, ids[0], NULL, &u->strategy));
    copse_status s = copse_onnx_open(u->ctx, u->model_path, &m);
    if (s == COPSE_OK)
        s = copse_onnx_make(m, u->strategy, NULL);
    if (s == COPSE_OK)
        s = onnx_rows_open(u->ctx, u->data_path, m,
                           &(struct copse_dataset_params){ .no_labels = true, .ignore = ignore },
                           &u->data);
    if (s == COPSE_OK)
        s = copse_onnx_predict(m, u->data, &rows);
    if (s == COPSE_OK)
        s = put_rows(u, copse_array_view(rows), is_json, path);
    copse_array_release(&rows);
    copse_onnx_release(&m);
    return s;
}
