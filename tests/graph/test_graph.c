/* SPDX-License-Identifier: MIT */
/* The graph without devices: building, shape errors, differentiation, the memory plan, the double
   evaluation; and programs on host:0: segments, dead nodes, placements, cut dispatches. */
#include <math.h>

#include "copse/ops/scan.h"
#include "tests/rig/graph_rig.h"
#include "tests/rig/one_context.h"

#include "core/base/random.h"
#include "core/graph/graph.h"
#include "core/graph/plan.h"

/* ---- building ---- */

static void error_names_op_shapes_and_expectation(void **state)
{
    (void)state;
    copse_graph *g;
    OK(copse_graph_create(ctx, &g));
    copse_tensor *a = copse_graph_input(g, "a", COPSE_F32, COPSE_SHAPE(64, 10));
    copse_tensor *b = copse_graph_input(g, "b", COPSE_F32, COPSE_SHAPE(12, 3));
    assert_int_equal(rig_failure(g, copse_matmul(g, a, b, false, false)), COPSE_ERR_SHAPE);
    assert_non_null(strstr(copse_last_error(), "matmul"));
    assert_non_null(strstr(copse_last_error(), "f32[64, 10]"));
    assert_non_null(strstr(copse_last_error(), "f32[12, 3]"));
    assert_int_equal(rig_failure(g, copse_add(g, a, b)), COPSE_ERR_SHAPE);
    assert_non_null(strstr(copse_last_error(), "add"));
    copse_graph_release(&g);
}

static void operands_of_another_graph_are_refused(void **state)
{
    (void)state;
    copse_graph *g, *other;
    OK(copse_graph_create(ctx, &g));
    OK(copse_graph_create(ctx, &other));
    copse_tensor *a = copse_graph_input(g, "a", COPSE_F32, COPSE_SHAPE(2));
    copse_tensor *b = copse_graph_input(other, "b", COPSE_F32, COPSE_SHAPE(2));
    assert_int_equal(rig_failure(g, copse_add(g, a, b)), COPSE_ERR_ARGUMENT);
    copse_graph_release(&other);
    copse_graph_release(&g);
}

static void result_of_2_31_elements_is_refused(void **state)
{
    (void)state;
    copse_graph *g;
    OK(copse_graph_create(ctx, &g));
    copse_tensor *a = copse_graph_input(g, "a", COPSE_F32, COPSE_SHAPE(1));
    assert_int_equal(rig_failure(g, copse_broadcast_to(g, a, COPSE_SHAPE(65536, 32768))),
                     COPSE_ERR_SHAPE);
    /* but this one is empty */
    OK(rig_failure(g, copse_broadcast_to(g, a, COPSE_SHAPE(65536, 0, 65536))));
    copse_graph_release(&g);
}

/* ---- failures ---- */

static void a_graph_keeps_its_first_failure(void **state)
{
    (void)state;
    copse_graph *g;
    OK(copse_graph_create(ctx, &g));
    copse_tensor *a = copse_graph_input(g, "a", COPSE_F32, COPSE_SHAPE(2));
    copse_tensor *b = copse_graph_input(g, "b", COPSE_F32, COPSE_SHAPE(3));
    assert_int_equal(copse_graph_status(g), COPSE_OK);
    copse_tensor *bad = copse_add(g, a, b);
    const size_t nodes = g->nodes.count;
    assert_non_null(bad);
    /* later calls are silent and add nothing, whatever is wrong with them */
    copse__fail_again("before");
    copse_tensor *y = copse_relu(g, copse_matmul(g, bad, NULL, false, false)), *parts[2], *dx;
    copse_tensor *indices, *values = copse_top_k(g, y, 1, &indices);
    copse_split(g, y, 0, NULL, 2, parts);
    copse_gradients(g, y, NULL, &a, 1, &dx);
    copse_report(g, "y", y);
    copse_tensor *const results[] = { y, values, indices, parts[0], parts[1], dx };
    for (size_t i = 0; i < COPSE_COUNT(results); i++)
        assert_ptr_equal(results[i], bad);
    assert_string_equal(copse_last_error(), "before");
    assert_int_equal(g->nodes.count, nodes);
    assert_int_equal(copse_tensor_shape(bad).rank, 0);
    FAILS(COPSE_ERR_SHAPE, copse_graph_status(g), "add: operands f32[2] and f32[3]");
    FAILS(COPSE_ERR_SHAPE, copse_graph_status(g), "add"); /* it stays */
    copse_device *dev;
    copse_function *f;
    OK(copse_device_open(ctx, "host:0", NULL, &dev));
    FAILS(COPSE_ERR_SHAPE,
          copse_function_create(
              dev, &(struct copse_function_params){ .graph = g, .outputs = &a, .output_count = 1 },
              &f),
          "add: operands f32[2] and f32[3]");
    copse_device_release(&dev);
    copse_graph_release(&g);
}

