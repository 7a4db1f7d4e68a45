/* SPDX-License-Identifier: MIT */
/* Matrix products: the kernel variants with their launches, the family, and the op with its shapes
   and derivatives. */
#include <stdio.h>

#include "core/graph/type.h"
#include "core/graph/variant.h"
#include "core/ops/ops.h"
#include "core/ops/product/matmul_tile.h"
#include "core/ops/product/precision.h"
#include "core/ops/product/product_end.h"

/* A longer sum is split over several launches. Each launch adds to the result of the launch before.
   Some drivers leave a loop after 65535 rounds, so loops must be shorter; chains of additions must
   be short, too. */
#define SHARED_MAX_K 8192u /* 6.1 rounds per element, if inner loops are not unrolled */
#define TEXEL_MAX_K  65536u

static uint64_t divide_up(uint64_t n, uint64_t by)
{
    return (n + by - 1) / by;
}

/* The product with f32 operands: those of 16 bits are widened. */
static copse_status matmul_widened(struct copse_lowering *l, const void *work,
                                   struct copse_product *p)
{
    *p = *(const struct copse_product *)work;
    COPSE_TRY(copse__widen(l, &p->a));
    return copse__widen(l, &p->b);
}

/* Whether items of the batch read one matrix of an operand. */
static bool matmul_repeats(const struct copse_product *p)
{
    return p->of_a.count < p->batch || p->of_b.count < p->batch;
}

/* ---- the shared body ---- */

static copse_status lower_shared(struct copse_lowering *l, const void *work)
{
    struct copse_product wide;
    const struct copse_product *p = &wide;
    uint32_t x, y;
    COPSE_TRY(matmul_widened(l, work, &wide));
    copse__kernel_group(copse__limits(l), COPSE_KERNEL_matmul, &x, &y);
    const int32_t spec[COPSE_MAX_SPECS] = { p->bias != NULL, (int32_t)p->activation,
                                            p->a_transposed, p->b_transposed, matmul_repeats(p) };
    const uint64_t groups = p->batch * divide_up(p->m, 4 * y) * divide_up(p->n, 4 * x);
    struct copse_params_matmul params = {
        p->m, p->n, p->k, 0, 0, p->batch, p->of_a.each, p->of_a.count, p->of_b.each, p->of_b.count
    };
    do {
        params.k_begin = params.k_end;
        params.k_end += COPSE_MIN(p->k - params.k_begin, SHARED_MAX_K);
        COPSE_TRY(
            COPSE_LAUNCH(l, matmul, spec, params, groups, p->a, p->b, copse__bias_of(p), p->c));
    } while (params.k_end < p->k);
    return COPSE_OK;
}

/* ---- tiles for GPUs ---- */

static copse_status lower_tile(struct copse_lowering *l, const void *work)
{
    struct copse_product wide;
    COPSE_TRY(matmul_widened(l, work, &wide));
    return copse__lower_tile(l, &wide);
}

static bool fits_tile(const struct copse_limits *limits, const void *work)
{
    return copse__tile_fits(limits, work);
}

/* ---- wide vectors ---- */

/* Measured limits [elements]. A transposed A is read down its columns, which is cheap while A fits
   into the caches; a larger one is transposed first. Likewise for B in place: rows far apart map to
   few cache lines. */
#define WIDE_ROWS  6u
#define WIDE_MAX_A (200u * 1024)
#define WIDE_MAX_B (400u * 1024)

static bool has_terms(const struct copse_limits *limits, const void *work)
{
    (void)limits;
    return ((const struct copse_product *)work)->k > 0;
}

static copse_status wide_turn_a(struct copse_lowering *l, const struct copse_product *p,
                                struct copse_params_matmul_wide *params, struct copse_operand *a)
{
    const uint64_t row = divide_up(p->k, 16) * 16;
    const struct copse_params_matmul_wide_turn turn = {
        .rows = p->k,
        .cols = p->m,
        .width = UINT32_MAX,
        .step = (uint32_t)row,
        .padded = (uint32_t)row,
        .to_batch = (uint32_t)(p->m * row),
        .batch = p->of_a.count,
    };
    COPSE_TRY(copse__scratch(l, turn.batch * p->m * row, a));
    params->a_row = (uint32_t)row;
    params->a_step = 1;
    params->a_batch = turn.to_batch;
    return COPSE_LAUNCH(l, matmul_wide_turn, NULL, turn,
                        turn.batch * (row / 16) * divide_up(p->m, 64), p->a, *a);
}

