/* SPDX-License-Identifier: MIT */
/* Reads of OpenCL devices with memory of their own land in the driver's memory and are copied out
   when they are waited for: over a driver of the test, whose queue runs only when the library asks
   for the state of an event, and on the machine's device, described as one of these. */
#include "tests/rig/rig.h"

#if defined(COPSE_HAVE_OPENCL)
#    include "backends/opencl/cl_internal.h"
#    include "core/device/device.h"

#    define KIB  ((size_t)1024)
#    define MIB  (1024 * KIB)
#    define ROOM (10 * MIB)

/* ---- the driver ---- */

enum kind { OTHER, READ, WRITE };

struct command {
    enum kind kind;
    size_t offset, size;
    unsigned char *host;
    size_t event;
};

enum { COMMANDS = 8192, DEVICE_FAULT = -9999 }; /* not of OpenCL, as of NVIDIA's driver */

static struct {
    unsigned char *memory, *pinned; /* of the buffer; of the library's staging memory */
    size_t pinned_size;
    struct command commands[COMMANDS];
    size_t count, flushed, done;
    struct {
        cl_int state;
        int references;
    } events[COMMANDS]; /* a handle is the address of one */
    size_t event_count;
    bool is_locked, is_hung;
    size_t fails_from; /* commands from this one on fail, 0: none */
    bool refuses_writes;
    int pageable; /* reads into other memory than the driver's */
    char queue, mem;
} driver;

static cl_event append(enum kind kind, size_t offset, size_t size, const void *host)
{
    if (!driver.is_locked)
        fail_msg("a command is queued outside of the lock");
    assert_true(driver.count < COMMANDS);
    const size_t event = driver.event_count++;
    driver.events[event].state = CL_QUEUED;
    driver.events[event].references = 1;
    unsigned char *to = NULL;
    memcpy(&to, &host, sizeof to);
    driver.commands[driver.count++] = (struct command){ kind, offset, size, to, event };
    return (cl_event)(void *)&driver.events[event];
}

static void run_command(void)
{
    if (driver.is_hung || driver.done == driver.flushed)
        return;
    const struct command *c = &driver.commands[driver.done++];
    const bool fails = driver.fails_from > 0 && driver.done >= driver.fails_from;
    driver.events[c->event].state = fails ? DEVICE_FAULT : CL_COMPLETE;
    if (fails)
        return;
    if (c->kind == READ)
        memcpy(c->host, driver.memory + c->offset, c->size);
    if (c->kind == WRITE)
        memcpy(driver.memory + c->offset, c->host, c->size);
}

static size_t index_of(cl_event event)
{
    const size_t offset = (size_t)((char *)(void *)event - (char *)&driver.events[0]);
    assert_true(offset % sizeof driver.events[0] == 0);
    return offset / sizeof driver.events[0];
}

static cl_command_queue CL_API_CALL make_queue(cl_context context, cl_device_id id,
                                               cl_command_queue_properties p, cl_int *e)
{
    (void)context, (void)id, (void)p;
    *e = CL_SUCCESS;
    return (cl_command_queue)(void *)&driver.queue;
}

static cl_mem CL_API_CALL make_buffer(cl_context context, cl_mem_flags flags, size_t size,
                                      void *host, cl_int *e)
{
    (void)context, (void)host;
    assert_true(flags & CL_MEM_ALLOC_HOST_PTR);
    driver.pinned = malloc(size);
    driver.pinned_size = size;
    *e = driver.pinned ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    return (cl_mem)(void *)&driver.pinned;
}

static void *CL_API_CALL map_buffer(cl_command_queue queue, cl_mem mem, cl_bool is_blocking,
                                    cl_map_flags flags, size_t offset, size_t size, cl_uint count,
                                    const cl_event *list, cl_event *out, cl_int *e)
{
    (void)queue, (void)mem, (void)flags, (void)count, (void)list;
    assert_false(is_blocking);
    assert_true(offset == 0 && size == driver.pinned_size);
    *out = append(OTHER, 0, 0, NULL);
    *e = CL_SUCCESS;
    return driver.pinned;
}

