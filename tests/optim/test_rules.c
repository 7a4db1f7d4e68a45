/* SPDX-License-Identifier: MIT */
/* Every update rule of the table: on every device found against its definition in double precision
   (mode opt of conformance), and in training under every strategy, with checkpoints. */
#include <math.h>

#include "copse/device/conformance.h"
#include "copse/distribute/sync.h"
#include "copse/train/slots.h"
#include "core/rule/rule.h"
#include "prover/conformance/modes/modes.h"
#include "tests/rig/data/temp_files.h"
#include "tests/rig/rig.h"

enum {
    FIRST = 300,
    SECOND = 7,
    ALL = FIRST + SECOND,
    VARIABLES = 2,
    ROWS = 12,
    STEPS = 5,
    STRATEGIES = 5
};

static copse_context *ctx;
static const struct {
    const char *name;
    int count;
} parts[VARIABLES] = { { "first", FIRST }, { "second", SECOND } };

#include "tests/rig/train/mean_rig.h"

/* ---- the settings of each rule ---- */

/* Those of the table, and the ones that add slots. */
static struct copse_optimizer_params settings_of(size_t i)
{
    const struct copse_optimizer_rule *rule = copse_optimizer_rule_at(i);
    struct copse_optimizer_params p = { .kind = rule->kind,
                                        .learning_rate = 0.05f,
                                        .weight_decay = 0.1f };
    if (p.kind == COPSE_RMSPROP) {
        p.is_centred = 1;
        p.momentum = 0.5f;
    }
    if (copse__rule_row(p.kind)->has & COPSE_HAS_L1) {
        p.l1 = 0.02f;
        p.l2 = 0.5f;
    }
    return p;
}

/* ---- tests ---- */

static void run_truth(const struct copse_optimizer_params *p, double *value)
{
    static double slots[COPSE_RULE_OWN_SLOTS][ALL], gradient[ALL], size[ALL];
    struct copse_rule rule;
    OK(copse__rule_init(p, &rule));
    for (int i = 0; i < ALL; i++) {
        value[i] = (double)first_value(i);
        for (int k = 0; k < COPSE_RULE_OWN_SLOTS; k++)
            slots[k][i] = (double)rule.slot_starts[k];
    }
    for (int t = 1; t <= STEPS; t++)
        for (int k = 0, at = 0; k < VARIABLES; at += parts[k++].count) {
            const struct copse_conform_variable v = { (size_t)parts[k].count,
                                                      value + at,
                                                      { slots[0] + at, slots[1] + at,
                                                        slots[2] + at },
                                                      size };
            for (int i = at; i < at + parts[k].count; i++)
                gradient[i] = gradient_of(t - 1, i);
            copse__conform_update(&rule, t, gradient + at, &v);
        }
}

static void every_strategy_applies_every_rule(void **state)
{
    static double want[ALL];
    static float is[ALL];
    (void)state;
    for (size_t k = 0; copse_optimizer_rule_at(k); k++) {
        const struct copse_optimizer_params p = settings_of(k);
        /* the truth has no codes; test_eight_bit.c has them */
        const double limit = copse__rule_row(p.kind)->kernel->is_coded ? 0.02 : 5e-6;
        const char *name;
        copse_strategy *st;
        run_truth(&p, want);
        for (int i = 0; (st = strategy_of(i, &name)); i++) {
            struct model m;
            copse_trainer *t;
            OK(create(st, &p, &m, &t));
            OK(train(t, 0, STEPS));
            OK(read_values(&m, is));
            for (int e = 0; e < ALL; e++)
                if (!(fabs((double)is[e] - want[e]) <= limit * fmax(1.0, fabs(want[e]))))
                    fail_msg("%s, %s: value %d is %.9g, not %.9g", copse_optimizer_rule_at(k)->name,
                             name, e, (double)is[e], want[e]);
            copse_trainer_release(&t);
            copse_strategy_release(&st);
        }
    }
}

