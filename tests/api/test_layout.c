/* SPDX-License-Identifier: MIT */
/* The layout of public structs is that of layout.def: a struct changes by taking words of
   `reserved` only. */
#include <stddef.h>

#include "copse/compat/gradients.h"
#include "copse/compat/replicated.h"
#include "copse/compat/single_loss.h"
#include "copse/compat/train_step.h"
#include "copse/copse.h"
#include "copse/data/checkpoint.h"
#include "copse/data/folds.h"
#include "copse/data/gguf.h"
#include "copse/data/readers.h"
#include "copse/data/schema.h"
#include "copse/data/source.h"
#include "copse/data/text.h"
#include "copse/device/choice.h"
#include "copse/device/compile.h"
#include "copse/device/conformance_job.h"
#include "copse/device/function.h"
#include "copse/device/queue.h"
#include "copse/device/trace.h"
#include "copse/device/tuning.h"
#include "copse/distribute/accelerator.h"
#include "copse/distribute/call.h"
#include "copse/distribute/collective.h"
#include "copse/distribute/cross_device.h"
#include "copse/distribute/evaluator.h"
#include "copse/distribute/input.h"
#include "copse/distribute/parameter_server.h"
#include "copse/distribute/partition.h"
#include "copse/distribute/shards.h"
#include "copse/distribute/sync.h"
#include "copse/loop/early_stopping.h"
#include "copse/loop/find_lr.h"
#include "copse/loop/monitor.h"
#include "copse/nn/onnx.h"
#include "copse/ops/attention.h"
#include "copse/ops/blocks.h"
#include "copse/ops/conv.h"
#include "copse/ops/losses.h"
#include "copse/ops/pool.h"
#include "copse/ops/recurrent.h"
#include "copse/ops/rotary.h"
#include "copse/ops/user_op.h"
#include "copse/optim/groups.h"
#include "copse/optim/rules.h"
#include "copse/optim/schedule.h"
#include "copse/train/adapt.h"
#include "copse/train/advance.h"
#include "copse/train/audit.h"
#include "copse/train/defaults.h"
#include "copse/train/evaluate.h"
#include "copse/train/fine_tune.h"
#include "copse/train/generate.h"
#include "copse/train/hash.h"
#include "copse/train/language.h"
#include "copse/train/memory.h"
#include "copse/train/model_file.h"
#include "copse/train/predict_cells.h"
#include "copse/train/weights.h"
#include "core/base/base.h"
#include "tests/rig/rig.h"
#if defined(COPSE_HAVE_OPENCL)
#    define CL_TARGET_OPENCL_VERSION 120
#    include "copse/device/opencl.h"
#endif
#if defined(COPSE_HAVE_VULKAN)
#    include "copse/device/vulkan.h"
#endif

static const struct row {
    const char *type, *what;
    size_t is, must_be;
    bool may_shrink;
} rows[] = {
#define STRUCT(type, size) { #type, "size", sizeof(struct type), size, false },
#define MEMBER(type, member, offset) \
    { #type, #member, offsetof(struct type, member), offset, false },
#define GROWS(type, words) \
    { #type, "reserved", sizeof(((struct type *)0)->reserved) / sizeof(uint64_t), words, true },
#include "tests/api/layout.def"
};

static void structs_keep_their_layout(void **state)
{
    (void)state;
    int wrong = 0;
    if (sizeof(void *) != 8 || sizeof(size_t) != 8) {
        printf("skipped: layout.def is for 64-bit pointers\n");
        skip();
    }
    for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
        const struct row *r = &rows[i];
        if (r->may_shrink ? r->is <= r->must_be : r->is == r->must_be)
            continue;
        wrong++;
        fprintf(stderr, "struct %s: %s is %zu, layout.def has %zu\n", r->type, r->what, r->is,
                r->must_be);
    }
    assert_int_equal(wrong, 0);
}

static bool has_member(const char *type, const char *member)
{
    for (size_t i = 0; i < COPSE_COUNT(rows); i++)
        if (strcmp(rows[i].type, type) == 0 && strcmp(rows[i].what, member) == 0)
            return true;
    return false;
}

/* A train step can set everything that a trainer can: its loss is its own, and the check of numbers
   has another name. */
static void train_steps_have_the_settings_of_trainers(void **state)
{
    static const char *const own[] = { "size", "reserved", "loss", "check_numerics" };
    int missing = 0;
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
        bool is_own = strcmp(rows[i].type, "copse_trainer_params") != 0;
        for (size_t k = 0; k < COPSE_COUNT(own); k++)
            is_own |= strcmp(rows[i].what, own[k]) == 0;
        if (is_own || has_member("copse_train_step_params", rows[i].what))
            continue;
        missing++;
        fprintf(stderr, "copse_train_step_params lacks '%s' of copse_trainer_params\n",
                rows[i].what);
    }
    assert_int_equal(missing, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(structs_keep_their_layout),
                                        cmocka_unit_test(
                                            train_steps_have_the_settings_of_trainers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
