/* SPDX-License-Identifier: MIT */
/* Recurrent layers have the same bits on repetition. A packed sequence gives what it gives alone,
   whatever is behind its end, and no derivative there. A sequence in two parts, with the state
   between them, gives what it gives in one. */
#include <math.h>
#include <stdlib.h>

#include "copse/ops/recurrent.h"
#include "core/base/random.h"
#include "core/ops/recurrent/recurrent_variants.h"
#include "tests/rig/conformance/op_harness.h"

struct sizes {
    enum copse_recurrent_kind kind;
    uint32_t batch, time, features, units;
};

static const struct sizes all_sizes[] = {
    { COPSE_RECURRENT_GRU, 3, 6, 5, 7 },   { COPSE_RECURRENT_LSTM, 3, 6, 5, 7 },
    { COPSE_RECURRENT_TANH, 3, 6, 5, 7 },  { COPSE_RECURRENT_GRU, 16, 20, 16, 32 },
    { COPSE_RECURRENT_LSTM, 5, 9, 3, 33 },
};

enum { X, W, R, BIAS, HIDDEN, CELL, INS };

/* Shapes of the operands. */
static copse_shape shape_of(const struct sizes *s, int operand)
{
    const uint32_t columns = copse__recurrent_gates((int32_t)s->kind) * s->units;
    return operand == X      ? COPSE_SHAPE(s->batch, s->time, s->features)
           : operand == W    ? COPSE_SHAPE(s->features, columns)
           : operand == R    ? COPSE_SHAPE(s->units, columns)
           : operand == BIAS ? COPSE_SHAPE(columns)
                             : COPSE_SHAPE(s->batch, s->units);
}

/* Values of the operands, and of dy, which is behind them. */
struct values {
    double *at[INS + 1];
    size_t count[INS + 1];
};

static struct values values_of(const struct sizes *s)
{
    struct values v;
    struct copse_stream random;
    for (int i = 0; i <= INS; i++) {
        const copse_shape shape =
            i == INS ? COPSE_SHAPE(s->batch, s->time, s->units) : shape_of(s, i);
        v.count[i] = (size_t)copse__elements(shape);
        v.at[i] = calloc(v.count[i], sizeof(double));
        assert_non_null(v.at[i]);
        copse__stream_init(&random, (uint64_t)i + 1, 0);
        for (size_t k = 0; k < v.count[i]; k++)
            v.at[i][k] = (double)(copse__stream_normal(&random) * (i == W || i == R ? 0.4f : 1.0f));
    }
    return v;
}

static void drop(struct values *v)
{
    for (int i = 0; i <= INS; i++)
        free(v->at[i]);
}

static copse_tensor *layer(copse_graph *g, const struct sizes *s, copse_tensor *const *in,
                           copse_tensor *lengths, copse_tensor **last, copse_tensor **cell)
{
    const struct copse_recurrent_params p = { .bias = in[BIAS],
                                              .recurrent_bias = in[BIAS],
                                              .hidden = in[HIDDEN],
                                              .cell =
                                                  s->kind == COPSE_RECURRENT_LSTM ? in[CELL] : NULL,
                                              .lengths = lengths };
    if (s->kind == COPSE_RECURRENT_LSTM)
        return copse_lstm(g, in[X], in[W], in[R], &p, last, cell);
    return s->kind == COPSE_RECURRENT_GRU ? copse_gru(g, in[X], in[W], in[R], &p, last)
                                          : copse_rnn(g, in[X], in[W], in[R], &p, last);
}

/* The results: y, the last state, the derivatives of the operands. */
enum { Y, LAST, SLOPES, OUTS = SLOPES + INS - 1 };

struct results {
    double *at[OUTS];
    size_t count[OUTS];
};

static struct results computed(copse_device *dev, const struct sizes *s, const struct values *v,
                               const int32_t *lengths)
{
    struct results r;
    copse_graph *g;
    copse_tensor *in[INS + 1], *out[OUTS], *ends = NULL;
    OK(copse_graph_create(harness_context(), &g));
    for (int i = 0; i < INS; i++)
        in[i] = copse_graph_input(g, "x", COPSE_F32, shape_of(s, i));
    in[INS] = copse_graph_input(g, "dy", COPSE_F32, COPSE_SHAPE(s->batch, s->time, s->units));
    if (lengths)
        ends = copse_constant(g, COPSE_I32, COPSE_SHAPE(s->batch), lengths);
    out[Y] = layer(g, s, in, ends, &out[LAST], NULL);
    copse_gradients(g, out[Y], in[INS], in, INS - 1, &out[SLOPES]);
    for (int i = 0; i < OUTS; i++) {
        r.count[i] = (size_t)copse__elements(out[i]->shape);
        r.at[i] = calloc(r.count[i], sizeof(double));
        assert_non_null(r.at[i]);
    }
    harness_on_device(dev, g, in, v->at, INS + 1, out, OUTS, NULL, r.at);
    copse_graph_release(&g);
    return r;
}

static void drop_results(struct results *r)
{
    for (int i = 0; i < OUTS; i++)
        free(r->at[i]);
}

static void same(const char *what, const char *id, const double *a, const double *b, size_t count,
                 double limit)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabs(a[i] - b[i]) <= limit))
            fail_msg("%s, %s: number %zu is %.9g and %.9g", id, what, i, a[i], b[i]);
}

static void repetition_gives_the_same_bits(void **state)
{
    (void)state;
    for (size_t d = 0; d < harness_device_count(); d++)
        for (size_t k = 0; k < COPSE_COUNT(all_sizes); k++) {
            copse_device *dev = harness_device(d);
            struct values v = values_of(&all_sizes[k]);
            struct results a = computed(dev, &all_sizes[k], &v, NULL),
                           b = computed(dev, &all_sizes[k], &v, NULL);
            for (int i = 0; i < OUTS; i++)
                same("repeated", copse_device_describe(dev)->id, a.at[i], b.at[i], a.count[i], 0);
            drop_results(&a);
            drop_results(&b);
            drop(&v);
        }
}

