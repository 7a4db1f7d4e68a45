/* SPDX-License-Identifier: MIT */
/* Training with parameter servers. Alone, the process stores the variables itself. As a task of a job, which COPSE_CONFIG
   describes (docs/cluster.md), it is a parameter server or a worker:

   COPSE_CONFIG='{"cluster": {"worker": ["localhost:7000"], "ps": ["localhost:7001"]}, "task": {"type": "ps"}}' \
       ./parameter_servers &
   COPSE_CONFIG='{"cluster": {"worker": ["localhost:7000"], "ps": ["localhost:7001"]}, "task": {"type": "worker"}}' \
       ./parameter_servers */
#include <stdio.h>

#include "copse/copse.h"
#include "copse/distribute/cluster.h"
#include "copse/distribute/parameter_server.h"

/* The loss of y = slope x. */
static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_input(in, "y");
    copse_tensor *guess = copse_mul(g, x, user);
    return copse_mean_squared_error(g, guess, y);
}

static copse_status work(copse_context *ctx, copse_cluster *cluster)
{
    const char *const devices[] = { "host:0", "host:0" }; /* two replicas in this process */
    const float x[4] = { 1, 2, 3, 4 }, y[4] = { 3, 6, 9, 12 };
    const struct copse_host_batch batch = { COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(1), x },
                                                          { "y", COPSE_F32, COPSE_SHAPE(1), y }),
                                            .count = 4 };
    struct copse_step_result result = { 0 };
    copse_strategy *st = NULL;
    copse_variable *slope;
    copse_trainer *trainer = NULL;
    copse_status s;
    float value;
    COPSE_TRY_OR(end, s, copse_parameter_server_create(ctx, cluster, devices, 2, NULL, &st));
    COPSE_TRY_OR(end, s,
                 copse_variable_create(
                     st,
                     &(struct copse_variable_params){ .name = "slope", .shape = COPSE_SHAPE(1) },
                     &slope));
    COPSE_TRY_OR(
        end, s,
        copse_trainer_create(st,
                             &(struct copse_trainer_params){
                                 .loss = loss,
                                 .user = copse_variable_tensor(slope),
                                 .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.05f } },
                             &trainer));
    for (int step = 0; step < 30; step++) {
        /* pulls the variable, computes gradients on both replicas, pushes their sum to the
           server */
        COPSE_TRY_OR(end, s, copse_trainer_step(trainer, &batch));
        COPSE_TRY_OR(end, s, copse_trainer_result(trainer, true, &result));
    }
    COPSE_TRY_OR(end, s, copse_variable_read(slope, 0, &value));
    printf("%u server%s: loss %.6f, slope %.3f\n", copse_parameter_servers(st),
           copse_parameter_servers(st) == 1 ? "" : "s", result.loss, (double)value);
end:
    copse_trainer_release(&trainer);
    copse_strategy_release(&st);
    return s;
}

static copse_status run(void)
{
    copse_context *ctx = NULL;
    copse_cluster_spec *spec = NULL;
    copse_cluster *cluster = NULL;
    copse_status s;
    COPSE_TRY_OR(end, s, copse_context_create(NULL, &ctx));
    COPSE_TRY_OR(end, s, copse_cluster_spec_find(ctx, &spec));
    if (spec) /* a task of a job */
        COPSE_TRY_OR(end, s, copse_cluster_open(ctx, spec, NULL, &cluster));
    if (spec && copse_cluster_spec_role(spec) == COPSE_ROLE_PS) {
        struct copse_parameter_server_summary summary;
        /* until all workers are done */
        COPSE_TRY_OR(end, s, copse_parameter_server_serve(ctx, cluster, NULL, &summary));
        printf("served %llu updates\n", (unsigned long long)summary.updates);
    } else {
        COPSE_TRY_OR(end, s, work(ctx, cluster));
    }
end:
    copse_cluster_release(&cluster);
    copse_cluster_spec_release(&spec);
    copse_context_release(&ctx);
    return s;
}

int main(void)
{
    if (run() == COPSE_OK)
        return 0;
    fprintf(stderr, "parameter_servers: %s\n", copse_last_error());
    return 1;
}
