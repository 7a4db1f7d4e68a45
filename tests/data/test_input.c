/* SPDX-License-Identifier: MIT */
/* Distributed input: how batches are split, who gets what, contexts, batches of one replica,
   arrays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/rig/data/input_rig.h"

/* ---- splitting ---- */

/* Sizes of the minibatches of a batch of n rows. */
static void assert_split(copse_shard_rule rule, uint64_t n, size_t batch, uint32_t replicas,
                         const char *expected)
{
    struct copse_input_shard shard;
    copse_input_plan *plan;
    char text[200] = "";
    uint64_t next = 0;

    assert_ok(
        copse_input_plan_create(ctx,
                                &(struct copse_input_plan_params){
                                    .replicas = replicas, .batch = batch, .rule = rule, .rows = n },
                                &plan));
    for (uint32_t r = 0; r < replicas; r++) {
        assert_ok(copse_input_plan_shard(plan, 0, 0, r, &shard));
        if (shard.count > 0)
            assert_int_equal(shard.first, next);
        next += shard.count;
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%zu", r > 0 ? "," : "",
                 shard.count);
    }
    assert_int_equal(next, n);
    assert_string_equal(text, expected);
    assert_error(COPSE_ERR_ARGUMENT, copse_input_plan_shard(plan, 0, 1, 0, &shard), "no step 1");
    assert_error(COPSE_ERR_ARGUMENT, copse_input_plan_shard(plan, 0, 0, replicas, &shard),
                 "no step 0");
    assert_error(COPSE_ERR_ARGUMENT, copse_input_plan_shard(plan, 1, 0, 0, &shard),
                 "no pipeline 1");
    copse_input_plan_release(&plan);
}

static void one_4(void **state)
{
    (void)state;
    assert_split(COPSE_SHARD_CEIL, 4, 4, 2, "2,2");
    assert_split(COPSE_SHARD_CEIL, 2, 2, 2, "1,1");
    assert_split(COPSE_SHARD_CEIL, 4, 4, 5, "1,1,1,1,0");
    assert_split(COPSE_SHARD_CEIL, 4, 4, 3, "2,2,0");
    assert_split(COPSE_SHARD_CEIL, 6, 6, 4, "2,2,2,0");
    assert_split(COPSE_SHARD_CEIL, 7, 7, 3, "3,3,1");
    assert_split(COPSE_SHARD_CEIL, 1, 1, 3, "1,0,0");
    assert_split(COPSE_SHARD_CEIL, 6, 8, 2, "3,3");
    assert_split(COPSE_SHARD_FIXED, 6, 8, 2, "4,2");
    assert_split(COPSE_SHARD_FIXED, 3, 8, 4, "2,1,0,0");
    assert_split(COPSE_SHARD_BALANCED, 6, 8, 2, "3,3");
    assert_split(COPSE_SHARD_BALANCED, 7, 7, 3, "3,2,2");
    assert_split(COPSE_SHARD_BALANCED, 6, 6, 4, "2,2,1,1");
}

/* ---- one pipeline ---- */

static void one_5(void **state)
{
    (void)state;
    struct copse_distributed_params p = { .batches = { .batch = 2, .no_shuffle = true } };
    p.data = range(0, 10);
    assert_walk(&p, "0 1|2 3|4 5|6 7|8 9");
    copse_dataset_release(&p.data);
    p.data = range(0, 5);
    for (uint32_t prefetch = 0; prefetch < 3; prefetch++) {
        p.batches.prefetch = prefetch;
        assert_walk(&p, "0 1|2 3|4");
    }
    p.batches.drop_last = true;
    assert_walk(&p, "0 1|2 3");
    p.batches.batch = 8;
    assert_walk(&p, "");
    p.batches.drop_last = false;
    assert_walk(&p, "0 1 2 3 4");
    /* One pipeline: every policy is the same. */
    p.input.replicas = 2;
    for (int i = COPSE_INPUT_AUTO; i <= COPSE_INPUT_OFF; i++) {
        p.policy = (copse_input_policy)i;
        assert_walk(&p, "0 1 2,3 4");
    }
    p.rule = COPSE_SHARD_FIXED;
    assert_walk(&p, "0 1 2 3,4");
    p.batches.batch = 9;
    assert_refused(&p, COPSE_ERR_ARGUMENT, "a batch of 9");
    p.batches.batch = 0;
    assert_refused(&p, COPSE_ERR_ARGUMENT, "at least 1");
    copse_dataset_release(&p.data);
    assert_refused(&p, COPSE_ERR_ARGUMENT, "one of them");
}

