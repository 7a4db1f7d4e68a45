/* SPDX-License-Identifier: MIT */
/* Shared by the tests of the conformance engine: small tables, a fake device, and the reported
   results. */
#ifndef COPSE_CONFORM_RIG_H
#define COPSE_CONFORM_RIG_H

#include "tests/rig/rig.h"

#include "copse/matmul.h"
#include "copse/ops.h"
#include "prover/conformance/runner.h"
#include "tests/rig/fake/fake_backend.h"

/* ---- cases ---- */

static inline copse_tensor *square(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_square(g, in[0]);
}

static inline copse_tensor *negative(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_neg(g, in[0]);
}

static inline copse_tensor *product(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_matmul(g, in[0], in[1], false, false);
}

static inline copse_tensor *declared(copse_graph *g, copse_tensor *const *in, const void *user)
{
    copse_tensor *y = NULL;
    (void)g, (void)in, (void)user, (void)y;
    return copse__refuse(g, COPSE_ERR_UNSUPPORTED, "not on any device");
}

/* y = x, with a wrong derivative; devices can be told not to support it. */
static bool bent_is_refused;

static inline copse_status bent_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = y->in[0]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

static inline void bent_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                                 copse_tensor **dx)
{
    (void)y;
    dx[0] = copse_neg(g, dy);
}

static inline copse_status bent_lower(struct copse_lowering *l, const copse_tensor *y)
{
    if (bent_is_refused && copse__limits(l)->max_buffer_bytes != UINT64_MAX)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "bent: not here");
    return copse__launch_copy(l, copse__of(y->in[0]), copse__of(y), copse__elements(y->shape));
}

static inline copse_tensor *bent(copse_graph *g, copse_tensor *const *in, const void *user)
{
    static const struct copse_op op = {
        .name = "bent", .infer = bent_infer, .gradient = bent_gradient, .lower = bent_lower
    };
    (void)user;
    return COPSE_NODE(g, &op, NULL, in[0]);
}

static inline copse_tensor *quotient(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_div(g, in[0], in[1]);
}

#define SHAPE(...)                                              \
    {                                                           \
        sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t), \
        {                                                       \
            __VA_ARGS__                                         \
        }                                                       \
    }
#define REAL(...)                                                            \
    {                                                                        \
        .type = COPSE_F32, .shape = SHAPE(__VA_ARGS__), .low = -4, .high = 4 \
    }

static const struct copse_case good_cases[] = {
    { .op = "neg", .name = "numbers", .build = negative, .in = { REAL(7, 31) }, .in_count = 1 },
    { .op = "neg", .name = "nothing", .build = negative, .in = { REAL(3, 0) }, .in_count = 1 },
    { .op = "neg",
      .name = "special",
      .build = negative,
      .in_count = 1,
      .has_no_gradient = true,
      .in = { { .type = COPSE_F32, .shape = SHAPE(94), .fill = COPSE_FILL_SPECIAL } } },
    { .op = "square",
      .name = "numbers",
      .build = square,
      .in = { REAL(1001) },
      .in_count = 1,
      .forward = { .ulp = 1 },
      .backward = { .ulp = 1 } },
    { .op = "square",
      .name = "many",
      .build = square,
      .in = { REAL(100000) },
      .in_count = 1,
      .forward = { .ulp = 1 },
      .backward = { .ulp = 1 },
      .tier = COPSE_TIER_STANDARD },
    { .op = "matmul",
      .name = "whole numbers",
      .build = product,
      .in_count = 2,
      .family = "matmul",
      .in = { { .type = COPSE_F32, .shape = SHAPE(20, 33), .fill = COPSE_FILL_INTEGERS },
              { .type = COPSE_F32, .shape = SHAPE(33, 24), .fill = COPSE_FILL_INTEGERS } } },
    { .op = "matmul",
      .name = "cancelling",
      .build = product,
      .in_count = 2,
      .family = "matmul",
      .in = { { .type = COPSE_F32, .shape = SHAPE(6, 300), .fill = COPSE_FILL_CANCELLING },
              { .type = COPSE_F32, .shape = SHAPE(300, 10), .fill = COPSE_FILL_CANCELLING } },
      .forward = { .ratio = 16 },
      .backward = { .ratio = 16 } },
};

