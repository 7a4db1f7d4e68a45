/* SPDX-License-Identifier: MIT */
/* See paint_window.h. No shader: the picture is copied, and the cells of the pattern are cleared in
   a render pass. */
#define VK_USE_PLATFORM_XCB_KHR
#include "paint_window.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xcb/xcb.h>

static const VkFormat format = VK_FORMAT_B8G8R8A8_UNORM;
static const VkImageSubresourceLayers whole = { VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1 };

static bool window_fail(struct window *w, const char *reason)
{
    w->reason = reason;
    return false;
}

/* ---- the device ---- */

static bool make_instance(struct window *w, bool is_shown)
{
    static const char *const extensions[] = { VK_KHR_SURFACE_EXTENSION_NAME,
                                              VK_KHR_XCB_SURFACE_EXTENSION_NAME };
    uint32_t count = 1;
    const VkApplicationInfo app = { .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                    .apiVersion = VK_API_VERSION_1_1 };
    const VkInstanceCreateInfo info = { .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                        .pApplicationInfo = &app,
                                        .ppEnabledExtensionNames = extensions,
                                        .enabledExtensionCount = is_shown ? 2 : 0 };
    if (vkCreateInstance(&info, NULL, &w->instance) != VK_SUCCESS)
        return window_fail(w, is_shown ? "no Vulkan driver shows windows" : "no Vulkan driver");
    return (vkEnumeratePhysicalDevices(w->instance, &count, &w->physical) >= 0 && count > 0) ||
           window_fail(w, "no Vulkan device");
}

static bool make_device(struct window *w)
{
    static const char *const extensions[] = { VK_KHR_SWAPCHAIN_EXTENSION_NAME };
    const VkQueueFlags needed = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
    const float priority = 1.0f;
    VkQueueFamilyProperties families[16];
    uint32_t count = 16;
    vkGetPhysicalDeviceQueueFamilyProperties(w->physical, &count, families);
    while (w->family < count && (families[w->family].queueFlags & needed) != needed)
        w->family++;
    const VkDeviceQueueCreateInfo queue = { .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                            .queueFamilyIndex = w->family,
                                            .queueCount = 1,
                                            .pQueuePriorities = &priority };
    const VkDeviceCreateInfo info = { .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                      .queueCreateInfoCount = 1,
                                      .pQueueCreateInfos = &queue,
                                      .ppEnabledExtensionNames = extensions,
                                      .enabledExtensionCount = w->connection ? 1 : 0 };
    if (w->family == count || vkCreateDevice(w->physical, &info, NULL, &w->device) != VK_SUCCESS)
        return window_fail(w, "no Vulkan device that renders and computes");
    vkGetDeviceQueue(w->device, w->family, 0, &w->queue);
    return true;
}

/* ---- the window ---- */

static bool make_window(struct window *w)
{
    xcb_connection_t *c = xcb_connect(NULL, NULL);
    if (xcb_connection_has_error(c)) {
        xcb_disconnect(c);
        return window_fail(w, "there is no X server; --offscreen renders without one");
    }
    const xcb_screen_t *screen = xcb_setup_roots_iterator(xcb_get_setup(c)).data;
    w->connection = c;
    w->id = xcb_generate_id(c);
    xcb_create_window(c, XCB_COPY_FROM_PARENT, w->id, screen->root, 0, 0, WINDOW_WIDTH, PANEL, 0,
                      XCB_WINDOW_CLASS_INPUT_OUTPUT, screen->root_visual, 0, NULL);
    xcb_map_window(c, w->id);
    xcb_flush(c);
    const VkXcbSurfaceCreateInfoKHR info = { .sType = VK_STRUCTURE_TYPE_XCB_SURFACE_CREATE_INFO_KHR,
                                             .connection = c,
                                             .window = w->id };
    return vkCreateXcbSurfaceKHR(w->instance, &info, NULL, &w->surface) == VK_SUCCESS ||
           window_fail(w, "the driver does not show windows of X");
}

