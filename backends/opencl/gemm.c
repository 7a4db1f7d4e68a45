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

bool copse_cl_gemm_exists(void)
{
    void *library = open_clblast();
    copse__library_close(library);
    return library != NULL;
}

static copse_status gemm_prepare(struct copse_cl_device *d)
{
    copse_status s = COPSE_OK;
    copse__mutex_lock(&d->lock);
    if (d->clblast == NULL) {
        d->clblast = open_clblast();
        if (d->clblast != NULL) {
            void *symbol = copse__library_symbol(d->clblast, "CLBlastSgemm");
            memcpy(&d->sgemm, &symbol, sizeof symbol);
            symbol = copse__library_symbol(d->clblast, "CLBlastClearCache");
            memcpy(&d->clear_gemms, &symbol, sizeof symbol);
        }
    }
    if (d->sgemm == NULL || d->clear_gemms == NULL)
        s = copse_fail(COPSE_ERR_UNSUPPORTED,
                       "opencl: CLBlast cannot be opened; on Debian: apt-get install libclblast1");
    copse__mutex_unlock(&d->lock);
    return s;
}

copse_status copse_cl_gemm(copse_queue *q, const struct copse_command *c)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    COPSE_TRY(gemm_prepare(d));
    const struct copse_binding *b = c->bindings;
    const struct copse_cl_buffer *A = b[0].buffer->priv, *B = b[1].buffer->priv,
                                 *C = b[2].buffer->priv;
    const size_t m = c->gemm.m, n = c->gemm.n, k = c->gemm.k;
    const bool at = c->gemm.a_transposed, bt = c->gemm.b_transposed;
    const int e = d->sgemm(ROW_MAJOR, at ? TRANSPOSED : AS_IS, bt ? TRANSPOSED : AS_IS, m, n, k,
                           1.0f, A->mem, b[0].offset / 4, at ? m : k, B->mem, b[1].offset / 4,
                           bt ? k : n, 0.0f, C->mem, b[2].offset / 4, n, &p->queue, NULL);
    /* its codes are OpenCL's and, from -1024 down, its own codes for wrong arguments */
    if (e != 0) {
        const copse_status s = copse_cl_error_status(e);
        return copse_fail(e <= -1024 ? COPSE_ERR_INTERNAL : s,
                          "opencl: CLBlast %zu x %zu x %zu: status %d", m, n, k, e);
    }
    return COPSE_OK;
}

/* CLBlast caches programs by the context's address, which a later context may reuse. The library
   stays open: its destructors would free objects of drivers that may already be unloaded. */
void copse_cl_gemm_fini(struct copse_cl_device *d)
{
    if (d->clear_gemms != NULL)
        d->clear_gemms();
}
