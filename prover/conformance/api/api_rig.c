/* SPDX-License-Identifier: MIT */
/* Mode api: the queue, buffers and checks of a case. */
#include "core/ops/elementwise/unary.h"
#include "prover/conformance/api/api.h"

copse_status copse__api_open(struct copse_conform_run *r, struct copse_conform_outcome *out,
                             size_t bytes, struct copse_api_rig *g)
{
    *g = (struct copse_api_rig){ .run = r, .out = out, .bytes = bytes };
    COPSE_TRY(copse__conform_memory(r, bytes, 1, &g->words));
    COPSE_TRY(copse_queue_create(r->dev, &g->queue));
    for (size_t i = 0; i < COPSE_API_BUFFERS; i++)
        COPSE_TRY(copse_buffer_create(r->dev, &(struct copse_buffer_params){ .size = bytes },
                                      &g->buffers[i]));
    return COPSE_OK;
}

void copse__api_close(struct copse_api_rig *g)
{
    copse_queue_release(&g->queue); /* waits for reads */
    for (size_t i = 0; i < COPSE_API_BUFFERS; i++)
        copse_buffer_release(&g->buffers[i]);
    copse__free(&g->run->ctx->base.mem, g->words);
}

uint32_t copse__api_word(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

copse_status copse__api_negate(struct copse_api_rig *g, copse_queue *q, copse_buffer *from,
                               size_t from_offset, copse_buffer *to, size_t to_offset, size_t words)
{
    const size_t bytes = COPSE_WORD_BYTES * words;
    struct copse_command c;
    COPSE_TRY(copse__negate_command(g->run->dev, (struct copse_binding){ from, from_offset, bytes },
                                    (struct copse_binding){ to, to_offset, bytes }, words, &c));
    return copse__queue_encode(q, &c);
}

copse_status copse__api_expect(struct copse_api_rig *g, copse_queue *q, copse_buffer *buffer,
                               float value, const char *what)
{
    const uint32_t expected = copse__api_word(value);
    COPSE_TRY(copse_queue_read(q, buffer, 0, g->words, g->bytes));
    COPSE_TRY(copse_queue_finish(q));
    for (size_t i = 0; i < g->bytes / COPSE_WORD_BYTES; i++)
        if (g->words[i] != expected) {
            float got;
            memcpy(&got, &g->words[i], sizeof got);
            copse__conform_set(g->out, COPSE_VERDICT_FAIL, "%s: word %zu is %g, not %g", what, i,
                               (double)got, (double)value);
            break;
        }
    return COPSE_OK;
}
