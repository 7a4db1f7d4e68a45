/* SPDX-License-Identifier: MIT */
/* The weights of a language model from a GGUF file or a folder. Each tensor must be one of the
   architecture's: a model without a part of its file would be another model. */
#include <stdio.h>

#include "core/language/model_source.h"
#include "core/variable/variable.h"

#define VARIABLES_OF_PART 3u

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
static copse_status part_check(const copse_language *l, const struct copse_model_source *f,
                               uint32_t layer, enum copse_part part)
{
    char in_file[COPSE_PART_NAME];
    uint32_t shape[2];
    copse__part_shape(l->architecture, &l->is, part, shape);
    if (shape[1] == 0)
        return COPSE_OK;
    const uint64_t rows = COPSE_MAX(shape[0], 1u);
    struct copse_model_tensor t;
    uint64_t elements = 1;
    copse__model_source_name(f, part, layer, in_file);
    if (!copse__model_source_find(f, in_file, &t))
        return copse_fail(COPSE_ERR_FORMAT, "%s has no tensor \"%s\"", l->path, in_file);
    for (uint32_t i = 0; i < t.rank; i++)
        elements *= t.shape[i];
    if (t.rank != 1u + (shape[0] > 0) || t.shape[t.rank - 1] != shape[1] ||
        elements != rows * shape[1])
        return copse_fail(COPSE_ERR_FORMAT, "%s: the tensor \"%s\" is not [%u, %u]", l->path,
                          in_file, (unsigned)rows, (unsigned)shape[1]);
    return COPSE_OK;
}

/* A part that is read: its sizes, and where it is. */
struct reading {
    copse_language *l;
    struct copse_model_source *f;
    struct copse_language_weight *to;
    char in_file[COPSE_PART_NAME], name[COPSE_PART_NAME];
    uint32_t rows, columns;
    bool has_rows, is_turned; /* is_turned: rows are heads in another order */
    uint32_t *room;
};

/* A variable "<name of the part><ending>" of rows of words that were read; a head of rows after
   them is memory. */
static copse_status part_variable(const struct reading *r, const char *ending, copse_type type,
                                  uint32_t *words, uint32_t width, copse_variable **out)
{
    char name[COPSE_PART_NAME + 16];
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
    (*out)->is_of_file = true;
    copse__components_share(*out);
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
    COPSE_TRY(copse__gguf_read_packed(r->f->gguf, r->in_file, &packed));
    r->to->bits = packing->bits;
    COPSE_TRY(part_variable(r, ".words", COPSE_I32, words, width, &r->to->values));
    COPSE_TRY(part_variable(r, ".scales", COPSE_F32, scales, groups, &r->to->scales));
    return packing->has_offsets
               ? part_variable(r, ".offsets", COPSE_F32, offsets, groups, &r->to->offsets)
               : COPSE_OK;
}

/* Whether the part stays quantised: a matrix that is. */
static bool part_is_packed(const copse_language *l, const struct copse_model_source *f,
                           const char *in_file, bool has_rows, struct copse_gguf_packing *packing)
{
    return l->keeps_blocks && f->gguf && has_rows && copse__gguf_packing(f->gguf, in_file, packing);
}

static copse_status part_create(copse_language *l, struct copse_model_source *f, uint32_t layer,
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
    copse__model_source_name(f, part, layer, r.in_file);
    snprintf(r.name, sizeof r.name, copse__parts[part].name, layer);
    r.is_turned = f->gguf && l->architecture->is_interleaved &&
                  (part == COPSE_PART_QUERY || part == COPSE_PART_KEY ||
                   part == COPSE_PART_QUERY_BIAS || part == COPSE_PART_KEY_BIAS);
    if (part_is_packed(l, f, r.in_file, r.has_rows, &packing)) {
        l->parameters += elements;
        return part_create_blocks(&r, &packing);
    }
    COPSE_TRY(copse__model_source_read(f, r.in_file, values, elements));
    if (!f->gguf && l->architecture->norms_from_one && copse__parts[part].is_norm)
        for (size_t i = 0; i < elements; i++)
            values[i] += 1.0f;
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
static size_t part_room(const copse_language *l, const struct copse_model_source *f)
{
    size_t most = 0;
    for (uint32_t layer = 0; layer < l->is.layers; layer++)
        for (int part = 0; part < COPSE_PARTS; part++) {
            char in_file[COPSE_PART_NAME];
            uint32_t shape[2];
            struct copse_gguf_packing packing;
            if (!COPSE_PART_OF_BLOCK(part) && layer > 0)
                continue;
            copse__part_shape(l->architecture, &l->is, (enum copse_part)part, shape);
            const uint32_t rows = COPSE_MAX(shape[0], 1u);
            copse__model_source_name(f, (enum copse_part)part, layer, in_file);
            size_t words = words_with_head(l, rows, shape[1]);
            if (part_is_packed(l, f, in_file, shape[0] > 0, &packing))
                words = words_with_head(l, rows, shape[1] * packing.bits / 32) +
                        2 * words_with_head(l, rows, shape[1] / packing.group);
            most = COPSE_MAX(most, words);
        }
    return most;
}

/* Tensors that a folder may have and the model does not use: a head that is not used, because the
   embedding is the head, and numbers that older programs saved and computed again. */
static bool is_spare(const copse_language *l, const struct copse_model_source *f, const char *name)
{
    static const char waves[] = ".rotary_emb.inv_freq";
    const size_t size = strlen(name), n = sizeof waves - 1;
    return !f->gguf && ((l->is.is_tied && strcmp(name, copse__parts[COPSE_PART_HEAD].name) == 0) ||
                        (size > n && strcmp(name + size - n, waves) == 0));
}

/* Tensors that the architecture does not have are refused by their names. */
static copse_status check_tensors(const copse_language *l, const struct copse_model_source *f)
{
    char name[COPSE_PART_NAME];
    uint32_t shape[2];
    for (size_t i = 0; i < copse__model_source_count(f); i++) {
        const struct copse_model_tensor t = copse__model_source_tensor(f, i);
        unsigned layer = 0;
        bool is_known = is_spare(l, f, t.name);
        const bool is_of_block =
            sscanf(t.name, f->gguf ? "blk.%u." : "model.layers.%u.", &layer) == 1;
        for (int part = 0; part < COPSE_PARTS && !is_known; part++) {
            if (is_of_block != COPSE_PART_OF_BLOCK(part) || layer >= l->is.layers)
                continue;
            copse__part_shape(l->architecture, &l->is, (enum copse_part)part, shape);
            copse__model_source_name(f, (enum copse_part)part, layer, name);
            is_known = shape[1] > 0 && strcmp(name, t.name) == 0;
        }
        if (!is_known)
            return copse_fail(COPSE_ERR_UNSUPPORTED,
                              "%s: the architecture \"%s\" has no tensor \"%.200s\" here, so its "
                              "model would be another one",
                              l->path, l->architecture->name, t.name);
    }
    return COPSE_OK;
}

static copse_status read_parts(copse_language *l, struct copse_model_source *f)
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

copse_status copse__language_read(copse_language *l, struct copse_model_source *s)
{
    COPSE_TRY(s->gguf ? copse__language_describe_gguf(l, s)
                      : copse__language_describe_folder(l, s));
    COPSE_TRY(check_tensors(l, s));
    return read_parts(l, s);
}
