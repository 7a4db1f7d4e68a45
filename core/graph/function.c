/* SPDX-License-Identifier: MIT */
/* A graph as a function on one device: a program with a queue, a step buffer and output buffers. */
#include "core/graph/recording.h"
#include "core/graph/type.h"
#include "core/graph/variant.h"

#define MAX_OUTPUTS 64

struct copse_function {
    copse_queue *queue;
    copse_buffer *step;
    struct copse_recording recording;
    copse_buffer *outputs[MAX_OUTPUTS];
    size_t bytes[MAX_OUTPUTS];
    size_t output_count;
    uint64_t ticket;
};

static copse_status function_record(copse_function *f, const struct copse_function_params *p,
                                    const struct copse_choices *choices)
{
    copse_device *dev = f->queue->dev;
    f->recording.graph = p->graph;
    COPSE_TRY(copse__recording_adopt(&f->recording));
    for (size_t i = 0; i < p->output_count; i++) {
        const size_t bytes =
            (size_t)copse__elements(p->outputs[i]->shape) * copse__type_bytes(p->outputs[i]->type);
        const size_t room = copse__round_up(bytes ? bytes : 4, 16);
        f->bytes[i] = bytes;
        COPSE_TRY(copse__buffer_acquire(dev, room, &f->outputs[i]));
        f->output_count++;
        COPSE_TRY(copse__recording_place(&f->recording, p->outputs[i],
                                         (struct copse_binding){ f->outputs[i], 0, room }, 0));
    }
    struct copse_program_params params = {
        .queue = f->queue,
        .step = { f->step, 0, 4 * COPSE_STEP_WORDS },
        .choices = choices->at,
        .choice_count = choices->count,
    };
    return copse__recording_compile(&f->recording, &params);
}

static void function_fini(copse_function *f, struct copse_mem *mem)
{
    copse__recording_fini(&f->recording, mem);
    for (size_t i = 0; i < f->output_count; i++)
        copse_buffer_release(&f->outputs[i]);
    copse_buffer_release(&f->step);
    copse_queue_release(&f->queue);
    copse__free(mem, f);
}

static copse_status function_init(copse_function *f, copse_device *dev,
                                  const struct copse_function_params *p,
                                  const struct copse_choices *choices)
{
    uint32_t words[COPSE_STEP_WORDS] = { 0 };
    words[COPSE_STEP_SHARE] = words[COPSE_STEP_SCALE] = 0x3f800000u; /* 1.0f */
    COPSE_TRY(copse_queue_create(dev, &f->queue));
    COPSE_TRY(
        copse_buffer_create(dev, &(struct copse_buffer_params){ .size = sizeof words }, &f->step));
    COPSE_TRY(copse_queue_write(f->queue, f->step, 0, words, sizeof words));
    return function_record(f, p, choices);
}

copse_status copse_function_create(copse_device *dev, const struct copse_function_params *p,
                                   copse_function **out)
{
    struct copse_choices choices;
    COPSE_TRY(copse_need("function", dev, p, out));
    if (!p->graph || !p->outputs || p->output_count == 0 || p->output_count > MAX_OUTPUTS)
        return copse_fail(COPSE_ERR_ARGUMENT, "function: needs a graph and 1 to %d outputs",
                          MAX_OUTPUTS);
    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_function_params, p));
    COPSE_TRY(copse_graph_status(p->graph));
    for (size_t i = 0; i < p->output_count; i++) {
        if (!p->outputs[i] || p->outputs[i]->graph != p->graph)
            return copse_fail(COPSE_ERR_ARGUMENT, "function: output %zu is not of the graph", i);
        if (!copse__type_is_computed(p->outputs[i]->type))
            return copse_fail(COPSE_ERR_UNSUPPORTED,
                              "function: output %zu is %s; convert it first (copse_cast)", i,
                              copse_type_name(p->outputs[i]->type));
    }
    COPSE_TRY(copse__graph_order(p->graph, p->outputs, p->output_count));
    COPSE_TRY(copse__choices_parse(p->kernels, &choices));
    copse_function *f = copse__alloc(&dev->base->mem, 1, sizeof *f);
    if (!f)
        return copse_no_memory("function");
    const copse_status s = function_init(f, dev, p, &choices);
    if (s != COPSE_OK) {
        function_fini(f, &dev->base->mem);
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
    function_fini(f, &dev->base->mem);
    copse_device_release(&dev);
    *function = NULL;
}

copse_status copse_function_write(copse_function *f, const copse_tensor *input, const void *values)
{
    COPSE_TRY(copse_need("function: write", f, input, values));
    const struct copse_recorded_input *to = f->recording.inputs,
                                      *end = to + f->recording.input_count;
    while (to < end && to->tensor != input)
        to++;
    if (to == end)
        return copse_fail(COPSE_ERR_ARGUMENT, "function: only inputs of its graph can be written");
    return to->at.buffer ? copse__queue_write_bytes(f->queue, to->at.buffer, to->at.offset, values,
                                                    to->at.size)
                         : COPSE_OK; /* no output depends on it */
}

copse_status copse_function_run(copse_function *f)
{
    COPSE_TRY(copse_need("function: run", f));
    COPSE_TRY(copse__program_replay(f->recording.program, 0));
    return copse_queue_submit(f->queue, &f->ticket);
}

copse_queue *copse_function_queue(copse_function *f)
{
    return f ? f->queue : NULL;
}

copse_status copse_function_wait(copse_function *f)
{
    COPSE_TRY(copse_need("function: wait", f));
    return f->ticket ? copse__queue_await(f->queue, f->ticket) : COPSE_OK;
}

copse_status copse_function_read(copse_function *f, size_t output, void *values)
{
    COPSE_TRY(copse_need("function: read", f, values));
    if (output >= f->output_count)
        return copse_fail(COPSE_ERR_ARGUMENT, "function: there is no output %zu", output);
    COPSE_TRY(copse_queue_read(f->queue, f->outputs[output], 0, values, f->bytes[output]));
    return copse_queue_finish(f->queue);
}
