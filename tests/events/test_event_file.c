/* SPDX-License-Identifier: MIT */
/* Event files: records with their sums, numbers, distributions, pictures; what is refused, and
   failures of the disk. */
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "copse/compat/train_step.h"
#include "copse/loop/event_file.h"
#include "copse/ops.h"
#include "copse/strategy.h"
#include "core/device/device.h"
#include "core/loop/event_record.h"
#include "core/pictures/picture.h"

#include "tests/rig/data/temp_files.h"
#include "tests/rig/rig.h"

static copse_context *ctx;

static int open_all(void **state)
{
    (void)state;
    temp_begin();
    return copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" },
                                &ctx) == COPSE_OK
               ? 0
               : -1;
}

static int close_all(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    temp_end();
    return 0;
}

/* ---- a reader of its own ---- */

static uint64_t word(const uint8_t *at, size_t size)
{
    uint64_t w = 0;
    for (size_t i = 0; i < size; i++)
        w |= (uint64_t)at[i] << (8 * i);
    return w;
}

static double number(const uint8_t *at)
{
    const uint64_t w = word(at, 8);
    double x;
    memcpy(&x, &w, 8);
    return x;
}

struct field {
    uint32_t number, wire;
    uint64_t value;       /* varint, or the size */
    const uint8_t *bytes; /* NULL: varint */
};

static uint64_t varint(const uint8_t **at)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        const uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

static bool next_field(const uint8_t **at, const uint8_t *end, struct field *f)
{
    if (*at == end)
        return false;
    const uint64_t key = varint(at);
    *f = (struct field){ (uint32_t)(key >> 3), (uint32_t)(key & 7), 0, NULL };
    if (f->wire == 0 || f->wire == 2)
        f->value = varint(at);
    else
        f->value = f->wire == 1 ? 8 : 4;
    if (f->wire != 0) {
        f->bytes = *at;
        *at += f->value;
    }
    assert_true(*at <= end);
    return true;
}

static struct field field_of(const uint8_t *bytes, uint64_t size, uint32_t number)
{
    const uint8_t *at = bytes;
    struct field f;
    while (next_field(&at, bytes + size, &f))
        if (f.number == number)
            return f;
    fail_msg("there is no field %u", number);
    return f;
}

static uint32_t masked(const uint8_t *bytes, size_t size)
{
    const uint32_t sum = copse__crc32c(bytes, size);
    return (uint32_t)(((sum >> 15) | ((uint64_t)sum << 17)) & 0xffffffff) + 0xa282ead8u;
}

struct events {
    unsigned char *bytes;
    struct field at[16]; /* records */
    size_t count;
};

static void read_events(const char *path, struct events *e)
{
    size_t size, at = 0;
    e->bytes = temp_bytes(path, &size);
    for (e->count = 0; at < size; e->count++) {
        assert_true(e->count < 16 && size - at >= 16);
        const uint64_t length = word(e->bytes + at, 8);
        assert_true(length <= size - at - 16);
        assert_int_equal(word(e->bytes + at + 8, 4), masked(e->bytes + at, 8));
        e->at[e->count] = (struct field){ 0, 2, length, e->bytes + at + 12 };
        assert_int_equal(word(e->bytes + at + 12 + length, 4), masked(e->bytes + at + 12, length));
        at += length + 16;
    }
}

/* The only value of an event, whose tag and step are these. */
static struct field value_of(const struct events *e, size_t i, const char *tag, uint64_t step)
{
    const struct field *r = &e->at[i];
    assert_true(number(field_of(r->bytes, r->value, 1).bytes) > 1.5e9); /* seconds since 1970 */
    assert_int_equal(field_of(r->bytes, r->value, 2).value, step);
    const struct field summary = field_of(r->bytes, r->value, 5),
                       value = field_of(summary.bytes, summary.value, 1);
    const struct field name = field_of(value.bytes, value.value, 1);
    assert_int_equal(name.value, strlen(tag));
    assert_memory_equal(name.bytes, tag, name.value);
    return value;
}

/* ---- the tests ---- */

static void sums_are_crc_32c(void **state)
{
    uint8_t zeros[32] = { 0 };
    (void)state;
    /* RFC 3720, B.4 */
    assert_int_equal(copse__crc32c((const uint8_t *)"123456789", 9), 0xe3069283u);
    assert_int_equal(copse__crc32c(zeros, 32), 0x8a9136aau);
    assert_int_equal(copse__crc32c(zeros, 0), 0);
}

