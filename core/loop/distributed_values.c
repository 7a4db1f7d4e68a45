/* SPDX-License-Identifier: MIT */
/* The minibatches of a distributed dataset as per-replica values, which are arguments of
   copse_strategy_run. */
#include "copse/distribute/input.h"
#include "copse/distribute/replica.h"
#include "core/base/base.h"
#include "core/graph/op.h"
#include "core/graph/type.h"
#include "core/replica/replica_context.h"
#include "core/train/feed.h"
#include "core/value/value.h"

struct step {
    copse_strategy *st;
    const copse_dataset *data; /* NULL where a function gives the batches */
    struct copse_host_batch shards[COPSE_MAX_REPLICAS];
    struct copse_column columns[COPSE_MAX_INPUTS]; /* what they are; data NULL */
    size_t count;
};

/* The columns of the first minibatch that is not empty. If all are empty, those of the dataset. */
static copse_status find_columns(struct step *s)
{
    const struct copse_host_batch *first = NULL;
    for (uint32_t r = s->st->replica_count; r-- > 0;)
        if (s->shards[r].column_count > 0)
            first = &s->shards[r];
    if (first) {
        s->count = COPSE_MIN(first->column_count, COPSE_MAX_INPUTS);
        memcpy(s->columns, first->columns, s->count * sizeof *s->columns);
    } else if (s->data) {
        struct copse_dataset_info info;
        copse_dataset_describe(s->data, &info);
        for (s->count = 0; s->count < info.columns; s->count++)
            COPSE_TRY(copse_dataset_column(s->data, s->count, &s->columns[s->count]));
    }
    return s->count > 0
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT, "input: the minibatches of a step have no column");
}

/* A replica's minibatch has the columns of the others. */
static copse_status check_columns(const struct step *s, uint32_t r)
{
    return s->shards[r].count == 0 || copse__batch_has_columns(&s->shards[r], s->columns, s->count)
               ? COPSE_OK
               : copse_fail(COPSE_ERR_SHAPE,
                            "input: the minibatch of replica %u has other columns than those of "
                            "earlier replicas; names, types and shapes must be the same",
                            r);
}

/* [count, shape...] on the replica's device. */
static copse_status make_component(const struct step *s, uint32_t r, size_t i, copse_value **out)
{
    const struct copse_host_batch *shard = &s->shards[r];
    const struct copse_column *c = &s->columns[i];
    if (shard->count > UINT32_MAX || c->shape.rank >= COPSE_MAX_RANK)
        return copse_fail(COPSE_ERR_SHAPE, "input: column '%s' has too many rows or axes", c->name);
    if (shard->count > 0 && !shard->columns[i].data)
        return copse_fail(COPSE_ERR_ARGUMENT, "input: column '%s' has no data", c->name);
    return copse_value_create_on(s->st, r, c->type, copse__shape_of_rows(shard->count, c->shape),
                                 shard->count > 0 ? shard->columns[i].data : NULL, out);
}

static copse_status make_column(const struct step *s, size_t i, copse_value **out)
{
    const uint32_t replicas = s->st->replica_count;
    copse_value *parts[COPSE_MAX_REPLICAS] = { NULL };
    copse_status status = COPSE_OK;
    if (replicas == 1)
        return make_component(s, 0, i, out);
    for (uint32_t r = 0; r < replicas && !status; r++)
        status = make_component(s, r, i, &parts[r]);
    return copse__value_distributed_of(status, s->st, COPSE_VALUE_PER_REPLICA, parts, NULL,
                                       replicas, out);
}

static copse_status make_value(struct step *s, copse_value **out)
{
    copse_value *values[COPSE_MAX_INPUTS] = { NULL };
    const char *names[COPSE_MAX_INPUTS];
    copse_status status = find_columns(s);
    for (uint32_t r = 0; r < s->st->replica_count && !status; r++)
        status = check_columns(s, r);
    for (size_t i = 0; i < s->count && !status; i++) {
        names[i] = s->columns[i].name;
        status = make_column(s, i, &values[i]);
    }
    if (!status)
        status = copse_value_dict(s->st->ctx, names, values, s->count, out);
    copse__values_release(values, s->count);
    return status;
}

copse_status copse_distributed_next_value(copse_distributed *walk, copse_strategy *st,
                                          copse_value **out)
{
    struct step s = { .st = st };
    uint32_t epoch;
    uint64_t at;
    COPSE_TRY(copse_need("input", walk, st, out));
    *out = NULL;
    COPSE_TRY(copse__require_device(st, "input"));
    if (copse_distributed_replicas(walk) != st->replica_count)
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "input: the walk has minibatches for %u replicas, the strategy has %u here",
            copse_distributed_replicas(walk), st->replica_count);
    s.data = copse_distributed_data(walk);
    copse_distributed_position(walk, &epoch, &at);
    COPSE_TRY(copse_distributed_next(walk, s.shards));
    const copse_status status = make_value(&s, out);
    if (status && s.data) { /* the same step again */
        char text[COPSE_ERROR_BYTES];
        memcpy(text, copse_last_error(), sizeof text);
        (void)!copse_distributed_start(walk, epoch, at);
        copse__fail_again(text);
    }
    return copse_note(status, "while bringing step %llu of a walk to the replicas",
                      (unsigned long long)at);
}
