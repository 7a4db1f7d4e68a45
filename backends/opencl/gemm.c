/* SPDX-License-Identifier: MIT */
/* Matrix products with CLBlast, if it is installed. The first product opens the library. */
#include "backends/opencl/cl_internal.h"

/* Declarations of CLBlast's C interface. */
enum { ROW_MAJOR = 101, AS_IS = 111, TRANSPOSED = 112 };

static void *open_clblast(void)
{
#if defined(_WIN32)
    static const char *const names[] = { "clblast.dll", NULL };
#else
    static const char *const names[] = { "libclblast.so.1", NULL };
#endif
    return copse__library_open(names);
}

/* False: it is too old. */
static bool gemm_load(void *library, struct copse_cl_gemms *out)
{
    static const char *const names[] = { "CLBlastSgemmWithTempBuffer", "CLBlastSgemmStridedBatched",
                                         "CLBlastSGemmTempBufferSize", "CLBlastClearCache" };
    void *found[COPSE_COUNT(names)];
    for (size_t i = 0; i < COPSE_COUNT(names); i++) {
        found[i] = copse__library_symbol(library, names[i]);
        if (found[i] == NULL)
            return false;
    }
    memcpy(&out->product, &found[0], sizeof found[0]);
    memcpy(&out->batch, &found[1], sizeof found[1]);
    memcpy(&out->scratch, &found[2], sizeof found[2]);
    memcpy(&out->clear, &found[3], sizeof found[3]);
    return true;
}

bool copse_cl_gemm_exists(void)
{
    struct copse_cl_gemms gemms;
    void *library = open_clblast();
    const bool is_usable = library != NULL && gemm_load(library, &gemms);
    copse__library_close(library);
    return is_usable;
}

/* Locked. CLBlast asks the queue for the device only. */
static copse_status gemm_open(copse_device *dev, struct copse_cl_device *d)
{
    cl_int e = CL_SUCCESS;
    if (d->clblast == NULL)
        d->clblast = open_clblast();
    if (d->clblast == NULL || !gemm_load(d->clblast, &d->gemms))
        return copse_fail(
            COPSE_ERR_UNSUPPORTED,
            "opencl: CLBlast cannot be opened, or it is older than 1.5; on Debian: apt-get "
            "install libclblast1");
    d->gemms.queue = d->lent != NULL ? d->lent : copse_cl_queue_make(dev, 0, &e);
    return copse_cl_check(e, "clCreateCommandQueue");
}

static copse_status gemm_prepare(copse_device *dev)
{
    struct copse_cl_device *d = dev->priv;
    copse_status s = COPSE_OK;
    copse__mutex_lock(&d->lock);
    if (d->gemms.queue == NULL)
        s = gemm_open(dev, d);
    copse__mutex_unlock(&d->lock);
    return s;
}

/* Its codes are OpenCL's and, from -1024 down, its own codes for wrong arguments. */
static copse_status gemm_check(int e, const struct copse_gemm *g)
{
    if (e == 0)
        return COPSE_OK;
    return copse_fail(e <= -1024 ? COPSE_ERR_INTERNAL : copse_cl_error_status(e),
                      "opencl: CLBlast %u x %u x %u: status %d", g->m, g->n, g->k, e);
}

static size_t row_of_a(const struct copse_gemm *g)
{
    return g->a_transposed ? g->m : g->k;
}

static size_t row_of_b(const struct copse_gemm *g)
{
    return g->b_transposed ? g->k : g->n;
}

/* Matrices that begin after the start of their buffer are copied; whether others are depends on
   their sizes. */
copse_status copse_cl_gemm_scratch(const copse_device *dev, const struct copse_gemm *g,
                                   size_t *bytes)
{
    struct copse_cl_device *d = dev->priv;
    COPSE_TRY(gemm_prepare((copse_device *)dev));
    return gemm_check(d->gemms.scratch(ROW_MAJOR, g->a_transposed ? TRANSPOSED : AS_IS,
                                       g->b_transposed ? TRANSPOSED : AS_IS, g->m, g->n,
                                       g->k_end - g->k_begin, 1, row_of_a(g), 1, row_of_b(g), 1,
                                       g->n, &d->gemms.queue, bytes),
                      g);
}

/* CLBlast counts offsets in 32 bits, so matrices are given as views. Without scratch memory one
   kernel computes the whole batch; CLBlast would allocate the scratch memory of a batch itself. */
copse_status copse_cl_gemm(copse_queue *q, const struct copse_command *c, const cl_mem *mems)
{
    const struct copse_gemm *g = &c->gemm;
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    const cl_mem A = mems[COPSE_GEMM_A], B = mems[COPSE_GEMM_B], C = mems[COPSE_GEMM_C];
    const int ta = g->a_transposed ? TRANSPOSED : AS_IS, tb = g->b_transposed ? TRANSPOSED : AS_IS;
    const size_t m = g->m, n = g->n, k = g->k_end - g->k_begin;
    const size_t a = g->k_begin * (g->a_transposed ? m : 1),
                 b = g->k_begin * (g->b_transposed ? 1 : n);
    const size_t each_a = g->a_is_shared ? 0 : m * g->k, each_b = g->b_is_shared ? 0 : g->k * n;
    const float beta = g->k_begin > 0 ? 1.0f : 0.0f;
    int e = 0;
    COPSE_TRY(gemm_prepare(q->dev));
    if (g->batch > 1 && !g->has_scratch)
        e = d->gemms.batch(ROW_MAJOR, ta, tb, m, n, k, 1.0f, A, a, row_of_a(g), each_a, B, b,
                           row_of_b(g), each_b, beta, C, 0, n, m * n, g->batch, &p->queue, NULL);
    else
        for (size_t i = 0; i < g->batch && e == 0; i++)
            e = d->gemms.product(ROW_MAJOR, ta, tb, m, n, k, 1.0f, A, a + i * each_a, row_of_a(g),
                                 B, b + i * each_b, row_of_b(g), beta, C, i * m * n, n, &p->queue,
                                 NULL, g->has_scratch ? mems[COPSE_GEMM_SCRATCH] : NULL);
    return gemm_check(e, g);
}

/* CLBlast caches programs by the context's address, which a later context may reuse. The library
   stays open: its destructors would free objects of drivers that may already be unloaded. */
void copse_cl_gemm_fini(struct copse_cl_device *d)
{
    if (d->gemms.queue != NULL && d->gemms.queue != d->lent)
        d->cl.ReleaseCommandQueue(d->gemms.queue);
    if (d->gemms.clear != NULL)
        d->gemms.clear();
}
