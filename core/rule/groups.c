/* SPDX-License-Identifier: MIT */
/* Parameter groups: their text, and which variables match. */
#include "core/rule/groups.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the text ---- */

/* A part of the text without the spaces around it. */
struct part {
    const char *at;
    size_t length;
};

/* The part until one of `ends`, or until the end. Moves `at` to that character. */
static struct part groups_take(const char **at, const char *ends)
{
    struct part p = { *at, strcspn(*at, ends) };
    *at += p.length;
    while (p.length > 0 && isspace((unsigned char)p.at[0])) {
        p.at++;
        p.length--;
    }
    while (p.length > 0 && isspace((unsigned char)p.at[p.length - 1]))
        p.length--;
    return p;
}

static copse_status groups_bad(const struct part *p, const char *expected)
{
    return copse_fail(COPSE_ERR_ARGUMENT, "optimizer: groups: \"%.*s\": %s",
                      (int)COPSE_MIN(p->length, 80), p->at, expected);
}

static bool is_setting(const struct part *p, const char *name)
{
    return p->length == strlen(name) && memcmp(p->at, name, p->length) == 0;
}

/* "name=NUMBER" */
static bool groups_number(const struct part *p, const char *name, float *out)
{
    const size_t n = strlen(name);
    char text[32], *end;
    if (p->length <= n + 1 || p->length - n > sizeof text || memcmp(p->at, name, n) != 0 ||
        p->at[n] != '=')
        return false;
    memcpy(text, p->at + n + 1, p->length - n - 1);
    text[p->length - n - 1] = '\0';
    *out = strtof(text, &end);
    return end != text && *end == '\0' && isfinite(*out);
}

static copse_status take_setting(const char **at, struct copse_rule_group *g)
{
    const struct part p = groups_take(at, ",;");
    float value;
    if (is_setting(&p, "frozen") && !g->is_frozen) {
        g->is_frozen = true;
    } else if (groups_number(&p, "rate", &value) && value > 0.0f && g->factor == 0.0f) {
        g->factor = value;
    } else if (groups_number(&p, "decay", &value) && value >= 0.0f && !g->has_decay) {
        g->has_decay = true;
        g->decay = value;
    } else {
        return groups_bad(
            &p,
            "each of these at most once is needed: rate=F with F > 0, decay=D with D >= 0, frozen");
    }
    return g->is_frozen && (g->factor > 0.0f || g->has_decay)
               ? groups_bad(
                     &p, "a frozen group has no rate and no decay: remove them, or remove frozen")
               : COPSE_OK;
}

static copse_status add_factor(struct copse_rule_groups *out, float factor, const struct part *p)
{
    for (uint32_t i = 0; i < out->factor_count; i++)
        if (out->factors[i] == factor)
            return COPSE_OK;
    if (factor == 0.0f)
        return COPSE_OK;
    if (out->factor_count == COPSE_RULE_RATES)
        return groups_bad(p, "a ninth value of rate: 8 different ones are possible");
    out->factors[out->factor_count++] = factor;
    return COPSE_OK;
}

static copse_status take_patterns(const char **at, struct copse_rule_groups *out)
{
    for (;; ++*at) {
        const struct part p = groups_take(at, ",:;");
        struct copse_rule_group *g = &out->at[out->count];
        if (p.length == 0 || p.length >= COPSE_RULE_PATTERN)
            return groups_bad(&p, "a pattern of 1 to 63 bytes is needed");
        if (out->count == COPSE_RULE_GROUPS)
            return groups_bad(&p, "a 33rd pattern: 32 are possible");
        if (**at != ':' && **at != ',')
            return groups_bad(&p, "write PATTERN: SETTINGS, as \"*.bias: decay=0\"");
        memcpy(g->pattern, p.at, p.length);
        out->count++;
        if (**at == ':')
            return COPSE_OK;
    }
}

static copse_status take_group(const char **at, struct copse_rule_groups *out)
{
    const uint32_t first = out->count;
    struct copse_rule_group all = { .factor = 0.0f };
    const char *begin = *at;
    COPSE_TRY(take_patterns(at, out));
    do {
        ++*at;
        COPSE_TRY(take_setting(at, &all));
    } while (**at == ',');
    const struct part whole = { begin, (size_t)(*at - begin) };
    COPSE_TRY(add_factor(out, all.factor, &whole));
    for (uint32_t i = first; i < out->count; i++) {
        memcpy(all.pattern, out->at[i].pattern, sizeof all.pattern);
        out->at[i] = all;
    }
    return COPSE_OK;
}

static bool is_blank(const char *at)
{
    return at[strspn(at, " \t\n;")] == '\0';
}

