/* SPDX-License-Identifier: MIT */
/* Windows that a text fills in part: its `length` tokens, then zeros. The network predicts the token
   after them if it predicts the token after each position, and none depends on later positions. */
#include <math.h>

#include "core/data/schema/schema.h"
#include "core/data/text/tokens.h"
#include "core/model/model.h"

/* Let the positions from `length` on have another token. */
static void fill_rest(const copse_model *m, void *window, int32_t length)
{
    const uint32_t context = m->is.shape.dims[0], token = m->is.outputs - 1;
    for (uint32_t i = (uint32_t)length; i < context; i++) {
        if (m->is.type == COPSE_U8)
            ((uint8_t *)window)[i] = (uint8_t)token;
        else
            ((int32_t *)window)[i] = (int32_t)token;
    }
}

/* Compute one window twice, with two fillings. The results are equal to the last bit where later
   positions have no influence: what is masked adds nothing. `outputs`: [2, outputs]. */
static copse_status compare_fillings(copse_model *m, void *window, int32_t length, float *outputs,
                                     bool *is_equal)
{
    const size_t count = m->is.outputs;
    const struct copse_host_batch batch = { COPSE_COLUMNS(
                                                { "x", m->is.type, m->is.shape, window },
                                                { "length", COPSE_I32, COPSE_SCALAR, &length }),
                                            .count = 1 };
    COPSE_TRY(copse__model_outputs(m, &batch, true, outputs));
    fill_rest(m, window, length);
    COPSE_TRY(copse__model_outputs(m, &batch, true, outputs + count));
    *is_equal = true;
    for (size_t i = 0; i < count; i++)
        *is_equal &=
            outputs[i] == outputs[count + i] || (isnan(outputs[i]) && isnan(outputs[count + i]));
    return COPSE_OK;
}

/* `window`: whose `length` tokens are followed by zeros. */
static copse_status check_network(copse_model *m, const void *window, int32_t length)
{
    const char *noun = copse__token_kinds[m->schema->is.tokens].noun;
    const uint32_t context = m->is.shape.dims[0];
    if (m->positions == 1)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "model: a window has %d %s; the network predicts only the token after a "
                          "window of %u: give at least %u",
                          (int)length, noun, context, context);
    struct copse_mem *mem = &m->strategy->ctx->base.mem;
    const size_t size = copse__type_bytes(m->is.type);
    void *copy = copse__alloc(mem, context, size);
    float *outputs = copse__alloc(mem, 2 * (size_t)m->is.outputs, sizeof *outputs);
    copse_status s = copy && outputs ? COPSE_OK : copse_no_memory("model");
    bool is_equal = true;
    if (s == COPSE_OK) {
        memcpy(copy, window, context * size);
        s = compare_fillings(m, copy, length, outputs, &is_equal);
    }
    copse__free_read(mem, outputs, s);
    copse__free(mem, copy);
    return s != COPSE_OK || is_equal
               ? s
               : copse_fail(COPSE_ERR_ARGUMENT,
                            "model: a window has %d %s; what the network predicts after them "
                            "depends on later positions of its window of %u: give at least %u",
                            (int)length, noun, context, context);
}

copse_status copse__short_window_check(copse_model *m, const struct copse_host_batch *batch,
                                       int32_t *checked)
{
    const int32_t *lengths = copse__model_lengths(m, batch);
    const struct copse_column *x = copse_batch_column(batch, "x");
    const int32_t context = (int32_t)m->is.shape.dims[0];
    for (size_t i = 0; lengths && i < batch->count; i++) {
        if (lengths[i] < 1 || lengths[i] > context)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "model: a window of row %zu has %d tokens; it must have 1 to %d", i,
                              (int)lengths[i], (int)context);
        if (lengths[i] == context || (*checked > 0 && lengths[i] >= *checked))
            continue;
        const size_t size = (size_t)context * copse__type_bytes(x->type);
        COPSE_TRY(check_network(m, (const char *)x->data + i * size, lengths[i]));
        *checked = lengths[i];
    }
    return COPSE_OK;
}
