/* SPDX-License-Identifier: MIT */
/* The machine through POSIX and, on Linux, /etc and /proc. machine_windows.c has the same
   functions. */
#define _GNU_SOURCE /* dl_iterate_phdr, dladdr */

#include "core/base/machine.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#if defined(__linux__)
#    include <link.h>
#endif

extern char **environ;

/* The text behind `key` and `separator` in the first line of a file that begins with `key`, without
   quotation marks. */
static void take_line(const char *path, const char *key, char separator, char *out, size_t room)
{
    char line[512];
    FILE *f = fopen(path, "r");
    if (!f)
        return;
    while (!*out && fgets(line, sizeof line, f)) {
        const char *value = strncmp(line, key, strlen(key)) == 0 ? strchr(line, separator) : NULL;
        if (!value)
            continue;
        value += 1 + strspn(value + 1, " \t\"");
        snprintf(out, room, "%.*s", (int)strcspn(value, "\"\n"), value);
    }
    fclose(f);
}

void copse__machine_describe(struct copse_machine *out)
{
    struct utsname name;
    *out = (struct copse_machine){ 0 };
    take_line("/etc/os-release", "PRETTY_NAME", '=', out->system, sizeof out->system);
    if (uname(&name) == 0) {
        snprintf(out->kernel, sizeof out->kernel, "%.50s %.60s %.40s", name.sysname, name.release,
                 name.machine);
        if (!*out->system)
            snprintf(out->system, sizeof out->system, "%.60s", name.sysname);
    }
    take_line("/proc/cpuinfo", "model name", ':', out->cpu, sizeof out->cpu);
    if (!*out->cpu) /* POWER, and some ARM */
        take_line("/proc/cpuinfo", "cpu", ':', out->cpu, sizeof out->cpu);
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    out->memory_bytes = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}

const char *copse__environment_at(size_t n)
{
    size_t i = 0;
    while (environ && environ[i] && i < n)
        i++;
    return environ ? environ[i] : NULL;
}

#if defined(__linux__)

/* Paths, each with its terminator. They are collected first: no library may be opened while they
   are listed. */
struct paths {
    char text[1 << 16];
    size_t length;
};

static int take_path(struct dl_phdr_info *info, size_t size, void *user)
{
    struct paths *p = user;
    const size_t length = strlen(info->dlpi_name) + 1;
    (void)size;
    if (length > 1 && p->length + length <= sizeof p->text) {
        memcpy(p->text + p->length, info->dlpi_name, length);
        p->length += length;
    }
    return 0;
}

void copse__libraries_with(const char *symbol, void (*seen)(void *user, const char *path),
                           void *user)
{
    struct paths paths;
    paths.length = 0;
    dl_iterate_phdr(take_path, &paths);
    for (const char *path = paths.text; path < paths.text + paths.length;
         path += strlen(path) + 1) {
        void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
        void *at = library ? dlsym(library, symbol) : NULL;
        Dl_info info;
        /* dlsym also searches the libraries that this one needs */
        if (at && dladdr(at, &info) && info.dli_fname && strcmp(info.dli_fname, path) == 0)
            seen(user, path);
        if (library)
            dlclose(library);
    }
}

#else

void copse__libraries_with(const char *symbol, void (*seen)(void *user, const char *path),
                           void *user)
{
    (void)symbol, (void)seen, (void)user;
}

#endif
