/* SPDX-License-Identifier: MIT */
/* Update rules on every device found, against the definitions in double precision: one step within
   8 units of the change and half a unit of the parameter, a thousand steps within 1e-5. */
#include <math.h>

#include "tests/rig/rig.h"

#include "core/base/random.h"
#include "core/rule/rule.h"

#define COUNT 1237u /* more than a group's share, and no multiple of anything */
#define SETS  8u    /* different gradients, used in turn */
#define UNIT  0x1p-24

/* ---- the definitions ---- */

struct state {
    double value[COUNT], first[COUNT], second[COUNT]; /* the slots */
};

/* What the parameter loses. *size is the same with the magnitudes of all terms added, the measure
   of errors that does not depend on how much of them cancels. */
static double change(const struct copse_optimizer_params *p, double rate, double t, double g,
                     double x, double *first, double *second, double *size)
{
    const double decay = (double)p->weight_decay, momentum = (double)p->momentum;
    const double beta1 = (double)p->beta1, beta2 = (double)p->beta2;
    double all = fabs(g), before = fabs(*first), divisor;
    if (p->kind != COPSE_ADAMW) {
        all += decay * fabs(x);
        g += decay * x;
    }
    switch (p->kind) {
    case COPSE_SGD:
        *size = rate * all;
        return rate * g;
    case COPSE_MOMENTUM:
        *first = momentum * *first + g;
        *size = rate * (momentum * before + all);
        return rate * *first;
    case COPSE_NESTEROV:
        *first = momentum * *first + g;
        *size = rate * (all + momentum * (momentum * before + all));
        return rate * (g + momentum * *first);
    default:
        *first = beta1 * *first + (1.0 - beta1) * g;
        *second = beta2 * *second + (1.0 - beta2) * g * g;
        divisor =
            (1.0 - pow(beta1, t)) * (sqrt(*second / (1.0 - pow(beta2, t))) + (double)p->epsilon);
        *size = rate * (beta1 * before + (1.0 - beta1) * all) / divisor;
        if (p->kind == COPSE_ADAM)
            return rate * *first / divisor;
        *size += rate * decay * fabs(x);
        return rate * (*first / divisor + decay * x);
    }
}

/* ---- what every test has ---- */

static float gradients[SETS][COUNT], start[COUNT];

static void make_numbers(void)
{
    struct copse_stream s;
    copse__stream_init(&s, 5, 1);
    for (uint32_t i = 0; i < COUNT; i++) {
        start[i] = copse__stream_normal(&s);
        for (uint32_t k = 0; k < SETS; k++)
            gradients[k][i] = copse__stream_normal(&s) * (i % 3 ? 1.0f : 1e-3f);
    }
}

struct rig {
    copse_device *dev;
    copse_queue *queue;
    copse_buffer *values, *gradients, *slots, *step;
    struct copse_rule rule;
};

static void upload(struct rig *g, copse_buffer **buf, const void *from, size_t size)
{
    if (!*buf)
        OK(copse_buffer_create(g->dev, &(struct copse_buffer_params){ .size = size }, buf));
    OK(copse_queue_write(g->queue, *buf, 0, from, size));
}

static void begin(struct rig *g, const struct copse_optimizer_params *params)
{
    static const float zeros[2 * COUNT];
    OK(copse__rule_init(params, &g->rule));
    upload(g, &g->values, start, sizeof start);
    upload(g, &g->slots, zeros, sizeof zeros);
}

static void step_once(struct rig *g, uint32_t step)
{
    uint32_t words[COPSE_STEP_WORDS] = { 0 };
    const float scale = 0.5f;
    struct copse_command c;
    memcpy(&words[COPSE_STEP_SCALE], &scale, 4);
    copse__rule_step(&g->rule, step, words);
    upload(g, &g->step, words, sizeof words);
    upload(g, &g->gradients, gradients[step % SETS], sizeof gradients[0]);
    OK(copse__rule_command(&g->rule, g->dev, &(struct copse_binding){ g->values, 0, 4 * COUNT },
                           &(struct copse_binding){ g->gradients, 0, 4 * COUNT },
                           &(struct copse_binding){ g->slots, 0, 4 * g->rule.slots * COUNT },
                           &(struct copse_binding){ g->step, 0, sizeof words }, NULL, COUNT, &c));
    OK(copse__queue_encode(g->queue, &c));
}