static int32_t wide_vectors(const struct copse_product *p)
{
    return p->n <= 16 ? 0 : p->n <= 32 ? 1 : 2; /* the binary logarithm of their number */
}

static copse_status wide_panels_b(struct copse_lowering *l, const struct copse_product *p,
                                  struct copse_operand *b)
{
    const uint32_t count = p->of_b.count, width = 16u << wide_vectors(p);
    const uint64_t panels = divide_up(p->n, width), padded = panels * width;
    COPSE_TRY(copse__scratch(l, count * padded * p->k, b));
    if (!p->b_transposed) {
        const struct copse_params_matmul_wide_pack pack = { p->k, p->n, width, count };
        return COPSE_LAUNCH(l, matmul_wide_pack, NULL, pack, count * panels * divide_up(p->k, 64),
                            p->b, *b);
    }
    const struct copse_params_matmul_wide_turn turn = {
        .rows = p->n,
        .cols = p->k,
        .width = width,
        .panel = p->k * width,
        .step = width,
        .padded = (uint32_t)padded,
        .to_batch = (uint32_t)(padded * p->k),
        .batch = count,
    };
    return COPSE_LAUNCH(l, matmul_wide_turn, NULL, turn,
                        count * (padded / 16) * divide_up(p->k, 64), p->b, *b);
}

/* Whether B is not read in place. With few rows of A the copy does not pay off. */
static bool wide_copies_b(const struct copse_product *p)
{
    const uint32_t width = 16u << wide_vectors(p);
    const bool is_large = (uint64_t)p->k * p->n > WIDE_MAX_B && p->m > 4 * WIDE_ROWS;
    return p->b_transposed || p->n % width != 0 || is_large;
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    struct copse_product operands;
    const struct copse_product *p = &operands;
    COPSE_TRY(matmul_widened(l, work, &operands));
    const int32_t log_vectors = wide_vectors(p);
    const uint32_t width = 16u << log_vectors;
    const uint64_t size_a = (uint64_t)p->m * p->k;
    const int32_t spec[COPSE_MAX_SPECS] = { p->bias != NULL, (int32_t)p->activation, log_vectors };
    struct copse_params_matmul_wide params = {
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .a_row = p->a_transposed ? 1 : p->k,
        .a_step = p->a_transposed ? p->m : 1,
        .b_panel = width,
        .b_step = p->n,
        .a_batch = (uint32_t)size_a,
        .b_batch = p->k * p->n,
        .batch = p->batch,
        .a_each = p->of_a.each,
        .a_count = p->of_a.count,
        .b_each = p->of_b.each,
        .b_count = p->of_b.count,
    };
    struct copse_operand a = p->a, b = p->b;
    if (p->a_transposed && size_a > WIDE_MAX_A)
        COPSE_TRY(wide_turn_a(l, p, &params, &a));
    const bool is_copied = wide_copies_b(p);
    if (p->has_panels)
        b = p->panels;
    else if (is_copied)
        COPSE_TRY(wide_panels_b(l, p, &b));
    if (p->has_panels || is_copied) {
        params.b_panel = p->k * width;
        params.b_step = width;
        params.b_batch = (uint32_t)(divide_up(p->n, width) * width * p->k);
    }
    const uint64_t groups = p->batch * divide_up(p->m, WIDE_ROWS) * divide_up(p->n, width);
    return COPSE_LAUNCH(l, matmul_wide, spec, params, groups, a, b, copse__bias_of(p), p->c);
}

/* ---- chunks of B, for wide vectors ---- */

#define CHUNK_MAX_ROWS 192u /* measured: with more of them the copies of B are cheap */

/* matmul_wide would copy B, which takes long beside products of few rows. */
static bool chunk_leads(const copse_device *dev, const void *work)
{
    const struct copse_product *p = work;
    (void)dev;
    return p->m <= CHUNK_MAX_ROWS && p->n > 32 && !p->has_panels && wide_copies_b(p);
}

static copse_status lower_chunk(struct copse_lowering *l, const void *work)
{
    struct copse_product wide;
    COPSE_TRY(matmul_widened(l, work, &wide));
    return copse__lower_chunk(l, &wide);
}

