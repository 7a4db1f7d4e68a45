/* SPDX-License-Identifier: MIT */
/* The base of all layers: errors, log, checked memory, reference counts. Uses no device and no
   graph. */
#ifndef COPSE_BASE_H
#define COPSE_BASE_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "copse/context.h"
#include "core/base/private.h"

#if defined(__MINGW32__)
#    define COPSE_PRINTF(a, b) __attribute__((format(gnu_printf, a, b)))
#elif defined(__GNUC__)
#    define COPSE_PRINTF(a, b) __attribute__((format(printf, a, b)))
#else
#    define COPSE_PRINTF(a, b)
#endif

#define COPSE_COUNT(array) (sizeof(array) / sizeof *(array))
#define COPSE_MIN(a, b)    ((a) < (b) ? (a) : (b))
#define COPSE_MAX(a, b)    ((a) > (b) ? (a) : (b))

/* ---- errors (status.c) ---- */

/* Store the text, and file and line, in buffers of the thread; returns `code`. */
COPSE_PRIVATE copse_status copse__fail(copse_status code, const char *file, int line,
                                       const char *fmt, ...) COPSE_PRINTF(4, 5);
/* COPSE_ERR_ARGUMENT, with its name, if one of the pointers is NULL: copse_need("queue: write",
   queue, src). */
COPSE_PRIVATE copse_status copse__need(const char *file, int line, const char *what,
                                       const char *arguments, const bool *are_there, size_t count);
#define copse_need(what, ...)                                                          \
    copse__need(__FILE__, __LINE__, what, #__VA_ARGS__, (const bool[]){ __VA_ARGS__ }, \
                sizeof((const bool[]){ __VA_ARGS__ }) / sizeof(bool))
/* COPSE_ERR_NO_MEMORY with the text "...: no memory": copse_no_memory("variable '%s'", name). */
COPSE_PRIVATE copse_status copse__no_memory(const char *file, int line, const char *fmt, ...)
    COPSE_PRINTF(3, 4);
#define copse_no_memory(...) copse__no_memory(__FILE__, __LINE__, __VA_ARGS__)
/* The same where `given`, such as an allocation, is NULL or false: copse_need_memory(p =
   copse__alloc(...), "trainer"). */
#define copse_need_memory(given, ...) ((given) ? COPSE_OK : copse_no_memory(__VA_ARGS__))
/* COPSE_ERR_ARGUMENT, "trainer: unknown gating 7", unless `value` is one of the enumerators 0 ..
   last. */
copse_status copse__need_known(const char *file, int line, const char *what, const char *kind,
                               int value, int last);
#define copse_need_known(what, kind, value, last) \
    copse__need_known(__FILE__, __LINE__, what, kind, (int)(value), (int)(last))
/* COPSE_ERR_UNSUPPORTED where one of the reserved words of a struct is set; NULL has none. */
COPSE_PRIVATE copse_status copse__no_reserved(const char *file, int line, const char *type,
                                              const void *params, size_t offset, size_t size);
#define copse_no_reserved(type, params)                                                      \
    copse__no_reserved(__FILE__, __LINE__, #type, (params), offsetof(struct type, reserved), \
                       sizeof(((struct type *)0)->reserved))
/* Append "; while ..." context to the thread's text and return `code`; does nothing for
   COPSE_OK. */
COPSE_PRIVATE copse_status copse__note(copse_status code, const char *fmt, ...) COPSE_PRINTF(2, 3);
#define COPSE_ERROR_BYTES 1024 /* of the text, including the NUL */
/* Restore a text that was copied from copse_last_error: a text of another thread, or a text from
   before a clean-up that may also fail. */
COPSE_PRIVATE void copse__fail_again(const char *text);
/* The same, with the text of copse_last_error_place. */
void copse__fail_from(const char *text, const char *place);
/* Number of failures of this thread that set a text. */
COPSE_PRIVATE uint64_t copse__failures(void);
/* The status returned by a function of the application, before which there were `before` failures.
   If the function set no text, the text of an earlier failure does not belong to it. The end of
   data has no text. */
COPSE_PRIVATE copse_status copse__returned(copse_status code, uint64_t before);
#define copse_fail(code, ...) copse__fail(code, __FILE__, __LINE__, __VA_ARGS__)
#define copse_note(code, ...) copse__note(code, __VA_ARGS__)

/* A public function that reads a property of an object `x`; NULL has the property `none`. */
#define COPSE_PROPERTY(type, function, object, property, none) \
    type function(const object *x)                             \
    {                                                          \
        return x ? (property) : (none);                        \
    }

/* ---- memory (host_memory.c) ---- */

/* Every host allocation of the library uses one of these. */
struct copse_mem {
    copse_resize_fn *resize;
    void *user;
    atomic_size_t live;
    atomic_ullong calls;
    atomic_ullong device_calls; /* device buffers created: counted by core/device */
};

