/* SPDX-License-Identifier: MIT */
/* How a launch splits into units that depend on no others: rows, columns, channels or elements. A
   launch of some units, with their words one after another, has the same results, so the host
   function of the whole launch computes them. */
#ifndef COPSE_SPLIT_H
#define COPSE_SPLIT_H

#include "core/device/kernel/law.h"

/* Words of a buffer: pieces of `units` times `each` words, from word `first` on, `pitch` words
   apart. each 0: words that all units share. */
struct copse_split_buffer {
    uint64_t pieces, pitch, each, first;
};

struct copse_split {
    /* the launch's; a launch of some units has other counts */
    uint32_t params[COPSE_MAX_PARAM_WORDS];
    struct copse_split_buffer buffers[COPSE_MAX_BINDINGS];
    uint64_t units;
    struct {
        uint32_t word; /* of `params` */
        uint64_t per;  /* the parameter is the number of units times this */
    } counts[3];
    uint32_t count_count;
};

/* The parameters of kernel `kernel_`, which a function may change. */
#define COPSE_SPLIT_PARAMS(kernel_, o) ((struct copse_params_##kernel_ *)(void *)(o)->params)

/* Words of buffer `i` of a launch. */
size_t copse__split_size(const struct copse_command *c, uint32_t i);
/* The words of buffer `i`: `each` of a unit, in one piece or in several. */
void copse__split_buffer(struct copse_split *o, uint32_t i, uint64_t each);
void copse__split_pieces(struct copse_split *o, uint32_t i, uint64_t pieces, uint64_t pitch,
                         uint64_t each);
/* The parameter at `word`, one of o->params, is the number of units times `per`. */
void copse__split_count(struct copse_split *o, const uint32_t *word, uint64_t per);

/* ---- usual splits; false: there are no units ---- */

/* The first parameter counts elements, `per` of a unit; a unit has each[i] words of buffer i. */
bool copse__split_each(struct copse_split *o, uint64_t per, uint32_t buffers, const uint64_t *each);
#define COPSE_SPLIT_EACH(o, per, ...)                                                 \
    copse__split_each(o, per, sizeof((uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t), \
                      (const uint64_t[]){ __VA_ARGS__ })
/* The first parameter counts elements, and each has a word of every buffer. */
bool copse__split_elements(const struct copse_command *c, struct copse_split *o);
/* [rows][cols] buffers of `n` elements, but `vector`, which has one word for each column: rows or
   columns, whichever are more. */
bool copse__split_matrix(struct copse_split *o, uint32_t buffers, uint32_t vector, uint32_t *n,
                         uint32_t *cols);
/* [outer][lengths[i]][inner] buffers; `n` is outer times `each` times inner. */
bool copse__split_axis(struct copse_split *o, uint32_t buffers, const uint64_t *lengths,
                       uint32_t *n, uint64_t each, uint32_t *inner);

#endif
