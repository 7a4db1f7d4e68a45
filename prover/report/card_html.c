/* SPDX-License-Identifier: MIT */
/* The device card as one self-contained HTML page: no scripts, fonts or image files. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "prover/report/card.h"

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

static void verdict(FILE *f, copse_verdict v)
{
    fprintf(f, "<span class='b %s'>%s</span>", verdict_class(v), copse_verdict_name(v));
}

/* ---- who it is ---- */

static void pair(FILE *f, const char *name, const char *value)
{
    if (!*value)
        return;
    fprintf(f, "<tr><th>%s</th><td>", name);
    copse__report_escape(f, value);
    fprintf(f, "</td></tr>\n");
}

static void identity(FILE *f, const struct card *c)
{
    const cJSON *o = c->device->event, *item;
    char number[64];
    fprintf(f, "<div class='two'><div><h2>Identity</h2><table>\n");
    pair(f, "Device", c->device->info.name);
    pair(f, "Driver", c->device->info.driver);
    pair(f, "API", copse__json_text(o, "backend"));
    pair(f, "API version", c->device->info.api_version);
    pair(f, "Kind", copse__json_text(o, "kind"));
    pair(f, "UUID", copse__json_text(o, "uuid"));
    pair(f, "PCI address", copse__json_text(o, "pci"));
    pair(f, "PCI vendor", copse__json_text(o, "vendor_id"));
    pair(f, "Also met as", copse__json_text(o, "same_as"));
    if (copse__json_number(o, "memory_bytes") > 0)
        pair(f, "Memory",
             copse__card_number(number, sizeof number,
                                cJSON_GetObjectItemCaseSensitive(o, "memory_bytes")));
    pair(f, "Library", c->results->library);
    fprintf(f, "</table></div><div><h2>Limits</h2><table>\n");
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(o, "limits"))
    {
        char name[64];
        snprintf(name, sizeof name, "%s", item->string);
        for (char *p = name; (p = strchr(p, '_')) != NULL;)
            *p = ' ';
        pair(f, name, copse__card_number(number, sizeof number, item));
    }
    fprintf(f, "</table></div></div>\n");
}

/* ---- the machine and the driver ---- */

static void environment(FILE *f, const struct card *c)
{
    const cJSON *o = c->results->environment, *item;
    char number[64];
    if (!o)
        return;
    fprintf(f, "<h2>Environment</h2><table>\n");
    pair(f, "System", copse__json_text(o, "system"));
    pair(f, "Kernel", copse__json_text(o, "kernel"));
    pair(f, "Processor", copse__json_text(o, "processor"));
    pair(f, "Processors",
         copse__card_number(number, sizeof number,
                            cJSON_GetObjectItemCaseSensitive(o, "processors")));
    pair(f, "Memory",
         copse__card_number(number, sizeof number,
                            cJSON_GetObjectItemCaseSensitive(o, "memory_bytes")));
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(o, "variables"))
    {
        fprintf(f, "<tr><th><code>");
        copse__report_escape(f, item->string);
        fprintf(f, "</code></th><td>");
        copse__report_escape(f, cJSON_IsString(item) ? item->valuestring : "");
        fprintf(f, "</td></tr>\n");
    }
    fprintf(f, "</table>\n");
}

/* A list of texts, separated by `between`. */
static void list(FILE *f, const char *name, const cJSON *texts, const char *between)
{
    const cJSON *item;
    int n = 0;
    if (cJSON_GetArraySize(texts) == 0)
        return;
    fprintf(f, "<tr><th>%s</th><td>", name);
    cJSON_ArrayForEach(item, texts)
    {
        fputs(n++ ? between : "", f);
        copse__report_escape(f, cJSON_IsString(item) ? item->valuestring : "");
    }
    fprintf(f, "</td></tr>\n");
}

static void reported(FILE *f, const struct card *c)
{
    const cJSON *o = cJSON_GetObjectItemCaseSensitive(c->device->event, "reported"), *item;
    if (!o)
        return;
    fprintf(f, "<h2>Reported by the driver</h2><details><summary>Layers, libraries, identifiers, "
               "limits, extensions"
               "</summary><table>\n");
    list(f, "Loaded layers", cJSON_GetObjectItemCaseSensitive(o, "layers"), "<br>");
    list(f, "Loaded libraries", cJSON_GetObjectItemCaseSensitive(o, "libraries"), "<br>");
    pair(f, "Device UUID", copse__json_text(o, "device_uuid"));
    pair(f, "Driver UUID", copse__json_text(o, "driver_uuid"));
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(o, "limits"))
        pair(f, item->string, cJSON_IsString(item) ? item->valuestring : "");
    list(f, "Extensions", cJSON_GetObjectItemCaseSensitive(o, "extensions"), " ");
    fprintf(f, "</table></details>\n");
}

/* ---- what came out ---- */

static void modes(FILE *f, const struct card *c)
{
    fprintf(f, "<h2>Modes</h2><table><tr><th>Mode</th><th>Content</th>"
               "<th class='n'>Cases</th><th>Outcome</th><th class='n'>Time</th></tr>\n");
    for (size_t i = 0; i < c->mode_count; i++) {
        const struct card_mode *m = &c->modes[i];
        const struct copse_conform_name *name =
            copse__conform_name_find(copse_conform_mode_names, m->mode);
        fprintf(f, "<tr><td><code>%s</code></td><td>%s</td><td class='n'>%zu</td><td>", m->mode,
                name ? name->help : "", m->cases);
        for (int v = 0, n = 0; v < COPSE_VERDICT_COUNT; v++)
            if (m->counts[v] > 0) {
                fprintf(f, "%s%" PRIu64 " ", n++ ? ", " : "", m->counts[v]);
                verdict(f, (copse_verdict)v);
            }
        fprintf(f, "</td><td class='n'>%.1f s</td></tr>\n", m->seconds);
    }
    fprintf(f, "</table>\n");
}

