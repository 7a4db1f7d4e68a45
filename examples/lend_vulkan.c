/* SPDX-License-Identifier: MIT */
/* A program with a Vulkan device of its own lends it and trains a perceptron on the hand-written
   digits with it. See docs/embedding.md. */
#include <stdio.h>

#include "copse/copse.h"
#include "copse/device/open.h"
#include "copse/device/vulkan.h"

/* ---- the program's own device ---- */

struct program {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t family;
    unsigned submissions; /* by the library */
};

/* A program that uses the queue from other threads locks a mutex of its own in these two. */
static void lock_queue(void *user)
{
    ((struct program *)user)->submissions++;
}

static void unlock_queue(void *user)
{
    (void)user;
}

static bool make_device(struct program *p)
{
    VkQueueFamilyProperties families[16];
    uint32_t count = 1;
    const VkApplicationInfo app = { .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                    .apiVersion = VK_API_VERSION_1_1 };
    const VkInstanceCreateInfo instance = { .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                            .pApplicationInfo = &app };
    if (vkCreateInstance(&instance, NULL, &p->instance) != VK_SUCCESS ||
        vkEnumeratePhysicalDevices(p->instance, &count, &p->physical) < 0 || count == 0)
        return false;
    count = 16;
    vkGetPhysicalDeviceQueueFamilyProperties(p->physical, &count, families);
    while (p->family < count && !(families[p->family].queueFlags & VK_QUEUE_COMPUTE_BIT))
        p->family++;
    const float priority = 1.0f;
    const VkDeviceQueueCreateInfo queue = { .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                            .queueFamilyIndex = p->family,
                                            .queueCount = 1,
                                            .pQueuePriorities = &priority };
    const VkDeviceCreateInfo device = { .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                        .queueCreateInfoCount = 1,
                                        .pQueueCreateInfos = &queue };
    if (p->family == count || vkCreateDevice(p->physical, &device, NULL, &p->device) != VK_SUCCESS)
        return false;
    vkGetDeviceQueue(p->device, p->family, 0, &p->queue);
    return true;
}

/* ---- what it trains with it ---- */

struct model {
    copse_tensor *w1, *b1, *w2, *b2;
};

static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct model *m = user;
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_input(in, "y");
    copse_tensor *h = copse_dense(g, x, m->w1, m->b1, COPSE_RELU);
    copse_tensor *logits = copse_dense(g, h, m->w2, m->b2, COPSE_LINEAR);
    return copse_sparse_cross_entropy(g, logits, y, COPSE_MEAN);
}

static copse_status make_variable(copse_strategy *st, const char *name, copse_shape shape,
                                  copse_tensor **out)
{
    const struct copse_variable_params params = { .name = name, .shape = shape };
    copse_variable *v;
    COPSE_TRY(copse_variable_create(st, &params, &v));
    *out = copse_variable_tensor(v);
    return COPSE_OK;
}

static copse_status print_epoch(void *user, const struct copse_epoch *e, bool *stop)
{
    (void)user, (void)stop;
    printf("epoch %2u  loss %.4f\n", e->epoch, e->training.loss);
    return COPSE_OK;
}

static copse_status run(struct program *p, const char *path)
{
    struct model m;
    /* Nothing but what is lent: no driver is looked for. */
    const struct copse_context_params no_drivers = { .disable = "opencl,vulkan" };
    const struct copse_vulkan_handles lent = { .get_proc_addr = vkGetInstanceProcAddr,
                                               .instance = p->instance,
                                               .api_version = VK_API_VERSION_1_1,
                                               .physical_device = p->physical,
                                               .device = p->device,
                                               .queue_family = p->family,
                                               .queue = p->queue,
                                               .lock_queue = lock_queue,
                                               .unlock_queue = unlock_queue,
                                               .user = p,
                                               .memory_limit = 256u << 20 };
    const struct copse_loader_params batch = { .batch = 64 };
    const struct copse_trainer_params params = { .loss = loss, .user = &m };
    const struct copse_fit_params how = { .epochs = 5, .on_epoch = print_epoch };
    copse_context *ctx = NULL;
    copse_device *dev = NULL;
    copse_dataset *data = NULL;
    copse_loader *batches = NULL;
    copse_strategy *st = NULL;
    copse_trainer *trainer = NULL;
    copse_status s = copse_context_create(&no_drivers, &ctx);
    s = s ? s : copse_vulkan_import(ctx, &lent, &dev);
    const struct copse_device_info *info = copse_device_describe(dev);
    if (info)
        printf("%s is %s\n", info->id, info->name);
    s = s ? s : copse_one_device_create(ctx, info->id, NULL, &st);
    s = s ? s : copse_dataset_open(ctx, path, NULL, &data);
    s = s ? s : copse_loader_create(data, &batch, &batches);
    s = s ? s : make_variable(st, "w1", COPSE_SHAPE(64, 128), &m.w1);
    s = s ? s : make_variable(st, "b1", COPSE_SHAPE(128), &m.b1);
    s = s ? s : make_variable(st, "w2", COPSE_SHAPE(128, 10), &m.w2);
    s = s ? s : make_variable(st, "b2", COPSE_SHAPE(10), &m.b2);
    s = s ? s : copse_trainer_create(st, &params, &trainer);
    s = s ? s : copse_trainer_fit(trainer, batches, &how);
    copse_trainer_release(&trainer);
    copse_device_release(&dev);
    copse_strategy_release(&st);
    copse_loader_release(&batches);
    copse_dataset_release(&data);
    copse_context_release(&ctx);
    return s;
}

int main(int argc, char **argv)
{
    struct program p = { 0 };
    if (!make_device(&p)) {
        fprintf(stderr, "lend_vulkan: no Vulkan device\n");
        return 77;
    }
    const copse_status s = run(&p, argc > 1 ? argv[1] : "examples/data/digits/digits.csv.gz");
    if (s == COPSE_OK)
        printf("%u submissions on a device of mine\n", p.submissions);
    else
        fprintf(stderr, "lend_vulkan: %s\n", copse_last_error());
    vkDestroyDevice(p.device, NULL);
    vkDestroyInstance(p.instance, NULL);
    return s == COPSE_OK ? 0 : 1;
}
