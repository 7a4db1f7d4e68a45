/* SPDX-License-Identifier: MIT */
/* The peer: OpenBLAS, opened if it is installed, tuned for this processor, measured in the same
   run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench.h"

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111 };

typedef void sgemm_fn(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);

static sgemm_fn *sgemm;
static char name[160];

static bool bench_peer_find(void *library, const char *symbol, void *to)
{
    void *at = system_symbol(library, symbol);
    memcpy(to, &at, sizeof at);
    return at != NULL;
}

bool peer_open(void)
{
    const unsigned threads = limits_threads();
    bool is_set = false;
#if defined(__x86_64__)
    /* On processors that they do not recognize, releases before 0.3.22 use an SSE3 kernel. */
    is_set = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             !getenv("OPENBLAS_CORETYPE") &&
             system_set_environment("OPENBLAS_CORETYPE", "SKYLAKEX");
#endif
    void *library = system_library("openblas.0");
    if (!library || !bench_peer_find(library, "cblas_sgemm", &sgemm))
        return false;
    char *(*core)(void), *(*config)(void);
    void (*set_threads)(int);
    char version[64] = "";
    if (bench_peer_find(library, "openblas_get_config", &config))
        sscanf(config(), "OpenBLAS %63s", version);
    if (bench_peer_find(library, "openblas_set_num_threads", &set_threads))
        set_threads((int)threads);
    snprintf(name, sizeof name, "OpenBLAS%s%s, %s kernels%s, %u threads", version[0] ? " " : "",
             version, bench_peer_find(library, "openblas_get_corename", &core) ? core() : "unknown",
             is_set ? " (chosen by OPENBLAS_CORETYPE=SKYLAKEX)" : "", threads);
    return true;
}

const char *peer_name(void)
{
    return name;
}

struct product {
    int n;
    float *a, *b, *c;
};

static copse_status bench_peer_multiply(void *user, unsigned count)
{
    const struct product *p = user;
    for (unsigned i = 0; i < count; i++)
        sgemm(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, p->n, p->n, p->n, 1.0f, p->a, p->n, p->b, p->n,
              0.0f, p->c, p->n);
    return COPSE_OK;
}

double peer_matmul(uint32_t size, double seconds)
{
    if (!sgemm)
        return 0.0;
    const size_t elements = (size_t)size * size;
    struct product p = { .n = (int)size,
                         .a = malloc(elements * sizeof(float)),
                         .b = malloc(elements * sizeof(float)),
                         .c = malloc(elements * sizeof(float)) };
    struct timing t = { 0 };
    double result = 0.0;
    if (p.a && p.b && p.c) {
        for (size_t i = 0; i < elements; i++) {
            p.a[i] = (float)(i % 17) - 8.0f;
            p.b[i] = (float)(i % 13) - 6.0f;
        }
        if (bench_time(bench_peer_multiply, &p, 0.005, seconds, &t) == COPSE_OK)
            result = 2.0 * size * size * size / t.best;
        bench_pause();
    }
    free(p.a);
    free(p.b);
    free(p.c);
    return result;
}
