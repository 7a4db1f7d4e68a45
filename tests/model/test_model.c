/* SPDX-License-Identifier: MIT */
/* Models: what is trained and saved is loaded elsewhere and predicts the same; a file alone is
   enough to compute the predictions; evaluation agrees with a count by hand; what is no model file
   is refused in words. */
#include "core/model/class_scores.h"
#include "tests/rig/train/model_rig.h"

#include "copse/state.h"

enum { ROWS = 130, IN = 5, CLASSES = 3, HIDDEN = 8 };

static float x[ROWS * IN];
static int32_t y[ROWS];
static float target[ROWS];

static int setup(void **state)
{
    uint32_t r = 77;
    for (int i = 0; i < ROWS * IN; i++) {
        r = r * 1664525u + 1013904223u;
        x[i] = (float)(r >> 8) / 16777216.0f * 10.0f - 3.0f;
    }
    for (int i = 0; i < ROWS; i++) {
        const float *row = x + i * IN;
        y[i] = row[0] + row[1] > 6.0f ? 2 : row[2] > 2.0f;
        target[i] = 500.0f + 40.0f * row[0] - 25.0f * row[3] + 0.5f * (float)(i % 7);
    }
    temp_begin();
    return open_context(state);
}

static int teardown(void **state)
{
    temp_end();
    return close_context(state);
}

/* ---- data and models ---- */

static copse_dataset *make_data(copse_context *in, bool is_regression, bool has_labels,
                                const copse_schema *schema)
{
    copse_dataset *data = NULL;
    const struct copse_array_view features = {
        .type = COPSE_F32, .rank = 2, .shape = { ROWS, IN }, .data = x
    };
    const struct copse_array_view labels = { .type = is_regression ? COPSE_F32 : COPSE_I32,
                                             .rank = 1,
                                             .shape = { ROWS },
                                             .data = is_regression ? (const void *)target : y };
    OK(copse_dataset_create(
        in, &features, has_labels ? &labels : NULL,
        &(struct copse_dataset_params){ .scale = COPSE_SCALE_STANDARD, .schema = schema }, &data));
    return data;
}

static const char *const network = "dense 8 relu; dropout 0.1; dense out";

/* ---- the same values elsewhere ---- */

/* Trained on three replicas; loaded in a context of its own, on one, from data without labels. */
static void a_loaded_model_predicts_the_same(void **state)
{
    (void)state;
    for (int is_regression = 0; is_regression < 2; is_regression++) {
        const int outputs = is_regression ? 1 : CLASSES;
        float here[ROWS * CLASSES], there[ROWS * CLASSES];
        const char *path = temp_path("m.safetensors");
        copse_strategy *st = strategy_of(ctx, 3);
        copse_dataset *data = make_data(ctx, is_regression, true, NULL);
        copse_model *m = make_model(st, data, network, NULL), *loaded = NULL;
        copse_trainer *t = train(m, data, 20);
        OK(copse_model_predict(m, data, here));
        OK(copse_model_save(m, path, NULL));

        copse_context *other = NULL;
        OK(copse_context_create(NULL, &other));
        copse_strategy *one = strategy_of(other, 1);
        OK(copse_model_load(one, path, NULL, &loaded));
        copse_dataset *unlabelled =
            make_data(other, is_regression, false, copse_model_schema(loaded));
        OK(copse_model_predict(loaded, unlabelled, there));
        for (int i = 0; i < ROWS * outputs; i++)
            rig_near((double)there[i], (double)here[i], 1e-5 * (1.0 + fabs((double)here[i])));
        /* It is saved to the same bytes. */
        OK(copse_model_save(loaded, temp_path("again.safetensors"), NULL));
        temp_check_same(path, temp_path("again.safetensors"));

        copse_dataset_release(&unlabelled);
        copse_model_release(&loaded);
        copse_strategy_release(&one);
        copse_context_release(&other);
        copse_trainer_release(&t);
        copse_model_release(&m);
        copse_dataset_release(&data);
        copse_strategy_release(&st);
    }
}

struct epochs {
    uint32_t count;
    uint64_t steps;
    double first, last, held_out;
};

static copse_status keep_epoch(void *user, const struct copse_epoch *e, bool *stop)
{
    struct epochs *to = user;
    if (e->epoch == 1)
        to->first = e->training.loss;
    to->last = e->training.loss;
    to->held_out = e->held_out.loss;
    to->steps = e->training.step;
    to->count++;
    *stop = to->count == 6;
    return COPSE_OK;
}

/* One call trains as a trainer and a loader do. Another model of the strategy keeps its values, also
   with a decay of all weights. */
