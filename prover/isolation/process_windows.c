/* SPDX-License-Identifier: MIT */
/* Helper processes on Windows. A child is in a job object of this process, which ends it when this
   process ends. It inherits a pipe, whose handle is in an environment variable. */
#include "prover/isolation/process.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/base/platform.h"
#include "core/base/wide.h"

#define MARK       L"COPSE_CONFORMANCE_HELPER"
#define PATH_UNITS 4096

const char copse_path_separator = ';';
const char *const copse_command_name = "copse.exe";

/* ---- start ---- */

/* The arguments as the C library of the child splits them: a backslash counts only before a
   quotation mark. NULL: no memory, or no UTF-8. */
static wchar_t *command_line(const char *const *arguments)
{
    size_t size = 1;
    for (const char *const *a = arguments; *a; a++)
        size += 2 * strlen(*a) + 3;
    char *line = malloc(size), *to = line;
    wchar_t *wide = malloc(size * sizeof *wide);
    for (; line && *arguments; arguments++) {
        size_t slashes = 0;
        *to++ = '"';
        for (const char *c = *arguments; *c; c++) {
            for (size_t i = 0; *c == '"' && i <= slashes; i++)
                *to++ = '\\';
            slashes = *c == '\\' ? slashes + 1 : 0;
            *to++ = *c;
        }
        for (size_t i = 0; i < slashes; i++)
            *to++ = '\\';
        *to++ = '"';
        *to++ = ' ';
    }
    if (line)
        *to = '\0';
    const bool is_good = line && wide && copse__wide(line, wide, size);
    free(line);
    if (is_good)
        return wide;
    free(wide);
    return NULL;
}

/* The environment of this process, with the pipe; NULL: no memory. */
static wchar_t *child_environment(HANDLE pipe)
{
    const size_t mark = sizeof MARK / sizeof(wchar_t); /* with its '=' */
    wchar_t *all = GetEnvironmentStringsW(), *made = NULL, *to;
    size_t units = 0;
    while (all && all[units])
        units += wcslen(all + units) + 1;
    if (all)
        to = made = malloc((units + mark + 24) * sizeof *made);
    if (made) {
        for (const wchar_t *at = all; *at; at += wcslen(at) + 1)
            if (wcsncmp(at, MARK L"=", mark) != 0)
                to = wcscpy(to, at) + wcslen(at) + 1;
        to += swprintf(to, mark + 22, MARK L"=%llu", (unsigned long long)(uintptr_t)pipe) + 1;
        *to = L'\0';
    }
    FreeEnvironmentStringsW(all);
    return made;
}

/* A copy that a child inherits; what is closed becomes NUL. */
static HANDLE inherited_stream(DWORD which, DWORD access)
{
    HANDLE copy = NULL, given = which ? GetStdHandle(which) : NULL;
    SECURITY_ATTRIBUTES inherit = { .nLength = sizeof inherit, .bInheritHandle = TRUE };
    if (given && given != INVALID_HANDLE_VALUE &&
        DuplicateHandle(GetCurrentProcess(), given, GetCurrentProcess(), &copy, 0, TRUE,
                        DUPLICATE_SAME_ACCESS))
        return copy;
    return CreateFileW(L"NUL", access, FILE_SHARE_READ | FILE_SHARE_WRITE, &inherit, OPEN_EXISTING,
                       0, NULL);
}

/* A job whose processes end when its last handle is closed, at the latest with this process. */
static HANDLE make_job(void)
{
    HANDLE job = CreateJobObjectW(NULL, NULL);
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {
        .BasicLimitInformation.LimitFlags =
            JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION
    };
    if (job &&
        !SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits)) {
        CloseHandle(job);
        return NULL;
    }
    return job;
}

/* The child inherits the three handles and no others of this process. */
static bool process_windows_spawn(const wchar_t *program, wchar_t *line, wchar_t *environment,
                                  HANDLE handles[3], HANDLE job, PROCESS_INFORMATION *out)
{
    SIZE_T size = 0;
    InitializeProcThreadAttributeList(NULL, 1, 0, &size);
    STARTUPINFOEXW start = { .StartupInfo = { .cb = sizeof start,
                                              .dwFlags = STARTF_USESTDHANDLES,
                                              .hStdInput = handles[0],
                                              .hStdOutput = handles[1],
                                              .hStdError = handles[1] },
                             .lpAttributeList = malloc(size) };
    LPPROC_THREAD_ATTRIBUTE_LIST list = start.lpAttributeList;
    bool is_started = false;
    if (list && InitializeProcThreadAttributeList(list, 1, 0, &size)) {
        is_started = UpdateProcThreadAttribute(list, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST, handles,
                                               3 * sizeof *handles, NULL, NULL) &&
                     CreateProcessW(program, line, NULL, NULL, TRUE,
                                    CREATE_SUSPENDED | CREATE_UNICODE_ENVIRONMENT |
                                        EXTENDED_STARTUPINFO_PRESENT,
                                    environment, NULL, &start.StartupInfo, out);
        const DWORD e = GetLastError();
        DeleteProcThreadAttributeList(list);
        SetLastError(e);
    }
    free(list);
    if (!is_started)
        return false;
    if (!AssignProcessToJobObject(job, out->hProcess) || ResumeThread(out->hThread) == (DWORD)-1) {
        const DWORD e = GetLastError();
        TerminateProcess(out->hProcess, 1);
        CloseHandle(out->hProcess);
        CloseHandle(out->hThread);
        SetLastError(e);
        return false;
    }
    CloseHandle(out->hThread);
    return true;
}

