/* SPDX-License-Identifier: MIT */
/* Iterates over the part of one pipeline: batches of `copse_loader`, split into one minibatch per
   replica according to the schedule. The thread of `copse_loader` prepares host memory ahead; the
   code that uploads the batches manages device memory. */
#include "core/data/dataset/dataset.h"
#include "core/data/input/input_plan.h"

struct copse_distributed {
    copse_context *ctx;
    uint32_t replicas; /* shards of a step */
    uint32_t epoch;
    uint64_t next; /* step */

    /* of a dataset */
    copse_input_plan *plan; /* NULL for batches of one replica */
    copse_dataset *data;
    struct copse_schedule schedule;
    /* steps from the pipeline's own rows; steps including padded ones */
    uint64_t own, steps;
    copse_loader *batches;        /* NULL if own is 0 */
    struct copse_host_batch held; /* the current batch */
    bool is_held;
    struct copse_column *columns; /* [replicas][COPSE_MAX_INPUTS], the columns of a step's shards */

    /* of a function */
    struct copse_pipeline_source source;
    copse_last_step last;
    struct copse_host_batch *taken; /* for the next step */
    uint32_t taken_count;
    bool is_over;
};

static copse_status distributed_make(copse_context *ctx, uint32_t replicas, copse_distributed **out)
{
    copse_distributed *d = copse__alloc(&copse__base(ctx)->mem, 1, sizeof *d);

    *out = d;
    if (d == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "input: no memory for a walk");
    d->ctx = copse_context_retain(ctx);
    d->replicas = replicas;
    return COPSE_OK;
}

/* Start; d->data and d->schedule are set. */
static copse_status make_batches(copse_distributed *d, const struct copse_loader_params *params)
{
    struct copse_loader_params p = *params;

    d->own = d->steps = copse__schedule_steps(&d->schedule);
    if (d->own == 0)
        return COPSE_OK;
    /* A batch may be larger than the data. */
    d->columns =
        copse__alloc(&copse__base(d->ctx)->mem, d->replicas, COPSE_MAX_INPUTS * sizeof *d->columns);
    if (d->columns == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "input: no memory for a walk");
    p.batch = COPSE_MIN(d->schedule.batch, d->data->info.rows);
    p.drop_last = d->schedule.drop_last;
    return copse_loader_create(d->data, &p, &d->batches);
}

/* ---- global batches ---- */

static copse_status refuse_scale(void)
{
    return copse_fail(
        COPSE_ERR_ARGUMENT,
        "input: pipelines that read different files do not know the scaling of all rows; "
        "take COPSE_SCALE_NONE or give a schema");
}

/* What the rows of some of the files cannot decide for those of all. */
static copse_status check_part(const copse_dataset *data, const struct copse_dataset_params *p)
{
    const struct copse_schema_parts *s = &data->schema->is;

    if (s->kind == COPSE_DATA_TABLE && p->scale == COPSE_SCALE_AUTO)
        return refuse_scale();
    if (data->info.has_labels && p->classes == 0 && p->task != COPSE_TASK_REGRESSION)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "input: pipelines that read different files do not know the number of "
                          "classes; set it or give a schema");
    for (uint32_t i = 0; i < s->column_count; i++)
        if (s->columns[i].role == COPSE_COLUMN_CATEGORY)
            return copse_fail(
                COPSE_ERR_ARGUMENT,
                "input: pipelines that read different files do not know all categories "
                "of column %u; give a schema",
                i + 1);
    return s->classes != NULL && !data->schema->is_counted
               ? copse_fail(
                     COPSE_ERR_ARGUMENT,
                     "input: pipelines that read different files do not know all classes; give a "
                     "schema")
               : COPSE_OK;
}

static copse_status read_files(copse_distributed *d, const struct copse_distributed_params *p)
{
    struct copse_mem *mem = &copse__base(d->ctx)->mem;
    struct copse_input_reading reading;
    uint32_t w = p->input.pipeline;

    COPSE_TRY(copse_input_plan_describe(d->plan, w, &reading));
    const bool is_part = reading.files < p->file_count && p->read.schema == NULL;
    if (is_part && (p->read.scale == COPSE_SCALE_MAX || p->read.scale == COPSE_SCALE_STANDARD))
        return refuse_scale();
    const char **paths = copse__alloc(mem, reading.files, sizeof *paths);
    if (paths == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "input: no memory for %zu files", reading.files);
    for (size_t i = 0; i < reading.files; i++)
        paths[i] = copse_input_plan_file(d->plan, w, i, NULL);
    copse_status s = copse__dataset_join(d->ctx, paths, reading.files, &p->read, &d->data);
    copse__free(mem, (void *)paths);
    if (s == COPSE_OK && is_part)
        s = check_part(d->data, &p->read);
    return s;
}

static copse_status set_up(copse_distributed *d, const struct copse_distributed_params *p,
                           const struct copse_input_plan_params *plan)
{
    uint32_t w = p->input.pipeline;

    COPSE_TRY(copse_input_plan_create(d->ctx, plan, &d->plan));
    if (p->data != NULL)
        d->data = copse_dataset_retain(p->data);
    else
        COPSE_TRY(read_files(d, p));
    copse__input_plan_set_rows(d->plan, w, d->data->info.rows);
    d->schedule = copse__input_plan_schedule(d->plan, w);
    return make_batches(d, &p->batches);
}

