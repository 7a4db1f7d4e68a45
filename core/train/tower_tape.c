/* SPDX-License-Identifier: MIT */
/* Tapes: loss functions recorded per replica and shape, whose loss and gradients become values. */
#include "core/ops/ops.h"
#include "core/train/tower.h"

static copse_status no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "tower optimizer: no memory");
}

static copse_queue *queue_of(const copse_tower_optimizer *t, uint32_t replica)
{
    return t->strategy->replicas[replica].queue;
}

/* ---- recording ---- */

struct builder {
    copse_tower_optimizer *t;
    struct copse_tape *tape;
    copse_tensor *x, *y, *result;
    struct { struct copse_placement *at; size_t count, room; } places;
};

static copse_status place(struct builder *b, copse_tensor *tensor, struct copse_block **block)
{
    copse_context *ctx = b->t->strategy->ctx;
    const uint64_t count = copse__elements(tensor->shape);
    COPSE_TRY(copse__block_create(ctx, queue_of(b->t, b->tape->replica), tensor->type, count, block));
    const struct copse_placement p = { tensor, { (*block)->buffer, 0, (size_t)count * 4 }, 0 };
    return COPSE_PUSH(&ctx->base.mem, &b->places, p) ? COPSE_OK : no_memory();
}

/* In the replica's context, where merge calls and assignments are refused. */
static copse_status call_user(struct builder *b)
{
    const struct copse_tape *tape = b->tape;
    const copse_batch in = { .x = b->x, .y = b->y, .is_training = tape->has_gradients,
                             .replica = b->t->strategy->rank_first + tape->replica,
                             .replicas = b->t->strategy->rank_total };
    struct copse_frame frame;
    copse__context_push_replica(&frame, b->t->strategy, tape->replica);
    frame.is_graph = true;
    COPSE_TRY(copse__context_pop(&frame, tape->loss(tape->graph, &in, tape->user, &b->result)));
    return b->result ? copse__own(tape->graph, b->result, &b->result)
                     : copse_fail(COPSE_ERR_ARGUMENT, "tower optimizer: the function set no tensor");
}

static copse_status check_loss(const copse_tensor *loss)
{
    char text[96];
    return loss->type == COPSE_F32 && copse__elements(loss->shape) == 1
               ? COPSE_OK
               : copse_fail(COPSE_ERR_SHAPE, "tower optimizer: the loss must be an f32 scalar, it is %s",
                            copse__shape_text(loss->shape, text));
}

static copse_status differentiate(struct builder *b)
{
    struct copse_tape *tape = b->tape;
    copse_graph *g = tape->graph;
    copse_tensor *seed;
    COPSE_TRY(check_loss(b->result));
    COPSE_TRY(copse__step_scalar(g, COPSE_STEP_SHARE, &seed));
    if (b->result->shape.rank > 0)
        COPSE_TRY(copse_reshape(g, seed, b->result->shape, &seed));
    copse_tensor **x = copse__arena_alloc(&g->arena, tape->count, 2 * sizeof *x);
    if (!x)
        return no_memory();
    copse_tensor **dx = x + tape->count;
    for (size_t i = 0; i < tape->count; i++)
        x[i] = &tape->variables[i]->tensor;
    COPSE_TRY(copse__gradients(g, b->result, seed, x, tape->count, dx));
    for (size_t i = 0; i < tape->count; i++)
        if (dx[i])
            COPSE_TRY(place(b, dx[i], &tape->gradients[i]));
    return COPSE_OK;
}

static copse_status build(struct builder *b)
{
    struct copse_tape *tape = b->tape;
    tape->graph->replicas = b->t->strategy->rank_total;
    COPSE_TRY(copse_input(tape->graph, "x", COPSE_F32, tape->x_shape, &b->x));
    if (tape->has_y)
        COPSE_TRY(copse_input(tape->graph, "y", tape->y_type, tape->y_shape, &b->y));
    COPSE_TRY(call_user(b));
    tape->shape = b->result->shape;
    COPSE_TRY(place(b, b->result, &tape->result));
    return tape->has_gradients ? differentiate(b) : COPSE_OK;
}

