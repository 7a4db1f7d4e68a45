/* SPDX-License-Identifier: MIT */
/* The device card as one self-contained HTML page: no scripts, fonts or image files. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "prover/report/card_sections.h"

static const char style[] =
    ":root{--ink:#1d2430;--soft:#5d6878;--line:#dfe3e9;--paper:#fff;--tint:#f5f7f9;--good:#1a7f4b;"
    "--poor:#b3261e;--none:#8a6d1a;--fwd:#2f6fb2;--grd:#7a4fb0}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e9ee;--soft:#a2abb8;--line:#343b46;"
    "--paper:#171b21;--tint:#1f242c;--good:#5cc48d;--poor:#ff8a80;--none:#e0bf5a;--fwd:#6ea8e6;"
    "--grd:#b48ee8}}\n"
    "*{box-sizing:border-box}body{font:15px/1.5 system-ui,-apple-system,'Segoe UI','DejaVu Sans',"
    "sans-serif;color:var(--ink);background:var(--paper);margin:0}\n"
    "main{max-width:900px;margin:0 auto;padding:24px 20px 60px}\n"
    "h1{font-size:25px;line-height:1.25;margin:0 0 4px}h2{font-size:18px;margin:32px 0 6px}\n"
    "p{margin:6px 0}.soft{color:var(--soft)}.card+.card{border-top:3px solid var(--line);"
    "margin-top:48px;padding-top:32px}\n"
    ".verdict{border-left:6px solid var(--good);background:var(--tint);padding:12px 16px;"
    "margin:16px 0;font-size:17px}.verdict.bad{border-color:var(--poor)}\n"
    ".two{display:grid;grid-template-columns:1fr 1fr;gap:0 32px}"
    "@media(max-width:700px){.two{grid-template-columns:1fr}}\n"
    "table{border-collapse:collapse;width:100%;font-size:13.5px}"
    "th{text-align:left;font-weight:600;color:var(--soft)}"
    "th,td{padding:3px 10px 3px 0;border-bottom:1px solid var(--line);vertical-align:top;"
    "overflow-wrap:anywhere}td.n,th.n{text-align:right;white-space:nowrap}\n"
    "code,pre{font:12.5px/1.45 ui-monospace,'DejaVu Sans Mono',monospace}"
    "pre{background:var(--tint);padding:8px 12px;margin:4px 0;white-space:pre-wrap;"
    "overflow-wrap:anywhere}\n"
    ".b{font-weight:600;white-space:nowrap}.PASS{color:var(--good)}.bad{color:var(--poor)}"
    ".none{color:var(--none)}.verdict.bad{color:inherit}\n"
    "svg{max-width:100%;height:auto;font:12px system-ui,'DejaVu Sans',sans-serif}"
    "svg text{fill:var(--ink)}svg .cap{fill:var(--soft);font-size:11px}"
    "svg .grid{stroke:var(--line)}svg .limit{stroke:var(--poor);stroke-dasharray:4 3}"
    "svg .fwd,.key.fwd{fill:var(--fwd)}svg .grd,.key.grd{fill:var(--grd)}svg rect.bad{fill:"
    "var(--poor)}.key{display:inline-block;width:11px;height:11px;margin:0 4px 0 12px}"
    ".key.fwd{background:var(--fwd)}.key.grd{background:var(--grd)}.key.bad{background:var(--poor)}"
    "\n"
    "details{margin:8px 0}summary{cursor:pointer}\n";

static const char *verdict_class(copse_verdict v)
{
    return v == COPSE_VERDICT_PASS ? "PASS" : copse_verdict_fails(v) ? "bad" : "none";
}

static void card_html_verdict(FILE *f, copse_verdict v)
{
    fprintf(f, "<span class='b %s'>%s</span>", verdict_class(v), copse_verdict_name(v));
}

/* ---- tables ---- */

static void card_html_begin(FILE *f, const struct card_section *s, const struct card *c);

static void card_html_end(FILE *f, const struct card_section *s, const struct card *c)
{
    fprintf(f, "</table>%s", s->summary ? "</details>" : "");
    if (s->after)
        fprintf(f, "<p class='soft'>%s<code>%s %s</code></p>", s->after, s->command,
                c->device->info.id);
}

static void row_begin(FILE *f)
{
    fprintf(f, "<tr>");
}

