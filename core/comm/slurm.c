/* SPDX-License-Identifier: MIT */
/* Lists of hosts and numbers of tasks in the short forms of SLURM:
   https://slurm.schedmd.com/srun.html, "OUTPUT ENVIRONMENT VARIABLES". */
#include "core/comm/slurm.h"

#include "core/base/platform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A group of ports for each step. */
enum { FIRST_PORT = 10000, PORTS = 64, GROUPS = 300, LAST_PORT = 65535 - PORTS };

/* ---- the variables ---- */

bool copse__launcher_number(const char *variable, uint32_t *out)
{
    const char *text = copse__env(variable);
    char *end;
    if (!text || *text < '0' || *text > '9')
        return false;
    const unsigned long n = strtoul(text, &end, 10);
    *out = (uint32_t)n;
    return *end == '\0' && n <= UINT32_MAX;
}

/* Steps of one node at the same time have other ports. 0: COPSE_PORT is wrong. */
static uint32_t port_of_step(void)
{
    uint32_t port, job = 0, step = 0;
    const char *given = copse__env("COPSE_PORT");
    if (given)
        return copse__launcher_number("COPSE_PORT", &port) && port <= LAST_PORT ? port : 0;
    copse__launcher_number("SLURM_JOB_ID", &job);
    copse__launcher_number("SLURM_STEP_ID", &step);
    return FIRST_PORT + (job * 7 + step) % GROUPS * PORTS;
}

bool copse__slurm_find(struct copse_slurm *out)
{
    *out = (struct copse_slurm){ .hosts = copse__env("SLURM_STEP_NODELIST"),
                                 .tasks = copse__env("SLURM_STEP_TASKS_PER_NODE"),
                                 .port = port_of_step() };
    return out->hosts && out->tasks && copse__launcher_number("SLURM_PROCID", &out->rank) &&
           copse__launcher_number("SLURM_STEP_NUM_TASKS", &out->size) && out->size > 1 &&
           copse__launcher_number("SLURM_NODEID", &out->node);
}

/* ---- tasks ---- */

/* The next number of "2(x3),1" and how often it comes. False: the end, or wrong. */
static bool next_tasks(const char **at, uint32_t *tasks, uint32_t *nodes)
{
    char *end;
    *nodes = 1;
    if (**at < '0' || **at > '9')
        return false;
    *tasks = (uint32_t)strtoul(*at, &end, 10);
    if (strncmp(end, "(x", 2) == 0) {
        *nodes = (uint32_t)strtoul(end + 2, &end, 10);
        if (*end++ != ')')
            return false;
    }
    *at = *end == ',' ? end + 1 : end;
    return *tasks > 0 && *nodes > 0;
}

/* Node of a task, and which of the node's tasks it is. */
static bool node_of(const char *list, uint32_t task, uint32_t *node, uint32_t *local)
{
    uint32_t tasks, nodes;
    *node = 0;
    while (next_tasks(&list, &tasks, &nodes)) {
        if (task / tasks < nodes) {
            *node += task / tasks;
            *local = task % tasks;
            return true;
        }
        task -= tasks * nodes;
        *node += nodes;
    }
    return false;
}

/* ---- hosts ---- */

struct text {
    char *at;
    size_t length, room;
};

static void put_text(struct text *t, const char *from, size_t length)
{
    const size_t left = t->room - t->length;
    t->length += (size_t)snprintf(t->at + t->length, left, "%.*s", (int)length, from);
    t->length = COPSE_MIN(t->length, t->room - 1);
}

/* A range "01-03" or a number "7" up to ',' or ']': how many numbers; with `out` the `k`-th. 0: it
   is wrong. */
static uint32_t range_take(const char *at, uint32_t k, struct text *out)
{
    char *end, number[16];
    const unsigned long first = strtoul(at, &end, 10);
    const size_t digits = (size_t)(end - at);
    unsigned long last = first;
    if (digits == 0 || digits >= sizeof number)
        return 0;
    if (*end == '-')
        last = strtoul(end + 1, &end, 10);
    if (last < first || last - first >= UINT16_MAX || (*end != ',' && *end != ']'))
        return 0;
    if (out) {
        const int n = snprintf(number, sizeof number, "%0*lu", (int)digits, first + k);
        put_text(out, number, (size_t)n);
    }
    return (uint32_t)(last - first + 1);
}

/* The same of the ranges after '['; *end: after ']'. */
static uint32_t ranges_take(const char *at, uint32_t k, struct text *out, const char **end)
{
    uint32_t all = 0;
    for (; at; at = *at == ',' ? at + 1 : NULL) {
        const uint32_t count = range_take(at, 0, NULL);
        if (count == 0)
            return 0;
        if (out && k >= all && k - all < count)
            range_take(at, k - all, out);
        all += count;
        at += strcspn(at, ",]");
        *end = at + 1;
    }
    return all;
}

/* Hosts of the item that begins here, up to ',' outside of brackets; the last brackets run
   fastest. */
static uint32_t item_take(const char *at, uint32_t k, struct text *out, const char **end)
{
    const size_t plain = strcspn(at, ",[");
    if (out)
        put_text(out, at, plain);
    at += plain;
    if (*at != '[') {
        *end = at;
        return 1;
    }
    const char *rest;
    const uint32_t mine = ranges_take(at + 1, 0, NULL, &rest);
    const uint32_t later = mine ? item_take(rest, 0, NULL, end) : 0;
    if (out && later) {
        ranges_take(at + 1, k / later, out, &rest);
        item_take(rest, k % later, out, end);
    }
    return mine * later;
}

static bool host_of(const char *list, uint32_t node, struct text *out)
{
    const char *end = list;
    for (const char *at = list; *at; at = *end == ',' ? end + 1 : end) {
        const uint32_t count = item_take(at, 0, NULL, &end);
        if (count == 0 || end == at)
            return false;
        if (node < count) {
            item_take(at, node, out, &end);
            return out->length > 0;
        }
        node -= count;
    }
    return false;
}

/* ---- addresses ---- */

copse_status copse__slurm_address(const struct copse_slurm *s, uint32_t task, char *text,
                                  size_t room)
{
    uint32_t node, local;
    struct text host = { text, 0, room };
    text[0] = '\0';
    if (!node_of(s->tasks, task, &node, &local) || !host_of(s->hosts, node, &host))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "cluster: SLURM's task %u of %u has no node: SLURM_STEP_NODELIST is "
                          "'%.64s', SLURM_STEP_TASKS_PER_NODE '%.64s'",
                          task, s->size, s->hosts, s->tasks);
    const int n = snprintf(text + host.length, room - host.length, ":%u", s->port + local);
    return n > 0 && (size_t)n < room - host.length
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT, "cluster: the name of SLURM's node %u is too long",
                            node);
}

copse_status copse__slurm_check(const struct copse_slurm *s)
{
    uint32_t node, local;
    if (s->port == 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "cluster: COPSE_PORT is '%.32s'; it must be a port from 1 to %d",
                          copse__env("COPSE_PORT"), LAST_PORT);
    return node_of(s->tasks, s->rank, &node, &local) && node != s->node
               ? copse_fail(COPSE_ERR_ARGUMENT,
                            "cluster: SLURM started task %u on node %u, not %u: start the job with "
                            "srun --distribution=block, or describe it in COPSE_CONFIG",
                            s->rank, s->node, node)
               : COPSE_OK;
}
