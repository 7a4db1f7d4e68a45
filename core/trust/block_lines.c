/* SPDX-License-Identifier: MIT */
/* The stored form of a block list: a line for each kernel, then one for each failed case, the
   faults that came and went, and each mode that was run. */
#include <inttypes.h>
#include <stdio.h>

#include "core/trust/block_entries.h"

static const char *const failures[] = {
    [COPSE_FAILED_LATE] = "late", [COPSE_FAILED] = "wrong", [COPSE_FAILED_SHAKY] = "shaky"
};

struct taken {
    struct copse_trust *trust;
    struct copse_block_list *to;
    copse_status status;
    bool is_there; /* the text is whole and this device's */
};

/* ---- words of a line ---- */

/* The next word of fewer than `room` bytes; *line then points behind the space. */
static bool read_word(const char **line, char *word, size_t room)
{
    const size_t length = strcspn(*line, " \n");
    if (length == 0 || length >= room || (*line)[length] != ' ')
        return false;
    memcpy(word, *line, length);
    word[length] = '\0';
    *line += length + 1;
    return true;
}

static bool read_kernel(const struct taken *x, const char **line, char kernel[48])
{
    return read_word(line, kernel, 48) && x->trust->is_kernel(kernel, strlen(kernel));
}

/* A number of at most six digits, up to a space or the end of the line. */
static bool read_number(const char **line, uint32_t *out)
{
    const size_t length = strspn(*line, "0123456789");
    if (length == 0 || length > 6)
        return false;
    *out = 0;
    for (size_t i = 0; i < length; i++)
        *out = 10 * *out + (uint32_t)((*line)[i] - '0');
    *line += length;
    *line += **line == ' ';
    return true;
}

/* The rest of the line, of fewer than `room` bytes; NULL when it is longer, else the next line. */
static const char *read_rest(const char *line, char *out, size_t room)
{
    const char *end = strchr(line, '\n');
    if (!end || (size_t)(end - line) >= room)
        return NULL;
    memcpy(out, line, (size_t)(end - line));
    out[end - line] = '\0';
    return end + 1;
}

/* ---- lines: each function returns the next line, or NULL when the line is damaged ---- */

/* "block KERNEL REASON", "fail KERNEL REASON", "test KERNEL PASSES REASON" */
static const char *read_blocked(struct taken *x, const char *line,
                                const struct copse_blocked_kernel *kind, bool is_dry)
{
    struct copse_blocked_kernel b = *kind;
    if (!read_kernel(x, &line, b.kernel) || (b.by_self_test && !read_number(&line, &b.passes)))
        return NULL;
    line = read_rest(line, b.reason, sizeof b.reason);
    const struct copse_blocked_kernel *old =
        line && !is_dry ? copse__blocked_find(x->to, b.kernel) : NULL;
    if (line && !is_dry && (!old || (b.is_lasting && !old->is_lasting)))
        x->status = copse__blocked_add(&x->trust->base->mem, x->to, &b);
    return line;
}

/* "case KERNEL TIER late|wrong|shaky DIGEST [PASSES]" */
static const char *read_case(struct taken *x, const char *line, bool is_dry)
{
    static const char digits[] = "0123456789abcdef";
    struct copse_failed_case c = { .id = 0 };
    char how[8];
    unsigned i = 0;
    if (!read_kernel(x, &line, c.kernel) || !read_number(&line, &c.tier) ||
        !read_word(&line, how, sizeof how))
        return NULL;
    while (i < COPSE_COUNT(failures) && strcmp(failures[i], how) != 0)
        i++;
    if (i == COPSE_COUNT(failures))
        return NULL;
    c.how = (enum copse_failure)i;
    for (i = 0; i < 16; i++, line++) {
        const char *digit = *line ? strchr(digits, *line) : NULL;
        if (!digit)
            return NULL;
        c.id = c.id << 4 | (uint64_t)(digit - digits);
    }
    if (*line == ' ' && (line++, !read_number(&line, &c.passes)))
        return NULL;
    if (*line != '\n')
        return NULL;
    const struct copse_blocked_kernel *b = is_dry ? NULL : copse__blocked_find(x->to, c.kernel);
    if (!is_dry && !(b && b->is_lasting))
        x->status = copse__failed_add(&x->trust->base->mem, x->to, &c);
    return line + 1;
}

/* "flips COUNT REASON" */
static const char *read_flips(struct taken *x, const char *line, bool is_dry)
{
    char reason[sizeof x->to->flip_reason];
    uint32_t flips;
    if (!read_number(&line, &flips))
        return NULL;
    line = read_rest(line, reason, sizeof reason);
    if (line && !is_dry && flips > x->to->flips) {
        x->to->flips = flips;
        memcpy(x->to->flip_reason, reason, sizeof reason);
    }
    return line;
}

