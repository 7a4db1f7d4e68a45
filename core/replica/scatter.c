/* SPDX-License-Identifier: MIT */
/* Changing some rows of a variable's component by the slices of a sparse value. */
#include "core/replica/run.h"
#include "core/replica/servers.h"

/* `now` is room for all of the component; nothing where a server has it. */
static copse_status change_rows(copse_variable *v, uint32_t rank, enum copse_change how,
                                const struct copse_server_rows *rows, float *now)
{
    if (v->strategy->servers)
        return copse__servers_scatter(v, how, rows);
    COPSE_TRY(copse_variable_read(v, rank, now));
    copse__change_rows(how, rows->row, rows->count, rows->indices, rows->values, now);
    return copse__component_write(v, rank, now);
}

copse_status copse__component_scatter(copse_variable *v, uint32_t rank, const copse_value *slices,
                                      enum copse_change how)
{
    struct copse_mem *mem = &v->strategy->ctx->base.mem;
    const size_t count = copse_value_count(slices);
    const size_t room = v->strategy->servers ? 1 : (size_t)v->count;
    const size_t row = (size_t)v->count / v->tensor.shape.dims[0];
    if (v->initial && v->strategy->group.workers > 1) /* until they meet, workers may start from different values */
        COPSE_TRY(copse__store_build(v->strategy));
    if (count == 0)
        return COPSE_OK;
    float *now = copse__alloc(mem, room, sizeof *now);
    float *values = now ? copse__alloc(mem, count * row, sizeof *values) : NULL;
    int32_t *indices = values ? copse__alloc(mem, count, sizeof *indices) : NULL;
    copse_status s = indices ? copse_value_read_sparse(slices, indices, values)
                             : copse_fail(COPSE_ERR_NO_MEMORY, "variable '%s': no memory", v->name);
    if (s == COPSE_OK) {
        const struct copse_server_rows rows = { (uint32_t)count, row, indices, values };
        s = change_rows(v, rank, how, &rows, now);
    }
    if (s == COPSE_ERR_TIMEOUT)
        return s; /* the device may still write there */
    copse__free(mem, indices);
    copse__free(mem, values);
    copse__free(mem, now);
    return s;
}
