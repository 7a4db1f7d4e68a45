/* SPDX-License-Identifier: MIT */
/* Self-tests of the kernels of attention. */
#include "core/ops/attention/attention_tests.h"

#include "core/ops/attention/attention_map.h"
#include "core/ops/self_tests.h"

#define QUERIES    5u
#define KEYS       7u
#define HEADS      2u
#define ROWS       (HEADS * QUERIES)
#define WIDTH      9u
#define MASK_WORDS (ROWS * KEYS)

/* Two heads with one key head; windows of 4. */
#define PARAMS_OF                                                                                  \
    .queries = QUERIES, .keys = KEYS, .heads = HEADS, .share = HEADS, .width = WIDTH, .window = 4, \
    .q_stride = HEADS * WIDTH, .k_stride = WIDTH, .mask_head = QUERIES * KEYS, .mask_query = KEYS, \
    .scale = 0.0625f / WIDTH, .cap = 0.25f

/* In the tests with lengths the item has three keys, or three keys and queries. */

static void set_state(struct copse_self_test *t, uint32_t buffer)
{
    for (uint32_t row = 0; row < ROWS; row++) {
        copse__test_set(t, buffer, COPSE_ATTENTION_STATE * row, 0.25f * (float)(row % 3));
        copse__test_set(t, buffer, COPSE_ATTENTION_STATE * row + 1, 0.125f * (float)(1 + row % 2));
        copse__test_set(t, buffer, COPSE_ATTENTION_STATE * row + 2, (float)(row % 4));
        copse__test_set(t, buffer, COPSE_ATTENTION_STATE * row + 3,
                        row % QUERIES < 3 ? 3.0f : 0.0f);
    }
}

void copse__attention_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_attention p = { PARAMS_OF, .rows = ROWS, .count = 64 };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.rows), ROWS * WIDTH, KEYS * WIDTH, KEYS * WIDTH,
                    MASK_WORDS, 1, COPSE_ATTENTION_STATE * ROWS, ROWS * WIDTH);
    t->slack = COPSE_SELF_TEST_SLACK;
}

void copse__attention_grad_query_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_attention_grad_query p = { PARAMS_OF, .rows = ROWS, .count = 64,
                                                         .to_stride = HEADS * WIDTH };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.rows), ROWS * WIDTH, KEYS * WIDTH, KEYS * WIDTH,
                    MASK_WORDS, ROWS * WIDTH, ROWS * WIDTH, COPSE_ATTENTION_STATE * ROWS,
                    ROWS * WIDTH);
    set_state(t, 6);
    t->slack = COPSE_SELF_TEST_SLACK;
}

void copse__attention_grad_key_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_attention_grad_key p = { PARAMS_OF, .rows = KEYS, .count = 64,
                                                       .to_v = KEYS * WIDTH, .to_stride = WIDTH };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.rows), ROWS * WIDTH, KEYS * WIDTH, KEYS * WIDTH,
                    MASK_WORDS, ROWS * WIDTH, COPSE_ATTENTION_STATE * ROWS, 2 * KEYS * WIDTH);
    set_state(t, 5);
    t->slack = COPSE_SELF_TEST_SLACK;
}

void copse__attention_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_attention_wide p = { PARAMS_OF, .blocks = HEADS };
    copse__attention_test(k, t);
    memset(t->params, 0, sizeof t->params);
    memcpy(t->params, &p, sizeof p);
    t->groups = p.blocks;
}

void copse__attention_grad_query_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_attention_grad_query_wide p = { PARAMS_OF, .blocks = HEADS,
                                                              .to_stride = HEADS * WIDTH };
    copse__attention_grad_query_test(k, t);
    memset(t->params, 0, sizeof t->params);
    memcpy(t->params, &p, sizeof p);
    t->groups = p.blocks;
}

void copse__attention_grad_key_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_attention_grad_key_wide p = { PARAMS_OF, .blocks = 1,
                                                            .to_v = KEYS * WIDTH,
                                                            .to_stride = WIDTH };
    copse__attention_grad_key_test(k, t);
    memset(t->params, 0, sizeof t->params);
    memcpy(t->params, &p, sizeof p);
    t->groups = p.blocks;
}

