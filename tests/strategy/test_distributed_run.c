/* SPDX-License-Identifier: MIT */
/* A run for every step of a distributed dataset: its minibatches are arguments of the run. */
#include "copse/distribute/input.h"
#include "copse/distribute/replica.h"
#include "tests/rig/workers/numbers_rig.h"

#define COUNT 19u /* rows; the last batch has 3 */
#define BATCH 8u

/* Row i: three whole numbers from 3 i on, and a label. */
static float row_numbers[COUNT * WIDTH];
static int32_t row_labels[COUNT];

static copse_status typed_rows(copse_dataset **out)
{
    for (uint32_t i = 0; i < COUNT * WIDTH; i++)
        row_numbers[i] = (float)i;
    for (uint32_t i = 0; i < COUNT; i++)
        row_labels[i] = (int32_t)(i * i);
    const struct copse_column columns[] = { { "numbers", COPSE_F32, COPSE_SHAPE(WIDTH),
                                              row_numbers },
                                            { "label", COPSE_I32, COPSE_SCALAR, row_labels } };
    return copse_dataset_columns(ctx, columns, 2, COUNT, out);
}

/* The part of the pipeline that feeds this worker's replicas. */
static copse_status walk_over(copse_strategy *st, copse_distributed **out)
{
    const uint32_t ranks = copse_strategy_replicas_in_sync(st), own = copse_strategy_replicas(st);
    copse_dataset *data;
    COPSE_TRY(typed_rows(&data));
    const copse_status s = copse_distributed_create(
        ctx,
        &(struct copse_distributed_params){
            .data = data,
            .policy = COPSE_INPUT_DATA,
            .batches = { .batch = BATCH, .no_shuffle = true },
            .input = { ranks / own, copse_strategy_first_rank(st) / own, ranks } },
        out);
    copse_dataset_release(&data);
    return s;
}

/* ---- the idiom: for x in dataset: strategy.run(fn, (x,)) ---- */

struct seen {
    uint32_t step, rows, empty;
    uint32_t sizes[RANKS][3];
};

/* Checks the minibatch, and returns it with 2 x. */
static copse_status one_replica(copse_replica_context *rc, copse_value *const *args, size_t count,
                                void *user, copse_value **result)
{
    struct seen *seen = user;
    float x[BATCH * WIDTH];
    int32_t labels[BATCH];
    copse_value *numbers = copse_value_find(args[0], "numbers"),
                *label = copse_value_find(args[0], "label");
    CHECK(count == 1 && numbers && label && !copse_value_find(args[0], "other"));
    CHECK(copse_value_kind_of(numbers) == COPSE_VALUE_ARRAY &&
          copse_value_type(numbers) == COPSE_F32);
    CHECK(copse_value_kind_of(label) == COPSE_VALUE_ARRAY && copse_value_type(label) == COPSE_I32);
    const copse_shape shape = copse_value_shape(numbers);
    CHECK(shape.rank == 2 && shape.dims[1] == WIDTH && copse_value_shape(label).rank == 1);
    CHECK(copse_value_shape(label).dims[0] == shape.dims[0]);
    CHECK(copse_value_rank(numbers) ==
          copse_replica_id(rc) - copse_strategy_first_rank(copse_replica_strategy(rc)));
    COPSE_TRY(copse_value_read(numbers, x));
    COPSE_TRY(copse_value_read(label, labels));
    for (uint32_t i = 0; i < shape.dims[0]; i++) {
        const uint32_t row = (uint32_t)x[i * WIDTH] / WIDTH;
        CHECK(row < COUNT && labels[i] == (int32_t)(row * row));
        for (uint32_t k = 0; k < WIDTH; k++) {
            CHECK(x[i * WIDTH + k] == (float)(row * WIDTH + k));
            x[i * WIDTH + k] *= 2;
        }
    }
    seen->rows += shape.dims[0];
    seen->empty += shape.dims[0] == 0;
    seen->sizes[copse_replica_id(rc)][seen->step % 3] = shape.dims[0];
    return copse_value_create(ctx, COPSE_F32, shape, x, result);
}

/* Runs all steps of an epoch; the mean of all rows of each step, ragged minibatches included. */
static copse_status run_epoch(copse_strategy *st, copse_distributed *walk, struct seen *seen,
                              struct numbers *n)
{
    static const int axis = 0;
    copse_value *batch, *twice, *mean;
    copse_status s;
    while ((s = copse_distributed_next_value(walk, st, &batch)) == COPSE_OK) {
        s = copse_strategy_run(st, one_replica, &batch, 1, seen, &twice);
        copse_value_release(&batch);
        COPSE_TRY(s);
        s = copse_strategy_reduce(st, COPSE_REDUCE_MEAN, twice, &axis, &mean);
        copse_value_release(&twice);
        COPSE_TRY(s);
        s = put_value(n, NULL, mean);
        copse_value_release(&mean);
        COPSE_TRY(s);
        seen->step++;
    }
    return s == COPSE_ERR_END ? COPSE_OK : s;
}

