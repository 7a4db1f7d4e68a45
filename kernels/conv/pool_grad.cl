/* SPDX-License-Identifier: MIT */
/* Gradient of pooling: an invocation sums over the windows that contain one element of x. For the largest element it
   finds the maximum of each of these windows again; of equal ones the first has the derivative. */
GROUP(64, 1)
SPEC(0, KIND)
SPEC(1, TAPS_H)
SPEC(2, TAPS_W)
PARAMS(uint count; uint channels; uint in_h; uint in_w; uint out_h; uint out_w; uint stride_h; uint stride_w;
       uint step_h; uint step_w; uint before_h; uint before_w; uint divisor;)

/* Taps of a window that are inside of an axis. */
FN uint inside(int first, uint step, uint taps, uint size)
{
    const int last = TO_I32(size) - 1 - first;
    const uint from = first >= 0 ? 0u : (TO_U32(-first) + step - 1u) / step;
    const uint to = last < 0 ? 0u : MIN(taps, TO_U32(last) / step + 1u);
    return to > from ? to - from : 0u;
}

KERNEL3(pool_grad, IN(real, x), IN(real, dy), OUT(real, dx))
{
    const uint i = INDEX();
    if (i >= p.count)
        return;
    const uint pixel = i / p.channels, line = pixel / p.in_w, image = line / p.in_h, c = i - pixel * p.channels;
    const uint at_h = line - image * p.in_h + p.before_h, at_w = pixel - line * p.in_w + p.before_w;
    EXACT float total = 0.0f;
    for (uint a = 0u; a < TO_U32(TAPS_H); a++) {
        EXACT float sum = 0.0f;
        const uint far_h = a * p.step_h, oh = (at_h - far_h) / p.stride_h;
        if (far_h <= at_h && oh < p.out_h && oh * p.stride_h == at_h - far_h)
            for (uint b = 0u; b < TO_U32(TAPS_W); b++) {
                const uint far_w = b * p.step_w, ow = (at_w - far_w) / p.stride_w;
                if (far_w <= at_w && ow < p.out_w && ow * p.stride_w == at_w - far_w) {
                    const int first_h = TO_I32(oh * p.stride_h) - TO_I32(p.before_h);
                    const int first_w = TO_I32(ow * p.stride_w) - TO_I32(p.before_w);
                    const float d = LOAD(dy, ((image * p.out_h + oh) * p.out_w + ow) * p.channels + c);
                    if (KIND != 0) {
                        uint terms = p.divisor;
                        if (terms == 0u)
                            terms = inside(first_h, p.step_h, TO_U32(TAPS_H), p.in_h) *
                                    inside(first_w, p.step_w, TO_U32(TAPS_W), p.in_w);
                        sum = sum + d / TO_F32(terms);
                    }
                    if (KIND == 0) {
                        float best = -INF;
                        uint place = 0xffffffffu;
                        for (uint e = 0u; e < TO_U32(TAPS_H * TAPS_W); e++) {
                            const int h = first_h + TO_I32(e / TO_U32(TAPS_W) * p.step_h);
                            const int w = first_w + TO_I32(e % TO_U32(TAPS_W) * p.step_w);
                            if (h >= 0 && TO_U32(h) < p.in_h && w >= 0 && TO_U32(w) < p.in_w) {
                                const float v = LOAD(x, ((image * p.in_h + TO_U32(h)) * p.in_w + TO_U32(w)) * p.channels + c);
                                if (place == 0xffffffffu || (!IS_NAN(best) && !(v <= best))) {
                                    best = v;
                                    place = e;
                                }
                            }
                        }
                        if (place == a * TO_U32(TAPS_W) + b)
                            sum = sum + d;
                    }
                }
            }
        total = total + sum;
    }
    STORE(dx, i, total);
}
