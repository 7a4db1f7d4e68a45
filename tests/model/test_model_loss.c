/* SPDX-License-Identifier: MIT */
/* Losses of models by name: each has the value of its op, on the data of a model; texts that are
   refused. */
#include <math.h>

#include "copse/train/model_loss.h"
#include "core/model/model.h"
#include "tests/rig/train/model_rig.h"

enum { ROWS = 12, IN = 3, CLASSES = 3, TARGETS = 2 };

static float x[ROWS * IN];
static int32_t classes[ROWS];
static float numbers[ROWS * TARGETS];

static int setup(void **state)
{
    for (int i = 0; i < ROWS * IN; i++)
        x[i] = (float)((i * 37) % 11) / 4.0f - 1.25f;
    for (int i = 0; i < ROWS; i++)
        classes[i] = i * 5 % 7 % CLASSES;
    for (int i = 0; i < ROWS * TARGETS; i++)
        numbers[i] = (float)((i * 29) % 13) / 2.0f - 3.0f;
    return open_context(state);
}

/* ---- the definitions: of outputs h, and a label or targets; *weight is the share in the mean
   ---- */

typedef double loss_of(const float *h, const void *y, double *weight);

static int label(const void *y)
{
    return *(const int32_t *)y;
}

static double off(const float *h, const void *y, int i)
{
    return (double)h[i] - (double)((const float *)y)[i];
}

static double surprise(const float *h, int k)
{
    double sum = 0;
    for (int i = 0; i < CLASSES; i++)
        sum += exp((double)h[i]);
    return log(sum) - (double)h[k];
}

static double plain(const float *h, const void *y, double *weight)
{
    *weight = 1;
    return surprise(h, label(y));
}

/* 6 rows of class 0, 3 of 1 and of 2. */
static double balanced(const float *h, const void *y, double *weight)
{
    *weight = label(y) == 0 ? 12 / (3 * 6.0) : 12 / (3 * 3.0);
    return *weight * surprise(h, label(y));
}

/* Class 1 counts nothing. */
static double balanced_of_two(const float *h, const void *y, double *weight)
{
    *weight = label(y) == 0 ? 9 / (2 * 6.0) : label(y) == 1 ? 0 : 9 / (2 * 3.0);
    return *weight * surprise(h, label(y));
}

static double smoothed(const float *h, const void *y, double *weight)
{
    *weight = 1;
    return 0.7 * surprise(h, label(y)) + 0.1 * (surprise(h, 0) + surprise(h, 1) + surprise(h, 2));
}

static double weighted(const float *h, const void *y, double *weight)
{
    *weight = (double[]){ 1, 2, 0.5 }[label(y)];
    return surprise(h, label(y)) * *weight;
}

static double ignoring(const float *h, const void *y, double *weight)
{
    *weight = label(y) == 1 ? 0 : 1;
    return surprise(h, label(y)) * *weight;
}

static double binary(const float *h, const void *y, double *weight)
{
    double sum = 0;
    *weight = 1;
    for (int k = 0; k < CLASSES; k++)
        sum += k == label(y) ? 3 * log1p(exp(-(double)h[k])) : log1p(exp((double)h[k]));
    return sum / CLASSES;
}

static double squared(const float *h, const void *y, double *weight)
{
    *weight = 1;
    return (pow(off(h, y, 0), 2) + pow(off(h, y, 1), 2)) / 2;
}

static double bent(double d, double delta)
{
    return fabs(d) <= delta ? d * d / 2 : delta * (fabs(d) - delta / 2);
}

static double huber(const float *h, const void *y, double *weight)
{
    *weight = 1;
    return (bent(off(h, y, 0), 0.5) + bent(off(h, y, 1), 0.5)) / 2;
}

static double absolute(const float *h, const void *y, double *weight)
{
    *weight = 1;
    return (fabs(off(h, y, 0)) + fabs(off(h, y, 1))) / 2;
}

static double cosine(const float *h, const void *y, double *weight)
{
    const float *t = y;
    *weight = 1;
    return 1 - ((double)h[0] * (double)t[0] + (double)h[1] * (double)t[1]) /
                   (hypot((double)h[0], (double)h[1]) * hypot((double)t[0], (double)t[1]));
}

/* ---- tests ---- */

