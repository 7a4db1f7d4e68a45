/* SPDX-License-Identifier: MIT */
/* Each kernel of the table is blocked in turn on a device on which it is right. Work that needs it
   is then refused by the kernel's name, or, where the application allows it, computed by the host:
   the results are correct. Never are they wrong. */
#include <math.h>

#include "copse/device/conformance.h"
#include "core/graph/variant.h"
#include "core/rule/rows.h"
#include "prover/cases/tables.h"
#include "prover/conformance/rig/case_rig.h"

#include "tests/rig/rig.h"

#include "tests/rig/conformance/spec_rig.h"
#include "tests/rig/fake/fake_backend.h"
#include "tests/rig/train/train_model.h"

static copse_context *ctx;
static struct copse_kernel_uses uses;

/* ---- the launch of a self-test, outside of a program ---- */

static void preset(const struct copse_kernel_row *row, struct copse_self_test *t)
{
    for (uint32_t a = 0; a < row->arg_count; a++)
        for (uint32_t i = 0; i < COPSE_SELF_TEST_WORDS; i++) {
            const float number = (float)((7 * i + 3 * a + i / 9) % 9) - 4.0f;
            if (row->args[a].kind == COPSE_ARG_I32)
                t->words[a][i] = (5 * i + a) % 4;
            else
                memcpy(&t->words[a][i], &number, sizeof number);
        }
}

/* The words of all buffers after the launch; the status of getting the kernel, if it is not
   COPSE_OK. */
static copse_status launch(copse_device *dev, enum copse_kernel_id id,
                           uint32_t words[COPSE_MAX_BINDINGS][COPSE_SELF_TEST_WORDS])
{
    static struct copse_self_test t;
    copse_buffer *buffers[COPSE_MAX_BINDINGS];
    struct copse_binding at[COPSE_MAX_BINDINGS];
    const struct copse_kernel_row *row = &copse_kernel_table[id];
    struct copse_kernel *k;
    struct copse_command c;
    copse_queue *q;
    int32_t spec[COPSE_MAX_SPECS];
    assert_true(spec_of(id, 0, spec));
    COPSE_TRY(copse__kernel_get(dev, id, spec, &k));
    memset(&t, 0, sizeof t);
    preset(row, &t);
    row->law->self_test(k, &t);
    OK(copse_queue_create(dev, &q));
    for (uint32_t a = 0; a < row->arg_count; a++) {
        at[a] =
            (struct copse_binding){ NULL, 0,
                                    copse__round_up(4 * (size_t)COPSE_MAX(t.counts[a], 1), 16) };
        OK(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = at[a].size },
                               &buffers[a]));
        at[a].buffer = buffers[a];
        OK(copse_queue_write(q, buffers[a], 0, t.words[a], at[a].size));
    }
    OK(copse__dispatch_init(&c, k, at, row->arg_count, t.params, t.groups, 0));
    OK(copse__queue_encode(q, &c));
    for (uint32_t a = 0; a < row->arg_count; a++)
        OK(copse_queue_read(q, buffers[a], 0, words[a], at[a].size));
    OK(copse_queue_finish(q));
    for (uint32_t a = 0; a < row->arg_count; a++)
        copse_buffer_release(&buffers[a]);
    copse_queue_release(&q);
    return COPSE_OK;
}

static void refused(copse_status s, const char *kernel, const char *device)
{
    char text[128];
    snprintf(text, sizeof text, "kernel: %s is blocked on %s: by the test; driver ", kernel,
             device);
    if (s != COPSE_ERR_UNSUPPORTED || !strstr(copse_last_error(), text) ||
        !strstr(copse_last_error(), "--allow-host"))
        fail_msg("%s: %s: %s", kernel, copse_status_name(s), copse_last_error());
}

