/* SPDX-License-Identifier: MIT */
/* Rotary positions: the op, and its kernel variants with their launches. The table of cosines and
   sines is an operand. */
#include <math.h>
#include <stdio.h>

#include "copse/ops/rotary.h"
#include "core/graph/type.h"
#include "core/graph/variant.h"
#include "core/ops/ops.h"
#include "core/ops/self_tests.h"

#define BASE 10000.0f

struct rotary_attr {
    float base; /* 0: the table is the caller's */
    uint32_t offset;
    uint32_t pairs, heads; /* that turn */
    int32_t is_interleaved;
    float factor; /* of sines: 1, or -1 for the derivative */
};

/* The last axes of x: length, heads, width. */
static const uint32_t *last_three(const copse_shape *x)
{
    return x->dims + x->rank - 3;
}

/* ---- launches ---- */

struct rotary {
    uint32_t pairs, width;
    struct copse_params_rotary p;
    int32_t is_interleaved;
    const copse_tensor *x, *turns, *y;
};

static copse_status lower_plain(struct copse_lowering *l, const void *work)
{
    const struct rotary *w = work;
    const int32_t spec[COPSE_MAX_SPECS] = { w->is_interleaved };
    return COPSE_LAUNCH(l, rotary, spec, w->p, copse__groups_for(l, COPSE_KERNEL_rotary, w->p.n),
                        copse__of(w->x), copse__of(w->turns), copse__of(w->y));
}

/* Of kernels with the same first parameters. */
static struct copse_params_rotary_wide wide_of(const struct copse_params_rotary *p)
{
    return (struct copse_params_rotary_wide){ p->n,      p->width, p->heads,  p->rows,
                                              p->turned, p->pairs, p->factor, p->each };
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    const struct rotary *w = work;
    const struct copse_params_rotary_wide p = wide_of(&w->p);
    const int32_t spec[COPSE_MAX_SPECS] = { w->is_interleaved };
    const uint64_t rows = p.n / (p.width * p.heads);
    return COPSE_LAUNCH(l, rotary_wide, spec, p, (rows + p.each - 1) / p.each, copse__of(w->x),
                        copse__of(w->turns), copse__of(w->y));
}

static bool has_vectors(const struct copse_limits *limits, const void *work)
{
    (void)limits;
    return ((const struct rotary *)work)->pairs % 16 == 0;
}

/* ---- the family ---- */

static const struct copse_variant variants[] = {
    { "plain", COPSE_KERNEL_rotary, { 0, 1, 0, 0 }, .lower = lower_plain },
    { "wide", COPSE_KERNEL_rotary_wide, { 1, 0, 1, 1 }, .fits = has_vectors, .lower = lower_wide },
};

static bool rotary_size(const void *work, struct copse_size *out)
{
    const struct rotary *w = work;
    out->of[0] = w->width; /* of a head */
    return w->pairs > 0;
}

#define JOB_ROWS 2048u

static void rotary_job(const struct copse_size *at, struct copse_tune_job *j)
{
    const struct rotary w = { .width = at->of[0], .pairs = at->of[0] / 2 };
    COPSE_JOB_WORK(j, w);
    j->in[0] = COPSE_SHAPE(JOB_ROWS, 4, w.width);
    j->in[1] = COPSE_SHAPE(JOB_ROWS, w.width);
}

static copse_tensor *rotary_build(copse_graph *g, const struct copse_tune_job *j,
                                  copse_tensor *const *in)
{
    (void)j;
    return copse_rotary_by(g, in[0], in[1], NULL);
}

const struct copse_family copse_family_rotary = {
    .name = "rotary",
    COPSE_VARIANTS(variants),
    .slack = 1e-6f,
    .sizes = { { 32, 128 } },
    .size = rotary_size,
    .job = rotary_job,
    .operations = { 3 },
    .build = rotary_build,
};

/* ---- the op ---- */

static bool are_last_axes(copse_shape turns, copse_shape x)
{
    if (turns.rank < 2 || turns.rank > x.rank - 1)
        return false;
    for (uint32_t i = 2; i <= turns.rank; i++)
        if (turns.dims[turns.rank - i] != x.dims[x.rank - 1 - i])
            return false;
    return true;
}

