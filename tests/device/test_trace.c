/* SPDX-License-Identifier: MIT */
/* Traces: what is recorded and when, a recording without room, the file, and what the summary says
   of known spans. */
#include <locale.h>
#include <stdlib.h>

#include "copse/device/queue.h"
#include "copse/device/trace.h"
#include "copse/trainer.h"
#include "core/base/trace.h"
#include "core/device/device.h"
#include "tests/rig/one_context.h"

static const char path[] = "test_trace.json";

static copse_status start(const char *file, size_t events)
{
    const struct copse_trace_params p = { .path = file, .events = events, .worker = 3 };
    return copse_trace_start(ctx, &p);
}

/* The file as a text; NULL: there is none. The caller frees it. */
static char *read_file(const char *file)
{
    FILE *f = fopen(file, "rb");
    char *text = NULL;
    if (f) {
        text = calloc(1 << 22, 1);
        assert_non_null(text);
        assert_true(fread(text, 1, (1 << 22) - 1, f) > 0);
        fclose(f);
    }
    return text;
}

static size_t count_of(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
        n++;
    return n;
}

/* ---- a trainer ---- */

static copse_variable *weight;

static copse_tensor *square_loss(copse_graph *g, const copse_batch *in, void *user)
{
    (void)user;
    return copse_mean_squared_error(g, copse_input(in, "x"), copse_variable_tensor(weight));
}

static void make_steps(int steps)
{
    static const float x[4] = { 1, 2, 3, 4 };
    const struct copse_variable_params w = { .name = "w", .shape = COPSE_SHAPE(1) };
    const struct copse_trainer_params p = { .loss = square_loss };
    struct copse_step_result result;
    copse_strategy *st;
    copse_trainer *t;
    OK(copse_one_device_create(ctx, "host:0", NULL, &st));
    OK(copse_variable_create(st, &w, &weight));
    OK(copse_trainer_create(st, &p, &t));
    for (int i = 0; i < steps; i++) {
        const struct copse_host_batch batch = {
            COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(1), x }), .count = 4
        };
        OK(copse_trainer_step(t, &batch));
        OK(copse_trainer_result(t, true, &result));
    }
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

static void trace_has_steps_and_parts(void **state)
{
    struct copse_trace_summary s;
    (void)state;
    OK(start(path, 0));
    make_steps(20);
    OK(copse_trace_stop(ctx, &s));
    assert_int_equal(s.steps, 20);
    assert_int_equal(s.dropped, 0);
    assert_true(s.seconds > 0);
    assert_true(s.devices > 0 && s.devices <= 1);
    const double sum = s.wait + s.data + s.upload + s.exchange + s.update + s.compile + s.host;
    assert_true(sum > 0.999 && sum < 1.001);
    char *text = read_file(path);
    assert_non_null(text);
    assert_int_equal(count_of(text, "\"ph\":\"X\""), s.events);
    assert_int_equal(count_of(text, "\"cat\":\"step\""), 20);
    assert_int_equal(count_of(text, "\"cat\":\"upload\""), 20);
    assert_int_equal(count_of(text, "\"args\":{\"step\":20"), count_of(text, "{\"step\":20"));
    assert_true(count_of(text, "\"args\":{\"step\":20") >= 4);
    assert_int_equal(count_of(text, "\"replica 0: host:0\""), 1);
    assert_int_equal(count_of(text, "\"worker 3\""), 1);
    assert_true(strcmp(text + strlen(text) - 4, "\n]}\n") == 0);
    free(text);
    remove(path);
}

static void nothing_is_recorded_after_the_end(void **state)
{
    struct copse_trace_summary s;
    (void)state;
    make_steps(2);
    OK(start(path, 0));
    OK(copse_trace_stop(ctx, &s));
    make_steps(2);
    assert_int_equal(s.events, 0);
    assert_int_equal(s.steps, 0);
    assert_true(s.seconds == 0 && s.devices == 0);
    assert_string_equal(s.limit, "host");
    FAILS(COPSE_ERR_ARGUMENT, copse_trace_stop(ctx, &s), "nothing is recorded");
    remove(path);
}

