/* SPDX-License-Identifier: MIT */
/* Cumulative sum along one axis: sums of chunks, the cumulative sum of these in the same way, then
   the elements. */
#include "copse/ops/scan.h"
#include "core/device/kernel/launch_split.h"
#include "core/ops/ops.h"
#include "core/ops/self_tests.h"

#define CHUNK   64u        /* elements of an invocation */
#define LONGEST (1u << 30) /* elements along the axis: 64^(LEVELS + 1) */
#define LEVELS  4          /* of sums of chunks; each has two of a node's 8 buffers */

struct cumsum_attr {
    uint32_t axis;
    int32_t is_exclusive, is_reversed;
};

static copse_status cumsum_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const struct cumsum_attr *a = y->attr;
    const copse_shape *x = &y->in[0]->shape;
    if (y->in[0]->type != COPSE_F32 || a->axis >= x->rank || x->dims[a->axis] > LONGEST)
        return copse__shape_error(y, "expected f32 with an axis %u of at most 2^30 elements",
                                  (unsigned)a->axis);
    *shape = *x;
    *type = COPSE_F32;
    return COPSE_OK;
}

static uint32_t chunks_of(uint32_t count)
{
    return (count + CHUNK - 1) / CHUNK;
}

struct scan {
    struct copse_lowering *l;
    uint32_t outer, inner;
    /* for an argument that a launch does not read: every argument needs its own buffer */
    struct copse_operand unread;
};

static copse_status sum_chunks(const struct scan *s, bool is_reversed, uint32_t count,
                               struct copse_operand from, struct copse_operand *sums)
{
    const struct copse_params_scan_sums p = { s->outer * chunks_of(count) * s->inner, count,
                                              chunks_of(count), s->inner };
    const int32_t spec[COPSE_MAX_SPECS] = { is_reversed };
    COPSE_TRY(copse__scratch(s->l, p.n, sums));
    return COPSE_LAUNCH(s->l, scan_sums, spec, p,
                        copse__groups_for(s->l, COPSE_KERNEL_scan_sums, p.n), from, *sums);
}

static copse_status add_up(const struct scan *s, bool is_reversed, bool is_exclusive,
                           uint32_t count, struct copse_operand from, struct copse_operand before,
                           struct copse_operand to)
{
    const struct copse_params_scan p = { s->outer * chunks_of(count) * s->inner, count,
                                         chunks_of(count), s->inner };
    const bool is_later = p.chunks > 1;
    const int32_t spec[COPSE_MAX_SPECS] = { is_reversed, is_exclusive, is_later };
    return COPSE_LAUNCH(s->l, scan, spec, p, copse__groups_for(s->l, COPSE_KERNEL_scan, p.n), from,
                        is_later ? before : s->unread, to);
}

/* counts[i] is the length of a line of level i. Level 0 are the elements; sums[i] are those of the
   chunks of level i, which are the elements of level i + 1, and starts[i] their exclusive
   cumulative sum. */
static copse_status cumsum_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct cumsum_attr *a = y->attr;
    struct scan s = { .l = l, .outer = 1, .inner = 1, .unread = copse__of(y->in[0]) };
    struct copse_operand sums[LEVELS], starts[LEVELS];
    uint32_t counts[LEVELS + 1] = { y->shape.dims[a->axis] }, levels = 0;
    if (copse__elements(y->shape) == 0)
        return COPSE_OK;
    for (uint32_t i = 0; i < y->shape.rank; i++) {
        s.outer *= i < a->axis ? y->shape.dims[i] : 1;
        s.inner *= i > a->axis ? y->shape.dims[i] : 1;
    }
    for (; counts[levels] > CHUNK; levels++) {
        COPSE_TRY(sum_chunks(&s, levels == 0 && a->is_reversed, counts[levels],
                             levels ? sums[levels - 1] : copse__of(y->in[0]), &sums[levels]));
        counts[levels + 1] = chunks_of(counts[levels]);
    }
    for (uint32_t i = levels; i > 0; i--) {
        COPSE_TRY(copse__scratch(l, (uint64_t)s.outer * counts[i] * s.inner, &starts[i - 1]));
        COPSE_TRY(add_up(&s, false, true, counts[i], sums[i - 1], i < levels ? starts[i] : s.unread,
                         starts[i - 1]));
    }
    if (levels == 0)
        COPSE_TRY(copse__scratch(l, 1, &s.unread));
    return add_up(&s, a->is_reversed, a->is_exclusive, counts[0], copse__of(y->in[0]),
                  levels ? starts[0] : s.unread, copse__of(y));
}

