/* SPDX-License-Identifier: MIT */
/* Recordings: see recording.h. */
#include "core/graph/recording.h"

#include <stdio.h>

#include "copse/ops.h"
#include "core/graph/recompute.h"
#include "core/graph/type.h"

static copse_status no_memory(const struct copse_recording *r)
{
    return copse_no_memory("%s", r->list ? r->list->table->name : "function");
}

/* ---- inputs ---- */

/* "x f32[32, 20], y i32[32]" */
static void list_inputs(const struct copse_recording *r, char *text, size_t room)
{
    size_t at = 0;
    char shape[96];
    snprintf(text, room, "no inputs");
    for (uint32_t i = 0; i < r->input_count && at < room; i++) {
        const struct copse_input_type *t = &r->inputs[i].is;
        const int n = snprintf(text + at, room - at, "%s%s %s%s", i ? ", " : "", t->name,
                               copse_type_name(t->type), copse__shape_text(t->shape, shape));
        at += n > 0 ? (size_t)n : 0;
    }
}

/* A batch that a function of the application is called with. */
struct call {
    copse_batch batch;
    struct copse_recording *recording;
    struct call *outer;
};

static COPSE_THREAD_LOCAL struct call *innermost; /* of the functions that this thread is in */

copse_tensor *copse__recording_input(struct copse_recording *r, uint32_t i)
{
    struct copse_recorded_input *input = &r->inputs[i];
    if (!input->tensor)
        input->tensor = copse_graph_input(r->graph, input->is.name,
                                          copse__type_on_devices(input->is.type), input->is.shape);
    return input->tensor;
}

copse_tensor *copse_input(const copse_batch *in, const char *name)
{
    COPSE_LATCH(NULL, copse_need("input", in));
    const struct call *call = innermost;
    while (call && &call->batch != in)
        call = call->outer;
    if (!call)
        return copse__refuse(NULL, COPSE_ERR_ARGUMENT,
                             "input: this thread builds no graph from the batch");
    struct copse_recording *r = call->recording;
    copse_graph *g = r->graph;
    COPSE_LATCH(g, copse_need("input", name));
    struct copse_recorded_input *input = r->inputs, *end = r->inputs + r->input_count;
    while (input < end && strcmp(input->is.name, name) != 0)
        input++;
    if (input == end) {
        char text[640];
        list_inputs(r, text, sizeof text);
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "input: the batch has no '%s', it has %s", name,
                             text);
    }
    return copse__recording_input(r, (uint32_t)(input - r->inputs));
}

bool copse__batch_has(const copse_batch *in, const char *name)
{
    const struct call *call = innermost;
    while (call && &call->batch != in)
        call = call->outer;
    for (uint32_t i = 0; call && i < call->recording->input_count; i++)
        if (strcmp(call->recording->inputs[i].is.name, name) == 0)
            return true;
    return false;
}

const struct copse_column *copse_batch_column(const struct copse_host_batch *batch,
                                              const char *name)
{
    for (size_t i = 0; batch && name && batch->columns && i < batch->column_count; i++)
        if (batch->columns[i].name && strcmp(batch->columns[i].name, name) == 0)
            return &batch->columns[i];
    return NULL;
}

static copse_status check_input(const struct copse_recording_key *key, uint32_t i)
{
    const struct copse_input_type *t = &key->inputs[i];
    if (!t->name[0])
        return copse_fail(COPSE_ERR_ARGUMENT, "input %u of the batch has an empty name", i);
    for (uint32_t k = 0; k < i; k++)
        if (strcmp(key->inputs[k].name, t->name) == 0)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "inputs %u and %u of the batch are both named '%s'", k, i, t->name);
    return copse__type_need(t->type, "the batch's input", t->name);
}

/* Memory for the inputs, with their names in one block after them. */
static copse_status make_inputs(struct copse_recording *r, struct copse_mem *mem, size_t count,
                                size_t names)
{
    size_t bytes;
    r->inputs = copse__mul(count, sizeof *r->inputs, &bytes) && copse__add(bytes, names, &bytes)
                    ? copse__alloc(mem, bytes, 1)
                    : NULL;
    return r->inputs ? COPSE_OK : no_memory(r);
}

static char *put_input(struct copse_recording *r, const struct copse_input_type *t,
                       copse_tensor *tensor, char *name)
{
    struct copse_recorded_input *input = &r->inputs[r->input_count++];
    *input = (struct copse_recorded_input){ .is = *t, .tensor = tensor };
    input->is.name = strcpy(name, t->name);
    return name + strlen(name) + 1;
}

static copse_status take_inputs(struct copse_recording *r, const struct copse_recording_key *key)
{
    size_t names = 0;
    for (uint32_t i = 0; i < key->input_count; i++) {
        COPSE_TRY(check_input(key, i));
        names += strlen(key->inputs[i].name) + 1;
    }
    COPSE_TRY(make_inputs(r, &r->list->ctx->base.mem, key->input_count, names));
    char *name = (char *)(r->inputs + key->input_count);
    for (uint32_t i = 0; i < key->input_count; i++)
        name = put_input(r, &key->inputs[i], NULL, name);
    return COPSE_OK;
}

