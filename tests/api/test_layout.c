/* SPDX-License-Identifier: MIT */
/* The layout of public structs is that of layout.def: a struct changes by taking words of `reserved` only. */
#include <stddef.h>

#include "copse/compat/gradients.h"
#include "copse/compat/replicated.h"
#include "copse/compat/single_loss.h"
#include "copse/compat/train_step.h"
#include "copse/copse.h"
#include "copse/data/checkpoint.h"
#include "copse/data/readers.h"
#include "copse/data/schema.h"
#include "copse/device/conformance.h"
#include "copse/device/function.h"
#include "copse/device/queue.h"
#include "copse/device/tuning.h"
#include "copse/distribute/accelerator.h"
#include "copse/distribute/collective.h"
#include "copse/distribute/cross_device.h"
#include "copse/distribute/evaluator.h"
#include "copse/distribute/input.h"
#include "copse/distribute/parameter_server.h"
#include "copse/distribute/partition.h"
#include "copse/distribute/shares.h"
#include "copse/distribute/sync.h"
#include "copse/train/evaluate.h"
#include "copse/train/model_file.h"
#include "copse/train/weights.h"
#include "copse/loop/monitor.h"
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
#define MEMBER(type, member, offset) { #type, #member, offsetof(struct type, member), offset, false },
#define GROWS(type, words) { #type, "reserved", sizeof(((struct type *)0)->reserved) / sizeof(uint64_t), words, true },
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
        fprintf(stderr, "struct %s: %s is %zu, layout.def has %zu\n", r->type, r->what, r->is, r->must_be);
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(structs_keep_their_layout) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
