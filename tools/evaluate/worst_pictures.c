/* SPDX-License-Identifier: MIT */
/* The pictures with the largest losses, in an event file for TensorBoard. */
#include <stdlib.h>
#include <string.h>

#include "copse/loop/event_file.h"

#include "tools/evaluate/evaluate_model.h"

/* Column "x" where it has pictures: u8 [height, width] or [height, width, 1 or 3]. */
static copse_status find_pixels(const struct verdict *v, copse_shape *out)
{
    struct copse_column c;
    for (size_t i = 0; copse_dataset_column(v->use.data, i, &c) == COPSE_OK; i++) {
        if (strcmp(c.name, "x") != 0 || c.type != COPSE_U8)
            continue;
        *out = c.shape;
        if (c.shape.rank == 2)
            *out = COPSE_SHAPE(c.shape.dims[0], c.shape.dims[1], 1);
        if (out->rank == 3 && (out->dims[2] == 1 || out->dims[2] == 3))
            return COPSE_OK;
    }
    return session_set_error(COPSE_ERR_ARGUMENT, "--logdir shows pictures, and '%s' has none",
                             v->use.data_path);
}

static copse_status write_one(copse_event_file *f, const struct verdict *v, size_t i,
                              const copse_shape *shape, uint8_t *pixels)
{
    char tag[256], plain[120] = "";
    int32_t label = 0;
    COPSE_TRY(copse_dataset_gather(v->use.data, "x", &v->worst[i], 1, pixels));
    if (v->confusion)
        COPSE_TRY(copse_dataset_gather(v->use.data, "y", &v->worst[i], 1, &label));
    if (v->confusion && label >= 0 && (uint32_t)label < v->use.info.outputs)
        session_plain(plain, sizeof plain, use_name(&v->use, (uint32_t)label));
    snprintf(tag, sizeof tag, "largest losses/%02zu: row %u%s%s, loss %.3g", i + 1, v->worst[i] + 1,
             plain[0] ? ", label " : "", plain, v->losses[i]);
    return copse_event_file_picture(f, tag, 0, pixels, shape->dims[0], shape->dims[1],
                                    shape->dims[2]);
}

copse_status worst_pictures(const char *folder, const struct verdict *v)
{
    copse_event_file *f = NULL;
    copse_shape shape;
    COPSE_TRY(find_pixels(v, &shape));
    uint8_t *pixels = malloc((size_t)shape.dims[0] * shape.dims[1] * shape.dims[2]);
    copse_status s = pixels ? copse_event_file_create(v->use.ctx, folder, &f)
                            : session_set_error(COPSE_ERR_NO_MEMORY, "no memory for a picture");
    for (size_t i = 0; s == COPSE_OK && i < v->is.worst_count; i++)
        s = write_one(f, v, i, &shape, pixels);
    const copse_status closed = copse_event_file_close(&f);
    free(pixels);
    return s == COPSE_OK ? closed : s;
}