copse_status copse_distributed_create(copse_context *ctx,
                                      const struct copse_distributed_params *params,
                                      copse_distributed **out)
{
    COPSE_TRY(copse_need("input", ctx, params, out));
    struct copse_input_context in;

    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_distributed_params, params));
    COPSE_TRY(copse__dataset_no_reserved(&params->read));
    COPSE_TRY(copse_no_reserved(copse_input_context, &params->input));
    COPSE_TRY(copse_no_reserved(copse_loader_params, &params->batches));
    if ((params->data == NULL) == (params->files == NULL))
        return copse_fail(COPSE_ERR_ARGUMENT, "input: give a dataset or files, one of them");
    COPSE_TRY(copse__input_context(&params->input, &in));
    const struct copse_input_plan_params plan = { .pipelines = in.pipelines,
                                                  .replicas = in.replicas,
                                                  .batch = params->batches.batch,
                                                  .drop_last = params->batches.drop_last,
                                                  .rule = params->rule,
                                                  .policy = params->policy,
                                                  .files = params->files,
                                                  .file_count = params->file_count };
    copse_status s = distributed_make(ctx, in.replicas / in.pipelines, out);
    if (s == COPSE_OK)
        s = set_up(*out, params, &plan);
    if (s != COPSE_OK)
        copse_distributed_release(out);
    return s;
}

/* ---- batches of one replica ---- */

static copse_status set_up_replica_batches(copse_distributed *d)
{
    const struct copse_loader_params *p = &d->source.batches;
    size_t rows = d->data->info.rows, batch;

    if (p->batch == 0 || !copse__mul(p->batch, d->replicas, &batch))
        return copse_fail(COPSE_ERR_ARGUMENT, "input: %zu examples are no batch of one replica",
                          p->batch);
    /* The minibatches of a step are adjacent: one batch, cut at fixed positions. */
    d->schedule = (struct copse_schedule){ .rows = p->drop_last ? rows - rows % p->batch : rows,
                                           .batch = batch,
                                           .split = d->replicas,
                                           .rule = COPSE_SHARD_FIXED,
                                           .every = 1,
                                           .replicas = d->replicas,
                                           .drop_step = d->last == COPSE_LAST_STEP_DROP };
    return make_batches(d, p);
}

static copse_status distributed_ask(copse_distributed *d,
                                    const struct copse_distributed_fn_params *p,
                                    const struct copse_input_context *in)
{
    struct copse_pipeline_source source = { 0 };

    COPSE_TRY(p->pipeline(p->user, in, &source));
    d->source = source; /* released with d from here on */
    d->data = source.data;
    COPSE_TRY(copse_no_reserved(copse_pipeline_source, &source));
    COPSE_TRY(copse_no_reserved(copse_loader_params, &source.batches));
    if ((source.data == NULL) == (source.next == NULL))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "input: the pipeline function must give a dataset or a function, one of "
                          "them");
    if (source.data != NULL)
        return set_up_replica_batches(d);
    d->steps = UINT64_MAX;
    d->taken = copse__alloc(&copse__base(d->ctx)->mem, d->replicas, sizeof *d->taken);
    return d->taken != NULL ? COPSE_OK : copse_fail(COPSE_ERR_NO_MEMORY, "input: no memory");
}

copse_status copse_distributed_from_function(copse_context *ctx,
                                             const struct copse_distributed_fn_params *params,
                                             copse_distributed **out)
{
    COPSE_TRY(copse_need("input", ctx, params, out));
    struct copse_input_context in;

    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_distributed_fn_params, params));
    COPSE_TRY(copse_no_reserved(copse_input_context, &params->input));
    if (params->pipeline == NULL || (size_t)params->last > COPSE_LAST_STEP_EMPTY)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "input: no pipeline function, or `last` out of range");
    COPSE_TRY(copse__input_context(&params->input, &in));
    copse_status s = distributed_make(ctx, in.replicas / in.pipelines, out);
    if (s == COPSE_OK) {
        (*out)->last = params->last;
        s = distributed_ask(*out, params, &in);
    }
    if (s != COPSE_OK)
        copse_distributed_release(out);
    return s;
}

/* ---- walking ---- */

void copse_distributed_release(copse_distributed **walk)
{
    if (walk == NULL || *walk == NULL)
        return;
    copse_distributed *d = *walk;
    *walk = NULL;
    copse_context *ctx = d->ctx;
    struct copse_mem *mem = &copse__base(ctx)->mem;
    copse_loader_release(&d->batches);
    copse_dataset_release(&d->data);
    copse_input_plan_release(&d->plan);
    if (d->source.release != NULL)
        d->source.release(d->source.user);
    copse__free(mem, d->taken);
    copse__free(mem, d->columns);
    copse__free(mem, d);
    copse_context_release(&ctx);
}