static void failed_tensors_of_elsewhere_are_refused(void **state)
{
    (void)state;
    copse_graph *g, *other;
    OK(copse_graph_create(ctx, &g));
    OK(copse_graph_create(ctx, &other));
    copse_tensor *a = copse_graph_input(g, "a", COPSE_F32, COPSE_SHAPE(2));
    copse_tensor *far = copse_relu(other, NULL), *nowhere = copse_relu(NULL, a);
    FAILS(COPSE_ERR_ARGUMENT, rig_failure(g, copse_add(g, a, far)), "on another graph");
    FAILS(COPSE_ERR_ARGUMENT, rig_failure(g, copse_matmul(g, nowhere, a, false, false)),
          "the graph was NULL");
    OK(rig_failure(g, copse_relu(g, a)));
    copse_graph_release(&other);
    copse_graph_release(&g);
}

static void applications_fail_a_graph(void **state)
{
    (void)state;
    copse_graph *g;
    OK(copse_graph_create(ctx, &g));
    FAILS(COPSE_ERR_IO, rig_failure(g, copse_graph_fail(g, COPSE_ERR_IO, "no table")), "no table");
    FAILS(COPSE_ERR_ARGUMENT, rig_failure(g, copse_graph_fail(g, COPSE_OK, "x")), "COPSE_OK");
    (void)copse_graph_fail(g, COPSE_ERR_IO, "first");
    (void)copse_graph_fail(g, COPSE_ERR_SHAPE, "second");
    FAILS(COPSE_ERR_IO, copse_graph_status(g), "first");
    copse_graph_release(&g);
}

/* ---- order ---- */

/* relu(dropout(a)) + tanh(dropout(b)) made from one side or the other, as compilers do. */
static copse_graph *two_sides(bool is_from_right, copse_tensor **y)
{
    copse_graph *g;
    copse_tensor *sides[2], *in[2];
    OK(copse_graph_create(ctx, &g));
    for (size_t k = 0; k < 2; k++) {
        const size_t i = is_from_right ? 1 - k : k;
        in[i] = copse_graph_input(g, i ? "b" : "a", COPSE_F32, COPSE_SHAPE(2));
        sides[i] = copse_dropout(g, in[i], 0.5f, true);
        sides[i] = i ? copse_tanh(g, sides[i]) : copse_relu(g, sides[i]);
    }
    *y = copse_add(g, sides[0], sides[1]);
    return g;
}

static void order_of_nodes_is_that_of_operands(void **state)
{
    (void)state;
    static const char *const names[] = { "input",   "input", "dropout", "relu",
                                         "dropout", "tanh",  "add" };
    for (int i = 0; i < 2; i++) {
        copse_tensor *y;
        copse_graph *g = two_sides(i == 1, &y);
        OK(copse__graph_order(g, &y, 1));
        assert_int_equal(g->nodes.count, COPSE_COUNT(names));
        for (uint32_t n = 0; n < COPSE_COUNT(names); n++) {
            const copse_tensor *t = g->nodes.at[n];
            assert_string_equal(t->op->name, names[n]);
            assert_int_equal(t->id, n);
            if (t->op->stream_at > 0) /* the first member */
                assert_int_equal(*(const uint32_t *)t->attr, n);
        }
        assert_string_equal(g->nodes.at[0]->name, "a");
        /* what is settled stays, later nodes follow */
        copse_tensor *x = g->nodes.at[0], *dx;
        copse_gradients(g, y, y, &x, 1, &dx);
        OK(copse__graph_order(g, &dx, 1));
        for (uint32_t n = 0; n < COPSE_COUNT(names); n++)
            assert_string_equal(g->nodes.at[n]->op->name, names[n]);
        for (uint32_t n = 0; n < g->nodes.count; n++)
            for (uint32_t k = 0; k < g->nodes.at[n]->in_count; k++)
                assert_true(g->nodes.at[n]->in[k]->id < n);
        copse_graph_release(&g);
    }
}