static void numbers_are_in_the_file(void **state)
{
    static const double values[] = { 0.25, -1e30, (double)INFINITY, (double)NAN };
    static const uint64_t steps[] = { 0, 1, 300, INT64_MAX };
    copse_event_file *f;
    struct events e;
    char path[400];
    (void)state;
    OK(copse_event_file_create(ctx, temp_path("run"), &f));
    snprintf(path, sizeof path, "%s", copse_event_file_path(f));
    assert_non_null(strstr(path, "tfevents"));
    for (size_t i = 0; i < 4; i++)
        OK(copse_event_file_scalar(f, "loss/held out", steps[i], values[i]));
    OK(copse_event_file_close(&f));
    assert_null(f);
    read_events(path, &e);
    assert_int_equal(e.count, 5);
    const struct field version = field_of(e.at[0].bytes, e.at[0].value, 3);
    assert_int_equal(version.value, 13);
    assert_memory_equal(version.bytes, "brain.Event:2", 13);
    for (size_t i = 0; i < 4; i++) {
        const struct field value = value_of(&e, i + 1, "loss/held out", steps[i]);
        const uint32_t w = (uint32_t)word(field_of(value.bytes, value.value, 2).bytes, 4);
        float x;
        memcpy(&x, &w, 4);
        assert_true(x == (float)values[i] || (isnan(x) && isnan(values[i])));
    }
    free(e.bytes);
}

/* The count of the bucket that a number is in. */
static double bucket_with(const struct field *limits, const struct field *buckets, double x)
{
    for (size_t i = 0; i < limits->value / 8; i++)
        if (number(limits->bytes + 8 * i) > x)
            return number(buckets->bytes + 8 * i);
    return number(buckets->bytes + buckets->value - 8);
}

static void check_histogram(const struct field *value, size_t count, double low, double high,
                            double sum, double squares)
{
    const struct field h = field_of(value->bytes, value->value, 5);
    const double want[] = { low, high, (double)count, sum, squares };
    for (uint32_t i = 0; i < 5; i++)
        assert_true(number(field_of(h.bytes, h.value, i + 1).bytes) == want[i]);
    const struct field limits = field_of(h.bytes, h.value, 6),
                       buckets = field_of(h.bytes, h.value, 7);
    double all = 0;
    assert_int_equal(limits.value, buckets.value);
    for (size_t i = 0; i < limits.value / 8; i++) {
        all += number(buckets.bytes + 8 * i);
        assert_true(i == 0 || number(limits.bytes + 8 * i) > number(limits.bytes + 8 * (i - 1)));
    }
    assert_true(all == (double)count);
}

static void distributions_are_counted(void **state)
{
    static const float some[] = { -1, 1, 1, 2, -0.0f, 1e-13f, -1e-13f, NAN },
                       all[] = { INFINITY, -INFINITY, 3e38f, -3e38f };
    copse_event_file *f;
    struct events e;
    char path[400];
    (void)state;
    OK(copse_event_file_create(ctx, temp_path("run"), &f));
    snprintf(path, sizeof path, "%s", copse_event_file_path(f));
    OK(copse_event_file_histogram(f, "w", 7, some, 8));
    OK(copse_event_file_histogram(f, "w", 8, NULL, 0));
    OK(copse_event_file_histogram(f, "w", 9, all, 4));
    OK(copse_event_file_close(&f));
    read_events(path, &e);
    const struct field first = value_of(&e, 1, "w", 7);
    const double tiny = (double)1e-13f, squares = 7 + 2 * tiny * tiny;
    check_histogram(&first, 7, -1, 2, 3, squares);
    const struct field h = field_of(first.bytes, first.value, 5);
    const struct field limits = field_of(h.bytes, h.value, 6),
                       buckets = field_of(h.bytes, h.value, 7);
    assert_true(bucket_with(&limits, &buckets, 1) == 2);
    assert_true(bucket_with(&limits, &buckets, 2) == 1);
    assert_true(bucket_with(&limits, &buckets, -1) == 1);
    assert_true(bucket_with(&limits, &buckets, 1e-13) == 2); /* -0, too */
    assert_true(bucket_with(&limits, &buckets, -1e-13) == 1);
    assert_true(bucket_with(&limits, &buckets, 1.5) == 0);
    const struct field empty = value_of(&e, 2, "w", 8);
    check_histogram(&empty, 0, 0, 0, 0, 0);
    const struct field wide = value_of(&e, 3, "w", 9), w = field_of(wide.bytes, wide.value, 5);
    assert_true(number(field_of(w.bytes, w.value, 3).bytes) == 4);
    assert_true(number(field_of(w.bytes, w.value, 1).bytes) == (double)-INFINITY);
    const struct field last = field_of(w.bytes, w.value, 7);
    assert_true(number(last.bytes + last.value - 8) == 2);
    free(e.bytes);
}

