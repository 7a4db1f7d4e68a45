/* SPDX-License-Identifier: MIT */
/* Help in groups, and the command `copse help`. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/common/help.h"

const struct option_row common_options[] = {
    { "debug", OPTION_FLAG, NULL, NULL, "error lines contain the place in the source code" },
    { "help", OPTION_FLAG, NULL, NULL, "this text" },
    { 0 },
};

/* ---- the tables of the commands ---- */

static struct {
    void (*take)(void *user, const struct option_table *t);
    void *user;
} asked;

void help_table(const struct command *c, void (*take)(void *user, const struct option_table *t),
                void *user)
{
    char name[32];
    snprintf(name, sizeof name, "%s", c->name);
    asked.take = take;
    asked.user = user;
    c->run(1, (char *[]){ name, NULL });
    asked.take = NULL;
}

bool help_takes(const struct option_table *t)
{
    if (!asked.take)
        return false;
    asked.take(asked.user, t);
    return true;
}

bool help_is_option(const struct option_row *row)
{
    return row->kind < OPTION_WORDS;
}

bool help_is_offered(const struct option_row *row)
{
    return help_is_option(row) && row->help;
}

const char *help_topic(const struct option_row *row, const struct option_row **group)
{
    if (row->kind == OPTION_GROUP)
        *group = row;
    const bool is_alone = row->kind >= OPTION_GROUP;
    return is_alone ? row->arg : *group ? (*group)->arg : NULL;
}

/* ---- help ---- */

static bool is_shown(const char *topic, const char *wanted)
{
    return wanted ? topic && strcmp(topic, wanted) == 0 : !topic;
}

static void print_option(const struct option_row *row)
{
    char left[48];
    snprintf(left, sizeof left, "%s%s%s%s", row->kind == OPTION_WORDS ? "" : "--", row->name,
             row->arg && *row->name ? " " : "", row->arg ? row->arg : "");
    printf("  %-26s %s\n", left, row->help);
}

static void print_options(const struct option_row *rows, const char *wanted)
{
    const struct option_row *group = NULL;
    bool is_first = true;
    for (; rows->name; rows++) {
        if (!is_shown(help_topic(rows, &group), wanted))
            continue;
        if (rows->kind == OPTION_GROUP)
            printf("%s%s:\n", is_first ? "" : "\n", rows->help);
        else if (rows->kind <= OPTION_WORDS && rows->help)
            print_option(rows);
        else
            continue;
        is_first = false;
    }
}

static void print_texts(const struct option_row *rows, const char *wanted)
{
    const struct option_row *group = NULL;
    for (const struct option_row *row = rows; row->name; row++)
        if (row->kind == OPTION_NOTE && is_shown(help_topic(row, &group), wanted))
            printf("\n%s\n", row->help);
    const char *heading = "\nExamples:\n";
    for (const struct option_row *row = rows; row->name; row++)
        if (row->kind == OPTION_EXAMPLE && is_shown(help_topic(row, &group), wanted)) {
            printf("%s  %s\n", heading, row->help);
            heading = "";
        }
}

/* Each topic once: "Several workers: `copse help distributed`". */
static void print_topics(const struct option_row *rows)
{
    const struct option_row *last = NULL;
    for (; rows->name; rows++)
        if (rows->kind == OPTION_GROUP && rows->arg &&
            (!last || strcmp(last->arg, rows->arg) != 0)) {
            printf("\n%s: `copse help %s` lists the options.\n", rows->help, rows->arg);
            last = rows;
        }
}

/* Whether a text ends a sentence with a page: "budget of each device: memory.md". */
static bool names_page(const char *text)
{
    const char *end = text ? strstr(text, ".md") : NULL, *at = end;
    while (at && at > text && ((at[-1] >= 'a' && at[-1] <= 'z') || at[-1] == '-'))
        at--;
    return at && at < end && at - text >= 2 && at[-2] == ':';
}

/* The folder of the pages that the texts name. */
static void print_pages(const struct option_row *rows)
{
    static char room[4096 + sizeof COPSE_PAGES_BESIDE];
    while (rows->name && !names_page(rows->help))
        rows++;
    if (!rows->name)
        return;
    printf("\nPages: %s\n", installed_place(room, sizeof room, COPSE_PAGES_BESIDE,
                                            COPSE_PAGES_SOURCE, COPSE_PAGES_INSTALLED));
}

