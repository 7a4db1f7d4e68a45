/* SPDX-License-Identifier: MIT */
/* Distributed walks: files that are joined, going on, functions that give batches and fail, and
   what happens without memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/base.h"
#include "tests/rig/data/input_rig.h"

/* ---- files ---- */

static void test_files_go_round_and_are_joined(void **state)
{
    const char *files[] = { npy("a.npy", "<f4", "3,", 0, 3), npy("b.npy", "<f4", "1,", 3, 1),
                            npy("c.npy", "<f4", "2,", 4, 2), temp_path("none.npy"),
                            npy("e.npy", "<f4", "1,2", 0, 2) };
    struct copse_distributed_params p = { .input = { .pipelines = 2 },
                                          .files = files,
                                          .file_count = 3,
                                          .read = plain,
                                          .batches = { .batch = 4, .no_shuffle = true } };
    copse_distributed *d;
    uint32_t epoch;
    uint64_t step;

    (void)state;
    assert_walk(&p, "0 1|2 4|5|_");
    /* Pipelines with less data take as many steps when they are padded, and may be padded only. */
    p.input.pipeline = 1;
    assert_ok(copse_distributed_create(ctx, &p, &d));
    assert_int_equal(copse_distributed_steps(d), 2);
    assert_error(COPSE_ERR_ARGUMENT, copse_distributed_pad(d, 1), "makes 2");
    assert_ok(copse_distributed_pad(d, 4));
    assert_int_equal(copse_distributed_steps(d), 4);
    assert_string_equal(rest(d), "3|_|_|_");
    assert_ok(copse_distributed_start(d, 1, 3));
    assert_string_equal(rest(d), "_");
    copse_distributed_position(d, &epoch, &step);
    assert_int_equal(epoch, 1);
    assert_int_equal(step, 4);
    assert_ok(copse_distributed_start(d, 2, 0));
    assert_string_equal(rest(d), "3|_|_|_");
    assert_ok(copse_distributed_pad(d, 40));
    assert_ok(copse_distributed_start(d, 2, 39));
    assert_string_equal(rest(d), "_");
    assert_error(COPSE_ERR_ARGUMENT, copse_distributed_start(d, 2, 41), "no step 41");
    assert_error(COPSE_ERR_ARGUMENT, copse_distributed_start(d, UINT32_MAX, 0), "no step");
    copse_distributed_release(&d);

    /* Only its own files are opened. */
    p.file_count = 4;
    assert_refused(&p, COPSE_ERR_IO, "none.npy");
    p.input.pipeline = 0;
    assert_walk(&p, "0 1|2 4|5|_");
    p.file_count = 5;
    assert_refused(&p, COPSE_ERR_SHAPE, "e.npy");
    /* What a part of the data cannot tell. */
    p.file_count = 3;
    p.read.scale = COPSE_SCALE_MAX;
    assert_refused(&p, COPSE_ERR_ARGUMENT, "COPSE_SCALE_NONE");
    p.policy = COPSE_INPUT_DATA; /* all of it can: divided by 5 */
    assert_walk(&p, "0 0.2|0.8");
    p.policy = COPSE_INPUT_FILE;
    p.read = plain;
    p.read.labels = files[0];
    assert_refused(&p, COPSE_ERR_ARGUMENT, "one file of labels");
    const char *tables[] = { temp_text("a.csv", "1,0\n2,1\n"), temp_text("b.csv", "3,2\n") };
    p.read = plain;
    p.files = tables;
    p.file_count = 2;
    assert_refused(&p, COPSE_ERR_ARGUMENT, "number of classes");
    p.read.classes = 3;
    assert_walk(&p, "1|2");
    p.input.pipelines = 3;
    p.input.replicas = 4;
    assert_refused(&p, COPSE_ERR_ARGUMENT, "4 replicas");
    p.input.pipeline = 3;
    p.input.replicas = 3;
    assert_refused(&p, COPSE_ERR_ARGUMENT, "no pipeline 3");
}

