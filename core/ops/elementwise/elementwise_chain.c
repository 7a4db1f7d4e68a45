/* SPDX-License-Identifier: MIT */
/* See elementwise_chain.h. Only functions with one rounding are links: their results have the same
   bits in every kernel. */
#include "core/ops/elementwise/elementwise_chain.h"

#include <math.h>

#include "core/ops/elementwise/binary.h"
#include "core/ops/elementwise/function_numbers.h"
#include "core/ops/elementwise/unary.h"
#include "core/ops/ops.h"
#include "core/ops/self_tests.h"

/* ---- nodes as links ---- */

struct link {
    int32_t function, mode;
    bool swaps;              /* the value is the second operand */
    const copse_tensor *x;   /* the operand that is the value */
    const copse_tensor *b;   /* the other one; NULL: none */
    uint32_t inside, period; /* inside: x as an operand of the node */
    float alpha;
};

/* The function of a node, and its operands: the first one, and the second one, if any. */
static int32_t function_of(const copse_tensor *t, uint32_t of[2])
{
    const struct copse_unary_attr *u = t->attr;
    const struct copse_binary_attr *p = t->attr;
    of[0] = 0;
    of[1] = t->in_count > 1;
    switch (t->op->chain) {
    case COPSE_CHAIN_UNARY:
        return u->id == UNARY_relu          ? COPSE_LINK_RELU
               : u->id == UNARY_multiply_by ? COPSE_LINK_SCALE
               : u->id == UNARY_square      ? COPSE_LINK_SQUARE
                                            : 0;
    case COPSE_CHAIN_UNARY_SLOPE: /* dy, relu */
        of[0] = 1;
        of[1] = 0;
        return u->id == UNARY_relu ? COPSE_LINK_SLOPE : 0;
    case COPSE_CHAIN_BINARY:
        return p->id == BINARY_add   ? COPSE_LINK_ADD
               : p->id == BINARY_sub ? COPSE_LINK_SUB
               : p->id == BINARY_mul ? COPSE_LINK_MUL
                                     : 0;
    case COPSE_CHAIN_BINARY_SLOPE: /* dy, the other factor */
        of[0] = 2;
        of[1] = p->side == 0 ? 1 : 0;
        return p->id == BINARY_mul ? COPSE_LINK_MUL : 0;
    case COPSE_CHAIN_NONE:
        break;
    }
    return 0;
}

/* Whether b repeats along the first axes of a tensor of this shape. */
static bool is_repeated(copse_shape b, copse_shape shape)
{
    uint32_t axis = 0;
    while (axis < b.rank && b.dims[axis] == 1)
        axis++;
    for (; axis < b.rank; axis++)
        if (b.dims[axis] != shape.dims[shape.rank - b.rank + axis])
            return false;
    return true;
}

/* t as a link whose value is x, or, if x is NULL, one of its operands. */
static bool link_of(const copse_tensor *t, const copse_tensor *x, struct link *out)
{
    uint32_t of[2];
    const uint64_t n = copse__elements(t->shape);
    *out = (struct link){ .function = function_of(t, of) };
    if (out->function == 0 || t->type != COPSE_F32 || n == 0)
        return false;
    const copse_tensor *first = t->in[of[0]], *second = t->in[of[1]];
    if (out->function < COPSE_LINK_RELU) {
        out->swaps = out->function != COPSE_LINK_SLOPE &&
                     (x ? x != first : copse__elements(first->shape) != n);
        out->b = out->swaps ? first : second;
    }
    out->x = out->swaps ? second : first;
    out->inside = 1u << of[out->swaps];
    if ((x && out->x != x) || out->b == out->x || copse__elements(out->x->shape) != n)
        return false;
    if (t->op->chain == COPSE_CHAIN_UNARY)
        out->alpha = ((const struct copse_unary_attr *)t->attr)->alpha;
    const uint64_t count = out->b ? copse__elements(out->b->shape) : n;
    out->mode = count == n ? COPSE_LINK_EACH : count == 1 ? COPSE_LINK_ONE : COPSE_LINK_PERIOD;
    out->period = (uint32_t)count;
    return out->mode != COPSE_LINK_PERIOD || is_repeated(out->b->shape, t->shape);
}

