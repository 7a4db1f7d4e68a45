/* SPDX-License-Identifier: MIT */
/* Recordings of calls: see core/graph/recording.h. */
#include "copse/compat/single_loss.h"
#include "core/base/half.h"
#include "core/call/call.h"
#include "core/graph/type.h"
#include "core/value/cross_device.h"

/* The key of a recording, beside the types of its inputs. A variable, or 0, for each input follows;
   then the variables of the gradients. */
enum {
    KEY_FUNCTION,
    KEY_USER,
    KEY_IS_MAP,
    KEY_IS_MEAN,
    KEY_HAS_FROM,
    KEY_GRADIENTS,
    KEY_VARIABLES
};

static struct copse_call_recording *recording_of(struct copse_recording *base)
{
    return (struct copse_call_recording *)(uintptr_t)base;
}

static struct copse_calls *calls_of(const struct copse_recording *r)
{
    struct copse_recordings *first = r->list - r->list->replica;
    return (struct copse_calls *)((char *)first - offsetof(struct copse_calls, recordings));
}

/* ---- making ---- */

/* The input of a variable is the variable's own tensor. */
static void set_variables(struct copse_recording *r)
{
    for (uint32_t i = 0; i < r->input_count; i++) {
        copse_variable *v = (copse_variable *)(uintptr_t)r->words[KEY_VARIABLES + i];
        r->inputs[i].tensor = v ? copse__own(r->graph, &v->tensor) : NULL;
    }
}

static copse_status recording_call(struct copse_recording *r, copse_batch *in)
{
    r->graph->takes_updates = COPSE_UPDATES_OWN;
    r->graph->replicas = r->list->strategy->group.ranks;
    set_variables(r);
    COPSE_TRY(copse_graph_status(r->graph));
    return copse__loss_call(r, in, r->words[KEY_GRADIENTS] > 0, calls_of(r)->function,
                            (copse_call_fn *)(uintptr_t)r->words[KEY_FUNCTION],
                            (void *)(uintptr_t)r->words[KEY_USER]);
}

static copse_status make_blocks(struct copse_recording *r, size_t count, struct copse_block ***out)
{
    *out = copse__arena_alloc(&r->graph->arena, count, sizeof(struct copse_block *));
    return copse_need_memory(*out, "call");
}

/* The last input is what the derivative begins with. */
static copse_status find_from(struct copse_recording *r, copse_tensor **from)
{
    *from = NULL;
    if (!r->result)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "%s: the function returned no tensor, and there is nothing to "
                          "differentiate",
                          r->list->table->name);
    if (!r->words[KEY_HAS_FROM])
        return copse__recording_check_loss(r);
    *from = copse__recording_input(r, r->input_count - 1);
    COPSE_TRY(copse_graph_status(r->graph));
    const copse_tensor *loss = r->result, *given = *from;
    return loss->type == COPSE_F32 && given->type == COPSE_F32 &&
                   copse__shape_equal(given->shape, loss->shape)
               ? COPSE_OK
               : copse_fail(COPSE_ERR_SHAPE,
                            "%s: the loss is %s%s, its derivative (grad_loss) is %s%s; both must "
                            "be f32, of one shape",
                            r->list->table->name, copse_type_name(loss->type),
                            COPSE_SHAPE_TEXT(loss->shape), copse_type_name(given->type),
                            COPSE_SHAPE_TEXT(given->shape));
}

static copse_status call_differentiate(struct copse_recording *r)
{
    struct copse_call_recording *c = recording_of(r);
    const size_t count = (size_t)r->words[KEY_GRADIENTS];
    const uint64_t *by = r->words + r->word_count - count;
    copse_tensor *from, **x = copse__arena_alloc(&r->graph->arena, count, 2 * sizeof *x);
    COPSE_TRY(make_blocks(r, count, &c->gradients));
    COPSE_TRY(copse_need_memory(x, "%s", r->list->table->name));
    COPSE_TRY(find_from(r, &from));
    for (size_t i = 0; i < count; i++)
        x[i] = &((copse_variable *)(uintptr_t)by[i])->tensor;
    COPSE_TRY(copse__loss_differentiate(r, from, x, count, x + count));
    for (size_t i = 0; i < count; i++)
        if (x[count + i])
            COPSE_TRY(copse__loss_place(r, x[count + i], 0, &c->gradients[i]));
    return COPSE_OK;
}

