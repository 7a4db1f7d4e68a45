/* SPDX-License-Identifier: MIT */
#include "core/device/kernel/launch_split.h"

#include "core/device/kernel/command.h"

size_t copse__split_size(const struct copse_command *c, uint32_t i)
{
    return c->bindings[i].size / COPSE_WORD_BYTES;
}

void copse__split_buffer(struct copse_split *o, uint32_t i, uint64_t each)
{
    o->buffers[i] = (struct copse_split_buffer){ .pieces = 1, .each = each };
}

void copse__split_pieces(struct copse_split *o, uint32_t i, uint64_t pieces, uint64_t pitch,
                         uint64_t each)
{
    o->buffers[i] = (struct copse_split_buffer){ .pieces = pieces, .pitch = pitch, .each = each };
}

void copse__split_count(struct copse_split *o, const uint32_t *word, uint64_t per)
{
    o->counts[o->count_count].word = (uint32_t)(word - o->params);
    o->counts[o->count_count++].per = per;
}

bool copse__split_each(struct copse_split *o, uint64_t per, uint32_t buffers, const uint64_t *each)
{
    if (per == 0)
        return false;
    o->units = (o->params[0] + per - 1) / per;
    for (uint32_t i = 0; i < buffers; i++)
        copse__split_buffer(o, i, each[i]);
    copse__split_count(o, &o->params[0], per);
    return true;
}

bool copse__split_elements(const struct copse_command *c, struct copse_split *o)
{
    uint64_t each[COPSE_MAX_BINDINGS];
    for (uint32_t i = 0; i < c->binding_count; i++)
        each[i] = 1;
    return copse__split_each(o, 1, c->binding_count, each);
}

bool copse__split_matrix(struct copse_split *o, uint32_t buffers, uint32_t vector, uint32_t *n,
                         uint32_t *cols)
{
    const uint64_t rows = *cols > 0 ? ((uint64_t)*n + *cols - 1) / *cols : 0;
    const bool has_rows = rows >= *cols || *n % *cols != 0;
    if (rows == 0)
        return false;
    for (uint32_t i = 0; i < buffers; i++)
        if (has_rows)
            copse__split_buffer(o, i, i == vector ? 0 : *cols);
        else
            copse__split_pieces(o, i, i == vector ? 1 : rows, *cols, 1);
    o->units = has_rows ? rows : *cols;
    copse__split_count(o, n, has_rows ? *cols : rows);
    if (!has_rows)
        copse__split_count(o, cols, 1);
    return true;
}

bool copse__split_axis(struct copse_split *o, uint32_t buffers, const uint64_t *lengths,
                       uint32_t *n, uint64_t each, uint32_t *inner)
{
    const uint64_t outer = each > 0 && *inner > 0 ? *n / (each * *inner) : 0;
    const bool has_outer = outer >= *inner;
    if (outer == 0)
        return false;
    for (uint32_t i = 0; i < buffers; i++)
        if (has_outer)
            copse__split_buffer(o, i, lengths[i] * *inner);
        else
            copse__split_pieces(o, i, outer * lengths[i], *inner, lengths[i] > 0 ? 1 : 0);
    o->units = has_outer ? outer : *inner;
    copse__split_count(o, n, has_outer ? each * *inner : outer * each);
    if (!has_outer)
        copse__split_count(o, inner, 1);
    return true;
}
