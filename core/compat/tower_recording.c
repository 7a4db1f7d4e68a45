/* SPDX-License-Identifier: MIT */
/* Recordings of a tower optimizer (core/graph/recording.h): result and gradients become values. */
#include "core/graph/type.h"
#include "core/ops/ops.h"
#include "core/compat/tower.h"

static copse_status no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "tower optimizer: no memory");
}

static copse_queue *queue_of(const copse_tower_optimizer *t, uint32_t replica)
{
    return t->strategy->replicas[replica].queue;
}

/* ---- recording ---- */

/* The key of a recording, beside its inputs; variables follow. */
enum { KEY_GRADIENTS, KEY_LOSS, KEY_USER, KEY_VARIABLES };

static copse_variable *variable_of(const struct copse_tower_recording *rec, size_t i)
{
    return (copse_variable *)(uintptr_t)rec->base.words[KEY_VARIABLES + i];
}

static void begin(struct copse_recording *base)
{
    struct copse_tower_recording *rec = (struct copse_tower_recording *)base;
    rec->t = base->list->user;
    rec->replica = base->list->replica;
    rec->has_gradients = base->words[KEY_GRADIENTS] != 0;
    rec->count = base->word_count - KEY_VARIABLES;
}

/* In the replica's context, where merge calls and assignments are refused. */
static copse_status call(struct copse_recording *base, copse_batch *in)
{
    const struct copse_tower_recording *rec = (const struct copse_tower_recording *)base;
    copse_strategy *st = rec->t->strategy;
    copse_loss_fn *loss = (copse_loss_fn *)(uintptr_t)base->words[KEY_LOSS];
    struct copse_callback here = { .name = "the loss function of a tower optimizer", .is_passive = true,
                                   .used = { rec->t, base->graph } };
    struct copse_frame frame;
    base->graph->replicas = st->group.ranks;
    in->is_training = rec->has_gradients;
    in->replica = st->group.first + rec->replica;
    in->replicas = st->group.ranks;
    copse__context_push_replica(&frame, st, rec->replica);
    frame.is_graph = true;
    copse__callback_enter(&here);
    const copse_status s = loss(base->graph, in, (void *)(uintptr_t)base->words[KEY_USER], &base->result);
    return copse__callback_leave(&here, copse__context_pop(&frame, s));
}

static copse_status place(struct copse_tower_recording *rec, copse_tensor *tensor, struct copse_block **block)
{
    const uint64_t count = copse__elements(tensor->shape);
    COPSE_TRY(copse__block_create(rec->t->strategy->ctx, queue_of(rec->t, rec->replica), tensor->type, count,
                                  block));
    const struct copse_binding at = { (*block)->buffer, 0, (size_t)count * copse__type_bytes(tensor->type) };
    return copse__recording_place(&rec->base, tensor, at, 0);
}

static copse_status differentiate(struct copse_tower_recording *rec)
{
    copse_graph *g = rec->base.graph;
    copse_tensor *seed;
    COPSE_TRY(copse__recording_check_loss(&rec->base));
    COPSE_TRY(copse__step_scalar(g, COPSE_STEP_SHARE, &seed));
    rec->gradients = copse__alloc(&rec->t->strategy->ctx->base.mem, rec->count, sizeof *rec->gradients);
    copse_tensor **x = copse__arena_alloc(&g->arena, rec->count, 2 * sizeof *x);
    if (!rec->gradients || !x)
        return no_memory();
    copse_tensor **dx = x + rec->count;
    for (size_t i = 0; i < rec->count; i++)
        x[i] = &variable_of(rec, i)->tensor;
    COPSE_TRY(copse__recording_differentiate(&rec->base, seed, x, rec->count, dx));
    for (size_t i = 0; i < rec->count; i++)
        if (dx[i])
            COPSE_TRY(place(rec, dx[i], &rec->gradients[i]));
    return COPSE_OK;
}

static copse_status extend(struct copse_recording *base)
{
    struct copse_tower_recording *rec = (struct copse_tower_recording *)base;
    COPSE_TRY(place(rec, base->result, &rec->result));
    return rec->has_gradients ? differentiate(rec) : COPSE_OK;
}

static copse_status locate(void *user, struct copse_variable *v, struct copse_binding *out)
{
    const struct copse_tower_recording *rec = user;
    COPSE_TRY(copse__variable_of(v, rec->t->strategy, "tower optimizer"));
    COPSE_TRY(copse__store_build(v->strategy));
    *out = copse__variable_values(v, rec->replica);
    return COPSE_OK;
}

