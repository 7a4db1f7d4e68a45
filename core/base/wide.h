/* SPDX-License-Identifier: MIT */
/* Texts on Windows: UTF-8 in the library, UTF-16 in the calls of the system. */
#ifndef COPSE_WIDE_H
#define COPSE_WIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <windows.h>

/* False if the text is not UTF-8, or too long. */
static inline bool copse__wide(const char *text, wchar_t *out, size_t units)
{
    return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, out, (int)units) > 0;
}

static inline bool copse__narrow(const wchar_t *text, char *out, size_t room)
{
    return WideCharToMultiByte(CP_UTF8, 0, text, -1, out, (int)room, NULL, NULL) > 0;
}

#define COPSE_REASON 400
/* The text of an error of the system, with its number: "Access denied (5)". */
char *copse__reason(unsigned long code, char text[COPSE_REASON]);
#define copse_reason(code) copse__reason(code, (char[COPSE_REASON]){ 0 })

#endif
