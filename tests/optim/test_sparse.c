/* SPDX-License-Identifier: MIT */
/* Sparse variables: gradients of rows from the lookup to the update, under every strategy. Numbers
   are not whole, so sums depend on their order: where the same bits are promised, the order is
   compared, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/reduce/row/row_exchange.h"
#include "core/train/trainer.h"
#include "tests/rig/train/gradient_rig.h"

enum { TABLE_ROWS = 300, WIDTH = 5, IDS = 4, EXAMPLES = 37, BATCHES = 3, STEPS = 5 };

static int32_t batch_ids[BATCHES][EXAMPLES * IDS];
static float batch_x[BATCHES][EXAMPLES * IDS * WIDTH];

static float random_value(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / 8388608.0f - 1.0f;
}

/* Few rows have many positions; half of the rows have none. */
static void make_batches(void)
{
    uint32_t seed = 5;
    for (int b = 0; b < BATCHES; b++) {
        for (int i = 0; i < EXAMPLES * IDS; i++) {
            const float u = random_value(&seed);
            batch_ids[b][i] = (int32_t)(u * u * u * u * 149) * 2;
        }
        for (int i = 0; i < EXAMPLES * IDS * WIDTH; i++)
            batch_x[b][i] = random_value(&seed);
    }
}

struct table {
    copse_variable *table, *bias;
    bool looks_twice; /* the rows at the ids, and those at the ids of the next example's */
};

struct sparse_job {
    struct copse_optimizer_params optimizer;
    bool is_sparse, looks_twice;
    int examples; /* of a batch; 0: 2, then 37, then 5, ... */
};

struct sparse_result {
    float table[TABLE_ROWS * WIDTH], bias[WIDTH];
};

static copse_tensor *lookup(copse_graph *g, struct table *m, copse_tensor *ids, copse_tensor *x)
{
    copse_tensor *y = copse_gather(g, copse_variable_tensor(m->table), ids);
    y = copse_add(g, y, copse_variable_tensor(m->bias));
    y = copse_mul(g, y, x);
    return copse_sum(g, y, NULL, 0, false);
}

static copse_tensor *table_loss(copse_graph *g, const copse_batch *in, void *user)
{
    struct table *m = user;
    copse_tensor *ids = copse_input(in, "ids");
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *loss = lookup(g, m, ids, x);
    if (!m->looks_twice)
        return loss;
    x = copse_square(g, x);
    copse_tensor *other = lookup(g, m, ids, x);
    return copse_add(g, loss, other);
}

static copse_status make_table(copse_strategy *st, bool is_sparse, uint32_t rows, struct table *m)
{
    const struct copse_variable_params table = { .name = "table",
                                                 .shape = COPSE_SHAPE(rows, WIDTH),
                                                 .seed = 3,
                                                 .initializer = COPSE_INIT_NORMAL,
                                                 .is_sparse = is_sparse };
    const struct copse_variable_params bias = { .name = "bias",
                                                .shape = COPSE_SHAPE(WIDTH),
                                                .initializer = COPSE_INIT_ONES };
    COPSE_TRY(copse_variable_create(st, &table, &m->table));
    return copse_variable_create(st, &bias, &m->bias);
}

static copse_status make_trainer(struct table *m, const struct sparse_job *job, copse_trainer **out)
{
    return copse_trainer_create(m->table->strategy,
                                &(struct copse_trainer_params){ .loss = table_loss,
                                                                .user = m,
                                                                .reduction = COPSE_LOSS_SUM,
                                                                .optimizer = job->optimizer },
                                out);
}

static copse_status table_step(copse_trainer *t, int batch, int examples)
{
    const struct copse_column columns[] = {
        { "ids", COPSE_I32, COPSE_SHAPE(IDS), batch_ids[batch] },
        { "x", COPSE_F32, COPSE_SHAPE(IDS, WIDTH), batch_x[batch] }
    };
    const struct copse_host_batch b = { .columns = columns,
                                        .column_count = 2,
                                        .count = (size_t)examples };
    const uint32_t run = copse_accelerator_steps_per_run(copse_trainer_strategy(t));
    if (run <= 1)
        return copse_trainer_step(t, &b);
    if (copse_trainer_fed(t) == run)
        COPSE_TRY(copse_trainer_run(t));
    return copse_trainer_feed(t, &b);
}

