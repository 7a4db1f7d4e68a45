/* SPDX-License-Identifier: MIT */
/* Launches that are compared in part, in the forms of mode launch of conformance: right results
   pass; the end of a result that a kernel did not write is found, and so are wrong numbers. Devices
   are fakes whose kernels are the host functions. */
#include "core/check/chain.h"
#include "core/check/part.h"
#include "core/device/device.h"
#include "prover/conformance/launch/launch.h"
#include "tests/rig/fake/fake_backend.h"
#include "tests/rig/rig.h"

static copse_context *ctx;
static copse_device *dev;
static copse_queue *queue;

static int begin(void **state)
{
    (void)state;
    fake_reset();
    OK(copse__context_create_with(&(struct copse_context_params){ .no_self_test = true },
                                  fake_backends, &ctx));
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

/* Norms of channels have whole items in a graph. */
static void drop_partial_items(struct copse_launch *l)
{
    if (l->form->kernel == COPSE_KERNEL_channel_sums) {
        struct copse_params_channel_sums *p = (void *)l->params;
        const uint32_t chunks = p->channels * p->chunks, items = COPSE_MAX(p->n / chunks, 1u);
        p->n = items * chunks;
        p->second = items * p->channels;
    }
    if (l->form->kernel == COPSE_KERNEL_channel_norm) {
        struct copse_params_channel_norm *p = (void *)l->params;
        const uint32_t items = COPSE_MAX(p->n / p->size, 1u);
        p->n = items * p->size;
        p->second = items * p->channels;
    }
}

static bool make(const struct copse_launch_form *f, enum copse_regime regime, struct made *m)
{
    struct copse_limits limits = *dev->limits;
    uint32_t *words[COPSE_MAX_BINDINGS] = { NULL };
    struct copse_binding bindings[COPSE_MAX_BINDINGS];
    struct copse_kernel *k;
    *m = (struct made){
        .launch = { .form = f, .regime = regime, .values = COPSE_VALUES_USUAL, .seed = 3 }
    };
    memcpy(m->launch.spec, f->spec, sizeof f->spec);
    copse__launch_size(&m->launch, &limits);
    drop_partial_items(&m->launch);
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
        OK(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = bytes },
                               &m->buffers[a]));
        OK(copse_queue_write(queue, m->buffers[a], 0, words[a], bytes));
        bindings[a] = (struct copse_binding){ m->buffers[a], 0, 4 * m->launch.counts[a] };
        free(words[a]);
    }
    OK(copse__dispatch_init(&m->command, k, bindings, k->row->arg_count, m->launch.params,
                            m->launch.groups, 0));
    return true;
}

static void drop(struct made *m)
{
    OK(copse_queue_finish(queue));
    for (uint32_t a = 0; a < COPSE_MAX_BINDINGS; a++)
        copse_buffer_release(&m->buffers[a]);
}

static const char *name_of(const struct made *m)
{
    static char text[96];
    snprintf(text, sizeof text, "%s, %s", copse_kernel_table[m->launch.form->kernel].name,
             m->launch.form->name);
    return text;
}

/* The launch, compared in part; the fault, if there is one. */
static struct copse_probe_fault compared_in_part(const struct made *m)
{
    struct copse_chain chain = { .most = 0 };
    struct copse_command command = m->command;
    const struct copse_segment segment = { .queue = queue, .commands = &command, .count = 1 };
    OK(copse__chain_run(&chain, &segment));
    if (chain.compared != 1 || chain.sampled != 1 || chain.skipped != 0)
        fail_msg("%s: %zu launches compared, %zu in part, %zu not", name_of(m), chain.compared,
                 chain.sampled, chain.skipped);
    copse__probe_free(&chain.probe);
    return chain.fault;
}

/* These are compared as a whole or, if they are large, not: a sort and lists of rows have no parts,
   a recurrent layer has a launch for each step. Updates with blocks have parts where the last block of a slot is whole, as in a trainer; in
   these launches it is not. The others are small. */
static bool has_no_parts(uint32_t kernel)
{
    switch (kernel) {
    case COPSE_KERNEL_sort_count:
    case COPSE_KERNEL_sort_offsets:
    case COPSE_KERNEL_sort_place:
    case COPSE_KERNEL_sort_starts:
    case COPSE_KERNEL_row_heads:
    case COPSE_KERNEL_row_find:
    case COPSE_KERNEL_row_join:
    case COPSE_KERNEL_row_put:
    case COPSE_KERNEL_recurrent:
    case COPSE_KERNEL_recurrent_grad:
    case COPSE_KERNEL_trust:
    case COPSE_KERNEL_lamb_sum:
    case COPSE_KERNEL_adam8:
    case COPSE_KERNEL_channel_merge:
    case COPSE_KERNEL_step_scalar:
    case COPSE_KERNEL_digest:
        return true;
    default:
        return false;
    }
}

