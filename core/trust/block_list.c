/* SPDX-License-Identifier: MIT */
/* Kernel block lists, in memory and in the kernel cache. A kernel that failed cases is used again when all of
   these have passed. */
#include <inttypes.h>
#include <stdio.h>

#include "core/trust/block_list.h"
#include "core/trust/stored.h"

/* Further cases are not listed; the block becomes lasting. */
#define MOST_CASES 1024u

/* A case that a kernel failed. A late kernel has failed when it is late again. */
struct failed_case {
    char kernel[48];
    uint64_t id;   /* digest of mode, op and name */
    uint32_t tier; /* the highest in which it failed */
    bool is_late;
};

struct copse_block_list {
    struct copse_block_list *next;
    struct copse_stored_id id;
    struct {
        struct copse_blocked_kernel *at;
        size_t count, room;
    } blocked;
    struct {
        struct failed_case *at;
        size_t count, room;
    } failed;
    bool is_kept; /* the cache held exactly this when it was last read: a difference now is a change by others */
};

/* ---- the list in memory ---- */

static struct copse_blocked_kernel *find(struct copse_block_list *v, const char *kernel)
{
    for (size_t i = 0; i < v->blocked.count; i++)
        if (strcmp(v->blocked.at[i].kernel, kernel) == 0)
            return &v->blocked.at[i];
    return NULL;
}

static struct failed_case *find_case(struct copse_block_list *v, const char *kernel, uint64_t id)
{
    for (size_t i = 0; i < v->failed.count; i++)
        if (v->failed.at[i].id == id && strcmp(v->failed.at[i].kernel, kernel) == 0)
            return &v->failed.at[i];
    return NULL;
}

/* `kernel` NULL = of all. */
static void remove_cases(struct copse_block_list *v, const char *kernel)
{
    size_t kept = 0;
    for (size_t i = 0; i < v->failed.count; i++)
        if (kernel && strcmp(v->failed.at[i].kernel, kernel) != 0)
            v->failed.at[kept++] = v->failed.at[i];
    v->failed.count = kept;
}

/* Whether a failed case keeps the kernel blocked. */
static bool has_cases(const struct copse_block_list *v, const char *kernel)
{
    for (size_t i = 0; i < v->failed.count; i++)
        if (!v->failed.at[i].is_late && strcmp(v->failed.at[i].kernel, kernel) == 0)
            return true;
    return false;
}

/* The newest reason replaces the old one, but a lasting block stays as it is. */
static copse_status add(struct copse_trust *t, struct copse_block_list *v, const char *kernel,
                        const char *reason, bool is_lasting)
{
    struct copse_blocked_kernel b = { .is_lasting = is_lasting };
    snprintf(b.kernel, sizeof b.kernel, "%s", kernel);
    snprintf(b.reason, sizeof b.reason, "%s", reason);
    copse__stored_flatten(b.reason);
    struct copse_blocked_kernel *old = find(v, b.kernel);
    if (is_lasting)
        remove_cases(v, b.kernel);
    if (old && old->is_lasting && !is_lasting)
        return COPSE_OK;
    if (old)
        *old = b;
    else if (!COPSE_PUSH(&t->base->mem, &v->blocked, b))
        return copse_fail(COPSE_ERR_NO_MEMORY, "blocked kernels: no memory for the list of kernels");
    return COPSE_OK;
}

static copse_status add_case(struct copse_trust *t, struct copse_block_list *v,
                             const struct failed_case *c)
{
    struct failed_case *old = find_case(v, c->kernel, c->id);
    if (old) {
        old->tier = COPSE_MAX(old->tier, c->tier);
        old->is_late = old->is_late && c->is_late;
    } else if (!COPSE_PUSH(&t->base->mem, &v->failed, *c)) {
        return copse_fail(COPSE_ERR_NO_MEMORY, "blocked kernels: no memory for the list of cases");
    }
    return COPSE_OK;
}

static void remove_kernel(struct copse_block_list *v, const char *kernel)
{
    size_t kept = 0;
    remove_cases(v, kernel);
    for (size_t i = 0; i < v->blocked.count; i++)
        if (kernel && strcmp(v->blocked.at[i].kernel, kernel) != 0)
            v->blocked.at[kept++] = v->blocked.at[i];
    v->blocked.count = kept;
}

/* ---- the stored form: a line per kernel, then a line per case ---- */

struct taken {
    struct copse_trust *trust;
    struct copse_block_list *to;
    copse_status status;
    bool is_there; /* the text is whole and this device's */
};

