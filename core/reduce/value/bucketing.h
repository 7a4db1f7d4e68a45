/* SPDX-License-Identifier: MIT */
/* How a batch of arrays becomes buckets: many small arrays travel together, a large array is
   divided. Pure integers. */
#ifndef COPSE_BUCKETING_H
#define COPSE_BUCKETING_H

#include "core/base/base.h"

/* The first rule that applies. */
struct copse_bucketing {
    bool is_each; /* every array alone */
    /* concatenated, then divided into so many buckets of floor(total / count) elements; the last
       has the rest [0 = no] */
    uint32_t count;
    /* neighbours of at most so many bytes each are joined, and go first; a lone one is not [0 =
       no] */
    size_t small_bytes;
    uint32_t small_group; /* at most so many are joined, > 0 */
    /* from the last array to the first; a new bucket begins when one holds more than so many bytes
       [0 = one bucket] */
    size_t bucket_bytes;
};

/* Elements of an array, and where they are in their bucket, which is the concatenation of its
   views. */
struct copse_bucket_view {
    size_t array;
    uint64_t first, count; /* elements of the array, > 0 */
    uint64_t at;           /* of the bucket */
};
struct copse_array_bucket {
    size_t first_view, view_count;
    uint64_t count; /* elements, may be 0 */
};
struct copse_array_buckets {
    struct {
        struct copse_bucket_view *at;
        size_t count, room;
    } views;
    struct {
        struct copse_array_bucket *at;
        size_t count, room;
    } buckets;
};

copse_status copse__array_buckets_make(struct copse_mem *mem, const struct copse_bucketing *rule,
                                       const uint64_t *elements, size_t count,
                                       struct copse_array_buckets *out);
void copse__array_buckets_fini(struct copse_mem *mem, struct copse_array_buckets *b);

/* Iterate over elements [first, first + count) of a bucket: *cursor is at first copse__views_start.
   Elements [view->first, ...) of view->array are at view->at of these. */
size_t copse__views_start(const struct copse_array_buckets *b, size_t bucket, uint64_t first);
bool copse__view_next(const struct copse_array_buckets *b, size_t bucket, uint64_t first,
                      uint64_t count, size_t *cursor, struct copse_bucket_view *view);

/* `count` elements in `chunks` equal chunks: elements of each, and how many of the last are padding
   (more than one chunk may be padding alone). */
struct copse_chunks {
    uint64_t each, padding;
};
struct copse_chunks copse__chunks_even(uint64_t count, uint64_t chunks);

#endif