static void a_fit_trains_one_model(void **state)
{
    float by_fit[ROWS * CLASSES], by_hand[ROWS * CLASSES], beside[2][ROWS * CLASSES];
    const struct copse_optimizer_params decay = { .kind = COPSE_ADAMW, .weight_decay = 0.1f };
    struct epochs seen = { 0 };
    copse_loader *batches;
    copse_trainer *t;
    (void)state;
    copse_strategy *st = strategy_of(ctx, 2), *other = strategy_of(ctx, 2);
    copse_dataset *data = make_data(ctx, false, true, NULL);
    copse_model *m = make_model(st, data, network, "one"),
                *still = make_model(st, data, network, "two"),
                *again = make_model(other, data, network, "one");
    OK(copse_model_predict(still, data, beside[0]));
    OK(copse_model_fit(m, data,
                       &(struct copse_model_fit_params){ .epochs = 9,
                                                         .seed = 5,
                                                         .optimizer = decay,
                                                         .held_out = data,
                                                         .on_epoch = keep_epoch,
                                                         .user = &seen }));
    assert_int_equal(seen.count, 6);     /* the function stopped it */
    assert_int_equal(seen.steps, 6 * 3); /* batches of 64 of 130 rows */
    assert_true(seen.last < seen.first && seen.held_out < seen.first);

    OK(copse_loader_create(data, &(struct copse_loader_params){ .batch = 64, .seed = 5 },
                           &batches));
    OK(copse_trainer_create(
        other,
        &(struct copse_trainer_params){
            .loss = copse_model_loss, .user = again, .optimizer = decay, .seed = 5 },
        &t));
    OK(copse_trainer_fit(t, batches, &(struct copse_fit_params){ .epochs = 6 }));
    OK(copse_model_predict(m, data, by_fit));
    OK(copse_model_predict(again, data, by_hand));
    OK(copse_model_predict(still, data, beside[1]));
    assert_memory_equal(by_fit, by_hand, sizeof by_fit);
    assert_memory_equal(beside[0], beside[1], sizeof beside[0]);
    copse_trainer_release(&t);
    copse_loader_release(&batches);

    const struct copse_model_fit_params nothing = { .epochs = 0 };
    FAILS(COPSE_ERR_ARGUMENT, copse_model_fit(m, data, &nothing), "epochs is 0");
    const struct copse_model_fit_params large = { .epochs = 1, .batch = ROWS + 1 };
    FAILS(COPSE_ERR_ARGUMENT, copse_model_fit(m, data, &large), "larger than the data");
    copse_model_release(&again);
    copse_model_release(&still);
    copse_model_release(&m);
    copse_dataset_release(&data);
    copse_strategy_release(&other);
    copse_strategy_release(&st);
}

/* Layers of images, as the lines of a description file; the file has their description and their
   variables. */
static void layers_of_images_are_saved_and_loaded(void **state)
{
    enum { SIDE = 4, COUNT = 48 };
    static const char text[] =
        "conv 4 3x3 stride=2\nprelu\nadaptive_pool 1 # encoder\n"
        "conv_transposed 4 2x2 stride=2; prelu slope=0\nresize linear factor=2; pixel_shuffle 2\n"
        "flatten; dense out";
    float pictures[COUNT * SIDE * SIDE], here[COUNT * 2], there[COUNT * 2];
    int32_t classes[COUNT];
    const struct copse_array_view features = {
        .type = COPSE_F32, .rank = 3, .shape = { COUNT, SIDE, SIDE }, .data = pictures
    };
    const struct copse_array_view labels = {
        .type = COPSE_I32, .rank = 1, .shape = { COUNT }, .data = classes
    };
    const char *path = temp_path("images.safetensors");
    copse_checkpoint *file = NULL;
    copse_dataset *data = NULL;
    copse_model *loaded = NULL;
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        classes[i] = i % 2;
        for (int k = 0; k < SIDE * SIDE; k++) /* brighter at the left, or at the right */
            pictures[i * SIDE * SIDE + k] =
                x[(i + k) % (ROWS * IN)] / 10 + (float)((k % SIDE < SIDE / 2) == classes[i]);
    }
    OK(copse_dataset_create(ctx, &features, &labels, NULL, &data));
    copse_strategy *st = strategy_of(ctx, 1), *other = strategy_of(ctx, 1);
    copse_model *m = make_model(st, data, text, NULL);
    copse_trainer *t = train(m, data, 20);
    OK(copse_model_predict(m, data, here));
    OK(copse_model_save(m, path, NULL));
    OK(copse_checkpoint_read(ctx, path, &file));
    assert_string_equal(line_of(file, "network"),
                        "conv 4 3x3 stride=2; prelu; adaptive_pool 1; conv_transposed 4 2x2 "
                        "stride=2; prelu slope=0; "
                        "resize linear factor=2; pixel_shuffle 2; flatten; dense 2");
    assert_non_null(copse_checkpoint_find(file, "conv_transposed1.weight"));
    assert_true(array_of(file, "prelu1.slope", 4, 0)[0] != 0.25f);
    assert_true(array_of(file, "prelu2.slope", 4, 0)[0] != 0.0f);
    OK(copse_model_load(other, path, NULL, &loaded));
    OK(copse_model_predict(loaded, data, there));
    assert_memory_equal(here, there, sizeof here);
    copse_checkpoint_release(&file);
    copse_trainer_release(&t);
    copse_model_release(&loaded);
    copse_model_release(&m);
    copse_dataset_release(&data);
    copse_strategy_release(&other);
    copse_strategy_release(&st);
}

