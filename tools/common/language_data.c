/* SPDX-License-Identifier: MIT */
#include "tools/common/language_data.h"

#include <string.h>

static size_t skip_spaces(const char *text, size_t size, size_t at)
{
    if (at == 0 && size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        at = 3;
    while (at < size && text[at] && strchr(" \t\r\n", text[at]))
        at++;
    return at;
}

copse_status conversations_tell(const char *path, const char *text, size_t size, bool *are_there)
{
    const size_t at = skip_spaces(text, size, 0);
    *are_there = at < size && text[at] == '{';
    if (at < size && text[at] == '[') {
        const size_t next = skip_spaces(text, size, at + 1);
        if (next < size && text[next] == '{')
            return session_set_error(COPSE_ERR_FORMAT,
                                     "'%s' is a JSON list; conversations are one JSON object per "
                                     "line: write one conversation per line",
                                     path);
    }
    return COPSE_OK;
}
