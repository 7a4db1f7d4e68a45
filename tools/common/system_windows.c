/* SPDX-License-Identifier: MIT */
/* The operating system through Win32. system_posix.c has the same functions. */
#include "tools/common/system.h"

#include <direct.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <windows.h>

#include <shellapi.h>

#define PATH_UNITS 4096

/* ---- texts and errors ---- */

/* In memory that is freed by the caller; NULL: no UTF-8, or no memory. */
static wchar_t *system_wide(const char *text)
{
    const int units = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    wchar_t *wide = units > 0 ? malloc((size_t)units * sizeof *wide) : NULL;
    errno = units > 0 ? ENOMEM : EILSEQ;
    if (wide)
        MultiByteToWideChar(CP_UTF8, 0, text, -1, wide, units);
    return wide;
}

static char *system_narrow(const wchar_t *wide)
{
    const int size = WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL);
    char *text = size > 0 ? malloc((size_t)size) : NULL;
    errno = ENOMEM;
    if (text)
        WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, size, NULL, NULL);
    return text;
}

/* errno from the error of the last call; returns false. */
static bool system_failed(void)
{
    switch (GetLastError()) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
    case ERROR_BAD_PATHNAME:
        errno = ENOENT;
        break;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
        errno = EACCES;
        break;
    case ERROR_FILE_EXISTS:
    case ERROR_ALREADY_EXISTS:
        errno = EEXIST;
        break;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL:
        errno = ENOSPC;
        break;
    case ERROR_DIR_NOT_EMPTY:
        errno = ENOTEMPTY;
        break;
    default:
        errno = EIO;
    }
    return false;
}

/* ---- the begin ---- */

static UINT console_before;

static void restore_console(void)
{
    SetConsoleOutputCP(console_before);
}

static bool is_console(FILE *f, DWORD *mode)
{
    return GetConsoleMode((HANDLE)_get_osfhandle(_fileno(f)), mode) != 0;
}

/* A console shows UTF-8, and knows the sequences that redraw a line. */
static void set_console(void)
{
    DWORD mode;
    if (!is_console(stdout, &mode) && !is_console(stderr, &mode))
        return;
    console_before = GetConsoleOutputCP();
    if (console_before != CP_UTF8 && SetConsoleOutputCP(CP_UTF8))
        atexit(restore_console);
    if (is_console(stdout, &mode))
        SetConsoleMode((HANDLE)_get_osfhandle(_fileno(stdout)),
                       mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
}

/* The arguments of main have the code page of the system. */
static void take_arguments(int *argc, char ***argv)
{
    int count;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &count);
    char **texts = wide ? calloc((size_t)count + 1, sizeof *texts) : NULL;
    bool is_good = texts != NULL;
    for (int i = 0; is_good && i < count; i++)
        is_good = (texts[i] = system_narrow(wide[i])) != NULL;
    if (is_good) {
        *argc = count;
        *argv = texts; /* as long as the process */
    }
    LocalFree(wide);
}

void system_begin(int *argc, char ***argv)
{
    FILE *const streams[] = { stdin, stdout, stderr };
    for (int i = 0; i < 3; i++) {
        if (_fileno(streams[i]) < 0)
            freopen("NUL", i == 0 ? "rb" : "wb", streams[i]);
        _setmode(_fileno(streams[i]), _O_BINARY);
    }
    setvbuf(stderr, NULL, _IONBF, 0);
    set_console();
    take_arguments(argc, argv);
}

/* ---- time, threads, the machine ---- */

double system_now(void)
{
    LARGE_INTEGER rate, now;
    QueryPerformanceFrequency(&rate);
    QueryPerformanceCounter(&now);
    return (double)now.QuadPart / (double)rate.QuadPart;
}

void system_sleep_ns(long ns)
{
    Sleep((DWORD)((ns + 999999) / 1000000));
}

struct thread {
    HANDLE of_system;
    void (*run)(void *);
    void *arg;
};

static DWORD WINAPI system_thread_main(void *p)
{
    const struct thread *t = p;
    t->run(t->arg);
    return 0;
}

void *system_thread_start(void (*run)(void *), void *arg)
{
    struct thread *t = malloc(sizeof *t);
    if (!t)
        return NULL;
    t->run = run;
    t->arg = arg;
    t->of_system = CreateThread(NULL, 0, system_thread_main, t, 0, NULL);
    if (t->of_system)
        return t;
    free(t);
    return NULL;
}

void system_thread_join(void *thread)
{
    struct thread *t = thread;
    WaitForSingleObject(t->of_system, INFINITE);
    CloseHandle(t->of_system);
    free(t);
}

unsigned system_processors(void)
{
    const DWORD count = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return count < 1 ? 1 : (unsigned)count;
}

