/* SPDX-License-Identifier: MIT */
/* attention for drivers that run shaders on a CPU: an invocation computes four queries of a head. A launch processes `count` keys
   from `first` on. */
GROUP(8, 1)
SPEC(0, CAUSAL)
SPEC(1, VALUES)
SPEC(2, MASKED)
SPEC(3, LENGTHS)
SPEC(4, CAPPED)
SPEC(5, TEXELS)
PARAMS(uint lines; uint queries; uint keys; uint heads; uint share; uint width; uint window; uint q_first; uint k_first; uint v_first;
       uint q_stride; uint k_stride; uint first; uint count; uint mask_item; uint mask_head; uint mask_query; float scale; float cap;)

#include "attention/attention_texel.clh"

#define SCORES(c)                                                                                  \
    {                                                                                              \
        const vec4 k0 = imageLoad(k, at_k[0] + c), k1 = imageLoad(k, at_k[1] + c);                 \
        const vec4 k2 = imageLoad(k, at_k[2] + c), k3 = imageLoad(k, at_k[3] + c);                 \
        for (uint r = 0u; r < 4u; r++)                                                             \
            s[r] = dots(s[r], own[4u * c + r], k0, k1, k2, k3);                                    \
    }
#define SUMS(c)                                                                                    \
    {                                                                                              \
        const vec4 v0 = imageLoad(v, at_v[0] + c), v1 = imageLoad(v, at_v[1] + c);                 \
        const vec4 v2 = imageLoad(v, at_v[2] + c), v3 = imageLoad(v, at_v[3] + c);                 \
        for (uint r = 0u; r < 4u; r++)                                                             \
            sums[4u * c + r] = sums[4u * c + r] * keep[r] + weighed(s[r], seen[r], v0, v1, v2, v3); \
    }
#define QUERIES(c)                                                                                 \
    for (uint r = 0u; r < 4u; r++) {                                                               \
        own[4u * c + r] = imageLoad(q, at_q[r] + c);                                               \
        sums[4u * c + r] = vec4(0.0);                                                              \
    }
#define RESULTS(c)                                                                                 \
    for (uint r = 0u; r < 4u; r++)                                                                 \
        if (i0 + r < p.queries)                                                                    \
            for (uint e = 0u; e < 4u; e++) {                                                       \
                const uint at = at_y + r * p.heads * p.width + 4u * c + e;                         \
                float value = sums[4u * c + r][e];                                                 \
                if (p.first > 0u)                                                                  \
                    value = LOAD(y, at) * keep[r] + value;                                         \
                STORE(y, at, is_last ? (is_empty[r] ? 0.0 : value * inverse[r]) : value);          \
            }

KERNEL7(attention_texel, TEXEL(q), TEXEL(k), TEXEL(v), IN(real, mask), IN(int, lengths), OUT(real, state), OUT(real, y))
{
    const uint line = INDEX() % p.lines, i0 = INDEX() / p.lines * 4u, h = line % p.heads, item = line / p.heads;
    if (i0 >= p.queries)
        return;
    uint length = p.keys;
    if (LENGTHS != 0)
        length = min(length, uint(max(lengths[item], 0)));
    const uint stop = p.first + min(p.count, p.keys - p.first);
    const uint base_k = (item * p.keys * p.k_stride + p.k_first + h / p.share * p.width) / 4u;
    const uint base_v = (item * p.keys * p.k_stride + p.v_first + h / p.share * p.width) / 4u;
    const uint at_y = (item * p.queries + i0) * p.heads * p.width + h * p.width;
    vec4 own[MOST], sums[MOST], s[4];
    bvec4 seen[4];
    float m[4], total[4], keep[4], inverse[4], before[4];
    bool is_empty[4];
    uint begin[4], end[4], at_mask[4];
    int at_q[4], at_k[4], at_v[4];
    uint until = 0u;
    for (uint r = 0u; r < 4u; r++) {
        const uint i = min(i0 + r, p.queries - 1u), row = line * p.queries + i;
        const uint keys = LENGTHS == 2 && i >= length ? 0u : length;
        at_q[r] = int(((item * p.queries + i) * p.q_stride + p.q_first + h * p.width) / 4u);
        at_mask[r] = item * p.mask_item + h * p.mask_head + i * p.mask_query;
        begin[r] = first_key(i, p.window);
        end[r] = end_key(i, p.window, keys);
        is_empty[r] = begin[r] >= end[r];
        begin[r] = max(begin[r], p.first);
        end[r] = min(end[r], stop);
        until = max(until, end[r]);
        m[r] = p.first > 0u ? LOAD(state, row * STATE) : -INF;
        total[r] = p.first > 0u ? LOAD(state, row * STATE + 1u) : 0.0;
        before[r] = m[r];
        if (i0 + r < p.queries) {
            STORE(state, row * STATE + 2u, 0.0);
            STORE(state, row * STATE + 3u, float(keys));
        }
    }
    EACH_TEXEL(QUERIES)
    uint j = begin[0] / 4u * 4u; /* that of the first query is the least */
    do {
        for (uint n = 0u; n < 4u; n++) {
            const uint key = min(j + n, p.keys - 1u) * p.k_stride / 4u;
            at_k[n] = int(base_k + key);
            at_v[n] = int(base_v + key);
            s[n] = vec4(0.0);
        }
        EACH_TEXEL(SCORES)
        for (uint r = 0u; r < 4u; r++) {
            seen[r] = between(j, begin[r], end[r]);
            vec4 x = s[r] * p.scale;
            if (CAPPED != 0)
                x = p.cap * bents(x);
            if (MASKED != 0)
                for (uint n = 0u; n < 4u; n++)
                    x[n] += LOAD(mask, at_mask[r] + min(j + n, p.keys - 1u));
            x = chosen(seen[r], x, vec4(-INF));
            float top = m[r];
            for (uint n = 0u; n < 4u; n++)
                top = x[n] > top ? x[n] : top;
            const float shift = top == -INF ? 0.0 : top;
            keep[r] = m_exp(m[r] - shift);
            s[r] = chosen(seen[r], exps(x - shift), vec4(0.0));
            total[r] = total[r] * keep[r] + ((s[r].x + s[r].y) + (s[r].z + s[r].w));
            m[r] = top;
        }
        if (VALUES != 0) {
            EACH_TEXEL(SUMS)
        }
        j += 4u;
    } while (j < until);
    const bool is_last = stop == p.keys;
    for (uint r = 0u; r < 4u; r++) {
        const uint row = line * p.queries + i0 + r;
        if (MASKED != 0)
            is_empty[r] = total[r] == 0.0;
        inverse[r] = is_empty[r] ? 0.0 : 1.0 / total[r];
        keep[r] = m_exp(before[r] - (m[r] == -INF ? 0.0 : m[r]));
        if (i0 + r < p.queries) {
            STORE(state, row * STATE, is_last && is_empty[r] ? 0.0 : m[r]);
            STORE(state, row * STATE + 1u, is_last ? inverse[r] : total[r]);
        }
    }
    if (VALUES != 0) {
        EACH_TEXEL(RESULTS)
    }
}
