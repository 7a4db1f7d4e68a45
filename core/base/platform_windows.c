/* SPDX-License-Identifier: MIT */
/* The operating system through Win32. platform_posix.c has the same functions. */
#include "core/base/platform.h"

#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <time.h>
#include <windows.h>

#include "core/base/base.h"
#include "core/base/wide.h"

#define SECOND     1000000000ull
#define PATH_UNITS 4096

copse_status copse__mutex_init(copse_mutex *m)
{
    InitializeSRWLock((PSRWLOCK)&m->srw);
    return COPSE_OK;
}

void copse__mutex_fini(copse_mutex *m)
{
    (void)m;
}

void copse__mutex_lock(copse_mutex *m)
{
    AcquireSRWLockExclusive((PSRWLOCK)&m->srw);
}

void copse__mutex_unlock(copse_mutex *m)
{
    ReleaseSRWLockExclusive((PSRWLOCK)&m->srw);
}

copse_status copse__cond_init(copse_cond *c)
{
    InitializeConditionVariable((PCONDITION_VARIABLE)&c->cond);
    return COPSE_OK;
}

void copse__cond_fini(copse_cond *c)
{
    (void)c;
}

void copse__cond_signal_all(copse_cond *c)
{
    WakeAllConditionVariable((PCONDITION_VARIABLE)&c->cond);
}

bool copse__cond_wait(copse_cond *c, copse_mutex *m, uint64_t deadline_ns)
{
    DWORD ms = INFINITE;
    if (deadline_ns != UINT64_MAX) {
        const uint64_t now = copse__now_ns();
        const uint64_t left = deadline_ns > now ? (deadline_ns - now + 999999) / 1000000 : 0;
        ms = (DWORD)COPSE_MIN(left, (uint64_t)INFINITE - 1);
    }
    return SleepConditionVariableSRW((PCONDITION_VARIABLE)&c->cond, (PSRWLOCK)&m->srw, ms, 0);
}

/* On the creator's stack until the new thread has read it, so no allocation is needed. */
struct start {
    void (*run)(void *);
    void *arg;
    HANDLE taken;
};

static DWORD WINAPI thread_main(void *p)
{
    struct start *start = p;
    void (*const run)(void *) = start->run;
    void *const arg = start->arg;
    SetEvent(start->taken);
    run(arg);
    return 0;
}

copse_status copse__thread_start(copse_thread *t, void (*run)(void *), void *arg)
{
    struct start start = { .run = run, .arg = arg, .taken = CreateEventW(NULL, TRUE, FALSE, NULL) };
    t->start = NULL;
    t->handle = start.taken ? CreateThread(NULL, 0, thread_main, &start, 0, NULL) : NULL;
    const DWORD e = GetLastError();
    if (t->handle)
        WaitForSingleObject(start.taken, INFINITE);
    if (start.taken)
        CloseHandle(start.taken);
    return t->handle ? COPSE_OK
                     : copse_fail(COPSE_ERR_NO_MEMORY, "platform: thread: %s", copse_reason(e));
}

void copse__thread_join(copse_thread *t)
{
    WaitForSingleObject(t->handle, INFINITE);
    CloseHandle(t->handle);
}

uint64_t copse__now_ns(void)
{
    LARGE_INTEGER rate, now;
    QueryPerformanceFrequency(&rate);
    QueryPerformanceCounter(&now);
    const uint64_t hz = (uint64_t)rate.QuadPart, ticks = (uint64_t)now.QuadPart;
    return ticks / hz * SECOND + ticks % hz * SECOND / hz;
}

/* A FILETIME counts 100 ns since 1601. */
double copse__seconds_since_1970(void)
{
    FILETIME now;
    GetSystemTimePreciseAsFileTime(&now);
    const uint64_t ticks = (uint64_t)now.dwHighDateTime << 32 | now.dwLowDateTime;
    return 1e-7 * (double)ticks - 11644473600.0;
}

void copse__sleep_ns(uint64_t ns)
{
    Sleep((DWORD)COPSE_MIN((ns + 999999) / 1000000, (uint64_t)INFINITE - 1));
}