static bool make_swapchain(struct window *w)
{
    VkSurfaceCapabilitiesKHR can;
    VkBool32 shows = VK_FALSE;
    vkGetPhysicalDeviceSurfaceSupportKHR(w->physical, w->family, w->surface, &shows);
    if (!shows ||
        vkGetPhysicalDeviceSurfaceCapabilitiesKHR(w->physical, w->surface, &can) != VK_SUCCESS)
        return window_fail(w, "the device does not show this window");
    const VkSwapchainCreateInfoKHR info = { .sType = VK_STRUCTURE_TYPE_SWAPCHAIN_CREATE_INFO_KHR,
                                            .surface = w->surface,
                                            .minImageCount = can.minImageCount,
                                            .imageFormat = format,
                                            .imageExtent = { WINDOW_WIDTH, PANEL },
                                            .imageArrayLayers = 1,
                                            .imageUsage = VK_IMAGE_USAGE_TRANSFER_DST_BIT,
                                            .preTransform = can.currentTransform,
                                            .compositeAlpha = VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR,
                                            .presentMode = VK_PRESENT_MODE_FIFO_KHR };
    if (vkCreateSwapchainKHR(w->device, &info, NULL, &w->swapchain) != VK_SUCCESS)
        return window_fail(w, "no images for the window");
    vkGetSwapchainImagesKHR(w->device, w->swapchain, &w->shown_count, NULL);
    w->shown = calloc(w->shown_count, sizeof *w->shown);
    return w->shown && vkGetSwapchainImagesKHR(w->device, w->swapchain, &w->shown_count,
                                               w->shown) == VK_SUCCESS;
}

/* ---- what is rendered ---- */

static bool take_memory(struct window *w, const VkMemoryRequirements *needs,
                        VkMemoryPropertyFlags flags, VkDeviceMemory *out)
{
    VkPhysicalDeviceMemoryProperties has;
    uint32_t i = 0;
    vkGetPhysicalDeviceMemoryProperties(w->physical, &has);
    while (i < has.memoryTypeCount && (!(needs->memoryTypeBits >> i & 1) ||
                                       (has.memoryTypes[i].propertyFlags & flags) != flags))
        i++;
    const VkMemoryAllocateInfo info = { .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                        .allocationSize = needs->size,
                                        .memoryTypeIndex = i };
    return (i < has.memoryTypeCount &&
            vkAllocateMemory(w->device, &info, NULL, out) == VK_SUCCESS) ||
           window_fail(w, "no memory on the device");
}

static bool make_block(struct window *w, size_t bytes, VkBufferUsageFlags usage,
                       struct memory_block *out)
{
    VkMemoryRequirements needs;
    const VkBufferCreateInfo info = { .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                      .size = bytes,
                                      .usage = usage };
    if (vkCreateBuffer(w->device, &info, NULL, &out->buffer) != VK_SUCCESS)
        return window_fail(w, "no buffer");
    vkGetBufferMemoryRequirements(w->device, out->buffer, &needs);
    void *bytes_at;
    if (!take_memory(w, &needs,
                     VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
                     &out->memory) ||
        vkBindBufferMemory(w->device, out->buffer, out->memory, 0) != VK_SUCCESS ||
        vkMapMemory(w->device, out->memory, 0, VK_WHOLE_SIZE, 0, &bytes_at) != VK_SUCCESS)
        return window_fail(w, "no memory of the host");
    out->bytes = bytes_at;
    return true;
}

static bool make_image(struct window *w)
{
    VkMemoryRequirements needs;
    const VkImageCreateInfo info = { .sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                                     .imageType = VK_IMAGE_TYPE_2D,
                                     .format = format,
                                     .extent = { WINDOW_WIDTH, PANEL, 1 },
                                     .mipLevels = 1,
                                     .arrayLayers = 1,
                                     .samples = VK_SAMPLE_COUNT_1_BIT,
                                     .usage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT |
                                              VK_IMAGE_USAGE_TRANSFER_SRC_BIT |
                                              VK_IMAGE_USAGE_TRANSFER_DST_BIT };
    if (vkCreateImage(w->device, &info, NULL, &w->image) != VK_SUCCESS)
        return window_fail(w, "no image");
    vkGetImageMemoryRequirements(w->device, w->image, &needs);
    const VkImageViewCreateInfo view = { .sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
                                         .image = w->image,
                                         .viewType = VK_IMAGE_VIEW_TYPE_2D,
                                         .format = format,
                                         .subresourceRange = { VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0,
                                                               1 } };
    return take_memory(w, &needs, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, &w->image_memory) &&
           vkBindImageMemory(w->device, w->image, w->image_memory, 0) == VK_SUCCESS &&
           vkCreateImageView(w->device, &view, NULL, &w->view) == VK_SUCCESS;
}

