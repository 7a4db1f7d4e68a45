/* SPDX-License-Identifier: MIT */
/* The outputs of a network for a batch: of all positions of a window, or of its last one. */
#include "core/data/input/shard.h"
#include "core/model/model.h"
#include "core/variable/storage.h"

const int32_t *copse__model_lengths(const copse_model *m, const struct copse_host_batch *batch)
{
    const struct copse_column *c =
        m->is.kind == COPSE_DATA_TEXT ? copse_batch_column(batch, "length") : NULL;
    return c && c->type == COPSE_I32 && c->shape.rank == 0 ? c->data : NULL;
}

static copse_tensor *apply_all(copse_graph *g, const copse_batch *in, void *model)
{
    return copse__model_apply(model, g, in);
}

static copse_tensor *apply_last(copse_graph *g, const copse_batch *in, void *model)
{
    copse_tensor *y = copse__model_apply(model, g, in);
    return copse__model_last(g, y);
}

static copse_tensor *apply_after_length(copse_graph *g, const copse_batch *in, void *model)
{
    copse_tensor *y = copse__model_apply(model, g, in);
    return copse__model_at(model, g, y, copse_input(in, "length"));
}

/* The replicas' values are up to date. With servers an update that gathers micro-batches keeps the
   values that it began with. */
static copse_status pull_values(copse_strategy *st)
{
    const struct copse_storage_table *table = st->storage->table;
    return table->pull && st->store->accumulators == 0 ? table->pull(st) : COPSE_OK;
}

size_t copse__model_rows(const copse_model *m)
{
    const size_t rows = COPSE_MODEL_NUMBERS / ((size_t)m->positions * m->is.outputs);
    return COPSE_MAX(COPSE_MIN(rows, (size_t)COPSE_MODEL_ROWS), (size_t)1);
}

/* What `fn` gives for a batch, exactly `bytes`. The user of `fn` is the model. */
static copse_status run_batch(copse_model *m, const struct copse_host_batch *batch,
                              copse_predict_fn *fn, float *values, size_t bytes)
{
    copse_strategy *st = m->strategy;
    struct copse_shard shards[COPSE_MAX_REPLICAS];
    if (!m->predictor.strategy)
        COPSE_TRY(copse__predictor_init(&m->predictor, st, m, COPSE_MODEL_RECORDINGS));
    COPSE_TRY(
        copse__shard(COPSE_SHARD_BALANCED, batch->count, batch->count, st->replica_count, shards));
    COPSE_TRY(pull_values(st));
    m->predictor.fn = fn;
    m->predictor.user = m;
    return copse__predict(&m->predictor, batch, shards, values, bytes);
}

copse_status copse__model_outputs(copse_model *m, const struct copse_host_batch *batch,
                                  bool is_last, float *values)
{
    const size_t positions = is_last ? 1 : m->positions;
    copse_predict_fn *fn = positions == m->positions        ? apply_all
                           : copse__model_lengths(m, batch) ? apply_after_length
                                                            : apply_last;
    return run_batch(m, batch, fn, values,
                     batch->count * positions * m->is.outputs * sizeof *values);
}
