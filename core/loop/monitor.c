/* SPDX-License-Identifier: MIT */
/* The monitor: runs a step, writes checkpoints, resumes, recovers from failed devices and lost
   workers. */
#include <math.h>
#include <stdio.h>

#include "copse/loop/monitor.h"
#include "core/base/platform.h"
#include "core/data/array.h"
#include "core/loop/monitor_workers.h"
#include "core/loop/step.h"
#include "core/replica/strategy.h"
#include "core/state/checkpoint_folder.h"

#define SECONDS_DEFAULT 600.0
#define RETRIES_DEFAULT 3

struct copse_monitor {
    copse_step *step;
    copse_cluster *cluster; /* retained; NULL: no other workers */
    copse_on_loss on_loss;
    struct copse_mem *mem;
    const struct copse_logger *log;
    bool has_place;    /* for checkpoints */
    bool is_non_chief; /* the chief alone writes them */
    struct copse_checkpoint_folder files;
    uint64_t every_steps, every_progress, every_ns, retries;

    uint64_t completed;          /* steps in this monitor's life, less those rolled back */
    char *resumed_from, *newest; /* paths */
    uint64_t newest_progress, newest_completed;
    uint64_t tried_progress, tried_completed, tried_ns; /* of the last checkpoint that was tried */
    uint64_t next_check; /* `completed` at which the first worker reads its clock again */
    bool is_behind;      /* the last one that was tried failed */
    uint64_t tries;      /* recoveries since the newest checkpoint */
    uint64_t saved, skipped, recoveries, failed;
};

/* ---- checkpoints ---- */

static void set_tried(copse_monitor *m)
{
    m->tried_progress = m->step->f.progress(m->step->user);
    m->tried_completed = m->completed;
    m->tried_ns = copse__now_ns();
    m->next_check = m->completed + 1;
}

static void set_newest(copse_monitor *m, char *path)
{
    copse__free(m->mem, m->newest);
    m->newest = path;
    m->newest_progress = m->step->f.progress(m->step->user);
    m->newest_completed = m->completed;
    m->tries = 0;
    m->is_behind = false;
    set_tried(m);
}

static copse_status monitor_save(copse_monitor *m)
{
    const uint64_t progress = m->step->f.progress(m->step->user);
    char *path;
    COPSE_TRY(copse__checkpoint_folder_new(&m->files, progress, &path));
    const copse_status s = m->step->f.save(m->step->user, path);
    if (s != COPSE_OK) {
        copse__free(m->mem, path);
        m->failed++;
        return s;
    }
    if (m->is_behind && copse__monitor_is_first(m->cluster))
        copse__log(m->log, COPSE_LOG_WARN, "monitor: checkpoints are written again: %s", path);
    m->saved++;
    set_newest(m, path);
    return copse__monitor_is_first(m->cluster)
               ? copse__checkpoint_folder_written(&m->files, progress)
               : COPSE_OK;
}

/* A checkpoint that cannot be written is no reason to lose what is computed: the newest one stays,
   and the next is tried when it is due. The first worker writes, so it decides; the others have
   failed because it has. */
static copse_status save_or_go_on(copse_monitor *m)
{
    struct copse_monitor_decision w = { 0 };
    copse_status s = monitor_save(m);
    if (s == COPSE_OK || (m->cluster && copse_cluster_lost(m->cluster) > 0))
        return s;
    char text[sizeof w.text];
    snprintf(text, sizeof text, "%s", copse_last_error());
    const bool is_first = copse__monitor_is_first(m->cluster);
    COPSE_TRY(
        copse__monitor_broadcast(m->cluster, is_first && s != COPSE_ERR_IO ? s : COPSE_OK, &w));
    if (!copse__monitor_is_shared(m->cluster) && s != COPSE_ERR_IO)
        return s;
    if (!m->is_behind && is_first)
        copse__log(m->log, COPSE_LOG_WARN, "monitor: %s; it goes on, the newest checkpoint is %s",
                   text, m->newest);
    m->is_behind = true;
    set_tried(m);
    return COPSE_OK;
}

static bool is_saved(const copse_monitor *m)
{
    return m->newest && m->step->f.progress(m->step->user) == m->newest_progress;
}

