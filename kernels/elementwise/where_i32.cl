/* SPDX-License-Identifier: MIT */
/* As where, for integers. */
GROUP(256, 1)
SPEC(0, C_MODE)
SPEC(1, A_MODE)
SPEC(2, B_MODE)
PARAMS(uint n; uint dc; uint mc; uint hc; uint da; uint ma; uint ha; uint db; uint mb; uint hb;)

#include "divide.clh"

#define PLACE(mode, d, m, h) SELECT(mode != 0, i - QUOTIENT(i, m, h) * (d), i)

KERNEL4(where_i32, IN(real, condition), IN(int, a), IN(int, b), OUT(int, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint ic = PLACE(C_MODE, p.dc, p.mc, p.hc);
        const uint ia = PLACE(A_MODE, p.da, p.ma, p.ha), ib = PLACE(B_MODE, p.db, p.mb, p.hb);
        const bool is_set = (AS_UINT(LOAD(condition, ic)) & 0x7fffffffu) != 0u;
        to[i] = SELECT(is_set, a[ia], b[ib]);
    }
}
