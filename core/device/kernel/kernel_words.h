/* SPDX-License-Identifier: MIT */
/* The names of a kernel's parameters and specialisation constants, for the coverage table of
   conformance. */
#ifndef COPSE_KERNEL_WORDS_H
#define COPSE_KERNEL_WORDS_H

#include "core/base/private.h"

struct copse_kernel_words {
    const char *params; /* "uint n;float alpha;" */
    const char *specs;  /* "REVERSE EXCLUSIVE " */
};

/* Of the rows of copse_kernel_table. */
extern COPSE_PRIVATE const struct copse_kernel_words copse_kernel_words[];

#endif
