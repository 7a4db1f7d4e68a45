/* SPDX-License-Identifier: MIT */
/* Sine and cosine for libcopse on Windows: mingw-w64 uses the instructions of the processor, which
   have 66 bits of pi and do not accept numbers beyond 2^63; the runtime of the system has all that
   are needed. */
#include <math.h>
#include <windows.h>

#if defined(__MINGW32__)

typedef double function(double x);

/* NULL: the system has no such function. */
static function *of_system(const char *name)
{
    HMODULE runtime = GetModuleHandleW(L"ucrtbase.dll");
    if (!runtime)
        runtime = GetModuleHandleW(L"msvcrt.dll");
    const FARPROC found = runtime ? GetProcAddress(runtime, name) : NULL;
    union {
        FARPROC from;
        function *to;
    } as = { .from = found };
    return as.to;
}

double sin(double x)
{
    static function *volatile known;
    function *f = known ? known : (known = of_system("sin"));
    return f ? f(x) : NAN;
}

double cos(double x)
{
    static function *volatile known;
    function *f = known ? known : (known = of_system("cos"));
    return f ? f(x) : NAN;
}

#endif
