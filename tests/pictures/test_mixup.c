/* SPDX-License-Identifier: MIT */
/* Mixup: the drawn parts, the pixels and labels of a batch, the loss of a model, and what is refused. */
#include <math.h>

#include "copse/data/pictures.h"
#include "copse/train/fine_tune.h"
#include "copse/train/model_loss.h"

#include "core/pictures/augment.h"
#include "tests/rig/train/model_rig.h"

enum { ROWS = 29, W = 3, H = 2, PIXELS = W * H, CLASSES = 4, BATCH = 8 };

static copse_strategy *st;

static uint8_t pixel(uint32_t row, size_t i)
{
    return (uint8_t)(row * 37 + i * 59);
}

static int32_t label(uint32_t row)
{
    return (int32_t)(row % CLASSES);
}

static int setup(void **state)
{
    if (open_context(state))
        return 1;
    st = rig_strategy(1, NULL);
    return 0;
}

static int teardown(void **state)
{
    copse_strategy_release(&st);
    return close_context(state);
}

static copse_dataset *pictures(bool has_labels, copse_task task)
{
    static uint8_t x[ROWS * PIXELS];
    static float y[ROWS];
    copse_dataset *data = NULL;
    for (uint32_t r = 0; r < ROWS; r++) {
        y[r] = (float)label(r);
        for (size_t i = 0; i < PIXELS; i++)
            x[r * PIXELS + i] = pixel(r, i);
    }
    const struct copse_array_view
        features = { .type = COPSE_U8, .rank = 3, .shape = { ROWS, H, W }, .data = x },
        labels = { .type = COPSE_F32, .rank = 1, .shape = { ROWS }, .data = y };
    OK(copse_dataset_create(ctx, &features, has_labels ? &labels : NULL,
                            &(struct copse_dataset_params){ .task = task }, &data));
    return data;
}

/* ---- the part ---- */

/* Of Beta(a, a) the squared distance from 1/2 has the mean 1 / (4 (2 a + 1)), also of the larger part. */
static void parts_are_of_the_distribution(void **state)
{
    enum { DRAWS = 20000 };
    static const uint32_t hundredths[] = { 1, 20, 40, 100 };
    (void)state;
    for (size_t k = 0; k < COPSE_COUNT(hundredths); k++) {
        const struct copse_augment a = { .mixup = hundredths[k] };
        double sum = 0;
        for (uint32_t i = 0; i < DRAWS; i++) {
            const uint32_t part = copse__augment_draw_part(&a, 9, 4, i);
            assert_in_range(part, COPSE_MIX_ALL / 2, COPSE_MIX_ALL);
            assert_int_equal(part, copse__augment_draw_part(&a, 9, 4, i));
            sum += (part / 256.0 - 0.5) * (part / 256.0 - 0.5);
        }
        const double expected = 1 / (4 * (hundredths[k] / 50.0 + 1));
        if (fabs(sum / DRAWS - expected) > 0.004)
            fail_msg("%u hundredths: %g instead of %g", hundredths[k], sum / DRAWS, expected);
    }
}

static void pixels_are_rounded(void **state)
{
    uint8_t a[] = { 0, 255, 10, 255 }, b[] = { 255, 255, 13, 0 };
    (void)state;
    copse__augment_mix(a, b, 4, COPSE_MIX_ALL);
    assert_true(a[0] == 0 && b[0] == 255);
    copse__augment_mix(a, b, 4, 192); /* 3/4 and 1/4 */
    assert_true(a[0] == 64 && a[1] == 255 && a[2] == 11 && a[3] == 191);
    assert_true(b[0] == 191 && b[1] == 255 && b[2] == 12 && b[3] == 64);
}

/* ---- batches ---- */

struct seen {
    uint8_t x[ROWS][PIXELS];
    int32_t y[ROWS], other[ROWS];
    float part[ROWS];
    uint32_t rows[ROWS];
};

/* All rows of an epoch from batch `first` on, in their order. */
static void walk(copse_dataset *data, const char *augment, uint32_t prefetch, uint32_t epoch,
                 size_t first, uint64_t seed, struct seen *to)
{
    copse_loader *b = NULL;
    struct copse_host_batch t;
    copse_status s;
    OK(copse_loader_create(
        data,
        &(struct copse_loader_params){
            .batch = BATCH, .seed = seed, .prefetch = prefetch, .augment = augment },
        &b));
    memset(to, 0, sizeof *to);
    OK(copse_loader_start(b, epoch, first));
    for (size_t at = first * BATCH; (s = copse_loader_next(b, &t)) == COPSE_OK; at += t.count) {
        const struct copse_column *other = copse_batch_column(&t, COPSE_MIXUP_LABEL),
                                  *part = copse_batch_column(&t, COPSE_MIXUP_PART);
        memcpy(to->rows + at, t.rows, t.count * sizeof *t.rows);
        memcpy(to->x[at], copse_batch_column(&t, "x")->data, t.count * PIXELS);
        memcpy(to->y + at, copse_batch_column(&t, "y")->data, t.count * sizeof *to->y);
        if (other)
            memcpy(to->other + at, other->data, t.count * sizeof *to->other);
        if (part)
            memcpy(to->part + at, part->data, t.count * sizeof *to->part);
        assert_int_equal(t.column_count, augment ? 4 : 2);
    }
    assert_int_equal(s, COPSE_ERR_END);
    copse_loader_release(&b);
}