/* On a device whose kernels are the host functions the words are the same. */
static void every_launch_is_refused_or_computed_by_the_host(void **state)
{
    static uint32_t right[COPSE_MAX_BINDINGS][COPSE_SELF_TEST_WORDS],
        got[COPSE_MAX_BINDINGS][COPSE_SELF_TEST_WORDS];
    copse_device *dev;
    unsigned count = 0;
    (void)state;
    OK(copse__context_create_with(NULL, fake_backends, &ctx));
    OK(copse_device_open(ctx, "fake:0", NULL, &dev));
    for (unsigned id = 0; id < copse_kernel_count; id++) {
        const struct copse_kernel_row *row = &copse_kernel_table[id];
        OK(copse_device_block(ctx, "fake:0", row->name, "by the test"));
        if (!row->is_variant) {
            OK(copse_device_unblock(ctx, "fake:0", row->name));
            memset(right, 0, sizeof right);
            memset(got, 0, sizeof got);
            OK(launch(dev, id, right));
            OK(copse_device_block(ctx, "fake:0", row->name, "by the test"));
            refused(launch(dev, id, got), row->name, "fake:0");
            OK(copse_context_allow(ctx, COPSE_ALLOW_HOST));
            OK(launch(dev, id, got));
            if (memcmp(right, got, sizeof right) != 0)
                fail_msg("%s: the host computes something else", row->name);
            OK(copse_context_allow(ctx, 0));
            count++;
        }
        OK(copse_device_unblock(ctx, "fake:0", row->name));
    }
    assert_true(count > 40);
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

/* ---- programs ---- */

struct job {
    const struct copse_case *c;
    bool has_gradient;
};

/* Judged as in conformance. The status of making the program, if it is not COPSE_OK. */
static copse_status run_job(copse_device *dev, const struct job *j)
{
    struct copse_rig rig;
    struct copse_rig_program *p = NULL;
    struct copse_conform_outcome out = { .text = "" };
    OK(copse__rig_open(ctx, j->c, copse__case_seed(j->c->op, j->c->name), j->has_gradient, &rig));
    const copse_status s = copse__rig_program_open(&rig, dev, "", &p);
    if (s == COPSE_OK) {
        OK(copse__rig_expect(&rig));
        OK(copse__rig_program_run(p, &out));
        OK(copse__rig_judge(p, 0, &out));
        if (out.result.verdict != COPSE_VERDICT_PASS &&
            out.result.verdict != COPSE_VERDICT_MISTRUSTED)
            fail_msg("%s: %s on %s: %s", j->c->op, j->c->name, dev->info.id, out.text);
    }
    copse__rig_program_close(&p);
    copse__rig_close(&rig);
    return s;
}

static uint64_t work_of(const struct copse_case *c)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < c->in_count; i++)
        sum += copse__elements(c->in[i].shape);
    return sum;
}

/* Note which kernels the job uses on the device, and keep it for those that have no smaller one. */
static void note_job(copse_device *dev, const struct job *j, struct job *jobs)
{
    memset(uses.used, 0, sizeof uses.used);
    if (run_job(dev, j) != COPSE_OK)
        return;
    for (unsigned id = 0; id < copse_kernel_count; id++)
        if (atomic_load(&uses.used[id]) && (!jobs[id].c || work_of(j->c) < work_of(jobs[id].c)))
            jobs[id] = *j;
}

/* A quick case of a family. Each variant of a family launches other kernels. */
static bool is_of_family(const struct copse_case *c)
{
    return c->family && c->tier == COPSE_TIER_QUICK;
}

/* For each kernel a small case that uses it on the device: of all tables, or, where `few` is not
   NULL, one of these and some of the families. */
static void find_jobs(copse_device *dev, const struct job *few, struct job *jobs)
{
    unsigned of_families = 0;
    uses.device = dev->block_list;
    atomic_store(&ctx->uses, &uses);
    for (unsigned id = 0; few && id < copse_kernel_count; id++)
        if (few[id].c)
            note_job(dev, &few[id], jobs);
    for (size_t t = 0; copse_case_tables[t]; t++)
        for (size_t i = 0; i < copse_case_tables[t]->count; i++)
            for (int k = 0; k < 2; k++) {
                const struct job j = { &copse_case_tables[t]->cases[i], k == 1 };
                if (j.c->tier > COPSE_TIER_STANDARD || (k == 1 && !copse__case_has_gradient(j.c)) ||
                    work_of(j.c) > 20000)
                    continue;
                if (!few || (is_of_family(j.c) && of_families++ < 40))
                    note_job(dev, &j, jobs);
            }
    atomic_store(&ctx->uses, NULL);
}

/* Whether only variants after the first of a family launch the kernel. */
static bool is_of_variant(uint32_t id)
{
    for (size_t f = 0; copse_families[f]; f++)
        if (copse_families[f]->variants[0].kernel == id)
            return false;
    for (size_t f = 0; copse_families[f]; f++)
        for (size_t i = 1; i < copse_families[f]->count; i++) {
            const struct copse_variant *v = &copse_families[f]->variants[i];
            for (size_t k = 0; k < v->need_count; k++)
                if (v->needs[k] == id)
                    return true;
            if (v->kernel == id)
                return true;
        }
    return false;
}

