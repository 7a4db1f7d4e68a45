/* SPDX-License-Identifier: MIT */
/* The order of device ids: by name, then by number. */
#include "core/device/device.h"

/* Where the number at the end of an id begins. */
static size_t stem_of(const char *id)
{
    size_t n = strlen(id);
    while (n > 0 && id[n - 1] >= '0' && id[n - 1] <= '9')
        n--;
    return n;
}

/* Numbers may be longer than any integer type: without zeros in front, the longer is the
   greater. */
static int compare_numbers(const char *a, const char *b)
{
    a += strspn(a, "0");
    b += strspn(b, "0");
    const size_t m = strlen(a), n = strlen(b);
    return m != n ? (m < n ? -1 : 1) : strcmp(a, b);
}

int copse__device_id_compare(const char *a, const char *b)
{
    const size_t m = stem_of(a), n = stem_of(b);
    const int stems = strncmp(a, b, COPSE_MIN(m, n));
    if (stems != 0 || m != n)
        return stems != 0 ? stems : m < n ? -1 : 1;
    return !a[m] != !b[n] ? (a[m] ? 1 : -1) : compare_numbers(a + m, b + n);
}
