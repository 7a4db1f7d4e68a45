/* SPDX-License-Identifier: MIT */
/* Scores of a classification beside its accuracy. */
#ifndef COPSE_CLASS_SCORES_H
#define COPSE_CLASS_SCORES_H

#include "copse/train/evaluate.h"
#include "core/base/base.h"

struct copse_class_count {
    uint64_t rows, predicted, right;
};

/* A row by its probability of a class. */
struct copse_ranked {
    float score;
    bool is_positive; /* it is of the class */
};

/* `balanced_accuracy` and `f1`. */
void copse__class_scores(const struct copse_class_count *list, uint32_t classes,
                         struct copse_evaluation *out);
/* Area under the curve of true against false positives. A pair is a row of the class and a row of
   another: the area is the share of pairs in which the row of the class has the higher score. Equal
   scores count half. Sorts the list. NaN: the class has no row or all rows, or a score is NaN. */
double copse__class_auc(struct copse_ranked *list, size_t count);

#endif
