/* SPDX-License-Identifier: MIT */
/* A part of a launch: rows, columns or elements that depend on no others. A launch of some of these, with their words one
   after another, has the same results, so the host function of the whole launch computes them. */
#ifndef COPSE_PART_H
#define COPSE_PART_H

#include "core/audit/sample.h"

/* Words of a buffer: pieces of `units` times `each` words, from word `first` on, `pitch` words apart. each 0: words that
   all units share. */
struct copse_part_buffer {
    uint64_t pieces, pitch, each, first;
};

struct copse_part {
    uint32_t params[COPSE_MAX_PARAM_WORDS]; /* of the launch of the chosen units */
    struct copse_part_buffer buffers[COPSE_MAX_BINDINGS];
    uint64_t units, cost; /* of the whole launch; words of a unit */
    struct { uint32_t word; uint64_t per; } counts[3]; /* parameters: the number of units times `per` */
    uint32_t count_count;
    struct copse_choice chosen;
};

/* False: the kernel has no such parts. */
bool copse__part_of(const struct copse_command *c, struct copse_part *out);
/* Choose units, and set the parameters. Free with copse__free(mem, p->chosen.at). */
copse_status copse__part_choose(struct copse_part *p, struct copse_mem *mem, const struct copse_command *c);
/* Words that the part has of buffer `i`, which has `words`; and the word of the buffer that word `k` of the part is, which
   may be behind its end in the last unit. */
size_t copse__part_count(const struct copse_part *p, uint32_t i, size_t words);
size_t copse__part_word(const struct copse_part *p, uint32_t i, size_t k);

#endif
