/* SPDX-License-Identifier: MIT */
/* Shared by the tests of tower optimizers: variables and optimizers in one line, a model's state,
   gradients given explicitly. */
#ifndef COPSE_TOWER_RIG_H
#define COPSE_TOWER_RIG_H

#include <math.h>

#include "copse/compat/replicated.h"
#include "copse/ops.h"
#include "tests/rig/value/replica_rig.h"

static inline copse_variable *make(copse_strategy *st, copse_shape shape, const float *values)
{
    copse_variable *v;
    const struct copse_variable_params p = { .name = fresh("tower"),
                                             .shape = shape,
                                             .values = values };
    OK(copse_variable_create(st, &p, &v));
    return v;
}

static inline copse_variable *make_one(copse_strategy *st, float value)
{
    return make(st, COPSE_SCALAR, &value);
}

static inline float component(copse_variable *v, uint32_t r)
{
    float x;
    OK(copse_variable_read(v, r, &x));
    return x;
}

/* On every replica. */
static inline void all_are(copse_variable *v, float x)
{
    for (uint32_t r = 0; r < copse_strategy_replicas(v->strategy); r++)
        if (fabsf(component(v, r) - x) > 1e-5f)
            fail_msg("%s is %g on replica %u, not %g", copse_variable_name(v),
                     (double)component(v, r), r, (double)x);
}

static inline copse_value *row(const float *values, uint32_t count)
{
    copse_value *v;
    OK(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(count), values, &v));
    return v;
}

static inline copse_tower_optimizer *optimizer(copse_strategy *st, copse_optimizer_kind kind,
                                               float rate)
{
    copse_tower_optimizer *t;
    const struct copse_tower_params p = { .optimizer = { .kind = kind, .learning_rate = rate } };
    OK(copse_tower_create(st, &p, &t));
    return t;
}

struct model {
    copse_variable *variables[2];
    copse_tower_optimizer *optimizers[2];
    size_t count;
    uint32_t silent; /* this replica omits its last call */
    uint32_t calls;
};

static inline copse_tensor *product_of(copse_graph *g, const copse_batch *in, void *user)
{
    return copse_mul(g, rig_x(in), copse_variable_tensor(user));
}

static inline void release_model(struct model *m)
{
    for (size_t i = 0; i < COPSE_COUNT(m->optimizers); i++)
        copse_tower_release(&m->optimizers[i]);
}

struct calls {
    copse_variable *c, *d;
    copse_tower_optimizer *t;
    bool is_sparse;
};

static inline copse_status give(const struct calls *k, bool has_d)
{
    struct copse_tower_gradient pairs[2] = { { scalar(2), k->c },
                                             { has_d ? scalar(5) : NULL, k->d } };
    const copse_status s = copse_tower_apply(k->t, pairs, 2, true);
    copse_value_release(&pairs[0].gradient);
    copse_value_release(&pairs[1].gradient);
    return s;
}

#endif
