/* SPDX-License-Identifier: MIT */
/* The main function of tests of values: one context, and after each test a check that only it is
   left. Include last. */
#ifndef COPSE_VALUE_RUN_H
#define COPSE_VALUE_RUN_H

#include "tests/rig/value/value_rig.h"

static copse_context *ctx;
static size_t live; /* blocks of the context alone, after every device was opened once */

static inline int open_context(void **unused)
{
    struct copse_memory_stats stats;
    (void)unused;
    OK(copse_context_create(&with_kept, &ctx));
    find_devices(ctx);
    copse_strategy *st = open_all(ctx, 3);
    copse_strategy_release(&st);
    copse_context_memory(ctx, &stats);
    live = stats.live_blocks;
    return 0;
}

static inline int nothing_is_left(void **unused)
{
    struct copse_memory_stats stats;
    (void)unused;
    copse_context_memory(ctx, &stats);
    assert_int_equal(stats.live_blocks, live);
    return 0;
}

static inline int close_context(void **unused)
{
    (void)unused;
    copse_context_release(&ctx);
    drop_kept();
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, nothing_is_left)

#endif
