/* SPDX-License-Identifier: MIT */
/* Trains a network that removes the noise of a camera, and writes it as an ONNX file.
   docs/denoiser.md */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/copse.h"
#include "copse/nn/onnx.h"
#include "copse/optim/schedule.h"

#include "examples/apps/common/app_command.h"
#include "examples/apps/common/app_files.h"
#include "gray.h"
#include "micrograph.h"

enum {
    SIDE = 64,            /* of the pictures that the network takes */
    BORDER = 8,           /* of a tile, left out where a neighbour has these pixels */
    PIXELS = SIDE * SIDE, /* of a tile */
    MADE = 8,
    MADE_SIDE = 256, /* pictures that are computed where none are given */
    MOST_PICTURES = 64,
};

/* Largest difference of a pixel between the network and its file. */
static const double file_bound = 1e-4;

enum mode { TRAIN, APPLY, MAKE, MODES };
static const struct command_mode modes[MODES] = { { "the training", 1, SIZE_MAX },
                                                  { "--apply", 3, 3 },
                                                  { "--make", 2, 2 } };

const char program_name[] = "denoiser";

/* At half of the size in the middle; each part adds to what it gets. The innermost and the outermost
   part begin with adding nothing. */
static const char network[] = "residual { conv 16 3x3 relu;"
                              " residual { conv 32 3x3 stride=2 relu;"
                              " residual { conv 32 3x3 relu; conv 32 3x3 init=zeros };"
                              " conv_transposed 16 2x2 stride=2 };"
                              " conv 1 3x3 init=zeros }";

static const char usage[] =
    "usage: denoiser MODEL.onnx [CLEAN.pgm ...] [--epochs 10] [--patches 256] [--batch 8]\n"
    "                [--rate 0.003] [--seed 1] [--photons 30] [--read-noise 0.02] [--device auto]\n"
    "                [--figure OUT.png]\n"
    "       denoiser --apply MODEL.onnx NOISY.pgm OUT.pgm [--device auto]\n"
    "       denoiser --make CLEAN.pgm NOISY.pgm [--seed 1] [--photons 30] [--read-noise 0.02]\n";

struct options {
    const char *device, *figure;
    double epochs, patches, batch, rate, seed, photons, read_noise;
};

/* Patches of pictures, with noise and without. */
struct patches {
    float *noisy, *clean;
    size_t count;
    copse_dataset *data;
    copse_loader *loader;
};

struct session {
    copse_context *ctx;
    copse_strategy *st;
    copse_layer *layers;
    copse_schedule *rates;
    copse_trainer *trainer;
    struct gray pictures[MOST_PICTURES];
    size_t picture_count;
    struct patches training, held_out;
};

/* Peak signal-to-noise ratio in decibels, of pictures from 0 to 1. */
static double psnr_of(double squared_error)
{
    return squared_error > 0 ? -10 * log10(squared_error) : INFINITY;
}

static double mean_error(const float *a, const float *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += pow((double)a[i] - (double)b[i], 2);
    return sum / (double)count;
}

/* ---- data ---- */

static bool open_pictures(struct session *s, char **files, size_t count, const struct options *o)
{
    for (size_t i = 0; i < (count ? count : MADE); i++) {
        struct gray *g = &s->pictures[i];
        if (!(count ? gray_read(files[i], g) : gray_make(MADE_SIDE, MADE_SIDE, g)))
            return false;
        s->picture_count = i + 1;
        if (!count) {
            micrograph_draw(g, &(struct dice){ (uint64_t)o->seed * 1000 + i });
        } else if (g->width < SIDE || g->height < 4 * SIDE) {
            fprintf(stderr, "denoiser: %s: is %zu x %zu; at least %d x %d are needed\n", files[i],
                    g->width, g->height, SIDE, 4 * SIDE);
            return false;
        }
    }
    return true;
}

