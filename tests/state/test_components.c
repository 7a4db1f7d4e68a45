/* SPDX-License-Identifier: MIT */
/* Replica-local variables in checkpoints: as many replicas get their components back, and a run
   that is resumed has the bits of one that was not interrupted; other numbers of replicas, and
   older files, take the aggregate and say so. */
#include "copse/data/checkpoint.h"
#include "copse/train/update.h"
#include "core/data/array.h"
#include "core/state/state.h"
#include "tests/rig/workers/worker_rig.h"
/* after the above */
#include "tests/rig/data/temp_files.h"

#define ROWS 8
#define HALF 2 /* steps before and after the checkpoint */

static unsigned told; /* lines about components */

static void take_line(void *user, copse_log_level level, const char *line)
{
    (void)user, (void)level;
    told += strstr(line, "has no components of 'v'") != NULL;
}

struct net {
    copse_variable *w, *v;
};

/* Each replica follows its own mean of w x, and the loss depends on it. */
static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct net *n = user;
    copse_tensor *x, *y, *own = copse_variable_tensor(n->v), *mean, *factor;
    x = copse_input(in, "x");
    y = copse_mul(g, x, copse_variable_tensor(n->w));
    mean = copse_mean(g, y, NULL, 0, false);
    mean = copse_add(g, mean, own);
    factor = copse_fill(g, COPSE_F32, COPSE_SCALAR, 0.45f);
    mean = copse_mul(g, mean, factor);
    copse_update(g, n->v, mean);
    y = copse_sub(g, y, own);
    y = copse_square(g, y);
    return copse_mean(g, y, NULL, 0, false);
}

static copse_status make_net(copse_strategy *st, struct net *n, copse_trainer **t)
{
    static const float start[] = { 0.7f };
    const struct copse_variable_params w = { .name = "w",
                                             .shape = COPSE_SHAPE(1),
                                             .values = start };
    const struct copse_variable_params v = { .name = "v",
                                             .shape = COPSE_SCALAR,
                                             .synchronization = COPSE_SYNC_ON_READ,
                                             .aggregation = COPSE_AGGREGATION_MEAN };
    COPSE_TRY(copse_variable_create(st, &w, &n->w));
    COPSE_TRY(copse_variable_create(st, &v, &n->v));
    const struct copse_trainer_params p = {
        .loss = loss, .user = n, .optimizer = { .kind = COPSE_ADAM, .learning_rate = 0.05f }
    };
    return copse_trainer_create(st, &p, t);
}

static copse_status take_steps(copse_trainer *t, uint32_t first)
{
    for (uint32_t s = first; s < first + HALF; s++) {
        float x[ROWS];
        for (uint32_t i = 0; i < ROWS; i++)
            x[i] = (float)((7 * i + 3 * s) % 11) * 0.2f - 0.9f;
        const struct copse_column column = { "x", COPSE_F32, { 1, { 1 } }, x };
        const struct copse_host_batch batch = { .columns = &column,
                                                .column_count = 1,
                                                .count = ROWS };
        COPSE_TRY(copse_trainer_step(t, &batch));
    }
    return COPSE_OK;
}

/* What a run ends with: w, and each replica's v. */
static copse_status read_net(const struct net *n, copse_strategy *st, float *to)
{
    COPSE_TRY(copse_variable_read(n->w, 0, to));
    for (uint32_t r = 0; r < copse_strategy_replicas(st); r++)
        COPSE_TRY(copse_variable_read(n->v, r, to + 1 + r));
    return COPSE_OK;
}

/* All steps, or from a checkpoint of the first half on. A checkpoint is written after it. */
static copse_status run_net(copse_strategy *st, const char *from, const char *to, float *end)
{
    struct net n;
    copse_trainer *t = NULL;
    copse_status s = make_net(st, &n, &t);
    if (!s)
        s = from ? copse_trainer_restore(t, from, NULL, NULL) : take_steps(t, 0);
    if (!s && to)
        s = copse_trainer_checkpoint(t, to, NULL);
    if (!s)
        s = take_steps(t, HALF);
    if (!s)
        s = read_net(&n, st, end);
    copse_trainer_release(&t);
    return s;
}

static copse_strategy *mirrored(copse_context *from, uint32_t replicas)
{
    const char *ids[8] = { "host:0", "host:0", "host:0", "host:0" };
    copse_strategy *st;
    OK(copse_mirrored_create(from, ids, replicas, NULL, &st));
    return st;
}

static void run_here(copse_context *from, uint32_t replicas, const char *path, const char *to,
                     float *end)
{
    copse_strategy *st = mirrored(from, replicas);
    OK(run_net(st, path, to, end));
    copse_strategy_release(&st);
}

static copse_context *listening(void)
{
    copse_context *c;
    OK(copse_context_create(&(struct copse_context_params){ .log = take_line }, &c));
    told = 0;
    return c;
}

static void as_many_replicas_go_on_bit_for_bit(void **unused)
{
    copse_context *c = listening();
    (void)unused;
    for (uint32_t replicas = 1; replicas <= 4; replicas++) {
        float whole[5] = { 0 }, resumed[5] = { 0 };
        run_here(c, replicas, NULL, temp_path("half"), whole);
        run_here(c, replicas, temp_path("half"), temp_path("again"), resumed);
        assert_memory_equal(whole, resumed, sizeof whole);
        temp_check_same(temp_path("half"), temp_path("again"));
        assert_true(replicas == 1 || whole[1] != whole[2]);
    }
    assert_int_equal(told, 0);
    copse_context_release(&c);
}

