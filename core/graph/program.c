/* SPDX-License-Identifier: MIT */
/* Programs: a graph without its dead nodes, lowered to launches, given memory by lifetime, compiled
   and recorded in segments. See graph.h. */
#include "core/graph/lowering.h"
#include "core/graph/plan.h"

#define MAX_CHUNKS 64

/* Where the values of a tensor stand. */
struct home {
    enum { HOME_NONE, HOME_ARENA, HOME_FIXED } kind;
    uint32_t span;              /* HOME_ARENA */
    struct copse_binding fixed; /* HOME_FIXED: placements and variables */
};

/* A launch before it has memory. */
struct launch {
    enum { LAUNCH_KERNEL, LAUNCH_COPY, LAUNCH_GEMM } kind;
    uint32_t node; /* time */
    enum copse_kernel_id id;
    int32_t spec[COPSE_MAX_SPECS];
    uint32_t params[COPSE_MAX_PARAM_WORDS];
    uint64_t groups, count; /* kernel: groups; copy: elements */
    struct copse_operand args[COPSE_MAX_BINDINGS];
    uint32_t arg_count;
    struct copse_command gemm;
};

struct copse_program {
    struct copse_mem *mem;
    copse_queue *queue;
    copse_buffer *chunks[MAX_CHUNKS];
    size_t chunk_bytes[MAX_CHUNKS];
    uint32_t chunk_count;
    struct copse_segment **segments;
    uint32_t segment_count;
    struct { const copse_tensor *tensor; struct copse_binding at; } *inputs; /* compared, not read */
    uint32_t input_count;
};

struct recorder {
    struct copse_lowering lowering; /* first */
    struct copse_mem *mem;
    const struct copse_program_params *params;
    copse_program *program;
    copse_graph *graph;
    uint32_t now;        /* node being lowered */
    bool *needed;        /* by node id */
    struct home *homes;  /* by node id, roots only */
    uint32_t *last_use;  /* by node id, roots only */
    struct { struct copse_span *at; size_t count, room; } spans;
    struct { uint32_t *at; size_t count, room; } scratch; /* scratch number -> span */
    struct { struct launch *at; size_t count, room; } launches;
    struct { struct copse_command *at; size_t count, room; } commands;
    uint32_t *cuts;      /* node after which each segment ends */
};

/* ---- pass 1: which nodes are needed, how long values live, where the segments end ---- */

static const copse_tensor *root(const copse_tensor *t)
{
    while (!t->op->lower && t->in_count == 1)
        t = t->in[0];
    return t;
}

static bool is_leaf(const copse_tensor *t)
{
    return !t->op->lower && t->in_count == 0;
}

static void mark(struct recorder *r)
{
    const struct copse_program_params *p = r->params;
    copse_graph *g = r->graph;
    for (size_t i = 0; i < p->placement_count; i++)
        r->needed[p->placements[i].tensor->id] = true;
    for (size_t n = g->nodes.count; n-- > 0;)
        for (uint32_t i = 0; r->needed[n] && i < g->nodes.at[n]->in_count; i++)
            r->needed[g->nodes.at[n]->in[i]->id] = true;
    for (size_t n = 0; n < g->nodes.count; n++) {
        if (!r->needed[n])
            continue;
        const copse_tensor *t = g->nodes.at[n];
        r->last_use[root(t)->id] = (uint32_t)n;
        for (uint32_t i = 0; i < t->in_count; i++)
            r->last_use[root(t->in[i])->id] = (uint32_t)n;
    }
    for (size_t i = 0; i < p->placement_count; i++) { /* a copied placement reads its root */
        uint32_t *last = &r->last_use[root(p->placements[i].tensor)->id];
        *last = COPSE_MAX(*last, p->placements[i].tensor->id);
    }
}

/* A segment ends behind its placements and behind the last reader of every variable that is updated
   when it has run. */
