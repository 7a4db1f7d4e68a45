/* SPDX-License-Identifier: MIT */
/* attention_grad_query for drivers that run shaders on a CPU: an invocation computes four queries of a head. A launch processes
   `count` keys from `first` on; launches after the first one add to the result. */
GROUP(8, 1)
SPEC(0, CAUSAL)
SPEC(1, MASKED)
SPEC(2, LENGTHS)
SPEC(3, CAPPED)
SPEC(4, TEXELS)
PARAMS(uint lines; uint queries; uint keys; uint heads; uint share; uint width; uint window; uint q_first; uint k_first; uint v_first;
       uint q_stride; uint k_stride; uint first; uint count; uint to_first; uint to_stride; uint mask_item; uint mask_head;
       uint mask_query; float scale; float cap;)

#include "attention/attention_texel.clh"

#define QUERIES(c)                                                                                 \
    for (uint r = 0u; r < 4u; r++) {                                                               \
        own[4u * c + r] = imageLoad(q, at_q[r] + c);                                               \
        slopes[4u * c + r] = imageLoad(dy, at_y[r] + c);                                           \
        const vec4 each = slopes[4u * c + r] * imageLoad(y, at_y[r] + c);                          \
        along[r] += (each.x + each.y) + (each.z + each.w);                                         \
        sums[4u * c + r] = vec4(0.0);                                                              \
    }
#define SCORES(c)                                                                                  \
    {                                                                                              \
        const vec4 k0 = imageLoad(k, at_k[0] + c), k1 = imageLoad(k, at_k[1] + c);                 \
        const vec4 k2 = imageLoad(k, at_k[2] + c), k3 = imageLoad(k, at_k[3] + c);                 \
        const vec4 v0 = imageLoad(v, at_v[0] + c), v1 = imageLoad(v, at_v[1] + c);                 \
        const vec4 v2 = imageLoad(v, at_v[2] + c), v3 = imageLoad(v, at_v[3] + c);                 \
        for (uint r = 0u; r < 4u; r++) {                                                           \
            s[r] = dots(s[r], own[4u * c + r], k0, k1, k2, k3);                                    \
            d[r] = dots(d[r], slopes[4u * c + r], v0, v1, v2, v3);                                 \
        }                                                                                          \
    }
#define SUMS(c)                                                                                    \
    {                                                                                              \
        const vec4 k0 = imageLoad(k, at_k[0] + c), k1 = imageLoad(k, at_k[1] + c);                 \
        const vec4 k2 = imageLoad(k, at_k[2] + c), k3 = imageLoad(k, at_k[3] + c);                 \
        for (uint r = 0u; r < 4u; r++)                                                             \
            sums[4u * c + r] += weighed(s[r], seen[r], k0, k1, k2, k3);                            \
    }
#define RESULTS(c)                                                                                 \
    for (uint r = 0u; r < 4u; r++)                                                                 \
        if (i0 + r < p.queries)                                                                    \
            for (uint e = 0u; e < 4u; e++) {                                                       \
                const uint at = (item * p.queries + i0 + r) * p.to_stride + p.to_first + h * p.width + 4u * c + e; \
                const float value = sums[4u * c + r][e];                                           \
                STORE(to, at, p.first > 0u ? LOAD(to, at) + value : value);                        \
            }

KERNEL8(attention_grad_query_texel, TEXEL(q), TEXEL(k), TEXEL(v), IN(real, mask), TEXEL(y), TEXEL(dy), OUT(real, state),
        OUT(real, to))
{
    const uint line = INDEX() % p.lines, i0 = INDEX() / p.lines * 4u, h = line % p.heads, item = line / p.heads;
    if (i0 >= p.queries)
        return;
    const uint stop = p.first + min(p.count, p.keys - p.first);
    const uint base_k = (item * p.keys * p.k_stride + p.k_first + h / p.share * p.width) / 4u;
    const uint base_v = (item * p.keys * p.k_stride + p.v_first + h / p.share * p.width) / 4u;
    vec4 own[MOST], slopes[MOST], sums[MOST], s[4], d[4];
    bvec4 seen[4];
    float m[4], inverse[4], along[4];
    uint begin[4], end[4], at_mask[4];
    int at_q[4], at_y[4], at_k[4], at_v[4];
    uint until = 0u;
    for (uint r = 0u; r < 4u; r++) {
        const uint i = min(i0 + r, p.queries - 1u), row = line * p.queries + i;
        const uint keys = LENGTHS != 0 ? uint(LOAD(state, row * STATE + 3u)) : p.keys;
        at_q[r] = int(((item * p.queries + i) * p.q_stride + p.q_first + h * p.width) / 4u);
        at_y[r] = int(((item * p.queries + i) * p.heads + h) * p.width / 4u);
        at_mask[r] = item * p.mask_item + h * p.mask_head + i * p.mask_query;
        begin[r] = max(first_key(i, p.window), p.first);
        end[r] = min(end_key(i, p.window, keys), stop);
        until = max(until, end[r]);
        m[r] = LOAD(state, row * STATE);
        inverse[r] = LOAD(state, row * STATE + 1u);
        along[r] = 0.0;
    }
    EACH_TEXEL(QUERIES)
    uint j = begin[0] / 4u * 4u;
    do {
        for (uint n = 0u; n < 4u; n++) {
            const uint key = min(j + n, p.keys - 1u) * p.k_stride / 4u;
            at_k[n] = int(base_k + key);
            at_v[n] = int(base_v + key);
            s[n] = vec4(0.0);
            d[n] = vec4(0.0);
        }
        EACH_TEXEL(SCORES)
        for (uint r = 0u; r < 4u; r++) {
            seen[r] = between(j, begin[r], end[r]);
            vec4 x = s[r] * p.scale, bend = vec4(1.0);
            if (CAPPED != 0) {
                const vec4 t = bents(x);
                x = p.cap * t;
                bend = 1.0 - t * t;
            }
            if (MASKED != 0)
                for (uint n = 0u; n < 4u; n++)
                    x[n] += LOAD(mask, at_mask[r] + min(j + n, p.keys - 1u));
            x = exps(x - m[r]) * inverse[r] * (d[r] - along[r]) * p.scale * bend;
            s[r] = chosen(seen[r], x, vec4(0.0));
        }
        EACH_TEXEL(SUMS)
        j += 4u;
    } while (j < until);
    for (uint r = 0u; r < 4u; r++)
        if (i0 + r < p.queries)
            STORE(state, (line * p.queries + i0 + r) * STATE + 2u, along[r]);
    EACH_TEXEL(RESULTS)
}