static void check_picture(copse_event_file *f, uint32_t channels)
{
    uint8_t pixels[5 * 3 * 3];
    struct copse_picture picture;
    struct events e;
    char path[400];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 37);
    OK(copse_event_file_picture(f, "p", channels, pixels, 5, 3, channels));
    snprintf(path, sizeof path, "%s", copse_event_file_path(f));
    OK(copse_event_file_close(&f));
    read_events(path, &e);
    const struct field value = value_of(&e, 1, "p", channels),
                       p = field_of(value.bytes, value.value, 4);
    assert_int_equal(field_of(p.bytes, p.value, 1).value, 5);
    assert_int_equal(field_of(p.bytes, p.value, 2).value, 3);
    assert_int_equal(field_of(p.bytes, p.value, 3).value, channels);
    const struct field png = field_of(p.bytes, p.value, 4);
    OK(copse__picture_load(&ctx->base.mem, temp_write("p.png", png.bytes, png.value), true,
                           &picture));
    assert_int_equal(picture.height, 5);
    assert_int_equal(picture.width, 3);
    assert_int_equal(picture.channels, channels);
    assert_memory_equal(picture.pixels, pixels, 15 * channels);
    copse__free(&ctx->base.mem, picture.pixels);
    free(e.bytes);
}

/* ---- gradients ---- */

static void sum_of_products(copse_graph *g, const copse_batch *in, void *user,
                            struct copse_losses *losses)
{
    copse_tensor *y = copse_mul(g, copse_input(in, "x"), copse_variable_tensor(user));
    losses->names[0] = "loss";
    losses->at[losses->count++] =
        copse_multiply_by(g, copse_mean(g, y, NULL, 0, false), 3); /* of 3 elements each */
}

static copse_train_step *train_step_of(copse_strategy *st, copse_variable *w, copse_event_file *f,
                                       bool has_summaries)
{
    const struct copse_train_step_params p = { .losses = sum_of_products,
                                               .user = w,
                                               .optimizer = { .kind = COPSE_SGD },
                                               .summarize_gradients = has_summaries,
                                               .gradient_events = f };
    copse_train_step *ts = NULL;
    if (has_summaries)
        OK(copse_train_step_create(st, &p, &ts));
    else
        FAILS(COPSE_ERR_ARGUMENT, copse_train_step_create(st, &p, &ts), "summarize_gradients");
    return ts;
}

/* Each replica's gradient is half of its example. */
static void gradients_have_norms_and_magnitudes(void **state)
{
    static const float x[] = { 4e-3f, 50, 0, -6, 8, 2e4f }, zeros[3] = { 0 };
    static const char *const devices[] = { "host:0", "host:0" };
    static const char *const tags[] = { "gradients/w/norm/0", "gradients/w/magnitude/0",
                                        "gradients/w/norm/1", "gradients/w/magnitude/1" };
    const struct copse_column column = { "x", COPSE_F32, COPSE_SHAPE(3), x };
    const struct copse_host_batch batch = { .columns = &column, .column_count = 1, .count = 2 };
    const struct copse_variable_params vp = { .name = "w",
                                              .shape = COPSE_SHAPE(3),
                                              .values = zeros };
    struct copse_train_step_result r;
    copse_strategy *st;
    copse_variable *w;
    copse_event_file *f;
    struct events e;
    char path[400];
    (void)state;
    OK(copse_mirrored_create(ctx, devices, 2, NULL, &st));
    OK(copse_variable_create(st, &vp, &w));
    OK(copse_event_file_create(ctx, temp_path("run"), &f));
    snprintf(path, sizeof path, "%s", copse_event_file_path(f));
    train_step_of(st, w, f, false);
    copse_train_step *ts = train_step_of(st, w, f, true);
    OK(copse_train_step_run(ts, &batch, &r));
    OK(copse_event_file_gradients(f, copse_train_step_trainer(ts), 7));
    copse_train_step_release(&ts);
    copse_strategy_release(&st);
    OK(copse_event_file_close(&f));
    read_events(path, &e);
    assert_int_equal(e.count, 9);
    for (size_t i = 0; i < 8; i++) {
        const struct field value = value_of(&e, i + 1, tags[i % 4], i < 4 ? 1 : 7);
        const float *mine = x + (i % 4 < 2 ? 0 : 3);
        const double squares =
            ((double)mine[0] * (double)mine[0] + (double)mine[1] * (double)mine[1] +
             (double)mine[2] * (double)mine[2]) /
            4;
        if (i % 2 == 0) {
            const uint32_t bits = (uint32_t)word(field_of(value.bytes, value.value, 2).bytes, 4);
            float norm;
            memcpy(&norm, &bits, 4);
            assert_true(fabs((double)norm - sqrt(squares)) < 1e-6 * sqrt(squares));
            continue;
        }
        const struct field h = field_of(value.bytes, value.value, 5),
                           limits = field_of(h.bytes, h.value, 6),
                           buckets = field_of(h.bytes, h.value, 7);
        const double low = i % 4 == 1 ? 0 : 1, high = sqrt(squares);
        assert_true(number(field_of(h.bytes, h.value, 1).bytes) == low);
        assert_true(fabs(number(field_of(h.bytes, h.value, 2).bytes) - high) < 1e-6 * high);
        assert_true(number(field_of(h.bytes, h.value, 3).bytes) == 3);
        for (int k = 0; k < 3; k++) {
            const double magnitude = fabs((double)mine[k]) / 2;
            assert_true(bucket_with(&limits, &buckets, magnitude) ==
                        (i % 4 == 3 && k < 2 ? 2 : 1)); /* 3 and 4 are in one bucket */
        }
    }
    free(e.bytes);
}

