/* SPDX-License-Identifier: MIT */
/* Datasets, splits, and what happens without memory. */
#include <math.h>

#include "copse/data/schema.h"

#include "core/base/base.h"
#include "tests/rig/data/data_rig.h"

#define DIGITS "examples/data/digits/digits.csv.gz"

static copse_dataset *open_digits(void)
{
    copse_dataset *ds;

    OK(copse_dataset_open(ctx, DIGITS, &(struct copse_dataset_params){ .scale = COPSE_SCALE_MAX },
                          &ds));
    return ds;
}

/* ---- datasets ---- */

static void test_digits_are_scaled_and_counted(void **state)
{
    struct copse_dataset_info info;
    copse_dataset *ds = open_digits();
    float row[64], largest = 0;
    int32_t label;
    uint32_t counts[10] = { 0 };

    (void)state;
    copse_dataset_describe(ds, &info);
    assert_int_equal(info.rows, 1797);
    assert_int_equal(info.rank, 1);
    assert_int_equal(info.row_size, 64);
    assert_int_equal(info.classes, 10);
    assert_true(info.scale == 16);
    for (uint32_t i = 0; i < info.rows; i++) {
        OK(copse_dataset_gather(ds, "x", &i, 1, row));
        OK(copse_dataset_gather(ds, "y", &i, 1, &label));
        counts[label]++;
        for (int k = 0; k < 64; k++) {
            assert_true(row[k] >= 0 && row[k] <= 1 && row[k] * 16 == floorf(row[k] * 16));
            largest = fmaxf(largest, row[k]);
        }
    }
    assert_true(largest == 1);
    static const uint32_t expected[10] = { 178, 182, 177, 183, 181, 182, 181, 179, 174, 180 };
    assert_memory_equal(counts, expected, sizeof counts);
    copse_dataset_release(&ds);
}

static const unsigned char images[] = { 0, 0, 8, 3, 0, 0, 0, 2,  0,   0,
                                        0, 1, 0, 0, 0, 2, 0, 51, 102, 204 };
static const unsigned char one_image[] = { 0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 7, 9 };
static const unsigned char classes[] = { 0, 0, 8, 1, 0, 0, 0, 2, 1, 4 };

static void test_folder_with_an_idx_pair(void **state)
{
    struct copse_dataset_info info;
    copse_dataset *ds;
    float f[4];
    int32_t l[2];
    const char *none = temp_path("none"), *pair = temp_path("pair");

    (void)state;
    assert_int_equal(mkdir(none, 0700) | mkdir(pair, 0700), 0);
    temp_write("pair/t10k-images-idx3-ubyte", images, 10); /* cut off, but not the one to take */
    temp_gzip("pair/train-images-idx3-ubyte.gz", images, sizeof images);
    temp_write("pair/train-labels-idx1-ubyte", classes, sizeof classes);
    OK(copse_dataset_open(ctx, pair, &(struct copse_dataset_params){ .scale = COPSE_SCALE_MAX },
                          &ds));
    copse_dataset_describe(ds, &info);
    assert_int_equal(info.rank, 2);
    assert_int_equal(info.shape[0] * 10 + info.shape[1], 12);
    assert_int_equal(info.classes, 5);
    assert_true(info.scale == 204);
    OK(copse_dataset_gather(ds, "x", NULL, 2, f));
    OK(copse_dataset_gather(ds, "y", NULL, 2, l));
    assert_true(f[0] == 0 && f[1] == 0.25f && f[2] == 0.5f && f[3] == 1 && l[0] == 1 && l[1] == 4);
    copse_dataset_release(&ds);
    FAILS(COPSE_ERR_IO, copse_dataset_open(ctx, none, NULL, &ds), "no IDX pair");
    FAILS(COPSE_ERR_FORMAT,
          copse_dataset_open(ctx, pair, &(struct copse_dataset_params){ .classes = 4 }, &ds),
          "row 2: the label 4 is out of range, there are 4 classes");
    assert_null(ds);
    temp_write("pair/train-labels-idx1-ubyte", "\0\0\x08\1\0\0\0\3abc", 11);
    FAILS(COPSE_ERR_SHAPE, copse_dataset_open(ctx, pair, NULL, &ds), "3 labels for 2 rows");
    unlink(temp_path("pair/train-labels-idx1-ubyte"));
    FAILS(COPSE_ERR_IO, copse_dataset_open(ctx, pair, NULL, &ds), "train-labels-idx1-ubyte");
}