static void spans_without_room_are_counted(void **state)
{
    struct copse_trace_summary all, some;
    (void)state;
    OK(start(path, 0));
    make_steps(10);
    OK(copse_trace_stop(ctx, &all));
    OK(start(path, 7));
    make_steps(10);
    OK(copse_trace_stop(ctx, &some));
    assert_int_equal(some.events, 7);
    assert_true(some.dropped > 0);
    char *text = read_file(path), want[40];
    snprintf(want, sizeof want, "\"dropped\":%llu,", (unsigned long long)some.dropped);
    assert_int_equal(count_of(text, want), 1);
    assert_int_equal(count_of(text, "\"ph\":\"X\""), 7);
    free(text);
    remove(path);
}

/* ---- threads ---- */

enum { THREADS = 4, SPANS = 5000, ROOM = 12000 };

static void record_spans(void *user)
{
    (void)user;
    for (int i = 0; i < SPANS; i++) {
        const struct copse_span outer = copse__span_begin(&ctx->base);
        const struct copse_span inner = copse__span_begin(&ctx->base);
        OK(copse__span_end(inner, COPSE_SPAN_WAIT, "inner", COPSE_OK));
        OK(copse__span_end(outer, COPSE_SPAN_UPDATE, "outer", COPSE_OK));
    }
}

static void threads_have_lanes(void **state)
{
    struct copse_trace_summary s;
    copse_thread threads[THREADS];
    (void)state;
    OK(start(path, ROOM));
    for (int i = 0; i < THREADS; i++)
        OK(copse__thread_start(&threads[i], record_spans, NULL));
    for (int i = 0; i < THREADS; i++)
        copse__thread_join(&threads[i]);
    OK(copse_trace_stop(ctx, &s));
    assert_int_equal(s.events, ROOM);
    assert_int_equal(s.events + s.dropped, 2 * THREADS * SPANS);
    remove(path);
}

/* ---- the summary ---- */

static void add_span(struct copse_trace *t, uint32_t lane, enum copse_span_kind kind,
                     uint64_t begin, uint64_t end)
{
    t->events[t->count++] =
        (struct copse_trace_event){ .begin = begin, .end = end, .kind = kind, .lane = lane };
}

/* Two steps on lane 0. The second one counts, from 100 to 200. */
static void known_spans_give_known_parts(void **state)
{
    struct copse_trace_event events[16];
    struct copse_trace t = { .events = events, .room = 16 };
    struct copse_trace_summary s;
    (void)state;
    add_span(&t, 0, COPSE_SPAN_WAIT, 150, 170); /* within the exchange */
    add_span(&t, 0, COPSE_SPAN_EXCHANGE, 140, 180);
    add_span(&t, 0, COPSE_SPAN_UPDATE, 135, 185);
    add_span(&t, 0, COPSE_SPAN_STEP, 130, 200);
    add_span(&t, 0, COPSE_SPAN_DATA, 110, 125);
    add_span(&t, 0, COPSE_SPAN_COMPILE, 10, 90);
    add_span(&t, 0, COPSE_SPAN_STEP, 0, 100);
    add_span(&t, 1, COPSE_SPAN_DEVICE, 90, 120); /* 20 within */
    add_span(&t, 1, COPSE_SPAN_DEVICE, 140, 190);
    add_span(&t, 2, COPSE_SPAN_DEVICE, 100, 110);
    add_span(&t, 3, COPSE_SPAN_DATA, 100, 200); /* of another thread */
    copse__trace_summarize(&t, &s);
    assert_int_equal(s.steps, 2);
    assert_float_equal(s.seconds, 100e-9, 1e-12);
    assert_float_equal(s.devices, 0.7, 1e-9);
    assert_float_equal(s.wait, 0.2, 1e-9);
    assert_float_equal(s.exchange, 0.2, 1e-9);
    assert_float_equal(s.update, 0.1, 1e-9);
    assert_float_equal(s.data, 0.15, 1e-9);
    assert_float_equal(s.compile, 0, 1e-9);
    assert_float_equal(s.host, 0.35, 1e-9);
    assert_string_equal(s.limit, "host");
    add_span(&t, 2, COPSE_SPAN_DEVICE, 110, 195);
    copse__trace_summarize(&t, &s);
    assert_float_equal(s.devices, 0.95, 1e-9);
    assert_string_equal(s.limit, "devices");
    t.count = 0;
    add_span(&t, 0, COPSE_SPAN_STEP, 0, 100);
    add_span(&t, 0, COPSE_SPAN_COMPILE, 10, 90);
    copse__trace_summarize(&t, &s);
    assert_float_equal(s.compile, 0.8, 1e-9);
    assert_string_equal(s.limit, "compile");
}

