/* SPDX-License-Identifier: MIT */
/* Long options from a table: --name value, --name=value, --flag, --help. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"

static const struct option_row *words_row(const struct option_row *rows)
{
    while (rows->name && rows->kind != OPTION_WORDS)
        rows++;
    return rows->name ? rows : NULL;
}

static void help(const char *command, const struct option_row *rows, const char *summary)
{
    const struct option_row *words = words_row(rows), *notes = rows;
    printf("usage: copse %s%s%s [OPTION...]\n\n%s\n\n", command, words ? " " : "",
           words ? words->arg : "", summary);
    for (; rows->name; rows++) {
        char left[48];
        if (rows->kind == OPTION_NOTE)
            continue;
        if (rows == words) {
            printf("  %-26s %s\n", rows->arg, rows->help);
            continue;
        }
        snprintf(left, sizeof left, "--%s%s%s", rows->name, rows->arg ? " " : "",
                 rows->arg ? rows->arg : "");
        printf("  %-26s %s\n", left, rows->help);
    }
    printf("  %-26s %s\n", "--help", "this text");
    for (; notes->name; notes++)
        if (notes->kind == OPTION_NOTE)
            printf("\n%s\n", notes->help);
}

static int complain(const char *command, const char *name, const char *value, const char *wanted)
{
    fprintf(stderr, "copse %s: --%s: '%s' is not %s\n", command, name, value, wanted);
    return EXIT_BAD_INPUT;
}

static int choose(const char *command, const struct option_row *row, const char *value)
{
    struct option_choice *choice = row->to;
    for (const struct option_name *n = choice->names; n->name; n++)
        if (strcmp(n->name, value) == 0) {
            choice->at = n;
            return -1;
        }
    fprintf(stderr, "copse %s: --%s: '%s' is not one of", command, row->name, value);
    for (const struct option_name *n = choice->names; n->name; n++)
        fprintf(stderr, "%s %s", n == choice->names ? "" : ",", n->name);
    fprintf(stderr, "\n");
    return EXIT_BAD_INPUT;
}

static int store(const char *command, const struct option_row *row, const char *value)
{
    char *end = NULL;
    errno = 0;
    if (row->kind == OPTION_TEXT) {
        *(const char **)row->to = value;
    } else if (row->kind == OPTION_CHOICE) {
        return choose(command, row, value);
    } else if (row->kind == OPTION_FLOAT) {
        const double x = strtod(value, &end);
        if (end == value || *end || errno || !isfinite(x))
            return complain(command, row->name, value, "a number");
        if (!isfinite((float)x))
            return complain(command, row->name, value, "a number that fits 32 bits (3.4e38)");
        *(float *)row->to = (float)x;
    } else {
        const unsigned long long x = strtoull(value, &end, 10);
        const bool is_seconds = row->kind == OPTION_SECONDS;
        const bool is_count = row->kind == OPTION_COUNT || is_seconds;
        if (is_seconds && (!isdigit((unsigned char)value[0]) || *end || x < 1 || x > 1000000))
            return complain(command, row->name, value, "a whole number of seconds, 1 to 1000000");
        if (!isdigit((unsigned char)value[0]) || *end || errno || (is_count && x > UINT32_MAX))
            return complain(command, row->name, value, "a whole number from 0");
        if (is_count)
            *(uint32_t *)row->to = (uint32_t)x;
        else
            *(uint64_t *)row->to = x;
    }
    return -1;
}

static const struct option_row *find(const struct option_row *rows, const char *name, size_t length)
{
    for (; rows->name; rows++)
        if (length > 0 && strlen(rows->name) == length && strncmp(rows->name, name, length) == 0)
            return rows;
    return NULL;
}

/* False if the command takes no words, or fewer words. */
static bool take_word(const struct option_row *rows, const char *word)
{
    const struct option_row *row = strncmp(word, "-", 1) != 0 ? words_row(rows) : NULL;
    struct option_words *words = row ? row->to : NULL;
    if (!words || words->count == OPTION_MAX_WORDS)
        return false;
    words->at[words->count++] = word;
    return true;
}

int options_parse(int argc, char **argv, const struct option_row *rows, const char *summary)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
            help(argv[0], rows, summary);
            return EXIT_DONE;
        }
        const char *value = strchr(name, '=');
        const size_t length = value ? (size_t)(value - name) : strlen(name);
        const struct option_row *row =
            strncmp(name, "--", 2) == 0 ? find(rows, name + 2, length - 2) : NULL;
        if (!row && take_word(rows, name))
            continue;
        if (!row) {
            fprintf(stderr, "copse %s: unknown option '%s'; `copse %s --help` lists them\n",
                    argv[0], name, argv[0]);
            return EXIT_BAD_INPUT;
        }
        if (row->kind == OPTION_FLAG) {
            if (value)
                return complain(argv[0], row->name, value + 1, "wanted: the option is a switch");
            *(bool *)row->to = true;
            continue;
        }
        if (!value && i + 1 == argc) {
            fprintf(stderr, "copse %s: --%s needs a value (%s)\n", argv[0], row->name, row->arg);
            return EXIT_BAD_INPUT;
        }
        const int code = store(argv[0], row, value ? value + 1 : argv[++i]);
        if (code >= 0)
            return code;
    }
    return -1;
}
