/* SPDX-License-Identifier: MIT */
/* Results for other programs: JUnit XML, CSV and lines of JSON. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "prover/report/report.h"

/* ---- JUnit ---- */

static bool same_suite(const struct copse_case_result *a, const struct copse_case_result *b)
{
    return strcmp(a->device, b->device) == 0 && strcmp(a->mode, b->mode) == 0;
}

static bool is_error(copse_verdict v)
{
    return v == COPSE_VERDICT_CRASH || v == COPSE_VERDICT_TIMEOUT ||
           v == COPSE_VERDICT_DEVICE_LOST || v == COPSE_VERDICT_OOM;
}

static bool is_skip(copse_verdict v)
{
    return v == COPSE_VERDICT_SKIP || v == COPSE_VERDICT_UNSUPPORTED || v == COPSE_VERDICT_XFAIL;
}

static void junit_case(FILE *f, const copse_conformance_results *r,
                       const struct copse_case_result *c)
{
    char line[1200];
    const char *tag = is_error(c->verdict) ? "error" : is_skip(c->verdict) ? "skipped" : "failure";
    fprintf(f, "    <testcase classname=\"");
    copse__report_escape(f, c->device);
    fprintf(f, ".%s.%s\" name=\"", c->mode, c->op);
    copse__report_escape(f, c->name);
    if (*c->variant)
        fprintf(f, " [%s]", c->variant);
    fprintf(f, "\" time=\"%.6f\"", c->seconds);
    if (c->verdict == COPSE_VERDICT_PASS) {
        fprintf(f, "/>\n");
        return;
    }
    fprintf(f, ">\n      <%s message=\"%s", tag, copse_verdict_name(c->verdict));
    if (*c->text) {
        fputs(": ", f);
        copse__report_escape(f, c->text);
    }
    fputs("\">", f);
    if (!is_skip(c->verdict)) {
        copse__report_escape(f, copse__case_measure(line, sizeof line, c));
        fputs("\n", f);
        copse__report_escape(f, copse__case_repeat(line, sizeof line, r, c));
    }
    fprintf(f, "</%s>\n    </testcase>\n", tag);
}

static void junit_suite(FILE *f, const copse_conformance_results *r, size_t first)
{
    const struct copse_case_result *c = &r->cases[first];
    size_t count = 0, failures = 0, errors = 0, skips = 0;
    double seconds = 0.0;
    for (size_t i = first; i < r->case_count; i++) {
        const copse_verdict v = r->cases[i].verdict;
        if (!same_suite(c, &r->cases[i]))
            continue;
        count++;
        errors += is_error(v);
        skips += is_skip(v);
        failures += v != COPSE_VERDICT_PASS && !is_error(v) && !is_skip(v);
        seconds += r->cases[i].seconds;
    }
    fprintf(f, "  <testsuite name=\"");
    copse__report_escape(f, c->device);
    fprintf(f,
            " %s\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\" time=\"%.3f\">\n",
            c->mode, count, failures, errors, skips, seconds);
    for (size_t i = first; i < r->case_count; i++)
        if (same_suite(c, &r->cases[i]))
            junit_case(f, r, &r->cases[i]);
    fprintf(f, "  </testsuite>\n");
}

copse_status copse__table_junit(FILE *f, const copse_conformance_results *r)
{
    fprintf(f,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<testsuites name=\"copse conformance\" tests=\"%zu\" time=\"%.3f\">\n",
            r->case_count, r->seconds);
    for (size_t i = 0; i < r->case_count; i++) {
        size_t k = 0;
        while (k < i && !same_suite(&r->cases[k], &r->cases[i]))
            k++;
        if (k == i)
            junit_suite(f, r, i);
    }
    fprintf(f, "</testsuites>\n");
    return COPSE_OK;
}

/* ---- CSV ---- */

static void tables_cell(FILE *f, const char *text)
{
    if (!strpbrk(text, "\",\r\n")) {
        fputs(text, f);
        return;
    }
    fputc('"', f);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', f);
        fputc(*text, f);
    }
    fputc('"', f);
}

copse_status copse__table_csv(FILE *f, const copse_conformance_results *r)
{
    fputs("device,mode,op,case,variant,type,verdict,metric,worst,limit,nmse,index,got,expected,"
          "seconds,gflops,gbytes,seed,hash,text\n",
          f);
    for (size_t i = 0; i < r->case_count; i++) {
        const struct copse_case_result *c = &r->cases[i];
        char seed[24];
        const char *const before[] = {
            c->device, c->mode, c->op, c->name, c->variant, c->type, copse_verdict_name(c->verdict),
            c->metric
        };
        for (size_t k = 0; k < sizeof before / sizeof *before; k++) {
            tables_cell(f, before[k]);
            fputc(',', f);
        }
        if (*c->metric)
            fprintf(f, "%.17g,%.17g,%.17g,%" PRIu64 ",%.17g,%.17g,", c->worst, c->limit, c->nmse,
                    c->index, c->got, c->expected);
        else
            fputs(",,,,,,", f);
        snprintf(seed, sizeof seed, "0x%016" PRIx64, c->seed);
        if (!c->seed)
            seed[0] = '\0';
        fprintf(f, "%.6f,%.6g,%.6g,%s,%s,", c->seconds, c->gflops, c->gbytes, seed, c->hash);
        tables_cell(f, c->text);
        fputc('\n', f);
    }
    return COPSE_OK;
}

/* ---- JSON ---- */

static bool put_line(FILE *f, const cJSON *event)
{
    char *text = event ? cJSON_PrintUnformatted(event) : NULL;
    if (text)
        fprintf(f, "%s\n", text);
    cJSON_free(text);
    return text != NULL;
}

copse_status copse__table_json(FILE *f, const copse_conformance_results *r)
{
    cJSON *start = copse__results_start(r), *summary = copse__results_summary(r);
    bool is_good = put_line(f, start);
    for (size_t i = 0; i < r->device_count; i++)
        is_good = put_line(f, r->devices[i].event) && is_good;
    for (size_t i = 0; i < r->case_count; i++)
        is_good = put_line(f, r->json[i]) && is_good;
    is_good = put_line(f, summary) && is_good;
    cJSON_Delete(start);
    cJSON_Delete(summary);
    return is_good ? COPSE_OK : copse_no_memory("conformance: lines of JSON");
}
