/* SPDX-License-Identifier: MIT */
/* A language model from a GGUF file: sizes from its keys, weights from its tensors. Each tensor
   must be one of the architecture's: a model without a part of its file would be another model. */
#include <stdio.h>

#include "core/language/language.h"
#include "core/language/tokenizer_gguf.h"
#include "core/state/gguf.h"

#define NAME_BYTES        128
#define VARIABLES_OF_PART 3u

/* ---- sizes ---- */

/* "llama.block_count" and so on. False: the file lacks it. */
static bool read_key(const copse_language *l, const copse_gguf *f, const char *name,
                     struct copse_gguf_value *v)
{
    char key[NAME_BYTES];
    snprintf(key, sizeof key, "%s.%s", l->architecture->name, name);
    return copse_gguf_get(f, key, 0, v) == COPSE_OK;
}

/* A size; `normal` where the file lacks it, 0: it must not. */
static copse_status read_size(const copse_language *l, const copse_gguf *f, const char *name,
                              uint32_t normal, uint32_t *out)
{
    struct copse_gguf_value v;
    *out = normal;
    const bool is_there = read_key(l, f, name, &v);
    if (!is_there && normal > 0)
        return COPSE_OK;
    if (!is_there)
        return copse_fail(COPSE_ERR_FORMAT, "%s has no key \"%s.%s\"", l->path,
                          l->architecture->name, name);
    if (v.kind != COPSE_GGUF_WHOLE || v.whole < 1 || v.whole > INT32_MAX)
        return copse_fail(COPSE_ERR_FORMAT, "%s: \"%s.%s\" is no number from 1 to %d", l->path,
                          l->architecture->name, name, INT32_MAX);
    *out = (uint32_t)v.whole;
    return COPSE_OK;
}

static copse_status read_real(const copse_language *l, const copse_gguf *f, const char *name,
                              float normal, float *out)
{
    struct copse_gguf_value v = { .real = (double)normal };
    const bool is_there = read_key(l, f, name, &v);
    *out = is_there ? (float)v.real : normal;
    return *out > 0.0f && *out < 1e30f
               ? COPSE_OK
               : copse_fail(COPSE_ERR_FORMAT, "%s: \"%s.%s\" is no positive number", l->path,
                            l->architecture->name, name);
}

/* Positions are scaled where a type says so, or a factor without a type. */
static copse_status check_scaling(const copse_language *l, const copse_gguf *f)
{
    static const char *const factors[] = { "rope.scaling.factor", "rope.scale_linear" };
    struct copse_gguf_value v;
    if (read_key(l, f, "rope.scaling.type", &v) && v.text)
        return v.size == 4 && memcmp(v.text, "none", 4) == 0
                   ? COPSE_OK
                   : copse_fail(
                         COPSE_ERR_UNSUPPORTED,
                         "%s scales its rotary positions (%.*s): only unscaled ones are computed",
                         l->path, (int)COPSE_MIN(v.size, (size_t)64), v.text);
    for (size_t i = 0; i < COPSE_COUNT(factors); i++)
        if (read_key(l, f, factors[i], &v) && !(v.real == 0.0 || v.real == 1.0))
            return copse_fail(
                COPSE_ERR_UNSUPPORTED,
                "%s scales its rotary positions (\"%s.%s\" is %g): only unscaled ones "
                "are computed",
                l->path, l->architecture->name, factors[i], v.real);
    return COPSE_OK;
}

static copse_status check_sizes(const copse_language *l, const copse_gguf *f)
{
    const struct copse_language_sizes *is = &l->is;
    struct copse_gguf_value v;
    COPSE_TRY(check_scaling(l, f));
    if (read_key(l, f, "rope.dimension_count", &v) && v.whole != is->head)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "%s turns %lld of the %u numbers of a head: only all of them are turned",
                          l->path, (long long)v.whole, is->head);
    if (is->heads % is->kv_heads || is->head % 2)
        return copse_fail(COPSE_ERR_FORMAT, "%s: %u heads of %u numbers with %u key heads", l->path,
                          is->heads, is->head, is->kv_heads);
    if (is->head > 128)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "%s has heads of %u numbers; attention takes up to 128", l->path,
                          is->head);
    if (is->heads / is->kv_heads > COPSE_LANGUAGE_LONGEST / COPSE_LANGUAGE_CHUNK)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "%s has %u heads for each key head; attention takes up to %u", l->path,
                          is->heads / is->kv_heads, COPSE_LANGUAGE_LONGEST / COPSE_LANGUAGE_CHUNK);
    if (is->layers > 10000 || is->width > 1 << 20 || is->hidden > 1 << 20 || is->heads > 1 << 16)
        return copse_fail(COPSE_ERR_FORMAT, "%s: %u layers of width %u, %u heads: is it damaged?",
                          l->path, is->layers, is->width, is->heads);
    return COPSE_OK;
}

