/* SPDX-License-Identifier: MIT */
/* Products with matrices of blocks, and rows of them: the kernel variants with their launches, the
   family, and the ops with their shapes and the derivative. */
#include <math.h>
#include <stdio.h>

#include "core/graph/type.h"
#include "core/graph/variant.h"
#include "core/ops/ops.h"
#include "core/ops/product/blocks.h"
#include "core/ops/product/matmul_tile.h"
#include "core/ops/product/product_end.h"

/* Terms of a launch of the shared body: see matmul_variants.c. */
#define SHARED_MAX_K 8192u

static uint64_t divide_up(uint64_t n, uint64_t by)
{
    return (n + by - 1) / by;
}

/* Every argument needs a buffer, even an unused one. */
static struct copse_operand offsets_of(const copse_tensor *scales, const copse_tensor *offsets)
{
    return copse__of(offsets ? offsets : scales);
}

#define MATRIX_OF(p) \
    copse__of((p)->words), copse__of((p)->scales), offsets_of((p)->scales, (p)->offsets)

static void set_spec(const struct copse_blocks_product *p, int32_t first,
                     int32_t spec[COPSE_MAX_SPECS])
{
    const int32_t all[COPSE_MAX_SPECS] = { first, (int32_t)p->form.bits, (int32_t)p->form.log_group,
                                           p->offsets != NULL };
    memcpy(spec, all, sizeof all);
}

/* ---- the variants ---- */

static copse_status lower_shared(struct copse_lowering *l, const void *work)
{
    const struct copse_blocks_product *p = work;
    uint32_t x, y;
    int32_t spec[COPSE_MAX_SPECS];
    copse__kernel_group(copse__limits(l), COPSE_KERNEL_matmul_blocks, &x, &y);
    set_spec(p, p->b_transposed, spec);
    const uint64_t groups = divide_up(p->m, 4 * y) * divide_up(p->n, 4 * x);
    struct copse_params_matmul_blocks params = { p->m, p->n, p->k, 0, 0, 1, 1, 1, 1, 1 };
    do {
        params.k_begin = params.k_end;
        params.k_end += COPSE_MIN(p->k - params.k_begin, SHARED_MAX_K);
        COPSE_TRY(COPSE_LAUNCH(l, matmul_blocks, spec, params, groups, p->a, MATRIX_OF(p), p->c));
    } while (params.k_end < p->k);
    return COPSE_OK;
}

/* Few rows: a matrix is read from memory once, then from caches. */
#define FEW_ROWS 4u

static bool has_few_rows(const struct copse_limits *limits, const void *work)
{
    const struct copse_blocks_product *p = work;
    (void)limits;
    return p->b_transposed && p->m <= FEW_ROWS && p->k <= COPSE_BLOCKS_ONE_MOST;
}

static copse_status lower_one(struct copse_lowering *l, const void *work)
{
    const struct copse_blocks_product *p = work;
    const struct copse_params_blocks_one params = { p->m, p->n, p->k };
    const uint32_t group = copse__group_size(l, COPSE_KERNEL_blocks_one);
    /* lanes are for loads of neighbours; processors load for each invocation alone */
    const bool is_cpu = copse__limits(l)->has_wide_vectors || copse__limits(l)->has_fast_texels;
    int32_t log_lanes = 0, spec[COPSE_MAX_SPECS];
    while (!is_cpu && log_lanes < 5 && (2u << log_lanes) <= group)
        log_lanes++;
    set_spec(p, log_lanes, spec);
    const uint64_t groups = divide_up(((uint64_t)p->m * p->n) << log_lanes, group);
    return COPSE_LAUNCH(l, blocks_one, spec, params, groups, p->a, MATRIX_OF(p), p->c);
}

