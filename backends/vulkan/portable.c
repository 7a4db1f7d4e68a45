/* SPDX-License-Identifier: MIT */
/* SPIR-V of devices whose bits are portable (device.h): a fused product and sum, which drivers may
   round once or twice, becomes a product and a sum; every arithmetic instruction is NoContraction;
   and the module asks for what the device can keep: subnormal numbers, the signs of zeros, and
   rounding to even. */
#include "vk_internal.h"

#define HEADER         5u /* words; the fourth one is the bound of ids */
#define BOUND          3u
#define MOST_IDS       (1u << 22)
#define NO_CONTRACTION 42u
#define GLSL_FMA       50u
enum {
    OP_EXTENSION = 10,
    OP_EXT_INST_IMPORT = 11,
    OP_EXT_INST = 12,
    OP_ENTRY_POINT = 15,
    OP_EXECUTION_MODE = 16,
    OP_CAPABILITY = 17,
    OP_TYPE_FIRST = 19,
    OP_CONSTANT_LAST = 52,
    OP_VARIABLE = 59,
    OP_DECORATE_FIRST = 71,
    OP_DECORATE_LAST = 75,
    OP_F_ADD = 129,
    OP_F_SUB = 131,
    OP_F_MUL = 133,
    OP_F_DIV = 136,
    OP_F_REM = 140,
    OP_F_MOD = 141,
    OP_VECTOR_TIMES_SCALAR = 142,
    OP_DOT = 148,
};

/* VK_KHR_shader_float_controls, part of Vulkan 1.2: capability and execution mode of each bit of
   enum copse_vk_float_mode. */
static const struct {
    uint32_t capability, mode;
} float_modes[] = { { 4464, 4459 }, { 4466, 4461 }, { 4467, 4462 } };
#define MODE_WORDS (3 * (2 + 4) + 7) /* of all of them */

struct portable {
    uint8_t modes;
    const uint32_t *words;
    size_t count;
    uint32_t set;    /* the id of GLSL.std.450; 0: none */
    uint8_t *marked; /* by id: the instruction has the decoration */
    uint32_t bound;
    uint32_t *out;
    size_t at;
    bool is_decorated, is_extended;
};

static uint32_t portable_code(const uint32_t *w)
{
    return w[0] & 0xffffu;
}

static uint32_t portable_length(const uint32_t *w)
{
    return w[0] >> 16;
}

static bool is_arithmetic(uint32_t code)
{
    return code == OP_F_ADD || code == OP_F_SUB || code == OP_F_MUL || code == OP_F_DIV ||
           code == OP_F_REM || code == OP_F_MOD || code == OP_VECTOR_TIMES_SCALAR || code == OP_DOT;
}

static bool is_fma(const struct portable *p, const uint32_t *w)
{
    return p->set > 0 && portable_code(w) == OP_EXT_INST && portable_length(w) == 8 &&
           w[3] == p->set && w[4] == GLSL_FMA;
}

/* Whether decorations are before this instruction in every module. */
static bool is_after_decorations(uint32_t code)
{
    return (code >= OP_TYPE_FIRST && code <= OP_CONSTANT_LAST) || code == OP_VARIABLE ||
           code == 1 /* OpUndef */;
}

/* Check the form, and note what decorations and imports say; false: it is no module. */
static bool portable_scan(struct portable *p)
{
    static const char name[] = "GLSL.std.450";
    const uint32_t *end = p->words + p->count;
    uint32_t entries = 0;
    for (const uint32_t *w = p->words + HEADER; w < end; w += portable_length(w)) {
        const uint32_t length = portable_length(w), code = portable_code(w);
        if (length == 0 || length > (size_t)(end - w) || (code == OP_ENTRY_POINT && length < 4) ||
            (is_arithmetic(code) && (length < 4 || w[2] >= p->bound)))
            return false;
        if (code == OP_EXT_INST_IMPORT && length > 2 && (length - 2) * sizeof *w >= sizeof name &&
            memcmp(w + 2, name, sizeof name) == 0)
            p->set = w[1];
        if (code == OP_DECORATE_FIRST && length == 3 && w[1] < p->bound && w[2] == NO_CONTRACTION)
            p->marked[w[1]] = 1;
        entries += code == OP_ENTRY_POINT;
    }
    return entries <= 1;
}

/* Most words that are added: a decoration has 3; a fused instruction gets two, and 2 words. */
static size_t portable_room(const struct portable *p)
{
    const uint32_t *end = p->words + p->count;
    size_t room = MODE_WORDS;
    for (const uint32_t *w = p->words + HEADER; w < end; w += portable_length(w))
        room += is_fma(p, w) ? 8 : is_arithmetic(portable_code(w)) ? 3 : 0;
    return room;
}

