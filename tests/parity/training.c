/* SPDX-License-Identifier: MIT */
/* Requests about training: optimizers on given gradients, a small network, clipping, splitting. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/compat/gradients.h"
#include "copse/device/function.h"
#include "copse/distribute/input.h"
#include "copse/distribute/sync.h"

#include "tests/parity/parity.h"

static float number(const char *word)
{
    char *end;
    const float x = strtof(word, &end);
    if (end == word || *end)
        malformed(word);
    return x;
}

/* The eight words KIND RATE MOMENTUM BETA1 BETA2 EPSILON DECAY, from `words`. */
static struct copse_optimizer_params optimizer_of(char *const *words)
{
    static const char *const kinds[] = { "adam", "adamw", "sgd", "momentum", "nesterov", NULL };
    const size_t kind = place_of(words[0], kinds);
    if (kind == 5)
        malformed(words[0]);
    return (struct copse_optimizer_params){ .kind = (copse_optimizer_kind)kind,
                                            .learning_rate = number(words[1]),
                                            .momentum = number(words[2]),
                                            .beta1 = number(words[3]),
                                            .beta2 = number(words[4]),
                                            .epsilon = number(words[5]),
                                            .weight_decay = number(words[6]) };
}

/* ---- gradients handed over ---- */

/* optimizer KIND RATE MOMENTUM BETA1 BETA2 EPSILON DECAY */
copse_status optimizer_command(struct parity *p, const struct request *r)
{
    if (r->word_count != 8)
        return malformed("optimizer");
    copse_tower_release(&p->tower);
    const struct copse_tower_params params = { .optimizer = optimizer_of(r->words + 1),
                                               .reduction = COPSE_LOSS_SUM };
    return copse_tower_create(p->st, &params, &p->tower);
}

struct hand_over {
    const struct parity *p;
    const struct request *r;
};

static copse_status applies(copse_replica_context *rc, copse_value *const *args, size_t count,
                            void *user, copse_value **result)
{
    const struct hand_over *h = user;
    struct copse_tower_gradient pair = { .variable = find_variable(h->p, h->r->words[1]) };
    (void)args, (void)count, (void)result;
    COPSE_TRY(value_of(h->p, &h->r->arrays[copse_replica_id(rc)], &pair.gradient));
    const copse_status s = copse_tower_apply(h->p->tower, &pair, 1, true);
    copse_value_release(&pair.gradient);
    return s;
}

/* apply NAME A...: one update by a gradient of every replica */
copse_status apply_command(struct parity *p, const struct request *r)
{
    struct hand_over h = { p, r };
    if (!p->tower || r->array_count != copse_strategy_replicas(p->st))
        return malformed("apply");
    COPSE_TRY(copse_strategy_run(p->st, applies, NULL, 0, &h, NULL));
    return copse_tower_finish(p->tower);
}

/* ---- a network with one hidden layer ---- */

static copse_tensor *network_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct parity *p = user;
    copse_tensor *w[6] = { NULL }, *h;
    for (int i = 0; i < (p->is_normalised ? 6 : 4); i++)
        w[i] = copse_variable_tensor(p->weights[i]);
    h = copse_dense(g, rig_x(in), w[0], w[1], p->is_normalised ? COPSE_LINEAR : COPSE_TANH);
    if (p->is_normalised) {
        const uint32_t axis = 0;
        const struct copse_batch_norm norm = { .gamma = w[4], .beta = w[5] };
        h = copse_sync_batch_norm(g, h, &axis, 1, &norm);
        h = copse_tanh(g, h);
    }
    h = copse_dense(g, h, w[2], w[3], COPSE_LINEAR);
    return copse_sparse_cross_entropy(g, h, rig_y(in), COPSE_MEAN);
}

/* network balanced|ceil KIND RATE ... DECAY  W1 B1 W2 B2 [GAMMA BETA]: as variables of these names */
copse_status network_command(struct parity *p, const struct request *r)
{
    static const char *const names[] = { "w1", "b1", "w2", "b2", "gamma", "beta" };
    if (r->word_count != 9 || (r->array_count != 4 && r->array_count != 6))
        return malformed("network");
    p->is_normalised = r->array_count == 6;
    for (size_t i = 0; i < r->array_count; i++) {
        const struct copse_variable_params params = { .name = names[i],
                                                      .shape = r->arrays[i].shape,
                                                      .values = r->arrays[i].values };
        COPSE_TRY(copse_variable_create(p->st, &params, &p->weights[i]));
    }
    const struct copse_trainer_params params = {
        .loss = network_loss,
        .user = p,
        .optimizer = optimizer_of(r->words + 2),
        .sharding = strcmp(r->words[1], "ceil") == 0 ? COPSE_SHARD_CEIL : COPSE_SHARD_BALANCED,
    };
    return copse_trainer_create(p->st, &params, &p->trainer);
}