struct place_of {
    const copse_tower_optimizer *t;
    uint32_t replica;
};

static copse_status locate(void *user, struct copse_variable *v, struct copse_binding *out)
{
    const struct place_of *p = user;
    if (v->strategy != p->t->strategy)
        return copse_fail(COPSE_ERR_ARGUMENT, "tower optimizer: variable '%s' belongs to another "
                                              "strategy", v->name);
    COPSE_TRY(copse__store_build(v->strategy));
    *out = copse__variable_values(v, p->replica);
    return COPSE_OK;
}

static copse_status compile(struct builder *b)
{
    struct copse_tape *tape = b->tape;
    copse_strategy *st = b->t->strategy;
    struct place_of where = { b->t, tape->replica };
    const struct copse_program_params params = {
        .graph = tape->graph,
        .queue = queue_of(b->t, tape->replica),
        .placements = b->places.at,
        .placement_count = b->places.count,
        .step = { st->replicas[tape->replica].step, 0, 4 * COPSE_STEP_WORDS },
        .locate = locate,
        .user = &where,
        .choices = st->choices.at,
        .choice_count = st->choices.count,
    };
    COPSE_TRY(copse__program_create(&params, &tape->program));
    (void)copse__program_input(tape->program, b->x, &tape->x);
    if (b->y)
        (void)copse__program_input(tape->program, b->y, &tape->y);
    return COPSE_OK;
}

static copse_status record(copse_tower_optimizer *t, struct copse_tape *tape)
{
    struct builder b = { .t = t, .tape = tape };
    copse_status s = copse_graph_create(t->strategy->ctx, &tape->graph);
    if (s == COPSE_OK)
        s = build(&b);
    if (s == COPSE_OK)
        s = compile(&b);
    copse__free(&t->strategy->ctx->base.mem, b.places.at);
    return copse_note(s, "while recording for replica %u", tape->replica);
}

/* ---- all tapes ---- */

static void release(copse_tower_optimizer *t, struct copse_tape *tape)
{
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    copse__program_release(&tape->program);
    copse_graph_release(&tape->graph);
    copse__block_release(&tape->result);
    for (size_t i = 0; tape->gradients && i < tape->count; i++)
        copse__block_release(&tape->gradients[i]);
    copse__free(mem, tape->gradients);
    copse__free(mem, tape->variables);
    copse__free(mem, tape);
}

void copse__tapes_fini(copse_tower_optimizer *t)
{
    for (size_t i = 0; i < t->tapes.count; i++)
        release(t, t->tapes.at[i]);
    copse__free(&t->strategy->ctx->base.mem, t->tapes.at);
}

static bool is_like(const struct copse_tape *a, const struct copse_tape *b,
                    const struct copse_tower_gradient *pairs)
{
    bool is_same = a->replica == b->replica && a->has_gradients == b->has_gradients &&
                   a->loss == b->loss && a->user == b->user && a->has_y == b->has_y &&
                   a->y_type == b->y_type && a->count == b->count &&
                   copse__shape_equal(a->x_shape, b->x_shape) &&
                   copse__shape_equal(a->y_shape, b->y_shape);
    for (size_t i = 0; is_same && i < a->count; i++)
        is_same = a->variables[i] == pairs[i].variable;
    return is_same;
}

static size_t tapes_of(const copse_tower_optimizer *t, uint32_t replica)
{
    size_t n = 0;
    for (size_t i = 0; i < t->tapes.count; i++)
        n += t->tapes.at[i]->replica == replica;
    return n;
}

