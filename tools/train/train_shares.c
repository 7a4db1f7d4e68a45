/* SPDX-License-Identifier: MIT */
/* The shares of the devices of a run: from --shares, the checkpoint or an earlier run, or measured.
   A device without a share is not opened. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/device/choice.h"

#include "tools/common/events.h"
#include "tools/common/plural.h"
#include "tools/train/train_run.h"

/* ---- --shares ---- */

/* "4,1.5,0": numbers from 0 on, one above 0. Returns how many there are, 0: it is no such list. */
static size_t parse_list(const char *text, float weights[COPSE_MAX_REPLICAS])
{
    size_t count = 0;
    bool has_any = false;
    for (const char *p = text; count < COPSE_MAX_REPLICAS; p++) {
        char *end;
        if ((*p < '0' || *p > '9') && *p != '.')
            return 0;
        weights[count] = strtof(p, &end);
        if (end == p || !(weights[count] >= 0.0f) || !isfinite(weights[count]))
            return 0;
        has_any |= weights[count++] > 0.0f;
        if (*end != ',')
            return *end == '\0' && has_any ? count : 0;
        p = end;
    }
    return 0;
}

const char *shares_check(const char *text)
{
    float weights[COPSE_MAX_REPLICAS];
    return !text || strcmp(text, "equal") == 0 || strcmp(text, "measured") == 0 ||
                   parse_list(text, weights) > 0
               ? NULL
               : "--shares: equal, measured, or a number from 0 on for each device, such as 4,1";
}

/* ---- which shares ---- */

static bool is_in_step(const struct run *r)
{
    const int strategy = r->settings.strategy.at->value;
    return !r->cluster && !run_is_served(r) && !r->is_evaluator &&
           (strategy == STRATEGY_AUTO || strategy == STRATEGY_MIRRORED);
}

static const struct copse_device_info *info_of(const struct run *r, const char *id)
{
    const struct copse_device_info *list;
    size_t count;
    copse_context_devices(r->ctx, &list, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].id, id) == 0)
            return &list[i];
    return NULL;
}

/* Replicas on the reference check others; nothing is gained by measuring them. */
static bool has_reference(const struct run *r, const struct mixture *m)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct copse_device_info *d = info_of(r, m->ids[i]);
        if (!d || d->kind == COPSE_DEVICE_REFERENCE)
            return true;
    }
    return false;
}

static void set_equal(struct mixture *m)
{
    m->source = SHARES_EQUAL;
    for (size_t i = 0; i < m->count; i++)
        m->weights[i] = 1.0f;
}

static copse_status take_given(const struct run *r, struct mixture *m)
{
    float weights[COPSE_MAX_REPLICAS] = { 0 };
    const size_t count = parse_list(r->settings.shares, weights);
    if (count != m->count)
        return session_set_error(
            COPSE_ERR_ARGUMENT, "--shares %s has %zu number%s, and --devices %s means %zu device%s",
            r->settings.shares, count, plural_end(count), r->settings.devices, m->count,
            plural_end(m->count));
    memcpy(m->weights, weights, sizeof weights);
    m->source = SHARES_GIVEN;
    return COPSE_OK;
}

bool shares_text(const struct run *r, char *text, size_t room)
{
    const struct mixture *m = &r->mixture;
    size_t at = 0;
    for (size_t i = 0; i < m->count && at < room; i++)
        at += (size_t)snprintf(text + at, room - at, "%s%s=%.9g", i ? " " : "", m->ids[i],
                               (double)m->weights[i]);
    return is_in_step(r) && m->count > 0 && at < room;
}

/* The shares of the run that is resumed, if the text of its checkpoint has this list of devices. */
static bool match_checkpoint(const char *text, struct mixture *m)
{
    char id[sizeof *m->ids];
    float weights[COPSE_MAX_REPLICAS] = { 0 };
    const char *at = text;
    size_t count = 0;
    for (int used = 0; count < m->count; at += used, count++) {
        if (sscanf(at, " %31[^=]=%f%n", id, &weights[count], &used) != 2 ||
            strcmp(id, m->ids[count]) != 0)
            return false;
    }
    if (*at != '\0')
        return false;
    memcpy(m->weights, weights, sizeof weights);
    m->source = SHARES_CHECKPOINT;
    return true;
}

