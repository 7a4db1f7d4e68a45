/* SPDX-License-Identifier: MIT */
/* A call of the driver fails while a read into host memory is under way. Memory that its owner
   frees after the failure must not be written later; where that cannot be known the status is
   COPSE_ERR_TIMEOUT, and the owner keeps it. */
#include "tests/rig/fake/fault_rig.h"

#if defined(COPSE_HAVE_OPENCL)
#    include "backends/opencl/cl_internal.h"
#endif

static const enum fake_fn calls[] = { FAKE_WRITE, FAKE_READ, FAKE_ENCODE, FAKE_SUBMIT, FAKE_WAIT };
static const copse_status failures[] = { COPSE_ERR_INTERNAL, COPSE_ERR_NO_DEVICE_MEMORY,
                                         COPSE_ERR_DEVICE_LOST };

/* Reads into `got`, and calls that fail after it. */
static copse_status read_and_more(copse_queue *q, copse_buffer *buf, uint32_t *got)
{
    static const uint32_t zeros[4];
    static uint32_t other[4];
    COPSE_TRY(copse_queue_read(q, buf, 0, got, sizeof other));
    COPSE_TRY(copse_queue_write(q, buf, 64, zeros, sizeof zeros));
    COPSE_TRY(copse_queue_fill(q, buf, 128, 16, 3));
    copse_status s = copse_queue_read(q, buf, 64, other, sizeof other);
    if (s == COPSE_OK)
        s = copse_queue_finish(q);
    return s;
}

struct work {
    copse_context *ctx;
    copse_device *dev;
    copse_queue *q;
    copse_buffer *buf;
};

static void begin_work(struct work *w)
{
    *w = (struct work){ .ctx = context(NULL) };
    w->dev = device(w->ctx);
    OK(copse_queue_create(w->dev, &w->q));
    OK(copse_buffer_create(w->dev, &(struct copse_buffer_params){ .size = 256 }, &w->buf));
    OK(copse_queue_fill(w->q, w->buf, 0, 256, 7));
    OK(copse_queue_finish(w->q));
    copse_fake.devices[0].delay_polls = 3; /* the read is under way when the next call fails */
}

static void end_work(struct work *w)
{
    copse_queue_release(&w->q);
    copse_buffer_release(&w->buf);
    copse_device_release(&w->dev);
    copse_context_release(&w->ctx);
}

/* The first call after the read, or the second of the reads. */
static void break_call(enum fake_fn fn, copse_status s, bool is_persistent)
{
    fake_fail(0, fn, fn == FAKE_READ ? 2 : 1, s, is_persistent);
}

static void freed_memory_is_not_written(void **unused)
{
    (void)unused;
    for (size_t c = 0; c < COPSE_COUNT(calls); c++)
        for (size_t f = 0; f < COPSE_COUNT(failures); f++)
            for (int is_persistent = 0; is_persistent < 2; is_persistent++) {
                struct work w;
                fake_reset();
                begin_work(&w);
                break_call(calls[c], failures[f], is_persistent);
                uint32_t *got = calloc(4, sizeof *got);
                assert_non_null(got);
                assert_int_equal(read_and_more(w.q, w.buf, got), failures[f]);
                const uint32_t after[4] = { got[0], got[1], got[2], got[3] };
                copse_fake.devices[0].faults[calls[c]].at = 0;
                if (!atomic_load(&w.dev->is_lost))
                    OK(copse_queue_finish(w.q));
                assert_memory_equal(got, after, sizeof after); /* its owner could have freed it */
                free(got);
                end_work(&w);
            }
}

static void memory_of_unknown_use_is_kept(void **unused)
{
    (void)unused;
    for (size_t c = 0; c < COPSE_COUNT(calls); c++)
        for (size_t f = 0; f < COPSE_COUNT(failures); f++) {
            struct work w;
            static uint32_t kept[4];
            fake_reset();
            begin_work(&w);
            copse_fake.devices[0].never_settles = true;
            break_call(calls[c], failures[f], false);
            FAILS(COPSE_ERR_TIMEOUT, read_and_more(w.q, w.buf, kept),
                  "fake:0 may still use host memory, which is not freed");
            if (atomic_load(&w.dev->is_lost)) /* every other call says so, too */
                FAILS(COPSE_ERR_TIMEOUT, copse_queue_fill(w.q, w.buf, 0, 4, 1),
                      "may still use host memory");
            end_work(&w);
        }
}

/* ---- OpenCL: a marker, and else the newest read, tell whether work is under way ---- */

#if defined(COPSE_HAVE_OPENCL)
static struct {
    int refused_markers, refused_states; /* calls that fail */
    cl_int state;
    char marker, read;
} driver;

static cl_int CL_API_CALL add_marker(cl_command_queue q, cl_uint count, const cl_event *list,
                                     cl_event *out)
{
    (void)q, (void)count, (void)list;
    if (driver.refused_markers-- > 0)
        return CL_OUT_OF_RESOURCES;
    *out = (cl_event)(void *)&driver.marker;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL flush_queue(cl_command_queue q)
{
    (void)q;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_event(cl_event event)
{
    (void)event;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL state_of(cl_event event, cl_event_info what, size_t size, void *out,
                                   size_t *size_out)
{
    (void)event, (void)what, (void)size, (void)size_out;
    if (driver.refused_states-- > 0)
        return CL_OUT_OF_HOST_MEMORY;
    *(cl_int *)out = driver.state;
    return CL_SUCCESS;
}

static void opencl_knows_or_says_that_it_does_not(void **unused)
{
    static const struct {
        int refused_markers, refused_states;
        cl_int state;
        bool has_read, has_import;
        copse_status wanted;
    } cases[] = {
        { 0, 0, CL_COMPLETE, true, true, COPSE_OK },
        { 1, 1, CL_COMPLETE, true, true, COPSE_OK },
        { 0, 0, CL_OUT_OF_RESOURCES, true, true, COPSE_OK }, /* it has ended, though not well */
        { 0, 0, CL_RUNNING, true, false, COPSE_ERR_TIMEOUT },
        { 9, 0, CL_COMPLETE, true, false, COPSE_OK },
        { 9, 0, CL_COMPLETE, false, false, COPSE_OK },
        /* kernels may use the imported memory */
        { 9, 0, CL_COMPLETE, true, true, COPSE_ERR_TIMEOUT },
        { 9, 0, CL_RUNNING, true, false, COPSE_ERR_TIMEOUT },
        { 0, 99, CL_COMPLETE, true, false, COPSE_ERR_TIMEOUT },
    };
    (void)unused;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        struct copse_cl_device d = { .cl = { .EnqueueMarkerWithWaitList = add_marker,
                                             .Flush = flush_queue,
                                             .ReleaseEvent = release_event,
                                             .GetEventInfo = state_of } };
        struct copse_cl_queue p = { .read =
                                        cases[i].has_read ? (cl_event)(void *)&driver.read : NULL };
        copse_device dev = { .priv = &d, .imports = cases[i].has_import };
        copse_queue q = { .dev = &dev, .priv = &p };
        driver.refused_markers = cases[i].refused_markers;
        driver.refused_states = cases[i].refused_states;
        driver.state = cases[i].state;
        if (copse_cl_settle(&q, 30000000) != cases[i].wanted)
            fail_msg("case %zu", i);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(freed_memory_is_not_written),
        TEST(memory_of_unknown_use_is_kept),
#if defined(COPSE_HAVE_OPENCL)
        cmocka_unit_test(opencl_knows_or_says_that_it_does_not),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
