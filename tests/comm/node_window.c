/* SPDX-License-Identifier: MIT */
/* Parameter servers by windows and by messages: that what a worker reads is of one moment while
   others push, and how fast both ways are. The last rank serves. */
#include <stdio.h>
#include <stdlib.h>

#include "copse/distribute/parameter_server.h"
#include "core/ps/server.h"
#include "tests/comm/node.h"

#define VARIABLES 3
#define PUSHES    300

struct table {
    struct copse_server *server;
    uint32_t ids[VARIABLES], counts[VARIABLES], variables, group, elements;
    uint64_t seen[VARIABLES];
    void *values[VARIABLES];
    float *gradients;
};

static copse_status make(struct table *t, copse_cluster *c)
{
    const struct copse_optimizer_params rule = { .kind = COPSE_SGD, .learning_rate = 1.0f };
    COPSE_TRY(copse__server_remote(c, copse_cluster_size(c), &t->server));
    for (uint32_t i = 0; i < t->variables; i++) {
        char name[16];
        snprintf(name, sizeof name, "v%u", i);
        t->values[i] = calloc(t->counts[i], sizeof(float));
        t->elements += t->counts[i];
        const struct copse_server_variable v = { name, COPSE_F32, COPSE_SHAPE(t->counts[i]),
                                                 t->values[i], copse_cluster_is_chief(c) };
        COPSE_TRY(t->server->table->make(t->server, &v, &t->ids[i]));
    }
    t->gradients = malloc(t->elements * sizeof *t->gradients);
    for (uint32_t i = 0; i < t->elements; i++)
        t->gradients[i] = -1.0f;
    return t->server->table->group(t->server, 0, t->ids, t->variables, &rule, &t->group);
}

static void unmake(struct table *t)
{
    copse__server_release(&t->server);
    for (uint32_t i = 0; i < t->variables; i++)
        free(t->values[i]);
    free(t->gradients);
}

static copse_status push(struct table *t, uint64_t *count)
{
    const struct copse_server_push p = {
        .rate = 1.0f, .scale = 1.0f, .gradients = t->gradients, .elements = t->elements
    };
    return t->server->table->push(t->server, t->group, &p, count);
}

static copse_status pull(struct table *t)
{
    return t->server->table->pull(t->server, t->ids, t->variables, t->seen, t->values);
}

/* Every update adds 1 to everything. */
static copse_status check(const struct table *t, uint64_t least)
{
    const float first = *(const float *)t->values[0];
    for (uint32_t i = 0; i < t->variables; i++)
        for (uint32_t k = 0; k < t->counts[i]; k++)
            if (((const float *)t->values[i])[k] != first)
                return copse_fail(COPSE_ERR_INTERNAL, "%u of variable %u is %g beside %g", k, i,
                                  (double)((const float *)t->values[i])[k], (double)first);
    return first >= (float)least
               ? COPSE_OK
               : copse_fail(COPSE_ERR_INTERNAL, "%g where there were %llu updates", (double)first,
                            (unsigned long long)least);
}

static copse_status read_and_write(copse_cluster *c)
{
    struct table t = { .variables = 3, .counts = { 300, 50000, 1 } };
    uint64_t count = 0;
    copse_status s = make(&t, c);
    for (uint32_t i = 0; i < PUSHES && !s; i++) {
        s = push(&t, &count);
        if (!s)
            s = pull(&t);
        if (!s)
            s = check(&t, count);
    }
    unmake(&t);
    return s;
}

/* ---- how fast ---- */

#define SAMPLES 1000

struct samples {
    double us[SAMPLES];
    uint32_t count;
};

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static uint64_t note(struct samples *s, uint64_t begin)
{
    const uint64_t now = copse__now_ns();
    s->us[s->count++] = (double)(now - begin) / 1e3;
    return now;
}

static void show(const char *what, struct samples *s)
{
    qsort(s->us, s->count, sizeof *s->us, by_size);
    printf("  %-22s best %8.1f us, median %8.1f us, %8.0f/s\n", what, s->us[0], s->us[s->count / 2],
           1e6 / s->us[s->count / 2]);
}

static copse_status rates(copse_cluster *c, uint32_t bytes)
{
    static struct samples pushes, pulls, again, turns;
    struct table t = { .variables = 1, .counts = { bytes / 4 } };
    uint64_t count = 0;
    copse_status s = make(&t, c);
    for (uint32_t i = 0; i < 20 && !s; i++) /* warm */
        s = push(&t, &count) ? COPSE_ERR_COMM : pull(&t);
    for (uint32_t i = 0; i < SAMPLES && !s; i++) {
        const uint64_t begin = copse__now_ns();
        s = push(&t, &count);
        const uint64_t then = note(&pushes, begin);
        if (!s)
            s = pull(&t);
        const uint64_t end = note(&pulls, then);
        (void)note(&turns, begin);
        if (!s)
            s = pull(&t);
        (void)note(&again, end);
    }
    if (!s)
        s = check(&t, count);
    unmake(&t);
    if (s)
        return s;
    printf("%u bytes\n", bytes);
    show("push", &pushes);
    show("pull", &pulls);
    show("push and pull", &turns);
    show("pull of nothing new", &again);
    return COPSE_OK;
}

int node_window(copse_context *ctx, copse_cluster *c, uint32_t bytes)
{
    struct copse_parameter_server_summary did;
    struct copse_one_sided_info how;
    const bool is_server = copse_cluster_rank(c) == copse_cluster_size(c);
    copse_status s = is_server ? copse_parameter_server_serve(ctx, c, NULL, &did)
                     : bytes   ? rates(c, bytes)
                               : read_and_write(c);
    copse_cluster_one_sided(c, &how);
    if (s)
        fprintf(stderr, "rank %u: %s\n", copse_cluster_rank(c), copse_last_error());
    else
        printf("rank %u: by %s: %llu read, %llu tries again, %llu asked, %llu pushed\n",
               copse_cluster_rank(c), how.is_used ? "windows" : "messages",
               (unsigned long long)how.pulls, (unsigned long long)how.retries,
               (unsigned long long)how.asked, (unsigned long long)how.pushes);
    if (!s && !bytes && is_server && did.updates != (uint64_t)copse_cluster_size(c) * PUSHES)
        return 1;
    return s ? 1 : 0;
}
