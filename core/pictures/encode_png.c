/* SPDX-License-Identifier: MIT */
/* Pixels as PNG, through libpng. */
#if defined(COPSE_HAVE_PICTURES)
#    include <png.h>
#endif

#include "core/pictures/picture.h"

#if defined(COPSE_HAVE_PICTURES)
static copse_status encode_png_encode(struct copse_mem *mem, const uint8_t *pixels, uint32_t height,
                                      uint32_t width, uint32_t channels, uint8_t **out,
                                      size_t *size)
{
    png_image image = { .version = PNG_IMAGE_VERSION,
                        .width = width,
                        .height = height,
                        .format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB };
    png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
    COPSE_TRY(copse_need_memory(*out = copse__alloc(mem, bytes, 1), "picture: %u x %u pixels",
                                width, height));
    if (png_image_write_to_memory(&image, *out, &bytes, 0, pixels, 0, NULL)) {
        *size = bytes;
        return COPSE_OK;
    }
    copse__free(mem, *out);
    *out = NULL;
    return copse_fail(COPSE_ERR_NO_MEMORY, "picture: %u x %u pixels: libpng: %s", width, height,
                      image.message);
}
#else
static copse_status encode_png_encode(struct copse_mem *mem, const uint8_t *pixels, uint32_t height,
                                      uint32_t width, uint32_t channels, uint8_t **out,
                                      size_t *size)
{
    (void)mem, (void)pixels, (void)height, (void)width, (void)channels, (void)out, (void)size;
    return copse_fail(COPSE_ERR_UNSUPPORTED,
                      "picture: this library was built without libpng: it writes no pictures");
}
#endif

copse_status copse__png_encode(struct copse_mem *mem, const uint8_t *pixels, uint32_t height,
                               uint32_t width, uint32_t channels, uint8_t **out, size_t *size)
{
    *out = NULL;
    *size = 0;
    if (channels != 1 && channels != 3)
        return copse_fail(COPSE_ERR_ARGUMENT, "picture: %u channels: expected 1 or 3", channels);
    if (width < 1 || height < 1 || width > COPSE_PICTURE_SIDE_MAX ||
        height > COPSE_PICTURE_SIDE_MAX || (uint64_t)width * height > COPSE_PICTURE_PIXELS_MAX)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "picture: %u x %u pixels: expected 1 to %u a side, and at most %llu",
                          width, height, COPSE_PICTURE_SIDE_MAX,
                          (unsigned long long)COPSE_PICTURE_PIXELS_MAX);
    return encode_png_encode(mem, pixels, height, width, channels, out, size);
}
