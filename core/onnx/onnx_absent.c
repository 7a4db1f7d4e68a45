/* SPDX-License-Identifier: MIT */
/* The calls of nn/onnx.h in a build without protobuf-c. */
#include "copse/nn/onnx.h"
#include "core/base/base.h"
#include "core/graph/op.h"

bool copse_onnx_is_read(void)
{
    return false;
}

static copse_status onnx_absent(void)
{
    return copse_fail(COPSE_ERR_UNSUPPORTED,
                      "onnx: this build reads no ONNX files: it was made without protobuf-c "
                      "(COPSE_ONNX in CMakeLists.txt)");
}

copse_status copse_onnx_open(copse_context *ctx, const char *path, copse_onnx **out)
{
    COPSE_TRY(copse_need("onnx", out));
    *out = NULL;
    COPSE_TRY(copse_need("onnx", ctx, path));
    return onnx_absent();
}

copse_onnx *copse_onnx_retain(copse_onnx *m)
{
    return m;
}

void copse_onnx_release(copse_onnx **m)
{
    if (m)
        *m = NULL;
}

copse_status copse_onnx_describe(const copse_onnx *m, struct copse_onnx_info *out)
{
    COPSE_TRY(copse_need("onnx", m, out));
    return onnx_absent();
}

#define EMPTY_LIST(type, function)                    \
    type function(const copse_onnx *m, size_t *count) \
    {                                                 \
        (void)m;                                      \
        if (count)                                    \
            *count = 0;                               \
        return NULL;                                  \
    }
EMPTY_LIST(const struct copse_onnx_tensor *, copse_onnx_inputs)
EMPTY_LIST(const struct copse_onnx_tensor *, copse_onnx_outputs)
EMPTY_LIST(const struct copse_onnx_tensor *, copse_onnx_weights)
EMPTY_LIST(const struct copse_onnx_op *, copse_onnx_ops)
EMPTY_LIST(const struct copse_onnx_refusal *, copse_onnx_refusals)
EMPTY_LIST(copse_variable *const *, copse_onnx_variables)

copse_status copse_onnx_check(const copse_onnx *m)
{
    COPSE_TRY(copse_need("onnx", m));
    return onnx_absent();
}

copse_status copse_onnx_make(copse_onnx *m, copse_strategy *st,
                             const struct copse_onnx_make_params *params)
{
    COPSE_TRY(copse_need("onnx", m, st));
    COPSE_TRY(copse_no_reserved(copse_onnx_make_params, params));
    return onnx_absent();
}

void copse_onnx_apply(const copse_onnx *m, copse_graph *g,
                      const struct copse_onnx_apply_params *params, copse_tensor **results)
{
    COPSE_LATCH_VOID(g, copse_need("onnx", m, g, params, results));
    for (size_t i = 0; i < params->output_count; i++)
        results[i] = copse__failed(g, COPSE_OK);
    COPSE_LATCH_VOID(g, copse_no_reserved(copse_onnx_apply_params, params));
    COPSE_LATCH_VOID(g, onnx_absent());
}

copse_status copse_onnx_save(copse_onnx *m, const char *path)
{
    COPSE_TRY(copse_need("onnx", m, path));
    return onnx_absent();
}

copse_tensor *copse_onnx_loss(copse_graph *g, const copse_batch *in, void *network)
{
    COPSE_LATCH(g, copse_need("onnx", g, in, network));
    return copse__failed(g, onnx_absent());
}

copse_status copse_onnx_predict(copse_onnx *m, const copse_dataset *data, copse_array **out)
{
    COPSE_TRY(copse_need("onnx", out));
    *out = NULL;
    COPSE_TRY(copse_need("onnx", m, data));
    return onnx_absent();
}

copse_status copse_onnx_write(const copse_layer *l, const char *path,
                              const struct copse_onnx_write_params *params)
{
    COPSE_TRY(copse_need("onnx", l, path));
    COPSE_TRY(copse_no_reserved(copse_onnx_write_params, params));
    return onnx_absent();
}