/* Room for one more of a replica's: its least recently used go. */
static copse_status make_room(copse_tower_optimizer *t, uint32_t replica)
{
    size_t n = tapes_of(t, replica);
    for (size_t i = t->tapes.count; i-- > 0 && n >= t->params.recordings;) {
        struct copse_tape *tape = t->tapes.at[i];
        if (tape->replica != replica)
            continue;
        COPSE_TRY(copse_note(copse__program_settle(tape->program),
                             "while waiting for what replica %u computed before", replica));
        t->tapes.count--;
        n--;
        memmove(&t->tapes.at[i], &t->tapes.at[i + 1], (t->tapes.count - i) * sizeof tape);
        release(t, tape);
    }
    return COPSE_OK;
}

static copse_status make(copse_tower_optimizer *t, const struct copse_tape *like,
                         const struct copse_tower_gradient *pairs)
{
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    COPSE_TRY(make_room(t, like->replica));
    struct copse_tape *tape = copse__alloc(mem, 1, sizeof *tape);
    if (!tape)
        return no_memory();
    *tape = *like;
    tape->variables = copse__alloc(mem, like->count, sizeof *tape->variables);
    tape->gradients = copse__alloc(mem, like->count, sizeof *tape->gradients);
    copse_status s = tape->variables && tape->gradients ? COPSE_OK : no_memory();
    for (size_t i = 0; s == COPSE_OK && i < like->count; i++)
        tape->variables[i] = pairs[i].variable;
    if (s == COPSE_OK)
        s = record(t, tape);
    if (s == COPSE_OK && !COPSE_PUSH(mem, &t->tapes, tape))
        s = no_memory();
    if (s != COPSE_OK)
        release(t, tape);
    return s;
}

static copse_status find(copse_tower_optimizer *t, const struct copse_tape *like,
                         const struct copse_tower_gradient *pairs, struct copse_tape **out)
{
    size_t i = 0;
    while (i < t->tapes.count && !is_like(t->tapes.at[i], like, pairs))
        i++;
    if (i == t->tapes.count) {
        COPSE_TRY(make(t, like, pairs));
        i = t->tapes.count - 1;
    }
    *out = t->tapes.at[i];
    memmove(t->tapes.at + 1, t->tapes.at, i * sizeof *t->tapes.at);
    t->tapes.at[0] = *out;
    return COPSE_OK;
}

/* ---- playing ---- */

static copse_status feed(copse_tower_optimizer *t, uint32_t replica, const copse_value *v,
                         struct copse_binding to)
{
    copse_queue *q = queue_of(t, replica);
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    if (!to.buffer)
        return COPSE_OK;
    if (v->block->queue == q)
        return copse_queue_copy(q, v->block->buffer, 0, to.buffer, to.offset, to.size);
    void *values = copse__alloc(mem, 1, to.size);
    if (!values)
        return no_memory();
    copse_status s = copse_value_read(v, values);
    if (s == COPSE_ERR_TIMEOUT)
        return s; /* the device may still write there */
    if (s == COPSE_OK)
        s = copse_queue_write(q, to.buffer, to.offset, values, to.size);
    copse__free(mem, values);
    return s;
}

static uint32_t float_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static copse_status write_step(copse_tower_optimizer *t, const struct copse_tape *tape)
{
    const struct copse_replica *r = &t->strategy->replicas[tape->replica];
    const float part = 1.0f / (float)t->strategy->rank_total;
    const uint32_t rank = t->strategy->rank_first + tape->replica;
    uint32_t words[COPSE_STEP_WORDS] = { 0 };
    words[COPSE_STEP_NUMBER] = (uint32_t)t->optimizer->step + 1;
    words[COPSE_STEP_SEED_LO] = (uint32_t)t->params.seed;
    words[COPSE_STEP_SEED_HI] = (uint32_t)(t->params.seed >> 32);
    words[COPSE_STEP_FIRST_EXAMPLE] =
        tape->x_shape.rank > 0 ? rank * tape->x_shape.dims[0] : rank;
    words[COPSE_STEP_SHARE] = float_bits(t->reduction == COPSE_LOSS_SUM ? 1.0f : part);
    words[COPSE_STEP_PART] = float_bits(part);
    words[COPSE_STEP_SCALE] = float_bits(1.0f);
    return copse_queue_write(r->queue, r->step, 0, words, sizeof words);
}

