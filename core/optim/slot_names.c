/* SPDX-License-Identifier: MIT */
/* Names of slots in checkpoints: "<variable>/<slot>" of a trainer's optimizer,
   "<variable>/<optimizer>/<slot>" of a named one. No other array may have one of them: the file
   could not hold both. */
#include "core/optim/optimizer.h"

#include <stdio.h>

#define NAME_ROOM 1025 /* of an array in a checkpoint, with the zero */

static void put_name(const struct copse_optimizer *o, const char *variable, uint32_t slot,
                     char text[NAME_ROOM])
{
    snprintf(text, NAME_ROOM, "%s/%s%s%s", variable, o->name, o->name[0] ? "/" : "",
             o->rule.slot_names[slot]);
}

/* A slot of this variable, or of all parts as one array, has the name. */
static bool has_slot(const struct copse_optimizer *o, const copse_variable *v, const char *name,
                     uint32_t *slot)
{
    char text[NAME_ROOM];
    for (*slot = 0; *slot < o->rule.slots; ++*slot)
        for (int is_whole = 0; is_whole <= (v->whole != NULL); is_whole++) {
            put_name(o, is_whole ? v->whole->name : v->name, *slot, text);
            if (strcmp(text, name) == 0)
                return true;
        }
    return false;
}

static const copse_variable *owner_of(const struct copse_optimizer *o, const char *name,
                                      uint32_t *slot)
{
    const copse_strategy *st = o->strategy;
    for (size_t i = 0; i < st->variables.count; i++) {
        const copse_variable *v = st->variables.at[i];
        /* with which a part's name begins */
        const size_t length = strlen(v->whole ? v->whole->name : v->name);
        if (strncmp(name, v->name, length) == 0 && name[length] == '/' &&
            copse__optimizer_bucket(o, v) != COPSE_NO_BUCKET && has_slot(o, v, name, slot))
            return v;
    }
    return NULL;
}

copse_status copse__slots_check_name(const copse_strategy *st, const char *name)
{
    uint32_t slot;
    for (const struct copse_optimizer *o = NULL; (o = copse__optimizer_next(st, o));) {
        const copse_variable *v = owner_of(o, name, &slot);
        if (v)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "variable '%s': slot '%s' of variable '%s' has this name in "
                              "checkpoints: choose another one",
                              name, o->rule.slot_names[slot], v->name);
    }
    return COPSE_OK;
}

/* No variable has the name, and no slot that is in the same files. */
static copse_status check_slot(const struct copse_optimizer *o, const copse_variable *v,
                               uint32_t slot, const char *name)
{
    const copse_strategy *st = o->strategy;
    const char *other = NULL;
    uint32_t unused;
    for (size_t i = 0; i < st->variables.count && !other; i++) {
        const copse_variable *at = st->variables.at[i];
        if (strcmp(at->name, name) == 0 || (at->whole && strcmp(at->whole->name, name) == 0))
            other = "a variable";
    }
    for (const struct copse_optimizer *p = NULL; !other && (p = copse__optimizer_next(st, p));)
        /* a file is of one trainer */
        if (p != o && (p->name[0] || o->name[0]) && owner_of(p, name, &unused))
            other = "a slot of another optimizer";
    return other
               ? copse_fail(COPSE_ERR_ARGUMENT,
                            "optimizer: slot '%s' of variable '%s' is '%s' in checkpoints, and %s "
                            "has this name: choose another name for the variable%s",
                            o->rule.slot_names[slot], v->name, name, other,
                            o->name[0] ? " or the optimizer" : "")
               : COPSE_OK;
}

copse_status copse__slots_check(const struct copse_optimizer *o, copse_variable *const *list,
                                size_t count)
{
    char name[NAME_ROOM];
    for (size_t i = 0; i < count; i++)
        for (uint32_t slot = 0; slot < o->rule.slots; slot++)
            for (int is_whole = 0; is_whole <= (list[i]->whole != NULL); is_whole++) {
                put_name(o, is_whole ? list[i]->whole->name : list[i]->name, slot, name);
                COPSE_TRY(check_slot(o, list[i], slot, name));
            }
    return COPSE_OK;
}
