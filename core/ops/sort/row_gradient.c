/* SPDX-License-Identifier: MIT */
/* Gradients of rows: see row_gradient.h. The list is sorted once; the sums are those of the dense
   gradient. */
#include "core/ops/sort/row_gradient.h"

#include "core/ops/ops.h"
#include "core/ops/self_tests.h"
#include "core/ops/sort/row_sort.h"

/* ---- the list: rows, positions and starts, each with room for n + 1 words ---- */

enum { LIST_ROWS, LIST_ORDER, LIST_STARTS, LIST_PARTS };

struct list_attr {
    uint32_t rows; /* of the table */
};

static copse_status list_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const size_t room = copse__round_up((size_t)copse__elements(y->in[0]->shape) + 1, COPSE_UNIT);
    *shape = COPSE_SHAPE(LIST_PARTS, (uint32_t)room);
    *type = COPSE_I32;
    return COPSE_OK;
}

static struct copse_operand part_of(const copse_tensor *list, uint32_t part, uint64_t count)
{
    return (struct copse_operand){ COPSE_OPERAND_TENSOR, list, 0,
                                   (uint64_t)part * list->shape.dims[1], count };
}

static copse_status list_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const copse_tensor *indices = y->in[0];
    const struct copse_params_row_heads p = { (uint32_t)copse__elements(indices->shape),
                                              ((const struct list_attr *)y->attr)->rows };
    struct copse_operand order;
    COPSE_TRY(copse__lower_row_order(l, indices, p.rows, &order));
    COPSE_TRY(copse__launch_copy(l, order, part_of(y, LIST_ORDER, p.n), p.n));
    return COPSE_LAUNCH(l, row_heads, NULL, p,
                        copse__groups_for(l, COPSE_KERNEL_row_heads, (uint64_t)p.n + 1),
                        copse__of(indices), order, part_of(y, LIST_ROWS, p.n),
                        part_of(y, LIST_STARTS, (uint64_t)p.n + 1));
}

static const struct copse_op op_list = {
    .name = "row_list",
    .attr_size = sizeof(struct list_attr),
    .infer = list_infer,
    .lower = list_lower,
};

/* ---- the sums ---- */

struct gradient_attr {
    copse_shape table;
    uint32_t count, width;
};

static copse_status row_gradient_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const struct gradient_attr *a = y->attr;
    *shape = COPSE_SHAPE(a->count, a->width);
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status row_gradient_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct gradient_attr *a = y->attr;
    const struct copse_row_sort sorted = { part_of(y->in[1], LIST_ORDER, a->count),
                                           part_of(y->in[1], LIST_STARTS, (uint64_t)a->count + 1) };
    return copse__lower_row_sums(l, a->count, a->count, a->width, copse__of(y->in[0]), &sorted,
                                 copse__of(y));
}

static copse_tensor *row_gradient_join(copse_graph *g, copse_tensor *a, copse_tensor *b);

static const struct copse_op op_gradient = {
    .name = "row_gradient",
    .attr_size = sizeof(struct gradient_attr),
    .infer = row_gradient_infer,
    .lower = row_gradient_lower,
    .join = row_gradient_join,
};

copse_tensor *copse__row_gradient(copse_graph *g, copse_tensor *dy, copse_tensor *indices,
                                  copse_shape table)
{
    const struct list_attr of_list = { table.dims[0] };
    struct gradient_attr a = { table, (uint32_t)copse__elements(indices->shape),
                               (uint32_t)copse__row_elements(table) };
    if (a.count == 0)
        return NULL;
    copse_tensor *list = COPSE_NODE(g, &op_list, &of_list, indices);
    return COPSE_NODE(g, &op_gradient, &a, dy, list);
}

/* Both lookups as one: the positions of `a` come first. */
static copse_tensor *row_gradient_join(copse_graph *g, copse_tensor *a, copse_tensor *b)
{
    copse_tensor *const both[] = { a, b };
    copse_tensor *dy[2], *indices[2], *all_dy, *all_indices;
    uint64_t count = 0;
    for (int i = 0; i < 2; i++) {
        const struct gradient_attr *attr = both[i]->attr;
        dy[i] = copse_reshape(g, both[i]->in[0], COPSE_SHAPE(attr->count, attr->width));
        indices[i] = copse_reshape(g, copse__row_list(both[i])->in[0], COPSE_SHAPE(attr->count));
        count += attr->count;
    }
    if (count > COPSE_MAX_SORTED)
        return copse__refuse(g, COPSE_ERR_UNSUPPORTED,
                             "gather: the derivative takes at most %u indices, not %llu",
                             COPSE_MAX_SORTED, (unsigned long long)count);
    all_dy = copse_concat(g, dy, 2, 0);
    all_indices = copse_concat(g, indices, 2, 0);
    return copse__row_gradient(g, all_dy, all_indices,
                               ((const struct gradient_attr *)a->attr)->table);
}

/* ---- reference and self-test of kernel row_heads ---- */

static uint32_t row_at(const struct copse_host_arg *args, const struct copse_params_row_heads *p,
                       size_t k)
{
    return k < p->n
               ? COPSE_MIN((uint32_t)copse__load_i(&args[0], (size_t)copse__load_i(&args[1], k)),
                           p->rows)
               : p->rows;
}

static void row_heads_host(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args)
{
    const struct copse_params_row_heads *p = params;
    size_t next = p->n; /* the first place of the row behind */
    (void)spec;
    while (next > 0 && row_at(args, p, next - 1) == p->rows)
        next--;
    const size_t outside = next;
    for (size_t k = p->n + (size_t)1; k-- > 0;) {
        const uint32_t row = row_at(args, p, k);
        const bool is_head = row < p->rows && (k == 0 || row_at(args, p, k - 1) != row);
        copse__store_i(&args[3], k, (int32_t)(row == p->rows ? outside : is_head ? k : next));
        if (is_head)
            next = k;
        if (k < p->n)
            copse__store_i(&args[2], k, (int32_t)row);
    }
}

/* 100 positions in reverse order, of rows 0 to 2; the last 25 indices are out of range. */
static void row_heads_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    enum { N = 100, ROWS = 3 };
    const struct copse_params_row_heads p = { N, ROWS };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, N + 1), N, N, N, N + 1);
    for (uint32_t i = 0; i < N; i++) {
        t->words[0][N - 1 - i] = i * (ROWS + 1) / N;
        t->words[1][i] = N - 1 - i;
    }
}

/* ---- laws ---- */

const struct copse_law copse_law_row_heads = {
    .host = row_heads_host,
    .self_test = row_heads_test,
};
