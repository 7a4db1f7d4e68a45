/* SPDX-License-Identifier: MIT */
/* Byte-pair encoding: merges and tokens are those of a slow implementation that counts all pairs
   anew for each merge; every string of bytes is encoded and decoded; the held-out part has no text
   from which the vocabulary was learned; damaged schemas are refused. */
#include "copse/data/schema.h"
#include "copse/data/source.h"
#include "copse/data/text.h"

#include <ctype.h>
#include <math.h>

#include "core/base/base.h"
#include "core/data/schema/schema.h"
#include "tests/rig/data/reader_rig.h"

enum { MOST_BYTES = 20000, MOST_TOKENS = 640 };

static copse_dataset *data, *train, *held_out;
static copse_schema *parsed;

static void drop(void)
{
    copse_dataset_release(&data);
    copse_dataset_release(&train);
    copse_dataset_release(&held_out);
}

static copse_status open_by(const char *text, size_t size, struct copse_text_params how,
                            const copse_schema *schema)
{
    const struct copse_source_params source = { .text = &how };

    drop();
    return copse_text_create(ctx, text, size,
                             &(struct copse_dataset_params){ .schema = schema, .source = &source },
                             &data);
}
#define BPE(...)                 \
    ((struct copse_text_params){ \
        .tokens = COPSE_TOKENS_BPE, .context = 1, .stride = 1, __VA_ARGS__ })

static const struct copse_schema_parts *learned(void)
{
    return &copse_dataset_schema(data)->is;
}

/* ---- the slow implementation ---- */

/* Words by their cuts: `cut[i]` says that a word begins at byte i. */
static void cut_words(const unsigned char *p, size_t size, bool *cut)
{
    size_t start = 0;

    for (size_t i = 0; i < size; i++) {
        const char *const kinds = " \t\v\f\r"; /* spaces; a line end is alone */
#define KIND(c)                           \
    ((c) == '\n'                      ? 0 \
     : (c) != 0 && strchr(kinds, (c)) ? 1 \
     : (c) > 127 || isalpha(c)        ? 2 \
     : isdigit(c)                     ? 3 \
                                      : 4)
        cut[i] = i == 0 || KIND(p[i]) != KIND(p[i - 1]) || p[i] == '\n';
        if (i > 0 && p[i - 1] == ' ' && KIND(p[i]) > 1) { /* the word takes the space before it */
            cut[i] = false;
            cut[i - 1] = true;
        }
    }
    for (size_t i = 0; i < size; i++) {
        start = cut[i] ? i : start;
        if (i - start == 64) {
            cut[i] = true;
            start = i;
        }
    }
}

/* Join a pair everywhere; `first[i]`: a word begins with token i. */
static size_t join(uint32_t *tokens, bool *first, size_t count, uint32_t a, uint32_t b,
                   uint32_t joined)
{
    size_t n = 0;

    for (size_t i = 0; i < count; n++) {
        const bool both = i + 1 < count && tokens[i] == a && tokens[i + 1] == b && !first[i + 1];
        first[n] = first[i];
        tokens[n] = both ? joined : tokens[i];
        i += both ? 2 : 1;
    }
    return n;
}

static uint32_t counts[MOST_TOKENS][MOST_TOKENS];

/* The most frequent pair, of equal ones the smallest; false: none occurs twice. */
static bool most_frequent(const uint32_t *tokens, const bool *first, size_t count, uint32_t *a,
                          uint32_t *b)
{
    uint32_t best = 1;

    memset(counts, 0, sizeof counts);
    for (size_t i = 0; i + 1 < count; i++)
        if (!first[i + 1])
            counts[tokens[i]][tokens[i + 1]]++;
    for (uint32_t i = 0; i < MOST_TOKENS; i++)
        for (uint32_t k = 0; k < MOST_TOKENS; k++)
            if (counts[i][k] > best) {
                best = counts[i][k];
                *a = i;
                *b = k;
            }
    return best > 1;
}

static void split(const char *text, size_t size, uint32_t *tokens, bool *first)
{
    cut_words((const unsigned char *)text, size, first);
    for (size_t i = 0; i < size; i++)
        tokens[i] = (unsigned char)text[i];
}

static uint32_t learn_slowly(const char *text, size_t size, uint32_t most,
                             struct copse_merge *merges)
{
    static uint32_t tokens[MOST_BYTES];
    static bool first[MOST_BYTES];
    uint32_t n = 0, a, b;