static copse_status lower_one_wide(struct copse_lowering *l, const void *work)
{
    const struct copse_blocks_product *p = work;
    const struct copse_params_blocks_one_wide params = { p->m, p->n, p->k };
    int32_t spec[COPSE_MAX_SPECS];
    set_spec(p, 0, spec);
    return COPSE_LAUNCH(l, blocks_one_wide, spec, params, p->m * divide_up(p->n, 4), p->a,
                        MATRIX_OF(p), p->c);
}

/* Rows of C of an invocation of blocks_wide, a multiple of six: few, so that processors share the
   work, and enough to pay for the elements. */
static uint32_t rows_at_once(uint32_t m)
{
    return m > 96 ? 96 : (uint32_t)COPSE_MAX(divide_up(m, 6), 1u) * 6;
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    const struct copse_blocks_product *p = work;
    const uint32_t rows = rows_at_once(p->m);
    const struct copse_params_blocks_wide params = { p->m, p->n, p->k, rows };
    int32_t spec[COPSE_MAX_SPECS];
    set_spec(p, p->b_transposed, spec);
    return COPSE_LAUNCH(l, blocks_wide, spec, params, divide_up(p->m, rows) * divide_up(p->n, 64),
                        p->a, MATRIX_OF(p), p->c);
}

static bool has_terms(const struct copse_limits *limits, const void *work)
{
    (void)limits;
    return ((const struct copse_blocks_product *)work)->k > 0;
}

static copse_status launch_rows(struct copse_lowering *l, const struct copse_blocks_form *form,
                                const copse_tensor *words, const copse_tensor *scales,
                                const copse_tensor *offsets, const copse_tensor *indices,
                                uint64_t rows, struct copse_operand to)
{
    const uint32_t width = form->columns * form->bits / 32;
    const int32_t spec[COPSE_MAX_SPECS] = { indices != NULL, (int32_t)form->bits,
                                            (int32_t)form->log_group, offsets != NULL };
    struct copse_params_blocks_rows p = { .count = (uint32_t)(rows * width),
                                          .width = width,
                                          .rows = form->rows };
    copse__divisor(p.width, &p.m, &p.h);
    return COPSE_LAUNCH(l, blocks_rows, spec, p,
                        copse__groups_for(l, COPSE_KERNEL_blocks_rows, p.count), copse__of(words),
                        copse__of(scales), offsets_of(scales, offsets),
                        copse__of(indices ? indices : words), to);
}

/* The same product of f32; b is an operand that no launch reads. */
static struct copse_product product_of(const struct copse_blocks_product *p)
{
    return (struct copse_product){ .a = p->a,
                                   .b = p->scales ? copse__of(p->scales) : p->a,
                                   .c = p->c,
                                   .batch = 1,
                                   .m = p->m,
                                   .n = p->n,
                                   .k = p->k,
                                   .b_transposed = p->b_transposed };
}

static bool fits_tile(const struct copse_limits *limits, const void *work)
{
    const struct copse_product product = product_of(work);
    return copse__tile_fits(limits, &product);
}

/* It has the tiles and parts of matmul_tile, so the result has the bits of `rows` with it. */
static copse_status lower_tile(struct copse_lowering *l, const void *work)
{
    const struct copse_blocks_product *p = work;
    const struct copse_product product = product_of(p);
    const struct copse_tile_choice choice = copse__tile_choice(copse__limits(l), &product);
    const struct copse_params_blocks_tile params = { p->m, p->n, p->k, choice.part, choice.parts };
    const uint64_t groups =
        choice.parts *
        copse__tile_count(&product, choice.shape, copse__group_size(l, COPSE_KERNEL_blocks_tile));
    struct copse_operand to = p->c, kept;
    int32_t spec[COPSE_MAX_SPECS];
    set_spec(p, p->b_transposed, spec);
    spec[4] = COPSE_BLOCKS_FORM(choice.shape, p->k % 4 == 0);
    if (choice.parts == 1)
        return COPSE_LAUNCH(l, blocks_tile, spec, params, groups, p->a, MATRIX_OF(p), to);
    COPSE_TRY(copse__scratch(l, (uint64_t)choice.parts * p->m * p->n, &to));
    COPSE_TRY(COPSE_LAUNCH(l, blocks_tile, spec, params, groups, p->a, MATRIX_OF(p), to));
    COPSE_TRY(copse__kept_of(l, &product, &kept));
    return copse__join_parts(l, &product, choice.parts, to, kept);
}

