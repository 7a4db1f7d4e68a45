/* SPDX-License-Identifier: MIT */
/* A program with a window of 60 frames a second trains a network between the frames, on the Vulkan
   device that renders them: a hash grid (Mueller et al., 2022) and a perceptron learn a picture. It
   is prepared by a thread, and trained in time slices of a budget per frame. See docs/embedding.md.

       paint [--frames N] [--budget MICROSECONDS] [--offscreen] [--screenshot FILE.ppm] [--curve]

   --curve prints frame times and training speed for several budgets. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "copse/copse.h"
#include "copse/device/open.h"
#include "copse/device/vulkan.h"
#include "copse/predict.h"
#include "copse/train/advance.h"
#include "paint_window.h"

enum {
    LEVELS = 6,
    CORNERS = 4 * LEVELS,
    LEVEL_ROWS = 2048, /* of the table */
    FEATURES = 2,
    WIDTH = 32,
    BATCH = 512,
    STRIP = 512, /* pixels that are drawn at once */
    MOST_FRAMES = 100000,
};
static const uint64_t FRAME_NS = 1000000000u / 60;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- the picture and the grid ---- */

/* Rings and a slope; channel 0 is blue. */
static float color_of(uint32_t x, uint32_t y, uint32_t channel)
{
    const float u = ((float)x + 0.5f) / PANEL - 0.5f, v = ((float)y + 0.5f) / PANEL - 0.5f;
    const float ring = 0.5f + 0.5f * sinf(40.0f * sqrtf(u * u + v * v));
    return channel == 0 ? ring : channel == 1 ? 0.5f + u * v * 2.0f : (u > v ? ring : 0.9f - ring);
}

/* Pixels as a batch: for each of the corners around a pixel, the row of the table and the bilinear
   weight. Grids of few points have a row for each point, larger ones share rows by a hash. */
struct pixels {
    int32_t rows[BATCH * CORNERS];
    float weights[BATCH * CORNERS], colors[BATCH * 3];
};

static void place_pixel(struct pixels *p, uint32_t i, uint32_t x, uint32_t y)
{
    static const uint32_t sizes[LEVELS] = { 4, 7, 12, 21, 37, 64 };
    for (uint32_t level = 0; level < LEVELS; level++) {
        const float u = ((float)x + 0.5f) / PANEL * (float)sizes[level],
                    v = ((float)y + 0.5f) / PANEL * (float)sizes[level];
        const uint32_t cx = (uint32_t)u, cy = (uint32_t)v;
        for (uint32_t corner = 0; corner < 4; corner++) {
            const uint32_t gx = cx + (corner & 1), gy = cy + (corner >> 1), side = sizes[level] + 1;
            const uint32_t row =
                side * side <= LEVEL_ROWS ? gy * side + gx : (gx ^ gy * 2654435761u) % LEVEL_ROWS;
            const uint32_t at = i * CORNERS + level * 4 + corner;
            p->rows[at] = (int32_t)(level * LEVEL_ROWS + row);
            p->weights[at] = (corner & 1 ? u - (float)cx : 1.0f - u + (float)cx) *
                             (corner >> 1 ? v - (float)cy : 1.0f - v + (float)cy);
        }
    }
    for (uint32_t c = 0; c < 3; c++)
        p->colors[i * 3 + c] = color_of(x, y, c);
}

#define PIXELS_BATCH(p)                                                                \
    {                                                                                  \
        COPSE_COLUMNS({ "rows", COPSE_I32, COPSE_SHAPE(CORNERS), (p)->rows },          \
                      { "weights", COPSE_F32, COPSE_SHAPE(CORNERS, 1), (p)->weights }, \
                      { "colors", COPSE_F32, COPSE_SHAPE(3), (p)->colors }),           \
            .count = BATCH                                                             \
    }

/* ---- the network ---- */

struct model {
    copse_tensor *table, *w[3], *b[3];
};

static copse_tensor *predict_colors(copse_graph *g, const copse_batch *in, void *user)
{
    const struct model *m = user;
    copse_tensor *rows = copse_input(in, "rows");
    copse_tensor *weights = copse_input(in, "weights");
    const uint32_t pixels = copse_tensor_shape(rows).dims[0];
    copse_tensor *x = copse_gather(g, m->table, rows); /* [pixels, CORNERS, FEATURES] */
    x = copse_mul(g, x, weights);
    x = copse_reshape(g, x, COPSE_SHAPE(pixels, LEVELS, 4, FEATURES));
    x = copse_sum(g, x, (const uint32_t[]){ 2 }, 1, false);
    x = copse_reshape(g, x, COPSE_SHAPE(pixels, LEVELS * FEATURES));
    for (int i = 0; i < 3; i++)
        x = copse_dense(g, x, m->w[i], m->b[i], i < 2 ? COPSE_RELU : COPSE_LINEAR);
    return x;
}