/* ---- errors and files ---- */

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    FAILS(COPSE_ERR_ARGUMENT, start("", 0), "path");
    FAILS(COPSE_ERR_ARGUMENT, start(path, 100000001), "100000000");
    FAILS(COPSE_ERR_IO, start("no/such/folder/trace.json", 0), "no/such/folder/trace.json");
    OK(start(path, 0));
    FAILS(COPSE_ERR_ARGUMENT, start("other.json", 0), path);
    OK(copse_trace_stop(ctx, NULL));
    assert_null(read_file("other.json"));
    remove(path);
}

static void summary_needs_no_file(void **state)
{
    struct copse_trace_summary s;
    (void)state;
    OK(start(NULL, 0));
    FAILS(COPSE_ERR_ARGUMENT, start(path, 0), "no file");
    OK(copse_trace_stop(ctx, &s));
    assert_int_equal(s.steps, 0);
    assert_null(read_file(path));
}

static void write_text(const char *file, const char *text)
{
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
}

/* A run that fails before its first step leaves the older file. */
static void older_file_is_replaced_and_a_context_writes(void **state)
{
    static const char older[] = "an older file that is longer than nothing";
    const struct copse_trace_params p = { .path = path };
    (void)state;
    write_text(path, older);
    for (uint64_t step = 0; step < 2; step++) {
        copse_context *other;
        OK(copse_context_create(NULL, &other));
        OK(copse_trace_start(other, &p));
        const struct copse_span span = copse__span_begin(&other->base);
        copse__trace_step(&other->base, step);
        OK(copse__span_end(span, COPSE_SPAN_COMPILE, "compile", COPSE_OK));
        copse_context_release(&other);
        char *text = read_file(path);
        assert_non_null(text);
        if (step == 0)
            assert_string_equal(text, older);
        else
            assert_int_equal(strncmp(text, "{\"displayTimeUnit\"", 18), 0);
        free(text);
    }
    remove(path);
}

/* In a locale whose numbers have a comma. Its name differs between systems. */
static void numbers_have_a_point_in_every_locale(void **state)
{
    static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE" };
    bool is_set = false;
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(names) && !is_set; i++)
        is_set = setlocale(LC_NUMERIC, names[i]) != NULL;
    if (!is_set) {
        print_message("skipped: no locale with a decimal comma is installed\n");
        skip();
    }
    OK(start(path, 0));
    const copse_status s = copse_trace_stop(ctx, NULL);
    setlocale(LC_NUMERIC, "C");
    OK(s);
    char *text = read_file(path);
    assert_int_equal(count_of(text, "\"seconds\":0.000000,\"devices\":0.0000,\"limit\""), 1);
    assert_int_equal(count_of(text, "\"began_unix_s\":1"), 1);
    free(text);
    remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trace_has_steps_and_parts),
        cmocka_unit_test(nothing_is_recorded_after_the_end),
        cmocka_unit_test(spans_without_room_are_counted),
        cmocka_unit_test(threads_have_lanes),
        cmocka_unit_test(known_spans_give_known_parts),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(summary_needs_no_file),
        cmocka_unit_test(older_file_is_replaced_and_a_context_writes),
        cmocka_unit_test(numbers_have_a_point_in_every_locale),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