static copse_status value_of(copse_tower_optimizer *t, const struct copse_tape *tape,
                             const struct copse_block *from, copse_shape shape, copse_value **out)
{
    copse_strategy *st = t->strategy;
    struct copse_block *copy;
    COPSE_TRY(copse__block_copy(from, queue_of(t, tape->replica), &copy));
    return copse__value_from_block(st->ctx, st, tape->replica, shape, copy, out);
}

static copse_status take(copse_tower_optimizer *t, const struct copse_tape *tape,
                         struct copse_tower_gradient *pairs, copse_value **result)
{
    if (result)
        COPSE_TRY(value_of(t, tape, tape->result, tape->shape, result));
    for (size_t i = 0; i < tape->count; i++)
        if (tape->gradients[i])
            COPSE_TRY(value_of(t, tape, tape->gradients[i], tape->variables[i]->tensor.shape,
                               &pairs[i].gradient));
    return COPSE_OK;
}

static copse_status play(copse_tower_optimizer *t, const struct copse_tape *tape,
                         const copse_value *x, const copse_value *y,
                         struct copse_tower_gradient *pairs, copse_value **result)
{
    uint64_t ticket;
    COPSE_TRY(feed(t, tape->replica, x, tape->x));
    if (y)
        COPSE_TRY(feed(t, tape->replica, y, tape->y));
    COPSE_TRY(write_step(t, tape));
    COPSE_TRY(copse__program_replay(tape->program, 0));
    copse_status s = take(t, tape, pairs, result);
    if (s == COPSE_OK)
        s = copse_queue_submit(queue_of(t, tape->replica), &ticket);
    for (size_t i = 0; s != COPSE_OK && i < tape->count; i++)
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
                        bool has_gradients, struct copse_tower_gradient *pairs, size_t count,
                        copse_value **result)
{
    copse_value *x = NULL, *y = NULL;
    struct copse_tape *tape = NULL;
    copse_status s = argument(of->x, "x", false, rank, &x);
    if (s == COPSE_OK && of->y)
        s = argument(of->y, "y", true, rank, &y);
    copse_strategy *st = t->strategy;
    const size_t placed = st->store.order.count;
    if (s == COPSE_OK)
        s = copse__store_build(st);
    if (s == COPSE_OK)
        s = t->optimizer->table->pull(
            t->optimizer, st->store.order.count > placed ? COPSE_PULL_ALWAYS : COPSE_PULL_REPLICA, rank);
    if (s == COPSE_OK) {
        const struct copse_tape like = {
            .replica = rank, .has_gradients = has_gradients, .loss = of->loss, .user = of->user,
            .x_shape = x->shape, .has_y = y != NULL, .y_type = y ? y->type : COPSE_F32,
            .y_shape = y ? y->shape : COPSE_SCALAR, .count = count,
        };
        s = find(t, &like, pairs, &tape);
    }
    if (s == COPSE_OK)
        s = play(t, tape, x, y, pairs, result);
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
    if (!pairs || count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "tower optimizer: no variables to differentiate by");
    COPSE_TRY(copse__tower_replica(t, &rank));
    for (size_t i = 0; i < count; i++) {
        pairs[i].gradient = NULL;
        COPSE_TRY(copse__tower_trained(t, pairs[i].variable));
    }
    COPSE_TRY(copse__tower_rule(t));
    t->is_used = true;
    return copse_note(run(t, rank, of, true, pairs, count, loss),
                      "while computing gradients on replica %u", rank);
}

copse_status copse_tower_forward(copse_tower_optimizer *t, const struct copse_tower_loss *of,
                                 copse_value **out)
{
    uint32_t rank;
    COPSE_TRY(check(t, of));
    if (!out)
        return copse_fail(COPSE_ERR_ARGUMENT, "tower optimizer: no place for the result");
    *out = NULL;
    COPSE_TRY(copse__tower_replica(t, &rank));
    return copse_note(run(t, rank, of, false, NULL, 0, out), "on replica %u", rank);
}