/* Patches at random places: of the upper three quarters of the pictures, or of the rest. */
static bool cut_patches(struct session *s, bool is_held_out, size_t count, const struct options *o,
                        struct patches *out)
{
    struct dice dice = { (uint64_t)o->seed * 2 + is_held_out };
    const struct copse_loader_params how = { .batch = (size_t)fmin(o->batch, (double)count),
                                             .seed = (uint64_t)o->seed,
                                             .no_shuffle = is_held_out };
    out->count = count;
    out->noisy = malloc(count * PIXELS * sizeof(float));
    out->clean = malloc(count * PIXELS * sizeof(float));
    if (!out->noisy || !out->clean) {
        files_no_memory();
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const struct gray *g = &s->pictures[i % s->picture_count];
        const size_t split = g->height - g->height / 4, low = is_held_out ? split : 0;
        const size_t rows = (is_held_out ? g->height : split) - low - SIDE + 1;
        const size_t x = (size_t)(dice_roll(&dice) * (double)(g->width - SIDE + 1));
        const size_t y = low + (size_t)(dice_roll(&dice) * (double)rows);
        for (size_t k = 0; k < PIXELS; k++) {
            const float pixel = g->pixels[(y + k / SIDE) * g->width + x + k % SIDE];
            out->clean[i * PIXELS + k] = pixel;
            out->noisy[i * PIXELS + k] = micrograph_count(pixel, o->photons, o->read_noise, &dice);
        }
    }
    const struct copse_column columns[] = {
        { "x", COPSE_F32, COPSE_SHAPE(SIDE, SIDE, 1), out->noisy },
        { "y", COPSE_F32, COPSE_SHAPE(SIDE, SIDE, 1), out->clean },
    };
    return command_is_good(copse_dataset_columns(s->ctx, columns, 2, count, &out->data)) &&
           command_is_good(copse_loader_create(out->data, &how, &out->loader));
}

static void free_patches(struct patches *p)
{
    copse_loader_release(&p->loader);
    copse_dataset_release(&p->data);
    free(p->noisy);
    free(p->clean);
}

/* ---- training ---- */

static copse_tensor *clean_picture(copse_graph *g, const copse_batch *in, void *layers)
{
    return copse_layer_apply(layers, g, in, copse_input(in, "x"));
}

static copse_tensor *squared_error(copse_graph *g, const copse_batch *in, void *layers)
{
    return copse_mean_squared_error(g, clean_picture(g, in, layers), copse_input(in, "y"));
}

static copse_status note_epoch(void *user, const struct copse_epoch *e, bool *stop)
{
    (void)user;
    (void)stop;
    printf("epoch %u: PSNR %.2f dB, on held-out patches %.2f dB\n", e->epoch,
           psnr_of(e->training.loss), psnr_of(e->held_out.loss));
    fflush(stdout);
    return COPSE_OK;
}

static bool open_session(struct session *s, const struct options *o)
{
    return command_is_good(copse_context_create(NULL, &s->ctx)) &&
           command_is_good(copse_strategy_open(s->ctx, o->device, NULL, &s->st));
}

static void close_session(struct session *s)
{
    free_patches(&s->training);
    free_patches(&s->held_out);
    for (size_t i = 0; i < s->picture_count; i++)
        gray_free(&s->pictures[i]);
    copse_trainer_release(&s->trainer);
    copse_schedule_release(&s->rates);
    copse_layer_release(&s->layers);
    copse_strategy_release(&s->st);
    copse_context_release(&s->ctx);
}

static bool train_network(struct session *s, const struct options *o)
{
    const struct copse_build_params shape = { .shape = COPSE_SHAPE(SIDE, SIDE, 1),
                                              .seed = (uint64_t)o->seed };
    const size_t steps = copse_loader_count(s->training.loader);
    const struct copse_schedule_params rates = { .text = "one_cycle 0.1 10 100",
                                                 .rate = (float)o->rate,
                                                 .steps = steps * (uint64_t)o->epochs };
    const struct copse_fit_params how = { .epochs = (uint32_t)o->epochs,
                                          .held_out = s->held_out.loader,
                                          .on_epoch = note_epoch };
    if (!command_is_good(copse_nn_parse(s->ctx, network, &s->layers)) ||
        !command_is_good(copse_layer_build(s->layers, s->st, &shape)) ||
        !command_is_good(copse_schedule_create(s->ctx, &rates, &s->rates)))
        return false;
    const struct copse_trainer_params params = { .loss = squared_error,
                                                 .user = s->layers,
                                                 .optimizer = { .kind = COPSE_ADAM,
                                                                .schedule = copse_schedule_rate,
                                                                .schedule_user = s->rates } };
    return command_is_good(copse_trainer_create(s->st, &params, &s->trainer)) &&
           command_is_good(copse_trainer_fit(s->trainer, s->training.loader, &how));
}

