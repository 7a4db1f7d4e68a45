/* SPDX-License-Identifier: MIT */
/* Compiled kernels for the contexts of all tests, in the folder COPSE_TEST_KERNELS. The linker sends
   calls of copse_context_create here. A context without a cache of its own gets one that keeps
   kernels in the folder, and all else (blocked kernels, tuning, what was checked) in memory, for
   this context alone. Without it PoCL links each kernel again for each context, which takes most
   of the time of the tests that open many. Without the variable contexts are as the library makes
   them: `without_kept_kernels` in tests/CMakeLists.txt names tests that run so. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "copse/context.h"
#include "core/base/cache_folder.h"

struct kept_record {
    struct kept_record *next;
    char *key;
    void *bytes;
    size_t size;
};

/* They live as long as the process: nothing tells when a context is gone. */
struct kept_store {
    struct kept_store *next;
    struct kept_record *records;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept_store *stores;
static struct copse_cache_params folder;

static void *kept_resize(void *user, void *block, size_t size)
{
    (void)user;
    if (size > 0)
        return realloc(block, size);
    free(block);
    return NULL;
}

static struct copse_mem mem = { .resize = kept_resize };

static bool is_kernel(const char *key)
{
    return strncmp(key, "opencl-", 7) == 0 || strncmp(key, "vk-", 3) == 0;
}

static struct kept_record *record_find(struct kept_store *store, const char *key)
{
    struct kept_record *r = store->records;
    while (r != NULL && strcmp(r->key, key) != 0)
        r = r->next;
    return r;
}

/* NULL: out of memory. */
static struct kept_record *record_add(struct kept_store *store, const char *key)
{
    struct kept_record *r = calloc(1, sizeof *r);
    if (r == NULL || (r->key = strdup(key)) == NULL) {
        free(r);
        return NULL;
    }
    r->next = store->records;
    store->records = r;
    return r;
}

static void kept_get(void *user, const char *key,
                     void (*take)(void *to, const void *bytes, size_t size), void *to)
{
    if (is_kernel(key)) {
        folder.get(folder.user, key, take, to);
        return;
    }
    pthread_mutex_lock(&lock);
    const struct kept_record *r = record_find(user, key);
    void *copy = r != NULL ? malloc(r->size) : NULL;
    const size_t size = r != NULL ? r->size : 0;
    if (copy != NULL)
        memcpy(copy, r->bytes, size);
    pthread_mutex_unlock(&lock);
    if (copy != NULL)
        take(to, copy, size);
    free(copy);
}

static void kept_put(void *user, const char *key, const void *bytes, size_t size)
{
    struct kept_store *store = user;
    if (is_kernel(key)) {
        folder.put(folder.user, key, bytes, size);
        return;
    }
    void *copy = malloc(size);
    if (copy == NULL)
        return;
    memcpy(copy, bytes, size);
    pthread_mutex_lock(&lock);
    struct kept_record *r = record_find(store, key);
    if (r == NULL)
        r = record_add(store, key);
    if (r != NULL) {
        free(r->bytes);
        r->bytes = copy;
        r->size = size;
    } else {
        free(copy);
    }
    pthread_mutex_unlock(&lock);
}

static void kept_free(void)
{
    while (stores != NULL) {
        struct kept_store *store = stores;
        stores = store->next;
        while (store->records != NULL) {
            struct kept_record *r = store->records;
            store->records = r->next;
            free(r->key);
            free(r->bytes);
            free(r);
        }
        free(store);
    }
    copse__cache_folder_close(&mem, &folder);
}

static void folder_open(void)
{
    const char *path = getenv("COPSE_TEST_KERNELS");
    if (path != NULL && copse__cache_folder_open(&mem, path, &folder) == NULL)
        atexit(kept_free);
}

copse_status __real_copse_context_create(const struct copse_context_params *params,
                                         copse_context **out);
copse_status __wrap_copse_context_create(const struct copse_context_params *params,
                                         copse_context **out);

copse_status __wrap_copse_context_create(const struct copse_context_params *params,
                                         copse_context **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct copse_context_params p = { 0 };
    if (params != NULL)
        p = *params;
    pthread_once(&once, folder_open);
    if (folder.get == NULL || p.cache.get != NULL || p.cache_folder != NULL)
        return __real_copse_context_create(params, out);
    struct kept_store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return __real_copse_context_create(params, out);
    pthread_mutex_lock(&lock);
    store->next = stores;
    stores = store;
    pthread_mutex_unlock(&lock);
    p.cache.get = kept_get;
    p.cache.put = kept_put;
    p.cache.user = store;
    return __real_copse_context_create(&p, out);
}
