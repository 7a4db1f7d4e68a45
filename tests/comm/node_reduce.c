/* SPDX-License-Identifier: MIT */
/* See node.h. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define fail_msg(...) (fprintf(stderr, __VA_ARGS__), exit(3))

#include "core/comm/group.h"
#include "tests/comm/node.h"
#include "tests/rig/value/exchange_rig.h"

#define RANKS   2
#define ROUNDS  4
#define NUMBERS 6000u

static struct {
    bool is_victim;
    uint32_t steps, at; /* of the exchange, and in which to die */
} plan;

/* At once; the file that NODE_DIES names tells when. */
static void die(void)
{
    const char *path = getenv("NODE_DIES");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (f)
        fclose(f);
    raise(SIGKILL);
}

static void count_step(void *user, const struct copse_move *m)
{
    (void)user;
    (void)m;
    if (plan.is_victim && plan.steps == plan.at)
        die();
    plan.steps++;
}

struct job {
    struct rig g;
    copse_exchange *x;
    struct copse_group group;
    uint32_t buckets[2];
};

static copse_status make(struct job *j, copse_context *ctx, copse_cluster *c)
{
    static const char *const ids[RANKS] = { "host:0", "host:0" };
    struct copse_exchange_rank ranks[RANKS];
    uint32_t piece;
    COPSE_TRY(copse__group_join(&j->group, c, RANKS, 64 << 20));
    open_rig(&j->g, ctx, ids, RANKS, &plain);
    for (uint32_t r = 0; r < RANKS; r++)
        ranks[r] = (struct copse_exchange_rank){ j->g.queue[r],
                                                 { j->g.step[r], 0, 4 * COPSE_STEP_WORDS } };
    const struct copse_exchange_params params = {
        .ctx = ctx, .ranks = ranks, .rank_count = RANKS, .group = &j->group, .pause = count_step
    };
    COPSE_TRY(copse__exchange_create(&params, &j->x));
    COPSE_TRY(copse__exchange_piece(j->x, copse__round_up(NUMBERS, COPSE_UNIT), &piece));
    COPSE_TRY(add_bucket(&j->g, j->x, piece, 0, 4096, &j->buckets[0]));
    return add_bucket(&j->g, j->x, piece, 4096, NUMBERS - 4096, &j->buckets[1]);
}

static void write_all(struct job *j, uint32_t step, uint64_t *ready)
{
    const uint32_t first = j->group.first;
    for (uint32_t r = 0; r < RANKS; r++) {
        const struct copse_binding to =
            step ? copse__exchange_gradients(j->x, 0, r) : copse__exchange_values(j->x, 0, r);
        for (uint32_t i = 0; i < NUMBERS; i++)
            room[i] = step ? gradient(first + r, i, step) : first_value(i);
        if (step)
            write_step(&j->g, r, step);
        OK(copse_queue_write(j->g.queue[r], to.buffer, to.offset, room, 4 * NUMBERS));
        OK(copse_queue_submit(j->g.queue[r], &ready[r]));
    }
}

/* Every element is as after `step` whole steps, or one more. */
static bool is_whole(struct job *j, uint32_t total, uint32_t step)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        const struct copse_binding at = copse__exchange_values(j->x, 0, r);
        OK(copse_queue_read(j->g.queue[r], at.buffer, at.offset, read_back, 4 * NUMBERS));
        OK(copse_queue_finish(j->g.queue[r]));
        for (uint32_t i = 0; i < NUMBERS; i++) {
            float before = first_value(i), after;
            for (uint32_t s = 1; s <= step; s++)
                before -= RATE * canonical(0, total, i, s);
            const float change = RATE * canonical(0, total, i, step + 1);
            after = before - change;
            if (memcmp(&read_back[i], &before, 4) != 0 && memcmp(&read_back[i], &after, 4) != 0) {
                fprintf(stderr, "rank %u, element %u: %a is neither %a nor %a\n", r, i,
                        (double)read_back[i], (double)before, (double)after);
                return false;
            }
        }
    }
    return true;
}

int node_reduce(copse_context *ctx, copse_cluster *c, uint32_t victim, uint32_t at)
{
    static struct job j;
    uint64_t ready[RANKS];
    char lost[64], text[1024] = "";
    copse_status s = COPSE_OK;
    uint32_t step = 0;
    const uint32_t rank = copse_cluster_rank(c);
    plan.is_victim = rank == victim;
    plan.at = at;
    OK(make(&j, ctx, c));
    write_all(&j, 0, ready);
    uint64_t begin = node_begin();
    for (; step < ROUNDS && !s; step++) {
        write_all(&j, step + 1, ready);
        begin = node_begin();
        for (uint32_t b = 0; b < 2 && !s; b++)
            s = copse__exchange_run(j.x, j.buckets[b], ready, NULL, NULL);
    }
    const double seconds = node_seconds(begin);
    snprintf(text, sizeof text, "%s", s ? copse_last_error() : "");
    snprintf(lost, sizeof lost, "lost worker %u", victim);
    const bool is_clean = is_whole(&j, j.group.ranks, s ? step - 1 : step);
    printf("rank %u: %u exchange steps, in round %u after %.3f s: %s\n", rank, plan.steps, step,
           seconds, s ? text : "all done");
    copse__exchange_release(&j.x);
    close_rig(&j.g);
    copse__group_leave(&j.group);
    if (!is_clean)
        return 1;
    if (victim >= copse_cluster_size(c) || !s) /* nobody died, or not before the end */
        return s ? 1 : 0;
    return s == COPSE_ERR_COMM && strstr(text, lost) && seconds < 2 ? 0 : 1;
}
