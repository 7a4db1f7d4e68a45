/* SPDX-License-Identifier: MIT */
/* Tuning records, in memory and in the kernel cache. */
#include <inttypes.h>
#include <stdio.h>

#include "core/trust/stored.h"
#include "core/trust/tuning.h"

#define MAX_ENTRIES 4096u
#define MAX_SHARES  256u /* of them, of COPSE_TUNED_SHARES: each job of `copse train` adds some */
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
           is_name(e->size_class, sizeof e->size_class) && is_name(e->variant, sizeof e->variant) &&
           e->rate <= MAX_RATE;
}

static bool is_same(const struct copse_tuning_entry *e, const char *family, const char *size_class,
                    const char *variant)
{
    return strcmp(e->size_class, size_class) == 0 && strcmp(e->variant, variant) == 0 &&
           strcmp(e->family, family) == 0;
}

static struct copse_tuning_entry *tuning_find(const struct entries *list,
                                              const struct copse_tuning_entry *e)
{
    for (size_t i = 0; i < list->count; i++)
        if (is_same(&list->at[i], e->family, e->size_class, e->variant))
            return &list->at[i];
    return NULL;
}

static void tuning_remove(struct entries *list, struct copse_tuning_entry *e)
{
    memmove(e, e + 1, (size_t)(&list->at[--list->count] - e) * sizeof *e);
}

static bool is_shares(const struct copse_tuning_entry *e)
{
    return strcmp(e->family, COPSE_TUNED_SHARES) == 0;
}

/* Make room for the shares of another job. */
static void drop_oldest_shares(struct entries *list)
{
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++)
        count += is_shares(&list->at[i]);
    for (size_t i = 0; i < list->count && count >= MAX_SHARES;)
        if (is_shares(&list->at[i])) {
            tuning_remove(list, &list->at[i]);
            count--;
        } else {
            i++;
        }
}

/* The newest measurement counts. */
static copse_status tuning_add(struct copse_mem *mem, struct entries *list,
                               const struct copse_tuning_entry *e)
{
    struct copse_tuning_entry *old = tuning_find(list, e);
    if (old && e->rate == 0)
        tuning_remove(list, old);
    else if (old)
        old->rate = e->rate;
    if (old)
        return COPSE_OK;
    if (e->rate > 0 && is_shares(e))
        drop_oldest_shares(list);
    if (e->rate > 0 && list->count == MAX_ENTRIES)
        return copse_fail(COPSE_ERR_ARGUMENT, "tuning: more than %u entries", MAX_ENTRIES);
    else if (e->rate > 0 && !COPSE_PUSH(mem, list, *e))
        return copse_fail(COPSE_ERR_NO_MEMORY, "tuning: no memory for the list");
    return COPSE_OK;
}

static copse_status tuning_copy(struct copse_mem *mem, const struct entries *from,
                                struct entries *to)
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

const char *copse__tuning_line(const char *line, struct copse_tuning_entry *e)
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
        lines = copse__tuning_line(lines, &e);
        if (++count > MAX_ENTRIES)
            return false;
        if (lines && !is_dry)
            r->status = tuning_add(r->mem, r->to, &e);
    }
    return lines != NULL;
}

/* The cache has what is known and what other processes added since. */
static copse_status tuning_load(struct copse_trust *t, struct copse_tunings *of)
{
    struct entries fresh = { NULL, 0, 0 };
    struct reader r = { .mem = &t->base->mem, .to = &fresh };
    copse_status s = copse__stored_get(t->base, &of->id, read_lines, &r);
    if (s == COPSE_OK)
        s = r.status;
    if (s == COPSE_OK && fresh.count > 0) {
        copse__free(&t->base->mem, of->known.at);
        of->known = fresh;
        return COPSE_OK;
    }
    copse__free(&t->base->mem, fresh.at);
    return s;
}

static copse_status lines_of(struct copse_trust *t, const struct copse_tunings *of, bool has_shares,
                             char **out)
{
    const size_t room = of->known.count * (sizeof(struct copse_tuning_entry) + 32) + 1;
    size_t at = 0;
    *out = copse__alloc(&t->base->mem, room, 1);
    if (!*out)
        return copse_fail(COPSE_ERR_NO_MEMORY, "tuning: no memory to store the list");
    for (size_t i = 0; i < of->known.count; i++) {
        const struct copse_tuning_entry *e = &of->known.at[i];
        if (!has_shares && is_shares(e))
            continue;
        at += (size_t)snprintf(*out + at, room - at, "rate %s %s %s %" PRIu64 "\n", e->family,
                               e->size_class, e->variant, e->rate);
    }
    return COPSE_OK;
}

static copse_status tuning_store(struct copse_trust *t, const struct copse_tunings *of)
{
    char *lines;
    COPSE_TRY(lines_of(t, of, true, &lines));
    const copse_status s = copse__stored_put(t->base, &of->id, lines, NULL);
    copse__free(&t->base->mem, lines);
    return s;
}

/* ---- of a context ---- */

/* Locked. Some CPU drivers report no processor name; the number of compute units distinguishes
   processors there. */
static copse_status tuning_open(struct copse_trust *t, const struct copse_device_info *info,
                                struct copse_tunings **out)
{
    char units[32];
    struct copse_tunings *of = copse__alloc(&t->base->mem, 1, sizeof *of), *old = t->tunings;
    *out = NULL;
    if (!of)
        return copse_fail(COPSE_ERR_NO_MEMORY, "tuning: no memory for the list of a device");
    snprintf(units, sizeof units, "units %" PRIu32, info->limits.compute_units);
    copse__stored_id("tuning", info, units, &of->id);
    while (old && strcmp(old->id.lines, of->id.lines) != 0)
        old = old->next;
    const copse_status s = old ? COPSE_OK : tuning_load(t, of);
    if (old || s != COPSE_OK) {
        copse__free(&t->base->mem, of);
        *out = old;
        return s;
    }
    of->next = t->tunings;
    t->tunings = *out = of;
    return COPSE_OK;
}

