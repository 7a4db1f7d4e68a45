/* SPDX-License-Identifier: MIT */
/* Cross-device operations with faults: whatever call of a device or of the allocator fails, the
   failure is returned, nothing is left, and the next reduction is right. On the fake backend. */
#include "tests/rig/fake/fake_backend.h"
#include "tests/rig/value/value_rig.h"

#define REPLICAS 3
#define ELEMENTS 3000u

static const char *const ids[] = { "fake:0", "fake:1", "fake:2" };
static const struct copse_cross_device_params settings[] = {
    { .kind = COPSE_CROSS_AUTO },
    { .kind = COPSE_CROSS_TO_ONE },
    { .kind = COPSE_CROSS_TO_ONE, .has_root = true, .root = COPSE_HOST },
    { .kind = COPSE_CROSS_ALL_REDUCE, .packs = 2 },
    { .kind = COPSE_CROSS_HIERARCHICAL },
};

/* Allocation number `fails_at` from now on fails. */
static unsigned allocations, fails_at;

/* What a hanging device may still write to is never freed, on purpose: here it stays known, so that
   it does not count as a leak. */
static bool is_hanging;
static void *held[1 << 16];
static size_t held_count;

static void *resize(void *user, void *block, size_t size)
{
    (void)user;
    if (size == 0) {
        free(block);
        return NULL;
    }
    void *p = ++allocations == fails_at ? NULL : realloc(block, size);
    if (is_hanging && p)
        held[held_count++ % COPSE_COUNT(held)] = p;
    return p;
}

struct rig {
    copse_context *ctx;
    copse_strategy *st;
    copse_cross_device *x;
    copse_value *values[3]; /* f32, i32, sparse */
    size_t live;
};

static copse_value *make(copse_strategy *st, int kind)
{
    static const int32_t rows[] = { 3, 1 };
    copse_value *parts[REPLICAS];
    float x[ELEMENTS];
    int32_t whole[ELEMENTS];
    for (uint32_t r = 0; r < REPLICAS; r++) {
        for (uint32_t i = 0; i < ELEMENTS; i++) {
            x[i] = (float)(i % 100 + r);
            whole[i] = (int32_t)(i + r);
        }
        const struct copse_sparse_params p = { COPSE_SHAPE(4, 2), 2, rows, x };
        if (kind == 0)
            OK(copse_value_create_on(st, r, COPSE_F32, COPSE_SHAPE(ELEMENTS), x, &parts[r]));
        else if (kind == 1)
            OK(copse_value_create_on(st, r, COPSE_I32, COPSE_SHAPE(ELEMENTS), whole, &parts[r]));
        else
            OK(copse__value_sparse(st->ctx, st, r, &p, &parts[r]));
    }
    return per_replica(st, parts);
}

static size_t live_blocks(const struct rig *g)
{
    struct copse_memory_stats stats;
    copse_context_memory(g->ctx, &stats);
    return stats.live_blocks;
}

static void open_rig(struct rig *g, const struct copse_cross_device_params *p)
{
    struct copse_context_params params = with_kept;
    fake_reset();
    copse_fake.device_count = REPLICAS;
    fails_at = 0;
    params.resize = resize;
    OK(copse__context_create_with(&params, fake_backends, &g->ctx));
    OK(copse_mirrored_create(g->ctx, ids, REPLICAS, NULL, &g->st));
    OK(copse_cross_device_create(g->ctx, p, &g->x));
    for (int kind = 0; kind < 3; kind++)
        g->values[kind] = make(g->st, kind);
    g->live = live_blocks(g);
}

static void close_rig(struct rig *g)
{
    for (int kind = 0; kind < 3; kind++)
        copse_value_release(&g->values[kind]);
    copse_cross_device_release(&g->x);
    copse_strategy_release(&g->st);
    copse_context_release(&g->ctx);
    drop_kept();
}

static copse_status reduce(struct rig *g, copse_value **out)
{
    return copse_cross_batch_reduce(g->x, g->st, COPSE_REDUCE_MEAN, g->values, NULL, 3, out);
}

static void check_and_release(copse_value **out)
{
    float x[ELEMENTS];
    for (uint32_t r = 0; r < REPLICAS; r++) {
        OK(copse_value_read(copse_value_item(out[0], r), x));
        for (uint32_t i = 0; i < ELEMENTS; i++)
            assert_true(x[i] == (float)(i % 100 + 1));
        OK(copse_value_read(copse_value_item(out[1], r), x));
        for (uint32_t i = 0; i < ELEMENTS; i++)
            assert_true(x[i] == (float)(i + 1));
        OK(copse_value_read_sparse(copse_value_item(out[2], r), NULL, x));
        assert_true(x[0] == 3 && x[1] == 4 && x[2] == 1 && x[3] == 2);
    }
    for (int i = 0; i < 3; i++)
        copse_value_release(&out[i]);
}

