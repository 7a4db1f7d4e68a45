/* SPDX-License-Identifier: MIT */
/* Programs: a graph without its dead nodes, lowered to launches, given memory by lifetime, compiled
   and recorded in segments. See graph.h. This file is the last of three passes; recorder.h lists
   them. */
#include "core/graph/recorder.h"
#include "core/graph/type.h"

static copse_status make_arena(struct copse_recorder *r)
{
    copse_program *p = r->program;
    COPSE_TRY(copse__recorder_plan(r, p->arena_bytes, &p->arena_count));
    for (uint32_t i = 0; i < p->arena_count; i++)
        COPSE_TRY(copse__buffer_acquire(p->queue->dev, p->arena_bytes[i], &p->arenas[i]));
    return COPSE_OK;
}

static struct copse_binding in_arena(const struct copse_recorder *r, uint32_t allocation,
                                     uint64_t bytes)
{
    const struct copse_allocation *s = &r->allocations.at[allocation];
    return (struct copse_binding){ r->program->arenas[s->arena], s->offset, (size_t)bytes };
}

/* The binding of an operand. Sizes are rounded up to 16 bytes, which fits into the padding of every
   value, so that a formatted view covers the last elements. */
static copse_status program_bind(const struct copse_recorder *r, const struct copse_operand *o,
                                 struct copse_binding *out)
{
    uint64_t bytes, first = 4 * o->first;
    switch (o->kind) {
    case COPSE_OPERAND_STEP:
        *out = r->params->step;
        return COPSE_OK;
    case COPSE_OPERAND_SCRATCH:
        bytes = r->allocations.at[r->scratch.at[o->scratch]].size;
        *out = in_arena(r, r->scratch.at[o->scratch], bytes);
        break;
    default:
        if (!o->tensor) {
            const size_t placements = r->params->placement_count;
            *out = o->scratch < placements ? r->params->placements[o->scratch].at
                                           : r->all_reduces.at[o->scratch - placements].operand;
            return COPSE_OK;
        }
        const struct copse_home *h = &r->homes[copse__root(o->tensor)->id];
        bytes = copse__type_room(o->tensor->type, copse__elements(o->tensor->shape));
        *out = h->kind == COPSE_HOME_FIXED ? h->fixed : in_arena(r, h->allocation, bytes);
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

static copse_status push_command(struct copse_recorder *r, const struct copse_command *c)
{
    if (!COPSE_PUSH(r->mem, &r->commands, *c))
        return copse_no_memory("program");
    return COPSE_OK;
}

static bool program_fits(const copse_device *dev, const struct copse_launch *x)
{
    return x->kind == COPSE_LAUNCH_GEMM ? copse__library_product_fits(dev)
                                        : copse__kernel_fits(dev, x->id);
}

static bool is_same(const struct copse_kernel_want *w, const struct copse_launch *x)
{
    return w->id == x->id && memcmp(w->spec, x->spec, sizeof w->spec) == 0;
}

/* Add the kernels of the launches, without repetition. */
static copse_status add_wants(const struct copse_recorder *r, struct copse_kernel_wants *to)
{
    for (size_t i = 0; i < r->launches.count; i++) {
        const struct copse_launch *x = &r->launches.at[i];
        struct copse_kernel_want want = { .id = x->id };
        size_t k = 0;
        while (k < to->count && !is_same(&to->at[k], x))
            k++;
        if (x->kind != COPSE_LAUNCH_KERNEL || k < to->count)
            continue;
        memcpy(want.spec, x->spec, sizeof want.spec);
        if (!COPSE_PUSH(r->mem, to, want))
            return copse_no_memory("program");
    }
    return COPSE_OK;
}

static size_t count_usable(const struct copse_recorder *r)
{
    size_t usable = 0;
    for (size_t i = 0; i < r->launches.count; i++)
        usable += r->launches.at[i].kind != COPSE_LAUNCH_COPY &&
                  program_fits(r->program->queue->dev, &r->launches.at[i]);
    return usable;
}

/* What no cache has is compiled at once by several threads. Returns how many of the chosen kernels
   are usable. */
static size_t compile_cold(struct copse_recorder *r, size_t *chosen)
{
    copse_device *dev = r->program->queue->dev;
    struct copse_kernel_wants wants = { .count = 0 };
    *chosen = count_usable(r);
    (void)add_wants(r, &wants); /* the others are compiled one by one */
    copse__kernels_compile(dev, wants.at, wants.count);
    copse__free(r->mem, wants.at);
    return count_usable(r);
}

/* Compile the chosen kernels before memory is allocated for the program. A kernel that fails its
   self-test is blocked: then *again is set, and lowering uses the next variant. */
static copse_status program_compile(struct copse_recorder *r, bool *again)
{
    copse_device *dev = r->program->queue->dev;
    size_t chosen;
    *again = compile_cold(r, &chosen) < chosen;
    if (*again)
        return COPSE_ERR_UNSUPPORTED;
    for (size_t i = 0; i < r->launches.count; i++) {
        const struct copse_launch *x = &r->launches.at[i];
        struct copse_kernel *k;
        if (x->kind == COPSE_LAUNCH_COPY)
            continue;
        const bool is_chosen = program_fits(dev, x);
        const copse_status s = x->kind == COPSE_LAUNCH_GEMM
                                   ? copse__library_product_test(dev, &x->gemm)
                                   : copse__kernel_get(dev, x->id, x->spec, &k);
        *again =
            (s == COPSE_OK || s == COPSE_ERR_UNSUPPORTED) && is_chosen && !program_fits(dev, x);
        if (s != COPSE_OK || *again)
            return s;
    }
    return COPSE_OK;
}

/* Each iteration but the last blocks a kernel, so the loop ends. */
static copse_status lower_and_compile(struct copse_recorder *r)
{
    bool again;
    for (;;) {
        COPSE_TRY(copse__lower(r));
        const copse_status s = program_compile(r, &again);
        if (!again)
            return s;
    }
}

static copse_status emit_kernel(struct copse_recorder *r, const struct copse_launch *x,
                                const struct copse_binding *bindings)
{
    struct copse_kernel *k;
    COPSE_TRY(copse__kernel_get(r->program->queue->dev, x->id, x->spec, &k));
    const uint32_t limit =
        r->lowering.limits->has_group_base && !k->on_host ? r->params->max_groups : 0;
    for (uint64_t base = 0; base < x->groups;) {
        const uint64_t groups = limit ? COPSE_MIN(x->groups - base, limit) : x->groups;
        struct copse_command c;
        COPSE_TRY(
            copse__dispatch_init(&c, k, bindings, x->arg_count, x->params, groups, (uint32_t)base));
        COPSE_TRY(push_command(r, &c));
        base += groups;
    }
    return COPSE_OK;
}

static copse_status program_emit(struct copse_recorder *r, const struct copse_launch *x)
{
    struct copse_binding bindings[COPSE_MAX_BINDINGS];
    for (uint32_t i = 0; i < x->arg_count; i++)
        COPSE_TRY(program_bind(r, &x->args[i], &bindings[i]));
    if (x->kind == COPSE_LAUNCH_KERNEL)
        return emit_kernel(r, x, bindings);
    struct copse_command c = { .kind = COPSE_COMMAND_COPY };
    if (x->kind == COPSE_LAUNCH_GEMM) {
        c = x->gemm;
        copse__kernel_note_use(r->program->queue->dev, COPSE_KERNEL_COUNT, NULL);
    }
    c.binding_count = x->arg_count;
    memcpy(c.bindings, bindings, x->arg_count * sizeof *bindings);
    if (x->kind == COPSE_LAUNCH_COPY)
        c.bindings[0].size = c.bindings[1].size = (size_t)(4 * x->count);
    return push_command(r, &c);
}

static copse_status program_record(struct copse_recorder *r)
{
    copse_program *p = r->program;
    size_t next = 0;
    p->segments = copse__alloc(r->mem, r->segment_count, sizeof(struct copse_segment *));
    if (!p->segments)
        return copse_no_memory("program");
    p->segment_count = r->segment_count;
    p->all_reduces = r->crossings;
    r->crossings = NULL;
    for (uint32_t b = 0; b < p->segment_count; b++) {
        const bool is_last = b + 1 == p->segment_count;
        r->commands.count = 0;
        for (; next < r->launches.count && (is_last || r->launches.at[next].node <= r->cuts[b]);
             next++)
            COPSE_TRY(program_emit(r, &r->launches.at[next]));
        COPSE_TRY(copse__segment_divide(p->queue, r->commands.at, r->commands.count,
                                        r->params->is_sliced ? 1 : SIZE_MAX, &p->segments[b]));
    }
    return COPSE_OK;
}

/* Constants keep their memory as long as the program. */
static copse_status write_constants(struct copse_recorder *r)
{
    for (uint32_t n = 0; n < r->graph->nodes.count; n++) {
        const copse_tensor *t = r->graph->nodes.at[n];
        const size_t bytes = (size_t)copse__elements(t->shape) * copse__type_bytes(t->type);
        if (t->op != &copse_op_constant || !r->needed[n] || bytes == 0)
            continue;
        const struct copse_binding at = in_arena(r, r->homes[n].allocation, bytes);
        COPSE_TRY(copse__queue_write_bytes(r->program->queue, at.buffer, at.offset,
                                           copse__constant_values(t), bytes));
    }
    return COPSE_OK;
}

static copse_status keep_inputs(struct copse_recorder *r)
{
    copse_program *p = r->program;
    p->input_count = 0;
    for (size_t n = 0; n < r->graph->nodes.count; n++)
        p->input_count += r->graph->nodes.at[n]->op == &copse_op_input && r->needed[n];
    p->inputs = copse__alloc(r->mem, p->input_count, sizeof *p->inputs);
    if (!p->inputs)
        return copse_no_memory("program");
    uint32_t i = 0;
    for (uint32_t n = 0; n < r->graph->nodes.count; n++) {
        const copse_tensor *t = r->graph->nodes.at[n];
        if (t->op == &copse_op_input && r->needed[n]) {
            const struct copse_home *h = &r->homes[n];
            p->inputs[i].tensor = t;
            p->inputs[i++].at =
                h->kind == COPSE_HOME_FIXED
                    ? h->fixed
                    : in_arena(r, h->allocation,
                               copse__type_bytes(t->type) * copse__elements(t->shape));
        }
    }
    return COPSE_OK;
}

/* What an order or a join costs may be what is missing. */
static copse_status make_plain_arena(struct copse_recorder *r)
{
    copse_program *p = r->program;
    for (uint32_t i = 0; i < p->arena_count; i++)
        copse_buffer_release(&p->arenas[i]);
    p->arena_count = 0;
    r->is_plain = true;
    COPSE_TRY(lower_and_compile(r));
    return make_arena(r);
}

static copse_status program_make(struct copse_recorder *r)
{
    COPSE_TRY(copse__all_reduces_find(r));
    COPSE_TRY(copse__segments_cut(r));
    COPSE_TRY(lower_and_compile(r));
    copse_status s = make_arena(r);
    if (s == COPSE_ERR_NO_DEVICE_MEMORY && !r->is_plain)
        s = make_plain_arena(r);
    COPSE_TRY(s);
    COPSE_TRY(write_constants(r));
    COPSE_TRY(keep_inputs(r));
    return program_record(r);
}

copse_status copse__program_create(const struct copse_program_params *params, copse_program **out)
{
    copse_graph *g = params->graph;
    struct copse_mem *mem = &g->ctx->base.mem;
    const copse_device *dev = params->queue->dev;
    struct copse_recorder r;
    *out = NULL;
    copse_program *p = copse__alloc(mem, 1, sizeof *p);
    if (!p)
        return copse_no_memory("program");
    p->mem = mem;
    p->queue = copse_queue_retain(params->queue);
    copse_status s = copse__recorder_begin(params, &r);
    r.program = p;
    if (s == COPSE_OK)
        s = program_make(&r);
    if (s == COPSE_OK) {
        copse__log(&g->ctx->base.log, COPSE_LOG_DEBUG,
                   "program: %zu nodes, %zu launches, %u segments, %zu arena bytes on %s",
                   g->nodes.count, r.launches.count, p->segment_count,
                   copse__program_arena_bytes(p), dev->info.id);
        *out = p;
        p = NULL;
    }
    copse__recorder_end(&r);
    copse__program_release(&p);
    return copse_note(s, "while making a program for %s", dev->info.id);
}

copse_status copse__program_kernels(const struct copse_program_params *params,
                                    struct copse_kernel_wants *out)
{
    struct copse_recorder r;
    copse_status s;
    COPSE_TRY_OR(done, s, copse__recorder_begin(params, &r));
    COPSE_TRY_OR(done, s, copse__all_reduces_find(&r));
    COPSE_TRY_OR(done, s, copse__segments_cut(&r));
    COPSE_TRY_OR(done, s, copse__lower(&r));
    s = add_wants(&r, out);
done:
    copse__recorder_end(&r);
    return s;
}

void copse__program_release(copse_program **program)
{
    copse_program *p = *program;
    if (!p)
        return;
    for (uint32_t i = 0; p->segments && i < p->segment_count; i++)
        copse__segment_release(&p->segments[i]);
    for (uint32_t i = 0; i < p->arena_count; i++)
        copse_buffer_release(&p->arenas[i]);
    copse__free(p->mem, p->segments);
    copse__free(p->mem, p->all_reduces);
    copse__free(p->mem, p->inputs);
    copse_queue *queue = p->queue;
    copse_context *ctx = copse_context_retain(queue->dev->ctx); /* p->mem belongs to it */
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

uint32_t copse__program_all_reduce(const copse_program *p, uint32_t i)
{
    return p->all_reduces[i];
}

struct copse_segment *const *copse__program_list(const copse_program *p)
{
    return p->segments;
}

copse_status copse__program_replay(copse_program *p, uint32_t i)
{
    return copse__segment_replay(p->segments[i]);
}

uint32_t copse__program_slices(const copse_program *p, uint32_t i)
{
    return copse__segment_parts(p->segments[i]);
}

copse_status copse__program_replay_slice(copse_program *p, uint32_t i, uint32_t slice)
{
    return copse__segment_replay_part(p->segments[i], slice);
}

copse_status copse__program_settle(copse_program *p)
{
    for (uint32_t i = p->segment_count; i-- > 0;) /* one wait covers all segments of a step */
        COPSE_TRY(copse__segment_settle(p->segments[i]));
    return COPSE_OK;
}

size_t copse__program_bytes(const copse_program *p)
{
    size_t sum = 0;
    for (uint32_t i = 0; i < p->arena_count; i++)
        sum += copse_buffer_size(p->arenas[i]);
    return sum;
}

size_t copse__program_arena_bytes(const copse_program *p)
{
    size_t sum = 0;
    for (uint32_t i = 0; i < p->arena_count; i++)
        sum += p->arena_bytes[i];
    return sum;
}
