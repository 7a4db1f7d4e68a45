/* SPDX-License-Identifier: MIT */
/* Steps: the application's own, and those with a walk over a dataset. */
#include "core/loop/step.h"
#include "core/base/callback.h"

#include "core/data/dataset/dataset.h"
#include "core/loop/outputs.h"
#include "core/replica/strategy.h"

/* ---- life ---- */

static copse_status step_check(const struct copse_step_functions *f)
{
    const int count = (f->save != NULL) + (f->restore != NULL) + (f->progress != NULL);
    if (count == 1 || count == 2)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "step: save, restore and progress come together, it has "
                          "only %d of them",
                          count);
    return COPSE_OK;
}

copse_status copse_step_create(copse_context *ctx, copse_strategy *strategy,
                               const struct copse_step_functions *functions, void *user,
                               copse_step **out)
{
    static const struct copse_step_functions none;
    const struct copse_step_functions *f = functions ? functions : &none;
    COPSE_TRY(copse_need("step", ctx, out));
    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_step_functions, functions));
    COPSE_TRY(step_check(f));
    copse_step *step = copse__alloc(&copse__base(ctx)->mem, 1, sizeof *step);
    COPSE_TRY(copse_need_memory(step, "step"));
    atomic_init(&step->refs, 1);
    step->ctx = copse_context_retain(ctx);
    step->f = *f;
    step->user = user;
    const copse_status s = copse__step_set_strategy(step, strategy);
    if (s) {
        step->f.release = NULL; /* `user` stays the caller's */
        copse_step_release(&step);
    }
    *out = step;
    return s;
}

copse_status copse__step_set_strategy(copse_step *step, copse_strategy *st)
{
    copse_outputs *outputs;
    COPSE_TRY(copse__outputs_create_for(step->ctx, st, &outputs));
    copse_strategy_release(&step->strategy);
    copse_outputs_release(&step->outputs);
    step->strategy = copse_strategy_retain(st);
    step->outputs = outputs;
    return COPSE_OK;
}

copse_step *copse_step_retain(copse_step *step)
{
    if (step)
        copse__ref(&step->refs);
    return step;
}

void copse_step_release(copse_step **at)
{
    if (!at || !*at)
        return;
    copse_step *step = *at;
    *at = NULL;
    if (!copse__unref(&step->refs))
        return;
    if (step->f.release)
        step->f.release(step->user);
    copse_loader_release(&step->input.batches);
    copse__free(&copse__base(step->ctx)->mem, step->input.held.at);
    copse_outputs_release(&step->outputs);
    copse_strategy_release(&step->strategy);
    copse__context_free(step->ctx, step);
}

COPSE_PROPERTY(copse_strategy *, copse_step_strategy, copse_step, x->strategy, NULL)

copse_status copse_step_run(copse_step *step)
{
    COPSE_TRY(copse_need("step", step));
    if (!step->f.run)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "step: it is abstract: there is no function to run");
    struct copse_callback here = { .name = "the run function of a step", .used = { step } };
    COPSE_TRY(copse__require_no_replica("copse_step_run", step));
    copse_step_retain(step); /* the function may release the application's reference */
    const copse_status s = copse_callback_call(&here, step->f.run(step->user));
    copse_step_release(&step);
    return s;
}

/* ---- input ---- */

copse_status copse__step_open_input(copse_step *step, const struct copse_input_params *p)
{
    copse_dataset *data = NULL;
    copse_status s = p->dataset(p->user, step->strategy, &data);
    if (s == COPSE_OK && !data)
        s = copse_fail(COPSE_ERR_ARGUMENT, "step: the dataset function gave no dataset");
    if (s == COPSE_OK)
        s = copse_loader_create(data, &p->batches, &step->input.batches);
    if (s == COPSE_OK) {
        struct copse_dataset_info info;
        copse_dataset_describe(data, &info);
        step->input.is_uneven = !p->batches.drop_last && info.rows % p->batches.batch != 0;
    }
    copse_dataset_release(&data);
    step->input.epochs = p->epochs ? p->epochs : 1;
    return copse_note(s, "while making the input of a step");
}