    split(text, size, tokens, first);
    for (size_t count = size; n < most && most_frequent(tokens, first, count, &a, &b); n++) {
        merges[n] = (struct copse_merge){ (uint16_t)a, (uint16_t)b };
        count = join(tokens, first, count, a, b, 256 + n);
    }
    return n;
}

static size_t encode_slowly(const char *text, size_t size, const struct copse_merge *merges,
                            uint32_t merge_count, uint32_t *tokens)
{
    static bool first[MOST_BYTES];
    size_t count = size;

    split(text, size, tokens, first);
    for (uint32_t i = 0; i < merge_count; i++)
        count = join(tokens, first, count, merges[i].first, merges[i].second, 256 + i);
    return count;
}

/* ---- texts ---- */

static uint64_t state_of = 1;
static uint32_t draw(uint32_t below)
{
    state_of = state_of * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(state_of >> 33) % below;
}

/* A text of about `size` bytes, of one kind. */
static size_t make_text(int kind, char *text, size_t size)
{
    static const char *const words[] = {
        "the",   "rain", "again", "in",          "Spain",        "stays", "mainly", "plain",
        "don't", "42",   "1999",  "caf\xc3\xa9", "\xe2\x82\xac", "  ",    "\t",     "\r\n",
        "\n\n",  "\n  ", ",",     "...",         "--",           "\xff",  "x"
    };
    size_t n = 0;

    while (n < size) {
        if (kind == 0) { /* words */
            const char *w = words[draw(COPSE_COUNT(words))];
            n += (size_t)snprintf(text + n, size + 20 - n, "%s%s", w, draw(4) > 0 ? " " : "");
        } else if (kind == 1) { /* few letters, long words */
            text[n++] = (char)('a' + draw(3) * draw(2));
        } else if (kind == 2) { /* any bytes */
            text[n++] = (char)draw(256);
        } else if (kind == 3) { /* any few bytes, no UTF-8 */
            text[n++] = "\0\x80\xc3 \n\xfe"[draw(6)];
        } else { /* repeated bytes */
            text[n++] = kind == 4 ? 'a' : draw(150) == 0 ? 'b' : ' ';
        }
    }
    return size;
}

static void assert_tokens(const char *text, size_t size)
{
    static uint32_t expected[MOST_BYTES];
    static int32_t wide[MOST_BYTES];
    static uint8_t narrow[MOST_BYTES];
    const struct copse_schema_parts *p = learned();
    const size_t count = encode_slowly(text, size, p->merges, p->merge_count, expected);
    struct copse_dataset_info info;
    char bytes[COPSE_TOKEN_BYTES];
    size_t at = 0;

    copse_dataset_describe(data, &info);
    assert_int_equal(info.rows, count); /* windows of one token; the last token begins none */
    OK(copse_dataset_gather(data, "x", NULL, count, p->type == COPSE_U8 ? (void *)narrow : wide));
    for (size_t i = 0; i < count; i++) {
        const uint32_t token = p->type == COPSE_U8 ? narrow[i] : (uint32_t)wide[i];
        if (token != expected[i])
            fail_msg("token %zu is %u, not %u", i, token, expected[i]);
        const size_t length = copse_text_token(copse_dataset_schema(data), token, bytes);
        assert_true(length > 0 && at + length <= size);
        assert_memory_equal(bytes, text + at, length);
        at += length;
    }
    assert_int_equal(at, size); /* decoded to the same bytes */
}

/* All tokens of a text by a schema. A line end is added, because a window needs a token after
   it. */
static void assert_text(const char *text, size_t size, const copse_schema *schema)
{
    static char longer[MOST_BYTES + 1];

    memcpy(longer, text, size);
    longer[size] = '\n'; /* a word of its own */
    OK(open_by(longer, size + 1, BPE(.vocabulary = 0), schema));
    assert_tokens(text, size);
}

/* ---- the tests ---- */