/* Bytes of pictures stay bytes, and the schema says how the device scales them; other arrays are
   not scaled. */
static void test_pictures_stay_bytes_and_arrays_unscaled(void **state)
{
    /* 100, -3 */
    static const char f64[] = "\0\0\x0e\1\0\0\0\2\x40\x59\0\0\0\0\0\0\xc0\x08\0\0\0\0\0\0";
    const double rows[] = { 1, 10, 3, 10, 5, 40 };
    const struct copse_array_view view = { COPSE_F64, 2, { 3, 2 }, rows };
    struct copse_schema_info about;
    struct copse_dataset_info info;
    struct copse_column x;
    copse_dataset *ds;
    unsigned char bytes[4];
    float v[6];

    (void)state;
    temp_write("train-images-idx3-ubyte", images, sizeof images);
    temp_write("train-labels-idx1-ubyte", classes, sizeof classes);
    const char *path = temp_path("train-images-idx3-ubyte");
    OK(copse_dataset_open(ctx, path, NULL, &ds));
    OK(copse_dataset_column(ds, 0, &x));
    assert_int_equal(x.type, COPSE_U8);
    assert_int_equal(x.shape.rank, 2);
    OK(copse_dataset_gather(ds, "x", NULL, 2, bytes));
    assert_memory_equal(bytes, images + 16, 4);
    OK(copse_schema_describe(copse_dataset_schema(ds), &about));
    assert_int_equal(about.kind, COPSE_DATA_PICTURES);
    assert_int_equal(about.type, COPSE_U8);
    assert_true(about.input_offset == 0 && about.input_scale == 1.0f / 255 && about.outputs == 5);
    copse_dataset_describe(ds, &info);
    assert_true(info.scale == 1);
    /* by this schema f32 numbers become bytes again, if they are bytes */
    const float same[] = { 0, 51, 102, 204 }, other[] = { 0, 51, 102.5f, 204 };
    const struct copse_array_view f32 = { COPSE_F32, 3, { 2, 1, 2 }, same };
    copse_dataset *by;
    const struct copse_dataset_params p = { .schema = copse_dataset_schema(ds) };
    OK(copse_dataset_create(ctx, &f32, NULL, &p, &by));
    OK(copse_dataset_gather(by, "x", NULL, 2, bytes));
    assert_memory_equal(bytes, images + 16, 4);
    copse_dataset_release(&by);
    FAILS(COPSE_ERR_FORMAT,
          copse_dataset_create(ctx, &(struct copse_array_view){ COPSE_F32, 2, { 2, 2 }, other },
                               NULL, &p, &by),
          "row 2, value 1 is not a byte");
    FAILS(COPSE_ERR_SHAPE,
          copse_dataset_create(ctx, &(struct copse_array_view){ COPSE_F32, 2, { 1, 3 }, same },
                               NULL, &p, &by),
          "a row has 3 numbers, training had 2");
    copse_dataset_release(&ds);

    OK(copse_dataset_open(ctx, temp_write("f64", f64, sizeof f64 - 1), NULL, &ds));
    OK(copse_dataset_gather(ds, "x", NULL, 2, v));
    assert_true(v[0] == 100 && v[1] == -3);
    copse_dataset_release(&ds);
    OK(copse_dataset_create(ctx, &view, NULL, NULL, &ds));
    OK(copse_dataset_gather(ds, "x", NULL, 3, v));
    assert_true(v[0] == 1 && v[1] == 10 && v[5] == 40);
    copse_dataset_release(&ds);
    OK(copse_dataset_create(ctx, &view, NULL,
                            &(struct copse_dataset_params){ .scale = COPSE_SCALE_STANDARD }, &ds));
    OK(copse_dataset_gather(ds, "x", NULL, 3, v));
    assert_true(fabsf(v[0] + 1.2247449f) < 1e-6f && v[2] == 0 && fabsf(v[5] - 1.4142136f) < 1e-6f);
    copse_dataset_release(&ds);
}

