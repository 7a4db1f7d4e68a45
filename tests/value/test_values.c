/* SPDX-License-Identifier: MIT */
/* Values: where they stand, what they tell, regrouping and selecting, and that nothing is left. */
#include "copse/distribute/replica.h"

#include "tests/rig/value/value_run.h"

static copse_variable *make_variable(copse_strategy *st, const char *name, float value)
{
    copse_variable *v;
    const struct copse_variable_params p = { .name = name,
                                             .shape = COPSE_SCALAR,
                                             .values = &value };
    OK(copse_variable_create(st, &p, &v));
    return v;
}

static void arrays_stand_where_they_are_put(void **unused)
{
    static const float numbers[] = { 1, -0.0f, 3, 4, 5, 6 };
    copse_strategy *st = open_all(ctx, 3);
    (void)unused;
    for (uint32_t place = 0; place <= 3; place++) {
        const uint32_t rank = place == 3 ? COPSE_HOST : place;
        float back[6];
        int32_t whole[] = { INT32_MIN, 7 }, whole_back[2];
        copse_value *v, *w, *empty;
        OK(copse_value_create_on(st, rank, COPSE_F32, COPSE_SHAPE(2, 3), numbers, &v));
        OK(copse_value_create_on(st, rank, COPSE_I32, COPSE_SHAPE(2), whole, &w));
        OK(copse_value_create_on(st, rank, COPSE_F32, COPSE_SHAPE(0, 3), NULL, &empty));
        assert_int_equal(copse_value_rank(v), rank);
        assert_int_equal(copse_value_kind_of(v), COPSE_VALUE_ARRAY);
        assert_int_equal(copse_value_type(w), COPSE_I32);
        assert_int_equal(copse_value_shape(v).dims[1], 3);
        OK(copse_value_read(v, back));
        OK(copse_value_read(w, whole_back));
        OK(copse_value_read(empty, back + 5));
        assert_memory_equal(back, numbers, sizeof back);
        assert_memory_equal(whole, whole_back, sizeof whole);
        OK(copse_value_wait(v));
        copse_value_release(&v);
        copse_value_release(&w);
        copse_value_release(&empty);
    }
    copse_value *v;
    FAILS(COPSE_ERR_ARGUMENT, copse_value_create_on(st, 3, COPSE_F32, COPSE_SCALAR, numbers, &v),
          "no replica 3");
    FAILS(COPSE_ERR_ARGUMENT, copse_value_create(ctx, (copse_type)9, COPSE_SCALAR, numbers, &v),
          "element type 9");
    FAILS(COPSE_ERR_ARGUMENT,
          copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(1u << 20, 1u << 20), numbers, &v), "2^31");
    FAILS(COPSE_ERR_ARGUMENT,
          copse_value_create(ctx, COPSE_F32, (copse_shape){ 7, { 1, 1, 1, 1, 1, 1 } }, numbers, &v),
          "rank 7");
    FAILS(COPSE_ERR_ARGUMENT, copse_value_create(ctx, COPSE_F32, COPSE_SCALAR, NULL, &v),
          "'values' is NULL");
    OK(copse_value_scalar(ctx, 2.5f, &v));
    assert_int_equal(copse_value_rank(v), COPSE_HOST);
    assert_true(scalar_of(v) == 2.5f);
    copse_value_release(&v);
    copse_strategy_release(&st);
}

static void values_outlive_their_strategy(void **unused)
{
    copse_strategy *st = open_all(ctx, 2);
    copse_value *v = scalar_on(st, 1, 3.0f),
                *parts[] = { scalar_on(st, 0, 1), scalar_on(st, 1, 2) };
    copse_value *both = per_replica(st, parts);
    (void)unused;
    copse_strategy_release(&st);
    assert_true(scalar_of(v) == 3.0f);
    assert_true(scalar_of(copse_value_item(both, 1)) == 2.0f);
    copse_value_release(&v);
    copse_value_release(&both);
}

