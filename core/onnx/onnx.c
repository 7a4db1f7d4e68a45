/* SPDX-License-Identifier: MIT */
/* ONNX files: read as messages within a limit of memory, and described: names, steps, weights,
   inputs, outputs, operators, nodes that are refused. */
#include "core/onnx/onnx.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/base/files.h"
#include "core/data/array.h"

/* Bytes, and the size of the file: what the process has besides stays below 64 MiB and twice the
   size. */
#define MEMORY_ALWAYS ((uint64_t)48 << 20)
#define FILE_MOST     ((uint64_t)INT32_MAX)
#define NODES_MOST    1000000u
#define SHOWN_NAME    80

bool copse_onnx_is_read(void)
{
    return true;
}

/* ---- the file ---- */

static copse_status read_bytes(copse_onnx *m, uint8_t **out, uint64_t *size)
{
    FILE *stream = NULL;
    COPSE_TRY(copse__file_open(m->path, &stream, size));
    copse_status s = COPSE_OK;
    if (*size > FILE_MOST)
        s = copse_fail(COPSE_ERR_FORMAT, "onnx: %s has %llu bytes; a message has at most 2^31 - 1",
                       m->path, (unsigned long long)*size);
    if (s == COPSE_OK) {
        *out = copse__alloc(m->arena.mem, (size_t)*size, 1);
        s = copse_need_memory(*out, "onnx: %s", m->path);
    }
    if (s == COPSE_OK && fread(*out, 1, (size_t)*size, stream) != *size)
        s = copse_fail(COPSE_ERR_IO, "onnx: cannot read %s", m->path);
    fclose(stream);
    return s;
}

static copse_status read_model(copse_onnx *m)
{
    uint8_t *bytes = NULL;
    uint64_t size = 0;
    const ProtobufCAllocator allocator = copse__onnx_allocator(m);
    copse_status s = read_bytes(m, &bytes, &size);
    if (s == COPSE_OK) {
        m->limit = MEMORY_ALWAYS + size;
        m->model = copse_onnx__model__unpack((ProtobufCAllocator *)&allocator, (size_t)size, bytes);
        if (!m->model && m->is_full)
            s = copse_fail(COPSE_ERR_NO_MEMORY,
                           "onnx: %s needs more than 48 MiB and twice its %llu bytes", m->path,
                           (unsigned long long)size);
        else if (!m->model || !m->model->graph)
            s = copse_fail(COPSE_ERR_FORMAT, "onnx: %s is no ONNX file, or is damaged", m->path);
    }
    copse__free(m->arena.mem, bytes);
    return s;
}

static bool is_own_domain(const char *domain)
{
    return !domain || !*domain || strcmp(domain, "ai.onnx") == 0;
}

static copse_status read_opset(copse_onnx *m)
{
    for (size_t i = 0; i < m->model->n_opset_import; i++) {
        const CopseOnnx__OperatorSetId *set = m->model->opset_import[i];
        if (is_own_domain(set->domain) && set->version > m->opset)
            m->opset = set->version;
    }
    if (m->opset > COPSE_ONNX_OPSET)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "onnx: %s has the operator set %lld; sets up to %d are read", m->path,
                          (long long)m->opset, COPSE_ONNX_OPSET);
    if (m->opset < 1) /* the oldest files name none */
        m->opset = 1;
    return COPSE_OK;
}

/* ---- names ---- */

static struct onnx_name *name_slot(const copse_onnx *m, const char *name)
{
    const uint64_t hash = copse__hash(COPSE_HASH_START, name, strlen(name));
    for (uint64_t i = hash;; i++) {
        struct onnx_name *slot = &m->names[i & (m->name_room - 1)];
        if (!slot->name || strcmp(slot->name, name) == 0)
            return slot;
    }
}

uint32_t copse__onnx_find(const copse_onnx *m, const char *name)
{
    const struct onnx_name *slot = name_slot(m, name);
    return slot->name ? slot->id : ONNX_NOTHING;
}

/* A new name; ONNX_NOTHING: there is one already. */
static uint32_t name_add(copse_onnx *m, const char *name)
{
    struct onnx_name *slot = name_slot(m, name);
    if (slot->name)
        return ONNX_NOTHING;
    *slot = (struct onnx_name){ name, (uint32_t)m->value_count };
    m->values[m->value_count++] = name;
    return slot->id;
}

