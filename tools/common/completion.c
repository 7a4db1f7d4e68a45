/* SPDX-License-Identifier: MIT */
/* Shell completion of commands, options, the values of choices, devices and files. */
#include <stdio.h>
#include <string.h>

#include "tools/common/help.h"

/* ---- what a value is ---- */

static bool begins_with(const char *text, const char *start)
{
    return text && strncmp(text, start, strlen(start)) == 0;
}

static bool is_path(const struct option_row *row)
{
    return begins_with(row->arg, "FILE") || begins_with(row->arg, "PATH") ||
           begins_with(row->arg, "FOLDER") || begins_with(row->arg, "DIR") ||
           begins_with(row->arg, "MODEL") || begins_with(row->arg, "DATA");
}

/* "adam adamw sgd"; false if any word is possible. */
static bool words_of(const struct option_row *row, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    if (begins_with(row->arg, "WHICH"))
        return snprintf(text, room, "auto all opencl vulkan host") > 0;
    if (row->kind != OPTION_CHOICE)
        return false;
    const struct option_choice *choice = row->to;
    for (const struct option_name *n = choice->names; n->name && used < room; n++)
        used += (size_t)snprintf(text + used, room - used, "%s%s", used ? " " : "", n->name);
    return true;
}

/* Inside '...' of a shell, and without the characters that have a meaning there to zsh. */
static void put_quoted(FILE *to, const char *text)
{
    for (; *text && *text != '\n'; text++)
        if (*text == '\'')
            fputs("'\\''", to);
        else
            fputc(*text == '[' ? '(' : *text == ']' ? ')' : *text == ':' ? ' ' : *text, to);
}

/* ---- bash ---- */

static void bash_command(void *user, const struct option_table *t)
{
    FILE *to = user;
    char words[512];
    fprintf(to, "    %s)\n        case \"$before\" in\n", t->command);
    for (const struct option_row *row = t->rows; row->name; row++) {
        if (!help_is_offered(row) || row->kind == OPTION_FLAG)
            continue;
        if (words_of(row, words, sizeof words))
            fprintf(to, "        --%s) COMPREPLY=($(compgen -W '%s' -- \"$word\")); return ;;\n",
                    row->name, words);
        else
            fprintf(to, "        --%s) %sreturn ;;\n", row->name,
                    is_path(row) ? "COMPREPLY=($(compgen -f -- \"$word\")); " : "");
    }
    fprintf(to, "        esac\n        options='");
    for (const struct option_row *row = t->rows; row->name; row++)
        if (help_is_offered(row))
            fprintf(to, "--%s ", row->name);
    fprintf(to, "--debug --help' ;;\n");
}

void completion_bash(FILE *to)
{
    fprintf(to,
            "# bash completion of copse; generated from the tables of its options\n"
            "_copse()\n{\n"
            "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options=\n"
            "    COMPREPLY=()\n"
            "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
            "        COMPREPLY=($(compgen -W '");
    for (const struct command *c = commands; c->name; c++)
        fprintf(to, "%s ", c->name);
    fprintf(to, "--help --version --debug' -- \"$word\"))\n        return\n    fi\n    case "
                "\"${COMP_WORDS[1]}\" in\n");
    for (const struct command *c = commands; c->name; c++)
        help_table(c, bash_command, to);
    fprintf(to, "    esac\n"
                "    case \"$word\" in\n"
                "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
                "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
                "    esac\n}\n"
                "complete -o filenames -F _copse copse\n");
}

/* ---- zsh ---- */

static void zsh_command(void *user, const struct option_table *t)
{
    FILE *to = user;
    char words[512];
    fprintf(to, "    %s)\n        _arguments \\\n", t->command);
    for (const struct option_row *row = t->rows; row->name; row++) {
        if (!help_is_offered(row))
            continue;
        fprintf(to, "            '--%s[", row->name);
        put_quoted(to, row->help);
        fprintf(to, "]");
        if (row->kind != OPTION_FLAG) {
            fprintf(to, ":");
            put_quoted(to, row->arg);
            if (words_of(row, words, sizeof words))
                fprintf(to, ":(%s)", words);
            else
                fprintf(to, ":%s", is_path(row) ? "_files" : "");
        }
        fprintf(to, "' \\\n");
    }
    fprintf(to, "            '--debug' '--help' '*:file:_files' ;;\n");
}

void completion_zsh(FILE *to)
{
    fprintf(to,
            "#compdef copse\n# zsh completion of copse; generated from the tables of its options\n"
            "if (( CURRENT == 2 )); then\n    local -a commands=(\n");
    for (const struct command *c = commands; c->name; c++) {
        fprintf(to, "        '%s:", c->name);
        put_quoted(to, c->summary);
        fprintf(to, "'\n");
    }
    fprintf(to, "    )\n    _describe command commands\n    return\nfi\n"
                "local command=$words[2]\nshift words\n(( CURRENT-- ))\ncase $command in\n");
    for (const struct command *c = commands; c->name; c++)
        help_table(c, zsh_command, to);
    fprintf(to, "esac\n");
}

/* ---- fish ---- */

static void fish_command(void *user, const struct option_table *t)
{
    FILE *to = user;
    char words[512];
    for (const struct option_row *row = t->rows; row->name; row++) {
        if (!help_is_offered(row))
            continue;
        fprintf(to, "complete -c copse -n '__fish_seen_subcommand_from %s' -l %s", t->command,
                row->name);
        if (row->kind != OPTION_FLAG && words_of(row, words, sizeof words))
            fprintf(to, " -x -a '%s'", words);
        else if (row->kind != OPTION_FLAG)
            fprintf(to, " %s", is_path(row) ? "-r -F" : "-x");
        fprintf(to, " -d '");
        put_quoted(to, row->help);
        fprintf(to, "'\n");
    }
}

void completion_fish(FILE *to)
{
    fprintf(to, "# fish completion of copse; generated from the tables of its options\n");
    for (const struct command *c = commands; c->name; c++) {
        fprintf(to, "complete -c copse -n __fish_use_subcommand -f -a %s -d '", c->name);
        put_quoted(to, c->summary);
        fprintf(to, "'\n");
    }
    for (const struct command *c = commands; c->name; c++)
        help_table(c, fish_command, to);
}