static copse_status run_steps(copse_trainer *t, const struct sparse_job *job, int from, int to)
{
    static const int turns[] = { 2, EXAMPLES, 5 };
    for (int i = from; i < to; i++)
        COPSE_TRY(table_step(t, i % BATCHES, job->examples ? job->examples : turns[i % 3]));
    return copse_trainer_fed(t) > 0 ? copse_trainer_run(t) : COPSE_OK;
}

static copse_status read_table(const struct table *m, uint32_t replica, struct sparse_result *out)
{
    COPSE_TRY(copse_variable_read(m->table, replica, out->table));
    return copse_variable_read(m->bias, replica, out->bias);
}

/* All replicas have the same values. */
static copse_status read_replicas(const struct table *m, struct sparse_result *out)
{
    static struct sparse_result other[16];
    struct sparse_result *mine = &other[copse_strategy_first_rank(m->table->strategy) % 16];
    COPSE_TRY(read_table(m, 0, out));
    for (uint32_t r = 1; r < copse_strategy_replicas(m->table->strategy); r++) {
        COPSE_TRY(read_table(m, r, mine));
        if (memcmp(mine, out, sizeof *out) != 0)
            return copse_fail(COPSE_ERR_INTERNAL, "replica %u has other values", r);
    }
    return COPSE_OK;
}

static copse_status run_job(copse_strategy *st, const struct sparse_job *job,
                            struct sparse_result *out)
{
    struct table m = { .looks_twice = job->looks_twice };
    copse_trainer *t;
    COPSE_TRY(make_table(st, job->is_sparse, TABLE_ROWS, &m));
    COPSE_TRY(make_trainer(&m, job, &t));
    copse_status s = run_steps(t, job, 0, STEPS);
    if (!s)
        s = read_replicas(&m, out);
    copse_trainer_release(&t);
    return s;
}

static void run_with(const struct setup *s, const struct sparse_job *job, struct sparse_result *out)
{
    copse_strategy *st = make_strategy(s);
    OK(run_job(st, job, out));
    copse_strategy_release(&st);
}

static void same_bits(const char *name, const struct sparse_result *is,
                      const struct sparse_result *want)
{
    for (int i = 0; i < TABLE_ROWS * WIDTH; i++)
        if (memcmp(&is->table[i], &want->table[i], sizeof(float)) != 0)
            fail_msg("%s: row %d, column %d is %a, not %a", name, i / WIDTH, i % WIDTH,
                     (double)is->table[i], (double)want->table[i]);
    assert_memory_equal(is->bias, want->bias, sizeof want->bias);
}

#define SGD_RULE                                 \
    {                                            \
        .kind = COPSE_SGD, .learning_rate = 0.1f \
    }
#define CLIPPED_RULE                                                  \
    {                                                                 \
        .kind = COPSE_SGD, .learning_rate = 0.1f, .clip_value = 0.75f \
    }
#define ADAGRAD_RULE                                                  \
    {                                                                 \
        .kind = COPSE_ADAGRAD, .learning_rate = 0.1f, .initial = 0.5f \
    }

/* Rules for which a gradient of 0 changes nothing: the dense gradient's bits. */
static const struct copse_optimizer_params exact_rules[] = { SGD_RULE, CLIPPED_RULE, ADAGRAD_RULE };

static void on_each_device(const struct sparse_job *job,
                           void (*check)(const char *device, const struct sparse_job *job))
{
    for (uint32_t f = 0; f <= found_count; f++)
        check(f < found_count ? found[f] : "host:0", job);
}

static void compare_on(const char *device, const struct sparse_job *job)
{
    static struct sparse_result is, want;
    struct sparse_job dense = *job;
    copse_strategy *st;
    dense.is_sparse = false;
    OK(copse_one_device_create(ctx, device, NULL, &st));
    OK(run_job(st, &dense, &want));
    copse_strategy_release(&st);
    OK(copse_one_device_create(ctx, device, NULL, &st));
    OK(run_job(st, job, &is));
    copse_strategy_release(&st);
    same_bits(device, &is, &want);
}