static void test_targets_of_arrays(void **state)
{
    const float rows[] = { 1, 2 };
    const double targets[] = { 0.5, 10, 1.5, 30 }, whole[] = { -3, 4 };
    const struct copse_array_view x = { COPSE_F32, 1, { 2 }, rows };
    const struct copse_array_view y = { COPSE_F64, 2, { 2, 2 }, targets };
    const struct copse_array_view z = { COPSE_F64, 1, { 2 }, whole };
    const struct copse_dataset_params standard = { .scale = COPSE_SCALE_STANDARD };
    struct copse_schema_info about;
    struct copse_column column;
    const char *name;
    double mean, scale;
    copse_dataset *ds;
    float v[4];

    (void)state;
    for (int i = 0; i < 2; i++) {
        OK(copse_dataset_create(ctx, &x, &y, i == 0 ? NULL : &standard, &ds));
        OK(copse_schema_describe(copse_dataset_schema(ds), &about));
        assert_int_equal(about.task, COPSE_TASK_REGRESSION);
        assert_int_equal(about.outputs, 2);
        OK(copse_dataset_column(ds, 1, &column));
        assert_true(column.type == COPSE_F32 && column.shape.rank == 1 &&
                    column.shape.dims[0] == 2);
        OK(copse_dataset_gather(ds, "y", NULL, 2, v));
        OK(copse_schema_target(copse_dataset_schema(ds), 1, &name, &mean, &scale));
        assert_true(i == 0 ? v[3] == 30 && mean == 0 && scale == 1
                           : v[3] == 1 && v[1] == -1 && mean == 20 && scale == 10);
        copse_dataset_release(&ds);
    }
    FAILS(COPSE_ERR_FORMAT, copse_dataset_create(ctx, &x, &z, NULL, &ds),
          "if it is a value, the task is regression");
    OK(copse_dataset_create(ctx, &x, &z,
                            &(struct copse_dataset_params){ .task = COPSE_TASK_REGRESSION }, &ds));
    OK(copse_dataset_gather(ds, "y", NULL, 2, v));
    assert_true(v[0] == -3 && v[1] == 4);
    copse_dataset_release(&ds);
    FAILS(COPSE_ERR_SHAPE,
          copse_dataset_create(ctx, &x, &y,
                               &(struct copse_dataset_params){ .task = COPSE_TASK_CLASSIFICATION },
                               &ds),
          "have the shape [rows]");
}

static void test_folder_passes_over_images_without_labels(void **state)
{
    struct copse_dataset_info info;
    copse_dataset *ds;
    const char *folder = temp_path("lone");

    (void)state;
    assert_int_equal(mkdir(folder, 0700), 0);
    temp_write("lone/train-images-idx3-ubyte", one_image, sizeof one_image);
    temp_write("lone/t10k-images-idx3-ubyte", images, sizeof images);
    temp_gzip("lone/t10k-labels-idx1-ubyte.gz", classes, sizeof classes);
    OK(copse_dataset_open(ctx, folder, NULL, &ds));
    copse_dataset_describe(ds, &info);
    assert_int_equal(info.rows, 2);
    assert_true(info.has_labels);
    copse_dataset_release(&ds);
    /* where labels do not matter, train comes first as ever */
    OK(copse_dataset_open(ctx, folder, &(struct copse_dataset_params){ .no_labels = true }, &ds));
    copse_dataset_describe(ds, &info);
    assert_int_equal(info.rows, 1);
    copse_dataset_release(&ds);
}