/* ---- the file alone is enough ---- */

static double number_behind(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    assert_non_null(at);
    return strtod(at + strlen(key), NULL);
}

/* Means and deviations of the features, "[a,b,...]". */
static void numbers_of(const char *text, const char *key, double *to, size_t count)
{
    const char *at = strstr(text, key);
    assert_non_null(at);
    char *end = (char *)(uintptr_t)at + strlen(key);
    for (size_t i = 0; i < count; i++)
        to[i] = strtod(end + 1, &end);
}

/* docs/model-file.md in C: scale as the schema says, dense layers, softmax or the target's unit. */
static void by_hand(const copse_checkpoint *file, bool is_regression, double *out)
{
    const int outputs = is_regression ? 1 : CLASSES;
    const char *schema = line_of(file, "schema"), *scaling = strstr(schema, "\"scaling\"");
    const float *w1 = array_of(file, "dense1.weight", IN, HIDDEN),
                *b1 = array_of(file, "dense1.bias", HIDDEN, 0);
    const float *w2 = array_of(file, "dense2.weight", HIDDEN, (size_t)outputs),
                *b2 = array_of(file, "dense2.bias", (size_t)outputs, 0);
    double mean[IN], scale[IN];
    assert_non_null(scaling);
    numbers_of(scaling, "\"mean\":", mean, IN);
    numbers_of(scaling, "\"scale\":", scale, IN);
    for (int r = 0; r < ROWS; r++) {
        double h[HIDDEN], sum = 0.0, *row = out + r * outputs;
        for (int k = 0; k < HIDDEN; k++) {
            h[k] = (double)b1[k];
            for (int i = 0; i < IN; i++)
                h[k] += ((double)x[r * IN + i] - mean[i]) / scale[i] * (double)w1[i * HIDDEN + k];
            h[k] = h[k] > 0.0 ? h[k] : 0.0;
        }
        for (int o = 0; o < outputs; o++) {
            row[o] = (double)b2[o];
            for (int k = 0; k < HIDDEN; k++)
                row[o] += h[k] * (double)w2[k * outputs + o];
            sum += exp(row[o]);
        }
        for (int o = 0; o < outputs; o++)
            row[o] = is_regression
                         ? row[o] * number_behind(strstr(schema, "\"targets\""), "\"scale\":") +
                               number_behind(strstr(schema, "\"targets\""), "\"mean\":")
                         : exp(row[o]) / sum;
    }
}

static void the_file_alone_gives_the_predictions(void **state)
{
    (void)state;
    for (int is_regression = 0; is_regression < 2; is_regression++) {
        const int outputs = is_regression ? 1 : CLASSES;
        float values[ROWS * CLASSES];
        double expected[ROWS * CLASSES];
        copse_checkpoint *file = NULL;
        copse_strategy *st = strategy_of(ctx, 2);
        copse_dataset *data = make_data(ctx, is_regression, true, NULL);
        copse_model *m = make_model(st, data, network, NULL);
        copse_trainer *t = train(m, data, 10);
        OK(copse_model_predict(m, data, values));
        OK(copse_model_save(m, temp_path("hand.safetensors"), NULL));
        OK(copse_checkpoint_read(ctx, temp_path("hand.safetensors"), &file));
        assert_string_equal(line_of(file, "format"), "copse-model-1");
        assert_non_null(strstr(line_of(file, "network"), is_regression ? "dense 1" : "dense 3"));
        assert_string_equal(line_of(file, "seed"), "3");
        by_hand(file, is_regression, expected);
        for (int i = 0; i < ROWS * outputs; i++)
            rig_near((double)values[i], expected[i], 1e-5 * (1.0 + fabs(expected[i])));
        copse_checkpoint_release(&file);
        copse_trainer_release(&t);
        copse_model_release(&m);
        copse_dataset_release(&data);
        copse_strategy_release(&st);
    }
}

