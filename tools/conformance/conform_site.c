/* SPDX-License-Identifier: MIT */
/* copse conformance site: joins results of many runs into one page, a table of ops and devices that
   can be searched. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/conformance/conform.h"

static const char style[] =
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,'DejaVu "
    "Sans',sans-serif;margin:24px}"
    "table{border-collapse:collapse;font-size:13.5px}th,td{padding:3px 10px;border:1px solid "
    "#8884;text-align:left;"
    "vertical-align:top}thead "
    "th{position:sticky;top:0;background:Canvas}input{font:inherit;width:24em;padding:4px 8px}"
    ".PASS{color:#1a7f4b}.bad{color:#c5362b;font-weight:600}.soft{opacity:.7;font-size:12px}\n";

/* Rows are hidden unless their text has all the words. Without scripts all rows are shown. */
static const char script[] =
    "const q=document.getElementById('q');q.hidden=false;q.oninput=()=>{const "
    "w=q.value.toLowerCase().split(/\\s+/);"
    "for(const r of document.querySelectorAll('tbody tr')){const t=r.textContent.toLowerCase();"
    "r.hidden=!w.every(x=>t.includes(x))}};\n";

/* A device of a file. */
struct column {
    const copse_conformance_results *results;
    struct copse_checked_device device;
};

struct site {
    copse_conformance_results **files;
    size_t file_count;
    struct column *columns;
    size_t column_count;
    const char **ops; /* sorted, each once */
    size_t op_count;
};

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* ---- gathering ---- */

static copse_status conform_site_gather(struct site *s)
{
    const struct copse_case_result *c;
    size_t columns = 0, cases = 0, kept = 0;
    for (size_t i = 0; i < s->file_count; i++) {
        columns += copse_conformance_device_count(s->files[i]);
        cases += copse_conformance_case_count(s->files[i]);
    }
    s->columns = calloc(columns + 1, sizeof *s->columns);
    s->ops = calloc(cases + 1, sizeof *s->ops);
    if (!s->columns || !s->ops)
        return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the page of %zu files",
                                 s->file_count);
    for (size_t i = 0; i < s->file_count; i++) {
        struct column column = { .results = s->files[i] };
        for (size_t k = 0; copse_conformance_device(s->files[i], k, &column.device); k++)
            s->columns[s->column_count++] = column;
        for (size_t k = 0; (c = copse_conformance_case(s->files[i], k)) != NULL; k++)
            if (*c->op)
                s->ops[s->op_count++] = c->op;
    }
    qsort(s->ops, s->op_count, sizeof *s->ops, compare_texts);
    for (size_t i = 0; i < s->op_count; i++)
        if (kept == 0 || strcmp(s->ops[kept - 1], s->ops[i]) != 0)
            s->ops[kept++] = s->ops[i];
    s->op_count = kept;
    return COPSE_OK;
}

/* ---- the page ---- */

/* The cases of an op on a device: "12 pass", "1 FAIL, 11 pass"; the title has the first failure. */
static void conform_site_cell(FILE *f, const struct column *column, const char *op)
{
    uint64_t counts[COPSE_VERDICT_COUNT] = { 0 };
    const struct copse_case_result *c, *bad = NULL;
    size_t total = 0;
    for (size_t i = 0; (c = copse_conformance_case(column->results, i)) != NULL; i++) {
        if (strcmp(c->op, op) != 0 || strcmp(c->device, column->device.id) != 0)
            continue;
        counts[c->verdict]++;
        total++;
        bad = !bad && copse_verdict_fails(c->verdict) ? c : bad;
    }
    fprintf(f, "<td class='%s'", bad ? "bad" : counts[COPSE_VERDICT_PASS] ? "PASS" : "");
    if (bad) {
        fprintf(f, " title=\"%s %s: ", copse_verdict_name(bad->verdict), bad->mode);
        output_escape(f, bad->name);
        fprintf(f, ": ");
        output_escape(f, bad->text);
        fprintf(f, "\"");
    }
    fprintf(f, ">%s", total ? "" : "-");
    for (int pass = 0, n = 0; pass < 2; pass++) /* failures first */
        for (int v = 0; v < COPSE_VERDICT_COUNT; v++)
            if (counts[v] && copse_verdict_fails((copse_verdict)v) == (pass == 0))
                fprintf(f, "%s%" PRIu64 " %s", n++ ? ", " : "", counts[v],
                        copse_verdict_name((copse_verdict)v));
    fprintf(f, "</td>");
}

static void conform_site_page(FILE *f, const struct site *s)
{
    fprintf(f,
            "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'><title>Conformance of "
            "%zu devices</title>"
            "<style>%s</style></head><body><h1>Conformance of %zu device%s</h1>\n"
            "<p><input id='q' type='search' placeholder='op, verdict' "
            "hidden></p>\n<table><thead><tr><th>Op</th>",
            s->column_count, style, s->column_count, s->column_count == 1 ? "" : "s");
    for (size_t k = 0; k < s->column_count; k++) {
        const struct copse_checked_device *d = &s->columns[k].device;
        fprintf(f, "<th>");
        output_escape(f, d->name);
        fprintf(f, "<br><span class='soft'>");
        output_escape(f, d->id);
        fprintf(f, ", ");
        output_escape(f, d->driver);
        fprintf(f, "<br>copse ");
        output_escape(f, copse_conformance_library(s->columns[k].results));
        fprintf(f, ", ");
        output_escape(f, copse_conformance_modes(s->columns[k].results));
        fprintf(f, "</span></th>");
    }
    fprintf(f, "</tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < s->op_count; i++) {
        fprintf(f, "<tr><th>");
        output_escape(f, s->ops[i]);
        fprintf(f, "</th>");
        for (size_t k = 0; k < s->column_count; k++)
            conform_site_cell(f, &s->columns[k], s->ops[i]);
        fprintf(f, "</tr>\n");
    }
    fprintf(f, "</tbody></table>\n<script>%s</script></body></html>\n", script);
}

static copse_status write_page(const struct site *s, const char *folder)
{
    struct output o;
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s/index.html", folder) >= sizeof path)
        return session_set_error(COPSE_ERR_IO, "the name of the folder is too long");
    COPSE_TRY(output_open(&o, path));
    conform_site_page(o.stream, s);
    return output_commit(&o);
}

int conform_site(const char *const *paths, size_t count, const char *folder)
{
    struct site s = { .files = calloc(count + 1, sizeof *s.files) };
    copse_context *ctx = NULL;
    copse_status status =
        s.files ? session_open_files(&ctx) : session_set_error(COPSE_ERR_NO_MEMORY, "no memory");
    while (status == COPSE_OK && s.file_count < count) {
        status = copse_conformance_results_read(ctx, paths[s.file_count], &s.files[s.file_count]);
        s.file_count += status == COPSE_OK;
    }
    if (status == COPSE_OK)
        status = conform_site_gather(&s);
    if (status == COPSE_OK)
        status = write_page(&s, folder);
    if (status == COPSE_OK)
        printf("%s/index.html: %zu ops on %zu device%s\n", folder, s.op_count, s.column_count,
               s.column_count == 1 ? "" : "s");
    const int code = status == COPSE_OK ? EXIT_DONE : session_fail(status);
    for (size_t i = 0; i < s.file_count; i++)
        copse_conformance_results_release(&s.files[i]);
    free(s.files);
    free(s.columns);
    free(s.ops);
    copse_context_release(&ctx);
    return code;
}
