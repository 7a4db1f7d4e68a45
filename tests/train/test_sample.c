/* SPDX-License-Identifier: MIT */
/* Samples of products: each element of a sample is that of the host function; a part of a result that a kernel did not write
   is found, and so are wrong numbers; a right product passes. */
#include "core/audit/chain.h"
#include "core/audit/sample.h"
#include "core/conformance/launch.h"
#include "core/device/device.h"
#include "tests/rig/fake_backend.h"
#include "tests/rig/rig.h"

static copse_context *ctx;
static copse_device *dev;
static copse_queue *queue;

static int begin(void **state)
{
    (void)state;
    fake_reset();
    OK(copse__context_create_with(&(struct copse_context_params){ .no_self_test = true }, fake_backends, &ctx));
    OK(copse_device_open(ctx, "fake:0", NULL, &dev));
    OK(copse_queue_create(dev, &queue));
    return 0;
}

static int end(void **state)
{
    (void)state;
    copse_queue_release(&queue);
    copse_device_release(&dev);
    copse_context_release(&ctx);
    fake_reset();
    return 0;
}

/* A launch of mode launch as a command, with its buffers filled. */
struct made {
    struct copse_launch launch;
    copse_buffer *buffers[COPSE_MAX_BINDINGS];
    struct copse_command command;
};

static bool make(const struct copse_launch_form *f, struct made *m)
{
    struct copse_limits limits = *dev->limits;
    uint32_t *words[COPSE_MAX_BINDINGS] = { NULL };
    struct copse_binding bindings[COPSE_MAX_BINDINGS];
    struct copse_kernel *k;
    *m = (struct made){ .launch = { .form = f, .regime = COPSE_REGIME_MANY, .values = COPSE_VALUES_USUAL, .seed = 3 } };
    memcpy(m->launch.spec, f->spec, sizeof f->spec);
    copse__launch_size(&m->launch, &limits);
    if (copse__kernel_get(dev, f->kernel, m->launch.spec, &k) != COPSE_OK)
        return false;
    for (uint32_t a = 0; a < k->row->arg_count; a++) {
        const size_t bytes = copse__round_up(4 * m->launch.counts[a] + 4, 16);
        words[a] = calloc(bytes, 1);
        copse__launch_fill(&m->launch, a, words[a]);
    }
    if (f->arrange)
        f->arrange(&m->launch, words);
    for (uint32_t a = 0; a < k->row->arg_count; a++) {
        const size_t bytes = copse__round_up(4 * m->launch.counts[a] + 4, 16);
        OK(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = bytes }, &m->buffers[a]));
        OK(copse_queue_write(queue, m->buffers[a], 0, words[a], bytes));
        bindings[a] = (struct copse_binding){ m->buffers[a], 0, 4 * m->launch.counts[a] };
        free(words[a]);
    }
    OK(copse__dispatch_init(&m->command, k, bindings, k->row->arg_count, m->launch.params, m->launch.groups, 0));
    return true;
}

static void drop(struct made *m)
{
    OK(copse_queue_finish(queue));
    for (uint32_t a = 0; a < COPSE_MAX_BINDINGS; a++)
        copse_buffer_release(&m->buffers[a]);
}

/* The launch with a sample; the fault, if there is one. */
static struct copse_probe_fault sampled(const struct made *m)
{
    struct copse_chain chain = { .most = 0 };
    struct copse_command command = m->command;
    const struct copse_segment segment = { .queue = queue, .commands = &command, .count = 1 };
    OK(copse__chain_run(&chain, &segment));
    assert_int_equal(chain.compared, 1);
    assert_int_equal(chain.sampled, 1);
    assert_int_equal(chain.skipped, 0);
    copse__probe_free(&chain.probe);
    return chain.fault;
}

