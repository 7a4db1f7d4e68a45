/* SPDX-License-Identifier: MIT */
/* Einsum: sums of products by letters. Each operand is multiplied with the product of the earlier ones,
   by one matrix product. It sums the letters of both that nothing needs later; the other letters of
   both number the matrices. */
#include <ctype.h>

#include "copse/matmul.h"
#include "copse/ops.h"
#include "core/graph/op.h"
#include "core/onnx/onnx.h"

/* A letter for each axis. Axes of "..." have digits, which count from the left of the longest "...";
   shorter ones have the last digits. */
struct letters {
    char at[COPSE_MAX_RANK]; /* add_letter keeps the bound */
    uint32_t count;
};

struct term {
    copse_tensor *t;
    struct letters axes;
};

static bool has_letter(const struct letters *l, char c)
{
    for (uint32_t i = 0; i < l->count; i++)
        if (l->at[i] == c)
            return true;
    return false;
}

static uint32_t place_of(const struct letters *l, char c)
{
    uint32_t i = 0;
    while (i < l->count && l->at[i] != c)
        i++;
    return i;
}

static bool add_letter(struct onnx_walk *w, struct letters *l, char c)
{
    if (l->count == COPSE_MAX_RANK)
        return copse__onnx_refuse(w, "more than %d letters of a product", COPSE_MAX_RANK);
    if (has_letter(l, c))
        return copse__onnx_refuse(w, "letter %c twice in a term: diagonals are not read", c);
    l->at[l->count++] = c;
    return true;
}

/* The letters from *text to a comma, an arrow or the end. `rank`: of the operand; of the result, its
   letters and the axes of "...". */
static bool read_term(struct onnx_walk *w, const char **text, uint32_t rank, uint32_t dots,
                      struct letters *out)
{
    uint32_t own = 0;
    for (const char *c = *text; *c && *c != ',' && *c != '-'; c++)
        own += isalpha((unsigned char)*c) != 0;
    *out = (struct letters){ .count = 0 };
    for (; **text && **text != ',' && **text != '-'; ++*text) {
        const char c = **text;
        if (c == '.' && (*text)[1] == '.' && (*text)[2] == '.' && rank >= own) {
            for (uint32_t i = 0; i < rank - own; i++)
                if (!add_letter(w, out, (char)('0' + dots - (rank - own) + i)))
                    return false;
            *text += 2;
        } else if (!isalpha((unsigned char)c)) {
            return copse__onnx_refuse(w, "'%c' in its equation", c);
        } else if (!add_letter(w, out, c)) {
            return false;
        }
    }
    return out->count == rank || copse__onnx_refuse(w, "%u letters for %u axes", out->count, rank);
}

/* The longest "..." of the operands. */
static uint32_t count_dots(struct onnx_walk *w, const char *text)
{
    uint32_t most = 0;
    for (size_t i = 0; i < copse__onnx_inputs_of(w); i++) {
        uint32_t own = 0;
        bool has_dots = false;
        for (; *text && *text != ',' && *text != '-'; text++) {
            own += isalpha((unsigned char)*text) != 0;
            has_dots = has_dots || *text == '.';
        }
        text += *text == ',';
        const uint32_t rank = copse__onnx_in(w, i)->shape.rank;
        if (has_dots && rank > own)
            most = COPSE_MAX(most, rank - own);
    }
    return COPSE_MIN(most, COPSE_MAX_RANK);
}

/* Without an arrow: the axes of "...", then letters that the equation has once, by the alphabet. */
static bool implied_result(struct onnx_walk *w, const char *text, uint32_t dots,
                           struct letters *out)
{
    *out = (struct letters){ .count = 0 };
    for (uint32_t i = 0; i < dots; i++)
        if (!add_letter(w, out, (char)('0' + i)))
            return false;
    for (int c = 'A'; c <= 'z'; c++) {
        uint32_t times = 0;
        for (const char *at = text; isalpha(c) && *at; at++)
            times += *at == c;
        if (times == 1 && !add_letter(w, out, (char)c))
            return false;
    }
    return true;
}

/* ---- terms ---- */

