/* SPDX-License-Identifier: MIT */
/* Files of `copse gpucheck` are sent to others, so they must not identify a person, a machine or one
   card of a series: serial numbers, UUIDs, places on a bus, paths, names of hosts and users. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tools/gpucheck/gpucheck.h"

enum { SHORTEST_NAME = 3, UUID_DIGITS = 32, LONGEST_VALUE = 16 };

static const char *private_variable(const char *first, const char *second)
{
    const char *value = getenv(first);
    value = value && *value ? value : getenv(second);
    return value ? value : "";
}

void gpucheck_private_find(struct gpucheck_private *out)
{
    system_names(out->host, sizeof out->host, out->user, sizeof out->user);
    snprintf(out->home, sizeof out->home, "%s", private_variable("HOME", "USERPROFILE"));
}

/* ---- names of members ---- */

static bool name_has(const char *name, const char *part)
{
    const size_t n = strlen(part);
    for (; *name; name++) {
        size_t i = 0;
        while (i < n && tolower((unsigned char)name[i]) == part[i])
            i++;
        if (i == n)
            return true;
    }
    return false;
}

static bool is_identity(const char *name)
{
    static const char *const parts[] = { "uuid", "luid", "serial", "pci", "hostname", "own_path" };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (name_has(name, parts[i]))
            return true;
    return false;
}