/* Names of slots, and a restored run goes on with the same bits. */
static void slots_are_in_checkpoints(void **state)
{
    static float whole[ALL], cut[ALL], slot[FIRST], before[FIRST];
    (void)state;
    temp_begin();
    for (size_t k = 0; copse_optimizer_rule_at(k); k++) {
        const struct copse_optimizer_params p = settings_of(k);
        const char *name;
        copse_strategy *st;
        for (int i = 0; (st = strategy_of(i, &name)); i++) {
            struct model m;
            copse_trainer *t;
            struct copse_rule rule;
            OK(copse__rule_init(&p, &rule));
            OK(create(st, &p, &m, &t));
            for (uint32_t s = 0; s < rule.slots; s++) {
                OK(copse_trainer_slot(t, m.v[0], rule.slot_names[s], slot));
                assert_true(slot[0] == rule.slot_starts[s] &&
                            slot[FIRST - 1] == rule.slot_starts[s]);
            }
            OK(train(t, 0, 2));
            OK(copse_trainer_checkpoint(t, temp_path("cut"), NULL));
            if (rule.slots > 0)
                OK(copse_trainer_slot(t, m.v[0], rule.slot_names[rule.slots - 1], before));
            OK(train(t, 2, STEPS));
            OK(read_values(&m, whole));
            copse_trainer_release(&t);
            copse_strategy_release(&st);

            st = strategy_of(i, &name);
            OK(create(st, &p, &m, &t));
            OK(copse_trainer_restore(t, temp_path("cut"), NULL, NULL));
            if (rule.slots > 0) {
                OK(copse_trainer_slot(t, m.v[0], rule.slot_names[rule.slots - 1], slot));
                assert_memory_equal(slot, before, sizeof slot);
                assert_true(slot[0] != rule.slot_starts[rule.slots - 1]);
            }
            OK(train(t, 2, STEPS));
            OK(read_values(&m, cut));
            assert_memory_equal(cut, whole, sizeof whole);
            copse_trainer_release(&t);
            copse_strategy_release(&st);
        }
    }
    temp_end();
}

static void rules_are_found_by_name(void **state)
{
    const struct copse_optimizer_rule *rule;
    struct copse_rule made;
    (void)state;
    size_t count = 0;
    for (; copse_optimizer_rule_at(count); count++) {
        OK(copse_optimizer_rule_find(copse_optimizer_rule_at(count)->name, &rule));
        assert_ptr_equal(rule, copse_optimizer_rule_at(count));
        assert_int_equal(rule->kind, count);
        assert_true(rule->title[0] && rule->source[0] && rule->learning_rate > 0.0f);
    }
    const struct copse_optimizer_params none = { .kind = (copse_optimizer_kind)count };
    FAILS(COPSE_ERR_ARGUMENT, copse__rule_init(&none, &made), "there is no kind");
    FAILS(COPSE_ERR_ARGUMENT, copse_optimizer_rule_find("adamm", &rule), "nesterov, adagrad");
    assert_null(rule);
}

/* The public text of the slots, and the slots of the rule with all its settings. */
static void slots_are_those_of_the_text(void **state)
{
    (void)state;
    for (size_t k = 0; copse_optimizer_rule_at(k); k++) {
        const struct copse_optimizer_rule *row = copse_optimizer_rule_at(k);
        for (int all = 0; all < 2; all++) {
            const struct copse_optimizer_params p = {
                .kind = row->kind,
                .is_centred = all && (copse__rule_row(row->kind)->has & COPSE_HAS_CENTRED),
                .momentum = all ? 0.5f : 0.0f
            };
            struct copse_rule rule;
            char text[64] = "", want[64] = "";
            OK(copse__rule_init(&p, &rule));
            for (uint32_t s = 0; s < rule.slots; s++) {
                strcat(text, s ? " " : "");
                strcat(text, rule.slot_names[s]);
            }
            for (const char *c = row->slots; *c; c++) {
                if (*c == '[' && !all)
                    break;
                if (*c != '[' && *c != ']')
                    strncat(want, c, 1);
            }
            for (size_t n = strlen(want); n > 0 && want[n - 1] == ' '; n--)
                want[n - 1] = '\0';
            assert_string_equal(text, want);
        }
    }
}

/* Mode opt checks every rule. */
static void every_rule_has_a_setup(void **state)
{
    (void)state;
    for (size_t k = 0; copse_optimizer_rule_at(k); k++) {
        size_t i = 0;
        while (i < copse_conform_rule_setup_count &&
               copse_conform_rule_setups[i].params.kind != copse_optimizer_rule_at(k)->kind)
            i++;
        if (i == copse_conform_rule_setup_count)
            fail_msg("%s has no setup", copse_optimizer_rule_at(k)->name);
    }
}

