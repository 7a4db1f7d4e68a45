/* SPDX-License-Identifier: MIT */
/* The device card as Markdown, for repositories and bug reports. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "prover/report/card.h"

/* Text of a table cell. */
static void cell(FILE *f, const char *text)
{
    for (; *text; text++) {
        if (strchr("|\\`*_<>[]", *text))
            fputc('\\', f);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, f);
    }
}

static void pair(FILE *f, const char *name, const char *value)
{
    if (!*value)
        return;
    fprintf(f, "| %s | ", name);
    cell(f, value);
    fprintf(f, " |\n");
}

static void identity(FILE *f, const struct card *c)
{
    const cJSON *o = c->device->event, *item;
    char number[64];
    fprintf(f, "### Identity and limits\n\n| | |\n|---|---|\n");
    pair(f, "device", c->device->info.name);
    pair(f, "driver", c->device->info.driver);
    pair(f, "API", copse__json_text(o, "backend"));
    pair(f, "API version", c->device->info.api_version);
    pair(f, "kind", copse__json_text(o, "kind"));
    pair(f, "UUID", copse__json_text(o, "uuid"));
    pair(f, "PCI address", copse__json_text(o, "pci"));
    pair(f, "PCI vendor", copse__json_text(o, "vendor_id"));
    pair(f, "also met as", copse__json_text(o, "same_as"));
    pair(f, "library", c->results->library);
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(o, "limits"))
    {
        char name[64];
        snprintf(name, sizeof name, "%s", item->string);
        for (char *p = name; (p = strchr(p, '_')) != NULL;)
            *p = ' ';
        pair(f, name, copse__card_number(number, sizeof number, item));
    }
    fprintf(f, "\n");
}

static void environment(FILE *f, const struct card *c)
{
    const cJSON *o = c->results->environment, *item;
    char number[64];
    if (!o)
        return;
    fprintf(f, "### Environment\n\n| | |\n|---|---|\n");
    pair(f, "system", copse__json_text(o, "system"));
    pair(f, "kernel", copse__json_text(o, "kernel"));
    pair(f, "processor", copse__json_text(o, "processor"));
    pair(f, "processors",
         copse__card_number(number, sizeof number,
                            cJSON_GetObjectItemCaseSensitive(o, "processors")));
    pair(f, "memory",
         copse__card_number(number, sizeof number,
                            cJSON_GetObjectItemCaseSensitive(o, "memory_bytes")));
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(o, "variables"))
    {
        fprintf(f, "| ");
        cell(f, item->string);
        fprintf(f, " | ");
        cell(f, cJSON_IsString(item) ? item->valuestring : "");
        fprintf(f, " |\n");
    }
    fprintf(f, "\n");
}

static void list(FILE *f, const char *name, const cJSON *texts)
{
    const cJSON *item;
    int n = 0;
    if (cJSON_GetArraySize(texts) == 0)
        return;
    fprintf(f, "| %s | ", name);
    cJSON_ArrayForEach(item, texts)
    {
        fputs(n++ ? ", " : "", f);
        cell(f, cJSON_IsString(item) ? item->valuestring : "");
    }
    fprintf(f, " |\n");
}

static void reported(FILE *f, const struct card *c)
{
    const cJSON *o = cJSON_GetObjectItemCaseSensitive(c->device->event, "reported"), *item;
    if (!o)
        return;
    fprintf(f, "### Reported by the driver\n\n| | |\n|---|---|\n");
    list(f, "loaded layers", cJSON_GetObjectItemCaseSensitive(o, "layers"));
    list(f, "loaded libraries", cJSON_GetObjectItemCaseSensitive(o, "libraries"));
    pair(f, "device UUID", copse__json_text(o, "device_uuid"));
    pair(f, "driver UUID", copse__json_text(o, "driver_uuid"));
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(o, "limits"))
        pair(f, item->string, cJSON_IsString(item) ? item->valuestring : "");
    list(f, "extensions", cJSON_GetObjectItemCaseSensitive(o, "extensions"));
    fprintf(f, "\n");
}

static void failures(FILE *f, const struct card *c)
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
        cell(f, k->op);
        fprintf(f, ": ");
        cell(f, k->name);
        if (*k->variant)
            fprintf(f, " (`%s`)", k->variant);
        fprintf(f, "  \n  ");
        cell(f, k->text);
        if (*copse__case_measure(line, sizeof line, k)) {
            fprintf(f, "%s", *k->text ? "; " : "");
            cell(f, line);
        }
        fprintf(f, "  \n  `%s`\n", copse__case_repeat(line, sizeof line, c->results, k));
    }
    fprintf(f, "\n");
}