/* ---- differentiation ---- */

static copse_status feed_values(void *user, const copse_tensor *leaf, void *values, size_t count)
{
    const double *const *all = user;
    memcpy(values, all[leaf->id], count * sizeof(double));
    return COPSE_OK;
}

static void contributions_of_a_shared_operand_are_summed(void **state)
{
    (void)state;
    copse_graph *g;
    copse_tensor *dx;
    const double values[3] = { 1.0, -2.0, 3.0 };
    const double *leaves[1] = { values };
    double result[3];
    double *const results[1] = { result };
    OK(copse_graph_create(ctx, &g));
    copse_tensor *x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(3));
    copse_tensor *y = copse_mul(g, x, x); /* x^2 + x: 2 x + 1 */
    y = copse_add(g, y, x);
    y = copse_sum(g, y, NULL, 0, false);
    copse_gradients(g, y, NULL, &x, 1, &dx);
    OK(copse__reference_run(
        &(struct copse_reference_params){ .graph = g, .feed = feed_values, .user = leaves }, &dx, 1,
        results));
    for (int i = 0; i < 3; i++)
        assert_true(result[i] == 2.0 * values[i] + 1.0);
    copse_graph_release(&g);
}

static void independent_tensor_has_a_zero_gradient(void **state)
{
    (void)state;
    copse_graph *g;
    copse_tensor *x, *z, *y, *wanted[2], *dx[2];
    const double values[2] = { 1.0, 2.0 };
    const double *leaves[2] = { values, values };
    double result[2] = { 9.0, 9.0 };
    double *const results[1] = { result };
    OK(copse_graph_create(ctx, &g));
    x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(2));
    z = copse_graph_input(g, "z", COPSE_F32, COPSE_SHAPE(2));
    y = copse_sum(g, x, NULL, 0, false);
    wanted[0] = x;
    wanted[1] = z;
    copse_gradients(g, y, NULL, wanted, 2, dx);
    OK(copse__reference_run(
        &(struct copse_reference_params){ .graph = g, .feed = feed_values, .user = leaves }, &dx[1],
        1, results));
    assert_true(result[0] == 0.0 && result[1] == 0.0);
    copse_graph_release(&g);
}

static void gradient_needs_a_scalar_or_a_start(void **state)
{
    (void)state;
    copse_graph *g;
    copse_tensor *dx;
    OK(copse_graph_create(ctx, &g));
    copse_tensor *x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(2));
    copse_tensor *y = copse_exp(g, x);
    copse_gradients(g, y, NULL, &x, 1, &dx);
    assert_int_equal(copse__graph_take_failure(g), COPSE_ERR_SHAPE);
    copse_gradients(g, y, x, &x, 1, &dx);
    copse_graph_release(&g);
}

/* ---- memory plan ---- */

static void planned_values_never_share_bytes_while_both_live(void **state)
{
    (void)state;
    struct copse_mem *mem = &ctx->base.mem;
    struct copse_stream s;
    copse__stream_init(&s, 5, 0);
    for (int round = 0; round < 200; round++) {
        struct copse_allocation allocations[60];
        size_t arena_bytes[64];
        uint32_t arenas;
        const size_t count = 1 + copse__stream_below(&s, 60);
        const size_t limit = 256 * (16 + copse__stream_below(&s, 200));
        for (size_t i = 0; i < count; i++) {
            allocations[i].size = 256 * (1 + copse__stream_below(&s, 16));
            allocations[i].first = copse__stream_below(&s, 50);
            allocations[i].last = allocations[i].first + copse__stream_below(&s, 20);
        }
        OK(copse__plan(mem, allocations, count, limit, arena_bytes, 64, &arenas));
        for (size_t i = 0; i < count; i++) {
            assert_true(allocations[i].arena < arenas);
            assert_true(allocations[i].offset + allocations[i].size <=
                        arena_bytes[allocations[i].arena]);
            assert_true(arena_bytes[allocations[i].arena] <= limit);
            for (size_t k = 0; k < i; k++) {
                const bool in_time = allocations[i].first <= allocations[k].last &&
                                     allocations[k].first <= allocations[i].last;
                const bool in_space =
                    allocations[i].arena == allocations[k].arena &&
                    allocations[i].offset < allocations[k].offset + allocations[k].size &&
                    allocations[k].offset < allocations[i].offset + allocations[i].size;
                assert_false(in_time && in_space);
            }
        }
    }
}

