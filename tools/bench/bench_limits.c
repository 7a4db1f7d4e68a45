/* SPDX-License-Identifier: MIT */
/* The limits of the processor, measured with plain threads and no driver: the widest multiply-add,
   copies, and the update rule as one loop. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench.h"

#if defined(__x86_64__) || defined(__i386__)
#    include <immintrin.h>
#    define IS_X86 1
#endif

enum { MOST_THREADS = 256, ARRAYS = 4, LEAST_TRIES = 5, CHUNK = 16 };

static const double TRY_SECONDS = 0.004, ALL_TRIES_SECONDS = 0.25;

/* ---- the loops, for each kind of vectors ---- */

typedef float vec4 __attribute__((vector_size(16), may_alias));

static inline vec4 bench_limits_root4(vec4 x)
{
    return (vec4){ sqrtf(x[0]), sqrtf(x[1]), sqrtf(x[2]), sqrtf(x[3]) };
}

#define LOOPS(name) name##_128
#define TARGET
#define VECTOR                vec4
#define LANES                 4
#define SET(x)                ((vec4){ (x), (x), (x), (x) })
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#define ROOT(x)               bench_limits_root4(x)
#include "tools/bench/bench_loops.h"

#if defined(IS_X86)
#    define LOOPS(name)           name##_256
#    define TARGET                __attribute__((target("avx2,fma")))
#    define VECTOR                __m256
#    define LANES                 8
#    define SET(x)                _mm256_set1_ps(x)
#    define MULTIPLY_ADD(a, b, c) _mm256_fmadd_ps(a, b, c)
#    define ROOT(x)               _mm256_sqrt_ps(x)
#    include "tools/bench/bench_loops.h"

#    define LOOPS(name)           name##_512
#    define TARGET                __attribute__((target("avx512f")))
#    define VECTOR                __m512
#    define LANES                 16
#    define SET(x)                _mm512_set1_ps(x)
#    define MULTIPLY_ADD(a, b, c) _mm512_fmadd_ps(a, b, c)
#    define ROOT(x)               _mm512_sqrt_ps(x)
#    include "tools/bench/bench_loops.h"
#endif

static const struct loops {
    const char *name;
    unsigned lanes;
    float (*multiply_add)(unsigned long turns);
    void (*copy)(float *restrict to, const float *restrict from, size_t n);
    void (*triad)(float *restrict to, const float *restrict a, const float *restrict b, size_t n);
    void (*update)(float *restrict p, float *restrict m, float *restrict v, float *restrict g,
                   size_t n);
} kinds[] = {
    { "128-bit multiply and add", 4, multiply_add_128, copy_128, triad_128, update_128 },
#if defined(IS_X86)
    { "AVX2 with FMA", 8, multiply_add_256, copy_256, triad_256, update_256 },
    { "AVX-512", 16, multiply_add_512, copy_512, triad_512, update_512 },
#endif
};

static const struct loops *bench_limits_widest(void)
{
#if defined(IS_X86)
    if (__builtin_cpu_supports("avx512f"))
        return &kinds[2];
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &kinds[1];
#endif
    return &kinds[0];
}

/* ---- the threads ---- */

enum job_kind { JOB_MULTIPLY_ADD, JOB_COPY, JOB_MEMCPY, JOB_TRIAD, JOB_UPDATE };

struct job {
    enum job_kind kind;
    float *arrays[ARRAYS]; /* of all threads together */
    size_t elements;       /* of each array, a multiple of CHUNK */
    unsigned long turns;   /* repetitions of each thread */
    unsigned threads;
    atomic_bool go;
};

struct worker {
    void *thread;
    struct job *job;
    unsigned index;
    double start, end;
    volatile float sink;
};

static void bench_limits_work(struct worker *w)
{
    const struct loops *loops = bench_limits_widest();
    const struct job *j = w->job;
    const size_t chunks = j->elements / CHUNK;
    const size_t first = chunks * w->index / j->threads * CHUNK;
    const size_t n = chunks * (w->index + 1) / j->threads * CHUNK - first;
    float *a[ARRAYS];
    for (size_t i = 0; i < ARRAYS; i++)
        a[i] = j->arrays[i] ? j->arrays[i] + first : NULL;
    if (j->kind == JOB_MULTIPLY_ADD)
        w->sink = loops->multiply_add(j->turns);
    for (unsigned long t = 0; j->kind != JOB_MULTIPLY_ADD && t < j->turns; t++) {
        if (j->kind == JOB_COPY)
            loops->copy(a[0], a[1], n);
        else if (j->kind == JOB_MEMCPY)
            memcpy(a[0], a[1], n * sizeof(float));
        else if (j->kind == JOB_TRIAD)
            loops->triad(a[0], a[1], a[2], n);
        else
            loops->update(a[0], a[1], a[2], a[3], n);
        atomic_signal_fence(memory_order_seq_cst); /* no repetition may be optimized away */
    }
}