/* Whether another kernel takes over, so that nothing is refused. */
static bool has_substitute(copse_device *dev, const struct job *j)
{
    return run_job(dev, j) == COPSE_OK;
}

static const char *kernel_of_rule(size_t index)
{
    const copse_optimizer_kind kind = copse_optimizer_rule_at(index)->kind;
    return copse_kernel_table[copse__rule_row(kind)->kernel->id].name;
}

/* The other kernels belong to rules, to sums over replicas, to gradients of rows, to audits, to nodes
   that share a launch, and to variants that the fake device does not choose. */
static bool is_in_graphs(const char *kernel)
{
    static const char *const others[] = { "average",
                                          "block_scale",
                                          "clip",
                                          "digest",
                                          "lamb_sum",
                                          "square_sum",
                                          "tree_sum",
                                          "sum_i32",
                                          "mean",
                                          "accumulate",
                                          "matmul_pad",
                                          "bias_activation",
                                          "row_heads",
                                          "row_find",
                                          "row_join",
                                          "row_put",
                                          "matmul_half",
                                          "matmul_tile",
                                          "blocks_tile",
                                          "conv_tile",
                                          "conv_weight_tile",
                                          "attention_tile",
                                          "attention_grad_query_tile",
                                          "attention_grad_key_tile",
                                          "matmul_join",
                                          "row_stats_held",
                                          "softmax_held",
                                          "softmax_grad_held",
                                          "cross_entropy_grad_held",
                                          "layer_norm_held",
                                          "column_sums",
                                          "chain" };
    for (size_t i = 0; i < COPSE_COUNT(others); i++)
        if (strcmp(others[i], kernel) == 0)
            return false;
    for (size_t i = 0; copse_optimizer_rule_at(i); i++)
        if (strcmp(kernel_of_rule(i), kernel) == 0)
            return false;
    return true;
}

static struct job all_jobs[COPSE_KERNEL_COUNT]; /* of the fake device */

/* With `has_all` each kernel; else each one that has its turn, from kernel `first` on. */
static void block_in_turn(const char *device, bool has_all, size_t first)
{
    struct job jobs[COPSE_KERNEL_COUNT] = { { .c = NULL } };
    copse_device *dev;
    unsigned count = 0, substitutes = 0;
    OK(copse_device_open(ctx, device, NULL, &dev));
    find_jobs(dev, has_all ? NULL : all_jobs, jobs);
    if (has_all)
        memcpy(all_jobs, jobs, sizeof jobs);
    for (unsigned id = 0; id < copse_kernel_count; id++) {
        const struct copse_kernel_row *row = &copse_kernel_table[id];
        if (!has_all && !rig_takes(id + first, 5))
            continue;
        if (!jobs[id].c) {
            if (has_all && !row->is_variant && is_in_graphs(row->name))
                fail_msg("no case needs %s", row->name);
            continue;
        }
        OK(copse_device_block(ctx, device, row->name, "by the test"));
        if (has_substitute(dev, &jobs[id]))
            substitutes++;
        else if (is_of_variant(id) &&
                 id != COPSE_KERNEL_blocks_rows) /* gather_blocks is no variant */
            fail_msg("%s is refused on %s, and the first variant does the same: %s", row->name,
                     device, copse_last_error());
        else
            refused(COPSE_ERR_UNSUPPORTED, row->name, device);
        OK(copse_context_allow(ctx, COPSE_ALLOW_HOST));
        OK(run_job(dev, &jobs[id]));
        OK(copse_context_allow(ctx, 0));
        OK(copse_device_unblock(ctx, device, row->name));
        count++;
    }
    print_message("%s: %u kernels blocked in turn, %u of them with a substitute\n", device, count,
                  substitutes);
    assert_true(count > (has_all || rig_takes(1, 2) ? 20 : 4));
    copse_device_release(&dev);
}

static void every_program_is_refused_or_right(void **state)
{
    (void)state;
    OK(copse__context_create_with(NULL, fake_backends, &ctx));
    block_in_turn("fake:0", true, 0);
    copse_context_release(&ctx);
}