/* ---- fusions ---- */

struct links {
    struct link at[COPSE_MOST_LINKS];
    const copse_tensor *node[COPSE_MOST_LINKS];
    uint32_t count, period; /* period 0: no operand repeats */
};

static bool chain_add(struct links *c, const copse_tensor *t)
{
    struct link *k = &c->at[c->count];
    if (!link_of(t, c->count > 0 ? c->node[c->count - 1] : NULL, k) ||
        !copse__shape_equal(t->shape, c->count > 0 ? c->node[0]->shape : t->shape) ||
        (k->mode == COPSE_LINK_PERIOD && c->period && c->period != k->period))
        return false;
    if (k->mode == COPSE_LINK_PERIOD)
        c->period = k->period;
    c->node[c->count++] = t;
    return true;
}

/* From y on, as far as each node has one reader; `turn` nodes less. */
bool copse__chain_fuse(struct copse_lowering *l, const copse_tensor *y, uint32_t turn,
                       struct copse_fused *out)
{
    struct links c = { .count = 0 };
    const copse_tensor *t = y;
    if (!copse__can_launch(l, COPSE_KERNEL_chain))
        return false;
    while (t && c.count < COPSE_MOST_LINKS && chain_add(&c, t))
        t = copse__reader(l, t, 1) ? NULL : copse__reader(l, t, 0);
    if (c.count < turn + 2)
        return false;
    for (uint32_t i = 0; i < c.count - turn; i++) {
        out->at[i] = c.node[i];
        out->inside[i] = i > 0 ? c.at[i].inside : 0;
        out->is_inner[i] = i + 1 < c.count - turn;
    }
    return true;
}

copse_status copse__chain_lower(struct copse_lowering *l, const struct copse_fused *f)
{
    struct links c = { .count = 0 };
    while (c.count < COPSE_MOST_LINKS && f->at[c.count])
        chain_add(&c, f->at[c.count]);
    const uint32_t n = (uint32_t)copse__elements(f->at[0]->shape);
    struct copse_params_chain p = {
        n, COPSE_MAX(c.period, 1u), 0, 0, c.at[0].alpha, c.at[1].alpha, c.at[2].alpha, c.at[3].alpha
    };
    int32_t spec[COPSE_MAX_SPECS] = { 0 };
    struct copse_operand args[COPSE_MOST_LINKS + 2];
    copse__divisor(p.period, &p.m, &p.h);
    args[0] = copse__of(c.at[0].x);
    for (uint32_t i = 0; i < COPSE_MOST_LINKS; i++) {
        const struct link *k = &c.at[i];
        spec[i] = k->function + COPSE_LINK_MODE * k->mode + (k->swaps ? COPSE_LINK_SWAPS : 0);
        args[1 + i] = copse__of(k->b ? k->b : c.at[0].x); /* every argument needs a buffer */
    }
    args[1 + COPSE_MOST_LINKS] = copse__of(c.node[c.count - 1]);
    return copse__launch(l, COPSE_KERNEL_chain, spec, &p,
                         copse__groups_for(l, COPSE_KERNEL_chain, n), args, COPSE_COUNT(args));
}

/* ---- reference ---- */

static double link_operand(const struct copse_params_chain *p, int32_t link,
                           const struct copse_host_arg *b, size_t i)
{
    const int32_t mode = link / COPSE_LINK_MODE % 4;
    return copse__load(b, mode == COPSE_LINK_EACH ? i : mode == COPSE_LINK_ONE ? 0 : i % p->period);
}