/* Call number `n` of a device fails; false when there is no such call. */
static bool is_returned(const struct copse_cross_device_params *p, uint32_t device, enum fake_fn fn,
                        uint32_t n, copse_status code)
{
    struct rig g;
    copse_value *out[3];
    open_rig(&g, p);
    fake_fail(device, fn, n, code, false);
    const copse_status got = reduce(&g, out);
    fake_fail(device, fn, 0, COPSE_OK, false);
    if (got) {
        assert_int_equal(got, code);
        assert_null(out[0]);
        assert_null(out[1]);
        assert_null(out[2]);
        OK(reduce(&g, out));
    }
    check_and_release(out);
    close_rig(&g);
    assert_int_equal(copse_fake.early_fini, 0);
    return got != COPSE_OK;
}

static void every_fault_of_a_device_is_returned(void **unused)
{
    static const struct {
        enum fake_fn fn;
        copse_status code;
    } faults[] = {
        { FAKE_WRITE, COPSE_ERR_INTERNAL },      { FAKE_READ, COPSE_ERR_INTERNAL },
        { FAKE_ENCODE, COPSE_ERR_INTERNAL },     { FAKE_SUBMIT, COPSE_ERR_INTERNAL },
        { FAKE_WAIT, COPSE_ERR_INTERNAL },       { FAKE_BUFFER_INIT, COPSE_ERR_NO_MEMORY },
        { FAKE_KERNEL_INIT, COPSE_ERR_COMPILE },
    };
    const uint32_t step = rig_takes(1, 2) ? 1 : 4;
    unsigned count = 0;
    (void)unused;
    for (size_t s = 0; s < COPSE_COUNT(settings); s++)
        for (size_t f = 0; f < COPSE_COUNT(faults); f++)
            for (uint32_t device = 0; device < REPLICAS; device++)
                for (uint32_t n = 1; /* the links are measured in many calls */
                     is_returned(&settings[s], device, faults[f].fn, n, faults[f].code);
                     n += s == 0 ? 5 : step)
                    count++;
    print_message("%u faults\n", count);
    assert_true(count > 300 / step);
}

/* A lost device stays lost; nothing waits for it. */
static void a_lost_device_is_reported(void **unused)
{
    (void)unused;
    for (size_t s = 0; s < COPSE_COUNT(settings); s++) {
        struct rig g;
        copse_value *out[3];
        open_rig(&g, &settings[s]);
        fake_fail(1, FAKE_SUBMIT, 1, COPSE_ERR_DEVICE_LOST, true);
        assert_int_equal(reduce(&g, out), COPSE_ERR_DEVICE_LOST);
        assert_int_equal(reduce(&g, out), COPSE_ERR_DEVICE_LOST);
        close_rig(&g);
    }
}

static void a_hanging_device_ends_in_a_timeout(void **unused)
{
    (void)unused;
    for (size_t s = 0; s < COPSE_COUNT(settings); s++) {
        struct rig g;
        copse_value *out[3];
        open_rig(&g, &settings[s]);
        OK(reduce(&g, out));
        check_and_release(out);
        fake_fail(2, FAKE_WAIT, 1, COPSE_ERR_TIMEOUT, true);
        is_hanging = true;
        assert_int_equal(reduce(&g, out), COPSE_ERR_TIMEOUT);
        is_hanging = false;
        assert_non_null(strstr(copse_last_error(), "fake:2"));
        fake_fail(2, FAKE_WAIT, 0, COPSE_OK, false); /* it answers again */
        OK(reduce(&g, out));
        check_and_release(out);
        close_rig(&g);
    }
}

static void out_of_host_memory_leaves_nothing(void **unused)
{
    const unsigned step = rig_takes(1, 2) ? 1 : 4;
    unsigned faults = 0;
    (void)unused;
    for (size_t s = 0; s < COPSE_COUNT(settings); s++)
        for (unsigned n = 1, is_over = 0; !is_over; n += step) {
            struct rig g;
            copse_value *out[3];
            open_rig(&g, &settings[s]);
            OK(reduce(&g, out));
            check_and_release(out);
            const size_t live = live_blocks(&g);
            allocations = 0;
            fails_at = n;
            const copse_status got = reduce(&g, out);
            fails_at = 0;
            is_over = got == COPSE_OK;
            if (is_over) {
                check_and_release(out);
            } else {
                faults++;
                assert_int_equal(got, COPSE_ERR_NO_MEMORY);
                assert_int_equal(live_blocks(&g), live);
                OK(reduce(&g, out));
                check_and_release(out);
            }
            close_rig(&g);
        }
    print_message("%u faults\n", faults);
    assert_true(faults > 50 / step);
}

/* Tickets that are reached late: a wait that is missing anywhere shows. */
static void delays_change_nothing(void **unused)
{
    (void)unused;
    for (size_t s = 0; s < COPSE_COUNT(settings); s++)
        for (uint32_t slow = 0; slow < REPLICAS; slow++) {
            struct rig g;
            copse_value *out[3];
            open_rig(&g, &settings[s]);
            copse_fake.devices[slow].delay_ns = 200000;
            for (int round = 0; round < 3; round++) {
                OK(reduce(&g, out));
                check_and_release(out);
            }
            close_rig(&g);
            assert_int_equal(copse_fake.early_fini, 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fault_of_a_device_is_returned),
        cmocka_unit_test(a_lost_device_is_reported),
        cmocka_unit_test(a_hanging_device_ends_in_a_timeout),
        cmocka_unit_test(out_of_host_memory_leaves_nothing),
        cmocka_unit_test(delays_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
