/* SPDX-License-Identifier: MIT */
/* Assignment of rows to pipelines: schedules of minibatches, and plans of all pipelines. Reads no
   files. */
#include "core/data/input/input_plan.h"

#include "core/data/array.h"

/* ---- schedules ---- */

/* Rows of batch `b`. */
static size_t batch_rows(const struct copse_schedule *s, uint64_t b)
{
    uint64_t left = s->rows - b * s->batch;
    return left < s->batch ? (size_t)left : s->batch;
}

uint64_t copse__schedule_batches(const struct copse_schedule *s)
{
    uint64_t full = s->rows / s->batch;

    if (s->rows % s->batch == 0 || s->drop_last)
        return full;
    /* Shards are in row order: if one is empty, the last is empty. */
    if (s->drop_step &&
        copse__shard_of(s->rule, batch_rows(s, full), s->batch, s->split, s->split - 1).count == 0)
        return full;
    return full + 1;
}

static uint32_t steps_of_batch(const struct copse_schedule *s)
{
    return s->split / s->every / s->replicas;
}

uint64_t copse__schedule_steps(const struct copse_schedule *s)
{
    return copse__schedule_batches(s) * steps_of_batch(s);
}

uint64_t copse__schedule_batch(const struct copse_schedule *s, uint64_t step)
{
    return step / steps_of_batch(s);
}

struct copse_minibatch copse__schedule_at(const struct copse_schedule *s, uint64_t step,
                                          uint32_t replica)
{
    struct copse_minibatch m = { .batch = copse__schedule_batch(s, step) };
    uint32_t in_batch = (uint32_t)(step % steps_of_batch(s)) * s->replicas + replica;

    m.rows = copse__shard_of(s->rule, batch_rows(s, m.batch), s->batch, s->split,
                             s->first + in_batch * s->every);
    return m;
}

/* ---- plans ---- */

/* Set the defaults and check the rules. */
static copse_status input_plan_check(struct copse_input_plan_params *p)
{
    struct copse_input_context in;

    COPSE_TRY(copse__input_context(
        &(struct copse_input_context){ .pipelines = p->pipelines, .replicas = p->replicas }, &in));
    p->pipelines = in.pipelines;
    p->replicas = in.replicas;
    if ((size_t)p->rule > COPSE_SHARD_FIXED || (size_t)p->policy > COPSE_INPUT_OFF)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "input: rule or policy out of range; plans know the rules "
                          "balanced, ceil and fixed");
    if (p->batch == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "input: the batch size must be at least 1");
    if (p->rule == COPSE_SHARD_FIXED && p->batch % p->replicas != 0)
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "input: a batch of %zu cannot be shared evenly by %u replicas, as the rule "
            "fixed wants",
            p->batch, p->replicas);
    if (p->rows > UINT32_MAX)
        return copse_fail(COPSE_ERR_ARGUMENT, "input: 2^32 rows or more");
    if ((p->files == NULL) != (p->file_count == 0) || (p->files != NULL && p->rows != 0) ||
        (p->files == NULL && p->file_rows != NULL))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "input: files need a list and its length, and have rows of their own");
    for (size_t i = 0; i < p->file_count; i++)
        if (p->files[i] == NULL)
            return copse_fail(COPSE_ERR_ARGUMENT, "input: file %zu of %zu has no path", i,
                              p->file_count);
    if (p->policy == COPSE_INPUT_AUTO)
        p->policy = p->files != NULL ? COPSE_INPUT_FILE : COPSE_INPUT_DATA;
    if (p->policy == COPSE_INPUT_FILE && p->files == NULL && p->pipelines > 1)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "input: the policy file needs files; take data for a dataset in memory");
    if (p->policy == COPSE_INPUT_FILE && p->files != NULL && p->file_count < p->pipelines)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "input: %zu files for %u pipelines, each needs one; take the policy data",
                          p->file_count, p->pipelines);
    return COPSE_OK;
}

/* A pipeline opens every `*stride`-th file, starting with the returned one. */
static size_t file_stride(const copse_input_plan *plan, uint32_t pipeline, size_t *stride)
{
    bool is_dealt = plan->params.policy == COPSE_INPUT_FILE;

    *stride = is_dealt ? plan->params.pipelines : 1;
    return is_dealt ? pipeline : 0;
}

static copse_status set_rows(copse_input_plan *plan, const uint64_t *file_rows)
{
    const struct copse_input_plan_params *p = &plan->params;

    plan->rows = copse__alloc(&copse__base(plan->ctx)->mem, p->pipelines, sizeof *plan->rows);
    if (plan->rows == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "input: no memory for a plan");
    for (uint32_t w = 0; w < p->pipelines; w++) {
        size_t stride, i = file_stride(plan, w, &stride);
        plan->rows[w] = p->rows;
        for (; file_rows != NULL && i < p->file_count; i += stride) {
            if (file_rows[i] == 0 || file_rows[i] > UINT32_MAX - plan->rows[w])
                return copse_fail(COPSE_ERR_ARGUMENT,
                                  "input: file %zu has %llu rows, those of a pipeline must be 1 to "
                                  "2^32-1 together",
                                  i, (unsigned long long)file_rows[i]);
            plan->rows[w] += file_rows[i];
        }
    }
    return COPSE_OK;
}

static copse_status copy_files(copse_input_plan *plan, const char *const *files, size_t count)
{
    struct copse_mem *mem = &copse__base(plan->ctx)->mem;

    const char **copy = copse__alloc(mem, count, sizeof *copy);
    if (copy == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "input: no memory for a plan");
    plan->params.files = copy;
    plan->params.file_count = count;
    for (size_t i = 0; i < count; i++) {
        copy[i] = copse__strdup(mem, files[i]);
        if (copy[i] == NULL)
            return copse_fail(COPSE_ERR_NO_MEMORY, "input: no memory for a plan");
    }
    return COPSE_OK;
}