static double link_value(int32_t link, double v, double b, double alpha)
{
    const double one = link >= COPSE_LINK_SWAPS ? b : v, two = link >= COPSE_LINK_SWAPS ? v : b;
    switch (link % COPSE_LINK_MODE) {
    case COPSE_LINK_ADD:
        return one + two;
    case COPSE_LINK_SUB:
        return one - two;
    case COPSE_LINK_MUL:
        return one * two;
    case COPSE_LINK_SLOPE:
        return b > 0 ? v : 0;
    case COPSE_LINK_RELU:
        return v <= 0 ? 0 : v;
    case COPSE_LINK_SCALE:
        return alpha * v;
    case COPSE_LINK_SQUARE:
        return v * v;
    }
    return v;
}

/* Each result is rounded where the operands are floats, as by a launch of its own. */
static double chain_at(const void *params, const int32_t *spec, const struct copse_host_arg *args,
                       size_t i)
{
    const struct copse_params_chain *p = params;
    const float alpha[] = { p->alpha0, p->alpha1, p->alpha2, p->alpha3 };
    double v = copse__load(&args[0], i);
    for (uint32_t k = 0; k < COPSE_MOST_LINKS && spec[k] > 0; k++) {
        const bool has_operand = spec[k] % COPSE_LINK_MODE < COPSE_LINK_RELU;
        const double b = has_operand ? link_operand(p, spec[k], &args[1 + k], i) : 0;
        v = link_value(spec[k], v, b, (double)alpha[k]);
        v = args[0].is_double ? v : (double)(float)v;
    }
    return v;
}

static void chain_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_chain *p = params;
    for (size_t i = 0; i < p->n; i++)
        copse__store(&args[5], i, chain_at(params, spec, args, i));
}

/* ---- basis of the tolerance ---- */

/* Intermediate results below this are rounded to a multiple of 2^-149. */
#define LEAST 0x1p-126

static double link_size(int32_t link, double size, double b, double alpha)
{
    switch (link % COPSE_LINK_MODE) {
    case COPSE_LINK_ADD:
    case COPSE_LINK_SUB:
        return size + b;
    case COPSE_LINK_MUL:
        return size * b + LEAST;
    case COPSE_LINK_SCALE:
        return size * alpha + LEAST;
    case COPSE_LINK_SQUARE:
        return size * size + LEAST;
    }
    return size;
}

static void chain_size(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_chain *p = params;
    const float alpha[] = { p->alpha0, p->alpha1, p->alpha2, p->alpha3 };
    for (size_t i = 0; i < p->n; i++) {
        double size = fabs(copse__load(&args[0], i));
        for (uint32_t k = 0; k < COPSE_MOST_LINKS && spec[k] > 0; k++) {
            const bool has_operand = spec[k] % COPSE_LINK_MODE < COPSE_LINK_RELU;
            const double b = has_operand ? fabs(link_operand(p, spec[k], &args[1 + k], i)) : 0;
            size = link_size(spec[k], size, b, fabs((double)alpha[k]));
        }
        copse__store(&args[5], i, size);
    }
}

/* ---- self-test ---- */

static void chain_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    enum { PERIOD = 7 };
    struct copse_params_chain p = { COPSE_TEST_N, PERIOD, 0, 0, 0.5f, -2.0f, 0.25f, 4.0f };
    uint32_t words[COPSE_MOST_LINKS];
    copse__divisor(p.period, &p.m, &p.h);
    for (uint32_t i = 0; i < COPSE_MOST_LINKS; i++) {
        const int32_t mode = k->spec[i] / COPSE_LINK_MODE % 4;
        words[i] = mode == COPSE_LINK_EACH ? p.n : mode == COPSE_LINK_ONE ? 1 : PERIOD;
    }
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), p.n, words[0], words[1], words[2], words[3],
                    p.n);
}

/* ---- law ---- */

/* Each link doubles the errors of the one before at most, and adds its own. */
const struct copse_law copse_law_chain = {
    .host = chain_host,
    .at = chain_at,
    .limit = { .ulp = 1, .ratio = 15, .size = chain_size },
    .self_test = chain_test,
};
