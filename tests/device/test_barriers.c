/* SPDX-License-Identifier: MIT */
/* The barriers that the Vulkan backend derives from recorded commands, in the recorded list itself:
   drivers of CPUs execute launches in order with and without them. */
#include "tests/rig/rig.h"

#if defined(COPSE_HAVE_VULKAN)
#    include "backends/vulkan/vk_internal.h"
#    include "core/device/device.h"

enum { COMMANDS = 400, BUFFERS = 3, WORDS = 64 };

static struct {
    uint32_t commands, barriers;
    uint32_t before[COMMANDS]; /* barriers that stand before a command */
    VkMemoryBarrier last;
    VkPipelineStageFlags from, to;
} list;

static void note_command(void)
{
    assert_true(list.commands < COMMANDS);
    list.before[list.commands++] = list.barriers;
}

static VKAPI_ATTR void VKAPI_CALL barrier(VkCommandBuffer b, VkPipelineStageFlags from,
                                          VkPipelineStageFlags to, VkDependencyFlags flags,
                                          uint32_t memory_count, const VkMemoryBarrier *memory,
                                          uint32_t buffer_count,
                                          const VkBufferMemoryBarrier *buffers,
                                          uint32_t image_count, const VkImageMemoryBarrier *images)
{
    (void)b, (void)flags, (void)buffers, (void)images;
    assert_true(memory_count == 1 && buffer_count == 0 && image_count == 0);
    list.last = *memory;
    list.from = from;
    list.to = to;
    list.barriers++;
}

static VKAPI_ATTR VkResult VKAPI_CALL begin(VkCommandBuffer b, const VkCommandBufferBeginInfo *info)
{
    (void)b, (void)info;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL copy(VkCommandBuffer b, VkBuffer from, VkBuffer to,
                                       uint32_t count, const VkBufferCopy *regions)
{
    (void)b, (void)from, (void)to, (void)count, (void)regions;
    note_command();
}

static VKAPI_ATTR void VKAPI_CALL fill(VkCommandBuffer b, VkBuffer to, VkDeviceSize at,
                                       VkDeviceSize size, uint32_t word)
{
    (void)b, (void)to, (void)at, (void)size, (void)word;
    note_command();
}

static VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer b, uint32_t x, uint32_t y, uint32_t z)
{
    (void)b, (void)x, (void)y, (void)z;
    note_command();
}

static VKAPI_ATTR void VKAPI_CALL bind_pipeline(VkCommandBuffer b, VkPipelineBindPoint point,
                                                VkPipeline pipeline)
{
    (void)b, (void)point, (void)pipeline;
}

static VKAPI_ATTR void VKAPI_CALL bind_sets(VkCommandBuffer b, VkPipelineBindPoint point,
                                            VkPipelineLayout layout, uint32_t first, uint32_t count,
                                            const VkDescriptorSet *sets, uint32_t offset_count,
                                            const uint32_t *offsets)
{
    (void)b, (void)point, (void)layout, (void)first, (void)count, (void)sets, (void)offset_count,
        (void)offsets;
}

static VKAPI_ATTR void VKAPI_CALL push(VkCommandBuffer b, VkPipelineLayout layout,
                                       VkShaderStageFlags stages, uint32_t at, uint32_t size,
                                       const void *values)
{
    (void)b, (void)layout, (void)stages, (void)at, (void)size, (void)values;
}