static copse_status names_make(copse_onnx *m)
{
    const CopseOnnx__Graph *g = m->model->graph;
    size_t count = g->n_input + g->n_initializer;
    if (g->n_node > NODES_MOST)
        return copse_fail(COPSE_ERR_FORMAT, "onnx: %s has %zu nodes: is it damaged?", m->path,
                          g->n_node);
    for (size_t i = 0; i < g->n_node; i++)
        count += g->node[i]->n_output;
    m->name_room = 16;
    while (m->name_room < 2 * count)
        m->name_room *= 2;
    m->names = copse__arena_alloc(&m->arena, m->name_room, sizeof *m->names);
    m->values = copse__arena_alloc(&m->arena, count, sizeof *m->values);
    return copse_need_memory(m->names && m->values, "onnx: %s", m->path);
}

/* ---- tensors of the file ---- */

static copse_status weight_add(copse_onnx *m, const char *name, onnx_tensor *t)
{
    struct onnx_weight *w = &m->weights[m->weight_count];
    if (!name || !*name)
        return copse_fail(COPSE_ERR_FORMAT, "onnx: %s: a tensor has no name", m->path);
    COPSE_TRY(copse__onnx_load_external(m, name, t));
    COPSE_TRY(copse__onnx_tensor_check(t, name, m->path, &w->shape));
    w->name = name;
    w->tensor = t;
    w->value = name_add(m, name);
    if (w->value == ONNX_NOTHING)
        return copse_fail(COPSE_ERR_FORMAT, "onnx: %s: two tensors have the name '%.*s'", m->path,
                          SHOWN_NAME, name);
    m->weight_count++;
    return COPSE_OK;
}

/* The tensor of a Constant node; NULL: it is another node, or has numbers of another form. */
static onnx_tensor *constant_tensor(const onnx_node *n)
{
    if (!n->op_type || strcmp(n->op_type, "Constant") != 0 || n->n_output != 1 ||
        !is_own_domain(n->domain))
        return NULL;
    const CopseOnnx__Attribute *a = copse__onnx_attribute(n, "value");
    return a ? a->t : NULL;
}

static copse_status read_weights(copse_onnx *m)
{
    const CopseOnnx__Graph *g = m->model->graph;
    size_t count = g->n_initializer;
    for (size_t i = 0; i < g->n_node; i++)
        count += constant_tensor(g->node[i]) != NULL;
    m->weights = copse__arena_alloc(&m->arena, count, sizeof *m->weights);
    COPSE_TRY(copse_need_memory(m->weights, "onnx: %s", m->path));
    for (size_t i = 0; i < g->n_initializer; i++)
        COPSE_TRY(weight_add(m, g->initializer[i]->name, g->initializer[i]));
    for (size_t i = 0; i < g->n_node; i++)
        if (constant_tensor(g->node[i])) {
            COPSE_TRY(weight_add(m, g->node[i]->output[0], constant_tensor(g->node[i])));
            m->weights[m->weight_count - 1].is_of_node = true;
        }
    return COPSE_OK;
}

/* ---- inputs and outputs ---- */

static void describe_tensor(const CopseOnnx__ValueInfo *v, struct copse_onnx_tensor *out)
{
    const CopseOnnx__TensorType *t = v->type ? v->type->tensor_type : NULL;
    *out = (struct copse_onnx_tensor){ .name = v->name ? v->name : "" };
    out->type = copse__onnx_type_name(t ? t->elem_type : 0);
    if (v->type && !t)
        out->type = v->type->has_sequence_type ? "sequence"
                    : v->type->has_map_type    ? "map"
                                               : "unknown";
    if (!t || !t->shape || t->shape->n_dim > COPSE_ARRAY_MAX_RANK)
        return;
    out->has_rank = 1;
    out->rank = (uint32_t)t->shape->n_dim;
    for (uint32_t i = 0; i < out->rank; i++) {
        const CopseOnnx__Dim *d = t->shape->dim[i];
        out->shape[i] = d->has_value && d->value >= 0 ? d->value : -1;
    }
}