/* 8-bit pictures: the device converts and scales them. */
static void bytes_are_scaled_by_the_schema(void **state)
{
    (void)state;
    static const char schema_text[] =
        "{\"version\":1,\"kind\":\"pictures\",\"task\":\"classification\",\"input\":{\"type\":"
        "\"u8\",\"shape\":[2,2],"
        "\"offset\":16,\"scale\":0.25},\"classes\":2,\"numbered\":true}";
    static const uint8_t pixels[3][4] = { { 16, 20, 24, 28 },
                                          { 0, 255, 16, 17 },
                                          { 16, 16, 16, 16 } };
    const float w[8] = { 1, 0, 0, 1, 0.5f, 0, 0, -1 };
    copse_schema *schema = NULL;
    copse_dataset *data = NULL;
    copse_model *m = NULL;
    float values[6];
    OK(copse_schema_parse(ctx, schema_text, &schema));
    copse_strategy *st = strategy_of(ctx, 2);
    OK(copse_model_create(
        st, schema, &(struct copse_model_params){ .network = "flatten; dense out bias=no" }, &m));
    copse_variable *const *list;
    size_t count;
    copse_strategy_variables(st, &list, &count);
    assert_int_equal(count, 1);
    OK(copse_variable_assign(list[0], w));
    OK(copse_dataset_columns(
        ctx, &(struct copse_column){ "x", COPSE_U8, COPSE_SHAPE(2, 2), pixels }, 1, 3, &data));
    OK(copse_model_predict(m, data, values));
    for (int r = 0; r < 3; r++) {
        double h[2] = { 0.0, 0.0 };
        for (int i = 0; i < 8; i++)
            h[i % 2] += ((double)pixels[r][i / 2] - 16.0) * 0.25 * (double)w[i];
        rig_near((double)values[2 * r], 1.0 / (1.0 + exp(h[1] - h[0])), 1e-6);
        rig_near((double)values[2 * r] + (double)values[2 * r + 1], 1.0, 1e-6);
    }
    copse_dataset_release(&data);
    copse_model_release(&m);
    copse_schema_release(&schema);
    copse_strategy_release(&st);
}

/* Arrays of bytes are treated as the same pictures in files, in training and in predictions. */
static void pictures_in_memory_are_those_of_a_file(void **state)
{
    enum { PICTURES = 40, PIXELS = 6 };
    static uint8_t file[16 + PICTURES * PIXELS] = { 0, 0, 8, 3, 0, 0, 0, PICTURES,
                                                    0, 0, 0, 3, 0, 0, 0, 2 };
    static uint8_t marks[8 + PICTURES] = { 0, 0, 8, 1, 0, 0, 0, PICTURES };
    float values[2][2 * PICTURES], by_file[2 * PICTURES];
    copse_dataset *data[2] = { NULL, NULL }, *unlabelled = NULL;
    (void)state;
    for (int i = 0; i < PICTURES * PIXELS; i++)
        file[16 + i] = (uint8_t)(i * 89 + i / PIXELS % 2 * 40);
    for (int i = 0; i < PICTURES; i++)
        marks[8 + i] = (uint8_t)(file[16 + i * PIXELS] > 100);
    temp_write("train-images-idx3-ubyte", file, sizeof file);
    temp_write("train-labels-idx1-ubyte", marks, sizeof marks);
    const struct copse_array_view x8 = { COPSE_U8, 3, { PICTURES, 3, 2 }, file + 16 },
                                  y8 = { COPSE_U8, 1, { PICTURES }, marks + 8 };
    OK(copse_dataset_open(ctx, temp_path("train-images-idx3-ubyte"), NULL, &data[0]));
    OK(copse_dataset_create(ctx, &x8, &y8, NULL, &data[1]));
    OK(copse_dataset_create(ctx, &x8, NULL, NULL, &unlabelled));
    assert_string_equal(copse_schema_text(copse_dataset_schema(data[0])),
                        copse_schema_text(copse_dataset_schema(data[1])));
    for (int i = 0; i < 2; i++) {
        copse_strategy *st = strategy_of(ctx, 2);
        copse_model *m = make_model(st, data[i], "flatten; dense 8 relu; dense out", NULL);
        copse_trainer *t = train(m, data[i], 4);
        OK(copse_model_predict(m, unlabelled, values[i]));
        if (i == 0)
            OK(copse_model_predict(m, data[0], by_file));
        copse_trainer_release(&t);
        copse_model_release(&m);
        copse_strategy_release(&st);
    }
    assert_memory_equal(values[0], by_file, sizeof by_file);
    assert_memory_equal(values[0], values[1], sizeof by_file);
    /* a scale of the caller's makes them numbers */
    struct copse_column column;
    copse_dataset_release(&unlabelled);
    OK(copse_dataset_create(
        ctx, &x8, NULL, &(struct copse_dataset_params){ .scale = COPSE_SCALE_MAX }, &unlabelled));
    OK(copse_dataset_column(unlabelled, 0, &column));
    assert_int_equal(column.type, COPSE_F32);
    for (int i = 0; i < 2; i++)
        copse_dataset_release(&data[i]);
    copse_dataset_release(&unlabelled);
}

/* ---- evaluation ---- */

