/* SPDX-License-Identifier: MIT */
/* Parameter groups: learning rates and weight decays by name, and frozen variables, for every rule
   under every strategy against the definition of the rule in double precision; in checkpoints; with
   several workers; texts that are refused. */
#include <math.h>

#include "copse/copse.h"
#include "copse/optim/groups.h"
#include "copse/train/slots.h"
#include "core/comm/local.h"
#include "core/rule/rule.h"
#include "core/train/trainer.h"
#include "prover/conformance/modes/modes.h"
#include "tests/rig/data/temp_files.h"
#include "tests/rig/rig.h"
#include "tests/rig/workers/worker_rig.h"

enum { VARIABLES = 5, ALL = 300 + 7 + 130 + 140 + 9, ROWS = 12, STEPS = 5, STRATEGIES = 5 };

#define GROUPS "body.weight: rate=0.25; *.bias: decay=0.5, rate=2; st?m*: frozen"

/* `factor` and `decay`: what GROUPS says; decay -1: that of the optimizer. */
static const struct part {
    const char *name;
    int count;
    float factor, decay;
    bool is_frozen;
} parts[VARIABLES] = {
    { "body.weight", 300, 0.25f, -1.0f, false }, { "body.bias", 7, 2.0f, 0.5f, false },
    { "stem.weight", 130, 1.0f, -1.0f, true },   { "head.weight", 140, 1.0f, -1.0f, false },
    { "head.bias", 9, 2.0f, 0.5f, false },
};

#include "tests/rig/train/mean_rig.h"

static size_t pairs_seen; /* by the transform */

static void count_pairs(copse_graph *g, struct copse_gradient *pairs, size_t count, void *user)
{
    (void)g, (void)pairs, (void)user;
    pairs_seen = count;
}

static struct copse_optimizer_params settings_of(size_t i)
{
    const struct copse_optimizer_rule *rule = copse_optimizer_rule_at(i);
    struct copse_optimizer_params p = {
        .kind = rule->kind, .learning_rate = 0.02f, .weight_decay = 0.1f, .groups = GROUPS
    };
    if (copse__rule_row(p.kind)->has & COPSE_HAS_L1) {
        p.l1 = 0.02f;
        p.l2 = 0.5f;
    }
    return p;
}

/* ---- the truth ---- */

static void run_truth(const struct copse_optimizer_params *p, double value[ALL])
{
    static double slots[COPSE_RULE_OWN_SLOTS][ALL], gradient[ALL], size[ALL];
    int at = 0;
    for (int k = 0; k < VARIABLES; at += parts[k++].count) {
        struct copse_optimizer_params own = *p;
        struct copse_rule rule;
        own.groups = NULL;
        own.learning_rate *= parts[k].factor;
        if (parts[k].decay >= 0.0f)
            own.weight_decay = parts[k].decay;
        OK(copse__rule_init(&own, &rule));
        const struct copse_conform_variable v = {
            (size_t)parts[k].count, value + at, { slots[0], slots[1], slots[2] }, size
        };
        for (int i = 0; i < parts[k].count; i++) {
            value[at + i] = (double)first_value(at + i);
            for (int s = 0; s < COPSE_RULE_OWN_SLOTS; s++)
                slots[s][i] = (double)rule.slot_starts[s];
        }
        for (int t = 1; t <= STEPS && !parts[k].is_frozen; t++) {
            for (int i = 0; i < parts[k].count; i++)
                gradient[i] = gradient_of(t - 1, at + i);
            copse__conform_update(&rule, t, gradient, &v);
        }
    }
}

/* ---- a run ---- */

/* As `create`, and the gradients are counted. */
static copse_status create_counted(copse_strategy *st, const struct copse_optimizer_params *p,
                                   struct model *m, copse_trainer **out)
{
    COPSE_TRY(model_create(m, st));
    return copse_trainer_create(
        st,
        &(struct copse_trainer_params){
            .loss = model_loss, .user = m, .optimizer = *p, .transform = count_pairs },
        out);
}

