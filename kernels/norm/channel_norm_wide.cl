/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* channel_norm for CPUs with wide vectors and 16 or more channels: an invocation computes all channels of `each` places of
   a batch, 16 at a time, with the arithmetic of channel_norm, so that the results have the same bits. The last vector of
   channels overlaps the one before. */
GROUP(1, 1)
SPEC(0, OP)
PARAMS(uint n; uint channels; uint size; uint second; uint each;)

#include "vector_wide.clh"

#define GRADIENT 1
#define HAS_RELU (OP == 2 || OP == 4)
#define HAS_R    (OP > 2)

KERNEL7(channel_norm_wide, IN(float, x), IN(float, mean), IN(float, inverse), IN(float, scale), IN(float, b),
        IN(float, shares), OUT(float, y))
{
    const uint places = p.size / p.channels, blocks = (places + p.each - 1) / p.each;
    const uint batch = GROUP_INDEX() / blocks, first = (GROUP_INDEX() - batch * blocks) * p.each;
    if (batch >= p.n / p.size)
        return;
    const uint count = min(p.each, places - first);
    const size_t step = p.channels, line_at = (size_t)batch * p.size + first * step;
    for (uint strip = 0; strip < p.channels; strip += 16) {
        const uint c = min(strip, p.channels - 16), at = batch * p.channels + c;
        const float16 centre = load16(mean + at), rest = load16(mean + p.second + at);
        const float16 factor = load16(inverse + at), times = load16(scale + c);
        __global const float *px = x + line_at + c, *pd = b + line_at + c;
        __global float *py = y + line_at + c;
        if (OP != GRADIENT) {
            const float16 offset = load16(b + c);
            __global const float *pr = shares + (HAS_R ? line_at : 0) + c;
            for (uint k = 0; k < count; k++, px += step, pr += HAS_R ? step : 0, py += step) {
                const float16 u = ((load16(px) - centre) - rest) * factor;
                float16 result = u * times + offset;
                if (HAS_R)
                    result += load16(pr);
                if (HAS_RELU)
                    result = result <= 0.0f ? (float16)(0.0f) : result;
                store16(result, py);
            }
        } else {
            const float16 share = load16(shares + at), along = load16(shares + p.second + at);
            for (uint k = 0; k < count; k++, px += step, pd += step, py += step) {
                const float16 u = ((load16(px) - centre) - rest) * factor;
                store16(((times * load16(pd) - share) - u * along) * factor, py);
            }
        }
    }
}
