/* SPDX-License-Identifier: MIT */
/* Adds a network to a graph. It visits the steps in order, and leaves out steps that no output
   needs. A node is computed here if all its operands are known numbers; otherwise it becomes ops.
   The walk goes on after a refused node, so that the error names all of them. */
#include "core/onnx/onnx.h"

#include <stdio.h>

#include "copse/ops.h"
#include "core/data/array.h"
#include "core/graph/op.h"

/* ---- inputs ---- */

static copse_status feed_check(const copse_onnx *m, size_t i, const struct copse_onnx_feed *f)
{
    const struct copse_onnx_tensor *is = &m->inputs[i];
    const copse_shape shape = copse_tensor_shape(f->tensor);
    bool fits = !is->has_rank || is->rank == shape.rank;
    for (uint32_t k = 1; fits && is->has_rank && k < is->rank; k++)
        fits = is->shape[k] < 0 || is->shape[k] == shape.dims[k];
    if (fits)
        return COPSE_OK;
    char text[200];
    size_t at = 0;
    for (uint32_t k = 0; k < is->rank && at < sizeof text - 24; k++)
        at += (size_t)(is->shape[k] < 0
                           ? snprintf(text + at, sizeof text - at, "%s?", k > 0 ? ", " : "")
                           : snprintf(text + at, sizeof text - at, "%s%lld", k > 0 ? ", " : "",
                                      (long long)is->shape[k]));
    text[at] = '\0';
    return copse_fail(COPSE_ERR_SHAPE, "onnx: input '%s' of %s is [%s]; the tensor is %s", is->name,
                      m->path, text, COPSE_SHAPE_TEXT(shape));
}

static copse_status take_feed(struct onnx_walk *w, const struct copse_onnx_feed *f)
{
    const copse_onnx *m = w->m;
    COPSE_TRY(copse_need("onnx: input", f->name, f->tensor));
    if (copse__is_failed(f->tensor))
        return COPSE_OK;
    for (size_t i = 0; i < m->input_count; i++) {
        if (strcmp(m->inputs[i].name, f->name) != 0)
            continue;
        COPSE_TRY(feed_check(m, i, f));
        struct onnx_value *v = &w->values[m->input_values[i]];
        const int32_t type = m->input_types[i];
        const bool is_whole = copse__onnx_is_whole(type) && type != ONNX_BOOL;
        const copse_type to = is_whole ? COPSE_I32 : COPSE_F32;
        copse_tensor *t = f->tensor;
        *v = (struct onnx_value){ .type = type, .shape = copse_tensor_shape(t), .is_there = true };
        v->plain = copse_tensor_type(t) == to ? t : copse_cast(w->g, t, to);
        return COPSE_OK;
    }
    return copse_fail(COPSE_ERR_ARGUMENT, "onnx: %s has no input '%.100s'", m->path, f->name);
}

/* ---- steps ---- */

/* Mark the steps that the outputs need. */
static copse_status mark_needed(struct onnx_walk *w, const uint32_t *outputs, size_t count,
                                bool *steps)
{
    const copse_onnx *m = w->m;
    bool *values = copse__alloc(w->arena.mem, m->value_count, sizeof *values);
    COPSE_TRY(copse_need_memory(values, "onnx"));
    for (size_t i = 0; i < count; i++)
        values[outputs[i]] = true;
    for (size_t k = m->step_count; k-- > 0;) {
        const struct onnx_step *s = &m->steps[k];
        for (size_t i = 0; i < s->node->n_output; i++)
            steps[k] = steps[k] || (s->out[i] != ONNX_NOTHING && values[s->out[i]]);
        for (size_t i = 0; steps[k] && i < s->node->n_input; i++)
            if (s->in[i] != ONNX_NOTHING)
                values[s->in[i]] = true;
    }
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < m->input_count && s == COPSE_OK; i++)
        if (values[m->input_values[i]] && !w->values[m->input_values[i]].is_there &&
            copse_graph_status(w->g) == COPSE_OK)
            s = copse_fail(COPSE_ERR_ARGUMENT, "onnx: %s: input '%s' is missing", m->path,
                           m->inputs[i].name);
    copse__free(w->arena.mem, values);
    return s;
}

static const struct copse_onnx_refusal *refusal_find(const copse_onnx *m, const onnx_node *n)
{
    for (size_t i = 0; i < m->refusal_count; i++)
        if (m->refusals[i].node == copse__onnx_node_name(n))
            return &m->refusals[i];
    return NULL;
}

/* Results of a step that cannot be computed: steps that read them are left out. */
static void refuse_results(struct onnx_walk *w)
{
    for (size_t i = 0; i < w->step->node->n_output; i++)
        if (w->step->out[i] != ONNX_NOTHING)
            w->values[w->step->out[i]].is_refused = true;
}

