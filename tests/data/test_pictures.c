/* SPDX-License-Identifier: MIT */
/* Datasets of pictures: classes from folders, one size, schemas, decoding at once and ahead,
   augmentation; and folders that are refused. */
#include "copse/data/pictures.h"
#include "copse/data/schema.h"
#include "core/base/platform.h"
#include "core/data/dataset/dataset.h"
#include "core/data/picture/picture_loader.h"
#include "core/pictures/augment.h"
#include "tests/rig/data/data_rig.h"
#include "tests/rig/data/picture_files.h"

#if defined(COPSE_HAVE_PICTURES)

enum { W = 6, H = 5, COUNT = 30 };

static char folder[300];

/* An empty folder in the temporary folder. */
static const char *fresh(const char *name)
{
    snprintf(folder, sizeof folder, "%.200s/%s", temp_folder, name);
    temp_remove(folder);
    assert_int_equal(mkdir(folder, 0777), 0);
    return folder;
}

static const char *in_folder(const char *name)
{
    static char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')) != NULL;
         *slash++ = '/') {
        *slash = 0;
        mkdir(path, 0777);
    }
    return path;
}

static void store(const char *name, const char *text)
{
    FILE *f = fopen(in_folder(name), "wb");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static uint8_t pixel(int picture, int i)
{
    return (uint8_t)(picture * 37 + i * 11 + 1);
}

static void grey(const char *name, int picture)
{
    uint8_t pixels[W * H];
    for (int i = 0; i < W * H; i++)
        pixels[i] = pixel(picture, i);
    png_write_grey(in_folder(name), W, H, pixels);
}

/* Three classes; picture p is the p-th by class and name, and of class p / 10. */
static void make_classes(void)
{
    static const char *const classes[] = { "Zebra", "cat", "dog" }; /* by bytes */
    char name[40];
    fresh("classes");
    for (int i = COUNT - 1; i >= 0; i--) {
        snprintf(name, sizeof name, "%s/%02d.png", classes[i / 10], i % 10);
        grey(name, i);
    }
    store(".hidden", "x");
    store("cat/.DS_Store", "x");
}

static copse_status open_with(const copse_schema *schema, const struct copse_source_params *source,
                              bool no_labels, copse_dataset **out)
{
    return copse_dataset_open(ctx, folder,
                              &(struct copse_dataset_params){
                                  .schema = schema, .source = source, .no_labels = no_labels },
                              out);
}

static copse_status open_folder(copse_dataset **out)
{
    return copse_dataset_open(ctx, folder, NULL, out);
}

static void check_rows(copse_dataset *ds, const uint32_t *rows, size_t count)
{
    uint8_t x[COUNT * W * H];
    int32_t y[COUNT];
    OK(copse_dataset_gather(ds, "x", rows, count, x));
    OK(copse_dataset_gather(ds, "y", rows, count, y));
    for (size_t i = 0; i < count; i++) {
        const int picture = rows ? (int)rows[i] : (int)i;
        assert_int_equal(y[i], picture / 10);
        for (int k = 0; k < W * H; k++)
            assert_int_equal(x[i * W * H + (size_t)k], pixel(picture, k));
    }
}

static void test_classes_are_sub_folders(void **state)
{
    copse_dataset *ds, *train, *test;
    struct copse_dataset_info info;
    struct copse_schema_info schema;
    (void)state;
    make_classes();
    OK(open_folder(&ds));
    copse_dataset_describe(ds, &info);
    assert_int_equal(info.rows, COUNT);
    assert_int_equal(info.rank, 2);
    assert_int_equal(info.shape[0], H);
    assert_int_equal(info.shape[1], W);
    assert_int_equal(info.row_size, W * H);
    assert_true(info.has_labels);
    assert_int_equal(info.classes, 3);
    OK(copse_schema_describe(copse_dataset_schema(ds), &schema));
    assert_int_equal(schema.kind, COPSE_DATA_PICTURES);
    assert_int_equal(schema.type, COPSE_U8);
    assert_true(schema.input_scale == 1.0f / 255.0f);
    assert_string_equal(copse_schema_class(copse_dataset_schema(ds), 0), "Zebra");
    assert_string_equal(copse_schema_class(copse_dataset_schema(ds), 2), "dog");
    check_rows(ds, NULL, COUNT);
    assert_non_null(strstr(copse_dataset_file(ds, 0), "classes/Zebra/00.png"));
    assert_non_null(strstr(copse_dataset_file(ds, 29), "classes/dog/09.png"));
    assert_null(copse_dataset_file(ds, 30));
    OK(copse_dataset_split(ds, NULL, &train, &test));
    uint8_t x[W * H];
    for (uint32_t i = 0; i < 24; i++) {
        const char *file = copse_dataset_file(train, i);
        const int number = atoi(strrchr(file, '/') + 1) + (strstr(file, "/cat/")   ? 10
                                                           : strstr(file, "/dog/") ? 20
                                                                                   : 0);
        OK(copse_dataset_gather(train, "x", &i, 1, x));
        assert_int_equal(x[0], pixel(number, 0));
    }
    copse_dataset_release(&ds);
    copse_dataset_release(&train);
    copse_dataset_release(&test);
}

/* The digits of IDX files and of a folder have the same schema. */
static void test_numbered_folders_are_as_idx(void **state)
{
    unsigned char idx[16 + 2 * W * H] = { 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, H, 0, 0, 0, W },
                                   labels[] = { 0, 0, 8, 1, 0, 0, 0, 2, 0, 1 };
    copse_dataset *pictures, *arrays;
    char name[300];
    (void)state;
    fresh("numbered");
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%d/a.png", i);
        grey(name, i);
        for (int k = 0; k < W * H; k++)
            idx[16 + i * W * H + k] = pixel(i, k);
    }
    OK(open_folder(&pictures));
    snprintf(name, sizeof name, "%.200s/images-idx3-ubyte", temp_folder);
    FILE *f = fopen(name, "wb");
    fwrite(idx, 1, sizeof idx, f);
    fclose(f);
    snprintf(name, sizeof name, "%.200s/labels-idx1-ubyte", temp_folder);
    f = fopen(name, "wb");
    fwrite(labels, 1, sizeof labels, f);
    fclose(f);
    OK(copse_dataset_open(ctx, temp_folder, NULL, &arrays));
    assert_string_equal(copse_schema_text(copse_dataset_schema(pictures)),
                        copse_schema_text(copse_dataset_schema(arrays)));
    assert_null(copse_dataset_file(arrays, 0));
    copse_dataset_release(&pictures);
    /* pictures for a model of IDX files */
    OK(open_with(copse_dataset_schema(arrays), NULL, false, &pictures));
    uint8_t x[2][2 * W * H];
    OK(copse_dataset_gather(pictures, "x", NULL, 2, x[0]));
    OK(copse_dataset_gather(arrays, "x", NULL, 2, x[1]));
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    copse_dataset_release(&pictures);
    copse_dataset_release(&arrays);
    remove(name);
    snprintf(name, sizeof name, "%.200s/images-idx3-ubyte", temp_folder);
    remove(name);
}

