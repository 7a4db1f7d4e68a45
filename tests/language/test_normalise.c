/* SPDX-License-Identifier: MIT */
/* Texts in the form NFC: what UAX #15 and the tables of Unicode say; the form of the form is itself. */
#include "tests/rig/rig.h"

#include "core/language/normalise.h"

static void *resize(void *user, void *block, size_t size)
{
    (void)user;
    if (size > 0)
        return realloc(block, size);
    free(block);
    return NULL;
}
static struct copse_mem mem = { .resize = resize };

static char *form_of_text(const char *text, size_t size, size_t *out)
{
    char *form;
    assert_true(copse__normalise(&mem, text, size, &form, out));
    return form;
}

static void assert_form(const char *text, size_t size, const char *wanted, size_t wanted_size)
{
    size_t n, m;
    char *form = form_of_text(text, size, &n);
    const char *is = form ? form : text;
    if (n != wanted_size || memcmp(is, wanted, n) != 0)
        fail_msg("%s: %zu bytes, %.*s; wanted %zu, %s", text, n, (int)n, is, wanted_size, wanted);
    char *again = form_of_text(is, n, &m);
    assert_true(m == n && (!again || memcmp(again, is, n) == 0));
    copse__free(&mem, again);
    copse__free(&mem, form);
}
#define FORM(text, wanted) assert_form(text, sizeof(text) - 1, wanted, sizeof(wanted) - 1)

static void test_forms(void **state)
{
    (void)state;
    FORM("", "");
    FORM("plain \xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x99\x82",
         "plain \xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x99\x82");
    FORM("e\xcc\x81 a\xcc\x8a", "\xc3\xa9 \xc3\xa5");       /* e and an acute, a and a ring */
    FORM("\xe2\x84\xab \xe2\x84\xa6", "\xc3\x85 \xce\xa9"); /* Angstrom, Ohm */
    /* a dot above and one below in either order: the mark below comes first */
    FORM("s\xcc\x87\xcc\xa3", "\xe1\xb9\xa9");
    FORM("s\xcc\xa3\xcc\x87", "\xe1\xb9\xa9");
    FORM("\xe1\xba\x9b\xcc\xa3", "\xe1\xba\x9b\xcc\xa3");
    FORM("q\xcc\x87\xcc\xa3", "q\xcc\xa3\xcc\x87");
    /* marks of one order keep theirs, and hide each other */
    FORM("a\xcc\x88\xcc\x81", "\xc3\xa4\xcc\x81");
    FORM("a\xcc\x81\xcc\x88", "\xc3\xa1\xcc\x88");
    /* Hangul: letters, a syllable and a last letter */
    FORM("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", "\xed\x95\x9c");
    FORM("\xed\x95\x98\xe1\x86\xab", "\xed\x95\x9c");
    FORM("\xed\x95\x9c\xe1\x86\xab", "\xed\x95\x9c\xe1\x86\xab");
    /* excluded from joining: Devanagari qa, a Hebrew letter with a dot */
    FORM("\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc");
    FORM("\xef\xac\xac", "\xd7\xa9\xd6\xbc\xd7\x81");
    FORM("\xef\xa4\x80", "\xe8\xb1\x88");                         /* a compatibility ideograph */
    FORM("\xf0\x9d\x85\x9e", "\xf0\x9d\x85\x97\xf0\x9d\x85\xa5"); /* a half note */
    FORM("\xcc\x81 x\xcc\x81", "\xcc\x81 x\xcc\x81"); /* a mark without a character before */
    /* the compatibility forms stay */
    FORM("\xef\xac\x81 \xc2\xbd \xe2\x85\xa7", "\xef\xac\x81 \xc2\xbd \xe2\x85\xa7");
    /* bytes that are no characters */
    FORM("\xff"
         "e\xcc\x81\xcc",
         "\xff\xc3\xa9\xcc");
    FORM("e\0\xcc\x81", "e\0\xcc\x81");
}

/* A long run of marks in a bad order takes n log n steps. */
static void test_long(void **state)
{
    enum { MARKS = 200000 };
    char *text = malloc(4 * MARKS + 1);
    size_t n;
    (void)state;
    assert_non_null(text);
    text[0] = 'q';
    for (size_t i = 0; i < MARKS; i++)
        memcpy(text + 1 + 4 * i, "\xcc\x87\xcc\xa3", 4);
    char *form = form_of_text(text, 4 * MARKS + 1, &n);
    assert_non_null(form);
    assert_int_equal(n, 4 * MARKS + 1);
    for (size_t i = 0; i < MARKS; i++)
        assert_memory_equal(form + 1 + 2 * i, "\xcc\xa3", 2);
    assert_memory_equal(form + 1 + 2 * MARKS, "\xcc\x87", 2);
    copse__free(&mem, form);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_forms), cmocka_unit_test(test_long) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
