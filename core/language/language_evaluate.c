/* SPDX-License-Identifier: MIT */
/* How well a language model predicts a text: windows that do not overlap. */
#include <math.h>

#include "core/language/language.h"

struct measuring {
    copse_language *l;
    struct copse_tokens tokens;
    struct copse_language_inputs in;
    int32_t *next;
    float *losses;
    double loss;
    uint64_t count, bytes;
};

/* The window at token `at`: its last tokens may be missing. */
static copse_status measure_window(struct measuring *m, size_t at)
{
    const size_t left = m->tokens.count - at;
    const uint32_t real = (uint32_t)COPSE_MIN((size_t)m->in.count, left - 1);
    for (uint32_t i = 0; i < m->in.count; i++) {
        m->in.tokens[i] = i < real ? m->tokens.at[at + i] : 0;
        m->next[i] = i < real ? m->tokens.at[at + i + 1] : 0;
    }
    COPSE_TRY(copse__language_run(m->l, &m->in, "y", m->next, m->in.count, copse__language_losses,
                                  m->losses, m->in.count));
    for (uint32_t i = 0; i < real; i++) {
        m->loss += (double)m->losses[i];
        m->bytes += m->l->tokenizer.tokens[m->next[i]].size;
    }
    m->count += real;
    return COPSE_OK;
}

static copse_status measure_text(struct measuring *m, const char *text, size_t size,
                                 uint32_t window)
{
    copse_language *l = m->l;
    struct copse_mem *mem = l->arena.mem;
    COPSE_TRY(copse__language_encode(l, text, size, &m->tokens));
    if (m->tokens.count < 2)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "language: the text has %zu tokens; the first that can be predicted is "
                          "the second",
                          m->tokens.count);
    /* the last token of a window is predicted only */
    const bool has_inputs = copse__language_inputs_make(l, &m->in, window - 1, window - 1);
    m->next = copse__alloc(mem, m->in.count, sizeof *m->next);
    m->losses = copse__alloc(mem, m->in.count, sizeof *m->losses);
    if (!has_inputs || !m->next || !m->losses)
        return copse_no_memory("language");
    copse__language_place(l, &m->in, 0, 0);
    for (size_t at = 0; at + 1 < m->tokens.count; at += window)
        COPSE_TRY(measure_window(m, at));
    return COPSE_OK;
}

copse_status copse_language_evaluate(copse_language *language, const char *text, size_t size,
                                     uint32_t window, struct copse_language_evaluation *out)
{
    struct measuring m = { .l = language };
    COPSE_TRY(copse_need("language", language, text, out));
    COPSE_TRY(copse__require_no_replica("copse_language_evaluate", language->strategy));
    *out = (struct copse_language_evaluation){ .tokens = 0 };
    /* the last token of a window is no query, and all heads of a key head ask together */
    const uint32_t queries = COPSE_LANGUAGE_LONGEST / (language->is.heads / language->is.kv_heads);
    const uint32_t most =
        COPSE_MIN(language->is.context, COPSE_MIN(queries + 1, COPSE_LANGUAGE_LONGEST));
    if (window == 0)
        window = COPSE_MIN(most, 512u);
    if (window < 2 || window > most)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "language: a window of %u tokens; 2 to %u are allowed", window, most);
    struct copse_mem *mem = language->arena.mem;
    const copse_status s = measure_text(&m, text, size, window);
    if (s == COPSE_OK) {
        out->tokens = m.count;
        out->loss = m.loss / (double)m.count;
        out->bits_per_byte = m.bytes > 0 ? m.loss / log(2.0) / (double)m.bytes : 0.0;
    }
    copse__free(mem, m.tokens.at);
    copse__language_inputs_free(language, &m.in);
    copse__free(mem, m.next);
    copse__free_read(mem, m.losses, s);
    return s;
}
