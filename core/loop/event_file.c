/* SPDX-License-Identifier: MIT */
/* Event files: a record for each event, which is a Protocol Buffers message
   (tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto). */
#include "copse/loop/event_file.h"

#include <stdio.h>
#include <string.h>

#include "core/base/files.h"
#include "core/base/platform.h"
#include "core/device/device.h"
#include "core/loop/event_record.h"
#include "core/pictures/picture.h"
#include "core/train/trainer.h"

enum { EVENT_TIME = 1, EVENT_STEP, EVENT_VERSION, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1 };
enum { VALUE_TAG = 1, VALUE_NUMBER = 2, VALUE_PICTURE = 4, VALUE_HISTOGRAM = 5 };
enum { PICTURE_HEIGHT = 1, PICTURE_WIDTH, PICTURE_CHANNELS, PICTURE_PNG };

enum { TAG_BYTES_MAX = 255, PATH_TRIES = 10000 };

struct copse_event_file {
    copse_context *ctx;
    FILE *stream;
    char *path;
    bool has_failed; /* a record may be incomplete: nothing may follow it */
};

static struct copse_mem *memory_of(const copse_event_file *f)
{
    return &f->ctx->base.mem;
}

/* ---- records ---- */

static copse_status event_file_failed(copse_event_file *f)
{
    f->has_failed = true;
    return copse_fail(COPSE_ERR_IO, "event file: cannot write %s: is the disk full?", f->path);
}

static copse_status write_record(copse_event_file *f, struct copse_message *event)
{
    uint8_t head[COPSE_RECORD_HEAD], tail[COPSE_RECORD_TAIL];
    copse_status s = event->is_short ? copse_no_memory("event file: %s", f->path) : COPSE_OK;
    if (s == COPSE_OK) {
        copse__record_head(event->count, head);
        copse__record_tail(event->at, event->count, tail);
        if (fwrite(head, 1, sizeof head, f->stream) != sizeof head ||
            fwrite(event->at, 1, event->count, f->stream) != event->count ||
            fwrite(tail, 1, sizeof tail, f->stream) != sizeof tail)
            s = event_file_failed(f);
    }
    copse__message_free(event);
    return s;
}

static copse_status event_file_check(const copse_event_file *f, const char *tag, uint64_t step)
{
    const size_t length = strlen(tag);
    if (f->has_failed)
        return copse_fail(COPSE_ERR_IO, "event file: %s could not be written before", f->path);
    if (length < 1 || length > TAG_BYTES_MAX)
        return copse_fail(COPSE_ERR_ARGUMENT, "event file: a tag of %zu bytes: expected 1 to %d",
                          length, TAG_BYTES_MAX);
    if (step > INT64_MAX)
        return copse_fail(COPSE_ERR_ARGUMENT, "event file: step %llu is above %lld",
                          (unsigned long long)step, (long long)INT64_MAX);
    return COPSE_OK;
}

static struct copse_message event_file_message(const copse_event_file *f)
{
    return (struct copse_message){ .mem = memory_of(f) };
}

/* Write `value`, whose fields but the tag are there. */
static copse_status write_value(copse_event_file *f, const char *tag, uint64_t step,
                                struct copse_message *value)
{
    struct copse_message summary = event_file_message(f), event = event_file_message(f);
    copse__message_bytes(value, VALUE_TAG, tag, strlen(tag));
    copse__message_put(&summary, SUMMARY_VALUE, value);
    copse__message_double(&event, EVENT_TIME, copse__seconds_since_1970());
    copse__message_integer(&event, EVENT_STEP, step);
    copse__message_put(&event, EVENT_SUMMARY, &summary);
    return write_record(f, &event);
}

/* ---- values ---- */

copse_status copse_event_file_scalar(copse_event_file *f, const char *tag, uint64_t step,
                                     double value)
{
    COPSE_TRY(copse_need("event file: scalar", f, tag));
    COPSE_TRY(event_file_check(f, tag, step));
    struct copse_message m = event_file_message(f);
    copse__message_float(&m, VALUE_NUMBER, (float)value);
    return write_value(f, tag, step, &m);
}

copse_status copse_event_file_histogram(copse_event_file *f, const char *tag, uint64_t step,
                                        const float *values, size_t count)
{
    const bool values_given = values || count == 0;
    COPSE_TRY(copse_need("event file: histogram", f, tag, values_given));
    COPSE_TRY(event_file_check(f, tag, step));
    struct copse_message m = event_file_message(f), histogram = event_file_message(f);
    copse__message_histogram(&histogram, values, count);
    copse__message_put(&m, VALUE_HISTOGRAM, &histogram);
    return write_value(f, tag, step, &m);
}

/* "gradients/w/norm", and with several replicas in sync "gradients/w/norm/3". */
static void name_gradient(const copse_trainer *t, const copse_variable *v, uint32_t r,
                          const char *what, char tag[TAG_BYTES_MAX + 2])
{
    const struct copse_group *group = &t->strategy->group;
    char number[16] = "";
    if (group->ranks > 1)
        snprintf(number, sizeof number, "/%u", group->first + r);
    snprintf(tag, TAG_BYTES_MAX + 2, "gradients/%s/%s%s", v->name, what, number);
}