/* Zeroed array of `count` elements of `size` bytes; NULL without memory or on overflow. A
   zero-sized request returns a valid block of one byte. */
COPSE_PRIVATE void *copse__alloc(struct copse_mem *m, size_t count, size_t size);
/* Grow or shrink; new bytes are not zeroed; the old block stays valid on failure. */
COPSE_PRIVATE void *copse__resize(struct copse_mem *m, void *block, size_t count, size_t size);
COPSE_PRIVATE void copse__free(struct copse_mem *m, void *block); /* NULL is allowed */
/* Free memory into which a device was reading with result `s`. After COPSE_ERR_TIMEOUT it is kept:
   the device may still write there. */
static inline void copse__free_read(struct copse_mem *m, void *block, copse_status s)
{
    if (s != COPSE_ERR_TIMEOUT)
        copse__free(m, block);
}
COPSE_PRIVATE char *copse__strdup(struct copse_mem *m, const char *text);
/* Memory aligned to `alignment` (a power of two), zeroed; freed with copse__free_aligned. */
void *copse__alloc_aligned(struct copse_mem *m, size_t size, size_t alignment);
void copse__free_aligned(struct copse_mem *m, void *block);

/* False on overflow. */
bool copse__mul(size_t a, size_t b, size_t *out);
bool copse__add(size_t a, size_t b, size_t *out);
static inline const char *copse__plural(uint64_t n) /* the end of "row" in "1 row", "2 rows" */
{
    return n == 1 ? "" : "s";
}
static inline size_t copse__round_up(size_t n, size_t to) /* `to` > 0; no overflow check */
{
    return (n + to - 1) / to * to;
}

/* Grow-only array: COPSE_PUSH(mem, vec, value) with struct { T *at; size_t count, room; }. */
COPSE_PRIVATE bool copse__grow(struct copse_mem *m, void **at, size_t *room, size_t want,
                               size_t size);
#define COPSE_RESERVE(m, vec, want) \
    ((want) <= (vec)->room ||       \
     copse__grow(m, (void **)&(vec)->at, &(vec)->room, want, sizeof *(vec)->at))
#define COPSE_PUSH(m, vec, value) \
    (COPSE_RESERVE(m, vec, (vec)->count + 1) ? ((vec)->at[(vec)->count++] = (value), true) : false)

/* Bump allocator: all blocks are freed together. */
struct copse_arena {
    struct copse_mem *mem;
    struct copse_arena_block *blocks;
};
void *copse__arena_alloc(struct copse_arena *a, size_t count, size_t size); /* zeroed, aligned 16 */
COPSE_PRIVATE char *copse__arena_strdup(struct copse_arena *a, const char *text);
COPSE_PRIVATE void copse__arena_fini(struct copse_arena *a);

/* ---- log (log.c) ---- */

struct copse_logger {
    copse_log_fn *fn;
    void *user;
    copse_log_level level;
};
COPSE_PRIVATE void copse__log(const struct copse_logger *l, copse_log_level level, const char *fmt,
                              ...) COPSE_PRINTF(3, 4);

/* ---- services of a context, as far as backends may see them ---- */

struct copse_base {
    struct copse_mem mem;
    struct copse_logger log;
    struct copse_cache_params cache;
    struct copse_trace *trace; /* trace.h; NULL: nothing can be recorded */
};

/* ---- reference counts ---- */

typedef atomic_int copse_refs; /* first member by convention; starts at 1 */
static inline void copse__ref(copse_refs *r)
{
    atomic_fetch_add_explicit(r, 1, memory_order_relaxed);
}
static inline bool copse__unref(copse_refs *r) /* true for the last one */
{
    return atomic_fetch_sub_explicit(r, 1, memory_order_acq_rel) == 1;
}

/* ---- hashes (hash.c) ---- */

/* 64-bit FNV-1a; start with COPSE_HASH_START. Not for security. */
#define COPSE_HASH_START 0xcbf29ce484222325ull
COPSE_PRIVATE uint64_t copse__hash(uint64_t h, const void *bytes, size_t size);

/* ---- utf8.c ---- */

/* Length of the valid part: `size` if all of it is well-formed UTF-8 without NUL. */
COPSE_PRIVATE size_t copse__utf8_valid(const char *text, size_t size);

/* ---- pattern.c ---- */

/* Whether a name fits a pattern: `*` is any text, `?` one character. */
bool copse__pattern_fits(const char *pattern, const char *name);
/* The first place in `size` bytes where the `count` bytes of `what` stand; NULL: nowhere. */
const void *copse__find_bytes(const void *in, size_t size, const void *what, size_t count);

/* ---- date.c ---- */

#define COPSE_DATE 16
/* The present day in UTC: "2026-11-23". Returns `text`. */
char *copse__date(char text[COPSE_DATE]);

#endif