static void worker_main(void *arg)
{
    struct worker *w = arg;
    while (!atomic_load(&w->job->go))
        ;
    w->start = system_now();
    bench_limits_work(w);
    w->end = system_now();
}

/* Seconds from the first start to the last end; 0 if the threads cannot be started. */
static double bench_limits_run(struct job *j)
{
    static struct worker workers[MOST_THREADS];
    unsigned started = 0;
    const unsigned long turns = j->turns;
    atomic_store(&j->go, false);
    while (started < j->threads) {
        workers[started] = (struct worker){ .job = j, .index = started };
        workers[started].thread = system_thread_start(worker_main, &workers[started]);
        if (!workers[started].thread) {
            j->turns = 0;
            break;
        }
        started++;
    }
    const bool is_complete = started == j->threads;
    atomic_store(&j->go, true);
    double start = 0.0, end = 0.0;
    for (unsigned i = 0; i < started; i++) {
        system_thread_join(workers[i].thread);
        if (i == 0 || workers[i].start < start)
            start = workers[i].start;
        if (i == 0 || workers[i].end > end)
            end = workers[i].end;
    }
    j->turns = turns;
    return is_complete && end > start ? end - start : 0.0;
}

/* The shortest of three, because one measurement may have been interrupted. */
static double shortest_run(struct job *j)
{
    double shortest = bench_limits_run(j);
    for (unsigned i = 0; i < 2; i++) {
        const double spent = bench_limits_run(j);
        shortest = spent < shortest ? spent : shortest;
    }
    return shortest;
}

/* Repetitions per second, the best of many short tries: other programs would disturb a long one. */
static double bench_limits_rate(struct job *j)
{
    double best = 0.0, spent;
    j->turns = 1;
    while ((spent = shortest_run(j)) < TRY_SECONDS) {
        if (spent == 0.0)
            return 0.0;
        j->turns *= spent < TRY_SECONDS / 8 ? 8 : 2;
    }
    const double end = system_now() + ALL_TRIES_SECONDS;
    for (unsigned i = 0; i < LEAST_TRIES || system_now() < end; i++) {
        spent = bench_limits_run(j);
        if (spent > 0.0 && (double)j->turns / spent > best)
            best = (double)j->turns / spent;
    }
    return best;
}

/* The best rate of all kinds on arrays of that number of elements. */
static double stream_rate(unsigned threads, size_t elements, const enum job_kind *which,
                          size_t kind_count)
{
    enum { PAGE = 4096 };
    struct job j = { .elements = elements / CHUNK * CHUNK, .threads = threads };
    char *blocks[ARRAYS] = { NULL };
    double best = 0.0;
    bool has_memory = j.elements > 0;
    for (size_t i = 0; i < ARRAYS && has_memory; i++) {
        blocks[i] = malloc(j.elements * sizeof(float) + PAGE);
        has_memory = blocks[i] != NULL;
        j.arrays[i] =
            has_memory ? (float *)(void *)(blocks[i] + PAGE - (uintptr_t)blocks[i] % PAGE) : NULL;
        for (size_t k = 0; has_memory && k < j.elements; k++)
            j.arrays[i][k] = 0.5f;
    }
    for (size_t i = 0; i < kind_count && has_memory; i++) {
        j.kind = which[i];
        const double r = bench_limits_rate(&j);
        best = r > best ? r : best;
    }
    for (size_t i = 0; i < ARRAYS; i++)
        free(blocks[i]);
    return best;
}

double limits_copy(unsigned threads, size_t bytes)
{
    static const enum job_kind which[] = { JOB_COPY, JOB_MEMCPY };
    return 2.0 * (double)bytes * stream_rate(threads, bytes / sizeof(float), which, 2);
}

double limits_update(unsigned threads, size_t elements)
{
    static const enum job_kind which[] = { JOB_UPDATE };
    return (double)UPDATE_BYTES * (double)elements * stream_rate(threads, elements, which, 1);
}

/* ---- the processor ---- */

unsigned limits_threads(void)
{
    const unsigned online = system_processors();
    return online > MOST_THREADS ? MOST_THREADS : online;
}

void limits_again(struct limits *l)
{
    struct job j = { .kind = JOB_MULTIPLY_ADD, .threads = l->threads };
    const double now = 24.0 * bench_limits_widest()->lanes * l->threads * bench_limits_rate(&j);
    l->multiply_add = now > l->multiply_add ? now : l->multiply_add;
}

void limits_measure(struct limits *out)
{
    static const enum job_kind triad[] = { JOB_TRIAD };
    *out = (struct limits){ .threads = limits_threads(),
                            .vectors = bench_limits_widest()->name,
                            .stream_bytes = (size_t)64 << 20 };
    system_processor_name(out->processor, sizeof out->processor);
    limits_again(out);
    out->copy = limits_copy(out->threads, out->stream_bytes);
    out->triad = 3.0 * (double)out->stream_bytes *
                 stream_rate(out->threads, out->stream_bytes / sizeof(float), triad, 1);
}