static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *guess = predict_colors(g, in, user);
    copse_tensor *colors = copse_input(in, "colors");
    return copse_mean_squared_error(g, guess, colors);
}

static copse_status make_variable(copse_strategy *st, const struct copse_variable_params *p,
                                  copse_tensor **out)
{
    copse_variable *v;
    COPSE_TRY(copse_variable_create(st, p, &v));
    *out = copse_variable_tensor(v);
    return COPSE_OK;
}

static copse_status make_model(copse_strategy *st, struct model *m)
{
    static const char *const names[3][2] = { { "w0", "b0" }, { "w1", "b1" }, { "w2", "b2" } };
    const uint32_t widths[4] = { LEVELS * FEATURES, WIDTH, WIDTH, 3 };
    const struct copse_variable_params table = { .name = "grid",
                                                 .shape =
                                                     COPSE_SHAPE(LEVELS * LEVEL_ROWS, FEATURES),
                                                 .initializer = COPSE_INIT_NORMAL,
                                                 .scale = 0.01f,
                                                 .is_sparse = true };
    COPSE_TRY(make_variable(st, &table, &m->table));
    for (int i = 0; i < 3; i++) {
        const struct copse_variable_params w = { .name = names[i][0],
                                                 .shape = COPSE_SHAPE(widths[i], widths[i + 1]),
                                                 .initializer = COPSE_INIT_HE_NORMAL };
        const struct copse_variable_params b = { .name = names[i][1],
                                                 .shape = COPSE_SHAPE(widths[i + 1]) };
        COPSE_TRY(make_variable(st, &w, &m->w[i]));
        COPSE_TRY(make_variable(st, &b, &m->b[i]));
    }
    return COPSE_OK;
}

/* ---- training beside the window ---- */

struct paint {
    struct window window;
    copse_context *ctx;
    copse_device *lent;
    copse_strategy *st;
    copse_trainer *trainer;
    struct model model;
    struct pixels batch, strip;
    float colors[STRIP * 3];                    /* of the strip */
    uint8_t picture[4 * PICTURE_WIDTH * PANEL]; /* the picture, and what is learned of it */
    uint32_t random, drawn;                     /* next strip */
    bool is_in_progress;
    uint64_t batches;
    double first_loss, last_loss;
    size_t wrong;    /* pixels */
    uint32_t frames; /* number of the next one */
    atomic_bool is_prepared;
    copse_status prepared;
    char why[1024];
};

static void lock_queue(void *lock)
{
    pthread_mutex_lock(lock);
}

static void unlock_queue(void *lock)
{
    pthread_mutex_unlock(lock);
}

static copse_status make_trainer(struct paint *p)
{
    const struct copse_context_params no_drivers = { .disable = "opencl,vulkan" };
    const struct copse_vulkan_handles lent = { .get_proc_addr = vkGetInstanceProcAddr,
                                               .instance = p->window.instance,
                                               .api_version = VK_API_VERSION_1_1,
                                               .physical_device = p->window.physical,
                                               .device = p->window.device,
                                               .queue_family = p->window.family,
                                               .queue = p->window.queue,
                                               .lock_queue = lock_queue,
                                               .unlock_queue = unlock_queue,
                                               .user = &p->window.lock };
    const struct copse_trainer_params params = {
        .loss = loss, .user = &p->model, .optimizer = { .kind = COPSE_ADAM, .learning_rate = 0.01f }
    };
    COPSE_TRY(copse_context_create(&no_drivers, &p->ctx));
    COPSE_TRY(copse_vulkan_import(p->ctx, &lent, &p->lent));
    COPSE_TRY(copse_one_device_create(p->ctx, copse_device_describe(p->lent)->id, NULL, &p->st));
    COPSE_TRY(make_model(p->st, &p->model));
    return copse_trainer_create(p->st, &params, &p->trainer);
}

static void next_batch(struct paint *p)
{
    for (uint32_t i = 0; i < BATCH; i++) {
        p->random = p->random * 1664525u + 1013904223u;
        place_pixel(&p->batch, i, p->random >> 8 & (PANEL - 1), p->random >> 20 & (PANEL - 1));
    }
}

/* The next strip of the picture, as the network has it, into p->colors. */
static copse_status predict_strip(struct paint *p)
{
    const struct copse_host_batch b = PIXELS_BATCH(&p->strip);
    for (uint32_t i = 0; i < STRIP; i++)
        place_pixel(&p->strip, i, (p->drawn + i) % PANEL, (p->drawn + i) / PANEL);
    return copse_trainer_predict(p->trainer, predict_colors, &p->model, &b, p->colors,
                                 sizeof p->colors);
}