/* Read the kernel's name up to the next space; *line then points behind the space. */
static bool read_kernel(const struct taken *x, const char **line, char kernel[48])
{
    const char *space = strchr(*line, ' ');
    const size_t length = space ? (size_t)(space - *line) : 48;
    if (length >= 48 || !x->trust->is_kernel(*line, length))
        return false;
    memcpy(kernel, *line, length);
    kernel[length] = '\0';
    *line = space + 1;
    return true;
}

/* "KERNEL REASON" up to the end of the line; NULL when it is not one. */
static const char *read_blocked(struct taken *x, const char *line, bool is_lasting, bool is_dry)
{
    struct copse_blocked_kernel b;
    const char *end = read_kernel(x, &line, b.kernel) ? strchr(line, '\n') : NULL;
    if (!end || (size_t)(end - line) >= sizeof b.reason)
        return NULL;
    snprintf(b.reason, sizeof b.reason, "%.*s", (int)(end - line), line);
    const struct copse_blocked_kernel *old = is_dry ? NULL : find(x->to, b.kernel);
    if (!is_dry && (!old || (is_lasting && !old->is_lasting)))
        x->status = add(x->trust, x->to, b.kernel, b.reason, is_lasting);
    return end + 1;
}

/* "KERNEL TIER late|wrong DIGEST" up to the end of the line; NULL when it is not one. */
static const char *read_case(struct taken *x, const char *line, bool is_dry)
{
    static const char digits[] = "0123456789abcdef";
    struct failed_case c = { .id = 0 };
    if (!read_kernel(x, &line, c.kernel) || *line < '0' || *line > '9' || line[1] != ' ')
        return NULL;
    c.tier = (uint32_t)(*line - '0');
    line += 2;
    c.is_late = strncmp(line, "late ", 5) == 0;
    if (!c.is_late && strncmp(line, "wrong ", 6) != 0)
        return NULL;
    line += c.is_late ? 5 : 6;
    for (unsigned i = 0; i < 16; i++, line++) {
        const char *digit = *line ? strchr(digits, *line) : NULL;
        if (!digit)
            return NULL;
        c.id = c.id << 4 | (uint64_t)(digit - digits);
    }
    if (*line != '\n')
        return NULL;
    const struct copse_blocked_kernel *b = is_dry ? NULL : find(x->to, c.kernel);
    if (!is_dry && !(b && b->is_lasting))
        x->status = add_case(x->trust, x->to, &c);
    return line + 1;
}

static const char *read_line(struct taken *x, const char *line, bool is_dry)
{
    if (strncmp(line, "block ", 6) == 0)
        return read_blocked(x, line + 6, true, is_dry);
    if (strncmp(line, "fail ", 5) == 0)
        return read_blocked(x, line + 5, false, is_dry);
    return strncmp(line, "case ", 5) == 0 ? read_case(x, line + 5, is_dry) : NULL;
}

static bool read_lines(void *user, const char *lines, bool is_dry)
{
    struct taken *x = user;
    x->is_there = !is_dry;
    while (lines && *lines && x->status == COPSE_OK)
        lines = read_line(x, lines, is_dry);
    return lines != NULL;
}

static void free_lists(struct copse_trust *t, struct copse_block_list *v)
{
    copse__free(&t->base->mem, v->blocked.at);
    copse__free(&t->base->mem, v->failed.at);
}

/* The stored list replaces the list in memory, so that removals by other contexts and processes take effect.
   If the cache did not keep the list, the stored entries are added to it instead. */
static copse_status load(struct copse_trust *t, struct copse_block_list *v)
{
    struct copse_block_list stored = { .next = NULL };
    struct taken x = { .trust = t, .to = v->is_kept ? &stored : v };
    copse_status s = copse__stored_get(t->base, &v->id, read_lines, &x);
    if (s == COPSE_OK)
        s = x.status;
    if (s == COPSE_OK && x.is_there && v->is_kept) {
        const struct copse_block_list old = *v;
        v->blocked = stored.blocked;
        v->failed = stored.failed;
        stored = old;
    }
    free_lists(t, &stored);
    return s;
}

static copse_status store(struct copse_trust *t, struct copse_block_list *v)
{
    v->is_kept = false;
    const size_t room = v->blocked.count * (sizeof(struct copse_blocked_kernel) + 8) +
                        v->failed.count * (sizeof(struct failed_case) + 32) + 1;
    char *lines = copse__alloc(&t->base->mem, room, 1);
    if (!lines)
        return copse_fail(COPSE_ERR_NO_MEMORY, "blocked kernels: no memory to store the list");
    size_t size = 0;
    for (size_t i = 0; i < v->blocked.count; i++)
        size += (size_t)snprintf(lines + size, room - size, "%s %s %s\n",
                                 v->blocked.at[i].is_lasting ? "block" : "fail",
                                 v->blocked.at[i].kernel, v->blocked.at[i].reason);
    for (size_t i = 0; i < v->failed.count; i++)
        size += (size_t)snprintf(lines + size, room - size, "case %s %u %s %016" PRIx64 "\n",
                                 v->failed.at[i].kernel, (unsigned)v->failed.at[i].tier,
                                 v->failed.at[i].is_late ? "late" : "wrong", v->failed.at[i].id);
    const copse_status s = copse__stored_put(t->base, &v->id, lines, &v->is_kept);
    copse__free(&t->base->mem, lines);
    return s;
}

