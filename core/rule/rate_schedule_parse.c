/* SPDX-License-Identifier: MIT */
/* The text of a schedule: phase { ";" phase }, phase = factor { "*" factor } [ "for" N [ "%" ]
   ]. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#include "core/rule/rate_schedule.h"

struct parser {
    const char *at;
    copse_schedule *s;
    uint64_t steps;
};

static void rate_schedule_parse_skip(struct parser *p)
{
    while (isspace((unsigned char)*p->at))
        p->at++;
}

static size_t word_length(const char *at)
{
    size_t n = 0;
    while (isalnum((unsigned char)at[n]) || at[n] == '_')
        n++;
    return n;
}

static copse_status rate_schedule_parse_wrong(const struct parser *p, const char *expected)
{
    return copse_fail(COPSE_ERR_ARGUMENT, "schedule: %s at \"%.40s\"", expected, p->at);
}

/* Digits, or ".5". */
static bool is_number(const char *at)
{
    return isdigit((unsigned char)*at) || (*at == '.' && isdigit((unsigned char)at[1])) ||
           *at == '-';
}

static copse_status take_numbers(struct parser *p, struct copse_factor *f, uint32_t *count)
{
    for (rate_schedule_parse_skip(p); is_number(p->at); rate_schedule_parse_skip(p)) {
        char *end;
        if (*count == f->kind->most)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "schedule: too many numbers at \"%.40s\": expected \"%s\"", p->at,
                              f->kind->usage);
        f->numbers[*count] = strtod(p->at, &end);
        if (end == p->at || !isfinite(f->numbers[*count]))
            return rate_schedule_parse_wrong(p, "expected a finite number");
        ++*count;
        p->at = end;
    }
    return COPSE_OK;
}

static copse_status take_factor(struct parser *p)
{
    struct copse_factor f = { .phase = p->s->phase_count, .best = INFINITY, .product = 1.0 };
    uint32_t count = 0;
    rate_schedule_parse_skip(p);
    const char *begin = p->at;
    const size_t length = word_length(begin);
    f.kind = copse__factor_kind(begin, length);
    if (!f.kind)
        return copse_fail(COPSE_ERR_ARGUMENT, "schedule: expected %s at \"%.40s\"",
                          copse__factor_names(), begin);
    if (p->s->factor_count == COPSE_SCHEDULE_FACTORS)
        return copse_fail(COPSE_ERR_ARGUMENT, "schedule: more than %d factors",
                          COPSE_SCHEDULE_FACTORS);
    for (uint32_t i = 0; i < p->s->factor_count; i++)
        if (f.kind == p->s->factors[i].kind && f.kind->is_single)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "schedule: a second %s at \"%.40s\": one is the most", f.kind->name,
                              begin);
    memcpy(f.numbers, f.kind->defaults, sizeof f.numbers);
    p->at += length;
    COPSE_TRY(take_numbers(p, &f, &count));
    if (count < f.kind->least)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "schedule: numbers are missing in \"%.40s\": expected \"%s\"", begin,
                          f.kind->usage);
    const char *bad = f.kind->check ? f.kind->check(f.numbers) : NULL;
    if (bad)
        return copse_fail(COPSE_ERR_ARGUMENT, "schedule: %s in \"%.40s\": \"%s\"", bad, begin,
                          f.kind->usage);
    p->s->factors[p->s->factor_count++] = f;
    return COPSE_OK;
}

/* "for 100" or "for 10%" into the phase; without it the count stays 0. */
static copse_status take_length(struct parser *p, struct copse_phase *out)
{
    char *end;
    rate_schedule_parse_skip(p);
    if (word_length(p->at) != 3 || strncmp(p->at, "for", 3) != 0)
        return COPSE_OK;
    p->at += 3;
    rate_schedule_parse_skip(p);
    if (!isdigit((unsigned char)*p->at))
        return rate_schedule_parse_wrong(p, "expected a number of steps, or of percent");
    const double x = strtod(p->at, &end);
    const bool is_part = *end == '%';
    if (is_part && (p->steps == 0 || !(x > 0.0 && x <= 100.0)))
        return rate_schedule_parse_wrong(
            p,
            p->steps ? "expected 0% to 100%" : "the run has no number of steps to take a part of");
    const double count = is_part ? floor(x / 100.0 * (double)p->steps + 0.5) : x;
    if (!(count >= 1.0 && count <= 0x1p53) || floor(count) < count)
        return rate_schedule_parse_wrong(p, "expected a whole number of steps >= 1");
    out->count = (uint64_t)count;
    p->at = end + is_part;
    return COPSE_OK;
}

static copse_status take_phase(struct parser *p)
{
    struct copse_phase phase = { .count = 0 };
    for (;;) {
        COPSE_TRY(take_factor(p));
        rate_schedule_parse_skip(p);
        if (*p->at != '*')
            break;
        p->at++;
    }
    COPSE_TRY(take_length(p, &phase));
    p->s->phases[p->s->phase_count++] = phase; /* a phase has a factor: there is room */
    rate_schedule_parse_skip(p);
    return *p->at == '\0' || *p->at == ';'
               ? COPSE_OK
               : rate_schedule_parse_wrong(p, "expected '*', ';', \"for\" or the end");
}

/* Phases without a length share the steps that the others leave. */
static copse_status rate_schedule_parse_share(struct parser *p)
{
    copse_schedule *s = p->s;
    uint64_t taken = 0, open = 0;
    for (uint32_t i = 0; i < s->phase_count; i++) {
        taken += s->phases[i].count;
        open += s->phases[i].count == 0;
        if (s->phases[i].count == 0 && p->steps == 0 && i + 1 < s->phase_count)
            return copse_fail(
                COPSE_ERR_ARGUMENT,
                "schedule: phase %u needs a length (\"for N\"): the run has no number of "
                "steps",
                i + 1);
    }
    const uint64_t left = p->steps > taken ? p->steps - taken : 0;
    if (open > 0 && p->steps > 0 && left < open)
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "schedule: the phases with a length take %llu steps, the run has %llu: nothing "
            "is left for the others",
            (unsigned long long)taken, (unsigned long long)p->steps);
    uint64_t first = 0, given = 0;
    for (uint32_t i = 0; i < s->phase_count; i++) {
        struct copse_phase *phase = &s->phases[i];
        if (phase->count == 0 && p->steps > 0) {
            given++;
            phase->count = left * given / open - left * (given - 1) / open;
        }
        phase->first = first;
        first += phase->count;
    }
    for (uint32_t i = 0; i < s->factor_count; i++)
        if (s->factors[i].kind->needs_end && s->phases[s->factors[i].phase].count == 0)
            return copse_fail(
                COPSE_ERR_ARGUMENT,
                "schedule: %s needs a phase with a length (\"for N\"): the run has no number "
                "of steps",
                s->factors[i].kind->name);
    return COPSE_OK;
}

copse_status copse__schedule_parse(const char *text, uint64_t steps, copse_schedule *out)
{
    struct parser p = { .at = text, .s = out, .steps = steps };
    for (;;) {
        COPSE_TRY(take_phase(&p));
        if (*p.at == '\0')
            return rate_schedule_parse_share(&p);
        p.at++;
    }
}
