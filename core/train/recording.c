/* SPDX-License-Identifier: MIT */
/* Recordings: the user's loss function is called for a replica and a share size, differentiated,
   and recorded with its gradients placed in the flat store: in the first step of that size, and again only after the
   bound on recordings (`recordings` of the trainer) has released it. */
#include "core/ops/ops.h"
#include "core/replica/context.h"
#include "core/train/flight.h"

static copse_shape with_examples(size_t examples, copse_shape example)
{
    copse_shape s = { example.rank + 1, { (uint32_t)examples } };
    for (uint32_t i = 0; i < example.rank; i++)
        s.dims[i + 1] = example.dims[i];
    return s;
}

/* The names of the reports, from the first graph; later graphs must agree. */
static copse_status keep_names(copse_trainer *t, const copse_graph *g)
{
    if (!t->has_names) {
        for (size_t i = 0; i < g->report_count; i++) {
            t->report_names[i] = copse__strdup(&t->strategy->ctx->base.mem, g->reports[i].name);
            if (!t->report_names[i])
                return copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory");
            t->report_is_loss[i] = g->reports[i].is_loss;
            t->report_count++;
        }
        t->has_names = true;
        return COPSE_OK;
    }
    bool is_same = t->report_count == g->report_count;
    for (size_t i = 0; is_same && i < g->report_count; i++)
        is_same = strcmp(t->report_names[i], g->reports[i].name) == 0;
    return is_same ? COPSE_OK
                   : copse_fail(COPSE_ERR_ARGUMENT, "trainer: the loss function must report the "
                                                    "same values on every call");
}

struct built {
    copse_tensor *x, *y, *loss;
    struct copse_placements places;
};

static copse_status place_report(const struct copse_recording *r, struct built *b, size_t index,
                                 copse_tensor *t)
{
    const struct copse_binding at = { r->trainer->reports[r->replica], index * COPSE_REPORT_STRIDE,
                                      4 };
    const struct copse_placement p = { t, at, 0 };
    return COPSE_PUSH(&t->graph->ctx->base.mem, &b->places, p)
               ? COPSE_OK
               : copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory");
}

/* The loss function runs in its replica's context, where merge calls and assignments are refused. */
static copse_status call_user(const struct copse_recording *r, const copse_batch *in,
                              copse_tensor **loss)
{
    const struct copse_trainer_params *p = &r->trainer->params;
    struct copse_frame frame;
    copse__context_push_replica(&frame, r->trainer->strategy, r->replica);
    frame.is_graph = true;
    return copse__context_pop(&frame, p->loss(r->graph, in, p->user, loss));
}

static copse_status call_loss(struct copse_recording *r, struct built *b)
{
    copse_trainer *t = r->trainer;
    copse_graph *g = r->graph;
    const struct copse_trainer_params *p = &t->params;
    g->replicas = t->strategy->rank_total;
    COPSE_TRY(copse_input(g, "x", COPSE_F32, with_examples(r->examples, p->example), &b->x));
    COPSE_TRY(copse_input(g, "y", p->target_type, with_examples(r->examples, p->target), &b->y));
    const copse_batch in = {
        .x = b->x, .y = b->y, .is_training = r->pass != COPSE_PASS_EVALUATE,
        .replica = t->strategy->rank_first + r->replica, .replicas = t->strategy->rank_total,
    };
    COPSE_TRY(call_user(r, &in, &b->loss));
    if (!b->loss)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: the loss function set no loss");
    return copse__own(g, b->loss, &b->loss);
}

static copse_status build(struct copse_recording *r, struct built *b)
{
    copse_graph *g = r->graph;
    COPSE_TRY(call_loss(r, b));
    if (b->loss->type != COPSE_F32 || copse__elements(b->loss->shape) != 1) {
        char text[96];
        return copse_fail(COPSE_ERR_SHAPE, "trainer: the loss must be an f32 scalar, it is %s",
                          copse__shape_text(b->loss->shape, text));
    }
    COPSE_TRY(keep_names(r->trainer, g));
    COPSE_TRY(place_report(r, b, 0, b->loss));
    for (size_t i = 0; i < g->report_count; i++)
        COPSE_TRY(place_report(r, b, 1 + i, g->reports[i].tensor));
    return r->pass == COPSE_PASS_EVALUATE ? COPSE_OK
                                          : copse__gradients_build(r, b->loss, &b->places);
}

