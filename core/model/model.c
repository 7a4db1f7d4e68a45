/* SPDX-License-Identifier: MIT */
/* Making and releasing models. */
#include "core/model/model.h"

#include <stdio.h>

#include "copse/copse.h"
#include "core/variable/variable.h"

/* ---- parts ---- */

static copse_status take_targets(copse_model *m)
{
    if (m->is.task != COPSE_TASK_REGRESSION)
        return COPSE_OK;
    m->targets = copse__alloc(&m->strategy->ctx->base.mem, m->is.outputs, sizeof *m->targets);
    if (!m->targets)
        return copse_no_memory("model");
    for (uint32_t i = 0; i < m->is.outputs; i++) {
        const char *name;
        COPSE_TRY(
            copse_schema_target(m->schema, i, &name, &m->targets[i].mean, &m->targets[i].scale));
    }
    return COPSE_OK;
}

static copse_status check_schema(const copse_model *m)
{
    if (m->is.task == COPSE_TASK_AUTO || m->is.outputs == 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "model: the schema has no task: its data has no labels");
    return COPSE_OK;
}

/* What layers are built for, without scope and seed. */
static struct copse_build_params build_params(const struct copse_schema_info *is)
{
    const bool is_sequence = is->task == COPSE_TASK_SEQUENCE;
    return (struct copse_build_params){ .type = is_sequence || is->type == COPSE_I32 ? COPSE_I32
                                                                                     : COPSE_F32,
                                        .shape = is->shape,
                                        .outputs = is->outputs,
                                        .tokens = is_sequence ? is->outputs : 0 };
}

copse_status copse__model_plan(copse_context *ctx, const copse_schema *schema, const char *network,
                               copse_layer **out, uint64_t *elements)
{
    struct copse_schema_info is;
    COPSE_TRY(copse_schema_describe(schema, &is));
    COPSE_TRY(copse_nn_parse(ctx, network, out));
    const struct copse_build_params p = build_params(&is);
    const copse_status s = copse_layer_plan(*out, &p, elements);
    if (s != COPSE_OK)
        copse_layer_release(out);
    return s;
}

/* What the layers get, and what column "y" has. */
static void set_types(copse_model *m)
{
    m->input = build_params(&m->is).type;
    m->label_type = m->is.task == COPSE_TASK_REGRESSION ? COPSE_F32 : COPSE_I32;
    m->label_shape = m->is.task == COPSE_TASK_REGRESSION ? COPSE_SHAPE(m->is.outputs)
                     : m->is.task == COPSE_TASK_SEQUENCE ? m->is.shape
                                                         : COPSE_SCALAR;
    m->positions = 1;
}

/* The shape of the outputs decides what a sequence model learns: the token after each position, or
   after the last. */
static copse_status check_output(copse_model *m)
{
    copse_shape shape;
    char text[96];
    COPSE_TRY(copse_layer_output(m->layer, &shape));
    if (shape.rank == 1 && shape.dims[0] == m->is.outputs)
        return COPSE_OK;
    if (m->is.task != COPSE_TASK_SEQUENCE)
        return copse_fail(COPSE_ERR_SHAPE,
                          "the last layer gives %s, %u %s need [%u]: end the description with "
                          "`flatten; dense out`",
                          copse__shape_text(shape, text), m->is.outputs,
                          m->targets ? "targets" : "classes", m->is.outputs);
    m->positions = m->is.shape.dims[0];
    return shape.rank == 2 && shape.dims[0] == m->positions && shape.dims[1] == m->is.outputs
               ? COPSE_OK
               : copse_fail(
                     COPSE_ERR_SHAPE,
                     "the last layer gives %s, %u tokens need [%u], for the token after the "
                     "window, or "
                     "[%u, %u], for the token after each: end the description with `dense out`",
                     copse__shape_text(shape, text), m->is.outputs, m->is.outputs, m->positions,
                     m->is.outputs);
}

/* The variables that the layers have made are the strategy's newest. */
static copse_status take_variables(copse_model *m, size_t before)
{
    copse_variable *const *list;
    size_t count;
    copse_strategy_variables(m->strategy, &list, &count);
    count -= before;
    m->variables = copse__alloc(&m->strategy->ctx->base.mem, count, sizeof(copse_variable *));
    if (!m->variables)
        return copse_no_memory("model");
    m->variable_count = count;
    for (size_t i = 0; i < count; i++)
        m->variables[i] = list[before + i];
    return COPSE_OK;
}

static copse_status model_build(copse_model *m)
{
    copse_variable *const *list;
    char why[COPSE_ERROR_BYTES];
    size_t before;
    copse_strategy_variables(m->strategy, &list, &before);
    struct copse_build_params p = build_params(&m->is);
    p.scope = m->scope[0] ? m->scope : NULL;
    p.seed = m->seed;
    const copse_status s = copse_layer_build(m->layer, m->strategy, &p);
    if (s != COPSE_OK) { /* some may have been made */
        snprintf(why, sizeof why, "%s", copse_last_error());
        if (take_variables(m, before) != COPSE_OK)
            copse__fail_again(why);
        return s;
    }
    COPSE_TRY(take_variables(m, before));
    return check_output(m);
}