static copse_status read_inputs(copse_onnx *m)
{
    const CopseOnnx__Graph *g = m->model->graph;
    m->inputs = copse__arena_alloc(&m->arena, g->n_input, sizeof *m->inputs);
    m->input_values = copse__arena_alloc(&m->arena, g->n_input, sizeof *m->input_values);
    m->input_types = copse__arena_alloc(&m->arena, g->n_input, sizeof *m->input_types);
    COPSE_TRY(
        copse_need_memory(m->inputs && m->input_values && m->input_types, "onnx: %s", m->path));
    for (size_t i = 0; i < g->n_input; i++) {
        const CopseOnnx__ValueInfo *v = g->input[i];
        if (!v->name || !*v->name)
            return copse_fail(COPSE_ERR_FORMAT, "onnx: %s: an input has no name", m->path);
        const uint32_t id = name_add(m, v->name); /* old files list weights as inputs, too */
        if (id == ONNX_NOTHING && copse__onnx_find(m, v->name) >= m->weight_count)
            return copse_fail(COPSE_ERR_FORMAT, "onnx: %s: two inputs have the name '%.*s'",
                              m->path, SHOWN_NAME, v->name);
        if (id == ONNX_NOTHING)
            continue;
        describe_tensor(v, &m->inputs[m->input_count]);
        m->input_types[m->input_count] =
            v->type && v->type->tensor_type ? v->type->tensor_type->elem_type : ONNX_FLOAT;
        m->input_values[m->input_count++] = id;
    }
    return COPSE_OK;
}

static copse_status read_outputs(copse_onnx *m)
{
    const CopseOnnx__Graph *g = m->model->graph;
    m->outputs = copse__arena_alloc(&m->arena, g->n_output, sizeof *m->outputs);
    m->output_values = copse__arena_alloc(&m->arena, g->n_output, sizeof *m->output_values);
    COPSE_TRY(copse_need_memory(m->outputs && m->output_values, "onnx: %s", m->path));
    for (size_t i = 0; i < g->n_output; i++) {
        const CopseOnnx__ValueInfo *v = g->output[i];
        const uint32_t id = v->name ? copse__onnx_find(m, v->name) : ONNX_NOTHING;
        if (id == ONNX_NOTHING)
            return copse_fail(COPSE_ERR_FORMAT, "onnx: %s: nothing makes the output '%.*s'",
                              m->path, SHOWN_NAME, v->name ? v->name : "");
        describe_tensor(v, &m->outputs[m->output_count]);
        m->output_values[m->output_count++] = id;
    }
    return COPSE_OK;
}

/* ---- steps ---- */

/* The row of an operator; NULL: there is none. */
static const struct copse_onnx_row *row_find(const copse_onnx *m, const char *name, bool *is_older)
{
    const struct copse_onnx_row *found = NULL;
    for (size_t i = 0; i < copse__onnx_row_count; i++) {
        const struct copse_onnx_row *r = &copse__onnx_rows[i];
        if (strcmp(r->name, name) != 0)
            continue;
        *is_older = true;
        if (r->since <= m->opset && (!found || r->since > found->since))
            found = r;
    }
    return found;
}

static copse_status refusal_add(copse_onnx *m, struct onnx_step *s, const char *fmt, ...)
    COPSE_PRINTF(3, 4);
static copse_status refusal_add(copse_onnx *m, struct onnx_step *s, const char *fmt, ...)
{
    char text[256];
    va_list list;
    va_start(list, fmt);
    vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    s->row = NULL;
    m->refusals[m->refusal_count] =
        (struct copse_onnx_refusal){ copse__onnx_node_name(s->node),
                                     s->node->op_type ? s->node->op_type : "",
                                     copse__arena_strdup(&m->arena, text) };
    return copse_need_memory(m->refusals[m->refusal_count++].why, "onnx: %s", m->path);
}