/* ---- texels ---- */

/* A matrix as rows of whole texels: in place if it has that form, otherwise a padded copy. */
struct texel_matrix {
    struct copse_operand operand;
    uint32_t row, batch; /* in texels */
};

static copse_status texel_matrix(struct copse_lowering *l, struct copse_operand x, uint32_t count,
                                 uint32_t rows, uint32_t cols, bool rows_are_k,
                                 struct texel_matrix *out)
{
    const uint32_t whole_rows = rows_are_k ? (uint32_t)divide_up(rows, 4) * 4 : rows;
    uint32_t whole_cols = (uint32_t)divide_up(cols, 4) * 4;
    /* Rows at a distance of a multiple of 4096 bytes map to the same few cache lines. */
    const bool is_aliased = rows_are_k && rows >= 1024 && whole_cols % 1024 == 0;
    if (is_aliased)
        whole_cols += 16;
    out->row = whole_cols / 4;
    out->batch = whole_rows * out->row;
    out->operand = x;
    if (whole_rows == rows && whole_cols == cols)
        return COPSE_OK;
    const struct copse_params_matmul_pad pad = { rows, cols, whole_rows, whole_cols, count };
    uint32_t gx, gy;
    copse__kernel_group(copse__limits(l), COPSE_KERNEL_matmul_pad, &gx, &gy);
    COPSE_TRY(copse__scratch(l, (uint64_t)count * whole_rows * whole_cols, &out->operand));
    return COPSE_LAUNCH(l, matmul_pad, NULL, pad,
                        count * divide_up(whole_rows, gy) * divide_up(whole_cols, 256), x,
                        out->operand);
}

static copse_status lower_texel(struct copse_lowering *l, const void *work)
{
    struct copse_product wide;
    const struct copse_product *p = &wide;
    struct texel_matrix a, b;
    COPSE_TRY(matmul_widened(l, work, &wide));
    COPSE_TRY(texel_matrix(l, p->a, p->of_a.count, p->a_transposed ? p->k : p->m,
                           p->a_transposed ? p->m : p->k, p->a_transposed, &a));
    COPSE_TRY(texel_matrix(l, p->b, p->of_b.count, p->b_transposed ? p->n : p->k,
                           p->b_transposed ? p->k : p->n, !p->b_transposed, &b));
    const int32_t spec[COPSE_MAX_SPECS] = { p->bias != NULL, copse__end_of(p), p->a_transposed,
                                            p->b_transposed, matmul_repeats(p) };
    struct copse_operand kept;
    COPSE_TRY(copse__kept_of(l, p, &kept));
    struct copse_params_matmul_texel params = {
        .m = p->m,
        .n = p->n,
        .k = (uint32_t)divide_up(p->k, 4) * 4,
        .a_row = a.row,
        .b_row = b.row,
        .a_batch = a.batch,
        .b_batch = b.batch,
        .batch = p->batch,
        .a_each = p->of_a.each,
        .a_count = p->of_a.count,
        .b_each = p->of_b.each,
        .b_count = p->of_b.count,
    };
    const uint64_t groups = p->batch * divide_up(p->m, 8) * divide_up(p->n, 64);
    do {
        params.k_begin = params.k_end;
        params.k_end += COPSE_MIN(params.k - params.k_begin, TEXEL_MAX_K);
        COPSE_TRY(COPSE_LAUNCH(l, matmul_texel, spec, params, groups, a.operand, b.operand,
                               copse__bias_of(p), kept, p->c));
    } while (params.k_end < params.k);
    return COPSE_OK;
}

/* Texel views have a maximum size. */
static bool fits_texels(const struct copse_limits *limits, const void *work)
{
    const struct copse_product *p = work;
    const uint64_t most = COPSE_MIN(limits->max_binding_bytes / 4, 4 * limits->max_texel_elements);
    const uint64_t m = p->m + 20u, n = p->n + 20u, k = p->k + 20u; /* with padding */
    return p->k > 0 && p->batch * m * k <= most && p->batch * k * n <= most;
}

/* ---- operands of 16 bits ---- */