static void blocked(FILE *f, const struct card *c)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(c->device->event, "blocked"), *b;
    if (cJSON_GetArraySize(list) == 0)
        return;
    fprintf(f, "### Blocked kernels\n\nNot used on this device and driver version:\n\n"
               "| kernel | reason |\n|---|---|\n");
    cJSON_ArrayForEach(b, list)
    {
        fprintf(f, "| `%s` | ", copse__json_text(b, "kernel"));
        cell(f, copse__json_text(b, "reason"));
        fprintf(f, " |\n");
    }
    fprintf(f, "\n");
}

static void modes(FILE *f, const struct card *c)
{
    fprintf(f, "### Modes\n\n| mode | content | cases | outcome | time |\n"
               "|---|---|---:|---|---:|\n");
    for (size_t i = 0; i < c->mode_count; i++) {
        const struct card_mode *m = &c->modes[i];
        const struct copse_conform_name *name =
            copse__conform_name_find(copse_conform_mode_names, m->mode);
        fprintf(f, "| `%s` | %s | %zu | ", m->mode, name ? name->help : "", m->cases);
        for (int v = 0, n = 0; v < COPSE_VERDICT_COUNT; v++)
            if (m->counts[v] > 0)
                fprintf(f, "%s%" PRIu64 " %s", n++ ? ", " : "", m->counts[v],
                        copse_verdict_name((copse_verdict)v));
        fprintf(f, " | %.1f s |\n", m->seconds);
    }
    fprintf(f, "\n");
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

static void rows(FILE *f, const struct card *c)
{
    fprintf(f, "### Verdict by op\n\nThe bars show the error as a fraction of the limit.\n\n"
               "| op | kernel | verdict | cases | largest error, result | largest error, gradient "
               "| speed |\n|---|---|---|---:|---|---|---:|\n");
    for (size_t i = 0; i < c->row_count; i++) {
        const struct card_row *r = &c->rows[i];
        fprintf(f, "| ");
        cell(f, *r->op ? r->op : "none");
        fprintf(f, " | %s%s%s | %s%s%s | %zu of %zu |", *r->variant ? "`" : "", r->variant,
                *r->variant ? "`" : "", copse_verdict_fails(r->verdict) ? "**" : "",
                copse_verdict_name(r->verdict), copse_verdict_fails(r->verdict) ? "**" : "",
                r->passed, r->cases);
        error_cell(f, r->forward);
        error_cell(f, r->gradient);
        if (r->speed)
            fprintf(f, " %.3g %s |\n", r->speed->gflops > 0.0 ? r->speed->gflops : r->speed->gbytes,
                    r->speed->gflops > 0.0 ? "GFLOP/s" : "GB/s");
        else
            fprintf(f, " |\n");
    }
    fprintf(f, "\n");
}

static void reasons(FILE *f, const struct card *c)
{
    if (c->reason_count == 0)
        return;
    fprintf(
        f, "### Cases that do not apply or were not run\n\n| verdict | cases | reason | example |\n"
           "|---|---:|---|---|\n");
    for (size_t i = 0; i < c->reason_count; i++) {
        const struct card_reason *r = &c->reasons[i];
        fprintf(f, "| %s | %zu | ", copse_verdict_name(r->verdict), r->cases);
        cell(f, *r->text ? r->text : "no reason given");
        fprintf(f, " | %s ", r->example->mode);
        cell(f, r->example->op);
        fprintf(f, ": ");
        cell(f, r->example->name);
        fprintf(f, " |\n");
    }
    fprintf(f, "\n");
}

static void hashes(FILE *f, const struct card *c)
{
    if (c->hashes == 0)
        return;
    fprintf(f,
            "### Determinism\n\nDigests of the bits of results.\n\n<details>"
            "<summary>%zu digests</summary>\n\n| mode | op | case | kernel | digest |\n"
            "|---|---|---|---|---|\n",
            c->hashes);
    for (size_t i = 0; i < c->results->case_count; i++) {
        const struct copse_case_result *k = &c->results->cases[i];
        if (!*k->hash || !copse__card_is_of(c, k))
            continue;
        fprintf(f, "| %s | ", k->mode);
        cell(f, k->op);
        fprintf(f, " | ");
        cell(f, k->name);
        fprintf(f, " | ");
        cell(f, k->variant);
        fprintf(f, " | `%s` |\n", k->hash);
    }
    fprintf(f, "\n</details>\n\n");
}

static void one_card(FILE *f, const struct card *c)
{
    char line[400];
    fprintf(f, "## ");
    cell(f, c->device->info.name);
    fprintf(f, "\n\n%s, driver ", c->device->info.id);
    cell(f, c->device->info.driver);
    fprintf(f, "; checked by Copse %s on %s, tier `%s`.\n\n**%s**\n\n", c->results->library,
            c->results->started, c->results->tier, copse__card_sentence(line, sizeof line, c));
    failures(f, c);
    blocked(f, c);
    modes(f, c);
    rows(f, c);
    reasons(f, c);
    identity(f, c);
    environment(f, c);
    reported(f, c);
    hashes(f, c);
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
