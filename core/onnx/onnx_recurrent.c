/* SPDX-License-Identifier: MIT */
/* GRU, LSTM and RNN, forward, reverse or both. The gates are in another order in Copse's layers; a
   GRU that resets the state before its product, and peepholes, are written out step by step. */
#include <stdio.h>

#include "copse/matmul.h"
#include "copse/ops.h"
#include "copse/ops/recurrent.h"
#include "core/graph/op.h"
#include "core/onnx/onnx.h"

#define STEPS_MOST 1024u /* that are written out */

/* A layer: its sizes and what all directions share. */
struct recurrent {
    struct onnx_walk *w;
    const char *name; /* "GRU" */
    uint32_t gates, time, batch, units, directions;
    bool is_first; /* x is [batch, time, ..] */
    const uint8_t *order;
    copse_tensor *x, *lengths; /* x: [batch, time, features] */
};

static const uint8_t gru_order[] = { 1, 0, 2 }, lstm_order[] = { 0, 2, 3, 1 }, rnn_order[] = { 0 };

/* Direction `d` of an operand [directions, ..], without this axis. */
static copse_tensor *direction_of(const struct recurrent *r, size_t operand, uint32_t d)
{
    struct onnx_value *v = copse__onnx_in(r->w, operand);
    if (!v)
        return NULL;
    uint32_t start[COPSE_MAX_RANK] = { d };
    copse_shape size = v->shape, shape = { .rank = v->shape.rank - 1 };
    size.dims[0] = 1;
    for (uint32_t i = 0; i < shape.rank; i++)
        shape.dims[i] = v->shape.dims[i + 1];
    copse_tensor *t = copse_slice(r->w->g, copse__onnx_f32(r->w, v), start, size.dims);
    return copse_reshape(r->w->g, t, shape);
}

/* A first state: [directions, batch, units], or [batch, directions, units]. */
static copse_tensor *state_of(const struct recurrent *r, size_t operand, uint32_t d)
{
    struct onnx_value *v = copse__onnx_in(r->w, operand);
    if (!v)
        return NULL;
    const uint32_t start[3] = { r->is_first ? 0 : d, r->is_first ? d : 0, 0 },
                   size[3] = { r->is_first ? r->batch : 1, r->is_first ? 1 : r->batch, r->units };
    return copse_reshape(r->w->g, copse_slice(r->w->g, copse__onnx_f32(r->w, v), start, size),
                         COPSE_SHAPE(r->batch, r->units));
}

/* Gates along axis 0 in the order of the layer. `first`: of the first one. */
static copse_tensor *ordered_gates(const struct recurrent *r, copse_tensor *t, uint32_t first)
{
    copse_tensor *parts[4];
    const copse_shape s = copse_tensor_shape(t);
    for (uint32_t k = 0; k < r->gates; k++) {
        const uint32_t start[2] = { (first + r->order[k]) * r->units, 0 },
                       size[2] = { r->units, s.dims[1] };
        parts[k] = copse_slice(r->w->g, t, start, size);
    }
    return r->gates == 1 ? parts[0] : copse_concat(r->w->g, parts, r->gates, 0);
}

static copse_tensor *turned_columns(const struct recurrent *r, copse_tensor *t)
{
    return copse_transpose(r->w->g, ordered_gates(r, t, 0), (const uint32_t[]){ 1, 0 });
}

/* [batch, time, ..] in reverse. */
static copse_tensor *reversed_time(const struct recurrent *r, copse_tensor *t)
{
    int32_t *places = copse__onnx_room(r->w, r->time, sizeof *places);
    for (uint32_t i = 0; places && i < r->time; i++)
        places[i] = (int32_t)(r->time - 1 - i);
    if (!places)
        return t;
    static const uint32_t swap[] = { 1, 0, 2 };
    t = copse_gather(r->w->g, copse_transpose(r->w->g, t, swap),
                     copse_constant(r->w->g, COPSE_I32, COPSE_SHAPE(r->time), places));
    return copse_transpose(r->w->g, t, swap);
}