/* ---- lists of a context ---- */

static void free_one(struct copse_trust *t, struct copse_block_list *v)
{
    free_lists(t, v);
    copse__free(&t->base->mem, v);
}

static copse_status open_locked(struct copse_trust *t, const struct copse_device_info *info,
                                struct copse_block_list **out)
{
    struct copse_block_list *v = copse__alloc(&t->base->mem, 1, sizeof *v), *old = t->block_lists;
    *out = NULL;
    if (!v)
        return copse_fail(COPSE_ERR_NO_MEMORY, "blocked kernels: no memory for the list of a device");
    copse__stored_id("blocked", info, NULL, &v->id);
    while (old && strcmp(old->id.lines, v->id.lines) != 0)
        old = old->next;
    copse_status s = COPSE_OK;
    if (!old)
        s = load(t, v);
    if (old || s != COPSE_OK) {
        free_one(t, v);
        *out = old;
        return s;
    }
    v->is_kept = true;
    v->next = t->block_lists;
    t->block_lists = *out = v;
    return COPSE_OK;
}

copse_status copse__block_list_open(struct copse_trust *t, const struct copse_device_info *info,
                                  struct copse_block_list **out)
{
    copse__mutex_lock(&t->lock);
    const copse_status s = open_locked(t, info, out);
    copse__mutex_unlock(&t->lock);
    return s;
}

void copse__block_lists_free(struct copse_trust *t)
{
    while (t->block_lists) {
        struct copse_block_list *v = t->block_lists;
        t->block_lists = v->next;
        free_one(t, v);
    }
}

/* Lock the stored list from reading to writing, where the cache can lock. */
static void *begin_change(struct copse_trust *t, struct copse_block_list *v)
{
    copse__mutex_lock(&t->lock);
    return copse__stored_lock(t->base, &v->id);
}

static void end_change(struct copse_trust *t, void *locked)
{
    copse__stored_unlock(t->base, locked);
    copse__mutex_unlock(&t->lock);
}

/* `kernel` NULL with a NULL reason: every kernel. *was_blocked: lastingly, before. */
static copse_status change(struct copse_trust *t, struct copse_block_list *v, const char *kernel,
                           const char *reason, bool *was_blocked)
{
    copse_status s;
    void *locked = begin_change(t, v);
    COPSE_TRY_OR(done, s, load(t, v));
    const struct copse_blocked_kernel *old = kernel ? find(v, kernel) : NULL;
    *was_blocked = old && old->is_lasting;
    if (reason)
        COPSE_TRY_OR(done, s, add(t, v, kernel, reason, true));
    else
        remove_kernel(v, kernel);
    s = store(t, v);
done:
    end_change(t, locked);
    return s;
}

static copse_status check_kernel(const struct copse_trust *t, const char *kernel)
{
    return t->is_kernel(kernel, strlen(kernel))
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT, "blocked kernels: there is no kernel '%s'", kernel);
}

static void log_blocked(struct copse_trust *t, const char *id, const char *kernel, const char *reason)
{
    copse__log(&t->base->log, COPSE_LOG_WARN, "blocked kernels: %s is not used on %s from now on: %s",
               kernel, id, reason);
}

copse_status copse__block_list_block(struct copse_trust *t, struct copse_block_list *v, const char *id,
                                     const char *kernel, const char *reason)
{
    bool was_blocked;
    COPSE_TRY(check_kernel(t, kernel));
    COPSE_TRY(change(t, v, kernel, reason, &was_blocked));
    if (!was_blocked) /* threads that test specialisations of a kernel at the same time all come here */
        log_blocked(t, id, kernel, reason);
    return COPSE_OK;
}

/* ---- cases that failed, and passed ---- */

static uint64_t case_id(const struct copse_kernel_case *c)
{
    const char *const parts[] = { c->mode, "/", c->op, "/", c->name };
    uint64_t id = COPSE_HASH_START;
    for (size_t i = 0; i < COPSE_COUNT(parts); i++)
        id = copse__hash(id, parts[i], strlen(parts[i]));
    return id;
}

