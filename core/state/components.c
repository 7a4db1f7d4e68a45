/* SPDX-License-Identifier: MIT */
/* Components of replica-local variables: an array "<variable>/replica_<i>" for each replica of the
   job, beside the variable's aggregate. As many replicas get their own components again, so that a
   resumed run has the bits of one that was not interrupted; other numbers take the aggregate. */
#include "core/state/state.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/value/cross_device.h"
#include "core/variable/storage.h"

/* One replica's component is the aggregate. */
static bool has_components(const copse_variable *v)
{
    return copse__variable_is_local(v) && v->strategy->group.ranks > 1;
}

copse_status copse__state_add_components(struct copse_state *s)
{
    const copse_strategy *st = s->strategy;
    for (size_t i = 0; i < st->variables.count; i++)
        for (uint32_t r = 0; has_components(st->variables.at[i]) && r < st->group.ranks; r++) {
            copse_variable *v = st->variables.at[i];
            char rank[16];
            snprintf(rank, sizeof rank, "%u", r);
            COPSE_TRY(copse__state_add(
                s, &(struct copse_state_entry){
                       .variable = v,
                       .component = r + 1,
                       .name = COPSE_STATE_TEXT(s, v->name, COPSE_STATE_COMPONENT, rank) }));
        }
    return COPSE_OK;
}

/* ---- values ---- */

copse_status copse__state_read_components(copse_variable *v, void *values)
{
    copse_strategy *st = v->strategy;
    const size_t bytes = COPSE_WORD_BYTES * (size_t)v->count;
    copse_value *parts = NULL, *all;
    if (st->group.workers == 1) {
        for (uint32_t r = 0; r < st->replica_count; r++)
            COPSE_TRY(copse_variable_read(v, r, (char *)values + r * bytes));
        return COPSE_OK;
    }
    char what[COPSE_WHAT_BYTES];
    snprintf(what, sizeof what, "components of '%.32s'", v->name);
    const copse_status mine = copse__components_read(v, &parts);
    copse_status s = copse__value_gather(st, parts, what, mine, &all);
    copse_value_release(&parts);
    COPSE_TRY(s);
    for (size_t r = 0; r < all->count && !s; r++)
        s = copse_value_read(all->items[r], (char *)values + r * bytes);
    copse_value_release(&all);
    return s;
}

copse_status copse__state_write_component(copse_variable *v, uint32_t rank, const void *values)
{
    const copse_strategy *st = v->strategy;
    if (rank < st->group.first || rank - st->group.first >= st->replica_count)
        return COPSE_OK; /* of another worker */
    return copse__storage(v)->change(v, rank - st->group.first, COPSE_CHANGE_SET, values);
}

/* ---- matching ---- */

/* The name of a component of this variable. */
static bool is_component(const copse_variable *v, const char *name)
{
    const size_t length = strlen(v->name), suffix = strlen(COPSE_STATE_COMPONENT);
    return copse__variable_is_local(v) && strncmp(name, v->name, length) == 0 &&
           strncmp(name + length, COPSE_STATE_COMPONENT, suffix) == 0 &&
           name[length + suffix + strspn(name + length + suffix, "0123456789")] == '\0';
}

bool copse__state_is_component(const copse_strategy *st, const char *name)
{
    for (size_t i = 0; i < st->variables.count; i++)
        if (is_component(st->variables.at[i], name))
            return true;
    return false;
}

/* Whether the file was made by as many replicas and has their components. */
static bool is_in_file(const struct copse_state *s, const copse_variable *v)
{
    const char *replicas = copse__state_line(s, "replicas");
    char name[COPSE_VARIABLE_NAME + 32];
    snprintf(name, sizeof name, "%s" COPSE_STATE_COMPONENT "0", v->name);
    return replicas && strtoul(replicas, NULL, 10) == v->strategy->group.ranks &&
           copse_checkpoint_find(s->file, name);
}

copse_status copse__state_match_components(struct copse_state *s)
{
    const copse_strategy *st = s->strategy;
    const char *replicas = copse__state_line(s, "replicas");
    for (size_t i = 0; i < st->variables.count; i++) {
        const copse_variable *v = st->variables.at[i];
        if (!copse__variable_is_local(v) ||
            (st->group.ranks == 1 && replicas && strcmp(replicas, "1") == 0))
            continue;
        if (has_components(v) && is_in_file(s, v))
            return copse__state_add_components(s); /* of all: one that is missing is an error */
        copse__log(&st->ctx->base.log, COPSE_LOG_WARN,
                   "checkpoint: %s has no components of '%s' for %u replicas (it was made with %s "
                   "replicas): each replica "
                   "gets its part of the aggregate, and steps have other bits than without the "
                   "interruption",
                   s->path, v->name, st->group.ranks, replicas ? replicas : "unknown");
        return COPSE_OK;
    }
    return COPSE_OK;
}
