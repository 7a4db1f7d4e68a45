/* SPDX-License-Identifier: MIT */
/* A cross-device operation of the application in a trainer: gradients become codes of 8 bits before
   they are summed, as on slow links. What the codes leave out is added to the next gradient of the
   replica (error feedback). The bytes are what links would carry; here the library brings the
   numbers to host memory. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "copse/copse.h"
#include "copse/distribute/replica.h"

#define REPLICAS  4
#define VARIABLES 4
#define MOST      (64 * 64) /* elements of a variable */

struct coder {
    copse_context *ctx;
    size_t next;                           /* variable: in order of creation, again and again */
    double bytes, exact;                   /* of codes; of the same numbers as f32 */
    float rest[VARIABLES][REPLICAS][MOST]; /* what the codes so far have left out */
};

/* The codes of x + rest are added to `sum`; `rest` becomes what they leave out. */
static copse_status add_codes(const float *x, size_t count, float *rest, float *sum)
{
    float largest = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(rest[i] + x[i]))
            return COPSE_ERR_NONFINITE;
        largest = fmaxf(largest, fabsf(rest[i] += x[i]));
    }
    const float step = largest / 127;
    for (size_t i = 0; i < count && step > 0; i++) {
        const signed char code = (signed char)lrintf(rest[i] / step);
        sum[i] += step * code;
        rest[i] -= step * code;
    }
    return COPSE_OK;
}

static copse_status sum_codes(void *user, copse_value *const *values, size_t replicas,
                              copse_value **out)
{
    static float x[MOST], sum[MOST];
    struct coder *c = user;
    const copse_shape shape = copse_value_shape(values[0]);
    const size_t v = c->next++ % VARIABLES,
                 count = shape.dims[0] * (shape.rank > 1 ? shape.dims[1] : 1);
    memset(sum, 0, sizeof sum);
    for (size_t r = 0; r < replicas; r++) {
        COPSE_TRY(copse_value_read(values[r], x));
        COPSE_TRY(add_codes(x, count, c->rest[v][r], sum));
        c->bytes += (double)(count + sizeof(float)); /* the codes, and their step */
        c->exact += (double)(count * sizeof(float));
    }
    return copse_value_create(c->ctx, COPSE_F32, shape, sum, out);
}

static copse_status keep_accuracy(void *user, const struct copse_epoch *e, bool *stop)
{
    (void)stop;
    return copse_step_report(&e->held_out, "accuracy", user);
}

/* Train with the operation, or without (NULL). */
static copse_status train(copse_context *ctx, copse_dataset *const *parts, copse_cross_device *x,
                          double *accuracy)
{
    const char *const devices[REPLICAS] = { "host:0", "host:0", "host:0", "host:0" };
    const struct copse_model_params net = { .network = "dense 64 relu; dense out" };
    const struct copse_model_fit_params how = { .epochs = 8,
                                                .optimizer = { .kind = COPSE_ADAM },
                                                .held_out = parts[1],
                                                .on_epoch = keep_accuracy,
                                                .user = accuracy };
    copse_strategy *st = NULL;
    copse_model *m = NULL;
    copse_status s = copse_mirrored_create(ctx, devices, REPLICAS, NULL, &st);
    s = s ? s : copse_strategy_set_cross_device(st, x);
    s = s ? s : copse_model_create(st, copse_dataset_schema(parts[0]), &net, &m);
    s = s ? s : copse_model_fit(m, parts[0], &how);
    copse_model_release(&m);
    copse_strategy_release(&st);
    return s;
}

int main(int argc, char **argv)
{
    static struct coder c;
    const char *path = argc > 1 ? argv[1] : "examples/data/digits/digits.csv.gz";
    const struct copse_cross_device_params codes = { .kind = COPSE_CROSS_TO_ONE,
                                                     .has_root = true,
                                                     .root = COPSE_HOST,
                                                     .accumulate = sum_codes,
                                                     .user = &c };
    copse_dataset *all = NULL, *parts[2] = { NULL };
    copse_cross_device *x = NULL;
    double accuracy[2];
    copse_status s = copse_context_create(NULL, &c.ctx);
    s = s ? s : copse_dataset_open(c.ctx, path, NULL, &all);
    s = s ? s : copse_dataset_split(all, NULL, &parts[0], &parts[1]);
    s = s ? s : copse_cross_device_create(c.ctx, &codes, &x);
    s = s ? s : train(c.ctx, parts, NULL, &accuracy[0]);
    s = s ? s : train(c.ctx, parts, x, &accuracy[1]);
    if (s)
        fprintf(stderr, "eight_bit_gradients: %s\n", copse_last_error());
    for (int i = 0; i < 2 && !s; i++)
        printf("%s gradients: held-out accuracy %.1f %%, %.1f MB from all replicas\n",
               i ? "8-bit" : "exact", 100 * accuracy[i], (i ? c.bytes : c.exact) / 1e6);
    for (int i = 0; i < 2; i++)
        copse_dataset_release(&parts[i]);
    copse_dataset_release(&all);
    copse_cross_device_release(&x);
    copse_context_release(&c.ctx);
    return s != COPSE_OK;
}
