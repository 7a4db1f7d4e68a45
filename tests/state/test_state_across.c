/* SPDX-License-Identifier: MIT */
/* What several workers do together and one of them has no memory for, such as a checkpoint: it is
   not done, all say so, and nobody waits or is lost. */
#include <stdatomic.h>

#include "tests/rig/workers/worker_rig.h"
/* after the above */
#include "tests/rig/data/temp_files.h"
#include "tests/rig/train/train_model.h"

#define WORKERS  3
#define VICTIM   1
#define IN_A_ROW 6 /* files written without a failure: the call makes no more allocations */

/* An allocator that fails the victim once, at its allocation number `fails_at`. */
static _Thread_local bool is_scarce;
static _Thread_local uint32_t allocations, fails_at;

static void *scarce(void *user, void *block, size_t size)
{
    (void)user;
    if (size == 0) {
        free(block);
        return NULL;
    }
    return is_scarce && ++allocations == fails_at ? NULL : realloc(block, size);
}

/* The engine has what it needs: without it a worker is lost. */
static struct copse_transport_table table;

static copse_status send_with_plenty(struct copse_transport *t, uint32_t peer, uint32_t tag,
                                     const void *bytes, size_t size, copse_transport_op **op)
{
    const bool was_scarce = is_scarce;
    is_scarce = false;
    const copse_status s = copse__transport_local.send(t, peer, tag, bytes, size, op);
    is_scarce = was_scarce;
    return s;
}

static copse_status recv_with_plenty(struct copse_transport *t, uint32_t peer, uint32_t tag,
                                     void *bytes, size_t size, copse_transport_op **op)
{
    const bool was_scarce = is_scarce;
    is_scarce = false;
    const copse_status s = copse__transport_local.recv(t, peer, tag, bytes, size, op);
    is_scarce = was_scarce;
    return s;
}

typedef copse_status write_fn(copse_trainer *t, const char *path);

static copse_status checkpoint(copse_trainer *t, const char *path)
{
    return copse_trainer_checkpoint(t, path, NULL);
}

static copse_status restore(copse_trainer *t, const char *path)
{
    return copse_trainer_restore(t, path, NULL, NULL);
}

/* Until none of the call's allocations is left that could fail. */
static copse_status write_with_less_and_less(struct worker *w, copse_strategy *st)
{
    write_fn *const write = *(write_fn *const *)w->job;
    struct model m = { .dropout = 0.0f };
    float x[MODEL_ROWS * MODEL_IN];
    int32_t y[MODEL_ROWS];
    char path[240];
    copse_trainer *t = NULL;
    copse_status s = model_create(&m, st);
    model_data(x, y);
    snprintf(path, sizeof path, "%s/state", temp_folder);
    if (!s)
        s = copse_trainer_create(st,
                                 &(struct copse_trainer_params){
                                     .loss = model_loss, .user = &m, .optimizer.kind = COPSE_ADAM },
                                 &t);
    if (!s)
        s = copse_trainer_step(t,
                               &(struct copse_host_batch){ RIG_XY(MODEL_IN, x, y), .count = 16 });
    if (!s && write == restore)
        s = checkpoint(t, path);
    for (uint32_t at = 1, row = 0; row < IN_A_ROW && !s; at++) {
        is_scarce = w->rank == VICTIM;
        allocations = 0;
        fails_at = at;
        const copse_status one = write(t, path);
        is_scarce = false;
        if (one && one != COPSE_ERR_NO_MEMORY && !strstr(copse_last_error(), "worker 1 failed") &&
            !strstr(copse_last_error(), "worker 1 (h1:1) could not take part"))
            s = one;
        w->seen[0] += one != COPSE_OK;
        row = one ? 0 : row + 1;
    }
    copse_trainer_release(&t);
    return s;
}

/* Every worker has another text; then all do something else together. */
static copse_status differ_with_less_and_less(struct worker *w, copse_strategy *st)
{
    char mine[16];
    uint32_t all[WORKERS];
    (void)st;
    snprintf(mine, sizeof mine, "rank %u\n", w->rank);
    for (uint32_t at = 1; at <= 3; at++) { /* two blocks of memory */
        is_scarce = w->rank == VICTIM;
        allocations = 0;
        fails_at = at;
        const copse_status s = copse__cluster_agree(w->cluster, "the rank", mine);
        is_scarce = false;
        CHECK(s == (at < 3 ? COPSE_ERR_NO_MEMORY : COPSE_ERR_ARGUMENT));
        COPSE_TRY(copse__cluster_allgather(w->cluster, &at, all, sizeof at, "all is well"));
    }
    return COPSE_OK;
}

static void run_scarce(struct worker *w, const void *job,
                       copse_status (*run)(struct worker *, copse_strategy *))
{
    copse_context *plenty = ctx;
    host_alone();
    OK(copse_context_create(
        &(struct copse_context_params){ .resize = scarce, .no_self_test = true }, &ctx));
    table = copse__transport_local;
    table.send = send_with_plenty;
    table.recv = recv_with_plenty;
    run_workers_over(&table, w, WORKERS, 1, job, run);
    copse_context_release(&ctx);
    ctx = plenty;
    devices_back();
    assert_all_ok(w, WORKERS);
}

/* `least`: times that memory ended. */
static void expect(write_fn *write, uint32_t least)
{
    struct worker w[WORKERS];
    run_scarce(w, &write, write_with_less_and_less);
    for (uint32_t v = 0; v < WORKERS; v++)
        assert_int_equal(w[v].seen[0], w[VICTIM].seen[0]);
    assert_true(w[0].seen[0] >= least);
}

static void no_memory_for_a_checkpoint(void **state)
{
    (void)state;
    expect(checkpoint, 3);
}

static void no_memory_to_save(void **state)
{
    (void)state;
    expect(copse_trainer_save, 1);
}

static void no_memory_to_restore(void **state)
{
    (void)state;
    expect(restore, 3);
}

static void no_memory_to_compare(void **state)
{
    struct worker w[WORKERS];
    (void)state;
    run_scarce(w, NULL, differ_with_less_and_less);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, temp_setup, temp_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_memory_for_a_checkpoint),
        TEST(no_memory_to_save),
        TEST(no_memory_to_restore),
        TEST(no_memory_to_compare),
    };
    return cmocka_run_group_tests(tests, open_workers, close_workers);
}
