/* SPDX-License-Identifier: MIT */
/* Adapters as GGUF files, in the form of llama.cpp. Rows of query and key are in the order of the
   file of the model, and alpha / rank is the scale: dropout and rank stabilisation are not kept. */
#include <math.h>
#include <stdio.h>

#include "copse/data/gguf.h"
#include "core/base/platform.h"
#include "core/data/array.h"
#include "core/language/adapter_file.h"

#define ALIGNMENT 32u /* of tensors, the format's normal one */
enum { AS_F32 = 0, KEY_F32 = 6, KEY_TEXT = 8, KEYS = 4 };

/* Rows of a B of query or key: pairs (0, half), (1, half + 1), ... of the model are pairs (0, 1),
   (2, 3), ... of the file. `from` and `to` are [rows, rank]. */
static void turn_rows(const copse_language *l, bool to_file, const float *from, float *to,
                      uint32_t rows, uint32_t rank)
{
    const uint32_t head = l->is.head, half = head / 2;
    for (uint32_t r = 0; r < rows; r++) {
        const uint32_t i = r % head, in_file = r - i + (i < half ? 2 * i : 2 * (i - half) + 1);
        memcpy(to + (size_t)(to_file ? in_file : r) * rank,
               from + (size_t)(to_file ? r : in_file) * rank, rank * sizeof *to);
    }
}

static bool gguf_turns(const copse_language *l, enum copse_part part, int matrix)
{
    return l->architecture->is_interleaved && matrix == COPSE_ADAPTER_B &&
           (part == COPSE_PART_QUERY || part == COPSE_PART_KEY);
}

/* ---- saving ---- */

/* The alpha with which alpha / rank is the scale. */
static double gguf_alpha(const struct copse_adapter *is)
{
    return (double)is->alpha * (is->is_rank_stabilised ? sqrt((double)is->rank) : 1.0);
}

static bool put_number(FILE *f, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++, value >>= 8)
        if (fputc((int)(value & 0xff), f) == EOF)
            return false;
    return true;
}

static bool put_text(FILE *f, const char *text)
{
    const size_t size = strlen(text);
    return put_number(f, size, 8) && fwrite(text, 1, size, f) == size;
}

static bool put_key_text(FILE *f, const char *key, const char *text)
{
    return put_text(f, key) && put_number(f, KEY_TEXT, 4) && put_text(f, text);
}

static bool put_key_real(FILE *f, const char *key, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return put_text(f, key) && put_number(f, KEY_F32, 4) && put_number(f, bits, 4);
}

/* Calls `take` for each matrix, in one order. */
struct gguf_writer {
    const struct copse_adapter_values *v;
    FILE *f;
    uint64_t offset; /* of the next tensor, after the begin of the data */
    float *room;     /* the largest matrix */
};
typedef bool gguf_take(struct gguf_writer *w, uint32_t layer, enum copse_part part, int matrix,
                       const float *values);

static bool each_matrix(struct gguf_writer *w, gguf_take *take)
{
    const copse_language *l = w->v->l;
    for (uint32_t layer = 0; layer < l->is.layers; layer++)
        for (int part = 0; part < COPSE_PARTS; part++)
            for (int m = 0; m < 2; m++) {
                const float *at =
                    w->v->at[((size_t)m * l->is.layers + layer) * COPSE_PARTS + (size_t)part];
                if (at && !take(w, layer, (enum copse_part)part, m, at))
                    return false;
            }
    return true;
}

static bool put_entry(struct gguf_writer *w, uint32_t layer, enum copse_part part, int matrix,
                      const float *values)
{
    char name[COPSE_ADAPTER_NAME];
    uint32_t shape[2];
    (void)values;
    const size_t count = copse__adapter_shape(w->v->l, part, matrix, w->v->is.rank, shape);
    copse__adapter_gguf_name(name, layer, part, matrix);
    const bool ok = put_text(w->f, name) && put_number(w->f, 2, 4) &&
                    put_number(w->f, shape[1], 8) && put_number(w->f, shape[0], 8) &&
                    put_number(w->f, AS_F32, 4) && put_number(w->f, w->offset, 8);
    w->offset += copse__round_up(count * sizeof(float), ALIGNMENT);
    return ok;
}

static bool put_values(struct gguf_writer *w, uint32_t layer, enum copse_part part, int matrix,
                       const float *values)
{
    const copse_language *l = w->v->l;
    uint32_t shape[2];
    (void)layer;
    const size_t count = copse__adapter_shape(l, part, matrix, w->v->is.rank, shape),
                 bytes = count * sizeof *values;
    if (gguf_turns(l, part, matrix))
        turn_rows(l, true, values, w->room, shape[0], shape[1]);
    else
        memcpy(w->room, values, bytes);
    copse__swap_from_little(w->room, count, sizeof *values);
    bool ok = fwrite(w->room, 1, bytes, w->f) == bytes;
    for (size_t at = bytes; ok && at % ALIGNMENT != 0; at++)
        ok = fputc(0, w->f) != EOF;
    return ok;
}

