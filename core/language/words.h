/* SPDX-License-Identifier: MIT */
/* Words of a text: tokens do not cross them. Each tokenizer was trained with one pattern, and a
   model is right with its own only. */
#ifndef COPSE_LANGUAGE_WORDS_H
#define COPSE_LANGUAGE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct copse_words {
    const char *name;
    /* a number is a word of its own before all other rules */
    bool splits_numbers;
    /* the rules of cl100k_base: a word may begin with any character but letters, numbers and line
       ends, and punctuation takes line ends. Else the rules of GPT-2: it may begin with a space */
    bool is_later;
    uint32_t digits; /* of a word of numbers, at most; 0: any */
    /* what files of GGUF with this name mean, without saying it */
    bool knows_whole;   /* a word that is a token is not put together from parts */
    bool adds_begin;    /* a text begins with the token for that, where the file does not say */
    bool is_normalised; /* texts get the form NFC, as in the models' own tokenizers */
};

/* The pattern of a name in GGUF files ("tokenizer.ggml.pre"); NULL: unknown. */
const struct copse_words *copse__words_find(const char *name, size_t size);
/* Bytes of the word at the beginning of `text`, size > 0. */
size_t copse__words_next(const struct copse_words *w, const char *text, size_t size);

#endif
