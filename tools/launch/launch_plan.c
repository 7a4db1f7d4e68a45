/* SPDX-License-Identifier: MIT */
/* The tasks of a job and their addresses. */
#include "tools/launch/launch_job.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "copse/distribute/cluster.h"

enum { HOST_BYTES = 256 };

struct host {
    char name[HOST_BYTES];
    uint32_t slots, used;
};

struct hosts {
    struct host *at;
    uint32_t count;
};

static bool is_here(const char *name)
{
    return strcmp(name, "localhost") == 0 || strcmp(name, "127.0.0.1") == 0;
}

/* ---- the file of hosts: a host in a line, with the number of its tasks: "a", "a 4", "a slots=4" */

/* False: the line is wrong. */
static bool read_host(char *line, struct host *out)
{
    char *rest = line + strcspn(line, " \t");
    if (*rest)
        *rest++ = '\0';
    rest += strspn(rest, " \t");
    if (strncmp(rest, "slots=", 6) == 0)
        rest += 6;
    char *end = rest;
    const unsigned long slots = *rest ? strtoul(rest, &end, 10) : 1;
    if (*end || (*rest && !isdigit((unsigned char)*rest)) || slots == 0 ||
        slots > COPSE_MAX_WORKERS || strlen(line) >= HOST_BYTES)
        return false;
    snprintf(out->name, sizeof out->name, "%s", line);
    out->slots = (uint32_t)slots;
    out->used = 0;
    return true;
}

static int hosts_complain(const char *path, unsigned line, const char *what)
{
    fprintf(stderr, "copse launch: %s: line %u %s\n", path, line, what);
    return EXIT_BAD_INPUT;
}

/* A host in several lines has the tasks of all of them. */
static void hosts_join(struct hosts *hosts)
{
    const struct host *last = &hosts->at[hosts->count - 1];
    for (uint32_t i = 0; i + 1 < hosts->count; i++)
        if (strcmp(hosts->at[i].name, last->name) == 0) {
            hosts->at[i].slots += last->slots;
            hosts->count--;
            return;
        }
}

static int hosts_add(struct hosts *hosts, const char *path, unsigned number, char *line)
{
    line[strcspn(line, "#\r\n")] = '\0';
    for (size_t n = strlen(line); n > 0 && isspace((unsigned char)line[n - 1]); n--)
        line[n - 1] = '\0';
    line += strspn(line, " \t");
    if (!*line)
        return -1;
    struct host *more = realloc(hosts->at, (hosts->count + 1) * sizeof *more);
    if (!more)
        return hosts_complain(path, number, "does not fit into memory");
    hosts->at = more;
    if (!read_host(line, &hosts->at[hosts->count++]))
        return hosts_complain(path, number, "is not a host and its tasks: \"name\", \"name 4\"");
    hosts_join(hosts);
    return -1;
}

/* Other machines cannot reach an address of this one. */
static int hosts_check(const char *path, const struct hosts *hosts)
{
    uint32_t here = 0;
    for (uint32_t i = 0; i < hosts->count; i++)
        here += is_here(hosts->at[i].name);
    if (hosts->count > 0 && (here == 0 || here == hosts->count))
        return -1;
    fprintf(stderr,
            hosts->count == 0 ? "copse launch: %s has no host\n"
                              : "copse launch: %s has this machine and others: give this one the "
                                "name that the others know\n",
            session_shown(path));
    return EXIT_BAD_INPUT;
}

static int hosts_read(const char *path, struct hosts *hosts)
{
    char line[1024];
    int code = -1;
    FILE *f = system_open(path, "r");
    if (!f) {
        fprintf(stderr, "copse launch: cannot read %s\n", session_shown(path));
        return EXIT_BAD_INPUT;
    }
    for (unsigned n = 1; code < 0 && fgets(line, sizeof line, f); n++)
        code = hosts_add(hosts, path, n, line);
    fclose(f);
    return code < 0 ? hosts_check(path, hosts) : code;
}

/* ---- tasks ---- */

/* The next free slot. */
static struct host *take_slot(const struct hosts *hosts)
{
    uint32_t i = 0;
    while (i < hosts->count && hosts->at[i].used == hosts->at[i].slots)
        i++;
    return i < hosts->count ? &hosts->at[i] : NULL;
}

