/* SPDX-License-Identifier: MIT */
/* Memory of the exchange: shared or private pieces of the store. */
#include <stdio.h>

#include "core/reduce/exchange/exchange_internal.h"

/* ---- shared or staged ---- */

static copse_status pieces_cannot(const copse_exchange *x, const char *id, const char *why)
{
    return x->params.transfer == COPSE_TRANSFER_SHARED
               ? copse_fail(COPSE_ERR_UNSUPPORTED,
                            "exchange: shared transfer is asked for, but %s %s", id, why)
               : COPSE_OK;
}

/* Whether gradients and values can be stored in memory that all ranks access: host memory, or
   memory of the device when all ranks have one queue. A single rank has private memory. */
copse_status copse__exchange_check_sharing(copse_exchange *x)
{
    x->can_share = false;
    if (x->rank_count == 1 || x->params.transfer == COPSE_TRANSFER_STAGED)
        return COPSE_OK;
    for (uint32_t r = 0; r < x->rank_count && !x->is_one_queue; r++)
        if (copse__rank_device(x, r)->limits->host_import_alignment == 0)
            return pieces_cannot(x, copse__rank_device(x, r)->info.id,
                                 "cannot use host memory itself");
    x->can_share = true;
    return COPSE_OK;
}

/* Bytes of a whole block, and the alignment that suits every device. */
static bool block_size(const copse_exchange *x, uint64_t elements, size_t *bytes, size_t *alignment)
{
    *alignment = 4096;
    for (uint32_t r = 0; r < x->rank_count; r++)
        *alignment = COPSE_MAX(*alignment, copse__rank_device(x, r)->limits->host_import_alignment);
    if (elements > SIZE_MAX / COPSE_WORD_BYTES ||
        !copse__mul((size_t)elements * COPSE_WORD_BYTES, x->rank_count, bytes) ||
        *bytes > SIZE_MAX - *alignment)
        return false;
    *bytes = copse__round_up(*bytes, *alignment);
    return true;
}

/* The rank on whose device the whole block does not fit, or rank_count. */
static uint32_t too_large_for(const copse_exchange *x, size_t bytes)
{
    for (uint32_t r = 0; r < x->rank_count; r++) {
        const struct copse_limits *l = copse__rank_device(x, r)->limits;
        if (bytes > COPSE_MIN(l->max_binding_bytes, l->max_buffer_bytes) ||
            bytes / COPSE_WORD_BYTES > UINT32_MAX)
            return r;
    }
    return x->rank_count;
}

/* ---- pieces ---- */

/* One import per opened device: ranks with the same device share it. `host` NULL: memory of the
   device. */
static copse_status pieces_import(copse_exchange *x, void *host, size_t bytes,
                                  copse_buffer **buffers)
{
    for (uint32_t r = 0; r < x->rank_count; r++) {
        copse_device *dev = copse__rank_device(x, r);
        for (uint32_t i = 0; i < r && !buffers[r]; i++)
            if (copse__rank_device(x, i) == dev)
                buffers[r] = copse_buffer_retain(buffers[i]);
        const struct copse_buffer_params params = { .size = bytes, .host = host };
        if (!buffers[r])
            COPSE_TRY(copse_note(copse_buffer_create(dev, &params, &buffers[r]),
                                 "while sharing memory with rank %u", r));
    }
    return COPSE_OK;
}

static copse_status make_shared(copse_exchange *x, struct copse_piece *p, size_t bytes,
                                size_t alignment)
{
    for (int i = 0; i < 2; i++) {
        copse_buffer **buffers = i == 0 ? p->values : p->gradients;
        if (x->is_one_queue) {
            COPSE_TRY(pieces_import(x, NULL, bytes, buffers));
            COPSE_TRY(copse_queue_fill(x->ranks[0].queue, buffers[0], 0, bytes, 0));
            continue;
        }
        p->host[i] = copse__alloc_aligned(x->mem, bytes, alignment);
        if (!p->host[i])
            return copse_fail(COPSE_ERR_NO_MEMORY, "exchange: no memory for %zu shared bytes",
                              bytes);
        COPSE_TRY(pieces_import(x, p->host[i], bytes, buffers));
    }
    return COPSE_OK;
}