static copse_status lower_half(struct copse_lowering *l, const void *work)
{
    const struct copse_product *p = work;
    uint32_t x, y;
    copse__kernel_group(copse__limits(l), COPSE_KERNEL_matmul_half, &x, &y);
    const int32_t spec[COPSE_MAX_SPECS] = { p->bias != NULL, (int32_t)p->activation,
                                            p->a_transposed, p->b_transposed,
                                            p->type == COPSE_BF16 };
    const uint64_t groups = p->batch * divide_up(p->m, 4 * y) * divide_up(p->n, 4 * x);
    struct copse_params_matmul_half params = {
        p->m, p->n, p->k, 0, 0, p->batch, p->of_a.each, p->of_a.count, p->of_b.each, p->of_b.count
    };
    do {
        params.k_begin = params.k_end;
        params.k_end += COPSE_MIN(p->k - params.k_begin, SHARED_MAX_K);
        COPSE_TRY(COPSE_LAUNCH(l, matmul_half, spec, params, groups, p->a, p->b, copse__bias_of(p),
                               p->c));
    } while (params.k_end < p->k);
    return COPSE_OK;
}

static bool is_half(const struct copse_limits *limits, const void *work)
{
    const struct copse_product *p = work;
    (void)limits;
    return copse__type_is_half(p->type) && p->k > 0;
}

/* ---- the family ---- */

#define MEASURED_ONLY COPSE_ON_GPUS_ONLY, COPSE_NO_PRIOR

static const struct copse_variant variants[] = {
    { "shared", COPSE_KERNEL_matmul, { 0, 2, 1, 3 }, .lower = lower_shared },
    { "wide",
      COPSE_KERNEL_matmul_wide,
      { 1, 1, 2, 4 },
      .fits = has_terms,
      .lower = lower_wide,
      COPSE_NEEDS(COPSE_KERNEL_matmul_wide_turn, COPSE_KERNEL_matmul_wide_pack) },
    { "chunk",
      COPSE_KERNEL_matmul_chunk,
      { 5, 0, 5, 6 },
      .fits = copse__chunk_fits,
      .leads = chunk_leads,
      .lower = lower_chunk },
    { "texel",
      COPSE_KERNEL_matmul_texel,
      { 2, 3, 0, 5 },
      .fits = fits_texels,
      .lower = lower_texel,
      COPSE_NEEDS(COPSE_KERNEL_matmul_pad) },
    { "clblast",
      COPSE_LIBRARY_KERNEL,
      { COPSE_ON_GPUS_ONLY, 1 },
      .fits = copse__library_fits,
      .leads = copse__library_leads,
      .lower = copse__library_lower,
      COPSE_NEEDS(COPSE_KERNEL_bias_activation) },
    { "tile",
      COPSE_KERNEL_matmul_tile,
      { COPSE_ON_GPUS_ONLY, 2 },
      .fits = fits_tile,
      .lower = lower_tile,
      COPSE_NEEDS(COPSE_KERNEL_matmul_join) },
    { "half", COPSE_KERNEL_matmul_half, { MEASURED_ONLY }, .fits = is_half, .lower = lower_half },
    { "cooperative",
      COPSE_KERNEL_matmul_cooperative,
      { COPSE_ON_GPUS_ONLY, 0 },
      .fits = copse__cooperative_fits,
      .leads = copse__cooperative_leads,
      .lower = copse__lower_cooperative,
      COPSE_NEEDS(COPSE_KERNEL_matmul_join) },
};

static bool takes_operands(const struct copse_variant *v, copse_type type)
{
    return (v->kernel != COPSE_KERNEL_matmul_cooperative &&
            v->kernel != COPSE_KERNEL_matmul_half) ||
           copse__type_is_half(type);
}

/* m, n and k are each rounded to one of these. */
static const uint32_t sizes[] = { 32, 128, 512 };
enum { SIZES = COPSE_COUNT(sizes) };

/* Kernels are as fast on bf16 as on f16: one is measured for both. */
static bool size_class(const void *work, char name[COPSE_SIZE_CLASS])
{
    const struct copse_product *p = work;
    snprintf(name, COPSE_SIZE_CLASS, "%c%c-%u-%u-%u%s", p->a_transposed ? 't' : 'n',
             p->b_transposed ? 't' : 'n', (unsigned)copse__size_class(sizes, SIZES, p->m),
             (unsigned)copse__size_class(sizes, SIZES, p->n),
             (unsigned)copse__size_class(sizes, SIZES, p->k),
             copse__type_is_half(p->type) ? "_f16" : "");
    return p->batch == 1 && p->k > 0;
}