/* The same target in a unit a thousand times as large, and without the features' influence. */
static void each_target_is_measured_in_its_own_unit(void **state)
{
    (void)state;
    enum { TARGETS = 2 };
    static float two[ROWS][TARGETS], values[ROWS][TARGETS];
    double mae[TARGETS], r2[TARGETS];
    struct copse_evaluation e;
    for (int r = 0; r < ROWS; r++) {
        two[r][0] = target[r];
        two[r][1] = 1000.0f * (float)(r % 2) + 3.0f * target[r];
    }
    const struct copse_array_view features = {
        .type = COPSE_F32, .rank = 2, .shape = { ROWS, IN }, .data = x
    };
    const struct copse_array_view labels = {
        .type = COPSE_F32, .rank = 2, .shape = { ROWS, TARGETS }, .data = two
    };
    copse_strategy *st = strategy_of(ctx, 2);
    copse_dataset *data = NULL;
    OK(copse_dataset_create(ctx, &features, &labels,
                            &(struct copse_dataset_params){ .scale = COPSE_SCALE_STANDARD },
                            &data));
    copse_model *m = make_model(st, data, network, NULL);
    copse_trainer *t = train(m, data, 20);
    OK(copse_model_predict(m, data, *values));
    OK(copse_model_evaluate(
        m, data, &(struct copse_evaluation_params){ .target_r2 = r2, .target_mae = mae }, &e));
    for (int i = 0; i < TARGETS; i++) {
        double mean = 0.0, spread = 0.0, squares = 0.0, absolute = 0.0;
        for (int r = 0; r < ROWS; r++)
            mean += (double)two[r][i] / ROWS;
        for (int r = 0; r < ROWS; r++) {
            const double error = (double)two[r][i] - (double)values[r][i],
                         from_mean = (double)two[r][i] - mean;
            spread += from_mean * from_mean;
            squares += error * error;
            absolute += fabs(error) / ROWS;
        }
        rig_near(r2[i], 1.0 - squares / spread, 1e-4);
        rig_near(mae[i], absolute, 1e-3 * absolute);
    }
    rig_near(e.r2, (r2[0] + r2[1]) / 2.0, 1e-12);
    rig_near(e.mae, (mae[0] + mae[1]) / 2.0, 1e-9 * e.mae);
    assert_true(mae[1] > 2.0 * mae[0]);
    copse_trainer_release(&t);
    copse_model_release(&m);
    copse_dataset_release(&data);
    copse_strategy_release(&st);
}

/* By the definitions, over all pairs of rows. */
static void scores_are(const struct copse_evaluation *e, const uint64_t *confusion,
                       const double *auc, const float *values)
{
    double recall = 0, f1 = 0;
    for (int c = 0; c < CLASSES; c++) {
        double rows = 0, guessed = 0, before = 0, pairs = 0;
        const double right = (double)confusion[c * CLASSES + c];
        for (int k = 0; k < CLASSES; k++) {
            rows += (double)confusion[c * CLASSES + k];
            guessed += (double)confusion[k * CLASSES + c];
        }
        recall += right / rows / CLASSES;
        f1 += 2 * right / (rows + guessed) / CLASSES;
        for (int a = 0; a < ROWS; a++)
            for (int b = 0; b < ROWS && y[a] == c; b++) {
                const float mine = values[a * CLASSES + c], other = values[b * CLASSES + c];
                pairs += y[b] != c;
                before += y[b] == c ? 0 : mine > other ? 1 : mine == other ? 0.5 : 0;
            }
        rig_near(auc[c], before / pairs, 1e-5);
    }
    rig_near(e->balanced_accuracy, recall, 1e-12);
    rig_near(e->f1, f1, 1e-12);
}

/* Equal scores, classes that are missing, scores that are no numbers. */
static void areas_under_the_curve(void **state)
{
    struct copse_ranked list[] = {
        { 0.5f, true }, { 0.5f, false }, { 0.9f, true }, { 0.1f, false }
    };
    const struct copse_class_count none[2] = { { 0, 0, 0 } };
    struct copse_evaluation e;
    (void)state;
    rig_near(copse__class_auc(list, 4), 0.875, 1e-15);
    list[0] = (struct copse_ranked){ INFINITY, false };
    list[1] = (struct copse_ranked){ -INFINITY, true };
    rig_near(copse__class_auc(list, 2), 0, 1e-15);
    assert_true(isnan(copse__class_auc(list, 1)));
    assert_true(isnan(copse__class_auc(list, 0)));
    list[1].score = NAN;
    assert_true(isnan(copse__class_auc(list, 4)));
    copse__class_scores(none, 2, &e);
    assert_true(isnan(e.balanced_accuracy) && isnan(e.f1));
    /* a class that is only predicted: in F1, not in the mean recall */
    const struct copse_class_count two[2] = { { .rows = 4, .predicted = 3, .right = 3 },
                                              { .rows = 0, .predicted = 1, .right = 0 } };
    copse__class_scores(two, 2, &e);
    rig_near(e.balanced_accuracy, 0.75, 1e-15);
    rig_near(e.f1, 3.0 / 7, 1e-15);
}