/* The term with its axes in this order; all of them are named. */
static copse_tensor *in_order(struct onnx_walk *w, const struct term *x,
                              const struct letters *order)
{
    uint32_t from[COPSE_MAX_RANK];
    bool is_same = true;
    for (uint32_t i = 0; i < order->count; i++) {
        from[i] = place_of(&x->axes, order->at[i]);
        is_same = is_same && from[i] == i;
    }
    return is_same ? x->t : copse_transpose(w->g, x->t, from);
}

/* Sum over the letters that are in none of these. */
static void sum_others(struct onnx_walk *w, struct term *x, const struct letters *kept,
                       const struct letters *more)
{
    uint32_t axes[COPSE_MAX_RANK];
    size_t count = 0;
    struct letters left = { .count = 0 };
    for (uint32_t i = 0; i < x->axes.count; i++)
        if (has_letter(kept, x->axes.at[i]) || (more && has_letter(more, x->axes.at[i])))
            left.at[left.count++] = x->axes.at[i];
        else
            axes[count++] = i;
    if (count > 0)
        x->t = copse_sum(w->g, x->t, axes, count, false);
    x->axes = left;
}

/* The letters of a pair of terms, by their part in the product. */
struct pair {
    struct letters both, summed, first, second; /* both: of each matrix */
    uint64_t matrices, depth, rows, columns;
};

static void put_letter(struct letters *l, uint64_t *size, char c, uint32_t n)
{
    l->at[l->count++] = c;
    *size *= n;
}

static bool sort_letters(struct onnx_walk *w, const struct term *a, const struct term *b,
                         const struct letters *kept, struct pair *p)
{
    const copse_shape x = copse_tensor_shape(a->t), y = copse_tensor_shape(b->t);
    *p = (struct pair){ .matrices = 1, .depth = 1, .rows = 1, .columns = 1 };
    for (uint32_t i = 0; i < a->axes.count; i++) {
        const char c = a->axes.at[i];
        if (!has_letter(&b->axes, c)) {
            put_letter(&p->first, &p->rows, c, x.dims[i]);
            continue;
        }
        const uint32_t n = y.dims[place_of(&b->axes, c)];
        if (n != x.dims[i])
            return isdigit((unsigned char)c)
                       ? copse__onnx_refuse(w, "axes of '...' of %u and %u", x.dims[i], n)
                       : copse__onnx_refuse(w, "letter %c is %u and %u", c, x.dims[i], n);
        if (has_letter(kept, c))
            put_letter(&p->both, &p->matrices, c, n);
        else
            put_letter(&p->summed, &p->depth, c, n);
    }
    for (uint32_t i = 0; i < b->axes.count; i++)
        if (!has_letter(&a->axes, b->axes.at[i]))
            put_letter(&p->second, &p->columns, b->axes.at[i], y.dims[i]);
    return true;
}

/* Letters of three lists, one after the other. */
static struct letters join_letters(const struct letters *a, const struct letters *b,
                                   const struct letters *c)
{
    const struct letters *const lists[] = { a, b, c };
    struct letters all = { .count = 0 };
    for (size_t k = 0; k < COPSE_COUNT(lists); k++)
        for (uint32_t i = 0; i < lists[k]->count; i++)
            all.at[all.count++] = lists[k]->at[i];
    return all;
}

/* a becomes a b. */
static bool multiply_terms(struct onnx_walk *w, struct term *a, struct term *b,
                           const struct letters *kept)
{
    struct pair p;
    sum_others(w, a, kept, &b->axes);
    sum_others(w, b, kept, &a->axes);
    if (copse_graph_status(w->g) != COPSE_OK || !sort_letters(w, a, b, kept, &p))
        return false;
    if (p.both.count + p.first.count + p.second.count > COPSE_MAX_RANK)
        return copse__onnx_refuse(w, "a product with more than %d axes", COPSE_MAX_RANK);
    const struct letters left = join_letters(&p.both, &p.first, &p.summed),
                         right = join_letters(&p.both, &p.summed, &p.second),
                         result = join_letters(&p.both, &p.first, &p.second);
    copse_shape shape = { .rank = result.count };
    for (uint32_t i = 0; i < result.count; i++) {
        const struct term *of = has_letter(&a->axes, result.at[i]) ? a : b;
        shape.dims[i] = copse_tensor_shape(of->t).dims[place_of(&of->axes, result.at[i])];
    }
    copse_tensor *x = copse_reshape(
                     w->g, in_order(w, a, &left),
                     COPSE_SHAPE((uint32_t)p.matrices, (uint32_t)p.rows, (uint32_t)p.depth)),
                 *y = copse_reshape(
                     w->g, in_order(w, b, &right),
                     COPSE_SHAPE((uint32_t)p.matrices, (uint32_t)p.depth, (uint32_t)p.columns));
    a->t = copse_reshape(w->g, copse_matmul(w->g, x, y, false, false), shape);
    a->axes = result;
    return copse_graph_status(w->g) == COPSE_OK;
}