static void sparse_values_keep_their_slices(void **unused)
{
    static const int32_t rows[] = { 3, 1, 3 };
    static const float slices[] = { 1, 2, 3, 4, 5, 6 };
    struct copse_sparse_params p = { COPSE_SHAPE(5, 2), 3, rows, slices };
    copse_value *v, *dense;
    int32_t rows_back[3];
    float back[10];
    (void)unused;
    OK(copse_value_sparse(ctx, &p, &v));
    assert_int_equal(copse_value_count(v), 3);
    assert_int_equal(copse_value_shape(v).dims[0], 5);
    OK(copse_value_read_sparse(v, rows_back, back));
    assert_memory_equal(rows, rows_back, sizeof rows);
    assert_memory_equal(slices, back, sizeof slices);
    FAILS(COPSE_ERR_ARGUMENT, copse_value_read(v, back), "only arrays");
    OK(copse_value_densify(v, &dense));
    OK(copse_value_read(dense, back));
    assert_memory_equal(back, ((const float[]){ 0, 0, 3, 4, 0, 0, 6, 8, 0, 0 }), sizeof back);
    copse_value_release(&v);
    copse_value_release(&dense);

    p.indices = (const int32_t[]){ 0, 5, 0 };
    FAILS(COPSE_ERR_ARGUMENT, copse_value_sparse(ctx, &p, &v), "slice 1 has index 5");
    p.indices = (const int32_t[]){ 0, 0, -1 };
    FAILS(COPSE_ERR_ARGUMENT, copse_value_sparse(ctx, &p, &v), "slice 2 has index -1");
    p.dense_shape = COPSE_SCALAR;
    FAILS(COPSE_ERR_ARGUMENT, copse_value_sparse(ctx, &p, &v), "scalar");
    p = (struct copse_sparse_params){ .dense_shape = COPSE_SHAPE(5, 2) };
    OK(copse_value_sparse(ctx, &p, &v));
    OK(copse_value_densify(v, &dense));
    OK(copse_value_read(dense, back));
    assert_true(back[9] == 0.0f);
    copse_value_release(&v);
    copse_value_release(&dense);
}

static void nests_hold_their_items(void **unused)
{
    copse_value *a, *b, *list, *dict, *v;
    (void)unused;
    OK(copse_value_scalar(ctx, 1, &a));
    OK(copse_value_object(ctx, &a, &b));
    OK(copse_value_list(ctx, (copse_value *[]){ a, b }, 2, &list));
    OK(copse_value_dict(ctx, (const char *[]){ "x", "items" }, (copse_value *[]){ b, list }, 2,
                        &dict));
    assert_ptr_equal(copse_value_item(list, 1), b);
    assert_null(copse_value_item(list, 2));
    assert_null(copse_value_name(list, 0));
    assert_ptr_equal(copse_value_find(dict, "items"), list);
    assert_null(copse_value_find(dict, "y"));
    assert_string_equal(copse_value_name(dict, 0), "x");
    assert_ptr_equal(copse_value_pointer(b), &a);
    FAILS(COPSE_ERR_ARGUMENT,
          copse_value_dict(ctx, (const char *[]){ "x", "x" }, (copse_value *[]){ a, b }, 2, &v),
          "'x'");
    FAILS(COPSE_ERR_ARGUMENT, copse_value_list(ctx, (copse_value *[]){ a, NULL }, 2, &v), "item 1");
    for (int depth = 2; depth < 64; depth++) { /* `list` is the second */
        OK(copse_value_list(ctx, &dict, 1, &v));
        copse_value_release(&dict);
        dict = v;
    }
    OK(copse_value_list(ctx, &dict, 0, &v));
    assert_int_equal(copse_value_count(v), 0);
    copse_value_release(&v);
    FAILS(COPSE_ERR_ARGUMENT, copse_value_list(ctx, &dict, 1, &v), "nested deeper than 64");
    copse_value_release(&a);
    copse_value_release(&b);
    copse_value_release(&list);
    copse_value_release(&dict);
}

/* ---- what the brief of the values says ---- */

