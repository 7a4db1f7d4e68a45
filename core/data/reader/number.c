/* SPDX-License-Identifier: MIT */
/* Converts decimal numbers to double and back, correctly rounded and independent of the locale: one
   exact operation for ordinary numbers, long division for the others. */
#include "core/data/reader/number.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Sufficient for 10^(324 + COPSE_NUMBER_MAX_DIGITS), 2406 bits, and a shift. */
#define WORDS 80

struct big {
    uint32_t word[WORDS];
    size_t count; /* no leading zero words */
};

static void big_mul_add(struct big *b, uint32_t factor, uint32_t term)
{
    uint64_t carry = term;

    for (size_t i = 0; i < b->count; i++) {
        carry += (uint64_t)b->word[i] * factor;
        b->word[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry != 0 && b->count < WORDS)
        b->word[b->count++] = (uint32_t)carry;
}

static void big_shift_left(struct big *b, unsigned bits)
{
    for (; bits >= 16; bits -= 16)
        big_mul_add(b, 1u << 16, 0);
    big_mul_add(b, 1u << bits, 0);
}

static int big_compare(const struct big *a, const struct big *b)
{
    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    for (size_t i = a->count; i-- > 0;)
        if (a->word[i] != b->word[i])
            return a->word[i] < b->word[i] ? -1 : 1;
    return 0;
}

static void big_subtract(struct big *a, const struct big *b) /* a >= b */
{
    uint64_t borrow = 0;

    for (size_t i = 0; i < a->count; i++) {
        uint64_t d = (uint64_t)a->word[i] - (i < b->count ? b->word[i] : 0) - borrow;
        a->word[i] = (uint32_t)d;
        borrow = d >> 63;
    }
    while (a->count > 0 && a->word[a->count - 1] == 0)
        a->count--;
}

static int big_bits(const struct big *b)
{
    int bits = 0;

    for (uint32_t top = b->word[b->count - 1]; top != 0; top >>= 1)
        bits++;
    return bits + 32 * ((int)b->count - 1);
}

/* digits * 10^exponent, digits > 0 without leading zeros. */
static double number_divide(const char *digits, size_t count, int exponent)
{
    struct big n = { .count = 0 }, d = { .word = { 1 }, .count = 1 };

    for (size_t i = 0; i < count; i++)
        big_mul_add(&n, 10, (uint32_t)(digits[i] - '0'));
    for (int e = exponent; e > 0; e--)
        big_mul_add(&n, 10, 0);
    for (int e = exponent; e < 0; e++)
        big_mul_add(&d, 10, 0);

    /* n/d = 2^b * q with 1 <= q < 2 */
    int b = big_bits(&n) - big_bits(&d);
    if (b > 0)
        big_shift_left(&d, (unsigned)b);
    else
        big_shift_left(&n, (unsigned)-b);
    if (big_compare(&n, &d) < 0) {
        big_shift_left(&n, 1);
        b--;
    }

    int bits = b >= -1022 ? 53 : 53 - (-1022 - b); /* fewer for denormals */
    if (bits < 0)
        return 0;
    uint64_t mantissa = 0;
    for (int i = 0; i <= bits; i++) {
        mantissa <<= 1;
        if (big_compare(&n, &d) >= 0) {
            big_subtract(&n, &d);
            mantissa |= 1;
        }
        big_shift_left(&n, 1);
    }
    bool half = (mantissa & 1) != 0;
    mantissa >>= 1;
    if (half && (n.count > 0 || (mantissa & 1) != 0))
        mantissa++;
    return ldexp((double)mantissa, b - (bits - 1));
}

static double number_scale(const char *digits, size_t count, int exponent)
{
    static const double power[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

    if (count == 0)
        return 0;
    if ((int)count + exponent > 310)
        return HUGE_VAL;
    if ((int)count + exponent < -324)
        return 0;
    if (FLT_EVAL_METHOD == 0 && count <= 15 && exponent >= -22 && exponent <= 22) {
        uint64_t mantissa = 0;
        for (size_t i = 0; i < count; i++)
            mantissa = mantissa * 10 + (uint64_t)(digits[i] - '0');
        /* both exact, so one rounding */
        return exponent < 0 ? (double)mantissa / power[-exponent]
                            : (double)mantissa * power[exponent];
    }
    return number_divide(digits, count, exponent);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool copse__number_parse(const char *text, size_t size, double *out)
{
    char digits[COPSE_NUMBER_MAX_DIGITS];
    const char *p = text, *end = text + size;
    size_t count = 0, seen = 0;
    int exponent = 0;
    bool is_negative = false, has_point = false;

    if (p < end && (*p == '+' || *p == '-'))
        is_negative = *p++ == '-';
    for (; p < end && (is_digit(*p) || (*p == '.' && !has_point)); p++) {
        if (*p == '.') {
            has_point = true;
            continue;
        }
        seen++;
        if (seen > 100000)
            return false;
        exponent -= has_point;
        if (*p == '0' && count == 0)
            continue;
        if (count == COPSE_NUMBER_MAX_DIGITS)
            return false;
        digits[count++] = *p;
    }
    if (seen == 0)
        return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        int sign = 1, value = 0;
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            sign = *p++ == '-' ? -1 : 1;
        if (p == end)
            return false;
        for (; p < end && is_digit(*p); p++)
            value = value < 1000000 ? value * 10 + (*p - '0') : value;
        exponent += sign * value;
    }
    if (p != end)
        return false;
    while (count > 0 && digits[count - 1] == '0') {
        count--;
        exponent++;
    }
    double v = number_scale(digits, count, exponent);
    *out = is_negative ? -v : v;
    return true;
}

void copse__number_print(double v, char to[COPSE_NUMBER_TEXT])
{
    double again;

    v += 0.0; /* -0 is 0 */
    if (!isfinite(v)) {
        strcpy(to, isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
        return;
    }
    for (int digits = v == floor(v) && fabs(v) < 1e17 ? 17 : 1; digits <= 17; digits++) {
        snprintf(to, COPSE_NUMBER_TEXT, "%.*g", digits, v);
        char *comma = strchr(to, ','); /* of the locale */
        if (comma != NULL)
            *comma = '.';
        if (copse__number_parse(to, strlen(to), &again) && again == v)
            return;
    }
}