copse_status copse__recording_adopt(struct copse_recording *r)
{
    const copse_graph *g = r->graph;
    size_t count = 0, names = 0;
    for (size_t i = 0; i < g->nodes.count; i++)
        if (g->nodes.at[i]->op == &copse_op_input) {
            count++;
            names += strlen(g->nodes.at[i]->name) + 1;
        }
    COPSE_TRY(make_inputs(r, &g->ctx->base.mem, count, names));
    char *name = (char *)(r->inputs + count);
    for (size_t i = 0; i < g->nodes.count; i++) {
        copse_tensor *t = g->nodes.at[i];
        if (t->op == &copse_op_input)
            name = put_input(r, &(struct copse_input_type){ t->name, t->type, t->shape }, t, name);
    }
    return COPSE_OK;
}

/* ---- one recording ---- */

copse_status copse__recording_place(struct copse_recording *r, copse_tensor *t,
                                    struct copse_binding at, uint32_t bucket)
{
    const struct copse_placement p = { t, at, bucket };
    return COPSE_PUSH(&r->graph->ctx->base.mem, &r->placements, p) ? COPSE_OK : no_memory(r);
}

copse_status copse__recording_check_loss(const struct copse_recording *r)
{
    char text[96];
    const copse_tensor *t = r->result;
    return t->type == COPSE_F32 && copse__elements(t->shape) == 1
               ? COPSE_OK
               : copse_fail(COPSE_ERR_SHAPE, "%s: the loss must be an f32 scalar, it is %s%s",
                            r->list->table->name, copse_type_name(t->type),
                            copse__shape_text(t->shape, text));
}

static void give_graph(const struct copse_recording *r, struct copse_program_params *params)
{
    params->graph = r->graph;
    params->placements = r->placements.at;
    params->placement_count = r->placements.count;
}

copse_status copse__recording_compile(struct copse_recording *r,
                                      struct copse_program_params *params)
{
    COPSE_TRY(copse_graph_status(r->graph));
    give_graph(r, params);
    COPSE_TRY(copse_note(copse__recompute_fit(params), "while making a program for %s",
                         params->queue->dev->info.id));
    COPSE_TRY(copse__program_create(params, &r->program));
    /* an input that no result depends on has no location */
    for (uint32_t i = 0; i < r->input_count; i++) {
        struct copse_recorded_input *input = &r->inputs[i];
        if (input->tensor)
            (void)copse__program_input(r->program, input->tensor, &input->at);
    }
    return COPSE_OK;
}

copse_status copse__recording_kernels(const struct copse_recording *r,
                                      struct copse_program_params *params,
                                      struct copse_kernel_wants *out)
{
    COPSE_TRY(copse_graph_status(r->graph));
    give_graph(r, params);
    return copse__program_kernels(params, out);
}

static copse_status recording_build(struct copse_recording *r)
{
    const struct copse_recording_table *table = r->list->table;
    struct call own = { .recording = r, .outer = innermost };
    COPSE_TRY(copse_graph_create(r->list->ctx, &r->graph));
    innermost = &own;
    const copse_status s = table->call(r, &own.batch);
    innermost = own.outer;
    COPSE_TRY(s);
    if (!r->result && !table->has_no_result)
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: the function returned no tensor", table->name);
    if (r->result)
        r->result = copse__own(r->graph, r->result);
    COPSE_TRY(copse_graph_status(r->graph));
    COPSE_TRY(copse__graph_order(r->graph, &r->result, r->result ? 1 : 0));
    return table->extend(r);
}

static copse_status recording_record(struct copse_recording *r)
{
    const struct copse_recording_table *table = r->list->table;
    struct copse_program_params params = { .graph = NULL };
    copse_status s = recording_build(r);
    if (s == COPSE_OK) {
        table->target(r, &params);
        s = copse__recording_compile(r, &params);
    }
    copse__free(&r->list->ctx->base.mem, r->placements.at);
    r->placements.at = NULL;
    return s == COPSE_OK && table->made ? table->made(r) : s;
}

void copse__recording_fini(struct copse_recording *r, struct copse_mem *mem)
{
    copse__program_release(&r->program);
    copse__free(mem, r->placements.at);
    copse__free(mem, r->inputs);
    copse__free(mem, r->words);
}

static void recording_release(struct copse_recording *r)
{
    struct copse_recordings *list = r->list;
    if (r->words && list->table->release)
        list->table->release(r);
    copse__recording_fini(r, &list->ctx->base.mem);
    copse_graph_release(&r->graph);
    copse__free(&list->ctx->base.mem, r);
}

/* ---- the list ---- */