/* Choose the row of a step, or refuse it. */
static copse_status step_choose(copse_onnx *m, struct onnx_step *s)
{
    const onnx_node *n = s->node;
    bool is_older = false;
    size_t inputs = n->n_input, outputs = n->n_output;
    if (!is_own_domain(n->domain))
        return refusal_add(m, s, "operators of the domain '%.*s' are not read", SHOWN_NAME,
                           n->domain);
    for (size_t i = 0; i < n->n_attribute; i++)
        if (n->attribute[i]->has_g)
            return refusal_add(m, s, "graphs within nodes are not read");
    s->row = row_find(m, n->op_type ? n->op_type : "", &is_older);
    if (!s->row && is_older)
        return refusal_add(m, s, "its form in operator set %lld is not read", (long long)m->opset);
    if (!s->row)
        return refusal_add(m, s, "this operator is not read");
    while (inputs > 0 && !*n->input[inputs - 1])
        inputs--;
    while (outputs > 0 && !*n->output[outputs - 1])
        outputs--;
    if (inputs < s->row->fewest || (s->row->most != ONNX_MANY && inputs > s->row->most))
        return refusal_add(m, s, "it has %zu operands", inputs);
    if (s->row->outputs != ONNX_MANY && outputs > s->row->outputs)
        return refusal_add(m, s, "its result %u is not computed", s->row->outputs + 1u);
    for (size_t i = 0; i < inputs; i++)
        if (i < s->row->fewest && s->in[i] == ONNX_NOTHING)
            return refusal_add(m, s, "operand %zu is missing", i + 1);
    for (size_t i = 0; i < n->n_input; i++)
        if (s->in[i] < m->weight_count) {
            const int32_t type = m->weights[s->in[i]].tensor->data_type;
            if (!copse__onnx_is_real(type) && !copse__onnx_is_whole(type))
                return refusal_add(m, s, "its operand '%.*s' has the type %s", SHOWN_NAME,
                                   n->input[i], copse__onnx_type_name(type));
        }
    return COPSE_OK;
}

static copse_status step_names(copse_onnx *m, struct onnx_step *s)
{
    const onnx_node *n = s->node;
    s->in = copse__arena_alloc(&m->arena, n->n_input, sizeof *s->in);
    s->out = copse__arena_alloc(&m->arena, n->n_output, sizeof *s->out);
    COPSE_TRY(copse_need_memory(s->in && s->out, "onnx: %s", m->path));
    for (size_t i = 0; i < n->n_input; i++) {
        s->in[i] = *n->input[i] ? copse__onnx_find(m, n->input[i]) : ONNX_NOTHING;
        if (s->in[i] == ONNX_NOTHING && *n->input[i])
            return copse_fail(COPSE_ERR_FORMAT,
                              "onnx: %s: node '%.*s' reads '%.*s', which no node before it makes",
                              m->path, SHOWN_NAME, copse__onnx_node_name(n), SHOWN_NAME,
                              n->input[i]);
    }
    for (size_t i = 0; i < n->n_output; i++) {
        s->out[i] = *n->output[i] ? name_add(m, n->output[i]) : ONNX_NOTHING;
        if (s->out[i] == ONNX_NOTHING && *n->output[i])
            return copse_fail(COPSE_ERR_FORMAT, "onnx: %s: node '%.*s' makes '%.*s' again", m->path,
                              SHOWN_NAME, copse__onnx_node_name(n), SHOWN_NAME, n->output[i]);
    }
    return COPSE_OK;
}

static copse_status read_steps(copse_onnx *m)
{
    const CopseOnnx__Graph *g = m->model->graph;
    m->steps = copse__arena_alloc(&m->arena, g->n_node, sizeof *m->steps);
    m->refusals = copse__arena_alloc(&m->arena, g->n_node, sizeof *m->refusals);
    COPSE_TRY(copse_need_memory(m->steps && m->refusals, "onnx: %s", m->path));
    for (size_t i = 0; i < g->n_node; i++) {
        if (constant_tensor(g->node[i]))
            continue;
        struct onnx_step *s = &m->steps[m->step_count];
        s->node = g->node[i];
        COPSE_TRY(step_names(m, s));
        COPSE_TRY(step_choose(m, s));
        m->step_count++;
    }
    return COPSE_OK;
}

/* ---- what weights are ---- */

/* Mark what must be known: operands of rows, and what known operands are computed from. */
static copse_status mark_known(copse_onnx *m)
{
    bool *known = copse__alloc(m->arena.mem, 2 * m->value_count, sizeof *known);
    COPSE_TRY(copse_need_memory(known, "onnx: %s", m->path));
    bool *statistics = known + m->value_count;
    for (size_t k = m->step_count; k-- > 0;) {
        const struct onnx_step *s = &m->steps[k];
        bool is_known = false, is_statistic = false;
        for (size_t i = 0; s->row && i < s->node->n_output; i++) {
            if (s->out[i] == ONNX_NOTHING)
                continue;
            is_known = is_known || (known[s->out[i]] && s->row->build != copse__onnx_shape_of);
            is_statistic =
                is_statistic || (statistics[s->out[i]] && s->row->build == copse__onnx_same);
        }
        for (size_t i = 0; s->row && i < s->node->n_input; i++) {
            if (s->in[i] == ONNX_NOTHING)
                continue;
            const uint32_t bit = i < 32 ? (uint32_t)1 << i : 0;
            known[s->in[i]] = known[s->in[i]] || is_known || (s->row->known & bit);
            statistics[s->in[i]] =
                statistics[s->in[i]] || is_statistic || (s->row->statistics & bit);
        }
    }
    for (size_t i = 0; i < m->weight_count; i++) {
        m->weights[i].is_known = known[m->weights[i].value];
        m->weights[i].is_statistic = statistics[m->weights[i].value];
    }
    copse__free(m->arena.mem, known);
    return COPSE_OK;
}

