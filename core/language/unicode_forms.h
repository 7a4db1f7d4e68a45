/* SPDX-License-Identifier: MIT */
/* Parts of characters, and the order of marks: tables of Unicode for the form NFC. */
#ifndef COPSE_LANGUAGE_UNICODE_FORMS_H
#define COPSE_LANGUAGE_UNICODE_FORMS_H

#include <stdint.h>

/* A character is one other, or a character and a mark; in the order of characters. */
struct copse_form {
    uint32_t c, first, second; /* second 0: there is none */
};
#define COPSE_FORMS 2061u
extern const struct copse_form copse__forms[COPSE_FORMS];

/* Places of those that two characters become again, in the order of second, then first. */
#define COPSE_JOINED 941u
extern const uint16_t copse__joined[COPSE_JOINED];

/* Characters with a class, by which marks after a character are ordered. */
struct copse_mark {
    uint32_t first, last, order;
};
#define COPSE_MARKS 382u
extern const struct copse_mark copse__marks[COPSE_MARKS];

#endif
