/* SPDX-License-Identifier: MIT */
/* Checkpoints of a trainer: everything is in them, and they do not depend on replicas and
   devices. */
#include <locale.h>
#include <math.h>

#include "core/state/state.h"
#include "core/variable/storage.h"
#include "tests/rig/train/state_rig.h"

/* Everything that a run has come to: all replicas' values, and a checkpoint's bytes. */
static void check_same_state(struct life *a, struct life *b)
{
    const size_t bytes = model_parameters() * sizeof(float);
    float *first = job_values(&a->j, 0);
    assert_non_null(first);
    for (uint32_t r = 0; r < copse_strategy_replicas(copse_trainer_strategy(b->t)); r++) {
        float *values = job_values(&b->j, r);
        assert_non_null(values);
        assert_memory_equal(first, values, bytes);
        free(values);
    }
    free(first);
    assert_int_equal(copse_trainer_steps(a->t), copse_trainer_steps(b->t));
}

/* Arrays of two checkpoints, whatever their metadata. */
static void check_same_arrays(const char *a, const char *b)
{
    copse_checkpoint *x, *y;
    size_t count, count_y;
    OK(copse_checkpoint_read(ctx, a, &x));
    OK(copse_checkpoint_read(ctx, b, &y));
    const struct copse_named_array *list = copse_checkpoint_arrays(x, &count);
    copse_checkpoint_arrays(y, &count_y);
    assert_int_equal(count, count_y);
    for (size_t i = 0; i < count; i++) {
        const struct copse_array_view *other = copse_checkpoint_find(y, list[i].name);
        size_t n = 1;
        assert_non_null(other);
        for (uint32_t d = 0; d < list[i].array.rank; d++)
            n *= list[i].array.shape[d];
        assert_memory_equal(list[i].array.data, other->data, 4 * n);
    }
    copse_checkpoint_release(&x);
    copse_checkpoint_release(&y);
}

/* ---- going on ---- */

static const struct copse_optimizer_params optimizers[] = {
    { .kind = COPSE_ADAM },
    { .kind = COPSE_SGD, .learning_rate = 0.05f },
    { .kind = COPSE_MOMENTUM, .learning_rate = 0.02f, .weight_decay = 0.01f },
    { .kind = COPSE_ADAMW, .weight_decay = 0.01f },
};

static void goes_on_bit_for_bit(const struct job *like)
{
    struct job j = *like;
    struct life whole, cut, other;
    begin(&whole, &j);
    steps(&whole, 12); /* with a last, partial batch, and into the second epoch */

    begin(&cut, &j);
    steps(&cut, 5);
    save(&cut, temp_path("a"));
    steps(&cut, 2); /* lost */
    end(&cut);

    j.seed = 99; /* the checkpoint's counts */
    begin(&other, &j);
    steps(&other, 1);
    load(&other, temp_path("a"));
    save(&other, temp_path("b"));
    temp_check_same(temp_path("a"), temp_path("b"));
    steps(&other, 7);
    check_same_state(&whole, &other);
    save(&whole, temp_path("a"));
    save(&other, temp_path("b"));
    temp_check_same(temp_path("a"), temp_path("b"));
    end(&other);
    end(&whole);
}

/* Every optimizer on replicas of the host and on a mixture, in one bucket and in several; on all
   others the one with most slots. */
static void a_restored_run_goes_on_bit_for_bit(void **state)
{
    (void)state;
    const size_t all = job_mixtures(ctx);
    for (size_t i = 0; i < all; i++)
        for (size_t k = 0; k < sizeof optimizers / sizeof *optimizers; k++) {
            struct job j = { .optimizer = optimizers[k],
                             .seed = 11,
                             .strategy = { .bucket_bytes = i % 2 ? 512 : 0 } };
            job_devices(ctx, &j, i);
            if (k == 0 || i == 2 || i == 3 || i == 5 || i == 6)
                goes_on_bit_for_bit(&j);
        }
}

/* One entry per variable: neither the number of replicas nor the devices show in the file. */
static void replicas_and_devices_may_change(void **state)
{
    (void)state;
    const size_t all = job_mixtures(ctx);
    struct life l;
    struct job j = { .strategy = { .bucket_bytes = 1024 } };
    job_devices(ctx, &j, 1); /* two replicas */
    begin(&l, &j);
    steps(&l, 6);
    save(&l, temp_path("a"));
    for (size_t i = 0; i < all; i++)
        for (int algorithm = COPSE_REDUCE_SHARDED; algorithm <= COPSE_REDUCE_TO_ONE; algorithm++) {
            struct job other = { .strategy = { .reduction = (copse_reduce_algorithm)algorithm,
                                               .bucket_bytes = 256 << (i % 4) } };
            struct life o;
            job_devices(ctx, &other, i);
            begin(&o, &other);
            load(&o, temp_path("a"));
            check_same_state(&l, &o);
            save(&o, temp_path("b"));
            check_same_arrays(temp_path("a"), temp_path("b"));
            steps(&o, 1); /* and it trains */
            end(&o);
        }
    end(&l);
}