static bool is_product(const struct copse_launch_form *f)
{
    switch (f->kernel) {
    case COPSE_KERNEL_matmul:
    case COPSE_KERNEL_matmul_wide:
    case COPSE_KERNEL_matmul_texel:
    case COPSE_KERNEL_conv:
    case COPSE_KERNEL_conv_wide:
    case COPSE_KERNEL_conv_weight:
    case COPSE_KERNEL_conv_weight_wide:
        return true;
    default:
        return false;
    }
}

static void each_product(void (*check)(struct made *m), size_t least)
{
    size_t count = 0;
    for (size_t i = 0; copse_launch_lists[i]; i++)
        for (size_t k = 0; k < copse_launch_lists[i]->count; k++) {
            struct made m;
            if (!is_product(&copse_launch_lists[i]->forms[k]) || !make(&copse_launch_lists[i]->forms[k], &m))
                continue;
            check(&m);
            drop(&m);
            count++;
        }
    if (count < least)
        fail_msg("%zu products", count);
}

static const char *name_of(const struct made *m)
{
    static char text[96];
    snprintf(text, sizeof text, "%s, %s", copse_kernel_table[m->launch.form->kernel].name, m->launch.form->name);
    return text;
}

static void check_right(struct made *m)
{
    struct copse_sample s;
    assert_true(copse__sample_of(&m->command, &s));
    if (s.places > m->launch.counts[s.result] || s.places + 64 < m->launch.counts[s.result])
        fail_msg("%s: %llu places in a result of %zu words", name_of(m), (unsigned long long)s.places,
                 m->launch.counts[s.result]);
    const struct copse_probe_fault f = sampled(m);
    if (f.is_found)
        fail_msg("%s: element %zu is %g, expected %g", name_of(m), f.element, f.got, f.expected);
}

static void right_products_pass(void **state)
{
    (void)state;
    each_product(check_right, 8);
}

static void check_cut(struct made *m)
{
    struct copse_sample s;
    assert_true(copse__sample_of(&m->command, &s));
    copse_fake.devices[0].cut = copse_kernel_table[m->launch.form->kernel].name;
    copse_fake.devices[0].cut_from = (uint32_t)(s.places - s.places / copse__sample_count(&s) * 3 - 3);
    if (!sampled(m).is_found)
        fail_msg("%s: the end of the result is not written", name_of(m));
    copse_fake.devices[0].cut = NULL;
    copse_fake.devices[0].cut_from = 0;
}

static void parts_that_are_not_written_are_found(void **state)
{
    (void)state;
    each_product(check_cut, 8);
}

static void check_perturbed(struct made *m)
{
    copse_fake.devices[0].perturb = copse_kernel_table[m->launch.form->kernel].name;
    copse_fake.devices[0].perturb_bits = 0x8000;
    if (!sampled(m).is_found)
        fail_msg("%s: results that are 2^-8 off", name_of(m));
    copse_fake.devices[0].perturb = NULL;
}

static void wrong_numbers_are_found(void **state)
{
    (void)state;
    each_product(check_perturbed, 8);
}

/* Increasing, from the first element to the last. */
static void places_cover_the_result(void **state)
{
    (void)state;
    for (uint64_t places = 1; places < (uint64_t)1 << 40; places = places * 7 + 1)
        for (uint64_t depth = 1; depth < (uint64_t)1 << 30; depth *= 19) {
            const struct copse_sample s = { .places = places, .depth = depth };
            const size_t count = copse__sample_count(&s);
            assert_true(count >= 1 && count <= 1024 && count <= places);
            for (size_t i = 1; i < count; i++)
                assert_true(copse__sample_place(&s, i) > copse__sample_place(&s, i - 1));
            assert_int_equal(copse__sample_place(&s, 0), 0);
            assert_true(count == 1 || copse__sample_place(&s, count - 1) == places - 1);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(right_products_pass, begin, end),
        cmocka_unit_test_setup_teardown(parts_that_are_not_written_are_found, begin, end),
        cmocka_unit_test_setup_teardown(wrong_numbers_are_found, begin, end),
        cmocka_unit_test(places_cover_the_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
