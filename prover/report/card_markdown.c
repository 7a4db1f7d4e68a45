/* SPDX-License-Identifier: MIT */
/* The device card as Markdown, for repositories and bug reports. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "prover/report/card_sections.h"

/* Text of a table cell. */
static void card_markdown_cell(FILE *f, const char *text)
{
    for (; *text; text++) {
        if (strchr("|\\`*_<>[]", *text))
            fputc('\\', f);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, f);
    }
}

/* ---- tables ---- */

static void card_markdown_begin(FILE *f, const struct card_section *s, const struct card *c);

static void card_markdown_end(FILE *f, const struct card_section *s, const struct card *c)
{
    if (s->after)
        fprintf(f, "\n%s`%s %s`\n", s->after, s->command, c->device->info.id);
    fprintf(f, "\n%s", s->folds_in_text ? "</details>\n\n" : "");
}

static void row_begin(FILE *f)
{
    fputc('|', f);
}

static void row_end(FILE *f)
{
    fputc('\n', f);
}

static void cell_begin(FILE *f, const struct card_column *column)
{
    (void)column;
    fputc(' ', f);
}

static void cell_end(FILE *f, const struct card_column *column)
{
    (void)column;
    fprintf(f, " |");
}

static void card_markdown_code(FILE *f, const char *text)
{
    if (*text)
        fprintf(f, "`%s`", text);
}

static void card_markdown_soft(FILE *f, const char *text)
{
    fprintf(f, " %s |", text);
}

static void card_markdown_verdict(FILE *f, copse_verdict v)
{
    const char *mark = copse_verdict_fails(v) ? "**" : "";
    fprintf(f, "%s%s%s", mark, copse_verdict_name(v), mark);
}

/* A bar of ten characters: the fraction of the tolerance. */
static void error_cell(FILE *f, const struct copse_case_result *k)
{
    if (!k) {
        fprintf(f, " |");
        return;
    }
    const double share = copse_case_share(k);
    if (share == 0.0) {
        fprintf(f, " exact |");
        return;
    }
    const int filled = share > 1.0 || isnan(share) ? 10 : (int)ceil(10.0 * share);
    fprintf(f, " `%.*s%.*s`%s %.3g %s of %.3g |", filled, "##########", 10 - filled, "..........",
            share > 1.0 ? " **too large**" : "", k->worst, k->metric, k->limit);
}

static const struct card_format markdown = {
    .begin = card_markdown_begin,
    .end = card_markdown_end,
    .row_begin = row_begin,
    .row_end = row_end,
    .cell_begin = cell_begin,
    .cell_end = cell_end,
    .text = card_markdown_cell,
    .code = card_markdown_code,
    .soft = card_markdown_soft,
    .verdict = card_markdown_verdict,
    .error = error_cell,
    .between_lines = ", ",
    .between_words = ", ",
};

static void card_markdown_begin(FILE *f, const struct card_section *s, const struct card *c)
{
    const size_t columns = copse__card_columns(s, &markdown);
    fprintf(f, "### %s\n\n", s->heading);
    if (s->intro)
        fprintf(f, "%s\n\n", s->intro);
    if (s == &copse_card_sections[CARD_ROWS])
        fprintf(f, "The bars show the error as a fraction of the limit.\n\n");
    if (s->folds_in_text)
        fprintf(f, "<details><summary>%zu %s</summary>\n\n", s->count(c), s->summary);
    for (size_t i = 0; i < columns; i++)
        fprintf(f, "| %s%s", s->columns[i].label, *s->columns[i].label ? " " : "");
    fprintf(f, "|\n");
    for (size_t i = 0; i < columns; i++)
        fprintf(f, "|---%s", s->columns[i].kind == CARD_COLUMN_NUMBER ? ":" : "");
    fprintf(f, "|\n");
}

/* ---- what is no table ---- */

static void card_markdown_failures(FILE *f, const struct card *c)
{
    char line[1200];
    if (c->bad == 0)
        return;
    fprintf(f, "### Failures\n\n");
    for (size_t i = 0; i < c->results->case_count; i++) {
        const struct copse_case_result *k = &c->results->cases[i];
        if (!copse__card_is_of(c, k) || !copse_verdict_fails(k->verdict))
            continue;
        fprintf(f, "- **%s** `%s` ", copse_verdict_name(k->verdict), k->mode);
        card_markdown_cell(f, k->op);
        fprintf(f, ": ");
        card_markdown_cell(f, k->name);
        if (*k->variant)
            fprintf(f, " (`%s`)", k->variant);
        fprintf(f, "  \n  ");
        card_markdown_cell(f, k->text);
        if (*copse__case_measure(line, sizeof line, k)) {
            fprintf(f, "%s", *k->text ? "; " : "");
            card_markdown_cell(f, line);
        }
        fprintf(f, "  \n  `%s`\n", copse__case_repeat(line, sizeof line, c->results, k));
    }
    fprintf(f, "\n");
}

static void one_card(FILE *f, const struct card *c)
{
    char line[400];
    fprintf(f, "## ");
    card_markdown_cell(f, c->device->info.name);
    fprintf(f, "\n\n%s, driver ", c->device->info.id);
    card_markdown_cell(f, c->device->info.driver);
    fprintf(f, "; checked by Copse %s on %s, tier `%s`.\n\n**%s**\n\n", c->results->library,
            c->results->started, c->results->tier, copse__card_sentence(line, sizeof line, c));
    card_markdown_failures(f, c);
    for (int id = 0; id < CARD_SECTIONS; id++)
        copse__card_section(f, &markdown, (enum card_section_id)id, c);
}

copse_status copse__card_markdown(FILE *f, const copse_conformance_results *r)
{
    struct card c;
    fprintf(f, "# Device card%s\n\n", r->device_count == 1 ? "" : "s");
    for (size_t i = 0; i < r->device_count; i++) {
        COPSE_TRY(copse__card_make(&c, r, &r->devices[i]));
        one_card(f, &c);
        copse__card_free(&c);
    }
    fprintf(f, "### Command\n\n```\n%s\n```\n", r->command ? r->command : "");
    return COPSE_OK;
}