/* On hosts: ports from --port on, one after the other on each host. */
static int place_on_hosts(struct launch *l)
{
    struct hosts hosts = { .count = 0 };
    const int code = hosts_read(l->hosts, &hosts);
    for (uint32_t i = 0; code < 0 && i < l->task_count; i++) {
        struct launch_task *t = &l->tasks[i];
        struct host *h = take_slot(&hosts);
        if (!h) {
            fprintf(stderr,
                    "copse launch: %s has room for %u tasks, the job has %u: write the number of "
                    "tasks after each host\n",
                    session_shown(l->hosts), i, l->task_count);
            free(hosts.at);
            return EXIT_BAD_INPUT;
        }
        snprintf(t->address, sizeof t->address, strchr(h->name, ':') ? "[%s]:%u" : "%s:%u", h->name,
                 l->port + h->used++);
        t->host = is_here(h->name) ? NULL : strdup(h->name);
    }
    free(hosts.at);
    return code;
}

static int place_here(struct launch *l)
{
    uint16_t ports[COPSE_MAX_WORKERS + 1];
    if (!launch_ports(l->task_count, ports)) {
        fprintf(stderr, "copse launch: there are not %u free ports\n", l->task_count);
        return EXIT_FAILED;
    }
    for (uint32_t i = 0; i < l->task_count; i++)
        snprintf(l->tasks[i].address, sizeof l->tasks[i].address, "127.0.0.1:%u", ports[i]);
    return -1;
}

static void add_task(struct launch *l, const char *role, uint32_t index)
{
    struct launch_task *t = &l->tasks[l->task_count++];
    *t = (struct launch_task){ .role = role, .index = index };
    if (l->no_prefix)
        return;
    if (strcmp(role, "worker") == 0)
        snprintf(t->prefix, sizeof t->prefix, "[%u] ", index);
    else
        snprintf(t->prefix, sizeof t->prefix, "[%s %u] ", role, index);
}

int launch_plan(struct launch *l)
{
    const uint32_t count = l->workers + l->servers + l->has_evaluator;
    if (!l->tasks)
        l->tasks = calloc(count, sizeof *l->tasks);
    if (!l->tasks) {
        fprintf(stderr, "copse launch: no memory\n");
        return EXIT_FAILED;
    }
    for (uint32_t i = 0; i < l->task_count; i++)
        free((char *)(uintptr_t)l->tasks[i].host);
    l->task_count = 0;
    for (uint32_t i = 0; i < l->workers; i++)
        add_task(l, "worker", i);
    for (uint32_t i = 0; i < l->servers; i++)
        add_task(l, "ps", i);
    if (l->has_evaluator)
        add_task(l, "evaluator", 0);
    return l->hosts ? place_on_hosts(l) : place_here(l);
}

/* ---- the description ---- */

static size_t put_role(const struct launch *l, const char *role, char *to, size_t room)
{
    size_t n = 0, found = 0;
    for (uint32_t i = 0; i < l->task_count; i++)
        if (strcmp(l->tasks[i].role, role) == 0) {
            n += (size_t)snprintf(to + n, room - n, "%s\"%s\"", found++ ? "," : "",
                                  l->tasks[i].address);
        }
    return n;
}

char *launch_config(const struct launch *l, uint32_t i)
{
    static const char *const roles[] = { "worker", "ps", "evaluator" };
    const size_t room = (size_t)l->task_count * (sizeof l->tasks->address + 8) + 256;
    char *text = malloc(room), *list = malloc(room);
    size_t n = 0;
    if (text && list) {
        n += (size_t)snprintf(text, room, "{\"cluster\":{");
        for (size_t r = 0, found = 0; r < sizeof roles / sizeof *roles; r++)
            if (put_role(l, roles[r], list, room) > 0)
                n += (size_t)snprintf(text + n, room - n, "%s\"%s\":[%s]", found++ ? "," : "",
                                      roles[r], list);
        snprintf(text + n, room - n, "},\"task\":{\"type\":\"%s\",\"index\":%u}}", l->tasks[i].role,
                 l->tasks[i].index);
    }
    free(list);
    return text;
}
