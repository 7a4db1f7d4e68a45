/* SPDX-License-Identifier: MIT */
/* Hashes of values and launches: equal runs have equal ones; a device that becomes wrong is found
   at its first wrong step, and the launch is named. */
#include <math.h>

#include "copse/train/hash.h"
#include "tests/rig/train/watch_rig.h"

#define STEPS 6u

static const struct copse_audit_params unwatched = { .is_off = true, .is_cross_check_off = true };

/* What a run had. */
struct hashed {
    uint64_t all[STEPS], of[STEPS][8];
    size_t count;
    char names[8][32];
    size_t launches;
    char kernels[64][32];
    uint64_t results[64];
};

static void note_launch(void *user, uint32_t replica, size_t launch, const char *kernel,
                        uint64_t hash)
{
    struct hashed *h = user;
    if (replica != 0)
        return;
    assert_int_equal(launch, h->launches);
    assert_true(launch < COPSE_COUNT(h->kernels));
    snprintf(h->kernels[launch], sizeof h->kernels[launch], "%s", kernel);
    h->results[h->launches++] = hash;
}

static void note_values(struct hashed *h, const struct copse_trainer_hashes *now, size_t i)
{
    assert_int_equal(now->step, i + 1);
    assert_true(now->count <= 8);
    h->all[i] = now->all;
    h->count = now->count;
    for (size_t v = 0; v < now->count; v++) {
        h->of[i][v] = now->variables[v].hash;
        snprintf(h->names[v], sizeof h->names[v], "%s", now->variables[v].name);
    }
}

/* `wrong`: a kernel of fake:0 that is wrong from step number `from` on. `launches_of`: hash the
   launches of this step. */
static void run(size_t replicas, const char *wrong, size_t from, uint64_t launches_of,
                struct hashed *out)
{
    struct job j;
    *out = (struct hashed){ .count = 0 };
    open_job(&j, replicas, COPSE_ADAM, &unwatched);
    OK(copse_trainer_hash_launches(j.t, launches_of, note_launch, out));
    for (size_t i = 0; i < STEPS; i++) {
        struct copse_trainer_hashes now;
        if (wrong && i + 1 == from)
            copse_fake.devices[0].perturb = wrong;
        OK(step(&j, i));
        OK(copse_trainer_hash(j.t, &now));
        note_values(out, &now, i);
    }
    copse_fake.devices[0].perturb = NULL;
    close_job(&j);
}

static void equal_runs_have_equal_hashes(void **state)
{
    static struct hashed a, b, c;
    (void)state;
    for (size_t replicas = 1; replicas <= 2; replicas++) {
        run(replicas, NULL, 0, 3, &a);
        run(replicas, NULL, 0, 3, &b);
        run(replicas, NULL, 0, 0, &c); /* hashed launches change no bit */
        assert_memory_equal(&a, &b, sizeof a);
        assert_memory_equal(a.all, c.all, sizeof a.all);
        assert_true(a.launches > 5 && c.launches == 0);
        assert_int_equal(a.count, MODEL_VARIABLES);
        for (size_t i = 1; i < STEPS; i++)
            assert_true(a.all[i] != a.all[i - 1]);
    }
}

static void a_lie_is_found_at_its_first_step(void **state)
{
    static const char *const kernels[] = { "matmul", "dense_grad", "cross_entropy_grad" };
    static struct hashed good, bad;
    (void)state;
    run(1, NULL, 0, 4, &good);
    for (size_t k = 0; k < COPSE_COUNT(kernels); k++) {
        size_t first = 0;
        run(1, kernels[k], 4, 4, &bad);
        assert_memory_equal(good.all, bad.all, 3 * sizeof *good.all);
        assert_true(good.all[3] != bad.all[3]);
        assert_int_equal(good.launches, bad.launches);
        while (first < good.launches && good.results[first] == bad.results[first])
            first++;
        assert_true(first < good.launches);
        assert_string_equal(bad.kernels[first], kernels[k]);
    }
    run(1, "adam", 4, 4, &bad); /* the launches are right, the update is not */
    assert_true(good.all[2] == bad.all[2] && good.all[3] != bad.all[3]);
    assert_memory_equal(good.results, bad.results, sizeof good.results);
}

static void a_variable_is_named(void **state)
{
    struct copse_trainer_hashes now;
    static struct hashed before, after;
    struct job j;
    float values[1024];
    (void)state;
    open_job(&j, 1, COPSE_ADAM, &unwatched);
    OK(step(&j, 0));
    OK(copse_trainer_hash(j.t, &now));
    note_values(&before, &now, 0);
    for (size_t v = 0; v < before.count; v++) {
        copse_variable *x = j.m.variables[v];
        uint32_t word;
        assert_string_equal(copse_variable_name(x), before.names[v]);
        OK(copse_variable_read(x, 0, values));
        memcpy(&word, values, sizeof word);
        word ^= 1; /* the last bit */
        memcpy(values, &word, sizeof word);
        OK(copse_variable_assign(x, values));
        OK(copse_trainer_hash(j.t, &now));
        note_values(&after, &now, 0);
        for (size_t i = 0; i < before.count; i++)
            assert_int_equal(i == v, before.of[0][i] != after.of[0][i]);
        assert_true(before.all[0] != after.all[0]);
        before = after;
    }
    /* a NaN, an infinity and a negative zero are bits as all others */
    copse_variable *x = j.m.variables[0];
    OK(copse_variable_read(x, 0, values));
    values[0] = 0.0f, values[1] = NAN;
    OK(copse_variable_assign(x, values));
    OK(copse_trainer_hash(j.t, &now));
    const uint64_t zero = now.all;
    OK(copse_trainer_hash(j.t, &now));
    assert_true(zero == now.all);
    values[0] = -0.0f;
    OK(copse_variable_assign(x, values));
    OK(copse_trainer_hash(j.t, &now));
    assert_true(zero != now.all);
    close_job(&j);
}

/* A read that fails is an error, and the next call works. */
static void failures_leave_nothing(void **state)
{
    struct copse_trainer_hashes now;
    struct job j;
    (void)state;
    open_job(&j, 1, COPSE_ADAM, &unwatched);
    OK(step(&j, 0));
    fake_fail(0, FAKE_READ, 1, COPSE_ERR_NO_MEMORY, false);
    assert_int_equal(copse_trainer_hash(j.t, &now), COPSE_ERR_NO_MEMORY);
    assert_int_equal(now.count, 0);
    OK(copse_trainer_hash(j.t, &now));
    assert_int_equal(now.count, MODEL_VARIABLES);
    close_job(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(equal_runs_have_equal_hashes, begin, end),
        cmocka_unit_test_setup_teardown(a_lie_is_found_at_its_first_step, begin, end),
        cmocka_unit_test_setup_teardown(a_variable_is_named, begin, end),
        cmocka_unit_test_setup_teardown(failures_leave_nothing, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