/* ---- several pipelines ---- */

static void one_6(void **state)
{
    const char *files[] = { npy("0-5.npy", "<f4", "6,", 0, 6), npy("6-11.npy", "<f4", "6,", 6, 6) };
    struct copse_distributed_params p = { .input = { .pipelines = 2, .replicas = 2 },
                                          .read = plain,
                                          .batches = { .batch = 4, .no_shuffle = true } };

    (void)state;
    /* AUTO falls back to DATA without files; with them DATA must be asked for. */
    static const char *const dealt[] = { "0 1|4 5|8 9", "2 3|6 7|10 11" };
    p.data = range(0, 12);
    for (uint32_t w = 0; w < 2; w++) {
        p.input.pipeline = w;
        p.policy = COPSE_INPUT_AUTO;
        assert_walk(&p, dealt[w]);
        p.policy = COPSE_INPUT_DATA;
        assert_walk(&p, dealt[w]);
        p.policy = COPSE_INPUT_OFF;
        assert_walk(&p, "0 1|2 3|4 5|6 7|8 9|10 11");
        p.policy = COPSE_INPUT_FILE;
        assert_refused(&p, COPSE_ERR_ARGUMENT, "needs files");
    }
    copse_dataset_release(&p.data);

    static const char *const by_file[] = { "0 1|2 3|4|5", "6 7|8 9|10|11" };
    p.files = files;
    p.file_count = 2;
    for (uint32_t w = 0; w < 2; w++) {
        p.input.pipeline = w;
        p.policy = COPSE_INPUT_FILE;
        assert_walk(&p, by_file[w]);
        p.policy = COPSE_INPUT_AUTO;
        assert_walk(&p, by_file[w]);
        p.policy = COPSE_INPUT_DATA;
        assert_walk(&p, dealt[w]);
        p.policy = COPSE_INPUT_OFF;
        assert_walk(&p, "0 1|2 3|4 5|6 7|8 9|10 11");
    }
    p.file_count = 1;
    p.policy = COPSE_INPUT_FILE;
    assert_refused(&p, COPSE_ERR_ARGUMENT, "1 files for 2 pipelines");
    p.policy = COPSE_INPUT_AUTO;
    assert_refused(&p, COPSE_ERR_ARGUMENT, "1 files for 2 pipelines");
    p.policy = COPSE_INPUT_DATA;
    assert_walk(&p, "2 3|5");
}

/* Every row exactly once over all pipelines, whatever the numbers; and where the plan says. */
static void test_data_policy_gives_each_row_to_one_replica(void **state)
{
    struct copse_host_batch shards[8];
    struct copse_input_shard at;
    copse_distributed *d;
    copse_status s;
    const size_t rows = 53;

    (void)state;
    struct copse_distributed_params p = { .data = range(0, rows), .batches = { .seed = 7 } };
    for (int rule = COPSE_SHARD_BALANCED; rule <= COPSE_SHARD_FIXED; rule++)
        for (uint32_t pipelines = 1; pipelines <= 3; pipelines++)
            for (uint32_t local = 1; local <= 3; local++)
                for (uint32_t epoch = 0; epoch < 2; epoch++) {
                    size_t seen[53] = { 0 };
                    p.rule = (copse_shard_rule)rule;
                    p.input = (struct copse_input_context){ .pipelines = pipelines,
                                                            .pipeline = 0,
                                                            .replicas = pipelines * local };
                    p.batches.batch = 2 * pipelines * local;
                    p.batches.prefetch = epoch;
                    for (uint32_t w = 0; w < pipelines; w++) {
                        uint64_t steps = 0;
                        p.input.pipeline = w;
                        assert_ok(copse_distributed_create(ctx, &p, &d));
                        assert_ok(copse_distributed_start(d, epoch, 0));
                        for (; (s = copse_distributed_next(d, shards)) == COPSE_OK; steps++)
                            for (uint32_t r = 0; r < local; r++) {
                                assert_ok(copse_input_plan_shard(copse_distributed_plan(d), w,
                                                                 steps, r, &at));
                                assert_int_equal(at.count, shards[r].count);
                                assert_int_equal(shards[r].index, steps);
                                assert_int_equal(shards[r].epoch, epoch);
                                if (at.count > 0)
                                    assert_int_equal(at.first, shards[r].first);
                                for (size_t i = 0; i < shards[r].count; i++) {
                                    assert_int_equal((uint32_t)rig_floats(&shards[r])[i],
                                                     shards[r].rows[i]);
                                    seen[shards[r].rows[i]]++;
                                }
                            }
                        assert_int_equal(s, COPSE_ERR_END);
                        assert_int_equal(steps, copse_distributed_steps(d));
                        copse_distributed_release(&d);
                    }
                    for (size_t i = 0; i < rows; i++)
                        if (seen[i] != 1)
                            fail_msg("row %zu came %zu times", i, seen[i]);
                }
    copse_dataset_release(&p.data);
}