static void test_joined_rows_keep_their_labels(void **state)
{
    const char *files[] = { temp_text("j1.csv", "1,2,0\n3,4,1\n"), temp_text("j2.csv", "5,6,2\n"),
                            temp_text("j3.csv", "7,8,3\n9,10,4\n"),
                            npy("j4.npy", "<f4", "1, 2", 0, 2),
                            npy("j5.npy", "<f4", "2, 3", 0, 6) };
    struct copse_distributed_params p = { .files = files,
                                          .file_count = 3,
                                          .read = { .scale = COPSE_SCALE_MAX },
                                          .batches = { .batch = 5, .seed = 1 } };
    struct copse_host_batch shard;
    copse_distributed *d;

    (void)state;
    assert_ok(copse_distributed_create(ctx, &p, &d));
    assert_ok(copse_distributed_next(d, &shard));
    assert_int_equal(shard.count, 5);
    for (size_t i = 0; i < 5; i++) {
        /* One scale for all files: the largest is in the last. */
        const uint32_t row = shard.rows[i];
        assert_true(rig_floats(&shard)[2 * i] == (float)(2 * row + 1) / 10);
        assert_true(rig_floats(&shard)[2 * i + 1] == (float)(2 * row + 2) / 10);
        assert_int_equal(rig_labels(&shard)[i], row);
    }
    copse_distributed_release(&d);
    p.file_count = 4;
    assert_refused(&p, COPSE_ERR_FORMAT, "j4.npy is not CSV");
    p.files = files + 3;
    p.file_count = 2;
    assert_refused(&p, COPSE_ERR_SHAPE, "j5.npy: a row has 3 numbers and 1 axes");
}

/* ---- positions ---- */

static void test_walk_goes_on_where_it_stood(void **state)
{
    struct copse_distributed_params p = {
        .data = range(0, 20),
        .input = { .pipelines = 2, .replicas = 4 },
        .policy = COPSE_INPUT_OFF, /* two steps of a batch */
        .batches = { .batch = 8, .seed = 3 },
    };
    copse_distributed *d;
    struct copse_host_batch shards[2];
    char expected[400];
    uint32_t epoch;
    uint64_t step;

    (void)state;
    assert_ok(copse_distributed_create(ctx, &p, &d));
    assert_int_equal(copse_distributed_replicas(d), 2);
    assert_int_equal(copse_distributed_steps(d), 6);
    for (uint64_t cut = 0; cut <= 6; cut++) {
        assert_ok(copse_distributed_start(d, 1, 0));
        for (uint64_t i = 0; i < cut; i++)
            assert_ok(copse_distributed_next(d, shards));
        copse_distributed_position(d, &epoch, &step);
        assert_int_equal(step, cut);
        strcpy(expected, rest(d));
        assert_ok(copse_distributed_start(d, 0, 0));
        assert_ok(copse_distributed_next(d, shards));
        assert_ok(copse_distributed_start(d, epoch, step));
        assert_string_equal(rest(d), expected);
    }
    copse_distributed_release(&d);
    copse_dataset_release(&p.data);
}

/* ---- functions ---- */

/* Counts up to `end`; fails once at `bad`. */
struct counter {
    float value[16];
    int calls, next, end, bad, released;
};

static copse_status count_up(void *user, struct copse_host_batch *out)
{
    struct counter *c = user;

    c->calls++;
    if (c->next == c->bad) {
        c->bad = -1;
        return copse_fail(COPSE_ERR_IO, "the counter is stuck");
    }
    if (c->next == c->end)
        return COPSE_ERR_END;
    c->value[c->next] = (float)c->next;
    *out = rig_kept((struct copse_host_batch){ RIG_X(1, &c->value[c->next]), .count = 1 });
    c->next++;
    return COPSE_OK;
}

static copse_status give_rows_without_data(void *user, struct copse_host_batch *out)
{
    (void)user;
    out->count = 1;
    return COPSE_OK;
}

static void let_go(void *user)
{
    ((struct counter *)user)->released++;
}

static copse_status give_function(void *user, const struct copse_input_context *in,
                                  struct copse_pipeline_source *out)
{
    struct counter *c = user;

    (void)in;
    out->next = c->end >= 0 ? count_up : give_rows_without_data;
    out->user = c;
    out->release = let_go;
    return COPSE_OK;
}

static copse_status give_both(void *user, const struct copse_input_context *in,
                              struct copse_pipeline_source *out)
{
    out->data = range(0, 3);
    return give_function(user, in, out);
}

static copse_status give_nothing(void *user, const struct copse_input_context *in,
                                 struct copse_pipeline_source *out)
{
    (void)user;
    (void)in;
    out->release = let_go;
    return copse_fail(COPSE_ERR_IO, "no data today");
}

