/* SPDX-License-Identifier: MIT */
/* The rule for NULL (copse/status.h), as test_null.c, for the functions of copse/optim/ and of some
   of copse/train/. */
#include "copse/context.h"
#include "copse/loop/find_lr.h"
#include "copse/optim/groups.h"
#include "copse/optim/rules.h"
#include "copse/optim/schedule.h"
#include "copse/train/average.h"
#include "copse/train/model_loss.h"

#include "tests/rig/null_rig.h"

static copse_context *ctx;
static copse_schedule *schedule;
static copse_trainer *trainer; /* no row needs it: each call has NULL for it */
static copse_model *model;
static copse_dataset *data;

static void all_rows(struct probe *p)
{
    const struct copse_optimizer_rule *rule;
    copse_schedule *made;
    ROW(copse_optimizer_rule_find, NEED("adam"), NEED(&rule));
    ROW(copse_find_lr_schedule, NEED(ctx), NULL, NEED(&made));
    ROW(copse_schedule_create, NEED(ctx),
        NEED(&(struct copse_schedule_params){ .text = "constant", .rate = 1 }), NEED(&made));
    ROW(copse_schedule_create, ctx,
        &(struct copse_schedule_params){ .text = NEED("constant"), .rate = 1 }, &made);
    ROW(copse_schedule_check, NEED("constant"));
    ROW(copse_parameter_groups_check, NEED("a: frozen"));
    ROW(copse_model_check_loss, NEED("huber"));
    ROW(copse_model_balance_loss, NEED(model), NEED(data));
    ROW(copse_model_set_loss, NEED(model), NEED("huber"));
    ROW(copse_trainer_average_begin, NEED(trainer));
    ROW(copse_trainer_average_end, NEED(trainer));
    ROW(copse_schedule_observe, NEED(schedule), 1.0);
    ROW(copse_schedule_restore, NEED(schedule), NEED(""));
}

static void required_pointers_are_checked(void **state)
{
    int calls;
    (void)state;
    OK(copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" }, &ctx));
    OK(copse_schedule_create(ctx, &(struct copse_schedule_params){ .text = "constant", .rate = 1 },
                             &schedule));
    const int wrong = run_rows(all_rows, &calls);
    printf("%d calls\n", calls);
    copse_schedule_release(&schedule);
    copse_context_release(&ctx);
    if (wrong)
        fail_msg("%d of %d calls with NULL are not refused as they should be", wrong, calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(required_pointers_are_checked) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