static copse_status check_reports(const struct copse_recording *r)
{
    const copse_graph *g = r->graph;
    if (g->report_count > 0 && !calls_of(r)->may_report)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "%s: report '%s': only a trainer's step has reports; use copse_output",
                          r->list->table->name, g->reports[0].name);
    if (g->report_count > 0)
        copse__log(&r->list->ctx->base.log, COPSE_LOG_INFO,
                   "%s: report '%s' is dropped: only a trainer's step has reports",
                   r->list->table->name, g->reports[0].name);
    return COPSE_OK;
}

static copse_status recording_extend(struct copse_recording *r)
{
    struct copse_call_recording *c = recording_of(r);
    const copse_graph *g = r->graph;
    if (r->result && g->output_count > 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "%s: the function returns a tensor and sets output '%s'; set the "
                          "tensor as an output, too, and return NULL",
                          r->list->table->name, g->outputs[0].name);
    if (!r->result && g->output_count == 0 && g->updates.count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "%s: the function returns NULL, and sets no output and no variable",
                          r->list->table->name);
    COPSE_TRY(check_reports(r));
    COPSE_TRY(make_blocks(r, 1 + g->output_count, &c->results));
    COPSE_TRY(make_blocks(r, g->updates.count, &c->updates));
    if (r->result)
        COPSE_TRY(copse__loss_place(r, r->result, 0, &c->results[0]));
    for (size_t i = 0; i < g->output_count; i++)
        COPSE_TRY(copse__loss_place(r, g->outputs[i].tensor, 0, &c->results[i]));
    for (size_t i = 0; i < g->updates.count; i++)
        COPSE_TRY(copse__loss_place(r, g->updates.at[i].value, 0, &c->updates[i]));
    return r->words[KEY_GRADIENTS] > 0 ? call_differentiate(r) : COPSE_OK;
}

/* The place of a sum over replicas. */
static copse_status place_sum(void *user, const copse_tensor *y, uint32_t index,
                              struct copse_binding *operand, struct copse_binding *result)
{
    struct copse_recording *r = user;
    struct copse_call_recording *c = recording_of(r);
    struct copse_mem *mem = &r->list->ctx->base.mem;
    copse_queue *q = r->list->strategy->replicas[r->list->replica].queue;
    const uint64_t count = copse__elements(y->shape);
    const size_t bytes = (size_t)count * copse__type_bytes(y->type);
    (void)index; /* in order */
    COPSE_TRY(copse_need_memory(
        COPSE_PUSH(mem, &c->sums, ((struct copse_call_sum){ .shape = y->shape })), "call"));
    struct copse_call_sum *sum = &c->sums.at[c->sums.count - 1];
    COPSE_TRY(copse__block_create(r->list->ctx, q, y->type, count, &sum->operand));
    COPSE_TRY(copse__block_create(r->list->ctx, q, y->type, count, &sum->result));
    *operand = (struct copse_binding){ sum->operand->buffer, 0, bytes };
    *result = (struct copse_binding){ sum->result->buffer, 0, bytes };
    return COPSE_OK;
}

static void recording_target(struct copse_recording *r, struct copse_program_params *params)
{
    copse__loss_target(r, params);
    params->all_reduce = r->words[KEY_IS_MAP] ? place_sum : NULL;
}

static copse_status recording_made(struct copse_recording *r)
{
    calls_of(r)->recorded++;
    return COPSE_OK;
}

static void recording_release(struct copse_recording *r)
{
    struct copse_call_recording *c = recording_of(r);
    const copse_graph *g = r->graph;
    for (size_t i = 0; c->results && i < 1 + g->output_count; i++)
        copse__block_release(&c->results[i]);
    for (size_t i = 0; c->updates && i < g->updates.count; i++)
        copse__block_release(&c->updates[i]);
    for (size_t i = 0; c->gradients && i < r->words[KEY_GRADIENTS]; i++)
        copse__block_release(&c->gradients[i]);
    for (size_t i = 0; i < c->sums.count; i++) {
        copse__block_release(&c->sums.at[i].operand);
        copse__block_release(&c->sums.at[i].result);
    }
    copse__free(&r->list->ctx->base.mem, c->sums.at);
}