static void settings_of_other_rules_are_refused(void **state)
{
    static const struct {
        struct copse_optimizer_params params;
        const char *text;
    } wrong[] = {
        { { .kind = COPSE_ADAM, .l1 = 0.1f }, "l1 is 0.1: adam has no such setting" },
        { { .kind = COPSE_SGD, .l2 = 0.1f }, "l2 is 0.1: sgd has no such setting" },
        { { .kind = COPSE_ADADELTA, .initial = 0.1f },
          "initial is 0.1: adadelta has no such setting" },
        { { .kind = COPSE_ADAM, .momentum_decay = 0.1f },
          "momentum_decay is 0.1: adam has no such setting" },
        { { .kind = COPSE_ADAGRAD, .is_centred = 1 },
          "is_centred is 1: adagrad has no such setting" },
        { { .kind = COPSE_RMSPROP, .is_centred = 2 }, "is_centred is 2" },
        { { .kind = COPSE_ADAM, .epsilon_in_root = 1 },
          "epsilon_in_root is 1: adam has no such setting" },
        { { .kind = COPSE_RMSPROP, .epsilon_in_root = 3 }, "epsilon_in_root is 3" },
        { { .kind = COPSE_ADAM, .plain_average = 1 }, "there is no average" },
        { { .kind = COPSE_ADAM, .average = 0.5f, .plain_average = 2 }, "plain_average is 2" },
        { { .kind = COPSE_RMSPROP, .momentum = 1.0f }, "momentum is 1" },
        { { .kind = COPSE_FTRL, .l1 = -1.0f }, "l1 is -1" },
        { { .kind = COPSE_FTRL, .l2 = NAN }, "l2 is nan" },
        { { .kind = COPSE_ADAGRAD, .initial = INFINITY }, "initial is inf" },
        { { .kind = COPSE_LION, .beta2 = 1.0f }, "beta2 is 1" },
        { { .kind = COPSE_LION, .trust = 1 }, "trust is 1: lion has no such setting" },
        { { .kind = COPSE_LARS, .trust = -1 }, "trust is -1" },
        { { .kind = COPSE_LARS, .clip_norm = 1 },
          "lars limits the update of each variable by its norms and has no clipping" },
        { { .kind = COPSE_LAMB, .clip_global_norm = 1 }, "lamb limits" },
        { { .kind = COPSE_LAMB, .clip_value = 1 }, "lamb limits" },
    };
    struct copse_rule rule;
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(wrong); i++)
        FAILS(COPSE_ERR_ARGUMENT, copse__rule_init(&wrong[i].params, &rule), wrong[i].text);
}

static void take_case(void *user, const struct copse_case_result *c)
{
    unsigned *passed = user;
    if (c->verdict != COPSE_VERDICT_PASS)
        fail_msg("%s: %s, %s: %s", c->device, c->op, c->name, c->text);
    ++*passed;
}

static void rules_keep_to_their_definitions(void **state)
{
    const struct copse_device_info *list;
    struct copse_conformance_summary summary;
    size_t count;
    (void)state;
    copse_context_devices(ctx, &list, &count);
    for (size_t i = 0; i < count; i++) {
        unsigned passed = 0;
        if (!list[i].is_usable)
            continue;
        OK(copse_conformance_run(ctx,
                                 &(struct copse_conformance_params){
                                     .device = list[i].id,
                                     .modes = COPSE_CONFORM_OPT,
                                     .tier = COPSE_CONFORM_QUICK,
                                     .result = take_case,
                                     .user = &passed,
                                 },
                                 &summary));
        print_message("%s: %u cases\n", list[i].id, passed);
        assert_true(passed > 50);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_strategy_applies_every_rule),
        cmocka_unit_test(slots_are_in_checkpoints),
        cmocka_unit_test(rules_are_found_by_name),
        cmocka_unit_test(slots_are_those_of_the_text),
        cmocka_unit_test(every_rule_has_a_setup),
        cmocka_unit_test(settings_of_other_rules_are_refused),
        cmocka_unit_test(rules_keep_to_their_definitions),
    };
    make_data();
    if (copse_context_create(NULL, &ctx))
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    copse_context_release(&ctx);
    return failed;
}
