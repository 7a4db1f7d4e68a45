/* SPDX-License-Identifier: MIT */
/* Survivors agree on who they are: several workers lost at once, one lost before every message of
   the regrouping, one that is held up in between. Workers are threads of this process;
   cluster_kills_many.sh does it to processes. */
#include "core/base/platform.h"
#include "tests/rig/workers/hub_rig.h"

#define MOST   8
#define NOBODY MOST

static copse_context *ctx;

/* What happens to the workers of a job. */
struct plan {
    uint32_t size;
    uint64_t first;  /* lost at once, before a collective */
    uint32_t victim; /* lost, or held up, before it sends its message `at` of the regrouping */
    uint64_t at;
    bool is_held_up;
    /* these do not see the others any more when they are to form the new group; 0: all do */
    uint64_t part;
    uint32_t deadline_ms;
};

struct worker {
    copse_thread thread;
    const struct plan *plan;
    struct copse_local_hub *hub;
    copse_cluster *c;
    uint32_t rank;
    uint32_t size;     /* of its group in the end, 0: it has none */
    uint32_t sum;      /* over the group */
    char text[1024];   /* why it stopped */
    uint64_t messages; /* while it regrouped */
};
static _Thread_local struct worker *self; /* the worker of this thread, while it regroups */
/* it was lost on the way: nothing comes or goes any more */
static _Thread_local bool is_gone;

static copse_status send_or_die(struct copse_transport *t, uint32_t peer, uint32_t tag,
                                const void *bytes, size_t size, copse_transport_op **op)
{
    if (self && self->messages++ == self->plan->at && self->rank == self->plan->victim) {
        if (self->plan->is_held_up)
            copse__sleep_ns(300000000);
        is_gone = !self->plan->is_held_up;
        if (is_gone)
            copse__transport_local.close(t, false);
    }
    return is_gone ? copse_transport_fail(t, COPSE_ERR_COMM, "lost")
                   : copse__transport_local.send(t, peer, tag, bytes, size, op);
}

static copse_status recv_or_die(struct copse_transport *t, uint32_t peer, uint32_t tag, void *bytes,
                                size_t size, copse_transport_op **op)
{
    return is_gone ? copse_transport_fail(t, COPSE_ERR_COMM, "lost")
                   : copse__transport_local.recv(t, peer, tag, bytes, size, op);
}

/* Whoever listens names all that do not come, the others the first, which does not answer. */
static copse_status open_in_parts(struct copse_transport *t)
{
    const uint64_t part = self->plan->part;
    uint64_t missing = 0;
    for (uint32_t r = 0; r < t->size; r++)
        if ((part >> self->c->original[r] & 1) != (part >> self->rank & 1))
            missing |= 1ull << r;
    if (!missing)
        return copse__transport_local.open(t);
    t->missing = missing & 1 ? 1 : missing;
    return copse_transport_fail(t, COPSE_ERR_TIMEOUT, "not everybody came");
}

static copse_status open_or_die(struct copse_transport *t)
{
    if (self && self->plan->part)
        return open_in_parts(t);
    return is_gone ? copse_transport_fail(t, COPSE_ERR_COMM, "lost")
                   : copse__transport_local.open(t);
}

static bool is_dead(const struct worker *w)
{
    const struct plan *p = w->plan;
    return (p->first >> w->rank & 1) ||
           (w->rank == p->victim && w->messages > p->at && !p->is_held_up);
}

static void live(struct worker *w)
{
    uint32_t mine = 1u << w->rank, all[MOST];
    copse_status s = copse__cluster_allgather(w->c, &mine, all, sizeof mine, "before");
    if (w->plan->first >> w->rank & 1) {
        copse__local_hub_kill(w->hub, w->rank);
        return;
    }
    if (s == COPSE_OK)
        s = copse__cluster_allgather(w->c, &mine, all, sizeof mine, "after");
    /* as a monitor does */
    for (uint32_t size = MOST + 1; s && !is_dead(w) && copse_cluster_size(w->c) < size;) {
        size = copse_cluster_size(w->c);
        self = w;
        s = copse_cluster_regroup(w->c);
        self = NULL;
        if (s == COPSE_OK)
            s = copse__cluster_allgather(w->c, &mine, all, sizeof mine, "again");
    }
    snprintf(w->text, sizeof w->text, "%s", s ? copse_last_error() : "");
    for (uint32_t r = 0; s == COPSE_OK && r < copse_cluster_size(w->c); r++)
        w->sum += all[r];
    w->size = s == COPSE_OK ? copse_cluster_size(w->c) : 0;
}

static void worker_main(void *p)
{
    struct worker *w = p;
    struct copse_transport_table table = copse__transport_local;
    copse_cluster_spec *spec;
    table.open = open_or_die;
    table.send = send_or_die;
    table.recv = recv_or_die;
    if (worker_spec(ctx, w->rank, w->plan->size, &spec))
        return;
    const struct copse_cluster_params params = { .deadline_ms = w->plan->deadline_ms,
                                                 .warn_ms = w->plan->deadline_ms / 2 };
    if (copse__cluster_open_with(ctx, spec, &params, &table, w->hub, &w->c) == COPSE_OK)
        live(w);
    copse_cluster_release(&w->c);
    copse_cluster_spec_release(&spec);
}

struct job {
    struct plan plan;
    struct copse_local_hub *hub;
    struct worker w[MOST];
};

