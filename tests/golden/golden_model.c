/* SPDX-License-Identifier: MIT */
/* See golden_jobs.h. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/compat/gradients.h"
#include "copse/distribute/accelerator.h"
#include "copse/distribute/collective.h"
#include "copse/distribute/parameter_server.h"
#include "copse/distribute/sync.h"

#include "tests/golden/golden_jobs.h"

struct environment env;
struct keys keys = { .batch = 40,
                     .epochs = 6,
                     .accumulate = 1,
                     .parts = 1,
                     .towers = 1,
                     .iterations = 1,
                     .dropout = 20,
                     .loop = "trainer",
                     .strategy = "mirrored",
                     .optimizer = "adam",
                     .sharing = "balanced" };

#define KEY(name)                          \
    {                                      \
#        name, offsetof(struct keys, name) \
    }
static const struct {
    const char *name;
    size_t at;
} numbers[] = { KEY(batch),    KEY(epochs), KEY(accumulate), KEY(parts),   KEY(frozen), KEY(listed),
                KEY(sum),      KEY(check),  KEY(clip),       KEY(summary), KEY(norm),   KEY(mean),
                KEY(prefetch), KEY(towers), KEY(iterations), KEY(resume),  KEY(dropout) },
  words[] = { KEY(loop), KEY(strategy), KEY(optimizer), KEY(sharing), KEY(shares) };

bool keys_set(const char *argument)
{
    const size_t length = strcspn(argument, "=");
    if (!argument[length])
        return false;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strlen(numbers[i].name) == length && strncmp(numbers[i].name, argument, length) == 0) {
            *(unsigned *)((char *)&keys + numbers[i].at) =
                (unsigned)strtoul(argument + length + 1, NULL, 10);
            return true;
        }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].name) == length && strncmp(words[i].name, argument, length) == 0) {
            *(const char **)((char *)&keys + words[i].at) = argument + length + 1;
            return true;
        }
    return false;
}

const char *path(const char *name)
{
    static char text[4096];
    snprintf(text, sizeof text, "%s/%s", env.folder, name);
    return text;
}

void print_number(double x)
{
    if (!env.cluster || copse_cluster_is_chief(env.cluster))
        printf("%.17g\n", x);
}

struct copse_optimizer_params make_rule(const char *name)
{
    static const char *const names[] = { "adam", "adamw", "sgd", "momentum", "nesterov" };
    static const copse_optimizer_kind kinds[] = { COPSE_ADAM, COPSE_ADAMW, COPSE_SGD,
                                                  COPSE_MOMENTUM, COPSE_NESTEROV };
    struct copse_optimizer_params p = { .learning_rate = 0.02f, .weight_decay = 0.01f };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(names[i], name) == 0)
            p.kind = kinds[i];
    return p;
}

/* ---- the model: 64-24-10 ---- */

static copse_status add(struct model *m, const char *name, copse_shape shape, bool is_trained)
{
    return copse_variable_create(
        m->st,
        &(struct copse_variable_params){ .name = name,
                                         .shape = shape,
                                         .initializer = shape.rank == 2 ? COPSE_INIT_HE_NORMAL
                                                                        : COPSE_INIT_ZEROS,
                                         .seed = 7,
                                         .is_frozen = !is_trained },
        &m->variables[m->count++]);
}

static copse_status make_model(struct model *m)
{
    copse_variable *const *list;
    if (keys.parts > 1) {
        const struct copse_variable_params p = { .name = "w1",
                                                 .shape = COPSE_SHAPE(INPUTS, HIDDEN),
                                                 .seed = 7,
                                                 .initializer = COPSE_INIT_HE_NORMAL,
                                                 .is_frozen = keys.frozen };
        COPSE_TRY(copse_partitioned_create(m->st, &p, keys.parts, &m->partitioned));
        copse_partitioned_parts(m->partitioned, &list, &m->count);
        memcpy(m->variables, list, m->count * sizeof(copse_variable *));
    } else {
        COPSE_TRY(add(m, "w1", COPSE_SHAPE(INPUTS, HIDDEN), !keys.frozen));
    }
    COPSE_TRY(add(m, "b1", COPSE_SHAPE(HIDDEN), !keys.frozen));
    m->first = m->count;
    COPSE_TRY(add(m, "w2", COPSE_SHAPE(HIDDEN, CLASSES), true));
    return add(m, "b2", COPSE_SHAPE(CLASSES), true);
}

