/* SPDX-License-Identifier: MIT */
/* Kernels that are not used on a device because their results were wrong there, and the cases that they
   failed: kept per device, driver and library version, in the context and, as a small text, in the kernel
   cache. A kernel that failed cases is used again when all of these have passed. */
#include <inttypes.h>
#include <stdio.h>

#include "copse/device/conformance.h"
#include "core/device/stored.h"

/* What makes the list too long makes the block lasting. */
#define MOST_CASES 1024u

/* A case that a kernel failed. One that was late counts as failed when it is late again. */
struct failed_case {
    char kernel[48];
    uint64_t id;   /* digest of mode, op and name */
    uint32_t tier; /* the highest in which it failed */
    bool is_late;
};

struct copse_verdicts {
    struct copse_verdicts *next;
    struct copse_stored_id id;
    struct {
        struct copse_blocked_kernel *at;
        size_t count, room;
    } blocked;
    struct {
        struct failed_case *at;
        size_t count, room;
    } failed;
    bool is_kept; /* the cache had just this when it was last looked at: what differs now is others' change */
};

static bool is_kernel(const char *name, size_t length)
{
    if (length == sizeof COPSE_LIBRARY_PRODUCT - 1 &&
        memcmp(name, COPSE_LIBRARY_PRODUCT, length) == 0)
        return true;
    for (size_t i = 0; i < copse_kernel_count; i++)
        if (strlen(copse_kernel_table[i].name) == length &&
            memcmp(copse_kernel_table[i].name, name, length) == 0)
            return true;
    return false;
}

/* ---- the list in memory ---- */

static struct copse_blocked_kernel *find(struct copse_verdicts *v, const char *kernel)
{
    for (size_t i = 0; i < v->blocked.count; i++)
        if (strcmp(v->blocked.at[i].kernel, kernel) == 0)
            return &v->blocked.at[i];
    return NULL;
}

static struct failed_case *find_case(struct copse_verdicts *v, const char *kernel, uint64_t id)
{
    for (size_t i = 0; i < v->failed.count; i++)
        if (v->failed.at[i].id == id && strcmp(v->failed.at[i].kernel, kernel) == 0)
            return &v->failed.at[i];
    return NULL;
}

/* `kernel` NULL = of all. */
static void take_out_cases(struct copse_verdicts *v, const char *kernel)
{
    size_t kept = 0;
    for (size_t i = 0; i < v->failed.count; i++)
        if (kernel && strcmp(v->failed.at[i].kernel, kernel) != 0)
            v->failed.at[kept++] = v->failed.at[i];
    v->failed.count = kept;
}

/* Whether a case stands against the kernel that keeps it blocked. */
static bool has_cases(const struct copse_verdicts *v, const char *kernel)
{
    for (size_t i = 0; i < v->failed.count; i++)
        if (!v->failed.at[i].is_late && strcmp(v->failed.at[i].kernel, kernel) == 0)
            return true;
    return false;
}

/* The newest reason counts, but a block that lasts goes on to do so, for what it was made for. */
static copse_status add(struct copse_context *ctx, struct copse_verdicts *v, const char *kernel,
                        const char *reason, bool is_lasting)
{
    struct copse_blocked_kernel b = { .is_lasting = is_lasting };
    snprintf(b.kernel, sizeof b.kernel, "%s", kernel);
    snprintf(b.reason, sizeof b.reason, "%s", reason);
    copse__stored_flatten(b.reason);
    struct copse_blocked_kernel *old = find(v, b.kernel);
    if (is_lasting)
        take_out_cases(v, b.kernel);
    if (old && old->is_lasting && !is_lasting)
        return COPSE_OK;
    if (old)
        *old = b;
    else if (!COPSE_PUSH(&ctx->base.mem, &v->blocked, b))
        return copse_fail(COPSE_ERR_NO_MEMORY, "verdict: no memory for the list of kernels");
    return COPSE_OK;
}

