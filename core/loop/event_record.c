/* SPDX-License-Identifier: MIT */
#include "core/loop/event_record.h"

#include <string.h>

enum { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_32 = 5 };

void copse__message_free(struct copse_message *m)
{
    copse__free(m->mem, m->at);
    m->at = NULL;
    m->count = m->room = 0;
}

static void event_record_put(struct copse_message *m, const void *bytes, size_t size)
{
    size_t want;
    if (!copse__add(m->count, size, &want) || !COPSE_RESERVE(m->mem, m, want)) {
        m->is_short = true;
        return;
    }
    if (size > 0)
        memcpy(m->at + m->count, bytes, size);
    m->count = want;
}

static void little_endian(uint8_t *to, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static void put_varint(struct copse_message *m, uint64_t value)
{
    uint8_t bytes[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[n++] = (uint8_t)(value | 0x80);
    bytes[n++] = (uint8_t)value;
    event_record_put(m, bytes, n);
}

static void put_key(struct copse_message *m, uint32_t field, uint32_t wire)
{
    put_varint(m, field << 3 | wire);
}

static void put_double(struct copse_message *m, double value)
{
    uint64_t word;
    uint8_t bytes[8];
    memcpy(&word, &value, sizeof word);
    little_endian(bytes, word, sizeof bytes);
    event_record_put(m, bytes, sizeof bytes);
}

void copse__message_integer(struct copse_message *m, uint32_t field, uint64_t value)
{
    put_key(m, field, WIRE_VARINT);
    put_varint(m, value);
}

void copse__message_float(struct copse_message *m, uint32_t field, float value)
{
    uint32_t word;
    uint8_t bytes[4];
    memcpy(&word, &value, sizeof word);
    little_endian(bytes, word, sizeof bytes);
    put_key(m, field, WIRE_32);
    event_record_put(m, bytes, sizeof bytes);
}

void copse__message_double(struct copse_message *m, uint32_t field, double value)
{
    put_key(m, field, WIRE_64);
    put_double(m, value);
}

void copse__message_bytes(struct copse_message *m, uint32_t field, const void *bytes, size_t size)
{
    put_key(m, field, WIRE_BYTES);
    put_varint(m, size);
    event_record_put(m, bytes, size);
}

void copse__message_doubles(struct copse_message *m, uint32_t field, const double *values,
                            size_t count)
{
    put_key(m, field, WIRE_BYTES);
    put_varint(m, 8 * (uint64_t)count);
    for (size_t i = 0; i < count; i++)
        put_double(m, values[i]);
}

void copse__message_put(struct copse_message *m, uint32_t field, struct copse_message *inner)
{
    copse__message_bytes(m, field, inner->at, inner->count);
    m->is_short |= inner->is_short;
    copse__message_free(inner);
}

/* ---- records ---- */

uint32_t copse__crc32c(const uint8_t *bytes, size_t size)
{
    uint32_t sum = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        sum ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            /* the polynomial, bits reversed */
            sum = sum >> 1 ^ (UINT32_C(0x82f63b78) & (0u - (sum & 1u)));
    }
    return ~sum;
}

/* Sums of bytes that contain sums are stored changed. */
static uint32_t event_record_masked(const uint8_t *bytes, size_t size)
{
    const uint32_t sum = copse__crc32c(bytes, size);
    return (sum >> 15 | sum << 17) + UINT32_C(0xa282ead8);
}

void copse__record_head(uint64_t size, uint8_t head[COPSE_RECORD_HEAD])
{
    little_endian(head, size, 8);
    little_endian(head + 8, event_record_masked(head, 8), 4);
}

void copse__record_tail(const uint8_t *bytes, size_t size, uint8_t tail[COPSE_RECORD_TAIL])
{
    little_endian(tail, event_record_masked(bytes, size), 4);
}
