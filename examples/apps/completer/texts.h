/* SPDX-License-Identifier: MIT */
/* The texts of a folder. */
#ifndef COMPLETER_TEXTS_H
#define COMPLETER_TEXTS_H

#include <stdbool.h>
#include <stddef.h>

#include "copse/context.h"

/* All files of a folder and of its folders that are UTF-8, in the order of their names, with an
   empty line after each. The last lines of each file are held out. */
struct texts {
    char *training, *held_out; /* free with texts_free */
    size_t training_size, held_out_size;
    size_t files, left_out; /* left_out: files that are no texts */
};

/* Read the texts. `part` of each file is held out, in whole lines, at least the last one; less of
   each where all files together have more than 64 KiB of it. A line on stderr names the first file
   that is no text. false: a line on stderr says what is wrong. */
bool texts_read(copse_context *ctx, const char *folder, double part, struct texts *out);
void texts_free(struct texts *t);

#endif
