/* SPDX-License-Identifier: MIT */
/* a where the condition is not zero, else b; only the chosen element reaches the result. An operand is as long as the
   result or (a _MODE) repeats: its first elements follow its last one. */
GROUP(256, 1)
SPEC(0, C_MODE)
SPEC(1, A_MODE)
SPEC(2, B_MODE)
PARAMS(uint n; uint dc; uint mc; uint hc; uint da; uint ma; uint ha; uint db; uint mb; uint hb;)

#include "divide.clh"

#define PLACE(mode, d, m, h) SELECT(mode != 0, i - QUOTIENT(i, m, h) * (d), i)

KERNEL4(where, IN(real, condition), IN(real, a), IN(real, b), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint ic = PLACE(C_MODE, p.dc, p.mc, p.hc);
        const uint ia = PLACE(A_MODE, p.da, p.ma, p.ha), ib = PLACE(B_MODE, p.db, p.mb, p.hb);
        const bool is_set = (AS_UINT(LOAD(condition, ic)) & 0x7fffffffu) != 0u;
        STORE(to, i, SELECT(is_set, LOAD(a, ia), LOAD(b, ib)));
    }
}
