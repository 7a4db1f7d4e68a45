/* SPDX-License-Identifier: MIT */
/* Names that a checkpoint cannot have, or would have twice, are refused when variables and
   optimizers are made. */
#include "copse/compat/replicated.h"
#include "copse/data/checkpoint.h"
#include "copse/distribute/partition.h"
#include "tests/rig/data/temp_files.h"
#include "tests/rig/one_context.h"
#include "tests/rig/rig.h"

static int open_files(void **state)
{
    temp_begin();
    return open_context(state);
}

static int close_files(void **state)
{
    temp_end();
    return close_context(state);
}

static copse_strategy *make_strategy(void)
{
    copse_strategy *st;
    OK(copse_one_device_create(ctx, "host:0", NULL, &st));
    return st;
}

static copse_status make(copse_strategy *st, const char *name)
{
    copse_variable *v;
    return copse_variable_create(
        st, &(struct copse_variable_params){ .name = name, .shape = COPSE_SHAPE(2) }, &v);
}

static copse_status make_frozen(copse_strategy *st, const char *name)
{
    copse_variable *v;
    const struct copse_variable_params p = { .name = name,
                                             .shape = COPSE_SHAPE(2),
                                             .is_frozen = true };
    return copse_variable_create(st, &p, &v);
}

static copse_tensor *sum_of_all(copse_graph *g, const copse_batch *in, void *user)
{
    copse_variable *const *list;
    size_t count;
    copse_tensor *x = copse_input(in, "x");
    copse_strategy_variables(user, &list, &count);
    for (size_t i = 0; i < count; i++)
        x = copse_mul(g, x, copse_variable_tensor(list[i]));
    return copse_mean(g, x, NULL, 0, false);
}

static copse_status make_trainer(copse_strategy *st, copse_optimizer_kind kind, copse_trainer **t)
{
    const struct copse_trainer_params p = { .loss = sum_of_all,
                                            .user = st,
                                            .optimizer = { .kind = kind, .learning_rate = 0.1f } };
    return copse_trainer_create(st, &p, t);
}

static void step_and_save(copse_trainer *t)
{
    const float x[2] = { 1, 2 };
    const struct copse_column column = { "x", COPSE_F32, { 1, { 2 } }, x };
    const struct copse_host_batch batch = { .columns = &column, .column_count = 1, .count = 1 };
    OK(copse_trainer_step(t, &batch));
    OK(copse_trainer_checkpoint(t, temp_path("checkpoint"), NULL));
    OK(copse_trainer_restore(t, temp_path("checkpoint"), NULL, NULL));
}

static void names_that_no_file_can_have(void **unused)
{
    static const struct {
        const char *name, *text;
    } wrong[] = {
        { "", "needs a name" },
        { "w\xff", "not UTF-8 at byte 1" },
        { "\xc0\x80", "not UTF-8 at byte 0" },
        { "__metadata__", "is reserved" },
        { "application/w", "is reserved" },
    };
    char most[930];
    copse_strategy *st = make_strategy();
    copse_partitioned *parts;
    copse_trainer *t;
    (void)unused;
    memset(most, 'n', sizeof most);
    most[929] = '\0';
    FAILS(COPSE_ERR_ARGUMENT, make(st, most), "at most 928 bytes");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct copse_variable_params p = { .name = wrong[i].name, .shape = COPSE_SHAPE(2) };
        FAILS(COPSE_ERR_ARGUMENT, make(st, wrong[i].name), wrong[i].text);
        FAILS(COPSE_ERR_ARGUMENT, copse_partitioned_create(st, &p, 2, &parts), wrong[i].text);
    }
    most[928] = '\0';
    OK(make(st, most));
    /* control characters are escaped in the file */
    OK(make(st, "gr\xc3\xbc\xc3\x9f"
                "e \x01\n\"\\"));
    OK(make_trainer(st, COPSE_ADAM, &t));
    step_and_save(t);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

