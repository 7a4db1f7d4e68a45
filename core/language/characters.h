/* SPDX-License-Identifier: MIT */
/* Characters of texts and their classes, by which texts are cut into words. */
#ifndef COPSE_LANGUAGE_CHARACTERS_H
#define COPSE_LANGUAGE_CHARACTERS_H

#include <stddef.h>
#include <stdint.h>

enum copse_character {
    COPSE_CHARACTER_OTHER,
    COPSE_CHARACTER_LETTER,
    COPSE_CHARACTER_NUMBER,
    COPSE_CHARACTER_SPACE,
};

/* The class of a code point. */
enum copse_character copse__character(uint32_t c);
/* The character at the beginning of `text`, size > 0; returns its bytes. A byte that begins no
   character is U+FFFD. */
size_t copse__character_read(const char *text, size_t size, uint32_t *c);

#endif