/* The clocks of workers differ: that of the first worker decides. It is read seldom. */
static copse_status is_time(copse_monitor *m, bool *out)
{
    struct copse_monitor_decision w = { 0 };
    const uint64_t elapsed = copse__now_ns() - m->tried_ns;
    *out = m->every_ns && elapsed >= m->every_ns;
    if (!copse__monitor_is_shared(m->cluster) || !m->every_ns)
        return COPSE_OK;
    *out = false;
    if (m->completed < m->next_check)
        return COPSE_OK;
    w.is_due = elapsed >= m->every_ns;
    w.next_check = m->completed + copse__monitor_next_check(m->completed - m->tried_completed,
                                                            elapsed, m->every_ns);
    COPSE_TRY(copse__monitor_broadcast(m->cluster, COPSE_OK, &w));
    *out = w.is_due != 0;
    m->next_check = w.next_check;
    return COPSE_OK;
}

static copse_status save_if_due(copse_monitor *m)
{
    if (!m->has_place || is_saved(m))
        return COPSE_OK;
    const uint64_t progress = m->step->f.progress(m->step->user);
    bool is_due = (m->every_steps && m->completed - m->tried_completed >= m->every_steps) ||
                  (m->every_progress && progress - m->tried_progress >= m->every_progress);
    if (!is_due)
        COPSE_TRY(is_time(m, &is_due));
    return is_due ? save_or_go_on(m) : COPSE_OK;
}

/* Around everything that calls functions of the step. */
static struct copse_callback monitor_around(const copse_monitor *m)
{
    return (struct copse_callback){ .name = "a function of the step that a monitor calls",
                                    .used = { m } };
}

copse_status copse_monitor_checkpoint(copse_monitor *m)
{
    COPSE_TRY(copse_need("monitor", m));
    COPSE_TRY(copse__require_no_replica("copse_monitor_checkpoint", m));
    if (m->is_non_chief)
        return COPSE_OK;
    if (!m->has_place)
        return copse_fail(COPSE_ERR_ARGUMENT, "monitor: it has no place for checkpoints");
    struct copse_callback here = monitor_around(m);
    return copse_callback_call(&here, is_saved(m) ? COPSE_OK : monitor_save(m));
}

/* ---- resuming ---- */

static bool is_damage(copse_status s)
{
    return s == COPSE_ERR_FORMAT || s == COPSE_ERR_IO;
}

/* The newest checkpoint that was not rejected, on the first worker; NULL: none. */
static copse_status find_newest(copse_monitor *m, char **path)
{
    struct copse_monitor_decision w = { 0 };
    copse_status s = COPSE_OK;
    *path = NULL;
    if (copse__monitor_is_first(m->cluster))
        s = copse__checkpoint_folder_path(&m->files, 0, path);
    snprintf(w.path, sizeof w.path, "%s", *path ? *path : "");
    s = copse__monitor_broadcast(m->cluster, s, &w);
    if (s == COPSE_OK && !*path && w.path[0]) {
        *path = copse__strdup(m->mem, w.path);
        s = copse_need_memory(*path, "monitor");
    }
    if (s != COPSE_OK) {
        copse__free(m->mem, *path);
        *path = NULL;
    }
    return s;
}

static void pass_over(copse_monitor *m, const char *path)
{
    m->skipped++;
    if (!copse__monitor_is_first(m->cluster))
        return;
    if (--m->files.found.count > 0) /* else it is the error */
        copse__log(m->log, COPSE_LOG_WARN, "monitor: %s is passed over: %s", path,
                   copse_last_error());
}

/* Restore the newest checkpoint that is intact. Damaged files stay for inspection, and do not count
   as kept ones. `path` NULL: there is none. */
static copse_status take_newest(copse_monitor *m, char **path)
{
    const uint64_t before = m->skipped;
    for (;;) {
        COPSE_TRY(find_newest(m, path));
        if (!*path)
            return m->skipped > before
                       ? copse_note(COPSE_ERR_FORMAT, "and no other checkpoint there is whole: to "
                                                      "start anew, name another place")
                       : COPSE_OK;
        const copse_status s = m->step->f.restore(m->step->user, *path);
        if (s == COPSE_OK)
            return COPSE_OK;
        if (is_damage(s))
            pass_over(m, *path);
        copse__free(m->mem, *path);
        *path = NULL;
        if (!is_damage(s))
            return s;
    }
}

