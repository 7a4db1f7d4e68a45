/* SPDX-License-Identifier: MIT */
/* Words of texts: what the package `tokenizers` gives for the patterns of the models. */
#include "tests/rig/rig.h"

#include "core/base/base.h"
#include "core/language/words.h"

/* The words with | between them. */
static const struct {
    const char *pattern, *words;
} cases[] = {
    { "gpt-2", "it|'s| WE|'|RE| don|'t| '|tis" },
    { "gpt-2", "a|  | b|  " },
    { "gpt-2", "  | 5| 12345| | 6|\n|7" },
    { "gpt-2", "x|\n\n | y| \r\n\t| z" },
    { "gpt-2", "  |\n|5| a" },
    { "gpt-2", "!\?| ...|\n|\n|b| (|c|)|d" },
    { "gpt-2",
      "gr\303\274\303\237\303\251| \346\227\245\346\234\254|\343\200\202|1\302\275\342\205\247" },
    { "gpt-2", "\302\240|a| \343\200\200|\343\200\200|b" },
    { "gpt-2", "ab|12|cd| 3" },
    { "gpt-2", "\360\237\231\202\360\237\231\202| x" },
    { "smollm", "it|'s| WE|'|RE| don|'t| '|tis" },
    { "smollm", "a|  | b|  " },
    { "smollm", "   |5| |1|2|3|4|5|  |6|\n|7" },
    { "smollm", "x|\n\n | y| \r\n\t| z" },
    { "smollm", "  \n|5| a" },
    { "smollm", "!\?| ...|\n|\n|b| (|c|)|d" },
    { "smollm",
      "gr\303\274\303\237\303\251| \346\227\245\346\234\254|\343\200\202|1|\302\275|\342\205\247" },
    { "smollm", "\302\240|a| \343\200\200|\343\200\200|b" },
    { "smollm", "ab|1|2|cd| |3" },
    { "smollm", "\360\237\231\202\360\237\231\202| x" },
    { "llama-bpe", "it|'s| WE|'RE| don|'t| '|tis" },
    { "llama-bpe", "a|  | b|  " },
    { "llama-bpe", "  | |5| |123|45| | |6|\n|7" },
    { "llama-bpe", "x|\n\n| | y| \r\n|\t| z" },
    { "llama-bpe", "  \n|5| a" },
    { "llama-bpe", "!\?| ...\n\n|b| (|c|)d" },
    { "llama-bpe",
      "gr\303\274\303\237\303\251| \346\227\245\346\234\254|\343\200\202|1\302\275\342\205\247" },
    { "llama-bpe", "\302\240a| \343\200\200|\343\200\200b" },
    { "llama-bpe", "ab|12|cd| |3" },
    { "llama-bpe", "\360\237\231\202\360\237\231\202| x" },
    { "qwen2", "it|'s| WE|'RE| don|'t| '|tis" },
    { "qwen2", "a|  | b|  " },
    { "qwen2", "  | |5| |1|2|3|4|5| | |6|\n|7" },
    { "qwen2", "x|\n\n| | y| \r\n|\t| z" },
    { "qwen2", "  \n|5| a" },
    { "qwen2", "!\?| ...\n\n|b| (|c|)d" },
    { "qwen2",
      "gr\303\274\303\237\303\251| \346\227\245\346\234\254|\343\200\202|1|\302\275|\342\205\247" },
    { "qwen2", "\302\240a| \343\200\200|\343\200\200b" },
    { "qwen2", "ab|1|2|cd| |3" },
    { "qwen2", "\360\237\231\202\360\237\231\202| x" },
};

static void test_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        char text[200], words[200] = "";
        size_t size = 0, n = 0;
        const struct copse_words *w = copse__words_find(cases[i].pattern, strlen(cases[i].pattern));
        assert_non_null(w);
        for (const char *c = cases[i].words; *c; c++)
            if (*c != '|')
                text[size++] = *c;
        for (size_t at = 0, word; at < size; at += word) {
            word = copse__words_next(w, text + at, size - at);
            assert_true(word > 0 && word <= size - at);
            if (at > 0)
                words[n++] = '|';
            memcpy(words + n, text + at, word);
            n += word;
        }
        if (n != strlen(cases[i].words) || memcmp(words, cases[i].words, n) != 0)
            fail_msg("%s: %.*s, not %s", cases[i].pattern, (int)n, words, cases[i].words);
    }
}

/* Whatever the bytes are, words have bytes and end with the text. */
static void test_bytes(void **state)
{
    static const char *const names[] = { "gpt-2", "smollm", "llama-bpe", "qwen2" };
    static const char liked[] = "a1 \n\r\t'.s\xc3\xa9\xe2\x82\xff\xf0\x9f\0";
    uint32_t random = 5;
    char text[24];
    (void)state;
    for (int i = 0; i < 20000; i++) {
        for (size_t k = 0; k < sizeof text; k++) {
            random = random * 1664525u + 1013904223u;
            text[k] = liked[(random >> 16) % (sizeof liked - 1)];
        }
        const struct copse_words *w = copse__words_find(names[i % 4], strlen(names[i % 4]));
        for (size_t at = 0, word; at < sizeof text; at += word) {
            word = copse__words_next(w, text + at, sizeof text - at);
            assert_true(word > 0 && word <= sizeof text - at);
        }
    }
    assert_null(copse__words_find("gpt-3", 5));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_words),
                                        cmocka_unit_test(test_bytes) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