copse_status copse__groups_parse(const char *text, struct copse_rule_groups *out)
{
    *out = (struct copse_rule_groups){ .count = 0 };
    for (const char *at = text; at && !is_blank(at); at += *at == ';')
        COPSE_TRY(take_group(&at, out));
    return COPSE_OK;
}

copse_status copse_parameter_groups_check(const char *text)
{
    struct copse_rule_groups unused;
    COPSE_TRY(copse_need("parameter_groups_check", text));
    return copse__groups_parse(text, &unused);
}

char *copse__groups_text(const struct copse_rule_groups *g, char text[COPSE_GROUPS_TEXT])
{
    size_t at = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < g->count; i++) {
        const struct copse_rule_group *one = &g->at[i];
        const char *between = ": ";
        at += (size_t)snprintf(text + at, COPSE_GROUPS_TEXT - at, "%s%s", i > 0 ? "; " : "",
                               one->pattern);
        if (one->factor > 0.0f) {
            at += (size_t)snprintf(text + at, COPSE_GROUPS_TEXT - at, "%srate=%.9g", between,
                                   (double)one->factor);
            between = ", ";
        }
        if (one->has_decay)
            at += (size_t)snprintf(text + at, COPSE_GROUPS_TEXT - at, "%sdecay=%.9g", between,
                                   (double)one->decay);
        if (one->is_frozen)
            at += (size_t)snprintf(text + at, COPSE_GROUPS_TEXT - at, ": frozen");
    }
    return text;
}

/* ---- which variables match ---- */

uint32_t copse__groups_find(const struct copse_rule_groups *g, const char *name)
{
    uint32_t i = 0;
    while (i < g->count && !copse__pattern_fits(g->at[i].pattern, name))
        i++;
    return i;
}

bool copse_parameter_groups_freezes(const char *text, const char *name)
{
    struct copse_rule_groups g;
    if (!name || copse__groups_parse(text, &g) != COPSE_OK)
        return false;
    const uint32_t at = copse__groups_find(&g, name);
    return at < g.count && g.at[at].is_frozen;
}

uint32_t copse__groups_offset(const struct copse_rule_groups *g, uint32_t group)
{
    for (uint32_t k = 0; group < g->count && k < g->factor_count; k++)
        if (g->factors[k] == g->at[group].factor)
            return COPSE_STEP_GROUP + k;
    return 0;
}

/* ---- patterns without a match ---- */

/* Characters to insert, remove or replace until the pattern matches the first bytes of the name. */
static uint32_t groups_distance(const char *pattern, const char *name)
{
    enum { MOST = 128 };
    const size_t n = COPSE_MIN(strlen(name), (size_t)MOST);
    uint32_t row[MOST + 1];
    for (size_t i = 0; i <= n; i++)
        row[i] = (uint32_t)i;
    for (; *pattern; pattern++) {
        const bool is_star = *pattern == '*';
        uint32_t before = row[0];
        row[0] += !is_star;
        for (size_t i = 1; i <= n; i++) {
            const uint32_t up = row[i],
                           same = before + !(*pattern == '?' || *pattern == name[i - 1]);
            row[i] = is_star ? COPSE_MIN(up, row[i - 1])
                             : COPSE_MIN(same, COPSE_MIN(up, row[i - 1]) + 1);
            before = up;
        }
    }
    return row[n];
}

static copse_status no_match(const char *pattern, const char *const *names, size_t count)
{
    enum { SHOWN = 12 };
    char list[SHOWN * 64] = "";
    size_t used = 0, chosen[SHOWN];
    for (uint32_t k = 0; k < COPSE_MIN(count, (size_t)SHOWN) && used < sizeof list - 64; k++) {
        size_t best = SIZE_MAX;
        for (size_t i = 0; i < count; i++) {
            bool is_new = true;
            for (uint32_t c = 0; c < k; c++)
                is_new &= chosen[c] != i;
            if (is_new && (best == SIZE_MAX || groups_distance(pattern, names[i]) <
                                                   groups_distance(pattern, names[best])))
                best = i;
        }
        chosen[k] = best;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s'%.56s'", k > 0 ? ", " : "",
                                 names[best]);
    }
    return copse_fail(COPSE_ERR_ARGUMENT,
                      "optimizer: groups: \"%s\" matches no trained variable; close names are %s",
                      pattern, list);
}

copse_status copse__groups_check(const struct copse_rule_groups *g, const char *const *names,
                                 size_t count)
{
    for (uint32_t k = 0; k < g->count; k++) {
        size_t i = 0;
        while (i < count && !copse__pattern_fits(g->at[k].pattern, names[i]))
            i++;
        if (i == count)
            return no_match(g->at[k].pattern, names, count);
    }
    return COPSE_OK;
}
