/* SPDX-License-Identifier: MIT */
/* A function on every replica, and a merge call: each replica proposes a number, the merge function
   returns the mean of all proposals, and every replica continues with it. */
#include <stdio.h>

#include "copse/copse.h"
#include "copse/distribute/replica.h"

/* Runs once, with the values of all replicas: args[0] has one component for each replica. */
static copse_status mean_of_all(copse_strategy *st, copse_value *const *args, size_t count,
                                void *user, copse_value **result)
{
    (void)count, (void)user;
    printf("merge: %zu proposals\n", copse_value_count(args[0]));
    return copse_strategy_reduce(st, COPSE_REDUCE_MEAN, args[0], NULL, result);
}

/* Runs once for each replica. */
static copse_status propose(copse_replica_context *rc, copse_value *const *args, size_t count,
                            void *user, copse_value **result)
{
    copse_context *ctx = user;
    const uint32_t id = copse_replica_id(rc);
    copse_value *mine, *mean;
    float number;
    (void)args, (void)count;
    COPSE_TRY(copse_value_scalar(ctx, (float)(10 * (id + 1)), &mine));
    copse_status s = copse_merge_call(rc, mean_of_all, &mine, 1, NULL, &mean);
    copse_value_release(&mine);
    COPSE_TRY(s);
    s = copse_value_read(mean, &number);
    if (!s)
        printf("replica %u proposed %u, the mean is %g\n", id, 10 * (id + 1), (double)number);
    *result = mean; /* the caller's reference */
    return s;
}

int main(void)
{
    const char *const devices[] = { "host:0", "host:0", "host:0" };
    copse_context *ctx = NULL;
    copse_strategy *st = NULL;
    copse_value *result = NULL;
    float number;
    copse_status s = copse_context_create(NULL, &ctx);
    s = s ? s : copse_mirrored_create(ctx, devices, 3, NULL, &st);
    s = s ? s : copse_strategy_run(st, propose, NULL, 0, ctx, &result);
    s = s ? s : copse_value_read(result, &number); /* all replicas returned the same value */
    if (s)
        fprintf(stderr, "merge_call: %s\n", copse_last_error());
    else
        printf("the run returned %g\n", (double)number);
    copse_value_release(&result);
    copse_strategy_release(&st);
    copse_context_release(&ctx);
    return s != COPSE_OK;
}
