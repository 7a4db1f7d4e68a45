/* SPDX-License-Identifier: MIT
   tests NAME: runs the test program NAME, the file test_NAME.c; without NAME it lists them. CMake
   writes tests.def and gives each file's main the name main_NAME. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEST(name) int main_##name(void);
#include "tests.def"
#undef TEST

static const struct {
    const char *name;
    int (*run)(void);
} programs[] = {
#define TEST(name) { #name, main_##name },
#include "tests.def"
#undef TEST
};

int main(int argc, char **argv)
{
    /* GPUs of the fake backend wait in their first replays, to measure them; tests count waits */
    setenv("COPSE_SUBMIT_MS", "0", 0);
    for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++)
        if (argc < 2)
            puts(programs[i].name);
        else if (!strcmp(argv[1], programs[i].name))
            return programs[i].run();
    if (argc >= 2)
        fprintf(stderr, "tests: there is no test '%s'; without a name, tests lists them\n",
                argv[1]);
    return 2;
}