static copse_status run(copse_strategy *st, const struct copse_optimizer_params *p,
                        float value[ALL])
{
    struct model m;
    copse_trainer *t;
    COPSE_TRY(create(st, p, &m, &t));
    copse_status s = train(t, 0, STEPS);
    if (!s)
        s = read_values(&m, value);
    copse_trainer_release(&t);
    return s;
}

static void compare(const struct copse_optimizer_params *p, const char *name,
                    const float value[ALL])
{
    const double limit = p->kind == COPSE_ADAM8 ? 0.02 : 1e-5; /* the truth has no codes */
    double want[ALL];
    run_truth(p, want);
    int at = 0;
    for (int k = 0; k < VARIABLES; at += parts[k++].count)
        for (int i = at; i < at + parts[k].count; i++)
            if (parts[k].is_frozen ? value[i] != first_value(i)
                                   : !(fabs((double)value[i] - want[i]) <= limit))
                fail_msg("%s, %s: element %d of %s is %.9g, not %.9g",
                         copse_optimizer_rule_at((size_t)p->kind)->name, name, i - at,
                         parts[k].name, (double)value[i], want[i]);
}

static void every_rule_under_every_strategy(void **state)
{
    const char *name;
    float value[ALL];
    copse_strategy *st;
    (void)state;
    for (size_t k = 0; copse_optimizer_rule_at(k); k++) {
        const struct copse_optimizer_params p = settings_of(k);
        for (int i = 0; (st = strategy_of(i, &name)); i++) {
            OK(run(st, &p, value));
            compare(&p, name, value);
            copse_strategy_release(&st);
        }
    }
}

static float halving(void *user, uint64_t step)
{
    (void)user;
    return step < 3 ? 0.04f : 0.02f;
}

static void a_schedule_is_multiplied(void **state)
{
    const struct copse_optimizer_params p = {
        .kind = COPSE_SGD, .schedule = halving, .groups = GROUPS, .average = 0.5f
    };
    const char *name;
    float value[ALL];
    double sum[2][ALL] = { { 0 } };
    copse_strategy *st;
    (void)state;
    for (int i = 0; i < ALL; i++)
        for (int t = 0; t < STEPS; t++)
            sum[t >= 2][i] += gradient_of(t, i);
    for (int i = 0; (st = strategy_of(i, &name)); i++) {
        int at = 0;
        OK(run(st, &p, value));
        for (int k = 0; k < VARIABLES; k++)
            for (int e = at + parts[k].count; at < e; at++) {
                /* the decay of *.bias is 0.5: only groups without it have this closed form */
                const double change =
                    (double)parts[k].factor * (0.04 * sum[0][at] + 0.02 * sum[1][at]);
                const double want = (double)first_value(at) - (parts[k].is_frozen ? 0.0 : change);
                if (parts[k].decay < 0.0f && !(fabs((double)value[at] - want) <= 2e-6))
                    fail_msg("%s: element %d is %.9g, not %.9g", name, at, (double)value[at], want);
            }
        copse_strategy_release(&st);
    }
}

/* Groups that change nothing give the bits of a run without groups. */
static void neutral_groups_keep_the_bits(void **state)
{
    static const copse_optimizer_kind kinds[] = { COPSE_ADAM, COPSE_NESTEROV, COPSE_PROXIMAL_SGD };
    const char *name;
    float with[ALL], without[ALL];
    copse_strategy *st;
    (void)state;
    for (size_t k = 0; k < 3; k++)
        for (int i = 0; (st = strategy_of(i, &name)); i++) {
            struct copse_optimizer_params p = settings_of(kinds[k]);
            p.groups = "*.bias: rate=1; body*, head*: decay=0.1";
            OK(run(st, &p, with));
            copse_strategy_release(&st);
            st = strategy_of(i, &name);
            p.groups = NULL;
            OK(run(st, &p, without));
            copse_strategy_release(&st);
            assert_memory_equal(with, without, sizeof with);
        }
}