static copse_dataset *make_data(bool is_of_numbers)
{
    copse_dataset *data = NULL;
    const struct copse_array_view features = {
        .type = COPSE_F32, .rank = 2, .shape = { ROWS, IN }, .data = x
    };
    const struct copse_array_view labels = { .type = is_of_numbers ? COPSE_F32 : COPSE_I32,
                                             .rank = is_of_numbers ? 2 : 1,
                                             .shape = { ROWS, TARGETS },
                                             .data =
                                                 is_of_numbers ? (const void *)numbers : classes };
    OK(copse_dataset_create(ctx, &features, &labels, NULL, &data));
    return data;
}

/* The loss of a batch of all rows: NULL is that of every model. */
static double loss_with(const char *text, bool is_of_numbers, loss_of *definition, double *want)
{
    copse_strategy *st = strategy_of(ctx, 1);
    copse_dataset *data = make_data(is_of_numbers);
    copse_model *m = make_model(st, data, "dense out", NULL);
    copse_trainer *t = NULL;
    copse_loader *batches = NULL;
    struct copse_host_batch batch;
    struct copse_step_result result;
    float h[ROWS * CLASSES];
    double sum = 0, weights = 0;
    if (text)
        OK(copse_model_set_loss(m, text));
    OK(copse_model_balance_loss(m, data));
    OK(copse_trainer_create(
        st, &(struct copse_trainer_params){ .loss = copse_model_loss, .user = m }, &t));
    OK(copse_loader_create(data, &(struct copse_loader_params){ .batch = ROWS, .seed = 1 },
                           &batches));
    OK(copse_loader_start(batches, 0, 0));
    OK(copse_loader_next(batches, &batch));
    OK(copse_trainer_evaluate(t, &batch, &result));
    OK(copse__model_outputs(m, &batch, false, h));
    const char *y = copse_batch_column(&batch, "y")->data;
    const int outputs = is_of_numbers ? TARGETS : CLASSES;
    for (int i = 0; i < ROWS; i++) {
        double weight;
        sum += definition(
            h + i * outputs,
            y + (size_t)i * (is_of_numbers ? TARGETS * sizeof(float) : sizeof(int32_t)), &weight);
        weights += weight;
    }
    *want = sum / weights;
    copse_loader_release(&batches);
    copse_trainer_release(&t);
    copse_model_release(&m);
    copse_dataset_release(&data);
    copse_strategy_release(&st);
    return (double)result.loss;
}

static void losses_have_their_values(void **state)
{
    static const struct {
        const char *text;
        bool is_of_numbers;
        loss_of *definition;
    } list[] = {
        { NULL, false, plain },
        { "cross_entropy", false, plain },
        { " cross_entropy  smoothing=0.3 ", false, smoothed },
        { "cross_entropy weights=1,2,0.5", false, weighted },
        { "cross_entropy weights=balanced", false, balanced },
        { "cross_entropy weights=1,2,0.5 weights=balanced", false, balanced },
        { "cross_entropy weights=balanced weights=1,2,0.5", false, weighted },
        { "cross_entropy weights=balanced ignore=1", false, balanced_of_two },
        { "cross_entropy ignore=1", false, ignoring },
        { "binary_cross_entropy positive=3", false, binary },
        { NULL, true, squared },
        { "mean_squared_error", true, squared },
        { "huber delta=0.5", true, huber },
        { "smooth_l1 beta=0", true, absolute },
        { "cosine", true, cosine },
    };
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(list); i++) {
        double want;
        const double is = loss_with(list[i].text, list[i].is_of_numbers, list[i].definition, &want);
        if (!(fabs(is - want) <= 1e-5 * (1 + fabs(want))))
            fail_msg("%s: %.9g, not %.9g", list[i].text ? list[i].text : "none", is, want);
    }
}

