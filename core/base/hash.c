/* SPDX-License-Identifier: MIT */
/* 64-bit FNV-1a, for cache keys and damage detection; not for security. */
#include "core/base/base.h"

uint64_t copse__hash(uint64_t h, const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < size; i++)
        h = (h ^ p[i]) * 0x100000001b3ull;
    return h;
}
