/* SPDX-License-Identifier: MIT */
/* Evaluates a graph in double precision with the references of its kernels. Devices are compared
   with the results, and central differences use them. Slow but simple by design. */
#include "core/graph/lowering.h"
#include "core/graph/type.h"

struct value {
    void *data; /* double[] of f32 tensors, int32_t[] of i32 tensors, stored types as on devices */
    uint64_t count;
};

struct evaluator {
    struct copse_lowering lowering; /* first */
    struct copse_mem *mem;
    struct value *values; /* by node id */
    struct value scratch[8];
    uint32_t scratch_count;
    uint32_t step[COPSE_STEP_WORDS];
};

static const struct copse_limits reference_limits = {
    .max_buffer_bytes = UINT64_MAX,
    .max_binding_bytes = UINT64_MAX,
    .offset_alignment = 4,
    .max_group_size = 256,
    .max_group_count = UINT32_MAX,
    .group_memory_bytes = 32768,
    .max_bindings = COPSE_MAX_BINDINGS,
    .max_param_bytes = 4 * COPSE_MAX_PARAM_WORDS,
    .subgroup_size = 1,
    .compute_units = 1,
};

static copse_status reference_scratch(struct copse_lowering *l, uint64_t words,
                                      struct copse_operand *out)
{
    struct evaluator *e = (struct evaluator *)l;
    if (e->scratch_count == COPSE_COUNT(e->scratch))
        return copse_fail(COPSE_ERR_INTERNAL, "reference: too many scratch blocks");
    void *data = copse__alloc(e->mem, (size_t)words, sizeof(double));
    if (!data)
        return copse_fail(COPSE_ERR_NO_MEMORY, "reference: no memory for scratch");
    e->scratch[e->scratch_count] = (struct value){ data, words };
    *out = (struct copse_operand){ COPSE_OPERAND_SCRATCH, NULL, e->scratch_count++, 0, 0 };
    return COPSE_OK;
}

static struct copse_host_arg reference_resolve(struct evaluator *e, const struct copse_operand *o,
                                               const struct copse_kernel_arg *arg)
{
    if (o->kind == COPSE_OPERAND_STEP)
        return (struct copse_host_arg){ e->step, COPSE_STEP_WORDS, false };
    const struct value *v =
        o->kind == COPSE_OPERAND_TENSOR ? &e->values[o->tensor->id] : &e->scratch[o->scratch];
    const bool is_int = arg->kind == COPSE_ARG_I32;
    const size_t size = is_int ? 4 : 8;
    return (struct copse_host_arg){
        .data = (char *)v->data + (size_t)o->first * size,
        .count = (size_t)(o->count ? o->count : v->count - o->first),
        .is_double = !is_int,
    };
}

static copse_status reference_launch(struct copse_lowering *l, enum copse_kernel_id id,
                                     const int32_t *spec, const void *params, uint64_t groups,
                                     const struct copse_operand *args, uint32_t arg_count)
{
    (void)groups;
    static const int32_t no_spec[COPSE_MAX_SPECS];
    struct evaluator *e = (struct evaluator *)l;
    const struct copse_kernel_row *row = copse__row(id);
    struct copse_host_arg host[COPSE_MAX_BINDINGS];
    if (row->is_variant)
        return copse_fail(COPSE_ERR_INTERNAL, "reference: kernel %s is a variant", row->name);
    for (uint32_t i = 0; i < arg_count; i++)
        host[i] = reference_resolve(e, &args[i], &row->args[i]);
    row->law->host(params, spec ? spec : no_spec, host);
    return COPSE_OK;
}

static copse_status reference_copy(struct copse_lowering *l, struct copse_operand from,
                                   struct copse_operand to, uint64_t count)
{
    struct evaluator *e = (struct evaluator *)l;
    const copse_tensor *typed = to.kind == COPSE_OPERAND_TENSOR ? to.tensor : from.tensor;
    const struct copse_kernel_arg arg = { .kind = typed && typed->type == COPSE_I32
                                                      ? COPSE_ARG_I32
                                                      : COPSE_ARG_F32 };
    memcpy(reference_resolve(e, &to, &arg).data, reference_resolve(e, &from, &arg).data,
           (size_t)count * (arg.kind == COPSE_ARG_I32 ? 4 : 8));
    return COPSE_OK;
}

