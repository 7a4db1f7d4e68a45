/* SPDX-License-Identifier: MIT */
/* Texts about a case. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>

#include "prover/report/report.h"

double copse_case_share(const struct copse_case_result *result)
{
    if (!result || !result->metric || !*result->metric)
        return 0.0;
    if (!isfinite(result->worst))
        return HUGE_VAL;
    return result->limit > 0.0   ? result->worst / result->limit
           : result->worst > 0.0 ? HUGE_VAL
                                 : 0.0;
}

char *copse__case_measure(char *out, size_t room, const struct copse_case_result *c)
{
    *out = '\0';
    if (*c->metric && c->limit > 0.0)
        snprintf(out, room, "%.3g %s of %.3g at element %" PRIu64 ": got %.9g, expected %.9g",
                 c->worst, c->metric, c->limit, c->index, c->got, c->expected);
    else if (*c->metric)
        snprintf(out, room, "%.3g %s, 0 allowed, at element %" PRIu64 ": got %.9g, expected %.9g",
                 c->worst, c->metric, c->index, c->got, c->expected);
    return out;
}

size_t copse__case_reason(const char *text)
{
    const char *place = strstr(text, "; while ");
    return place ? (size_t)(place - text) : strlen(text);
}

char *copse__case_plain(char *out, size_t room, const char *text)
{
    size_t n = 0;
    for (const char *p = text; *p && n + 1 < room; p++)
        out[n++] = *p == '\n' ? ' ' : iscntrl((unsigned char)*p) ? '?' : *p;
    out[n] = '\0';
    return out;
}

void copse__report_escape(FILE *f, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", f);
            break;
        case '<':
            fputs("&lt;", f);
            break;
        case '>':
            fputs("&gt;", f);
            break;
        case '"':
            fputs("&quot;", f);
            break;
        case '\'':
            fputs("&#39;", f);
            break;
        default:
            fputc((unsigned char)*text < ' ' ? ' ' : *text, f);
        }
    }
}

/* ---- the line that repeats a case ---- */

struct text {
    char *out;
    size_t room, at;
};

static void case_text_put(struct text *t, const char *s)
{
    for (; *s && t->at + 1 < t->room; s++)
        t->out[t->at++] = *s;
    t->out[t->at] = '\0';
}

/* Quote for a POSIX shell. */
static void put_quoted(struct text *t, const char *s)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-.,:/+=@";
    if (*s && s[strspn(s, plain)] == '\0') {
        case_text_put(t, s);
        return;
    }
    case_text_put(t, "'");
    for (; *s; s++) {
        const char one[2] = { *s, '\0' };
        case_text_put(t, *s == '\'' ? "'\\''" : one);
    }
    case_text_put(t, "'");
}

static void put_option(struct text *t, const char *option, const char *value)
{
    case_text_put(t, option);
    put_quoted(t, value);
}

char *copse__case_repeat(char *out, size_t room, const copse_conformance_results *r,
                         const struct copse_case_result *c)
{
    struct text t = { out, room, 0 };
    case_text_put(&t, "copse conformance ");
    case_text_put(&t, c->mode);
    put_option(&t, " --device ", c->device);
    if (*c->op) {
        if (strcmp(r->tier, "quick") != 0)
            put_option(&t, " --tier ", r->tier);
        put_option(&t, " --ops ", c->op);
        put_option(&t, " --case ", c->name);
        put_option(&t, " --variant ", c->variant);
    }
    if (r->seed) {
        char seed[24];
        snprintf(seed, sizeof seed, "%" PRIu64, r->seed);
        put_option(&t, " --seed ", seed);
    }
    if (r->own_path) {
        put_option(&t, " --kernel ", r->own_path);
        put_option(&t, " --op ", r->own_kernel ? r->own_kernel : "");
    }
    return out;
}