static void evaluation_agrees_with_a_count(void **state)
{
    (void)state;
    enum { WORST = 7 };
    float values[ROWS * CLASSES];
    uint64_t confusion[CLASSES * CLASSES], counted[CLASSES * CLASSES] = { 0 };
    uint32_t worst[WORST];
    double losses[WORST], auc[CLASSES], loss = 0.0, largest = 0.0;
    size_t right = 0, largest_row = 0;
    struct copse_evaluation e, plain;
    copse_strategy *st = strategy_of(ctx, 2);
    copse_dataset *data = make_data(ctx, false, true, NULL);
    copse_model *m = make_model(st, data, network, NULL);
    copse_trainer *t = train(m, data, 5);
    OK(copse_model_predict(m, data, values));
    OK(copse_model_evaluate(m, data,
                            &(struct copse_evaluation_params){ .confusion = confusion,
                                                               .worst = worst,
                                                               .worst_losses = losses,
                                                               .worst_count = WORST,
                                                               .class_auc = auc },
                            &e));
    scores_are(&e, confusion, auc, values);
    for (size_t r = 0; r < ROWS; r++) {
        const float *row = values + r * CLASSES;
        int guess = 0;
        for (int c = 0; c < CLASSES; c++)
            guess = row[c] > row[guess] ? c : guess;
        counted[y[r] * CLASSES + guess]++;
        right += guess == y[r];
        const double here = -log((double)row[y[r]]);
        loss += here / ROWS;
        if (here > largest) {
            largest = here;
            largest_row = r;
        }
    }
    assert_memory_equal(confusion, counted, sizeof counted);
    assert_int_equal(e.rows, ROWS);
    rig_near(e.accuracy, (double)right / ROWS, 1e-12);
    rig_near(e.loss, loss, 1e-4);
    assert_int_equal(e.worst_count, WORST);
    assert_int_equal(worst[0], largest_row);
    rig_near(losses[0], largest, 1e-4 * (1.0 + largest));
    for (int i = 1; i < WORST; i++)
        assert_true(losses[i] <= losses[i - 1] && worst[i] != worst[i - 1]);
    OK(copse_model_evaluate(m, data, NULL, &plain));
    assert_true(plain.loss == e.loss && plain.accuracy == e.accuracy && plain.worst_count == 0);
    /* More room than rows. */
    uint32_t all[ROWS + 5];
    OK(copse_model_evaluate(
        m, data, &(struct copse_evaluation_params){ .worst = all, .worst_count = ROWS + 5 },
        &plain));
    assert_int_equal(plain.worst_count, ROWS);
    assert_memory_equal(all, worst, sizeof worst);
    copse_trainer_release(&t);
    copse_model_release(&m);
    copse_dataset_release(&data);
    copse_strategy_release(&st);
}

static void regression_is_measured_in_the_unit_of_the_target(void **state)
{
    (void)state;
    float values[ROWS];
    double mean = 0.0, spread = 0.0, squares = 0.0, absolute = 0.0;
    struct copse_evaluation e;
    copse_strategy *st = strategy_of(ctx, 2);
    copse_dataset *data = make_data(ctx, true, true, NULL);
    copse_model *m = make_model(st, data, network, NULL);
    copse_trainer *t = train(m, data, 60);
    OK(copse_model_predict(m, data, values));
    OK(copse_model_evaluate(m, data, NULL, &e));
    for (int r = 0; r < ROWS; r++)
        mean += (double)target[r] / ROWS;
    for (int r = 0; r < ROWS; r++) {
        spread += ((double)target[r] - mean) * ((double)target[r] - mean);
        squares +=
            ((double)target[r] - (double)values[r]) * ((double)target[r] - (double)values[r]);
        absolute += fabs((double)target[r] - (double)values[r]) / ROWS;
    }
    assert_true(e.r2 > 0.9); /* it has learned */
    rig_near(e.r2, 1.0 - squares / spread, 1e-4);
    rig_near(e.mae, absolute, 1e-3 * absolute);
    copse_trainer_release(&t);
    copse_model_release(&m);
    copse_dataset_release(&data);
    copse_strategy_release(&st);
}

/* ---- files ---- */

