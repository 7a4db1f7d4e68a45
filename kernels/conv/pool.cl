/* SPDX-License-Identifier: MIT */
/* Pooling over windows of images [n, h, w, channels]: the largest element, the first NaN where there is one, or
   (KIND 1) the mean over `divisor` elements, 0 = those of the window that are inside of the image. */
GROUP(64, 1)
SPEC(0, KIND)
SPEC(1, TAPS_H)
SPEC(2, TAPS_W)
PARAMS(uint count; uint channels; uint in_h; uint in_w; uint out_h; uint out_w; uint stride_h; uint stride_w;
       uint step_h; uint step_w; uint before_h; uint before_w; uint divisor;)

KERNEL2(pool, IN(real, x), OUT(real, y))
{
    const uint i = INDEX();
    if (i >= p.count)
        return;
    const uint pixel = i / p.channels, line = pixel / p.out_w, image = line / p.out_h;
    const int first_h = TO_I32((line - image * p.out_h) * p.stride_h) - TO_I32(p.before_h);
    const int first_w = TO_I32((pixel - line * p.out_w) * p.stride_w) - TO_I32(p.before_w);
    float best = -INF;
    EXACT float total = 0.0f;
    uint inside = 0u;
    for (uint a = 0u; a < TO_U32(TAPS_H); a++) {
        const int h = first_h + TO_I32(a * p.step_h);
        EXACT float sum = 0.0f;
        if (h >= 0 && TO_U32(h) < p.in_h)
            for (uint b = 0u; b < TO_U32(TAPS_W); b++) {
                const int w = first_w + TO_I32(b * p.step_w);
                if (w >= 0 && TO_U32(w) < p.in_w) {
                    const float v = LOAD(x, ((image * p.in_h + TO_U32(h)) * p.in_w + TO_U32(w)) * p.channels +
                                                (i - pixel * p.channels));
                    if (KIND == 0)
                        best = SELECT(!IS_NAN(best) && !(v <= best), v, best);
                    if (KIND != 0)
                        sum = sum + v;
                    inside++;
                }
            }
        total = total + sum;
    }
    if (KIND == 0)
        STORE(y, i, best);
    if (KIND != 0) {
        const uint terms = p.divisor > 0u ? p.divisor : MAX(inside, 1u);
        /* never -0, as the sum begins with 0; some drivers leave the first addition out */
        STORE(y, i, SELECT(total == 0.0f, 0.0f, total) / TO_F32(terms));
    }
}