/* Less memory than the pictures need: some are kept, others are decoded again; the rows are the
   same. */
static void test_pictures_are_decoded_ahead(void **state)
{
    copse_dataset *ds;
    copse_loader *b;
    struct copse_host_batch t;
    (void)state;
    make_classes();
    for (uint64_t kept = 1; kept < 12; kept += 5) {
        OK(open_with(NULL, &(struct copse_source_params){ .picture_bytes = kept * W * H }, false,
                     &ds));
        check_rows(ds, NULL, COUNT);
        check_rows(ds, (const uint32_t[]){ 29, 0, 0, 0, 7, 29, 13 }, 7);
        for (uint32_t prefetch = 0; prefetch < 4; prefetch += 3) {
            OK(copse_loader_create(
                ds, &(struct copse_loader_params){ .batch = 4, .seed = 3, .prefetch = prefetch },
                &b));
            for (uint32_t epoch = 0; epoch < 40; epoch++) {
                OK(copse_loader_start(b, epoch, epoch % 5));
                /* not to the end: announced pictures are left over */
                for (size_t i = 0; i < 8 - epoch % 5; i++) {
                    OK(copse_loader_next(b, &t));
                    for (size_t k = 0; k < t.count; k++)
                        for (int n = 0; n < W * H; n++)
                            assert_int_equal(
                                ((const uint8_t *)t.columns[0].data)[k * W * H + (size_t)n],
                                pixel((int)t.rows[k], n));
                }
            }
            copse_loader_release(&b);
        }
        copse_dataset_release(&ds);
    }
}