static copse_status make_private(copse_exchange *x, struct copse_piece *p)
{
    for (uint32_t r = 0; r < x->rank_count; r++)
        for (int i = 0; i < 2; i++) {
            copse_buffer **buf = i == 0 ? &p->values[r] : &p->gradients[r];
            const struct copse_buffer_params params = { .size = (size_t)p->elements *
                                                                COPSE_WORD_BYTES };
            COPSE_TRY(copse_note(copse_buffer_create(copse__rank_device(x, r), &params, buf),
                                 "while making the store of rank %u", r));
            COPSE_TRY(copse_queue_fill(x->ranks[r].queue, *buf, 0, params.size, 0));
        }
    return COPSE_OK;
}

/* Work of a queue may use the memory until the queue is drained; a device that hangs for good keeps
   it. */
void copse__piece_fini(copse_exchange *x, struct copse_piece *p, bool is_idle)
{
    for (uint32_t r = 0; r < x->rank_count; r++) {
        copse_buffer_release(&p->values[r]);
        copse_buffer_release(&p->gradients[r]);
    }
    if (!is_idle && p->is_shared)
        copse__log(&x->params.ctx->base.log, COPSE_LOG_ERROR,
                   "exchange: a device hangs, its shared memory is not freed");
    for (int i = 0; is_idle && i < 2; i++)
        copse__free_aligned(x->mem, p->host[i]);
}

copse_status copse__exchange_piece(copse_exchange *x, uint64_t elements, uint32_t *piece)
{
    size_t bytes, alignment;
    struct copse_piece p = { .elements = elements };
    if (elements == 0 || elements % COPSE_UNIT || !block_size(x, elements, &bytes, &alignment))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "exchange: a piece of %llu elements: a multiple of %d is needed",
                          (unsigned long long)elements, COPSE_UNIT);
    p.is_shared = x->can_share && too_large_for(x, bytes) == x->rank_count;
    char why[COPSE_ERROR_BYTES];
    if (x->can_share && !p.is_shared) {
        snprintf(why, sizeof why, "cannot bind the %zu bytes of %u ranks at once", bytes,
                 x->rank_count);
        COPSE_TRY(pieces_cannot(x, copse__rank_device(x, too_large_for(x, bytes))->info.id, why));
    }

    copse_status s;
    if (p.is_shared) {
        COPSE_TRY_OR(fail, s, make_shared(x, &p, bytes, alignment));
    } else {
        COPSE_TRY_OR(fail, s, make_private(x, &p));
        if (x->rank_count > 1 && !x->is_one_queue)
            for (uint32_t r = 0; r < x->rank_count; r++)
                COPSE_TRY_OR(fail, s, copse__reducer_staging(x->reducer, r));
    }
    *piece = 0;
    while (*piece < x->pieces.count && x->pieces.at[*piece].elements > 0)
        ++*piece;
    if (*piece < x->pieces.count) {
        x->pieces.at[*piece] = p;
    } else if (!COPSE_PUSH(x->mem, &x->pieces, p)) {
        s = copse_fail(COPSE_ERR_NO_MEMORY, "exchange: no memory for a piece");
        goto fail;
    }
    x->is_shared = x->is_shared && p.is_shared;
    return COPSE_OK;

fail:
    memcpy(why, copse_last_error(), sizeof why);
    copse__piece_fini(x, &p, copse__reducer_drain(x->reducer));
    copse__fail_again(why);
    return s;
}

void copse__exchange_piece_drop(copse_exchange *x, uint32_t piece)
{
    struct copse_piece *p = &x->pieces.at[piece];
    copse__piece_fini(x, p, copse__reducer_drain(x->reducer));
    *p = (struct copse_piece){ .elements = 0 };
}

struct copse_binding copse__piece_binding(const struct copse_piece *p, copse_buffer *const *buffers,
                                          uint32_t rank, uint64_t first, uint64_t count)
{
    const uint64_t row = p->is_shared ? rank * p->elements : 0;
    return (struct copse_binding){ buffers[rank], COPSE_WORD_BYTES * (size_t)(row + first),
                                   COPSE_WORD_BYTES * (size_t)count };
}

struct copse_binding copse__exchange_values(const copse_exchange *x, uint32_t piece, uint32_t rank)
{
    const struct copse_piece *p = &x->pieces.at[piece];
    return copse__piece_binding(p, p->values, rank, 0, p->elements);
}

struct copse_binding copse__exchange_gradients(const copse_exchange *x, uint32_t piece,
                                               uint32_t rank)
{
    const struct copse_piece *p = &x->pieces.at[piece];
    return copse__piece_binding(p, p->gradients, rank, 0, p->elements);
}
