/* SPDX-License-Identifier: MIT */
/* Kernel block lists of a context: operations that read the stored list, change it, and store it
   again. */
#include <stdio.h>

#include "core/trust/block_entries.h"

/* Runs in a row in which a failed case must pass before it is forgotten. */
#define PASSES_TO_HEAL 3u
/* A device with this many faults that came and went stays unreliable until it is unblocked. */
#define MOST_FLIPS 3u

static const char *const tier_names[] = { "quick", "standard", "full", "exhaustive" };

static const char *tier_name(uint32_t tier)
{
    return tier_names[COPSE_MIN(tier, COPSE_COUNT(tier_names) - 1)];
}

/* ---- lists of a context ---- */

static void free_one(struct copse_trust *t, struct copse_block_list *v)
{
    copse__entries_free(&t->base->mem, v);
    copse__free(&t->base->mem, v);
}

static copse_status open_locked(struct copse_trust *t, const struct copse_device_info *info,
                                struct copse_block_list **out)
{
    struct copse_block_list *v = copse__alloc(&t->base->mem, 1, sizeof *v), *old = t->block_lists;
    *out = NULL;
    if (!v)
        return copse_fail(COPSE_ERR_NO_MEMORY,
                          "blocked kernels: no memory for the list of a device");
    copse__stored_id("blocked", info, NULL, &v->id);
    while (old && strcmp(old->id.lines, v->id.lines) != 0)
        old = old->next;
    copse_status s = COPSE_OK;
    if (!old)
        s = copse__block_list_load(t, v);
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

/* ---- kernels that are blocked as a whole ---- */

static void set_text(char *out, size_t room, const char *text)
{
    snprintf(out, room, "%s", text);
    copse__stored_flatten(out);
}

static struct copse_blocked_kernel block_list_entry(const char *kernel, const char *reason)
{
    struct copse_blocked_kernel b = { .passes = 0 };
    snprintf(b.kernel, sizeof b.kernel, "%s", kernel);
    set_text(b.reason, sizeof b.reason, reason);
    return b;
}

/* `b` NULL: remove `kernel`, or all of them where it is NULL. *was_blocked: for as long, before. */
static copse_status block_list_change(struct copse_trust *t, struct copse_block_list *v,
                                      const char *kernel, const struct copse_blocked_kernel *b,
                                      bool *was_blocked)
{
    copse_status s;
    void *locked = begin_change(t, v);
    COPSE_TRY_OR(done, s, copse__block_list_load(t, v));
    const struct copse_blocked_kernel *old = kernel ? copse__blocked_find(v, kernel) : NULL;
    *was_blocked = old && (old->is_lasting || (b && b->by_self_test && old->by_self_test));
    if (b)
        COPSE_TRY_OR(done, s, copse__blocked_add(&t->base->mem, v, b));
    else
        copse__blocked_remove(v, kernel);
    s = copse__block_list_store(t, v);
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

static void log_blocked(struct copse_trust *t, const char *id, const char *kernel,
                        const char *reason)
{
    copse__log(&t->base->log, COPSE_LOG_WARN,
               "blocked kernels: %s is not used on %s from now on: %s", kernel, id, reason);
}

static copse_status block_list_block(struct copse_trust *t, struct copse_block_list *v,
                                     const char *id, const struct copse_blocked_kernel *b,
                                     const char *reason)
{
    bool was_blocked;
    COPSE_TRY(block_list_change(t, v, b->kernel, b, &was_blocked));
    /* threads that test specialisations of a kernel at the same time all come here */
    if (!was_blocked)
        log_blocked(t, id, b->kernel, reason);
    return COPSE_OK;
}

copse_status copse__block_list_block(struct copse_trust *t, struct copse_block_list *v,
                                     const char *id, const char *kernel, const char *reason)
{
    COPSE_TRY(check_kernel(t, kernel));
    struct copse_blocked_kernel b = block_list_entry(kernel, reason);
    b.is_lasting = true;
    return block_list_block(t, v, id, &b, reason);
}

copse_status copse__block_list_fail_test(struct copse_trust *t, struct copse_block_list *v,
                                         const char *id, const char *kernel, const char *reason)
{
    COPSE_TRY(check_kernel(t, kernel));
    struct copse_blocked_kernel b = block_list_entry(kernel, reason);
    b.by_self_test = true;
    return block_list_block(t, v, id, &b, reason);
}

copse_status copse__block_list_unblock(struct copse_trust *t, struct copse_block_list *v,
                                       const char *kernel)
{
    bool was_blocked;
    if (kernel)
        COPSE_TRY(check_kernel(t, kernel));
    return block_list_change(t, v, kernel, NULL, &was_blocked);
}

copse_status copse__block_list_refresh(struct copse_trust *t, struct copse_block_list *v)
{
    copse__mutex_lock(&t->lock);
    const copse_status s = copse__block_list_load(t, v);
    copse__mutex_unlock(&t->lock);
    return s;
}

/* ---- cases that failed ---- */

static uint64_t case_id(const struct copse_kernel_case *c)
{
    const char *const parts[] = { c->mode, "/", c->op, "/", c->name };
    uint64_t id = COPSE_HASH_START;
    for (size_t i = 0; i < COPSE_COUNT(parts); i++)
        id = copse__hash(id, parts[i], strlen(parts[i]));
    return id;
}

/* Whether the fault was counted for another kernel of the same case. */
static bool is_counted(const struct copse_block_list *v, const struct copse_failed_case *f)
{
    for (size_t i = 0; i < v->failed.count; i++) {
        const struct copse_failed_case *other = &v->failed.at[i];
        if (other->id == f->id && other->how == COPSE_FAILED_SHAKY && other->passes == 0 &&
            strcmp(other->kernel, f->kernel) != 0)
            return true;
    }
    return false;
}

static void note_flip(struct copse_block_list *v, const char *reason)
{
    v->flips = COPSE_MIN(v->flips + 1u, 999999u);
    set_text(v->flip_reason, sizeof v->flip_reason, reason);
}

/* *is_late: it was the first time, and nothing is blocked. Locked. */
static copse_status note_failure(struct copse_trust *t, struct copse_block_list *v,
                                 const struct copse_kernel_case *c, const char *reason,
                                 bool *is_late)
{
    struct copse_mem *mem = &t->base->mem;
    struct copse_failed_case f = { .id = case_id(c), .tier = c->tier };
    struct copse_blocked_kernel b = block_list_entry(c->kernel, reason);
    COPSE_TRY(copse__block_list_load(t, v));
    const struct copse_failed_case *old = copse__failed_find(v, c->kernel, f.id);
    const struct copse_blocked_kernel *blocked = copse__blocked_find(v, c->kernel);
    memcpy(f.kernel, b.kernel, sizeof f.kernel);
    *is_late = *is_late && !old;
    /* A case that has passed since it failed is not steady either. */
    const bool is_shaky = c->is_shaky || (old && old->passes > 0 && old->how != COPSE_FAILED_LATE);
    f.how = *is_late ? COPSE_FAILED_LATE : is_shaky ? COPSE_FAILED_SHAKY : COPSE_FAILED;
    if (is_shaky && !is_counted(v, &f))
        note_flip(v, reason);
    if (blocked && blocked->is_lasting)
        return copse__block_list_store(t, v);
    if (v->failed.count >= COPSE_MOST_FAILED && !old) {
        b.is_lasting = true;
        if (!*is_late)
            COPSE_TRY(copse__blocked_add(mem, v, &b));
        return copse__block_list_store(t, v);
    }
    COPSE_TRY(copse__failed_add(mem, v, &f));
    if (!*is_late)
        COPSE_TRY(copse__blocked_add(mem, v, &b));
    return copse__block_list_store(t, v);
}

copse_status copse__block_list_fail_case(struct copse_trust *t, struct copse_block_list *v,
                                         const char *id, const struct copse_kernel_case *c,
                                         bool is_late, const char *text)
{
    char reason[sizeof v->blocked.at->reason], date[COPSE_DATE];
    COPSE_TRY(check_kernel(t, c->kernel));
    snprintf(reason, sizeof reason - 26, "%s/%s/%s: %s", c->mode, c->op, c->name, text);
    const size_t at = strlen(reason);
    snprintf(reason + at, sizeof reason - at, " [%s, %s]", tier_name(c->tier), copse__date(date));
    void *locked = begin_change(t, v);
    const copse_status s = note_failure(t, v, c, reason, &is_late);
    end_change(t, locked);
    COPSE_TRY(s);
    if (!is_late)
        log_blocked(t, id, c->kernel, reason);
    else
        copse__log(
            &t->base->log, COPSE_LOG_WARN,
            "blocked kernels: %s was late on %s, and is not used there when that happens again: %s",
            c->kernel, id, reason);
    return COPSE_OK;
}

/* ---- cases that passed ---- */

bool copse__block_list_has_failed(struct copse_trust *t, struct copse_block_list *v,
                                  const struct copse_kernel_case *c, uint64_t *id)
{
    *id = case_id(c);
    copse__mutex_lock(&t->lock);
    const struct copse_failed_case *f = copse__failed_find(v, c->kernel, *id);
    const bool is_covered = f && c->tier >= f->tier;
    copse__mutex_unlock(&t->lock);
    return is_covered;
}

bool copse__block_list_is_failed(struct copse_trust *t, struct copse_block_list *v,
                                 const struct copse_kernel_case *c)
{
    const uint64_t id = case_id(c);
    copse__mutex_lock(&t->lock);
    const struct copse_blocked_kernel *b = copse__blocked_find(v, c->kernel);
    bool is_failed = b && b->by_self_test;
    for (size_t i = 0; i < v->failed.count; i++)
        is_failed |= v->failed.at[i].id == id && c->tier >= v->failed.at[i].tier;
    copse__mutex_unlock(&t->lock);
    return is_failed;
}

static bool is_healed(const struct copse_block_list *v, const struct copse_blocked_kernel *b)
{
    return !b->is_lasting && !copse__failed_has(v, b->kernel) &&
           (!b->by_self_test || b->passes >= PASSES_TO_HEAL);
}

/* Locked. *is_free: nothing keeps the kernel blocked any more. Cases that were late once stay
   noted. */
static copse_status free_if_healed(struct copse_trust *t, struct copse_block_list *v,
                                   const char *kernel, bool *is_free)
{
    struct copse_blocked_kernel *b = copse__blocked_find(v, kernel);
    *is_free = b && is_healed(v, b);
    if (*is_free)
        *b = v->blocked.at[--v->blocked.count];
    return copse__block_list_store(t, v);
}

static copse_status note_pass(struct copse_trust *t, struct copse_block_list *v, const char *kernel,
                              uint64_t id, uint32_t tier, bool *is_free)
{
    COPSE_TRY(copse__block_list_load(t, v));
    struct copse_failed_case *f = copse__failed_find(v, kernel, id);
    if (!f || f->tier > tier)
        return COPSE_OK;
    f->passes++;
    if (f->how == COPSE_FAILED_LATE || f->passes >= PASSES_TO_HEAL)
        *f = v->failed.at[--v->failed.count];
    return free_if_healed(t, v, kernel, is_free);
}

static void log_free(struct copse_trust *t, const char *id, const char *kernel)
{
    copse__log(&t->base->log, COPSE_LOG_WARN,
               "blocked kernels: %s is used on %s again: what it had failed has passed in %u runs "
               "in a row",
               kernel, id, PASSES_TO_HEAL);
}

copse_status copse__block_list_pass_case(struct copse_trust *t, struct copse_block_list *v,
                                         const char *id, const char *kernel, uint64_t failed,
                                         uint32_t tier)
{
    bool is_free = false;
    void *locked = begin_change(t, v);
    const copse_status s = note_pass(t, v, kernel, failed, tier, &is_free);
    end_change(t, locked);
    if (s == COPSE_OK && is_free)
        log_free(t, id, kernel);
    return s;
}

/* Locked. */
static copse_status note_run(struct copse_trust *t, struct copse_block_list *v, const char *kernel,
                             bool is_good, bool *is_free)
{
    COPSE_TRY(copse__block_list_load(t, v));
    struct copse_blocked_kernel *b = copse__blocked_find(v, kernel);
    if (!b || !b->by_self_test)
        return COPSE_OK;
    b->passes = is_good ? b->passes + 1 : 0;
    return free_if_healed(t, v, kernel, is_free);
}

copse_status copse__block_list_pass_run(struct copse_trust *t, struct copse_block_list *v,
                                        const char *id, const char *kernel, bool is_good)
{
    bool is_free = false;
    void *locked = begin_change(t, v);
    const copse_status s = note_run(t, v, kernel, is_good, &is_free);
    end_change(t, locked);
    if (s == COPSE_OK && is_free)
        log_free(t, id, kernel);
    return s;
}

copse_status copse__block_list_note_mode(struct copse_trust *t, struct copse_block_list *v,
                                         const char *mode, const char *ops, uint32_t tier,
                                         bool is_whole)
{
    struct copse_run_mode m = { .tier = tier, .is_whole = is_whole };
    copse_status s;
    snprintf(m.name, sizeof m.name, "%s", mode);
    if (ops && (size_t)snprintf(m.ops, sizeof m.ops, "%s", ops) >= sizeof m.ops)
        memcpy(m.ops + sizeof m.ops - 4, "...", 4);
    copse__date(m.date);
    void *locked = begin_change(t, v);
    s = copse__block_list_load(t, v);
    if (s == COPSE_OK) {
        copse__mode_add(v, &m);
        s = copse__block_list_store(t, v);
    }
    end_change(t, locked);
    return s;
}

/* ---- reading ---- */

bool copse__block_list_has(struct copse_trust *t, struct copse_block_list *v, const char *kernel,
                           char *reason, size_t room)
{
    copse__mutex_lock(&t->lock);
    const struct copse_blocked_kernel *b = copse__blocked_find(v, kernel);
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

/* Cases that failed and passed since, or passed when they were repeated; *fewest is the smallest
   number of passes. */
static size_t count_unsteady(const struct copse_block_list *v, uint32_t *fewest)
{
    size_t count = 0;
    *fewest = PASSES_TO_HEAL;
    for (size_t i = 0; i < v->failed.count; i++) {
        const struct copse_failed_case *c = &v->failed.at[i];
        if (c->how == COPSE_FAILED_SHAKY || (c->how == COPSE_FAILED && c->passes > 0)) {
            count++;
            *fewest = COPSE_MIN(*fewest, c->passes);
        }
    }
    return count;
}

static bool is_one_run(const struct copse_run_mode *a, const struct copse_run_mode *b)
{
    return a->tier == b->tier && a->is_whole == b->is_whole && strcmp(a->date, b->date) == 0 &&
           strcmp(a->ops, b->ops) == 0;
}

/* "run grad (quick, 2026-11-23); opt of adam,sgd (standard, in part, 2026-11-20)" */
static void write_modes(const struct copse_block_list *v, char *out, size_t room)
{
    size_t at = 0;
    *out = '\0';
    for (size_t i = 0; i < v->mode_count && at < room; i++) {
        const struct copse_run_mode *m = &v->modes[i], *before = i > 0 ? m - 1 : NULL,
                                    *after = m + 1;
        const bool joins = before && is_one_run(before, m);
        const bool is_last = i + 1 == v->mode_count || !is_one_run(m, after);
        at += (size_t)snprintf(out + at, room - at, "%s%s",
                               i == 0  ? ""
                               : joins ? " "
                                       : "; ",
                               m->name);
        if (is_last && at < room)
            at += (size_t)snprintf(out + at, room - at, "%s%s (%s, %s%s)", m->ops[0] ? " of " : "",
                                   m->ops, tier_name(m->tier), m->is_whole ? "" : "in part, ",
                                   m->date);
    }
}

void copse__block_list_state(struct copse_trust *t, const struct copse_block_list *v,
                             struct copse_device_state *out)
{
    uint32_t fewest;
    *out = (struct copse_device_state){ .is_unreliable = false };
    copse__mutex_lock(&t->lock);
    const size_t unsteady = count_unsteady(v, &fewest);
    out->flips = v->flips;
    out->is_unreliable = unsteady > 0 || v->flips >= MOST_FLIPS;
    if (v->flips > 0 && out->is_unreliable)
        snprintf(out->reason, sizeof out->reason, "%u fault%s came and went, the last: %s",
                 (unsigned)v->flips, copse__plural(v->flips), v->flip_reason);
    else if (unsteady > 0)
        snprintf(out->reason, sizeof out->reason,
                 "%zu case%s failed and passed since, in %u of %u runs", unsteady,
                 copse__plural(unsteady), (unsigned)fewest, PASSES_TO_HEAL);
    write_modes(v, out->modes, sizeof out->modes);
    copse__mutex_unlock(&t->lock);
}
