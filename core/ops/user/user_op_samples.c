/* SPDX-License-Identifier: MIT */
/* The samples of an application's op: its self-test, and its cases for conformance. */
#include <math.h>
#include <stdio.h>

#include "core/ops/self_tests.h"
#include "core/ops/user/user_op.h"

static const uint32_t row_counts[COPSE_USER_ROWS] = { 0, 1, 257, 4097 };

/* ---- copies and checks ---- */

static copse_status user_op_samples_check(const copse_user_op *op, size_t i)
{
    const struct copse_user_sample *x = &op->p.samples[i];
    struct copse_user_launch launch;
    copse_shape y;
    COPSE_TRY(copse_no_reserved(copse_user_sample, x));
    if (!x->name || strlen(x->name) > 60 || !(x->low <= x->high) || !isfinite(x->low) ||
        !isfinite(x->high))
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "user op: %s: sample %zu has no name of up to 60 bytes, or no finite range", op->p.name,
            i);
    for (size_t k = 0; k < i; k++)
        if (strcmp(op->p.samples[k].name, x->name) == 0)
            return copse_fail(COPSE_ERR_ARGUMENT, "user op: %s: two samples are named '%s'",
                              op->p.name, x->name);
    for (uint32_t k = 0; k < op->p.operands; k++)
        if (x->shapes[k].rank > COPSE_MAX_RANK ||
            copse__elements(x->shapes[k]) >= (uint64_t)1 << 31 ||
            (i == 0 && copse__elements(x->shapes[k]) > COPSE_SELF_TEST_WORDS))
            return copse_fail(
                COPSE_ERR_ARGUMENT,
                "user op: %s: operand %u of sample '%s' has too many elements; those of the "
                "first sample have up to %d",
                op->p.name, (unsigned)k, x->name, COPSE_SELF_TEST_WORDS);
    COPSE_TRY(copse_note(copse__user_shape(op, x->shapes, x->settings, &y),
                         "in the sample '%s' of %s", x->name, op->p.name));
    if (i == 0 && copse__elements(y) > COPSE_SELF_TEST_WORDS)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "user op: %s: the result of the first sample has more than %d elements",
                          op->p.name, COPSE_SELF_TEST_WORDS);
    return copse__user_launch(op, x->shapes, y, x->settings, op->kernel.row.group_x, &launch);
}

static copse_status user_op_samples_copy(copse_user_op *op)
{
    const size_t size = op->p.settings_size;
    struct copse_user_sample *list =
        copse__arena_alloc(&op->arena, op->p.sample_count, sizeof *list);
    COPSE_TRY(copse_need_memory(list, "user op"));
    memcpy(list, op->p.samples, op->p.sample_count * sizeof *list);
    op->p.samples = list;
    for (size_t i = 0; i < op->p.sample_count; i++) {
        void *settings = copse__arena_alloc(&op->arena, COPSE_MAX(size, 1), 1);
        list[i].name = list[i].name ? copse__arena_strdup(&op->arena, list[i].name) : "";
        COPSE_TRY(copse_need_memory(settings && list[i].name, "user op"));
        if (list[i].settings && size > 0)
            memcpy(settings, list[i].settings, size);
        list[i].settings = settings;
        if (!(list[i].low < 0 || list[i].low > 0 || list[i].high < 0 || list[i].high > 0)) {
            list[i].low = -2;
            list[i].high = 2;
        }
    }
    return COPSE_OK;
}

/* ---- the self-test ---- */

static void user_op_samples_fill(const copse_user_op *op, const struct copse_user_sample *x,
                                 struct copse_self_test *t)
{
    for (uint32_t a = 0; a < op->p.operands; a++)
        for (uint32_t i = 0; i < t->counts[a]; i++) {
            const uint32_t step = (i * 7 + 3 * a + i / 9) % 9;
            const double value = x->low + (x->high - x->low) * step / 8;
            if (op->p.types[a] == COPSE_I32)
                t->words[a][i] = (uint32_t)(int32_t)ceil(value > x->high ? x->high : value);
            else
                copse__test_set(t, a, i, (float)value);
        }
}

/* A sample with the specialisation of the kernel; nothing is tested if there is none in the first
   sample's size. */
void copse__user_self_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_user_kernel *kernel = copse__user_kernel((uint32_t)k->id);
    const copse_user_op *op =
        (const copse_user_op *)(const void *)((const char *)kernel -
                                              offsetof(copse_user_op, kernel));
    const struct copse_user_sample *x = op->p.samples;
    struct copse_user_launch launch;
    copse_shape y;
    if (copse__user_shape(op, x->shapes, x->settings, &y) != COPSE_OK ||
        copse__user_launch(op, x->shapes, y, x->settings, k->group_x * k->group_y, &launch) !=
            COPSE_OK ||
        memcmp(launch.spec, k->spec, sizeof k->spec) != 0)
        return;
    memcpy(t->params, launch.params, sizeof launch.params);
    t->groups = launch.groups;
    for (uint32_t a = 0; a < op->p.operands; a++)
        t->counts[a] = (uint32_t)copse__elements(x->shapes[a]);
    t->counts[op->p.operands] = (uint32_t)copse__elements(y);
    user_op_samples_fill(op, x, t);
    t->slack = op->p.ulp > 0 || op->p.ratio > 0 ? COPSE_SELF_TEST_SLACK : 0.0f;
}

