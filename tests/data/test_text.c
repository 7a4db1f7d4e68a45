/* SPDX-License-Identifier: MIT */
/* Texts as windows of tokens: characters and bytes, the vocabulary in the schema, windows of lines,
   the cut, and texts that are refused. */
#include "copse/data/schema.h"
#include "copse/data/source.h"
#include "copse/data/text.h"

#include "core/base/base.h"
#include "tests/rig/data/reader_rig.h"

static copse_dataset *data, *train, *held_out;
static copse_schema *trained;
static struct copse_dataset_info info;

static void drop(void)
{
    copse_dataset_release(&data);
    copse_dataset_release(&train);
    copse_dataset_release(&held_out);
}

static copse_status open_bytes(const char *text, size_t size, struct copse_text_params how,
                               const copse_schema *schema)
{
    const struct copse_source_params source = { .text = &how };

    drop();
    const copse_status s = copse_text_create(
        ctx, text, size, &(struct copse_dataset_params){ .schema = schema, .source = &source },
        &data);
    copse_dataset_describe(data, &info);
    return s;
}

static copse_status open_text(const char *text, struct copse_text_params how)
{
    return open_bytes(text, strlen(text), how, NULL);
}
#define TEXT(...) ((struct copse_text_params){ __VA_ARGS__ })
#define BYTES     COPSE_TOKENS_BYTES

/* The windows of "x" and "y", as characters of `letters` by token. */
static void assert_row(const char *letters, uint32_t row, const char *x, const char *y)
{
    const size_t length = strlen(x);
    uint8_t tokens[64];
    int32_t behind[64];

    OK(copse_dataset_gather(data, "x", &row, 1, tokens));
    for (size_t i = 0; i < length; i++)
        assert_int_equal(letters[tokens[i]], x[i]);
    if (y == NULL)
        return;
    OK(copse_dataset_gather(data, "y", &row, 1, behind));
    for (size_t i = 0; i < length; i++)
        assert_int_equal(letters[behind[i]], y[i]);
}

/* ---- windows ---- */

static void test_windows(void **state)
{
    struct copse_column column;
    struct copse_text_info about;

    (void)state;
    OK(open_text("abcabdab", TEXT(.context = 3)));
    assert_int_equal(info.rows, 2); /* begin at 0 and 3; at 6 there are too few tokens */
    assert_int_equal(info.columns, 2);
    assert_int_equal(info.classes, 4);
    assert_true(info.has_labels && info.rank == 1 && info.shape[0] == 3 && info.row_size == 3);
    assert_row("abcd", 0, "abc", "bca");
    assert_row("abcd", 1, "abd", "bda");
    OK(copse_dataset_column(data, 0, &column));
    assert_int_equal(column.type, COPSE_U8);
    OK(copse_dataset_column(data, 1, &column));
    assert_int_equal(column.type, COPSE_I32);
    assert_int_equal(column.shape.dims[0], 3);

    OK(open_text("abcabdab", TEXT(.context = 3, .stride = 1)));
    assert_int_equal(info.rows, 5);
    assert_row("abcd", 4, "bda", "dab");
    OK(copse_text_describe(copse_dataset_schema(data), &about));
    assert_true(about.tokens == COPSE_TOKENS_CHARACTERS && about.context == 3 &&
                about.stride == 1 && about.vocabulary == 4);
    OK(open_text("abcabdab", TEXT(.context = 7, .stride = 100)));
    assert_int_equal(info.rows, 1);
    OK(open_text("abcabdab", TEXT(.context = 3, .rows = COPSE_TEXT_END)));
    assert_int_equal(info.rows, 1);
    assert_false(info.has_labels);
    assert_row("abcd", 0, "dab", NULL);

    char long_text[COPSE_TEXT_CONTEXT + 2];
    memset(long_text, 'a', sizeof long_text);
    OK(open_bytes(long_text, sizeof long_text - 1, TEXT(.context = 0), NULL)); /* the default */
    assert_int_equal(info.shape[0], COPSE_TEXT_CONTEXT);
}

