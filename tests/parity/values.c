/* SPDX-License-Identifier: MIT */
/* Requests about values and variables: runs, merges, reductions, assignments. */
#include <stdlib.h>
#include <string.h>

#include "tests/parity/parity.h"

static copse_reduce_op op_of(const char *word)
{
    copse_reduce_op op;
    if (copse_reduce_op_parse(word, &op) != COPSE_OK)
        malformed(word);
    return op;
}

/* One array is a plain value, and so an identical one; as many as replicas are one for each. */
static copse_status given(const struct parity *p, const struct request *r, bool is_plain,
                          copse_value **out)
{
    if (is_plain)
        return value_of(p, &r->arrays[0], out);
    return per_replica_of(p, r->arrays, r->array_count, out);
}

/* reduce OP AXIS|none each|plain A... */
copse_status reduce_command(struct parity *p, const struct request *r)
{
    const copse_reduce_op op = op_of(r->words[1]);
    const int axis = atoi(r->words[2]);
    copse_value *v, *out;
    COPSE_TRY(given(p, r, strcmp(r->words[3], "plain") == 0, &v));
    copse_status s =
        copse_strategy_reduce(p->st, op, v, strcmp(r->words[2], "none") == 0 ? NULL : &axis, &out);
    copse_value_release(&v);
    COPSE_TRY(s);
    s = say_value(out);
    copse_value_release(&out);
    return s;
}

/* ---- functions of replicas ---- */

struct call {
    const struct parity *p;
    const struct request *r;
    copse_variable *variable;
    copse_value *same;
    copse_reduce_op op;
};

static const struct array *own_array(const struct call *c, const copse_replica_context *rc)
{
    return &c->r->arrays[copse_replica_id(rc) % c->r->array_count];
}

static copse_status run_and_say(struct parity *p, copse_replica_fn *fn, struct call *c,
                                copse_value *arg)
{
    copse_value *out;
    COPSE_TRY(copse_strategy_run(p->st, fn, &arg, arg ? 1 : 0, c, &out));
    const copse_status s = out ? say_value(out) : COPSE_OK;
    copse_value_release(&out);
    return s;
}

/* 2 x + id, of the component that the run gives. */
static copse_status doubles(copse_replica_context *rc, copse_value *const *args, size_t count,
                            void *user, copse_value **result)
{
    const struct call *c = user;
    const struct array *a = own_array(c, rc);
    float *x = malloc(4 * a->count + 4);
    (void)count;
    copse_status s = x ? copse_value_read(args[0], x) : COPSE_ERR_NO_MEMORY;
    for (size_t i = 0; s == COPSE_OK && i < a->count; i++)
        x[i] = 2 * x[i] + (float)copse_replica_id(rc);
    if (s == COPSE_OK)
        s = copse_value_create(c->p->ctx, COPSE_F32, a->shape, x, result);
    free(x);
    return s;
}

/* run A...: 2 x + id of every replica */
copse_status run_command(struct parity *p, const struct request *r)
{
    struct call c = { .p = p, .r = r };
    copse_value *v;
    COPSE_TRY(given(p, r, false, &v));
    const copse_status s = run_and_say(p, doubles, &c, v);
    copse_value_release(&v);
    return s;
}

static copse_status sums(copse_strategy *st, copse_value *const *args, size_t count, void *user,
                         copse_value **result)
{
    (void)count, (void)user;
    return copse_strategy_reduce(st, COPSE_REDUCE_SUM, args[0], NULL, result);
}

static copse_status meets(copse_replica_context *rc, copse_value *const *args, size_t count,
                          void *user, copse_value **result)
{
    const struct call *c = user;
    copse_value *v, *s;
    float x, sum;
    (void)count;
    COPSE_TRY(copse_value_read(args[0], &x));
    x += (float)copse_replica_id(rc);
    COPSE_TRY(copse_value_scalar(c->p->ctx, x, &v));
    copse_status status = copse_merge_call(rc, sums, &v, 1, NULL, &s);
    copse_value_release(&v);
    COPSE_TRY(status);
    status = copse_value_read(s, &sum);
    copse_value_release(&s);
    COPSE_TRY(status);
    return copse_value_scalar(c->p->ctx, sum + x, result);
}