static copse_status epoch_numbers(copse_strategy *st, struct numbers *n)
{
    struct seen seen = { 0 };
    copse_distributed *walk;
    COPSE_TRY(walk_over(st, &walk));
    copse_status s = run_epoch(st, walk, &seen, n);
    put(n, seen.step);
    copse_distributed_release(&walk);
    return s;
}

static void every_step_of_a_dataset_is_a_run(void **state)
{
    (void)state;
    for (uint32_t ranks = 1; ranks <= 5; ranks++) {
        struct numbers n = { .count = 0 };
        struct seen seen = { 0 };
        copse_distributed *walk;
        copse_strategy *st;
        copse_value *batch;
        const char *ids[RANKS];
        for (uint32_t r = 0; r < ranks; r++)
            ids[r] = found[r % found_count];
        OK(copse_mirrored_create(ctx, ids, ranks, NULL, &st));
        OK(walk_over(st, &walk));
        for (uint32_t epoch = 0; epoch < 2; epoch++) {
            OK(copse_distributed_start(walk, epoch, 0));
            OK(run_epoch(st, walk, &seen, &n));
            assert_int_equal(copse_distributed_next_value(walk, st, &batch), COPSE_ERR_END);
            assert_null(batch);
        }
        assert_int_equal(seen.rows, 2 * COUNT);
        assert_int_equal(seen.step, 6);
        assert_int_equal(seen.empty, ranks > 3 ? 2 * (ranks - 3) : 0);
        for (uint32_t r = 0; r < ranks; r++)
            assert_int_equal(seen.sizes[r][2], 3 / ranks + (r < 3 % ranks));
        /* Twice the means of rows 0 to 7, 8 to 15 and 16 to 18. */
        static const float middles[] = { 3.5f, 11.5f, 17 };
        for (uint32_t i = 0; i < 3 * WIDTH; i++)
            assert_true(n.all[i] == 2 * (3 * (double)middles[i / WIDTH] + i % WIDTH));
        copse_distributed_release(&walk);
        copse_strategy_release(&st);
    }
}

static void workers_run_their_parts(void **state)
{
    static const struct group groups[] = { { "copse_distributed_next_value", epoch_numbers } };
    (void)state;
    compare_groups(groups, 1);
}

/* ---- walks that a function feeds, and padded ones ---- */

struct source {
    uint32_t given, odd; /* the minibatch that has other columns; or none */
    uint32_t how;        /* they differ: fewer, another name, type, shape */
};

static copse_status next_batch(void *user, struct copse_host_batch *out)
{
    static const struct copse_column columns[2] = {
        { "numbers", COPSE_F32, { 1, { WIDTH } }, row_numbers },
        { "label", COPSE_I32, { 0, { 0 } }, row_labels }
    };
    static const struct copse_column others[][2] = {
        { { .name = "" }, { .name = "" } },
        { { "numbers", COPSE_F32, { 1, { WIDTH } }, row_numbers },
          { "labels", COPSE_I32, { 0, { 0 } }, row_labels } },
        { { "numbers", COPSE_F32, { 1, { WIDTH } }, row_numbers },
          { "label", COPSE_F32, { 0, { 0 } }, row_numbers } },
        { { "numbers", COPSE_F32, { 1, { 2 } }, row_numbers },
          { "label", COPSE_I32, { 0, { 0 } }, row_labels } },
    };
    struct source *s = user;
    const uint32_t i = s->given++;
    if (i == 5)
        return COPSE_ERR_END;
    out->columns = i == s->odd && s->how > 0 ? others[s->how] : columns;
    out->column_count = i == s->odd && s->how == 0 ? 1 : 2;
    out->count = 1 + i;
    return COPSE_OK;
}

static copse_status give_source(void *user, const struct copse_input_context *in,
                                struct copse_pipeline_source *out)
{
    (void)in;
    out->next = next_batch;
    out->user = user;
    return COPSE_OK;
}

static copse_distributed *open_source(struct source *s, uint32_t replicas)
{
    copse_distributed *walk;
    OK(copse_distributed_from_function(
        ctx,
        &(struct copse_distributed_fn_params){ .pipeline = give_source,
                                               .user = s,
                                               .last = COPSE_LAST_STEP_EMPTY,
                                               .input = { .pipelines = 1, .replicas = replicas } },
        &walk));
    return walk;
}

static copse_strategy *two_on_host(void)
{
    static const char *const ids[] = { "host:0", "host:0" };
    copse_strategy *st;
    OK(copse_mirrored_create(ctx, ids, 2, NULL, &st));
    return st;
}

static uint32_t rows_of(copse_value *batch, const char *column, uint32_t replica)
{
    return copse_value_shape(copse_value_item(copse_value_find(batch, column), replica)).dims[0];
}

