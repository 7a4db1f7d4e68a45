/* SPDX-License-Identifier: MIT */
/* Cross-checks and audits of sparse variables: wrong kernels of rows, rows that differ between
   replicas and gradients of rows that are not repeated are found, and no bit of a result changes.
   Devices are fakes whose kernels are the host functions. */
#include "copse/distribute/sync.h"
#include "tests/rig/train/watch_rig.h"

enum { WIDTH = 4, IDS = 3, EXAMPLES = 20, FEW = 300, MANY = 1 << 19, BATCHES = 5 };

struct table_job {
    copse_strategy *st;
    copse_trainer *t;
    copse_variable *table;
};

static int32_t ids[BATCHES][EXAMPLES * IDS];
static float factors[BATCHES][EXAMPLES * IDS * WIDTH];
static float values[MANY * WIDTH], others[MANY * WIDTH];

/* Even rows, up to the last but one. */
static void make_batches(uint32_t rows)
{
    uint32_t seed = 9;
    for (int b = 0; b < BATCHES; b++)
        for (int i = 0; i < EXAMPLES * IDS; i++) {
            seed = seed * 1664525u + 1013904223u;
            ids[b][i] = (int32_t)((seed >> 8) % (rows / 2) * 2);
            for (int c = 0; c < WIDTH; c++)
                factors[b][i * WIDTH + c] = (float)((seed >> (8 + 3 * c)) % 64) / 32.0f - 0.97f;
        }
}

static copse_tensor *table_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct table_job *j = user;
    copse_tensor *i = copse_input(in, "ids");
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_gather(g, copse_variable_tensor(j->table), i);
    y = copse_mul(g, y, x);
    return copse_mean(g, y, NULL, 0, false);
}

/* `devices`: a digit for each replica. */
static void open_table(struct table_job *j, const char *devices, uint32_t rows,
                       copse_optimizer_kind kind, const struct copse_audit_params *audit)
{
    char names[4][8];
    const char *list[4];
    const size_t count = strlen(devices);
    for (size_t r = 0; r < count; r++) {
        snprintf(names[r], sizeof names[r], "fake:%c", devices[r]);
        list[r] = names[r];
    }
    make_batches(rows);
    *j = (struct table_job){ .st = NULL };
    OK(copse_mirrored_create(ctx, list, count, NULL, &j->st));
    OK(copse_variable_create(j->st,
                             &(struct copse_variable_params){ .name = "table",
                                                              .shape = COPSE_SHAPE(rows, WIDTH),
                                                              .seed = 3,
                                                              .initializer = COPSE_INIT_NORMAL,
                                                              .is_sparse = true },
                             &j->table));
    OK(copse_trainer_create(
        j->st,
        &(struct copse_trainer_params){ .loss = table_loss,
                                        .user = j,
                                        .seed = job_seed,
                                        .optimizer = { .kind = kind, .learning_rate = 0.5f } },
        &j->t));
    OK(copse_trainer_audit(j->t, audit));
}

static void close_table(struct table_job *j)
{
    copse_trainer_release(&j->t);
    copse_strategy_release(&j->st);
}

static copse_status table_step(struct table_job *j, uint64_t i)
{
    struct copse_step_result r;
    const struct copse_column columns[] = {
        { "ids", COPSE_I32, COPSE_SHAPE(IDS), ids[i % BATCHES] },
        { "x", COPSE_F32, COPSE_SHAPE(IDS, WIDTH), factors[i % BATCHES] }
    };
    COPSE_TRY(copse_trainer_step(
        j->t,
        &(struct copse_host_batch){ .columns = columns, .column_count = 2, .count = EXAMPLES }));
    return copse_trainer_result(j->t, true, &r);
}

static void fresh_fakes(void)
{
    end(NULL);
    begin(NULL);
}