static void wrong_texts_are_refused(void **state)
{
    static const char *const wrong[][2] = {
        { "crossentropy", "there is no loss 'crossentropy': it is one of cross_entropy, "
                          "binary_cross_entropy, mean_squared_error, "
                          "huber, smooth_l1, cosine" },
        { "", "there is no loss ''" },
        { "huber beta=1", "loss huber: 'beta=1' is no setting with its number; it has delta=" },
        { "huber delta", "'delta' is no setting" },
        { "cross_entropy weights=balancd",
          "it has smoothing=, weights=, ignore=; write weights=balanced, or weights=W,W,... with" },
        { "huber weights=balanced", "is no setting with its number; it has delta=" },
        { "huber delta=", "'delta=' is no setting" },
        { "huber delta=1,2", "'delta=1,2' is no setting" },
        { "huber delta=0", "a number > 0 is needed" },
        { "huber delta=-1", "'delta=-1' is no setting" },
        { "cosine delta=1", "it has none" },
        { "cross_entropy smoothing=1.5", "a number from 0 to 1 is needed" },
        { "cross_entropy ignore=0.5", "the number of a class is needed" },
        { "cross_entropy weights=Balanced", "it has smoothing=, weights=, ignore=" },
        { "binary_cross_entropy weights=balanced", "it has positive=" },
        { "cross_entropy weights=1,nan,1", "it has smoothing=, weights=, ignore=" },
    };
    copse_strategy *st = strategy_of(ctx, 1);
    copse_dataset *data = make_data(false), *other = make_data(true);
    copse_model *m = make_model(st, data, "dense out", "a"),
                *n = make_model(st, other, "dense out", "b");
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(wrong); i++) {
        FAILS(COPSE_ERR_ARGUMENT, copse_model_check_loss(wrong[i][0]), wrong[i][1]);
        FAILS(COPSE_ERR_ARGUMENT, copse_model_set_loss(m, wrong[i][0]), wrong[i][1]);
    }
    FAILS(COPSE_ERR_ARGUMENT, copse_model_set_loss(m, "huber"),
          "huber is not one for classes: use one of cross_entropy, "
          "binary_cross_entropy");
    FAILS(COPSE_ERR_ARGUMENT, copse_model_set_loss(n, "cross_entropy"),
          "use one of mean_squared_error, huber, smooth_l1, cosine");
    FAILS(COPSE_ERR_ARGUMENT, copse_model_set_loss(m, "cross_entropy weights=1,2"),
          "2 weights for 3 classes");
    FAILS(COPSE_ERR_ARGUMENT, copse_model_set_loss(NULL, "huber"), "NULL");
    FAILS(COPSE_ERR_ARGUMENT, copse_model_set_loss(m, NULL), "NULL");
    FAILS(COPSE_ERR_ARGUMENT, copse_model_check_loss(NULL), "NULL");
    copse_model_release(&m);
    copse_model_release(&n);
    copse_dataset_release(&data);
    copse_dataset_release(&other);
    copse_strategy_release(&st);
}

/* A trainer says what is missing; data of another kind is refused; copse_model_fit needs no call. */
static void balanced_weights_need_data(void **state)
{
    copse_strategy *st = strategy_of(ctx, 1);
    copse_dataset *data = make_data(false), *other = make_data(true), *more;
    copse_model *m = make_model(st, data, "dense out", "a");
    copse_trainer *t = NULL;
    copse_loader *batches = NULL;
    struct copse_host_batch batch;
    int32_t four[ROWS];
    (void)state;
    OK(copse_model_set_loss(m, "cross_entropy weights=balanced"));
    OK(copse_trainer_create(
        st, &(struct copse_trainer_params){ .loss = copse_model_loss, .user = m }, &t));
    OK(copse_loader_create(data, &(struct copse_loader_params){ .batch = ROWS, .seed = 1 },
                           &batches));
    OK(copse_loader_start(batches, 0, 0));
    OK(copse_loader_next(batches, &batch));
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_step(t, &batch),
          "call copse_model_balance_loss with the data that train");
    copse_trainer_release(&t);
    FAILS(COPSE_ERR_ARGUMENT, copse_model_balance_loss(m, other), "which the data lacks");
    for (int i = 0; i < ROWS; i++)
        four[i] = i % 4;
    OK(copse_dataset_create(
        ctx,
        &(struct copse_array_view){
            .type = COPSE_F32, .rank = 2, .shape = { ROWS, IN }, .data = x },
        &(struct copse_array_view){ .type = COPSE_I32, .rank = 1, .shape = { ROWS }, .data = four },
        NULL, &more));
    FAILS(COPSE_ERR_ARGUMENT, copse_model_balance_loss(m, more), "4 classes, the model 3");
    OK(copse_model_fit(m, data, &(struct copse_model_fit_params){ .epochs = 1 }));
    copse_loader_release(&batches);
    copse_dataset_release(&more);
    copse_dataset_release(&data);
    copse_dataset_release(&other);
    copse_model_release(&m);
    copse_strategy_release(&st);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_have_their_values),
        cmocka_unit_test(wrong_texts_are_refused),
        cmocka_unit_test(balanced_weights_need_data),
    };
    return cmocka_run_group_tests(tests, setup, close_context);
}
