/* SPDX-License-Identifier: MIT */
/* Batches with the ordinary inputs "x" and "y", and loss functions that ask for them. */
#ifndef BATCH_RIG_H
#define BATCH_RIG_H

#include <string.h>

#include "copse/copse.h"

/* The ordinary inputs of a batch, in its initialiser: features "x" of `width` numbers, and labels
   "y" or targets "y" of `y_width` numbers. */
#define RIG_X(width, ...) COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(width), __VA_ARGS__ })
#define RIG_XY(width, x, y) \
    COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(width), x }, { "y", COPSE_I32, COPSE_SCALAR, y })
#define RIG_PAIR(width, x, y_width, y)                       \
    COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(width), x }, \
                  { "y", COPSE_F32, COPSE_SHAPE(y_width), y })

/* The batch with columns that outlive the current block: until the thread makes 64 others. */
static inline struct copse_host_batch rig_kept(struct copse_host_batch b)
{
    static _Thread_local struct copse_column kept[64][COPSE_MAX_INPUTS];
    static _Thread_local unsigned next;
    struct copse_column *to = kept[next++ % 64];
    memcpy(to, b.columns, b.column_count * sizeof *to);
    b.columns = to;
    return b;
}

/* Data of an input of a batch; NULL: absent. */
static inline const void *rig_data(const struct copse_host_batch *b, const char *name)
{
    const struct copse_column *c = copse_batch_column(b, name);
    return c ? c->data : NULL;
}

static inline const float *rig_floats(const struct copse_host_batch *b)
{
    return rig_data(b, "x");
}

static inline const int32_t *rig_labels(const struct copse_host_batch *b)
{
    return rig_data(b, "y");
}

/* For loss functions. */
static inline copse_tensor *rig_x(const copse_batch *in)
{
    return copse_input(in, "x");
}

static inline copse_tensor *rig_y(const copse_batch *in)
{
    return copse_input(in, "y");
}

#endif