char *copse__time_text(char *out, size_t room)
{
    const time_t now = time(NULL);
    struct tm utc;
    if (gmtime_s(&utc, &now) != 0 || strftime(out, room, "%Y-%m-%d %H:%M UTC", &utc) == 0)
        out[0] = '\0';
    return out;
}

uint32_t copse__cpu_count(void)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return COPSE_MAX(info.dwNumberOfProcessors, 1u);
}

uint32_t copse__process_id(void)
{
    return (uint32_t)GetCurrentProcessId();
}

bool copse__process_lives(uint32_t id)
{
    DWORD code = 0;
    if (id == 0 || id == copse__process_id())
        return false;
    HANDLE process = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, id);
    if (!process)
        return GetLastError() == ERROR_ACCESS_DENIED;
    const bool lives = GetExitCodeProcess(process, &code) && code == STILL_ACTIVE;
    CloseHandle(process);
    return lives;
}

void *copse__fenced_alloc(size_t size, void **block, size_t *block_size)
{
    SYSTEM_INFO system;
    GetSystemInfo(&system);
    const size_t page = system.dwPageSize;
    *block = NULL;
    if (size > SIZE_MAX - 4 * page)
        return NULL;
    const size_t inside = (size + page - 1) / page * page;
    *block_size = inside + 2 * page;
    char *all = VirtualAlloc(NULL, *block_size, MEM_RESERVE, PAGE_NOACCESS);
    if (!all)
        return NULL;
    if (!VirtualAlloc(all + page, inside, MEM_COMMIT, PAGE_READWRITE)) {
        VirtualFree(all, 0, MEM_RELEASE);
        return NULL;
    }
    *block = all;
    return all + page + inside - size;
}

void copse__fenced_free(void *block, size_t block_size)
{
    (void)block_size;
    if (block)
        VirtualFree(block, 0, MEM_RELEASE);
}

/* Never from the current directory: a driver's loader is a system library. An absolute path finds
   what it needs beside it. */
void *copse__library_open(const char *const *names)
{
    HMODULE library = NULL;
    wchar_t wide[PATH_UNITS];
    for (; *names && !library; names++) {
        const bool is_absolute = (*names)[0] && (*names)[1] == ':';
        if (copse__wide(*names, wide, PATH_UNITS))
            library = LoadLibraryExW(wide, NULL,
                                     LOAD_LIBRARY_SEARCH_DEFAULT_DIRS |
                                         (is_absolute ? LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR : 0));
    }
    return library;
}

void *copse__library_symbol(void *library, const char *name)
{
    const FARPROC found = GetProcAddress(library, name);
    void *symbol;
    memcpy(&symbol, &found, sizeof symbol);
    return symbol;
}

void copse__library_close(void *library)
{
    if (library)
        FreeLibrary(library);
}

bool copse__library_folder(char *path, size_t room)
{
    static const char here;
    HMODULE library;
    wchar_t wide[PATH_UNITS];
    if (!GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                                GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                            (const wchar_t *)&here, &library))
        return false;
    const DWORD length = GetModuleFileNameW(library, wide, PATH_UNITS);
    wchar_t *slash = length > 0 && length < PATH_UNITS ? wcsrchr(wide, L'\\') : NULL;
    if (!slash)
        return false;
    *slash = L'\0';
    return copse__narrow(wide, path, room);
}

/* UTF-8, where getenv has the code page of the system. A value is kept until the process ends: the
   list grows only where the application changes its environment. */
const char *copse__env(const char *name)
{
    static struct value {
        struct value *next;
        char *name, text[];
    } *values;
    static SRWLOCK lock = SRWLOCK_INIT;
    wchar_t wide_name[128];
    if (!copse__wide(name, wide_name, COPSE_COUNT(wide_name)))
        return NULL;
    const wchar_t *wide = _wgetenv(wide_name);
    const int size =
        wide && *wide ? WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL) : 0;
    if (size <= 0)
        return NULL;
    struct value *made = malloc(sizeof *made + (size_t)size + strlen(name) + 1);
    if (!made)
        return NULL;
    WideCharToMultiByte(CP_UTF8, 0, wide, -1, made->text, size, NULL, NULL);
    made->name = strcpy(made->text + size, name);
    AcquireSRWLockExclusive(&lock);
    struct value *v = values;
    while (v && (strcmp(v->name, name) != 0 || strcmp(v->text, made->text) != 0))
        v = v->next;
    if (v) {
        free(made);
    } else {
        made->next = values;
        values = v = made;
    }
    ReleaseSRWLockExclusive(&lock);
    return v->text;
}