/* merge X: v = x + id; the sum of all v comes back; sum + v of every replica */
copse_status merge_command(struct parity *p, const struct request *r)
{
    struct call c = { .p = p, .r = r };
    copse_value *v;
    COPSE_TRY(given(p, r, true, &v));
    const copse_status s = run_and_say(p, meets, &c, v);
    copse_value_release(&v);
    return s;
}

static copse_status all_reduces(copse_replica_context *rc, copse_value *const *args, size_t count,
                                void *user, copse_value **result)
{
    const struct call *c = user;
    copse_value *v;
    (void)args, (void)count;
    COPSE_TRY(value_of(c->p, own_array(c, rc), &v));
    const copse_status s = copse_replica_all_reduce(rc, c->op, v, result);
    copse_value_release(&v);
    return s;
}

/* all_reduce OP A... */
copse_status all_reduce_command(struct parity *p, const struct request *r)
{
    struct call c = { .p = p, .r = r, .op = op_of(r->words[1]) };
    return run_and_say(p, all_reduces, &c, NULL);
}

/* ---- variables ---- */

copse_variable *find_variable(const struct parity *p, const char *name)
{
    copse_variable *const *list;
    size_t count;
    copse_strategy_variables(p->st, &list, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(copse_variable_name(list[i]), name) == 0)
            return list[i];
    malformed(name);
    return NULL;
}

/* variable NAME SYNC AGGREGATION A */
copse_status variable_command(struct parity *p, const struct request *r)
{
    static const char *const syncs[] = { "auto", "none", "on_write", "on_read", NULL };
    static const char *const aggregations[] = { "none", "sum", "mean", "first", NULL };
    copse_variable *v;
    const struct copse_variable_params params = {
        .name = r->words[1],
        .shape = r->arrays[0].shape,
        .type = r->arrays[0].type,
        .values = r->arrays[0].values,
        .synchronization = (copse_synchronization)place_of(r->words[2], syncs),
        .aggregation = (copse_aggregation)place_of(r->words[3], aggregations),
    };
    return copse_variable_create(p->st, &params, &v);
}

typedef copse_status assign_fn(copse_variable *v, copse_value *value);

static assign_fn *assignment_of(const char *word)
{
    static const char *const names[] = { "assign", "add", "sub", NULL };
    static assign_fn *const functions[] = { copse_assign, copse_assign_add, copse_assign_sub };
    const size_t i = place_of(word, names);
    if (i == 3)
        malformed(word);
    return functions[i];
}

static copse_status assigns(copse_replica_context *rc, copse_value *const *args, size_t count,
                            void *user, copse_value **result)
{
    const struct call *c = user;
    copse_value *v = c->same ? copse_value_retain(c->same) : NULL;
    (void)args, (void)count, (void)result;
    if (!v)
        COPSE_TRY(value_of(c->p, own_array(c, rc), &v));
    const copse_status s = assignment_of(c->r->words[2])(c->variable, v);
    copse_value_release(&v);
    return s;
}

/* replica NAME assign|add|sub each|same A... */
copse_status replica_command(struct parity *p, const struct request *r)
{
    struct call c = { .p = p, .r = r, .variable = find_variable(p, r->words[1]) };
    if (strcmp(r->words[3], "same") == 0)
        COPSE_TRY(value_of(p, &r->arrays[0], &c.same));
    const copse_status s = run_and_say(p, assigns, &c, NULL);
    copse_value_release(&c.same);
    return s;
}

/* cross NAME assign|add|sub A */
copse_status cross_command(struct parity *p, const struct request *r)
{
    copse_value *v;
    COPSE_TRY(value_of(p, &r->arrays[0], &v));
    copse_status s = copse_scope_enter(p->st);
    if (s == COPSE_OK) {
        s = assignment_of(r->words[2])(find_variable(p, r->words[1]), v);
        const copse_status left = copse_scope_leave(p->st);
        s = s ? s : left;
    }
    copse_value_release(&v);
    return s;
}