/* A window before the end of each line that ends late enough. */
static void test_windows_of_lines(void **state)
{
    static const struct {
        const char *text;
        size_t rows;
        const char *row[3];
        uint64_t line[3], column[3];
    } cases[] = {
        { "a\nbcd\ncb\n", 2, { "bcd", "\ncb" }, { 2, 3 }, { 4, 3 } },
        { "abcd", 1, { "bcd" }, { 1 }, { 5 } },
        { "abc\n\nd", 3, { "abc", "bc\n", "\n\nd" }, { 1, 2, 3 }, { 4, 1, 2 } },
        { "abc\r\nd", 2, { "abc", "c\nd" }, { 1, 2 }, { 4, 2 } },
    };
    uint64_t line, column;

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        OK(open_text(cases[i].text, TEXT(.context = 3, .rows = COPSE_TEXT_LINES)));
        assert_int_equal(info.rows, cases[i].rows);
        for (uint32_t k = 0; k < cases[i].rows; k++) {
            assert_row(i == 1 ? "abcd" : "\nabcd", k, cases[i].row[k], NULL);
            OK(copse_text_place(data, k, &line, &column));
            assert_int_equal(line, cases[i].line[k]);
            assert_int_equal(column, cases[i].column[k]);
        }
    }
    FAILS(COPSE_ERR_SHAPE, open_text("a\nb\n\nc\n", TEXT(.context = 7, .rows = COPSE_TEXT_LINES)),
          "no line ends after 7 characters");
    OK(open_text("ab\ncd\nef", TEXT(.context = 2, .stride = 1)));
    OK(copse_text_place(data, 2, &line, &column)); /* of the token behind: "d" */
    assert_true(line == 2 && column == 2);
    FAILS(COPSE_ERR_ARGUMENT, copse_text_place(data, 6, &line, &column), "no row 6");
}

/* With takes_short: a window of what there is, with its length. */
static void test_short_ends(void **state)
{
    static const struct {
        copse_text_rows which;
        const char *text;
        size_t rows;
        const char *row[3];
        uint64_t line[3], column[3];
    } cases[] = {
        { COPSE_TEXT_END, "ab", 1, { "ab" }, { 1 }, { 3 } },
        { COPSE_TEXT_END, "cdba", 1, { "dba" }, { 1 }, { 5 } },
        { COPSE_TEXT_END, "\n", 1, { "\n" }, { 2 }, { 1 } },
        { COPSE_TEXT_LINES, "a\nbcd\n\nb", 4, { "a", "bcd", "cd\n" }, { 1, 2, 3 }, { 2, 4, 1 } },
        { COPSE_TEXT_LINES, "\nd", 1, { "\nd" }, { 2 }, { 2 } },
    };
    const char *letters = "\nabcd";
    copse_schema *schema = NULL;
    uint64_t line, column;
    uint8_t x[3];
    int32_t length;

    (void)state;
    OK(open_text("\nabcd", TEXT(.context = 3)));
    OK(copse_schema_parse(ctx, copse_schema_text(copse_dataset_schema(data)), &schema));
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        const struct copse_text_params how = { .rows = cases[i].which, .takes_short = true };
        OK(open_bytes(cases[i].text, strlen(cases[i].text), how, schema));
        assert_int_equal(info.rows, cases[i].rows);
        for (uint32_t k = 0; k < cases[i].rows && k < 3; k++) {
            OK(copse_dataset_gather(data, "x", &k, 1, x));
            OK(copse_dataset_gather(data, "length", &k, 1, &length));
            assert_int_equal(length, strlen(cases[i].row[k]));
            for (int32_t c = 0; c < 3; c++)
                assert_int_equal(c < length ? letters[x[c]] : x[c],
                                 c < length ? cases[i].row[k][c] : 0);
            OK(copse_text_place(data, k, &line, &column));
            assert_int_equal(line, cases[i].line[k]);
            assert_int_equal(column, cases[i].column[k]);
        }
    }
    FAILS(COPSE_ERR_SHAPE,
          open_bytes("\n", 1, TEXT(.rows = COPSE_TEXT_LINES, .takes_short = true), schema),
          "all lines are empty");
    FAILS(COPSE_ERR_SHAPE, open_bytes("ab", 2, TEXT(.rows = COPSE_TEXT_END), schema),
          "has 2 characters; a window of 3 needs 3");
    FAILS(COPSE_ERR_ARGUMENT, open_bytes("abcd", 4, TEXT(.takes_short = true), schema),
          "takes_short belongs to the ends of a text");
    copse_schema_release(&schema);
}

/* ---- the vocabulary ---- */

