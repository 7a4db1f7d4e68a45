/* SPDX-License-Identifier: MIT */
/* What was measured of the kernel variants of a device: kept per device, driver and library version,
   in the context and, as a small text, in the kernel cache; a device has a copy of its own. */
#include <inttypes.h>
#include <stdio.h>

#include "core/device/stored.h"

#define MAX_ENTRIES 4096u
#define MAX_RATE    UINT64_C(1000000000000000)

struct entries {
    struct copse_tuning_entry *at;
    size_t count, room;
};

struct copse_tunings {
    struct copse_tunings *next;
    struct copse_stored_id id;
    struct entries known;
};

/* ---- the list in memory ---- */

static bool is_name(const char *name, size_t room)
{
    const size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    return length > 0 && length < room && name[length] == '\0';
}

static bool is_entry(const struct copse_tuning_entry *e)
{
    const bool is_whole = memchr(e->family, 0, sizeof e->family) &&
                          memchr(e->size_class, 0, sizeof e->size_class) &&
                          memchr(e->variant, 0, sizeof e->variant);
    return is_whole && is_name(e->family, sizeof e->family) &&
           is_name(e->size_class, sizeof e->size_class) &&
           is_name(e->variant, sizeof e->variant) && e->rate <= MAX_RATE;
}

static bool is_same(const struct copse_tuning_entry *e, const char *family, const char *size_class,
                    const char *variant)
{
    return strcmp(e->size_class, size_class) == 0 && strcmp(e->variant, variant) == 0 &&
           strcmp(e->family, family) == 0;
}

static struct copse_tuning_entry *find(const struct entries *list, const struct copse_tuning_entry *e)
{
    for (size_t i = 0; i < list->count; i++)
        if (is_same(&list->at[i], e->family, e->size_class, e->variant))
            return &list->at[i];
    return NULL;
}

/* The newest measurement counts. */
static copse_status add(struct copse_mem *mem, struct entries *list,
                        const struct copse_tuning_entry *e)
{
    struct copse_tuning_entry *old = find(list, e);
    if (old && e->rate == 0)
        memmove(old, old + 1, (size_t)(&list->at[--list->count] - old) * sizeof *old);
    else if (old)
        old->rate = e->rate;
    else if (e->rate > 0 && list->count == MAX_ENTRIES)
        return copse_fail(COPSE_ERR_ARGUMENT, "tuning: more than %u entries", MAX_ENTRIES);
    else if (e->rate > 0 && !COPSE_PUSH(mem, list, *e))
        return copse_fail(COPSE_ERR_NO_MEMORY, "tuning: no memory for the list");
    return COPSE_OK;
}

static copse_status copy(struct copse_mem *mem, const struct entries *from, struct entries *to)
{
    *to = (struct entries){ NULL, 0, 0 };
    if (from->count == 0)
        return COPSE_OK;
    if (!COPSE_RESERVE(mem, to, from->count))
        return copse_fail(COPSE_ERR_NO_MEMORY, "tuning: no memory for %zu entries", from->count);
    memcpy(to->at, from->at, from->count * sizeof *to->at);
    to->count = from->count;
    return COPSE_OK;
}

/* ---- the stored form: one line per entry ---- */

/* The word up to `end`, which is taken off too. */
static bool take_word(const char **at, char end, char *out, size_t room)
{
    const char *stop = strchr(*at, end);
    const size_t length = stop ? (size_t)(stop - *at) : room;
    if (length >= room)
        return false;
    memcpy(out, *at, length);
    out[length] = '\0';
    *at = stop + 1;
    return true;
}

/* Digits of a number from 1 on, as they are printed. */
static bool read_rate(const char *digits, uint64_t *out)
{
    const size_t length = strspn(digits, "0123456789");
    *out = 0;
    if (length == 0 || length > 16 || digits[length] || *digits == '0')
        return false;
    for (; *digits; digits++)
        *out = *out * 10 + (uint64_t)(*digits - '0');
    return *out <= MAX_RATE;
}

struct reader {
    struct copse_mem *mem;
    struct entries *to;
    copse_status status;
};

/* "rate FAMILY CLASS VARIANT N" up to the end of the line; NULL when it is not one. */
static const char *read_line(const char *line, struct copse_tuning_entry *e)
{
    char digits[24];
    if (strncmp(line, "rate ", 5) != 0)
        return NULL;
    line += 5;
    return take_word(&line, ' ', e->family, sizeof e->family) &&
                   take_word(&line, ' ', e->size_class, sizeof e->size_class) &&
                   take_word(&line, ' ', e->variant, sizeof e->variant) &&
                   take_word(&line, '\n', digits, sizeof digits) && read_rate(digits, &e->rate) &&
                   is_entry(e)
               ? line
               : NULL;
}