static void plan_reuses_memory(void **state)
{
    (void)state;
    struct copse_allocation allocations[100];
    size_t arena_bytes[4];
    uint32_t arenas;
    for (uint32_t i = 0; i < 100; i++)
        allocations[i] = (struct copse_allocation){ .size = 1024, .first = i, .last = i + 1 };
    OK(copse__plan(&ctx->base.mem, allocations, 100, 1 << 20, arena_bytes, 4, &arenas));
    assert_int_equal(arenas, 1);
    assert_int_equal(arena_bytes[0], 2048);
    allocations[0].size = 2 << 20;
    assert_int_equal(
        copse__plan(&ctx->base.mem, allocations, 100, 1 << 20, arena_bytes, 4, &arenas),
        COPSE_ERR_NO_DEVICE_MEMORY);
}

/* ---- functions and programs, on every device ---- */

static void for_each_device(void (*test)(copse_device *dev))
{
    const struct copse_device_info *list;
    size_t count;
    copse_context_devices(ctx, &list, &count);
    for (size_t i = 0; i < count; i++) {
        copse_device *dev;
        if (!list[i].is_usable)
            continue;
        printf("  %s\n", list[i].id);
        OK(copse_device_open(ctx, list[i].id, NULL, &dev));
        test(dev);
        copse_device_release(&dev);
    }
}

static void check_function(copse_device *dev)
{
    copse_graph *g;
    copse_function *f;
    copse_tensor *x, *unused, *outputs[3];
    float values[6] = { 1, 2, 3, 4, 5, 6 }, y[6];
    OK(copse_graph_create(ctx, &g));
    x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(2, 3));
    unused = copse_graph_input(g, "unused", COPSE_F32, COPSE_SHAPE(5));
    outputs[0] = copse_square(g, x);
    outputs[1] = copse_reshape(g, outputs[0], COPSE_SHAPE(6)); /* a view of another output */
    outputs[2] = x;                                            /* a leaf as an output */
    OK(copse_function_create(
        dev, &(struct copse_function_params){ .graph = g, .outputs = outputs, .output_count = 3 },
        &f));
    copse_graph_release(&g); /* the function does not need it any more */
    for (int run = 0; run < 3; run++) {
        values[0] = (float)run;
        OK(copse_function_write(f, x, values));
        OK(copse_function_write(f, unused, values));
        OK(copse_function_run(f));
        for (size_t o = 0; o < 3; o++) {
            OK(copse_function_read(f, o, y));
            for (int i = 0; i < 6; i++)
                assert_true(y[i] == (o == 2 ? values[i] : values[i] * values[i]));
        }
    }
    copse_function_release(&f);
}

static void function_runs_with_views_and_leaves_as_outputs(void **state)
{
    (void)state;
    for_each_device(check_function);
}

/* A long chain of elementwise nodes with short lives needs a few buffers only. */
static void check_arena(copse_device *dev)
{
    enum { N = 1000 };
    static const uint32_t zero_words[COPSE_STEP_WORDS];
    copse_graph *g;
    copse_queue *q;
    copse_buffer *step, *out;
    copse_program *p;
    float values[N], result[N];
    OK(copse_graph_create(ctx, &g));
    copse_tensor *x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(N));
    copse_tensor *y = x;
    for (int i = 0; i < 40; i++)
        y = copse_neg(g, y);
    OK(rig_failure(g, copse_exp(g, y))); /* nobody asks for it */
    OK(copse_queue_create(dev, &q));
    OK(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = sizeof zero_words }, &step));
    OK(copse_queue_write(q, step, 0, zero_words, sizeof zero_words));
    OK(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = 4096 }, &out));
    for (uint32_t cut = 0; cut <= 3; cut += 3) { /* 3: dispatches of three groups at most */
        const struct copse_placement at = { y, { out, 0, N * 4 }, 0 };
        OK(copse__program_create(&(struct copse_program_params){ .graph = g,
                                                                 .queue = q,
                                                                 .placements = &at,
                                                                 .placement_count = 1,
                                                                 .step = { step, 0, 256 },
                                                                 .max_groups = cut },
                                 &p));
        assert_true(copse__program_arena_bytes(p) <= 3 * 4096);
        struct copse_binding input;
        assert_true(copse__program_input(p, x, &input));
        for (int i = 0; i < N; i++)
            values[i] = (float)i - 500.0f;
        OK(copse_queue_write(q, input.buffer, input.offset, values, sizeof values));
        OK(copse__program_replay(p, 0));
        OK(copse_queue_read(q, out, 0, result, sizeof result));
        OK(copse_queue_finish(q));
        assert_memory_equal(values, result, sizeof values);
        copse__program_release(&p);
    }
    copse_buffer_release(&out);
    copse_buffer_release(&step);
    copse_queue_release(&q);
    copse_graph_release(&g);
}