static bool put_all(struct gguf_writer *w)
{
    const struct copse_adapter_values *v = w->v;
    FILE *f = w->f;
    bool ok = fwrite("GGUF", 1, 4, f) == 4 && put_number(f, 3, 4) &&
              put_number(f, 2 * (uint64_t)v->is.weights, 8) && put_number(f, KEYS, 8) &&
              put_key_text(f, "general.type", "adapter") &&
              put_key_text(f, "general.architecture", v->l->architecture->name) &&
              put_key_text(f, "adapter.type", "lora") &&
              put_key_real(f, "adapter.lora.alpha", (float)gguf_alpha(&v->is)) &&
              each_matrix(w, put_entry);
    for (long at = ok ? ftell(f) : 0; ok && at % ALIGNMENT != 0; at++)
        ok = fputc(0, f) != EOF;
    return ok && each_matrix(w, put_values);
}

copse_status copse__adapter_save_gguf(const struct copse_adapter_values *v, const char *path)
{
    struct copse_atomic_file file = { 0 };
    struct gguf_writer w = { .v = v };
    const struct copse_language_sizes *is = &v->l->is;
    const uint32_t widest = COPSE_MAX(COPSE_MAX(is->width, is->hidden), is->heads * is->head);
    if (v->is.is_dora)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "adapter: GGUF files cannot hold DoRA: save %s as .safetensors "
                          "or as a folder, or merge the adapter with the model",
                          path);
    if (!copse__adapter_alpha_fits(gguf_alpha(&v->is)))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "adapter: alpha sqrt(rank) is %g in %s; " COPSE_ADAPTER_ALPHAS
                          " are allowed: save a .safetensors file",
                          gguf_alpha(&v->is), path);
    w.room = copse__alloc(v->mem, (size_t)widest * v->is.rank, sizeof *w.room);
    COPSE_TRY(copse_need_memory(w.room, "adapter"));
    copse_status s = copse__atomic_open(&file, v->mem, path);
    w.f = file.stream;
    if (s == COPSE_OK && put_all(&w)) {
        s = copse__atomic_commit(&file);
    } else if (s == COPSE_OK) {
        copse__atomic_abort(&file);
        s = copse_fail(COPSE_ERR_IO, "adapter: cannot write %s: is the disk full?", path);
    }
    copse__free(v->mem, w.room);
    return s;
}

/* ---- loading ---- */

/* COPSE_ERR_UNSUPPORTED where a key has another text. */
static copse_status check_key(const copse_gguf *f, const char *path, const char *key,
                              const char *wanted)
{
    struct copse_gguf_value v;
    if (copse_gguf_get(f, key, 0, &v) == COPSE_OK && v.text && v.size == strlen(wanted) &&
        memcmp(v.text, wanted, v.size) == 0)
        return COPSE_OK;
    return copse_fail(COPSE_ERR_UNSUPPORTED, "%s: the key \"%s\" is not \"%s\"", path, key, wanted);
}

static copse_status take_tensor(struct copse_adapter_values *v, const char *path, copse_gguf *f,
                                const struct copse_gguf_tensor *t)
{
    const copse_language *l = v->l;
    uint32_t layer;
    enum copse_part part;
    int matrix;
    float *to = NULL;
    if (t->rank != 2)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "%s: \"%.200s\" is no matrix", path, t->name);
    COPSE_TRY(copse__adapter_values_take(v, path, t->name, t->shape[0], t->shape[1], true, &to));
    COPSE_TRY(copse_gguf_read(f, t->name, to, (size_t)t->elements));
    for (size_t i = 0; i < t->elements; i++)
        if (!isfinite(to[i]))
            return copse_fail(COPSE_ERR_FORMAT, "%s: element %zu of \"%.200s\" is %g", path, i,
                              t->name, (double)to[i]);
    if (!copse__adapter_parse(l, t->name, true, &layer, &part, &matrix) ||
        !gguf_turns(l, part, matrix))
        return COPSE_OK;
    float *room = copse__alloc(v->mem, (size_t)t->elements, sizeof *room);
    COPSE_TRY(copse_need_memory(room, "adapter"));
    memcpy(room, to, (size_t)t->elements * sizeof *room);
    turn_rows(l, false, room, to, (uint32_t)t->shape[0], (uint32_t)t->shape[1]);
    copse__free(v->mem, room);
    return COPSE_OK;
}

copse_status copse__adapter_load_gguf(struct copse_adapter_values *v, const char *path)
{
    copse_gguf *f = NULL;
    struct copse_gguf_value alpha = { .real = 0 };
    size_t count = 0;
    COPSE_TRY(copse_gguf_open(v->l->strategy->ctx, path, &f));
    copse_status s = check_key(f, path, "general.type", "adapter");
    if (s == COPSE_OK)
        s = check_key(f, path, "adapter.type", "lora");
    if (s == COPSE_OK)
        s = check_key(f, path, "general.architecture", v->l->architecture->name);
    if (s == COPSE_OK && (copse_gguf_get(f, "adapter.lora.alpha", 0, &alpha) != COPSE_OK ||
                          !copse__adapter_alpha_fits(alpha.real)))
        s = copse_fail(COPSE_ERR_FORMAT,
                       "%s: the key \"adapter.lora.alpha\" is no number from " COPSE_ADAPTER_ALPHAS,
                       path);
    if (s == COPSE_OK)
        v->is.alpha = (float)alpha.real;
    const struct copse_gguf_tensor *list = copse_gguf_tensors(f, &count);
    for (size_t i = 0; s == COPSE_OK && i < count; i++)
        s = take_tensor(v, path, f, &list[i]);
    if (s == COPSE_OK)
        s = copse__adapter_values_check(v, path);
    copse_gguf_release(&f);
    return s;
}
