/* SPDX-License-Identifier: MIT */
/* Strided walks, shared by broadcast, transpose, slice and concat. Independent of the ops. */
#include "core/ops/move/host_walk.h"
#include "core/ops/self_tests.h"

copse_status copse__check_operands(const char *op, const copse_graph *g,
                                   copse_tensor *const *operands, size_t count)
{
    if (!g)
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: graph is NULL", op);
    if (g->status != COPSE_OK)
        return g->status;
    for (size_t i = 0; i < count; i++) {
        if (!operands[i])
            return copse_fail(COPSE_ERR_ARGUMENT, "%s: operand %zu is NULL", op, i);
        if (copse__is_failed(operands[i]))
            return copse_fail(
                COPSE_ERR_ARGUMENT, "%s: operand %zu is the result of a call that failed, on %s",
                op, i, operands[i]->graph ? "another graph" : "no graph: the graph was NULL");
    }
    return COPSE_OK;
}

void copse__walk(copse_shape shape, const uint32_t *a, const uint32_t *b, struct copse_walk *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t i = shape.rank; i-- > 0;) {
        const uint32_t dim = shape.dims[i], last = out->rank - 1;
        if (dim == 1)
            continue;
        if (out->rank && a[i] == out->a[last] * out->dims[last] &&
            b[i] == out->b[last] * out->dims[last]) {
            out->dims[last] *= dim;
            continue;
        }
        out->dims[out->rank] = dim;
        out->a[out->rank] = a[i];
        out->b[out->rank++] = b[i];
    }
    if (out->rank == 0) {
        out->rank = 1;
        out->dims[0] = 1;
    }
    for (uint32_t i = 0; i < out->rank; i++)
        copse__divisor(out->dims[i], &out->m[i], &out->h[i]);
}

void copse__strides(copse_shape shape, uint32_t *strides)
{
    uint32_t step = 1;
    for (uint32_t i = shape.rank; i-- > 0;) {
        strides[i] = step;
        step *= shape.dims[i];
    }
}

void copse__broadcast_strides(copse_shape from, copse_shape to, uint32_t *strides)
{
    uint32_t own[COPSE_MAX_RANK];
    const uint32_t missing = to.rank - from.rank;
    copse__strides(from, own);
    for (uint32_t i = 0; i < to.rank; i++)
        strides[i] = i < missing || from.dims[i - missing] == 1 ? 0 : own[i - missing];
}

/* Both kernels have the same parameters. */
#define PARAMS(n, offset, w)                                                                  \
    {                                                                                         \
        n, offset, (w).dims[0], (w).dims[1], (w).dims[2], (w).dims[3], (w).dims[4], (w).m[0], \
            (w).m[1], (w).m[2], (w).m[3], (w).m[4], (w).h[0], (w).h[1], (w).h[2], (w).h[3],   \
            (w).h[4], (w).a[0], (w).a[1], (w).a[2], (w).a[3], (w).a[4], (w).a[5]              \
    }

copse_status copse__launch_strided(struct copse_lowering *l, copse_type type, copse_shape shape,
                                   const uint32_t *strides, uint32_t offset, bool is_scatter,
                                   struct copse_operand from, struct copse_operand to)
{
    const uint32_t n = (uint32_t)copse__elements(shape);
    struct copse_walk w;
    copse__walk(shape, strides, strides, &w);
    const int32_t spec[COPSE_MAX_SPECS] = { (int32_t)w.rank, is_scatter };
    if (type == COPSE_I32) {
        const struct copse_params_copy_i32 p = PARAMS(n, offset, w);
        return COPSE_LAUNCH(l, copy_i32, spec, p, copse__groups_for(l, COPSE_KERNEL_copy_i32, n),
                            from, to);
    }
    const struct copse_params_copy p = PARAMS(n, offset, w);
    return COPSE_LAUNCH(l, copy, spec, p, copse__groups_for(l, COPSE_KERNEL_copy, n), from, to);
}

copse_status copse__lower_copy(struct copse_lowering *l, copse_type type, copse_shape shape,
                               const uint32_t *strides, uint32_t offset, bool is_scatter,
                               const copse_tensor *from, const copse_tensor *to)
{
    return copse__launch_strided(l, type, shape, strides, offset, is_scatter, copse__of(from),
                                 copse__of(to));
}