static void test_characters_are_sorted_by_code_point(void **state)
{
    static const char *const expected[] = {
        "\n", "A", "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8c\xb3"
    };
    int32_t ids[20], next;
    uint8_t first[10];
    const uint32_t row = 0;

    (void)state;
    /* a byte order mark is left out, CR LF is LF */
    OK(open_text("\xef\xbb\xbf\xf0\x9f\x8c\xb3"
                 "a\xc3\xa9\r\n\xe2\x82\xac"
                 "Aa",
                 TEXT(.context = 6)));
    assert_int_equal(info.classes, 6);
    for (uint32_t i = 0; i < 6; i++)
        assert_string_equal(copse_schema_class(copse_dataset_schema(data), i), expected[i]);
    OK(copse_dataset_gather(data, "x", &row, 1, first));
    assert_memory_equal(first, ((uint8_t[]){ 5, 2, 3, 0, 4, 1 }), 6);
    /* a carriage return alone, and one at the end, are characters */
    OK(open_text("a\rb\r", TEXT(.context = 3)));
    assert_int_equal(info.classes, 3);
    /* more than 256 characters are 32 bits */
    char text[2000];
    size_t used = 0;
    for (int i = 0; i < 300; i++) {
        text[used++] = (char)(0xc4 + i / 64);
        text[used++] = (char)(0x80 + i % 64);
    }
    OK(open_bytes(text, used, TEXT(.context = 4, .stride = 299 - 4), NULL));
    assert_int_equal(info.classes, 300);
    assert_int_equal(info.rows, 2);
    OK(copse_dataset_gather(data, "x", NULL, 2, ids));
    assert_true(ids[0] == 0 && ids[3] == 3 && ids[4] == 295 && ids[7] == 298);
    OK(copse_dataset_gather(data, "y", NULL, 1, ids));
    next = ids[3];
    assert_int_equal(next, 4);
}

static void test_bytes(void **state)
{
    static const char raw[] = "\xff\0a\r\n\xfe";
    uint8_t x[5];
    int32_t y[5];

    (void)state;
    OK(open_bytes(raw, 6, TEXT(.tokens = BYTES, .context = 5), NULL));
    assert_int_equal(info.classes, 256);
    OK(copse_dataset_gather(data, "x", NULL, 1, x));
    OK(copse_dataset_gather(data, "y", NULL, 1, y));
    assert_memory_equal(x, raw, 5);
    assert_true(y[0] == 0 && y[1] == 'a' && y[4] == 0xfe);
    assert_string_equal(copse_schema_class(copse_dataset_schema(data), 255), "255");
}

/* ---- files, and schemas ---- */

static void test_a_file_by_the_schema(void **state)
{
    static const struct copse_text_params how = { .context = 3, .stride = 2 };
    const struct copse_source_params source = { .text = &how };
    struct copse_schema_info about;

    (void)state;
    drop();
    OK(copse_dataset_open(ctx, temp_text("a.txt", "cabbac"),
                          &(struct copse_dataset_params){ .source = &source }, &data));
    copse_dataset_describe(data, &info);
    assert_int_equal(info.rows, 2);
    OK(copse_schema_describe(copse_dataset_schema(data), &about));
    assert_true(about.kind == COPSE_DATA_TEXT && about.task == COPSE_TASK_SEQUENCE &&
                about.outputs == 3);
    assert_non_null(strstr(copse_schema_text(copse_dataset_schema(data)),
                           "\"tokens\":\"characters\",\"stride\":2"));
    OK(copse_schema_parse(ctx, copse_schema_text(copse_dataset_schema(data)), &trained));
    assert_string_equal(copse_schema_text(trained), copse_schema_text(copse_dataset_schema(data)));
    /* The schema alone makes it a text; it has the tokens, the window and the stride. */
    drop();
    OK(copse_dataset_open(ctx, temp_text("b.txt", "ccccccca"),
                          &(struct copse_dataset_params){ .schema = trained }, &data));
    copse_dataset_describe(data, &info);
    assert_int_equal(info.rows, 3);
    assert_row("abc", 2, "ccc", "cca");
    drop();
    FAILS(COPSE_ERR_FORMAT,
          copse_dataset_open(ctx, temp_text("c.txt", "cab\nad\xc3\xa9"),
                             &(struct copse_dataset_params){ .schema = trained }, &data),
          "c.txt: line 1, column 4: the character \"?\" (U+000A) is none of the 3 of the training "
          "text");
    FAILS(COPSE_ERR_FORMAT, open_bytes("cab\xc3\xa9", 5, how, trained),
          "the text: line 1, column 4: the character \"\xc3\xa9\" (U+00E9) is none of the 3");
    FAILS(COPSE_ERR_IO,
          copse_dataset_open(ctx, temp_path("none.txt"),
                             &(struct copse_dataset_params){ .source = &source }, &data),
          "none.txt");
    OK(open_bytes("cabcab", 6, TEXT(.stride = 1), trained)); /* another stride */
    assert_int_equal(info.rows, 3);
    copse_schema_release(&trained);
}