static copse_status add_case(struct copse_context *ctx, struct copse_verdicts *v,
                             const struct failed_case *c)
{
    struct failed_case *old = find_case(v, c->kernel, c->id);
    if (old) {
        old->tier = COPSE_MAX(old->tier, c->tier);
        old->is_late = old->is_late && c->is_late;
    } else if (!COPSE_PUSH(&ctx->base.mem, &v->failed, *c)) {
        return copse_fail(COPSE_ERR_NO_MEMORY, "verdict: no memory for the list of cases");
    }
    return COPSE_OK;
}

static void take_out(struct copse_verdicts *v, const char *kernel)
{
    size_t kept = 0;
    take_out_cases(v, kernel);
    for (size_t i = 0; i < v->blocked.count; i++)
        if (kernel && strcmp(v->blocked.at[i].kernel, kernel) != 0)
            v->blocked.at[kept++] = v->blocked.at[i];
    v->blocked.count = kept;
}

/* ---- the stored form: a line per kernel, then a line per case ---- */

struct taken {
    struct copse_context *ctx;
    struct copse_verdicts *to;
    copse_status status;
    bool is_there; /* a whole text, and ours */
};

/* The kernel's name in front of the next space, which is taken off too. */
static bool read_kernel(const char **line, char kernel[48])
{
    const char *space = strchr(*line, ' ');
    const size_t length = space ? (size_t)(space - *line) : 48;
    if (length >= 48 || !is_kernel(*line, length))
        return false;
    memcpy(kernel, *line, length);
    kernel[length] = '\0';
    *line = space + 1;
    return true;
}

/* "KERNEL REASON" up to the end of the line; NULL when it is not one. */
static const char *read_blocked(struct taken *t, const char *line, bool is_lasting, bool is_dry)
{
    struct copse_blocked_kernel b;
    const char *end = read_kernel(&line, b.kernel) ? strchr(line, '\n') : NULL;
    if (!end || (size_t)(end - line) >= sizeof b.reason)
        return NULL;
    snprintf(b.reason, sizeof b.reason, "%.*s", (int)(end - line), line);
    const struct copse_blocked_kernel *old = is_dry ? NULL : find(t->to, b.kernel);
    if (!is_dry && (!old || (is_lasting && !old->is_lasting)))
        t->status = add(t->ctx, t->to, b.kernel, b.reason, is_lasting);
    return end + 1;
}

/* "KERNEL TIER late|wrong DIGEST" up to the end of the line; NULL when it is not one. */
static const char *read_case(struct taken *t, const char *line, bool is_dry)
{
    static const char digits[] = "0123456789abcdef";
    struct failed_case c = { .id = 0 };
    if (!read_kernel(&line, c.kernel) || *line < '0' || *line > '9' || line[1] != ' ')
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
    const struct copse_blocked_kernel *b = is_dry ? NULL : find(t->to, c.kernel);
    if (!is_dry && !(b && b->is_lasting))
        t->status = add_case(t->ctx, t->to, &c);
    return line + 1;
}

static const char *read_line(struct taken *t, const char *line, bool is_dry)
{
    if (strncmp(line, "block ", 6) == 0)
        return read_blocked(t, line + 6, true, is_dry);
    if (strncmp(line, "fail ", 5) == 0)
        return read_blocked(t, line + 5, false, is_dry);
    return strncmp(line, "case ", 5) == 0 ? read_case(t, line + 5, is_dry) : NULL;
}

static bool read_lines(void *user, const char *lines, bool is_dry)
{
    struct taken *t = user;
    t->is_there = !is_dry;
    while (lines && *lines && t->status == COPSE_OK)
        lines = read_line(t, lines, is_dry);
    return lines != NULL;
}

static void free_lists(struct copse_context *ctx, struct copse_verdicts *v)
{
    copse__free(&ctx->base.mem, v->blocked.at);
    copse__free(&ctx->base.mem, v->failed.at);
}

/* What is stored, by another context or process perhaps, counts: what was taken out there is known no
   longer. When the cache did not keep what is known, that is added to. */
