/* SPDX-License-Identifier: MIT */
/* Names of the status codes and the thread's error text. Allocates nothing, so it works without
   memory. */
#include <stdio.h>

#include "copse/copse.h"
#include "core/base/base.h"
#include "core/base/platform.h"

#define TEXT_BYTES COPSE_ERROR_BYTES

static COPSE_THREAD_LOCAL char last_error[TEXT_BYTES];
static COPSE_THREAD_LOCAL char last_place[96]; /* "shape.c:60" */
static COPSE_THREAD_LOCAL uint64_t failures;

static const char *const names[] = {
#define NAME(code, text) #code,
    COPSE_STATUS_MAP(NAME)
#undef NAME
};

static const char *const texts[] = {
#define TEXT(code, text) text,
    COPSE_STATUS_MAP(TEXT)
#undef TEXT
};

const char *copse_status_name(copse_status status)
{
    return (size_t)status < COPSE_COUNT(names) ? names[status] : "unknown status";
}

const char *copse_status_text(copse_status status)
{
    return (size_t)status < COPSE_COUNT(texts) ? texts[status] : "not a status of this library";
}

const char *copse_last_error(void)
{
    return last_error;
}

const char *copse_last_error_place(void)
{
    return last_place;
}

uint64_t copse__failures(void)
{
    return failures;
}

void copse__fail_from(const char *text, const char *place)
{
    failures++;
    strncpy(last_error, text, sizeof last_error - 1);
    strncpy(last_place, place, sizeof last_place - 1);
}

void copse__fail_again(const char *text)
{
    copse__fail_from(text, "");
}

static const char *base_name(const char *path)
{
    const char *name = path;
    for (const char *c = path; *c; c++)
        if (*c == '/' || *c == '\\')
            name = c + 1;
    return name;
}

copse_status copse__fail(copse_status code, const char *file, int line, const char *fmt, ...)
{
    char text[TEXT_BYTES]; /* the arguments may point into last_error */
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    memcpy(last_error, text, sizeof last_error);
    snprintf(last_place, sizeof last_place, "%s:%d", base_name(file), line);
    failures++;
    return code;
}

copse_status copse__need(const char *file, int line, const char *what, const char *arguments,
                         const bool *are_there, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        arguments += strspn(arguments, ", ");
        const size_t length = strcspn(arguments, ",");
        if (!are_there[i])
            return copse__fail(COPSE_ERR_ARGUMENT, file, line, "%s: argument '%.*s' is NULL", what,
                               (int)length, arguments);
        arguments += length;
    }
    return COPSE_OK;
}

copse_status copse__no_memory(const char *file, int line, const char *fmt, ...)
{
    char text[TEXT_BYTES];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return copse__fail(COPSE_ERR_NO_MEMORY, file, line, "%s: no memory", text);
}

copse_status copse__need_known(const char *file, int line, const char *what, const char *kind,
                               int value, int last)
{
    return value >= 0 && value <= last ? COPSE_OK
                                       : copse__fail(COPSE_ERR_ARGUMENT, file, line,
                                                     "%s: unknown %s %d", what, kind, value);
}

copse_status copse__no_reserved(const char *file, int line, const char *type, const void *params,
                                size_t offset, size_t size)
{
    for (size_t i = 0; params && i < size / sizeof(uint64_t); i++)
        if (((const uint64_t *)((const char *)params + offset))[i] != 0)
            return copse__fail(
                COPSE_ERR_UNSUPPORTED, file, line,
                "%s: word %zu of 'reserved' was set by a newer program than this library %s knows",
                type, i, copse_version());
    return COPSE_OK;
}

copse_status copse__returned(copse_status code, uint64_t before)
{
    if (code == COPSE_OK || code == COPSE_ERR_END || failures != before)
        return code;
    return copse_fail(code, "a function of the application returned %s: %s",
                      copse_status_name(code), copse_status_text(code));
}

copse_status copse__note(copse_status code, const char *fmt, ...)
{
    char text[TEXT_BYTES];
    va_list args;

    if (code == COPSE_OK)
        return code;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);

    const size_t used = strlen(last_error), room = sizeof last_error - used;
    snprintf(last_error + used, room, "; %.*s", (int)room, text);
    return code;
}