static void cut(struct recorder *r)
{
    const struct copse_program_params *p = r->params;
    for (size_t i = 0; i < p->placement_count; i++) {
        uint32_t *end = &r->cuts[p->placements[i].bucket];
        *end = COPSE_MAX(*end, p->placements[i].tensor->id);
    }
    for (uint32_t n = 0; p->bucket_of && n < r->graph->nodes.count; n++) {
        const copse_tensor *leaf = r->graph->nodes.at[n];
        if (!r->needed[n] || !leaf->variable)
            continue;
        uint32_t *end = &r->cuts[p->bucket_of(p->user, leaf->variable)];
        *end = COPSE_MAX(*end, r->last_use[n]);
    }
    for (uint32_t b = 1; b < r->program->segment_count; b++)
        r->cuts[b] = COPSE_MAX(r->cuts[b], r->cuts[b - 1]);
}

/* ---- pass 2: lowering ---- */

static copse_status push_span(struct recorder *r, uint64_t bytes, uint32_t first, uint32_t last,
                              uint32_t *index)
{
    const size_t size = copse__round_up((size_t)COPSE_MAX(bytes, 1), COPSE_ALIGNMENT);
    *index = (uint32_t)r->spans.count;
    if (!COPSE_PUSH(r->mem, &r->spans,
                    ((struct copse_span){ .size = size, .first = first, .last = last })))
        return copse_fail(COPSE_ERR_NO_MEMORY, "program: no memory");
    return COPSE_OK;
}

static copse_status scratch(struct copse_lowering *l, uint64_t words, struct copse_operand *out)
{
    struct recorder *r = (struct recorder *)l;
    uint32_t span;
    COPSE_TRY(push_span(r, 4 * words, r->now, r->now, &span));
    *out = (struct copse_operand){ COPSE_OPERAND_SCRATCH, NULL, (uint32_t)r->scratch.count, 0, 0 };
    if (!COPSE_PUSH(r->mem, &r->scratch, span))
        return copse_fail(COPSE_ERR_NO_MEMORY, "program: no memory");
    return COPSE_OK;
}

static copse_status push_launch(struct recorder *r, struct launch *x,
                                const struct copse_operand *args, uint32_t arg_count)
{
    x->node = r->now;
    x->arg_count = arg_count;
    memcpy(x->args, args, arg_count * sizeof *args);
    if (!COPSE_PUSH(r->mem, &r->launches, *x))
        return copse_fail(COPSE_ERR_NO_MEMORY, "program: no memory");
    return COPSE_OK;
}

static copse_status launch(struct copse_lowering *l, enum copse_kernel_id id, const int32_t *spec,
                           const void *params, uint64_t groups, const struct copse_operand *args,
                           uint32_t arg_count)
{
    const struct copse_kernel_row *row = &copse_kernel_table[id];
    struct launch x = { .kind = LAUNCH_KERNEL, .id = id, .groups = groups };
    if (spec)
        memcpy(x.spec, spec, row->spec_count * sizeof *spec);
    memcpy(x.params, params, 4u * row->param_words);
    return push_launch((struct recorder *)l, &x, args, arg_count);
}

static copse_status copy(struct copse_lowering *l, struct copse_operand from,
                         struct copse_operand to, uint64_t count)
{
    struct launch x = { .kind = LAUNCH_COPY, .count = count };
    return push_launch((struct recorder *)l, &x, (const struct copse_operand[]){ from, to }, 2);
}

static copse_status gemm(struct copse_lowering *l, const struct copse_command *shape,
                         const struct copse_operand *abc)
{
    struct launch x = { .kind = LAUNCH_GEMM, .gemm = *shape };
    return push_launch((struct recorder *)l, &x, abc, 3);
}

static const struct copse_placement *find(const struct copse_placement *list, size_t count,
                                          const copse_tensor *t)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].tensor == t)
            return &list[i];
    return NULL;
}

static const struct copse_placement *placement_of(const struct recorder *r, const copse_tensor *t)
{
    return find(r->params->placements, r->params->placement_count, t);
}

