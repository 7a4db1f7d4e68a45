/* SPDX-License-Identifier: MIT */
/* Signals that ask a command to end: the command notes them, puts them off while it writes a file,
   and acts once on each request. Every case is a process of its own, and its end tells what became
   of the signals. The clock of tools/common/signals_posix.c is the one below, so that no case depends on
   time. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/rig/rig.h"
#include "tools/tool.h"

static int written[2]; /* a pipe: one byte for each file that was written whole */

enum { PAIRS = 200 };
#define SECOND ((int64_t)SIGNALS_ONE_NS)

/* ---- time ---- */

static int64_t time_ns = 86400 * SECOND; /* of the next signal */
static int64_t gap_ns;                   /* to the signal after it */
/* a pipe: one byte for each handler that asks for the time */
static int asked = -1;

int clock_of_signals(clockid_t clock, struct timespec *out)
{
    if (clock != CLOCK_MONOTONIC || (asked >= 0 && write(asked, "", 1) != 1))
        _exit(101);
    out->tv_sec = (time_t)(time_ns / SECOND);
    out->tv_nsec = (long)(time_ns % SECOND);
    time_ns += gap_ns;
    return 0;
}

static uint64_t random_state;

static int64_t random_below(int64_t bound)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((random_state >> 20) % (uint64_t)bound);
}

static void signals_within_a_second_are_one(void **state)
{
    (void)state;
    random_state = 1;
    for (int i = 0; i < PAIRS; i++) {
        const int64_t first = random_below(INT64_C(1) << 43), gap = random_below(SECOND);
        if (!signals_are_one(first, first + gap))
            fail_msg("%lld ns and %lld ns are two", (long long)first, (long long)(first + gap));
        if (signals_are_one(first, first + gap + SECOND + 1))
            fail_msg("%lld ns and %lld ns are one", (long long)first,
                     (long long)(first + gap + SECOND + 1));
    }
    assert_true(signals_are_one(5, 5));
    assert_true(signals_are_one(SECOND - 1, 2 * SECOND - 1));
    assert_false(signals_are_one(SECOND - 1, 2 * SECOND));
}

/* ---- processes ---- */

/* A driver's, which tidies up and ends the process. */
static void on_signal_of_driver(int which)
{
    (void)which;
    /* as nothing else here does; the thread sanitizer would take offence at an exit code */
    kill(getpid(), SIGKILL);
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
    /* a signal that is ignored from the start; one for which a driver has a handler */
    int ignored, driven;
    int64_t gap; /* between two signals [ns] */
};