static void one_device_has_the_dense_bits(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof exact_rules / sizeof *exact_rules; k++)
        on_each_device(&(struct sparse_job){ exact_rules[k], true, false, EXAMPLES }, compare_on);
}

/* Also with shards of different sizes, with replicas that have no example, and with lists that grow
   from step to step. */
static void every_strategy_has_the_dense_bits(void **state)
{
    static struct sparse_result is, want;
    static const int examples[] = { EXAMPLES, 2, 0 };
    (void)state;
    for (size_t k = 0; k < sizeof exact_rules / sizeof *exact_rules; k++)
        for (size_t e = 0; e < 3; e++)
            for (int i = 0; i < SETUPS; i++) {
                struct sparse_job job = { exact_rules[k], false, false, examples[e] };
                /* all batches of its runs have one size */
                if (setups[i].kind == CORES && examples[e] == 0)
                    continue;
                run_with(&setups[i], &job, &want);
                job.is_sparse = true;
                run_with(&setups[i], &job, &is);
                same_bits(setups[i].name, &is, &want);
            }
}

/* ---- workers ---- */

static struct sparse_result of_rank[8];

static copse_status run_in_worker(struct worker *w, copse_strategy *st)
{
    return run_job(st, w->job, &of_rank[w->rank]);
}

static void run_on_workers(uint32_t workers, uint32_t replicas, const struct sparse_job *job)
{
    struct worker w[4];
    run_workers_over(&copse__transport_local, w, workers, replicas, job, run_in_worker);
    assert_all_ok(w, workers);
}

/* Two examples leave workers without any. */
static void workers_have_the_bits_of_one_process(void **state)
{
    static struct sparse_result want;
    static const struct {
        uint32_t workers, replicas;
        int examples;
    } sizes[] = {
        { 2, 1, EXAMPLES }, { 2, 2, EXAMPLES }, { 3, 1, EXAMPLES }, { 4, 2, 2 },
        { 4, 1, 2 },        { 2, 1, 0 },        { 4, 2, 0 },
    };
    (void)state;
    for (size_t k = 0; k < sizeof exact_rules / sizeof *exact_rules; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct sparse_job job = { exact_rules[k], false, false, sizes[i].examples };
            const char *ids[8];
            copse_strategy *st;
            for (uint32_t r = 0; r < 8; r++)
                ids[r] = found[r % found_count];
            OK(copse_mirrored_create(ctx, ids, sizes[i].workers * sizes[i].replicas, NULL, &st));
            OK(run_job(st, &job, &want));
            copse_strategy_release(&st);
            job.is_sparse = true;
            run_on_workers(sizes[i].workers, sizes[i].replicas, &job);
            for (uint32_t v = 0; v < sizes[i].workers; v++)
                same_bits("workers", &of_rank[v], &want);
        }
}

/* ---- rules that measure: sums of squares of rows are formed in another order than those of a
   dense range ---- */

static const struct copse_optimizer_params measuring_rules[] = {
    { .kind = COPSE_SGD, .learning_rate = 0.1f, .clip_global_norm = 2.0f },
    { .kind = COPSE_SGD, .learning_rate = 0.1f, .clip_norm = 2.0f },
    { .kind = COPSE_SGD, .learning_rate = 0.1f, .loss_scale = 1024.0f },
    { .kind = COPSE_ADAGRAD, .learning_rate = 0.1f, .clip_global_norm = 1e6f },
};

static void near(const char *name, const struct sparse_result *is, const struct sparse_result *want)
{
    for (int i = 0; i < TABLE_ROWS * WIDTH; i++)
        if (!(fabsf(is->table[i] - want->table[i]) <= 1e-5f))
            fail_msg("%s: row %d, column %d is %.9g, not %.9g", name, i / WIDTH, i % WIDTH,
                     (double)is->table[i], (double)want->table[i]);
    for (int i = 0; i < WIDTH; i++)
        assert_true(fabsf(is->bias[i] - want->bias[i]) <= 1e-5f);
}

