/* SPDX-License-Identifier: MIT */
/* Standard input as a file, for data that is read more than once: DATA is "-". */
#ifndef STANDARD_INPUT_H
#define STANDARD_INPUT_H

#include "tools/tool.h"

struct standard_input {
    FILE *file;                  /* the copy */
    char folder[256], path[300]; /* "": there is none */
};

/* Copy all of standard input to a file; messages call it "standard input". */
copse_status standard_input_take(struct standard_input *in);
/* Remove the file. Allowed on a zeroed struct. */
void standard_input_end(struct standard_input *in);

#endif
