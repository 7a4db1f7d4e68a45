/* SPDX-License-Identifier: MIT */
/* See op_harness.h. */
#include "tests/op_harness.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/random.h"

#define MAX_DEVICES 8
#define MAX_DIFFERENCES 24 /* elements of an input whose derivative is checked by differences */

static copse_context *ctx;
static copse_device *devices[MAX_DEVICES];
static size_t device_count;

int harness_open(void **state)
{
    (void)state;
    const char *only = getenv("COPSE_TEST_DEVICES");
    const struct copse_device_info *list;
    size_t count;
    if (copse_context_create(NULL, &ctx) != COPSE_OK)
        return -1;
    copse_context_devices(ctx, &list, &count);
    for (size_t i = 0; i < count && device_count < MAX_DEVICES; i++) {
        if (!list[i].is_usable || (only && !strstr(only, list[i].id)))
            continue;
        if (copse_device_open(ctx, list[i].id, NULL, &devices[device_count]) != COPSE_OK) {
            print_error("%s: %s\n", list[i].id, copse_last_error());
            return -1;
        }
        print_message("device %s: %s\n", list[i].id, list[i].name);
        device_count++;
    }
    return device_count ? 0 : -1;
}

int harness_close(void **state)
{
    (void)state;
    while (device_count > 0)
        copse_device_release(&devices[--device_count]);
    copse_context_release(&ctx);
    return 0;
}

size_t harness_device_count(void)
{
    return device_count;
}

copse_device *harness_device(size_t i)
{
    return devices[i];
}

copse_context *harness_context(void)
{
    return ctx;
}

void harness_fails(copse_status got, copse_status code, const char *word)
{
    if (got != code || !strstr(copse_last_error(), word))
        fail_msg("got %s '%s', expected %s about '%s'", copse_status_name(got),
                 copse_last_error(), copse_status_name(code), word);
}

static void *block(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p)
        fail_msg("no memory for the test");
    return p;
}

static size_t elements(const copse_tensor *t)
{
    return (size_t)copse__elements(t->shape);
}

/* ---- evaluation ---- */

struct feed {
    copse_tensor *const *in;
    double *const *values;
    size_t count;
};

static copse_status feed(void *user, const copse_tensor *leaf, void *values, size_t count)
{
    const struct feed *f = user;
    for (size_t i = 0; i < f->count; i++) {
        if (f->in[i] != leaf)
            continue;
        for (size_t k = 0; k < count; k++)
            if (leaf->type == COPSE_I32)
                ((int32_t *)values)[k] = (int32_t)f->values[i][k];
            else
                ((double *)values)[k] = f->values[i][k];
        return COPSE_OK;
    }
    return copse_fail(COPSE_ERR_ARGUMENT, "harness: no such input");
}

void harness_in_double(copse_graph *g, copse_tensor *const *in, double *const *values,
                       size_t in_count, copse_tensor *const *out, size_t out_count,
                       const uint32_t *step, double *const *results)
{
    struct feed f = { in, values, in_count };
    const struct copse_reference_params p = { g, feed, &f, step };
    OK(copse__reference_run(&p, out, out_count, results));
}

static void convert(const copse_tensor *t, const double *from, void *to)
{
    for (size_t k = 0; k < elements(t); k++)
        if (t->type == COPSE_I32)
            ((int32_t *)to)[k] = (int32_t)from[k];
        else
            ((float *)to)[k] = (float)from[k];
}