enum { MOST_TERMS = 8, MOST_TEXT = 256 };

/* The equation without blanks. */
static bool read_text(struct onnx_walk *w, char text[MOST_TEXT])
{
    const CopseOnnx__Attribute *of = copse__onnx_attribute(w->step->node, "equation");
    size_t size = 0;
    if (!of || !of->has_s || of->s.len >= MOST_TEXT)
        return copse__onnx_refuse(w, "no equation, or one of %d characters or more", MOST_TEXT);
    for (size_t i = 0; i < of->s.len; i++)
        if (of->s.data[i] != ' ')
            text[size++] = (char)of->s.data[i];
    text[size] = '\0';
    return strlen(text) == size || copse__onnx_refuse(w, "a zero byte in its equation");
}

/* The terms of the operands, and the letters of the result. */
static bool read_equation(struct onnx_walk *w, const char *text, struct term *terms, size_t count,
                          struct letters *result)
{
    const char *at = text;
    const uint32_t dots = count_dots(w, text);
    for (size_t i = 0; i < count; i++) {
        struct onnx_value *v = copse__onnx_in(w, i);
        if (!read_term(w, &at, v->shape.rank, dots, &terms[i].axes))
            return false;
        terms[i].t = copse__onnx_f32(w, v);
        const bool has_end = *at == '\0' || (*at == '-' && at[1] == '>');
        if (i + 1 < count ? *at != ',' : !has_end)
            return copse__onnx_refuse(w, "%zu operands for equation '%s'", count, text);
        at += *at == ',';
    }
    if (*at == '\0')
        return implied_result(w, text, dots, result);
    uint32_t rank = 0;
    for (const char *c = at += 2; *c; c++)
        rank += isalpha((unsigned char)*c) ? 1 : *c == '.' && c[1] == '.' && c[2] == '.' ? dots : 0;
    return read_term(w, &at, rank, dots, result) &&
           (*at == '\0' || copse__onnx_refuse(w, "'%c' after the result of its equation", *at));
}

void copse__onnx_einsum(struct onnx_walk *w)
{
    char text[MOST_TEXT];
    const size_t count = copse__onnx_inputs_of(w);
    struct term terms[MOST_TERMS];
    struct letters result;
    for (size_t i = 0; i < count; i++)
        if (count > MOST_TERMS || !copse__onnx_in(w, i)) {
            copse__onnx_refuse(w, "an operand is left out, or there are more than %d", MOST_TERMS);
            return;
        }
    if (!read_text(w, text) || !read_equation(w, text, terms, count, &result))
        return;
    for (size_t i = 1; i < count; i++) {
        struct letters kept = result; /* and what later operands have */
        for (size_t k = i + 1; k < count; k++)
            for (uint32_t c = 0; c < terms[k].axes.count; c++)
                if (!has_letter(&kept, terms[k].axes.at[c]) &&
                    !add_letter(w, &kept, terms[k].axes.at[c]))
                    return;
        if (!multiply_terms(w, &terms[0], &terms[i], &kept))
            return;
    }
    sum_others(w, &terms[0], &result, NULL);
    for (uint32_t i = 0; i < result.count; i++)
        if (!has_letter(&terms[0].axes, result.at[i])) {
            copse__onnx_refuse(w, "letter %c of the result is in no operand", result.at[i]);
            return;
        }
    copse__onnx_set(w, 0, copse__onnx_in(w, 0)->type, in_order(w, &terms[0], &result));
}
