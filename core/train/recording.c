/* SPDX-License-Identifier: MIT */
/* Recordings: the user's loss function is called once per replica and share size, differentiated,
   and recorded with its gradients placed in the flat store. Never in a step after warm-up. */
#include "core/ops/ops.h"
#include "core/train/trainer.h"

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
    struct copse_placement *placements;
    size_t placement_count;
};

static void place(struct built *b, copse_tensor *t, struct copse_binding at, uint32_t bucket)
{
    b->placements[b->placement_count++] = (struct copse_placement){ t, at, bucket };
}

static struct copse_binding report_at(const copse_trainer *t, uint32_t replica, size_t index)
{
    return (struct copse_binding){ t->reports[replica], index * COPSE_REPORT_STRIDE, 4 };
}

static copse_status place_gradients(copse_trainer *t, struct copse_recording *r, struct built *b)
{
    copse_strategy *st = t->strategy;
    const size_t count = st->variables.count;
    copse_tensor *seed;
    COPSE_TRY(copse__step_scalar(r->graph, COPSE_STEP_SHARE, &seed));
    if (b->loss->shape.rank > 0)
        COPSE_TRY(copse_reshape(r->graph, seed, b->loss->shape, &seed));
    copse_tensor **x = copse__arena_alloc(&r->graph->arena, count, 2 * sizeof *x);
    if (!x)
        return copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory");
    for (size_t i = 0; i < count; i++)
        x[i] = &st->variables.at[i]->tensor;
    COPSE_TRY(copse_gradients(r->graph, b->loss, seed, x, count, x + count));
    for (size_t i = 0; i < count; i++) {
        const copse_variable *v = st->variables.at[i];
        place(b, x[count + i], copse__variable_gradient(v, r->replica), v->bucket);
    }
    return COPSE_OK;
}

static copse_status build(copse_trainer *t, struct copse_recording *r, struct built *b)
{
    copse_graph *g = r->graph;
    const struct copse_trainer_params *p = &t->params;
    COPSE_TRY(copse_input(g, "x", COPSE_F32, with_examples(r->examples, p->example), &b->x));
    COPSE_TRY(copse_input(g, "y", p->target_type, with_examples(r->examples, p->target), &b->y));
    const copse_batch in = {
        .x = b->x, .y = b->y, .is_training = r->is_training,
        .replica = r->replica, .replicas = t->strategy->replica_count,
    };
    COPSE_TRY(p->loss(g, &in, p->user, &b->loss));
    if (!b->loss)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: the loss function set no loss");
    COPSE_TRY(copse__own(g, b->loss, &b->loss));
    if (b->loss->type != COPSE_F32 || copse__elements(b->loss->shape) != 1) {
        char text[96];
        return copse_fail(COPSE_ERR_SHAPE, "trainer: the loss must be an f32 scalar, it is %s",
                          copse__shape_text(b->loss->shape, text));
    }
    COPSE_TRY(keep_names(t, g));
    place(b, b->loss, report_at(t, r->replica, 0), 0);
    for (size_t i = 0; i < g->report_count; i++)
        place(b, g->reports[i].tensor, report_at(t, r->replica, 1 + i), 0);
    return r->is_training ? place_gradients(t, r, b) : COPSE_OK;
}

static copse_status locate(void *user, struct copse_variable *v, struct copse_binding *out)
{
    const struct copse_recording *r = user;
    *out = copse__variable_values(v, r->replica);
    return COPSE_OK;
}

static uint32_t bucket_of(void *user, const struct copse_variable *v)
{
    (void)user;
    return v->bucket;
}