/* Commands of all segments of the newest recording of replica 0. */
static size_t commands_of(const copse_trainer *t)
{
    copse_program *program = t->recordings.of[0].at[0]->program;
    size_t sum = 0;
    for (uint32_t i = 0; i < copse__program_segments(program); i++)
        sum += copse__program_list(program)[i]->count;
    return sum;
}

/* A step on one device: its commands, and whether it writes the memory of the gradients of each
   variable. */
static size_t look_at_step(const char *groups, struct model *m, bool has_gradient[VARIABLES])
{
    static const float mark = 12345.0f;
    const struct copse_optimizer_params p = { .kind = COPSE_ADAM, .groups = groups };
    const char *name;
    float slot[300], first;
    copse_trainer *t;
    copse_strategy *st = strategy_of(ONE_DEVICE, &name);
    copse_queue *q = st->replicas[0].queue;
    OK(create_counted(st, &p, m, &t));
    for (int k = 0; k < VARIABLES; k++) {
        const struct copse_binding at = copse__variable_gradient(m->v[k], 0);
        OK(copse_queue_write(q, at.buffer, at.offset, &mark, sizeof mark));
    }
    OK(train(t, 0, 1));
    for (int k = 0; k < VARIABLES; k++) {
        const struct copse_binding at = copse__variable_gradient(m->v[k], 0);
        OK(copse_queue_read(q, at.buffer, at.offset, &first, sizeof first));
        OK(copse_queue_finish(q));
        has_gradient[k] = first != mark;
        assert_int_equal(copse_trainer_slot(t, m->v[k], "m", slot),
                         has_gradient[k] ? COPSE_OK : COPSE_ERR_ARGUMENT);
    }
    const size_t commands = commands_of(t);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    return commands;
}

/* Frozen variables have no gradients and no slots. A trainer of all others alone has as many
   commands. */
static void nothing_is_computed_for_frozen_variables(void **state)
{
    struct model m;
    bool all[VARIABLES], has[VARIABLES];
    (void)state;
    const size_t most = look_at_step(NULL, &m, all);
    assert_int_equal(pairs_seen, VARIABLES);
    const size_t fewer = look_at_step("*.weight: frozen", &m, has);
    assert_int_equal(pairs_seen, 2);
    for (int k = 0; k < VARIABLES; k++) {
        assert_true(all[k]);
        assert_int_equal(has[k], strstr(parts[k].name, "bias") != NULL);
    }
    assert_int_equal(most - fewer, 3); /* a copy of the gradient of each frozen variable */
}

/* ---- gradients that are zero or not finite ---- */

/* The step has x = `of_body` for body.weight, `of_stem` for stem.weight, 0 elsewhere. */
static void train_odd(copse_trainer *t, float of_body, float of_stem)
{
    static float x[ROWS * ALL];
    for (int i = 0; i < ROWS * ALL; i++)
        x[i] = i % ALL < 300 ? of_body : i % ALL >= 307 && i % ALL < 437 ? of_stem : 0.0f;
    const struct copse_column column = { "x", COPSE_F32, COPSE_SHAPE(ALL), x };
    const struct copse_host_batch batch = { .columns = &column, .column_count = 1, .count = ROWS };
    OK(copse_trainer_step(t, &batch));
}