static copse_status settle(struct recorder *r, const copse_tensor *t)
{
    struct home *h = &r->homes[t->id];
    const uint64_t bytes = 4 * copse__elements(t->shape);
    if (bytes > r->lowering.limits->max_binding_bytes)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "%s '%s': %llu bytes, but %s binds at most %llu", t->op->name,
                          t->name ? t->name : "", (unsigned long long)bytes,
                          r->lowering.dev->info.id,
                          (unsigned long long)r->lowering.limits->max_binding_bytes);
    const struct copse_placement *at =
        is_leaf(t) ? find(r->params->inputs, r->params->input_count, t) : placement_of(r, t);
    if (t->variable || at) {
        h->kind = HOME_FIXED;
        if (!t->variable) {
            h->fixed = at->at;
            return COPSE_OK;
        }
        if (!r->params->locate)
            return copse_fail(COPSE_ERR_ARGUMENT, "program: variable '%s' has no place", t->name);
        return r->params->locate(r->params->user, t->variable, &h->fixed);
    }
    h->kind = HOME_ARENA;
    const bool is_input = is_leaf(t);
    return push_span(r, bytes, is_input ? 0 : t->id,
                     is_input ? (uint32_t)r->graph->nodes.count : r->last_use[t->id], &h->span);
}

/* Placements that the node's own result cannot be: leaves, views, and a tensor placed twice. */
static copse_status place_copies(struct recorder *r, const copse_tensor *t)
{
    for (size_t i = 0; i < r->params->placement_count; i++) {
        const struct copse_placement *p = &r->params->placements[i];
        if (p->tensor != t || (root(t) == t && !is_leaf(t) && placement_of(r, t) == p))
            continue;
        struct launch x = { .kind = LAUNCH_COPY, .count = copse__elements(t->shape) };
        const struct copse_operand args[2] = {
            copse__of(t),
            { .kind = COPSE_OPERAND_TENSOR, .tensor = NULL, .scratch = (uint32_t)i },
        };
        if (x.count > 0)
            COPSE_TRY(push_launch(r, &x, args, 2));
    }
    return COPSE_OK;
}

static copse_status lower(struct recorder *r)
{
    for (uint32_t n = 0; n < r->graph->nodes.count; n++) {
        const copse_tensor *t = r->graph->nodes.at[n];
        if (!r->needed[n])
            continue;
        r->now = n;
        if (root(t) == t)
            COPSE_TRY(settle(r, t));
        if (t->op->lower)
            COPSE_TRY(copse_note(t->op->lower(&r->lowering, t), "while lowering %s", t->op->name));
        COPSE_TRY(place_copies(r, t));
    }
    return COPSE_OK;
}

/* ---- pass 3: memory, then commands ---- */

static copse_status make_arena(struct recorder *r)
{
    copse_program *p = r->program;
    COPSE_TRY(copse__plan(r->mem, r->spans.at, r->spans.count,
                          (size_t)COPSE_MIN(r->lowering.limits->max_buffer_bytes, SIZE_MAX),
                          p->chunk_bytes, MAX_CHUNKS, &p->chunk_count));
    for (uint32_t i = 0; i < p->chunk_count; i++)
        COPSE_TRY(copse__buffer_acquire(p->queue->dev, p->chunk_bytes[i], &p->chunks[i]));
    return COPSE_OK;
}

static struct copse_binding in_arena(const struct recorder *r, uint32_t span, uint64_t bytes)
{
    const struct copse_span *s = &r->spans.at[span];
    return (struct copse_binding){ r->program->chunks[s->chunk], s->offset, (size_t)bytes };
}

/* The binding of an operand. Sizes are rounded up to 16 bytes, which the padding of every
   value has room for, so that a formatted view covers the last elements. */
static copse_status bind(const struct recorder *r, const struct copse_operand *o,
                         struct copse_binding *out)
{
    uint64_t bytes, first = 4 * o->first;
    switch (o->kind) {
    case COPSE_OPERAND_STEP:
        *out = r->params->step;
        return COPSE_OK;
    case COPSE_OPERAND_SCRATCH:
        bytes = r->spans.at[r->scratch.at[o->scratch]].size;
        *out = in_arena(r, r->scratch.at[o->scratch], bytes);
        break;
    default:
        if (!o->tensor) {
            *out = r->params->placements[o->scratch].at;
            return COPSE_OK;
        }
        const struct home *h = &r->homes[root(o->tensor)->id];
        bytes = 4 * copse__elements(o->tensor->shape);
        *out = h->kind == HOME_FIXED ? h->fixed : in_arena(r, h->span, bytes);
    }
    if (first % r->lowering.limits->offset_alignment || first > bytes)
        return copse_fail(COPSE_ERR_INTERNAL, "program: operand offset %llu of %llu bytes",
                          (unsigned long long)first, (unsigned long long)bytes);
    out->offset += (size_t)first;
    bytes = o->count ? 4 * o->count : bytes - first;
    out->size = copse__round_up((size_t)COPSE_MAX(bytes, 4), 16);
    if (out->offset + out->size > copse_buffer_size(out->buffer))
        out->size = copse_buffer_size(out->buffer) - out->offset;
    return COPSE_OK;
}

