/* SPDX-License-Identifier: MIT */
/* Wrong use, as a table: every call in every wrong place is refused with the error that names it,
   leaves the thread where it was, and the strategy as usable as before. */
#include <math.h>

#include "tests/rig/misuse_rig.h"

static copse_status update_nothing(copse_strategy *st, copse_value *target,
                                   copse_value *const *args, size_t count, void *user,
                                   copse_value **result)
{
    (void)st, (void)target, (void)args, (void)count, (void)user, (void)result;
    return COPSE_OK;
}

/* ---- the calls ---- */

static copse_status enter(struct stage *s)
{
    return copse_scope_enter(s->st);
}
static copse_status enter_other(struct stage *s)
{
    return copse_scope_enter(s->other);
}
static copse_status leave(struct stage *s)
{
    return copse_scope_leave(s->st);
}
static copse_status leave_other(struct stage *s)
{
    return copse_scope_leave(s->other);
}

static copse_status run(struct stage *s)
{
    return copse_strategy_run(s->st, nothing, NULL, 0, NULL, NULL);
}

static copse_status run_other(struct stage *s)
{
    return copse_strategy_run(s->other, nothing, NULL, 0, NULL, NULL);
}

static copse_status run_no_function(struct stage *s)
{
    return copse_strategy_run(s->st, NULL, NULL, 0, NULL, NULL);
}

static copse_status run_too_many(struct stage *s)
{
    copse_value *args[COPSE_MAX_ARGUMENTS + 1] = { 0 };
    return copse_strategy_run(s->st, nothing, args, COPSE_MAX_ARGUMENTS + 1, NULL, NULL);
}

static copse_status merge_ended(struct stage *s)
{
    return copse_merge_call(s->ended, merge_nothing, NULL, 0, NULL, NULL);
}

static copse_status merge_null(struct stage *s)
{
    (void)s;
    return copse_merge_call(NULL, merge_nothing, NULL, 0, NULL, NULL);
}

static copse_status all_reduce_ended(struct stage *s)
{
    copse_value *out = NULL;
    return released(copse_replica_all_reduce(s->ended, COPSE_REDUCE_SUM, s->one, &out), &out);
}

static copse_status reduce_with(copse_strategy *st, copse_reduce_op op, copse_value *value)
{
    copse_value *out = NULL;
    return released(copse_strategy_reduce(st, op, value, NULL, &out), &out);
}

static copse_status reduce_parts(struct stage *s)
{
    return reduce_with(s->st, COPSE_REDUCE_SUM, s->parts);
}

static copse_status reduce_other(struct stage *s)
{
    return reduce_with(s->other, COPSE_REDUCE_SUM, s->one);
}

static copse_status sum_of_identical(struct stage *s)
{
    return reduce_with(s->st, COPSE_REDUCE_SUM, s->one);
}

static copse_status unknown_operation(struct stage *s)
{
    return reduce_with(s->st, (copse_reduce_op)2, s->parts);
}

static copse_status reduce_nothing(struct stage *s)
{
    return reduce_with(s->st, COPSE_REDUCE_SUM, NULL);
}

static copse_status reduce_to(struct stage *s, const uint32_t *ranks, size_t count)
{
    const struct copse_destinations to = { .ranks = ranks, .count = count };
    copse_value *out = NULL;
    return released(copse_strategy_reduce_to(s->st, COPSE_REDUCE_MEAN, s->parts, &to, &out), &out);
}

static const uint32_t ranks[] = { 0, 64, 0 };

static copse_status reduce_to_first(struct stage *s)
{
    return reduce_to(s, ranks, 1);
}
static copse_status empty_destinations(struct stage *s)
{
    return reduce_to(s, ranks, 0);
}
static copse_status unknown_destination(struct stage *s)
{
    return reduce_to(s, ranks + 1, 1);
}

static copse_status batch(struct stage *s, size_t count)
{
    copse_value *out = NULL;
    return released(
        copse_strategy_batch_reduce_to(s->st, COPSE_REDUCE_SUM, &s->parts, NULL, count, &out),
        &out);
}

static copse_status batch_of_one(struct stage *s)
{
    return batch(s, 1);
}
static copse_status empty_batch(struct stage *s)
{
    return batch(s, 0);
}

static copse_status broadcast(struct stage *s)
{
    copse_value *out = NULL;
    return released(copse_strategy_broadcast(s->st, s->one, NULL, &out), &out);
}

