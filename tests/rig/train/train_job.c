/* SPDX-License-Identifier: MIT */
/* See train_job.h. */
#include "tests/rig/train/train_job.h"

#include "copse/compat/single_loss.h"
#include "copse/distribute/collective.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const host_ids[1] = { "host:0" };

copse_status job_make(void *user, copse_trainer **out)
{
    struct job *j = user;
    copse_strategy *st = NULL;
    size_t count = j->device_count;
    j->made++;
    if (j->lose_after && j->made >= j->lose_after)
        count--;
    j->m = (struct model){ .dropout = 0.25f };
    const char *const *devices = count ? j->devices : host_ids;
    COPSE_TRY(j->cluster
                  ? copse_collective_create(j->ctx, j->cluster, devices, count ? count : 1,
                                            &j->strategy, &st)
                  : copse_mirrored_create(j->ctx, devices, count ? count : 1, &j->strategy, &st));
    copse_status s = model_create(&j->m, st);
    if (s == COPSE_OK)
        s = copse_trainer_create(
            st,
            &(struct copse_trainer_params){
                .loss = model_loss, .user = &j->m, .optimizer = j->optimizer, .seed = j->seed },
            out);
    copse_strategy_release(&st);
    return s;
}

copse_status job_dataset(void *user, copse_strategy *st, copse_dataset **out)
{
    static _Thread_local float x[MODEL_ROWS * MODEL_IN];
    static _Thread_local int32_t y[MODEL_ROWS];
    const struct job *j = user;
    (void)st;
    model_data(x, y);
    const struct copse_array_view features = {
        .type = COPSE_F32, .rank = 2, .shape = { MODEL_ROWS, MODEL_IN }, .data = x
    };
    const struct copse_array_view labels = {
        .type = COPSE_I32, .rank = 1, .shape = { MODEL_ROWS }, .data = y
    };
    return copse_dataset_create(j->ctx, &features, &labels,
                                &(struct copse_dataset_params){ .scale = COPSE_SCALE_NONE }, out);
}

copse_status job_step(struct job *j, copse_step **out)
{
    static const struct copse_output_params loss = { .name = "loss",
                                                     .reduction = COPSE_OUTPUT_MEAN };
    return copse_single_loss_step_create(
        j->ctx,
        &(struct copse_single_loss_params){
            .input = { .dataset = job_dataset,
                       .user = j,
                       .batches = { .batch = 32, .seed = 5, .prefetch = 2 },
                       .epochs = j->epochs },
            .make = job_make,
            .make_user = j,
            .iterations_per_step = j->iterations,
            .outputs = &loss,
            .output_count = 1 },
        out);
}

float *job_values(const struct job *j, uint32_t replica)
{
    float *values = malloc(model_parameters() * sizeof *values);
    size_t at = 0;
    for (int v = 0; values && v < MODEL_VARIABLES; v++) {
        const copse_shape s = copse_variable_shape(j->m.variables[v]);
        if (copse_variable_read(j->m.variables[v], replica, values + at) != COPSE_OK) {
            fprintf(stderr, "job_values: %s\n", copse_last_error());
            free(values);
            values = NULL;
        }
        at += (size_t)s.dims[0] * (s.rank == 2 ? s.dims[1] : 1);
    }
    return values;
}

static bool has_device(copse_context *ctx, const char *id)
{
    const struct copse_device_info *list;
    size_t count;
    copse_context_devices(ctx, &list, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].id, id) == 0)
            return list[i].is_usable;
    return false;
}

static const size_t counts[] = { 1, 2, 3, 5 };

size_t job_mixtures(copse_context *ctx)
{
    const bool has_more = has_device(ctx, "opencl:0") || has_device(ctx, "vulkan:0");
    if (!has_more)
        printf("  only on the host: there is neither opencl:0 nor vulkan:0\n");
    return has_more ? 8 : 4;
}

void job_devices(copse_context *ctx, struct job *j, size_t i)
{
    const char *first = has_device(ctx, "opencl:0") ? "opencl:0" : "host:0";
    const char *second = has_device(ctx, "vulkan:0") ? "vulkan:0" : "host:0";
    const char *const mixture[5] = { first, second, "host:0", second, first };
    j->device_count = counts[i % 4];
    for (size_t r = 0; r < j->device_count; r++)
        j->devices[r] = i < 4 ? "host:0" : mixture[r];
}