copse_status copse__process_start(const char *program, const char *const *arguments,
                                  struct copse_process *out)
{
    wchar_t path[PATH_UNITS], *line = command_line(arguments), *environment = NULL;
    SECURITY_ATTRIBUTES inherit = { .nLength = sizeof inherit, .bInheritHandle = TRUE };
    HANDLE reader = NULL, writer = NULL, job = make_job();
    HANDLE handles[3] = { inherited_stream(0, GENERIC_READ),
                          inherited_stream(STD_ERROR_HANDLE, GENERIC_WRITE), NULL };
    PROCESS_INFORMATION process = { 0 };
    bool is_started = line && job && copse__wide(program, path, PATH_UNITS) &&
                      CreatePipe(&reader, &writer, &inherit, 0) &&
                      SetHandleInformation(reader, HANDLE_FLAG_INHERIT, 0);
    handles[2] = writer;
    environment = is_started ? child_environment(writer) : NULL;
    is_started =
        environment && process_windows_spawn(path, line, environment, handles, job, &process);
    const DWORD e = GetLastError();
    for (size_t i = 0; i < COPSE_COUNT(handles); i++)
        if (handles[i] && handles[i] != INVALID_HANDLE_VALUE)
            CloseHandle(handles[i]);
    free(line);
    free(environment);
    if (is_started) {
        *out =
            (struct copse_process){ (long)process.dwProcessId, -1, process.hProcess, reader, job };
        return COPSE_OK;
    }
    if (reader)
        CloseHandle(reader);
    if (job)
        CloseHandle(job);
    return copse_fail(COPSE_ERR_IO, "helper process: cannot start '%s': system error %lu", program,
                      (unsigned long)e);
}

/* ---- the parent ---- */

/* A pipe without a name cannot be waited for with a time limit. */
int copse__process_read(const struct copse_process *p, void *bytes, size_t room,
                        uint64_t deadline_ns)
{
    DWORD ready = 0, got = 0;
    for (;;) {
        if (!PeekNamedPipe(p->pipe, NULL, 0, NULL, &ready, NULL))
            return 0; /* the child has closed it */
        if (ready > 0)
            return ReadFile(p->pipe, bytes, (DWORD)COPSE_MIN(room, (size_t)1 << 20), &got, NULL)
                       ? (int)got
                       : 0;
        if (copse__now_ns() >= deadline_ns)
            return -1;
        copse__sleep_ns(1000000);
    }
}

void copse__process_kill(const struct copse_process *p)
{
    TerminateProcess(p->handle, 1);
}

static const char *exception_name(DWORD code)
{
    switch (code) {
    case EXCEPTION_ACCESS_VIOLATION:
        return "access violation";
    case EXCEPTION_STACK_OVERFLOW:
        return "stack overflow";
    case EXCEPTION_ILLEGAL_INSTRUCTION:
        return "illegal instruction";
    case EXCEPTION_INT_DIVIDE_BY_ZERO:
        return "division by zero";
    case 0xC000013Au:
        return "Ctrl-C";
    default:
        return "exception";
    }
}

bool copse__process_reap(const struct copse_process *p, uint64_t wait_ns,
                         struct copse_process_end *out)
{
    DWORD code = 0;
    *out = (struct copse_process_end){ 0 };
    if (WaitForSingleObject(p->handle, (DWORD)(wait_ns / 1000000u)) != WAIT_OBJECT_0)
        return false;
    out->is_known = GetExitCodeProcess(p->handle, &code) != 0;
    out->is_signal = code >= 0x80000000u; /* the code of an exception that was not caught */
    out->code = (int)code;
    if (out->is_signal)
        snprintf(out->name, sizeof out->name, "exception 0x%lX (%s)", (unsigned long)code,
                 exception_name(code));
    return true;
}

void copse__process_close(struct copse_process *p)
{
    CloseHandle(p->pipe);
}

void copse__process_forget(struct copse_process *p)
{
    CloseHandle(p->handle);
    CloseHandle(p->job);
}

bool copse__program_exists(const char *path)
{
    wchar_t wide[PATH_UNITS];
    const DWORD bits =
        copse__wide(path, wide, PATH_UNITS) ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
    return bits != INVALID_FILE_ATTRIBUTES && !(bits & FILE_ATTRIBUTE_DIRECTORY);
}

/* ---- the child ---- */

static HANDLE child_pipe;

bool copse__process_is_child(void)
{
    return _wgetenv(MARK) != NULL;
}

/* The job object ends this process with its parent. */
bool copse__child_begin(long parent)
{
    const wchar_t *text = _wgetenv(MARK);
    (void)parent;
    child_pipe = text ? (HANDLE)(uintptr_t)_wcstoui64(text, NULL, 10) : NULL;
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX);
    /* Programs that this one starts do not get the pipe. */
    return child_pipe && SetHandleInformation(child_pipe, HANDLE_FLAG_INHERIT, 0);
}

bool copse__child_write(const char *bytes, size_t size)
{
    while (size > 0) {
        DWORD n = 0;
        if (!WriteFile(child_pipe, bytes, (DWORD)COPSE_MIN(size, (size_t)1 << 20), &n, NULL))
            return false;
        bytes += n;
        size -= n;
    }
    return true;
}