void system_processor_name(char *to, size_t room)
{
    wchar_t wide[128];
    DWORD size = sizeof wide;
    snprintf(to, room, "processor");
    if (RegGetValueW(HKEY_LOCAL_MACHINE, L"HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0",
                     L"ProcessorNameString", RRF_RT_REG_SZ, NULL, wide, &size) == ERROR_SUCCESS)
        WideCharToMultiByte(CP_UTF8, 0, wide, -1, to, (int)room, NULL, NULL);
}

static void system_windows_variable(const char *name, char *to, size_t room)
{
    const DWORD length = GetEnvironmentVariableA(name, to, (DWORD)room);
    if (length == 0 || length >= room)
        *to = '\0';
}

void system_names(char *host, size_t host_room, char *user, size_t user_room)
{
    system_windows_variable("COMPUTERNAME", host, host_room);
    system_windows_variable("USERNAME", user, user_room);
}

long system_process(void)
{
    return (long)GetCurrentProcessId();
}

void *system_library(const char *name)
{
    wchar_t file[80];
    const size_t n = strcspn(name, ".");
    _snwprintf(file, 80, L"lib%.*S.dll", (int)n, name);
    file[79] = L'\0';
    return LoadLibraryExW(file, NULL, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
}

void *system_symbol(void *library, const char *symbol)
{
    const FARPROC found = GetProcAddress(library, symbol);
    void *at;
    memcpy(&at, &found, sizeof at);
    return at;
}

bool system_set_environment(const char *name, const char *value)
{
    return _putenv_s(name, value) == 0;
}

/* ---- the terminal, programs ---- */

bool system_is_terminal(unsigned *columns)
{
    DWORD mode;
    CONSOLE_SCREEN_BUFFER_INFO info;
    *columns = 0;
    if (!is_console(stdout, &mode))
        return false;
    if (GetConsoleScreenBufferInfo((HANDLE)_get_osfhandle(_fileno(stdout)), &info))
        *columns = (unsigned)(info.srWindow.Right - info.srWindow.Left + 1);
    return true;
}

static void use_slashes(char *path)
{
    for (; *path; path++)
        if (*path == '\\')
            *path = '/';
}

void system_program(char *path, size_t room)
{
    wchar_t wide[PATH_UNITS];
    const DWORD n = GetModuleFileNameW(NULL, wide, PATH_UNITS);
    if (n == 0 || n == PATH_UNITS ||
        !WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, (int)room, NULL, NULL))
        *path = '\0';
    use_slashes(path);
}

const char *system_itself(void)
{
    static char path[PATH_UNITS];
    system_program(path, sizeof path);
    return path;
}

/* The words in quotation marks. They have no quotation marks of their own, which names of files
   cannot have. */
static char *join_words(const char *const *words)
{
    size_t size = 1, used = 0;
    for (const char *const *w = words; *w; w++)
        size += strlen(*w) + 3;
    char *line = malloc(size);
    for (; line && *words; words++)
        used += (size_t)snprintf(line + used, size - used, "\"%s\" ", *words);
    return line;
}

int system_run(const char *const *words, const char *log)
{
    DWORD code = 0;
    char *narrow = join_words(words);
    wchar_t *line = narrow ? system_wide(narrow) : NULL, *path = system_wide(log);
    SECURITY_ATTRIBUTES inherited = { .nLength = sizeof inherited, .bInheritHandle = TRUE };
    HANDLE file = path ? CreateFileW(path, GENERIC_WRITE, FILE_SHARE_READ, &inherited,
                                     CREATE_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL)
                       : INVALID_HANDLE_VALUE;
    STARTUPINFOW start = {
        .cb = sizeof start, .dwFlags = STARTF_USESTDHANDLES, .hStdOutput = file, .hStdError = file
    };
    PROCESS_INFORMATION process;
    const bool is_run =
        line && file != INVALID_HANDLE_VALUE &&
        CreateProcessW(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, &start, &process);
    if (is_run) {
        WaitForSingleObject(process.hProcess, INFINITE);
        GetExitCodeProcess(process.hProcess, &code);
        CloseHandle(process.hProcess);
        CloseHandle(process.hThread);
    }
    if (file != INVALID_HANDLE_VALUE)
        CloseHandle(file);
    free(narrow);
    free(line);
    free(path);
    return is_run ? (int)(code & 0x7fffffff) : -1;
}

/* ---- files ---- */

bool system_has_program(const char *name)
{
    char path[4096];
    return SearchPathA(NULL, name, ".exe", sizeof path, path, NULL) > 0;
}

