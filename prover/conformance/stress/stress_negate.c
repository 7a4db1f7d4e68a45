/* SPDX-License-Identifier: MIT */
/* The work of the cases of mode stress: y = -x over a range, and a check of the words around the
   range. Exact on every device. */
#include "core/ops/elementwise/unary.h"
#include "prover/conformance/stress/stress.h"

#define BAND  0xa5a5a5a5u
#define BANDS ((size_t)64)      /* words checked on both sides */
#define BLOCK ((size_t)1 << 20) /* words compared at a time */

static uint32_t stress_negate_pattern(size_t i)
{
    return ((uint32_t)i * 2654435761u & 0xbfffffffu) | 0x20000000u; /* normal numbers */
}

/* Write the pattern (is_write), or compare with its negative. */
static copse_status stress_negate_walk(struct copse_conform_run *r, copse_queue *q,
                                       copse_buffer *buf, size_t offset, size_t count,
                                       bool is_write, struct copse_conform_outcome *out)
{
    const size_t most = COPSE_MIN(count, BLOCK);
    uint32_t *words;
    copse_status s = COPSE_OK;
    COPSE_TRY(copse__conform_memory(r, most, sizeof *words, &words));
    for (size_t at = 0; at < count && !s; at += most) {
        const size_t n = COPSE_MIN(count - at, most);
        for (size_t i = 0; is_write && i < n; i++)
            words[i] = stress_negate_pattern(at + i);
        s = is_write ? copse_queue_write(q, buf, offset + COPSE_WORD_BYTES * at, words,
                                         COPSE_WORD_BYTES * n)
                     : copse_queue_read(q, buf, offset + COPSE_WORD_BYTES * at, words,
                                        COPSE_WORD_BYTES * n);
        if (!s && !is_write)
            s = copse_queue_finish(q);
        for (size_t i = 0; !is_write && !s && i < n; i++)
            if (words[i] != (stress_negate_pattern(at + i) ^ 0x80000000u))
                copse__conform_set(out, COPSE_VERDICT_FAIL,
                                   "element %zu of %zu has the bits %08x, expected %08x", at + i,
                                   count, words[i], stress_negate_pattern(at + i) ^ 0x80000000u);
    }
    copse__free(&r->ctx->base.mem, words);
    return s;
}

/* The contents of the buffer around the range: at most BANDS words on each side. */
static copse_status check_around(copse_queue *q, copse_buffer *buf, size_t offset, size_t bytes,
                                 bool is_write, struct copse_conform_outcome *out)
{
    uint32_t words[BANDS];
    const size_t before = COPSE_MIN(offset / COPSE_WORD_BYTES, BANDS), end = offset + bytes;
    const size_t behind = COPSE_MIN((copse_buffer_size(buf) - end) / COPSE_WORD_BYTES, BANDS);
    const struct {
        size_t at, count;
        const char *name;
    } sides[] = { { offset - COPSE_WORD_BYTES * before, before, "before" },
                  { end, behind, "behind" } };
    for (int i = 0; i < 2; i++) {
        if (is_write) {
            COPSE_TRY(
                copse_queue_fill(q, buf, sides[i].at, COPSE_WORD_BYTES * sides[i].count, BAND));
            continue;
        }
        COPSE_TRY(copse_queue_read(q, buf, sides[i].at, words, COPSE_WORD_BYTES * sides[i].count));
        COPSE_TRY(copse_queue_finish(q));
        for (size_t k = 0; k < sides[i].count; k++)
            if (words[k] != BAND)
                copse__conform_set(out, COPSE_VERDICT_FAIL, "a write out of range, %s %zu bytes",
                                   sides[i].name, bytes);
    }
    return COPSE_OK;
}

copse_status copse__stress_negate(struct copse_conform_run *r, copse_queue *q, copse_buffer *x,
                                  copse_buffer *y, size_t offset, size_t count,
                                  struct copse_conform_outcome *out)
{
    const struct copse_binding from = { x, offset, COPSE_WORD_BYTES * count },
                               to = { y, offset, COPSE_WORD_BYTES * count };
    struct copse_command c;
    COPSE_TRY(copse__negate_command(q->dev, from, to, count, &c));
    COPSE_TRY(stress_negate_walk(r, q, x, offset, count, true, out));
    COPSE_TRY(copse_queue_fill(q, y, offset, COPSE_WORD_BYTES * count, BAND));
    COPSE_TRY(check_around(q, y, offset, COPSE_WORD_BYTES * count, true, out));
    COPSE_TRY(copse__queue_encode(q, &c));
    COPSE_TRY(check_around(q, y, offset, COPSE_WORD_BYTES * count, false, out));
    return stress_negate_walk(r, q, y, offset, count, false, out);
}
