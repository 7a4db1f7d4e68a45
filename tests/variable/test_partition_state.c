/* SPDX-License-Identifier: MIT */
/* Checkpoints of partitioned variables: one entry whatever the parts, so that a file goes into
   another number of parts, or into one variable, and the other way round. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
/* after the above */
#include <cmocka.h>

#include "copse/data/checkpoint.h"
#include "copse/distribute/parameter_server.h"
#include "copse/distribute/partition.h"
#include "tests/rig/value/replica_rig.h"

#define ROWS    10
#define COLUMNS 3
#define BATCH   4

static char path[64];

/* x W, with W in parts, or of one piece where there are none. */
struct linear {
    copse_partitioned *parts;
    copse_variable *one;
};

static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct linear *m = user;
    copse_tensor *w = m->one ? copse_variable_tensor(m->one) : NULL, *list[ROWS], *y;
    copse_variable *const *parts;
    size_t count;
    if (!w) {
        copse_partitioned_parts(m->parts, &parts, &count);
        for (size_t i = 0; i < count; i++)
            list[i] = copse_variable_tensor(parts[i]);
        w = copse_concat(g, list, count, 0);
    }
    y = copse_matmul(g, rig_x(in), w, false, false);
    return copse_mean_squared_error(g, y, rig_y(in));
}

static void make(copse_strategy *st, uint32_t parts, struct linear *m, copse_trainer **t)
{
    const struct copse_variable_params p = { .name = "w",
                                             .shape = COPSE_SHAPE(ROWS, COLUMNS),
                                             .initializer = COPSE_INIT_GLOROT_UNIFORM,
                                             .seed = 5 };
    *m = (struct linear){ NULL, NULL };
    if (parts > 0)
        OK(copse_partitioned_create(st, &p, parts, &m->parts));
    else
        OK(copse_variable_create(st, &p, &m->one));
    OK(copse_trainer_create(st,
                            &(struct copse_trainer_params){
                                .loss = loss, .user = m, .optimizer = { .kind = COPSE_ADAM } },
                            t));
}

static void steps(copse_trainer *t, uint32_t first, uint32_t end)
{
    float x[BATCH * ROWS], y[BATCH * COLUMNS];
    for (uint32_t i = first; i < end; i++) {
        for (uint32_t k = 0; k < BATCH * ROWS; k++)
            x[k] = (float)((k * 7 + i * 3) % 11) / 11.0f;
        for (uint32_t k = 0; k < BATCH * COLUMNS; k++)
            y[k] = (float)((k * 5 + i) % 7) / 7.0f;
        OK(copse_trainer_step(
            t, &(struct copse_host_batch){ RIG_PAIR(ROWS, x, COLUMNS, y), .count = BATCH }));
    }
}

static void read_w(const struct linear *m, float to[ROWS * COLUMNS])
{
    copse_variable *const *parts = &m->one;
    size_t count = 1;
    if (!m->one)
        copse_partitioned_parts(m->parts, &parts, &count);
    for (size_t i = 0; i < count; i++) {
        OK(copse_variable_read(parts[i], 0, to));
        to += copse_variable_shape(parts[i]).dims[0] * COLUMNS;
    }
}

/* Five steps with `then` parts, a checkpoint, five more with `now` parts. */
static void run(bool is_served, uint32_t then, uint32_t now, float to[ROWS * COLUMNS])
{
    static const char *const ids[] = { "host:0" };
    for (int life = 0; life < 2; life++) {
        copse_strategy *st;
        copse_trainer *t;
        struct linear m;
        OK(is_served ? copse_parameter_server_create(ctx, NULL, ids, 1, NULL, &st)
                     : copse_mirrored_create(ctx, ids, 1, NULL, &st));
        make(st, life ? now : then, &m, &t);
        if (life)
            OK(copse_trainer_restore(t, path, NULL, NULL));
        steps(t, 5 * (uint32_t)life, 5 * (uint32_t)life + 5);
        if (!life)
            OK(copse_trainer_checkpoint(t, path, NULL));
        else
            read_w(&m, to);
        copse_trainer_release(&t);
        copse_partitioned_release(&m.parts);
        copse_strategy_release(&st);
    }
}

static void test_parts_are_one_entry(void **state)
{
    copse_checkpoint *file;
    float values[ROWS * COLUMNS];
    size_t count;
    (void)state;
    run(false, 4, 4, values);
    OK(copse_checkpoint_read(ctx, path, &file));
    const struct copse_named_array *list = copse_checkpoint_arrays(file, &count);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(list[i].array.rank, 2);
        assert_int_equal(list[i].array.shape[0], ROWS);
    }
    assert_non_null(copse_checkpoint_find(file, "w"));
    assert_non_null(copse_checkpoint_find(file, "w/m"));
    assert_non_null(copse_checkpoint_find(file, "w/v"));
    copse_checkpoint_release(&file);
    unlink(path);
}

static void test_any_number_of_parts(void **state)
{
    static const uint32_t numbers[] = { 0, 1, 3, 4 };
    float one[ROWS * COLUMNS], other[ROWS * COLUMNS];
    (void)state;
    run(false, 0, 0, one);
    for (int is_served = 0; is_served < 2; is_served++)
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 4; k++) {
                run(is_served, numbers[i], numbers[k], other);
                assert_memory_equal(one, other, sizeof one);
            }
    unlink(path);
}

/* As files were written before: every part alone. */
static void test_parts_of_their_own(void **state)
{
    static const char *const ids[] = { "host:0" };
    copse_strategy *st;
    copse_trainer *t;
    struct linear m;
    float one[ROWS * COLUMNS], other[ROWS * COLUMNS];
    (void)state;
    run(false, 3, 3, one);
    /* a strategy with variables of just these names */
    OK(copse_mirrored_create(ctx, ids, 1, NULL, &st));
    m = (struct linear){ NULL, NULL };
    copse_variable *parts[3];
    for (uint32_t i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "w/part_%u", i);
        OK(copse_variable_create(
            st,
            &(struct copse_variable_params){
                .name = name,
                .shape = COPSE_SHAPE(copse_partition_rows(ROWS, 3, i, NULL), COLUMNS) },
            &parts[i]));
    }
    float *values = one;
    for (uint32_t i = 0; i < 3; i++) {
        OK(copse_variable_assign(parts[i], values));
        values += copse_variable_shape(parts[i]).dims[0] * COLUMNS;
    }
    OK(copse_trainer_create(st,
                            &(struct copse_trainer_params){
                                .loss = loss, .user = &m, .optimizer = { .kind = COPSE_ADAM } },
                            &t));
    OK(copse_trainer_checkpoint(t, path, NULL));
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    OK(copse_mirrored_create(ctx, ids, 1, NULL, &st));
    make(st, 3, &m, &t);
    OK(copse_trainer_restore(t, path, NULL, NULL));
    read_w(&m, other);
    assert_memory_equal(one, other, sizeof one);
    copse_trainer_release(&t);
    copse_partitioned_release(&m.parts);
    copse_strategy_release(&st);
    unlink(path);
}

static int open_all_of_it(void **state)
{
    snprintf(path, sizeof path, "/tmp/copse_partition_state_%d.safetensors", (int)getpid());
    return open_rig(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_are_one_entry),
        cmocka_unit_test(test_any_number_of_parts),
        cmocka_unit_test(test_parts_of_their_own),
    };
    return cmocka_run_group_tests(tests, open_all_of_it, close_rig);
}
