/* SPDX-License-Identifier: MIT */
/* The kernel cache as files in a folder of the user, replaced atomically. The readers of entries
   check the content; this file checks who owns the folder, but not its access list, and serializes
   changes of lists between processes. */
#include "core/base/cache_folder.h"

#include <stdio.h>

#include "core/base/platform.h"
#include "core/base/wide.h"

#include <aclapi.h>

#define MAX_ENTRY  ((int64_t)256 << 20)
#define PATH_UNITS 1100

struct folder {
    struct copse_mem *mem;
    char path[900];
};

/* `given`, or the user's folder: %LOCALAPPDATA%/copse. */
static bool name_folder(struct folder *f, const char *given)
{
    const char *base = copse__env("LOCALAPPDATA");
    int n = -1;
    if (given[0])
        n = snprintf(f->path, sizeof f->path, "%s", given);
    else if (base)
        n = snprintf(f->path, sizeof f->path, "%s/copse", base);
    return n > 0 && (size_t)n < sizeof f->path;
}

/* Whether this user owns what is open. What an administrator makes belongs to the group. */
static bool is_ours(HANDLE handle)
{
    union {
        TOKEN_USER user;
        char room[sizeof(TOKEN_USER) + SECURITY_MAX_SID_SIZE];
    } us;
    DWORD size;
    PSID owner = NULL;
    PSECURITY_DESCRIPTOR all = NULL;
    HANDLE token;
    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token))
        return false;
    bool is = GetTokenInformation(token, TokenUser, &us, sizeof us, &size) &&
              GetSecurityInfo(handle, SE_FILE_OBJECT, OWNER_SECURITY_INFORMATION, &owner, NULL,
                              NULL, NULL, &all) == ERROR_SUCCESS;
    is = is && owner &&
         (EqualSid(owner, us.user.User.Sid) || IsWellKnownSid(owner, WinBuiltinAdministratorsSid) ||
          IsWellKnownSid(owner, WinLocalSystemSid));
    LocalFree(all);
    CloseHandle(token);
    return is;
}

/* The folder and the one above it; NULL, or why it is not used. */
static const char *make_folder(const struct folder *f)
{
    wchar_t wide[PATH_UNITS];
    BY_HANDLE_FILE_INFORMATION info;
    if (!copse__wide(f->path, wide, PATH_UNITS))
        return "has a name that is not UTF-8";
    for (wchar_t *c = wide + wcslen(wide); c > wide; c--)
        if (*c == L'/' || *c == L'\\') {
            const wchar_t slash = *c;
            *c = L'\0';
            (void)CreateDirectoryW(wide, NULL);
            *c = slash;
            break;
        }
    if (!CreateDirectoryW(wide, NULL) && GetLastError() != ERROR_ALREADY_EXISTS)
        return "cannot be made";
    const HANDLE handle = CreateFileW(wide, READ_CONTROL | FILE_READ_ATTRIBUTES,
                                      FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                      OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (handle == INVALID_HANDLE_VALUE)
        return "cannot be looked at";
    const char *why = !GetFileInformationByHandle(handle, &info)            ? "cannot be looked at"
                      : !(info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) ? "is no folder"
                      : !is_ours(handle) ? "belongs to another user"
                                         : NULL;
    CloseHandle(handle);
    return why;
}

static bool path_of(const struct folder *f, const char *key, const char *more,
                    wchar_t wide[PATH_UNITS])
{
    char path[1024];
    const size_t length =
        strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");
    const int n = snprintf(path, sizeof path, "%s/%s%s", f->path, key, more);
    return length > 0 && key[length] == '\0' && n > 0 && (size_t)n < sizeof path &&
           copse__wide(path, wide, PATH_UNITS);
}

static void cache_folder_windows_get(void *user, const char *key,
                                     void (*take)(void *to, const void *bytes, size_t size),
                                     void *to)
{
    const struct folder *f = user;
    wchar_t wide[PATH_UNITS];
    LARGE_INTEGER size = { 0 };
    if (!path_of(f, key, "", wide))
        return;
    const HANDLE file =
        CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                    NULL, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL);
    if (file == INVALID_HANDLE_VALUE)
        return;
    void *bytes = NULL;
    if (GetFileType(file) == FILE_TYPE_DISK && GetFileSizeEx(file, &size) && size.QuadPart > 0 &&
        size.QuadPart <= MAX_ENTRY &&
        (bytes = copse__alloc(f->mem, (size_t)size.QuadPart, 1)) != NULL) {
        DWORD n = 0;
        if (ReadFile(file, bytes, (DWORD)size.QuadPart, &n, NULL) && n == size.QuadPart)
            take(to, bytes, n);
    }
    copse__free(f->mem, bytes);
    CloseHandle(file);
}

