/* SPDX-License-Identifier: MIT */
/* Buckets of a batch: pure integers. See bucketing.h. */
#include "core/reduce/value/bucketing.h"
#include "core/device/backend.h"

struct maker {
    struct copse_mem *mem;
    const uint64_t *elements;
    size_t count;
    struct copse_array_buckets *out;
};

static bool open_bucket(struct maker *m)
{
    return COPSE_PUSH(m->mem, &m->out->buckets,
                      ((struct copse_array_bucket){ m->out->views.count, 0, 0 }));
}

/* Append elements [first, first + count) of an array to the newest bucket. */
static bool bucketing_add(struct maker *m, size_t array, uint64_t first, uint64_t count)
{
    struct copse_array_bucket *bucket = &m->out->buckets.at[m->out->buckets.count - 1];
    const struct copse_bucket_view view = { array, first, count, bucket->count };
    if (count == 0)
        return true;
    if (!COPSE_PUSH(m->mem, &m->out->views, view))
        return false;
    bucket->view_count++;
    bucket->count += count;
    return true;
}

static bool add_alone(struct maker *m, size_t array)
{
    return open_bucket(m) && bucketing_add(m, array, 0, m->elements[array]);
}

static bool bucketing_divide(struct maker *m, uint32_t buckets)
{
    uint64_t total = 0, first = 0;
    size_t array = 0;
    for (size_t i = 0; i < m->count; i++)
        total += m->elements[i];
    for (uint32_t k = 0; k < buckets; k++) {
        uint64_t left =
            k + 1 < buckets ? total / buckets : total - (buckets - 1) * (total / buckets);
        if (!open_bucket(m))
            return false;
        while (left > 0) {
            const uint64_t take = COPSE_MIN(left, m->elements[array] - first);
            if (!bucketing_add(m, array, first, take))
                return false;
            first += take;
            left -= take;
            if (first == m->elements[array]) {
                array++;
                first = 0;
            }
        }
    }
    return true;
}

/* End of the small arrays that begin with `first`; `first` itself if that is not small. */
static size_t small_end(const struct maker *m, const struct copse_bucketing *rule, size_t first)
{
    size_t end = first;
    while (end < m->count && end - first < rule->small_group &&
           m->elements[end] <= rule->small_bytes / COPSE_WORD_BYTES)
        end++;
    return end;
}

static bool join_small(struct maker *m, const struct copse_bucketing *rule)
{
    for (int is_alone = 0; is_alone < 2; is_alone++)
        for (size_t i = 0, end; i < m->count; i = end) {
            end = COPSE_MAX(small_end(m, rule, i), i + 1);
            if ((end - i == 1) != (is_alone == 1))
                continue;
            bool ok = open_bucket(m);
            for (size_t k = i; k < end && ok; k++)
                ok = bucketing_add(m, k, 0, m->elements[k]);
            if (!ok)
                return false;
        }
    return true;
}

static bool join_backwards(struct maker *m, uint64_t bucket_bytes)
{
    bool is_open = false;
    for (size_t i = m->count; i-- > 0;) {
        const struct copse_array_bucket *bucket =
            is_open ? &m->out->buckets.at[m->out->buckets.count - 1] : NULL;
        if (!bucket || (bucket_bytes && COPSE_WORD_BYTES * bucket->count > bucket_bytes))
            if (!open_bucket(m))
                return false;
        is_open = true;
        if (!bucketing_add(m, i, 0, m->elements[i]))
            return false;
    }
    return true;
}

static bool join_none(struct maker *m)
{
    for (size_t i = 0; i < m->count; i++)
        if (!add_alone(m, i))
            return false;
    return true;
}

copse_status copse__array_buckets_make(struct copse_mem *mem, const struct copse_bucketing *rule,
                                       const uint64_t *elements, size_t count,
                                       struct copse_array_buckets *out)
{
    struct maker m = { mem, elements, count, out };
    *out = (struct copse_array_buckets){ .views = { NULL, 0, 0 } };
    const bool ok = rule->is_each       ? join_none(&m)
                    : rule->count       ? bucketing_divide(&m, rule->count)
                    : rule->small_bytes ? join_small(&m, rule)
                                        : join_backwards(&m, rule->bucket_bytes);
    if (ok)
        return COPSE_OK;
    copse__array_buckets_fini(mem, out);
    return copse_fail(COPSE_ERR_NO_MEMORY, "reduction: no memory for the buckets of %zu arrays",
                      count);
}

void copse__array_buckets_fini(struct copse_mem *mem, struct copse_array_buckets *b)
{
    copse__free(mem, b->views.at);
    copse__free(mem, b->buckets.at);
    *b = (struct copse_array_buckets){ .views = { NULL, 0, 0 } };
}

size_t copse__views_start(const struct copse_array_buckets *b, size_t bucket, uint64_t first)
{
    const struct copse_array_bucket *p = &b->buckets.at[bucket];
    size_t lo = p->first_view, hi = p->first_view + p->view_count;
    while (hi - lo > 1) { /* the last view that starts at or before `first` */
        const size_t middle = lo + (hi - lo) / 2;
        if (b->views.at[middle].at <= first)
            lo = middle;
        else
            hi = middle;
    }
    return lo;
}

bool copse__view_next(const struct copse_array_buckets *b, size_t bucket, uint64_t first,
                      uint64_t count, size_t *cursor, struct copse_bucket_view *view)
{
    const struct copse_array_bucket *p = &b->buckets.at[bucket];
    if (*cursor >= p->first_view + p->view_count)
        return false;
    const struct copse_bucket_view *whole = &b->views.at[(*cursor)++];
    const uint64_t begin = COPSE_MAX(whole->at, first);
    const uint64_t end = COPSE_MIN(whole->at + whole->count, first + count);
    if (begin >= end)
        return false;
    *view = (struct copse_bucket_view){ whole->array, whole->first + (begin - whole->at),
                                        end - begin, begin - first };
    return true;
}

struct copse_chunks copse__chunks_even(uint64_t count, uint64_t chunks)
{
    const uint64_t each = (count + chunks - 1) / chunks;
    return (struct copse_chunks){ each, each * chunks - count };
}
