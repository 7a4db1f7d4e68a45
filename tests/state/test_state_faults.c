/* SPDX-License-Identifier: MIT */
/* A checkpoint that fails while devices still have reads to do: nothing lands in memory that was
   given back, the text is that of the failure, no file is there, and the next checkpoint has the
   bytes of a run without faults. */
#include "copse/matmul.h"
#include "copse/ops.h"
#include "tests/rig/data/temp_files.h"
#include "tests/rig/fake/faulty_job.h"

enum { DEVICES = 2, MARK = 0xa5 };

/* ---- an allocator that keeps what is given back, to see who still writes there ---- */

struct block {
    struct block *next, *previous;
    size_t size;
    bool is_back;
    max_align_t bytes[];
};

static struct block blocks = { &blocks, &blocks, 0, false };
static bool is_keeping;

static void drop(struct block *b)
{
    b->next->previous = b->previous;
    b->previous->next = b->next;
    free(b);
}

static void give_back(struct block *b)
{
    memset(b->bytes, MARK, b->size);
    b->is_back = true;
    if (!is_keeping)
        drop(b);
}

static void *resize(void *user, void *bytes, size_t size)
{
    struct block *old =
        bytes ? (struct block *)(void *)((char *)bytes - offsetof(struct block, bytes)) : NULL;
    struct block *b = size ? malloc(sizeof *b + size) : NULL;
    (void)user;
    if (b) {
        *b = (struct block){ .next = blocks.next, .previous = &blocks, .size = size };
        blocks.next->previous = b;
        blocks.next = b;
        if (old)
            memcpy(b->bytes, old->bytes, old->size < size ? old->size : size);
    }
    if (old && (b || !size))
        give_back(old);
    return b ? b->bytes : NULL;
}

/* Nobody has written to what was given back. */
static void check_kept(void)
{
    for (struct block *b = blocks.next, *next; b != &blocks; b = next) {
        const unsigned char *bytes = (const unsigned char *)b->bytes;
        next = b->next;
        if (!b->is_back)
            continue;
        for (size_t i = 0; i < b->size; i++)
            if (bytes[i] != MARK)
                fail_msg("byte %zu of %zu was written after they were given back", i, b->size);
        drop(b);
    }
}

/* ---- one variable, large enough that both devices own a part of its slots ---- */

#define WIDE 500u

static copse_variable *wide;

static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    (void)user;
    copse_tensor *y = copse_matmul(g, rig_x(in), copse_variable_tensor(wide), false, false);
    y = copse_square(g, y);
    return copse_mean(g, y, NULL, 0, false);
}

static void open_job(void)
{
    const struct copse_variable_params w = { .name = "w",
                                             .shape = COPSE_SHAPE(MODEL_IN, WIDE),
                                             .initializer = COPSE_INIT_HE_NORMAL,
                                             .seed = 7 };
    is_keeping = false;
    job_begin(DEVICES, &(struct copse_context_params){ .resize = resize });
    job_mirror(DEVICES);
    OK(copse_variable_create(job.st, &w, &wide));
    OK(copse_trainer_create(job.st, &(struct copse_trainer_params){ .loss = loss }, &job.t));
    for (int i = 0; i < 3; i++)
        OK(copse_trainer_step(
            job.t, &(struct copse_host_batch){ RIG_X(MODEL_IN, job.x), .count = BATCH }));
}

/* ---- checkpoints ---- */

/* What is queued happens now, if it has not. */
static void finish(void)
{
    static float unused[MODEL_IN * WIDE];
    no_more_faults();
    for (uint32_t r = 0; r < DEVICES; r++)
        OK(copse_variable_read(wide, r, unused));
}

/* Of a run without faults; restored, it is written again. */
static void write_good(void)
{
    open_job();
    OK(copse_trainer_checkpoint(job.t, temp_path("good"), NULL));
    OK(copse_trainer_step(job.t,
                          &(struct copse_host_batch){ RIG_X(MODEL_IN, job.x), .count = BATCH }));
    OK(copse_trainer_restore(job.t, temp_path("good"), NULL, NULL));
    OK(copse_trainer_checkpoint(job.t, temp_path("again"), NULL));
    temp_check_same(temp_path("good"), temp_path("again"));
    job_end();
}

