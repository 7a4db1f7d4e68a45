/* SPDX-License-Identifier: MIT */
/* A small language model with random weights, opened; and what it says in double precision. */
#ifndef LANGUAGE_RIG_H
#define LANGUAGE_RIG_H

#include <math.h>

#include "tests/rig/rig.h"

#include "copse/train/language.h"
#include "tests/rig/data/language_file.h"
#include "tests/rig/data/temp_files.h"

static copse_context *ctx;
static copse_strategy *st;
static const char *on = "host:0"; /* the device */
static copse_language *language;

/* How models are opened. */
static struct copse_language_params how_to_open;

static copse_status open_file(struct gguf_file *f)
{
    gguf_bytes(f);
    const char *path = temp_write("model.gguf", f->all.at, f->all.size);
    gguf_free(f);
    OK(copse_strategy_open(ctx, on, NULL, &st));
    return copse_language_open(st, path, &how_to_open, &language);
}

static void close_file(void)
{
    copse_language_release(&language);
    copse_strategy_release(&st);
}

static inline void open_kind(const struct kind *k)
{
    struct gguf_file f = { .key_count = 0 };
    fill_all();
    if (k->is_quantised)
        quantise_all();
    put_model(&f, k);
    OK(open_file(&f));
}

/* ---- the reference ---- */

#define MOST 220 /* tokens */

static void norm_of(const double *x, const float *scale, int n, double *y)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (int i = 0; i < n; i++)
        y[i] = x[i] / sqrt(sum / n + (double)0.01f) * (double)scale[i];
}

static void product_of(const double *x, const float *w, const float *bias, int rows, int columns,
                       double *y)
{
    for (int r = 0; r < rows; r++) {
        y[r] = bias ? (double)bias[r] : 0;
        for (int c = 0; c < columns; c++)
            y[r] += (double)w[r * columns + c] * x[c];
    }
}

static void turn(double *x, int heads, int place, double base)
{
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < HEAD / 2; i++) {
            double *a = &x[h * HEAD + i], *b = a + HEAD / 2;
            const double angle = place * pow(base, -2.0 * i / HEAD), u = *a, v = *b;
            *a = u * cos(angle) - v * sin(angle);
            *b = v * cos(angle) + u * sin(angle);
        }
}

static double cap_of(double x, float cap)
{
    return cap > 0 ? (double)cap * tanh(x / (double)cap) : x;
}

static double keys[LAYERS][MOST][KV * HEAD], values[LAYERS][MOST][KV * HEAD];

static void attend(const struct kind *k, int i, int place, const double *x, double *y)
{
    const struct layer *l = &net.layer[i];
    const float *bias = k->has_biases ? l->bias : NULL;
    double q[HEADS * HEAD], mixed[HEADS * HEAD] = { 0 }, score[MOST];
    product_of(x, l->q, bias, HEADS * HEAD, WIDTH, q);
    product_of(x, l->k, bias ? bias + HEADS * HEAD : NULL, KV * HEAD, WIDTH, keys[i][place]);
    product_of(x, l->v, bias ? bias + HEADS * HEAD + KV * HEAD : NULL, KV * HEAD, WIDTH,
               values[i][place]);
    for (int h = 0; k->norms_heads && h < HEADS; h++)
        norm_of(q + h * HEAD, l->q_norm, HEAD, q + h * HEAD);
    for (int h = 0; k->norms_heads && h < KV; h++)
        norm_of(keys[i][place] + h * HEAD, l->k_norm, HEAD, keys[i][place] + h * HEAD);
    const bool slides = k->window > 0 && (k->period == 0 || (i + 1) % k->period > 0);
    const double base = slides && k->near_base > 0 ? (double)k->near_base : 100.0,
                 scalar = k->scalar > 0 ? (double)k->scalar : HEAD;
    const int first = slides && place >= k->window ? place - k->window + 1 : 0;
    turn(q, HEADS, place, base), turn(keys[i][place], KV, place, base);
    for (int h = 0; h < HEADS; h++) {
        const int of = h / (HEADS / KV) * HEAD;
        double sum = 0;
        for (int t = first; t <= place; t++) {
            score[t] = 0;
            for (int c = 0; c < HEAD; c++)
                score[t] += q[h * HEAD + c] * keys[i][t][of + c];
            sum += score[t] = exp(cap_of(score[t] / sqrt(scalar), k->cap));
        }
        for (int t = first; t <= place; t++)
            for (int c = 0; c < HEAD; c++)
                mixed[h * HEAD + c] += score[t] / sum * values[i][t][of + c];
    }
    product_of(mixed, l->o, NULL, WIDTH, HEADS * HEAD, y);
}

static inline double gate_of(const struct kind *k, double x)
{
    return k->is_gemma ? x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x))) / 2
                       : x / (1 + exp(-x));
}

/* Outputs after a token at a place; those before it were computed. */
static inline void predict(const struct kind *k, int32_t token, int place, double outputs[TOKENS])
{
    double x[WIDTH], y[WIDTH], z[WIDTH], gate[HIDDEN], up[HIDDEN];
    for (int c = 0; c < WIDTH; c++)
        x[c] = (double)net.table[token * WIDTH + c] * (k->is_gemma ? sqrt(WIDTH) : 1);
    for (int i = 0; i < LAYERS; i++) {
        const struct layer *l = &net.layer[i];
        norm_of(x, l->in_norm, WIDTH, y);
        attend(k, i, place, y, z);
        if (k->norms_after)
            memcpy(y, z, sizeof y), norm_of(y, l->out_norm, WIDTH, z);
        for (int c = 0; c < WIDTH; c++)
            x[c] += z[c];
        norm_of(x, l->mlp_norm, WIDTH, y);
        product_of(y, l->gate, NULL, HIDDEN, WIDTH, gate);
        product_of(y, l->up, NULL, HIDDEN, WIDTH, up);
        for (int c = 0; c < HIDDEN; c++)
            gate[c] = gate_of(k, gate[c]) * up[c];
        product_of(gate, l->down, NULL, WIDTH, HIDDEN, z);
        if (k->norms_after)
            memcpy(y, z, sizeof y), norm_of(y, l->down_norm, WIDTH, z);
        for (int c = 0; c < WIDTH; c++)
            x[c] += z[c];
    }
    norm_of(x, net.norm, WIDTH, y);
    product_of(y, k->is_tied ? net.table : net.head, NULL, TOKENS, WIDTH, outputs);
    for (int c = 0; c < TOKENS; c++)
        outputs[c] = cap_of(outputs[c], k->last_cap);
}

static inline double loss_of(const double outputs[TOKENS], int32_t token)
{
    double sum = 0;
    for (int i = 0; i < TOKENS; i++)
        sum += exp(outputs[i] - outputs[token]);
    return log(sum);
}

#endif
