/* SPDX-License-Identifier: MIT */
/* Long options from a table: --name value, --name=value, --flag, --help. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/help.h"

static const struct option_row *words_row(const struct option_row *rows)
{
    while (rows->name && rows->kind != OPTION_WORDS)
        rows++;
    return rows->name ? rows : NULL;
}

static int options_complain(const char *command, const char *name, const char *value,
                            const char *wanted)
{
    fprintf(stderr, "copse %s: --%s: '%s' is not %s\n", command, name, value, wanted);
    return EXIT_BAD_INPUT;
}

/* ":N" after a name, or nothing. */
static bool read_number(const char *text, uint32_t *out)
{
    char *end = NULL;
    *out = 0;
    if (!*text)
        return true;
    if (text[0] != ':' || !isdigit((unsigned char)text[1]))
        return false;
    const unsigned long long x = strtoull(text + 1, &end, 10);
    *out = x <= UINT32_MAX ? (uint32_t)x : 0;
    return !*end && *out > 0;
}

static bool is_numbered(const struct option_choice *choice, const struct option_name *n)
{
    return choice->numbered && strcmp(choice->numbered, n->name) == 0;
}

bool option_choose(struct option_choice *choice, const char *value)
{
    for (const struct option_name *n = choice->names; n->name; n++) {
        const size_t length = strlen(n->name);
        uint32_t number = 0;
        if (strncmp(n->name, value, length) != 0 ||
            (is_numbered(choice, n) ? !read_number(value + length, &number)
                                    : value[length] != '\0'))
            continue;
        choice->at = n;
        choice->number = number;
        return true;
    }
    return false;
}

static int options_choose(const char *command, const struct option_row *row, const char *value)
{
    struct option_choice *choice = row->to;
    if (option_choose(choice, value))
        return -1;
    fprintf(stderr, "copse %s: --%s: '%s' is not one of", command, row->name, value);
    for (const struct option_name *n = choice->names; n->name; n++)
        fprintf(stderr, "%s %s%s", n == choice->names ? "" : ",", n->name,
                is_numbered(choice, n) ? "[:N]" : "");
    fprintf(stderr, "\n");
    return EXIT_BAD_INPUT;
}

/* A number of bytes with a unit, or without. */
static bool read_bytes(const char *value, uint64_t *out)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {
        { "", 1 },
        { "B", 1 },
        { "KB", 1e3 },
        { "MB", 1e6 },
        { "GB", 1e9 },
        { "TB", 1e12 },
        { "KiB", 1024 },
        { "MiB", 1048576 },
        { "GiB", 1073741824 },
        { "TiB", 1099511627776 },
    };
    char *end;
    const double x = strtod(value, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].name) == 0 && isdigit((unsigned char)value[0]) &&
            x * units[i].bytes < 1e18) {
            *out = (uint64_t)(x * units[i].bytes);
            return true;
        }
    return false;
}

static int options_store(const char *command, const struct option_row *row, const char *value)
{
    char *end = NULL;
    errno = 0;
    if (row->kind == OPTION_TEXT) {
        *(const char **)row->to = value;
    } else if (row->kind == OPTION_TEXTS) {
        struct option_texts *texts = row->to;
        if (texts->count == OPTION_TEXTS_MOST) {
            fprintf(stderr, "copse %s: --%s: may be given %d times\n", command, row->name,
                    OPTION_TEXTS_MOST);
            return EXIT_BAD_INPUT;
        }
        texts->at[texts->count++] = value;
    } else if (row->kind == OPTION_CHOICE) {
        return options_choose(command, row, value);
    } else if (row->kind == OPTION_BYTES) {
        if (!read_bytes(value, row->to))
            return options_complain(command, row->name, value,
                                    "a number of bytes, as 512MiB, 6GiB or 1.5GB");
    } else if (row->kind == OPTION_FLOAT) {
        const double x = strtod(value, &end);
        if (end == value || *end || errno || !isfinite(x))
            return options_complain(command, row->name, value, "a number");
        if (!isfinite((float)x))
            return options_complain(command, row->name, value,
                                    "a number that fits 32 bits (3.4e38)");
        *(float *)row->to = (float)x;
    } else {
        const unsigned long long x = strtoull(value, &end, 10);
        const bool is_seconds = row->kind == OPTION_SECONDS;
        const bool is_count = row->kind == OPTION_COUNT || is_seconds;
        if (is_seconds && (!isdigit((unsigned char)value[0]) || *end || x < 1 || x > 1000000))
            return options_complain(command, row->name, value,
                                    "a whole number of seconds, 1 to 1000000");
        if (!isdigit((unsigned char)value[0]) || *end || errno || (is_count && x > UINT32_MAX))
            return options_complain(command, row->name, value, "a whole number from 0");
        if (is_count)
            *(uint32_t *)row->to = (uint32_t)x;
        else
            *(uint64_t *)row->to = x;
    }
    return -1;
}

