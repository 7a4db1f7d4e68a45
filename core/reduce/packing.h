/* SPDX-License-Identifier: MIT */
/* How a batch of arrays is packed: many small arrays travel together, a large array in even parts. Pure
   integers. */
#ifndef COPSE_PACKING_H
#define COPSE_PACKING_H

#include "core/base/base.h"

/* The first rule that applies. */
struct copse_packing {
    bool is_each;         /* every array alone */
    uint32_t packs;       /* concatenated, then cut into so many packs of floor(total / packs) elements; the
                             last has the rest                                                    [0 = no] */
    size_t small_bytes;   /* runs of neighbours of at most so many bytes each are joined, and go first; a
                             lone one is not                                                      [0 = no] */
    uint32_t small_group; /* at most so many in a run, > 0 */
    size_t pack_bytes;    /* from the last array to the first; a new pack begins when one holds more than so
                             many bytes                                                  [0 = one pack] */
};

/* A part of an array; a pack is the concatenation of its parts. */
struct copse_part {
    size_t array;
    uint64_t first, count; /* elements of the array, > 0 */
    uint64_t at;           /* of the pack */
};
struct copse_pack {
    size_t first_part, part_count;
    uint64_t count; /* elements, may be 0 */
};
struct copse_packs {
    struct {
        struct copse_part *at;
        size_t count, room;
    } parts;
    struct {
        struct copse_pack *at;
        size_t count, room;
    } packs;
};

copse_status copse__packs_make(struct copse_mem *mem, const struct copse_packing *rule,
                               const uint64_t *elements, size_t count, struct copse_packs *out);
void copse__packs_fini(struct copse_mem *mem, struct copse_packs *packs);

/* `count` elements in `chunks` equal chunks: elements of each, and how many of the last are padding (more
   than one chunk may be padding alone). */
struct copse_chunks {
    uint64_t each, padding;
};
struct copse_chunks copse__chunks_even(uint64_t count, uint64_t chunks);

#endif