/* Copy the strip to the picture, which the frames show. */
static void copy_strip(struct paint *p)
{
    const uint32_t first = p->drawn;
    for (uint32_t i = 0; i < STRIP; i++) {
        uint8_t *to =
            p->picture + 4 * ((first + i) / PANEL * PICTURE_WIDTH + PANEL + (first + i) % PANEL);
        for (uint32_t c = 0; c < 3; c++)
            to[c] = (uint8_t)(255.0f * fminf(fmaxf(p->colors[i * 3 + c], 0.0f), 1.0f) + 0.5f);
    }
    p->drawn = (first + STRIP) % (PANEL * PANEL);
}

static copse_status draw_strip(struct paint *p)
{
    COPSE_TRY(predict_strip(p));
    copy_strip(p);
    return COPSE_OK;
}

static copse_status take_result(struct paint *p)
{
    struct copse_step_result r;
    COPSE_TRY(copse_trainer_result(p->trainer, true, &r));
    p->last_loss = r.loss;
    if (r.step == 1)
        p->first_loss = r.loss;
    p->batches++;
    return COPSE_OK;
}

/* What fits into the budget: slices of steps, and a strip after every second step. */
static copse_status train_between(struct paint *p, uint64_t microseconds)
{
    const uint64_t end = now_ns() + microseconds * 1000;
    const struct copse_host_batch b = PIXELS_BATCH(&p->batch);
    while (now_ns() < end) {
        struct copse_advance did;
        if (!p->is_in_progress)
            next_batch(p);
        COPSE_TRY(copse_trainer_advance(p->trainer, &b, (end - now_ns()) / 1000, &did));
        p->is_in_progress = did.is_in_progress;
        if (p->is_in_progress)
            return COPSE_OK;
        COPSE_TRY(take_result(p));
        if (p->batches % 2 == 0)
            COPSE_TRY(draw_strip(p));
    }
    return COPSE_OK;
}

/* A thread of its own: it does not touch the picture, which the frames read meanwhile. */
static void *prepare(void *user)
{
    struct paint *p = user;
    const struct copse_host_batch b = PIXELS_BATCH(&p->batch);
    p->prepared =
        copse_trainer_prepare(p->trainer, &b, &(struct copse_prepare_params){ .advances = true });
    if (p->prepared == COPSE_OK)
        p->prepared = predict_strip(p);
    if (p->prepared != COPSE_OK) /* the text belongs to the thread */
        snprintf(p->why, sizeof p->why, "%s", copse_last_error());
    atomic_store(&p->is_prepared, true);
    return NULL;
}

/* ---- frames ---- */

static bool show_frame(struct paint *p)
{
    size_t wrong;
    if (!window_frame(&p->window, p->picture, p->frames++, &wrong)) {
        fprintf(stderr, "paint: %s\n", p->window.reason);
        return false;
    }
    p->wrong += wrong;
    return true;
}