static void pictures_are_png(void **state)
{
    static const uint8_t pixel;
    copse_event_file *f;
    (void)state;
    OK(copse_event_file_create(ctx, temp_path("run"), &f));
    if (copse_event_file_picture(f, "p", 0, &pixel, 1, 1, 1) == COPSE_ERR_UNSUPPORTED) {
        OK(copse_event_file_close(&f));
        printf("skipped: this build writes no pictures\n");
        skip();
    }
    FAILS(COPSE_ERR_ARGUMENT, copse_event_file_picture(f, "p", 0, &pixel, 1, 1, 2), "2 channels");
    FAILS(COPSE_ERR_ARGUMENT, copse_event_file_picture(f, "p", 0, &pixel, 0, 1, 1), "1 x 0");
    FAILS(COPSE_ERR_ARGUMENT, copse_event_file_picture(f, "p", 0, &pixel, 1, 32769, 1), "32769");
    OK(copse_event_file_close(&f));
    for (uint32_t channels = 1; channels <= 3; channels += 2) {
        /* in the same second: another name */
        OK(copse_event_file_create(ctx, temp_path("run"), &f));
        check_picture(f, channels);
    }
}

static void wrong_values_are_refused(void **state)
{
    char tag[257];
    copse_event_file *f;
    (void)state;
    FAILS(COPSE_ERR_IO, copse_event_file_create(ctx, temp_path("no/such"), &f), "no/such");
    assert_null(f);
    FAILS(COPSE_ERR_IO, copse_event_file_create(ctx, temp_text("file", "text"), &f), "file");
    OK(copse_event_file_create(ctx, temp_path("run"), &f));
    memset(tag, 'x', 256);
    tag[256] = '\0';
    FAILS(COPSE_ERR_ARGUMENT, copse_event_file_scalar(f, "", 0, 1), "0 bytes");
    FAILS(COPSE_ERR_ARGUMENT, copse_event_file_scalar(f, tag, 0, 1), "256 bytes");
    FAILS(COPSE_ERR_ARGUMENT, copse_event_file_histogram(f, "h", (uint64_t)INT64_MAX + 1, NULL, 0),
          "9223372036854775808");
    OK(copse_event_file_scalar(f, tag + 1, 0, 1));
    OK(copse_event_file_close(&f));
    OK(copse_event_file_close(&f));
}

/* The system refuses to write more, as on a full disk. */
static void failures_of_the_disk_are_told(void **state)
{
    struct rlimit before, small;
    copse_status s = COPSE_OK;
    copse_event_file *f;
    (void)state;
    OK(copse_event_file_create(ctx, temp_path("run"), &f));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (uint64_t i = 0; s == COPSE_OK && i < 10000; i++)
        s = copse_event_file_scalar(f, "loss", i, 1);
    const copse_status then = copse_event_file_scalar(f, "loss", 0, 1),
                       at_end = copse_event_file_close(&f);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(s, COPSE_ERR_IO);
    assert_int_equal(then, COPSE_ERR_IO);
    assert_int_equal(at_end, COPSE_ERR_IO);
    assert_null(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_crc_32c),
        cmocka_unit_test_setup_teardown(numbers_are_in_the_file, open_all, close_all),
        cmocka_unit_test_setup_teardown(distributions_are_counted, open_all, close_all),
        cmocka_unit_test_setup_teardown(gradients_have_norms_and_magnitudes, open_all, close_all),
        cmocka_unit_test_setup_teardown(pictures_are_png, open_all, close_all),
        cmocka_unit_test_setup_teardown(wrong_values_are_refused, open_all, close_all),
        cmocka_unit_test_setup_teardown(failures_of_the_disk_are_told, open_all, close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
