/* SPDX-License-Identifier: MIT */
/* A split in which each class has its part of the rows on both sides: pure integers. */
#include "core/data/dataset/dataset.h"

#include <stdlib.h>

struct stratum {
    size_t label, rows, train; /* of a class; so many of its rows train */
    int64_t lacks;             /* of its part, in units of 1 / all rows */
};

static int compare_lacks(const void *a, const void *b)
{
    const struct stratum *const *x = a, *const *y = b;
    return (*x)->lacks != (*y)->lacks  ? ((*x)->lacks > (*y)->lacks ? -1 : 1)
           : (*x)->label < (*y)->label ? -1
                                       : (*x)->label > (*y)->label;
}

/* Whether a row of the class can move, so that a class of two rows or more stays on both sides. */
static bool can_move(const struct stratum *c, bool is_to_train)
{
    if (c->rows < 2)
        return is_to_train ? c->train < c->rows : c->train > 0;
    return is_to_train ? c->train + 1 < c->rows : c->train > 1;
}

/* Move `count` rows, one of each class in turn, of those first that lack most, or have most too
   many. `by_force`: classes need not stay on both sides. Returns how many are left. */
static size_t move_rows(struct stratum **by_lack, size_t classes, bool is_to_train, bool by_force,
                        size_t count)
{
    size_t left = count, before = count + 1;
    while (left > 0 && left < before) {
        before = left;
        for (size_t i = 0; i < classes && left > 0; i++) {
            struct stratum *c = by_lack[is_to_train ? i : classes - 1 - i];
            const bool has_row = is_to_train ? c->train < c->rows : c->train > 0;
            if (!has_row || (!by_force && !can_move(c, is_to_train)))
                continue;
            c->train = is_to_train ? c->train + 1 : c->train - 1;
            left--;
        }
    }
    return left;
}

/* Each class gets its part, rounded down, and one row at least on each side if it has two. Then rows
   move until `cut` rows train. */
static void divide_classes(struct stratum *list, struct stratum **by_lack, size_t classes,
                           size_t rows, size_t cut)
{
    size_t train = 0;
    for (size_t i = 0; i < classes; i++) {
        struct stratum *c = by_lack[i] = &list[i];
        const uint64_t part = (uint64_t)c->rows * cut; /* rows have numbers of 32 bits */
        c->train = (size_t)(part / rows);
        if (c->rows >= 2)
            c->train = COPSE_MIN(COPSE_MAX(c->train, 1), c->rows - 1);
        c->lacks = (int64_t)(part - (uint64_t)c->train * rows);
        train += c->train;
    }
    qsort(by_lack, classes, sizeof(struct stratum *), compare_lacks);
    const bool is_to_train = train < cut;
    size_t left = is_to_train ? cut - train : train - cut;
    left = move_rows(by_lack, classes, is_to_train, false, left);
    (void)move_rows(by_lack, classes, is_to_train, true, left);
}

/* Rows that train come first, both parts in the order that they had. */
static void part_rows(struct stratum *list, const int32_t *labels, uint32_t *order, size_t rows,
                      size_t cut, uint32_t *spare)
{
    size_t train = 0, rest = 0;
    for (size_t i = 0; i < rows; i++) {
        struct stratum *c = &list[labels[order[i]]];
        if (c->train > 0) {
            c->train--;
            order[train++] = order[i]; /* never after i */
        } else {
            spare[rest++] = order[i];
        }
    }
    memcpy(order + cut, spare, rest * sizeof *spare);
}

copse_status copse__stratify(struct copse_mem *mem, const int32_t *labels, size_t classes,
                             uint32_t *order, size_t rows, size_t cut)
{
    uint32_t *spare = copse__alloc(mem, rows, sizeof *spare);
    struct stratum *list = copse__alloc(mem, classes, sizeof *list);
    struct stratum **by_lack = copse__alloc(mem, classes, sizeof *by_lack);
    const copse_status s = copse_need_memory(spare && list && by_lack, "dataset");
    if (s == COPSE_OK) {
        for (size_t i = 0; i < classes; i++)
            list[i] = (struct stratum){ .label = i };
        for (size_t i = 0; i < rows; i++)
            list[labels[i]].rows++;
        divide_classes(list, by_lack, classes, rows, cut);
        part_rows(list, labels, order, rows, cut, spare);
    }
    copse__free(mem, spare);
    copse__free(mem, list);
    copse__free(mem, by_lack);
    return s;
}
