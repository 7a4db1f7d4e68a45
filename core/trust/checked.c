/* SPDX-License-Identifier: MIT */
#include "core/trust/checked.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/trust/stored.h"

#define MOST 4096u /* programs of a device; the oldest one is forgotten first */
#define LINE sizeof "program 0123456789abcdef\n"

struct programs {
    uint64_t *at;
    size_t count, room;
};

struct copse_checked_list {
    struct copse_checked_list *next;
    struct copse_stored_id id;
    struct programs known;
};

/* ---- in memory ---- */

static bool checked_has(const struct programs *list, uint64_t program)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->at[i] == program)
            return true;
    return false;
}

static copse_status checked_add(struct copse_mem *mem, struct programs *list, uint64_t program)
{
    if (checked_has(list, program))
        return COPSE_OK;
    if (list->count == MOST)
        memmove(list->at, list->at + 1, --list->count * sizeof *list->at);
    return copse_need_memory(COPSE_PUSH(mem, list, program), "cross-check");
}

/* ---- in the cache: one line for each program ---- */

struct reader {
    struct copse_mem *mem;
    struct programs *into;
    copse_status status;
};

static bool read_lines(void *user, const char *lines, bool is_dry)
{
    struct reader *r = user;
    for (; *lines; lines += LINE - 1) {
        uint64_t program;
        char line[LINE];
        if (sscanf(lines, "program %16" SCNx64, &program) != 1)
            return false;
        snprintf(line, sizeof line, "program %016" PRIx64 "\n", program);
        if (strncmp(lines, line, LINE - 1) != 0)
            return false;
        if (!is_dry && r->status == COPSE_OK)
            r->status = checked_add(r->mem, r->into, program);
    }
    return true;
}

static copse_status read_stored(struct copse_trust *t, struct copse_checked_list *l)
{
    struct reader r = { &t->base->mem, &l->known, COPSE_OK };
    COPSE_TRY(copse__stored_get(t->base, &l->id, read_lines, &r));
    return r.status;
}

static copse_status write_stored(struct copse_trust *t, const struct copse_checked_list *l)
{
    char *text = copse__alloc(&t->base->mem, l->known.count * (LINE - 1) + 1, 1);
    COPSE_TRY(copse_need_memory(text, "cross-check"));
    for (size_t i = 0; i < l->known.count; i++)
        snprintf(text + i * (LINE - 1), LINE, "program %016" PRIx64 "\n", l->known.at[i]);
    const copse_status s = copse__stored_put(t->base, &l->id, text, NULL);
    copse__free(&t->base->mem, text);
    return s;
}

/* ---- lists ---- */

static copse_status open_list(struct copse_trust *t, const struct copse_device_info *info,
                              struct copse_checked_list **out)
{
    struct copse_stored_id id;
    copse__stored_id("checked", info, NULL, &id);
    for (*out = t->checked; *out; *out = (*out)->next)
        if (strcmp((*out)->id.lines, id.lines) == 0)
            return COPSE_OK;
    struct copse_checked_list *l = copse__alloc(&t->base->mem, 1, sizeof *l);
    COPSE_TRY(copse_need_memory(l, "cross-check"));
    l->id = id;
    l->next = t->checked;
    *out = t->checked = l;
    return read_stored(t, l);
}

copse_status copse__checked_has(struct copse_trust *t, const struct copse_device_info *info,
                                uint64_t program, bool *is_there)
{
    struct copse_checked_list *l;
    copse__mutex_lock(&t->lock);
    const copse_status s = open_list(t, info, &l);
    *is_there = s == COPSE_OK && checked_has(&l->known, program);
    copse__mutex_unlock(&t->lock);
    return s;
}

/* Other processes may have changed the stored list. NULL: forget all programs. */
static copse_status checked_change(struct copse_trust *t, struct copse_checked_list *l,
                                   const uint64_t *program)
{
    void *locked = copse__stored_lock(t->base, &l->id);
    copse_status s = program ? read_stored(t, l) : COPSE_OK;
    if (!program)
        l->known.count = 0;
    else if (s == COPSE_OK)
        s = checked_add(&t->base->mem, &l->known, *program);
    if (s == COPSE_OK)
        s = write_stored(t, l);
    copse__stored_unlock(t->base, locked);
    return s;
}

static copse_status open_and_change(struct copse_trust *t, const struct copse_device_info *info,
                                    const uint64_t *program)
{
    struct copse_checked_list *l;
    copse__mutex_lock(&t->lock);
    copse_status s = open_list(t, info, &l);
    if (s == COPSE_OK)
        s = checked_change(t, l, program);
    copse__mutex_unlock(&t->lock);
    return s;
}

copse_status copse__checked_add(struct copse_trust *t, const struct copse_device_info *info,
                                uint64_t program)
{
    return open_and_change(t, info, &program);
}

copse_status copse__checked_clear(struct copse_trust *t, const struct copse_device_info *info)
{
    return open_and_change(t, info, NULL);
}

void copse__checked_free(struct copse_trust *t)
{
    while (t->checked) {
        struct copse_checked_list *l = t->checked;
        t->checked = l->next;
        copse__free(&t->base->mem, l->known.at);
        copse__free(&t->base->mem, l);
    }
}
