/* SPDX-License-Identifier: MIT */
/* Variables: creation, initial values, properties. */
#include <math.h>
#include <stdio.h>

#include "core/replica/replica_threads.h"
#include "core/variable/storage.h"

static copse_status check_known(const struct copse_variable_params *p)
{
    if (!copse__type_is_computed(p->type))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "variable: element type %d (%s): f32 or i32 is needed", (int)p->type,
                          copse_type_name(p->type));
    COPSE_TRY(
        copse_need_known("variable", "initializer", p->initializer, COPSE_INIT_TRUNCATED_NORMAL));
    COPSE_TRY(
        copse_need_known("variable", "synchronization", p->synchronization, COPSE_SYNC_ON_READ));
    return copse_need_known("variable", "aggregation", p->aggregation,
                            COPSE_AGGREGATION_ONLY_FIRST_REPLICA);
}

static copse_status variable_check(const copse_strategy *st, const struct copse_variable_params *p)
{
    if (p->shape.rank > COPSE_MAX_RANK || copse__elements(p->shape) == 0 ||
        copse__elements(p->shape) >= (uint64_t)1 << 31)
        return copse_fail(COPSE_ERR_ARGUMENT, "variable '%s': needs 1 to 2^31-1 elements", p->name);
    COPSE_TRY(copse_note(check_known(p), "for variable '%s'", p->name));
    if (p->type == COPSE_I32 && (p->initializer > COPSE_INIT_ONES || p->scale != 0.0f))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "variable '%s': an i32 variable starts from zeros, ones or "
                          "given values, without a scale",
                          p->name);
    if (p->is_sparse && (p->type != COPSE_F32 || p->shape.rank < 2))
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "variable '%s': a sparse variable is f32 of rank 2 or more, a table of rows", p->name);
    if (!isfinite(p->scale))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "variable '%s': its scale is %g: a finite number is needed", p->name,
                          (double)p->scale);
    if (p->synchronization == COPSE_SYNC_NONE && !st->table->has_one_copy)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "variable '%s': the %s strategy has no variables without "
                          "synchronization; ON_WRITE mirrors it, ON_READ keeps it "
                          "to each replica",
                          p->name, st->table->name);
    if (p->colocate_with)
        COPSE_TRY(copse_note(copse__variable_of(p->colocate_with, st, "colocate_with"),
                             "of variable '%s'", p->name));
    return COPSE_OK;
}

copse_status copse__name_check(const char *name, const char *what)
{
    const size_t size = name ? strlen(name) : 0, valid = copse__utf8_valid(name, size);
    if (size == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: needs a name", what);
    if (valid < size)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "%s: its name is not UTF-8 at byte %zu, and no checkpoint could hold it",
                          what, valid);
    if (size > COPSE_VARIABLE_NAME)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "%s: its name has %zu bytes, and may have at most %d bytes", what, size,
                          COPSE_VARIABLE_NAME);
    if (strcmp(name, "__metadata__") == 0 ||
        strncmp(name, "application/", strlen("application/")) == 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "%s: the name '%s' is reserved in checkpoints: choose another one", what,
                          name);
    return COPSE_OK;
}

/* "<variable>/replica_<i>" */
static bool is_component_name(const char *name, const char *variable)
{
    const size_t length = strlen(variable), suffix = strlen("/replica_");
    return strncmp(name, variable, length) == 0 &&
           strncmp(name + length, "/replica_", suffix) == 0 &&
           strspn(name + length + suffix, "0123456789") == strlen(name + length + suffix);
}

/* No variable has the name of a component of another one. */
static copse_status check_components(const copse_strategy *st,
                                     const struct copse_variable_params *p)
{
    for (size_t i = 0; i < st->variables.count; i++) {
        const copse_variable *v = st->variables.at[i];
        if (v->synchronization == COPSE_SYNC_ON_READ && is_component_name(p->name, v->name))
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "variable '%s': a component of the replica-local variable '%s' has "
                              "this name in checkpoints: choose another one",
                              p->name, v->name);
        if (p->synchronization == COPSE_SYNC_ON_READ && is_component_name(v->name, p->name))
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "variable '%s': its component has the name of variable '%s' in "
                              "checkpoints: choose another one",
                              p->name, v->name);
    }
    return COPSE_OK;
}

