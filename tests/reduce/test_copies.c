/* SPDX-License-Identifier: MIT */
/* Copies between ranks through host memory: which bytes arrive, and how often the host waits. On
   the fake backend. */
#include "core/reduce/reducer.h"
#include "tests/rig/fake/fake_backend.h"
#include "tests/rig/rig.h"

enum { RANKS = 3, WORDS = 2048, MESSAGE = 1024 /* bytes */ };

struct stage {
    copse_context *ctx;
    copse_device *dev[RANKS];
    copse_queue *queue[RANKS];
    copse_buffer *from[RANKS], *to[RANKS];
    copse_reducer *x;
};

static uint32_t word_of(uint32_t rank, uint32_t i)
{
    return 1000000u * (rank + 1) + i;
}

static void open_stage(struct stage *g)
{
    static const char *const ids[RANKS] = { "fake:0", "fake:1", "fake:2" };
    fake_reset();
    copse_fake.device_count = RANKS;
    OK(copse__context_create_with(&(struct copse_context_params){ .no_self_test = true },
                                  fake_backends, &g->ctx));
    for (uint32_t r = 0; r < RANKS; r++) {
        uint32_t words[WORDS];
        for (uint32_t i = 0; i < WORDS; i++)
            words[i] = word_of(r, i);
        OK(copse_device_open(g->ctx, ids[r], NULL, &g->dev[r]));
        OK(copse_queue_create(g->dev[r], &g->queue[r]));
        const struct copse_buffer_params size = { .size = sizeof words };
        OK(copse_buffer_create(g->dev[r], &size, &g->from[r]));
        OK(copse_buffer_create(g->dev[r], &size, &g->to[r]));
        OK(copse_queue_write(g->queue[r], g->from[r], 0, words, sizeof words));
        OK(copse_queue_fill(g->queue[r], g->to[r], 0, sizeof words, 0));
        OK(copse_queue_finish(g->queue[r]));
    }
    OK(copse__reducer_create(g->ctx, g->queue, RANKS, MESSAGE, &g->x));
}

static void close_stage(struct stage *g)
{
    assert_true(copse__reducer_drain(g->x));
    copse__reducer_release(&g->x);
    for (uint32_t r = 0; r < RANKS; r++) {
        copse_buffer_release(&g->from[r]);
        copse_buffer_release(&g->to[r]);
        copse_queue_release(&g->queue[r]);
        copse_device_release(&g->dev[r]);
    }
    copse_context_release(&g->ctx);
    assert_int_equal(copse_fake.early_fini, 0);
}

static struct copse_view view(uint32_t rank, copse_buffer *buffer, uint32_t first, uint32_t count)
{
    return (struct copse_view){ rank, { buffer, 4 * (size_t)first, 4 * (size_t)count }, NULL };
}

static struct copse_view host_view(uint32_t *words, uint32_t count)
{
    return (
        struct copse_view){ COPSE_HOST, { NULL, 0, 4 * (size_t)count }, (unsigned char *)words };
}

static uint32_t waits(void)
{
    return fake_calls(0, FAKE_WAIT) + fake_calls(1, FAKE_WAIT) + fake_calls(2, FAKE_WAIT);
}

/* Words [first, first + count) of `to` are those of `from`, from word `source` on. */
static void arrived(const struct stage *g, uint32_t to, uint32_t first, uint32_t count,
                    uint32_t from, uint32_t source)
{
    uint32_t words[WORDS];
    OK(copse_queue_read(g->queue[to], g->to[to], 4 * (size_t)first, words, 4 * (size_t)count));
    OK(copse_queue_finish(g->queue[to]));
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(words[i], word_of(from, source + i));
}

/* Copies of two sources, in turn: those of one source that fit into a message need one wait. */
static void small_copies_travel_together(void **unused)
{
    struct stage g;
    (void)unused;
    open_stage(&g);
    for (int again = 0; again < 2; again++) {
        const uint32_t before = waits();
        for (uint32_t i = 0; i < 16; i++)
            for (uint32_t r = 0; r < 2; r++) {
                const struct copse_view from = view(r, g.from[r], 100 * i, 16),
                                        to = view(2, g.to[2], 1000 * r + 16 * i, 16);
                OK(copse__reducer_copy(g.x, &from, &to, 1));
            }
        OK(copse__reducer_send(g.x));
        assert_int_equal(waits() - before, 2);
        for (uint32_t i = 0; i < 16; i++)
            for (uint32_t r = 0; r < 2; r++)
                arrived(&g, 2, 1000 * r + 16 * i, 16, r, 100 * i);
    }
    close_stage(&g);
}