static const struct option_row *options_find(const struct option_row *rows, const char *name,
                                             size_t length)
{
    for (; rows->name; rows++)
        if (help_is_option(rows) && strlen(rows->name) == length &&
            strncmp(rows->name, name, length) == 0)
            return rows;
    return NULL;
}

static bool is_path(const char *word)
{
    struct system_file info;
    const char *dot = strrchr(word, '.');
    return word[0] != '-' && (system_look(word, &info) || strchr(word, '/') ||
                              (dot && isalpha((unsigned char)dot[1])));
}

static int options_unknown(const char *command, const struct option_row *rows, const char *name)
{
    const struct option_row *const all = rows;
    const char *names[128];
    char word[64];
    size_t count = 0;
    for (; rows->name && count < sizeof names / sizeof *names; rows++)
        if (help_is_offered(rows))
            names[count++] = rows->name;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(name, "="), name);
    const char *like = similar_word(word + strspn(word, "-"), names, count);
    fprintf(stderr, "copse %s: unknown option '%s'; ", command, name);
    for (rows = all; rows->name; rows++)
        if (rows->kind == OPTION_HINT && strcmp(word + strspn(word, "-"), rows->name) == 0) {
            fprintf(stderr, "did you mean %s?\n", rows->help);
            return EXIT_BAD_INPUT;
        }
    if (options_find(all, "data", strlen("data")) && is_path(name))
        fprintf(stderr, "did you mean --data %s?\n", name);
    else if (like)
        fprintf(stderr, "did you mean --%s?\n", like);
    else
        fprintf(stderr, "`copse %s --help` lists them\n", command);
    return EXIT_BAD_INPUT;
}

/* Memory for all arguments of a command, if it takes words; false without memory. */
static bool make_words(const struct option_row *rows, size_t most)
{
    static const char **at; /* of the last command line */
    const struct option_row *row = words_row(rows);
    if (!row)
        return true;
    struct option_words *words = row->to;
    const char **new = realloc(at, (most + 1) * sizeof *at);
    if (!new)
        return false;
    at = new;
    *words = (struct option_words){ .at = at };
    return true;
}

/* False if the command takes no words. "-" is one: standard input. */
static bool take_word(const struct option_row *rows, const char *word)
{
    const struct option_row *row = word[0] != '-' || !word[1] ? words_row(rows) : NULL;
    struct option_words *words = row ? row->to : NULL;
    if (!words)
        return false;
    words->at[words->count++] = word;
    return true;
}

int options_parse(int argc, char **argv, const struct option_row *rows, const char *summary)
{
    const struct option_table table = { argv[0], rows, summary };
    if (help_takes(&table))
        return EXIT_DONE;
    if (!make_words(rows, (size_t)argc)) {
        fprintf(stderr, "copse %s: no memory for its arguments\n", argv[0]);
        return EXIT_FAILED;
    }
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
            help_print(&table, NULL);
            return EXIT_DONE;
        }
        if (strcmp(name, "--debug") == 0) {
            session_debug();
            continue;
        }
        const char *value = strchr(name, '=');
        const size_t length = value ? (size_t)(value - name) : strlen(name);
        const struct option_row *row =
            strncmp(name, "--", 2) == 0 ? options_find(rows, name + 2, length - 2) : NULL;
        if (!row && take_word(rows, name))
            continue;
        if (!row)
            return options_unknown(argv[0], rows, name);
        if (row->kind == OPTION_FLAG) {
            if (value)
                return options_complain(argv[0], row->name, value + 1,
                                        "wanted: the option is a switch");
            *(bool *)row->to = true;
            continue;
        }
        if (!value && i + 1 == argc) {
            fprintf(stderr, "copse %s: --%s needs a value (%s)\n", argv[0], row->name, row->arg);
            return EXIT_BAD_INPUT;
        }
        const int code = options_store(argv[0], row, value ? value + 1 : argv[++i]);
        if (code >= 0)
            return code;
    }
    return -1;
}
