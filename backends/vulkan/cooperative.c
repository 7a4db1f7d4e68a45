/* SPDX-License-Identifier: MIT */
/* Cooperative matrices: the form of SPIR-V that drivers take. Kernels use GL_NV_cooperative_matrix,
   because compilers have it since 2019 and GL_KHR_cooperative_matrix since 2023. The instructions are
   the same, but a type of VK_KHR_cooperative_matrix names the operand that it is for, and a load or
   store takes a layout instead of a flag. Compilers that know bf16 are of 2025: kernels use f16 in
   matrices and nowhere else, and its type is what changes for bf16 (SPV_KHR_bfloat16). */
#include "vk_internal.h"

#define HEADER   5u /* words before the first instruction; the fourth one is the bound of ids */
#define BOUND    3u
#define MOST_IDS (1u << 22)
enum {
    OP_NAME = 5,
    OP_MEMBER_NAME = 6,
    OP_EXTENSION = 10,
    OP_CAPABILITY = 17,
    OP_TYPE_FLOAT = 22,
    OP_CONSTANT_TRUE = 41,
    OP_CONSTANT_FALSE = 42,
    OP_CONSTANT = 43,
    OP_SPEC_CONSTANT = 50,
    OP_DECORATE = 71,
    OP_MEMBER_DECORATE = 72,
    NV_CAPABILITY = 5357,
    NV_TYPE,
    NV_LOAD,
    NV_STORE,
    NV_MUL_ADD,
    NV_LENGTH,
    KHR_TYPE = 4456,
    KHR_LOAD,
    KHR_STORE,
    KHR_MUL_ADD,
    KHR_LENGTH,
    KHR_CAPABILITY = 6022,
    BFLOAT_TYPE = 5116, /* capabilities */
    BFLOAT_MATRIX = 5118,
    BFLOAT_ENCODING = 0,
};
enum use { USE_A, USE_B, USE_SUM, USE_NONE };

/* One instruction: words[0] has the count and the code. */
static uint32_t length_of(const uint32_t *words)
{
    return words[0] >> 16;
}

static uint32_t code_of(const uint32_t *words)
{
    return words[0] & 0xffffu;
}

static uint32_t cooperative_head(uint32_t length, uint32_t code)
{
    return length << 16 | code;
}

struct id {
    uint32_t type; /* of a constant or a matrix; 0 = another id */
    uint32_t flag; /* OP_CONSTANT_TRUE or OP_CONSTANT_FALSE */
    bool is_matrix_type;
    uint8_t use; /* of a matrix type: enum use */
};

struct module {
    struct copse_mem *mem;
    const uint32_t *words;
    size_t count;
    struct id *ids;
    uint32_t bound; /* of ids; the last two are new constants */
    uint32_t scope; /* a constant of 32 bits without sign */
    uint32_t types;
    bool is_bfloat;
    uint32_t *out;
    size_t at;
};

static copse_status cooperative_bad(const char *why)
{
    return copse_fail(COPSE_ERR_COMPILE, "vulkan: cooperative matrices: %s", why);
}

static const uint32_t *next_of(const uint32_t *words)
{
    return words + length_of(words);
}

/* Visits all instructions in order until one fails. */
static copse_status cooperative_visit(struct module *m,
                                      copse_status (*each)(struct module *m, const uint32_t *words))
{
    const uint32_t *end = m->words + m->count;
    for (const uint32_t *w = m->words + HEADER; w < end; w = next_of(w))
        COPSE_TRY(each(m, w));
    return COPSE_OK;
}

static bool is_valid(const struct module *m)
{
    const uint32_t *end = m->words + m->count;
    for (const uint32_t *w = m->words + HEADER; w < end; w = next_of(w)) {
        static const uint8_t least[] = { 2, 6, 6, 5, 6, 4 }; /* from NV_CAPABILITY on */
        const uint32_t code = code_of(w), length = length_of(w);
        const bool is_ours = code > NV_CAPABILITY && code <= NV_LENGTH;
        if (length == 0 || length > (size_t)(end - w) ||
            (is_ours && length < least[code - NV_CAPABILITY]))
            return false;
        for (uint32_t i = 1; is_ours && i < least[code - NV_CAPABILITY]; i++)
            if (w[i] >= m->words[BOUND])
                return false;
        if (code == OP_TYPE_FLOAT && length < 3)
            return false;
        if ((code == OP_CONSTANT || code == OP_SPEC_CONSTANT || code == OP_CONSTANT_TRUE ||
             code == OP_CONSTANT_FALSE) &&
            (length < 3 || w[1] >= m->words[BOUND] || w[2] >= m->words[BOUND]))
            return false;
    }
    return true;
}

