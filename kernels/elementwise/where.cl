/* SPDX-License-Identifier: MIT */
/* a where the condition is not zero, else b; only the chosen element reaches the result. */
GROUP(256, 1)
SPEC(0, C_MODE)
SPEC(1, A_MODE)
SPEC(2, B_MODE)
PARAMS(uint n; uint dc; uint mc; uint hc; uint da; uint ma; uint ha; uint db; uint mb; uint hb;)

#include "elementwise/where.clh"

KERNEL4(where, IN(real, condition), IN(real, a), IN(real, b), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        CHOICE
        STORE(to, i, SELECT(is_set, LOAD(a, ia), LOAD(b, ib)));
    }
}