/* ---- references ---- */

/* The side that has strides. Both kernels have the same parameters. */
struct side {
    uint32_t dims[COPSE_MAX_RANK - 1], strides[COPSE_MAX_RANK];
};
#define SIDE(p)                                                  \
    {                                                            \
        { (p)->d0, (p)->d1, (p)->d2, (p)->d3, (p)->d4 },         \
        {                                                        \
            (p)->s0, (p)->s1, (p)->s2, (p)->s3, (p)->s4, (p)->s5 \
        }                                                        \
    }
_Static_assert(sizeof(struct copse_params_copy) == sizeof(struct copse_params_copy_i32),
               "both kernels have the same parameters");

/* Its word of element i. */
static size_t copy_strided(const void *params, const int32_t *spec, size_t i)
{
    const struct copse_params_copy *p = params;
    const struct side side = SIDE(p);
    return p->offset + copse__strided_place(i, side.dims, side.strides, spec[0]);
}

static size_t copy_from(const void *params, const int32_t *spec, size_t i)
{
    return spec[1] ? i : copy_strided(params, spec, i);
}

static size_t copy_place(const void *params, const int32_t *spec, size_t i)
{
    return spec[1] ? copy_strided(params, spec, i) : i;
}

static double copy_at(const void *params, const int32_t *spec, const struct copse_host_arg *args,
                      size_t i)
{
    return copse__load(&args[0], copy_from(params, spec, i));
}

static void copy_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_copy *p = params;
    const struct side side = SIDE(p);
    struct copse_host_walk w = {
        .dims = side.dims, .strides = side.strides, .rank = spec[0], .at = p->offset
    };
    for (size_t i = 0; i < p->n; i++, copse__host_walk_next(&w))
        copse__store(&args[1], spec[1] ? w.at : i, copse__load(&args[0], spec[1] ? i : w.at));
}

static double copy_i32_at(const void *params, const int32_t *spec,
                          const struct copse_host_arg *args, size_t i)
{
    return copse__load_i(&args[0], copy_from(params, spec, i));
}

static void copy_i32_host(const void *params, const int32_t *spec,
                          const struct copse_host_arg *args)
{
    const struct copse_params_copy_i32 *p = params;
    const struct side side = SIDE(p);
    struct copse_host_walk w = {
        .dims = side.dims, .strides = side.strides, .rank = spec[0], .at = p->offset
    };
    for (size_t i = 0; i < p->n; i++, copse__host_walk_next(&w))
        copse__store_i(&args[1], spec[1] ? w.at : i, copse__load_i(&args[0], spec[1] ? i : w.at));
}

/* ---- self-tests ---- */

static struct copse_walk test_walk(uint32_t rank)
{
    struct copse_walk w = copse__test_walk(rank);
    memcpy(w.a, w.b, sizeof w.a); /* transposed */
    return w;
}

static void copy_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t rank = copse__test_rank(k->spec[0]), n = copse__test_elements(rank);
    const struct copse_walk w = test_walk(rank);
    const struct copse_params_copy p = PARAMS(n, 3, w);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, n), k->spec[1] ? n : COPSE_TEST_WALK + 3,
                    k->spec[1] ? COPSE_TEST_WALK + 3 : n);
}

static void copy_i32_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t rank = copse__test_rank(k->spec[0]), n = copse__test_elements(rank);
    const struct copse_walk w = test_walk(rank);
    const struct copse_params_copy_i32 p = PARAMS(n, 3, w);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, n), k->spec[1] ? n : COPSE_TEST_WALK + 3,
                    k->spec[1] ? COPSE_TEST_WALK + 3 : n);
}

/* ---- laws ---- */

const struct copse_law copse_law_copy = {
    .host = copy_host,
    .at = copy_at,
    .place = copy_place,
    .self_test = copy_test,
};
const struct copse_law copse_law_copy_i32 = {
    .host = copy_i32_host,
    .at = copy_i32_at,
    .place = copy_place,
    .self_test = copy_i32_test,
};