/* ---- the ONNX file ---- */

/* What the network of a file makes of tiles [count, SIDE, SIDE, 1]. */
static bool apply_file(struct session *s, const char *path, const float *tiles, size_t count,
                       float *out)
{
    copse_onnx *file = NULL;
    copse_dataset *data = NULL;
    copse_array *result = NULL;
    const struct copse_column x = { "x", COPSE_F32, COPSE_SHAPE(SIDE, SIDE, 1), tiles };
    bool is_done = command_is_good(copse_onnx_open(s->ctx, path, &file)) &&
                   command_is_good(copse_onnx_make(file, s->st, NULL)) &&
                   command_is_good(copse_dataset_columns(s->ctx, &x, 1, count, &data)) &&
                   command_is_good(copse_onnx_predict(file, data, &result));
    if (is_done) {
        const struct copse_array_view *v = copse_array_view(result);
        size_t elements = 1;
        for (uint32_t i = 0; i < v->rank; i++)
            elements *= v->shape[i];
        is_done = v->type == COPSE_F32 && elements == count * PIXELS;
        if (is_done)
            memcpy(out, v->data, count * PIXELS * sizeof(float));
        else
            fprintf(stderr, "denoiser: %s: its output is no picture of %d x %d\n", path, SIDE,
                    SIDE);
    }
    copse_array_release(&result);
    copse_dataset_release(&data);
    copse_onnx_release(&file);
    return is_done;
}

/* The mean of the nine pixels around each one, as a filter to compare with. */
static void blur_patches(const struct patches *p, float *out)
{
    for (size_t i = 0; i < p->count * PIXELS; i++) {
        const size_t patch = i / PIXELS * PIXELS;
        const int x = (int)(i % SIDE), y = (int)(i % PIXELS / SIDE);
        float sum = 0, count = 0;
        for (int v = y - 1; v <= y + 1; v++)
            for (int u = x - 1; u <= x + 1; u++)
                if (u >= 0 && v >= 0 && u < SIDE && v < SIDE) {
                    sum += p->noisy[patch + (size_t)(v * SIDE + u)];
                    count++;
                }
        out[i] = sum / count;
    }
}

/* Three held-out patches: noisy, denoised and clean, from left to right. */
static bool draw_figure(const struct patches *p, const float *denoised, const char *path)
{
    const float *parts[] = { p->noisy, denoised, p->clean };
    enum { GAP = 4, ROWS = 3, COLUMNS = 3, SCALE = 2, CELL = SCALE * SIDE + GAP };
    struct gray g;
    if (!gray_make(COLUMNS * CELL - GAP, ROWS * CELL - GAP, &g))
        return false;
    for (size_t y = 0; y < g.height; y++)
        for (size_t x = 0; x < g.width; x++) {
            const size_t u = x % CELL / SCALE, v = y % CELL / SCALE;
            const size_t patch = y / CELL < p->count ? y / CELL : p->count - 1;
            const bool is_gap = u >= SIDE || v >= SIDE;
            const float pixel = is_gap ? 1 : parts[x / CELL][patch * PIXELS + v * SIDE + u];
            g.pixels[y * g.width + x] = is_gap ? 1 : powf(fmaxf(pixel, 0), 1 / 2.2f);
        }
    const bool is_done = gray_write(path, &g);
    gray_free(&g);
    return is_done;
}