/* A checkpoint with the model's lines is a model file. */
static void a_checkpoint_is_loaded(void **state)
{
    (void)state;
    float here[ROWS * CLASSES], there[ROWS * CLASSES];
    size_t count;
    copse_strategy *st = strategy_of(ctx, 2), *one = strategy_of(ctx, 1);
    copse_dataset *data = make_data(ctx, false, true, NULL);
    copse_model *m = make_model(st, data, network, "net"), *loaded = NULL;
    copse_trainer *t = train(m, data, 3);
    const struct copse_metadata *lines = copse_model_metadata(m, &count);
    OK(copse_trainer_checkpoint(
        t, temp_path("c.safetensors"),
        &(struct copse_state_params){ .metadata = lines, .metadata_count = count }));
    OK(copse_trainer_checkpoint(t, temp_path("plain.safetensors"), NULL));
    OK(copse_model_predict(m, data, here));
    OK(copse_model_load(one, temp_path("c.safetensors"), NULL, &loaded));
    OK(copse_model_predict(loaded, data, there));
    for (int i = 0; i < ROWS * CLASSES; i++)
        rig_near((double)there[i], (double)here[i], 1e-5);
    copse_model_release(&loaded);
    FAILS(COPSE_ERR_FORMAT, copse_model_load(one, temp_path("plain.safetensors"), NULL, &loaded),
          "checkpoint without");
    assert_null(loaded);
    copse_trainer_release(&t);
    copse_model_release(&m);
    copse_dataset_release(&data);
    copse_strategy_release(&one);
    copse_strategy_release(&st);
}

/* Each file has the variables of its model. */
static void two_models_of_a_strategy_are_saved_apart(void **state)
{
    (void)state;
    copse_checkpoint *file = NULL;
    size_t count;
    copse_strategy *st = strategy_of(ctx, 1);
    copse_dataset *data = make_data(ctx, false, true, NULL);
    copse_model *a = make_model(st, data, "dense out", "a"),
                *b = make_model(st, data, network, "b");
    OK(copse_model_save(b, temp_path("b.safetensors"),
                        &(struct copse_model_save_params){
                            .metadata = &(struct copse_metadata){ "application.note", "mine" },
                            .metadata_count = 1 }));
    OK(copse_checkpoint_read(ctx, temp_path("b.safetensors"), &file));
    copse_checkpoint_arrays(file, &count);
    assert_int_equal(count, 4);
    assert_non_null(copse_checkpoint_find(file, "b/dense1.weight"));
    assert_string_equal(line_of(file, "application.note"), "mine");
    assert_string_equal(line_of(file, "scope"), "b");
    copse_checkpoint_release(&file);
    FAILS(COPSE_ERR_ARGUMENT,
          copse_model_save(
              b, temp_path("b.safetensors"),
              &(struct copse_model_save_params){
                  .metadata = &(struct copse_metadata){ "network", "x" }, .metadata_count = 1 }),
          "application.");
    copse_model_release(&a);
    copse_model_release(&b);
    copse_dataset_release(&data);
    copse_strategy_release(&st);
}

/* ---- what is refused ---- */

/* The file with one text replaced by another of the same length. */
static const char *altered(const char *path, const char *from, const char *to)
{
    size_t size;
    unsigned char *bytes = temp_bytes(path, &size);
    size_t i = 0;
    while (i + strlen(from) <= size && memcmp(bytes + i, from, strlen(from)) != 0)
        i++;
    assert_true(i + strlen(from) <= size);
    memcpy(bytes + i, to, strlen(to));
    const char *out = temp_write("altered.safetensors", bytes, size);
    free(bytes);
    return out;
}

static void what_is_no_model_file_is_refused(void **state)
{
    (void)state;
    copse_strategy *st = strategy_of(ctx, 1), *other = strategy_of(ctx, 1);
    copse_dataset *data = make_data(ctx, false, true, NULL);
    copse_model *m = make_model(st, data, network, NULL), *loaded = NULL;
    copse_trainer *t = train(m, data, 1);
    const char *good = temp_path("good.safetensors"), *weights = temp_path("weights.safetensors");
    OK(copse_model_save(m, good, NULL));
    OK(copse_trainer_save(t, weights));
    FAILS(COPSE_ERR_FORMAT, copse_model_load(other, weights, NULL, &loaded), "holds weights only");
    FAILS(COPSE_ERR_IO, copse_model_load(other, temp_path("none"), NULL, &loaded), "none");
    FAILS(COPSE_ERR_FORMAT,
          copse_model_load(other, altered(good, "dense 8", "dense 9"), NULL, &loaded), "damaged");
    FAILS(COPSE_ERR_UNSUPPORTED,
          copse_model_load(other, altered(good, "model-1", "model-7"), NULL, &loaded),
          "copse-model-7");
    size_t size;
    unsigned char *bytes = temp_bytes(good, &size);
    bytes[size - 2] ^= 1;
    FAILS(COPSE_ERR_FORMAT,
          copse_model_load(other, temp_write("flipped.safetensors", bytes, size), NULL, &loaded),
          "damaged");
    FAILS(COPSE_ERR_FORMAT,
          copse_model_load(other, temp_write("cut.safetensors", bytes, size - 4), NULL, &loaded),
          "cut");
    free(bytes);
    assert_null(loaded);
    OK(copse_model_load(other, good, NULL, &loaded));
    copse_model_release(&loaded);
    /* Not finite: the older file stays. */
    float inf[IN * HIDDEN] = { INFINITY };
    copse_variable *const *list;
    size_t count;
    copse_strategy_variables(st, &list, &count);
    OK(copse_variable_assign(list[0], inf));
    FAILS(COPSE_ERR_NONFINITE, copse_model_save(m, good, NULL), "infinite");
    OK(copse_model_load(strategy_of(ctx, 1), good, NULL, &loaded));
    copse_strategy *leaked = copse_model_strategy(loaded);
    copse_model_release(&loaded);
    copse_strategy_release(&leaked);
    copse_trainer_release(&t);
    copse_model_release(&m);
    copse_dataset_release(&data);
    copse_strategy_release(&other);
    copse_strategy_release(&st);
}