static void portable_put(struct portable *p, const uint32_t *words, size_t count)
{
    memcpy(p->out + p->at, words, count * sizeof *words);
    p->at += count;
}

static void put_decoration(struct portable *p, uint32_t id)
{
    const uint32_t words[] = { 3u << 16 | OP_DECORATE_FIRST, id, NO_CONTRACTION };
    portable_put(p, words, 3);
}

/* Of all arithmetic instructions that have none; product n of a fused one has id bound + n. */
static void put_decorations(struct portable *p)
{
    const uint32_t *end = p->words + p->count;
    uint32_t next = p->bound;
    for (const uint32_t *w = p->words + HEADER; w < end; w += portable_length(w)) {
        const bool fused = is_fma(p, w);
        if ((is_arithmetic(portable_code(w)) && !p->marked[w[2]]) || fused)
            put_decoration(p, w[2]);
        if (fused)
            put_decoration(p, next++);
    }
}

static void put_capabilities(struct portable *p)
{
    for (uint32_t i = 0; i < COPSE_COUNT(float_modes); i++) {
        const uint32_t words[] = { 2u << 16 | OP_CAPABILITY, float_modes[i].capability };
        if (p->modes >> i & 1)
            portable_put(p, words, 2);
    }
}

/* After the capabilities. */
static void put_extension(struct portable *p)
{
    static const char name[24] = "SPV_KHR_float_controls"; /* whole words */
    uint32_t words[1 + sizeof name / sizeof(uint32_t)] = { 0 };
    words[0] = (uint32_t)COPSE_COUNT(words) << 16 | OP_EXTENSION;
    memcpy(words + 1, name, sizeof name);
    if (p->modes)
        portable_put(p, words, COPSE_COUNT(words));
    p->is_extended = true;
}

static void put_modes(struct portable *p, uint32_t entry)
{
    for (uint32_t i = 0; i < COPSE_COUNT(float_modes); i++) {
        const uint32_t words[] = { 4u << 16 | OP_EXECUTION_MODE, entry, float_modes[i].mode, 32 };
        if (p->modes >> i & 1)
            portable_put(p, words, 4);
    }
}

static uint32_t put_module(struct portable *p)
{
    const uint32_t *end = p->words + p->count;
    uint32_t next = p->bound;
    portable_put(p, p->words, HEADER);
    put_capabilities(p);
    for (const uint32_t *w = p->words + HEADER; w < end; w += portable_length(w)) {
        const uint32_t code = portable_code(w);
        if (!p->is_extended && code != OP_CAPABILITY)
            put_extension(p);
        if (!p->is_decorated && (is_after_decorations(code) ||
                                 (code >= OP_DECORATE_FIRST && code <= OP_DECORATE_LAST))) {
            put_decorations(p);
            p->is_decorated = true;
        }
        if (!is_fma(p, w)) {
            portable_put(p, w, portable_length(w));
            if (code == OP_ENTRY_POINT) /* there is one */
                put_modes(p, w[2]);
            continue;
        }
        const uint32_t product[] = { 5u << 16 | OP_F_MUL, w[1], next, w[5], w[6] };
        const uint32_t sum[] = { 5u << 16 | OP_F_ADD, w[1], w[2], next++, w[7] };
        portable_put(p, product, 5);
        portable_put(p, sum, 5);
    }
    return next;
}

copse_status copse_vk_portable_code(struct copse_mem *mem, const uint32_t *words, size_t bytes,
                                    uint8_t modes, uint32_t **out, size_t *out_bytes)
{
    struct portable p = { .words = words, .count = bytes / sizeof *words, .modes = modes };
    *out = NULL;
    if (p.count <= HEADER || words[BOUND] > MOST_IDS)
        return copse_fail(COPSE_ERR_COMPILE, "vulkan: portable bits: this is no SPIR-V");
    p.bound = words[BOUND];
    p.marked = copse__alloc(mem, p.bound, sizeof *p.marked);
    if (!p.marked)
        return copse_no_memory("SPIR-V");
    const bool is_good = portable_scan(&p);
    if (is_good)
        p.out = copse__alloc(mem, p.count + portable_room(&p), sizeof *p.out);
    if (p.out) {
        p.out[BOUND] = put_module(&p);
        *out = p.out;
        *out_bytes = p.at * sizeof *p.out;
    }
    copse__free(mem, p.marked);
    return !is_good ? copse_fail(COPSE_ERR_COMPILE, "vulkan: portable bits: this is no SPIR-V")
           : p.out  ? COPSE_OK
                    : copse_no_memory("SPIR-V");
}