static copse_status rotary_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const struct rotary_attr *a = y->attr;
    const copse_shape x = y->in[0]->shape, turns = y->in[1]->shape;
    if (y->in[0]->type != COPSE_F32 || y->in[1]->type != COPSE_F32)
        return copse__shape_error(y, "expected f32 operands");
    if (!are_last_axes(turns, x) || turns.dims[turns.rank - 1] != 2 * a->pairs)
        return copse__shape_error(
            y, "expected f32 turns [.., length, %u] of x [.., length, heads, width]", 2 * a->pairs);
    *shape = x;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status rotary_lower(struct copse_lowering *l, const copse_tensor *y)
{
    enum { EACH = 4096 }; /* elements that an invocation of the wide kernel processes */
    const struct rotary_attr *a = y->attr;
    const uint32_t *of_x = last_three(&y->shape);
    struct rotary w = { .pairs = a->pairs,
                        .width = of_x[2],
                        .is_interleaved = a->is_interleaved,
                        .x = y->in[0],
                        .turns = y->in[1],
                        .y = y };
    struct copse_params_rotary *p = &w.p;
    p->n = (uint32_t)copse__elements(y->shape);
    if (p->n == 0)
        return COPSE_OK;
    p->width = of_x[2];
    p->heads = of_x[1];
    p->rows = (uint32_t)(copse__elements(w.turns->shape) / (2 * a->pairs));
    p->turned = a->heads;
    p->pairs = a->pairs;
    p->factor = a->factor;
    p->each = COPSE_MAX(EACH / (p->width * p->heads), 1u);
    copse__divisor(p->width, &p->width_m, &p->width_h);
    copse__divisor(p->heads, &p->heads_m, &p->heads_h);
    copse__divisor(p->rows, &p->rows_m, &p->rows_h);
    return copse__lower_variant(l, &copse_family_rotary, &w);
}

static void rotary_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                            copse_tensor **dx);

static const struct copse_op op_rotary = {
    .name = "rotary",
    .attr_size = sizeof(struct rotary_attr),
    .infer = rotary_infer,
    .gradient = rotary_gradient,
    .lower = rotary_lower,
};

/* ---- the derivative of the table ---- */

/* The elements that turn, and the sum over their heads and both numbers of each pair: [.., length,
   pairs]. */
static copse_tensor *sum_of_pairs(copse_graph *g, copse_tensor *t, const struct rotary_attr *a)
{
    copse_shape s = t->shape;
    const uint32_t start[COPSE_MAX_RANK] = { 0 }, summed[] = { 1, a->is_interleaved ? 3 : 2 };
    uint32_t rows = 1;
    if (copse__is_failed(t))
        return t;
    for (uint32_t i = 0; i + 2 < s.rank; i++)
        rows *= s.dims[i];
    s.dims[s.rank - 2] = a->heads;
    s.dims[s.rank - 1] = 2 * a->pairs;
    const copse_shape split = a->is_interleaved ? COPSE_SHAPE(rows, a->heads, a->pairs, 2)
                                                : COPSE_SHAPE(rows, a->heads, 2, a->pairs);
    t = copse_slice(g, t, start, s.dims);
    t = copse_reshape(g, t, split);
    return copse_sum(g, t, summed, 2, false);
}

/* With y = x c + quarter(x) s, where quarter turns each pair by a right angle. */
static copse_tensor *gradient_of_turns(copse_graph *g, const copse_tensor *y, copse_tensor *dy)
{
    const struct rotary_attr *a = y->attr;
    copse_tensor *x = y->in[0], *turns = y->in[1], *parts[2], *quarter;
    copse_shape s = turns->shape;
    s.dims[s.rank - 1] = a->pairs;
    parts[0] = copse_fill(g, COPSE_F32, s, 0);
    parts[1] = copse_fill(g, COPSE_F32, s, 1);
    quarter = copse_concat(g, parts, 2, s.rank - 1);
    quarter = COPSE_NODE(g, &op_rotary, a, x, quarter);
    parts[0] = copse_mul(g, x, dy);
    parts[1] = copse_mul(g, quarter, dy);
    copse_shape each = y->shape;
    each.rank--;
    each.dims[each.rank - 1] = a->pairs;
    for (int i = 0; i < 2; i++) {
        parts[i] = sum_of_pairs(g, parts[i], a);
        parts[i] = copse_reshape(g, parts[i], each);
        parts[i] = copse__sum_to(g, parts[i], s);
    }
    return copse_concat(g, parts, 2, s.rank - 1);
}