static void sleep_until(uint64_t ns)
{
    const struct timespec t = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static int compare_times(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Frames with training between them. Prints their times, from one to the next, and the speed. */
static bool run_frames(struct paint *p, uint32_t count, uint64_t budget)
{
    static uint64_t times[MOST_FRAMES];
    const uint64_t start = now_ns(), batches = p->batches;
    uint64_t last = start, due = start;
    for (uint32_t i = 0; i < count; i++) {
        if (!show_frame(p))
            return false;
        if (budget > 0 && train_between(p, budget) != COPSE_OK) {
            fprintf(stderr, "paint: %s\n", copse_last_error());
            return false;
        }
        due += FRAME_NS;
        if (due > now_ns())
            sleep_until(due);
        else
            due = now_ns(); /* a frame is late: the next ones are not hurried */
        times[i] = now_ns() - last;
        last += times[i];
    }
    qsort(times, count, sizeof *times, compare_times);
    printf("budget %6llu us  frame p50 %5.2f ms  p99 %5.2f ms  %6.1f batches/s  loss %.4f\n",
           (unsigned long long)budget, (double)times[count / 2] / 1e6,
           (double)times[count * 99 / 100] / 1e6,
           (double)(p->batches - batches) * 1e9 / (double)(last - start), p->last_loss);
    return true;
}

/* Two seconds of whole steps without a frame. */
static copse_status run_unshared(struct paint *p)
{
    const struct copse_host_batch b = PIXELS_BATCH(&p->batch);
    const uint64_t start = now_ns();
    uint64_t batches = 0;
    for (; now_ns() < start + 2000000000u; batches++) {
        next_batch(p);
        COPSE_TRY(copse_trainer_step(p->trainer, &b));
        COPSE_TRY(take_result(p));
        if (p->batches % 2 == 0)
            COPSE_TRY(draw_strip(p));
    }
    printf("no frames                                       %6.1f batches/s\n",
           (double)batches * 1e9 / (double)(now_ns() - start));
    return COPSE_OK;
}

static bool run_curve(struct paint *p, uint32_t count)
{
    static const uint64_t budgets[] = { 0, 1000, 2000, 4000, 8000, 12000, 16000, 24000, 32000 };
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++)
        if (!run_frames(p, count, budgets[i]))
            return false;
    p->is_in_progress = false; /* the first whole step finishes it */
    if (run_unshared(p) == COPSE_OK)
        return true;
    fprintf(stderr, "paint: %s\n", copse_last_error());
    return false;
}

/* Frames while a thread prepares the training. */
static bool run_preparation(struct paint *p)
{
    pthread_t thread;
    const uint64_t start = now_ns();
    if (pthread_create(&thread, NULL, prepare, p) != 0)
        return false;
    bool is_ok = true;
    for (uint64_t due = start; is_ok && !atomic_load(&p->is_prepared); sleep_until(due)) {
        is_ok = show_frame(p);
        due += FRAME_NS;
    }
    if (!is_ok)
        copse_trainer_cancel(p->trainer);
    pthread_join(thread, NULL);
    if (p->prepared != COPSE_OK) {
        fprintf(stderr, "paint: %s\n", p->why);
        return false;
    }
    copy_strip(p);
    printf("prepared in %.2f s, with %u frames meanwhile\n", (double)(now_ns() - start) / 1e9,
           p->frames);
    return is_ok;
}

/* ---- the program ---- */

struct options {
    uint32_t frames;
    uint64_t budget;
    bool is_offscreen, is_curve;
    const char *screenshot;
};

static bool read_options(int argc, char **argv, struct options *o)
{
    *o = (struct options){ .frames = 300, .budget = 8000 };
    for (int i = 1; i < argc; i++) {
        const bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--offscreen") == 0)
            o->is_offscreen = true;
        else if (strcmp(argv[i], "--curve") == 0)
            o->is_curve = true;
        else if (strcmp(argv[i], "--frames") == 0 && has_value)
            o->frames = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--budget") == 0 && has_value)
            o->budget = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--screenshot") == 0 && has_value)
            o->screenshot = argv[++i];
        else
            return false;
    }
    return o->frames > 0 && o->frames <= MOST_FRAMES;
}

static bool run(struct paint *p, const struct options *o)
{
    if (make_trainer(p) != COPSE_OK) {
        fprintf(stderr, "paint: %s\n", copse_last_error());
        return false;
    }
    next_batch(p);
    if (!run_preparation(p) ||
        !(o->is_curve ? run_curve(p, o->frames) : run_frames(p, o->frames, o->budget)) ||
        !show_frame(p))
        return false;
    if (o->screenshot && !window_save(&p->window, o->screenshot)) {
        fprintf(stderr, "paint: %s\n", p->window.reason);
        return false;
    }
    printf("%u frames, %zu wrong pixels; %llu batches, loss %.4f, at first %.4f\n", p->frames,
           p->wrong, (unsigned long long)p->batches, p->last_loss, p->first_loss);
    return p->wrong == 0 && (o->budget == 0 || p->last_loss < p->first_loss);
}

int main(int argc, char **argv)
{
    static struct paint p;
    struct options o;
    if (!read_options(argc, argv, &o)) {
        fprintf(stderr, "usage: paint [--frames N] [--budget MICROSECONDS] [--offscreen] "
                        "[--screenshot FILE.ppm] [--curve]\n");
        return 2;
    }
    if (!window_open(&p.window, !o.is_offscreen)) {
        fprintf(stderr, "paint: %s\n", p.window.reason);
        window_close(&p.window);
        return 77;
    }
    for (uint32_t y = 0; y < PANEL; y++)
        for (uint32_t x = 0; x < PANEL; x++)
            for (uint32_t c = 0; c < 3; c++)
                p.picture[4 * (y * PICTURE_WIDTH + x) + c] =
                    (uint8_t)(255.0f * fminf(fmaxf(color_of(x, y, c), 0.0f), 1.0f) + 0.5f);
    const bool is_right = run(&p, &o);
    copse_trainer_release(&p.trainer);
    copse_device_release(&p.lent);
    copse_strategy_release(&p.st);
    copse_context_release(&p.ctx);
    window_close(&p.window);
    return is_right ? 0 : 1;
}
