/* SPDX-License-Identifier: MIT */
/* The distribution of numbers in buckets. A bucket has a limit, which is the lower limit of the
   next one: +-1e-12 * 1.1^k up to +-1e20, 0, and the largest double
   (tensorflow/core/lib/histogram/histogram.cc). */
#include <float.h>
#include <math.h>

#include "core/loop/event_record.h"

/* message HistogramProto */
enum {
    HISTOGRAM_MIN = 1,
    HISTOGRAM_MAX,
    HISTOGRAM_NUM,
    HISTOGRAM_SUM,
    HISTOGRAM_SQUARES,
    HISTOGRAM_LIMITS,
    HISTOGRAM_BUCKETS
};

/* 1e-12 * 1.1^773 is the last one below 1e20 */
enum { FINITE = 774, SIDE = FINITE + 1, LIMITS = 2 * SIDE + 1 };

struct histogram {
    /* numbers below the limit, and not below the previous one */
    double limit[LIMITS], bucket[LIMITS];
    double low, high, count, sum, squares;
};

static void event_histogram_begin(struct histogram *h)
{
    double v = 1e-12;
    *h = (struct histogram){ .low = INFINITY, .high = -INFINITY };
    for (size_t i = 0; i < SIDE; i++, v *= 1.1) {
        h->limit[SIDE + 1 + i] = i < FINITE ? v : DBL_MAX;
        h->limit[SIDE - 1 - i] = -h->limit[SIDE + 1 + i];
    }
}

/* The first bucket whose limit is above a number, or the last. */
static size_t bucket_of(const struct histogram *h, double x)
{
    size_t low = 0, high = LIMITS - 1;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (h->limit[middle] > x)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void event_histogram_take(struct histogram *h, double x)
{
    if (isnan(x))
        return;
    h->bucket[bucket_of(h, x)]++;
    h->low = fmin(h->low, x);
    h->high = fmax(h->high, x);
    h->count++;
    h->sum += x;
    h->squares += x * x;
}

/* Of neighbouring empty buckets only the last is written. */
static size_t event_histogram_compress(struct histogram *h)
{
    size_t n = 0;
    for (size_t i = 0; i < LIMITS; i++) {
        if (n > 0 && h->bucket[i] == 0 && h->bucket[n - 1] == 0)
            n--;
        h->limit[n] = h->limit[i];
        h->bucket[n++] = h->bucket[i];
    }
    while (n > 0 && h->bucket[n - 1] == 0)
        n--;
    return n;
}

void copse__message_magnitudes(struct copse_message *m, const struct copse_gradient_summary *s)
{
    double limits[COPSE_GRADIENT_BINS + 1], buckets[COPSE_GRADIENT_BINS + 1], low = 0, high = 0;
    double count = 0, sum = 0;
    for (int i = 0; i <= COPSE_GRADIENT_BINS; i++) {
        const double end = pow(10, COPSE_GRADIENT_LOW + i);
        limits[i] = i < COPSE_GRADIENT_BINS ? end : DBL_MAX;
        buckets[i] = (double)s->bins[i];
        if (buckets[i] > 0 && count == 0)
            low = i == 0 ? 0 : end / 10;
        high = buckets[i] > 0 ? limits[i] : high;
        count += buckets[i];
        sum += buckets[i] * end / sqrt(10); /* the middle of a bucket, on its scale */
    }
    copse__message_double(m, HISTOGRAM_MIN, low);
    copse__message_double(m, HISTOGRAM_MAX, fmin(high, s->norm)); /* no element is above it */
    copse__message_double(m, HISTOGRAM_NUM, count);
    copse__message_double(m, HISTOGRAM_SUM, sum);
    copse__message_double(m, HISTOGRAM_SQUARES, s->norm * s->norm);
    copse__message_doubles(m, HISTOGRAM_LIMITS, limits, COPSE_GRADIENT_BINS + 1);
    copse__message_doubles(m, HISTOGRAM_BUCKETS, buckets, COPSE_GRADIENT_BINS + 1);
}

void copse__message_histogram(struct copse_message *m, const float *values, size_t count)
{
    struct histogram *h = copse__alloc(m->mem, 1, sizeof *h);
    if (!h) {
        m->is_short = true;
        return;
    }
    event_histogram_begin(h);
    for (size_t i = 0; i < count; i++)
        event_histogram_take(h, (double)values[i]);
    copse__message_double(m, HISTOGRAM_MIN, h->count > 0 ? h->low : 0);
    copse__message_double(m, HISTOGRAM_MAX, h->count > 0 ? h->high : 0);
    copse__message_double(m, HISTOGRAM_NUM, h->count);
    copse__message_double(m, HISTOGRAM_SUM, h->sum);
    copse__message_double(m, HISTOGRAM_SQUARES, h->squares);
    const size_t n = event_histogram_compress(h);
    copse__message_doubles(m, HISTOGRAM_LIMITS, h->limit, n);
    copse__message_doubles(m, HISTOGRAM_BUCKETS, h->bucket, n);
    copse__free(m->mem, h);
}