static void start(struct job *job)
{
    OK(copse__local_hub_create(ctx, &job->hub));
    for (uint32_t r = 0; r < job->plan.size; r++) {
        job->w[r] = (struct worker){ .plan = &job->plan, .hub = job->hub, .rank = r };
        OK(copse__thread_start(&job->w[r].thread, worker_main, &job->w[r]));
    }
}

static void finish(struct job *job)
{
    for (uint32_t r = 0; r < job->plan.size; r++)
        copse__thread_join(&job->w[r].thread);
    copse__local_hub_free(&job->hub);
}

/* All that live ended in one group of all that live. Returns the most messages that one of them
   sent. */
static uint64_t expect_one_group(const struct job *job)
{
    const struct plan *plan = &job->plan;
    const struct worker *w = job->w;
    uint32_t alive = 0, sum = 0;
    uint64_t most = 0;
    for (uint32_t r = 0; r < plan->size; r++) {
        alive += !is_dead(&w[r]);
        sum |= is_dead(&w[r]) ? 0 : 1u << r;
        most = COPSE_MAX(most, w[r].messages);
    }
    for (uint32_t r = 0; r < plan->size; r++)
        if (!is_dead(&w[r]) && (w[r].size != alive || w[r].sum != sum))
            fail_msg("victim %u at message %llu: worker %u is in a group of %u with %x, not of %u "
                     "with %x: %s",
                     plan->victim, (unsigned long long)plan->at, r, w[r].size, w[r].sum, alive, sum,
                     w[r].text);
    return most;
}

/* Jobs wait for each other's deadlines and sleep: so they do it all at once. */
static void expect_groups(struct job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        start(&jobs[i]);
    for (size_t i = 0; i < count; i++)
        finish(&jobs[i]);
    for (size_t i = 0; i < count; i++)
        expect_one_group(&jobs[i]);
}

static void several_at_once(void **state)
{
    (void)state;
    static const struct {
        uint32_t size;
        uint64_t lost;
    } cases[] = {
        { 5, 0x18 }, { 5, 0x03 }, { 5, 0x11 }, { 7, 0x70 }, { 7, 0x07 },
        { 7, 0x2a }, { 8, 0x70 }, { 3, 0x01 }, { 4, 0x0c },
    };
    for (int trial = 0; trial < 5; trial++) {
        struct job jobs[COPSE_COUNT(cases)];
        for (size_t i = 0; i < COPSE_COUNT(cases); i++)
            jobs[i].plan = (struct plan){ .size = cases[i].size,
                                          .first = cases[i].lost,
                                          .victim = NOBODY,
                                          .deadline_ms = 20000 };
        expect_groups(jobs, COPSE_COUNT(cases));
    }
}

/* One more is lost while the others regroup. Where it had its say before, the next group is formed
   with it, and fails by its deadline; then everybody knows. */
static void another_before_every_message(void **state)
{
    (void)state;
    struct job job = { { .size = 5, .first = 0x02, .victim = NOBODY, .deadline_ms = 20000 },
                       NULL,
                       { { 0 } } };
    start(&job);
    finish(&job);
    const uint64_t messages = expect_one_group(&job);
    struct job *jobs = calloc(2 * messages, sizeof *jobs);
    assert_non_null(jobs);
    for (uint64_t i = 0; i < 2 * messages; i++) /* the one that the others meet at, and another */
        jobs[i].plan = (struct plan){
            .size = 5, .first = 0x02, .victim = i % 2 ? 3 : 0, .at = i / 2, .deadline_ms = 2000
        };
    expect_groups(jobs, 2 * messages);
    free(jobs);
}

/* One that stands still in between, longer than the last notices are waited for. */
static void one_that_is_held_up(void **state)
{
    (void)state;
    struct job jobs[8];
    for (uint64_t at = 0; at < COPSE_COUNT(jobs); at++)
        jobs[at].plan = (struct plan){ .size = 5,
                                       .first = 0x12,
                                       .victim = 3,
                                       .at = at,
                                       .is_held_up = true,
                                       .deadline_ms = 20000 };
    expect_groups(jobs, COPSE_COUNT(jobs));
}

/* All have agreed, and then cannot see each other: one part of them at most goes on, however often
   each tries. */
static void two_parts_never_both_go_on(void **state)
{
    (void)state;
    for (int with_the_first = 0; with_the_first < 2; with_the_first++) {
        /* of 0 to 4: that has half of the six, or nobody has */
        const uint64_t part = with_the_first ? 0x07 : 0x03;
        struct job job = {
            { .size = 6, .first = 0x20, .victim = NOBODY, .part = part, .deadline_ms = 20000 },
            NULL,
            { { 0 } }
        };
        start(&job);
        finish(&job);
        for (uint32_t r = 0; r < 5; r++) {
            const bool goes_on = with_the_first && (part >> r & 1);
            if (job.w[r].size != (goes_on ? 3 : 0) ||
                (!goes_on && !strstr(job.w[r].text, "workers are left here")))
                fail_msg("worker %u is in a group of %u: %s", r, job.w[r].size, job.w[r].text);
        }
    }
}

static int setup(void **state)
{
    (void)state;
    return copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" }, &ctx);
}

static int teardown(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_at_once),
        cmocka_unit_test(another_before_every_message),
        cmocka_unit_test(one_that_is_held_up),
        cmocka_unit_test(two_parts_never_both_go_on),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
