/* SPDX-License-Identifier: MIT */
/* Random graphs of up to 12 ops, forward and gradient, on every device found against the double
   reference, and the reference against central differences. Without arguments: fixed seeds; with
   one: that seed alone. */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/random.h"
#include "tests/op_harness.h"

#define MAX_OPS 12

/* Every op keeps values of moderate size and is smooth, so that a last-bit difference between two
   devices stays one; kinks have tests of their own. */
static copse_status add_op(copse_graph *g, struct copse_stream *s, copse_tensor **pool,
                           uint32_t count, copse_tensor **y)
{
    copse_tensor *x = pool[copse__stream_below(s, count)], *z, *t;
    const copse_shape shape = x->shape;
    const uint32_t last = shape.rank - 1, kind = copse__stream_below(s, 19);
    switch (kind) {
    case 0:
        return copse_tanh(g, x, y);
    case 1:
        return copse_sigmoid(g, x, y);
    case 2:
        return copse_silu(g, x, y);
    case 3:
        return copse_gelu(g, x, y);
    case 4:
        return copse_softplus(g, x, y);
    case 5:
        COPSE_TRY(copse_tanh(g, x, &t));
        return copse_exp(g, t, y);
    case 6:
        COPSE_TRY(copse_softplus(g, x, &t));
        COPSE_TRY(copse_elu(g, t, 1.0f, &t));
        return copse_neg(g, t, y);
    case 7:
        COPSE_TRY(copse_tanh(g, x, &t));
        return copse_square(g, t, y);
    case 8:
        return copse_softmax(g, x, y);
    case 9:
        COPSE_TRY(copse_tanh(g, x, &t));
        return copse_log_softmax(g, t, y);
    case 10:
        return copse_mean(g, x, &last, 1, true, y);
    case 11:
        COPSE_TRY(copse_sum(g, x, NULL, 0, false, &t));
        COPSE_TRY(copse_multiply_by(g, t, 0.01f, &t));
        COPSE_TRY(copse_tanh(g, t, &t));
        return copse_broadcast_to(g, t, shape, y);
    case 12:
        return copse_transpose(g, x, shape.rank == 2 ? (uint32_t[]){ 1, 0 }
                                                     : (uint32_t[]){ 2, 0, 1 }, y);
    case 13:
        return copse_concat(g, (copse_tensor *[]){ x, x }, 2, last, y);
    case 14: {
        const uint32_t start[COPSE_MAX_RANK] = { shape.dims[0] / 2 };
        copse_shape part = shape;
        part.dims[0] -= start[0];
        return copse_slice(g, x, start, part.dims, y);
    }
    case 15:
        return copse_reshape(g, x, shape.rank == 2
                                       ? COPSE_SHAPE(shape.dims[0], 1, shape.dims[1])
                                       : COPSE_SHAPE(shape.dims[0] * shape.dims[1], shape.dims[2]),
                             y);
    default: /* two operands: any two that broadcast, else x with itself */
        z = pool[copse__stream_below(s, count)];
        if (!copse__broadcast(z->shape, shape, &(copse_shape){ 0 }) ||
            copse__elements(z->shape) * copse__elements(shape) > 40000)
            z = x;
        if (kind == 16)
            return copse_add(g, x, z, y);
        COPSE_TRY(copse_tanh(g, z, &t));
        if (kind == 17)
            return copse_mul(g, x, t, y);
        COPSE_TRY(copse_exp(g, t, &t));
        return copse_div(g, x, t, y);
    }
}

static copse_status build(copse_graph *g, copse_tensor *const *in, const void *user,
                          copse_tensor **y)
{
    struct copse_stream s;
    copse_tensor *pool[MAX_OPS + 3] = { in[0], in[1], in[2] }, *t;
    uint32_t count = 3;
    copse__stream_init(&s, *(const uint64_t *)user, 3);
    const uint32_t ops = 1 + copse__stream_below(&s, MAX_OPS);
    for (uint32_t i = 0; i < ops; i++, count++)
        COPSE_TRY(add_op(g, &s, pool, count, &pool[count]));
    /* Every op counts: the result is the sum of the means of all. */
    COPSE_TRY(copse_mean(g, pool[count - 1], NULL, 0, false, y));
    for (uint32_t i = 3; i + 1 < count; i++) {
        COPSE_TRY(copse_mean(g, pool[i], NULL, 0, false, &t));
        COPSE_TRY(copse_add(g, *y, t, y));
    }
    return COPSE_OK;
}

static uint64_t only;

static void random_graphs(void **state)
{
    (void)state;
    enum { COUNT = 30 };
    const uint64_t first = only ? only : 1, count = only ? 1 : COUNT;
    struct copse_case cases[COUNT];
    uint64_t seeds[COUNT];
    char names[COUNT][32];
    for (uint64_t i = 0; i < count; i++) {
        seeds[i] = first + i;
        snprintf(names[i], sizeof names[i], "seed %llu", (unsigned long long)seeds[i]);
        cases[i] = (struct copse_case){
            .op = "random graph", .name = names[i], .build = build, .user = &seeds[i],
            .in = { { .shape = COPSE_SHAPE(4, 6), .low = -2, .high = 2 },
                    { .shape = COPSE_SHAPE(4, 1), .low = -2, .high = 2 },
                    { .shape = COPSE_SHAPE(3, 4, 6), .low = -2, .high = 2 } },
            .in_count = 3,
            .forward = { .ulp = 16, .of_max = 2e-6 }, .backward = { .ulp = 16, .of_max = 5e-6 },
            .is_poor = true, /* few ops may use few inputs */
        };
    }
    harness_run(&(const struct copse_case_table){ "random graphs", cases, count });
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_graphs) };
    only = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
