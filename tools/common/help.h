/* SPDX-License-Identifier: MIT */
/* What is generated from the option tables: help, man pages, shell completion, and words that are
   similar to a misspelt one. */
#ifndef HELP_H
#define HELP_H

#include "tools/tool.h"

/* A subcommand. */
struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary; /* one line */
};

/* Up to a row whose name is NULL (main.c). */
extern const struct command commands[];

/* One table of options, as options_parse received it. */
struct option_table {
    const char *command;
    const struct option_row *rows;
    const char *summary;
};

/* Call `take` with the option table of a command, which is not run. */
void help_table(const struct command *c, void (*take)(void *user, const struct option_table *t),
                void *user);
/* For options_parse: pass the table to help_table's caller. False: the command is run. */
bool help_takes(const struct option_table *t);

/* Help on a command. `topic` NULL: without the rows of a topic; otherwise these rows only. */
void help_print(const struct option_table *t, const char *topic);
/* `copse help [TOPIC]`, `copse help --files FOLDER`. */
int cmd_help(int argc, char **argv);

/* The man page of the command, and of all of them (manual.c). */
void manual_command(FILE *to, const struct command *c);
void manual_all(FILE *to);

/* Scripts for shells (completion.c). */
void completion_bash(FILE *to);
void completion_zsh(FILE *to);
void completion_fish(FILE *to);

/* Options that every command has, and what follows them in a list: "debug", "help". */
extern const struct option_row common_options[];

/* The topic of a row and, in *group, its group; call it with each row in order. *group is NULL
   before the first. */
const char *help_topic(const struct option_row *row, const struct option_row **group);
/* Whether the row is an option "--name"; and whether help, man pages and completion offer it. */
bool help_is_option(const struct option_row *row);
bool help_is_offered(const struct option_row *row);

/* Of the words, the one with the fewest edits to `word`, if they are few; otherwise NULL.
   (similar.c) */
const char *similar_word(const char *word, const char *const *words, size_t count);

#endif
