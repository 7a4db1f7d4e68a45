/* SPDX-License-Identifier: MIT */
/* A fault that a layer between the loader and a driver plays. COPSE_LIE names it: FAULT:N plays it
   at every N-th occasion, counted from 1 in each process.

   lose    a dispatch is not executed
   swap    a dispatch is executed after the next one, whatever barriers are between them
   flip    one bit of a result that the host reads is inverted
   stale   the host reads the content of an earlier read
   limits  the driver claims larger limits than it has (N is not used)
   fma     the compiler cannot link fma (OpenCL only; N is not used)
   code    the driver does not build the code that it compiled (OpenCL only; N is not used)
   start   the first N instances cannot be made (Vulkan only)
   priority  the driver claims that work can have priorities; N = 1: it writes the priority that it
             is asked for to standard error; N = 2: it refuses all; N = 3, OpenCL: it refuses them
             for queues with times; N = 3, Vulkan: it claims priorities of occupancy alone, and
             refuses them; N = 4, Vulkan: it claims both, and refuses the global one
   discrete  the driver says that the device has memory of its own; N = 2: that it is a GPU, too.
             OpenCL: transfers to and from memory that the driver did not allocate block, and are
             told on standard error
   none    nothing: the layer must not change results

   With COPSE_LIE_COUNT the number of occasions is on standard error when the process ends. */
#ifndef COPSE_TESTS_LIE_H
#define COPSE_TESTS_LIE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum lie_fault {
    LIE_NOTHING,
    LIE_DISPATCH_LOST,
    LIE_DISPATCHES_SWAPPED,
    LIE_BIT_FLIPPED,
    LIE_READ_STALE,
    LIE_LIMITS,
    LIE_FMA,
    LIE_CODE,
    LIE_START,
    LIE_PRIORITY,
    LIE_DISCRETE
};

struct lie {
    enum lie_fault fault;
    unsigned long every;
    atomic_ulong occasions, played;
};

/* Of a process with one of the layers. */
static struct lie *lie_counted;
static inline void lie_tell(void)
{
    fprintf(stderr, "lying layer: %lu occasions\n", lie_counted->occasions);
}

/* Reads COPSE_LIE. An unknown fault ends the process: a test must not pass because its fault was
   not played. */
static inline void lie_init(struct lie *l)
{
    static const char *const names[] = { "none", "lose", "swap",  "flip",     "stale",   "limits",
                                         "fma",  "code", "start", "priority", "discrete" };
    const char *text = getenv("COPSE_LIE");
    const char *colon = text != NULL ? strchr(text, ':') : NULL;

    for (size_t i = 0; colon != NULL && i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == (size_t)(colon - text) &&
            strncmp(names[i], text, strlen(names[i])) == 0) {
            l->fault = (enum lie_fault)i;
            l->every = strtoul(colon + 1, NULL, 10);
        }
    if (l->every == 0) {
        fprintf(stderr, "lying layer: COPSE_LIE=%s is not FAULT:N\n", text != NULL ? text : "");
        abort();
    }
    if (getenv("COPSE_LIE_COUNT") != NULL && lie_counted == NULL) {
        lie_counted = l;
        atexit(lie_tell);
    }
}

/* Whether the fault is played now; counts the occasion. */
static inline bool lie_now(struct lie *l, enum lie_fault fault)
{
    if (l->fault != fault || (atomic_fetch_add(&l->occasions, 1) + 1) % l->every != 0)
        return false;
    atomic_fetch_add(&l->played, 1);
    return true;
}

/* Whether this is one of the first occasions. */
static inline bool lie_at_first(struct lie *l, enum lie_fault fault)
{
    return l->fault == fault && atomic_fetch_add(&l->occasions, 1) < l->every;
}

/* Whether the driver gives the priority that it is asked for. */
static inline bool lie_gives_priority(const struct lie *l, unsigned long long priority)
{
    if (l->every == 1)
        fprintf(stderr, "lying layer: priority %llu\n", priority);
    return l->every == 1 || l->every == 3;
}

/* Inverts a low bit of the exponent of a float in the middle. */
static inline void lie_flip(void *bytes, size_t size)
{
    if (size >= 4)
        ((unsigned char *)bytes)[size / 8 * 4 + 2] ^= 0x80;
}

/* Contents of reads by size, for the reads of LIE_READ_STALE. */
struct lie_reads {
    struct lie_read {
        size_t size;
        void *bytes;
    } rows[64];
    size_t next;
};

/* The content becomes that of the last read of this size, which is replaced by this one. False:
   there was none. */
static inline bool lie_stale(struct lie_reads *reads, bool is_played, void *bytes, size_t size)
{
    struct lie_read *r = NULL;

    for (size_t i = 0; i < sizeof reads->rows / sizeof *reads->rows; i++)
        if (reads->rows[i].bytes != NULL && reads->rows[i].size == size)
            r = &reads->rows[i];
    if (is_played && r != NULL) {
        memcpy(bytes, r->bytes, size);
        return true;
    }
    if (r == NULL) {
        r = &reads->rows[reads->next++ % (sizeof reads->rows / sizeof *reads->rows)];
        free(r->bytes);
        r->bytes = malloc(size);
        r->size = size;
    }
    if (r->bytes != NULL)
        memcpy(r->bytes, bytes, size);
    return false;
}

#endif
