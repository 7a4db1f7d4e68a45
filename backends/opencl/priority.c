/* SPDX-License-Identifier: MIT */
/* Queues with a priority. clCreateCommandQueueWithProperties is an entry point of version 2.0, which
   this backend does not link; drivers that have cl_khr_create_command_queue give it as a function of
   an extension. */
#include <stdio.h>

#include "backends/opencl/cl_internal.h"

#include <CL/cl_ext.h>

#define HINTS   "cl_khr_priority_hints"
#define CREATOR "cl_khr_create_command_queue"

static cl_command_queue make_queue(const copse_device *dev, cl_command_queue_properties has,
                                   cl_int *e)
{
    const struct copse_cl_device *d = dev->priv;
    const cl_bitfield properties[] = { CL_QUEUE_PRIORITY_KHR,
                                       dev->priority == COPSE_PRIORITY_LOW
                                           ? CL_QUEUE_PRIORITY_LOW_KHR
                                           : CL_QUEUE_PRIORITY_HIGH_KHR,
                                       has ? CL_QUEUE_PROPERTIES : 0, has, 0 };
    return d->create_queue(d->context, d->id, properties, e);
}

void copse_cl_priority_init(copse_device *dev)
{
    struct copse_cl_device *d = dev->priv;
    cl_platform_id platform = NULL;
    if (dev->priority == COPSE_PRIORITY_NORMAL || d->lent != NULL)
        return;
    if (copse_cl_has(&d->cl, d->id, HINTS) && copse_cl_has(&d->cl, d->id, CREATOR) &&
        d->cl.GetDeviceInfo(d->id, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) ==
            CL_SUCCESS) {
        void *function = d->cl.GetExtensionFunctionAddressForPlatform(
            platform, "clCreateCommandQueueWithPropertiesKHR");
        memcpy(&d->create_queue, &function, sizeof function);
    }
    if (d->create_queue == NULL) {
        snprintf(dev->why_not, sizeof dev->why_not, "its driver has no " HINTS " with " CREATOR);
        return;
    }
    cl_int e = CL_SUCCESS;
    cl_command_queue queue = make_queue(dev, 0, &e);
    dev->has_priority = e == CL_SUCCESS;
    if (dev->has_priority) {
        d->cl.ReleaseCommandQueue(queue);
    } else {
        d->create_queue = NULL;
        snprintf(dev->why_not, sizeof dev->why_not, "the driver refuses it: %s",
                 copse_cl_error_name(e));
    }
}

cl_command_queue copse_cl_queue_make(copse_device *dev, cl_command_queue_properties has, cl_int *e)
{
    struct copse_cl_device *d = dev->priv;
    return d->create_queue != NULL ? make_queue(dev, has, e)
                                   : d->cl.CreateCommandQueue(d->context, d->id, has, e);
}