static void arena_is_shared_by_lifetime_and_dispatches_can_be_cut(void **state)
{
    (void)state;
    for_each_device(check_arena);
}

/* Two placements in two segments: the first is complete before the second segment runs. */
static void check_segments(copse_device *dev)
{
    copse_graph *g;
    copse_queue *q;
    copse_buffer *step, *out;
    copse_program *p;
    struct copse_binding input;
    const float values[4] = { 1, 2, 3, 4 };
    float result[4];
    OK(copse_graph_create(ctx, &g));
    copse_tensor *x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(4));
    copse_tensor *first = copse_add(g, x, x);
    copse_tensor *second = copse_square(g, first);
    OK(copse_queue_create(dev, &q));
    OK(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = 256 }, &step));
    OK(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = 512 }, &out));
    OK(copse_queue_fill(q, out, 0, 512, 0));
    const struct copse_placement at[2] = { { first, { out, 0, 16 }, 0 },
                                           { second, { out, 256, 16 }, 1 } };
    OK(copse__program_create(&(struct copse_program_params){ .graph = g,
                                                             .queue = q,
                                                             .placements = at,
                                                             .placement_count = 2,
                                                             .bucket_count = 2,
                                                             .step = { step, 0, 256 } },
                             &p));
    assert_int_equal(copse__program_segments(p), 2);
    assert_true(copse__program_input(p, x, &input));
    OK(copse_queue_write(q, input.buffer, input.offset, values, sizeof values));
    OK(copse__program_replay(p, 0));
    OK(copse_queue_read(q, out, 0, result, sizeof result));
    OK(copse_queue_finish(q));
    for (int i = 0; i < 4; i++)
        assert_true(result[i] == 2.0f * values[i]);
    OK(copse_queue_read(q, out, 256, result, sizeof result));
    OK(copse_queue_finish(q));
    for (int i = 0; i < 4; i++)
        assert_true(result[i] == 0.0f);
    OK(copse__program_replay(p, 1));
    OK(copse_queue_read(q, out, 256, result, sizeof result));
    OK(copse_queue_finish(q));
    for (int i = 0; i < 4; i++)
        assert_true(result[i] == 4.0f * values[i] * values[i]);
    copse__program_release(&p);
    copse_buffer_release(&out);
    copse_buffer_release(&step);
    copse_queue_release(&q);
    copse_graph_release(&g);
}

static void segments_end_where_their_bucket_is_complete(void **state)
{
    (void)state;
    for_each_device(check_segments);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_names_op_shapes_and_expectation),
        cmocka_unit_test(operands_of_another_graph_are_refused),
        cmocka_unit_test(result_of_2_31_elements_is_refused),
        cmocka_unit_test(a_graph_keeps_its_first_failure),
        cmocka_unit_test(failed_tensors_of_elsewhere_are_refused),
        cmocka_unit_test(applications_fail_a_graph),
        cmocka_unit_test(order_of_nodes_is_that_of_operands),
        cmocka_unit_test(contributions_of_a_shared_operand_are_summed),
        cmocka_unit_test(independent_tensor_has_a_zero_gradient),
        cmocka_unit_test(gradient_needs_a_scalar_or_a_start),
        cmocka_unit_test(planned_values_never_share_bytes_while_both_live),
        cmocka_unit_test(plan_reuses_memory),
        cmocka_unit_test(function_runs_with_views_and_leaves_as_outputs),
        cmocka_unit_test(arena_is_shared_by_lifetime_and_dispatches_can_be_cut),
        cmocka_unit_test(segments_end_where_their_bucket_is_complete),
    };
    return cmocka_run_group_tests_name("graph", tests, open_context, close_context);
}
