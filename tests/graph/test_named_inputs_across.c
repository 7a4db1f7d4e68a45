/* SPDX-License-Identifier: MIT */
/* Named inputs of several types with several workers in step: the bits of one process. */
#include "tests/rig/train/named_model.h"
#include "tests/rig/workers/worker_rig.h"

static struct named_data data;

/* values: the weights after NAMED_STEPS steps. Every second worker has a queue for uploads. */
static copse_status named_train(struct worker *w, copse_strategy *st)
{
    struct named_model m;
    copse_trainer *t;
    copse_dataset *ds;
    copse_loader *batches;
    copse_status s;
    const uint32_t prefetch = w->rank % 2;
    COPSE_TRY(named_create(st, &m, prefetch, &t));
    COPSE_TRY(named_dataset(ctx, &data, NAMED_TYPED, &ds));
    COPSE_TRY(
        copse_loader_create(ds, &(struct copse_loader_params){ .batch = NAMED_BATCH }, &batches));
    s = COPSE_OK;
    for (uint32_t i = 0; i < NAMED_STEPS && !s; i++) {
        struct copse_host_batch b;
        if (i % 4 == 0)
            s = copse_loader_start(batches, i / 4, 0);
        if (!s)
            s = copse_loader_next(batches, &b);
        if (!s)
            s = copse_trainer_step(t, &b);
    }
    if (!s)
        s = copse_variable_read(m.w, 0, w->values);
    copse_loader_release(&batches);
    copse_dataset_release(&ds);
    copse_trainer_release(&t);
    return s;
}

static void workers_have_the_bits_of_one_process(void **state)
{
    struct worker one[1], w[4];
    (void)state;
    named_fill(&data);
    run_workers_over(&copse__transport_local, one, 1, 4, NULL, named_train);
    assert_all_ok(one, 1);
    for (uint32_t size = 2; size <= 4; size += 2) {
        run_workers_over(&copse__transport_local, w, size, 4 / size, NULL, named_train);
        assert_all_ok(w, size);
        for (uint32_t v = 0; v < size; v++)
            assert_memory_equal(w[v].values, one[0].values, sizeof one[0].values);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(workers_have_the_bits_of_one_process) };
    return cmocka_run_group_tests_name("named_inputs_across", tests, open_workers, close_workers);
}