static copse_status push_command(struct recorder *r, const struct copse_command *c)
{
    if (!COPSE_PUSH(r->mem, &r->commands, *c))
        return copse_fail(COPSE_ERR_NO_MEMORY, "program: no memory");
    return COPSE_OK;
}

static copse_status emit_kernel(struct recorder *r, const struct launch *x,
                                const struct copse_binding *bindings)
{
    const uint32_t limit = r->lowering.limits->has_group_base ? r->params->max_groups : 0;
    struct copse_kernel *k;
    COPSE_TRY(copse__kernel_get(r->program->queue->dev, x->id, x->spec, &k));
    for (uint64_t base = 0; base < x->groups;) {
        const uint64_t part = limit ? COPSE_MIN(x->groups - base, limit) : x->groups;
        struct copse_command c;
        COPSE_TRY(copse__dispatch_init(&c, k, bindings, x->arg_count, x->params, part,
                                       (uint32_t)base));
        COPSE_TRY(push_command(r, &c));
        base += part;
    }
    return COPSE_OK;
}

static copse_status emit(struct recorder *r, const struct launch *x)
{
    struct copse_binding bindings[COPSE_MAX_BINDINGS];
    for (uint32_t i = 0; i < x->arg_count; i++)
        COPSE_TRY(bind(r, &x->args[i], &bindings[i]));
    if (x->kind == LAUNCH_KERNEL)
        return emit_kernel(r, x, bindings);
    struct copse_command c = { .kind = COPSE_COMMAND_COPY };
    if (x->kind == LAUNCH_GEMM)
        c = x->gemm;
    c.binding_count = x->arg_count;
    memcpy(c.bindings, bindings, x->arg_count * sizeof *bindings);
    if (x->kind == LAUNCH_COPY)
        c.bindings[0].size = c.bindings[1].size = (size_t)(4 * x->count);
    return push_command(r, &c);
}

static copse_status record(struct recorder *r)
{
    copse_program *p = r->program;
    size_t next = 0;
    for (uint32_t b = 0; b < p->segment_count; b++) {
        const bool is_last = b + 1 == p->segment_count;
        r->commands.count = 0;
        for (; next < r->launches.count && (is_last || r->launches.at[next].node <= r->cuts[b]);
             next++)
            COPSE_TRY(emit(r, &r->launches.at[next]));
        COPSE_TRY(copse__segment_create(p->queue, r->commands.at, r->commands.count,
                                        &p->segments[b]));
    }
    return COPSE_OK;
}

static copse_status keep_inputs(struct recorder *r)
{
    copse_program *p = r->program;
    p->input_count = 0;
    for (size_t n = 0; n < r->graph->nodes.count; n++)
        p->input_count += r->graph->nodes.at[n]->op == &copse_op_input && r->needed[n];
    p->inputs = copse__alloc(r->mem, p->input_count, sizeof *p->inputs);
    if (!p->inputs)
        return copse_fail(COPSE_ERR_NO_MEMORY, "program: no memory");
    uint32_t i = 0;
    for (uint32_t n = 0; n < r->graph->nodes.count; n++) {
        const copse_tensor *t = r->graph->nodes.at[n];
        if (t->op == &copse_op_input && r->needed[n]) {
            const struct home *h = &r->homes[n];
            p->inputs[i].tensor = t;
            p->inputs[i++].at = h->kind == HOME_FIXED
                                    ? h->fixed
                                    : in_arena(r, h->span, 4 * copse__elements(t->shape));
        }
    }
    return COPSE_OK;
}