static copse_status locate(void *user, struct copse_variable *v, struct copse_binding *out)
{
    const struct copse_recording *r = user;
    if (v->strategy != r->trainer->strategy)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: variable '%s' belongs to another strategy",
                          v->name);
    COPSE_TRY(copse__store_build(v->strategy)); /* it may be younger than the trainer */
    *out = copse__variable_values(v, r->replica);
    return COPSE_OK;
}

static uint32_t bucket_of(void *user, const struct copse_variable *v)
{
    const struct copse_recording *r = user;
    return copse__optimizer_bucket(r->trainer->optimizer, v);
}

static copse_status record(copse_trainer *t, struct copse_recording *r)
{
    copse_strategy *st = t->strategy;
    struct built b = { 0 };
    const bool is_training = r->pass != COPSE_PASS_EVALUATE;
    copse_status s = copse_graph_create(st->ctx, &r->graph);
    if (s == COPSE_OK)
        s = build(r, &b);
    if (s == COPSE_OK) {
        const struct copse_program_params params = {
            .graph = r->graph,
            .queue = st->replicas[r->replica].queue,
            .placements = b.places.at,
            .placement_count = b.places.count,
            .bucket_count = is_training ? (uint32_t)t->optimizer->buckets.count : 1,
            .cross = copse__layout_cross,
            .step = { st->replicas[r->replica].step, 0, 4 * COPSE_STEP_WORDS },
            .locate = locate,
            .bucket_of = is_training ? bucket_of : NULL,
            .user = r,
            .choices = st->choices.at,
            .choice_count = st->choices.count,
        };
        s = copse__program_create(&params, &r->program);
    }
    copse__free(&st->ctx->base.mem, b.places.at);
    if (s == COPSE_OK)
        s = copse__layout_settle(r);
    if (s == COPSE_OK) { /* an input that the loss does not use has no place and needs none */
        (void)copse__program_input(r->program, b.x, &r->x);
        (void)copse__program_input(r->program, b.y, &r->y);
    }
    return s;
}

/* ---- empty shares ---- */

static struct copse_command zero(struct copse_binding at)
{
    return (struct copse_command){ .kind = COPSE_COMMAND_FILL, .bindings = { at },
                                   .binding_count = 1 };
}

/* What a replica without examples does in segment `i`: zeros in the operand of a crossing, or in the
   gradients of bucket `b` unless they are only to be added to. */
static size_t zeros_of(const struct copse_recording *r, uint32_t i, uint32_t b,
                       struct copse_command *out)
{
    copse_trainer *t = r->trainer;
    const copse_exchange *x = t->strategy->store.exchange;
    const struct copse_layout *l = copse__layout_of(t, r->pass);
    size_t n = 0;
    if (l->events.at[i] != COPSE_NO_CROSSING) {
        const struct copse_crossing *c = &l->crossings.at[l->events.at[i]];
        out[n] = zero(copse__exchange_gradients(x, c->piece, r->replica));
        out[n++].bindings[0].size = (size_t)copse__elements(c->shape) * sizeof(float);
        return n;
    }
    for (size_t v = 0; r->pass == COPSE_PASS_TRAIN && v < t->trained_count; v++)
        if (copse__optimizer_bucket(t->optimizer, t->trained[v]) == b)
            out[n++] = zero(copse__variable_gradient(t->trained[v], r->replica));
    return n;
}

/* A replica without examples adds nothing, but takes part in every exchange. */
static copse_status record_zeros(copse_trainer *t, struct copse_recording *r)
{
    copse_strategy *st = t->strategy;
    struct copse_mem *mem = &st->ctx->base.mem;
    const struct copse_layout *l = copse__layout_of(t, r->pass);
    r->zeros = copse__alloc(mem, l->events.count, sizeof(struct copse_segment *));
    struct copse_command *commands = copse__alloc(mem, t->trained_count, sizeof *commands);
    copse_status s = COPSE_OK;
    if (!r->zeros || !commands)
        s = copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory");
    for (uint32_t i = 0, b = 0; s == COPSE_OK && i < l->events.count; i++) {
        const size_t n = zeros_of(r, i, b, commands);
        b += l->events.at[i] == COPSE_NO_CROSSING;
        if (n > 0)
            s = copse__segment_create(st->replicas[r->replica].queue, commands, n, &r->zeros[i]);
    }
    copse__free(mem, commands);
    return s;
}

/* ---- all recordings ---- */