/* The lengths that sequence i of a packed batch has. */
static int32_t length_of(const struct sizes *s, uint32_t i)
{
    return (int32_t)(i % 3 == 0 ? s->time : i % 3 == 1 ? s->time / 2 : 1);
}

/* A sequence of a packed batch, and alone. */
static void check_alone(copse_device *dev, const struct sizes *s, const struct values *v,
                        const struct results *packed, uint32_t i)
{
    const char *id = copse_device_describe(dev)->id;
    struct sizes one = *s;
    const size_t row = (size_t)s->time * s->features, states = (size_t)s->time * s->units;
    struct values alone = *v;
    one.batch = 1;
    one.time = (uint32_t)length_of(s, i);
    alone.at[X] += i * row;
    alone.at[HIDDEN] += i * s->units;
    alone.at[CELL] += i * s->units;
    alone.at[INS] += i * states;
    struct results r = computed(dev, &one, &alone, NULL);
    same("y", id, &packed->at[Y][i * states], r.at[Y], r.count[Y], 2e-6);
    same("last state", id, &packed->at[LAST][i * s->units], r.at[LAST], r.count[LAST], 2e-6);
    same("dx", id, &packed->at[SLOPES + X][i * row], r.at[SLOPES + X], r.count[SLOPES + X], 2e-5);
    same("derivative of the state", id, &packed->at[SLOPES + HIDDEN][i * s->units],
         r.at[SLOPES + HIDDEN], s->units, 2e-5);
    for (size_t k = r.count[Y]; k < states; k++)
        assert_true(packed->at[Y][i * states + k] == 0);
    for (size_t k = r.count[SLOPES + X]; k < row; k++)
        assert_true(packed->at[SLOPES + X][i * row + k] == 0);
    drop_results(&r);
}

static void packed_sequences_are_those_alone(void **state)
{
    (void)state;
    for (size_t d = 0; d < harness_device_count(); d++)
        for (size_t k = 0; k < 3; k++) {
            const struct sizes *s = &all_sizes[k];
            int32_t lengths[16];
            struct values v = values_of(s);
            for (uint32_t i = 0; i < s->batch; i++) {
                lengths[i] = length_of(s, i);
                for (size_t t = (size_t)lengths[i]; t < s->time; t++) /* not used */
                    v.at[X][(i * s->time + t) * s->features] = NAN;
            }
            struct results packed = computed(harness_device(d), s, &v, lengths);
            for (int i = SLOPES + W; i <= SLOPES + BIAS; i++)
                for (size_t n = 0; n < packed.count[i]; n++)
                    assert_true(isfinite(packed.at[i][n]) && packed.at[i][n] != 0);
            for (uint32_t i = 0; i < s->batch; i++)
                check_alone(harness_device(d), s, &v, &packed, i);
            drop_results(&packed);
            drop(&v);
        }
}

/* y of the first and of the second half of the steps, joined. */
static copse_tensor *halves(copse_graph *g, const struct sizes *s, copse_tensor *const *in)
{
    copse_tensor *operands[INS], *x[2], *part[2];
    memcpy(operands, in, sizeof operands);
    copse_split(g, in[X], 1, NULL, 2, x);
    for (int i = 0; i < 2; i++) {
        copse_tensor *last, *cell;
        operands[X] = x[i];
        part[i] = layer(g, s, operands, NULL, &last, &cell);
        operands[HIDDEN] = last;
        operands[CELL] = cell;
    }
    return copse_concat(g, part, 2, 1);
}

static void two_parts_give_what_one_gives(void **state)
{
    (void)state;
    for (size_t d = 0; d < harness_device_count(); d++)
        for (size_t k = 0; k < 3; k++) {
            const struct sizes *s = &all_sizes[k];
            copse_device *dev = harness_device(d);
            copse_graph *g;
            copse_tensor *in[INS + 1], *out[INS];
            struct values v = values_of(s);
            struct results whole = computed(dev, s, &v, NULL);
            double *got[INS];
            OK(copse_graph_create(harness_context(), &g));
            for (int i = 0; i < INS; i++)
                in[i] = copse_graph_input(g, "x", COPSE_F32, shape_of(s, i));
            in[INS] =
                copse_graph_input(g, "dy", COPSE_F32, COPSE_SHAPE(s->batch, s->time, s->units));
            out[0] = halves(g, s, in);
            copse_gradients(g, out[0], in[INS], in, INS - 1, &out[1]);
            for (int i = 0; i < INS; i++) {
                got[i] = calloc((size_t)copse__elements(out[i]->shape), sizeof(double));
                assert_non_null(got[i]);
            }
            harness_on_device(dev, g, in, v.at, INS + 1, out, INS, NULL, got);
            same("y in two parts", copse_device_describe(dev)->id, got[0], whole.at[Y],
                 whole.count[Y], 2e-6);
            for (int i = 1; i < INS; i++)
                same("derivative in two parts", copse_device_describe(dev)->id, got[i],
                     whole.at[SLOPES + i - 1], whole.count[SLOPES + i - 1], 5e-5);
            for (int i = 0; i < INS; i++)
                free(got[i]);
            copse_graph_release(&g);
            drop_results(&whole);
            drop(&v);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repetition_gives_the_same_bits),
        cmocka_unit_test(packed_sequences_are_those_alone),
        cmocka_unit_test(two_parts_give_what_one_gives),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