static bool make_pass(struct window *w)
{
    const VkAttachmentDescription color = { .format = format,
                                            .samples = VK_SAMPLE_COUNT_1_BIT,
                                            .loadOp = VK_ATTACHMENT_LOAD_OP_LOAD,
                                            .storeOp = VK_ATTACHMENT_STORE_OP_STORE,
                                            .initialLayout = VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL,
                                            .finalLayout = VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL };
    const VkAttachmentReference to = { 0, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL };
    const VkSubpassDescription subpass = { .colorAttachmentCount = 1, .pColorAttachments = &to };
    const VkSubpassDependency order[] = {
        { VK_SUBPASS_EXTERNAL, 0, VK_PIPELINE_STAGE_TRANSFER_BIT,
          VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
          VK_ACCESS_COLOR_ATTACHMENT_READ_BIT | VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT, 0 },
        { 0, VK_SUBPASS_EXTERNAL, VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT,
          VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT,
          VK_ACCESS_TRANSFER_READ_BIT, 0 },
    };
    const VkRenderPassCreateInfo pass = { .sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO,
                                          .attachmentCount = 1,
                                          .pAttachments = &color,
                                          .subpassCount = 1,
                                          .pSubpasses = &subpass,
                                          .dependencyCount = 2,
                                          .pDependencies = order };
    if (vkCreateRenderPass(w->device, &pass, NULL, &w->pass) != VK_SUCCESS)
        return window_fail(w, "no render pass");
    const VkFramebufferCreateInfo frame = { .sType = VK_STRUCTURE_TYPE_FRAMEBUFFER_CREATE_INFO,
                                            .renderPass = w->pass,
                                            .attachmentCount = 1,
                                            .pAttachments = &w->view,
                                            .width = WINDOW_WIDTH,
                                            .height = PANEL,
                                            .layers = 1 };
    return vkCreateFramebuffer(w->device, &frame, NULL, &w->frame) == VK_SUCCESS;
}

static bool make_commands(struct window *w)
{
    const VkFenceCreateInfo fence = { .sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO };
    const VkCommandPoolCreateInfo pool = { .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                           .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                           .queueFamilyIndex = w->family };
    if (vkCreateCommandPool(w->device, &pool, NULL, &w->pool) != VK_SUCCESS)
        return window_fail(w, "no command pool");
    const VkCommandBufferAllocateInfo info = { .sType =
                                                   VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                               .commandPool = w->pool,
                                               .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                               .commandBufferCount = 1 };
    return vkAllocateCommandBuffers(w->device, &info, &w->commands) == VK_SUCCESS &&
           vkCreateFence(w->device, &fence, NULL, &w->fence) == VK_SUCCESS;
}

bool window_open(struct window *w, bool is_shown)
{
    *w = (struct window){ .reason = "a call of Vulkan has failed" };
    pthread_mutex_init(&w->lock, NULL);
    return make_instance(w, is_shown) && (!is_shown || make_window(w)) && make_device(w) &&
           (!is_shown || make_swapchain(w)) && make_image(w) && make_pass(w) &&
           make_block(w, 4 * PICTURE_WIDTH * PANEL, VK_BUFFER_USAGE_TRANSFER_SRC_BIT,
                      &w->picture) &&
           make_block(w, 4 * WINDOW_WIDTH * PANEL, VK_BUFFER_USAGE_TRANSFER_DST_BIT, &w->copy) &&
           make_commands(w);
}

void window_close(struct window *w)
{
    if (w->device) {
        vkDeviceWaitIdle(w->device);
        vkDestroyFence(w->device, w->fence, NULL);
        vkDestroyCommandPool(w->device, w->pool, NULL);
        vkDestroyFramebuffer(w->device, w->frame, NULL);
        vkDestroyRenderPass(w->device, w->pass, NULL);
        vkDestroyImageView(w->device, w->view, NULL);
        vkDestroyImage(w->device, w->image, NULL);
        vkFreeMemory(w->device, w->image_memory, NULL);
        vkDestroyBuffer(w->device, w->picture.buffer, NULL);
        vkFreeMemory(w->device, w->picture.memory, NULL);
        vkDestroyBuffer(w->device, w->copy.buffer, NULL);
        vkFreeMemory(w->device, w->copy.memory, NULL);
        if (w->swapchain)
            vkDestroySwapchainKHR(w->device, w->swapchain, NULL);
        vkDestroyDevice(w->device, NULL);
    }
    if (w->surface)
        vkDestroySurfaceKHR(w->instance, w->surface, NULL);
    if (w->instance)
        vkDestroyInstance(w->instance, NULL);
    if (w->connection)
        xcb_disconnect(w->connection);
    free(w->shown);
    pthread_mutex_destroy(&w->lock);
}

