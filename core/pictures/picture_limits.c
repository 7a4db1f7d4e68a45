/* SPDX-License-Identifier: MIT */
/* The largest picture that is read. */
#include "core/pictures/picture.h"

copse_status copse__picture_check_size(const char *path, uint64_t width, uint64_t height)
{
    if (width == 0 || height == 0)
        return copse_fail(COPSE_ERR_FORMAT, "picture: %s has no pixels", path);
    if (width > COPSE_PICTURE_SIDE_MAX || height > COPSE_PICTURE_SIDE_MAX ||
        width * height > COPSE_PICTURE_PIXELS_MAX)
        return copse_fail(
            COPSE_ERR_FORMAT,
            "picture: %s has %llu x %llu pixels; at most %u x %u and %llu in all are read", path,
            (unsigned long long)width, (unsigned long long)height, COPSE_PICTURE_SIDE_MAX,
            COPSE_PICTURE_SIDE_MAX, (unsigned long long)COPSE_PICTURE_PIXELS_MAX);
    return COPSE_OK;
}

copse_status copse__picture_check_bytes(const struct copse_picture_input *in,
                                        const struct copse_picture *p, uint64_t least)
{
    if (in->bytes >= least)
        return COPSE_OK;
    return copse_fail(COPSE_ERR_FORMAT,
                      "picture: %s has %u x %u pixels in %llu bytes: it is damaged or cut off",
                      in->path, p->width, p->height, (unsigned long long)in->bytes);
}