static void drop_scratch(struct evaluator *e)
{
    while (e->scratch_count > 0)
        copse__free(e->mem, e->scratch[--e->scratch_count].data);
}

static void put_constant(const copse_tensor *t, struct value *v)
{
    const void *values = copse__constant_values(t);
    if (t->type == COPSE_I32)
        memcpy(v->data, values, (size_t)v->count * sizeof(int32_t));
    else
        for (size_t i = 0; i < v->count; i++)
            ((double *)v->data)[i] = (double)((const float *)values)[i];
}

static copse_status reference_evaluate(struct evaluator *e, const struct copse_reference_params *p,
                                       const copse_tensor *t)
{
    struct value *v = &e->values[t->id];
    v->count = copse__elements(t->shape);
    if (t->op->lower == NULL && t->in_count == 1) { /* a view */
        v->data = e->values[t->in[0]->id].data;
        return COPSE_OK;
    }
    v->data = t->type == COPSE_F32
                  ? copse__alloc(e->mem, (size_t)v->count, sizeof(double))
                  : copse__alloc(e->mem, (size_t)copse__type_room(t->type, v->count), 1);
    if (!v->data)
        return copse_fail(COPSE_ERR_NO_MEMORY, "reference: no memory for %s", t->op->name);
    if (t->op == &copse_op_constant) {
        put_constant(t, v);
        return COPSE_OK;
    }
    if (t->op->lower == NULL)
        return p->feed ? p->feed(p->user, t, v->data, (size_t)v->count)
                       : copse_fail(COPSE_ERR_ARGUMENT, "reference: no values for '%s'", t->name);
    const copse_status s = t->op->lower(&e->lowering, t);
    drop_scratch(e);
    return copse_note(s, "while evaluating %s", t->op->name);
}

copse_status copse__reference_run(const struct copse_reference_params *params,
                                  copse_tensor *const *wanted, size_t count, double *const *values)
{
    copse_graph *g = params->graph;
    struct copse_mem *mem = &g->ctx->base.mem;
    const size_t nodes = g->nodes.count;
    copse_status s = COPSE_OK;
    struct evaluator e = {
        .lowering = { .limits = &reference_limits,
                      .scratch = reference_scratch,
                      .launch = reference_launch,
                      .copy = reference_copy },
        .mem = mem,
    };
    if (params->step)
        memcpy(e.step, params->step, sizeof e.step);
    else
        e.step[COPSE_STEP_SHARE] = 0x3f800000u; /* 1.0f */

    bool *needed = copse__alloc(mem, nodes, sizeof *needed);
    e.values = copse__alloc(mem, nodes, sizeof *e.values);
    if (!needed || !e.values) {
        s = copse_fail(COPSE_ERR_NO_MEMORY, "reference: no memory for %zu nodes", nodes);
        goto done;
    }
    for (size_t i = 0; i < count; i++)
        needed[wanted[i]->id] = true;
    for (size_t n = nodes; n-- > 0;)
        for (uint32_t i = 0; needed[n] && i < g->nodes.at[n]->in_count; i++)
            needed[g->nodes.at[n]->in[i]->id] = true;
    for (size_t n = 0; n < nodes; n++)
        if (needed[n])
            COPSE_TRY_OR(done, s, reference_evaluate(&e, params, g->nodes.at[n]));
    for (size_t i = 0; i < count; i++) {
        const struct value *v = &e.values[wanted[i]->id];
        for (uint64_t k = 0; k < v->count; k++)
            values[i][k] = wanted[i]->type == COPSE_I32 ? ((const int32_t *)v->data)[k]
                                                        : ((const double *)v->data)[k];
    }
done:
    for (size_t n = 0; e.values && n < nodes; n++) {
        const copse_tensor *t = g->nodes.at[n];
        if (t->op->lower || t->in_count != 1) /* views own no memory */
            copse__free(mem, e.values[n].data);
    }
    copse__free(mem, e.values);
    copse__free(mem, needed);
    return s;
}