static void blocked(FILE *f, const struct card *c)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(c->device->event, "blocked"), *b;
    if (cJSON_GetArraySize(list) == 0)
        return;
    fprintf(f,
            "<h2>Blocked kernels</h2><p>The library does not use these on this device and driver "
            "version. It uses another variant, or refuses the op if there is none.</p>"
            "<table>\n");
    cJSON_ArrayForEach(b, list)
    {
        fprintf(f, "<tr><td><code>");
        copse__report_escape(f, copse__json_text(b, "kernel"));
        fprintf(f, "</code></td><td>");
        copse__report_escape(f, copse__json_text(b, "reason"));
        fprintf(f, "</td></tr>\n");
    }
    fprintf(f,
            "</table><p class='soft'>To unblock them: <code>copse devices --unblock %s"
            "</code></p>\n",
            c->device->info.id);
}

static void failures(FILE *f, const struct card *c)
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
        verdict(f, k->verdict);
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

static void rows(FILE *f, const struct card *c)
{
    fprintf(f, "<h2>Verdict by op</h2><p class='soft'>The largest error of all cases, and the "
               "limit of that case. Default is the library's own choice; other "
               "rows force the named kernel.</p>"
               "<table><tr><th>Op</th><th>Kernel</th><th>Verdict</th><th class='n'>Cases</th>"
               "<th>Largest error, result</th><th>Largest error, gradient</th></tr>\n");
    for (size_t i = 0; i < c->row_count; i++) {
        const struct card_row *r = &c->rows[i];
        fprintf(f, "<tr><td>");
        copse__report_escape(f, *r->op ? r->op : "none");
        fprintf(f,
                *r->variant ? "</td><td><code>%s</code></td><td>"
                            : "</td><td class='soft'>default%s</td><td>",
                r->variant);
        verdict(f, r->verdict);
        fprintf(f, "</td><td class='n'>%zu of %zu</td>", r->passed, r->cases);
        error_cell(f, r->forward);
        error_cell(f, r->gradient);
        fprintf(f, "</tr>\n");
    }
    fprintf(f, "</table>\n");
}

static void plots(FILE *f, const struct card *c)
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

static void reasons(FILE *f, const struct card *c)
{
    if (c->reason_count == 0)
        return;
    fprintf(f, "<h2>What does not apply or was not run, and why</h2><table><tr><th>Verdict</th>"
               "<th class='n'>Cases</th><th>Why</th><th>For example</th></tr>\n");
    for (size_t i = 0; i < c->reason_count; i++) {
        const struct card_reason *r = &c->reasons[i];
        fprintf(f, "<tr><td>");
        verdict(f, r->verdict);
        fprintf(f, "</td><td class='n'>%zu</td><td>", r->cases);
        copse__report_escape(f, *r->text ? r->text : "no reason given");
        fprintf(f, "</td><td>%s ", r->example->mode);
        copse__report_escape(f, r->example->op);
        fprintf(f, ": ");
        copse__report_escape(f, r->example->name);
        fprintf(f, "</td></tr>\n");
    }
    fprintf(f, "</table>\n");
}

static void hashes(FILE *f, const struct card *c)
{
    if (c->hashes == 0)
        return;
    fprintf(
        f,
        "<h2>Determinism</h2><p class='soft'>Digests of the bits of results. Two runs on the same "
        "device and driver must agree; where two devices agree, their results are the same "
        "bit for bit.</p><details><summary>%zu digests</summary><table><tr><th>Mode</th>"
        "<th>Op</th><th>Case</th><th>Kernel</th><th>Digest</th></tr>\n",
        c->hashes);
    for (size_t i = 0; i < c->results->case_count; i++) {
        const struct copse_case_result *k = &c->results->cases[i];
        if (!*k->hash || !copse__card_is_of(c, k))
            continue;
        fprintf(f, "<tr><td>%s</td><td>", k->mode);
        copse__report_escape(f, k->op);
        fprintf(f, "</td><td>");
        copse__report_escape(f, k->name);
        fprintf(f, "</td><td><code>%s</code></td><td><code>%s</code></td></tr>\n", k->variant,
                k->hash);
    }
    fprintf(f, "</table></details>\n");
}

static void legend(FILE *f)
{
    fprintf(f, "<h2>How to read this card</h2><details><summary>Verdicts and measures</summary>"
               "<table>\n");
#define ROW(name, text)               \
    fprintf(f, "<tr><td>");           \
    verdict(f, COPSE_VERDICT_##name); \
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
    failures(f, c);
    blocked(f, c);
    modes(f, c);
    plots(f, c);
    rows(f, c);
    reasons(f, c);
    identity(f, c);
    environment(f, c);
    reported(f, c);
    hashes(f, c);
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
    legend(f);
    fprintf(f, "<h2>To repeat it</h2><pre>");
    copse__report_escape(f, r->command ? r->command : "");
    fprintf(f, "</pre>\n</main></body></html>\n");
    return COPSE_OK;
}
