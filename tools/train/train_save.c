/* SPDX-License-Identifier: MIT */
/* The file of --save. It is replaced only by the parameters of a complete run. Until then they are
   in FILE.partial, which a complete run removes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "copse/train/average.h"

#include "tools/common/events.h"
#include "tools/train/train_run.h"

static bool is_complete(const struct run *r)
{
    return run_is_over(r) && !run_has_diverged(r);
}

bool run_is_saved(const struct run *r)
{
    return r->settings.save && is_complete(r) && !r->unsaved[0];
}

const char *run_save_path(const struct run *r)
{
    static char path[4200];
    snprintf(path, sizeof path, "%s%s", r->settings.save, is_complete(r) ? "" : ".partial");
    return path;
}

static copse_status remove_partial(const struct run *r)
{
    char path[4200];
    snprintf(path, sizeof path, "%s.partial", r->settings.save);
    if (is_silent(r) || system_remove(path) || errno == ENOENT)
        return COPSE_OK;
    return session_set_error(COPSE_ERR_IO, "cannot remove '%s': %s", path, strerror(errno));
}

copse_status run_with_averages(struct run *r, copse_status (*fn)(struct run *r))
{
    COPSE_TRY(copse_trainer_average_begin(r->trainer));
    const copse_status s = fn(r);
    char text[900];
    session_plain(text, sizeof text, s ? session_error() : "");
    const copse_status end = copse_trainer_average_end(r->trainer);
    return s ? session_set_error(s, "%s", text) : end;
}

static copse_status save_model(struct run *r)
{
    return run_save_model(r, run_save_path(r));
}

copse_status run_save_parameters(struct run *r)
{
    if (!r->settings.save || run_is_apart(r))
        return COPSE_OK;
    signals_hold();
    copse_status s = run_is_over(r)              ? run_with_best(r, save_model)
                     : r->settings.saves_average ? run_with_averages(r, save_model)
                                                 : save_model(r);
    if (s == COPSE_OK && is_complete(r))
        s = remove_partial(r);
    signals_release();
    if (s == COPSE_OK)
        r->saved_epoch = r->epoch;
    return s;
}

copse_status run_save_epoch(struct run *r)
{
    const bool was_failing = r->has_write_error;
    const copse_status s = run_save_parameters(r);
    r->unsaved[0] = '\0';
    r->has_write_error = s == COPSE_ERR_IO;
    if (s != COPSE_ERR_IO || (r->cluster && !run_is_served(r)))
        return s;
    if (is_complete(r))
        snprintf(r->unsaved, sizeof r->unsaved, "%s", session_error());
    else if (!was_failing && !is_silent(r))
        fprintf(stderr, "copse train: %s; training goes on\n", session_error());
    return COPSE_OK;
}

void run_show_unwritten(const struct run *r)
{
    struct copse_monitor_info info = { 0 };
    copse_monitor_describe(r->monitor, &info);
    if (is_silent(r))
        return;
    if (r->unwritten[0])
        fprintf(stderr, "copse train: the last checkpoint was not written: %s; the newest is %s\n",
                r->unwritten, info.newest ? info.newest : "missing");
    if (r->unsaved[0] && r->saved_epoch > 0)
        fprintf(
            stderr,
            "copse train: '%s' was not written: %s; '%s.partial' has the parameters of epoch %u\n",
            r->settings.save, r->unsaved, r->settings.save, r->saved_epoch);
    else if (r->unsaved[0])
        fprintf(stderr, "copse train: '%s' was not written: %s\n", r->settings.save, r->unsaved);
}

copse_status run_save_stopped(struct run *r)
{
    const char *path = r->settings.save;
    if (!path || !r->trainer || run_is_apart(r) || is_complete(r))
        return COPSE_OK;
    struct system_file file;
    const bool is_there = system_look(path, &file);
    if (copse_trainer_steps(r->trainer) == 0) {
        snprintf(r->stopped_text, sizeof r->stopped_text, "; '%.1000s' was not written", path);
        return COPSE_OK;
    }
    COPSE_TRY(run_save_parameters(r));
    snprintf(r->stopped_text, sizeof r->stopped_text,
             "; '%.1000s.partial' has its parameters, '%.1000s' %s", path, path,
             is_there ? "is unchanged" : "was not written");
    return is_json(r) ? event_partial(run_save_path(r), copse_trainer_steps(r->trainer)) : COPSE_OK;
}