static void test_single_idx_file_finds_its_labels(void **state)
{
    struct copse_dataset_info info;
    copse_dataset *ds;
    int32_t l[2];

    (void)state;
    /* the words in the folder's name are not the file's */
    assert_int_equal(mkdir(temp_path("images-idx3"), 0700), 0);
    const char *path = temp_gzip("images-idx3/t10k-images-idx3-ubyte.gz", images, sizeof images);
    OK(copse_dataset_open(ctx, path, NULL, &ds)); /* no label file there: none */
    copse_dataset_describe(ds, &info);
    assert_false(info.has_labels);
    copse_dataset_release(&ds);
    temp_write("images-idx3/t10k-labels-idx1-ubyte", classes, sizeof classes);
    OK(copse_dataset_open(ctx, path, NULL, &ds));
    copse_dataset_describe(ds, &info);
    assert_int_equal(info.classes, 5);
    OK(copse_dataset_gather(ds, "y", NULL, 2, l));
    assert_true(l[0] == 1 && l[1] == 4);
    copse_dataset_release(&ds);
    OK(copse_dataset_open(ctx, path, &(struct copse_dataset_params){ .no_labels = true }, &ds));
    copse_dataset_describe(ds, &info);
    assert_false(info.has_labels);
    copse_dataset_release(&ds);
    temp_write("images-idx3/t10k-labels-idx1-ubyte", classes, 9);
    FAILS(COPSE_ERR_FORMAT, copse_dataset_open(ctx, path, NULL, &ds), "t10k-labels-idx1");
    path = temp_write("images-idx3/other", images, sizeof images); /* a name that tells nothing */
    OK(copse_dataset_open(ctx, path, NULL, &ds));
    copse_dataset_describe(ds, &info);
    assert_false(info.has_labels);
    copse_dataset_release(&ds);
}

static void test_npy_with_labels_of_its_own(void **state)
{
    static const char f[] =
        "\x93NUMPY\1\0\x3a\0{'descr': '|i1', 'fortran_order': False, 'shape': (2,2), }\2\xfc\1\0";
    static const char l[] =
        "\x93NUMPY\1\0\x39\0{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }\0\1";
    const char *features = temp_write("f.npy", f, sizeof f - 1);
    const char *labels = temp_write("l.npy", l, sizeof l - 1);
    struct copse_dataset_info info;
    copse_dataset *ds;
    float v[4];

    (void)state;
    OK(copse_dataset_open(
        ctx, features, &(struct copse_dataset_params){ .labels = labels, .scale = COPSE_SCALE_MAX },
        &ds));
    copse_dataset_describe(ds, &info);
    assert_int_equal(info.classes, 2);
    OK(copse_dataset_gather(ds, "x", NULL, 2, v));
    assert_true(v[0] == 0.5f && v[1] == -1 && v[2] == 0.25f && v[3] == 0);
    copse_dataset_release(&ds);
    OK(copse_dataset_open(ctx, features, NULL, &ds));
    copse_dataset_describe(ds, &info);
    assert_false(info.has_labels);
    FAILS(COPSE_ERR_ARGUMENT, copse_dataset_gather(ds, "y", NULL, 2, v), "no column 'y'");
    FAILS(COPSE_ERR_ARGUMENT, copse_dataset_gather(ds, "x", NULL, 3, v), "3 rows");
    FAILS(COPSE_ERR_ARGUMENT, copse_dataset_gather(ds, "x", &(uint32_t){ 2 }, 1, v), "no row 2");
    copse_dataset_release(&ds);
}

static copse_status create(copse_type type, const void *f, size_t rows, const void *l)
{
    const struct copse_dataset_params classes_only = { .task = COPSE_TASK_CLASSIFICATION };
    copse_dataset *ds;

    copse_status s = copse_dataset_create(ctx, &(struct copse_array_view){ type, 1, { rows }, f },
                                          &(struct copse_array_view){ COPSE_F64, 1, { rows }, l },
                                          &classes_only, &ds);
    copse_dataset_release(&ds);
    return s;
}

