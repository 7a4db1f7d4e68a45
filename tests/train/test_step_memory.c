/* SPDX-License-Identifier: MIT */
/* The planned memory of a step is that of its program; and a step that does not fit says what
   would. */
#include <stdio.h>
#include <stdlib.h>

#include "copse/nn.h"
#include "copse/train/memory.h"
#include "core/train/trainer.h"
#include "tests/rig/fake/fake_backend.h"
#include "tests/rig/found.h"
#include "tests/rig/one_context.h"

#define ROWS  256
#define WIDTH 64
#define BLOCK "residual { layer_norm; dense 256 gelu; dense 64 }; "

static float data_x[ROWS * WIDTH];
static int32_t data_y[ROWS];

static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *x = rig_x(in), *y = rig_y(in);
    x = copse_layer_apply(user, g, in, x);
    return copse_sparse_cross_entropy(g, x, y, COPSE_MEAN);
}

static struct copse_host_batch batch_of(size_t count)
{
    return rig_kept((struct copse_host_batch){ RIG_XY(WIDTH, data_x, data_y), .count = count });
}

struct job {
    copse_strategy *st;
    copse_layer *layers;
    copse_trainer *t;
};

static void open_job(struct job *j, copse_context *c, const char *const *devices, size_t count,
                     uint64_t budget)
{
    OK(copse_mirrored_create(c, devices, count, NULL, &j->st));
    OK(copse_nn_parse(c, BLOCK BLOCK BLOCK BLOCK BLOCK BLOCK "dense 10", &j->layers));
    OK(copse_layer_build(j->layers, j->st,
                         &(struct copse_build_params){ .shape = COPSE_SHAPE(WIDTH), .seed = 5 }));
    OK(copse_trainer_create(j->st,
                            &(struct copse_trainer_params){ .loss = loss,
                                                            .user = j->layers,
                                                            .memory_budget = budget,
                                                            .optimizer = { .kind = COPSE_ADAM } },
                            &j->t));
}

static void close_job(struct job *j)
{
    copse_trainer_release(&j->t);
    copse_layer_release(&j->layers);
    copse_strategy_release(&j->st);
}

static size_t parameters(const struct job *j)
{
    copse_variable *const *list;
    size_t count, sum = 0;
    copse_strategy_variables(j->st, &list, &count);
    for (size_t i = 0; i < count; i++)
        sum += (size_t)copse__elements(copse_variable_shape(list[i]));
    return sum;
}

static size_t recorded(const struct job *j, uint32_t r)
{
    return copse__program_bytes(j->t->recordings.of[r].at[0]->program);
}

/* ---- plans ---- */

static void expect_plan(const struct copse_value_memory *m)
{
    assert_true(m->kept > 0 && m->kept < m->peak);
    assert_true(m->peak <= m->bytes && m->bytes - m->bytes / 5 <= m->peak);
    assert_true(strstr(m->op, "f32[") != NULL && strstr(m->op, " pass") != NULL);
}

static void the_plan_is_that_of_the_step(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < found_count; d++) {
        const struct copse_host_batch whole = batch_of(ROWS);
        struct copse_step_memory m, again;
        struct job j;
        open_job(&j, ctx, &found[d], 1, 0);
        OK(copse_queue_finish(j.st->replicas[0].queue));
        copse__buffers_purge(j.st->replicas[0].dev);
        const unsigned long long before = atomic_load(&j.st->replicas[0].dev->bytes);
        OK(copse_trainer_memory(j.t, 0, &whole, 0, &m));
        assert_int_equal(atomic_load(&j.st->replicas[0].dev->bytes), before);
        assert_int_equal(j.t->recordings.of[0].count, 0);
        assert_int_equal(m.variables, 4 * parameters(&j));
        assert_int_equal(m.gradients, m.variables);
        assert_true(m.slots >= 2 * m.variables && m.slots < 2 * m.variables + m.variables / 10);
        expect_plan(&m.plain);
        expect_plan(&m.recomputed);
        assert_int_equal(m.plain.recomputed, 0);
        assert_true(m.fits && m.recomputed.recomputed > 0 &&
                    m.recomputed.bytes * 2 < m.plain.bytes);
        OK(copse_trainer_step(j.t, &whole));
        assert_int_equal(m.plain.bytes, recorded(&j, 0));
        /* the step's own memory is not counted */
        OK(copse_trainer_memory(j.t, 0, &whole, 0, &again));
        assert_memory_equal(&again.plain, &m.plain, sizeof m.plain);
        assert_int_equal(again.others, m.others);
        printf("  %s: %llu KiB, least %llu KiB; %s\n", found[d],
               (unsigned long long)m.plain.bytes >> 10,
               (unsigned long long)m.recomputed.bytes >> 10, m.recomputed.op);
        close_job(&j);

        const uint64_t used = m.variables + m.gradients + m.slots + m.others,
                       budget = used + m.plain.bytes * 6 / 10;
        open_job(&j, ctx, &found[d], 1, budget);
        OK(copse_trainer_memory(j.t, 0, &whole, budget, &m));
        assert_true(m.fits && m.recomputed.bytes <= budget - used);
        OK(copse_trainer_step(j.t, &whole));
        assert_int_equal(m.recomputed.bytes, recorded(&j, 0));
        const uint64_t least = again.recomputed.bytes;
        OK(copse_trainer_memory(j.t, 0, &whole, used + least / 2, &m)); /* too little: the least */
        assert_true(!m.fits);
        assert_int_equal(m.recomputed.bytes, least);
        close_job(&j);
    }
}

