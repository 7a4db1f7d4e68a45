/* SPDX-License-Identifier: MIT */
/* Finds the helper program. */
#include <stdio.h>

#include "core/base/files.h"
#include "prover/isolation/isolation.h"
#include "prover/isolation/process.h"

static bool find_in_path(const char *name, char *path, size_t room)
{
    const char *at = copse__env("PATH");
    while (at && *at) {
        const char *end = strchr(at, copse_path_separator);
        const size_t n = end ? (size_t)(end - at) : strlen(at);
        const int length = n ? snprintf(path, room, "%.*s/%s", (int)n, at, name) : -1;
        if (length > 0 && (size_t)length < room && copse__program_exists(path))
            return true;
        at = end ? end + 1 : NULL;
    }
    return false;
}

/* The command beside the library, in a build folder or an installation. */
static bool find_command(char *path, size_t room)
{
    static const char *const places[] = { "", "../bin/", "../../bin/" };
    char folder[1024];
    for (size_t i = 0; copse__library_folder(folder, sizeof folder) && i < COPSE_COUNT(places);
         i++) {
        const int length = snprintf(path, room, "%s/%s%s", folder, places[i], copse_command_name);
        if (length > 0 && (size_t)length < room && copse__program_exists(path))
            return true;
    }
    return find_in_path(copse_command_name, path, room);
}

copse_status copse__helper_find(const char *given, char *path, size_t room)
{
    if (!given)
        return find_command(path, room)
                   ? COPSE_OK
                   : copse_fail(
                         COPSE_ERR_IO,
                         "helper process: no command '%s' beside the library or in PATH: name a "
                         "helper program",
                         copse_command_name);
    const bool is_path = copse__path_name(given) != given;
    if (is_path) {
        const int length = snprintf(path, room, "%s", given);
        if (length > 0 && (size_t)length < room && copse__program_exists(path))
            return COPSE_OK;
    } else if (find_in_path(given, path, room)) {
        return COPSE_OK;
    }
    return copse_fail(COPSE_ERR_IO, "helper process: no program '%s'%s", given,
                      is_path ? "" : " in PATH");
}