static bool is_like(const struct copse_recording *r, const struct copse_recording_key *key)
{
    if (r->input_count != key->input_count || r->word_count != key->word_count ||
        (r->word_count > 0 && memcmp(r->words, key->words, r->word_count * sizeof *r->words) != 0))
        return false;
    for (uint32_t i = 0; i < r->input_count; i++) {
        const struct copse_input_type *a = &r->inputs[i].is, *b = &key->inputs[i];
        if (a->type != b->type || !copse__shape_equal(a->shape, b->shape) ||
            strcmp(a->name, b->name) != 0)
            return false;
    }
    return true;
}

/* Release the least recently used ones before memory for a new one is allocated. */
static copse_status make_room(struct copse_recordings *list)
{
    for (size_t i = list->count; i-- > 0 && list->count >= list->limit;) {
        struct copse_recording *r = list->at[i];
        if (list->table->is_needed && list->table->is_needed(r))
            continue;
        char text[320];
        list_inputs(r, text, sizeof text);
        if (r->program) /* work queued behind its last replay continues */
            COPSE_TRY(copse_note(copse__program_settle(r->program),
                                 "while waiting for the last run of %s on replica %u", text,
                                 list->replica));
        copse__log(&list->ctx->base.log, COPSE_LOG_DEBUG,
                   "%s: replica %u releases the recording of %s, %u are kept", list->table->name,
                   list->replica, text, list->limit);
        list->count--;
        memmove(&list->at[i], &list->at[i + 1],
                (list->count - i) * sizeof(struct copse_recording *));
        recording_release(r);
    }
    return COPSE_OK;
}

/* An empty recording has no inputs and no graph. */
static copse_status recording_begin(struct copse_recording *r,
                                    const struct copse_recording_key *key, bool *is_empty)
{
    r->words = copse__alloc(&r->list->ctx->base.mem, key->word_count, sizeof *r->words);
    if (!r->words)
        return no_memory(r);
    r->word_count = key->word_count;
    if (key->word_count > 0)
        memcpy(r->words, key->words, key->word_count * sizeof *r->words);
    if (r->list->table->begin)
        r->list->table->begin(r);
    *is_empty = key->input_count == 0 && r->list->table->has_empty;
    return *is_empty ? COPSE_OK : take_inputs(r, key);
}

static copse_status recording_alloc(struct copse_recordings *list, struct copse_recording **out)
{
    *out = copse__alloc(&list->ctx->base.mem, 1, list->table->size);
    if (!*out)
        return copse_no_memory("%s", list->table->name);
    (*out)->list = list;
    return COPSE_OK;
}

static copse_status recording_make(struct copse_recordings *list,
                                   const struct copse_recording_key *key)
{
    struct copse_mem *mem = &list->ctx->base.mem;
    struct copse_recording *r;
    bool is_empty;
    COPSE_TRY(make_room(list));
    COPSE_TRY(recording_alloc(list, &r));
    copse_status s = recording_begin(r, key, &is_empty);
    if (s == COPSE_OK && !is_empty)
        s = recording_record(r);
    if (s == COPSE_OK && !COPSE_PUSH(mem, list, r))
        s = no_memory(r);
    if (s != COPSE_OK)
        recording_release(r);
    return s;
}

copse_status copse__recordings_get(struct copse_recordings *list,
                                   const struct copse_recording_key *key,
                                   struct copse_recording **out)
{
    size_t i = 0;
    while (i < list->count && !is_like(list->at[i], key))
        i++;
    if (i == list->count) {
        COPSE_TRY(recording_make(list, key));
        i = list->count - 1;
    }
    *out = list->at[i];
    memmove(list->at + 1, list->at, i * sizeof(struct copse_recording *));
    list->at[0] = *out;
    return COPSE_OK;
}

copse_status copse__recordings_plan(struct copse_recordings *list,
                                    const struct copse_recording_key *key, copse_plan_fn *plan,
                                    void *user)
{
    struct copse_program_params params = { .graph = NULL };
    struct copse_recording *r;
    bool is_empty = false;
    COPSE_TRY(recording_alloc(list, &r));
    copse_status s = recording_begin(r, key, &is_empty);
    if (s == COPSE_OK && !is_empty)
        s = recording_build(r);
    if (s == COPSE_OK && !is_empty)
        s = copse_graph_status(r->graph);
    if (s == COPSE_OK && !is_empty) {
        list->table->target(r, &params);
        give_graph(r, &params);
        s = plan(user, &params);
    }
    recording_release(r);
    return s;
}

bool copse__recordings_drop(struct copse_recordings *list, bool keeps_needed)
{
    if (list->count == 0)
        return false;
    if (keeps_needed && list->table->is_needed(list->at[list->count - 1]))
        return false;
    recording_release(list->at[--list->count]);
    return true;
}

void copse__recordings_fini(struct copse_recordings *list)
{
    for (size_t i = 0; i < list->count; i++)
        recording_release(list->at[i]);
    if (list->ctx)
        copse__free(&list->ctx->base.mem, list->at);
    list->at = NULL;
    list->count = list->room = 0;
}
