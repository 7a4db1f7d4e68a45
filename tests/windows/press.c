/* SPDX-License-Identifier: MIT */
/* press FILE TEXT COUNT KEY PROGRAM [ARGUMENT...]: runs a program in a console until TEXT is COUNT times
   in FILE, which is its standard output; then presses KEY there ("c" for Ctrl-C, "break" for
   Ctrl-Break), waits for the end of the program, and writes its exit code to FILE.code. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include <shellapi.h>

static wchar_t **words;
static int count;

static bool has_text(const wchar_t *path, const char *text, int times)
{
    static char bytes[1 << 20];
    int found = 0;
    FILE *f = _wfopen(path, L"rb");
    bytes[f ? fread(bytes, 1, sizeof bytes - 1, f) : 0] = '\0';
    if (f)
        fclose(f);
    for (const char *at = strstr(bytes, text); at; at = strstr(at + 1, text))
        found++;
    return found >= times;
}

static void press(DWORD event, DWORD group)
{
    if (!GenerateConsoleCtrlEvent(event, group))
        fprintf(stderr, "press: error %lu\n", GetLastError());
}

static BOOL WINAPI ignore_event(DWORD event)
{
    (void)event;
    return TRUE;
}

/* What follows the fourth argument, each word in quotation marks. */
static wchar_t *line_of(int first)
{
    size_t units = 1;
    for (int i = first; i < count; i++)
        units += wcslen(words[i]) + 3;
    wchar_t *line = calloc(units, sizeof *line);
    for (int i = first; line && i < count; i++) {
        wcscat(line, L"\"");
        wcscat(line, words[i]);
        wcscat(line, L"\" ");
    }
    return line;
}

int main(void)
{
    char text[200] = "", key[20] = "";
    words = CommandLineToArgvW(GetCommandLineW(), &count);
    if (!words || count < 6)
        return 2;
    WideCharToMultiByte(CP_UTF8, 0, words[2], -1, text, sizeof text, NULL, NULL);
    WideCharToMultiByte(CP_UTF8, 0, words[4], -1, key, sizeof key, NULL, NULL);
    AllocConsole();
    SECURITY_ATTRIBUTES inherit = { .nLength = sizeof inherit, .bInheritHandle = TRUE };
    HANDLE out =
        CreateFileW(words[1], GENERIC_WRITE, FILE_SHARE_READ, &inherit, CREATE_ALWAYS, 0, NULL);
    STARTUPINFOW start = { .cb = sizeof start,
                           .dwFlags = STARTF_USESTDHANDLES,
                           .hStdOutput = out,
                           .hStdError = GetStdHandle(STD_ERROR_HANDLE) };
    PROCESS_INFORMATION child;
    SetHandleInformation(start.hStdError, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
    const bool is_break =
        strcmp(key, "break") == 0; /* to a group of its own, which gets no Ctrl-C */
    if (!CreateProcessW(NULL, line_of(5), NULL, NULL, TRUE, is_break ? CREATE_NEW_PROCESS_GROUP : 0,
                        NULL, NULL, &start, &child)) {
        fprintf(stderr, "press: cannot start it: error %lu\n", GetLastError());
        return 2;
    }
    SetConsoleCtrlHandler(ignore_event, TRUE);
    while (WaitForSingleObject(child.hProcess, 50) == WAIT_TIMEOUT &&
           !has_text(words[1], text, _wtoi(words[3])))
        continue;
    press(is_break ? CTRL_BREAK_EVENT : CTRL_C_EVENT, is_break ? child.dwProcessId : 0);
    DWORD code = 0;
    WaitForSingleObject(child.hProcess, INFINITE);
    GetExitCodeProcess(child.hProcess, &code);
    wchar_t path[1024];
    swprintf(path, 1024, L"%ls.code", words[1]);
    FILE *f = _wfopen(path, L"wb");
    if (f)
        fprintf(f, "%lu\n", code);
    return f && fclose(f) == 0 ? 0 : 2;
}
