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
    const struct copse_variable_params start = { .name = "slope", .shape = COPSE_SHAPE(1) };
    struct copse_trainer_params params = { .loss = loss, .optimizer = { .kind = COPSE_SGD } };
    params.optimizer.learning_rate = 0.05f;
    struct copse_step_result result = { 0 };
    copse_strategy *st = NULL;
    copse_variable *slope = NULL;
    copse_trainer *trainer = NULL;
    float value;
    copse_status s = copse_parameter_server_create(ctx, cluster, devices, 2, NULL, &st);
    s = s ? s : copse_variable_create(st, &start, &slope);
    params.user = copse_variable_tensor(slope);
    s = s ? s : copse_trainer_create(st, &params, &trainer);
    for (int step = 0; step < 30; step++) {
        /* pulls the variable, computes gradients on both replicas, pushes their sum */
        s = s ? s : copse_trainer_step(trainer, &batch);
        s = s ? s : copse_trainer_result(trainer, true, &result);
    }
    s = s ? s : copse_variable_read(slope, 0, &value);
    if (!s)
        printf("%u server%s: loss %.6f, slope %.3f\n", copse_parameter_servers(st),
               copse_parameter_servers(st) == 1 ? "" : "s", result.loss, (double)value);
    copse_trainer_release(&trainer);
    copse_strategy_release(&st);
    return s;
}

int main(void)
{
    copse_context *ctx = NULL;
    copse_cluster_spec *spec = NULL;
    copse_cluster *cluster = NULL;
    struct copse_parameter_server_summary served;
    copse_status s = copse_context_create(NULL, &ctx);
    s = s ? s : copse_cluster_spec_find(ctx, &spec);
    if (spec) /* a task of a job */
        s = s ? s : copse_cluster_open(ctx, spec, NULL, &cluster);
    const bool is_server = spec && copse_cluster_spec_role(spec) == COPSE_ROLE_PS;
    if (is_server) /* until all workers are done */
        s = s ? s : copse_parameter_server_serve(ctx, cluster, NULL, &served);
    else
        s = s ? s : work(ctx, cluster);
    if (s)
        fprintf(stderr, "parameter_servers: %s\n", copse_last_error());
    else if (is_server)
        printf("served %llu updates\n", (unsigned long long)served.updates);
    copse_cluster_release(&cluster);
    copse_cluster_spec_release(&spec);
    copse_context_release(&ctx);
    return s != COPSE_OK;
}