static void odd_gradients_stay_in_their_group(void **state)
{
    static const float odd[] = { INFINITY, NAN };
    const char *name;
    float value[ALL];
    (void)state;
    for (int strategy = 0; strategy < STRATEGIES; strategy++)
        for (int k = 0; k < 3 && strategy != ACCELERATOR; k++) { /* it has runs, no steps */
            copse_strategy *st = strategy_of(strategy, &name);
            struct copse_optimizer_params p = { .kind = COPSE_SGD,
                                                .learning_rate = 0.5f,
                                                .groups = GROUPS };
            struct model m;
            copse_trainer *t;
            if (k == 2)
                p.clip_global_norm = 1.0f;
            OK(create(st, &p, &m, &t));
            train_odd(t, k == 2 ? 0.0f : odd[k], odd[k % 2]);
            OK(read_values(&m, value));
            for (int i = 0; i < ALL; i++) {
                const bool is_bias = (i >= 300 && i < 307) || i >= 577;
                const float want =
                    is_bias ? first_value(i) - 1.0f * (0.5f * first_value(i)) : first_value(i);
                if (i < 300 && k < 2 ? isfinite(value[i]) : value[i] != want)
                    fail_msg("%s, %d: element %d is %g", name, k, i, (double)value[i]);
            }
            copse_trainer_release(&t);
            copse_strategy_release(&st);
        }
}

/* ---- several workers ---- */

static float of_worker[4][ALL];

static copse_status run_in_worker(struct worker *w, copse_strategy *st)
{
    return run(st, w->job, of_worker[w->rank]);
}

static void workers_have_the_same_groups(void **state)
{
    const struct copse_optimizer_params p = settings_of(COPSE_ADAM);
    struct worker w[2];
    (void)state;
    host_alone();
    run_workers_over(&copse__transport_local, w, 2, 2, &p, run_in_worker);
    assert_all_ok(w, 2);
    compare(&p, "two workers", of_worker[0]);
    assert_memory_equal(of_worker[0], of_worker[1], sizeof of_worker[0]);
    devices_back();
}

static copse_status run_with_own(struct worker *w, copse_strategy *st)
{
    struct copse_optimizer_params p = settings_of(COPSE_SGD);
    if (w->rank == 1)
        p.groups = "*.bias: frozen";
    return run(st, &p, of_worker[w->rank]);
}

static void other_groups_of_a_worker_are_refused(void **state)
{
    struct worker w[2];
    (void)state;
    host_alone();
    run_workers_over(&copse__transport_local, w, 2, 1, NULL, run_with_own);
    for (int i = 0; i < 2; i++) {
        assert_int_not_equal(w[i].status, COPSE_OK);
        assert_non_null(strstr(w[i].text, "settings of the trainer"));
    }
    devices_back();
}

/* ---- state ---- */