copse_status copse__name_is_free(const copse_strategy *st, const char *name)
{
    for (size_t i = 0; i < st->variables.count; i++) {
        const copse_variable *v = st->variables.at[i];
        if (strcmp(v->name, name) == 0 || (v->whole && strcmp(v->whole->name, name) == 0))
            return copse_fail(COPSE_ERR_ARGUMENT, "variable '%s': the name is taken", name);
    }
    return st->check_name ? st->check_name(st, name) : COPSE_OK;
}

static bool will_be_trained(const struct copse_variable_params *p)
{
    return p->type == COPSE_F32 && !p->is_frozen && p->synchronization != COPSE_SYNC_ON_READ;
}

static copse_initializer default_initializer(const struct copse_variable_params *p)
{
    return will_be_trained(p) && p->shape.rank >= 2 ? COPSE_INIT_GLOROT_UNIFORM : COPSE_INIT_ZEROS;
}

static copse_status first_values(struct copse_mem *mem, const struct copse_variable_params *p,
                                 void **out)
{
    struct copse_variable_params own = *p;
    const uint64_t count = copse__elements(p->shape);
    void *values = copse__alloc(mem, (size_t)count, 4);
    COPSE_TRY(copse_need_memory(values, "variable '%s'", p->name));
    copse_status s = COPSE_OK;
    if (p->values)
        memcpy(values, p->values, (size_t)count * 4);
    else {
        if (p->initializer == COPSE_INIT_DEFAULT)
            own.initializer = default_initializer(p);
        s = copse__initialize(mem, &own, values);
    }
    if (s != COPSE_OK)
        copse__free(mem, values);
    else
        *out = values;
    return s;
}

copse_status copse__variable_first_values(const copse_strategy *st,
                                          const struct copse_variable_params *p, void **values)
{
    *values = NULL;
    COPSE_TRY(variable_check(st, p));
    return first_values(&st->ctx->base.mem, p, values);
}

/* Servers take dense gradients. */
static bool will_be_sparse(const copse_strategy *st, const struct copse_variable_params *p)
{
    return p->is_sparse && will_be_trained(p) && st->storage == &copse__on_replicas;
}

/* Whether the store gives it memory. */
static bool will_be_placed(const copse_strategy *st, const struct copse_variable_params *p)
{
    return will_be_trained(p) && !will_be_sparse(st, p);
}

/* A variable of the store keeps its values until it has a place; the others have theirs at once,
   and a server takes a copy of either. */
static copse_status variable_place(copse_variable *v, const struct copse_variable_params *p,
                                   void **values)
{
    const bool is_placed = will_be_placed(v->strategy, p);
    if (!is_placed)
        COPSE_TRY(copse__components_make(v, *values));
    if (copse__storage(v)->keep)
        COPSE_TRY(copse__storage(v)->keep(v, p->colocate_with, *values));
    if (is_placed) {
        v->initial = *values;
        *values = NULL;
    }
    return COPSE_OK;
}

static copse_variable *new_variable(copse_strategy *st, const struct copse_variable_params *p)
{
    struct copse_mem *mem = &st->ctx->base.mem;
    copse__mutex_lock(&st->ctx->lock);
    copse_variable *v = copse__handle_take(&st->ctx->variables, mem, sizeof *v);
    copse__mutex_unlock(&st->ctx->lock);
    if (!v)
        return NULL;
    v->strategy = st;
    v->count = copse__elements(p->shape);
    v->synchronization =
        p->synchronization == COPSE_SYNC_AUTO ? COPSE_SYNC_ON_WRITE : p->synchronization;
    v->aggregation = p->aggregation;
    v->is_trained = will_be_trained(p);
    v->is_sparse = will_be_sparse(st, p);
    v->tensor.op = &copse_op_variable;
    v->tensor.type = p->type;
    v->tensor.shape = p->shape;
    v->tensor.needs_gradient = v->is_trained;
    v->tensor.takes_rows = v->is_sparse;
    v->tensor.variable = v;
    v->tensor.name = v->name = copse__strdup(mem, p->name);
    return v;
}

static copse_status variable_make(copse_strategy *st, const struct copse_variable_params *p,
                                  copse_variable **out)
{
    struct copse_mem *mem = &st->ctx->base.mem;
    void *values = NULL;
    copse_variable *v = NULL;
    copse_status s = variable_check(st, p);
    if (s == COPSE_OK)
        s = copse__name_is_free(st, p->name);
    if (s == COPSE_OK)
        s = check_components(st, p);
    if (s == COPSE_OK) {
        v = new_variable(st, p);
        s = v && v->name && COPSE_RESERVE(mem, &st->variables, st->variables.count + 1)
                ? first_values(mem, p, &values)
                : copse_no_memory("variable '%s'", p->name);
    }
    /* the other workers learn of an error */
    s = copse__initial_value_broadcast(st, p, values, s);
    if (s == COPSE_OK)
        s = variable_place(v, p, &values);
    copse__free(mem, values);
    if (s != COPSE_OK) {
        if (v)
            copse__variable_retire(v);
        return s;
    }
    st->variables.at[st->variables.count++] = v;
    v->index = (uint32_t)st->variables.count - 1;
    *out = v;
    return COPSE_OK;
}

