/* SPDX-License-Identifier: MIT */
/* Log lines to the application's callback; a text of several lines becomes several calls. */
#include <stdio.h>

#include "core/base/base.h"

void copse__log(const struct copse_logger *l, copse_log_level level, const char *fmt, ...)
{
    char text[4096];
    va_list args;

    if (!l->fn || level > l->level)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);

    for (char *line = text; *line;) {
        char *end = line + strcspn(line, "\r\n");
        const bool is_last = *end == '\0';
        *end = '\0';
        if (end > line)
            l->fn(l->user, level, line);
        line = is_last ? end : end + 1;
    }
}