static void read_state(struct rig *g, struct state *out)
{
    static float values[COUNT], slots[2 * COUNT];
    OK(copse_queue_read(g->queue, g->values, 0, values, sizeof values));
    OK(copse_queue_read(g->queue, g->slots, 0, slots, sizeof slots));
    OK(copse_queue_finish(g->queue));
    for (uint32_t i = 0; i < COUNT; i++) {
        out->value[i] = (double)values[i];
        out->first[i] = (double)slots[i];
        out->second[i] = (double)slots[COUNT + i];
    }
}

/* The same step in double precision. */
static void advance(const struct rig *g, struct state *s, double *sizes, uint32_t step)
{
    const struct copse_optimizer_params *p = &g->rule.params;
    const double rate =
        (double)(p->schedule ? p->schedule(p->schedule_user, step) : p->learning_rate);
    for (uint32_t i = 0; i < COUNT; i++) {
        const double x = s->value[i];
        s->value[i] = x - change(p, rate, step, 0.5 * (double)gradients[step % SETS][i], x,
                                 &s->first[i], &s->second[i], &sizes[i]);
    }
}

static double ulp(double x)
{
    int exponent;
    frexp(x, &exponent);
    return ldexp(1.0, exponent - 24);
}

static double distance(const double *a, const double *b)
{
    double difference = 0.0, size = 0.0;
    for (uint32_t i = 0; i < COUNT; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    return sqrt(difference / size);
}

/* ---- tests ---- */

static float halving(void *user, uint64_t step)
{
    (void)user;
    return step < 5 ? 0.01f : 0.005f;
}

static const struct copse_optimizer_params rules[] = {
    { .kind = COPSE_ADAM },
    { .kind = COPSE_ADAM, .weight_decay = 0.01f, .epsilon = 1e-3f },
    { .kind = COPSE_ADAM, .beta1 = 0.3f, .beta2 = 0.9f, .schedule = halving },
    { .kind = COPSE_ADAMW, .weight_decay = 0.01f },
    { .kind = COPSE_ADAMW },
    { .kind = COPSE_SGD },
    { .kind = COPSE_SGD, .weight_decay = 0.1f, .learning_rate = 0.1f },
    { .kind = COPSE_MOMENTUM },
    { .kind = COPSE_MOMENTUM, .weight_decay = 0.1f, .momentum = 0.5f },
    { .kind = COPSE_NESTEROV },
    { .kind = COPSE_NESTEROV, .weight_decay = 0.1f },
};

/* From the device's own state, so that every step is on its own. */
static void check_steps(struct rig *g, const char *id, size_t k)
{
    static struct state before, after;
    static double sizes[COUNT];
    double worst = 0.0;
    begin(g, &rules[k]);
    for (uint32_t step = 1; step <= 10; step++) {
        read_state(g, &before);
        step_once(g, step);
        read_state(g, &after);
        advance(g, &before, sizes, step);
        for (uint32_t i = 0; i < COUNT; i++) {
            const double error =
                fabs(after.value[i] - before.value[i]) - 0.5 * ulp(before.value[i]);
            if (!(error <= 8.0 * UNIT * sizes[i]))
                fail_msg("rule %zu on %s, step %u, element %u: %a, not %a (change %a)", k, id, step,
                         i, after.value[i], before.value[i], sizes[i]);
            worst = fmax(worst, error / (UNIT * sizes[i]));
        }
    }
    print_message("rule %zu on %s: %.1f units of the change\n", k, id, worst);
}

static void check_thousand(struct rig *g, const char *id, size_t k)
{
    static struct state want, got;
    static double sizes[COUNT];
    begin(g, &rules[k]);
    memset(&want, 0, sizeof want);
    for (uint32_t i = 0; i < COUNT; i++)
        want.value[i] = (double)start[i];
    for (uint32_t step = 1; step <= 1000; step++) {
        step_once(g, step);
        advance(g, &want, sizes, step);
        if (step == 1 || step == 10 || step == 1000) {
            read_state(g, &got);
            const double error = distance(got.value, want.value);
            if (!(error <= 1e-5))
                fail_msg("rule %zu on %s: %g off after %u steps", k, id, error, step);
        }
    }
}

static void rules_keep_to_their_definitions(void **unused)
{
    copse_context *ctx;
    const struct copse_device_info *list;
    size_t count;
    (void)unused;
    make_numbers();
    OK(copse_context_create(NULL, &ctx));
    copse_context_devices(ctx, &list, &count);
    for (size_t d = 0; d < count; d++) {
        struct rig g = { NULL, NULL, NULL, NULL, NULL, NULL, { .slots = 0 } };
        if (!list[d].is_usable)
            continue;
        OK(copse_device_open(ctx, list[d].id, NULL, &g.dev));
        OK(copse_queue_create(g.dev, &g.queue));
        for (size_t k = 0; k < COPSE_COUNT(rules); k++) {
            check_steps(&g, list[d].id, k);
            check_thousand(&g, list[d].id, k);
        }
        copse_buffer_release(&g.values);
        copse_buffer_release(&g.gradients);
        copse_buffer_release(&g.slots);
        copse_buffer_release(&g.step);
        copse_queue_release(&g.queue);
        copse_device_release(&g.dev);
    }
    copse_context_release(&ctx);
}

static void zero_means_the_default(void **unused)
{
    struct copse_rule r;
    (void)unused;
    OK(copse__rule_init(NULL, &r));
    assert_int_equal(r.params.kind, COPSE_ADAM);
    assert_int_equal(r.slots, 2);
    assert_true(r.params.learning_rate == 1e-3f && r.params.beta1 == 0.9f &&
                r.params.beta2 == 0.999f && r.params.epsilon == 1e-8f);
    OK(copse__rule_init(&(struct copse_optimizer_params){ .kind = COPSE_SGD }, &r));
    assert_int_equal(r.slots, 0);
    assert_true(r.params.learning_rate == 1e-2f);
    OK(copse__rule_init(&(struct copse_optimizer_params){ .kind = COPSE_NESTEROV }, &r));
    assert_int_equal(r.slots, 1);
    assert_true(r.params.momentum == 0.9f);
}

static void bad_settings_are_named(void **unused)
{
    static const struct {
        struct copse_optimizer_params params;
        const char *word;
    } cases[] = {
        { { .learning_rate = -1.0f }, "learning rate" },
        { { .learning_rate = INFINITY }, "learning rate" },
        { { .learning_rate = NAN }, "learning rate" },
        { { .kind = COPSE_MOMENTUM, .momentum = 1.0f }, "momentum" },
        { { .kind = COPSE_MOMENTUM, .momentum = -0.5f }, "momentum" },
        { { .beta1 = 1.0f }, "beta1" },
        { { .beta2 = 1.5f }, "beta2" },
        { { .beta2 = NAN }, "beta2" },
        { { .epsilon = -1e-8f }, "epsilon" },
        { { .weight_decay = -0.1f }, "weight decay" },
        { { .weight_decay = NAN }, "weight decay" },
        { { .kind = (copse_optimizer_kind)1000 }, "there is no kind" },
    };
    struct copse_rule r;
    (void)unused;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        assert_int_equal(copse__rule_init(&cases[i].params, &r), COPSE_ERR_ARGUMENT);
        if (!strstr(copse_last_error(), cases[i].word))
            fail_msg("case %zu: '%s' does not name '%s'", i, copse_last_error(), cases[i].word);
    }
}

static void step_words_follow_step_and_schedule(void **unused)
{
    uint32_t words[COPSE_STEP_WORDS] = { 0 };
    float rate, bias1, bias2;
    struct copse_rule r;
    (void)unused;
    OK(copse__rule_init(&(struct copse_optimizer_params){ .schedule = halving }, &r));
    for (uint32_t step = 1; step <= 1000000; step *= 10) {
        copse__rule_step(&r, step, words);
        memcpy(&rate, &words[COPSE_STEP_RATE], 4);
        memcpy(&bias1, &words[COPSE_STEP_BIAS1], 4);
        memcpy(&bias2, &words[COPSE_STEP_BIAS2], 4);
        assert_true(rate == (step < 5 ? 0.01f : 0.005f));
        assert_true(fabs((double)bias1 - (1.0 - pow((double)0.9f, step))) <= 1e-7);
        assert_true(fabs((double)bias2 / (1.0 - pow((double)0.999f, step)) - 1.0) <= 1e-7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_keep_to_their_definitions),
        cmocka_unit_test(zero_means_the_default),
        cmocka_unit_test(bad_settings_are_named),
        cmocka_unit_test(step_words_follow_step_and_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