static void expect_line(copse_status s, const char *const *words, size_t count)
{
    const char *text = copse_last_error();
    if (s != COPSE_ERR_UNRELIABLE || strchr(text, '\n'))
        fail_msg("%s: %s", copse_status_name(s), text);
    for (size_t i = 0; i < count; i++)
        if (!strstr(text, words[i]))
            fail_msg("'%s' does not say '%s'", text, words[i]);
}

/* The first step is refused, and nothing has changed. */
static void refused(const char *devices, uint32_t rows, copse_optimizer_kind kind,
                    const char *device, const char *kernel)
{
    struct table_job j;
    char what[64];
    open_table(&j, devices, rows, kind, NULL);
    OK(copse_variable_read(j.table, 0, values));
    snprintf(what, sizeof what, "kernel %s ", kernel);
    const char *const words[] = { device, "'table'", "step 1:", what, "copse conformance" };
    expect_line(table_step(&j, 0), words, sizeof words / sizeof *words);
    for (uint32_t r = 0; r < strlen(devices); r++) {
        OK(copse_variable_read(j.table, r, others));
        assert_memory_equal(values, others, sizeof(float) * rows * WIDTH);
    }
    assert_int_equal(table_step(&j, 1), COPSE_ERR_UNRELIABLE);
    close_table(&j);
}

static void each_wrong_kernel_of_rows_is_found(void **state)
{
    static const struct {
        const char *devices, *kernel;
        copse_optimizer_kind kind;
        int device;
    } rows[] = {
        { "0", "row_heads", COPSE_SGD, 0 },  { "0", "gather_grad", COPSE_SGD, 0 },
        { "0", "row_find", COPSE_SGD, 0 },   { "0", "sgd", COPSE_SGD, 0 },
        { "0", "row_put", COPSE_SGD, 0 },    { "0", "adam", COPSE_ADAM, 0 },
        { "0", "row_put", COPSE_ADAM, 0 },   { "01", "row_find", COPSE_SGD, 0 },
        { "01", "row_join", COPSE_SGD, 0 },  { "01", "row_put", COPSE_SGD, 0 },
        { "01", "row_put", COPSE_SGD, 1 },   { "01", "row_heads", COPSE_SGD, 1 },
        { "00", "row_join", COPSE_ADAM, 0 }, { "00", "row_put", COPSE_SGD, 0 },
        { "001", "row_join", COPSE_SGD, 0 }, { "001", "row_put", COPSE_SGD, 1 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char device[] = { 'f', 'a', 'k', 'e', ':', (char)('0' + rows[i].device), '\0' };
        copse_fake.devices[rows[i].device].cut = rows[i].kernel; /* it writes nothing */
        refused(rows[i].devices, FEW, rows[i].kind, device, rows[i].kernel);
        fresh_fakes();
    }
}

/* For a large table the last rows are compared; the lists name the last one. */
static void late_rows_of_a_large_table_are_found(void **state)
{
    static const char *const kernels[] = { "row_put", "row_find", "sgd" };
    static const uint32_t from[] = { (1 << 20) - WIDTH, 30, 100 };
    (void)state;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        copse_fake.devices[0].cut = kernels[i];
        copse_fake.devices[0].cut_from = from[i];
        refused("0", MANY, COPSE_SGD, "fake:0", kernels[i]);
        fresh_fakes();
    }
}

