/* SPDX-License-Identifier: MIT */
/* The schema of datasets, its text, and what the parser of the text refuses. */
#include <math.h>

#include "copse/data/schema.h"

#include "core/base/base.h"
#include "tests/rig/data/reader_rig.h"

static copse_dataset *data;
static copse_schema *parsed;

static const copse_schema *open_table(const char *text, const struct copse_dataset_params *params)
{
    copse_dataset_release(&data);
    OK(copse_dataset_open(ctx, temp_text("t.csv", text), params, &data));
    return copse_dataset_schema(data);
}

static const char mixed[] = "id,width,colour,species\n"
                            "7,1.5,red,setosa\n"
                            "8,2.5,blue,virginica\n"
                            "9,3.5,red,setosa\n";

static void test_schema_of_a_table(void **state)
{
    const copse_schema *s = open_table(mixed, &(struct copse_dataset_params){ .ignore = "id" });
    struct copse_schema_info info;
    struct copse_schema_column c;
    const char *name;
    double mean, scale;

    (void)state;
    OK(copse_schema_describe(s, &info));
    assert_int_equal(info.kind, COPSE_DATA_TABLE);
    assert_int_equal(info.task, COPSE_TASK_CLASSIFICATION);
    assert_int_equal(info.type, COPSE_F32);
    assert_int_equal(info.shape.rank, 1);
    assert_int_equal(info.shape.dims[0], 3);
    assert_int_equal(info.outputs, 2);
    assert_int_equal(info.columns, 4);
    assert_true(info.input_offset == 0 && info.input_scale == 1);
    assert_string_equal(copse_schema_class(s, 0), "setosa");
    assert_string_equal(copse_schema_class(s, 1), "virginica");
    assert_null(copse_schema_class(s, 2));
    OK(copse_schema_column(s, 0, &c));
    assert_int_equal(c.role, COPSE_COLUMN_IGNORED);
    assert_int_equal(c.width, 0);
    OK(copse_schema_column(s, 1, &c));
    assert_string_equal(c.name, "width");
    assert_int_equal(c.role, COPSE_COLUMN_NUMBER);
    assert_int_equal(c.first, 0);
    assert_int_equal(c.width, 1);
    assert_true(c.mean == 2.5 && c.fill == 2.5 && fabs(c.scale - sqrt(2.0 / 3)) < 1e-15);
    OK(copse_schema_column(s, 2, &c));
    assert_int_equal(c.role, COPSE_COLUMN_CATEGORY);
    assert_int_equal(c.first, 1);
    assert_int_equal(c.width, 2);
    assert_string_equal(c.categories[0], "blue");
    assert_string_equal(c.categories[1], "red");
    assert_false(c.has_missing);
    OK(copse_schema_column(s, 3, &c));
    assert_int_equal(c.role, COPSE_COLUMN_LABEL);
    FAILS(COPSE_ERR_ARGUMENT, copse_schema_column(s, 4, &c), "no column 4 of 4");
    FAILS(COPSE_ERR_ARGUMENT, copse_schema_target(s, 0, &name, &mean, &scale), "no target 0 of 0");
}

static void test_text_is_read_back(void **state)
{
    const struct copse_dataset_params keep = { .missing = COPSE_MISSING_MEAN };
    const float rows[] = { 1, 2, 3, 5 }, values[] = { 0.5f, -3 };
    const struct copse_array_view x = { COPSE_F32, 3, { 2, 1, 2 }, rows };
    const struct copse_array_view y = { COPSE_F32, 1, { 2 }, values };
    const struct copse_dataset_params standard = { .scale = COPSE_SCALE_STANDARD };

    (void)state;
    for (int i = 0; i < 5; i++) {
        if (i == 0)
            open_table(mixed, NULL);
        if (i == 1)
            open_table("a;b\n1;2.5\n;3.25\n2;-1\n", &keep);
        if (i == 2)
            open_table("x,y,-1\nx,,3\n?,z,4\n", &keep); /* without a header */
        if (i == 3 || i == 4) {
            copse_dataset_release(&data);
            OK(copse_dataset_create(ctx, &x, &y, i == 3 ? NULL : &standard, &data));
        }
        const copse_schema *s = copse_dataset_schema(data);
        OK(copse_schema_parse(ctx, copse_schema_text(s), &parsed));
        assert_string_equal(copse_schema_text(parsed), copse_schema_text(s));
        copse_schema_release(&parsed);
    }
}

#define TABLE                                                                                    \
    "{\"version\":1,\"kind\":\"table\",\"task\":\"classification\",\"input\":{\"type\":\"f32\"," \
    "\"shape\":[2],"                                                                             \
    "\"offset\":0,\"scale\":1},\"classes\":[\"a\",\"b\"],\"numbered\":false,\"header\":true,"    \
    "\"missing\":\"refuse\",\"columns\":[{\"name\":\"n\",\"role\":\"number\",\"mean\":1,"        \
    "\"scale\":2,\"fill\":1},"                                                                   \
    "{\"name\":\"c\",\"role\":\"category\",\"categories\":[\"p\"]},{\"name\":\"l\",\"role\":"    \
    "\"label\"}]}"

/* TABLE with `from` replaced by `to`. */
static const char *changed(const char *from, const char *to)
{
    static char text[2000];
    const char *at = strstr(TABLE, from);

    if (at == NULL)
        fail_msg("'%s' is not in the text", from);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - TABLE), TABLE, to, at + strlen(from));
    return text;
}