/* For each size: the forward product, the gradient of the weights and the gradient of the input of
   a dense layer; then the same of f16. */
static const bool transposes[][2] = { { false, false }, { true, false }, { false, true } };
enum { JOBS = COPSE_COUNT(transposes) * SIZES * SIZES * SIZES };

static void matmul_job(const struct copse_size *at, struct copse_tune_job *j)
{
    const bool is_half = at->job >= JOBS;
    const size_t t = at->job % COPSE_COUNT(transposes),
                 i = at->job % JOBS / COPSE_COUNT(transposes);
    const struct copse_product p = {
        .type = is_half ? COPSE_F16 : COPSE_F32,
        .batch = 1,
        .m = sizes[i / SIZES % SIZES],
        .n = sizes[i % SIZES],
        .k = sizes[i / SIZES / SIZES],
        .a_transposed = transposes[t][0],
        .b_transposed = transposes[t][1],
    };
    COPSE_JOB_WORK(j, p);
    snprintf(j->name, sizeof j->name, "%u x %u x %u%s%s%s", (unsigned)p.m, (unsigned)p.n,
             (unsigned)p.k, p.a_transposed ? ", a transposed" : "",
             p.b_transposed ? ", b transposed" : "", is_half ? ", f16" : "");
    j->operations = 2.0 * p.m * p.n * p.k;
    j->in[0] = p.a_transposed ? COPSE_SHAPE(p.k, p.m) : COPSE_SHAPE(p.m, p.k);
    j->in[1] = p.b_transposed ? COPSE_SHAPE(p.n, p.k) : COPSE_SHAPE(p.k, p.n);
}

static copse_tensor *matmul_build(copse_graph *g, const struct copse_tune_job *j,
                                  copse_tensor *const *in)
{
    const struct copse_product *p = j->work;
    copse_tensor *a = in[0], *b = in[1];
    if (p->type != COPSE_F32) {
        a = copse_cast(g, a, p->type);
        b = copse_cast(g, b, p->type);
    }
    return copse_matmul(g, a, b, p->a_transposed, p->b_transposed);
}

/* On CPUs without cooperative matrices the measurements of f32 serve for f16. */
static bool takes_job(const struct copse_limits *limits, const void *work)
{
    return ((const struct copse_product *)work)->type == COPSE_F32 || limits->matrix_units != 0 ||
           !(limits->has_wide_vectors || limits->has_fast_texels);
}

const struct copse_family copse_family_matmul = {
    .name = "matmul",
    COPSE_VARIANTS(variants),
    .takes_operands = takes_operands,
    .size_class = size_class,
    .job_count = 2 * JOBS,
    .job = matmul_job,
    .takes_job = takes_job,
    .build = matmul_build,
};

/* Scratch memory has floats. */
static copse_type type_of(const struct copse_operand *x)
{
    return x->kind == COPSE_OPERAND_TENSOR ? x->tensor->type : COPSE_F32;
}

/* Complete it, and choose. */
static copse_status choose_product(struct copse_lowering *l, struct copse_product *p,
                                   const struct copse_variant **v)
{
    const struct copse_product_items all = { 1, p->batch };
    p->of_a = p->of_a.count ? p->of_a : all;
    p->of_b = p->of_b.count ? p->of_b : all;
    p->type = type_of(&p->a) == type_of(&p->b) ? type_of(&p->a) : COPSE_F32;
    return copse__choose(l, &copse_family_matmul, p, v);
}

bool copse__product_may_end(struct copse_lowering *l, const struct copse_product *product)
{
    struct copse_product p = *product;
    const struct copse_variant *v;
    return choose_product(l, &p, &v) == COPSE_OK &&
           (v->kernel == COPSE_KERNEL_matmul_tile || v->kernel == COPSE_KERNEL_matmul_texel ||
            v->kernel == COPSE_KERNEL_matmul_cooperative);
}