static copse_status read_sizes(copse_language *l, const copse_gguf *f)
{
    struct copse_language_sizes *is = &l->is;
    struct copse_gguf_value v;
    const struct copse_gguf_tensor *table =
        copse_gguf_find(f, copse__parts[COPSE_PART_EMBEDDING].gguf);
    COPSE_TRY(read_size(l, f, "block_count", 0, &is->layers));
    COPSE_TRY(read_size(l, f, "embedding_length", 0, &is->width));
    COPSE_TRY(read_size(l, f, "feed_forward_length", 0, &is->hidden));
    COPSE_TRY(read_size(l, f, "attention.head_count", 0, &is->heads));
    COPSE_TRY(read_size(l, f, "attention.head_count_kv", is->heads, &is->kv_heads));
    COPSE_TRY(
        read_size(l, f, "attention.key_length", COPSE_MAX(is->width / is->heads, 1u), &is->head));
    COPSE_TRY(read_size(l, f, "context_length", 0, &is->context));
    COPSE_TRY(read_real(l, f, "rope.freq_base", 10000.0f, &is->base));
    COPSE_TRY(read_real(l, f, "attention.layer_norm_rms_epsilon", 0.0f, &is->epsilon));
    if (read_key(l, f, "attention.sliding_window", &v) && v.whole > 0 && v.whole < INT32_MAX)
        is->window = (uint32_t)v.whole;
    if (!table || table->rank != 2 || table->shape[0] != l->tokenizer.count)
        return copse_fail(COPSE_ERR_FORMAT, "%s has no embedding of its %u tokens", l->path,
                          l->tokenizer.count);
    is->vocabulary = l->tokenizer.count;
    is->is_tied = !copse_gguf_find(f, copse__parts[COPSE_PART_HEAD].gguf);
    is->has_turns = copse_gguf_find(f, copse__parts[COPSE_PART_TURNS].gguf) != NULL;
    return check_sizes(l, f);
}

/* ---- weights ---- */

/* Rows of each head, of words: pairs (0, 1), (2, 3), ... become (0, half), (1, half + 1), ... */
static void part_heads(const copse_language *l, uint32_t *values, uint32_t rows, uint32_t columns,
                       uint32_t *room)
{
    const uint32_t head = l->is.head, half = head / 2;
    for (uint32_t h = 0; h < rows / head; h++, values += (size_t)head * columns) {
        memcpy(room, values, (size_t)head * columns * sizeof *room);
        for (uint32_t i = 0; i < head; i++)
            memcpy(values + (size_t)i * columns,
                   room + (size_t)(i < half ? 2 * i : 2 * (i - half) + 1) * columns,
                   columns * sizeof *values);
    }
}

/* The file has the part in its shape, if the model has it. */
static copse_status part_check(const copse_language *l, const copse_gguf *f, uint32_t layer,
                               enum copse_part part)
{
    char in_file[NAME_BYTES];
    uint32_t shape[2];
    copse__part_shape(l->architecture, &l->is, part, shape);
    if (shape[1] == 0)
        return COPSE_OK;
    const uint64_t rows = COPSE_MAX(shape[0], 1u);
    snprintf(in_file, sizeof in_file, copse__parts[part].gguf, layer);
    const struct copse_gguf_tensor *t = copse_gguf_find(f, in_file);
    if (!t)
        return copse_fail(COPSE_ERR_FORMAT, "%s has no tensor \"%s\"", l->path, in_file);
    if (t->shape[t->rank - 1] != shape[1] || t->elements != rows * shape[1] ||
        t->rank != 1u + (shape[0] > 0))
        return copse_fail(COPSE_ERR_FORMAT, "%s: the tensor \"%s\" is not [%u, %u]", l->path,
                          in_file, (unsigned)rows, (unsigned)shape[1]);
    return COPSE_OK;
}

/* A part that is read: its sizes, and where it is. */
struct reading {
    copse_language *l;
    copse_gguf *f;
    struct copse_language_weight *to;
    char in_file[NAME_BYTES], name[NAME_BYTES];
    uint32_t rows, columns;
    bool has_rows, is_turned; /* is_turned: rows are heads in another order */
    uint32_t *room;
};

/* A variable "<name of the part><ending>" of rows of words that were read; a head of rows after
   them is memory. */
