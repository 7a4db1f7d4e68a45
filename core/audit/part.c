/* SPDX-License-Identifier: MIT */
#include "core/audit/part.h"

#include "core/rule/rule.h"

/* ---- layouts ---- */

static void set(struct copse_part *o, uint32_t i, uint64_t each)
{
    o->buffers[i] = (struct copse_part_buffer){ .pieces = 1, .each = each };
}

static void set_pieces(struct copse_part *o, uint32_t i, uint64_t pieces, uint64_t pitch, uint64_t each)
{
    o->buffers[i] = (struct copse_part_buffer){ .pieces = pieces, .pitch = pitch, .each = each };
}

/* The parameter at `word` is the number of units times `per`. */
static void count(struct copse_part *o, const uint32_t *word, uint64_t per)
{
    o->counts[o->count_count].word = (uint32_t)(word - o->params);
    o->counts[o->count_count++].per = per;
}

/* The first parameter counts elements, `per` of a unit; a unit has each[i] words of buffer i. */
static bool plain(struct copse_part *o, uint32_t buffers, uint64_t per, const uint64_t *each)
{
    if (per == 0)
        return false;
    o->units = (o->params[0] + per - 1) / per;
    for (uint32_t i = 0; i < buffers; i++)
        set(o, i, each[i]);
    count(o, &o->params[0], per);
    return true;
}
#define PLAIN(per, ...) \
    plain(o, sizeof((uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t), per, (const uint64_t[]){ __VA_ARGS__ })

static size_t words_of(const struct copse_command *c, uint32_t i)
{
    return c->bindings[i].size / COPSE_WORD_BYTES;
}

#define PARAMS(kernel) struct copse_params_##kernel *p = (void *)o->params

/* ---- elements ---- */

static bool of_elements(const struct copse_command *c, struct copse_part *o)
{
    switch (c->kernel->id) {
    case COPSE_KERNEL_unary:
    case COPSE_KERNEL_unary_wide:
    case COPSE_KERNEL_to_f32:
    case COPSE_KERNEL_to_i32:
    case COPSE_KERNEL_accumulate:
    case COPSE_KERNEL_mean:
        return PLAIN(1, 1, 1);
    case COPSE_KERNEL_unary_grad:
    case COPSE_KERNEL_unary_grad_wide:
    case COPSE_KERNEL_dense_grad:
        return PLAIN(1, 1, 1, 1);
    case COPSE_KERNEL_fill:
    case COPSE_KERNEL_fill_i32:
        return PLAIN(1, 1);
    case COPSE_KERNEL_from_half:
        return PLAIN(2, 1, 2);
    case COPSE_KERNEL_to_half:
        return PLAIN(2, 2, 1);
    case COPSE_KERNEL_from_u8:
        return PLAIN(4, 1, 4);
    default:
        return false;
    }
}

/* The parameters of both kernels begin with the same words. */
static bool sum_of_ranks(const struct copse_command *c, struct copse_part *o, uint32_t *base, uint32_t *stride)
{
    set_pieces(o, 0, (uint64_t)c->kernel->spec[2], *stride, 1);
    o->buffers[0].first = base ? *base : 0;
    set(o, 1, 1);
    o->units = o->params[0];
    count(o, &o->params[0], 1);
    count(o, stride, 1);
    if (base)
        *base = 0;
    return true;
}

/* Buffer `i` is slots of n elements, a unit is a block of each. The last block of a slot must be whole. */
static bool slots_in_blocks(const struct copse_command *c, struct copse_part *o, uint32_t i, uint64_t n)
{
    set_pieces(o, i, n > 0 ? words_of(c, i) / n : 0, n, COPSE_RULE_BLOCK);
    return n % COPSE_RULE_BLOCK == 0;
}

static bool of_update(const struct copse_command *c, struct copse_part *o)
{
    const uint64_t n = o->params[0];
    switch (c->kernel->id) {
    case COPSE_KERNEL_sgd:
        return PLAIN(1, 1, 1, 0);
    case COPSE_KERNEL_momentum:
        return PLAIN(1, 1, 1, 1, 0);
    case COPSE_KERNEL_adam:
    case COPSE_KERNEL_adaptive:
        PLAIN(1, 1, 1, 1, 0);
        set_pieces(o, 2, n > 0 ? words_of(c, 2) / n : 0, n, 1); /* the slots */
        return true;
    case COPSE_KERNEL_average: {
        PARAMS(average);
        PLAIN(1, 1, 1, 0);
        o->buffers[1].first = p->at;
        p->at = 0;
        return true;
    }
    case COPSE_KERNEL_clip:
        return PLAIN(1, 0, 1);
    case COPSE_KERNEL_block_scale:
        return PLAIN(COPSE_RULE_BLOCK, 1, COPSE_RULE_BLOCK);
    case COPSE_KERNEL_square_sum:
        return PLAIN(COPSE_RULE_BLOCK, COPSE_RULE_BLOCK, 2);
    case COPSE_KERNEL_trust:
        PLAIN(COPSE_RULE_BLOCK, 1, COPSE_RULE_BLOCK, COPSE_RULE_BLOCK, COPSE_RULE_BLOCK, 0);
        return slots_in_blocks(c, o, 3, n);
    case COPSE_KERNEL_adam8:
        return false; /* its slots are of several kinds */
    case COPSE_KERNEL_lamb_sum:
        PLAIN(COPSE_RULE_BLOCK, COPSE_RULE_BLOCK, COPSE_RULE_BLOCK, COPSE_RULE_BLOCK, 0, 2);
        return slots_in_blocks(c, o, 2, n);
    case COPSE_KERNEL_tree_sum: {
        PARAMS(tree_sum);
        return sum_of_ranks(c, o, &p->base, &p->stride);
    }
    case COPSE_KERNEL_sum_i32: {
        PARAMS(sum_i32);
        return sum_of_ranks(c, o, NULL, &p->stride);
    }
    default:
        return false;
    }
}

/* ---- rows ---- */

static bool of_norm(const struct copse_command *c, struct copse_part *o, uint64_t cols)
{
    return PLAIN(1, cols, 0, c->kernel->spec[0] == 0 ? 0 : cols, cols); /* 0: forward, with an offset of each column */
}

static bool of_rows(const struct copse_command *c, struct copse_part *o)
{
    const uint64_t cols = o->params[1]; /* of all but row_stats and the last three */
    switch (c->kernel->id) {
    case COPSE_KERNEL_cross_entropy:
        return PLAIN(1, cols, 1, 2, 1);
    case COPSE_KERNEL_layer_norm:
    case COPSE_KERNEL_layer_norm_wide:
        return of_norm(c, o, cols);
    case COPSE_KERNEL_softmax_grad:
    case COPSE_KERNEL_softmax_grad_wide:
        return PLAIN(1, cols, cols, cols);
    case COPSE_KERNEL_softmax_wide:
        return PLAIN(1, cols, cols);
    case COPSE_KERNEL_row_stats_wide:
        return PLAIN(1, cols, 2);
    case COPSE_KERNEL_cross_entropy_grad_wide:
        return PLAIN(1, cols, 1, 2, 0, cols);
    case COPSE_KERNEL_softmax:
        return PLAIN(cols, cols, 2, cols);
    case COPSE_KERNEL_cross_entropy_grad:
        return PLAIN(cols, cols, 1, 2, 0, cols);
    case COPSE_KERNEL_label_logit:
        return PLAIN(1, cols, 1, 1, 1);
    case COPSE_KERNEL_logits_grad:
        return PLAIN(cols, cols, 1, 2, 1, cols);
    case COPSE_KERNEL_class_loss:
        return c->kernel->spec[0] ? PLAIN(cols, cols, 1, 2, 0, cols) : PLAIN(1, cols, 1, 2, 0, 1);
    case COPSE_KERNEL_class_loss_grad:
        return PLAIN(cols, cols, 1, 2, 0, 0, 1, cols);
    case COPSE_KERNEL_row_stats: {
        PARAMS(row_stats);
        return PLAIN(p->chunks, (c->kernel->spec[0] ? 1 : 2) * (uint64_t)p->count, 2 * (uint64_t)p->chunks);
    }
    case COPSE_KERNEL_top_k: {
        PARAMS(top_k);
        return PLAIN(p->width, p->extent, p->width, p->to_width);
    }
    case COPSE_KERNEL_top_k_values: {
        PARAMS(top_k_values);
        return PLAIN(p->k, p->extent, p->k, p->k);
    }
    case COPSE_KERNEL_top_k_grad: {
        PARAMS(top_k_grad);
        return PLAIN(p->k, p->k, p->k, p->extent);
    }
    default:
        return false;
    }
}

/* ---- rows or columns, whichever are more ---- */

/* [rows][cols] buffers but `vector`, which has one word for each column. */
static bool of_matrix(struct copse_part *o, uint32_t buffers, uint32_t vector, uint32_t *n, uint32_t *cols)
{
    const uint64_t rows = *cols > 0 ? ((uint64_t)*n + *cols - 1) / *cols : 0;
    const bool has_rows = rows >= *cols || *n % *cols != 0;
    if (rows == 0)
        return false;
    for (uint32_t i = 0; i < buffers; i++)
        if (has_rows)
            set(o, i, i == vector ? 0 : *cols);
        else
            set_pieces(o, i, i == vector ? 1 : rows, *cols, 1);
    o->units = has_rows ? rows : *cols;
    count(o, n, has_rows ? *cols : rows);
    if (!has_rows)
        count(o, cols, 1);
    return true;
}

/* [outer][lengths[i]][inner] buffers; `n` is outer times `each` times inner. */
static bool of_axis(struct copse_part *o, uint32_t buffers, const uint64_t *lengths, uint32_t *n, uint64_t each,
                    uint32_t *inner)
{
    const uint64_t outer = each > 0 && *inner > 0 ? *n / (each * *inner) : 0;
    const bool has_outer = outer >= *inner;
    if (outer == 0)
        return false;
    for (uint32_t i = 0; i < buffers; i++)
        if (has_outer)
            set(o, i, lengths[i] * *inner);
        else
            set_pieces(o, i, outer * lengths[i], *inner, lengths[i] > 0 ? 1 : 0);
    o->units = has_outer ? outer : *inner;
    count(o, n, has_outer ? each * *inner : outer * each);
    if (!has_outer)
        count(o, inner, 1);
    return true;
}

static bool of_axes(const struct copse_command *c, struct copse_part *o)
{
    const int32_t *spec = c->kernel->spec;
    switch (c->kernel->id) {
    case COPSE_KERNEL_bias_activation: {
        PARAMS(bias_activation);
        return of_matrix(o, 3, 1, &p->count, &p->n);
    }
    case COPSE_KERNEL_pair_loss: {
        PARAMS(pair_loss);
        return of_matrix(o, 4, 2, &p->n, &p->d);
    }
    case COPSE_KERNEL_pair_loss_grad: {
        PARAMS(pair_loss_grad);
        return of_matrix(o, 5, 2, &p->n, &p->d);
    }
    case COPSE_KERNEL_scan: {
        PARAMS(scan);
        return of_axis(o, 3, (const uint64_t[]){ p->count, spec[2] ? p->chunks : 0, p->count }, &p->n, p->chunks,
                       &p->inner);
    }
    case COPSE_KERNEL_scan_sums: {
        PARAMS(scan_sums);
        return of_axis(o, 2, (const uint64_t[]){ p->count, p->chunks }, &p->n, p->chunks, &p->inner);
    }
    case COPSE_KERNEL_argmax: {
        PARAMS(argmax);
        return of_axis(o, 3, (const uint64_t[]){ p->extent, spec[0] ? 0 : p->count, p->chunks }, &p->n, p->chunks,
                       &p->inner);
    }
    default:
        return false;
    }
}

/* ---- channels ---- */

/* Columns of the table; the order of the indices is shared. */
static bool of_table_gradient(const struct copse_command *c, struct copse_part *o)
{
    PARAMS(gather_grad);
    if (p->width == 0)
        return false;
    set_pieces(o, 0, words_of(c, 0) / p->width, p->width, 1);
    set(o, 1, 0);
    set(o, 2, 0);
    set_pieces(o, 3, p->rows, p->width, 1);
    o->units = p->width;
    count(o, &p->width, 1);
    return true;
}

/* Places of each item of the batch. */
static bool of_channel_norm(const struct copse_command *c, struct copse_part *o, uint32_t *n, uint64_t channels,
                            uint32_t *item)
{
    const uint64_t size = *item, items = size > 0 ? *n / size : 0;
    if (items == 0 || channels == 0 || *n % size != 0)
        return false;
    for (uint32_t i = 0; i < 7; i++)
        set(o, i, 0);
    set_pieces(o, 0, items, size, channels);
    set_pieces(o, 6, items, size, channels);
    if (c->kernel->spec[0] != 0) /* 0: forward, with an offset of each channel */
        set_pieces(o, 4, items, size, channels);
    o->units = size / channels;
    count(o, n, items * channels);
    count(o, item, channels);
    return true;
}

/* Channels. Both kernels have the same parameters. */
static bool of_channel_sums(const struct copse_command *c, struct copse_part *o)
{
    PARAMS(channel_sums);
    _Static_assert(sizeof *p == sizeof(struct copse_params_channel_sums_wide), "both kernels have the same parameters");
    const uint64_t channels = p->channels, of_item = channels * p->chunks, items = of_item > 0 ? p->n / of_item : 0;
    const uint64_t lines = items * p->chunks;
    const bool has_slopes = c->kernel->spec[0] == 2;
    if (items == 0 || p->n != items * of_item || (has_slopes && p->second != items * channels))
        return false;
    set_pieces(o, 0, items * p->places, channels, 1);
    set_pieces(o, 1, items * p->places, channels, has_slopes ? 1 : 0);
    set_pieces(o, 2, (has_slopes ? 2 : 1) * items, channels, c->kernel->spec[0] == 0 ? 0 : 1);
    set_pieces(o, 3, items, channels, has_slopes ? 1 : 0);
    set_pieces(o, 4, 2 * lines, channels, 1);
    o->units = channels;
    count(o, &p->n, lines);
    count(o, &p->channels, 1);
    if (has_slopes)
        count(o, &p->second, items);
    return true;
}

/* ---- the part ---- */

static bool layout_of(const struct copse_command *c, struct copse_part *o)
{
    switch (c->kernel->id) {
    case COPSE_KERNEL_gather_grad:
        return of_table_gradient(c, o);
    case COPSE_KERNEL_channel_norm: {
        PARAMS(channel_norm);
        return of_channel_norm(c, o, &p->n, p->channels, &p->size);
    }
    case COPSE_KERNEL_channel_norm_wide: {
        PARAMS(channel_norm_wide);
        return of_channel_norm(c, o, &p->n, p->channels, &p->size);
    }
    case COPSE_KERNEL_channel_sums:
    case COPSE_KERNEL_channel_sums_wide:
        return of_channel_sums(c, o);
    default:
        return of_elements(c, o) || of_update(c, o) || of_rows(c, o) || of_axes(c, o);
    }
}

bool copse__part_of(const struct copse_command *c, struct copse_part *out)
{
    if (c->kind != COPSE_COMMAND_DISPATCH)
        return false;
    *out = (struct copse_part){ .units = 0 };
    memcpy(out->params, c->params, sizeof out->params);
    if (!layout_of(c, out) || out->units == 0)
        return false;
    for (uint32_t i = 0; i < c->binding_count; i++)
        out->cost += out->buffers[i].pieces * out->buffers[i].each;
    return true;
}

copse_status copse__part_choose(struct copse_part *p, struct copse_mem *mem, const struct copse_command *c)
{
    COPSE_TRY(copse__choose_units(mem, c, p->units, p->cost, &p->chosen));
    for (uint32_t i = 0; i < p->count_count; i++) {
        uint32_t *word = &p->params[p->counts[i].word];
        const uint64_t per = p->counts[i].per, missing = p->units * per - *word; /* of the last unit, which is chosen */
        *word = (uint32_t)(p->chosen.count * per - (missing < per ? missing : 0));
    }
    return COPSE_OK;
}

size_t copse__part_count(const struct copse_part *p, uint32_t i, size_t words)
{
    const struct copse_part_buffer *b = &p->buffers[i];
    return b->each > 0 ? (size_t)(b->pieces * b->each * p->chosen.count) : words;
}

size_t copse__part_word(const struct copse_part *p, uint32_t i, size_t k)
{
    const struct copse_part_buffer *b = &p->buffers[i];
    if (b->each == 0)
        return k;
    const size_t unit = k / (size_t)b->each, chosen = p->chosen.count;
    return (size_t)(b->first + unit / chosen * b->pitch + p->chosen.at[unit % chosen] * b->each + k % b->each);
}
