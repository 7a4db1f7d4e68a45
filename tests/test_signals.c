/* SPDX-License-Identifier: MIT */
/* Signals that ask a command to end: noted where it looks for them, put off while a file is written, and each
   acted upon once. Every case is a process of its own, which tells by its end what became of it. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig.h"
#include "tools/tool.h"

static int written[2]; /* a pipe: one byte for each file that was written whole */

static void file_is_written(int during)
{
    signals_hold();
    if (during)
        raise(during);
    if (write(written[1], "", 1) != 1)
        _exit(100);
    signals_release();
}

/* Writes files; a signal comes before, one during. Ends with what was noted. */
struct way {
    bool catches;
    int before, during;
};

static int follow(struct way way)
{
    int status;

    const pid_t child = fork();
    if (child == 0) {
        if (way.catches)
            signals_catch();
        if (way.before)
            raise(way.before);
        file_is_written(way.during);
        file_is_written(0);
        _exit(signals_caught());
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void ends_by(int signal, int files, struct way way)
{
    char bytes[8];

    assert_int_equal(pipe(written), 0);
    const int status = follow(way);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), signal);
    close(written[1]);
    assert_int_equal(read(written[0], bytes, sizeof bytes), files);
    close(written[0]);
}

static void goes_on_and_knows(int signal, struct way way)
{
    char bytes[8];

    assert_int_equal(pipe(written), 0);
    const int status = follow(way);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), signal);
    close(written[1]);
    assert_int_equal(read(written[0], bytes, sizeof bytes), 2);
    close(written[0]);
}

static void a_noted_signal_is_left_to_the_command(void **state)
{
    (void)state;
    goes_on_and_knows(0, (struct way){ .catches = true });
    goes_on_and_knows(SIGTERM, (struct way){ .catches = true, .before = SIGTERM });
    goes_on_and_knows(SIGTERM, (struct way){ .catches = true, .during = SIGTERM });
    goes_on_and_knows(SIGINT, (struct way){ .catches = true, .before = SIGINT });
    goes_on_and_knows(SIGINT, (struct way){ .catches = true, .before = SIGTERM, .during = SIGINT });
}

static void the_second_one_ends_it_behind_the_file(void **state)
{
    (void)state;
    ends_by(SIGTERM, 1, (struct way){ .catches = true, .before = SIGTERM, .during = SIGTERM });
    ends_by(SIGINT, 1, (struct way){ .catches = true, .before = SIGINT, .during = SIGINT });
}

static void one_that_nobody_notes_ends_it_behind_the_file(void **state)
{
    (void)state;
    goes_on_and_knows(0, (struct way){ 0 });
    ends_by(SIGTERM, 1, (struct way){ .during = SIGTERM });
    ends_by(SIGINT, 1, (struct way){ .during = SIGINT });
    ends_by(SIGTERM, 0, (struct way){ .before = SIGTERM });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_noted_signal_is_left_to_the_command),
        cmocka_unit_test(the_second_one_ends_it_behind_the_file),
        cmocka_unit_test(one_that_nobody_notes_ends_it_behind_the_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