void help_print(const struct option_table *t, const char *topic)
{
    const struct option_row *words = t->rows;
    while (words->name && words->kind != OPTION_WORDS)
        words++;
    if (!topic)
        printf("usage: copse %s%s%s [OPTION...]\n\n%s\n\n", t->command, words->name ? " " : "",
               words->name ? words->arg : "", t->summary);
    print_options(t->rows, topic);
    for (const struct option_row *row = common_options; !topic && row->name; row++)
        print_option(row);
    print_texts(t->rows, topic);
    if (!topic)
        print_topics(t->rows);
    if (!topic)
        print_pages(t->rows);
}

/* ---- copse help ---- */

static void print_usage(FILE *to)
{
    fprintf(to,
            "copse %s: trains neural networks on every device found\n\n"
            "usage: copse [--debug] COMMAND [OPTION...]\n\n",
            copse_version());
    for (const struct command *c = commands; c->name; c++)
        fprintf(to, "  %-12s %s\n", c->name, c->summary);
    fprintf(to, "\n`copse help COMMAND` lists the options of a command, `copse help distributed` "
                "those for jobs of\n"
                "several workers.\n");
}

static void print_all_of(void *user, const struct option_table *t)
{
    (void)user;
    help_print(t, NULL);
}

struct topic {
    const char *name;
    bool is_found;
};

static void print_topic_of(void *user, const struct option_table *t)
{
    struct topic *topic = user;
    for (const struct option_row *row = t->rows; row->name && !topic->is_found; row++)
        topic->is_found =
            row->kind == OPTION_GROUP && row->arg && strcmp(row->arg, topic->name) == 0;
    if (topic->is_found)
        help_print(t, topic->name);
}

/* A command or a topic of one. */
static int print_word(const char *word)
{
    struct topic topic = { .name = word };
    const char *names[64];
    size_t count = 0;
    for (const struct command *c = commands; c->name; c++) {
        if (strcmp(c->name, word) == 0) {
            help_table(c, print_all_of, NULL);
            return EXIT_DONE;
        }
        names[count++] = c->name;
    }
    for (const struct command *c = commands; c->name && !topic.is_found; c++)
        help_table(c, print_topic_of, &topic);
    if (topic.is_found)
        return EXIT_DONE;
    const char *like = similar_word(word, names, count);
    fprintf(stderr, "copse help: there is no command or topic '%s'%s%s%s\n", word,
            like ? "; did you mean '" : "", like ? like : "",
            like ? "'?" : "; `copse help` lists them");
    return EXIT_BAD_INPUT;
}

/* ---- files made from the tables, for the installation ---- */

static const struct command *written; /* the command whose page is written */

static void write_page(FILE *to)
{
    manual_command(to, written);
}

static bool write_file(const char *folder, const char *place, const char *name,
                       void (*write)(FILE *to))
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, place);
    if (!system_make_folder(path) && errno != EEXIST)
        return false;
    snprintf(path, sizeof path, "%s/%s/%s", folder, place, name);
    FILE *f = system_open(path, "w");
    if (!f)
        return false;
    write(f);
    const bool is_good = !ferror(f);
    return fclose(f) == 0 && is_good;
}

static bool write_files(const char *folder)
{
    bool is_good = (system_make_folder(folder) || errno == EEXIST) &&
                   write_file(folder, "man", "copse.1", manual_all) &&
                   write_file(folder, "bash", "copse", completion_bash) &&
                   write_file(folder, "zsh", "_copse", completion_zsh) &&
                   write_file(folder, "fish", "copse.fish", completion_fish);
    for (written = commands; is_good && written->name; written++) {
        char name[64];
        snprintf(name, sizeof name, "copse-%s.1", written->name);
        is_good = write_file(folder, "man", name, write_page);
    }
    return is_good;
}

int cmd_help(int argc, char **argv)
{
    struct option_words words = { 0 };
    const char *folder = NULL;
    const struct option_row rows[] = {
        { "", OPTION_WORDS, &words, "[COMMAND]",
          "a command, or `distributed`: options for jobs of several workers" },
        { "files", OPTION_TEXT, &folder, "FOLDER",
          "write man pages and shell completion into this folder" },
        { 0 },
    };
    const int code = options_parse(argc, argv, rows, "Prints the commands, or the options of one.");
    if (code >= 0)
        return code;
    if (folder && write_files(folder))
        return EXIT_DONE;
    if (folder) {
        fprintf(stderr, "copse help: cannot write into '%s': %s\n", folder, strerror(errno));
        return EXIT_BAD_INPUT;
    }
    if (words.count > 0)
        return print_word(words.at[0]);
    print_usage(stdout);
    return EXIT_DONE;
}