/* ---- by layers ---- */

static copse_tensor *layer_run(const struct recurrent *r, uint32_t d, copse_tensor *x,
                               copse_tensor **last, copse_tensor **cell)
{
    copse_graph *g = r->w->g;
    copse_tensor *b = direction_of(r, 3, d);
    struct copse_recurrent_params p = { .hidden = state_of(r, 5, d), .lengths = r->lengths };
    copse_tensor *w = turned_columns(r, direction_of(r, 1, d)),
                 *u = turned_columns(r, direction_of(r, 2, d));
    if (b) {
        p.bias = ordered_gates(r, b, 0);
        p.recurrent_bias = ordered_gates(r, b, r->gates);
    }
    if (r->gates == 3)
        return copse_gru(g, x, w, u, &p, last);
    if (r->gates == 1)
        return copse_rnn(g, x, w, u, &p, last);
    p.cell = state_of(r, 6, d);
    return copse_lstm(g, x, w, u, &p, last, cell);
}

/* ---- step by step ---- */

struct written {
    copse_tensor *w, *r, *bias, *recurrent_bias,
        *peepholes; /* of one direction, gates as in ONNX */
    copse_tensor *h, *c;
};

/* Rows of gate k of [gates units, ..]. */
static copse_tensor *gate_rows(const struct recurrent *r, copse_tensor *t, uint32_t k)
{
    const uint32_t start[2] = { k * r->units, 0 },
                   size[2] = { r->units, copse_tensor_shape(t).dims[1] };
    return copse_slice(r->w->g, t, start, size);
}

/* Gate k of a step: products of the input and of a state. */
static copse_tensor *gate_sum(const struct recurrent *r, const struct written *k, copse_tensor *x,
                              copse_tensor *h, uint32_t gate)
{
    copse_graph *g = r->w->g;
    copse_tensor *y = copse_add(g, copse_matmul(g, x, gate_rows(r, k->w, gate), false, true),
                                copse_matmul(g, h, gate_rows(r, k->r, gate), false, true));
    if (k->bias)
        y = copse_add(
            g, y,
            copse_add(g, gate_rows(r, k->bias, gate), gate_rows(r, k->bias, r->gates + gate)));
    return y;
}

/* Gates z, r, h; the state is reset before its product. */
static void gru_step(const struct recurrent *r, struct written *k, copse_tensor *x)
{
    copse_graph *g = r->w->g;
    copse_tensor *z = copse_sigmoid(g, gate_sum(r, k, x, k->h, 0)),
                 *reset = copse_sigmoid(g, gate_sum(r, k, x, k->h, 1));
    copse_tensor *n = copse_tanh(g, gate_sum(r, k, x, copse_mul(g, reset, k->h), 2));
    k->h = copse_add(g, n, copse_mul(g, z, copse_sub(g, k->h, n)));
}

/* The gates are in the order i, o, f, c. With peepholes i, o and f also read the cell. */
static void lstm_step(const struct recurrent *r, struct written *k, copse_tensor *x)
{
    copse_graph *g = r->w->g;
    copse_tensor *look_i = gate_rows(r, k->peepholes, 0), *look_o = gate_rows(r, k->peepholes, 1),
                 *look_f = gate_rows(r, k->peepholes, 2);
    copse_tensor *i =
        copse_sigmoid(g, copse_add(g, gate_sum(r, k, x, k->h, 0), copse_mul(g, look_i, k->c)));
    copse_tensor *f =
        copse_sigmoid(g, copse_add(g, gate_sum(r, k, x, k->h, 2), copse_mul(g, look_f, k->c)));
    copse_tensor *n = copse_tanh(g, gate_sum(r, k, x, k->h, 3));
    copse_tensor *c = copse_add(g, copse_mul(g, f, k->c), copse_mul(g, i, n));
    copse_tensor *o =
        copse_sigmoid(g, copse_add(g, gate_sum(r, k, x, k->h, 1), copse_mul(g, look_o, c)));
    k->c = c;
    k->h = copse_mul(g, o, copse_tanh(g, c));
}