static void replicas_have_plans_of_their_own(void **state)
{
    const struct copse_host_batch odd = batch_of(3), one = batch_of(1);
    struct copse_step_memory first, second;
    struct job j;
    (void)state;
    open_job(&j, ctx, (const char *[]){ "host:0", "host:0" }, 2, 0);
    OK(copse_trainer_memory(j.t, 0, &odd, 0, &first));
    OK(copse_trainer_memory(j.t, 1, &odd, 0, &second));
    OK(copse_trainer_step(j.t, &odd));
    assert_int_equal(first.plain.bytes, recorded(&j, 0));
    assert_int_equal(second.plain.bytes, recorded(&j, 1));
    assert_true(second.plain.peak < first.plain.peak); /* one example less */
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_memory(j.t, 2, &odd, 0, &first),
          "replica 2 has no shard");
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_memory(j.t, 1, &one, 0, &first),
          "replica 1 has no shard");
    close_job(&j);
}

/* ---- a device without enough memory ---- */

static copse_device *lend(copse_context *c, uint64_t limit)
{
    const struct copse_foreign_device foreign = { .handles = "",
                                                  .handles_size = 1,
                                                  .memory_limit = limit };
    copse_device *dev;
    OK(copse__device_import(c, &copse_backend_fake, &foreign, &dev));
    return dev;
}

static uint64_t allocated(const struct copse_step_memory *m)
{
    return m->variables + m->gradients + m->slots + m->others;
}

static void what_does_not_fit_says_what_would(void **state)
{
    const struct copse_host_batch whole = batch_of(ROWS);
    struct copse_step_memory m;
    struct copse_step_result done;
    unsigned long batch = 0;
    unsigned long long budget = 0;
    copse_context *c;
    struct job j;
    (void)state;
    fake_reset();
    OK(copse__context_create_with(NULL, fake_backends, &c));
    copse_device *dev = lend(c, 0);
    const char *id = copse_device_describe(dev)->id;
    open_job(&j, c, &id, 1, 0);
    OK(copse_trainer_memory(j.t, 0, &whole, 0, &m));
    close_job(&j);
    copse_device_release(&dev);

    dev = lend(c, allocated(&m) + m.plain.bytes * 7 / 10);
    id = copse_device_describe(dev)->id;
    open_job(&j, c, &id, 1, 0);
    FAILS(COPSE_ERR_NO_DEVICE_MEMORY, copse_trainer_step(j.t, &whole),
          "the values of a step with a batch of 256 need");
    const char *text = copse_last_error();
    printf("  %s\n", text);
    assert_true(strncmp(text, id, strlen(id)) == 0 && !strchr(text, '\n'));
    const char *smaller = strstr(text, "; a batch of "), *recomputed = strstr(text, "(--memory ");
    assert_true(smaller && sscanf(smaller, "; a batch of %lu needs", &batch) == 1);
    assert_true(recomputed && sscanf(recomputed, "(--memory %lluKiB)", &budget) == 1);
    assert_int_equal(batch, ROWS / 2);
    const struct copse_host_batch part = batch_of(batch);
    OK(copse_trainer_step(j.t, &part)); /* nothing is left of the step that failed */
    OK(copse_trainer_result(j.t, true, &done));
    close_job(&j);
    open_job(&j, c, &id, 1, budget << 10);
    OK(copse_trainer_step(j.t, &whole));
    OK(copse_trainer_result(j.t, true, &done));
    close_job(&j);
    copse_device_release(&dev);

    dev = lend(c, allocated(&m) + m.recomputed.bytes / 2); /* recomputation alone is not enough */
    id = copse_device_describe(dev)->id;
    open_job(&j, c, &id, 1, 0);
    FAILS(COPSE_ERR_NO_DEVICE_MEMORY, copse_trainer_step(j.t, &whole),
          "with recomputation (memory_budget, --memory) it needs");
    printf("  %s\n", copse_last_error());
    smaller = strstr(copse_last_error(), "; a batch of ");
    assert_true(smaller && sscanf(smaller, "; a batch of %lu needs", &batch) == 1 &&
                batch < ROWS / 2);
    const struct copse_host_batch few = batch_of(batch);
    OK(copse_trainer_step(j.t, &few));
    OK(copse_trainer_result(j.t, true, &done));
    close_job(&j);

    copse_device_release(&dev);
    dev = lend(c, allocated(&m) + 4096); /* nothing fits */
    id = copse_device_describe(dev)->id;
    open_job(&j, c, &id, 1, 0);
    FAILS(COPSE_ERR_NO_DEVICE_MEMORY, copse_trainer_step(j.t, &whole),
          "; no smaller batch fits; with recomputation");
    close_job(&j);
    copse_device_release(&dev);
    copse_context_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plan_is_that_of_the_step),
        cmocka_unit_test(replicas_have_plans_of_their_own),
        cmocka_unit_test(what_does_not_fit_says_what_would),
    };
    for (size_t i = 0; i < ROWS * WIDTH; i++)
        data_x[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    for (size_t i = 0; i < ROWS; i++)
        data_y[i] = (int32_t)(i * 7 % 10);
    void *unused = NULL;
    if (open_context(&unused) != 0)
        return 1;
    find_devices(ctx);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    close_context(&unused);
    return failed;
}