static void cache_folder_windows_put(void *user, const char *key, const void *bytes, size_t size)
{
    const struct folder *f = user;
    wchar_t path[PATH_UNITS], temp[PATH_UNITS];
    char ending[32];
    DWORD n = 0;
    snprintf(ending, sizeof ending, ".%u", (unsigned)copse__process_id());
    if (size > (size_t)MAX_ENTRY || !path_of(f, key, "", path) || !path_of(f, key, ending, temp))
        return;
    const HANDLE file =
        CreateFileW(temp, GENERIC_WRITE, 0, NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
    if (file == INVALID_HANDLE_VALUE)
        return;
    const bool is_written = WriteFile(file, bytes, (DWORD)size, &n, NULL) && n == size;
    CloseHandle(file);
    if (!is_written || !MoveFileExW(temp, path, MOVEFILE_REPLACE_EXISTING))
        DeleteFileW(temp);
}

/* One lock for all lists: a file that is open in one place only. The system closes it when its
   holder exits. If the lock stays taken for a short time, the caller continues without it, because
   a stopped process must not block others. */
static void *cache_folder_windows_lock(void *user, const char *key)
{
    enum { TRIES = 400, PAUSE_NS = 5000000 };
    const struct folder *f = user;
    wchar_t wide[PATH_UNITS];
    HANDLE file = INVALID_HANDLE_VALUE;
    (void)key;
    if (!path_of(f, "lock", ".open", wide))
        return NULL;
    for (int i = 0; i < TRIES && file == INVALID_HANDLE_VALUE; i++) {
        file = CreateFileW(wide, GENERIC_WRITE, 0, NULL, OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
        if (file == INVALID_HANDLE_VALUE && GetLastError() != ERROR_SHARING_VIOLATION)
            break;
        if (file == INVALID_HANDLE_VALUE)
            copse__sleep_ns(PAUSE_NS);
    }
    return file == INVALID_HANDLE_VALUE ? NULL : file;
}

static void cache_folder_windows_unlock(void *user, void *locked)
{
    (void)user;
    if (locked)
        CloseHandle(locked);
}

void copse__cache_folder_name(const char *path, char *out, size_t room)
{
    struct folder f;
    snprintf(out, room, "%s", name_folder(&f, path) ? f.path : path[0] ? path : "of the user");
}

const char *copse__cache_folder_open(struct copse_mem *mem, const char *path,
                                     struct copse_cache_params *out)
{
    struct folder *f = copse__alloc(mem, 1, sizeof *f);
    if (!f)
        return "cannot be used without memory";
    f->mem = mem;
    const char *why = !name_folder(f, path)
                          ? "has no name: LOCALAPPDATA is not set, or a name is too long"
                          : make_folder(f);
    if (why) {
        copse__free(mem, f);
        return why;
    }
    *out = (struct copse_cache_params){ .get = cache_folder_windows_get,
                                        .put = cache_folder_windows_put,
                                        .user = f,
                                        .lock = cache_folder_windows_lock,
                                        .unlock = cache_folder_windows_unlock };
    return NULL;
}

const char *copse__cache_folder_path(const struct copse_cache_params *cache)
{
    return cache->get == cache_folder_windows_get ? ((const struct folder *)cache->user)->path
                                                  : NULL;
}

bool copse__cache_folder_is(const struct copse_cache_params *cache, const char *path)
{
    const char *own = copse__cache_folder_path(cache);
    struct folder other;
    return own && name_folder(&other, path) && strcmp(other.path, own) == 0;
}

void copse__cache_folder_close(struct copse_mem *mem, struct copse_cache_params *cache)
{
    if (cache->get == cache_folder_windows_get)
        copse__free(mem, cache->user);
}
