/* SPDX-License-Identifier: MIT */
/* Calls of the public API that fail when COPSE_FAIL says so: "loader_next:3" is the third call of
   copse_loader_next. Programs are compiled with these names in place of the API's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/copse.h"
#include "copse/device/function.h"
#include "copse/distribute/value.h"
#include "core/base/base.h"

COPSE_API copse_status failing_loader_next(copse_loader *batches, struct copse_host_batch *out);
COPSE_API copse_status failing_trainer_result(copse_trainer *t, bool wait,
                                              struct copse_step_result *out);
COPSE_API copse_status failing_trainer_fit(copse_trainer *t, copse_loader *batches,
                                           const struct copse_fit_params *params);
COPSE_API copse_status failing_model_fit(copse_model *m, copse_dataset *data,
                                         const struct copse_model_fit_params *params);
COPSE_API copse_status failing_function_run(copse_function *f);
COPSE_API copse_status failing_value_read(const copse_value *v, void *values);

static bool fails_now(const char *name, int *calls)
{
    const char *const text = getenv("COPSE_FAIL");
    const size_t n = strlen(name);
    return text && strncmp(text, name, n) == 0 && text[n] == ':' && ++*calls == atoi(text + n + 1);
}

copse_status failing_loader_next(copse_loader *batches, struct copse_host_batch *out)
{
    static int calls;
    if (fails_now("loader_next", &calls))
        return copse_fail(COPSE_ERR_FORMAT, "cat/05.png is a damaged PNG");
    return copse_loader_next(batches, out);
}

copse_status failing_trainer_result(copse_trainer *t, bool wait, struct copse_step_result *out)
{
    static int calls;
    if (fails_now("trainer_result", &calls))
        return copse_fail(COPSE_ERR_COMM, "worker 3 is lost");
    return copse_trainer_result(t, wait, out);
}

copse_status failing_trainer_fit(copse_trainer *t, copse_loader *batches,
                                 const struct copse_fit_params *params)
{
    static int calls;
    if (fails_now("trainer_fit", &calls))
        return copse_fail(COPSE_ERR_FORMAT, "cat/05.png is a damaged PNG");
    return copse_trainer_fit(t, batches, params);
}

copse_status failing_model_fit(copse_model *m, copse_dataset *data,
                               const struct copse_model_fit_params *params)
{
    static int calls;
    if (fails_now("model_fit", &calls))
        return copse_fail(COPSE_ERR_FORMAT, "cat/05.png is a damaged PNG");
    return copse_model_fit(m, data, params);
}

copse_status failing_function_run(copse_function *f)
{
    static int calls;
    if (fails_now("function_run", &calls))
        return copse_fail(COPSE_ERR_DEVICE_LOST, "opencl:0: the device is lost");
    return copse_function_run(f);
}

/* Replicas may call it, one at a time. */
copse_status failing_value_read(const copse_value *v, void *values)
{
    static int calls;
    if (fails_now("value_read", &calls))
        return copse_fail(COPSE_ERR_DEVICE_LOST, "opencl:0: the device is lost");
    return copse_value_read(v, values);
}
