/* SPDX-License-Identifier: MIT */
/* Words, and recordings of them. */
#ifndef KEYWORDS_RECORDINGS_H
#define KEYWORDS_RECORDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "copse/status.h"

enum { MOST_WORDS = 64, LONGEST_WORD = 63, MOST_RECORDINGS = 100000 };

/* In the order of the outputs of a network. */
struct words {
    char at[MOST_WORDS][LONGEST_WORD + 1];
    size_t count;
};

/* Recordings of a folder. */
struct recordings {
    float *spectra;   /* [count][FRAMES][BANDS] */
    int32_t *classes; /* places in the list of words */
    size_t count;
};

/* Read the WAV files in the folders of `folder`, each of which has the name of a word. Words that
   are not known are added in the order of their names, if the list is empty, else refused. Files of
   other kinds are left out, with a line on stderr. false: a line on stderr. */
bool recordings_read(const char *folder, struct words *words, struct recordings *out);
void recordings_free(struct recordings *r);

/* The words of the network NET.onnx are the lines of NET.onnx.txt. An absent file has no words.
   false: a line on stderr. */
bool words_read(const char *network, struct words *out);
/* Whether both files can be written. false: a line on stderr. */
bool words_is_writable(const char *network);
/* Save a network with `save`, and its list of words. The list is complete under another name before
   the network is saved, so that both stay as they were if one cannot be written; a line says so if
   the list cannot get its name then. false: a line on stderr. */
typedef copse_status words_save_fn(void *user, const char *network);
bool words_save(const char *network, const struct words *w, words_save_fn *save, void *user);
/* NET.onnx.txt, to be freed. NULL: no memory, a line on stderr. */
char *words_path(const char *network);

/* Compute `count` recordings of each of four sounds, "fall", "noise", "rise" and "tone", as 00.wav,
   01.wav ... in folders of a new folder. `noise`: its level, where a sound has 1. false: a line on
   stderr. */
bool recordings_make(const char *folder, size_t count, double noise, uint64_t seed);

#endif
