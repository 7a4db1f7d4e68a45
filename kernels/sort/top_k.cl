/* SPDX-License-Identifier: MIT */
/* The largest elements of each row, as sorted lists of indices. FIRST: each `run` adjacent elements of a row of `width` = extent
   elements become a list of the `keep` largest. Otherwise `from` has rows of `width` indices, lists of `run`, and each pair of
   adjacent lists becomes a list of `keep`. The last list of a row may be shorter. An invocation counts the elements that come
   before its own, which gives its place. Elements are ordered by value, NaN first, then from the largest; equal ones by index. */
GROUP(64, 1)
SPEC(0, FIRST)
PARAMS(uint n; uint extent; uint width; uint run; uint keep; uint to_width;)

/* A number that is larger for larger v, and equal for both zeros and for all NaN. */
FN uint order_of(float v)
{
    const uint bits = AS_UINT(v), size = bits & 0x7fffffffu;
    const uint number = SELECT(bits > size, 0x80000000u - size, 0x80000000u + size);
    return SELECT(size > 0x7f800000u, 0xffffffffu, number);
}

#define COMES_BEFORE(a, i, b, j) ((a) > (b) || ((a) == (b) && (i) < (j)))

KERNEL3(top_k, IN(real, x), IN(int, from), OUT(int, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint row = i / p.width, at = i - row * p.width, base = row * p.extent, list = at / p.run;
        uint index = at, place = 0u, to_list = list;
        if (FIRST != 0) {
            const uint start = list * p.run, end = MIN(start + p.run, p.width);
            const uint mine = order_of(LOAD(x, base + index));
            for (uint k = start; k < end; k++) {
                const uint other = order_of(LOAD(x, base + k));
                place += SELECT(COMES_BEFORE(other, k, mine, index), 1u, 0u);
            }
        } else {
            const uint start = (list ^ 1u) * p.run; /* of the other list of the pair */
            index = TO_U32(from[i]);
            const uint mine = order_of(LOAD(x, base + index));
            uint low = 0u, high = MIN(MAX(p.width, start) - start, p.run);
            while (low < high) {
                const uint middle = (low + high) / 2u, k = TO_U32(from[i - at + start + middle]);
                const uint other = order_of(LOAD(x, base + k));
                const bool is_before = COMES_BEFORE(other, k, mine, index);
                low = SELECT(is_before, middle + 1u, low);
                high = SELECT(is_before, high, middle);
            }
            place = at - list * p.run + low;
            to_list = list / 2u;
        }
        if (place < p.keep)
            to[row * p.to_width + to_list * p.keep + place] = TO_I32(index);
    }
}
