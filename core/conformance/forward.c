/* SPDX-License-Identifier: MIT */
/* Mode run: results of every case against the double reference. */
#include "core/conformance/rig.h"

static copse_status pass(struct copse_conform_run *r, const struct copse_case *c,
                         const char *variant, uint64_t seed, struct copse_conform_outcome *out)
{
    struct copse_rig rig;
    struct copse_rig_program *p = NULL;
    copse_status s;
    COPSE_TRY_OR(done, s, copse__rig_open(r->ctx, c, seed, false, &rig));
    COPSE_TRY_OR(done, s, copse__rig_program_open(&rig, r->dev, variant, &p));
    COPSE_TRY_OR(done, s, copse__rig_expect(&rig));
    COPSE_TRY_OR(done, s, copse__rig_program_run(p, out));
    s = copse__rig_judge(p, 0, out);
done:
    copse__rig_program_close(&p);
    copse__rig_close(&rig);
    return s;
}

/* In the exhaustive tier, every bit pattern of functions of one number: one pass for each start of the stride. Of the
   op's rows of patterns, the longest one (of tier full) does this. */
static uint64_t passes_of(const struct copse_conform_run *r, const struct copse_case *c)
{
    return r->params->tier == COPSE_CONFORM_EXHAUSTIVE && c->in_count == 1 &&
                   c->in[0].fill == COPSE_FILL_PATTERNS && c->tier >= COPSE_TIER_FULL
               ? copse__pattern_stride((size_t)copse__elements(c->in[0].shape))
               : 1;
}

copse_status copse__conform_result(struct copse_conform_run *r, const struct copse_case *c,
                            const char *variant, struct copse_conform_outcome *out)
{
    const uint64_t passes = passes_of(r, c), seed = out->result.seed;
    struct copse_case_result worst = out->result;
    uint64_t i = 0;
    for (; i < passes && (i == 0 || copse__now_ns() < r->deadline_ns); i++) {
        out->result.seed = seed + i;
        COPSE_TRY(pass(r, c, variant, seed + i, out));
        if (out->result.verdict != COPSE_VERDICT_PASS)
            return COPSE_OK;
        if (i == 0 || out->result.worst > worst.worst)
            worst = out->result;
    }
    out->result = worst;
    if (i < passes)
        copse__conform_set(out, COPSE_VERDICT_SKIP, "only %llu of %llu passes in the time given",
                           (unsigned long long)i, (unsigned long long)passes);
    return COPSE_OK;
}

copse_status copse__conform_forward(struct copse_conform_run *r)
{
    copse__conform_walk(r, "run", NULL, copse__conform_result);
    return COPSE_OK;
}
