/* SPDX-License-Identifier: MIT */
#include "core/check/part.h"

bool copse__part_of(const struct copse_command *c, struct copse_part *out)
{
    const struct copse_law *law = copse__law_of(c);
    *out = (struct copse_part){ .cost = 0 };
    memcpy(out->split.params, c->params, sizeof out->split.params);
    if (!law->split || !law->split(c, &out->split) || out->split.units == 0)
        return false;
    for (uint32_t i = 0; i < c->binding_count; i++)
        out->cost += out->split.buffers[i].pieces * out->split.buffers[i].each;
    if (law->work)
        out->cost += law->work(copse__law_params(c), copse__law_spec(c)) / out->split.units;
    return true;
}

copse_status copse__part_choose(struct copse_part *p, struct copse_mem *mem,
                                const struct copse_command *c)
{
    struct copse_split *s = &p->split;
    COPSE_TRY(copse__choose_units(mem, c, s->units, p->cost, &p->chosen));
    for (uint32_t i = 0; i < s->count_count; i++) {
        uint32_t *word = &s->params[s->counts[i].word];
        /* of the last unit, which is chosen */
        const uint64_t per = s->counts[i].per, missing = s->units * per - *word;
        *word = (uint32_t)(p->chosen.count * per - (missing < per ? missing : 0));
    }
    return COPSE_OK;
}

size_t copse__part_count(const struct copse_part *p, uint32_t i, size_t words)
{
    const struct copse_split_buffer *b = &p->split.buffers[i];
    return b->each > 0 ? (size_t)(b->pieces * b->each * p->chosen.count) : words;
}

size_t copse__part_word(const struct copse_part *p, uint32_t i, size_t k)
{
    const struct copse_split_buffer *b = &p->split.buffers[i];
    if (b->each == 0)
        return k;
    const size_t unit = k / (size_t)b->each, chosen = p->chosen.count;
    return (size_t)(b->first + unit / chosen * b->pitch + p->chosen.at[unit % chosen] * b->each +
                    k % b->each);
}