/* ---- made by replicas ---- */

/* The next variable of a replica: replica 0 has made it before. NULL for replica 0 itself, which
   makes it. */
static copse_status find_made(struct copse_frame *f, const struct copse_variable_params *p,
                              copse_variable **out)
{
    if (f->rank == 0)
        return COPSE_OK;
    const struct copse_run *run = f->run;
    const uint32_t at = f->created;
    if (at >= run->created.count)
        return copse_fail(COPSE_ERR_CONTEXT,
                          "variable '%s': replica %u asks for its variable number %u, "
                          "but replica 0 has made %zu",
                          p->name, f->rank, at + 1, run->created.count);
    copse_variable *v = run->created.at[at];
    if (strcmp(v->name, p->name) != 0)
        return copse_fail(COPSE_ERR_CONTEXT,
                          "variable '%s': replica %u asks for this name where replica "
                          "0 made '%s'; all replicas make the same ones in one order",
                          p->name, f->rank, v->name);
    f->created++;
    if (v->tensor.type != p->type || !copse__shape_equal(v->tensor.shape, p->shape))
        return copse_fail(COPSE_ERR_SHAPE,
                          "variable '%s': replica %u asks for %s %s, replica 0 made %s %s", v->name,
                          f->rank, copse_type_name(p->type), COPSE_SHAPE_TEXT(p->shape),
                          copse_type_name(v->tensor.type), COPSE_SHAPE_TEXT(v->tensor.shape));
    *out = v;
    return COPSE_OK;
}

copse_status copse_variable_create(copse_strategy *st, const struct copse_variable_params *p,
                                   copse_variable **out)
{
    COPSE_TRY(copse_need("variable", st, p, out));
    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_variable_params, p));
    COPSE_TRY(copse__name_check(p->name, "variable"));
    COPSE_TRY(copse_note(copse__require_device(st, "variable"), "for variable '%s'", p->name));
    struct copse_frame *f = copse__context_top();
    if (f && f->strategy != st)
        return copse_fail(COPSE_ERR_CONTEXT,
                          "variable '%s': made for another strategy; the thread is %s", p->name,
                          copse__context_place());
    COPSE_TRY(copse_note(copse__callback_check("copse_variable_create", st), "for variable '%s'",
                         p->name));
    if (f && f->handle)
        COPSE_TRY(find_made(f, p, out));
    if (*out)
        return COPSE_OK;
    copse_variable *v;
    COPSE_TRY(variable_make(st, p, &v));
    if (f && f->handle && !COPSE_PUSH(&st->ctx->base.mem, &f->run->created, v))
        return copse_no_memory("variable '%s'", v->name);
    *out = v;
    return COPSE_OK;
}

/* ---- properties ---- */

copse_tensor *copse_variable_tensor(copse_variable *v)
{
    return v ? &v->tensor : NULL;
}

COPSE_PROPERTY(const char *, copse_variable_name, copse_variable, x->name, "")
COPSE_PROPERTY(copse_shape, copse_variable_shape, copse_variable, x->tensor.shape, COPSE_SCALAR)
COPSE_PROPERTY(copse_type, copse_variable_type, copse_variable, x->tensor.type, COPSE_F32)
COPSE_PROPERTY(copse_synchronization, copse_variable_synchronization, copse_variable,
               x->synchronization, COPSE_SYNC_AUTO)
COPSE_PROPERTY(copse_aggregation, copse_variable_aggregation, copse_variable, x->aggregation,
               COPSE_AGGREGATION_NONE)
COPSE_PROPERTY(bool, copse_variable_is_trained, copse_variable, x->is_trained, false)

void copse_variable_component_name(const copse_variable *v, uint32_t replica, char *text,
                                   size_t room)
{
    if (!text)
        return;
    if (!v || replica == 0)
        snprintf(text, room, "%s", copse_variable_name(v));
    else
        snprintf(text, room, "%s/replica_%u", v->name, replica);
}