static void neighbours_are_mixed(void **state)
{
    static struct seen plain, mixed, again, rest;
    copse_dataset *data = pictures(true, COPSE_TASK_CLASSIFICATION);
    bool is_any = false;
    (void)state;
    walk(data, NULL, 0, 3, 0, 7, &plain);
    walk(data, "mixup 0.4", 0, 3, 0, 7, &mixed);
    assert_memory_equal(plain.rows, mixed.rows, sizeof plain.rows);
    for (size_t i = 0; i < ROWS; i++) {
        const size_t pair = i ^ 1;
        assert_int_equal(mixed.y[i], label(plain.rows[i]));
        if (i == ROWS - 1) { /* 5 in the last batch: it is alone */
            assert_true(mixed.part[i] == 1 && mixed.other[i] == mixed.y[i]);
            assert_memory_equal(mixed.x[i], plain.x[i], PIXELS);
            continue;
        }
        const float part = mixed.part[i];
        assert_true(part >= 0.5f && part <= 1 && part == mixed.part[pair]);
        assert_int_equal(mixed.other[i], label(plain.rows[pair]));
        is_any |= part < 1;
        for (size_t k = 0; k < PIXELS; k++)
            assert_int_equal(mixed.x[i][k],
                             floorf(part * plain.x[i][k] + (1 - part) * plain.x[pair][k] + 0.5f));
    }
    assert_true(is_any);
    /* threads and the batch that a run goes on with change nothing; epoch and seed do */
    walk(data, "mixup 0.4", 3, 3, 0, 7, &again);
    assert_memory_equal(&mixed, &again, sizeof mixed);
    walk(data, "mixup 0.4", 2, 3, 2, 7, &rest);
    assert_memory_equal(mixed.x[2 * BATCH], rest.x[2 * BATCH], sizeof rest.x - 2 * BATCH * PIXELS);
    assert_memory_equal(mixed.part + 2 * BATCH, rest.part + 2 * BATCH,
                        (ROWS - 2 * BATCH) * sizeof(float));
    walk(data, "mixup 0.4", 0, 4, 0, 7, &again);
    assert_memory_not_equal(mixed.part, again.part, sizeof mixed.part);
    walk(data, "mixup 0.4", 0, 3, 0, 8, &again);
    assert_memory_not_equal(mixed.part, again.part, sizeof mixed.part);
    copse_dataset_release(&data);
}

static void what_is_refused(void **state)
{
    static const char *const wrong[] = { "mixup",      "mixup 0",     "mixup 0.0", "mixup 1.01",
                                         "mixup 2",    "mixup 0.123", "mixup .",   "mixup 0.",
                                         "mixup -0.2", "mixup nan" };
    copse_dataset *data = pictures(true, COPSE_TASK_CLASSIFICATION);
    copse_loader *b = NULL;
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(wrong); i++)
        FAILS(COPSE_ERR_ARGUMENT, copse_augment_check(wrong[i]), "mixup");
    OK(copse_augment_check("mixup 1; flip"));
    OK(copse_augment_check("mixup 0.01"));
    struct copse_loader_params p = { .batch = 1, .augment = "mixup 0.2" };
    FAILS(COPSE_ERR_ARGUMENT, copse_loader_create(data, &p, &b), "batches of 2 examples or more");
    p = (struct copse_loader_params){ .batch = 2, .augment = "mixup 0.2", .no_shuffle = true };
    FAILS(COPSE_ERR_ARGUMENT, copse_loader_create(data, &p, &b), "in a random order");
    copse_dataset_release(&data);
    p.no_shuffle = false;
    for (int i = 0; i < 2; i++) {
        data = pictures(i == 0, COPSE_TASK_REGRESSION);
        FAILS(COPSE_ERR_ARGUMENT, copse_loader_create(data, &p, &b), "mixup mixes classes");
        copse_dataset_release(&data);
    }
}

/* ---- the loss ---- */

