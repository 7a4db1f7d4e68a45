/* SPDX-License-Identifier: MIT */
/* Mode api, transfers: exactly the bytes of the range, of any size and offset, and always the
   present ones. */
#include "prover/conformance/api/api.h"

static uint32_t word_at(uint32_t seed, size_t i)
{
    return (uint32_t)(i + 1) * 2654435761u ^ seed * 0x9e3779b9u;
}

/* Fail unless g->words are those of `expected`. */
static void api_copy_compare(struct copse_api_rig *g, const uint32_t *expected, size_t words,
                             const char *what)
{
    for (size_t i = 0; i < words; i++)
        if (g->words[i] != expected[i]) {
            copse__conform_set(g->out, COPSE_VERDICT_FAIL,
                               "%s: word %zu has the bits %08x, not %08x", what, i, g->words[i],
                               expected[i]);
            break;
        }
}

/* ---- ranges ---- */

enum { RANGE_WORDS = 4096, TURNS = 64 };

struct range {
    size_t from, to, words;
};

/* Any range, often one of few words at an odd place. */
static struct range range_of(uint32_t turn)
{
    const uint32_t x = word_at(turn, 1), y = word_at(turn, 2), z = word_at(turn, 3);
    const size_t words = 1 + z % (turn % 2 ? 7u : RANGE_WORDS / 2u);
    return (struct range){ x % (RANGE_WORDS - words), y % (RANGE_WORDS - words), words };
}

/* The same on the device and in host memory. */
static copse_status api_copy_transfer(struct copse_api_rig *g, uint32_t turn, uint32_t *a,
                                      uint32_t *b)
{
    const struct range r = range_of(turn);
    const size_t from = COPSE_WORD_BYTES * r.from, to = COPSE_WORD_BYTES * r.to,
                 bytes = COPSE_WORD_BYTES * r.words;
    switch (turn % 4) {
    case 0:
        for (size_t i = 0; i < r.words; i++)
            a[r.to + i] = word_at(turn, i);
        return copse_queue_write(g->queue, g->buffers[0], to, a + r.to, bytes);
    case 1:
        for (size_t i = 0; i < r.words; i++)
            b[r.to + i] = word_at(turn, 0);
        return copse_queue_fill(g->queue, g->buffers[1], to, bytes, word_at(turn, 0));
    case 2:
        memcpy(b + r.to, a + r.from, bytes);
        return copse_queue_copy(g->queue, g->buffers[0], from, g->buffers[1], to, bytes);
    default:
        /* they overlap: from the other buffer */
        if (r.from < r.to + r.words && r.to < r.from + r.words)
            return memcpy(a + r.to, b + r.from, bytes),
                   copse_queue_copy(g->queue, g->buffers[1], from, g->buffers[0], to, bytes);
        memcpy(a + r.to, a + r.from, bytes);
        return copse_queue_copy(g->queue, g->buffers[0], from, g->buffers[0], to, bytes);
    }
}

copse_status copse__api_ranges(struct copse_conform_run *r, void *user,
                               struct copse_conform_outcome *out)
{
    const size_t bytes = COPSE_WORD_BYTES * RANGE_WORDS;
    struct copse_api_rig g;
    uint32_t *host = NULL;
    copse_status s;
    (void)user;
    COPSE_TRY_OR(done, s, copse__api_open(r, out, bytes, &g));
    COPSE_TRY_OR(done, s, copse__conform_memory(r, 2 * RANGE_WORDS, sizeof *host, &host));
    uint32_t *const sides[] = { host, host + RANGE_WORDS };
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < RANGE_WORDS; i++)
            sides[k][i] = word_at((uint32_t)k, i);
        COPSE_TRY_OR(done, s, copse_queue_write(g.queue, g.buffers[k], 0, sides[k], bytes));
    }
    for (uint32_t turn = 0; turn < TURNS; turn++)
        COPSE_TRY_OR(done, s, api_copy_transfer(&g, turn, sides[0], sides[1]));
    for (int k = 0; k < 2; k++) {
        COPSE_TRY_OR(done, s, copse_queue_read(g.queue, g.buffers[k], 0, g.words, bytes));
        COPSE_TRY_OR(done, s, copse_queue_finish(g.queue));
        api_copy_compare(&g, sides[k], RANGE_WORDS, k ? "second buffer" : "first buffer");
    }
    for (uint32_t turn = 0; turn < TURNS; turn++) { /* reads of parts */
        const struct range p = range_of(turn);
        COPSE_TRY_OR(done, s,
                     copse_queue_read(g.queue, g.buffers[0], COPSE_WORD_BYTES * p.from, g.words,
                                      COPSE_WORD_BYTES * p.words));
        COPSE_TRY_OR(done, s, copse_queue_finish(g.queue));
        api_copy_compare(&g, sides[0] + p.from, p.words, "part");
    }