static void merges_and_tokens_are_those_of_counting_all_pairs_anew(void **state)
{
    static const struct {
        int kind;
        size_t size;
        uint32_t vocabulary;
    } cases[] = {
        { 0, 3000, 600 }, { 0, 12000, 500 }, { 1, 2000, 400 }, { 2, 9000, 560 },
        { 3, 4000, 600 }, { 4, 1000, 300 },  { 4, 63, 300 },   { 5, 3000, 300 },
        { 1, 1, 300 },    { 1, 2, 300 },     { 0, 500, 256 },  { 0, 500, 257 },
    };
    static char text[MOST_BYTES], other[MOST_BYTES];
    static struct copse_merge expected[MOST_TOKENS];

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        const size_t size = make_text(cases[i].kind, text, cases[i].size);
        const uint32_t n = learn_slowly(text, size, cases[i].vocabulary - 256, expected);
        text[size] = '\n';
        OK(open_by(text, size + 1, BPE(.vocabulary = cases[i].vocabulary, .train_fraction = 1),
                   NULL));
        if (learned()->merge_count != n || learned()->outputs != 256 + n)
            fail_msg("case %zu: %u merges, not %u", i, learned()->merge_count, n);
        for (uint32_t k = 0; k < n; k++)
            if (learned()->merges[k].first != expected[k].first ||
                learned()->merges[k].second != expected[k].second)
                fail_msg("case %zu: merge %u joins %u and %u, not %u and %u", i, k,
                         learned()->merges[k].first, learned()->merges[k].second, expected[k].first,
                         expected[k].second);
        assert_tokens(text, size);
        /* from its text; other texts by it */
        OK(copse_schema_parse(ctx, copse_schema_text(copse_dataset_schema(data)), &parsed));
        assert_string_equal(copse_schema_text(parsed),
                            copse_schema_text(copse_dataset_schema(data)));
        for (int kind = 0; kind < 6; kind++)
            assert_text(other, make_text(kind, other, 700), parsed);
        copse_schema_release(&parsed);
    }
}

static void small_texts(void **state)
{
    struct copse_text_info info;
    char bytes[COPSE_TOKEN_BYTES];

    (void)state;
    FAILS(COPSE_ERR_FORMAT, open_by("", 0, BPE(.vocabulary = 300), NULL), "is empty");
    FAILS(COPSE_ERR_SHAPE, open_by("a", 1, BPE(.vocabulary = 300), NULL),
          "has 1 tokens; a window of 1 and the one after it needs 2");
    /* aa is joined twice, then it occurs once */
    OK(open_by("aaaa\n", 5, BPE(.vocabulary = 300, .train_fraction = 1), NULL));
    OK(copse_text_describe(copse_dataset_schema(data), &info));
    assert_true(info.tokens == COPSE_TOKENS_BPE && info.vocabulary == 257);
    /* all but "aa" and the line end: "a" alone does not occur */
    assert_true(info.knows_unseen && info.unseen == 255);
    assert_int_equal(copse_text_token(copse_dataset_schema(data), 256, bytes), 2);
    assert_memory_equal(bytes, "aa", 2);
    assert_int_equal(copse_text_token(copse_dataset_schema(data), 256, NULL), 2);
    assert_int_equal(copse_text_token(copse_dataset_schema(data), 257, NULL), 0);
    assert_non_null(strstr(
        copse_schema_text(copse_dataset_schema(data)),
        "\"classes\":257,\"numbered\":true,\"tokens\":\"bpe\",\"stride\":1,\"merges\":[97,97]"));
    /* no pair twice */
    OK(open_by("ab ba\n", 6, BPE(.vocabulary = 300, .train_fraction = 1), NULL));
    assert_int_equal(learned()->outputs, 256);
    assert_int_equal(learned()->type, COPSE_U8);
    FAILS(COPSE_ERR_ARGUMENT, open_by("abc", 3, BPE(.vocabulary = 255), NULL),
          "a vocabulary has 256 to 65536 tokens");
    FAILS(COPSE_ERR_ARGUMENT, open_by("abc", 3, BPE(.vocabulary = 65537), NULL),
          "a vocabulary has 256 to 65536 tokens");
    FAILS(COPSE_ERR_ARGUMENT, open_by("abc", 3, BPE(.train_fraction = 1.5f), NULL),
          "train_fraction is 0 to 1");
    FAILS(COPSE_ERR_ARGUMENT, open_by("abc", 3, BPE(.train_fraction = NAN), NULL),
          "train_fraction is 0 to 1");
    FAILS(COPSE_ERR_ARGUMENT,
          open_by("abc", 3,
                  (struct copse_text_params){ .tokens = COPSE_TOKENS_BYTES, .vocabulary = 300 },
                  NULL),
          "belong to the tokens \"bpe\"");
    drop();
}

/* The end of each line, and places: a line end is a token of its own. */
static void lines(void **state)
{
    static const char text[] = "one two\nthree three\n\none two";
    uint64_t line, column;
    struct copse_dataset_info info;

    (void)state;
    OK(open_by(text, strlen(text),
               BPE(.vocabulary = 300, .train_fraction = 1, .rows = COPSE_TEXT_LINES), NULL));
    copse_dataset_describe(data, &info);
    assert_int_equal(info.rows, 4);
    OK(copse_text_place(data, 3, &line, &column));
    assert_true(line == 4 && column > 1 && column < 8);
    drop();
}

