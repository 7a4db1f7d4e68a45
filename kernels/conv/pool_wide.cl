/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* pool for CPUs with wide vectors and 16 or more channels: an invocation computes a line of y. The last vector of channels
   overlaps the one before. */
GROUP(1, 1)
SPEC(0, KIND)
SPEC(1, TAPS_H)
SPEC(2, TAPS_W)
PARAMS(uint lines; uint channels; uint in_h; uint in_w; uint out_h; uint out_w; uint stride_h; uint stride_w;
       uint step_h; uint step_w; uint before_h; uint before_w; uint divisor;)

KERNEL2(pool_wide, IN(float, x), OUT(float, y))
{
    const uint line = GROUP_INDEX();
    if (line >= p.lines)
        return;
    const uint image = line / p.out_h;
    const int first_h = (int)((line - image * p.out_h) * p.stride_h) - (int)p.before_h;
    for (uint col = 0; col < p.out_w; col++) {
        const int first_w = (int)(col * p.stride_w) - (int)p.before_w;
        __global float *to = y + ((size_t)line * p.out_w + col) * p.channels;
        for (uint k = 0; k < p.channels; k += 16) {
            const uint c = min(k, p.channels - 16);
            float16 best = (float16)(-INFINITY), total = (float16)(0.0f);
            uint inside = 0;
            for (uint a = 0; a < TAPS_H; a++) {
                const int h = first_h + (int)(a * p.step_h);
                float16 sum = (float16)(0.0f);
                if ((uint)h < p.in_h) {
                    __global const float *row = x + ((size_t)image * p.in_h + h) * p.in_w * p.channels + c;
                    for (uint b = 0; b < TAPS_W; b++) {
                        const int w = first_w + (int)(b * p.step_w);
                        if ((uint)w < p.in_w) {
                            const float16 v = vload16(0, row + (size_t)w * p.channels);
                            if (KIND == 0)
                                best = select(best, v, (best == best) & ~(v <= best));
                            else
                                sum += v;
                            inside++;
                        }
                    }
                }
                total += sum;
            }
            if (KIND != 0)
                best = total / (float)(p.divisor > 0 ? p.divisor : max(inside, 1u));
            vstore16(best, 0, to + c);
        }
    }
}
