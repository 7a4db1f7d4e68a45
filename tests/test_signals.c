/* SPDX-License-Identifier: MIT */
/* Signals that ask a command to end: noted where it looks for them, put off while a file is written, and each
   acted upon once. Every case is a process of its own, which tells by its end what became of it. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig.h"
#include "tools/tool.h"

static int written[2]; /* a pipe: one byte for each file that was written whole */

/* A driver's, which tidies up and ends the process. */
static void on_signal_of_driver(int which)
{
    (void)which;
    kill(getpid(), SIGKILL); /* as nothing else here does; the thread sanitizer would take offence at an exit code */
}

static void file_is_written(int during, int again)
{
    signals_hold();
    if (during)
        raise(during);
    if (again)
        raise(again);
    if (write(written[1], "", 1) != 1)
        _exit(100);
    signals_release();
}

/* Writes files; a signal comes before, one or two during the first. Ends with what was noted. */
struct way {
    bool catches;
    int before, during, again;
    int ignored, driven; /* a signal that is ignored from the start; one for which a driver has a handler */
};

static int follow(struct way way)
{
    int status;

    const pid_t child = fork();
    if (child == 0) {
        if (way.ignored)
            signal(way.ignored, SIG_IGN);
        if (way.driven)
            signal(way.driven, on_signal_of_driver);
        if (way.catches)
            signals_catch();
        if (way.before)
            raise(way.before);
        file_is_written(way.during, way.again);
        file_is_written(0, 0);
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
    ends_by(SIGTERM, 1, (struct way){ .catches = true, .during = SIGTERM, .again = SIGTERM });
    goes_on_and_knows(SIGINT, (struct way){ .catches = true, .during = SIGTERM, .again = SIGINT });
}

static void one_that_nobody_notes_ends_it_behind_the_file(void **state)
{
    (void)state;
    goes_on_and_knows(0, (struct way){ 0 });
    ends_by(SIGTERM, 1, (struct way){ .during = SIGTERM });
    ends_by(SIGINT, 1, (struct way){ .during = SIGINT });
    ends_by(SIGHUP, 1, (struct way){ .during = SIGHUP });
    ends_by(SIGHUP, 1, (struct way){ .catches = true, .during = SIGHUP });
    ends_by(SIGTERM, 0, (struct way){ .before = SIGTERM });
}

static void an_ignored_one_stays_ignored(void **state)
{
    (void)state;
    goes_on_and_knows(0, (struct way){ .ignored = SIGHUP, .during = SIGHUP });
    goes_on_and_knows(0, (struct way){ .ignored = SIGINT, .during = SIGINT, .again = SIGINT });
}

static void a_drivers_handler_is_put_off_too(void **state)
{
    (void)state;
    ends_by(SIGKILL, 1, (struct way){ .driven = SIGTERM, .during = SIGTERM });
    ends_by(SIGKILL, 0, (struct way){ .driven = SIGTERM, .before = SIGTERM });
}

/* ---- while something is printed ---- */

/* What the system tells of a process: 'S' as long as it waits, 'R' while it runs; and whether it has a handler for
   a signal. False where it cannot be known. */
static bool look_at(pid_t process, int which, char *state, bool *has_handler)
{
    char path[64], line[256];
    unsigned long long handlers = 0;
    int found = 0;

    snprintf(path, sizeof path, "/proc/%ld/status", (long)process);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        found += sscanf(line, "State: %c", state) == 1 || sscanf(line, "SigCgt: %llx", &handlers) == 1;
    if (f)
        fclose(f);
    *has_handler = (handlers >> (which - 1) & 1) != 0;
    return found == 2;
}

static bool waits_with(bool handler, pid_t process, int which)
{
    char state;
    bool has_handler;

    while (look_at(process, which, &state, &has_handler)) {
        if (state == 'Z' || (state == 'S' && has_handler == handler))
            return true;
        sched_yield();
    }
    return false;
}

/* A signal comes while nobody reads what is printed: it takes nothing away. */
static void what_is_printed_is_whole(void **state)
{
    enum { LINE = 64 };
    static char lines[1 << 18];
    int ends[2], status;
    size_t got = 0;
    ssize_t n;

    (void)state;
    memset(lines, 'x', sizeof lines);
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        signals_catch();
        close(ends[0]);
        FILE *out = fdopen(ends[1], "w");
        bool is_good = true;
        for (size_t i = 0; i < sizeof lines; i += LINE) /* each whole or not at all, since it is short */
            is_good = is_good && fwrite(lines + i, 1, LINE, out) == LINE && fflush(out) == 0;
        _exit(is_good ? signals_caught() : 100);
    }
    assert_true(child > 0);
    close(ends[1]);
    /* the pipe is full; then the handler has been called, once, and it waits again */
    if (!waits_with(true, child, SIGTERM)) {
        print_message("skipped: /proc does not tell when a process waits\n");
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        close(ends[0]);
        skip();
    }
    assert_int_equal(kill(child, SIGTERM), 0);
    assert_true(waits_with(false, child, SIGTERM));
    while ((n = read(ends[0], lines, sizeof lines)) > 0)
        got += (size_t)n;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), SIGTERM);
    assert_int_equal(got, sizeof lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_noted_signal_is_left_to_the_command),
        cmocka_unit_test(the_second_one_ends_it_behind_the_file),
        cmocka_unit_test(one_that_nobody_notes_ends_it_behind_the_file),
        cmocka_unit_test(an_ignored_one_stays_ignored),
        cmocka_unit_test(a_drivers_handler_is_put_off_too),
        cmocka_unit_test(what_is_printed_is_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
