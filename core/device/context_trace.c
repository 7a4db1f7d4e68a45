/* SPDX-License-Identifier: MIT */
/* The trace of a context. */
#include "core/base/trace.h"
#include "core/device/device.h"

copse_status copse_trace_start(copse_context *ctx, const struct copse_trace_params *params)
{
    COPSE_TRY(copse_need("trace", ctx, params));
    COPSE_TRY(copse_no_reserved(copse_trace_params, params));
    return copse__trace_start(ctx->base.trace, params);
}

copse_status copse_trace_stop(copse_context *ctx, struct copse_trace_summary *out)
{
    COPSE_TRY(copse_need("trace", ctx));
    return copse__trace_stop(ctx->base.trace, out);
}