/* step X Y: a step with one global batch; its loss */
copse_status step_command(struct parity *p, const struct request *r)
{
    struct copse_step_result result;
    const struct copse_host_batch batch = {
        COPSE_COLUMNS(
            { "x", COPSE_F32, COPSE_SHAPE(r->arrays[0].shape.dims[1]), r->arrays[0].values },
            { "y", COPSE_I32, COPSE_SCALAR, r->arrays[1].values }),
        .count = r->arrays[1].count
    };
    COPSE_TRY(copse_trainer_step(p->trainer, &batch));
    COPSE_TRY(copse_trainer_result(p->trainer, true, &result));
    return say_number(result.loss);
}

/* save PATH, restore PATH: all variables of the strategy */
copse_status save_command(struct parity *p, const struct request *r)
{
    return copse_trainer_checkpoint(p->trainer, r->words[1], NULL);
}

copse_status restore_command(struct parity *p, const struct request *r)
{
    return copse_trainer_restore(p->trainer, r->words[1], NULL, NULL);
}

/* ---- splitting ---- */

static copse_status walk(copse_distributed *d)
{
    struct copse_host_batch shards[MAX_RANKS];
    copse_status s;
    while ((s = copse_distributed_next(d, shards)) == COPSE_OK)
        for (uint32_t i = 0; i < copse_distributed_replicas(d); i++)
            COPSE_TRY(say_array(COPSE_F32, COPSE_SHAPE((uint32_t)shards[i].count),
                                rig_data(&shards[i], "x")));
    return s == COPSE_ERR_END ? COPSE_OK : s;
}

/* split RULE BATCH ROWS: rows 0, 1, ... of an epoch, an array for every step and replica */
copse_status split_command(struct parity *p, const struct request *r)
{
    struct copse_array_view rows = { .type = COPSE_F32,
                                     .rank = 2,
                                     .shape = { (size_t)atoi(r->words[3]), 1 } };
    struct copse_distributed_params params = {
        .input = { .replicas = copse_strategy_replicas(p->st) },
        .batches = { .batch = (size_t)atoi(r->words[2]), .no_shuffle = true },
    };
    const struct copse_dataset_params plain = { .scale = COPSE_SCALE_NONE };
    float *values = malloc(rows.shape[0] * sizeof *values + 4);
    copse_distributed *d = NULL;
    rows.data = values;
    for (size_t i = 0; values && i < rows.shape[0]; i++)
        values[i] = (float)i;
    copse_status s =
        values ? copse_shard_rule_parse(r->words[1], &params.rule) : COPSE_ERR_NO_MEMORY;
    if (s == COPSE_OK)
        s = copse_dataset_create(p->ctx, &rows, NULL, &plain, &params.data);
    if (s == COPSE_OK)
        s = copse_distributed_create(p->ctx, &params, &d);
    if (s == COPSE_OK)
        s = walk(d);
    copse_distributed_release(&d);
    copse_dataset_release(&params.data);
    free(values);
    return s;
}

/* ---- clipping ---- */

static copse_status clip(struct parity *p, const struct request *r, copse_graph *g,
                         copse_function **f)
{
    struct copse_gradient pairs[MAX_ARRAYS] = { { 0 } };
    copse_tensor *inputs[MAX_ARRAYS], *outputs[MAX_ARRAYS];
    copse_device *device;
    for (size_t i = 0; i < r->array_count; i++) {
        inputs[i] = copse_graph_input(g, "gradient", COPSE_F32, r->arrays[i].shape);
        pairs[i].gradient = inputs[i];
    }
    const float largest = number(r->words[3]);
    if (strcmp(r->words[2], "each") == 0)
        copse_gradients_clip_norms(g, pairs, r->array_count, largest);
    else
        (void)copse_gradients_clip_global_norm(g, pairs, r->array_count, largest);
    for (size_t i = 0; i < r->array_count; i++)
        outputs[i] = pairs[i].gradient;
    COPSE_TRY(copse_device_open(p->ctx, r->words[1], NULL, &device));
    const copse_status made =
        copse_function_create(device,
                              &(struct copse_function_params){
                                  .graph = g, .outputs = outputs, .output_count = r->array_count },
                              f);
    copse_device_release(&device);
    COPSE_TRY(made);
    for (size_t i = 0; i < r->array_count; i++)
        COPSE_TRY(copse_function_write(*f, inputs[i], r->arrays[i].values));
    COPSE_TRY(copse_function_run(*f));
    for (size_t i = 0; i < r->array_count; i++) {
        COPSE_TRY(copse_function_read(*f, i, r->arrays[i].values));
        COPSE_TRY(say_array(COPSE_F32, r->arrays[i].shape, r->arrays[i].values));
    }
    return COPSE_OK;
}

/* clip DEVICE each|global LARGEST A... */
copse_status clip_command(struct parity *p, const struct request *r)
{
    copse_graph *g;
    copse_function *f = NULL;
    COPSE_TRY(copse_graph_create(p->ctx, &g));
    const copse_status s = clip(p, r, g, &f);
    copse_function_release(&f);
    copse_graph_release(&g);
    return s;
}