static void walk_step(struct onnx_walk *w, const struct onnx_step *s)
{
    bool is_refused = false;
    w->step = s;
    w->status = COPSE_OK;
    for (size_t i = 0; i < s->node->n_input; i++)
        is_refused = is_refused || (s->in[i] != ONNX_NOTHING && w->values[s->in[i]].is_refused);
    if (!s->row) {
        const struct copse_onnx_refusal *r = refusal_find(w->m, s->node);
        if (!r || !COPSE_PUSH(w->arena.mem, &w->refusals, *r))
            (void)copse__failed(w->g, copse_no_memory("onnx"));
    } else if (!is_refused) {
        s->row->build(w);
    }
    if (copse_graph_status(w->g) != COPSE_OK) {
        const copse_status status = copse__graph_take_failure(w->g);
        (void)copse__failed(w->g, copse_note(status, "of node '%.80s' (%.40s)",
                                             copse__onnx_node_name(s->node), s->node->op_type));
    } else if (!s->row || is_refused || w->status != COPSE_OK) {
        refuse_results(w);
    }
}

static copse_status walk_run(struct onnx_walk *w, const uint32_t *outputs, size_t count)
{
    const copse_onnx *m = w->m;
    bool *needed = copse__arena_alloc(&w->arena, m->step_count + 1, sizeof *needed);
    COPSE_TRY(copse_need_memory(needed, "onnx"));
    for (size_t i = 0; i < m->weight_count; i++)
        w->values[m->weights[i].value] =
            (struct onnx_value){ .type = m->weights[i].tensor->data_type,
                                 .shape = m->weights[i].shape,
                                 .weight = &m->weights[i],
                                 .is_there = true };
    for (size_t i = 0; i < w->params->input_count; i++)
        COPSE_TRY(take_feed(w, &w->params->inputs[i]));
    COPSE_TRY(mark_needed(w, outputs, count, needed));
    for (size_t k = 0; k < m->step_count && copse_graph_status(w->g) == COPSE_OK; k++)
        if (needed[k])
            walk_step(w, &m->steps[k]);
    COPSE_TRY(copse_graph_status(w->g));
    return w->refusals.count == 0 ? COPSE_OK
                                  : copse__onnx_refuse_all(m, w->refusals.at, w->refusals.count);
}

/* ---- outputs ---- */

static copse_status find_outputs(const copse_onnx *m, const struct copse_onnx_apply_params *p,
                                 uint32_t *ids)
{
    for (size_t i = 0; i < m->output_count && !p->outputs; i++)
        ids[i] = m->output_values[i];
    for (size_t i = 0; i < p->output_count && p->outputs; i++) {
        ids[i] = p->outputs[i] ? copse__onnx_find(m, p->outputs[i]) : ONNX_NOTHING;
        if (ids[i] == ONNX_NOTHING)
            return copse_fail(COPSE_ERR_ARGUMENT, "onnx: %s has no tensor '%.100s'", m->path,
                              p->outputs[i] ? p->outputs[i] : "");
    }
    return COPSE_OK;
}

static copse_status apply_all(struct onnx_walk *w, copse_tensor **results, size_t count)
{
    static const onnx_node none = { .op_type = "output" };
    static const struct onnx_step end = { .node = &none };
    uint32_t *ids = copse__arena_alloc(&w->arena, count, sizeof *ids);
    w->values = copse__arena_alloc(&w->arena, w->m->value_count, sizeof *w->values);
    COPSE_TRY(copse_need_memory(ids && w->values, "onnx"));
    COPSE_TRY(find_outputs(w->m, w->params, ids));
    COPSE_TRY(walk_run(w, ids, count));
    w->step = &end;
    w->status = COPSE_OK;
    for (size_t i = 0; i < count; i++)
        results[i] = copse__onnx_plain(w, &w->values[ids[i]]);
    return w->refusals.count == 0 ? copse_graph_status(w->g)
                                  : copse__onnx_refuse_all(w->m, w->refusals.at, w->refusals.count);
}

void copse_onnx_apply(const copse_onnx *m, copse_graph *g,
                      const struct copse_onnx_apply_params *params, copse_tensor **results)
{
    COPSE_LATCH_VOID(g, copse_need("onnx", m, g, params, results));
    const size_t count = params->outputs ? params->output_count : m->output_count;
    for (size_t i = 0; i < count; i++)
        results[i] = copse__failed(g, COPSE_OK);
    COPSE_LATCH_VOID(g, copse_no_reserved(copse_onnx_apply_params, params));
    if (params->input_count > 0)
        COPSE_LATCH_VOID(g, copse_need("onnx", params->inputs));
    struct onnx_walk w = { .m = m, .g = g, .params = params };
    w.arena.mem = &copse__base(m->ctx)->mem;
    const copse_status s = apply_all(&w, results, count);
    if (s != COPSE_OK) {
        copse_tensor *failed = copse__failed(g, s);
        for (size_t i = 0; i < count; i++)
            results[i] = failed;
    }
    copse__free(w.arena.mem, w.refusals.at);
    copse__arena_fini(&w.arena);
}