/* Neighbours in the source's memory are read at once, whatever their targets. */
static void neighbours_are_read_at_once(void **unused)
{
    struct stage g;
    (void)unused;
    open_stage(&g);
    const uint32_t before = fake_calls(0, FAKE_READ);
    for (uint32_t i = 0; i < 12; i++) { /* the second half after a gap */
        const struct copse_view from = view(0, g.from[0], 10 * i + (i >= 6 ? 3 : 0), 10),
                                to = view(1 + i % 2, g.to[1 + i % 2], 20 * i, 10);
        OK(copse__reducer_copy(g.x, &from, &to, 1));
    }
    OK(copse__reducer_send(g.x));
    assert_int_equal(fake_calls(0, FAKE_READ) - before, 2);
    for (uint32_t i = 0; i < 12; i++)
        arrived(&g, 1 + i % 2, 20 * i, 10, 0, 10 * i + (i >= 6 ? 3 : 0));
    close_stage(&g);
}

/* A large copy is cut, also behind a small one; every target receives all of it, the host too. */
static void large_copies_are_cut(void **unused)
{
    static uint32_t host[WORDS];
    struct stage g;
    (void)unused;
    open_stage(&g);
    const uint32_t before = waits(), count = 1000, message = MESSAGE / 4;
    const struct copse_view small = view(0, g.from[0], 7, 5), small_to = view(1, g.to[1], 2000, 5),
                            large = view(0, g.from[0], 20, count),
                            to[] = { view(1, g.to[1], 3, count), host_view(host, count),
                                     view(2, g.to[2], 0, count) };
    OK(copse__reducer_copy(g.x, &small, &small_to, 1));
    OK(copse__reducer_copy(g.x, &large, to, COPSE_COUNT(to)));
    OK(copse__reducer_send(g.x));
    assert_int_equal(waits() - before, (5 + count + message - 1) / message);
    arrived(&g, 1, 2000, 5, 0, 7);
    arrived(&g, 1, 3, count, 0, 20);
    arrived(&g, 2, 0, count, 0, 20);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(host[i], word_of(0, 20 + i));
    close_stage(&g);
}

/* Within a queue, and from the host, nothing is waited for. */
static void local_copies_need_no_wait(void **unused)
{
    uint32_t host[WORDS];
    struct stage g;
    (void)unused;
    open_stage(&g);
    const uint32_t before = waits();
    for (uint32_t i = 0; i < WORDS; i++)
        host[i] = word_of(2, i);
    const struct copse_view from = view(1, g.from[1], 50, 60), to = view(1, g.to[1], 0, 60),
                            given = host_view(host, 30), given_to = view(1, g.to[1], 60, 30);
    OK(copse__reducer_copy(g.x, &from, &to, 1));
    OK(copse__reducer_copy(g.x, &given, &given_to, 1));
    memset(host, 0, sizeof host); /* has been taken */
    OK(copse__reducer_send(g.x));
    OK(copse__reducer_submit(g.x));
    assert_int_equal(waits() - before, 0);
    arrived(&g, 1, 0, 60, 1, 50);
    arrived(&g, 1, 60, 30, 2, 0);
    close_stage(&g);
}

/* Reads to host memory are waited for once, after other work was queued. */
static void reads_are_waited_for_when_they_are_needed(void **unused)
{
    uint32_t host[WORDS];
    struct stage g;
    (void)unused;
    open_stage(&g);
    const uint32_t before = waits();
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t i = 0; i < 4; i++) {
            const struct copse_view from = view(r, g.from[r], 10 * i, 10);
            OK(copse__reducer_read(g.x, r, &from.at, host + 100 * r + 10 * i));
        }
    OK(copse__reducer_submit(g.x));
    assert_int_equal(waits() - before, 0);
    OK(copse__reducer_wait_reads(g.x, "test"));
    assert_int_equal(waits() - before, RANKS);
    OK(copse__reducer_wait_reads(g.x, "test"));
    assert_int_equal(waits() - before, RANKS);
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t i = 0; i < 40; i++)
            assert_int_equal(host[100 * r + i], word_of(r, i));
    close_stage(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_copies_travel_together),
        cmocka_unit_test(neighbours_are_read_at_once),
        cmocka_unit_test(large_copies_are_cut),
        cmocka_unit_test(local_copies_need_no_wait),
        cmocka_unit_test(reads_are_waited_for_when_they_are_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