/* "auto" leaves a slower kind of device out, which takes part where an earlier run of the same job has
   measured that it pays. */
static copse_status widen_auto(const struct run *r, struct mixture *m)
{
    const struct copse_device_info *list;
    size_t count;
    copse_context_devices(r->ctx, &list, &count);
    for (size_t i = 0; i < count && m->count < COPSE_MAX_REPLICAS; i++) {
        struct copse_device_choice choice;
        COPSE_TRY(copse_device_choice(r->ctx, list[i].id, &choice));
        if (choice.can_join)
            memcpy(m->ids[m->count++], list[i].id, sizeof list[i].id);
    }
    return COPSE_OK;
}

enum { SHARES_ROOM = COPSE_MAX_REPLICAS * 48 };

/* The devices and shares of the run that is resumed, as in its checkpoint. */
static bool read_checkpoint(struct run *r, char *text, size_t room)
{
    char path[4200];
    copse_checkpoint *file;
    if (!r->settings.is_resume || !run_find_checkpoint(r, path, sizeof path) ||
        copse_checkpoint_open(r->ctx, path, &file) != COPSE_OK)
        return false; /* whoever restores it says why */
    const char *line = run_find(file, SHARES_KEY);
    const bool is_found = line && strlen(line) < room;
    if (is_found)
        strcpy(text, line);
    copse_checkpoint_release(&file);
    return is_found;
}

/* One of the two lists, whichever the run that is resumed had. */
static bool take_checkpoint(struct run *r, struct mixture *m, const struct mixture *wider)
{
    char text[SHARES_ROOM];
    struct mixture joined = *wider;
    if (!read_checkpoint(r, text, sizeof text))
        return false;
    if (match_checkpoint(text, m))
        return true;
    if (!match_checkpoint(text, &joined))
        return false;
    *m = joined;
    return true;
}

/* Shares decide the bits, so a resumed run with others is told. */
static void tell_others(struct run *r, const struct mixture *m)
{
    char text[SHARES_ROOM];
    struct mixture before = *m;
    if (read_checkpoint(r, text, sizeof text) && match_checkpoint(text, &before) &&
        memcmp(before.weights, m->weights, sizeof before.weights) != 0)
        fprintf(stderr,
                "copse train: warning: the run that is resumed had the shares %s; with others its "
                "next steps have other bits\n",
                text);
}

static bool is_equal(const struct mixture *m)
{
    for (size_t i = 0; i < m->count; i++)
        if (m->weights[i] != 1.0f)
            return false;
    return true;
}

static copse_status join_recorded(struct run *r, struct mixture *m, struct mixture *wider)
{
    bool is_found = false;
    if (wider->count == m->count)
        return COPSE_OK;
    COPSE_TRY(shares_recall(r, wider, &is_found));
    for (size_t i = m->count; is_found && i < wider->count; i++)
        if (wider->weights[i] > 0.0f) {
            *m = *wider;
            return COPSE_OK;
        }
    return COPSE_OK;
}

static copse_status settle_measured(struct run *r, struct mixture *m)
{
    bool is_found;
    COPSE_TRY(shares_recall(r, m, &is_found));
    if (is_found)
        return COPSE_OK;
    COPSE_TRY(shares_measure(r, m));
    if (!m->has_failures)
        shares_keep(r, m);
    return COPSE_OK;
}

copse_status shares_settle(struct run *r, struct mixture *m)
{
    const char *text = r->settings.shares;
    const bool wants_equal =
                   bits_are_portable(&r->settings.bits) || (text && strcmp(text, "equal") == 0),
               wants_measured = text && strcmp(text, "measured") == 0;
    set_equal(m);
    if (wants_equal) {
        tell_others(r, m);
        return COPSE_OK;
    }
    if (text && !is_in_step(r))
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "--shares %s: the replicas of one process with --strategy "
                                 "mirrored have shares; leave it out",
                                 text);
    if (text && !wants_measured) {
        COPSE_TRY(take_given(r, m));
        tell_others(r, m);
        return COPSE_OK;
    }
    if (!is_in_step(r))
        return COPSE_OK;
    struct mixture wider = *m, resumed = *m;
    if (!text && strcmp(r->settings.devices, "auto") == 0)
        COPSE_TRY(widen_auto(r, &wider));
    /* a run with equal shares may be resumed with --shares measured */
    if (take_checkpoint(r, &resumed, &wider) && !(wants_measured && is_equal(&resumed))) {
        *m = resumed;
        if (is_equal(m) && has_reference(r, m)) /* the default */
            m->source = SHARES_EQUAL;
        return COPSE_OK;
    }
    COPSE_TRY(join_recorded(r, m, &wider));
    if (m->source == SHARES_RECORDED || m->count < 2 || (!wants_measured && has_reference(r, m)))
        return COPSE_OK;
    return settle_measured(r, m);
}

