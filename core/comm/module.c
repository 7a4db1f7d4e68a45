/* SPDX-License-Identifier: MIT */
/* Engines are modules beside the library, opened when a job needs one. They stay open: engines have
   threads and handlers that cannot be unloaded. */
#include <stdio.h>

#include "copse/copse.h"
#include "core/comm/cluster.h"

#define PATH_ROOM 1024

static const char *folder_of(const char *folder, char *path)
{
    if (!folder)
        folder = copse__env("COPSE_MODULES");
    if (folder && *folder)
        return folder;
    return copse__library_folder(path, PATH_ROOM) ? path : NULL;
}

copse_status copse__module_load(copse_context *ctx, const char *folder, const char *name,
                                const char *package, const struct copse_transport_table **out)
{
    char here[PATH_ROOM], path[PATH_ROOM + 32], real[4096], why[sizeof real] = "";
    const char *at = folder_of(folder, here);
    if (!at)
        return copse_fail(
            COPSE_ERR_UNSUPPORTED,
            "cluster: cannot find the folder of the library: name the folder with its "
            "engines in COPSE_MODULES");
    if (strlen(at) >= PATH_ROOM)
        return copse_fail(COPSE_ERR_ARGUMENT, "cluster: the name of the folder with the engines "
                                              "is too long");
    if (at != here && at[0] != '/' && !strchr(at, ':'))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "cluster: engines are looked for in '%s': it must be an absolute path",
                          at);
    snprintf(path, sizeof path, "%s/copse_%s.so", at, name);
    if (at == here) /* a user who can change this folder can change the library, too */
        snprintf(real, sizeof real, "%s", path);
    else
        copse__path_trusted(path, real, why, sizeof real);
    if (!real[0] && why[0])
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "cluster: the engine %s is not loaded from %s: %s (chown, chmod go-w)",
                          name, at, why);
    void *library = real[0] ? copse__library_open((const char *const[]){ real, NULL }) : NULL;
    const struct copse_transport_table *table =
        library ? copse__library_symbol(library, COPSE_TRANSPORT_SYMBOL) : NULL;
    if (!table) {
        copse__library_close(library);
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "cluster: the engine %s cannot be loaded from %s: build the library with "
                          "the Debian package %s, or install the Debian package libcopse%d.%d-%s",
                          name, path, package, COPSE_VERSION_MAJOR, COPSE_VERSION_MINOR, name);
    }
    if (table->version != COPSE_TRANSPORT_VERSION) {
        copse__library_close(library);
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "cluster: %s belongs to another version of the library (%u, not %d)",
                          path, table->version, COPSE_TRANSPORT_VERSION);
    }
    copse__log(&ctx->base.log, COPSE_LOG_INFO, "cluster: engine %s from %s", name, path);
    *out = table;
    return COPSE_OK;
}