/* Room for two: the first two that are read stay, although their files go. */
static void test_kept_pictures_are_not_decoded_again(void **state)
{
    copse_dataset *ds;
    uint8_t x[W * H];
    (void)state;
    make_classes();
    OK(open_with(NULL, &(struct copse_source_params){ .picture_bytes = 2 * W * H }, false, &ds));
    check_rows(ds, (const uint32_t[]){ 21, 20 }, 2);
    check_rows(ds, (const uint32_t[]){ 1, 0 }, 2);
    temp_remove(folder);
    for (int i = 0; i < 3; i++)
        check_rows(ds, (const uint32_t[]){ 20, 21 }, 2);
    FAILS(COPSE_ERR_IO, copse_dataset_gather(ds, "x", (const uint32_t[]){ 1 }, 1, x),
          "Zebra/01.png");
    copse_dataset_release(&ds);
}

static void break_picture(const char *name)
{
    FILE *f = fopen(in_folder(name), "r+b");
    assert_non_null(f);
    fseek(f, 50, SEEK_SET); /* in the pixels */
    fputc(0x55, f);
    fclose(f);
}

static void test_broken_pixels_are_named(void **state)
{
    copse_dataset *ds;
    copse_loader *b;
    struct copse_host_batch t;
    copse_status s;
    (void)state;
    make_classes();
    break_picture("dog/04.png");
    break_picture("dog/03.png");
    /* the first, whatever the threads do */
    FAILS(COPSE_ERR_FORMAT, open_folder(&ds), "dog/03.png is a damaged PNG");
    assert_null(ds);
    for (uint32_t prefetch = 0; prefetch < 3; prefetch += 2) { /* found when it is decoded */
        OK(open_with(NULL, &(struct copse_source_params){ .picture_bytes = 1 }, false, &ds));
        OK(copse_loader_create(
            ds,
            &(struct copse_loader_params){ .batch = 4, .no_shuffle = true, .prefetch = prefetch },
            &b));
        for (int i = 0; i < 5; i++)
            OK(copse_loader_next(b, &t));
        FAILS(COPSE_ERR_FORMAT, copse_loader_next(b, &t), "dog/03.png is a damaged PNG");
        copse_loader_release(&b);
        copse_dataset_release(&ds);
    }
    make_classes();
    OK(open_with(NULL, &(struct copse_source_params){ .picture_bytes = 1 }, false, &ds));
    remove(in_folder("cat/05.png"));
    OK(copse_loader_create(ds, &(struct copse_loader_params){ .batch = 30 }, &b));
    FAILS(COPSE_ERR_IO, copse_loader_next(b, &t), "cat/05.png");
    grey("cat/05.png", 15); /* it is back */
    OK(copse_loader_next(b, &t));
    OK(copse_loader_start(b, 1, 0));
    png_write_grey(in_folder("cat/05.png"), 1, 1, (const uint8_t[]){ 0 });
    s = copse_loader_next(b, &t);
    assert_int_equal(s, COPSE_ERR_SHAPE);
    assert_non_null(strstr(copse_last_error(), "cat/05.png has 1 x 1 pixels now, not 6 x 5"));
    copse_loader_release(&b);
    copse_dataset_release(&ds);
}