/* ---- the cut ---- */

/* Parts are the beginning and the end, and share no token. */
static void test_parts_do_not_overlap(void **state)
{
    static const struct {
        uint32_t context, stride;
        size_t train, held_out;
    } cases[] = { { 4, 1, 74, 18 }, { 4, 4, 18, 5 },  { 4, 3, 25, 6 },
                  { 4, 5, 16, 4 },  { 1, 1, 78, 20 }, { 30, 60, 1, 1 } };
    char text[100];
    int32_t y[64];
    uint8_t x[64];

    (void)state;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)i;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        const uint32_t length = cases[i].context;
        OK(open_bytes(text, sizeof text,
                      TEXT(.tokens = BYTES, .context = length, .stride = cases[i].stride), NULL));
        OK(copse_dataset_split(
            data, &(struct copse_split_params){ .seed = 7, .train_fraction = i == 5 ? 0.5 : 0 },
            &train, &held_out));
        struct copse_dataset_info a, b;
        copse_dataset_describe(train, &a);
        copse_dataset_describe(held_out, &b);
        if (a.rows != cases[i].train || b.rows != cases[i].held_out)
            fail_msg("case %zu: %zu and %zu rows", i, a.rows, b.rows);
        const uint32_t last = (uint32_t)a.rows - 1, first = 0;
        OK(copse_dataset_gather(train, "y", &last, 1, y));
        OK(copse_dataset_gather(held_out, "x", &first, 1, x));
        assert_true(y[length - 1] < x[0]);                         /* nothing shared */
        assert_true(x[0] - y[length - 1] <= (int)cases[i].stride); /* nothing wasted */
        OK(copse_dataset_gather(train, "x", &first, 1, x));
        assert_int_equal(x[0], 0);
        /* a part is cut likewise */
        if (a.rows > 20) {
            copse_dataset *one, *two;
            OK(copse_dataset_split(train, NULL, &one, &two));
            OK(copse_dataset_gather(one, "x", &first, 1, x));
            assert_int_equal(x[0], 0);
            copse_dataset_release(&one);
            copse_dataset_release(&two);
        }
    }
    OK(open_bytes(text, 12, TEXT(.tokens = BYTES, .context = 6, .stride = 1), NULL));
    FAILS(COPSE_ERR_ARGUMENT, copse_dataset_split(data, NULL, &train, &held_out),
          "6 rows cannot be split at 0.8");
}

/* ---- hostile texts ---- */