static void target(struct copse_recording *base, struct copse_program_params *params)
{
    const struct copse_tower_recording *rec = (const struct copse_tower_recording *)base;
    copse_strategy *st = rec->t->strategy;
    *params = (struct copse_program_params){
        .queue = queue_of(rec->t, rec->replica),
        .step = { st->replicas[rec->replica].step, 0, 4 * COPSE_STEP_WORDS },
        .locate = locate,
        .user = base,
        .choices = st->choices.at,
        .choice_count = st->choices.count,
    };
}

static void release(struct copse_recording *base)
{
    struct copse_tower_recording *rec = (struct copse_tower_recording *)base;
    copse__block_release(&rec->result);
    for (size_t i = 0; rec->gradients && i < rec->count; i++)
        copse__block_release(&rec->gradients[i]);
    copse__free(&rec->t->strategy->ctx->base.mem, rec->gradients);
}

static const struct copse_recording_table table = {
    .name = "tower optimizer",
    .size = sizeof(struct copse_tower_recording),
    .begin = begin,
    .call = call,
    .extend = extend,
    .target = target,
    .release = release,
};

/* ---- all recordings ---- */

void copse__tower_recordings_init(copse_tower_optimizer *t)
{
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        t->recordings[r] = (struct copse_recordings){ .table = &table, .user = t, .ctx = t->strategy->ctx, .replica = r,
                                                 .limit = t->params.recordings };
}

void copse__tower_recordings_fini(copse_tower_optimizer *t)
{
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        copse__recordings_fini(&t->recordings[r]);
}

/* The recording of a function for these inputs; `count` 0: without gradients. */
static copse_status find(copse_tower_optimizer *t, uint32_t replica, const struct copse_tower_loss *of,
                         const copse_value *x, const copse_value *y, const struct copse_tower_gradient *pairs,
                         size_t count, struct copse_tower_recording **out)
{
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    struct copse_recording_key key;
    struct copse_recording *r;
    uint64_t *words = copse__alloc(mem, KEY_VARIABLES + count, sizeof *words);
    if (!words)
        return no_memory();
    words[KEY_GRADIENTS] = count > 0;
    words[KEY_LOSS] = (uintptr_t)of->loss;
    words[KEY_USER] = (uintptr_t)of->user;
    for (size_t i = 0; i < count; i++)
        words[KEY_VARIABLES + i] = (uintptr_t)pairs[i].variable;
    key.words = words;
    key.word_count = KEY_VARIABLES + count;
    key.inputs[0] = (struct copse_input_type){ "x", x->type, x->shape };
    if (y)
        key.inputs[1] = (struct copse_input_type){ "y", y->type, y->shape };
    key.input_count = y ? 2 : 1;
    const copse_status s = copse__recordings_get(&t->recordings[replica], &key, &r);
    copse__free(mem, words);
    COPSE_TRY(copse_note(s, "while recording for replica %u", replica));
    *out = (struct copse_tower_recording *)r;
    return COPSE_OK;
}

/* ---- playing ---- */

static uint32_t float_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static copse_status write_step(copse_tower_optimizer *t, const struct copse_tower_recording *rec, copse_shape x)
{
    const struct copse_replica *r = &t->strategy->replicas[rec->replica];
    const float part = 1.0f / (float)t->strategy->group.ranks, scale = copse__scaling_of(t->optimizer);
    const uint32_t rank = t->strategy->group.first + rec->replica;
    uint32_t words[COPSE_STEP_WORDS] = { 0 };
    words[COPSE_STEP_NUMBER] = (uint32_t)t->optimizer->step + 1;
    words[COPSE_STEP_SEED_LO] = (uint32_t)t->params.seed;
    words[COPSE_STEP_SEED_HI] = (uint32_t)(t->params.seed >> 32);
    words[COPSE_STEP_FIRST_EXAMPLE] =
        x.rank > 0 ? rank * x.dims[0] : rank;
    words[COPSE_STEP_SHARE] = float_bits(t->reduction == COPSE_LOSS_SUM ? scale : scale * part);
    words[COPSE_STEP_PART] = float_bits(part);
    words[COPSE_STEP_SCALE] = float_bits(1.0f);
    return copse_queue_write(r->queue, r->step, 0, words, sizeof words);
}

static copse_status value_of(copse_tower_optimizer *t, const struct copse_tower_recording *rec,
                             const struct copse_block *from, copse_shape shape, copse_value **out)
{
    copse_strategy *st = t->strategy;
    struct copse_block *copy;
    COPSE_TRY(copse__block_copy(from, queue_of(t, rec->replica), &copy));
    return copse__value_from_block(st->ctx, st, rec->replica, shape, copy, out);
}

