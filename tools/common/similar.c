/* SPDX-License-Identifier: MIT */
/* The word that was probably meant: the one with the fewest insertions, deletions, replacements and
   exchanges of neighbours. */
#include <string.h>

#include "tools/common/help.h"

#define LENGTH 40

static size_t similar_least(size_t a, size_t b, size_t c)
{
    const size_t d = a < b ? a : b;
    return d < c ? d : c;
}

static size_t similar_edits(const char *a, const char *b)
{
    const size_t n = strlen(a), m = strlen(b);
    size_t d[LENGTH + 1][LENGTH + 1];
    if (n > LENGTH || m > LENGTH)
        return LENGTH;
    for (size_t i = 0; i <= n; i++)
        for (size_t k = 0; k <= m; k++) {
            if (i == 0 || k == 0) {
                d[i][k] = i + k;
                continue;
            }
            d[i][k] = similar_least(d[i - 1][k] + 1, d[i][k - 1] + 1,
                                    d[i - 1][k - 1] + (a[i - 1] != b[k - 1]));
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] &&
                d[i - 2][k - 2] + 1 < d[i][k])
                d[i][k] = d[i - 2][k - 2] + 1;
        }
    return d[n][m];
}

/* "epoch" is like "epochs", "evalute" like "evaluate", "fly" like no option. The beginning of a
   word is like it, and so is the part after its last '-': "patience" of "evaluator-patience". */
const char *similar_word(const char *word, const char *const *words, size_t count)
{
    const size_t length = strlen(word);
    const char *best = NULL;
    size_t fewest = length < 3 ? 1 : length < 6 ? 2 : 3;
    for (size_t i = 0; i < count; i++)
        if (similar_edits(word, words[i]) < fewest) {
            fewest = similar_edits(word, words[i]);
            best = words[i];
        }
    for (size_t i = 0; !best && length >= 3 && i < count; i++)
        if (strncmp(word, words[i], length) == 0)
            best = words[i];
    for (size_t i = 0; !best && length >= 3 && i < count; i++) {
        const char *last = strrchr(words[i], '-');
        if (last && strcmp(last + 1, word) == 0)
            best = words[i];
    }
    return best;
}
