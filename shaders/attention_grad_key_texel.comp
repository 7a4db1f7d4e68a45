/* SPDX-License-Identifier: MIT */
/* attention_grad_key for drivers that run shaders on a CPU: an invocation computes four keys of a key head. A launch processes
   `count` queries from `first` on, of query head `head` of those that share the key; launches after the first one add to the
   result. */
GROUP(8, 1)
SPEC(0, CAUSAL)
SPEC(1, MASKED)
SPEC(2, LENGTHS)
SPEC(3, CAPPED)
SPEC(4, TEXELS)
PARAMS(uint lines; uint queries; uint keys; uint heads; uint share; uint width; uint window; uint q_first; uint k_first; uint v_first;
       uint q_stride; uint k_stride; uint head; uint first; uint count; uint to_k; uint to_v; uint to_stride; uint mask_item;
       uint mask_head; uint mask_query; float scale; float cap;)

#include "attention/attention_texel.clh"

#define KEYS(c)                                                                                    \
    for (uint r = 0u; r < 4u; r++) {                                                               \
        keys_[4u * c + r] = imageLoad(k, at_k[r] + c);                                             \
        values[4u * c + r] = imageLoad(v, at_v[r] + c);                                            \
        sums_k[4u * c + r] = vec4(0.0);                                                            \
        sums_v[4u * c + r] = vec4(0.0);                                                            \
    }
#define ROWS_OF(name, at, c)                                                                       \
    const vec4 name##0 = imageLoad(name, at[0] + c), name##1 = imageLoad(name, at[1] + c);         \
    const vec4 name##2 = imageLoad(name, at[2] + c), name##3 = imageLoad(name, at[3] + c);
#define SCORES(c)                                                                                  \
    {                                                                                              \
        ROWS_OF(q, at_q, c)                                                                        \
        ROWS_OF(dy, at_y, c)                                                                       \
        for (uint r = 0u; r < 4u; r++) {                                                           \
            s[r] = dots(s[r], keys_[4u * c + r], q0, q1, q2, q3);                                  \
            d[r] = dots(d[r], values[4u * c + r], dy0, dy1, dy2, dy3);                             \
        }                                                                                          \
    }
#define SUMS(c)                                                                                    \
    {                                                                                              \
        ROWS_OF(q, at_q, c)                                                                        \
        ROWS_OF(dy, at_y, c)                                                                       \
        for (uint r = 0u; r < 4u; r++) {                                                           \
            sums_k[4u * c + r] += weighed(d[r], seen[r], q0, q1, q2, q3);                          \
            sums_v[4u * c + r] += weighed(s[r], seen[r], dy0, dy1, dy2, dy3);                      \
        }                                                                                          \
    }
#define RESULTS(c)                                                                                 \
    for (uint r = 0u; r < 4u; r++)                                                                 \
        if (j0 + r < p.keys)                                                                       \
            for (uint e = 0u; e < 4u; e++) {                                                       \
                const uint at = (item * p.keys + j0 + r) * p.to_stride + kv * p.width + 4u * c + e; \
                const float dk = sums_k[4u * c + r][e], dv = sums_v[4u * c + r][e];                \
                STORE(grad, p.to_k + at, adds ? LOAD(grad, p.to_k + at) + dk : dk);                \
                STORE(grad, p.to_v + at, adds ? LOAD(grad, p.to_v + at) + dv : dv);                \
            }

KERNEL7(attention_grad_key_texel, TEXEL(q), TEXEL(k), TEXEL(v), IN(real, mask), TEXEL(dy), TEXEL(state), OUT(real, grad))
{
    const uint kv_heads = p.heads / p.share, line = INDEX() % p.lines, j0 = INDEX() / p.lines * 4u;
    const uint kv = line % kv_heads, item = line / kv_heads, h = kv * p.share + p.head;
    if (j0 >= p.keys)
        return;
    const uint at_state = (item * p.heads + h) * p.queries; /* a texel for each query */
    const uint length = LENGTHS != 0 ? uint(imageLoad(state, int(at_state)).w) : p.keys;
    const uint queries = LENGTHS == 2 ? min(p.queries, length) : p.queries;
    const uint stop = p.first + min(p.count, p.queries - p.first);
    const uint base_q = (item * p.queries * p.q_stride + p.q_first + h * p.width) / 4u;
    const uint base_y = (item * p.queries * p.heads + h) * p.width / 4u;
    vec4 keys_[MOST], values[MOST], sums_k[MOST], sums_v[MOST], s[4], d[4];
    bvec4 seen[4];
    uint begin[4], end[4];
    int at_k[4], at_v[4], at_q[4], at_y[4];
    uint until = 0u;
    for (uint r = 0u; r < 4u; r++) {
        const uint j = min(j0 + r, p.keys - 1u), row = (item * p.keys + j) * p.k_stride + kv * p.width;
        at_k[r] = int((row + p.k_first) / 4u);
        at_v[r] = int((row + p.v_first) / 4u);
        begin[r] = max(first_query(j, p.window), p.first);
        end[r] = j < length ? min(end_query(j, p.window, queries), stop) : 0u;
        until = max(until, end[r]);
    }
    EACH_TEXEL(KEYS)
    uint i = begin[0] / 4u * 4u;
    do {
        vec4 top, inverse, along;
        for (uint n = 0u; n < 4u; n++) {
            const uint row = min(i + n, p.queries - 1u);
            const vec4 words = imageLoad(state, int(at_state + row));
            top[n] = words.x;
            inverse[n] = words.y;
            along[n] = words.z;
            at_q[n] = int(base_q + row * p.q_stride / 4u);
            at_y[n] = int(base_y + row * p.heads * p.width / 4u);
            s[n] = vec4(0.0);
            d[n] = vec4(0.0);
        }
        EACH_TEXEL(SCORES)
        for (uint r = 0u; r < 4u; r++) {
            seen[r] = between(i, begin[r], end[r]);
            vec4 x = s[r] * p.scale, bend = vec4(1.0);
            if (CAPPED != 0) {
                const vec4 t = bents(x);
                x = p.cap * t;
                bend = 1.0 - t * t;
            }
            if (MASKED != 0)
                for (uint n = 0u; n < 4u; n++)
                    x[n] += LOAD(mask, item * p.mask_item + h * p.mask_head + min(i + n, p.queries - 1u) * p.mask_query +
                                           min(j0 + r, p.keys - 1u));
            x = exps(x - top) * inverse;
            s[r] = chosen(seen[r], x, vec4(0.0));
            d[r] = chosen(seen[r], x * (d[r] - along) * p.scale * bend, vec4(0.0));
        }
        EACH_TEXEL(SUMS)
        i += 4u;
    } while (i < until);
    const bool adds = p.first + p.head > 0u;
    EACH_TEXEL(RESULTS)
}
