/* SPDX-License-Identifier: MIT */
/* Readers of IDX, .npy and text, plain and gzip: good files, and what must be refused. */
#include <math.h>

#include "copse/data/readers.h"

#include "tests/rig/data/reader_rig.h"

/* The blocks that live now: equal before and after when nothing leaks. */
static size_t live(void)
{
    struct copse_memory_stats stats;

    copse_context_memory(ctx, &stats);
    return stats.live_blocks;
}

/* ---- IDX ---- */

static const unsigned char idx_u8[] = { 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0,
                                        1, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255 };

static void test_idx_plain_and_gzip(void **state)
{
    (void)state;
    for (int gz = 0; gz < 2; gz++) {
        const char *path =
            gz ? temp_gzip("i", idx_u8, sizeof idx_u8) : temp_write("i", idx_u8, sizeof idx_u8);
        OK(copse_read_idx(ctx, path, NULL, &array));
        const struct copse_array_view *v = copse_array_view(array);
        assert_int_equal(v->type, COPSE_U8);
        assert_int_equal(v->rank, 3);
        assert_int_equal(v->shape[0] * 100 + v->shape[1] * 10 + v->shape[2], 213);
        assert_memory_equal(v->data, idx_u8 + 16, 6);
        copse_array_release(&array);
    }
}

static void test_idx_numbers_are_big_endian(void **state)
{
    const unsigned char f32[] = { 0, 0, 0x0d, 1, 0, 0, 0, 2, 0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0 };
    const unsigned char i16[] = { 0, 0, 0x0b, 1, 0, 0, 0, 1, 0xff, 0xfe };

    (void)state;
    OK(copse_read_idx(ctx, temp_write("i", f32, sizeof f32), NULL, &array));
    assert_true(at(array, 0) == 1 && at(array, 1) == -2);
    copse_array_release(&array);
    OK(copse_read_idx(ctx, temp_write("i", i16, sizeof i16), NULL, &array));
    assert_true(at(array, 0) == -2);
    copse_array_release(&array);
}

static copse_status idx(const void *bytes, size_t size)
{
    return copse_read_idx(ctx, temp_write("i", bytes, size), NULL, &array);
}

static void test_idx_bad_headers(void **state)
{
    (void)state;
    assert_error(COPSE_ERR_FORMAT, idx("\1\0\x08\1\0\0\0\1x", 9), "does not begin");
    assert_error(COPSE_ERR_FORMAT, idx("\0\0\x0a\1\0\0\0\1x", 9), "element type 0x0a");
    assert_error(COPSE_ERR_FORMAT, idx("\0\0\x08\0x", 5), "0 axes");
    assert_error(COPSE_ERR_FORMAT, idx("\0\0\x08\xff\0\0\0\1x", 9), "255 axes");
    assert_error(COPSE_ERR_FORMAT, idx("\0\0\x08\1\0\0\0\0", 8), "length 0");
    assert_error(COPSE_ERR_FORMAT, idx("\0\0\x08\1\0\0\0\1xy", 10), "2 bytes after its header");
    assert_error(COPSE_ERR_FORMAT, idx("\0\0\x08\1\xff\xff\xff\xffx", 9), "promises 4294967295");
    assert_error(
        COPSE_ERR_FORMAT,
        idx("\0\0\x0e\4\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 20),
        "more than fits memory");
}

/* ---- gzip ---- */

static void test_every_truncation_is_refused(void **state)
{
    static const char npy[] = "\x93NUMPY\1\0\x39\0" /* length of the header */
                              "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }abc";
    static const char table[] = "1,2,0\n3,4,1\n5,6,2\n7,8,0\n";
    unsigned char packed[3][400];
    const struct {
        const char *name;
        const void *bytes;
        size_t size;
    } files[] = {
        { "t.idx", idx_u8, sizeof idx_u8 },
        { "t.idx.gz", packed[0], temp_deflate(idx_u8, sizeof idx_u8, packed[0], 400) },
        { "t.npy", npy, sizeof npy - 1 },
        { "t.npy.gz", packed[1], temp_deflate(npy, sizeof npy - 1, packed[1], 400) },
        { "t.csv.gz", packed[2], temp_deflate(table, sizeof table - 1, packed[2], 400) },
    };
    size_t before = live();

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(files); i++)
        for (size_t size = 0; size <= files[i].size; size++) {
            const char *path = temp_write(files[i].name, files[i].bytes, size);
            copse_status s = strstr(path, "idx") ? copse_read_idx(ctx, path, NULL, &array)
                             : strstr(path, "npy")
                                 ? copse_read_npy(ctx, path, NULL, &array)
                                 : copse_read_csv(ctx, path, NULL, &array, &labels);
            if (s != (size == files[i].size ? COPSE_OK : COPSE_ERR_FORMAT))
                fail_msg("%s cut to %zu of %zu bytes: %s: %s", files[i].name, size, files[i].size,
                         copse_status_name(s), copse_last_error());
            copse_array_release(&array);
            copse_array_release(&labels);
            assert_int_equal(live(), before);
        }
}