static void test_sizes_and_resize(void **state)
{
    static const char *const wrong[] = { "",     "8",     "8x",   "x8",      "0x4",
                                         "8x4x", "8 x 4", "-8x4", "32769x1", "8X4" };
    struct copse_source_params source = { .resize = "4x3" };
    struct copse_dataset_info info;
    copse_dataset *ds, *more;
    copse_schema *parsed;
    uint8_t x[2][12], other[100];
    (void)state;
    fresh("sizes");
    grey("a/1.png", 1);
    memset(other, 9, sizeof other);
    png_write_grey(in_folder("b/2.png"), 10, 10, other);
    FAILS(COPSE_ERR_SHAPE, open_folder(&ds), "b/2.png has 10 x 10 pixels, ");
    assert_non_null(strstr(copse_last_error(),
                           "a/1.png has 6 x 5; give all one size with resize (--resize 6x5)"));
    for (size_t i = 0; i < COPSE_COUNT(wrong); i++) {
        source.resize = wrong[i];
        FAILS(COPSE_ERR_ARGUMENT, open_with(NULL, &source, false, &ds), "not WIDTHxHEIGHT");
    }
    source.resize = "4x3";
    OK(open_with(NULL, &source, false, &ds));
    copse_dataset_describe(ds, &info);
    assert_int_equal(info.shape[0], 3);
    assert_int_equal(info.shape[1], 4);
    OK(copse_dataset_gather(ds, "x", NULL, 2, x));
    for (int i = 0; i < 12; i++)
        assert_int_equal(x[1][i], 9);
    /* the schema keeps the size, for pictures of every size */
    OK(copse_schema_parse(ctx, copse_schema_text(copse_dataset_schema(ds)), &parsed));
    assert_string_equal(copse_schema_text(parsed), copse_schema_text(copse_dataset_schema(ds)));
    assert_non_null(strstr(copse_schema_text(parsed), "\"resize\":\"bilinear\""));
    fresh("flat");
    png_write_grey(in_folder("z.png"), 10, 10, other);
    OK(open_with(parsed, NULL, false, &more));
    copse_dataset_describe(more, &info);
    assert_int_equal(info.rows, 1);
    assert_false(info.has_labels);
    copse_dataset_release(&more);
    copse_schema_release(&parsed);
    copse_dataset_release(&ds);
    FAILS(COPSE_ERR_FORMAT,
          copse_schema_parse(
              ctx,
              "{\"version\":1,\"kind\":\"array\",\"task\":\"none\",\"input\":{\"type\":\"u8\","
              "\"shape\":[2,2],\"offset\":0,\"scale\":1},\"resize\":\"bilinear\"}",
              &parsed),
          "field of pictures");
    FAILS(COPSE_ERR_FORMAT,
          copse_schema_parse(
              ctx,
              "{\"version\":1,\"kind\":\"pictures\",\"task\":\"none\",\"input\":{\"type\":\"u8\","
              "\"shape\":[2,2],\"offset\":0,\"scale\":1},\"resize\":\"cubic\"}",
              &parsed),
          "bilinear");
}

static void test_grey_and_colour_together(void **state)
{
    copse_dataset *ds, *alone;
    struct copse_dataset_info info;
    uint8_t colour[W * H * 3], x[2][W * H * 3];
    (void)state;
    fresh("mixed");
    grey("a/1.png", 1);
    for (int i = 0; i < W * H * 3; i++)
        colour[i] = (uint8_t)(i * 5);
    png_write_colour(in_folder("b/2.png"), W, H, colour);
    OK(open_folder(&ds));
    copse_dataset_describe(ds, &info);
    assert_int_equal(info.rank, 3);
    assert_int_equal(info.shape[2], 3);
    OK(copse_dataset_gather(ds, "x", NULL, 2, x));
    for (int i = 0; i < W * H; i++)
        assert_int_equal(x[0][3 * i + i % 3], pixel(1, i));
    assert_memory_equal(x[1], colour, sizeof colour);
    /* one picture, without a folder */
    OK(copse_dataset_open(ctx, in_folder("a/1.png"),
                          &(struct copse_dataset_params){ .schema = copse_dataset_schema(ds) },
                          &alone));
    OK(copse_dataset_gather(alone, "x", NULL, 1, x[1]));
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    copse_dataset_release(&alone);
    copse_dataset_release(&ds);
}

static void expect_refusal(copse_status code, const char *text)
{
    copse_dataset *ds;
    FAILS(code, open_folder(&ds), text);
    assert_null(ds);
}

