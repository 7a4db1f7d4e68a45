/* SPDX-License-Identifier: MIT */
/* Packs of a batch: pure integers. See packing.h. */
#include "core/reduce/packing.h"

struct packer {
    struct copse_mem *mem;
    const uint64_t *elements;
    size_t count;
    struct copse_packs *out;
};

static bool open_pack(struct packer *p)
{
    return COPSE_PUSH(p->mem, &p->out->packs,
                      ((struct copse_pack){ p->out->parts.count, 0, 0 }));
}

/* Append elements [first, first + count) of an array to the newest pack. */
static bool add(struct packer *p, size_t array, uint64_t first, uint64_t count)
{
    struct copse_pack *pack = &p->out->packs.at[p->out->packs.count - 1];
    const struct copse_part part = { array, first, count, pack->count };
    if (count == 0)
        return true;
    if (!COPSE_PUSH(p->mem, &p->out->parts, part))
        return false;
    pack->part_count++;
    pack->count += count;
    return true;
}

static bool add_alone(struct packer *p, size_t array)
{
    return open_pack(p) && add(p, array, 0, p->elements[array]);
}

static bool cut_evenly(struct packer *p, uint32_t packs)
{
    uint64_t total = 0, first = 0;
    size_t array = 0;
    for (size_t i = 0; i < p->count; i++)
        total += p->elements[i];
    for (uint32_t k = 0; k < packs; k++) {
        uint64_t left = k + 1 < packs ? total / packs : total - (packs - 1) * (total / packs);
        if (!open_pack(p))
            return false;
        while (left > 0) {
            const uint64_t take = COPSE_MIN(left, p->elements[array] - first);
            if (!add(p, array, first, take))
                return false;
            first += take;
            left -= take;
            if (first == p->elements[array]) {
                array++;
                first = 0;
            }
        }
    }
    return true;
}

/* End of the run of small arrays that starts at `first`; `first` itself when that is not small. */
static size_t run_end(const struct packer *p, const struct copse_packing *rule, size_t first)
{
    size_t end = first;
    while (end < p->count && end - first < rule->small_group &&
           p->elements[end] <= rule->small_bytes / 4)
        end++;
    return end;
}

static bool join_small(struct packer *p, const struct copse_packing *rule)
{
    for (int is_alone = 0; is_alone < 2; is_alone++)
        for (size_t i = 0, end; i < p->count; i = end) {
            end = COPSE_MAX(run_end(p, rule, i), i + 1);
            if ((end - i == 1) != (is_alone == 1))
                continue;
            bool ok = open_pack(p);
            for (size_t k = i; k < end && ok; k++)
                ok = add(p, k, 0, p->elements[k]);
            if (!ok)
                return false;
        }
    return true;
}

static bool join_backwards(struct packer *p, uint64_t pack_bytes)
{
    bool is_open = false;
    for (size_t i = p->count; i-- > 0;) {
        const struct copse_pack *pack =
            is_open ? &p->out->packs.at[p->out->packs.count - 1] : NULL;
        if (!pack || (pack_bytes && 4 * pack->count > pack_bytes))
            if (!open_pack(p))
                return false;
        is_open = true;
        if (!add(p, i, 0, p->elements[i]))
            return false;
    }
    return true;
}

static bool join_none(struct packer *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (!add_alone(p, i))
            return false;
    return true;
}

copse_status copse__packs_make(struct copse_mem *mem, const struct copse_packing *rule,
                               const uint64_t *elements, size_t count, struct copse_packs *out)
{
    struct packer p = { mem, elements, count, out };
    *out = (struct copse_packs){ .parts = { NULL, 0, 0 } };
    const bool ok = rule->is_each       ? join_none(&p)
                    : rule->packs       ? cut_evenly(&p, rule->packs)
                    : rule->small_bytes ? join_small(&p, rule)
                                        : join_backwards(&p, rule->pack_bytes);
    if (ok)
        return COPSE_OK;
    copse__packs_fini(mem, out);
    return copse_fail(COPSE_ERR_NO_MEMORY, "packing: no memory for %zu arrays", count);
}

void copse__packs_fini(struct copse_mem *mem, struct copse_packs *packs)
{
    copse__free(mem, packs->parts.at);
    copse__free(mem, packs->packs.at);
    *packs = (struct copse_packs){ .parts = { NULL, 0, 0 } };
}

struct copse_chunks copse__chunks_even(uint64_t count, uint64_t chunks)
{
    const uint64_t each = (count + chunks - 1) / chunks;
    return (struct copse_chunks){ each, each * chunks - count };
}