/* Types of constants and of matrices. */
static copse_status note_types(struct module *m, const uint32_t *w)
{
    const uint32_t code = code_of(w);
    const bool is_text = code == OP_NAME || code == OP_MEMBER_NAME || code == OP_DECORATE ||
                         code == OP_MEMBER_DECORATE;
    if (code == NV_TYPE) {
        m->ids[w[1]] = (struct id){ .is_matrix_type = true, .use = USE_NONE };
        m->scope = w[3];
        m->types++;
    } else if (code == OP_CONSTANT || code == OP_SPEC_CONSTANT) {
        m->ids[w[2]].type = w[1];
    } else if (code == OP_CONSTANT_TRUE || code == OP_CONSTANT_FALSE) {
        m->ids[w[2]].flag = code;
    } else if (!is_text && length_of(w) > 2 && w[1] < m->bound && w[2] < m->bound &&
               m->ids[w[1]].is_matrix_type) {
        m->ids[w[2]].type = w[1];
    }
    return COPSE_OK;
}

static copse_status set_use(struct module *m, uint32_t type, enum use use)
{
    struct id *t = &m->ids[type];
    if (!t->is_matrix_type)
        return cooperative_bad("an operand of a product has no matrix type");
    if (t->use != USE_NONE && t->use != use)
        return cooperative_bad(
            "two operands of a product have one type; give their shapes different constants");
    t->use = (uint8_t)use;
    return COPSE_OK;
}

static copse_status note_uses(struct module *m, const uint32_t *w)
{
    if (code_of(w) != NV_MUL_ADD)
        return COPSE_OK;
    COPSE_TRY(set_use(m, m->ids[w[3]].type, USE_A));
    COPSE_TRY(set_use(m, m->ids[w[4]].type, USE_B));
    COPSE_TRY(set_use(m, m->ids[w[5]].type, USE_SUM));
    return set_use(m, w[1], USE_SUM);
}

static void cooperative_put(struct module *m, uint32_t word)
{
    m->out[m->at++] = word;
}

static void put_all(struct module *m, const uint32_t *words, uint32_t count)
{
    memcpy(m->out + m->at, words, count * sizeof *words);
    m->at += count;
}

/* The constants 0 and 1, which are the layouts by rows and by columns and the uses A and B, and
   2. */
static uint32_t cooperative_constant(const struct module *m, uint32_t value)
{
    return m->bound + value;
}

static void put_type(struct module *m, const uint32_t *w)
{
    const uint8_t use = m->ids[w[1]].use;
    for (uint32_t i = 0; m->types > 0 && i < 3; i++) { /* once, before the first type */
        const uint32_t words[] = { cooperative_head(4, OP_CONSTANT), m->ids[m->scope].type,
                                   cooperative_constant(m, i), i };
        put_all(m, words, 4);
    }
    m->types = 0;
    cooperative_put(m, cooperative_head(7, KHR_TYPE));
    put_all(m, w + 1, 5);
    cooperative_put(m, cooperative_constant(m, use == USE_NONE ? USE_SUM : use));
}

/* A load or a store: the flag of columns comes after the stride, the layout before it. */
static copse_status put_access(struct module *m, const uint32_t *w, uint32_t code)
{
    const uint32_t first = code == KHR_LOAD ? 4 : 3, flag = m->ids[w[first + 1]].flag;
    if (flag == 0)
        return cooperative_bad("the order of rows and columns is no constant");
    cooperative_put(m, cooperative_head(length_of(w), code));
    put_all(m, w + 1, first - 1);
    cooperative_put(m, cooperative_constant(m, flag == OP_CONSTANT_TRUE));
    cooperative_put(m, w[first]);
    put_all(m, w + first + 2, length_of(w) - first - 2);
    return COPSE_OK;
}