static copse_status list_weights(copse_onnx *m)
{
    m->listed = copse__arena_alloc(&m->arena, m->weight_count, sizeof *m->listed);
    m->listed_weights = copse__arena_alloc(&m->arena, m->weight_count, sizeof *m->listed_weights);
    m->variables = copse__arena_alloc(&m->arena, m->weight_count, sizeof(void *));
    COPSE_TRY(
        copse_need_memory(m->listed && m->listed_weights && m->variables, "onnx: %s", m->path));
    for (size_t i = 0; i < m->weight_count; i++) {
        struct onnx_weight *w = &m->weights[i];
        const uint64_t elements = copse__elements(w->shape);
        const bool is_single = w->shape.rank == 0 || (w->is_of_node && elements == 1);
        if (!copse__onnx_is_real(w->tensor->data_type) || elements == 0)
            continue;
        struct copse_onnx_tensor *t = &m->listed[m->listed_count];
        *t = (struct copse_onnx_tensor){ .name = w->name,
                                         .type = copse__onnx_type_name(w->tensor->data_type),
                                         .has_rank = 1,
                                         .rank = w->shape.rank,
                                         .elements = elements,
                                         .is_trained =
                                             !w->is_known && !w->is_statistic && !is_single };
        for (uint32_t k = 0; k < t->rank; k++)
            t->shape[k] = w->shape.dims[k];
        m->listed_weights[m->listed_count++] = w;
        m->parameters += w->is_known || is_single ? 0 : elements;
    }
    return COPSE_OK;
}

static int by_op_name(const void *a, const void *b)
{
    return strcmp(((const struct copse_onnx_op *)a)->name, ((const struct copse_onnx_op *)b)->name);
}

static copse_status count_ops(copse_onnx *m)
{
    const CopseOnnx__Graph *g = m->model->graph;
    m->ops = copse__arena_alloc(&m->arena, g->n_node, sizeof *m->ops);
    COPSE_TRY(copse_need_memory(m->ops, "onnx: %s", m->path));
    for (size_t i = 0; i < g->n_node; i++)
        m->ops[i] = (struct copse_onnx_op){ .name = g->node[i]->op_type ? g->node[i]->op_type : "",
                                            .is_read = 1 };
    qsort(m->ops, g->n_node, sizeof *m->ops, by_op_name);
    for (size_t i = 0; i < g->n_node; i++) {
        if (m->op_count == 0 || strcmp(m->ops[m->op_count - 1].name, m->ops[i].name) != 0)
            m->ops[m->op_count++] = m->ops[i];
        m->ops[m->op_count - 1].count++;
    }
    for (size_t i = 0; i < m->refusal_count; i++) {
        const struct copse_onnx_op key = { .name = m->refusals[i].op };
        struct copse_onnx_op *op = bsearch(&key, m->ops, m->op_count, sizeof *op, by_op_name);
        if (op)
            op->is_read = 0;
    }
    return COPSE_OK;
}

static copse_status name_producer(copse_onnx *m)
{
    const char *name = m->model->producer_name ? m->model->producer_name : "",
               *version = m->model->producer_version ? m->model->producer_version : "";
    const size_t room = strlen(name) + strlen(version) + 2;
    char *text = copse__arena_alloc(&m->arena, room, 1);
    COPSE_TRY(copse_need_memory(text, "onnx: %s", m->path));
    snprintf(text, room, "%s%s%s", name, *name && *version ? " " : "", version);
    m->producer = text;
    return COPSE_OK;
}

/* ---- its life ---- */