static copse_status broadcast_parts(struct stage *s)
{
    copse_value *out = NULL;
    return released(copse_strategy_broadcast(s->st, s->parts, NULL, &out), &out);
}

static copse_status update(struct stage *s)
{
    return copse_strategy_update(s->st, s->sum, update_nothing, NULL, 0, NULL, NULL);
}

static copse_status update_with_parts(struct stage *s)
{
    return copse_strategy_update(s->st, s->sum, update_nothing, &s->parts, 1, NULL, NULL);
}

static copse_status update_foreign(struct stage *s)
{
    return copse_strategy_update(s->st, s->foreign, update_nothing, NULL, 0, NULL, NULL);
}

static copse_status non_slot(struct stage *s, const uint32_t *list, size_t count)
{
    return copse_strategy_update_non_slot(s->st, list, count, update_nothing, NULL, 0, NULL, NULL);
}

static copse_status non_slot_first(struct stage *s)
{
    return non_slot(s, ranks, 1);
}
static copse_status non_slot_none(struct stage *s)
{
    return non_slot(s, ranks, 0);
}
static copse_status non_slot_unknown(struct stage *s)
{
    return non_slot(s, ranks + 1, 1);
}
static copse_status non_slot_twice(struct stage *s)
{
    static const uint32_t twice[] = { 1, 1 };
    return non_slot(s, twice, 2);
}

static copse_status make_foreign(struct stage *s)
{
    copse_variable *v;
    return copse_variable_create(
        s->other, &(struct copse_variable_params){ .name = "foreign", .shape = COPSE_SCALAR }, &v);
}

static copse_status assign_plain(struct stage *s)
{
    return copse_assign(s->plain, s->one);
}
static copse_status assign_foreign(struct stage *s)
{
    return copse_assign(s->foreign, s->one);
}
static copse_status assign_parts(struct stage *s)
{
    return copse_assign(s->sum, s->parts);
}
static copse_status add_to_local_sum(struct stage *s)
{
    return copse_assign_add(s->local, s->one);
}
static copse_status assign_null(struct stage *s)
{
    return copse_assign(s->sum, NULL);
}

static copse_status assign_wrong_shape(struct stage *s)
{
    copse_value *v = NULL;
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(1), (const float[]){ 1 }, &v));
    return released(copse_assign(s->sum, v), &v);
}

static copse_status read_foreign(struct stage *s)
{
    copse_value *out = NULL;
    return released(copse_read(s->foreign, &out), &out);
}

static copse_status set_operations(struct stage *s)
{
    return copse_strategy_set_cross_device(s->st, NULL);
}

/* ---- the table ---- */

enum where { OUTSIDE = 1, SCOPE = 2, REPLICA = 4, MERGE = 8, UPDATE = 16, ACROSS = 1 | 2 | 8 | 16 };

