/* SPDX-License-Identifier: MIT */
/* The event file of --logdir: losses of steps, scores of epochs, the distribution of each variable,
   filters as pictures. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "copse/data/pictures.h"

#include "tools/train/train_run.h"

#define FILTERS_SHOWN 64
#define TAG_BYTES     256

static copse_status no_memory(void)
{
    return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the events of --logdir");
}

copse_status run_log_open(struct run *r)
{
    if (!r->settings.logdir || is_silent(r) || r->log)
        return COPSE_OK;
    /* earlier ones are in the files of the process that did them */
    r->logged_steps = r->history.step_count;
    return copse_event_file_create(r->ctx, r->settings.logdir, &r->log);
}

copse_status run_log_close(struct run *r)
{
    return copse_event_file_close(&r->log);
}

/* ---- numbers ---- */

static copse_status log_steps(struct run *r)
{
    const struct history *h = &r->history;
    const char *score = h->is_regression ? "mean absolute error/train" : "accuracy/train";
    for (; r->logged_steps < h->step_count; r->logged_steps++) {
        const size_t i = r->logged_steps;
        COPSE_TRY(copse_event_file_scalar(r->log, "loss/train", i + 1, h->steps[i].loss));
        COPSE_TRY(copse_event_file_scalar(r->log, score, i + 1, h->steps[i].accuracy));
    }
    return COPSE_OK;
}

static copse_status log_score(const struct run *r, uint64_t step)
{
    const struct score *s = &r->test;
    if (!r->held_out)
        return COPSE_OK;
    COPSE_TRY(copse_event_file_scalar(r->log, "loss/held out", step, s->loss));
    COPSE_TRY(copse_event_file_scalar(
        r->log, s->is_regression ? "R2/held out" : "accuracy/held out", step, s->accuracy));
    if (s->is_regression)
        COPSE_TRY(copse_event_file_scalar(r->log, "mean absolute error/held out", step, s->mae));
    if (s->is_sequence)
        COPSE_TRY(
            copse_event_file_scalar(r->log, "perplexity/held out", step, score_perplexity(s)));
    if (s->is_sequence)
        COPSE_TRY(copse_event_file_scalar(r->log, "bits per byte/held out", step, score_bits(s)));
    return r->progress.seconds > 0
               ? copse_event_file_scalar(r->log, "samples per second", step,
                                         (double)r->progress.samples / r->progress.seconds)
               : COPSE_OK;
}

/* ---- variables ---- */

/* Filters of a convolution, [height, width, channels, count], side by side with a line of grey
   around each: 128 is 0, and the largest magnitude of a filter is 1 or 255. */
static copse_status log_filters(const struct run *r, const char *tag, uint64_t step,
                                const float *values, const copse_shape *of)
{
    const uint32_t h = of->dims[0], w = of->dims[1], channels = of->dims[2], all = of->dims[3];
    const uint32_t count = all < FILTERS_SHOWN ? all : FILTERS_SHOWN,
                   columns = (uint32_t)ceil(sqrt(count));
    const uint32_t lines = (count + columns - 1) / columns, width = columns * (w + 1) + 1,
                   height = lines * (h + 1) + 1;
    uint8_t *pixels = malloc((size_t)width * height * channels);
    if (!pixels)
        return no_memory();
    memset(pixels, 128, (size_t)width * height * channels);
    for (uint32_t f = 0; f < count; f++) {
        const uint32_t top = f / columns * (h + 1) + 1, left = f % columns * (w + 1) + 1;
        float largest = 0;
        for (size_t i = 0; i < (size_t)h * w * channels; i++)
            largest = fmaxf(largest, fabsf(values[i * all + f]));
        for (size_t i = 0; i < (size_t)h * w * channels && largest > 0 && isfinite(largest); i++) {
            const size_t y = top + i / (w * channels), x = left * channels + i % (w * channels);
            const float value = values[i * all + f] / largest;
            pixels[y * width * channels + x] =
                isnan(value) ? 128 : (uint8_t)lrintf(128 + 127 * value);
        }
    }
    const copse_status s =
        copse_event_file_picture(r->log, tag, step, pixels, height, width, channels);
    free(pixels);
    return s;
}

static size_t train_log_elements(const copse_shape *shape)
{
    size_t n = 1;
    for (uint32_t i = 0; i < shape->rank; i++)
        n *= shape->dims[i];
    return n;
}

static copse_status log_variable(const struct run *r, copse_variable *v, uint64_t step,
                                 float *values)
{
    const copse_shape shape = copse_variable_shape(v);
    const char *name = copse_variable_name(v);
    char tag[TAG_BYTES];
    COPSE_TRY(copse_variable_read(v, 0, values));
    snprintf(tag, sizeof tag, "variables/%.200s", name);
    COPSE_TRY(copse_event_file_histogram(r->log, tag, step, values, train_log_elements(&shape)));
    if (shape.rank != 4 || (shape.dims[2] != 1 && shape.dims[2] != 3) || !copse_pictures_are_read())
        return COPSE_OK;
    snprintf(tag, sizeof tag, "filters/%.200s", name);
    return log_filters(r, tag, step, values, &shape);
}

static copse_status log_variables(const struct run *r, uint64_t step)
{
    copse_variable *const *list;
    copse_status s = COPSE_OK;
    size_t count;
    copse_strategy_variables(r->strategy, &list, &count);
    for (size_t i = 0; s == COPSE_OK && i < count; i++) {
        if (copse_variable_type(list[i]) != COPSE_F32)
            continue;
        const copse_shape shape = copse_variable_shape(list[i]);
        float *values = malloc(train_log_elements(&shape) * sizeof *values + 1);
        s = values ? log_variable(r, list[i], step, values) : no_memory();
        free(values);
    }
    return s;
}

copse_status run_log_epoch(struct run *r)
{
    const uint64_t step = r->progress.step;
    if (!r->log)
        return run_log_open(r); /* a worker that writes since now, after the loss of the chief */
    COPSE_TRY(log_steps(r));
    COPSE_TRY(log_score(r, step));
    COPSE_TRY(log_variables(r, step));
    return copse_event_file_flush(r->log);
}