copse_status copse_input_step_create(copse_context *ctx, copse_strategy *strategy,
                                     const struct copse_input_params *params,
                                     const struct copse_step_functions *functions, void *user,
                                     copse_step **out)
{
    COPSE_TRY(copse_need("step", ctx, params, out));
    COPSE_TRY(copse_no_reserved(copse_input_params, params));
    COPSE_TRY(copse_no_reserved(copse_loader_params, &params->batches));
    COPSE_TRY(copse_no_reserved(copse_step_functions, functions));
    if (!params->dataset)
        return copse_fail(COPSE_ERR_ARGUMENT, "step: needs a dataset function");
    COPSE_TRY(copse_step_create(ctx, strategy, functions, user, out));
    const copse_status s = copse__step_open_input(*out, params);
    if (s != COPSE_OK) {
        (*out)->f.release = NULL; /* `user` stays the caller's */
        copse_step_release(out);
    }
    return s;
}

static copse_status check_input(const copse_step *step)
{
    return step->input.batches ? COPSE_OK
                               : copse_fail(COPSE_ERR_UNSUPPORTED, "step: it has no input");
}

static copse_status walk_on(copse_step *step, struct copse_host_batch *out)
{
    uint32_t epoch;
    size_t index;
    copse_status s;
    while ((s = copse_loader_next(step->input.batches, out)) == COPSE_ERR_END) {
        copse_loader_position(step->input.batches, &epoch, &index);
        if (epoch + 1 >= step->input.epochs)
            return COPSE_ERR_END;
        COPSE_TRY(copse_loader_start(step->input.batches, epoch + 1, 0));
    }
    return s;
}

static struct copse_position step_position(const copse_step *step)
{
    struct copse_position p;
    size_t index;
    copse_loader_position(step->input.batches, &p.epoch, &index);
    p.batch = index;
    return p;
}

copse_status copse_step_next(copse_step *step, struct copse_host_batch *out)
{
    COPSE_TRY(copse_need("step", step, out));
    COPSE_TRY(check_input(step));
    if (step->input.held.count > 0) {
        const struct copse_position before = step->input.held.at[0].before;
        COPSE_TRY(copse_step_seek(step, &before));
    }
    return walk_on(step, out);
}

copse_status copse_step_position(const copse_step *step, struct copse_position *out)
{
    COPSE_TRY(copse_need("step", step, out));
    COPSE_TRY(check_input(step));
    *out = step->input.held.count > 0 ? step->input.held.at[0].before : step_position(step);
    return COPSE_OK;
}

copse_status copse_step_seek(copse_step *step, const struct copse_position *position)
{
    COPSE_TRY(copse_need("step", step, position));
    COPSE_TRY(check_input(step));
    if (position->batch > copse_loader_count(step->input.batches))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "step: there is no batch %llu, an epoch has %zu; was the "
                          "data or the size of batches another?",
                          (unsigned long long)position->batch,
                          copse_loader_count(step->input.batches));
    COPSE_TRY(copse_loader_start(step->input.batches, position->epoch, (size_t)position->batch));
    step->input.held.count = 0;
    return COPSE_OK;
}

copse_status copse__step_hold(copse_step *step, struct copse_host_batch *out)
{
    struct copse_input_walk *in = &step->input;
    COPSE_TRY(check_input(step));
    struct copse_held held = { .before = step_position(step) };
    COPSE_TRY(walk_on(step, out));
    held.at = (struct copse_position){ out->epoch, out->index };
    return copse_need_memory(COPSE_PUSH(&copse__base(step->ctx)->mem, &in->held, held), "step");
}

void copse__step_let_go(copse_step *step, size_t count)
{
    struct copse_input_walk *in = &step->input;
    in->held.count -= count;
    if (count > 0)
        memmove(in->held.at, in->held.at + count, in->held.count * sizeof *in->held.at);
}

copse_status copse__step_put_back(copse_step *step)
{
    struct copse_input_walk *in = &step->input;
    const struct copse_position *before = &in->held.at[in->held.count - 1].before;
    COPSE_TRY(copse_loader_start(in->batches, before->epoch, (size_t)before->batch));
    in->held.count--;
    return COPSE_OK;
}

copse_status copse_step_iterate(copse_step *step, uint32_t iterations, copse_iteration_fn *fn,
                                void *user)
{
    struct copse_host_batch batch;
    COPSE_TRY(copse_need("step", step, fn));
    for (uint32_t i = 0; i < iterations; i++) {
        COPSE_TRY(copse_step_next(step, &batch));
        COPSE_TRY(fn(user, &batch, step->outputs));
    }
    return COPSE_OK;
}