/* The inverse rotation is the transpose. */
static void rotary_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                            copse_tensor **dx)
{
    struct rotary_attr back = *(const struct rotary_attr *)y->attr;
    back.factor = -back.factor;
    if (y->in[0]->needs_gradient)
        dx[0] = COPSE_NODE(g, &op_rotary, &back, dy, y->in[1]);
    if (y->in[1]->needs_gradient)
        dx[1] = gradient_of_turns(g, y, dy);
}

/* ---- calls ---- */

static copse_status rotary_check(const char *op, const copse_tensor *x,
                                 const struct copse_rotary_params *p, struct rotary_attr *a)
{
    if (x->shape.rank < 3)
        return copse_fail(COPSE_ERR_SHAPE, "%s: x %s%s: expected f32 [.., length, heads, width]",
                          op, copse_type_name(x->type), COPSE_SHAPE_TEXT(x->shape));
    const uint32_t *of_x = last_three(&x->shape), width = p->width ? p->width : of_x[2],
                   heads = p->heads ? p->heads : of_x[1];
    if (width % 2 || width > of_x[2] || width == 0)
        return copse_fail(
            COPSE_ERR_SHAPE,
            "%s: %u numbers of each head of x %s turn: expected an even number from 2 to %u", op,
            (unsigned)width, COPSE_SHAPE_TEXT(x->shape), (unsigned)of_x[2]);
    if (heads > of_x[1])
        return copse_fail(COPSE_ERR_SHAPE, "%s: %u heads of x %s turn: expected at most %u", op,
                          (unsigned)heads, COPSE_SHAPE_TEXT(x->shape), (unsigned)of_x[1]);
    *a = (struct rotary_attr){
        .pairs = width / 2, .heads = heads, .is_interleaved = p->is_interleaved, .factor = 1
    };
    return COPSE_OK;
}

/* The table that an earlier call with these angles made; NULL: none. */
static copse_tensor *find_table(const copse_graph *g, const struct rotary_attr *a, uint32_t length)
{
    for (size_t i = g->nodes.count; i-- > 0;) {
        const copse_tensor *t = g->nodes.at[i];
        if (t->op != &op_rotary)
            continue;
        const struct rotary_attr *b = t->attr;
        if (b->base > 0 && b->base == a->base && b->offset == a->offset && b->pairs == a->pairs &&
            t->in[1]->shape.dims[0] == length)
            return t->in[1];
    }
    return NULL;
}

static copse_tensor *make_table(copse_graph *g, const struct rotary_attr *a, uint32_t length)
{
    const size_t pairs = a->pairs;
    if ((uint64_t)length * pairs * 2 > INT32_MAX)
        return copse__refuse(g, COPSE_ERR_SHAPE, "rotary: %u positions of %zu pairs are too many",
                             (unsigned)length, pairs);
    float *table =
        copse__alloc(&g->ctx->base.mem, COPSE_MAX((size_t)length * pairs * 2, 1u), sizeof *table);
    COPSE_LATCH(g, copse_need_memory(table, "rotary"));
    for (size_t k = 0; k < pairs; k++) {
        const double speed = pow((double)a->base, -(double)k / (double)pairs);
        for (size_t t = 0; t < length; t++) {
            const double angle = (double)(t + a->offset) * speed;
            table[t * 2 * pairs + k] = (float)cos(angle);
            table[t * 2 * pairs + pairs + k] = (float)sin(angle);
        }
    }
    copse_tensor *turns = copse_constant(g, COPSE_F32, COPSE_SHAPE(length, 2 * a->pairs), table);
    copse__free(&g->ctx->base.mem, table);
    return copse__noted(g, turns, "while adding rotary");
}

copse_tensor *copse_rotary(copse_graph *g, copse_tensor *x,
                           const struct copse_rotary_params *params)
{
    static const struct copse_rotary_params defaults;
    const struct copse_rotary_params *p = params ? params : &defaults;
    struct rotary_attr a;
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("rotary", g, x));
    COPSE_LATCH(g, copse_no_reserved(copse_rotary_params, p));
    if (!isfinite(p->base) || p->base < 0)
        return copse__refuse(g, COPSE_ERR_ARGUMENT,
                             "rotary: base %g is not a finite number above 0", (double)p->base);
    COPSE_LATCH(g, rotary_check("rotary", x, p, &a));
    a.base = p->base > 0 ? p->base : BASE;
    a.offset = p->offset;
    const uint32_t length = last_three(&x->shape)[0];
    copse_tensor *table = find_table(g, &a, length);
    if (!table)
        table = make_table(g, &a, length);
    return COPSE_NODE(g, &op_rotary, &a, x, table);
}