static void norms_include_the_rows(void **state)
{
    static struct sparse_result is, want, free_of;
    (void)state;
    run_with(&setups[0], &(struct sparse_job){ SGD_RULE, true, false, EXAMPLES }, &free_of);
    for (size_t k = 0; k < sizeof measuring_rules / sizeof *measuring_rules; k++) {
        struct sparse_job job = { measuring_rules[k], false, false, EXAMPLES };
        run_with(&setups[0], &job, &want);
        assert_true(
            (measuring_rules[k].clip_norm > 0 || measuring_rules[k].clip_global_norm == 2.0f) ==
            (fabsf(want.table[0] - free_of.table[0]) > 1e-3f &&
             measuring_rules[k].kind == COPSE_SGD));
        job.is_sparse = true;
        for (int i = 0; i < SETUPS; i++) {
            run_with(&setups[i], &job, &is);
            near(setups[i].name, &is, &want);
        }
        run_on_workers(2, 2, &job);
        near("workers", &of_rank[0], &want);
        near("workers", &of_rank[1], &want);
    }
}

/* The table alone is trained: no dense sum tells of the infinite element. */
static void a_sum_that_is_not_finite_skips_the_update(void **state)
{
    static const struct sparse_job job = {
        { .kind = COPSE_ADAM, .loss_scale = 2.0f, .groups = "bias: frozen" }, true, false, EXAMPLES
    };
    static struct sparse_result is, want;
    (void)state;
    for (int i = 0; i < SETUPS; i++) {
        struct table m = { .looks_twice = false };
        struct copse_step_result result;
        copse_trainer *t;
        copse_strategy *st = make_strategy(&setups[i]);
        if (setups[i].kind == CORES || setups[i].kind == SERVER) {
            copse_strategy_release(&st);
            continue;
        }
        OK(make_table(st, true, TABLE_ROWS, &m));
        OK(make_trainer(&m, &job, &t));
        OK(table_step(t, 0, EXAMPLES));
        OK(read_replicas(&m, &want));
        float *x = &batch_x[1][EXAMPLES * IDS * WIDTH - 1];
        const float kept = *x;
        *x = INFINITY;
        OK(table_step(t, 1, EXAMPLES));
        *x = kept;
        OK(copse_trainer_result(t, true, &result));
        assert_false(result.is_skipped);
        assert_int_equal(copse_trainer_result(t, true, &result), COPSE_ERR_NONFINITE);
        assert_true(result.is_skipped);
        OK(read_replicas(&m, &is));
        same_bits(setups[i].name, &is, &want);
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
}

/* Two lookups are added in another order than two dense gradients. */
static void two_lookups_are_joined(void **state)
{
    static struct sparse_result is, want;
    struct sparse_job job = { SGD_RULE, false, true, EXAMPLES };
    (void)state;
    run_with(&setups[0], &job, &want);
    job.is_sparse = true;
    run_with(&setups[0], &job, &is);
    for (int i = 0; i < TABLE_ROWS * WIDTH; i++)
        assert_true(fabsf(is.table[i] - want.table[i]) <= 1e-5f);
}

/* ---- lazy rules, against the formulas in double ---- */

static void row_gradient(int batch, double *g, bool *is_touched)
{
    memset(g, 0, sizeof(double) * TABLE_ROWS * WIDTH);
    memset(is_touched, 0, TABLE_ROWS);
    for (int i = 0; i < EXAMPLES * IDS; i++) {
        is_touched[batch_ids[batch][i]] = true;
        for (int c = 0; c < WIDTH; c++)
            g[batch_ids[batch][i] * WIDTH + c] += (double)batch_x[batch][i * WIDTH + c];
    }
}

static double change_of(const struct copse_optimizer_params *p, double g, double *a, double *b,
                        int t)
{
    if (p->kind == COPSE_ADAM) {
        *a = 0.9 * *a + 0.1 * g;
        *b = 0.999 * *b + 0.001 * g * g;
        return *a / (1 - pow(0.9, t)) / (sqrt(*b / (1 - pow(0.999, t))) + (double)p->epsilon);
    }
    *a = (double)p->momentum * *a + g;
    return p->kind == COPSE_NESTEROV ? g + (double)p->momentum * *a : *a;
}

static void run_lazy(const struct copse_optimizer_params *p, double *value)
{
    static double g[TABLE_ROWS * WIDTH], a[TABLE_ROWS * WIDTH], b[TABLE_ROWS * WIDTH];
    static bool is_touched[TABLE_ROWS];
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    for (int t = 1; t <= STEPS; t++) {
        row_gradient((t - 1) % BATCHES, g, is_touched);
        for (int i = 0; i < TABLE_ROWS * WIDTH; i++)
            if (is_touched[i / WIDTH])
                value[i] -= (double)p->learning_rate * change_of(p, g[i], &a[i], &b[i], t);
    }
}

static void lazy_rules_change_the_rows_of_the_batch(void **state)
{
    static const struct copse_optimizer_params rules[] = {
        { .kind = COPSE_MOMENTUM, .learning_rate = 0.01f, .momentum = 0.9f },
        { .kind = COPSE_NESTEROV, .learning_rate = 0.01f, .momentum = 0.9f },
        { .kind = COPSE_ADAM, .learning_rate = 0.01f, .epsilon = 1e-3f },
    };
    static struct sparse_result is;
    static float first[TABLE_ROWS * WIDTH];
    static double want[TABLE_ROWS * WIDTH];
    struct table m;
    copse_strategy *st = make_strategy(&setups[0]);
    (void)state;
    OK(make_table(st, true, TABLE_ROWS, &m));
    OK(copse_variable_read(m.table, 0, first));
    copse_strategy_release(&st);
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++)
        for (int s = 0; s < SETUPS; s++) {
            if (setups[s].kind == SERVER) /* dense there */
                continue;
            for (int i = 0; i < TABLE_ROWS * WIDTH; i++)
                want[i] = (double)first[i];
            run_lazy(&rules[k], want);
            run_with(&setups[s], &(struct sparse_job){ rules[k], true, false, EXAMPLES }, &is);
            for (int i = 0; i < TABLE_ROWS * WIDTH; i++)
                if (!(fabs((double)is.table[i] - want[i]) <= 2e-5))
                    fail_msg("%s, rule %zu: row %d is %.9g, not %.9g", setups[s].name, k, i / WIDTH,
                             (double)is.table[i], want[i]);
        }
}

