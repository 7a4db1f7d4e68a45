/* SPDX-License-Identifier: MIT */
/* node SCENARIO [argument [second]]: one worker of a job, described by the environment. Prints what
   came of it and exits with 0 when it is what the scenario expects. cluster.sh starts several. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/comm/node.h"

static copse_context *ctx;
static copse_cluster *c;
static int argument, second;

static void say(const char *text)
{
    printf("rank %u: %s\n", copse_cluster_rank(c), text);
    fflush(stdout);
}

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, copse_last_error());
    return 1;
}

/* ---- scenarios ---- */

/* Many small collectives, and a large one: every pair exchanges 4 MiB. */
static int collect(void)
{
    const uint32_t size = copse_cluster_size(c), rank = copse_cluster_rank(c);
    uint32_t all[COPSE_MAX_WORKERS];
    const uint64_t begin = copse__now_ns();
    for (uint32_t i = 0; i < 200; i++) {
        const uint32_t mine = i * 1000 + rank;
        if (copse__cluster_allgather(c, &mine, all, sizeof mine, "numbers"))
            return failed("gather");
        for (uint32_t r = 0; r < size; r++)
            if (all[r] != i * 1000 + r)
                return failed("wrong number");
    }
    const uint64_t middle = copse__now_ns();
    const size_t count = 1 << 20;
    uint32_t *mine = malloc(4 * count), *theirs = malloc(4 * count * size);
    for (size_t i = 0; i < count; i++)
        mine[i] = (uint32_t)i * (rank + 1);
    if (copse__cluster_allgather(c, mine, theirs, 4 * count, "much"))
        return failed("gather much");
    for (uint32_t r = 0; r < size; r++)
        for (size_t i = 0; i < count; i++)
            if (theirs[r * count + i] != (uint32_t)i * (r + 1))
                return failed("wrong bytes");
    if (copse__cluster_broadcast(c, rank ? theirs : mine, 4 * count, "much for all"))
        return failed("broadcast");
    for (size_t i = 0; i < count && rank; i++)
        if (theirs[i] != (uint32_t)i)
            return failed("wrong bytes of a broadcast");
    free(mine);
    free(theirs);
    char text[96];
    snprintf(text, sizeof text, "200 gathers %.1f ms, 2 x 4 MiB %.1f ms",
             (double)(middle - begin) / 1e6, (double)(copse__now_ns() - middle) / 1e6);
    say(text);
    return 0;
}

static bool ends(struct copse_pending *p)
{
    copse_status s = COPSE_ERR_TIMEOUT;
    while (s == COPSE_ERR_TIMEOUT)
        s = c->table->wait(&c->t, p->op, 10000000);
    return s == COPSE_OK;
}

/* Of two messages with one tag the first is there when the second is, and one look shows it. */
static int look(void)
{
    const uint32_t peer = 1 - copse_cluster_rank(c);
    for (uint32_t i = 0; i < 2000; i++) {
        const uint32_t mine[2] = { 2 * i, 2 * i + 1 };
        uint32_t theirs[2] = { 0, 0 };
        struct copse_pending in[2], out[2];
        for (uint32_t k = 0; k < 2; k++)
            if (c->table->recv(&c->t, peer, COPSE_TAG_PEER, &theirs[k], 4, &in[k].op) ||
                c->table->send(&c->t, peer, COPSE_TAG_PEER, &mine[k], 4, &out[k].op))
                return failed(c->t.text);
        if (!ends(&in[1]))
            return failed(c->t.text);
        const copse_status s = c->table->wait(&c->t, in[0].op, 0);
        if (s) {
            fprintf(stderr, "message %u: a look at what has come gave %s\n", i,
                    copse_status_name(s));
            return 1;
        }
        if (theirs[0] != mine[0] || theirs[1] != mine[1] || !ends(&out[0]) || !ends(&out[1]))
            return failed("wrong number");
    }
    return 0;
}

static int order(void)
{
    const char *const names[] = { "gradients", "losses" };
    uint32_t mine = 1, all[COPSE_MAX_WORKERS];
    copse_status s = COPSE_OK;
    for (uint32_t i = 0; i < 2 && !s; i++)
        s = copse__cluster_allgather(c, &mine, all, 4,
                                     names[copse_cluster_rank(c) == 1 ? 1 - i : i]);
    say(s ? copse_last_error() : "nothing was noticed");
    if (s != COPSE_ERR_ARGUMENT || !strstr(copse_last_error(), "another collective"))
        return 1;
    return copse__cluster_allgather(c, &mine, all, 4, "what all do") == COPSE_OK ? 0 : 1;
}

