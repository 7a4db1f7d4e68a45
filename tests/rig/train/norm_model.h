/* SPDX-License-Identifier: MIT */
/* A classifier with batch normalisation over all replicas. Include after cmocka.h and
   copse/copse.h. */
#ifndef COPSE_NORM_MODEL_H
#define COPSE_NORM_MODEL_H

#include "copse/distribute/sync.h"

#include "core/base/random.h"
#include "tests/rig/data/batch_rig.h"

enum { IN = 6, WIDE = 16, CLASSES = 4, ROWS = 48 };

struct norm {
    copse_variable *v[6]; /* dense, its factor and summand, dense */
};

static inline copse_tensor *norm_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct norm *m = user;
    copse_tensor *h, *t[6];
    for (int i = 0; i < 6; i++)
        t[i] = copse_variable_tensor(m->v[i]);
    const struct copse_batch_norm settings = { .gamma = t[2], .beta = t[3] };
    h = copse_dense(g, rig_x(in), t[0], t[1], COPSE_LINEAR);
    h = copse_sync_batch_norm(g, h, (const uint32_t[]){ 0 }, 1, &settings);
    h = copse_relu(g, h);
    h = copse_dense(g, h, t[4], t[5], COPSE_LINEAR);
    return copse_sparse_cross_entropy(g, h, rig_y(in), COPSE_MEAN);
}

static inline void norm_data(float *x, int32_t *y)
{
    struct copse_stream s;
    copse__stream_init(&s, 5, 0);
    for (int i = 0; i < ROWS; i++) {
        y[i] = (int32_t)copse__stream_below(&s, CLASSES);
        for (int k = 0; k < IN; k++) /* a mean for which a sum of squares would lose digits */
            x[i * IN + k] = 30.0f + copse__stream_normal(&s) + (k == y[i] ? 2.0f : 0.0f);
    }
}

enum { VALUES = IN * WIDE + 3 * WIDE + WIDE * CLASSES + CLASSES };

static inline copse_status norm_create(struct norm *m, copse_strategy *st, copse_trainer **t)
{
    static const copse_shape shapes[6] = { { 2, { IN, WIDE } },      { 1, { WIDE } },
                                           { 1, { WIDE } },          { 1, { WIDE } },
                                           { 2, { WIDE, CLASSES } }, { 1, { CLASSES } } };
    for (int i = 0; i < 6; i++) {
        const char name[3] = { 'v', (char)('0' + i), 0 };
        COPSE_TRY(copse_variable_create(
            st,
            &(struct copse_variable_params){ .name = name,
                                             .shape = shapes[i],
                                             .initializer = i % 4 == 0 ? COPSE_INIT_HE_NORMAL
                                                            : i == 2   ? COPSE_INIT_ONES
                                                                       : COPSE_INIT_ZEROS,
                                             .seed = 11 },
            &m->v[i]));
    }
    return copse_trainer_create(
        st,
        &(struct copse_trainer_params){ .loss = norm_loss,
                                        .user = m,
                                        .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.1f } },
        t);
}

static inline copse_status norm_values(struct norm *m, uint32_t replica, float *values)
{
    for (int i = 0; i < 6; i++) {
        const copse_shape s = copse_variable_shape(m->v[i]);
        COPSE_TRY(copse_variable_read(m->v[i], replica, values));
        values += s.rank == 2 ? s.dims[0] * s.dims[1] : s.dims[0];
    }
    return COPSE_OK;
}

#endif