const struct copse_recording_table copse__call_recording_table = {
    .name = "call",
    .size = sizeof(struct copse_call_recording),
    .has_no_result = true,
    .call = recording_call,
    .extend = recording_extend,
    .target = recording_target,
    .made = recording_made,
    .release = recording_release,
};

static void fill_key(const struct copse_call *c, uint64_t *words, struct copse_recording_key *key)
{
    words[KEY_FUNCTION] = (uintptr_t)c->fn;
    words[KEY_USER] = (uintptr_t)c->user;
    words[KEY_IS_MAP] = c->is_map;
    words[KEY_IS_MEAN] = c->calls->recordings[c->rank].is_mean;
    words[KEY_HAS_FROM] = c->has_from;
    words[KEY_GRADIENTS] = c->gradient_count;
    for (uint32_t i = 0; i < c->input_count; i++) {
        words[KEY_VARIABLES + i] = (uintptr_t)c->variables[i];
        key->inputs[i] =
            (struct copse_input_type){ c->names[i], c->values[i]->type, c->values[i]->shape };
    }
    for (size_t i = 0; i < c->gradient_count; i++)
        words[KEY_VARIABLES + c->input_count + i] = (uintptr_t)c->gradients[i].variable;
}

copse_status copse__call_record(struct copse_call *c)
{
    struct copse_recording_key key = { .input_count = c->input_count };
    copse_strategy *st = c->calls->owner.strategy;
    struct copse_mem *mem = &st->ctx->base.mem;
    uint64_t few[KEY_VARIABLES + COPSE_MAX_INPUTS], *many = NULL;
    struct copse_recording *r;
    COPSE_TRY(copse__strategy_settle(st));
    COPSE_TRY(copse__store_build(st));
    key.word_count = KEY_VARIABLES + c->input_count + c->gradient_count;
    if (key.word_count > COPSE_COUNT(few)) {
        many = copse__alloc(mem, key.word_count, sizeof *many);
        COPSE_TRY(copse_need_memory(many, "%s", c->calls->owner.name));
    }
    fill_key(c, many ? many : few, &key);
    key.words = many ? many : few;
    const copse_status s = copse__recordings_get(&c->calls->recordings[c->rank], &key, &r);
    copse__free(mem, many);
    COPSE_TRY(s);
    c->recording = recording_of(r);
    return COPSE_OK;
}

/* ---- outputs ---- */

void copse_output(copse_graph *g, const char *name, copse_tensor *t)
{
    COPSE_LATCH_VOID(g, copse_need("output", g, name, t));
    if (g->takes_updates != COPSE_UPDATES_OWN)
        COPSE_LATCH_VOID(g, copse_fail(COPSE_ERR_UNSUPPORTED,
                                       "output '%s': the graph is not one of a call (copse_call, "
                                       "copse_strategy_map)",
                                       name));
    copse_step_output(g, name, t, COPSE_OUTPUT_NONE);
}

/* ---- computing ---- */

uint32_t copse__call_examples(const struct copse_call *c)
{
    for (uint32_t i = 0; i < c->input_count; i++)
        if (!c->variables[i])
            return c->values[i]->shape.rank > 0 ? c->values[i]->shape.dims[0] : 1;
    return 1;
}

static copse_status write_step(const struct copse_call *c)
{
    const copse_strategy *st = c->calls->owner.strategy;
    const struct copse_replica *r = &st->replicas[c->rank];
    const uint64_t seed = c->calls->params.seed;
    const uint32_t one = copse__bits_of(1.0f);
    const uint32_t words[COPSE_STEP_WORDS] = {
        [COPSE_STEP_NUMBER] = (uint32_t)c->number,
        [COPSE_STEP_SEED_LO] = (uint32_t)seed,
        [COPSE_STEP_SEED_HI] = (uint32_t)(seed >> 32),
        [COPSE_STEP_FIRST_EXAMPLE] = c->first_example,
        [COPSE_STEP_SHARE] = copse__bits_of(c->share),
        [COPSE_STEP_PART] = copse__bits_of(c->part),
        [COPSE_STEP_SCALE] = one,
        [COPSE_STEP_IS_FIRST] = st->group.first + c->rank == 0 ? one : 0,
    };
    return copse_queue_write(r->queue, r->step, 0, words, sizeof words);
}