static copse_status part_variable(const struct reading *r, const char *ending, copse_type type,
                                  uint32_t *words, uint32_t width, copse_variable **out)
{
    char name[NAME_BYTES + 16];
    snprintf(name, sizeof name, "%s%s", r->name, ending);
    const size_t count = (size_t)r->rows * width;
    if (r->is_turned)
        part_heads(r->l, words, r->has_rows ? r->rows : r->columns, r->has_rows ? width : 1,
                   words + count);
    r->l->weight_bytes += count * sizeof *words;
    COPSE_TRY(copse_variable_create(
        r->l->strategy,
        &(struct copse_variable_params){ .name = name,
                                         .shape = r->has_rows ? COPSE_SHAPE(r->rows, width)
                                                              : COPSE_SHAPE(width),
                                         .type = type,
                                         .values = words,
                                         .is_frozen = true },
        out));
    r->l->variables[r->l->variable_count++] = *out;
    return COPSE_OK;
}

/* A head of `width` words a row after `rows` of them is room for part_heads. */
static size_t words_with_head(const copse_language *l, uint32_t rows, uint32_t width)
{
    return ((size_t)rows + l->is.head) * width;
}

static copse_status part_create_blocks(const struct reading *r,
                                       const struct copse_gguf_packing *packing)
{
    const uint32_t width = r->columns * packing->bits / 32, groups = r->columns / packing->group;
    uint32_t *words = r->room, *scales = words + words_with_head(r->l, r->rows, width),
             *offsets = scales + words_with_head(r->l, r->rows, groups);
    const struct copse_gguf_packed packed = { words, (float *)(void *)scales,
                                              packing->has_offsets ? (float *)(void *)offsets
                                                                   : NULL };
    COPSE_TRY(copse__gguf_read_packed(r->f, r->in_file, &packed));
    r->to->bits = packing->bits;
    COPSE_TRY(part_variable(r, ".words", COPSE_I32, words, width, &r->to->values));
    COPSE_TRY(part_variable(r, ".scales", COPSE_F32, scales, groups, &r->to->scales));
    return packing->has_offsets
               ? part_variable(r, ".offsets", COPSE_F32, offsets, groups, &r->to->offsets)
               : COPSE_OK;
}

/* Whether the part stays quantised: a matrix that is. */
static bool part_is_packed(const copse_language *l, const copse_gguf *f, const char *in_file,
                           bool has_rows, struct copse_gguf_packing *packing)
{
    return l->keeps_blocks && has_rows && copse__gguf_packing(f, in_file, packing);
}

static copse_status part_create(copse_language *l, copse_gguf *f, uint32_t layer,
                                enum copse_part part, uint32_t *room)
{
    uint32_t shape[2];
    struct copse_gguf_packing packing;
    copse__part_shape(l->architecture, &l->is, part, shape);
    if (shape[1] == 0)
        return COPSE_OK;
    struct reading r = { .l = l,
                         .f = f,
                         .to = copse__language_weight(l, layer, part),
                         .rows = COPSE_MAX(shape[0], 1u),
                         .columns = shape[1],
                         .has_rows = shape[0] > 0,
                         .room = room };
    const size_t elements = (size_t)r.rows * r.columns;
    float *values = (float *)(void *)room;
    snprintf(r.in_file, sizeof r.in_file, copse__parts[part].gguf, layer);
    snprintf(r.name, sizeof r.name, copse__parts[part].name, layer);
    r.is_turned = l->architecture->is_interleaved &&
                  (part == COPSE_PART_QUERY || part == COPSE_PART_KEY ||
                   part == COPSE_PART_QUERY_BIAS || part == COPSE_PART_KEY_BIAS);
    if (part_is_packed(l, f, r.in_file, r.has_rows, &packing)) {
        l->parameters += elements;
        return part_create_blocks(&r, &packing);
    }
    COPSE_TRY(copse_gguf_read(f, r.in_file, values, elements));
    if (part == COPSE_PART_TURNS) {
        l->turns = copse__arena_alloc(&l->arena, elements, sizeof *l->turns);
        if (!l->turns)
            return copse_no_memory("language");
        memcpy(l->turns, values, elements * sizeof *values);
        return COPSE_OK;
    }
    l->parameters += elements;
    return part_variable(&r, "", COPSE_F32, room, r.columns, &r.to->values);
}

