/* SPDX-License-Identifier: MIT */
/* The lines of a table in front of what is predicted for them: --keep-columns. */
#ifndef KEEP_COLUMNS_H
#define KEEP_COLUMNS_H

#include "tools/common/use.h"

struct kept_columns {
    copse_array *text; /* the file */
    size_t at;         /* the next byte */
    char delimiter;
    bool has_header;
};

/* Read the lines of u->data_path, which are the rows of u->data. End also on failure. */
copse_status keep_columns_open(struct kept_columns *k, const struct use *u);
/* Write the next line that is not blank, without its end, and a delimiter. */
void keep_columns_write(FILE *to, struct kept_columns *k);
/* "predicted_" for the names of predictions, or "predicted_2_" and so on if the header has the
   other: predictions of an earlier model are kept. Lifetime: until the next call. */
const char *keep_columns_prefix(const struct kept_columns *k);
void keep_columns_end(struct kept_columns *k);

#endif
