/* SPDX-License-Identifier: MIT */
/* What mode launch accepts of a device that flushes subnormal numbers: results of flushed operands
   and products, indices of flushed maxima, and nothing else. */
#include <math.h>

#include "prover/conformance/launch/launch.h"
#include "tests/rig/rig.h"

/* A launch with its words; `after` is what a device returned. */
struct made {
    struct copse_launch launch;
    struct copse_launch_image image;
};

static const struct copse_launch_form *form_of(enum copse_kernel_id kernel, const char *name)
{
    for (size_t i = 0; copse_launch_lists[i]; i++)
        for (size_t k = 0; k < copse_launch_lists[i]->count; k++) {
            const struct copse_launch_form *f = &copse_launch_lists[i]->forms[k];
            if (f->kernel == kernel && strcmp(f->name, name) == 0)
                return f;
        }
    fail_msg("%s has no form '%s'", copse_kernel_table[kernel].name, name);
    return NULL;
}

static double flushed(uint32_t word, double below)
{
    float f;
    memcpy(&f, &word, sizeof f);
    return fabs((double)f) < below ? copysign(0.0, (double)f) : (double)f;
}

#define ALL UINT32_MAX

/* The results of a device that computes with numbers of operand `only` below `below` as zeros, in
   double or, `is_single`, with each sum rounded. */
static void run_with(struct made *m, double below, uint32_t only, bool is_single)
{
    const struct copse_launch *l = &m->launch;
    const struct copse_kernel_row *row = m->image.row;
    struct copse_host_arg args[COPSE_MAX_BINDINGS] = { { 0 } };
    for (uint32_t a = 0; a < row->arg_count; a++) {
        const bool is_real = copse__content_is_real(l->form->contents[a]);
        args[a] = (struct copse_host_arg){ calloc(l->counts[a] + 1, 8), l->counts[a],
                                           is_real && !l->form->is_single && !is_single };
        for (size_t i = 0; i < l->counts[a]; i++)
            if (is_real)
                copse__store(
                    &args[a], i,
                    flushed(m->image.before[a][i], only == ALL || only == a ? below : 0.0));
            else
                ((uint32_t *)args[a].data)[i] = m->image.before[a][i];
    }
    row->law->host(l->params, l->spec, args);
    for (uint32_t a = 0; a < row->arg_count; a++) {
        for (size_t i = 0; i < l->counts[a] && row->args[a].is_written; i++) {
            const float f = (float)copse__load(&args[a], i);
            memcpy(&m->image.after[a][i],
                   args[a].is_double ? (const void *)&f : (const uint32_t *)args[a].data + i, 4);
        }
        free(args[a].data);
    }
}

static void run_on(struct made *m, double below)
{
    run_with(m, below, ALL, false);
}

static void make(struct made *m, enum copse_kernel_id kernel, const char *name,
                 enum copse_values values)
{
    struct copse_limits limits = { .max_group_size = 256, .max_group_count = COPSE_AXIS_GROUPS };
    uint32_t *words[COPSE_MAX_BINDINGS] = { NULL };
    const struct copse_launch_form *f = form_of(kernel, name);
    *m = (struct made){ .launch = {
                            .form = f, .regime = COPSE_REGIME_MANY, .values = values, .seed = 7 } };
    memcpy(m->launch.spec, f->spec, sizeof f->spec);
    copse__launch_size(&m->launch, &limits);
    m->image.launch = &m->launch;
    m->image.row = &copse_kernel_table[kernel];
    for (uint32_t a = 0; a < m->image.row->arg_count; a++) {
        m->image.before[a] = words[a] = calloc(m->launch.counts[a] + 1, 4);
        m->image.after[a] = calloc(m->launch.counts[a] + 1, 4);
        copse__launch_fill(&m->launch, a, words[a]);
    }
    if (f->arrange)
        f->arrange(&m->launch, words);
}

static void drop(struct made *m)
{
    for (uint32_t a = 0; a < COPSE_MAX_BINDINGS; a++) {
        free(m->image.before[a]);
        free(m->image.after[a]);
    }
}

