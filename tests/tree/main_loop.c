/* SPDX-License-Identifier: MIT */
#include "main_loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_INSTRUCTIONS = 65536, MOST_LABELS = 4096, MOST_LOOPS = 1024 };

struct code {
    const char *at[MOST_INSTRUCTIONS]; /* each instruction's first character */
    unsigned count;
    int labels[MOST_LABELS]; /* the instruction after label BB<n>, -1 = none */
};

/* Instructions first .. last; the last one jumps to the first. */
struct loop {
    unsigned first, last, fused, words_read;
};

static bool starts_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The first place of `what` in the line, or NULL. */
static const char *find_in_line(const char *line, const char *what)
{
    for (; *line && *line != '\n'; line++)
        if (starts_with(line, what))
            return line;
    return NULL;
}

static void read_code(const char *assembly, struct code *c)
{
    c->count = 0;
    for (int i = 0; i < MOST_LABELS; i++)
        c->labels[i] = -1;
    for (const char *line = assembly; line; line = strchr(line, '\n')) {
        line += strspn(line, "\n");
        const char *text = line + strspn(line, " \t");
        const long label = starts_with(text, "BB") ? strtol(text + 2, NULL, 10) : -1;
        if (label >= 0 && label < MOST_LABELS)
            c->labels[label] = (int)c->count;
        else if (text > line && *text >= 'a' && *text <= 'z' && c->count < MOST_INSTRUCTIONS)
            c->at[c->count++] = text;
    }
}

/* Words that the instruction loads from memory: not from the memory of a group, and not through the
   cache of constants. */
static unsigned words_loaded(const char *text)
{
    const size_t name = strcspn(text, " \n");
    if (!starts_with(text, "buffer_load_") && !starts_with(text, "global_load_") &&
        !starts_with(text, "flat_load_"))
        return 0;
    static const struct {
        const char *end;
        unsigned words;
    } sizes[] = {
        { "x4", 4 }, { "b128", 4 }, { "x3", 3 }, { "b96", 3 }, { "x2", 2 }, { "b64", 2 }
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const size_t length = strlen(sizes[i].end);
        if (name > length && strncmp(text + name - length, sizes[i].end, length) == 0)
            return sizes[i].words;
    }
    return 1;
}