static void a_trainer_whose_slots_are_variables(void **unused)
{
    copse_strategy *st = make_strategy();
    copse_trainer *t;
    (void)unused;
    OK(make(st, "w"));
    OK(make(st, "w/m"));
    FAILS(COPSE_ERR_ARGUMENT, make_trainer(st, COPSE_ADAM, &t), "slot 'm' of variable 'w'");
    OK(make_trainer(st, COPSE_SGD, &t)); /* has no slots */
    step_and_save(t);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

static void a_variable_after_the_trainer(void **unused)
{
    copse_strategy *st = make_strategy();
    copse_partitioned *parts;
    copse_trainer *t;
    const struct copse_variable_params p = { .name = "w/v",
                                             .shape = COPSE_SHAPE(2),
                                             .is_frozen = true };
    (void)unused;
    OK(make(st, "w"));
    OK(make_trainer(st, COPSE_ADAM, &t));
    FAILS(COPSE_ERR_ARGUMENT, make_frozen(st, "w/m"), "slot 'm' of variable 'w'");
    FAILS(COPSE_ERR_ARGUMENT, copse_partitioned_create(st, &p, 2, &parts),
          "slot 'v' of variable 'w'");
    OK(make_frozen(st, "w/x"));
    step_and_save(t);
    copse_trainer_release(&t);
    OK(make_frozen(st, "w/m"));
    copse_strategy_release(&st);
}

static void a_variable_and_a_partitioned_one(void **unused)
{
    copse_strategy *st = make_strategy();
    copse_partitioned *parts, *more;
    copse_trainer *t;
    const struct copse_variable_params w = { .name = "w", .shape = COPSE_SHAPE(2) };
    const struct copse_variable_params x = { .name = "x", .shape = COPSE_SHAPE(2) };
    (void)unused;
    OK(copse_partitioned_create(st, &w, 2, &parts));
    FAILS(COPSE_ERR_ARGUMENT, make(st, "w"), "the name is taken");
    OK(make_frozen(st, "x"));
    FAILS(COPSE_ERR_ARGUMENT, copse_partitioned_create(st, &x, 2, &more), "the name is taken");
    OK(make_frozen(st, "w/m"));
    FAILS(COPSE_ERR_ARGUMENT, make_trainer(st, COPSE_ADAM, &t), "slot 'm' of variable 'w/part_0'");
    copse_partitioned_release(&parts);
    copse_strategy_release(&st);
}

/* ---- tower optimizers, which meet their variables one by one ---- */

struct gift {
    copse_tower_optimizer *tower;
    copse_variable *v;
};

static copse_status give(copse_replica_context *rc, copse_value *const *args, size_t count,
                         void *user, copse_value **result)
{
    const struct gift *g = user;
    copse_value *one;
    (void)rc, (void)args, (void)count, (void)result;
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(2), (const float[]){ 1, 1 }, &one));
    const copse_status s =
        copse_tower_apply(g->tower, &(struct copse_tower_gradient){ one, g->v }, 1, true);
    copse_value_release(&one);
    return s;
}

static void make_tower(copse_strategy *st, const char *name, copse_tower_optimizer **out)
{
    const struct copse_tower_params p = {
        .name = name, .optimizer = { .kind = COPSE_ADAM, .learning_rate = 0.1f }
    };
    OK(copse_tower_create(st, &p, out));
}

static void slots_of_tower_optimizers(void **unused)
{
    copse_strategy *st = make_strategy();
    copse_tower_optimizer *inner, *outer, *none;
    struct gift g;
    (void)unused;
    const struct copse_tower_params no_text = { .name = "\xff" };
    FAILS(COPSE_ERR_ARGUMENT, copse_tower_create(st, &no_text, &none), "not UTF-8");
    make_tower(st, "b", &inner);
    make_tower(st, "a/b", &outer);
    const struct copse_variable_params w = { .name = "w", .shape = COPSE_SHAPE(2) };
    OK(copse_variable_create(st, &w, &g.v));
    g.tower = inner;
    OK(copse_strategy_run(st, give, NULL, 0, &g, NULL));
    FAILS(COPSE_ERR_ARGUMENT, make_frozen(st, "w/b/m"), "slot 'm' of variable 'w'");
    OK(make_frozen(st, "w/a/b/v"));
    g.tower = outer;
    FAILS(COPSE_ERR_ARGUMENT, copse_strategy_run(st, give, NULL, 0, &g, NULL),
          "slot 'v' of variable 'w'");
    OK(copse_replicated_checkpoint(st, temp_path("checkpoint"), NULL));

    const struct copse_variable_params wa = { .name = "w/a", .shape = COPSE_SHAPE(2) };
    g.tower = inner;
    OK(copse_variable_create(st, &wa, &g.v)); /* "w/a" and "b", as "w" and "a/b" */
    OK(copse_tower_finish(outer));
    FAILS(COPSE_ERR_ARGUMENT, copse_strategy_run(st, give, NULL, 0, &g, NULL),
          "slot 'v' of variable 'w/a'");
    copse_tower_release(&inner);
    copse_tower_release(&outer);
    copse_strategy_release(&st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_no_file_can_have),
        cmocka_unit_test(a_trainer_whose_slots_are_variables),
        cmocka_unit_test(a_variable_after_the_trainer),
        cmocka_unit_test(a_variable_and_a_partitioned_one),
        cmocka_unit_test(slots_of_tower_optimizers),
    };
    return cmocka_run_group_tests(tests, open_files, close_files);
}