/* Kernels with a host function of their own and with parts; variants have none on a fake. */
#define KERNELS 63u

/* The first form of each kernel, and others in turn. Returns the number of kernels. */
static size_t each_launch(enum copse_regime regime, void (*check)(struct made *m))
{
    bool has[COPSE_KERNEL_COUNT] = { false };
    size_t count = 0, at = 0;
    for (size_t i = 0; copse_launch_lists[i]; i++)
        for (size_t k = 0; k < copse_launch_lists[i]->count; k++) {
            const struct copse_launch_form *f = &copse_launch_lists[i]->forms[k];
            struct made m;
            if (has[f->kernel] && !rig_takes(at++, 4))
                continue;
            if (has_no_parts(f->kernel) || !make(f, regime, &m))
                continue;
            check(&m);
            drop(&m);
            count += !has[f->kernel];
            has[f->kernel] = true;
        }
    return count;
}

static void check_right(struct made *m)
{
    const struct copse_probe_fault f = compared_in_part(m);
    if (f.is_found)
        fail_msg("%s: element %zu is %g, expected %g", name_of(m), f.element, f.got, f.expected);
}

static void right_launches_pass(void **state)
{
    (void)state;
    assert_true(each_launch(COPSE_REGIME_MANY, check_right) >= KERNELS);
    assert_true(each_launch(COPSE_REGIME_TAIL, check_right) >= KERNELS);
}

/* Gradients of attention for keys, or queries, after the last one: nothing is added to them. */
static bool adds_nothing(const struct copse_launch *l)
{
    const struct copse_params_attention_grad_query *q = (const void *)l->params;
    const struct copse_params_attention_grad_key *k = (const void *)l->params;
    return (l->form->kernel == COPSE_KERNEL_attention_grad_query && q->first >= q->keys) ||
           (l->form->kernel == COPSE_KERNEL_attention_grad_key && k->first >= k->queries);
}

static void check_cut(struct made *m)
{
    if (adds_nothing(&m->launch))
        return;
    const struct copse_kernel_row *row = &copse_kernel_table[m->launch.form->kernel];
    uint32_t result = 0;
    for (uint32_t a = 0; a < row->arg_count; a++)
        result = row->args[a].is_written ? a : result;
    copse_fake.devices[0].cut = row->name;
    copse_fake.devices[0].cut_from = (uint32_t)(m->launch.counts[result] / 4 * 3);
    if (!compared_in_part(m).is_found)
        fail_msg("%s: the end of the result is not written", name_of(m));
    copse_fake.devices[0].cut = NULL;
    copse_fake.devices[0].cut_from = 0;
}

static void ends_that_are_not_written_are_found(void **state)
{
    (void)state;
    assert_true(each_launch(COPSE_REGIME_MANY, check_cut) >= KERNELS);
}

/* Whether a result has numbers besides 0, infinity and NaN. */
static bool has_numbers(const struct made *m, uint32_t a)
{
    const size_t count = m->launch.counts[a];
    uint32_t *words = calloc(count, sizeof *words);
    bool has = false;
    OK(copse_queue_read(queue, m->buffers[a], 0, words, count * sizeof *words));
    OK(copse_queue_finish(queue));
    for (size_t i = 0; i < count; i++)
        has |= (words[i] >> 23 & 255u) != 0 && (words[i] >> 23 & 255u) != 255;
    free(words);
    return has;
}

/* Results that are 2^-8 off. */
static void check_perturbed(struct made *m)
{
    const struct copse_kernel_row *row = &copse_kernel_table[m->launch.form->kernel];
    bool has_floats = false;
    for (uint32_t a = 0; a < row->arg_count; a++)
        has_floats |= row->args[a].is_written && row->args[a].kind == COPSE_ARG_F32;
    (void)compared_in_part(m);
    for (uint32_t a = 0; a < row->arg_count; a++)
        has_floats &= !row->args[a].is_written || has_numbers(m, a);
    copse_fake.devices[0].perturb = row->name;
    copse_fake.devices[0].perturb_bits = 0x8000;
    if (has_floats && !compared_in_part(m).is_found)
        fail_msg("%s: results that are 2^-8 off", name_of(m));
    copse_fake.devices[0].perturb = NULL;
}