static void networks_and_data_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    float values[ROWS * CLASSES];
    struct copse_evaluation e;
    copse_strategy *st = strategy_of(ctx, 1);
    copse_dataset *data = make_data(ctx, false, true, NULL),
                  *other = make_data(ctx, true, true, NULL);
    copse_dataset *unlabelled = make_data(ctx, false, false, copse_dataset_schema(data)),
                  *columns = NULL;
    copse_model *m = NULL;
    const copse_schema *schema = copse_dataset_schema(data);
    const struct copse_model_params wide = { .network = "dense 8", .scope = "a" },
                                    wrong = { .network = "dens 8" };
    FAILS(COPSE_ERR_SHAPE, copse_model_create(st, schema, &wide, &m), "3 classes need [3]");
    FAILS(COPSE_ERR_ARGUMENT, copse_model_create(st, schema, &wrong, &m), "dens");
    FAILS(COPSE_ERR_ARGUMENT,
          copse_model_create(st, schema, &(struct copse_model_params){ .seed = 1 }, &m), "NULL");
    assert_null(m);
    m = make_model(st, data, network, NULL);
    FAILS(COPSE_ERR_ARGUMENT, copse_model_predict(m, other, values), "schema");
    FAILS(COPSE_ERR_ARGUMENT, copse_model_evaluate(m, unlabelled, NULL, &e), "no labels");
    OK(copse_model_predict(m, unlabelled, values));
    OK(copse_dataset_columns(ctx, &(struct copse_column){ "x", COPSE_F32, COPSE_SHAPE(IN - 1), x },
                             1, ROWS, &columns));
    FAILS(COPSE_ERR_ARGUMENT, copse_model_predict(m, columns, values), "\"x\"");
    copse_dataset_release(&columns);
    copse_model_release(&m);
    copse_dataset_release(&unlabelled);
    copse_dataset_release(&other);
    copse_dataset_release(&data);
    copse_strategy_release(&st);
}

/* A second prediction of as many rows makes no buffer on a device. */
static void repeated_predictions_record_nothing(void **state)
{
    (void)state;
    float values[ROWS * CLASSES];
    struct copse_memory_stats before, after;
    copse_strategy *st = strategy_of(ctx, 3);
    copse_dataset *data = make_data(ctx, false, true, NULL);
    copse_model *m = make_model(st, data, network, NULL);
    OK(copse_model_predict(m, data, values));
    copse_context_memory(ctx, &before);
    for (int i = 0; i < 5; i++)
        OK(copse_model_predict(m, data, values));
    copse_context_memory(ctx, &after);
    assert_int_equal(after.device_allocations, before.device_allocations);
    copse_model_release(&m);
    copse_dataset_release(&data);
    copse_strategy_release(&st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loaded_model_predicts_the_same),
        cmocka_unit_test(a_fit_trains_one_model),
        cmocka_unit_test(layers_of_images_are_saved_and_loaded),
        cmocka_unit_test(the_file_alone_gives_the_predictions),
        cmocka_unit_test(bytes_are_scaled_by_the_schema),
        cmocka_unit_test(pictures_in_memory_are_those_of_a_file),
        cmocka_unit_test(evaluation_agrees_with_a_count),
        cmocka_unit_test(areas_under_the_curve),
        cmocka_unit_test(regression_is_measured_in_the_unit_of_the_target),
        cmocka_unit_test(each_target_is_measured_in_its_own_unit),
        cmocka_unit_test(a_checkpoint_is_loaded),
        cmocka_unit_test(two_models_of_a_strategy_are_saved_apart),
        cmocka_unit_test(what_is_no_model_file_is_refused),
        cmocka_unit_test(networks_and_data_that_do_not_fit_are_refused),
        cmocka_unit_test(repeated_predictions_record_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
