/* SPDX-License-Identifier: MIT */
/* Data of language models: a text, or conversations as JSON lines. */
#ifndef COPSE_TOOL_LANGUAGE_DATA_H
#define COPSE_TOOL_LANGUAGE_DATA_H

#include "tools/tool.h"

/* Whether the first character of a text, after a byte order mark and spaces, begins a conversation.
   A JSON list of conversations is an error, which names the file `path`. */
copse_status conversations_tell(const char *path, const char *text, size_t size, bool *are_there);

#endif