char *copse__reason(unsigned long code, char text[COPSE_REASON])
{
    wchar_t wide[COPSE_REASON];
    DWORD n = FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, code,
                             0, wide, COPSE_COUNT(wide), NULL);
    while (n > 0 && wcschr(L". \r\n", wide[n - 1]))
        n--;
    wide[n] = L'\0';
    if (n == 0 || !copse__narrow(wide, text, COPSE_REASON - 20))
        snprintf(text, COPSE_REASON, "system error");
    const size_t used = strlen(text);
    snprintf(text + used, COPSE_REASON - used, " (%lu)", code);
    return text;
}

void copse__path_trusted(const char *path, char *real, char *why, size_t room)
{
    snprintf(real, room, "%s", path);
    *why = '\0';
}

copse_status copse__file_size(const char *path, uint64_t *size)
{
    wchar_t wide[PATH_UNITS];
    WIN32_FILE_ATTRIBUTE_DATA info;
    if (!copse__wide(path, wide, PATH_UNITS) ||
        !GetFileAttributesExW(wide, GetFileExInfoStandard, &info))
        return copse_fail(COPSE_ERR_IO, "file: '%s': %s", path, copse_reason(GetLastError()));
    if (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY)
        return copse_fail(COPSE_ERR_IO, "file: '%s' is not a regular file", path);
    *size = (uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow;
    return COPSE_OK;
}

void copse__use_large_pages(void *block, size_t size)
{
    (void)block; /* Windows needs a privilege for them */
    (void)size;
}

bool copse__is_directory(const char *path)
{
    wchar_t wide[PATH_UNITS];
    const DWORD bits =
        copse__wide(path, wide, PATH_UNITS) ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
    return bits != INVALID_FILE_ATTRIBUTES && (bits & FILE_ATTRIBUTE_DIRECTORY);
}

/* A stream on a new file; NULL with the system's error set. */
static FILE *create_new(const char *path)
{
    wchar_t wide[PATH_UNITS];
    if (!copse__wide(path, wide, PATH_UNITS))
        return NULL;
    const HANDLE handle = CreateFileW(wide, GENERIC_WRITE | DELETE, FILE_SHARE_READ, NULL,
                                      CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
    if (handle == INVALID_HANDLE_VALUE)
        return NULL;
    const int fd = _open_osfhandle((intptr_t)handle, _O_WRONLY | _O_BINARY);
    if (fd < 0) {
        CloseHandle(handle);
        DeleteFileW(wide);
        return NULL;
    }
    FILE *stream = _fdopen(fd, "wb");
    if (!stream) {
        _close(fd);
        DeleteFileW(wide);
    }
    return stream;
}

/* Resolve symbolic links in the target path of a file, so that they are kept. Folders, pipes and
   devices are refused. */
static copse_status find_target(const char **path, char real[PATH_UNITS])
{
    wchar_t wide[PATH_UNITS];
    BY_HANDLE_FILE_INFORMATION info;
    if (!copse__wide(*path, wide, PATH_UNITS))
        return copse_fail(COPSE_ERR_IO, "file: '%s': the path is too long or not UTF-8", *path);
    const DWORD bits = GetFileAttributesW(wide);
    const HANDLE handle = CreateFileW(wide, FILE_READ_ATTRIBUTES,
                                      FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                      OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (handle == INVALID_HANDLE_VALUE) {
        if (bits == INVALID_FILE_ATTRIBUTES)
            return COPSE_OK; /* creating the file reports other errors */
        return copse_fail(COPSE_ERR_IO, "file: cannot open '%s': %s", *path,
                          copse_reason(GetLastError()));
    }
    const bool is_file = GetFileType(handle) == FILE_TYPE_DISK &&
                         GetFileInformationByHandle(handle, &info) &&
                         !(info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY);
    const bool is_link =
        bits != INVALID_FILE_ATTRIBUTES && (bits & FILE_ATTRIBUTE_REPARSE_POINT) != 0;
    bool is_followed = !is_link;
    if (is_file && is_link) {
        const DWORD n = GetFinalPathNameByHandleW(handle, wide, PATH_UNITS, FILE_NAME_NORMALIZED);
        is_followed = n > 0 && n < PATH_UNITS && copse__narrow(wide, real, PATH_UNITS);
    }
    CloseHandle(handle);
    if (!is_file)
        return copse_fail(COPSE_ERR_IO, "file: '%s' is not a regular file", *path);
    if (!is_followed)
        return copse_fail(COPSE_ERR_IO, "file: cannot follow the symbolic link '%s'", *path);
    if (is_link)
        *path = real;
    return COPSE_OK;
}

copse_status copse__atomic_open(struct copse_atomic_file *f, struct copse_mem *mem,
                                const char *path)
{
    static atomic_uint counter;
    char real[PATH_UNITS];
    copse_status s;

    *f = (struct copse_atomic_file){ 0 };
    COPSE_TRY(find_target(&path, real));
    const size_t room = strlen(path) + 32;
    f->mem = mem;
    f->path = copse__strdup(mem, path);
    f->temp = copse__alloc(mem, room, 1);
    if (!f->path || !f->temp) {
        s = copse_fail(COPSE_ERR_NO_MEMORY, "file: no memory for the name '%s'", path);
        goto fail;
    }

    /* A killed process with the same process id may have left a file with this name. */
    for (int attempt = 0; attempt < 100 && !f->stream; attempt++) {
        snprintf(f->temp, room, "%s.tmp%x-%x", path, copse__process_id(),
                 atomic_fetch_add(&counter, 1u));
        f->stream = create_new(f->temp);
        if (!f->stream && GetLastError() != ERROR_FILE_EXISTS)
            break;
    }
    if (!f->stream) {
        s = copse_fail(COPSE_ERR_IO, "file: cannot create '%s': %s", f->temp,
                       copse_reason(GetLastError()));
        goto fail;
    }
    return COPSE_OK;

fail:
    copse__free(mem, f->path);
    copse__free(mem, f->temp);
    *f = (struct copse_atomic_file){ 0 };
    return s;
}

copse_status copse__atomic_commit(struct copse_atomic_file *f)
{
    wchar_t from[PATH_UNITS], to[PATH_UNITS];
    bool is_written =
        fflush(f->stream) == 0 && !ferror(f->stream) && _commit(_fileno(f->stream)) == 0;
    if (fclose(f->stream))
        is_written = false;
    f->stream = NULL;

    copse_status s = COPSE_OK;
    if (!is_written)
        s = copse_fail(COPSE_ERR_IO, "file: cannot write '%s': %s", f->temp,
                       copse_reason(GetLastError()));
    else if (!copse__wide(f->temp, from, PATH_UNITS) || !copse__wide(f->path, to, PATH_UNITS) ||
             !MoveFileExW(from, to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH))
        s = copse_fail(COPSE_ERR_IO, "file: cannot rename '%s' to '%s': %s", f->temp, f->path,
                       copse_reason(GetLastError()));
    else
        f->temp[0] = '\0'; /* renamed to the target */
    copse__atomic_abort(f);
    return s;
}

void copse__atomic_abort(struct copse_atomic_file *f)
{
    wchar_t wide[PATH_UNITS];
    if (f->stream)
        fclose(f->stream);
    if (f->temp && f->temp[0] && copse__wide(f->temp, wide, PATH_UNITS))
        DeleteFileW(wide);
    if (f->mem) {
        copse__free(f->mem, f->path);
        copse__free(f->mem, f->temp);
    }
    *f = (struct copse_atomic_file){ 0 };
}
