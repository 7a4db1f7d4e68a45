/* SPDX-License-Identifier: MIT */
/* offline_radv FAMILY FLOOR MATMUL-FLOOR [GATE]: compiles every kernel for an AMD GPU that is not in
   the machine, on the null device of Mesa's RADV. Fails when one spills, uses scratch memory, or
   leaves room for fewer than FLOOR subgroups on a SIMD. Without that driver it skips.
   With GATE, a file of rows "<Mesa's version> <FAMILY> <kernel>:<constants> <words> <share>", it also
   reads the assembly of the kernels that `gates` names. The main loop of each must have 4 words of
   loads under way, and the loop of a product, a convolution or attention 60 % multiply-adds. One that
   does not has a row with the values that it has, and fails when it has others.
   offline_radv loops: checks the reading of the assembly with texts. */
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/platform.h"
#include "core/device/kernel/kernel.h"
#include "kernel_ids.h"
#include "main_loop.h"
#include "offline_stage.h"

#define SKIP     77
#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* ---- what is compiled ---- */

#define UNARY(...)   +1
#define SCALED(...)  +1
#define BINARY(...)  +1
#define COMPARE(...) +1
enum {
    UNARY_OPS = 0
#include "kernels/elementwise/unary.def"
    ,
    BINARY_OPS = 0
#include "kernels/elementwise/binary.def"
};