static void on_found_devices_too(void **state)
{
    const struct copse_device_info *list;
    size_t count;
    (void)state;
    /* no kernel cache: blocks of kernels stay in this process */
    OK(copse_context_create(NULL, &ctx));
    copse_context_devices(ctx, &list, &count);
    for (size_t i = 0; i < count; i++)
        if (list[i].is_usable && list[i].kind != COPSE_DEVICE_REFERENCE)
            block_in_turn(list[i].id, false, i);
    copse_context_release(&ctx);
}

/* ---- training ---- */

/* Two replicas, so that sums over replicas take part. Limits elements to `clip`; 0: norms; less:
   nothing. */
static float *train(copse_optimizer_kind kind, float clip, size_t *count)
{
    const struct run r = { .devices = { "fake:0", "fake:1" },
                           .device_count = 2,
                           .steps = 3,
                           .optimizer = { .kind = kind,
                                          .clip_value = fmaxf(clip, 0.0f),
                                          .average = 0.9f,
                                          .clip_norm = clip == 0.0f ? 1e-3f : 0.0f } };
    return run_model(ctx, &r, count);
}

static void refused_or_right(const char *kernel, copse_optimizer_kind kind, float clip)
{
    size_t count, same;
    fake_reset();
    copse_fake.device_count = 2;
    OK(copse__context_create_with(NULL, fake_backends, &ctx));
    float *right = train(kind, clip, &count);
    assert_non_null(right);
    OK(copse_device_block(ctx, "fake:1", kernel, "by the test"));
    float *none = train(kind, clip, &same);
    if (strcmp(kernel, "softmax") == 0) {
        assert_non_null(none); /* training does not launch it */
        assert_memory_equal(none, right, count * sizeof *right);
    } else {
        if (none)
            fail_msg("%s is blocked, and training is not refused", kernel);
        refused(COPSE_ERR_UNSUPPORTED, kernel, "fake:1");
    }
    free(none);
    OK(copse_context_allow(ctx, COPSE_ALLOW_HOST));
    float *got = train(kind, clip, &same);
    assert_non_null(got);
    assert_int_equal(count, same);
    if (memcmp(right, got, count * sizeof *right) != 0)
        fail_msg("%s on the host: other parameters", kernel);
    free(right);
    free(got);
    copse_context_release(&ctx);
}

static void optimizers_and_sums_are_refused_or_right(void **state)
{
    static const struct {
        const char *kernel;
        copse_optimizer_kind kind;
        float clip;
    } table[] = {
        { "lamb_sum", COPSE_LAMB, -1.0f },
        { "average", COPSE_ADAM, 0.0f },
        { "clip", COPSE_SGD, 0.1f },
        { "square_sum", COPSE_SGD, 0.0f },
        { "block_scale", COPSE_SGD, 0.0f },
        { "tree_sum", COPSE_SGD, 0.0f },
        { "cross_entropy_grad", COPSE_SGD, 0.0f },
        { "softmax", COPSE_SGD, 0.0f },
    };
    (void)state;
    for (size_t i = 0; copse_optimizer_rule_at(i); i++) {
        const copse_optimizer_kind kind = copse_optimizer_rule_at(i)->kind;
        refused_or_right(kernel_of_rule(i), kind,
                         copse__rule_row(kind)->kernel->trusts ? -1.0f : 0.0f);
    }
    for (size_t i = 0; i < COPSE_COUNT(table); i++)
        refused_or_right(table[i].kernel, table[i].kind, table[i].clip);
}

static void what_is_allowed_is_checked(void **state)
{
    (void)state;
    OK(copse__context_create_with(NULL, fake_backends, &ctx));
    FAILS(COPSE_ERR_ARGUMENT, copse_context_allow(ctx, 4), "cannot allow 0x4");
    OK(copse_context_allow(ctx, COPSE_ALLOW_HOST | COPSE_ALLOW_UNRELIABLE));
    copse_context_release(&ctx);
}

static int reset(void **state)
{
    (void)state;
    fake_reset();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_launch_is_refused_or_computed_by_the_host, reset),
        cmocka_unit_test_setup(every_program_is_refused_or_right, reset),
        cmocka_unit_test_setup(optimizers_and_sums_are_refused_or_right, reset),
        cmocka_unit_test_setup(what_is_allowed_is_checked, reset),
        cmocka_unit_test_setup(on_found_devices_too, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