static void test_function_is_called_for_each_replica(void **state)
{
    struct copse_host_batch shards[3];
    struct counter c = { .end = 7, .bad = 4 };
    struct copse_distributed_fn_params p = { .pipeline = give_function,
                                             .user = &c,
                                             .input = { .replicas = 3 } };
    copse_distributed *d;

    (void)state;
    assert_ok(copse_distributed_from_function(ctx, &p, &d));
    assert_true(copse_distributed_steps(d) == UINT64_MAX);
    assert_null(copse_distributed_data(d));
    assert_ok(copse_distributed_next(d, shards));
    assert_int_equal(c.calls, 3);
    /* A failure loses nothing. */
    assert_error(COPSE_ERR_IO, copse_distributed_next(d, shards), "stuck");
    assert_int_equal(shards[0].count, 0);
    assert_string_equal(rest(d), "3,4,5");
    const int calls = c.calls;
    assert_int_equal(copse_distributed_next(d, shards), COPSE_ERR_END);
    assert_int_equal(c.calls, calls);
    assert_error(COPSE_ERR_UNSUPPORTED, copse_distributed_start(d, 0, 0), "function");
    assert_error(COPSE_ERR_UNSUPPORTED, copse_distributed_pad(d, 9), "function");
    assert_int_equal(c.released, 0);
    copse_distributed_release(&d);
    assert_int_equal(c.released, 1);

    c = (struct counter){ .end = 4, .bad = -1 };
    p.last = COPSE_LAST_STEP_EMPTY;
    assert_ok(copse_distributed_from_function(ctx, &p, &d));
    assert_string_equal(rest(d), "0,1,2|3,_,_");
    copse_distributed_release(&d);
    c.end = -1;
    assert_ok(copse_distributed_from_function(ctx, &p, &d));
    assert_error(COPSE_ERR_ARGUMENT, copse_distributed_next(d, shards), "without data");
    copse_distributed_release(&d);
    assert_int_equal(c.released, 2);

    p.pipeline = give_both;
    assert_error(COPSE_ERR_ARGUMENT, copse_distributed_from_function(ctx, &p, &d), "one of them");
    assert_null(d);
    assert_int_equal(c.released, 3);
    p.pipeline = give_nothing;
    assert_error(COPSE_ERR_IO, copse_distributed_from_function(ctx, &p, &d), "no data today");
    assert_int_equal(c.released, 3);
    p.last = (copse_last_step)7; /* the one mode that there is to choose */
    assert_error(COPSE_ERR_ARGUMENT, copse_distributed_from_function(ctx, &p, &d),
                 "`last` out of range");
    p.last = COPSE_LAST_STEP_DROP;
    p.pipeline = NULL;
    assert_error(COPSE_ERR_ARGUMENT, copse_distributed_from_function(ctx, &p, &d), "no pipeline");
}

/* ---- without memory ---- */

static long allocations_left = -1; /* negative = any number */

static void *hungry(void *user, void *block, size_t size)
{
    (void)user;
    if (size == 0) {
        free(block);
        return NULL;
    }
    if (allocations_left == 0)
        return NULL;
    allocations_left -= allocations_left > 0;
    return realloc(block, size);
}

static copse_status everything(copse_context *c, const char *const *files)
{
    struct counter counter = { .end = 2, .bad = -1 };
    struct copse_host_batch shards[2];
    copse_distributed *d;

    COPSE_TRY(copse_distributed_create(
        c,
        &(struct copse_distributed_params){ .files = files,
                                            .file_count = 2,
                                            .read = { .classes = 3 },
                                            .input = { .replicas = 2 },
                                            .batches = { .batch = 2, .prefetch = 1 } },
        &d));
    copse_status s = copse_distributed_next(d, shards);
    copse_distributed_release(&d);
    COPSE_TRY(s);
    COPSE_TRY(copse_distributed_from_function(
        c,
        &(struct copse_distributed_fn_params){
            .pipeline = give_function, .user = &counter, .input = { .replicas = 2 } },
        &d));
    s = copse_distributed_next(d, shards);
    copse_distributed_release(&d);
    assert_int_equal(counter.released, 1);
    return s;
}

static void test_every_allocation_may_fail(void **state)
{
    const char *files[] = { temp_text("h1.csv", "1,0\n2,1\n"), temp_text("h2.csv", "3,2\n") };
    const struct copse_context_params params = { .resize = hungry, .disable = "opencl,vulkan" };
    struct copse_memory_stats before, after;
    copse_context *c;
    copse_status s;
    long n = 0;

    (void)state;
    assert_ok(copse_context_create(&params, &c));
    copse_context_memory(c, &before);
    assert_ok(everything(c, files));
    do {
        allocations_left = n++;
        s = everything(c, files);
        allocations_left = -1;
        if (s != COPSE_OK && s != COPSE_ERR_NO_MEMORY)
            fail_msg("allocation %ld: %s: %s", n, copse_status_name(s), copse_last_error());
        copse_context_memory(c, &after);
        assert_int_equal(after.live_blocks, before.live_blocks);
    } while (s != COPSE_OK);
    assert_in_range(n, 20, 200);
    copse_context_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_go_round_and_are_joined),
        cmocka_unit_test(test_joined_rows_keep_their_labels),
        cmocka_unit_test(test_walk_goes_on_where_it_stood),
        cmocka_unit_test(test_function_is_called_for_each_replica),
        cmocka_unit_test(test_every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