/* Print the ratios of the held-out patches, and check the file with them. */
static bool report_gain(struct session *s, const char *model, const struct options *o)
{
    const struct patches *p = &s->held_out;
    const size_t count = p->count * PIXELS;
    struct copse_host_batch batch = {
        COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(SIDE, SIDE, 1), p->noisy }), .count = p->count
    };
    struct session again = { 0 };
    float *y = malloc(count * sizeof *y), *other = malloc(count * sizeof *other);
    bool is_done = y && other;
    if (!is_done)
        files_no_memory();
    is_done = is_done &&
              command_is_good(copse_trainer_predict(s->trainer, clean_picture, s->layers, &batch, y,
                                                    count * sizeof *y)) &&
              open_session(&again, o) && apply_file(&again, model, p->noisy, p->count, other);
    if (is_done) {
        double most = 0;
        for (size_t i = 0; i < count; i++) {
            const double d = fabs((double)y[i] - (double)other[i]);
            if (d > most || isnan(d)) /* NaN stays */
                most = d;
        }
        const double before = psnr_of(mean_error(p->noisy, p->clean, count));
        const double after = psnr_of(mean_error(y, p->clean, count));
        is_done = !o->figure || draw_figure(p, y, o->figure);
        blur_patches(p, other);
        printf("held-out patches: noisy %.2f dB, mean of 3 x 3 pixels %.2f dB, network %.2f dB: "
               "gain %.2f dB\n",
               before, psnr_of(mean_error(other, p->clean, count)), after, after - before);
        printf("%s: largest difference from the network %.2g\n", model, most);
        if (!(most <= file_bound)) {
            fprintf(stderr,
                    "denoiser: %s: computes something else than the network: a pixel differs by "
                    "%.2g, and %g is allowed\n",
                    model, most, file_bound);
            is_done = false;
        }
    }
    close_session(&again);
    free(y);
    free(other);
    return is_done;
}

/* ---- the uses ---- */

static bool train_denoiser(const char *model, char **files, size_t count, const struct options *o)
{
    struct session s = { 0 };
    const size_t held_out = (size_t)fmax(4, o->patches / 8);
    if (!copse_onnx_is_read()) {
        fprintf(stderr, "denoiser: this build of Copse writes no ONNX files\n");
        return false;
    }
    if (!files_is_writable(model, false) || (o->figure && !files_is_writable(o->figure, false)))
        return false;
    const bool is_done = open_session(&s, o) && open_pictures(&s, files, count, o) &&
                         cut_patches(&s, false, (size_t)o->patches, o, &s.training) &&
                         cut_patches(&s, true, held_out, o, &s.held_out) && train_network(&s, o) &&
                         command_is_good(copse_onnx_write(s.layers, model, NULL)) &&
                         report_gain(&s, model, o);
    close_session(&s);
    return is_done;
}

/* Where tile i begins along an axis: the last one ends with the picture. */
static size_t tile_begin(size_t i, size_t length)
{
    const size_t at = i * (SIDE - 2 * BORDER);
    return at + SIDE <= length ? at : length > SIDE ? length - SIDE : 0;
}

static size_t tile_count(size_t length)
{
    const size_t step = SIDE - 2 * BORDER;
    return length <= SIDE ? 1 : (length - SIDE + step - 1) / step + 1;
}

static size_t least_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Copy a tile of the picture; what is beyond its end repeats the last pixels. */
static void read_tile(const struct gray *g, size_t left, size_t top, float *tile)
{
    for (size_t k = 0; k < PIXELS; k++) {
        const size_t x = least_of(left + k % SIDE, g->width - 1);
        const size_t y = least_of(top + k / SIDE, g->height - 1);
        tile[k] = g->pixels[y * g->width + x];
    }
}

/* Copy a tile into the picture, without borders that an earlier tile has further inside. */
static void write_tile(struct gray *g, size_t left, size_t top, const float *tile)
{
    const size_t x0 = left ? BORDER : 0, y0 = top ? BORDER : 0;
    for (size_t y = y0; y < SIDE && top + y < g->height; y++)
        for (size_t x = x0; x < SIDE && left + x < g->width; x++)
            g->pixels[(top + y) * g->width + left + x] = tile[y * SIDE + x];
}

