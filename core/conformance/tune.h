/* SPDX-License-Identifier: MIT */
/* What mode tune knows of a family of kernel variants. Another family is one more of these, named in
   tune.c, variants of its name in copse__case_variants, and a copse__fastest where it is lowered. */
#ifndef COPSE_CORE_TUNE_H
#define COPSE_CORE_TUNE_H

#include "core/conformance/mode.h"

/* One size of work. */
struct copse_tune_job {
    uint32_t m, n, k; /* as the family understands them; 0 where it has fewer */
    bool a_transposed, b_transposed;
    char name[96];       /* of the case */
    char size_class[24]; /* as the entry of tuning is called */
    double operations;
    size_t in_count, counts[2], result; /* elements of the inputs and of the result */
    size_t scratch;                     /* doubles that is_right needs */
};

struct copse_tune_family {
    const char *name; /* "matmul": of the entries, and of the cases' op */
    size_t count;     /* of jobs */
    void (*job)(size_t index, struct copse_tune_job *out); /* from small to large; *out is zeroed */
    copse_status (*build)(copse_graph *g, const struct copse_tune_job *j, copse_tensor **in,
                          copse_tensor **out);
    /* Inputs are whole numbers up to COPSE_TUNE_LARGEST, of either sign: the result is exact. */
    bool (*is_right)(const struct copse_tune_job *j, float *const *in, const float *out,
                     double *scratch);
};

#define COPSE_TUNE_LARGEST 3 /* every sum of 2^22 products is exact */
/* The i-th number of a sequence, from -LARGEST to LARGEST. */
int copse__tune_whole(uint32_t seed, size_t i);

extern const struct copse_tune_family copse_tune_matmul, copse_tune_column_sum;

#endif