void harness_on_device(copse_device *dev, copse_graph *g, copse_tensor *const *in,
                       double *const *values, size_t in_count, copse_tensor *const *out,
                       size_t out_count, const uint32_t *step, const char *matmul,
                       double *const *results)
{
    enum { ROOM = HARNESS_INPUTS + 2 };
    uint32_t words[COPSE_STEP_WORDS] = { 0 };
    copse_queue *q = NULL;
    copse_buffer *step_buffer = NULL, *buffers[ROOM] = { NULL };
    struct copse_placement places[ROOM];
    copse_program *program = NULL;
    const struct copse_choice choice = { "matmul", matmul };

    words[COPSE_STEP_SHARE] = words[COPSE_STEP_SCALE] = 0x3f800000u;
    OK(copse_queue_create(dev, &q));
    OK(copse__buffer_acquire(dev, sizeof words, &step_buffer));
    OK(copse_queue_write(q, step_buffer, 0, step ? step : words, sizeof words));
    for (size_t i = 0; i < out_count; i++) {
        const size_t bytes = copse__round_up(4 * COPSE_MAX(elements(out[i]), 1), 16);
        OK(copse__buffer_acquire(dev, bytes, &buffers[i]));
        OK(copse_queue_fill(q, buffers[i], 0, bytes, 0xffffdeadu)); /* a NaN that must go */
        places[i] = (struct copse_placement){ out[i], { buffers[i], 0, bytes }, 0 };
    }
    const struct copse_program_params params = {
        .graph = g, .queue = q, .placements = places, .placement_count = out_count,
        .step = { step_buffer, 0, sizeof words }, .choices = &choice,
        .choice_count = matmul ? 1 : 0,
    };
    OK(copse__program_create(&params, &program));
    for (size_t i = 0; i < in_count; i++) {
        struct copse_binding at;
        if (elements(in[i]) == 0 || !copse__program_input(program, in[i], &at))
            continue;
        uint32_t *data = block(elements(in[i]), 4);
        convert(in[i], values[i], data);
        OK(copse_queue_write(q, at.buffer, at.offset, data, 4 * elements(in[i])));
        free(data);
    }
    OK(copse__program_replay(program, 0));
    for (size_t i = 0; i < out_count; i++) {
        const size_t n = elements(out[i]);
        uint32_t *data = block(n, 4);
        if (n > 0)
            OK(copse_queue_read(q, buffers[i], 0, data, 4 * n));
        OK(copse_queue_finish(q));
        for (size_t k = 0; k < n; k++)
            results[i][k] = out[i]->type == COPSE_I32 ? (double)((int32_t *)data)[k]
                                                      : (double)((float *)data)[k];
        free(data);
    }
    copse__program_release(&program);
    for (size_t i = 0; i < out_count; i++)
        copse_buffer_release(&buffers[i]);
    copse_buffer_release(&step_buffer);
    copse_queue_release(&q);
}

/* ---- comparison ---- */

static double ulp_of(double y)
{
    int exponent;
    if (fabs(y) < 0x1p-126)
        return 0x1p-149;
    frexp(y, &exponent);
    return ldexp(1.0, exponent - 24);
}

static bool is_close(double got, double want, double magnitude, double largest,
                     const struct harness_limit *l)
{
    const double rounded = (float)want;
    if (isnan(rounded) || isinf(rounded) || isnan(got) || isinf(got))
        return (isnan(rounded) && isnan(got)) || got == rounded ||
               (fabs(want) > 0.999999 * (double)FLT_MAX && !isinf(want) &&
                fabs(got) > 0.999999 * (double)FLT_MAX && (got > 0) == (want > 0));
    if (l->ulp == 0 && l->ratio == 0 && l->of_max == 0)
        return got == rounded;
    if (got == 0 && fabs(want) < 0x1p-126) /* devices may flush */
        return true;
    return fabs(got - want) <= l->ulp * ulp_of(fmax(fabs(want), l->floor)) +
                                   l->ratio * 0x1p-24 * fabs(magnitude) + l->of_max * largest;
}