/* Bytes of the text before token `tokens`. */
static size_t bytes_before(const char *text, size_t size, const copse_schema *schema, size_t tokens)
{
    static int32_t x[MOST_BYTES];
    size_t bytes = 0;

    OK(open_by(text, size, BPE(.vocabulary = 0), schema));
    OK(copse_dataset_gather(data, "x", NULL, tokens, x));
    for (size_t i = 0; i < tokens; i++)
        bytes += copse_text_token(schema, (uint32_t)x[i], NULL);
    return bytes;
}

/* The held-out part begins after the text that the vocabulary was learned from, for any numbers of
   tokens. */
static void the_held_out_part_was_not_learned(void **state)
{
    static char text[MOST_BYTES];
    static struct copse_merge expected[MOST_TOKENS];
    static const struct {
        size_t random, random_end;
        uint32_t stride;
        bool is_moved;
    } cases[] = {
        { 0, 8000, 3, true }, /* bytes without pairs: most tokens are in the first part */
        { 0, 2000, 1, true },
        { 8000, 10000, 1, false }, /* most tokens are in the second part */
    };
    const size_t size = 10000, learned_bytes = 8000;

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        struct copse_text_params how = BPE(.vocabulary = 296);
        struct copse_dataset_info all, a, b;
        make_text(2, text, size);
        for (size_t k = 0; k < size; k++)
            text[k] =
                k >= cases[i].random && k < cases[i].random_end ? text[k] : "abab cdcd"[k % 9];
        const uint32_t n = learn_slowly(text, learned_bytes, 40, expected);
        how.stride = cases[i].stride;
        OK(open_by(text, size, how, NULL));
        assert_int_equal(learned()->merge_count, n);
        for (uint32_t k = 0; k < n; k++)
            assert_true(learned()->merges[k].first == expected[k].first &&
                        learned()->merges[k].second == expected[k].second);
        OK(copse_dataset_split(data, NULL, &train, &held_out));
        copse_dataset_describe(data, &all);
        copse_dataset_describe(train, &a);
        copse_dataset_describe(held_out, &b);
        OK(copse_schema_parse(ctx, copse_schema_text(copse_dataset_schema(data)), &parsed));
        const size_t row = all.rows - b.rows; /* the held-out part is the end */
        const size_t at = bytes_before(text, size, parsed, row * cases[i].stride);
        assert_true(at >= learned_bytes);
        assert_int_equal(at < learned_bytes + 100, cases[i].is_moved); /* then nothing is wasted */
        if (!cases[i].is_moved)
            assert_int_equal(a.rows,
                             (size_t)floor((double)(all.rows - (row - a.rows)) * 0.8 + 0.5));
        copse_schema_release(&parsed);
    }
    drop();
}

/* ---- schemas ---- */

#define SCHEMA(classes, merges)                                                           \
    "{\"version\":1,\"kind\":\"text\",\"task\":\"sequence\",\"input\":{\"type\":\"i32\"," \
    "\"shape\":[3],\"offset\":0,\"scale\":1},"                                            \
    "\"classes\":" classes ",\"numbered\":true,\"tokens\":\"bpe\",\"stride\":1" merges "}"
#define DOUBLED "97,97,256,256,257,257,258,258,259,259,260,260" /* the last one has 64 bytes */

