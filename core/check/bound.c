/* SPDX-License-Identifier: MIT */
#include "core/check/bound.h"

#include "core/check/sample.h"
#include "core/device/kernel/sum_bound.h"

void copse__bound_of(const struct copse_command *c, const struct copse_limits *limits,
                     struct copse_bound *out)
{
    const int32_t *spec = copse__law_spec(c);
    *out = (struct copse_bound){ .law = copse__law_of(c) };
    copse__law_limit(out->law, copse__law_params(c), spec, &out->limit);
    const double proven = copse__launch_bound(out->law, copse__law_params(c), spec, limits);
    out->limit.ratio = COPSE_MAX(out->limit.ratio, proven / COPSE_BOUND_MARGIN);
    if (spec)
        memcpy(out->spec, spec, sizeof out->spec);
    if (out->law->magnitudes)
        out->law->magnitudes(out->spec);
}

uint64_t copse__bound_work(const struct copse_command *c)
{
    const struct copse_law *law = copse__law_of(c);
    struct copse_sample all;
    uint64_t words = 0;
    for (uint32_t i = 0; i < c->binding_count; i++)
        words += c->bindings[i].size / COPSE_WORD_BYTES;
    if (law->work)
        return words + law->work(copse__law_params(c), copse__law_spec(c));
    return copse__sample_of(c, &all) ? words + all.places * all.depth : words;
}