static bool read_lines(void *user, const char *lines, bool is_dry)
{
    struct reader *r = user;
    size_t count = 0;
    while (lines && *lines && r->status == COPSE_OK) {
        struct copse_tuning_entry e;
        lines = read_line(lines, &e);
        if (++count > MAX_ENTRIES)
            return false;
        if (lines && !is_dry)
            r->status = add(r->mem, r->to, &e);
    }
    return lines != NULL;
}

/* The cache has what is known and what other processes added since. */
static copse_status load(struct copse_context *ctx, struct copse_tunings *t)
{
    struct entries fresh = { NULL, 0, 0 };
    struct reader r = { .mem = &ctx->base.mem, .to = &fresh };
    copse_status s = copse__stored_get(ctx, &t->id, read_lines, &r);
    if (s == COPSE_OK)
        s = r.status;
    if (s == COPSE_OK && fresh.count > 0) {
        copse__free(&ctx->base.mem, t->known.at);
        t->known = fresh;
        return COPSE_OK;
    }
    copse__free(&ctx->base.mem, fresh.at);
    return s;
}

static copse_status lines_of(struct copse_context *ctx, const struct copse_tunings *t, char **out)
{
    const size_t room = t->known.count * (sizeof(struct copse_tuning_entry) + 32) + 1;
    size_t at = 0;
    *out = copse__alloc(&ctx->base.mem, room, 1);
    if (!*out)
        return copse_fail(COPSE_ERR_NO_MEMORY, "tuning: no memory to store the list");
    for (size_t i = 0; i < t->known.count; i++) {
        const struct copse_tuning_entry *e = &t->known.at[i];
        at += (size_t)snprintf(*out + at, room - at, "rate %s %s %s %" PRIu64 "\n", e->family,
                               e->size_class, e->variant, e->rate);
    }
    return COPSE_OK;
}

static copse_status store(struct copse_context *ctx, const struct copse_tunings *t)
{
    char *lines;
    COPSE_TRY(lines_of(ctx, t, &lines));
    const copse_status s = copse__stored_put(ctx, &t->id, lines, NULL);
    copse__free(&ctx->base.mem, lines);
    return s;
}

/* ---- of a context ---- */

/* Locked. A processor behind a driver that stands for any processor is known by its size. */
static copse_status open(struct copse_context *ctx, const struct copse_device_info *info,
                         struct copse_tunings **out)
{
    char units[32];
    struct copse_tunings *t = copse__alloc(&ctx->base.mem, 1, sizeof *t), *old = ctx->tunings;
    *out = NULL;
    if (!t)
        return copse_fail(COPSE_ERR_NO_MEMORY, "tuning: no memory for the list of a device");
    snprintf(units, sizeof units, "units %" PRIu32, info->limits.compute_units);
    copse__stored_id("tuning", info, units, &t->id);
    while (old && strcmp(old->id.lines, t->id.lines) != 0)
        old = old->next;
    const copse_status s = old ? COPSE_OK : load(ctx, t);
    if (old || s != COPSE_OK) {
        copse__free(&ctx->base.mem, t);
        *out = old;
        return s;
    }
    t->next = ctx->tunings;
    ctx->tunings = *out = t;
    return COPSE_OK;
}

static copse_status open_by_id(copse_context *ctx, const char *device, struct copse_tunings **out)
{
    struct copse_device_info info;
    COPSE_TRY(copse__device_find(ctx, device, &info));
    return open(ctx, &info, out);
}

void copse__tunings_free(copse_context *ctx)
{
    while (ctx->tunings) {
        struct copse_tunings *t = ctx->tunings;
        ctx->tunings = t->next;
        copse__free(&ctx->base.mem, t->known.at);
        copse__free(&ctx->base.mem, t);
    }
}

/* ---- of a device ---- */

copse_status copse__tuning_open(copse_context *ctx, const struct copse_device_info *info,
                                struct copse_tuning *out)
{
    struct copse_tunings *t;
    struct entries own = { NULL, 0, 0 };
    copse__mutex_lock(&ctx->verdict_lock);
    copse_status s = open(ctx, info, &t);
    if (s == COPSE_OK)
        s = copy(&ctx->base.mem, &t->known, &own);
    copse__mutex_unlock(&ctx->verdict_lock);
    out->at = own.at;
    out->count = own.count;
    return s;
}

uint64_t copse__tuning_rate(const copse_device *dev, const char *family, const char *size_class,
                            const char *variant)
{
    for (size_t i = 0; i < dev->tuning.count; i++)
        if (is_same(&dev->tuning.at[i], family, size_class, variant))
            return dev->tuning.at[i].rate;
    return 0;
}

/* ---- public ---- */

copse_status copse_device_tuning(copse_context *ctx, const char *device,
                                 const struct copse_tuning_entry **list, size_t *count)
{
    struct copse_tunings *t;
    COPSE_TRY(copse_need("tuning", ctx, device, list, count));
    *list = NULL;
    *count = 0;
    copse__mutex_lock(&ctx->verdict_lock);
    const copse_status s = open_by_id(ctx, device, &t);
    if (s == COPSE_OK) {
        *list = t->known.at;
        *count = t->known.count;
    }
    copse__mutex_unlock(&ctx->verdict_lock);
    return s;
}