static int agree(void)
{
    const copse_status s = copse__cluster_agree(
        c, "the model", copse_cluster_rank(c) == 1 ? "w f32 [2]\n" : "w f32 [3]\n");
    say(s ? copse_last_error() : "nothing was noticed");
    return s == COPSE_ERR_ARGUMENT && strstr(copse_last_error(), "it has 'w f32 [2]'") ? 0 : 1;
}

/* Rank 1 dies; with `argument` it only stops for so many seconds. */
static int die(void)
{
    const uint32_t size = copse_cluster_size(c);
    uint32_t mine = 10 + copse_cluster_rank(c), all[COPSE_MAX_WORKERS], expected = 0;
    copse_status s = COPSE_OK;
    /* the last may fail already: who dies had all it waited for */
    for (uint32_t i = 0; i < 10 && !s; i++)
        s = copse__cluster_allgather(c, &mine, all, 4, "before");
    if (copse_cluster_rank(c) == 1)
        raise(argument ? SIGSTOP : SIGKILL); /* cluster.sh wakes it */
    const uint64_t begin = node_begin();
    for (uint32_t i = 0; i < 10 && !s; i++)
        s = copse__cluster_allgather(c, &mine, all, 4, "after");
    const double seconds = node_seconds(begin);
    char text[512];
    snprintf(text, sizeof text, "%.3f s: %s", seconds, s ? copse_last_error() : "all there");
    say(text);
    if (argument)
        return s ? 1 : 0;
    if (s != COPSE_ERR_COMM || !strstr(text, "lost worker 1 (") || seconds > 2)
        return 1;
    const uint64_t again = copse__now_ns();
    if (copse_cluster_regroup(c))
        return failed("regroup");
    if (copse__cluster_allgather(c, &mine, all, 4, "regrouped"))
        return failed("regrouped");
    for (uint32_t r = 0; r < size; r++)
        if (r != 1 && all[expected++] != 10 + r)
            return failed("wrong number after regrouping");
    snprintf(text, sizeof text, "regrouped as %u in %.3f s", copse_cluster_size(c),
             (double)(copse__now_ns() - again) / 1e9);
    say(text);
    return 0;
}

static int reduce(void)
{
    return node_reduce(ctx, c, (uint32_t)argument, (uint32_t)second);
}

static int values(void)
{
    return node_values(ctx, c);
}

/* By windows as `argument`, a copse_one_sided, says. */
static int window(void)
{
    return node_window(ctx, c, (uint32_t)second);
}

static void log_line(void *user, copse_log_level level, const char *line)
{
    (void)user;
    (void)level;
    fprintf(stderr, "%s\n", line);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } scenarios[] = { { "collect", collect }, { "look", look },    { "order", order },
                      { "agree", agree },     { "die", die },      { "reduce", reduce },
                      { "values", values },   { "window", window } };
    copse_cluster_spec *spec;
    const char *name = argc > 1 ? argv[1] : "";
    argument = argc > 2 ? atoi(argv[2]) : 0;
    second = argc > 3 ? atoi(argv[3]) : 0;
    if (strcmp(name, "ports") == 0)
        return node_ports(argument, second);
    if (strcmp(name, "pulse") == 0)
        return node_pulse(argc > 2 ? argv[2] : "");
    node_watch_machine();
    const struct copse_context_params params = { .disable = "opencl,vulkan", .log = log_line };
    if (copse_context_create(&params, &ctx) || copse_cluster_spec_find(ctx, &spec))
        return failed("setup");
    if (!spec) {
        fprintf(stderr, "node: no job is described\n");
        return 2;
    }
    struct copse_cluster_params cluster = { .deadline_ms = 20000 };
    const char *ms = getenv("NODE_DEADLINE_MS");
    if (ms)
        cluster.deadline_ms = (uint32_t)atoi(ms);
    if (strcmp(name, "window") == 0) {
        cluster.one_sided = (copse_one_sided)argument;
        if (copse_cluster_spec_is_launched(spec) && copse_cluster_spec_set_servers(spec, 1))
            return failed("servers");
    }
    if (copse_cluster_open(ctx, spec, &cluster, &c))
        return failed("open");
    int result = 2;
    for (size_t i = 0; i < COPSE_COUNT(scenarios); i++)
        if (strcmp(scenarios[i].name, name) == 0)
            result = scenarios[i].run();
    copse_cluster_release(&c);
    copse_cluster_spec_release(&spec);
    copse_context_release(&ctx);
    return result;
}