/* Words of the largest part, with a head of each of its variables. */
static size_t part_room(const copse_language *l, const copse_gguf *f)
{
    size_t most = 0;
    for (uint32_t layer = 0; layer < l->is.layers; layer++)
        for (int part = 0; part < COPSE_PARTS; part++) {
            char in_file[NAME_BYTES];
            uint32_t shape[2];
            struct copse_gguf_packing packing;
            if (!COPSE_PART_OF_BLOCK(part) && layer > 0)
                continue;
            copse__part_shape(l->architecture, &l->is, (enum copse_part)part, shape);
            const uint32_t rows = COPSE_MAX(shape[0], 1u);
            snprintf(in_file, sizeof in_file, copse__parts[part].gguf, layer);
            size_t words = words_with_head(l, rows, shape[1]);
            if (part_is_packed(l, f, in_file, shape[0] > 0, &packing))
                words = words_with_head(l, rows, shape[1] * packing.bits / 32) +
                        2 * words_with_head(l, rows, shape[1] / packing.group);
            most = COPSE_MAX(most, words);
        }
    return most;
}

/* The number of tensors that the architecture has; all others are refused by their names. */
static copse_status check_tensors(const copse_language *l, const copse_gguf *f)
{
    char name[NAME_BYTES];
    uint32_t shape[2];
    size_t count;
    const struct copse_gguf_tensor *tensors = copse_gguf_tensors(f, &count);
    for (size_t i = 0; i < count; i++) {
        unsigned layer = 0;
        bool is_known = false;
        const bool is_of_block = sscanf(tensors[i].name, "blk.%u.", &layer) == 1;
        for (int part = 0; part < COPSE_PARTS && !is_known; part++) {
            if (is_of_block != COPSE_PART_OF_BLOCK(part) || layer >= l->is.layers)
                continue;
            copse__part_shape(l->architecture, &l->is, (enum copse_part)part, shape);
            snprintf(name, sizeof name, copse__parts[part].gguf, layer);
            is_known = shape[1] > 0 && strcmp(name, tensors[i].name) == 0;
        }
        if (!is_known)
            return copse_fail(COPSE_ERR_UNSUPPORTED,
                              "%s: the architecture \"%s\" has no tensor \"%s\" here, so its model "
                              "would be another one",
                              l->path, l->architecture->name, tensors[i].name);
    }
    return COPSE_OK;
}

static copse_status read_parts(copse_language *l, copse_gguf *f)
{
    struct copse_mem *mem = &l->strategy->ctx->base.mem;
    copse_status s = COPSE_OK;
    /* sizes that the file has no weights for ask for no memory */
    for (uint32_t layer = 0; layer < l->is.layers; layer++)
        for (int part = 0; part < COPSE_PARTS; part++)
            if (COPSE_PART_OF_BLOCK(part) || layer == 0)
                COPSE_TRY(part_check(l, f, layer, (enum copse_part)part));
    uint32_t *room = copse__alloc(mem, part_room(l, f), sizeof *room);
    const size_t parts = (size_t)l->is.layers * COPSE_PARTS;
    l->weights = copse__arena_alloc(&l->arena, parts, sizeof *l->weights);
    l->variables = copse__arena_alloc(&l->arena, VARIABLES_OF_PART * parts, sizeof *l->variables);
    if (!room || !l->weights || !l->variables)
        s = copse_no_memory("language: %s", l->path);
    for (uint32_t layer = 0; layer < l->is.layers; layer++)
        for (int part = 0; s == COPSE_OK && part < COPSE_PARTS; part++)
            if (COPSE_PART_OF_BLOCK(part) || layer == 0)
                s = part_create(l, f, layer, (enum copse_part)part, room);
    copse__free(mem, room);
    return s;
}

copse_status copse__language_read(copse_language *l, copse_gguf *f)
{
    struct copse_gguf_value v;
    if (copse_gguf_get(f, "general.architecture", 0, &v) != COPSE_OK)
        return copse_fail(COPSE_ERR_FORMAT, "%s has no key \"general.architecture\"", l->path);
    l->architecture = v.text ? copse__architecture_find(v.text, v.size) : NULL;
    if (!l->architecture)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "%s has the architecture \"%.*s\"; llama, qwen2 and qwen3 are known",
                          l->path, (int)COPSE_MIN(v.size, (size_t)64), v.text ? v.text : "");
    COPSE_TRY(copse__tokenizer_read_gguf(&l->tokenizer, f, l->path));
    COPSE_TRY(read_sizes(l, f));
    COPSE_TRY(check_tensors(l, f));
    if (copse_gguf_get(f, "tokenizer.chat_template", 0, &v) == COPSE_OK && v.text) {
        char *kept = copse__arena_alloc(&l->arena, v.size + 1, 1);
        if (!kept)
            return copse_no_memory("language");
        memcpy(kept, v.text, v.size);
        copse__chat_find(&l->chat, kept, v.size);
    }
    return read_parts(l, f);
}
