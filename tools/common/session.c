/* SPDX-License-Identifier: MIT */
/* The context of a command, its log on stderr, and its exit code after a failure. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "copse/device/compile.h"
#include "copse/device/conformance.h"

#include "tools/tool.h"

static bool is_debug;

void session_debug(void)
{
    is_debug = true;
}

void session_log(void *user, copse_log_level level, const char *line)
{
    char plain[1200];
    (void)user;
    fprintf(stderr, "copse: %s%s\n", level == COPSE_LOG_WARN ? "warning: " : "",
            session_plain(plain, sizeof plain, line));
}

copse_status session_open(const struct session_how *how, copse_context **out)
{
    struct copse_context_params params = {
        .log = session_log,
        .log_level = how->is_verbose ? COPSE_LOG_DEBUG : COPSE_LOG_WARN,
        .cache_folder = how->no_cache ? NULL : "",
        .progress = compiling_progress,
    };
    COPSE_TRY(copse_context_create(&params, out));
    static char verbose[] = COMPILING_VERBOSE;
    if (compiling_gains())
        COPSE_TRY(
            copse_context_compile_with(*out, compiling_apart, how->is_verbose ? verbose : NULL));
    COPSE_TRY(copse_context_prioritize(*out, how->priority));
    return copse_context_allow(*out, (how->allows_host ? COPSE_ALLOW_HOST : 0u) |
                                         (how->trusts_unreliable ? COPSE_ALLOW_UNRELIABLE : 0u));
}

copse_status session_open_files(copse_context **out)
{
    /* A backend that is not part of this build cannot be disabled. */
    static const char *const backends[] = { "opencl,vulkan", "opencl", "vulkan", NULL };
    copse_status s = COPSE_ERR_ARGUMENT;
    for (size_t i = 0; s == COPSE_ERR_ARGUMENT && i < sizeof backends / sizeof *backends; i++)
        s = copse_context_create(
            &(struct copse_context_params){ .log = session_log, .disable = backends[i] }, out);
    return s;
}

static const char *renamed_path, *renamed_as;

void session_rename(const char *path, const char *shown)
{
    renamed_path = path;
    renamed_as = shown;
}

static char own_text[1200];

copse_status session_set_error(copse_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(own_text, sizeof own_text, fmt, args);
    va_end(args);
    return status;
}

/* The user gets the sentence on one line. Control characters from a file or a path must not reach
   the terminal. */
const char *session_plain(char *out, size_t room, const char *text)
{
    const size_t path = renamed_path ? strlen(renamed_path) : 0;
    size_t n = 0;
    for (const char *p = text; *p && n + 1 < room; p++) {
        if (path > 0 && strncmp(p, renamed_path, path) == 0) {
            n += (size_t)snprintf(out + n, room - n, "%s", renamed_as);
            n = n < room ? n : room - 1;
            p += path - 1;
            continue;
        }
        /* U+0080 to U+009F */
        const bool is_c1 = (unsigned char)p[0] == 0xc2 && ((unsigned char)p[1] & 0xe0) == 0x80;
        out[n++] = *p == '\n' ? ' ' : is_c1 || iscntrl((unsigned char)*p) ? '?' : *p;
        p += is_c1;
    }
    out[n] = '\0';
    return out;
}

const char *session_shown(const char *text)
{
    static char kept[SHOWN][1024];
    static unsigned next;
    return session_plain(kept[next++ % SHOWN], sizeof *kept, text);
}

const char *session_error(void)
{
    static char line[1200];
    session_plain(line, sizeof line, own_text[0] ? own_text : copse_last_error());
    const size_t used = strlen(line);
    if (is_debug && !own_text[0] && *copse_last_error_place())
        snprintf(line + used, sizeof line - used, " (%s)", copse_last_error_place());
    return line;
}

int session_fail(copse_status status)
{
    fprintf(stderr, "copse: %s\n", session_error());
    switch (status) {
    case COPSE_ERR_ARGUMENT:
    case COPSE_ERR_SHAPE:
    case COPSE_ERR_UNSUPPORTED:
    case COPSE_ERR_NO_DEVICE:
    case COPSE_ERR_IO:
    case COPSE_ERR_FORMAT:
    case COPSE_ERR_NONFINITE:
        return EXIT_BAD_INPUT;
    default:
        return EXIT_FAILED;
    }
}
