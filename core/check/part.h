/* SPDX-License-Identifier: MIT */
/* A part of a launch: some of the units that it splits into (core/device/kernel/launch_split.h). */
#ifndef COPSE_PART_H
#define COPSE_PART_H

#include "core/check/sample.h"
#include "core/device/kernel/launch_split.h"

struct copse_part {
    struct copse_split split; /* with the parameters for a launch of the chosen units */
    uint64_t cost;            /* words of a unit */
    struct copse_choice chosen;
};

/* False: the launch has no units. */
bool copse__part_of(const struct copse_command *c, struct copse_part *out);
/* Choose units, and set the parameters. Free with copse__free(mem, p->chosen.at). */
copse_status copse__part_choose(struct copse_part *p, struct copse_mem *mem,
                                const struct copse_command *c);
/* Words that the part has of buffer `i`, which has `words`; and the word of the buffer that word
   `k` of the part is, which may be behind its end in the last unit. */
size_t copse__part_count(const struct copse_part *p, uint32_t i, size_t words);
size_t copse__part_word(const struct copse_part *p, uint32_t i, size_t k);

#endif