/* Lists become longer: the update has other launches, and these are compared. */
static void longer_lists_are_compared(void **state)
{
    struct table_job j;
    struct copse_step_result r;
    (void)state;
    open_table(&j, "01", FEW, COPSE_ADAM, NULL);
    const struct copse_column columns[] = { { "ids", COPSE_I32, COPSE_SHAPE(IDS), ids[0] },
                                            { "x", COPSE_F32, COPSE_SHAPE(IDS, WIDTH),
                                              factors[0] } };
    OK(table_step(&j, 0));
    static int32_t more_ids[40 * EXAMPLES * IDS];
    static float more_factors[40 * EXAMPLES * IDS * WIDTH];
    const struct copse_column more[] = { { "ids", COPSE_I32, COPSE_SHAPE(IDS), more_ids },
                                         { "x", COPSE_F32, COPSE_SHAPE(IDS, WIDTH),
                                           more_factors } };
    OK(copse_trainer_step(
        j.t, &(struct copse_host_batch){ .columns = columns, .column_count = 2, .count = 2 }));
    OK(copse_trainer_result(j.t, true, &r));
    copse_fake.devices[1].cut = "row_put";
    OK(copse_variable_read(j.table, 0, values));
    const copse_status s = copse_trainer_step(
        j.t,
        &(struct copse_host_batch){ .columns = more, .column_count = 2, .count = 40 * EXAMPLES });
    const char *const words[] = { "fake:1", "'table'", "step 3:", "kernel row_put " };
    expect_line(s, words, sizeof words / sizeof *words);
    OK(copse_variable_read(j.table, 0, others));
    assert_memory_equal(values, others, sizeof(float) * FEW * WIDTH);
    close_table(&j);
}

/* ---- audits ---- */

static const struct copse_audit_params no_cross_check = { .is_cross_check_off = true };

/* An element of a row of a replica changes. */
static void disturb(struct table_job *j, uint32_t replica, uint32_t row)
{
    const struct copse_binding at = copse__variable_values(j->table, replica);
    const float wrong = 1e-6f;
    copse_queue *q = j->st->replicas[replica].queue;
    OK(copse_queue_write(q, at.buffer, at.offset + sizeof wrong * (row * WIDTH + WIDTH - 1), &wrong,
                         sizeof wrong));
    OK(copse_queue_finish(q));
}

static void rows_that_differ_are_found(void **state)
{
    static const char *const layouts[] = { "01", "00", "001" };
    (void)state;
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++)
        for (uint32_t row = 1; row < FEW; row += 149) { /* no batch has odd rows */
            struct table_job j;
            const uint32_t last = (uint32_t)strlen(layouts[l]) - 1;
            char replica[32];
            open_table(&j, layouts[l], FEW, COPSE_SGD, NULL);
            for (uint64_t i = 0; i < 4; i++)
                OK(table_step(&j, i));
            disturb(&j, last, row);
            snprintf(replica, sizeof replica, "replica %u (fake:%c)", last, layouts[l][last]);
            const char *const words[] = { "'table'", replica, "audit of step 5:" };
            expect_line(table_step(&j, 4), words, sizeof words / sizeof *words);
            assert_int_equal(table_step(&j, 5), COPSE_ERR_UNRELIABLE);
            close_table(&j);
        }
}

/* Rows of the newest update are compared in each audit, other ones when their turn comes. */
static void rows_of_a_large_table_that_differ_are_found(void **state)
{
    struct table_job j;
    (void)state;
    open_table(&j, "01", MANY, COPSE_SGD, &no_cross_check);
    for (uint64_t i = 0; i < 3; i++)
        OK(table_step(&j, i));
    disturb(&j, 1, (uint32_t)ids[2][7]);
    const char *const words[] = { "'table'", "replica 1", "audit of step 4:" };
    expect_line(table_step(&j, 3), words, sizeof words / sizeof *words);
    close_table(&j);
    open_table(&j, "01", MANY, COPSE_SGD,
               &(struct copse_audit_params){ .every = 1, .is_cross_check_off = true });
    OK(table_step(&j, 0));
    disturb(&j, 1, MANY - 1);
    uint64_t i = 1;
    while (i < 400 && table_step(&j, i) == COPSE_OK)
        i++;
    assert_in_range(i, 2, 399);
    close_table(&j);
}

