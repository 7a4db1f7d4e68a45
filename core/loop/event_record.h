/* SPDX-License-Identifier: MIT */
/* Bytes of event files: fields of Protocol Buffers messages, and records with checksums around
   them. Fields: https://protobuf.dev/programming-guides/encoding. Records:
   tensorflow/core/lib/io/record_writer.h. */
#ifndef COPSE_EVENT_RECORD_H
#define COPSE_EVENT_RECORD_H

#include "copse/compat/gradients.h"
#include "core/base/base.h"

/* A message that grows. Without memory it takes nothing more, and says so at the end. */
struct copse_message {
    struct copse_mem *mem;
    uint8_t *at;
    size_t count, room;
    bool is_short; /* there was no memory */
};
void copse__message_free(struct copse_message *m);

/* Fields; 0 is written, too. */
void copse__message_integer(struct copse_message *m, uint32_t field, uint64_t value);
void copse__message_float(struct copse_message *m, uint32_t field, float value);
void copse__message_double(struct copse_message *m, uint32_t field, double value);
void copse__message_bytes(struct copse_message *m, uint32_t field, const void *bytes, size_t size);
void copse__message_doubles(struct copse_message *m, uint32_t field, const double *values,
                            size_t count);
/* A message as a field of another; `inner` becomes empty. */
void copse__message_put(struct copse_message *m, uint32_t field, struct copse_message *inner);

/* CRC-32C (Castagnoli) of bytes. */
uint32_t copse__crc32c(const uint8_t *bytes, size_t size);
#define COPSE_RECORD_HEAD 12u
#define COPSE_RECORD_TAIL 4u
/* What surrounds `size` bytes in the file. */
void copse__record_head(uint64_t size, uint8_t head[COPSE_RECORD_HEAD]);
void copse__record_tail(const uint8_t *bytes, size_t size, uint8_t tail[COPSE_RECORD_TAIL]);

/* The distribution of numbers, as a message HistogramProto (event_histogram.c). */
void copse__message_histogram(struct copse_message *m, const float *values, size_t count);
/* Of the magnitudes of a gradient: its bins are the buckets. */
void copse__message_magnitudes(struct copse_message *m, const struct copse_gradient_summary *s);

#endif