static double log_softmax(const double *z, int32_t c)
{
    double most = z[0], sum = 0;
    for (int i = 1; i < CLASSES; i++)
        most = fmax(most, z[i]);
    for (int i = 0; i < CLASSES; i++)
        sum += exp(z[i] - most);
    return z[c] - most - log(sum);
}

/* The loss of a batch by the weights of the network "dense out". */
static double expected_loss(copse_model *m, const struct copse_host_batch *t, double smoothing,
                            bool is_binary)
{
    const uint8_t *x = copse_batch_column(t, "x")->data;
    const int32_t *y = copse_batch_column(t, "y")->data,
                  *other = copse_batch_column(t, COPSE_MIXUP_LABEL)->data;
    const float *part = copse_batch_column(t, COPSE_MIXUP_PART)->data;
    float w[PIXELS * CLASSES], bias[CLASSES];
    size_t count;
    double all = 0;
    OK(copse_variable_read(copse_model_variables(m, &count)[0], 0, w));
    OK(copse_variable_read(copse_model_variables(m, &count)[1], 0, bias));
    for (size_t i = 0; i < t->count; i++) {
        double z[CLASSES], even = 0;
        for (int c = 0; c < CLASSES; c++) {
            z[c] = bias[c];
            for (size_t k = 0; k < PIXELS; k++)
                z[c] += x[i * PIXELS + k] / 255.0 * w[k * CLASSES + (size_t)c];
        }
        for (int c = 0; c < CLASSES; c++)
            even -= log_softmax(z, c) / CLASSES;
        for (int c = 0; is_binary && c < CLASSES; c++) {
            const double target = part[i] * (c == y[i]) + (1 - part[i]) * (c == other[i]);
            all += (target * log1p(exp(-z[c])) + (1 - target) * log1p(exp(z[c]))) / CLASSES;
        }
        if (!is_binary)
            all += (1 - smoothing) * (-part[i] * log_softmax(z, y[i]) -
                                      (1 - part[i]) * log_softmax(z, other[i])) +
                   smoothing * even;
    }
    return all / (double)t->count;
}

static void model_mixes_the_losses(void **state)
{
    static const struct {
        const char *loss;
        double smoothing;
        bool is_binary;
    } cases[] = { { NULL, 0, false },
                  { "cross_entropy", 0, false },
                  { "cross_entropy smoothing=0.2", 0.2, false },
                  { "binary_cross_entropy", 0, true } };
    (void)state;
    copse_dataset *data = pictures(true, COPSE_TASK_CLASSIFICATION);
    for (size_t i = 0; i < COPSE_COUNT(cases) + 2; i++) {
        copse_model *m = make_model(st, data, "flatten; dense out", "m");
        copse_loader *b = NULL;
        copse_trainer *t = NULL;
        struct copse_host_batch batch;
        struct copse_step_result result;
        const bool is_wrong = i >= COPSE_COUNT(cases);
        if (is_wrong)
            OK(copse_model_set_loss(m, i == COPSE_COUNT(cases) ? "cross_entropy weights=1,2,1,1"
                                                               : "cross_entropy ignore=1"));
        else if (cases[i].loss)
            OK(copse_model_set_loss(m, cases[i].loss));
        OK(copse_trainer_create(st,
                                &(struct copse_trainer_params){
                                    .loss = copse_model_loss,
                                    .user = m,
                                    .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.1f } },
                                &t));
        OK(copse_loader_create(
            data, &(struct copse_loader_params){ .batch = BATCH, .augment = "mixup 0.5" }, &b));
        copse_status s;
        while ((s = copse_loader_next(b, &batch)) == COPSE_OK) {
            if (is_wrong) {
                FAILS(COPSE_ERR_ARGUMENT, copse_trainer_step(t, &batch),
                      "mixup needs it without weights= and ignore=");
                continue;
            }
            const double expected =
                expected_loss(m, &batch, cases[i].smoothing, cases[i].is_binary);
            OK(copse_trainer_step(t, &batch));
            OK(copse_trainer_result(t, true, &result));
            if (fabs(result.loss - expected) > 2e-6 * (1 + fabs(expected)))
                fail_msg("%s: loss %.9g instead of %.9g", cases[i].loss, result.loss, expected);
        }
        assert_int_equal(s, COPSE_ERR_END);
        copse_loader_release(&b);
        copse_trainer_release(&t);
        copse_model_release(&m);
    }
    copse_dataset_release(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_of_the_distribution), cmocka_unit_test(pixels_are_rounded),
        cmocka_unit_test(neighbours_are_mixed),          cmocka_unit_test(what_is_refused),
        cmocka_unit_test(model_mixes_the_losses),
    };
    return cmocka_run_group_tests_name("mixup", tests, setup, teardown);
}
