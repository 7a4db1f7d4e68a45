/* SPDX-License-Identifier: MIT */
/* The inputs of a call: the leaves of a structure of values, by name. */
#include <stdio.h>

#include "core/call/call.h"
#include "core/value/cross_device.h"

/* The name of a leaf is the path to it: names and numbers, joined by points. */
struct path {
    char text[COPSE_INPUT_NAME];
    size_t length;
};

static copse_status extend_path(const struct path *p, const char *name, size_t number,
                                struct path *out)
{
    const char *point = p->length ? "." : "";
    *out = *p;
    char *end = out->text + p->length;
    const size_t room = sizeof out->text - p->length;
    const int n = name ? snprintf(end, room, "%s%s", point, name)
                       : snprintf(end, room, "%s%zu", point, number);
    out->length = p->length + (size_t)n;
    return n > 0 && (size_t)n < room
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT,
                            "call: the name of input '%s...' is empty or longer than %d bytes",
                            out->text, COPSE_INPUT_NAME - 1);
}

static copse_status check_leaf(const struct copse_call *c, const copse_value *v, const char *name)
{
    const copse_strategy *st = c->calls->owner.strategy;
    const char *who = c->calls->owner.name;
    if (v->kind != COPSE_VALUE_ARRAY && v->kind != COPSE_VALUE_VARIABLE)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "%s: input '%s' is %s; inputs are arrays and variables", who, name,
                          v->kind == COPSE_VALUE_SPARSE ? "a sparse value (copse_value_densify)"
                                                        : "an object of the application");
    if (v->kind == COPSE_VALUE_VARIABLE && v->strategy != st)
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: input '%s' is variable '%s' of another strategy",
                          who, name, v->variable->name);
    if (v->kind == COPSE_VALUE_VARIABLE && v->rank != COPSE_ALL_RANKS && v->rank != c->rank)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "%s: input '%s' is the component of variable '%s' on replica %u", who,
                          name, v->variable->name, v->rank);
    if (c->input_count == COPSE_MAX_INPUTS)
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: input '%s' is one more than the %d of a call",
                          who, name, COPSE_MAX_INPUTS);
    return COPSE_OK;
}

static copse_status add_leaf(struct copse_call *c, copse_value *v, const char *name)
{
    COPSE_TRY(check_leaf(c, v, name));
    const uint32_t i = c->input_count++;
    snprintf(c->names[i], sizeof c->names[i], "%s", name);
    c->variables[i] = v->variable;
    c->values[i] = copse_value_retain(v);
    return COPSE_OK;
}

static copse_status add_leaves(struct copse_call *c, copse_value *v, const struct path *p)
{
    if (!copse__value_is_structure(v))
        return add_leaf(c, v, p->text);
    for (size_t i = 0; i < v->count; i++) {
        struct path item;
        COPSE_TRY(extend_path(p, copse_value_name(v, i), i, &item));
        COPSE_TRY(add_leaves(c, v->items[i], &item));
    }
    return COPSE_OK;
}

copse_status copse__call_inputs_take(struct copse_call *c, copse_value *args, const char *name,
                                     bool is_alone)
{
    copse_value *mine;
    if (!args)
        return COPSE_OK;
    COPSE_TRY(is_alone ? copse__select_update(args, c->rank, &mine)
                       : copse__select_replica(args, c->rank, &mine));
    const copse_status s = copse__value_is_structure(mine)
                               ? add_leaves(c, mine, &(struct path){ .length = 0 })
                               : add_leaf(c, mine, name);
    copse_value_release(&mine);
    return s;
}

copse_status copse__call_inputs_write(const struct copse_call *c)
{
    const struct copse_recording *r = &c->recording->base;
    for (uint32_t i = 0; i < c->input_count; i++)
        if (!c->variables[i] && r->inputs[i].at.buffer)
            COPSE_TRY(copse_note(copse__value_write_to(c->calls->owner.strategy, c->rank,
                                                       c->values[i], r->inputs[i].at),
                                 "in input '%s'", c->names[i]));
    return COPSE_OK;
}

void copse__call_inputs_release(struct copse_call *c)
{
    copse__values_release(c->values, c->input_count);
    c->input_count = 0;
}