/* Texts of the library and names of products: the name of a host in them has another meaning. */
static bool is_fixed(const char *name)
{
    static const char *const names[] = { "event",     "id",     "device",      "name",    "driver",
                                         "mode",      "op",     "type",        "variant", "kernel",
                                         "processor", "kind",   "api_version", "system",  "backend",
                                         "stage",     "library" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* ---- texts ---- */

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool begins_with(const char *text, const char *what, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (tolower((unsigned char)text[i]) != tolower((unsigned char)what[i]))
            return false;
    return true;
}

static bool is_after(const char *text, size_t at, const char *prefix)
{
    const size_t n = strlen(prefix);
    return at >= n && begins_with(text + at - n, prefix, n);
}

/* Bytes of a path that begins at `text + at`, 0 = none. Words with a slash, such as GB/s, are no
   path. */
static size_t path_length(const char *text, size_t at)
{
    const char *p = text + at;
    const bool is_first = at == 0 || strchr(" \t\"'`([<>=:,;|", p[-1]) ||
                          is_after(text, at, "-I") || is_after(text, at, "-L") ||
                          is_after(text, at, "file://");
    const char *start = *p == '~' ? p + 1 : p;
    const bool is_unix = *start == '/' && (is_word(start[1]) || start[1] == '.');
    const bool is_windows = (isalpha((unsigned char)p[0]) && p[1] == ':' &&
                             (p[2] == '\\' || p[2] == '/') && is_word(p[3])) ||
                            (p[0] == '\\' && p[1] == '\\' && is_word(p[2]));
    return is_first && (is_unix || is_windows) ? strcspn(p, " \t\n\"'`)]<>,;|") : 0;
}

/* Bytes of a UUID, or of a number of as many hexadecimal digits; also in "GPU-6c1a2b3c-..." and
   "MIG-6c1a2b3c-...". */
static size_t uuid_length(const char *text, size_t at)
{
    const char *p = text + at;
    size_t digits = 0, n = 0;
    if (at > 0 && (isalnum((unsigned char)p[-1]) || p[-1] == '-') && !is_after(text, at, "GPU-") &&
        !is_after(text, at, "MIG-"))
        return 0;
    for (; isxdigit((unsigned char)p[n]) || (p[n] == '-' && n > 0); n++)
        digits += p[n] != '-';
    return digits >= UUID_DIGITS && !is_word(p[n]) ? n : 0;
}

static size_t word_length(const char *text, size_t at, const char *word)
{
    const size_t n = strlen(word);
    const bool is_start = at == 0 || !is_word(text[at - 1]);
    return n >= SHORTEST_NAME && is_start && begins_with(text + at, word, n) &&
                   !is_word(text[at + n])
               ? n
               : 0;
}

/* The whole name of a host, or its first label: "node7" of "node7.example.org". */
static size_t host_length(const char *text, size_t at, const char *host)
{
    char label[64];
    const size_t whole = word_length(text, at, host), n = strcspn(host, ".");
    if (whole || !host[n] || n >= sizeof label)
        return whole;
    memcpy(label, host, n);
    label[n] = '\0';
    return word_length(text, at, label);
}

static size_t home_length(const char *text, size_t at, const char *home)
{
    const size_t n = strlen(home);
    return n > 1 && strncmp(text + at, home, n) == 0 ? n + strcspn(text + at + n, " \"'`)]<>,;|")
                                                     : 0;
}

/* The same text without what is private; to be freed. NULL without memory. */
static char *private_text(const struct gpucheck_private *names, const char *text,
                          bool is_fixed_name)
{
    char *out = malloc(8 * strlen(text) + 1);
    size_t n = 0;
    for (size_t i = 0; out && text[i];) {
        const char *instead = "<path>";
        size_t length = home_length(text, i, names->home);
        length = length ? length : path_length(text, i);
        if (!length && (length = uuid_length(text, i)) > 0)
            instead = "<number>";
        if (!length && !is_fixed_name && (length = host_length(text, i, names->host)) > 0)
            instead = "<host>";
        /* "root" is a word of arithmetic, and no person */
        if (!length && !is_fixed_name && strcmp(names->user, "root") != 0 &&
            (length = word_length(text, i, names->user)) > 0)
            instead = "<user>";
        if (length) {
            n += (size_t)sprintf(out + n, "%s", instead);
            i += length;
        } else {
            out[n++] = text[i++];
        }
    }
    if (out)
        out[n] = '\0';
    return out;
}

static void text_set(cJSON *item, const char *text)
{
    if (!cJSON_SetValuestring(item, text) && item->valuestring)
        item->valuestring[0] = '\0'; /* no memory: rather nothing */
}

static void text_clean(const struct gpucheck_private *names, cJSON *item, const char *name)
{
    char *clean = private_text(names, item->valuestring, is_fixed(name));
    text_set(item, clean ? clean : "");
    free(clean);
}

/* The file of a library or layer, without its folder. */
static void file_clean(cJSON *item)
{
    char *name = strrchr(item->valuestring, '/'), *back = strrchr(item->valuestring, '\\');
    name = name && (!back || name > back) ? name : back;
    if (name)
        memmove(item->valuestring, name + 1, strlen(name));
}

/* A value of the environment may be a path, a host, anything: only numbers and switches are kept. */
static void variable_clean(cJSON *item)
{
    const char *v = item->valuestring;
    static const char *const switches[] = { "true", "false", "yes", "no", "on", "off" };
    bool is_plain = strspn(v, "0123456789.") == strlen(v) && strlen(v) <= LONGEST_VALUE;
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
        is_plain = is_plain || strcmp(v, switches[i]) == 0;
    if (!is_plain)
        text_set(item, "set");
}

static void item_clean(const struct gpucheck_private *names, cJSON *item, const char *of)
{
    const char *name = item->string ? item->string : of;
    cJSON *next;
    if (cJSON_IsString(item) && strcmp(of, "variables") == 0)
        variable_clean(item);
    else if (cJSON_IsString(item)) {
        if (strcmp(of, "libraries") == 0 || strcmp(of, "layers") == 0)
            file_clean(item);
        text_clean(names, item, name);
    }
    for (cJSON *child = item->child; child; child = next) {
        next = child->next;
        if (child->string && is_identity(child->string))
            cJSON_Delete(cJSON_DetachItemViaPointer(item, child));
        else
            item_clean(names, child, name);
    }
}

void gpucheck_private_clean(const struct gpucheck_private *names, cJSON *event)
{
    item_clean(names, event, "");
}