static copse_tensor *written_run(const struct recurrent *r, uint32_t d, copse_tensor *x,
                                 copse_tensor **last, copse_tensor **cell)
{
    copse_graph *g = r->w->g;
    const copse_shape state = COPSE_SHAPE(r->batch, r->units);
    const uint32_t features = copse_tensor_shape(x).dims[2];
    struct written k = { .w = direction_of(r, 1, d),
                         .r = direction_of(r, 2, d),
                         .bias = direction_of(r, 3, d),
                         .peepholes = direction_of(r, 7, d),
                         .h = state_of(r, 5, d),
                         .c = state_of(r, 6, d) };
    copse_tensor **states = copse__onnx_room(r->w, r->time, sizeof(copse_tensor *));
    k.h = k.h ? k.h : copse_fill(g, COPSE_F32, state, 0);
    k.c = k.c ? k.c : copse_fill(g, COPSE_F32, state, 0);
    for (uint32_t i = 0; states && i < r->time; i++) {
        const uint32_t start[3] = { 0, i, 0 }, size[3] = { r->batch, 1, features };
        copse_tensor *part =
            copse_reshape(g, copse_slice(g, x, start, size), COPSE_SHAPE(r->batch, features));
        if (r->gates == 3)
            gru_step(r, &k, part);
        else
            lstm_step(r, &k, part);
        states[i] = k.h;
    }
    *last = k.h;
    *cell = k.c;
    return states ? copse_stack(g, states, r->time, 1) : k.h;
}

/* ---- the node ---- */

static bool activations_are_normal(const onnx_node *n, const char *name)
{
    static const char *const of_gru[] = { "Sigmoid", "Tanh" },
                             *const of_lstm[] = { "Sigmoid", "Tanh", "Tanh" },
                             *const of_rnn[] = { "Tanh" };
    const CopseOnnx__Attribute *a = copse__onnx_attribute(n, "activations");
    const char *const *normal = *name == 'G' ? of_gru : *name == 'L' ? of_lstm : of_rnn;
    const size_t count = *name == 'G' ? 2 : *name == 'L' ? 3 : 1;
    for (size_t i = 0; a && i < a->n_strings; i++) {
        const char *want = normal[i % count];
        if (a->strings[i].len != strlen(want) ||
            memcmp(a->strings[i].data, want, strlen(want)) != 0)
            return false;
    }
    return true;
}