static copse_status write_gradient(copse_event_file *f, const copse_trainer *t,
                                   const copse_variable *v, uint32_t r, uint64_t step)
{
    struct copse_gradient_summary summary;
    char tag[TAG_BYTES_MAX + 2]; /* one byte too long shows that it does not fit */
    COPSE_TRY(copse_trainer_gradient(t, v, r, &summary));
    if (!summary.is_known)
        return COPSE_OK;
    name_gradient(t, v, r, "norm", tag);
    COPSE_TRY(copse_event_file_scalar(f, tag, step, summary.norm));
    name_gradient(t, v, r, "magnitude", tag);
    COPSE_TRY(event_file_check(f, tag, step));
    struct copse_message m = event_file_message(f), histogram = event_file_message(f);
    copse__message_magnitudes(&histogram, &summary);
    copse__message_put(&m, VALUE_HISTOGRAM, &histogram);
    return write_value(f, tag, step, &m);
}

copse_status copse_event_file_gradients(copse_event_file *f, const copse_trainer *t, uint64_t step)
{
    COPSE_TRY(copse_need("event file: gradients", f, t));
    if (!t->params.summarize_gradients)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "event file: gradients: the trainer does not summarize them; set "
                          "summarize_gradients in its params");
    for (size_t i = 0; i < t->trained.count; i++)
        for (uint32_t r = 0; r < t->strategy->replica_count; r++)
            COPSE_TRY(copse_note(write_gradient(f, t, t->trained.at[i], r, step),
                                 "in the gradient of '%s'", t->trained.at[i]->name));
    return COPSE_OK;
}

copse_status copse_event_file_picture(copse_event_file *f, const char *tag, uint64_t step,
                                      const uint8_t *pixels, uint32_t height, uint32_t width,
                                      uint32_t channels)
{
    COPSE_TRY(copse_need("event file: picture", f, tag, pixels));
    COPSE_TRY(event_file_check(f, tag, step));
    struct copse_message m = event_file_message(f), picture = event_file_message(f);
    uint8_t *png;
    size_t size;
    COPSE_TRY(copse__png_encode(memory_of(f), pixels, height, width, channels, &png, &size));
    copse__message_integer(&picture, PICTURE_HEIGHT, height);
    copse__message_integer(&picture, PICTURE_WIDTH, width);
    copse__message_integer(&picture, PICTURE_CHANNELS, channels);
    copse__message_bytes(&picture, PICTURE_PNG, png, size);
    copse__free(memory_of(f), png);
    copse__message_put(&m, VALUE_PICTURE, &picture);
    return write_value(f, tag, step, &m);
}

/* ---- the file ---- */

/* TensorBoard takes files with "tfevents" in their names, in the order of names. */
static copse_status open_file(copse_event_file *f, const char *folder)
{
    const size_t room = strlen(folder) + 80;
    COPSE_TRY(
        copse_need_memory(f->path = copse__alloc(memory_of(f), room, 1), "event file: %s", folder));
    for (unsigned i = 0; !f->stream && i < PATH_TRIES; i++) {
        snprintf(f->path, room, "%s/events.out.tfevents.%010lld.%04u.copse", folder,
                 (long long)copse__seconds_since_1970(), i);
        COPSE_TRY(copse__file_create(f->path, &f->stream));
    }
    return f->stream ? COPSE_OK
                     : copse_fail(COPSE_ERR_IO, "event file: too many files in %s", folder);
}

static copse_status write_version(copse_event_file *f)
{
    static const char version[] = "brain.Event:2";
    struct copse_message event = event_file_message(f);
    copse__message_double(&event, EVENT_TIME, copse__seconds_since_1970());
    copse__message_bytes(&event, EVENT_VERSION, version, sizeof version - 1);
    COPSE_TRY(write_record(f, &event));
    return copse_event_file_flush(f);
}

static copse_status event_file_release(copse_event_file *f, copse_status s)
{
    if (f->stream && fclose(f->stream) != 0 && s == COPSE_OK)
        s = copse_fail(COPSE_ERR_IO, "event file: cannot write %s: is the disk full?", f->path);
    copse__free(memory_of(f), f->path);
    copse__context_free(f->ctx, f);
    return s;
}

copse_status copse_event_file_create(copse_context *ctx, const char *folder, copse_event_file **out)
{
    if (out)
        *out = NULL;
    COPSE_TRY(copse_need("event file", ctx, folder, out));
    copse_event_file *f = copse__alloc(&ctx->base.mem, 1, sizeof *f);
    COPSE_TRY(copse_need_memory(f, "event file: %s", folder));
    f->ctx = copse_context_retain(ctx);
    copse_status s = copse__folder_make(folder, NULL);
    if (s == COPSE_OK)
        s = open_file(f, folder);
    if (s == COPSE_OK)
        s = write_version(f);
    if (s != COPSE_OK)
        return event_file_release(f, s);
    *out = f;
    return COPSE_OK;
}

COPSE_PROPERTY(const char *, copse_event_file_path, copse_event_file, x->path, "")

copse_status copse_event_file_flush(copse_event_file *f)
{
    COPSE_TRY(copse_need("event file: flush", f));
    return f->has_failed || fflush(f->stream) != 0 ? event_file_failed(f) : COPSE_OK;
}

copse_status copse_event_file_close(copse_event_file **f)
{
    COPSE_TRY(copse_need("event file: close", f));
    copse_event_file *file = *f;
    *f = NULL;
    return file ? event_file_release(file, copse_event_file_flush(file)) : COPSE_OK;
}
