/* SPDX-License-Identifier: MIT */
/* Man pages in the man macros of troff. */
#include <stdio.h>
#include <string.h>

#include "tools/common/help.h"

/* `text` as troff reads it: literal hyphens and backslashes; at the start of a line no control
   characters. */
static void manual_put(FILE *to, const char *text)
{
    bool is_start = true;
    for (const char *p = text; *p; p++) {
        if (is_start && (*p == '.' || *p == '\''))
            fputs("\\&", to);
        if (*p == '-' || *p == '\\')
            fputs(*p == '-' ? "\\-" : "\\e", to);
        else
            fputc(*p, to);
        is_start = *p == '\n';
    }
}

static void manual_begin(FILE *to, const char *page, const char *name, const char *summary)
{
    fprintf(to, ".TH ");
    for (const char *p = page; *p; p++)
        fputc(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p, to);
    fprintf(to, " 1 \"\" \"copse %s\" \"Copse\"\n.SH NAME\n", copse_version());
    manual_put(to, name);
    fprintf(to, " \\- ");
    manual_put(to, summary);
    fprintf(to, "\n");
}

static void put_option(FILE *to, const struct option_row *row)
{
    fprintf(to, ".TP\n\\fB");
    manual_put(to, row->kind == OPTION_WORDS ? "" : "--");
    manual_put(to, row->name);
    fprintf(to, "\\fR");
    if (row->arg) {
        fprintf(to, "%s\\fI", *row->name ? " " : "");
        manual_put(to, row->arg);
        fprintf(to, "\\fR");
    }
    fprintf(to, "\n");
    manual_put(to, row->help);
    fprintf(to, "\n");
}

/* Lines as they are. */
static void put_lines(FILE *to, const char *text)
{
    fprintf(to, ".nf\n");
    manual_put(to, text);
    fprintf(to, "\n.fi\n");
}

struct page {
    FILE *to;
    const struct command *command;
};

static void write_page(void *user, const struct option_table *t)
{
    const struct page *page = user;
    FILE *to = page->to;
    char name[64];
    const struct option_row *words = t->rows;
    while (words->name && words->kind != OPTION_WORDS)
        words++;
    snprintf(name, sizeof name, "copse-%s", t->command);
    manual_begin(to, name, name, page->command->summary);
    fprintf(to, ".SH SYNOPSIS\n\\fBcopse %s\\fR%s%s [\\fIOPTION\\fR...]\n.SH DESCRIPTION\n",
            t->command, words->name ? " " : "", words->name ? words->arg : "");
    put_lines(to, t->summary);
    fprintf(to, ".SH OPTIONS\n");
    for (const struct option_row *row = t->rows; row->name; row++)
        if (row->kind == OPTION_GROUP) {
            fprintf(to, ".SS ");
            manual_put(to, row->help);
            fprintf(to, "\n");
        } else if (row->kind <= OPTION_WORDS && row->help) {
            put_option(to, row);
        }
    for (const struct option_row *row = common_options; row->name; row++)
        put_option(to, row);
    const char *heading = ".SH NOTES\n";
    for (const struct option_row *row = t->rows; row->name; row++)
        if (row->kind == OPTION_NOTE) {
            fprintf(to, "%s", heading);
            put_lines(to, row->help);
            heading = ".PP\n";
        }
    heading = ".SH EXAMPLES\n";
    for (const struct option_row *row = t->rows; row->name; row++)
        if (row->kind == OPTION_EXAMPLE) {
            fprintf(to, "%s", heading);
            put_lines(to, row->help);
            heading = "";
        }
    fprintf(to, ".SH FILES\nPages with names in .md are in the folder share/doc/copse of the "
                "installation.\n"
                ".SH SEE ALSO\n\\fBcopse\\fR(1)\n");
}

void manual_command(FILE *to, const struct command *c)
{
    help_table(c, write_page, &(struct page){ to, c });
}

void manual_all(FILE *to)
{
    manual_begin(to, "copse", "copse", "trains neural networks on every device found");
    fprintf(
        to,
        ".SH SYNOPSIS\n\\fBcopse\\fR [\\fB\\-\\-debug\\fR] \\fICOMMAND\\fR [\\fIOPTION\\fR...]\n"
        ".SH COMMANDS\n");
    for (const struct command *c = commands; c->name; c++) {
        fprintf(to, ".TP\n\\fBcopse\\-%s\\fR(1)\n", c->name);
        manual_put(to, c->summary);
        fprintf(to, "\n");
    }
    fprintf(
        to,
        ".SH EXIT STATUS\n0 on success, 1 on a failure, 2 on wrong input, 3 if another worker or a "
        "server of "
        "the job is lost,\n130 or 143 if a signal stopped the run.\n"
        ".SH ENVIRONMENT\n.TP\n\\fBCOPSE_DISABLE\\fR\nbackends that are not loaded: opencl,vulkan\n"
        ".TP\n\\fBXDG_CACHE_HOME\\fR\nfolder of the cache of compiled kernels, copse [~/.cache]\n");
}
