/* SPDX-License-Identifier: MIT */
/* Shared by nearly all tests: cmocka with the headers it needs, and checks of statuses. A program
   without cmocka defines fail_msg first. */
#ifndef COPSE_RIG_H
#define COPSE_RIG_H

#ifndef fail_msg
#    include <setjmp.h>
#    include <stdarg.h>
#    include <stddef.h>
#    include <stdint.h>
/* after the above */
#    include <cmocka.h>
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/copse.h"
#include "tests/rig/data/batch_rig.h"

/* The call succeeds. */
#define OK(expr)                                                                       \
    do {                                                                               \
        const copse_status ok_ = (expr);                                               \
        if (ok_)                                                                       \
            fail_msg("%s: %s: %s", #expr, copse_status_name(ok_), copse_last_error()); \
    } while (0)
/* The call fails with this code, and the text contains this word. */
#define FAILS(code, expr, word)                                                                \
    do {                                                                                       \
        const copse_status fails_ = (expr);                                                    \
        if (fails_ != (code) || !strstr(copse_last_error(), word))                             \
            fail_msg("%s: %s, not %s about '%s': %s", #expr, copse_status_name(fails_), #code, \
                     word, copse_last_error());                                                \
    } while (0)
/* The same for functions on threads of replicas or workers, in which cmocka must not use
   longjmp. */
#define CHECK(cond)                                                                        \
    do {                                                                                   \
        if (!(cond))                                                                       \
            return copse_fail(COPSE_ERR_INTERNAL, "line %d: not so: %s", __LINE__, #cond); \
    } while (0)
/* The same for functions that build a graph and return a tensor. */
#define CHECK_GRAPH(g, cond)                                                  \
    do {                                                                      \
        if (!(cond))                                                          \
            return copse_graph_fail(g, COPSE_ERR_INTERNAL, "not so: " #cond); \
    } while (0)

/* Whether case `i` of a test of many cases has its turn: every `n`th, and each one where
   COPSE_TEST_ALL is set, as in the tests NAME.all of the sweep. */
static inline bool rig_takes(size_t i, size_t n)
{
    return getenv("COPSE_TEST_ALL") || i % n == 0;
}

/* Whether case `i` has its turn on device `id`. The host has all cases, OpenCL the even ones, other
   backends the odd ones. With COPSE_TEST_ALL each device has all. */
static inline bool rig_takes_on(size_t i, const char *id)
{
    return getenv("COPSE_TEST_ALL") || strncmp(id, "host", 4) == 0 ||
           (i % 2 == 0) == (strncmp(id, "opencl", 6) == 0);
}

#endif