/* The matrix as f32 in scratch memory, and a product of f32. */
static copse_status lower_rows(struct copse_lowering *l, const void *work)
{
    const struct copse_blocks_product *p = work;
    struct copse_product product = product_of(p);
    COPSE_TRY(copse__scratch(l, (uint64_t)p->form.rows * p->form.columns, &product.b));
    COPSE_TRY(
        launch_rows(l, &p->form, p->words, p->scales, p->offsets, NULL, p->form.rows, product.b));
    return copse__lower_product(l, &product);
}

/* ---- the family ---- */

static const struct copse_variant variants[] = {
    { "shared", COPSE_KERNEL_matmul_blocks, { 1, 3, 3, 2 }, .lower = lower_shared },
    { "one", COPSE_KERNEL_blocks_one, { 0, 4, 0, 0 }, .fits = has_few_rows, .lower = lower_one },
    { "one_wide",
      COPSE_KERNEL_blocks_one_wide,
      { 5, 0, 5, 5 },
      .fits = has_few_rows,
      .lower = lower_one_wide },
    { "wide", COPSE_KERNEL_blocks_wide, { 4, 1, 4, 4 }, .fits = has_terms, .lower = lower_wide },
    { "rows", COPSE_KERNEL_blocks_rows, { 2, 2, 1, 3 }, .fits = has_terms, .lower = lower_rows },
    { "tile",
      COPSE_KERNEL_blocks_tile,
      { COPSE_ON_GPUS_ONLY, 1 },
      .fits = fits_tile,
      .lower = lower_tile,
      COPSE_NEEDS(COPSE_KERNEL_matmul_join) },
};

static bool blocks_size(const void *work, struct copse_size *out)
{
    const struct copse_blocks_product *p = work;
    out->kind = !p->b_transposed;
    out->of[0] = p->m;
    return p->k > 0;
}

/* Numbers of 4 bits, groups of 32: words and scales are converted from the inputs of a job. */
enum { JOB_SIDE = 512 };

static void blocks_job(const struct copse_size *at, struct copse_tune_job *j)
{
    const struct copse_blocks_product p = {
        .form = { JOB_SIDE, JOB_SIDE, 4, 5 },
        .m = at->of[0],
        .n = JOB_SIDE,
        .k = JOB_SIDE,
        .b_transposed = at->kind == 0,
    };
    COPSE_JOB_WORK(j, p);
    j->operations = 2.0 * p.m * p.n * p.k;
    j->in[0] = COPSE_SHAPE(p.m, p.k);
    j->in[1] = COPSE_SHAPE(JOB_SIDE, JOB_SIDE / 8);
    j->in[2] = COPSE_SHAPE(JOB_SIDE, JOB_SIDE / 32);
}

static copse_tensor *blocks_build(copse_graph *g, const struct copse_tune_job *j,
                                  copse_tensor *const *in)
{
    const struct copse_blocks_product *p = j->work;
    const struct copse_blocks w = { copse_cast(g, in[1], COPSE_I32), in[2], NULL, p->form.bits };
    return copse_matmul_blocks(g, in[0], &w, p->b_transposed);
}

const struct copse_family copse_family_blocks = {
    .name = "blocks",
    COPSE_VARIANTS(variants),
    .kinds = { "forward", "gradient" },
    .sizes = { { 1, 32, 512 } },
    .size = blocks_size,
    .job = blocks_job,
    .build = blocks_build,
};

/* ---- the form of a matrix ---- */

struct blocks_attr {
    uint32_t bits;
    bool transpose;
};

