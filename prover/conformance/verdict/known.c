/* SPDX-License-Identifier: MIT */
/* Known failures: finds the row of known.def that matches a case on a device. */
#include <stdlib.h>

#include "prover/conformance/verdict/conformance.h"

const struct copse_known copse_known[] = {
#define KNOWN(op, name, device, from, to, reason) { op, name, device, from, to, reason, NULL },
#include "prover/conformance/verdict/known.def"
#undef KNOWN
    { .op = NULL },
};

static bool known_matches(const char *pattern, const char *text)
{
    const char *star = NULL, *retry = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = ++pattern;
            retry = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The first "number.number" in a driver's text, which is the version for all drivers seen so far;
   "" if absent. */
static const char *version_in(const char *driver)
{
    for (const char *p = driver; *p; p++) {
        if (!is_digit(*p) || (p > driver && is_digit(p[-1])))
            continue;
        const char *end = p;
        while (is_digit(*end))
            end++;
        if (*end == '.' && is_digit(end[1]))
            return p;
    }
    return "";
}

/* Compare "3.10" and "3.9" number by number; missing numbers count as 0. */
static int compare_versions(const char *a, const char *b)
{
    for (;;) {
        char *a_end, *b_end;
        const unsigned long x = strtoul(is_digit(*a) ? a : "0", &a_end, 10);
        const unsigned long y = strtoul(is_digit(*b) ? b : "0", &b_end, 10);
        if (x != y)
            return x < y ? -1 : 1;
        const bool a_goes_on = is_digit(*a) && *a_end == '.' && is_digit(a_end[1]);
        const bool b_goes_on = is_digit(*b) && *b_end == '.' && is_digit(b_end[1]);
        if (!a_goes_on && !b_goes_on)
            return 0;
        a = a_goes_on ? a_end + 1 : "";
        b = b_goes_on ? b_end + 1 : "";
    }
}

const struct copse_known *copse__known_find(const struct copse_known *list,
                                            const struct copse_case_result *c, const char *device,
                                            const char *driver)
{
    const char *version = version_in(driver);
    for (const struct copse_known *k = list; k && k->op; k++)
        if ((!k->mode || known_matches(k->mode, c->mode)) && known_matches(k->op, c->op) &&
            known_matches(k->name, c->name) &&
            (known_matches(k->device, device) || known_matches(k->device, driver)) &&
            (!*k->from || compare_versions(version, k->from) >= 0) &&
            (!*k->to || compare_versions(version, k->to) <= 0))
            return k;
    return NULL;
}