static void test_folders_that_are_refused(void **state)
{
    (void)state;
    fresh("f");
    expect_refusal(COPSE_ERR_IO,
                   "has no IDX pair *images*idx3* and *labels*idx1*, and no pictures");
    grey("a/1.png", 1);
    mkdir(in_folder("b"), 0777);
    expect_refusal(COPSE_ERR_FORMAT, "the class folder ");
    assert_non_null(strstr(copse_last_error(), "f/b contains no pictures"));
    store("b/.hidden", "x");
    expect_refusal(COPSE_ERR_FORMAT, "f/b contains no pictures");
    store("b/notes.txt", "x");
    expect_refusal(COPSE_ERR_FORMAT, "b/notes.txt is not a picture");
    remove(in_folder("b/notes.txt"));
    grey("b/inner/1.png", 1);
    expect_refusal(COPSE_ERR_FORMAT, "f/b contains the folder inner");
    temp_remove(in_folder("b/inner"));
    grey("b/1.png", 2);
    grey("top.png", 3);
    expect_refusal(COPSE_ERR_FORMAT, "top.png is beside class folders, such as a");
    remove(in_folder("top.png"));
    assert_int_equal(symlink("nowhere.png", in_folder("b/link.png")), 0);
    expect_refusal(COPSE_ERR_IO, "b/link.png");
    remove(in_folder("b/link.png"));
    store("b/2.png", "GIF89a");
    expect_refusal(COPSE_ERR_FORMAT, "b/2.png is not a picture");
    store("b/2.png", "");
    expect_refusal(COPSE_ERR_FORMAT, "b/2.png is not a picture");
    store("b/2.png", "\x89PNG\r\n\x1a\n");
    expect_refusal(COPSE_ERR_FORMAT, "b/2.png is a damaged PNG: the file is cut off");
    store("b/2.png", "\xff\xd8\xff\xe0");
    expect_refusal(COPSE_ERR_FORMAT, "b/2.png is a damaged JPEG");
    grey("b/2.png", 2);
    if (geteuid() != 0) { /* root reads everything */
        chmod(in_folder("b/2.png"), 0);
        expect_refusal(COPSE_ERR_IO, "b/2.png");
    }
    remove(in_folder("b/2.png"));
    char old[400];
    snprintf(old, sizeof old, "%s/b", folder);
    assert_int_equal(rename(old, in_folder("b\xff")), 0);
    expect_refusal(COPSE_ERR_FORMAT, "is not UTF-8");
}

static void test_params_that_do_not_fit(void **state)
{
    copse_dataset *ds, *table;
    (void)state;
    make_classes();
    const struct {
        struct copse_dataset_params p;
        const char *text;
    } wrong[] = {
        { { .scale = COPSE_SCALE_MAX }, "leave out scale" },
        { { .task = COPSE_TASK_REGRESSION }, "the task is classification" },
        { { .labels = "labels.npy" }, "labels.npy, does not fit pictures" },
        { { .classes = 4 }, "there are 3 class folders, but classes is 4" },
    };
    for (size_t i = 0; i < COPSE_COUNT(wrong); i++)
        FAILS(COPSE_ERR_ARGUMENT, copse_dataset_open(ctx, folder, &wrong[i].p, &ds), wrong[i].text);
    OK(copse_dataset_open(ctx, folder, &(struct copse_dataset_params){ .classes = 3 }, &ds));
    fresh("more");
    grey("cow/1.png", 1);
    copse_dataset *more;
    FAILS(COPSE_ERR_FORMAT, open_with(copse_dataset_schema(ds), NULL, false, &more),
          "the folder 'cow' is not one of the classes that training had");
    /* without labels it does not matter */
    OK(open_with(copse_dataset_schema(ds), NULL, true, &more));
    copse_dataset_release(&more);
    png_write_grey(in_folder("cow/1.png"), 1, 1, (const uint8_t[]){ 0 });
    FAILS(COPSE_ERR_SHAPE, open_with(copse_dataset_schema(ds), NULL, true, &more),
          "cow/1.png has 1 x 1 pixels, training had 6 x 5");
    table = numbered(6);
    FAILS(COPSE_ERR_SHAPE, open_with(copse_dataset_schema(table), NULL, true, &more),
          "the model was not trained on 8-bit pictures");
    copse_dataset_release(&table);
    copse_dataset_release(&ds);
}

/* ---- augmentation ---- */

static void walk(copse_dataset *ds, const char *augment, uint32_t prefetch, uint32_t epoch,
                 uint64_t seed, uint8_t (*to)[W * H])
{
    copse_loader *b;
    struct copse_host_batch t;
    copse_status s;
    OK(copse_loader_create(ds,
                           &(struct copse_loader_params){
                               .batch = 7, .seed = seed, .prefetch = prefetch, .augment = augment },
                           &b));
    OK(copse_loader_start(b, epoch, 0));
    while ((s = copse_loader_next(b, &t)) == COPSE_OK)
        for (size_t i = 0; i < t.count; i++)
            memcpy(to[t.rows[i]], (const uint8_t *)t.columns[0].data + i * W * H, W * H);
    assert_int_equal(s, COPSE_ERR_END);
    copse_loader_release(&b);
}