static void functions_and_padded_steps_give_them_too(void **state)
{
    copse_strategy *st = two_on_host();
    struct source source = { .odd = 9 };
    copse_distributed *walk = open_source(&source, 2);
    copse_value *batch;
    (void)state;
    for (uint32_t step = 0; step < 3; step++) { /* 1 and 2 rows, 3 and 4, 5 and none */
        OK(copse_distributed_next_value(walk, st, &batch));
        assert_int_equal(rows_of(batch, "numbers", 0), 1 + 2 * step);
        assert_int_equal(rows_of(batch, "label", 1), step < 2 ? 2 + 2 * step : 0);
        copse_value_release(&batch);
    }
    assert_int_equal(copse_distributed_next_value(walk, st, &batch), COPSE_ERR_END);
    copse_distributed_release(&walk);

    OK(walk_over(st, &walk));
    OK(copse_distributed_pad(walk, 4));
    OK(copse_distributed_start(walk, 0, 3));
    OK(copse_distributed_next_value(walk, st, &batch));
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(rows_of(batch, "numbers", r), 0);
        assert_int_equal(rows_of(batch, "label", r), 0);
        assert_int_equal(copse_value_type(copse_value_item(copse_value_find(batch, "label"), r)),
                         COPSE_I32);
    }
    copse_value_release(&batch);
    copse_distributed_release(&walk);
    copse_strategy_release(&st);
}

static void what_does_not_fit_is_refused(void **state)
{
    copse_strategy *st = two_on_host();
    struct source source = { .odd = 1 };
    copse_distributed *walk;
    copse_value *batch;
    uint32_t epoch;
    uint64_t step;
    (void)state;
    for (uint32_t how = 0; how < 4; how++) {
        source = (struct source){ .odd = 1, .how = how };
        walk = open_source(&source, 2);
        assert_int_equal(copse_distributed_next_value(walk, st, &batch), COPSE_ERR_SHAPE);
        assert_non_null(strstr(copse_last_error(), "replica 1 has other columns"));
        assert_null(batch);
        copse_distributed_release(&walk);
    }
    source = (struct source){ .odd = 9 };
    walk = open_source(&source, 3);
    assert_int_equal(copse_distributed_next_value(walk, st, &batch), COPSE_ERR_ARGUMENT);
    assert_non_null(strstr(copse_last_error(), "minibatches for 3 replicas, the strategy has 2"));
    assert_int_equal(copse_distributed_next_value(walk, NULL, &batch), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_distributed_next_value(NULL, st, &batch), COPSE_ERR_ARGUMENT);
    copse_distributed_release(&walk);
    source = (struct source){ .odd = 9 };
    walk = open_source(&source, 1);
    assert_int_equal(copse_distributed_next_value(walk, copse_current_strategy(), &batch),
                     COPSE_ERR_UNSUPPORTED);
    copse_distributed_position(walk, &epoch, &step);
    assert_int_equal(step, 0); /* nothing was taken */
    copse_distributed_release(&walk);
    copse_strategy_release(&st);
}

/* ---- memory that ends ---- */

static uint32_t allocations, fails_at;

static void *scarce(void *user, void *block, size_t size)
{
    (void)user;
    if (size == 0) {
        free(block);
        return NULL;
    }
    return ++allocations == fails_at ? NULL : realloc(block, size);
}

/* Wherever memory ends, the step comes again. */
static void a_step_that_failed_comes_again(void **state)
{
    const struct copse_context_params params = { .resize = scarce, .no_self_test = true };
    copse_context *plenty = ctx;
    copse_distributed *walk;
    copse_value *batch;
    uint32_t failed = 0;
    (void)state;
    fails_at = 0;
    OK(copse_context_create(&params, &ctx));
    copse_strategy *st = two_on_host();
    OK(walk_over(st, &walk));
    for (uint32_t fails = 1;; fails++) {
        OK(copse_distributed_start(walk, 0, 0));
        allocations = 0;
        fails_at = fails;
        const copse_status s = copse_distributed_next_value(walk, st, &batch);
        fails_at = 0;
        if (s == COPSE_OK && allocations < fails)
            break; /* there were not so many */
        if (s != COPSE_OK) {
            failed++;
            assert_int_equal(s, COPSE_ERR_NO_MEMORY);
            OK(copse_distributed_next_value(walk, st, &batch));
        }
        assert_int_equal(rows_of(batch, "numbers", 0), 4);
        float x[4 * WIDTH];
        OK(copse_value_read(copse_value_item(copse_value_find(batch, "numbers"), 1), x));
        assert_true(x[0] == 4 * WIDTH);
        copse_value_release(&batch);
    }
    copse_value_release(&batch);
    assert_true(failed > 5);
    copse_distributed_release(&walk);
    copse_strategy_release(&st);
    copse_context_release(&ctx);
    ctx = plenty;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_of_a_dataset_is_a_run),
        cmocka_unit_test(workers_run_their_parts),
        cmocka_unit_test(functions_and_padded_steps_give_them_too),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(a_step_that_failed_comes_again),
    };
    return cmocka_run_group_tests_name("distributed_run", tests, open_workers, close_workers);
}