/* "mode NAME TIER whole|part DATE", "some OPS NAME TIER whole|part DATE" */
static const char *read_mode(struct taken *x, const char *line, bool is_of_some, bool is_dry)
{
    struct copse_run_mode m = { .ops = "" };
    char extent[8];
    if ((is_of_some && !read_word(&line, m.ops, sizeof m.ops)) ||
        !read_word(&line, m.name, sizeof m.name) || !read_number(&line, &m.tier) ||
        !read_word(&line, extent, sizeof extent))
        return NULL;
    m.is_whole = strcmp(extent, "whole") == 0;
    line =
        m.is_whole || strcmp(extent, "part") == 0 ? read_rest(line, m.date, sizeof m.date) : NULL;
    if (line && !is_dry)
        copse__mode_add(x->to, &m);
    return line;
}

static const char *read_line(struct taken *x, const char *line, bool is_dry)
{
    static const struct copse_blocked_kernel lasting = { .is_lasting = true },
                                             tested = { .by_self_test = true }, failed;
    char word[8];
    if (!read_word(&line, word, sizeof word))
        return NULL;
    return strcmp(word, "block") == 0   ? read_blocked(x, line, &lasting, is_dry)
           : strcmp(word, "test") == 0  ? read_blocked(x, line, &tested, is_dry)
           : strcmp(word, "fail") == 0  ? read_blocked(x, line, &failed, is_dry)
           : strcmp(word, "case") == 0  ? read_case(x, line, is_dry)
           : strcmp(word, "flips") == 0 ? read_flips(x, line, is_dry)
           : strcmp(word, "mode") == 0  ? read_mode(x, line, false, is_dry)
           : strcmp(word, "some") == 0  ? read_mode(x, line, true, is_dry)
                                        : NULL;
}

static bool read_lines(void *user, const char *lines, bool is_dry)
{
    struct taken *x = user;
    x->is_there = !is_dry;
    while (lines && *lines && x->status == COPSE_OK)
        lines = read_line(x, lines, is_dry);
    return lines != NULL;
}

/* ---- reading and writing ---- */

copse_status copse__block_list_load(struct copse_trust *t, struct copse_block_list *v)
{
    struct copse_block_list stored = { .next = NULL };
    struct taken x = { .trust = t, .to = v->is_kept ? &stored : v };
    copse_status s = copse__stored_get(t->base, &v->id, read_lines, &x);
    if (s == COPSE_OK)
        s = x.status;
    if (s == COPSE_OK && x.is_there && v->is_kept) {
        const struct copse_block_list old = *v;
        *v = stored;
        v->next = old.next;
        v->id = old.id;
        v->is_kept = old.is_kept;
        stored = old;
    }
    copse__blocked_count(v);
    copse__entries_free(&t->base->mem, &stored);
    return s;
}

struct writer {
    char *lines;
    size_t at, room;
};

static void block_lines_put(struct writer *w, const char *format, ...) COPSE_PRINTF(2, 3);
static void block_lines_put(struct writer *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    w->at += (size_t)vsnprintf(w->lines + w->at, w->room - w->at, format, args);
    va_end(args);
}

static void put_all(struct writer *w, const struct copse_block_list *v)
{
    for (size_t i = 0; i < v->blocked.count; i++) {
        const struct copse_blocked_kernel *b = &v->blocked.at[i];
        if (b->by_self_test)
            block_lines_put(w, "test %s %u %s\n", b->kernel, (unsigned)b->passes, b->reason);
        else
            block_lines_put(w, "%s %s %s\n", b->is_lasting ? "block" : "fail", b->kernel,
                            b->reason);
    }
    for (size_t i = 0; i < v->failed.count; i++) {
        const struct copse_failed_case *c = &v->failed.at[i];
        block_lines_put(w, "case %s %u %s %016" PRIx64 " %u\n", c->kernel, (unsigned)c->tier,
                        failures[c->how], c->id, (unsigned)c->passes);
    }
    if (v->flips > 0)
        block_lines_put(w, "flips %u %s\n", (unsigned)v->flips, v->flip_reason);
    for (size_t i = 0; i < v->mode_count; i++) {
        const struct copse_run_mode *m = &v->modes[i];
        block_lines_put(w, "%s%s %s %u %s %s\n", m->ops[0] ? "some " : "mode", m->ops, m->name,
                        (unsigned)m->tier, m->is_whole ? "whole" : "part", m->date);
    }
}

copse_status copse__block_list_store(struct copse_trust *t, struct copse_block_list *v)
{
    struct writer w = { .room =
                            (v->blocked.count + 1) * (sizeof(struct copse_blocked_kernel) + 32) +
                            v->failed.count * (sizeof(struct copse_failed_case) + 64) +
                            v->mode_count * (sizeof(struct copse_run_mode) + 32) + 1 };
    v->is_kept = false;
    copse__blocked_count(v);
    w.lines = copse__alloc(&t->base->mem, w.room, 1);
    if (!w.lines)
        return copse_fail(COPSE_ERR_NO_MEMORY, "blocked kernels: no memory to store the list");
    put_all(&w, v);
    const copse_status s = copse__stored_put(t->base, &v->id, w.lines, &v->is_kept);
    copse__free(&t->base->mem, w.lines);
    return s;
}
