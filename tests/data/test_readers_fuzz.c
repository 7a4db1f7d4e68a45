/* SPDX-License-Identifier: MIT */
/* Every reader of files against damaged files: seeds, each changed in thousands of ways that are the same in every run.
   tests/fuzz looks for further ones, led by the code that they reach. */
#include "tests/rig/data/reader_targets.h"

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

/* One to four changes: a byte, a bit, a byte taken out or put in, the end cut off. */
static size_t change(unsigned char *bytes, size_t size, size_t room, uint32_t *random)
{
    static const unsigned char liked[] = { 0,   0xff, 0x7f, 0x80, '0', '9', '"', '\\', ',', '\n',
                                           '[', ']',  '{',  '}',  '-', 'e', '.', '\'', '(', ')' };

    for (uint32_t n = next_random(random) % 4 + 1; n > 0; n--) {
        uint32_t kind = next_random(random) % 8;
        size_t at = size > 0 ? next_random(random) % size : 0;
        unsigned char byte = liked[next_random(random) % COPSE_COUNT(liked)];
        if (kind == 0) {
            size = at;
        } else if (kind == 1 && size > 0) {
            memmove(bytes + at, bytes + at + 1, size - at - 1);
            size--;
        } else if (kind < 4 && size < room) {
            memmove(bytes + at + 1, bytes + at, size - at);
            bytes[at] = byte;
            size++;
        } else if (size > 0) {
            bytes[at] =
                kind < 6 ? byte : (unsigned char)(bytes[at] ^ 1u << next_random(random) % 8);
        }
    }
    return size;
}

static size_t live_blocks(void)
{
    struct copse_memory_stats stats;

    copse_context_memory(ctx, &stats);
    return stats.live_blocks;
}

static void replay(const struct reader_target *t)
{
    unsigned char bytes[1024], packed[1024];
    uint32_t random = 2463534242u;
    size_t before = live_blocks();

    for (int i = 0; i < 4000; i++) {
        size_t size = t->seeds[i % 2].size, gzip = (size_t)(i / 2 % 3);
        memcpy(bytes, t->seeds[i % 2].bytes, size);
        if (gzip != 1 && i >= 2)
            size = change(bytes, size, 600, &random);
        if (gzip > 0) {
            size = temp_deflate(bytes, size, packed, sizeof packed);
            memcpy(bytes, packed, size);
        }
        if (gzip == 1 && i >= 2) /* damage outside, else inside of gzip */
            size = change(bytes, size, 600, &random);
        copse_status s = t->read(temp_write("input", bytes, size));
        if (i < 2 && s != COPSE_OK)
            fail_msg("%s, seed %d: %s", t->name, i, copse_last_error());
        if (s != COPSE_OK && s != COPSE_ERR_FORMAT && s != COPSE_ERR_SHAPE)
            fail_msg("%s, change %d: %s: %s", t->name, i, copse_status_name(s), copse_last_error());
        if (live_blocks() != before)
            fail_msg("%s, change %d leaks", t->name, i);
    }
}

static void test_damaged_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(reader_targets); i++)
        replay(&reader_targets[i]);
}

static int begin(void **state)
{
    (void)state;
    temp_begin();
    return copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" },
                                &ctx) != COPSE_OK;
}

static int end(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    temp_end();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_damaged_files) };

    return cmocka_run_group_tests(tests, begin, end);
}