/* ---- a frame ---- */

/* Blue, green or red of a cell of the pattern: another color in each frame. */
static uint8_t pattern_of(uint32_t number, uint32_t cell, uint32_t channel)
{
    uint32_t h = number * 2654435761u ^ (cell * 3 + channel) * 2246822519u;
    h ^= h >> 15;
    h *= 3266489917u;
    return (uint8_t)(h >> 24);
}

static void render_pattern(const struct window *w, uint32_t number)
{
    for (uint32_t cell = 0; cell < (PANEL / CELL) * (PANEL / CELL); cell++) {
        const int32_t x = PICTURE_WIDTH + (int32_t)(cell % (PANEL / CELL)) * CELL,
                      y = (int32_t)(cell / (PANEL / CELL)) * CELL;
        const VkClearAttachment color = { .aspectMask = VK_IMAGE_ASPECT_COLOR_BIT,
                                          .clearValue.color.float32 = {
                                              (float)pattern_of(number, cell, 2) / 255.0f,
                                              (float)pattern_of(number, cell, 1) / 255.0f,
                                              (float)pattern_of(number, cell, 0) / 255.0f, 1.0f } };
        const VkClearRect at = { { { x, y }, { CELL, CELL } }, 0, 1 };
        vkCmdClearAttachments(w->commands, 1, &color, 1, &at);
    }
}

static void change_layout(const struct window *w, VkImage image, VkImageLayout from,
                          VkImageLayout to)
{
    const VkImageMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT,
        .oldLayout = from,
        .newLayout = to,
        .srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
        .dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
        .image = image,
        .subresourceRange = { VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1 }
    };
    vkCmdPipelineBarrier(w->commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                         VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 0, NULL, 0, NULL, 1, &barrier);
}

static bool record_frame(struct window *w, uint32_t number, VkImage shown)
{
    const VkCommandBufferBeginInfo once = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO };
    const VkBufferImageCopy picture = { .imageSubresource = whole,
                                        .imageExtent = { PICTURE_WIDTH, PANEL, 1 } };
    const VkBufferImageCopy back = { .imageSubresource = whole,
                                     .imageExtent = { WINDOW_WIDTH, PANEL, 1 } };
    const VkRenderPassBeginInfo pass = { .sType = VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO,
                                         .renderPass = w->pass,
                                         .framebuffer = w->frame,
                                         .renderArea = { { 0, 0 }, { WINDOW_WIDTH, PANEL } } };
    const VkImageCopy show = { .srcSubresource = whole,
                               .dstSubresource = whole,
                               .extent = { WINDOW_WIDTH, PANEL, 1 } };
    if (vkBeginCommandBuffer(w->commands, &once) != VK_SUCCESS)
        return false;
    change_layout(w, w->image, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL);
    vkCmdCopyBufferToImage(w->commands, w->picture.buffer, w->image,
                           VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, 1, &picture);
    vkCmdBeginRenderPass(w->commands, &pass, VK_SUBPASS_CONTENTS_INLINE);
    render_pattern(w, number);
    vkCmdEndRenderPass(w->commands);
    vkCmdCopyImageToBuffer(w->commands, w->image, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL,
                           w->copy.buffer, 1, &back);
    if (shown) {
        change_layout(w, shown, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL);
        vkCmdCopyImage(w->commands, w->image, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, shown,
                       VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, 1, &show);
        change_layout(w, shown, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL,
                      VK_IMAGE_LAYOUT_PRESENT_SRC_KHR);
    }
    return vkEndCommandBuffer(w->commands) == VK_SUCCESS;
}