/* Locked. Either all entries or none. */
static copse_status merge_alone(copse_context *ctx, struct copse_tunings *t,
                                const struct copse_tuning_entry *list, size_t count)
{
    struct copse_mem *mem = &ctx->base.mem;
    struct entries before;
    COPSE_TRY(load(ctx, t));
    COPSE_TRY(copy(mem, &t->known, &before));
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < count && s == COPSE_OK; i++)
        s = add(mem, &t->known, &list[i]);
    if (s == COPSE_OK)
        s = store(ctx, t);
    if (s != COPSE_OK) {
        const struct entries after = t->known;
        t->known = before;
        before = after;
    }
    copse__free(mem, before.at);
    return s;
}

static copse_status merge(copse_context *ctx, struct copse_tunings *t,
                          const struct copse_tuning_entry *list, size_t count)
{
    void *locked = copse__stored_lock(ctx, &t->id);
    const copse_status s = merge_alone(ctx, t, list, count);
    copse__stored_unlock(ctx, locked);
    return s;
}

copse_status copse_device_tuning_set(copse_context *ctx, const char *device,
                                     const struct copse_tuning_entry *list, size_t count)
{
    struct copse_tunings *t;
    COPSE_TRY(copse_need("tuning", ctx, device));
    if (count > 0)
        COPSE_TRY(copse_need("tuning", list));
    for (size_t i = 0; i < count; i++)
        if (!is_entry(&list[i]))
            return copse_fail(COPSE_ERR_ARGUMENT, "tuning: a name or the rate of entry %zu is none",
                              i);
    copse__mutex_lock(&ctx->verdict_lock);
    copse_status s = open_by_id(ctx, device, &t);
    if (s == COPSE_OK)
        s = merge(ctx, t, list, count);
    copse__mutex_unlock(&ctx->verdict_lock);
    return s;
}

copse_status copse_device_tuning_clear(copse_context *ctx, const char *device)
{
    struct copse_tunings *t;
    COPSE_TRY(copse_need("tuning", ctx, device));
    copse__mutex_lock(&ctx->verdict_lock);
    copse_status s = open_by_id(ctx, device, &t);
    if (s == COPSE_OK) {
        t->known.count = 0;
        s = store(ctx, t);
    }
    copse__mutex_unlock(&ctx->verdict_lock);
    return s;
}

static copse_status whole_text(copse_context *ctx, const char *device, char **text, size_t *size)
{
    struct copse_tunings *t;
    char *lines;
    COPSE_TRY(open_by_id(ctx, device, &t));
    COPSE_TRY(lines_of(ctx, t, &lines));
    const copse_status s = copse__stored_text(ctx, &t->id, lines, text, size);
    copse__free(&ctx->base.mem, lines);
    return s;
}

copse_status copse_device_tuning_save(copse_context *ctx, const char *device, char *text,
                                      size_t room, size_t *needed)
{
    char *whole = NULL;
    size_t size = 0;
    COPSE_TRY(copse_need("tuning", ctx, device, needed));
    *needed = 0;
    copse__mutex_lock(&ctx->verdict_lock);
    copse_status s = whole_text(ctx, device, &whole, &size);
    copse__mutex_unlock(&ctx->verdict_lock);
    COPSE_TRY(s);
    *needed = size + 1;
    if (text && room < size + 1)
        s = copse_fail(COPSE_ERR_ARGUMENT, "tuning: %zu bytes of text, room for %zu", size + 1,
                       room);
    else if (text)
        memcpy(text, whole, size + 1);
    copse__free(&ctx->base.mem, whole);
    return s;
}

static copse_status load_text(copse_context *ctx, const char *device, const char *text, size_t size)
{
    struct copse_tunings *t;
    struct entries fresh = { NULL, 0, 0 };
    struct reader r = { .mem = &ctx->base.mem, .to = &fresh };
    bool is_ours;
    COPSE_TRY(open_by_id(ctx, device, &t));
    copse_status s = copse__stored_read(ctx, &t->id, text, size, read_lines, &r, &is_ours);
    if (s == COPSE_OK)
        s = r.status;
    if (s == COPSE_OK && !is_ours)
        s = copse_fail(COPSE_ERR_FORMAT, "tuning: the text is damaged, or not of %s with this driver "
                                         "and this version of the library", device);
    if (s == COPSE_OK)
        s = merge(ctx, t, fresh.at, fresh.count);
    copse__free(&ctx->base.mem, fresh.at);
    return s;
}

copse_status copse_device_tuning_load(copse_context *ctx, const char *device, const char *text,
                                      size_t size)
{
    COPSE_TRY(copse_need("tuning", ctx, device, text));
    copse__mutex_lock(&ctx->verdict_lock);
    const copse_status s = load_text(ctx, device, text, size);
    copse__mutex_unlock(&ctx->verdict_lock);
    return s;
}