void copse__tunings_free(struct copse_trust *t)
{
    while (t->tunings) {
        struct copse_tunings *of = t->tunings;
        t->tunings = of->next;
        copse__free(&t->base->mem, of->known.at);
        copse__free(&t->base->mem, of);
    }
}

copse_status copse__tunings_open(struct copse_trust *t, const struct copse_device_info *info,
                                 struct copse_tunings **out)
{
    copse__mutex_lock(&t->lock);
    const copse_status s = tuning_open(t, info, out);
    copse__mutex_unlock(&t->lock);
    return s;
}

/* ---- reading ---- */

copse_status copse__tuning_copy(struct copse_trust *t, const struct copse_device_info *info,
                                struct copse_tuning *out)
{
    struct copse_tunings *of;
    struct entries own = { NULL, 0, 0 };
    copse__mutex_lock(&t->lock);
    copse_status s = tuning_open(t, info, &of);
    if (s == COPSE_OK)
        s = tuning_copy(&t->base->mem, &of->known, &own);
    copse__mutex_unlock(&t->lock);
    *out = (struct copse_tuning){ own.at, own.count };
    return s;
}

uint64_t copse__tuning_find(const struct copse_tuning *list, const char *family,
                            const char *size_class, const char *variant)
{
    for (size_t i = 0; i < list->count; i++)
        if (is_same(&list->at[i], family, size_class, variant))
            return list->at[i].rate;
    return 0;
}

void copse__tunings_get(struct copse_trust *t, const struct copse_tunings *of,
                        const struct copse_tuning_entry **list, size_t *count)
{
    copse__mutex_lock(&t->lock);
    *list = of->known.at;
    *count = of->known.count;
    copse__mutex_unlock(&t->lock);
}

/* ---- changes ---- */

/* Locked. Either all entries or none. */
static copse_status merge_alone(struct copse_trust *t, struct copse_tunings *of,
                                const struct copse_tuning_entry *list, size_t count)
{
    struct copse_mem *mem = &t->base->mem;
    struct entries before;
    COPSE_TRY(tuning_load(t, of));
    COPSE_TRY(tuning_copy(mem, &of->known, &before));
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < count && s == COPSE_OK; i++)
        s = tuning_add(mem, &of->known, &list[i]);
    if (s == COPSE_OK)
        s = tuning_store(t, of);
    if (s != COPSE_OK) {
        const struct entries after = of->known;
        of->known = before;
        before = after;
    }
    copse__free(mem, before.at);
    return s;
}

static copse_status tuning_merge(struct copse_trust *t, struct copse_tunings *of,
                                 const struct copse_tuning_entry *list, size_t count)
{
    void *locked = copse__stored_lock(t->base, &of->id);
    const copse_status s = merge_alone(t, of, list, count);
    copse__stored_unlock(t->base, locked);
    return s;
}

copse_status copse__tunings_check(const struct copse_tuning_entry *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!is_entry(&list[i]))
            return copse_fail(COPSE_ERR_ARGUMENT, "tuning: a name or the rate of entry %zu is none",
                              i);
    return COPSE_OK;
}

copse_status copse__tunings_set(struct copse_trust *t, struct copse_tunings *of,
                                const struct copse_tuning_entry *list, size_t count)
{
    copse__mutex_lock(&t->lock);
    const copse_status s = tuning_merge(t, of, list, count);
    copse__mutex_unlock(&t->lock);
    return s;
}

copse_status copse__tunings_clear(struct copse_trust *t, struct copse_tunings *of)
{
    copse__mutex_lock(&t->lock);
    of->known.count = 0;
    const copse_status s = tuning_store(t, of);
    copse__mutex_unlock(&t->lock);
    return s;
}

/* ---- as texts ---- */

copse_status copse__tunings_text(struct copse_trust *t, const struct copse_tunings *of, char **text,
                                 size_t *size)
{
    char *lines;
    copse__mutex_lock(&t->lock);
    copse_status s = lines_of(t, of, false, &lines); /* shares are of jobs of this machine */
    if (s == COPSE_OK) {
        s = copse__stored_text(t->base, &of->id, lines, text, size);
        copse__free(&t->base->mem, lines);
    }
    copse__mutex_unlock(&t->lock);
    return s;
}

copse_status copse__tunings_load(struct copse_trust *t, struct copse_tunings *of,
                                 const char *device, const char *text, size_t size)
{
    struct entries fresh = { NULL, 0, 0 };
    struct reader r = { .mem = &t->base->mem, .to = &fresh };
    bool is_ours;
    copse__mutex_lock(&t->lock);
    copse_status s = copse__stored_read(t->base, &of->id, text, size, read_lines, &r, &is_ours);
    if (s == COPSE_OK)
        s = r.status;
    if (s == COPSE_OK && !is_ours)
        s = copse_fail(COPSE_ERR_FORMAT,
                       "tuning: the text is damaged, or not of %s with this driver "
                       "and this version of the library",
                       device);
    if (s == COPSE_OK)
        s = tuning_merge(t, of, fresh.at, fresh.count);
    copse__free(&t->base->mem, fresh.at);
    copse__mutex_unlock(&t->lock);
    return s;
}