/* ---- work and memory ---- */

struct extent {
    struct copse_row_exchange_size size;
    uint64_t groups, moved; /* of the step's longest launch; bytes of its longest copy or fill */
};

static void measure_segment(const struct copse_segment *segment, struct extent *e)
{
    for (size_t i = 0; i < segment->count; i++) {
        const struct copse_command *c = &segment->commands[i];
        if (c->kind == COPSE_COMMAND_DISPATCH)
            e->groups = e->groups > (uint64_t)c->groups_x * c->groups_y
                            ? e->groups
                            : (uint64_t)c->groups_x * c->groups_y;
        else
            e->moved = e->moved > c->bindings[0].size ? e->moved : c->bindings[0].size;
    }
}

/* What one step of a table of so many rows takes. */
static struct extent extent_of(uint32_t rows)
{
    const struct sparse_job job = { { .kind = COPSE_ADAM }, true, false, EXAMPLES };
    struct extent e = { .groups = 0 };
    struct table m = { .looks_twice = false };
    copse_strategy *st;
    copse_trainer *t;
    OK(copse_mirrored_create(ctx, (const char *const[]){ "host:0", "host:0" }, 2, NULL, &st));
    OK(make_table(st, true, rows, &m));
    OK(make_trainer(&m, &job, &t));
    OK(table_step(t, 0, EXAMPLES));
    const uint32_t bucket = copse__optimizer_bucket(t->optimizer, m.table);
    e.size = copse__row_exchange_size(t->optimizer->buckets.at[bucket].rows);
    struct copse_program *program = t->recordings.of[0].at[0]->program;
    for (uint32_t i = 0; i < copse__program_segments(program); i++)
        measure_segment(copse__program_list(program)[i], &e);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    return e;
}

static void a_step_has_the_size_of_its_batch(void **state)
{
    const struct extent few = extent_of(1000), many = extent_of(1000000);
    (void)state;
    assert_true(few.size.places > 0 && few.size.bytes > 0);
    assert_int_equal(few.size.places, many.size.places);
    assert_int_equal(few.size.invocations, many.size.invocations);
    assert_int_equal(few.size.bytes, many.size.bytes);
    assert_int_equal(few.groups, many.groups);
    assert_int_equal(few.moved, many.moved);
    assert_true(many.size.invocations < 4 * EXAMPLES * IDS * WIDTH + 4096);
}