static copse_status record(copse_trainer *t, struct copse_recording *r)
{
    copse_strategy *st = t->strategy;
    struct copse_mem *mem = &st->ctx->base.mem;
    struct built b = { 0 };
    b.placements = copse__alloc(mem, st->variables.count + 1 + COPSE_MAX_REPORTS,
                                sizeof *b.placements);
    if (!b.placements)
        return copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory");
    copse_status s = copse_graph_create(st->ctx, &r->graph);
    if (s == COPSE_OK)
        s = build(t, r, &b);
    if (s == COPSE_OK) {
        const struct copse_program_params params = {
            .graph = r->graph,
            .queue = st->replicas[r->replica].queue,
            .placements = b.placements,
            .placement_count = b.placement_count,
            .bucket_count = r->is_training ? st->store.bucket_count : 1,
            .step = { st->replicas[r->replica].step, 0, 4 * COPSE_STEP_WORDS },
            .locate = locate,
            .bucket_of = r->is_training ? bucket_of : NULL,
            .user = r,
            .choices = &st->choice,
            .choice_count = st->choice.family ? 1 : 0,
        };
        s = copse__program_create(&params, &r->program);
    }
    copse__free(mem, b.placements);
    if (s == COPSE_OK) { /* an input that the loss does not use has no place and needs none */
        (void)copse__program_input(r->program, b.x, &r->x);
        (void)copse__program_input(r->program, b.y, &r->y);
    }
    return s;
}

/* A replica without examples adds nothing: zeros in its gradients. */
static copse_status record_zeros(copse_trainer *t, struct copse_recording *r)
{
    copse_strategy *st = t->strategy;
    struct copse_mem *mem = &st->ctx->base.mem;
    const size_t count = st->variables.count;
    r->zeros = copse__alloc(mem, st->store.bucket_count, sizeof(struct copse_segment *));
    struct copse_command *commands = copse__alloc(mem, count, sizeof *commands);
    copse_status s = COPSE_OK;
    if (!r->zeros || !commands)
        s = copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory");
    for (uint32_t b = 0; s == COPSE_OK && b < st->store.bucket_count; b++) {
        size_t n = 0;
        for (size_t i = 0; i < count; i++)
            if (st->variables.at[i]->bucket == b)
                commands[n++] = (struct copse_command){
                    .kind = COPSE_COMMAND_FILL,
                    .bindings = { copse__variable_gradient(st->variables.at[i], r->replica) },
                    .binding_count = 1,
                };
        s = copse__segment_create(st->replicas[r->replica].queue, commands, n, &r->zeros[b]);
    }
    copse__free(mem, commands);
    return s;
}

static void release(copse_trainer *t, struct copse_recording *r)
{
    copse__program_release(&r->program);
    for (uint32_t b = 0; r->zeros && b < t->strategy->store.bucket_count; b++)
        copse__segment_release(&r->zeros[b]);
    copse__free(&t->strategy->ctx->base.mem, r->zeros);
    copse_graph_release(&r->graph);
}

copse_status copse__recording_get(copse_trainer *t, uint32_t replica, size_t examples,
                                  bool is_training, struct copse_recording **out)
{
    for (size_t i = 0; i < t->recordings.count; i++) {
        struct copse_recording *r = &t->recordings.at[i];
        if (r->replica == replica && r->examples == examples && r->is_training == is_training) {
            *out = r;
            return COPSE_OK;
        }
    }
    struct copse_recording r = { .replica = replica, .examples = examples,
                                 .is_training = is_training };
    copse_status s = COPSE_OK;
    if (examples > 0)
        s = record(t, &r);
    else if (is_training)
        s = record_zeros(t, &r);
    if (s == COPSE_OK && !COPSE_PUSH(&t->strategy->ctx->base.mem, &t->recordings, r))
        s = copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory");
    if (s != COPSE_OK) {
        release(t, &r);
        return copse_note(s, "while recording %zu examples for replica %u", examples, replica);
    }
    *out = &t->recordings.at[t->recordings.count - 1];
    return COPSE_OK;
}

void copse__recordings_fini(copse_trainer *t)
{
    for (size_t i = 0; i < t->recordings.count; i++)
        release(t, &t->recordings.at[i]);
    copse__free(&t->strategy->ctx->base.mem, t->recordings.at);
}