static copse_status take(copse_tower_optimizer *t, const struct copse_tower_recording *rec,
                         struct copse_tower_gradient *pairs, copse_value **result)
{
    if (result)
        COPSE_TRY(value_of(t, rec, rec->result, rec->base.result->shape, result));
    for (size_t i = 0; i < rec->count; i++)
        if (rec->gradients[i])
            COPSE_TRY(value_of(t, rec, rec->gradients[i], variable_of(rec, i)->tensor.shape,
                               &pairs[i].gradient));
    return COPSE_OK;
}

static copse_status play(copse_tower_optimizer *t, const struct copse_tower_recording *rec,
                         const copse_value *const *inputs, struct copse_tower_gradient *pairs,
                         copse_value **result)
{
    uint64_t ticket;
    for (uint32_t i = 0; i < rec->base.input_count; i++)
        if (rec->base.inputs[i].at.buffer)
            COPSE_TRY(copse__tower_write(t->strategy, rec->replica, inputs[i], rec->base.inputs[i].at));
    COPSE_TRY(write_step(t, rec, inputs[0]->shape));
    COPSE_TRY(copse__program_replay(rec->base.program, 0));
    copse_status s = take(t, rec, pairs, result);
    if (s == COPSE_OK)
        s = copse_queue_submit(queue_of(t, rec->replica), &ticket);
    for (size_t i = 0; s != COPSE_OK && i < rec->count; i++)
        copse_value_release(&pairs[i].gradient);
    if (s != COPSE_OK && result)
        copse_value_release(result);
    return s;
}

/* ---- public ---- */

/* This replica's component of an argument, an array; a new reference. */
static copse_status argument(copse_value *v, const char *name, bool may_be_whole, uint32_t rank,
                             copse_value **out)
{
    COPSE_TRY(copse__select_replica(v, rank, out));
    if ((*out)->kind == COPSE_VALUE_ARRAY && (may_be_whole || (*out)->type == COPSE_F32))
        return COPSE_OK;
    copse_value_release(out);
    return copse_fail(COPSE_ERR_ARGUMENT, "tower optimizer: %s must be an %s array", name,
                      may_be_whole ? "f32 or i32" : "f32");
}

static copse_status run(copse_tower_optimizer *t, uint32_t rank, const struct copse_tower_loss *of,
                        struct copse_tower_gradient *pairs, size_t count, copse_value **result)
{
    copse_value *x = NULL, *y = NULL;
    struct copse_tower_recording *rec = NULL;
    copse_status s = argument(of->x, "x", false, rank, &x);
    if (s == COPSE_OK && of->y)
        s = argument(of->y, "y", true, rank, &y);
    copse_strategy *st = t->strategy;
    const size_t placed = st->store->order.count;
    if (s == COPSE_OK)
        s = copse__store_build(st);
    if (s == COPSE_OK)
        s = t->optimizer->table->pull(
            t->optimizer, st->store->order.count > placed ? COPSE_PULL_ALWAYS : COPSE_PULL_REPLICA, rank);
    if (s == COPSE_OK)
        s = find(t, rank, of, x, y, pairs, count, &rec);
    if (s == COPSE_OK)
        s = play(t, rec, (const copse_value *[]){ x, y }, pairs, result);
    copse_value_release(&x);
    copse_value_release(&y);
    return s;
}

static copse_status check(const copse_tower_optimizer *t, const struct copse_tower_loss *of)
{
    return t && of && of->loss && of->x
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT, "tower optimizer: it, the loss function or x is NULL");
}

copse_status copse_tower_compute(copse_tower_optimizer *t, const struct copse_tower_loss *of,
                                 struct copse_tower_gradient *pairs, size_t count,
                                 copse_value **loss)
{
    uint32_t rank;
    if (loss)
        *loss = NULL;
    COPSE_TRY(check(t, of));
    COPSE_TRY(copse_need("tower optimizer", pairs));
    if (count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "tower optimizer: no variables to differentiate by");
    COPSE_TRY(copse__tower_replica(t, &rank));
    for (size_t i = 0; i < count; i++) {
        pairs[i].gradient = NULL;
        COPSE_TRY(copse__tower_listed(t, pairs, i));
    }
    COPSE_TRY(copse__tower_rule(t));
    t->is_used = true;
    return copse_note(run(t, rank, of, pairs, count, loss),
                      "while computing gradients on replica %u", rank);
}

copse_status copse_tower_forward(copse_tower_optimizer *t, const struct copse_tower_loss *of,
                                 copse_value **out)
{
    uint32_t rank;
    COPSE_TRY(check(t, of));
    COPSE_TRY(copse_need("tower optimizer", out));
    *out = NULL;
    COPSE_TRY(copse__tower_replica(t, &rank));
    return copse_note(run(t, rank, of, NULL, 0, out), "on replica %u", rank);
}
