/* SPDX-License-Identifier: MIT */
/* Settings of cross-device operations, and the link costs by which they choose. */
#include "core/value/cross_device.h"

const struct copse_cross_device_params copse__cross_defaults = { .kind = COPSE_CROSS_AUTO };

copse_status copse_reduce_op_parse(const char *text, copse_reduce_op *out)
{
    static const char *const names[] = { [COPSE_REDUCE_SUM] = "sum", [COPSE_REDUCE_MEAN] = "mean" };
    COPSE_TRY(copse_need("reduce", text, out));
    for (size_t i = 0; i < COPSE_COUNT(names); i++) {
        const char *a = text, *b = names[i];
        while (*a && (*a | 32) == *b) { /* letters alone: every b is one */
            a++;
            b++;
        }
        if (!*a && !*b) {
            *out = (copse_reduce_op)i;
            return COPSE_OK;
        }
    }
    return copse_fail(COPSE_ERR_ARGUMENT, "reduce: '%.32s' is neither \"sum\" nor \"mean\"", text);
}

static copse_status check_settings(const struct copse_cross_device_params *p)
{
    const bool is_one = p->kind == COPSE_CROSS_TO_ONE;
    const bool has_packing = p->packs || p->small_bytes || p->small_group || p->pack_bytes;
    COPSE_TRY(copse_need_known("cross-device", "algorithm", p->kind, COPSE_CROSS_HIERARCHICAL));
    if (p->has_root && !is_one)
        return copse_fail(COPSE_ERR_ARGUMENT, "cross-device: a root belongs to TO_ONE");
    if (p->has_root && p->root >= COPSE_MAX_REPLICAS && p->root != COPSE_HOST)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "cross-device: root %u; there are at most %d replicas", p->root,
                          COPSE_MAX_REPLICAS);
    if (p->accumulate && !is_one)
        return copse_fail(COPSE_ERR_ARGUMENT, "cross-device: an accumulation belongs to TO_ONE");
    if (has_packing && is_one)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "cross-device: TO_ONE reduces one by one, without packs");
    if (p->small_group && !p->small_bytes)
        return copse_fail(COPSE_ERR_ARGUMENT, "cross-device: small_group needs small_bytes");
    return COPSE_OK;
}

copse_status copse_cross_device_create(copse_context *ctx,
                                       const struct copse_cross_device_params *params,
                                       copse_cross_device **out)
{
    COPSE_TRY(copse_need("cross-device", ctx, out));
    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_cross_device_params, params));
    if (params)
        COPSE_TRY(check_settings(params));
    copse_cross_device *x = copse__alloc(&ctx->base.mem, 1, sizeof *x);
    COPSE_TRY(copse_need_memory(x, "cross-device"));
    atomic_init(&x->refs, 1);
    x->ctx = copse_context_retain(ctx);
    x->params = params ? *params : copse__cross_defaults;
    *out = x;
    return COPSE_OK;
}

copse_cross_device *copse_cross_device_retain(copse_cross_device *x)
{
    if (x)
        copse__ref(&x->refs);
    return x;
}

void copse_cross_device_release(copse_cross_device **at)
{
    if (!at || !*at)
        return;
    copse_cross_device *x = *at;
    *at = NULL;
    if (!copse__unref(&x->refs))
        return;
    copse__context_free(x->ctx, x);
}

const char *copse_cross_device_name(const copse_cross_device *x)
{
    static const char *const names[] = {
        [COPSE_CROSS_AUTO] = "auto",
        [COPSE_CROSS_TO_ONE] = "to_one",
        [COPSE_CROSS_ALL_REDUCE] = "all_reduce",
        [COPSE_CROSS_HIERARCHICAL] = "hierarchical",
    };
    return names[x ? x->params.kind : COPSE_CROSS_AUTO];
}

const char *copse__cross_text(const copse_strategy *st)
{
    if (!st->cross)
        return "of the library";
    return st->cross->params.accumulate ? "accumulate" : copse_cross_device_name(st->cross);
}

/* ---- links ---- */

static copse_status find_reducer(copse_strategy *st, const char *call,
                                 const struct copse_link *links, copse_value_reducer **x)
{
    COPSE_TRY(copse_need("links", st, links));
    if (!st->ctx)
        return copse_fail(COPSE_ERR_ARGUMENT, "links: the default strategy has no devices");
    COPSE_TRY(copse__callback_check(call, st));
    return copse__strategy_reducer(st, x);
}

copse_status copse_strategy_links(copse_strategy *st, struct copse_link *links)
{
    copse_value_reducer *x;
    const struct copse_link *all;
    COPSE_TRY(find_reducer(st, "copse_strategy_links", links, &x));
    COPSE_TRY(copse__value_links(x, &all));
    memcpy(links, all, (st->replica_count + 1) * sizeof *links);
    return COPSE_OK;
}

copse_status copse_strategy_set_links(copse_strategy *st, const struct copse_link *links)
{
    copse_value_reducer *x;
    COPSE_TRY(find_reducer(st, "copse_strategy_set_links", links, &x));
    for (uint32_t i = 0; i <= st->replica_count; i++)
        if (!(links[i].latency >= 0 && links[i].read_rate > 0 && links[i].write_rate > 0 &&
              links[i].sum_rate > 0))
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "links: entry %u: rates must be positive, the latency not negative",
                              i);
    copse__value_set_links(x, links);
    return COPSE_OK;
}