static void test_hostile_texts(void **state)
{
    static const struct {
        const char *text;
        size_t size;
        struct copse_text_params how;
        copse_status code;
        const char *error;
    } cases[] = {
        { "", 0, { .context = 2 }, COPSE_ERR_FORMAT, "is empty" },
        { "", 0, { .context = 2, .tokens = BYTES }, COPSE_ERR_FORMAT, "is empty" },
        { "\xef\xbb\xbf", 3, { .context = 2 }, COPSE_ERR_FORMAT, "is empty" },
        { "a",
          1,
          { .context = 1 },
          COPSE_ERR_SHAPE,
          "has 1 characters; a window of 1 and the one after it needs 2" },
        { "abc",
          3,
          { .context = 3, .tokens = BYTES },
          COPSE_ERR_SHAPE,
          "has 3 bytes; a window of 3 and the one after it needs 4" },
        { "abc", 3, { .context = 0 }, COPSE_ERR_SHAPE, "a window of 16" },
        { "ab\r\n",
          4,
          { .context = 4, .rows = COPSE_TEXT_END },
          COPSE_ERR_SHAPE,
          "has 3 characters; a window of 4 needs 4" },
        { "ab\ncd\0e",
          7,
          { .context = 2 },
          COPSE_ERR_FORMAT,
          "line 2, column 3 (byte 5): a NUL; bytes (--tokens bytes) can be any file" },
        { "ab\n\x80",
          4,
          { .context = 2 },
          COPSE_ERR_FORMAT,
          "line 2, column 1 (byte 3): invalid UTF-8: a byte that continues no character" },
        { "\xc3\xa9\xff",
          3,
          { .context = 2 },
          COPSE_ERR_FORMAT,
          "line 1, column 2 (byte 2): invalid UTF-8: a byte that begins no character" },
        { "a\xc0\xaf",
          3,
          { .context = 2 },
          COPSE_ERR_FORMAT,
          "column 2 (byte 1): invalid UTF-8: a character written with more bytes" },
        { "a\xe0\x80\xaf",
          4,
          { .context = 2 },
          COPSE_ERR_FORMAT,
          "column 2 (byte 1): invalid UTF-8: a character written with more bytes" },
        { "a\xf0\x80\x80\xaf",
          5,
          { .context = 2 },
          COPSE_ERR_FORMAT,
          "(byte 1): invalid UTF-8: a character written with more bytes" },
        { "a\xed\xa0\x80",
          4,
          { .context = 2 },
          COPSE_ERR_FORMAT,
          "column 2 (byte 1): invalid UTF-8: a surrogate" },
        { "a\xed\xbf\xbf",
          4,
          { .context = 2 },
          COPSE_ERR_FORMAT,
          "column 2 (byte 1): invalid UTF-8: a surrogate" },
        { "a\xf4\x90\x80\x80",
          5,
          { .context = 2 },
          COPSE_ERR_FORMAT,
          "(byte 1): invalid UTF-8: a character above U+10FFFF" },
        { "a\xf5\x80\x80\x80",
          5,
          { .context = 2 },
          COPSE_ERR_FORMAT,
          "(byte 1): invalid UTF-8: a character above U+10FFFF" },
        { "ab\xc3",
          3,
          { .context = 1 },
          COPSE_ERR_FORMAT,
          "column 3 (byte 2): invalid UTF-8: the text ends inside a character" },
        { "ab\xe2\x82",
          4,
          { .context = 1 },
          COPSE_ERR_FORMAT,
          "column 3 (byte 2): invalid UTF-8: the text ends inside a character" },
        { "a\xe2\x82z",
          4,
          { .context = 1 },
          COPSE_ERR_FORMAT,
          "column 2 (byte 1): invalid UTF-8: a character that is not complete" },
        { "\xef\xbb\xbfx\xff", 5, { .context = 1 }, COPSE_ERR_FORMAT, "line 1, column 2 (byte 4)" },
        { "abc",
          3,
          { .context = 1u << 31 },
          COPSE_ERR_ARGUMENT,
          "context or stride is above 2^31-1" },
        { "abc",
          3,
          { .stride = UINT32_MAX },
          COPSE_ERR_ARGUMENT,
          "context or stride is above 2^31-1" },
        { "abc",
          3,
          { .context = 1, .tokens = (copse_tokens)3 },
          COPSE_ERR_ARGUMENT,
          "tokens or rows out of range" },
        { "abc",
          3,
          { .context = 1, .rows = (copse_text_rows)3 },
          COPSE_ERR_ARGUMENT,
          "tokens or rows out of range" },
    };

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        const copse_status s = open_bytes(cases[i].text, cases[i].size, cases[i].how, NULL);
        if (s != cases[i].code || strstr(copse_last_error(), cases[i].error) == NULL)
            fail_msg("case %zu: %s: %s", i, copse_status_name(s), copse_last_error());
        assert_null(data);
    }
}