/* The number of replicas does not change what is learned, only how sums round. */
static void another_number_of_replicas_trains_alike(void **state)
{
    (void)state;
    struct job j = { .optimizer = optimizers[0] };
    struct life whole;
    job_devices(ctx, &j, 1);
    begin(&whole, &j);
    steps(&whole, 4);
    save(&whole, temp_path("a"));
    steps(&whole, 6);
    float *wanted = job_values(&whole.j, 0);
    assert_non_null(wanted);
    for (size_t i = 0; i < job_mixtures(ctx); i++) {
        struct life o;
        job_devices(ctx, &j, i);
        begin(&o, &j);
        load(&o, temp_path("a"));
        steps(&o, 6);
        float *values = job_values(&o.j, 0);
        assert_non_null(values);
        assert_true(model_distance(wanted, values) <= 1e-5);
        free(values);
        end(&o);
    }
    free(wanted);
    end(&whole);
}

/* ---- what else is in the file ---- */

static void settings_that_differ_are_named(void **state)
{
    (void)state;
    struct life l;
    struct job j = { 0 };
    begin(&l, &j);
    save(&l, temp_path("a"));
    end(&l);
    warnings = 0;
    begin(&l, &j);
    load(&l, temp_path("a"));
    assert_int_equal(warnings, 0);
    end(&l);
    j.optimizer.learning_rate = 0.5f;
    begin(&l, &j);
    load(&l, temp_path("a"));
    assert_int_equal(warnings, 1);
    end(&l);
}

/* An application may have set a locale whose numbers have a comma. */
static void locales_change_no_byte(void **state)
{
    (void)state;
    static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8",
                                         "nl_NL.UTF-8" };
    struct life l;
    struct job j = { .optimizer = { .kind = COPSE_ADAM, .learning_rate = 0.0125f } };
    const char *set = NULL;
    begin(&l, &j);
    save(&l, temp_path("a"));
    for (size_t i = 0; i < sizeof names / sizeof *names && !set; i++)
        set = setlocale(LC_NUMERIC, names[i]);
    if (set) {
        save(&l, temp_path("b"));
        warnings = 0;
        load(&l, temp_path("a"));
        assert_int_equal(warnings, 0);
        setlocale(LC_NUMERIC, "C");
        temp_check_same(temp_path("a"), temp_path("b"));
    }
    end(&l);
    if (!set) {
        print_message("skipped: no locale with a decimal comma is installed here\n");
        skip();
    }
}

static void applications_keep_their_own(void **state)
{
    (void)state;
    static const double history[3] = { 1.5, NAN, -0.0 };
    const struct copse_named_array arrays[2] = {
        { "application/history",
          { .type = COPSE_F64, .rank = 1, .shape = { 3 }, .data = history } },
        { "application/empty", { .type = COPSE_U8, .rank = 1 } },
    };
    const struct copse_metadata note = { "application.note", "caf\303\251 \"1\"\n" };
    struct copse_state_params p = { .position = { 3, 4 },
                                    .arrays = arrays,
                                    .array_count = 2,
                                    .metadata = &note,
                                    .metadata_count = 1 };
    struct copse_position at;
    copse_checkpoint *file;
    struct life l;
    struct job j = { 0 };
    size_t count;
    begin(&l, &j);
    steps(&l, 1);
    OK(copse_trainer_checkpoint(l.t, temp_path("a"), &p));
    OK(copse_trainer_restore(l.t, temp_path("a"), &at, &file));
    assert_true(at.epoch == 3 && at.batch == 4);
    const struct copse_array_view *a = copse_checkpoint_find(file, "application/history");
    assert_non_null(a);
    assert_memory_equal(a->data, history, sizeof history);
    const struct copse_metadata *metadata = copse_checkpoint_metadata(file, &count);
    bool is_there = false;
    for (size_t i = 0; i < count; i++)
        is_there |=
            strcmp(metadata[i].key, note.key) == 0 && strcmp(metadata[i].value, note.value) == 0;
    assert_true(is_there);
    copse_checkpoint_release(&file);

    struct copse_named_array wrong = arrays[0];
    wrong.name = "history";
    p.arrays = &wrong;
    p.array_count = 1;
    assert_int_equal(copse_trainer_checkpoint(l.t, temp_path("c"), &p), COPSE_ERR_ARGUMENT);
    p.array_count = 0;
    p.metadata = &(struct copse_metadata){ "step", "7" };
    assert_int_equal(copse_trainer_checkpoint(l.t, temp_path("c"), &p), COPSE_ERR_ARGUMENT);
    FILE *none = fopen(temp_path("c"), "rb");
    assert_null(none);
    end(&l);
}