/* N = 2: the same handle, 10 + id, the component of a mirrored variable. */
static void val_1(void **unused)
{
    copse_strategy *st = open_all(ctx, 2);
    copse_variable *w = make_variable(st, "w", 1);
    copse_value *x, *results[2], *merged;
    int object = 0;
    (void)unused;
    OK(copse_value_object(ctx, &object, &x));
    for (uint32_t r = 0; r < 2; r++) {
        copse_value *items[] = { x, scalar_on(st, r, 10.0f + (float)r), NULL };
        OK(copse__value_of_variable(w, r, &items[2]));
        OK(copse_value_list(ctx, items, 3, &results[r]));
        copse_value_release(&items[1]);
        copse_value_release(&items[2]);
    }
    OK(copse__regroup(st, COPSE_VALUE_PER_REPLICA, results, NULL, 2, &merged));
    assert_int_equal(copse_value_kind_of(merged), COPSE_VALUE_LIST);
    assert_ptr_equal(copse_value_pointer(copse_value_item(merged, 0)), &object);
    const copse_value *each = copse_value_item(merged, 1);
    assert_int_equal(copse_value_kind_of(each), COPSE_VALUE_PER_REPLICA);
    assert_true(scalar_of(copse_value_item(each, 0)) == 10.0f);
    assert_true(scalar_of(copse_value_item(each, 1)) == 11.0f);
    float number;
    FAILS(COPSE_ERR_ARGUMENT, copse_value_read(each, &number), "2 components");
    copse_value *whole = copse_value_item(merged, 2);
    assert_int_equal(copse_value_kind_of(whole), COPSE_VALUE_VARIABLE);
    assert_ptr_equal(copse_value_variable(whole), w);
    assert_int_equal(copse_value_count(whole), 2);

    /* A component is among the local results of its container. */
    copse_value *list[4];
    size_t count;
    copse_local_results(whole, list, 4, &count);
    assert_int_equal(count, 2);
    copse_value *container = copse_value_container(list[1]);
    assert_ptr_equal(copse_value_variable(container), w);
    copse_local_results(container, list, 1, &count);
    assert_int_equal(count, 2);
    assert_true(copse__value_same(list[0], copse_value_item(whole, 0)));
    copse_value_release(&container);

    for (uint32_t r = 0; r < 2; r++)
        copse_value_release(&results[r]);
    copse_value_release(&x);
    copse_value_release(&merged);
    copse_strategy_release(&st);
}

struct returned {
    copse_value *object;
    copse_variable *variable;
};

static copse_status returns_three(copse_replica_context *rc, copse_value *const *args, size_t count,
                                  void *user, copse_value **result)
{
    const struct returned *r = user;
    copse_value *items[] = { r->object, NULL, NULL };
    (void)args, (void)count;
    COPSE_TRY(copse_value_scalar(ctx, 10.0f + (float)copse_replica_id(rc), &items[1]));
    copse_status s = copse_variable_value(r->variable, &items[2]);
    if (s == COPSE_OK)
        s = copse_value_list(ctx, items, 3, result);
    copse_value_release(&items[1]);
    copse_value_release(&items[2]);
    return s;
}

/* The same out of a run, for every number of replicas. */
static void val_1_in_a_run(void **unused)
{
    (void)unused;
    for (uint32_t n = 1; n <= 4; n++) {
        copse_strategy *st = open_all(ctx, n);
        struct returned r = { .variable = make_variable(st, "w", 1) };
        copse_value *merged, *list[4];
        size_t count;
        OK(copse_value_object(ctx, &r, &r.object));
        OK(copse_strategy_run(st, returns_three, NULL, 0, &r, &merged));
        assert_int_equal(copse_value_count(merged), 3);
        assert_ptr_equal(copse_value_item(merged, 0), r.object);
        copse_value *each = copse_value_item(merged, 1), *whole = copse_value_item(merged, 2);
        assert_int_equal(copse_value_kind_of(each),
                         n == 1 ? COPSE_VALUE_ARRAY : COPSE_VALUE_PER_REPLICA);
        copse_local_results(each, list, 4, &count);
        assert_int_equal(count, n);
        for (uint32_t i = 0; i < n; i++) {
            assert_true(scalar_of(list[i]) == 10.0f + (float)i);
            assert_int_equal(copse_value_rank(list[i]), i); /* it stays where it was made */
        }
        assert_int_equal(copse_value_kind_of(whole), COPSE_VALUE_VARIABLE);
        assert_ptr_equal(copse_value_variable(whole), r.variable);
        assert_int_equal(copse_value_count(whole), n);
        copse_value_release(&merged);
        copse_value_release(&r.object);
        copse_strategy_release(&st);
    }
}