static void test_augmentation_is_by_seed_epoch_and_row(void **state)
{
    static uint8_t x[4][COUNT][W * H];
    const char *const all = "flip; crop 20; zoom 30; rotate 40; shift 2; brightness 20; erase 50";
    copse_dataset *ds, *ahead;
    (void)state;
    make_classes();
    OK(open_folder(&ds));
    OK(open_with(NULL, &(struct copse_source_params){ .picture_bytes = 100 }, false, &ahead));
    walk(ds, all, 0, 5, 1, x[0]);
    walk(ahead, all, 3, 5, 1, x[1]);
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    walk(ds, all, 0, 6, 1, x[1]);
    walk(ds, all, 0, 5, 2, x[2]);
    walk(ds, NULL, 0, 5, 1, x[3]);
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < W * H; k++)
            assert_int_equal(x[3][i][k], pixel(i, k));
    assert_memory_not_equal(x[0], x[1], sizeof x[0]);
    assert_memory_not_equal(x[0], x[2], sizeof x[0]);
    assert_memory_not_equal(x[0], x[3], sizeof x[0]);
    copse_dataset_release(&ahead);
    copse_dataset_release(&ds);
}

/* Each result is one that the step can make, and not always the same one. */
static void test_steps_of_augmentation(void **state)
{
    static uint8_t x[COUNT][W * H];
    int flipped = 0, moved[5][5] = { { 0 } }, kinds = 0;
    copse_dataset *ds;
    (void)state;
    make_classes();
    OK(open_folder(&ds));
    walk(ds, " flip ", 0, 0, 1, x);
    for (int i = 0; i < COUNT; i++) {
        const bool is_flipped = x[i][0] != pixel(i, 0);
        for (int k = 0; k < W * H; k++)
            assert_int_equal(x[i][k], pixel(i, is_flipped ? k / W * W + W - 1 - k % W : k));
        flipped += is_flipped;
    }
    assert_in_range(flipped, 5, 25);
    for (uint32_t epoch = 0; epoch < 4; epoch++) {
        walk(ds, "shift 2", 0, epoch, 1, x);
        for (int i = 0; i < COUNT; i++) {
            int found = 0;
            for (int dy = -2; dy <= 2; dy++)
                for (int dx = -2; dx <= 2; dx++) {
                    bool is_same = true;
                    for (int k = 0; k < W * H; k++) {
                        const int fx = k % W - dx, fy = k / W - dy;
                        is_same &=
                            x[i][k] ==
                            (fx < 0 || fx >= W || fy < 0 || fy >= H ? 0 : pixel(i, fy * W + fx));
                    }
                    found += is_same;
                    moved[dy + 2][dx + 2] += is_same;
                }
            assert_int_equal(found, 1);
        }
    }
    for (int i = 0; i < 25; i++)
        kinds += moved[i / 5][i % 5] > 0;
    assert_in_range(kinds, 20, 25);    /* 120 draws of 25 */
    walk(ds, "shift 100", 0, 0, 1, x); /* mostly out of the picture */
    walk(ds, "brightness 50", 0, 0, 1, x);
    for (int i = 0; i < COUNT; i++) {
        bool is_possible = false;
        for (int percent = 50; percent <= 150; percent++) {
            bool is_same = true;
            for (int k = 0; k < W * H; k++) {
                const int v = (pixel(i, k) * percent + 50) / 100;
                is_same &= x[i][k] == (v > 255 ? 255 : v);
            }
            is_possible |= is_same;
        }
        assert_true(is_possible);
    }
    copse_dataset_release(&ds);
}

/* A rectangle of zeros of at most half of each side, in about half of the pictures. */
static void test_erasing(void **state)
{
    static uint8_t x[COUNT][W * H];
    int erased = 0, sizes = 0;
    bool has_size[W + 1][H + 1] = { { false } };
    copse_dataset *ds;
    (void)state;
    make_classes();
    OK(open_folder(&ds));
    for (uint32_t epoch = 0; epoch < 8; epoch++) {
        walk(ds, "erase 50", 0, epoch, 1, x);
        for (int i = 0; i < COUNT; i++) {
            int left = W, right = -1, top = H, bottom = -1, zeros = 0;
            for (int k = 0; k < W * H; k++) {
                if (x[i][k] == pixel(i, k))
                    continue;
                assert_int_equal(x[i][k], 0);
                zeros++;
                left = k % W < left ? k % W : left;
                right = k % W > right ? k % W : right;
                top = k / W < top ? k / W : top;
                bottom = k / W > bottom ? k / W : bottom;
            }
            if (zeros == 0)
                continue;
            const int width = right - left + 1, height = bottom - top + 1;
            assert_in_range(width, 1, W / 2);
            assert_in_range(height, 1, H / 2);
            for (int k = 0; k < width * height; k++) /* a pixel may have been 0 before */
                assert_int_equal(x[i][(top + k / width) * W + left + k % width], 0);
            erased++;
            sizes += !has_size[width][height];
            has_size[width][height] = true;
        }
    }
    assert_in_range(erased, 80, 160); /* of 240 */
    assert_int_equal(sizes, (W / 2) * (H / 2));
    copse_dataset_release(&ds);
}

