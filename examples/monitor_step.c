/* SPDX-License-Identifier: MIT */
/* A monitor runs a step of the application's own functions, writes checkpoints and resumes: run the
   program several times with the same folder. Usage: monitor_step FOLDER */
#include <stdio.h>

#include "copse/copse.h"
#include "copse/loop/monitor.h"

struct job {
    copse_trainer *trainer;
    copse_tensor *slope;
    uint64_t batch; /* position in the data: the next batch */
};

/* The loss of y = slope x. */
static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct job *job = user;
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_input(in, "y");
    copse_tensor *guess = copse_mul(g, x, job->slope);
    return copse_mean_squared_error(g, guess, y);
}

/* One step: train on the next batch. */
static copse_status run_step(void *user)
{
    struct job *job = user;
    const float x[4] = { 1, 2, 3, (float)(job->batch % 5) }, y[4] = { 3, 6, 9, 3 * x[3] };
    const struct copse_host_batch batch = { COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(1), x },
                                                          { "y", COPSE_F32, COPSE_SHAPE(1), y }),
                                            .count = 4, .index = job->batch };
    struct copse_step_result result;
    COPSE_TRY(copse_trainer_step(job->trainer, &batch));
    COPSE_TRY(copse_trainer_result(job->trainer, true, &result));
    job->batch++;
    printf("step %llu: loss %.5f\n", (unsigned long long)result.step, result.loss);
    return COPSE_OK;
}

static copse_status save(void *user, const char *path)
{
    const struct job *job = user;
    const struct copse_state_params state = { .position = { .batch = job->batch } };
    return copse_trainer_checkpoint(job->trainer, path, &state);
}

static copse_status restore(void *user, const char *path)
{
    struct job *job = user;
    struct copse_position position;
    COPSE_TRY(copse_trainer_restore(job->trainer, path, &position, NULL));
    job->batch = position.batch;
    return COPSE_OK;
}

static uint64_t progress(void *user)
{
    return copse_trainer_steps(((struct job *)user)->trainer);
}

int main(int argc, char **argv)
{
    const struct copse_step_functions functions = {
        .run = run_step, .save = save, .restore = restore, .progress = progress
    };
    const struct copse_monitor_params params = { .folder = argv[1], .every_steps = 4 };
    const struct copse_variable_params start = { .name = "slope", .shape = COPSE_SHAPE(1) };
    struct job job = { .batch = 0 };
    const struct copse_trainer_params how = {
        .loss = loss, .user = &job, .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.02f }
    };
    struct copse_monitor_info info;
    copse_context *ctx = NULL;
    copse_strategy *st = NULL;
    copse_variable *slope = NULL;
    copse_step *step = NULL;
    copse_monitor *monitor = NULL;
    if (argc != 2) {
        fprintf(stderr, "usage: monitor_step FOLDER\n");
        return 2;
    }
    copse_status s = copse_context_create(NULL, &ctx);
    s = s ? s : copse_one_device_create(ctx, "host:0", NULL, &st);
    s = s ? s : copse_variable_create(st, &start, &slope);
    job.slope = copse_variable_tensor(slope);
    s = s ? s : copse_trainer_create(st, &how, &job.trainer);
    s = s ? s : copse_step_create(ctx, st, &functions, &job, &step);
    s = s ? s : copse_monitor_create(step, &params, &monitor); /* restores the newest checkpoint */
    copse_monitor_describe(monitor, &info);
    if (!s)
        printf("%s %s\n", info.resumed_from ? "resumed from" : "new run in",
               info.resumed_from ? info.resumed_from : argv[1]);
    s = s ? s : copse_monitor_run(monitor, 10, NULL);
    s = s ? s : copse_monitor_checkpoint(monitor);
    copse_monitor_describe(monitor, &info);
    if (s)
        fprintf(stderr, "monitor_step: %s\n", copse_last_error());
    else
        printf("newest checkpoint: %s\n", info.newest);
    copse_monitor_release(&monitor);
    copse_step_release(&step);
    copse_trainer_release(&job.trainer);
    copse_strategy_release(&st);
    copse_context_release(&ctx);
    return s != COPSE_OK;
}