static void test_wrong_texts_are_refused(void **state)
{
    static const struct {
        const char *from, *to;
        copse_status code;
        const char *error;
    } cases[] = {
        { "{\"version\":1", "{\"version\":4,\"new\":1", COPSE_ERR_UNSUPPORTED, "it has version 4" },
        { "{\"version\":1,", "{", COPSE_ERR_FORMAT,
          "\"version\" of the schema is not a whole number" },
        { "{\"version\":1,", "{\"version\":1,\"colour\":3,", COPSE_ERR_UNSUPPORTED,
          "the unknown field \"colour\"" },
        { "\"header\":true", "\"header\":true,\"header\":true", COPSE_ERR_FORMAT,
          "\"header\" of the schema is there twice" },
        { "\"table\"", "\"tables\"", COPSE_ERR_FORMAT,
          "\"kind\" of the schema is not one of array, table" },
        { "\"f32\"", "\"f64\"", COPSE_ERR_FORMAT, "\"type\" of input is not one of f32, u8" },
        { "[2]", "[3]", COPSE_ERR_FORMAT, "the columns make f32 [2]" },
        { "[2]", "[0]", COPSE_ERR_FORMAT, "\"shape\" of input" },
        { "[2]", "2", COPSE_ERR_FORMAT, "\"shape\" of input" },
        { "\"scale\":2", "\"scale\":0", COPSE_ERR_FORMAT,
          "\"scale\" of column 1 is not greater than 0" },
        { "\"scale\":2", "\"scale\":1e999", COPSE_ERR_FORMAT, "\"scale\" of column 1" },
        { "\"mean\":1,", "", COPSE_ERR_FORMAT, "column 1: the role \"number\"" },
        { "[\"p\"]", "[]", COPSE_ERR_FORMAT, "\"categories\" of column 2" },
        { "[\"p\"]", "[\"\",\"p\"]", COPSE_ERR_FORMAT, "\"categories\" of column 2 is not sorted" },
        { "[\"p\"]", "[\"p\",\"p\"]", COPSE_ERR_FORMAT,
          "\"p\" is in the field \"categories\" of column 2 twice" },
        { "\"role\":\"label\"", "\"role\":\"ignored\",\"width\":1", COPSE_ERR_UNSUPPORTED,
          "column 3 has the unknown field" },
        { "\"role\":\"category\",\"categories\":[\"p\"]", "\"role\":\"label\"", COPSE_ERR_FORMAT,
          "" },
        { "[\"a\",\"b\"]", "0", COPSE_ERR_FORMAT, "\"classes\" of the schema" },
        { "[\"a\",\"b\"]", "[\"a\",\"a\"]", COPSE_ERR_FORMAT, "twice" },
        { "\"classification\"", "\"regression\"", COPSE_ERR_FORMAT, "the task is regression" },
        { "\"numbered\":false", "\"numbered\":0", COPSE_ERR_FORMAT,
          "\"numbered\" of the schema is not true or false" },
        { "}]}", "}]", COPSE_ERR_FORMAT, "it is not JSON" },
        { "}]}", "}]} x", COPSE_ERR_FORMAT, "it is not JSON" },
        { "\"n\"", "\"\xff\"", COPSE_ERR_FORMAT, "invalid UTF-8" },
    };

    (void)state;
    OK(copse_schema_parse(ctx, TABLE, &parsed));
    copse_schema_release(&parsed);
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        FAILS(cases[i].code, copse_schema_parse(ctx, changed(cases[i].from, cases[i].to), &parsed),
              cases[i].error);
        assert_null(parsed);
    }
    FAILS(COPSE_ERR_FORMAT, copse_schema_parse(ctx, "", &parsed), "not JSON");
    FAILS(COPSE_ERR_FORMAT, copse_schema_parse(ctx, "[]", &parsed), "the schema is not an object");
}

/* Changes of valid texts are refused or give a schema; nothing crashes or leaks. */
static void test_damaged_texts(void **state)
{
    static const char bytes[] = "0123456789{}[]\",:-.e\\atnul ";
    struct copse_memory_stats before, after;
    uint32_t random = 2463534242u;
    char text[sizeof TABLE];

    (void)state;
    copse_context_memory(ctx, &before);
    for (int i = 0; i < 20000; i++) {
        memcpy(text, TABLE, sizeof text);
        for (int n = 0; n < 3; n++) {
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            text[random % (sizeof text - 1)] = bytes[random / sizeof text % (sizeof bytes - 1)];
        }
        const copse_status s = copse_schema_parse(ctx, text, &parsed);
        if (s != COPSE_OK && s != COPSE_ERR_FORMAT && s != COPSE_ERR_UNSUPPORTED)
            fail_msg("%s: %s: %s", text, copse_status_name(s), copse_last_error());
        copse_schema_release(&parsed);
    }
    copse_context_memory(ctx, &after);
    assert_int_equal(before.live_blocks, after.live_blocks);
}

static int finish(void **state)
{
    copse_dataset_release(&data);
    return end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schema_of_a_table),
        cmocka_unit_test(test_text_is_read_back),
        cmocka_unit_test(test_wrong_texts_are_refused),
        cmocka_unit_test(test_damaged_texts),
    };

    return cmocka_run_group_tests(tests, begin, finish);
}