/* Each result is one that a draw gives; many of the draws occur. */
static void test_turns(void **state)
{
    static uint8_t x[COUNT][W * H];
    uint8_t pixels[W * H], scratch[W * H];
    bool has[7] = { false };
    int kinds = 0;
    copse_dataset *ds;
    (void)state;
    make_classes();
    OK(open_folder(&ds));
    walk(ds, "rotate 3", 0, 0, 1, x);
    for (int i = 0; i < COUNT; i++) {
        int found = 0;
        for (int32_t degrees = -3; degrees <= 3; degrees++) {
            const struct copse_augment_picture p = { W, H, 1, pixels, scratch };
            const struct copse_geometry g = { .degrees = degrees, .crop = 100, .zoom = 100 };
            for (int k = 0; k < W * H; k++)
                pixels[k] = pixel(i, k);
            copse__augment_geometry(&p, &g);
            const bool is_same = memcmp(pixels, x[i], sizeof pixels) == 0;
            found += is_same;
            has[degrees + 3] |= is_same;
        }
        assert_true(found >= 1);
    }
    for (int i = 0; i < 7; i++)
        kinds += has[i];
    assert_in_range(kinds, 5, 7);
    copse_dataset_release(&ds);
}

static void test_descriptions_of_augmentation(void **state)
{
    static const struct {
        const char *text, *error;
    } wrong[] = {
        { "", "'' is no step" },
        { "flip;", "'' is no step" },
        { "turn 5", "'turn 5' is no step" },
        { "flip 1", "has more than the step" },
        { "shift", "lacks its number" },
        { "shift 0", "out of range" },
        { "shift 32768", "out of range" },
        { "shift -1", "lacks its number" },
        { "shift 1 2", "has more than" },
        { "flip; flip", "is there twice" },
        { "brightness 101", "out of range" },
        { "Flip", "is no step" },
        { "rotate 181", "out of range" },
        { "zoom 91", "out of range" },
        { "crop 0", "out of range" },
        { "erase", "lacks its number" },
        { "mixed 1", "is no step; steps are flip, crop P (1 to 90), zoom P" },
    };
    copse_loader *b;
    copse_dataset *ds = numbered(6);
    (void)state;
    OK(copse_augment_check("brightness 100;shift 1 ; flip"));
    for (size_t i = 0; i < COPSE_COUNT(wrong); i++)
        FAILS(COPSE_ERR_ARGUMENT, copse_augment_check(wrong[i].text), wrong[i].error);
    FAILS(
        COPSE_ERR_ARGUMENT,
        copse_loader_create(ds, &(struct copse_loader_params){ .batch = 2, .augment = "flip" }, &b),
        "column \"x\" must be u8");
    copse_dataset_release(&ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes_are_sub_folders),
        cmocka_unit_test(test_numbered_folders_are_as_idx),
        cmocka_unit_test(test_pictures_are_decoded_ahead),
        cmocka_unit_test(test_kept_pictures_are_not_decoded_again),
        cmocka_unit_test(test_broken_pixels_are_named),
        cmocka_unit_test(test_sizes_and_resize),
        cmocka_unit_test(test_grey_and_colour_together),
        cmocka_unit_test(test_folders_that_are_refused),
        cmocka_unit_test(test_params_that_do_not_fit),
        cmocka_unit_test(test_augmentation_is_by_seed_epoch_and_row),
        cmocka_unit_test(test_steps_of_augmentation),
        cmocka_unit_test(test_erasing),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_descriptions_of_augmentation),
    };
    return cmocka_run_group_tests(tests, begin, end);
}

#else

int main(void)
{
    printf("skipped: this build reads no pictures (libpng and libjpeg-turbo were not found)\n");
    return 77;
}

#endif