static copse_status read_all(copse_onnx *m)
{
    COPSE_TRY(read_model(m));
    COPSE_TRY(read_opset(m));
    COPSE_TRY(name_producer(m));
    COPSE_TRY(names_make(m));
    COPSE_TRY(read_weights(m)); /* first: their values are numbered from 0 */
    COPSE_TRY(read_inputs(m));
    COPSE_TRY(read_steps(m));
    COPSE_TRY(read_outputs(m));
    COPSE_TRY(mark_known(m));
    COPSE_TRY(list_weights(m));
    return count_ops(m);
}

copse_status copse_onnx_open(copse_context *ctx, const char *path, copse_onnx **out)
{
    COPSE_TRY(copse_need("onnx", out));
    *out = NULL;
    COPSE_TRY(copse_need("onnx", ctx, path));
    struct copse_mem *mem = &copse__base(ctx)->mem;
    copse_onnx *m = copse__alloc(mem, 1, sizeof *m);
    if (!m)
        return copse_no_memory("onnx: %s", path);
    atomic_init(&m->refs, 1);
    m->ctx = copse_context_retain(ctx);
    m->arena.mem = mem;
    copse_status s = copse_need_memory(m->path = copse__arena_strdup(&m->arena, path), "onnx");
    if (s == COPSE_OK)
        s = read_all(m);
    if (s != COPSE_OK)
        copse_onnx_release(&m);
    *out = m;
    return s;
}

copse_onnx *copse_onnx_retain(copse_onnx *m)
{
    if (m)
        copse__ref(&m->refs);
    return m;
}

void copse_onnx_release(copse_onnx **network)
{
    copse_onnx *m = network ? *network : NULL;
    if (!m)
        return;
    *network = NULL;
    if (!copse__unref(&m->refs))
        return;
    copse_context *ctx = m->ctx;
    struct copse_mem *mem = m->arena.mem;
    const ProtobufCAllocator allocator = copse__onnx_allocator(m);
    if (m->predictor.strategy)
        copse__predictor_fini(&m->predictor);
    copse_onnx__model__free_unpacked(m->model, (ProtobufCAllocator *)&allocator);
    copse_strategy_release(&m->strategy);
    copse__arena_fini(&m->arena);
    copse__free(mem, m);
    copse_context_release(&ctx);
}

/* ---- what it says about itself ---- */

copse_status copse_onnx_describe(const copse_onnx *m, struct copse_onnx_info *out)
{
    COPSE_TRY(copse_need("onnx", m, out));
    const CopseOnnx__Graph *g = m->model->graph;
    *out = (struct copse_onnx_info){ .ir_version = m->model->ir_version,
                                     .opset = m->opset,
                                     .producer = m->producer,
                                     .graph = g->name ? g->name : "",
                                     .nodes = g->n_node,
                                     .refused = m->refusal_count,
                                     .weights = m->listed_count,
                                     .parameters = m->parameters };
    return COPSE_OK;
}

#define LIST_OF(type, function, list, number)         \
    type function(const copse_onnx *m, size_t *count) \
    {                                                 \
        if (count)                                    \
            *count = m ? m->number : 0;               \
        return m ? m->list : NULL;                    \
    }
LIST_OF(const struct copse_onnx_tensor *, copse_onnx_inputs, inputs, input_count)
LIST_OF(const struct copse_onnx_tensor *, copse_onnx_outputs, outputs, output_count)
LIST_OF(const struct copse_onnx_tensor *, copse_onnx_weights, listed, listed_count)
LIST_OF(const struct copse_onnx_op *, copse_onnx_ops, ops, op_count)
LIST_OF(const struct copse_onnx_refusal *, copse_onnx_refusals, refusals, refusal_count)
LIST_OF(copse_variable *const *, copse_onnx_variables, variables, variable_count)

copse_status copse__onnx_refuse_all(const copse_onnx *m, const struct copse_onnx_refusal *list,
                                    size_t count)
{
    char text[COPSE_ERROR_BYTES];
    size_t at = 0;
    for (size_t i = 0; i < count && at < sizeof text - 300; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s'%.60s' (%.40s): %.150s",
                               i > 0 ? "; " : "", list[i].node, list[i].op, list[i].why);
    return copse_fail(COPSE_ERR_UNSUPPORTED, "onnx: %.200s: %zu node%s not read: %s", m->path,
                      count, count == 1 ? " is" : "s are", text);
}

copse_status copse_onnx_check(const copse_onnx *m)
{
    COPSE_TRY(copse_need("onnx", m));
    return m->refusal_count == 0 ? COPSE_OK
                                 : copse__onnx_refuse_all(m, m->refusals, m->refusal_count);
}
