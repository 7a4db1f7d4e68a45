/* SPDX-License-Identifier: MIT */
/* `copse evaluate MODEL DATA`: a model compared with labels. */
#ifndef EVALUATE_MODEL_H
#define EVALUATE_MODEL_H

#include "copse/train/evaluate.h"

#include "tools/common/use.h"

#define WORST_ROWS 10

/* What is shown. */
struct verdict {
    struct use use;
    struct copse_evaluation is;
    uint32_t positions; /* tokens that are predicted for a window of a text; else 1 */
    /* [classes, classes]: labels, predictions; NULL: a regression, or a text without --plot */
    uint64_t *confusion;
    double *r2, *mae; /* of each target, in one array; NULL: no regression */
    double *auc;      /* of each class; NULL: no classes */
    uint32_t worst[WORST_ROWS];
    double losses[WORST_ROWS];
};

/* Rows with this label; of these predicted right; predictions of the class. */
struct class_counts {
    uint64_t rows, right, predicted;
};
struct class_counts verdict_class(const struct verdict *v, uint32_t i);
/* A part of a whole; NaN where there is none. */
double verdict_share(uint64_t part, uint64_t whole);

/* The command, on these paths; the exit code. */
struct evaluate_outputs {
    const char *plot, *logdir; /* NULL: not wanted */
    bool is_json, is_quiet;
};
int evaluate_model(const struct use *use, const struct evaluate_outputs *out);
/* The same of a language model and a text. (evaluate_language.c) */
int evaluate_language(const struct use *use, const struct evaluate_outputs *out);
/* Characters of the longest name of a class or target. (confusion_text.c) */
size_t verdict_longest_name(const struct verdict *v);
/* As lines of text (confusion_text.c); of many classes nothing. */
void confusion_print(const struct verdict *v);
/* The confusion matrix as an SVG file. (confusion_plot.c) */
copse_status confusion_plot(const char *path, const struct verdict *v);
/* The pictures with the largest losses, in an event file of this folder. (worst_pictures.c) */
copse_status worst_pictures(const char *folder, const struct verdict *v);

#endif