static copse_status monitor_resume(copse_monitor *m)
{
    char *path;
    COPSE_TRY(take_newest(m, &path));
    if (!path)
        return monitor_save(m);
    m->resumed_from = copse__strdup(m->mem, path);
    set_newest(m, path);
    if (copse__monitor_is_first(m->cluster))
        copse__log(m->log, COPSE_LOG_INFO, "monitor: goes on from %s", path);
    return copse_need_memory(m->resumed_from, "monitor");
}

/* ---- recovering ---- */

static copse_status try_again(copse_monitor *m)
{
    if (m->step->f.recover)
        COPSE_TRY(m->step->f.recover(m->step->user));
    COPSE_TRY(m->step->f.restore(m->step->user, m->newest));
    m->completed = m->newest_completed;
    m->recoveries++;
    return COPSE_OK;
}

/* `status` is the result of the step; the last error has its text. */
static copse_status recover_device(copse_monitor *m, copse_status status)
{
    while (status == COPSE_ERR_DEVICE_LOST && m->newest && m->tries < m->retries) {
        m->tries++;
        copse__log(m->log, COPSE_LOG_WARN,
                   "monitor: %s; starting over from step %llu, %s (%llu of %llu)",
                   copse_last_error(), (unsigned long long)m->newest_progress, m->newest,
                   (unsigned long long)m->tries, (unsigned long long)m->retries);
        status = try_again(m);
    }
    if (status != COPSE_ERR_DEVICE_LOST)
        return status;
    return m->newest ? copse_note(status, "after %llu tries; the newest checkpoint is %s",
                                  (unsigned long long)m->tries, m->newest)
                     : copse_note(status, "and no checkpoint is kept to go on from: name a folder "
                                          "or a file for them");
}

/* ---- going on without lost workers ---- */

static bool is_loss(const copse_monitor *m, copse_status s)
{
    return (s == COPSE_ERR_COMM || s == COPSE_ERR_TIMEOUT) && m->cluster &&
           copse_cluster_lost(m->cluster) > 0;
}

/* The remaining workers may be at different steps, and the first worker may be another one. */
static copse_status monitor_rejoin(copse_monitor *m)
{
    struct copse_monitor_decision w = { 0 };
    copse_status s = COPSE_OK;
    char *path;
    COPSE_TRY(m->step->f.recover(m->step->user));
    if (copse__monitor_is_first(m->cluster))
        s = copse__checkpoint_folder_scan(&m->files);
    COPSE_TRY(copse__monitor_broadcast(m->cluster, s, &w));
    COPSE_TRY(take_newest(m, &path));
    if (!path)
        return copse_fail(COPSE_ERR_IO,
                          "monitor: the worker that is the first now does not see the "
                          "checkpoints: keep them where all workers can");
    const bool is_known = m->step->f.progress(m->step->user) == m->newest_progress;
    w.completed = is_known ? m->newest_completed : m->completed;
    const copse_status all = copse__monitor_broadcast(m->cluster, COPSE_OK, &w);
    m->completed = w.completed;
    set_newest(m, path);
    m->recoveries++;
    return all;
}

/* Repeat if more workers are lost meanwhile; each turn has fewer. */
static copse_status recover_workers(copse_monitor *m, copse_status status)
{
    uint32_t size;
    do {
        size = copse_cluster_size(m->cluster);
        copse__log(m->log, COPSE_LOG_WARN, "monitor: %s", copse_last_error());
        status = monitor_rejoin(m);
    } while (is_loss(m, status) && copse_cluster_size(m->cluster) < size);
    size = copse_cluster_size(m->cluster);
    if (status == COPSE_OK)
        copse__log(m->log, COPSE_LOG_WARN, "monitor: %u worker%s on from %s", size,
                   size == 1 ? " goes" : "s go", m->newest);
    return status;
}