static int follow(struct way way)
{
    static const int kinds[] = { SIGINT, SIGTERM, SIGHUP };
    int status;

    const pid_t child = fork();
    if (child == 0) {
        gap_ns = way.gap;
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            signal(kinds[i], SIG_DFL); /* nohup and shells ignore some */
        if (way.ignored)
            signal(way.ignored, SIG_IGN);
        signals_begin();
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

static void a_second_request_ends_it_behind_the_file(void **state)
{
    const int64_t later = SECOND + 1;
    (void)state;
    ends_by(SIGTERM, 1,
            (struct way){ .catches = true, .before = SIGTERM, .during = SIGTERM, .gap = later });
    ends_by(SIGINT, 1,
            (struct way){ .catches = true, .before = SIGINT, .during = SIGINT, .gap = later });
    ends_by(SIGTERM, 1,
            (struct way){ .catches = true, .during = SIGTERM, .again = SIGTERM, .gap = later });
    goes_on_and_knows(
        SIGINT, (struct way){ .catches = true, .during = SIGTERM, .again = SIGINT, .gap = later });
}

static void a_pair_is_one_request_while_a_file_is_written(void **state)
{
    (void)state;
    for (int64_t gap = 0; gap <= SECOND; gap += SECOND / 4) {
        goes_on_and_knows(
            SIGTERM,
            (struct way){ .catches = true, .before = SIGTERM, .during = SIGTERM, .gap = gap });
        goes_on_and_knows(
            SIGINT, (struct way){ .catches = true, .during = SIGINT, .again = SIGINT, .gap = gap });
    }
    /* the second counts from the first one, not from the one before */
    ends_by(SIGINT, 1,
            (struct way){ .catches = true,
                          .before = SIGINT,
                          .during = SIGINT,
                          .again = SIGINT,
                          .gap = SECOND / 2 + 1 });
}

/* A process that notes signals gets two of a kind from outside, the second one after the first was
   noted. Returns how it ended. */
static int get_pair(int which, int64_t gap)
{
    int said[2], more[2], status;
    char byte;

    assert_int_equal(pipe(said), 0);
    assert_int_equal(pipe(more), 0);
    const pid_t child = fork();
    if (child == 0) {
        close(more[1]);
        gap_ns = gap;
        signals_catch();
        if (write(said[1], "", 1) != 1)
            _exit(100);
        while (!signals_caught())
            sched_yield();
        if (write(said[1], "", 1) != 1 || read(more[0], &byte, 1) != 0)
            _exit(100);
        _exit(signals_caught());
    }
    assert_true(child > 0);
    close(said[1]);
    close(more[0]);
    for (int i = 0; i < 2; i++)
        if (read(said[0], &byte, 1) != 1 || kill(child, which) != 0)
            fail_msg("the process ended before signal %d", i + 1);
    close(more[1]);
    close(said[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void pairs_from_outside_are_one_request(void **state)
{
    (void)state;
    random_state = 2;
    for (int i = 0; i < PAIRS; i++) {
        const int which = i % 2 ? SIGINT : SIGTERM;
        const int64_t gap = random_below(SECOND);
        const int status = get_pair(which, gap);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != which)
            fail_msg("pair %d, %lld ns apart: ended with status %#x", i, (long long)gap,
                     (unsigned)status);
    }
}

static void a_second_request_from_outside_ends_it(void **state)
{
    (void)state;
    random_state = 3;
    for (int i = 0; i < 20; i++) {
        const int which = i % 2 ? SIGINT : SIGTERM;
        const int64_t gap = SECOND + 1 + random_below(100 * SECOND);
        const int status = get_pair(which, gap);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != which)
            fail_msg("pair %d, %lld ns apart: ended with status %#x", i, (long long)gap,
                     (unsigned)status);
    }
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
    goes_on_and_knows(
        0, (struct way){ .catches = true, .ignored = SIGINT, .before = SIGINT, .during = SIGINT });
    goes_on_and_knows(SIGTERM,
                      (struct way){ .catches = true, .ignored = SIGINT, .during = SIGTERM });
    goes_on_and_knows(0, (struct way){ .ignored = SIGTERM, .driven = SIGTERM, .before = SIGTERM });
}

static void a_drivers_handler_is_put_off_too(void **state)
{
    (void)state;
    ends_by(SIGKILL, 1, (struct way){ .driven = SIGTERM, .during = SIGTERM });
    ends_by(SIGKILL, 0, (struct way){ .driven = SIGTERM, .before = SIGTERM });
}

/* ---- while something is printed ---- */

/* Waits until a process waits: /proc tells 'S'. False where /proc does not tell. */
static bool await_sleep(pid_t process)
{
    char path[64], line[256], state = 0;

    snprintf(path, sizeof path, "/proc/%ld/status", (long)process);
    while (state != 'S' && state != 'Z') {
        FILE *f = fopen(path, "r");
        state = 0;
        while (f && !state && fgets(line, sizeof line, f))
            sscanf(line, "State: %c", &state);
        if (f)
            fclose(f);
        if (!state)
            return false;
        sched_yield();
    }
    return true;
}

/* A signal comes while nothing reads what is printed: it takes nothing away. */
static void what_is_printed_is_whole(void **state)
{
    enum { LINE = 64 };
    static char lines[1 << 18];
    int ends[2], handled[2], status;
    size_t got = 0;
    ssize_t n;

    (void)state;
    memset(lines, 'x', sizeof lines);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pipe(handled), 0);
    const pid_t child = fork();
    if (child == 0) {
        asked = handled[1];
        signals_catch();
        close(ends[0]);
        FILE *out = fdopen(ends[1], "w");
        bool is_good = true;
        /* each whole or not at all, since it is short */
        for (size_t i = 0; i < sizeof lines; i += LINE)
            is_good = is_good && fwrite(lines + i, 1, LINE, out) == LINE && fflush(out) == 0;
        _exit(is_good ? signals_caught() : 100);
    }
    assert_true(child > 0);
    close(ends[1]);
    close(handled[1]);
    n = read(ends[0], lines, LINE); /* it has a handler */
    /* the pipe is full; then the handler has been called, once, and it waits again */
    if (!await_sleep(child)) {
        print_message("skipped: /proc does not tell when a process waits\n");
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        close(ends[0]);
        close(handled[0]);
        skip();
    }
    assert_int_equal(n, LINE);
    assert_int_equal(kill(child, SIGTERM), 0);
    assert_int_equal(read(handled[0], lines, 1), 1);
    assert_true(await_sleep(child));
    for (got = LINE; (n = read(ends[0], lines, sizeof lines)) > 0;)
        got += (size_t)n;
    close(ends[0]);
    close(handled[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), SIGTERM);
    assert_int_equal(got, sizeof lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_within_a_second_are_one),
        cmocka_unit_test(a_noted_signal_is_left_to_the_command),
        cmocka_unit_test(a_second_request_ends_it_behind_the_file),
        cmocka_unit_test(a_pair_is_one_request_while_a_file_is_written),
        cmocka_unit_test(pairs_from_outside_are_one_request),
        cmocka_unit_test(a_second_request_from_outside_ends_it),
        cmocka_unit_test(one_that_nobody_notes_ends_it_behind_the_file),
        cmocka_unit_test(an_ignored_one_stays_ignored),
        cmocka_unit_test(a_drivers_handler_is_put_off_too),
        cmocka_unit_test(what_is_printed_is_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