static void row_end(FILE *f)
{
    fprintf(f, "</tr>\n");
}

static void cell_begin(FILE *f, const struct card_column *column)
{
    static const char *const tags[] = { [CARD_COLUMN_TEXT] = "<td>",
                                        [CARD_COLUMN_NUMBER] = "<td class='n'>",
                                        [CARD_COLUMN_NAME] = "<th>" };
    fputs(tags[column->kind], f);
}

static void cell_end(FILE *f, const struct card_column *column)
{
    fputs(column->kind == CARD_COLUMN_NAME ? "</th>" : "</td>", f);
}

static void card_html_code(FILE *f, const char *text)
{
    fprintf(f, "<code>");
    copse__report_escape(f, text);
    fprintf(f, "</code>");
}

static void card_html_soft(FILE *f, const char *text)
{
    fprintf(f, "<td class='soft'>%s</td>", text);
}

static void error_cell(FILE *f, const struct copse_case_result *k)
{
    if (!k)
        fprintf(f, "<td></td>");
    else if (copse_case_share(k) == 0.0)
        fprintf(f, "<td>exact</td>");
    else
        fprintf(f, "<td title=\"%s\">%.3g %s of %.3g</td>", copse__card_metric_help(k->metric),
                k->worst, k->metric, k->limit);
}

static const struct card_format html = {
    .begin = card_html_begin,
    .end = card_html_end,
    .row_begin = row_begin,
    .row_end = row_end,
    .cell_begin = cell_begin,
    .cell_end = cell_end,
    .text = copse__report_escape,
    .code = card_html_code,
    .soft = card_html_soft,
    .verdict = card_html_verdict,
    .error = error_cell,
    .between_lines = "<br>",
    .between_words = " ",
    .has_plots = true,
};

static void card_html_begin(FILE *f, const struct card_section *s, const struct card *c)
{
    fprintf(f, "<h2>%s</h2>", s->heading);
    if (s->intro)
        fprintf(f, "<p%s>%s</p>", s->is_warning ? "" : " class='soft'", s->intro);
    if (s->summary && s->count)
        fprintf(f, "<details><summary>%zu %s</summary>", s->count(c), s->summary);
    else if (s->summary)
        fprintf(f, "<details><summary>%s</summary>", s->summary);
    fprintf(f, "<table>");
    if (*s->columns[0].label) {
        fprintf(f, "<tr>");
        for (size_t i = 0; i < copse__card_columns(s, &html); i++)
            fprintf(f, "<th%s>%s</th>",
                    s->columns[i].kind == CARD_COLUMN_NUMBER ? " class='n'" : "",
                    s->columns[i].label);
        fprintf(f, "</tr>");
    }
    fputc('\n', f);
}

/* A section, with a line of its own. */
static void card_html_section(FILE *f, enum card_section_id id, const struct card *c)
{
    copse__card_section(f, &html, id, c);
    if (copse_card_sections[id].is_there(c))
        fputc('\n', f);
}

/* ---- what is no table ---- */

static void card_html_failures(FILE *f, const struct card *c)
{
    char line[1200];
    if (c->bad == 0)
        return;
    fprintf(f, "<h2>Failures</h2>\n");
    for (size_t i = 0; i < c->results->case_count; i++) {
        const struct copse_case_result *k = &c->results->cases[i];
        if (!copse__card_is_of(c, k) || !copse_verdict_fails(k->verdict))
            continue;
        fprintf(f, "<p>");
        card_html_verdict(f, k->verdict);
        fprintf(f, " <code>%s</code> <b>", k->mode);
        copse__report_escape(f, k->op);
        fprintf(f, "</b>: ");
        copse__report_escape(f, k->name);
        if (*k->variant)
            fprintf(f, " (<code>%s</code>)", k->variant);
        fprintf(f, "<br><span class='soft'>");
        copse__report_escape(f, k->text);
        if (*copse__case_measure(line, sizeof line, k)) {
            fprintf(f, "%s", *k->text ? "; " : "");
            copse__report_escape(f, line);
        }
        fprintf(f, "</span></p><pre>");
        copse__report_escape(f, copse__case_repeat(line, sizeof line, c->results, k));
        fprintf(f, "</pre>\n");
    }
}