/* Their heads are whole texels, as many as the kernel was made for. */
#define TEXEL_PARAMS_OF(width_)                                                                 \
    .queries = QUERIES, .keys = KEYS, .heads = HEADS, .share = HEADS, .width = width_,          \
    .window = 4, .q_stride = HEADS * (width_), .k_stride = width_, .mask_head = QUERIES * KEYS, \
    .mask_query = KEYS, .count = 64, .scale = 0.0625f / (float)(width_), .cap = 0.25f

static uint32_t texel_width(const struct copse_kernel *k, uint32_t spec)
{
    return 4 * (uint32_t)COPSE_MAX(k->spec[spec], 1);
}

void copse__attention_texel_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t width = texel_width(k, 5);
    const struct copse_params_attention_texel p = { TEXEL_PARAMS_OF(width), .lines = HEADS };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, 2 * p.lines), ROWS * width, KEYS * width,
                    KEYS * width, MASK_WORDS, 1, COPSE_ATTENTION_STATE * ROWS, ROWS * width);
    t->slack = COPSE_SELF_TEST_SLACK;
}

void copse__attention_grad_query_texel_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t width = texel_width(k, 4);
    const struct copse_params_attention_grad_query_texel p = { TEXEL_PARAMS_OF(width),
                                                               .lines = HEADS,
                                                               .to_stride = HEADS * width };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, 2 * p.lines), ROWS * width, KEYS * width,
                    KEYS * width, MASK_WORDS, ROWS * width, ROWS * width,
                    COPSE_ATTENTION_STATE * ROWS, ROWS * width);
    set_state(t, 6);
    t->slack = COPSE_SELF_TEST_SLACK;
}

void copse__attention_grad_key_texel_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t width = texel_width(k, 4);
    const struct copse_params_attention_grad_key_texel p = { TEXEL_PARAMS_OF(width), .lines = 1,
                                                             .to_v = KEYS * width,
                                                             .to_stride = width };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, 2 * p.lines), ROWS * width, KEYS * width,
                    KEYS * width, MASK_WORDS, ROWS * width, COPSE_ATTENTION_STATE * ROWS,
                    2 * KEYS * width);
    set_state(t, 5);
    t->slack = COPSE_SELF_TEST_SLACK;
}

#define TILE_PARAMS_OF(width_)                                                                  \
    .queries = QUERIES, .keys = KEYS, .heads = HEADS, .share = HEADS, .width = width_,          \
    .window = 4, .q_stride = HEADS * (width_), .k_stride = width_, .mask_head = QUERIES * KEYS, \
    .mask_query = KEYS, .scale = 0.0625f / (float)(width_), .cap = 0.25f

static uint32_t tile_width(const struct copse_kernel *k, uint32_t spec)
{
    return 32u << k->spec[spec];
}

void copse__attention_tile_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t width = tile_width(k, 5);
    const struct copse_params_attention_tile p = { TILE_PARAMS_OF(width), .blocks = HEADS };
    COPSE_SELF_TEST(t, p, p.blocks, ROWS * width, KEYS * width, KEYS * width, MASK_WORDS, 1,
                    COPSE_ATTENTION_STATE * ROWS, ROWS * width);
    t->slack = COPSE_SELF_TEST_SLACK;
}

void copse__attention_grad_query_tile_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t width = tile_width(k, 4);
    const struct copse_params_attention_grad_query_tile p = { TILE_PARAMS_OF(width),
                                                              .blocks = HEADS,
                                                              .to_stride = HEADS * width };
    COPSE_SELF_TEST(t, p, p.blocks, ROWS * width, KEYS * width, KEYS * width, MASK_WORDS,
                    ROWS * width, ROWS * width, COPSE_ATTENTION_STATE * ROWS, ROWS * width);
    set_state(t, 6);
    t->slack = COPSE_SELF_TEST_SLACK;
}

void copse__attention_grad_key_tile_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t width = tile_width(k, 4);
    const struct copse_params_attention_grad_key_tile p = { TILE_PARAMS_OF(width), .blocks = 1,
                                                            .to_v = KEYS * width,
                                                            .to_stride = width };
    COPSE_SELF_TEST(t, p, p.blocks, ROWS * width, KEYS * width, KEYS * width, MASK_WORDS,
                    ROWS * width, COPSE_ATTENTION_STATE * ROWS, 2 * KEYS * width);
    set_state(t, 5);
    t->slack = COPSE_SELF_TEST_SLACK;
}