/* *is_late: it was the first time, and nothing is blocked. Locked. */
static copse_status note_failure(struct copse_trust *t, struct copse_block_list *v,
                                 const struct copse_kernel_case *c, const char *reason,
                                 bool *is_late)
{
    struct failed_case f = { .id = case_id(c), .tier = c->tier };
    COPSE_TRY(load(t, v));
    const struct copse_blocked_kernel *b = find(v, c->kernel);
    snprintf(f.kernel, sizeof f.kernel, "%s", c->kernel);
    f.is_late = *is_late = *is_late && !find_case(v, c->kernel, f.id);
    if (b && b->is_lasting)
        return COPSE_OK;
    if (v->failed.count >= MOST_CASES && !find_case(v, c->kernel, f.id)) {
        if (!f.is_late)
            COPSE_TRY(add(t, v, c->kernel, reason, true));
        return store(t, v);
    }
    COPSE_TRY(add_case(t, v, &f));
    if (!f.is_late)
        COPSE_TRY(add(t, v, c->kernel, reason, false));
    return store(t, v);
}

copse_status copse__block_list_fail_case(struct copse_trust *t, struct copse_block_list *v, const char *id,
                                         const struct copse_kernel_case *c, bool is_late, const char *text)
{
    char reason[sizeof v->blocked.at->reason];
    COPSE_TRY(check_kernel(t, c->kernel));
    snprintf(reason, sizeof reason, "%s/%s/%s: %s", c->mode, c->op, c->name, text);
    void *locked = begin_change(t, v);
    const copse_status s = note_failure(t, v, c, reason, &is_late);
    end_change(t, locked);
    COPSE_TRY(s);
    if (!is_late)
        log_blocked(t, id, c->kernel, reason);
    else
        copse__log(&t->base->log, COPSE_LOG_WARN,
                   "blocked kernels: %s was late on %s, and is not used there when that happens again: %s",
                   c->kernel, id, reason);
    return COPSE_OK;
}

bool copse__block_list_has_failed(struct copse_trust *t, struct copse_block_list *v,
                                  const struct copse_kernel_case *c, uint64_t *id)
{
    *id = case_id(c);
    copse__mutex_lock(&t->lock);
    const struct failed_case *f = find_case(v, c->kernel, *id);
    const bool is_covered = f && c->tier >= f->tier;
    copse__mutex_unlock(&t->lock);
    return is_covered;
}

/* Locked. *is_free: it was the last case that kept the kernel blocked. */
static copse_status note_pass(struct copse_trust *t, struct copse_block_list *v, const char *kernel,
                              uint64_t id, uint32_t tier, bool *is_free)
{
    *is_free = false;
    COPSE_TRY(load(t, v));
    struct failed_case *f = find_case(v, kernel, id);
    if (!f || f->tier > tier)
        return COPSE_OK;
    *f = v->failed.at[--v->failed.count];
    struct copse_blocked_kernel *b = find(v, kernel);
    *is_free = b && !has_cases(v, kernel);
    if (*is_free) /* cases that were late once stay noted */
        *b = v->blocked.at[--v->blocked.count];
    return store(t, v);
}

copse_status copse__block_list_pass_case(struct copse_trust *t, struct copse_block_list *v, const char *id,
                                         const char *kernel, uint64_t failed, uint32_t tier)
{
    bool is_free;
    void *locked = begin_change(t, v);
    const copse_status s = note_pass(t, v, kernel, failed, tier, &is_free);
    end_change(t, locked);
    if (s == COPSE_OK && is_free)
        copse__log(&t->base->log, COPSE_LOG_WARN,
                   "blocked kernels: %s is used on %s again: every case that it had failed passes", kernel, id);
    return s;
}

/* ---- reading ---- */

bool copse__block_list_has(struct copse_trust *t, struct copse_block_list *v, const char *kernel, char *reason,
                           size_t room)
{
    copse__mutex_lock(&t->lock);
    const struct copse_blocked_kernel *b = find(v, kernel);
    if (b)
        snprintf(reason, room, "%s", b->reason);
    copse__mutex_unlock(&t->lock);
    return b != NULL;
}

void copse__block_list_get(struct copse_trust *t, const struct copse_block_list *v,
                           const struct copse_blocked_kernel **list, size_t *count)
{
    copse__mutex_lock(&t->lock);
    *list = v->blocked.at;
    *count = v->blocked.count;
    copse__mutex_unlock(&t->lock);
}

copse_status copse__block_list_unblock(struct copse_trust *t, struct copse_block_list *v, const char *kernel)
{
    bool was_blocked;
    if (kernel)
        COPSE_TRY(check_kernel(t, kernel));
    return change(t, v, kernel, NULL, &was_blocked);
}