static void compare(const struct harness_case *c, const char *where, const char *what,
                    const copse_tensor *t, const double *got, const double *want,
                    const double *magnitude, const struct harness_limit *l)
{
    double largest = 0;
    char text[96];
    for (size_t k = 0; k < elements(t); k++)
        if (isfinite(want[k]))
            largest = fmax(largest, fabs(want[k]));
    for (size_t k = 0; k < elements(t); k++)
        if (t->type == COPSE_I32 ? got[k] != want[k]
                                 : !is_close(got[k], want[k], magnitude ? magnitude[k] : 0,
                                             largest, l))
            fail_msg("%s, %s, %s%s, seed %llu: element %zu is %.9g, expected %.17g: off by %.3g "
                     "ULP, %.3g of the magnitude %.3g, %.3g of the largest", c->name, where, what,
                     copse__shape_text(t->shape, text), (unsigned long long)c->seed, k, got[k],
                     want[k], fabs(got[k] - want[k]) / ulp_of(want[k]),
                     fabs(got[k] - want[k]) / (0x1p-24 * (magnitude ? magnitude[k] : 0)),
                     magnitude ? magnitude[k] : 0, fabs(got[k] - want[k]) / largest);
}

/* ---- a case ---- */

struct run {
    copse_graph *g;
    copse_tensor *in[HARNESS_INPUTS + 1]; /* the last one is dy */
    double *values[HARNESS_INPUTS + 1];
    size_t in_count;
    copse_tensor *out[HARNESS_INPUTS + 1]; /* y, then the gradients */
    size_t source[HARNESS_INPUTS + 1];     /* of gradient i: which input */
    double *want[HARNESS_INPUTS + 1], *magnitude[HARNESS_INPUTS + 1];
    size_t out_count;
};

static void draw(struct copse_stream *s, const struct harness_input *in, double *values, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        const double u = (double)copse__stream_unit(s), x = in->low + (in->high - in->low) * u;
        values[k] = in->values                ? in->values[k]
                    : in->type == COPSE_I32   ? floor(x)
                    : fabs(x) < 1e-3          ? (double)(float)(x + copysign(1e-3, x)) /* kinks */
                                              : (double)(float)x;
    }
}

static void set_up(struct run *r, const struct harness_case *c)
{
    struct copse_stream s;
    char name[8];
    copse_tensor *y, *x[HARNESS_INPUTS], *dx[HARNESS_INPUTS];
    size_t wanted = 0;
    memset(r, 0, sizeof *r);
    copse__stream_init(&s, c->seed ? c->seed : 1, 7);
    OK(copse_graph_create(ctx, &r->g));
    for (size_t i = 0; i < c->in_count; i++) {
        snprintf(name, sizeof name, "in%zu", i);
        OK(copse_input(r->g, name, c->in[i].type, c->in[i].shape, &r->in[i]));
        r->values[i] = block(elements(r->in[i]), sizeof(double));
        draw(&s, &c->in[i], r->values[i], elements(r->in[i]));
        if (c->in[i].type == COPSE_F32 && !c->in[i].is_constant) {
            r->source[1 + wanted] = i;
            x[wanted++] = r->in[i];
        }
    }
    r->in_count = c->in_count;
    const copse_status built = c->build(r->g, r->in, c->user, &y);
    if (built)
        fail_msg("%s: %s: %s", c->name, copse_status_name(built), copse_last_error());
    r->out[r->out_count++] = y;
    if (!c->has_no_gradient && wanted > 0) {
        const struct harness_input slope = { .low = -2, .high = 2 };
        const size_t last = r->in_count++;
        OK(copse_input(r->g, "dy", COPSE_F32, y->shape, &r->in[last]));
        r->values[last] = block(elements(y), sizeof(double));
        draw(&s, &slope, r->values[last], elements(y));
        const copse_status derived = copse_gradients(r->g, y, r->in[last], x, wanted, dx);
        if (derived)
            fail_msg("%s: %s: %s", c->name, copse_status_name(derived), copse_last_error());
        for (size_t i = 0; i < wanted; i++)
            r->out[r->out_count++] = dx[i];
    }
    for (size_t i = 0; i < r->out_count; i++)
        r->want[i] = block(elements(r->out[i]), sizeof(double));
    harness_in_double(r->g, r->in, r->values, r->in_count, r->out, r->out_count, c->step, r->want);
}