copse_status copse_input_plan_create(copse_context *ctx,
                                     const struct copse_input_plan_params *params,
                                     copse_input_plan **out)
{
    COPSE_TRY(copse_need("input", ctx, params, out));
    struct copse_input_plan_params p;
    copse_status s;

    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_input_plan_params, params));
    p = *params;
    COPSE_TRY(input_plan_check(&p));
    copse_input_plan *plan = copse__alloc(&copse__base(ctx)->mem, 1, sizeof *plan);
    if (plan == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "input: no memory for a plan");
    atomic_init(&plan->refs, 1);
    plan->ctx = copse_context_retain(ctx);
    plan->params = p;
    plan->params.files = NULL; /* until the plan has its own copy */
    plan->params.file_count = 0;
    plan->params.file_rows = NULL;
    if (p.files != NULL)
        COPSE_TRY_OR(fail, s, copy_files(plan, p.files, p.file_count));
    COPSE_TRY_OR(fail, s, set_rows(plan, p.file_rows));
    *out = plan;
    return COPSE_OK;

fail:
    copse_input_plan_release(&plan);
    return s;
}

copse_input_plan *copse_input_plan_retain(copse_input_plan *plan)
{
    if (plan != NULL)
        copse__ref(&plan->refs);
    return plan;
}

void copse_input_plan_release(copse_input_plan **plan)
{
    if (plan == NULL || *plan == NULL)
        return;
    copse_input_plan *p = *plan;
    *plan = NULL;
    if (!copse__unref(&p->refs))
        return;
    copse_context *ctx = p->ctx;
    struct copse_mem *mem = &copse__base(ctx)->mem;
    for (size_t i = 0; i < p->params.file_count; i++)
        copse__free(mem, (char *)p->params.files[i]);
    copse__free(mem, (void *)p->params.files);
    copse__free(mem, p->rows);
    copse__free(mem, p);
    copse_context_release(&ctx);
}

void copse__input_plan_set_rows(copse_input_plan *plan, uint32_t pipeline, uint64_t rows)
{
    plan->rows[pipeline] = rows;
    if (plan->params.policy == COPSE_INPUT_FILE && plan->params.pipelines > 1)
        return;
    for (uint32_t w = 0; w < plan->params.pipelines; w++)
        plan->rows[w] = rows; /* all have the same rows */
}

struct copse_schedule copse__input_plan_schedule(const copse_input_plan *plan, uint32_t pipeline)
{
    const struct copse_input_plan_params *p = &plan->params;
    bool is_dealt = p->policy == COPSE_INPUT_DATA;

    return (struct copse_schedule){ .rows = plan->rows[pipeline],
                                    .batch = p->batch,
                                    .split = p->replicas,
                                    .rule = p->rule,
                                    .first = is_dealt ? pipeline : 0,
                                    .every = is_dealt ? p->pipelines : 1,
                                    .replicas = p->replicas / p->pipelines,
                                    .drop_last = p->drop_last };
}

static copse_status check_pipeline(const copse_input_plan *plan, uint32_t pipeline)
{
    if (pipeline >= plan->params.pipelines)
        return copse_fail(COPSE_ERR_ARGUMENT, "input: no pipeline %u, there are %u from 0",
                          pipeline, plan->params.pipelines);
    return COPSE_OK;
}

copse_status copse_input_plan_describe(const copse_input_plan *plan, uint32_t pipeline,
                                       struct copse_input_reading *out)
{
    COPSE_TRY(copse_need("input", plan, out));
    size_t stride;

    memset(out, 0, sizeof *out);
    COPSE_TRY(check_pipeline(plan, pipeline));
    struct copse_schedule s = copse__input_plan_schedule(plan, pipeline);
    size_t first = file_stride(plan, pipeline, &stride);
    out->policy = plan->params.policy;
    if (plan->params.file_count > 0)
        out->files = (plan->params.file_count - first + stride - 1) / stride;
    out->rows = s.rows;
    out->first = s.first;
    out->every = s.every;
    out->replicas = s.replicas;
    out->steps = s.rows > 0 ? copse__schedule_steps(&s) : 0;
    return COPSE_OK;
}

const char *copse_input_plan_file(const copse_input_plan *plan, uint32_t pipeline, size_t i,
                                  size_t *index)
{
    size_t stride;

    if (plan == NULL || pipeline >= plan->params.pipelines)
        return NULL;
    size_t first = file_stride(plan, pipeline, &stride), count = plan->params.file_count;
    if (first >= count || i > (count - 1 - first) / stride)
        return NULL;
    if (index != NULL)
        *index = first + i * stride;
    return plan->params.files[first + i * stride];
}

copse_status copse_input_plan_shard(const copse_input_plan *plan, uint32_t pipeline, uint64_t step,
                                    uint32_t replica, struct copse_input_shard *out)
{
    COPSE_TRY(copse_need("input", plan, out));
    memset(out, 0, sizeof *out);
    COPSE_TRY(check_pipeline(plan, pipeline));
    struct copse_schedule s = copse__input_plan_schedule(plan, pipeline);
    if (s.rows == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "input: the rows of pipeline %u are not known",
                          pipeline);
    if (step >= copse__schedule_steps(&s) || replica >= s.replicas)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "input: no step %llu with a replica %u, pipeline %u has %llu with %u",
                          (unsigned long long)step, replica, pipeline,
                          (unsigned long long)copse__schedule_steps(&s), s.replicas);
    struct copse_minibatch m = copse__schedule_at(&s, step, replica);
    out->first = m.batch * s.batch + m.rows.first;
    out->count = m.rows.count;
    return COPSE_OK;
}