static void release(copse_trainer *t, struct copse_recording *r)
{
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    copse__program_release(&r->program);
    for (uint32_t i = 0; r->zeros && i < copse__layout_of(t, r->pass)->events.count; i++)
        copse__segment_release(&r->zeros[i]);
    copse__free(mem, r->zeros);
    copse_graph_release(&r->graph);
    copse__free(mem, r);
}

/* By the step, feed or run at hand, or by batches that are fed and wait for theirs. */
static bool is_needed(const copse_trainer *t, const struct copse_recording *r)
{
    const struct copse_infeed *in = &t->infeed;
    bool is_fed = in->count > 0 && in->shares && r->pass != COPSE_PASS_EVALUATE &&
                  in->shares->at[r->replica].count == r->examples;
    for (uint32_t i = 0; in->ring && !is_fed && i < in->count; i++)
        is_fed = in->ring[(in->first + i) % in->room].shares.recordings[r->replica] == r;
    return is_fed || r->used == t->use;
}

/* Until its newest replay is done: what was queued behind that goes on. */
static copse_status settle(const struct copse_recording *r)
{
    for (uint32_t i = 0; r->zeros && i < copse__layout_of(r->trainer, r->pass)->events.count; i++)
        if (r->zeros[i])
            COPSE_TRY(copse__segment_settle(r->zeros[i]));
    return r->program ? copse__program_settle(r->program) : COPSE_OK;
}

/* Room for one more of a replica's: the least recently used go, before new memory is asked for. */
static copse_status make_room(copse_trainer *t, uint32_t replica)
{
    for (size_t i = t->recordings[replica].count; i-- > 0;) {
        struct copse_recording *r = t->recordings[replica].at[i];
        if (t->recordings[replica].count < t->params.recordings)
            break;
        if (is_needed(t, r))
            continue;
        COPSE_TRY(copse_note(settle(r), "while waiting for the last step of %zu examples on replica %u",
                             r->examples, replica));
        copse__log(&t->strategy->ctx->base.log, COPSE_LOG_DEBUG,
                   "trainer: replica %u forgets how to do %zu examples, %u recordings are kept", replica,
                   r->examples, t->params.recordings);
        t->recordings[replica].count--;
        memmove(&t->recordings[replica].at[i], &t->recordings[replica].at[i + 1],
                (t->recordings[replica].count - i) * sizeof r);
        release(t, r);
    }
    return COPSE_OK;
}

/* The newest use stands first. */
static struct copse_recording *take(copse_trainer *t, uint32_t replica, size_t i)
{
    struct copse_recording **at = t->recordings[replica].at, *r = at[i];
    memmove(at + 1, at, i * sizeof *at);
    at[0] = r;
    r->used = t->use;
    return r;
}

static copse_status make(copse_trainer *t, uint32_t replica, size_t examples, enum copse_pass pass)
{
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    struct copse_layout *l = copse__layout_of(t, pass);
    COPSE_TRY(make_room(t, replica));
    struct copse_recording *r = copse__alloc(mem, 1, sizeof *r);
    if (!r)
        return copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory");
    *r = (struct copse_recording){ .trainer = t, .replica = replica, .examples = examples,
                                   .pass = pass };
    copse_status s = examples > 0 ? record(t, r) : record_zeros(t, r);
    if (s == COPSE_OK && !COPSE_PUSH(mem, &t->recordings[replica], r))
        s = copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory");
    if (s != COPSE_OK) {
        release(t, r);
        if (!l->is_known) /* what the failed recording began */
            copse__layout_fini(t, l);
    }
    return s;
}

copse_status copse__recording_get(copse_trainer *t, uint32_t replica, size_t examples,
                                  enum copse_pass pass, struct copse_recording **out)
{
    size_t i = 0;
    for (; i < t->recordings[replica].count; i++) {
        const struct copse_recording *r = t->recordings[replica].at[i];
        if (r->examples == examples && r->pass == pass)
            break;
    }
    if (i == t->recordings[replica].count) {
        COPSE_TRY(copse_note(make(t, replica, examples, pass),
                             "while recording %zu examples for replica %u", examples, replica));
        i = t->recordings[replica].count - 1;
    }
    *out = take(t, replica, i);
    return COPSE_OK;
}

void copse__recordings_fini(copse_trainer *t)
{
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        for (size_t i = 0; i < t->recordings[r].count; i++)
            release(t, t->recordings[r].at[i]);
        copse__free(&t->strategy->ctx->base.mem, t->recordings[r].at);
    }
}
