/* SPDX-License-Identifier: MIT */
/* Characters in bytes that need not be valid UTF-8. */
#ifndef UTF8_H
#define UTF8_H

#include <stdbool.h>
#include <stddef.h>

enum { UTF8_INVALID = 0, UTF8_PART = -1 };

/* Bytes of the character that begins at `p`, of `left` > 0 bytes. UTF8_PART: the bytes end inside
   of it. */
int utf8_character(const char *p, size_t left);
/* Bytes at the end that begin a character and do not complete it, 0 to 3. */
size_t utf8_part(const char *text, size_t size);

/* Characters of a text: bytes that do not continue one. */
size_t characters_count(const char *text);
/* Print a text, with blanks after it, or before it, up to `width` characters. */
void characters_put(const char *text, size_t width, bool is_right);

#endif
