/* SPDX-License-Identifier: MIT */
/* Sparse variables on devices that fail: if any call of a step fails, there is one error, and the
   values are those of whole steps, or the trainer refuses to go on. No worker waits for one that
   has failed. On the fake backend. */
#include "copse/distribute/sync.h"
#include "copse/train/audit.h"
#include "core/train/trainer.h"
#include "tests/rig/fake/fake_backend.h"
#include "tests/rig/fake/kept.h"
#include "tests/rig/workers/worker_rig.h"

enum { ROWS = 90, WIDTH = 5, IDS = 3, EXAMPLES = 12, STEPS = 3, MOST_CALLS = 2000 };

/* ---- a job ---- */

struct table {
    copse_variable *table, *bias;
    copse_trainer *t;
};

struct values {
    float table[ROWS * WIDTH], bias[WIDTH];
};

static int32_t ids[STEPS][EXAMPLES * IDS];
static float factors[STEPS][EXAMPLES * IDS * WIDTH];

static void make_batches(void)
{
    uint32_t seed = 11;
    for (int b = 0; b < STEPS; b++)
        for (int i = 0; i < EXAMPLES * IDS; i++) {
            seed = seed * 1664525u + 1013904223u;
            ids[b][i] = (int32_t)((seed >> 8) % ROWS);
            for (int c = 0; c < WIDTH; c++)
                factors[b][i * WIDTH + c] = (float)((seed >> (8 + 3 * c)) % 64) / 32.0f - 0.97f;
        }
}

static copse_tensor *table_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct table *m = user;
    copse_tensor *i = copse_input(in, "ids");
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_gather(g, copse_variable_tensor(m->table), i);
    y = copse_add(g, y, copse_variable_tensor(m->bias));
    y = copse_mul(g, y, x);
    return copse_mean(g, y, NULL, 0, false);
}

static const struct rule {
    struct copse_optimizer_params optimizer;
    bool checks; /* cross-check the first step */
} rules[] = {
    { { .kind = COPSE_ADAM, .learning_rate = 0.1f }, false },
    { { .kind = COPSE_MOMENTUM, .learning_rate = 0.1f, .clip_global_norm = 0.1f }, false },
    { { .kind = COPSE_ADAM, .learning_rate = 0.1f }, true },
};

static copse_status make_job(copse_strategy *st, const struct rule *rule, struct table *m)
{
    const struct copse_variable_params table = { .name = "table",
                                                 .shape = COPSE_SHAPE(ROWS, WIDTH),
                                                 .seed = 3,
                                                 .initializer = COPSE_INIT_NORMAL,
                                                 .is_sparse = true };
    const struct copse_variable_params bias = { .name = "bias",
                                                .shape = COPSE_SHAPE(WIDTH),
                                                .initializer = COPSE_INIT_ONES };
    *m = (struct table){ .t = NULL };
    COPSE_TRY(copse_variable_create(st, &table, &m->table));
    COPSE_TRY(copse_variable_create(st, &bias, &m->bias));
    COPSE_TRY(copse_trainer_create(st,
                                   &(struct copse_trainer_params){ .loss = table_loss,
                                                                   .user = m,
                                                                   .optimizer = rule->optimizer },
                                   &m->t));
    return copse_trainer_audit(m->t,
                               &(struct copse_audit_params){ .is_cross_check_off = !rule->checks });
}

static copse_status step(const struct table *m, uint64_t i)
{
    struct copse_step_result r;
    const struct copse_column columns[] = { { "ids", COPSE_I32, COPSE_SHAPE(IDS), ids[i % STEPS] },
                                            { "x", COPSE_F32, COPSE_SHAPE(IDS, WIDTH),
                                              factors[i % STEPS] } };
    COPSE_TRY(copse_trainer_step(
        m->t,
        &(struct copse_host_batch){ .columns = columns, .column_count = 2, .count = EXAMPLES }));
    return copse_trainer_result(m->t, true, &r);
}

static copse_status read_values(const struct table *m, uint32_t replica, struct values *out)
{
    COPSE_TRY(copse_variable_read(m->table, replica, out->table));
    return copse_variable_read(m->bias, replica, out->bias);
}

/* ---- one process ---- */

struct layout {
    const char *const *ids;
    uint32_t count, devices;
};
static const char *const one[] = { "fake:0" }, *const two[] = { "fake:0", "fake:1" },
                         *const shared[] = { "fake:0", "fake:0" },
                         *const mixed[] = { "fake:0", "fake:1", "fake:0" };
static const struct layout layouts[] = {
    { one, 1, 1 }, { two, 2, 2 }, { shared, 2, 1 }, { mixed, 3, 2 }
};