/* The second computation of a gradient differs: in its sums, or in its rows. */
static void gradients_that_are_not_repeated_are_found(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++)
        for (int device = 0; device < 2; device++) {
            struct fake_device *d = &copse_fake.devices[device];
            struct table_job j;
            open_table(&j, "01", FEW, COPSE_ADAM, &no_cross_check);
            OK(table_step(&j, 0));
            d->perturb = k ? "gather_grad" : NULL;
            d->cut = k ? NULL : "row_heads";
            d->perturb_period = d->cut_period = 2;
            const char *const words[] = { "'table'", device ? "fake:1" : "fake:0",
                                          "step 2:", "gradient" };
            expect_line(table_step(&j, 1), words, sizeof words / sizeof *words);
            close_table(&j);
            fresh_fakes();
        }
}

/* The host computes a launch of the update of rows again. The comparison of replicas finds wrong
   rows of another replica. */
static uint64_t spot_finds(const char *devices, int device, const char *kernel)
{
    struct table_job j;
    uint64_t found = 0;
    open_table(&j, devices, FEW, COPSE_ADAM, NULL);
    OK(table_step(&j, 0));
    copse_fake.devices[device].cut = kernel;
    copse_fake.devices[device].cut_from = 4;
    for (uint64_t i = 1; i < 16 && found == 0; i++) {
        const copse_status s = table_step(&j, i);
        if (s == COPSE_OK)
            continue;
        assert_int_equal(s, COPSE_ERR_UNRELIABLE);
        found = strstr(copse_last_error(), "returned") && strstr(copse_last_error(), kernel) &&
                        strstr(copse_last_error(), "'table'")
                    ? i
                    : 0;
        break;
    }
    copse_fake.devices[device].cut = NULL;
    close_table(&j);
    return found;
}

static void spots_find_wrong_updates_of_rows(void **state)
{
    static const struct {
        const char *devices, *kernel;
        int device;
    } rows[] = {
        { "0", "row_find", 0 },
        { "0", "row_put", 0 },
        { "0", "adam", 0 },
        { "01", "row_join", 0 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool has = false;
        for (job_seed = 1; job_seed < 24 && !has; job_seed++)
            has = spot_finds(rows[i].devices, rows[i].device, rows[i].kernel) > 0;
        if (!has)
            fail_msg("%s on fake:%d is never found", rows[i].kernel, rows[i].device);
    }
    job_seed = 3;
}

/* ---- results ---- */

static void no_bit_changes(void **state)
{
    static const char *const layouts[] = { "0", "01", "00", "001" };
    static const struct copse_audit_params off = { .is_off = true, .is_cross_check_off = true },
                                           each = { .every = 1 };
    static const copse_optimizer_kind kinds[] = { COPSE_SGD, COPSE_ADAM };
    (void)state;
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++)
        for (size_t k = 0; k < 4; k++) {
            struct table_job j;
            open_table(&j, layouts[l], FEW, kinds[k / 2], k % 2 ? &each : &off);
            for (uint64_t i = 0; i < 12; i++)
                OK(table_step(&j, i));
            assert_int_equal(copse_trainer_audits(j.t), k % 2 ? 12 : 0);
            assert_true((copse_trainer_cross_checked(j.t) > 0) == (k % 2 == 1));
            OK(copse_variable_read(j.table, (uint32_t)strlen(layouts[l]) - 1,
                                   k % 2 ? values : others));
            close_table(&j);
            if (k % 2)
                assert_memory_equal(values, others, sizeof(float) * FEW * WIDTH);
            fresh_fakes();
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_wrong_kernel_of_rows_is_found, begin, end),
        cmocka_unit_test_setup_teardown(late_rows_of_a_large_table_are_found, begin, end),
        cmocka_unit_test_setup_teardown(longer_lists_are_compared, begin, end),
        cmocka_unit_test_setup_teardown(rows_that_differ_are_found, begin, end),
        cmocka_unit_test_setup_teardown(rows_of_a_large_table_that_differ_are_found, begin, end),
        cmocka_unit_test_setup_teardown(gradients_that_are_not_repeated_are_found, begin, end),
        cmocka_unit_test_setup_teardown(spots_find_wrong_updates_of_rows, begin, end),
        cmocka_unit_test_setup_teardown(no_bit_changes, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
