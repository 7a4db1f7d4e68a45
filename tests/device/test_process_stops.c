/* SPDX-License-Identifier: MIT */
/* Time in which the process was stopped does not count in a wait for a device. A child process
   stops itself in the middle of a wait; its parent lets it go on when more time has passed than the
   wait has. */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/deadline.h"
#include "tests/rig/fake/fault_rig.h"

#if defined(COPSE_HAVE_OPENCL)
#    include "backends/opencl/cl_internal.h"
#endif
#if defined(COPSE_HAVE_VULKAN)
#    include "backends/vulkan/vk_internal.h"
#endif

#define WAIT_NS    400000000u
#define STOPPED_MS 600

static void pause_ms(long ms)
{
    const struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
    nanosleep(&t, NULL);
}

/* The status that `body` returns in a child process. */
static int in_child(copse_status (*body)(void))
{
    int status = 0, stops = 0;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        const copse_status s = body();
        if (s)
            fprintf(stderr, "%s: %s\n", copse_status_name(s), copse_last_error());
        fflush(NULL);
        _exit((int)s);
    }
    assert_true(pid > 0);
    for (;;) {
        assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
        if (!WIFSTOPPED(status))
            break;
        stops++;
        pause_ms(STOPPED_MS);
        assert_int_equal(kill(pid, SIGCONT), 0);
    }
    assert_int_equal(stops, 1);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int polls;

static void stop_at_second_poll(void)
{
    if (++polls == 2)
        raise(SIGSTOP);
}

/* ---- the clock ---- */

static copse_status stop_within_a_wait(void)
{
    struct copse_deadline d = copse__deadline(WAIT_NS);
    raise(SIGSTOP);
    const uint64_t left = copse__deadline_left(&d);
    if (left < WAIT_NS - d.tick_ns)
        return copse_fail(COPSE_ERR_TIMEOUT, "%llu ns are left", (unsigned long long)left);
    while (copse__deadline_left(&d) > 0) /* it ends all the same */
        copse__sleep_ns(copse__deadline_tick(&d));
    return COPSE_OK;
}

static void a_stop_counts_as_one_tick(void **unused)
{
    (void)unused;
    assert_int_equal(in_child(stop_within_a_wait), COPSE_OK);
}

/* ---- waits for tickets ---- */

static copse_status wait_on_fake(void)
{
    copse_context *ctx = context(NULL);
    copse_device *dev = device(ctx);
    copse_queue *q;
    uint64_t ticket;
    copse_fake.devices[0].delay_polls = 5;
    copse_fake.devices[0].polled = stop_at_second_poll;
    COPSE_TRY(copse_queue_create(dev, &q));
    COPSE_TRY(copse_queue_submit(q, &ticket));
    const copse_status s = copse_queue_wait(q, ticket, WAIT_NS);
    copse_fake.devices[0].polled = NULL;
    copse_queue_release(&q);
    copse_device_release(&dev);
    copse_context_release(&ctx);
    return s;
}

static void a_stopped_wait_goes_on(void **unused)
{
    (void)unused;
    assert_int_equal(in_child(wait_on_fake), COPSE_OK);
}

static void a_wait_still_ends(void **unused)
{
    copse_context *ctx = context(NULL);
    copse_device *dev = device(ctx);
    copse_queue *q;
    uint64_t ticket;
    (void)unused;
    copse_fake.devices[0].delay_polls = FAKE_NEVER;
    OK(copse_queue_create(dev, &q));
    OK(copse_queue_submit(q, &ticket));
    FAILS(COPSE_ERR_TIMEOUT, copse_queue_wait(q, ticket, 50000000),
          "ticket 1 of fake:0 was not reached within 0.050 s");
    assert_int_equal(copse_queue_wait(q, ticket, 0), COPSE_ERR_TIMEOUT);
    atomic_store(&dev->is_lost, true); /* so that nobody waits for it at the end */
    copse_queue_release(&q);
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

/* ---- waits within backends ---- */

#if defined(COPSE_HAVE_OPENCL)
static cl_int CL_API_CALL state_of(cl_event event, cl_event_info what, size_t size, void *out,
                                   size_t *size_out)
{
    (void)event, (void)what, (void)size, (void)size_out;
    stop_at_second_poll();
    *(cl_int *)out = polls < 4 ? CL_RUNNING : CL_COMPLETE;
    return CL_SUCCESS;
}

static copse_status wait_in_opencl(void)
{
    const struct copse_cl_api cl = { .GetEventInfo = state_of };
    return copse_cl_wait_event(&cl, NULL, WAIT_NS);
}
#endif

#if defined(COPSE_HAVE_VULKAN)
static VkResult VKAPI_CALL fence_of(VkDevice dev, uint32_t count, const VkFence *list, VkBool32 all,
                                    uint64_t timeout)
{
    (void)dev, (void)count, (void)list, (void)all, (void)timeout;
    stop_at_second_poll();
    return polls < 4 ? VK_TIMEOUT : VK_ERROR_DEVICE_LOST; /* then nothing is left to be retired */
}

static copse_status wait_in_vulkan(void)
{
    static struct vk_device vd;
    static struct vk_queue vq;
    copse_device dev = { .priv = &vd };
    copse_queue q = { .dev = &dev, .priv = &vq, .submitted = 1 };
    vd.vk.WaitForFences = fence_of;
    vq.flying[0] = &vq.frames[0];
    vq.in_flight = 1;
    return copse_vk_wait(&q, 1, WAIT_NS);
}
#endif

static void waits_of_backends_go_on(void **unused)
{
    (void)unused;
#if defined(COPSE_HAVE_OPENCL)
    assert_int_equal(in_child(wait_in_opencl), COPSE_OK);
#endif
#if defined(COPSE_HAVE_VULKAN)
    assert_int_equal(in_child(wait_in_vulkan), COPSE_ERR_DEVICE_LOST);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_counts_as_one_tick),
        TEST(a_stopped_wait_goes_on),
        TEST(a_wait_still_ends),
        cmocka_unit_test(waits_of_backends_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