static copse_status check_once(const struct copse_call *c)
{
    struct copse_call_recording *r = c->recording;
    struct copse_cross_check k = copse__cross_check_of(&c->calls->owner, c->rank, c->number);
    k.program = r->base.program;
    if (!r->is_checked && !c->calls->params.no_cross_check)
        COPSE_TRY(copse__cross_check_program(&k, c->calls->function));
    r->is_checked = true;
    return COPSE_OK;
}

static copse_status detach_all(struct copse_block **list, size_t count)
{
    for (size_t i = 0; list && i < count; i++)
        COPSE_TRY(copse__block_detach(&list[i]));
    return COPSE_OK;
}

/* Values of an earlier call that are still held keep what they have. */
static copse_status detach_results(struct copse_call_recording *r)
{
    const copse_graph *g = r->base.graph;
    COPSE_TRY(detach_all(r->results, 1 + g->output_count));
    COPSE_TRY(detach_all(r->updates, g->updates.count));
    return detach_all(r->gradients, (size_t)r->base.words[KEY_GRADIENTS]);
}

copse_status copse__call_begin(const struct copse_call *c)
{
    COPSE_TRY(detach_results(c->recording));
    COPSE_TRY(copse__call_inputs_write(c));
    COPSE_TRY(write_step(c));
    return check_once(c);
}

copse_status copse__call_segment(const struct copse_call *c, uint32_t segment)
{
    return copse__program_replay(c->recording->base.program, segment);
}

copse_status copse__call_operand(const struct copse_call *c, uint32_t sum, copse_value **out)
{
    const struct copse_recording *r = &c->recording->base;
    const struct copse_call_sum *s = &c->recording->sums.at[sum];
    return copse__value_from_block(r->list->ctx, r->list->strategy, c->rank, s->shape,
                                   copse__block_retain(s->operand), out);
}

copse_status copse__call_take_sum(const struct copse_call *c, uint32_t sum,
                                  const copse_value *result)
{
    const struct copse_block *to = c->recording->sums.at[sum].result;
    const size_t bytes = (size_t)to->count * copse__type_bytes(to->type);
    return copse__value_write_to(c->calls->owner.strategy, c->rank, result,
                                 (struct copse_binding){ to->buffer, 0, bytes });
}

/* A value of what the last replay left there: the recording's own memory until its next replay
   (detach_results). */
static copse_status result_value(const struct copse_recording *r, struct copse_block *from,
                                 copse_shape shape, copse_value **out)
{
    return copse__value_from_block(r->list->ctx, r->list->strategy, r->list->replica, shape,
                                   copse__block_retain(from), out);
}

copse_status copse__call_result(const struct copse_call *c, copse_value **out)
{
    const struct copse_recording *r = &c->recording->base;
    const copse_graph *g = r->graph;
    const char *names[COPSE_MAX_OUTPUTS];
    copse_value *items[COPSE_MAX_OUTPUTS] = { NULL };
    copse_status s = COPSE_OK;
    *out = NULL;
    if (r->result)
        return result_value(r, c->recording->results[0], r->result->shape, out);
    if (g->output_count == 0)
        return COPSE_OK;
    for (size_t i = 0; i < g->output_count && !s; i++) {
        names[i] = g->outputs[i].name;
        s = result_value(r, c->recording->results[i], g->outputs[i].tensor->shape, &items[i]);
    }
    if (!s)
        s = copse_value_dict(r->list->ctx, names, items, g->output_count, out);
    copse__values_release(items, g->output_count);
    return s;
}

copse_status copse__call_update(const struct copse_call *c, size_t update, copse_value **out)
{
    const struct copse_recording *r = &c->recording->base;
    return result_value(r, c->recording->updates[update], r->graph->updates.at[update].value->shape,
                        out);
}

copse_status copse__call_gradients(const struct copse_call *c)
{
    const struct copse_call_recording *r = c->recording;
    for (size_t i = 0; i < c->gradient_count; i++)
        if (r->gradients[i])
            COPSE_TRY(result_value(&r->base, r->gradients[i],
                                   c->gradients[i].variable->tensor.shape,
                                   &c->gradients[i].gradient));
    return COPSE_OK;
}