static VKAPI_ATTR void VKAPI_CALL update(VkDevice device, uint32_t count,
                                         const VkWriteDescriptorSet *writes, uint32_t copies,
                                         const VkCopyDescriptorSet *from)
{
    (void)device, (void)count, (void)writes, (void)copies, (void)from;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_pool(VkDevice device,
                                                  const VkDescriptorPoolCreateInfo *info,
                                                  const VkAllocationCallbacks *calls,
                                                  VkDescriptorPool *out)
{
    (void)device, (void)info, (void)calls;
    *out = VK_NULL_HANDLE;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_pool(VkDevice device, VkDescriptorPool pool,
                                               const VkAllocationCallbacks *calls)
{
    (void)device, (void)pool, (void)calls;
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device,
                                               const VkDescriptorSetAllocateInfo *info,
                                               VkDescriptorSet *out)
{
    (void)device, (void)info;
    *out = VK_NULL_HANDLE;
    return VK_SUCCESS;
}

struct work {
    struct copse_base base;
    struct vk_device vd;
    struct vk_lane lane;
    struct vk_sets sets;
    struct vk_recorder recorder;
    struct vk_kernel vk;
    struct copse_kernel kernel;
    struct vk_buffer vb[BUFFERS];
    copse_buffer buffers[BUFFERS];
    char handles[BUFFERS];
};

static void *resize(void *user, void *block, size_t size)
{
    (void)user;
    if (size > 0)
        return realloc(block, size);
    free(block);
    return NULL;
}

static void begin_work(struct work *w, bool has_kernels)
{
    memset(w, 0, sizeof *w);
    w->base.mem.resize = resize;
    memset(&list, 0, sizeof list);
    w->vd = (struct vk_device){ .base = &w->base,
                                .vk = { .CmdPipelineBarrier = barrier,
                                        .BeginCommandBuffer = begin,
                                        .CmdCopyBuffer = copy,
                                        .CmdFillBuffer = fill,
                                        .CmdDispatch = dispatch,
                                        .CmdBindPipeline = bind_pipeline,
                                        .CmdBindDescriptorSets = bind_sets,
                                        .CmdPushConstants = push,
                                        .UpdateDescriptorSets = update,
                                        .CreateDescriptorPool = create_pool,
                                        .DestroyDescriptorPool = destroy_pool,
                                        .AllocateDescriptorSets = allocate } };
    copse_vk_lane_uses(&w->lane, has_kernels);
    w->recorder = (struct vk_recorder){ .vd = &w->vd, .lane = &w->lane, .sets = &w->sets };
    w->kernel = (struct copse_kernel){ .row = copse__row(COPSE_KERNEL_unary), .priv = &w->vk };
    w->vk.storage_count = w->kernel.row->arg_count;
    for (int i = 0; i < BUFFERS; i++) {
        void *handle = &w->handles[i];
        memcpy(&w->vb[i].handle, &handle, sizeof handle);
        w->buffers[i] = (copse_buffer){ .size = 4 * WORDS, .priv = &w->vb[i] };
    }
    OK(copse_vk_record_begin(&w->recorder, 0));
}

static struct copse_binding binding(struct work *w, size_t buffer, size_t word, size_t words)
{
    return (struct copse_binding){ &w->buffers[buffer], 4 * word, 4 * words };
}

static uint32_t any(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

static struct copse_binding any_binding(struct work *w, uint32_t *seed)
{
    const uint32_t word = any(seed, WORDS), most = COPSE_MIN(WORDS - word, 12);
    const uint32_t words = 1 + any(seed, most);
    return binding(w, any(seed, BUFFERS), word, words);
}

static struct copse_command command(struct work *w, enum copse_command_kind kind,
                                    struct copse_binding a, struct copse_binding b)
{
    return (struct copse_command){
        .kind = kind,
        .kernel = kind == COPSE_COMMAND_DISPATCH ? &w->kernel : NULL,
        .bindings = { a, b },
        .binding_count = kind == COPSE_COMMAND_FILL ? 1 : 2,
        .groups_x = 1,
        .groups_y = 1,
    };
}

static bool writes(const struct copse_command *c, uint32_t i)
{
    return i + 1 == c->binding_count; /* the last one, of all kinds here */
}

static bool depend(const struct copse_command *a, const struct copse_command *b)
{
    for (uint32_t i = 0; i < a->binding_count; i++)
        for (uint32_t k = 0; k < b->binding_count; k++) {
            const struct copse_binding *x = &a->bindings[i], *y = &b->bindings[k];
            if ((writes(a, i) || writes(b, k)) && x->buffer == y->buffer &&
                x->offset < y->offset + y->size && y->offset < x->offset + x->size)
                return true;
        }
    return false;
}

/* Between any two commands that depend on each other is a barrier, and before each barrier is a
   command that the next one depends on. */
static void check_list(const struct copse_command *commands, uint32_t count)
{
    for (uint32_t j = 0; j < count; j++) {
        bool needs = false;
        for (uint32_t i = 0; i < j; i++) {
            if (depend(&commands[i], &commands[j]) && list.before[i] == list.before[j])
                fail_msg("no barrier between command %u and %u", (unsigned)i, (unsigned)j);
            needs = needs ||
                    (list.before[i] + 1 == list.before[j] && depend(&commands[i], &commands[j]));
        }
        if (j > 0 && list.before[j] > list.before[j - 1] && !needs)
            fail_msg("a barrier before command %u for nothing", (unsigned)j);
    }
}

static void barriers_are_where_commands_depend(void **unused)
{
    static const enum copse_command_kind kinds[] = { COPSE_COMMAND_DISPATCH, COPSE_COMMAND_COPY,
                                                     COPSE_COMMAND_FILL };
    static struct copse_command commands[COMMANDS];
    (void)unused;
    for (uint32_t seed = 0; seed < 40; seed++) {
        static struct work w;
        uint32_t random = seed;
        begin_work(&w, true);
        assert_int_equal(list.barriers, 1); /* after earlier submissions */
        for (uint32_t i = 0; i < COMMANDS; i++) {
            const enum copse_command_kind kind = kinds[any(&random, 3)];
            struct copse_binding a = any_binding(&w, &random), b = any_binding(&w, &random);
            commands[i] = command(&w, kind, a, b);
            OK(copse_vk_record(&w.recorder, &commands[i]));
        }
        check_list(commands, COMMANDS);
        assert_true(list.barriers < COMMANDS);
        copse_vk_sets_fini(&w.vd, &w.sets);
    }
}

static void each_hazard_has_its_barrier(void **unused)
{
    static const struct {
        size_t first[2], second[2]; /* word of the buffer that is read, and written */
        uint32_t barriers;
    } cases[] = {
        { { 0, 8 }, { 8, 16 }, 1 },  /* read after write */
        { { 0, 8 }, { 16, 0 }, 1 },  /* write after read */
        { { 0, 8 }, { 16, 8 }, 1 },  /* write after write */
        { { 0, 8 }, { 0, 16 }, 0 },  /* two reads */
        { { 0, 8 }, { 12, 16 }, 0 }, /* next to each other: 4 words each */
        { { 0, 8 }, { 11, 16 }, 1 }, /* one word in both */
        { { 0, 8 }, { 5, 16 }, 1 },
    };
    (void)unused;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        static struct work w;
        begin_work(&w, true);
        for (int k = 0; k < 2; k++) {
            const size_t *at = k ? cases[i].second : cases[i].first;
            const struct copse_command c = command(
                &w, COPSE_COMMAND_DISPATCH, binding(&w, 0, at[0], 4), binding(&w, 0, at[1], 4));
            OK(copse_vk_record(&w.recorder, &c));
        }
        if (list.barriers != 1 + cases[i].barriers)
            fail_msg("case %zu: %u barriers", i, (unsigned)list.barriers - 1);
        copse_vk_sets_fini(&w.vd, &w.sets);
    }
}

/* Stages and accesses are those of the lane: a copy engine has no kernels. */
static void barriers_name_what_the_lane_does(void **unused)
{
    static struct work w;
    const VkAccessFlags kernels = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT,
                        transfers = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    (void)unused;
    for (int has_kernels = 0; has_kernels < 2; has_kernels++) {
        begin_work(&w, has_kernels);
        assert_true(list.from == list.to);
        assert_true(!(list.from & VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT) == !has_kernels);
        assert_true(list.from & VK_PIPELINE_STAGE_TRANSFER_BIT);
        assert_int_equal(list.last.dstAccessMask, has_kernels ? kernels | transfers : transfers);
        assert_int_equal(list.last.srcAccessMask, (has_kernels ? VK_ACCESS_SHADER_WRITE_BIT : 0) |
                                                      VK_ACCESS_TRANSFER_WRITE_BIT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(barriers_are_where_commands_depend),
        cmocka_unit_test(each_hazard_has_its_barrier),
        cmocka_unit_test(barriers_name_what_the_lane_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    puts("skipped: the Vulkan backend is not built");
    return 77;
}
#endif
