/* SPDX-License-Identifier: MIT */
/* The backend contract: transfers, fills, copies, host memory. */
#include "tests/rig/contract/contract.h"

#include <stdlib.h>

void write_and_read_keep_neighbours(void **state)
{
    struct rig *r = *state;
    enum { N = 1024 };
    static const struct {
        size_t at, count;
    } ranges[] = { { 0, 1 }, { 1, 1 }, { 3, 5 }, { 17, 63 }, { 100, 257 }, { N - 1, 1 }, { 0, N } };
    copse_buffer *buf = rig_buffer(r, N * 4);
    uint32_t *want = words(N, 1), *got = words(N, 2), *part = words(N, 3);

    OK(copse_queue_write(r->queue, buf, 0, want, N * 4));
    for (size_t i = 0; i < COPSE_COUNT(ranges); i++) {
        const size_t at = ranges[i].at, count = ranges[i].count;
        for (size_t j = 0; j < count; j++)
            want[at + j] = part[j] ^ (uint32_t)i;
        OK(copse_queue_write(r->queue, buf, at * 4, want + at, count * 4));
        read_now(r->queue, buf, 0, got, N * 4);
        expect_words(got, want, N);
        memset(got, 0xee, N * 4);
        read_now(r->queue, buf, at * 4, got, count * 4);
        expect_words(got, want + at, count);
        if (count < N)
            assert_int_equal(got[count], 0xeeeeeeee);
    }
    free(want);
    free(got);
    free(part);
    copse_buffer_release(&buf);
}

void sizes_are_rounded_up_to_words(void **state)
{
    struct rig *r = *state;
    for (size_t size = 1; size <= 9; size++) {
        copse_buffer *buf = rig_buffer(r, size);
        assert_int_equal(copse_buffer_size(buf), (size + 3) / 4 * 4);
        copse_buffer_release(&buf);
    }
}

void large_transfers_arrive_whole(void **state)
{
    struct rig *r = *state;
    const size_t n = 10 * MIB + 3; /* more than a staging block */
    copse_buffer *buf = rig_buffer(r, n * 4);
    uint32_t *want = words(n, 7), *got = words(n, 0);
    OK(copse_queue_write(r->queue, buf, 0, want, n * 4));
    read_now(r->queue, buf, 0, got, n * 4);
    expect_words(got, want, n);
    free(want);
    free(got);
    copse_buffer_release(&buf);
}

void many_transfers_fit_into_one_submission(void **state)
{
    struct rig *r = *state;
    enum { N = 64 * 1024, PARTS = 1500, PART = N / 32 };
    copse_buffer *buf = rig_buffer(r, N * 4);
    uint32_t *want = words(N, 0), *got = words(N, 1), *part = words(PART, 2);

    OK(copse_queue_write(r->queue, buf, 0, want, N * 4));
    for (uint32_t i = 0; i < PARTS; i++) {
        const size_t at = (i * 7919u) % (N - PART);
        for (size_t j = 0; j < PART; j++)
            want[at + j] = part[j] = i * 65536u + (uint32_t)j;
        OK(copse_queue_write(r->queue, buf, at * 4, part, PART * 4));
        OK(copse_queue_read(r->queue, buf, at * 4, got + at, PART * 4));
    }
    OK(copse_queue_read(r->queue, buf, 0, got, N * 4));
    OK(copse_queue_finish(r->queue));
    expect_words(got, want, N);
    free(want);
    free(got);
    free(part);
    copse_buffer_release(&buf);
}

void written_bytes_are_taken_and_reads_are_in_order(void **state)
{
    struct rig *r = *state;
    enum { N = 777 };
    copse_buffer *buf = rig_buffer(r, N * 4);
    uint32_t *src = words(N, 1), *want[3], *got[3];
    for (int i = 0; i < 3; i++) {
        want[i] = words(N, 10u + (uint32_t)i);
        got[i] = words(N, 0);
        memcpy(src, want[i], N * 4);
        OK(copse_queue_write(r->queue, buf, 0, src, N * 4));
        memset(src, 0, N * 4);
        OK(copse_queue_read(r->queue, buf, 0, got[i], N * 4));
    }
    OK(copse_queue_finish(r->queue));
    for (int i = 0; i < 3; i++) {
        expect_words(got[i], want[i], N);
        free(want[i]);
        free(got[i]);
    }
    free(src);
    copse_buffer_release(&buf);
}

void fill_repeats_a_word_and_keeps_neighbours(void **state)
{
    struct rig *r = *state;
    enum { N = 500 };
    copse_buffer *buf = rig_buffer(r, N * 4);
    uint32_t *want = words(N, 0), *got = words(N, 1);
    static const uint32_t fills[] = { 0, 0x01020304, 0x7f800000, 0xffffffff };

    OK(copse_queue_write(r->queue, buf, 0, want, N * 4));
    for (size_t i = 0; i < COPSE_COUNT(fills); i++) {
        const size_t at = 1 + 100 * i, count = 3 + 30 * i;
        OK(copse_queue_fill(r->queue, buf, at * 4, count * 4, fills[i]));
        for (size_t j = 0; j < count; j++)
            want[at + j] = fills[i];
    }
    read_now(r->queue, buf, 0, got, N * 4);
    expect_words(got, want, N);
    free(want);
    free(got);
    copse_buffer_release(&buf);
}