static void measure_magnitudes(struct run *r, const struct harness_case *c)
{
    double *absolute[HARNESS_INPUTS + 1];
    for (size_t i = 0; i < r->in_count; i++) {
        absolute[i] = block(elements(r->in[i]), sizeof(double));
        for (size_t k = 0; k < elements(r->in[i]); k++)
            absolute[i][k] = fabs(r->values[i][k]);
    }
    for (size_t i = 0; i < r->out_count; i++)
        r->magnitude[i] = block(elements(r->out[i]), sizeof(double));
    harness_in_double(r->g, r->in, absolute, r->in_count, r->out, r->out_count, c->step,
                      r->magnitude);
    for (size_t i = 0; i < r->in_count; i++)
        free(absolute[i]);
}

static double inner_product(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += a[k] * b[k];
    return sum;
}

/* d(sum y dy)/dx by central differences, element by element. */
static void check_differences(struct run *r, const struct harness_case *c)
{
    const double h = 1e-5;
    const size_t ny = elements(r->out[0]);
    const double *dy = r->values[r->in_count - 1];
    double *up = block(ny, sizeof *up), *down = block(ny, sizeof *down);
    double noise = 1e-14; /* rounding of the results themselves */
    for (size_t i = 0; i < ny; i++)
        noise += 16 * 0x1p-53 * fabs(r->want[0][i] * dy[i]);
    for (size_t o = 1; o < r->out_count; o++) {
        double *x = r->values[r->source[o]];
        const size_t n = elements(r->out[o]), stride = n / MAX_DIFFERENCES + 1;
        for (size_t k = 0; k < n; k += stride) {
            const double x0 = x[k], g = r->want[o][k];
            x[k] = x0 + h;
            harness_in_double(r->g, r->in, r->values, r->in_count, r->out, 1, c->step, &up);
            x[k] = x0 - h;
            harness_in_double(r->g, r->in, r->values, r->in_count, r->out, 1, c->step, &down);
            x[k] = x0;
            for (size_t i = 0; i < ny; i++)
                up[i] -= down[i];
            const double slope = inner_product(up, dy, ny) / (2 * h);
            if (!(fabs(slope - g) <= 1e-6 * (1e-3 + fabs(g)) + noise / (2 * h)))
                fail_msg("%s, input %zu, seed %llu: derivative %zu is %.12g, central difference "
                         "%.12g", c->name, r->source[o], (unsigned long long)c->seed, k, g, slope);
        }
    }
    free(up);
    free(down);
}

void harness_run(const struct harness_case *c)
{
    struct run r;
    double *got[HARNESS_INPUTS + 1];
    set_up(&r, c);
    if (c->forward.ratio > 0 || c->backward.ratio > 0)
        measure_magnitudes(&r, c);
    if (r.out_count > 1 && !c->skips_differences)
        check_differences(&r, c);
    for (size_t d = 0; d < device_count; d++) {
        const char *id = copse_device_describe(devices[d])->id;
        char what[32];
        for (size_t i = 0; i < r.out_count; i++)
            got[i] = block(elements(r.out[i]), sizeof(double));
        harness_on_device(devices[d], r.g, r.in, r.values, r.in_count, r.out, r.out_count, c->step,
                          c->matmul, got);
        for (size_t i = 0; i < r.out_count; i++) {
            snprintf(what, sizeof what, i ? "gradient of input %zu " : "result ", r.source[i]);
            compare(c, id, what, r.out[i], got[i], r.want[i], r.magnitude[i],
                    i ? &c->backward : &c->forward);
            free(got[i]);
        }
    }
    for (size_t i = 0; i < r.in_count; i++)
        free(r.values[i]);
    for (size_t i = 0; i < r.out_count; i++) {
        free(r.want[i]);
        free(r.magnitude[i]);
    }
    copse_graph_release(&r.g);
}