static void test_bad_arrays_are_refused(void **state)
{
    const float good[] = { 1, 2, 3 }, bad[] = { 1, NAN, 3 };
    const double large[] = { 1, 2, 1e300 }, labels[] = { 0, 1, 2 };
    copse_dataset *ds;

    (void)state;
    OK(create(COPSE_F32, good, 3, labels));
    FAILS(COPSE_ERR_FORMAT, create(COPSE_F32, bad, 3, labels), "row 2, value 1 is not finite");
    FAILS(COPSE_ERR_FORMAT, create(COPSE_F64, large, 3, labels), "row 3, value 1");
    FAILS(COPSE_ERR_SHAPE, create(COPSE_F32, good, 0, labels), "rows");
    FAILS(COPSE_ERR_ARGUMENT, create(COPSE_F32, NULL, 3, labels), "without");
    FAILS(COPSE_ERR_FORMAT, create(COPSE_F32, good, 3, (double[]){ 0, 1, 0.5 }),
          "row 3: the label 0.5 is not a class");
    FAILS(COPSE_ERR_FORMAT, create(COPSE_F32, good, 3, (double[]){ 0, -1, 0 }),
          "row 2: the label -1");
    FAILS(COPSE_ERR_FORMAT, create(COPSE_F32, good, 3, (double[]){ NAN, 1, 0 }), "row 1");
    FAILS(COPSE_ERR_FORMAT, create(COPSE_F32, good, 3, (double[]){ 0, 65536, 0 }),
          "row 2: the label 65536 is out of range, by default at most 65536 classes");
    FAILS(COPSE_ERR_SHAPE,
          copse_dataset_create(ctx, &(struct copse_array_view){ COPSE_F32, 0, { 0 }, good }, NULL,
                               NULL, &ds),
          "axes");
}

/* ---- splits ---- */

static void test_split_is_a_partition_that_depends_on_the_seed(void **state)
{
    copse_dataset *ds = numbered(1797), *train[3], *test[3];
    static float rows[3][1797 * 2];
    uint8_t seen[1797] = { 0 };
    struct copse_dataset_info info;

    (void)state;
    for (int i = 0; i < 3; i++) {
        OK(copse_dataset_split(ds, &(struct copse_split_params){ .seed = (uint64_t)(i / 2) },
                               &train[i], &test[i]));
        copse_dataset_describe(train[i], &info);
        assert_int_equal(info.rows, 1438);
        copse_dataset_describe(test[i], &info);
        assert_int_equal(info.rows, 359);
        OK(copse_dataset_gather(train[i], "x", NULL, 1438, rows[i]));
        OK(copse_dataset_gather(test[i], "x", NULL, 359, rows[i] + 1438 * 2));
        copse_dataset_release(&train[i]);
        copse_dataset_release(&test[i]);
    }
    for (int k = 0; k < 1797; k++)
        seen[(int)rows[0][2 * k]]++;
    for (int k = 0; k < 1797; k++)
        assert_int_equal(seen[k], 1);
    assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
    assert_memory_not_equal(rows[0], rows[2], sizeof rows[0]);
    /* fixed for good: a change here changes every user's held-out part */
    assert_true(rows[0][0] == 593 && rows[0][2] == 575 && rows[0][4] == 1543);
    FAILS(COPSE_ERR_ARGUMENT,
          copse_dataset_split(ds, &(struct copse_split_params){ .train_fraction = 0.9999 },
                              &train[0], &test[0]),
          "one part would be empty");
    FAILS(COPSE_ERR_ARGUMENT,
          copse_dataset_split(ds, &(struct copse_split_params){ .train_fraction = NAN }, &train[0],
                              &test[0]),
          "not between");
    copse_dataset_release(&ds);
}

/* Rows of the classes in both parts; x is the number of the row. */
static void split_classes(const int32_t *labels, size_t rows, struct copse_split_params p,
                          size_t *train, size_t *test, float *order)
{
    float *x = malloc(rows * sizeof *x);
    int32_t *y = malloc(rows * sizeof *y);
    copse_dataset *all, *part[2];
    struct copse_dataset_info info[2];
    assert_true(x && y);
    for (size_t i = 0; i < rows; i++)
        x[i] = (float)i;
    const struct copse_column columns[] = { { "x", COPSE_F32, COPSE_SCALAR, x },
                                            { "y", COPSE_I32, COPSE_SCALAR, labels } };
    OK(copse_dataset_columns(ctx, columns, 2, rows, &all));
    p.stratify = true;
    OK(copse_dataset_split(all, &p, &part[0], &part[1]));
    size_t at = 0;
    for (int i = 0; i < 2; i++) {
        copse_dataset_describe(part[i], &info[i]);
        OK(copse_dataset_gather(part[i], "y", NULL, info[i].rows, y));
        for (size_t k = 0; k < info[i].rows; k++)
            (i == 0 ? train : test)[y[k]]++;
        OK(copse_dataset_gather(part[i], "x", NULL, info[i].rows, order + at));
        for (size_t k = 0; k < info[i].rows; k++)
            assert_int_equal(labels[(size_t)order[at + k]], y[k]);
        at += info[i].rows;
        copse_dataset_release(&part[i]);
    }
    assert_int_equal(at, rows);
    copse_dataset_release(&all);
    free(x);
    free(y);
}