/* ---- cases ---- */

static copse_tensor *user_op_samples_build(copse_graph *g, copse_tensor *const *in,
                                           const void *user)
{
    const struct copse_user_case *c = user;
    return copse_user_op_add(g, c->op, in, c->op->p.operands, c->settings);
}

static void put_case(const copse_user_op *op, const struct copse_user_sample *x,
                     const struct copse_user_case *user, const char *name,
                     enum copse_fill_kind kind, const uint32_t *rows, struct copse_case *c)
{
    *c = (struct copse_case){
        .op = op->p.name,
        .name = name,
        .build = user_op_samples_build,
        .user = user,
        .in_count = op->p.operands,
        .forward = { .ulp = op->p.ulp, .ratio = op->p.ratio },
        .backward = { .ulp = op->p.gradient_ulp, .ratio = op->p.gradient_ratio },
        .has_no_gradient = !op->p.gradient || op->p.type != COPSE_F32 || kind == COPSE_FILL_SPECIAL,
        .skips_differences = rows && *rows > 257,
        .is_poor = kind == COPSE_FILL_SPECIAL,
        .tier = rows ? COPSE_TIER_STANDARD : COPSE_TIER_QUICK,
    };
    for (uint32_t i = 0; i < op->p.operands; i++) {
        c->in[i] = (struct copse_case_input){ .type = op->p.types[i],
                                              .shape = x->shapes[i],
                                              .fill = kind,
                                              .low = x->low,
                                              .high = x->high };
        if (op->p.types[i] == COPSE_I32)
            c->in[i].fill = COPSE_FILL_UNIFORM;
        if (rows)
            c->in[i].shape.dims[0] = *rows;
    }
}

static bool has_rows(const copse_user_op *op, const struct copse_user_sample *x)
{
    bool all = op->p.any_rows;
    for (uint32_t i = 0; i < op->p.operands; i++)
        all = all && x->shapes[i].rank > 0;
    return all;
}

static const char *name_of(copse_user_op *op, const char *sample, const char *more,
                           const uint32_t *rows)
{
    char text[96];
    if (rows)
        snprintf(text, sizeof text, "%s, %u rows", sample, (unsigned)*rows);
    else
        snprintf(text, sizeof text, "%s%s", sample, more);
    return copse__arena_strdup(&op->arena, text);
}

static copse_status make_table(copse_user_op *op)
{
    const size_t each = 2 + COPSE_USER_ROWS;
    struct copse_case *cases =
        copse__arena_alloc(&op->arena, each * op->p.sample_count, sizeof *cases);
    struct copse_user_case *users =
        copse__arena_alloc(&op->arena, op->p.sample_count, sizeof *users);
    struct copse_case_op *row = copse__arena_alloc(&op->arena, 1, sizeof *row);
    size_t count = 0;
    COPSE_TRY(copse_need_memory(cases && users && row, "user op"));
    for (size_t i = 0; i < op->p.sample_count; i++) {
        const struct copse_user_sample *x = &op->p.samples[i];
        users[i] = (struct copse_user_case){ op, x->settings };
        put_case(op, x, &users[i], x->name, COPSE_FILL_UNIFORM, NULL, &cases[count++]);
        if (op->p.any_numbers)
            put_case(op, x, &users[i], name_of(op, x->name, ", special values", NULL),
                     COPSE_FILL_SPECIAL, NULL, &cases[count++]);
        for (size_t r = 0; r < COPSE_USER_ROWS && has_rows(op, x); r++)
            put_case(op, x, &users[i], name_of(op, x->name, "", &row_counts[r]), COPSE_FILL_UNIFORM,
                     &row_counts[r], &cases[count++]);
    }
    for (size_t i = 0; i < count; i++)
        COPSE_TRY(copse_need_memory(cases[i].name, "user op"));
    *row = (struct copse_case_op){ .name = op->p.name,
                                   .call = user_op_samples_build,
                                   .user = &users[0],
                                   .in_count = op->p.operands,
                                   .divides = true };
    memcpy(row->in, cases[0].in, sizeof row->in);
    op->table = (struct copse_case_table){ .is_sampled = true,
                                           .family = op->p.name,
                                           .cases = cases,
                                           .count = count,
                                           .ops = row,
                                           .op_count = 1 };
    return COPSE_OK;
}

copse_status copse__user_samples(copse_user_op *op)
{
    COPSE_TRY(user_op_samples_copy(op));
    for (size_t i = 0; i < op->p.sample_count; i++)
        COPSE_TRY(user_op_samples_check(op, i));
    return make_table(op);
}