bool system_look(const char *path, struct system_file *out)
{
    BY_HANDLE_FILE_INFORMATION info;
    wchar_t *wide = system_wide(path);
    if (!wide)
        return false;
    const HANDLE handle = CreateFileW(wide, FILE_READ_ATTRIBUTES,
                                      FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                      OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    free(wide);
    if (handle == INVALID_HANDLE_VALUE)
        return system_failed();
    const bool is_disk = GetFileType(handle) == FILE_TYPE_DISK;
    const bool is_known = !is_disk || GetFileInformationByHandle(handle, &info);
    if (!is_known)
        system_failed();
    CloseHandle(handle);
    *out = (struct system_file){ .kind = SYSTEM_OTHER };
    if (is_disk && is_known)
        *out = (struct system_file){
            .kind = info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY ? SYSTEM_FOLDER : SYSTEM_FILE,
            .device = info.dwVolumeSerialNumber,
            .number = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow,
            .size = (uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow,
            .changed = (int64_t)((uint64_t)info.ftLastWriteTime.dwHighDateTime << 32 |
                                 info.ftLastWriteTime.dwLowDateTime),
        };
    return is_known;
}

bool system_is_link(const char *path)
{
    wchar_t *wide = system_wide(path);
    const DWORD bits = wide ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
    free(wide);
    return bits != INVALID_FILE_ATTRIBUTES && (bits & FILE_ATTRIBUTE_REPARSE_POINT);
}

bool system_can_read(const char *path)
{
    wchar_t *wide = system_wide(path);
    const bool can = wide && _waccess(wide, 4) == 0;
    free(wide);
    return can;
}

char *system_real_path(const char *path)
{
    wchar_t *wide = system_wide(path), real[PATH_UNITS];
    if (!wide)
        return NULL;
    const HANDLE handle = CreateFileW(wide, FILE_READ_ATTRIBUTES,
                                      FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                      OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    free(wide);
    if (handle == INVALID_HANDLE_VALUE) {
        system_failed();
        return NULL;
    }
    const DWORD n = GetFinalPathNameByHandleW(handle, real, PATH_UNITS, FILE_NAME_NORMALIZED);
    CloseHandle(handle);
    if (n == 0 || n >= PATH_UNITS) {
        system_failed();
        return NULL;
    }
    const bool is_long = wcsncmp(real, L"\\\\?\\", 4) == 0 && real[5] == L':';
    char *text = system_narrow(is_long ? real + 4 : real);
    if (text && is_long)
        use_slashes(text);
    return text;
}

const char *system_name(const char *path)
{
    const char *name = path[0] && path[1] == ':' ? path + 2 : path;
    for (const char *c = name; *c; c++)
        if (*c == '/' || *c == '\\')
            name = c + 1;
    return name;
}

FILE *system_open(const char *path, const char *mode)
{
    wchar_t *wide = system_wide(path), how[8];
    _snwprintf(how, 8, L"%S%s", mode, strchr(mode, 'b') ? L"" : L"b");
    how[7] = L'\0';
    FILE *f = wide ? _wfopen(wide, how) : NULL;
    free(wide);
    return f;
}

/* What a new file allows to whom comes from its folder. */
FILE *system_create(const char *path, const char *like)
{
    wchar_t *wide = system_wide(path);
    (void)like;
    const int fd = wide ? _wopen(wide, _O_WRONLY | _O_CREAT | _O_EXCL | _O_BINARY | _O_NOINHERIT,
                                 S_IREAD | S_IWRITE)
                        : -1;
    FILE *f = fd >= 0 ? _fdopen(fd, "wb") : NULL;
    if (fd >= 0 && !f) {
        _close(fd);
        _wunlink(wide);
        errno = ENOMEM;
    }
    free(wide);
    return f;
}

bool system_sync(FILE *f)
{
    return _commit(_fileno(f)) == 0;
}

bool system_rename(const char *from, const char *to)
{
    wchar_t *a = system_wide(from), *b = system_wide(to);
    const bool is_done =
        a && b &&
        (MoveFileExW(a, b, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) || system_failed());
    free(a);
    free(b);
    return is_done;
}

bool system_remove(const char *path)
{
    wchar_t *wide = system_wide(path);
    const bool is_done = wide && (DeleteFileW(wide) || system_failed());
    free(wide);
    return is_done;
}

bool system_make_folder(const char *path)
{
    wchar_t *wide = system_wide(path);
    const bool is_done = wide && (CreateDirectoryW(wide, NULL) || system_failed());
    free(wide);
    return is_done;
}

bool system_remove_folder(const char *path)
{
    wchar_t *wide = system_wide(path);
    const bool is_done = wide && (RemoveDirectoryW(wide) || system_failed());
    free(wide);
    return is_done;
}

bool system_remove_name(FILE *f, char *path, size_t room)
{
    (void)f, (void)path, (void)room;
    return false;
}

bool system_make_temporary(char *path, size_t room)
{
    wchar_t folder[MAX_PATH + 1];
    const DWORD n = GetTempPathW(MAX_PATH + 1, folder);
    char *top = n > 0 && n <= MAX_PATH ? system_narrow(folder) : NULL;
    bool is_made = false;
    for (unsigned i = 0; top && !is_made && i < 100; i++) {
        const int length = snprintf(path, room, "%scopse-%lx-%x", top, system_process(), i);
        is_made = length > 0 && (size_t)length < room && system_make_folder(path);
    }
    free(top);
    return is_made;
}
