/* SPDX-License-Identifier: MIT */
/* An ONNX file as a text and as JSON. */
#include "tools/info/info_onnx.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/nn/onnx.h"

#include "tools/common/json.h"
#include "tools/common/plural.h"

#define NAME_MOST 48

static void onnx_shape(const struct copse_onnx_tensor *t, char text[200])
{
    int n = snprintf(text, 200, t->has_rank ? "[" : "[...");
    for (uint32_t i = 0; i < t->rank; i++)
        n += t->shape[i] < 0
                 ? snprintf(text + n, (size_t)(200 - n), "%s?", i ? ", " : "")
                 : snprintf(text + n, (size_t)(200 - n), "%s%" PRId64, i ? ", " : "", t->shape[i]);
    snprintf(text + n, (size_t)(200 - n), "]");
}

static void print_tensors(const char *what, const struct copse_onnx_tensor *list, size_t count)
{
    char shape[200];
    int width = 4;
    for (size_t i = 0; i < count; i++) {
        const int n = (int)strlen(list[i].name);
        width = n > width ? n < NAME_MOST ? n : NAME_MOST : width;
    }
    if (count > 0)
        printf("\n%s\n", what);
    for (size_t i = 0; i < count; i++) {
        onnx_shape(&list[i], shape);
        printf("  %-*s  %-8s  %s%s\n", width, session_shown(list[i].name),
               session_shown(list[i].type), shape,
               list[i].elements > 0 && !list[i].is_trained ? "  constant" : "");
    }
}

static void print_onnx(const copse_onnx *m, const char *path, const struct copse_onnx_info *is)
{
    size_t count;
    printf("%s: ONNX, operator set %" PRId64 "%s%s; %" PRIu64 " parameter%s, %" PRIu64 " node%s\n",
           session_shown(path), is->opset, *is->producer ? ", by " : "",
           session_shown(is->producer), is->parameters, plural_end(is->parameters), is->nodes,
           plural_end(is->nodes));
    if (is->refused > 0)
        printf("%" PRIu64 " of the nodes %s not read: see below\n", is->refused,
               is->refused == 1 ? "is" : "are");
    const struct copse_onnx_tensor *list = copse_onnx_inputs(m, &count);
    print_tensors("inputs", list, count);
    list = copse_onnx_outputs(m, &count);
    print_tensors("outputs", list, count);
    list = copse_onnx_weights(m, &count);
    print_tensors("weights", list, count);
    const struct copse_onnx_op *ops = copse_onnx_ops(m, &count);
    printf("\noperators\n");
    for (size_t i = 0; i < count; i++)
        printf("  %6" PRIu64 "  %s%s\n", ops[i].count, session_shown(ops[i].name),
               ops[i].is_read ? "" : "  not read");
    const struct copse_onnx_refusal *refusals = copse_onnx_refusals(m, &count);
    if (count > 0)
        printf("\nnodes that are not read\n");
    for (size_t i = 0; i < count; i++)
        printf("  %s (%s): %s\n", session_shown(refusals[i].node), session_shown(refusals[i].op),
               session_shown(refusals[i].why));
}

/* ---- JSON ---- */

static bool add_onnx_tensors(cJSON *o, const char *name, const struct copse_onnx_tensor *list,
                             size_t count)
{
    cJSON *array = cJSON_AddArrayToObject(o, name);
    for (size_t i = 0; array && i < count; i++) {
        cJSON *t = cJSON_CreateObject();
        if (!cJSON_AddItemToArray(array, t))
            return false;
        json_add_text(t, "name", list[i].name);
        json_add_text(t, "type", list[i].type);
        cJSON *shape = list[i].has_rank ? cJSON_AddArrayToObject(t, "shape") : NULL;
        for (uint32_t k = 0; shape && k < list[i].rank; k++) {
            char digits[24];
            snprintf(digits, sizeof digits, "%" PRId64, list[i].shape[k]);
            if (!cJSON_AddItemToArray(shape, list[i].shape[k] < 0 ? cJSON_CreateNull()
                                                                  : cJSON_CreateRaw(digits)))
                return false;
        }
        if (list[i].elements > 0) {
            json_add_count(t, "elements", list[i].elements);
            cJSON_AddBoolToObject(t, "trained", list[i].is_trained);
        }
    }
    return array != NULL;
}

static bool add_onnx_nodes(cJSON *o, const copse_onnx *m)
{
    size_t count;
    const struct copse_onnx_op *ops = copse_onnx_ops(m, &count);
    cJSON *counts = cJSON_AddObjectToObject(o, "operators");
    for (size_t i = 0; counts && i < count; i++)
        json_add_count(counts, ops[i].name, ops[i].count);
    const struct copse_onnx_refusal *refusals = copse_onnx_refusals(m, &count);
    cJSON *list = cJSON_AddArrayToObject(o, "not_read");
    for (size_t i = 0; list && i < count; i++) {
        cJSON *r = cJSON_CreateObject();
        if (!cJSON_AddItemToArray(list, r))
            return false;
        json_add_text(r, "node", refusals[i].node);
        json_add_text(r, "operator", refusals[i].op);
        json_add_text(r, "why", refusals[i].why);
    }
    return counts && list;
}

static copse_status onnx_json(const copse_onnx *m, const char *path,
                              const struct copse_onnx_info *is)
{
    size_t inputs, outputs, weights;
    const struct copse_onnx_tensor *in = copse_onnx_inputs(m, &inputs),
                                   *out = copse_onnx_outputs(m, &outputs),
                                   *of = copse_onnx_weights(m, &weights);
    cJSON *o = cJSON_CreateObject();
    json_add_text(o, "path", path);
    json_add_count(o, "opset", (uint64_t)is->opset);
    json_add_text(o, "producer", is->producer);
    json_add_count(o, "parameters", is->parameters);
    json_add_count(o, "nodes", is->nodes);
    if (add_onnx_tensors(o, "inputs", in, inputs) && add_onnx_tensors(o, "outputs", out, outputs) &&
        add_onnx_tensors(o, "weights", of, weights) && add_onnx_nodes(o, m))
        return json_print(o);
    cJSON_Delete(o);
    return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the file as JSON");
}

int info_onnx_run(const char *path, bool is_json)
{
    copse_context *ctx = NULL;
    copse_onnx *m = NULL;
    struct copse_onnx_info is;
    copse_status s = session_open_files(&ctx);
    if (s == COPSE_OK)
        s = copse_onnx_open(ctx, path, &m);
    if (s == COPSE_OK)
        s = copse_onnx_describe(m, &is);
    if (s == COPSE_OK && is_json)
        s = onnx_json(m, path, &is);
    else if (s == COPSE_OK)
        print_onnx(m, path, &is);
    const int code = s == COPSE_OK ? EXIT_DONE : session_fail(s);
    copse_onnx_release(&m);
    copse_context_release(&ctx);
    return code;
}
