/* SPDX-License-Identifier: MIT */
/* A graph as a function on one device: a program with a queue, a step buffer and output buffers. */
#include "core/graph/graph.h"
#include "core/graph/variant.h"

#define MAX_OUTPUTS 64

struct copse_function {
    copse_queue *queue;
    copse_buffer *step;
    copse_program *program;
    copse_buffer *outputs[MAX_OUTPUTS];
    size_t bytes[MAX_OUTPUTS];
    size_t output_count;
    const copse_tensor **inputs; /* of the graph, used or not; compared, not read */
    size_t input_count;
    uint64_t ticket;
};

static copse_status record(copse_function *f, const struct copse_function_params *p,
                           const struct copse_choices *choices)
{
    copse_device *dev = f->queue->dev;
    struct copse_placement placements[MAX_OUTPUTS];
    for (size_t i = 0; i < p->output_count; i++) {
        const size_t bytes = 4 * (size_t)copse__elements(p->outputs[i]->shape);
        const size_t room = copse__round_up(bytes ? bytes : 4, 16);
        f->bytes[i] = bytes;
        COPSE_TRY(copse__buffer_acquire(dev, room, &f->outputs[i]));
        f->output_count++;
        placements[i] = (struct copse_placement){ p->outputs[i], { f->outputs[i], 0, room }, 0 };
    }
    const struct copse_program_params params = {
        .graph = p->graph,
        .queue = f->queue,
        .placements = placements,
        .placement_count = p->output_count,
        .step = { f->step, 0, 4 * COPSE_STEP_WORDS },
        .choices = choices->at,
        .choice_count = choices->count,
    };
    return copse__program_create(&params, &f->program);
}

static copse_status keep_inputs(copse_function *f, const copse_graph *g)
{
    f->inputs = copse__alloc(&g->ctx->base.mem, g->nodes.count, sizeof *f->inputs);
    if (!f->inputs)
        return copse_fail(COPSE_ERR_NO_MEMORY, "function: no memory");
    for (size_t i = 0; i < g->nodes.count; i++)
        if (g->nodes.at[i]->op == &copse_op_input)
            f->inputs[f->input_count++] = g->nodes.at[i];
    return COPSE_OK;
}

static copse_status init(copse_function *f, copse_device *dev,
                         const struct copse_function_params *p, const struct copse_choices *choices)
{
    uint32_t words[COPSE_STEP_WORDS] = { 0 };
    words[COPSE_STEP_SHARE] = words[COPSE_STEP_SCALE] = 0x3f800000u; /* 1.0f */
    COPSE_TRY(keep_inputs(f, p->graph));
    COPSE_TRY(copse_queue_create(dev, &f->queue));
    COPSE_TRY(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = sizeof words },
                                  &f->step));
    COPSE_TRY(copse_queue_write(f->queue, f->step, 0, words, sizeof words));
    return record(f, p, choices);
}

copse_status copse_function_create(copse_device *dev, const struct copse_function_params *p,
                                   copse_function **out)
{
    struct copse_choices choices;
    if (!dev || !p || !out || !p->graph || !p->outputs || p->output_count == 0 ||
        p->output_count > MAX_OUTPUTS)
        return copse_fail(COPSE_ERR_ARGUMENT, "function: needs a device, a graph and 1 to %d "
                                              "outputs", MAX_OUTPUTS);
    *out = NULL;
    for (size_t i = 0; i < p->output_count; i++)
        if (!p->outputs[i] || p->outputs[i]->graph != p->graph)
            return copse_fail(COPSE_ERR_ARGUMENT, "function: output %zu is not of the graph", i);
    COPSE_TRY(copse__choices_parse(p->kernels, &choices));
    copse_function *f = copse__alloc(&dev->base->mem, 1, sizeof *f);
    if (!f)
        return copse_fail(COPSE_ERR_NO_MEMORY, "function: no memory");
    const copse_status s = init(f, dev, p, &choices);
    if (s != COPSE_OK) {
        copse__program_release(&f->program);
        for (size_t i = 0; i < f->output_count; i++)
            copse_buffer_release(&f->outputs[i]);
        copse_buffer_release(&f->step);
        copse_queue_release(&f->queue);
        copse__free(&dev->base->mem, f->inputs);
        copse__free(&dev->base->mem, f);
        return s;
    }
    *out = f;
    return COPSE_OK;
}

void copse_function_release(copse_function **function)
{
    if (!function || !*function)
        return;
    copse_function *f = *function;
    copse_device *dev = copse_device_retain(f->queue->dev);
    copse__program_release(&f->program);
    for (size_t i = 0; i < f->output_count; i++)
        copse_buffer_release(&f->outputs[i]);
    copse_buffer_release(&f->step);
    copse_queue_release(&f->queue);
    copse__free(&dev->base->mem, f->inputs);
    copse__free(&dev->base->mem, f);
    copse_device_release(&dev);
    *function = NULL;
}

copse_status copse_function_write(copse_function *f, const copse_tensor *input, const void *values)
{
    struct copse_binding to;
    if (!f || !input || !values)
        return copse_fail(COPSE_ERR_ARGUMENT, "function: nothing to write");
    size_t i = 0;
    while (i < f->input_count && f->inputs[i] != input)
        i++;
    if (i == f->input_count)
        return copse_fail(COPSE_ERR_ARGUMENT, "function: only inputs of its graph can be written");
    if (!copse__program_input(f->program, input, &to))
        return COPSE_OK; /* no output depends on it */
    return copse_queue_write(f->queue, to.buffer, to.offset, values, to.size);
}

copse_status copse_function_run(copse_function *f)
{
    if (!f)
        return copse_fail(COPSE_ERR_ARGUMENT, "function: nothing to run");
    COPSE_TRY(copse__program_replay(f->program, 0));
    return copse_queue_submit(f->queue, &f->ticket);
}

copse_status copse_function_wait(copse_function *f)
{
    if (!f)
        return copse_fail(COPSE_ERR_ARGUMENT, "function: nothing to wait for");
    return f->ticket ? copse__queue_await(f->queue, f->ticket) : COPSE_OK;
}

copse_status copse_function_read(copse_function *f, size_t output, void *values)
{
    if (!f || output >= f->output_count || !values)
        return copse_fail(COPSE_ERR_ARGUMENT, "function: there is no output %zu", output);
    COPSE_TRY(copse_queue_read(f->queue, f->outputs[output], 0, values, f->bytes[output]));
    return copse_queue_finish(f->queue);
}