static bool names_extension(const uint32_t *w, const char *name)
{
    return code_of(w) == OP_EXTENSION && (length_of(w) - 1) * sizeof *w > strlen(name) &&
           memcmp(w + 1, name, strlen(name) + 1) == 0;
}

static void put_extension(struct module *m, const char *name, size_t words)
{
    cooperative_put(m, cooperative_head(1 + (uint32_t)words, OP_EXTENSION));
    memcpy(m->out + m->at, name, words * sizeof *m->out);
    m->at += words;
}

static void put_capability(struct module *m, uint32_t capability)
{
    cooperative_put(m, cooperative_head(2, OP_CAPABILITY));
    cooperative_put(m, capability);
}

static copse_status put_changed(struct module *m, const uint32_t *w)
{
    static const char khr[28] = "SPV_KHR_cooperative_matrix", /* whole words */
        bfloat[20] = "SPV_KHR_bfloat16";
    const uint32_t code = code_of(w);
    if (names_extension(w, "SPV_NV_cooperative_matrix")) {
        put_extension(m, khr, sizeof khr / sizeof *w);
        if (m->is_bfloat)
            put_extension(m, bfloat, sizeof bfloat / sizeof *w);
    } else if (code == OP_CAPABILITY && w[1] == NV_CAPABILITY) {
        put_capability(m, KHR_CAPABILITY);
        if (m->is_bfloat) {
            put_capability(m, BFLOAT_TYPE);
            put_capability(m, BFLOAT_MATRIX);
        }
    } else if (m->is_bfloat && code == OP_TYPE_FLOAT && w[2] == 16) {
        cooperative_put(m, cooperative_head(4, OP_TYPE_FLOAT));
        put_all(m, w + 1, 2);
        cooperative_put(m, BFLOAT_ENCODING);
    } else if (code == NV_TYPE) {
        put_type(m, w);
    } else if (code == NV_LOAD || code == NV_STORE) {
        return put_access(m, w, code - NV_LOAD + KHR_LOAD);
    } else {
        put_all(m, w, length_of(w));
        if (code == NV_MUL_ADD || code == NV_LENGTH)
            m->out[m->at - length_of(w)] =
                cooperative_head(length_of(w), code - NV_LOAD + KHR_LOAD);
    }
    return COPSE_OK;
}

static copse_status cooperative_convert(struct module *m)
{
    COPSE_TRY(cooperative_visit(m, note_types));
    COPSE_TRY(cooperative_visit(m, note_uses));
    if (m->types == 0 || m->ids[m->scope].type == 0)
        return cooperative_bad("the scope of a matrix is no constant");
    /* with bf16 an instruction of two words, a capability, becomes three */
    const size_t room = m->count * (m->is_bfloat ? 3 : 1) + m->types + 3 * 4 + 1;
    m->out = copse__alloc(m->mem, room, sizeof *m->out);
    if (!m->out)
        return copse_no_memory("vulkan");
    put_all(m, m->words, HEADER);
    m->out[BOUND] = m->bound + 3;
    return cooperative_visit(m, put_changed);
}

static bool has_capability(const uint32_t *words, size_t count)
{
    for (size_t i = HEADER;
         i + 1 < count && code_of(words + i) == OP_CAPABILITY && length_of(words + i) == 2; i += 2)
        if (words[i + 1] == NV_CAPABILITY)
            return true;
    return false;
}

copse_status copse_vk_cooperative_code(struct copse_mem *mem, const uint32_t *words, size_t bytes,
                                       bool is_bfloat, uint32_t **out, size_t *out_bytes)
{
    struct module m = {
        .mem = mem, .words = words, .count = bytes / sizeof *words, .is_bfloat = is_bfloat
    };
    *out = NULL;
    if (m.count < HEADER || !has_capability(words, m.count))
        return COPSE_OK;
    m.bound = words[BOUND];
    if (m.bound > MOST_IDS || !is_valid(&m))
        return cooperative_bad("this is no valid SPIR-V");
    m.ids = copse__alloc(mem, m.bound, sizeof *m.ids);
    if (!m.ids)
        return copse_no_memory("vulkan");
    const copse_status s = cooperative_convert(&m);
    copse__free(mem, m.ids);
    if (s != COPSE_OK) {
        copse__free(mem, m.out);
        return s;
    }
    *out = m.out;
    *out_bytes = m.at * sizeof *m.out;
    return COPSE_OK;
}