static copse_status load(struct copse_context *ctx, struct copse_verdicts *v)
{
    struct copse_verdicts stored = { .next = NULL };
    struct taken t = { .ctx = ctx, .to = v->is_kept ? &stored : v };
    copse_status s = copse__stored_get(ctx, &v->id, read_lines, &t);
    if (s == COPSE_OK)
        s = t.status;
    if (s == COPSE_OK && t.is_there && v->is_kept) {
        const struct copse_verdicts old = *v;
        v->blocked = stored.blocked;
        v->failed = stored.failed;
        stored = old;
    }
    free_lists(ctx, &stored);
    return s;
}

static copse_status store(struct copse_context *ctx, struct copse_verdicts *v)
{
    v->is_kept = false;
    const size_t room = v->blocked.count * (sizeof(struct copse_blocked_kernel) + 8) +
                        v->failed.count * (sizeof(struct failed_case) + 32) + 1;
    char *lines = copse__alloc(&ctx->base.mem, room, 1);
    if (!lines)
        return copse_fail(COPSE_ERR_NO_MEMORY, "verdict: no memory to store the list");
    size_t size = 0;
    for (size_t i = 0; i < v->blocked.count; i++)
        size += (size_t)snprintf(lines + size, room - size, "%s %s %s\n",
                                 v->blocked.at[i].is_lasting ? "block" : "fail",
                                 v->blocked.at[i].kernel, v->blocked.at[i].reason);
    for (size_t i = 0; i < v->failed.count; i++)
        size += (size_t)snprintf(lines + size, room - size, "case %s %u %s %016" PRIx64 "\n",
                                 v->failed.at[i].kernel, (unsigned)v->failed.at[i].tier,
                                 v->failed.at[i].is_late ? "late" : "wrong", v->failed.at[i].id);
    const copse_status s = copse__stored_put(ctx, &v->id, lines, &v->is_kept);
    copse__free(&ctx->base.mem, lines);
    return s;
}

/* ---- of a context and of a device ---- */

static void free_one(struct copse_context *ctx, struct copse_verdicts *v)
{
    free_lists(ctx, v);
    copse__free(&ctx->base.mem, v);
}

static copse_status open_locked(struct copse_context *ctx, const struct copse_device_info *info,
                                struct copse_verdicts **out)
{
    struct copse_verdicts *v = copse__alloc(&ctx->base.mem, 1, sizeof *v), *old = ctx->verdicts;
    *out = NULL;
    if (!v)
        return copse_fail(COPSE_ERR_NO_MEMORY, "verdict: no memory for the list of a device");
    copse__stored_id("verdict", info, NULL, &v->id);
    while (old && strcmp(old->id.lines, v->id.lines) != 0)
        old = old->next;
    copse_status s = COPSE_OK;
    if (!old)
        s = load(ctx, v);
    if (old || s != COPSE_OK) {
        free_one(ctx, v);
        *out = old;
        return s;
    }
    v->is_kept = true;
    v->next = ctx->verdicts;
    ctx->verdicts = *out = v;
    return COPSE_OK;
}

copse_status copse__verdicts_open(copse_context *ctx, const struct copse_device_info *info,
                                  struct copse_verdicts **out)
{
    copse__mutex_lock(&ctx->verdict_lock);
    const copse_status s = open_locked(ctx, info, out);
    copse__mutex_unlock(&ctx->verdict_lock);
    return s;
}

void copse__verdicts_free(copse_context *ctx)
{
    while (ctx->verdicts) {
        struct copse_verdicts *v = ctx->verdicts;
        ctx->verdicts = v->next;
        free_one(ctx, v);
    }
}

/* From reading what is stored to storing it again nobody else changes it, where the cache can see to that. */
static void *begin_change(copse_context *ctx, struct copse_verdicts *v)
{
    copse__mutex_lock(&ctx->verdict_lock);
    return copse__stored_lock(ctx, &v->id);
}

static void end_change(copse_context *ctx, void *locked)
{
    copse__stored_unlock(ctx, locked);
    copse__mutex_unlock(&ctx->verdict_lock);
}

/* `kernel` NULL with a NULL reason: every kernel. */
static copse_status change(copse_context *ctx, struct copse_verdicts *v, const char *kernel,
                           const char *reason)
{
    copse_status s;
    void *locked = begin_change(ctx, v);
    COPSE_TRY_OR(done, s, load(ctx, v));
    if (reason)
        COPSE_TRY_OR(done, s, add(ctx, v, kernel, reason, true));
    else
        take_out(v, kernel);
    s = store(ctx, v);
done:
    end_change(ctx, locked);
    return s;
}