static void cumsum_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                            copse_tensor **dx)
{
    const struct cumsum_attr *a = y->attr;
    dx[0] = copse_cumsum(g, dy, a->axis, a->is_exclusive, !a->is_reversed);
}

static const struct copse_op op_cumsum = {
    .name = "cumsum",
    .attr_size = sizeof(struct cumsum_attr),
    .infer = cumsum_infer,
    .gradient = cumsum_gradient,
    .lower = cumsum_lower,
};

copse_tensor *copse_cumsum(copse_graph *g, copse_tensor *x, uint32_t axis, bool is_exclusive,
                           bool is_reversed)
{
    const struct cumsum_attr a = { axis, is_exclusive, is_reversed };
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("cumsum", g, x));
    return COPSE_NODE(g, &op_cumsum, &a, x);
}

/* ---- references ---- */

/* The place of element k of the line of invocation i, counted in the direction of the sum. */
static size_t place_of(const struct copse_params_scan *p, bool is_reversed, size_t i, size_t k)
{
    const size_t line = i / p->inner, outer = line / p->chunks;
    return (outer * p->count + (is_reversed ? p->count - 1 - k : k)) * p->inner + i % p->inner;
}

static size_t first_of(const struct copse_params_scan *p, size_t i)
{
    return i / p->inner % p->chunks * CHUNK;
}

static void scan_sums_host(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args)
{
    const struct copse_params_scan_sums *q = params;
    const struct copse_params_scan p = { q->n, q->count, q->chunks, q->inner };
    for (size_t i = 0; i < p.n; i++) {
        double sum = 0;
        for (size_t k = first_of(&p, i); k < COPSE_MIN(first_of(&p, i) + CHUNK, p.count); k++)
            sum += copse__load(&args[0], place_of(&p, spec[0], i, k));
        copse__store(&args[1], i, sum);
    }
}

static void scan_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_scan *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const double start = spec[2] ? copse__load(&args[1], i) : 0;
        double sum = 0;
        for (size_t k = first_of(p, i); k < COPSE_MIN(first_of(p, i) + CHUNK, p->count); k++) {
            const size_t place = place_of(p, spec[0], i, k);
            const double next = sum + copse__load(&args[0], place);
            copse__store(&args[2], place, start + (spec[1] ? sum : next));
            sum = next;
        }
    }
}

/* ---- self-tests: three outer and two inner lines of two chunks ---- */

static void scan_sums_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_scan_sums p = {
        .n = 12, .count = COPSE_TEST_LINE, .chunks = 2, .inner = 2
    };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), 3 * COPSE_TEST_LINE * 2, p.n);
}

static void scan_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_scan p = {
        .n = 12, .count = COPSE_TEST_LINE, .chunks = 2, .inner = 2
    };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), 3 * COPSE_TEST_LINE * 2, p.n,
                    3 * COPSE_TEST_LINE * 2);
}

/* ---- laws ---- */

static bool scan_sums_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    struct copse_params_scan_sums *p = COPSE_SPLIT_PARAMS(scan_sums, o);
    const uint64_t lengths[] = { p->count, p->chunks };
    return copse__split_axis(o, 2, lengths, &p->n, p->chunks, &p->inner);
}

static bool scan_split(const struct copse_command *c, struct copse_split *o)
{
    struct copse_params_scan *p = COPSE_SPLIT_PARAMS(scan, o);
    const uint64_t lengths[] = { p->count, c->kernel->spec[2] ? p->chunks : 0, p->count };
    return copse__split_axis(o, 3, lengths, &p->n, p->chunks, &p->inner);
}

const struct copse_law copse_law_scan_sums = {
    .host = scan_sums_host,
    .split = scan_sums_split,
    .limit = { .ulp = 0.5, .ratio = 4 },
    .self_test = scan_sums_test,
};
const struct copse_law copse_law_scan = {
    .host = scan_host,
    .split = scan_split,
    .limit = { .ulp = 0.5, .ratio = 4 },
    .self_test = scan_test,
};