static void wrong_merges_are_refused(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        { SCHEMA("257", ""), "\"merges\" is a field of a text of byte pairs" },
        { SCHEMA("257", ",\"merges\":{\"a\":1,\"b\":2}"),
          "\"merges\" of the schema is not an array of token numbers, two for each merge" },
        { SCHEMA("257", ",\"merges\":[97]"), "two for each merge" },
        { SCHEMA("257", ",\"merges\":[97,98],\"unseen\":[3,3]"),
          "\"unseen\" of the schema is not an array of token numbers" },
        { SCHEMA("257", ",\"merges\":[97,98],\"unseen\":[4,3]"),
          "each larger than the one before" },
        { SCHEMA("257", ",\"merges\":[97,98],\"unseen\":[257]"), "\"unseen\" of the schema" },
        { SCHEMA("257", ",\"merges\":[97,98],\"unseen\":[-1]"), "\"unseen\" of the schema" },
        { SCHEMA("257", ",\"merges\":[97,98],\"unseen\":[1.5]"), "\"unseen\" of the schema" },
        { SCHEMA("257", ",\"merges\":[97,98],\"unseen\":7"), "\"unseen\" of the schema" },
        { SCHEMA("257", ",\"merges\":[97,\"98\"]"), "two for each merge" },
        { SCHEMA("257", ",\"merges\":[97,1.5]"), "two for each merge" },
        { SCHEMA("257", ",\"merges\":[-1,97]"), "two for each merge" },
        { SCHEMA("257", ",\"merges\":[97,65536]"), "two for each merge" },
        { SCHEMA("257", ",\"merges\":[97,1e99]"), "two for each merge" },
        { SCHEMA("257", ",\"merges\":[97,256]"),
          "merge 0 joins the tokens 97 and 256, and there are 256 before it" },
        { SCHEMA("258", ",\"merges\":[257,97,256,97]"), "merge 0 joins the tokens 257 and 97" },
        { SCHEMA("258", ",\"merges\":[97,98,97,98]"), "the merges 0 and 1 join the same tokens" },
        { SCHEMA("258", ",\"merges\":[97,98]"), "are numbered, 256 and one for each merge" },
        { SCHEMA("256", ",\"merges\":[97,98]"), "are numbered, 256 and one for each merge" },
        { SCHEMA("[\"a\",\"b\"]", ",\"merges\":[97,98]"), "are numbered" },
        { SCHEMA("263", ",\"merges\":[" DOUBLED ",261,97]"),
          "merge 6 makes a token of 65 bytes; 64 is the most" },
        { SCHEMA("256", ",\"merges\":[]"),
          "the \"input\" of a text is u8, with more than 256 tokens i32" },
    };

    (void)state;
    OK(copse_schema_parse(ctx, SCHEMA("262", ",\"merges\":[" DOUBLED "]"), &parsed));
    assert_int_equal(copse_text_token(parsed, 261, NULL), 64);
    copse_schema_release(&parsed);
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        const copse_status s = copse_schema_parse(ctx, cases[i].text, &parsed);
        if (s != COPSE_ERR_FORMAT || strstr(copse_last_error(), cases[i].error) == NULL)
            fail_msg("case %zu: %s: %s", i, copse_status_name(s), copse_last_error());
        assert_null(parsed);
    }
}

/* A schema with changed bytes is refused with a text, or it is one that encodes and decodes. */
static void damaged_schemas_are_refused_or_work(void **state)
{
    static char text[MOST_BYTES], damaged[200000], sample[900];
    size_t works = 0, refused = 0;

    (void)state;
    const size_t size = make_text(0, text, 4000);
    OK(open_by(text, size, BPE(.vocabulary = 400), NULL));
    const char *whole = copse_schema_text(copse_dataset_schema(data));
    const size_t length = strlen(whole), merges = (size_t)(strstr(whole, "merges") - whole);
    copse_schema *keep = NULL;
    OK(copse_schema_parse(ctx, whole, &keep));
    for (int round = 0; round < 2000; round++) {
        memcpy(damaged, copse_schema_text(keep), length + 1);
        for (uint32_t i = 0; i <= draw(3); i++) {
            const size_t at =
                draw(4) > 0 ? merges + draw((uint32_t)(length - merges)) : draw((uint32_t)length);
            damaged[at] = draw(2) ? (char)('0' + draw(10)) : "[]{},:\".-e \x80"[draw(12)];
        }
        if (draw(20) == 0)
            damaged[draw((uint32_t)length)] = '\0'; /* cut */
        if (copse_schema_parse(ctx, damaged, &parsed) != COPSE_OK) {
            assert_null(parsed);
            assert_true(strncmp(copse_last_error(), "schema: ", 8) == 0);
            refused++;
            continue;
        }
        struct copse_text_info info;
        OK(copse_text_describe(parsed, &info));
        if (info.tokens == COPSE_TOKENS_BPE && info.context == 1 && info.stride == 1)
            assert_text(sample, make_text(round % 4, sample, 600), parsed);
        works++;
        copse_schema_release(&parsed);
    }
    copse_schema_release(&keep);
    assert_true(works > 100 && refused > 500);
    drop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_and_tokens_are_those_of_counting_all_pairs_anew),
        cmocka_unit_test(small_texts),
        cmocka_unit_test(lines),
        cmocka_unit_test(the_held_out_part_was_not_learned),
        cmocka_unit_test(wrong_merges_are_refused),
        cmocka_unit_test(damaged_schemas_are_refused_or_work),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
