/* SPDX-License-Identifier: MIT */
/* The confusion matrix as lines of text. The columns have the names of the classes where a line has
   room for them; else they have numbers, and each line begins with its number. */
#include <stdio.h>
#include <string.h>

#include "tools/common/characters.h"
#include "tools/evaluate/evaluate_model.h"

enum { LINE = 100, NAME_MOST = 24, COUNT_WIDTH = 6, CLASSES_MOST = 20 };

static const char *name_of(const struct verdict *v, uint32_t i, char plain[600])
{
    return session_plain(plain, 600, use_name(&v->use, i));
}

size_t verdict_longest_name(const struct verdict *v)
{
    size_t most = 0;
    char plain[600];
    for (uint32_t i = 0; i < v->use.info.outputs; i++) {
        const size_t n = characters_count(name_of(v, i, plain));
        most = n > most ? n : most;
    }
    return most;
}

void confusion_print(const struct verdict *v)
{
    static const char title[] = "label \\ predicted";
    const uint32_t classes = v->use.info.outputs;
    char plain[600];
    if (classes > CLASSES_MOST)
        return;
    const size_t name = verdict_longest_name(v), column = name > COUNT_WIDTH ? name : COUNT_WIDTH;
    const size_t first = name > NAME_MOST ? name : NAME_MOST;
    const bool has_names = 2 + first + classes * (column + 1) <= LINE;
    const size_t width = has_names ? column : COUNT_WIDTH;
    printf("\n  %s", has_names ? "" : "   ");
    characters_put(title, first, false);
    for (uint32_t i = 0; i < classes; i++) {
        char number[16];
        snprintf(number, sizeof number, "%u", i + 1);
        putchar(' ');
        characters_put(has_names ? name_of(v, i, plain) : number, width, true);
    }
    printf("\n");
    for (uint32_t i = 0; i < classes; i++) {
        if (has_names)
            printf("  ");
        else
            printf("  %-3u", i + 1);
        characters_put(name_of(v, i, plain), first, false);
        for (uint32_t k = 0; k < classes; k++)
            printf(" %*llu", (int)width, (unsigned long long)v->confusion[(size_t)i * classes + k]);
        printf("\n");
    }
}