copse_status copse__product_share(struct copse_lowering *l, struct copse_product *p)
{
    const struct copse_variant *v;
    p->has_panels = true; /* matmul_chunk, which copies b for each product, does not lead then */
    COPSE_TRY(choose_product(l, p, &v));
    p->has_panels = v->kernel == COPSE_KERNEL_matmul_wide && type_of(&p->b) == COPSE_F32 &&
                    (uint64_t)p->batch * p->m * p->n * p->k > 0;
    return p->has_panels ? wide_panels_b(l, p, &p->panels) : COPSE_OK;
}

copse_status copse__lower_product(struct copse_lowering *l, const struct copse_product *product)
{
    struct copse_product p = *product;
    const struct copse_variant *v;
    COPSE_TRY(choose_product(l, &p, &v));
    if (p.m == 0 || p.n == 0 || p.batch == 0)
        return COPSE_OK;
    COPSE_TRY(copse__give_bytes(l, p.k, &p.a));
    COPSE_TRY(copse__give_bytes(l, p.k, &p.b));
    return v->lower(l, &p);
}

/* ---- the op: leading axes that broadcast ---- */

struct matmul_attr {
    bool a_transposed, b_transposed;
};

/* The leading axes of an operand. */
static copse_shape lead_of(const copse_tensor *x)
{
    copse_shape lead = x->shape;
    lead.rank -= 2;
    return lead;
}

/* Which matrices of an operand with leading axes `from` a batch of shape `to` reads. false: a
   matrix is repeated between axes that are not, so a copy is necessary. */
static bool items_of(copse_shape from, copse_shape to, struct copse_product_items *out)
{
    uint32_t i = 0;
    *out = (struct copse_product_items){ 1, 1 };
#define FROM (i < from.rank ? from.dims[from.rank - 1 - i] : 1)
#define TO   to.dims[to.rank - 1 - i]
    for (; i < to.rank && FROM == 1; i++)
        out->each *= TO;
    for (; i < to.rank && FROM == TO; i++)
        out->count *= TO;
    for (; i < to.rank; i++)
        if (FROM != 1)
            return false;
#undef FROM
#undef TO
    return true;
}

/* One b for all products: the rows of all matrices a are one matrix. */
static bool shares_b(const copse_tensor *y)
{
    return !((const struct matmul_attr *)y->attr)->a_transposed &&
           copse__elements(lead_of(y->in[1])) == 1;
}

static copse_status matmul_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const struct matmul_attr *t = y->attr;
    const copse_shape a = y->in[0]->shape, b = y->in[1]->shape;
    if (!copse__type_is_smooth(y->in[0]->type) || !copse__type_is_smooth(y->in[1]->type))
        return copse__shape_error(y, "expected f32 operands");
    if (a.rank < 2 || b.rank < 2)
        return copse__shape_error(y, "expected ranks of at least 2");
    if (!copse__broadcast(lead_of(y->in[0]), lead_of(y->in[1]), shape))
        return copse__shape_error(y, "expected leading axes that are equal or 1");
    const uint32_t k = a.dims[a.rank - 1 - t->a_transposed],
                   b_k = b.dims[b.rank - 2 + t->b_transposed];
    if (k != b_k)
        return copse__shape_error(y, "expected equal inner sizes; a%s has %u, b%s has %u",
                                  t->a_transposed ? " (transposed)" : "", (unsigned)k,
                                  t->b_transposed ? " (transposed)" : "", (unsigned)b_k);
    shape->dims[shape->rank++] = a.dims[a.rank - 2 + t->a_transposed];
    shape->dims[shape->rank++] = b.dims[b.rank - 1 - t->b_transposed];
    *type = COPSE_F32;
    return COPSE_OK;
}

/* ---- the derivatives ---- */

/* x as one matrix of all rows. */
static copse_tensor *all_rows(copse_graph *g, copse_tensor *x)
{
    uint32_t rows = 1;
    if (copse__is_failed(x))
        return x;
    for (uint32_t i = 0; i + 1 < x->shape.rank; i++)
        rows *= x->shape.dims[i];
    return copse_reshape(g, x, COPSE_SHAPE(rows, x->shape.dims[x->shape.rank - 1]));
}