/* ---- contexts ---- */

static void one_7(void **state)
{
    size_t batch;

    (void)state;
    const struct copse_input_context two = { .replicas = 2 };
    assert_ok(copse_input_per_replica_batch(&two, 8, &batch));
    assert_int_equal(batch, 4);
    assert_error(COPSE_ERR_ARGUMENT, copse_input_per_replica_batch(&two, 7, &batch), "batch of 7");
    assert_error(COPSE_ERR_ARGUMENT, copse_input_per_replica_batch(&two, 0, &batch), "batch of 0");
    assert_ok(copse_input_per_replica_batch(NULL, 7, &batch));
    assert_int_equal(batch, 7);
    assert_error(COPSE_ERR_ARGUMENT,
                 copse_input_per_replica_batch(
                     &(struct copse_input_context){ .pipelines = 2, .pipeline = 2 }, 8, &batch),
                 "no pipeline 2");
}

struct pipeline {
    uint32_t calls;
    struct copse_input_context got;
    size_t rows, global; /* of the data; of all replicas */
    bool drop_last;
};

static copse_status give_data(void *user, const struct copse_input_context *in,
                              struct copse_pipeline_source *out)
{
    struct pipeline *p = user;

    p->calls++;
    p->got = *in;
    COPSE_TRY(copse_input_per_replica_batch(in, p->global, &out->batches.batch));
    out->batches.no_shuffle = true;
    out->batches.drop_last = p->drop_last;
    out->data = range(100 * in->pipeline, p->rows);
    return COPSE_OK;
}

static void assert_function_walk(struct pipeline *p, const struct copse_input_context *in,
                                 copse_last_step last, const char *expected)
{
    copse_distributed *d;

    p->calls = 0;
    assert_ok(copse_distributed_from_function(
        ctx,
        &(struct copse_distributed_fn_params){
            .pipeline = give_data, .user = p, .input = *in, .last = last },
        &d));
    assert_string_equal(rest(d), expected);
    assert_null(copse_distributed_plan(d));
    assert_ok(copse_distributed_start(d, 1, 0));
    assert_string_equal(rest(d), expected);
    copse_distributed_release(&d);
    assert_int_equal(p->calls, 1);
}

static void clu_7(void **state)
{
    static const char *const expected[] = { "0 1,2 3|4 5,6 7", "100 101,102 103|104 105,106 107" };
    struct pipeline p = { .rows = 8, .global = 8 };
    size_t batch;

    (void)state;
    for (uint32_t w = 0; w < 2; w++) {
        const struct copse_input_context in = { .pipelines = 2, .pipeline = w, .replicas = 2 * 2 };
        assert_ok(copse_input_per_replica_batch(&in, 8, &batch));
        assert_int_equal(batch, 2);
        assert_function_walk(&p, &in, COPSE_LAST_STEP_DROP, expected[w]);
        assert_int_equal(p.got.pipelines, 2);
        assert_int_equal(p.got.pipeline, w);
        assert_int_equal(p.got.replicas, 4);
    }
}

/* ---- batches of one replica ---- */

