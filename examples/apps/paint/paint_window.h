/* SPDX-License-Identifier: MIT */
/* The window of paint.c: a Vulkan device that renders a picture and, beside it, a test pattern of
   which every pixel is known. It is the part that an application has before it knows Copse. */
#ifndef PAINT_WINDOW_H
#define PAINT_WINDOW_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

enum { PANEL = 128, PICTURE_WIDTH = 2 * PANEL, WINDOW_WIDTH = 3 * PANEL, CELL = 16 };

struct memory_block {
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint8_t *bytes; /* mapped */
};

struct window {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    uint32_t family;
    VkQueue queue;
    pthread_mutex_t lock; /* of the queue: its other user takes it, too */

    void *connection; /* to the X server; NULL: nothing is shown */
    uint32_t id;
    VkSurfaceKHR surface;
    VkSwapchainKHR swapchain;
    VkImage *shown;
    uint32_t shown_count;

    VkImage image; /* what is rendered */
    VkDeviceMemory image_memory;
    VkImageView view;
    VkRenderPass pass;
    VkFramebuffer frame;
    struct memory_block picture, copy; /* to the device, and of the frame, back */
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkFence fence;
    const char *reason; /* why a call has failed */
};

/* `is_shown`: in a window of the X server of DISPLAY. False: `reason` says why. */
bool window_open(struct window *w, bool is_shown);
/* Render and show frame `number` with this picture, [PANEL][PICTURE_WIDTH] of BGRA, and compare all
   pixels of the frame; *wrong: those that are not as they must be. */
bool window_frame(struct window *w, const uint8_t *picture, uint32_t number, size_t *wrong);
/* Write the newest frame as a file of PPM. */
bool window_save(struct window *w, const char *path);
void window_close(struct window *w);

#endif
