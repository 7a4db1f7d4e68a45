/* SPDX-License-Identifier: MIT */
/* Opens and removes files, lists and creates folders, on Windows. */
#include "core/base/files.h"

#include <string.h>

#include "core/base/base.h"
#include "core/base/platform.h"
#include "core/base/wide.h"

#include <fcntl.h>
#include <io.h>
#include <windows.h>

#define PATH_ROOM 4096

static copse_status wide_path(const char *path, wchar_t wide[PATH_ROOM])
{
    if (!copse__wide(path, wide, PATH_ROOM))
        return copse_fail(COPSE_ERR_IO, "file: %s: the path is too long or not UTF-8", path);
    return COPSE_OK;
}

copse_status copse__file_open(const char *path, FILE **out, uint64_t *size)
{
    wchar_t wide[PATH_ROOM];
    LARGE_INTEGER length = { 0 };

    *out = NULL;
    COPSE_TRY(wide_path(path, wide));
    HANDLE handle =
        CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                    NULL, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL);
    if (handle == INVALID_HANDLE_VALUE) {
        const DWORD reason = GetLastError();
        if (copse__is_directory(path))
            return copse_fail(COPSE_ERR_IO, "file: %s is not a regular file", path);
        return copse_fail(COPSE_ERR_IO, "file: cannot open %s: %s", path, copse_reason(reason));
    }
    if (GetFileType(handle) != FILE_TYPE_DISK || !GetFileSizeEx(handle, &length)) {
        CloseHandle(handle);
        return copse_fail(COPSE_ERR_IO, "file: %s is not a regular file", path);
    }
    int fd = _open_osfhandle((intptr_t)handle, _O_RDONLY | _O_BINARY);
    if (fd < 0) {
        CloseHandle(handle);
        return copse_fail(COPSE_ERR_IO, "file: cannot open %s: too many open files", path);
    }
    *out = _fdopen(fd, "rb");
    if (*out == NULL) {
        _close(fd);
        return copse_fail(COPSE_ERR_IO, "file: cannot open %s: too many open files", path);
    }
    *size = (uint64_t)length.QuadPart;
    return COPSE_OK;
}

bool copse__file_seek(FILE *stream, uint64_t at)
{
    return at <= INT64_MAX && _fseeki64(stream, (int64_t)at, SEEK_SET) == 0;
}

