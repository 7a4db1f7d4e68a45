/* SPDX-License-Identifier: MIT */
/* See block_entries.h. */
#include "core/trust/block_entries.h"

struct copse_blocked_kernel *copse__blocked_find(struct copse_block_list *v, const char *kernel)
{
    for (size_t i = 0; i < v->blocked.count; i++)
        if (strcmp(v->blocked.at[i].kernel, kernel) == 0)
            return &v->blocked.at[i];
    return NULL;
}

struct copse_failed_case *copse__failed_find(struct copse_block_list *v, const char *kernel,
                                             uint64_t id)
{
    for (size_t i = 0; i < v->failed.count; i++)
        if (v->failed.at[i].id == id && strcmp(v->failed.at[i].kernel, kernel) == 0)
            return &v->failed.at[i];
    return NULL;
}

bool copse__failed_has(const struct copse_block_list *v, const char *kernel)
{
    for (size_t i = 0; i < v->failed.count; i++)
        if (v->failed.at[i].how != COPSE_FAILED_LATE && strcmp(v->failed.at[i].kernel, kernel) == 0)
            return true;
    return false;
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

static int block_entries_strength(const struct copse_blocked_kernel *b)
{
    return b->is_lasting ? 2 : b->by_self_test;
}

copse_status copse__blocked_add(struct copse_mem *mem, struct copse_block_list *v,
                                const struct copse_blocked_kernel *b)
{
    struct copse_blocked_kernel *old = copse__blocked_find(v, b->kernel);
    if (b->is_lasting)
        remove_cases(v, b->kernel);
    if (old && block_entries_strength(old) <= block_entries_strength(b))
        *old = *b;
    else if (old)
        old->passes = 0;
    else if (!COPSE_PUSH(mem, &v->blocked, *b))
        return copse_fail(COPSE_ERR_NO_MEMORY,
                          "blocked kernels: no memory for the list of kernels");
    return COPSE_OK;
}

copse_status copse__failed_add(struct copse_mem *mem, struct copse_block_list *v,
                               const struct copse_failed_case *c)
{
    struct copse_failed_case *old = copse__failed_find(v, c->kernel, c->id);
    if (old) {
        old->tier = COPSE_MAX(old->tier, c->tier);
        old->how = COPSE_MAX(old->how, c->how);
        old->passes = c->passes;
    } else if (!COPSE_PUSH(mem, &v->failed, *c)) {
        return copse_fail(COPSE_ERR_NO_MEMORY, "blocked kernels: no memory for the list of cases");
    }
    return COPSE_OK;
}

void copse__blocked_remove(struct copse_block_list *v, const char *kernel)
{
    size_t kept = 0;
    remove_cases(v, kernel);
    for (size_t i = 0; i < v->blocked.count; i++)
        if (kernel && strcmp(v->blocked.at[i].kernel, kernel) != 0)
            v->blocked.at[kept++] = v->blocked.at[i];
    v->blocked.count = kept;
    if (!kernel)
        v->flips = 0;
}

void copse__blocked_count(struct copse_block_list *v)
{
    for (size_t i = 0; i < v->blocked.count; i++) {
        struct copse_blocked_kernel *b = &v->blocked.at[i];
        uint32_t fewest = UINT32_MAX;
        for (size_t k = 0; k < v->failed.count; k++)
            if (v->failed.at[k].how != COPSE_FAILED_LATE &&
                strcmp(v->failed.at[k].kernel, b->kernel) == 0)
                fewest = COPSE_MIN(fewest, v->failed.at[k].passes);
        if (fewest < UINT32_MAX && !b->by_self_test)
            b->passes = fewest;
    }
}

static void mode_remove(struct copse_block_list *v, size_t at)
{
    v->mode_count--;
    memmove(&v->modes[at], &v->modes[at + 1], (v->mode_count - at) * sizeof *v->modes);
}

/* Whether a run says nothing beside another run of the mode. */
static bool mode_is_within(const struct copse_run_mode *m, const struct copse_run_mode *other)
{
    return strcmp(m->name, other->name) == 0 && m->ops[0] && !other->ops[0] &&
           m->tier <= other->tier && (other->is_whole || !m->is_whole);
}

static bool mode_is_again(const struct copse_run_mode *old, const struct copse_run_mode *m)
{
    return strcmp(old->name, m->name) == 0 && strcmp(old->ops, m->ops) == 0;
}

void copse__mode_add(struct copse_block_list *v, const struct copse_run_mode *m)
{
    size_t oldest = COPSE_MOST_MODES;
    for (size_t i = v->mode_count; i-- > 0;)
        if (mode_is_within(&v->modes[i], m) || mode_is_again(&v->modes[i], m))
            mode_remove(v, i);
        else if (mode_is_within(m, &v->modes[i]))
            return;
    for (size_t i = v->mode_count; i-- > 0;)
        if (v->modes[i].ops[0])
            oldest = i;
    if (v->mode_count == COPSE_MOST_MODES && oldest < v->mode_count)
        mode_remove(v, oldest);
    if (v->mode_count < COPSE_MOST_MODES)
        v->modes[v->mode_count++] = *m;
}

void copse__entries_free(struct copse_mem *mem, struct copse_block_list *v)
{
    copse__free(mem, v->blocked.at);
    copse__free(mem, v->failed.at);
}
