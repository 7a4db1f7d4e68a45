/* SPDX-License-Identifier: MIT */
/* The bases of tolerances of norms of channels: see bound.h. */
#include <math.h>

#include "core/audit/bound.h"
#include "core/graph/op.h"

/* Intermediate results below this are rounded to a multiple of 2^-149. */
#define LEAST 0x1p-126

enum { MEAN, SPREAD, SLOPES }; /* of kernels/row/channel_sums.cl */
enum { FORWARD };              /* of kernels/row/channel_norm.cl; the other one is the gradient */

/* The sums of the magnitudes of the terms. Of a mean, the rounding error of the sum has the size of the sum. */
void copse__size_channel_sums(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_channel_sums *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const size_t line = i / p->channels, c = i % p->channels, b = line / p->chunks;
        const size_t first = line % p->chunks * p->rows, end = COPSE_MIN(first + p->rows, p->places);
        double s = 0, t = 0;
        for (size_t k = first; k < end; k++) {
            const size_t place = (b * p->places + k) * p->channels + c, at = b * p->channels + c;
            const double x = copse__load(&args[0], place), d = spec[0] == MEAN ? x : x - copse__load(&args[2], at);
            const double rest = spec[0] == SLOPES ? copse__load(&args[2], p->second + at) : 0;
            const double dy = spec[0] == SLOPES ? fabs(copse__load(&args[1], place)) : 0;
            s += spec[0] == MEAN ? fabs(x) : spec[0] == SPREAD ? d * d + LEAST : dy;
            t += spec[0] == MEAN   ? fabs(x)
                 : spec[0] == SPREAD ? fabs(d)
                                     : dy * ((fabs(d) + fabs(rest)) * fabs(copse__load(&args[3], at)) + LEAST) + LEAST;
        }
        copse__store(&args[4], i, s);
        copse__store(&args[4], p->n + i, t);
    }
}

/* |u scale| + |offset|; of the gradient (|scale dy| + |share[0]| + |u share[1]|) / sigma. */
void copse__size_channel_norm(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_channel_norm *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const size_t c = i % p->channels, at = i / p->size * p->channels + c;
        const double inverse = fabs(copse__load(&args[2], at)), scale = fabs(copse__load(&args[3], c));
        const double d = fabs(copse__load(&args[0], i) - copse__load(&args[1], at));
        const double u = (d + fabs(copse__load(&args[1], p->second + at))) * inverse + LEAST;
        copse__store(&args[6], i,
                     spec[0] == FORWARD ? u * scale + fabs(copse__load(&args[4], c))
                                        : (scale * fabs(copse__load(&args[4], i)) + fabs(copse__load(&args[5], at)) +
                                           u * fabs(copse__load(&args[5], p->second + at)) + LEAST) * inverse);
    }
}

void copse__size_channel_norm_wide(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_channel_norm_wide *p = params;
    const struct copse_params_channel_norm of = { .n = p->n, .channels = p->channels, .size = p->size, .second = p->second };
    copse__size_channel_norm(&of, spec, args);
}
