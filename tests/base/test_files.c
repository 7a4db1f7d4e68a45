/* SPDX-License-Identifier: MIT */
/* Files that replace another one whole, or leave it as it was. */
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/platform.h"
#include "tests/rig/fake/mem_rig.h"

static char folder[] = "/tmp/copse-test-XXXXXX";
static char target[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder + sizeof folder - 7, "XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(target, sizeof target, "%s/file", folder);
    return 0;
}

/* Fails when a test left anything but the target behind. */
static int remove_folder(void **state)
{
    (void)state;
    unlink(target);
    return rmdir(folder);
}

static void expect_content(const char *want)
{
    char text[64] = "";
    FILE *f = fopen(target, "rb");
    assert_non_null(f);
    const size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    assert_int_equal(n, strlen(want));
    assert_string_equal(text, want);
}

static void write_target(const char *text)
{
    struct copse_atomic_file f;
    assert_int_equal(copse__atomic_open(&f, &mem, target), COPSE_OK);
    fputs(text, f.stream);
    assert_int_equal(copse__atomic_commit(&f), COPSE_OK);
}

static void a_committed_file_replaces_the_old_one_at_once(void **state)
{
    (void)state;
    struct copse_atomic_file f;
    uint64_t size = 0;

    write_target("old");
    assert_int_equal(copse__atomic_open(&f, &mem, target), COPSE_OK);
    fputs("newer", f.stream);
    fflush(f.stream);
    expect_content("old");
    assert_int_equal(copse__atomic_commit(&f), COPSE_OK);
    expect_content("newer");
    copse__atomic_abort(&f); /* fine after commit */
    expect_content("newer");
    assert_int_equal(copse__file_size(target, &size), COPSE_OK);
    assert_int_equal(size, 5);
    assert_true(copse__is_directory(folder));
    assert_false(copse__is_directory(target));
    assert_int_equal(mem.live, 0);
}

static unsigned mode_of(const char *path)
{
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    return s.st_mode & 07777;
}

static void the_mode_of_the_old_file_is_kept(void **state)
{
    (void)state;
    const mode_t before = umask(0027);
    write_target("new");
    assert_int_equal(mode_of(target), 0640);
    static const unsigned modes[] = { 0600, 0644, 0664, 0400, 0777 };
    for (size_t i = 0; i < COPSE_COUNT(modes); i++) {
        struct copse_atomic_file f;
        assert_int_equal(chmod(target, modes[i]), 0);
        assert_int_equal(copse__atomic_open(&f, &mem, target), COPSE_OK);
        /* from the start: nobody else may read the new content */
        assert_int_equal(mode_of(f.temp), modes[i]);
        assert_int_equal(copse__atomic_commit(&f), COPSE_OK);
        assert_int_equal(mode_of(target), modes[i]);
    }
    umask(before);
    assert_int_equal(chmod(target, 0600), 0);
    if (geteuid() == 0) {
        struct stat s;
        assert_int_equal(chown(target, 65534, 65533), 0);
        write_target("again");
        assert_int_equal(stat(target, &s), 0);
        assert_true(s.st_uid == 65534 && s.st_gid == 65533 && (s.st_mode & 07777) == 0600);
    } else {
        printf("skipped: files of other users need root\n");
    }
}

static void an_aborted_file_leaves_nothing(void **state)
{
    (void)state;
    struct copse_atomic_file f, g;
    write_target("old");
    assert_int_equal(copse__atomic_open(&f, &mem, target), COPSE_OK);
    assert_int_equal(copse__atomic_open(&g, &mem, target), COPSE_OK);
    assert_string_not_equal(f.temp, g.temp);
    fputs("half", f.stream);
    copse__atomic_abort(&f);
    copse__atomic_abort(&g);
    copse__atomic_abort(&g);
    expect_content("old");
    assert_int_equal(mem.live, 0);
}

static void a_stale_temporary_file_is_no_obstacle(void **state)
{
    (void)state;
    struct copse_atomic_file f;
    char stale[128];
    unsigned number;

    assert_int_equal(copse__atomic_open(&f, &mem, target), COPSE_OK);
    assert_int_equal(sscanf(strrchr(f.temp, '-'), "-%x", &number), 1);
    copse__atomic_abort(&f);
    snprintf(stale, sizeof stale, "%s.tmp%x-%x", target, copse__process_id(), number + 1);
    FILE *s = fopen(stale, "wb");
    assert_non_null(s);
    fclose(s);
    write_target("text");
    expect_content("text");
    assert_int_equal(unlink(stale), 0); /* it was somebody else's: not touched */
}

