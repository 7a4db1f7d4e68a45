/* SPDX-License-Identifier: MIT */
/* Recordings of a tower optimizer (core/train/recording/loss_recording.h): result and gradients become
   values. */
#include "core/base/half.h"
#include "core/compat/tower.h"
#include "core/train/recording/loss_recording.h"
#include "core/value/cross_device.h"

/* ---- recording ---- */

/* The key of a recording, beside its inputs; variables follow. */
enum { KEY_GRADIENTS, KEY_LOSS, KEY_USER, KEY_VARIABLES };

/* A loss function recorded for one replica and one set of inputs and variables. */
struct tower_recording {
    struct copse_recording base;
    size_t count;               /* variables to differentiate by */
    struct copse_block *result; /* where a replay leaves it, */
    /* [count] and these; NULL: it does not depend on the variable */
    struct copse_block **gradients;
    bool is_checked; /* its launches were compared with the host, or need not be */
};

static copse_variable *variable_of(const struct tower_recording *rec, size_t i)
{
    return (copse_variable *)(uintptr_t)rec->base.words[KEY_VARIABLES + i];
}

static void tower_recording_begin(struct copse_recording *base)
{
    ((struct tower_recording *)base)->count = base->word_count - KEY_VARIABLES;
}

static copse_status tower_recording_call(struct copse_recording *base, copse_batch *in)
{
    return copse__loss_call(base, in, base->words[KEY_GRADIENTS] != 0,
                            "the loss function of a tower optimizer",
                            (copse_loss_fn *)(uintptr_t)base->words[KEY_LOSS],
                            (void *)(uintptr_t)base->words[KEY_USER]);
}

static copse_status tower_recording_differentiate(struct tower_recording *rec)
{
    copse_graph *g = rec->base.graph;
    COPSE_TRY(copse__recording_check_loss(&rec->base));
    rec->gradients =
        copse__alloc(&rec->base.list->ctx->base.mem, rec->count, sizeof *rec->gradients);
    copse_tensor **x = copse__arena_alloc(&g->arena, rec->count, 2 * sizeof *x);
    COPSE_TRY(copse_need_memory(rec->gradients && x, "tower optimizer"));
    copse_tensor **dx = x + rec->count;
    for (size_t i = 0; i < rec->count; i++)
        x[i] = &variable_of(rec, i)->tensor;
    COPSE_TRY(copse__loss_differentiate(&rec->base, x, rec->count, dx));
    for (size_t i = 0; i < rec->count; i++)
        if (dx[i])
            COPSE_TRY(copse__loss_place(&rec->base, dx[i], 0, &rec->gradients[i]));
    return COPSE_OK;
}

static copse_status tower_recording_extend(struct copse_recording *base)
{
    struct tower_recording *rec = (struct tower_recording *)base;
    COPSE_TRY(copse__loss_place(base, base->result, 0, &rec->result));
    return base->words[KEY_GRADIENTS] ? tower_recording_differentiate(rec) : COPSE_OK;
}

static void tower_recording_release(struct copse_recording *base)
{
    struct tower_recording *rec = (struct tower_recording *)base;
    copse__block_release(&rec->result);
    for (size_t i = 0; rec->gradients && i < rec->count; i++)
        copse__block_release(&rec->gradients[i]);
    copse__free(&base->list->ctx->base.mem, rec->gradients);
}

const struct copse_recording_table copse__tower_recording = {
    .name = "tower optimizer",
    .size = sizeof(struct tower_recording),
    .begin = tower_recording_begin,
    .call = tower_recording_call,
    .extend = tower_recording_extend,
    .target = copse__loss_target,
    .release = tower_recording_release,
};

/* One computation of a replica. */
struct computation {
    copse_tower_optimizer *t;
    const struct copse_tower_loss *of;
    struct copse_tower_gradient *pairs; /* [count]; 0: without gradients */
    size_t count;
    uint32_t rank;
    copse_value *inputs[2]; /* x and y, of this replica */
    uint32_t input_count;
};

static copse_status tower_recording_find(const struct computation *c, struct tower_recording **out)
{
    static const char *const names[] = { "x", "y" };
    struct copse_mem *mem = &c->t->strategy->ctx->base.mem;
    struct copse_recording *r;
    uint64_t *words = copse__alloc(mem, KEY_VARIABLES + c->count, sizeof *words);
    COPSE_TRY(copse_need_memory(words, "tower optimizer"));
    words[KEY_GRADIENTS] = c->count > 0;
    words[KEY_LOSS] = (uintptr_t)c->of->loss;
    words[KEY_USER] = (uintptr_t)c->of->user;
    for (size_t i = 0; i < c->count; i++)
        words[KEY_VARIABLES + i] = (uintptr_t)c->pairs[i].variable;
    struct copse_recording_key key = { .words = words,
                                       .word_count = KEY_VARIABLES + c->count,
                                       .input_count = c->input_count };
    for (uint32_t i = 0; i < c->input_count; i++)
        key.inputs[i] =
            (struct copse_input_type){ names[i], c->inputs[i]->type, c->inputs[i]->shape };
    const copse_status s = copse__recordings_get(&c->t->recordings[c->rank], &key, &r);
    copse__free(mem, words);
    COPSE_TRY(copse_note(s, "while recording for replica %u", c->rank));
    *out = (struct tower_recording *)r;
    return COPSE_OK;
}

/* ---- computing ---- */

