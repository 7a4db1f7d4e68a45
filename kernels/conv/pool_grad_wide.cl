/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* pool_grad for CPUs with wide vectors and 16 or more channels: an invocation computes a line of dx. The last vector of
   channels overlaps the one before. */
GROUP(1, 1)
SPEC(0, KIND)
SPEC(1, TAPS_H)
SPEC(2, TAPS_W)
PARAMS(uint lines; uint channels; uint in_h; uint in_w; uint out_h; uint out_w; uint stride_h; uint stride_w;
       uint step_h; uint step_w; uint before_h; uint before_w; uint divisor;)

#define NONE 0xffffffffu

/* The window whose tap `tap` is at the place `at` of an axis, padding included; NONE: there is none. */
FN uint window_of(uint at, uint tap, uint step, uint stride, uint windows)
{
    const uint far = tap * step, index = (at - far) / stride;
    return far <= at && index < windows && index * stride == at - far ? index : NONE;
}

/* Taps of a window that are inside of an axis. */
FN uint inside(int first, uint step, uint taps, uint size)
{
    const int last = (int)size - 1 - first;
    const uint from = first >= 0 ? 0 : ((uint)-first + step - 1) / step;
    const uint to = last < 0 ? 0 : min(taps, (uint)last / step + 1);
    return to > from ? to - from : 0;
}

KERNEL3(pool_grad_wide, IN(float, x), IN(float, dy), OUT(float, dx))
{
    const uint line = GROUP_INDEX();
    if (line >= p.lines)
        return;
    const uint image = line / p.in_h, at_h = line - image * p.in_h + p.before_h;
    __global const float *xs = x + (size_t)image * p.in_h * p.in_w * p.channels;
    __global const float *slopes = dy + (size_t)image * p.out_h * p.out_w * p.channels;
    uint rows[TAPS_H], cols[TAPS_W];
    for (uint a = 0; a < TAPS_H; a++)
        rows[a] = window_of(at_h, a, p.step_h, p.stride_h, p.out_h);
    for (uint col = 0; col < p.in_w; col++) {
        __global float *to = dx + ((size_t)line * p.in_w + col) * p.channels;
        for (uint b = 0; b < TAPS_W; b++)
            cols[b] = window_of(col + p.before_w, b, p.step_w, p.stride_w, p.out_w);
        for (uint k = 0; k < p.channels; k += 16) {
            const uint c = min(k, p.channels - 16);
            float16 total = (float16)(0.0f);
            for (uint a = 0; a < TAPS_H; a++) {
                float16 sum = (float16)(0.0f);
                for (uint b = 0; b < TAPS_W && rows[a] != NONE; b++) {
                    if (cols[b] == NONE)
                        continue;
                    const int first_h = (int)(rows[a] * p.stride_h) - (int)p.before_h;
                    const int first_w = (int)(cols[b] * p.stride_w) - (int)p.before_w;
                    const float16 d = vload16(0, slopes + ((size_t)rows[a] * p.out_w + cols[b]) * p.channels + c);
                    if (KIND != 0) {
                        const uint terms = p.divisor > 0 ? p.divisor
                                                         : inside(first_h, p.step_h, TAPS_H, p.in_h) *
                                                               inside(first_w, p.step_w, TAPS_W, p.in_w);
                        sum += d / (float)terms;
                        continue;
                    }
                    float16 best = (float16)(-INFINITY);
                    int16 place = (int16)(-1);
                    for (uint e = 0; e < TAPS_H; e++) {
                        const int h = first_h + (int)(e * p.step_h);
                        for (uint f = 0; f < TAPS_W && (uint)h < p.in_h; f++) {
                            const int w = first_w + (int)(f * p.step_w);
                            if ((uint)w >= p.in_w)
                                continue;
                            const float16 v = vload16(0, xs + ((size_t)h * p.in_w + w) * p.channels + c);
                            const int16 takes = (place == -1) | ((best == best) & ~(v <= best));
                            best = select(best, v, takes);
                            place = select(place, (int16)((int)(e * TAPS_W + f)), takes);
                        }
                    }
                    sum = select(sum, sum + d, place == (int)(a * TAPS_W + b));
                }
                total += sum;
            }
            vstore16(total, 0, to + c);
        }
    }
}
