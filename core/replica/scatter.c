/* SPDX-License-Identifier: MIT */
/* Changing some rows of a variable's component by the slices of a sparse value. */
#include "core/replica/run.h"
#include "core/replica/storage.h"

copse_status copse__component_scatter(copse_variable *v, uint32_t rank, const copse_value *slices,
                                      enum copse_change how)
{
    struct copse_mem *mem = &v->strategy->ctx->base.mem;
    const size_t count = copse_value_count(slices);
    const size_t row = (size_t)v->count / v->tensor.shape.dims[0];
    float *values = copse__alloc(mem, count * row, sizeof *values);
    int32_t *indices = values ? copse__alloc(mem, count, sizeof *indices) : NULL;
    copse_status s = indices ? copse_value_read_sparse(slices, indices, values)
                             : copse_fail(COPSE_ERR_NO_MEMORY, "variable '%s': no memory", v->name);
    if (s == COPSE_OK)
        s = copse__storage(v)->scatter(v, rank, how,
                                         &(struct copse_rows){ (uint32_t)count, row, indices, values });
    if (s == COPSE_ERR_TIMEOUT)
        return s; /* the device may still write there */
    copse__free(mem, indices);
    copse__free(mem, values);
    return s;
}