copse_status copse__program_create(const struct copse_program_params *params, copse_program **out)
{
    *out = NULL;
    copse_graph *g = params->graph;
    copse_device *dev = params->queue->dev;
    struct copse_mem *mem = &g->ctx->base.mem;
    const size_t nodes = g->nodes.count;
    copse_status s = COPSE_OK;
    copse_program *p = copse__alloc(mem, 1, sizeof *p);
    if (!p)
        return copse_fail(COPSE_ERR_NO_MEMORY, "program: no memory");
    p->mem = mem;
    p->queue = copse_queue_retain(params->queue);
    p->segment_count = COPSE_MAX(params->bucket_count, 1);
    p->segments = copse__alloc(mem, p->segment_count, sizeof(struct copse_segment *));

    struct recorder r = {
        .lowering = { .limits = dev->limits, .choices = params->choices,
                      .choice_count = params->choice_count, .dev = dev, .scratch = scratch,
                      .launch = launch, .copy = copy, .gemm = gemm },
        .mem = mem, .params = params, .program = p, .graph = g,
        .needed = copse__alloc(mem, nodes, sizeof(bool)),
        .homes = copse__alloc(mem, nodes, sizeof(struct home)),
        .last_use = copse__alloc(mem, nodes, sizeof(uint32_t)),
        .cuts = copse__alloc(mem, p->segment_count, sizeof(uint32_t)),
    };
    if (!p->segments || !r.needed || !r.homes || !r.last_use || !r.cuts) {
        s = copse_fail(COPSE_ERR_NO_MEMORY, "program: no memory for %zu nodes", nodes);
        goto done;
    }
    mark(&r);
    cut(&r);
    COPSE_TRY_OR(done, s, lower(&r));
    COPSE_TRY_OR(done, s, make_arena(&r));
    COPSE_TRY_OR(done, s, keep_inputs(&r));
    COPSE_TRY_OR(done, s, record(&r));
    copse__log(&g->ctx->base.log, COPSE_LOG_DEBUG,
               "program: %zu nodes, %zu launches, %u segments, %zu arena bytes on %s", nodes,
               r.launches.count, p->segment_count, copse__program_arena_bytes(p), dev->info.id);
    *out = p;
    p = NULL;
done:
    copse__free(mem, r.needed);
    copse__free(mem, r.homes);
    copse__free(mem, r.last_use);
    copse__free(mem, r.cuts);
    copse__free(mem, r.spans.at);
    copse__free(mem, r.scratch.at);
    copse__free(mem, r.launches.at);
    copse__free(mem, r.commands.at);
    copse__program_release(&p);
    return copse_note(s, "while making a program for %s", dev->info.id);
}

void copse__program_release(copse_program **program)
{
    copse_program *p = *program;
    if (!p)
        return;
    for (uint32_t i = 0; p->segments && i < p->segment_count; i++)
        copse__segment_release(&p->segments[i]);
    for (uint32_t i = 0; i < p->chunk_count; i++)
        copse_buffer_release(&p->chunks[i]);
    copse__free(p->mem, p->segments);
    copse__free(p->mem, p->inputs);
    copse_queue *queue = p->queue;
    copse_context *ctx = copse_context_retain(queue->dev->ctx); /* p->mem lives in it */
    copse__free(p->mem, p);
    copse_queue_release(&queue);
    copse_context_release(&ctx);
    *program = NULL;
}

bool copse__program_input(const copse_program *p, const copse_tensor *input,
                          struct copse_binding *out)
{
    for (uint32_t i = 0; i < p->input_count; i++)
        if (p->inputs[i].tensor == input) {
            *out = p->inputs[i].at;
            return true;
        }
    return false;
}

uint32_t copse__program_segments(const copse_program *p)
{
    return p->segment_count;
}

copse_status copse__program_replay(copse_program *p, uint32_t i)
{
    return copse__segment_replay(p->segments[i]);
}

size_t copse__program_arena_bytes(const copse_program *p)
{
    size_t sum = 0;
    for (uint32_t i = 0; i < p->chunk_count; i++)
        sum += p->chunk_bytes[i];
    return sum;
}