static void checkpoints_keep_groups(void **state)
{
    struct copse_optimizer_params p = settings_of(COPSE_ADAM);
    float whole[ALL], cut[ALL];
    const char *name;
    copse_strategy *st;
    struct model m;
    copse_trainer *t;
    (void)state;
    temp_begin();
    for (int i = 0; (st = strategy_of(i, &name)); i++) {
        p.groups = GROUPS;
        OK(run(st, &p, whole));
        copse_strategy_release(&st);
        st = strategy_of(i, &name);
        OK(create(st, &p, &m, &t));
        OK(train(t, 0, 2));
        OK(copse_trainer_checkpoint(t, temp_path("cut"), NULL));
        copse_trainer_release(&t);
        copse_strategy_release(&st);
        st = strategy_of(i, &name);
        /* another spelling */
        p.groups = "body.weight:rate=.25;*.bias:rate=2,decay=5e-1;st?m*:frozen;";
        OK(create(st, &p, &m, &t));
        OK(copse_trainer_restore(t, temp_path("cut"), NULL, NULL));
        OK(train(t, 2, STEPS));
        OK(read_values(&m, cut));
        assert_memory_equal(cut, whole, sizeof whole);
        copse_trainer_release(&t);
        copse_strategy_release(&st);
        st = strategy_of(i, &name);
        p.groups = "*.bias: frozen";
        OK(create(st, &p, &m, &t));
        assert_int_equal(copse_trainer_restore(t, temp_path("cut"), NULL, NULL),
                         COPSE_ERR_ARGUMENT);
        assert_non_null(strstr(copse_last_error(),
                               "was made with the parameter groups \"body.weight: rate=0.25; "));
        assert_non_null(strstr(copse_last_error(), "the trainer has \"*.bias: frozen\""));
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
    temp_end();
}

/* ---- what is refused ---- */

static void wrong_texts_are_refused(void **state)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        { "*.bias", "write PATTERN: SETTINGS" },
        { ": frozen", "a pattern of 1 to 63 bytes" },
        { "*.bias:", "rate=F with F > 0" },
        { "*.bias: rate=0", "\"rate=0\"" },
        { "*.bias: rate=-1", "rate=F with F > 0" },
        { "*.bias: rate=nan", "rate=F with F > 0" },
        { "*.bias: decay=inf", "decay=D with D >= 0" },
        { "*.bias: decay=-1", "decay=D with D >= 0" },
        { "*.bias: decay=0, decay=1", "at most once" },
        { "*.bias: thawed", "\"thawed\"" },
        { "*.bias: frozen, rate=2", "a frozen group has no rate" },
        { "a:rate=1;a:rate=2;a:rate=3;a:rate=4;a:rate=5;a:rate=6;a:rate=7;a:rate=8;a:rate=9",
          "a ninth value of rate" },
    };
    char many[4 * 40] = "";
    (void)state;
    OK(copse_parameter_groups_check(""));
    OK(copse_parameter_groups_check(" "));
    OK(copse_parameter_groups_check(" *.bias , a? : decay=0 , rate=1e-3 ; b : frozen ; "));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(copse_parameter_groups_check(wrong[i].text), COPSE_ERR_ARGUMENT);
        if (!strstr(copse_last_error(), wrong[i].says))
            fail_msg("%s: %s", wrong[i].text, copse_last_error());
    }
    for (int i = 0; i < 33; i++)
        strcat(many, i < 32 ? "a, " : "a: frozen");
    assert_int_equal(copse_parameter_groups_check(many), COPSE_ERR_ARGUMENT);
    assert_non_null(strstr(copse_last_error(), "32 are possible"));
}

static void refuses(const char *groups, const char *says)
{
    const struct copse_optimizer_params p = { .kind = COPSE_SGD, .groups = groups };
    const char *name;
    struct model m;
    copse_trainer *t;
    copse_strategy *st = strategy_of(ONE_DEVICE, &name);
    assert_int_equal(create(st, &p, &m, &t), COPSE_ERR_ARGUMENT);
    if (!strstr(copse_last_error(), says))
        fail_msg("%s: %s", groups, copse_last_error());
    copse_strategy_release(&st);
}

static void patterns_without_a_match_are_refused(void **state)
{
    (void)state;
    refuses("*.bias: decay=0; hed.wieght: frozen",
            "\"hed.wieght\" matches no trained variable; close names are 'head.weight', ");
    refuses("*.baas: decay=0", "close names are 'body.bias', 'head.bias', ");
    refuses("conv?.*: frozen", "\"conv?.*\" matches no trained variable");
    refuses("*: frozen", "freeze all variables");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_under_every_strategy),
        cmocka_unit_test(a_schedule_is_multiplied),
        cmocka_unit_test(neutral_groups_keep_the_bits),
        cmocka_unit_test(nothing_is_computed_for_frozen_variables),
        cmocka_unit_test(odd_gradients_stay_in_their_group),
        cmocka_unit_test(workers_have_the_same_groups),
        cmocka_unit_test(other_groups_of_a_worker_are_refused),
        cmocka_unit_test(checkpoints_keep_groups),
        cmocka_unit_test(wrong_texts_are_refused),
        cmocka_unit_test(patterns_without_a_match_are_refused),
    };
    make_data();
    return cmocka_run_group_tests(tests, open_workers, close_workers);
}
