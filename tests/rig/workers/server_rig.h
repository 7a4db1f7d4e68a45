/* SPDX-License-Identifier: MIT */
/* Shared by the tests of parameter servers in a job: workers and servers as threads, and a network
   to train. Include after cmocka.h. */
#ifndef COPSE_SERVER_RIG_H
#define COPSE_SERVER_RIG_H

#include "copse/distribute/parameter_server.h"

#include "core/comm/local.h"
#include "tests/rig/train/train_model.h"
#include "tests/rig/value/replica_rig.h"

#define MOST 6

struct job;
typedef copse_status work_fn(struct job *job, uint32_t worker, copse_strategy *st);

/* `workers` and `servers`, one thread each. */
struct job {
    uint32_t workers, servers, replicas;
    bool is_mixed;
    work_fn *work;
    const struct copse_strategy_params *params;
    uint32_t deadline_ms; /* 0: a minute */
    copse_one_sided one_sided;
    uint64_t window_bytes, one_sided_bytes;
    const struct copse_transport_table *engine; /* NULL: the transport of threads */
    struct copse_local_hub *hub;
    struct task {
        copse_thread thread;
        struct job *job;
        uint32_t rank;
        copse_status status;
        char text[1024];
        struct copse_parameter_server_summary summary;
        copse_cluster *cluster;
        struct copse_one_sided_info access; /* at the end */
        char why[512];
    } tasks[MOST];
    /* results of the workers for the test, and their barrier */
    copse_mutex lock;
    copse_cond changed;
    uint32_t at; /* a number that only increases */
    float seen[MOST][8];
    double first_loss[MOST], last_loss[MOST];
    uint64_t global[MOST];
};

static inline void reach(struct job *job, uint32_t at)
{
    copse__mutex_lock(&job->lock);
    job->at = COPSE_MAX(job->at, at);
    copse__cond_signal_all(&job->changed);
    copse__mutex_unlock(&job->lock);
}

static inline copse_status await(struct job *job, uint32_t at)
{
    const uint64_t end = copse__now_ns() + 60000000000ull;
    copse__mutex_lock(&job->lock);
    while (job->at < at && copse__cond_wait(&job->changed, &job->lock, end))
        ;
    const bool is_there = job->at >= at;
    copse__mutex_unlock(&job->lock);
    return is_there ? COPSE_OK
                    : copse_fail(COPSE_ERR_TIMEOUT, "the other worker did not come to %u", at);
}

static inline copse_status work(struct task *t)
{
    struct job *job = t->job;
    const char *ids[MAX_RANKS];
    copse_strategy *st;
    for (uint32_t r = 0; r < job->replicas; r++)
        ids[r] = job->is_mixed ? found[r % found_count] : "host:0";
    COPSE_TRY(copse_parameter_server_create(ctx, t->cluster, ids, job->replicas, job->params, &st));
    const copse_status s = job->work(job, t->rank, st);
    copse_strategy_release(&st);
    return s;
}

static inline void task_main(void *p)
{
    struct task *t = p;
    struct job *job = t->job;
    const bool is_server = t->rank >= job->workers;
    char json[512];
    copse_cluster_spec *spec;
    int used = snprintf(json, sizeof json, "{\"cluster\":{\"worker\":[");
    for (uint32_t r = 0; r < job->workers; r++)
        used += snprintf(json + used, sizeof json - (size_t)used, "%s\"w%u:1\"", r ? "," : "", r);
    used += snprintf(json + used, sizeof json - (size_t)used, "],\"ps\":[");
    for (uint32_t r = 0; r < job->servers; r++)
        used += snprintf(json + used, sizeof json - (size_t)used, "%s\"s%u:1\"", r ? "," : "", r);
    snprintf(json + used, sizeof json - (size_t)used, "]},\"task\":{\"type\":\"%s\",\"index\":%u}}",
             is_server ? "ps" : "worker", is_server ? t->rank - job->workers : t->rank);
    const struct copse_cluster_params params = { .deadline_ms =
                                                     job->deadline_ms ? job->deadline_ms : 60000,
                                                 .one_sided = job->one_sided,
                                                 .window_bytes = job->window_bytes,
                                                 .one_sided_bytes = job->one_sided_bytes };
    t->status = copse_cluster_spec_parse(ctx, json, &spec);
    if (!t->status)
        t->status = copse__cluster_open_with(ctx, spec, &params,
                                             job->engine ? job->engine : &copse__transport_local,
                                             job->hub, &t->cluster);
    if (!t->status)
        t->status = is_server
                        ? copse_parameter_server_serve(
                              ctx, t->cluster, job->is_mixed ? found[t->rank % found_count] : NULL,
                              &t->summary)
                        : work(t);
    if (t->status)
        snprintf(t->text, sizeof t->text, "%s", copse_last_error());
    if (t->cluster) {
        copse_cluster_one_sided(t->cluster, &t->access);
        snprintf(t->why, sizeof t->why, "%s", t->access.why);
    }
    copse_cluster_release(&t->cluster);
    copse_cluster_spec_release(&spec);
}

static inline void run_job(struct job *job)
{
    OK(copse__local_hub_create(ctx, &job->hub));
    OK(copse__mutex_init(&job->lock));
    OK(copse__cond_init(&job->changed));
    const uint32_t count = job->workers + job->servers;
    assert_true(count <= MOST);
    for (uint32_t r = 0; r < count; r++) {
        job->tasks[r].job = job;
        job->tasks[r].rank = r;
        OK(copse__thread_start(&job->tasks[r].thread, task_main, &job->tasks[r]));
    }
    for (uint32_t r = 0; r < count; r++)
        copse__thread_join(&job->tasks[r].thread);
    copse__cond_fini(&job->changed);
    copse__mutex_fini(&job->lock);
    copse__local_hub_free(&job->hub);
}

static inline void assert_all_done(const struct job *job)
{
    for (uint32_t r = 0; r < job->workers + job->servers; r++)
        if (job->tasks[r].status)
            fail_msg("task %u: %s: %s", r, copse_status_name(job->tasks[r].status),
                     job->tasks[r].text);
}

static inline copse_status make_trainer(copse_strategy *st, struct model *m,
                                        copse_optimizer_kind kind, copse_trainer **out)
{
    COPSE_TRY(model_create(m, st));
    return copse_trainer_create(
        st,
        &(struct copse_trainer_params){ .loss = model_loss,
                                        .user = m,
                                        .optimizer = { .kind = kind, .learning_rate = 0.01f },
                                        .seed = 3 },
        out);
}

struct data {
    float x[MODEL_ROWS * MODEL_IN];
    int32_t y[MODEL_ROWS];
};

static inline copse_status one_step(copse_trainer *t, const struct data *d, uint32_t i,
                                    double *loss)
{
    const size_t row = (size_t)i * 32 % (MODEL_ROWS - 32);
    struct copse_step_result result;
    COPSE_TRY(copse_trainer_step(
        t, &(struct copse_host_batch){ RIG_XY(MODEL_IN, d->x + row * MODEL_IN, d->y + row),
                                       .count = 32 }));
    COPSE_TRY(copse_trainer_result(t, true, &result));
    *loss = result.loss;
    return COPSE_OK;
}

#endif
