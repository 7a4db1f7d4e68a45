/* SPDX-License-Identifier: MIT */
/* make_pictures DIGITS.csv.gz OUT: writes the digits set as 8-bit pictures, class by class:
   OUT/png, a folder for each class; OUT/jpeg, a third of them as JPEG; OUT/idx, the same pictures
   as IDX files. Exit code 77: this build reads no pictures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "copse/copse.h"
#include "copse/data/pictures.h"
#include "tests/rig/data/picture_files.h"

#if defined(COPSE_HAVE_PICTURES)

enum { SIDE = 8, PIXELS = SIDE * SIDE, CLASSES = 10, MOST = 2000 };

static float x[MOST * PIXELS];
static int32_t y[MOST];

static void try(copse_status s)
{
    if (s == COPSE_OK)
        return;
    fprintf(stderr, "make_pictures: %s\n", copse_last_error());
    exit(1);
}

static size_t load(const char *path)
{
    copse_context *ctx;
    copse_dataset *data;
    struct copse_dataset_info info;

    try(copse_context_create(NULL, &ctx));
    try(copse_dataset_open(ctx, path, &(struct copse_dataset_params){ .scale = COPSE_SCALE_NONE },
                           &data));
    copse_dataset_describe(data, &info);
    if (info.rows > MOST || info.row_size != PIXELS)
        exit(1);
    try(copse_dataset_gather(data, "x", NULL, info.rows, x));
    try(copse_dataset_gather(data, "y", NULL, info.rows, y));
    copse_dataset_release(&data);
    copse_context_release(&ctx);
    return info.rows;
}

static FILE *begin_idx(const char *path, int rank, size_t rows)
{
    const unsigned char head[16] = { 0,
                                     0,
                                     8,
                                     (unsigned char)rank,
                                     0,
                                     0,
                                     (unsigned char)(rows >> 8),
                                     (unsigned char)rows,
                                     0,
                                     0,
                                     0,
                                     SIDE,
                                     0,
                                     0,
                                     0,
                                     SIDE };
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(head, 1, (size_t)(4 + 4 * rank), f) == 0)
        exit(1);
    return f;
}

static void make_folder(const char *path)
{
    if (mkdir(path, 0777) != 0) {
        perror(path);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = { "png", "jpeg" };
    char path[100];
    uint8_t pixels[PIXELS];

    if (argc != 3)
        return 2;
    const size_t rows = load(argv[1]);
    if (chdir(argv[2]) != 0) {
        perror(argv[2]);
        return 1;
    }
    make_folder("idx");
    FILE *images = begin_idx("idx/images-idx3-ubyte", 3, rows),
         *labels = begin_idx("idx/labels-idx1-ubyte", 1, rows);
    for (int k = 0; k < 2; k++)
        make_folder(kinds[k]);
    for (int class = 0; class < CLASSES; class ++) {
        for (int k = 0; k < 2; k++) {
            snprintf(path, sizeof path, "%s/%d", kinds[k], class);
            make_folder(path);
        }
        for (size_t i = 0; i < rows; i++) {
            if (y[i] != class)
                continue;
            for (int p = 0; p < PIXELS; p++)
                pixels[p] = (uint8_t)(15 * x[i * PIXELS + (size_t)p]);
            fwrite(pixels, 1, PIXELS, images);
            fputc(class, labels);
            snprintf(path, sizeof path, "png/%d/%04zu.png", class, i);
            png_write_grey(path, SIDE, SIDE, pixels);
            if (i % 3 != 0)
                continue;
            snprintf(path, sizeof path, "jpeg/%d/%04zu.jpg", class, i);
            jpeg_write(path, &(struct jpeg_file){
                                 .width = SIDE, .height = SIDE, .channels = 1, .pixels = pixels });
        }
    }
    return fclose(images) != 0 || fclose(labels) != 0;
}

#else

int main(void)
{
    return 77;
}

#endif