static void test_every_flipped_bit_of_gzip_is_refused_or_harmless(void **state)
{
    unsigned char packed[400];
    size_t size = temp_deflate(idx_u8, sizeof idx_u8, packed, sizeof packed), taken = 0;

    (void)state;
    for (size_t bit = 0; bit < size * 8; bit++) {
        packed[bit / 8] ^= (unsigned char)(1u << bit % 8);
        if (idx(packed, size) == COPSE_OK) {
            /* time stamp, system and hint bits of the gzip header carry no content, nor do the
               bits between the end of the last block and the CRC */
            if (bit / 8 != size - 9)
                assert_in_range(bit / 8, 3, 9);
            assert_memory_equal(copse_array_view(array)->data, idx_u8 + 16, 6);
            copse_array_release(&array);
            taken++;
        }
        packed[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    assert_in_range(taken, 1, 63);
}

static void test_gzip_ends_with_its_first_member(void **state)
{
    unsigned char packed[800];
    size_t size = temp_deflate(idx_u8, sizeof idx_u8, packed, 400);

    (void)state;
    memcpy(packed + size, packed, size);
    assert_error(COPSE_ERR_FORMAT, idx(packed, 2 * size), "more after the end");
    assert_error(COPSE_ERR_FORMAT, idx(packed, size + 1), "more after the end");
}

static void test_gzip_inside_gzip_is_named(void **state)
{
    unsigned char once[400], twice[800];
    size_t size = temp_deflate(idx_u8, sizeof idx_u8, once, sizeof once);

    (void)state;
    size = temp_deflate(once, size, twice, sizeof twice);
    const char *path = temp_write("g", twice, size);
    assert_error(COPSE_ERR_FORMAT, copse_read_idx(ctx, path, NULL, &array), "compressed twice");
    assert_error(COPSE_ERR_FORMAT, copse_read_npy(ctx, path, NULL, &array), "compressed twice");
    assert_error(COPSE_ERR_FORMAT, copse_read_text(ctx, path, NULL, &array), "compressed twice");
    assert_error(COPSE_ERR_FORMAT, copse_read_csv(ctx, path, NULL, &array, &labels),
                 "compressed twice");
}

static void test_bombs_are_refused_before_memory_is_asked_for(void **state)
{
    static unsigned char zeros[1 << 20];
    unsigned char head[] = { 0, 0, 8, 2, 0x40, 0, 0, 0, 0, 0, 0, 64 };
    struct copse_read_params small = { .max_bytes = 100000 };

    (void)state;
    /* a header that promises 64 GiB in a file of a few bytes */
    assert_error(COPSE_ERR_FORMAT,
                 copse_read_idx(ctx, temp_gzip("b", head, sizeof head), NULL, &array),
                 "promises 68719476736 bytes");
    /* more inside than the header says */
    memcpy(zeros, idx_u8, sizeof idx_u8);
    assert_error(COPSE_ERR_FORMAT,
                 copse_read_idx(ctx, temp_gzip("b", zeros, sizeof zeros), NULL, &array),
                 "more bytes than its header says (22)");
    /* more than the caller allows */
    memset(zeros, 'a', sizeof zeros);
    assert_error(COPSE_ERR_FORMAT,
                 copse_read_text(ctx, temp_gzip("b", zeros, sizeof zeros), &small, &array),
                 "more than the limit of 100000 bytes");
    assert_error(COPSE_ERR_FORMAT,
                 copse_read_text(ctx, temp_write("b", zeros, sizeof zeros), &small, &array),
                 "more than the limit 100000");
    memset(zeros, '\n', sizeof zeros);
    assert_error(COPSE_ERR_FORMAT,
                 copse_read_csv(ctx, temp_gzip("b", zeros, sizeof zeros),
                                &(struct copse_csv_params){ .max_bytes = 100000 }, &array, &labels),
                 "more than the limit of 100000 bytes");
}

/* ---- .npy ---- */

static copse_status npy(const char *header, const void *data, size_t size)
{
    char bytes[600] = "\x93NUMPY\1\0";
    size_t n = strlen(header);

    bytes[8] = (char)(n & 255);
    bytes[9] = (char)(n >> 8);
    memcpy(bytes + 10, header, n);
    memcpy(bytes + 10 + n, data, size);
    copse_array_release(&array);
    return copse_read_npy(ctx, temp_write("n.npy", bytes, 10 + n + size), NULL, &array);
}

static void test_npy_types_orders_and_shapes(void **state)
{
    const double f8[] = { 1.5, -2 };
    const uint16_t f2[] = { 0x3c00, 0xc000, 0x0001, 0x7c00 };
    const unsigned char big[] = { 0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff };
    const unsigned char columns[] = { 1, 4, 2, 5, 3, 6 };

    (void)state;
    OK(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 1), }   \n", f8, 16));
    assert_int_equal(copse_array_view(array)->rank, 2);
    assert_true(at(array, 0) == 1.5 && at(array, 1) == -2);
    OK(npy("{'descr': '<f2', 'fortran_order': False, 'shape': (4,), }", f2, 8));
    assert_true(at(array, 0) == 1 && at(array, 1) == -2 && at(array, 2) == ldexp(1, -24));
    assert_true(isinf(at(array, 3)));
    OK(npy("{\"shape\":(2,),\"descr\":\">i4\",\"fortran_order\":False}", big, 8));
    assert_true(at(array, 0) == 256 && at(array, 1) == -1);
    OK(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", columns, 6));
    assert_memory_equal(copse_array_view(array)->data, "\1\2\3\4\5\6", 6);
    OK(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (), }", "\1", 1));
    assert_int_equal(copse_array_view(array)->rank, 0);
    OK(npy("{'descr': '<i8', 'fortran_order': False, 'shape': (0, 5), }", "", 0));
    copse_array_release(&array);
}

static void test_npy_bad_headers(void **state)
{
    static const struct {
        const char *header, *error;
    } cases[] = {
        { "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "holds elements \"|O\"" },
        { "{'descr': '<U5', 'fortran_order': False, 'shape': (1,), }", "holds elements" },
        { "{'descr': '|f4', 'fortran_order': False, 'shape': (1,), }", "holds elements" },
        { "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "is not {descr" },
        { "{'descr': '|u1', 'fortran_order': False, 'shape': (-1,), }", "is not {descr" },
        { "{'descr': '|u1', 'fortran_order': False, 'shape': (1), }", "is not {descr" },
        { "{'descr': '|u1', 'fortran_order': 0, 'shape': (1,), }", "is not {descr" },
        { "{'descr': '|u1', 'fortran_order': False, }", "is not {descr" },
        { "{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (1,)}",
          "is not {descr" },
        { "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), 'x': 1}", "is not {descr" },
        { "{'descr': '|u1', 'fortran_order': False, 'shape': (1,)} + x", "is not {descr" },
        { "{'descr': '|u1', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}",
          "is not {descr" },
        { "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}", "promises 2 bytes" },
        { "{'descr': '|u1', 'fortran_order': False, 'shape': (0,)}",
          "has 1 bytes after its header" },
        { "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296,4294967296)}", "memory" },
        { "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296,0,4294967296)}",
          "memory" },
        { "{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999999,)}",
          "is not" },
        { "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296,)}",
          "promises 34359738368" },
    };

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++)
        assert_error(COPSE_ERR_FORMAT, npy(cases[i].header, "x", 1), cases[i].error);
    assert_error(
        COPSE_ERR_FORMAT,
        copse_read_npy(ctx, temp_write("n", "\x93NUMPY\2\0\xff\xff\xff\x7f", 12), NULL, &array),
        "at most 10000");
    assert_error(COPSE_ERR_FORMAT,
                 copse_read_npy(ctx, temp_write("n", "\x93NUMPY\4\0\1\0\0\0 ", 13), NULL, &array),
                 "version 4.0");
}

/* Every type, in more elements than one chunk of the writer. */
static void test_npy_written_is_what_is_read(void **state)
{
    enum { ROWS = 1500 };
    uint64_t words[2 * ROWS];
    size_t size;

    (void)state;
    for (size_t i = 0; i < 2 * ROWS; i++)
        words[i] = 0x0101010101010101u * (i % 2) + (i % 100) * 0x0001000100010000u;
    for (copse_type type = 0; copse_type_size(type) > 0; type++) {
        const bool is_wider = type == COPSE_BF16; /* as f32 */
        const struct copse_array_view out = {
            .type = type, .rank = 2, .shape = { ROWS, 2 }, .data = words
        };
        OK(copse_write_npy(ctx, temp_path("w.npy"), &out));
        OK(copse_read_npy(ctx, temp_path("w.npy"), NULL, &array));
        const struct copse_array_view *in = copse_array_view(array);
        assert_int_equal(in->type, is_wider ? COPSE_F32 : type);
        assert_int_equal(in->rank, 2);
        assert_int_equal(in->shape[0] * 10 + in->shape[1], 10 * ROWS + 2);
        if (!is_wider)
            assert_memory_equal(in->data, words, 2 * ROWS * copse_type_size(type));
        for (size_t i = 0; is_wider && i < 2 * ROWS; i++)
            assert_true(at(array, i) == copse__type_load(type, words, i));
        copse_array_release(&array);
        free(temp_bytes(temp_path("w.npy"), &size));
        assert_int_equal((size - 2 * ROWS * copse_type_size(is_wider ? COPSE_F32 : type)) % 64, 0);
    }
    struct copse_array_view bad = { .rank = COPSE_ARRAY_MAX_RANK + 1, .data = words };
    FAILS(COPSE_ERR_ARGUMENT, copse_write_npy(ctx, temp_path("bad.npy"), &bad), "rank");
    bad = (struct copse_array_view){ .type = (copse_type)99, .data = words };
    FAILS(COPSE_ERR_ARGUMENT, copse_write_npy(ctx, temp_path("bad.npy"), &bad), "type");
    bad = (struct copse_array_view){ .rank = 0 };
    FAILS(COPSE_ERR_ARGUMENT, copse_write_npy(ctx, temp_path("bad.npy"), &bad), "elements");
    FAILS(COPSE_ERR_IO, copse_read_npy(ctx, temp_path("bad.npy"), NULL, &array), "bad.npy");
}

/* ---- text, and files that are none ---- */

static void test_text_is_utf8(void **state)
{
    size_t size = 300000;
    char *text = malloc(size);

    (void)state;
    memset(text, 'x', size);
    memcpy(text + 299990, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x8c\xb3", 9);
    for (int gz = 0; gz < 2; gz++) {
        const char *path = gz ? temp_gzip("t", text, size) : temp_write("t", text, size);
        OK(copse_read_text(ctx, path, NULL, &array));
        assert_int_equal(copse_array_view(array)->shape[0], size);
        assert_memory_equal(copse_array_view(array)->data, text, size);
        copse_array_release(&array);
    }
    free(text);
    OK(copse_read_text(ctx, temp_text("t", ""), NULL, &array));
    assert_int_equal(copse_array_view(array)->shape[0], 0);
    copse_array_release(&array);

    static const char *const bad[] = {
        "ab\x80", "ab\xc0\xaf", "ab\xe0\x80\x80", "ab\xed\xa0\x80", "ab\xf4\x90\x80\x80",
        "ab\xf5", "ab\xe2\x82", "ab\xc3("
    };
    for (size_t i = 0; i < COPSE_COUNT(bad); i++)
        assert_error(COPSE_ERR_FORMAT, copse_read_text(ctx, temp_text("t", bad[i]), NULL, &array),
                     "invalid UTF-8 at byte 2");
    assert_error(COPSE_ERR_FORMAT, copse_read_text(ctx, temp_write("t", "a\0b", 3), NULL, &array),
                 "a NUL at byte 1");
}

static void test_what_is_no_file_is_refused(void **state)
{
    const char *pipe = temp_path("pipe");

    (void)state;
    assert_error(COPSE_ERR_IO, copse_read_idx(ctx, temp_path("none"), NULL, &array), "none");
    assert_error(COPSE_ERR_IO, copse_read_idx(ctx, temp_folder, NULL, &array),
                 "not a regular file");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_error(COPSE_ERR_IO, copse_read_idx(ctx, pipe, NULL, &array), "not a regular file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idx_plain_and_gzip),
        cmocka_unit_test(test_idx_numbers_are_big_endian),
        cmocka_unit_test(test_idx_bad_headers),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_every_flipped_bit_of_gzip_is_refused_or_harmless),
        cmocka_unit_test(test_gzip_ends_with_its_first_member),
        cmocka_unit_test(test_gzip_inside_gzip_is_named),
        cmocka_unit_test(test_bombs_are_refused_before_memory_is_asked_for),
        cmocka_unit_test(test_npy_types_orders_and_shapes),
        cmocka_unit_test(test_npy_bad_headers),
        cmocka_unit_test(test_npy_written_is_what_is_read),
        cmocka_unit_test(test_text_is_utf8),
        cmocka_unit_test(test_what_is_no_file_is_refused),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