static cl_int CL_API_CALL unmap_buffer(cl_command_queue queue, cl_mem mem, void *host,
                                       cl_uint count, const cl_event *list, cl_event *out)
{
    (void)queue, (void)mem, (void)host, (void)count, (void)list;
    assert_null(out);
    driver.events[index_of(append(OTHER, 0, 0, NULL))].references = 0;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL write_buffer(cl_command_queue queue, cl_mem mem, cl_bool is_blocking,
                                       size_t offset, size_t size, const void *from, cl_uint count,
                                       const cl_event *list, cl_event *out)
{
    (void)queue, (void)mem, (void)count, (void)list;
    assert_false(is_blocking);
    if (driver.refuses_writes)
        return CL_OUT_OF_HOST_MEMORY;
    *out = append(WRITE, offset, size, from);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL read_buffer(cl_command_queue queue, cl_mem mem, cl_bool is_blocking,
                                      size_t offset, size_t size, void *to, cl_uint count,
                                      const cl_event *list, cl_event *out)
{
    const unsigned char *at = to;
    (void)queue, (void)mem, (void)count, (void)list;
    assert_false(is_blocking);
    driver.pageable += at < driver.pinned || at + size > driver.pinned + driver.pinned_size;
    *out = append(READ, offset, size, to);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL add_marker(cl_command_queue queue, cl_uint count, const cl_event *list,
                                     cl_event *out)
{
    (void)queue, (void)count, (void)list;
    *out = append(OTHER, 0, 0, NULL);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL flush_queue(cl_command_queue queue)
{
    (void)queue;
    driver.flushed = driver.count;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL event_state(cl_event event, cl_event_info what, size_t size, void *value,
                                      size_t *got)
{
    (void)what, (void)size, (void)got;
    if (driver.is_locked)
        fail_msg("the library waits while it holds the lock");
    const size_t i = index_of(event);
    if (driver.events[i].state > CL_COMPLETE && driver.flushed < driver.count &&
        i >= driver.commands[driver.flushed].event)
        fail_msg("the library waits for work that it has not flushed");
    run_command();
    *(cl_int *)value = driver.events[i].state;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL retain_event(cl_event event)
{
    driver.events[index_of(event)].references++;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_event(cl_event event)
{
    driver.events[index_of(event)].references--;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_buffer(cl_mem mem)
{
    (void)mem;
    free(driver.pinned);
    driver.pinned = NULL;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_queue(cl_command_queue queue)
{
    (void)queue;
    return CL_SUCCESS;
}

static void lock_guard(void *user)
{
    (void)user;
    assert_false(driver.is_locked);
    driver.is_locked = true;
}

static void unlock_guard(void *user)
{
    (void)user;
    driver.is_locked = false;
}

/* ---- a queue over it, with the tickets that core counts ---- */

struct work {
    struct copse_limits limits;
    struct copse_cl_device d;
    struct copse_cl_queue p;
    struct copse_cl_buffer b;
    copse_device dev;
    copse_queue q;
    copse_buffer buf;
};

static struct work *begin_work(bool has_unified_memory)
{
    struct work *w = calloc(1, sizeof *w);
    assert_non_null(w);
    memset(&driver, 0, sizeof driver);
    driver.memory = malloc(ROOM);
    assert_non_null(driver.memory);
    for (uint32_t i = 0; i < ROOM / 4; i++)
        memcpy(driver.memory + 4 * (size_t)i, &(uint32_t){ i * 2654435761u }, 4);
    w->limits.has_unified_memory = has_unified_memory;
    w->d.cl = (struct copse_cl_api){ .CreateCommandQueue = make_queue,
                                     .CreateBuffer = make_buffer,
                                     .EnqueueMapBuffer = map_buffer,
                                     .EnqueueUnmapMemObject = unmap_buffer,
                                     .EnqueueWriteBuffer = write_buffer,
                                     .EnqueueReadBuffer = read_buffer,
                                     .EnqueueMarkerWithWaitList = add_marker,
                                     .Flush = flush_queue,
                                     .GetEventInfo = event_state,
                                     .RetainEvent = retain_event,
                                     .ReleaseEvent = release_event,
                                     .ReleaseMemObject = release_buffer,
                                     .ReleaseCommandQueue = release_queue };
    w->d.guard = (struct copse_queue_guard){ lock_guard, unlock_guard, NULL };
    OK(copse__mutex_init(&w->d.lock));
    w->b.mem = (cl_mem)(void *)&driver.mem;
    w->dev = (copse_device){ .priv = &w->d, .limits = &w->limits };
    w->q = (copse_queue){ .dev = &w->dev, .priv = &w->p };
    w->buf = (copse_buffer){ .dev = &w->dev, .size = ROOM, .priv = &w->b };
    OK(copse_cl_queue_init(&w->q));
    return w;
}

static void end_work(struct work *w)
{
    copse_cl_queue_fini(&w->q);
    for (size_t i = 0; i < driver.event_count; i++)
        assert_int_equal(driver.events[i].references, 0);
    assert_null(driver.pinned);
    copse__mutex_fini(&w->d.lock);
    free(driver.memory);
    free(w);
}

static copse_status read_at(struct work *w, size_t offset, size_t size, void *dst)
{
    return copse_cl_read(&w->q, &(struct copse_binding){ &w->buf, offset, size }, dst);
}

static uint64_t submit(struct work *w)
{
    uint64_t ticket = 0;
    OK(copse_cl_submit(&w->q, &ticket));
    return w->q.submitted = ticket;
}

static bool is_filled(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != 0xee)
            return false;
    return true;
}

/* Reads of these sizes, each between two neighbours. */
static const size_t sizes[] = { 4,           12,           60,          64,
                                68,          4004,         2 * MIB - 4, 2 * MIB,
                                2 * MIB + 4, 5 * MIB + 12, 8 * MIB,     9 * MIB + 4 };

static void reads_land_when_they_are_waited_for(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < COPSE_COUNT(sizes); i++) {
        struct work *w = begin_work(false);
        const size_t size = sizes[i], offset = 4 * (i * 977 + 1);
        unsigned char *got = malloc(size + 2);
        assert_non_null(got);
        memset(got, 0xee, size + 2);
        OK(read_at(w, offset, size, got + 1));
        const uint64_t ticket = submit(w);
        assert_true(size > 8 * MIB || is_filled(got, size + 2));
        OK(copse_cl_wait(&w->q, ticket, UINT64_MAX));
        assert_memory_equal(got + 1, driver.memory + offset, size);
        assert_true(got[0] == 0xee && got[size + 1] == 0xee);
        assert_int_equal(driver.pageable, 0);
        free(got);
        end_work(w);
    }
}

/* A ticket brings its own reads, not later ones; asking brings none that are not complete. */
static void a_ticket_brings_its_reads(void **unused)
{
    struct work *w = begin_work(false);
    unsigned char got[3][64];
    uint64_t tickets[3];
    (void)unused;
    memset(got, 0xee, sizeof got);
    for (size_t i = 0; i < 3; i++) {
        OK(read_at(w, 256 * i, 64, got[i]));
        tickets[i] = submit(w);
    }
    driver.is_hung = true;
    assert_int_equal(copse_cl_wait(&w->q, tickets[0], 0), COPSE_ERR_TIMEOUT);
    assert_true(is_filled(got[0], sizeof got));
    driver.is_hung = false;
    while (driver.done < driver.flushed)
        run_command();
    OK(copse_cl_wait(&w->q, tickets[1], 0));
    assert_memory_equal(got[0], driver.memory, 64);
    assert_memory_equal(got[1], driver.memory + 256, 64);
    assert_true(is_filled(got[2], 64));
    OK(copse_cl_wait(&w->q, tickets[2], 0));
    assert_memory_equal(got[2], driver.memory + 512, 64);
    end_work(w);
}

/* More reads than places, and more bytes than memory to land in; writes between them. */
static void many_reads_are_in_order_with_writes(void **unused)
{
    enum { READS = 700, LARGE = 30 };
    struct work *w = begin_work(false);
    uint32_t *got = calloc(READS, sizeof *got);
    unsigned char *large = malloc(LARGE * 512 * KIB);
    (void)unused;
    assert_true(got && large);
    for (uint32_t i = 0; i < READS; i++) {
        const uint32_t word = i * 7 + 1;
        OK(copse_cl_write(&w->q, &(struct copse_binding){ &w->buf, 8, 4 }, &word));
        OK(read_at(w, 8, 4, &got[i]));
    }
    for (size_t i = 0; i < LARGE; i++)
        OK(read_at(w, 64 + i, 512 * KIB, large + i * 512 * KIB));
    OK(copse_cl_wait(&w->q, submit(w), UINT64_MAX));
    for (uint32_t i = 0; i < READS; i++)
        if (got[i] != i * 7 + 1)
            fail_msg("read %u is %u", (unsigned)i, (unsigned)got[i]);
    for (size_t i = 0; i < LARGE; i++)
        assert_memory_equal(large + i * 512 * KIB, driver.memory + 64 + i, 512 * KIB);
    assert_int_equal(driver.pageable, 0);
    free(got);
    free(large);
    end_work(w);
}

static void shared_memory_is_read_directly(void **unused)
{
    struct work *w = begin_work(true);
    unsigned char got[64];
    (void)unused;
    OK(read_at(w, 128, 64, got));
    OK(copse_cl_wait(&w->q, submit(w), UINT64_MAX));
    assert_memory_equal(got, driver.memory + 128, 64);
    assert_int_equal(driver.pageable, 1);
    end_work(w);
}

/* ---- failures ---- */

/* The second of three reads fails, or the device stops answering before it: after the failure no
   destination is written, whatever the driver still does. */
static void a_lost_device_writes_nothing_more(void **unused)
{
    (void)unused;
    for (int is_hung = 0; is_hung < 2; is_hung++) {
        struct work *w = begin_work(false);
        unsigned char got[3][64], after[3][64];
        memset(got, 0xee, sizeof got);
        for (size_t i = 0; i < 3; i++)
            OK(read_at(w, 256 * i, 64, got[i]));
        const uint64_t ticket = submit(w);
        driver.fails_from = driver.done + 2;
        if (is_hung) {
            run_command();
            driver.is_hung = true;
            driver.fails_from = 0;
        } else {
            FAILS(COPSE_ERR_DEVICE_LOST, copse_cl_wait(&w->q, ticket, UINT64_MAX), "failed");
        }
        assert_true(is_filled(got[1], 128));
        atomic_store(&w->dev.is_lost, true);
        OK(copse_cl_settle(&w->q, 0)); /* nothing to wait for */
        memcpy(after, got, sizeof got);
        driver.is_hung = false;
        driver.fails_from = 0;
        while (driver.done < driver.flushed)
            run_command();
        const copse_status late = copse_cl_wait(&w->q, ticket, UINT64_MAX);
        assert_true(late == COPSE_OK || !is_hung);
        end_work(w);
        assert_memory_equal(got, after, sizeof got);
    }
}

/* With the application's memory in use, too, only the end of the work tells. */
static void imported_memory_of_a_lost_device_is_waited_for(void **unused)
{
    struct work *w = begin_work(false);
    unsigned char got[64];
    (void)unused;
    atomic_store(&w->dev.imports, 1);
    OK(read_at(w, 0, 64, got));
    (void)submit(w);
    atomic_store(&w->dev.is_lost, true);
    driver.is_hung = true;
    assert_int_equal(copse_cl_settle(&w->q, 5000000), COPSE_ERR_TIMEOUT);
    driver.is_hung = false;
    OK(copse_cl_settle(&w->q, UINT64_MAX));
    end_work(w);
}

/* Another call fails: the reads before it are complete when the failure is settled, or later. */
static void reads_before_a_failure_arrive(void **unused)
{
    struct work *w = begin_work(false);
    const uint32_t word = 5;
    unsigned char got[64];
    (void)unused;
    memset(got, 0xee, sizeof got);
    OK(read_at(w, 0, 64, got));
    driver.refuses_writes = true;
    FAILS(COPSE_ERR_NO_MEMORY,
          copse_cl_write(&w->q, &(struct copse_binding){ &w->buf, 512, 4 }, &word),
          "clEnqueueWriteBuffer");
    driver.is_hung = true;
    assert_int_equal(copse_cl_settle(&w->q, 5000000), COPSE_ERR_TIMEOUT);
    assert_true(is_filled(got, sizeof got));
    driver.is_hung = false;
    OK(copse_cl_settle(&w->q, UINT64_MAX));
    assert_memory_equal(got, driver.memory, 64);
    end_work(w);
}

/* ---- the machine's device ---- */

struct reader {
    copse_device *dev;
    uint32_t seed;
    copse_status status;
};

/* Writes and reads back a buffer in pieces of odd sizes. */
static copse_status read_pieces(const struct reader *r)
{
    const size_t words = 3 * MIB / 4 + r->seed;
    copse_queue *q = NULL;
    copse_buffer *buf = NULL;
    uint32_t *want = calloc(words, 4), *got = calloc(words, 4);
    CHECK(want && got);
    for (size_t i = 0; i < words; i++)
        want[i] = (uint32_t)i * 2654435761u + r->seed;
    COPSE_TRY(copse_queue_create(r->dev, &q));
    COPSE_TRY(
        copse_buffer_create(r->dev, &(struct copse_buffer_params){ .size = words * 4 }, &buf));
    COPSE_TRY(copse_queue_write(q, buf, 0, want, words * 4));
    for (size_t at = 0, size = 1; at < words; at += size, size = size * 3 + r->seed % 2) {
        size = COPSE_MIN(size, words - at);
        COPSE_TRY(copse_queue_read(q, buf, at * 4, got + at, size * 4));
    }
    COPSE_TRY(copse_queue_read(q, buf, 0, NULL, 0));
    COPSE_TRY(copse_queue_finish(q));
    CHECK(memcmp(got, want, words * 4) == 0);
    copse_buffer_release(&buf);
    copse_queue_release(&q);
    free(want);
    free(got);
    return COPSE_OK;
}

static void read_on_thread(void *arg)
{
    struct reader *r = arg;
    for (int round = 0; round < 3 && r->status == COPSE_OK; round++)
        r->status = read_pieces(r);
}

static void threads_read_at_once(void **unused)
{
    enum { THREADS = 4 };
    copse_context *ctx = NULL;
    copse_device *dev = NULL;
    struct reader readers[THREADS];
    copse_thread threads[THREADS];
    (void)unused;
    OK(copse_context_create(NULL, &ctx));
    const copse_status s = copse_device_open(ctx, "opencl:0", NULL, &dev);
    if (s == COPSE_ERR_NO_DEVICE) {
        copse_context_release(&ctx);
        print_message("skipped: no OpenCL device\n");
        skip();
    }
    OK(s);
    dev->info.limits.has_unified_memory = false;
    for (uint32_t i = 0; i < THREADS; i++) {
        readers[i] = (struct reader){ dev, i, COPSE_OK };
        OK(copse__thread_start(&threads[i], read_on_thread, &readers[i]));
    }
    for (size_t i = 0; i < THREADS; i++) {
        copse__thread_join(&threads[i]);
        assert_int_equal(readers[i].status, COPSE_OK);
    }
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_land_when_they_are_waited_for),
        cmocka_unit_test(a_ticket_brings_its_reads),
        cmocka_unit_test(many_reads_are_in_order_with_writes),
        cmocka_unit_test(shared_memory_is_read_directly),
        cmocka_unit_test(a_lost_device_writes_nothing_more),
        cmocka_unit_test(imported_memory_of_a_lost_device_is_waited_for),
        cmocka_unit_test(reads_before_a_failure_arrive),
        cmocka_unit_test(threads_read_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    puts("skipped: the OpenCL backend is not built");
    return 77;
}
#endif