/* Of the node's operands from `first` on: words, scales, perhaps offsets. */
static copse_status blocks_form(const copse_tensor *y, uint32_t first,
                                struct copse_blocks_form *out)
{
    const struct blocks_attr *t = y->attr;
    const copse_tensor *words = y->in[first], *scales = y->in[first + 1],
                       *offsets = first + 2 < y->in_count ? y->in[first + 2] : NULL;
    if (words->type != COPSE_I32 || words->shape.rank != 2)
        return copse__shape_error(y, "expected i32 words [rows, columns * %u / 32]",
                                  (unsigned)t->bits);
    const uint64_t columns = (uint64_t)words->shape.dims[1] * 32 / t->bits;
    const uint32_t groups = scales->shape.rank == 2 ? scales->shape.dims[1] : 0;
    *out = (struct copse_blocks_form){ words->shape.dims[0], (uint32_t)columns, t->bits, 0 };
    out->log_group = COPSE_BLOCKS_LOG_GROUP_MIN;
    while (out->log_group < COPSE_BLOCKS_LOG_GROUP_MAX &&
           (uint64_t)groups << out->log_group < columns)
        out->log_group++;
    if (scales->type != COPSE_F32 || scales->shape.rank != 2 ||
        scales->shape.dims[0] != out->rows || columns == 0 ||
        (uint64_t)groups << out->log_group != columns)
        return copse__shape_error(
            y, "expected f32 scales [%u, %llu / group] of groups of 16, 32, 64, 128 or 256",
            (unsigned)out->rows, (unsigned long long)columns);
    if (offsets &&
        (offsets->type != COPSE_F32 || !copse__shape_equal(offsets->shape, scales->shape)))
        return copse__shape_error(y, "expected offsets of the type and shape of the scales");
    if (columns * out->rows > INT32_MAX)
        return copse__shape_error(y, "a matrix of more than 2^31 - 1 elements");
    return COPSE_OK;
}

/* ---- the product ---- */

static copse_status blocks_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const struct blocks_attr *t = y->attr;
    struct copse_blocks_form form;
    COPSE_TRY(blocks_form(y, 1, &form));
    *shape = y->in[0]->shape;
    *type = COPSE_F32;
    const uint32_t inner = t->transpose ? form.columns : form.rows;
    if (y->in[0]->type != COPSE_F32 || shape->rank < 1 || shape->dims[shape->rank - 1] != inner)
        return copse__shape_error(y, "expected an f32 x whose last axis has %u elements",
                                  (unsigned)inner);
    shape->dims[shape->rank - 1] = t->transpose ? form.rows : form.columns;
    return COPSE_OK;
}

static copse_tensor *blocks_node(copse_graph *g, copse_tensor *x, const struct copse_blocks *w,
                                 bool transpose);

static void blocks_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                            copse_tensor **dx)
{
    const struct blocks_attr *t = y->attr;
    const struct copse_blocks w = { y->in[1], y->in[2], y->in_count > 3 ? y->in[3] : NULL,
                                    t->bits };
    for (uint32_t i = 2; i < y->in_count; i++)
        if (y->in[i]->needs_gradient) {
            (void)copse__refuse(g, COPSE_ERR_UNSUPPORTED,
                                "matmul_blocks: scales and offsets have no derivative; freeze the "
                                "variables");
            return;
        }
    dx[0] = blocks_node(g, dy, &w, !t->transpose);
}

static copse_status blocks_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct blocks_attr *t = y->attr;
    const struct copse_variant *v;
    struct copse_blocks_product p = {
        .a = copse__of(y->in[0]),
        .c = copse__of(y),
        .words = y->in[1],
        .scales = y->in[2],
        .offsets = y->in_count > 3 ? y->in[3] : NULL,
        .n = y->shape.dims[y->shape.rank - 1],
        .b_transposed = t->transpose,
    };
    COPSE_TRY(blocks_form(y, 1, &p.form));
    p.k = t->transpose ? p.form.columns : p.form.rows;
    p.m = (uint32_t)(copse__elements(y->shape) / COPSE_MAX(p.n, 1u));
    COPSE_TRY(copse__choose(l, &copse_family_blocks, &p, &v));
    if (p.m == 0 || p.n == 0)
        return COPSE_OK;
    return p.k == 0 ? copse__lower_fill(l, y, 0.0) : v->lower(l, &p);
}

