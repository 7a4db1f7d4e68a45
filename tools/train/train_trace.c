/* SPDX-License-Identifier: MIT */
/* The trace of --trace: what the host and the devices of this worker did, and what limited a
   step. */
#include <string.h>

#include "copse/device/trace.h"

#include "tools/common/events.h"
#include "tools/common/plural.h"
#include "tools/common/trace_files.h"
#include "tools/train/train_run.h"

copse_status run_trace_open(struct run *r)
{
    char path[1024];
    if (!r->settings.trace || r->is_traced)
        return COPSE_OK;
    if (strlen(r->settings.trace) > sizeof path - 16)
        return session_set_error(COPSE_ERR_ARGUMENT, "--trace: the path is too long");
    const uint32_t rank = r->cluster ? copse_cluster_rank(r->cluster) : 0;
    trace_file_name(r->settings.trace, rank, path, sizeof path);
    struct train_settings own = r->settings; /* another rank has another path */
    own.trace = path;
    COPSE_TRY(settings_check_files(&own));
    const struct copse_trace_params params = { .path = path, .worker = rank };
    COPSE_TRY(copse_trace_start(r->ctx, &params));
    r->is_traced = true;
    return COPSE_OK;
}

static void print_summary(const struct run *r, const struct copse_trace_summary *s)
{
    printf("trace:      %s (ui.perfetto.dev)\n", r->settings.trace);
    if (s->dropped)
        printf("            %llu later spans had no room in it\n", (unsigned long long)s->dropped);
    printf("            %llu step%s in %.2f s: devices busy %.0f %%; the host waited %.0f %%, data "
           "%.0f %%, upload %.0f %%, exchange %.0f %%, update %.0f %%, compile %.0f %%, host %.0f "
           "%%; limited by: %s\n",
           (unsigned long long)s->steps, plural_end(s->steps), s->seconds, 100 * s->devices,
           100 * s->wait, 100 * s->data, 100 * s->upload, 100 * s->exchange, 100 * s->update,
           100 * s->compile, 100 * s->host, s->limit);
    fflush(stdout); /* a launcher may end this process with the others */
}

copse_status run_trace_close(struct run *r)
{
    struct copse_trace_summary s;
    if (!r->is_traced)
        return COPSE_OK;
    r->is_traced = false;
    const copse_status status = copse_trace_stop(r->ctx, &s);
    if (status != COPSE_OK) {
        char text[1000];
        return session_set_error(status, "--trace: %s",
                                 session_plain(text, sizeof text, copse_last_error()));
    }
    if (is_json(r))
        return event_trace(r->settings.trace, &s);
    if (!is_silent(r) && !r->settings.is_quiet)
        print_summary(r, &s);
    return COPSE_OK;
}