static copse_status assigns_component(copse_strategy *st, copse_value *target,
                                      copse_value *const *args, size_t count, void *user,
                                      copse_value **result)
{
    (void)st, (void)count, (void)user, (void)result;
    return copse_assign(copse_value_variable(target), args[0]);
}

/* update NAME A: assigned to every component by an update function */
copse_status update_command(struct parity *p, const struct request *r)
{
    copse_value *v;
    COPSE_TRY(value_of(p, &r->arrays[0], &v));
    const copse_status s = copse_strategy_update(p->st, find_variable(p, r->words[1]),
                                                 assigns_component, &v, 1, NULL, NULL);
    copse_value_release(&v);
    return s;
}

/* Rows `indices` of the variable's shape. */
static copse_status slices_of(const struct call *c, const struct array *indices, copse_value **out)
{
    const struct array *values = indices + 1;
    const struct copse_sparse_params params = { .dense_shape = copse_variable_shape(c->variable),
                                                .count = (uint32_t)indices->count,
                                                .indices = indices->values,
                                                .values = values->values };
    return copse_value_sparse(c->p->ctx, &params, out);
}

static copse_status scatter(const struct call *c, const struct array *indices)
{
    static const char *const names[] = { "add", "sub", "update", "mul", "div", "min", "max", NULL };
    static assign_fn *const functions[] = { copse_scatter_add,    copse_scatter_sub,
                                            copse_scatter_update, copse_scatter_mul,
                                            copse_scatter_div,    copse_scatter_min,
                                            copse_scatter_max };
    const size_t i = place_of(c->r->words[2], names);
    copse_value *slices;
    if (i == sizeof functions / sizeof *functions)
        return malformed(c->r->words[2]);
    COPSE_TRY(slices_of(c, indices, &slices));
    const copse_status s = functions[i](c->variable, slices);
    copse_value_release(&slices);
    return s;
}

static copse_status scatters(copse_replica_context *rc, copse_value *const *args, size_t count,
                             void *user, copse_value **result)
{
    const struct call *c = user;
    (void)args, (void)count, (void)result;
    return scatter(c, &c->r->arrays[2 * copse_replica_id(rc)]);
}

/* scatter NAME add|sub|update|mul|div|min|max each INDICES VALUES..., a pair for every replica; or
   outside INDICES VALUES */
copse_status scatter_command(struct parity *p, const struct request *r)
{
    struct call c = { .p = p, .r = r, .variable = find_variable(p, r->words[1]) };
    return strcmp(r->words[3], "each") == 0 ? run_and_say(p, scatters, &c, NULL)
                                            : scatter(&c, r->arrays);
}

/* read NAME: as a whole, across replicas */
copse_status read_command(struct parity *p, const struct request *r)
{
    copse_value *v;
    COPSE_TRY(copse_scope_enter(p->st));
    copse_status s = copse_read(find_variable(p, r->words[1]), &v);
    const copse_status left = copse_scope_leave(p->st);
    COPSE_TRY(s);
    s = left ? left : say_value(v);
    copse_value_release(&v);
    return s;
}

/* components NAME */
copse_status components_command(struct parity *p, const struct request *r)
{
    copse_variable *v = find_variable(p, r->words[1]);
    const copse_shape shape = copse_variable_shape(v);
    size_t count = 1;
    for (uint32_t i = 0; i < shape.rank; i++)
        count *= shape.dims[i];
    for (uint32_t i = 0; i < copse_strategy_replicas(p->st); i++) {
        void *values = malloc(4 * count);
        copse_status s = values ? copse_variable_read(v, i, values) : COPSE_ERR_NO_MEMORY;
        if (s == COPSE_OK)
            s = say_array(copse_variable_type(v), shape, values);
        free(values);
        COPSE_TRY(s);
    }
    return COPSE_OK;
}