copse_tensor *model_logits(copse_graph *g, const copse_batch *in, void *user)
{
    static const uint32_t examples = 0;
    const struct model *m = user;
    copse_tensor *parts_of[MOST_PARTS], *x, *w, *h;
    x = copse_input(in, "x");
    for (size_t i = 0; i + 1 < m->first; i++)
        parts_of[i] = copse_variable_tensor(m->variables[i]);
    w = parts_of[0];
    if (keys.parts > 1)
        w = copse_concat(g, parts_of, m->first - 1, 0);
    h = copse_dense(g, x, w, copse_variable_tensor(m->variables[m->first - 1]), COPSE_RELU);
    if (keys.dropout)
        h = copse_dropout(g, h, (float)keys.dropout / 100.0f, in->is_training);
    if (keys.norm)
        h = copse_sync_batch_norm(g, h, &examples, 1, NULL);
    return copse_dense(g, h, copse_variable_tensor(m->variables[m->first]),
                       copse_variable_tensor(m->variables[m->first + 1]), COPSE_LINEAR);
}

copse_tensor *model_loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *other;
    copse_tensor *y = copse_input(in, "y");
    copse_tensor *h = model_logits(g, in, user);
    copse_tensor *guess = copse_argmax(g, h, 1);
    copse_tensor *right = copse_equal(g, guess, y);
    copse_tensor *accuracy = copse_mean(g, right, NULL, 0, false);
    if (strcmp(keys.loop, "train_step") != 0) /* whose reports are its losses */
        copse_report(g, "accuracy", accuracy);
    copse_tensor *loss = copse_sparse_cross_entropy(g, h, y, keys.sum ? COPSE_SUM : COPSE_MEAN);
    if (keys.norm || keys.mean) { /* ... plus what all replicas have of it */
        other = copse_all_reduce(g, loss, keys.mean ? COPSE_MEAN : COPSE_SUM);
        loss = copse_add(g, loss, other);
    }
    return loss;
}

static void clip_gradients(copse_graph *g, struct copse_gradient *pairs, size_t count, void *user)
{
    (void)user;
    (void)copse_gradients_clip_global_norm(g, pairs, count, (float)keys.clip / 1000.0f);
}

/* ---- strategy and trainer ---- */

copse_status make_strategy(copse_strategy **out)
{
    const struct copse_strategy_params params = { .bucket_bytes = 2048 };
    const bool is_served = strcmp(keys.strategy, "parameter_server") == 0;
    if (is_served)
        return copse_parameter_server_create(env.ctx, env.cluster, env.devices, env.device_count,
                                             &params, out);
    if (env.cluster)
        return copse_collective_create(env.ctx, env.cluster, env.devices, env.device_count, &params,
                                       out);
    if (strcmp(keys.strategy, "one_device") == 0)
        return copse_one_device_create(env.ctx, env.devices[0], &params, out);
    if (strcmp(keys.strategy, "accelerator") == 0)
        return copse_accelerator_create(
            env.ctx, env.devices, env.device_count,
            &(struct copse_accelerator_params){ .strategy = params, .steps_per_run = 4 }, out);
    return copse_mirrored_create(env.ctx, env.devices, env.device_count, &params, out);
}

copse_status model_open(struct model *m)
{
    *m = (struct model){ 0 };
    COPSE_TRY(make_strategy(&m->st));
    return make_model(m);
}

copse_variable *const *model_share(const struct model *m, size_t i, size_t *count)
{
    *count = i == 0 ? m->first : 1;
    return m->variables + (i == 0 ? 0 : m->first + i - 1);
}

void model_close(struct model *m)
{
    copse_partitioned_release(&m->partitioned);
    copse_strategy_release(&m->st);
}

/* "1,2.5,0.5"; one weight for each replica of the job. */
static const float *weights(void)
{
    static float list[COPSE_MAX_REPLICAS];
    const char *at = keys.shares;
    for (size_t i = 0; at && i < COPSE_MAX_REPLICAS; i++) {
        list[i] = strtof(at, NULL);
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
    return keys.shares ? list : NULL;
}

copse_status make_trainer(struct model *m, copse_variable *const *variables, size_t count,
                          struct copse_optimizer_params rule, copse_trainer **out)
{
    const bool is_ceil = strcmp(keys.sharing, "ceil") == 0,
               is_fixed = strcmp(keys.sharing, "fixed") == 0;
    return copse_trainer_create(
        m->st,
        &(struct copse_trainer_params){ .loss = model_loss,
                                        .user = m,
                                        .reduction = keys.sum ? COPSE_LOSS_SUM : COPSE_LOSS_MEAN,
                                        .optimizer = rule,
                                        .seed = 3,
                                        .variables = variables,
                                        .variable_count = count,
                                        .accumulate = keys.accumulate,
                                        .sharding = keys.shares ? COPSE_SHARD_WEIGHTED
                                                    : is_ceil   ? COPSE_SHARD_CEIL
                                                    : is_fixed  ? COPSE_SHARD_FIXED
                                                                : COPSE_SHARD_BALANCED,
                                        .batch_size = is_fixed ? keys.batch : 0,
                                        .shard_weights = weights(),
                                        .check_numerics = keys.check,
                                        .check_gradients = keys.check,
                                        .summarize_gradients = keys.summary,
                                        .transform = keys.clip ? clip_gradients : NULL,
                                        .prefetch = keys.prefetch },
        out);
}