static void a_target_that_is_no_regular_file_is_refused(void **state)
{
    (void)state;
    struct copse_atomic_file f;
    struct stat info;
    assert_int_equal(mkfifo(target, 0600), 0);
    assert_int_equal(copse__atomic_open(&f, &mem, target), COPSE_ERR_IO);
    assert_non_null(strstr(copse_last_error(), "not a regular file"));
    copse__atomic_abort(&f);
    assert_int_equal(lstat(target, &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    assert_int_equal(copse__atomic_open(&f, &mem, folder), COPSE_ERR_IO);
    assert_non_null(strstr(copse_last_error(), "not a regular file"));
    assert_int_equal(mem.live, 0);
}

static void symbolic_links_are_followed_and_stay(void **state)
{
    (void)state;
    struct copse_atomic_file f;
    struct stat info;
    char link[64], path[64];
    snprintf(link, sizeof link, "%s/link", folder);
    snprintf(path, sizeof path, "%s", target);
    write_target("old");
    assert_int_equal(symlink("file", link), 0);
    snprintf(target, sizeof target, "%s", link);
    write_target("new"); /* through the link */
    snprintf(target, sizeof target, "%s", path);
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    expect_content("new");

    assert_int_equal(unlink(target), 0);
    assert_int_equal(copse__atomic_open(&f, &mem, link), COPSE_ERR_IO);
    assert_non_null(strstr(copse_last_error(), "symbolic link"));
    assert_int_equal(mem.live, 0);
    assert_int_equal(unlink(link), 0);
}

static void file_failures_name_the_path(void **state)
{
    (void)state;
    struct copse_atomic_file f;
    uint64_t size;
    snprintf(target, sizeof target, "%s/none/file", folder);
    assert_int_equal(copse__atomic_open(&f, &mem, target), COPSE_ERR_IO);
    assert_non_null(strstr(copse_last_error(), "/none/file"));
    copse__atomic_abort(&f);
    assert_int_equal(copse__file_size(target, &size), COPSE_ERR_IO);
    assert_non_null(strstr(copse_last_error(), "/none/file"));
    assert_int_equal(copse__file_size(folder, &size), COPSE_ERR_IO);
    assert_int_equal(mem.live, 0);

    snprintf(target, sizeof target, "%s/file", folder);
    write_target("x");
    refuse = 1;
    assert_int_equal(copse__atomic_open(&f, &mem, target), COPSE_ERR_NO_MEMORY);
    refuse = 0;
    copse__atomic_abort(&f);
    expect_content("x");
}

static void a_full_disk_is_an_error_and_leaves_the_old_file(void **state)
{
    (void)state;
    struct copse_atomic_file f;
    write_target("old");
    assert_int_equal(copse__atomic_open(&f, &mem, target), COPSE_OK);
    FILE *full = fopen("/dev/full", "wb");
    if (!full) {
        copse__atomic_abort(&f);
        print_message("skipped: there is no /dev/full\n");
        skip();
    }
    fclose(f.stream);
    f.stream = full;
    fputs("new", f.stream);
    assert_int_equal(copse__atomic_commit(&f), COPSE_ERR_IO);
    assert_non_null(strstr(copse_last_error(), "cannot write"));
    expect_content("old");
    assert_int_equal(mem.live, 0);
}

int main(void)
{
#define FILE_TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        FILE_TEST(a_committed_file_replaces_the_old_one_at_once),
        FILE_TEST(the_mode_of_the_old_file_is_kept),
        FILE_TEST(an_aborted_file_leaves_nothing),
        FILE_TEST(a_stale_temporary_file_is_no_obstacle),
        FILE_TEST(a_target_that_is_no_regular_file_is_refused),
        FILE_TEST(symbolic_links_are_followed_and_stay),
        FILE_TEST(file_failures_name_the_path),
        FILE_TEST(a_full_disk_is_an_error_and_leaves_the_old_file),
    };
    return cmocka_run_group_tests_name("files", tests, NULL, NULL);
}