/* N = 1: plain. */
static void val_2(void **unused)
{
    copse_strategy *st = open_all(ctx, 1);
    copse_value *ten = scalar_on(st, 0, 10), *merged, *list[2];
    size_t count;
    (void)unused;
    OK(copse__regroup(st, COPSE_VALUE_PER_REPLICA, &ten, NULL, 1, &merged));
    assert_ptr_equal(merged, ten);
    copse_local_results(ten, list, 2, &count);
    assert_int_equal(count, 1);
    assert_ptr_equal(list[0], ten);
    copse_value_release(&ten);
    copse_value_release(&merged);
    copse_strategy_release(&st);
}

/* Replica r returns a list of length r; and what else differs in structure. */
static void val_3(void **unused)
{
    copse_strategy *st = open_all(ctx, 2);
    copse_value *x, *lists[2], *merged, *a, *b, *structure[2];
    (void)unused;
    OK(copse_value_scalar(ctx, 1, &x));
    OK(copse_value_list(ctx, NULL, 0, &lists[0]));
    OK(copse_value_list(ctx, &x, 1, &lists[1]));
    FAILS(COPSE_ERR_SHAPE, copse__regroup(st, COPSE_VALUE_PER_REPLICA, lists, NULL, 2, &merged),
          "result is a list of 0 on replica 0, a list of 1 on replica 1");
    OK(copse__regroup(st, COPSE_VALUE_PER_REPLICA, lists, NULL, 1, &merged));
    assert_int_equal(copse_value_count(merged), 0);
    copse_value_release(&merged);

    FAILS(COPSE_ERR_SHAPE,
          copse__regroup(st, COPSE_VALUE_PER_REPLICA, (copse_value *[]){ x, lists[1] }, NULL, 2,
                         &merged),
          "a single value on replica 0");
    FAILS(
        COPSE_ERR_SHAPE,
        copse__regroup(st, COPSE_VALUE_PER_REPLICA, (copse_value *[]){ NULL, x }, NULL, 2, &merged),
        "replica 0 returned nothing");
    OK(copse__regroup(st, COPSE_VALUE_PER_REPLICA, (copse_value *[]){ NULL, NULL }, NULL, 2,
                      &merged));
    assert_null(merged);

    OK(copse_value_dict(ctx, (const char *[]){ "loss", "more" }, lists, 2, &a));
    OK(copse_value_dict(ctx, (const char *[]){ "more", "loss" },
                        (copse_value *[]){ lists[1], lists[1] }, 2, &b));
    structure[0] = a;
    structure[1] = b;
    FAILS(COPSE_ERR_SHAPE, copse__regroup(st, COPSE_VALUE_PER_REPLICA, structure, NULL, 2, &merged),
          "result.loss is a list of 0");
    copse_value_release(&a);
    OK(copse_value_dict(ctx, (const char *[]){ "loss", "other" }, lists, 2, &a));
    structure[0] = a;
    FAILS(COPSE_ERR_SHAPE,
          copse__regroup(st, COPSE_VALUE_PER_REPLICA, (copse_value *[]){ b, a }, NULL, 2, &merged),
          "'more' on replica 0");
    copse_value_release(&a);
    copse_value_release(&b);

    /* The order of names does not count. */
    copse_value *y;
    OK(copse_value_scalar(ctx, 2, &y));
    OK(copse_value_dict(ctx, (const char *[]){ "p", "q" }, (copse_value *[]){ x, y }, 2, &a));
    OK(copse_value_dict(ctx, (const char *[]){ "q", "p" }, (copse_value *[]){ y, y }, 2, &b));
    OK(copse__regroup(st, COPSE_VALUE_PER_REPLICA, (copse_value *[]){ a, b }, NULL, 2, &merged));
    assert_ptr_equal(copse_value_find(merged, "q"), y);
    assert_ptr_equal(copse_value_item(copse_value_find(merged, "p"), 0), x);
    assert_ptr_equal(copse_value_item(copse_value_find(merged, "p"), 1), y);
    copse_value_release(&merged);
    copse_value_release(&a);
    copse_value_release(&b);
    copse_value_release(&x);
    copse_value_release(&y);
    copse_value_release(&lists[0]);
    copse_value_release(&lists[1]);
    copse_strategy_release(&st);
}

