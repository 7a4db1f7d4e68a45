/* SPDX-License-Identifier: MIT */
/* Mode run: results of every case against the double reference. */
#include "prover/conformance/every/every.h"
#include "prover/conformance/modes/modes.h"

copse_status copse__conform_result(struct copse_conform_run *r, const struct copse_case *c,
                                   const char *variant, struct copse_conform_outcome *out)
{
    struct copse_rig rig;
    struct copse_rig_program *p = NULL;
    copse_status s;
    COPSE_TRY_OR(done, s, copse__rig_open(r->ctx, c, out->result.seed, false, &rig));
    COPSE_TRY_OR(done, s, copse__rig_program_open(&rig, r->dev, variant, &p));
    COPSE_TRY_OR(done, s, copse__rig_expect(&rig));
    COPSE_TRY_OR(done, s, copse__rig_program_run(p, out));
    s = copse__rig_judge(p, 0, out);
done:
    copse__rig_program_close(&p);
    copse__rig_close(&rig);
    return s;
}

copse_status copse__conform_forward(struct copse_conform_run *r)
{
    copse__conform_walk(r, "run", NULL, copse__conform_result);
    copse__conform_every(r, "run", COPSE_EVERY_VALUE);
    return COPSE_OK;
}
