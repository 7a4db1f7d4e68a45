/* SPDX-License-Identifier: MIT */
/** @file
 * Event files, which TensorBoard shows: numbers, histograms and pictures by name and step.
 *
 * TensorBoard reads all files below the folder that it is given, and takes a folder as one run. The
 * name of a value, its tag, may have a path: values "loss/train" and "loss/held out" appear
 * together. Values are written through a buffer to the file; copse_event_file_flush and
 * copse_event_file_close write what is in the buffer. A file that ends in the middle of a value, as
 * after a crash, is read up to it.
 */
#ifndef COPSE_PUBLIC_LOOP_EVENT_FILE_H
#define COPSE_PUBLIC_LOOP_EVENT_FILE_H

#include "copse/trainer.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct copse_event_file copse_event_file;

/**
 * Make a new event file in a folder. Files of earlier runs stay. One thread at a time uses the
 * object.
 * @param folder  Made if it is missing; its parent must exist.
 * @retval COPSE_ERR_IO  The folder or the file cannot be made.
 */
COPSE_API COPSE_CHECKED copse_status copse_event_file_create(copse_context *ctx, const char *folder,
                                                             copse_event_file **out);

/** Its path. Lifetime: that of the object. */
COPSE_API const char *copse_event_file_path(const copse_event_file *f);

/**
 * Write a number.
 * @param tag    UTF-8, 1 to 255 bytes.
 * @param step   At most INT64_MAX. For each tag, steps should grow.
 * @param value  Stored as f32; NaN and infinities are shown as such.
 * @retval COPSE_ERR_ARGUMENT  A wrong tag or step.
 * @retval COPSE_ERR_IO        The file cannot be written, now or before. It then takes nothing
 *                             more.
 */
COPSE_API COPSE_CHECKED copse_status copse_event_file_scalar(copse_event_file *f, const char *tag,
                                                             uint64_t step, double value);

/**
 * Write how numbers are distributed, in buckets that grow by a tenth from 1e-12 to 1e20 on both
 * sides of 0, as TensorFlow's do. Numbers beyond them, infinities too, are in the outermost
 * buckets. NaN are left out.
 * @param count  0 or more. Errors as for copse_event_file_scalar.
 */
COPSE_API COPSE_CHECKED copse_status copse_event_file_histogram(copse_event_file *f,
                                                                const char *tag, uint64_t step,
                                                                const float *values, size_t count);

/**
 * Write the summaries of the gradients of a trainer's newest (micro-)batch, which `summarize_gradients`
 * asks for (compat/gradients.h): for each variable the number "gradients/<name>/norm" and the
 * histogram "gradients/<name>/magnitude", whose buckets are powers of 10. Of several replicas in
 * sync each has its own, as "gradients/<name>/norm/3". A replica without examples has none.
 * @retval COPSE_ERR_ARGUMENT  The trainer does not summarize gradients; else as for
 *                             copse_event_file_scalar: a name of a variable may be too long.
 */
COPSE_API COPSE_CHECKED copse_status copse_event_file_gradients(copse_event_file *f,
                                                                const copse_trainer *t,
                                                                uint64_t step);

/**
 * Write a picture, as PNG.
 * @param pixels    [height, width, channels], 0 to 255.
 * @param channels  1: grey; 3: red, green, blue.
 * @retval COPSE_ERR_ARGUMENT     As for copse_event_file_scalar; not 1 to 32768 pixels a side;
 *                                other channels.
 * @retval COPSE_ERR_UNSUPPORTED  The library was built without libpng (copse_pictures_are_read).
 */
COPSE_API COPSE_CHECKED copse_status copse_event_file_picture(copse_event_file *f, const char *tag,
                                                              uint64_t step, const uint8_t *pixels,
                                                              uint32_t height, uint32_t width,
                                                              uint32_t channels);

/** Write what is in the buffer to the file. */
COPSE_API COPSE_CHECKED copse_status copse_event_file_flush(copse_event_file *f);
/** Flush, close and release it, also on failure. `*f` may be NULL and becomes NULL.
    @retval COPSE_ERR_IO  Something could not be written. */
COPSE_API COPSE_CHECKED copse_status copse_event_file_close(copse_event_file **f);

#if defined(__cplusplus)
}
#endif
#endif