static void card_html_plots(FILE *f, const struct card *c)
{
    bool has_speed = false;
    for (size_t i = 0; i < c->row_count; i++)
        has_speed |= c->rows[i].speed != NULL;
    fprintf(
        f,
        "<h2>Errors relative to the limit</h2><p class='soft'>Shorter is better; the "
        "dashed line is the limit. Exact ops are omitted. <i>By</i> names a forced kernel; "
        "the end of the page explains ulp, R and norm.</p>"
        "<p class='soft'><span class='key fwd'></span>result<span class='key grd'></span>gradient"
        "<span class='key bad'></span>too large</p>\n");
    copse__card_plot_errors(f, c);
    if (!has_speed)
        return;
    fprintf(f,
            "<h2>Speed</h2><p class='soft'>Longer is better; the dashed line is a plain copy of "
            "large memory on the same device; results that stay in a cache can be faster.</p>\n");
    copse__card_plot_speed(f, c);
}

static void card_html_legend(FILE *f)
{
    fprintf(f, "<h2>How to read this card</h2><details><summary>Verdicts and measures</summary>"
               "<table>\n");
#define ROW(name, text)                         \
    fprintf(f, "<tr><td>");                     \
    card_html_verdict(f, COPSE_VERDICT_##name); \
    fprintf(f, "</td><td>%s</td></tr>\n", text);
    COPSE_VERDICT_MAP(ROW)
#undef ROW
    static const char *const metrics[] = { "ulp", "R", "norm", "bits" };
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
        fprintf(f, "<tr><td><code>%s</code></td><td>%s</td></tr>\n", metrics[i],
                copse__card_metric_help(metrics[i]));
    fprintf(f, "</table></details>\n");
}

static void one_card(FILE *f, const struct card *c)
{
    char line[400];
    fprintf(f, "<section class='card' id='");
    copse__report_escape(f, c->device->info.id);
    fprintf(f, "'><h1>");
    copse__report_escape(f, c->device->info.name);
    fprintf(f, "</h1><p class='soft'>");
    copse__report_escape(f, c->device->info.id);
    fprintf(f, ", driver ");
    copse__report_escape(f, c->device->info.driver);
    fprintf(f,
            "<br>checked by Copse %s on %s, tier <code>%s</code></p>\n"
            "<div class='verdict%s'>%s</div>\n",
            c->results->library, c->results->started, c->results->tier, c->bad ? " bad" : "",
            copse__card_sentence(line, sizeof line, c));
    card_html_failures(f, c);
    card_html_section(f, CARD_BLOCKED, c);
    card_html_section(f, CARD_MODES, c);
    card_html_plots(f, c);
    card_html_section(f, CARD_ROWS, c);
    card_html_section(f, CARD_REASONS, c);
    fprintf(f, "<div class='two'><div>");
    copse__card_section(f, &html, CARD_IDENTITY, c);
    fprintf(f, "</div><div>");
    copse__card_section(f, &html, CARD_LIMITS, c);
    fprintf(f, "</div></div>\n");
    card_html_section(f, CARD_ENVIRONMENT, c);
    card_html_section(f, CARD_REPORTED, c);
    card_html_section(f, CARD_HASHES, c);
    fprintf(f, "</section>\n");
}

copse_status copse__card_html(FILE *f, const copse_conformance_results *r)
{
    struct card c;
    fprintf(f, "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
               "<meta name='viewport' content='width=device-width,initial-scale=1'><title>");
    for (size_t i = 0; i < r->device_count; i++) {
        fputs(i ? ", " : "Device card: ", f);
        copse__report_escape(f, r->devices[i].info.name);
    }
    fprintf(f, "</title><style>%s</style></head><body><main>\n", style);
    if (r->device_count > 1) {
        fprintf(f, "<p class='soft'>Devices:");
        for (size_t i = 0; i < r->device_count; i++)
            fprintf(f, " <a href='#%s'>%s</a>", r->devices[i].info.id, r->devices[i].info.id);
        fprintf(f, "</p>\n");
    }
    for (size_t i = 0; i < r->device_count; i++) {
        COPSE_TRY(copse__card_make(&c, r, &r->devices[i]));
        one_card(f, &c);
        copse__card_free(&c);
    }
    card_html_legend(f);
    fprintf(f, "<h2>To repeat it</h2><pre>");
    copse__report_escape(f, r->command ? r->command : "");
    fprintf(f, "</pre>\n</main></body></html>\n");
    return COPSE_OK;
}
