/* SPDX-License-Identifier: MIT */
/* Code shared by both forms of the device card: results grouped by op, mode and reason. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "prover/report/card.h"

int copse__card_gravity(copse_verdict v)
{
    static const copse_verdict order[] = {
        COPSE_VERDICT_SKIP,    COPSE_VERDICT_UNSUPPORTED, COPSE_VERDICT_PASS,  COPSE_VERDICT_XFAIL,
        COPSE_VERDICT_OOM,     COPSE_VERDICT_MISTRUSTED,  COPSE_VERDICT_XPASS, COPSE_VERDICT_FAIL,
        COPSE_VERDICT_TIMEOUT, COPSE_VERDICT_DEVICE_LOST, COPSE_VERDICT_CRASH,
    };
    int i = 0;
    while (i + 1 < (int)(sizeof order / sizeof *order) && order[i] != v)
        i++;
    return i;
}

bool copse__card_is_of(const struct card *c, const struct copse_case_result *k)
{
    return strcmp(k->device, c->device->info.id) == 0;
}

const char *copse__card_metric_help(const char *metric)
{
    static const struct {
        const char *metric, *help;
    } rows[] = {
        { "ulp", "units in the last place: 1 is the distance from one number to the next" },
        { "R", "error over half a unit in the last place of the sum of |terms|: rounding errors of "
               "a sum" },
        { "norm", "length of the difference over the length of the result" },
        { "bits", "words that differ" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(metric, rows[i].metric) == 0)
            return rows[i].help;
    return "";
}

char *copse__card_number(char *out, size_t room, const cJSON *item)
{
    const double x = item ? item->valuedouble : 0.0;
    if (cJSON_IsBool(item))
        snprintf(out, room, "%s", cJSON_IsTrue(item) ? "yes" : "no");
    else if (x >= 9e15)
        snprintf(out, room, "no limit");
    else if (item && strstr(item->string, "bytes") && x >= 1024.0 * 1024 * 1024)
        snprintf(out, room, "%.4g GiB", x / (1024.0 * 1024 * 1024));
    else if (item && strstr(item->string, "bytes") && x >= 1024.0 * 1024)
        snprintf(out, room, "%.4g MiB", x / (1024.0 * 1024));
    else if (item && strstr(item->string, "bytes") && x >= 1024.0)
        snprintf(out, room, "%.4g KiB", x / 1024.0);
    else
        snprintf(out, room, "%.0f", x);
    return out;
}

/* ---- gathering ---- */

static struct card_row *row_of(struct card *c, const struct copse_case_result *k)
{
    for (size_t i = 0; i < c->row_count; i++)
        if (strcmp(c->rows[i].op, k->op) == 0 && strcmp(c->rows[i].variant, k->variant) == 0)
            return &c->rows[i];
    c->rows[c->row_count] = (struct card_row){
        .op = k->op,
        .variant = k->variant,
        .verdict = COPSE_VERDICT_SKIP,
    };
    return &c->rows[c->row_count++];
}

static struct card_mode *mode_of(struct card *c, const struct copse_case_result *k)
{
    for (size_t i = 0; i < c->mode_count; i++)
        if (strcmp(c->modes[i].mode, k->mode) == 0)
            return &c->modes[i];
    c->modes[c->mode_count].mode = k->mode;
    return &c->modes[c->mode_count++];
}

static void take_reason(struct card *c, const struct copse_case_result *k)
{
    struct card_reason new = { .verdict = k->verdict, .example = k };
    size_t i = 0;
    snprintf(new.text, sizeof new.text, "%.*s", (int)copse__case_reason(k->text), k->text);
    while (i < c->reason_count &&
           (c->reasons[i].verdict != k->verdict || strcmp(c->reasons[i].text, new.text) != 0))
        i++;
    if (i == c->reason_count)
        c->reasons[c->reason_count++] = new;
    c->reasons[i].cases++;
}

/* An error counts only if it was measured against a tolerance. */
static void take_worst(const struct copse_case_result **worst, const struct copse_case_result *k)
{
    if (*k->metric && (!*worst || copse_case_share(k) > copse_case_share(*worst)))
        *worst = k;
}

static void card_take(struct card *c, const struct copse_case_result *k)
{
    struct card_row *row = row_of(c, k);
    struct card_mode *mode = mode_of(c, k);
    const bool is_perf = strcmp(k->mode, "perf") == 0, is_grad = strcmp(k->mode, "grad") == 0;
    if (copse__card_gravity(k->verdict) > copse__card_gravity(row->verdict))
        row->verdict = k->verdict;
    row->cases++;
    row->passed += k->verdict == COPSE_VERDICT_PASS;
    if (is_perf) {
        const struct copse_case_result *s = row->speed;
        if (k->gflops + k->gbytes > (s ? s->gflops + s->gbytes : 0.0))
            row->speed = k;
    } else if (strcmp(k->mode, "bitwise") != 0) {
        take_worst(is_grad ? &row->gradient : &row->forward, k);
    }
    mode->counts[k->verdict]++;
    mode->cases++;
    mode->seconds += k->seconds;
    c->counts[k->verdict]++;
    c->cases++;
    c->bad += copse_verdict_fails(k->verdict);
    c->hashes += *k->hash != '\0';
    if (k->verdict == COPSE_VERDICT_SKIP || k->verdict == COPSE_VERDICT_UNSUPPORTED ||
        k->verdict == COPSE_VERDICT_XFAIL)
        take_reason(c, k);
}

copse_status copse__card_make(struct card *c, const copse_conformance_results *r,
                              const struct copse_report_device *device)
{
    struct copse_mem *mem = &r->ctx->base.mem;
    const size_t room = r->case_count + 1;
    *c = (struct card){ .device = device, .results = r };
    c->rows = copse__alloc(mem, room, sizeof *c->rows);
    c->modes = copse__alloc(mem, room, sizeof *c->modes);
    c->reasons = copse__alloc(mem, room, sizeof *c->reasons);
    if (!c->rows || !c->modes || !c->reasons) {
        copse__card_free(c);
        return copse_no_memory("conformance: the card of %s", device->info.id);
    }
    for (size_t i = 0; i < r->case_count; i++)
        if (copse__card_is_of(c, &r->cases[i]))
            card_take(c, &r->cases[i]);
    return COPSE_OK;
}

void copse__card_free(struct card *c)
{
    struct copse_mem *mem = &c->results->ctx->base.mem;
    copse__free(mem, c->rows);
    copse__free(mem, c->modes);
    copse__free(mem, c->reasons);
    *c = (struct card){ 0 };
}

char *copse__card_sentence(char *out, size_t room, const struct card *c)
{
    const size_t passed = (size_t)c->counts[COPSE_VERDICT_PASS];
    const int blocked =
        cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(c->device->event, "blocked"));
    if (c->bad)
        snprintf(out, room, "%zu of %zu results cannot be trusted.%s", c->bad, c->cases,
                 blocked ? " The kernels to blame are blocked on this device: the library uses "
                           "others in their place."
                         : "");
    else if (c->cases == 0)
        snprintf(out, room, "No case was run on this device.");
    else if (passed == c->cases)
        snprintf(out, room, "Every one of %zu results is within its tolerance.", c->cases);
    else
        snprintf(out, room,
                 "%zu results are within their tolerance, none is outside; %zu cases do "
                 "not apply to this device or were not run, see below.",
                 passed, c->cases - passed);
    return out;
}