static const struct row {
    const char *name;
    body_fn *body;
    unsigned where;
    copse_status want;
    const char *word;
    uint32_t least; /* replicas, for which the row holds */
} rows[] = {
    { "nested scope of the same strategy", enter, REPLICA, COPSE_ERR_CONTEXT, "in a replica", 1 },
    { "nested foreign scope", enter_other, SCOPE | MERGE | UPDATE, COPSE_ERR_CONTEXT, "do not mix",
      1 },
    { "foreign scope in a replica", enter_other, REPLICA, COPSE_ERR_CONTEXT, "in a replica", 1 },
    { "leave without enter", leave, OUTSIDE | REPLICA | MERGE | UPDATE, COPSE_ERR_CONTEXT,
      "not the innermost", 1 },
    { "leave another's scope", leave_other, OUTSIDE | SCOPE | REPLICA | MERGE | UPDATE,
      COPSE_ERR_CONTEXT, "not the innermost", 1 },
    { "run in a replica", run, REPLICA, COPSE_ERR_CONTEXT, "merge function", 1 },
    { "run", run, ACROSS, COPSE_OK, "", 1 },
    { "run of another strategy", run_other, SCOPE | MERGE | UPDATE, COPSE_ERR_CONTEXT,
      "for another strategy", 1 },
    { "run of another in a replica", run_other, REPLICA, COPSE_ERR_CONTEXT, "merge function", 1 },
    { "run without function", run_no_function, ACROSS | REPLICA, COPSE_ERR_ARGUMENT, "'fn' is NULL",
      1 },
    { "too many arguments", run_too_many, ACROSS | REPLICA, COPSE_ERR_ARGUMENT, "at most 32", 1 },
    { "merge without a replica", merge_ended, SCOPE | MERGE | UPDATE, COPSE_ERR_CONTEXT,
      "in no replica context", 1 },
    { "merge with an ended context", merge_ended, OUTSIDE, COPSE_ERR_CONTEXT, "another strategy",
      1 },
    { "merge with an ended context", merge_ended, REPLICA, COPSE_ERR_CONTEXT, "has ended", 1 },
    { "merge without a context", merge_null, OUTSIDE | REPLICA, COPSE_ERR_CONTEXT, "another", 1 },
    { "merge without a context", merge_null, SCOPE | MERGE | UPDATE, COPSE_ERR_CONTEXT,
      "in no replica context", 1 },
    { "all-reduce without a replica", all_reduce_ended, SCOPE | MERGE | UPDATE, COPSE_ERR_CONTEXT,
      "in no replica context", 1 },
    { "reduce", reduce_parts, ACROSS, COPSE_OK, "", 1 },
    { "reduce in a replica", reduce_parts, REPLICA, COPSE_ERR_CONTEXT, "reduce: called in replica",
      1 },
    { "reduce_to in a replica", reduce_to_first, REPLICA, COPSE_ERR_CONTEXT, "merge function", 1 },
    { "batch reduce in a replica", batch_of_one, REPLICA, COPSE_ERR_CONTEXT, "merge function", 1 },
    { "broadcast", broadcast, ACROSS, COPSE_OK, "", 1 },
    { "broadcast in a replica", broadcast, REPLICA, COPSE_ERR_CONTEXT, "merge function", 1 },
    { "update in a replica", update, REPLICA, COPSE_ERR_CONTEXT, "merge function", 1 },
    { "non-slot update in a replica", non_slot_first, REPLICA, COPSE_ERR_CONTEXT, "merge function",
      1 },
    { "choice of operations in a replica", set_operations, REPLICA, COPSE_ERR_CONTEXT,
      "merge function", 1 },
    { "reduce of another strategy", reduce_other, SCOPE | MERGE | UPDATE, COPSE_ERR_CONTEXT,
      "for another strategy", 1 },
    { "sum of one identical value", sum_of_identical, ACROSS, COPSE_ERR_ARGUMENT,
      "SUM of one value", 2 },
    { "sum of one identical value", sum_of_identical, ACROSS, COPSE_OK, "", 0 },
    { "unknown operation", unknown_operation, ACROSS, COPSE_ERR_ARGUMENT, "unknown operation 2",
      1 },
    { "nothing to reduce", reduce_nothing, ACROSS, COPSE_ERR_ARGUMENT, "NULL", 1 },
    { "empty destinations", empty_destinations, ACROSS, COPSE_ERR_ARGUMENT, "destination", 1 },
    { "unknown destination", unknown_destination, ACROSS, COPSE_ERR_ARGUMENT, "64", 1 },
    { "empty batch", empty_batch, ACROSS, COPSE_ERR_ARGUMENT, "empty batch", 1 },
    { "broadcast of a per-replica value", broadcast_parts, ACROSS, COPSE_ERR_ARGUMENT, "", 2 },
    { "update with a per-replica value", update_with_parts, ACROSS, COPSE_ERR_ARGUMENT,
      "may differ", 1 },
    { "update of a foreign variable", update_foreign, ACROSS, COPSE_ERR_ARGUMENT,
      "another strategy", 1 },
    { "update of no rank", non_slot_none, ACROSS, COPSE_ERR_ARGUMENT, "0 ranks", 1 },
    { "update of an unknown rank", non_slot_unknown, ACROSS, COPSE_ERR_ARGUMENT, "rank 64", 1 },
    { "update of a rank twice", non_slot_twice, ACROSS, COPSE_ERR_ARGUMENT, "rank 1 is twice", 2 },
    { "variable of another strategy", make_foreign, SCOPE | REPLICA | MERGE | UPDATE,
      COPSE_ERR_CONTEXT, "for another strategy", 1 },
    { "assign without aggregation", assign_plain, REPLICA, COPSE_ERR_ARGUMENT,
      "without an aggregation", 1 },
    { "assign without aggregation", assign_plain, ACROSS, COPSE_OK, "", 1 },
    { "assign a foreign variable", assign_foreign, SCOPE | REPLICA | MERGE | UPDATE,
      COPSE_ERR_CONTEXT, "another strategy", 1 },
    { "assign a foreign variable", assign_foreign, OUTSIDE, COPSE_OK, "", 1 },
    { "read a foreign variable", read_foreign, SCOPE | REPLICA | MERGE | UPDATE, COPSE_ERR_CONTEXT,
      "another strategy", 1 },
    { "assign a per-replica value", assign_parts, ACROSS, COPSE_ERR_ARGUMENT, "reduce it first",
      1 },
    { "assign nothing", assign_null, ACROSS | REPLICA, COPSE_ERR_ARGUMENT, "NULL", 1 },
    { "assign another shape", assign_wrong_shape, ACROSS, COPSE_ERR_SHAPE, "[1]", 1 },
    { "add to a replica-local sum", add_to_local_sum, OUTSIDE | SCOPE | MERGE, COPSE_ERR_ARGUMENT,
      "from outside", 1 },
    { "add to a replica-local sum", add_to_local_sum, REPLICA | UPDATE, COPSE_OK, "", 1 },
};