static const struct copse_op op_matmul_blocks = {
    .name = "matmul_blocks",
    .attr_size = sizeof(struct blocks_attr),
    .infer = blocks_infer,
    .gradient = blocks_gradient,
    .lower = blocks_lower,
};

static copse_tensor *blocks_node(copse_graph *g, copse_tensor *x, const struct copse_blocks *w,
                                 bool transpose)
{
    const struct blocks_attr t = { w->bits, transpose };
    return w->offsets ? COPSE_NODE(g, &op_matmul_blocks, &t, x, w->words, w->scales, w->offsets)
                      : COPSE_NODE(g, &op_matmul_blocks, &t, x, w->words, w->scales);
}

/* Operands of the op: one of its own, and a matrix. */
static copse_status check_operands(copse_graph *g, const char *op, copse_tensor *x,
                                   const struct copse_blocks *w)
{
    if (!w)
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: the matrix is NULL", op);
    COPSE_TRY(w->offsets ? COPSE_CHECK_OPERANDS(op, g, x, w->words, w->scales, w->offsets)
                         : COPSE_CHECK_OPERANDS(op, g, x, w->words, w->scales));
    return w->bits == 4 || w->bits == 8
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT, "%s: numbers of %u bits; 4 and 8 are known", op,
                            (unsigned)w->bits);
}

copse_tensor *copse_matmul_blocks(copse_graph *g, copse_tensor *x, const struct copse_blocks *w,
                                  bool transpose)
{
    COPSE_LATCH(g, check_operands(g, "matmul_blocks", x, w));
    return blocks_node(g, x, w, transpose);
}

/* ---- rows ---- */

static copse_status rows_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    struct copse_blocks_form form;
    COPSE_TRY(blocks_form(y, 1, &form));
    if (y->in[0]->type != COPSE_I32)
        return copse__shape_error(y, "expected i32 indices");
    *shape = y->in[0]->shape;
    if (shape->rank >= COPSE_MAX_RANK)
        return copse__shape_error(y, "the result has more than %d axes", COPSE_MAX_RANK);
    shape->dims[shape->rank++] = form.columns;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status rows_lower(struct copse_lowering *l, const copse_tensor *y)
{
    struct copse_blocks_form form;
    COPSE_TRY(blocks_form(y, 1, &form));
    if (form.rows == 0) /* every index is out of range, and there is no memory to bind */
        return copse__lower_fill(l, y, NAN);
    return launch_rows(l, &form, y->in[1], y->in[2], y->in_count > 3 ? y->in[3] : NULL, y->in[0],
                       copse__elements(y->in[0]->shape), copse__of(y));
}

static void rows_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                          copse_tensor **dx)
{
    (void)y, (void)dy, (void)dx;
    (void)copse__refuse(g, COPSE_ERR_UNSUPPORTED,
                        "gather_blocks: scales and offsets have no derivative; freeze the "
                        "variables");
}

static const struct copse_op op_gather_blocks = {
    .name = "gather_blocks",
    .attr_size = sizeof(struct blocks_attr),
    .infer = rows_infer,
    .gradient = rows_gradient,
    .lower = rows_lower,
};

copse_tensor *copse_gather_blocks(copse_graph *g, const struct copse_blocks *table,
                                  copse_tensor *indices)
{
    COPSE_LATCH(g, check_operands(g, "gather_blocks", indices, table));
    const struct blocks_attr t = { table->bits, false };
    return table->offsets
               ? COPSE_NODE(g, &op_gather_blocks, &t, indices, table->words, table->scales,
                            table->offsets)
               : COPSE_NODE(g, &op_gather_blocks, &t, indices, table->words, table->scales);
}