static bool apply_denoiser(const char *model, const char *from, const char *to,
                           const struct options *o)
{
    struct session s = { 0 };
    struct gray g = { 0 };
    float *tiles = NULL;
    bool is_done = gray_read(from, &g);
    const size_t across = is_done ? tile_count(g.width) : 0;
    const size_t count = is_done ? across * tile_count(g.height) : 0;
    if (is_done) {
        tiles = malloc(2 * count * PIXELS * sizeof *tiles);
        is_done = tiles != NULL;
        if (!is_done)
            files_no_memory();
    }
    for (size_t i = 0; is_done && i < count; i++)
        read_tile(&g, tile_begin(i % across, g.width), tile_begin(i / across, g.height),
                  tiles + i * PIXELS);
    is_done = is_done && open_session(&s, o) &&
              apply_file(&s, model, tiles, count, tiles + count * PIXELS);
    for (size_t i = 0; is_done && i < count; i++)
        write_tile(&g, tile_begin(i % across, g.width), tile_begin(i / across, g.height),
                   tiles + (count + i) * PIXELS);
    is_done = is_done && gray_write(to, &g);
    close_session(&s);
    gray_free(&g);
    free(tiles);
    return is_done;
}

static bool make_picture(const char *clean, const char *noisy, const struct options *o)
{
    struct dice dice = { (uint64_t)o->seed };
    struct gray g;
    bool is_done = gray_make(MADE_SIDE, MADE_SIDE, &g);
    if (is_done) {
        micrograph_draw(&g, &dice);
        is_done = gray_write(clean, &g);
        for (size_t i = 0; i < g.width * g.height; i++)
            g.pixels[i] = micrograph_count(g.pixels[i], o->photons, o->read_noise, &dice);
        is_done = is_done && gray_write(noisy, &g);
    }
    gray_free(&g);
    return is_done;
}

/* ---- arguments ---- */

/* Whether no file that is written is another file of the command. */
static bool check_names(char **files, size_t count, size_t written, const char *figure)
{
    for (size_t i = 0; i < count; i++)
        if ((i != written && files_is_same(files[i], files[written])) ||
            (figure && files_is_same(files[i], figure))) {
            fprintf(stderr, "denoiser: %s: is named twice; give another name for the result\n",
                    files[i]);
            return false;
        }
    return true;
}

int main(int argc, char **argv)
{
    struct options o = { .epochs = 10,
                         .patches = 256,
                         .batch = 8,
                         .rate = 0.003,
                         .seed = 1,
                         .photons = 30,
                         .read_noise = 0.02 };
    enum { IN_TRAIN = 1 << TRAIN, IN_APPLY = 1 << APPLY, IN_MAKE = 1 << MAKE };
    const struct command_option options[] = {
        { "--epochs", IN_TRAIN, NULL, &o.epochs, 1, 10000, true },
        { "--patches", IN_TRAIN, NULL, &o.patches, 16, 65536, true },
        { "--batch", IN_TRAIN, NULL, &o.batch, 1, 1024, true },
        { "--rate", IN_TRAIN, NULL, &o.rate, 1e-7, 1, false },
        { "--seed", IN_TRAIN | IN_MAKE, NULL, &o.seed, 0, 1e9, true },
        { "--photons", IN_TRAIN | IN_MAKE, NULL, &o.photons, 1, 1e6, false },
        { "--read-noise", IN_TRAIN | IN_MAKE, NULL, &o.read_noise, 0, 1, false },
        { "--device", IN_TRAIN | IN_APPLY, &o.device, NULL, 0, 0, false },
        { "--figure", IN_TRAIN, &o.figure, NULL, 0, 0, false },
    };
    const struct command c = { usage, modes, MODES, options, sizeof options / sizeof options[0] };
    struct command_line line;
    const int code = command_read(&c, argc, argv, &line);
    if (code != COMMAND_GOES_ON)
        return code;
    if (o.batch > o.patches) {
        fprintf(stderr, "denoiser: --batch %g is more than the %g patches of --patches\n", o.batch,
                o.patches);
        return 2;
    }
    if (line.mode == TRAIN && line.count > 1 + MOST_PICTURES) {
        fprintf(stderr, "denoiser: more than %d pictures\n", MOST_PICTURES);
        return 2;
    }
    char **files = line.files;
    if (!check_names(files, line.count, line.mode == APPLY ? 2 : 0, o.figure))
        return 2;
    if (line.mode == MAKE)
        return !make_picture(files[0], files[1], &o);
    if (line.mode == APPLY)
        return !apply_denoiser(files[0], files[1], files[2], &o);
    return !train_denoiser(files[0], files + 1, line.count - 1, &o);
}