static bool await_fence(const struct window *w)
{
    return vkWaitForFences(w->device, 1, &w->fence, VK_TRUE, 10000000000u) == VK_SUCCESS &&
           vkResetFences(w->device, 1, &w->fence) == VK_SUCCESS;
}

static size_t count_wrong(const struct window *w, uint32_t number)
{
    size_t wrong = 0;
    for (uint32_t y = 0; y < PANEL; y++)
        for (uint32_t x = 0; x < WINDOW_WIDTH; x++) {
            const uint8_t *is = w->copy.bytes + 4 * (y * WINDOW_WIDTH + x),
                          *from = w->picture.bytes + 4 * (y * PICTURE_WIDTH + x);
            const uint32_t cell = y / CELL * (PANEL / CELL) + (x - PICTURE_WIDTH) / CELL;
            const uint8_t pattern[3] = { pattern_of(number, cell, 0), pattern_of(number, cell, 1),
                                         pattern_of(number, cell, 2) };
            wrong += memcmp(is, x < PICTURE_WIDTH ? from : pattern, 3) != 0;
        }
    return wrong;
}

bool window_frame(struct window *w, const uint8_t *picture, uint32_t number, size_t *wrong)
{
    uint32_t i = 0;
    memcpy(w->picture.bytes, picture, 4 * PICTURE_WIDTH * PANEL);
    if (w->connection) {
        const VkResult r = vkAcquireNextImageKHR(w->device, w->swapchain, UINT64_MAX,
                                                 VK_NULL_HANDLE, w->fence, &i);
        if ((r != VK_SUCCESS && r != VK_SUBOPTIMAL_KHR) || !await_fence(w))
            return window_fail(w, "the window was closed");
    }
    if (!record_frame(w, number, w->connection ? w->shown[i] : VK_NULL_HANDLE))
        return window_fail(w, "a frame could not be recorded");
    const VkSubmitInfo submit = { .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                                  .commandBufferCount = 1,
                                  .pCommandBuffers = &w->commands };
    const VkPresentInfoKHR present = { .sType = VK_STRUCTURE_TYPE_PRESENT_INFO_KHR,
                                       .swapchainCount = 1,
                                       .pSwapchains = &w->swapchain,
                                       .pImageIndices = &i };
    pthread_mutex_lock(&w->lock);
    const VkResult submitted = vkQueueSubmit(w->queue, 1, &submit, w->fence);
    pthread_mutex_unlock(&w->lock);
    if (submitted != VK_SUCCESS || !await_fence(w))
        return window_fail(w, "a frame was not rendered");
    *wrong = count_wrong(w, number);
    if (!w->connection)
        return true;
    pthread_mutex_lock(&w->lock);
    const VkResult presented = vkQueuePresentKHR(w->queue, &present);
    pthread_mutex_unlock(&w->lock);
    return presented == VK_SUCCESS || presented == VK_SUBOPTIMAL_KHR ||
           window_fail(w, "a frame was not shown");
}

/* What the X server shows; else the frame that was rendered. */
bool window_save(struct window *w, const char *path)
{
    const uint8_t *bytes = w->copy.bytes;
    xcb_get_image_reply_t *reply = NULL;
    if (w->connection) {
        reply = xcb_get_image_reply(w->connection,
                                    xcb_get_image(w->connection, XCB_IMAGE_FORMAT_Z_PIXMAP, w->id,
                                                  0, 0, WINDOW_WIDTH, PANEL, UINT32_MAX),
                                    NULL);
        if (!reply || xcb_get_image_data_length(reply) != 4 * WINDOW_WIDTH * PANEL) {
            free(reply);
            return window_fail(w, "the X server gives no picture of the window");
        }
        bytes = xcb_get_image_data(reply);
    }
    FILE *f = fopen(path, "wb");
    bool is_ok = f && fprintf(f, "P6\n%d %d\n255\n", WINDOW_WIDTH, PANEL) > 0;
    for (size_t i = 0; is_ok && i < (size_t)WINDOW_WIDTH * PANEL; i++) {
        const uint8_t rgb[3] = { bytes[4 * i + 2], bytes[4 * i + 1], bytes[4 * i] };
        is_ok = fwrite(rgb, 3, 1, f) == 1;
    }
    is_ok = f && fclose(f) == 0 && is_ok;
    free(reply);
    return is_ok || window_fail(w, "the file of the screenshot cannot be written");
}