/* ---- what is refused ---- */

static void refuses(const struct sparse_job *job, const struct copse_trainer_params *params,
                    copse_status code, const char *word)
{
    struct table m = { .looks_twice = false };
    copse_trainer *t;
    copse_strategy *st = make_strategy(&setups[0]);
    OK(make_table(st, true, TABLE_ROWS, &m));
    struct copse_trainer_params p = *params;
    p.loss = p.loss ? p.loss : table_loss;
    p.user = &m;
    p.optimizer = job->optimizer;
    copse_status s = copse_trainer_create(st, &p, &t);
    if (s == COPSE_OK) {
        s = table_step(t, 0, EXAMPLES);
        copse_trainer_release(&t);
    }
    assert_int_equal(s, code);
    if (!strstr(copse_last_error(), word) || !strstr(copse_last_error(), "'table'"))
        fail_msg("'%s' does not name '%s' and the variable", copse_last_error(), word);
    copse_strategy_release(&st);
}

static void keep_gradients(copse_graph *g, struct copse_gradient *pairs, size_t count, void *user)
{
    (void)g, (void)pairs, (void)count, (void)user;
}

static copse_tensor *dense_loss(copse_graph *g, const copse_batch *in, void *user)
{
    struct table *m = user;
    copse_tensor *loss = table_loss(g, in, user);
    copse_tensor *sum = copse_sum(g, copse_variable_tensor(m->table), NULL, 0, false);
    return copse_add(g, loss, sum);
}

static void what_has_no_sparse_form_is_refused(void **state)
{
    static const struct {
        struct copse_optimizer_params p;
        const char *word;
    } settings[] = {
        { { .kind = COPSE_LION }, "lion" },
        { { .kind = COPSE_ADAMW }, "adamw" },
        { { .kind = COPSE_FTRL }, "ftrl" },
        { { .kind = COPSE_SGD, .weight_decay = 0.1f }, "weight_decay" },
        { { .average = 0.9f }, "average" },
    };
    const struct sparse_job sgd = { .optimizer = SGD_RULE };
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        refuses(&(struct sparse_job){ .optimizer = settings[i].p },
                &(struct copse_trainer_params){ .loss = NULL }, COPSE_ERR_UNSUPPORTED,
                settings[i].word);
    refuses(&sgd, &(struct copse_trainer_params){ .accumulate = 2 }, COPSE_ERR_UNSUPPORTED,
            "accumulate");
    refuses(&sgd, &(struct copse_trainer_params){ .transform = keep_gradients },
            COPSE_ERR_UNSUPPORTED, "transform");
    refuses(&sgd, &(struct copse_trainer_params){ .loss = dense_loss }, COPSE_ERR_UNSUPPORTED,
            "copse_gather");
}

/* A group without weight decay, while other variables have it. */
static void a_group_may_have_no_decay(void **state)
{
    static struct sparse_result is, want;
    struct sparse_job job = { { .kind = COPSE_SGD,
                                .learning_rate = 0.1f,
                                .weight_decay = 0.1f,
                                .groups = "table: decay=0" },
                              false,
                              false,
                              EXAMPLES };
    (void)state;
    run_with(&setups[0], &job, &want);
    job.is_sparse = true;
    run_with(&setups[0], &job, &is);
    same_bits("groups", &is, &want);
}

static void sparse_variables_are_tables(void **state)
{
    copse_variable *v;
    copse_strategy *st = make_strategy(&setups[0]);
    (void)state;
    const struct copse_variable_params line = { .name = "v",
                                                .shape = COPSE_SHAPE(3),
                                                .is_sparse = true };
    const struct copse_variable_params whole = {
        .name = "v", .shape = COPSE_SHAPE(3, 2), .type = COPSE_I32, .is_sparse = true
    };
    assert_int_equal(copse_variable_create(st, &line, &v), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_variable_create(st, &whole, &v), COPSE_ERR_ARGUMENT);
    copse_strategy_release(&st);
}

/* ---- several workers and slots: they are at one worker, and all read and restore them ---- */