void copy_moves_ranges_and_keeps_neighbours(void **state)
{
    struct rig *r = *state;
    enum { N = 600 };
    copse_buffer *a = rig_buffer(r, N * 4), *b = rig_buffer(r, N * 4);
    uint32_t *wa = words(N, 1), *wb = words(N, 2), *got = words(N, 3);

    OK(copse_queue_write(r->queue, a, 0, wa, N * 4));
    OK(copse_queue_write(r->queue, b, 0, wb, N * 4));
    OK(copse_queue_copy(r->queue, a, 12, b, 404, 133 * 4));
    memcpy(wb + 101, wa + 3, 133 * 4);
    /* inside one buffer, without overlap */
    OK(copse_queue_copy(r->queue, b, 4, b, 300 * 4, 299 * 4));
    memcpy(wb + 300, wb + 1, 299 * 4);
    read_now(r->queue, b, 0, got, N * 4);
    expect_words(got, wb, N);
    read_now(r->queue, a, 0, got, N * 4);
    expect_words(got, wa, N);
    free(wa);
    free(wb);
    free(got);
    copse_buffer_release(&a);
    copse_buffer_release(&b);
}

void zero_sizes_are_legal(void **state)
{
    struct rig *r = *state;
    copse_buffer *buf = rig_buffer(r, 64);
    uint32_t want[16] = { 1, 2, 3 }, got[16];
    struct copse_segment *seg = NULL;
    const struct copse_command nothing = negate_part(r, buf, 0, buf, 0, 0, 0, 0);
    const struct copse_command mixed[] = { nothing, copy_all(buf, buf, 0), nothing };

    OK(copse_queue_write(r->queue, buf, 0, want, 64));
    OK(copse_queue_write(r->queue, buf, 64, NULL, 0));
    OK(copse_queue_read(r->queue, buf, 0, NULL, 0));
    OK(copse_queue_copy(r->queue, buf, 0, buf, 0, 0));
    OK(copse_queue_fill(r->queue, buf, 8, 0, 9));
    OK(copse__queue_encode(r->queue, &nothing));
    OK(copse__segment_create(r->queue, mixed, COPSE_COUNT(mixed), &seg));
    OK(copse__segment_replay(seg));
    read_now(r->queue, buf, 0, got, 64);
    expect_words(got, want, 16);
    OK(copse_queue_finish(r->queue)); /* with an empty queue */
    OK(copse_queue_finish(r->queue));
    copse__segment_release(&seg);
    copse_buffer_release(&buf);
}

void host_memory_can_be_used_itself(void **state)
{
    struct rig *r = *state;
    const size_t alignment = r->dev->limits->host_import_alignment;
    copse_buffer *buf = NULL, *other = NULL;
    if (alignment == 0) {
        uint32_t word;
        FAILS(COPSE_ERR_UNSUPPORTED,
              copse_buffer_create(r->dev, &(struct copse_buffer_params){ .size = 4, .host = &word },
                                  &buf),
              "host memory");
        SKIP("no import of host memory");
    }

    const size_t size = 4 * COPSE_MAX(alignment, KIB), n = size / 4;
    unsigned char *block = malloc(size + alignment);
    uint32_t *host = (uint32_t *)(block + (alignment - (uintptr_t)block % alignment) % alignment);
    uint32_t *want = words(n, 1), *got = words(n, 0);
    memcpy(host, want, size);
    OK(copse_buffer_create(r->dev, &(struct copse_buffer_params){ .size = size, .host = host },
                           &buf));
    other = rig_buffer(r, size);
    OK(copse_queue_copy(r->queue, buf, 0, other, 0, size));
    read_now(r->queue, other, 0, got, size);
    expect_words(got, want, n);

    free(want);
    want = words(n, 2);
    OK(copse_queue_write(r->queue, other, 0, want, size));
    OK(copse_queue_copy(r->queue, other, 0, buf, 0, size));
    OK(copse_queue_finish(r->queue));
    read_now(r->queue, buf, 0, got, size);
    expect_words(got, want, n);
    if (r->dev->limits->has_unified_memory)
        expect_words(host, want, n);

    copse_buffer_release(&buf);
    FAILS(COPSE_ERR_ARGUMENT,
          copse_buffer_create(
              r->dev, &(struct copse_buffer_params){ .size = size, .host = host + 1 }, &buf),
          "multiples");
    copse_buffer_release(&other);
    free(block);
    free(want);
    free(got);
}