static copse_status write_step(const struct computation *c)
{
    const copse_tower_optimizer *t = c->t;
    const struct copse_replica *r = &t->strategy->replicas[c->rank];
    const float part = 1.0f / (float)t->strategy->group.ranks,
                scale = copse__scaling_of(t->optimizer);
    const uint32_t rank = t->strategy->group.first + c->rank;
    const copse_shape x = c->inputs[0]->shape;
    const uint32_t words[COPSE_STEP_WORDS] = {
        [COPSE_STEP_NUMBER] = (uint32_t)t->optimizer->step + 1,
        [COPSE_STEP_SEED_LO] = (uint32_t)t->params.seed,
        [COPSE_STEP_SEED_HI] = (uint32_t)(t->params.seed >> 32),
        [COPSE_STEP_FIRST_EXAMPLE] = x.rank > 0 ? rank * x.dims[0] : rank,
        [COPSE_STEP_SHARE] = copse__bits_of(t->reduction == COPSE_LOSS_SUM ? scale : scale * part),
        [COPSE_STEP_PART] = copse__bits_of(part),
        [COPSE_STEP_SCALE] = copse__bits_of(1.0f),
    };
    return copse_queue_write(r->queue, r->step, 0, words, sizeof words);
}

static copse_status tower_recording_play(const struct computation *c, struct tower_recording *rec,
                                         copse_value **result)
{
    uint64_t ticket;
    for (uint32_t i = 0; i < c->input_count; i++)
        if (rec->base.inputs[i].at.buffer)
            COPSE_TRY(copse__value_write_to(c->t->strategy, c->rank, c->inputs[i],
                                            rec->base.inputs[i].at));
    COPSE_TRY(write_step(c));
    if (!rec->is_checked)
        COPSE_TRY(copse__tower_check_recording(c->t, c->rank, rec->base.program));
    rec->is_checked = true;
    COPSE_TRY(copse__program_replay(rec->base.program, 0));
    if (result)
        COPSE_TRY(copse__loss_value(&rec->base, rec->result, rec->base.result->shape, result));
    for (size_t i = 0; i < c->count; i++)
        if (rec->gradients[i])
            COPSE_TRY(copse__loss_value(&rec->base, rec->gradients[i],
                                        c->pairs[i].variable->tensor.shape, &c->pairs[i].gradient));
    return copse_queue_submit(c->t->strategy->replicas[c->rank].queue, &ticket);
}

/* This replica's component of an argument, an array. */
static copse_status take_argument(struct computation *c, copse_value *v, const char *name,
                                  bool may_be_whole)
{
    copse_value **mine = &c->inputs[c->input_count++];
    COPSE_TRY(copse__select_replica(v, c->rank, mine));
    return (*mine)->kind == COPSE_VALUE_ARRAY && (may_be_whole || (*mine)->type == COPSE_F32)
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT, "tower optimizer: %s must be an %s array", name,
                            may_be_whole ? "f32 or i32" : "f32");
}

static copse_status tower_recording_compute(struct computation *c, copse_value **result)
{
    copse_tower_optimizer *t = c->t;
    struct copse_store *store = t->strategy->store;
    const size_t placed = store->order.count;
    struct tower_recording *rec;
    COPSE_TRY(take_argument(c, c->of->x, "x", false));
    if (c->of->y)
        COPSE_TRY(take_argument(c, c->of->y, "y", true));
    COPSE_TRY(copse__store_build(t->strategy));
    COPSE_TRY(t->optimizer->table->pull(
        t->optimizer, store->order.count > placed ? COPSE_PULL_ALWAYS : COPSE_PULL_REPLICA,
        c->rank));
    COPSE_TRY(tower_recording_find(c, &rec));
    return tower_recording_play(c, rec, result);
}

static copse_status tower_recording_run(struct computation *c, copse_value **result)
{
    const copse_status s = tower_recording_compute(c, result);
    for (uint32_t i = 0; i < c->input_count; i++)
        copse_value_release(&c->inputs[i]);
    for (size_t i = 0; s != COPSE_OK && i < c->count; i++)
        copse_value_release(&c->pairs[i].gradient);
    if (s != COPSE_OK && result)
        copse_value_release(result);
    return s;
}

/* ---- public ---- */

copse_status copse_tower_compute(copse_tower_optimizer *t, const struct copse_tower_loss *of,
                                 struct copse_tower_gradient *pairs, size_t count,
                                 copse_value **loss)
{
    struct computation c = { .t = t, .of = of, .pairs = pairs, .count = count };
    if (loss)
        *loss = NULL;
    COPSE_TRY(copse_need("tower optimizer", t, of, pairs));
    COPSE_TRY(copse_need("tower optimizer", of->loss, of->x));
    if (count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "tower optimizer: no variables to differentiate by");
    COPSE_TRY(copse__tower_replica(t, &c.rank));
    for (size_t i = 0; i < count; i++) {
        pairs[i].gradient = NULL;
        COPSE_TRY(copse__tower_listed(t, pairs, i));
    }
    COPSE_TRY(copse__tower_rule(t));
    t->is_used = true;
    return copse_note(tower_recording_run(&c, loss), "while computing gradients on replica %u",
                      c.rank);
}

copse_status copse_tower_forward(copse_tower_optimizer *t, const struct copse_tower_loss *of,
                                 copse_value **out)
{
    struct computation c = { .t = t, .of = of };
    COPSE_TRY(copse_need("tower optimizer", t, of, out));
    COPSE_TRY(copse_need("tower optimizer", of->loss, of->x));
    *out = NULL;
    COPSE_TRY(copse__tower_replica(t, &c.rank));
    return copse_note(tower_recording_run(&c, out), "on replica %u", c.rank);
}
