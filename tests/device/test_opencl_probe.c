/* SPDX-License-Identifier: MIT */
/* The probe of OpenCL's host-memory import, over a driver of the test whose calls fail in turn. Its
   queue runs only when the library asks for the state of an event; what is left runs after the
   probe has returned, as in a real driver. */
#include "tests/rig/rig.h"

#if defined(COPSE_HAVE_OPENCL)
#    include "backends/opencl/cl_internal.h"

static struct {
    int calls, fail_at;            /* the call with this number fails; -1: none does */
    bool is_failing_for_good;      /* and all calls behind it */
    char queue, buffer, events[4]; /* their addresses are the handles */
    unsigned char *host;           /* memory that was imported */
    bool has_fill;                 /* queued */
    cl_uint *read_to;              /* of a queued read, else NULL */
    int queues, buffers, live_events;
} driver;

static struct {
    void *block;
    bool is_freed;
} memory;

static bool fails(void)
{
    const int call = driver.calls++;
    return driver.fail_at >= 0 &&
           (driver.is_failing_for_good ? call >= driver.fail_at : call == driver.fail_at);
}

static void run_queue(void)
{
    static const cl_uint word = 0x7654321;
    if ((driver.has_fill || driver.read_to) && memory.is_freed)
        fail_msg("call %d failed: the queue still writes to memory that was freed", driver.fail_at);
    if (driver.has_fill)
        memcpy(driver.host + sizeof word, &word, sizeof word);
    if (driver.read_to)
        memcpy(driver.read_to, driver.host, sizeof word);
    driver.has_fill = false;
    driver.read_to = NULL;
}

static cl_event give_event(void)
{
    return (cl_event)(void *)&driver.events[driver.live_events++ % 4];
}

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id id,
                                                 cl_command_queue_properties p, cl_int *e)
{
    (void)context, (void)id, (void)p;
    *e = fails() ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
    driver.queues += !*e;
    return *e ? NULL : (cl_command_queue)(void *)&driver.queue;
}

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t size,
                                        void *host, cl_int *e)
{
    (void)context, (void)flags, (void)size;
    *e = fails() ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
    driver.host = host;
    driver.buffers += !*e;
    return *e ? NULL : (cl_mem)(void *)&driver.buffer;
}

static cl_int CL_API_CALL fill(cl_command_queue queue, cl_mem mem, const void *pattern,
                               size_t pattern_size, size_t offset, size_t size, cl_uint count,
                               const cl_event *list, cl_event *out)
{
    (void)queue, (void)mem, (void)pattern, (void)pattern_size, (void)offset, (void)size,
        (void)count, (void)list;
    if (fails())
        return CL_OUT_OF_RESOURCES;
    driver.has_fill = true;
    if (out)
        *out = give_event();
    return CL_SUCCESS;
}

static cl_int CL_API_CALL read(cl_command_queue queue, cl_mem mem, cl_bool is_blocking,
                               size_t offset, size_t size, void *to, cl_uint count,
                               const cl_event *list, cl_event *out)
{
    (void)queue, (void)mem, (void)is_blocking, (void)offset, (void)size, (void)count, (void)list;
    if (fails())
        return CL_OUT_OF_RESOURCES;
    driver.read_to = to;
    if (out)
        *out = give_event();
    return CL_SUCCESS;
}

static cl_int CL_API_CALL marker(cl_command_queue queue, cl_uint count, const cl_event *list,
                                 cl_event *out)
{
    (void)queue, (void)count, (void)list;
    if (fails())
        return CL_OUT_OF_RESOURCES;
    *out = give_event();
    return CL_SUCCESS;
}

static cl_int CL_API_CALL flush(cl_command_queue queue)
{
    (void)queue;
    return fails() ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
}

static cl_int CL_API_CALL event_info(cl_event event, cl_event_info what, size_t size, void *value,
                                     size_t *got)
{
    (void)event, (void)what, (void)size, (void)got;
    if (fails())
        return CL_OUT_OF_RESOURCES;
    run_queue();
    *(cl_int *)value = CL_COMPLETE;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_event(cl_event event)
{
    (void)event;
    driver.live_events--;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_buffer(cl_mem mem)
{
    (void)mem;
    driver.buffers--;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_queue(cl_command_queue queue)
{
    (void)queue;
    driver.queues--;
    return CL_SUCCESS;
}

/* Frees late, so that a write to freed memory is seen in every build. */
static void *resize(void *user, void *block, size_t size)
{
    (void)user;
    if (size > 0) {
        assert_null(block);
        return memory.block = malloc(size);
    }
    assert_ptr_equal(block, memory.block);
    memory.is_freed = true;
    return NULL;
}

/* One probe. Returns whether it made all of its calls. */
static bool probe(int fail_at, bool is_failing_for_good)
{
    struct copse_mem mem = { .resize = resize };
    struct copse_cl_device d = { .cl = {
                                     .CreateCommandQueue = create_queue,
                                     .CreateBuffer = create_buffer,
                                     .EnqueueFillBuffer = fill,
                                     .EnqueueReadBuffer = read,
                                     .EnqueueMarkerWithWaitList = marker,
                                     .Flush = flush,
                                     .GetEventInfo = event_info,
                                     .ReleaseEvent = release_event,
                                     .ReleaseMemObject = release_buffer,
                                     .ReleaseCommandQueue = release_queue,
                                 } };
    memset(&driver, 0, sizeof driver);
    memset(&memory, 0, sizeof memory);
    driver.fail_at = fail_at;
    driver.is_failing_for_good = is_failing_for_good;
    const bool works = copse_cl_import_works(&d, 4096, &mem);
    const bool is_whole = fail_at < 0 || driver.calls <= fail_at,
               is_pending = driver.has_fill || driver.read_to;
    assert_true(works == is_whole);
    run_queue();
    assert_true(memory.is_freed == !is_pending); /* kept only while the driver may write there */
    if (!is_pending) {
        assert_int_equal(driver.queues, 0);
        assert_int_equal(driver.buffers, 0);
        assert_int_equal(driver.live_events, 0);
    }
    free(memory.block);
    return is_whole;
}

static void test_every_call_fails_in_turn(void **state)
{
    (void)state;
    assert_true(probe(-1, false));
    const int calls = driver.calls;
    assert_true(calls >= 6);
    for (int i = 0; i < calls; i++) {
        assert_false(probe(i, false));
        assert_false(probe(i, true));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_every_call_fails_in_turn) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    puts("skipped: the OpenCL backend is not built");
    return 77;
}
#endif
