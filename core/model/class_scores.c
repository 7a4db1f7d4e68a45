/* SPDX-License-Identifier: MIT */
/* Balanced accuracy, F1 and the area under the ROC curve, as scikit-learn defines them (1.5:
   balanced_accuracy_score, f1_score with average "macro", roc_auc_score of one class against the
   others). */
#include "core/model/class_scores.h"

#include <math.h>
#include <stdlib.h>

void copse__class_scores(const struct copse_class_count *list, uint32_t classes,
                         struct copse_evaluation *out)
{
    uint32_t seen = 0, known = 0;
    double recalls = 0, f1 = 0;
    for (uint32_t i = 0; i < classes; i++) {
        const struct copse_class_count *c = &list[i];
        if (c->rows > 0)
            recalls += (double)c->right / (double)c->rows;
        known += c->rows > 0;
        if (c->rows + c->predicted > 0)
            f1 += 2.0 * (double)c->right / (double)(c->rows + c->predicted);
        seen += c->rows + c->predicted > 0;
    }
    out->balanced_accuracy = known ? recalls / known : NAN;
    out->f1 = seen ? f1 / seen : NAN;
}

static int compare_scores(const void *a, const void *b)
{
    const float x = ((const struct copse_ranked *)a)->score,
                y = ((const struct copse_ranked *)b)->score;
    return (x > y) - (x < y);
}

double copse__class_auc(struct copse_ranked *list, size_t count)
{
    double positives = 0, ranks = 0;
    for (size_t i = 0; i < count; i++)
        if (isnan(list[i].score))
            return NAN;
    qsort(list, count, sizeof *list, compare_scores);
    for (size_t i = 0, end; i < count; i = end) {
        double here = 0;
        for (end = i; end < count && list[end].score == list[i].score; end++)
            here += list[end].is_positive;
        positives += here;
        ranks += here * 0.5 * (double)(i + 1 + end); /* rows of one score share the mean rank */
    }
    const double negatives = (double)count - positives;
    return positives > 0 && negatives > 0
               ? (ranks - 0.5 * positives * (positives + 1)) / (positives * negatives)
               : NAN;
}