static copse_verdict judge(struct made *m, bool keeps_subnormals)
{
    copse_context *ctx;
    struct copse_conform_outcome out = { .result = { .metric = "" } };
    OK(copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" }, &ctx));
    struct copse_conform_run r = { .ctx = ctx };
    OK(copse__launch_judge(&r, &m->image, keeps_subnormals, &out));
    copse_context_release(&ctx);
    return out.result.verdict;
}

/* A result that flushed operands explain passes on a device that flushes, and fails on one that
   does not. */
static void flushed_results_pass_where_they_may(enum copse_kernel_id kernel, const char *name,
                                                enum copse_values values, double below)
{
    struct made m;
    make(&m, kernel, name, values);
    run_on(&m, 0.0);
    assert_int_equal(judge(&m, true), COPSE_VERDICT_PASS);
    assert_int_equal(judge(&m, false), COPSE_VERDICT_PASS);
    run_on(&m, below);
    assert_int_equal(judge(&m, true), COPSE_VERDICT_FAIL);
    assert_int_equal(judge(&m, false), COPSE_VERDICT_PASS);
    drop(&m);
}

static void places_of_flushed_maxima(void **state)
{
    (void)state;
    flushed_results_pass_where_they_may(COPSE_KERNEL_argmax, "first", COPSE_VALUES_MIXED, 0x1p-126);
    flushed_results_pass_where_they_may(COPSE_KERNEL_argmax, "later", COPSE_VALUES_SUBNORMALS,
                                        0x1p-126);
}

/* x / rms is subnormal although x is not, and is a factor of the result, also of infinity. */
static void flushed_products(void **state)
{
    (void)state;
    flushed_results_pass_where_they_may(COPSE_KERNEL_layer_norm, "RMS, gradient",
                                        COPSE_VALUES_MIXED, 0x1p-122);
}

/* A kernel that takes x by its bits flushes the slope alone: 0 times a large number, where 0 times
   infinity is expected. */
static void one_flushed_operand(void **state)
{
    (void)state;
    struct made m;
    make(&m, COPSE_KERNEL_unary_grad, "pow, exponent -0.5", COPSE_VALUES_SUBNORMALS);
    for (uint32_t only = 0; only < 2; only++) {
        run_with(&m, 0x1p-126, only, false);
        assert_int_equal(judge(&m, true), COPSE_VERDICT_FAIL);
        assert_int_equal(judge(&m, false), COPSE_VERDICT_PASS);
    }
    drop(&m);
}

/* A slot is about as small as the square of a gradient that is no subnormal number. */
static void flushed_squares(void **state)
{
    (void)state;
    struct made m;
    make(&m, COPSE_KERNEL_adaptive, "ftrl", COPSE_VALUES_EXTREMES);
    run_with(&m, 0x1p-62, 0, false);
    assert_int_equal(judge(&m, true), COPSE_VERDICT_FAIL);
    assert_int_equal(judge(&m, false), COPSE_VERDICT_PASS);
    drop(&m);
}

static uint32_t bits_of(float f)
{
    uint32_t word;
    memcpy(&word, &f, sizeof word);
    return word;
}

/* The share of a key, exp(s - m) / sum, may be too small for f32 where the reference has it in
   double. An infinite slope times 0 is NaN then, also on a device that keeps subnormal numbers. */
static void an_underflow_times_infinity(void **state)
{
    (void)state;
    struct made m;
    make(&m, COPSE_KERNEL_attention_grad_query, "causal", COPSE_VALUES_EXTREMES);
    const struct copse_params_attention_grad_query *p = (const void *)m.launch.params;
    m.image.before[6][1] = bits_of(0x1p-126f); /* 1 / sum of the first query */
    /* v of the first key, the only one that it sees */
    m.image.before[2][p->v_first] = bits_of(INFINITY);
    uint32_t *const slope = &m.image.after[7][p->to_first];
    run_on(&m, 0.0);
    for (uint32_t c = 0; c < p->width; c++)
        assert_true((slope[c] & 0x7fffffffu) == bits_of(INFINITY));
    assert_int_equal(judge(&m, true), COPSE_VERDICT_PASS);
    for (uint32_t c = 0; c < p->width; c++)
        slope[c] = bits_of(NAN);
    assert_int_equal(judge(&m, true), COPSE_VERDICT_PASS);
    assert_int_equal(judge(&m, false), COPSE_VERDICT_PASS);
    slope[0] = bits_of(0.0f); /* no number is */
    assert_int_equal(judge(&m, true), COPSE_VERDICT_FAIL);
    run_on(&m, 0.0);
    m.image.before[6][1] = bits_of(1.0f); /* nothing underflows */
    for (uint32_t c = 0; c < p->width; c++)
        slope[c] = bits_of(NAN);
    assert_int_equal(judge(&m, true), COPSE_VERDICT_FAIL);
    drop(&m);
}

/* The update of the smallest normal number is subnormal. */
static void flushed_updates(void **state)
{
    (void)state;
    struct made m;
    make(&m, COPSE_KERNEL_adam, "adamw", COPSE_VALUES_EXTREMES);
    run_on(&m, 0.0);
    size_t changed = 0;
    for (size_t i = 0; i < m.launch.counts[1]; i++) {
        const uint32_t before = m.image.before[1][i] & 0x7fffffffu,
                       after = m.image.after[1][i] & 0x7fffffffu;
        if (before != 0x00800000u || after >= 0x00800000u)
            continue;
        m.image.after[1][i] = m.image.before[1][i];
        changed++;
    }
    assert_true(changed > 0);
    assert_int_equal(judge(&m, true), COPSE_VERDICT_FAIL);
    assert_int_equal(judge(&m, false), COPSE_VERDICT_PASS);
    drop(&m);
}

/* Flushing explains no other wrong word. */
static void wrong_words_fail(void **state)
{
    (void)state;
    static const struct {
        enum copse_kernel_id kernel;
        const char *name;
        uint32_t arg, flip;
    } rows[] = {
        { COPSE_KERNEL_argmax, "first", 2, 1 },
        { COPSE_KERNEL_layer_norm, "RMS", 4, 0x8000 },
        { COPSE_KERNEL_adam, "adamw", 1, 0x8000 },
    };
    for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
        struct made m;
        float x;
        size_t at = 0;
        make(&m, rows[i].kernel, rows[i].name, COPSE_VALUES_MIXED);
        run_on(&m, 0x1p-126);
        assert_int_equal(judge(&m, false), COPSE_VERDICT_PASS);
        do { /* a usual number, or the place of one */
            assert_true(++at < m.launch.counts[rows[i].arg]);
            memcpy(&x, &m.image.after[rows[i].arg][at], sizeof x);
        } while (rows[i].kernel != COPSE_KERNEL_argmax && !(fabsf(x) > 0.5f && fabsf(x) < 100.0f));
        m.image.after[rows[i].arg][at] ^= rows[i].flip;
        assert_int_equal(judge(&m, false), COPSE_VERDICT_FAIL);
        drop(&m);
    }
}