static copse_status model_describe(copse_model *m)
{
    size_t size;
    COPSE_TRY(copse_layer_text(m->layer, NULL, 0, &size));
    m->network = copse__alloc(&m->strategy->ctx->base.mem, size, 1);
    if (!m->network)
        return copse_no_memory("model");
    COPSE_TRY(copse_layer_text(m->layer, m->network, size, &size));
    snprintf(m->seed_text, sizeof m->seed_text, "%llu", (unsigned long long)m->seed);
    const struct copse_metadata lines[COPSE_MODEL_LINES] = {
        { "application.network", m->network },
        { "application.scope", m->scope },
        { "application.schema", copse_schema_text(m->schema) },
        { "application.seed", m->seed_text },
        { "application.copse_version", copse_version() },
    };
    memcpy(m->lines, lines, sizeof lines);
    return COPSE_OK;
}

static copse_status model_init(copse_model *m, const struct copse_model_params *p)
{
    m->scope = copse__strdup(&m->strategy->ctx->base.mem, p->scope ? p->scope : "");
    if (!m->scope)
        return copse_no_memory("model");
    COPSE_TRY(copse_schema_describe(m->schema, &m->is));
    COPSE_TRY(check_schema(m));
    set_types(m);
    COPSE_TRY(take_targets(m));
    if (p->layer)
        m->layer = copse_layer_retain(p->layer);
    else
        COPSE_TRY(copse_nn_parse(m->strategy->ctx, p->network, &m->layer));
    COPSE_TRY(model_build(m));
    return model_describe(m);
}

/* ---- life ---- */

copse_status copse_model_create(copse_strategy *st, const copse_schema *schema,
                                const struct copse_model_params *params, copse_model **out)
{
    COPSE_TRY(copse_need("model", st, schema, params, out));
    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_model_params, params));
    COPSE_TRY(copse__require_no_replica("copse_model_create", st));
    if (!params->network == !params->layer)
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "model: needs a network: the description or the layers, the other is NULL");
    if (copse_strategy_kind_of(st) == COPSE_STRATEGY_DEFAULT)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "model: the default strategy has no variables");
    copse_model *m = copse__alloc(&st->ctx->base.mem, 1, sizeof *m);
    if (!m)
        return copse_no_memory("model");
    atomic_init(&m->refs, 1);
    m->strategy = copse_strategy_retain(st);
    m->schema = copse_schema_retain((copse_schema *)(uintptr_t)schema);
    m->seed = params->seed;
    const copse_status s = model_init(m, params);
    if (s != COPSE_OK)
        copse_model_release(&m);
    *out = m;
    return copse_note(s, "while making a model");
}

copse_model *copse_model_retain(copse_model *m)
{
    if (m)
        copse__ref(&m->refs);
    return m;
}

void copse_model_release(copse_model **model)
{
    copse_model *m = model ? *model : NULL;
    if (!m)
        return;
    *model = NULL;
    if (!copse__unref(&m->refs))
        return;
    copse_strategy *st = m->strategy;
    copse_context *ctx = copse_context_retain(st->ctx); /* the memory lives in it */
    struct copse_mem *mem = &ctx->base.mem;
    copse__predictor_fini(&m->predictor);
    copse__model_cells_release(m);
    copse__weights_end(&m->weights);
    /* the layers of the application outlive the model */
    if (m->layer && m->variable_count > 0 && !copse_layer_is_shared(m->layer) &&
        !copse__variables_release(st, m->variables, m->variable_count))
        copse__log(&ctx->base.log, COPSE_LOG_INFO,
                   "model: its %zu variables stay with the strategy, which has trainers, calls, "
                   "values or workers that may use them",
                   m->variable_count);
    copse__free(mem, (void *)m->variables);
    copse__free(mem, m->targets);
    copse__free(mem, m->network);
    copse__free(mem, m->scope);
    copse_layer_release(&m->layer);
    copse_schema_release(&m->schema);
    copse__free(mem, m);
    copse_strategy_release(&st);
    copse_context_release(&ctx);
}

const copse_schema *copse_model_schema(const copse_model *m)
{
    return m ? m->schema : NULL;
}

copse_layer *copse_model_layer(const copse_model *m)
{
    return m ? m->layer : NULL;
}

copse_strategy *copse_model_strategy(const copse_model *m)
{
    return m ? m->strategy : NULL;
}

const struct copse_metadata *copse_model_metadata(const copse_model *m, size_t *count)
{
    if (count)
        *count = m ? COPSE_MODEL_LINES : 0;
    return m ? m->lines : NULL;
}
