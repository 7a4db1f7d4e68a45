/* SPDX-License-Identifier: MIT */
/* Several adapters of a model are their sum. */
#include "tests/language/adapter_rig.h"

enum { NUMBERS = sizeof net / sizeof(float) };

/* Two adapters of other ranks, scales and weights, as files "a" and "b.gguf"; what each adds to the
   weights of the reference. */
static float added[2][NUMBERS];
static const char *const names[] = { "a", "b.gguf" };

static void save_two(const struct kind *k)
{
    static const struct {
        struct copse_adapter_params how;
        double scale;
    } rows[] = {
        { { .rank = RANK, .alpha = 1, .is_rank_stabilised = true }, 0.57735026918962576 },
        { { .rank = 5, .alpha = 2, .targets = "q_proj,*.1.mlp.*" }, 0.4 },
    };
    static float before[NUMBERS];
    for (int i = 0; i < 2; i++) {
        open_kind(k);
        memcpy(before, &net, sizeof before);
        OK(copse_language_adapt(language, &rows[i].how));
        fill_matrices();
        merge_all(rows[i].scale);
        OK(copse_language_save_adapter(language, path_of(names[i])));
        close_file();
        for (size_t n = 0; n < NUMBERS; n++)
            added[i][n] = ((const float *)&net)[n] - before[n];
    }
}

static copse_status load_two(const float *factors)
{
    const char *const paths[] = { path_of(names[0]), path_of(names[1]) };
    return copse_language_load_adapters(language, paths, factors, 2);
}

static void test_sum(void **state)
{
    static const float factors[][2] = { { 1, 1 }, { 0.5f, -2 }, { 1e-6f, 1 } };
    (void)state;
    on = "host:0";
    save_two(&llama);
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        for (uint32_t d = 0; d < found_count; d++) {
            struct copse_adapter_info info;
            on = found[d];
            open_kind(&llama);
            const double without = evaluate();
            OK(load_two(i == 0 ? NULL : factors[i]));
            OK(copse_language_describe_adapter(language, &info));
            assert_int_equal(info.rank, RANK + 5);
            assert_int_equal(info.weights, 7 * LAYERS);
            assert_true(info.scale == 1.0f && info.dropout == 0.0f && !info.is_rank_stabilised);
            for (size_t n = 0; n < NUMBERS; n++)
                ((float *)&net)[n] += factors[i][0] * added[0][n] + factors[i][1] * added[1][n];
            const double is = evaluate(), wanted = reference_loss(&llama);
            if (!(fabs(is - wanted) < 3e-5) || fabs(wanted - without) < 1e-3)
                fail_msg("%s, row %zu: loss %.9g, not %.9g; without adapters %.9g", on, i, is,
                         wanted, without);
            /* it is an adapter as others */
            OK(copse_language_save_adapter(language, path_of("sum")));
            close_file();
            open_kind(&llama);
            OK(copse_language_load_adapter(language, path_of("sum")));
            const double again = evaluate();
            assert_memory_equal(&is, &again, sizeof is);
            close_file();
        }
}

/* A factor of one adapter; the factor 1 leaves it as it is. */
static void test_one(void **state)
{
    const float factors[] = { 1, 0.25f };
    (void)state;
    on = "host:0";
    save_two(&llama);
    for (int i = 0; i < 2; i++) {
        struct copse_adapter_info info;
        const char *const path = path_of(names[0]);
        open_kind(&llama);
        OK(copse_language_load_adapters(language, &path, &factors[i], 1));
        OK(copse_language_describe_adapter(language, &info));
        assert_int_equal(info.rank, RANK);
        assert_true(info.is_rank_stabilised == (i == 0) && info.alpha == (i ? 3.0f : 1.0f));
        for (size_t n = 0; n < NUMBERS; n++)
            ((float *)&net)[n] += factors[i] * added[0][n];
        assert_true(fabs(evaluate() - reference_loss(&llama)) < 3e-5);
        close_file();
    }
}

static void test_refused(void **state)
{
    static const float wrong[][2] = { { 1, 0 }, { NAN, 1 }, { 1, -INFINITY }, { 1e31f, 1 } };
    char wide[300];
    const char *const paths[] = { wide, wide };
    (void)state;
    on = "host:0";
    save_two(&llama);
    snprintf(wide, sizeof wide, "%s", path_of("wide"));
    open_adapted(&(struct copse_adapter_params){ .rank = 600, .targets = "v_proj" });
    OK(copse_language_save_adapter(language, paths[0]));
    FAILS(COPSE_ERR_ARGUMENT, load_two(NULL), "has an adapter of rank 600");
    close_file();
    open_kind(&llama);
    const double before = evaluate();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        FAILS(COPSE_ERR_ARGUMENT, load_two(wrong[i]), "the factor of ");
    FAILS(COPSE_ERR_ARGUMENT, copse_language_load_adapters(language, paths, NULL, 0), "no path");
    FAILS(COPSE_ERR_ARGUMENT, copse_language_load_adapters(language, paths, NULL, 2),
          "the ranks are 1200 together; 1024 are allowed");
    FAILS(COPSE_ERR_IO,
          copse_language_load_adapters(
              language, (const char *const[]){ path_of(names[0]), path_of("missing") }, NULL, 2),
          "missing");
    const double after = evaluate();
    assert_memory_equal(&before, &after, sizeof before);
    close_file();
    open_adapted(&(struct copse_adapter_params){ .rank = 1, .is_dora = true });
    OK(copse_language_save_adapter(language, wide));
    close_file();
    open_kind(&llama);
    FAILS(COPSE_ERR_UNSUPPORTED, copse_language_load_adapters(language, paths, NULL, 2),
          "has magnitudes (DoRA), which cannot be added to others");
    FAILS(COPSE_ERR_UNSUPPORTED,
          copse_language_load_adapters(language, paths, (const float[]){ 0.5f }, 1),
          "has magnitudes (DoRA)");
    OK(load_two(NULL)); /* after all these right ones are taken */
    close_file();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum),
        cmocka_unit_test(test_one),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