static void test_stratified_split_divides_each_class(void **state)
{
    enum { ROWS = 1000, CLASSES = 5 };
    static int32_t labels[ROWS];
    static float order[3][ROWS];
    static const size_t of[CLASSES] = { 700, 293, 4, 2, 1 };
    uint8_t seen[ROWS] = { 0 };
    (void)state;
    for (size_t c = 0, at = 0; c < CLASSES; c++)
        for (size_t i = 0; i < of[c]; i++)
            labels[at++] = (int32_t)c;
    for (int i = 0; i < 3; i++) {
        size_t train[CLASSES] = { 0 }, test[CLASSES] = { 0 };
        split_classes(labels, ROWS, (struct copse_split_params){ .seed = (uint64_t)(i / 2) }, train,
                      test, order[i]);
        assert_int_equal(train[0], 560);
        assert_int_equal(train[1] + train[2] + train[4], 239);
        assert_in_range(train[1], 234, 235);
        assert_int_equal(train[2], 3);
        assert_int_equal(train[3], 1);
        for (int c = 0; c < CLASSES; c++)
            assert_int_equal(train[c] + test[c], of[c]);
    }
    for (int k = 0; k < ROWS; k++)
        seen[(int)order[0][k]]++;
    for (int k = 0; k < ROWS; k++)
        assert_int_equal(seen[k], 1);
    /* small classes have less than a row of the smaller side each, and get one */
    size_t some[6] = { 0 }, others[6] = { 0 };
    for (size_t i = 0; i < 105; i++)
        labels[i] = i < 95 ? 0 : (int32_t)(1 + (i - 95) / 2);
    split_classes(labels, 105, (struct copse_split_params){ .train_fraction = 0.2 }, some, others,
                  order[2]);
    assert_true(some[0] == 16 && others[0] == 79);
    for (int c = 1; c < 6; c++)
        assert_true(some[c] == 1 && others[c] == 1);
    split_classes(labels, 105, (struct copse_split_params){ .seed = 1 }, some, others, order[2]);
    assert_memory_equal(order[0], order[1], sizeof order[0]);
    assert_memory_not_equal(order[0], order[2], sizeof order[0]);
    assert_true(order[0][0] != 0 || order[0][1] != 1); /* shuffled */
}

/* Classes of two rows, where one side has fewer rows than there are classes; of one row; a single
   class. */
static void test_stratified_split_of_few_rows(void **state)
{
    static const struct {
        size_t rows, each;
        double fraction;
    } cases[] = { { 10, 2, 0.8 }, { 10, 2, 0.2 },    { 10, 1, 0.8 }, { 2, 2, 0.5 },
                  { 7, 7, 0.8 },  { 66000, 2, 0.8 }, { 3, 2, 0.5 } };
    static int32_t labels[66000];
    static float order[66000];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t rows = cases[i].rows,
                     cut = (size_t)floor((double)rows * cases[i].fraction + 0.5);
        size_t *train = calloc(2 * rows, sizeof *train), *test = train + rows, sum = 0, both = 0;
        assert_non_null(train);
        for (size_t k = 0; k < rows; k++)
            labels[k] = (int32_t)(k / cases[i].each);
        split_classes(labels, rows,
                      (struct copse_split_params){ .train_fraction = cases[i].fraction }, train,
                      test, order);
        for (size_t c = 0; c < rows; c++) {
            sum += train[c];
            both += train[c] > 0 && test[c] > 0;
        }
        assert_int_equal(sum, cut);
        /* as many classes on both sides as the smaller side has rows, or as have two rows */
        const size_t less = cut < rows - cut ? cut : rows - cut,
                     two = cases[i].each >= 2 ? rows / cases[i].each : 0;
        assert_int_equal(both, less < two ? less : two);
        free(train);
    }
}