done:
    copse__free(&r->ctx->base.mem, host);
    copse__api_close(&g);
    return s;
}

/* ---- more than the staging memory ---- */

copse_status copse__api_large(struct copse_conform_run *r, void *user,
                              struct copse_conform_outcome *out)
{
    const size_t bytes = ((size_t)17 << 20) + 4 * COPSE_WORD_BYTES,
                 words = bytes / COPSE_WORD_BYTES;
    struct copse_api_rig g;
    copse_status s;
    (void)user;
    if (bytes > r->dev->limits->max_buffer_bytes) {
        copse__conform_set(out, COPSE_VERDICT_SKIP, "the largest buffer has %llu bytes",
                           (unsigned long long)r->dev->limits->max_buffer_bytes);
        return COPSE_OK;
    }
    COPSE_TRY_OR(done, s, copse__api_open(r, out, bytes, &g));
    for (size_t i = 0; i < words; i++)
        g.words[i] = word_at(7, i);
    COPSE_TRY_OR(done, s, copse_queue_write(g.queue, g.buffers[0], 0, g.words, bytes));
    memset(g.words, 0, bytes); /* the bytes have been taken */
    COPSE_TRY_OR(done, s, copse_queue_copy(g.queue, g.buffers[0], 0, g.buffers[1], 0, bytes));
    COPSE_TRY_OR(done, s, copse_queue_read(g.queue, g.buffers[1], 0, g.words, bytes));
    COPSE_TRY_OR(done, s, copse_queue_finish(g.queue));
    for (size_t i = 0; i < words; i++)
        if (g.words[i] != word_at(7, i)) {
            copse__conform_set(out, COPSE_VERDICT_FAIL,
                               "word %zu of %zu has the bits %08x, not %08x", i, words, g.words[i],
                               word_at(7, i));
            break;
        }
done:
    copse__api_close(&g);
    return s;
}

/* ---- reads ---- */

/* Reads of one size, between which the content changes, and pairs of reads of the same content. */
copse_status copse__api_reads(struct copse_conform_run *r, void *user,
                              struct copse_conform_outcome *out)
{
    enum { READS = 128, WORDS = 1024 };
    struct copse_api_rig g;
    copse_status s;
    (void)user;
    COPSE_TRY_OR(done, s, copse__api_open(r, out, 2 * WORDS * COPSE_WORD_BYTES, &g));
    for (uint32_t turn = 0; turn < READS; turn++) {
        for (size_t i = 0; i < WORDS; i++)
            g.words[i] = word_at(turn / 2, i);
        COPSE_TRY_OR(
            done, s,
            copse_queue_write(g.queue, g.buffers[0], 0, g.words, WORDS * COPSE_WORD_BYTES));
        COPSE_TRY_OR(
            done, s,
            copse_queue_read(g.queue, g.buffers[0], 0, g.words + WORDS, WORDS * COPSE_WORD_BYTES));
        COPSE_TRY_OR(done, s, copse_queue_finish(g.queue));
        for (size_t i = 0; i < WORDS; i++)
            if (g.words[WORDS + i] != g.words[i]) {
                copse__conform_set(out, COPSE_VERDICT_FAIL,
                                   "read %u: word %zu has the bits %08x, not %08x%s", turn, i,
                                   g.words[WORDS + i], g.words[i],
                                   turn > 1 && g.words[WORDS + i] == word_at(turn / 2 - 1, i)
                                       ? ", which it had before"
                                       : "");
                break;
            }
    }
done:
    copse__api_close(&g);
    return s;
}