copse_tensor *copse_rotary_by(copse_graph *g, copse_tensor *x, copse_tensor *turns,
                              const struct copse_rotary_params *params)
{
    static const struct copse_rotary_params defaults;
    const struct copse_rotary_params *p = params ? params : &defaults;
    struct rotary_attr a;
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("rotary_by", g, x, turns));
    COPSE_LATCH(g, copse_no_reserved(copse_rotary_params, p));
    COPSE_LATCH(g, rotary_check("rotary_by", x, p, &a));
    return COPSE_NODE(g, &op_rotary, &a, x, turns);
}

/* ---- reference ---- */

#define ADDS_MAGNITUDES 5 /* of the specification: the magnitudes of the terms, for limits */

/* The kernel for wide vectors has the same first parameters. */
static double rotary_at(const void *params, const int32_t *spec, const struct copse_host_arg *args,
                        size_t i)
{
    const struct copse_params_rotary *p = params;
    const size_t col = i % p->width, head = i / p->width % p->heads,
                 row = i / p->width / p->heads % p->rows;
    const double x = copse__load(&args[0], i);
    if (head >= p->turned || col >= 2 * (size_t)p->pairs)
        return spec[ADDS_MAGNITUDES] ? fabs(x) : x;
    const bool is_second = spec[0] ? col % 2 != 0 : col >= p->pairs;
    const size_t pair = spec[0] ? col / 2 : col % p->pairs, apart = spec[0] ? 1 : p->pairs,
                 turn = 2 * row * p->pairs + pair;
    const double own = x * copse__load(&args[1], turn);
    const double other = copse__load(&args[0], is_second ? i - apart : i + apart) *
                         copse__load(&args[1], turn + p->pairs);
    if (spec[ADDS_MAGNITUDES])
        return fabs(own) + fabs(other);
    return is_second ? own + other * (double)p->factor : own - other * (double)p->factor;
}

static void rotary_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_rotary *p = params;
    for (size_t i = 0; i < p->n; i++)
        copse__store(&args[2], i, rotary_at(params, spec, args, i));
}

/* ---- self-tests ---- */

/* Rows of two heads; the first head is rotated. The table has two rows. */
enum { ROWS = 3, HEADS = 2 };

static struct copse_params_rotary test_params(uint32_t width, uint32_t pairs)
{
    struct copse_params_rotary p = { .n = ROWS * HEADS * width,
                                     .width = width,
                                     .heads = HEADS,
                                     .rows = 2,
                                     .turned = 1,
                                     .pairs = pairs,
                                     .factor = 1,
                                     .each = 2 };
    copse__divisor(width, &p.width_m, &p.width_h);
    copse__divisor(HEADS, &p.heads_m, &p.heads_h);
    copse__divisor(2, &p.rows_m, &p.rows_h);
    return p;
}

static void rotary_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_rotary p = test_params(9, 4);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), p.n, 4 * p.pairs, p.n);
}

static void rotary_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_rotary of = test_params(33, 16);
    const struct copse_params_rotary_wide p = wide_of(&of);
    (void)k;
    COPSE_SELF_TEST(t, p, 2, p.n, 4 * p.pairs, p.n);
}

/* ---- laws ---- */

/* With the last constant the host function adds the magnitudes of its terms. */
static void rotary_magnitudes(int32_t *spec)
{
    spec[5] = 1;
}

const struct copse_law copse_law_rotary = {
    .host = rotary_host,
    .at = rotary_at,
    .limit = { .ulp = 1, .ratio = 4 },
    .magnitudes = rotary_magnitudes,
    .has_signs = true,
    .self_test = rotary_test,
};
const struct copse_law copse_law_rotary_wide = {
    .host = rotary_host,
    .at = rotary_at,
    .limit = { .ulp = 1, .ratio = 4 },
    .magnitudes = rotary_magnitudes,
    .has_signs = true,
    .self_test = rotary_wide_test,
};