static void test_stratified_split_needs_classes(void **state)
{
    const float x[4] = { 0, 1, 2, 3 };
    const int32_t below[4] = { 0, 1, -1, 1 };
    const struct copse_split_params p = { .stratify = true };
    copse_dataset *all, *a, *b;
    (void)state;
    const struct copse_column columns[] = { { "x", COPSE_F32, COPSE_SCALAR, x },
                                            { "y", COPSE_F32, COPSE_SCALAR, x },
                                            { "y", COPSE_I32, COPSE_SCALAR, below } };
    OK(copse_dataset_columns(ctx, columns, 1, 4, &all));
    FAILS(COPSE_ERR_ARGUMENT, copse_dataset_split(all, &p, &a, &b), "a class for each row");
    copse_dataset_release(&all);
    OK(copse_dataset_columns(ctx, columns, 2, 4, &all));
    FAILS(COPSE_ERR_ARGUMENT, copse_dataset_split(all, &p, &a, &b), "a class for each row");
    copse_dataset_release(&all);
    const struct copse_column wrong[] = { columns[0], columns[2] };
    OK(copse_dataset_columns(ctx, wrong, 2, 4, &all));
    FAILS(COPSE_ERR_ARGUMENT, copse_dataset_split(all, &p, &a, &b), "the label of row 3 is -1");
    copse_dataset_release(&all);
}

static void test_split_of_a_split_keeps_to_its_rows(void **state)
{
    copse_dataset *ds = numbered(50), *a, *held_out, *c, *d;
    float f[50 * 2];
    int32_t l[50];
    uint8_t seen[50] = { 0 };

    (void)state;
    OK(copse_dataset_split(ds, NULL, &a, &held_out));
    copse_dataset_release(&ds);
    OK(copse_dataset_split(a, &(struct copse_split_params){ .seed = 4 }, &c, &d));
    copse_dataset_release(&a);
    OK(copse_dataset_gather(held_out, "x", NULL, 10, f));
    OK(copse_dataset_gather(held_out, "y", NULL, 10, l));
    OK(copse_dataset_gather(c, "x", NULL, 32, f + 10 * 2));
    OK(copse_dataset_gather(c, "y", NULL, 32, l + 10));
    OK(copse_dataset_gather(d, "x", NULL, 8, f + 42 * 2));
    OK(copse_dataset_gather(d, "y", NULL, 8, l + 42));
    for (int i = 0; i < 50; i++) {
        assert_int_equal(l[i], (int)f[2 * i] % 3);
        assert_true(f[2 * i + 1] == 2 * f[2 * i]);
        seen[(int)f[2 * i]]++;
    }
    for (int i = 0; i < 50; i++)
        assert_int_equal(seen[i], 1);
    copse_dataset_release(&held_out);
    copse_dataset_release(&c);
    copse_dataset_release(&d);
}

/* ---- without memory ---- */

static struct {
    long left;       /* allocations until failure; negative = never */
    bool is_lasting; /* fail from then on, not once */
} hunger = { -1, false };

static void *hungry(void *user, void *block, size_t size)
{
    (void)user;
    if (size == 0) {
        free(block);
        return NULL;
    }
    if (hunger.left == 0) {
        if (!hunger.is_lasting)
            hunger.left = -1;
        return NULL;
    }
    if (hunger.left > 0)
        hunger.left--;
    return realloc(block, size);
}