/* Specialisations beside all zeros: those the library launches on GPUs where they cost most. */
static const struct {
    enum copse_kernel_id id;
    int ops; /* the first constant runs from its value over so many */
    int32_t spec[COPSE_MAX_SPECS];
} more[] = {
    { COPSE_KERNEL_unary, UNARY_OPS - 1, { 1 } },
    { COPSE_KERNEL_unary_grad, UNARY_OPS - 1, { 1 } },
    { COPSE_KERNEL_binary, BINARY_OPS, { 0, 2, 2, 6 } },
    { COPSE_KERNEL_binary_grad, BINARY_OPS, { 0, 2, 2, 6, 1 } },
    { COPSE_KERNEL_compare_i32, BINARY_OPS, { 0, 2, 2, 6 } },
    { COPSE_KERNEL_copy, 1, { 6, 0 } },
    { COPSE_KERNEL_copy, 1, { 6, 1 } },
    { COPSE_KERNEL_copy_i32, 1, { 6, 0 } },
    { COPSE_KERNEL_copy_i32, 1, { 6, 1 } },
    { COPSE_KERNEL_reduce, 2, { 1 } },
    { COPSE_KERNEL_argmax, 1, { 1 } },
    { COPSE_KERNEL_scan, 1, { 1, 1, 1 } },
    { COPSE_KERNEL_top_k, 1, { 1 } },
    { COPSE_KERNEL_row_stats, 1, { 1 } },
    { COPSE_KERNEL_softmax, 1, { 1 } },
    { COPSE_KERNEL_softmax_grad, 1, { 1 } },
    { COPSE_KERNEL_accumulate, 1, { 32, 0 } },
    { COPSE_KERNEL_tree_sum, 1, { 32, 0, 8 } },
    { COPSE_KERNEL_tree_sum, 1, { 32, 0, 64 } },
    { COPSE_KERNEL_sum_i32, 1, { 32, 0, 64 } },
    { COPSE_KERNEL_mean, 1, { 32, 0, 0 } },
    { COPSE_KERNEL_mean, 1, { 32, 0, 1 } },
    { COPSE_KERNEL_mean, 1, { 32, 0, 0, 1 } },
    { COPSE_KERNEL_dense_grad, 1, { 32, 0, 3 } },
    { COPSE_KERNEL_sgd, 1, { 32, 0, 1 } },
    { COPSE_KERNEL_momentum, 1, { 32, 0, 1, 1 } },
    { COPSE_KERNEL_adam, 1, { 32, 0, 1 } },
    { COPSE_KERNEL_adam, 1, { 32, 0, 2 } },
    { COPSE_KERNEL_adaptive, 1, { 32, 0, 1 } },
    { COPSE_KERNEL_adaptive, 1, { 32, 0, 2, 1, 1, 1 } },
    { COPSE_KERNEL_adaptive, 1, { 32, 0, 3 } },
    { COPSE_KERNEL_trust, 1, { 32, 0, 0 } },
    { COPSE_KERNEL_trust, 1, { 32, 0, 1 } },
    { COPSE_KERNEL_lamb_sum, 1, { 0 } },
    { COPSE_KERNEL_adam8, 1, { 0 } },
    { COPSE_KERNEL_adam8, 1, { 2 } },
    { COPSE_KERNEL_bias_activation, 1, { 1, 3 } },
    { COPSE_KERNEL_matmul, 1, { 1, 0, 0, 0 } },
    { COPSE_KERNEL_matmul, 1, { 1, 3, 0, 0 } },
    { COPSE_KERNEL_matmul, 1, { 0, 0, 0, 1 } },
    { COPSE_KERNEL_matmul, 1, { 0, 0, 1, 0 } },
    { COPSE_KERNEL_matmul, 1, { 1, 3, 1, 1 } },
/* each tile: a dense layer, the gradient of its weights, that of its input, odd rows */
#define TILES(shape)                                               \
    { COPSE_KERNEL_matmul_tile, 1, { 1, 1, 0, 0, shape, 3 } },     \
        { COPSE_KERNEL_matmul_tile, 1, { 0, 0, 1, 0, shape, 3 } }, \
        { COPSE_KERNEL_matmul_tile, 1, { 0, 0, 0, 1, shape, 3 } }, \
        { COPSE_KERNEL_matmul_tile, 1, { 0, 0, 1, 1, shape, 3 } }, \
    {                                                              \
        COPSE_KERNEL_matmul_tile, 1,                               \
        {                                                          \
            1, 1, 0, 0, shape, 0                                   \
        }                                                          \
    }
    TILES(0),
    TILES(1),
    TILES(2),
    TILES(3),
#undef TILES
    { COPSE_KERNEL_matmul_tile, 1, { 1, 3, 0, 0, 1, 0 } },
/* each tile: forward and gradient, with 4 bits and with 8 bits and offsets; odd rows */
#define TILES(shape)                                                  \
    { COPSE_KERNEL_blocks_tile, 1, { 1, 4, 5, 0, 4 + (shape) } },     \
        { COPSE_KERNEL_blocks_tile, 1, { 0, 4, 5, 0, 4 + (shape) } }, \
        { COPSE_KERNEL_blocks_tile, 1, { 1, 8, 5, 1, 4 + (shape) } }, \
        { COPSE_KERNEL_blocks_tile, 1, { 0, 8, 5, 1, 4 + (shape) } }, \
    {                                                                 \
        COPSE_KERNEL_blocks_tile, 1,                                  \
        {                                                             \
            0, 4, 5, 1, shape                                         \
        }                                                             \
    }
    TILES(0),
    TILES(1),
    TILES(2),
    TILES(3),
#undef TILES
/* each tile: a convolution with bias and relu, the gradients of one and of one of stride 2, odd
   channels */
#define TILES(shape)                                             \
    { COPSE_KERNEL_conv_tile, 1, { 1, 1, 0, 0, shape, 3 } },     \
        { COPSE_KERNEL_conv_tile, 1, { 0, 0, 0, 1, shape, 3 } }, \
        { COPSE_KERNEL_conv_tile, 1, { 0, 0, 1, 1, shape, 3 } }, \
    {                                                            \
        COPSE_KERNEL_conv_tile, 1,                               \
        {                                                        \
            1, 1, 0, 0, shape, 0                                 \
        }                                                        \
    }
    TILES(0),
    TILES(1),
    TILES(2),
    TILES(3),
#undef TILES
    { COPSE_KERNEL_conv_tile, 1, { 1, 3, 0, 0, 1, 0 } },
/* each tile: the gradient of the weights, of a transposed convolution, of odd channels */
#define TILES(shape)                                           \
    { COPSE_KERNEL_conv_weight_tile, 1, { 0, shape, 3 } },     \
        { COPSE_KERNEL_conv_weight_tile, 1, { 1, shape, 3 } }, \
    {                                                          \
        COPSE_KERNEL_conv_weight_tile, 1,                      \
        {                                                      \
            0, shape, 2                                        \
        }                                                      \
    }
    TILES(0),
    TILES(1),
    TILES(2),
    TILES(3),
#undef TILES
/* heads of 32, 64 and 128 numbers: causal, and with a mask and lengths */
#define HEADS(kernel, values)                                \
    { COPSE_KERNEL_##kernel, 1, { 1, values 0, 0, 1 } },     \
        { COPSE_KERNEL_##kernel, 1, { 1, values 0, 0, 2 } }, \
    {                                                        \
        COPSE_KERNEL_##kernel, 1,                            \
        {                                                    \
            1, values 1, 2, 2                                \
        }                                                    \
    }
#define COMMA ,
    HEADS(attention_tile, 1 COMMA),
    HEADS(attention_grad_query_tile, ),
    HEADS(attention_grad_key_tile, ),
    { COPSE_KERNEL_attention_tile, 1, { 1, 1, 0, 0, 0 } },
#undef COMMA
#undef HEADS
/* rows of 10, 1000, 4097 and 8192 elements */
#define ROWS_HELD(kernel, ...)                                 \
    { COPSE_KERNEL_##kernel, 1, { __VA_ARGS__ 2, 0, 0 } },     \
        { COPSE_KERNEL_##kernel, 1, { __VA_ARGS__ 6, 3, 1 } }, \
        { COPSE_KERNEL_##kernel, 1, { __VA_ARGS__ 8, 4, 0 } }, \
    {                                                          \
        COPSE_KERNEL_##kernel, 1,                              \
        {                                                      \
            __VA_ARGS__ 8, 7, 1                                \
        }                                                      \
    }
#define COMMA ,
    ROWS_HELD(row_stats_held, ),
    ROWS_HELD(softmax_held, 0 COMMA),
    ROWS_HELD(softmax_held, 1 COMMA),
    ROWS_HELD(softmax_grad_held, 0 COMMA),
    ROWS_HELD(softmax_grad_held, 1 COMMA),
    ROWS_HELD(cross_entropy_grad_held, ),
    ROWS_HELD(layer_norm_held, 0 COMMA 1 COMMA 0 COMMA),
    ROWS_HELD(layer_norm_held, 0 COMMA 1 COMMA 1 COMMA),
    ROWS_HELD(layer_norm_held, 1 COMMA 1 COMMA 0 COMMA),
    ROWS_HELD(layer_norm_held, 2 COMMA 1 COMMA 0 COMMA),
    ROWS_HELD(layer_norm_held, 1 COMMA 0 COMMA 0 COMMA),
    ROWS_HELD(layer_norm_held, 3 COMMA 1 COMMA 1 COMMA),
#undef COMMA
#undef ROWS_HELD
    /* the three products of a dense layer in large tiles; odd rows; small tiles */
    { COPSE_KERNEL_matmul_cooperative, 1, { 1, 1, 0, 0, 0, 7 } },
    { COPSE_KERNEL_matmul_cooperative, 1, { 0, 0, 1, 0, 0, 7 } },
    { COPSE_KERNEL_matmul_cooperative, 1, { 0, 0, 0, 1, 0, 7 } },
    { COPSE_KERNEL_matmul_cooperative, 1, { 1, 3, 0, 0, 0, 4 } },
    { COPSE_KERNEL_matmul_cooperative, 1, { 1, 1, 0, 0, 0, 3 } },
    { COPSE_KERNEL_matmul_cooperative, 1, { 0, 0, 1, 1, 0, 0 } },
    { COPSE_KERNEL_matmul_texel, 1, { 0, 0, 0, 1 } },
    { COPSE_KERNEL_matmul_texel, 1, { 0, 0, 1, 0 } },
    { COPSE_KERNEL_matmul_texel, 1, { 1, 3, 1, 1 } },
    { COPSE_KERNEL_conv_texel, 1, { 1, 3, 1, 3 } },
    { COPSE_KERNEL_conv_weight_texel, 1, { 3 } },
};

/* ---- the null device ---- */

#define API_MAP(X)                                     \
    X(EnumeratePhysicalDevices)                        \
    X(GetPhysicalDeviceProperties)                     \
    X(GetPhysicalDeviceFeatures2)                      \
    X(EnumerateDeviceExtensionProperties)              \
    X(CreateDevice)                                    \
    X(CreateShaderModule)                              \
    X(DestroyShaderModule)                             \
    X(CreateDescriptorSetLayout)                       \
    X(DestroyDescriptorSetLayout)                      \
    X(CreatePipelineLayout)                            \
    X(DestroyPipelineLayout)                           \
    X(CreateComputePipelines)                          \
    X(DestroyPipeline)                                 \
    X(GetPipelineExecutableStatisticsKHR)              \
    X(GetPipelineExecutableInternalRepresentationsKHR) \
    X(DestroyDevice)                                   \
    X(DestroyInstance)

static struct {
#define MEMBER(name) PFN_vk##name name;
    API_MAP(MEMBER)
#undef MEMBER
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    char version[16]; /* Mesa's: "22.3" */
    bool has_units;
} vk;

static int skip(const char *why)
{
    printf("skipped: %s\n", why);
    return SKIP;
}

/* RADV's answer to a family it has not heard of. */
_Noreturn static void on_abort(int signal_number)
{
    static const char why[] = "skipped: this RADV does not know the family\n";
    (void)signal_number;
    _exit(write(STDOUT_FILENO, why, sizeof why - 1) < 0 ? EXIT_FAILURE : SKIP);
}

static bool find_driver(void)
{
    static const char *const folders[] = { "/usr/share", "/usr/local/share", "/etc" };
    bool found = false;
    for (size_t i = 0; i < COUNT(folders) && !found; i++) {
        char pattern[64];
        glob_t paths;
        snprintf(pattern, sizeof pattern, "%s/vulkan/icd.d/radeon_icd*.json", folders[i]);
        found = glob(pattern, 0, NULL, &paths) == 0;
        if (found) {
            setenv("VK_DRIVER_FILES", paths.gl_pathv[0], 1);
            setenv("VK_ICD_FILENAMES", paths.gl_pathv[0], 1); /* the same, for older loaders */
            globfree(&paths);
        }
    }
    return found;
}

static bool has_extension(const char *name)
{
    VkExtensionProperties list[512];
    uint32_t count = COUNT(list);
    vk.EnumerateDeviceExtensionProperties(vk.physical, NULL, &count, list);
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(list[i].extensionName, name))
            return true;
    return false;
}

static int open_device(const char *family)
{
    static const char *const libraries[] = { "libvulkan.so.1", "libvulkan.so", NULL };
    static const char *const extensions[] = { VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME,
                                              COPSE_VK_COOPERATIVE_MATRIX };
    if (!find_driver())
        return skip("no radeon_icd*.json: install the Debian package mesa-vulkan-drivers");
    setenv("RADV_FORCE_FAMILY", family, 1);
    setenv("MESA_SHADER_CACHE_DISABLE", "true", 1);
    void *library = copse__library_open(libraries);
    void *symbol = library ? copse__library_symbol(library, "vkGetInstanceProcAddr") : NULL;
    if (!symbol)
        return skip("no Vulkan loader");
    PFN_vkGetInstanceProcAddr get;
    memcpy(&get, &symbol, sizeof get);

    const VkApplicationInfo app = { .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                    .apiVersion = VK_API_VERSION_1_3 };
    const VkInstanceCreateInfo instance = { .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                            .pApplicationInfo = &app };
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)get(NULL, "vkCreateInstance");
    if (!create || create(&instance, NULL, &vk.instance) != VK_SUCCESS)
        return skip("the Vulkan loader finds no driver");
#define LOAD(name) vk.name = (PFN_vk##name)get(vk.instance, "vk" #name);
    API_MAP(LOAD)
#undef LOAD
    uint32_t count = 1;
    VkPhysicalDeviceProperties about;
    signal(SIGABRT, on_abort);
    if (vk.EnumeratePhysicalDevices(vk.instance, &count, &vk.physical) < 0 || count == 0)
        return skip("RADV shows no null device");
    signal(SIGABRT, SIG_DFL);
    vk.GetPhysicalDeviceProperties(vk.physical, &about);
    if (!has_extension(extensions[0]) || !vk.GetPipelineExecutableStatisticsKHR)
        return skip("the driver has no VK_KHR_pipeline_executable_properties");
    snprintf(vk.version, sizeof vk.version, "%u.%u", VK_VERSION_MAJOR(about.driverVersion),
             VK_VERSION_MINOR(about.driverVersion));
    printf("%s, Mesa %s\n", about.deviceName, vk.version);

    const float priority = 1.0f;
    const VkDeviceQueueCreateInfo queue = { .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                            .queueCount = 1,
                                            .pQueuePriorities = &priority };
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
        .pipelineExecutableInfo = VK_TRUE,
    };
    struct copse_vk_cooperative_features units;
    offline_units_chain(&units);
    vk.has_units = has_extension(COPSE_VK_COOPERATIVE_MATRIX);
    if (vk.has_units)
        properties.pNext = &units;
    const VkDeviceCreateInfo device = { .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                        .pNext = &properties,
                                        .queueCreateInfoCount = 1,
                                        .pQueueCreateInfos = &queue,
                                        .enabledExtensionCount = 1u + vk.has_units,
                                        .ppEnabledExtensionNames = extensions };
    if (vk.CreateDevice(vk.physical, &device, NULL, &vk.device) != VK_SUCCESS) {
        printf("FAILED: vkCreateDevice on the null device\n");
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

/* ---- the gate ---- */

/* Kernels of default paths on GPUs whose loops are judged; the kernels of the first line also by their
   share of multiply-adds. */
static const struct {
    enum copse_kernel_id id;
    bool multiplies;
} gates[] = {
    { COPSE_KERNEL_matmul, true },
    { COPSE_KERNEL_matmul_half, true },
    { COPSE_KERNEL_matmul_tile, true },
    { COPSE_KERNEL_blocks_tile, true },
    { COPSE_KERNEL_conv, true },
    { COPSE_KERNEL_conv_tile, true },
    { COPSE_KERNEL_conv_weight, true },
    { COPSE_KERNEL_conv_weight_tile, true },
    { COPSE_KERNEL_attention, true },
    { COPSE_KERNEL_attention_grad_query, true },
    { COPSE_KERNEL_attention_grad_key, true },
    { COPSE_KERNEL_attention_tile, true },
    { COPSE_KERNEL_attention_grad_query_tile, true },
    { COPSE_KERNEL_attention_grad_key_tile, true },
    { COPSE_KERNEL_reduce, false },
    { COPSE_KERNEL_row_stats, false },
    { COPSE_KERNEL_softmax_grad, false },
    { COPSE_KERNEL_softmax_groups, false },
    { COPSE_KERNEL_softmax_groups_grad, false },
    { COPSE_KERNEL_layer_norm, false },
    { COPSE_KERNEL_channel_sums, false },
    { COPSE_KERNEL_channel_merge, false },
    { COPSE_KERNEL_row_stats_held, false },
    { COPSE_KERNEL_softmax_held, false },
    { COPSE_KERNEL_softmax_grad_held, false },
    { COPSE_KERNEL_cross_entropy_grad_held, false },
    { COPSE_KERNEL_layer_norm_held, false },
};

enum { WORDS_WANTED = 4, SHARE_WANTED = 60 };

static struct {
    const char *family;
    char *rows; /* the file's text; NULL = no gate */
    unsigned used;
} gate;

/* Whether the file has rows of this driver and family. */
static bool read_gate(const char *path)
{
    char key[64];
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    const size_t room = (size_t)1 << 16;
    gate.rows = calloc(1, room);
    if (gate.rows && fread(gate.rows, 1, room - 1, f) == 0)
        gate.rows[0] = '\0';
    fclose(f);
    snprintf(key, sizeof key, "\n%s %s ", vk.version, gate.family);
    if (!gate.rows || !strstr(gate.rows, key)) {
        printf("gate: skipped: %s has no rows of Mesa %s and %s; the figures are printed only\n",
               path, vk.version, gate.family);
        free(gate.rows);
        gate.rows = NULL;
    }
    return true;
}

/* The row of a kernel; false: none. */
static bool find_row(const char *kernel, unsigned *words, unsigned *share)
{
    char key[128];
    snprintf(key, sizeof key, "\n%s %s %s ", vk.version, gate.family, kernel);
    const char *row = strstr(gate.rows, key);
    gate.used += row != NULL;
    return row && sscanf(row + strlen(key), "%u %u", words, share) == 2;
}

/* Whether each row of this driver and family is the row of a kernel. */
static bool all_rows_are_used(void)
{
    char key[64];
    unsigned count = 0;
    snprintf(key, sizeof key, "\n%s %s ", vk.version, gate.family);
    for (const char *at = gate.rows; at && (at = strstr(at, key)); at++)
        count++;
    if (gate.rows && count != gate.used)
        printf("FAILED: %u rows of the gate are of kernels that are not judged\n",
               count - gate.used);
    return !gate.rows || count == gate.used;
}

static char *read_assembly(VkPipeline pipeline)
{
    const VkPipelineExecutableInfoKHR which = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
        .pipeline = pipeline,
    };
    VkPipelineExecutableInternalRepresentationKHR list[16] = { 0 };
    uint32_t count = COUNT(list);
    for (uint32_t i = 0; i < count; i++)
        list[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR;
    if (vk.GetPipelineExecutableInternalRepresentationsKHR(vk.device, &which, &count, list) < 0)
        return NULL;
    char *text = NULL;
    for (uint32_t i = 0; i < count && !text; i++)
        if (strcmp(list[i].name, "Assembly") == 0 && list[i].isText)
            list[i].pData = text = calloc(1, list[i].dataSize + 1);
    if (text &&
        vk.GetPipelineExecutableInternalRepresentationsKHR(vk.device, &which, &count, list) < 0)
        text[0] = '\0';
    return text;
}

/* What the main loop of a kernel lacks, or NULL. Writes the columns of the table to `columns`. */
static const char *judge_loop(enum copse_kernel_id id, const char *name, VkPipeline pipeline,
                              char *columns, size_t size)
{
    size_t which = 0;
    unsigned words, share;
    struct main_loop loop;
    while (which < COUNT(gates) && gates[which].id != id)
        which++;
    if (which == COUNT(gates) || !gate.family)
        return NULL;
    const bool multiplies = gates[which].multiplies;
    char *assembly = read_assembly(pipeline);
    if (!assembly || !*assembly) {
        free(assembly);
        return "the driver gives no assembly";
    }
    find_main_loop(assembly, multiplies, &loop);
    free(assembly);
    const unsigned has = multiplies ? fused_share(&loop) : SHARE_WANTED;
    char kernel[64], want[96];
    snprintf(kernel, sizeof kernel, "%s", name);
    for (char *c = kernel; *c; c++)
        *c = *c == ' ' ? ':' : *c;
    snprintf(columns, size, multiplies ? " %5u %4u %%" : " %5u", loop.words, has);
    if (!gate.rows)
        return NULL;
    const bool passes = loop.words >= WORDS_WANTED && has >= SHARE_WANTED;
    const bool is_row = find_row(kernel, &words, &share);
    if (passes == !is_row && (passes || (words == loop.words && share == has)))
        return NULL;
    snprintf(want, sizeof want, "%s %s %s %u %u", vk.version, gate.family, kernel, loop.words, has);
    if (passes)
        printf("    passes the gate: delete its row of the file\n");
    else if (!is_row)
        printf("    does not pass the gate, and has no row of the file: %s\n", want);
    else
        printf("    its row of the file has %u %u, now: %s\n", words, share, want);
    return passes || (is_row && loop.words >= words && has >= share) ? "better than its row"
                                                                     : "worse than the gate allows";
}

/* ---- one kernel ---- */

enum { SGPRS, VGPRS, SPILLED_SGPRS, SPILLED_VGPRS, LDS, SCRATCH, SUBGROUPS, FIGURES };
static const char *const figure_names[FIGURES] = {
    "SGPRs",    "VGPRs",        "Spilled SGPRs",     "Spilled VGPRs",
    "LDS size", "Scratch size", "Subgroups per SIMD"
};

/* What keeps the figures from being there, or NULL. */
static const char *read_figures(VkPipeline pipeline, uint64_t figures[FIGURES])
{
    const VkPipelineExecutableInfoKHR which = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
        .pipeline = pipeline,
    };
    VkPipelineExecutableStatisticKHR list[64] = { 0 };
    uint32_t count = COUNT(list);
    for (uint32_t i = 0; i < count; i++)
        list[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    if (vk.GetPipelineExecutableStatisticsKHR(vk.device, &which, &count, list) < 0)
        return "no statistics";
    for (int f = 0; f < FIGURES; f++) {
        uint32_t i = 0;
        while (i < count && strcmp(list[i].name, figure_names[f]))
            i++;
        if (i == count)
            return figure_names[f];
        figures[f] = list[i].value.u64;
    }
    return NULL;
}

static VkResult make_pipeline(const struct copse_kernel_row *row, const int32_t *spec,
                              VkPipelineLayout layout, VkPipeline *pipeline)
{
    struct offline_stage from;
    offline_stage_make(row, spec, &from);
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .flags = VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR |
                 (gate.family ? VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR : 0u),
        .stage = from.stage,
        .layout = layout,
    };
    VkResult r = vk.CreateShaderModule(vk.device, &from.code, NULL, &info.stage.module);
    if (r == VK_SUCCESS) {
        r = vk.CreateComputePipelines(vk.device, VK_NULL_HANDLE, 1, &info, NULL, pipeline);
        vk.DestroyShaderModule(vk.device, info.stage.module, NULL);
    }
    offline_stage_free(&from);
    return r;
}

/* Kernels that read texels are for drivers on CPUs, and chosen nowhere else: they are only compiled
   here. */
static bool is_for_cpus(const struct copse_kernel_row *row)
{
    for (int i = 0; i < row->arg_count; i++)
        if (row->args[i].kind == COPSE_ARG_TEXEL)
            return true;
    return false;
}

/* Whether the kernel compiles, stays within what it may use, and passes the gate. */
static bool check(enum copse_kernel_id id, const int32_t *spec, uint64_t floor)
{
    const struct copse_kernel_row *row = &copse_kernel_table[id];
    if (row->is_cooperative && !vk.has_units) {
        printf("%-30s left out: this Mesa has no VK_KHR_cooperative_matrix for it\n", row->name);
        return true;
    }
    VkDescriptorSetLayoutBinding bindings[COPSE_MAX_BINDINGS];
    for (uint32_t i = 0; i < row->arg_count; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){
            .binding = i,
            .descriptorType = row->args[i].kind == COPSE_ARG_TEXEL
                                  ? VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER
                                  : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .descriptorCount = 1,
            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        };
    const VkDescriptorSetLayoutCreateInfo set_info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = row->arg_count,
        .pBindings = bindings,
    };
    VkDescriptorSetLayout set = VK_NULL_HANDLE;
    const VkPushConstantRange params = { VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                         (row->param_words + 1u) * 4 };
    const VkPipelineLayoutCreateInfo layout_info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &set,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &params,
    };
    VkPipelineLayout layout = VK_NULL_HANDLE;
    VkPipeline pipeline = VK_NULL_HANDLE;
    VkResult r = vk.CreateDescriptorSetLayout(vk.device, &set_info, NULL, &set);
    if (r == VK_SUCCESS)
        r = vk.CreatePipelineLayout(vk.device, &layout_info, NULL, &layout);
    if (r == VK_SUCCESS)
        r = make_pipeline(row, spec, layout, &pipeline);

    char name[64];
    int at = snprintf(name, sizeof name, "%s", row->name);
    for (int i = 0; i < row->spec_count; i++)
        at += snprintf(name + at, sizeof name - (size_t)at, "%c%d", i ? ',' : ' ', (int)spec[i]);
    uint64_t f[FIGURES] = { 0 };
    const char *missing = r == VK_SUCCESS ? read_figures(pipeline, f) : NULL;
    char columns[32] = "";
    const char *fault = "", *note = "", *lacks = NULL;
    if (r != VK_SUCCESS)
        fault = "  FAILED: does not compile";
    else if (missing)
        fault = "  FAILED: figures are missing";
    else if (is_for_cpus(row))
        note = "  for drivers on CPUs: only compiled";
    else if (f[SPILLED_SGPRS] || f[SPILLED_VGPRS])
        fault = "  FAILED: spills registers";
    else if (f[SCRATCH])
        fault = "  FAILED: uses scratch memory";
    else if (f[SUBGROUPS] < floor)
        fault = "  FAILED: too few subgroups at once";
    if (r == VK_SUCCESS)
        lacks = judge_loop(id, name, pipeline, columns, sizeof columns);
    printf("%-30s %5d %5d %7d %6d %7d %9d%s%s%s%s%s\n", name, (int)f[SGPRS], (int)f[VGPRS],
           (int)(f[SPILLED_SGPRS] + f[SPILLED_VGPRS]), (int)f[LDS], (int)f[SCRATCH],
           (int)f[SUBGROUPS], columns, note, fault, lacks ? "  FAILED: " : "", lacks ? lacks : "");
    if (missing)
        printf("    the driver does not say: %s\n", missing);
    vk.DestroyPipeline(vk.device, pipeline, NULL);
    vk.DestroyPipelineLayout(vk.device, layout, NULL);
    vk.DestroyDescriptorSetLayout(vk.device, set, NULL);
    return !*fault && !lacks;
}

/* The floor of most kernels, and the floors of kernels whose groups keep more: matmul, matmul_half, matmul_blocks
   and, most of all, the tiles of products in registers, as those that hold rows, whose loads are all under way at once;
   attention a tile of scores of each invocation in group memory (2, and 1 in attention_grad_key, of 10 were
   measured; 8 and 4 of 32). */
static uint64_t floor_of(size_t id, char **argv)
{
    switch (id) {
    case COPSE_KERNEL_matmul:
    case COPSE_KERNEL_matmul_half:
    case COPSE_KERNEL_matmul_blocks:
        return strtoul(argv[3], NULL, 10);
    case COPSE_KERNEL_matmul_tile:
    case COPSE_KERNEL_blocks_tile:
    case COPSE_KERNEL_conv_tile:
    case COPSE_KERNEL_conv_weight_tile:
    case COPSE_KERNEL_attention_tile:
    case COPSE_KERNEL_attention_grad_query_tile:
    case COPSE_KERNEL_attention_grad_key_tile:
    case COPSE_KERNEL_row_stats_held:
    case COPSE_KERNEL_softmax_held:
    case COPSE_KERNEL_softmax_grad_held:
    case COPSE_KERNEL_cross_entropy_grad_held:
    case COPSE_KERNEL_layer_norm_held:
        return strtoul(argv[3], NULL, 10) / 2;
    case COPSE_KERNEL_attention:
    case COPSE_KERNEL_attention_grad_query:
    case COPSE_KERNEL_attention_grad_key:
    case COPSE_KERNEL_matmul_cooperative: /* 6 measured */
        return strtoul(argv[3], NULL, 10) / 4;
    default:
        return strtoul(argv[2], NULL, 10);
    }
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "loops") == 0)
        return main_loop_is_found() ? EXIT_SUCCESS : EXIT_FAILURE;
    if (argc != 4 && argc != 5) {
        printf("usage: offline_radv FAMILY FLOOR MATMUL-FLOOR [GATE] | loops\n");
        return 2;
    }
    const int status = open_device(argv[1]);
    if (status != EXIT_SUCCESS)
        return status;
    if (argc == 5) {
        gate.family = argv[1];
        if (!read_gate(argv[4])) {
            printf("FAILED: cannot read %s\n", argv[4]);
            return EXIT_FAILURE;
        }
    }
    printf("%-30s %5s %5s %7s %6s %7s %9s%s\n", "kernel and its constants", "SGPRs", "VGPRs",
           "spilled", "LDS", "scratch", "subgroups", gate.family ? " words share" : "");
    int failed = 0, done = 0;
    for (size_t id = 0; id < copse_kernel_count; id++) {
        const struct copse_kernel_row *row = &copse_kernel_table[id];
        const uint64_t floor = floor_of(id, argv);
        int32_t spec[COPSE_MAX_SPECS] = { 0 };
        if (!row->spirv)
            continue;
        failed += !check((enum copse_kernel_id)id, spec, floor);
        done++;
        for (size_t i = 0; i < COUNT(more); i++)
            for (int op = 0; more[i].id == id && op < more[i].ops; op++) {
                memcpy(spec, more[i].spec, sizeof spec);
                spec[0] += op;
                failed += !check((enum copse_kernel_id)id, spec, floor);
                done++;
            }
    }
    failed += !all_rows_are_used();
    printf("%d compiled, %d failed\n", done, failed);
    free(gate.rows);
    vk.DestroyDevice(vk.device, NULL);
    vk.DestroyInstance(vk.instance, NULL);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