static bool recurrent_read(struct recurrent *r)
{
    struct onnx_walk *w = r->w;
    const onnx_node *n = w->step->node;
    struct onnx_value *x = copse__onnx_in(w, 0), *k = copse__onnx_in(w, 1),
                      *u = copse__onnx_in(w, 2), *lengths = copse__onnx_in(w, 4);
    r->name = w->step->row->name;
    r->gates = *r->name == 'G' ? 3 : *r->name == 'L' ? 4 : 1;
    r->order = *r->name == 'G' ? gru_order : *r->name == 'L' ? lstm_order : rnn_order;
    r->is_first = copse__onnx_int(n, "layout", 0) != 0;
    r->directions = copse__onnx_text_is(n, "direction", "forward", "bidirectional") ? 2 : 1;
    bool fits = x->shape.rank == 3 && k->shape.rank == 3 && u->shape.rank == 3 &&
                k->shape.dims[0] == r->directions && u->shape.dims[0] == r->directions &&
                k->shape.dims[1] == r->gates * u->shape.dims[2] &&
                u->shape.dims[1] == r->gates * u->shape.dims[2] &&
                k->shape.dims[2] == x->shape.dims[2];
    if (!fits)
        return copse__onnx_refuse(w, "shapes %s, %s and %s", COPSE_SHAPE_TEXT(x->shape),
                                  COPSE_SHAPE_TEXT(k->shape), COPSE_SHAPE_TEXT(u->shape));
    r->units = u->shape.dims[2];
    r->time = x->shape.dims[r->is_first ? 1 : 0];
    r->batch = x->shape.dims[r->is_first ? 0 : 1];
    for (size_t i = 3; i < 8; i++) {
        const struct onnx_value *v = copse__onnx_in(w, i);
        const uint64_t want = i == 3   ? 2ull * r->directions * r->gates * r->units
                              : i == 4 ? r->batch
                              : i == 7 ? 3ull * r->directions * r->units
                                       : (uint64_t)r->directions * r->batch * r->units;
        if (v && (copse__elements(v->shape) != want || (i != 4 && v->shape.rank < 2)))
            return copse__onnx_refuse(w, "operand %zu of shape %s", i + 1,
                                      COPSE_SHAPE_TEXT(v->shape));
    }
    if (!activations_are_normal(n, r->name) || copse__onnx_attribute(n, "clip") ||
        copse__onnx_int(n, "input_forget", 0) != 0)
        return copse__onnx_refuse(w, "other activations, or a clip");
    if (r->time == 0 || r->batch == 0)
        return copse__onnx_refuse(w, "no steps");
    if (lengths) {
        const double *known = copse__onnx_numbers(w, lengths);
        bool is_all = known != NULL;
        for (uint32_t i = 0; is_all && i < r->batch; i++)
            is_all = known[i] == r->time;
        if (!is_all && !copse__onnx_text_is(n, "direction", "forward", "forward"))
            return copse__onnx_refuse(w, "lengths of sequences from the last step");
        r->lengths =
            is_all ? NULL : copse_reshape(w->g, copse__onnx_i32(w, lengths), COPSE_SHAPE(r->batch));
    }
    r->x = copse__onnx_f32(w, x);
    if (!r->is_first)
        r->x = copse_transpose(w->g, r->x, (const uint32_t[]){ 1, 0, 2 });
    return true;
}

/* The last states of all directions: [directions, batch, units], or the batch first. */
static copse_tensor *recurrent_states(const struct recurrent *r, copse_tensor *const *states)
{
    return copse_stack(r->w->g, states, r->directions, r->is_first ? 1 : 0);
}

void copse__onnx_recurrent(struct onnx_walk *w)
{
    struct recurrent r = { .w = w };
    copse_tensor *all[2], *last[2] = { NULL, NULL }, *cell[2] = { NULL, NULL };
    const onnx_node *n = w->step->node;
    if (!recurrent_read(&r))
        return;
    bool resets_nothing = copse__onnx_int(n, "linear_before_reset", 0) != 0;
    const bool is_written =
        (r.gates == 3 && !resets_nothing) || (r.gates == 4 && copse__onnx_in(w, 7));
    if (is_written && (r.lengths || r.time > STEPS_MOST)) {
        copse__onnx_refuse(w, "a form that is written out, with lengths or more than %u steps",
                           STEPS_MOST);
        return;
    }
    for (uint32_t d = 0; d < r.directions; d++) {
        const bool is_back = d == 1 || copse__onnx_text_is(n, "direction", "forward", "reverse");
        copse_tensor *x = is_back ? reversed_time(&r, r.x) : r.x;
        copse_tensor *y = is_written ? written_run(&r, d, x, &last[d], &cell[d])
                                     : layer_run(&r, d, x, &last[d], &cell[d]);
        all[d] = is_back ? reversed_time(&r, y) : y;
    }
    if (copse_graph_status(w->g) != COPSE_OK)
        return;
    /* [batch, time, directions, units] */
    copse_tensor *y = copse_stack(w->g, all, r.directions, 2);
    if (!r.is_first)
        y = copse_transpose(w->g, y, (const uint32_t[]){ 1, 2, 0, 3 });
    copse__onnx_set(w, 0, ONNX_FLOAT, y);
    if (copse__onnx_wants(w, 1))
        copse__onnx_set(w, 1, ONNX_FLOAT, recurrent_states(&r, last));
    if (copse__onnx_wants(w, 2))
        copse__onnx_set(w, 2, ONNX_FLOAT, recurrent_states(&r, cell));
}
