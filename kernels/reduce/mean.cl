/* SPDX-License-Identifier: MIT */
/* A sum, f32 or (WHOLE) i32, divided by a count below 2^16 and rounded to the nearest f32, ties to even.
   Long division of integers: no API promises that its float division rounds correctly, or that it keeps
   denormals. `divisor` is count << shift, in (2^15, 2^16]; `m` is its reciprocal for QUOTIENT (core/device/kernel/mean.h).
   With POWER the sums are f32, the count is a power of two, and sums lose that power from their exponent. */
GROUP(64, 1)
SPEC(0, PER)
SPEC(1, RUNS)
SPEC(2, WHOLE)
SPEC(3, POWER)
PARAMS(uint n; uint divisor; uint m; int shift;)
#include "divide.clh"
#include "stream.clh"

KERNEL2(mean, IN(uint, sums), OUT(uint, means))
{
    STREAM(i, p.n)
    {
        const uint bits = sums[i];
        const uint sign = bits & 0x80000000u;
        const uint field = (bits >> 23) & 255u;
        const uint fraction = bits & 0x7fffffu;
        const uint special = SELECT(fraction == 0u, bits, bits | 0x400000u);
        const uint mantissa = SELECT(field == 0u, fraction, fraction + 0x800000u);
        uint mean;
        if (POWER != 0) {
            const uint power = TO_U32(16 - p.shift);
            /* Below the smallest normal number `deep` bits are rounded away. */
            const uint deep = power - MIN(MAX(field, 1u) - 1u, power);
            const uint unit = 1u << deep;
            const uint kept = mantissa >> deep;
            const uint cut = (mantissa & (unit - 1u)) << 1;
            const bool is_up = cut > unit || (cut == unit && (kept & 1u) != 0u);
            mean = sign + SELECT(is_up, kept + 1u, kept);
            mean = SELECT(field > power, bits - (power << 23), mean);
        } else {
            /* |sum| = m * 2^x, first as it is written, then with m in [2^30, 2^31). */
            uint m = mantissa;
            int x = TO_I32(MAX(field, 1u)) - 150;
            if (WHOLE != 0) {
                m = SELECT(sign != 0u, 0u - bits, bits);
                x = 0;
            }
            const bool is_zero = m == 0u;
            x = SELECT(m < 0x10000u, x - 16, x);
            m = SELECT(m < 0x10000u, m << 16, m);
            x = SELECT(m < 0x1000000u, x - 8, x);
            m = SELECT(m < 0x1000000u, m << 8, m);
            x = SELECT(m < 0x10000000u, x - 4, x);
            m = SELECT(m < 0x10000000u, m << 4, m);
            x = SELECT(m < 0x40000000u, x - 2, x);
            m = SELECT(m < 0x40000000u, m << 2, m);
            x = SELECT(m < 0x80000000u, x, x + 1);
            m = SELECT(m < 0x80000000u, m, m >> 1); /* the shifted-out bit of an i32's is 0 */
            x = SELECT(m < 0x40000000u, x - 1, x);
            m = SELECT(m < 0x40000000u, m << 1, m);

            /* Quotient q * 2^y with q in [2^31, 2^32), and whether there is a remainder. */
            const uint high = QUOTIENT(m, p.m, 16);
            const uint rest = (m - high * p.divisor) << 15;
            const uint low = QUOTIENT(rest, p.m, 16);
            uint below = SELECT(rest == low * p.divisor, 0u, 1u);
            uint q = (high << 15) + low;
            int y = x + p.shift - 15;
            y = SELECT(q < 0x40000000u, y - 2, y);
            q = SELECT(q < 0x40000000u, q << 2, q);
            y = SELECT(q < 0x80000000u, y - 1, y);
            q = SELECT(q < 0x80000000u, q << 1, q);

            /* Round to 24 bits, to fewer below the smallest normal number. */
            const int exponent = y + 158;
            const uint deep = TO_U32(MIN(MAX(1 - exponent, 0), 25));
            below |= SELECT((q & ((1u << deep) - 1u)) == 0u, 0u, 1u);
            q >>= deep;
            const uint kept = q >> 8;
            const uint cut = ((q & 255u) << 1) | below;
            const bool is_up = cut > 256u || (cut == 256u && (kept & 1u) != 0u);
            mean = sign + (TO_U32(MAX(exponent, 1) - 1) << 23) + SELECT(is_up, kept + 1u, kept);
            mean = SELECT(is_zero, sign, mean);
        }
        if (WHOLE == 0)
            mean = SELECT(field == 255u, special, mean);
        means[i] = mean;
    }
}