copse_status copse__file_create(const char *path, FILE **out)
{
    wchar_t wide[PATH_ROOM];

    *out = NULL;
    COPSE_TRY(wide_path(path, wide));
    HANDLE handle = CreateFileW(wide, GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL,
                                CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
    if (handle == INVALID_HANDLE_VALUE) {
        const DWORD code = GetLastError();
        return code == ERROR_FILE_EXISTS
                   ? COPSE_OK
                   : copse_fail(COPSE_ERR_IO, "file: cannot make %s: %s", path, copse_reason(code));
    }
    int fd = _open_osfhandle((intptr_t)handle, _O_WRONLY | _O_BINARY);
    *out = fd < 0 ? NULL : _fdopen(fd, "wb");
    if (*out)
        return COPSE_OK;
    if (fd < 0)
        CloseHandle(handle);
    else
        _close(fd);
    return copse_fail(COPSE_ERR_IO, "file: cannot make %s: too many open files", path);
}

copse_status copse__folder_list(const char *path, bool (*take)(void *user, const char *name),
                                void *user)
{
    wchar_t wide[PATH_ROOM];
    WIN32_FIND_DATAW entry;

    COPSE_TRY(wide_path(path, wide));
    size_t length = wcslen(wide);
    if (length + 3 > PATH_ROOM)
        return copse_fail(COPSE_ERR_IO, "file: %s: the path is too long", path);
    memcpy(wide + length, L"\\*", 3 * sizeof(wchar_t));
    HANDLE find = FindFirstFileW(wide, &entry);
    if (find == INVALID_HANDLE_VALUE)
        return copse_fail(COPSE_ERR_IO, "file: cannot list %s: %s", path,
                          copse_reason(GetLastError()));
    do {
        char name[MAX_PATH * 3 + 1];
        if (copse__narrow(entry.cFileName, name, sizeof name) && !take(user, name))
            break;
    } while (FindNextFileW(find, &entry));
    FindClose(find);
    return COPSE_OK;
}

copse_status copse__folder_make(const char *path, bool *is_new)
{
    wchar_t wide[PATH_ROOM];

    if (is_new)
        *is_new = false;
    COPSE_TRY(wide_path(path, wide));
    if (CreateDirectoryW(wide, NULL)) {
        if (is_new)
            *is_new = true;
        return COPSE_OK;
    }
    const DWORD reason = GetLastError(), kind = GetFileAttributesW(wide);
    if (kind != INVALID_FILE_ATTRIBUTES && (kind & FILE_ATTRIBUTE_DIRECTORY))
        return COPSE_OK;
    return copse_fail(COPSE_ERR_IO, "file: cannot make the folder %s: %s", path,
                      copse_reason(reason));
}

copse_status copse__folder_rename(const char *from, const char *to)
{
    wchar_t wide[PATH_ROOM], wide_to[PATH_ROOM];
    COPSE_TRY(wide_path(from, wide));
    COPSE_TRY(wide_path(to, wide_to));
    return MoveFileExW(wide, wide_to, MOVEFILE_WRITE_THROUGH)
               ? COPSE_OK
               : copse_fail(COPSE_ERR_IO, "file: cannot make the folder %s: %s", to,
                            copse_reason(GetLastError()));
}

static bool file_identity(const char *path, BY_HANDLE_FILE_INFORMATION *out)
{
    wchar_t wide[PATH_ROOM];
    if (!copse__wide(path, wide, PATH_ROOM))
        return false;
    const HANDLE handle = CreateFileW(wide, FILE_READ_ATTRIBUTES,
                                      FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                      OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (handle == INVALID_HANDLE_VALUE)
        return false;
    const bool is_known = GetFileInformationByHandle(handle, out);
    CloseHandle(handle);
    return is_known;
}

bool copse__file_is_same(const char *a, const char *b)
{
    BY_HANDLE_FILE_INFORMATION x, y;
    return file_identity(a, &x) && file_identity(b, &y) &&
           x.dwVolumeSerialNumber == y.dwVolumeSerialNumber &&
           x.nFileIndexHigh == y.nFileIndexHigh && x.nFileIndexLow == y.nFileIndexLow;
}

bool copse__path_exists(const char *path)
{
    wchar_t wide[PATH_ROOM];
    if (!copse__wide(path, wide, PATH_ROOM) || GetFileAttributesW(wide) != INVALID_FILE_ATTRIBUTES)
        return true;
    const DWORD reason = GetLastError();
    return reason != ERROR_FILE_NOT_FOUND && reason != ERROR_PATH_NOT_FOUND;
}

void copse__folder_remove(const char *path)
{
    wchar_t wide[PATH_ROOM];

    if (wide_path(path, wide) == COPSE_OK)
        RemoveDirectoryW(wide);
}

const char *copse__path_name(const char *path)
{
    const char *name = path[0] && path[1] == ':' ? path + 2 : path;
    for (const char *c = name; *c; c++)
        if (*c == '/' || *c == '\\')
            name = c + 1;
    return name;
}

copse_status copse__file_remove(const char *path)
{
    wchar_t wide[PATH_ROOM];

    COPSE_TRY(wide_path(path, wide));
    if (DeleteFileW(wide) || GetLastError() == ERROR_FILE_NOT_FOUND)
        return COPSE_OK;
    return copse_fail(COPSE_ERR_IO, "file: cannot remove %s: %s", path,
                      copse_reason(GetLastError()));
}