static bool is_fused(const char *text)
{
    static const char *const names[] = { "v_fma_f32",       "v_fmac_f32",       "v_mac_f32",
                                         "v_fmamk_f32",     "v_fmaak_f32",      "v_mad_f32",
                                         "v_dual_fmac_f32", "v_dual_fmamk_f32", "v_dual_fmaak_f32",
                                         "v_pk_fma_f32" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (starts_with(text, names[i]))
            return true;
    return false;
}

/* The second half of an instruction with two, or NULL: "v_dual_fmac_f32 ... :: v_dual_mul_f32 ...". */
static const char *second_half(const char *text)
{
    const char *half = find_in_line(text, ":: ");
    return half ? half + 3 : NULL;
}

static unsigned count_fused(const char *text)
{
    const char *other = second_half(text);
    return is_fused(text) + (other && is_fused(other)) + starts_with(text, "v_pk_fma_f32");
}

/* How many loads may be under way after the instruction; UINT_MAX = it does not wait for loads. */
static unsigned loads_left(const char *text)
{
    if (starts_with(text, "s_wait_loadcnt_dscnt"))
        return (unsigned)strtoul(text + strlen("s_wait_loadcnt_dscnt"), NULL, 16) >> 8 & 63u;
    if (starts_with(text, "s_wait_loadcnt"))
        return (unsigned)strtoul(text + strlen("s_wait_loadcnt"), NULL, 16);
    if (!starts_with(text, "s_waitcnt"))
        return (unsigned)-1;
    const char *at = find_in_line(text, "vmcnt(");
    return at ? (unsigned)strtoul(at + strlen("vmcnt("), NULL, 10) : (unsigned)-1;
}

/* The loop is run twice, because a load may wait in the next round. */
static unsigned words_under_way(const struct code *c, const struct loop *l)
{
    enum { MOST = 64 }; /* of the counter */
    unsigned queue[MOST], count = 0, words = 0, most = 0;
    for (int round = 0; round < 2; round++)
        for (unsigned i = l->first; i <= l->last; i++) {
            const unsigned loaded = words_loaded(c->at[i]), left = loads_left(c->at[i]);
            if (loaded > 0) {
                if (count == MOST) {
                    words -= queue[0];
                    memmove(queue, queue + 1, sizeof queue[0] * --count);
                }
                queue[count++] = loaded;
                words += loaded;
                most = words > most ? words : most;
            }
            while (count > left) {
                words -= queue[0];
                memmove(queue, queue + 1, sizeof queue[0] * --count);
            }
        }
    return most;
}

/* The loops of the code that are of interest, one for each first instruction. */
static unsigned find_loops(const struct code *c, bool multiplies, struct loop *loops)
{
    unsigned count = 0, kept = 0;
    for (unsigned i = 0; i < c->count; i++) {
        if (!starts_with(c->at[i], "s_branch") && !starts_with(c->at[i], "s_cbranch"))
            continue;
        const char *to = find_in_line(c->at[i], "BB");
        const long label = to ? strtol(to + 2, NULL, 10) : -1;
        if (label < 0 || label >= MOST_LABELS || c->labels[label] < 0 ||
            (unsigned)c->labels[label] > i)
            continue;
        const unsigned first = (unsigned)c->labels[label];
        unsigned at = 0;
        while (at < count && loops[at].first != first)
            at++;
        if (at == MOST_LOOPS)
            continue;
        loops[at] = (struct loop){ first, i, 0, 0 };
        count += at == count;
    }
    for (unsigned i = 0; i < count; i++) {
        struct loop l = loops[i];
        for (unsigned at = l.first; at <= l.last; at++) {
            l.fused += count_fused(c->at[at]);
            l.words_read += words_loaded(c->at[at]);
        }
        if (l.words_read > 0 && (l.fused > 0 || !multiplies))
            loops[kept++] = l;
    }
    return kept;
}

/* All instructions, as of a loop with one round. */
static struct loop whole_code(const struct code *c)
{
    struct loop l = { .first = 0, .last = c->count - 1 };
    for (unsigned i = 0; i < c->count; i++) {
        l.fused += count_fused(c->at[i]);
        l.words_read += words_loaded(c->at[i]);
    }
    return l;
}

static bool contains_another(const struct loop *loops, unsigned count, unsigned which)
{
    for (unsigned i = 0; i < count; i++)
        if (i != which && loops[i].first >= loops[which].first &&
            loops[i].last <= loops[which].last)
            return true;
    return false;
}

void find_main_loop(const char *assembly, bool multiplies, struct main_loop *out)
{
    static struct code code;
    static struct loop loops[MOST_LOOPS];
    const struct loop *best = NULL;
    read_code(assembly, &code);
    const unsigned count = find_loops(&code, multiplies, loops);
    for (unsigned i = 0; i < count; i++)
        if (!contains_another(loops, count, i) &&
            (!best || loops[i].fused > best->fused ||
             (loops[i].fused == best->fused && loops[i].words_read > best->words_read)))
            best = &loops[i];
    *out = (struct main_loop){ 0, 0, 0 };
    const struct loop whole = whole_code(&code);
    if (count == 0 && whole.words_read > 0 && (whole.fused > 0 || !multiplies))
        best = &whole;
    if (!best)
        return;
    for (unsigned i = best->first; i <= best->last; i++)
        out->instructions += 1 + (second_half(code.at[i]) != NULL);
    out->fused = best->fused;
    out->words = words_under_way(&code, best);
}

unsigned fused_share(const struct main_loop *loop)
{
    return loop->instructions ? 100 * loop->fused / loop->instructions : 0;
}

bool main_loop_is_found(void)
{
    static const struct {
        const char *assembly;
        bool multiplies;
        struct main_loop want;
    } rows[] = {
        { "\tv_fma_f32 v0, v1, v2, v0\n\ts_endpgm\n", true, { 0, 0, 0 } },
        /* A load, a wait, a multiply-add: one word; the loop around it does not count. */
        { "BB1:\n\ts_mov_b32 s0, 0\nBB2:\n\tbuffer_load_dword v1, v0, s[4:7], 0 offen ; e0\n"
          "\ts_waitcnt vmcnt(0)\n\tv_fmac_f32_e32 v2, v1, v1\n\ts_cbranch_scc1 "
          "BB2\n\ts_cbranch_scc0 BB1\n",
          true,
          { 4, 1, 1 } },
        /* Loads of the round before are under way; one reads four words. */
        { "BB7:\n\ts_waitcnt vmcnt(1) lgkmcnt(0)\n\tv_fma_f32 v2, v1, v1, v2\n"
          "\tglobal_load_b128 v[4:7], v0, s[2:3]\n\tbuffer_load_b32 v1, v0, s[4:7], 0 offen\n"
          "\ts_waitcnt lgkmcnt(0)\n\ts_branch BB7\n",
          true,
          { 6, 1, 6 } },
        /* Two multiply-adds in an instruction; gfx12 waits with other words. */
        { "BB3:\n\tbuffer_load_b64 v[4:5], v0, s[4:7], null offen\n\ts_wait_loadcnt 0x0\n"
          "\tv_dual_fmac_f32 v1, v2, v3 :: v_dual_fmac_f32 v4, v5, v6\n\ts_cbranch_vccnz BB3\n",
          true,
          { 5, 2, 2 } },
        { "BB3:\n\tbuffer_load_b32 v4, v0, s[4:7], null offen\n\tbuffer_load_b32 v5, v0, s[4:7], "
          "null\n"
          "\ts_wait_loadcnt_dscnt 0x100\n\tbuffer_load_b32 v5, v0, s[4:7], null\n\ts_branch BB3\n",
          false,
          { 5, 0, 4 } },
        /* No loop: all of the code. */
        { "\tbuffer_load_b128 v[4:7], v0, s[4:7], null offen\n\tbuffer_load_b32 v8, v0, s[4:7], "
          "null\n\ts_waitcnt vmcnt(0)\n\tv_add_f32 v4, v4, v8\n\ts_endpgm\n",
          false,
          { 5, 0, 5 } },
        /* No multiply-add where one must be. */
        { "BB3:\n\tbuffer_load_b32 v4, v0, s[4:7], null offen\n\ts_branch BB3\n",
          true,
          { 0, 0, 0 } },
    };
    bool is_right = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct main_loop got;
        const struct main_loop *want = &rows[i].want;
        find_main_loop(rows[i].assembly, rows[i].multiplies, &got);
        if (got.instructions == want->instructions && got.fused == want->fused &&
            got.words == want->words)
            continue;
        printf("FAILED: row %d: %u instructions, %u fused, %u words; expected %u, %u, %u\n", (int)i,
               got.instructions, got.fused, got.words, want->instructions, want->fused,
               want->words);
        is_right = false;
    }
    return is_right;
}