static copse_status monitor_recover(copse_monitor *m, copse_status status)
{
    if (m->on_loss == COPSE_LOSS_CONTINUES && is_loss(m, status))
        return recover_workers(m, status);
    const bool is_job = m->cluster && (copse__monitor_is_shared(m->cluster) ||
                                       copse_cluster_servers(m->cluster) > 0);
    return is_job ? status : recover_device(m, status);
}

/* ---- running ---- */

static copse_status run_step(copse_monitor *m)
{
    COPSE_TRY(copse_step_run(m->step));
    m->completed++;
    return save_if_due(m);
}

static copse_status monitor_run(copse_monitor *m, uint64_t goal)
{
    while (m->completed < goal) {
        copse_status s = run_step(m);
        if (s == COPSE_ERR_END) {
            s = m->has_place && !is_saved(m) ? monitor_save(m) : COPSE_OK;
            if (s == COPSE_OK)
                return COPSE_OK;
        }
        if (s != COPSE_OK)
            COPSE_TRY(monitor_recover(m, s));
    }
    return COPSE_OK;
}

copse_status copse_monitor_run(copse_monitor *m, uint64_t steps, uint64_t *done)
{
    if (done)
        *done = 0;
    COPSE_TRY(copse_need("monitor", m));
    const uint64_t before = m->completed;
    const uint64_t goal = steps > UINT64_MAX - before ? UINT64_MAX : before + steps;
    struct copse_callback here = monitor_around(m);
    COPSE_TRY(copse__require_no_replica("copse_monitor_run", m));
    COPSE_TRY(copse__require_no_replica("copse_monitor_run", m->step));
    const copse_status s = copse_callback_call(&here, monitor_run(m, goal));
    if (done && m->completed > before)
        *done = m->completed - before;
    return s;
}

/* ---- life ---- */

static copse_status monitor_check(const copse_step *step, const struct copse_monitor_params *p)
{
    const bool has_place = p->folder || p->file;
    if (p->folder && p->file)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "monitor: checkpoints go to a folder or to a file, not to both");
    if ((p->folder && !*p->folder) || (p->file && !*p->file))
        return copse_fail(COPSE_ERR_ARGUMENT, "monitor: the path for checkpoints is empty");
    if (has_place && !step->f.save)
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "monitor: a place for checkpoints is given, but the step cannot be saved");
    if (!has_place &&
        (p->every_steps || p->every_progress || p->every_seconds != 0.0 || p->keep || p->is_new))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "monitor: checkpoints are wanted, but there is no folder "
                          "or file for them");
    if (p->file && p->keep > 1)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "monitor: one file keeps one checkpoint, not %u; name a folder", p->keep);
    COPSE_TRY(
        copse_need_known("monitor", "answer to a lost worker", p->on_loss, COPSE_LOSS_CONTINUES));
    if (p->on_loss == COPSE_LOSS_CONTINUES && (!has_place || !step->f.recover))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "monitor: to go on without lost workers it needs a place "
                          "for checkpoints and a step that recovers");
    if (!(p->every_seconds >= 0.0) || p->every_seconds > 1e9)
        return copse_fail(COPSE_ERR_ARGUMENT, "monitor: every %g seconds: 0 to 1e9 are possible",
                          p->every_seconds);
    return COPSE_OK;
}

/* The first worker alone: find the checkpoints. */
static copse_status find_checkpoints(copse_monitor *m, const struct copse_monitor_params *p)
{
    char *path;
    COPSE_TRY(copse__checkpoint_folder_scan(&m->files));
    if (!p->is_new || m->files.found.count == 0)
        return COPSE_OK;
    COPSE_TRY(copse__checkpoint_folder_path(&m->files, 0, &path));
    const copse_status s =
        copse_fail(COPSE_ERR_ARGUMENT, "monitor: there is a checkpoint already: %s", path);
    copse__free(m->mem, path);
    return s;
}