/* Each read of either device, with the others on their way. */
static void failed_read_leaves_nothing_on_its_way(void **state)
{
    uint32_t failed[DEVICES] = { 0 };
    (void)state;
    write_good();
    for (uint32_t device = 0; device < DEVICES; device++)
        for (uint32_t n = 1;; n++) {
            open_job();
            is_keeping = true;
            fake_fail(device, FAKE_READ, n, COPSE_ERR_NO_MEMORY, false);
            const copse_status s = copse_trainer_checkpoint(job.t, temp_path("bad"), NULL);
            if (s == COPSE_OK) { /* there are fewer */
                unlink(temp_path("bad"));
                job_end();
                check_kept();
                break;
            }
            FAILS(COPSE_ERR_NO_MEMORY, s, "while reading");
            assert_int_not_equal(access(temp_path("bad"), F_OK), 0);
            finish();
            check_kept();
            OK(copse_trainer_checkpoint(job.t, temp_path("again"), NULL));
            temp_check_same(temp_path("good"), temp_path("again"));
            job_end();
            check_kept();
            failed[device]++;
        }
    printf("  %u and %u reads failed in turn\n", failed[0], failed[1]);
    assert_int_equal(failed[0], 3); /* values, and two slots */
    assert_int_equal(failed[1], 2);
}

/* The first read of slots on device 1 fails, and then the first wait for those of device 0. */
static void fail_both(copse_status wait)
{
    OK(copse_trainer_checkpoint(job.t, temp_path("good"), NULL));
    const uint32_t before = fake_calls(0, FAKE_WAIT);
    OK(copse_trainer_checkpoint(job.t, temp_path("good"), NULL));
    /* the last, for slots */
    fake_fail(0, FAKE_WAIT, fake_calls(0, FAKE_WAIT) - before, wait, true);
    fake_fail(1, FAKE_READ, 1, COPSE_ERR_NO_MEMORY, false);
}

/* Both devices fail: the text is the first one's, and names what it read. */
static void first_failure_is_the_one_that_is_told(void **state)
{
    (void)state;
    open_job();
    fail_both(COPSE_ERR_DEVICE_LOST);
    FAILS(COPSE_ERR_NO_MEMORY, copse_trainer_checkpoint(job.t, temp_path("bad"), NULL),
          "while reading");
    char expected[32];
    snprintf(expected, sizeof expected, "fake: fault %d", FAKE_READ);
    if (!strstr(copse_last_error(), expected))
        fail_msg("%s", copse_last_error());
    assert_int_not_equal(access(temp_path("bad"), F_OK), 0);
    job_end();
}

/* A device that does not come to an end may write whenever it likes: the memory stays. */
static void memory_stays_where_a_device_hangs(void **state)
{
    (void)state;
    open_job();
    is_keeping = true;
    fail_both(COPSE_ERR_TIMEOUT);
    FAILS(COPSE_ERR_NO_MEMORY, copse_trainer_checkpoint(job.t, temp_path("bad"), NULL),
          "while reading");
    finish(); /* it wakes up */
    check_kept();
    job_end();
    check_kept();
    size_t stay = 0;
    for (struct block *b = blocks.next, *next; b != &blocks; b = next, stay++) {
        next = b->next;
        drop(b);
    }
    assert_int_equal(stay, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(failed_read_leaves_nothing_on_its_way, temp_setup,
                                        temp_teardown),
        cmocka_unit_test_setup_teardown(first_failure_is_the_one_that_is_told, temp_setup,
                                        temp_teardown),
        cmocka_unit_test_setup_teardown(memory_stays_where_a_device_hangs, temp_setup,
                                        temp_teardown),
    };
    return cmocka_run_group_tests_name("state_faults", tests, NULL, NULL);
}