static copse_status resume_in_worker(struct worker *w, copse_strategy *st)
{
    const struct sparse_job *job = w->job;
    struct table m = { .looks_twice = false };
    struct copse_step_result result;
    copse_trainer *t;
    char path[64];
    snprintf(path, sizeof path, "test_sparse_%u.safetensors", w->size);
    COPSE_TRY(make_table(st, true, TABLE_ROWS, &m));
    COPSE_TRY(make_trainer(&m, job, &t));
    copse_status s = run_steps(t, job, 0, 2);
    if (!s)
        s = copse_trainer_checkpoint(t, path, NULL);
    if (!s)
        s = run_steps(t, job, 2, 4); /* is lost */
    for (int i = 0; i < 4 && !s; i++)
        s = copse_trainer_result(t, true, &result);
    if (!s)
        s = copse_trainer_restore(t, path, NULL, NULL);
    if (!s)
        s = run_steps(t, job, 2, STEPS);
    if (!s)
        s = read_replicas(&m, &of_rank[w->rank]);
    copse_trainer_release(&t);
    return s;
}

static void workers_resume_lazy_rules(void **state)
{
    static const struct sparse_job job = {
        { .kind = COPSE_ADAM, .learning_rate = 0.01f }, true, false, EXAMPLES
    };
    static struct sparse_result want;
    const char *ids[] = { "host:0", "host:0", "host:0", "host:0" };
    struct worker w[2];
    copse_strategy *st;
    (void)state;
    host_alone(); /* roots are rounded by devices */
    OK(copse_mirrored_create(ctx, ids, 4, NULL, &st));
    OK(run_job(st, &job, &want));
    copse_strategy_release(&st);
    run_workers_over(&copse__transport_local, w, 2, 2, &job, resume_in_worker);
    devices_back();
    assert_all_ok(w, 2);
    same_bits("worker 0", &of_rank[0], &want);
    same_bits("worker 1", &of_rank[1], &want);
    remove("test_sparse_2.safetensors");
}

/* ---- checkpoints ---- */

static void a_resumed_run_has_the_same_bits(void **state)
{
    static const struct sparse_job job = {
        { .kind = COPSE_ADAM, .learning_rate = 0.01f }, true, false, EXAMPLES
    };
    static struct sparse_result is, want;
    const char *path = "test_sparse.safetensors";
    (void)state;
    for (int i = 0; i < SETUPS; i++) {
        struct table m = { .looks_twice = false };
        copse_trainer *t;
        if (setups[i].kind == SERVER)
            continue;
        run_with(&setups[i], &job, &want);
        copse_strategy *st = make_strategy(&setups[i]);
        OK(make_table(st, true, TABLE_ROWS, &m));
        OK(make_trainer(&m, &job, &t));
        OK(run_steps(t, &job, 0, 2));
        OK(copse_trainer_checkpoint(t, path, NULL));
        copse_trainer_release(&t);
        copse_strategy_release(&st);
        st = make_strategy(&setups[i]);
        OK(make_table(st, true, TABLE_ROWS, &m));
        OK(make_trainer(&m, &job, &t));
        OK(copse_trainer_restore(t, path, NULL, NULL));
        OK(run_steps(t, &job, 2, STEPS));
        OK(read_replicas(&m, &is));
        same_bits(setups[i].name, &is, &want);
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
    remove(path);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_device_has_the_dense_bits),
        cmocka_unit_test(every_strategy_has_the_dense_bits),
        cmocka_unit_test(workers_have_the_bits_of_one_process),
        cmocka_unit_test(norms_include_the_rows),
        cmocka_unit_test(a_sum_that_is_not_finite_skips_the_update),
        cmocka_unit_test(two_lookups_are_joined),
        cmocka_unit_test(lazy_rules_change_the_rows_of_the_batch),
        cmocka_unit_test(a_step_has_the_size_of_its_batch),
        cmocka_unit_test(what_has_no_sparse_form_is_refused),
        cmocka_unit_test(a_group_may_have_no_decay),
        cmocka_unit_test(sparse_variables_are_tables),
        cmocka_unit_test(workers_resume_lazy_rules),
        cmocka_unit_test(a_resumed_run_has_the_same_bits),
    };
    make_batches();
    return cmocka_run_group_tests(tests, open_workers, close_workers);
}