static copse_status monitor_begin(copse_monitor *m, const struct copse_monitor_params *p)
{
    struct copse_monitor_decision w = { 0 };
    if (m->on_loss == COPSE_LOSS_CONTINUES && m->cluster && copse_cluster_servers(m->cluster) > 0)
        return copse_fail(
            COPSE_ERR_UNSUPPORTED,
            "monitor: workers with parameter servers go on by themselves when another one is "
            "lost; COPSE_LOSS_CONTINUES is for workers in step");
    if (m->on_loss == COPSE_LOSS_CONTINUES && m->cluster && !copse_cluster_can_regroup(m->cluster))
        return copse_fail(
            COPSE_ERR_UNSUPPORTED,
            "monitor: over %s the job ends with the first worker that is lost: it can "
            "only stop, and be resumed",
            copse_cluster_engine(m->cluster));
    if (!m->has_place)
        return COPSE_OK;
    if (copse__monitor_is_non_chief(m->cluster)) {
        m->is_non_chief = true;
        m->has_place = false;
        return m->step->f.restore(m->step->user, "");
    }
    COPSE_TRY(copse__checkpoint_folder_init(&m->files, m->mem, p->folder, p->file, p->keep));
    const copse_status s = copse__monitor_is_first(m->cluster) ? find_checkpoints(m, p) : COPSE_OK;
    COPSE_TRY(copse__monitor_broadcast(m->cluster, s, &w));
    return monitor_resume(m);
}

static copse_cluster *cluster_of(const copse_step *step, const struct copse_monitor_params *p)
{
    const copse_strategy *st = step->strategy;
    copse_cluster *c = p->cluster ? p->cluster : st ? copse__group_job(&st->group) : NULL;
    return c ? copse_cluster_retain(c) : NULL;
}

copse_status copse_monitor_create(copse_step *step, const struct copse_monitor_params *params,
                                  copse_monitor **out)
{
    static const struct copse_monitor_params none;
    const struct copse_monitor_params *p = params ? params : &none;
    COPSE_TRY(copse_need("monitor", step, out));
    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_monitor_params, params));
    COPSE_TRY(copse__require_no_replica("copse_monitor_create", NULL));
    COPSE_TRY(monitor_check(step, p));
    struct copse_base *base = copse__base(step->ctx);
    copse_monitor *m = copse__alloc(&base->mem, 1, sizeof *m);
    COPSE_TRY(copse_need_memory(m, "monitor"));
    const bool is_default = p->every_seconds == 0.0 && !p->every_steps && !p->every_progress;
    const double seconds = is_default ? SECONDS_DEFAULT : p->every_seconds;
    m->step = copse_step_retain(step);
    m->cluster = cluster_of(step, p);
    m->on_loss = p->on_loss;
    m->mem = &base->mem;
    m->log = &base->log;
    m->has_place = p->folder || p->file;
    m->every_steps = p->every_steps;
    m->every_progress = p->every_progress;
    m->every_ns = (uint64_t)ceil(seconds * 1e9);
    m->retries = p->retries == COPSE_NO_RETRIES ? 0 : p->retries ? p->retries : RETRIES_DEFAULT;
    struct copse_callback here = monitor_around(m);
    const copse_status s = copse_callback_call(&here, monitor_begin(m, p));
    if (s != COPSE_OK)
        copse_monitor_release(&m);
    *out = m;
    return s;
}

void copse_monitor_release(copse_monitor **monitor)
{
    if (!monitor || !*monitor)
        return;
    copse_monitor *m = *monitor;
    if (!copse__callback_may_release(m->log, "copse_monitor_release", m))
        return;
    *monitor = NULL;
    if (m->has_place)
        copse__checkpoint_folder_fini(&m->files);
    copse__free(m->mem, m->resumed_from);
    copse__free(m->mem, m->newest);
    copse_step *step = m->step;
    copse_cluster *cluster = m->cluster;
    copse__free(m->mem, m);
    copse_step_release(&step);
    copse_cluster_release(&cluster);
}

void copse_monitor_describe(const copse_monitor *m, struct copse_monitor_info *out)
{
    if (out)
        *out = (struct copse_monitor_info){ 0 };
    if (out && m)
        *out = (struct copse_monitor_info){ .resumed_from = m->resumed_from,
                                            .newest = m->newest,
                                            .saved = m->saved,
                                            .skipped = m->skipped,
                                            .recoveries = m->recoveries,
                                            .failed = m->failed };
}