static void matmul_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                            copse_tensor **dx)
{
    const struct matmul_attr *t = y->attr;
    copse_tensor *a = y->in[0], *b = y->in[1];
    const bool ta = t->a_transposed, tb = t->b_transposed;
    dy = copse__narrow_slope(g, y, dy);
    if (a->needs_gradient) { /* dA = dY op(B)^T, or its transpose */
        dx[0] = ta ? copse_matmul(g, b, dy, tb, true) : copse_matmul(g, dy, b, false, !tb);
        dx[0] = copse__sum_to(g, dx[0], a->shape);
    }
    if (!b->needs_gradient)
        return;
    if (shares_b(y)) { /* the product sums over the batch, too */
        a = all_rows(g, a);
        dy = all_rows(g, dy);
    }
    /* dB = op(A)^T dY, or its transpose */
    dx[1] = tb ? copse_matmul(g, dy, a, true, ta) : copse_matmul(g, a, dy, !ta, false);
    dx[1] = shares_b(y) ? copse_reshape(g, dx[1], b->shape) : copse__sum_to(g, dx[1], b->shape);
}

/* ---- the op ---- */

static copse_status matmul_product(const copse_tensor *y, struct copse_product *p)
{
    const struct matmul_attr *t = y->attr;
    const copse_shape s = y->shape, lead = lead_of(y);
    *p = (struct copse_product){
        .a = copse__of(y->in[0]),
        .b = copse__of(y->in[1]),
        .c = copse__of(y),
        .batch = (uint32_t)copse__elements(lead),
        .m = s.dims[s.rank - 2],
        .n = s.dims[s.rank - 1],
        .k = y->in[0]->shape.dims[y->in[0]->shape.rank - 1 - t->a_transposed],
        .a_transposed = t->a_transposed,
        .b_transposed = t->b_transposed,
    };
    if (shares_b(y)) {
        p->m *= p->batch;
        p->batch = 1;
    } else if (!items_of(lead_of(y->in[0]), lead, &p->of_a) ||
               !items_of(lead_of(y->in[1]), lead, &p->of_b)) {
        return copse_fail(COPSE_ERR_INTERNAL, "matmul: operands that were not copied");
    }
    return COPSE_OK;
}

static copse_status matmul_lower(struct copse_lowering *l, const copse_tensor *y)
{
    struct copse_product p;
    COPSE_TRY(matmul_product(y, &p));
    return copse__lower_product(l, &p);
}

static bool matmul_fuse(struct copse_lowering *l, const copse_tensor *y, uint32_t turn,
                        struct copse_fused *out)
{
    struct copse_product p;
    return matmul_product(y, &p) == COPSE_OK && copse__end_fuse(l, y, &p, turn, out) &&
           copse__product_may_end(l, &p);
}

static copse_status matmul_lower_fused(struct copse_lowering *l, const struct copse_fused *f)
{
    struct copse_product p;
    COPSE_TRY(matmul_product(f->at[0], &p));
    copse__end_set(f, &p);
    return copse__lower_product(l, &p);
}

static const struct copse_op op_matmul = {
    .name = "matmul",
    .attr_size = sizeof(struct matmul_attr),
    .infer = matmul_infer,
    .gradient = matmul_gradient,
    .lower = matmul_lower,
    .fuse = matmul_fuse,
    .lower_fused = matmul_lower_fused,
    .takes_stored = true,
};

/* Copies an operand that no kernel can read in place: one that repeats between axes that do not. */
static copse_tensor *matmul_copy(copse_graph *g, copse_shape lead, copse_tensor *x)
{
    struct copse_product_items items;
    const copse_shape s = x->shape;
    if (items_of(lead_of(x), lead, &items))
        return x;
    lead.dims[lead.rank++] = s.dims[s.rank - 2];
    lead.dims[lead.rank++] = s.dims[s.rank - 1];
    return copse__noted(g, copse_broadcast_to(g, x, lead), "while adding matmul");
}

copse_tensor *copse_matmul(copse_graph *g, copse_tensor *a, copse_tensor *b, bool transpose_a,
                           bool transpose_b)
{
    const struct matmul_attr t = { transpose_a, transpose_b };
    copse_shape lead;
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("matmul", g, a, b));
    copse__product_operands(g, &a, &b);
    COPSE_LATCH(g, g->status);
    if (a->shape.rank >= 2 && b->shape.rank >= 2 &&
        copse__broadcast(lead_of(a), lead_of(b), &lead)) {
        a = matmul_copy(g, lead, a);
        b = matmul_copy(g, lead, b);
    }
    return COPSE_NODE(g, &op_matmul, &t, a, b);
}
