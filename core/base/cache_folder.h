/* SPDX-License-Identifier: MIT */
/* A kernel cache of files. */
#ifndef COPSE_CACHE_FOLDER_H
#define COPSE_CACHE_FOLDER_H

#include "core/base/base.h"

/* Set callbacks that store entries as files in the folder `path`, or for "" in the user's cache
   folder, and return NULL. A folder that cannot be made, of another user, or to which others may
   write is not used, nor is a link that another user made: the result says so, such as "belongs to
   another user". `mem` outlives `out`. */
const char *copse__cache_folder_open(struct copse_mem *mem, const char *path,
                                     struct copse_cache_params *out);
/* The name of the folder, as it is looked for. */
void copse__cache_folder_name(const char *path, char *out, size_t room);
/* The folder of a cache that open made, as long as it lives; NULL for other caches. */
COPSE_PRIVATE const char *copse__cache_folder_path(const struct copse_cache_params *cache);
/* Whether open(path) means the folder of this cache. */
COPSE_PRIVATE bool copse__cache_folder_is(const struct copse_cache_params *cache, const char *path);
/* Free what open made; does nothing for other caches. */
void copse__cache_folder_close(struct copse_mem *mem, struct copse_cache_params *cache);

#endif
