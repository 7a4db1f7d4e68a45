/* SPDX-License-Identifier: MIT */
/* A user kernel from a file: text for OpenCL devices unchanged, SPIR-V unchanged, and text for
   Vulkan devices through glslangValidator. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/use.h"
#include "tools/conformance/conform.h"

enum { MOST = 4 << 20 };

/* Why a kernel cannot be read. */
static char reason[400];

static copse_status own_fail(copse_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(reason, sizeof reason, fmt, args);
    va_end(args);
    return status;
}

/* The complete file with a NUL after it. */
static copse_status read_all(const char *path, char **bytes, size_t *size)
{
    FILE *f = system_open(path, "rb");
    if (!f)
        return own_fail(COPSE_ERR_IO, "cannot read '%s': %s", path, strerror(errno));
    *bytes = malloc(MOST);
    *size = *bytes ? fread(*bytes, 1, MOST, f) : 0;
    const bool is_good = *bytes && !ferror(f) && *size < MOST;
    fclose(f);
    if (!is_good)
        return own_fail(COPSE_ERR_IO, "'%s' cannot be read, or is no kernel", path);
    (*bytes)[*size] = '\0';
    return COPSE_OK;
}

/* ---- GLSL ---- */

struct glsl {
    char folder[1000], source[1020], spirv[1020], log[1020];
};

static copse_status write_source(const struct glsl *g, const char *text)
{
    size_t needed = strlen(text) + 1;
    const bool is_whole = strstr(text, "#version") != NULL; /* plain GLSL, not the dialect */
    if (!is_whole)
        COPSE_TRY(copse_kernel_complete(COPSE_KERNEL_GLSL, text, NULL, 0, &needed));
    char *all = malloc(needed);
    FILE *f = system_open(g->source, "w");
    copse_status s = all && f ? COPSE_OK : own_fail(COPSE_ERR_IO, "cannot write '%s'", g->source);
    if (s == COPSE_OK && is_whole)
        memcpy(all, text, needed);
    else if (s == COPSE_OK)
        s = copse_kernel_complete(COPSE_KERNEL_GLSL, text, all, needed, &needed);
    if (s == COPSE_OK && fputs(all, f) < 0)
        s = own_fail(COPSE_ERR_IO, "cannot write '%s'", g->source);
    if (f && fclose(f) != 0 && s == COPSE_OK)
        s = own_fail(COPSE_ERR_IO, "cannot write '%s'", g->source);
    free(all);
    return s;
}

/* The first error of the compiler. */
static copse_status tell_log(const struct glsl *g, const char *path)
{
    char line[300] = "", found[300] = "no reason given";
    FILE *f = system_open(g->log, "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "ERROR:", 6) == 0) {
            line[strcspn(line, "\n")] = '\0';
            const char *at = strstr(line, g->source);
            snprintf(found, sizeof found, "%s", at ? at + strlen(g->source) + 1 : line + 7);
            break;
        }
    if (f)
        fclose(f);
    const bool has_line = found[0] >= '0' && found[0] <= '9';
    return own_fail(COPSE_ERR_FORMAT, "'%s' does not compile: %s%s", path, has_line ? "line " : "",
                    found);
}

static copse_status conform_own_compile(const struct glsl *g, const char *path)
{
    const char *const words[] = {
        "glslangValidator", "-V", "--target-env", "vulkan1.1", "-S", "comp", "-o", g->spirv,
        g->source,          NULL
    };
    const int code = system_run(words, g->log);
    if (code < 0)
        return own_fail(COPSE_ERR_IO,
                        "cannot run glslangValidator, which compiles '%s' for "
                        "Vulkan: install the Debian package glslang-tools",
                        path);
    return code == 0 ? COPSE_OK : tell_log(g, path);
}

/* Compile text to SPIR-V. */
static copse_status to_spirv(const char *path, char **bytes, size_t *size)
{
    struct glsl g;
    copse_status s;
    if (!system_make_temporary(g.folder, sizeof g.folder))
        return own_fail(COPSE_ERR_IO, "cannot make a folder for temporary files: %s",
                        strerror(errno));
    snprintf(g.source, sizeof g.source, "%s/kernel.comp", g.folder);
    snprintf(g.spirv, sizeof g.spirv, "%s/kernel.spv", g.folder);
    snprintf(g.log, sizeof g.log, "%s/log", g.folder);
    COPSE_TRY_OR(done, s, write_source(&g, *bytes));
    COPSE_TRY_OR(done, s, conform_own_compile(&g, path));
    free(*bytes);
    *bytes = NULL;
    s = read_all(g.spirv, bytes, size);
done:
    system_remove(g.source);
    system_remove(g.spirv);
    system_remove(g.log);
    system_remove_folder(g.folder);
    return s;
}

copse_status conform_own_read(void *user, const char *path, const char *device, void **code,
                              size_t *size, char *why, size_t room)
{
    char *bytes = NULL;
    (void)user;
    reason[0] = '\0';
    copse_status s = read_all(path, &bytes, size);
    const bool is_spirv = s == COPSE_OK && *size >= 4 && memcmp(bytes, "\x03\x02\x23\x07", 4) == 0;
    if (s == COPSE_OK && !is_spirv &&
        (use_has_ending(path, ".comp") || strncmp(device, "vulkan:", 7) == 0))
        s = to_spirv(path, &bytes, size);
    *code = bytes;
    snprintf(why, room, "%s", reason);
    return s;
}

int conform_contract(const char *kernel)
{
    char text[4096];
    if (!kernel) {
        fprintf(stderr, "copse conformance: contract needs --kernel NAME: softmax\n");
        return EXIT_BAD_INPUT;
    }
    const copse_status s = copse_kernel_contract(kernel, text, sizeof text);
    if (s != COPSE_OK)
        return session_fail(s);
    printf("%s%s", text, *text && text[strlen(text) - 1] == '\n' ? "" : "\n");
    return EXIT_DONE;
}