/* ---- the replicas ---- */

size_t shares_replicas(const struct mixture *m, const char *names[COPSE_MAX_REPLICAS],
                       float weights[COPSE_MAX_REPLICAS])
{
    size_t count = 0;
    for (size_t i = 0; i < m->count; i++) {
        if (!(m->weights[i] > 0.0f))
            continue;
        names[count] = m->ids[i];
        weights[count++] = m->weights[i];
    }
    return count;
}

bool shares_are_weighted(const struct mixture *m)
{
    float first = 0.0f;
    for (size_t i = 0; i < m->count; i++) {
        if (m->weights[i] > 0.0f && first > 0.0f && m->weights[i] != first)
            return true;
        first = m->weights[i] > 0.0f ? m->weights[i] : first;
    }
    return false;
}

/* ---- what is shown ---- */

static const char *const sources[] = {
    [SHARES_EQUAL] = "equal",
    [SHARES_GIVEN] = "given",
    [SHARES_MEASURED] = "measured",
    [SHARES_RECORDED] = "measured by an earlier run of this job",
    [SHARES_CHECKPOINT] = "of the run that is resumed",
};

static bool is_repeated(const struct mixture *m, size_t index)
{
    for (size_t i = 0; i < m->count; i++)
        if (i != index && strcmp(m->ids[i], m->ids[index]) == 0)
            return true;
    return false;
}

static void show_lines(const struct run *r, const struct mixture *m)
{
    printf("shares   ");
    for (size_t i = 0; i < m->count; i++)
        printf("%s%s %g", i ? ", " : "", m->ids[i], (double)m->weights[i]);
    printf(" (%s", sources[m->source]);
    for (size_t i = 0; m->source == SHARES_MEASURED && i < m->count; i++)
        if (i == 0 || strcmp(m->ids[i], m->ids[i - 1]) != 0)
            printf("%s%s %.0f", i ? ", " : ": alone ", m->ids[i], m->alone[i]);
    if (m->source == SHARES_MEASURED)
        printf("; with these shares %.0f samples/s", m->together);
    if (m->source == SHARES_RECORDED)
        printf("; `copse tune --forget %s` forgets it", m->ids[0]);
    if (m->has_failures)
        printf("; a measurement failed: the next run measures again");
    else if (m->source == SHARES_MEASURED && r->settings.how.no_cache)
        printf("; with --no-cache the next run measures again");
    printf(")\n");
    for (size_t i = 0; i < m->count; i++) {
        if (m->weights[i] > 0.0f)
            continue;
        printf("         %s", m->ids[i]);
        if (is_repeated(m, i))
            printf(" (replica %u)", (unsigned)i);
        printf(" gets no examples");
        if (m->source == SHARES_MEASURED && m->with[i] > 0.0)
            printf(": with it %.0f samples/s, without it %.0f", m->with[i], m->together);
        else if (m->source == SHARES_MEASURED && m->alone[i] > 0.0)
            printf(": alone it has %.0f samples/s", m->alone[i]);
        else if (m->source == SHARES_MEASURED)
            printf(": its measurement failed");
        printf("%s\n", m->source == SHARES_GIVEN ? "" : "; --shares equal uses it");
    }
}

copse_status shares_show(const struct run *r, const struct mixture *m)
{
    if (m->source == SHARES_EQUAL || m->count < 2)
        return COPSE_OK;
    if (is_json(r) && r->fold <= 1)
        return event_shares(m, sources[m->source]);
    if (is_talking(r))
        show_lines(r, m);
    return COPSE_OK;
}