static void other_numbers_take_the_aggregate(void **unused)
{
    copse_context *c = listening();
    float end[5];
    (void)unused;
    run_here(c, 3, NULL, temp_path("three"), end);
    for (uint32_t replicas = 1; replicas <= 4; replicas++) {
        struct net n;
        copse_trainer *t;
        copse_strategy *st = mirrored(c, replicas);
        float parts[3], v, mean;
        copse_checkpoint *file;
        OK(copse_checkpoint_read(c, temp_path("three"), &file));
        memcpy(&mean, copse_checkpoint_find(file, "v")->data, sizeof mean);
        for (uint32_t r = 0; r < 3; r++) {
            char name[16];
            snprintf(name, sizeof name, "v/replica_%u", r);
            memcpy(&parts[r], copse_checkpoint_find(file, name)->data, sizeof *parts);
        }
        assert_null(copse_checkpoint_find(file, "v/replica_3"));
        copse_checkpoint_release(&file);
        OK(make_net(st, &n, &t));
        told = 0;
        OK(copse_trainer_restore(t, temp_path("three"), NULL, NULL));
        assert_int_equal(told, replicas != 3);
        for (uint32_t r = 0; r < replicas; r++) {
            OK(copse_variable_read(n.v, r, &v));
            assert_true(v == (replicas == 3 ? parts[r] : mean));
        }
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
    copse_context_release(&c);
}

/* The file without the arrays of components, as older versions wrote it. */
static void write_older(copse_context *c, const char *from, const char *to)
{
    copse_checkpoint *file;
    struct copse_named_array list[16];
    struct copse_metadata lines[32];
    size_t count, line_count, n = 0;
    char sum[16];
    OK(copse_checkpoint_read(c, from, &file));
    const struct copse_named_array *all = copse_checkpoint_arrays(file, &count);
    const struct copse_metadata *own = copse_checkpoint_metadata(file, &line_count);
    assert_true(line_count <= 32);
    memcpy(lines, own, line_count * sizeof *lines);
    for (size_t i = 0; i < count; i++)
        if (!strstr(all[i].name, "/replica_"))
            list[n++] = all[i];
    assert_int_equal(count - n, 3);
    const struct copse_checkpoint_params p = {
        .arrays = list, .array_count = n, .metadata = lines, .metadata_count = line_count
    };
    OK(copse__checksum(&copse__base(c)->mem, &p, sum));
    for (size_t i = 0; i < line_count; i++)
        if (strcmp(lines[i].key, "checksum") == 0)
            lines[i].value = sum;
    OK(copse_checkpoint_write(c, to, &p));
    copse_checkpoint_release(&file);
}

static void older_files_load_and_say_so(void **unused)
{
    copse_context *c = listening();
    float end[5];
    (void)unused;
    run_here(c, 3, NULL, temp_path("new"), end);
    write_older(c, temp_path("new"), temp_path("old"));
    assert_int_equal(told, 0);
    run_here(c, 3, temp_path("old"), NULL, end);
    assert_int_equal(told, 1);
    copse_context_release(&c);
}

/* ---- several workers ---- */

static copse_status run_half(struct worker *w, copse_strategy *st)
{
    char path[240];
    snprintf(path, sizeof path, "%s/of_workers", temp_folder);
    return run_net(st, NULL, path, w->values);
}

static copse_status run_on(struct worker *w, copse_strategy *st)
{
    char path[240];
    snprintf(path, sizeof path, "%s/of_workers", temp_folder);
    return run_net(st, path, NULL, w->values);
}

static void workers_go_on_bit_for_bit(void **unused)
{
    struct worker whole[2], resumed[2];
    (void)unused;
    run_workers(whole, 2, 2, run_half);
    assert_all_ok(whole, 2);
    run_workers(resumed, 2, 2, run_on);
    assert_all_ok(resumed, 2);
    for (uint32_t v = 0; v < 2; v++)
        assert_memory_equal(whole[v].values, resumed[v].values, 3 * sizeof(float));
    assert_true(whole[0].values[1] != whole[1].values[1]);

    float here[5]; /* one process with as many replicas reads the same file */
    run_here(ctx, 4, temp_path("of_workers"), NULL, here);
    for (uint32_t v = 0; v < 2; v++)
        assert_memory_equal(here + 1 + 2 * v, whole[v].values + 1, 2 * sizeof(float));
}

static void components_keep_their_names(void **unused)
{
    copse_strategy *st = mirrored(ctx, 2);
    copse_variable *v;
    const struct copse_variable_params taken = { .name = "v/replica_1", .shape = COPSE_SCALAR };
    const struct copse_variable_params other = { .name = "u/replica_0", .shape = COPSE_SCALAR };
    const struct copse_variable_params local = { .name = "u",
                                                 .shape = COPSE_SCALAR,
                                                 .synchronization = COPSE_SYNC_ON_READ };
    struct net n;
    copse_trainer *t;
    (void)unused;
    OK(make_net(st, &n, &t));
    FAILS(COPSE_ERR_ARGUMENT, copse_variable_create(st, &taken, &v),
          "a component of the replica-local variable 'v'");
    OK(copse_variable_create(st, &other, &v));
    FAILS(COPSE_ERR_ARGUMENT, copse_variable_create(st, &local, &v),
          "has the name of variable 'u/replica_0'");
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

static int open_files(void **state)
{
    temp_begin();
    return open_workers(state);
}

static int close_files(void **state)
{
    temp_end();
    return close_workers(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_replicas_go_on_bit_for_bit),
        cmocka_unit_test(other_numbers_take_the_aggregate),
        cmocka_unit_test(older_files_load_and_say_so),
        cmocka_unit_test(workers_go_on_bit_for_bit),
        cmocka_unit_test(components_keep_their_names),
    };
    return cmocka_run_group_tests(tests, open_files, close_files);
}