/* Slopes of windows cancel. An error is relative to the slopes of the windows that an element is the
   largest of, which the signs of x decide: of its magnitudes another element is the largest. */
static void slopes_of_the_windows_of_an_element(void **state)
{
    static const float slopes[] = { 0x1p24f, 1.0f, -0x1p24f };
    struct made m;
    (void)state;
    make(&m, COPSE_KERNEL_pool_grad, "largest", COPSE_VALUES_USUAL);
    for (size_t i = 0; i < m.launch.counts[0]; i++)
        m.image.before[0][i] |= 0x80000000u;
    for (size_t i = 0; i < m.launch.counts[1]; i++)
        memcpy(&m.image.before[1][i], &slopes[i / 3 % 3], sizeof slopes[0]);
    run_with(&m, 0.0, ALL, true);
    assert_int_equal(judge(&m, true), COPSE_VERDICT_PASS);
    drop(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_of_flushed_maxima),
        cmocka_unit_test(flushed_products),
        cmocka_unit_test(one_flushed_operand),
        cmocka_unit_test(flushed_squares),
        cmocka_unit_test(an_underflow_times_infinity),
        cmocka_unit_test(flushed_updates),
        cmocka_unit_test(slopes_of_the_windows_of_an_element),
        cmocka_unit_test(wrong_words_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
