/* SPDX-License-Identifier: MIT */
/* The kernel cache of files does not exist on Windows yet: contexts keep compiled kernels in
   memory. */
#include "core/base/cache_folder.h"

const char *copse__cache_folder_open(struct copse_mem *mem, const char *path,
                                     struct copse_cache_params *out)
{
    (void)mem, (void)path, (void)out;
    return "cannot be made on Windows";
}

void copse__cache_folder_name(const char *path, char *out, size_t room)
{
    snprintf(out, room, "%s", path);
}

const char *copse__cache_folder_path(const struct copse_cache_params *cache)
{
    (void)cache;
    return NULL;
}

bool copse__cache_folder_is(const struct copse_cache_params *cache, const char *path)
{
    (void)cache, (void)path;
    return false;
}

void copse__cache_folder_close(struct copse_mem *mem, struct copse_cache_params *cache)
{
    (void)mem, (void)cache;
}