/* ---- the places ---- */

/* Call a row's body where the thread is; COPSE_OK when it did what the table says. */
static copse_status try_row(struct stage *s)
{
    const struct standing before = standing();
    const copse_status got = s->row->body(s);
    if (got != s->row->want || (got && !strstr(copse_last_error(), s->row->word)))
        return copse_fail(COPSE_ERR_INTERNAL, "%s, not %s about '%s': %s", copse_status_name(got),
                          copse_status_name(s->row->want), s->row->word, copse_last_error());
    CHECK(stands(before));
    return COPSE_OK;
}

static copse_status in_replica(copse_replica_context *rc, copse_value *const *args, size_t count,
                               void *user, copse_value **result)
{
    (void)rc, (void)args, (void)count, (void)result;
    return try_row(user);
}

static copse_status in_merge(copse_strategy *st, copse_value *const *args, size_t count, void *user,
                             copse_value **result)
{
    (void)st, (void)args, (void)count, (void)result;
    return try_row(user);
}

static copse_status before_merge(copse_replica_context *rc, copse_value *const *args, size_t count,
                                 void *user, copse_value **result)
{
    (void)args, (void)count, (void)result;
    COPSE_TRY(copse_merge_call(rc, in_merge, NULL, 0, user, NULL));
    return copse_require_replica(rc);
}

static copse_status in_update(copse_strategy *st, copse_value *target, copse_value *const *args,
                              size_t count, void *user, copse_value **result)
{
    (void)st, (void)target, (void)args, (void)count, (void)result;
    return try_row(user);
}

static copse_status in_scope(struct stage *s)
{
    COPSE_TRY(copse_scope_enter(s->st));
    const copse_status got = try_row(s);
    COPSE_TRY(copse_scope_leave(s->st));
    return got;
}

static copse_status try_in(struct stage *s, unsigned where)
{
    switch (where) {
    case OUTSIDE:
        return try_row(s);
    case SCOPE:
        return in_scope(s);
    case REPLICA:
        return copse_strategy_run(s->st, in_replica, NULL, 0, s, NULL);
    case MERGE:
        return copse_strategy_run(s->st, before_merge, NULL, 0, s, NULL);
    default:
        return copse_strategy_update(s->st, s->sum, in_update, NULL, 0, s, NULL);
    }
}

static void every_row_in_every_place(void **unused)
{
    unsigned tried = 0;
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        struct stage s;
        set_stage(&s, st, n);
        for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
            s.row = &rows[i];
            if (rows[i].least == 0 ? n > 1 : n < rows[i].least)
                continue;
            for (unsigned where = OUTSIDE; where <= UPDATE; where *= 2) {
                if (!(rows[i].where & where))
                    continue;
                if (try_in(&s, where) != COPSE_OK)
                    fail_msg("'%s' in place %u, %u replicas: %s", rows[i].name, where, n,
                             copse_last_error());
                tried++;
            }
            still_works(st, n);
        }
        copse_value_release(&s.one);
        copse_value_release(&s.parts);
    }
    printf("%u refusals and permissions\n", tried);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_in_every_place),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
