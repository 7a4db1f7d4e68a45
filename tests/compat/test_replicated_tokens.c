/* SPDX-License-Identifier: MIT */
/* A replicated model with a structure of inputs, tokens and labels of i32 and a mask of bytes, trains on
   three replicas to the bits of a trainer with the same loss function. */
#include "copse/compat/replicated.h"
#include "copse/distribute/replica.h"
#include "copse/ops.h"
#include "core/base/base.h"
#include "tests/rig/train/step_rig.h"

#define EACH    4u /* examples of a replica */
#define COUNT   (3 * EACH)
#define LENGTH  5u
#define WORDS   11u
#define WIDTH   6u
#define CLASSES 4u
#define STEPS   6u

struct net {
    copse_variable *table, *weights, *bias;
    copse_tower_optimizer *tower;
};

/* The class of the mean of a text's words. */
static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct net *m = user;
    copse_tensor *mask = copse_cast(g, copse_input(in, "mask"), COPSE_F32);
    copse_tensor *rows = copse_gather(g, copse_variable_tensor(m->table), copse_input(in, "token"));
    mask = copse_reshape(g, mask, COPSE_SHAPE(EACH, LENGTH, 1));
    rows = copse_sum(g, copse_mul(g, rows, mask), (const uint32_t[]){ 1 }, 1, false);
    rows = copse_mul(g, rows, copse_scalar(g, 1.0 / (255 * LENGTH)));
    copse_tensor *logits = copse_dense(g, rows, copse_variable_tensor(m->weights),
                                       copse_variable_tensor(m->bias), COPSE_LINEAR);
    return copse_sparse_cross_entropy(g, logits, copse_input(in, "y"), COPSE_MEAN);
}

static copse_status model(copse_replica_context *rc, const struct copse_model_call *call,
                          struct copse_model_spec *spec)
{
    struct net *m = call->user;
    const struct copse_tower_loss of = {
        .loss = loss, .user = m, .x = call->features, .y = call->labels
    };
    (void)rc;
    return copse_tower_minimize(m->tower, &of, NULL, 0, true, &spec->loss);
}

struct text {
    int32_t tokens[COUNT * LENGTH], labels[COUNT];
    uint8_t mask[COUNT * LENGTH];
};

static void text_of(uint32_t step, struct text *t)
{
    for (uint32_t i = 0; i < COUNT * LENGTH; i++) {
        t->tokens[i] = (int32_t)((i * i + 3 * step) % WORDS);
        t->mask[i] = i % LENGTH > 1 + i / LENGTH % 3 ? 0 : i % 7 == 3 ? 77 : 255;
    }
    for (uint32_t i = 0; i < COUNT; i++)
        t->labels[i] = (int32_t)((i + step) % CLASSES);
}

static void make_net(copse_strategy *st, struct net *m)
{
    float start[WORDS * WIDTH];
    for (uint32_t i = 0; i < WORDS * WIDTH; i++)
        start[i] = sinf((float)(i + 1));
    m->table = rig_variable(st, "table", COPSE_SHAPE(WORDS, WIDTH), start);
    m->weights = rig_variable(st, "weights", COPSE_SHAPE(WIDTH, CLASSES), start + 5);
    m->bias = rig_variable(st, "bias", COPSE_SHAPE(CLASSES), start + 9);
}

static const struct copse_optimizer_params adam = { .kind = COPSE_ADAM, .learning_rate = 0.05f };

/* The values of replica `r`. */
static void read_net(const struct net *m, uint32_t r, float *to)
{
    OK(copse_variable_read(m->table, r, to));
    OK(copse_variable_read(m->weights, r, to + WORDS * WIDTH));
    OK(copse_variable_read(m->bias, r, to + (WORDS + CLASSES) * WIDTH));
}

#define NUMBERS (WORDS * WIDTH + WIDTH * CLASSES + CLASSES)

static void train_by_trainer(copse_strategy *st, float *to, float *losses)
{
    struct net m;
    struct text text;
    struct copse_step_result result;
    copse_trainer *t;
    make_net(st, &m);
    const struct copse_trainer_params p = { .loss = loss, .user = &m, .optimizer = adam };
    OK(copse_trainer_create(st, &p, &t));
    for (uint32_t i = 0; i < STEPS; i++) {
        text_of(i, &text);
        const struct copse_host_batch batch = {
            COPSE_COLUMNS({ "token", COPSE_I32, COPSE_SHAPE(LENGTH), text.tokens },
                          { "mask", COPSE_U8, COPSE_SHAPE(LENGTH), text.mask },
                          { "y", COPSE_I32, COPSE_SCALAR, text.labels }),
            .count = COUNT
        };
        OK(copse_trainer_step(t, &batch));
        OK(copse_trainer_result(t, true, &result));
        losses[i] = (float)result.loss;
    }
    read_net(&m, 0, to);
    copse_trainer_release(&t);
}

static void train_by_model(copse_strategy *st, float *to, float *losses)
{
    struct net m;
    const struct copse_tower_params params = { .optimizer = adam };
    const struct copse_replicated_params p = { .model = model, .user = &m };
    make_net(st, &m);
    OK(copse_tower_create(st, &params, &m.tower));
    for (uint32_t i = 0; i < STEPS; i++) {
        struct copse_replicated_result result;
        struct text text;
        copse_value *features, *labels, *items[2];
        text_of(i, &text);
        OK(copse_value_create(ctx, COPSE_I32, COPSE_SHAPE(COUNT, LENGTH), text.tokens, &items[0]));
        OK(copse_value_create(ctx, COPSE_U8, COPSE_SHAPE(COUNT, LENGTH), text.mask, &items[1]));
        OK(copse_value_dict(ctx, (const char *const[]){ "token", "mask" }, items, 2, &features));
        OK(copse_value_create(ctx, COPSE_I32, COPSE_SHAPE(COUNT), text.labels, &labels));
        OK(copse_replicated_run(st, &p, COPSE_MODEL_TRAIN, features, labels, &result));
        losses[i] = (float)result.loss;
        copse_value_release(&features);
        copse_value_release(&labels);
        copse_value_release(&items[0]);
        copse_value_release(&items[1]);
    }
    for (uint32_t r = 0; r < 3; r++) {
        read_net(&m, r, to + NUMBERS);
        if (r > 0)
            assert_memory_equal(to + NUMBERS, to, NUMBERS * sizeof *to);
        memcpy(to, to + NUMBERS, NUMBERS * sizeof *to);
    }
    copse_tower_release(&m.tower);
}

static void a_model_of_tokens_has_the_bits_of_a_trainer(void **unused)
{
    const char *const mixtures[][3] = { { "host:0", "host:0", "host:0" },
                                        { rig_devices[1], rig_devices[2], rig_devices[0] } };
    (void)unused;
    for (size_t i = 0; i < COPSE_COUNT(mixtures); i++) {
        float want[NUMBERS], got[2 * NUMBERS], losses[2][STEPS];
        for (int k = 0; k < 2; k++) {
            copse_strategy *st;
            OK(copse_mirrored_create(ctx, mixtures[i], 3, NULL, &st));
            if (k == 0)
                train_by_trainer(st, want, losses[k]);
            else
                train_by_model(st, got, losses[k]);
            copse_strategy_release(&st);
        }
        assert_memory_equal(got, want, sizeof want);
        for (uint32_t k = 0; k < STEPS; k++) /* the mean of replicas is rounded once more */
            rig_near(losses[1][k], losses[0][k], 1e-6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_of_tokens_has_the_bits_of_a_trainer),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