/* Everyone returns the same constant: one local result, whatever N. */
static void val_4(void **unused)
{
    copse_strategy *st = open_all(ctx, 4);
    copse_value *same[4], *merged, *list[4];
    size_t count;
    (void)unused;
    for (int r = 0; r < 4; r++)
        OK(copse_value_object(ctx, &count, &same[r])); /* four wrappers of one pointer */
    OK(copse__regroup(st, COPSE_VALUE_PER_REPLICA, same, NULL, 4, &merged));
    copse_local_results(merged, list, 4, &count);
    assert_int_equal(count, 1);
    assert_ptr_equal(copse_value_pointer(list[0]), &count);
    for (int r = 0; r < 4; r++)
        copse_value_release(&same[r]);
    copse_value_release(&merged);
    copse_strategy_release(&st);
}

/* Per-replica values are refused by updates, mirrored ones give each its own. */
static void val_5(void **unused)
{
    copse_strategy *st = open_all(ctx, 2);
    copse_value *parts[] = { scalar_on(st, 0, 4), scalar_on(st, 1, 4) };
    copse_value *mirrored, *differ, *structure, *out, *whole;
    copse_variable *w = make_variable(st, "w", 1);
    (void)unused;
    OK(copse__value_distributed(st, COPSE_VALUE_MIRRORED, parts, NULL, 2, &mirrored));
    differ = per_replica(st, parts);
    FAILS(COPSE_ERR_ARGUMENT, copse__select_update(differ, 0, &out), "replicas may differ");
    OK(copse_value_list(ctx, &differ, 1, &structure));
    FAILS(COPSE_ERR_ARGUMENT, copse__select_update(structure, 0, &out), "replicas may differ");
    OK(copse__select_replica(structure, 1, &out));
    assert_ptr_equal(copse_value_item(out, 0), copse_value_item(differ, 1));
    copse_value_release(&out);
    copse_value_release(&structure);
    for (uint32_t r = 0; r < 2; r++) {
        OK(copse__select_update(mirrored, r, &out));
        assert_int_equal(copse_value_rank(out), r);
        assert_ptr_equal(out, copse_value_item(mirrored, r));
        copse_value_release(&out);
    }
    assert_true(scalar_of(mirrored) == 4.0f);

    OK(copse__value_of_variable(w, COPSE_ALL_RANKS, &whole));
    OK(copse__select_update(whole, 1, &out));
    assert_int_equal(copse_value_rank(out), 1);
    assert_true(scalar_of(out) == 1.0f);
    copse_value_release(&out);
    OK(copse__select_replica(whole, 1, &out));
    assert_ptr_equal(out, whole);
    assert_true(scalar_of(out) == 1.0f);
    copse_value_release(&out);
    OK(copse_value_list(ctx, &whole, 1, &structure)); /* nothing to select: the structure itself */
    OK(copse__select_replica(structure, 0, &out));
    assert_ptr_equal(out, structure);
    copse_value_release(&out);
    FAILS(COPSE_ERR_ARGUMENT,
          copse_value_per_replica(st, (copse_value *[]){ structure, whole }, 2, &out),
          "component 0");
    FAILS(COPSE_ERR_ARGUMENT, copse_value_per_replica(st, &whole, 1, &out), "1 components for 2");
    copse_value_release(&structure);
    copse_value_release(&whole);
    copse_value_release(&mirrored);
    copse_value_release(&differ);
    copse_strategy_release(&st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(arrays_stand_where_they_are_put),
        TEST(values_outlive_their_strategy),
        TEST(sparse_values_keep_their_slices),
        TEST(nests_hold_their_items),
        TEST(val_1),
        TEST(val_1_in_a_run),
        TEST(val_2),
        TEST(val_3),
        TEST(val_4),
        TEST(val_5),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