static const struct copse_case odd_cases[] = {
    { .op = "odd", .name = "declared", .build = declared, .in = { REAL(9) }, .in_count = 1 },
    { .op = "odd", .name = "bent", .build = bent, .in = { REAL(9) }, .in_count = 1 },
    { .op = "odd",
      .name = "poor",
      .build = negative,
      .in_count = 1,
      .in = { { .type = COPSE_F32, .shape = SHAPE(50) } },
      .has_no_gradient = true },
    { .op = "odd",
      .name = "not poor",
      .build = square,
      .in = { REAL(50) },
      .in_count = 1,
      .forward = { .ulp = 1 },
      .backward = { .ulp = 1 } },
};

static const struct copse_case_table good = {
    .family = "good", .is_sampled = true, .cases = good_cases, .count = COPSE_COUNT(good_cases)
};
static const struct copse_case_table odd = {
    .family = "odd", .is_sampled = true, .cases = odd_cases, .count = COPSE_COUNT(odd_cases)
};
static const struct copse_case_table *const good_tables[] = { &good, NULL };
static const struct copse_case_table *const odd_tables[] = { &odd, NULL };
static const struct copse_known no_known[1];

/* ---- what was reported ---- */

struct line {
    char id[160]; /* "mode/op/name/variant" */
    copse_verdict verdict;
    double worst, limit;
    uint64_t index;
    char metric[8], hash[20], text[512];
};

static struct {
    struct line at[200];
    size_t count, begun, stop_at; /* stop_at: begin refuses the case with this number */
} lines;

static inline bool begin(void *user, const char *mode, const char *op, const char *name,
                         const char *variant)
{
    (void)user, (void)mode, (void)op, (void)name, (void)variant;
    return ++lines.begun != lines.stop_at;
}

static inline void take(void *user, const struct copse_case_result *r)
{
    struct line *l = &lines.at[lines.count++];
    (void)user;
    assert_true(lines.count < COPSE_COUNT(lines.at));
    assert_true(r->seed == copse__case_seed(r->op, r->name) && *r->device && *r->type);
    assert_true(r->seconds >= 0 && r->nmse >= 0);
    snprintf(l->id, sizeof l->id, "%s/%s/%s/%s", r->mode, r->op, r->name, r->variant);
    l->verdict = r->verdict;
    l->worst = r->worst;
    l->limit = r->limit;
    l->index = r->index;
    snprintf(l->metric, sizeof l->metric, "%s", r->metric);
    snprintf(l->hash, sizeof l->hash, "%s", r->hash);
    snprintf(l->text, sizeof l->text, "%s", r->text);
}

static inline const struct line *find(const char *id)
{
    for (size_t i = 0; i < lines.count; i++)
        if (strcmp(lines.at[i].id, id) == 0)
            return &lines.at[i];
    fail_msg("no result of %s", id);
    return NULL;
}

static inline void expect(const char *id, copse_verdict verdict, const char *word)
{
    const struct line *l = find(id);
    if (l->verdict != verdict || !strstr(l->text, word))
        fail_msg("%s is %s '%s' (%g of %g %s), expected %s '%s'", id,
                 copse_verdict_name(l->verdict), l->text, l->worst, l->limit, l->metric,
                 copse_verdict_name(verdict), word);
}

static copse_context *ctx;
static struct copse_conformance_summary summary;

static inline copse_status run(struct copse_conformance_params p,
                               const struct copse_case_table *const *tables,
                               const struct copse_known *known)
{
    const size_t stop_at = lines.stop_at;
    memset(&lines, 0, sizeof lines);
    lines.stop_at = stop_at;
    p.device = p.device ? p.device : "fake:0";
    p.begin = begin;
    p.result = take;
    const copse_status s = copse__conformance_run_with(ctx, &p, tables, known, &summary);
    uint64_t sum = 0;
    for (size_t v = 0; v < COPSE_VERDICT_COUNT; v++)
        sum += summary.counts[v];
    assert_int_equal(sum, lines.count);
    return s;
}

static inline int open_fake(void **state)
{
    (void)state;
    fake_reset();
    memset(&lines, 0, sizeof lines);
    bent_is_refused = false;
    return copse__context_create_with(NULL, fake_backends, &ctx) == COPSE_OK ? 0 : -1;
}

static inline int close_context(void **state)
{
    struct copse_memory_stats stats = { 0 };
    (void)state;
    copse_context_memory(ctx, &stats);
    copse_context_release(&ctx);
    fake_reset();
    return stats.live_blocks < 100 ? 0 : -1;
}

#define QUICK    COPSE_CONFORM_QUICK
#define STANDARD COPSE_CONFORM_STANDARD
#define ALL      (COPSE_CONFORM_RUN | COPSE_CONFORM_GRAD | COPSE_CONFORM_BITWISE)

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fake, close_context)

#endif
