/* SPDX-License-Identifier: MIT */
/* As where, for integers. */
GROUP(256, 1)
SPEC(0, C_MODE)
SPEC(1, A_MODE)
SPEC(2, B_MODE)
PARAMS(uint n; uint dc; uint mc; uint hc; uint da; uint ma; uint ha; uint db; uint mb; uint hb;)

#include "elementwise/where.clh"

KERNEL4(where_i32, IN(real, condition), IN(int, a), IN(int, b), OUT(int, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        CHOICE
        to[i] = SELECT(is_set, a[ia], b[ib]);
    }
}