static void nan_does_not_replace_a_good_checkpoint(void **state)
{
    (void)state;
    struct life l;
    struct job j = { 0 };
    float values[32] = { 0 };
    begin(&l, &j);
    steps(&l, 1);
    save(&l, temp_path("a"));
    save(&l, temp_path("b"));
    values[3] = NAN;
    OK(copse_variable_assign(l.j.m.variables[1], values));
    assert_int_equal(copse_trainer_checkpoint(l.t, temp_path("a"), NULL), COPSE_ERR_NONFINITE);
    assert_non_null(strstr(copse_last_error(), "'b0' is NaN at element 3"));
    temp_check_same(temp_path("a"), temp_path("b"));
    load(&l, temp_path("a"));
    OK(copse_trainer_checkpoint(l.t, temp_path("a"), NULL));
    end(&l);
}

/* Variables that replicas keep for themselves, beside the trained ones. */
static void add_local(struct life *l, copse_variable *v[2])
{
    copse_strategy *st = copse_trainer_strategy(l->t);
    OK(copse_variable_create(
        st,
        &(struct copse_variable_params){ .name = "sum",
                                         .shape = COPSE_SHAPE(2),
                                         .synchronization = COPSE_SYNC_ON_READ,
                                         .aggregation = COPSE_AGGREGATION_SUM },
        &v[0]));
    OK(copse_variable_create(
        st,
        &(struct copse_variable_params){ .name = "count",
                                         .shape = COPSE_SHAPE(1),
                                         .type = COPSE_I32,
                                         .synchronization = COPSE_SYNC_ON_READ,
                                         .aggregation = COPSE_AGGREGATION_SUM },
        &v[1]));
}

/* VAR-7 in a file: the sum of the replicas' components; restored on another number of replicas,
   each has its part. As many replicas have their own components again (test_components.c). */
static void var_7(void **state)
{
    (void)state;
    const size_t all = job_mixtures(ctx);
    for (size_t i = 0; i < all; i += 3) {
        struct life l;
        struct job j = { 0 };
        copse_variable *v[2];
        copse_checkpoint *file;
        float sums[2] = { 0, 0 };
        job_devices(ctx, &j, i);
        const uint32_t saved = (uint32_t)j.device_count;
        begin(&l, &j);
        add_local(&l, v);
        for (uint32_t r = 0; r < j.device_count; r++) {
            const float parts[2] = { 4.0f + 2.0f * (float)r, 1.0f - 2.0f * (float)r };
            const int32_t count = 7 * (int32_t)r + 3;
            OK(copse__storage(v[0])->change(v[0], r, COPSE_CHANGE_SET, parts));
            OK(copse__storage(v[1])->change(v[1], r, COPSE_CHANGE_SET, &count));
            sums[0] += parts[0];
            sums[1] += parts[1];
        }
        steps(&l, 1);
        save(&l, temp_path("a"));
        OK(copse_checkpoint_read(ctx, temp_path("a"), &file));
        const struct copse_array_view *sum = copse_checkpoint_find(file, "sum");
        assert_non_null(sum);
        assert_null(copse_checkpoint_find(file, "sum/m")); /* not trained: no slots */
        assert_memory_equal(sum->data, sums, sizeof sums);
        assert_int_equal(copse_checkpoint_find(file, "count")->type, COPSE_I32);
        copse_checkpoint_release(&file);
        for (size_t k = 0; k < 4; k++) {
            struct life o;
            float part[2];
            job_devices(ctx, &j, k);
            begin(&o, &j);
            add_local(&o, v);
            load(&o, temp_path("a"));
            for (uint32_t r = 0; r < j.device_count; r++) {
                OK(copse_variable_read(v[0], r, part));
                assert_true(part[0] == (j.device_count == saved ? 4.0f + 2.0f * (float)r
                                                                : sums[0] / (float)j.device_count));
            }
            OK(copse_trainer_checkpoint(o.t, temp_path("b"), NULL));
            OK(copse_checkpoint_read(ctx, temp_path("b"), &file));
            int32_t count = 0, wanted = 0;
            memcpy(&count, copse_checkpoint_find(file, "count")->data, sizeof count);
            job_devices(ctx, &j, i);
            for (uint32_t r = 0; r < j.device_count; r++)
                wanted += 7 * (int32_t)r + 3;
            assert_int_equal(count, wanted); /* integers exactly */
            copse_checkpoint_release(&file);
            end(&o);
        }
        end(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restored_run_goes_on_bit_for_bit),
        cmocka_unit_test(replicas_and_devices_may_change),
        cmocka_unit_test(another_number_of_replicas_trains_alike),
        cmocka_unit_test(var_7),
        cmocka_unit_test(settings_that_differ_are_named),
        cmocka_unit_test(locales_change_no_byte),
        cmocka_unit_test(applications_keep_their_own),
        cmocka_unit_test(nan_does_not_replace_a_good_checkpoint),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