static void open_fakes(void)
{
    fake_reset();
    copse_fake.device_count = 2;
    OK(copse__context_create_with(
        &(struct copse_context_params){ .no_self_test = true,
                                        .cache = { .get = get_kept, .put = keep } },
        fake_backends, &ctx));
}

static void close_fakes(void)
{
    copse_context_release(&ctx);
    drop_kept();
    assert_int_equal(copse_fake.early_fini, 0);
}

/* want[i]: after i steps without faults */
static void expect(const struct layout *l, const struct rule *rule, struct values want[STEPS + 1])
{
    struct table m;
    copse_strategy *st;
    open_fakes();
    OK(copse_mirrored_create(ctx, l->ids, l->count, NULL, &st));
    OK(make_job(st, rule, &m));
    for (uint64_t i = 0; i <= STEPS; i++) {
        OK(read_values(&m, 0, &want[i]));
        if (i < STEPS)
            OK(step(&m, i));
    }
    copse_trainer_release(&m.t);
    copse_strategy_release(&st);
    close_fakes();
}

static void no_more_faults(void)
{
    for (uint32_t d = 0; d < 2; d++)
        memset(copse_fake.devices[d].faults, 0, sizeof copse_fake.devices[d].faults);
}

/* A fault in call `n` of a step; false: the step makes fewer such calls. */
struct fault {
    enum fake_fn fn;
    copse_status code;
    uint32_t device, n;
    uint64_t step;
};

static const struct {
    enum fake_fn fn;
    copse_status code;
} faults[] = {
    { FAKE_WRITE, COPSE_ERR_INTERNAL },         { FAKE_READ, COPSE_ERR_INTERNAL },
    { FAKE_ENCODE, COPSE_ERR_INTERNAL },        { FAKE_REPLAY, COPSE_ERR_NO_MEMORY },
    { FAKE_SUBMIT, COPSE_ERR_INTERNAL },        { FAKE_WAIT, COPSE_ERR_INTERNAL },
    { FAKE_SEGMENT_INIT, COPSE_ERR_NO_MEMORY }, { FAKE_BUFFER_INIT, COPSE_ERR_NO_DEVICE_MEMORY },
    { FAKE_KERNEL_INIT, COPSE_ERR_COMPILE },
};
enum { FAULTS = sizeof faults / sizeof *faults };

static uint32_t cut_short, unchanged;

/* The replicas have the values of whole steps, or the trainer says that they have not. */
static void check_after(struct table *m, const struct layout *l, const struct values *want)
{
    static struct values is;
    const uint64_t done = copse_trainer_steps(m->t);
    const copse_status s = copse__trainer_check(m->t);
    if (s != COPSE_OK) {
        assert_int_equal(s, COPSE_ERR_DEVICE_LOST);
        assert_non_null(strstr(copse_last_error(), "cut short"));
        assert_int_equal(step(m, done), COPSE_ERR_DEVICE_LOST);
        cut_short++;
        return;
    }
    for (uint32_t r = 0; r < l->count; r++) {
        OK(read_values(m, r, &is));
        assert_memory_equal(&is, &want[done], sizeof is);
    }
    for (uint64_t i = done; i < STEPS; i++)
        OK(step(m, i));
    for (uint32_t r = 0; r < l->count; r++) {
        OK(read_values(m, r, &is));
        assert_memory_equal(&is, &want[STEPS], sizeof is);
    }
    unchanged++;
}

static bool is_reported(const struct layout *l, const struct rule *rule, const struct fault *f,
                        const struct values *want)
{
    struct table m;
    copse_strategy *st;
    open_fakes();
    OK(copse_mirrored_create(ctx, l->ids, l->count, NULL, &st));
    OK(make_job(st, rule, &m));
    for (uint64_t i = 0; i < f->step; i++)
        OK(step(&m, i));
    fake_fail(f->device, f->fn, f->n, f->code, false);
    const copse_status s = step(&m, f->step);
    no_more_faults();
    if (s != COPSE_OK) {
        const char *text = copse_last_error();
        if (s != f->code || strchr(text, '\n') || !strstr(text, "fake: fault"))
            fail_msg("function %d, call %u: %s: %s", (int)f->fn, f->n, copse_status_name(s), text);
    }
    check_after(&m, l, want);
    copse_trainer_release(&m.t);
    copse_strategy_release(&st);
    close_fakes();
    return s != COPSE_OK;
}