static copse_status next_of_function(copse_distributed *d, struct copse_host_batch *shards)
{
    while (d->taken_count < d->replicas && !d->is_over) {
        struct copse_host_batch *b = &d->taken[d->taken_count];
        memset(b, 0, sizeof *b);
        copse_status s = d->source.next(d->source.user, b);
        if (s != COPSE_OK && s != COPSE_ERR_END)
            return s;
        if (s == COPSE_OK && b->count > 0 && b->columns == NULL)
            return copse_fail(COPSE_ERR_ARGUMENT, "input: the function gave %zu rows without data",
                              b->count);
        d->is_over = s == COPSE_ERR_END;
        d->taken_count += !d->is_over;
    }
    if (d->taken_count == 0 || (d->taken_count < d->replicas && d->last == COPSE_LAST_STEP_DROP))
        return COPSE_ERR_END;
    memcpy(shards, d->taken, d->taken_count * sizeof *shards);
    d->taken_count = 0;
    return COPSE_OK;
}

/* Columns of the current batch, starting at a row. */
static const struct copse_column *shard_columns(const copse_distributed *d, uint32_t r,
                                                size_t first)
{
    struct copse_column *to = d->columns + (size_t)r * COPSE_MAX_INPUTS;
    for (size_t c = 0; c < d->held.column_count; c++) {
        to[c] = d->held.columns[c];
        to[c].data = (const char *)to[c].data + first * d->data->columns[c].row_bytes;
    }
    return to;
}

static copse_status next_of_data(copse_distributed *d, struct copse_host_batch *shards)
{
    if (d->next >= d->own) /* a padded step */
        return COPSE_OK;
    uint64_t batch = copse__schedule_batch(&d->schedule, d->next);
    if (!d->is_held || d->held.index != batch) {
        d->is_held = false;
        COPSE_TRY(copse_loader_next(d->batches, &d->held));
        d->is_held = true;
    }
    for (uint32_t r = 0; r < d->replicas; r++) {
        struct copse_shard at = copse__schedule_at(&d->schedule, d->next, r).rows;
        struct copse_host_batch *shard = &shards[r];
        if (at.count == 0)
            continue;
        shard->columns = shard_columns(d, r, at.first);
        shard->column_count = d->held.column_count;
        shard->rows = d->held.rows + at.first;
        shard->count = at.count;
        shard->first = d->schedule.batch * batch + at.first;
    }
    return COPSE_OK;
}

copse_status copse_distributed_next(copse_distributed *d, struct copse_host_batch *shards)
{
    COPSE_TRY(copse_need("input", d, shards));
    memset(shards, 0, d->replicas * sizeof *shards);
    if (d->next == d->steps)
        return COPSE_ERR_END;
    COPSE_TRY(d->data != NULL ? next_of_data(d, shards) : next_of_function(d, shards));
    for (uint32_t r = 0; r < d->replicas; r++) {
        if (d->data != NULL)
            shards[r].epoch = d->epoch;
        shards[r].index = (size_t)d->next;
    }
    d->next++;
    return COPSE_OK;
}

uint32_t copse_distributed_replicas(const copse_distributed *walk)
{
    return walk ? walk->replicas : 0;
}

uint64_t copse_distributed_steps(const copse_distributed *walk)
{
    return walk ? walk->steps : 0;
}

const copse_dataset *copse_distributed_data(const copse_distributed *walk)
{
    return walk ? walk->data : NULL;
}

copse_input_plan *copse_distributed_plan(const copse_distributed *walk)
{
    return walk ? walk->plan : NULL;
}

void copse_distributed_position(const copse_distributed *walk, uint32_t *epoch, uint64_t *step)
{
    if (epoch != NULL)
        *epoch = walk != NULL ? walk->epoch : 0;
    if (step != NULL)
        *step = walk != NULL ? walk->next : 0;
}

copse_status copse_distributed_start(copse_distributed *d, uint32_t epoch, uint64_t step)
{
    COPSE_TRY(copse_need("input", d));
    if (d->data == NULL)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "input: a function gives the batches, which does not go back");
    if (step > d->steps || epoch == COPSE_STREAM_SPLIT)
        return copse_fail(COPSE_ERR_ARGUMENT, "input: no step %llu in epoch %u, there are %llu",
                          (unsigned long long)step, epoch, (unsigned long long)d->steps);
    if (d->batches != NULL) {
        uint64_t batch = copse__schedule_batch(&d->schedule, COPSE_MIN(step, d->own));
        COPSE_TRY(copse_loader_start(d->batches, epoch, (size_t)batch));
    }
    d->is_held = false;
    d->epoch = epoch;
    d->next = step;
    return COPSE_OK;
}

copse_status copse_distributed_pad(copse_distributed *d, uint64_t steps)
{
    COPSE_TRY(copse_need("input", d));
    if (d->data == NULL)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "input: a function gives the batches, it can give empty ones");
    if (steps < d->own || steps == UINT64_MAX)
        return copse_fail(COPSE_ERR_ARGUMENT, "input: %llu steps, the data makes %llu",
                          (unsigned long long)steps, (unsigned long long)d->own);
    d->steps = steps;
    if (d->next > steps)
        d->next = steps;
    return COPSE_OK;
}