static copse_status everything(copse_context *c, const char *const *paths, size_t count)
{
    copse_dataset *ds = NULL, *train = NULL, *test = NULL;
    copse_loader *b = NULL;
    struct copse_host_batch t;
    copse_status s = COPSE_OK;

    for (size_t i = 0; i < count && s == COPSE_OK; i++) {
        copse_dataset_release(&ds);
        s = copse_dataset_open(
            c, paths[i], &(struct copse_dataset_params){ .missing = COPSE_MISSING_MEAN }, &ds);
        if (s != COPSE_OK)
            break;
        copse_schema *schema = NULL;
        copse_dataset *again = NULL;
        s = copse_schema_parse(c, copse_schema_text(copse_dataset_schema(ds)), &schema);
        if (s == COPSE_OK)
            s = copse_dataset_open(c, paths[i], &(struct copse_dataset_params){ .schema = schema },
                                   &again);
        copse_dataset_release(&again);
        copse_schema_release(&schema);
    }
    if (s == COPSE_OK)
        s = copse_dataset_split(ds, NULL, &train, &test);
    if (s == COPSE_OK)
        s = copse_loader_create(train, &(struct copse_loader_params){ .batch = 2, .prefetch = 2 },
                                &b);
    while (s == COPSE_OK)
        s = copse_loader_next(b, &t);
    copse_loader_release(&b);
    copse_dataset_release(&train);
    copse_dataset_release(&test);
    copse_dataset_release(&ds);
    return s;
}

static void test_every_allocation_may_fail(void **state)
{
    static const char npy[] =
        "\x93NUMPY\1\0\x39\0{'descr': '|u1', 'fortran_order': True, 'shape': (2,2), }\1\2\3\4";
    static const char table[] = "a,b,c\n1,2,0\n3,4,1\n5,6,2\n7,8,0\n1,1,1\n2,2,2\n";
    static const char people[] = "name,age,kind\nann,3,x\nbob,,y\nann,4,x\n\"b\",5,y\nbob,6,x\n";
    const char *paths[6];
    copse_context *c;
    struct copse_memory_stats before, after;
    copse_status s;
    const char *folder = temp_path("hungry");
    const struct copse_context_params params = { .resize = hungry, .disable = "opencl,vulkan" };

    (void)state;
    mkdir(folder, 0700);
    temp_write("hungry/images-idx3", images, sizeof images);
    temp_gzip("hungry/labels-idx1.gz", classes, sizeof classes);
    paths[0] = folder;
    paths[1] = temp_write("h.npy", npy, sizeof npy - 1);
    paths[2] = temp_gzip("h.npy.gz", npy, sizeof npy - 1);
    paths[3] = temp_path("hungry/images-idx3");
    paths[4] = temp_gzip("h.csv", people, sizeof people - 1);
    paths[5] = temp_gzip("h2.csv", table, sizeof table - 1);
    OK(copse_context_create(&params, &c));
    copse_context_memory(c, &before);
    hunger.left = -1;
    assert_int_equal(everything(c, paths, COPSE_COUNT(paths)), COPSE_ERR_END);
    for (int lasting = 0; lasting < 2; lasting++) {
        long n = 0;
        do {
            hunger.left = n++;
            hunger.is_lasting = lasting;
            s = everything(c, paths, COPSE_COUNT(paths));
            hunger.left = -1;
            if (s != COPSE_ERR_END && s != COPSE_ERR_NO_MEMORY)
                fail_msg("allocation %ld: %s: %s", n, copse_status_name(s), copse_last_error());
            copse_context_memory(c, &after);
            assert_int_equal(after.live_blocks, before.live_blocks);
        } while (s != COPSE_ERR_END);
        assert_in_range(n, 20, 1000);
    }
    copse_context_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digits_are_scaled_and_counted),
        cmocka_unit_test(test_folder_with_an_idx_pair),
        cmocka_unit_test(test_pictures_stay_bytes_and_arrays_unscaled),
        cmocka_unit_test(test_targets_of_arrays),
        cmocka_unit_test(test_folder_passes_over_images_without_labels),
        cmocka_unit_test(test_single_idx_file_finds_its_labels),
        cmocka_unit_test(test_npy_with_labels_of_its_own),
        cmocka_unit_test(test_bad_arrays_are_refused),
        cmocka_unit_test(test_split_is_a_partition_that_depends_on_the_seed),
        cmocka_unit_test(test_stratified_split_divides_each_class),
        cmocka_unit_test(test_stratified_split_of_few_rows),
        cmocka_unit_test(test_stratified_split_needs_classes),
        cmocka_unit_test(test_split_of_a_split_keeps_to_its_rows),
        cmocka_unit_test(test_every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