static void mir_6(void **state)
{
    const struct copse_input_context three = { .replicas = 3 };
    struct pipeline p = { .rows = 7, .global = 3 };

    (void)state;
    assert_function_walk(&p, &three, COPSE_LAST_STEP_DROP, "0,1,2|3,4,5");
    assert_int_equal(p.got.pipelines, 1);
    assert_int_equal(p.got.pipeline, 0);
    assert_int_equal(p.got.replicas, 3);
    assert_function_walk(&p, &three, COPSE_LAST_STEP_EMPTY, "0,1,2|3,4,5|6,_,_");
    /* The last minibatch may be smaller; a step with one for every replica is complete. */
    p.rows = 8;
    p.global = 9;
    assert_function_walk(&p, &three, COPSE_LAST_STEP_DROP, "0 1 2,3 4 5,6 7");
    p.drop_last = true;
    assert_function_walk(&p, &three, COPSE_LAST_STEP_DROP, "");
    assert_function_walk(&p, &three, COPSE_LAST_STEP_EMPTY, "0 1 2,3 4 5,_");
    p.rows = 2;
    assert_function_walk(&p, &three, COPSE_LAST_STEP_EMPTY, "");
}

/* ---- arrays ---- */

/* Five rows of three; what belongs to a row stays with it: labels, and other arrays by `rows`. */
static void one_9_walk(copse_dataset *data, uint32_t classes)
{
    const int32_t others[5] = { 70, 71, 72, 73, 74 };
    struct copse_host_batch shards[2];
    struct copse_dataset_info info;
    copse_distributed *d;
    copse_status s;
    size_t rows = 0;

    assert_ok(copse_distributed_create(
        ctx,
        &(struct copse_distributed_params){
            .data = data, .input = { .replicas = 2 }, .batches = { .batch = 2, .seed = 5 } },
        &d));
    copse_dataset_describe(copse_distributed_data(d), &info);
    assert_int_equal(info.rows, 5);
    assert_int_equal(info.rank, 1);
    assert_int_equal(info.shape[0], 3);
    assert_int_equal(info.classes, classes);
    while ((s = copse_distributed_next(d, shards)) == COPSE_OK)
        for (int r = 0; r < 2; r++)
            for (size_t i = 0; i < shards[r].count; i++, rows++) {
                const uint32_t row = shards[r].rows[i];
                for (uint32_t k = 0; k < 3; k++)
                    assert_true(rig_floats(&shards[r])[3 * i + k] == (float)(3 * row + k));
                assert_int_equal(rig_labels(&shards[r])[i], row);
                assert_int_equal(others[row], 70 + row);
            }
    assert_int_equal(s, COPSE_ERR_END);
    assert_int_equal(rows, 5);
    copse_distributed_release(&d);
}

static void one_9(void **state)
{
    const int32_t labels[] = { 0, 1, 2, 3, 4 };
    float numbers[15];
    copse_dataset *ds;

    (void)state;
    for (int i = 0; i < 15; i++)
        numbers[i] = (float)i;
    assert_ok(copse_dataset_create(
        ctx, &(struct copse_array_view){ COPSE_F32, 2, { 5, 3 }, numbers },
        &(struct copse_array_view){ COPSE_I32, 1, { 5 }, labels }, &plain, &ds));
    one_9_walk(ds, 5);
    copse_dataset_release(&ds);
    const struct copse_dataset_params read = {
        .scale = COPSE_SCALE_NONE,
        .labels = npy("labels.npy", "<i4", "5,", 0, 5),
    };
    assert_ok(copse_dataset_open(ctx, npy("five.npy", "<f4", "5, 3", 0, 15), &read, &ds));
    one_9_walk(ds, 5);
    copse_dataset_release(&ds);
    assert_error(COPSE_ERR_SHAPE,
                 copse_dataset_create(
                     ctx, &(struct copse_array_view){ COPSE_F32, 2, { 5, 3 }, numbers },
                     &(struct copse_array_view){ COPSE_I32, 1, { 4 }, labels }, &plain, &ds),
                 "4 labels for 5 rows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_4), cmocka_unit_test(one_5),
        cmocka_unit_test(one_6), cmocka_unit_test(test_data_policy_gives_each_row_to_one_replica),
        cmocka_unit_test(one_7), cmocka_unit_test(clu_7),
        cmocka_unit_test(mir_6), cmocka_unit_test(one_9),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