static void wrong_numbers_are_found(void **state)
{
    (void)state;
    each_launch(COPSE_REGIME_MANY, check_perturbed);
}

/* The first program compares launches of a kernel as a whole; a later one compares them in part, as
   long as the numbers are right. */
static void check_again(struct made *m)
{
    struct copse_command command = m->command;
    const struct copse_segment segment = { .queue = queue, .commands = &command, .count = 1 };
    ((struct copse_kernel *)command.kernel)->compared_by = 0;
    for (size_t sampled = 0; sampled < 2; sampled++) {
        struct copse_chain chain = { .most = UINT64_MAX };
        OK(copse__chain_run(&chain, &segment));
        OK(copse__chain_run(&chain, &segment));
        if (chain.fault.is_found || chain.compared != 2 || chain.sampled != 2 * sampled)
            fail_msg("%s, program %zu: %zu compared, %zu in part", name_of(m), sampled,
                     chain.compared, chain.sampled);
        copse__probe_free(&chain.probe);
    }
    copse_fake.devices[0].perturb = copse_kernel_table[m->launch.form->kernel].name;
    copse_fake.devices[0].perturb_bits = 0x8000;
    struct copse_chain chain = { .most = UINT64_MAX };
    OK(copse__chain_run(&chain, &segment));
    assert_true(chain.fault.is_found && chain.sampled == 1);
    copse__probe_free(&chain.probe);
    copse_fake.devices[0].perturb = NULL;
}

static void what_an_earlier_program_compared_is_compared_in_part(void **state)
{
    (void)state;
    struct made m;
    for (size_t i = 0; copse_launch_lists[i]; i++) {
        const struct copse_launch_form *f = &copse_launch_lists[i]->forms[0];
        if (f->kernel == COPSE_KERNEL_binary || f->kernel == COPSE_KERNEL_attention) {
            assert_true(make(f, COPSE_REGIME_MANY, &m));
            check_again(&m);
            drop(&m);
        }
    }
}

/* ---- the choice ---- */

static bool has(const struct copse_choice *c, uint64_t unit)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->at[i] == unit)
            return true;
    return false;
}

/* Increasing; the ends, the first and the last group, and both sides of group 65,535 are among
   them. */
static void the_choice_covers_the_launch(void **state)
{
    (void)state;
    for (uint64_t units = 1; units < (uint64_t)1 << 40; units = units * 7 + 1)
        for (uint64_t cost = 1; cost < (uint64_t)1 << 30; cost *= 19) {
            const uint64_t groups = (units + 255) / 256;
            const uint64_t folded = (groups + 65534) / 65535;
            const struct copse_command c = { .groups_x = (uint32_t)((groups + folded - 1) / folded),
                                             .groups_y = (uint32_t)folded };
            struct copse_choice chosen;
            OK(copse__choose_units(&ctx->base.mem, &c, units, cost, &chosen));
            assert_true(chosen.count >= 1 && chosen.count <= 2048 && chosen.count <= units);
            assert_true(chosen.count <= 16 || chosen.count * cost <= 1 << 19);
            for (size_t i = 1; i < chosen.count; i++)
                assert_true(chosen.at[i] > chosen.at[i - 1]);
            assert_true(has(&chosen, 0) && has(&chosen, units - 1));
            if (cost == 1)
                for (uint64_t i = 0; i < COPSE_MIN(units, 250); i++)
                    assert_true(has(&chosen, i) && has(&chosen, units - 1 - i));
            const uint64_t all = (uint64_t)c.groups_x * c.groups_y,
                           behind = (uint64_t)((double)units / (double)all * 65535);
            if (groups > 65535 && cost == 1)
                assert_true(has(&chosen, behind) && has(&chosen, behind - 1));
            copse__free(&ctx->base.mem, chosen.at);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(right_launches_pass, begin, end),
        cmocka_unit_test_setup_teardown(ends_that_are_not_written_are_found, begin, end),
        cmocka_unit_test_setup_teardown(wrong_numbers_are_found, begin, end),
        cmocka_unit_test_setup_teardown(what_an_earlier_program_compared_is_compared_in_part, begin,
                                        end),
        cmocka_unit_test_setup_teardown(the_choice_covers_the_launch, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