static void every_call_of_a_step_may_fail(void **state)
{
    static struct values want[STEPS + 1];
    uint32_t count = 0;
    (void)state;
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++)
        for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
            expect(&layouts[l], &rules[k], want);
            for (uint32_t i = 0; i < FAULTS * layouts[l].devices; i++)
                for (uint64_t s = 0; s < (rules[k].checks ? 1u : 2u); s++) {
                    struct fault f = { faults[i % FAULTS].fn, faults[i % FAULTS].code, i / FAULTS,
                                       1, s };
                    const uint32_t each = rules[k].checks ? 7 : 1;
                    while (f.n < MOST_CALLS && is_reported(&layouts[l], &rules[k], &f, want))
                        f.n += each;
                    assert_true(f.n < MOST_CALLS);
                    count += f.n / each;
                }
        }
    print_message("%u faults: %u updates were cut short, %u changed nothing\n", count, cut_short,
                  unchanged);
    assert_true(count > 500 && cut_short > 50 && unchanged > 200);
}

/* ---- two workers, with a device each ---- */

static struct fault of_worker; /* device = worker */
static const struct rule *job_rule;
static struct outcome {
    copse_status status, again;
    uint64_t done;
    struct values values;
    char text[600];
} outcomes[2];

static copse_status fail_in_worker(struct worker *w, copse_strategy *st)
{
    struct outcome *o = &outcomes[w->rank];
    struct table m;
    *o = (struct outcome){ .status = COPSE_OK };
    COPSE_TRY(make_job(st, job_rule, &m));
    copse_status s = COPSE_OK;
    for (uint64_t i = 0; i < STEPS && o->status == COPSE_OK; i++) {
        if (i == of_worker.step && w->rank == of_worker.device)
            fake_fail(w->rank, of_worker.fn, of_worker.n, of_worker.code, false);
        o->status = step(&m, i);
        snprintf(o->text, sizeof o->text, "%s", o->status ? copse_last_error() : "");
        if (i == of_worker.step && w->rank == of_worker.device)
            memset(copse_fake.devices[w->rank].faults, 0,
                   sizeof copse_fake.devices[w->rank].faults);
    }
    o->done = copse_trainer_steps(m.t);
    o->again = o->status ? step(&m, o->done) : COPSE_OK;
    if (o->again == COPSE_OK)
        s = read_values(&m, 0, &o->values);
    copse_trainer_release(&m.t);
    return s;
}

/* Both workers end with an error, or none does. */
static bool is_reported_by_both(const struct fault *f)
{
    struct worker w[2];
    of_worker = *f;
    open_fakes();
    found[0] = "fake:0";
    found[1] = "fake:1";
    found_count = 2;
    run_workers_over(&copse__transport_local, w, 2, 1, NULL, fail_in_worker);
    assert_all_ok(w, 2);
    const struct outcome *mine = &outcomes[f->device], *other = &outcomes[1 - f->device];
    for (uint32_t v = 0; v < 2; v++)
        if (outcomes[v].status == COPSE_ERR_TIMEOUT || strchr(outcomes[v].text, '\n') ||
            (outcomes[v].status == COPSE_OK) != (outcomes[v].text[0] == '\0'))
            fail_msg("function %d, call %u: worker %u: %s: %s", (int)f->fn, f->n, v,
                     copse_status_name(outcomes[v].status), outcomes[v].text);
    if (mine->status != COPSE_OK && (mine->status != f->code || other->status == COPSE_OK))
        fail_msg("function %d, call %u: %s: %s; the other worker: %s: %s", (int)f->fn, f->n,
                 copse_status_name(mine->status), mine->text, copse_status_name(other->status),
                 other->text);
    if (mine->again == COPSE_OK && other->again == COPSE_OK) {
        assert_int_equal(mine->done, other->done);
        assert_memory_equal(&mine->values, &other->values, sizeof mine->values);
    }
    close_fakes();
    return mine->status != COPSE_OK;
}

static void no_worker_waits_for_one_that_failed(void **state)
{
    uint32_t count = 0;
    (void)state;
    for (size_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < 2 * FAULTS; i++)
            for (uint64_t s = 0; s < 2; s++) {
                struct fault f = { faults[i % FAULTS].fn, faults[i % FAULTS].code, i / FAULTS, 1,
                                   s };
                job_rule = &rules[k];
                while (f.n < MOST_CALLS && is_reported_by_both(&f))
                    f.n++;
                assert_true(f.n < MOST_CALLS);
                count += f.n;
            }
    print_message("%u faults\n", count);
    assert_true(count > 200);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_of_a_step_may_fail),
        cmocka_unit_test(no_worker_waits_for_one_that_failed),
    };
    make_batches();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
