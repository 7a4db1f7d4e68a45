/* SPDX-License-Identifier: MIT */
/* Mode api, limits: what the driver claims holds. */
#include "core/base/machine.h"
#include "prover/conformance/api/api.h"

#define MIB ((uint64_t)1 << 20)

/* A kernel sees what it should at every multiple of the claimed alignment. */
copse_status copse__api_alignment(struct copse_conform_run *r, void *user,
                                  struct copse_conform_outcome *out)
{
    enum { WORDS = 129, TURNS = 8 };
    const size_t unit = r->dev->limits->offset_alignment,
                 room = 2 * TURNS * unit + COPSE_WORD_BYTES * (WORDS + 4);
    const size_t bytes = room / COPSE_WORD_BYTES * COPSE_WORD_BYTES;
    struct copse_api_rig g;
    copse_status s;
    (void)user;
    COPSE_TRY_OR(done, s, copse__api_open(r, out, bytes, &g));
    for (size_t turn = 0; turn < TURNS; turn++) {
        const size_t from = turn * unit, to = (2 * TURNS - turn) * unit;
        for (size_t i = 0; i < bytes / COPSE_WORD_BYTES; i++)
            g.words[i] = copse__api_word((float)(i + turn));
        COPSE_TRY_OR(done, s, copse_queue_write(g.queue, g.buffers[0], 0, g.words, bytes));
        COPSE_TRY_OR(done, s, copse_queue_fill(g.queue, g.buffers[1], 0, bytes, 0));
        s = copse__api_negate(&g, g.queue, g.buffers[0], from, g.buffers[1], to, WORDS);
        s = s ? s : copse_queue_read(g.queue, g.buffers[1], 0, g.words, bytes);
        COPSE_TRY_OR(done, s,
                     copse_note(s ? s : copse_queue_finish(g.queue),
                                "with bindings at %zu and %zu, multiples of %zu", from, to, unit));
        for (size_t i = 0; i < bytes / COPSE_WORD_BYTES; i++) {
            const size_t at = i - to / COPSE_WORD_BYTES;
            const float expected =
                at < WORDS ? -(float)(at + from / COPSE_WORD_BYTES + turn) : 0.0f;
            if (g.words[i] != copse__api_word(expected))
                copse__conform_set(out, COPSE_VERDICT_FAIL,
                                   "bindings at %zu and %zu, multiples of %zu: word %zu has the "
                                   "bits %08x, not %08x",
                                   from, to, unit, i, g.words[i], copse__api_word(expected));
        }
    }
done:
    copse__api_close(&g);
    return s;
}

static copse_status check_largest(copse_queue *q, copse_buffer *b, uint64_t size,
                                  struct copse_conform_outcome *out)
{
    const uint64_t places[] = { 0, size / 8 * 4, size - COPSE_WORD_BYTES };
    uint32_t got[COPSE_COUNT(places)];
    for (uint32_t i = 0; i < COPSE_COUNT(places); i++)
        COPSE_TRY(copse_queue_fill(q, b, (size_t)places[i], COPSE_WORD_BYTES, 0x5a5a0000u + i));
    for (uint32_t i = 0; i < COPSE_COUNT(places); i++)
        COPSE_TRY(copse_queue_read(q, b, (size_t)places[i], &got[i], COPSE_WORD_BYTES));
    COPSE_TRY(copse_queue_finish(q));
    for (uint32_t i = 0; i < COPSE_COUNT(places); i++)
        if (got[i] != 0x5a5a0000u + i)
            copse__conform_set(out, COPSE_VERDICT_FAIL, "byte %llu of %llu: %08x, not %08x",
                               (unsigned long long)places[i], (unsigned long long)size, got[i],
                               0x5a5a0000u + i);
    return COPSE_OK;
}

/* The largest buffer exists and has its ends, or one of three quarters of the memory if that is
   smaller: some of it may be in use. Memory is touched at three places only. */
copse_status copse__api_largest(struct copse_conform_run *r, void *user,
                                struct copse_conform_outcome *out)
{
    const uint64_t most = r->params->tier == COPSE_CONFORM_QUICK ? 2048 * MIB : 16384 * MIB;
    const uint64_t memory = r->dev->info.memory_bytes, claimed = r->dev->limits->max_buffer_bytes;
    const uint64_t size = COPSE_MIN(claimed, memory / 4 * 3) & ~UINT64_C(3);
    copse_queue *q = NULL;
    copse_buffer *b = NULL;
    copse_status s;
    (void)user;
    if (!memory || size > most) {
        copse__conform_set(out, COPSE_VERDICT_SKIP,
                           memory ? "larger than what is used in this tier"
                                  : "the memory of the device is not known");
        return COPSE_OK;
    }
    if (claimed > memory)
        copse__conform_set(out, COPSE_VERDICT_FAIL,
                           "a buffer may have %llu MiB, and the device %llu MiB of memory",
                           (unsigned long long)(claimed / MIB), (unsigned long long)(memory / MIB));
    COPSE_TRY_OR(done, s, copse_queue_create(r->dev, &q));
    COPSE_TRY_OR(
        done, s,
        copse_buffer_create(r->dev, &(struct copse_buffer_params){ .size = (size_t)size }, &b));
    s = check_largest(q, b, size, out);
done:
    copse_queue_release(&q);
    copse_buffer_release(&b);
    return s;
}

/* A processor has at most the memory of the machine. */
copse_status copse__api_memory(struct copse_conform_run *r, void *user,
                               struct copse_conform_outcome *out)
{
    struct copse_machine machine;
    (void)user;
    copse__machine_describe(&machine);
    if (r->dev->info.kind != COPSE_DEVICE_CPU || !machine.memory_bytes ||
        !r->dev->info.memory_bytes)
        copse__conform_set(out, COPSE_VERDICT_SKIP, "only for processors whose memory is known");
    else if (r->dev->info.memory_bytes > machine.memory_bytes)
        copse__conform_set(out, COPSE_VERDICT_FAIL,
                           "the driver claims %llu MiB of memory, the machine has %llu MiB",
                           (unsigned long long)(r->dev->info.memory_bytes / MIB),
                           (unsigned long long)(machine.memory_bytes / MIB));
    return COPSE_OK;
}