/* Settings of tables, a schema of other data, too many characters. */
static void test_hostile_settings(void **state)
{
    static const struct copse_text_params how = { .context = 1 };
    const struct copse_source_params source = { .text = &how };
    const struct copse_dataset_params cases[] = {
        { .source = &source, .labels = "l" },
        { .source = &source, .classes = 2 },
        { .source = &source, .scale = COPSE_SCALE_MAX },
        { .source = &source, .ignore = "a" },
        { .source = &source, .missing = COPSE_MISSING_MEAN },
        { .source = &source, .csv = { .label_name = "a" } },
        { .source = &source, .csv = { .label_column = 1 } },
        { .source = &source, .csv = { .header = COPSE_CSV_HEADER_NO } },
        { .source = &source, .task = COPSE_TASK_REGRESSION },
    };
    const size_t size = 4 * (size_t)70000;
    char *many = malloc(size);
    const float rows[] = { 1, 2 };
    const struct copse_array_view x = { COPSE_F32, 2, { 2, 1 }, rows };

    (void)state;
    drop();
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        FAILS(COPSE_ERR_ARGUMENT, copse_text_create(ctx, "abcd", 4, &cases[i], &data), "text: ");
        assert_null(data);
    }
    for (uint32_t i = 0; i < 70000; i++) { /* U+10000 and above */
        many[4 * i] = (char)0xf0;
        many[4 * i + 1] = (char)(0x90 + (i >> 12));
        many[4 * i + 2] = (char)(0x80 + (i >> 6 & 63));
        many[4 * i + 3] = (char)(0x80 + (i & 63));
    }
    FAILS(COPSE_ERR_FORMAT, open_bytes(many, size, how, NULL),
          "line 1, column 65537: there are more than 65536 different characters");
    OK(open_bytes(many, 4 * (size_t)65536, how, NULL));
    free(many);
    drop();
    OK(copse_dataset_create(ctx, &x, NULL, NULL, &data));
    FAILS(COPSE_ERR_ARGUMENT, copse_text_place(data, 0, NULL, NULL), "not of a text");
    FAILS(
        COPSE_ERR_ARGUMENT,
        copse_text_describe(copse_dataset_schema(data), &(struct copse_text_info){ .context = 0 }),
        "the schema is not of a text");
    OK(copse_schema_parse(ctx, copse_schema_text(copse_dataset_schema(data)), &trained));
    drop();
    FAILS(COPSE_ERR_SHAPE,
          copse_text_create(ctx, "abc", 3, &(struct copse_dataset_params){ .schema = trained },
                            &data),
          "the model was not trained on one");
    copse_schema_release(&trained);
}

/* ---- schemas that are refused ---- */

#define SCHEMA                                                                                     \
    "{\"version\":1,\"kind\":\"text\",\"task\":\"sequence\",\"input\":{\"type\":\"u8\",\"shape\":" \
    "[3],\"offset\":0,\"scale\":1},"                                                               \
    "\"classes\":[\"a\",\"b\",\"\xc3\xa9\"],\"numbered\":false,\"tokens\":\"characters\","         \
    "\"stride\":1}"

static void test_wrong_schemas_are_refused(void **state)
{
    static const struct {
        const char *from, *to, *error;
    } cases[] = {
        { "\"sequence\"", "\"classification\"", "a text has the task \"sequence\"" },
        { "[3]", "[3,1]", "an \"input\" of one axis" },
        { "\"offset\":0", "\"offset\":1", "without offset and scale" },
        { "\"u8\"", "\"f32\"", "the \"input\" of a text is u8" },
        { "\"u8\"", "\"i32\"", "the \"input\" of a text is u8" },
        { "\"a\",\"b\"", "\"b\",\"a\"",
          "the class 2 of a text of characters is not one character, above the one before" },
        { "\"a\",", "\"\",", "the class 1 of a text of characters is not one character" },
        { "\"a\",", "\"aa\",", "the class 1 of a text of characters is not one character" },
        { "[\"a\",\"b\",\"\xc3\xa9\"]", "3", "are an array" },
        { "false", "true", "not numbered" },
        { ",\"stride\":1", "", "a text has the fields \"tokens\" and \"stride\"" },
        { "\"stride\":1", "\"stride\":0", "\"stride\" of the schema is not a whole number from 1" },
        { "characters", "words", "\"tokens\" of the schema is not one of characters, bytes" },
        { "characters", "bytes", "are 256, numbered" },
        { "\"text\"", "\"array\"",
          "a text has the fields \"tokens\" and \"stride\", and no other kind has them" },
    };
    char text[600];

    (void)state;
    OK(copse_schema_parse(ctx, SCHEMA, &trained));
    copse_schema_release(&trained);
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        const char *at = strstr(SCHEMA, cases[i].from);
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - SCHEMA), SCHEMA, cases[i].to,
                 at + strlen(cases[i].from));
        FAILS(COPSE_ERR_FORMAT, copse_schema_parse(ctx, text, &trained), cases[i].error);
        assert_null(trained);
    }
}

static int finish(void **state)
{
    drop();
    return end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_windows_of_lines),
        cmocka_unit_test(test_short_ends),
        cmocka_unit_test(test_characters_are_sorted_by_code_point),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_a_file_by_the_schema),
        cmocka_unit_test(test_parts_do_not_overlap),
        cmocka_unit_test(test_hostile_texts),
        cmocka_unit_test(test_hostile_settings),
        cmocka_unit_test(test_wrong_schemas_are_refused),
    };

    return cmocka_run_group_tests(tests, begin, finish);
}