static copse_status check_kernel(const char *kernel)
{
    return is_kernel(kernel, strlen(kernel))
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT, "verdict: there is no kernel '%s'", kernel);
}

static void tell_blocked(copse_context *ctx, const char *id, const char *kernel, const char *reason)
{
    copse__log(&ctx->base.log, COPSE_LOG_WARN, "verdict: %s is not used on %s from now on: %s",
               kernel, id, reason);
}

static copse_status block(copse_context *ctx, struct copse_verdicts *v, const char *id,
                          const char *kernel, const char *reason)
{
    COPSE_TRY(check_kernel(kernel));
    COPSE_TRY(change(ctx, v, kernel, reason));
    tell_blocked(ctx, id, kernel, reason);
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
static copse_status note_failure(copse_context *ctx, struct copse_verdicts *v,
                                 const struct copse_kernel_case *c, const char *reason,
                                 bool *is_late)
{
    struct failed_case f = { .id = case_id(c), .tier = c->tier };
    COPSE_TRY(load(ctx, v));
    const struct copse_blocked_kernel *b = find(v, c->kernel);
    snprintf(f.kernel, sizeof f.kernel, "%s", c->kernel);
    f.is_late = *is_late = *is_late && !find_case(v, c->kernel, f.id);
    if (b && b->is_lasting)
        return COPSE_OK;
    if (v->failed.count >= MOST_CASES && !find_case(v, c->kernel, f.id)) {
        if (!f.is_late)
            COPSE_TRY(add(ctx, v, c->kernel, reason, true));
        return store(ctx, v);
    }
    COPSE_TRY(add_case(ctx, v, &f));
    if (!f.is_late)
        COPSE_TRY(add(ctx, v, c->kernel, reason, false));
    return store(ctx, v);
}

static copse_status fail_case(copse_context *ctx, struct copse_verdicts *v, const char *id,
                              const struct copse_kernel_case *c, bool is_late, const char *text)
{
    char reason[sizeof v->blocked.at->reason];
    COPSE_TRY(check_kernel(c->kernel));
    snprintf(reason, sizeof reason, "%s/%s/%s: %s", c->mode, c->op, c->name, text);
    void *locked = begin_change(ctx, v);
    const copse_status s = note_failure(ctx, v, c, reason, &is_late);
    end_change(ctx, locked);
    COPSE_TRY(s);
    if (!is_late)
        tell_blocked(ctx, id, c->kernel, reason);
    else
        copse__log(&ctx->base.log, COPSE_LOG_WARN,
                   "verdict: %s was late on %s, and is not used there when that happens again: %s",
                   c->kernel, id, reason);
    return COPSE_OK;
}

copse_status copse__device_fail_case(copse_device *dev, const struct copse_kernel_case *c,
                                     bool is_late, const char *text)
{
    return fail_case(dev->ctx, dev->verdicts, dev->info.id, c, is_late, text);
}

bool copse__device_has_failed(const copse_device *dev, const struct copse_kernel_case *c,
                              uint64_t *id)
{
    *id = case_id(c);
    copse__mutex_lock(&dev->ctx->verdict_lock);
    const struct failed_case *f = find_case(dev->verdicts, c->kernel, *id);
    const bool is_covered = f && c->tier >= f->tier;
    copse__mutex_unlock(&dev->ctx->verdict_lock);
    return is_covered;
}

/* Locked. *is_free: it was the last case that kept the kernel blocked. */
static copse_status note_pass(copse_context *ctx, struct copse_verdicts *v, const char *kernel,
                              uint64_t id, uint32_t tier, bool *is_free)
{
    *is_free = false;
    COPSE_TRY(load(ctx, v));
    struct failed_case *f = find_case(v, kernel, id);
    if (!f || f->tier > tier)
        return COPSE_OK;
    *f = v->failed.at[--v->failed.count];
    struct copse_blocked_kernel *b = find(v, kernel);
    *is_free = b && !has_cases(v, kernel);
    if (*is_free) /* cases that were late once stay noted */
        *b = v->blocked.at[--v->blocked.count];
    return store(ctx, v);
}

copse_status copse__device_pass_case(copse_device *dev, const char *kernel, uint64_t id,
                                     uint32_t tier)
{
    copse_context *ctx = dev->ctx;
    bool is_free;
    void *locked = begin_change(ctx, dev->verdicts);
    const copse_status s = note_pass(ctx, dev->verdicts, kernel, id, tier, &is_free);
    end_change(ctx, locked);
    if (s == COPSE_OK && is_free)
        copse__log(&ctx->base.log, COPSE_LOG_WARN,
                   "verdict: %s is used on %s again: every case that it had failed passes", kernel,
                   dev->info.id);
    return s;
}

bool copse__kernel_is_blocked(const copse_device *dev, const char *kernel, char *reason,
                              size_t room)
{
    if (dev->tries_blocked)
        return false;
    copse__mutex_lock(&dev->ctx->verdict_lock);
    const struct copse_blocked_kernel *b = find(dev->verdicts, kernel);
    if (b)
        snprintf(reason, room, "%s", b->reason);
    copse__mutex_unlock(&dev->ctx->verdict_lock);
    return b != NULL;
}

copse_status copse__device_block_kernel(copse_device *dev, const char *kernel, const char *reason)
{
    return block(dev->ctx, dev->verdicts, dev->info.id, kernel, reason);
}

/* ---- public ---- */

static copse_status open_by_id(copse_context *ctx, const char *device, struct copse_verdicts **out)
{
    struct copse_device_info info;
    COPSE_TRY(copse__device_find(ctx, device, &info));
    return copse__verdicts_open(ctx, &info, out);
}

copse_status copse_device_blocked(copse_context *ctx, const char *device,
                                  const struct copse_blocked_kernel **list, size_t *count)
{
    struct copse_verdicts *v;
    COPSE_TRY(copse_need("blocked kernels", ctx, device, list, count));
    *list = NULL;
    *count = 0;
    COPSE_TRY(open_by_id(ctx, device, &v));
    copse__mutex_lock(&ctx->verdict_lock);
    *list = v->blocked.at;
    *count = v->blocked.count;
    copse__mutex_unlock(&ctx->verdict_lock);
    return COPSE_OK;
}

copse_status copse_device_block(copse_context *ctx, const char *device, const char *kernel,
                                const char *reason)
{
    struct copse_verdicts *v;
    COPSE_TRY(copse_need("blocking a kernel", ctx, device, kernel));
    COPSE_TRY(open_by_id(ctx, device, &v));
    return block(ctx, v, device, kernel, reason ? reason : "blocked by the application");
}

copse_status copse_device_block_case(copse_context *ctx, const char *device,
                                     const struct copse_case_result *failed,
                                     copse_conformance_tier tier)
{
    struct copse_verdicts *v;
    COPSE_TRY(copse_need("blocking a kernel", ctx, device, failed));
    COPSE_TRY(open_by_id(ctx, device, &v));
    if (!failed->mode || !failed->op || !failed->name || !failed->variant ||
        (unsigned)tier > COPSE_CONFORM_EXHAUSTIVE)
        return copse_fail(COPSE_ERR_ARGUMENT, "verdict: no case, no kernel or no such tier");
    const struct copse_kernel_case c = { failed->variant, failed->mode, failed->op, failed->name,
                                         (uint32_t)tier };
    return fail_case(ctx, v, device, &c, failed->verdict == COPSE_VERDICT_TIMEOUT,
                     failed->text ? failed->text : "");
}

copse_status copse_device_unblock(copse_context *ctx, const char *device, const char *kernel)
{
    struct copse_verdicts *v;
    COPSE_TRY(copse_need("unblocking a kernel", ctx, device));
    COPSE_TRY(open_by_id(ctx, device, &v));
    if (kernel)
        COPSE_TRY(check_kernel(kernel));
    return change(ctx, v, kernel, NULL);
}
